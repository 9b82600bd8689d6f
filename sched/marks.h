/* Marks of failed ranges, found by place: a treap. Internal; not installed.
 *
 * A graph may leave as many marks as it has nodes, and each node that depends on one asks for those that
 * overlap what it reads. All calls but those that say otherwise take O(log n + marks that overlap). Not
 * synchronised: poison.c holds its mutex. */
#ifndef ROTA_SCHED_MARKS_H
#define ROTA_SCHED_MARKS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rota_cause rota_cause;

/* Bytes [begin, end) of a root buffer, or of the arena of a submission's part. */
typedef struct rota_place {
    const void *of;        /* root buffer or submission */
    uint32_t part, memory; /* arena only */
    uint64_t begin, end;
} rota_place;

typedef struct rota_mark {
    rota_place place;
    uint64_t number; /* of the submission that should have written it */
    const rota_cause *cause;
    struct rota_mark *left, *right; /* left: also the next of a list of marks taken out */
    uint64_t reach;                 /* the highest end in this subtree */
    uint32_t priority;
} rota_mark;

/* Puts a mark in whose place, number and cause are set. */
void rota_marks_put(rota_mark **root, rota_mark *mark);

/* Takes out what overlaps the place, of submissions up to `number`; a list by `left`. */
rota_mark *rota_marks_take(rota_mark **root, const rota_place *where, uint64_t number);

/* Takes out every mark of a buffer or submission; a list by `left`. */
rota_mark *rota_marks_take_of(rota_mark **root, const void *of);

/* Of the marks that overlap the place, the one of the oldest submission before `before`; NULL: none. */
const rota_mark *rota_marks_oldest(const rota_mark *root, const rota_place *where, uint64_t before);

/* Whether one mark of this submission covers all of the place. */
bool rota_marks_cover(const rota_mark *root, const rota_place *where, uint64_t number);

#endif
