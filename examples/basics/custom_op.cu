/* The CUDA form of the kernel in custom_op.c. */
#include "rota_kernel.cuh"

struct snake_params {
    uint32_t count, backward;
    float alpha;
};

ROTA_KERNEL(snake, 3, snake_params, 64) {
    const uint64_t i = rota_index();
    if (i >= args.params.count) return;
    const float x = rota_operand<const float>(args, 0)[i], alpha = args.params.alpha, s = sinf(alpha * x);
    rota_operand<float>(args, 2)[i] = args.params.backward
                                          ? rota_operand<const float>(args, 1)[i] * (1.0f + sinf(2.0f * alpha * x))
                                          : x + s * s / alpha;
}
