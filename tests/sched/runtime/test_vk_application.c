/* rota on a VkDevice of an application's: it uses what that was made with, says what is missing, takes the lock of a
 * queue that is shared where it should, and leaves behind what it found. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/vulkan_application.h"

#define PATIENCE_NS 20000000000u
#define MOMENT_NS 20000000u

static rota_runtime *open_runtime(void) {
    rota_runtime *runtime;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS, .cache_dir = ""), &runtime));
    return runtime;
}

static void replay(rota_device *device, uint32_t count) {
    adding sums = adding_make(device, 1, 2);
    for (uint32_t i = 0; i < count; i++) adding_submit(&sums, NULL);
    adding_expect(&sums, (float)(1 + 2 * count));
    adding_release(&sums);
}

static void opened(application_features features, bool shares) {
    application *app = application_open(features);
    for (uint32_t round = 0; round < 2; round++) { /* once more on what is left */
        rota_runtime *runtime = open_runtime();
        rota_device *device, *found;
        rota_vulkan_device given = application_given(app, shares);
        assert_ok(rota_device_open_vulkan(runtime, &given, &device));
        assert_string_equal(rota_device_get_info(device)->id, "vk:app0");
        assert_ok(rota_device_open(runtime, "vk:app0", &found));
        assert_ptr_equal(found, device);
        assert_status(rota_device_open_vulkan(runtime, &given, &found), ROTA_INVALID_ARGUMENT);
        expect_said("is open already, as device 'vk:app0'");
        replay(device, 200);
        assert_true(ra_load_relaxed(&app->made) > 0);
        assert_int_equal(ra_load_relaxed(&app->locked) != 0, shares);
        assert_ok(rota_runtime_close(runtime, 0));
        assert_int_equal(ra_load_acquire(&app->live), 0);
        application_submit(app, VK_NULL_HANDLE, 0, VK_NULL_HANDLE, 0);
    }
    application_close(app);
}

static void alone(void **state) {
    (void)state;
    opened(APPLICATION_VERSIONS, false);
}
static void alone_with_little(void **state) {
    (void)state;
    opened(APPLICATION_EXTENSIONS, false);
}
static void shared(void **state) {
    (void)state;
    opened(APPLICATION_VERSIONS, true);
}

static bool give_none(void *user, uint64_t size_bytes, uint64_t alignment_bytes, uint32_t memory_type,
                      bool is_mapped, rota_vulkan_memory *out_memory) {
    (void)size_bytes, (void)alignment_bytes, (void)memory_type, (void)is_mapped, (void)out_memory;
    return user == NULL;
}

/* Device memory is pieces of the application's; what it does not give is no memory. */
static void memory(void **state) {
    (void)state;
    application *app = application_open(APPLICATION_VERSIONS);
    rota_runtime *runtime = open_runtime();
    rota_device *device;
    rota_vulkan_device given = application_given(app, false);
    application_gives_memory(app, &given);
    given.free = NULL;
    assert_status(rota_device_open_vulkan(runtime, &given, &device), ROTA_INVALID_ARGUMENT);
    expect_said("allocate or free is alone, expected both or neither");
    application_gives_memory(app, &given);
    given.allocate = give_none;
    assert_status(rota_device_open_vulkan(runtime, &given, &device), ROTA_OUT_OF_MEMORY);
    given.memory_user = NULL; /* says that it gives, and does not */
    assert_status(rota_device_open_vulkan(runtime, &given, &device), ROTA_INVALID_ARGUMENT);
    expect_said("the application's memory is (nil) at offset 0");
    application_gives_memory(app, &given);
    assert_ok(rota_device_open_vulkan(runtime, &given, &device));
    replay(device, 100);
    assert_true(ra_load_relaxed(&app->pieces) > 3);
    assert_ok(rota_runtime_close(runtime, 0));
    application_close(app);
}

/* Two runtimes on one VkDevice, and rota's own device of the same GPU beside. */
static void beside_others(void **state) {
    (void)state;
    application *app = application_open(APPLICATION_VERSIONS);
    rota_runtime *runtimes[2] = {open_runtime(), open_runtime()};
    rota_device *devices[2], *own;
    rota_vulkan_device given = application_given(app, true);
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_device_open_vulkan(runtimes[i], &given, &devices[i]));
    assert_ok(rota_device_open(runtimes[0], "vk:0", &own));
    replay(own, 20);
    replay(devices[0], 20);
    assert_ok(rota_runtime_close(runtimes[0], 0));
    replay(devices[1], 20);
    assert_ok(rota_runtime_close(runtimes[1], 0));
    application_close(app);
}

/* ---- What is missing, and what is wrong ---- */

static void expect_missing(application *app, rota_runtime *runtime, const char *const *names,
                           uint32_t count) {
    rota_device *device;
    rota_vulkan_device given = application_given(app, false);
    assert_status(rota_device_open_vulkan(runtime, &given, &device), ROTA_UNSUPPORTED);
    expect_said("the application's VkDevice was made without");
    for (uint32_t i = 0; i < count; i++) expect_said(names[i]);
    assert_int_equal(ra_load_acquire(&app->live), 0);
}

/* The device has them all; rota believes what it is told. */
static void missing(void **state) {
    (void)state;
    application *app = application_open(APPLICATION_VERSIONS);
    rota_runtime *runtime = open_runtime();
    const char *const names[] = {"timelineSemaphore", "bufferDeviceAddress", "scalarBlockLayout",
                                 "synchronization2", "shaderInt64"};
    VkBool32 *const features[] = {&app->parts.v12.timelineSemaphore, &app->parts.v12.bufferDeviceAddress,
                                  &app->parts.v12.scalarBlockLayout, &app->parts.v13.synchronization2,
                                  &app->parts.core.features.shaderInt64};
    for (uint32_t i = 0; i < 5; i++) {
        *features[i] = VK_FALSE;
        expect_missing(app, runtime, &names[i], 1);
        for (uint32_t k = 0; k < 5; k++)
            if (k != i) assert_null(strstr(rota_last_error(), names[k]));
        *features[i] = VK_TRUE;
    }
    for (uint32_t i = 0; i < 5; i++) *features[i] = VK_FALSE;
    expect_missing(app, runtime, names, 5);
    for (uint32_t i = 0; i < 5; i++) *features[i] = VK_TRUE;
    /* Of core features Vulkan 1.0's struct says the same. */
    app->parts.core.features.shaderInt64 = VK_FALSE;
    const VkPhysicalDeviceFeatures core = {.shaderInt64 = VK_TRUE};
    app->info.pEnabledFeatures = &core;
    rota_device *device;
    rota_vulkan_device given = application_given(app, false);
    assert_ok(rota_device_open_vulkan(runtime, &given, &device));
    assert_ok(rota_runtime_close(runtime, 0));
    application_close(app);
}

static void expect_wrong(rota_runtime *runtime, const rota_vulkan_device *given, const char *text) {
    rota_device *device = (rota_device *)(uintptr_t)1;
    assert_status(rota_device_open_vulkan(runtime, given, &device), ROTA_INVALID_ARGUMENT);
    assert_null(device);
    expect_said(text);
}

static void wrong(void **state) {
    (void)state;
    application *app = application_open(APPLICATION_VERSIONS);
    rota_runtime *runtime = open_runtime();
    rota_device *device;
    const rota_vulkan_device right = application_given(app, true);
    rota_vulkan_device given = right;
    assert_status(rota_device_open_vulkan(runtime, NULL, &device), ROTA_INVALID_ARGUMENT);
    given.instance = NULL;
    expect_wrong(runtime, &given, "rota_vulkan_device.instance is NULL, expected a VkInstance");
    given = right;
    given.physical_device = NULL;
    expect_wrong(runtime, &given, "physical_device is NULL");
    given = right;
    given.device = NULL;
    expect_wrong(runtime, &given, "device is NULL, expected a VkDevice");
    given = right;
    given.create_info = NULL;
    expect_wrong(runtime, &given, "create_info is NULL");
    given.create_info = &app->parts.queue;
    expect_wrong(runtime, &given, "create_info->sType is another struct's");
    given = right;
    given.compute.unlock = NULL;
    expect_wrong(runtime, &given, "compute has lock or unlock alone, expected both or neither");
    given = right;
    given.compute.index = 1;
    expect_wrong(runtime, &given, "compute: create_info has no queue 1 of family 0");
    given = right;
    given.compute.family = 77;
    expect_wrong(runtime, &given, "has no queue 0 of family 77");
    given = right;
    given.has_transfer = true;
    given.transfer = given.compute;
    expect_wrong(runtime, &given, "transfer is the queue of compute");
    given.transfer.index = 3;
    expect_wrong(runtime, &given, "transfer: create_info has no queue 3");
    given = right;
    given.struct_size = 0;
    expect_wrong(runtime, &given, "rota_vulkan_device");
    given = right;
    given.api_version = VK_API_VERSION_1_1;
    assert_status(rota_device_open_vulkan(runtime, &given, &device), ROTA_UNSUPPORTED);
    expect_said("the instance is for Vulkan 1.1, expected 1.2 or later");
    assert_int_equal(ra_load_acquire(&app->live), 0);
    assert_ok(rota_runtime_close(runtime, 0));
    application_close(app);
}

/* ---- The lock ---- */

typedef struct submitting {
    application *app;
    _Atomic uint32_t stop;
    uint64_t count;
} submitting;

static void *submit_on(void *user) {
    submitting *own = user;
    while (!ra_load_acquire(&own->stop)) {
        application_submit(own->app, VK_NULL_HANDLE, 0, VK_NULL_HANDLE, 0);
        own->count++;
    }
    return NULL;
}

/* Both at the queue all the time: the layer, which looks for threads at once in calls for a queue, says nothing. */
static void at_once(void **state) {
    (void)state;
    application *app = application_open(APPLICATION_VERSIONS);
    submitting theirs = {.app = app};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, submit_on, &theirs), 0);
    for (uint32_t round = 0; round < 3; round++) {
        rota_runtime *runtime = open_runtime();
        rota_device *device;
        rota_vulkan_device given = application_given(app, true);
        assert_ok(rota_device_open_vulkan(runtime, &given, &device));
        replay(device, 300);
        assert_ok(rota_runtime_close(runtime, 0));
    }
    ra_store_release(&theirs.stop, 1);
    (void)pthread_join(thread, NULL);
    assert_true(theirs.count > 0);
    application_close(app);
}

/* While the application keeps it, callers go on, and so do other devices; a wait ends at its deadline. */
static void kept(void **state) {
    (void)state;
    application *app = application_open(APPLICATION_VERSIONS);
    rota_runtime *runtime = open_runtime();
    rota_device *device, *cpu;
    rota_vulkan_device given = application_given(app, true);
    assert_ok(rota_device_open_vulkan(runtime, &given, &device));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    adding sums = adding_make(device, 1, 2);
    adding_expect(&sums, 1);
    rota_ticket ticket;
    (void)pthread_mutex_lock(&app->lock);
    adding_submit(&sums, &ticket);
    assert_status(rota_wait(ticket, MOMENT_NS), ROTA_TIMEOUT);
    for (uint32_t i = 0; i < 50; i++) adding_submit(&sums, &ticket);
    replay(cpu, 20);
    assert_status(rota_poll(ticket), ROTA_BUSY);
    (void)pthread_mutex_unlock(&app->lock);
    assert_ok(rota_wait(ticket, 0));
    adding_expect(&sums, 1 + 2 * 51);
    adding_release(&sums);
    assert_ok(rota_runtime_close(runtime, 0));
    application_close(app);
}

/* Kept for the whole of the smoke test: the device is refused and not had again, and nothing more is put on the queue
 * beside what may be on its way there. */
static void refused(void **state) {
    (void)state;
    application *app = application_open(APPLICATION_VERSIONS);
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = MOMENT_NS, .cache_dir = ""), &runtime));
    rota_vulkan_device given = application_given(app, true);
    (void)pthread_mutex_lock(&app->lock);
    assert_status(rota_device_open_vulkan(runtime, &given, &device), ROTA_REFUSED);
    assert_null(device);
    const uint64_t locked = ra_load_acquire(&app->locked);
    assert_status(rota_device_open_vulkan(runtime, &given, &device), ROTA_DEVICE_LOST);
    assert_null(device);
    expect_said("was lost or refused, and is device 'vk:app0' until the runtime is closed");
    assert_status(rota_device_open(runtime, "vk:app0", &device), ROTA_NOT_FOUND);
    assert_int_equal(ra_load_acquire(&app->locked), locked);
    (void)pthread_mutex_unlock(&app->lock);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
    application_close(app);
}

/* And close ends at its own, leaving the device, and saying so; in a process of its own, which is left by _exit. */
static int close_while_kept(bool has_works) {
    application *app = application_open(APPLICATION_VERSIONS);
    rota_runtime *runtime = open_runtime();
    rota_device *device;
    rota_vulkan_device given = application_given(app, true);
    assert_ok(rota_device_open_vulkan(runtime, &given, &device));
    adding sums = adding_make(device, 1, 2);
    adding_expect(&sums, 1);
    (void)pthread_mutex_lock(&app->lock);
    if (has_works) adding_submit(&sums, NULL);
    const uint64_t begin = rota_clock_ns();
    if (rota_runtime_close(runtime, 10 * MOMENT_NS) != ROTA_TIMEOUT) return 2;
    if (rota_clock_ns() - begin > 10000000000u) return 3;
    if (rota_devices_abandoned() == 0) return 4;
    if (ra_load_relaxed(&app->locked_by_caller) != 0) return 5;
    return 0;
}

static void close_kept(void **state) {
    (void)state;
    application_close(application_open(APPLICATION_VERSIONS)); /* is skipped where the children would be */
    for (const char *const *which = (const char *const[]){"works", "rests", NULL}; *which; which++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)execl("/proc/self/exe", "test_vk_application", *which, (char *)NULL);
            _exit(99);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(int argc, char **argv) {
    if (argc == 2) _exit(close_while_kept(strcmp(argv[1], "works") == 0));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),         cmocka_unit_test(alone_with_little), cmocka_unit_test(shared),
        cmocka_unit_test(memory),        cmocka_unit_test(missing),           cmocka_unit_test(wrong),
        cmocka_unit_test(beside_others), cmocka_unit_test(at_once),           cmocka_unit_test(kept),
        cmocka_unit_test(refused),       cmocka_unit_test(close_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
