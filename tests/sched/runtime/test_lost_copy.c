/* What a lost device was to write stays failed (P9), whoever copies it meanwhile; and what was written before
 * stays good, whatever became of copies of it. Two devices are one GPU and have one memory for a buffer, so
 * that what is in the lost one's can be read by the other; others have memories of their own. Moves between
 * them are met wherever the loss may meet them. */

#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary_internal.h"
#include "tests/kit/nap.h"
#include "tests/kit/never_asks.h"
#include "tests/kit/sequenced.h"
#include "tests/sched/runtime/across_kit.h"

#define HALF (WORDS / 2)

/* A gate of its own, and an increment: what stays undecided while test_gate keeps what it does. */
static _Atomic uint32_t late_may;
static rota_status late(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (!ra_load_acquire(&late_may) && rota_clock_ns() < deadline) test_nap_us(100);
    for (uint64_t i = 0; i < call->operand_bytes[0] / 4; i++) x[i]++;
    return ROTA_OK;
}
static const rota_kernel late_kernel = {.name = "late", .operand_count = 1, .cpu = {.fn = late}};

/* ---- The devices, and x ---- */

#define PLANS_MAX 8
#define BUFFERS_MAX 6
typedef struct stage {
    pair *p;
    rota_device *first, *second, *cpu, *third; /* the third has memory of its own */
    rota_buffer *x;
    rota_plan *plans[PLANS_MAX];
    rota_buffer *buffers[BUFFERS_MAX];
    uint32_t plan_count, buffer_count;
} stage;

static rota_plan *add(stage *s, rota_plan *plan) {
    assert_true(s->plan_count < PLANS_MAX);
    return s->plans[s->plan_count++] = plan;
}
static rota_buffer *words(stage *s, rota_device *device, const char *name, uint32_t value) {
    assert_true(s->buffer_count < BUFFERS_MAX);
    return s->buffers[s->buffer_count++] = test_words(device, name, WORDS, value);
}
static rota_plan *copying_x(stage *s, rota_device *device, const char *name) {
    return add(s, test_plan_copy_kernel(device, name, s->x, words(s, device, name, 0)));
}
static rota_plan *changing(stage *s, rota_device *device, const rota_kernel *kernel, uint64_t from,
                           uint64_t count) {
    test_node node = {kernel, kernel->name, {{s->x, from * 4, count * 4, ROTA_READWRITE}}, 1};
    return add(s, test_plan(device, kernel->name, &node, 1));
}

static void run(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
}

/* Sequenced, and not over. */
static rota_ticket begin(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    test_sequenced(ticket);
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    return ticket;
}

typedef struct setting {
    bool asks;        /* what failed, node by node; as a GPU, which does not, else */
    bool from_first;  /* while the first is well, what both have is copied from it; else from the second */
    bool host_orders; /* nothing waits on its device for another one */
    bool unified;     /* the host sees the memory of the first and of the second */
    bool at_third;    /* x is written there, not to the first */
} setting;

/* x is 1 everywhere. */
static void open_stage(stage *s, setting a) {
    *s = (stage){.p = open_pair_with(&(adversary_options){.shares_memory = true,
                                                          .timelines = true,
                                                          .seed = 7,
                                                          .unified_host = a.unified,
                                                          .faults.timeline_fails_in = a.host_orders ? 1 : 0},
                                     20000000000u)};
    s->first = s->p->devices[a.from_first ? 0 : 1];
    s->second = s->p->devices[a.from_first ? 1 : 0];
    s->p->options.shares_memory = s->p->options.unified_host = false;
    assert_ok(rota_device_open(s->p->runtime, "cpu", &s->cpu));
    assert_ok(rota_device_open(s->p->runtime, "adversary:2", &s->third));
    assert_int_equal(ra_load_relaxed(&s->first->others.linked) != 0, !a.host_orders);
    if (!a.asks) {
        test_never_asks(s->first, true);
        test_never_asks(s->second, true);
        test_never_asks(s->third, true);
    }
    ra_store_release(&late_may, 0);
    s->x = words(s, a.at_third ? s->third : s->first, "x", 1);
}

static void close_stage(stage *s) {
    test_gate_open(true);
    ra_store_release(&late_may, 1);
    s->p->options.faults.submits_stay = 0;
    for (uint32_t i = 0; i < s->plan_count; i++) rota_plan_release(s->plans[i]);
    for (uint32_t i = 0; i < s->buffer_count; i++) rota_buffer_release(s->buffers[i]);
    close_after_loss(s->p);
}

static void lose(rota_device *device) {
    rota_device_set_lost(device, "given up by the test");
}

static void is_lost(rota_ticket ticket) {
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
}

/* Words [from, to) of x are `value`; 0: what they were to be was not written. */
static void expect_x(stage *s, uint32_t from, uint32_t to, uint32_t value) {
    uint32_t got[WORDS];
    for (uint32_t again = 0; again < 2; again++) {
        const rota_status status = rota_buffer_read(s->x, from * 4, got, (to - from) * 4);
        if (value)
            assert_ok(status);
        else if (status == ROTA_OK)
            fail_msg("x, which the lost device was to change, is read as %u", got[0]);
        else
            assert_status(status, ROTA_DEVICE_LOST);
        for (uint32_t i = 0; value && i < to - from; i++) assert_int_equal(got[i], value);
    }
}

static void fails_too(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    is_lost(ticket);
}

/* ---- What was not written ---- */

typedef enum meeting {
    BEFORE_SEQUENCED,
    BEFORE_HANDED_OVER, /* the first half waits on the host */
    WITH_THE_LOST,      /* it is the lost device's */
    AFTER_HANDED_OVER,  /* it waits on its device */
    WITHOUT_FIRST_HALF  /* the host sees the memory that it is copied from */
} meeting;

/* The first is at a gate, and was to change x behind it, if only by the host's write; a copy of x for the CPU
 * meets the loss. */
static void a_copy_meets_the_loss(meeting when, bool asks, bool writes) {
    stage s;
    rota_ticket far_ticket = {0}, step_ticket;
    open_stage(&s, (setting){.asks = asks,
                             .from_first = when == WITH_THE_LOST,
                             .host_orders = when == BEFORE_HANDED_OVER,
                             .unified = when == WITHOUT_FIRST_HALF});
    rota_plan *near = copying_x(&s, s.second, "near"), *far = copying_x(&s, s.cpu, "far"),
              *gate = changing(&s, s.first, &test_gate, 0, WORDS),
              *step = changing(&s, s.first, &test_increment, 0, WORDS);
    run(near);
    if (when == AFTER_HANDED_OVER) { /* once round: from then on the first signals what is waited for */
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        static const uint32_t ones[WORDS] = {1};
        if (writes) assert_ok(rota_buffer_write(s.x, s.first, 0, ones, sizeof ones, NULL));
        (void)begin(near);
        test_gate_open(true);
        expect_x(&s, 0, 1, 1);
    }
    const uint64_t waits = s.p->options.timeline_waits;
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    if (writes) {
        static const uint32_t twos[WORDS] = {2};
        assert_ok(rota_buffer_write(s.x, s.first, 0, twos, sizeof twos, &step_ticket));
    } else {
        assert_ok(rota_submit_wait(step, NULL, 0, &step_ticket));
    }
    test_gates_running(1);
    if (when != BEFORE_SEQUENCED) far_ticket = begin(far);
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (when == AFTER_HANDED_OVER && s.p->options.timeline_waits == waits && rota_clock_ns() < deadline)
        test_nap();
    if (when == AFTER_HANDED_OVER) assert_true(s.p->options.timeline_waits > waits);
    lose(s.first);
    is_lost(step_ticket);
    if (when == BEFORE_SEQUENCED) assert_ok(rota_submit_wait(far, NULL, 0, &far_ticket));
    is_lost(far_ticket);
    expect_x(&s, 0, WORDS, 0);
    fails_too(near);
    fails_too(far);
    expect_x(&s, 0, WORDS, 0);
    close_stage(&s);
}

static void it_meets_both(meeting when) {
    a_copy_meets_the_loss(when, false, when % 2);
    a_copy_meets_the_loss(when, true, !(when % 2));
}
static void lost_before_the_copy_is_sequenced(void **state) {
    (void)state;
    it_meets_both(BEFORE_SEQUENCED);
}
static void lost_while_the_host_holds_the_copy(void **state) {
    (void)state;
    it_meets_both(BEFORE_HANDED_OVER);
}
static void lost_with_the_first_half(void **state) {
    (void)state;
    it_meets_both(WITH_THE_LOST);
}
static void lost_while_the_first_half_waits(void **state) {
    (void)state;
    it_meets_both(AFTER_HANDED_OVER);
}
static void lost_where_there_is_no_first_half(void **state) {
    (void)state;
    it_meets_both(WITHOUT_FIRST_HALF);
}

/* One move of two ranges: what the lost device was to write of one of them stays failed; what the other
 * device wrote of the other, before or after the loss, is good. */
static void ranges_of_one_move(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const bool is_late = i % 2;
        stage s;
        open_stage(&s, (setting){.asks = is_late, .host_orders = is_late});
        rota_plan *near = copying_x(&s, s.second, "near"), *far = copying_x(&s, s.cpu, "far"),
                  *gate = changing(&s, s.first, &test_gate, 0, HALF),
                  *step = changing(&s, s.first, &test_increment, 0, HALF),
                  *other = changing(&s, s.second, &late_kernel, HALF, HALF);
        run(near);
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        assert_ok(rota_submit_wait(step, NULL, 0, NULL));
        if (!is_late) ra_store_release(&late_may, 1);
        rota_ticket other_ticket;
        assert_ok(rota_submit_wait(other, NULL, 0, &other_ticket));
        if (!is_late) assert_ok(rota_wait(other_ticket, 0));
        test_gates_running(1);
        rota_runtime_stats before = ROTA_RUNTIME_STATS(), after = ROTA_RUNTIME_STATS();
        rota_runtime_get_stats(s.p->runtime, &before);
        rota_ticket ticket = begin(far);
        rota_runtime_get_stats(s.p->runtime, &after);
        assert_int_equal(after.migrations - before.migrations, 1);
        lose(s.first);
        if (is_late) test_nap();
        ra_store_release(&late_may, 1);
        is_lost(ticket);
        assert_ok(rota_wait(other_ticket, 0));
        expect_x(&s, 0, HALF, 0);
        expect_x(&s, HALF, WORDS, 2);
        expect_x(&s, 0, WORDS, 0);
        fails_too(near);
        close_stage(&s);
    }
}

typedef struct three_copies {
    stage stage;
    rota_plan *near, *far, *third; /* of the second device, of the CPU, of the third */
} three_copies;

/* One is made near; then the first device stands at a gate, behind which it is to change x. */
static void open_copies(three_copies *c, setting given) {
    stage *s = &c->stage;
    open_stage(s, given);
    c->near = copying_x(s, s->second, "near");
    c->far = copying_x(s, s->cpu, "far");
    c->third = copying_x(s, s->third, "third");
    rota_plan *gate = changing(s, s->first, &test_gate, 0, WORDS),
              *step = changing(s, s->first, &test_increment, 0, WORDS);
    run(c->near);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(step, NULL, 0, NULL));
    test_gates_running(1);
}

/* Copies of copies: those that are still to be made when the first is lost, and one that is made later. */
static void copies_of_copies(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        three_copies c;
        open_copies(&c, (setting){.asks = i, .from_first = i, .host_orders = !i});
        rota_ticket one = begin(c.far), two = begin(c.third);
        lose(c.stage.first);
        is_lost(one);
        is_lost(two);
        expect_x(&c.stage, 0, WORDS, 0);
        fails_too(c.third);
        fails_too(c.near);
        fails_too(c.far);
        expect_x(&c.stage, 0, WORDS, 0);
        close_stage(&c.stage);
    }
}

/* Where the copy for the third stands for what the first was to write, and one for the CPU for that one's:
 * the third is lost first, before it is given the copy, and so nobody looks at what that stood for in its
 * turn. */
static void copies_of_lost_copies(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        three_copies c;
        open_copies(&c, (setting){.asks = i, .from_first = i, .host_orders = true});
        rota_ticket one = begin(c.third), two = begin(c.far);
        lose(c.stage.third);
        assert_status(rota_wait(two, 50000000u), ROTA_TIMEOUT);
        lose(c.stage.first);
        is_lost(one);
        is_lost(two);
        expect_x(&c.stage, 0, WORDS, 0);
        fails_too(c.near);
        fails_too(c.far);
        close_stage(&c.stage);
    }
}

/* A plan's own copy stands for what it copies, too. */
static rota_plan *change_and_look(stage *s, rota_buffer *seen) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_device *devices[] = {s->first, s->cpu};
    rota_access changes = {s->x, 0, ROTA_WHOLE, ROTA_READWRITE},
                copies[] = {{s->x, 0, ROTA_WHOLE, ROTA_READ}, {seen, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_kernel_node step = ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &changes,
                                             .access_count = 1, .placement = {.device_plus_1 = 1}),
                     copy = ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = copies, .access_count = 2,
                                             .placement = {.device_plus_1 = 2});
    assert_ok(rota_record_kernel(recorder, &step, NULL));
    assert_ok(rota_record_kernel(recorder, &copy, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->p->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2),
                           &plan));
    rota_graph_release(graph);
    return add(s, plan);
}

static void a_copy_of_the_same_plan(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        stage s;
        open_stage(&s, (setting){.asks = i, .from_first = i, .host_orders = !i});
        rota_plan *near = copying_x(&s, s.second, "near"), *far = copying_x(&s, s.cpu, "far"),
                  *gate = changing(&s, s.first, &test_gate, 0, WORDS),
                  *both = change_and_look(&s, words(&s, s.cpu, "seen", 0));
        run(near);
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        test_gates_running(1);
        rota_ticket ticket = begin(both);
        lose(s.first);
        is_lost(ticket);
        expect_x(&s, 0, WORDS, 0);
        fails_too(far);
        fails_too(near);
        expect_x(&s, 0, WORDS, 0);
        close_stage(&s);
    }
}

/* ---- What was written ---- */

/* x is the third's, the first gets a copy, and is lost before that arrived; so one for the CPU fails. What is
 * in the memory that the copy was for was never x; the third's is x, which the CPU's copy, though in vain,
 * comes after; unless that one is lost as well. */
static void a_copy_for_the_lost_one(bool is_written, bool both_are_lost) {
    for (uint32_t i = 0; i < 2; i++) {
        stage s;
        open_stage(&s, (setting){.asks = i, .from_first = !i, .host_orders = true, .at_third = true});
        rota_plan *near = copying_x(&s, s.second, "near"),
                  *back = changing(&s, s.third, &test_increment, 0, WORDS),
                  *step = changing(&s, s.third, &late_kernel, 0, WORDS),
                  *arrives = copying_x(&s, s.first, "arrives"), *far = copying_x(&s, s.cpu, "far");
        run(near); /* in that memory x is 1 */
        run(back);
        if (is_written) ra_store_release(&late_may, 1);
        rota_ticket ticket;
        assert_ok(rota_submit_wait(step, NULL, 0, &ticket));
        if (is_written) assert_ok(rota_wait(ticket, 0));
        s.p->options.faults.submits_stay = 1u << s.first->index;
        rota_ticket one = begin(arrives), two = begin(far);
        lose(s.first);
        if (!is_written) assert_status(rota_wait(two, 50000000u), ROTA_TIMEOUT);
        if (both_are_lost)
            lose(s.third);
        else
            ra_store_release(&late_may, 1);
        is_lost(two);
        assert_status(rota_wait(ticket, 0), both_are_lost ? ROTA_DEVICE_LOST : ROTA_OK);
        expect_x(&s, 0, WORDS, both_are_lost ? 0 : 3);
        is_lost(one);
        close_stage(&s);
    }
}
static void one_of_what_was_written(void **state) {
    (void)state;
    a_copy_for_the_lost_one(true, false);
}
static void one_of_what_was_not(void **state) {
    (void)state;
    a_copy_for_the_lost_one(false, false);
}
static void one_of_what_is_lost_too(void **state) {
    (void)state;
    a_copy_for_the_lost_one(false, true);
}

/* x has been written, and is in three memories. The first, which a copy for the CPU is made from, is lost
 * meanwhile: only the copying failed. */
static void what_was_written_stays_good(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        stage s;
        open_stage(&s, (setting){.asks = i, .from_first = true, .host_orders = !i});
        rota_plan *near = copying_x(&s, s.second, "near"), *third = copying_x(&s, s.third, "third"),
                  *far = copying_x(&s, s.cpu, "far"),
                  *step = changing(&s, s.first, &test_increment, 0, WORDS);
        run(step);
        run(near);
        run(third);
        s.p->options.faults.submits_stay = 1u << s.first->index;
        rota_ticket ticket = begin(far);
        lose(s.first);
        is_lost(ticket);
        expect_x(&s, 0, WORDS, 2);
        run(near);
        run(third);
        run(far);
        expect_x(&s, 0, WORDS, 2);
        close_stage(&s);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_before_the_copy_is_sequenced),
        cmocka_unit_test(lost_while_the_host_holds_the_copy),
        cmocka_unit_test(lost_with_the_first_half),
        cmocka_unit_test(lost_while_the_first_half_waits),
        cmocka_unit_test(lost_where_there_is_no_first_half),
        cmocka_unit_test(ranges_of_one_move),
        cmocka_unit_test(copies_of_copies),
        cmocka_unit_test(copies_of_lost_copies),
        cmocka_unit_test(a_copy_of_the_same_plan),
        cmocka_unit_test(one_of_what_was_written),
        cmocka_unit_test(one_of_what_was_not),
        cmocka_unit_test(one_of_what_is_lost_too),
        cmocka_unit_test(what_was_written_stays_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
