/* See cublaslt_standin.h. */
#include "tests/kit/support.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/driver.h"
#include "bench/half.h"
#include "ops/cuda/libraries.h"
#include "tests/ops/cuda/cublaslt_standin.h"

cublaslt_standin_state cublaslt_standin = {.refused = -1};

float cublaslt_of_bf16(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t cublaslt_to_bf16(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return (uint16_t)((word + 0x7FFFu + (word >> 16 & 1)) >> 16);
}

/* ---- Descriptions ---- */

/* cublasLtMatmulMatrixScale_t, as far as products here know it: one scale for the whole matrix, or one for each row of
 * op(a) and each column of op(b). A library before 12.9 has only the former, and no attribute to say so. */
enum {
    SCALE_OF_ALL = 0,
#if CUBLAS_VERSION >= 120900
    SCALE_OF_EACH = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
#else
    SCALE_OF_EACH = -1
#endif
};

typedef struct operation {
    int32_t transposes[2], epilogue; /* of a and b */
    float *bias, *kept;
    int64_t kept_ld;
    const float *scales[2]; /* of a and b */
    int32_t modes[2];       /* what each scale is of: SCALE_OF_ALL or SCALE_OF_EACH */
} operation;

typedef struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld;
} layout;

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
    cublaslt_standin.alive++;
    *out = (cublasLtMatmulDesc_t)(void *)made;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulDescDestroy(cublasLtMatmulDesc_t described) {
    free(described);
    cublaslt_standin.alive--;
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
    } fields[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &o->transposes[0], sizeof o->transposes[0]},
        {CUBLASLT_MATMUL_DESC_TRANSB, &o->transposes[1], sizeof o->transposes[1]},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &o->epilogue, sizeof o->epilogue},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias, sizeof o->bias},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &o->kept, sizeof o->kept},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &o->kept_ld, sizeof o->kept_ld},
        {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &o->scales[0], sizeof o->scales[0]},
        {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &o->scales[1], sizeof o->scales[1]},
#if CUBLAS_VERSION >= 120900
        {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &o->modes[0], sizeof o->modes[0]},
        {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &o->modes[1], sizeof o->modes[1]},
#endif
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].attribute == attribute) {
            assert_int_equal(size, fields[i].size);
            memcpy(fields[i].field, value, size);
            return CUBLAS_STATUS_SUCCESS;
        }
    fail_msg("attribute %d of a product is not known here", (int)attribute);
    return CUBLAS_STATUS_INVALID_VALUE;
}

static bool is_f8(cudaDataType type) {
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

static cublasStatus_t lt_MatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                            uint64_t columns, int64_t ld) {
    assert_true(type == CUDA_R_32F || type == CUDA_R_16BF || is_f8(type));
    layout *made = calloc(1, sizeof *made);
    assert_non_null(made);
    *made = (layout){type, rows, columns, ld};
    cublaslt_standin.alive++;
    *out = (cublasLtMatrixLayout_t)(void *)made;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatrixLayoutDestroy(cublasLtMatrixLayout_t described) {
    free(described);
    cublaslt_standin.alive--;
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
    cublaslt_standin.alive++;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    free(preference);
    cublaslt_standin.alive--;
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
    *found = o->epilogue == cublaslt_standin.refused ? 0
             : cublaslt_standin.algorithms           ? (int)cublaslt_standin.algorithms
                                                     : 1;
    assert_true(*found <= most);
    for (int i = 0; i < *found; i++)
        results[i] =
            (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_SUCCESS, .algo.data[0] = (uint64_t)i};
    return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Every algorithm is number 66 of a tile and a cluster, and leaves the rest to be chosen. */
static cublasStatus_t lt_MatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                      cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                      void *value, size_t size, size_t *written) {
    (void)written;
    const int32_t splits = algorithm->data[1] ? (int32_t)algorithm->data[1] : 1;
    const struct {
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        int32_t value;
    } has[] = {{CUBLASLT_ALGO_CONFIG_ID, 66},
               {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, splits},
               {CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_MATMUL_TILE_128x256},
               {CUBLASLT_ALGO_CONFIG_STAGES_ID, 7777},
               {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, CUBLASLT_CLUSTER_SHAPE_2x1x1}};
    for (size_t i = 0; i < sizeof has / sizeof *has; i++) {
        if (has[i].attribute != attribute) continue;
        memcpy(value, &has[i].value, size); /* little-endian: the low bytes */
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t lt_MatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algorithm,
                                                      cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                      const void *value, size_t size) {
    uint32_t number;
    assert_int_equal(size, sizeof number);
    memcpy(&number, value, sizeof number);
    if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
        algorithm->data[1] = number;
    else
        assert_true(attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME &&
                    number == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    return CUBLAS_STATUS_SUCCESS;
}

/* A MiB for each part, as far as it divides sums. */
static cublasStatus_t lt_MatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t described,
                                         cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                         const cublasLtMatmulAlgo_t *algorithm,
                                         cublasLtMatmulHeuristicResult_t *result) {
    (void)handle, (void)described, (void)a, (void)b, (void)c, (void)d;
    if (algorithm->data[1] > cublaslt_standin.parts_most) return CUBLAS_STATUS_NOT_SUPPORTED;
    *result =
        (cublasLtMatmulHeuristicResult_t){.algo = *algorithm, .workspaceSize = algorithm->data[1] << 20};
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Products ---- */

static float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

/* op(x)[row, column] of a matrix by columns. */
static double element_of(const void *x, const layout *l, bool transposed, uint64_t row, uint64_t column) {
    const uint64_t i = transposed ? column : row, j = transposed ? row : column,
                   offset = i + j * (uint64_t)l->ld;
    assert_true(i < l->rows && j < l->columns);
    if (is_f8(l->type)) {
        const uint8_t code = ((const uint8_t *)x)[offset];
        return l->type == CUDA_R_8F_E4M3 ? (double)f8_to_float(code, 3, 7) : (double)f8_to_float(code, 2, 15);
    }
    return l->type == CUDA_R_32F ? (double)((const float *)x)[offset]
                                 : (double)cublaslt_of_bf16(((const uint16_t *)x)[offset]);
}

static void put(void *x, const layout *l, uint64_t row, uint64_t column, float value) {
    const uint64_t offset = row + column * (uint64_t)l->ld;
    if (l->type == CUDA_R_32F)
        ((float *)x)[offset] = value;
    else
        ((uint16_t *)x)[offset] = cublaslt_to_bf16(value);
}

/* What its documentation asks of 8-bit floats. */
static void check_f8(const operation *o, const layout *a, const layout *b, const layout *d) {
    const uint64_t d_bytes = d->type == CUDA_R_32F ? 4 : 2;
    assert_true(is_f8(b->type) && !(a->type == CUDA_R_8F_E5M2 && b->type == CUDA_R_8F_E5M2));
    assert_int_equal(o->transposes[0], CUBLAS_OP_T);
    assert_int_equal(o->transposes[1], CUBLAS_OP_N);
    assert_int_equal(a->rows % 16, 0);
    assert_int_equal(a->ld % 16, 0);
    assert_int_equal(b->ld % 16, 0);
    assert_int_equal((uint64_t)d->ld * d_bytes % 16, 0);
    assert_true(o->scales[0] && o->scales[1]);
    assert_int_equal(o->modes[0], o->modes[1]);
    assert_true(o->modes[0] == SCALE_OF_ALL || o->modes[0] == SCALE_OF_EACH);
}

static double scale_of(const operation *o, uint64_t i, uint64_t j) {
    if (!o->scales[0]) return 1;
    const bool each = o->modes[0] == SCALE_OF_EACH;
    return (double)o->scales[0][each ? i : 0] * (double)o->scales[1][each ? j : 0];
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
    assert_int_equal((uintptr_t)stream, CUBLASLT_STANDIN_STREAM);
    if (is_f8(la->type))
        check_f8(o, la, lb, ld);
    else
        assert_int_equal(la->type, lb->type);
    assert_int_equal(tb ? lb->columns : lb->rows, k);
    assert_true(lc->rows == m && lc->columns == n && ld->rows == m && ld->columns == n);
    cublaslt_standin.products++;
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            double sum = 0;
            for (uint64_t l = 0; l < k; l++) sum += element_of(a, la, ta, i, l) * element_of(b, lb, tb, l, j);
            sum *= (double)*(const float *)alpha * scale_of(o, i, j);
            if (*(const float *)beta != 0)
                sum += (double)*(const float *)beta * element_of(c, lc, false, i, j);
            if (biased) sum += is_f8(la->type) ? element_of(o->bias, ld, false, i, 0) : (double)o->bias[i];
            if (keeps) o->kept[i + j * (uint64_t)o->kept_ld] = (float)sum;
            put(d, ld, i, j, is_gelu ? gelu((float)sum) : is_relu && sum < 0 ? 0 : (float)sum);
        }
    for (uint64_t i = 0; e == CUBLASLT_EPILOGUE_BGRADA && i < m; i++) {
        o->bias[i] = 0;
        for (uint64_t l = 0; l < k; l++) o->bias[i] += (float)element_of(a, la, ta, i, l);
    }
    for (uint64_t j = 0; e == CUBLASLT_EPILOGUE_BGRADB && j < n; j++) {
        o->bias[j] = 0;
        for (uint64_t l = 0; l < k; l++) o->bias[j] += (float)element_of(b, lb, tb, l, j);
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- The driver: one context ---- */

static CUresult get_context(CUcontext *out) {
    *out = (CUcontext)(void *)&cublaslt_standin;
    return CUDA_SUCCESS;
}
static CUresult get_context_id(CUcontext context, unsigned long long *out) {
    (void)context;
    *out = 7;
    return CUDA_SUCCESS;
}
static CUresult get_kernel(CUkernel *out, CUlibrary library, const char *name) {
    (void)library;
    memcpy(out, &name, sizeof name);
    return CUDA_SUCCESS;
}
static CUresult get_function(CUfunction *out, CUkernel kernel) {
    memcpy(out, &kernel, sizeof kernel);
    return CUDA_SUCCESS;
}
static CUresult launch(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    (void)extra;
    const char *name;
    memcpy(&name, &function, sizeof name);
    assert_int_equal((uintptr_t)config->hStream, CUBLASLT_STANDIN_STREAM);
    assert_non_null(cublaslt_standin.launched);
    cublaslt_standin.launched(name, params[0]);
    return CUDA_SUCCESS;
}
static CUresult elapsed(float *out_ms, CUevent begin, CUevent end) {
    (void)begin, (void)end;
    *out_ms = cublaslt_standin.run_ms;
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
                     {"cuLibraryGetKernel", (void (*)(void))get_kernel},
                     {"cuKernelGetFunction", (void (*)(void))get_function},
                     {"cuLaunchKernelEx", (void (*)(void))launch},
                     {"cuEventElapsedTime", (void (*)(void))elapsed},
                     {name, (void (*)(void))answer}};
    size_t i = 0;
    while (strcmp(functions[i].name, name) != 0) i++;
    memcpy(out, &functions[i].function, sizeof *out);
    return CUDA_SUCCESS;
}

/* ---- Libraries ---- */

const rota_cuda_library *rota_cuda_library_get(rota_cuda_library_kind kind) {
    static rota_cuda_library there = {.name = "a stand-in",
                                      .lost = "nothing",
                                      .file = "none",
                                      .handle = &cublaslt_standin},
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
                     FUNCTION(MatmulAlgoConfigGetAttribute),
                     FUNCTION(MatmulAlgoConfigSetAttribute),
                     FUNCTION(MatmulAlgoCheck),
                     {"cuGetProcAddress_v2", (void (*)(void))get_address}};
    if (!rota_cuda_library_get(kind)->handle) return false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) {
            memcpy(out_function, &functions[i].function, size_bytes);
            return true;
        }
    return false;
}

#endif
