/* The image of exec_sums.cu. */
#include "exec/cuda/cuda_sums.h"

#include "cuda/exec_sums.h"
#include "exec/cuda/cuda_api.h"
#include "graph/kernel.h"

#if ROTA_CUDA_HAVE_exec_sums
static const rota_kernel_cuda sums = {ROTA_CUDA_IMAGE_exec_sums};
#else
static const rota_kernel_cuda sums = {.image = NULL};
#endif

const void *rota_cuda_sums_image(void) {
    /* The tests' stand-in has kernels of its own for any image. */
    return !sums.image && rota_cuda_api_is_replaced() ? "" : sums.image;
}
