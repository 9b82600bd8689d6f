/* Which bytes failed, with the first cause. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_FAILED_RANGES_H
#define ROTA_SCHED_RUNTIME_SHARED_FAILED_RANGES_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/marks.h"

/* ---- By callers that hold failed.mutex ---- */

/* Bytes of a root buffer, in whatever memory. */
static inline rota_memory_range rota_memory_range_of_buffer(const rota_buffer *root, uint64_t begin,
                                                            uint64_t end) {
    return (rota_memory_range){root, 0, 0, begin, end, ROTA_COPIES_ALL};
}
/* `early`: the turn has not come, so older marks stay. */
void rota_failed_ranges_mark(rota_runtime *runtime, const rota_memory_range *where, rota_moment turn,
                             rota_reason reason, bool early);
/* Whether something of the range failed up to and with that turn. */
bool rota_failed_ranges_find(rota_runtime *runtime, const rota_memory_range *where, rota_moment up_to,
                             rota_reason *out_reason);
/* Removes the range from all marks up to that turn. */
void rota_failed_ranges_heal(rota_runtime *runtime, const rota_memory_range *where, rota_moment up_to);
/* The same of those before the submission of that number, which was cancelled and has ended; what of the range is
 * marked by itself has their causes, as that failed for them first, but where they were cancelled, too. */
void rota_failed_ranges_heal_with_causes(rota_runtime *runtime, const rota_memory_range *where,
                                         uint64_t number);
/* The bytes of one range are moved to another of that size: they are as good or bad there. */
void rota_failed_ranges_carry(rota_runtime *runtime, const rota_memory_range *from,
                              const rota_memory_range *to, rota_moment turn);
/* Frees marks that were taken out, a list by `left`. */
void rota_failed_ranges_remove(rota_runtime *runtime, rota_mark *list);

/* ---- Which take it ---- */

/* The sequencer's: a submission that will not run should have written the range. No unfinished one is older
 * than `oldest`. */
void rota_poison_mark(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                      uint64_t number, rota_reason reason, uint64_t oldest);
/* Whether any copy of the range failed before that submission. */
bool rota_poison_find(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                      uint64_t before_number, rota_reason *out_reason);
/* Those of the copies in which something of the range failed. */
rota_copies rota_poison_copies(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                               rota_copies copies);
/* Nothing reads or writes the buffer, or the submission's own memory, any more: its marks go. */
void rota_poison_drop(rota_runtime *runtime, const void *of);

/* ---- Closing, which alone has the runtime ---- */

void rota_poison_all_free(rota_runtime *runtime);

#endif
