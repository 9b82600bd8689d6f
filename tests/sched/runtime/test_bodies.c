/* Bodies of nodes that decide, with what else works on graphs: ops and fusion, cancelling at the end, files, gradients,
 * drawing and diagnostics. What such nodes do: test_conditional.c. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

enum { COUNT = 256 };

/* A body of `graph` with a lane that is open. */
static rota_graph *body_of(rota_graph *graph, rota_recorder **out_lane) {
    rota_graph *body = NULL;
    assert_ok(rota_graph_create_body(graph, NULL, &body));
    assert_ok(rota_recorder_open(body, 0, "inner", out_lane));
    return body;
}

static rota_plan *compile(const runtime_fixture *f, rota_graph *graph, rota_recorder *lane) {
    rota_plan *plan = NULL;
    rota_recorder_close(lane);
    assert_ok(rota_compile(f->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .certify = true),
                           &plan));
    return plan;
}

static void replay(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_ok(rota_wait(ticket, 0));
}

static void expect_floats(rota_buffer *buffer, float value) {
    float got[COUNT];
    assert_ok(rota_buffer_read(buffer, 0, got, sizeof got));
    for (uint32_t i = 0; i < COUNT; i++)
        if (got[i] != value)
            fail_msg("'%s'[%u] is %g, not %g", rota_buffer_name(buffer), i, (double)got[i], (double)value);
}

static rota_tensor tensor_of(rota_buffer *buffer) {
    const uint64_t shape[1] = {COUNT};
    rota_tensor tensor;
    assert_ok(rota_tensor_of(buffer, 0, ROTA_F32, 1, shape, &tensor));
    return tensor;
}

#define TWO 0x40000000u /* 2.0f */

/* Ops in a body, one by one and fused: a transient of the graph around it is others' to read, of its own not. */
static void test_fused(void **state) {
    const runtime_fixture *f = *state;
    for (uint32_t fuses = 0; fuses < 2; fuses++) {
        rota_buffer *bx = test_words(f->device, "x", COUNT, TWO), *by = test_words(f->device, "y", COUNT, 0);
        rota_buffer *bz = test_words(f->device, "z", COUNT, 0), *condition = test_words(f->device, "c", 1, 1);
        const rota_tensor x = tensor_of(bx), y = tensor_of(by), z = tensor_of(bz);
        rota_graph *graph = NULL;
        rota_recorder *lane, *inner;
        rota_tape *tape, *inner_tape;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
        assert_ok(rota_tape_create(lane, NULL, &tape));
        rota_tensor t, own, copied;
        const uint64_t shape[1] = {COUNT};
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "t", ROTA_F32, 1, shape, &t));
        assert_ok(rota_record_fill(lane, t.buffer, 0, ROTA_WHOLE, 0, NULL));
        rota_graph *body = body_of(graph, &inner);
        assert_ok(rota_tape_create(inner, NULL, &inner_tape));
        assert_ok(rota_op_neg_into(inner_tape, x, t));
        assert_ok(rota_op_square(inner_tape, t, &own));
        assert_ok(rota_tape_tensor(inner_tape, ROTA_BUFFER_TRANSIENT, "copied", ROTA_F32, 1, shape, &copied));
        assert_ok(rota_op_copy_into(inner_tape, own, copied));
        assert_ok(rota_op_add_into(inner_tape, copied, t, y));
        rota_tape_destroy(inner_tape);
        rota_recorder_close(inner);
        if (fuses) assert_ok(rota_graph_fuse(body));
        assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.condition = condition, .body = body), NULL));
        assert_ok(rota_op_copy_into(tape, t, z));
        rota_tape_destroy(tape);
        if (fuses) assert_ok(rota_graph_fuse(graph));
        rota_plan *plan = compile(f, graph, lane);
        replay(plan);
        expect_floats(by, 2);
        expect_floats(bz, -2);
        rota_plan_release(plan);
        rota_graph_release(graph);
        rota_buffer_release(bx);
        rota_buffer_release(by);
        rota_buffer_release(bz);
        rota_buffer_release(condition);
    }
}

/* A graph with a copy that fusion drops, and a node of more ranges than a kernel has operands. */
static void test_fused_beside(void **state) {
    const runtime_fixture *f = *state;
    rota_buffer *bx = test_words(f->device, "x", COUNT, TWO), *by = test_words(f->device, "y", COUNT, 0);
    rota_buffer *many = test_words(f->device, "many", 2 * 250, 1);
    const rota_tensor x = tensor_of(bx), y = tensor_of(by);
    rota_graph *graph = NULL;
    rota_recorder *lane, *inner;
    rota_tape *tape;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &tape));
    rota_tensor squared, copied;
    const uint64_t shape[1] = {COUNT};
    assert_ok(rota_op_square(tape, x, &squared));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "copied", ROTA_F32, 1, shape, &copied));
    assert_ok(rota_op_copy_into(tape, squared, copied));
    rota_graph *body = body_of(graph, &inner);
    for (uint32_t i = 0; i < 250; i++) assert_ok(rota_record_fill(inner, many, 8ull * i, 4, 0, NULL));
    rota_recorder_close(inner);
    assert_ok(rota_record_while(lane, &ROTA_WHILE_NODE(.condition = many, .body = body, .iterations_max = 2),
                                NULL));
    assert_ok(rota_op_neg_into(tape, copied, y));
    rota_tape_destroy(tape);
    assert_ok(rota_graph_fuse(graph));
    rota_plan *plan = compile(f, graph, lane);
    replay(plan);
    expect_floats(by, -4);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(bx);
    rota_buffer_release(by);
    rota_buffer_release(many);
}

/* ---- Cancelled while its last iteration runs ---- */

static _Atomic uint32_t has_begun, may_end;

static rota_status hold(const rota_kernel_call *call) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    ra_store_release(&has_begun, 1);
    while (!ra_load_acquire(&may_end) && rota_clock_ns() < deadline) test_nap_us(50);
    *(uint32_t *)call->operands[0] = 7;
    return ROTA_OK;
}
static const rota_kernel k_hold = {.name = "hold", .operand_count = 1, .cpu = {.fn = hold}};

typedef enum deciding { DECIDES_IF, DECIDES_FOR, DECIDES_WHILE, DECIDES_SWITCH, DECIDES_COUNT } deciding;

static void record_deciding(deciding kind, rota_recorder *lane, rota_graph *body, rota_buffer *value) {
    rota_graph *const bodies[2] = {NULL, body};
    switch (kind) {
    case DECIDES_IF:
        assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.condition = value, .body = body), NULL));
        break;
    case DECIDES_FOR:
        assert_ok(
            rota_record_for(lane, &ROTA_FOR_NODE(.count = value, .body = body, .iterations_max = 3), NULL));
        break;
    case DECIDES_WHILE:
        assert_ok(rota_record_while(
            lane, &ROTA_WHILE_NODE(.condition = value, .body = body, .iterations_max = 3), NULL));
        break;
    default:
        assert_ok(rota_record_switch(
            lane, &ROTA_SWITCH_NODE(.condition = value, .bodies = bodies, .body_count = 2), NULL));
    }
}

/* All of it has begun: nothing is left out, and it ends as it would have. */
static void test_cancel_late(void **state) {
    const runtime_fixture *f = *state;
    for (uint32_t kind = 0; kind < 2 * DECIDES_COUNT; kind++) {
        const bool is_nested = kind >= DECIDES_COUNT;
        rota_buffer *value = test_words(f->device, "value", 1, 1), *y = test_words(f->device, "y", 1, 0);
        rota_buffer *one = test_words(f->device, "one", 1, 1);
        rota_graph *graph = NULL;
        rota_recorder *lane, *inner, *innermost;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
        rota_graph *body = body_of(graph, &inner), *nested = is_nested ? body_of(body, &innermost) : NULL;
        rota_recorder *to = is_nested ? innermost : inner;
        if (kind % DECIDES_COUNT == DECIDES_WHILE) assert_ok(rota_record_fill(to, value, 0, 4, 0, NULL));
        const rota_access access = {y, 0, 4, ROTA_READWRITE};
        assert_ok(rota_record_kernel(
            to, &ROTA_KERNEL_NODE(.kernel = &k_hold, .accesses = &access, .access_count = 1), NULL));
        rota_recorder_close(to);
        if (is_nested) {
            record_deciding((deciding)(kind % DECIDES_COUNT), inner, nested, value);
            rota_recorder_close(inner);
            record_deciding(DECIDES_FOR, lane, body, one);
        } else {
            record_deciding((deciding)kind, lane, body, value);
        }
        rota_plan *plan = compile(f, graph, lane);
        ra_store_release(&has_begun, 0);
        ra_store_release(&may_end, 0);
        rota_ticket ticket;
        assert_ok(rota_submit(plan, NULL, &ticket));
        const uint64_t deadline = rota_deadline_after(20000000000u);
        while (!ra_load_acquire(&has_begun)) {
            assert_true(rota_clock_ns() < deadline);
            test_nap_us(50);
        }
        assert_ok(rota_ticket_cancel(ticket));
        ra_store_release(&may_end, 1);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(y, 1, 7);
        rota_plan_release(plan);
        rota_graph_release(graph);
        rota_buffer_release(value);
        rota_buffer_release(y);
        rota_buffer_release(one);
    }
}

/* ---- Recomputation, and bodies that are left over ---- */

static rota_status add_1(const rota_kernel_call *call) {
    uint32_t *to = call->operands[0];
    const uint32_t *from = call->operands[1];
    for (uint64_t i = 0; i < call->operand_bytes[0] / 4; i++) to[i] = from[i] + 1;
    return ROTA_OK;
}
static const rota_kernel k_add_1 = {
    .name = "add 1", .operand_count = 2, .flags = ROTA_KERNEL_PURE, .cpu = {.fn = add_1}};

static void record_add_1(rota_recorder *lane, rota_buffer *to, rota_buffer *from) {
    const rota_access accesses[2] = {{to, 0, ROTA_WHOLE, ROTA_WRITE}, {from, 0, ROTA_WHOLE, ROTA_READ}};
    assert_ok(rota_record_kernel(
        lane, &ROTA_KERNEL_NODE(.kernel = &k_add_1, .accesses = accesses, .access_count = 2), NULL));
}

/* Under a memory limit a transient is given up and computed again for a body. */
static void test_recomputed(void **state) {
    const runtime_fixture *f = *state;
    enum { MANY = 1 << 16 };
    rota_graph *graph = NULL;
    rota_recorder *lane, *inner;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.memory_limit_bytes = 9ull * MANY), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    rota_buffer *t = NULL, *u = NULL, *v = NULL, *out = test_words(f->device, "out", MANY, 0);
    rota_buffer *y = test_words(f->device, "y", MANY, 0), *condition = test_words(f->device, "c", 1, 1);
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", 4ull * MANY, &t));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "u", 4ull * MANY, &u));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "v", 4ull * MANY, &v));
    assert_ok(rota_record_fill(lane, t, 0, ROTA_WHOLE, 5, NULL));
    record_add_1(lane, out, t);
    record_add_1(lane, u, out);
    record_add_1(lane, v, u);
    record_add_1(lane, out, v);
    rota_graph *body = body_of(graph, &inner);
    record_add_1(inner, y, t);
    rota_recorder_close(inner);
    assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.condition = condition, .body = body), NULL));
    rota_plan *plan = compile(f, graph, lane);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(plan, &stats));
    assert_int_equal(stats.recomputed, 1);
    replay(plan);
    test_expect_words(y, MANY, 6);
    test_expect_words(out, MANY, 9);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(out);
    rota_buffer_release(y);
    rota_buffer_release(condition);
}

/* No body outlives what is around it. */
static void test_left_over(void **state) {
    const runtime_fixture *f = *state;
    rota_buffer *value = test_words(f->device, "value", 1, 0);
    rota_graph *graph = NULL, *more = NULL;
    rota_recorder *lane, *inner, *innermost;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, "lane", &lane));
    rota_graph *body = body_of(graph, &inner), *nested = body_of(body, &innermost);
    rota_recorder_close(inner);
    const rota_if_node node = ROTA_IF_NODE(.condition = value, .body = body);
    assert_status(rota_record_if(lane, &node, NULL), ROTA_WRONG_STATE);
    expect_said("body 'body' has 1 bodies that no node of it has taken");
    rota_recorder_close(innermost);
    rota_graph_release(nested);
    assert_ok(rota_record_if(lane, &node, NULL));
    assert_status(rota_graph_create_body(body, "late", &more), ROTA_WRONG_STATE);
    assert_null(more);
    rota_graph_retain(body);
    rota_recorder_close(lane);
    rota_graph_release(graph); /* of which `body` knows nothing any more */
    assert_status(rota_graph_create_body(body, "later", &more), ROTA_WRONG_STATE);
    assert_status(rota_record_if(inner, &node, NULL), ROTA_WRONG_STATE);
    rota_slot slot;
    assert_status(rota_graph_slot(body, "slot", 4, &slot), ROTA_WRONG_STATE);
    rota_graph_release(body);
    rota_buffer_release(value);
}

/* ---- Devices that run none ---- */

/* Beside a device that runs none: refused there, with node and device; placed on the CPU, its buffers come along. */
static void test_placed(void **state) {
    const runtime_fixture *f = *state;
    static adversary_options options = {.no_conditionals = true};
    rota_device *devices[2] = {NULL, f->device};
    assert_ok(rota_runtime_add_driver(f->runtime, &adversary_driver, &options));
    assert_ok(rota_device_open(f->runtime, "adversary", &devices[0]));
    for (uint32_t node_on = 0; node_on < 3; node_on++)
        for (uint32_t body_on = 0; body_on < 3; body_on++) {
            rota_buffer *x = test_words(devices[0], "x", 1, 5),
                        *value = test_words(devices[0], "value", 1, 3);
            rota_graph *graph = NULL;
            rota_recorder *lane, *inner, *innermost;
            assert_ok(rota_graph_create(NULL, &graph));
            assert_ok(rota_recorder_open(graph, 0, "lane", &lane));
            const rota_access accesses[2] = {{x, 0, 4, ROTA_WRITE}, {value, 0, 4, ROTA_READ}};
            rota_kernel_node add =
                ROTA_KERNEL_NODE(.kernel = &k_add_1, .accesses = accesses, .access_count = 2,
                                 .placement = {.device_plus_1 = body_on});
            rota_graph *body = body_of(graph, &inner), *nested = body_of(body, &innermost);
            assert_ok(rota_record_kernel(innermost, &add, NULL));
            rota_recorder_close(innermost);
            assert_ok(rota_record_if(inner, &ROTA_IF_NODE(.condition = value, .body = nested), NULL));
            rota_recorder_close(inner);
            assert_ok(
                rota_record_for(lane,
                                &ROTA_FOR_NODE(.name = "loop", .count = value, .body = body,
                                               .iterations_max = 3, .placement = {.device_plus_1 = node_on}),
                                NULL));
            rota_recorder_close(lane);
            rota_plan *plan = NULL;
            const rota_status status = rota_compile(
                f->runtime, graph,
                &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2, .certify = true), &plan);
            if (node_on != 2) {
                assert_int_equal(status, ROTA_UNSUPPORTED);
                expect_said("node 'loop' (lane 1 'lane', node 0) is a node that decides (for), which device "
                            "'adversary' does not run");
            } else if (body_on == 1) {
                assert_int_equal(status, ROTA_INVALID_ARGUMENT);
                expect_said("is placed on device 0, and its body's node on device 1");
            } else {
                assert_ok(status);
                replay(plan);
                test_expect_words(x, 1, 4);
            }
            if (status == ROTA_OK) rota_plan_release(plan);
            rota_graph_release(graph);
            rota_buffer_release(x);
            rota_buffer_release(value);
        }
}

/* ---- Diagnostics ---- */

/* Stays in the third iteration until it may go on. */
static rota_status stay(const rota_kernel_call *call) {
    if (*(const uint32_t *)call->operands[1] == 2) return hold(call);
    return ROTA_OK;
}
static const rota_kernel k_stay = {.name = "stay", .operand_count = 2, .cpu = {.fn = stay}};

/* A deadline's sentence says at which iteration it is. */
static void test_stuck(void **state) {
    (void)state;
    rota_runtime *runtime = NULL;
    rota_device *device = NULL;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *count = test_words(device, "count", 1, 4), *y = test_words(device, "y", 1, 0);
    rota_buffer *index = test_words(device, "index", 1, 0);
    rota_graph *graph = NULL;
    rota_recorder *lane, *inner;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    rota_graph *body = body_of(graph, &inner);
    const rota_access accesses[2] = {{y, 0, 4, ROTA_READWRITE}, {index, 0, 4, ROTA_READ}};
    assert_ok(rota_record_kernel(
        inner,
        &ROTA_KERNEL_NODE(.name = "stay within", .kernel = &k_stay, .accesses = accesses, .access_count = 2),
        NULL));
    rota_recorder_close(inner);
    assert_ok(rota_record_for(
        lane, &ROTA_FOR_NODE(.count = count, .index = index, .body = body, .iterations_max = 4), NULL));
    const runtime_fixture f = {runtime, device};
    rota_plan *plan = compile(&f, graph, lane);
    ra_store_release(&has_begun, 0);
    ra_store_release(&may_end, 0);
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    while (!ra_load_acquire(&has_begun)) test_nap_us(50);
    assert_status(rota_wait(ticket, 1000000u), ROTA_TIMEOUT);
    expect_said("stuck at node 'for', iteration 2, in its body at node 'stay within'");
    ra_store_release(&may_end, 1);
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(count);
    rota_buffer_release(y);
    rota_buffer_release(index);
    assert_ok(rota_runtime_close(runtime, 0));
}

/* ---- What has no form for them ---- */

/* y = -x, in a body with a tape of its own. */
static void record_negation(deciding kind, rota_recorder *lane, rota_buffer *value, rota_tensor x,
                            rota_tensor y) {
    rota_recorder *inner;
    rota_tape *tape;
    rota_graph *body = body_of(rota_recorder_graph(lane), &inner);
    assert_ok(rota_tape_create(inner, NULL, &tape));
    assert_ok(rota_op_neg_into(tape, x, y));
    rota_recorder_close(inner);
    rota_tape_destroy(tape);
    record_deciding(kind, lane, body, value);
}

/* t = w w; then a body writes t (how 0), or what an op reads (1), by way of another body (3), or nothing of it (2). */
static rota_status record_gradient(const runtime_fixture *f, deciding kind, uint32_t how, rota_recorder *lane,
                                   rota_tensor w, rota_buffer *value, rota_tensor *out_gradient) {
    rota_tape *tape;
    rota_tensor t, u, v, loss, sum;
    const uint64_t shape[1] = {COUNT};
    rota_buffer *log = test_words(f->device, "log", COUNT, 0);
    assert_ok(rota_tape_create(lane, NULL, &tape));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "u", ROTA_F32, 1, shape, &u));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "v", ROTA_F32, 1, shape, &v));
    assert_ok(rota_record_fill(lane, u.buffer, 0, ROTA_WHOLE, 0, NULL));
    assert_ok(rota_record_fill(lane, v.buffer, 0, ROTA_WHOLE, 0, NULL));
    assert_ok(rota_op_square(tape, w, &t));
    record_negation(kind, lane, value, how == 0 ? w : t, how == 0 ? t : how == 2 ? tensor_of(log) : u);
    if (how == 3) record_negation(kind, lane, value, u, v);
    sum = t;
    if (how == 1) assert_ok(rota_op_add(tape, t, u, &sum));
    if (how == 3) assert_ok(rota_op_add(tape, t, v, &sum));
    assert_ok(rota_op_sum(tape, sum, 0, true, &loss));
    const rota_status status = rota_backward(tape, loss, &w, 1, out_gradient, NULL);
    rota_tape_destroy(tape);
    rota_buffer_release(log); /* the graph has it */
    return status;
}

/* Gradients flow through all of them; the while runs no iteration. */
static void test_gradients(void **state) {
    const runtime_fixture *f = *state;
    for (uint32_t n = 0; n < 4 * DECIDES_COUNT; n++) {
        const uint32_t how = n % 4;
        const deciding kind = (deciding)(n / 4);
        const float expected[4] = {-1, 0, 4, 8}, of_none = 4;
        rota_buffer *bw = test_words(f->device, "w", COUNT, TWO),
                    *value = test_words(f->device, "value", 1, 1),
                    *seen = test_words(f->device, "grad", COUNT, 0);
        rota_graph *graph = NULL;
        rota_recorder *lane;
        rota_tensor gradient = {0};
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
        assert_ok(record_gradient(f, kind, how, lane, tensor_of(bw), value, &gradient));
        assert_ok(
            rota_record_copy(lane, seen, 0, gradient.buffer, gradient.offset_bytes, 4ull * COUNT, NULL));
        rota_plan *plan = compile(f, graph, lane);
        if (kind == DECIDES_WHILE) /* which nothing would end */
            assert_ok(rota_buffer_write(value, f->device, 0, &(uint32_t){0}, 4, NULL));
        replay(plan);
        expect_floats(seen, kind == DECIDES_WHILE ? of_none : expected[how]);
        rota_plan_release(plan);
        rota_graph_release(graph);
        rota_buffer_release(bw);
        rota_buffer_release(value);
        rota_buffer_release(seen);
    }
}

/* A value that a gradient reads, d(w a)/dw = a, and that a body overwrites: before the op that is no matter, after it
 * the gradient is refused. */
static void test_saved_value(void **state) {
    const runtime_fixture *f = *state;
    for (uint32_t is_after = 0; is_after < 2; is_after++) {
        rota_buffer *bw = test_words(f->device, "w", COUNT, TWO),
                    *ba = test_words(f->device, "a", COUNT, TWO);
        rota_buffer *value = test_words(f->device, "value", 1, 1),
                    *seen = test_words(f->device, "grad", COUNT, 0);
        const rota_tensor w = tensor_of(bw), a = tensor_of(ba);
        rota_graph *graph = NULL;
        rota_recorder *lane, *inner;
        rota_tape *tape, *inner_tape;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
        assert_ok(rota_tape_create(lane, NULL, &tape));
        rota_tensor y, loss, gradient = {0};
        if (is_after) assert_ok(rota_op_mul(tape, w, a, &y));
        rota_graph *body = body_of(graph, &inner);
        assert_ok(rota_tape_create(inner, NULL, &inner_tape));
        assert_ok(rota_op_neg_into(inner_tape, a, a));
        rota_recorder_close(inner);
        rota_tape_destroy(inner_tape);
        record_deciding(DECIDES_IF, lane, body, value);
        if (!is_after) assert_ok(rota_op_mul(tape, w, a, &y));
        assert_ok(rota_op_sum(tape, y, 0, true, &loss));
        const rota_status status = rota_backward(tape, loss, &w, 1, &gradient, NULL);
        if (is_after) {
            if (status != ROTA_WRONG_STATE) fail_msg("%s: %s", rota_status_name(status), rota_last_error());
            expect_said("op 'mul' needs its 'b' in buffer 'a', which a body of node 'if' overwrote");
        } else {
            assert_ok(status);
            assert_ok(
                rota_record_copy(lane, seen, 0, gradient.buffer, gradient.offset_bytes, 4ull * COUNT, NULL));
        }
        rota_tape_destroy(tape);
        rota_plan *plan = compile(f, graph, lane);
        if (!is_after) {
            replay(plan);
            expect_floats(seen, -2);
        }
        rota_plan_release(plan);
        rota_graph_release(graph);
        rota_buffer_release(bw);
        rota_buffer_release(ba);
        rota_buffer_release(value);
        rota_buffer_release(seen);
    }
}

static void test_saved(void **state) {
    const runtime_fixture *f = *state;
    rota_buffer *value = test_words(f->device, "value", 1, 0);
    rota_graph *graph = NULL;
    rota_recorder *lane, *inner;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "g"), &graph));
    assert_ok(rota_recorder_open(graph, 0, "lane", &lane));
    rota_graph *body = body_of(graph, &inner);
    assert_ok(rota_record_fill(inner, value, 0, 4, 0, NULL));
    rota_recorder_close(inner);
    assert_status(rota_graph_save(body, NULL, "/tmp/rota-no-such-file"), ROTA_INVALID_ARGUMENT);
    record_deciding(DECIDES_WHILE, lane, body, value);
    rota_plan *plan = compile(f, graph, lane);
    assert_int_not_equal(access("/tmp/rota-no-such-file", F_OK), 0);
    /* What shows it: the plan as a picture and in sentences. */
    rota_plan_command command[1] = {ROTA_PLAN_COMMAND()};
    assert_ok(rota_plan_get_commands(plan, command, 1));
    assert_int_equal(command[0].kind, ROTA_PLAN_CONDITIONAL);
    assert_string_equal(command[0].name, "while");
    assert_null(command[0].kernel);
    char text[512];
    assert_ok(rota_plan_explain(plan, (rota_node){1, 0}, text, sizeof text, NULL));
    assert_ok(rota_plan_write_dot(plan, "/dev/null"));
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fused, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_fused_beside, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_cancel_late, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_recomputed, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_left_over, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_placed, runtime_setup, runtime_teardown),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test_setup_teardown(test_gradients, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_saved_value, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_saved, runtime_setup, runtime_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
