/* Programs' commands that decide (rota_exec_conditional): their bodies as programs; those that are counted; and which
 * have states. See cuda_decide.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_DECIDE_H
#define ROTA_EXEC_CUDA_CUDA_DECIDE_H

#include "exec/cuda/cuda_program.h"
#include "exec/cuda/decide_step.h"

typedef struct rota_cuda_device rota_cuda_device;

/* A command that decides; its form is ROTA_CUDA_DECISION. */
struct rota_cuda_decision {
    const rota_exec_conditional *desc;
    const rota_cuda_decision *outer; /* whose body it is in; NULL: it is the program's own */
    const rota_exec_program_desc *in;
    uint32_t node;              /* of `in` */
    uint32_t number;            /* of its state, in the outermost's */
    bool has_state;             /* it is in something that has loops or counts */
    rota_cuda_program **bodies; /* desc->body_count; NULL among them */
};

/* A counted command. */
struct rota_cuda_count {
    const rota_cuda_decision *outer; /* whose body it is in; NULL: it is the program's own */
    const rota_exec_program_desc *in;
    uint32_t node; /* of `in` */
    uint32_t max;
    uint64_t unit;            /* of what is counted: of a copy bytes, else 1 */
    uint32_t number;          /* in its root's records, above those of states */
    uint32_t word;            /* of the segment's block, which gets the count */
    uint32_t param_offset;    /* of the parameter that is taken from there */
    uint32_t items_per_group; /* of a kernel whose grid the device sets, unless it is in a body; else 0 */
};

/* An outermost one that is a loop, or has one or something counted in it; or a counted command that is in none. */
typedef struct rota_cuda_root {
    uint32_t command, node;
    uint32_t first_state;           /* of the segment's */
    uint32_t count;                 /* of its states */
    const rota_cuda_decision **all; /* by their numbers; of a counted command it is NULL */
    uint32_t counted_count;
    const rota_cuda_count **counted; /* by theirs */
    bool has_loop;
} rota_cuda_root;

/* Of a segment. */
typedef struct rota_cuda_roots {
    uint32_t count, state_count;
    bool decides; /* it has commands that do */
    rota_cuda_root *all;
} rota_cuda_roots;

/* Whether a body has commands: others of an if or switch are nothing to run. */
static inline bool rota_cuda_body_runs(const rota_cuda_program *body) {
    return body && body->desc->command_count != 0;
}

/* What a command decides by and numbers: which of these two are in slots, a bit each. */
uint32_t rota_cuda_decision_slots(const rota_exec_program_desc *desc, const rota_exec_command *command);
/* Its bodies, and the rest, are freed with the program. */
rota_status rota_cuda_decision_create(const rota_exec_program_desc *desc, const rota_exec_command *command,
                                      const rota_cuda_decision *outer, rota_cuda_decision **out_decision);

/* Freed with the program. `param_offset`: of the parameter that gets the count. */
rota_status rota_cuda_count_create(const rota_exec_program_desc *desc, const rota_exec_command *command,
                                   const rota_cuda_decision *outer, uint32_t param_offset,
                                   rota_cuda_count **out_count);

/* Once all commands of the program are made: finds the roots of its segments, and numbers what they hold; gives what is
 * counted its word.
 * OUT_OF_MEMORY. */
rota_status rota_cuda_roots_create(rota_cuda_program *program);
void rota_cuda_roots_free(rota_cuda_program *program);

/* What a root's record says of it (decide_step.h), which is not that nothing failed. */
void rota_cuda_root_describe(const rota_cuda_device *device, const rota_cuda_root *root,
                             const uint64_t *record, char *text, size_t text_bytes);

#endif
