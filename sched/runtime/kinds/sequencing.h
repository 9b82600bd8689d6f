/* A record that is being sequenced, and what comes of it: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_SEQUENCING_H
#define ROTA_SCHED_RUNTIME_KINDS_SEQUENCING_H

#include "graph/buffer_internal.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"

typedef struct rota_sequencing {
    rota_runtime *runtime;
    rota_sequencer *sequencer;
    rota_wanted *wanted; /* empty but while a work, or a delivery, is being made */
    rota_submission *submission;
    void *object;          /* the record's */
    uint64_t *words;       /* its payload, where the caller left it */
    uint32_t after_words;  /* behind the plan's own: what it comes after outside; 0: nothing */
    uint64_t *own_payload; /* the submission's, which has `words` in its place; NULL where that has none */
    bool has_record;       /* false: there was no memory for the submission, which is one to fail */
    uint64_t final;        /* the point of its end */
    rota_status status;    /* why it failed; without a cause: there was no host memory */
    rota_reason reason;
} rota_sequencing;

typedef void (*rota_written_fn)(rota_runtime *runtime, const rota_submission *submission,
                                const rota_buffer *root, uint64_t begin, uint64_t end, void *user);

/* What a work needs of its device's staging memory: where it is noted, NULL: nothing. */
typedef struct rota_need {
    rota_staging **span;
    uint64_t size;
    uint32_t flags;
} rota_need;

#endif
