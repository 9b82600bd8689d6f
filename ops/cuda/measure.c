/* Measuring ways of doing the same work.
 *
 * All candidates run in turn, round after round, on random numbers: large work runs a GPU into its power
 * limit, where the clock depends on what ran in the last milliseconds and on how many bits toggle, so that
 * neither one candidate after another nor operands of zeros would tell which is the fastest. */
#include "ops/cuda/measure.h"

#include <stdlib.h>
#include <string.h>

/* For the clock to settle, and of each candidate at the first look and in each round. */
#define WARM_MS 20.0
#define WARM_RUNS_MAX 2000.0
#define LOOK_RUNS 3
#define ROUNDS 5
#define ROUND_MS 1.0
#define ROUND_RUNS_MIN 3.0
#define ROUND_RUNS_MAX 50.0
/* Candidates slower than the fastest by this, at the first look, aren't measured further. */
#define HOPELESS 1.5
/* Random elements, repeated; a prime, so that rows don't repeat one another. */
#define PATTERN_ELEMENTS 262139u

typedef struct bench {
    const rota_measure *about;
    const rota_cuda_driver *cu;
    CUevent begin, end;
    uint32_t count; /* of those that are still measured */
    uint32_t candidates[ROTA_MEASURE_CANDIDATES_MAX];
    float first_ms[ROTA_MEASURE_CANDIDATES_MAX];
    float ms[ROTA_MEASURE_CANDIDATES_MAX][ROUNDS];
} bench;

static rota_status run(const bench *b, uint32_t candidate) {
    return b->about->run(b->about->user, candidate);
}

/* Milliseconds of one of `runs` runs. */
static rota_status time_runs(const bench *b, uint32_t candidate, uint32_t runs, float *out_ms) {
    const rota_cuda_driver *cu = b->cu;
    CUstream stream = b->about->stream;
    ROTA_TRY(rota_cuda_driver_check(cu, cu->EventRecord(b->begin, stream), "cuEventRecord"));
    for (uint32_t i = 0; i < runs; i++) ROTA_TRY(run(b, candidate));
    ROTA_TRY(rota_cuda_driver_check(cu, cu->EventRecord(b->end, stream), "cuEventRecord"));
    ROTA_TRY(rota_cuda_driver_check(cu, cu->EventSynchronize(b->end), "cuEventSynchronize"));
    ROTA_TRY(
        rota_cuda_driver_check(cu, cu->EventElapsedTime(out_ms, b->begin, b->end), "cuEventElapsedTime"));
    *out_ms /= (float)runs;
    return ROTA_OK;
}

static uint32_t runs_for(double ms, float each_ms, double least, double most) {
    double runs = ms / (each_ms > 1e-4f ? (double)each_ms : 1e-4);
    return (uint32_t)(runs < least ? least : runs > most ? most : runs);
}

/* Runs the candidate until the clock has settled: an idle GPU's is a fraction of what it is under load. */
static rota_status settle(const bench *b, uint32_t candidate) {
    double left_ms = WARM_MS, left_runs = WARM_RUNS_MAX;
    while (left_ms > 0 && left_runs > 0) {
        float each_ms;
        ROTA_TRY(time_runs(b, candidate, 1, &each_ms));
        const uint32_t runs = runs_for(left_ms, each_ms, 1, left_runs);
        left_ms -= (double)each_ms;
        ROTA_TRY(time_runs(b, candidate, runs, &each_ms));
        left_ms -= (double)each_ms * runs;
        left_runs -= 1.0 + runs;
    }
    return ROTA_OK;
}

/* Runs each once unmeasured (the first run loads code) and then measured; drops those that can't, and those
 * without hope. On a GPU that was idle the first ones would look hopeless beside the later ones. */
static rota_status look_first(bench *b) {
    float least = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->about->count; i++) {
        rota_status status = run(b, i);
        if (status == ROTA_UNSUPPORTED) continue;
        ROTA_TRY(status);
        if (kept == 0) ROTA_TRY(settle(b, i));
        b->candidates[kept] = i;
        ROTA_TRY(time_runs(b, i, LOOK_RUNS, &b->first_ms[kept]));
        if (kept == 0 || b->first_ms[kept] < least) least = b->first_ms[kept];
        kept++;
    }
    b->count = 0;
    for (uint32_t i = 0; i < kept; i++) {
        /* Before one is dropped it is looked at once more: what else went on may have held it up. */
        float again_ms;
        if (b->first_ms[i] > least * (float)HOPELESS) {
            ROTA_TRY(time_runs(b, b->candidates[i], 1, &again_ms));
            if (again_ms < b->first_ms[i]) b->first_ms[i] = again_ms;
        }
        if (b->first_ms[i] <= least * (float)HOPELESS) {
            b->candidates[b->count] = b->candidates[i];
            b->first_ms[b->count++] = b->first_ms[i];
        }
    }
    return ROTA_OK;
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static rota_status compare(bench *b, uint32_t *out_best) {
    float least = 0;
    ROTA_TRY(settle(b, b->candidates[0])); /* to the power of work in a row, without a look between */
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < b->count; i++) {
            const uint32_t c = (i + round) % b->count; /* nobody is always after the same one's power */
            const uint32_t runs = runs_for(ROUND_MS, b->first_ms[c], ROUND_RUNS_MIN, ROUND_RUNS_MAX);
            ROTA_TRY(run(b, b->candidates[c]));
            ROTA_TRY(time_runs(b, b->candidates[c], runs, &b->ms[c][round]));
        }
    for (uint32_t i = 0; i < b->count; i++) {
        qsort(b->ms[i], ROUNDS, sizeof b->ms[i][0], by_value);
        if (i == 0 || b->ms[i][ROUNDS / 2] < least) {
            least = b->ms[i][ROUNDS / 2];
            *out_best = b->candidates[i];
        }
    }
    return ROTA_OK;
}

static rota_status find_fastest(bench *b, uint32_t *out_best) {
    ROTA_TRY(look_first(b));
    if (b->count == 0) return rota_fail(ROTA_UNSUPPORTED, "none of %u ways can be run", b->about->count);
    *out_best = b->candidates[0];
    return b->count > 1 ? compare(b, out_best) : ROTA_OK;
}

rota_status rota_measure_fastest(const rota_measure *measure, uint32_t *out_best) {
    bench *b = calloc(1, sizeof *b);
    if (!b) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to measure %u ways", measure->count);
    b->about = measure;
    rota_status status = rota_cuda_driver_get(&b->cu);
    if (status == ROTA_OK)
        status =
            rota_cuda_driver_check(b->cu, b->cu->EventCreate(&b->begin, CU_EVENT_DEFAULT), "cuEventCreate");
    if (status == ROTA_OK)
        status =
            rota_cuda_driver_check(b->cu, b->cu->EventCreate(&b->end, CU_EVENT_DEFAULT), "cuEventCreate");
    if (status == ROTA_OK) status = find_fastest(b, out_best);
    if (b->begin) (void)b->cu->EventDestroy(b->begin);
    if (b->end) (void)b->cu->EventDestroy(b->end);
    free(b);
    return status;
}

/* ---- Operands ---- */

/* Repeats the pattern over the memory. */
static rota_status fill(const rota_cuda_driver *cu, CUstream stream, CUdeviceptr address, uint64_t bytes,
                        const void *pattern, uint64_t pattern_bytes) {
    uint64_t filled = bytes < pattern_bytes ? bytes : pattern_bytes;
    if (bytes == 0) return ROTA_OK;
    CUresult result = cu->MemcpyHtoDAsync(address, pattern, filled, stream);
    while (result == CUDA_SUCCESS && filled < bytes) {
        const uint64_t more = bytes - filled < filled ? bytes - filled : filled;
        result = cu->MemcpyDtoDAsync(address + filled, address, more, stream);
        filled += more;
    }
    return rota_cuda_driver_check(cu, result, "filling operands to measure with");
}

rota_status rota_measure_fill(CUstream stream, rota_dtype dtype, const uint64_t *addresses,
                              const uint64_t *bytes, uint32_t count) {
    const rota_cuda_driver *cu;
    const uint32_t element = (uint32_t)rota_dtype_bytes(dtype);
    ROTA_TRY(rota_cuda_driver_get(&cu));
    uint8_t *pattern = malloc((size_t)PATTERN_ELEMENTS * element);
    if (!pattern) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for operands to measure with");
    uint32_t x = 0x1234abcdu;
    for (uint32_t i = 0; i < PATTERN_ELEMENTS; i++) {
        x = x * 1664525u + 1013904223u;
        /* A random sign and mantissa, an exponent of -1 or, for half of them, one less. */
        const uint32_t exponent_bits = dtype == ROTA_F16 ? 10 : dtype == ROTA_BF16 ? 7 : 23;
        const uint32_t exponent = (dtype == ROTA_F16 ? 14u : 126u) - (x >> 8 & 1u);
        const uint32_t mantissa = x >> 9 & ((1u << exponent_bits) - 1);
        const uint32_t bits = (x >> 31) << (8 * element - 1) | exponent << exponent_bits | mantissa;
        memcpy(pattern + (size_t)i * element, &bits, element); /* little-endian: the low bytes */
    }
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < count && status == ROTA_OK; i++)
        status = fill(cu, stream, addresses[i], bytes[i], pattern, (uint64_t)PATTERN_ELEMENTS * element);
    /* The pattern is pageable memory: the copy may still read it. */
    CUresult result = cu->StreamSynchronize(stream);
    free(pattern);
    return status != ROTA_OK ? status : rota_cuda_driver_check(cu, result, "cuStreamSynchronize");
}
