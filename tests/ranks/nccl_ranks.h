/* Ranks of one process, each with a CUDA device of its own, by the stand-ins for the driver and for NCCL. */
#ifndef ROTA_TESTS_NCCL_RANKS_H
#define ROTA_TESTS_NCCL_RANKS_H

#include "tests/kit/support.h"

#include <stdio.h>
#include <string.h>

#include "rota.h"
#include "tests/exec/comm/nccl_standin.h"
#include "tests/exec/cuda/cuda_stub.h"

enum { RANKS_MOST = 4 };

typedef struct fixture {
    uint32_t size;
    rota_runtime *runtimes[RANKS_MOST];
    rota_device *devices[RANKS_MOST];
    rota_communicator *communicators[RANKS_MOST];
    uint64_t timeout_ns;
    bool deterministic;
} fixture;

static inline void open_devices(fixture *f, uint32_t size, bool is_one_gpu) {
    memset(f, 0, sizeof *f);
    f->size = size;
    cuda_stub_start(3 + size, RANKS_MOST);
    cuda_stub_gpus_apart();
    nccl_standin_start();
    const rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.worker_threads = 2, .cache_dir = "", .timeout_ns = 20000000000u);
    for (uint32_t i = 0; i < size; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "cuda:%u", is_one_gpu ? 0 : i);
        assert_ok(rota_runtime_open(&options, &f->runtimes[i]));
        assert_ok(rota_device_open(f->runtimes[i], id, &f->devices[i]));
    }
}

static inline rota_status open_ranks(fixture *f) {
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = "w", .timeout_ns = f->timeout_ns, .devices = f->devices,
                                  .deterministic = f->deterministic);
    return rota_communicator_open_ranks(f->runtimes, f->size, &options, f->communicators);
}

static inline void open_all(fixture *f, uint32_t size, uint64_t timeout_ns) {
    open_devices(f, size, false);
    f->timeout_ns = timeout_ns;
    assert_ok(open_ranks(f));
}

static inline void close_all(fixture *f) {
    char text[256];
    for (uint32_t i = 0; i < f->size; i++) assert_ok(rota_communicator_close(f->communicators[i], 0));
    for (uint32_t i = 0; i < f->size; i++) assert_ok(rota_runtime_close(f->runtimes[i], 20000000000u));
    if (nccl_standin_violations(text, sizeof text)) fail_msg("NCCL: %s", text);
    assert_int_equal(nccl_standin_alive(), 0);
    if (cuda_stub_violations(text, sizeof text)) fail_msg("violated: %s", text);
    if (cuda_stub_alive(text, sizeof text)) fail_msg("left in the driver: %s", text);
    cuda_stub_stop();
    nccl_standin_stop();
}

#endif
