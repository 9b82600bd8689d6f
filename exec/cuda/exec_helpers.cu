// The executor's own kernels: a copy and a fill, whose operands may be in slots, the upload of an argument block, the
// step before a command that is counted and the one between the iterations of one that decides, and a timestamp by the
// device's timer.
#include "rota_kernel_early.cuh"
#include "decide_step.h"

struct copy_params {
    uint64_t size_bytes; // bindable 0: a count's
};

// Bytes at any alignment: 16 at a time where both ends allow it.
ROTA_KERNEL(rota_copy, 2, copy_params, 256) {
    const uint8_t *from = rota_operand<const uint8_t>(args, 1);
    uint8_t *to = rota_operand<uint8_t>(args, 0);
    const uint64_t bytes = rota_param_u64(args, 0, args.params.size_bytes);
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t first = rota_index();
    const uint64_t ends = reinterpret_cast<uint64_t>(from) ^ reinterpret_cast<uint64_t>(to);
    uint64_t head = (0 - reinterpret_cast<uint64_t>(to)) & 15;
    if (head > bytes) head = bytes;
    const uint64_t units = ends & 15 ? 0 : (bytes - head) / 16;
    for (uint64_t i = first; i < units; i += step)
        reinterpret_cast<uint4 *>(to + head)[i] = reinterpret_cast<const uint4 *>(from + head)[i];
    // What is left: all of it, or the ends.
    if (ends & 15) {
        for (uint64_t i = first; i < bytes; i += step) to[i] = from[i];
        return;
    }
    if (first < head) to[first] = from[first];
    for (uint64_t i = head + units * 16 + first; i < bytes; i += step) to[i] = from[i];
}

struct fill_params {
    uint64_t size_bytes;
    uint32_t pattern, reserved;
};

ROTA_KERNEL(rota_fill, 1, fill_params, 256) {
    uint32_t *to = rota_operand<uint32_t>(args, 0);
    const uint64_t words = args.params.size_bytes / 4, step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t first = rota_index();
    const uint32_t pattern = args.params.pattern;
    uint64_t head = (0 - reinterpret_cast<uint64_t>(to) / 4) & 3;
    if (head > words) head = words;
    const uint64_t units = (words - head) / 4;
    for (uint64_t i = first; i < units; i += step)
        reinterpret_cast<uint4 *>(to + head)[i] = make_uint4(pattern, pattern, pattern, pattern);
    if (first < head) to[first] = pattern;
    for (uint64_t i = head + units * 4 + first; i < words; i += step) to[i] = pattern;
}

// The argument block from pinned memory. One block of threads: it comes over the bus once.
extern "C" __global__ void __launch_bounds__(1024) rota_upload(uint64_t *to, const uint64_t *from, uint32_t words) {
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = __ldcv(from + i);
}

static_assert(sizeof(rota_args<1, rota_count_params>) == sizeof(rota_count_args), "what cuda_bodies.c fills");

// One thread.
ROTA_KERNEL(rota_count, 1, rota_count_params, 32) {
    (void)rota_count_step(&args.params, rota_operand<const uint32_t>(args, 0));
}

static_assert(sizeof(rota_args<2, rota_decide_params>) == sizeof(rota_decide_args), "what cuda_bodies.c fills");

// One thread: what exec_decide.cu does, where there are no conditional nodes. The handles are where the host looks for
// the answers, in pinned memory, once the kernel is complete.
ROTA_KERNEL(rota_answer, 2, rota_decide_params, 32) {
    const rota_decide_params &params = args.params;
    uint32_t *index = args.operands[1] ? rota_operand<uint32_t>(args, 1) : nullptr;
    const rota_decide_answer answer = rota_decide_step(&params, rota_operand<const uint32_t>(args, 0), index);
    *reinterpret_cast<volatile uint32_t *>(params.handles[0]) = answer.values[0];
    if (params.handles[1]) *reinterpret_cast<volatile uint32_t *>(params.handles[1]) = answer.values[1];
}

// One thread: the time to pinned memory.
extern "C" __global__ void __launch_bounds__(32) rota_timestamp(uint64_t *to) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    *reinterpret_cast<volatile uint64_t *>(to) = now;
}
