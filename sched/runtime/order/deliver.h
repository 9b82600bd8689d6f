/* Delivery: host memory of the callers' that rota writes, the OUTPUTs of replays for one, is written in the
 * order of the submissions, range by range. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_DELIVER_H
#define ROTA_SCHED_RUNTIME_ORDER_DELIVER_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/delivery.h"

typedef struct rota_runtime rota_runtime;
typedef struct rota_sequencer rota_sequencer;
typedef struct rota_submission rota_submission;

typedef struct rota_deliveries {
    rota_host_range *root, *spare;
    uint32_t spare_count;
} rota_deliveries;

/* ---- The sequencer's ---- */

/* Before a replay is handed over: finds what comes before its OUTPUTs and has them come before what follows.
 * May make it end by delivery. False, with nothing changed: no host memory. O(log n) for each OUTPUT, with n
 * those of unfinished submissions. */
bool rota_deliver_outputs(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission);
/* The same for one piece of memory that the completer will write for the submission, which ends by delivery. */
bool rota_deliver_to(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                     const void *memory, uint64_t bytes);
/* As the works are made, in order: adds what a segment that writes host memory itself must wait for to the
 * wanted values. `*next` begins at 0. */
void rota_deliver_segment(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                          uint32_t segment, uint64_t point, uint32_t *next);
/* A submission of a kind that writes host memory ends without having been handed over: whether its ticket must wait all
 * the same, since what was submitted before will still write memory that it names. Needs no memory. */
bool rota_deliver_is_behind(rota_sequencer *sequencer, const rota_submission *submission);
/* If so: it takes its place. False, with nothing changed: no host memory for that. */
bool rota_deliver_nothing(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission);
/* Nothing more will be written for the submission: its ranges are nobody's. */
void rota_deliver_end(rota_sequencer *sequencer, rota_submission *submission);
void rota_deliveries_free(rota_sequencer *sequencer);

#endif
