/* Random programs of collectives: what every rank of some records and submits, and what comes of it, computed one step
 * after the other apart from rota. Each follows from its seed. */
#ifndef ROTA_TESTS_RANDOM_RANKS_H
#define ROTA_TESTS_RANDOM_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "exec/collective.h"
#include "ops/tensor.h"

enum {
    RANDOM_RANKS_MOST = 8,
    RANDOM_COMMUNICATORS_MOST = 3, /* the ranks' own, and splits of it */
    RANDOM_PLANS_MOST = 3,
    RANDOM_STEPS_MOST = 10, /* of a plan */
    RANDOM_SUBMITS_MOST = 12,
    RANDOM_BUFFERS = 4, /* of a rank: the first half f32, the others i32 and u32 */
    RANDOM_LANES = 2
};

typedef enum random_step_kind {
    RANDOM_ALL_REDUCE,
    RANDOM_REDUCE_SCATTER,
    RANDOM_ALL_GATHER,
    RANDOM_ALL_TO_ALL,
    RANDOM_BROADCAST,
    RANDOM_SEND,
    RANDOM_BARRIER,
    RANDOM_LOCAL, /* a kernel of each rank's */
    RANDOM_STEP_KIND_COUNT
} random_step_kind;

typedef struct random_step {
    random_step_kind kind;
    rota_dtype dtype;
    rota_collective_reduction reduction;
    uint32_t communicator;
    uint32_t from, to;         /* BROADCAST, SEND: taken modulo the group's size */
    uint32_t x, y;             /* buffers */
    uint32_t x_first, y_first; /* their elements from these on: random_x_first */
    bool is_part;   /* what has one part is the rank's of what has all: REDUCE_SCATTER, ALL_GATHER */
    uint32_t count; /* a rank's part */
    uint32_t lane;
} random_step;

/* The ranks of one communicator, as one of them sees it. */
typedef struct random_group {
    uint32_t size, rank;
    uint32_t members[RANDOM_RANKS_MOST]; /* in the program's numbers */
} random_group;

typedef enum random_fault {
    RANDOM_NO_FAULT,
    RANDOM_OTHER_STEP, /* one rank records another count in a step */
    RANDOM_ABORT,      /* one gives a communicator up */
    RANDOM_CLOSE,      /* or closes it */
    RANDOM_NODE_FAILS, /* a kernel of one rank's fails */
    RANDOM_CROSSES, /* one submits two plans in the other order, of which another rank has collectives, too */
    RANDOM_FAULT_COUNT
} random_fault;

typedef struct random_program {
    uint64_t seed;
    uint32_t size, communicator_count, plan_count, submit_count;
    uint32_t colors[RANDOM_COMMUNICATORS_MOST][RANDOM_RANKS_MOST],
        keys[RANDOM_COMMUNICATORS_MOST][RANDOM_RANKS_MOST];
    uint32_t step_counts[RANDOM_PLANS_MOST];
    random_step steps[RANDOM_PLANS_MOST][RANDOM_STEPS_MOST]; /* by lane, and so in record order */
    uint32_t submits[RANDOM_SUBMITS_MOST];                   /* plans */
    uint32_t elements;                                       /* of each buffer */
    random_fault fault;
    uint32_t fault_rank, fault_communicator, fault_plan, fault_step, fault_submit;
} random_program;

/* Counts are so many times as large: 1, or more for what goes another way where there is much. */
void random_program_draw(uint64_t seed, uint32_t size, bool with_faults, uint32_t count_factor,
                         random_program *out);
void random_program_print(const random_program *program, FILE *to);
const char *random_fault_name(random_fault fault);

/* Whether ranks a and b are both of a communicator with a collective of all its ranks in the plan. */
bool random_plan_is_shared(const random_program *program, uint32_t plan, uint32_t a, uint32_t b);
random_group random_group_of(const random_program *program, uint32_t communicator, uint32_t rank);
/* The ranks of a group that a SEND goes from and to; `from` is a BROADCAST's root, too. */
static inline uint32_t random_from(const random_step *step, const random_group *group) {
    return step->from % group->size;
}
static inline uint32_t random_to(const random_step *step, const random_group *group) {
    const uint32_t from = random_from(step, group), to = step->to % group->size;
    return to == from ? (from + 1) % group->size : to;
}

/* Where x and y begin on rank `rank` of a group. */
static inline uint32_t random_x_first(const random_step *step, uint32_t rank) {
    return step->x_first + (step->is_part && step->kind == RANDOM_ALL_GATHER ? rank * step->count : 0);
}
static inline uint32_t random_y_first(const random_step *step, uint32_t rank) {
    return step->y_first + (step->is_part && step->kind == RANDOM_REDUCE_SCATTER ? rank * step->count : 0);
}

/* The buffers of all ranks before: [rank][buffer][element] words of 4 bytes. */
void random_program_begin(const random_program *program, uint32_t *out_words);
/* And after all submissions. */
void random_program_end(const random_program *program, uint32_t *words);

/* What a LOCAL step makes of an element. */
uint32_t random_local(rota_dtype dtype, uint32_t word, uint32_t rank, uint32_t index);
/* Equal, but for the payload of what is not a number. */
bool random_same(rota_dtype dtype, uint32_t a, uint32_t b);

static inline rota_dtype random_buffer_dtype(uint32_t buffer) {
    return buffer < RANDOM_BUFFERS / 2 ? ROTA_F32 : ROTA_U32;
}

#endif
