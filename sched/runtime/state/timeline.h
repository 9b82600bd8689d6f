/* A queue's timeline, and what is kept by it. Data alone. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_STATE_TIMELINE_H
#define ROTA_SCHED_RUNTIME_STATE_TIMELINE_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/sleep.h"
#include "exec/exec.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/state/limits.h"

typedef struct rota_chain rota_chain;
typedef struct rota_submission rota_submission;

typedef struct rota_clock_entry {
    uint64_t from_value; /* the clock below holds for this value and later ones */
    uint64_t *clock;
} rota_clock_entry;

typedef struct rota_stamps rota_stamps; /* end_times.c */

struct rota_timeline {
    _Alignas(64) _Atomic uint64_t completed; /* written by `advanced` */
    _Atomic uint64_t progress_ns;            /* when, stored before it */
    _Atomic uint64_t holders;                /* bit per device whose submit thread sleeps for a value of it */
    rota_stamps *stamps;                     /* when values were published; NULL without diagnostics */
    rota_wait_table waiters;
    _Alignas(64) _Atomic uint64_t issued; /* newest value given out; written by the sequencer */
    _Atomic uint64_t handed_over;         /* newest value that the executor was given */
    _Atomic uint64_t dropped; /* newest value that was to be given to it, and was not, since it is lost */
    /* The sequencer's: what every later work of this queue is known to come after, by timeline; how that was;
     * and submissions whose last work is here, oldest first. */
    uint64_t *clock;
    rota_chain *chain; /* which others read, too */
    rota_clock_entry history[ROTA_CLOCK_HISTORY];
    uint32_t history_next;
    rota_submission *oldest, *newest;
    uint64_t issued_at_loss;       /* how many there were when a device was seen to be lost (last_use.c) */
    rota_submission *strand_after; /* of a lost device, the one that was looked at last; NULL: none of it */
    /* The sequencer's, for sidings.c: the newest value whose work was to wait here, and what that is late
     * for; the newest of a work that is no copy, or whose end depends on several such; and the newest of a
     * copy whose end depends on those of one queue of its device, up to a value. */
    uint64_t parked, late_value;
    uint32_t late_for_plus_1; /* that one timeline, as an index over all devices; 0: several, or none */
    uint32_t behind_queue;
    uint64_t risky, behind, behind_value;
    /* The newest value whose work waits on the device for another one, or may come after one that does; the
     * sequencer's. */
    uint64_t crosses;
    /* The newest value whose work was to wait for an instance, the sequencer's; and who makes such, by
     * device, for works that have not passed. */
    uint64_t made_for;
    _Atomic uint64_t makers;
    /* Where devices of one GPU wait for each other without the host (device_wait.c): the timeline as each of
     * them names it, before `linked` says so; whether one had to wait for it, so that works signal it from
     * now on; and the newest value whose signal the driver has. */
    rota_exec_timeline *shared[ROTA_DEVICES_MAX];
    _Atomic uint32_t awaited;
    _Atomic uint64_t signalled;
    /* Under the gate's mutex (gate.c): what the executor reported; how many of the queue's works are in the
     * gate; and, while there are, up to where that is believed: to the one before the first of them. */
    uint64_t reported, gated, believed;
    uint64_t
        through; /* a lost device's newest value there that waits for nothing more (rota_gate_is_through) */
    _Atomic uint64_t held_for[ROTA_DEVICES_MAX]; /* by device of `holders`: from which value on to wake it */
};

#endif
