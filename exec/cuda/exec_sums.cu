// Sums of what ranks of one process have sent one another (exec/nccl/peers.c): element by element, in f32, in the order
// of the ranks, so that all have the same bits each time.
#include <cuda_fp16.h>
#include "exec/cuda/cuda_sums.h"

// A 16-bit or 32-bit value as f32, and back to the nearest.
struct as_f32 {
    typedef float type;
    static __device__ float widen(float x) { return x; }
    static __device__ float narrow(float x) { return x; }
};
struct as_f16 {
    typedef uint16_t type;
    static __device__ float widen(uint16_t x) { return __half2float(__ushort_as_half(x)); }
    static __device__ uint16_t narrow(float x) { return __half_as_ushort(__float2half_rn(x)); }
};
struct as_bf16 {
    typedef uint16_t type;
    static __device__ float widen(uint16_t x) { return __uint_as_float(static_cast<uint32_t>(x) << 16); }
    static __device__ uint16_t narrow(float x) {
        const uint32_t bits = __float_as_uint(x);
        if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40); // a quiet NaN
        return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
};

// 16 bytes at a time where all begins at multiples of that; the few elements behind, or all, are one by one.
template <typename as> __device__ void sum(const rota_cuda_sums &s) {
    typedef typename as::type element;
    constexpr uint32_t wide = 16 / sizeof(element);
    struct alignas(16) several {
        element values[wide];
    };
    uint64_t ends = s.to;
    for (uint32_t r = 0; r < s.ranks; r++) ends |= s.from[r];
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x, units = ends % 16 ? 0 : s.count / wide;
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (uint64_t i = first; i < units; i += step) {
        float sums[wide];
        several all[ROTA_CUDA_SUMS_MAX];
#pragma unroll
        for (uint32_t r = 0; r < ROTA_CUDA_SUMS_MAX; r++)
            if (r < s.ranks) all[r] = reinterpret_cast<const several *>(s.from[r])[i];
#pragma unroll
        for (uint32_t r = 0; r < ROTA_CUDA_SUMS_MAX; r++)
            if (r < s.ranks)
#pragma unroll
                for (uint32_t j = 0; j < wide; j++)
                    sums[j] = r ? sums[j] + as::widen(all[r].values[j]) : as::widen(all[r].values[j]);
        several out;
#pragma unroll
        for (uint32_t j = 0; j < wide; j++) out.values[j] = as::narrow(__fdiv_rn(sums[j], s.divisor));
        reinterpret_cast<several *>(s.to)[i] = out;
    }
    for (uint64_t i = units * wide + first; i < s.count; i += step) {
        float x = as::widen(reinterpret_cast<const element *>(s.from[0])[i]);
        for (uint32_t r = 1; r < s.ranks; r++) x += as::widen(reinterpret_cast<const element *>(s.from[r])[i]);
        reinterpret_cast<element *>(s.to)[i] = as::narrow(__fdiv_rn(x, s.divisor));
    }
}

extern "C" __global__ void __launch_bounds__(ROTA_CUDA_SUMS_THREADS) rota_sums_f32(rota_cuda_sums s) { sum<as_f32>(s); }
extern "C" __global__ void __launch_bounds__(ROTA_CUDA_SUMS_THREADS) rota_sums_f16(rota_cuda_sums s) { sum<as_f16>(s); }
extern "C" __global__ void __launch_bounds__(ROTA_CUDA_SUMS_THREADS) rota_sums_bf16(rota_cuda_sums s) {
    sum<as_bf16>(s);
}
