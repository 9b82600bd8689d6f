/* Choosing between cuDNN's attention and rota's. */
#include "ops/cuda/attention_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/cudnn_plan.h"
#include "ops/cuda/image.h"
#include "ops/cuda/measure.h"

typedef enum way { BY_CUDNN = 1, BY_ROTA = 2 } way;

/* Kept in files: plain bytes. */
typedef struct choice {
    uint32_t way;
} choice;

static void key_of(const rota_cudnn_attention *a, const rota_cuda_target *target,
                   char out_key[ROTA_CHOICE_KEY_MAX]) {
    int length =
        snprintf(out_key, ROTA_CHOICE_KEY_MAX, "attention%s|%s|%u|%s|cudnn %llu|%u %u|%u %u %u %u %u|%a",
                 a->backward ? "_backward" : "", target->name, target->multiprocessors, target->driver,
                 (unsigned long long)rota_cudnn_version(), a->dtype, a->causal, a->batch, a->heads,
                 a->queries, a->keys, a->dim, (double)a->scale);
    for (int i = 0; i < 4 && length > 0 && length < ROTA_CHOICE_KEY_MAX; i++)
        length += snprintf(out_key + length, (size_t)(ROTA_CHOICE_KEY_MAX - length), "|%u %u %u",
                           a->stride[i][0], a->stride[i][1], a->stride[i][2]);
}

rota_status rota_attention_choice_call(const rota_attention_ways *ways, const rota_cuda_call *call) {
    char key[ROTA_CHOICE_KEY_MAX];
    choice chosen = {0};
    key_of(&ways->about, call->target, key);
    const bool known = rota_choices_find(call->target->cache_dir, key, &chosen, sizeof chosen);
    rota_status status = ROTA_UNSUPPORTED;
    if (!call->again && (!known || chosen.way != BY_ROTA)) status = ways->by_cudnn(call);
    if (status == ROTA_UNSUPPORTED) return ways->by_rota(call);
    /* What it computes to the last bit shall not depend on which plan was made before a measurement. */
    if (status == ROTA_OK && !known)
        rota_choices_remember(NULL, key, &(choice){.way = BY_CUDNN}, sizeof chosen);
    return status;
}

rota_status rota_attention_run_image(const rota_kernel *kernel, const rota_cuda_call *call,
                                     const uint8_t *operands, const void *params) {
    uint64_t addresses[ROTA_KERNEL_OPERANDS_MAX], bytes[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        addresses[i] = call->operands[operands[i]];
        bytes[i] = call->operand_bytes[operands[i]];
    }
    const rota_kernel *selected =
        kernel->cuda.select ? kernel->cuda.select(params, bytes, 0, call->target) : NULL;
    return rota_cuda_image_run(selected ? selected : kernel, call, addresses, bytes, params);
}

/* ---- Measuring ---- */

typedef struct bench {
    const rota_attention_ways *ways;
    const rota_cuda_call *call;
} bench;

static rota_status run(void *user, uint32_t candidate) {
    const bench *b = user;
    return candidate == 0 ? b->ways->by_cudnn(b->call) : b->ways->by_rota(b->call);
}

/* Runs cuDNN's way and reads what it wrote. */
static rota_status run_and_read(const bench *b, const rota_cuda_driver *cu, uint8_t *out) {
    const rota_cuda_call *call = b->call;
    const uint32_t first = b->ways->first_result;
    ROTA_TRY(b->ways->by_cudnn(call));
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = first; i < first + b->ways->result_count && result == CUDA_SUCCESS; i++) {
        result = cu->MemcpyDtoHAsync(out, call->operands[i], call->operand_bytes[i], call->stream);
        out += call->operand_bytes[i];
    }
    const CUresult finished = cu->StreamSynchronize(call->stream);
    return rota_cuda_driver_check(cu, result != CUDA_SUCCESS ? result : finished,
                                  "reading what attention computed");
}

/* Two runs of cuDNN's give the same bits. */
static rota_status compare_runs(const bench *b, bool *out_same) {
    const rota_cuda_driver *cu;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->ways->result_count; i++)
        bytes += b->call->operand_bytes[b->ways->first_result + i];
    ROTA_TRY(rota_cuda_driver_get(&cu));
    uint8_t *results = malloc(2 * bytes);
    if (!results) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to compare runs of attention");
    rota_status status = run_and_read(b, cu, results);
    if (status == ROTA_OK) status = run_and_read(b, cu, results + bytes);
    *out_same = status == ROTA_OK && memcmp(results, results + bytes, bytes) == 0;
    free(results);
    return status;
}

static rota_status measure(const bench *b, choice *out_choice) {
    const rota_cuda_call *call = b->call;
    bool same = true;
    uint32_t best = 0;
    ROTA_TRY(rota_measure_fill((CUstream)call->stream, (rota_dtype)b->ways->about.dtype, call->operands,
                               call->operand_bytes, call->operand_count));
    ROTA_TRY(rota_measure_fastest(
        &(rota_measure){.stream = (CUstream)call->stream, .count = 2, .run = run, .user = (void *)b}, &best));
    if (best == 0) ROTA_TRY(compare_runs(b, &same));
    if (!same)
        rota_log_write(call->target->log, ROTA_LOG_WARNING,
                       "cuDNN's attention isn't the same bits in two runs on %s: rota's own kernels take it",
                       call->target->name);
    else if (best != 0)
        rota_log_write(call->target->log, ROTA_LOG_INFO,
                       "attention%s of %u x %u heads of %u on %s: rota's own kernels are faster than cuDNN's",
                       b->ways->about.backward ? "'s gradient" : "", b->ways->about.batch,
                       b->ways->about.heads, b->ways->about.queries, call->target->name);
    out_choice->way = best == 0 && same ? BY_CUDNN : BY_ROTA;
    return ROTA_OK;
}

rota_status rota_attention_choice_measure(const rota_attention_ways *ways, const rota_cuda_call *call) {
    const bench b = {ways, call};
    char key[ROTA_CHOICE_KEY_MAX];
    choice chosen = {0};
    key_of(&ways->about, call->target, key);
    const bool known = rota_choices_find(call->target->cache_dir, key, &chosen, sizeof chosen);
    if (known && chosen.way == BY_ROTA) return ROTA_OK;
    rota_status status = ways->by_cudnn(call);
    if (status == ROTA_OK && !known) status = measure(&b, &chosen);
    if (status == ROTA_UNSUPPORTED) return ROTA_OK; /* the call goes the other way, or says why it can't */
    if (status == ROTA_OK && !known)
        rota_choices_remember(call->target->cache_dir, key, &chosen, sizeof chosen);
    return status;
}
