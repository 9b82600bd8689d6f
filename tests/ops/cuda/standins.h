/* The stand-ins for cuDNN and the driver (cudnn_standin.c, cuda_standin.c), as tests that steer them find them. */
#ifndef ROTA_TESTS_OPS_CUDA_STANDINS_H
#define ROTA_TESTS_OPS_CUDA_STANDINS_H

#include <dlfcn.h>
#include <stdbool.h>
#include "tests/kit/support.h"

/* What tests set and look at; what each is stands where it is defined. */
typedef struct standins {
    /* of cuDNN's */
    bool *refuses, *fails, *idle, *unsteady;
    double *run_ms, *engine_ms;
    int *engines;
    int64_t *workspace_bytes, *engine;
    uint32_t *runs, *plans, *notes;
    void **stream;
    bool (**put)(void *stream, uint32_t call);
    int (*finish)(uint32_t call);
    /* of the driver's */
    double *launch_ms;
    int *launches, *together, *pushed, *retained;
} standins;

static inline void *standin_symbol(void *library, const char *name) {
    void *address = dlsym(library, name);
    assert_non_null(address);
    return address;
}

/* They stay loaded under the names that rota looks for, which are found before any file is, and have one clock. */
static inline bool standins_open(standins *out) {
    void *cudnn = dlopen(ROTA_STANDINS "/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    void *cuda = dlopen(ROTA_STANDINS "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cudnn || !cuda) return false;
    *(double **)standin_symbol(cudnn, "standin_clock_ms") = standin_symbol(cuda, "standin_clock_ms");
    *out = (standins){.refuses = standin_symbol(cudnn, "standin_refuses"),
                      .fails = standin_symbol(cudnn, "standin_fails"),
                      .idle = standin_symbol(cudnn, "standin_idle"),
                      .unsteady = standin_symbol(cudnn, "standin_unsteady"),
                      .run_ms = standin_symbol(cudnn, "standin_run_ms"),
                      .engine_ms = standin_symbol(cudnn, "standin_engine_ms"),
                      .engines = standin_symbol(cudnn, "standin_engines"),
                      .workspace_bytes = standin_symbol(cudnn, "standin_workspace_bytes"),
                      .engine = standin_symbol(cudnn, "standin_engine"),
                      .runs = standin_symbol(cudnn, "standin_runs"),
                      .plans = standin_symbol(cudnn, "standin_plans"),
                      .notes = standin_symbol(cudnn, "standin_notes"),
                      .stream = standin_symbol(cudnn, "standin_stream"),
                      .put = standin_symbol(cudnn, "standin_put"),
                      .launch_ms = standin_symbol(cuda, "standin_launch_ms"),
                      .launches = standin_symbol(cuda, "standin_launches"),
                      .together = standin_symbol(cuda, "standin_together"),
                      .pushed = standin_symbol(cuda, "standin_pushed"),
                      .retained = standin_symbol(cuda, "standin_retained")};
    *(void **)&out->finish = standin_symbol(cudnn, "standin_finish");
    return true;
}

#endif
