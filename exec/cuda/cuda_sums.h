/* Sums of what ranks of one process have (exec_sums.cu): what its kernels take, in C and CUDA C, and its image.
 * Internal. */
#ifndef ROTA_EXEC_CUDA_CUDA_SUMS_H
#define ROTA_EXEC_CUDA_CUDA_SUMS_H

#include <stdint.h>

#define ROTA_CUDA_SUMS_MAX 8
#define ROTA_CUDA_SUMS_THREADS 256 /* of a block; any number of blocks */

/* to[i] = (from[0][i] + from[1][i] + ...) / divisor, of `count` elements; `to` may be one of them. */
typedef struct rota_cuda_sums {
    uint64_t to, from[ROTA_CUDA_SUMS_MAX], count;
    uint32_t ranks;
    float divisor;
} rota_cuda_sums;

#ifndef __CUDACC__
/* With the entries rota_sums_f32, rota_sums_f16 and rota_sums_bf16. NULL: this build has no kernels. */
const void *rota_cuda_sums_image(void);
#endif

#endif
