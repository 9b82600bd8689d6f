/* A VkDevice for its compiler alone: pipelines are made and asked what became of them, and nothing runs. */
#ifndef ROTA_TESTS_OFFLINE_DEVICE_H
#define ROTA_TESTS_OFFLINE_DEVICE_H

#include <stdint.h>

#include "exec/vk/vk_instance.h"
#include "exec/vk/vk_physical.h"
#include "graph/kernel.h"

/* A shader with its specialization constants: the masks of slots, then the kernel's own. */
typedef struct offline_pipeline {
    const rota_kernel *kernel;
    uint32_t spec[2 + ROTA_KERNEL_SPEC_MAX];
    uint32_t row, in_row; /* its shader, and the how manieth of it */
} offline_pipeline;

/* What the compiler says of its work; 0 what it does not say. */
typedef struct offline_result {
    uint64_t registers, scalar_registers; /* of an invocation, and of all that run together */
    uint64_t spilled, scratch_bytes;      /* registers kept in memory; memory of an invocation, arrays too */
    uint64_t shared_bytes, code_bytes;
    uint32_t compiled; /* pipelines */
} offline_result;

typedef struct offline_device {
    rota_vk_instance instance;
    rota_vk_physical physical;
    VkDevice handle;
    rota_vk_table vk;
    PFN_vkGetPipelineExecutablePropertiesKHR executables;
    PFN_vkGetPipelineExecutableStatisticsKHR statistics;
    VkPipelineLayout layout;
    uint32_t push_bytes;
    char name[64];
} offline_device;

/* The first device of the environment's drivers, with what rota's executor switches on. UNSUPPORTED: there is none, or
 * rota can't use it, or it has no VK_KHR_pipeline_executable_properties. */
rota_status rota_offline_open(offline_device *out_device);
void rota_offline_close(offline_device *device);
/* Whether the executor would give it the kernel: by features and subgroup sizes. */
bool rota_offline_runs(const offline_device *device, const rota_kernel *kernel);
rota_status rota_offline_compile(const offline_device *device, const offline_pipeline *pipeline,
                                 offline_result *out_result);

#endif
