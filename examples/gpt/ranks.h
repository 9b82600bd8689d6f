/* The ranks of a training: which of them this is, and what they tell one another beside their steps' graphs. */
#ifndef ROTA_EXAMPLES_GPT_RANKS_H
#define ROTA_EXAMPLES_GPT_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include "rota.h"

typedef struct gpt_ranks {
    rota_communicator *communicator; /* NULL: one rank, which none of what is below costs anything */
    uint32_t rank, size;             /* of one: 0, 1 */
    /* Where several ranks have one model together: these, and those that have the same part of it with other windows.
     * Else NULL and all. */
    rota_communicator *one_model, *one_part;
    uint32_t group, groups; /* which windows of a step are this rank's: of one 0, 1 */
    /* Of ranks in one process: one of them has said on standard error what ended the training. Else NULL. */
    atomic_bool *said;
} gpt_ranks;

/* Adds up values[0..count) of all ranks, in place; a value that one rank has, and of which the others have 0, comes to
 * all as it is. All ranks call it, between the same steps. May block for as long as the communicator may. */
rota_status gpt_ranks_sum(const gpt_ranks *ranks, rota_runtime *runtime, float *values, uint64_t count);
/* Of the ranks that have one model together (one_model is there) those that have not its first part have zeroes: what
 * all of them know counts once. */
void gpt_ranks_count_once(const gpt_ranks *ranks, float *values, uint64_t count);
/* Closes all communicators, which are then NULL; none is an error. */
rota_status gpt_ranks_close(gpt_ranks *ranks);
/* INVALID_ARGUMENT, with a sentence, on all ranks if the number is not the same on each; `what` says what it stands
 * for: "the text". */
rota_status gpt_ranks_agree(const gpt_ranks *ranks, rota_runtime *runtime, const char *what, uint64_t number);
/* What failed on this rank alone ends the training of all; they are told why. */
void gpt_ranks_give_up(const gpt_ranks *ranks, const char *why);

#endif
