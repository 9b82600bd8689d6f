/* Attention by cuDNN as nodes of plans, without a device: the CUDA executor runs over the stand-in for the
 * driver, kernels as their C functions, and the stand-in for cuDNN puts its calls on the stream that is
 * captured. So operands, workspace, order and what is captured are the plan's own. */
#include "tests/kit/support.h"

#if defined(ROTA_HAVE_CUDA) && __has_include(<cudnn.h>)

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "graph/buffer_internal.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/half.h"
#include "ops/cuda/choices.h"
#include "rota.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/ops/ops_stub.h"
#include "tests/exec/cuda/cuda_stub_internal.h"
#include "tests/kit/random.h"
#include "tests/ops/cuda/standins.h"

#define PATIENCE_NS UINT64_C(20000000000)

enum { BATCH = 2, HEADS = 4, QUERIES = 128, KEYS = 256, DIM = 64, GRADIENTS = 3, RESULTS = 4 };

static standins standin;

/* ---- A call of cuDNN's as a kernel of the driver's stand-in ---- */

static uint32_t puts_made, finished;
static CUfunction call_function;

static rota_status finish_call(const rota_kernel_call *call) {
    finished++;
    return standin.finish((uint32_t)(uintptr_t)call->operands[0]) == 0
               ? ROTA_OK
               : rota_fail(ROTA_INTERNAL, "a call failed");
}

static const rota_kernel call_kernel = {.name = "a call of cuDNN's",
                                        .operand_count = 1,
                                        .cpu = {.fn = finish_call},
                                        .cuda = {.image = "image", .size_bytes = 6, .entry = "cudnn_call"}};

/* While it is measured, nothing has to be computed. */
static bool put(void *stream, uint32_t call) {
    struct {
        uint64_t block;
        uint32_t slot_mask, bind_mask;
        uint64_t operand;
    } arguments = {.operand = call};
    void *parameters[] = {&arguments};
    if (!((CUstream)stream)->capturing) return false;
    assert_int_equal(
        cuda_stub_api()->LaunchKernel(call_function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL),
        CUDA_SUCCESS);
    puts_made++;
    return true;
}

static int open_standins(void **state) {
    (void)state;
    if (!standins_open(&standin)) return -1;
    *standin.put = put;
    *standin.workspace_bytes = 1000;
    return 0;
}

/* ---- Attention and its gradients as a trainer records them ---- */

typedef struct run {
    rota_runtime *runtime;
    rota_device *device;
    rota_status status; /* of compiling */
    rota_dtype dtype;
    float *results[RESULTS]; /* y, and the gradients of q, k and v */
    uint64_t counts[RESULTS];
} run;

static float widen(rota_dtype dtype, uint16_t bits) {
    return dtype == ROTA_F16 ? rota_from_f16(bits) : rota_from_bf16(bits);
}

static void output(run *r, rota_tape *tape, uint32_t i, rota_tensor x, rota_buffer **out) {
    rota_tensor y;
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, "result", x.dtype, x.rank, x.shape, &y));
    assert_ok(rota_op_copy_into(tape, x, y));
    r->counts[i] = rota_buffer_size(y.buffer) / 2;
    *out = y.buffer;
}

/* q, k and v have the heads side by side in a row, as products make them; y too. */
static rota_graph *record_graph(run *r, rota_tensor inputs[3], rota_buffer *outputs[RESULTS]) {
    static const uint64_t rows[3] = {QUERIES, KEYS, KEYS};
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x[3], views[3], y, heads, wide, loss, gradients[GRADIENTS] = {0};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    for (int i = 0; i < 3; i++) {
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "input", r->dtype, 4,
                                   (const uint64_t[]){BATCH, rows[i], HEADS, DIM}, &inputs[i]));
        assert_ok(rota_op_scale(tape, inputs[i], ROTA_PLAIN(0.5), &x[i]));
        assert_ok(rota_tensor_transpose(&x[i], 1, 2, &views[i]));
    }
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, NULL, r->dtype, 4,
                               (const uint64_t[]){BATCH, QUERIES, HEADS, DIM}, &y));
    assert_ok(rota_tensor_transpose(&y, 1, 2, &heads));
    assert_ok(rota_op_attention_into(tape, views[0], views[1], views[2], true, 0, heads));
    assert_ok(rota_op_cast(tape, y, ROTA_F32, &wide));
    assert_ok(rota_op_sum_squares(tape, wide, &loss));
    assert_ok(rota_backward(tape, loss, inputs, 3, gradients, NULL));
    output(r, tape, 0, y, &outputs[0]);
    for (uint32_t i = 0; i < GRADIENTS; i++) output(r, tape, 1 + i, gradients[i], &outputs[1 + i]);
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    return graph;
}

static void replay(run *r, rota_plan *plan, rota_tensor inputs[3], rota_buffer *outputs[RESULTS]) {
    uint64_t seed = 3;
    rota_args *args;
    rota_ticket ticket;
    uint16_t *given[3], *taken[RESULTS];
    assert_ok(rota_args_create(plan, &args));
    for (int i = 0; i < 3; i++) {
        const uint64_t count = rota_buffer_size(inputs[i].buffer) / 2;
        given[i] = malloc(count * 2);
        assert_non_null(given[i]);
        for (uint64_t e = 0; e < count; e++) /* of magnitudes from 1/2 to 2 */
            given[i][e] = (uint16_t)(test_below(&seed, 2) << 15 |
                                     (r->dtype == ROTA_F16 ? 0x3800u | test_below(&seed, 0x800)
                                                           : 0x3F00u | test_below(&seed, 0x100)));
        assert_ok(rota_args_set_input(args, inputs[i].buffer, given[i], count * 2, false));
    }
    for (int i = 0; i < RESULTS; i++) {
        taken[i] = malloc(r->counts[i] * 2);
        assert_non_null(taken[i]);
        assert_ok(rota_args_set_output(args, outputs[i], taken[i], r->counts[i] * 2));
    }
    for (int times = 0; times < 2; times++) {
        assert_ok(rota_submit_wait(plan, args, PATIENCE_NS, &ticket));
        assert_ok(rota_wait(ticket, PATIENCE_NS));
    }
    for (int i = 0; i < RESULTS; i++) {
        r->results[i] = malloc(r->counts[i] * sizeof(float));
        assert_non_null(r->results[i]);
        for (uint64_t e = 0; e < r->counts[i]; e++) r->results[i][e] = widen(r->dtype, taken[i][e]);
        free(taken[i]);
    }
    for (int i = 0; i < 3; i++) free(given[i]);
    rota_args_release(args);
}

static run run_on(const char *id, rota_dtype dtype, bool replays) {
    run r = {.dtype = dtype};
    rota_tensor inputs[3];
    rota_buffer *outputs[RESULTS];
    rota_plan *plan;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.cache_dir = ""), &r.runtime));
    assert_ok(rota_device_open(r.runtime, id, &r.device));
    if (strcmp(id, "cpu") != 0) {
        rota_cuda_device *device = (rota_cuda_device *)rota_device_exec(r.device);
        assert_ok(rota_cuda_enter(device));
        assert_ok(rota_cuda_function_get(device, &call_kernel, &call_function, NULL));
        rota_cuda_leave(device);
    }
    rota_graph *graph = record_graph(&r, inputs, outputs);
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &r.device, .device_count = 1);
    assert_ok(rota_compile(r.runtime, graph, &options, &plan));
    if (replays) replay(&r, plan, inputs, outputs);
    rota_plan_release(plan);
    rota_graph_release(graph);
    assert_ok(rota_runtime_close(r.runtime, PATIENCE_NS));
    return r;
}

static void drop(run *r) {
    for (int i = 0; i < RESULTS; i++) free(r->results[i]);
}

static void start(void) {
    ops_stub_start(11);
    cuda_stub_kernel(&call_kernel);
    rota_choices_forget();
    /* So much faster that rota's own kernels, which here compute nothing, are looked at only. */
    *standin.run_ms = 0.2;
    *standin.launch_ms = 1;
    puts_made = finished = 0;
}

static void stop(void) {
    cuda_stub_end_clean();
}

static void test_results(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const rota_dtype dtype = i ? ROTA_F16 : ROTA_BF16;
        start();
        run by_cudnn = run_on("cuda:0", dtype, true);
        assert_int_equal(puts_made, 2); /* attention, and all of its gradient */
        assert_int_equal(finished, 2 * puts_made);
        stop();
        run expected = run_on("cpu", dtype, true);
        for (int k = 0; k < RESULTS; k++) {
            double most = 0;
            for (uint64_t e = 0; e < expected.counts[k]; e++)
                most = fmax(most, fabs((double)expected.results[k][e]));
            assert_true(most > 1e-3);
            for (uint64_t e = 0; e < expected.counts[k]; e++)
                if (!(fabs((double)(by_cudnn.results[k][e] - expected.results[k][e])) <=
                      most * (i ? 0.004 : 0.03)))
                    fail_msg("result %d, element %llu: %g, expected %g of at most %g", k,
                             (unsigned long long)e, (double)by_cudnn.results[k][e],
                             (double)expected.results[k][e], most);
        }
        drop(&by_cudnn);
        drop(&expected);
    }
}

/* cuDNN fails: the plan is made all the same, of rota's kernels. */
static void test_failure(void **state) {
    (void)state;
    start();
    *standin.fails = true;
    run r = run_on("cuda:0", ROTA_BF16, false); /* which measures what else there is for the gradient */
    assert_int_equal(puts_made, 0);
    drop(&r);
    const int launches = *standin.launches;
    r = run_on("cuda:0", ROTA_BF16, false);
    assert_int_equal(puts_made, 0);
    assert_int_equal(*standin.launches - launches,
                     1 + 2); /* of the gradient Hopper's, which are the fewest */
    *standin.fails = false;
    drop(&r);
    stop();
    /* It says nothing, but what it did ended the capture of the first of the two. */
    int made[2];
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        start();
        if (spoilt) cuda_stub_fail("StreamEndCapture", 0, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        const int before = *standin.launches;
        r = run_on("cuda:0", ROTA_F16, false);
        made[spoilt] = *standin.launches - before; /* when they were measured, too */
        assert_int_equal(puts_made, 2);
        drop(&r);
        stop();
    }
    assert_int_equal(made[1], made[0] + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_results), cmocka_unit_test(test_failure)};
    if (!rota_kernels_have_cuda_images()) return 77;
    return cmocka_run_group_tests(tests, open_standins, NULL);
}

#else

int main(void) {
    return 77; /* built without cuDNN's headers */
}

#endif
