/* Peers of exec/cuda, over the stand-in with GPUs apart: one waits for the other's word and reads its memory; what
 * can't be so is refused; the host ends a wait; either is closed first. */
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <stdlib.h>
#include <string.h>
#include "exec/drivers.h"
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/exec/cuda/exec_cuda_kit.h"

enum { BYTES_EACH = 4096 };

typedef struct two {
    test_host hosts[2];
    rota_exec_device *devices[2];
    uint64_t next[2];
} two;

static void open_two(two *t, bool apart) {
    *t = (two){0};
    cuda_stub_start(11, 2);
    if (apart) cuda_stub_gpus_apart();
    for (uint32_t d = 0; d < 2; d++) {
        const rota_exec_open_options options = test_vk_options(&t->hosts[d], QUEUES);
        assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, d, &options, &t->devices[d]));
    }
}

static void close_one(two *t, uint32_t d) {
    uint64_t abandoned = 1;
    t->devices[d]->vtable->close(t->devices[d], rota_deadline_after(5000000000u), &abandoned);
    assert_int_equal(abandoned, 0);
}

static void close_stub(void) {
    cuda_stub_end_clean();
}

static void meet(const two *t) {
    for (uint32_t d = 0; d < 2; d++)
        assert_ok(t->devices[d]->vtable->peers->meet(t->devices[d], t->devices[!d]));
}

static void wait_until(two *t, uint32_t d) {
    assert_true(test_host_wait(&t->hosts[d], 0, t->next[d]));
}

/* A work of the first signals; one of the second waits for it, and copies what the first has. */
static void one_reads_the_other(void **state) {
    (void)state;
    for (uint32_t order = 0; order < 2; order++) {
        two t;
        open_two(&t, true);
        meet(&t);
        rota_exec_device *a = t.devices[0], *b = t.devices[1];
        const rota_exec_peers *peers = a->vtable->peers;
        rota_exec_timeline *own = NULL, *theirs = NULL;
        assert_ok(peers->timeline_open(a, &own));
        assert_ok(peers->timeline_meet(b, own, &theirs));
        rota_exec_memory *from, *to, *up, *down;
        assert_ok(a->vtable->memory_create(a, BYTES_EACH, ROTA_EXEC_MEMORY_SHARED, "from", &from));
        assert_ok(a->vtable->memory_create(a, BYTES_EACH, ROTA_EXEC_MEMORY_HOST_WRITE, "up", &up));
        assert_ok(b->vtable->memory_create(b, 4u << 20, ROTA_EXEC_MEMORY_SHARED, "to", &to));
        assert_ok(b->vtable->memory_create(b, BYTES_EACH, ROTA_EXEC_MEMORY_HOST_READ, "down", &down));
        assert_ok(peers->memory_open(b, a, from));
        assert_ok(peers->memory_open(a, b, to));
        for (uint32_t round = 1; round <= 20; round++) {
            memset(up->host, (int)round, BYTES_EACH);
            rota_exec_copy copies[] = {
                {from, up, 0, 0, BYTES_EACH}, {to, from, 64, 0, BYTES_EACH}, {down, to, 0, 64, BYTES_EACH}};
            rota_exec_work first = {
                .copies = &copies[0], .copy_count = 1, .signal_value = ++t.next[0], .timeline = own};
            rota_exec_timeline_wait wait = {.timeline = theirs, .value = t.next[0]};
            rota_exec_work over = {.copies = &copies[1],
                                   .copy_count = 1,
                                   .signal_value = ++t.next[1],
                                   .acquires = true,
                                   .timeline_waits = &wait,
                                   .timeline_wait_count = 1};
            cuda_stub_pause(round == 1);
            assert_ok(a->vtable->submit(a, &first, 1));
            assert_ok(b->vtable->submit(b, &over, 1));
            if (round == 1) test_nap_ms(5);
            cuda_stub_pause(false);
            const rota_exec_wait behind = {0, t.next[1]};
            rota_exec_work back = {.copies = &copies[2],
                                   .copy_count = 1,
                                   .signal_value = ++t.next[1],
                                   .waits = &behind,
                                   .wait_count = 1};
            assert_ok(b->vtable->submit(b, &back, 1));
            wait_until(&t, 1);
            assert_memory_equal(down->host, up->host, BYTES_EACH);
            wait_until(&t, 0);
        }
        a->vtable->memory_destroy(a, from);
        a->vtable->memory_destroy(a, up);
        b->vtable->memory_destroy(b, to);
        b->vtable->memory_destroy(b, down);
        close_one(&t, order);
        close_one(&t, !order);
        close_stub();
    }
}

/* Whoever was to signal is lost: the host ends the wait, by a word, as often as it likes. */
static void the_host_signals(void **state) {
    (void)state;
    two t;
    open_two(&t, true);
    meet(&t);
    rota_exec_device *a = t.devices[0], *b = t.devices[1];
    rota_exec_timeline *own = NULL, *theirs = NULL;
    assert_ok(a->vtable->peers->timeline_open(a, &own));
    assert_ok(b->vtable->peers->timeline_meet(b, own, &theirs));
    for (uint64_t value = 5; value <= 6; value++) {
        rota_exec_timeline_wait wait = {.timeline = theirs, .value = value};
        rota_exec_work work = {
            .signal_value = ++t.next[1], .timeline_waits = &wait, .timeline_wait_count = 1};
        assert_ok(b->vtable->submit(b, &work, 1));
        test_nap_ms(20);
        assert_true(atomic_load(&t.hosts[1].reached[0]) < t.next[1]);
        assert_ok(value == 5 ? a->vtable->timeline_signal(a, own, value)
                             : b->vtable->timeline_signal(b, theirs, value));
        assert_ok(a->vtable->timeline_signal(a, own, 3)); /* it stays where it is */
        wait_until(&t, 1);
    }
    close_one(&t, 0);
    close_one(&t, 1);
    close_stub();
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    two t;
    open_two(&t, true);
    rota_exec_device *a = t.devices[0], *b = t.devices[1];
    const rota_exec_peers *peers = a->vtable->peers;
    rota_exec_timeline *own = NULL, *theirs = NULL;
    assert_int_equal(setenv("ROTA_PEER", "0", 1), 0);
    assert_status(peers->meet(a, b), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "ROTA_PEER=0"));
    assert_int_equal(unsetenv("ROTA_PEER"), 0);
    assert_ok(peers->meet(a, b));
    cuda_stub_gpus_out_of_reach();
    assert_status(peers->meet(a, b), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "cuda:0 has no access to the memory of cuda:1"));
    cuda_stub_fail("DeviceCanAccessPeer", 0, CUDA_ERROR_INVALID_VALUE);
    assert_status(peers->meet(a, b), ROTA_SYSTEM);
    cuda_stub_lack(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
    assert_status(peers->timeline_open(a, &own), ROTA_UNSUPPORTED);
    cuda_stub_lack(0);
    cuda_stub_fail("MemHostAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_status(peers->timeline_open(a, &own), ROTA_OUT_OF_MEMORY);
    cuda_stub_fail("DevicePrimaryCtxRetain", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_status(peers->timeline_open(a, &own), ROTA_OUT_OF_MEMORY);
    assert_ok(peers->timeline_open(a, &own));
    cuda_stub_fail("MemHostGetDevicePointer", 0, CUDA_ERROR_INVALID_VALUE);
    assert_status(peers->timeline_meet(b, own, &theirs), ROTA_SYSTEM);
    /* What cuMemAlloc gave is nobody else's; and the driver may refuse. */
    rota_exec_memory *plain, *shared;
    assert_ok(a->vtable->memory_create(a, 64, ROTA_EXEC_MEMORY_DEVICE, "plain", &plain));
    assert_ok(a->vtable->memory_create(a, 64, ROTA_EXEC_MEMORY_SHARED, "shared", &shared));
    assert_status(peers->memory_open(b, a, plain), ROTA_UNSUPPORTED);
    cuda_stub_fail("MemSetAccess", 0, CUDA_ERROR_NOT_SUPPORTED);
    assert_status(peers->memory_open(b, a, shared), ROTA_SYSTEM);
    assert_ok(peers->memory_open(b, a, shared));
    a->vtable->memory_destroy(a, plain);
    a->vtable->memory_destroy(a, shared);
    /* A signal that the driver does not take is the device's end. */
    cuda_stub_fail("StreamWriteValue64", 0, CUDA_ERROR_INVALID_VALUE);
    rota_exec_work work = {.signal_value = 1, .timeline = own};
    assert_int_not_equal(a->vtable->submit(a, &work, 1), ROTA_OK);
    close_one(&t, 0);
    close_one(&t, 1);
    close_stub();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_reads_the_other),
                                       cmocka_unit_test(the_host_signals),
                                       cmocka_unit_test(what_cannot_be_is_refused)};
    return cmocka_run_group_tests_name("exec_cuda_peer", tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
