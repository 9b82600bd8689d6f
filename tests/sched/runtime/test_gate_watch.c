/* Of two devices that wait for each other on the GPU the one that is stuck is given up, not the one that waits for it.
 */
#include "tests/kit/runtime_support.h"

#include "base/atomic.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

enum { WORDS = 64, QUEUES = 3 };
#define SOON_NS 5000000000u
#define TIMEOUT_NS 500000000u

static rota_plan *on_queue(rota_device *device, uint32_t queue, const rota_kernel *kernel,
                           rota_buffer *buffer) {
    const test_node node = {kernel, NULL, {{buffer, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
    return test_plan_on_queue(device, queue, QUEUES, &node);
}

/* Two devices that wait for each other on the GPU, of which `one` is stuck in `gate` while `next` waits for that on
 * `two`; and `last`, which comes after both. */
typedef struct scene {
    adversary_options options; /* the runtime reads them as it opens devices */
    rota_runtime *runtime;
    rota_device *one, *two, *third;
    rota_buffer *y, *z;
    rota_plan *gate, *next, *last;
} scene;

/* `has_third`: `last` is on a third device, which is no GPU's of theirs, else on another queue of `one`. */
static void open_scene(scene *s, uint32_t stuck, bool has_third, uint64_t spin_ns) {
    rota_device *devices[2];
    *s = (scene){.options = {.seed = 5, .shares_memory = true, .timelines = true}};
    assert_ok(adversary_runtime_open(
        &s->options,
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = QUEUES, .spin_ns = spin_ns),
        &s->runtime));
    assert_ok(rota_device_open(s->runtime, "adversary", &devices[0]));
    assert_ok(rota_device_open(s->runtime, "adversary:1", &devices[1]));
    if (has_third) {
        s->options.shares_memory = s->options.timelines = false;
        assert_ok(rota_device_open(s->runtime, "adversary:2", &s->third));
    }
    s->one = devices[stuck], s->two = devices[1 - stuck];
    assert_int_not_equal(ra_load_relaxed(&s->one->others.linked), 0);
    s->y = test_words(s->one, "y", WORDS, 5);
    s->gate = on_queue(s->one, 0, &test_gate, s->y);
    s->next = on_queue(s->two, 0, &test_increment, s->y);
    test_expect_words(s->y, WORDS, 5);
    if (has_third) {
        s->z = test_words(s->third, "z", WORDS, 0);
        s->last = test_plan_copy_kernel(s->third, "last", s->y, s->z);
        test_expect_words(s->z, WORDS, 0);
    } else {
        s->last = on_queue(s->one, 1, &test_increment, s->y);
    }
}

static void close_scene(scene *s) {
    rota_plan *plans[] = {s->gate, s->next, s->last};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    rota_buffer_release(s->y);
    if (s->z) rota_buffer_release(s->z);
    (void)rota_runtime_close(s->runtime, SOON_NS);
}

/* Submits `gate`, which runs then, and what waits for it. */
static void submit(const scene *s, bool with_last, rota_ticket out_tickets[3]) {
    test_gate_open(false);
    assert_ok(rota_submit_wait(s->gate, NULL, 0, &out_tickets[0]));
    test_gates_running(1);
    assert_ok(rota_submit_wait(s->next, NULL, 0, &out_tickets[1]));
    if (with_last) assert_ok(rota_submit_wait(s->last, NULL, 0, &out_tickets[2]));
    test_sequenced(out_tickets[1 + with_last]);
}

typedef enum comes_last { NOBODY, ITS_OTHER_QUEUE, A_THIRD } comes_last;

/* A first time, in which all goes well, and a second, in which the gate stays shut. `last` is submitted each time, but
 * a third device's the second time alone. `spin_ns`: how long threads look for work. */
static void stuck_one(uint32_t stuck, comes_last comes, uint64_t spin_ns) {
    scene s;
    rota_ticket tickets[3];
    open_scene(&s, stuck, comes == A_THIRD, spin_ns);
    const bool at_first = comes == ITS_OTHER_QUEUE, with_last = comes != NOBODY;
    submit(&s, at_first, tickets);
    test_gate_open(true);
    assert_ok(rota_wait(tickets[1 + at_first], SOON_NS));
    submit(&s, with_last, tickets);
    for (uint32_t i = 0; i < 2000 && !rota_device_is_lost(s.one); i++) test_nap_ms(1);
    test_nap_ms(300);
    const bool one_is = rota_device_is_lost(s.one), two_is = rota_device_is_lost(s.two);
    test_gate_open(true);
    (void)rota_wait(tickets[1 + with_last], SOON_NS);
    close_scene(&s);
    assert_true(one_is);
    assert_false(two_is);
}

/* The device that waits on the GPU is lost, and so waits in vain: the other one is not given up for its sake, whose
 * kernel is a long one. `with_last`: a device that is well waits for what the lost one's work was to come after. */
static void awaited_by_lost(bool with_last) {
    scene s;
    rota_ticket tickets[3];
    open_scene(&s, 0, true, 0);
    submit(&s, with_last, tickets);
    const uint64_t until = rota_deadline_after(SOON_NS);
    while (!ra_load_acquire(&s.two->gate.pending) && rota_clock_ns() < until) test_nap();
    const bool is_pending = ra_load_acquire(&s.two->gate.pending) != 0;
    rota_device_set_lost(s.two, "given up by the test");
    for (uint32_t i = 0; i < (with_last ? 5000u : 1500u) && !rota_device_is_lost(s.one); i++) test_nap_ms(1);
    const bool is_lost = rota_device_is_lost(s.one), third_is = rota_device_is_lost(s.third);
    const rota_status waited = rota_wait(tickets[1], SOON_NS);
    /* Of a lost device's work while it is stuck: it may get there as soon as the gate is open, and then it did. */
    rota_status first = with_last ? rota_wait(tickets[0], SOON_NS) : ROTA_BUSY;
    test_gate_open(true);
    if (!with_last) first = rota_wait(tickets[0], SOON_NS);
    close_scene(&s);
    assert_true(is_pending);
    assert_false(third_is);
    assert_int_equal(is_lost, with_last);
    assert_int_equal(waited, ROTA_DEVICE_LOST);
    assert_int_equal(first, with_last ? ROTA_DEVICE_LOST : ROTA_OK);
}

static void a_lost_one_waits(void **state) {
    (void)state;
    awaited_by_lost(false);
}
static void a_lost_one_waits_and_a_third_for_it(void **state) {
    (void)state;
    awaited_by_lost(true);
}

static void a_third_waits(void **state) {
    (void)state;
    stuck_one(0, A_THIRD, 0);
    stuck_one(1, A_THIRD, 0);
}
static void first_is_stuck(void **state) {
    (void)state;
    stuck_one(0, NOBODY, 0);
}
static void second_is_stuck(void **state) {
    (void)state;
    stuck_one(1, NOBODY, 0);
}
static void one_is_stuck_and_threads_look_for_long(void **state) {
    (void)state;
    stuck_one(0, NOBODY, 100000000000u);
}
static void first_is_stuck_and_waits(void **state) {
    (void)state;
    stuck_one(0, ITS_OTHER_QUEUE, 0);
}
static void second_is_stuck_and_waits(void **state) {
    (void)state;
    stuck_one(1, ITS_OTHER_QUEUE, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_is_stuck),
        cmocka_unit_test(second_is_stuck),
        cmocka_unit_test(one_is_stuck_and_threads_look_for_long),
        cmocka_unit_test(first_is_stuck_and_waits),
        cmocka_unit_test(second_is_stuck_and_waits),
        cmocka_unit_test(a_third_waits),
        cmocka_unit_test(a_lost_one_waits),
        cmocka_unit_test(a_lost_one_waits_and_a_third_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
