/* Staging memory of host reads and writes: it is bounded and given back, frozen while a copy may be under way (P1),
 * and a stopped thread keeps its own of it and nobody's turn (P4). */
#include "tests/sched/runtime/hostio_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/nap.h"

/* ---- Staging memory ---- */

/* Large writes wait for each other where they would pass the limit, and one that is larger by itself goes
 * alone. */
static void large_writes_stay_within_the_limit(void **state) {
    (void)state;
    rig p;
    assert_true(open_rig(&p, ON_CPU,
                         &ROTA_RUNTIME_OPTIONS(.staging_limit_bytes = 8 * MIB, .timeout_ns = 300000000u)));
    rota_buffer *buffer = test_buffer(p.runtime, "large", 32 * MIB);
    uint8_t *data = bytes_of(32 * MIB, 1);
    rota_ticket ticket;
    assert_ok(rota_buffer_write(buffer, p.device, 0, data, 32 * MIB, &ticket));
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, buffer, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    test_gates_running(1);
    uint64_t before = number_of(ticket);
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_buffer_write(buffer, NULL, 0, data, 4 * MIB, &ticket));
    uint64_t begin = rota_clock_ns();
    assert_status(rota_buffer_write(buffer, NULL, 0, data, 4 * MIB, NULL), ROTA_TIMEOUT);
    assert_non_null(strstr(rota_last_error(), "no room for staging memory"));
    assert_true(rota_clock_ns() - begin >= 300000000u);
    assert_status(rota_buffer_write(buffer, NULL, 0, data, 32 * MIB, NULL), ROTA_TIMEOUT);
    assert_ok(rota_buffer_write(buffer, NULL, 0, data, 4096, NULL)); /* the ring's */
    wait_for_submissions(p.runtime, before + 3, NULL);
    assert_int_equal(number_of(ticket), before + 2);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    assert_ok(rota_buffer_write(buffer, NULL, 0, data, 32 * MIB, &ticket));
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    rota_plan_release(gate);
    rota_buffer_release(buffer);
    free(data);
    close_rig(&p);
}

/* Staging memory counts in the runtime's limit: what does not fit is refused with its name before anything is
 * submitted, and what is only idle makes room for others. */
static void staging_memory_makes_room(void **state) {
    (void)state;
    for (device_kind kind = ON_CPU; kind <= ON_UNIFIED_ADVERSARY; kind++) {
        rig p;
        rota_runtime_options options =
            ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = 40 * MIB, .staging_slots = 1);
        assert_true(open_rig(&p, kind, &options));
        rota_buffer *x = test_buffer(p.runtime, "x", 13 * MIB), *y = test_buffer(p.runtime, "y", 15 * MIB),
                    *z = test_buffer(p.runtime, "z", 13 * MIB);
        uint8_t *data = bytes_of(13 * MIB, 1), *got = bytes_of(13 * MIB, 0);
        /* 13 MiB, and as much as a block of 16 of staging memory, in both directions one after the other. */
        for (uint8_t round = 1; round < 5; round++) {
            memset(data, round, 13 * MIB);
            assert_ok(rota_buffer_write(x, p.device, 0, data, 13 * MIB, NULL));
            assert_ok(rota_buffer_read(x, 0, got, 13 * MIB));
            assert_true(all_are(got, 13 * MIB, round));
        }
        assert_ok(rota_buffer_prepare(y, p.device)); /* 28 of 40: the staging memory is gone */
        rota_ticket ticket;
        assert_ok(rota_buffer_read_async(x, 0, got, 1, &ticket));
        uint64_t before = number_of(ticket);
        assert_ok(rota_wait(ticket, 0));
        assert_status(rota_buffer_write(x, p.device, 0, data, 13 * MIB, NULL), ROTA_OUT_OF_MEMORY);
        assert_non_null(strstr(rota_last_error(), "write of 13631488 bytes to buffer 'x'"));
        assert_non_null(strstr(rota_last_error(), "of the memory limit of 41943040 are free"));
        assert_ok(rota_buffer_read_async(x, 0, got, 1, &ticket));
        assert_int_equal(number_of(ticket), before + 1);
        assert_status(rota_buffer_read(x, 0, got, 13 * MIB), ROTA_OUT_OF_MEMORY);
        assert_non_null(strstr(rota_last_error(), "of the memory limit of 41943040 are free"));
        assert_status(rota_buffer_prepare(z, p.device), ROTA_OUT_OF_MEMORY);
        assert_ok(rota_buffer_read(x, 0, got, 4 * MIB));
        assert_true(all_are(got, 4 * MIB, 4)); /* the write that was refused left it alone */
        rota_buffer_release(x);
        rota_buffer_release(y);
        rota_buffer_release(z);
        free(data);
        free(got);
        close_rig(&p);
    }
}

typedef struct limited {
    rota_buffer *buffer;
    rota_status status;
    char message[256];
} limited;

static void *read_under_limit(void *user) {
    limited *l = user;
    uint8_t *got = malloc(6 * MIB);
    if (!got) abort();
    for (uint32_t i = 0; i < 20 && l->status == ROTA_OK; i++)
        l->status = rota_buffer_read(l->buffer, 0, got, 6 * MIB);
    if (l->status != ROTA_OK) strncpy(l->message, rota_last_error(), sizeof l->message - 1);
    free(got);
    return NULL;
}

/* Threads that want more at once than the limit allows wait for each other: none of them is told that there
 * is no memory, since one alone would find it. */
static void reads_under_a_limit_take_turns(void **state) {
    (void)state;
    enum { THREADS = 6 };
    rig p;
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = 24 * MIB, .staging_slots = 1);
    assert_true(open_rig(&p, ON_CPU, &options));
    uint8_t *data = bytes_of(6 * MIB, 1);
    rota_buffer *buffer = test_buffer(p.runtime, "buffer", 6 * MIB);
    assert_ok(rota_buffer_write(buffer, p.device, 0, data, 6 * MIB, NULL));
    pthread_t threads[THREADS];
    limited readers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        readers[i] = (limited){.buffer = buffer};
        assert_int_equal(pthread_create(&threads[i], NULL, read_under_limit, &readers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        if (readers[i].status != ROTA_OK) fail_msg("thread %u: %s", i, readers[i].message);
    /* Where nobody waits, whoever does not fit is told so. */
    rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, buffer, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    test_gates_running(1);
    rota_ticket first, second, third;
    uint8_t *other = bytes_of(6 * MIB, 0);
    assert_ok(rota_buffer_read_async(buffer, 0, data, 6 * MIB, &first));
    assert_ok(rota_buffer_read_async(buffer, 0, other, 6 * MIB, &second));
    assert_status(rota_buffer_read_async(buffer, 0, other, 6 * MIB, &third), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(first, 0));
    assert_ok(rota_wait(second, 0));
    assert_true(all_are(other, 6 * MIB, 1));
    assert_ok(rota_buffer_read_async(buffer, 0, other, 6 * MIB, &third));
    assert_ok(rota_wait(third, 0));
    rota_plan_release(gate);
    rota_buffer_release(buffer);
    free(data);
    free(other);
    close_rig(&p);
}

/* What no transfer needs for the idle time goes, without any further call, but for a small block of each
 * kind. */
static void idle_staging_memory_is_given_back(void **state) {
    (void)state;
    for (device_kind kind = ON_CPU; kind < DEVICE_KINDS; kind++) {
        rig p;
        if (!open_rig(&p, kind, &ROTA_RUNTIME_OPTIONS(.staging_idle_ns = 10000000u))) continue;
        rota_buffer *buffer = test_buffer(p.runtime, "large", 24 * MIB);
        uint8_t *data = bytes_of(24 * MIB, 1);
        assert_ok(rota_buffer_prepare(buffer, p.device));
        uint64_t before = memory_bytes(p.runtime);
        for (uint32_t round = 0; round < 2; round++) {
            assert_ok(rota_buffer_write(buffer, p.device, 0, data, 24 * MIB, NULL));
            assert_ok(rota_buffer_read(buffer, 0, data, 24 * MIB));
            uint64_t deadline = rota_deadline_after(PATIENCE_NS);
            while (memory_bytes(p.runtime) > before + MIB / 4 && rota_clock_ns() < deadline)
                test_nap_us(1000);
            assert_true(memory_bytes(p.runtime) <= before + MIB / 4);
        }
        rota_buffer_release(buffer);
        free(data);
        close_rig(&p);
    }
}

/* Who needs the memory gets what is idle, and hears where there was none: then trying again is in vain. */
static void trimming_says_whether_it_helped(void **state) {
    (void)state;
    for (device_kind kind = ON_CPU; kind < DEVICE_KINDS; kind++) {
        rig p;
        if (!open_rig(&p, kind, &ROTA_RUNTIME_OPTIONS(.staging_idle_ns = PATIENCE_NS))) continue;
        rota_buffer *buffer = test_buffer(p.runtime, "x", MIB);
        uint8_t *data = bytes_of(MIB, 1);
        assert_ok(rota_buffer_write(buffer, p.device, 0, data, MIB, NULL));
        assert_ok(rota_buffer_read(buffer, 0, data, MIB));
        const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
        while (rota_staging_is_busy(p.device) && rota_clock_ns() < deadline) test_nap_us(1000);
        assert_true(rota_staging_trim(p.runtime, UINT64_MAX));
        while (ra_load_acquire(&p.runtime->budget.staging_dying) && rota_clock_ns() < deadline)
            test_nap_us(1000);
        assert_false(rota_staging_trim(p.runtime, UINT64_MAX));
        rota_buffer_release(buffer);
        free(data);
        close_rig(&p);
    }
}

/* ---- P1: staging memory is frozen while a copy may be under way ---- */

enum { REUSED_BUFFERS = 4, REUSED_SIZE = 12 << 10 };

static void open_reused(rig *p, rota_buffer **out_buffers) {
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.staging_slots = 2, .staging_slot_bytes = 4096);
    assert_true(open_rig(p, ON_ADVERSARY, &options));
    for (uint32_t b = 0; b < REUSED_BUFFERS; b++) out_buffers[b] = test_buffer(p->runtime, "b", REUSED_SIZE);
}

/* How many of the buffers hold something else than `first`, and the next numbers. */
static uint32_t count_wrong(rota_buffer *const *buffers, uint8_t *data, uint32_t first) {
    uint32_t wrong = 0;
    for (uint32_t b = 0; b < REUSED_BUFFERS; b++) {
        assert_ok(rota_buffer_read(buffers[b], 0, data, REUSED_SIZE));
        wrong += !all_are(data, REUSED_SIZE, (uint8_t)(first + b));
    }
    return wrong;
}

/* Rounds of writes and reads, all by way of the same blocks. */
static void expect_reuse_is_right(void) {
    enum { ROUNDS = 12 };
    rig p;
    rota_buffer *buffers[REUSED_BUFFERS];
    open_reused(&p, buffers);
    uint8_t *data = bytes_of(REUSED_SIZE, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t b = 0; b < REUSED_BUFFERS; b++) {
            memset(data, (int)(1 + round * REUSED_BUFFERS + b), REUSED_SIZE);
            assert_ok(rota_buffer_write(buffers[b], p.device, 0, data, REUSED_SIZE, NULL));
        }
        assert_int_equal(count_wrong(buffers, data, 1 + round * REUSED_BUFFERS), 0);
    }
    for (uint32_t b = 0; b < REUSED_BUFFERS; b++) rota_buffer_release(buffers[b]);
    free(data);
    close_rig(&p);
}

#ifndef __SANITIZE_THREAD__ /* which sees the race before */
/* The device says that it has done what it is given while a gate keeps it from all of it: the block of a write serves
 * the next one, and what was in it never arrives. */
static uint32_t wrong_after_early_signals(void) {
    rig p;
    rota_buffer *buffers[REUSED_BUFFERS];
    rota_ticket gated, written;
    open_reused(&p, buffers);
    rota_buffer *x = test_words(p.device, "x", 1, 0);
    rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, x, ROTA_READWRITE);
    uint8_t *data = bytes_of(REUSED_SIZE, 0);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &gated));
    test_gates_running(1);
    p.options.breaks.early_signal = true;
    for (uint32_t b = 0; b < REUSED_BUFFERS; b++) {
        memset(data, (int)(1 + b), REUSED_SIZE);
        assert_ok(rota_buffer_write(buffers[b], p.device, 0, data, REUSED_SIZE, &written));
        assert_ok(rota_wait(written, 0));
        rota_sequencer_reap_now(p.runtime);
    }
    p.options.breaks.early_signal = false;
    test_gate_open(true);
    assert_ok(rota_wait(gated, 0));
    const uint32_t wrong = count_wrong(buffers, data, 1);
    rota_plan_release(gate);
    rota_buffer_release(x);
    for (uint32_t b = 0; b < REUSED_BUFFERS; b++) rota_buffer_release(buffers[b]);
    free(data);
    (void)rota_runtime_close(p.runtime, 0);
    return wrong;
}
#endif

static void blocks_are_not_used_again_too_soon(void **state) {
    (void)state;
    expect_reuse_is_right();
#ifndef __SANITIZE_THREAD__
    assert_int_equal(wrong_after_early_signals(),
                     REUSED_BUFFERS - 1); /* it would be seen: all have the last */
#endif
}

/* ---- P4: a stopped thread keeps its own staging memory, and nobody's turn ---- */

enum { SITES_MAX = 256, OTHER_BYTES = 96 << 10, OTHERS = 3 };

typedef struct halting {
    const rota_stop_site *site; /* NULL: the sites are collected */
    const rota_stop_site *sites[SITES_MAX];
    uint32_t site_count;
    bool was_halted;
    _Atomic bool halted, go_on, done;
    rota_status (*call)(struct halting *h);
    rota_buffer *buffer;
    uint8_t *data;
    rota_ticket ticket;
    rota_status status;
} halting;

static void on_stop(void *user, const rota_stop_site *site) {
    halting *h = user;
    if (!strstr(site->file, "sched/")) return; /* executors may make memory under a lock */
    if (!h->site) {
        for (uint32_t i = 0; i < h->site_count; i++)
            if (h->sites[i] == site) return;
        if (h->site_count < SITES_MAX) h->sites[h->site_count++] = site;
        return;
    }
    if (h->was_halted || site != h->site) return;
    h->was_halted = true;
    atomic_store(&h->halted, true);
    while (!atomic_load(&h->go_on)) test_nap_us(50);
}

static void *halting_main(void *user) {
    halting *h = user;
    rota_stop_user = h;
    rota_stop_hook = on_stop;
    h->status = h->call(h);
    rota_stop_hook = NULL;
    atomic_store(&h->done, true);
    return NULL;
}

static rota_status write_large(halting *h) {
    return rota_buffer_write(h->buffer, NULL, 0, h->data, OTHER_BYTES, &h->ticket);
}
static rota_status write_small(halting *h) {
    return rota_buffer_write(h->buffer, NULL, 0, h->data, 4096, &h->ticket);
}
static rota_status read_async(halting *h) {
    return rota_buffer_read_async(h->buffer, 0, h->data, OTHER_BYTES, &h->ticket);
}
static rota_status read_waiting(halting *h) {
    return rota_buffer_read(h->buffer, 0, h->data, OTHER_BYTES);
}

static void *others_main(void *user) {
    rota_device *device = user;
    rota_buffer *own = NULL;
    uint8_t *data = malloc(OTHER_BYTES);
    static rota_status statuses[OTHERS];
    static _Atomic uint32_t next;
    rota_status *status = &statuses[atomic_fetch_add(&next, 1) % OTHERS];
    if (!data) abort();
    memset(data, 7, OTHER_BYTES);
    *status = rota_buffer_create_in(rota_device_runtime(device), "own", OTHER_BYTES, &own);
    for (uint32_t i = 0; i < 2 && *status == ROTA_OK; i++) {
        *status = rota_buffer_write(own, device, 0, data, OTHER_BYTES, NULL);
        if (*status == ROTA_OK) *status = rota_buffer_write(own, device, 0, data, 64, NULL);
        if (*status == ROTA_OK) *status = rota_buffer_read(own, 0, data, OTHER_BYTES);
    }
    if (own) rota_buffer_release(own);
    free(data);
    return status;
}

static void others_finish(rota_device *device, const halting *h) {
    pthread_t threads[OTHERS];
    for (uint32_t i = 0; i < OTHERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, others_main, device), 0);
    for (uint32_t i = 0; i < OTHERS; i++) {
        void *status;
        pthread_join(threads[i], &status);
        if (*(rota_status *)status != ROTA_OK)
            fail_msg("another thread, with one halted at %s:%d: %s", h->site->file, h->site->line,
                     rota_status_name(*(rota_status *)status));
    }
}

/* `gate`: large writes have no room until it is opened, with the thread in its call or halted there. */
static void halt_one(const rig *p, halting *h, rota_plan *gate, const rota_stop_site *site) {
    h->site = site;
    h->was_halted = false;
    atomic_store(&h->halted, false);
    atomic_store(&h->go_on, false);
    atomic_store(&h->done, false);
    if (gate) {
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        test_gates_running(1);
        assert_ok(rota_buffer_write(h->buffer, NULL, 0, h->data, OTHER_BYTES, NULL));
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, halting_main, h), 0);
    uint64_t release_at = rota_deadline_after(gate ? 5000000u : PATIENCE_NS);
    while (!atomic_load(&h->halted) && !atomic_load(&h->done) && rota_clock_ns() < release_at)
        test_nap_us(20);
    if (gate) test_gate_open(true);
    while (!atomic_load(&h->halted) && !atomic_load(&h->done)) test_nap_us(20);
    if (atomic_load(&h->halted)) others_finish(p->device, h);
    atomic_store(&h->go_on, true);
    pthread_join(thread, NULL);
    assert_int_equal(h->status, ROTA_OK);
    if (h->ticket.id) assert_ok(rota_wait(h->ticket, 0));
}

static void stopped_threads_keep_their_own(void **state) {
    (void)state;
    static const struct {
        const char *name;
        rota_status (*call)(halting *h);
        bool waits;
    } calls[] = {{"large write", write_large, false},
                 {"large write that waits", write_large, true},
                 {"small write", write_small, false},
                 {"read", read_waiting, false},
                 {"asynchronous read", read_async, false}};
    for (uint32_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        rig p;
        rota_runtime_options options =
            ROTA_RUNTIME_OPTIONS(.staging_limit_bytes = 128 << 10, .memory_limit_bytes = 64 * MIB,
                                 .staging_slots = 2, .staging_slot_bytes = 16 << 10);
        assert_true(open_rig(&p, ON_CPU, &options));
        static halting h;
        h = (halting){.call = calls[c].call, .data = bytes_of(OTHER_BYTES, 3)};
        h.buffer = test_buffer(p.runtime, "victim's", OTHER_BYTES);
        assert_ok(rota_buffer_write(h.buffer, p.device, 0, h.data, OTHER_BYTES, NULL));
        rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, h.buffer, ROTA_READWRITE);
        rota_plan *waits = calls[c].waits ? gate : NULL;
        halt_one(&p, &h, waits, NULL);
        assert_true(h.site_count > 10);
        uint32_t count = h.site_count, halted = 0;
        for (uint32_t i = 0; i < count; i++) {
            halt_one(&p, &h, waits, h.sites[i]);
            halted += h.was_halted;
        }
        print_message("%s: halted at %u of %u stops\n", calls[c].name, halted, count);
        assert_true(halted > 10); /* some are passed only where it has to wait */
        rota_plan_release(gate);
        rota_buffer_release(h.buffer);
        free(h.data);
        close_rig(&p);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_writes_stay_within_the_limit),
        cmocka_unit_test(staging_memory_makes_room),
        cmocka_unit_test(reads_under_a_limit_take_turns),
        cmocka_unit_test(idle_staging_memory_is_given_back),
        cmocka_unit_test(trimming_says_whether_it_helped),
        cmocka_unit_test(blocks_are_not_used_again_too_soon),
        cmocka_unit_test(stopped_threads_keep_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
