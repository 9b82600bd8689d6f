/* What a submission delivers to memory of its caller's: ordered by the sequencer, brought by the completer.
 * Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_DELIVERY_H
#define ROTA_SCHED_RUNTIME_SHARED_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rota_submission rota_submission;
typedef struct rota_delivery rota_delivery;

/* Host memory [begin, end) and who writes it last of all so far. */
typedef struct rota_host_range {
    uint64_t begin, end;
    rota_delivery *owner;
    uint64_t point; /* of the work by which the owner's device writes it; NONE: the completer does */
    struct rota_host_range *next_own, *previous_own; /* of the owner's; next_own: also of spare ones */
    struct rota_host_range *left, *right;            /* a treap, by begin */
    uint32_t priority;
} rota_host_range;

/* One delivery that comes before another one, both the completer's. */
typedef struct rota_delivery_wait {
    rota_delivery *older;
    uint64_t number; /* of its submission: the struct may be another's by the time this is looked at */
    rota_delivery *waiter;
    struct rota_delivery_wait *next; /* of those that wait for the same */
} rota_delivery_wait;

/* What a submission delivers; part of it. */
struct rota_delivery {
    /* The sequencer's; the completer reads it once it has the submission's completion. */
    rota_submission *submission;
    uint64_t number;         /* the submission's, which no other one ever has */
    rota_host_range *ranges; /* that no later one has taken over */
    uint32_t wait_count, point_count, after_count, wait_capacity, point_capacity, after_capacity;
    rota_delivery_wait *waits; /* deliveries by the completer that come before */
    uint64_t *points;          /* and writes by devices, the newest of each queue */
    /* All that these come after, their chains and what deliveries before them come after among it: whoever
     * waits for the ticket watches it (progress.h), with the submission pinned. */
    uint64_t *after;
    uint64_t noted; /* scratch: number of the last one that found this one before it */
    /* The completer's. */
    uint64_t over;               /* number of the last submission that it was over for */
    rota_delivery_wait *waiters; /* whose turn comes after this */
    uint32_t left;               /* of `waits`: not over */
    bool is_due;                 /* nothing but its turn is missing */
};

/* An OUTPUT that its device writes into memory of rota's, since it is not its turn yet; the completer brings
 * it on. */
typedef struct rota_bounce {
    uint32_t transfer;
    uint64_t destination, size, offset; /* the last: in submission->bounce */
} rota_bounce;

#endif
