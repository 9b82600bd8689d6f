/* The CUDA half of the built-in kernels: initializers for rota_kernel.cuda, for those who define kernel
 * objects. */
#ifndef ROTA_OPS_CUDA_KERNELS_CUDA_H
#define ROTA_OPS_CUDA_KERNELS_CUDA_H

#include "cuda/along.h"
#include "cuda/attention.h"
#include "cuda/attention_backward.h"
#include "cuda/batch_norm.h"
#include "cuda/binary.h"
#include "cuda/conv.h"
#include "cuda/copy.h"
#include "cuda/elementwise.h"
#include "cuda/embedding.h"
#include "cuda/gelu.h"
#include "cuda/length.h"
#include "cuda/matmul.h"
#include "cuda/matmul_half.h"
#include "cuda/norm.h"
#include "cuda/optimizer.h"
#include "cuda/pool.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"
#include "cuda/scaled_matmul.h"
#include "cuda/sort.h"
#include "cuda/unary.h"
#include "ops/cuda/conv_cudnn.h"
#include "ops/cuda/launch.h"

/* Without the toolkit's headers there is no CUDA executor either. */
#ifdef ROTA_HAVE_CUDA
#include "ops/cuda/matmul_cuda.h"
#include "ops/cuda/scaled_matmul_cuda.h"
#define ROTA_CUDA_SELECT_MATMUL(name) .cuda.select = rota_cuda_select_##name
#else
#define ROTA_CUDA_SELECT_MATMUL(name) .cuda.select = NULL
#endif

/* A kernel of an image; further members may follow. */
#define ROTA_CUDA_KERNEL(name, image_name)                                                                   \
    ROTA_CUDA_IMAGE_##image_name, .entry = ROTA_CUDA_ENTRY_##image_name(name),                               \
                                  .launch = rota_cuda_launch_##name

#endif
