/* Commands that decide: see vk_decide.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_DECIDE_H
#define ROTA_EXEC_VK_VK_DECIDE_H

#include <stdbool.h>
#include "exec/exec.h"
#include "exec/vk/vk_pipeline.h"

typedef struct rota_vk_program rota_vk_program;
typedef struct rota_vk_recorded rota_vk_recorded;
typedef struct rota_vk_recording rota_vk_recording;
typedef struct rota_vk_dispatch rota_vk_dispatch;

/* What a turn of a command leaves to the next one. */
typedef struct rota_vk_turn {
    uint32_t
        on; /* 1 + the body whose commands are not over yet; 0: none, or the next turn begins an iteration */
    uint32_t fresh;  /* 1 + the body that began in this turn; 0: none */
    uint32_t live;   /* it has begun and is not over; or: */
    uint32_t active; /* it was live, or began, in the first of the turns that are recorded in a row */
    uint32_t count;  /* of FOR, read once */
    uint32_t reserved;
    uint64_t begun; /* iterations */
} rota_vk_turn;
/* Of an outermost command that is gone on with (vk_run.c): written by the host before its first turn. */
#define ROTA_VK_BEGINS 2u

/* What the decide shader leaves in an instance's block. */
typedef struct rota_vk_decision_words {
    rota_vk_turn turns[2];   /* even and odd, as they are recorded */
    uint32_t busy;           /* a command of its bodies is gone on with */
    uint32_t passed;         /* what stands behind it is on */
    uint32_t excess, failed; /* more iterations were wanted: the condition's value then */
    uint32_t
        over; /* of the outermost one: something of it failed, or the host ends it: nothing more begins */
    uint32_t reserved;
    uint64_t so_far; /* iterations begun: for the host */
} rota_vk_decision_words;
/* Of each command of a body: its groups, and those that it has in the iteration at hand. */
typedef struct rota_vk_decided_groups {
    uint32_t all[3], reserved, now[3], reserved_too;
} rota_vk_decided_groups;

/* Of vk_decide.comp, field by field. */
typedef struct rota_vk_decide_params {
    uint64_t words, outer, over, any_excess, table, outer_busy, iterations_max;
    uint32_t outer_value, kind, body, body_count, commands, flags;
} rota_vk_decide_params;
enum rota_vk_decide_flags {
    ROTA_VK_DECIDE_PARITY = 1,
    ROTA_VK_DECIDE_FIRST = 2,   /* of the turns that are recorded in a row */
    ROTA_VK_DECIDE_GOES_ON = 4, /* rota_vk_decision.goes_on */
    ROTA_VK_DECIDE_END = 8,     /* behind the last of them */
    ROTA_VK_DECIDE_HAS_INDEX = 16
};
extern const rota_kernel rota_vk_decide_kernel;

typedef struct rota_vk_decision {
    uint32_t command;
    uint32_t word;  /* of rota_vk_decision_words, in the block */
    uint32_t turns; /* recorded in a row: vk_turns.c */
    bool is_plain;  /* a loop of which each turn is an iteration: nothing in its bodies is gone on with */
    bool goes_on;   /* that may be too few: the next run of what is recorded goes on where it stands */
    uint64_t turn_commands; /* of one turn */
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

/* OUT_OF_RANGE: a word that is in none of its operands. */
rota_status rota_vk_decide_check(const rota_exec_command *command, const rota_exec_operand *operands);
/* Gives the program, and the bodies in it, their places behind the argument words of a block. */
void rota_vk_words_lay_out(rota_vk_program *program);
/* Before the first submission. */
void rota_vk_words_begin(rota_vk_recorded *recorded);
/* The segment is handed over anew: nothing of its commands that are gone on with has begun. By the submit thread, while
 * the instance is not in flight. */
void rota_vk_words_anew(rota_vk_recorded *recorded, uint32_t segment);
rota_vk_decision_words *rota_vk_words_of(const rota_vk_recorded *recorded, const rota_vk_decision *decision);
/* The command and all that its bodies run in the turns that are recorded. */
rota_status rota_vk_decide_record(rota_vk_recording *r, const rota_exec_command *command,
                                  const rota_vk_dispatch *dispatch);
/* Where the groups of a body's command are in the block, in bytes. */
uint64_t rota_vk_decided_offset(const rota_vk_program *body, uint32_t command);
/* Once a work of the segment has completed, by the completion thread: tells the host of what failed in it. */
void rota_vk_failures_report(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment,
                             void *cookie);

#endif
