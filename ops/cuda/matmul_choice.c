/* Measuring which way a matrix product is the fastest. */
#include "ops/cuda/matmul_choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/divide.h"
#include "ops/cuda/choices.h"

_Static_assert(sizeof(rota_matmul_report) <= ROTA_CHOICE_BYTES_MAX, "it is kept as a choice is");

void rota_matmul_choice_key(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target,
                            char *out_key, size_t capacity) {
    rota_matmul_params alone = *p; /* of an epilogue's, too: it may come after that product */
    alone.flags &= ~(uint32_t)ROTA_LINEAR_EPILOGUE;
    snprintf(out_key, capacity,
             "matmul%s|%s|%u|%s|cublasLt %" PRIu64
             ", f32 sums, parts by multiprocessors|tiles %d, 1 of linear%s|%s>%s|%ux%ux%u|%u %u %u|%u%s|%u "
             "%u %u|%u %u %u|%u %u %u|"
             "%u %u %u",
             rota_choices_mark(target), target->name, target->multiprocessors, target->driver,
             rota_cublaslt_version(), ROTA_MATMUL_SM90_TILE_COUNT,
             rota_matmul_evened_takes(&alone, dtype, target) ? ", uneven" : "", rota_dtype_name(dtype),
             rota_dtype_name((rota_dtype)p->c_dtype), p->m, p->n, p->k, p->lda, p->ldb, p->ldc,
             p->flags & ~ROTA_MATMUL_ALIGNED_16, p->alpha == 1.0f ? "" : "a", p->batch[0], p->batch[1],
             p->batch[2], p->a_batch_stride[0], p->a_batch_stride[1], p->a_batch_stride[2],
             p->b_batch_stride[0], p->b_batch_stride[1], p->b_batch_stride[2], p->c_batch_stride[0],
             p->c_batch_stride[1], p->c_batch_stride[2]);
}

bool rota_matmul_choice_find(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target,
                             rota_matmul_choice *out_choice) {
    char key[ROTA_CHOICE_KEY_MAX];
    if (target->by_table) return false;
    rota_matmul_choice_key(p, dtype, target, key, sizeof key);
    if (!rota_choices_find(target->cache_dir, key, out_choice, sizeof *out_choice)) return false;
    if (out_choice->way == ROTA_MATMUL_BY_CUBLASLT) return rota_cublaslt_present();
    if (out_choice->way == ROTA_MATMUL_SEPARATELY) return (p->flags & ROTA_LINEAR_EPILOGUE) != 0;
    if (out_choice->tile >= ROTA_MATMUL_SM90_TILE_COUNT) return false;
    if (out_choice->way == ROTA_MATMUL_BY_EVENED)
        return p->flags & ROTA_LINEAR_EPILOGUE ? rota_linear_evened_takes(p, dtype, target)
                                               : rota_matmul_evened_takes(p, dtype, target);
    if (out_choice->way != ROTA_MATMUL_BY_SM90) return false;
    return p->flags & ROTA_LINEAR_EPILOGUE ? rota_linear_sm90_takes(p, dtype, target)
                                           : rota_matmul_sm90_takes(p, dtype, target);
}

/* Beside the choice, which stays as small as it was. Keys of products leave room for it. */
static void report_key(const char *key, char out_key[ROTA_CHOICE_KEY_MAX]) {
    snprintf(out_key, ROTA_CHOICE_KEY_MAX, "times of %.*s", ROTA_CHOICE_KEY_MAX - 16, key);
}

rota_matmul_origin rota_matmul_choice_report(const rota_matmul_params *p, rota_dtype dtype,
                                             const rota_cuda_target *target, rota_matmul_report *out_report) {
    char key[ROTA_CHOICE_KEY_MAX], of_times[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice_key(p, dtype, target, key, sizeof key);
    report_key(key, of_times);
    const bool is_known = rota_choices_find(target->cache_dir, of_times, out_report, sizeof *out_report) &&
                          out_report->count <= ROTA_MATMUL_CANDIDATES_MAX;
    return (rota_matmul_origin){rota_choices_are_read(key, sizeof(rota_matmul_choice)), is_known};
}

void rota_matmul_choice_keep(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target,
                             const rota_matmul_choice *choice) {
    char key[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice kept = *choice;
    if (target->by_table) return; /* the heuristics say the same again */
    rota_matmul_choice_key(p, dtype, target, key, sizeof key);
    rota_choices_remember(NULL, key, &kept, sizeof kept);
}

struct rota_matmul_measuring {
    const rota_cuda_call *call, *whole;
    rota_dtype dtype;
    rota_cublaslt_product product;
    bool has_cublaslt;
    rota_measure *measure;
    uint32_t count;
    rota_matmul_choice candidates[ROTA_MATMUL_CANDIDATES_MAX];
};

/* Of cuBLASLt's algorithms, as its heuristics list them. */
#define HEURISTICS_MAX 16u

static uint64_t workspace_bytes_of(const rota_cuda_call *call) {
    return call->operand_count > 3 ? call->operand_bytes[3] : 0;
}

static void add_candidate(rota_matmul_measuring *m, const rota_matmul_choice *choice) {
    for (uint32_t i = 0; i < m->count; i++)
        if (memcmp(&m->candidates[i], choice, sizeof *choice) == 0) return;
    if (m->count < ROTA_MATMUL_CANDIDATES_MAX) m->candidates[m->count++] = *choice;
}

/* Algorithms whose sum is not divided, of which versions with parts are tried, by so many, none shorter than this. */
#define SPLIT_OF 5u
#define PART_MIN 64u
#define PART_TILE 128u /* a side of tiles, of which as many as multiprocessors leave none idle */

static uint64_t tiles_of(const rota_matmul_params *p, uint32_t side) {
    return rota_divide_up(p->m, side) * rota_divide_up(p->n, side) * p->batch[0] * p->batch[1] * p->batch[2];
}

/* The heuristics divide a sum seldom where operands lie unevenly, and then few tiles leave most of the GPU idle; nor by
 * what gives each multiprocessor one part of a tile, or two, or each other one. */
static void add_in_parts(rota_matmul_measuring *m, const rota_cublaslt_algorithm *algorithms,
                         uint32_t count) {
    const rota_matmul_params *p = m->call->params;
    const uint64_t tiles = tiles_of(p, PART_TILE);
    if (tiles == 0 || tiles >= m->call->target->multiprocessors) return;
    const uint32_t fit = (uint32_t)(m->call->target->multiprocessors / tiles);
    const uint32_t most = p->k / PART_MIN;
    const uint32_t parts[] = {
        2, 3, 4, 6, 8, 12, 16, 24, fit / 2, fit < most ? fit : most, 2 * fit < most ? 2 * fit : most};
    for (uint32_t i = 0, taken = 0; i < count && taken < SPLIT_OF; i++) {
        if (rota_cublaslt_parts(&algorithms[i]) > 1) continue;
        taken++;
        for (uint32_t s = 0; s < sizeof parts / sizeof *parts; s++) {
            rota_matmul_choice choice = {.way = ROTA_MATMUL_BY_CUBLASLT};
            if (parts[s] > 1 && parts[s] <= most &&
                rota_cublaslt_split(&m->product, &algorithms[i], parts[s], workspace_bytes_of(m->call),
                                    &choice.algorithm) == ROTA_OK)
                add_candidate(m, &choice);
        }
    }
}

static void add_tiles(rota_matmul_measuring *m, rota_matmul_way way) {
    for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
        if (rota_matmul_sm90_cost(m->call->params, m->call->target, t) <= ROTA_MATMUL_COST_MAX)
            add_candidate(m, &(rota_matmul_choice){.way = way, .tile = t});
}

static rota_status find_candidates(rota_matmul_measuring *m) {
    const rota_cuda_call *call = m->call;
    const rota_matmul_params *p = call->params;
    rota_cublaslt_algorithm algorithms[HEURISTICS_MAX];
    uint32_t undivided = 0; /* of those, found without a workspace */
    const uint64_t workspaces[] = {workspace_bytes_of(call), 0};
    for (uint32_t w = 0; m->has_cublaslt && w < 2; w++) {
        uint32_t found;
        rota_status status = rota_cublaslt_candidates(&m->product, call->operands, workspaces[w], algorithms,
                                                      HEURISTICS_MAX, &found);
        if (status != ROTA_OK && status != ROTA_UNSUPPORTED) return status;
        for (uint32_t i = 0; status == ROTA_OK && i < found && m->count < HEURISTICS_MAX; i++)
            add_candidate(m,
                          &(rota_matmul_choice){.way = ROTA_MATMUL_BY_CUBLASLT, .algorithm = algorithms[i]});
        if (status == ROTA_OK && w == 1) undivided = found;
    }
    if (m->whole) {
        add_candidate(m, &(rota_matmul_choice){.way = ROTA_MATMUL_SEPARATELY});
        if (rota_linear_sm90_takes(p, m->dtype, call->target))
            add_candidate(m, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_SM90});
        if (rota_linear_evened_takes(p, m->dtype, call->target))
            add_candidate(m, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_EVENED});
        return ROTA_OK;
    }
    if (rota_matmul_sm90_takes(p, m->dtype, call->target) && rota_matmul_sm90_aligned(call->operands))
        add_tiles(m, ROTA_MATMUL_BY_SM90);
    if (rota_matmul_evened_takes(p, m->dtype, call->target) && rota_matmul_evened_fits(call))
        add_tiles(m, ROTA_MATMUL_BY_EVENED);
    if (workspaces[0] && !(p->flags & ROTA_LINEAR_EPILOGUE)) add_in_parts(m, algorithms, undivided);
    return ROTA_OK;
}

static rota_status begin(rota_matmul_measuring *m, const rota_cublaslt_extra *extra) {
    const rota_cuda_call *all = m->whole ? m->whole : m->call;
    m->has_cublaslt = rota_cublaslt_present();
    if (m->has_cublaslt) {
        const rota_status status = rota_cublaslt_open(m->call->params, m->dtype, extra, &m->product);
        m->has_cublaslt = status == ROTA_OK;
        /* Of a product with an epilogue it is left to the kernels of its own. */
        if (!m->whole || status != ROTA_UNSUPPORTED) ROTA_TRY(status);
    }
    ROTA_TRY(find_candidates(m));
    /* The result, too: what ACCUMULATE adds to. */
    ROTA_TRY(rota_measure_fill(all->stream, m->dtype, all->operands, all->operand_bytes,
                               m->whole ? all->operand_count : 3));
    return rota_measure_begin(m->call->stream, m->count, &m->measure);
}

static void give_back(rota_matmul_measuring *m) {
    if (m->has_cublaslt) rota_cublaslt_close(&m->product);
    free(m);
}

rota_status rota_matmul_measure_begin(const rota_cuda_call *call, rota_dtype dtype,
                                      const rota_cublaslt_extra *extra, const rota_cuda_call *whole,
                                      rota_matmul_measuring **out_measuring) {
    rota_matmul_choice choice = {0};
    *out_measuring = NULL;
    if (rota_matmul_choice_find(call->params, dtype, call->target, &choice)) return ROTA_OK;
    rota_matmul_measuring *m = calloc(1, sizeof *m);
    if (!m) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to measure a matrix product");
    m->call = call;
    m->whole = whole;
    m->dtype = dtype;
    const rota_status status = begin(m, extra);
    if (status == ROTA_OK)
        *out_measuring = m;
    else
        give_back(m);
    /* That nothing takes it is for the call to say. */
    return status == ROTA_UNSUPPORTED ? ROTA_OK : status;
}

bool rota_matmul_measure_next(rota_matmul_measuring *m, rota_matmul_choice *out_choice) {
    uint32_t candidate = 0;
    const bool more = m && rota_measure_next(m->measure, &candidate);
    if (more) *out_choice = m->candidates[candidate];
    return more;
}

rota_status rota_matmul_measure_put(rota_matmul_measuring *m, const rota_matmul_choice *choice) {
    const rota_cuda_call *call = m->call;
    if (choice->way == ROTA_MATMUL_BY_SM90) return rota_matmul_sm90_run(call, m->dtype, choice->tile);
    if (choice->way == ROTA_MATMUL_BY_EVENED) return rota_matmul_evened_run(call, m->dtype, choice->tile);
    return rota_cublaslt_run(&m->product, &choice->algorithm, call->operands,
                             call->operand_count > 3 ? call->operands[3] : 0, workspace_bytes_of(call),
                             call->stream);
}

void rota_matmul_measure_ran(rota_matmul_measuring *m, rota_status status) {
    rota_measure_ran(m->measure, status);
}

rota_status rota_matmul_measure_end(rota_matmul_measuring *m) {
    uint32_t best = 0;
    if (!m) return ROTA_OK;
    const rota_cuda_call *call = m->call;
    const rota_dtype dtype = m->dtype;
    rota_matmul_report report = {.count = m->count};
    for (uint32_t i = 0; i < m->count; i++)
        report.candidates[i] = (rota_matmul_candidate){m->candidates[i], rota_measure_of(m->measure, i)};
    const rota_status status = rota_measure_end(m->measure, &best);
    rota_matmul_choice choice = m->candidates[best];
    give_back(m);
    if (status == ROTA_UNSUPPORTED) return ROTA_OK;
    ROTA_TRY(status);
    char key[ROTA_CHOICE_KEY_MAX], of_times[ROTA_CHOICE_KEY_MAX];
    rota_matmul_choice_key(call->params, dtype, call->target, key, sizeof key);
    report_key(key, of_times);
    rota_choices_remember(call->target->cache_dir, of_times, &report, sizeof report);
    rota_choices_remember(call->target->cache_dir, key, &choice, sizeof choice);
    return ROTA_OK;
}

rota_status rota_matmul_choice_measure(const rota_cuda_call *call, rota_dtype dtype,
                                       const rota_cublaslt_extra *extra) {
    rota_matmul_measuring *m;
    rota_matmul_choice choice;
    ROTA_TRY(rota_matmul_measure_begin(call, dtype, extra, NULL, &m));
    while (rota_matmul_measure_next(m, &choice))
        rota_matmul_measure_ran(m, rota_matmul_measure_put(m, &choice));
    return rota_matmul_measure_end(m);
}
