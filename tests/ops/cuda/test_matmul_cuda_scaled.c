/* scaled_matmul's calls of cuBLASLt, against a stand-in for the library that does on host memory what it is told:
 * types, scales and their modes, bias, and what its documentation asks of 8-bit floats; and which products go there.
 * No device is needed. */
#include "tests/kit/support.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <math.h>
#include <string.h>
#include "bench/half.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/scaled_matmul_cuda.h"
#include "ops/kernel_objects.h"
#include "tests/ops/cuda/cublaslt_standin.h"
#include "tests/ops/cuda/hopper.h"

enum { M = 6, N = 16, K = 32, LDA = 48, LDB = 32, BYTES = 4096 };

static uint32_t launches;
static char launched[32];

static void count_launch(const char *kernel, const void *args) {
    (void)args;
    launches++;
    strncpy(launched, kernel, sizeof launched - 1);
}

typedef struct operands {
    _Alignas(16) uint8_t bytes[ROTA_SCALED_OPERANDS][BYTES];
    uint64_t addresses[ROTA_SCALED_OPERANDS], sizes[ROTA_SCALED_OPERANDS];
} operands;

static void fill(operands *o, const rota_scaled_matmul_params *p) {
    for (uint32_t i = 0; i < ROTA_SCALED_OPERANDS; i++) {
        const rota_dtype dtype = (rota_dtype)(i == ROTA_SCALED_A             ? p->a_dtype
                                              : i == ROTA_SCALED_B           ? p->b_dtype
                                              : i < ROTA_SCALED_BIAS_OPERAND ? ROTA_F32
                                                                             : p->y_dtype);
        for (uint32_t e = 0; e < BYTES / rota_dtype_bytes(dtype); e++)
            element_set(o->bytes[i], dtype, e, sinf((float)(97 * i + 3 * e + 1)));
        o->addresses[i] = (uint64_t)(uintptr_t)o->bytes[i];
        o->sizes[i] = BYTES;
    }
}

static rota_scaled_matmul_params params_of(rota_dtype a, rota_dtype b, rota_dtype y, uint32_t flags) {
    return (rota_scaled_matmul_params){.m = M,
                                       .n = N,
                                       .k = K,
                                       .lda = LDA,
                                       .ldb = LDB,
                                       .flags = flags | ROTA_SCALED_ALIGNED_16,
                                       .a_dtype = a,
                                       .b_dtype = b,
                                       .y_dtype = y};
}

static void run(const operands *o, const rota_scaled_matmul_params *p) {
    cublaslt_standin.products = launches = 0;
    cublaslt_standin.launched = count_launch;
    assert_ok(
        rota_cuda_call_scaled_matmul(&(rota_cuda_call){.target = &hopper,
                                                       .stream = (void *)(uintptr_t)CUBLASLT_STANDIN_STREAM,
                                                       .operands = o->addresses,
                                                       .operand_bytes = o->sizes,
                                                       .operand_count = ROTA_SCALED_OPERANDS,
                                                       .params = p}));
    assert_int_equal(cublaslt_standin.alive, 0);
}

static double wanted(const operands *o, const rota_scaled_matmul_params *p, uint32_t i, uint32_t j) {
    const bool by_rows = p->flags & ROTA_SCALED_BY_ROWS;
    double sum = 0;
    for (uint32_t k = 0; k < K; k++)
        sum += (double)element_get(o->bytes[ROTA_SCALED_A], (rota_dtype)p->a_dtype, i * LDA + k) *
               (double)element_get(o->bytes[ROTA_SCALED_B], (rota_dtype)p->b_dtype, j * LDB + k);
    sum *= (double)element_get(o->bytes[ROTA_SCALED_SCALE_A], ROTA_F32, by_rows ? i : 0) *
           (double)element_get(o->bytes[ROTA_SCALED_SCALE_B], ROTA_F32, by_rows ? j : 0);
    if (p->flags & ROTA_SCALED_BIAS)
        sum += (double)element_get(o->bytes[ROTA_SCALED_BIAS_OPERAND], (rota_dtype)p->y_dtype, j);
    return sum;
}

static void products_are_one_call(void **state) {
    (void)state;
    static const rota_dtype pairs[][2] = {
        {ROTA_F8_E4M3FN, ROTA_F8_E4M3FN}, {ROTA_F8_E4M3FN, ROTA_F8_E5M2}, {ROTA_F8_E5M2, ROTA_F8_E4M3FN}};
    static const rota_dtype results[] = {ROTA_F32, ROTA_BF16};
    static const uint32_t flags[] = {0, ROTA_SCALED_BIAS, ROTA_SCALED_BY_ROWS,
                                     ROTA_SCALED_BIAS | ROTA_SCALED_BY_ROWS};
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t f = 0; f < 4; f++) {
                if (results[r] == ROTA_F32 && flags[f] & ROTA_SCALED_BIAS) continue;
                static operands o, before;
                const rota_scaled_matmul_params p = params_of(pairs[t][0], pairs[t][1], results[r], flags[f]);
                fill(&o, &p);
                before = o;
                run(&o, &p);
                assert_int_equal(cublaslt_standin.products, 1);
                assert_int_equal(launches, 0);
                for (uint32_t i = 0; i < M; i++)
                    for (uint32_t j = 0; j < N; j++) {
                        const double want = wanted(&before, &p, i, j),
                                     got = (double)element_get(o.bytes[ROTA_SCALED_Y], results[r], i * N + j);
                        assert_true(fabs(got - want) <=
                                    (results[r] == ROTA_BF16 ? 0x1p-8 : 1e-6) * (1 + fabs(want)));
                    }
                for (uint32_t i = 0; i < ROTA_SCALED_Y; i++)
                    assert_memory_equal(o.bytes[i], before.bytes[i], BYTES);
            }
    rota_choices_forget();
}

/* Where no algorithm takes it after all, rota's own kernel runs in its place. */
static void what_is_refused_runs_here(void **state) {
    (void)state;
    static operands o;
    if (!rota_kernels_have_cuda_images()) skip();
    const rota_scaled_matmul_params p =
        params_of(ROTA_F8_E4M3FN, ROTA_F8_E4M3FN, ROTA_BF16, ROTA_SCALED_BIAS);
    fill(&o, &p);
    rota_choices_forget();
    cublaslt_standin.refused = CUBLASLT_EPILOGUE_BIAS;
    run(&o, &p);
    cublaslt_standin.refused = -1;
    assert_int_equal(launches, 1);
    assert_string_equal(launched, "scaled_matmul");
}

/* The fastest of those that there are, by what distinguishes these products from others. */
static void the_fastest_is_kept(void **state) {
    (void)state;
    static operands o;
    rota_choices_forget();
    cublaslt_standin.algorithms = 3;
    cublaslt_standin.run_ms = 1;
    for (uint32_t rows = 0; rows < 2; rows++) {
        const rota_scaled_matmul_params p =
            params_of(ROTA_F8_E4M3FN, ROTA_F8_E5M2, ROTA_BF16, rows ? ROTA_SCALED_BY_ROWS : 0);
        const rota_cuda_call call = {.target = &hopper,
                                     .stream = (void *)(uintptr_t)CUBLASLT_STANDIN_STREAM,
                                     .operands = o.addresses,
                                     .operand_bytes = o.sizes,
                                     .operand_count = ROTA_SCALED_OPERANDS,
                                     .params = &p};
        fill(&o, &p);
        cublaslt_standin.products = 0;
        assert_ok(rota_cuda_tune_scaled_matmul(&call));
        assert_true(cublaslt_standin.products > 3);
        cublaslt_standin.products = 0;
        assert_ok(rota_cuda_tune_scaled_matmul(&call)); /* known by now */
        assert_int_equal(cublaslt_standin.products, 0);
        assert_int_equal(cublaslt_standin.alive, 0);
    }
    cublaslt_standin.algorithms = 0;
    cublaslt_standin.run_ms = 0;
    rota_choices_forget();
}

static const char *refusal(rota_scaled_matmul_params p, uint32_t slots, uint32_t capability) {
    rota_cuda_target target = hopper;
    target.compute_capability = capability;
    const char *refuses = rota_cuda_scaled_refuses(&p, slots, &target);
    assert_int_equal(!refuses, rota_cuda_select_scaled_matmul(&p, NULL, slots, &target) != NULL);
    return refuses ? refuses : "";
}

static void only_what_it_takes_goes_there(void **state) {
    (void)state;
    rota_scaled_matmul_params p = params_of(ROTA_F8_E4M3FN, ROTA_F8_E5M2, ROTA_BF16, 0), other;
    p.m = p.n = p.k = p.lda = p.ldb = 256;
    assert_string_equal(refusal(p, 0, 90), "");
    assert_string_equal(refusal(p, 0, 89), "");
    assert_string_equal(refusal(p, 1u << ROTA_SCALED_SCALE_A, 90), "");
    assert_non_null(strstr(refusal(p, 1u << ROTA_SCALED_B, 90), "slots"));
    assert_non_null(strstr(refusal(p, 0, 86), "below 8.9"));
#define REFUSED(CHANGE, SAYS)                                                                                \
    other = p;                                                                                               \
    CHANGE;                                                                                                  \
    assert_non_null(strstr(refusal(other, 0, 90), SAYS))
    REFUSED(other.k = 248, "k is not a multiple of 16");
    REFUSED(other.lda = 264, "rows of an operand");
    REFUSED(other.ldb = 257, "rows of an operand");
    REFUSED(other.n = 260, "rows of the result");
    REFUSED(other.flags = 0, "no multiple of 16 bytes");
    REFUSED(other.a_dtype = ROTA_F8_E5M2, "both operands are f8_e5m2");
    REFUSED(other.m = 1, "too few");
    other = p;
    other.flags |= ROTA_SCALED_BY_ROWS;
    assert_string_equal(refusal(other, 0, 90), "");
    assert_non_null(strstr(refusal(other, 0, 100), "not of compute capability 9.0"));
    other = p;
    other.n = 260, other.y_dtype = ROTA_F32; /* of 4 bytes each */
    assert_string_equal(refusal(other, 0, 90), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_one_call), cmocka_unit_test(what_is_refused_runs_here),
        cmocka_unit_test(the_fastest_is_kept), cmocka_unit_test(only_what_it_takes_goes_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else /* nor has the library */
int main(void) {
    return 77;
}
#endif
