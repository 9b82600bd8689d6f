/* The integer kernels of tests/kernels/kernels.c, and those of tests/kernels/test_saxpy.comp and test_step.comp, in
 * CUDA C. */
#include "rota_kernel_early.cuh"

struct test_params {
    uint32_t n, m, p, q;
    uint64_t seed;
};

static __device__ uint32_t mix(uint32_t a, uint32_t b) {
    uint32_t x = (a * 0x9E3779B1u) ^ (b + 0x7F4A7C15u);
    x ^= x >> 15;
    x *= 0x85EBCA6Bu;
    return x ^ (x >> 13);
}

/* The start of every kernel: its bindable parameters, and this thread's item, where it is not beyond what there is: the
 * count given here, or the one that bindable 2 gets. */
#define BEGIN(count)                                                                                         \
    const uint64_t wide_seed = rota_param_u64(args, 1, args.params.seed);                                    \
    const uint32_t p = rota_param_u32(args, 0, args.params.p);                                               \
    const uint32_t seed = (uint32_t)wide_seed ^ ((uint32_t)(wide_seed >> 32) * 3u);                          \
    const uint64_t i = rota_index();                                                                         \
    if (i >= (count) || ((args.bind_mask & 4u) && i >= rota_param_u32(args, 2, args.params.q))) return
#define WORDS(k) rota_operand<uint32_t>(args, k)

ROTA_KERNEL(test_map, 2, test_params, 64) {
    BEGIN(args.params.n);
    WORDS(1)[i] = mix(WORDS(0)[i] + p, (uint32_t)i + seed);
}

ROTA_KERNEL(test_zip, 3, test_params, 64) {
    BEGIN(args.params.n);
    WORDS(2)[i] = mix(WORDS(0)[i], WORDS(1)[i] + p) + seed;
}

ROTA_KERNEL(test_update, 2, test_params, 64) {
    BEGIN(args.params.n);
    WORDS(0)[i] = mix(WORDS(0)[i] + seed, WORDS(1)[i % args.params.m] + p);
}

ROTA_KERNEL(test_accumulate, 2, test_params, 64) {
    BEGIN(args.params.n);
    WORDS(0)[i] += (WORDS(1)[i] ^ p) + seed;
}

ROTA_KERNEL(test_scatter, 2, test_params, 64) {
    BEGIN(args.params.m);
    atomicAdd(&WORDS(0)[mix(WORDS(1)[i], p) % args.params.n], (uint32_t)i + 1u + seed);
}

ROTA_KERNEL(test_split, 3, test_params, 64) {
    BEGIN(args.params.n);
    const uint32_t value = WORDS(0)[i];
    WORDS(1)[i] = mix(value, 1u + p);
    WORDS(2)[i] = mix(value, 2u + seed);
}

ROTA_KERNEL(test_reverse, 2, test_params, 64) {
    BEGIN(args.params.n);
    WORDS(1)[i] = WORDS(0)[args.params.n - 1 - i] + p + seed;
}

ROTA_KERNEL(test_sum, 2, test_params, 64) {
    BEGIN(args.params.n);
    uint32_t total = p + seed;
    for (uint32_t k = 0; k < args.params.m; k++) total += WORDS(0)[k] * (k + (uint32_t)i + 1u);
    WORDS(1)[i] = total;
}

ROTA_KERNEL(test_wide, 8, test_params, 64) {
    BEGIN(args.params.n);
    uint32_t total = p + seed;
    for (int k = 0; k < 6; k++) total = mix(total, WORDS(k)[i]);
    const uint32_t old = WORDS(6)[i];
    WORDS(6)[i] = old ^ total;
    WORDS(7)[i] = old + total;
}

struct test_saxpy_params {
    uint32_t count;
    float scale;
};
ROTA_KERNEL(test_saxpy, 3, test_saxpy_params, 256) {
    const uint64_t i = rota_index();
    if (i >= args.params.count) return;
    const float *a = rota_operand<const float>(args, 0), *b = rota_operand<const float>(args, 1);
    rota_operand<float>(args, 2)[i] = rota_param_f32(args, 0, args.params.scale) * a[i] + b[i];
}

struct test_step_params {
    uint32_t count, add;
    uint64_t wide;
};
ROTA_KERNEL(test_step, 2, test_step_params, 64) {
    const uint64_t i = rota_index();
    if (i >= rota_param_u32(args, 2, args.params.count)) return;
    uint32_t *x = WORDS(0);
    x[i] = x[i] * 3u + WORDS(1)[i] + rota_param_u32(args, 0, args.params.add) +
           (uint32_t)(rota_param_u64(args, 1, args.params.wide) >> 32);
}

/* Which does not start early. */
extern "C" __global__ void __launch_bounds__(1)
    test_count_down(const __grid_constant__ rota_args<1, void> args) {
    WORDS(0)[0]--;
}

/* Does not end before the word is not 0. */
struct test_spin_params {
    uint32_t unused;
};
ROTA_KERNEL(test_spin, 1, test_spin_params, 1) {
    const volatile uint32_t *flag = rota_operand<const volatile uint32_t>(args, 0);
    while (*flag == 0) {}
}
