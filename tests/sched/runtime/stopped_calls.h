/* The calls inside which test_stopped halts a thread, each in a situation that leads it to other marked
 * points. */
#ifndef ROTA_TESTS_STOPPED_CALLS_H
#define ROTA_TESTS_STOPPED_CALLS_H

#include "base/clock.h"
#include "sched/plan.h"
#include "sched/runtime.h"
#include "tests/adversary/adversary.h"

enum { STOPPED_WORDS = 64, STOPPED_PATIENCE_S = 20 };
#define STOPPED_PATIENCE_NS (STOPPED_PATIENCE_S * 1000000000ull)

/* What the halted thread and the others share; made anew for each round. */
typedef struct world {
    rota_runtime *runtime;
    rota_device *device;
    adversary_options adversary; /* of a second device that is lost in one situation */
    rota_buffer *shared, *ones;  /* every submission of `plan` adds 1 to each word of shared */
    rota_graph *graph;           /* open: all record into lanes of it */
    rota_plan *plan;
    rota_external_timeline *semaphore; /* NULL, or one that the others signal, too */
    rota_ticket cancelled;             /* none, or one that the others cancel, too */
} world;

/* The thread that is halted, and what it uses in its situation. */
typedef struct victim {
    world *w;
    rota_ticket ticket;
    rota_ticket well, failed; /* older than what cells remember */
    rota_recorder *recorder;
    rota_slot slot;
    rota_graph *graph;
    rota_buffer *buffer, *view, *slot_buffer;
    rota_plan *plan;
    rota_args *args;
    rota_external_timeline *timeline;
    uint32_t added, recorded; /* by the call: to the words of shared; nodes to the graph */
} victim;

/* All functions return ROTA_OK where the call did what it should in that situation. */
typedef struct situation {
    const char *name;
    rota_status (*set_up)(world *w);   /* by the main thread, before the victim starts; may be NULL */
    rota_status (*prepare)(victim *v); /* by the victim, before the call; may be NULL */
    rota_status (*call)(victim *v);
    /* By the main thread, once the victim is halted or has been in the call for RELEASE_AFTER_MS: ends what
     * keeps the call from returning. May be NULL. */
    rota_status (*release)(world *w);
} situation;

enum { RELEASE_AFTER_MS = 40 };

extern const situation situations[]; /* ends with a NULL name */

rota_status world_open(world *w);
rota_status world_close(world *w);
/* Records a node that adds 1 to each word of w->shared. */
rota_status world_record(world *w, rota_recorder *recorder, rota_node *out_node);
/* Signals w->semaphore with a lower value than the victim does, and sees that it is. */
rota_status world_signal(world *w);
/* Cancels w->cancelled, and sees that it ends so. */
rota_status world_cancel(world *w);
/* Runtimes with a device and a plan each, opened once. */
rota_status crowd_open(void);
rota_status crowd_close(void);
/* Drops what the victim has left. */
void victim_drop(victim *v);

#endif
