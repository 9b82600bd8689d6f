/* P9 where the memory ends in which failures are noted: what depends on them fails all the same; and a CPU
 * device that finds no memory for its works. Linked with --wrap for malloc, calloc and realloc. */
#include "tests/kit/runtime_support.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

/* Blocks of this size are refused to malloc, and to realloc; 0: none. */
static _Atomic size_t refused_bytes, refused_growth;
/* Not NULL: only where its marks are made, as other blocks may be as large. */
static _Atomic(rota_runtime *) refused_marks_of;
static _Atomic uint32_t refusals;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

/* Of the allocations that threads other than the test's make, the one that takes this to 0 is refused, and
 * with `refuses_rest` all after it. */
static _Atomic uint32_t refused_in;
static _Atomic bool refuses_rest;
static _Thread_local bool is_test;
/* Records of submissions: asked for, and refused. */
static _Atomic uint32_t records, records_refused;

static bool is_refused(void) {
    uint32_t left = is_test ? 0 : refused_in;
    while (left &&
           !atomic_compare_exchange_weak(&refused_in, &left, refuses_rest && left == 1 ? 1 : left - 1)) {
    }
    return left == 1;
}

static bool is_of_marks(void) {
    rota_runtime *runtime = refused_marks_of;
    if (!runtime || pthread_mutex_trylock(&runtime->failed.mutex) != 0) return true;
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
    return false;
}

void *__wrap_malloc(size_t bytes) {
    if (refused_in && is_refused()) return NULL;
    if (bytes == 0 || bytes != refused_bytes || !is_of_marks()) return __real_malloc(bytes);
    refusals++;
    return NULL;
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return refused_in && is_refused() ? NULL : __real_calloc(count, bytes);
}

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    const bool is_record = alignment == 64 && bytes == (sizeof(rota_submission) + 63) / 64 * 64,
               refused = refused_in && is_refused();
    records += is_record;
    records_refused += is_record && refused;
    return refused ? NULL : __real_aligned_alloc(alignment, bytes);
}

void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

void *__wrap_realloc(void *block, size_t bytes) {
    if (bytes == 0 || bytes != refused_growth) return __real_realloc(block, bytes);
    refusals++;
    return NULL;
}

static void refuse(size_t bytes) {
    if (bytes == 0) refused_marks_of = NULL;
    refusals = 0;
    refused_bytes = bytes;
}

#define WORDS 16u
#define RANGES (ROTA_POISON_RESERVE + 4)

typedef struct failing_ranges {
    rota_buffer *buffers[RANGES];
    rota_plan *plans[RANGES];
    rota_ticket tickets[RANGES];
} failing_ranges;

static void ranges_make(failing_ranges *r, rota_device *device) {
    for (uint32_t i = 0; i < RANGES; i++) {
        r->buffers[i] = test_words(device, "range", WORDS, 1);
        r->plans[i] = test_plan_1(device, "fails", &test_failing, r->buffers[i], ROTA_WRITE);
    }
}

static void ranges_fail(failing_ranges *r, uint32_t count) {
    test_fail = 1;
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(rota_submit_wait(r->plans[i], NULL, 0, &r->tickets[i]));
        assert_status(rota_wait(r->tickets[i], 0), ROTA_NODE_FAILED);
    }
    test_fail = 0;
}

static void ranges_release(failing_ranges *r) {
    for (uint32_t i = 0; i < RANGES; i++) {
        rota_plan_release(r->plans[i]);
        rota_buffer_release(r->buffers[i]);
    }
}

/* As many as the reserve holds are marked as ever, healed, and marked again. */
static void the_reserve_marks_and_heals(void **state) {
    runtime_fixture *f = *state;
    failing_ranges r;
    ranges_make(&r, f->device);
    rota_buffer *alone = test_words(f->device, "alone", WORDS, 3);
    refused_marks_of = f->runtime;
    refuse(sizeof(rota_mark));
    for (uint32_t round = 0; round < 3; round++) {
        ranges_fail(&r, ROTA_POISON_RESERVE);
        assert_true(refusals >= ROTA_POISON_RESERVE);
        uint32_t word;
        for (uint32_t i = 0; i < ROTA_POISON_RESERVE; i++)
            assert_status(rota_buffer_read(r.buffers[i], 0, &word, 4), ROTA_NODE_FAILED);
        test_expect_words(alone, WORDS, 3);
        for (uint32_t i = 0; i < ROTA_POISON_RESERVE; i++) {
            assert_ok(rota_submit_wait(r.plans[i], NULL, 0, NULL));
            test_expect_words(r.buffers[i], WORDS, 7);
        }
    }
    refuse(0);
    rota_buffer_release(alone);
    ranges_release(&r);
}

/* Beyond the reserve nobody knows which bytes are good: all reads fail, what only writes goes on. */
static void what_cannot_be_marked_fails_all_reads(void **state) {
    runtime_fixture *f = *state;
    failing_ranges r;
    ranges_make(&r, f->device);
    rota_buffer *alone = test_words(f->device, "alone", WORDS, 3);
    rota_plan *adds = test_plan_1(f->device, "adds", &test_increment, alone, ROTA_READWRITE);
    rota_plan *writes = test_plan_1(f->device, "writes", &test_failing, alone, ROTA_WRITE);
    rota_ticket ticket;
    refused_marks_of = f->runtime;
    refuse(sizeof(rota_mark));
    ranges_fail(&r, RANGES);
    refuse(0);
    uint32_t word;
    for (uint32_t i = 0; i < RANGES; i++) {
        rota_status status = rota_buffer_read(r.buffers[i], 0, &word, 4);
        assert_int_equal(status, i < ROTA_POISON_RESERVE ? ROTA_NODE_FAILED : ROTA_OUT_OF_MEMORY);
        assert_non_null(strstr(rota_last_error(), "node 'failing'"));
    }
    assert_status(rota_buffer_read(alone, 0, &word, 4), ROTA_OUT_OF_MEMORY);
    assert_ok(rota_submit_wait(adds, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_OUT_OF_MEMORY);
    assert_ok(rota_submit_wait(writes, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(adds);
    rota_plan_release(writes);
    rota_buffer_release(alone);
    ranges_release(&r);
}

/* The runtime after it knows nothing of that. */
static void another_runtime_reads(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *a = test_words(f->device, "a", WORDS, 5);
    test_expect_words(a, WORDS, 5);
    rota_buffer_release(a);
}

/* A node is found among its plan's commands though they could not be sorted. */
static void commands_need_no_sorting(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *a = test_words(f->device, "a", WORDS, 1), *b = test_words(f->device, "b", WORDS, 2);
    test_node nodes[] = {
        {&test_failing, "breaks", {{a, 0, ROTA_WHOLE, ROTA_WRITE}}, 1},
        {&test_copy, "depends", {{a, 0, ROTA_WHOLE, ROTA_READ}, {b, 0, ROTA_WHOLE, ROTA_WRITE}}, 2},
    };
    rota_plan *plan = test_plan(f->device, "both", nodes, 2);
    rota_ticket ticket;
    uint32_t word;
    test_fail = 1;
    refuse(2 * sizeof(rota_exec_command *));
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    assert_true(refusals > 0);
    test_fail = 0;
    assert_status(rota_buffer_read(a, 0, &word, 4), ROTA_NODE_FAILED);
    assert_status(rota_buffer_read(b, 0, &word, 4), ROTA_NODE_FAILED);
    assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    test_expect_words(b, WORDS, 7);
    refuse(0);
    rota_plan_release(plan);
    rota_buffer_release(a);
    rota_buffer_release(b);
}

/* A runtime in which one replay runs in test_gate's kernel, and another that is submitted then finds no
 * memory for its block in the executor. */
#define HELD_BYTES (64u << 20)
typedef struct unlucky {
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *held;
    rota_plan *runs;
    rota_ticket running, refused;
} unlucky;

static void unlucky_make(unlucky *u) {
    enum { SLOTS = 11 }; /* more than a work has room for */
    static const rota_runtime_options options = {
        .struct_size = sizeof(rota_runtime_options), .worker_threads = 3, .timeout_ns = 20000000000u};
    assert_ok(rota_runtime_open(&options, &u->runtime));
    assert_ok(rota_device_open(u->runtime, "cpu", &u->device));
    u->held = test_buffer(u->runtime, "held", HELD_BYTES);
    u->runs = test_plan_1(u->device, "runs", &test_gate, u->held, ROTA_WRITE);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *slots[SLOTS], *bound[SLOTS];
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_SLOT, "slot", WORDS * 4, &slots[i]));
        const rota_access access = {slots[i], 0, ROTA_WHOLE, ROTA_READWRITE};
        const rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &test_increment, .name = "add",
                                                       .accesses = &access, .access_count = 1);
        assert_ok(rota_record_kernel(recorder, &node, NULL));
    }
    rota_recorder_close(recorder);
    const rota_compile_options compile = ROTA_COMPILE_OPTIONS(.devices = &u->device, .device_count = 1);
    assert_ok(rota_compile(u->runtime, graph, &compile, &plan));
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t i = 0; i < SLOTS; i++) {
        bound[i] = test_words(u->device, "bound", WORDS, i);
        assert_ok(rota_args_set_buffer(args, slots[i], bound[i]));
    }
    test_gate_open(false);
    assert_ok(rota_submit(u->runs, NULL, &u->running));
    test_gates_running(1);
    refusals = 0;
    refused_growth = SLOTS * sizeof(uint64_t);
    assert_ok(rota_submit(plan, args, &u->refused));
    /* Neither ends while the kernel may still touch the caller's memory. */
    assert_status(rota_wait(u->refused, 100000000u), ROTA_TIMEOUT);
    assert_status(rota_poll(u->running), ROTA_BUSY);
    assert_true(refusals > 0);
    refused_growth = 0;
    for (uint32_t i = 0; i < SLOTS; i++) rota_buffer_release(bound[i]);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_release(graph);
}

/* What a kernel still has is not freed: close says what it left. */
static void a_running_kernel_keeps_its_memory(void **state) {
    (void)state;
    unlucky u;
    unlucky_make(&u);
    rota_plan_release(u.runs);
    rota_buffer_release(u.held);
    uint32_t abandoned = rota_devices_abandoned();
    assert_status(rota_runtime_close(u.runtime, 100000000u), ROTA_TIMEOUT);
    assert_int_equal(rota_devices_abandoned(), abandoned + 1);
    const char *says = rota_last_error(), *left = strstr(says, " bytes are abandoned");
    assert_non_null(strstr(says, "'cpu'"));
    assert_non_null(left);
    while (left > says && left[-1] >= '0' && left[-1] <= '9') left--;
    assert_true(strtoull(left, NULL, 10) >= HELD_BYTES);
    test_gates_running(1);
    test_gate_open(true);
    test_gates_running(0);
}

/* Once the kernel has ended nothing of the device runs, and close finds nothing to leave. */
static void a_lost_device_comes_to_rest(void **state) {
    (void)state;
    unlucky u;
    unlucky_make(&u);
    rota_plan_release(u.runs);
    rota_buffer_release(u.held);
    test_gate_open(true);
    assert_status(rota_wait(u.refused, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(u.running, 0), ROTA_DEVICE_LOST);
    test_gates_running(0);
    uint32_t abandoned = rota_devices_abandoned();
    assert_ok(rota_runtime_close(u.runtime, 20000000000u));
    assert_int_equal(rota_devices_abandoned(), abandoned);
}

/* ---- Any allocation ---- */

typedef struct outcome {
    rota_ticket ticket;
    rota_buffer *buffer;
    uint32_t value; /* of every word, where it did not fail */
} outcome;

/* What failed is not read as good, and what is read as good is right. */
static void expect_outcome(const outcome *o, bool needs_failure, const char *when) {
    uint32_t words[WORDS];
    const rota_status ticket = rota_wait(o->ticket, 0);
    const rota_status read = rota_buffer_read(o->buffer, 0, words, sizeof words);
    if (ticket == ROTA_OK && needs_failure) fail_msg("%s: what it read failed, and it is OK", when);
    if (read == ROTA_OK && ticket != ROTA_OK)
        fail_msg("%s: the ticket is %s, and '%s' is read as %u", when, rota_status_name(ticket),
                 rota_buffer_name(o->buffer), words[0]);
    if (read == ROTA_OK && words[WORDS - 1] != o->value)
        fail_msg("%s: '%s' is read as %u, expected %u", when, rota_buffer_name(o->buffer), words[WORDS - 1],
                 o->value);
}

/* How many were made so far, all of which lie there to be used again: a write of the test's own that ended later would
 * give one to whom it is to be refused. */
static uint32_t records_that_there_are(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    const uint64_t deadline = rota_deadline_after(20000000000u);
    do {
        rota_sequencer_reap_now(runtime);
        assert_ok(rota_runtime_get_stats(runtime, &stats));
    } while (stats.completed < stats.submissions && rota_clock_ns() < deadline);
    assert_int_equal(stats.completed, stats.submissions);
    return records;
}

/* A write, a plan that overwrites and one that reads what that wrote are submitted while the allocation of
 * this number, or that one and all others, are refused. Records of submissions run out before, as some are in
 * flight. True: there were so many allocations. */
static bool refuse_allocation(uint32_t number, bool all) {
    char when[64];
    (void)snprintf(when, sizeof when, "allocation %u%s", number, all ? " and all others" : "");
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(
        rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 3, .timeout_ns = 20000000000u), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *held = test_words(device, "held", WORDS, 1), *x = test_words(device, "x", WORDS, 1),
                *y = test_words(device, "y", WORDS, 2), *w = test_words(device, "w", WORDS, 3);
    test_node node = {&test_copy, NULL, {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, held, ROTA_READWRITE),
              *writes = test_plan_1(device, "writes", &test_failing, x, ROTA_WRITE),
              *copies = test_plan(device, "copies", &node, 1);
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 4;
    test_expect_words(w, WORDS, 3);
    test_gate_open(false);
    rota_ticket ticket;
    uint64_t sequenced = 0;
    const uint32_t before = records_that_there_are(runtime);
    for (uint32_t i = 0; i < 1000 && records == before; i++) {
        assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
        while (rota_ticket_number(ticket, &sequenced) == ROTA_BUSY) sched_yield();
    }
    assert_true(records > before);
    test_gates_running(1);
    outcome outcomes[] = {{.buffer = x, .value = 7}, {.buffer = y, .value = 7}, {.buffer = w, .value = 4}};
    refuses_rest = all;
    refused_in = number;
    assert_ok(rota_submit_wait(writes, NULL, 0, &outcomes[0].ticket));
    assert_ok(rota_submit_wait(copies, NULL, 0, &outcomes[1].ticket));
    const bool wrote = rota_buffer_write(w, device, 0, words, sizeof words, &outcomes[2].ticket) == ROTA_OK;
    for (uint32_t i = 0; i < 2u + wrote; i++)
        while (rota_ticket_number(outcomes[i].ticket, &sequenced) == ROTA_BUSY) sched_yield();
    test_gate_open(true);
    for (uint32_t i = 0; i < 2u + wrote; i++) (void)rota_wait(outcomes[i].ticket, 0);
    const bool happened = refused_in == 0 || (all && refused_in == 1);
    refused_in = 0;
    const bool fails = rota_poll(outcomes[0].ticket) != ROTA_OK;
    for (uint32_t i = 0; i < 2u + wrote; i++) expect_outcome(&outcomes[i], i == 1 && fails, when);
    rota_plan_release(gate);
    rota_plan_release(writes);
    rota_plan_release(copies);
    rota_buffer *buffers[] = {held, x, y, w};
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(runtime, 20000000000u));
    return happened;
}

static void failures_travel_whichever_allocation_fails(void **state) {
    (void)state;
    is_test = true;
    for (uint32_t all = 0; all < 2; all++) {
        records_refused = 0;
        uint32_t number = 1;
        while (refuse_allocation(number, all) && number < 200) number++;
        assert_in_range(number, 4, 199);
        assert_true(records_refused > 0);
    }
    is_test = false;
}

/* ---- A failed replay over memory that others are still to write ---- */

typedef struct to_host {
    rota_buffer *from, *output;
    rota_plan *plan;
} to_host;

/* Its OUTPUT is what is in `from` once the gate is open. */
static to_host plan_to_host(rota_device *device, rota_buffer *from, bool gated) {
    to_host t = {.from = from};
    rota_graph *graph;
    rota_recorder *recorder;
    const rota_access access = {from, 0, ROTA_WHOLE, ROTA_READWRITE};
    const rota_kernel_node gate =
        ROTA_KERNEL_NODE(.kernel = &test_gate, .accesses = &access, .access_count = 1);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &t.output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    if (gated) assert_ok(rota_record_kernel(recorder, &gate, NULL));
    assert_ok(rota_record_copy(recorder, t.output, 0, from, 0, WORDS * 4, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &t.plan));
    rota_graph_release(graph);
    return t;
}

static rota_ticket submit_to(const to_host *t, uint32_t *memory) {
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_args_create(t->plan, &args));
    assert_ok(rota_args_set_output(args, t->output, memory, WORDS * 4));
    assert_ok(rota_submit_wait(t->plan, args, 0, &ticket));
    rota_args_release(args);
    return ticket;
}

static void count_end(void *user, rota_status status, const char *message) {
    (void)message;
    if (status != ROTA_OK) (*(_Atomic uint32_t *)user)++;
}

/* An older replay will write the memory; one that reads what nothing wrote is submitted while the allocation
 * of this number, or that one and all others, are refused. True: there were so many allocations. */
static bool refuse_order(uint32_t number, bool all) {
    rota_runtime *runtime;
    rota_device *device;
    static _Atomic uint32_t ended;
    uint32_t memory[WORDS] = {0};
    assert_ok(
        rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 3, .timeout_ns = 20000000000u), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    to_host older = plan_to_host(device, test_words(device, "from", WORDS, 5), true),
            fails = plan_to_host(device, test_buffer(runtime, "never written", WORDS * 4), false);
    test_gate_open(false);
    rota_ticket first = {NULL, 0};
    uint64_t sequenced;
    const uint32_t before = records_that_there_are(runtime);
    for (uint32_t i = 0; i < 1000 && records == before; i++) {
        first = submit_to(&older, memory);
        while (rota_ticket_number(first, &sequenced) == ROTA_BUSY) sched_yield();
    }
    assert_true(records > before);
    rota_sequencer_reap_now(runtime); /* and what it sequenced is handed over, too */
    test_gates_running(1);
    ended = 0;
    refuses_rest = all;
    refused_in = number;
    rota_ticket failed = submit_to(&fails, memory);
    while (rota_ticket_number(failed, &sequenced) == ROTA_BUSY) sched_yield();
    rota_sequencer_reap_now(runtime);
    const bool happened = refused_in == 0 || (all && refused_in == 1);
    refused_in = 0;
    const rota_status status = rota_poll(failed);
    if (status != ROTA_BUSY)
        fail_msg("allocation %u%s: %s while an older replay is to write its memory", number,
                 all ? " and all others" : "", rota_status_name(status));
    assert_ok(rota_ticket_on_complete(failed, count_end, &ended));
    test_gate_open(true);
    assert_int_not_equal(rota_wait(failed, 0), ROTA_OK);
    assert_int_not_equal(rota_poll(failed), ROTA_BUSY);
    assert_ok(rota_poll(first));
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(memory[i], 5);
    rota_plan_release(older.plan);
    rota_plan_release(fails.plan);
    rota_buffer_release(older.from);
    rota_buffer_release(fails.from);
    assert_ok(rota_runtime_close(runtime, 20000000000u));
    assert_int_equal(ended, 1);
    return happened;
}

static void a_failed_ticket_ends_in_its_turn_without_memory(void **state) {
    (void)state;
    is_test = true;
    for (uint32_t all = 0; all < 2; all++) {
        records_refused = 0;
        uint32_t number = 1;
        while (refuse_order(number, all) && number < 200) number++;
        assert_in_range(number, 4, 199);
        assert_true(records_refused > 0);
    }
    is_test = false;
}

#define RUNTIME_TEST(name) cmocka_unit_test_setup_teardown(name, runtime_setup, runtime_teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        RUNTIME_TEST(the_reserve_marks_and_heals),
        RUNTIME_TEST(what_cannot_be_marked_fails_all_reads),
        RUNTIME_TEST(another_runtime_reads),
        RUNTIME_TEST(commands_need_no_sorting),
        cmocka_unit_test(a_running_kernel_keeps_its_memory),
        cmocka_unit_test(a_lost_device_comes_to_rest),
        cmocka_unit_test(failures_travel_whichever_allocation_fails),
        cmocka_unit_test(a_failed_ticket_ends_in_its_turn_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
