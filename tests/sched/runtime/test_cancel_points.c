/* Cancelled while it is held, for points of the application's, for staging memory, for an instance: it waits for none
 * of these any more, and leaves alone what the application may still have. All else about it: test_cancel.c and
 * test_cancel_around.c. */
#include "tests/sched/runtime/external_kit.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "tests/kit/sequenced.h"

#define SOON_NS 2000000000u

static void expect_cancelled(rota_ticket ticket, const char *of) {
    const uint64_t begin = rota_clock_ns();
    const rota_status status = rota_wait(ticket, SOON_NS);
    if (status != ROTA_CANCELLED)
        fail_msg("%s: the ticket is %s: %s", of, rota_status_name(status), rota_last_error());
    assert_true(rota_clock_ns() - begin < SOON_NS);
    if (!strstr(rota_last_error(), of) || !strstr(rota_last_error(), "was cancelled by a call"))
        fail_msg("%s: %s", of, rota_last_error());
}

/* ---- Points ---- */

/* A semaphore that nobody signals, nor promised: the move that comes before the plan's own work is not handed to the
 * device, which would wait for it and do nothing else. On a driver: test_vk_points. */
static void never_signalled(void **state) {
    (void)state;
    scene *s = open_scene(true, PATIENCE_NS);
    rota_external_timeline *frames;
    assert_ok(rota_external_timeline_import(s->other, -1, "frames", &frames));
    rota_buffer *x = test_words(s->cpu, "x", WORDS, 1), *y = test_words(s->other, "y", WORDS, 2);
    rota_buffer *z = test_words(s->other, "z", WORDS, 3);
    rota_plan *copy = test_plan_copy_kernel(s->other, "copy", x, y),
              *apart = test_plan_copy_kernel(s->other, "copy", y, z);
    for (uint32_t round = 0; round < 4; round++) {
        const rota_ticket held = submit_after(copy, frames, 1 + round);
        if (round & 1) test_sequenced(held);
        assert_ok(rota_ticket_cancel(held));
        expect_cancelled(held, "plan 'copy'");
        assert_status(rota_wait(submit(apart), SOON_NS), ROTA_NODE_FAILED); /* it reads y */
        assert_ok(rota_wait(submit(copy), SOON_NS)); /* the queues go on, and x is moved now */
        assert_ok(rota_wait(submit(apart), SOON_NS));
        test_expect_words(z, WORDS, 1);
    }
    rota_external_timeline_release(frames);
    rota_plan_release(copy);
    rota_plan_release(apart);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
    close_scene(s);
}

/* The submit thread cancels the ticket itself, when it has seen that it is not cancelled, and is about to say for which
 * semaphores its device waits. */
static _Atomic(rota_ticket *) to_cancel;
static _Atomic uint32_t cancels;

static void cancel_late(void *user, const rota_stop_site *site) {
    static bool has_entered;
    (void)user;
    const rota_ticket *ticket = atomic_load(&to_cancel);
    if (ticket && strcmp(site->function, "enter") == 0) has_entered = true; /* with this ticket's work */
    if (!has_entered || strcmp(site->function, "rota_submission_cancelled_by") != 0) return;
    rota_stop_hook = NULL;
    has_entered = false;
    if (rota_ticket_cancel(*ticket) == ROTA_OK) (void)ra_fetch_add_seq_cst(&cancels, 1);
}

static void hook_cancel(void *user, uint32_t of) {
    (void)user, (void)of;
    rota_stop_hook = cancel_late;
}

/* One that was let through by a promise waits for its semaphore, however late it is cancelled. */
static void cancelled_behind_a_promise(void **state) {
    (void)state;
    scene *s = open_scene(true, PATIENCE_NS);
    rota_external_timeline *frames;
    assert_ok(rota_external_timeline_import(s->other, -1, "frames", &frames));
    rota_buffer *y = test_words(s->other, "y", WORDS, 2);
    rota_plan *adds = test_plan_1(s->other, "adds", &test_increment, y, ROTA_READWRITE);
    ra_store_seq_cst(&s->options.on_submit, hook_cancel);
    rota_ticket ticket = submit_after(adds, s->timeline, 1);
    test_sequenced(ticket);
    assert_ok(rota_external_timeline_signal(s->timeline, 1));
    assert_ok(
        rota_wait(ticket, SOON_NS)); /* its thread, and not the sequencer's, handed over what was held */
    ra_store_seq_cst(&s->options.on_submit, NULL);
    ticket = submit_after(adds, frames, 1);
    test_sequenced(ticket);
    atomic_store(&to_cancel, &ticket);
    assert_ok(rota_external_timeline_promise(frames, 1));
    (void)rota_wait(ticket, SOON_NS);
    atomic_store(&to_cancel, NULL);
    assert_int_equal(ra_load_seq_cst(&cancels), 1);
    /* The adversary, which has no such waits, says that it got one. */
    assert_int_equal(ra_load_seq_cst(&s->options.violations), 1);
    ra_store_seq_cst(&s->options.violations, 0);
    rota_external_timeline_release(frames);
    rota_plan_release(adds);
    rota_buffer_release(y);
    close_scene(s);
}

/* Memory of the application's, which writes it until it says so: nothing of it is moved before, and what is moved later
 * is what it says. */
static void the_applications_memory(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 20; round++) {
        scene *s = open_scene(true, PATIENCE_NS);
        static _Alignas(64) uint32_t words[WORDS];
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 1;
        rota_buffer *x, *y = test_words(s->other, "y", WORDS, 2);
        assert_ok(rota_buffer_adopt(
            s->cpu, &ROTA_ADOPT_OPTIONS(.name = "x", .memory = words, .size_bytes = BYTES), &x));
        rota_plan *copy = test_plan_copy_kernel(s->other, "copy", x, y);
        const rota_ticket held = submit_after(copy, s->timeline, 1);
        if (round & 1) test_sequenced(held);
        assert_ok(rota_ticket_cancel(held));
        expect_cancelled(held, "plan 'copy'");
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 5;
        const rota_ticket next = submit_after(copy, s->timeline, 1);
        assert_ok(rota_external_timeline_signal(s->timeline, 1));
        assert_ok(rota_wait(next, SOON_NS));
        test_expect_words(y, WORDS, 5);
        test_expect_words(x, WORDS, 5);
        rota_plan_release(copy);
        rota_buffer_release(x);
        rota_buffer_release(y);
        close_scene(s);
    }
}

/* What the device has ended is known to have: a ticket's own queue may be told of before the others. */
static void until_known(const rota_runtime *runtime, const rota_device *device) {
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    for (uint32_t q = 0; q < runtime->queue_count; q++) {
        const rota_timeline *timeline = &device->timelines[q];
        while (ra_load_acquire(&timeline->completed) < ra_load_acquire(&timeline->issued) &&
               rota_clock_ns() < deadline)
            test_nap_ns(MOMENT_NS / 200);
    }
}

/* Moves of one half and of two, over the staging memory of both devices, are made all the same where only rota touches
 * the memory: who counts on them, submitted before or after, and changes in place what was moved, is not cancelled.
 * What the application may touch is not moved: who counted on that is told, and who comes later has it moved. */
static void who_counts_on_a_move(void **state) {
    (void)state;
    scene *s = open_scene(true, PATIENCE_NS);
    rota_device *second;
    assert_ok(rota_device_open(s->runtime, "adversary:1", &second));
    for (uint32_t round = 0; round < 16; round++) {
        const bool is_before = round & 1, is_lent = round & 4;
        rota_device *from = round & 2 ? s->cpu : s->other;
        rota_buffer *x = test_words(from, "x", WORDS, 1), *y = test_words(second, "y", WORDS, 2);
        uint64_t address;
        test_expect_words(x, WORDS, 1);
        if (is_lent) assert_ok(rota_buffer_address(x, from, &address));
        rota_plan *copy = test_plan_copy_kernel(second, "copy", x, y);
        rota_plan *adds = test_plan_1(second, "adds", &test_increment, x, ROTA_READWRITE);
        rota_external_timeline *frames;
        assert_ok(rota_external_timeline_create(s->runtime, "frames", &frames));
        const rota_ticket held = submit_after(copy, frames, 1);
        rota_ticket counts = {NULL, 0};
        if (is_before) {
            counts = submit(adds);
            test_sequenced(counts);
        }
        assert_ok(rota_ticket_cancel(held));
        if (!is_before && !is_lent) counts = submit(adds);
        expect_cancelled(held, "plan 'copy'");
        if (!is_before && is_lent) {
            until_known(s->runtime, second);
            counts = submit(adds);
        }
        if (is_before && is_lent) {
            assert_status(rota_wait(counts, SOON_NS), ROTA_NODE_FAILED);
            assert_non_null(strstr(rota_last_error(), "was cancelled by a call"));
            assert_status(rota_buffer_read(x, 0, &(uint32_t){0}, 4), ROTA_NODE_FAILED);
        } else {
            assert_ok(rota_wait(counts, SOON_NS));
            test_expect_words(x, WORDS, 2);
        }
        assert_status(rota_buffer_read(y, 0, &(uint32_t){0}, 4), ROTA_NODE_FAILED);
        rota_external_timeline_release(frames);
        rota_plan_release(copy);
        rota_plan_release(adds);
        rota_buffer_release(x);
        rota_buffer_release(y);
    }
    close_scene(s);
}

/* ---- Staging memory ---- */

/* A read that is cancelled before its turn has none made. */
static void no_staging(void **state) {
    (void)state;
    scene *s = open_scene(true, PATIENCE_NS);
    rota_buffer *x = test_words(s->other, "x", WORDS, 1);
    rota_plan *adds = test_plan_1(s->other, "adds", &test_increment, x, ROTA_READWRITE);
    const rota_ticket held = submit_after(adds, s->timeline, 1);
    uint32_t words[WORDS];
    rota_ticket read;
    assert_ok(rota_buffer_read_async(x, 0, words, BYTES, &read));
    test_sequenced(read);
    const uint64_t before = ra_load_seq_cst(&s->runtime->budget.staging_bytes);
    assert_ok(rota_ticket_cancel(read));
    assert_ok(rota_external_timeline_signal(s->timeline, 1));
    assert_ok(rota_wait(held, SOON_NS));
    expect_cancelled(read, "read of buffer 'x'");
    assert_int_equal(ra_load_seq_cst(&s->runtime->budget.staging_bytes), before);
    test_expect_words(x, WORDS, 2);
    rota_plan_release(adds);
    rota_buffer_release(x);
    close_scene(s);
}

/* ---- Instances ---- */

/* A plan of which each replay in flight needs an instance of its own. */
static rota_plan *replayed(scene *s, rota_buffer **out_in, rota_buffer **out_out) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "replayed"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", BYTES, out_in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", BYTES, out_out));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    const rota_access accesses[] = {{*out_in, 0, ROTA_WHOLE, ROTA_READ},
                                    {*out_out, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses, .access_count = 2), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &s->other, .device_count = 1),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

/* One for which a driver takes its time: who was cancelled does not wait for it; the plan, released meanwhile, is there
 * until it is through. */
static void no_instance(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        scene *s = open_scene(true, PATIENCE_NS);
        rota_buffer *in, *out;
        rota_plan *plan = replayed(s, &in, &out);
        static uint32_t from[2][WORDS], to[2][WORDS];
        rota_args *args[2];
        rota_ticket tickets[2];
        ra_store_seq_cst(&s->options.faults.instances_stay_from,
                         ra_load_seq_cst(&s->options.instance_creations) + 1);
        ra_store_seq_cst(&s->options.faults.submits_stay, 1); /* so that the first has its instance */
        for (uint32_t i = 0; i < 2; i++) {
            from[i][0] = 7 + i;
            to[i][0] = 0;
            assert_ok(rota_args_create(plan, &args[i]));
            assert_ok(rota_args_set_input(args[i], in, from[i], BYTES, false));
            assert_ok(rota_args_set_output(args[i], out, to[i], BYTES));
            assert_ok(rota_submit_wait(plan, args[i], 0, &tickets[i]));
        }
        test_sequenced(tickets[1]);
        ra_store_seq_cst(&s->options.faults.submits_stay, 0);
        assert_ok(rota_wait(tickets[0], SOON_NS));
        assert_int_equal(to[0][0], 7);
        assert_ok(rota_ticket_cancel(tickets[1]));
        expect_cancelled(tickets[1], "plan ");
        assert_int_equal(to[1][0], 0);
        assert_ok(rota_submit_wait(plan, args[1], 0, &tickets[1])); /* in the first one's */
        assert_ok(rota_wait(tickets[1], SOON_NS));
        assert_int_equal(to[1][0], 8);
        for (uint32_t i = 0; i < 2; i++) rota_args_release(args[i]);
        rota_plan_release(plan);
        rota_sequencer_reap_now(s->runtime);
        test_nap_ns(MOMENT_NS);
        assert_int_not_equal(ra_load_acquire(&s->runtime->objects.plan_count), 0);
        ra_store_seq_cst(&s->options.faults.instances_stay_from, 0);
        const uint64_t deadline = rota_deadline_after(SOON_NS);
        while (!round && ra_load_acquire(&s->runtime->objects.plan_count) && rota_clock_ns() < deadline)
            test_nap_ns(MOMENT_NS / 20);
        if (!round) assert_int_equal(ra_load_acquire(&s->runtime->objects.plan_count), 0);
        close_scene(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(never_signalled),
                                       cmocka_unit_test(cancelled_behind_a_promise),
                                       cmocka_unit_test(the_applications_memory),
                                       cmocka_unit_test(who_counts_on_a_move),
                                       cmocka_unit_test(no_staging),
                                       cmocka_unit_test(no_instance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
