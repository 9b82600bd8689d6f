/* Shared by the test kernels: the parameters and the mixing function of tests/kernels/kernels.c. */
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

#define TEST_PARAMS                                                                                          \
    uint n;                                                                                                  \
    uint m;                                                                                                  \
    uint p;                                                                                                  \
    uint q;                                                                                                  \
    uint64_t seed;

uint mix_words(uint a, uint b) {
    uint x = (a * 0x9E3779B1u) ^ (b + 0x7F4A7C15u);
    x ^= x >> 15;
    x *= 0x85EBCA6Bu;
    return x ^ (x >> 13);
}

#define TEST_P rota_param_u32(0, pc.p)
#define TEST_SEED fold_seed(rota_param_u64(1, pc.seed))

/* Whether item i is beyond what there is: n, or the count that bindable 2 gets. */
#define TEST_ENDS(i, n) ((i) >= (n) || ((ROTA_BIND_MASK & 4u) != 0u && (i) >= rota_param_u32(2, pc.q)))

uint fold_seed(uint64_t seed) { return uint(seed) ^ (uint(seed >> 32) * 3u); }
