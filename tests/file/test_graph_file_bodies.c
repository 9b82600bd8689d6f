/* Graph files with nodes that decide: bodies within bodies, saved, loaded and run; and what is no such file.
 * `--write FILE` writes one of built-in kernels alone, for rota-bench run. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rota.h"
#include "tests/file/folder.h"

/* ---- Bodies within bodies ---- */

/* x = x * 3 + value; two words. */
static rota_status step(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    *x = *x * 3 + *(const uint32_t *)call->params;
    return ROTA_OK;
}
static const rota_kernel_bindable value = {.name = "value", .size_bytes = 4, .type = ROTA_VALUE_U32};
static const rota_kernel k_step = {.name = "step",
                                   .operand_count = 1,
                                   .param_bytes = 4,
                                   .bindables = &value,
                                   .bindable_count = 1,
                                   .cpu = {.fn = step}};
/* x = x - 1. */
static rota_status down(const rota_kernel_call *call) {
    --*(uint32_t *)call->operands[0];
    return ROTA_OK;
}
static const rota_kernel k_down = {.name = "down", .operand_count = 1, .cpu = {.fn = down}};
static const rota_kernel *const given[] = {&k_step, &k_down};

static void record_step(rota_recorder *lane, rota_buffer *x, uint64_t word, uint32_t added, rota_slot slot,
                        rota_node *out_node) {
    const rota_access access = {x, word * 4, 4, ROTA_READWRITE};
    const rota_param_binding binding = {0, slot};
    assert_ok(rota_record_kernel(lane,
                                 &ROTA_KERNEL_NODE(.kernel = &k_step, .accesses = &access, .access_count = 1,
                                                   .params = &added, .bindings = &binding,
                                                   .binding_count = slot.index ? 1 : 0),
                                 out_node));
}

static void record_down(rota_recorder *lane, rota_buffer *x, uint64_t word) {
    const rota_access access = {x, word * 4, 4, ROTA_READWRITE};
    assert_ok(rota_record_kernel(
        lane, &ROTA_KERNEL_NODE(.kernel = &k_down, .accesses = &access, .access_count = 1), NULL));
}

static rota_graph *open_body(rota_graph *outer, const char *name, rota_recorder **out_lane) {
    rota_graph *body;
    assert_ok(rota_graph_create_body(outer, name, &body));
    assert_ok(rota_recorder_open(body, 0, NULL, out_lane));
    return body;
}

/* Words of `x`: 0 the count of a for, 1 its index, 2 the condition of an if, 3 what it changes, 4 that of a switch, 5
 * what it changes, 6 what a while changes, 7 its count; 8 what comes by way of transients. */
enum { WORDS = 9 };

static void record_if(rota_recorder *lane, rota_graph *outer, rota_buffer *x, rota_slot slot) {
    rota_recorder *then_lane, *else_lane;
    rota_graph *then_body = open_body(outer, "then", &then_lane),
               *else_body = open_body(outer, "else", &else_lane);
    record_step(then_lane, x, 3, 0, slot, NULL);
    record_step(else_lane, x, 3, 5, (rota_slot){0}, NULL);
    record_down(else_lane, x, 2);
    rota_recorder_close(then_lane);
    rota_recorder_close(else_lane);
    assert_ok(rota_record_if(lane,
                             &ROTA_IF_NODE(.name = "choose", .condition = x, .condition_offset_bytes = 8,
                                           .body = then_body, .otherwise = else_body),
                             NULL));
}

static void record_switch(rota_recorder *lane, rota_graph *outer, rota_buffer *x) {
    rota_recorder *first_lane, *last_lane;
    rota_graph *first = open_body(outer, "first", &first_lane), *last = open_body(outer, "last", &last_lane);
    record_step(first_lane, x, 5, 1, (rota_slot){0}, NULL);
    record_step(last_lane, x, 5, 2, (rota_slot){0}, NULL);
    rota_recorder_close(first_lane);
    rota_recorder_close(last_lane);
    rota_graph *const bodies[] = {first, NULL, last, NULL};
    assert_ok(rota_record_switch(
        lane,
        &ROTA_SWITCH_NODE(.condition = x, .condition_offset_bytes = 16, .bodies = bodies, .body_count = 4),
        NULL));
}

static void record_while(rota_recorder *lane, rota_graph *outer, rota_buffer *x) {
    rota_recorder *inner;
    rota_buffer *copy;
    rota_graph *body = open_body(outer, "again", &inner);
    assert_ok(rota_graph_buffer(body, ROTA_BUFFER_TRANSIENT, "copy", 12, &copy));
    assert_ok(rota_record_copy(inner, copy, 4, x, 24, 8, NULL)); /* so that the condition is within a range */
    record_down(inner, x, 7);
    record_step(inner, x, 6, 1, (rota_slot){0}, NULL);
    rota_recorder_close(inner);
    assert_ok(rota_record_while(lane,
                                &ROTA_WHILE_NODE(.name = "more", .condition = x, .condition_offset_bytes = 28,
                                                 .body = body, .iterations_max = 50),
                                NULL));
}

/* Two lanes, of which the first is after the second where they share nothing, and buffers of the body's own list and of
 * a lane. */
static rota_graph *record_for_body(rota_graph *graph, rota_buffer *x, rota_slot slot) {
    rota_recorder *lane, *second;
    rota_graph *body;
    rota_buffer *own, *scratch;
    rota_node earlier, later;
    assert_ok(rota_graph_create_body(graph, "iteration", &body));
    assert_ok(rota_graph_fuse(body));
    assert_ok(rota_graph_buffer(body, ROTA_BUFFER_TRANSIENT, "own", 8, &own));
    assert_ok(rota_recorder_open(body, 3, "behind", &lane));
    assert_ok(rota_recorder_open(body, 1, "before", &second));
    assert_ok(rota_recorder_buffer(second, ROTA_BUFFER_TRANSIENT, "scratch", 16, &scratch));
    assert_ok(rota_record_copy(second, scratch, 8, x, 32, 4, NULL));
    record_step(second, scratch, 2, 7, (rota_slot){0}, NULL);
    assert_ok(rota_record_copy(second, own, 4, scratch, 8, 4, NULL));
    assert_ok(rota_record_fill(second, own, 0, 4, 9, &earlier));
    record_if(lane, body, x, slot);
    record_switch(lane, body, x);
    record_while(lane, body, x);
    assert_ok(rota_record_copy(lane, x, 32, own, 4, 4, &later));
    assert_ok(rota_node_after(lane, later, earlier));
    rota_recorder_close(second);
    rota_recorder_close(lane);
    return body;
}

static rota_graph *make_graph(rota_buffer *x) {
    rota_graph *graph;
    rota_recorder *lane;
    rota_slot slot;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "deciding"), &graph));
    assert_ok(rota_graph_slot(graph, "value", 4, &slot));
    assert_ok(rota_recorder_open(graph, 0, "lane", &lane));
    record_down(lane, x, 4);
    assert_ok(rota_record_for(lane,
                              &ROTA_FOR_NODE(.name = "times", .count = x, .index = x, .index_offset_bytes = 4,
                                             .body = record_for_body(graph, x, slot), .iterations_max = 10),
                              NULL));
    rota_recorder_close(lane);
    return graph;
}

/* What the graph makes of the words, in plain C. */
static void expect_words(uint32_t x[WORDS], uint32_t slot) {
    x[4]--;
    for (uint32_t i = 0; i < x[0]; i++) {
        x[1] = i;
        if (x[2])
            x[3] = x[3] * 3 + slot;
        else
            x[3] = x[3] * 3 + 5, x[2]--;
        if (x[4] == 0 || x[4] == 2) x[5] = x[5] * 3 + (x[4] == 0 ? 1 : 2);
        for (; x[7]; x[7]--) x[6] = x[6] * 3 + 1;
        x[8] = x[8] * 3 + 7;
    }
}

static void run_words(rota_graph_file *file, rota_device *device, rota_plan *plan) {
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_graph_file_prepare(file, device, args));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_graph_file_check(file));
    rota_args_release(args);
}

static void bodies_are_saved_and_run(void **state) {
    (void)state;
    rota_device *device;
    rota_buffer *x;
    assert_ok(rota_open("cpu", NULL, &device));
    assert_ok(rota_buffer_create_in(rota_device_runtime(device), "x", sizeof(uint32_t[WORDS]), &x));
    rota_graph *graph = make_graph(x);
    for (uint32_t which = 0; which < 4; which++) {
        const uint32_t first[WORDS] = {
            which ? which + 2 : 0, 77, which % 2, 11, which, 13, 17, which * 3, 19};
        uint32_t words[WORDS];
        memcpy(words, first, sizeof words);
        expect_words(words, 1000 + which);
        const rota_graph_file_bytes before = {x, first, 0}, after = {x, words, 0};
        const rota_graph_file_argument argument = {.slot = {1}, .value = 1000 + which};
        assert_ok(rota_graph_save(graph,
                                  &ROTA_GRAPH_SAVE_OPTIONS(.first = &before, .first_count = 1,
                                                           .results = &after, .result_count = 1,
                                                           .arguments = &argument, .argument_count = 1),
                                  path_of("graph")));
        rota_graph_file *file;
        rota_plan *plan;
        const rota_graph_load_options load = ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(device),
                                                                     .kernels = given, .kernel_count = 2);
        assert_ok(rota_graph_load(path_of("graph"), &load, &file));
        rota_graph_file_info info = ROTA_GRAPH_FILE_INFO();
        assert_ok(rota_graph_file_get_info(file, &info));
        assert_int_equal(info.node_count, 2);
        /* Saved from what was loaded, it is the same to the byte up to what it holds. */
        size_t size, again_size, third_size;
        assert_ok(rota_graph_save(graph, NULL, path_of("plain")));
        assert_ok(rota_graph_save(rota_graph_file_graph(file), NULL, path_of("again")));
        uint8_t *plain = bytes_of("plain", &size), *again = bytes_of("again", &again_size);
        assert_int_equal(size, again_size);
        assert_memory_equal(plain, again, size);
        free(plain);
        free(again);
        assert_ok(rota_compile(rota_device_runtime(device), rota_graph_file_graph(file),
                               &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true),
                               &plan));
        run_words(file, device, plan);
        /* What it made, as the results of a file that then says the same. */
        assert_ok(rota_graph_file_save_results(file, 0, path_of("made")));
        rota_graph_file_release(file);
        rota_plan_release(plan);
        assert_ok(rota_graph_load(path_of("made"), &load, &file));
        assert_ok(rota_compile(rota_device_runtime(device), rota_graph_file_graph(file),
                               &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
        run_words(file, device, plan);
        rota_graph_file_release(file);
        rota_plan_release(plan);
        /* Nodes write all words but the first: the index, too. */
        uint8_t *made = bytes_of("made", &third_size);
        assert_non_null(memmem(made, third_size, "results\x81\x84\x03\x04\x58\x20", 13));
        free(made);
    }
    rota_graph_release(graph);
    rota_buffer_release(x);
    assert_ok(rota_close(device, 0));
}

/* x = w, then x = x * w as often as the count says, and the gradient of its sum. Buffers: w, gradient, count. */
static rota_graph *make_gradient(rota_buffer *const buffers[3]) {
    rota_graph *graph, *body;
    rota_recorder *lane, *inner;
    rota_tape *tape, *inner_tape;
    rota_tensor w, gradient, x, loss;
    assert_ok(rota_tensor_of(buffers[0], 0, ROTA_F32, ROTA_SHAPE(2), &w));
    assert_ok(rota_tensor_of(buffers[1], 0, ROTA_F32, ROTA_SHAPE(2), &gradient));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &tape));
    assert_ok(rota_op_copy(tape, w, &x));
    assert_ok(rota_graph_create_body(graph, "body", &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &inner));
    assert_ok(rota_tape_create(inner, NULL, &inner_tape));
    assert_ok(rota_op_mul_into(inner_tape, x, w, x));
    rota_tape_destroy(inner_tape);
    rota_recorder_close(inner);
    assert_ok(
        rota_record_for(lane, &ROTA_FOR_NODE(.count = buffers[2], .body = body, .iterations_max = 4), NULL));
    assert_ok(rota_op_sum(tape, x, 0, true, &loss));
    assert_ok(rota_backward(tape, loss, &w, 1, &gradient, NULL));
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    return graph;
}

static rota_plan *compile_on(rota_device *device, rota_graph *graph, rota_plan_stats *out_stats) {
    rota_plan *plan;
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true),
                           &plan));
    *out_stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(plan, out_stats));
    return plan;
}

/* What a loop keeps for its gradient comes first in its body, and in the graph, wherever it was recorded; and is filled
 * where nobody knows that this is for nothing. */
static void what_is_kept_comes_first(void **state) {
    (void)state;
    rota_device *device;
    rota_buffer *buffers[3];
    rota_graph_file *file;
    rota_plan_stats of_file, of_graph;
    static const char *const names[] = {"w", "gradient", "count"};
    const float values[2] = {2, 3}, expected[2] = {4 * 8, 4 * 27};
    const uint32_t count = 3;
    assert_ok(rota_open("cpu", NULL, &device));
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(rota_buffer_create_in(rota_device_runtime(device), names[i], i < 2 ? 8 : 4, &buffers[i]));
    rota_graph *graph = make_gradient(buffers);
    const rota_graph_file_bytes before[] = {{buffers[0], values, 0}, {buffers[2], &count, 0}},
                                after = {buffers[1], expected, 0};
    assert_ok(rota_graph_save(
        graph,
        &ROTA_GRAPH_SAVE_OPTIONS(.first = before, .first_count = 2, .results = &after, .result_count = 1),
        path_of("kept")));
    assert_ok(rota_graph_load(path_of("kept"),
                              &ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(device)), &file));
    rota_plan *plan = compile_on(device, rota_graph_file_graph(file), &of_file);
    run_words(file, device, plan);
    rota_graph_file_release(file);
    rota_plan_release(plan);
    rota_plan_release(compile_on(device, graph, &of_graph));
    assert_int_equal(of_graph.nodes, of_file.nodes);
    assert_int_equal(of_graph.commands + 1, of_file.commands);
    rota_graph_release(graph);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_close(device, 0));
}

/* As deep as bodies go, each with a fill of its own. */
static void eight_deep(void **state) {
    (void)state;
    rota_graph *graphs[ROTA_BODY_DEPTH_MAX + 1];
    rota_recorder *lanes[ROTA_BODY_DEPTH_MAX + 1];
    rota_buffer *x;
    rota_graph_file *file;
    rota_plan *plan;
    assert_ok(rota_buffer_create("x", 4, &x));
    assert_ok(rota_graph_create(NULL, &graphs[0]));
    assert_ok(rota_recorder_open(graphs[0], 0, NULL, &lanes[0]));
    for (uint32_t i = 0; i < ROTA_BODY_DEPTH_MAX; i++)
        graphs[i + 1] = open_body(graphs[i], "deeper", &lanes[i + 1]);
    for (uint32_t i = ROTA_BODY_DEPTH_MAX + 1; i-- > 0;) {
        assert_ok(rota_record_fill(lanes[i], x, 0, 4, i, NULL));
        if (i < ROTA_BODY_DEPTH_MAX)
            assert_ok(rota_record_if(lanes[i], &ROTA_IF_NODE(.condition = x, .body = graphs[i + 1]), NULL));
        rota_recorder_close(lanes[i]);
    }
    assert_ok(rota_graph_save(graphs[0], NULL, path_of("deep")));
    assert_ok(rota_graph_load(path_of("deep"), NULL, &file));
    assert_ok(rota_graph_save(rota_graph_file_graph(file), NULL, path_of("again")));
    size_t size, again_size;
    uint8_t *bytes = bytes_of("deep", &size), *again = bytes_of("again", &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(bytes, again, size);
    assert_ok(rota_compile(NULL, rota_graph_file_graph(file), NULL, &plan));
    rota_plan_release(plan);
    rota_graph_file_release(file);
    rota_graph_release(graphs[0]);
    rota_buffer_release(x);
    free(bytes);
    free(again);
}

/* ---- What is no such file ---- */

typedef struct change {
    const char *from, *to; /* of the same length */
    size_t size;
} change;
#define CHANGE(from, to)                                                                                     \
    { from, to, sizeof from - 1 }

/* Bytes of a file changed, each once. */
static void expect_refused(const char *name, const change *changes, size_t count, rota_status expected,
                           const char *said) {
    size_t size;
    rota_graph_file *file;
    uint8_t *bytes = bytes_of(name, &size);
    for (size_t i = 0; i < count; i++) {
        uint8_t *found = memmem(bytes, size, changes[i].from, changes[i].size);
        if (!found) fail_msg("%s has no '%s'", name, changes[i].from);
        memcpy(found, changes[i].to, changes[i].size);
    }
    files_write(path_of("changed"), bytes, size);
    free(bytes);
    assert_status(rota_graph_load(path_of("changed"), NULL, &file), expected);
    assert_null(file);
    expect_said(said);
}
#define REFUSED(status, said, ...)                                                                           \
    do {                                                                                                     \
        const change changes_[] = {__VA_ARGS__};                                                             \
        expect_refused("small", changes_, sizeof changes_ / sizeof *changes_, status, said);                 \
    } while (0)

/* A while, an if of two bodies and a for with an index, in one lane with an edge. */
static void save_small(void) {
    rota_graph *graph;
    rota_recorder *lane, *inner[4];
    rota_buffer *x;
    rota_node first, second;
    assert_ok(rota_buffer_create("x", 16, &x));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, "main", &lane));
    rota_graph *bodies[4];
    static const char *const names[4] = {"of_while", "of_then", "of_else", "of_for"};
    for (uint32_t i = 0; i < 4; i++) {
        rota_buffer *own;
        bodies[i] = open_body(graph, names[i], &inner[i]);
        assert_ok(rota_recorder_buffer(inner[i], ROTA_BUFFER_TRANSIENT, "own", 4, &own));
        assert_ok(rota_record_fill(inner[i], own, 0, 4, 1, NULL));
        assert_ok(rota_record_fill(inner[i], x, 12, 4, i, NULL));
        rota_recorder_close(inner[i]);
    }
    assert_ok(rota_record_while(
        lane, &ROTA_WHILE_NODE(.name = "w", .condition = x, .body = bodies[0], .iterations_max = 10),
        &first));
    assert_ok(rota_record_if(
        lane, &ROTA_IF_NODE(.name = "i", .condition = x, .body = bodies[1], .otherwise = bodies[2]),
        &second));
    assert_ok(rota_record_for(lane,
                              &ROTA_FOR_NODE(.name = "f", .count = x, .index = x, .index_offset_bytes = 4,
                                             .body = bodies[3], .iterations_max = 11),
                              NULL));
    assert_ok(rota_node_after(lane, second, first));
    rota_recorder_close(lane);
    assert_ok(rota_graph_save(graph, NULL, path_of("small")));
    rota_graph_release(graph);
    rota_buffer_release(x);
}

static void what_is_no_body_is_refused(void **state) {
    (void)state;
    rota_graph_file *file;
    size_t size;
    save_small();
    assert_ok(rota_graph_load(path_of("small"), NULL, &file));
    rota_graph_file_release(file);
    REFUSED(ROTA_UNSUPPORTED, "format 4; this is rota", CHANGE("version\x02", "version\x04"));
    REFUSED(ROTA_INVALID_ARGUMENT, "key 'bodies', expected the key 'lanes'",
            CHANGE("version\x02", "version\x01"));
    /* Bodies and their lanes. */
    REFUSED(ROTA_INVALID_ARGUMENT, "(bodies[0][1]): a body, of which the file has none by then",
            CHANGE("of_while\xf6", "of_while\x00"));
    REFUSED(ROTA_INVALID_ARGUMENT, "(bodies[1][1]): 1, expected at most 0",
            CHANGE("of_then\xf6", "of_then\x01"));
    REFUSED(ROTA_INVALID_ARGUMENT, "(bodies[1][2])", CHANGE("of_then\xf6\xf4", "of_then\xf6\xf6"));
    REFUSED(ROTA_INVALID_ARGUMENT, "(lanes[1][2]): a lane of a body behind one of what comes before",
            CHANGE("key 0\x03", "key 0\x00"));
    REFUSED(ROTA_INVALID_ARGUMENT, "graph 'of_while' is no body of graph 'of_while'",
            CHANGE("main\xf6", "main\x00"));
    /* Whose a node is. */
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[4].nodes[0].bodies[0]): 4, expected at most 3",
            CHANGE("bodies\x81\x00", "bodies\x81\x04"));
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[4].nodes[0].bodies[0]): null, expected a body",
            CHANGE("bodies\x81\x00", "bodies\x81\xf6"));
    REFUSED(ROTA_INVALID_ARGUMENT, "body 0, which another node has",
            CHANGE("bodies\x82\x01\x02", "bodies\x82\x00\x02"));
    REFUSED(ROTA_WRONG_STATE, "given twice", CHANGE("bodies\x82\x01\x02", "bodies\x82\x01\x01"));
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[4]): body 2 'of_else' is none of any node's",
            CHANGE("bodies\x82\x01\x02", "bodies\x82\x01\xf6"));
    REFUSED(ROTA_INVALID_ARGUMENT, "nor decides", CHANGE("while\x82", "whale\x82"));
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[4].nodes[2].bodies): an array of 2, expected 1",
            CHANGE("bodies\x81\x03", "bodies\x82\x03"));
    REFUSED(ROTA_INVALID_ARGUMENT, "iterations_max is 0", CHANGE("iterations\x0a", "iterations\x00"));
    /* Its words: the file's only buffer of all is the last. */
    REFUSED(ROTA_MISALIGNED, "its condition starts at byte 2",
            CHANGE("while\x82\x04\x00", "while\x82\x04\x02"));
    REFUSED(ROTA_OUT_OF_RANGE, "its condition is bytes [16, +4)",
            CHANGE("while\x82\x04\x00", "while\x82\x04\x10"));
    REFUSED(ROTA_INVALID_ARGUMENT, "its condition, buffer 'own', belongs to graph",
            CHANGE("while\x82\x04", "while\x82\x00"));
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[4].nodes[0].while[0]): 5, expected at most 4",
            CHANGE("while\x82\x04", "while\x82\x05"));
    REFUSED(ROTA_INVALID_ARGUMENT, "its index and its count are the same bytes",
            CHANGE("index\x82\x04\x04", "index\x82\x04\x00"));
    /* A buffer of a body's lane, of a kind that bodies have none of; and an edge to another graph. */
    REFUSED(ROTA_INVALID_ARGUMENT, "kind INPUT, expected TRANSIENT",
            CHANGE("\x84\x69TRANSIENT\x63own", "\x84\x65INPUT\x67\x65\x65\x65\x65\x65\x65\x65"));
    REFUSED(ROTA_INVALID_ARGUMENT, "is after one of lane 'key 0', which is of another graph",
            CHANGE("after\x81\x83\x01\x04\x00", "after\x81\x83\x01\x03\x00"));
    uint8_t *bytes = bytes_of("small", &size);
    for (size_t cut = 0; cut < size; cut++) {
        files_write(path_of("cut"), bytes, cut);
        assert_status(rota_graph_load(path_of("cut"), NULL, &file), ROTA_INVALID_ARGUMENT);
        expect_said("/cut', byte ");
    }
    free(bytes);
}

/* ---- For rota-bench run ---- */

/* x = 2 x - 1, as often as a count says, if a flag says so; and what must come of it. */
static void write_file(const char *path) {
    rota_device *device;
    rota_graph *graph, *loop, *inner;
    rota_recorder *lane, *loop_lane, *inner_lane;
    rota_tape *tape;
    rota_tensor x, twice;
    rota_buffer *words;
    const float first[4] = {3, 4, 5, 6}, result[4] = {33, 49, 65, 81};
    const uint32_t flag_and_count[2] = {1, 4};
    assert_ok(rota_open("cpu", NULL, &device));
    assert_ok(rota_tensor_create(device, "x", ROTA_F32, ROTA_SHAPE(4), first, &x));
    assert_ok(rota_buffer_create_in(rota_device_runtime(device), "words", 8, &words));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    loop = open_body(graph, "all", &loop_lane);
    inner = open_body(loop, "iteration", &inner_lane);
    assert_ok(rota_tape_create(inner_lane, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    assert_ok(rota_op_scale(tape, x, ROTA_PLAIN(2), &twice));
    assert_ok(rota_op_affine_into(tape, twice, ROTA_PLAIN(1), ROTA_PLAIN(-1), x));
    rota_tape_destroy(tape);
    rota_recorder_close(inner_lane);
    assert_ok(rota_record_for(
        loop_lane,
        &ROTA_FOR_NODE(.count = words, .count_offset_bytes = 4, .body = inner, .iterations_max = 9), NULL));
    rota_recorder_close(loop_lane);
    assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.name = "choose", .condition = words, .body = loop), NULL));
    rota_recorder_close(lane);
    const rota_graph_file_bytes before[] = {{x.buffer, first, 0}, {words, flag_and_count, 0}},
                                after = {x.buffer, result, 0};
    assert_ok(rota_graph_save(
        graph,
        &ROTA_GRAPH_SAVE_OPTIONS(.first = before, .first_count = 2, .results = &after, .result_count = 1),
        path));
    rota_graph_release(graph);
    rota_buffer_release(words);
    rota_buffer_release(x.buffer);
    assert_ok(rota_close(device, 0));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_saved_and_run), cmocka_unit_test(what_is_kept_comes_first),
        cmocka_unit_test(eight_deep), cmocka_unit_test(what_is_no_body_is_refused)};
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        write_file(argv[2]);
        return 0;
    }
    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
