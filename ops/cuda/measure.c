/* Measuring ways of doing the same work.
 *
 * All candidates run in turn, round after round, on random numbers: large work runs a GPU into its power
 * limit, where the clock depends on what ran in the last milliseconds and on how many bits toggle, so that
 * neither one candidate after another nor operands of zeros would tell which is the fastest.
 *
 * Short runs are timed as a plan runs them, in a graph, each after the one before: put on a stream one by one, what
 * a library's call takes on the host would be all that is measured of a kernel of a few microseconds. */
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
#define SHORT_MS 0.1f      /* a run: in rounds it is timed in a graph */
#define SHORT_LOOK_MS 1.0f /* all runs of a look */
/* Random elements, repeated; a prime, so that rows don't repeat one another. */
#define PATTERN_ELEMENTS 262139u

/* What the runs are for that are under way, all of one candidate and one after the other. Timed are all but the
 * first of a candidate, which load code or bring the clock to where it is for this one. */
typedef enum phase {
    FIRST,       /* of each candidate: some can't */
    SETTLE_ONE,  /* how long it takes */
    SETTLE_MANY, /* until the clock has settled: an idle GPU's is a fraction of what it is under load */
    LOOK,        /* the first look at each */
    LOOK_AGAIN,  /* at what looks hopeless: what else went on may have held it up */
    ROUND_FIRST, /* in each round, of each that is left */
    ROUND,
    OVER
} phase;

struct rota_measure {
    const rota_cuda_driver *cu;
    CUstream stream;
    CUevent begin, end;
    bool captures;  /* one run, of which a graph is made that has all of the phase */
    uint32_t asked; /* candidates */
    rota_status status;
    phase phase, after; /* `after`: comes when the clock has settled */
    uint32_t candidate, runs, left;
    double left_ms, left_runs; /* for the clock to settle */
    uint32_t i, round;
    uint32_t count; /* of those that are still measured */
    float least;    /* of the first looks */
    uint32_t candidates[ROTA_MEASURE_CANDIDATES_MAX], best;
    float first_ms[ROTA_MEASURE_CANDIDATES_MAX];
    float ms[ROTA_MEASURE_CANDIDATES_MAX][ROUNDS];
    rota_measured measured[ROTA_MEASURE_CANDIDATES_MAX]; /* of all that were asked for */
};

static uint32_t runs_for(double ms, float each_ms, double least, double most) {
    double runs = ms / (each_ms > 1e-4f ? (double)each_ms : 1e-4);
    return (uint32_t)(runs < least ? least : runs > most ? most : runs);
}

static bool is_timed(const rota_measure *m) {
    return m->phase != FIRST && m->phase != ROUND_FIRST;
}

static void go_on(rota_measure *m, phase next, uint32_t candidate, uint32_t runs) {
    m->phase = next;
    m->candidate = candidate;
    m->runs = m->left = runs;
}

/* Before the first look and before the rounds: to the power of work in a row, without a look between. */
static void settle(rota_measure *m, uint32_t candidate, phase after) {
    m->after = after;
    m->left_ms = WARM_MS;
    m->left_runs = WARM_RUNS_MAX;
    go_on(m, SETTLE_ONE, candidate, 1);
}

/* Nobody is always after the same one's power. */
static uint32_t in_turn(const rota_measure *m) {
    return (m->i + m->round) % m->count;
}

static void begin_round(rota_measure *m) {
    go_on(m, ROUND_FIRST, m->candidates[in_turn(m)], 1);
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* By their medians. */
static void choose(rota_measure *m) {
    float least = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        qsort(m->ms[i], ROUNDS, sizeof m->ms[i][0], by_value);
        m->measured[m->candidates[i]].median_ms = m->ms[i][ROUNDS / 2];
        if (i == 0 || m->ms[i][ROUNDS / 2] < least) {
            least = m->ms[i][ROUNDS / 2];
            m->best = m->candidates[i];
        }
    }
    m->phase = OVER;
}

/* Drops those without hope, when each of them was looked at again. */
static void begin_rounds(rota_measure *m) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->count; i++) m->measured[m->candidates[i]].look_ms = m->first_ms[i];
    for (uint32_t i = 0; i < m->count; i++)
        if (m->first_ms[i] <= m->least * (float)ROTA_MEASURE_HOPELESS) {
            m->candidates[kept] = m->candidates[i];
            m->first_ms[kept++] = m->first_ms[i];
        }
    m->count = kept;
    if (kept == 0) {
        m->status = rota_fail(ROTA_UNSUPPORTED, "none of %u ways can be run", m->asked);
        return;
    }
    m->best = m->candidates[0];
    m->phase = OVER;
    m->i = m->round = 0;
    if (kept > 1) settle(m, m->candidates[0], ROUND_FIRST);
}

/* From candidate m->i on: those that look hopeless. */
static void look_again(rota_measure *m) {
    while (m->i < m->count && m->first_ms[m->i] <= m->least * (float)ROTA_MEASURE_HOPELESS) m->i++;
    if (m->i < m->count)
        go_on(m, LOOK_AGAIN, m->candidates[m->i], m->first_ms[m->i] < SHORT_MS ? LOOK_RUNS : 1);
    else
        begin_rounds(m);
}

static void look_at_next(rota_measure *m) {
    if (m->candidate + 1 < m->asked) {
        go_on(m, FIRST, m->candidate + 1, 1);
    } else {
        m->i = 0;
        look_again(m);
    }
}

/* On a GPU that was idle the first ones would look hopeless beside the later ones. */
static void first_ran(rota_measure *m, bool can) {
    if (!can)
        look_at_next(m);
    else if (m->count == 0)
        settle(m, m->candidate, LOOK);
    else
        go_on(m, LOOK, m->candidate, LOOK_RUNS);
}

static void settled_for(rota_measure *m, float each_ms) {
    if (m->phase == SETTLE_ONE) {
        const uint32_t runs = runs_for(m->left_ms, each_ms, 1, m->left_runs);
        m->left_ms -= (double)each_ms;
        go_on(m, SETTLE_MANY, m->candidate, runs);
        return;
    }
    m->left_ms -= (double)each_ms * m->runs;
    m->left_runs -= 1.0 + m->runs;
    if (m->left_ms > 0 && m->left_runs > 0)
        go_on(m, SETTLE_ONE, m->candidate, 1);
    else if (m->after == LOOK)
        go_on(m, LOOK, m->candidate, LOOK_RUNS);
    else
        begin_round(m);
}

static void round_ran(rota_measure *m, float each_ms) {
    m->ms[in_turn(m)][m->round] = each_ms;
    if (++m->i == m->count) {
        m->i = 0;
        m->round++;
    }
    if (m->round < ROUNDS)
        begin_round(m);
    else
        choose(m);
}

/* All runs of a phase are over, which took so long each, where that was timed. */
static void advance(rota_measure *m, bool can, float each_ms) {
    switch (m->phase) {
    case FIRST:
        first_ran(m, can);
        break;
    case SETTLE_ONE:
    case SETTLE_MANY:
        settled_for(m, each_ms);
        break;
    case LOOK:
        if (!can) {
            look_at_next(m);
            break;
        }
        m->candidates[m->count] = m->candidate;
        m->first_ms[m->count] = each_ms;
        if (m->count == 0 || each_ms < m->least) m->least = each_ms;
        m->count++;
        look_at_next(m);
        break;
    case LOOK_AGAIN:
        if (each_ms < m->first_ms[m->i]) m->first_ms[m->i] = each_ms;
        m->i++;
        look_again(m);
        break;
    case ROUND_FIRST:
        go_on(m, ROUND, m->candidate,
              runs_for(ROUND_MS, m->first_ms[in_turn(m)], ROUND_RUNS_MIN, ROUND_RUNS_MAX));
        break;
    case ROUND:
        round_ran(m, each_ms);
        break;
    case OVER:
        break;
    }
}

rota_status rota_measure_begin(CUstream stream, uint32_t count, rota_measure **out_measure) {
    rota_measure *m = calloc(1, sizeof *m);
    if (!m) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to measure %u ways", count);
    m->stream = stream;
    m->asked = count;
    m->status = rota_cuda_driver_get(&m->cu);
    if (m->status == ROTA_OK)
        m->status =
            rota_cuda_driver_check(m->cu, m->cu->EventCreate(&m->begin, CU_EVENT_DEFAULT), "cuEventCreate");
    if (m->status == ROTA_OK)
        m->status =
            rota_cuda_driver_check(m->cu, m->cu->EventCreate(&m->end, CU_EVENT_DEFAULT), "cuEventCreate");
    if (count)
        go_on(m, FIRST, 0, 1);
    else
        begin_rounds(m); /* says that there is none */
    *out_measure = m;
    return ROTA_OK;
}

static bool wants_graph(const rota_measure *m) {
    return m->phase == LOOK || m->phase == LOOK_AGAIN ||
           (m->phase == ROUND && m->first_ms[in_turn(m)] < SHORT_MS);
}

/* Before the first of a phase's runs. A stream that can't be captured has them one by one. */
static rota_status begin_clock(rota_measure *m) {
    const rota_cuda_driver *cu = m->cu;
    if (wants_graph(m) && cu->StreamBeginCapture(m->stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS) {
        m->captures = true;
        m->left = 1;
        return ROTA_OK;
    }
    return rota_cuda_driver_check(cu, cu->EventRecord(m->begin, m->stream), "cuEventRecord");
}

/* The run that was captured, as often as the phase has it. */
static CUresult repeat(const rota_measure *m, CUgraph one, CUgraph all) {
    CUgraphNode before = NULL, node;
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < m->runs && result == CUDA_SUCCESS; i++) {
        result = m->cu->GraphAddChildGraphNode(&node, all, before ? &before : NULL, before != NULL, one);
        before = node;
    }
    return result;
}

/* What takes less in all, with its first launch, is looked at at its second. */
static CUresult launch_again(rota_measure *m, CUgraphExec exec) {
    const rota_cuda_driver *cu = m->cu;
    float all_ms = 0;
    CUresult result = cu->EventRecord(m->end, m->stream);
    if (result == CUDA_SUCCESS) result = cu->EventSynchronize(m->end);
    if (result == CUDA_SUCCESS) result = cu->EventElapsedTime(&all_ms, m->begin, m->end);
    if (result != CUDA_SUCCESS || all_ms >= SHORT_LOOK_MS) return result;
    result = cu->EventRecord(m->begin, m->stream);
    return result == CUDA_SUCCESS ? cu->GraphLaunch(exec, m->stream) : result;
}

/* Once before it is timed, where it is short: a graph's first launch takes longer, by more for one graph than for
 * another, as an idle GPU's first work does. */
static rota_status launch(rota_measure *m, CUgraph all) {
    const rota_cuda_driver *cu = m->cu;
    CUgraphExec exec = NULL;
    ROTA_TRY(rota_cuda_driver_check(cu, cu->GraphInstantiateWithFlags(&exec, all, 0),
                                    "cuGraphInstantiateWithFlags"));
    CUresult result = m->phase == ROUND ? cu->GraphLaunch(exec, m->stream) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) result = cu->EventRecord(m->begin, m->stream);
    if (result == CUDA_SUCCESS) result = cu->GraphLaunch(exec, m->stream);
    if (result == CUDA_SUCCESS && m->phase != ROUND) result = launch_again(m, exec);
    (void)cu->GraphExecDestroy(exec); /* when it has run */
    return rota_cuda_driver_check(cu, result, "launching what is measured");
}

static rota_status end_capture(rota_measure *m, rota_status status) {
    const rota_cuda_driver *cu = m->cu;
    CUgraph one = NULL, all = NULL;
    CUresult result = cu->StreamEndCapture(m->stream, &one); /* also after a failure: it ends the capture */
    m->captures = false;
    if (result != CUDA_SUCCESS) /* a call's failure, too, is the capture's then */
        return rota_fail(ROTA_UNSUPPORTED, "what is measured can't be captured (%d)", (int)result);
    if (status == ROTA_OK) result = cu->GraphCreate(&all, 0);
    if (status == ROTA_OK && result == CUDA_SUCCESS) result = repeat(m, one, all);
    if (status == ROTA_OK) status = rota_cuda_driver_check(cu, result, "a graph of what is measured");
    if (status == ROTA_OK) status = launch(m, all);
    if (all) (void)cu->GraphDestroy(all);
    if (one) (void)cu->GraphDestroy(one);
    return status;
}

bool rota_measure_next(rota_measure *m, uint32_t *out_candidate) {
    if (m->status == ROTA_OK && m->phase != OVER && m->left == m->runs && is_timed(m))
        m->status = begin_clock(m);
    *out_candidate = m->candidate;
    return m->status == ROTA_OK && m->phase != OVER;
}

/* Milliseconds of one of the runs that are on the stream. */
static rota_status read_clock(rota_measure *m, float *out_ms) {
    const rota_cuda_driver *cu = m->cu;
    ROTA_TRY(rota_cuda_driver_check(cu, cu->EventRecord(m->end, m->stream), "cuEventRecord"));
    ROTA_TRY(rota_cuda_driver_check(cu, cu->EventSynchronize(m->end), "cuEventSynchronize"));
    ROTA_TRY(
        rota_cuda_driver_check(cu, cu->EventElapsedTime(out_ms, m->begin, m->end), "cuEventElapsedTime"));
    *out_ms /= (float)m->runs;
    return ROTA_OK;
}

void rota_measure_ran(rota_measure *m, rota_status status) {
    float each_ms = 0;
    const bool may_refuse = m->phase == FIRST || (m->phase == LOOK && m->captures);
    if (m->captures) status = end_capture(m, status);
    const bool can = status == ROTA_OK;
    if (!can && !(may_refuse && status == ROTA_UNSUPPORTED)) {
        m->status = status;
        return;
    }
    if (--m->left != 0) return;
    if (can && is_timed(m)) m->status = read_clock(m, &each_ms);
    if (m->status == ROTA_OK) advance(m, can, each_ms);
}

rota_measured rota_measure_of(const rota_measure *m, uint32_t candidate) {
    return m->measured[candidate];
}

rota_status rota_measure_end(rota_measure *m, uint32_t *out_best) {
    const rota_status status = m->status;
    if (status == ROTA_OK) *out_best = m->best;
    if (m->begin) (void)m->cu->EventDestroy(m->begin);
    if (m->end) (void)m->cu->EventDestroy(m->end);
    free(m);
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
        const uint32_t exponent_bits = dtype == ROTA_F16         ? 10
                                       : dtype == ROTA_BF16      ? 7
                                       : dtype == ROTA_F8_E4M3FN ? 3
                                       : dtype == ROTA_F8_E5M2   ? 2
                                                                 : 23;
        const uint32_t highest = dtype == ROTA_F16 || dtype == ROTA_F8_E5M2 ? 14u
                                 : dtype == ROTA_F8_E4M3FN                  ? 6u
                                                                            : 126u;
        const uint32_t exponent = highest - (x >> 8 & 1u);
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
