/* Kernels of rota's CUDA images, put on a stream by a library node that needs one. Internal; not installed.
 */
#ifndef ROTA_OPS_CUDA_IMAGE_H
#define ROTA_OPS_CUDA_IMAGE_H

#include "graph/kernel.h"
#include "ops/cuda/driver.h"

/* Puts the kernel's image, which prepares nothing and takes no slots, on call->stream with these operands and
 * parameters. A CUDA context is current. Any thread; may block in the driver when an image is loaded first.
 */
rota_status rota_cuda_image_run(const rota_kernel *kernel, const rota_cuda_call *call,
                                const uint64_t *operands, const uint64_t *operand_bytes, const void *params);

/* The same of the kernel that `kernel` selects for a node with these parameters, whose operands are these of the
 * call's. */
rota_status rota_cuda_image_run_node(const rota_kernel *kernel, const rota_cuda_call *call,
                                     const uint8_t *operands, const void *params);

/* A kernel of an image, in the current context, to be launched by the caller with so much dynamic shared memory;
 * UNSUPPORTED if the driver allows less. Any thread; may block in the driver when an image is loaded first, which is
 * then there for the life of the process. */
rota_status rota_cuda_image_function(const void *image, const char *entry, uint32_t shared_bytes,
                                     CUfunction *out_function);

#endif
