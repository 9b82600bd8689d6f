/* Kernels of the CUDA stand-in: launches with copies of their parameters, run as C functions. */
#ifndef ROTA_TESTS_CUDA_STUB_KERNELS_H
#define ROTA_TESTS_CUDA_STUB_KERNELS_H

#include <stdint.h>
#include "graph/kernel.h"

#define STUB_PARAMETERS_MAX 3

typedef struct stub_kernel {
    const char *entry;
    const rota_kernel *kernel; /* whose C function runs; NULL: fn */
    void (*fn)(void *const *params);
    uint32_t param_count, param_bytes[STUB_PARAMETERS_MAX];
} stub_kernel;

typedef struct stub_launch {
    const stub_kernel *kernel; /* NULL: none */
    void *params[STUB_PARAMETERS_MAX];
} stub_launch;

stub_kernel stub_kernel_of(const rota_kernel *kernel);
stub_launch stub_launch_new(const stub_kernel *kernel, void *const *params);
stub_launch stub_launch_copy(const stub_launch *launch);
void stub_launch_free(stub_launch *launch);
/* By so many threads at the most, of an item each where it is a C function's. */
void stub_launch_run(const stub_launch *launch, uint64_t threads);

/* What kernels call to set the value of a conditional node's handle. */
void stub_set_conditional(uint64_t handle, uint32_t value);
/* What they call to set the grid of a kernel node. */
void stub_set_groups(uint64_t device_node, uint32_t groups);

/* The executor's own (exec_helpers.cu, exec_decide.cu). */
extern const stub_kernel stub_own_kernels[];
extern const uint32_t stub_own_kernel_count;

#endif
