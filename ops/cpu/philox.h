/* Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011), some counters at a time.
 * Internal. */
#ifndef ROTA_OPS_CPU_PHILOX_H
#define ROTA_OPS_CPU_PHILOX_H

#include "cpu.h"

/* Counters of four elements each that go through the rounds side by side. */
enum { PHILOX_BLOCKS = 64 };

/* Of the counters {first + b, stream, step, high}, b < blocks, and the key {seed, 0}; words[w][b] is word w of block
 * b. */
ROTA_INLINE void philox(uint32_t first, uint32_t stream, uint32_t step, uint32_t high, uint32_t seed,
                        uint32_t blocks, uint32_t words[4][PHILOX_BLOCKS]) {
    uint32_t *restrict c0 = words[0], *restrict c1 = words[1], *restrict c2 = words[2],
                       *restrict c3 = words[3];
    for (uint32_t b = 0; b < blocks; b++) {
        c0[b] = first + b;
        c1[b] = stream;
        c2[b] = step;
        c3[b] = high;
    }
    uint32_t k0 = seed, k1 = 0;
    for (int round = 0; round < 10; round++) {
        for (uint32_t b = 0; b < blocks; b++) {
            uint64_t product0 = (uint64_t)0xD2511F53u * c0[b], product1 = (uint64_t)0xCD9E8D57u * c2[b];
            c0[b] = (uint32_t)(product1 >> 32) ^ c1[b] ^ k0;
            c1[b] = (uint32_t)product1;
            c2[b] = (uint32_t)(product0 >> 32) ^ c3[b] ^ k1;
            c3[b] = (uint32_t)product0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

#endif
