/* The same of several small tensors as one node (fuse_many.c). On CUDA devices alone. Internal. */
#ifndef ROTA_OPS_CUDA_MANY_CUDA_H
#define ROTA_OPS_CUDA_MANY_CUDA_H

#include "graph/graph.h"
#include "ops/cuda/many_params.h"

/* ---- many_adamw: of each tensor p:READWRITE, g:READ, m:READWRITE, v:READWRITE, factor:READ, half:WRITE, as of adamw;
 * of one that has no half, g is bound to it, to be read.
 * ---- many_cast: of each x:READ, y:WRITE, as of cast. Operands of tensors that are not there are bound to what is
 * read anyway. ---- */
extern const rota_kernel rota_cuda_many_adamw, rota_cuda_many_cast;

bool rota_cuda_many_takes(const rota_cuda_target *target);

#endif
