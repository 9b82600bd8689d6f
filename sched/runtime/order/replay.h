/* Replays in a row, whose hazards are counted on: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_REPLAY_H
#define ROTA_SCHED_RUNTIME_ORDER_REPLAY_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/plans/executable.h"

/* Someone but the owner is about to look at the residency's ranges: brings their points up to date. */
void rota_replay_disown(rota_residency *residency);
/* The plan is going: nothing is owned by it any more. */
void rota_replay_release(rota_executable *executable);
/* A replay: `known` (asked before) means that its waits on the one before are noted. `base`, of
 * ROTA_DEVICES_MAX * ROTA_EXEC_QUEUES_MAX entries, carries the issued values from begin to end; begin returns
 * how many it set. */
bool rota_replay_is_known(const rota_executable *executable);
/* The next replay goes by other queues than the one before: it is resolved, and so is the one after it. */
void rota_replay_forget(rota_executable *executable);
/* What is bound to the plan's slots for the next replay, as its arguments have it: likewise if that is not what
 * it was. */
void rota_replay_bind(rota_executable *executable, const uint64_t *bound);
uint32_t rota_replay_begin(rota_sequencer *sequencer, rota_executable *executable, uint64_t *out_base);
/* Known: adds the noted waits of a segment to the wanted values. */
void rota_replay_want(rota_sequencer *sequencer, rota_wanted *wanted, const rota_executable *executable,
                      const uint64_t *base, uint32_t segment);
/* Known, of a plan of one segment, instead of begin, want and end: what its work comes after, of the work's own queue
 * alone, as that is where the replay before is; 0: nothing. */
uint64_t rota_replay_next_single(rota_sequencer *sequencer, rota_executable *executable,
                                 const rota_work *work);
/* Not known: whether this replay follows its like, so that what its segments want can be noted; and notes it,
 * with nothing but external accesses in the wanted values. *notes becomes false without memory. */
bool rota_replay_notes(const rota_executable *executable);
void rota_replay_note(rota_sequencer *sequencer, rota_wanted *wanted, rota_executable *executable,
                      const uint64_t *base, uint32_t segment, bool *notes);
/* True: the plan is to own (rota_replay_own) the residencies of all its externals. */
bool rota_replay_end(rota_sequencer *sequencer, rota_executable *executable, const uint64_t *base,
                     uint32_t timelines, bool known, bool noted, bool moves);
void rota_replay_own(rota_executable *executable, rota_residency *residency);

#endif
