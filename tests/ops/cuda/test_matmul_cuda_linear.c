/* The linear kernels' calls of cuBLASLt, against a stand-in for the library that does on host memory what it
 * is told: descriptors, layouts, epilogues and pointers as its documentation has them, matrices by columns.
 * No device is needed; the driver's stand-in only counts the kernels that would have been launched. */
#include "tests/kit/support.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/linear_cuda.h"
#include "ops/kernel_objects.h"
#include "ops/linear.h"
#include "tests/ops/cuda/cublaslt_standin.h"
#include "tests/ops/cuda/hopper.h"

/* ---- Kernels only are counted ---- */

static uint32_t launches;

static void count_launch(const char *kernel, const void *args) {
    (void)kernel, (void)args;
    launches++;
}

/* ---- Calls ---- */

enum { M = 6, N = 5, K = 7, MOST = 64 };

static double gelu(double x) {
    return 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

typedef struct operands {
    float values[ROTA_LINEAR_OPERANDS][MOST];
    uint64_t addresses[ROTA_LINEAR_OPERANDS], bytes[ROTA_LINEAR_OPERANDS];
} operands;

static void fill(operands *o) {
    for (uint32_t i = 0; i < ROTA_LINEAR_OPERANDS; i++) {
        for (uint32_t e = 0; e < MOST; e++) o->values[i][e] = sinf((float)(97 * i + 3 * e + 1));
        o->addresses[i] = (uint64_t)(uintptr_t)o->values[i];
        o->bytes[i] = sizeof o->values[i];
    }
}

static void call(rota_status (*function)(const rota_cuda_call *), const operands *o, uint32_t count,
                 const rota_linear_params *params) {
    cublaslt_standin.products = launches = 0;
    cublaslt_standin.launched = count_launch;
    assert_ok(function(&(rota_cuda_call){.target = &hopper,
                                         .stream = (void *)(uintptr_t)CUBLASLT_STANDIN_STREAM,
                                         .operands = o->addresses,
                                         .operand_bytes = o->bytes,
                                         .operand_count = count,
                                         .params = params}));
    assert_int_equal(cublaslt_standin.products, 1);
    assert_int_equal(cublaslt_standin.alive, 0);
}

static rota_linear_params params_of(uint32_t flags) {
    return (rota_linear_params){.m = M,
                                .n = N,
                                .k = K,
                                .lda = flags & ROTA_MATMUL_TRANSPOSE_A ? M + 1 : K + 1, /* rows with a gap */
                                .ldb = flags & ROTA_MATMUL_TRANSPOSE_B ? K : N + 2,
                                .flags = flags,
                                .dtype = ROTA_F32,
                                .chunk = K};
}

static double product(const rota_linear_params *p, const float *a, const float *b, uint32_t i, uint32_t j) {
    double sum = 0;
    for (uint32_t l = 0; l < K; l++)
        sum += (double)a[p->flags & ROTA_MATMUL_TRANSPOSE_A ? l * p->lda + i : i * p->lda + l] *
               (double)b[p->flags & ROTA_MATMUL_TRANSPOSE_B ? j * p->ldb + l : l * p->ldb + j];
    return sum;
}

static void expect(float got, double wanted) {
    assert_true(fabs((double)got - wanted) < 1e-5);
}

static const uint32_t orientations[] = {0, ROTA_MATMUL_TRANSPOSE_A, ROTA_MATMUL_TRANSPOSE_B,
                                        ROTA_MATMUL_TRANSPOSE_A | ROTA_MATMUL_TRANSPOSE_B};

static void what_follows_is_one_call(void **state) {
    (void)state;
    static const uint32_t epilogues[] = {0,
                                         ROTA_LINEAR_BIAS,
                                         ROTA_LINEAR_RESIDUAL,
                                         ROTA_LINEAR_BIAS | ROTA_LINEAR_RESIDUAL,
                                         ROTA_LINEAR_GELU,
                                         ROTA_LINEAR_GELU | ROTA_LINEAR_BIAS,
                                         ROTA_LINEAR_GELU | ROTA_LINEAR_KEEP,
                                         ROTA_LINEAR_GELU | ROTA_LINEAR_KEEP | ROTA_LINEAR_BIAS,
                                         ROTA_LINEAR_RELU,
                                         ROTA_LINEAR_RELU | ROTA_LINEAR_BIAS};
    for (size_t e = 0; e < sizeof epilogues / sizeof *epilogues; e++)
        for (size_t t = 0; t < sizeof orientations / sizeof *orientations; t++) {
            operands o, before;
            fill(&o);
            before = o;
            const rota_linear_params p = params_of(epilogues[e] | orientations[t]);
            call(rota_cuda_call_linear, &o, ROTA_LINEAR_OPERANDS, &p);
            assert_int_equal(launches, 0);
            for (uint32_t i = 0; i < M; i++)
                for (uint32_t j = 0; j < N; j++) {
                    const uint32_t element = i * N + j;
                    double z = product(&p, o.values[0], o.values[1], i, j);
                    if (p.flags & ROTA_LINEAR_BIAS) z += (double)before.values[ROTA_LINEAR_OPERAND_BIAS][j];
                    expect(o.values[ROTA_LINEAR_OPERAND_KEPT][element],
                           p.flags & ROTA_LINEAR_KEEP
                               ? z
                               : (double)before.values[ROTA_LINEAR_OPERAND_KEPT][element]);
                    if (p.flags & ROTA_LINEAR_GELU) z = gelu(z);
                    if (p.flags & ROTA_LINEAR_RELU && z < 0) z = 0;
                    if (p.flags & ROTA_LINEAR_RESIDUAL)
                        z += (double)before.values[ROTA_LINEAR_OPERAND_RESIDUAL][element];
                    expect(o.values[ROTA_LINEAR_OPERAND_Y][element], z);
                }
            for (uint32_t i = 0; i < ROTA_LINEAR_OPERAND_KEPT; i++)
                assert_memory_equal(o.values[i], before.values[i], sizeof o.values[i]);
        }
}

/* dw = x^T dz, where x may lie transposed, with the sums of dz; or its transpose dz^T x. */
static void sums_are_made_in_the_product(void **state) {
    (void)state;
    for (uint32_t form = 0; form < 8; form++) {
        const bool of_a = form & 1, accumulates = form & 2, lies_transposed = form & 4;
        operands o, before;
        fill(&o);
        before = o;
        rota_linear_params p =
            params_of((of_a ? ROTA_LINEAR_SUMS_A | ROTA_MATMUL_TRANSPOSE_A |
                                  (lies_transposed ? ROTA_MATMUL_TRANSPOSE_B : 0)
                            : ROTA_LINEAR_SUMS_B | (lies_transposed ? 0 : ROTA_MATMUL_TRANSPOSE_A)) |
                      (accumulates ? ROTA_MATMUL_ACCUMULATE : 0));
        if (of_a)
            p.lda = M; /* what is summed is contiguous */
        else
            p.ldb = N;
        call(rota_cuda_call_linear_gradient, &o, ROTA_LINEAR_GRADIENT_OPERANDS, &p);
        assert_int_equal(launches, 0);
        const float *a = before.values[0], *b = before.values[1];
        for (uint32_t i = 0; i < M; i++)
            for (uint32_t j = 0; j < N; j++)
                expect(
                    o.values[ROTA_LINEAR_GRADIENT_OPERAND_C][i * N + j],
                    product(&p, a, b, i, j) +
                        (accumulates ? (double)before.values[ROTA_LINEAR_GRADIENT_OPERAND_C][i * N + j] : 0));
        for (uint32_t i = 0; i < (of_a ? M : N); i++) {
            double sum = 0;
            for (uint32_t l = 0; l < K; l++) sum += (double)(of_a ? a[l * M + i] : b[l * N + i]);
            expect(o.values[ROTA_LINEAR_GRADIENT_OPERAND_SUMS][i], sum);
        }
    }
}

/* What the library has no algorithm for is its product and rota's kernels, in the parts' number. */
static void what_is_refused_runs_apart(void **state) {
    (void)state;
    static const struct {
        uint32_t flags;
        int32_t refused;
    } cases[] = {
        {ROTA_LINEAR_BIAS, CUBLASLT_EPILOGUE_BIAS},
        {ROTA_LINEAR_GELU | ROTA_LINEAR_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS},
        {ROTA_LINEAR_GELU | ROTA_LINEAR_BIAS | ROTA_LINEAR_KEEP, CUBLASLT_EPILOGUE_GELU_AUX_BIAS},
        {ROTA_LINEAR_RELU | ROTA_LINEAR_RESIDUAL, -1}, /* in no epilogue */
        {ROTA_LINEAR_SUMS_B | ROTA_MATMUL_TRANSPOSE_A, CUBLASLT_EPILOGUE_BGRADA},
        {ROTA_LINEAR_SUMS_A | ROTA_MATMUL_TRANSPOSE_A, CUBLASLT_EPILOGUE_BGRADB},
    };
    if (!rota_kernels_have_cuda_images()) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        operands o, before;
        rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
        fill(&o);
        before = o;
        rota_choices_forget();
        cublaslt_standin.refused = cases[i].refused;
        const rota_linear_params p = params_of(cases[i].flags);
        const bool gradient = p.flags & (ROTA_LINEAR_SUMS_A | ROTA_LINEAR_SUMS_B);
        call(gradient ? rota_cuda_call_linear_gradient : rota_cuda_call_linear, &o,
             gradient ? (uint32_t)ROTA_LINEAR_GRADIENT_OPERANDS : (uint32_t)ROTA_LINEAR_OPERANDS, &p);
        assert_int_equal(
            launches, (gradient ? rota_linear_gradient_parts(&p, parts) : rota_linear_parts(&p, parts)) - 1);
        const uint32_t to = gradient                     ? ROTA_LINEAR_GRADIENT_OPERAND_C
                            : p.flags & ROTA_LINEAR_KEEP ? ROTA_LINEAR_OPERAND_KEPT
                                                         : ROTA_LINEAR_OPERAND_Y;
        for (uint32_t e = 0; e < M * N; e++)
            expect(o.values[to][e], product(&p, before.values[0], before.values[1], e / N, e % N));
        cublaslt_standin.refused = -1;
    }
    rota_choices_forget();
}

static uint32_t parts_of_gradient(rota_exec_kind kind, uint32_t rows, uint32_t flags, uint32_t *out_first) {
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    const rota_linear_params p = {
        .m = 3072, .n = 768, .k = rows, .flags = flags, .dtype = ROTA_BF16, .chunk = 512};
    const uint32_t count = rota_kernel_linear_gradient.parts(kind, &p, NULL, 0, &hopper, parts);
    *out_first = count && parts[0].kernel == &rota_kernel_matmul_bf16;
    return count;
}

/* Of what is summed half of the cache holds 20 480 rows of 768, and 5 120 of 3 072. */
static void sums_of_much_run_beside_the_product(void **state) {
    (void)state;
    uint32_t first;
    assert_int_equal(parts_of_gradient(ROTA_EXEC_CUDA, 4096, ROTA_LINEAR_SUMS_A, &first), 0);
    assert_int_equal(parts_of_gradient(ROTA_EXEC_CUDA, 20480, ROTA_LINEAR_SUMS_B, &first), 0);
    assert_int_equal(parts_of_gradient(ROTA_EXEC_CUDA, 20481, ROTA_LINEAR_SUMS_B, &first), 3);
    assert_true(first);
    assert_int_equal(parts_of_gradient(ROTA_EXEC_CUDA, 5121, ROTA_LINEAR_SUMS_A, &first), 3);
    assert_true(first);
    assert_int_equal(parts_of_gradient(ROTA_EXEC_CPU, 4096, ROTA_LINEAR_SUMS_B, &first), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_much_run_beside_the_product), cmocka_unit_test(what_follows_is_one_call),
        cmocka_unit_test(sums_are_made_in_the_product), cmocka_unit_test(what_is_refused_runs_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else /* nor has the library */
int main(void) {
    return 77;
}
#endif
