/* What cmocka's tests over the stand-in for the CUDA driver begin and end with. */
#ifndef ROTA_TESTS_CUDA_STUB_KIT_H
#define ROTA_TESTS_CUDA_STUB_KIT_H

#include "tests/exec/cuda/cuda_stub.h"
#include "tests/kit/support.h"

#ifdef ROTA_HAVE_CUDA
#include <stdio.h>
#include "exec/smoke_kernel.h"

/* Whether this build has images of CUDA kernels, with which a runtime tries the stand-in's devices as it opens them,
 * too. False: that the test is skipped has been said; with main's 77. */
static inline bool cuda_stub_has_images(void) {
    if (rota_smoke_kernel.cuda.size_bytes) return true;
    puts("skipped: this build has no CUDA images");
    return false;
}

/* Wants that no rule of the driver's was broken, and stops the stand-in, in which something may be left. */
static inline void cuda_stub_end(void) {
    char text[512];
    if (cuda_stub_violations(text, sizeof text)) fail_msg("violated: %s", text);
    cuda_stub_stop();
}

/* ... and nothing may be. */
static inline void cuda_stub_end_clean(void) {
    char text[512];
    if (cuda_stub_violations(text, sizeof text)) fail_msg("violated: %s", text);
    if (cuda_stub_alive(text, sizeof text)) fail_msg("left in the driver: %s", text);
    cuda_stub_stop();
}
#endif

#endif
