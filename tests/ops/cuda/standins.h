/* The stand-ins for cuDNN and the driver (cudnn_standin.c, cuda_standin.c), as tests that steer them find them. */
#ifndef ROTA_TESTS_OPS_CUDA_STANDINS_H
#define ROTA_TESTS_OPS_CUDA_STANDINS_H

#include <dlfcn.h>
#include <stdbool.h>
#include "tests/kit/support.h"

typedef struct standins {
    void *cudnn, *cuda;
} standins;

/* What one of them lets tests look at, or set. */
static inline void *standin_symbol(void *library, const char *name) {
    void *address = dlsym(library, name);
    assert_non_null(address);
    return address;
}

/* They stay loaded under the names that rota looks for, which are found before any file is, and have one clock. */
static inline bool standins_open(standins *out) {
    out->cudnn = dlopen(ROTA_STANDINS "/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    out->cuda = dlopen(ROTA_STANDINS "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!out->cudnn || !out->cuda) return false;
    *(double **)standin_symbol(out->cudnn, "standin_clock_ms") = standin_symbol(out->cuda, "standin_clock_ms");
    return true;
}

#endif
