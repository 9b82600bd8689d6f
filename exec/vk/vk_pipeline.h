/* Pipelines: see vk_pipeline.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_PIPELINE_H
#define ROTA_EXEC_VK_VK_PIPELINE_H

#include <pthread.h>
#include <stdbool.h>
#include "exec/exec.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;
typedef struct rota_vk_image rota_vk_image;

typedef struct rota_vk_pipeline {
    struct rota_vk_pipeline *next; /* in its bucket */
    uint64_t hash;
    VkPipeline handle;
    /* The key. */
    uint32_t *words; /* a copy: the kernel may be gone when another comes with equal hash */
    size_t size_bytes;
    char *entry;
    uint32_t slot_mask, bind_mask, spec_count, subgroup_size;
    uint32_t spec[ROTA_KERNEL_SPEC_MAX];
} rota_vk_pipeline;

#define ROTA_VK_PIPELINE_BUCKETS 256u

typedef struct rota_vk_pipeline_key {
    const rota_kernel *kernel;
    uint32_t slot_mask, bind_mask;
    uint32_t spec[ROTA_KERNEL_SPEC_MAX];
} rota_vk_pipeline_key;

/* Pipelines, images and whether the cache is dirty; the lock is held while the driver compiles, which may
 * take seconds, so nothing that runs or completes work takes it. */
typedef struct rota_vk_compiled_shared {
    pthread_mutex_t lock;
    VkPipelineCache cache;
    bool cache_dirty;
    rota_vk_pipeline *pipelines[ROTA_VK_PIPELINE_BUCKETS];
    rota_vk_image *images;
} rota_vk_compiled_shared;

typedef struct rota_vk_shader {
    const uint32_t *words;
    size_t size_bytes;
    const char *entry;
    const VkSpecializationInfo *specialization; /* NULL: none */
    uint32_t subgroup_size;                     /* 0: as the device has it */
} rota_vk_shader;

/* A compute pipeline of the device's cache, which is the caller's; of a failure, the driver's call that it is of. The
 * driver compiles meanwhile: see above. */
VkResult rota_vk_compute_pipeline(const rota_vk_device *device, const rota_vk_shader *shader,
                                  VkPipelineLayout layout, VkPipeline *out_pipeline, const char **out_call);

/* The pipeline for a key, made when it is the first use. Blocks in the driver's compiler, which serves one
 * caller at a time. */
rota_status rota_vk_pipeline_get(rota_vk_device *device, const rota_vk_pipeline_key *key,
                                 const rota_vk_pipeline **out_pipeline);
void rota_vk_pipelines_free(rota_vk_device *device);

#endif
