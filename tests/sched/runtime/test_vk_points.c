/* Timeline semaphores of an application's VkDevice: works come after their points, on the GPU where the application
 * promised the signal, held by rota otherwise; and tickets reach them. */
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/smoke_kernel.h"
#include "exec/vk/vk_device.h"
#include "sched/runtime/shared/devices.h" /* IWYU pragma: keep */
#include "sched/runtime/shared/external_semaphore.h"
#include "sched/runtime/shared/external_timeline.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/vulkan_application.h"

#define PATIENCE_NS 20000000000u
#define MOMENT_NS 20000000u

typedef struct scene {
    application *app;
    rota_runtime *runtime;
    rota_device *device, *cpu;
    VkSemaphore semaphore, gate; /* the second opens what the application has submitted */
    rota_external_timeline *frames;
    adding sums, others;
} scene;

static scene open_scene(void) {
    scene s = {.app = application_open(APPLICATION_VERSIONS)};
    assert_ok(
        rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS, .cache_dir = ""), &s.runtime));
    rota_vulkan_device given = application_given(s.app, true);
    assert_ok(rota_device_open_vulkan(s.runtime, &given, &s.device));
    assert_ok(rota_device_open(s.runtime, "cpu", &s.cpu));
    s.semaphore = application_semaphore(s.app);
    s.gate = application_semaphore(s.app);
    assert_ok(rota_external_timeline_adopt(s.device, s.semaphore, "frames", &s.frames));
    s.sums = adding_make(s.device, 1, 2);
    s.others = adding_make(s.device, 0, 1);
    adding_expect(&s.sums, 1);
    adding_expect(&s.others, 0);
    return s;
}

/* After the runtime. */
static void close_application(scene *s) {
    s->app->vk.DestroySemaphore(s->app->device, s->semaphore, NULL);
    s->app->vk.DestroySemaphore(s->app->device, s->gate, NULL);
    application_close(s->app);
}

static void close_scene(scene *s) {
    adding_release(&s->sums);
    adding_release(&s->others);
    if (s->frames) rota_external_timeline_release(s->frames);
    assert_ok(rota_runtime_close(s->runtime, 0));
    application_idle(s->app);
    close_application(s);
}

static rota_ticket submit_after(const adding *sums, rota_external_timeline *timeline, uint64_t value) {
    const rota_external_point point = {timeline, value};
    rota_ticket ticket;
    assert_ok(rota_submit_with(sums->plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &ticket));
    return ticket;
}

static uint64_t driver_submits(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    assert_ok(rota_runtime_get_stats(runtime, &stats));
    return stats.driver_submits;
}

static void expect_submitted(rota_runtime *runtime, uint64_t before) {
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (driver_submits(runtime) == before) {
        if (rota_clock_ns() > until) fail_msg("nothing was submitted");
        test_nap_ns(100000);
    }
}

/* rota has seen so much of it. */
static void expect_seen(rota_external_timeline *timeline, uint64_t value) {
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    uint64_t seen = 0;
    while (seen < value) {
        assert_ok(rota_external_timeline_value(timeline, &seen));
        if (rota_clock_ns() > until) fail_msg("seen at %llu", (unsigned long long)seen);
        test_nap_ns(100000);
    }
}

static void open_gate(scene *s, uint64_t value) {
    const VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = s->gate, .value = value};
    assert_int_equal(s->app->vk.SignalSemaphore(s->app->device, &info), VK_SUCCESS);
}

/* Not promised: rota keeps it, the queue stays free for what is independent, and rota sees the signal. */
static void held(void **state) {
    (void)state;
    scene s = open_scene();
    const rota_ticket ticket = submit_after(&s.sums, s.frames, 5);
    for (uint32_t i = 0; i < 20; i++) adding_submit(&s.others, NULL);
    adding_expect(&s.others, 20);
    application_submit(s.app, VK_NULL_HANDLE, 0, s.semaphore, 4);
    application_wait(s.app, s.semaphore, 4);
    expect_seen(s.frames, 4);
    test_nap_ns(MOMENT_NS);
    assert_status(rota_poll(ticket), ROTA_BUSY);
    assert_status(rota_wait(ticket, MOMENT_NS), ROTA_TIMEOUT);
    expect_said("held for external timeline 'frames' at 4, of which 5 is waited for");
    application_submit(s.app, VK_NULL_HANDLE, 0, s.semaphore, 5);
    assert_ok(rota_wait(ticket, 0));
    adding_expect(&s.sums, 3);
    uint64_t value;
    assert_ok(rota_external_timeline_value(s.frames, &value));
    assert_int_equal(value, 5);
    /* Reached before. */
    assert_ok(rota_wait(submit_after(&s.sums, s.frames, 5), 0));
    adding_expect(&s.sums, 5);
    close_scene(&s);
}

/* Promised: it goes over while the signal is still to come, before or after it is submitted. */
static void promised(void **state) {
    (void)state;
    scene s = open_scene();
    for (uint64_t round = 1; round <= 6; round++) {
        const bool first = round % 2;
        application_submit(s.app, s.gate, round, s.semaphore, 10 * round);
        rota_ticket ticket;
        uint64_t before = driver_submits(s.runtime);
        if (first) assert_ok(rota_external_timeline_promise(s.frames, 10 * round));
        ticket = submit_after(&s.sums, s.frames, 10 * round);
        if (!first) {
            test_nap_ns(MOMENT_NS);
            assert_int_equal(driver_submits(s.runtime), before); /* held */
            assert_ok(rota_external_timeline_promise(s.frames, 10 * round));
        }
        expect_submitted(s.runtime, before);
        test_nap_ns(MOMENT_NS);
        assert_status(rota_poll(ticket), ROTA_BUSY);
        assert_status(rota_wait(ticket, MOMENT_NS), ROTA_TIMEOUT);
        expect_said("held for external timeline 'frames', of which ");
        assert_int_equal(application_value(s.app, s.semaphore), 10 * (round - 1));
        open_gate(&s, round);
        assert_ok(rota_wait(ticket, 0));
        assert_int_equal(application_value(s.app, s.semaphore), 10 * round);
        adding_expect(&s.sums, (float)(1 + 2 * round));
    }
    close_scene(&s);
}

static void write_floats(rota_buffer *buffer, rota_device *device, float value) {
    static float floats[ADDING_COUNT];
    for (uint32_t i = 0; i < ADDING_COUNT; i++) floats[i] = value;
    assert_ok(rota_buffer_write(buffer, device, 0, floats, sizeof floats, NULL));
}

/* Cancelled while it is held, with bytes to be moved first: nothing of it goes to the driver, which would wait for a
 * value that nobody promised. Of what was promised what goes over waits there, before and after. */
static void cancelled(void **state) {
    (void)state;
    scene s = open_scene();
    for (uint64_t round = 1; round <= 6; round++) {
        const bool is_promised = round % 2 == 0;
        write_floats(s.sums.b, s.cpu, (float)round);
        const rota_ticket ticket = submit_after(&s.sums, s.frames, 10 * round);
        if (is_promised) {
            const uint64_t before = driver_submits(s.runtime);
            application_submit(s.app, s.gate, round, s.semaphore, 10 * round);
            assert_ok(rota_external_timeline_promise(s.frames, 10 * round));
            expect_submitted(s.runtime, before);
        }
        assert_ok(rota_ticket_cancel(ticket));
        if (is_promised) {
            test_nap_ns(MOMENT_NS);
            assert_int_equal(application_value(s.app, s.semaphore), 10 * (round - 2));
            open_gate(&s, round);
        }
        const rota_status status = rota_wait(ticket, PATIENCE_NS / 4);
        assert_true(status == ROTA_CANCELLED || (is_promised && status == ROTA_OK));
        adding_submit(&s.others, NULL); /* the queue goes on */
        adding_expect(&s.others, (float)round);
        write_floats(s.sums.a, s.device, 1);
        adding_submit(&s.sums, NULL);
        adding_expect(&s.sums, (float)(1 + round));
    }
    close_scene(&s);
}

/* Nothing else is on the queue: it is the work itself that waits, on the GPU, for a signal of the host's. */
static void by_itself(void **state) {
    (void)state;
    scene s = open_scene();
    for (uint64_t round = 1; round <= 5; round++) {
        const uint64_t before = driver_submits(s.runtime);
        assert_ok(rota_external_timeline_promise(s.frames, round));
        const rota_ticket ticket = submit_after(&s.sums, s.frames, round);
        expect_submitted(s.runtime, before);
        test_nap_ns(MOMENT_NS);
        assert_status(rota_poll(ticket), ROTA_BUSY);
        const VkSemaphoreSignalInfo info = {
            .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = s.semaphore, .value = round};
        assert_int_equal(s.app->vk.SignalSemaphore(s.app->device, &info), VK_SUCCESS);
        assert_ok(rota_wait(ticket, 0));
        adding_expect(&s.sums, (float)(1 + 2 * round));
    }
    close_scene(&s);
}

/* Never signalled: it ends at its deadline, and with it what depends on it; nothing else does. */
static void never(void **state) {
    (void)state;
    scene s = open_scene();
    const rota_external_point point = {s.frames, 5};
    rota_ticket ticket, later;
    assert_ok(rota_submit_with(
        s.sums.plan,
        &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1, .after_timeout_ns = 2 * MOMENT_NS), &ticket));
    adding_submit(&s.sums, &later);
    adding_submit(&s.others, NULL);
    adding_expect(&s.others, 1);
    assert_status(rota_wait(ticket, 0), ROTA_TIMEOUT);
    expect_said("was held for external timeline 'frames' at 0, of which 5 is waited for");
    assert_int_not_equal(rota_wait(later, 0), ROTA_OK);
    /* Nobody looks at it any more, and it may go. */
    rota_external_timeline_release(s.frames);
    s.app->vk.DestroySemaphore(s.app->device, s.semaphore, NULL);
    s.semaphore = application_semaphore(s.app);
    assert_ok(rota_external_timeline_adopt(s.device, s.semaphore, "frames", &s.frames));
    const rota_ticket next = submit_after(&s.others, s.frames, 1);
    application_submit(s.app, VK_NULL_HANDLE, 0, s.semaphore, 1);
    assert_ok(rota_wait(next, 0));
    adding_expect(&s.others, 2);
    close_scene(&s);
}

/* Works of another device: the host waits, whatever was promised. */
static void elsewhere(void **state) {
    (void)state;
    scene s = open_scene();
    adding on_cpu = adding_make(s.cpu, 1, 2);
    adding_expect(&on_cpu, 1);
    application_submit(s.app, s.gate, 1, s.semaphore, 3);
    assert_ok(rota_external_timeline_promise(s.frames, 3));
    const rota_ticket ticket = submit_after(&on_cpu, s.frames, 3);
    test_nap_ns(MOMENT_NS);
    assert_status(rota_poll(ticket), ROTA_BUSY);
    open_gate(&s, 1);
    assert_ok(rota_wait(ticket, 0));
    adding_expect(&on_cpu, 3);
    adding_release(&on_cpu);
    close_scene(&s);
}

static rota_status note_run(void *user, void *const *operands, const uint64_t *operand_bytes,
                            uint32_t operand_count) {
    (void)operands, (void)operand_bytes, (void)operand_count;
    (void)ra_fetch_add_relaxed((_Atomic uint32_t *)user, 1);
    return ROTA_OK;
}

/* A part of it is another device's, which can't wait for the semaphore: none of it goes over before the point,
 * whichever device comes first in the plan. */
static void partly_elsewhere(void **state) {
    (void)state;
    scene s = open_scene();
    _Atomic uint32_t runs = 0;
    const uint32_t count = ADDING_COUNT;
    rota_buffer *x = test_words(s.cpu, "x", 64, 1);
    test_expect_words(x, 64, 1);
    rota_access access = {x, 0, ROTA_WHOLE, ROTA_READ};
    rota_access accesses[] = {{s.sums.a, 0, ROTA_WHOLE, ROTA_READ},
                              {s.sums.b, 0, ROTA_WHOLE, ROTA_READ},
                              {s.sums.c, 0, ROTA_WHOLE, ROTA_WRITE}};
    for (uint32_t round = 1; round <= 2; round++) {
        rota_device *const devices[] = {round == 1 ? s.device : s.cpu, round == 1 ? s.cpu : s.device};
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_record_kernel(recorder,
                                     &ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .accesses = accesses,
                                                       .access_count = 3, .params = &count,
                                                       .placement = {.device_plus_1 = round}),
                                     NULL));
        assert_ok(rota_record_host(
            recorder, &ROTA_HOST_NODE(.fn = note_run, .user = &runs, .accesses = &access, .access_count = 1),
            NULL));
        rota_recorder_close(recorder);
        assert_ok(rota_compile(s.runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2),
                               &plan));
        rota_graph_release(graph);
        const uint64_t before = driver_submits(s.runtime);
        const rota_external_point point = {s.frames, round};
        rota_ticket ticket;
        assert_ok(rota_external_timeline_promise(s.frames, round));
        assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &ticket));
        test_nap_ns(2 * MOMENT_NS);
        assert_status(rota_poll(ticket), ROTA_BUSY);
        assert_int_equal(ra_load_relaxed(&runs), round - 1);
        assert_int_equal(driver_submits(s.runtime), before);
        application_submit(s.app, VK_NULL_HANDLE, 0, s.semaphore, round);
        assert_ok(rota_wait(ticket, 0));
        assert_int_equal(ra_load_relaxed(&runs), round);
        rota_plan_release(plan);
    }
    rota_buffer_release(x);
    close_scene(&s);
}

/* Both kinds of points of one submission; and more semaphores than the device waits for itself. */
static void several(void **state) {
    (void)state;
    enum { MANY = 6 };
    scene s = open_scene();
    VkSemaphore semaphores[MANY];
    rota_external_timeline *timelines[MANY], *plain;
    rota_external_point points[MANY + 1];
    assert_ok(rota_external_timeline_create(s.runtime, "plain", &plain));
    for (uint32_t i = 0; i < MANY; i++) {
        semaphores[i] = application_semaphore(s.app);
        assert_ok(rota_external_timeline_adopt(s.device, semaphores[i], "one of many", &timelines[i]));
        points[i + 1] = (rota_external_point){timelines[i], 1};
    }
    points[0] = (rota_external_point){plain, 1};
    for (uint32_t round = 1; round <= 2; round++) {
        const uint32_t count = round == 1 ? 3 : MANY;
        for (uint32_t i = 0; i <= MANY; i++) points[i].value = round;
        for (uint32_t i = 0; i < count; i++) {
            application_submit(s.app, s.gate, round, semaphores[i], round);
            assert_ok(rota_external_timeline_promise(timelines[i], round));
        }
        rota_ticket ticket;
        assert_ok(rota_submit_with(s.sums.plan,
                                   &ROTA_SUBMIT_OPTIONS(.after = points, .after_count = 1 + count), &ticket));
        const uint64_t before = driver_submits(s.runtime);
        test_nap_ns(MOMENT_NS);
        assert_int_equal(driver_submits(s.runtime), before);
        assert_ok(rota_external_timeline_signal(plain, round));
        if (round == 1) expect_submitted(s.runtime, before);
        test_nap_ns(MOMENT_NS);
        assert_status(rota_poll(ticket), ROTA_BUSY);
        open_gate(&s, round);
        assert_ok(rota_wait(ticket, 0));
        adding_expect(&s.sums, (float)(1 + 2 * round));
    }
    rota_external_timeline_release(plain);
    application_idle(s.app); /* as Mesa's driver needs it, before what it waited for is destroyed */
    for (uint32_t i = 0; i < MANY; i++) {
        rota_external_timeline_release(timelines[i]);
        s.app->vk.DestroySemaphore(s.app->device, semaphores[i], NULL);
    }
    close_scene(&s);
}

/* A ticket's end, well or not, is signalled; the application's own threads and submits wait for it. */
static void exported(void **state) {
    (void)state;
    scene s = open_scene();
    rota_external_timeline *results;
    VkSemaphore computed = application_semaphore(s.app), after = application_semaphore(s.app);
    assert_ok(rota_external_timeline_adopt(s.device, computed, "computed", &results));
    rota_ticket ticket;
    for (uint64_t round = 1; round <= 20; round++) {
        adding_submit(&s.sums, &ticket);
        assert_ok(rota_ticket_export(ticket, results, round));
        application_wait(s.app, computed, round);
        assert_ok(rota_poll(ticket));
        application_submit(s.app, computed, round, after, round);
    }
    application_wait(s.app, after, 20);
    adding_expect(&s.sums, 41);
    /* One that fails. */
    const rota_external_point point = {s.frames, 5};
    assert_ok(rota_submit_with(
        s.sums.plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1, .after_timeout_ns = MOMENT_NS),
        &ticket));
    assert_ok(rota_ticket_export(ticket, results, 21));
    application_wait(s.app, computed, 21);
    assert_status(rota_poll(ticket), ROTA_TIMEOUT);
    /* By the host; a value that it has passed is no fault. */
    assert_ok(rota_external_timeline_signal(results, 30));
    assert_ok(rota_external_timeline_signal(results, 25));
    application_wait(s.app, computed, 30);
    assert_int_equal(application_value(s.app, computed), 30);
    /* Released before the ticket has ended: the semaphore is left alone, but for what was reached before. */
    const rota_ticket held_one = submit_after(&s.others, s.frames, 1);
    assert_ok(rota_ticket_export(held_one, results, 40));
    assert_ok(rota_external_timeline_signal(results, 31));
    rota_external_timeline_release(results);
    assert_int_equal(application_value(s.app, computed), 31);
    application_idle(s.app);
    s.app->vk.DestroySemaphore(s.app->device, computed, NULL);
    application_submit(s.app, VK_NULL_HANDLE, 0, s.semaphore, 1);
    assert_ok(rota_wait(held_one, 0));
    application_idle(s.app);
    s.app->vk.DestroySemaphore(s.app->device, after, NULL);
    close_scene(&s);
}

/* ---- A driver that keeps who signals ---- */

static _Atomic uint32_t signals_open, signals_begun;
static PFN_vkSignalSemaphore signal_at_once;

static VkResult VKAPI_CALL signal_late(VkDevice device, const VkSemaphoreSignalInfo *info) {
    (void)ra_fetch_add_relaxed(&signals_begun, 1);
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (!ra_load_acquire(&signals_open) && rota_clock_ns() < until) test_nap_ns(100000);
    return signal_at_once(device, info);
}

static rota_vk_device *executor(const rota_device *device) {
    return (rota_vk_device *)device->exec;
}

/* Nobody but the thread that watches its device: whose threads signal and export go on, and so do tickets of other
 * devices, whose eventfds are written by who ended the one that is exported. */
static void kept(void **state) {
    (void)state;
    scene s = open_scene();
    adding on_cpu = adding_make(s.cpu, 1, 2);
    const int fd = eventfd(0, EFD_NONBLOCK);
    assert_true(fd >= 0);
    rota_ticket ticket;
    signal_at_once = executor(s.device)->vk.SignalSemaphore;
    executor(s.device)->vk.SignalSemaphore = signal_late;
    adding_submit(&s.sums, &ticket);
    assert_ok(rota_ticket_export(ticket, s.frames, 1));
    expect_seen(s.frames, 1);
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (ra_load_acquire(&signals_begun) == 0 && rota_clock_ns() < until) test_nap_ns(100000);
    assert_int_equal(ra_load_acquire(&signals_begun), 1);
    assert_ok(rota_external_timeline_signal(s.frames, 2));
    adding_submit(&on_cpu, &ticket);
    assert_ok(rota_ticket_export(ticket, s.frames, 3));
    adding_submit(&on_cpu, &ticket);
    assert_ok(rota_ticket_eventfd(ticket, fd));
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 10000), 1);
    uint64_t written;
    assert_int_equal(read(fd, &written, sizeof written), sizeof written);
    assert_int_equal(application_value(s.app, s.semaphore), 0);
    ra_store_release(&signals_open, 1);
    application_wait(s.app, s.semaphore, 3);
    executor(s.device)->vk.SignalSemaphore = signal_at_once;
    (void)close(fd);
    adding_release(&on_cpu);
    close_scene(&s);
}

/* A thread that is stopped while it has a semaphore keeps none of its device's tickets. */
static void stopped(void **state) {
    (void)state;
    scene s = open_scene();
    adding on_cpu = adding_make(s.cpu, 1, 2);
    const rota_ticket held_one = submit_after(&on_cpu, s.frames, 1); /* it is looked at */
    (void)pthread_mutex_lock(&s.frames->semaphore->mutex);
    for (uint32_t i = 0; i < 20; i++) {
        rota_ticket ticket;
        adding_submit(&s.sums, &ticket);
        assert_ok(rota_wait(ticket, PATIENCE_NS / 2));
        test_nap_ns(1000000);
    }
    application_submit(s.app, VK_NULL_HANDLE, 0, s.semaphore, 1);
    assert_status(rota_wait(held_one, MOMENT_NS), ROTA_TIMEOUT);
    (void)pthread_mutex_unlock(&s.frames->semaphore->mutex);
    assert_ok(rota_wait(held_one, 0));
    adding_release(&on_cpu);
    close_scene(&s);
}

static PFN_vkQueueSubmit2 submit_at_once;

static VkResult VKAPI_CALL submit_nothing(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                          VkFence fence) {
    (void)queue, (void)count, (void)infos, (void)fence;
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* A device that rota has given up: its tickets fail, and that is signalled. */
static void lost(void **state) {
    (void)state;
    scene s = open_scene();
    submit_at_once = executor(s.device)->vk.QueueSubmit2;
    executor(s.device)->vk.QueueSubmit2 = submit_nothing;
    rota_ticket ticket;
    adding_submit(&s.sums, &ticket);
    assert_int_not_equal(rota_wait(ticket, 0), ROTA_OK);
    test_nap_ns(MOMENT_NS);
    assert_ok(rota_ticket_export(ticket, s.frames, 1));
    application_wait(s.app, s.semaphore, 1);
    executor(s.device)->vk.QueueSubmit2 = submit_at_once;
    close_scene(&s);
    assert_int_equal(rota_devices_abandoned(), 0);
}

/* What was reached before the runtime closes is signalled then, at the latest; and a thread that is on its way to the
 * device's struct is waited for, to close's deadline. */
static void shut(void **state) {
    (void)state;
    scene s = open_scene();
    rota_external_semaphore *semaphore = s.frames->semaphore;
    assert_ok(rota_external_timeline_signal(s.frames, 3));
    adding_release(&s.sums);
    adding_release(&s.others);
    assert_true(rota_external_semaphore_enter(semaphore));
    assert_false(rota_external_semaphore_shut(semaphore));
    assert_false(rota_external_semaphore_enter(semaphore));
    rota_external_semaphore_leave(semaphore);
    assert_ok(rota_runtime_close(s.runtime, 0));
    assert_int_equal(application_value(s.app, s.semaphore), 3);
    assert_int_equal(rota_devices_abandoned(), 0);
    rota_external_timeline_release(s.frames);
    close_application(&s);
}

/* The runtime closes over what is held, and what is left of the timeline says so. */
static void closed(void **state) {
    (void)state;
    scene s = open_scene();
    (void)submit_after(&s.sums, s.frames, 5);
    adding_release(&s.sums);
    adding_release(&s.others);
    assert_int_not_equal(rota_runtime_close(s.runtime, MOMENT_NS), ROTA_BUSY);
    assert_int_equal(rota_devices_abandoned(), 0);
    assert_status(rota_external_timeline_signal(s.frames, 9), ROTA_WRONG_STATE);
    assert_status(rota_external_timeline_promise(s.frames, 9), ROTA_WRONG_STATE);
    /* Who had seen it open goes on from there: the device is gone. */
    assert_status(rota_external_timeline_reach(s.frames, 9), ROTA_WRONG_STATE);
    uint64_t reached;
    assert_ok(rota_external_timeline_value(s.frames, &reached));
    assert_int_equal(reached, 0);
    assert_int_equal(application_value(s.app, s.semaphore), 0);
    rota_external_timeline_release(s.frames);
    close_application(&s);
}

static void wrong(void **state) {
    (void)state;
    scene s = open_scene();
    rota_external_timeline *timeline;
    rota_device *own;
    assert_status(rota_external_timeline_adopt(s.cpu, s.gate, "gate", &timeline), ROTA_UNSUPPORTED);
    expect_said("external timeline 'gate': device 'cpu' takes no such semaphores");
    assert_null(timeline);
    assert_ok(rota_device_open(s.runtime, "vk:0", &own));
    assert_status(rota_external_timeline_adopt(own, s.gate, "gate", &timeline), ROTA_UNSUPPORTED);
    expect_said("external timeline 'gate': device 'vk:0' takes no such semaphores");
    assert_status(rota_external_timeline_adopt(s.device, NULL, "gate", &timeline), ROTA_INVALID_ARGUMENT);
    assert_ok(rota_external_timeline_create(s.runtime, "plain", &timeline));
    assert_status(rota_external_timeline_promise(timeline, 1), ROTA_UNSUPPORTED);
    expect_said("external timeline 'plain' is no semaphore");
    rota_external_timeline_release(timeline);
    close_scene(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held),
        cmocka_unit_test(promised),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(by_itself),
        cmocka_unit_test(never),
        cmocka_unit_test(elsewhere),
        cmocka_unit_test(partly_elsewhere),
        cmocka_unit_test(several),
        cmocka_unit_test(exported),
        cmocka_unit_test(kept),
        cmocka_unit_test(stopped),
        cmocka_unit_test(lost),
        cmocka_unit_test(shut),
        cmocka_unit_test(closed),
        cmocka_unit_test(wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
