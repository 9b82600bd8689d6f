/* CUDA kernels: many_adamw and many_cast: what adamw and cast do, of several tensors at once. A tensor's blocks are
 * next to one another, in the order of the tensors. */
#include "ops/cuda/many_params.h"
#include "ops/cuda/optimizer.cuh"

/* The tensor of this block, whose number becomes one among that tensor's. */
template <uint32_t MOST>
ROTA_DEVICE uint32_t tensor_of(const uint32_t (&count)[MOST], uint32_t tensors, uint64_t &block) {
    uint32_t t = 0;
    for (; t + 1 < tensors; t++) {
        const uint64_t own = (static_cast<uint64_t>(count[t]) + ROTA_CUDA_ELEMENTS - 1) / ROTA_CUDA_ELEMENTS;
        if (block < own) break;
        block -= own;
    }
    return t;
}

ROTA_KERNEL(many_adamw, ROTA_MANY_ADAMW *ROTA_MANY_ADAMW_EACH, rota_cuda_many_adamw_params,
            ROTA_CUDA_THREADS) {
    const rota_cuda_many_adamw_params &p = args.params;
    uint64_t block = rota_group_index();
    const uint32_t t = tensor_of(p.count, p.tensors, block);
    const updated of = {static_cast<int>(t * ROTA_MANY_ADAMW_EACH),
                        (block * ROTA_CUDA_THREADS + threadIdx.x) * EACH,
                        p.count[t],
                        p.g_dtype[t],
                        p.all.flags | (p.half_dtype[t] == DTYPE_F32 ? 0u : ROTA_UPDATE_HALF),
                        p.half_dtype[t]};
    adamw_of(args, of, p.all, 0.0f, 0);
}

ROTA_KERNEL(many_cast, ROTA_MANY_CAST *ROTA_MANY_CAST_EACH, rota_cuda_many_cast_params, ROTA_CUDA_THREADS) {
    const rota_cuda_many_cast_params &p = args.params;
    uint64_t block = rota_group_index();
    const uint32_t t = tensor_of(p.count, p.tensors, block);
    const uint64_t i = (block * ROTA_CUDA_THREADS + threadIdx.x) * EACH, count = p.count[t];
    if (i >= count) return;
    const values<false> x(rota_operand<const void>(args, static_cast<int>(2 * t)), 0, DTYPE_F32);
    const values<true> y(rota_operand<void>(args, static_cast<int>(2 * t + 1)), 0, p.to);
    store_eight(y, i, count, y.aligned(), load_eight(x, i, count, x.aligned()));
}
