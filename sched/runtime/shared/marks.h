/* Marks of failed ranges, found by range: a treap. Internal; not installed.
 *
 * A graph may leave as many marks as it has nodes, and each node that depends on one asks for those that
 * overlap what it reads. All calls but those that say otherwise take O(log n + marks that overlap). Thousands
 * of replays of one plan mark one range, a turn each: among marks that begin at one byte those of a turn,
 * and the oldest, are found in O(log n). Not synchronised: failed_ranges.c and
 * who calls that hold its mutex. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_MARKS_H
#define ROTA_SCHED_RUNTIME_SHARED_MARKS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rota_cause rota_cause;

/* Why something failed: the sentence, and the submission that it names (0: none). */
typedef struct rota_reason {
    const rota_cause *cause;
    uint64_t number;
} rota_reason;

/* A bit for each memory that a buffer may have. */
__extension__ typedef unsigned __int128 rota_copies;

/* Bytes [begin, end) of a root buffer, in some of the memories that hold copies of it, or of the arena of a
 * submission's part. */
typedef struct rota_memory_range {
    const void *of;        /* root buffer or submission */
    uint32_t part, memory; /* arena only */
    uint64_t begin, end;
    rota_copies copies; /* of a buffer: bits (rota_residency_bit); else ROTA_COPIES_ALL */
} rota_memory_range;
#define ROTA_COPIES_ALL (~(rota_copies)0)

/* A place in the one order: of a submission, and inside it of a segment (its index and 1), or 0 for what
 * comes before its segments and for submissions without. */
typedef struct rota_moment {
    uint64_t number;
    uint32_t step;
} rota_moment;

static inline bool rota_moment_is_before(rota_moment a, rota_moment b) {
    return a.number != b.number ? a.number < b.number : a.step < b.step;
}

typedef struct rota_mark {
    rota_memory_range range;
    rota_moment turn; /* of what should have written it */
    rota_reason reason;
    struct rota_mark *left, *right; /* left: also the next of a list of marks taken out */
    uint64_t reach;                 /* the highest end in this subtree */
    rota_moment oldest, newest;     /* turns in this subtree */
    uint32_t priority;
} rota_mark;

/* Puts a mark in whose range, turn and reason are set. */
void rota_marks_put(rota_mark **root, rota_mark *mark);

/* Ranges overlap where both their bytes and their copies do. */

/* Takes out what overlaps the range, up to and with that turn; a list by `left`. */
rota_mark *rota_marks_take(rota_mark **root, const rota_memory_range *where, rota_moment up_to);

/* Takes out every mark of a buffer or submission; a list by `left`. */
rota_mark *rota_marks_take_of(rota_mark **root, const void *of);

/* Of the marks that overlap the range, up to and with that turn, the one of the oldest; NULL: none. */
const rota_mark *rota_marks_oldest(const rota_mark *root, const rota_memory_range *where, rota_moment up_to);

/* Whether one mark of this turn covers all of the range. */
bool rota_marks_cover(const rota_mark *root, const rota_memory_range *where, rota_moment turn);

#endif
