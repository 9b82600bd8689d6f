/* Matrix products by cuBLASLt. Its matrices are by columns, rota's by rows: c = a b by rows is c^T = b^T a^T
 * by columns, so b is its first operand and a its second, each as it lies in memory. */
#include "ops/cuda/cublaslt.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/handles.h"
#include "ops/cuda/libraries.h"

/* ---- Batches ---- */

static uint64_t stride_of(const rota_matmul_params *p, int operand, uint32_t axis) {
    const uint32_t *strides[] = {p->a_batch_stride, p->b_batch_stride, p->c_batch_stride};
    return strides[operand][axis];
}

/* Whether for all operands a step along `outer` is `extent` steps along `inner`. */
static bool goes_on(const rota_matmul_params *p, uint32_t outer, uint32_t inner, uint64_t extent) {
    for (int o = 0; o < 3; o++)
        if (stride_of(p, o, outer) != extent * stride_of(p, o, inner)) return false;
    return true;
}

void rota_cublaslt_batches(const rota_matmul_params *p, uint32_t *out_count, uint64_t out_stride[3],
                           uint32_t out_outer[2], uint64_t out_outer_stride[3][2]) {
    uint32_t left[3], lefts = 0, inner = 2;
    *out_count = 1;
    bool begun = false;
    for (int o = 0; o < 3; o++) out_stride[o] = 0;
    for (uint32_t axis = 3; axis-- > 0;) {
        if (p->batch[axis] == 1) continue;
        if (!begun) {
            begun = true;
            inner = axis;
            *out_count = p->batch[axis];
            for (int o = 0; o < 3; o++) out_stride[o] = stride_of(p, o, axis);
        } else if (lefts == 0 && goes_on(p, axis, inner, *out_count)) {
            *out_count *= p->batch[axis];
        } else {
            left[lefts++] = axis;
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        out_outer[i] = i < lefts ? p->batch[left[i]] : 1;
        for (int o = 0; o < 3; o++) out_outer_stride[o][i] = i < lefts ? stride_of(p, o, left[i]) : 0;
    }
}

#if __has_include(<cublasLt.h>)

#define FUNCTIONS(X)                                                                                         \
    X(Create)                                                                                                \
    X(GetVersion)                                                                                            \
    X(GetStatusName)                                                                                         \
    X(Matmul)                                                                                                \
    X(MatmulDescCreate)                                                                                      \
    X(MatmulDescDestroy)                                                                                     \
    X(MatmulDescSetAttribute)                                                                                \
    X(MatrixLayoutCreate)                                                                                    \
    X(MatrixLayoutDestroy)                                                                                   \
    X(MatrixLayoutSetAttribute)                                                                              \
    X(MatmulPreferenceCreate)                                                                                \
    X(MatmulPreferenceDestroy)                                                                               \
    X(MatmulPreferenceSetAttribute)                                                                          \
    X(MatmulAlgoGetHeuristic)                                                                                \
    X(MatmulAlgoCheck)                                                                                       \
    X(MatmulAlgoConfigSetAttribute)                                                                          \
    X(MatmulAlgoConfigGetAttribute)

static struct {
#define FIELD(name) __typeof__(&cublasLt##name) name;
    FUNCTIONS(FIELD)
#undef FIELD
} lt;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static bool present;

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof((rota_cublaslt_algorithm){0}.bytes), "kept as bytes");

static void load(void) {
#define LOAD(name)                                                                                           \
    if (!rota_cuda_library_find(ROTA_CUDA_LIBRARY_CUBLASLT, "cublasLt" #name, &lt.name, sizeof lt.name))     \
        return;
    FUNCTIONS(LOAD)
#undef LOAD
    present = true;
}

bool rota_cublaslt_present(void) {
    pthread_once(&load_once, load);
    return present;
}

uint64_t rota_cublaslt_version(void) {
    return rota_cublaslt_present() ? lt.GetVersion() : 0;
}

static rota_status check(cublasStatus_t result, const char *what) {
    if (result == CUBLAS_STATUS_SUCCESS) return ROTA_OK;
    rota_status status = ROTA_INTERNAL;
    if (result == CUBLAS_STATUS_ALLOC_FAILED) status = ROTA_OUT_OF_MEMORY;
    if (result == CUBLAS_STATUS_NOT_SUPPORTED || result == CUBLAS_STATUS_INVALID_VALUE ||
        result == CUBLAS_STATUS_ARCH_MISMATCH)
        status = ROTA_UNSUPPORTED;
    return rota_fail(status, "%s: %s (%d)", what, lt.GetStatusName(result), (int)result);
}

/* ---- Handles ---- */

#define ALIGNMENT_MAX 256u /* what cuBLASLt tells apart */

static rota_cuda_handles_shared handles = ROTA_CUDA_HANDLES_INIT;

static rota_status make_handle(void **out_handle) {
    cublasLtHandle_t handle;
    ROTA_TRY(check(lt.Create(&handle), "cublasLtCreate"));
    *out_handle = handle;
    return ROTA_OK;
}

static rota_status handle_of_context(cublasLtHandle_t *out_handle) {
    void *handle;
    ROTA_TRY(rota_cuda_handle_get(&handles, make_handle, "cuBLASLt", &handle));
    *out_handle = handle;
    return ROTA_OK;
}

/* ---- Describing a product ---- */

static void *pointer(uint64_t address) {
    void *value;
    memcpy(&value, &address, sizeof value);
    return value;
}

static rota_status make_layout(cudaDataType type, uint64_t rows, uint64_t columns, uint64_t ld,
                               uint32_t count, uint64_t stride, void **out_layout) {
    cublasLtMatrixLayout_t layout;
    ROTA_TRY(check(lt.MatrixLayoutCreate(&layout, type, rows, columns, (int64_t)ld),
                   "cublasLtMatrixLayoutCreate"));
    *out_layout = layout;
    if (count == 1) return ROTA_OK;
    const int32_t batch = (int32_t)count;
    const int64_t distance = (int64_t)stride;
    ROTA_TRY(
        check(lt.MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
              "the batch count of a matrix of cuBLASLt"));
    return check(lt.MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance,
                                             sizeof distance),
                 "the batch stride of a matrix of cuBLASLt");
}

/* By columns the bias goes along the rows of c^T, and the first operand is b. */
static rota_status describe_epilogue(const rota_matmul_params *p, const rota_cublaslt_extra *extra,
                                     rota_cublaslt_product *product) {
    const uint32_t flags = p->flags & ROTA_LINEAR_EPILOGUE;
    const uint32_t activation = flags & (ROTA_LINEAR_GELU | ROTA_LINEAR_RELU | ROTA_LINEAR_KEEP);
    const bool biased = (flags & ROTA_LINEAR_BIAS) != 0;
    if (flags == 0) return ROTA_OK;
    if (activation && flags & ROTA_LINEAR_RESIDUAL)
        return rota_fail(ROTA_UNSUPPORTED, "cuBLASLt adds a residual before the activation, not after it");
    int32_t epilogue;
    switch (activation) {
    case 0:
        epilogue = flags & ROTA_LINEAR_SUMS_B   ? CUBLASLT_EPILOGUE_BGRADA
                   : flags & ROTA_LINEAR_SUMS_A ? CUBLASLT_EPILOGUE_BGRADB
                   : biased                     ? CUBLASLT_EPILOGUE_BIAS
                                                : CUBLASLT_EPILOGUE_DEFAULT;
        break;
    case ROTA_LINEAR_GELU:
        epilogue = biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
        break;
    case ROTA_LINEAR_GELU | ROTA_LINEAR_KEEP:
        epilogue = biased ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
        break;
    case ROTA_LINEAR_RELU:
        epilogue = biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
        break;
    default:
        return rota_fail(ROTA_UNSUPPORTED, "cuBLASLt has no epilogue for flags %u", flags);
    }
    const int64_t kept_ld = p->ldc;
    const void *bias = pointer(extra->bias), *kept = pointer(extra->kept);
    const struct {
        bool wanted;
        cublasLtMatmulDescAttributes_t attribute;
        const void *value;
        size_t size_bytes;
    } attributes[] = {
        {true, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
        {biased || flags & (ROTA_LINEAR_SUMS_A | ROTA_LINEAR_SUMS_B), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
         &bias, sizeof bias},
        {flags & ROTA_LINEAR_KEEP, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &kept, sizeof kept},
        {flags & ROTA_LINEAR_KEEP, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &kept_ld, sizeof kept_ld}};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].wanted)
            ROTA_TRY(check(lt.MatmulDescSetAttribute(product->operation, attributes[i].attribute,
                                                     attributes[i].value, attributes[i].size_bytes),
                           "an epilogue of cuBLASLt"));
    if (flags & ROTA_LINEAR_RESIDUAL) {
        product->beta = 1.0f;
        product->addend = extra->residual;
    }
    return ROTA_OK;
}

static cudaDataType type_of(rota_dtype dtype) {
    switch (dtype) {
    case ROTA_F16:
        return CUDA_R_16F;
    case ROTA_BF16:
        return CUDA_R_16BF;
    case ROTA_F8_E4M3FN:
        return CUDA_R_8F_E4M3;
    case ROTA_F8_E5M2:
        return CUDA_R_8F_E5M2;
    default:
        return CUDA_R_32F;
    }
}

/* The scales of 8-bit operands, in the device's memory; its first operand is b. Sums are the matrix units' own: fast
 * accumulation is off unless asked for. */
static rota_status describe_scales(const rota_matmul_params *p, const rota_cublaslt_extra *extra,
                                   rota_cublaslt_product *product) {
    static const char what[] = "a scale of cuBLASLt";
    const void *first = pointer(extra->scale_b), *second = pointer(extra->scale_a);
    cublasLtMatmulDesc_t operation = product->operation;
    ROTA_TRY(check(
        lt.MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &first, sizeof first),
        what));
    ROTA_TRY(check(
        lt.MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &second, sizeof second),
        what));
    if (!(p->flags & ROTA_MATMUL_SCALED_BY_ROWS)) return ROTA_OK;
#if CUBLAS_VERSION >= 120900
    const int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    ROTA_TRY(check(
        lt.MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode), what));
    return check(lt.MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode),
                 what);
#else
    return rota_fail(ROTA_UNSUPPORTED,
                     "rota was built with a cuBLASLt before 12.9, which has no scales of rows");
#endif
}

static rota_status describe(const rota_matmul_params *p, rota_dtype dtype, rota_cublaslt_product *product) {
    const rota_dtype other = dtype == ROTA_F8_E4M3FN ? ROTA_F8_E5M2 : ROTA_F8_E4M3FN;
    const cudaDataType type = type_of(dtype), c_type = type_of((rota_dtype)p->c_dtype),
                       b_type = p->flags & ROTA_MATMUL_OTHER_F8 ? type_of(other) : type;
    const bool ta = (p->flags & ROTA_MATMUL_TRANSPOSE_A) != 0, tb = (p->flags & ROTA_MATMUL_TRANSPOSE_B) != 0;
    uint32_t count;
    uint64_t stride[3];
    rota_cublaslt_batches(p, &count, stride, product->outer, product->outer_stride);
    cublasLtMatmulDesc_t operation;
    ROTA_TRY(
        check(lt.MatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate"));
    product->operation = operation;
    const int32_t first = tb ? CUBLAS_OP_T : CUBLAS_OP_N, second = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    ROTA_TRY(check(lt.MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
                   "the first operand of cuBLASLt"));
    ROTA_TRY(check(lt.MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
                   "the second operand of cuBLASLt"));
    ROTA_TRY(make_layout(b_type, tb ? p->k : p->n, tb ? p->n : p->k, p->ldb, count, stride[1], &product->b));
    ROTA_TRY(make_layout(type, ta ? p->m : p->k, ta ? p->k : p->m, p->lda, count, stride[0], &product->a));
    return make_layout(c_type, p->n, p->m, p->ldc, count, stride[2], &product->c);
}

rota_status rota_cublaslt_open(const rota_matmul_params *params, rota_dtype dtype,
                               const rota_cublaslt_extra *extra, rota_cublaslt_product *out_product) {
    *out_product = (rota_cublaslt_product){
        .alpha = params->alpha,
        .beta = params->flags & ROTA_MATMUL_ACCUMULATE ? 1.0f : 0.0f,
        .element_bytes = (uint32_t)rota_dtype_bytes(dtype),
        .alignment_max = ALIGNMENT_MAX,
        .c_element_bytes = (uint32_t)rota_dtype_bytes((rota_dtype)params->c_dtype),
    };
    if (!rota_cublaslt_present()) return rota_fail(ROTA_UNSUPPORTED, "cuBLASLt is not there");
    cublasLtHandle_t handle;
    ROTA_TRY(handle_of_context(&handle));
    out_product->handle = handle;
    rota_status status = describe(params, dtype, out_product);
    if (status == ROTA_OK) status = describe_epilogue(params, extra, out_product);
    if (status == ROTA_OK && params->flags & ROTA_MATMUL_SCALED)
        status = describe_scales(params, extra, out_product);
    if (status != ROTA_OK) rota_cublaslt_close(out_product);
    return status;
}

/* What destroying could report is that nothing was there. */
void rota_cublaslt_close(rota_cublaslt_product *product) {
    if (product->operation) (void)lt.MatmulDescDestroy(product->operation);
    if (product->a) (void)lt.MatrixLayoutDestroy(product->a);
    if (product->b) (void)lt.MatrixLayoutDestroy(product->b);
    if (product->c) (void)lt.MatrixLayoutDestroy(product->c);
    product->operation = product->a = product->b = product->c = NULL;
}

/* ---- Algorithms ---- */

static uint32_t alignment_of(const rota_cublaslt_product *product, uint64_t address) {
    const uint64_t lowest = address & (0 - address);
    return lowest == 0 || lowest > product->alignment_max ? product->alignment_max : (uint32_t)lowest;
}

/* Of operand o in all outer batches. */
static uint32_t operand_alignment(const rota_cublaslt_product *product, const uint64_t operands[3], int o) {
    const uint64_t bytes = o == 2 ? product->c_element_bytes : product->element_bytes;
    return alignment_of(product, operands[o] | product->outer_stride[o][0] * bytes |
                                     product->outer_stride[o][1] * bytes);
}

static rota_status prefer(const rota_cublaslt_product *product, cublasLtMatmulPreference_t preference,
                          const uint64_t operands[3], uint64_t workspace_bytes) {
    /* cuBLASLt's a is rota's b. */
    const uint32_t a = operand_alignment(product, operands, 1), b = operand_alignment(product, operands, 0),
                   d = operand_alignment(product, operands, 2),
                   c = product->addend ? alignment_of(product, product->addend) : d;
    const size_t workspace = workspace_bytes;
    /* Sums of parts of a long k are f32, never rounded to 16 bits on the way. */
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size_bytes;
    } wishes[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
                  {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d}};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        ROTA_TRY(check(lt.MatmulPreferenceSetAttribute(preference, wishes[i].attribute, wishes[i].value,
                                                       wishes[i].size_bytes),
                       "a preference of cuBLASLt"));
    return ROTA_OK;
}

rota_status rota_cublaslt_candidates(const rota_cublaslt_product *product, const uint64_t operands[3],
                                     uint64_t workspace_bytes, rota_cublaslt_algorithm *out_algorithms,
                                     uint32_t capacity, uint32_t *out_count) {
    *out_count = 0;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t *results = calloc(capacity, sizeof *results);
    if (!results) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for cuBLASLt's algorithms");
    rota_status status = check(lt.MatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    if (status == ROTA_OK) {
        int found = 0;
        status = prefer(product, preference, operands, workspace_bytes);
        if (status == ROTA_OK)
            status = check(lt.MatmulAlgoGetHeuristic(product->handle, product->operation, product->b,
                                                     product->a, product->c, product->c, preference,
                                                     (int)capacity, results, &found),
                           "cublasLtMatmulAlgoGetHeuristic");
        (void)lt.MatmulPreferenceDestroy(preference);
        for (int i = 0; status == ROTA_OK && i < found; i++) {
            if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
            rota_cublaslt_algorithm *algorithm = &out_algorithms[(*out_count)++];
            memcpy(algorithm->bytes, &results[i].algo, sizeof algorithm->bytes);
            algorithm->workspace_bytes = results[i].workspaceSize;
        }
        if (status == ROTA_OK && *out_count == 0)
            status = rota_fail(ROTA_UNSUPPORTED, "cuBLASLt names no algorithm for the product");
    }
    free(results);
    return status;
}

rota_status rota_cublaslt_split(const rota_cublaslt_product *product,
                                const rota_cublaslt_algorithm *algorithm, uint32_t parts,
                                uint64_t workspace_bytes, rota_cublaslt_algorithm *out_algorithm) {
    static const char what[] = "an algorithm of cuBLASLt with its sum in parts";
    const int32_t splits = (int32_t)parts;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* as preferred above */
    cublasLtMatmulAlgo_t of;
    cublasLtMatmulHeuristicResult_t result = {0};
    memcpy(&of, algorithm->bytes, sizeof of);
    ROTA_TRY(check(
        lt.MatmulAlgoConfigSetAttribute(&of, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, sizeof splits), what));
    ROTA_TRY(check(lt.MatmulAlgoConfigSetAttribute(&of, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                                   sizeof reduction),
                   what));
    ROTA_TRY(check(lt.MatmulAlgoCheck(product->handle, product->operation, product->b, product->a, product->c,
                                      product->c, &of, &result),
                   what));
    if (result.workspaceSize > workspace_bytes)
        return rota_fail(ROTA_UNSUPPORTED, "%s wants %zu bytes of workspace; there are %llu", what,
                         result.workspaceSize, (unsigned long long)workspace_bytes);
    memcpy(out_algorithm->bytes, &of, sizeof out_algorithm->bytes);
    out_algorithm->workspace_bytes = result.workspaceSize;
    return ROTA_OK;
}

uint32_t rota_cublaslt_parts(const rota_cublaslt_algorithm *algorithm) {
    int32_t splits = 1;
    cublasLtMatmulAlgo_t of;
    memcpy(&of, algorithm->bytes, sizeof of);
    (void)lt.MatmulAlgoConfigGetAttribute(&of, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, sizeof splits, NULL);
    return splits > 1 ? (uint32_t)splits : 1;
}

/* ---- What an algorithm is ---- */

typedef struct named {
    int id;
    const char *name;
} named;
/* The header's lists, which the build reads (CMakeLists.txt). */
#define ROTA_CUBLASLT_NAME(id, name) {id, name},
static const named tile_names[] = {
    {0, "of its choice"},
#include "cuda/cublaslt_tiles.h"
};
static const named stage_names[] = {
    {0, "of its choice"},
#include "cuda/cublaslt_stages.h"
};
static const named cluster_names[] = {
    {0, "of its choice"},
#include "cuda/cublaslt_clusters.h"
};
#undef ROTA_CUBLASLT_NAME

/* In storage of the caller's where a newer library has one that the header doesn't name. */
static const char *name_of(const named *names, size_t count, int id, char storage[16]) {
    for (size_t i = 0; i < count; i++)
        if (names[i].id == id) return names[i].name;
    snprintf(storage, 16, "number %d", id);
    return storage;
}
#define NAME_OF(names, id, storage) name_of(names, sizeof(names) / sizeof *(names), (int)(id), storage)

void rota_cublaslt_describe(const rota_cublaslt_algorithm *algorithm, char *out_text, size_t capacity) {
    int32_t number = -1;
    uint32_t tile = 0, stages = 0, reduction = 0, swizzle = 0, option = 0;
    uint16_t cluster = 0;
    cublasLtMatmulAlgo_t of;
    char storage[3][16];
    const struct {
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        void *value;
        size_t size_bytes;
    } all[] = {{CUBLASLT_ALGO_CONFIG_ID, &number, sizeof number},
               {CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile},
               {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction, sizeof reduction},
               {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, &swizzle, sizeof swizzle},
               {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &option, sizeof option},
               {CUBLASLT_ALGO_CONFIG_STAGES_ID, &stages, sizeof stages},
               {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster, sizeof cluster}};
    memcpy(&of, algorithm->bytes, sizeof of);
    if (!rota_cublaslt_present()) {
        snprintf(out_text, capacity, "an algorithm of a cuBLASLt that is not there");
        return;
    }
    /* What it doesn't know of stays as above. */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)lt.MatmulAlgoConfigGetAttribute(&of, all[i].attribute, all[i].value, all[i].size_bytes, NULL);
    const uint32_t parts = rota_cublaslt_parts(algorithm);
    char division[64] = "the sum not divided";
    if (parts > 1)
        snprintf(division, sizeof division, "the sum in %u parts (reduction %u)", parts, reduction);
    snprintf(out_text, capacity,
             "algorithm %d, tile %s, stages %s, cluster %s, %s, swizzle %u, option %u, workspace %llu KiB",
             number, NAME_OF(tile_names, tile, storage[0]), NAME_OF(stage_names, stages, storage[1]),
             NAME_OF(cluster_names, cluster, storage[2]), division, swizzle, option,
             (unsigned long long)(algorithm->workspace_bytes + 1023) / 1024);
}

/* ---- On the stream ---- */

rota_status rota_cublaslt_run(const rota_cublaslt_product *product, const rota_cublaslt_algorithm *algorithm,
                              const uint64_t operands[3], uint64_t workspace, uint64_t workspace_bytes,
                              void *stream) {
    cublasLtMatmulAlgo_t chosen;
    memcpy(&chosen, algorithm->bytes, sizeof chosen);
    if (algorithm->workspace_bytes > workspace_bytes)
        return rota_fail(ROTA_UNSUPPORTED,
                         "an algorithm of cuBLASLt wants %llu bytes of workspace; there are %llu",
                         (unsigned long long)algorithm->workspace_bytes, (unsigned long long)workspace_bytes);
    for (uint32_t i = 0; i < product->outer[0]; i++)
        for (uint32_t j = 0; j < product->outer[1]; j++) {
            uint64_t addresses[3];
            for (int o = 0; o < 3; o++)
                addresses[o] =
                    operands[o] + (i * product->outer_stride[o][0] + j * product->outer_stride[o][1]) *
                                      (o == 2 ? product->c_element_bytes : product->element_bytes);
            void *d = pointer(addresses[2]), *c = product->addend ? pointer(product->addend) : d;
            ROTA_TRY(check(lt.Matmul(product->handle, product->operation, &product->alpha,
                                     pointer(addresses[1]), product->b, pointer(addresses[0]), product->a,
                                     &product->beta, c, product->c, d, product->c, &chosen,
                                     pointer(workspace), workspace_bytes, (cudaStream_t)stream),
                           "cublasLtMatmul"));
        }
    return ROTA_OK;
}

#else /* built without its header: it is never there */

bool rota_cublaslt_present(void) {
    return false;
}

uint64_t rota_cublaslt_version(void) {
    return 0;
}

static rota_status absent(void) {
    return rota_fail(ROTA_UNSUPPORTED, "rota was built without cuBLASLt's header");
}

rota_status rota_cublaslt_open(const rota_matmul_params *params, rota_dtype dtype,
                               const rota_cublaslt_extra *extra, rota_cublaslt_product *out_product) {
    (void)params, (void)dtype, (void)extra;
    *out_product = (rota_cublaslt_product){0};
    return absent();
}

void rota_cublaslt_close(rota_cublaslt_product *product) {
    (void)product;
}

rota_status rota_cublaslt_candidates(const rota_cublaslt_product *product, const uint64_t operands[3],
                                     uint64_t workspace_bytes, rota_cublaslt_algorithm *out_algorithms,
                                     uint32_t capacity, uint32_t *out_count) {
    (void)product, (void)operands, (void)workspace_bytes, (void)out_algorithms, (void)capacity;
    *out_count = 0;
    return absent();
}

rota_status rota_cublaslt_split(const rota_cublaslt_product *product,
                                const rota_cublaslt_algorithm *algorithm, uint32_t parts,
                                uint64_t workspace_bytes, rota_cublaslt_algorithm *out_algorithm) {
    (void)product, (void)algorithm, (void)parts, (void)workspace_bytes, (void)out_algorithm;
    return absent();
}

uint32_t rota_cublaslt_parts(const rota_cublaslt_algorithm *algorithm) {
    (void)algorithm;
    return 1;
}

void rota_cublaslt_describe(const rota_cublaslt_algorithm *algorithm, char *out_text, size_t capacity) {
    (void)algorithm;
    snprintf(out_text, capacity, "an algorithm of a cuBLASLt that is not there");
}

rota_status rota_cublaslt_run(const rota_cublaslt_product *product, const rota_cublaslt_algorithm *algorithm,
                              const uint64_t operands[3], uint64_t workspace, uint64_t workspace_bytes,
                              void *stream) {
    (void)product, (void)algorithm, (void)operands, (void)workspace, (void)workspace_bytes, (void)stream;
    return absent();
}

#endif
