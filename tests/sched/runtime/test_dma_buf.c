/* Dma-bufs as buffers' memory, and buffers' memory as dma-bufs. The CPU maps one of a memfd, which it can't tell from a
 * dma-buf, and of the system's own where it has any; the stand-in for CUDA's driver exports memory that the CPU then
 * has. Vulkan: test_vk_dma_buf. */
#include "tests/kit/runtime_support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "tests/adversary/adversary.h"
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kit/nap.h"

enum { WORDS = 4096, BYTES = 4 * WORDS };

static int memory_file(void) {
    const int fd = memfd_create("dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    return fd;
}

static uint32_t *map(int fd) {
    uint32_t *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(words, MAP_FAILED);
    return words;
}

static void count(void *user) {
    (void)ra_fetch_add_seq_cst((_Atomic uint32_t *)user, 1);
}

static rota_adopt_options options_of(int fd, _Atomic uint32_t *releases) {
    return ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_DMA_BUF, .fd = fd,
                              .allocation_bytes = BYTES, .size_bytes = BYTES, .release = count,
                              .user = (void *)releases);
}

/* What a plan writes is in the dma-buf, and what is there the plan reads; the descriptor is not needed any more. */
static void runs_on(rota_device *device, int fd) {
    uint32_t *words = map(fd);
    _Atomic uint32_t releases = 0;
    for (uint32_t offset = 0; offset <= 4096; offset += 4096) {
        for (uint32_t i = 0; i < WORDS; i++) words[i] = i;
        rota_adopt_options options = options_of(fd, &releases);
        options.offset_bytes = offset;
        options.size_bytes -= offset;
        rota_buffer *buffer;
        assert_ok(rota_buffer_adopt(device, &options, &buffer));
        if (offset) assert_int_equal(close(fd), 0);
        rota_plan *plan = test_plan_1(device, "increments", &test_increment, buffer, ROTA_READWRITE);
        rota_ticket ticket;
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(words[i], 4 * i < offset ? i : i + 1);
        rota_plan_release(plan);
        rota_buffer_release(buffer);
        const uint64_t deadline = rota_deadline_after(20000000000u);
        while (ra_load_seq_cst(&releases) <= offset / 4096 && rota_clock_ns() < deadline) test_nap_ms(1);
        assert_int_equal(ra_load_seq_cst(&releases), 1 + offset / 4096);
    }
    assert_int_equal(munmap(words, BYTES), 0);
}

static void on_the_cpu(void **state) {
    runs_on(((runtime_fixture *)*state)->device, memory_file());
}

static int udmabuf(void) {
    const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    if (device < 0) return -1;
    const int memory = memory_file();
    assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    struct udmabuf_create create = {.memfd = (uint32_t)memory, .flags = UDMABUF_FLAGS_CLOEXEC, .size = BYTES};
    const int fd = ioctl(device, UDMABUF_CREATE, &create);
    (void)close(memory);
    (void)close(device);
    return fd;
}

static int heap(void) {
    const int device = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
    if (device < 0) return -1;
    struct dma_heap_allocation_data data = {.len = BYTES, .fd_flags = O_RDWR | O_CLOEXEC};
    const int status = ioctl(device, DMA_HEAP_IOCTL_ALLOC, &data);
    (void)close(device);
    return status == 0 ? (int)data.fd : -1;
}

static void of_the_system(void **state) {
    int (*const makes[])(void) = {udmabuf, heap};
    const char *const names[] = {"/dev/udmabuf", "/dev/dma_heap/system"};
    uint32_t made = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const int fd = makes[i]();
        if (fd < 0) print_message("skipped: no dma-buf of %s (%s)\n", names[i], strerror(errno));
        if (fd < 0) continue;
        runs_on(((runtime_fixture *)*state)->device, fd);
        made++;
    }
    if (!made) skip();
}

static void refused(void **state) {
    runtime_fixture *f = *state;
    _Atomic uint32_t releases = 0;
    rota_buffer *buffer;
    const int fd = memory_file(), only_read = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    rota_adopt_options options = options_of(fd, &releases);
    options.allocation_bytes = UINT64_C(2) * BYTES;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    expect_said("is of 16384 bytes, expected a dma-buf of at least 32768");
    options.allocation_bytes = BYTES;
    options.offset_bytes = 8;
    options.size_bytes = 16;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_MISALIGNED);
    options.offset_bytes = BYTES;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    options = options_of(only_read, &releases);
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_UNSUPPORTED);
    expect_said("can't be mapped to be read and written");
    options.fd = 1 << 20;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    expect_said("'theirs': 1048576 is no file descriptor, expected a dma-buf's");
    options.memory = &options;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    options.memory = NULL;
    options.kind = ROTA_MEMORY_KIND_COUNT;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    expect_said("ROTA_MEMORY_FD or ROTA_MEMORY_DMA_BUF");
    rota_buffer *own = test_words(f->device, "own", 64, 0);
    rota_memory_export made = ROTA_MEMORY_EXPORT();
    assert_status(rota_buffer_export_dma_buf(own, f->device, &made), ROTA_UNSUPPORTED);
    expect_said("device 'cpu' exports no dma-buf");
    rota_buffer_release(own);
    assert_int_equal(ra_load_seq_cst(&releases), 0);
    (void)close(fd);
    (void)close(only_read);
}

/* What may only be read is mapped so, and so can be had by a descriptor that lets it be read alone. */
static void only_read(void **state) {
    runtime_fixture *f = *state;
    _Atomic uint32_t releases = 0;
    char path[64];
    const int fd = memory_file();
    uint32_t *words = map(fd), got[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 3 * i;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int only = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(only >= 0);
    rota_adopt_options options = options_of(only, &releases);
    rota_buffer *buffer;
    options.read_only = true;
    assert_ok(rota_buffer_adopt(f->device, &options, &buffer));
    assert_ok(rota_buffer_read(buffer, 0, got, sizeof got));
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(got[i], 3 * i);
    assert_status(rota_buffer_write(buffer, NULL, 0, got, sizeof got, NULL), ROTA_INVALID_ARGUMENT);
    rota_buffer_release(buffer);
    options.read_only = false;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_UNSUPPORTED);
    expect_said("can't be mapped to be read and written");
    (void)close(only);
    (void)close(fd);
    assert_int_equal(munmap(words, BYTES), 0);
}

/* A buffer whose export has failed is as it was: nobody else has it. */
static void not_exported(void **state) {
    (void)state;
    adversary_options with = {.seed = 1, .shares_memory = true};
    rota_runtime *runtime;
    rota_device *device, *other;
    rota_memory_export made = ROTA_MEMORY_EXPORT();
    assert_ok(adversary_runtime_open(&with, NULL, &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_device_open(runtime, "adversary:1", &other));
    rota_buffer *own = test_words(device, "own", 64, 0);
    assert_status(rota_buffer_export_dma_buf(own, device, &made), ROTA_UNSUPPORTED);
    expect_said("exports no dma-buf");
    assert_int_equal(ra_load_acquire(&own->is_lent), 0);
    assert_ok(rota_buffer_export(own, device, &made));
    assert_int_equal(ra_load_acquire(&own->is_lent), 1);
    (void)close(made.fd);
    rota_buffer_release(own);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(with.violations, 0);
}

#ifdef ROTA_HAVE_CUDA
/* Of one runtime's GPU, and in another's on the CPU the same bytes: a piece of an allocation, and one of its own. */
static void exported(void **state) {
    (void)state;
    if (!cuda_stub_has_images()) skip();
    cuda_stub_start(5, 1);
    rota_runtime *runtimes[2];
    rota_device *gpu, *cpu;
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_runtime_open(NULL, &runtimes[i]));
    assert_ok(rota_device_open(runtimes[0], "cuda:0", &gpu));
    assert_ok(rota_device_open(runtimes[1], "cpu", &cpu));
    const uint32_t counts[] = {3000, 1024 * 1024};
    for (uint32_t i = 0; i < 2; i++) {
        rota_buffer *ours = test_words(gpu, "ours", counts[i], 7), *view, *theirs;
        rota_memory_export made = ROTA_MEMORY_EXPORT();
        test_expect_words(ours, counts[i], 7);
        assert_ok(rota_buffer_create_view(ours, 256, 512, &view));
        assert_ok(rota_buffer_export_dma_buf(view, gpu, &made));
        assert_int_equal(made.size_bytes, 512);
        rota_adopt_options options =
            ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_DMA_BUF, .fd = made.fd,
                               .allocation_bytes = made.allocation_bytes, .offset_bytes = made.offset_bytes,
                               .size_bytes = 512);
        rota_buffer *none;
        assert_status(rota_buffer_adopt(gpu, &options, &none), ROTA_UNSUPPORTED);
        expect_said("is a dma-buf, which CUDA's driver imports on Jetson alone, from Thor on");
        assert_ok(rota_buffer_adopt(cpu, &options, &theirs));
        assert_int_equal(close(made.fd), 0);
        uint32_t words[128];
        assert_ok(rota_buffer_read(theirs, 0, words, sizeof words));
        for (uint32_t w = 0; w < 128; w++) assert_int_equal(words[w], 7);
        for (uint32_t w = 0; w < 128; w++) words[w] = 1000 + w;
        rota_ticket ticket;
        assert_ok(rota_buffer_write(theirs, NULL, 0, words, sizeof words, &ticket));
        assert_ok(rota_wait(ticket, 0));
        memset(words, 0, sizeof words);
        assert_ok(rota_buffer_read(view, 0, words, sizeof words));
        for (uint32_t w = 0; w < 128; w++) assert_int_equal(words[w], 1000 + w);
        rota_buffer_release(theirs);
        rota_buffer_release(view);
        if (i == 0) {
            cuda_stub_fail("MemGetHandleForAddressRange", 0, CUDA_ERROR_NOT_SUPPORTED);
            assert_status(rota_buffer_export_dma_buf(ours, gpu, &made), ROTA_UNSUPPORTED);
            expect_said("cuMemGetHandleForAddressRange says");
            cuda_stub_lack(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
            assert_status(rota_buffer_export_dma_buf(ours, gpu, &made), ROTA_UNSUPPORTED);
            expect_said("no CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED on this GPU");
            cuda_stub_lack(0);
        }
        rota_buffer_release(ours);
    }
    for (uint32_t i = 2; i-- > 0;) assert_ok(rota_runtime_close(runtimes[i], 0));
    cuda_stub_end_clean();
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(on_the_cpu, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(of_the_system, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(refused, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(only_read, runtime_setup, runtime_teardown),
        cmocka_unit_test(not_exported),
#ifdef ROTA_HAVE_CUDA
        cmocka_unit_test(exported),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
