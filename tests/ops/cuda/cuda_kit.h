/* A CUDA device for tests of what ops put on a stream, by the driver alone: its primary context, one stream,
 * memory. */
#ifndef ROTA_TESTS_CUDA_KIT_H
#define ROTA_TESTS_CUDA_KIT_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"

typedef struct cuda_kit {
    rota_cuda_target target;
    void *stream;
    char name[128], driver[32];
} cuda_kit;

/* A product of whole matrices, one batch. */
rota_matmul_params cuda_kit_product(uint32_t m, uint32_t n, uint32_t k, uint32_t flags, uint32_t c_dtype);

/* NULL, or why there is no device. The context stays current on this thread until cuda_kit_close. */
const char *cuda_kit_open(cuda_kit *kit);
void cuda_kit_close(cuda_kit *kit);

/* The test fails where the driver does. Memory is filled with 0xff bytes (NaN). */
uint64_t cuda_kit_alloc(cuda_kit *kit, uint64_t size_bytes);
void cuda_kit_free(cuda_kit *kit, uint64_t address);
void cuda_kit_write(cuda_kit *kit, uint64_t address, const void *data, uint64_t size_bytes);
void cuda_kit_read(cuda_kit *kit, uint64_t address, void *data, uint64_t size_bytes);
void cuda_kit_finish(cuda_kit *kit);

/* What is put on the stream in between goes into a graph, which is then run once. */
void cuda_kit_capture_begin(cuda_kit *kit);
void cuda_kit_capture_end_and_run(cuda_kit *kit);

#endif
