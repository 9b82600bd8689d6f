/* Measuring which of several ways to put the same work on a stream is the fastest. Internal; not installed.
 */
#ifndef ROTA_OPS_CUDA_MEASURE_H
#define ROTA_OPS_CUDA_MEASURE_H

#include <stdbool.h>

#include "base/status.h"
#include "ops/cuda/driver.h"
#include "ops/tensor.h"

#define ROTA_MEASURE_CANDIDATES_MAX 96

/* A measurement, whose candidates its owner puts on the stream:
 *
 *     ROTA_TRY(rota_measure_begin(stream, count, &measure));
 *     while (rota_measure_next(measure, &candidate)) rota_measure_ran(measure, put_on_stream(candidate));
 *     status = rota_measure_end(measure, &best);
 */
typedef struct rota_measure rota_measure;

/* Of `count` candidates, at most ROTA_MEASURE_CANDIDATES_MAX, on a stream that is not captured; its context is
 * current. What begins is ended. */
rota_status rota_measure_begin(CUstream stream, uint32_t count, rota_measure **out_measure);

/* The candidate whose work comes next on the stream, which may be captured then, as a plan captures it; false: there
 * is no more to be run. Waits for the stream now and then, as the next does. */
bool rota_measure_next(rota_measure *measure, uint32_t *out_candidate);

/* It was put there. UNSUPPORTED, of its first run, or of its first that is captured: this one can't, and is left out;
 * another failure ends the measurement. */
void rota_measure_ran(rota_measure *measure, rota_status status);

/* What came of a candidate. */
typedef struct rota_measured {
    float look_ms; /* of one run, at the first look; 0: it can't run */
    float
        median_ms; /* of the rounds; 0: not measured further, being too slow at the first look or the only one */
} rota_measured;
rota_measured rota_measure_of(const rota_measure *measure, uint32_t candidate);

/* Candidates slower than the fastest by this, at the first look, aren't measured further. */
#define ROTA_MEASURE_HOPELESS 1.5

/* The candidate with the least median, or what went wrong. UNSUPPORTED: none can. */
rota_status rota_measure_end(rota_measure *measure, uint32_t *out_best);

/* Fills memory on the device with random numbers of a real dtype, of magnitudes from 1/4 to 1. Waits. */
rota_status rota_measure_fill(CUstream stream, rota_dtype dtype, const uint64_t *addresses,
                              const uint64_t *bytes, uint32_t count);

#endif
