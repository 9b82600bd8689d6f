/* See gpu_kit.h. */
#include "tests/sched/runtime/gpu_kit.h"

#include <string.h>
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kernels/kernels.h"
#include "tests/random/decide.h"

static bool has_stub;

/* False where this build has no images, which the stand-in looks at as little as it runs them, but open does. */
static bool start_stub(void) {
#ifdef ROTA_HAVE_CUDA
    has_stub = test_kernels[0].kernel.cuda.image != NULL;
    if (has_stub) cuda_stub_start(5, 1);
    for (uint32_t k = 0; has_stub && k < TEST_KERNEL_COUNT; k++) cuda_stub_kernel(&test_kernels[k].kernel);
    if (has_stub) cuda_stub_kernel(&decide_count_down);
#endif
    return has_stub;
}

static void end_stub(void) {
#ifdef ROTA_HAVE_CUDA
    if (!has_stub) return;
    has_stub = false;
    cuda_stub_end_clean();
#endif
}

void gpu_open(const char *name, runtime_fixture *out) {
    const bool is_stub = strcmp(name, GPU_STAND_IN) == 0, is_there = !is_stub || start_stub();
    *out = (runtime_fixture){0};
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 60000000000u), &out->runtime));
    if (is_there && rota_device_open(out->runtime, is_stub ? "cuda:0" : name, &out->device) == ROTA_OK)
        return;
    out->device = NULL;
    print_message("skipped: %s\n", is_there ? rota_last_error() : "this build has no CUDA images");
}

void gpu_close(runtime_fixture *f) {
    if (f->runtime) assert_ok(rota_runtime_close(f->runtime, 0));
    end_stub();
}
