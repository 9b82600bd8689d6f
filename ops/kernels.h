/* The built-in kernels. Ops (ops/ops.h) record them; a program may record them directly with rota_kernel_find
 * and rota_record_kernel. What each computes, with its operands and parameters, is in kernel_params.h.
 *
 * Rules that hold for all of them:
 *   - operands are listed as name:mode, in access order; the address is the first element's (a multiple of
 * 4);
 *   - arrays are f32 (or of a dtype in the parameters) and contiguous unless strides are among the
 * parameters; strides are in elements;
 *   - every field is 4 bytes, and 8 + 8 * operands + sizeof(params) <= 128 (Vulkan's guaranteed push
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
#include "kernel_params.h"
#include "tensor.h"

/* Every built-in kernel: rota_kernel_find("<name>"), shader ops/vk/<name>.comp, entry <name> of an image of
 * ops/cuda. */
#define ROTA_KERNEL_LIST(X)                                                                                  \
    X(unary)                                                                                                 \
    X(unary_backward)                                                                                        \
    X(binary)                                                                                                \
    X(binary_backward)                                                                                       \
    X(where)                                                                                                 \
    X(copy_strided)                                                                                          \
    X(cast)                                                                                                  \
    X(reduce)                                                                                                \
    X(max_backward)                                                                                          \
    X(gather)                                                                                                \
    X(scatter_add)                                                                                           \
    X(one_hot)                                                                                               \
    X(top_k)                                                                                                 \
    X(cumulative_sum)                                                                                        \
    X(variance)                                                                                              \
    X(variance_backward)                                                                                     \
    X(matmul)                                                                                                \
    X(matmul_f16)                                                                                            \
    X(matmul_bf16)                                                                                           \
    X(embedding)                                                                                             \
    X(embedding_backward)                                                                                    \
    X(softmax)                                                                                               \
    X(softmax_backward)                                                                                      \
    X(causal_mask)                                                                                           \
    X(layernorm)                                                                                             \
    X(layernorm_backward)                                                                                    \
    X(layernorm_backward_weight)                                                                             \
    X(residual_layernorm)                                                                                    \
    X(rmsnorm)                                                                                               \
    X(rmsnorm_backward)                                                                                      \
    X(rmsnorm_backward_weight)                                                                               \
    X(batch_norm_sums)                                                                                       \
    X(batch_norm_update)                                                                                     \
    X(batch_norm)                                                                                            \
    X(batch_norm_backward)                                                                                   \
    X(rope)                                                                                                  \
    X(cross_entropy)                                                                                         \
    X(cross_entropy_mean)                                                                                    \
    X(cross_entropy_backward)                                                                                \
    X(attention)                                                                                             \
    X(attention_backward_prepare)                                                                            \
    X(attention_backward_query)                                                                              \
    X(attention_backward_key_value)                                                                          \
    X(dropout)                                                                                               \
    X(index_add)                                                                                             \
    X(global_norm)                                                                                           \
    X(adamw)                                                                                                 \
    X(momentum)                                                                                              \
    X(loss_scale)                                                                                            \
    X(check_finite)

/* Kernels that run as one, or as one call of a library, or as several of the list, as the device has it. */
#define ROTA_KERNEL_COMPOSITE_LIST(X)                                                                        \
    X(linear) X(linear_gradient) X(attention_backward) X(layernorm_gradient) X(rmsnorm_gradient)

/* A built-in kernel of either list by its name ("matmul"); NULL if there is none. Static: compared by
 * address, and never released. Wait-free; linear in the kernels there are, so keep what it gives. */
ROTA_API const rota_kernel *rota_kernel_find(const char *name);

/* Whether this library was built with the kernels' CUDA images (with nvcc). Wait-free. */
ROTA_API bool rota_kernels_have_cuda_images(void);

#endif
