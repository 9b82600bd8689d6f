/* Several devices: bytes follow their readers, orders hold across devices, staging, and devices that fail.
 * The adversary stands in for devices with memory of their own. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"

#define WORDS 2048u

typedef struct devices {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *cpu, *first, *second;
    test_hold hold;
} devices;

static devices *open_devices(bool unified, uint64_t timeout_ns) {
    devices *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->options.unified_host = unified;
    d->options.seed = 7;
    assert_ok(
        adversary_runtime_open(&d->options,
                               &ROTA_RUNTIME_OPTIONS(.timeout_ns = timeout_ns, .queues_per_device = 3,
                                                     .log = {test_hold_log, &d->hold, ROTA_LOG_WARNING}),
                               &d->runtime));
    assert_ok(rota_device_open(d->runtime, "cpu", &d->cpu));
    assert_ok(rota_device_open(d->runtime, "adversary", &d->first));
    assert_ok(rota_device_open(d->runtime, "adversary:1", &d->second));
    return d;
}

static void close_devices(devices *d, bool clean) {
    static devices *kept; /* an abandoned device goes on reading its options */
    rota_status status = rota_runtime_close(d->runtime, 5000000000u);
    if (clean) {
        assert_int_equal(status, ROTA_OK);
        assert_int_equal(d->options.violations, 0);
        assert_int_equal(d->options.live_memories, 0);
        assert_int_equal(d->options.live_programs, 0);
        assert_int_equal(d->options.live_instances, 0);
    }
    if (status == ROTA_OK) {
        free(d);
    } else {
        assert_null(kept);
        kept = d;
    }
}

/* Random plans on random devices over shared buffers, against a count kept on the host. */
static void bytes_follow_their_readers_on(bool unified) {
    devices *d = open_devices(unified, 20000000000u);
    rota_device *where[] = {d->cpu, d->first, d->second};
    enum { BUFFERS = 3 };
    rota_buffer *buffers[BUFFERS];
    rota_plan *increments[3][BUFFERS], *copies[3][BUFFERS];
    static uint32_t expected[BUFFERS][WORDS], read[WORDS];
    for (uint32_t b = 0; b < BUFFERS; b++) {
        buffers[b] = test_words(where[b], "shared", WORDS, b * 1000);
        for (uint32_t i = 0; i < WORDS; i++) expected[b][i] = b * 1000;
    }
    for (uint32_t v = 0; v < 3; v++)
        for (uint32_t b = 0; b < BUFFERS; b++) {
            increments[v][b] = test_plan_1(where[v], "inc", &test_increment, buffers[b], ROTA_READWRITE);
            test_node node = {&test_copy,
                              NULL,
                              {{buffers[b], 0, WORDS * 2, ROTA_READ},
                               {buffers[(b + 1) % BUFFERS], WORDS * 2, WORDS * 2, ROTA_WRITE}},
                              2};
            copies[v][b] = test_plan(where[v], "half", &node, 1);
        }
    uint64_t random = 11;
    for (uint32_t step = 0; step < 400; step++) {
        uint32_t v = (uint32_t)(test_random(&random) % 3), b = (uint32_t)(test_random(&random) % BUFFERS);
        uint32_t other = (b + 1) % BUFFERS;
        switch (test_random(&random) % 8) {
        case 0: {
            uint32_t words[100], first = (uint32_t)(test_random(&random) % (WORDS - 100));
            for (uint32_t i = 0; i < 100; i++) words[i] = expected[b][first + i] = step * 100 + i;
            assert_ok(rota_buffer_write(buffers[b], where[v], first * 4, words, sizeof words, NULL));
            break;
        }
        case 1:
            assert_ok(rota_buffer_read(buffers[b], 0, read, sizeof read));
            assert_memory_equal(read, expected[b], sizeof read);
            break;
        case 2:
        case 3:
            assert_ok(rota_submit_wait(copies[v][b], NULL, 0, NULL));
            memcpy(&expected[other][WORDS / 2], expected[b], WORDS * 2);
            break;
        default:
            assert_ok(rota_submit_wait(increments[v][b], NULL, 0, NULL));
            for (uint32_t i = 0; i < WORDS; i++) expected[b][i]++;
        }
    }
    for (uint32_t b = 0; b < BUFFERS; b++) {
        assert_ok(rota_buffer_read(buffers[b], 0, read, sizeof read));
        assert_memory_equal(read, expected[b], sizeof read);
    }
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(d->runtime, &stats);
    assert_true(stats.migrations > 50);
    assert_true(stats.migrated_bytes > stats.migrations * 64);
    for (uint32_t b = 0; b < BUFFERS; b++) {
        rota_buffer_release(buffers[b]);
        for (uint32_t v = 0; v < 3; v++) {
            rota_plan_release(increments[v][b]);
            rota_plan_release(copies[v][b]);
        }
    }
    close_devices(d, true);
}

static void bytes_follow_their_readers(void **state) {
    (void)state;
    bytes_follow_their_readers_on(false);
    bytes_follow_their_readers_on(true);
}

/* ---- Staging ---- */

static void inputs_and_outputs_are_staged(void **state) {
    (void)state;
    devices *d = open_devices(false, 20000000000u);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *in, *out;
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", WORDS * 4, &in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &out));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_access accesses[] = {{in, 0, ROTA_WHOLE, ROTA_READ}, {out, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses, .access_count = 2), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(d->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.name = "staged", .devices = &d->first, .device_count = 1,
                                                 .instances = 3, .arenas = 2, .transfer_queue = true),
                           &plan));
    rota_graph_release(graph);
    assert_ok(rota_args_create(plan, &args));
    enum { ROUNDS = 60 };
    uint32_t(*ins)[WORDS] = malloc(ROUNDS * sizeof *ins), (*outs)[WORDS] = calloc(ROUNDS, sizeof *outs);
    rota_ticket tickets[ROUNDS];
    assert_non_null(ins);
    assert_non_null(outs);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < WORDS; i++) ins[round][i] = round * WORDS + i;
        assert_ok(rota_args_set_input(args, in, ins[round], sizeof ins[round], false));
        assert_ok(rota_args_set_output(args, out, outs[round], sizeof outs[round]));
        assert_ok(rota_submit_wait(plan, args, 0, &tickets[round]));
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        assert_ok(rota_wait_inputs_taken(tickets[round], 0));
        uint32_t copy[WORDS];
        memcpy(copy, ins[round], sizeof copy);
        memset(ins[round], 0xee, sizeof ins[round]);
        assert_ok(rota_wait(tickets[round], 0));
        assert_memory_equal(outs[round], copy, sizeof copy);
    }
    free(ins);
    free(outs);
    rota_args_release(args);
    rota_plan_release(plan);
    close_devices(d, true);
}

/* A binding that fails on one of a plan's devices leaves what was bound before on all of them. */
typedef struct outcome {
    _Atomic uint32_t calls, status;
} outcome;

static void note_outcome(void *user, rota_status status, const char *message) {
    (void)message;
    outcome *o = user;
    ra_store_relaxed(&o->status, (uint32_t)status);
    (void)ra_fetch_add_seq_cst(&o->calls, 1);
}

/* Keeps the completer until close has told it to end. */
static void *hold_until_told_to_end(void *user) {
    devices *d = user;
    static _Atomic uint32_t never;
    while (!ra_load_acquire(&d->runtime->completing.stop))
        (void)rota_futex_wait(&never, 0, rota_deadline_after(100000u));
    test_hold_end(&d->hold);
    return NULL;
}

/* A submission that ended before close has ended for its callback too, though the completer, kept elsewhere,
 * hears of the callback before it hears of the outputs, and of both after it was told to end. */
static void callbacks_at_close_have_the_outcome(void **state) {
    (void)state;
    devices *d = open_devices(false, 20000000000u);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *out;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "late"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", 4, &out));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, out, 0, 4, 7, NULL));
    rota_recorder_close(recorder);
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_compile(d->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &d->first, .device_count = 1),
                           &plan));
    rota_graph_release(graph);
    assert_ok(rota_args_create(plan, &args));
    uint32_t value = 0;
    assert_ok(rota_args_set_output(args, out, &value, 4));
    rota_ticket first, second;
    rota_buffer *x = test_buffer(d->runtime, "x", 4);
    assert_ok(rota_buffer_write(x, d->cpu, 0, &value, 4, &first));
    assert_ok(rota_wait(first, 0));
    test_hold_begin(&d->hold, first);
    outcome o = {0};
    assert_ok(rota_runtime_lock_submission(d->runtime, true));
    assert_ok(rota_submit(plan, args, &second));
    assert_ok(rota_ticket_on_complete(second, note_outcome, &o));
    assert_ok(rota_runtime_lock_submission(d->runtime, false));
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(x);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold_until_told_to_end, d), 0);
    close_devices(d, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ra_load_seq_cst(&o.calls), 1);
    assert_int_equal(ra_load_relaxed(&o.status), ROTA_OK);
    assert_int_equal(value, 7);
}

static void a_failed_binding_changes_nothing(void **state) {
    (void)state;
    devices *d = open_devices(false, 20000000000u);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *slot;
    rota_plan *plan;
    rota_args *args;
    rota_ticket ticket;
    rota_device *both[] = {d->first, d->second};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "target", WORDS * 4, &slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 2; i++) {
        rota_access access = {slot, 0, ROTA_WHOLE, ROTA_READWRITE};
        assert_ok(
            rota_record_kernel(recorder,
                               &ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &access,
                                                 .access_count = 1, .placement = {.device_plus_1 = i + 1}),
                               NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(d->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.name = "two", .devices = both, .device_count = 2), &plan));
    rota_graph_release(graph);
    rota_buffer *bound = test_words(d->first, "bound", WORDS, 10),
                *other = test_words(d->first, "other", WORDS, 50);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_buffer(args, slot, bound));
    d->options.faults.memory_fails_in = 1; /* `other` has memory on the first device only */
    assert_status(rota_args_set_buffer(args, slot, other), ROTA_OUT_OF_MEMORY);
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(bound, WORDS, 12);
    test_expect_words(other, WORDS, 50);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(bound);
    rota_buffer_release(other);
    close_devices(d, true);
}

/* ---- Devices that fail ---- */

static void a_lost_device_fails_what_needs_it(void **state) {
    (void)state;
    devices *d = open_devices(false, 3000000000u);
    rota_buffer *lost = test_words(d->first, "lost", WORDS, 1), *safe = test_words(d->cpu, "safe", WORDS, 1);
    rota_plan *on_lost = test_plan_1(d->first, "on lost", &test_increment, lost, ROTA_READWRITE);
    rota_plan *on_cpu = test_plan_1(d->cpu, "on cpu", &test_increment, safe, ROTA_READWRITE);
    rota_plan *needs = test_plan_1(d->cpu, "needs it", &test_increment, lost, ROTA_READWRITE);
    rota_ticket tickets[20], needing;
    rota_ticket good;
    assert_ok(rota_submit_wait(on_lost, NULL, 0, &good));
    assert_ok(rota_wait(good, 0));
    d->options.faults.lost_in_works = 1;
    uint32_t accepted = 0;
    for (int i = 0; i < 20; i++)
        if (rota_submit_wait(on_lost, NULL, 0, &tickets[accepted]) == ROTA_OK) accepted++;
    assert_true(accepted > 0);
    assert_ok(rota_submit_wait(needs, NULL, 0, &needing));
    uint64_t start = rota_clock_ns();
    assert_status(rota_wait(tickets[accepted - 1], 0), ROTA_DEVICE_LOST);
    assert_non_null(strstr(rota_last_error(), "'adversary'"));
    assert_status(rota_wait(needing, 0), ROTA_DEVICE_LOST);
    assert_true(rota_clock_ns() - start < 10000000000u);
    uint32_t word;
    assert_status(rota_buffer_read(lost, 0, &word, 4), ROTA_DEVICE_LOST);
    /* What was complete stays complete; other devices go on. */
    assert_ok(rota_poll(good));
    for (int i = 0; i < 10; i++) assert_ok(rota_submit_wait(on_cpu, NULL, 0, NULL));
    test_expect_words(safe, WORDS, 11);
    d->options.faults.lost_in_works = 0; /* the other adversary's too */
    rota_buffer *fresh = test_words(d->second, "fresh", WORDS, 4);
    test_expect_words(fresh, WORDS, 4);
    assert_status(rota_submit(on_lost, NULL, &tickets[0]) == ROTA_OK ? rota_wait(tickets[0], 0)
                                                                     : ROTA_DEVICE_LOST,
                  ROTA_DEVICE_LOST);
    rota_plan *plans[] = {on_lost, on_cpu, needs};
    for (int i = 0; i < 3; i++) rota_plan_release(plans[i]);
    rota_buffer_release(lost);
    rota_buffer_release(safe);
    rota_buffer_release(fresh);
    close_devices(d, false);
}

/* A device that falls silent: waits end at their deadline, and one that waits for it on the host is not stuck
 * for ever. */
static void a_silent_device_meets_the_deadline(void **state) {
    (void)state;
    devices *d = open_devices(false, 500000000u);
    rota_buffer *quiet = test_words(d->first, "quiet", WORDS, 1);
    rota_plan *on_quiet = test_plan_1(d->first, "on quiet", &test_increment, quiet, ROTA_READWRITE);
    rota_plan *needs = test_plan_1(d->cpu, "needs it", &test_increment, quiet, ROTA_READWRITE);
    test_expect_words(quiet, WORDS, 1);
    rota_ticket ticket, needing;
    d->options.faults.silent = true;
    assert_ok(rota_submit_wait(on_quiet, NULL, 0, &ticket));
    test_sequenced(ticket);
    uint64_t start = rota_clock_ns();
    rota_status status = rota_wait(ticket, 100000000u);
    assert_int_equal(status, ROTA_TIMEOUT); /* nobody waits for the device yet that would give it up */
    assert_non_null(strstr(rota_last_error(), "plan 'on quiet'"));
    assert_ok(rota_submit_wait(needs, NULL, 0, &needing));
    status = rota_wait(needing, 20000000000u);
    assert_int_equal(status, ROTA_DEVICE_LOST);
    assert_true(rota_clock_ns() - start < 15000000000u);
    rota_buffer *safe = test_words(d->cpu, "safe", WORDS, 1);
    test_expect_words(safe, WORDS, 1);
    rota_buffer_release(safe);
    rota_plan_release(on_quiet);
    rota_plan_release(needs);
    rota_buffer_release(quiet);
    close_devices(d, false);
}

static void allocation_failures_are_errors(void **state) {
    (void)state;
    for (uint32_t nth = 1; nth <= 6; nth++) {
        adversary_options *options = calloc(1, sizeof *options);
        assert_non_null(options);
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(adversary_runtime_open(options, NULL, &runtime));
        options->faults.memory_fails_in = nth;
        rota_status status = rota_device_open(runtime, "adversary", &device);
        assert_true(status == ROTA_OK || status == ROTA_OUT_OF_MEMORY || status == ROTA_REFUSED);
        if (status != ROTA_OK) {
            assert_true(strlen(rota_last_error()) > 10);
            options->faults.memory_fails_in = 0;
            assert_ok(rota_device_open(runtime, "cpu", &device)); /* another device can still be used */
        }
        assert_ok(rota_runtime_close(runtime, 2000000000u));
        free(options);
    }
}

/* ---- A Vulkan device, where there is one: it is not asked before each node, so hand-over decides ---- */

static void failures_reach_a_gpu(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *cpu, *gpu;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    if (rota_device_open(runtime, "vk:0", &gpu) != ROTA_OK) {
        print_message("skipped: no Vulkan device: %s\n", rota_last_error());
        assert_ok(rota_runtime_close(runtime, 0));
        skip();
    }
    rota_buffer *a = test_words(cpu, "a", WORDS, 1), *b = test_words(gpu, "b", WORDS, 2);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *on_gpu, *fails = test_plan_1(cpu, "fails", &test_failing, a, ROTA_WRITE);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, b, 0, a, 0, WORDS * 4, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.name = "on gpu", .devices = &gpu, .device_count = 1),
                           &on_gpu));
    rota_graph_release(graph);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(on_gpu, NULL, 0, NULL));
    test_expect_words(b, WORDS, 1);
    test_fail = 1;
    assert_ok(rota_submit_wait(fails, NULL, 0, NULL));
    assert_ok(rota_submit_wait(on_gpu, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "plan 'fails'"));
    uint32_t word;
    assert_status(rota_buffer_read(b, 0, &word, 4), ROTA_NODE_FAILED);
    test_fail = 0;
    assert_ok(rota_submit_wait(fails, NULL, 0, NULL));
    assert_ok(rota_submit_wait(on_gpu, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(b, WORDS, 7);
    rota_plan_release(on_gpu);
    rota_plan_release(fails);
    rota_buffer_release(a);
    rota_buffer_release(b);
    assert_ok(rota_runtime_close(runtime, 0));
}

/* ---- Closed while one device is at another's memory ---- */

static rota_plan *filling(rota_device *device, rota_buffer *buffer, uint64_t bytes) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, buffer, 0, bytes, 6, NULL));
    rota_recorder_close(recorder);
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "filling", .devices = &device, .device_count = 1);
    assert_ok(rota_compile(rota_device_runtime(device), graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

/* The CPU takes over what a GPU wrote, and the runtime is closed after a part of the time that this takes, in
 * parts per mille; -1: when it is over. Returns the time. False: there is no Vulkan device. */
static bool close_while_taking(int32_t mille, uint64_t *time_ns) {
    enum { BYTES = 64 << 20 };
    rota_runtime *runtime;
    rota_device *cpu, *gpu;
    rota_ticket ticket;
    assert_ok(rota_runtime_open(NULL, &runtime));
    if (rota_device_open(runtime, "vk:0", &gpu) != ROTA_OK) {
        print_message("skipped: no Vulkan device: %s\n", rota_last_error());
        assert_ok(rota_runtime_close(runtime, 0));
        return false;
    }
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    rota_buffer *far = test_buffer(runtime, "far", BYTES);
    rota_plan *fill = filling(gpu, far, BYTES),
              *taking = test_plan_1(cpu, "taking", &test_increment, far, ROTA_READWRITE);
    assert_ok(rota_submit_wait(fill, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    uint64_t begin = rota_clock_ns();
    assert_ok(rota_submit_wait(taking, NULL, 0, &ticket));
    if (mille < 0) {
        assert_ok(rota_wait(ticket, 0));
        *time_ns = rota_clock_ns() - begin;
    } else {
        static _Atomic uint32_t never;
        (void)rota_futex_wait(&never, 0, begin + *time_ns * (uint64_t)mille / 1000);
    }
    rota_status status = rota_runtime_close(runtime, 1);
    assert_true(status == ROTA_OK || (status == ROTA_TIMEOUT && mille >= 0));
    rota_plan_release(fill);
    rota_plan_release(taking);
    rota_buffer_release(far);
    return true;
}

/* The executors end, in an order in which none has its source taken away in the middle of a copy. */
static void closed_while_bytes_are_taken_over(void **state) {
    (void)state;
    uint64_t time_ns = 0;
    if (!close_while_taking(-1, &time_ns)) skip();
    for (int32_t mille = 200; mille < 1000; mille += 100) assert_true(close_while_taking(mille, &time_ns));
}

typedef enum lending { LENDS_NOT, LENDS, LENDS_AND_IS_STUCK, LENDING } lending;

/* A kernel on the CPU does not end. Where what it belongs to also has staging memory of the other device,
 * that one is left as well, whether it is through or not, and else closed. */
static void who_lends_memory_is_left(void **state) {
    (void)state;
    for (lending how = LENDS_NOT; how < LENDING; how++) {
        static devices kept[LENDING]; /* an abandoned device goes on reading its options */
        devices *d = &kept[how];
        assert_ok(adversary_runtime_open(&d->options, NULL, &d->runtime));
        assert_ok(rota_device_open(d->runtime, "adversary", &d->first));
        assert_ok(rota_device_open(d->runtime, "cpu", &d->cpu));
        rota_buffer *far = test_words(d->first, "far", WORDS, 3),
                    *near = test_words(d->cpu, "near", WORDS, 4),
                    *other = test_words(d->first, "other", WORDS, 5);
        rota_plan *gate =
                      test_plan_1(d->cpu, "gate", &test_gate, how == LENDS_NOT ? near : far, ROTA_READWRITE),
                  *stuck = test_plan_1(d->first, "stuck", &test_increment, other, ROTA_READWRITE);
        test_expect_words(far, WORDS, 3);
        test_expect_words(other, WORDS, 5);
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        test_gates_running(1);
        if (how == LENDS_AND_IS_STUCK) {
            d->options.faults.silent = true;
            rota_ticket ticket;
            assert_ok(rota_submit_wait(stuck, NULL, 0, &ticket));
            test_sequenced(ticket); /* it is to be taken */
        }
        assert_status(rota_runtime_close(d->runtime, 100000000u), ROTA_TIMEOUT);
        assert_non_null(strstr(rota_last_error(), "'cpu'"));
        assert_int_equal(strstr(rota_last_error(), "'adversary'") != NULL, how == LENDS_AND_IS_STUCK);
        assert_int_equal(d->options.closes, how == LENDS_NOT);
        rota_plan_release(gate);
        rota_plan_release(stuck);
        rota_buffer_release(far);
        rota_buffer_release(near);
        rota_buffer_release(other);
        test_gate_open(true);
        test_gates_running(0);
        assert_int_equal(d->options.violations, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_follow_their_readers),
        cmocka_unit_test(inputs_and_outputs_are_staged),
        cmocka_unit_test(callbacks_at_close_have_the_outcome),
        cmocka_unit_test(a_failed_binding_changes_nothing),
        cmocka_unit_test(a_lost_device_fails_what_needs_it),
        cmocka_unit_test(a_silent_device_meets_the_deadline),
        cmocka_unit_test(allocation_failures_are_errors),
        cmocka_unit_test(failures_reach_a_gpu),
        cmocka_unit_test(closed_while_bytes_are_taken_over),
        cmocka_unit_test(who_lends_memory_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
