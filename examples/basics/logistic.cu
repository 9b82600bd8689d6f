/* The CUDA form of the kernel in custom_kernel.c. */
#include "rota_kernel.cuh"

struct logistic_params {
    uint32_t count;
    float rate; // bindable 0
};

ROTA_KERNEL(logistic, 2, logistic_params, 64) {
    const uint64_t i = rota_index();
    if (i >= args.params.count) return;
    const float x = rota_operand<const float>(args, 0)[i];
    rota_operand<float>(args, 1)[i] = rota_param_f32(args, 0, args.params.rate) * x * (1.0f - x);
}
