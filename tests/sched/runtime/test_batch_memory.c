/* Staging memory for a batch of works: a driver that takes its time for each of them gets on; two devices are lost
 * while both of their threads stay there; what is before and behind a work that starves goes over; and a runtime is
 * closed meanwhile. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/submitter.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

enum { WORDS = 512, QUEUES = 3, FAKES = 3, READS = 5, LARGE = 1 << 20, TIMEOUT_MS = 2000 };
#define LIMIT ((uint64_t)1 << 30)
#define SOON_NS 30000000000u

/* ---- Threads that stay ---- */

/* By device: its thread is to stay in submit until it may go on, and then gets this hook. */
static _Atomic uint32_t is_to_stay[FAKES], is_in_submit[FAKES], leaves_submit;
static _Atomic(rota_stop_fn) hook_of[FAKES];
/* In staging.c, where memory has just been made. */
static _Atomic uint32_t halted, goes_on, made;

static bool is_at_memory(const rota_stop_site *site) {
    return strcmp(site->function, "acquire") == 0;
}

static void make_slowly(void *user, const rota_stop_site *site) {
    (void)user;
    if (!is_at_memory(site)) return;
    (void)ra_fetch_add_seq_cst(&made, 1);
    test_nap_ms(TIMEOUT_MS / 2);
}

static void halt(void *user, const rota_stop_site *site) {
    (void)user;
    if (!is_at_memory(site)) return;
    rota_stop_hook = NULL;
    (void)ra_fetch_add_seq_cst(&halted, 1);
    const uint64_t deadline = rota_deadline_after(4 * (uint64_t)SOON_NS);
    while (!ra_load_seq_cst(&goes_on) && rota_clock_ns() < deadline) test_nap_ms(1);
}

static void on_submit(void *user, uint32_t device) {
    (void)user;
    if (!ra_exchange_acq_rel(&is_to_stay[device], 0)) return;
    ra_store_seq_cst(&is_in_submit[device], 1);
    while (!ra_load_seq_cst(&leaves_submit)) test_nap_ms(1);
    rota_stop_hook = ra_load_seq_cst(&hook_of[device]);
}

static void await(_Atomic uint32_t *value, uint32_t wanted) {
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_seq_cst(value) < wanted && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_in_range(ra_load_seq_cst(value), wanted, UINT32_MAX);
}

/* ---- Devices ---- */

typedef struct world {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *fakes[FAKES];
    rota_buffer *small[FAKES], *large[FAKES]; /* with bytes on each device */
    rota_plan *change[FAKES];                 /* of its small one */
} world;

static uint32_t words[READS][LARGE / 4];

static void world_open(world *w, uint64_t limit) {
    static const char *const ids[] = {"adversary", "adversary:1", "adversary:2"};
    *w = (world){.options = {.seed = 12}};
    const rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_MS * (uint64_t)1000000, .queues_per_device = QUEUES,
                             .memory_limit_bytes = limit);
    assert_ok(adversary_runtime_open(&w->options, &options, &w->runtime));
    for (uint32_t d = 0; d < FAKES; d++) {
        assert_ok(rota_device_open(w->runtime, ids[d], &w->fakes[d]));
        w->small[d] = test_words(w->fakes[d], "small", WORDS, 10 * d);
        test_expect_words(w->small[d], WORDS, 10 * d);
        w->large[d] = test_buffer(w->runtime, "large", LARGE);
        for (uint32_t i = 0; i < LARGE / 4; i++) words[0][i] = d;
        assert_ok(rota_buffer_write(w->large[d], w->fakes[d], 0, words[0], LARGE, NULL));
        w->change[d] = test_plan_1(w->fakes[d], "change", &test_increment, w->small[d], ROTA_READWRITE);
        ra_store_seq_cst(&is_to_stay[d], 0);
        ra_store_seq_cst(&is_in_submit[d], 0);
    }
    ra_store_seq_cst(&halted, 0);
    ra_store_seq_cst(&goes_on, 0);
    ra_store_seq_cst(&made, 0);
    ra_store_seq_cst(&w->options.on_submit, on_submit);
}

static void world_close(world *w) {
    ra_store_seq_cst(&goes_on, 1);
    for (uint32_t d = 0; d < FAKES; d++) {
        rota_plan_release(w->change[d]);
        rota_buffer_release(w->small[d]);
        rota_buffer_release(w->large[d]);
    }
    assert_ok(rota_runtime_close(w->runtime, SOON_NS));
    if (w->options.violations) fail_msg("%s", w->options.violation);
}

/* The thread of the device stays in submit: what comes now it takes as one batch, and then with that hook. */
static void stay_in_submit(world *w, uint32_t device, rota_stop_fn hook) {
    ra_store_seq_cst(&leaves_submit, 0);
    ra_store_seq_cst(&hook_of[device], hook);
    ra_store_seq_cst(&is_to_stay[device], 1);
    assert_ok(rota_submit_wait(w->change[device], NULL, 0, NULL));
    await(&is_in_submit[device], 1);
}

/* ---- Attacks ---- */

/* No making takes as long as the deadline, all of the batch together do: the device gets on. */
static void made_one_after_the_other(uint64_t limit) {
    world w;
    world_open(&w, limit);
    rota_ticket reads[READS], copied;
    rota_plan *copy = test_plan_copy_kernel(w.fakes[1], "copy", w.small[0], w.small[1]);
    stay_in_submit(&w, 0, make_slowly);
    for (uint32_t r = 0; r < READS; r++)
        assert_ok(rota_buffer_read_async(w.large[0], 0, words[r], LARGE, &reads[r]));
    assert_ok(
        rota_submit_wait(copy, NULL, 0, &copied)); /* comes after what it moves, which is behind the reads */
    test_sequenced(copied);
    ra_store_seq_cst(&leaves_submit, 1);
    const rota_status status = rota_wait(copied, SOON_NS);
    const bool is_lost = rota_device_is_lost(w.fakes[0]);
    for (uint32_t r = 0; r < READS; r++) (void)rota_wait(reads[r], SOON_NS);
    rota_plan_release(copy);
    world_close(&w);
    assert_in_range(ra_load_seq_cst(&made), READS, UINT32_MAX);
    assert_false(is_lost);
    assert_int_equal(status, ROTA_OK);
}

static void each_in_time(void **state) {
    (void)state;
    made_one_after_the_other(0);
    made_one_after_the_other(LIMIT);
}

/* The first two are lost while their threads stay there; of their works some wait for each other's, and what the third
 * one has waits for them. */
static void lost_together(uint64_t limit) {
    world w;
    world_open(&w, limit);
    rota_plan *from_first = test_plan_copy_kernel(w.fakes[1], "copy", w.small[0], w.small[1]),
              *from_second = test_plan_copy_kernel(w.fakes[2], "copy", w.small[1], w.small[2]);
    rota_ticket tickets[4], anew;
    rota_status statuses[4];
    for (uint32_t d = 0; d < 2; d++) stay_in_submit(&w, d, halt);
    for (uint32_t d = 0; d < 2; d++)
        assert_ok(rota_buffer_read_async(w.large[d], 0, words[d], LARGE, &tickets[d]));
    ra_store_seq_cst(&leaves_submit, 1);
    await(&halted, 2);
    assert_ok(rota_submit_wait(from_first, NULL, 0, &tickets[2]));
    assert_ok(rota_submit_wait(from_second, NULL, 0, &tickets[3]));
    test_sequenced(tickets[3]);
    for (uint32_t d = 2; d-- > 0;) rota_device_set_lost(w.fakes[d], "given up by the test");
    for (uint32_t i = 0; i < 4; i++) statuses[i] = rota_wait(tickets[i], SOON_NS / 2);
    uint32_t *values = words[2];
    for (uint32_t i = 0; i < WORDS; i++) values[i] = 40;
    assert_ok(rota_buffer_write(w.small[2], w.fakes[2], 0, values, WORDS * 4, NULL));
    assert_ok(rota_submit_wait(w.change[2], NULL, 0, &anew));
    const rota_status status = rota_wait(anew, SOON_NS / 2);
    test_expect_words(w.small[2], WORDS, 41);
    assert_int_equal(ra_load_seq_cst(&goes_on), 0);
    rota_plan_release(from_first);
    rota_plan_release(from_second);
    world_close(&w);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(statuses[i], ROTA_DEVICE_LOST);
    assert_int_equal(status, ROTA_OK);
}

static void two_losses(void **state) {
    (void)state;
    lost_together(0);
    lost_together(LIMIT);
}

static bool has_starved(const rota_device *device) {
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (device->submitter->starving[q].rounds != 0) return true;
    return false;
}

/* Of one batch the first work has memory, the second starves while the reclaimer is kept, the third is a move behind
 * it. `loses`: its device, or the one whose memory is on its way back, is lost then; 0: none. */
static void starving(uint32_t loses) {
    world w;
    world_open(&w, LIMIT);
    static uint32_t idle[LARGE];
    rota_buffer *gone = test_words(w.fakes[2], "gone", WORDS, 1),
                *other = test_buffer(w.runtime, "other", sizeof idle);
    rota_plan *copy = test_plan_copy_kernel(w.fakes[1], "copy", w.small[0], w.small[1]);
    rota_ticket first, starves, copied;
    assert_ok(rota_buffer_read(w.large[0], 0, words[0], LARGE)); /* its memory lies idle, for the first one */
    assert_ok(rota_buffer_write(other, w.fakes[2], 0, idle, sizeof idle, NULL));
    assert_ok(rota_buffer_read(other, 0, idle, sizeof idle)); /* and this for the second, when it is freed */
    rota_sequencer_reap_now(w.runtime);
    stay_in_submit(&w, 0, NULL);
    ra_store_seq_cst(&w.options.faults.frees, ADVERSARY_FREES_NEVER);
    rota_buffer_release(gone);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_seq_cst(&w.options.frees_waiting) == 0 && rota_clock_ns() < deadline) test_nap_ms(1);
    const uint64_t taken = LIMIT - ra_load_seq_cst(&w.runtime->budget.memory_bytes) - LARGE / 2;
    assert_ok(rota_buffer_read_async(w.large[0], 0, words[0], LARGE, &first));
    assert_ok(rota_buffer_read_async(w.large[0], 0, words[1], LARGE, &starves));
    assert_ok(rota_submit_wait(copy, NULL, 0, &copied));
    test_sequenced(copied);
    (void)ra_fetch_add_acq_rel(&w.runtime->budget.memory_bytes, taken);
    ra_store_seq_cst(&leaves_submit, 1);
    const rota_status statuses[] = {rota_wait(first, SOON_NS), rota_wait(copied, SOON_NS)};
    if (loses) rota_device_set_lost(w.fakes[loses == 1 ? 0 : 2], "given up by the test");
    if (loses == 0) ra_store_seq_cst(&w.options.faults.frees, ADVERSARY_FREES_AT_ONCE);
    const rota_status status = rota_wait(starves, SOON_NS); /* it fails where that took a second */
    ra_store_seq_cst(&w.options.faults.frees, ADVERSARY_FREES_AT_ONCE);
    const bool has = has_starved(w.fakes[0]);
    (void)ra_fetch_sub_acq_rel(&w.runtime->budget.memory_bytes, taken);
    test_expect_words(w.small[1], WORDS, 1); /* what `change` made of it */
    rota_plan_release(copy);
    rota_buffer_release(other);
    world_close(&w);
    assert_true(has);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(statuses[i], ROTA_OK);
    assert_true(status == ROTA_OUT_OF_MEMORY || status == (loses == 1 ? ROTA_DEVICE_LOST : ROTA_OK));
}

static void one_starves(void **state) {
    (void)state;
    for (uint32_t loses = 0; loses < 3; loses++) starving(loses);
}

static void *let_go(void *user) {
    (void)user;
    test_nap_ms(300);
    ra_store_seq_cst(&goes_on, 1);
    return NULL;
}

static void closed_meanwhile(void **state) {
    (void)state;
    for (uint32_t is_lost = 0; is_lost < 2; is_lost++) {
        world w;
        world_open(&w, LIMIT);
        rota_ticket read;
        pthread_t thread;
        stay_in_submit(&w, 0, halt);
        assert_ok(rota_buffer_read_async(w.large[0], 0, words[0], LARGE, &read));
        ra_store_seq_cst(&leaves_submit, 1);
        await(&halted, 1);
        for (uint32_t d = 0; d < FAKES; d++) {
            rota_plan_release(w.change[d]);
            rota_buffer_release(w.small[d]);
            rota_buffer_release(w.large[d]);
        }
        if (is_lost) rota_device_set_lost(w.fakes[0], "given up by the test");
        assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
        const rota_status status = rota_runtime_close(w.runtime, SOON_NS);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (w.options.violations) fail_msg("%s", w.options.violation);
        assert_int_equal(status, ROTA_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_in_time),
        cmocka_unit_test(two_losses),
        cmocka_unit_test(one_starves),
        cmocka_unit_test(closed_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
