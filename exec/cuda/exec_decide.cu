// The kernel between the iterations of commands that decide, and the step before a counted one whose grid it sets. An
// image of its own: what it calls is in drivers for CUDA
// 12.3 and newer, and an older one would not load it.
#include "rota_kernel.cuh"
#include "decide_step.h"

#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 3)
static_assert(sizeof(rota_args<2, rota_decide_params>) == sizeof(rota_decide_args), "what cuda_bodies.c fills");

// One thread.
ROTA_KERNEL(rota_decide, 2, rota_decide_params, 32) {
    const rota_decide_params &params = args.params;
    uint32_t *index = args.operands[1] ? rota_operand<uint32_t>(args, 1) : nullptr;
    const rota_decide_answer answer = rota_decide_step(&params, rota_operand<const uint32_t>(args, 0), index);
    cudaGraphSetConditional(params.handles[0], answer.values[0]);
    if (params.handles[1]) cudaGraphSetConditional(params.handles[1], answer.values[1]);
}

static_assert(sizeof(rota_args<1, rota_count_params>) == sizeof(rota_count_args), "what cuda_bodies.c fills");

#if __CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ >= 4
// One thread. A grid that is not set would be that of an earlier launch, which may be too small: nothing goes on then.
ROTA_KERNEL(rota_count_grid, 1, rota_count_params, 32) {
    const rota_count_params &params = args.params;
    const uint32_t count = rota_count_step(&params, rota_operand<const uint32_t>(args, 0));
    if (!params.grid_node) return;
    const dim3 groups(rota_count_groups(&params, count), params.groups_y, params.groups_z);
    const cudaGraphDeviceNode_t node = reinterpret_cast<cudaGraphDeviceNode_t>(params.grid_node);
    if (cudaGraphKernelNodeSetGridDim(node, groups) != cudaSuccess) __trap();
}
#endif
#else
// A compiler that does not know conditional nodes: there is no such kernel.
extern "C" __global__ void rota_decides_nothing() {}
#endif
