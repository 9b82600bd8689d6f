/* Submissions' structs, used again: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SEQUENCER_SUBMISSION_POOL_H
#define ROTA_SCHED_RUNTIME_SEQUENCER_SUBMISSION_POOL_H

#include "sched/runtime/order/order.h"
#include "sched/runtime/shared/submission.h"

struct rota_submission_pool {
    /* Those that can be used again; those of which the memory that they own was given back; how many the
     * former are, and the fewest that they were since the last look. */
    rota_submission *unused, *bare;
    uint32_t unused_count, unused_fewest;
    rota_submission_trail trail;    /* of the first */
    rota_submission *pinned;        /* over, but a thread's message is being made of each */
    rota_submission without_memory; /* for one that fails since there was none for its record */
};

static inline void rota_submission_fetch(const rota_submission *submission) {
    const unsigned char *bytes = (const unsigned char *)submission;
    if (bytes)
        for (size_t offset = 0; offset < ROTA_SUBMISSION_HOT_BYTES; offset += 64) ra_prefetch(bytes + offset);
}

/* It comes into a list: at its end, or as its first. */
static inline void rota_submission_put_on(rota_submission_trail *trail, rota_submission *submission,
                                          bool is_last) {
    rota_submission **entry = &trail->newest[trail->count++ % ROTA_SUBMISSIONS_UPCOMING], *before = *entry;
    *entry = submission;
    if (!is_last)
        submission->upcoming = before;
    else if (before)
        before->upcoming = submission;
}

/* One to be used; its fields are those of its last use. NULL: no host memory. */
rota_submission *rota_submission_take(rota_sequencer *sequencer);
/* No device and no completer has the submission any more: it is used again once no thread reads it. */
void rota_submission_let_go(rota_sequencer *sequencer, rota_submission *submission);
/* Those that were let go and that no thread reads any more. */
void rota_submissions_forget_unpinned(rota_sequencer *sequencer);
/* Gives back what free ones own, where nobody needed them since the last look. */
void rota_submissions_trim(rota_sequencer *sequencer);
/* Closing. */
void rota_submission_free(rota_submission *submission);

#endif
