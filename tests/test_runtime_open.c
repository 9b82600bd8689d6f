/* Opening a runtime and its devices: options that are refused, what is kept of them, and what an application
 * sees of rota's threads. */
#include "tests/runtime_support.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/testing.h"
#include "tests/adversary.h"

static void pause_ms(uint64_t ms) {
    static _Atomic uint32_t never;
    (void)rota_futex_wait(&never, 0, rota_deadline_after(ms * 1000000u));
}

static void impossible_options_are_refused(void **state) {
    (void)state;
    rota_runtime *runtime;
    assert_status(rota_runtime_open(&(rota_runtime_options){.queues_per_device = 17}, &runtime),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_runtime_open(&(rota_runtime_options){.staging_slot_bytes = 1000}, &runtime),
                  ROTA_INVALID_ARGUMENT);
    /* Sixteen of these are 4096 bytes, modulo 2^64. */
    assert_status(
        rota_runtime_open(&(rota_runtime_options){.staging_slot_bytes = ((uint64_t)1 << 60) + 256}, &runtime),
        ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "16 staging slots of 1152921504606847232 bytes"));
    assert_status(rota_runtime_open(&(rota_runtime_options){.staging_slots = UINT32_MAX,
                                                            .staging_slot_bytes = (uint64_t)1 << 32},
                                    &runtime),
                  ROTA_INVALID_ARGUMENT);
    assert_null(runtime);
}

static char seen_cache_dir[64];

static rota_status open_and_look(const rota_exec_driver *driver, uint32_t index,
                                 const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver;
    (void)strncpy(seen_cache_dir, options->cache_dir ? options->cache_dir : "", sizeof seen_cache_dir - 1);
    return adversary_driver.open(&adversary_driver, index, options, out_device);
}

static void the_cache_folder_is_copied(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 1};
    rota_exec_driver driver = adversary_driver;
    driver.open = open_and_look;
    char folder[] = "/tmp/somewhere";
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&(rota_runtime_options){.cache_dir = folder}, &runtime));
    memset(folder, 'x', sizeof folder - 1);
    assert_ok(rota_runtime_add_driver(runtime, &driver, &adversary));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_string_equal(seen_cache_dir, "/tmp/somewhere");
    assert_ok(rota_runtime_close(runtime, 0));
}

static _Atomic uint32_t signals_taken;
static void on_signal(int number) {
    (void)number;
    (void)ra_fetch_add_relaxed(&signals_taken, 1);
}

/* A signal to the process that the application's one thread blocks stays pending: no thread of rota's takes
 * it. */
static void signals_are_the_applications(void **state) {
    (void)state;
    sigset_t mine, before, pending;
    struct sigaction action = {.sa_handler = on_signal}, old;
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    adversary_options adversary = {.seed = 1};
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(adversary_runtime_open(&adversary, NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    if (rota_device_open(runtime, "vk:0", &device) != ROTA_OK)
        print_message("without a Vulkan device: %s\n", rota_last_error());
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &mine, &before), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    pause_ms(50);
    assert_int_equal(ra_load_relaxed(&signals_taken), 0);
    assert_int_equal(sigpending(&pending), 0);
    assert_true(sigismember(&pending, SIGUSR1));
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(ra_load_relaxed(&signals_taken), 1);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

static void *choose(void *runtime) {
    rota_device *device;
    for (int i = 0; i < 5; i++) {
        const char *before = rota_device_choice(runtime);
        if (rota_device_open(runtime, NULL, &device) != ROTA_OK) return "open failed";
        const char *after = rota_device_choice(runtime);
        if (strncmp(after, "chose '", 7) != 0 || (*before && strcmp(before, after) != 0))
            return "other words";
    }
    return NULL;
}

/* The sentence may be read while others open: it is written once (the thread sanitizer watches). */
static void the_choice_is_made_once(void **state) {
    (void)state;
    rota_runtime *runtime;
    pthread_t threads[4];
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_string_equal(rota_device_choice(runtime), "");
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, choose, runtime), 0);
    for (int i = 0; i < 4; i++) {
        void *failure;
        assert_int_equal(pthread_join(threads[i], &failure), 0);
        assert_null(failure);
    }
    assert_ok(rota_runtime_close(runtime, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(the_cache_folder_is_copied),
        cmocka_unit_test(signals_are_the_applications),
        cmocka_unit_test(the_choice_is_made_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
