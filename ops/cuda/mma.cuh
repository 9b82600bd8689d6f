/* Matrix units for 16-bit floats (mma.sync, from compute capability 8.0 on), and the instructions that bring operands
 * to them: copies that run beside the arithmetic, and loads of 8 x 8 matrices from shared memory. */
#ifndef ROTA_OPS_CUDA_MMA_CUH
#define ROTA_OPS_CUDA_MMA_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "ops/cuda/common.cuh"

#if __CUDA_ARCH__ >= 800

/* Copies `bytes` of a unit of 16 (or 4) bytes and fills the rest with zeros; nothing waits for it yet. */
ROTA_DEVICE void copy16(uint32_t to, const void *from, uint32_t bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
ROTA_DEVICE void copy4(uint32_t to, const void *from, uint32_t bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
ROTA_DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> ROTA_DEVICE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

/* Four 8 x 8 matrices, of which each lane gives the address of a row; TRANSPOSE: transposed on the way. */
template <bool TRANSPOSE> ROTA_DEVICE void load_matrices(uint32_t address, uint32_t (&r)[4]) {
    if (TRANSPOSE)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address)
                     : "memory");
}

/* c [16, 8] += a [16, 16] b [16, 8]. */
ROTA_DEVICE void multiply(__half, float (&c)[4], const uint32_t (&a)[4], const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
ROTA_DEVICE void multiply(__nv_bfloat16, float (&c)[4], const uint32_t (&a)[4], const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Bytes that addresses and strides of 16-bit elements allow to copy at a time: 16, 4 or 2. */
ROTA_DEVICE uint32_t copy_unit(const void *from, uint64_t stride) {
    const uint64_t offsets = reinterpret_cast<uint64_t>(from) | stride * 2ull;
    return offsets % 16 == 0 ? 16 : offsets % 4 == 0 ? 4 : 2;
}
/* A chunk of 8 16-bit elements, of which `there` are there and the rest becomes 0. */
ROTA_DEVICE void copy_chunk(uint32_t to, const void *from, uint32_t there, uint32_t unit) {
    if (unit == 16) {
        copy16(to, from, there * 2);
        return;
    }
    const uint16_t *bits = static_cast<const uint16_t *>(from);
#pragma unroll
    for (uint32_t j = 0; j < 8; j += 2) {
        const uint32_t some = there > j ? min(there - j, 2u) : 0;
        if (unit == 4) {
            copy4(to + j * 2, some ? bits + j : bits, some * 2);
            continue;
        }
        const uint32_t word = (some > 0 ? bits[j] : 0u) | (some > 1 ? static_cast<uint32_t>(bits[j + 1]) << 16 : 0u);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + j * 2), "r"(word) : "memory");
    }
}

#endif
#endif
