/* Delivery: host memory of the callers' that rota writes, the OUTPUTs of replays for one, is written in the
 * order of the submissions, range by range. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_DELIVER_H
#define ROTA_SCHED_RUNTIME_ORDER_DELIVER_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/order/wanted.h"

typedef struct rota_runtime rota_runtime;
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
    /* The sequencer's; the completer reads it once it has the submission's job. */
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

typedef struct rota_deliveries {
    rota_host_range *root, *spare;
    uint32_t spare_count;
} rota_deliveries;

/* ---- The sequencer's ---- */

/* Of every new submission: it delivers nothing so far. */
void rota_deliver_begin(rota_submission *submission);
/* Before a replay is handed over: finds what comes before its OUTPUTs and has them come before what follows.
 * May make it a hosted one. False, with nothing changed: no host memory. O(log n) for each OUTPUT, with n
 * those of unfinished submissions. */
bool rota_deliver_outputs(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission);
/* The same for one piece of memory that the completer will write for the submission, which is hosted. */
bool rota_deliver_to(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                     const void *memory, uint64_t bytes);
/* As the works are made, in order: adds what a segment that writes host memory itself must wait for to the
 * wanted values. `*next` begins at 0. */
void rota_deliver_segment(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                          uint32_t segment, uint64_t point, uint32_t *next);
/* A submission of a kind that writes host memory ends without having been handed over: whether its ticket must wait all the same, since
 * what was submitted before will still write memory that it names. Needs no memory. */
bool rota_deliver_is_behind(rota_runtime *runtime, const rota_submission *submission);
/* If so: it takes its place. False, with nothing changed: no host memory for that. */
bool rota_deliver_nothing(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission);
/* Nothing more will be written for the submission: its ranges are nobody's. */
void rota_deliver_end(rota_runtime *runtime, rota_submission *submission);
void rota_deliveries_free(rota_runtime *runtime);

#endif
