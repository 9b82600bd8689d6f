/* A buffer's memory as others take it over (rota_buffer_export), over the stand-in for the CUDA driver: what another
 * runtime adopts by the descriptor is the same bytes. */
#include "tests/kit/runtime_support.h"

#include <string.h>
#include <unistd.h>
#include "tests/exec/cuda/cuda_stub_kit.h"

#ifdef ROTA_HAVE_CUDA
enum { WORDS = 3000, BYTES = 4 * WORDS };

static rota_buffer *adopt(rota_device *device, const rota_memory_export *from) {
    rota_buffer *buffer;
    assert_ok(rota_buffer_adopt(device,
                                &ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_FD, .fd = from->fd,
                                                    .allocation_bytes = from->allocation_bytes,
                                                    .offset_bytes = from->offset_bytes,
                                                    .size_bytes = from->size_bytes),
                                &buffer));
    return buffer;
}

static void exported(void **state) {
    (void)state;
    cuda_stub_start(5, 1);
    rota_runtime *runtimes[2];
    rota_device *devices[2], *cpu;
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_runtime_open(NULL, &runtimes[i]));
        assert_ok(rota_device_open(runtimes[i], "cuda:0", &devices[i]));
    }
    assert_ok(rota_device_open(runtimes[0], "cpu", &cpu));
    const uint32_t counts[] = {WORDS, 1024 * 1024}; /* a piece of an allocation, and one of its own */
    for (uint32_t i = 0; i < 2; i++) {
        rota_buffer *ours = test_words(devices[0], "ours", counts[i], 7), *view, *theirs, *part;
        test_expect_words(ours, counts[i], 7);
        rota_memory_export whole = ROTA_MEMORY_EXPORT(), some = ROTA_MEMORY_EXPORT();
        assert_ok(rota_buffer_export(ours, devices[0], &whole));
        assert_int_equal(whole.size_bytes, 4ull * counts[i]);
        assert_true(whole.offset_bytes + whole.size_bytes <= whole.allocation_bytes);
        assert_ok(rota_buffer_create_view(ours, 256, 512, &view));
        assert_ok(rota_buffer_export(view, devices[0], &some));
        assert_int_equal(some.size_bytes, 512);
        assert_int_equal(some.offset_bytes, whole.offset_bytes + 256);
        theirs = adopt(devices[1], &whole);
        part = adopt(devices[1], &some);
        assert_int_equal(close(whole.fd), 0);
        assert_int_equal(close(some.fd), 0);
        test_expect_words(theirs, counts[i], 7);
        uint32_t words[128];
        for (uint32_t w = 0; w < 128; w++) words[w] = 1000 + w;
        assert_ok(rota_buffer_write(theirs, NULL, 256, words, sizeof words, NULL));
        memset(words, 0, sizeof words);
        assert_ok(rota_buffer_read(theirs, 256, words, sizeof words)); /* and so it is written */
        memset(words, 0, sizeof words);
        assert_ok(rota_buffer_read(view, 0, words, sizeof words));
        for (uint32_t w = 0; w < 128; w++) assert_int_equal(words[w], 1000 + w);
        memset(words, 0, sizeof words);
        assert_ok(rota_buffer_read(part, 0, words, sizeof words));
        for (uint32_t w = 0; w < 128; w++) assert_int_equal(words[w], 1000 + w);
        /* The other runtime's memory is not its device's own; the CPU's is nobody else's. */
        assert_status(rota_buffer_export(theirs, devices[1], &whole), ROTA_UNSUPPORTED);
        expect_said("buffer 'theirs': its memory on device 'cuda:0' is not that device's own");
        assert_status(rota_buffer_export(ours, cpu, &whole), ROTA_UNSUPPORTED);
        expect_said("device 'cpu' exports no memory");
        assert_status(rota_buffer_export(ours, devices[1], &whole), ROTA_INVALID_ARGUMENT);
        rota_buffer_release(part);
        rota_buffer_release(theirs);
        rota_buffer_release(view);
        rota_buffer_release(ours);
    }
    for (uint32_t i = 2; i-- > 0;) assert_ok(rota_runtime_close(runtimes[i], 0));
    cuda_stub_end_clean();
}

int main(void) {
    if (!cuda_stub_has_images()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(exported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    return 77; /* this build has no CUDA executor */
}
#endif
