/* A queue's timeline, what is kept by it, and values that are published, asked for and waited for. Internal; not
 * installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_TIMELINE_H
#define ROTA_SCHED_RUNTIME_SHARED_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/sleep.h"
#include "exec/exec.h"
#include "sched/runtime.h"
#include "sched/runtime/shared/limits.h"

typedef struct rota_chain rota_chain;
typedef struct rota_external_wait rota_external_wait; /* external_timeline.h */
typedef struct rota_submission rota_submission;
typedef struct rota_end_times rota_end_times; /* end_times.c */

typedef struct rota_clock_entry {
    uint64_t from_value; /* what is below holds for this value and later ones */
    uint64_t *clock, *past;
} rota_clock_entry;

/* What lies where many others have been used since comes from memory, and from other cores: early enough if it is
 * asked for while some before it are worked on, which a list does not lead to. So each that is put in a list is noted
 * with the one that was put there so many before it. */
enum { ROTA_SUBMISSIONS_UPCOMING = 4 };
typedef struct rota_submission_trail {
    rota_submission *newest[ROTA_SUBMISSIONS_UPCOMING];
    uint32_t count;
} rota_submission_trail;

/* The sequencer's half of a timeline. */
typedef struct rota_timeline_order {
    /* What every later work of this queue is known to come after, by timeline; how that was; and submissions
     * whose last work is here, oldest first. */
    uint64_t *clock;
    uint64_t *past;   /* and what they come after if nothing is lost (clocks.c), once there are peers ... */
    uint64_t unknown; /* ... of works with later values than this */
    rota_submission *oldest, *newest;
    rota_submission_trail trail; /* of that list */
    uint64_t
        seen; /* a value that was reached, and others that were since need not be looked at: they are of other cores */
    /* For side_queues.c: the newest value whose work was to wait here, and what that is late for; the newest of a
     * work that is no copy, or whose end depends on several such; and the newest of a copy whose end depends
     * on those of one queue of its device, up to a value. */
    uint64_t sidelined, waiting_value;
    uint32_t waiting_for_plus_1; /* that one timeline, as an index over all devices; 0: several, or none */
    uint32_t behind_queue;
    uint64_t after_kernels, after_those, after_those_value;
    uint64_t
        crosses; /* the newest value whose work waits on the device for another one, or may come after one
                          that does */
    uint64_t made_for; /* the newest value whose work was to wait for an instance */
    rota_clock_entry history[ROTA_CLOCK_HISTORY];
    uint32_t history_next;
    uint64_t issued_at_loss;       /* how many there were when a device was seen to be lost (last_use.c) */
    rota_submission *orphan_after; /* of a lost device, the one that was looked at last; NULL: none of it */
    uint64_t goes_on; /* the newest whose work is gone on with: by no signal of its device's until then */
    uint64_t held;    /* the newest value that comes after points of the application's */
    uint64_t later;   /* and that comes when something elsewhere ends, or after such a one */
    const rota_external_wait *external; /* where that is all that the newest is late for; else NULL */
    uint64_t external_value;            /* whose it is: the newest's, or that of one which that is late for */
} rota_timeline_order;

/* The gate's, under its mutex (gate.c): what the executor reported; how many of the queue's works are in the
 * gate; and, while there are, up to where that is believed: to the one before the first of them. */
typedef struct rota_timeline_gate {
    uint64_t reported, gated, believed;
    uint64_t
        through; /* a lost device's newest value there that waits for nothing more (rota_gate_is_through) */
} rota_timeline_gate;

/* What all threads look at, by line: who reports writes the first, the sequencer and the submit thread the
 * second. */
typedef struct rota_timeline {
    _Alignas(64) _Atomic uint64_t completed; /* written by `advanced` */
    _Atomic uint64_t progress_ns;            /* about when, stored before it */
    _Atomic uint64_t holders;                /* bit per device whose submit thread sleeps for a value of it */
    rota_end_times *end_times;               /* when values were published; NULL without diagnostics */
    rota_wait_table waiters;
    _Alignas(64) _Atomic uint64_t issued; /* newest value given out; written by the sequencer */
    _Atomic uint64_t handed_over;         /* newest value that the executor was given */
    _Atomic uint64_t dropped; /* newest value that was to be given to it, and was not, since it is lost */
    rota_chain *chain;        /* the sequencer's, which others read, too */
    _Atomic uint64_t
        builders; /* the sequencer's: who makes instances for works that have not passed, by device */
    _Alignas(64) rota_timeline_order order; /* callers read what stands before, with each submission */
    _Alignas(64) rota_timeline_gate gate;
    /* Where devices wait for each other without the host (device_wait.c): the timeline as each of
     * them names it, before `linked` says so; whether one had to wait for it, so that works signal it from
     * now on; and the newest value whose signal the driver has. */
    rota_exec_timeline *shared[ROTA_DEVICES_MAX];
    _Atomic uint32_t awaited;
    _Atomic uint64_t signalled;
    _Atomic uint64_t
        blocked_for[ROTA_DEVICES_MAX]; /* by device of `holders`: from which value on to wake it */
    /* By device, its submit thread's: the newest value that the first of a queue there was blocked for, whether that
     * thread sleeps or not (blocked.c). */
    _Atomic uint64_t kept_for[ROTA_DEVICES_MAX];
} rota_timeline;

/* Whether the point's timeline has reached it. PASSED is true. */
bool rota_point_passed(rota_runtime *runtime, uint64_t point);
/* The queue's timeline has reached the value, and so everybody may know. */
void rota_device_publish(rota_device *device, uint32_t queue, uint64_t value);
void rota_device_wake_waiters(rota_device *device);
/* Submit threads that sleep until the timeline has the value, which was stored with seq_cst. */
void rota_device_wake_holders(rota_runtime *runtime, rota_timeline *timeline, uint64_t value);

#endif
