/* Submissions: the sequencer's records of what is in flight. Data alone. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_SUBMISSION_H
#define ROTA_SCHED_RUNTIME_SHARED_SUBMISSION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/delivery.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/work.h"

typedef struct rota_unwritten rota_unwritten;

/* By whom a submission was cancelled. What of it has not begun is left out by who would begin it. */
typedef enum rota_cancelled_by {
    ROTA_CANCELLED_BY_NOBODY,
    ROTA_CANCELLED_BY_CALL,
    ROTA_CANCELLED_BY_DEADLINE
} rota_cancelled_by;

/* What the completer did with a submission that has outputs. */
typedef enum rota_delivery_done {
    ROTA_DELIVERY_PENDING,
    ROTA_DELIVERY_COPIED,
    ROTA_DELIVERY_LOST /* nothing: the device was lost before */
} rota_delivery_done;

/* What there was room for when it was last asked, beside migrations: as much again costs one look. 0: nothing. */
typedef struct rota_submission_room {
    uint16_t works, timelines;
    uint32_t payload;
} rota_submission_room;

/* What the sequencer makes of a record, in memory that is the submission's and used again. What every replay touches
 * comes first. */
typedef struct rota_submission_made {
    rota_work *works;
    rota_exec_wait *waits;
    uint64_t *payload;
    uint32_t work_count, wait_count, foreign_wait_count, migration_count;
    rota_submission_room room;
    uint64_t *foreign_waits;
    uint64_t
        *segment_points; /* payload-like scratch: value of each segment's work, where there are several */
    rota_migration *migrations;
    rota_unwritten *unwritten;
    uint32_t work_capacity, wait_capacity, foreign_wait_capacity, payload_capacity, segment_capacity,
        migration_capacity, unwritten_capacity;
} rota_submission_made;

/* What threads that have the submission share. */
typedef struct rota_submission_shared {
    _Atomic(const rota_cause *) cause; /* the first that it failed with */
} rota_submission_shared;

/* And what few have: with diagnostics, with inputs that are staged, with what is delivered. */
typedef struct rota_submission_told {
    uint64_t submitted_ns, sequenced_ns; /* the caller, and the sequencer */
    _Atomic uint64_t handed_over_ns;     /* submitters */
    _Atomic uint32_t inputs_left;        /* submitters */
    _Atomic uint32_t delivery_done;      /* rota_delivery_done, by the completer */
} rota_submission_told;

/* The completer's. */
typedef struct rota_output_turn {
    uint8_t *aside;           /* of the instance's staging memory, what is not to be delivered yet */
    bool is_reached, is_lost; /* whether the end was reached, if only by the loss of the device */
} rota_output_turn;

/* OUTPUTs, as the sequencer orders them; the completer reads it once it has the submission's completion. */
typedef struct rota_host_output {
    uint64_t before; /* outputs that the instance's staging memory must be free of first */
    uint32_t bounce_count, bounce_capacity;
    uint8_t *bounce; /* those that are written here first */
    uint64_t bounce_bytes;
    rota_bounce *bounces;               /* and where to */
    struct rota_completion *completion; /* the sequencer's, and from when it is pushed the completer's */
    rota_output_turn turn;
} rota_host_output;

/* The sequencer's, of a host's access. */
typedef struct rota_host_access {
    rota_host_write write;
    /* Counted in its `kept`, and so much in its `kept_bytes`; NULL: not. */
    rota_residency *pending_in;
    uint64_t kept_bytes;
    char name[64]; /* of the buffer that is read or written, which may go before the struct is read */
} rota_host_access;

/* Under failed.mutex, for rota_poison_undone: bit per lost device, and up to which of the works those that it
 * left are marked. */
typedef struct rota_submission_undone {
    uint64_t number; /* of the submission that the rest is of; another one's is nothing */
    uint64_t devices;
    uint32_t to;
} rota_submission_undone;

/* The sequencer's: rota_sequencer.undelivered_first. */
typedef struct rota_submission_links {
    rota_submission *before, *after;
} rota_submission_links;

/* The sequencer's: cancels.c, where it is in a heap. */
typedef struct rota_submission_deadline {
    uint64_t at_ns; /* of base's clock */
    rota_submission *child, *next,
        *before; /* before: the one whose `next` or, of a first one, `child` it is */
} rota_submission_deadline;

/* What few have, apart from what every replay touches. */
typedef struct rota_submission_seldom {
    rota_args *args;        /* with has_args */
    rota_stack_entry ended; /* on the way to the sequencer */
    rota_submission_undone undone;
    rota_submission_links undelivered;
    rota_submission_deadline deadline; /* with has_deadline */
    rota_external_wait
        after; /* with has_after; written before the works are handed over, but for its outcome */
} rota_submission_seldom;

/* A submission's struct lies in memory that stays a submission's until the runtime closes, and begins with a cache
 * line. What every replay touches are the first ROTA_SUBMISSION_HOT_BYTES: with many in flight each line is a
 * miss. What is no part with a name of its own is the sequencer's, settled before the point is published. */
struct rota_submission {
    rota_submission *next;     /* of its final timeline, or free */
    rota_submission *upcoming; /* some further in that list, or in one before: asked for, and not looked at */
    uint64_t final_point;
    _Atomic uint64_t pins; /* pins.c */
    uint64_t number;
    rota_plan *plan;
    rota_cell *cell;
    rota_cell_chunk *chunk; /* the cell's */
    rota_submission_shared shared;
    uint32_t instance;
    uint8_t kind;              /* rota_record_kind */
    _Atomic uint8_t cancelled; /* rota_cancelled_by: who has it pinned, or the sequencer (cancel.c) */
    bool by_delivery;          /* over when the completer has delivered it */
    bool has_after : 1;        /* comes after points of the application's that were not reached */
    bool sidelined : 1;        /* counted in the plan's `sidelined` */
    bool delivers : 1;         /* or is to: its delivery, output and told.delivery_done are of this use */
    bool has_args : 1;
    bool has_deadline : 1;
    rota_submission_made made;
    rota_host_read *read; /* NULL where it is none */
    rota_submission_told told;
    rota_host_output output;
    rota_delivery delivery;
    rota_host_access access;
    rota_submission_seldom seldom;
};
#define ROTA_SUBMISSION_HOT_BYTES 128
_Static_assert(offsetof(rota_submission, made.foreign_waits) == ROTA_SUBMISSION_HOT_BYTES,
               "what every replay touches is two cache lines");

#endif
