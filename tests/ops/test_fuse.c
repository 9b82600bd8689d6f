/* Fusion: random graphs of elementwise ops fused and not, with the same results; what ends a run; what a
 * fused node may be in place of. */
#include "base/thread_time.h"
#include "ops/cuda/fused.h"
#include "ops/fuse_program.h"
#include "tests/kit/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/fusion.h"
#include "ops/cuda/nvrtc.h"
#include "rota.h"
#include "sched/plan/compiled.h"
#include "tests/adversary/adversary.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/ops/fuse_graph.h"
#include "tests/ops/ops_stub.h"
#include "tests/kit/validation.h"

#define PATIENCE_NS UINT64_C(20000000000)

/* ---- Running a random graph ---- */

typedef struct results {
    void *data[FUSE_OUTPUTS_MAX];
    uint64_t bytes[FUSE_OUTPUTS_MAX];
    rota_dtype dtype[FUSE_OUTPUTS_MAX];
    uint32_t count;
    uint64_t commands, merged, arena_bytes;
} results;

static void fill(rota_dtype dtype, void *data, uint64_t bytes, bool exact, uint64_t *random) {
    for (uint64_t i = 0; i < bytes / rota_dtype_bytes(dtype); i++) {
        /* Exact: few bits, so that products and sums of some steps are not rounded differently anywhere. */
        const float value = exact ? (float)(int)test_below(random, 9) / 2.0f - 2.0f
                                  : (float)(int)test_below(random, 4001) / 1000.0f - 2.0f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (dtype == ROTA_F32)
            ((float *)data)[i] = value;
        else if (dtype == ROTA_BF16)
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
        else
            ((uint16_t *)data)[i] =
                (uint16_t)(test_below(random, 3) << 9 | 0x3A00u | test_below(random, 2) << 15);
    }
}

static rota_rewrite_fn more_hook; /* NULL: none */

/* Records, compiles and runs the seed's graph, twice with other arguments. */
static void run_graph(rota_runtime *runtime, rota_device *device, uint64_t seed, bool exact, bool fused,
                      const rota_compile_options *more, results *out) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    fuse_graph g;
    rota_plan *plan;
    rota_args *args;
    uint64_t random = seed * 77 + 5;
    void *inputs[FUSE_INPUTS];
    *out = (results){0};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    assert_ok(fuse_graph_record(tape, seed, exact, &g));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    if (fused) assert_ok(rota_graph_fuse(graph));
    if (more_hook) assert_ok(rota_graph_add_rewrite(graph, more_hook, NULL));
    rota_compile_options options = more ? *more : ROTA_COMPILE_OPTIONS();
    options.certify = true;
    options.devices = &device;
    options.device_count = 1;
    assert_ok(rota_compile(runtime, graph, &options, &plan));
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t i = 0; i < FUSE_INPUTS; i++) {
        const uint64_t bytes = rota_buffer_size(g.inputs[i].buffer);
        inputs[i] = calloc(1, bytes + 8);
        fill(g.inputs[i].dtype, inputs[i], bytes, exact, &random);
        assert_ok(rota_args_set_input(args, g.inputs[i].buffer, inputs[i], bytes, false));
    }
    out->count = g.output_count;
    for (uint32_t i = 0; i < g.output_count; i++) {
        out->bytes[i] = rota_buffer_size(g.outputs[i].buffer);
        out->dtype[i] = g.outputs[i].dtype;
        out->data[i] = malloc(2 * out->bytes[i]);
    }
    for (uint32_t replay = 0; replay < 2; replay++) {
        rota_ticket ticket;
        for (uint32_t i = 0; i < g.output_count; i++)
            assert_ok(rota_args_set_output(args, g.outputs[i].buffer,
                                           (uint8_t *)out->data[i] + replay * out->bytes[i], out->bytes[i]));
        assert_ok(rota_args_set_f32(args, g.alpha, replay ? -0.5f : 1.5f));
        assert_ok(rota_args_set_u32(args, g.seed, 40 + replay));
        assert_ok(rota_submit_wait(plan, args, PATIENCE_NS, &ticket));
        assert_ok(rota_wait(ticket, PATIENCE_NS));
    }
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    out->commands = stats.commands;
    out->merged = stats.merged;
    out->arena_bytes = stats.arena_bytes;
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_release(graph);
    for (uint32_t i = 0; i < FUSE_INPUTS; i++) free(inputs[i]);
}

static void free_results(results *r) {
    for (uint32_t i = 0; i < r->count; i++) free(r->data[i]);
}

/* Fused and not, bit for bit. The number of nodes that went into others. */
static uint64_t compare(rota_runtime *runtime, rota_device *device, uint64_t seed, bool exact,
                        const rota_compile_options *options) {
    results plain, fused;
    run_graph(runtime, device, seed, exact, false, options, &plain);
    run_graph(runtime, device, seed, exact, true, options, &fused);
    assert_int_equal(plain.merged, 0);
    assert_int_equal(plain.commands, fused.commands + fused.merged);
    for (uint32_t o = 0; o < plain.count; o++)
        for (uint64_t i = 0; i < 2 * plain.bytes[o]; i++)
            if (((uint8_t *)plain.data[o])[i] != ((uint8_t *)fused.data[o])[i])
                fail_msg("seed %llu: output %u (%s) differs at byte %llu of %llu", (unsigned long long)seed,
                         o, rota_dtype_name(plain.dtype[o]), (unsigned long long)i,
                         (unsigned long long)(2 * plain.bytes[o]));
    const uint64_t merged = fused.merged;
    free_results(&plain);
    free_results(&fused);
    return merged;
}

static void the_cpu_gives_the_same_bits(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    uint64_t merged = 0;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 2), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    for (uint64_t seed = 1; seed <= 150; seed++)
        merged += compare(runtime, device, seed, false,
                          &ROTA_COMPILE_OPTIONS(.packing = seed % 2 ? ROTA_PACK_TIGHT : ROTA_PACK_CONCURRENT,
                                                .queues = 1 + (uint32_t)seed % 2));
    assert_true(merged > 500);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
}

/* In every order that the lowered plan allows, on memory that is poisoned outside its lifetime. */
static void the_adversary_gives_the_same_bits(void **state) {
    (void)state;
    uint64_t merged = 0;
    for (uint64_t seed = 200; seed < 240; seed++) {
        adversary_options adversary = {.mode = (adversary_mode)(seed % 3)};
        atomic_store(&adversary.seed, seed);
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(adversary_runtime_open(&adversary, NULL, &runtime));
        assert_ok(rota_device_open(runtime, "adversary", &device));
        merged +=
            compare(runtime, device, seed, false,
                    &ROTA_COMPILE_OPTIONS(.packing = seed % 2 ? ROTA_PACK_TIGHT : ROTA_PACK_CONCURRENT));
        assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
        assert_int_equal(atomic_load(&adversary.violations), 0);
    }
    assert_true(merged > 100);
}

static void a_real_device_gives_the_same_bits(const char *id, uint64_t graphs) {
    rota_runtime *runtime;
    rota_device *device;
    uint64_t merged = 0;
    const rota_runtime_options options = validation_on(ROTA_RUNTIME_OPTIONS());
    assert_ok(rota_runtime_open(&options, &runtime));
    if (rota_device_open(runtime, id, &device) != ROTA_OK) {
        print_message("skipped on %s: %s\n", id, rota_last_error());
        assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
        return;
    }
    for (uint64_t seed = 300; seed < 300 + graphs; seed++)
        merged += compare(runtime, device, seed, false, NULL);
    print_message("%s: %llu nodes merged in %llu graphs\n", id, (unsigned long long)merged,
                  (unsigned long long)graphs);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
    assert_int_equal(validation_messages(), 0);
}

static void vulkan_gives_the_same_bits(void **state) {
    (void)state;
    a_real_device_gives_the_same_bits("vk:0", 5);
}

#ifdef ROTA_HAVE_CUDA
/* Plans of fused nodes through the CUDA executor: everything but the compiled code itself. */
static void the_cuda_executor_gives_the_same_bits(void **state) {
    (void)state;
    char text[512];
    if (!rota_kernels_have_cuda_images() || !rota_nvrtc_is_there(text, sizeof text)) {
        print_message("skipped: %s\n", rota_kernels_have_cuda_images() ? text : "no CUDA images were built");
        return;
    }
    ops_stub_start(5);
    more_hook = ops_stub_tell;
    rota_runtime *runtime;
    rota_device *device;
    uint64_t merged = 0;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cuda:0", &device));
    for (uint64_t seed = 400; seed < 403; seed++) merged += compare(runtime, device, seed, false, NULL);
    assert_true(merged > 5);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
    more_hook = NULL;
    assert_int_equal(cuda_stub_violations(text, sizeof text), 0);
    cuda_stub_stop();
}
#endif

#ifdef ROTA_HAVE_CUDA
/* ---- A loss and its gradient in one node ---- */

enum { LOSS_ROWS = 5, LOSS_CLASSES = 13, LOSS_PITCH = 16 };
static int losses_at_once;

/* What the kernel of the CUDA image does, for the stand-in, in f64. */
static rota_status loss_in_place(const rota_kernel_call *call) {
    const rota_cross_entropy_params *p = call->params;
    uint16_t *logits = call->operands[0];
    const int32_t *labels = call->operands[1];
    float *losses = call->operands[2], *lse = call->operands[3];
    uint32_t counted = 0;
    for (uint32_t r = 0; r < p->rows; r++) counted += labels[r] != p->ignored;
    for (uint32_t r = 0; r < p->rows; r++, logits += p->pitch) {
        double sum = 0;
        for (uint32_t c = 0; c < p->classes; c++) sum += exp((double)ops_stub_from_bf16(logits[c]));
        const bool ignored = labels[r] == p->ignored;
        lse[r] = (float)log(sum);
        losses[r] = ignored ? 0.0f : (float)(log(sum) - (double)ops_stub_from_bf16(logits[labels[r]]));
        for (uint32_t c = 0; c < p->pitch; c++) {
            const double share = c < p->classes ? exp((double)ops_stub_from_bf16(logits[c])) / sum : 0;
            const double hot = (int32_t)c == labels[r] ? 1 : 0;
            logits[c] =
                ops_stub_to_bf16(ignored || c >= p->classes ? 0.0f : (float)((share - hot) / counted));
        }
    }
    losses_at_once++;
    return ROTA_OK;
}

/* times: what gradients are of is the loss times this; the gradient by the scores' input goes to out_grad. */
static void run_loss(const ops_stub *stub, rota_device *device, float times, float *out_loss,
                     uint16_t out_grad[LOSS_ROWS * LOSS_PITCH]) {
    static const int32_t labels[LOSS_ROWS] = {3, 12, ROTA_IGNORED_LABEL, 0, 7};
    uint16_t x[LOSS_ROWS * LOSS_PITCH];
    ops_stub_graph g;
    rota_tensor in, label, logits, loss, of, grad = ROTA_TENSOR_NONE, out[2];
    for (int i = 0; i < LOSS_ROWS * LOSS_PITCH; i++)
        x[i] = ops_stub_to_bf16((float)(i * 7 % 23) * 0.125f - 1.0f);
    ops_stub_record(&g, NULL);
    assert_ok(
        rota_tape_tensor(g.tape, ROTA_BUFFER_INPUT, "x", ROTA_BF16, ROTA_SHAPE(LOSS_ROWS, LOSS_PITCH), &in));
    assert_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_INPUT, "labels", ROTA_I32, ROTA_SHAPE(LOSS_ROWS), &label));
    assert_ok(rota_op_scale(g.tape, in, ROTA_PLAIN(2), &logits));
    assert_ok(rota_op_classifier(
        g.tape, logits, label,
        &ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .classes = LOSS_CLASSES, .in_place = true), &loss));
    of = loss;
    if (times != 1.0f) assert_ok(rota_op_scale(g.tape, loss, ROTA_PLAIN((double)times), &of));
    assert_ok(rota_backward(g.tape, of, &in, 1, &grad, NULL));
    assert_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_OUTPUT, "loss", ROTA_F32, ROTA_SHAPE(1), &out[0]));
    assert_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_OUTPUT, "grad", ROTA_BF16,
                               ROTA_SHAPE(LOSS_ROWS, LOSS_PITCH), &out[1]));
    assert_ok(rota_op_copy_into(g.tape, loss, out[0]));
    assert_ok(rota_op_copy_into(g.tape, grad, out[1]));
    ops_stub_compile(&g, stub, device);
    assert_ok(rota_args_set_input(g.args, in.buffer, x, sizeof x, false));
    assert_ok(rota_args_set_input(g.args, label.buffer, labels, sizeof labels, false));
    assert_ok(rota_args_set_output(g.args, out[0].buffer, out_loss, sizeof *out_loss));
    assert_ok(
        rota_args_set_output(g.args, out[1].buffer, out_grad, sizeof(uint16_t) * LOSS_ROWS * LOSS_PITCH));
    (void)ops_stub_replay(&g);
}

/* On CUDA, where gradients are of the loss itself, and nowhere else. */
static void a_loss_and_its_gradient_are_one_node(void **state) {
    (void)state;
    static const rota_kernel at_once = {.name = "cross_entropy_in_place",
                                        .operand_count = 4,
                                        .param_bytes = sizeof(rota_cross_entropy_params),
                                        .cpu = {.fn = loss_in_place},
                                        .cuda = {.entry = "cross_entropy_in_place"}};
    ops_stub stub;
    if (!ops_stub_open(&stub, &at_once, 1)) return;
    rota_device *const devices[2] = {stub.cpu, stub.cuda};
    for (int scaled = 0; scaled < 2; scaled++) {
        float loss[2];
        uint16_t grad[2][LOSS_ROWS * LOSS_PITCH];
        losses_at_once = 0;
        for (int d = 0; d < 2; d++) run_loss(&stub, devices[d], scaled ? 0.5f : 1.0f, &loss[d], grad[d]);
        assert_int_equal(losses_at_once, !scaled);
        assert_true(fabsf(loss[0] - loss[1]) < 1e-5f);
        for (int i = 0; i < LOSS_ROWS * LOSS_PITCH; i++)
            assert_true(fabsf(ops_stub_from_bf16(grad[0][i]) - ops_stub_from_bf16(grad[1][i])) <=
                        0.01f * fabsf(ops_stub_from_bf16(grad[0][i])));
    }
    ops_stub_close(&stub);
}
#endif

static void cuda_gives_the_same_bits(void **state) {
    (void)state;
    a_real_device_gives_the_same_bits("cuda:0", 30);
}

/* ---- Single cases ---- */

typedef struct small {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x, y; /* INPUT and OUTPUT, [4, 6] */
} small;

static const uint64_t small_shape[2] = {4, 6};

static small begin_small(void) {
    small s;
    assert_ok(rota_graph_create(NULL, &s.graph));
    assert_ok(rota_recorder_open(s.graph, 0, NULL, &s.recorder));
    assert_ok(rota_tape_create(s.recorder, NULL, &s.tape));
    assert_ok(rota_tape_tensor(s.tape, ROTA_BUFFER_INPUT, "x", ROTA_F32, 2, small_shape, &s.x));
    assert_ok(rota_tape_tensor(s.tape, ROTA_BUFFER_OUTPUT, "y", ROTA_F32, 2, small_shape, &s.y));
    assert_ok(rota_graph_fuse(s.graph));
    return s;
}

/* Compiles without a device. */
static rota_plan *end_small(small *s) {
    rota_plan *plan;
    rota_tape_destroy(s->tape);
    rota_recorder_close(s->recorder);
    assert_ok(rota_compile(NULL, s->graph, NULL, &plan));
    rota_graph_release(s->graph);
    return plan;
}

static void expect(rota_plan *plan, uint64_t nodes, uint64_t merged) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.nodes - stats.merged, nodes);
    assert_int_equal(stats.merged, merged);
    rota_plan_release(plan);
}

static void a_chain_is_one_node(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t, u;
    assert_ok(rota_op_gelu(s.tape, s.x, &t));
    assert_ok(rota_op_mul(s.tape, t, s.x, &u));
    assert_ok(rota_op_add_into(s.tape, u, t, s.y));
    rota_plan *plan = end_small(&s);
    char text[2048];
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.arena_bytes, ROTA_BUFFER_ALIGNMENT); /* y lies where x did */
    /* What is asked about a merged node is answered for the one that does its work. */
    assert_ok(rota_plan_explain(plan, (rota_node){1, 0}, text, sizeof text, NULL));
    assert_non_null(strstr(text, "fused: gelu mul add"));
    expect(plan, 1, 2);
}

static void what_others_read_stays_written(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t, u, sums;
    assert_ok(rota_op_exp(s.tape, s.x, &t));
    assert_ok(rota_op_neg(s.tape, t, &u));
    assert_ok(rota_op_sum(s.tape, t, 1, true, &sums));
    assert_ok(rota_op_mul_into(s.tape, u, sums, s.y)); /* sums comes after the run has ended */
    expect(end_small(&s), 3, 1);
}

/* The sum stands between the two and touches neither t nor u's operands. */
static void a_node_in_between_is_passed_by(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t, sums;
    assert_ok(rota_op_exp(s.tape, s.x, &t));
    assert_ok(rota_op_sum(s.tape, s.x, 1, true, &sums));
    assert_ok(rota_op_neg_into(s.tape, t, s.y));
    expect(end_small(&s), 2, 1);
}

/* What shares nothing with the run joins it where one of the next two nodes reads its result and something of the
 * run's; after more nodes it begins a run of its own. */
static void what_leads_back_joins(void **state) {
    (void)state;
    for (uint32_t between = 0; between < 3; between++) {
        small s = begin_small();
        rota_tensor a, t, u, last;
        assert_ok(rota_tape_tensor(s.tape, ROTA_BUFFER_INPUT, "a", ROTA_F32, 2, small_shape, &a));
        assert_ok(rota_op_exp(s.tape, s.x, &t));
        assert_ok(rota_op_abs(s.tape, a, &u));
        last = t;
        for (uint32_t i = 0; i < between; i++) assert_ok(rota_op_mul(s.tape, last, t, &last));
        assert_ok(rota_op_sub(s.tape, t, u, &u));
        assert_ok(rota_op_add_into(s.tape, last, u, s.y));
        /* Else exp alone, whose result the run of the others reads. */
        expect(end_small(&s), between < 2 ? 1 : 2, between < 2 ? 3 + between : 2 + between);
    }
}

/* t's elements go to other places than they come from. */
static void results_that_are_read_otherwise_end_a_run(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t, u, row;
    assert_ok(rota_op_exp(s.tape, s.x, &t));
    assert_ok(rota_tensor_slice(&t, 0, 1, 1, &row));
    assert_ok(rota_op_add(s.tape, s.x, row, &u)); /* reads a row of what the run writes */
    assert_ok(rota_op_neg_into(s.tape, u, s.y));
    expect(end_small(&s), 2, 1);
}

static void an_order_without_data_ends_a_run(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t;
    assert_ok(rota_op_exp(s.tape, s.x, &t));
    assert_ok(rota_op_neg_into(s.tape, t, s.y));
    assert_ok(rota_node_after(s.recorder, (rota_node){1, 1}, (rota_node){1, 0}));
    expect(end_small(&s), 2, 0);
}

static void other_counts_and_unrelated_nodes_stay_apart(void **state) {
    (void)state;
    small s = begin_small();
    const uint64_t shape[1] = {24};
    rota_tensor a, z;
    assert_ok(rota_tape_tensor(s.tape, ROTA_BUFFER_INPUT, "a", ROTA_F32, 1, shape, &a));
    assert_ok(rota_tape_tensor(s.tape, ROTA_BUFFER_OUTPUT, "z", ROTA_F32, 1, shape, &z));
    assert_ok(rota_op_exp_into(s.tape, s.x, s.y));
    assert_ok(rota_op_exp_into(s.tape, a, z));
    expect(end_small(&s), 2, 0);
}

/* Runs are cut where a kernel has no room for more, not refused. */
static void long_chains_become_several(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t = s.x, u;
    for (uint32_t i = 0; i < 30; i++) {
        assert_ok(rota_op_square(s.tape, t, &u));
        t = u;
    }
    assert_ok(rota_op_neg_into(s.tape, t, s.y));
    expect(end_small(&s), 4, 27); /* of at most 8, as many as Vulkan has room for */
}

/* A copy whose original nobody reads once the copy is changed: the copy's users take the original. */
static void a_copy_that_nobody_needs_goes(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t, copy, sums;
    assert_ok(rota_op_softmax(s.tape, s.x, &t));
    assert_ok(rota_op_copy(s.tape, t, &copy));
    assert_ok(rota_op_sum(s.tape, t, 1, true, &sums)); /* still the same in both */
    assert_ok(rota_op_softmax_into(s.tape, copy, copy));
    assert_ok(rota_op_log_softmax_into(s.tape, copy, s.y));
    expect(end_small(&s), 4, 1);
}

static void a_copy_of_what_is_written_later_stays(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t, copy;
    assert_ok(rota_op_softmax(s.tape, s.x, &t));
    assert_ok(rota_op_copy(s.tape, t, &copy));
    assert_ok(rota_op_softmax_into(s.tape, t, t));
    assert_ok(rota_op_log_softmax_into(s.tape, copy, s.y));
    expect(end_small(&s), 4, 0);
}

static void a_copy_of_what_is_read_later_stays(void **state) {
    (void)state;
    small s = begin_small();
    rota_tensor t, copy, sums;
    assert_ok(rota_op_softmax(s.tape, s.x, &t));
    assert_ok(rota_op_copy(s.tape, t, &copy));
    assert_ok(rota_op_softmax_into(s.tape, copy, copy));
    assert_ok(rota_op_sum(s.tape, t, 1, true, &sums)); /* of what was there before */
    assert_ok(rota_op_mul_into(s.tape, copy, sums, s.y));
    expect(end_small(&s), 5, 0);
}

/* What the source of a program's CUDA kernel compiles to is judged on a device; that it compiles, here. */
static void cuda_sources_compile(void **state) {
    (void)state;
    char reason[512];
    if (!rota_nvrtc_is_there(reason, sizeof reason)) {
        print_message("skipped: %s\n", reason);
        return;
    }
    rota_fused_shape shape = {.step_count = 6, .value_count = 9, .operand_count = 4, .word_count = 5};
    shape.values[0] = (rota_fused_value){0, 0, ROTA_BF16, 0, true, 0};
    shape.values[1] = (rota_fused_value){1, 12, ROTA_BF16, 1, true, 0};
    shape.values[2] = (rota_fused_value){12, 7, ROTA_F32, 2, true, 0};
    for (uint32_t v = 3; v < 9; v++)
        shape.values[v] = (rota_fused_value){
            0, 0, v == 3 ? ROTA_BF16 : v == 8 ? ROTA_F16 : ROTA_F32, v == 8 ? 3 : ROTA_FUSED_NONE, false, 0};
    shape.steps[0] =
        (rota_fused_step){ROTA_FUSED_BINARY, ROTA_BINARY_ADD, ROTA_BF16, 2, {0, 1}, 3, 0, 0, 0, 0};
    shape.steps[1] = (rota_fused_step){ROTA_FUSED_CAST, 0, ROTA_BF16, 1, {3}, 4, 0, 0, 0, 0};
    shape.steps[2] = (rota_fused_step){ROTA_FUSED_UNARY, ROTA_UNARY_GELU, ROTA_F32, 1, {4}, 5, 0, 0, 0, 0};
    shape.steps[3] = (rota_fused_step){ROTA_FUSED_DROPOUT, 0, ROTA_F32, 2, {5, 4}, 6, 0, 5, 0, 0};
    shape.steps[4] =
        (rota_fused_step){ROTA_FUSED_WHERE, ROTA_WHERE_INVERT, ROTA_F32, 3, {2, 6, 5}, 7, 0, 0, 0, 0};
    shape.steps[5] = (rota_fused_step){ROTA_FUSED_CAST, 0, ROTA_F32, 1, {7}, 8, 0, 0, 0, 0};
    const rota_fused_program *program = rota_fused_program_get(&shape);
    assert_non_null(program);
    assert_ptr_equal(program, rota_fused_program_get(&shape));
    const rota_cuda_target target = {.compute_capability = 90};
    if (!rota_cuda_fused_prepare(program, &target, reason, sizeof reason)) fail_msg("%s", reason);
    const rota_cuda_target unknown = {.compute_capability = 1};
    assert_false(rota_cuda_fused_prepare(program, &unknown, reason, sizeof reason));
    assert_non_null(strstr(reason, "NVRTC"));
}

/* Compiles `count` copies into one buffer, of which none is read; the thread's time, the least of three. */
static uint64_t ns_of_copies(uint32_t count) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < 3; i++) {
        small s = begin_small();
        rota_tensor t, m;
        assert_ok(rota_op_softmax(s.tape, s.x, &t));
        assert_ok(rota_tape_temporary(s.tape, "m", ROTA_F32, 2, small_shape, &m));
        for (uint32_t n = 0; n < count; n++) assert_ok(rota_op_copy_into(s.tape, t, m));
        assert_ok(rota_op_copy_into(s.tape, m, s.y));
        const uint64_t begin = rota_thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
        rota_plan *plan = end_small(&s);
        const uint64_t took = rota_thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
        if (took < least) least = took;
        rota_plan_release(plan);
    }
    return least;
}

/* Four times as many take some four times as long, not sixteen times. */
static void many_copies_into_one_buffer_are_linear(void **state) {
    (void)state;
    const uint64_t few = ns_of_copies(5000), many = ns_of_copies(20000);
    if (many > 9 * few)
        fail_msg("5 000 copies took %llu ns, 20 000 %llu", (unsigned long long)few, (unsigned long long)many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_is_one_node),
        cmocka_unit_test(what_others_read_stays_written),
        cmocka_unit_test(a_node_in_between_is_passed_by),
        cmocka_unit_test(what_leads_back_joins),
        cmocka_unit_test(results_that_are_read_otherwise_end_a_run),
        cmocka_unit_test(an_order_without_data_ends_a_run),
        cmocka_unit_test(other_counts_and_unrelated_nodes_stay_apart),
        cmocka_unit_test(long_chains_become_several),
        cmocka_unit_test(a_copy_that_nobody_needs_goes),
        cmocka_unit_test(a_copy_of_what_is_written_later_stays),
        cmocka_unit_test(a_copy_of_what_is_read_later_stays),
        cmocka_unit_test(many_copies_into_one_buffer_are_linear),
        cmocka_unit_test(the_cpu_gives_the_same_bits),
        cmocka_unit_test(the_adversary_gives_the_same_bits),
        cmocka_unit_test(cuda_sources_compile),
        cmocka_unit_test(vulkan_gives_the_same_bits),
#ifdef ROTA_HAVE_CUDA
        cmocka_unit_test(the_cuda_executor_gives_the_same_bits),
        cmocka_unit_test(a_loss_and_its_gradient_are_one_node),
#endif
        cmocka_unit_test(cuda_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
