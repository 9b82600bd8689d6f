/* P9: errors travel, with the first cause, as far as data does and no farther; and argument errors at
 * submission. */
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/atomic.h"

#define WORDS 64u

static void failures_reach_what_depends_on_them(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *a = test_words(f->device, "a", WORDS, 1), *b = test_words(f->device, "b", WORDS, 2),
                *c = test_words(f->device, "c", WORDS, 3), *alone = test_words(f->device, "alone", WORDS, 0);
    rota_plan *fails = test_plan_1(f->device, "first", &test_failing, a, ROTA_WRITE);
    rota_plan *ab = test_plan_copy_kernel(f->device, "second", a, b),
              *bc = test_plan_copy_kernel(f->device, "third", b, c);
    rota_plan *inc = test_plan_1(f->device, "inc", &test_increment, alone, ROTA_READWRITE);
    rota_ticket tickets[4];
    test_fail = 1;
    assert_ok(rota_submit_wait(fails, NULL, 0, &tickets[0]));
    assert_ok(rota_submit_wait(ab, NULL, 0, &tickets[1]));
    assert_ok(rota_submit_wait(bc, NULL, 0, &tickets[2]));
    assert_ok(rota_submit_wait(inc, NULL, 0, &tickets[3]));
    for (int i = 0; i < 3; i++) {
        assert_status(rota_wait(tickets[i], 0), ROTA_NODE_FAILED);
        assert_non_null(strstr(rota_last_error(), "plan 'first'"));
        assert_non_null(strstr(rota_last_error(), "node 'failing'"));
        assert_non_null(strstr(rota_last_error(), "told to fail"));
    }
    assert_ok(rota_wait(tickets[3], 0));
    test_expect_words(alone, WORDS, 1);
    uint32_t word;
    assert_status(rota_buffer_read(c, 0, &word, 4), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "plan 'first'"));
    /* Healed by a node that overwrites all of it: first a, then what is made from it. */
    test_fail = 0;
    assert_ok(rota_submit_wait(fails, NULL, 0, NULL));
    test_expect_words(a, WORDS, 7);
    assert_status(rota_buffer_read(b, 0, &word, 4), ROTA_NODE_FAILED);
    assert_ok(rota_submit_wait(ab, NULL, 0, NULL));
    assert_ok(rota_submit_wait(bc, NULL, 0, &tickets[0]));
    assert_ok(rota_wait(tickets[0], 0));
    test_expect_words(c, WORDS, 7);
    rota_plan *plans[] = {fails, ab, bc, inc};
    rota_buffer *buffers[] = {a, b, c, alone};
    for (int i = 0; i < 4; i++) {
        rota_plan_release(plans[i]);
        rota_buffer_release(buffers[i]);
    }
}

static void a_host_write_heals_what_it_covers(void **state) {
    runtime_fixture *f = *state;
    uint32_t words[WORDS], word;
    rota_buffer *a = test_words(f->device, "a", WORDS, 1);
    rota_plan *fails = test_plan_1(f->device, "first", &test_failing, a, ROTA_WRITE);
    rota_ticket ticket;
    test_fail = 1;
    assert_ok(rota_submit_wait(fails, NULL, 0, &ticket));
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 5;
    assert_ok(rota_buffer_write(a, NULL, 64, words, 64, NULL));
    assert_ok(rota_buffer_read(a, 64, words, 64));
    assert_int_equal(words[0], 5);
    assert_status(rota_buffer_read(a, 60, &word, 4), ROTA_NODE_FAILED);
    assert_status(rota_buffer_read(a, 128, &word, 4), ROTA_NODE_FAILED);
    assert_ok(rota_buffer_write(a, NULL, 0, words, 64, NULL));
    assert_ok(rota_buffer_write(a, NULL, 128, words, WORDS * 4 - 128, NULL));
    assert_ok(rota_buffer_read(a, 0, words, sizeof words));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    test_fail = 0;
    rota_plan_release(fails);
    rota_buffer_release(a);
}

/* Inside one plan: what depends on the failed node is skipped, what doesn't runs. */
static void one_plan_fails_in_part(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *a = test_words(f->device, "a", WORDS, 1), *b = test_words(f->device, "b", WORDS, 2),
                *c = test_words(f->device, "c", WORDS, 3);
    test_node nodes[] = {
        {&test_failing, "breaks", {{a, 0, ROTA_WHOLE, ROTA_WRITE}}, 1},
        {&test_copy, "depends", {{a, 0, ROTA_WHOLE, ROTA_READ}, {b, 0, ROTA_WHOLE, ROTA_WRITE}}, 2},
        {&test_increment, "is free", {{c, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1},
    };
    rota_plan *plan = test_plan(f->device, "partly", nodes, 3);
    rota_ticket ticket;
    test_fail = 1;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    test_fail = 0;
    assert_non_null(strstr(rota_last_error(), "node 'breaks'"));
    test_expect_words(c, WORDS, 4);
    uint32_t word;
    assert_status(rota_buffer_read(b, 0, &word, 4), ROTA_NODE_FAILED);
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(b, WORDS, 7);
    rota_plan_release(plan);
    rota_buffer_release(a);
    rota_buffer_release(b);
    rota_buffer_release(c);
}

static void unwritten_data_is_an_error(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *never = test_buffer(f->runtime, "never written", WORDS * 4);
    rota_buffer *b = test_words(f->device, "b", WORDS, 2), *c = test_words(f->device, "c", WORDS, 2);
    rota_plan *first = test_plan_copy_kernel(f->device, "reads nothing", never, b),
              *second = test_plan_copy_kernel(f->device, "next", b, c);
    rota_ticket tickets[2];
    uint32_t words[WORDS], word;
    assert_status(rota_buffer_read(never, 0, &word, 4), ROTA_UNDEFINED_DATA);
    assert_ok(rota_submit_wait(first, NULL, 0, &tickets[0]));
    assert_ok(rota_submit_wait(second, NULL, 0, &tickets[1]));
    assert_status(rota_wait(tickets[0], 0), ROTA_UNDEFINED_DATA);
    const char *parts[] = {"plan 'reads nothing'", "buffer 'never written'", "bytes [0, 256)",
                           "node 'reads nothing'"};
    for (int i = 0; i < 4; i++) assert_non_null(strstr(rota_last_error(), parts[i]));
    /* One cause has one code, whoever asks: the ticket, one that depends on it, a read of what either writes.
     */
    assert_status(rota_buffer_read(b, 0, &word, 4), ROTA_UNDEFINED_DATA);
    assert_non_null(strstr(rota_last_error(), "buffer 'never written'"));
    assert_status(rota_wait(tickets[1], 0), ROTA_UNDEFINED_DATA);
    assert_non_null(strstr(rota_last_error(), "buffer 'never written'"));
    assert_status(rota_buffer_read(c, 0, &word, 4), ROTA_UNDEFINED_DATA);
    /* Half of it written is not enough, and says which half is missing. */
    memset(words, 1, sizeof words);
    assert_ok(rota_buffer_write(never, NULL, 0, words, 128, NULL));
    assert_ok(rota_submit_wait(first, NULL, 0, &tickets[0]));
    assert_status(rota_wait(tickets[0], 0), ROTA_UNDEFINED_DATA);
    assert_non_null(strstr(rota_last_error(), "bytes [128, 256)"));
    assert_ok(rota_buffer_write(never, NULL, 128, words, 128, NULL));
    assert_ok(rota_submit_wait(first, NULL, 0, NULL));
    assert_ok(rota_submit_wait(second, NULL, 0, &tickets[1]));
    assert_ok(rota_wait(tickets[1], 0));
    test_expect_words(c, WORDS, 0x01010101);
    rota_plan_release(first);
    rota_plan_release(second);
    rota_buffer_release(never);
    rota_buffer_release(b);
    rota_buffer_release(c);
}

/* What a plan that was only analysed lacks is said where it is missed, and nothing is said twice. */
static void plans_that_cannot_run_say_why(void **state) {
    runtime_fixture *f = *state;
    rota_runtime *other;
    rota_device *device;
    rota_buffer *own = test_words(f->device, "own", WORDS, 1);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_args *args;
    char text[512];
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, own, 0, ROTA_WHOLE, 0, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(f->runtime, graph, NULL, &plan));
    static const char how[] =
        "compiled with a runtime and its devices in rota_compile_options.devices and .device_count";
    assert_status(rota_submit(plan, NULL, NULL), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), how));
    assert_status(rota_args_create(plan, &args), ROTA_WRONG_STATE);
    assert_non_null(strstr(rota_last_error(), how));
    /* Lanes count from 1. */
    assert_ok(rota_plan_explain(plan, (rota_node){.lane = 1}, text, sizeof text, NULL));
    assert_non_null(strstr(text, "(lane 1 'key 0', node 0)"));
    assert_null(strstr(text, "lane 0"));
    assert_status(rota_plan_explain(plan, (rota_node){.lane = 2}, text, sizeof text, NULL), ROTA_NOT_FOUND);
    assert_non_null(strstr(rota_last_error(), "has lanes 1 to 1, no lane 2"));
    rota_plan_release(plan);
    assert_ok(rota_runtime_open(NULL, &other));
    assert_ok(rota_device_open(other, "cpu", &device));
    assert_status(
        rota_compile(other, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan),
        ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "buffer 'own' is not of this runtime"));
    const char *first = strstr(rota_last_error(), "plan 'graph': ");
    assert_ptr_equal(first, rota_last_error());
    assert_null(strstr(first + 1, "plan 'graph'"));
    assert_ok(rota_runtime_close(other, 0));
    rota_graph_release(graph);
    rota_buffer_release(own);
}

/* As many nodes as fail leave as many marks, and each looks for those that it depends on: that takes no more
 * than the logarithm of their number. (A list of them took 15 s here.) */
static void many_nodes_fail_in_time(void **state) {
    enum { COUNT = 60000 };
    runtime_fixture *f = *state;
    rota_buffer *a = test_words(f->device, "a", 1, 1), **outs = calloc(COUNT, sizeof(rota_buffer *));
    test_node *nodes = calloc(COUNT + 1, sizeof *nodes);
    assert_non_null(outs);
    assert_non_null(nodes);
    nodes[0] = (test_node){&test_failing, "breaks", {{a, 0, ROTA_WHOLE, ROTA_WRITE}}, 1};
    for (uint32_t i = 0; i < COUNT; i++) {
        outs[i] = test_buffer(f->runtime, "out", 4);
        nodes[i + 1] = (test_node){
            &test_copy, "reads", {{a, 0, ROTA_WHOLE, ROTA_READ}, {outs[i], 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    }
    rota_plan *plan = test_plan(f->device, "wide", nodes, COUNT + 1);
    uint32_t word;
    for (test_fail = 1; test_fail >= 0; test_fail--) {
        rota_ticket ticket;
        clock_t begin = clock(); /* CPU time of all threads: other tests run beside this one */
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_status(rota_wait(ticket, 0), test_fail ? ROTA_NODE_FAILED : ROTA_OK);
        assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
        assert_status(rota_buffer_read(outs[COUNT - 1], 0, &word, 4), test_fail ? ROTA_NODE_FAILED : ROTA_OK);
    }
    test_fail = 0;
    assert_int_equal(word, 7);
    rota_plan_release(plan);
    for (uint32_t i = 0; i < COUNT; i++) rota_buffer_release(outs[i]);
    rota_buffer_release(a);
    free(nodes);
    free(outs);
}

/* A failure known before its turn must not reach back to what was submitted earlier and runs later. */
static void failures_do_not_travel_back(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *never = test_buffer(f->runtime, "never", WORDS * 4);
    rota_buffer *b = test_words(f->device, "b", WORDS, 2), *c = test_words(f->device, "c", WORDS, 0),
                *held = test_words(f->device, "held", WORDS, 0);
    test_node nodes[] = {
        {&test_gate, NULL, {{held, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1},
        {&test_copy, NULL, {{held, 0, ROTA_WHOLE, ROTA_READ}, {c, 0, ROTA_WHOLE, ROTA_WRITE}}, 2},
        {&test_copy, NULL, {{b, 0, ROTA_WHOLE, ROTA_READ}, {c, 0, ROTA_WHOLE, ROTA_WRITE}}, 2}};
    rota_plan *earlier = test_plan(f->device, "earlier", nodes, 3),
              *later = test_plan_copy_kernel(f->device, "later", never, b);
    rota_ticket tickets[2];
    test_gate_open(false);
    assert_ok(rota_submit_wait(earlier, NULL, 0, &tickets[0]));
    assert_ok(rota_submit_wait(later, NULL, 0, &tickets[1]));
    assert_status(rota_wait(tickets[1], 0), ROTA_UNDEFINED_DATA); /* b is marked failed from here on */
    test_gate_open(true);
    assert_ok(rota_wait(tickets[0], 0));
    test_expect_words(c, WORDS, 2);
    uint32_t word;
    assert_status(rota_buffer_read(b, 0, &word, 4), ROTA_UNDEFINED_DATA);
    rota_plan_release(earlier);
    rota_plan_release(later);
    rota_buffer_release(never);
    rota_buffer_release(b);
    rota_buffer_release(c);
    rota_buffer_release(held);
}

/* What failed before stays failed for what is submitted before it is overwritten, though who is to overwrite
 * it is known to fail before that runs. */
static void an_older_failure_stays(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *never = test_buffer(f->runtime, "never", WORDS * 4);
    rota_buffer *b = test_words(f->device, "b", WORDS, 2), *c = test_words(f->device, "c", WORDS, 0),
                *held = test_words(f->device, "held", WORDS, 0);
    test_node nodes[] = {
        {&test_gate, NULL, {{held, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1},
        {&test_copy, NULL, {{held, 0, ROTA_WHOLE, ROTA_READ}, {c, 0, ROTA_WHOLE, ROTA_WRITE}}, 2},
        {&test_copy, NULL, {{b, 0, ROTA_WHOLE, ROTA_READ}, {c, 0, ROTA_WHOLE, ROTA_WRITE}}, 2}};
    rota_plan *fails = test_plan_1(f->device, "fails", &test_failing, b, ROTA_WRITE);
    rota_plan *reads = test_plan(f->device, "reads", nodes, 3),
              *over = test_plan_copy_kernel(f->device, "over", never, b);
    rota_ticket tickets[3];
    uint32_t word;
    for (uint32_t times = 1; times < 4; times++) {
        test_fail = 1;
        assert_ok(rota_submit_wait(fails, NULL, 0, &tickets[0]));
        assert_status(rota_wait(tickets[0], 0), ROTA_NODE_FAILED);
        test_fail = 0;
        test_gate_open(false);
        assert_ok(rota_submit_wait(reads, NULL, 0, &tickets[1]));
        for (uint32_t i = 0; i < times; i++) {
            assert_ok(rota_submit_wait(over, NULL, 0, &tickets[2]));
            assert_status(rota_wait(tickets[2], 0), ROTA_UNDEFINED_DATA);
        }
        test_gate_open(true);
        assert_status(rota_wait(tickets[1], 0), ROTA_NODE_FAILED);
        assert_non_null(strstr(rota_last_error(), "plan 'fails'"));
        assert_status(rota_buffer_read(c, 0, &word, 4), ROTA_NODE_FAILED);
        assert_status(rota_buffer_read(b, 0, &word, 4), ROTA_NODE_FAILED);
        assert_ok(rota_submit_wait(fails, NULL, 0, NULL));
        test_expect_words(b, WORDS, 7);
    }
    rota_plan_release(fails);
    rota_plan_release(reads);
    rota_plan_release(over);
    rota_buffer *buffers[] = {never, b, c, held};
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
}

/* ---- Arguments ---- */

typedef struct scale_params {
    uint32_t factor;
} scale_params;

static rota_status scale(const rota_kernel_call *call) {
    const uint32_t *x = call->operands[0];
    uint32_t *y = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++)
        y[i] = x[i] * ((const scale_params *)call->params)->factor;
    return ROTA_OK;
}
static void scale_items(const void *params, const uint64_t *operand_bytes, uint64_t *items, uint64_t *grain) {
    (void)params;
    *items = operand_bytes[0] / 4;
    *grain = 1024;
}
static const rota_kernel scale_kernel = {
    .name = "scale",
    .operand_count = 2,
    .param_bytes = sizeof(scale_params),
    .bindables = &(const rota_kernel_bindable){"factor", 0, 4, true, ROTA_VALUE_U32},
    .bindable_count = 1,
    .cpu = {.fn = scale, .items = scale_items},
};

typedef struct argued {
    rota_plan *plan;
    rota_slot factor, unused;
    rota_buffer *in, *slot, *out, *unused_in, *unused_slot;
    rota_args *args;
} argued;

/* out = factor * in; slot = factor * in. */
static argued make_argued(rota_device *device) {
    argued a;
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_slot(graph, "factor", 4, &a.factor));
    assert_ok(rota_graph_slot(graph, "unused", 8, &a.unused));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "unused in", WORDS * 4, &a.unused_in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "unused slot", WORDS * 4, &a.unused_slot));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", WORDS * 4, &a.in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &a.out));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "target", WORDS * 4, &a.slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_buffer *targets[] = {a.out, a.slot};
    for (int i = 0; i < 2; i++) {
        rota_access accesses[] = {{a.in, 0, ROTA_WHOLE, ROTA_READ}, {targets[i], 0, ROTA_WHOLE, ROTA_WRITE}};
        rota_param_binding binding = {0, a.factor};
        scale_params params = {0};
        assert_ok(rota_record_kernel(recorder,
                                     &ROTA_KERNEL_NODE(.kernel = &scale_kernel, .accesses = accesses,
                                                       .access_count = 2, .params = &params,
                                                       .bindings = &binding, .binding_count = 1),
                                     NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.name = "argued", .devices = &device, .device_count = 1),
                           &a.plan));
    rota_graph_release(graph);
    assert_ok(rota_args_create(a.plan, &a.args));
    return a;
}

static void arguments_are_checked(void **state) {
    runtime_fixture *f = *state;
    argued a = make_argued(f->device);
    uint32_t in[WORDS], out[WORDS];
    rota_buffer *target = test_words(f->device, "bound", WORDS, 0),
                *small = test_words(f->device, "small", 2, 0);
    for (uint32_t i = 0; i < WORDS; i++) in[i] = i;
    assert_status(rota_submit(a.plan, NULL, NULL), ROTA_INVALID_ARGUMENT);
    assert_status(rota_submit(a.plan, a.args, NULL), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "was never set"));
    assert_status(rota_args_set_u64(a.args, a.factor, 3), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "'factor' has 4 bytes"));
    assert_status(rota_args_set_f32(a.args, a.factor, 3), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "slot 'factor' is u32, the value given is f32"));
    assert_status(rota_args_set_u32(a.args, (rota_slot){99}, 3), ROTA_NOT_FOUND);
    assert_status(rota_args_set_input(a.args, a.in, in, 12, false), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "'in' has 256 bytes"));
    assert_status(rota_args_set_input(a.args, a.out, in, sizeof in, false), ROTA_NOT_FOUND);
    assert_status(rota_args_set_buffer(a.args, a.slot, small), ROTA_OUT_OF_RANGE);
    assert_status(rota_args_set_buffer(a.args, a.out, target), ROTA_NOT_FOUND);
    assert_ok(rota_args_set_input(a.args, a.in, in, sizeof in, false));
    assert_ok(rota_args_set_output(a.args, a.out, out, sizeof out));
    assert_ok(rota_args_set_buffer(a.args, a.slot, target));
    assert_status(rota_submit(a.plan, a.args, NULL), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "slot 'factor'"));
    for (uint32_t factor = 1; factor <= 512; factor++) {
        rota_ticket ticket;
        assert_ok(rota_args_set_u32(a.args, a.factor, factor));
        assert_ok(rota_submit_wait(a.plan, a.args, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(out[i], i * factor);
    }
    uint32_t bound[WORDS];
    assert_ok(rota_buffer_read(target, 0, bound, sizeof bound));
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(bound[i], i * 512);
    rota_args_release(a.args);
    rota_plan_release(a.plan);
    rota_buffer_release(target);
    rota_buffer_release(small);
}

/* What no node uses need not be set, and may be: it is checked and does nothing. */
static void unused_arguments_are_ignored(void **state) {
    runtime_fixture *f = *state;
    argued a = make_argued(f->device);
    uint32_t in[WORDS] = {5}, out[WORDS];
    rota_buffer *target = test_words(f->device, "bound", WORDS, 0);
    assert_ok(rota_args_set_input(a.args, a.in, in, sizeof in, false));
    assert_ok(rota_args_set_output(a.args, a.out, out, sizeof out));
    assert_ok(rota_args_set_buffer(a.args, a.slot, target));
    assert_ok(rota_args_set_u32(a.args, a.factor, 3));
    for (int round = 0; round < 2; round++) {
        rota_ticket ticket;
        out[0] = 0;
        assert_ok(rota_submit_wait(a.plan, a.args, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        assert_int_equal(out[0], 15);
        assert_ok(rota_args_set_u64(a.args, a.unused, 7));
        assert_ok(rota_args_set_input(a.args, a.unused_in, out, sizeof out, round == 0));
        assert_ok(
            rota_args_set_buffer(a.args, a.unused_slot, target)); /* which is bound and written elsewhere */
    }
    assert_status(rota_args_set_u32(a.args, a.unused, 7), ROTA_INVALID_ARGUMENT);
    assert_status(rota_args_set_input(a.args, a.unused_in, in, 12, false), ROTA_INVALID_ARGUMENT);
    assert_status(rota_args_set_output(a.args, a.unused_in, out, sizeof out), ROTA_NOT_FOUND);
    rota_buffer *small = test_words(f->device, "small", 2, 0);
    assert_status(rota_args_set_buffer(a.args, a.unused_slot, small), ROTA_OUT_OF_RANGE);
    argued other = make_argued(f->device);
    assert_status(rota_args_set_input(a.args, other.unused_in, in, sizeof in, false), ROTA_NOT_FOUND);
    assert_status(rota_args_set_buffer(a.args, other.unused_slot, target), ROTA_NOT_FOUND);
    rota_args_release(other.args);
    rota_plan_release(other.plan);
    rota_args_release(a.args);
    rota_plan_release(a.plan);
    rota_buffer_release(target);
    rota_buffer_release(small);
}

/* A plan whose only argument no node uses is submitted without arguments. */
static void no_argument_is_needed(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *x = test_words(f->device, "x", WORDS, 1);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_slot slot;
    rota_plan *plan;
    rota_access access = {x, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_slot(graph, "unused", 4, &slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &access, .access_count = 1),
        NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    rota_graph_release(graph);
    assert_ok(rota_submit(plan, NULL, NULL));
    test_expect_words(x, WORDS, 2);
    rota_plan_release(plan);
    rota_buffer_release(x);
}

/* Copied inputs may be changed at once; every submission sees what it was given. */
static void inputs_may_be_copied(void **state) {
    runtime_fixture *f = *state;
    argued a = make_argued(f->device);
    static uint32_t outs[200][WORDS];
    rota_buffer *target = test_words(f->device, "bound", WORDS, 0);
    uint32_t in[WORDS];
    rota_ticket ticket;
    assert_ok(rota_args_set_buffer(a.args, a.slot, target));
    assert_ok(rota_args_set_u32(a.args, a.factor, 1));
    assert_ok(rota_args_set_input(a.args, a.in, in, sizeof in, true));
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < WORDS; i++) in[i] = round * 1000 + i;
        assert_ok(rota_args_set_output(a.args, a.out, outs[round], sizeof outs[round]));
        assert_ok(rota_submit_wait(a.plan, a.args, 0, &ticket));
    }
    rota_args_release(a.args);
    rota_plan_release(a.plan);
    assert_ok(rota_wait_inputs_taken(ticket, 0));
    assert_ok(rota_wait(ticket, 0));
    for (uint32_t round = 0; round < 200; round++)
        for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(outs[round][i], round * 1000 + i);
    rota_buffer_release(target);
}

/* A plan is of one runtime, whose devices and whose only it may name. */
static void devices_of_another_runtime_are_refused(void **state) {
    runtime_fixture *f = *state;
    runtime_fixture other;
    assert_ok(rota_runtime_open(NULL, &other.runtime));
    assert_ok(rota_device_open(other.runtime, "cpu", &other.device));
    rota_buffer *x = test_buffer(f->runtime, "x", 64);
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "strays"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, x, 0, ROTA_WHOLE, 1, NULL));
    rota_recorder_close(recorder);
    rota_plan *plan = NULL;
    for (uint32_t strays = 1; strays <= 2; strays++) {
        rota_device *devices[] = {strays == 1 ? other.device : f->device, other.device};
        assert_status(rota_compile(f->runtime, graph,
                                   &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = strays), &plan),
                      ROTA_INVALID_ARGUMENT);
        char expected[128];
        (void)snprintf(expected, sizeof expected,
                       "devices[%u], 'cpu', is of another runtime, whose devices are 'cpu'", strays - 1);
        assert_non_null(strstr(rota_last_error(), "compile of graph 'strays'"));
        assert_non_null(strstr(rota_last_error(), expected));
        assert_non_null(strstr(rota_last_error(), "this one's are 'cpu'"));
        assert_null(plan);
    }
    /* Nothing of it was kept: the graph still compiles for its own. */
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(other.runtime, 0));
}

int main(void) {
#define RUNTIME_TEST(name) cmocka_unit_test_setup_teardown(name, runtime_setup, runtime_teardown)
    const struct CMUnitTest tests[] = {
        RUNTIME_TEST(failures_reach_what_depends_on_them),
        RUNTIME_TEST(a_host_write_heals_what_it_covers),
        RUNTIME_TEST(one_plan_fails_in_part),
        RUNTIME_TEST(plans_that_cannot_run_say_why),
        RUNTIME_TEST(many_nodes_fail_in_time),
        RUNTIME_TEST(unwritten_data_is_an_error),
        RUNTIME_TEST(failures_do_not_travel_back),
        RUNTIME_TEST(an_older_failure_stays),
        RUNTIME_TEST(arguments_are_checked),
        RUNTIME_TEST(unused_arguments_are_ignored),
        RUNTIME_TEST(no_argument_is_needed),
        RUNTIME_TEST(inputs_may_be_copied),
        RUNTIME_TEST(devices_of_another_runtime_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
