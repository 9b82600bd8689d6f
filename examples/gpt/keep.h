/* What a rank keeps of the training in its host's memory, to save it when another rank is lost: then what a step was to
 * write has failed, and can't be read any more. */
#ifndef ROTA_EXAMPLES_GPT_KEEP_H
#define ROTA_EXAMPLES_GPT_KEEP_H

#include "examples/gpt/checkpoint.h"
#include "examples/gpt/graph.h"

/* Parameters, the optimizer's state and how far it was, after a step. */
typedef struct gpt_kept {
    float *parts[GPT_PARTS]; /* the model's buffers; NULL: none yet */
    float scale[2];
    gpt_progress progress;
    rota_ticket tickets[GPT_PARTS + 1]; /* of the reads */
    uint32_t ticket_count;
    bool has_all; /* are all submitted */
} gpt_kept;

/* In turns: one is whole while others are read, of steps that are under way. */
#define GPT_KEPT_MOST (GPT_TURNS + 1)
typedef struct gpt_keeper {
    gpt_kept kept[GPT_KEPT_MOST];
    uint32_t count, next; /* two do where not each step is kept */
} gpt_keeper;

/* What this run has saved of itself, as this rank knows it. */
typedef struct gpt_saved {
    uint64_t found_step; /* of the checkpoint that was in the folder when it began; 0: none */
    uint64_t step;       /* that is there; 0: none */
    /* The same of one that another rank writes: it is there when a later step, which that rank takes part in when it is
     * through, is over. */
    uint64_t followed_step;
    uint64_t number; /* of one that the ranks write together just now; 0: none */
} gpt_saved;

/* The step of a checkpoint of this run's in the folder because of which one of `step` need not be written; 0: there is
 * none. What another rank wrote of that same step may be written again, and be the same. */
uint64_t gpt_saved_since(const gpt_saved *saved, const char *dir, uint64_t step);

/* Submits the reads of what the steps submitted so far leave, each `every` steps. Waits for nobody: where a device has
 * no room for them it is left out. Errors of rota_buffer_read_async; OUT_OF_MEMORY. */
rota_status gpt_keep(gpt_keeper *keeper, uint64_t every, const gpt_model *model,
                     const gpt_progress *progress);
/* The later one that is whole; NULL: there is none. Waits for their reads. */
const gpt_kept *gpt_keeper_latest(gpt_keeper *keeper);
void gpt_keeper_free(gpt_keeper *keeper);

#endif
