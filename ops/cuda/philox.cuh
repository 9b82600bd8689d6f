/* Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011). */
#ifndef ROTA_OPS_CUDA_PHILOX_CUH
#define ROTA_OPS_CUDA_PHILOX_CUH

#include "ops/cuda/common.cuh"

ROTA_DEVICE uint4 philox(uint4 counter, uint32_t key) {
    uint32_t other = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint32_t low_a = 0xD2511F53u * counter.x, high_a = __umulhi(0xD2511F53u, counter.x);
        const uint32_t low_b = 0xCD9E8D57u * counter.z, high_b = __umulhi(0xCD9E8D57u, counter.z);
        counter = make_uint4(high_b ^ counter.y ^ key, low_b, high_a ^ counter.w ^ other, low_a);
        key += 0x9E3779B9u;
        other += 0xBB67AE85u;
    }
    return counter;
}

#endif
