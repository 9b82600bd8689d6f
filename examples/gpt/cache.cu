/* A token's keys or values to its position in the cache: the CUDA form of the kernel in decode.c. */
#include "rota_kernel.cuh"

struct cache_params {
    uint32_t heads, block, head_dim;
};

ROTA_KERNEL(gpt_cache, 3, cache_params, 64) {
    const uint64_t i = rota_index();
    const uint32_t position = *rota_operand<const uint32_t>(args, 1);
    const cache_params &p = args.params;
    if (i >= (uint64_t)p.heads * p.head_dim || position >= p.block) return;
    const uint64_t element = (i / p.head_dim * p.block + position) * p.head_dim + i % p.head_dim;
    rota_operand<float>(args, 2)[element] = rota_operand<const float>(args, 0)[i];
}
