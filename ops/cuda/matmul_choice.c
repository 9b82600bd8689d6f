/* Measuring which way a matrix product is the fastest.
 *
 * All candidates run in turn, round after round, on random numbers: a large product runs a GPU into its power
 * limit, where the clock depends on what ran in the last milliseconds and on how many bits toggle, so that
 * neither one candidate after another nor operands of zeros would tell which is the fastest. */
#include "ops/cuda/matmul_choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/driver.h"

/* Runs of the clock's settling, and of each candidate in each round. */
#define WARM_MS 20.0
#define WARM_RUNS_MAX 2000.0
#define ROUNDS 5
#define ROUND_MS 1.0
#define ROUND_RUNS_MIN 3.0
#define ROUND_RUNS_MAX 50.0
/* Candidates slower than the fastest by this, at the first look, aren't measured further. */
#define HOPELESS 1.5
/* Of rota's tiles, those that waste more than this by idle multiprocessors aren't looked at. */
#define COST_MAX 1.4
/* Random elements, repeated; a prime, so that rows don't repeat one another. */
#define PATTERN_ELEMENTS 262139u

void rota_matmul_choice_key(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target,
                            char *out_key, size_t capacity) {
    snprintf(out_key, capacity,
             "matmul|%s|%u|%s|cublasLt %" PRIu64
             "|tiles %d|%s>%s|%ux%ux%u|%u %u %u|%u%s|%u %u %u|%u %u %u|%u %u %u|"
             "%u %u %u",
             target->name, target->multiprocessors, target->driver, rota_cublaslt_version(),
             ROTA_MATMUL_SM90_TILE_COUNT, rota_dtype_name(dtype), rota_dtype_name((rota_dtype)p->c_dtype),
             p->m, p->n, p->k, p->lda, p->ldb, p->ldc, p->flags & ~ROTA_MATMUL_ALIGNED_16,
             p->alpha == 1.0f ? "" : "a", p->batch[0], p->batch[1], p->batch[2], p->a_batch_stride[0],
             p->a_batch_stride[1], p->a_batch_stride[2], p->b_batch_stride[0], p->b_batch_stride[1],
             p->b_batch_stride[2], p->c_batch_stride[0], p->c_batch_stride[1], p->c_batch_stride[2]);
}

bool rota_matmul_choice_find(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target,
                             rota_matmul_choice *out_choice) {
    char key[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice_key(p, dtype, target, key, sizeof key);
    if (!rota_choices_find(target->cache_dir, key, out_choice, sizeof *out_choice)) return false;
    if (out_choice->way == ROTA_MATMUL_BY_CUBLASLT) return rota_cublaslt_present();
    if (out_choice->way == ROTA_MATMUL_SEPARATELY) return (p->flags & ROTA_LINEAR_EPILOGUE) != 0;
    return out_choice->way == ROTA_MATMUL_BY_SM90 && out_choice->tile < ROTA_MATMUL_SM90_TILE_COUNT &&
           rota_matmul_sm90_takes(p, dtype, target);
}

void rota_matmul_choice_keep(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target,
                             const rota_matmul_choice *choice) {
    char key[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice kept = *choice;
    rota_matmul_choice_key(p, dtype, target, key, sizeof key);
    rota_choices_remember(NULL, key, &kept, sizeof kept);
}

/* One measurement. */
typedef struct bench {
    const rota_cuda_call *call;
    const rota_matmul_epilogue *epilogue; /* NULL: a product alone */
    rota_dtype dtype;
    const rota_cuda_driver *cu;
    rota_cublaslt_product product;
    bool has_cublaslt;
    CUevent begin, end;
    uint32_t count;
    rota_matmul_choice candidates[ROTA_MATMUL_CANDIDATES_MAX];
    float ms[ROTA_MATMUL_CANDIDATES_MAX][ROUNDS];
    float first_ms[ROTA_MATMUL_CANDIDATES_MAX];
} bench;

static uint64_t workspace_bytes_of(const rota_cuda_call *call) {
    return call->operand_count > 3 ? call->operand_bytes[3] : 0;
}

static rota_status run(const bench *b, const rota_matmul_choice *choice) {
    if (choice->way == ROTA_MATMUL_SEPARATELY) return b->epilogue->separately(b->epilogue->call);
    if (choice->way == ROTA_MATMUL_BY_SM90) return rota_matmul_sm90_run(b->call, b->dtype, choice->tile);
    return rota_cublaslt_run(&b->product, &choice->algorithm, b->call->operands,
                             b->call->operand_count > 3 ? b->call->operands[3] : 0,
                             workspace_bytes_of(b->call), b->call->stream);
}

/* Milliseconds of one of `runs` runs. */
static rota_status time_runs(const bench *b, const rota_matmul_choice *choice, uint32_t runs, float *out_ms) {
    const rota_cuda_driver *cu = b->cu;
    CUstream stream = b->call->stream;
    ROTA_TRY(rota_cuda_driver_check(cu, cu->EventRecord(b->begin, stream), "cuEventRecord"));
    for (uint32_t i = 0; i < runs; i++) ROTA_TRY(run(b, choice));
    ROTA_TRY(rota_cuda_driver_check(cu, cu->EventRecord(b->end, stream), "cuEventRecord"));
    ROTA_TRY(rota_cuda_driver_check(cu, cu->EventSynchronize(b->end), "cuEventSynchronize"));
    ROTA_TRY(
        rota_cuda_driver_check(cu, cu->EventElapsedTime(out_ms, b->begin, b->end), "cuEventElapsedTime"));
    *out_ms /= (float)runs;
    return ROTA_OK;
}

/* Fills the operand with a repeated pattern of numbers in [-1, 1). */
static rota_status fill(const bench *b, const rota_cuda_call *call, uint32_t operand, const void *pattern) {
    const uint64_t bytes = call->operand_bytes[operand];
    const CUdeviceptr at = call->operands[operand];
    const uint64_t once = PATTERN_ELEMENTS * rota_dtype_bytes(b->dtype);
    uint64_t filled = bytes < once ? bytes : once;
    CUresult result = b->cu->MemcpyHtoDAsync(at, pattern, filled, b->call->stream);
    while (result == CUDA_SUCCESS && filled < bytes) {
        const uint64_t more = bytes - filled < filled ? bytes - filled : filled;
        result = b->cu->MemcpyDtoDAsync(at + filled, at, more, b->call->stream);
        filled += more;
    }
    return rota_cuda_driver_check(b->cu, result, "filling operands to measure a product");
}

static rota_status fill_operands(const bench *b) {
    const uint32_t element = (uint32_t)rota_dtype_bytes(b->dtype);
    uint8_t *pattern = malloc((size_t)PATTERN_ELEMENTS * element);
    if (!pattern) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for operands to measure a product");
    uint32_t x = 0x1234abcdu;
    for (uint32_t i = 0; i < PATTERN_ELEMENTS; i++) {
        x = x * 1664525u + 1013904223u;
        /* A random sign and mantissa, an exponent of -1 or, for half of them, one less. */
        const uint32_t exponent_bits = b->dtype == ROTA_F16 ? 10 : b->dtype == ROTA_BF16 ? 7 : 23;
        const uint32_t exponent = (b->dtype == ROTA_F16 ? 14u : 126u) - (x >> 8 & 1u);
        const uint32_t mantissa = x >> 9 & ((1u << exponent_bits) - 1);
        const uint32_t bits = (x >> 31) << (8 * element - 1) | exponent << exponent_bits | mantissa;
        memcpy(pattern + (size_t)i * element, &bits, element); /* little-endian: the low bytes */
    }
    const rota_cuda_call *whole = b->epilogue ? b->epilogue->call : b->call;
    rota_status status = ROTA_OK; /* the result, too: what ACCUMULATE adds to */
    for (uint32_t i = 0; i < whole->operand_count && (b->epilogue || i < 3) && status == ROTA_OK; i++)
        status = fill(b, whole, i, pattern);
    /* The pattern is pageable memory: the copy may still read it. */
    CUresult result = b->cu->StreamSynchronize(b->call->stream);
    free(pattern);
    return status != ROTA_OK ? status : rota_cuda_driver_check(b->cu, result, "cuStreamSynchronize");
}

static void add_candidate(bench *b, const rota_matmul_choice *choice) {
    for (uint32_t i = 0; i < b->count; i++)
        if (memcmp(&b->candidates[i], choice, sizeof *choice) == 0) return;
    if (b->count < ROTA_MATMUL_CANDIDATES_MAX) b->candidates[b->count++] = *choice;
}

static rota_status find_candidates(bench *b) {
    const rota_cuda_call *call = b->call;
    const rota_matmul_params *p = call->params;
    rota_cublaslt_algorithm algorithms[ROTA_MATMUL_CANDIDATES_MAX / 2];
    const uint64_t workspaces[] = {workspace_bytes_of(call), 0};
    for (uint32_t w = 0; b->has_cublaslt && w < 2; w++) {
        uint32_t found;
        rota_status status = rota_cublaslt_candidates(&b->product, call->operands, workspaces[w], algorithms,
                                                      ROTA_MATMUL_CANDIDATES_MAX / 2, &found);
        if (status != ROTA_OK && status != ROTA_UNSUPPORTED) return status;
        for (uint32_t i = 0; status == ROTA_OK && i < found && b->count < ROTA_MATMUL_CANDIDATES_MAX / 2; i++)
            add_candidate(b,
                          &(rota_matmul_choice){.way = ROTA_MATMUL_BY_CUBLASLT, .algorithm = algorithms[i]});
    }
    if (b->epilogue) {
        add_candidate(b, &(rota_matmul_choice){.way = ROTA_MATMUL_SEPARATELY});
        return ROTA_OK;
    }
    if (rota_matmul_sm90_takes(p, b->dtype, call->target) && rota_matmul_sm90_aligned(call->operands))
        for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
            if (rota_matmul_sm90_cost(p, call->target, t) <= COST_MAX)
                add_candidate(b, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_SM90, .tile = t});
    return ROTA_OK;
}

/* Runs each once unmeasured (the first run loads code) and once measured; drops those that can't, and those
 * without hope. */
static rota_status look_first(bench *b) {
    float least = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        rota_status status = run(b, &b->candidates[i]);
        if (status == ROTA_UNSUPPORTED) continue;
        ROTA_TRY(status);
        b->candidates[kept] = b->candidates[i];
        ROTA_TRY(time_runs(b, &b->candidates[kept], 1, &b->first_ms[kept]));
        if (kept == 0 || b->first_ms[kept] < least) least = b->first_ms[kept];
        kept++;
    }
    b->count = 0;
    for (uint32_t i = 0; i < kept; i++)
        if (b->first_ms[i] <= least * (float)HOPELESS) {
            b->candidates[b->count] = b->candidates[i];
            b->first_ms[b->count++] = b->first_ms[i];
        }
    return ROTA_OK;
}

static uint32_t runs_for(double ms, float each_ms, double least, double most) {
    double runs = ms / (each_ms > 1e-4f ? (double)each_ms : 1e-4);
    return (uint32_t)(runs < least ? least : runs > most ? most : runs);
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The candidate with the least median. */
static rota_status measure(bench *b, uint32_t *out_best) {
    float ignored, least = 0;
    ROTA_TRY(time_runs(b, &b->candidates[0], runs_for(WARM_MS, b->first_ms[0], 1, WARM_RUNS_MAX), &ignored));
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < b->count; i++) {
            const uint32_t c = (i + round) % b->count; /* nobody is always after the same one's power */
            const uint32_t runs = runs_for(ROUND_MS, b->first_ms[c], ROUND_RUNS_MIN, ROUND_RUNS_MAX);
            ROTA_TRY(run(b, &b->candidates[c]));
            ROTA_TRY(time_runs(b, &b->candidates[c], runs, &b->ms[c][round]));
        }
    for (uint32_t i = 0; i < b->count; i++) {
        qsort(b->ms[i], ROUNDS, sizeof b->ms[i][0], by_value);
        if (i == 0 || b->ms[i][ROUNDS / 2] < least) {
            least = b->ms[i][ROUNDS / 2];
            *out_best = i;
        }
    }
    return ROTA_OK;
}

static rota_status measure_all(bench *b, rota_matmul_choice *out_choice) {
    ROTA_TRY(find_candidates(b));
    ROTA_TRY(fill_operands(b));
    ROTA_TRY(look_first(b));
    if (b->count == 0) return rota_fail(ROTA_UNSUPPORTED, "no kernel takes the matrix product");
    uint32_t best = 0;
    if (b->count > 1) ROTA_TRY(measure(b, &best));
    *out_choice = b->candidates[best];
    return ROTA_OK;
}

rota_status rota_matmul_choice_measure(const rota_cuda_call *call, rota_dtype dtype,
                                       const rota_matmul_epilogue *epilogue) {
    const rota_matmul_params *p = call->params;
    rota_matmul_choice choice = {0};
    if (rota_matmul_choice_find(p, dtype, call->target, &choice)) return ROTA_OK;
    bench *b = calloc(1, sizeof *b);
    if (!b) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to measure a matrix product");
    b->call = call;
    b->epilogue = epilogue;
    b->dtype = dtype;
    rota_status status = rota_cuda_driver_get(&b->cu);
    if (status == ROTA_OK) {
        b->has_cublaslt = rota_cublaslt_present();
        if (b->has_cublaslt)
            status = rota_cublaslt_open(p, dtype, epilogue ? &epilogue->extra : NULL, &b->product);
        if (epilogue && status == ROTA_UNSUPPORTED) { /* it is left to the kernels of its own */
            b->has_cublaslt = false;
            status = ROTA_OK;
        }
    }
    if (status == ROTA_OK)
        status =
            rota_cuda_driver_check(b->cu, b->cu->EventCreate(&b->begin, CU_EVENT_DEFAULT), "cuEventCreate");
    if (status == ROTA_OK)
        status =
            rota_cuda_driver_check(b->cu, b->cu->EventCreate(&b->end, CU_EVENT_DEFAULT), "cuEventCreate");
    if (status == ROTA_OK) status = measure_all(b, &choice);
    if (b->begin) (void)b->cu->EventDestroy(b->begin);
    if (b->end) (void)b->cu->EventDestroy(b->end);
    if (b->has_cublaslt) rota_cublaslt_close(&b->product);
    free(b);
    /* That nothing takes it is for the call to say. */
    if (status == ROTA_UNSUPPORTED) return ROTA_OK;
    ROTA_TRY(status);
    char key[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice_key(p, dtype, call->target, key, sizeof key);
    rota_choices_remember(call->target->cache_dir, key, &choice, sizeof choice);
    return ROTA_OK;
}
