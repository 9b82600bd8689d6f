/* What a kernel of one thread does between the iterations of a command that decides (rota_exec_conditional): it reads
 * what the command decides by, and says what the graph's conditional nodes run next; and what one does before a command
 * that is counted (rota_exec_command.is_counted): it reads the count. Compiled by nvcc for exec_decide.cu and
 * exec_helpers.cu, and by the C compiler for the tests' stand-in of the driver, which so run the same steps.
 *
 * An outermost command that has a loop or a count in it, or is a loop, has *states*: one for each command that decides
 * in it, its own first. So has one that is counted itself: one. They are in device memory, so that an iteration goes
 * nowhere else; the host hears of a failure by a *record* in pinned memory, of which each of the launches that may be
 * in flight has one, and says by `stop` which launch is to end.
 *
 * All outermost commands of a segment have a word together: the last launch in which one of them failed. All that the
 * segment writes has failed then, and of those that decide none begins any more: what a loop decides by may be what
 * that one did not write, and have it go on for ever. */
#ifndef ROTA_EXEC_CUDA_DECIDE_STEP_H
#define ROTA_EXEC_CUDA_DECIDE_STEP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ROTA_DECIDE_FN static __device__ __forceinline__
#define ROTA_DECIDE_EXCHANGE(to, value) atomicExch(to, value)
#define ROTA_DECIDE_FENCE() __threadfence_system()
#define ROTA_DECIDE_LOAD(type, from) (*(const volatile type *)(from))
#define ROTA_DECIDE_STORE(to, value) (*(volatile uint64_t *)(to) = (value))
#else
#define ROTA_DECIDE_FN static inline
#define ROTA_DECIDE_EXCHANGE(to, value) __atomic_exchange_n(to, value, __ATOMIC_RELAXED)
#define ROTA_DECIDE_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define ROTA_DECIDE_LOAD(type, from) __atomic_load_n((const type *)(from), __ATOMIC_RELAXED)
#define ROTA_DECIDE_STORE(to, value) __atomic_store_n(to, value, __ATOMIC_RELAXED)
#endif

typedef struct rota_decide_state {
    uint64_t begun;  /* iterations */
    uint64_t count;  /* of a for: how many it has */
    uint64_t launch; /* of an outermost one: which launch of its graph this is, from 1 */
    uint64_t stop;   /* of an outermost one, the host's: the launch in which nothing more is to begin */
    uint32_t over;   /* of an outermost one: nothing more begins */
    uint32_t reserved;
} rota_decide_state;

typedef enum rota_decide_kind {
    ROTA_DECIDE_IF,     /* handle 0: whether the value is not 0; handle 1, if it is one: whether it is 0 */
    ROTA_DECIDE_IF_NOT, /* handle 0: whether it is 0 */
    ROTA_DECIDE_SWITCH, /* handle 0: the value, or `chosen`, which is no body's number */
    ROTA_DECIDE_SWITCH_ONE, /* handle 0: whether it is `chosen` */
    ROTA_DECIDE_WHILE,      /* handle 0: whether a first iteration begins; _NEXT: a further one */
    ROTA_DECIDE_WHILE_NEXT,
    ROTA_DECIDE_FOR,
    ROTA_DECIDE_FOR_NEXT
} rota_decide_kind;

/* Of an outermost command, the same in all steps of what is in it. Addresses are of the device's, here and below; 0:
 * there is none. */
typedef struct rota_decide_root {
    uint64_t states;  /* rota_decide_state, `count` of them; 0: it has none */
    uint64_t records; /* pinned: `ring` of them, 8 * (1 + count) bytes each */
    uint64_t any;     /* pinned, the graph's: `ring` words, 1 where some record of that launch is written */
    uint64_t failed;  /* 8 bytes, the segment's */
    uint32_t count;
    uint32_t ring; /* a power of two */
} rota_decide_root;

typedef struct rota_decide_params {
    uint64_t
        handles[2]; /* of conditional nodes; where the host decides, addresses of 4 bytes of pinned memory */
    rota_decide_root root;
    uint64_t progress; /* pinned: gets how many iterations have begun */
    uint64_t halt;     /* not 0 there: nothing more begins on the device; where there are states */
    uint64_t iterations_max;
    uint32_t number; /* which of the states is the command's own */
    uint32_t chosen;
    uint32_t kind;   /* rota_decide_kind */
    uint32_t begins; /* a launch, with this step */
} rota_decide_params;

/* rota_args of rota_kernel.cuh for two operands. */
typedef struct rota_decide_args {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[2]; /* the 4 bytes that it decides by; those that get the iteration's number, or 0 */
    rota_decide_params params;
} rota_decide_args;

typedef struct rota_count_params {
    rota_decide_root root; /* with states */
    uint64_t word;         /* gets the count, in units; 0 where nothing is to run */
    uint64_t unit;         /* of a kernel 1, of a copy the bytes of one that is counted */
    uint64_t
        grid_node; /* of a kernel node whose grid is to be what the count needs (cuda_bodies.c); 0: none */
    uint32_t max;
    uint32_t number;                              /* in a record: as a state's, and above those of all */
    uint32_t begins;                              /* as above */
    uint32_t items_per_group, groups_y, groups_z; /* with grid_node */
} rota_count_params;

/* As rota_decide_args, for one operand: the count. */
typedef struct rota_count_args {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t operand;
    rota_count_params params;
} rota_count_args;

/* What a step says of its handles. */
typedef struct rota_decide_answer {
    uint32_t values[2];
} rota_decide_answer;

/* A record is of the first to fail: its number + 1, what it had read above it, and how many iterations all have
 * begun. */
ROTA_DECIDE_FN void rota_decide_fail(const rota_decide_root *root, uint32_t number, uint32_t value) {
    rota_decide_state *states = (rota_decide_state *)root->states;
    if (ROTA_DECIDE_EXCHANGE(&states->over, 1u) != 0) return;
    const uint64_t index = (states->launch - 1) & (root->ring - 1);
    uint64_t *record = (uint64_t *)root->records + index * (1 + (uint64_t)root->count);
    for (uint32_t i = 0; i < root->count; i++) ROTA_DECIDE_STORE(&record[1 + i], states[i].begun);
    ROTA_DECIDE_STORE(&record[0], (uint64_t)value << 32 | (number + 1));
    ROTA_DECIDE_STORE((uint64_t *)root->any + index, (uint64_t)1);
    ROTA_DECIDE_STORE((uint64_t *)root->failed, states->launch);
    ROTA_DECIDE_FENCE();
}

/* A launch. */
ROTA_DECIDE_FN void rota_decide_begin(rota_decide_state *root, bool is_over) {
    root->launch++;
    root->over = is_over;
}

/* Nothing more begins: of what has failed, or is to end in this launch. */
ROTA_DECIDE_FN bool rota_decide_is_over(const rota_decide_params *p, rota_decide_state *root) {
    const uint32_t over = ROTA_DECIDE_LOAD(uint32_t, &root->over);
    const uint64_t stop = ROTA_DECIDE_LOAD(uint64_t, &root->stop);
    const uint64_t halt = ROTA_DECIDE_LOAD(uint64_t, (uint64_t *)p->halt);
    if (over) return true;
    if (stop != root->launch && halt == 0) return false;
    (void)ROTA_DECIDE_EXCHANGE(&root->over, 1u);
    return true;
}

/* Everything that a step may need is read at once: each of the reads takes longer than all that is done with them. */
ROTA_DECIDE_FN rota_decide_answer rota_decide_loop(const rota_decide_params *p, rota_decide_state *states,
                                                   const uint32_t *condition, uint32_t *index) {
    rota_decide_state *own = states + p->number;
    const bool is_for = p->kind == ROTA_DECIDE_FOR || p->kind == ROTA_DECIDE_FOR_NEXT;
    const bool is_first = p->kind == ROTA_DECIDE_WHILE || p->kind == ROTA_DECIDE_FOR;
    const uint32_t value = *condition;
    const uint64_t begun = is_first ? 0 : own->begun, count = is_first ? value : own->count;
    const bool is_over = rota_decide_is_over(p, states);
    const bool is_due = is_for ? begun != count : value != 0;
    rota_decide_answer answer = {{0, 0}};
    own->begun = begun;
    own->count = count;
    /* Of a for all at once. */
    if (is_due && (is_for ? count : begun + 1) > p->iterations_max)
        rota_decide_fail(&p->root, p->number, value);
    else if (is_due && !is_over) {
        own->begun = begun + 1;
        if (index) *index = (uint32_t)begun;
        answer.values[0] = 1;
    }
    if (p->progress) ROTA_DECIDE_STORE((uint64_t *)p->progress, begun + answer.values[0]);
    return answer;
}

ROTA_DECIDE_FN rota_decide_answer rota_decide_step(const rota_decide_params *p, const uint32_t *condition,
                                                   uint32_t *index) {
    rota_decide_state *states = (rota_decide_state *)p->root.states;
    rota_decide_answer answer = {{0, 0}};
    if (p->begins)
        rota_decide_begin(states,
                          ROTA_DECIDE_LOAD(uint64_t, (uint64_t *)p->root.failed) == states->launch + 1);
    if (p->kind >= ROTA_DECIDE_WHILE) return rota_decide_loop(p, states, condition, index);
    if (p->kind == ROTA_DECIDE_SWITCH) answer.values[0] = p->chosen;
    if (states && rota_decide_is_over(p, states)) return answer;
    const uint32_t value = *condition;
    if (p->kind == ROTA_DECIDE_SWITCH && value < p->chosen) answer.values[0] = value;
    if (p->kind == ROTA_DECIDE_SWITCH_ONE) answer.values[0] = value == p->chosen;
    if (p->kind == ROTA_DECIDE_IF_NOT) answer.values[0] = value == 0;
    if (p->kind == ROTA_DECIDE_IF) answer.values[0] = value != 0;
    if (p->kind == ROTA_DECIDE_IF) answer.values[1] = value == 0;
    return answer;
}

/* In a body nothing of what is counted runs once something else of its outermost command has failed. Returns how many
 * there are then. */
ROTA_DECIDE_FN uint32_t rota_count_step(const rota_count_params *p, const uint32_t *count) {
    rota_decide_state *root = (rota_decide_state *)p->root.states;
    const uint32_t value = *count, over = p->begins ? 0 : ROTA_DECIDE_LOAD(uint32_t, &root->over);
    if (p->begins) rota_decide_begin(root, false);
    const uint32_t runs = over || value > p->max ? 0 : value;
    *(uint64_t *)p->word = runs * p->unit;
    if (!over && value > p->max) rota_decide_fail(&p->root, p->number, value);
    return runs;
}

/* Groups of so many; one where there is nothing to run, as no grid is empty: it finds that there is nothing. */
ROTA_DECIDE_FN uint32_t rota_count_groups(const rota_count_params *p, uint32_t count) {
    return count ? (count - 1) / p->items_per_group + 1 : 1;
}

#endif
