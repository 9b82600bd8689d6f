/* What the copy engine of a Hopper GPU is told of an operand (hopper.cuh has the kernels' side). Internal; not
 * installed. */
#ifndef ROTA_OPS_CUDA_TENSOR_MAP_H
#define ROTA_OPS_CUDA_TENSOR_MAP_H

#include <stdint.h>
#include "base/status.h"
#include "ops/tensor.h"

/* The words of a CUtensorMap, to which CUDA's headers give a different alignment by version. */
#define ROTA_TENSOR_MAP_WORDS 16

/* Of f16 or bf16 elements: those of the first extent next to one another, those of the others stride_bytes apart;
 * `box` of them are copied at a time, rows of 128 bytes swizzled. What is beyond an extent is zeros from, and dropped
 * by, the copy engine. Any thread. */
rota_status rota_tensor_map_make(rota_dtype dtype, uint32_t rank, uint64_t address, const uint64_t *extents,
                                 const uint64_t *stride_bytes, const uint32_t *box,
                                 uint64_t out_map[ROTA_TENSOR_MAP_WORDS]);

#endif
