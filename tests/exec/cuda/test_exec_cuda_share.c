/* What exec/cuda takes over from other drivers of the GPU, over the stand-in: timelines. Memory is in
 * exec_cuda_cases.c. */
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/exec/cuda/exec_cuda_kit.h"

/* Timelines of another driver: a work waits for one and signals one, in order; what fails is said, and loses
 * the device only where works are concerned. */
static void test_timelines(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    const rota_exec_device_vtable *v = f->device->vtable;
    assert_int_equal(f->device->caps.timeline_queues, (1u << QUEUES) - 1);
    assert_false(f->device->caps.makes_timelines);
    rota_exec_timeline *timelines[2] = {NULL, NULL};
    _Atomic uint64_t *words[2];
    assert_status(v->timeline_create(f->device, -1, &timelines[0]), ROTA_UNSUPPORTED);
    for (uint32_t i = 0; i < 2; i++) {
        int fd = memfd_create("timeline", MFD_CLOEXEC);
        assert_true(fd >= 0 && ftruncate(fd, 4096) == 0);
        words[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(words[i], MAP_FAILED);
        cuda_stub_fail("ImportExternalSemaphore", 0, CUDA_ERROR_INVALID_VALUE);
        assert_status(v->timeline_create(f->device, fd, &timelines[i]), ROTA_SYSTEM);
        assert_non_null(strstr(rota_last_error(), "cuImportExternalSemaphore"));
        assert_ok(v->timeline_create(f->device, fd, &timelines[i]));
        assert_int_equal(close(fd), 0);
    }
    rota_exec_memory *from = cuda_shared(f, 64), *to = cuda_shared(f, 64);
    for (uint32_t round = 1; round <= 20; round++) {
        memset(from->host, (int)round, 64);
        rota_exec_copy copy = {to, from, 0, 0, 64};
        rota_exec_timeline_wait wait = {.timeline = timelines[0], .value = round * 2};
        rota_exec_work w = {.copies = &copy,
                            .copy_count = 1,
                            .queue = 1,
                            .signal_value = ++f->next[1],
                            .acquires = true,
                            .timeline_waits = &wait,
                            .timeline_wait_count = 1,
                            .timeline = timelines[1]};
        cuda_submit(f, &w, 1);
        if (round == 1) test_nap_ms(20);
        assert_true(atomic_load(words[1]) < f->next[1]);
        if (round % 2)
            atomic_store(words[0], round * 2);
        else /* in the place of one that is lost */
            assert_ok(v->timeline_signal(f->device, timelines[0], round * 2));
        cuda_wait(f, 1);
        assert_int_equal(atomic_load(words[1]), f->next[1]); /* before the value is reported */
        assert_memory_equal(to->host, from->host, 64);
    }
    v->memory_destroy(f->device, from);
    v->memory_destroy(f->device, to);
    cuda_stub_fail("SignalExternalSemaphoresAsync", 0, CUDA_ERROR_INVALID_VALUE);
    rota_exec_work w = {.queue = 0, .signal_value = ++f->next[0], .timeline = timelines[1]};
    assert_int_not_equal(v->submit(f->device, &w, 1), ROTA_OK);
    assert_int_equal(atomic_load(&f->host.lost), 1);
    cuda_close(f);
    for (uint32_t i = 0; i < 2; i++) (void)munmap((void *)(uintptr_t)words[i], 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_timelines)};
    return cmocka_run_group_tests_name("exec_cuda_share", tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
