// The CUDA form of rota-bench loops' kernels, and what decides in its raw graph.
#include "rota_kernel.cuh"

struct work_params {
    uint32_t steps;
};
ROTA_KERNEL(loops_work, 1, work_params, 1) {
    uint32_t *cell = rota_operand<uint32_t>(args, 0), x = *cell;
#pragma unroll 1
    for (uint32_t i = 0; i < args.params.steps; i++) x = x * 1664525u + 1013904223u;
    *cell = x;
}

ROTA_KERNEL(loops_down, 1, void, 1) {
    --*rota_operand<uint32_t>(args, 0);
}

extern "C" __global__ void __launch_bounds__(1) loops_more(unsigned long long handle, const uint32_t *left) {
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 3)
    cudaGraphSetConditional(handle, *left != 0);
#endif
}
