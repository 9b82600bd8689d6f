/* Commands that decide: see vk_decide.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_DECIDE_H
#define ROTA_EXEC_VK_VK_DECIDE_H

#include "exec/exec.h"
#include "exec/vk/vk_pipeline.h"

typedef struct rota_vk_program rota_vk_program;
typedef struct rota_vk_recorded rota_vk_recorded;
typedef struct rota_vk_recording rota_vk_recording;
typedef struct rota_vk_dispatch rota_vk_dispatch;

/* Commands that one that decides may come to, all iterations and bodies together: they are recorded one after the
 * other. */
#define ROTA_VK_UNROLLED_MAX 16384u

/* What the decide shader leaves in an instance's block. */
typedef struct rota_vk_decision_words {
    uint32_t on[2];          /* by iteration, even and odd: 1 + the body that runs; 0: none */
    uint32_t count;          /* of FOR, read once */
    uint32_t begun;          /* iterations */
    uint32_t excess, failed; /* more iterations were wanted: the condition's value then */
    uint32_t over;           /* of the outermost one: something of it failed, and nothing more begins */
    uint32_t reserved;
} rota_vk_decision_words;
/* Of each command of a body: its groups, and those that it has in the iteration at hand. */
typedef struct rota_vk_decided_groups {
    uint32_t all[3], reserved, now[3], reserved_too;
} rota_vk_decided_groups;

/* Of vk_decide.comp, field by field. */
typedef struct rota_vk_decide_params {
    uint64_t words, outer, over, any_excess, table;
    uint32_t outer_value, kind, iteration, iterations_max, body, body_count, commands, has_index;
} rota_vk_decide_params;
extern const rota_kernel rota_vk_decide_kernel;

typedef struct rota_vk_decision {
    uint32_t command;
    uint32_t word; /* of rota_vk_decision_words, in the block */
    const rota_exec_conditional *conditional;
    rota_vk_program **bodies; /* body_count; NULL among them: nothing to run */
    const rota_vk_pipeline *pipeline;
} rota_vk_decision;

/* A program's, in the order of its commands. */
typedef struct rota_vk_decisions_of {
    rota_vk_decision *list;
    uint32_t count;
    uint32_t *first; /* segment_count + 1: which are each segment's; NULL where there are none */
} rota_vk_decisions_of;

/* UNSUPPORTED: more commands than there may be. OUT_OF_RANGE: a word that is in none of its operands. */
rota_status rota_vk_decide_check(const rota_exec_device *device, const rota_exec_command *command,
                                 const rota_exec_operand *operands);
/* Gives the program, and the bodies in it, their places behind the argument words of a block. */
void rota_vk_words_lay_out(rota_vk_program *program);
/* Before the first submission. */
void rota_vk_words_begin(rota_vk_recorded *recorded);
/* The command and all that its bodies may run. */
rota_status rota_vk_decide_record(rota_vk_recording *r, const rota_exec_command *command,
                                  const rota_vk_dispatch *dispatch);
/* Where the groups of a body's command are in the block, in bytes. */
uint64_t rota_vk_decided_offset(const rota_vk_program *body, uint32_t command);
/* Once a work of the segment has completed, by the completion thread: tells the host of what failed in it. */
void rota_vk_failures_report(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment,
                             void *cookie);

#endif
