/* A classifier in pieces of rows on CUDA devices: what fusion makes one node and what it leaves, and what that
 * node puts on its stream, by stand-ins for cuBLASLt and the driver that do on host memory what they are told.
 */
#include "ops/fuse_classifier.h"
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cublasLt.h>)
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/classifier_cuda.h"
#include "ops/cuda/loss_cuda.h"
#include "graph/graph_internal.h"
#include "rota.h"
#include "sched/plan/compile.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/ops/ops_stub.h"
#include "tests/ops/cuda/cublaslt_standin.h"
#include "tests/ops/cuda/hopper.h"

static uint32_t losses_made, casts;

/* ---- The two kernels that there are ---- */

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
    for (uint32_t c = 0; c < p->classes; c++) sum += exp((double)cublaslt_of_bf16(row[c]));
    const bool ignored = label == p->ignored;
    *out_lse = (float)log(sum);
    *out_loss = ignored ? 0.0f : (float)(log(sum) - (double)cublaslt_of_bf16(row[label]));
    for (uint32_t c = 0; c < p->pitch; c++) {
        const double share = c < p->classes ? exp((double)cublaslt_of_bf16(row[c])) / sum : 0;
        const double slope = (share - ((int32_t)c == label ? 1 : 0)) / counted;
        row[c] = cublaslt_to_bf16(ignored || c >= p->classes ? 0.0f : (float)slope);
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
        ((uint16_t *)pointer(args->words[1]))[i] =
            cublaslt_to_bf16(((const float *)pointer(args->words[0]))[i]);
    casts++;
}

static void launched(const char *kernel, const void *args) {
    if (strcmp(kernel, "cross_entropy_piece") == 0)
        loss_piece(args);
    else if (strcmp(kernel, "cast") == 0)
        cast(args);
    else
        fail_msg("%s was not expected", kernel);
}

/* ---- The node ---- */

enum { ROWS = 37, K = 24, CLASSES = 13, PITCH = 16, PIECE = 16 };

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
    for (int i = 0; i < ROWS * K; i++) operands.x[i] = cublaslt_to_bf16(sinf((float)(3 * i + 1)));
    for (int i = 0; i < PITCH * K; i++) operands.w[i] = cublaslt_to_bf16(cosf((float)(5 * i + 2)));
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
                sum += (double)cublaslt_of_bf16(operands.x[r * K + k]) *
                       (double)cublaslt_of_bf16(operands.w[of_x ? k * PITCH + c : c * K + k]);
            row[c] = cublaslt_to_bf16((float)sum);
        }
        loss_of_row(&p->loss, row, operands.labels[r], counted, &expected.losses[r], &expected.lse[r]);
        for (int c = 0; c < PITCH; c++)
            for (int k = 0; k < K; k++) {
                const int weight = of_x ? k * PITCH + c : c * K + k;
                expected.dx[r * K + k] +=
                    (double)cublaslt_of_bf16(row[c]) * (double)cublaslt_of_bf16(operands.w[weight]);
                expected.dw[weight] +=
                    (double)cublaslt_of_bf16(row[c]) * (double)cublaslt_of_bf16(operands.x[r * K + k]);
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
        bytes[7] = rota_cuda_classifier_in_pieces.cuda.workspace(&p, bytes, &hopper);
        assert_true(bytes[7] >= PIECE * PITCH * 2 && bytes[7] < sizeof operands.workspace);
        cublaslt_standin.products = losses_made = casts = 0;
        cublaslt_standin.launched = launched;
        rota_choices_forget();
        assert_ok(rota_cuda_classifier_in_pieces.cuda.call(
            &(rota_cuda_call){.target = &hopper,
                              .stream = pointer(CUBLASLT_STANDIN_STREAM),
                              .operands = addresses,
                              .operand_bytes = bytes,
                              .operand_count = 8,
                              .params = &p}));
        assert_int_equal(cublaslt_standin.products, 9);
        assert_int_equal(cublaslt_standin.alive, 0);
        assert_int_equal(losses_made, 3);
        assert_int_equal(casts, !wide);
        /* No more of the workspace is written than was asked for. */
        assert_int_equal(((const uint8_t *)operands.workspace)[bytes[7]], 0xFF);
        for (int i = 0; i < ROWS; i++)
            assert_true(expected.losses[i] == operands.losses[i] && expected.lse[i] == operands.lse[i]);
        for (int i = 0; i < ROWS * K; i++)
            assert_true(near((double)cublaslt_of_bf16(dx[i]), expected.dx[i], 0.004));
        for (int i = 0; i < PITCH * K; i++) {
            const double got =
                wide ? (double)operands.dw[i] : (double)cublaslt_of_bf16(((uint16_t *)operands.dw)[i]);
            assert_true(near(got, expected.dw[i], wide ? 1e-5 : 0.004));
        }
    }
}

static void rows_of_a_piece(void **state) {
    (void)state;
    /* All fit; the last piece is the smaller one; fewer than a tile, or than eight, fit. */
    assert_int_equal(rota_cuda_classifier_piece(100, 10, 1000), 100);
    assert_int_equal(rota_cuda_classifier_piece(32768, 100608, UINT64_C(5) << 26), 3328);
    assert_int_equal(rota_cuda_classifier_piece(32768, 100608, UINT64_C(19) << 24), 3072);
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
    ops_stub_start(7);
    rota_runtime *runtime;
    rota_device *devices[2];
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &devices[0]));
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

/* ---- Under a memory limit ---- */

enum { MANY_ROWS = 4096, MANY_CLASSES = 1024 };

/* A plan for a device that is only described: how many of its commands are classifiers in pieces. */
static uint32_t classifiers_of(const rota_plan *plan) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    uint32_t count = 0;
    assert_ok(rota_plan_get_stats(plan, &stats));
    rota_plan_command *commands = calloc(stats.commands, sizeof *commands);
    assert_non_null(commands);
    commands[0].struct_size = sizeof *commands;
    assert_ok(rota_plan_get_commands(plan, commands, stats.commands));
    for (uint64_t i = 0; i < stats.commands; i++)
        count += commands[i].kernel == &rota_cuda_classifier_in_pieces;
    free(commands);
    return count;
}

static void record_many(rota_graph *graph) {
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor in, w, label, x, logits, loss, grads[2] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE}, out;
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "x", ROTA_BF16, ROTA_SHAPE(MANY_ROWS, K), &in));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "w", ROTA_BF16, ROTA_SHAPE(MANY_CLASSES, K), &w));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "labels", ROTA_I32, ROTA_SHAPE(MANY_ROWS), &label));
    assert_ok(rota_op_scale(tape, in, ROTA_PLAIN(2), &x));
    assert_ok(rota_op_matmul(tape, x, w, false, true, &logits));
    assert_ok(rota_op_classifier(tape, logits, label,
                                 &ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true), &loss));
    assert_ok(rota_backward(tape, loss, (rota_tensor[]){in, w}, 2, grads, NULL));
    for (int i = 0; i < 2; i++) {
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, "grad", ROTA_BF16, grads[i].rank, grads[i].shape,
                                   &out));
        assert_ok(rota_op_copy_into(tape, grads[i], out));
    }
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
}

/* Scores of 8 MiB are all there at once where nothing is said against it, and in pieces where they have no room. */
static void pieces_where_memory_is_short(void **state) {
    (void)state;
    if (!rota_kernels_have_cuda_images()) skip();
    const rota_device_traits device = {
        .id = "cuda:0", .kind = ROTA_EXEC_CUDA, .features = UINT32_MAX, .cuda = &hopper};
    const rota_plan_devices devices = {.all = &device, .count = 1, .queues = 2};
    const uint64_t scores = UINT64_C(2) * MANY_ROWS * MANY_CLASSES,
                   limits[] = {0, 2 * scores, scores / 4, 4096};
    rota_graph *graph;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_fuse(graph));
    record_many(graph);
    rota_graph_freeze(graph);
    for (uint32_t i = 0; i < 4; i++) {
        rota_device *handle = NULL;
        rota_plan *plan;
        rota_plan_stats stats = ROTA_PLAN_STATS();
        const rota_status status = rota_plan_compile(
            graph,
            &ROTA_COMPILE_OPTIONS(.devices = &handle, .device_count = 1, .memory_limit_bytes = limits[i]),
            &devices, &plan);
        if (i == 3) {
            assert_status(status, ROTA_OUT_OF_MEMORY);
            assert_non_null(strstr(rota_last_error(), "over the limit of 4096, with "));
            continue;
        }
        assert_ok(status);
        assert_ok(rota_plan_get_stats(plan, &stats));
        assert_int_equal(classifiers_of(plan), i == 2);
        if (i) assert_true(stats.arena_bytes <= limits[i]);
        rota_plan_destroy(plan);
    }
    rota_graph_release(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_the_whole), cmocka_unit_test(rows_of_a_piece),
        cmocka_unit_test(what_becomes_one_node), cmocka_unit_test(pieces_where_memory_is_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    return 77; /* built without CUDA's headers */
}

#endif
