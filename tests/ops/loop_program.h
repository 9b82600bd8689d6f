/* Small programs of loops and choices for tests of gradients: recorded as nodes that decide, recorded unrolled, and
 * computed in f64. */
#ifndef ROTA_TESTS_LOOP_PROGRAM_H
#define ROTA_TESTS_LOOP_PROGRAM_H

#include "tests/ops/gradient_kit.h"

enum {
    LOOP_STATES = 3,
    LOOP_PARAMETERS = 2,
    LOOP_OPERANDS = LOOP_STATES + LOOP_PARAMETERS,
    LOOP_STEPS_MAX = 6
};

/* Operands: states, then parameters. */
typedef enum loop_step_kind {
    LOOP_MUL,  /* to = a * b */
    LOOP_MIX,  /* to = tanh(a + b), by a temporary */
    LOOP_SINE, /* to = sin(a) */
    LOOP_MEAN, /* to = (a + b) / 2, whose gradient reads neither */
    LOOP_HALF, /* the first half of to = 0.5 * that of a */
    LOOP_OPS,
    LOOP_FOR = LOOP_OPS, /* as often as `value` says, or as the loop around it has begun an iteration */
    LOOP_WHILE,          /* `value` times, counted down in its body */
    LOOP_IF,             /* bodies[0] if the value is not 0, else bodies[1] */
    LOOP_SWITCH,         /* bodies[value], or nothing */
    LOOP_KINDS
} loop_step_kind;

typedef struct loop_steps loop_steps;
typedef struct loop_step {
    loop_step_kind kind;
    uint32_t to, a, b;
    uint32_t
        value; /* of this program; with `by_index`: the iteration's number of the innermost for around it */
    bool by_index;
    uint32_t max;
    loop_steps *bodies[2]; /* NULL: nothing */
} loop_step;

struct loop_steps {
    uint32_t count;
    loop_step steps[LOOP_STEPS_MAX];
};

typedef enum loop_way { LOOP_NODES, LOOP_UNROLLED } loop_way;

enum { LOOP_RESULTS = LOOP_PARAMETERS * N + LOOP_STATES * N + 1 };
/* The gradients of parameters and of the states' first values, then the loss. */
void loop_program_run(const loop_steps *program, loop_way way, const float *values, float out[LOOP_RESULTS]);
/* values: of states, then of parameters. */
double loop_program_loss(const loop_steps *program, const double *values);

/* Any program of at most this depth. */
loop_steps *loop_program_draw(uint64_t *random, uint32_t depth);
void loop_program_free(loop_steps *program);
/* What it is, for messages. */
void loop_program_print(const loop_steps *program, uint32_t indent);

#endif
