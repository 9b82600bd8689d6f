/* Devices of one GPU: one memory for both, orders that hold across them, imports that fail, and a device of
 * the two that is lost. The adversary stands in for both; each maps the memory at an address of its own. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "graph/buffer_internal.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"

#define WORDS 2048u

/* Whether the two wait for each other themselves, or the host orders them: the same must come out. */
static bool timelines;

typedef struct pair {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *devices[2];
    char told[512]; /* the last that was said of sharing */
} pair;

static void log_line(void *user, rota_log_level level, const char *message) {
    pair *p = user;
    (void)level;
    if (strstr(message, "share")) (void)snprintf(p->told, sizeof p->told, "%s", message);
}

static pair *open_pair(uint32_t import_fails_in) {
    pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->options.shares_memory = true;
    p->options.timelines = timelines;
    p->options.seed = 11;
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.log = {log_line, p, ROTA_LOG_INFO},
                                                        .timeout_ns = 10000000000u, .queues_per_device = 3);
    assert_ok(adversary_runtime_open(&p->options, &options, &p->runtime));
    assert_ok(rota_device_open(p->runtime, "adversary", &p->devices[0]));
    p->options.faults.import_fails_in = import_fails_in;
    assert_ok(rota_device_open(p->runtime, "adversary:1", &p->devices[1]));
    return p;
}

static void close_pair(pair *p) {
    assert_ok(rota_runtime_close(p->runtime, 5000000000u));
    assert_int_equal(p->options.violations, 0);
    assert_int_equal(p->options.live_memories, 0);
    free(p);
}

static void close_after_loss(pair *p) {
    (void)rota_runtime_close(p->runtime, 5000000000u);
    assert_int_equal(p->options.violations, 0);
    static pair *volatile kept[8]; /* the adversary may still look at its options */
    static uint32_t count;
    assert_in_range(count, 0, 7);
    kept[count] = p;
    assert_ptr_equal(kept[count++], p);
}

static uint64_t migrations(const pair *p) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(p->runtime, &stats);
    return stats.migrations;
}

static void increment(rota_recorder *recorder, rota_buffer *buffer, uint32_t device) {
    rota_access access = {buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &access,
                                             .access_count = 1, .placement = {.device_plus_1 = 1 + device});
    assert_ok(rota_record_kernel(recorder, &node, NULL));
}

static void copy(rota_recorder *recorder, rota_buffer *to, rota_buffer *from, uint32_t device) {
    rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses, .access_count = 2,
                                             .placement = {.device_plus_1 = 1 + device});
    assert_ok(rota_record_kernel(recorder, &node, NULL));
}

/* `slot` becomes `from` plus 4, by way of a transient, each node on the other device than the one before. */
static rota_status compile_both(pair *p, rota_buffer *from, rota_buffer **out_slot, rota_plan **out_plan) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *between;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "both"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "between", WORDS * 4, &between));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "slot", WORDS * 4, out_slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    copy(recorder, between, from, 0);
    increment(recorder, between, 1);
    increment(recorder, between, 0);
    copy(recorder, *out_slot, between, 1);
    increment(recorder, *out_slot, 0);
    increment(recorder, *out_slot, 1);
    rota_recorder_close(recorder);
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "both", .devices = p->devices, .device_count = 2);
    rota_status status = rota_compile(p->runtime, graph, &options, out_plan);
    rota_graph_release(graph);
    return status;
}

static void one_memory_for_both(void **state) {
    (void)state;
    pair *p = open_pair(0);
    assert_string_equal(p->told, "devices 'adversary' and 'adversary:1' share memory");
    uint64_t imports = p->options.imports;
    rota_buffer *x = test_words(p->devices[1], "x", WORDS, 5), *y = test_buffer(p->runtime, "y", WORDS * 4),
                *z = test_buffer(p->runtime, "z", WORDS * 4), *slot;
    rota_plan *plan, *alone = test_plan_1(p->devices[0], "alone", &test_increment, x, ROTA_READWRITE);
    assert_int_equal(p->options.imports, imports + 1); /* x */
    uint64_t addresses[2], again;
    for (uint32_t d = 0; d < 2; d++) assert_ok(rota_buffer_address(x, p->devices[d], &addresses[d]));
    assert_true(addresses[0] != addresses[1]);
    assert_ok(compile_both(p, x, &slot, &plan));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.commands, 6); /* no copies */
    rota_args *args;
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t i = 0; i < 100; i++) {
        assert_ok(rota_args_set_buffer(args, slot, i % 2 ? y : z));
        assert_ok(rota_submit_wait(alone, NULL, 0, NULL));
        assert_ok(rota_submit_wait(plan, args, 0, NULL));
    }
    test_expect_words(x, WORDS, 105);
    test_expect_words(y, WORDS, 109);
    test_expect_words(z, WORDS, 108);
    assert_int_equal(migrations(p), 0);
    /* Each change of device is one, four a replay and one between the plans at the least. */
    assert_in_range(p->options.acquires, 500, p->options.works - 1);
    for (uint32_t d = 0; d < 2; d++) {
        assert_ok(rota_buffer_address(x, p->devices[d], &again));
        assert_int_equal(again, addresses[d]);
    }
    rota_args_release(args);
    rota_plan_release(plan);
    rota_plan_release(alone);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
    close_pair(p);
}

static rota_status add_one(const rota_kernel_call *call) {
    uint32_t *words = call->operands[0];
    for (uint64_t i = 0; i < call->operand_bytes[0] / 4; i++)
        (void)__atomic_fetch_add(&words[i], 1, __ATOMIC_RELAXED);
    return ROTA_OK;
}

/* A view is where it begins in its buffer, on each device. */
static void views_have_addresses(void **state) {
    (void)state;
    pair *p = open_pair(0);
    rota_buffer *x = test_buffer(p->runtime, "x", WORDS * 4), *view, *inner;
    assert_ok(rota_buffer_create_view(x, 64, 128, &view));
    assert_ok(rota_buffer_create_view(view, 12, 32, &inner));
    for (uint32_t d = 0; d < 2; d++) {
        uint64_t whole, address;
        assert_ok(rota_buffer_prepare(x, p->devices[d]));
        assert_ok(rota_buffer_address(x, p->devices[d], &whole));
        assert_ok(rota_buffer_address(view, p->devices[d], &address));
        assert_int_equal(address, whole + 64);
        assert_ok(rota_buffer_address(inner, p->devices[d], &address));
        assert_int_equal(address, whole + 76);
    }
    rota_buffer_release(inner);
    rota_buffer_release(view);
    rota_buffer_release(x);
    close_pair(p);
}

/* Three devices of one GPU, none of them the first to make the memory twice: the third takes it over from the
 * one that made it, whichever that is, and not from the second, which took it over itself. */
static void three_share_one_memory(void **state) {
    (void)state;
    for (uint32_t owner = 0; owner < 3; owner++) {
        pair *p = open_pair(0);
        rota_device *devices[3] = {p->devices[0], p->devices[1], NULL};
        assert_ok(rota_device_open(p->runtime, "adversary:2", &devices[2]));
        const uint64_t imports = p->options.imports;
        rota_buffer *x = test_words(devices[owner], "x", WORDS, 7);
        assert_int_equal(p->options.imports, imports);
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        for (uint32_t i = 0; i < 6; i++) increment(recorder, x, (owner + 1 + i) % 3);
        rota_recorder_close(recorder);
        assert_ok(rota_compile(p->runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 3, .certify = true),
                               &plan));
        rota_plan_stats stats = ROTA_PLAN_STATS();
        rota_plan_get_stats(plan, &stats);
        assert_int_equal(stats.commands, 6); /* no copies */
        assert_int_equal(p->options.imports, imports + 2);
        for (uint32_t i = 0; i < 10; i++) assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        test_expect_words(x, WORDS, 67);
        rota_graph_release(graph);
        rota_plan_release(plan);
        rota_buffer_release(x);
        close_pair(p); /* wants no violation */
    }
}

/* A piece of memory that two devices share is as large as the one can have it that can have less. */
static void shared_memory_fits_both(void **state) {
    (void)state;
    pair *p = open_pair(0);
    const uint64_t before = p->devices[0]->exec->info.max_allocation_bytes;
    for (uint32_t less = 0; less < 2; less++) {
        rota_buffer *x = test_words(p->devices[0], "x", WORDS, 1), *large;
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        for (uint32_t d = 0; d < 2; d++)
            p->devices[d]->exec->info.max_allocation_bytes = (uint64_t)(d == less ? 1 : 4) << 20;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "large", 2 << 20, &large));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        const rota_access first[] = {{x, 0, ROTA_WHOLE, ROTA_READ}, {large, 0, WORDS * 4, ROTA_WRITE}},
                          then[] = {{large, 0, WORDS * 4, ROTA_READ}, {x, 0, ROTA_WHOLE, ROTA_WRITE}};
        for (uint32_t d = 0; d < 2; d++)
            assert_ok(rota_record_kernel(recorder,
                                         &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = d ? then : first,
                                                           .access_count = 2,
                                                           .placement = {.device_plus_1 = 1 + d}),
                                         NULL));
        rota_recorder_close(recorder);
        const rota_compile_options options =
            ROTA_COMPILE_OPTIONS(.devices = p->devices, .device_count = 2, .certify = true);
        assert_status(rota_compile(p->runtime, graph, &options, &plan), ROTA_OUT_OF_MEMORY);
        assert_non_null(
            strstr(rota_last_error(), "'large' of 2097152 bytes; the device allocates at most 1048576"));
        rota_graph_release(graph);
        rota_buffer_release(x);
    }
    for (uint32_t d = 0; d < 2; d++) p->devices[d]->exec->info.max_allocation_bytes = before;
    close_pair(p);
}

/* What was on a device that is lost is nobody's: the second makes memory of its own, and so does the third,
 * for which that is no part of what all of them shared. Neither takes its fresh bytes for those that are
 * lost, and what the one writes comes to the other as between devices that share nothing. */
static void apart_after_a_loss(void **state) {
    (void)state;
    pair *p = open_pair(0);
    rota_device *devices[3] = {p->devices[0], p->devices[1], NULL};
    assert_ok(rota_device_open(p->runtime, "adversary:2", &devices[2]));
    rota_buffer *x = test_words(devices[0], "x", WORDS, 7),
                *dying = test_words(devices[0], "dying", WORDS, 0);
    uint32_t words[WORDS];
    assert_ok(rota_buffer_read(x, 0, words, sizeof words));
    rota_plan *dies = test_plan_1(devices[0], "dies", &test_increment, dying, ROTA_READWRITE);
    rota_ticket ticket;
    p->options.faults.lost_in_works = 1;
    assert_ok(rota_submit_wait(dies, NULL, 0, NULL));
    rota_status status = rota_submit_wait(dies, NULL, 0, &ticket);
    if (status == ROTA_OK) status = rota_wait(ticket, 0);
    assert_int_equal(status, ROTA_DEVICE_LOST);
    p->options.faults.lost_in_works = 0;
    const uint64_t imports = p->options.imports, before = migrations(p);
    rota_plan *plans[3] = {dies};
    for (uint32_t d = 1; d < 3; d++) {
        plans[d] = test_plan_1(devices[d], "late", &test_increment, x, ROTA_READWRITE);
        assert_ok(rota_submit_wait(plans[d], NULL, 0, &ticket));
        assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    }
    assert_int_equal(p->options.imports, imports);
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 20;
    assert_ok(rota_buffer_write(x, devices[1], 0, words, sizeof words, NULL));
    for (uint32_t i = 0; i < 4; i++) assert_ok(rota_submit_wait(plans[1 + i % 2], NULL, 0, NULL));
    test_expect_words(x, WORDS, 24);
    assert_int_equal(migrations(p) - before, 3);
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    rota_buffer_release(x);
    rota_buffer_release(dying);
    close_after_loss(p);
}

/* Nobody promises that two devices' atomics are each other's: adds of two never run at once, those of one
 * may. */
static void adds_of_two_devices_are_ordered(void **state) {
    (void)state;
    static const rota_kernel add = {.name = "add",
                                    .operand_count = 1,
                                    .flags = ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE,
                                    .cpu = {.fn = add_one}};
    pair *p = open_pair(0);
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, 1);
    for (uint32_t both = 0; both < 2; both++) {
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        for (uint32_t i = 0; i < 4; i++)
            assert_ok(rota_record_kernel(
                recorder,
                &ROTA_KERNEL_NODE(.kernel = &add,
                                  .accesses = &(rota_access){x, 0, ROTA_WHOLE, ROTA_ACCUMULATE},
                                  .access_count = 1, .placement = {.device_plus_1 = 1 + (both ? i % 2 : 0)}),
                NULL));
        rota_recorder_close(recorder);
        assert_ok(rota_compile(
            p->runtime, graph,
            &ROTA_COMPILE_OPTIONS(.devices = p->devices, .device_count = 2, .certify = true), &plan));
        rota_plan_stats stats = ROTA_PLAN_STATS();
        rota_plan_get_stats(plan, &stats);
        assert_int_equal(stats.edges, both ? 3 : 0);
        for (uint32_t i = 0; i < 10; i++) assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        test_expect_words(x, WORDS, 41 + 40 * both);
        rota_graph_release(graph);
        rota_plan_release(plan);
    }
    rota_buffer_release(x);
    close_pair(p);
}

/* While the first device is busy with a buffer, the second does not begin with it: inside a plan, and between
 * two. */
static void orders_hold_across(void **state) {
    (void)state;
    pair *p = open_pair(0);
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, 1), *y = test_words(p->devices[1], "y", WORDS, 1);
    test_node gated[] = {{&test_gate, "gate", {{x, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1},
                         {&test_increment, "then", {{x, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1}};
    test_node reads = {
        &test_copy, "reads", {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *first = test_plan(p->devices[0], "first", gated, 2),
              *second = test_plan(p->devices[1], "second", &reads, 1), *both;
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_access access = {x, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &test_gate, .accesses = &access,
                                                   .access_count = 1, .placement = {.device_plus_1 = 1}),
                                 NULL));
    increment(recorder, x, 1);
    rota_recorder_close(recorder);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = p->devices, .device_count = 2);
    assert_ok(rota_compile(p->runtime, graph, &options, &both));
    rota_graph_release(graph);
    for (uint32_t round = 0; round < 2; round++) {
        rota_ticket ticket;
        test_gate_open(false);
        if (round == 0) assert_ok(rota_submit_wait(first, NULL, 0, NULL));
        assert_ok(rota_submit_wait(round == 0 ? second : both, NULL, 0, &ticket));
        test_nap_ms(50);
        assert_int_equal(rota_poll(ticket), ROTA_BUSY);
        test_gate_open(true);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(round == 0 ? y : x, WORDS, 2 + round);
    }
    assert_int_equal(migrations(p), 0);
    rota_plan_release(first);
    rota_plan_release(second);
    rota_plan_release(both);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_pair(p);
}

/* Two devices that only say they share memory are two devices like any others. */
static void a_trial_that_fails(void **state) {
    (void)state;
    pair *p = open_pair(1);
    assert_non_null(strstr(p->told, "can't be imported"));
    assert_non_null(strstr(p->told, "through the host's"));
    uint64_t acquires = p->options.acquires; /* the trial's */
    rota_buffer *x = test_words(p->devices[1], "x", WORDS, 5), *y = test_buffer(p->runtime, "y", WORDS * 4),
                *slot;
    rota_plan *plan;
    rota_args *args;
    assert_ok(compile_both(p, x, &slot, &plan));
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_buffer(args, slot, y));
    assert_ok(rota_submit_wait(plan, args, 0, NULL));
    test_expect_words(y, WORDS, 9);
    assert_true(migrations(p) > 0);
    assert_int_equal(p->options.acquires, acquires);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_pair(p);
}

/* Each import of a compile and of a binding fails in turn: an error that names the buffer, and nothing is
 * changed. */
static void an_import_that_fails(void **state) {
    (void)state;
    pair *p = open_pair(0);
    rota_buffer *x = test_words(p->devices[1], "x", WORDS, 5), *y = test_words(p->devices[0], "y", WORDS, 1),
                *slot;
    rota_plan *plan;
    rota_args *args;
    uint32_t failed = 0;
    for (uint32_t nth = 1;; nth++) {
        p->options.faults.import_fails_in = nth;
        rota_status status = compile_both(p, x, &slot, &plan);
        if (status == ROTA_OK) break;
        assert_int_equal(status, ROTA_OUT_OF_MEMORY);
        if (nth == 1) assert_non_null(strstr(rota_last_error(), "memory of 'x' on device 'adversary:1'"));
        failed++;
    }
    assert_true(failed >= 1);
    assert_ok(rota_args_create(plan, &args));
    p->options.faults.import_fails_in = 1;
    assert_status(rota_args_set_buffer(args, slot, y), ROTA_OUT_OF_MEMORY);
    assert_non_null(strstr(rota_last_error(), "memory of 'y' on device 'adversary'"));
    assert_ok(rota_args_set_buffer(args, slot, y));
    assert_ok(rota_submit_wait(plan, args, 0, NULL));
    test_expect_words(y, WORDS, 9);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_pair(p);
}

/* One of the two is lost: the other keeps what both had, and goes on. */
static void a_lost_device(void **state) {
    (void)state;
    pair *p = open_pair(0);
    rota_buffer *shared = test_words(p->devices[0], "shared", WORDS, 1),
                *only = test_words(p->devices[0], "only", WORDS, 1),
                *other = test_words(p->devices[0], "other", WORDS, 1),
                *result = test_buffer(p->runtime, "result", WORDS * 4), *slot;
    rota_plan *both, *dies = test_plan_1(p->devices[0], "dies", &test_increment, other, ROTA_READWRITE),
                     *lives = test_plan_1(p->devices[1], "lives", &test_increment, shared, ROTA_READWRITE),
                     *needs = test_plan_1(p->devices[1], "needs", &test_increment, other, ROTA_READWRITE);
    rota_args *args;
    assert_ok(compile_both(p, shared, &slot, &both));
    assert_ok(rota_args_create(both, &args));
    assert_ok(rota_args_set_buffer(args, slot, result));
    rota_ticket ticket, lost, needing;
    assert_ok(rota_submit_wait(lives, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(only, WORDS, 1);
    p->options.faults.lost_in_works = 1;
    assert_ok(rota_submit_wait(dies, NULL, 0, NULL));
    rota_status status = rota_submit_wait(dies, NULL, 0, &lost);
    assert_ok(rota_submit_wait(needs, NULL, 0, &needing));
    if (status == ROTA_OK) assert_status(rota_wait(lost, 0), ROTA_DEVICE_LOST);
    /* What the lost device was to write before fails; the rest of the memory is as it was. */
    assert_status(rota_wait(needing, 0), ROTA_DEVICE_LOST);
    p->options.faults.lost_in_works = 0;
    for (uint32_t i = 0; i < 10; i++) assert_ok(rota_submit_wait(lives, NULL, 0, NULL));
    test_expect_words(shared, WORDS, 12);
    assert_ok(rota_submit_wait(both, args, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    /* A buffer that the other never had is gone; it gets memory of its own there, and can be written. */
    uint32_t word;
    assert_status(rota_buffer_read(only, 0, &word, 4), ROTA_DEVICE_LOST);
    rota_plan *late = test_plan_1(p->devices[1], "late", &test_increment, only, ROTA_READWRITE);
    assert_ok(rota_submit_wait(late, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 20;
    assert_ok(rota_buffer_write(only, p->devices[1], 0, words, sizeof words, NULL));
    assert_ok(rota_submit_wait(late, NULL, 0, NULL));
    test_expect_words(only, WORDS, 21);
    rota_args_release(args);
    rota_plan *plans[] = {both, dies, lives, needs, late};
    for (uint32_t i = 0; i < 5; i++) rota_plan_release(plans[i]);
    rota_buffer_release(shared);
    rota_buffer_release(only);
    rota_buffer_release(other);
    rota_buffer_release(result);
    close_after_loss(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_memory_for_both),     cmocka_unit_test(orders_hold_across),
        cmocka_unit_test(views_have_addresses),    cmocka_unit_test(three_share_one_memory),
        cmocka_unit_test(shared_memory_fits_both), cmocka_unit_test(adds_of_two_devices_are_ordered),
        cmocka_unit_test(a_trial_that_fails),      cmocka_unit_test(an_import_that_fails),
        cmocka_unit_test(a_lost_device),           cmocka_unit_test(apart_after_a_loss),
    };
    int failed = cmocka_run_group_tests_name("ordered by the host", tests, NULL, NULL);
    timelines = true;
    return failed + cmocka_run_group_tests_name("ordered by the devices", tests, NULL, NULL);
}
