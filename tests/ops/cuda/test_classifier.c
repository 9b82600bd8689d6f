/* A classifier in pieces of rows on CUDA devices: what fusion makes one node and what it leaves, and what that
 * node puts on its stream, by stand-ins for cuBLASLt and the driver that do on host memory what they are told.
 */
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/classifier.h"
#include "ops/cuda/driver.h"
#include "ops/cuda/libraries.h"
#include "ops/cuda/loss.h"
#include "ops/fuse_patterns.h"
#include "rota.h"
#include "tests/exec/cuda/cuda_stub.h"

static float of_bf16(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t to_bf16(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return (uint16_t)((word + 0x7FFFu + (word >> 16 & 1)) >> 16);
}

/* ---- cuBLASLt: products of bf16 by columns, into bf16 or f32 ---- */

typedef struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld;
} layout;

static uint32_t products, losses_made, casts;

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
    *out = calloc(2, sizeof(int32_t));
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulDescDestroy(cublasLtMatmulDesc_t described) {
    free(described);
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulDescSetAttribute(cublasLtMatmulDesc_t described,
                                                cublasLtMatmulDescAttributes_t attribute, const void *value,
                                                size_t size) {
    int32_t *transposes = (void *)described;
    assert_int_equal(size, sizeof *transposes);
    assert_true(attribute == CUBLASLT_MATMUL_DESC_TRANSA || attribute == CUBLASLT_MATMUL_DESC_TRANSB);
    memcpy(&transposes[attribute == CUBLASLT_MATMUL_DESC_TRANSB], value, size);
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                            uint64_t columns, int64_t ld) {
    layout *made = calloc(1, sizeof *made);
    assert_non_null(made);
    *made = (layout){type, rows, columns, ld};
    *out = (cublasLtMatrixLayout_t)(void *)made;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatrixLayoutDestroy(cublasLtMatrixLayout_t described) {
    free(described);
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatrixLayoutSetAttribute(cublasLtMatrixLayout_t described,
                                                  cublasLtMatrixLayoutAttribute_t attribute,
                                                  const void *value, size_t size) {
    (void)described, (void)value, (void)size;
    fail_msg("no batches were asked for, yet attribute %d of a matrix is set", (int)attribute);
    return CUBLAS_STATUS_INVALID_VALUE;
}
static cublasStatus_t lt_MatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    *out = calloc(1, sizeof **out);
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                      cublasLtMatmulPreferenceAttributes_t attribute,
                                                      const void *value, size_t size) {
    (void)preference, (void)attribute, (void)value, (void)size;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t lt_MatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t described,
                                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                cublasLtMatmulPreference_t preference, int most,
                                                cublasLtMatmulHeuristicResult_t *results, int *found) {
    (void)handle, (void)described, (void)a, (void)b, (void)c, (void)d, (void)preference;
    assert_true(most > 0);
    results[0] = (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_SUCCESS};
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* op(x)[row, column] of a matrix by columns. */
static double at(const void *x, const layout *l, bool transposed, uint64_t row, uint64_t column) {
    const uint64_t i = transposed ? column : row, j = transposed ? row : column,
                   place = i + j * (uint64_t)l->ld;
    assert_true(i < l->rows && j < l->columns);
    return l->type == CUDA_R_32F ? (double)((const float *)x)[place]
                                 : (double)of_bf16(((const uint16_t *)x)[place]);
}

static cublasStatus_t lt_Matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t described, const void *alpha,
                                const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                                size_t workspace_bytes, cudaStream_t stream) {
    (void)handle, (void)algorithm, (void)workspace, (void)workspace_bytes;
    const int32_t *transposes = (const void *)described;
    const layout *la = (const void *)a_layout, *lb = (const void *)b_layout, *lc = (const void *)c_layout,
                 *ld = (const void *)d_layout;
    const bool ta = transposes[0] == CUBLAS_OP_T, tb = transposes[1] == CUBLAS_OP_T;
    const uint64_t m = ta ? la->columns : la->rows, k = ta ? la->rows : la->columns,
                   n = tb ? lb->rows : lb->columns;
    assert_int_equal((uintptr_t)stream, 0x5eed);
    assert_true(la->type == CUDA_R_16BF && lb->type == CUDA_R_16BF && *(const float *)alpha == 1.0f);
    assert_int_equal(tb ? lb->columns : lb->rows, k);
    assert_true(lc->rows == m && lc->columns == n && ld->rows == m && ld->columns == n);
    products++;
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            double sum = *(const float *)beta == 0 ? 0 : at(c, lc, false, i, j);
            for (uint64_t l = 0; l < k; l++) sum += at(a, la, ta, i, l) * at(b, lb, tb, l, j);
            if (ld->type == CUDA_R_32F)
                ((float *)d)[i + j * (uint64_t)ld->ld] = (float)sum;
            else
                ((uint16_t *)d)[i + j * (uint64_t)ld->ld] = to_bf16((float)sum);
        }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- The driver: a kernel is its name, and the two that there are do their work ---- */

typedef struct image_args {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t words[64];
} image_args;

static void *pointer(uint64_t address) {
    return (void *)(uintptr_t)address;
}

/* A row's loss and, in the place of its scores, the gradient. */
static void loss_of_row(const rota_cross_entropy_params *p, uint16_t *row, int32_t label, uint32_t counted,
                        float *out_loss, float *out_lse) {
    double sum = 0;
    for (uint32_t c = 0; c < p->classes; c++) sum += exp((double)of_bf16(row[c]));
    const bool ignored = label == p->ignored;
    *out_lse = (float)log(sum);
    *out_loss = ignored ? 0.0f : (float)(log(sum) - (double)of_bf16(row[label]));
    for (uint32_t c = 0; c < p->pitch; c++) {
        const double share = c < p->classes ? exp((double)of_bf16(row[c])) / sum : 0;
        const double slope = (share - ((int32_t)c == label ? 1 : 0)) / counted;
        row[c] = to_bf16(ignored || c >= p->classes ? 0.0f : (float)slope);
    }
}

static void loss_piece(const image_args *args) {
    rota_cuda_loss_piece_params p;
    memcpy(&p, &args->words[4], sizeof p);
    const int32_t *labels = pointer(args->words[1]);
    uint32_t counted = 0;
    for (uint32_t r = 0; r < p.all.rows; r++) counted += labels[r] != p.all.ignored;
    for (uint32_t r = p.first; r < p.first + p.count; r++)
        loss_of_row(&p.all, (uint16_t *)pointer(args->words[0]) + (uint64_t)(r - p.first) * p.all.pitch,
                    labels[r], counted, (float *)pointer(args->words[2]) + r,
                    (float *)pointer(args->words[3]) + r);
    losses_made++;
}

static void cast(const image_args *args) {
    rota_cast_params p;
    memcpy(&p, &args->words[2], sizeof p);
    assert_true(p.from == ROTA_F32 && p.to == ROTA_BF16);
    for (uint32_t i = 0; i < p.count; i++)
        ((uint16_t *)pointer(args->words[1]))[i] = to_bf16(((const float *)pointer(args->words[0]))[i]);
    casts++;
}

static CUresult get_context(CUcontext *out) {
    *out = (CUcontext)(void *)&products;
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
    assert_int_equal((uintptr_t)config->hStream, 0x5eed);
    if (strcmp(name, "cross_entropy_piece") == 0)
        loss_piece(params[0]);
    else if (strcmp(name, "cast") == 0)
        cast(params[0]);
    else
        fail_msg("%s was not expected", name);
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

/* ---- The node ---- */

enum { ROWS = 37, K = 24, CLASSES = 13, PITCH = 16, PIECE = 16 };
static const rota_cuda_target target = {.compute_capability = 90,
                                        .multiprocessors = 132,
                                        .l2_bytes = 60 << 20,
                                        .shared_bytes_max = 232448,
                                        .name = "a Hopper GPU",
                                        .driver = "580"};

/* w is [PITCH, K], or [K, PITCH] where dw is of x. */
static rota_cuda_classifier_params params_of(bool of_x, uint32_t dw_dtype) {
    return (rota_cuda_classifier_params){
        .loss = {.rows = ROWS, .classes = CLASSES, .ignored = -1, .dtype = ROTA_BF16, .pitch = PITCH},
        .k = K,
        .piece = PIECE,
        .flags = of_x ? ROTA_CUDA_CLASSIFIER_DW_OF_X : 0,
        .dw_dtype = dw_dtype,
        .scores = {K, of_x ? PITCH : K, PITCH, of_x ? 0 : ROTA_MATMUL_TRANSPOSE_B},
        .dx = {PITCH, of_x ? PITCH : K, K, of_x ? ROTA_MATMUL_TRANSPOSE_B : 0},
        .dw = {of_x ? K : PITCH, of_x ? PITCH : K, of_x ? PITCH : K, ROTA_MATMUL_TRANSPOSE_A},
    };
}

static struct {
    uint16_t x[ROWS * K], w[PITCH * K];
    int32_t labels[ROWS];
    float losses[ROWS], lse[ROWS];
    uint16_t dx[ROWS * K];
    float dw[PITCH * K]; /* or half as much, of 16 bits */
    uint64_t workspace[4096];
} operands;

/* The same in f64, with scores and their gradient rounded as they are kept. */
static struct {
    double dx[ROWS * K], dw[PITCH * K];
    float losses[ROWS], lse[ROWS];
} expected;

static void fill(void) {
    for (int i = 0; i < ROWS * K; i++) operands.x[i] = to_bf16(sinf((float)(3 * i + 1)));
    for (int i = 0; i < PITCH * K; i++) operands.w[i] = to_bf16(cosf((float)(5 * i + 2)));
    for (int i = 0; i < ROWS; i++) operands.labels[i] = i % 7 == 3 ? -1 : i * 5 % CLASSES;
    memset(operands.dw, 0xFF, sizeof operands.dw);
    memset(operands.workspace, 0xFF, sizeof operands.workspace);
}

static void expect(const rota_cuda_classifier_params *p, bool of_x) {
    uint32_t counted = 0;
    memset(&expected, 0, sizeof expected);
    for (int r = 0; r < ROWS; r++) counted += operands.labels[r] != -1;
    for (int r = 0; r < ROWS; r++) {
        uint16_t row[PITCH];
        for (int c = 0; c < PITCH; c++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)of_bf16(operands.x[r * K + k]) *
                       (double)of_bf16(operands.w[of_x ? k * PITCH + c : c * K + k]);
            row[c] = to_bf16((float)sum);
        }
        loss_of_row(&p->loss, row, operands.labels[r], counted, &expected.losses[r], &expected.lse[r]);
        for (int c = 0; c < PITCH; c++)
            for (int k = 0; k < K; k++) {
                const int place = of_x ? k * PITCH + c : c * K + k;
                expected.dx[r * K + k] += (double)of_bf16(row[c]) * (double)of_bf16(operands.w[place]);
                expected.dw[place] += (double)of_bf16(row[c]) * (double)of_bf16(operands.x[r * K + k]);
            }
    }
}

static bool near(double got, double wanted, double relative) {
    return fabs(got - wanted) <= relative * fabs(wanted) + 1e-6;
}

static void pieces_are_the_whole(void **state) {
    (void)state;
    if (!rota_kernels_have_cuda_images()) skip();
    for (int form = 0; form < 8; form++) {
        const bool of_x = form & 1, wide = form & 2, in_place = form & 4;
        const rota_cuda_classifier_params p = params_of(of_x, wide ? ROTA_F32 : ROTA_BF16);
        fill();
        expect(&p, of_x);
        uint16_t *dx = in_place ? operands.x : operands.dx;
        void *all[] = {operands.x,   operands.w, operands.labels, operands.losses,
                       operands.lse, dx,         operands.dw,     operands.workspace};
        const uint64_t dw_bytes = PITCH * K * (wide ? 4 : 2);
        uint64_t bytes[] = {sizeof operands.x,
                            sizeof operands.w,
                            sizeof operands.labels,
                            sizeof operands.losses,
                            sizeof operands.lse,
                            sizeof operands.dx,
                            dw_bytes,
                            0};
        uint64_t addresses[8];
        for (int i = 0; i < 8; i++) addresses[i] = (uint64_t)(uintptr_t)all[i];
        bytes[7] = rota_cuda_classifier_in_pieces.cuda.workspace(&p, bytes, &target);
        assert_true(bytes[7] >= PIECE * PITCH * 2 && bytes[7] < sizeof operands.workspace);
        products = losses_made = casts = 0;
        rota_choices_forget();
        assert_ok(rota_cuda_classifier_in_pieces.cuda.call(&(rota_cuda_call){.target = &target,
                                                                             .stream = pointer(0x5eed),
                                                                             .operands = addresses,
                                                                             .operand_bytes = bytes,
                                                                             .operand_count = 8,
                                                                             .params = &p}));
        assert_int_equal(products, 9);
        assert_int_equal(losses_made, 3);
        assert_int_equal(casts, !wide);
        /* No more of the workspace is written than was asked for. */
        assert_int_equal(((const uint8_t *)operands.workspace)[bytes[7]], 0xFF);
        for (int i = 0; i < ROWS; i++)
            assert_true(expected.losses[i] == operands.losses[i] && expected.lse[i] == operands.lse[i]);
        for (int i = 0; i < ROWS * K; i++) assert_true(near((double)of_bf16(dx[i]), expected.dx[i], 0.004));
        for (int i = 0; i < PITCH * K; i++) {
            const double got = wide ? (double)operands.dw[i] : (double)of_bf16(((uint16_t *)operands.dw)[i]);
            assert_true(near(got, expected.dw[i], wide ? 1e-5 : 0.004));
        }
    }
}

static void rows_of_a_piece(void **state) {
    (void)state;
    /* All fit; the last piece is the smaller one; fewer than a tile, or than eight, fit. */
    assert_int_equal(rota_cuda_classifier_piece(100, 10, 1000), 100);
    assert_int_equal(rota_cuda_classifier_piece(32768, 100608, UINT64_C(5) << 26), 3328);
    assert_int_equal(rota_cuda_classifier_piece(4096, 1000, 1024 * 1000), 1024);
    assert_int_equal(rota_cuda_classifier_piece(4096, 1000, 100 * 1000), 8);
    assert_int_equal(rota_cuda_classifier_piece(4096, 1000, 10), 8);
    for (uint32_t rows = 1; rows < 3000; rows += 7)
        for (uint64_t most = 1; most < 3000; most += 11) {
            const uint32_t piece = rota_cuda_classifier_piece(rows, 3, most * 3);
            assert_true(piece > 0 && piece <= rows && (piece == rows || piece % 8 == 0));
            assert_true(piece <= most || piece <= 8);
        }
}

/* ---- What becomes one node ---- */

typedef enum form { PLAIN, UNTIED, SCALED, READ_ELSEWHERE, WATCHED, FORMS } form;

static uint32_t found, left_products;

/* Fuses with small bounds, counts, and ends the compile: nothing here could run it. */
static rota_status look(void *user, rota_rewriter *rewriter) {
    const uint64_t *least_bytes = user;
    rota_fuse_index index;
    ROTA_TRY(rota_fuse_index_make(rewriter, &index));
    rota_status status = rota_fuse_classifiers(rewriter, &index, *least_bytes, PIECE * PITCH * 2);
    rota_fuse_index_free(&index);
    ROTA_TRY(status);
    found = left_products = 0;
    for (uint64_t n = 0; n < rota_rewriter_node_count(rewriter); n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        found += view.kernel == &rota_cuda_classifier_in_pieces;
        left_products += view.kernel == rota_kernel_find("matmul_bf16");
        if (view.kernel != &rota_cuda_classifier_in_pieces) continue;
        const rota_cuda_classifier_params *p = view.params;
        assert_true(p->loss.rows == 48 && p->k == K && p->piece == 8);
    }
    return rota_fail(ROTA_UNSUPPORTED, "looked");
}

static void record(rota_tape *tape, form f) {
    rota_tensor in, w, label, x, logits, loss, grads[2] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE}, out;
    const bool untied = f == UNTIED;
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "x", ROTA_BF16, ROTA_SHAPE(4, 12, K), &in));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "w", ROTA_BF16,
                               ROTA_SHAPE(untied ? K : PITCH, untied ? PITCH : K), &w));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "labels", ROTA_I32, ROTA_SHAPE(4, 12), &label));
    assert_ok(rota_op_scale(tape, in, ROTA_PLAIN(2), &x));
    assert_ok(rota_op_matmul(tape, x, w, false, !untied, &logits));
    assert_ok(rota_op_classifier(
        tape, logits, label,
        &ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .classes = CLASSES, .in_place = true), &loss));
    if (f == READ_ELSEWHERE) {
        assert_ok(
            rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, "scores", ROTA_BF16, ROTA_SHAPE(4, 12, PITCH), &out));
        assert_ok(rota_op_copy_into(tape, logits, out));
    }
    if (f == SCALED) assert_ok(rota_op_scale(tape, loss, ROTA_PLAIN(0.5), &loss));
    rota_tensor of[] = {in, w};
    if (f == WATCHED) of[1] = logits;
    assert_ok(rota_backward(tape, loss, of, 2, grads, NULL));
    for (int i = 0; i < 2; i++) {
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, "grad", ROTA_BF16, grads[i].rank, grads[i].shape,
                                   &out));
        assert_ok(rota_op_copy_into(tape, grads[i], out));
    }
}

static void see(rota_runtime *runtime, rota_device *device, form f, uint64_t least_bytes) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan *plan = NULL;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_fuse(graph));
    assert_ok(rota_graph_add_rewrite(graph, look, &least_bytes));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    record(tape, f);
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    assert_int_not_equal(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan),
        ROTA_OK);
    assert_non_null(strstr(rota_last_error(), "looked"));
    rota_graph_release(graph);
}

static void what_becomes_one_node(void **state) {
    (void)state;
    if (!rota_kernels_have_cuda_images()) skip();
    cuda_stub_start(7, 1);
    rota_runtime *runtime;
    rota_device *devices[2];
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &devices[0]));
    uint32_t count;
    const rota_kernel *const *kernels = rota_kernel_table(&count);
    for (uint32_t k = 0; k < count; k++)
        if (kernels[k]->cuda.entry) cuda_stub_kernel(kernels[k]);
    assert_ok(rota_device_open(runtime, "cuda:0", &devices[1]));
    const uint64_t scores = 48 * PITCH * 2;
    for (form f = PLAIN; f < FORMS; f++)
        for (int cuda = 0; cuda < 2; cuda++) {
            const bool fits = cuda && (f == PLAIN || f == UNTIED);
            see(runtime, devices[cuda], f, scores);
            assert_int_equal(found, fits);
            if (fits) assert_int_equal(left_products, 0);
            see(runtime, devices[cuda], f, scores + 1);
            assert_int_equal(found, 0);
        }
    assert_ok(rota_runtime_close(runtime, UINT64_C(20000000000)));
    cuda_stub_stop();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_are_the_whole),
                                       cmocka_unit_test(rows_of_a_piece),
                                       cmocka_unit_test(what_becomes_one_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    return 77; /* built without CUDA's headers */
}

#endif
