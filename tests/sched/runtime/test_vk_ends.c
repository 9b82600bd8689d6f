/* Ends of timelines that are semaphores of an application's VkDevice: released while a driver keeps who asks for them,
 * and closed over what somebody reaches at the last moment. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_semaphore.h"
#include "sched/runtime/shared/devices.h" /* IWYU pragma: keep */
#include "sched/runtime/shared/external_semaphore.h"
#include "sched/runtime/shared/external_timeline.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/vulkan_application.h"

#define PATIENCE_NS 10000000000u
#define MOMENT_NS 20000000u

typedef struct scene {
    application *app;
    rota_runtime *runtime;
    rota_device *device;
    VkSemaphore semaphore;
    rota_external_timeline *frames;
} scene;

static test_hold lines;

static scene open_scene(uint64_t timeout_ns) {
    scene s = {.app = application_open(APPLICATION_VERSIONS)};
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = timeout_ns, .cache_dir = "",
                                                      .log = {test_hold_log, &lines, ROTA_LOG_WARNING}),
                                &s.runtime));
    rota_vulkan_device given = application_given(s.app, true);
    assert_ok(rota_device_open_vulkan(s.runtime, &given, &s.device));
    s.semaphore = application_semaphore(s.app);
    assert_ok(rota_external_timeline_adopt(s.device, s.semaphore, "frames", &s.frames));
    return s;
}

static rota_vk_device *executor(const scene *s) {
    return (rota_vk_device *)s->device->exec;
}

/* Nothing was abandoned. */
static void close_scene(scene *s) {
    assert_ok(rota_runtime_close(s->runtime, PATIENCE_NS));
    assert_int_equal(rota_devices_abandoned(), 0);
    application_idle(s->app);
    s->app->vk.DestroySemaphore(s->app->device, s->semaphore, NULL);
    application_close(s->app);
}

static void wait_for(const _Atomic uint32_t *word, uint32_t value) {
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (ra_load_acquire(word) != value) {
        if (rota_clock_ns() > until) fail_msg("%u, expected %u", ra_load_acquire(word), value);
        test_nap_ns(100000);
    }
}

/* ---- A driver that keeps who signals ---- */

static _Atomic uint32_t signals_stay, signals_begun;
static PFN_vkSignalSemaphore signal_at_once;

static VkResult VKAPI_CALL signal_late(VkDevice device, const VkSemaphoreSignalInfo *info) {
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    (void)ra_fetch_add_relaxed(&signals_begun, 1);
    while (ra_load_acquire(&signals_stay) && rota_clock_ns() < until) test_nap_ns(100000);
    return signal_at_once(device, info);
}

static void keep_signals(const scene *s) {
    ra_store_release(&signals_begun, 0);
    ra_store_release(&signals_stay, 1);
    signal_at_once = executor(s)->vk.SignalSemaphore;
    executor(s)->vk.SignalSemaphore = signal_late;
}

/* Whoever releases a timeline, or exports a semaphore, meanwhile has the runtime's timeout, and no more. */
static void kept(void **state) {
    (void)state;
    scene s = open_scene(10 * MOMENT_NS);
    rota_external_timeline *own = NULL;
    int fd;
    const rota_status can = rota_external_timeline_import(s.device, -1, "own", &own);
    if (can != ROTA_OK) assert_status(can, ROTA_UNSUPPORTED);
    keep_signals(&s);
    if (own) {
        assert_ok(rota_external_timeline_signal(own, 1));
        wait_for(&signals_begun, 1);
        assert_status(rota_external_timeline_export(own, &fd), ROTA_TIMEOUT);
        expect_said("external timeline 'own': within 0.200 s a driver did not let go");
        ra_store_release(&signals_stay, 0);
        const uint64_t until = rota_deadline_after(PATIENCE_NS);
        rota_status status;
        while ((status = rota_external_timeline_export(own, &fd)) == ROTA_TIMEOUT && rota_clock_ns() < until)
            continue;
        assert_ok(status);
        (void)close(fd);
        rota_external_timeline_release(own);
        ra_store_release(&signals_stay, 1);
        ra_store_release(&signals_begun, 0);
    }
    assert_ok(rota_external_timeline_signal(s.frames, 1));
    wait_for(&signals_begun, 1);
    const uint64_t begun_ns = rota_clock_ns();
    rota_external_timeline_release(s.frames);
    assert_true(rota_clock_ns() - begun_ns < PATIENCE_NS / 2);
    assert_non_null(strstr(lines.line, "external timeline 'frames': not released within 0.200 s"));
    ra_store_release(&signals_stay, 0);
    application_wait(s.app, s.semaphore, 1);
    executor(&s)->vk.SignalSemaphore = signal_at_once;
    rota_external_timeline_release(s.frames); /* it is still there: nothing had been given back */
    close_scene(&s);
}

/* ---- What is looked at ---- */

/* The thread naps for short where there are semaphores, and no longer. */
static void forgotten(void **state) {
    (void)state;
    scene s = open_scene(PATIENCE_NS);
    wait_for(&executor(&s)->objects.look, 0);
    test_nap_ns(MOMENT_NS); /* it has looked, and sleeps */
    assert_int_not_equal(rota_vk_semaphores_slice(executor(&s)), 0);
    rota_external_timeline_release(s.frames);
    wait_for(&executor(&s)->objects.has_semaphores, 0);
    close_scene(&s);
}

/* ---- At the last moment ---- */

static rota_external_timeline *reached_late;
static PFN_vkQueueSubmit2 submit_at_once;

/* Who saw the runtime open reaches a point when the thread has looked for the last time. */
static VkResult VKAPI_CALL submit_and_reach(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                            VkFence fence) {
    if (reached_late) assert_ok(rota_external_timeline_reach(reached_late, 9));
    reached_late = NULL;
    return submit_at_once(queue, count, infos, fence);
}

/* A submit of the application's waits for it, and so the queue does that is to come to its end. */
static void settling(void **state) {
    (void)state;
    scene s = open_scene(PATIENCE_NS);
    VkSemaphore after = application_semaphore(s.app);
    application_submit(s.app, s.semaphore, 9, after, 1);
    submit_at_once = executor(&s)->vk.QueueSubmit2;
    executor(&s)->vk.QueueSubmit2 = submit_and_reach;
    reached_late = s.frames;
    assert_ok(rota_runtime_close(s.runtime, 50 * MOMENT_NS));
    assert_null(reached_late);
    assert_int_equal(rota_devices_abandoned(), 0);
    application_wait(s.app, after, 1);
    rota_external_timeline_release(s.frames);
    application_idle(s.app);
    s.app->vk.DestroySemaphore(s.app->device, after, NULL);
    s.app->vk.DestroySemaphore(s.app->device, s.semaphore, NULL);
    application_close(s.app);
}

static bool (*forget_at_once)(rota_exec_semaphore *semaphore);

static bool reach_and_forget(rota_exec_semaphore *semaphore) {
    if (reached_late && rota_external_timeline_reach(reached_late, 9) != ROTA_OK) _exit(7);
    reached_late = NULL;
    return forget_at_once(semaphore);
}

/* In a process of its own, which is left by _exit: the device is abandoned with works that wait for ever. What was
 * reached before nobody may any more is signalled all the same. */
static int abandon(void) {
    scene s = open_scene(PATIENCE_NS);
    VkSemaphore computed = application_semaphore(s.app);
    rota_external_timeline *results;
    const rota_external_point never = {s.frames, 5};
    adding sums = adding_make(s.device, 1, 2);
    adding_expect(&sums, 1);
    assert_ok(rota_external_timeline_adopt(s.device, computed, "computed", &results));
    assert_ok(rota_external_timeline_promise(s.frames, 5));
    assert_ok(rota_submit_with(sums.plan, &ROTA_SUBMIT_OPTIONS(.after = &never, .after_count = 1), NULL));
    test_nap_ns(5 * MOMENT_NS); /* with the driver */
    forget_at_once = results->semaphore->exec.forget;
    results->semaphore->exec.forget = reach_and_forget;
    reached_late = results;
    if (rota_runtime_close(s.runtime, 10 * MOMENT_NS) != ROTA_TIMEOUT) return 2;
    if (rota_devices_abandoned() != 1) return 3;
    if (reached_late) return 4;
    if (application_value(s.app, computed) != 9) return 5;
    if (rota_external_timeline_signal(results, 10) != ROTA_WRONG_STATE) return 6;
    return 0;
}

static void abandoned(void **state) {
    (void)state;
    application_close(application_open(APPLICATION_VERSIONS)); /* is skipped where the child would be */
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)execl("/proc/self/exe", "test_vk_ends", "abandon", (char *)NULL);
        _exit(99);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- A thread that is stopped on its way out ---- */

static _Atomic uint32_t enters, goes_on;

static void stay_in_enter(void *user, const rota_stop_site *site) {
    (void)user;
    if (strcmp(site->function, "rota_external_semaphore_enter") != 0) return;
    if (ra_fetch_add_relaxed(&enters, 1) != 1) return;
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (!ra_load_acquire(&goes_on) && rota_clock_ns() < until) test_nap_ns(100000);
}

static _Atomic uint32_t has_answered;

static void *reach_what_is_shut(void *user) {
    rota_stop_hook = stay_in_enter;
    (void)rota_external_timeline_reach(user, 9);
    rota_stop_hook = NULL;
    ra_store_release(&has_answered, 1);
    return NULL;
}

/* Who found it shut is nobody that close waits for, wherever that thread is stopped afterwards. */
static void too_late(void **state) {
    (void)state;
    scene s = open_scene(PATIENCE_NS);
    pthread_t thread;
    rota_external_semaphore *semaphore = s.frames->semaphore;
    assert_true(rota_external_semaphore_enter(semaphore));
    assert_false(rota_external_semaphore_shut(semaphore));
    rota_external_semaphore_leave(semaphore);
    assert_int_equal(pthread_create(&thread, NULL, reach_what_is_shut, s.frames), 0);
    const uint64_t until = rota_deadline_after(PATIENCE_NS);
    while (!ra_load_acquire(&has_answered) && ra_load_acquire(&enters) < 2 && rota_clock_ns() < until)
        test_nap_ns(100000);
    assert_ok(rota_runtime_close(s.runtime, 10 * MOMENT_NS));
    assert_int_equal(rota_devices_abandoned(), 0);
    ra_store_release(&goes_on, 1);
    (void)pthread_join(thread, NULL);
    rota_external_timeline_release(s.frames);
    s.app->vk.DestroySemaphore(s.app->device, s.semaphore, NULL);
    application_close(s.app);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc == 2) _exit(abandon());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept),      cmocka_unit_test(forgotten), cmocka_unit_test(settling),
        cmocka_unit_test(abandoned), cmocka_unit_test(too_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
