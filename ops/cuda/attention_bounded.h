/* What host and device agree on of the 16-bit attention kernels that Vulkan can launch too, whose blocks get by with
 * less shared memory (exec/vk/vk_image.c): dim up to 64, 64 rows a block, gradients walking over 32 lanes at a time. C
 * and CUDA. */
#ifndef ROTA_OPS_CUDA_ATTENTION_BOUNDED_H
#define ROTA_OPS_CUDA_ATTENTION_BOUNDED_H

#define ROTA_CUDA_ATTENTION_BOUNDED_DIM 64u
#define ROTA_CUDA_ATTENTION_BOUNDED_ROWS 64u
#define ROTA_CUDA_ATTENTION_BOUNDED_LANES 32u
/* Rows, and two tiles of keys and of values. */
#define ROTA_CUDA_ATTENTION_FORWARD_SHARED(dim, rows) (((rows) + 4u * 64u) * (dim)*2u)
/* Two kinds of rows, two tiles of each kind of lanes, and the lanes' stats. */
#define ROTA_CUDA_ATTENTION_BACKWARD_SHARED(dim, lanes)                                                      \
    ((2u * 64u + 4u * (lanes)) * (dim)*2u + 2u * (lanes)*8u)

#endif
