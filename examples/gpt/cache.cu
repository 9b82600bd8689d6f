/* A token's keys or values to its place in the cache: the CUDA form of the kernel in decode.c. */
#include "rota_kernel.cuh"

struct cache_params {
    uint32_t heads, block, head_dim;
    uint32_t position; // bindable 0
};

ROTA_KERNEL(gpt_cache, 2, cache_params, 64) {
    const uint64_t i = rota_index();
    const uint32_t position = rota_param_u32(args, 0, args.params.position);
    const cache_params &p = args.params;
    if (i >= (uint64_t)p.heads * p.head_dim || position >= p.block) return;
    const uint64_t element = (i / p.head_dim * p.block + position) * p.head_dim + i % p.head_dim;
    rota_operand<float>(args, 1)[element] = rota_operand<const float>(args, 0)[i];
}
