/* What is known of a device, public part of the executor contract. */
#ifndef ROTA_EXEC_DEVICE_H
#define ROTA_EXEC_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include "../base/sized.h"
#include "../graph/kernel.h"

typedef enum rota_device_class {
    ROTA_DEVICE_GPU,          /* discrete, integrated or virtual GPU */
    ROTA_DEVICE_CPU,          /* the CPU executor */
    ROTA_DEVICE_SOFTWARE_GPU, /* a GPU interface run by the CPU, such as lavapipe */
    ROTA_DEVICE_TEST          /* stands in for a device in tests; never a default */
} rota_device_class;

typedef enum rota_device_feature {
    ROTA_FEATURE_F16_STORAGE = 1u << 0,
    ROTA_FEATURE_F16_ARITHMETIC = 1u << 1,
    ROTA_FEATURE_COOPERATIVE_MATRIX = 1u << 2,      /* KHR, f16 in, f32 accumulation */
    ROTA_FEATURE_COOPERATIVE_MATRIX_BF16 = 1u << 3, /* KHR, bf16 in, f32 accumulation */
    ROTA_FEATURE_COOPERATIVE_MATRIX_2 = 1u << 4,    /* NV: workgroup scope, tensor addressing, per element */
    ROTA_FEATURE_SUBGROUP_SIZE_CONTROL = 1u << 5,
    ROTA_FEATURE_INT64_ATOMICS = 1u << 6,
    ROTA_FEATURE_INT8_STORAGE = 1u << 7,
    ROTA_FEATURE_CUDA_IMAGES = 1u << 8, /* exec/vk: launches CUDA images from command buffers */
    ROTA_FEATURE_F64 = 1u << 9          /* doubles in kernels */
} rota_device_feature;

typedef struct rota_device_info {
    size_t struct_size; /* sizeof, by ROTA_DEVICE_INFO() */
    char id[16];        /* "cpu", "vk:0": what --device takes */
    char name[256];     /* the vendor's name of it */
    char driver[256];   /* driver name and version */
    rota_exec_kind kind;
    rota_device_class device_class;
    bool usable; /* false: `missing` says what it lacks */
    char missing[256];
    uint32_t features; /* rota_device_feature bits */
    uint64_t memory_bytes;
    uint64_t max_allocation_bytes;            /* of one allocation; arenas are split at it */
    uint32_t compute_units;                   /* SMs, cores; 0: unknown */
    uint32_t compute_queues, transfer_queues; /* real ones; 0 transfer queues: none apart from compute */
    uint32_t subgroup_size;
    uint32_t max_push_constant_bytes; /* 0: no such limit */
} rota_device_info;
#define ROTA_DEVICE_INFO(...) ROTA_SIZED(rota_device_info, __VA_ARGS__)

#endif
