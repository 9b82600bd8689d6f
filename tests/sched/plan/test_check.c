/* rota_compile_options.check_kernels: each kind of wrong kernel is found, on the CPU, on a Vulkan device and
 * on the stand-in for CUDA's driver, and the sentence says what and where; what is right gives what it gives
 * unwatched. */
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <string.h>
#include "spv/test_unsized.h"
#include "spv/test_wrong.h"
#include "spv/test_wrong_few.h"
#include "spv/test_wrong_many.h"
#include "spv/test_wrong_more.h"
#include "tests/exec/cuda/cuda_stub_kit.h"

enum { WORDS = 100, OFFSET = 12 }; /* x begins where no buffer does */

enum { RIGHT, PAST_END, BEFORE, CHANGES_READ, LEAVES_WRITE, READS_WRITE, READS_OUTSIDE, FAULTS };

typedef struct wrong_params {
    uint32_t n, fault, add;
} wrong_params;

/* x:READ, y:WRITE, z:READWRITE. y[i] = x[i] + add; z[i] += x[i]; but for its fault. */
static rota_status run_wrong(const rota_kernel_call *call) {
    const wrong_params *p = call->params;
    uint32_t *x = call->operands[0], *y = call->operands[1], *z = call->operands[2];
    for (uint64_t i = call->begin; i < call->end; i++) {
        z[i] += x[i];
        if (p->fault == LEAVES_WRITE && i == 5) continue;
        const uint32_t old = p->fault == READS_WRITE && i == 7 ? y[i] : 0;
        y[i] = x[p->fault == READS_OUTSIDE ? i + 1 : i] + p->add + old;
        if (i != 0) continue;
        if (p->fault == PAST_END) y[p->n + 2] = 9;
        if (p->fault == BEFORE) *(z - 2) = 9;
        if (p->fault == CHANGES_READ) x[3] = 9;
    }
    return ROTA_OK;
}

static void items(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                  uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const wrong_params *)params)->n;
    *out_grain = 1000;
}

static void grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    out_groups[0] = (((const wrong_params *)params)->n + 63) / 64;
    out_groups[1] = out_groups[2] = 1;
}

static const rota_kernel_bindable add_slot[] = {
    {"add", offsetof(wrong_params, add), 4, false, ROTA_VALUE_U32}};

#define WRONG(FLAGS, SHADER)                                                                                 \
    {                                                                                                        \
        .name = "wrong", .operand_count = 3, .param_bytes = sizeof(wrong_params), .flags = (FLAGS),          \
        .bindables = add_slot, .bindable_count = 1, .cpu = {.fn = run_wrong, .items = items},                \
        .vk = {.words = SHADER, .size_bytes = sizeof(SHADER), .grid = grid},                                 \
        .cuda = {.image = "wrong", .size_bytes = 5, .entry = "wrong", .grid = grid, .block = {64, 1, 1}},    \
    }
static const rota_kernel wrong = WRONG(ROTA_KERNEL_PURE, rota_spv_test_wrong);
/* Gives something else each time. */
static _Atomic uint32_t times;
static rota_status run_counting(const rota_kernel_call *call) {
    ROTA_TRY(run_wrong(call));
    ((uint32_t *)call->operands[1])[0] = ++times;
    return ROTA_OK;
}
#define COUNTING(FLAGS)                                                                                      \
    {                                                                                                        \
        .name = "counting", .operand_count = 3, .param_bytes = sizeof(wrong_params), .flags = (FLAGS),       \
        .bindables = add_slot, .bindable_count = 1, .cpu = {                                                 \
            .fn = run_counting,                                                                              \
            .items = items                                                                                   \
        }                                                                                                    \
    }
static const rota_kernel counting = COUNTING(0);
static const rota_kernel pure_counting = COUNTING(ROTA_KERNEL_PURE);
/* y = x + z by way of a scratch operand, in two kernels; as one where the device is CUDA's, which leaves the
 * scratch. */
static rota_status run_whole(const rota_kernel_call *call) {
    const uint32_t *x = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) ((uint32_t *)call->operands[2])[i] = 2 * x[i];
    return ROTA_OK;
}
static rota_status run_double(const rota_kernel_call *call) {
    const uint32_t *x = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) ((uint32_t *)call->operands[1])[i] = 2 * x[i];
    return ROTA_OK;
}
static rota_status run_copy(const rota_kernel_call *call) {
    memcpy(call->operands[1], call->operands[0], call->operand_bytes[0]);
    return ROTA_OK;
}
static const rota_kernel part_double = {.name = "double",
                                        .operand_count = 2,
                                        .param_bytes = sizeof(wrong_params),
                                        .cpu = {.fn = run_double, .items = items}};
static const rota_kernel part_copy = {
    .name = "copy", .operand_count = 2, .param_bytes = sizeof(wrong_params), .cpu = {.fn = run_copy}};
static uint32_t parts_of(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                         uint32_t slot_mask, const rota_cuda_target *target,
                         rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes, (void)slot_mask, (void)target;
    if (kind == ROTA_EXEC_CUDA) return 0;
    for (uint32_t i = 0; i < 2; i++) {
        out_parts[i] = (rota_kernel_part){.kernel = i ? &part_copy : &part_double,
                                          .operand_count = 2,
                                          .operand = {(uint8_t)i, (uint8_t)(i + 1)},
                                          .mode = {ROTA_READ, ROTA_WRITE}};
        memcpy(out_parts[i].params, params, sizeof(wrong_params));
    }
    return 2;
}
static const rota_kernel composite = {
    .name = "composite",
    .operand_count = 3,
    .param_bytes = sizeof(wrong_params),
    .flags = ROTA_KERNEL_PURE,
    .parts = parts_of,
    .cpu = {.fn = run_whole, .items = items},
    .cuda = {.image = "composite", .size_bytes = 9, .entry = "composite", .grid = grid, .block = {64, 1, 1}}};
/* Its shader says no local_size_x: of each 64 items one runs. */
static const rota_kernel unsized = WRONG(ROTA_KERNEL_PURE, rota_spv_test_unsized);
/* Its shader has room for other operands and parameters than it has. */
static const rota_kernel few = WRONG(0, rota_spv_test_wrong_few);
static const rota_kernel many = WRONG(0, rota_spv_test_wrong_many);
static const rota_kernel more = WRONG(0, rota_spv_test_wrong_more);

/* What the sentence has, by fault. */
static const char *const said[FAULTS][2] = {
    [PAST_END] =
        {"operand 1 (WRITE, 400 bytes of buffer 'y' from byte 0): it wrote past the end, at byte 408",
         "declare an access as large"},
    [BEFORE] = {"operand 2 (READWRITE, 400 bytes of buffer 'z' from byte 0): it wrote before the beginning, "
                "by bytes",
                "an access that begins there"},
    [CHANGES_READ] = {"operand 0 (READ, 400 bytes of buffer 'x' from byte 12): it changed byte 12",
                      "READWRITE"},
    [LEAVES_WRITE] = {"operand 1 (WRITE, 400 bytes of buffer 'y' from byte 0): it left byte 20 unwritten",
                      "or declare READWRITE"},
    [READS_WRITE] =
        {"operand 1 (WRITE, 400 bytes of buffer 'y' from byte 0): two runs on the same inputs differ, "
         "first at byte 28",
         "ROTA_KERNEL_PURE is not true"},
    [READS_OUTSIDE] =
        {"operand 1 (WRITE, 400 bytes of buffer 'y' from byte 0): two runs on the same inputs differ, "
         "first at byte 396",
         "outside of its operands"},
};

typedef struct world {
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *x, *y, *z;
} world;

static void fill_buffers(world *w) {
    uint32_t x[WORDS + OFFSET / 4], zero[WORDS] = {0};
    for (uint32_t i = 0; i < WORDS + OFFSET / 4; i++) x[i] = 1000 + i;
    assert_ok(rota_buffer_write(w->x, w->device, 0, x, sizeof x, NULL));
    assert_ok(rota_buffer_write(w->y, w->device, 0, zero, sizeof zero, NULL));
    assert_ok(rota_buffer_write(w->z, w->device, 0, zero, sizeof zero, NULL));
}

/* False: there is no such device. */
static bool open_world(world *w, const char *id) {
    memset(w, 0, sizeof *w);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &w->runtime));
    if (rota_device_open(w->runtime, id, &w->device) != ROTA_OK) {
        print_message("skipped on %s: %s\n", id, rota_last_error());
        assert_ok(rota_runtime_close(w->runtime, 5000000000u));
        return false;
    }
    assert_ok(rota_buffer_create_in(w->runtime, "x", WORDS * 4 + OFFSET, &w->x));
    assert_ok(rota_buffer_create_in(w->runtime, "y", WORDS * 4, &w->y));
    assert_ok(rota_buffer_create_in(w->runtime, "z", WORDS * 4, &w->z));
    fill_buffers(w);
    return true;
}

static void close_world(world *w) {
    rota_buffer_release(w->x);
    rota_buffer_release(w->y);
    rota_buffer_release(w->z);
    assert_ok(rota_runtime_close(w->runtime, 5000000000u));
}

/* One node, whose `add` comes from a slot. */
static rota_status compile_one(const world *w, const rota_kernel *kernel, uint32_t which, bool watched,
                               rota_slot *out_slot, rota_plan **out_plan) {
    rota_graph *graph;
    rota_recorder *recorder;
    const wrong_params params[2] = {{WORDS, which, 0}}; /* room for a kernel that says it has more */
    const rota_access accesses[] = {{w->x, OFFSET, WORDS * 4, ROTA_READ},
                                    {w->y, 0, ROTA_WHOLE, ROTA_WRITE},
                                    {w->z, 0, ROTA_WHOLE, ROTA_READWRITE}};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_slot(graph, "add", 4, out_slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = kernel, .name = "the culprit",
                                                   .accesses = accesses, .access_count = 3, .params = params,
                                                   .bindings = &(rota_param_binding){0, *out_slot},
                                                   .binding_count = 1),
                                 NULL));
    rota_recorder_close(recorder);
    const rota_status status = rota_compile(w->runtime, graph,
                                            &ROTA_COMPILE_OPTIONS(.devices = &w->device, .device_count = 1,
                                                                  .certify = true, .check_kernels = watched),
                                            out_plan);
    rota_graph_release(graph);
    return status;
}

/* The replay's status, with its sentence as the last error. */
static rota_status replay(const world *w, const rota_kernel *kernel, uint32_t which) {
    rota_slot slot;
    rota_args *args;
    rota_ticket ticket;
    rota_plan *plan;
    assert_ok(compile_one(w, kernel, which, true, &slot, &plan));
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_u32(args, slot, 3));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    const rota_status status = rota_wait(ticket, 0);
    rota_args_release(args);
    rota_plan_release(plan);
    return status;
}

static void expect_right(const world *w) {
    uint32_t y[WORDS], z[WORDS];
    assert_ok(rota_buffer_read(w->y, 0, y, sizeof y));
    assert_ok(rota_buffer_read(w->z, 0, z, sizeof z));
    for (uint32_t i = 0; i < WORDS; i++) {
        assert_int_equal(y[i], 1000 + OFFSET / 4 + i + 3);
        assert_int_equal(z[i], 1000 + OFFSET / 4 + i);
    }
}

static void check_device(const char *id) {
    world w;
    if (!open_world(&w, id)) return;
    assert_ok(replay(&w, &wrong, RIGHT));
    expect_right(&w);
    for (uint32_t which = RIGHT + 1; which < FAULTS; which++) {
        fill_buffers(&w);
        assert_status(replay(&w, &wrong, which), ROTA_NODE_FAILED);
        expect_said("'the culprit'");
        expect_said("kernel 'wrong'");
        expect_said(said[which][0]);
        expect_said(said[which][1]);
        /* Nothing that it made came out, and what it writes counts as failed. */
        uint32_t y[WORDS], x[WORDS];
        assert_status(rota_buffer_read(w.y, 0, y, sizeof y), ROTA_NODE_FAILED);
        assert_ok(rota_buffer_read(w.x, OFFSET, x, sizeof x));
        assert_int_equal(x[3], 1000 + OFFSET / 4 + 3);
    }
    close_world(&w);
}

static void check_composite(const char *id) {
    world w;
    assert_true(open_world(&w, id));
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_ticket ticket;
    const wrong_params params = {WORDS, RIGHT, 0};
    const rota_access accesses[] = {
        {w.x, 0, WORDS * 4, ROTA_READ}, {w.y, 0, ROTA_WHOLE, ROTA_WRITE}, {w.z, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = &composite, .accesses = accesses, .access_count = 3, .params = &params),
        NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(w.runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &w.device, .device_count = 1, .certify = true,
                                                 .check_kernels = true),
                           &plan));
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    uint32_t z[WORDS];
    assert_ok(rota_buffer_read(w.z, 0, z, sizeof z));
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(z[i], 2 * (1000 + i));
    rota_plan_release(plan);
    rota_graph_release(graph);
    close_world(&w);
}

static void on_the_cpu(void **state) {
    (void)state;
    check_device("cpu");
    /* One whose result depends on more than its operands may differ, if it does not say that it is pure. */
    world w;
    assert_true(open_world(&w, "cpu"));
    check_composite("cpu");
    assert_ok(replay(&w, &counting, RIGHT));
    assert_status(replay(&w, &pure_counting, RIGHT), ROTA_NODE_FAILED);
    expect_said("two runs on the same inputs differ, first at byte 0");
    close_world(&w);
}

static void on_vulkan(void **state) {
    (void)state;
    check_device("vk:0");
    world w;
    if (!open_world(&w, "vk:0")) return;
    assert_status(replay(&w, &unsized, RIGHT), ROTA_NODE_FAILED);
    expect_said("it left byte 8 unwritten");
    expect_said("workgroups");
    /* These are refused, watched or not: they would take operands for parameters. */
    static const struct {
        const rota_kernel *kernel;
        const char *said;
    } refused[] = {
        {&few, "its push constants have 2 operands, and the kernel has 3: expected ROTA_KERNEL_BEGIN(3)"},
        {&many, "its push constants have 4 operands, and the kernel has 3: expected ROTA_KERNEL_BEGIN(3)"},
        {&more, "its push constants have 56 bytes, and the kernel's 44: 8, 8 for each of 3 operands, and 12"},
    };
    for (uint32_t i = 0; i < sizeof refused / sizeof *refused; i++)
        for (uint32_t watched = 0; watched < 2; watched++) {
            rota_slot slot;
            rota_plan *plan;
            assert_status(compile_one(&w, refused[i].kernel, RIGHT, watched != 0, &slot, &plan),
                          ROTA_INVALID_ARGUMENT);
            expect_said("kernel 'wrong', its SPIR-V: ");
            expect_said(refused[i].said);
        }
    close_world(&w);
}

static void on_cuda(void **state) {
    (void)state;
#ifdef ROTA_HAVE_CUDA
    if (!rota_kernels_have_cuda_images()) { /* no device passes its smoke test then */
        print_message("skipped on cuda:0: this build has no CUDA kernels\n");
        return;
    }
    cuda_stub_start(5, 1);
    cuda_stub_kernel(&wrong);
    check_device("cuda:0");
    cuda_stub_kernel(&composite);
    check_composite("cuda:0");
    /* The image's entry has three operands: one of another number, and one of other parameters, are refused.
     */
    rota_kernel other = wrong;
    world w;
    assert_true(open_world(&w, "cuda:0"));
    for (uint32_t turn = 0; turn < 2; turn++) {
        rota_slot slot;
        rota_plan *plan;
        other.param_bytes = sizeof(wrong_params) + (turn ? 4 : 8);
        assert_status(compile_one(&w, &other, RIGHT, false, &slot, &plan),
                      turn ? ROTA_OK : ROTA_INVALID_ARGUMENT);
        if (turn) rota_plan_release(plan);
        if (!turn)
            expect_said("has arguments of 56 bytes, and the kernel's have 64: 16, 8 for each of 3 operands");
    }
    close_world(&w);
    cuda_stub_end();
#endif
}

/* Two nodes, one after the other: an input, a transient, a buffer that is given and a persistent one, an
 * output, and an order without data. */
typedef struct whole {
    rota_buffer *input, *output, *middle, *given;
    rota_node first, second;
    rota_plan *plan;
} whole;

static void compile_whole(const world *w, bool watched, whole *out) {
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", WORDS * 4, &out->input));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &out->output));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "middle", WORDS * 4, &out->middle));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "given", WORDS * 4, &out->given));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    const wrong_params params = {WORDS, RIGHT, 7};
    rota_access accesses[] = {{out->input, 0, ROTA_WHOLE, ROTA_READ},
                              {out->middle, 0, ROTA_WHOLE, ROTA_WRITE},
                              {out->given, 0, ROTA_WHOLE, ROTA_READWRITE}};
    const rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &wrong, .accesses = accesses, .access_count = 3, .params = &params);
    assert_ok(rota_record_kernel(recorder, &node, &out->first));
    accesses[0].buffer = out->middle;
    accesses[1].buffer = out->output;
    accesses[2].buffer = w->z;
    assert_ok(rota_record_kernel(recorder, &node, &out->second));
    assert_ok(rota_node_after(recorder, out->second, out->first));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(w->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &w->device, .device_count = 1, .certify = true,
                                                 .check_kernels = watched),
                           &out->plan));
    rota_graph_release(graph); /* the plan holds it */
}

static void check_whole(world *w, bool watched) {
    whole g;
    rota_args *args;
    uint32_t in[WORDS], out[WORDS], y[WORDS], z[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) in[i] = 5 * i;
    fill_buffers(w);
    compile_whole(w, watched, &g);
    assert_ok(rota_args_create(g.plan, &args));
    assert_ok(rota_args_set_input(args, g.input, in, sizeof in, false));
    assert_ok(rota_args_set_output(args, g.output, out, sizeof out));
    assert_ok(rota_args_set_buffer(args, g.given, w->y));
    for (uint32_t turn = 0; turn < 2; turn++) {
        rota_ticket ticket;
        assert_ok(rota_submit_wait(g.plan, args, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
    }
    rota_plan_stats stats = ROTA_PLAN_STATS();
    char text[4096];
    assert_ok(rota_plan_get_stats(g.plan, &stats));
    assert_true(watched ? stats.commands > 30 : stats.commands <= 4);
    assert_ok(rota_plan_explain(g.plan, g.second, text, sizeof text, NULL));
    assert_ok(rota_buffer_read(w->y, 0, y, sizeof y));
    assert_ok(rota_buffer_read(w->z, 0, z, sizeof z));
    for (uint32_t i = 0; i < WORDS; i++) {
        assert_int_equal(out[i], 5 * i + 14);
        assert_int_equal(y[i], 2 * 5 * i);
        assert_int_equal(z[i], 2 * (5 * i + 7));
    }
    rota_args_release(args);
    rota_plan_release(g.plan);
}

static void whole_graphs_give_the_same(void **state) {
    (void)state;
    static const char *const ids[] = {"cpu", "vk:0"};
    for (uint32_t d = 0; d < 2; d++) {
        world w;
        if (!open_world(&w, ids[d])) continue;
        check_whole(&w, false);
        check_whole(&w, true);
        close_world(&w);
    }
}

/* Many operands take several comparisons, of which each keeps all results back; more written ones than a
 * comparison has room for are refused. */
enum { MANY = ROTA_KERNEL_OPERANDS_MAX };
static rota_status run_many(const rota_kernel_call *call) {
    const uint32_t written = *(const uint32_t *)call->params;
    for (uint32_t k = 0; k < written; k++) *(uint32_t *)call->operands[MANY - 1 - k] = 5 + k;
    if (*((const uint32_t *)call->params + 1)) *(uint32_t *)call->operands[2] = 1; /* which it reads */
    return ROTA_OK;
}
static const rota_kernel many_operands = {.name = "many",
                                          .operand_count = MANY,
                                          .param_bytes = 8,
                                          .flags = ROTA_KERNEL_PURE,
                                          .cpu = {.fn = run_many}};

static rota_status replay_many(const world *w, uint32_t written, uint32_t strays) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_ticket ticket;
    rota_access accesses[MANY];
    const uint32_t params[] = {written, strays};
    for (uint32_t i = 0; i < MANY; i++)
        accesses[i] = i < MANY - written ? (rota_access){w->x, 4 * i, 4, ROTA_READ}
                                         : (rota_access){w->y, 4 * i, 4, ROTA_WRITE};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &many_operands, .accesses = accesses,
                                                   .access_count = MANY, .params = params),
                                 NULL));
    rota_recorder_close(recorder);
    rota_status status = rota_compile(w->runtime, graph,
                                      &ROTA_COMPILE_OPTIONS(.devices = &w->device, .device_count = 1,
                                                            .certify = true, .check_kernels = true),
                                      &plan);
    rota_graph_release(graph);
    if (status != ROTA_OK) return status;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    status = rota_wait(ticket, 0);
    rota_plan_release(plan);
    return status;
}

static void many_operands_are_watched(void **state) {
    (void)state;
    world w;
    uint32_t word;
    assert_true(open_world(&w, "cpu"));
    assert_ok(replay_many(&w, 3, 0));
    for (uint32_t k = 0; k < 3; k++) {
        assert_ok(rota_buffer_read(w.y, 4 * (MANY - 1 - k), &word, 4));
        assert_int_equal(word, 5 + k);
    }
    assert_status(replay_many(&w, 3, 1), ROTA_NODE_FAILED);
    expect_said("operand 2 (READ, 4 bytes of buffer 'x' from byte 8): it changed byte 0");
    for (uint32_t k = 0; k < 3; k++)
        assert_status(rota_buffer_read(w.y, 4 * (MANY - 1 - k), &word, 4), ROTA_NODE_FAILED);
    assert_status(replay_many(&w, MANY - 2, 0), ROTA_UNSUPPORTED);
    expect_said("writes 22 operands, at most 21 can be watched");
    close_world(&w);
}

/* Words of y in turn: those at even places by one operand, at odd ones by the other, whose ranges overlap. */
static rota_status run_interleaved(const rota_kernel_call *call) {
    uint32_t *even = call->operands[0], *odd = call->operands[1];
    for (uint32_t i = 0; i < WORDS / 2; i++) {
        even[2 * i] = 2 * i;
        odd[2 * i] = 2 * i + 1;
    }
    return ROTA_OK;
}
static const rota_kernel interleaved = {.name = "interleaved",
                                        .operand_count = 2,
                                        .flags = ROTA_KERNEL_PURE | ROTA_KERNEL_INTERLEAVED,
                                        .cpu = {.fn = run_interleaved}};

/* Not watched, and right. */
static void what_is_interleaved_is_left_alone(void **state) {
    (void)state;
    world w;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    uint32_t words[WORDS];
    assert_true(open_world(&w, "cpu"));
    const rota_access accesses[] = {{w.y, 0, WORDS * 4, ROTA_WRITE}, {w.y, 4, WORDS * 4 - 4, ROTA_WRITE}};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &interleaved, .accesses = accesses, .access_count = 2), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(w.runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &w.device, .device_count = 1, .certify = true,
                                                 .check_kernels = true),
                           &plan));
    assert_ok(rota_submit(plan, NULL, NULL));
    assert_ok(rota_buffer_read(w.y, 0, words, sizeof words));
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(words[i], i);
    rota_plan_release(plan);
    rota_graph_release(graph);
    close_world(&w);
}

/* The plan's own buffers, several a watched node, come between two persistent ones. */
static void many_nodes_are_watched(void **state) {
    enum { NODES = 400 };
    world w;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    (void)state;
    assert_true(open_world(&w, "cpu"));
    rota_buffer *first = test_words(w.device, "first", 1, 0), *last = test_words(w.device, "last", 1, 0);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i <= NODES; i++) {
        const rota_access access = {i < NODES ? first : last, 0, 4, ROTA_READWRITE};
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &access, .access_count = 1),
            NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        w.runtime, graph,
        &ROTA_COMPILE_OPTIONS(.devices = &w.device, .device_count = 1, .check_kernels = true), &plan));
    assert_ok(rota_submit(plan, NULL, NULL));
    test_expect_words(first, 1, NODES);
    test_expect_words(last, 1, 1);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(first);
    rota_buffer_release(last);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_nodes_are_watched),
        cmocka_unit_test(what_is_interleaved_is_left_alone),
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_vulkan),
        cmocka_unit_test(on_cuda),
        cmocka_unit_test(whole_graphs_give_the_same),
        cmocka_unit_test(many_operands_are_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
