/* What bodies of nodes that decide may touch: what their nodes declare, also after a rewrite; that the certificate
 * looks; and what a body costs. What such nodes do: tests/sched/runtime/test_conditional.c. */
#include "tests/kit/runtime_support.h"

#include <stdio.h>

#include "base/clock.h"
#include "sched/plan/certify.h"
#include "sched/rewrite.h"

enum { COUNT = 256 };

static rota_status add_first(const rota_kernel_call *call) {
    for (uint32_t k = 0; k < call->operand_count; k++) ++*(uint32_t *)call->operands[k];
    return ROTA_OK;
}
static const rota_kernel k_add_first = {.name = "add first", .operand_count = 1, .cpu = {.fn = add_first}};

/* What the body's node touches after its rewrite. */
static rota_access moved_to;

static rota_status move_node(void *user, rota_rewriter *rewriter) {
    (void)user;
    return rota_rewriter_replace(
        rewriter, 0,
        &ROTA_KERNEL_NODE(.name = "moved", .kernel = &k_add_first, .accesses = &moved_to, .access_count = 1));
}

static rota_graph *body_of(rota_graph *graph, rota_recorder **out_lane) {
    rota_graph *body = NULL;
    assert_ok(rota_graph_create_body(graph, NULL, &body));
    assert_ok(rota_recorder_open(body, 0, "inner", out_lane));
    return body;
}

/* The innermost body's program. */
static const rota_exec_program_desc *innermost(const rota_plan *plan) {
    const rota_exec_program_desc *desc = &plan->partitions[0].desc;
    while (desc->commands[0].kind == ROTA_EXEC_COMMAND_CONDITIONAL)
        desc = desc->commands[0].u.conditional->bodies[0];
    return desc;
}

/* The certificate sees a body that touches other bytes, or more of them, or writes what its node reads. */
static void damage(rota_plan *plan) {
    const rota_exec_program_desc *body = innermost(plan);
    const rota_exec_command *reads = &body->commands[1];
    rota_exec_operand *operand = (rota_exec_operand *)(uintptr_t)&body->operands[reads->first_operand];
    const rota_exec_operand good = *operand;
    assert_int_equal(good.mode, ROTA_READ);
    for (uint32_t how = 0; how < 4; how++) {
        assert_ok(rota_plan_certify(plan));
        if (how == 0) rota_exec_operand_move(operand, -(uint64_t)16);
        if (how == 1) operand->size_bytes = (operand->size_bytes + 4) & ROTA_EXEC_SIZE_MAX;
        if (how == 2) operand->mode = ROTA_READWRITE;
        if (how == 3) rota_exec_operand_set_memory(operand, operand->memory + 1u);
        assert_status(rota_plan_certify(plan), ROTA_INTERNAL);
        expect_said("is not within what node");
        *operand = good;
    }
}

/* A body that would touch, after a rewrite, other bytes than its node declares, or write what that only reads, or
 * another buffer: refused with names; in a body of a body, too. What lies within is taken. */
static void test_rewritten(void **state) {
    const runtime_fixture *f = *state;
    rota_buffer *x = test_words(f->device, "x", COUNT, 0), *y = test_words(f->device, "y", COUNT, 0);
    rota_buffer *value = test_words(f->device, "value", 1, 1);
    const rota_access moves[] = {{x, 8, 4, ROTA_READWRITE},
                                 {x, 0, 4, ROTA_READWRITE},
                                 {x, 16, 8, ROTA_READWRITE},
                                 {x, 60, 8, ROTA_READ},
                                 {y, 8, 4, ROTA_READ}};
    for (uint32_t depth = 1; depth <= 2; depth++)
        for (uint32_t i = 0; i < 5; i++) {
            rota_graph *graph = NULL, *bodies[2];
            rota_recorder *lane, *lanes[2];
            rota_plan *plan = NULL;
            assert_ok(rota_graph_create(NULL, &graph));
            assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
            bodies[0] = body_of(graph, &lanes[0]);
            if (depth == 2) bodies[1] = body_of(bodies[0], &lanes[1]);
            /* x[2] to x[4] are written, x[5] to x[15] read. */
            const rota_access touched[] = {{x, 8, 12, ROTA_READWRITE}, {x, 20, 44, ROTA_READ}};
            for (uint32_t k = 0; k < 2; k++)
                assert_ok(rota_record_kernel(
                    lanes[depth - 1],
                    &ROTA_KERNEL_NODE(.kernel = &k_add_first, .accesses = &touched[k], .access_count = 1),
                    NULL));
            assert_ok(rota_graph_add_rewrite(bodies[depth - 1], move_node, NULL));
            rota_recorder_close(lanes[depth - 1]);
            if (depth == 2) {
                assert_ok(rota_record_if(
                    lanes[0], &ROTA_IF_NODE(.name = "inner", .condition = value, .body = bodies[1]), NULL));
                rota_recorder_close(lanes[0]);
            }
            assert_ok(rota_record_if(
                lane, &ROTA_IF_NODE(.name = "outer", .condition = value, .body = bodies[0]), NULL));
            rota_recorder_close(lane);
            moved_to = moves[i];
            const rota_status status = rota_compile(
                f->runtime, graph,
                &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .certify = true), &plan);
            if ((status == ROTA_OK) != (i == 0) || (i && status != ROTA_INVALID_ARGUMENT))
                fail_msg("move %u in %u bodies: %s: %s", i, depth, rota_status_name(status),
                         rota_last_error());
            if (i) {
                expect_said("node 'moved' of body 'body'");
                expect_said(depth == 2 ? "node 'inner'" : "node 'outer'");
                expect_said(i == 4 ? "buffer 'y'" : "buffer 'x'");
            }
            if (plan) damage(plan);
            rota_plan_release(plan);
            rota_graph_release(graph);
        }
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(value);
}

/* A queue that the plan has not is refused in a body as elsewhere; one that it has means nothing there. */
static void test_queues(void **state) {
    const runtime_fixture *f = *state;
    rota_buffer *x = test_words(f->device, "x", COUNT, 0), *value = test_words(f->device, "value", 1, 1);
    for (uint32_t queue = 0; queue < 3; queue++) {
        rota_graph *graph = NULL;
        rota_recorder *lane, *inner;
        rota_plan *plan = NULL;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
        rota_graph *body = body_of(graph, &inner);
        const rota_access access = {x, 0, 4, ROTA_READWRITE};
        assert_ok(
            rota_record_kernel(inner,
                               &ROTA_KERNEL_NODE(.kernel = &k_add_first, .accesses = &access,
                                                 .access_count = 1, .placement = {.queue_plus_1 = queue + 1}),
                               NULL));
        rota_recorder_close(inner);
        assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.condition = value, .body = body), NULL));
        rota_recorder_close(lane);
        const rota_status status =
            rota_compile(f->runtime, graph,
                         &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .queues = 2), &plan);
        assert_int_equal(status, queue < 2 ? ROTA_OK : ROTA_INVALID_ARGUMENT);
        if (queue == 2) expect_said("node 'add first' is placed on logical queue 2; the plan uses 2");
        rota_plan_release(plan);
        rota_graph_release(graph);
    }
    rota_buffer_release(x);
    rota_buffer_release(value);
}

/* ---- What a body costs ---- */

typedef struct cost {
    uint64_t plan_bytes, compile_ns;
} cost;

/* Of so many ifs of one node each, in a graph of so many slots. */
static cost cost_of(const runtime_fixture *f, rota_buffer *x, rota_buffer *value, uint32_t ifs,
                    uint32_t slots) {
    rota_graph *graph = NULL;
    rota_recorder *lane, *inner;
    rota_plan *plan = NULL;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    for (uint32_t i = 0; i < slots; i++) {
        char name[16];
        rota_slot slot;
        (void)snprintf(name, sizeof name, "s%u", i);
        assert_ok(rota_graph_slot(graph, name, 4, &slot));
    }
    for (uint32_t i = 0; i < ifs; i++) {
        const rota_access access = {x, i % COUNT * 4u, 4, ROTA_READWRITE};
        rota_graph *body = body_of(graph, &inner);
        assert_ok(rota_record_kernel(
            inner, &ROTA_KERNEL_NODE(.kernel = &k_add_first, .accesses = &access, .access_count = 1), NULL));
        rota_recorder_close(inner);
        assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.condition = value, .body = body), NULL));
    }
    rota_recorder_close(lane);
    const uint64_t from = rota_clock_ns();
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    cost made = {.compile_ns = rota_clock_ns() - from};
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    made.plan_bytes = stats.plan_bytes;
    rota_plan_release(plan);
    rota_graph_release(graph);
    return made;
}

/* A few KiB, however many slots the graph has, and however many bodies. */
static void test_costs(void **state) {
    enum { MOST_BYTES = 8192, MANY = 4000, CHUNK_BYTES = 4 << 20 };
    const runtime_fixture *f = *state;
    rota_buffer *x = test_words(f->device, "x", COUNT, 0), *value = test_words(f->device, "value", 1, 1);
    const cost few = cost_of(f, x, value, 100, 0), more = cost_of(f, x, value, 1100, 0);
    const uint64_t bytes = (more.plan_bytes - few.plan_bytes) / 1000;
    print_message("%llu bytes a body\n", (unsigned long long)bytes);
    assert_true(bytes > 0 && bytes <= MOST_BYTES);
    const cost none = cost_of(f, x, value, MANY, 0), slots = cost_of(f, x, value, MANY, MANY);
    print_message("%u bodies: %.1f us each, %.1f us with %u slots\n", (unsigned)MANY,
                  (double)none.compile_ns / 1e3 / MANY, (double)slots.compile_ns / 1e3 / MANY,
                  (unsigned)MANY);
    /* A word of the block for each slot, and no more, in memory that comes by chunks. */
    assert_true(slots.plan_bytes - none.plan_bytes < (uint64_t)MANY * 256 + CHUNK_BYTES);
    rota_buffer_release(x);
    rota_buffer_release(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_costs, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_queues, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(test_rewritten, runtime_setup, runtime_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
