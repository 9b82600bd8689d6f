/* The built-in kernels. Ops (ops/ops.h) record them; a program may record them directly with rota_kernel_find
 * and rota_record_kernel. What each computes, with its operands and parameters, is in kernel_params.h.
 *
 * Rules that hold for all of them:
 *   - operands are listed as name:mode, in access order; the address is the first element's (a multiple of
 * 4);
 *   - arrays are f32 (or of a dtype in the parameters) and contiguous unless strides are among the
 * parameters; strides are in elements;
 *   - every field is 4 bytes, or two are, and 8 + 8 * operands + sizeof(params) <= 128 (Vulkan's guaranteed push
 * constants); a fixed-size array in a struct is padded with extent 1 and stride 0 in FRONT (the innermost
 * dimension is the last element), so a loop may always run over all of them;
 *   - an index or label outside its table fails the node on the CPU executor, naming position and value; a
 * GPU kernel can't fail, and writes NaN in the place of the result (index_add: skips the row);
 *   - sums have a fixed order per device that depends on the parameters only, never on workers or timing;
 * that of a matrix product on a CUDA device comes from the kernel that was measured to be the fastest, which
 * stays for the life of the process, and with its cache folder for as long as driver and libraries do;
 *   - an "absent" optional operand is bound to the range of another read operand and the flag says not to
 * read it. */
#ifndef ROTA_OPS_KERNELS_H
#define ROTA_OPS_KERNELS_H

#include "../graph/kernel.h"
#include "attention_drop_params.h"
#include "kernel_params.h"
#include "window_params.h"
#include "tensor.h"

/* A built-in kernel by its name, by which kernel_params.h describes it ("matmul"); NULL if there is none.
 * Static: compared by address, and never released. Wait-free; linear in the kernels there are, so keep what
 * it gives. */
ROTA_API const rota_kernel *rota_kernel_find(const char *name);

/* Whether this library was built with the kernels' CUDA images (with nvcc). Wait-free. */
ROTA_API bool rota_kernels_have_cuda_images(void);

#endif
