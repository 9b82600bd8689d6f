/* Sums of whole numbers over a block of ROTA_CUDA_THREADS, each thread with a number of its own. */
#ifndef ROTA_OPS_CUDA_SUMS_CUH
#define ROTA_OPS_CUDA_SUMS_CUH

#include "ops/cuda/common.cuh"

constexpr uint32_t WARPS = ROTA_CUDA_THREADS / 32;

/* The sum of the numbers of the warps before this thread's, and of all: each warp's is lane 0's. */
template <typename T> ROTA_DEVICE T sum_before_warp(T of_warp, T &total) {
    __shared__ T part[WARPS];
    __syncthreads(); /* the last turn's are read */
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = of_warp;
    __syncthreads();
    T before = 0;
    total = 0;
#pragma unroll
    for (uint32_t w = 0; w < WARPS; w++) {
        if (w < threadIdx.x / 32) before += part[w];
        total += part[w];
    }
    return before;
}

/* ... of the threads before this one. */
template <typename T> ROTA_DEVICE T sum_before(T value, T &total) {
    T sum = value;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        const T left = __shfl_up_sync(0xFFFFFFFFu, sum, step);
        if (threadIdx.x % 32 >= step) sum += left;
    }
    return sum - value + sum_before_warp<T>(__shfl_sync(0xFFFFFFFFu, sum, 31), total);
}

#endif
