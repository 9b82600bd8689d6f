/* Plans that have no room within the runtime's memory limit: compiled so that they have, by computing again what they
 * would keep, with the same bits; and what is said where that is not enough. */
#include "tests/kit/runtime_support.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "sched/rewrite.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

#define MIB ((uint64_t)1 << 20)
/* Results that a second half reads in the other order, a MiB each; and what the last goes into. */
enum { HALF = 48, OUT_WORDS = 8 << 18, PATIENCE_S = 120 };
/* What the plan has beside transients, and how much of the transients there is room for. */
#define OUT_BYTES (OUT_WORDS * (uint64_t)4)
#define ROOM (24 * MIB)
/* What is read of it at a time: staging has no room for more. */
#define PIECE (MIB / 4)

typedef struct mix_params {
    uint32_t node;
} mix_params;

/* Operands but the last are read. */
static rota_status mix_fn(const rota_kernel_call *call) {
    const mix_params *params = call->params;
    const uint32_t inputs = call->operand_count - 1;
    uint32_t *out = call->operands[inputs];
    for (uint64_t w = 0; w < call->operand_bytes[inputs] / 4; w++) {
        uint32_t value = params->node * 2654435761u + (uint32_t)w;
        for (uint32_t i = 0; i < inputs; i++)
            value = value * 31 + ((const uint32_t *)call->operands[i])[w % (call->operand_bytes[i] / 4)];
        out[w] = value;
    }
    return ROTA_OK;
}

#define MIX(operands)                                                                                        \
    {                                                                                                        \
        .name = "mix" #operands, .operand_count = operands, .param_bytes = sizeof(mix_params),               \
        .flags = ROTA_KERNEL_PURE, .cpu = {                                                                  \
            .fn = mix_fn                                                                                     \
        }                                                                                                    \
    }
static const rota_kernel mixes[] = {MIX(1), MIX(2), MIX(3)};

static void mix(rota_recorder *recorder, uint32_t node, const rota_access *accesses, uint32_t count) {
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &mixes[count - 1], .accesses = accesses,
                                                   .access_count = count, .params = &(mix_params){node}),
                                 NULL));
}

static rota_graph *there_and_back(rota_buffer *out, uint64_t limit) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *values[2 * HALF];
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "step", .memory_limit_bytes = limit), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 2 * HALF; i++) {
        rota_access accesses[3];
        uint32_t count = 0;
        assert_ok(
            rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, i < HALF ? "there" : "back", MIB, &values[i]));
        if (i) accesses[count++] = (rota_access){values[i - 1], 0, ROTA_WHOLE, ROTA_READ};
        if (i > HALF) accesses[count++] = (rota_access){values[2 * HALF - 1 - i], 0, ROTA_WHOLE, ROTA_READ};
        accesses[count++] = (rota_access){values[i], 0, ROTA_WHOLE, ROTA_WRITE};
        mix(recorder, i, accesses, count);
    }
    mix(recorder, 2 * HALF,
        (const rota_access[]){{values[2 * HALF - 1], 0, ROTA_WHOLE, ROTA_READ},
                              {out, 0, ROTA_WHOLE, ROTA_WRITE}},
        2);
    rota_recorder_close(recorder);
    return graph;
}

/* A runtime with a device, and no more of its limit left than was said. */
typedef struct rig {
    adversary_options adversary;
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *out; /* nobody prepared it */
    uint64_t limit;
} rig;

static uint64_t held(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    assert_ok(rota_runtime_get_stats(runtime, &stats));
    return stats.memory_bytes;
}

/* What the device's trials had is given back by other threads, at some time after open: their buffers and plan by the
 * reclaimer, the blocks that they staged in by the sequencer, which are idle then. */
static void wait_for_the_trials(const rig *r) {
    const uint64_t until = rota_deadline_after(PATIENCE_S * UINT64_C(1000000000));
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    do {
        rota_sequencer_reap_now(r->runtime);
        assert_ok(rota_runtime_get_stats(r->runtime, &stats));
    } while ((stats.reclaim_pending || rota_staging_is_busy(r->device)) && rota_clock_ns() < until);
    assert_int_equal(stats.reclaim_pending, 0);
    assert_false(rota_staging_is_busy(r->device));
}

/* 0: no limit. */
static void open_once(rig *r, const char *id, uint64_t limit) {
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_S * UINT64_C(1000000000),
                                                      .memory_limit_bytes = limit, .staging_slots = 1),
                                &r->runtime));
    assert_ok(rota_runtime_add_driver(r->runtime, &adversary_driver, &r->adversary));
    assert_ok(rota_device_open(r->runtime, id, &r->device));
    wait_for_the_trials(r);
    assert_ok(rota_buffer_create_in(r->runtime, "out", OUT_BYTES, &r->out));
    r->limit = limit;
}

static void close_rig(rig *r) {
    rota_buffer_release(r->out);
    assert_ok(rota_runtime_close(r->runtime, 0));
    assert_int_equal(r->adversary.violations, 0);
    assert_int_equal(r->adversary.live_memories, 0);
}

/* What the device has by itself is found out first. */
static void open_rig(rig *r, const char *id, uint64_t left) {
    uint64_t own = 0;
    if (left) {
        *r = (rig){.adversary = {.seed = 1}};
        open_once(r, id, 0);
        own = held(r->runtime);
        close_rig(r);
    }
    *r = (rig){.adversary = {.seed = 1}};
    open_once(r, id, left ? own + left : 0);
}

static rota_status compile(const rig *r, rota_graph *graph, uint64_t limit, rota_plan *arena_of,
                           rota_plan **out_plan) {
    return rota_compile(r->runtime, graph,
                        &ROTA_COMPILE_OPTIONS(.devices = &r->device, .device_count = 1, .certify = true,
                                              .memory_limit_bytes = limit, .arena_of = arena_of),
                        out_plan);
}

static rota_plan_stats stats_of(const rota_plan *plan) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(plan, &stats));
    return stats;
}

static void replay(const rig *r, rota_plan *plan, uint32_t *out_words) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    for (uint64_t first = 0; first < OUT_BYTES; first += PIECE)
        assert_ok(rota_buffer_read(r->out, first, (uint8_t *)out_words + first, PIECE));
}

static void has_the_same_bits(const char *id) {
    uint32_t *expected = malloc(OUT_BYTES), *seen = malloc(OUT_BYTES);
    assert_non_null(expected);
    assert_non_null(seen);
    rig r;
    rota_plan *plan;
    open_rig(&r, id, 0);
    rota_graph *graph = there_and_back(r.out, 0);
    assert_ok(compile(&r, graph, 0, NULL, &plan));
    assert_int_equal(stats_of(plan).recomputed, 0);
    const uint64_t all = stats_of(plan).arena_bytes;
    assert_true(all >= HALF * MIB);
    replay(&r, plan, expected);
    rota_plan_release(plan);
    rota_graph_release(graph);
    close_rig(&r);

    open_rig(&r, id, OUT_BYTES + ROOM);
    graph = there_and_back(r.out, 0);
    assert_ok(compile(&r, graph, 0, NULL, &plan));
    assert_in_range(stats_of(plan).recomputed, HALF / 2, HALF);
    assert_true(stats_of(plan).arena_bytes <= all / 2);
    /* A sixteenth of what was free is left for what comes later. */
    assert_true(held(r.runtime) + stats_of(plan).arena_bytes / 16 <= r.limit);
    rota_buffer *later = test_buffer(r.runtime, "later", 2 * PIECE);
    assert_ok(rota_buffer_prepare(later, r.device));
    replay(&r, plan, seen);
    assert_memory_equal(seen, expected, OUT_BYTES);
    rota_buffer_release(later);
    rota_plan_release(plan);
    rota_graph_release(graph);
    close_rig(&r);
    free(expected);
    free(seen);
}

static void on_the_cpu(void **state) {
    (void)state;
    has_the_same_bits("cpu");
}
static void on_the_adversary(void **state) {
    (void)state;
    has_the_same_bits("adversary");
}

/* The plan's arena where there is room for ROOM, and both the graph and the call may have limits; 0: it has none. */
static uint64_t arena_with(uint64_t of_graph, uint64_t of_call) {
    rig r;
    rota_plan *plan;
    open_rig(&r, "cpu", OUT_BYTES + ROOM);
    rota_graph *graph = there_and_back(r.out, of_graph);
    const rota_status status = compile(&r, graph, of_call, NULL, &plan);
    const uint64_t bytes = status == ROTA_OK ? stats_of(plan).arena_bytes : 0;
    if (status != ROTA_OK) assert_int_equal(status, ROTA_OUT_OF_MEMORY);
    rota_plan_release(plan);
    rota_graph_release(graph);
    close_rig(&r);
    return bytes;
}

static void limits_of_its_own_hold(void **state) {
    (void)state;
    /* The smaller of the two. */
    const uint64_t free_at_most = ROOM + 2 * MIB;
    assert_in_range(arena_with(18 * MIB, 0), 1, 18 * MIB);
    assert_in_range(arena_with(0, 18 * MIB), 1, 18 * MIB);
    assert_in_range(arena_with(40 * MIB, 0), 18 * MIB, free_at_most);
    assert_in_range(arena_with(0, 40 * MIB), 18 * MIB, free_at_most);
    /* None, whatever the graph says. */
    assert_int_equal(arena_with(0, UINT64_MAX), 0);
    assert_non_null(strstr(rota_last_error(), "of the memory limit of"));
    assert_null(strstr(rota_last_error(), "computed again"));
    assert_int_equal(arena_with(18 * MIB, UINT64_MAX), 0);
}

/* What was needed, what there was, and what computing again could not do without. */
static void out_of_reach_says_both(void **state) {
    (void)state;
    rig r;
    rota_plan *plan;
    open_rig(&r, "cpu", OUT_BYTES + 2 * MIB);
    rota_graph *graph = there_and_back(r.out, 0);
    assert_int_equal(compile(&r, graph, 0, NULL, &plan), ROTA_OUT_OF_MEMORY);
    const char *said = rota_last_error();
    assert_non_null(strstr(said, "plan 'step': 'step' needs "));
    assert_non_null(strstr(said, " bytes on device 'cpu': "));
    assert_non_null(strstr(said, "of the memory limit of"));
    assert_non_null(strstr(said, "; compile of graph 'step': its buffers take "));
    assert_non_null(strstr(said, " over the limit of "));
    assert_non_null(strstr(said, " nodes computed again ("));
    assert_non_null(strstr(said, "most live at node "));
    assert_non_null(strstr(said, "'there' of 1048576 bytes"));
    rota_graph_release(graph);
    close_rig(&r);
}

/* Nothing runs twice where it is enough to share memory between nodes that could run at once. */
static void is_packed_before_it_computes_again(void **state) {
    (void)state;
    enum { PAIRS = 40 };
    rig r;
    rota_plan *plan;
    rota_graph *graph;
    rota_recorder *recorder;
    open_rig(&r, "cpu", OUT_BYTES + ROOM);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "pairs"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < PAIRS; i++) {
        rota_buffer *value;
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "value", MIB, &value));
        mix(recorder, i, &(rota_access){value, 0, ROTA_WHOLE, ROTA_WRITE}, 1);
        mix(recorder, i,
            (const rota_access[]){{value, 0, ROTA_WHOLE, ROTA_READ}, {r.out, UINT64_C(4) * i, 4, ROTA_WRITE}},
            2);
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(r.runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &r.device, .device_count = 1, .certify = true,
                                                 .packing = ROTA_PACK_CONCURRENT),
                           &plan));
    assert_true(stats_of(plan).arena_bytes < ROOM);
    assert_int_equal(stats_of(plan).recomputed, 0);
    rota_plan_release(plan);
    rota_graph_release(graph);
    close_rig(&r);
}

static rota_status note_limit(void *user, rota_rewriter *rewriter) {
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    uint64_t *most = user;
    ROTA_TRY(rota_rewriter_target(rewriter, &(rota_placement){0}, &target));
    if (target.memory_limit_bytes > *most) *most = target.memory_limit_bytes;
    return ROTA_OK;
}

/* Rewrites may change bits: they are told what a caller chose, and never what happened to be free. */
static void rewrites_are_told_what_was_chosen(void **state) {
    (void)state;
    rig r;
    rota_plan *plan;
    uint64_t told = 0;
    open_rig(&r, "cpu", OUT_BYTES + 2 * MIB);
    rota_graph *graph = there_and_back(r.out, 0);
    assert_ok(rota_graph_add_rewrite(graph, note_limit, &told));
    assert_int_equal(compile(&r, graph, 0, NULL, &plan), ROTA_OUT_OF_MEMORY);
    assert_int_equal(told, 0);
    assert_int_equal(compile(&r, graph, 3 * MIB, NULL, &plan), ROTA_OUT_OF_MEMORY);
    assert_int_equal(told, 3 * MIB);
    rota_graph_release(graph);
    close_rig(&r);
}

/* What another plan lends is all there is, where that is more than is free. */
static void fits_into_what_is_lent(void **state) {
    (void)state;
    rig r;
    rota_plan *first, *second;
    open_rig(&r, "cpu", OUT_BYTES + ROOM);
    rota_graph *graph = there_and_back(r.out, 0);
    assert_ok(compile(&r, graph, 0, NULL, &first));
    const uint64_t before = held(r.runtime);
    assert_ok(compile(&r, graph, 0, first, &second));
    assert_int_equal(held(r.runtime), before);
    assert_true(stats_of(second).arena_bytes <= stats_of(first).arena_bytes);
    assert_true(stats_of(second).recomputed > 0);
    rota_plan_release(second);
    rota_plan_release(first);
    rota_graph_release(graph);
    close_rig(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_cpu),
                                       cmocka_unit_test(on_the_adversary),
                                       cmocka_unit_test(limits_of_its_own_hold),
                                       cmocka_unit_test(out_of_reach_says_both),
                                       cmocka_unit_test(is_packed_before_it_computes_again),
                                       cmocka_unit_test(rewrites_are_told_what_was_chosen),
                                       cmocka_unit_test(fits_into_what_is_lent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
