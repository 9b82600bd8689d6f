/* What a submission's end waits for, and when that last got on: default deadlines count from there, so that
 * nothing else that goes on in the runtime can make a wait endless. Internal; not installed.
 *
 * A point's *chain* is the point itself and the newest value of each other timeline that a work up to the
 * point waits for, directly or through works that it waits for. The sequencer notes it for each work that
 * waits for another timeline; whoever waits takes it once and then watches those timelines, each only up to
 * its value. Where works of those are not with their devices since instances are made, it watches who makes
 * them, up to the newest that was asked for. Such a wait is finite: every progress that counts is one of the
 * values in the chain, or a step of one of those instances. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_PROGRESS_H
#define ROTA_SCHED_RUNTIME_SHARED_PROGRESS_H

#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/point.h"

/* A timeline's newest entries. For a value before all that are left the oldest of them stands, whose points
 * later works wanted, too. */
typedef struct rota_chain rota_chain;

/* With room for so many timelines in each entry; NULL: no host memory. */
rota_chain *rota_chain_create(uint32_t timelines);
void rota_chain_destroy(rota_chain *chain);

typedef struct rota_watched {
    uint64_t point, completed;
} rota_watched;

/* Watching a chain: a waiting call's own. */
typedef struct rota_progress {
    rota_runtime *runtime;
    uint64_t since_ns; /* of the last progress seen, at first when the watching began */
    uint32_t count;
    uint64_t builders; /* bit per device whose builder is watched, up to `made` instances */
    uint64_t made[ROTA_DEVICES_MAX];
    rota_watched watched[ROTA_TIMELINES_MAX];
} rota_progress;

/* Lock-free. From now on, nothing watched yet. */
void rota_progress_begin(rota_progress *progress, rota_runtime *runtime);
/* Watches one more point, with its chain. Lock-free. */
void rota_progress_watch_chain(rota_progress *progress, uint64_t point);
/* Watches points whose chains are among them. Lock-free. */
void rota_progress_watch_points(rota_progress *progress, const uint64_t *points, uint32_t count);
/* All that a device was given so far, chains aside: whether the device is alive. Lock-free. */
void rota_progress_watch_device(rota_progress *progress, const rota_device *device);
/* Looks again; when what is watched last got on. Lock-free. */
uint64_t rota_progress_look(rota_progress *progress);

#endif
