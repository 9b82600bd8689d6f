/* Choosing between cuDNN's attention and rota's. */
#include "ops/cuda/attention_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/cudnn_plan.h"
#include "ops/cuda/measure.h"

/* Kept in files: plain bytes. */
typedef struct choice {
    uint32_t way;
} choice;

static void key_of(const rota_cudnn_attention *a, const rota_cuda_target *target,
                   char out_key[ROTA_CHOICE_KEY_MAX]) {
    int length =
        snprintf(out_key, ROTA_CHOICE_KEY_MAX, "attention%s|%s|%u|%s|cudnn %llu|%u %u|%u %u %u %u %u|%a",
                 a->backward ? "_gradient" : "", target->name, target->multiprocessors, target->driver,
                 (unsigned long long)rota_cudnn_version(), a->dtype, a->causal, a->batch, a->heads,
                 a->queries, a->keys, a->dim, (double)a->scale);
    for (int i = 0; i < 4 && length > 0 && length < ROTA_CHOICE_KEY_MAX; i++)
        length += snprintf(out_key + length, (size_t)(ROTA_CHOICE_KEY_MAX - length), "|%u %u %u",
                           a->stride[i][0], a->stride[i][1], a->stride[i][2]);
}

rota_attention_way rota_attention_choice_find(const rota_cudnn_attention *about,
                                              const rota_cuda_target *target, rota_attention_way by_table,
                                              bool *out_known) {
    char key[ROTA_CHOICE_KEY_MAX];
    choice chosen = {0};
    *out_known = target->by_table;
    if (target->by_table) return by_table;
    key_of(about, target, key);
    *out_known = rota_choices_find(target->cache_dir, key, &chosen, sizeof chosen);
    const bool own = chosen.way == ROTA_ATTENTION_BY_ROTA || chosen.way == ROTA_ATTENTION_BY_SM90;
    return *out_known && own ? (rota_attention_way)chosen.way : ROTA_ATTENTION_BY_CUDNN;
}

void rota_attention_choice_keep(const rota_cudnn_attention *about, const rota_cuda_target *target,
                                rota_attention_way way) {
    char key[ROTA_CHOICE_KEY_MAX];
    key_of(about, target, key);
    rota_choices_remember(NULL, key, &(choice){.way = way}, sizeof(choice));
}

/* ---- Measuring ---- */

/* By candidate. */
static const rota_attention_way ways[] = {ROTA_ATTENTION_BY_CUDNN, ROTA_ATTENTION_BY_ROTA,
                                          ROTA_ATTENTION_BY_SM90};

struct rota_attention_measuring {
    const rota_attention_work *work;
    const rota_cuda_call *call;
    rota_measure *measure; /* NULL: it is over */
    uint32_t best, reads;
    uint8_t *results; /* of two runs of cuDNN's, where that is the faster */
    uint64_t result_bytes;
    rota_status status;
};

rota_status rota_attention_measure_begin(const rota_attention_work *work, const rota_cuda_call *call,
                                         rota_attention_measuring **out_measuring) {
    ROTA_TRY(rota_measure_fill((CUstream)call->stream, (rota_dtype)work->about.dtype, call->operands,
                               call->operand_bytes, call->operand_count));
    rota_attention_measuring *m = calloc(1, sizeof *m);
    if (!m) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to measure attention");
    m->work = work;
    m->call = call;
    for (uint32_t i = 0; i < work->result_count; i++)
        m->result_bytes += call->operand_bytes[work->first_result + i];
    const rota_status status = rota_measure_begin((CUstream)call->stream, work->by_sm90 ? 3 : 2, &m->measure);
    if (status == ROTA_OK)
        *out_measuring = m;
    else
        free(m);
    return status;
}

bool rota_attention_measure_next(rota_attention_measuring *m, rota_attention_way *out_way) {
    uint32_t candidate;
    if (m->measure && rota_measure_next(m->measure, &candidate)) {
        *out_way = ways[candidate];
        return true;
    }
    if (m->measure) {
        m->status = rota_measure_end(m->measure, &m->best);
        m->measure = NULL;
        if (m->status == ROTA_OK && m->best == 0 && !(m->results = malloc(2 * m->result_bytes)))
            m->status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory to compare runs of attention");
    }
    *out_way = ROTA_ATTENTION_BY_CUDNN;
    return m->status == ROTA_OK && m->best == 0 && m->reads < 2;
}

/* What cuDNN wrote. */
static rota_status read_results(rota_attention_measuring *m) {
    const rota_cuda_call *call = m->call;
    const rota_cuda_driver *cu;
    const uint32_t first = m->work->first_result;
    uint8_t *out = m->results + m->reads * m->result_bytes;
    ROTA_TRY(rota_cuda_driver_get(&cu));
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = first; i < first + m->work->result_count && result == CUDA_SUCCESS; i++) {
        result = cu->MemcpyDtoHAsync(out, call->operands[i], call->operand_bytes[i], call->stream);
        out += call->operand_bytes[i];
    }
    const CUresult finished = cu->StreamSynchronize(call->stream);
    return rota_cuda_driver_check(cu, result != CUDA_SUCCESS ? result : finished,
                                  "reading what attention computed");
}

void rota_attention_measure_ran(rota_attention_measuring *m, rota_status status) {
    if (m->measure) {
        rota_measure_ran(m->measure, status);
        return;
    }
    m->status = status == ROTA_OK ? read_results(m) : status;
    m->reads++;
}

static void say(const rota_attention_measuring *m, bool same) {
    const rota_cudnn_attention *about = &m->work->about;
    const rota_cuda_target *target = m->call->target;
    if (!same)
        rota_log_write(target->log, ROTA_LOG_WARNING,
                       "cuDNN's attention isn't the same bits in two runs on %s: rota's own kernels take it",
                       target->name);
    else if (m->best != 0)
        rota_log_write(target->log, ROTA_LOG_INFO,
                       "attention%s of %u x %u heads of %u on %s: rota's own kernels are faster than cuDNN's",
                       about->backward ? "'s gradient" : "", about->batch, about->heads, about->queries,
                       target->name);
}

rota_status rota_attention_measure_end(rota_attention_measuring *m) {
    const rota_cuda_target *target = m->call->target;
    const rota_status status = m->status;
    char key[ROTA_CHOICE_KEY_MAX];
    if (status == ROTA_OK) {
        const bool same =
            m->best != 0 || memcmp(m->results, m->results + m->result_bytes, m->result_bytes) == 0;
        choice chosen = {.way = same ? ways[m->best] : ROTA_ATTENTION_BY_ROTA};
        say(m, same);
        key_of(&m->work->about, target, key);
        rota_choices_remember(target->cache_dir, key, &chosen, sizeof chosen);
    }
    free(m->results);
    free(m);
    return status;
}
