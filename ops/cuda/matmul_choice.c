/* Measuring which way a matrix product is the fastest. */
#include "ops/cuda/matmul_choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/measure.h"

/* Of rota's tiles, those that waste more than this by idle multiprocessors aren't looked at. */
#define COST_MAX 1.4

void rota_matmul_choice_key(const rota_matmul_params *p, rota_dtype dtype, const rota_cuda_target *target,
                            char *out_key, size_t capacity) {
    snprintf(out_key, capacity,
             "matmul|%s|%u|%s|cublasLt %" PRIu64
             ", f32 sums|tiles %d, 1 of linear|%s>%s|%ux%ux%u|%u %u %u|%u%s|%u %u %u|%u %u %u|%u %u %u|"
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
    if (out_choice->way != ROTA_MATMUL_BY_SM90 || out_choice->tile >= ROTA_MATMUL_SM90_TILE_COUNT)
        return false;
    return p->flags & ROTA_LINEAR_EPILOGUE ? rota_linear_sm90_takes(p, dtype, target)
                                           : rota_matmul_sm90_takes(p, dtype, target);
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
    rota_cublaslt_product product;
    bool has_cublaslt;
    uint32_t count;
    rota_matmul_choice candidates[ROTA_MATMUL_CANDIDATES_MAX];
} bench;

static uint64_t workspace_bytes_of(const rota_cuda_call *call) {
    return call->operand_count > 3 ? call->operand_bytes[3] : 0;
}

static rota_status run(void *user, uint32_t candidate) {
    const bench *b = user;
    const rota_matmul_choice *choice = &b->candidates[candidate];
    if (choice->way == ROTA_MATMUL_SEPARATELY) return b->epilogue->separately(b->epilogue->call);
    if (choice->way == ROTA_MATMUL_BY_SM90)
        return b->epilogue ? b->epilogue->by_sm90(b->epilogue->call)
                           : rota_matmul_sm90_run(b->call, b->dtype, choice->tile);
    return rota_cublaslt_run(&b->product, &choice->algorithm, b->call->operands,
                             b->call->operand_count > 3 ? b->call->operands[3] : 0,
                             workspace_bytes_of(b->call), b->call->stream);
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
        if (rota_linear_sm90_takes(p, b->dtype, call->target))
            add_candidate(b, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_SM90});
        return ROTA_OK;
    }
    if (rota_matmul_sm90_takes(p, b->dtype, call->target) && rota_matmul_sm90_aligned(call->operands))
        for (uint32_t t = 0; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
            if (rota_matmul_sm90_cost(p, call->target, t) <= COST_MAX)
                add_candidate(b, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_SM90, .tile = t});
    return ROTA_OK;
}

static rota_status measure_all(bench *b, rota_matmul_choice *out_choice) {
    const rota_cuda_call *whole = b->epilogue ? b->epilogue->call : b->call;
    uint32_t best;
    ROTA_TRY(find_candidates(b));
    /* The result, too: what ACCUMULATE adds to. */
    ROTA_TRY(rota_measure_fill(whole->stream, b->dtype, whole->operands, whole->operand_bytes,
                               b->epilogue ? whole->operand_count : 3));
    ROTA_TRY(rota_measure_fastest(
        &(rota_measure){.stream = b->call->stream, .count = b->count, .run = run, .user = b}, &best));
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
    rota_status status = ROTA_OK;
    b->has_cublaslt = rota_cublaslt_present();
    if (b->has_cublaslt)
        status = rota_cublaslt_open(p, dtype, epilogue ? &epilogue->extra : NULL, &b->product);
    if (epilogue && status == ROTA_UNSUPPORTED) { /* it is left to the kernels of its own */
        b->has_cublaslt = false;
        status = ROTA_OK;
    }
    if (status == ROTA_OK) status = measure_all(b, &choice);
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
