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
#include "ops/cuda/driver.h"
#include "ops/cuda/libraries.h"
#include "ops/cuda/linear_cuda.h"
#include "ops/kernel_objects.h"
#include "ops/linear.h"

/* ---- The library ---- */

typedef struct operation {
    int32_t transposes[2], epilogue; /* of a and b */
    float *bias, *kept;
    int64_t kept_ld;
} operation;

typedef struct layout {
    uint64_t rows, columns;
    int64_t ld;
} layout;

static uint32_t products, launches, alive;
static int32_t refused = -1; /* the epilogue that no algorithm has */

static cublasStatus_t lt_Create(cublasLtHandle_t *handle) {
    static int one;
    *handle = (cublasLtHandle_t)(void *)&one;
    return CUBLAS_STATUS_SUCCESS;
}
static size_t lt_GetVersion(void) {
    return 130000;
}
static const char *lt_GetStatusName(cublasStatus_t status) {
    (void)status;
    return "a status";
}

static cublasStatus_t lt_MatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                          cudaDataType_t scale) {
    assert_int_equal(compute, CUBLAS_COMPUTE_32F);
    assert_int_equal(scale, CUDA_R_32F);
    operation *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    alive++;
    *out = (cublasLtMatmulDesc_t)(void *)made;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulDescDestroy(cublasLtMatmulDesc_t described) {
    free(described);
    alive--;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t lt_MatmulDescSetAttribute(cublasLtMatmulDesc_t described,
                                                cublasLtMatmulDescAttributes_t attribute, const void *value,
                                                size_t size) {
    operation *o = (void *)described;
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        void *field;
        size_t size;
    } fields[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &o->transposes[0], sizeof o->transposes[0]},
                  {CUBLASLT_MATMUL_DESC_TRANSB, &o->transposes[1], sizeof o->transposes[1]},
                  {CUBLASLT_MATMUL_DESC_EPILOGUE, &o->epilogue, sizeof o->epilogue},
                  {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias, sizeof o->bias},
                  {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &o->kept, sizeof o->kept},
                  {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &o->kept_ld, sizeof o->kept_ld}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].attribute == attribute) {
            assert_int_equal(size, fields[i].size);
            memcpy(fields[i].field, value, size);
            return CUBLAS_STATUS_SUCCESS;
        }
    fail_msg("attribute %d of a product is not known here", (int)attribute);
    return CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t lt_MatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                            uint64_t columns, int64_t ld) {
    assert_int_equal(type, CUDA_R_32F);
    layout *made = calloc(1, sizeof *made);
    assert_non_null(made);
    *made = (layout){rows, columns, ld};
    alive++;
    *out = (cublasLtMatrixLayout_t)(void *)made;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatrixLayoutDestroy(cublasLtMatrixLayout_t described) {
    free(described);
    alive--;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatrixLayoutSetAttribute(cublasLtMatrixLayout_t described,
                                                  cublasLtMatrixLayoutAttribute_t attribute,
                                                  const void *value, size_t size) {
    (void)described, (void)value, (void)size;
    fail_msg("no batches were asked for, yet attribute %d of a matrix is set", (int)attribute);
    return CUBLAS_STATUS_INVALID_VALUE;
}

static uint32_t reductions; /* that the preference made last allows */
static cublasStatus_t lt_MatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
    alive++;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    free(preference);
    alive--;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                      cublasLtMatmulPreferenceAttributes_t attribute,
                                                      const void *value, size_t size) {
    (void)preference;
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
        assert_int_equal(size, sizeof reductions);
        memcpy(&reductions, value, size);
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t lt_MatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t described,
                                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                cublasLtMatmulPreference_t preference, int most,
                                                cublasLtMatmulHeuristicResult_t *results, int *found) {
    (void)handle, (void)a, (void)b, (void)c, (void)d, (void)preference;
    const operation *o = (const void *)described;
    assert_true(most > 0);
    /* Partial sums in the results' type would be rounded to 16 bits each. */
    assert_int_equal(reductions, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    *found = o->epilogue != refused;
    if (*found) results[0] = (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_SUCCESS};
    return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

/* op(x)[row, column] of a matrix by columns. */
static float at(const float *x, const layout *l, bool transposed, uint64_t row, uint64_t column) {
    const uint64_t i = transposed ? column : row, j = transposed ? row : column;
    assert_true(i < l->rows && j < l->columns);
    return x[i + j * (uint64_t)l->ld];
}

static cublasStatus_t lt_Matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t described, const void *alpha,
                                const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                                size_t workspace_bytes, cudaStream_t stream) {
    (void)handle, (void)algorithm, (void)workspace, (void)workspace_bytes;
    const operation *o = (const void *)described;
    const layout *la = (const void *)a_layout, *lb = (const void *)b_layout, *lc = (const void *)c_layout,
                 *ld = (const void *)d_layout;
    const bool ta = o->transposes[0] == CUBLAS_OP_T, tb = o->transposes[1] == CUBLAS_OP_T;
    const uint64_t m = ta ? la->columns : la->rows, k = ta ? la->rows : la->columns,
                   n = tb ? lb->rows : lb->columns;
    const int32_t e = o->epilogue;
    const bool biased = e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_GELU_BIAS ||
                        e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS;
    const bool keeps = e == CUBLASLT_EPILOGUE_GELU_AUX || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    const bool is_gelu = keeps || e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS;
    const bool is_relu = e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_RELU_BIAS;
    assert_true(biased || keeps || is_gelu || is_relu || e == CUBLASLT_EPILOGUE_DEFAULT ||
                e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB);
    assert_int_equal((uintptr_t)stream, 0x5eed);
    assert_int_equal(tb ? lb->columns : lb->rows, k);
    assert_true(lc->rows == m && lc->columns == n && ld->rows == m && ld->columns == n);
    products++;
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            float sum = 0;
            for (uint64_t l = 0; l < k; l++) sum += at(a, la, ta, i, l) * at(b, lb, tb, l, j);
            sum *= *(const float *)alpha;
            if (*(const float *)beta != 0) sum += *(const float *)beta * at(c, lc, false, i, j);
            if (biased) sum += o->bias[i];
            if (keeps) o->kept[i + j * (uint64_t)o->kept_ld] = sum;
            ((float *)d)[i + j * (uint64_t)ld->ld] = is_gelu ? gelu(sum) : is_relu && sum < 0 ? 0 : sum;
        }
    for (uint64_t i = 0; e == CUBLASLT_EPILOGUE_BGRADA && i < m; i++) {
        o->bias[i] = 0;
        for (uint64_t l = 0; l < k; l++) o->bias[i] += at(a, la, ta, i, l);
    }
    for (uint64_t j = 0; e == CUBLASLT_EPILOGUE_BGRADB && j < n; j++) {
        o->bias[j] = 0;
        for (uint64_t l = 0; l < k; l++) o->bias[j] += at(b, lb, tb, l, j);
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- The driver: one context, and kernels that only are counted ---- */

static CUresult get_context(CUcontext *out) {
    *out = (CUcontext)(void *)&alive;
    return CUDA_SUCCESS;
}
static CUresult get_context_id(CUcontext context, unsigned long long *out) {
    (void)context;
    *out = 7;
    return CUDA_SUCCESS;
}
static CUresult launch(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    (void)function, (void)params, (void)extra;
    assert_int_equal((uintptr_t)config->hStream, 0x5eed);
    launches++;
    return CUDA_SUCCESS;
}
static CUresult answer(void) {
    return CUDA_SUCCESS;
}

static CUresult get_address(const char *name, void **out, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *result) {
    (void)version, (void)flags, (void)result;
    const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {{"cuCtxGetCurrent", (void (*)(void))get_context},
                     {"cuCtxGetId", (void (*)(void))get_context_id},
                     {"cuLaunchKernelEx", (void (*)(void))launch},
                     {name, (void (*)(void))answer}};
    size_t i = 0;
    while (strcmp(functions[i].name, name) != 0) i++;
    memcpy(out, &functions[i].function, sizeof *out);
    return CUDA_SUCCESS;
}

/* Instead of ops/cuda/libraries.c. */
const rota_cuda_library *rota_cuda_library_get(rota_cuda_library_kind kind) {
    static rota_cuda_library there = {.name = "a stand-in",
                                      .lost = "nothing",
                                      .file = "none",
                                      .handle = &products},
                             absent = {.name = "nothing", .lost = "nothing", .reason = "not here"};
    return kind == ROTA_CUDA_LIBRARY_DRIVER || kind == ROTA_CUDA_LIBRARY_CUBLASLT ? &there : &absent;
}

bool rota_cuda_library_find(rota_cuda_library_kind kind, const char *name, void *out_function,
                            size_t size_bytes) {
#define FUNCTION(which)                                                                                      \
    { "cublasLt" #which, (void (*)(void))lt_##which }
    static const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {FUNCTION(Create),
                     FUNCTION(GetVersion),
                     FUNCTION(GetStatusName),
                     FUNCTION(Matmul),
                     FUNCTION(MatmulDescCreate),
                     FUNCTION(MatmulDescDestroy),
                     FUNCTION(MatmulDescSetAttribute),
                     FUNCTION(MatrixLayoutCreate),
                     FUNCTION(MatrixLayoutDestroy),
                     FUNCTION(MatrixLayoutSetAttribute),
                     FUNCTION(MatmulPreferenceCreate),
                     FUNCTION(MatmulPreferenceDestroy),
                     FUNCTION(MatmulPreferenceSetAttribute),
                     FUNCTION(MatmulAlgoGetHeuristic),
                     {"cuGetProcAddress_v2", (void (*)(void))get_address}};
    if (!rota_cuda_library_get(kind)->handle) return false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) {
            memcpy(out_function, &functions[i].function, size_bytes);
            return true;
        }
    return false;
}

/* ---- Calls ---- */

enum { M = 6, N = 5, K = 7, MOST = 64 };
static const rota_cuda_target target = {.compute_capability = 90,
                                        .multiprocessors = 132,
                                        .l2_bytes = 60 << 20,
                                        .shared_bytes_max = 232448,
                                        .name = "a Hopper GPU",
                                        .driver = "580"};

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
    products = launches = 0;
    assert_ok(function(&(rota_cuda_call){.target = &target,
                                         .stream = (void *)(uintptr_t)0x5eed,
                                         .operands = o->addresses,
                                         .operand_bytes = o->bytes,
                                         .operand_count = count,
                                         .params = params}));
    assert_int_equal(products, 1);
    assert_int_equal(alive, 0);
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
                    const uint32_t place = i * N + j;
                    double z = product(&p, o.values[0], o.values[1], i, j);
                    if (p.flags & ROTA_LINEAR_BIAS) z += (double)before.values[ROTA_LINEAR_OPERAND_BIAS][j];
                    expect(o.values[ROTA_LINEAR_OPERAND_KEPT][place],
                           p.flags & ROTA_LINEAR_KEEP
                               ? z
                               : (double)before.values[ROTA_LINEAR_OPERAND_KEPT][place]);
                    if (p.flags & ROTA_LINEAR_GELU) z = (double)gelu((float)z);
                    if (p.flags & ROTA_LINEAR_RELU && z < 0) z = 0;
                    if (p.flags & ROTA_LINEAR_RESIDUAL)
                        z += (double)before.values[ROTA_LINEAR_OPERAND_RESIDUAL][place];
                    expect(o.values[ROTA_LINEAR_OPERAND_Y][place], z);
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
        refused = cases[i].refused;
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
        refused = -1;
    }
    rota_choices_forget();
}

static uint32_t parts_of_gradient(rota_exec_kind kind, uint32_t rows, uint32_t flags, uint32_t *out_first) {
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    const rota_linear_params p = {
        .m = 3072, .n = 768, .k = rows, .flags = flags, .dtype = ROTA_BF16, .chunk = 512};
    const uint32_t count = rota_kernel_linear_gradient.parts(kind, &p, NULL, 0, &target, parts);
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
