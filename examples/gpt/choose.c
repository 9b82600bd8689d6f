/* Choosing among what may follow: on the host, and as kernels of a loop on the device. */
#include "examples/gpt/choose.h"

#include <stddef.h>
#include <string.h>
#include "cuda/gpt_choose.h"

/* ---- On the host ---- */

uint32_t gpt_choose_point(random_state *random) {
    return (uint32_t)(random_uniform(random) * 4294967296.0);
}

/* Where the amounts of the largest, each 1 or its weight, come to `wanted`: digit by digit. */
static gpt_threshold select(const float *logits, uint64_t count, uint64_t wanted, bool weighs, float most,
                            float temperature) {
    uint32_t prefix = 0;
    uint64_t above = 0, amounts[256];
    for (int shift = 24; shift >= 0; shift -= 8) {
        memset(amounts, 0, sizeof amounts);
        for (uint64_t i = 0; i < count; i++) {
            const uint32_t key = gpt_key_of(logits[i]);
            if (shift < 24 && key >> (shift + 8) != prefix) continue;
            amounts[key >> shift & 255] += weighs ? gpt_weight_of(logits[i], most, temperature) : 1;
        }
        uint32_t digit = 255;
        while (digit > 0 && above + amounts[digit] < wanted) above += amounts[digit--];
        prefix = prefix << 8 | digit;
    }
    const uint64_t each = weighs ? gpt_weight_of(gpt_value_of(prefix), most, temperature) : 1;
    return gpt_threshold_at(prefix, wanted, above, each);
}

static uint64_t total(const gpt_threshold *t, const float *logits, uint64_t count, float most,
                      float temperature) {
    uint64_t sum = 0, ties = 0;
    for (uint64_t i = 0; i < count; i++)
        if (gpt_stays(t, &ties, gpt_key_of(logits[i]))) sum += gpt_weight_of(logits[i], most, temperature);
    return sum;
}

int32_t gpt_choose(const gpt_sampling *sampling, const float *logits, uint64_t count, uint32_t point) {
    const float temperature = (float)sampling->temperature;
    uint64_t best = 0, ties = 0;
    for (uint64_t i = 1; i < count; i++)
        if (gpt_key_of(logits[i]) > gpt_key_of(logits[best])) best = i;
    if (temperature == 0) return (int32_t)best;
    const float most = logits[best];
    gpt_threshold t = {0, UINT64_MAX};
    if (sampling->top_k && sampling->top_k < count)
        t = select(logits, count, sampling->top_k, false, most, temperature);
    uint64_t sum = total(&t, logits, count, most, temperature);
    if (sampling->top_p < 1) {
        t = gpt_narrower(t, select(logits, count, gpt_share(sampling->top_p, sum), true, most, temperature));
        sum = total(&t, logits, count, most, temperature);
    }
    uint64_t left = gpt_point_in(sum, point);
    for (uint64_t i = 0; i < count; i++) {
        if (!gpt_stays(&t, &ties, gpt_key_of(logits[i]))) continue;
        const uint64_t weight = gpt_weight_of(logits[i], most, temperature);
        if (left < weight) return (int32_t)i;
        left -= weight;
    }
    return (int32_t)best; /* not reached: left is below the sum */
}

/* ---- As kernels ---- */

static void one_item(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                     uint64_t *out_grain) {
    (void)params;
    (void)operand_bytes;
    *out_items = *out_grain = 1;
}

static void one_group(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)params;
    (void)operand_bytes;
    out_groups[0] = out_groups[1] = out_groups[2] = 1;
}

enum { CHOOSE_LOGITS, CHOOSE_POINTS, CHOOSE_INDEX, CHOOSE_CHOSEN };

static rota_status choose_cpu(const rota_kernel_call *call) {
    const gpt_choose_params *p = call->params;
    const uint32_t index = *(const uint32_t *)call->operands[CHOOSE_INDEX];
    const gpt_sampling sampling = {
        .temperature = (double)p->temperature, .top_k = p->top_k, .top_p = p->top_p};
    if (index >= call->operand_bytes[CHOOSE_POINTS] / 4)
        return rota_fail(ROTA_OUT_OF_RANGE, "choice %u of %llu", index,
                         (unsigned long long)(call->operand_bytes[CHOOSE_POINTS] / 4));
    *(int32_t *)call->operands[CHOOSE_CHOSEN] =
        gpt_choose(&sampling, call->operands[CHOOSE_LOGITS], p->count,
                   ((const uint32_t *)call->operands[CHOOSE_POINTS])[index]);
    return ROTA_OK;
}

const rota_kernel gpt_choose_kernel = {
    .name = "choose",
    .operand_count = 4,
    .param_bytes = sizeof(gpt_choose_params),
    .flags = ROTA_KERNEL_PURE,
    .cpu = {.fn = choose_cpu, .items = one_item},
    .cuda = {ROTA_CUDA_IMAGE_gpt_choose, .entry = "gpt_choose", .grid = one_group, .block = {1024, 1, 1}},
};

enum { ADVANCE_CONTROL, ADVANCE_GIVEN, ADVANCE_STATE, ADVANCE_CHOSEN };

static rota_status advance_cpu(const rota_kernel_call *call) {
    const gpt_advance_params *p = call->params;
    gpt_loop_state *state = call->operands[ADVANCE_STATE];
    const gpt_loop_control *control = call->operands[ADVANCE_CONTROL];
    if (control->count > p->most)
        return rota_fail(ROTA_OUT_OF_RANGE, "%u tokens in a submission of at most %u", control->count,
                         p->most);
    if (p->begins)
        gpt_begin(state, control, call->operands[ADVANCE_GIVEN]);
    else
        gpt_advance(state, control, call->operands[ADVANCE_GIVEN], call->operands[ADVANCE_CHOSEN]);
    return ROTA_OK;
}

const rota_kernel gpt_advance_kernel = {
    .name = "advance",
    .operand_count = 4,
    .param_bytes = sizeof(gpt_advance_params),
    .flags = ROTA_KERNEL_PURE,
    .cpu = {.fn = advance_cpu, .items = one_item},
    .cuda = {ROTA_CUDA_IMAGE_gpt_choose, .entry = "gpt_advance", .grid = one_group, .block = {32, 1, 1}},
};

rota_status gpt_record_choose(rota_recorder *recorder, const gpt_sampling *sampling, rota_buffer *logits,
                              uint64_t count, rota_buffer *points, rota_buffer *state) {
    const gpt_choose_params params = {
        .count = (uint32_t)count,
        .top_k = sampling->top_k < count ? (uint32_t)sampling->top_k : 0,
        .temperature = (float)sampling->temperature,
        .top_p = sampling->top_p,
    };
    const rota_access accesses[] = {
        [CHOOSE_LOGITS] = {logits, 0, count * 4, ROTA_READ},
        [CHOOSE_POINTS] = {points, 0, ROTA_WHOLE, ROTA_READ},
        [CHOOSE_INDEX] = {state, offsetof(gpt_loop_state, index), 4, ROTA_READ},
        [CHOOSE_CHOSEN] = {state, offsetof(gpt_loop_state, chosen), 4, ROTA_WRITE},
    };
    return rota_record_kernel(recorder,
                              &ROTA_KERNEL_NODE(.kernel = &gpt_choose_kernel, .accesses = accesses,
                                                .access_count = 4, .params = &params),
                              NULL);
}

rota_status gpt_record_advance(rota_recorder *recorder, bool begins, rota_buffer *control, rota_buffer *given,
                               rota_buffer *state, rota_buffer *chosen) {
    const gpt_advance_params params = {begins, (uint32_t)(rota_buffer_size(chosen) / 4)};
    const rota_access accesses[] = {
        [ADVANCE_CONTROL] = {control, 0, sizeof(gpt_loop_control), ROTA_READ},
        [ADVANCE_GIVEN] = {given, 0, ROTA_WHOLE, ROTA_READ},
        [ADVANCE_STATE] = {state, 0, sizeof(gpt_loop_state), ROTA_READWRITE},
        [ADVANCE_CHOSEN] = {chosen, 0, ROTA_WHOLE, ROTA_READWRITE},
    };
    return rota_record_kernel(recorder,
                              &ROTA_KERNEL_NODE(.kernel = &gpt_advance_kernel, .accesses = accesses,
                                                .access_count = 4, .params = &params),
                              NULL);
}
