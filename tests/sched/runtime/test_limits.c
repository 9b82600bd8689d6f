/* How much may be unfinished or open at once: tickets of a thread, threads, devices. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "exec/exec.h"
#include "graph/buffer_internal.h"
#include "sched/plan.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/pins.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SCALE = 10, THREADS = 1100, SHOWN = 18 }; /* sanitizers slow all this down by about as much */
#else
enum { SCALE = 1, THREADS = 2500, SHOWN = 60 };
#endif

static uint32_t on_queue(void *user, rota_node node, uint32_t queues) {
    (void)node;
    (void)queues;
    return *(const uint32_t *)user;
}

static rota_plan *plan_on(rota_device *device, uint32_t queue, const rota_kernel *kernel,
                          rota_buffer *buffer) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_access access = {buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = &access, .access_count = 1), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = 2,
                                                 .queue_policy = on_queue, .queue_policy_user = &queue),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

static uint64_t resident_bytes(void) {
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &pages, &resident), 2);
    (void)fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Submits until it can't, `count` times at most; how often it could. */
static uint32_t submit_many(rota_plan *plan, uint32_t count, rota_ticket *out_last) {
    uint32_t done = 0;
    while (done < count && rota_submit_wait(plan, NULL, 2000000000u, out_last) == ROTA_OK) done++;
    return done;
}

/* One unfinished ticket, and then others, which end. */
static void an_unfinished_ticket_blocks_nobody(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *held = test_words(f->device, "held", 4, 0), *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *gate = plan_on(f->device, 1, &test_gate, held);
    rota_plan *plan = plan_on(f->device, 0, &test_increment, buffer);
    rota_ticket hung, first = {NULL, 0}, last = {NULL, 0};
    const uint32_t count = 100000 / SCALE;
    uint64_t number, before;
    test_gate_open(false);
    assert_ok(rota_submit(gate, NULL, &hung));
    assert_ok(rota_submit_wait(plan, NULL, 0, &first));
    assert_int_equal(submit_many(plan, count, &last), count);
    assert_ok(rota_wait(last, 0));
    assert_ok(rota_poll(first));
    assert_status(rota_poll(hung), ROTA_BUSY);
    assert_ok(rota_ticket_number(last, &number));
    assert_status(rota_ticket_number(first, &before), ROTA_NOT_FOUND);
    test_expect_words(buffer, 4, count + 1);
    /* Twice as many more use the same memory. */
    uint64_t resident = resident_bytes();
    assert_int_equal(submit_many(plan, 2 * count, &last), 2 * count);
    assert_ok(rota_wait(last, 0));
    uint64_t now = resident_bytes();
    if (SCALE == 1 && now > resident + ((uint64_t)6 << 20))
        fail_msg("%llu KiB more after %u more submissions", (unsigned long long)(now - resident) >> 10,
                 2 * count);
    test_gate_open(true);
    assert_ok(rota_wait(hung, 0));
    rota_plan_release(gate);
    rota_plan_release(plan);
    rota_buffer_release(held);
    rota_buffer_release(buffer);
}

/* A hundred times the 4 096 of old, and a sentence that names the limit; and on it goes when the ticket ends.
 */
static void the_limit_of_tickets_is_named(void **state) {
    runtime_fixture *f = *state;
    if (SCALE != 1) skip();
    rota_buffer *held = test_words(f->device, "held", 4, 0), *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *gate = plan_on(f->device, 1, &test_gate, held);
    rota_plan *plan = plan_on(f->device, 0, &test_increment, buffer);
    rota_ticket hung, next, last = {NULL, 0};
    test_gate_open(false);
    assert_ok(rota_submit(gate, NULL, &hung));
    uint32_t done = 0;
    rota_status status;
    for (; (status = rota_submit_wait(plan, NULL, 3000000000u, &next)) == ROTA_OK && done < 600000; done++)
        last = next;
    assert_int_equal(status, ROTA_TIMEOUT);
    if (!strstr(rota_last_error(), "523776")) fail_msg("it says: %s", rota_last_error());
    assert_true(done >= 100 * 4096);
    assert_true(done <= 524288);
    assert_ok(rota_wait(last, 0));
    test_gate_open(true);
    assert_ok(rota_wait(hung, 0));
    assert_int_equal(submit_many(plan, 2000, &last), 2000);
    assert_ok(rota_wait(last, 0));
    test_expect_words(buffer, 4, done + 2000);
    rota_plan_release(gate);
    rota_plan_release(plan);
    rota_buffer_release(held);
    rota_buffer_release(buffer);
}

/* A thread is stopped while it makes the message of a wait that timed out, and the ticket ends: the chunk
 * that the ticket was in goes on to later ones, though the submission is kept for the thread. */
static void a_stopped_message_keeps_no_tickets(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *held = test_words(f->device, "held", 4, 0), *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *gate = plan_on(f->device, 1, &test_gate, held);
    rota_plan *plan = plan_on(f->device, 0, &test_increment, buffer);
    rota_ticket hung, last;
    uint64_t number;
    test_gate_open(false);
    assert_ok(rota_submit(gate, NULL, &hung));
    test_gates_running(1);
    assert_status(rota_wait(hung, 20000000u), ROTA_TIMEOUT);
    assert_ok(rota_ticket_number(hung, &number));
    const rota_lane *lane = rota_lane_at(&f->runtime->lanes, rota_ticket_lane(hung.id));
    const uint64_t sequence = rota_ticket_sequence(hung.id);
    const rota_cell *cell = rota_lane_cell(lane, sequence);
    assert_non_null(cell);
    rota_submission *pinned = rota_submission_pin(ra_load_acquire(&cell->submission), number);
    assert_non_null(pinned);
    test_gate_open(true);
    assert_ok(rota_wait(hung, 0));
    rota_sequencer_reap_now(f->runtime);
    const uint32_t count = ROTA_TICKET_HISTORY + 3 * ROTA_CHUNK_CELLS;
    for (uint32_t done = 0; done < count; done++) assert_ok(rota_submit_wait(plan, NULL, 0, &last));
    assert_ok(rota_wait(last, 0));
    assert_null(rota_lane_cell(lane, sequence));
    assert_int_equal(pinned->number, number);
    assert_ptr_equal(pinned->plan, gate);
    rota_submission_unpin(f->runtime, pinned);
    /* Nobody reads it any more: it goes the way of the others. Its memory stays until the runtime closes. */
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (rota_submission_pin(pinned, number) && rota_clock_ns() < deadline) {
        rota_submission_unpin(f->runtime, pinned);
        test_nap_ms(1);
    }
    assert_null(rota_submission_pin(pinned, number));
    rota_plan_release(gate);
    rota_plan_release(plan);
    rota_buffer_release(held);
    rota_buffer_release(buffer);
}

/* ---- Threads ---- */

typedef struct crowd {
    rota_plan *plan;
    _Atomic uint32_t submitted, go_on;
} crowd;

/* Keeps its lane until all have one. */
static void *submit_and_stay(void *user) {
    crowd *c = user;
    rota_ticket ticket;
    bool ok = rota_submit_wait(c->plan, NULL, 20000000000u, &ticket) == ROTA_OK;
    (void)ra_fetch_add_seq_cst(&c->submitted, 1);
    while (!ra_load_seq_cst(&c->go_on)) (void)rota_futex_wait(&c->go_on, 0, UINT64_MAX);
    ok = ok && rota_wait(ticket, 0) == ROTA_OK;
    return ok ? NULL : "a submission failed";
}

static void as_many_lanes_as_living_threads(void **state) {
    runtime_fixture *f = *state;
    static pthread_t threads[THREADS];
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    crowd c = {.plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE)};
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)256 << 10), 0);
    /* Twice: the second crowd is given the first one's lanes. */
    uint64_t resident[2];
    for (uint32_t round = 0; round < 2; round++) {
        ra_store_seq_cst(&c.submitted, 0);
        ra_store_seq_cst(&c.go_on, 0);
        for (uint32_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], &attributes, submit_and_stay, &c), 0);
        uint64_t deadline = rota_deadline_after(60000000000u);
        static _Atomic uint32_t never;
        while (ra_load_seq_cst(&c.submitted) < THREADS && rota_clock_ns() < deadline)
            (void)rota_futex_wait(&never, 0, rota_deadline_after(1000000));
        assert_int_equal(ra_load_seq_cst(&c.submitted), THREADS);
        ra_store_seq_cst(&c.go_on, 1);
        rota_futex_wake(&c.go_on, INT32_MAX);
        for (uint32_t i = 0; i < THREADS; i++) {
            void *failure;
            (void)pthread_join(threads[i], &failure);
            assert_null(failure);
        }
        resident[round] = resident_bytes();
    }
    test_expect_words(buffer, 4, 2 * THREADS);
    if (SCALE == 1) assert_true(resident[1] < resident[0] + ((uint64_t)8 << 20));
    (void)pthread_attr_destroy(&attributes);
    rota_plan_release(c.plan);
    rota_buffer_release(buffer);
}

/* ---- Devices ---- */

enum { DEVICES_MAX = 64, OPENS = 70 / SCALE + 10 };

/* The adversary, as often as is asked for. */
static rota_status list_many(const rota_exec_driver *driver, rota_device_info *out_infos, uint32_t capacity,
                             uint32_t *out_count) {
    (void)driver;
    rota_device_info two[2];
    uint32_t found;
    ROTA_TRY(adversary_driver.enumerate(&adversary_driver, two, 2, &found));
    *out_count = SHOWN;
    for (uint32_t i = 0; i < SHOWN && i < capacity; i++) {
        out_infos[i] = two[0];
        (void)snprintf(out_infos[i].id, sizeof out_infos[i].id, "many:%u", i);
    }
    return ROTA_OK;
}

static rota_status open_many(const rota_exec_driver *driver, uint32_t index,
                             const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver;
    ROTA_TRY(adversary_driver.open(&adversary_driver, 0, options, out_device));
    (void)snprintf((*out_device)->info.id, sizeof(*out_device)->info.id, "many:%u", index);
    return ROTA_OK;
}

/* More devices than sixteen, and the CPU's: each computes, and what one wrote another reads. */
static void many_devices(void **state) {
    (void)state;
    const rota_exec_driver many = {
        .name = "many", .kind = adversary_driver.kind, .enumerate = list_many, .open = open_many};
    adversary_options adversary = {.seed = 3};
    rota_runtime *runtime;
    rota_device *devices[SHOWN + 1];
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.staging_slots = 1, .staging_slot_bytes = 1 << 19),
                                &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &many, &adversary));
    for (uint32_t i = 0; i < SHOWN; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "many:%u", i);
        assert_ok(rota_device_open(runtime, id, &devices[i]));
    }
    assert_ok(rota_device_open(runtime, "cpu", &devices[SHOWN]));
    rota_buffer *buffer = test_words(devices[0], "x", 64, 5);
    for (uint32_t i = 0; i <= SHOWN; i++) {
        rota_plan *plan = test_plan_1(devices[i], "inc", &test_increment, buffer, ROTA_READWRITE);
        assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        rota_plan_release(plan);
    }
    test_expect_words(buffer, 64, 5 + SHOWN + 1);
    rota_buffer_release(buffer);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(adversary.violations, 0);
}

/* A device that computes wrongly is refused as often as it is opened, and open once it computes right. */
static void refused_devices_take_no_more_room(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 3};
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(adversary_runtime_open(&adversary, NULL, &runtime));
    adversary.breaks.stray_writes = true;
    for (uint32_t i = 0; i < OPENS; i++)
        assert_status(rota_device_open(runtime, "adversary", &device), ROTA_REFUSED);
    adversary.breaks.stray_writes = false;
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *buffer = test_words(device, "x", 64, 5);
    rota_plan *plan = test_plan_1(device, "inc", &test_increment, buffer, ROTA_READWRITE);
    assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    test_expect_words(buffer, 64, 6);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    /* Lost ones are no more than a runtime has place for, and the sentence says how many that is. */
    rota_status status = ROTA_OK;
    uint32_t opens = 0;
    for (; opens < OPENS && status != ROTA_OUT_OF_RANGE; opens++) {
        ra_store_seq_cst(&adversary.faults.lost_in_works, 1);
        status = rota_device_open(runtime, "adversary:1", &device);
        assert_true(status == ROTA_REFUSED || status == ROTA_OUT_OF_RANGE);
    }
    if (SCALE == 1) {
        assert_int_equal(opens, DEVICES_MAX);
        assert_non_null(strstr(rota_last_error(), "64 devices"));
    }
    ra_store_seq_cst(&adversary.faults.lost_in_works, 0);
    assert_ok(rota_runtime_close(runtime, 0));
}

/* A thread ends that had a lane of a runtime which was closed and opened since: it gives no lane of the later one back,
 * which another thread has. `opens`: how often that was; 0: once, while the thread was stopped where it had seen that
 * the runtime's generation is still its lane's. */
static void end_after_opens(uint32_t opens) {
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 1);
    rota_runtime *first, *later;
    rota_device *device;
    assert_ok(rota_runtime_open(&options, &first));
    assert_ok(rota_device_open(first, "cpu", &device));
    rota_buffer *buffer = test_words(device, "x", 4, 0);
    crowd c = {.plan = test_plan_1(device, "inc", &test_increment, buffer, ROTA_READWRITE)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, submit_and_stay, &c), 0);
    uint64_t deadline = rota_deadline_after(20000000000u);
    static _Atomic uint32_t never;
    while (!ra_load_seq_cst(&c.submitted) && rota_clock_ns() < deadline)
        (void)rota_futex_wait(&never, 0, rota_deadline_after(1000000));
    assert_int_equal(ra_load_seq_cst(&c.submitted), 1);
    rota_plan_release(c.plan);
    rota_buffer_release(buffer);
    const uint32_t generation = ra_load_seq_cst(&first->handle.generation);
    assert_ok(rota_runtime_close(first, 0));
    assert_ok(rota_runtime_open(&options, &later));
    assert_ptr_equal(later, first); /* its shell */
    /* As if the opens between had been. What is left of them in the head is its upper 16 bits. */
    const uint64_t one_open = (uint64_t)1 << 48;
    if (opens) {
        (void)ra_fetch_add_acq_rel(&later->handle.lanes_free, one_open * (opens - 1));
        (void)ra_fetch_add_acq_rel(&later->handle.generation, opens - 1);
    }
    assert_ok(rota_device_open(later, "cpu", &device));
    buffer = test_words(device, "x", 4, 3);
    const uint32_t now = ra_load_seq_cst(&later->handle.generation);
    if (!opens) ra_store_seq_cst(&later->handle.generation, generation);
    ra_store_seq_cst(&c.go_on, 1);
    rota_futex_wake(&c.go_on, INT32_MAX);
    (void)pthread_join(thread, NULL); /* its ticket is of a runtime that was closed */
    ra_store_seq_cst(&later->handle.generation, now);
    assert_true((ra_load_seq_cst(&later->handle.lanes_free) & (one_open - 1)) == 0);
    test_expect_words(buffer, 4, 3);
    rota_buffer_release(buffer);
    assert_ok(rota_runtime_close(later, 0));
}

static void a_lane_of_an_earlier_open(void **state) {
    (void)state;
    end_after_opens(65536);
    end_after_opens(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_devices),
        cmocka_unit_test(refused_devices_take_no_more_room),
        cmocka_unit_test_setup_teardown(an_unfinished_ticket_blocks_nobody, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(the_limit_of_tickets_is_named, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(a_stopped_message_keeps_no_tickets, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(as_many_lanes_as_living_threads, runtime_setup, runtime_teardown),
        cmocka_unit_test(a_lane_of_an_earlier_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
