/* What is decided of points of the application's, and when they moved, with another thread's signal before any of the
 * atomic operations of who decides or signals. The other thread is the test's own, inside of a stop. */
#include "sched/runtime/shared/external_timeline.h"

#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#define TIMEOUT_NS 10000000000u
#define WINDOW_NS 200000000u

typedef struct scene {
    rota_runtime *runtime;
    rota_external_timeline *timelines[2];
    uint64_t words[2 + 2 * 2]; /* both at 9 */
    rota_external_wait after;
    uint32_t target, passed; /* which stop it is done at, and how many were passed */
    uint64_t done_ns, moved_ns;
} scene;

static void open_scene(scene *s) {
    *s = (scene){.words = {2, TIMEOUT_NS}};
    assert_ok(rota_runtime_open(NULL, &s->runtime));
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_external_timeline_create(s->runtime, i ? "second" : "first", &s->timelines[i]));
        s->words[2 + 2 * i] = (uint64_t)(uintptr_t)s->timelines[i];
        s->words[3 + 2 * i] = 9;
    }
    s->after = (rota_external_wait){.words = s->words, .count = 2, .timeout_ns = TIMEOUT_NS};
}

static void close_scene(scene *s) {
    for (uint32_t i = 0; i < 2; i++) rota_external_timeline_release(s->timelines[i]);
    assert_ok(rota_runtime_close(s->runtime, 0));
}

/* ---- When a timeline moved does not fall ---- */

static void signal_between(void *user, const rota_stop_site *site) {
    scene *s = user;
    (void)site;
    if (s->passed++ != s->target) return;
    rota_stop_hook = NULL;
    test_nap_ms(1);
    assert_ok(rota_external_timeline_signal(s->timelines[0], 2));
    s->moved_ns = ra_load_seq_cst(&s->timelines[0]->moved_ns);
    assert_true(s->moved_ns != 0);
    rota_stop_hook = signal_between;
}

static void moved_later(void **state) {
    (void)state;
    uint32_t stops = 0;
    for (bool ends = false; !ends; stops++) {
        scene s;
        uint64_t value;
        open_scene(&s);
        s.target = stops;
        rota_stop_user = &s;
        rota_stop_hook = signal_between;
        assert_ok(rota_external_timeline_signal(s.timelines[0], 1));
        rota_stop_hook = NULL;
        ends = s.passed <= s.target;
        if (!ends && ra_load_seq_cst(&s.timelines[0]->moved_ns) < s.moved_ns)
            fail_msg("stop %u: the other thread's move came %llu ns later", stops,
                     (unsigned long long)(s.moved_ns - ra_load_seq_cst(&s.timelines[0]->moved_ns)));
        assert_ok(rota_external_timeline_value(s.timelines[0], &value));
        assert_int_equal(value, ends ? 1 : 2);
        close_scene(&s);
    }
    assert_true(stops > 4);
}

/* A call that was kept before its timeline moved counts from when it did. */
static void nap_once(void *user, const rota_stop_site *site) {
    scene *s = user;
    (void)site;
    if (s->passed++ != s->target) return;
    uint64_t value;
    rota_stop_hook = NULL;
    test_nap_ms(5);
    assert_ok(rota_external_timeline_value(s->timelines[0], &value));
    if (value == 0) s->done_ns = rota_clock_ns(); /* not before that */
    rota_stop_hook = nap_once;
}

static void moved_late(void **state) {
    (void)state;
    uint32_t stops = 0;
    for (bool ends = false; !ends; stops++) {
        scene s;
        open_scene(&s);
        s.target = stops;
        rota_stop_user = &s;
        rota_stop_hook = nap_once;
        assert_ok(rota_external_timeline_signal(s.timelines[0], 1));
        rota_stop_hook = NULL;
        ends = s.passed <= s.target;
        if (ra_load_seq_cst(&s.timelines[0]->moved_ns) < s.done_ns)
            fail_msg("stop %u: it moved %llu ns after what was noted", stops,
                     (unsigned long long)(s.done_ns - ra_load_seq_cst(&s.timelines[0]->moved_ns)));
        close_scene(&s);
    }
    assert_true(stops > 4);
}

/* ---- A move before the deadline is not missed ---- */

static void move_before_deadline(void *user, const rota_stop_site *site) {
    scene *s = user;
    (void)site;
    if (s->passed++ != s->target) return;
    rota_stop_hook = NULL;
    s->done_ns = rota_clock_ns();
    assert_ok(rota_external_timeline_signal(s->timelines[0], 2));
    test_nap_ns(WINDOW_NS + WINDOW_NS / 4);
    rota_stop_hook = move_before_deadline;
}

/* A look is under way when a timeline moves, just before the deadline, and goes on after it. */
static void moved_in_time(void **state) {
    (void)state;
    uint32_t stops = 0;
    for (bool ends = false; !ends;) {
        scene s;
        open_scene(&s);
        s.target = stops;
        s.after.since_ns = rota_clock_ns() + WINDOW_NS - TIMEOUT_NS;
        rota_stop_user = &s;
        rota_stop_hook = move_before_deadline;
        const rota_external_outcome outcome = rota_external_wait_look(&s.after, false);
        rota_stop_hook = NULL;
        ends = s.passed <= s.target;
        /* Else this thread was kept past the deadline before: once more. */
        if (ends || s.done_ns < s.after.since_ns + TIMEOUT_NS) {
            if (!ends && outcome != ROTA_EXTERNAL_WAIT_PENDING)
                fail_msg("stop %u: outcome %d, and it moved in time", stops, (int)outcome);
            stops++;
        }
        close_scene(&s);
    }
    assert_true(stops > 4);
}

/* ---- What came too late is named ---- */

static void expect_described(const scene *s, const char *expected) {
    char text[256];
    rota_external_wait_describe(&s->after, text, sizeof text);
    assert_string_equal(text, expected);
}

static void named(void **state) {
    (void)state;
    for (uint32_t closes = 0; closes < 2; closes++) {
        scene s;
        open_scene(&s);
        assert_ok(rota_external_timeline_signal(s.timelines[0], 9));
        s.after.since_ns = closes ? rota_clock_ns() : 1;
        if (!closes) ra_store_seq_cst(&s.timelines[0]->moved_ns, 1);
        expect_described(&s, "external timeline 'second' at 0, of which 9 is waited for");
        assert_int_equal(rota_external_wait_look(&s.after, closes != 0),
                         closes ? ROTA_EXTERNAL_WAIT_CLOSED : ROTA_EXTERNAL_WAIT_EXPIRED);
        expect_described(&s, "external timeline 'second' at 0, of which 9 is waited for");
        assert_ok(rota_external_timeline_signal(s.timelines[1], 11));
        expect_described(&s, "external timeline 'second', which reached 9 too late");
        assert_int_equal(rota_external_wait_look(&s.after, false),
                         closes ? ROTA_EXTERNAL_WAIT_CLOSED : ROTA_EXTERNAL_WAIT_EXPIRED);
        close_scene(&s);
    }
    scene s;
    open_scene(&s);
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_external_timeline_signal(s.timelines[i], 9));
    expect_described(&s, "");
    s.after.since_ns = 1;
    assert_int_equal(rota_external_wait_look(&s.after, true), ROTA_EXTERNAL_WAIT_REACHED);
    expect_described(&s, "");
    close_scene(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moved_later), cmocka_unit_test(moved_late),
                                       cmocka_unit_test(moved_in_time), cmocka_unit_test(named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
