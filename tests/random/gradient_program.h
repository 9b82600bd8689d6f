/* Random programs of ops and gradients, for tests: what a program is, how one is drawn, what it must give (in
 * f64), and what rota gives. Memory is made of roots, which steps read and write by views of any strides;
 * calls of rota_backward stand among the steps. */
#ifndef ROTA_TESTS_GRADIENT_PROGRAM_H
#define ROTA_TESTS_GRADIENT_PROGRAM_H

#include <stddef.h>
#include "ops/table.h"
#include "rota.h"

enum {
    PROGRAM_ROOTS = 96,
    PROGRAM_ITEMS = 72,
    PROGRAM_CALLS = 4,
    PROGRAM_VALUES = 4096, /* of all roots */
    PROGRAM_VIEW = 144,    /* elements of a view */
    PROGRAM_LOSSES = 3,
    PROGRAM_PARAMS = 3,
    PROGRAM_SAMPLES = 24 /* elements of a parameter whose gradient is compared */
};
#define PROGRAM_NONE UINT32_MAX

/* A part of a root: `tensor` has no buffer, and its offset is in the root. root PROGRAM_NONE: an absent
 * operand, or an output that nobody reads. */
typedef struct program_view {
    uint32_t root;
    rota_tensor tensor;
} program_view;

typedef struct program_root {
    rota_dtype dtype;
    uint32_t count, base; /* values[base..base + count) */
    uint32_t made_by;     /* the item that makes it; PROGRAM_NONE: it has contents from the start */
    uint32_t classes;     /* of indices */
    bool written;         /* by something else than the item that makes it */
    bool hidden;          /* nothing reads it from now on */
    bool input;           /* an INPUT buffer itself, if it is not written */
    bool constant;        /* no parameter */
} program_root;

typedef enum program_kind {
    PROGRAM_OP, /* of the table */
    PROGRAM_CALL,
    PROGRAM_CONCAT,
    PROGRAM_PROD,
    PROGRAM_MSE,
    PROGRAM_L1,
    PROGRAM_HUBER,
    PROGRAM_GROUP_NORM,
    PROGRAM_ATTENTION, /* fewer heads of keys and values than of queries */
} program_kind;

typedef struct program_item {
    program_kind kind;
    const rota_op *op;
    rota_op_attributes attributes;
    uint32_t input_count, output_count;
    program_view in[ROTA_OP_INPUTS_MAX], out[ROTA_OP_OUTPUTS_MAX];
    bool made[ROTA_OP_OUTPUTS_MAX]; /* the output's root is made by the op */
    uint32_t call;
} program_item;

typedef struct program_call {
    uint32_t loss_count, param_count;
    program_view loss[PROGRAM_LOSSES], param[PROGRAM_PARAMS], grad[PROGRAM_PARAMS]; /* absent: to be made */
    bool keep, accumulate;
} program_call;

typedef struct program {
    uint32_t root_count, item_count, call_count, value_count;
    program_root roots[PROGRAM_ROOTS];
    program_item items[PROGRAM_ITEMS];
    program_call calls[PROGRAM_CALLS];
    double start[PROGRAM_VALUES]; /* what roots hold before the first step */
    rota_dtype dtype;             /* of most of it */
} program;

/* ---- Drawing ---- */

/* Where choices come from: a seed, or bytes until there are no more. */
typedef struct program_source {
    uint64_t random;
    const uint8_t *bytes; /* NULL: the seed */
    size_t left;
    bool dry;
} program_source;

void program_draw(program *p, program_source *source);
/* To stderr. */
void program_print(const program *p);

/* The elements of a view, in row-major order; their bytes in the root. */
uint32_t program_count(const program_view *view);
uint64_t program_begin(const program_view *view);
uint64_t program_end(const program_view *view);
/* Every element lies at a place of its own. */
bool program_view_is_injective(const program_view *view);

/* ---- In f64 ---- */

void program_read(const program *p, const program_view *view, const double *values, double *out);
/* Runs an item; `after`: what a run before left, which items that stop gradients repeat. NULL: there was
 * none. */
void program_step(const program *p, uint32_t item, double *values, const double *after);
/* Whether an item's results are finite, of moderate size, and its operands away from where it has no
 * derivative. */
bool program_step_is_smooth(const program *p, uint32_t item, const double *before, const double *after);
/* A number, rounded to a dtype. */
double program_round(rota_dtype dtype, double number);

/* Whether a call may be refused, as something that is saved is overwritten, or for a parameter of its that is
 * written, or in which views lie only partly. */
bool program_call_is_overwritten(const program *p, uint32_t call);
bool program_param_is_unsupported(const program *p, uint32_t call, uint32_t param);
/* Whether an item writes what the gradient of an item from `from` on, or its own, needs. */
bool program_item_overwrites(const program *p, uint32_t item, uint32_t from);

typedef struct program_expected {
    double values[PROGRAM_VALUES], bound_of_root[PROGRAM_ROOTS]; /* at the end */
    struct program_expected_gradient {
        uint32_t count;
        uint32_t element[PROGRAM_SAMPLES];
        double value[PROGRAM_SAMPLES], sum[PROGRAM_SAMPLES], bound; /* sum: with what it was added to */
    } gradient[PROGRAM_CALLS][PROGRAM_PARAMS];
    bool overwritten[PROGRAM_CALLS]; /* may be refused: something that is saved is overwritten; */
    bool unsupported[PROGRAM_CALLS]; /* parameters are written, or views lie partly in one */
    bool steep;                      /* too ill conditioned to be compared */
} program_expected;

void program_expect(const program *p, program_expected *out);

/* ---- On a device ---- */

typedef enum program_outcome { PROGRAM_GOOD, PROGRAM_REFUSED, PROGRAM_STEEP, PROGRAM_WRONG } program_outcome;

/* Records the program, runs it and compares all that it gives; `text` says what was wrong. */
program_outcome program_check(const program *p, rota_runtime *runtime, rota_device *device, bool certify,
                              char *text, size_t capacity);
/* Takes away what a program does not need to be wrong. */
void program_shrink(program *p, rota_runtime *runtime, rota_device *device);

#endif
