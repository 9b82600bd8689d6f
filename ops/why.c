/* Why products run by what they do: by the device's kind. */
#include "ops/why.h"

#include "ops/cuda/kernels_cuda.h" /* IWYU pragma: keep */

static uint64_t why_product(const rota_kernel_use *use, rota_dtype dtype, char *text, uint64_t capacity) {
    rota_text_out out = {text, capacity, 0};
    if (use->kind == ROTA_EXEC_CPU) rota_cpu_why_matmul(&out, use, dtype);
    if (use->kind == ROTA_EXEC_VK) rota_vk_why_matmul(&out, use, dtype);
#ifdef ROTA_HAVE_CUDA
    if (use->kind == ROTA_EXEC_CUDA) rota_cuda_why_matmul(&out, use, dtype);
#endif
    return out.length;
}

static uint64_t why_scaled_matmul(void *user, const rota_kernel_use *use, char *text, uint64_t capacity) {
    rota_text_out out = {text, capacity, 0};
    (void)user;
#ifdef ROTA_HAVE_CUDA
    if (use->kind == ROTA_EXEC_CUDA) rota_cuda_why_scaled_matmul(&out, use);
#endif
    if (use->kind == ROTA_EXEC_CPU)
        rota_text_say(&out,
                      "runs: tiles of 64x128, widened to f32 in blocks of 256 along the sum, by the BLAS\n");
    if (use->kind == ROTA_EXEC_VK)
        rota_text_say(
            &out,
            "runs: rota's shader 'scaled_matmul', in f32: no cooperative matrices of 8 bits are used\n");
    return out.length;
}
const rota_kernel_functions rota_why_scaled_matmul = {.struct_size = sizeof(rota_kernel_functions),
                                                      .why = why_scaled_matmul};

#define WHY_MATMUL(name, dtype)                                                                              \
    static uint64_t why_##name(void *user, const rota_kernel_use *use, char *text, uint64_t capacity) {      \
        (void)user;                                                                                          \
        return why_product(use, dtype, text, capacity);                                                      \
    }                                                                                                        \
    const rota_kernel_functions rota_why_##name = {.struct_size = sizeof(rota_kernel_functions),             \
                                                   .why = why_##name};
WHY_MATMUL(matmul, ROTA_F32)
WHY_MATMUL(matmul_f16, ROTA_F16)
WHY_MATMUL(matmul_bf16, ROTA_BF16)
