/* Memory that a burst needed is given back when nothing needs it any more: of submissions, and of recording
 * and compiling. Nor do threads that have nothing to do take any time. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <malloc.h>
#include <stdio.h>
#include <time.h>
#include "base/arena.h"
#include "base/atomic.h"
#include "sched/runtime/shared/runtime.h"

/* What a submission keeps for the next one is 1180 to 1460 bytes, by how many of what it consists of were in use at
 * once; with what it gives back it is 2700 to 3600. */
enum {
    BURST = 2000,
    SLOTS = 100,
    CHUNKS = 64,
    CHUNK_BYTES = 1 << 16,
    STRUCTS_BYTES = 1550,
    FULL_BYTES = 2350
};
#define PATIENCE_NS UINT64_C(20000000000)

static rota_plan *plan_with_slots(rota_device *device, rota_buffer *x, rota_args **out_args) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_slot slot;
    rota_plan *plan;
    const rota_access access = {x, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_graph_create(NULL, &graph));
    for (uint32_t i = 0; i < SLOTS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%u", i);
        assert_ok(rota_graph_slot(graph, name, 8, &slot));
    }
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &access, .access_count = 1),
        NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(graph);
    assert_ok(rota_args_create(plan, out_args));
    return plan;
}

/* What malloc has given out, without what is kept for the next graphs: that goes when its time has come, which may be
 * before the burst or in it. */
static uint64_t in_use(void) {
    rota_chunk_cache_trim();
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* All submissions of the burst are there at once, each with its works, waits and words; then none is. */
static void a_burst_of_submissions(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    rota_ticket ticket;
    assert_ok(rota_runtime_open(
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .staging_idle_ns = 10000000u), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *x = test_words(device, "x", 1, 0);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, x, ROTA_READWRITE);
    rota_args *args;
    rota_plan *plan = plan_with_slots(device, x, &args);
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    const uint64_t before = in_use();
    for (uint32_t round = 0; round < 2; round++) {
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
        for (uint32_t i = 0; i < BURST; i++) assert_ok(rota_submit_wait(plan, args, 0, &ticket));
        uint64_t full = in_use(), deadline = rota_deadline_after(PATIENCE_NS);
        while (full <= before + BURST * FULL_BYTES && rota_clock_ns() < deadline) {
            test_nap_ms(1); /* until the device has all of them */
            full = in_use();
        }
        test_gate_open(true);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(x, 1, 1 + (round + 1) * BURST);
        deadline = rota_deadline_after(PATIENCE_NS);
        uint64_t left = in_use();
        /* The structs stay, the sequencer's and the executor's, of as many as were ever in use at once. */
        const uint64_t expected = before + BURST * STRUCTS_BYTES;
        while (left > expected && rota_clock_ns() < deadline) {
            test_nap_ms(10);
            left = in_use();
        }
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
        if (full <= before + BURST * FULL_BYTES)
            fail_msg("%u submissions take %llu bytes", BURST, (unsigned long long)(full - before));
        if (left > expected)
            fail_msg("round %u: %llu bytes more than before %u submissions, which took %llu", round,
                     (unsigned long long)(left - before), BURST, (unsigned long long)(full - before));
#else
        (void)full;
#endif
    }
    rota_args_release(args);
    rota_plan_release(plan);
    rota_plan_release(gate);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(runtime, 0));
}

/* A runtime's thread looks after what graphs left; and the last runtime that is closed leaves none of it. */
static void memory_of_graphs(void **state) {
    (void)state;
    void *chunks[CHUNKS];
    size_t usable;
    rota_chunk_cache_trim();
    for (uint32_t i = 0; i < CHUNKS; i++) assert_non_null(chunks[i] = rota_chunk_alloc(CHUNK_BYTES, &usable));
    for (uint32_t i = 0; i < CHUNKS; i++) rota_chunk_free(chunks[i], usable);
    /* Looked at as if some time ago: from now on nobody needs them. */
    rota_chunk_cache_sweep(rota_clock_ns() - ROTA_CHUNK_CACHE_SWEEP_NS);
    const size_t before = rota_chunk_cache_bytes();
    assert_true(before >= CHUNKS * CHUNK_BYTES);
    rota_runtime *runtime;
    assert_ok(rota_runtime_open(NULL, &runtime));
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (rota_chunk_cache_bytes() > before / 2 && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_in_range(rota_chunk_cache_bytes(), 1, before / 2);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(rota_chunk_cache_bytes(), 0);
}

/* Processor time of all threads. */
static uint64_t cpu_ns(void) {
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Threads that have nothing to do sleep, however often they look: a second of a runtime that was at work
 * takes less of a processor than 1 of 50, even while others share it. Nor is what nobody needs looked for where there
 * is none, however soon it would be given back. */
static void threads_sleep(void **state) {
    (void)state;
    for (uint32_t soon = 0; soon < 2; soon++) {
        rota_runtime *runtime;
        rota_device *device;
        rota_ticket ticket;
        assert_ok(rota_runtime_open(
            &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .staging_idle_ns = soon ? 1 : 0), &runtime));
        assert_ok(rota_device_open(runtime, "cpu", &device));
        rota_buffer *x = test_words(device, "x", 1, 0);
        rota_plan *plan = test_plan_1(device, "step", &test_increment, x, ROTA_READWRITE);
        for (uint32_t i = 0; i < 100; i++) assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(x, 1, 100);
        test_nap_ms(200);
        const uint64_t before = cpu_ns();
        test_nap_ms(1000);
        assert_in_range(cpu_ns() - before, 0, 20000000);
        rota_plan_release(plan);
        rota_buffer_release(x);
        assert_ok(rota_runtime_close(runtime, 0));
    }
}

static void expect_interest(rota_runtime *runtime, uint32_t expected) {
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (ra_load_seq_cst(&runtime->sequencing.interest) != expected && rota_clock_ns() < deadline)
        test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(&runtime->sequencing.interest), expected);
}

/* The sequencer is woken by what devices reach while something that was released waits for it, and is let alone from
 * then on: each wake costs a device's thread more than what it reports. */
static void devices_wake_nobody_for_nothing(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    rota_ticket ticket;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *x = test_words(device, "x", 1, 0);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, x, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    rota_plan_release(gate);
    rota_buffer_release(x);
    expect_interest(runtime, 1);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    expect_interest(runtime, 0);
    assert_ok(rota_runtime_close(runtime, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_graphs), cmocka_unit_test(a_burst_of_submissions),
        cmocka_unit_test(threads_sleep), cmocka_unit_test(devices_wake_nobody_for_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
