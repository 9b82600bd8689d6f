/* Measuring which of several ways to put the same work on a stream is the fastest. Internal; not installed.
 */
#ifndef ROTA_OPS_CUDA_MEASURE_H
#define ROTA_OPS_CUDA_MEASURE_H

#include "base/status.h"
#include "ops/cuda/driver.h"
#include "ops/tensor.h"

#define ROTA_MEASURE_CANDIDATES_MAX 32

typedef struct rota_measure {
    CUstream stream; /* not captured; its context is current */
    uint32_t count;  /* candidates, at most ROTA_MEASURE_CANDIDATES_MAX */
    /* Puts a candidate's work on the stream. UNSUPPORTED: this one can't, and is left out. */
    rota_status (*run)(void *user, uint32_t candidate);
    void *user;
} rota_measure;

/* The candidate with the least median. UNSUPPORTED: none can. Waits for the stream. */
rota_status rota_measure_fastest(const rota_measure *measure, uint32_t *out_best);

/* Fills memory on the device with random numbers of a real dtype, of magnitudes from 1/4 to 1. Waits. */
rota_status rota_measure_fill(CUstream stream, rota_dtype dtype, const uint64_t *addresses,
                              const uint64_t *bytes, uint32_t count);

#endif
