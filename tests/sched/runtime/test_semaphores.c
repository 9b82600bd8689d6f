/* Timelines that are semaphores, over a device that has words for them: what is promised of them where threads are
 * kept, and while a runtime closes. On a driver: test_vk_points. */
#include "tests/sched/runtime/external_kit.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/external_semaphore.h"
#include "sched/runtime/shared/external_timeline.h"

#define LATE_NS 100000000u

static rota_external_timeline *semaphore_of(rota_device *device, const char *name) {
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_import(device, -1, name, &timeline));
    return timeline;
}

static uint64_t signalled(const rota_external_timeline *timeline) {
    return adversary_semaphore_value(timeline->semaphore->exec.handle);
}

static void expect_signalled(const rota_external_timeline *timeline, uint64_t value) {
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (signalled(timeline) < value) {
        if (rota_clock_ns() > until) fail_msg("signalled to %llu", (unsigned long long)signalled(timeline));
        test_nap_ns(100000);
    }
    assert_int_equal(signalled(timeline), value);
}

/* By who moves it, and by the end of a ticket. */
static void moved(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    rota_external_timeline *results = semaphore_of(s->other, "results");
    rota_buffer *x = test_words(s->cpu, "x", WORDS, 1);
    rota_plan *plan = test_plan_1(s->cpu, "adds", &test_increment, x, ROTA_READWRITE);
    for (uint64_t round = 1; round <= 20; round++) {
        const rota_ticket ticket = submit(plan);
        assert_ok(rota_ticket_export(ticket, results, 2 * round));
        expect_signalled(results, 2 * round);
        assert_ok(rota_poll(ticket));
        assert_ok(rota_external_timeline_signal(results, 2 * round + 1));
        expect_signalled(results, 2 * round + 1);
    }
    rota_external_timeline_release(results);
    rota_plan_release(plan);
    rota_buffer_release(x);
    close_scene(s);
}

/* ---- While the runtime closes ---- */

typedef struct late_signal {
    rota_external_timeline *timeline;
    rota_status status;
} late_signal;

/* Close's, when all devices are closed and the runtime is not yet. */
static void signal_late(void *user) {
    late_signal *late = user;
    late->status = rota_external_timeline_reach(late->timeline, 9);
}

/* Who saw the runtime open, and goes on when the device is closed and others are not: told so, with nothing changed. */
static void closing(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    static _Alignas(64) uint32_t words[WORDS];
    late_signal late = {semaphore_of(s->other, "results"), ROTA_OK};
    rota_buffer *x;
    uint64_t value = 1;
    assert_ok(rota_buffer_adopt(s->cpu,
                                &ROTA_ADOPT_OPTIONS(.name = "x", .memory = words, .size_bytes = BYTES,
                                                    .release = signal_late, .user = &late),
                                &x));
    close_scene(s);
    assert_status(late.status, ROTA_WRONG_STATE);
    assert_ok(rota_external_timeline_value(late.timeline, &value));
    assert_int_equal(value, 0);
    rota_external_timeline_release(late.timeline);
    rota_buffer_release(x);
}

static void *close_it(void *user) {
    return (void *)(intptr_t)rota_runtime_close(((scene *)user)->runtime, 0);
}

/* Somebody is stopped at a semaphore, a point of which was reached and nobody looked: it is signalled all the same. */
static void closing_with_somebody_inside(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    rota_external_timeline *results = semaphore_of(s->other, "results");
    pthread_t thread;
    void *status = NULL;
    test_nap_ns(LATE_NS); /* its thread has nothing to do, and sleeps */
    assert_true(rota_external_semaphore_enter(results->semaphore));
    ra_store_release(&results->semaphore->to_signal, 5);
    assert_int_equal(signalled(results), 0);
    assert_int_equal(pthread_create(&thread, NULL, close_it, s), 0);
    expect_signalled(results, 5);
    rota_external_semaphore_leave(results->semaphore);
    (void)pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, ROTA_OK);
    rota_external_timeline_release(results);
    rota_external_timeline_release(s->timeline);
    free(s);
}

static void *open_gate_later(void *user) {
    test_nap_ns((uint64_t)(uintptr_t)user);
    test_gate_open(true);
    return NULL;
}

/* What is held for one that was released goes on when its ticket has ended, also while the runtime closes. */
static void released(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    rota_external_timeline *results = semaphore_of(s->other, "results");
    rota_buffer *x = test_words(s->cpu, "x", 1, 0), *y = test_words(s->cpu, "y", WORDS, 1);
    rota_plan *stays = test_plan_1(s->cpu, "stays", &test_gate, x, ROTA_READWRITE);
    rota_plan *later = test_plan_1(s->cpu, "later", &test_increment, y, ROTA_READWRITE);
    pthread_t thread;
    test_gate_open(false);
    const rota_ticket ticket = submit(stays);
    assert_ok(rota_ticket_export(ticket, results, 1));
    (void)submit_after(later, results, 1);
    const _Atomic uint32_t *users = &results->semaphore->users; /* the submission holds the timeline */
    rota_external_timeline_release(results);
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (!ra_load_acquire(users) && rota_clock_ns() < until) test_nap_ns(100000);
    assert_int_not_equal(ra_load_acquire(users), 0); /* forgotten */
    assert_int_equal(pthread_create(&thread, NULL, open_gate_later, (void *)(uintptr_t)LATE_NS), 0);
    rota_plan_release(stays);
    rota_plan_release(later);
    rota_buffer_release(x);
    rota_buffer_release(y);
    const uint64_t begin = rota_clock_ns();
    close_scene(s);
    assert_true(rota_clock_ns() - begin < PATIENCE_NS / 2);
    (void)pthread_join(thread, NULL);
}

/* ---- A driver that keeps who signals ---- */

/* Who exports or releases one meanwhile has the runtime's timeout, and no more; the timeline stays then. */
static void kept(void **state) {
    (void)state;
    scene *s = open_scene(false, LATE_NS);
    rota_external_timeline *results = semaphore_of(s->other, "results");
    int fd;
    atomic_store(&s->options.faults.signals_stay, true);
    assert_ok(rota_external_timeline_signal(results, 1));
    const uint64_t until = rota_deadline_after(PATIENCE_NS), begin = rota_clock_ns();
    while (!atomic_load(&s->options.signals) && rota_clock_ns() < until) test_nap_ns(100000);
    assert_int_equal(atomic_load(&s->options.signals), 1);
    assert_status(rota_external_timeline_export(results, &fd), ROTA_TIMEOUT);
    expect_said(
        "external timeline 'results': within 0.100 s a driver did not let go of who asks for its semaphore");
    rota_external_timeline_release(results);
    assert_true(rota_clock_ns() - begin < PATIENCE_NS / 2);
    assert_int_equal(ra_load_relaxed(&results->references), 1); /* nothing was given back */
    atomic_store(&s->options.faults.signals_stay, false);
    expect_signalled(results, 1);
    rota_external_timeline_release(results);
    close_scene(s);
}

/* Of two semaphores, where the driver keeps the thread that signals one: who releases the other, a point of which is
 * reached, is not kept with it. */
static void kept_by_another(void **state) {
    (void)state;
    scene *s = open_scene(false, LATE_NS);
    rota_external_timeline *results = semaphore_of(s->other, "results"), *more = semaphore_of(s->other, "more");
    atomic_store(&s->options.faults.signals_stay, true);
    assert_ok(rota_external_timeline_signal(results, 1));
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (!atomic_load(&s->options.signals) && rota_clock_ns() < until) test_nap_ns(100000);
    assert_int_equal(atomic_load(&s->options.signals), 1);
    assert_ok(rota_external_timeline_signal(more, 5));
    const uint64_t begin = rota_clock_ns();
    rota_external_timeline_release(more);
    const uint64_t took = rota_clock_ns() - begin;
    assert_true(took >= LATE_NS && took < PATIENCE_NS / 2);
    assert_int_equal(ra_load_relaxed(&more->references), 1);
    atomic_store(&s->options.faults.signals_stay, false);
    expect_signalled(more, 5);
    rota_external_timeline_release(more);
    rota_external_timeline_release(results);
    close_scene(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moved), cmocka_unit_test(closing),
                                       cmocka_unit_test(closing_with_somebody_inside),
                                       cmocka_unit_test(released), cmocka_unit_test(kept),
                                       cmocka_unit_test(kept_by_another)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
