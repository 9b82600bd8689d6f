/* Times of a replay on the host (diagnostics): they are those of the replay, whenever they are asked for. */
#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/end_times.h"
#include "sched/runtime/shared/runtime.h"

#define WORDS 64u
#define LATER_MS 100

/* The thread sanitizer does not see into drivers. */
#ifdef __SANITIZE_THREAD__
#define HAS_VULKAN false
#else
#define HAS_VULKAN true
#endif

/* False: there is no such device. */
static bool open_device(const char *id, rota_runtime **out_runtime, rota_device **out_device) {
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.diagnostics = true, .timeout_ns = 20000000000u);
    if (strcmp(id, "vk:0") == 0 && !HAS_VULKAN) return false;
    assert_ok(rota_runtime_open(&options, out_runtime));
    if (rota_device_open(*out_runtime, id, out_device) == ROTA_OK) return true;
    print_message("skipped: %s\n", rota_last_error());
    assert_ok(rota_runtime_close(*out_runtime, 0));
    return false;
}

/* A plan that fills a buffer and, where an output is asked for, copies it there. */
static rota_plan *fill_plan(rota_device *device, const char *name, rota_buffer *buffer,
                            rota_buffer **out_output) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.name = name, .devices = &device, .device_count = 1);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &graph));
    if (out_output) assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, out_output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, buffer, 0, ROTA_WHOLE, 7, NULL));
    if (out_output) assert_ok(rota_record_copy(recorder, *out_output, 0, buffer, 0, ROTA_WHOLE, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(device->runtime, graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

static rota_plan *copy_plan(rota_device *device, const char *name, rota_buffer *from, rota_buffer *to) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.name = name, .devices = &device, .device_count = 1);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, to, 0, from, 0, ROTA_WHOLE, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(device->runtime, graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

/* Longer than the sequencer looks before it sleeps. */
static rota_status take_long(const rota_kernel_call *call) {
    (void)call;
    test_nap_ms(5);
    return ROTA_OK;
}
static const rota_kernel slow = {.name = "slow", .operand_count = 1, .cpu = {.fn = take_long}};

static rota_plan_replay replay_of(rota_plan *plan) {
    rota_plan_time times[8];
    rota_plan_replay replay = ROTA_PLAN_REPLAY();
    assert_ok(rota_plan_command_times(plan, times, 8, &replay));
    return replay;
}

/* Replays it, asks long afterwards, and wants all of it between the submission and the end of the wait. */
static void expect_times(rota_plan *plan, rota_args *args, rota_status expected) {
    rota_ticket ticket;
    const uint64_t before = rota_clock_ns();
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    assert_status(rota_wait(ticket, 0), expected);
    const uint64_t waited = rota_clock_ns();
    test_nap_ms(LATER_MS);
    rota_plan_replay replay = replay_of(plan);
    assert_true(before <= replay.submitted_ns);
    assert_true(replay.submitted_ns <= replay.sequenced_ns);
    assert_true(replay.sequenced_ns <= replay.handed_over_ns);
    assert_true(replay.handed_over_ns <= replay.completed_ns);
    if (replay.completed_ns > waited)
        fail_msg("completed %.3f ms after the wait for it ended",
                 (double)(replay.completed_ns - waited) * 1e-6);
    /* The same in the next answer, and in the trace. */
    assert_int_equal(replay_of(plan).completed_ns, replay.completed_ns);
    char path[] = "/tmp/rota-test-times-XXXXXX", line[1024];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_ok(rota_plan_write_trace(plan, path));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    double duration_us = -1;
    while (fgets(line, sizeof line, file)) {
        const char *found = strstr(line, "\"handed over to complete\"") ? strstr(line, "\"dur\":") : NULL;
        if (found) assert_int_equal(sscanf(found, "\"dur\":%lf", &duration_us), 1);
    }
    (void)fclose(file);
    (void)unlink(path);
    double wanted_us = (double)(replay.completed_ns - replay.handed_over_ns) / 1000.0;
    assert_true(duration_us > wanted_us - 0.01 && duration_us < wanted_us + 0.01);
}

static void a_replay_ends_when_its_device_said_so(void **state) {
    (void)state;
    static const char *const ids[] = {"cpu", "vk:0"};
    for (uint32_t i = 0; i < 2; i++) {
        rota_runtime *runtime;
        rota_device *device;
        if (!open_device(ids[i], &runtime, &device)) continue;
        rota_buffer *buffer = test_words(device, "x", WORDS, 1), *output;
        rota_plan *plan = fill_plan(device, "fill", buffer, NULL);
        rota_plan *with_output = fill_plan(device, "fill and read", buffer, &output);
        rota_args *args;
        uint32_t words[WORDS];
        assert_ok(rota_args_create(with_output, &args));
        assert_ok(rota_args_set_output(args, output, words, sizeof words));
        expect_times(plan, NULL, ROTA_OK);
        if (i == 0) {
            rota_plan *long_one = test_plan_1(device, "slow", &slow, buffer, ROTA_READWRITE);
            expect_times(long_one, NULL, ROTA_OK);
            rota_plan_release(long_one);
        }
        expect_times(with_output, args, ROTA_OK);
        assert_int_equal(words[0], 7);
        rota_args_release(args);
        rota_plan_release(with_output);
        rota_plan_release(plan);
        rota_buffer_release(buffer);
        assert_ok(rota_runtime_close(runtime, 0));
    }
}

/* The one whose node fails, and one that is skipped since it reads what that should have written. */
static void failed_and_skipped_replays_have_times(void **state) {
    (void)state;
    static const char *const ids[] = {"cpu", "vk:0"};
    for (uint32_t i = 0; i < 2; i++) {
        rota_runtime *runtime;
        rota_device *device, *cpu;
        if (!open_device(ids[i], &runtime, &device)) continue;
        assert_ok(rota_device_open(runtime, "cpu", &cpu));
        rota_buffer *from = test_words(cpu, "from", WORDS, 1), *to = test_words(device, "to", WORDS, 1),
                    *last = test_words(device, "last", WORDS, 1);
        rota_plan *fails = test_plan_1(cpu, "fails", &test_failing, from, ROTA_WRITE);
        /* With bytes to be moved first, and with nothing left for the device. */
        rota_plan *moves = copy_plan(device, "moves", from, to),
                  *copies = copy_plan(device, "copies", to, last);
        for (int fail = 1; fail >= 0; fail--) {
            rota_status expected = fail ? ROTA_NODE_FAILED : ROTA_OK;
            test_fail = fail;
            expect_times(fails, NULL, expected);
            expect_times(moves, NULL, expected);
            expect_times(copies, NULL, expected);
        }
        rota_plan *plans[] = {fails, moves, copies};
        rota_buffer *buffers[] = {from, to, last};
        for (int p = 0; p < 3; p++) {
            rota_plan_release(plans[p]);
            rota_buffer_release(buffers[p]);
        }
        assert_ok(rota_runtime_close(runtime, 0));
    }
}

/* Until its outputs are copied a replay is not put away, nor is any after it: by then its own stamp is gone,
 * and the oldest that is left is the closest that is known. */
static void a_lost_stamp_leaves_the_next_one(void **state) {
    (void)state;
    enum { LOST = 50, AFTER = ROTA_END_TIMES + LOST };
    static uint64_t waited[AFTER];
    adversary_options adversary = {.quiet_ns = 1};
    rota_runtime *runtime;
    rota_device *device;
    test_hold hold = {0};
    rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.diagnostics = true, .timeout_ns = 20000000000u, .queues_per_device = 1,
                             .log = {test_hold_log, &hold, ROTA_LOG_WARNING});
    assert_ok(adversary_runtime_open(&adversary, &options, &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *buffer = test_words(device, "x", WORDS, 1), *output;
    rota_plan *plan = fill_plan(device, "fill", buffer, NULL);
    rota_plan *with_output = fill_plan(device, "fill and read", buffer, &output);
    rota_args *args;
    rota_ticket ticket, with_output_ticket;
    uint32_t words[WORDS];
    assert_ok(rota_args_create(with_output, &args));
    assert_ok(rota_args_set_output(args, output, words, sizeof words));
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_hold_begin(&hold, ticket);
    assert_ok(rota_submit_wait(with_output, args, 0, &with_output_ticket));
    for (uint32_t i = 0; i < AFTER; i++) {
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        waited[i] = rota_clock_ns();
    }
    test_hold_end(&hold);
    assert_ok(rota_wait(with_output_ticket, 0));
    test_nap_ms(LATER_MS);
    rota_plan_replay replay = replay_of(with_output);
    assert_true(replay.completed_ns >= waited[LOST - 1]);
    assert_true(replay.completed_ns <= waited[LOST]);
    /* The last of the others has its own. */
    replay = replay_of(plan);
    assert_true(replay.completed_ns >= waited[AFTER - 2]);
    assert_true(replay.completed_ns <= waited[AFTER - 1]);
    assert_string_equal(adversary.violation, "");
    rota_args_release(args);
    rota_plan_release(with_output);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    assert_ok(rota_runtime_close(runtime, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_ends_when_its_device_said_so),
        cmocka_unit_test(failed_and_skipped_replays_have_times),
        cmocka_unit_test(a_lost_stamp_leaves_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
