/* A device's threads stay near it, those of the runtime that serve it too, and its staging memory is there: the CUDA
 * executor over the stand-in, on a machine that is made up. */
#include <stdio.h>
#include <string.h>
#include "sched/runtime/shared/runtime.h"
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kit/made_up_machine.h"
#include "tests/kit/memory_policy.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/support.h"

#ifdef ROTA_HAVE_CUDA
#include "exec/cuda/cuda_device.h"

/* Of the device's three and of the runtime's own, on how many CPUs from which on they were to begin. */
static void expect_threads(unsigned first, unsigned allowed, int expected) {
    rota_runtime *runtime;
    rota_device *device;
    cuda_stub_start(5, 1);
    assert_ok(rota_runtime_open(NULL, &runtime));
    made_up_machine_begin(first, allowed);
    assert_ok(rota_device_open(runtime, "cuda:0", &device));
    made_up_machine_end();
    const cpu_set_t threads[] = {made_up_machine_cpus(device->handover.thread),
                                 made_up_machine_cpus(device->building.thread),
                                 made_up_machine_cpus(((rota_cuda_device *)device->exec)->completer.thread)};
    for (uint32_t t = 0; t < 3; t++) {
        assert_int_equal(CPU_COUNT(&threads[t]), expected);
        for (int i = 0; i < expected; i++) assert_true(CPU_ISSET((size_t)i, &threads[t]));
    }
    const cpu_set_t sequencer = made_up_machine_cpus(runtime->sequencing.thread);
    assert_int_equal(CPU_COUNT(&sequencer), 0);
    rota_buffer *words = test_words(device, "words", 64, 3);
    test_expect_words(words, 64, 3);
    rota_buffer_release(words);
    assert_ok(rota_runtime_close(runtime, 10000000000u));
    cuda_stub_end();
}

static void its_threads_are_near(void **state) {
    (void)state;
    expect_threads(0, 0, 4); /* its memory's */
    expect_threads(0, 16, 4);
    expect_threads(1, 15, 0); /* three of them, too few */
    expect_threads(8, 8, 0);  /* none of them */
}

static uint32_t pinned, pinned_near;

static CUresult look_at_pinned(const char *name) {
    bool node_0 = false;
    if (strcmp(name, "MemHostAlloc") != 0) return CUDA_SUCCESS;
    pinned++;
    pinned_near += test_policy(NULL, &node_0) == MPOL_PREFERRED && node_0;
    return CUDA_SUCCESS;
}

/* The upload ring, and blocks for writes and reads, come from the device's memory; the threads that make them get what
 * is their own from anywhere. */
static void its_staging_memory_is_near(void **state) {
    (void)state;
    enum { WORDS = 1 << 20 };
    rota_runtime *runtime;
    rota_device *device;
    bool node_0;
    if (!test_policy_set(MPOL_DEFAULT)) skip();
    pinned = pinned_near = 0;
    cuda_stub_start(5, 1);
    cuda_stub_watch(look_at_pinned);
    assert_ok(rota_runtime_open(NULL, &runtime));
    made_up_machine_begin(0, 0);
    assert_ok(rota_device_open(runtime, "cuda:0", &device));
    made_up_machine_end();
    const uint32_t ring = pinned;
    assert_true(ring != 0);
    rota_buffer *words = test_words(device, "words", WORDS, 3);
    test_expect_words(words, WORDS, 3);
    assert_true(pinned > ring);
    assert_int_equal(pinned_near, pinned);
    assert_int_equal(test_policy(NULL, &node_0), MPOL_DEFAULT);
    rota_buffer_release(words);
    assert_ok(rota_runtime_close(runtime, 10000000000u));
    cuda_stub_stop();
}

int main(void) {
    if (!cuda_stub_has_images()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(its_threads_are_near),
                                       cmocka_unit_test(its_staging_memory_is_near)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 77;
}
#endif
