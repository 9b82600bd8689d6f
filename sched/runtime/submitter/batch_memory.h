/* Staging memory for works that are about to go over. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_BATCH_MEMORY_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_BATCH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/devices.h"

typedef struct rota_submitter rota_submitter; /* submitter.h */

/* Of a batch, by work: the staging memory that it needs and has not, that which was made for it, and why none was. */
typedef struct rota_batch_memory {
    uint32_t count; /* of works */
    uint32_t ready; /* so many of them, the first, have theirs or are to fail; the next one starves */
    bool is_needed;
    rota_need needs[ROTA_HANDOVER_BATCH];
    rota_staging *spans[ROTA_HANDOVER_BATCH];
    const rota_cause *causes[ROTA_HANDOVER_BATCH];
} rota_batch_memory;

/* What the works that the submitter took last need. */
void rota_batch_memory_ask(const rota_submitter *submitter, rota_batch_memory *memory);
/* Makes it, in the order of the works, up to the first one that is to be blocked for it: nowhere else is a driver asked
 * for memory of a work. It may take any time, and so may what a memory limit has given back before that. Of the works
 * nothing is changed, so another thread may have them meanwhile: then it is released, else given to them. */
void rota_batch_memory_make(rota_submitter *submitter, rota_batch_memory *memory);
void rota_batch_memory_give(const rota_batch_memory *memory);
void rota_batch_memory_release(const rota_batch_memory *memory);

/* Whether the work, the next of its queue, is still to be blocked for memory under the limit that is on its way back,
 * as it was when it was taken before. Only asks. */
bool rota_work_starves(rota_submitter *submitter, const rota_work *work);
/* Whether the work has all the memory that it needs, or can have it of what lies idle: lock-free. */
bool rota_work_take_memory(const rota_work *work);

#endif
