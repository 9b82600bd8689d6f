/* Nodes that decide (graph/conditional.h) on the CPU executor: with one worker, which runs bodies as they come, and
 * with four, to whom bodies' units are tasks. What the order is worth against random graphs: rota-fuzz. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"

enum { WIDE = 1 << 16 }; /* words of which a kernel is split */

/* ---- Kernels ---- */

static void word_items(const void *params, const uint64_t *operand_bytes, uint64_t *items, uint64_t *grain) {
    (void)params;
    *items = operand_bytes[0] / 4;
    *grain = 1024;
}

/* x[0]-- */
static rota_status down(const rota_kernel_call *call) {
    (*(uint32_t *)call->operands[0])--;
    return ROTA_OK;
}
static const rota_kernel k_down = {.name = "down", .operand_count = 1, .cpu = {.fn = down}};

/* to[i] += from[0] */
static rota_status add(const rota_kernel_call *call) {
    uint32_t *to = call->operands[0];
    const uint32_t *from = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++) to[i] += from[0];
    return ROTA_OK;
}
static const rota_kernel k_add = {.name = "add", .operand_count = 2, .cpu = {.fn = add, .items = word_items}};

/* to[i] = from[i] * 3 + 1 */
static rota_status map(const rota_kernel_call *call) {
    uint32_t *to = call->operands[0];
    const uint32_t *from = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++) to[i] = from[i] * 3 + 1;
    return ROTA_OK;
}
static const rota_kernel k_map = {.name = "map", .operand_count = 2, .cpu = {.fn = map, .items = word_items}};

/* to[i] = a[i] ^ b[i] */
static rota_status mix(const rota_kernel_call *call) {
    uint32_t *to = call->operands[0];
    const uint32_t *a = call->operands[1], *b = call->operands[2];
    for (uint64_t i = call->begin; i < call->end; i++) to[i] = a[i] ^ b[i];
    return ROTA_OK;
}
static const rota_kernel k_mix = {.name = "mix", .operand_count = 3, .cpu = {.fn = mix, .items = word_items}};

/* Fails where x[0] is 3. */
static rota_status fussy(const rota_kernel_call *call) {
    const uint32_t x = *(const uint32_t *)call->operands[0];
    return x == 3 ? rota_fail(ROTA_NODE_FAILED, "it is %u", x) : ROTA_OK;
}
static const rota_kernel k_fussy = {.name = "fussy", .operand_count = 1, .cpu = {.fn = fussy}};

/* x[0] += the parameter, which may be bound. */
static rota_status add_param(const rota_kernel_call *call) {
    *(uint32_t *)call->operands[0] += *(const uint32_t *)call->params;
    return ROTA_OK;
}
static const rota_kernel_bindable by_bindable = {.name = "by", .offset_bytes = 0, .size_bytes = 4};
static const rota_kernel k_add_param = {.name = "add param",
                                        .operand_count = 1,
                                        .param_bytes = 4,
                                        .bindables = &by_bindable,
                                        .bindable_count = 1,
                                        .cpu = {.fn = add_param}};

/* ---- Recording ---- */

typedef struct program {
    runtime_fixture *f;
    rota_graph *graph;
    rota_recorder *lane;
} program;

static program begin(runtime_fixture *f) {
    program p = {f, NULL, NULL};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "outer"), &p.graph));
    assert_ok(rota_recorder_open(p.graph, 0, "main", &p.lane));
    return p;
}

static rota_plan *compile(program *p) {
    rota_plan *plan = NULL;
    rota_recorder_close(p->lane);
    assert_ok(rota_compile(
        p->f->runtime, p->graph,
        &ROTA_COMPILE_OPTIONS(.devices = &p->f->device, .device_count = 1, .certify = true), &plan));
    rota_graph_release(p->graph);
    return plan;
}

static rota_status try_run(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    return rota_wait(ticket, 0);
}

static void run(program *p) {
    rota_plan *plan = compile(p);
    assert_ok(try_run(plan));
    rota_plan_release(plan);
}

static void node(rota_recorder *lane, const rota_kernel *kernel, rota_access a, rota_access b,
                 rota_access c) {
    const rota_access accesses[3] = {a, b, c};
    assert_ok(rota_record_kernel(
        lane,
        &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses, .access_count = kernel->operand_count),
        NULL));
}

static rota_access all(rota_buffer *buffer, rota_access_mode mode) {
    return (rota_access){buffer, 0, ROTA_WHOLE, mode};
}
#define NONE ((rota_access){0})

/* A body of `graph` with a lane that is open. */
static rota_graph *body_of(rota_graph *graph, const char *name, rota_recorder **out_lane) {
    rota_graph *body = NULL;
    assert_ok(rota_graph_create_body(graph, name, &body));
    assert_ok(rota_recorder_open(body, 0, "inner", out_lane));
    return body;
}

static void expect_word(rota_buffer *buffer, uint64_t index, uint32_t value) {
    uint32_t word = 0;
    assert_ok(rota_buffer_read(buffer, index * 4, &word, 4));
    if (word != value)
        fail_msg("'%s'[%u] is %u, not %u", rota_buffer_name(buffer), (unsigned)index, word, value);
}

/* ---- What they do ---- */

static void test_while(void **state) {
    for (uint32_t count = 0; count < 40; count += 13) {
        program p = begin(*state);
        rota_buffer *left = test_words(p.f->device, "left", 1, count),
                    *sum = test_words(p.f->device, "sum", 1, 5);
        rota_recorder *inner;
        rota_graph *body = body_of(p.graph, "body", &inner);
        node(inner, &k_add, all(sum, ROTA_READWRITE), all(left, ROTA_READ), NONE);
        node(inner, &k_down, all(left, ROTA_READWRITE), NONE, NONE);
        rota_recorder_close(inner);
        assert_ok(rota_record_while(
            p.lane, &ROTA_WHILE_NODE(.condition = left, .body = body, .iterations_max = 100), NULL));
        node(p.lane, &k_down, all(sum, ROTA_READWRITE), NONE, NONE);
        run(&p);
        expect_word(sum, 0, 4 + count * (count + 1) / 2);
        expect_word(left, 0, 0);
        rota_buffer_release(left);
        rota_buffer_release(sum);
    }
}

static void test_if(void **state) {
    for (uint32_t value = 0; value < 3; value++)
        for (uint32_t has_else = 0; has_else < 2; has_else++) {
            program p = begin(*state);
            rota_buffer *x = test_words(p.f->device, "x", 1, value),
                        *y = test_words(p.f->device, "y", 1, 100);
            rota_buffer *one = test_words(p.f->device, "one", 1, 1);
            rota_recorder *lane_1, *lane_2;
            rota_graph *then = body_of(p.graph, "then", &lane_1), *other = NULL;
            node(lane_1, &k_add, all(y, ROTA_READWRITE), all(one, ROTA_READ), NONE);
            rota_recorder_close(lane_1);
            if (has_else) {
                other = body_of(p.graph, "else", &lane_2);
                node(lane_2, &k_down, all(y, ROTA_READWRITE), NONE, NONE);
                rota_recorder_close(lane_2);
            }
            assert_ok(rota_record_if(p.lane, &ROTA_IF_NODE(.condition = x, .body = then, .otherwise = other),
                                     NULL));
            run(&p);
            expect_word(y, 0, value ? 101 : has_else ? 99 : 100);
            rota_buffer_release(x);
            rota_buffer_release(y);
            rota_buffer_release(one);
        }
}

static void test_for(void **state) {
    program p = begin(*state);
    rota_buffer *count = test_words(p.f->device, "count", 2, 10), *sum = test_words(p.f->device, "sum", 1, 0);
    rota_buffer *index = NULL;
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_TRANSIENT, "index", 4, &index));
    assert_ok(rota_record_fill(p.lane, index, 0, 4, 0, NULL));
    rota_recorder *inner;
    rota_graph *body = body_of(p.graph, "body", &inner);
    node(inner, &k_add, all(sum, ROTA_READWRITE), all(index, ROTA_READ), NONE);
    /* Read once: it changes nothing. */
    node(inner, &k_down, (rota_access){count, 4, 4, ROTA_READWRITE}, NONE, NONE);
    rota_recorder_close(inner);
    assert_ok(rota_record_for(p.lane,
                              &ROTA_FOR_NODE(.count = count, .count_offset_bytes = 4, .index = index,
                                             .body = body, .iterations_max = 10),
                              NULL));
    rota_plan *plan = compile(&p);
    assert_ok(try_run(plan));
    expect_word(sum, 0, 45);
    expect_word(count, 1, 0);
    assert_ok(try_run(plan)); /* of 0 iterations */
    expect_word(sum, 0, 45);
    rota_plan_release(plan);
    rota_buffer_release(count);
    rota_buffer_release(sum);
}

static void test_switch(void **state) {
    for (uint32_t value = 0; value < 5; value++) {
        program p = begin(*state);
        rota_buffer *x = test_words(p.f->device, "x", 1, value), *y = test_words(p.f->device, "y", 3, 0);
        rota_graph *bodies[3] = {NULL};
        for (uint32_t i = 0; i < 3; i += 2) { /* there is none of number 1 */
            rota_recorder *inner;
            bodies[i] = body_of(p.graph, "case", &inner);
            node(inner, &k_down, (rota_access){y, 4 * i, 4, ROTA_READWRITE}, NONE, NONE);
            rota_recorder_close(inner);
        }
        assert_ok(rota_record_switch(
            p.lane, &ROTA_SWITCH_NODE(.condition = x, .bodies = bodies, .body_count = 3), NULL));
        run(&p);
        for (uint32_t i = 0; i < 3; i++) expect_word(y, i, i == value && i != 1 ? UINT32_MAX : 0);
        rota_buffer_release(x);
        rota_buffer_release(y);
    }
}

/* Kernels that are split, side by side, over transients of the body's own: each iteration on all workers. The while may
 * be all of its plan. */
static void wide(runtime_fixture *f, bool is_alone) {
    program p = begin(f);
    rota_buffer *left = test_words(p.f->device, "left", 1, 50), *x = test_words(p.f->device, "x", WIDE, 7);
    rota_buffer *aside = test_words(p.f->device, "aside", WIDE, 1);
    rota_recorder *inner;
    rota_graph *body = body_of(p.graph, "body", &inner);
    rota_buffer *a = NULL, *b = NULL, *c = NULL;
    assert_ok(rota_graph_buffer(body, ROTA_BUFFER_TRANSIENT, "a", 4ull * WIDE, &a));
    assert_ok(rota_recorder_buffer(inner, ROTA_BUFFER_TRANSIENT, "b", 4ull * WIDE, &b));
    assert_ok(rota_recorder_buffer(inner, ROTA_BUFFER_TRANSIENT, "c", 4ull * WIDE, &c));
    node(inner, &k_map, all(a, ROTA_WRITE), all(x, ROTA_READ), NONE);
    node(inner, &k_map, all(b, ROTA_WRITE), all(a, ROTA_READ), NONE);
    node(inner, &k_map, all(c, ROTA_WRITE), all(a, ROTA_READ), NONE);
    node(inner, &k_down, all(left, ROTA_READWRITE), NONE, NONE);
    node(inner, &k_add, all(c, ROTA_READWRITE), all(left, ROTA_READ), NONE);
    node(inner, &k_mix, all(x, ROTA_WRITE), all(b, ROTA_READ), all(c, ROTA_READ));
    rota_recorder_close(inner);
    rota_buffer *beside = test_words(p.f->device, "beside", WIDE, 0);
    if (!is_alone) node(p.lane, &k_map, all(beside, ROTA_WRITE), all(aside, ROTA_READ), NONE);
    assert_ok(rota_record_while(
        p.lane, &ROTA_WHILE_NODE(.condition = left, .body = body, .iterations_max = 50), NULL));
    rota_plan *plan = compile(&p);
    assert_ok(try_run(plan));
    uint32_t want = 7;
    for (uint32_t i = 50; i-- > 0;) {
        const uint32_t from_a = want * 3 + 1, from_b = from_a * 3 + 1;
        want = from_b ^ (from_b + i);
    }
    test_expect_words(x, WIDE, want);
    expect_word(left, 0, 0);
    test_expect_words(beside, WIDE, is_alone ? 0 : 4);
    rota_buffer_release(beside);
    rota_plan_release(plan);
    rota_buffer_release(left);
    rota_buffer_release(x);
    rota_buffer_release(aside);
}

static void test_wide(void **state) {
    wide(*state, false);
    wide(*state, true);
}

/* Bodies within bodies, as deep as they go: 2 iterations each, and a wide kernel in the innermost. */
static void test_depth(void **state) {
    program p = begin(*state);
    rota_buffer *two = test_words(p.f->device, "two", 1, 2), *one = test_words(p.f->device, "one", 1, 1);
    rota_buffer *sums = test_words(p.f->device, "sums", WIDE, 0);
    rota_graph *graphs[ROTA_BODY_DEPTH_MAX + 1] = {p.graph};
    rota_recorder *lanes[ROTA_BODY_DEPTH_MAX + 1] = {p.lane};
    for (uint32_t i = 1; i <= ROTA_BODY_DEPTH_MAX; i++) graphs[i] = body_of(graphs[i - 1], "deep", &lanes[i]);
    rota_graph *deeper = NULL;
    assert_status(rota_graph_create_body(graphs[ROTA_BODY_DEPTH_MAX], "deeper", &deeper), ROTA_OUT_OF_RANGE);
    expect_said("body 'deeper' of graph 'deep' would be the 9th of bodies within bodies, of at most 8");
    assert_null(deeper);
    node(lanes[ROTA_BODY_DEPTH_MAX], &k_add, all(sums, ROTA_READWRITE), all(one, ROTA_READ), NONE);
    for (uint32_t i = ROTA_BODY_DEPTH_MAX; i > 0; i--) {
        rota_recorder_close(lanes[i]);
        assert_ok(rota_record_for(
            lanes[i - 1], &ROTA_FOR_NODE(.count = two, .body = graphs[i], .iterations_max = 2), NULL));
        node(lanes[i - 1], &k_add, all(sums, ROTA_READWRITE), all(one, ROTA_READ), NONE);
    }
    run(&p);
    test_expect_words(sums, WIDE, (1u << (ROTA_BODY_DEPTH_MAX + 1)) - 1);
    rota_buffer_release(two);
    rota_buffer_release(one);
    rota_buffer_release(sums);
}

/* The graph's INPUT and OUTPUT, a SLOT buffer and a value, in a body within a body. */
static void test_arguments(void **state) {
    program p = begin(*state);
    rota_buffer *in = NULL, *out = NULL, *bound = NULL, *part = NULL,
                *x = test_words(p.f->device, "x", 4, 10);
    rota_buffer *y = test_words(p.f->device, "y", 4, 20);
    rota_slot by;
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_INPUT, "in", 4, &in));
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_OUTPUT, "out", 4, &out));
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_SLOT, "bound", 16, &bound));
    assert_ok(rota_buffer_create_view(bound, 8, 4, &part));
    assert_ok(rota_record_fill(p.lane, out, 0, 4, 0, NULL));
    rota_recorder *lane_1, *lane_2;
    rota_graph *outer = body_of(p.graph, "outer body", &lane_1),
               *inner = body_of(outer, "inner body", &lane_2);
    assert_ok(rota_graph_slot(inner, "by", 4, &by));
    rota_buffer *refused = NULL;
    assert_status(rota_graph_buffer(inner, ROTA_BUFFER_INPUT, "no", 4, &refused), ROTA_INVALID_ARGUMENT);
    expect_said("buffer 'no' of body 'inner body': kind INPUT, expected TRANSIENT");
    const uint32_t zero = 0;
    const rota_access access = all(part, ROTA_READWRITE);
    assert_ok(rota_record_kernel(
        lane_2,
        &ROTA_KERNEL_NODE(.kernel = &k_add_param, .accesses = &access, .access_count = 1, .params = &zero,
                          .bindings = &(rota_param_binding){0, by}, .binding_count = 1),
        NULL));
    node(lane_2, &k_add, all(out, ROTA_READWRITE), all(part, ROTA_READ), NONE);
    rota_recorder_close(lane_2);
    assert_ok(rota_record_if(lane_1, &ROTA_IF_NODE(.condition = in, .body = inner), NULL));
    rota_recorder_close(lane_1);
    assert_ok(rota_record_for(p.lane, &ROTA_FOR_NODE(.count = in, .body = outer, .iterations_max = 9), NULL));
    rota_plan *plan = compile(&p);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t got = 99;
        const uint32_t by_value = i + 1;
        rota_args *args = NULL;
        assert_ok(rota_args_create(plan, &args));
        assert_ok(rota_args_set_u32(args, by, by_value));
        assert_ok(rota_args_set_buffer(args, bound, i % 2 ? x : y));
        assert_ok(rota_args_set_input(args, in, &i, 4, true));
        assert_ok(rota_args_set_output(args, out, &got, 4));
        rota_ticket ticket;
        assert_ok(rota_submit(plan, args, &ticket));
        assert_ok(rota_wait(ticket, 0));
        rota_args_release(args);
        static const uint32_t want[] = {0, 12, 23 + 26, 12 + 4 + 20 + 24};
        assert_int_equal(got, want[i]);
    }
    rota_plan_release(plan);
    rota_buffer_release(part);
    rota_buffer_release(x);
    rota_buffer_release(y);
}

/* ---- What goes wrong ---- */

static void test_refused(void **state) {
    program p = begin(*state), q = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", 2, 1), *of_q = NULL;
    assert_ok(rota_graph_buffer(q.graph, ROTA_BUFFER_TRANSIENT, "of q", 4, &of_q));
    rota_recorder *inner;
    rota_graph *body = body_of(p.graph, "body", &inner);
    rota_while_node w = ROTA_WHILE_NODE(.name = "w", .condition = x, .body = body, .iterations_max = 3);
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_WRONG_STATE);
    expect_said("node 'w' (lane 'main', node 0): recorder 'inner' of body 'body' is still open");
    rota_recorder_close(inner);
    assert_status(rota_record_while(q.lane, &w, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("graph 'body' is no body of graph 'outer'");
    w.condition = NULL;
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("it has no condition");
    w.condition = of_q;
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("its condition, buffer 'of q', belongs to graph 'outer'");
    w.condition = x;
    w.condition_offset_bytes = 6;
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_OUT_OF_RANGE);
    expect_said("its condition is bytes [6, +4) of buffer 'x' of 8 bytes");
    w.condition_offset_bytes = 2;
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_MISALIGNED);
    w.condition_offset_bytes = 0;
    w.iterations_max = 0;
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("iterations_max is 0");
    w.iterations_max = 3;
    w.body = NULL;
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("it has no body");
    w.body = p.graph;
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_INVALID_ARGUMENT);
    const rota_for_node loop = ROTA_FOR_NODE(.count = x, .index = x, .body = body, .iterations_max = 3);
    assert_status(rota_record_for(p.lane, &loop, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("its index and its count are the same bytes of buffer 'x'");
    rota_graph *twice[2] = {body, body};
    const rota_switch_node several = ROTA_SWITCH_NODE(.condition = x, .bodies = twice, .body_count = 2);
    assert_status(rota_record_switch(p.lane, &several, NULL), ROTA_WRONG_STATE);
    expect_said("body 'body' is another node's, or given twice");
    rota_recorder *late; /* what was refused is as it was */
    assert_ok(rota_recorder_open(body, 1, "late", &late));
    assert_status(rota_record_fill(late, of_q, 0, 4, 0, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("buffer 'of q' belongs to graph 'outer', not to 'body'");
    rota_recorder_close(late);
    rota_plan *plan = NULL;
    assert_status(rota_compile(NULL, body, NULL, &plan), ROTA_INVALID_ARGUMENT);
    expect_said("it is a body");
    w.body = body;
    assert_ok(rota_record_while(p.lane, &w, NULL));
    assert_status(rota_record_while(p.lane, &w, NULL), ROTA_WRONG_STATE);
    assert_status(rota_recorder_open(body, 2, "too late", &late), ROTA_WRONG_STATE);
    expect_said("graph 'body' is already the body of a node");
    rota_graph *unused = NULL;
    assert_ok(rota_graph_create_body(p.graph, NULL, &unused));
    rota_recorder_close(p.lane);
    rota_recorder_close(q.lane);
    rota_graph_release(q.graph);
    rota_graph_release(p.graph); /* which lives by `unused` still */
    rota_graph_release(unused);
    rota_buffer_release(x);
}

/* More ranges than there can be, and just as many. */
static void test_ranges(void **state) {
    for (uint32_t more = 0; more < 2; more++) {
        program p = begin(*state);
        enum { PACKED = ROTA_BODY_PACKED_RANGES_MAX, PLAIN = ROTA_BODY_RANGES_MAX - PACKED };
        rota_buffer *packed = NULL, *plain = test_words(p.f->device, "plain", 2 * PLAIN + 2, 4);
        assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_TRANSIENT, "packed", 8 * PACKED, &packed));
        assert_ok(rota_record_fill(p.lane, packed, 0, ROTA_WHOLE, 9, NULL));
        rota_recorder *inner;
        rota_graph *body = body_of(p.graph, "body", &inner);
        rota_buffer *own = NULL;
        assert_ok(rota_graph_buffer(body, ROTA_BUFFER_TRANSIENT, "own", 64, &own));
        assert_ok(rota_record_fill(inner, own, 0, ROTA_WHOLE, 9, NULL));
        for (uint32_t i = 0; i < PACKED; i++)
            node(inner, &k_down, (rota_access){packed, 8 * i, 4, ROTA_READWRITE}, NONE, NONE);
        /* The condition is the first of them. */
        for (uint32_t i = 0; i < PLAIN + more; i++)
            node(inner, &k_down, (rota_access){plain, 8 * i, 4, ROTA_READWRITE}, NONE, NONE);
        rota_recorder_close(inner);
        const rota_while_node w = ROTA_WHILE_NODE(.condition = plain, .body = body, .iterations_max = 4);
        if (more) {
            assert_status(rota_record_while(p.lane, &w, NULL), ROTA_OUT_OF_RANGE);
            expect_said("its bodies touch 255 ranges of outer buffers, at most 254, 63 of them");
            rota_graph_release(body);
            rota_recorder_close(p.lane);
            rota_graph_release(p.graph);
        } else {
            assert_ok(rota_record_while(p.lane, &w, NULL));
            assert_ok(rota_record_copy(p.lane, plain, 4, packed, 8 * (PACKED - 1), 4, NULL));
            run(&p);
            for (uint32_t i = 0; i < PLAIN; i++) expect_word(plain, 2 * i, 0);
            expect_word(plain, 1, 5);
        }
        rota_buffer_release(plain);
    }
}

/* Whether ranges are said as they are: a body's write is no one's first. */
static void test_undefined(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", 1, 1), *t = NULL, *own = NULL;
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_TRANSIENT, "t", 4, &t));
    rota_recorder *inner;
    rota_graph *body = body_of(p.graph, "body", &inner);
    assert_ok(rota_record_fill(inner, t, 0, 4, 1, NULL));
    rota_recorder_close(inner);
    assert_ok(rota_record_if(p.lane, &ROTA_IF_NODE(.condition = x, .body = body), NULL));
    rota_recorder_close(p.lane);
    rota_plan *plan = NULL;
    assert_status(rota_compile(NULL, p.graph, NULL, &plan), ROTA_UNDEFINED_DATA);
    expect_said("node 'if' (lane 1 'main', node 0) reads bytes [0, 4) of TRANSIENT buffer 't'");
    rota_graph_release(p.graph);
    p = begin(*state);
    body = body_of(p.graph, "body", &inner);
    assert_ok(rota_graph_buffer(body, ROTA_BUFFER_TRANSIENT, "own", 4, &own));
    node(inner, &k_down, all(own, ROTA_READWRITE), NONE, NONE);
    rota_recorder_close(inner);
    assert_ok(rota_record_if(p.lane, &ROTA_IF_NODE(.name = "decides", .condition = x, .body = body), NULL));
    rota_recorder_close(p.lane);
    assert_status(rota_compile(NULL, p.graph, NULL, &plan), ROTA_UNDEFINED_DATA);
    expect_said("in body 'body' of node 'decides'");
    expect_said("TRANSIENT buffer 'own', which nothing has written");
    rota_graph_release(p.graph);
    rota_buffer_release(x);
}

/* A body that fails at an iteration, and limits: the node fails, with what depends on it, and nothing else. */
static void failing(runtime_fixture *f, bool is_wide) {
    program p = begin(f);
    rota_buffer *left = test_words(f->device, "left", 1, 10),
                *sum = test_words(f->device, "sum", is_wide ? WIDE : 1, 0);
    rota_buffer *aside = test_words(f->device, "aside", 1, 10),
                *after = test_words(f->device, "after", 1, 10);
    rota_buffer *one = test_words(f->device, "one", 1, 1);
    rota_recorder *lane_1, *lane_2;
    rota_graph *outer = body_of(p.graph, "outer body", &lane_1),
               *inner = body_of(outer, "inner body", &lane_2);
    node(lane_2, &k_add, all(sum, ROTA_READWRITE), all(one, ROTA_READ), NONE);
    node(lane_2, &k_fussy, all(left, ROTA_READ), NONE, NONE);
    rota_recorder_close(lane_2);
    assert_ok(rota_record_for(
        lane_1, &ROTA_FOR_NODE(.name = "twice", .count = one, .body = inner, .iterations_max = 1), NULL));
    node(lane_1, &k_down, all(left, ROTA_READWRITE), NONE, NONE);
    rota_recorder_close(lane_1);
    assert_ok(rota_record_while(
        p.lane, &ROTA_WHILE_NODE(.name = "solve", .condition = left, .body = outer, .iterations_max = 100),
        NULL));
    node(p.lane, &k_add, all(after, ROTA_READWRITE), (rota_access){sum, 0, 4, ROTA_READ}, NONE);
    node(p.lane, &k_down, all(aside, ROTA_READWRITE), NONE, NONE);
    rota_plan *plan = compile(&p);
    assert_status(try_run(plan), ROTA_NODE_FAILED);
    expect_said("node 'solve' failed");
    expect_said("iteration 7 of while 'solve', iteration 0 of for 'twice', node 'fussy': it is 3");
    uint32_t word;
    assert_status(rota_buffer_read(sum, 0, &word, 4), ROTA_NODE_FAILED);
    assert_status(rota_buffer_read(left, 0, &word, 4), ROTA_NODE_FAILED);
    assert_status(rota_buffer_read(after, 0, &word, 4), ROTA_NODE_FAILED);
    expect_word(aside, 0, 9);
    /* It is well again once all of it is overwritten. */
    const uint32_t two = 2, none[WIDE] = {0};
    assert_ok(rota_buffer_write(left, f->device, 0, &two, 4, NULL));
    assert_ok(rota_buffer_write(sum, f->device, 0, none, is_wide ? sizeof none : 4, NULL));
    assert_ok(rota_buffer_write(after, f->device, 0, none, 4, NULL));
    assert_ok(try_run(plan));
    test_expect_words(sum, is_wide ? WIDE : 1, 2);
    expect_word(after, 0, 2);
    rota_plan_release(plan);
    rota_buffer_release(left);
    rota_buffer_release(sum);
    rota_buffer_release(aside);
    rota_buffer_release(after);
    rota_buffer_release(one);
}

static void test_fails(void **state) {
    failing(*state, false);
    failing(*state, true);
}

static void test_limits(void **state) {
    for (uint32_t is_for = 0; is_for < 2; is_for++) {
        program p = begin(*state);
        rota_buffer *left = test_words(p.f->device, "left", 1, 10), *x = test_words(p.f->device, "x", 1, 20);
        rota_recorder *inner;
        rota_graph *body = body_of(p.graph, "body", &inner);
        node(inner, &k_down, all(x, ROTA_READWRITE), NONE, NONE);
        if (!is_for) node(inner, &k_down, all(left, ROTA_READWRITE), NONE, NONE);
        rota_recorder_close(inner);
        if (is_for)
            assert_ok(rota_record_for(
                p.lane, &ROTA_FOR_NODE(.name = "n", .count = left, .body = body, .iterations_max = 9), NULL));
        else
            assert_ok(rota_record_while(
                p.lane, &ROTA_WHILE_NODE(.name = "n", .condition = left, .body = body, .iterations_max = 9),
                NULL));
        rota_plan *plan = compile(&p);
        assert_status(try_run(plan), ROTA_NODE_FAILED);
        expect_said(is_for ? "for 'n': its count is 10, and it may have 9 iterations"
                           : "iteration 8 of while 'n': its condition is 1 after 9 iterations");
        uint32_t word;
        assert_status(rota_buffer_read(x, 0, &word, 4), ROTA_NODE_FAILED);
        rota_plan_release(plan);
        rota_buffer_release(left);
        rota_buffer_release(x);
    }
}

/* ---- While they run ---- */

/* x[0] is how often it ran, until it is told to end. */
static _Atomic uint32_t ends;
static _Atomic uint64_t rounds;
static rota_status turn(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) x[i] = ra_load_acquire(&ends) ? 0 : 1;
    if (call->begin == 0) (void)ra_fetch_add_relaxed(&rounds, 1);
    return ROTA_OK;
}
static const rota_kernel k_turn = {
    .name = "turn", .operand_count = 1, .cpu = {.fn = turn, .items = word_items}};

static void wait_rounds(uint64_t count) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (ra_load_relaxed(&rounds) < count) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_us(50);
    }
}

/* An endless while, which the submission's cancelling ends at an iteration; by a call and by a deadline. */
static void cancelled(runtime_fixture *f, uint32_t words, bool by_deadline) {
    program p = begin(f);
    rota_buffer *x = test_words(f->device, "x", words, 1), *aside = test_words(f->device, "aside", 1, 10);
    rota_recorder *inner;
    rota_graph *body = body_of(p.graph, "body", &inner);
    node(inner, &k_turn, all(x, ROTA_READWRITE), NONE, NONE);
    rota_recorder_close(inner);
    assert_ok(rota_record_while(
        p.lane, &ROTA_WHILE_NODE(.condition = x, .body = body, .iterations_max = UINT64_MAX), NULL));
    rota_plan *plan = compile(&p);
    ra_store_release(&ends, 0);
    ra_store_release(&rounds, 0);
    rota_ticket ticket;
    if (by_deadline) {
        assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.deadline_ns = 20000000u), &ticket));
    } else {
        assert_ok(rota_submit(plan, NULL, &ticket));
        wait_rounds(10);
        assert_ok(rota_ticket_cancel(ticket));
    }
    assert_status(rota_wait(ticket, 0), ROTA_CANCELLED);
    uint32_t word;
    assert_status(rota_buffer_read(x, 0, &word, 4), ROTA_NODE_FAILED);
    /* Of the next one all is as ever. */
    uint32_t *ones = calloc(words, 4);
    assert_non_null(ones);
    ones[0] = 1;
    assert_ok(rota_buffer_write(x, f->device, 0, ones, 4ull * words, NULL));
    free(ones);
    ra_store_release(&ends, 1);
    assert_ok(try_run(plan));
    test_expect_words(x, words, 0);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(aside);
}

static void test_cancel(void **state) {
    cancelled(*state, 1, false);
    cancelled(*state, WIDE, false);
    cancelled(*state, 1, true);
    cancelled(*state, WIDE, true);
}

/* Tells that it ran. */
static _Atomic uint32_t told;
static rota_status tell(const rota_kernel_call *call) {
    (*(uint32_t *)call->operands[0])--;
    ra_store_release(&told, 1);
    return ROTA_OK;
}
static const rota_kernel k_tell = {.name = "tell", .operand_count = 1, .cpu = {.fn = tell}};

/* Other nodes of the plan go on beside a while, and nodes of its body beside one another. */
static void test_beside(void **state) {
    program p = begin(*state);
    rota_buffer *x = test_words(p.f->device, "x", WIDE, 1), *y = test_words(p.f->device, "y", WIDE, 0);
    rota_buffer *z = test_words(p.f->device, "z", 1, 5), *u = test_words(p.f->device, "u", WIDE, 0);
    rota_recorder *inner;
    rota_graph *body = body_of(p.graph, "body", &inner);
    node(inner, &k_turn, all(x, ROTA_READWRITE), NONE, NONE);
    node(inner, &k_turn, all(u, ROTA_READWRITE), NONE, NONE);
    rota_recorder_close(inner);
    assert_ok(rota_record_while(
        p.lane, &ROTA_WHILE_NODE(.condition = x, .body = body, .iterations_max = UINT64_MAX), NULL));
    node(p.lane, &k_add, all(y, ROTA_READWRITE), all(z, ROTA_READ), NONE);
    node(p.lane, &k_tell, all(z, ROTA_READWRITE), NONE, NONE);
    rota_plan *plan = compile(&p);
    ra_store_release(&ends, 0);
    ra_store_release(&rounds, 0);
    ra_store_release(&told, 0);
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (!ra_load_acquire(&told)) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_us(50);
    }
    wait_rounds(10);
    assert_status(rota_poll(ticket), ROTA_BUSY);
    ra_store_release(&ends, 1);
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(x, WIDE, 0);
    expect_word(z, 0, 4);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
    rota_buffer_release(u);
}

int main(void) {
#define BOTH(test)                                                                                           \
    {#test " (1 worker)", test, runtime_setup_1, runtime_teardown, NULL}, {                                  \
#test " (4 workers)", test, runtime_setup_4, runtime_teardown, NULL                                  \
    }
    const struct CMUnitTest tests[] = {
        BOTH(test_while),
        BOTH(test_if),
        BOTH(test_for),
        BOTH(test_switch),
        BOTH(test_wide),
        BOTH(test_depth),
        BOTH(test_arguments),
        BOTH(test_refused),
        BOTH(test_ranges),
        BOTH(test_undefined),
        BOTH(test_fails),
        BOTH(test_limits),
        BOTH(test_cancel),
        {"test_beside (4 workers)", test_beside, runtime_setup_4, runtime_teardown, NULL}};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
