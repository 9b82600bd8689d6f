/* Loops that a Vulkan device is given a few turns at a time (exec/vk/vk_run.c): what few iterations of many cost, many
 * runs, loops in loops, what stands behind and beside them, limits, cancelling and deadlines while they run. What they
 * compute elsewhere: rota-fuzz --conditional --few-turns. */
#include "tests/kit/runtime_support.h"

#include <string.h>
#include "base/clock.h"
#include "sched/embed.h"
#include "tests/kernels/kernels.h"
#include "tests/kit/nap.h"
#include "tests/kit/vulkan_application.h"
#include "tests/random/decide.h"
#include "tests/sched/runtime/gpu_kit.h"

enum { FEW = 6, SMALL = 8, MILLION = 1000000, ENDLESS = 0x7fffffff, ROUNDS = 7, BESIDE = 9 };

typedef struct body {
    rota_graph *graph;
    rota_recorder *lane;
} body;

static body begin_body(rota_graph *outer, const char *name) {
    body b = {NULL, NULL};
    assert_ok(rota_graph_create_body(outer, name, &b.graph));
    assert_ok(rota_recorder_open(b.graph, 0, NULL, &b.lane));
    return b;
}

static void down(rota_recorder *lane, const char *name, rota_buffer *word) {
    const rota_access access = {word, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_record_kernel(
        lane,
        &ROTA_KERNEL_NODE(.kernel = &decide_count_down, .name = name, .accesses = &access, .access_count = 1),
        NULL));
}

static void copy(rota_recorder *lane, rota_buffer *to, rota_buffer *from) {
    assert_ok(rota_record_copy(lane, to, 0, from, 0, 4, NULL));
}

static void end_while(rota_recorder *lane, body b, const char *name, rota_buffer *condition, uint64_t most) {
    rota_recorder_close(b.lane);
    assert_ok(rota_record_while(
        lane, &ROTA_WHILE_NODE(.name = name, .condition = condition, .body = b.graph, .iterations_max = most),
        NULL));
}

typedef struct recording {
    rota_graph *graph;
    rota_recorder *lane;
} recording;

static recording begin(const char *name) {
    recording r;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &r.graph));
    assert_ok(rota_recorder_open(r.graph, 0, "main", &r.lane));
    return r;
}

static rota_plan *compile(recording r, runtime_fixture *f) {
    rota_plan *plan = NULL;
    rota_recorder_close(r.lane);
    assert_ok(rota_compile(f->runtime, r.graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .certify = true),
                           &plan));
    rota_graph_release(r.graph);
    return plan;
}

static void set(runtime_fixture *f, rota_buffer *word, uint32_t value) {
    assert_ok(rota_buffer_write(word, f->device, 0, &value, 4, NULL));
}

static void run(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_ok(rota_wait(ticket, 0));
}

static runtime_fixture open_vulkan(void) {
    runtime_fixture f;
    gpu_open("vk:0", &f);
    if (f.device) return f;
    gpu_close(&f);
    skip();
    return f;
}

/* ---- What few of many cost ---- */

/* Ten nodes an iteration, of at most so many: what the loop counts down, and words beside it. */
static rota_plan *ten_nodes(runtime_fixture *f, rota_buffer *condition, rota_buffer *const *beside,
                            uint64_t most) {
    recording r = begin("few of many");
    const body b = begin_body(r.graph, "ten nodes");
    for (uint32_t i = 0; i < BESIDE; i++) down(b.lane, "beside", beside[i]);
    down(b.lane, "condition", condition);
    end_while(r.lane, b, "loop", condition, most);
    return compile(r, f);
}

static uint64_t timed(runtime_fixture *f, rota_plan *plan, rota_buffer *condition) {
    set(f, condition, FEW);
    const uint64_t begin_ns = rota_clock_ns();
    run(plan);
    return rota_clock_ns() - begin_ns;
}

/* A million iterations of ten nodes compile and run; six of them cost what is in proportion to six, within what two
 * runs have in turns, also where a loop of at most eight is what it is beside. */
static void test_few_of_many(void **state) {
    (void)state;
    runtime_fixture f = open_vulkan();
    rota_buffer *condition = test_words(f.device, "condition", 1, 0), *beside[BESIDE];
    for (uint32_t i = 0; i < BESIDE; i++) beside[i] = test_words(f.device, "beside", 1, 1000);
    rota_plan *many = ten_nodes(&f, condition, beside, MILLION),
              *few = ten_nodes(&f, condition, beside, SMALL);
    uint64_t many_ns = UINT64_MAX, few_ns = UINT64_MAX;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint64_t one = timed(&f, many, condition), other = timed(&f, few, condition);
        if (one < many_ns) many_ns = one;
        if (other < few_ns) few_ns = other;
    }
    for (uint32_t i = 0; i < BESIDE; i++) test_expect_words(beside[i], 1, 1000 - 2 * ROUNDS * FEW);
    print_message("6 of at most 1000000 iterations: %.0f us, of at most 8: %.0f us\n", (double)many_ns * 1e-3,
                  (double)few_ns * 1e-3);
    /* Two runs are twice the eight turns; with that, their submissions and a busy machine. */
    if (many_ns > 20 * few_ns + 20000000u)
        fail_msg("6 of a million iterations: %llu ns; of eight: %llu ns", (unsigned long long)many_ns,
                 (unsigned long long)few_ns);
    rota_plan_release(many);
    rota_plan_release(few);
    rota_buffer_release(condition);
    for (uint32_t i = 0; i < BESIDE; i++) rota_buffer_release(beside[i]);
    gpu_close(&f);
}

/* ---- Many runs ---- */

/* Two loops with nodes before, between and behind, and one beside: in runs of any number, also none. */
static void test_many_runs(void **state) {
    static const uint32_t counts[] = {0, 1, 30, 31, 32, 62, 63, 200, 3000};
    (void)state;
    runtime_fixture f = open_vulkan();
    rota_buffer *given = test_words(f.device, "given", 1, 0), *more = test_words(f.device, "more", 1, 0),
                *x = test_words(f.device, "x", 1, 0), *y = test_words(f.device, "y", 1, 0),
                *between = test_words(f.device, "between", 1, 0),
                *behind = test_words(f.device, "behind", 1, 0),
                *number = test_words(f.device, "number", 1, 77);
    recording r = begin("two loops");
    copy(r.lane, more, given);
    body b = begin_body(r.graph, "first");
    down(b.lane, "x", x);
    down(b.lane, "more", more);
    end_while(r.lane, b, "first", more, MILLION);
    copy(r.lane, between, x);
    b = begin_body(r.graph, "second");
    down(b.lane, "y", y);
    rota_recorder_close(b.lane);
    assert_ok(rota_record_for(r.lane,
                              &ROTA_FOR_NODE(.name = "second", .count = given, .index = number,
                                             .body = b.graph, .iterations_max = MILLION),
                              NULL));
    copy(r.lane, behind, y);
    rota_plan *plan = compile(r, &f);
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const uint32_t sum = 0u - counts[i];
        set(&f, given, counts[i]);
        set(&f, x, 0);
        set(&f, y, 0);
        set(&f, number, 77);
        rota_ticket ticket; /* what comes after it needs no wait */
        assert_ok(rota_submit(plan, NULL, &ticket));
        test_expect_words(between, 1, sum);
        test_expect_words(behind, 1, sum);
        test_expect_words(number, 1, counts[i] ? counts[i] - 1 : 77);
        test_expect_words(more, 1, 0);
        assert_ok(rota_wait(ticket, 0));
    }
    rota_plan_release(plan);
    rota_buffer *const buffers[] = {given, more, x, y, between, behind, number};
    for (uint32_t i = 0; i < 7; i++) rota_buffer_release(buffers[i]);
    gpu_close(&f);
}

/* ---- Loops in loops ---- */

/* For n iterations: a while of as many as the iteration's number, whose every iteration has a for of three times that
 * is in an if; and another while behind it. */
static void test_nested(void **state) {
    enum { OUTER = 23 };
    (void)state;
    runtime_fixture f = open_vulkan();
    rota_buffer *times = test_words(f.device, "times", 1, OUTER),
                *number = test_words(f.device, "number", 1, 0), *left = test_words(f.device, "left", 1, 0),
                *again = test_words(f.device, "again", 1, 0),
                *in_while = test_words(f.device, "in while", 1, 0),
                *in_for = test_words(f.device, "in for", 1, 0),
                *in_again = test_words(f.device, "in again", 1, 0),
                *after = test_words(f.device, "after", 1, 0), *last = test_words(f.device, "last", 1, 0);
    recording r = begin("nested");
    body outer = begin_body(r.graph, "outer");
    copy(outer.lane, left, number);
    copy(outer.lane, again, number);
    body inner = begin_body(outer.graph, "inner");
    body choice = begin_body(inner.graph, "choice");
    body three = begin_body(choice.graph, "three");
    down(three.lane, "in for", in_for);
    rota_recorder_close(three.lane);
    assert_ok(rota_record_for(
        choice.lane,
        &ROTA_FOR_NODE(.name = "three", .count = left, .body = three.graph, .iterations_max = MILLION),
        NULL));
    rota_recorder_close(choice.lane);
    assert_ok(rota_record_if(inner.lane,
                             &ROTA_IF_NODE(.name = "choice", .condition = left, .body = choice.graph), NULL));
    down(inner.lane, "in while", in_while);
    down(inner.lane, "left", left);
    end_while(outer.lane, inner, "inner", left, MILLION);
    down(outer.lane, "after", after);
    inner = begin_body(outer.graph, "again");
    down(inner.lane, "in again", in_again);
    down(inner.lane, "again", again);
    end_while(outer.lane, inner, "again", again, MILLION);
    copy(outer.lane, last, in_again);
    rota_recorder_close(outer.lane);
    assert_ok(rota_record_for(r.lane,
                              &ROTA_FOR_NODE(.name = "outer", .count = times, .index = number,
                                             .body = outer.graph, .iterations_max = UINT64_C(100) * OUTER),
                              NULL));
    rota_plan *plan = compile(r, &f);
    uint32_t sum = 0, squares = 0;
    for (uint32_t i = 0; i < OUTER; i++) {
        sum += i;
        for (uint32_t k = 1; k <= i; k++) squares += k;
    }
    for (uint32_t round = 1; round < 4; round++) {
        run(plan);
        test_expect_words(in_while, 1, 0u - round * sum);
        test_expect_words(in_for, 1, 0u - round * squares);
        test_expect_words(in_again, 1, 0u - round * sum);
        test_expect_words(last, 1, 0u - round * sum);
        test_expect_words(after, 1, 0u - round * OUTER);
    }
    rota_plan_release(plan);
    rota_buffer *const buffers[] = {times, number, left, again, in_while, in_for, in_again, after, last};
    for (uint32_t i = 0; i < 9; i++) rota_buffer_release(buffers[i]);
    gpu_close(&f);
}

/* ---- Failures and ends ---- */

/* A while of at most so many that counts `x` down beside its condition, and a copy of `x` behind it. */
static rota_plan *counting(runtime_fixture *f, rota_buffer *condition, rota_buffer *x, rota_buffer *behind,
                           uint64_t most) {
    recording r = begin("counting");
    const body b = begin_body(r.graph, "body");
    down(b.lane, "x", x);
    down(b.lane, "condition", condition);
    end_while(r.lane, b, "loop", condition, most);
    copy(r.lane, behind, x);
    return compile(r, f);
}

typedef struct words {
    rota_buffer *condition, *x, *behind;
} words;

static words begin_words(runtime_fixture *f) {
    return (words){test_words(f->device, "condition", 1, 0), test_words(f->device, "x", 1, 0),
                   test_words(f->device, "behind", 1, 0)};
}

static void end_words(words w) {
    rota_buffer_release(w.condition);
    rota_buffer_release(w.x);
    rota_buffer_release(w.behind);
}

/* It runs as ever. */
static void expect_well(runtime_fixture *f, rota_plan *plan, words w, uint32_t iterations) {
    set(f, w.condition, iterations);
    set(f, w.x, 0);
    run(plan);
    test_expect_words(w.behind, 1, 0u - iterations);
}

/* The limit is reached in the tenth run or so: the node fails, what comes after it too, and no further iteration ran.
 */
static void test_limit(void **state) {
    enum { MOST = 700 };
    (void)state;
    runtime_fixture f = open_vulkan();
    const words w = begin_words(&f);
    rota_plan *plan = counting(&f, w.condition, w.x, w.behind, MOST);
    rota_plan *reader = test_plan_1(f.device, "reader", &decide_count_down, w.behind, ROTA_READWRITE);
    for (uint32_t round = 0; round < 2; round++) {
        rota_ticket ticket, after;
        set(&f, w.condition, 2 * MOST);
        set(&f, w.x, 0);
        set(&f, w.behind, 5);
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_submit(reader, NULL, &after));
        assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
        if (!strstr(rota_last_error(),
                    "iteration 699 of while 'loop': its condition is 700 after 700 iterations"))
            fail_msg("%s", rota_last_error());
        assert_status(rota_wait(after, 0), ROTA_NODE_FAILED);
        expect_well(&f, plan, w, MOST);
    }
    rota_plan_release(plan);
    rota_plan_release(reader);
    end_words(w);
    gpu_close(&f);
}

/* One node, on another logical queue than what says none. */
static rota_plan *on_another_queue(runtime_fixture *f, rota_buffer *word) {
    rota_plan *plan = NULL;
    const rota_access access = {word, 0, ROTA_WHOLE, ROTA_READWRITE};
    recording r = begin("beside");
    assert_ok(rota_record_kernel(r.lane,
                                 &ROTA_KERNEL_NODE(.kernel = &decide_count_down, .accesses = &access,
                                                   .access_count = 1, .placement = {.queue_plus_1 = 2}),
                                 NULL));
    rota_recorder_close(r.lane);
    assert_ok(rota_compile(f->runtime, r.graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .queues = 2),
                           &plan));
    rota_graph_release(r.graph);
    return plan;
}

/* Cancelled, and by a deadline, while the loop runs: it ends, and what doesn't come after it, on another queue, has
 * passed it. */
static void test_cancelled(void **state) {
    (void)state;
    runtime_fixture f = open_vulkan();
    const words w = begin_words(&f);
    rota_buffer *apart = test_words(f.device, "apart", 1, 9);
    rota_plan *plan = counting(&f, w.condition, w.x, w.behind, UINT64_MAX);
    rota_plan *beside = on_another_queue(&f, apart);
    for (uint32_t round = 0; round < 4; round++) {
        rota_ticket ticket;
        const bool by_deadline = round % 2;
        set(&f, w.condition, ENDLESS);
        assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.deadline_ns = by_deadline ? 60000000u : 0),
                                   &ticket));
        run(beside);
        test_expect_words(apart, 1, 8 - round);
        test_nap_ms(UINT64_C(30) * (round + 1));
        if (!by_deadline) {
            assert_int_equal(rota_poll(ticket), ROTA_BUSY);
            assert_ok(rota_ticket_cancel(ticket));
        }
        assert_status(rota_wait(ticket, 0), ROTA_CANCELLED);
        set(&f, w.behind, 3); /* it had failed with what was to write it */
        expect_well(&f, plan, w, 150);
    }
    rota_plan_release(plan);
    rota_plan_release(beside);
    end_words(w);
    rota_buffer_release(apart);
    gpu_close(&f);
}

/* Closed while a loop runs that has no end. */
static void test_closed(void **state) {
    (void)state;
    runtime_fixture f = open_vulkan();
    const words w = begin_words(&f);
    rota_plan *plan = counting(&f, w.condition, w.x, w.behind, UINT64_MAX);
    rota_ticket ticket;
    set(&f, w.condition, ENDLESS);
    assert_ok(rota_submit(plan, NULL, &ticket));
    test_nap_ms(20);
    rota_plan_release(plan);
    end_words(w);
    const uint64_t begin_ns = rota_clock_ns();
    (void)rota_runtime_close(f.runtime, 500000000u);
    assert_true(rota_clock_ns() - begin_ns < 30000000000u);
    f.runtime = NULL;
    gpu_close(&f);
}

/* What waits on the device for a point that is reached after the loop does not keep the loop. */
static void test_promised_behind(void **state) {
    (void)state;
    application *app = application_open(APPLICATION_VERSIONS);
    runtime_fixture f = {0};
    assert_ok(
        rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .cache_dir = ""), &f.runtime));
    rota_vulkan_device given = application_given(app, true);
    assert_ok(rota_device_open_vulkan(f.runtime, &given, &f.device));
    VkSemaphore semaphore = application_semaphore(app);
    const words w = begin_words(&f);
    rota_buffer *apart = test_words(f.device, "apart", 1, 9);
    rota_plan *plan = counting(&f, w.condition, w.x, w.behind, UINT64_MAX);
    rota_plan *beside = on_another_queue(&f, apart);
    rota_external_timeline *points = NULL;
    assert_ok(rota_external_timeline_adopt(f.device, semaphore, "points", &points));
    rota_ticket ticket, behind;
    set(&f, w.condition, 20000);
    set(&f, w.x, 0);
    assert_ok(rota_submit(plan, NULL, &ticket));
    test_nap_ms(20);
    const rota_external_point point = {points, 1};
    assert_ok(rota_submit_with(beside, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &behind));
    assert_ok(
        rota_external_timeline_promise(points, 1)); /* of another queue, behind the loop's exported point */
    const rota_status status = rota_wait(ticket, 20000000000u);
    if (status) print_message("the loop: %s\n", rota_last_error());
    const VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = 1};
    assert_int_equal(app->vk.SignalSemaphore(app->device, &info), VK_SUCCESS);
    assert_ok(rota_wait(behind, 0));
    test_expect_words(w.behind, 1, 0u - 20000u);
    test_expect_words(apart, 1, 8);
    assert_int_equal(status, ROTA_OK);
    rota_plan_release(plan);
    rota_plan_release(beside);
    end_words(w);
    rota_buffer_release(apart);
    rota_external_timeline_release(points);
    assert_ok(rota_runtime_close(f.runtime, 0));
    application_idle(app);
    app->vk.DestroySemaphore(app->device, semaphore, NULL);
    application_close(app);
}

/* A loop that takes longer than the default deadline is no device that stands still, to another one that waits for what
 * it writes. */
static void test_gets_on(void **state) {
    enum { BLOCK = 20000, TIMEOUT_MS = 1000 };
    (void)state;
    runtime_fixture f = {0};
    rota_device *cpu = NULL;
    assert_ok(
        rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = (uint64_t)TIMEOUT_MS * 1000000u), &f.runtime));
    if (rota_device_open(f.runtime, "vk:0", &f.device) != ROTA_OK) {
        gpu_close(&f);
        skip();
    }
    assert_ok(rota_device_open(f.runtime, "cpu", &cpu));
    const words w = begin_words(&f);
    rota_plan *plan = counting(&f, w.condition, w.x, w.behind, UINT64_MAX);
    rota_plan *reader = test_plan_1(cpu, "reader", &decide_count_down, w.behind, ROTA_READWRITE);
    uint64_t took_ns = 0;
    /* As many iterations as take long enough on this machine. */
    for (uint32_t iterations = BLOCK; took_ns < UINT64_C(2000000) * TIMEOUT_MS; iterations *= 2) {
        rota_ticket ticket, after;
        set(&f, w.condition, iterations);
        set(&f, w.x, 0);
        const uint64_t begin_ns = rota_clock_ns();
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_submit(reader, NULL, &after));
        assert_ok(rota_wait(ticket, 120000000000u));
        assert_ok(rota_wait(after, 120000000000u));
        took_ns = rota_clock_ns() - begin_ns;
        test_expect_words(w.behind, 1, 0u - iterations - 1);
    }
    rota_plan_release(plan);
    rota_plan_release(reader);
    end_words(w);
    gpu_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_of_many),     cmocka_unit_test(test_many_runs),
        cmocka_unit_test(test_nested),          cmocka_unit_test(test_limit),
        cmocka_unit_test(test_cancelled),       cmocka_unit_test(test_closed),
        cmocka_unit_test(test_promised_behind), cmocka_unit_test(test_gets_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
