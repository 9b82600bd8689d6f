/* Memory and semaphores of one runtime's Vulkan device that another runtime's has by their descriptors: what the one
 * writes the other reads, ordered by the semaphore; and buffers by dma-bufs, of a CUDA device, too. Skipped where the
 * driver shares none (lavapipe). */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/kit/runtime_support.h"
#include "tests/kit/vulkan_application.h"

#define PATIENCE_NS 20000000000u

/* What is nobody's memory or semaphore never reaches the driver, which would be lost by it (vk_descriptor.c). */
static void expect_refused(rota_device *device) {
    enum { CLOSED = 1 << 20 }; /* no descriptor: one that was closed may be a driver's by now */
    rota_external_timeline *none;
    const char *const others[] = {"/dev/null", "/proc/self/exe"};
    for (uint32_t i = 0; i < 3; i++) {
        const int other = i < 2 ? open(others[i], O_RDONLY | O_CLOEXEC) : CLOSED;
        assert_true(other >= 0);
        const char *said = i < 2 ? "of another kind of file" : "is no file descriptor";
        assert_status(rota_external_timeline_import(device, other, "other", &none), ROTA_INVALID_ARGUMENT);
        assert_non_null(strstr(rota_last_error(), said));
        rota_buffer *nothing;
        assert_status(
            rota_buffer_adopt(device,
                              &ROTA_ADOPT_OPTIONS(.name = "nothing", .kind = ROTA_MEMORY_FD, .fd = other,
                                                  .allocation_bytes = 4096, .size_bytes = 4096),
                              &nothing),
            ROTA_INVALID_ARGUMENT);
        assert_non_null(strstr(rota_last_error(), said));
        if (i < 2) assert_int_equal(close(other), 0);
    }
}

static void shared(void **state) {
    (void)state;
    enum { ROUNDS = 20 };
    rota_runtime *runtimes[2];
    rota_device *devices[2];
    rota_external_timeline *timelines[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &runtimes[i]));
    rota_status status = rota_device_open(runtimes[0], "vk:0", &devices[0]);
    if (status == ROTA_OK) status = rota_external_timeline_import(devices[0], -1, "ours", &timelines[0]);
    if (status != ROTA_OK) {
        printf("skipped: %s\n", rota_last_error());
        for (uint32_t i = 0; i < 2; i++) assert_ok(rota_runtime_close(runtimes[i], 0));
        skip();
    }
    assert_ok(rota_device_open(runtimes[1], "vk:0", &devices[1]));
    int fd;
    assert_ok(rota_external_timeline_export(timelines[0], &fd));
    assert_ok(rota_external_timeline_import(devices[1], fd, "theirs", &timelines[1]));
    assert_int_equal(close(fd), 0);
    expect_refused(devices[1]);
    adding first = adding_make(devices[0], 0, 1);
    rota_memory_export made = ROTA_MEMORY_EXPORT();
    assert_ok(rota_buffer_export(first.a, devices[0], &made));
    rota_buffer *theirs, *copy = test_buffer(runtimes[1], "copy", made.size_bytes);
    assert_ok(rota_buffer_adopt(devices[1],
                                &ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_FD, .fd = made.fd,
                                                    .allocation_bytes = made.allocation_bytes,
                                                    .offset_bytes = made.offset_bytes,
                                                    .size_bytes = made.size_bytes),
                                &theirs));
    assert_int_equal(close(made.fd), 0);
    rota_plan *plan = test_plan_copy_node(devices[1], theirs, copy, made.size_bytes);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        rota_ticket ticket, after;
        const rota_external_point point = {timelines[1], round};
        assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &after));
        adding_submit(&first, &ticket);
        assert_ok(rota_ticket_export(ticket, timelines[0], round));
        assert_ok(rota_wait(after, 0));
        assert_ok(rota_poll(ticket));
        float got[4];
        assert_ok(rota_buffer_read(copy, 0, got, sizeof got));
        for (uint32_t i = 0; i < 4; i++) assert_true(got[i] >= (float)round && got[i] <= (float)round);
    }
    rota_plan_release(plan);
    rota_buffer_release(theirs);
    rota_buffer_release(copy);
    adding_release(&first);
    for (uint32_t i = 2; i-- > 0;) {
        rota_external_timeline_release(timelines[i]);
        assert_ok(rota_runtime_close(runtimes[i], 0));
    }
    printf("two runtimes of one GPU: memory and a semaphore by their descriptors, %d rounds\n", ROUNDS);
}

/* What a device's buffer has is seen by its dma-buf on another runtime's device, and what is written there in the
 * buffer. Where a driver exports or imports none, the sentence that says so is printed. */
static void dma_buf(const char *from, const char *to) {
    rota_runtime *runtimes[2];
    rota_device *devices[2];
    const char *const ids[2] = {from, to};
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &runtimes[i]));
        if (status == ROTA_OK) status = rota_device_open(runtimes[i], ids[i], &devices[i]);
    }
    rota_buffer *ours = NULL, *theirs = NULL;
    rota_memory_export made = ROTA_MEMORY_EXPORT(.fd = -1);
    if (status == ROTA_OK) {
        ours = test_words(devices[0], "ours", 100000, 7);
        status = rota_buffer_export_dma_buf(ours, devices[0], &made);
    }
    if (status == ROTA_OK)
        status = rota_buffer_adopt(
            devices[1],
            &ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_DMA_BUF, .fd = made.fd,
                                .allocation_bytes = made.allocation_bytes, .offset_bytes = made.offset_bytes,
                                .size_bytes = made.size_bytes),
            &theirs);
    if (made.fd >= 0) assert_int_equal(close(made.fd), 0);
    if (status == ROTA_OK) {
        test_expect_words(ours, 100000, 7); /* which is there by now */
        test_expect_words(theirs, 100000, 7);
        uint32_t words[256];
        for (uint32_t round = 0; round < 20; round++) {
            rota_ticket ticket;
            for (uint32_t i = 0; i < 256; i++) words[i] = round * 1000 + i;
            assert_ok(rota_buffer_write(theirs, NULL, 4096, words, sizeof words, &ticket));
            assert_ok(rota_wait(ticket, 0));
            memset(words, 0, sizeof words);
            assert_ok(rota_buffer_read(ours, 4096, words, sizeof words));
            for (uint32_t i = 0; i < 256; i++) assert_int_equal(words[i], round * 1000 + i);
        }
        printf("dma-buf of %s on %s: the same bytes\n", from, to);
    } else {
        assert_true(status == ROTA_UNSUPPORTED || status == ROTA_NOT_FOUND || status == ROTA_REFUSED);
        printf("skipped: dma-buf of %s on %s: %s\n", from, to, rota_last_error());
    }
    if (theirs) rota_buffer_release(theirs);
    if (ours) rota_buffer_release(ours);
    for (uint32_t i = 2; i-- > 0;) assert_ok(rota_runtime_close(runtimes[i], 0));
    if (status != ROTA_OK) skip();
}

static void dma_buf_of_vulkan(void **state) {
    (void)state;
    dma_buf("vk:0", "vk:0");
}
static void dma_buf_of_cuda(void **state) {
    (void)state;
    dma_buf("cuda:0", "vk:0");
}
/* Which may map it, or not. */
static void dma_buf_on_the_cpu(void **state) {
    (void)state;
    dma_buf("cuda:0", "cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shared), cmocka_unit_test(dma_buf_of_vulkan),
                                       cmocka_unit_test(dma_buf_of_cuda),
                                       cmocka_unit_test(dma_buf_on_the_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
