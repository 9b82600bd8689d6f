/* What choosing a token and going on to the next is made of. Compiled by nvcc for choose.cu and by the C compiler for
 * choose.c, which so do the same steps. */
#ifndef ROTA_EXAMPLES_GPT_CHOOSE_STEP_H
#define ROTA_EXAMPLES_GPT_CHOOSE_STEP_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GPT_STEP_FN static __device__ __forceinline__
#define GPT_BITS_OF(x) __float_as_uint(x)
#define GPT_FLOAT_OF(bits) __uint_as_float(bits)
#else
#include <string.h>
#define GPT_STEP_FN static inline
static inline uint32_t gpt_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float gpt_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#define GPT_BITS_OF(x) gpt_bits_of(x)
#define GPT_FLOAT_OF(bits) gpt_float_of(bits)
#endif

/* ---- Choosing ---- */

/* Of what is at hand only those stay whose key is above `key`, and the first `ties` of those that have it. */
typedef struct gpt_threshold {
    uint32_t key;
    uint64_t ties;
} gpt_threshold;

/* Numbers in the order of the floats. */
GPT_STEP_FN uint32_t gpt_key_of(float x) {
    const uint32_t bits = GPT_BITS_OF(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

GPT_STEP_FN float gpt_value_of(uint32_t key) {
    return GPT_FLOAT_OF(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
}

/* In 2^-32ths of the likeliest's. */
GPT_STEP_FN uint64_t gpt_weight_of(float x, float most, float temperature) {
    const float weight = gpt_key_of(x) == gpt_key_of(most) ? 1.0f : expf((x - most) / temperature);
    return weight > 0 ? (uint64_t)(weight * 4294967296.0f) : 0;
}

/* Of one with that key, where `ties` with the threshold's came before it, which it is counted among. */
GPT_STEP_FN int gpt_stays(const gpt_threshold *t, uint64_t *ties, uint32_t key) {
    return key > t->key || (key == t->key && (*ties)++ < t->ties);
}

/* Where amounts come to `wanted`: `above` those of greater keys, `each` that of one with this key. */
GPT_STEP_FN gpt_threshold gpt_threshold_at(uint32_t key, uint64_t wanted, uint64_t above, uint64_t each) {
    gpt_threshold t = {key, UINT64_MAX};
    if (each) t.ties = (wanted - above + each - 1) / each;
    return t;
}

/* The one that fewer stay by. */
GPT_STEP_FN gpt_threshold gpt_narrower(gpt_threshold a, gpt_threshold b) {
    return b.key > a.key || (b.key == a.key && b.ties < a.ties) ? b : a;
}

/* The share of the sum that top-p keeps, at least 1. */
GPT_STEP_FN uint64_t gpt_share(double top_p, uint64_t sum) {
    const uint64_t wanted = (uint64_t)ceil(top_p * (double)sum);
    return wanted ? wanted : 1;
}

/* Where in the sum the point is, which is in 2^-32ths. */
GPT_STEP_FN uint64_t gpt_point_in(uint64_t sum, uint32_t point) {
    return (sum >> 32) * point + ((sum & 0xFFFFFFFFu) * point >> 32);
}

typedef struct gpt_choose_params {
    uint32_t count, top_k; /* 0: all */
    float temperature;
    uint32_t reserved;
    double top_p;
} gpt_choose_params;

/* ---- From token to token ---- */

/* What the device keeps. */
typedef struct gpt_loop_state {
    int32_t token, position; /* what is read next, and where it stands */
    int32_t chosen;
    uint32_t index;   /* tokens read so far in this submission */
    uint32_t more;    /* whether another is */
    uint32_t chooses; /* whether the one that is read has another chosen after it */
    uint32_t ended;   /* by the end of a text: submissions that are under way by then read nothing */
    uint32_t reserved;
} gpt_loop_state;

/* What a submission is told. */
typedef struct gpt_loop_control {
    uint32_t count; /* of tokens to read */
    uint32_t given; /* how many are known: of those but the last nothing is chosen */
    uint32_t restarts;
    int32_t end; /* the token that ends a text; -1: none */
} gpt_loop_control;

typedef struct gpt_advance_params {
    uint32_t begins, most;
} gpt_advance_params;

GPT_STEP_FN void gpt_begin(gpt_loop_state *s, const gpt_loop_control *c, const int32_t *given) {
    s->index = 0;
    if (c->restarts) s->position = 0, s->ended = 0;
    s->token = c->given ? given[0] : s->chosen;
    s->more = c->count && !s->ended;
    s->chooses = c->given <= 1;
}

GPT_STEP_FN void gpt_advance(gpt_loop_state *s, const gpt_loop_control *c, const int32_t *given,
                             int32_t *chosen) {
    if (s->chooses) {
        chosen[s->index] = s->chosen;
        s->ended = s->chosen == c->end;
    }
    s->position++;
    s->index++;
    s->token = s->index < c->given && s->index < c->count ? given[s->index] : s->chosen;
    s->more = s->index < c->count && !s->ended;
    s->chooses = s->index + 1 >= c->given;
}

#endif
