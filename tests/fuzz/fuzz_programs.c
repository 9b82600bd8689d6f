/* Bytes as a program of ops, with views and calls of rota_backward: whatever it is, rota gives what the
 * interpreter in f64 gives, or refuses it rightly. */
#include "tests/fuzz/support.h"
#include "tests/random/gradient_program.h"

static rota_runtime *runtime;
static rota_device *device;

static void close_runtime(void) {
    FUZZ_CHECK(rota_runtime_close(runtime, 10000000000u) == ROTA_OK);
}

static void open_runtime(void) {
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 1);
    FUZZ_CHECK(rota_runtime_open(&options, &runtime) == ROTA_OK);
    FUZZ_CHECK(rota_device_open(runtime, "cpu", &device) == ROTA_OK);
    atexit(close_runtime);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static program p;
    char text[512];
    if (!runtime) open_runtime();
    program_source source = {.bytes = data, .left = size};
    if (size == 0) return 0;
    program_draw(&p, &source);
    if (p.call_count == 0) return -1; /* nothing to learn from */
    if (program_check(&p, runtime, device, true, text, sizeof text) == PROGRAM_WRONG) {
        program_print(&p);
        fuzz_failed(text, __FILE__, __LINE__);
    }
    return 0;
}
