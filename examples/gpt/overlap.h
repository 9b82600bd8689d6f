/* How much of a step's communication was hidden behind its computation. */
#ifndef ROTA_EXAMPLES_GPT_OVERLAP_H
#define ROTA_EXAMPLES_GPT_OVERLAP_H

#include "rota.h"

/* Of one rank's step, by the times of its nodes. Communication: how long at least one of its collectives was under way,
 * from where it begins (what it reads is there, and its turn has come) to where its result is: what it waits for slower
 * ranks counts. Computation: how long at least one of its other nodes ran. Hidden: how long both did, so that what is
 * left of the communication is what the step would be shorter without. The share that is hidden is hidden_ns /
 * communication_ns. On fewer processors than ranks have workers, nodes run longer since they take turns, and more seems
 * hidden than is gained. */
typedef struct gpt_overlap {
    uint64_t computation_ns, communication_ns, hidden_ns;
} gpt_overlap;

/* Of the last replay of a plan of a runtime with diagnostics, whose host nodes are its collectives. Errors as of
 * rota_plan_command_times; OUT_OF_MEMORY. n log n in commands. */
rota_status gpt_overlap_of_plan(rota_plan *plan, gpt_overlap *out_overlap);
/* Of these times; both lists are sorted, and what overlaps in one becomes one. */
gpt_overlap gpt_overlap_of_times(rota_plan_time *computation, size_t computations,
                                 rota_plan_time *communication, size_t communications);

#endif
