/* How much of what a runtime has at most, and at first. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_LIMITS_H
#define ROTA_SCHED_RUNTIME_SHARED_LIMITS_H

#include "exec/exec.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/shared/point.h"

#define ROTA_DRIVERS_MAX 8
/* Lanes are made in blocks: the first of so many, each later one of as many as there are before it. */
#define ROTA_LANES_FIRST 1024
#define ROTA_LANE_BLOCKS 8
#define ROTA_LANE_BITS 17
#define ROTA_LANES_MAX (1u << ROTA_LANE_BITS)
_Static_assert(ROTA_LANES_FIRST << (ROTA_LANE_BLOCKS - 1) == ROTA_LANES_MAX, "the blocks are all the lanes");
#define ROTA_LANE_RECORDS 256
#define ROTA_LANE_WORDS 32768
/* Of a plan. Half a ring, so that an empty one has room wherever it stands, less what the application's points and a
 * deadline may need behind (external_timeline.h). */
#define ROTA_PAYLOAD_WORDS_MAX (ROTA_LANE_WORDS / 2 - 35)
/* Works that a queue of a device may have unfinished before callers are told BUSY; and submissions of a plan
 * that wait on side queues. */
#define ROTA_DEVICE_BACKLOG 4096
/* Tickets of a lane are made in chunks, as many of which may be in use at once. */
#define ROTA_CHUNK_CELLS 512
#define ROTA_LANE_CHUNKS 1024
_Static_assert(ROTA_CHUNK_CELLS > ROTA_LANE_RECORDS, "see rota_lane_provide");
#define ROTA_SIDELINED_MAX 4096
/* And the host's reads and writes of a buffer that wait for more than copies. */
#define ROTA_KEPT_MAX 4096
/* Logical queues of a device beyond those that plans know (side_queues.c). */
#define ROTA_SIDINGS (ROTA_EXEC_QUEUES_MAX - ROTA_PLAN_QUEUES_MAX)
/* A plan's end queue (sched/plan/on_device.h) has a number beyond plans' queues; its works are on side queues. */
_Static_assert(ROTA_SIDINGS >= 1, "the highest queue of a plan is one that executors know");
#define ROTA_SETTLED_MAX 8
#define ROTA_CLOCK_HISTORY 8
#define ROTA_SPIN_NS 50000u
#define ROTA_POISON_RESERVE 16
#define ROTA_FAILURE_SPANS 256

#endif
