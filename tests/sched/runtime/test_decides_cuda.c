/* Nodes that decide (graph/conditional.h) on the CUDA executor, over the stand-in for its driver: what they compute
 * with drivers that have switches, with those that have not, and with those without conditional nodes, how they fail
 * and what of that travels, and how they end. Random ones: rota-fuzz. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "tests/exec/cuda/cuda_stub_kit.h"

#ifdef ROTA_HAVE_CUDA

enum { OLDEST = 12040, NEWEST = 13000, HOSTED = 12030 };

typedef struct fixture {
    rota_runtime *runtime;
    rota_device *cuda;
} fixture;

/* ---- Kernels: one item each ---- */

static rota_status down(const rota_kernel_call *call) {
    --*(uint32_t *)call->operands[0];
    return ROTA_OK;
}
static rota_status add(const rota_kernel_call *call) {
    *(uint32_t *)call->operands[0] += *(const uint32_t *)call->operands[1] + *(const uint32_t *)call->params;
    return ROTA_OK;
}
/* x is 1, until it is told to end. */
static _Atomic uint32_t ends;
static _Atomic uint64_t rounds;
static rota_status turn(const rota_kernel_call *call) {
    *(uint32_t *)call->operands[0] = ra_load_acquire(&ends) ? 0 : 1;
    (void)ra_fetch_add_relaxed(&rounds, 1);
    return ROTA_OK;
}

#define CUDA(name) .cuda = {.image = "", .size_bytes = 1, .entry = name}
static const rota_kernel_bindable by = {.name = "by", .size_bytes = 4};
static const rota_kernel k_down = {.name = "down", .operand_count = 1, .cpu = {.fn = down}, CUDA("down")},
                         k_turn = {.name = "turn", .operand_count = 1, .cpu = {.fn = turn}, CUDA("turn")},
                         k_add = {.name = "add",
                                  .operand_count = 2,
                                  .param_bytes = 4,
                                  .bindables = &by,
                                  .bindable_count = 1,
                                  .cpu = {.fn = add},
                                  CUDA("add")};

static void open_all(fixture *f, int version, bool diagnostics) {
    cuda_stub_start(11, 1);
    cuda_stub_version(version);
    cuda_stub_kernel(&k_down);
    cuda_stub_kernel(&k_add);
    cuda_stub_kernel(&k_turn);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .diagnostics = diagnostics),
                                &f->runtime));
    assert_ok(rota_device_open(f->runtime, "cuda:0", &f->cuda));
}

static void close_all(fixture *f) {
    assert_ok(rota_runtime_close(f->runtime, 0));
    cuda_stub_end_clean();
}

/* ---- Recording ---- */

typedef struct program {
    fixture *f;
    rota_graph *graph;
    rota_recorder *lane;
} program;

static program begin(fixture *f) {
    program p = {f, NULL, NULL};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "outer"), &p.graph));
    assert_ok(rota_recorder_open(p.graph, 0, "main", &p.lane));
    return p;
}

static rota_status try_compile(program *p, rota_plan **out_plan) {
    rota_recorder_close(p->lane);
    const rota_status status = rota_compile(
        p->f->runtime, p->graph,
        &ROTA_COMPILE_OPTIONS(.name = "deciding", .devices = &p->f->cuda, .device_count = 1, .certify = true),
        out_plan);
    rota_graph_release(p->graph);
    return status;
}

static rota_plan *compile(program *p) {
    rota_plan *plan = NULL;
    assert_ok(try_compile(p, &plan));
    return plan;
}

static rota_status run(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    return rota_wait(ticket, 0);
}

static rota_access word(rota_buffer *buffer, uint64_t index, rota_access_mode mode) {
    return (rota_access){buffer, 4 * index, 4, mode};
}

static void put_down(rota_recorder *lane, const rota_kernel *kernel, rota_buffer *x, uint64_t index) {
    const rota_access access = word(x, index, ROTA_READWRITE);
    assert_ok(rota_record_kernel(
        lane, &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = &access, .access_count = 1), NULL));
}

/* to += from + more */
static void put_add(rota_recorder *lane, rota_access to, rota_access from, uint32_t more) {
    const rota_access accesses[2] = {to, from};
    assert_ok(rota_record_kernel(
        lane, &ROTA_KERNEL_NODE(.kernel = &k_add, .accesses = accesses, .access_count = 2, .params = &more),
        NULL));
}

static rota_graph *body_of(rota_graph *graph, const char *name, rota_recorder **out_lane) {
    rota_graph *body = NULL;
    assert_ok(rota_graph_create_body(graph, name, &body));
    assert_ok(rota_recorder_open(body, 0, "inner", out_lane));
    return body;
}

static void expect(rota_buffer *buffer, uint64_t index, uint32_t value) {
    uint32_t got = 0;
    assert_ok(rota_buffer_read(buffer, 4 * index, &got, 4));
    if (got != value)
        fail_msg("'%s'[%u] is %u, not %u", rota_buffer_name(buffer), (unsigned)index, got, value);
}

static void expect_failed(rota_buffer *buffer) {
    uint32_t got;
    assert_status(rota_buffer_read(buffer, 0, &got, 4), ROTA_NODE_FAILED);
}

static void set(fixture *f, rota_buffer *buffer, uint32_t value) {
    assert_ok(rota_buffer_write(buffer, f->cuda, 0, &value, 4, NULL));
}

/* ---- What they do ---- */

/* A while, in it a for with a switch and an if with an else: x[0] counts down, x[1 + i] are sums. */
static void computes(int version, bool diagnostics) {
    fixture f;
    open_all(&f, version, diagnostics);
    program p = begin(&f);
    rota_buffer *x = test_words(f.cuda, "x", 8, 0), *two = test_words(f.cuda, "two", 1, 2), *index = NULL;
    rota_recorder *outer, *each, *lane;
    rota_graph *solve = body_of(p.graph, "solve", &outer), *loop = body_of(solve, "each", &each);
    assert_ok(rota_graph_buffer(solve, ROTA_BUFFER_TRANSIENT, "index", 4, &index));
    assert_ok(rota_record_fill(outer, index, 0, 4, 0, NULL));
    rota_graph *cases[3] = {NULL}, *sides[2];
    for (uint32_t i = 0; i < 3; i += 2) { /* none of number 1 */
        cases[i] = body_of(loop, "case", &lane);
        put_add(lane, word(x, 1 + i, ROTA_READWRITE), word(two, 0, ROTA_READ), 1);
        rota_recorder_close(lane);
    }
    for (uint32_t i = 0; i < 2; i++) {
        sides[i] = body_of(loop, "side", &lane);
        put_add(lane, word(x, 4 + i, ROTA_READWRITE), word(index, 0, ROTA_READ), 10);
        rota_recorder_close(lane);
    }
    assert_ok(rota_record_switch(
        each, &ROTA_SWITCH_NODE(.condition = index, .bodies = cases, .body_count = 3), NULL));
    assert_ok(rota_record_if(each, &ROTA_IF_NODE(.condition = index, .body = sides[0], .otherwise = sides[1]),
                             NULL));
    rota_recorder_close(each);
    assert_ok(rota_record_for(
        outer, &ROTA_FOR_NODE(.count = two, .index = index, .body = loop, .iterations_max = 2), NULL));
    put_down(outer, &k_down, x, 0);
    rota_recorder_close(outer);
    assert_ok(rota_record_while(
        p.lane, &ROTA_WHILE_NODE(.condition = x, .body = solve, .iterations_max = 100), NULL));
    put_add(p.lane, word(x, 7, ROTA_READWRITE), word(x, 1, ROTA_READ), 0);
    rota_plan *plan = compile(&p);
    uint32_t total = 0;
    for (uint32_t count = 0; count < 4; count++) {
        set(&f, x, count);
        assert_ok(run(plan));
        total += count;
        expect(x, 0, 0);
        expect(x, 1, 3 * total); /* of index 0 */
        expect(x, 2, 0);
        expect(x, 3, 0); /* there is no iteration of number 2 */
        expect(x, 4, 11 * total);
        expect(x, 5, 10 * total);
    }
    expect(x, 7, 3 * (0 + 1 + 3 + 6));
    assert_int_equal(cuda_stub_calls("GraphAddNode") == 0, version == HOSTED); /* conditional ones */
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(two);
    close_all(&f);
}

static void test_computes(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        computes(HOSTED, i);
        computes(OLDEST, i);
        computes(NEWEST, i);
    }
}

/* Buffers and values of arguments in a body within a body, and what is decided by in a slot. */
static void arguments(int version) {
    fixture f;
    open_all(&f, version, false);
    program p = begin(&f);
    rota_buffer *bound = NULL, *x = test_words(f.cuda, "x", 2, 2), *y = test_words(f.cuda, "y", 2, 3),
                *sum = test_words(f.cuda, "sum", 1, 0);
    rota_slot slot;
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_SLOT, "bound", 8, &bound));
    assert_ok(rota_graph_slot(p.graph, "by", 4, &slot));
    rota_recorder *lane_1, *lane_2;
    rota_graph *outer = body_of(p.graph, "outer body", &lane_1), *inner = body_of(outer, "inner", &lane_2);
    const rota_access accesses[2] = {word(sum, 0, ROTA_READWRITE), word(bound, 1, ROTA_READ)};
    const uint32_t zero = 0;
    assert_ok(rota_record_kernel(
        lane_2,
        &ROTA_KERNEL_NODE(.kernel = &k_add, .accesses = accesses, .access_count = 2, .params = &zero,
                          .bindings = &(rota_param_binding){0, slot}, .binding_count = 1),
        NULL));
    rota_recorder_close(lane_2);
    assert_ok(rota_record_if(
        lane_1, &ROTA_IF_NODE(.condition = bound, .condition_offset_bytes = 4, .body = inner), NULL));
    rota_recorder_close(lane_1);
    assert_ok(
        rota_record_for(p.lane, &ROTA_FOR_NODE(.count = bound, .body = outer, .iterations_max = 9), NULL));
    rota_plan *plan = compile(&p);
    uint32_t want = 0;
    for (uint32_t i = 0; i < 12; i++) {
        rota_args *args = NULL;
        rota_ticket ticket;
        const uint32_t more = i < 6 ? i : 6; /* and then all is as it was */
        assert_ok(rota_args_create(plan, &args));
        assert_ok(rota_args_set_u32(args, slot, more));
        assert_ok(rota_args_set_buffer(args, bound, i % 2 && i < 6 ? x : y));
        assert_ok(rota_submit(plan, args, &ticket));
        assert_ok(rota_wait(ticket, 0));
        rota_args_release(args);
        want += i % 2 && i < 6 ? 2 * (2 + more) : 3 * (3 + more);
        expect(sum, 0, want);
    }
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(sum);
    close_all(&f);
}

static void test_arguments(void **state) {
    (void)state;
    arguments(HOSTED);
    arguments(NEWEST);
}

/* More launches in flight than there are records of what failed, of which some do. */
static void many(int version) {
    enum { COUNT = 60 };
    fixture f;
    open_all(&f, version, false);
    program p = begin(&f);
    rota_buffer *left = test_words(f.cuda, "left", 1, 0), *sum = test_words(f.cuda, "sum", 1, 0),
                *one = test_words(f.cuda, "one", 1, 1);
    rota_recorder *lane;
    rota_graph *body = body_of(p.graph, "body", &lane);
    put_add(lane, word(sum, 0, ROTA_READWRITE), word(one, 0, ROTA_READ), 0);
    put_down(lane, &k_down, left, 0);
    rota_recorder_close(lane);
    assert_ok(rota_record_fill(p.lane, left, 0, 4, 3, NULL));
    assert_ok(rota_record_while(
        p.lane, &ROTA_WHILE_NODE(.condition = left, .body = body, .iterations_max = 3), NULL));
    rota_plan *plan = compile(&p);
    rota_ticket tickets[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) assert_ok(rota_submit_wait(plan, NULL, 0, &tickets[i]));
    for (uint32_t i = 0; i < COUNT; i++) assert_ok(rota_wait(tickets[i], 0));
    expect(sum, 0, 3 * COUNT);
    rota_plan_release(plan);
    rota_buffer_release(left);
    rota_buffer_release(sum);
    rota_buffer_release(one);
    close_all(&f);
}

static void test_many(void **state) {
    (void)state;
    many(HOSTED);
    many(OLDEST);
}

/* ---- What goes wrong ---- */

/* A loop within a while that is outermost fails it: in the sentence is which iteration of which. What the node was to
 * write has failed, and what comes after it in its plan and in later ones; it is well again once all is overwritten. */
static void limited(int version, bool is_for) {
    fixture f;
    open_all(&f, version, false);
    program p = begin(&f), q = begin(&f);
    rota_buffer *left = test_words(f.cuda, "left", 1, 5), *count = test_words(f.cuda, "count", 1, 0);
    rota_buffer *sum = test_words(f.cuda, "sum", 1, 0), *after = test_words(f.cuda, "after", 1, 0),
                *later = test_words(f.cuda, "later", 1, 7), *grows = test_words(f.cuda, "grows", 1, 0),
                *one = test_words(f.cuda, "one", 1, 1);
    rota_recorder *lane_1, *lane_2;
    rota_graph *outer = body_of(p.graph, "outer", &lane_1), *inner = body_of(outer, "inner", &lane_2);
    put_add(lane_1, word(grows, 0, ROTA_READWRITE), word(one, 0, ROTA_READ), 0);
    assert_ok(rota_record_copy(lane_1, count, 0, grows, 0, 4, NULL));
    put_add(lane_2, word(sum, 0, ROTA_READWRITE), word(count, 0, ROTA_READ), 0);
    if (!is_for) put_down(lane_2, &k_down, count, 0);
    rota_recorder_close(lane_2);
    if (is_for)
        assert_ok(rota_record_for(
            lane_1, &ROTA_FOR_NODE(.name = "each", .count = count, .body = inner, .iterations_max = 3),
            NULL));
    else
        assert_ok(rota_record_while(
            lane_1, &ROTA_WHILE_NODE(.name = "each", .condition = count, .body = inner, .iterations_max = 3),
            NULL));
    put_down(lane_1, &k_down, left, 0);
    rota_recorder_close(lane_1);
    assert_ok(rota_record_while(
        p.lane, &ROTA_WHILE_NODE(.name = "solve", .condition = left, .body = outer, .iterations_max = 9),
        NULL));
    put_add(p.lane, word(after, 0, ROTA_READWRITE), word(sum, 0, ROTA_READ), 0);
    put_add(q.lane, word(later, 0, ROTA_READWRITE), word(sum, 0, ROTA_READ), 0);
    rota_plan *plan = compile(&p), *next = compile(&q);
    rota_ticket ticket, second;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_submit_wait(next, NULL, 0, &second)); /* at once: it must not run on what failed */
    assert_status(rota_wait(second, 0), ROTA_NODE_FAILED);
    expect_said("node 'solve' failed");
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    expect_said(is_for
                    ? "iteration 3 of while 'solve', for 'each': its count is 4, and it may have 3 iterations"
                    : "iteration 3 of while 'solve', iteration 2 of while 'each': its condition is 1 after 3 "
                      "iterations, the most it may have (iterations_max)");
    expect_failed(sum);
    expect_failed(left);
    expect_failed(after);
    expect_failed(later);
    set(&f, left, 0);
    set(&f, count, 0);
    set(&f, grows, 0);
    set(&f, sum, 20);
    set(&f, after, 1);
    set(&f, later, 7);
    assert_ok(run(plan));
    assert_ok(run(next));
    expect(after, 0, 21);
    expect(later, 0, 27);
    rota_plan_release(plan);
    rota_plan_release(next);
    rota_buffer *const buffers[] = {left, count, sum, after, later, grows, one};
    for (uint32_t i = 0; i < 7; i++) rota_buffer_release(buffers[i]);
    close_all(&f);
}

static void test_limits(void **state) {
    (void)state;
    limited(HOSTED, false);
    limited(HOSTED, true);
    limited(OLDEST, false);
    limited(NEWEST, true);
}

/* ---- How they end ---- */

static rota_plan *endless(fixture *f, rota_buffer *x) {
    program p = begin(f);
    rota_recorder *lane;
    rota_graph *body = body_of(p.graph, "body", &lane);
    put_down(lane, &k_turn, x, 0);
    rota_recorder_close(lane);
    assert_ok(rota_record_while(
        p.lane, &ROTA_WHILE_NODE(.name = "spin", .condition = x, .body = body, .iterations_max = UINT64_MAX),
        NULL));
    return compile(&p);
}

static void wait_rounds(uint64_t count) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (ra_load_relaxed(&rounds) < count) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_us(50);
    }
}

/* Two submissions of an endless while: each is ended at an iteration, by a call or a deadline, and the second goes on
 * after the first has ended. What it leaves has failed. */
static void cancelled(int version, bool by_deadline) {
    fixture f;
    open_all(&f, version, false);
    rota_buffer *x = test_words(f.cuda, "x", 1, 1), *y = test_words(f.cuda, "y", 1, 1);
    rota_plan *plan = endless(&f, x), *other = endless(&f, y);
    rota_ticket ticket, second;
    ra_store_release(&ends, 0);
    ra_store_release(&rounds, 0);
    const rota_submit_options options = ROTA_SUBMIT_OPTIONS(.deadline_ns = by_deadline ? 20000000u : 0);
    assert_ok(rota_submit_with(plan, &options, &ticket));
    assert_ok(rota_submit_with(other, &options, &second));
    wait_rounds(10);
    if (!by_deadline) assert_ok(rota_ticket_cancel(ticket));
    assert_status(rota_wait(ticket, 0), ROTA_CANCELLED);
    if (!by_deadline) assert_ok(rota_ticket_cancel(second));
    assert_status(rota_wait(second, 0), ROTA_CANCELLED);
    expect_failed(x);
    set(&f, x, 1);
    ra_store_release(&ends, 1);
    assert_ok(run(plan));
    expect(x, 0, 0);
    rota_plan_release(plan);
    rota_plan_release(other);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_all(&f);
}

static void test_cancel(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        cancelled(HOSTED, i);
        cancelled(NEWEST, i);
    }
}

/* A loop whose condition a counted node was to write, of the submission before it, which failed: it has begun by the
 * time that this is known, and would go on for ever. `counts`: something in its own segment is counted, too. */
static void behind_failed(int version, bool counts) {
    fixture f;
    open_all(&f, version, false);
    rota_buffer *x = test_words(f.cuda, "x", 1, 1), *zeros = test_words(f.cuda, "zeros", 4, 0),
                *count = test_words(f.cuda, "count", 1, 5), *one = test_words(f.cuda, "one", 1, 1),
                *apart = test_words(f.cuda, "apart", 4, 3);
    program p = begin(&f), q = begin(&f);
    assert_ok(rota_record_counted_copy(p.lane, x, 0, zeros, 0,
                                       &ROTA_COUNT(.buffer = count, .max = 4, .unit_bytes = 1), NULL));
    rota_plan *first = compile(&p);
    rota_recorder *lane;
    rota_graph *body = body_of(q.graph, "body", &lane);
    put_down(lane, &k_turn, x, 0);
    rota_recorder_close(lane);
    if (counts)
        assert_ok(rota_record_counted_copy(q.lane, apart, 0, zeros, 0,
                                           &ROTA_COUNT(.buffer = one, .max = 4, .unit_bytes = 4), NULL));
    assert_ok(rota_record_while(
        q.lane, &ROTA_WHILE_NODE(.name = "spin", .condition = x, .body = body, .iterations_max = UINT64_MAX),
        NULL));
    rota_plan *second = compile(&q);
    ra_store_release(&ends, 0);
    for (uint32_t round = 0; round < 5; round++) {
        rota_ticket tickets[2];
        assert_ok(rota_submit_wait(first, NULL, 0, &tickets[0]));
        assert_ok(rota_submit_wait(second, NULL, 0, &tickets[1]));
        assert_status(rota_wait(tickets[1], 0), ROTA_NODE_FAILED);
        expect_said("its count is 5, the most it may be is 4");
        assert_status(rota_wait(tickets[0], 0), ROTA_NODE_FAILED);
        set(&f, x, 1);
        assert_ok(rota_buffer_write(apart, f.cuda, 0, &(uint32_t[4]){3, 3, 3, 3}, 16, NULL));
    }
    ra_store_release(&ends, 1);
    rota_plan_release(first);
    rota_plan_release(second);
    rota_buffer *const buffers[] = {x, zeros, count, one, apart};
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(buffers[i]);
    close_all(&f);
}

static void test_behind_failed(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        behind_failed(HOSTED, i);
        behind_failed(NEWEST, i);
    }
}

/* A runtime that is closed ends what still runs, so that its device leaves nothing behind. */
static void closed(int version) {
    fixture f;
    open_all(&f, version, false);
    rota_buffer *x = test_words(f.cuda, "x", 1, 1);
    rota_plan *plan = endless(&f, x);
    rota_ticket ticket;
    ra_store_release(&ends, 0);
    ra_store_release(&rounds, 0);
    assert_ok(rota_submit(plan, NULL, &ticket));
    wait_rounds(10);
    assert_status(rota_runtime_close(f.runtime, 50000000u), ROTA_TIMEOUT);
    rota_plan_release(plan);
    rota_buffer_release(x);
    cuda_stub_end_clean();
}

static void test_close(void **state) {
    (void)state;
    closed(HOSTED);
    closed(OLDEST);
}

/* A wait that gives up says how many iterations have begun, where there are diagnostics. */
static void waits(int version) {
    fixture f;
    open_all(&f, version, true);
    rota_buffer *x = test_words(f.cuda, "x", 1, 1);
    rota_plan *plan = endless(&f, x);
    rota_ticket ticket;
    ra_store_release(&ends, 0);
    ra_store_release(&rounds, 0);
    assert_ok(rota_submit(plan, NULL, &ticket));
    wait_rounds(10);
    assert_status(rota_wait(ticket, 50000000u), ROTA_TIMEOUT);
    expect_said("node 'spin'");
    expect_said("iteration");
    assert_ok(rota_ticket_cancel(ticket));
    assert_status(rota_wait(ticket, 0), ROTA_CANCELLED);
    rota_plan_release(plan);
    rota_buffer_release(x);
    close_all(&f);
}

static void test_waits(void **state) {
    (void)state;
    waits(HOSTED);
    waits(NEWEST);
}

int main(void) {
    if (!cuda_stub_has_images()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_computes),      cmocka_unit_test(test_arguments),
                                       cmocka_unit_test(test_many),          cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_cancel),        cmocka_unit_test(test_waits),
                                       cmocka_unit_test(test_behind_failed), cmocka_unit_test(test_close)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
