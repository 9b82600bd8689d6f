/* A stream of the application's after tickets that end elsewhere (rota_stream_wait): of other devices, or with bytes
 * that go to the host. The stream waits on the GPU, and the caller does not; however the ticket ends, the stream goes
 * on. Over the stand-in for the CUDA driver. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/loss.h"
#include "tests/kit/nap.h"
#include "tests/kit/sequenced.h"
#include "tests/sched/runtime/stream_kit.h"

#ifdef ROTA_HAVE_CUDA
typedef struct scene {
    application_stream own;
    rota_runtime *runtime;
    rota_device *gpus[2], *cpu;
    bool is_short; /* the runtime has little time to close, and more than that is left */
} scene;

static void open_scene_with(scene *s, const rota_runtime_options *options) {
    *s = (scene){0};
    cuda_stub_start(5, 2);
    cuda_stub_gpus_apart();
    assert_ok(rota_runtime_open(options, &s->runtime));
    assert_ok(rota_device_open(s->runtime, "cuda:0", &s->gpus[0]));
    assert_ok(rota_device_open(s->runtime, "cuda:1", &s->gpus[1]));
    assert_ok(rota_device_open(s->runtime, "cpu", &s->cpu));
    stream_open(&s->own);
}

static void open_scene(scene *s) {
    open_scene_with(s, &ROTA_RUNTIME_OPTIONS(.timeout_ns = STREAM_PATIENCE_NS));
}

static void close_runtime(scene *s) {
    stream_leave(&s->own);
    const rota_status status = rota_runtime_close(s->runtime, s->is_short ? 50000000u : 0);
    assert_int_equal(status, s->is_short ? ROTA_TIMEOUT : ROTA_OK);
    stream_enter(&s->own);
}

static void close_scene(scene *s) {
    close_runtime(s);
    stream_close(&s->own, true);
}

/* A plan of the device's that brings `x` to the host. */
typedef struct bringing {
    rota_buffer *x, *out;
    rota_plan *plan;
    rota_args *args;
} bringing;

static bringing bringing_make(rota_device *device, void *to) {
    bringing b = {.x = test_words(device, "x", STREAM_WORDS, 0)};
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", STREAM_BYTES, &b.out));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, b.out, 0, b.x, 0, STREAM_BYTES, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &b.plan));
    rota_graph_release(graph);
    assert_ok(rota_args_create(b.plan, &b.args));
    assert_ok(rota_args_set_output(b.args, b.out, to, STREAM_BYTES));
    return b;
}

static rota_ticket bring(const bringing *b, rota_device *device, uint32_t value) {
    uint32_t words[STREAM_WORDS];
    rota_ticket ticket;
    for (uint32_t i = 0; i < STREAM_WORDS; i++) words[i] = value;
    assert_ok(rota_buffer_write(b->x, device, 0, words, sizeof words, NULL));
    assert_ok(rota_submit_wait(b->plan, b->args, 0, &ticket));
    return ticket;
}

static void bringing_release(bringing *b) {
    rota_args_release(b->args);
    rota_plan_release(b->plan);
    rota_buffer_release(b->x);
}

/* What a plan brings to the host the stream has, and nobody waits for it. More rounds than a page has latches. */
static void after_outputs(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    bringing b = bringing_make(s.gpus[0], (void *)(uintptr_t)s.own.from);
    for (uint32_t round = 1; round <= 200; round++) {
        const bool is_paused = round % 20 == 1;
        if (is_paused) cuda_stub_pause(true);
        const rota_ticket ticket = bring(&b, s.gpus[0], round);
        if (is_paused) stream_expect_given(ticket);
        assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
        stream_copy(&s.own);
        if (is_paused) {
            assert_status(rota_poll(ticket), ROTA_BUSY);
            cuda_stub_pause(false);
        }
        stream_expect(&s.own, round);
        assert_ok(rota_wait(ticket, 0));
        assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0)); /* it is over */
    }
    bringing_release(&b);
    close_scene(&s);
}

/* A ticket of another device, of several, or of the host's write: the gate is the CPU's, which holds all of them. */
static void after_other_devices(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    rota_buffer *x = test_words(s.cpu, "x", STREAM_WORDS, 5);
    rota_plan *gate = test_plan_1(s.cpu, "gate", &test_gate, x, ROTA_READWRITE);
    static uint32_t out[STREAM_WORDS];
    bringing b = bringing_make(s.gpus[0], out);
    for (uint32_t round = 1; round <= 10; round++) {
        rota_ticket ticket;
        test_gate_open(false);
        stream_fill(&s.own, round);
        assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
        test_gates_running(1);
        stream_expect_given(ticket);
        const uint64_t began = rota_clock_ns();
        assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
        assert_true(rota_clock_ns() - began <
                    STREAM_PATIENCE_NS / 2); /* nor for as long as the runtime waits */
        stream_copy(&s.own);
        /* The device goes on with works that do not follow the stream. */
        const rota_ticket beside = bring(&b, s.gpus[0], round);
        assert_ok(rota_wait(beside, 0));
        assert_int_equal(out[0], round);
        test_nap_ns(STREAM_MOMENT_NS);
        assert_int_equal(stream_word(&s.own), round - 1);
        assert_status(rota_poll(ticket), ROTA_BUSY);
        test_gate_open(true);
        stream_expect(&s.own, round);
        assert_ok(rota_wait(ticket, 0));
    }
    bringing_release(&b);
    rota_plan_release(gate);
    rota_buffer_release(x);
    close_scene(&s);
}

/* The CPU's work comes after the GPU's, and is held back by its thread until that is over: it keeps no stream, and so
 * the stream's wait does not keep the caller. The same for one that is held by a point of the application's. */
static void after_works_to_come(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(s.runtime, "later", &timeline));
    rota_buffer *x = test_words(s.cpu, "x", STREAM_WORDS, 5),
                *y = test_words(s.gpus[0], "y", STREAM_WORDS, 7);
    rota_plan *copy = test_plan_copy_node(s.gpus[0], y, x, STREAM_BYTES);
    rota_plan *increment = test_plan_1(s.cpu, "increment", &test_increment, x, ROTA_READWRITE);
    for (uint32_t round = 1; round <= 10; round++) {
        const rota_external_point point = {timeline, round};
        const bool is_held = round % 2;
        rota_ticket ticket;
        stream_fill(&s.own, round);
        if (!is_held) cuda_stub_pause(true);
        if (!is_held) assert_ok(rota_submit_wait(copy, NULL, 0, &ticket));
        assert_ok(rota_submit_with(increment, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = is_held),
                                   &ticket));
        stream_expect_given(ticket);
        assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, STREAM_MOMENT_NS));
        stream_copy(&s.own);
        test_nap_ns(STREAM_MOMENT_NS);
        assert_status(rota_poll(ticket), ROTA_BUSY);
        assert_int_equal(stream_word(&s.own), round - 1);
        if (!is_held) cuda_stub_pause(false);
        if (is_held) assert_ok(rota_external_timeline_signal(timeline, round));
        stream_expect(&s.own, round);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(x, STREAM_WORDS, is_held && round == 1 ? 6 : is_held ? 9 : 8);
    }
    rota_external_timeline_release(timeline);
    rota_plan_release(increment);
    rota_plan_release(copy);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_scene(&s);
}

/* Both GPUs have more under way than there is room for, of which the ticket knows nothing: the call does not wait for
 * that. One that comes after it is waited for. */
static void beside_a_backlog(void **state) {
    (void)state;
    enum { BACKLOG = 100 };
    scene s;
    open_scene(&s);
    rota_buffer *x = test_words(s.cpu, "x", STREAM_WORDS, 5), *a[2], *b[2];
    rota_plan *gate = test_plan_1(s.cpu, "gate", &test_gate, x, ROTA_READWRITE), *copies[2];
    rota_plan *copy[2];
    rota_ticket ticket, last[2];
    for (uint32_t g = 0; g < 2; g++) {
        a[g] = test_words(s.gpus[g], "a", STREAM_WORDS, 1);
        b[g] = test_words(s.gpus[g], "b", STREAM_WORDS, 2);
        copies[g] = test_plan_copy_node(s.gpus[g], b[g], a[g], STREAM_BYTES);
        copy[g] = test_plan_copy_node(s.gpus[g], b[g], x, STREAM_BYTES);
        assert_ok(rota_submit_wait(copies[g], NULL, 0, &last[g]));
        assert_ok(rota_wait(last[g], 0));
    }
    cuda_stub_pause(true);
    for (uint32_t i = 0; i < BACKLOG; i++) {
        for (uint32_t g = 0; g < 2; g++) assert_ok(rota_submit_wait(copies[g], NULL, 0, &last[g]));
        test_nap_ns(1000000u);
    }
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    test_gates_running(1);
    test_sequenced(ticket);
    const uint64_t began = rota_clock_ns();
    assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
    assert_true(rota_clock_ns() - began < STREAM_PATIENCE_NS / 2);
    assert_status(rota_poll(ticket), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_submit_wait(copy[1], NULL, 0, &ticket));
    cuda_stub_pause(false);
    assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
    for (uint32_t g = 0; g < 2; g++) {
        assert_ok(rota_wait(last[g], 0));
        rota_plan_release(copies[g]);
        rota_plan_release(copy[g]);
        rota_buffer_release(a[g]);
        rota_buffer_release(b[g]);
    }
    rota_plan_release(gate);
    rota_buffer_release(x);
    close_scene(&s);
}

/* A device of the ticket's is lost: the stream goes on, and the ticket says why it failed. */
static void after_a_loss(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    static uint32_t out[STREAM_WORDS];
    bringing b = bringing_make(s.gpus[1], out);
    stream_fill(&s.own, 9);
    assert_ok(rota_wait(bring(&b, s.gpus[1], 1), 0));
    cuda_stub_pause(true);
    const rota_ticket ticket = bring(&b, s.gpus[1], 2);
    stream_expect_given(ticket);
    assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
    stream_copy(&s.own);
    assert_status(rota_poll(ticket), ROTA_BUSY);
    cuda_stub_lose(1);
    rota_device_set_lost(s.gpus[1], "given up by the test");
    cuda_stub_pause(false);
    stream_expect(&s.own, 9);
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    bringing_release(&b);
    stream_leave(&s.own);
    (void)rota_runtime_close(s.runtime, 0);
    stream_enter(&s.own);
    stream_close(&s.own, false);
}

/* The runtime closes, and the ticket has not ended: the stream is not kept for it. */
static void after_close(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    rota_buffer *x = test_words(s.cpu, "x", STREAM_WORDS, 5);
    rota_plan *gate = test_plan_1(s.cpu, "gate", &test_gate, x, ROTA_READWRITE);
    rota_ticket ticket;
    test_gate_open(false);
    stream_fill(&s.own, 3);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    test_gates_running(1);
    test_sequenced(ticket);
    assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
    stream_copy(&s.own);
    s.is_short = true;
    close_runtime(&s);
    stream_expect(&s.own, 3);
    rota_plan_release(gate);
    rota_buffer_release(x);
    test_gate_open(true);
    stream_close(&s.own, false);
}

static _Atomic uint32_t may_log, logs;

/* A thread of rota's that says something stands here. */
static void stand(void *user, rota_log_level level, const char *text) {
    (void)user, (void)level;
    if (!strstr(text, "takes nothing more")) return;
    ra_store_release(&logs, 1);
    while (!ra_load_acquire(&may_log)) test_nap();
}

/* The completer stands when the runtime closes: devices are left, and the stream is not kept. */
static void after_close_without_completer(void **state) {
    (void)state;
    static scene s; /* what is left is there for good */
    open_scene_with(&s, &ROTA_RUNTIME_OPTIONS(.timeout_ns = STREAM_PATIENCE_NS, .log = {stand, NULL}));
    rota_buffer *x = test_words(s.cpu, "x", STREAM_WORDS, 5);
    rota_buffer *y = test_words(s.gpus[1], "y", STREAM_WORDS, 5),
                *z = test_words(s.gpus[1], "z", STREAM_WORDS, 5);
    rota_plan *gate = test_plan_1(s.cpu, "gate", &test_gate, x, ROTA_READWRITE);
    rota_plan *beside = test_plan_copy_node(s.gpus[1], z, y, STREAM_BYTES);
    rota_ticket ticket, other;
    const int full = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    const uint64_t most = UINT64_MAX - 1;
    assert_int_equal(write(full, &most, sizeof most), sizeof most);
    test_gate_open(false);
    stream_fill(&s.own, 3);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    test_gates_running(1);
    test_sequenced(ticket);
    assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
    stream_copy(&s.own);
    assert_ok(rota_submit_wait(beside, NULL, 0, &other));
    assert_ok(rota_ticket_eventfd(other, full));
    const uint64_t until = rota_deadline_after(STREAM_PATIENCE_NS);
    while (!ra_load_acquire(&logs) && rota_clock_ns() < until) test_nap();
    assert_true(ra_load_acquire(&logs));
    s.is_short = true;
    close_runtime(&s);
    stream_expect(&s.own, 3);
    ra_store_release(&may_log, 1);
    test_gate_open(true);
    (void)close(full);
}

static _Atomic uint32_t may_go;

static bool goes(void *user) {
    (void)user;
    return ra_load_acquire(&may_go);
}

/* The ticket has ended, and the stream is not there yet, when the runtime closes: what it will look at stays. */
static void looked_at_later(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    rota_buffer *x = test_words(s.cpu, "x", STREAM_WORDS, 5);
    rota_plan *gate = test_plan_1(s.cpu, "gate", &test_gate, x, ROTA_READWRITE);
    ra_store_release(&may_go, 0);
    cuda_stub_hold(s.own.stream, goes, NULL);
    for (uint32_t round = 0; round < 10; round++) { /* none of the words serves twice meanwhile */
        rota_ticket ticket;
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
        test_sequenced(ticket);
        assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
        test_gate_open(true);
        assert_ok(rota_wait(ticket, 0));
    }
    stream_fill(&s.own, 4);
    stream_copy(&s.own);
    rota_plan_release(gate);
    rota_buffer_release(x);
    close_runtime(&s);
    ra_store_release(&may_go, 1);
    stream_expect(&s.own, 4);
    stream_close(&s.own, false); /* a page is left in the context */
}

/* What the drivers are not given is waited for on the host, and what streams can't wait for. */
static void on_the_host(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(s.runtime, "never", &timeline));
    const rota_external_point point = {timeline, 1};
    rota_buffer *x = test_words(s.cpu, "x", STREAM_WORDS, 5);
    rota_plan *gate = test_plan_1(s.cpu, "gate", &test_gate, x, ROTA_READWRITE);
    rota_ticket held, ticket;
    /* A driver that fails in it: nobody is kept, and the next is as the first. */
    const char *const calls[] = {"MemHostAlloc", "EventCreate", "StreamWaitValue64", "EventRecord"};
    for (uint32_t i = 0; i < 4; i++) {
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
        test_gates_running(1);
        test_sequenced(ticket);
        cuda_stub_fail(calls[i], 0, CUDA_ERROR_OUT_OF_MEMORY);
        assert_status(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0), ROTA_OUT_OF_MEMORY);
        assert_int_equal(s.own.cu->StreamSynchronize(s.own.stream), CUDA_SUCCESS);
        assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
        test_gate_open(true);
        assert_int_equal(s.own.cu->StreamSynchronize(s.own.stream), CUDA_SUCCESS);
        assert_ok(rota_wait(ticket, 0));
    }
    rota_buffer *y = test_words(s.gpus[1], "y", STREAM_WORDS, 7);
    rota_plan *copy = test_plan_copy_node(s.gpus[1], y, x, STREAM_BYTES);
    test_gate_open(true);
    assert_ok(rota_submit_with(copy, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &held));
    assert_status(rota_stream_wait(s.gpus[0], s.own.stream, held, STREAM_MOMENT_NS), ROTA_TIMEOUT);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket)); /* comes after it, though on the CPU alone */
    assert_status(rota_stream_wait(s.gpus[0], s.own.stream, ticket, STREAM_MOMENT_NS), ROTA_TIMEOUT);
    assert_ok(rota_external_timeline_signal(timeline, 1));
    assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_wait(held, 0));
    rota_plan_release(copy);
    rota_buffer_release(y);
    cuda_stub_lack(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    assert_status(rota_stream_wait(s.gpus[0], s.own.stream, ticket, STREAM_MOMENT_NS), ROTA_TIMEOUT);
    test_gate_open(true);
    assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
    assert_ok(rota_poll(ticket));
    cuda_stub_lack(0);
    rota_external_timeline_release(timeline);
    rota_plan_release(gate);
    rota_buffer_release(x);
    close_scene(&s);
}

/* The device follows the stream, which waits for a ticket that ends on the host: all of it was given before. */
static void follows(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    bringing b = bringing_make(s.gpus[0], (void *)(uintptr_t)s.own.from);
    rota_ticket ticket;
    for (uint32_t round = 1; round <= 100; round++) {
        ticket = bring(&b, s.gpus[0], round);
        assert_ok(rota_stream_wait(s.gpus[0], s.own.stream, ticket, 0));
        stream_copy(&s.own);
        assert_ok(rota_stream_follow(s.gpus[0], s.own.stream));
    }
    assert_ok(rota_wait(ticket, 0));
    stream_expect(&s.own, 100);
    bringing_release(&b);
    close_scene(&s);
}

typedef struct thread_of {
    scene *s;
    pthread_t thread;
    CUstream stream;
    uint32_t index;
} thread_of;

/* Each with a stream and tickets of its own, on either GPU and the CPU. */
static void *wait_often(void *user) {
    thread_of *own = user;
    scene *s = own->s;
    rota_device *device = own->index == 2 ? s->cpu : s->gpus[own->index];
    uint32_t out[STREAM_WORDS];
    bringing b = bringing_make(device, out);
    for (uint32_t round = 0; round < 100; round++) {
        const rota_ticket ticket = bring(&b, device, round);
        assert_ok(rota_stream_wait(s->gpus[0], own->stream, ticket, 0));
        if (round % 10 == 9) assert_ok(rota_wait(ticket, 0));
    }
    test_expect_words(b.x, STREAM_WORDS, 99);
    bringing_release(&b);
    return NULL;
}

static void at_once(void **state) {
    (void)state;
    enum { THREADS = 3 };
    scene s;
    open_scene(&s);
    thread_of threads[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (thread_of){.s = &s, .index = i};
        assert_int_equal(s.own.cu->StreamCreate(&threads[i].stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        assert_int_equal(pthread_create(&threads[i].thread, NULL, wait_often, &threads[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
        assert_int_equal(s.own.cu->StreamSynchronize(threads[i].stream), CUDA_SUCCESS);
        assert_int_equal(s.own.cu->StreamDestroy(threads[i].stream), CUDA_SUCCESS);
    }
    close_scene(&s);
}
#endif

int main(void) {
#ifdef ROTA_HAVE_CUDA
    if (!cuda_stub_has_images()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_outputs),
        cmocka_unit_test(after_other_devices),
        cmocka_unit_test(after_works_to_come),
        cmocka_unit_test(after_a_loss),
        cmocka_unit_test(after_close),
        cmocka_unit_test(looked_at_later),
        cmocka_unit_test(on_the_host),
        cmocka_unit_test(follows),
        cmocka_unit_test(at_once),
        cmocka_unit_test(beside_a_backlog),
        cmocka_unit_test(after_close_without_completer) /* the last: what it leaves is there for good */};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 77;
#endif
}
