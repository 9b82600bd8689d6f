/* A device is lost while the sequencer makes a submission and hands its works on: at each atomic operation of
 * that thread in turn, on one device and on the other. The ticket ends, bytes that it calls good are good,
 * the other device goes on, and nothing is done that may not be. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/todays.h"
#include "tests/sched/runtime/across_kit.h"

typedef enum scenario { A_MOVE, A_READ, BOTH_PARTS, A_WRITE, SCENARIOS } scenario;

typedef struct strike {
    rota_runtime *runtime;
    rota_device *victim;
    uint32_t operation, seen; /* operations of the sequencer, from where it takes the record on */
    const char *function;     /* NULL; or the first one of this function instead */
    _Atomic bool hooks, armed, struck, passed;
} strike;

static strike now;

static void at_stop(void *user, const rota_stop_site *site) {
    strike *s = user;
    if (!atomic_load(&s->armed)) return;
    if (s->seen == 0 && strcmp(site->function, "rota_sequence_record") != 0) return;
    if (strcmp(site->function, "wake_lane") == 0) { /* it is through with it */
        atomic_store(&s->armed, false);
        atomic_store(&s->passed, true);
        return;
    }
    const uint32_t operation = s->seen++;
    if (s->function ? strcmp(site->function, s->function) != 0 : operation != s->operation) return;
    atomic_store(&s->armed, false);
    atomic_store(&s->struck, true);
    rota_device_set_lost(s->victim, "given up by the test");
}

/* The sequencer hands over itself while there is one device. */
static void on_submit(void *user, uint32_t device) {
    strike *s = user;
    (void)device;
    if (!atomic_load(&s->hooks) || !pthread_equal(pthread_self(), s->runtime->sequencing.thread)) return;
    atomic_store(&s->hooks, false);
    rota_stop_user = s;
    rota_stop_hook = at_stop;
}

/* As open_pair_with, with the hook in place before there is a second device. */
static pair *open_hooked(bool linked, bool unified) {
    pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->options = (adversary_options){.seed = 5,
                                     .unified_host = unified,
                                     .submit_never_blocks = true,
                                     .shares_memory = linked,
                                     .timelines = linked};
    assert_ok(adversary_runtime_open(
        &p->options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 10000000000u, .queues_per_device = 3), &p->runtime));
    memset((void *)&now, 0, sizeof now);
    now.runtime = p->runtime;
    p->options.on_submit_user = &now;
    atomic_store(&p->options.on_submit, on_submit);
    assert_ok(rota_device_open(p->runtime, "adversary", &p->devices[0]));
    rota_buffer *x = test_words(p->devices[0], "first", WORDS, 1);
    rota_plan *first = test_plan_1(p->devices[0], "first", &test_increment, x, ROTA_READWRITE);
    atomic_store(&now.hooks, true);
    rota_ticket ticket;
    for (uint32_t i = 0; i < 1000 && atomic_load(&now.hooks); i++) {
        assert_ok(rota_submit_wait(first, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
    }
    assert_false(atomic_load(&now.hooks));
    rota_plan_release(first);
    rota_buffer_release(x);
    assert_ok(rota_device_open(p->runtime, "adversary:1", &p->devices[1]));
    return p;
}

static void await_judgement(void) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (!atomic_load(&now.struck) && !atomic_load(&now.passed) && rota_clock_ns() < deadline) ra_pause();
    assert_true(atomic_load(&now.struck) || atomic_load(&now.passed));
}

static void expect_end(rota_ticket ticket, uint32_t operation, uint32_t victim, scenario what,
                       rota_status *out) {
    const rota_status status = rota_wait(ticket, 0);
    if (status != ROTA_OK && status != ROTA_DEVICE_LOST)
        fail_msg("scenario %d, device %u lost at operation %u: the ticket says %s: %s", (int)what, victim,
                 operation, rota_status_name(status), rota_last_error());
    if (status != ROTA_OK && !atomic_load(&now.struck)) fail_msg("scenario %d failed by itself", (int)what);
    *out = status;
}

/* As close_after_loss; that keeps fewer. */
static void close_and_keep(pair *p) {
    static pair *volatile kept[2048];
    static uint32_t count;
    (void)rota_runtime_close(p->runtime, 5000000000u);
    if (p->options.violations) fail_msg("%s", p->options.violation);
    assert_true(count < 2048);
    kept[count++] = p;
    assert_non_null(kept[0]);
}

/* `unified`, `linked`: what the devices are. False: the submission was made before that operation. */
static bool loss_at(scenario what, uint32_t victim, bool linked, bool unified, uint32_t operation) {
    static uint32_t words[WORDS], bytes[WORDS];
    pair *p = open_hooked(linked, unified);
    rota_device *other = p->devices[1 - victim];
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, 3), *y = test_words(p->devices[1], "y", WORDS, 1);
    rota_buffer *w = test_words(other, "w", WORDS, 1);
    rota_plan *alone = test_plan_1(other, "alone", &test_increment, w, ROTA_READWRITE);
    rota_plan *copy = test_plan_copy_kernel(p->devices[1], "copy", x, y);
    const rota_kernel *kernels[] = {&test_increment, &test_increment, &test_increment, &test_increment};
    rota_plan *turns = in_turns(p, x, kernels, 4, NULL);
    rota_ticket ticket = {0}, behind;
    rota_status status = ROTA_OK;
    if (what == A_READ) { /* a half on each */
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 3;
        assert_ok(rota_buffer_write(x, p->devices[1], WORDS * 2, words, WORDS * 2, &ticket));
        assert_ok(rota_wait(ticket, 0));
    }
    test_expect_words(y, WORDS, 1); /* all of that has been sequenced */
    test_expect_words(w, WORDS, 1);
    now.victim = p->devices[victim];
    now.operation = operation;
    memset(bytes, 0xee, sizeof bytes);
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 9;
    atomic_store(&now.armed, true);
    if (what == A_MOVE) assert_ok(rota_submit_wait(copy, NULL, 0, &ticket));
    if (what == A_READ) assert_ok(rota_buffer_read_async(x, 0, bytes, sizeof bytes, &ticket));
    if (what == BOTH_PARTS) assert_ok(rota_submit_wait(turns, NULL, 0, &ticket));
    if (what == A_WRITE) assert_ok(rota_buffer_write(x, p->devices[victim], 0, words, sizeof words, &ticket));
    await_judgement();
    assert_ok(rota_submit_wait(alone, NULL, 0, &behind));
    expect_end(ticket, operation, victim, what, &status);
    assert_ok(rota_wait(behind, 0));
    test_expect_words(w, WORDS, 2);
    if (what == A_READ && status == ROTA_OK)
        for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(bytes[i], 3);
    rota_buffer *written = what == A_MOVE ? y : x;
    const uint32_t value = what == BOTH_PARTS ? 7 : what == A_WRITE ? 9 : 3;
    const rota_status got = rota_buffer_read(written, 0, bytes, sizeof bytes);
    if (got != ROTA_OK && got != ROTA_DEVICE_LOST) fail_msg("%s", rota_last_error());
    if (status != ROTA_OK && what != A_READ && got == ROTA_OK)
        fail_msg("what failed reads as good at %u", operation);
    for (uint32_t i = 0; got == ROTA_OK && i < WORDS; i++) assert_int_equal(bytes[i], value);
    const bool struck = atomic_load(&now.struck);
    rota_plan *plans[] = {alone, copy, turns};
    rota_buffer *buffers[] = {x, y, w};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    if (struck)
        close_and_keep(p);
    else
        close_pair(p);
    return struck;
}

/* A runtime takes long to open, most of all under the thread sanitizer. */
#ifdef __SANITIZE_THREAD__
enum { STEP = 25 };
#else
enum { STEP = 7 };
#endif

static void sweep(scenario what) {
    const test_todays todays = test_todays_part();
    for (uint32_t way = 0; way < 6; way++) {
        uint32_t operation = STEP * (uint32_t)todays.part;
        while (operation < 2000 && loss_at(what, way & 1u, way >= 4, way >> 1 & 1u, operation))
            operation += STEP * (uint32_t)todays.parts;
        print_message("scenario %d, way %u: %u operations\n", (int)what, way, operation);
        assert_in_range(operation, 10, 1999);
    }
}

static void moves(void **state) {
    (void)state;
    sweep(A_MOVE);
}
static void reads(void **state) {
    (void)state;
    sweep(A_READ);
}
static void parts(void **state) {
    (void)state;
    sweep(BOTH_PARTS);
}
static void writes(void **state) {
    (void)state;
    sweep(A_WRITE);
}

/* A plan on both devices, a replay of which is held by a gate on the first, so that the next one has another instance
 * made for it, which is chosen after its devices were looked at. One is lost in between. `stays`: a driver does not
 * come back from making the instance, and yet nobody waits for it: not who waits for the replay, nor what comes after
 * that on the other device. */
static void loss_before_choice(uint32_t victim, bool linked, bool stays) {
    static uint32_t from[WORDS], to[2][WORDS];
    pair *p = open_hooked(linked, false);
    rota_device *other = p->devices[1 - victim];
    rota_buffer *behind = test_words(p->devices[0], "behind", WORDS, 1),
                *w = test_words(other, "w", WORDS, 1), *in, *out;
    rota_plan *alone = test_plan_1(other, "alone", &test_increment, w, ROTA_READWRITE);
    rota_plan *gate = test_plan_1(p->devices[0], "gate", &test_gate, behind, ROTA_READWRITE);
    rota_plan *plan = through_both(p, 0, behind, &in, &out);
    rota_args *args[2];
    rota_ticket tickets[2], after;
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_args_create(plan, &args[i]));
        assert_ok(rota_args_set_input(args[i], in, from, sizeof from, false));
        assert_ok(rota_args_set_output(args[i], out, to[i], sizeof to[i]));
    }
    test_expect_words(w, WORDS, 1);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(plan, args[0], 0, &tickets[0]));
    test_sequenced(tickets[0]);
    now.victim = p->devices[victim];
    now.function = "rota_instance_is_near";
    const uint32_t made = atomic_load(&p->options.instance_creations);
    if (stays) atomic_store(&p->options.faults.instances_stay_from, made + 1);
    atomic_store(&now.armed, true);
    assert_ok(rota_submit_wait(plan, args[1], 0, &tickets[1]));
    await_judgement();
    assert_true(atomic_load(&now.struck));
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (atomic_load(&p->options.instance_creations) == made && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_true(atomic_load(&p->options.instance_creations) > made); /* it was asked for */
    test_gate_open(true);
    assert_status(rota_wait(tickets[1], 5000000000u), ROTA_DEVICE_LOST);
    const rota_status first = rota_wait(tickets[0], 5000000000u);
    assert_true(first == ROTA_OK || first == ROTA_DEVICE_LOST);
    assert_ok(rota_submit_wait(alone, NULL, 0, &after));
    assert_ok(rota_wait(after, 5000000000u));
    test_expect_words(w, WORDS, 2);
    assert_status(rota_submit_wait(plan, args[0], 0, &after), ROTA_OK);
    assert_status(rota_wait(after, 5000000000u), ROTA_DEVICE_LOST);
    atomic_store(&p->options.faults.instances_stay_from, 0);
    for (uint32_t i = 0; i < 2; i++) rota_args_release(args[i]);
    rota_plan *plans[] = {alone, gate, plan};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    rota_buffer_release(behind);
    rota_buffer_release(w);
    close_and_keep(p);
}

static void instances(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 8; way++) loss_before_choice(way & 1u, way >> 1 & 1u, way >> 2 & 1u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves),  cmocka_unit_test(reads),     cmocka_unit_test(parts),
        cmocka_unit_test(writes), cmocka_unit_test(instances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
