/* What host and kernels must agree about of the norms' gradients in one pass. C and CUDA C++. */
#ifndef ROTA_OPS_CUDA_NORM_GRADIENT_H
#define ROTA_OPS_CUDA_NORM_GRADIENT_H

/* Threads of a block: twelve warps, of which a row has one to four. */
enum { ROTA_CUDA_NORM_GRADIENT_THREADS = 384 };

#endif
