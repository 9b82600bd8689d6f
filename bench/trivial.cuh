/* The CUDA form of bench/kernels.c: trivial_1 to trivial_4, by number of operands. One thread, as on Vulkan. Whoever
 * includes this has included what ROTA_KERNEL comes from. */
struct bench_params {
    uint32_t seed, modes, words;
};

template <int OPERANDS, typename A> static __device__ void run(const A &args) {
    const uint32_t modes = args.params.modes;
    uint32_t value = rota_param_u32(args, 0, args.params.seed); // in a slot: bench_kernels_seeded
#pragma unroll
    for (int i = 0; i < OPERANDS; i++)
        if (modes >> i & 1u) value = value * 1664525u + *rota_operand<uint32_t>(args, i);
#pragma unroll
    for (int i = 0; i < OPERANDS; i++)
        if (modes >> (8 + i) & 1u)
            for (uint32_t w = 0; w < args.params.words; w++) rota_operand<uint32_t>(args, i)[w] = value;
}

ROTA_KERNEL(trivial_1, 1, bench_params, 32) { run<1>(args); }
ROTA_KERNEL(trivial_2, 2, bench_params, 32) { run<2>(args); }
ROTA_KERNEL(trivial_3, 3, bench_params, 32) { run<3>(args); }
ROTA_KERNEL(trivial_4, 4, bench_params, 32) { run<4>(args); }
