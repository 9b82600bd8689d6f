// The kernel of the smoke test: c = a + b.
#include "rota_kernel.cuh"

struct smoke_params {
    uint32_t count;
};

ROTA_KERNEL(smoke_add, 3, smoke_params, 256) {
    const uint64_t i = rota_index();
    if (i >= args.params.count) return;
    rota_operand<float>(args, 2)[i] = rota_operand<const float>(args, 0)[i] + rota_operand<const float>(args, 1)[i];
}
