/* Drawing random programs of collectives, and what they come to. */
#include "tests/ranks/random_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/random.h"

static const char *const kind_names[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                         "broadcast",  "send",           "barrier",    "local"};
static const char *const reduction_names[ROTA_COLLECTIVE_REDUCTION_COUNT] = {"sum", "mean", "max", "min",
                                                                             "product"};
static const char *const fault_names[] = {"none",  "another step", "abort",
                                          "close", "a node fails", "another order"};

const char *random_fault_name(random_fault fault) {
    return fault_names[fault];
}

/* ---- Drawing ---- */

/* Counts around pieces of messages, and none. */
static uint32_t draw_count(uint64_t *state) {
    static const uint32_t counts[] = {0, 1, 1, 2, 3, 17, 64, 255, 1000, 1000, 4097, 20000};
    return counts[test_below(state, sizeof counts / sizeof *counts)];
}

static random_step draw_step(uint64_t *state, const random_program *p) {
    random_step s = {.kind = (random_step_kind)test_below(state, RANDOM_STEP_KIND_COUNT)};
    s.reduction = (rota_collective_reduction)test_below(state, ROTA_COLLECTIVE_REDUCTION_COUNT);
    s.communicator = test_below(state, p->communicator_count);
    s.from = test_below(state, RANDOM_RANKS_MOST);
    s.to = test_below(state, RANDOM_RANKS_MOST);
    s.x = test_below(state, RANDOM_BUFFERS);
    s.x_first = test_below(state, 13);
    s.y_first = test_below(state, 13);
    s.count = draw_count(state);
    s.lane = test_below(state, RANDOM_LANES);
    s.y = s.x ^ 1; /* of the same type */
    s.dtype = random_buffer_dtype(s.x);
    if (s.dtype != ROTA_F32) {
        s.dtype = test_below(state, 2) ? ROTA_I32 : ROTA_U32;
        if (s.reduction == ROTA_COLLECTIVE_MEAN) s.reduction = ROTA_COLLECTIVE_SUM;
    }
    const bool may_be_in_place = s.kind == RANDOM_ALL_REDUCE || s.kind == RANDOM_ALL_TO_ALL ||
                                 s.kind == RANDOM_BROADCAST || s.kind == RANDOM_LOCAL;
    const bool may_be_part = s.kind == RANDOM_REDUCE_SCATTER || s.kind == RANDOM_ALL_GATHER;
    if ((may_be_in_place || may_be_part) && test_below(state, 2)) {
        s.y = s.x;
        s.y_first = s.x_first;
        s.is_part = may_be_part;
    }
    return s;
}

static void draw_groups(uint64_t *state, random_program *p) {
    p->communicator_count = 1 + test_below(state, RANDOM_COMMUNICATORS_MOST);
    for (uint32_t c = 1; c < p->communicator_count; c++) {
        const uint32_t colors = 1 + test_below(state, 3);
        for (uint32_t r = 0; r < p->size; r++) {
            p->colors[c][r] = test_below(state, colors);
            p->keys[c][r] = test_below(state, 3);
        }
    }
}

bool random_plan_is_shared(const random_program *p, uint32_t plan, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < p->step_counts[plan]; i++) {
        const random_step *s = &p->steps[plan][i];
        const bool is_recorded = s->kind == RANDOM_BARRIER || (s->kind < RANDOM_SEND && s->count > 0);
        if (is_recorded && p->colors[s->communicator][a] == p->colors[s->communicator][b]) return true;
    }
    return false;
}

/* Of the submission and the next one, on the fault's rank. */
static bool may_cross(const random_program *p) {
    if (p->fault_submit + 1 >= p->submit_count) return false;
    const uint32_t first = p->submits[p->fault_submit], second = p->submits[p->fault_submit + 1];
    for (uint32_t r = 0; r < p->size && first != second; r++)
        if (r != p->fault_rank && random_plan_is_shared(p, first, r, p->fault_rank) &&
            random_plan_is_shared(p, second, r, p->fault_rank))
            return true;
    return false;
}

/* Whether a step can have that fault: one that a rank records otherwise is a collective of several that has elements,
 * one that fails is a kernel. */
static bool may_have(const random_program *p, const random_step *s, random_fault fault) {
    if (fault == RANDOM_CROSSES) return may_cross(p);
    if (fault == RANDOM_NODE_FAILS) return s->kind == RANDOM_LOCAL && s->count > 0;
    if (fault != RANDOM_OTHER_STEP) return true;
    return s->kind < RANDOM_SEND && s->count > 0 &&
           random_group_of(p, s->communicator, p->fault_rank).size > 1;
}

/* Of a rank and a step that is submitted, if there is one for that. */
static void draw_fault(uint64_t *state, random_program *p) {
    const random_fault fault = (random_fault)(1 + test_below(state, RANDOM_FAULT_COUNT - 1));
    p->fault_rank = test_below(state, p->size);
    for (uint32_t tries = 0; tries < 50 && !p->fault; tries++) {
        p->fault_submit = test_below(state, p->submit_count);
        p->fault_plan = p->submits[p->fault_submit];
        p->fault_step = test_below(state, p->step_counts[p->fault_plan]);
        p->fault_communicator = p->steps[p->fault_plan][p->fault_step].communicator;
        if (may_have(p, &p->steps[p->fault_plan][p->fault_step], fault)) p->fault = fault;
    }
}

void random_program_draw(uint64_t seed, uint32_t size, bool with_faults, uint32_t count_factor,
                         random_program *out) {
    uint64_t state = seed;
    state = test_random(&state); /* consecutive seeds would give one sequence, a step apart */
    *out =
        (random_program){.seed = seed, .size = size ? size : 2 + test_below(&state, RANDOM_RANKS_MOST - 1)};
    draw_groups(&state, out);
    out->plan_count = 1 + test_below(&state, RANDOM_PLANS_MOST);
    uint32_t most = 0;
    for (uint32_t p = 0; p < out->plan_count; p++) {
        const uint32_t drawn = 1 + test_below(&state, RANDOM_STEPS_MOST);
        random_step steps[RANDOM_STEPS_MOST];
        for (uint32_t i = 0; i < drawn; i++) {
            steps[i] = draw_step(&state, out);
            steps[i].count *= count_factor;
            if (steps[i].count > most) most = steps[i].count;
        }
        for (uint32_t lane = 0; lane < RANDOM_LANES; lane++)
            for (uint32_t i = 0; i < drawn; i++)
                if (steps[i].lane == lane) out->steps[p][out->step_counts[p]++] = steps[i];
    }
    out->elements = (most + 1) * out->size + 13;
    out->submit_count = 1 + test_below(&state, RANDOM_SUBMITS_MOST);
    for (uint32_t i = 0; i < out->submit_count; i++) out->submits[i] = test_below(&state, out->plan_count);
    if (with_faults && test_below(&state, 2)) draw_fault(&state, out);
}

random_group random_group_of(const random_program *p, uint32_t communicator, uint32_t rank) {
    random_group group = {0};
    const uint32_t *colors = p->colors[communicator], *keys = p->keys[communicator];
    for (uint32_t key = 0; key < 3; key++)
        for (uint32_t r = 0; r < p->size; r++) {
            if (colors[r] != colors[rank] || keys[r] != key) continue;
            if (r == rank) group.rank = group.size;
            group.members[group.size++] = r;
        }
    return group;
}

void random_program_print(const random_program *p, FILE *to) {
    fprintf(to, "seed %llu: %u ranks, %u communicators, %u elements a buffer, fault: %s\n",
            (unsigned long long)p->seed, p->size, p->communicator_count, p->elements,
            random_fault_name(p->fault));
    for (uint32_t c = 1; c < p->communicator_count; c++)
        for (uint32_t r = 0; r < p->size; r++)
            fprintf(to, "%s%u/%u%s", r ? " " : "  split ", p->colors[c][r], p->keys[c][r],
                    r + 1 < p->size ? "" : "\n");
    for (uint32_t k = 0; k < p->plan_count; k++)
        for (uint32_t i = 0; i < p->step_counts[k]; i++) {
            const random_step *s = &p->steps[k][i];
            fprintf(to, "  plan %u lane %u: %s %s of %u, communicator %u, %u:%u to %u:%u%s, %s, %u to %u\n",
                    k, s->lane, rota_dtype_name(s->dtype), kind_names[s->kind], s->count, s->communicator,
                    s->x, s->x_first, s->y, s->y_first, s->is_part ? " (a part of it)" : "",
                    reduction_names[s->reduction], s->from, s->to);
        }
    fprintf(to, "  submitted:");
    for (uint32_t i = 0; i < p->submit_count; i++) fprintf(to, " %u", p->submits[i]);
    fprintf(to, "\n");
    if (p->fault)
        fprintf(to, "  fault: rank %u, communicator %u, plan %u, step %u, submission %u\n", p->fault_rank,
                p->fault_communicator, p->fault_plan, p->fault_step, p->fault_submit);
}

/* ---- What it comes to ---- */

static float as_float(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint32_t as_word(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

bool random_same(rota_dtype dtype, uint32_t a, uint32_t b) {
    return a == b || (dtype == ROTA_F32 && isnan(as_float(a)) && isnan(as_float(b)));
}

/* Not inlined, so that a kernel's is rounded as the reference's is. */
__attribute__((noinline)) uint32_t random_local(rota_dtype dtype, uint32_t word, uint32_t rank,
                                                uint32_t index) {
    if (dtype != ROTA_F32) return word * 2654435761u + rank * 7u + index;
    const float added = (float)(rank + 1) * 0.37f + (float)(index % 11) * 0.01f;
    const float value = as_float(word) * 0.3f + added;
    return as_word(fabsf(value) < 1e4f ? value : added);
}

static float combine_floats(rota_collective_reduction reduction, float a, float b) {
    if (isnan(a) || isnan(b)) return NAN;
    switch (reduction) {
    case ROTA_COLLECTIVE_MAX:
        return b > a ? b : a;
    case ROTA_COLLECTIVE_MIN:
        return b < a ? b : a;
    case ROTA_COLLECTIVE_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

static uint32_t combine(rota_dtype dtype, rota_collective_reduction reduction, uint32_t a, uint32_t b) {
    const bool is_signed = dtype == ROTA_I32, b_is_more = is_signed ? (int32_t)b > (int32_t)a : b > a;
    if (dtype == ROTA_F32) return as_word(combine_floats(reduction, as_float(a), as_float(b)));
    switch (reduction) {
    case ROTA_COLLECTIVE_MAX:
        return b_is_more ? b : a;
    case ROTA_COLLECTIVE_MIN:
        return b_is_more ? a : b;
    case ROTA_COLLECTIVE_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

static uint32_t *words_of(const random_program *p, uint32_t *words, uint32_t rank, uint32_t buffer) {
    return words + ((size_t)rank * RANDOM_BUFFERS + buffer) * p->elements;
}

/* Element i of all members' x, in ascending order of ranks. */
static uint32_t reduced(const random_program *p, const random_step *s, const random_group *g, uint32_t *words,
                        uint32_t i) {
    uint32_t word = words_of(p, words, g->members[0], s->x)[s->x_first + i];
    for (uint32_t k = 1; k < g->size; k++)
        word = combine(s->dtype, s->reduction, word, words_of(p, words, g->members[k], s->x)[s->x_first + i]);
    if (s->dtype == ROTA_F32 && s->reduction == ROTA_COLLECTIVE_MEAN)
        word = as_word(as_float(word) / (float)g->size);
    return word;
}

/* What a step leaves in y of member `own`, from what all had before; returns how many elements. */
static uint32_t result_of(const random_program *p, const random_step *s, const random_group *g, uint32_t own,
                          uint32_t *words, uint32_t *out) {
    const uint32_t m = s->count;
    const uint32_t from = random_from(s, g), to = random_to(s, g);
    const uint32_t *x = words_of(p, words, g->members[own], s->x) + s->x_first;
    switch (s->kind) {
    case RANDOM_ALL_REDUCE:
        for (uint32_t i = 0; i < m; i++) out[i] = reduced(p, s, g, words, i);
        return m;
    case RANDOM_REDUCE_SCATTER:
        for (uint32_t i = 0; i < m; i++) out[i] = reduced(p, s, g, words, own * m + i);
        return m;
    case RANDOM_ALL_GATHER:
        for (uint32_t k = 0; k < g->size; k++)
            memcpy(out + (size_t)k * m, words_of(p, words, g->members[k], s->x) + random_x_first(s, k),
                   4 * (size_t)m);
        return m * g->size;
    case RANDOM_ALL_TO_ALL:
        for (uint32_t k = 0; k < g->size; k++)
            memcpy(out + (size_t)k * m,
                   words_of(p, words, g->members[k], s->x) + s->x_first + (size_t)own * m, 4 * (size_t)m);
        return m * g->size;
    case RANDOM_BROADCAST:
        memcpy(out, words_of(p, words, g->members[from], s->x) + s->x_first, 4 * (size_t)m);
        return m;
    case RANDOM_SEND:
        if (g->size == 1 || own != to) return 0;
        memcpy(out, words_of(p, words, g->members[from], s->x) + s->x_first, 4 * (size_t)m);
        return m;
    case RANDOM_LOCAL:
        for (uint32_t i = 0; i < m; i++) out[i] = random_local(s->dtype, x[i], g->members[own], i);
        return m;
    default:
        return 0;
    }
}

static void take_step(const random_program *p, const random_step *s, uint32_t *words, uint32_t *scratch) {
    uint32_t counts[RANDOM_RANKS_MOST];
    for (uint32_t r = 0; r < p->size; r++) {
        const random_group group = random_group_of(p, s->communicator, r);
        counts[r] = result_of(p, s, &group, group.rank, words, scratch + (size_t)r * p->elements);
    }
    for (uint32_t r = 0; r < p->size; r++) {
        const random_group group = random_group_of(p, s->communicator, r);
        memcpy(words_of(p, words, r, s->y) + random_y_first(s, group.rank), scratch + (size_t)r * p->elements,
               4 * (size_t)counts[r]);
    }
}

void random_program_begin(const random_program *p, uint32_t *out_words) {
    uint64_t state = p->seed + 99;
    for (uint32_t r = 0; r < p->size; r++)
        for (uint32_t b = 0; b < RANDOM_BUFFERS; b++)
            for (uint32_t i = 0; i < p->elements; i++) {
                const uint32_t word = (uint32_t)(test_random(&state) >> 32);
                words_of(p, out_words, r, b)[i] =
                    random_buffer_dtype(b) == ROTA_F32 ? as_word((float)word * 0x1p-28f - 8) : word;
            }
}

void random_program_end(const random_program *p, uint32_t *words) {
    uint32_t *scratch = malloc(4 * (size_t)p->size * p->elements);
    if (!scratch) abort();
    for (uint32_t i = 0; i < p->submit_count; i++)
        for (uint32_t k = 0; k < p->step_counts[p->submits[i]]; k++)
            take_step(p, &p->steps[p->submits[i]][k], words, scratch);
    free(scratch);
}
