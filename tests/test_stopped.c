/* Stopped threads (P4): one thread is halted at each marked point, that is before each atomic operation,
 * inside record, submit, poll, wait and release; eight others then submit, wait and read, and must all
 * finish. */
#include "tests/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/atomic.h"
#include "base/futex.h"
#include "sched/testing.h"

enum { OTHERS = 8, POINTS_MAX = 60 };

typedef struct scene {
    rota_runtime *runtime;
    rota_device *device;
    rota_plan *plan, *victims_plan;
    rota_buffer *shared;
    uint32_t expected;
} scene;

/* What the victim does: prepare runs unmarked, act is halted. */
typedef struct act {
    const char *name;
    void (*prepare)(scene *s);
    void (*act)(scene *s);
} act;

/* ---- The victim ---- */

static rota_ticket victims_ticket;
static rota_buffer *victims_buffer;
static rota_plan *victims_release;
static rota_recorder *victims_recorder;
static rota_graph *victims_graph;
static rota_args *victims_args;

static void nothing(scene *s) {
    (void)s;
}
static void act_submit(scene *s) {
    (void)rota_submit(s->victims_plan, NULL, NULL);
}
static void prepare_ticket(scene *s) {
    assert_ok(rota_submit_wait(s->victims_plan, NULL, 0, &victims_ticket));
}
static void act_poll(scene *s) {
    (void)s;
    (void)rota_poll(victims_ticket);
    uint64_t number;
    (void)rota_ticket_number(victims_ticket, &number);
}
static void prepare_gated(scene *s) {
    victims_buffer = test_words(s->device, "gated", 4, 0);
    victims_release = test_plan_1(s->device, "gate", &test_gate, victims_buffer, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(victims_release, NULL, 0, &victims_ticket));
    rota_plan_release(victims_release);
    rota_buffer_release(victims_buffer);
}
static void act_wait(scene *s) {
    (void)s;
    (void)rota_wait(victims_ticket, 3000000);
}
static void prepare_release(scene *s) {
    victims_buffer = test_words(s->device, "released", 4, 0);
    victims_release = test_plan_1(s->device, "released", &test_increment, victims_buffer, ROTA_READWRITE);
    assert_ok(rota_args_create(victims_release, &victims_args));
    assert_ok(rota_submit_wait(victims_release, NULL, 0, NULL));
}
static void act_release(scene *s) {
    (void)s;
    rota_buffer_release(victims_buffer);
    rota_args_release(victims_args);
    rota_plan_release(victims_release);
}
static void prepare_record(scene *s) {
    victims_buffer = test_words(s->device, "recorded", 4, 0);
    assert_ok(rota_graph_create(NULL, &victims_graph));
    assert_ok(rota_recorder_open(victims_graph, 0, NULL, &victims_recorder));
    assert_ok(rota_recorder_reserve(victims_recorder, 4, 8, 64));
}
static void act_record(scene *s) {
    (void)s;
    rota_access access = {victims_buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    for (int i = 0; i < 3; i++)
        (void)rota_record_kernel(
            victims_recorder,
            &(rota_kernel_node){.kernel = &test_increment, .accesses = &access, .access_count = 1}, NULL);
    rota_recorder_close(victims_recorder);
}

static const act acts[] = {
    {"submit", nothing, act_submit},        {"poll", prepare_ticket, act_poll},
    {"wait", prepare_gated, act_wait},      {"release", prepare_release, act_release},
    {"record", prepare_record, act_record},
};

/* Cleans up what prepare made and act did not take. */
static void tidy(const act *what) {
    if (what->prepare == prepare_record) {
        rota_graph_release(victims_graph);
        rota_buffer_release(victims_buffer);
    }
}

/* ---- Halting: with plain C11 operations, which are no marked points ---- */

typedef struct victim {
    scene *scene;
    const act *what;
    uint32_t left; /* marks until the halt; 0: only count */
    uint32_t passed;
    _Atomic uint32_t halted; /* 1: halted, 2: ended */
    _Atomic uint32_t go;
} victim;

static void at_mark(void *user, const char *file, int line) {
    (void)file;
    (void)line;
    victim *v = user;
    v->passed++;
    if (v->left == 0 || --v->left != 0) return;
    rota_mark_hook = NULL; /* what follows is not the library's */
    atomic_store(&v->halted, 1);
    rota_futex_wake(&v->halted, INT32_MAX);
    uint64_t deadline = rota_deadline_after(60000000000u);
    while (!atomic_load(&v->go))
        if (!rota_futex_wait(&v->go, 0, deadline)) break;
}

static void *victim_main(void *user) {
    victim *v = user;
    rota_mark_user = v;
    rota_mark_hook = at_mark;
    v->what->act(v->scene);
    rota_mark_hook = NULL;
    if (!atomic_load(&v->halted)) atomic_store(&v->halted, 2);
    rota_futex_wake(&v->halted, INT32_MAX);
    return NULL;
}

/* ---- The others ---- */

static void *other_main(void *user) {
    scene *s = user;
    rota_ticket ticket = {0};
    for (int i = 0; i < 10; i++)
        if (rota_submit_wait(s->plan, NULL, 10000000000u, &ticket) != ROTA_OK) return "submit";
    if (rota_wait(ticket, 10000000000u) != ROTA_OK) return "wait";
    rota_buffer *own;
    uint32_t in[16] = {3}, out[16];
    if (rota_runtime_buffer(s->runtime, "own", sizeof in, &own) != ROTA_OK) return "buffer";
    if (rota_buffer_write(own, s->device, 0, in, sizeof in, NULL) != ROTA_OK) return "write";
    if (rota_buffer_read(own, 0, out, sizeof out) != ROTA_OK || out[0] != 3) return "read";
    rota_buffer_release(own);
    return NULL;
}

/* One victim, halted at its mark number `point` (0: never), and the others. The number of marks it passed. */
static uint32_t play(scene *s, const act *what, uint32_t point) {
    what->prepare(s);
    victim v = {.scene = s, .what = what, .left = point};
    pthread_t thread, others[OTHERS];
    assert_int_equal(pthread_create(&thread, NULL, victim_main, &v), 0);
    uint64_t deadline = rota_deadline_after(20000000000u);
    while (!atomic_load(&v.halted))
        if (!rota_futex_wait(&v.halted, 0, deadline))
            fail_msg("%s: the victim neither halted nor ended", what->name);
    /* A plan that runs holds back its queue's timeline, and with it the others' tickets: that is not the
     * victim's doing. */
    test_gate_open(true);
    for (int t = 0; t < OTHERS; t++) assert_int_equal(pthread_create(&others[t], NULL, other_main, s), 0);
    for (int t = 0; t < OTHERS; t++) {
        void *failure;
        (void)pthread_join(others[t], &failure);
        if (failure)
            fail_msg("%s halted at mark %u: another thread failed at %s", what->name, point, (char *)failure);
    }
    s->expected += OTHERS * 10;
    atomic_store(&v.go, 1);
    rota_futex_wake(&v.go, INT32_MAX);
    (void)pthread_join(thread, NULL);
    tidy(what);
    return v.passed;
}

static void others_finish(void **state) {
    runtime_fixture *f = *state;
    scene s = {.runtime = f->runtime, .device = f->device};
    s.shared = test_words(f->device, "shared", 16, 0);
    rota_buffer *own = test_words(f->device, "victim's", 16, 0);
    s.plan = test_plan_1(f->device, "others", &test_increment, s.shared, ROTA_READWRITE);
    s.victims_plan = test_plan_1(f->device, "victim's", &test_increment, own, ROTA_READWRITE);
    for (size_t a = 0; a < sizeof acts / sizeof *acts; a++) {
        uint32_t points = play(&s, &acts[a], 0);
        if (points < 2) fail_msg("%s has %u marked points: the hook does not work", acts[a].name, points);
        /* All of them, or as many spread over a wait that spins. */
        uint32_t plays = points > POINTS_MAX ? POINTS_MAX : points;
        for (uint32_t i = 0; i < plays; i++)
            (void)play(&s, &acts[a], 1 + (uint32_t)((uint64_t)i * points / plays));
    }
    test_expect_words(s.shared, 16, s.expected);
    rota_plan_release(s.plan);
    rota_plan_release(s.victims_plan);
    rota_buffer_release(s.shared);
    rota_buffer_release(own);
}

/* The proof that this test can fail: with submissions under one mutex, which the benchmark has as its
 * baseline, a thread halted while it holds the mutex does stop another. */
static _Atomic uint32_t locked_done;

static void act_submit_locked(scene *s) {
    (void)rota_submit_locked(s->victims_plan, NULL, NULL);
}

static void *submit_locked_main(void *user) {
    scene *s = user;
    (void)rota_submit_locked(s->plan, NULL, NULL);
    atomic_store(&locked_done, 1);
    rota_futex_wake(&locked_done, 1);
    return NULL;
}

static void a_lock_is_noticed(void **state) {
    runtime_fixture *f = *state;
    scene s = {.runtime = f->runtime, .device = f->device};
    s.shared = test_words(f->device, "shared", 16, 0);
    rota_buffer *own = test_words(f->device, "victim's", 16, 0);
    s.plan = test_plan_1(f->device, "other", &test_increment, s.shared, ROTA_READWRITE);
    s.victims_plan = test_plan_1(f->device, "victim's", &test_increment, own, ROTA_READWRITE);
    test_expect_words(s.shared, 16, 0); /* nothing is in flight when submission is locked */
    assert_ok(rota_runtime_lock_submission(f->runtime, true));
    const act locked = {"locked submit", nothing, act_submit_locked};
    uint32_t stopped = 0, submitted = 0;
    for (uint32_t point = 1; point <= POINTS_MAX && stopped == 0; point++) {
        victim v = {.scene = &s, .what = &locked, .left = point};
        pthread_t thread, other;
        assert_int_equal(pthread_create(&thread, NULL, victim_main, &v), 0);
        uint64_t deadline = rota_deadline_after(20000000000u);
        while (!atomic_load(&v.halted))
            if (!rota_futex_wait(&v.halted, 0, deadline)) fail_msg("the victim neither halted nor ended");
        atomic_store(&locked_done, 0);
        assert_int_equal(pthread_create(&other, NULL, submit_locked_main, &s), 0);
        deadline = rota_deadline_after(200000000);
        while (!atomic_load(&locked_done))
            if (!rota_futex_wait(&locked_done, 0, deadline)) break;
        if (!atomic_load(&locked_done)) stopped++;
        submitted++;
        atomic_store(&v.go, 1);
        rota_futex_wake(&v.go, INT32_MAX);
        (void)pthread_join(thread, NULL);
        (void)pthread_join(other, NULL);
    }
    assert_ok(rota_runtime_lock_submission(f->runtime, false));
    assert_int_equal(stopped, 1);
    test_expect_words(s.shared, 16, submitted);
    rota_plan_release(s.plan);
    rota_plan_release(s.victims_plan);
    rota_buffer_release(s.shared);
    rota_buffer_release(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(others_finish, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(a_lock_is_noticed, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
