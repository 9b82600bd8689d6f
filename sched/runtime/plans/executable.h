/* What a plan needs to run. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_EXECUTABLE_H
#define ROTA_SCHED_RUNTIME_PLANS_EXECUTABLE_H

#include <stdatomic.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/plan.h"
#include "sched/plan/compiled.h"
#include "sched/plan/observers.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/released.h"

typedef struct rota_executable rota_executable;
typedef struct rota_instance rota_instance;
typedef struct rota_replay rota_replay;

typedef struct rota_executable_partition {
    rota_exec_program *program;
    rota_device *device;
    const rota_exec_command **by_node; /* commands sorted by node, made on first need under failed.mutex */
    uint64_t made_ns;                  /* what its part of the first instance took */
} rota_executable_partition;

typedef enum rota_building {
    ROTA_BUILDING_NONE,
    ROTA_BUILDING_ASKED, /* the builder has it, or will */
    ROTA_BUILDING_FAILED /* may be asked again */
} rota_building;

struct rota_instance {
    rota_executable *executable;
    rota_stack_entry asked; /* on the way to the builder */
    uint32_t arena;
    _Atomic uint32_t created;
    _Atomic uint32_t building; /* rota_building */
    /* Why it was last that it could not be made: from then on, though it is asked for again. */
    _Atomic(const rota_cause *) failure;
    rota_exec_instance **parts;      /* partition_count */
    rota_exec_memory ***memories;    /* [part][memory] */
    uint8_t **owned;                 /* [part][memory]: how it is let go (instances.c) */
    uint64_t last_point;             /* the sequencer's */
    uint64_t outputs_issued;         /* the sequencer's: replays whose outputs are in its staging memory */
    _Atomic uint64_t outputs_copied; /* and how many of them the completer is through with */
};

/* Host times of the last completed replay, as rota_plan_replay has them. */
typedef struct rota_plan_replay_times {
    uint64_t submitted_ns, sequenced_ns, handed_over_ns, completed_ns, number;
    rota_status status; /* with which it ended */
    bool
        was_alone; /* no other replay of the runtime was under way when it was submitted, of whatever length, nor was
                       it held */
} rota_plan_replay_times;

/* What a submission's payload is made of. */
typedef struct rota_executable_arguments {
    uint32_t
        payload_words; /* of a record: block, host pointers, and two words for each bound buffer: its root,
                          which its residency keeps, and its offset there (a view may be gone by then) */
    uint32_t needed_count;
    uint8_t *needed;        /* by payload word: must be set before a submission; what no node uses need not */
    uint64_t *no_arguments; /* the payload of a submission without arguments, where none are needed */
    uint32_t slot_buffer_count; /* those that nodes use */
    uint32_t *slot_buffers;     /* plan buffer of each bound-buffer entry */
    uint32_t *slot_of_buffer;   /* plan buffer to entry, ROTA_NONE */
} rota_executable_arguments;

typedef struct rota_executable_arenas {
    uint32_t count, memories;   /* arenas, and memories of each */
    rota_exec_memory ***memory; /* [arena][part * max + memory], flattened per part */
    uint32_t *base;             /* first index of each part in an arena's array */
} rota_executable_arenas;

/* The sequencer's. */
typedef struct rota_executable_order {
    uint32_t instance_count, next_instance;
    uint64_t *arena_points; /* last use of each arena: own_points, or those of the plan that lends it */
    uint64_t *own_points;
    uint64_t last_point;
    rota_replay *replay;
    uint64_t unreaped; /* submissions not recycled yet */
} rota_executable_order;

/* Of the last completed replay, under objects.times_mutex. */
typedef struct rota_executable_times_shared {
    rota_plan_replay_times replay;
    uint32_t instance;
} rota_executable_times_shared;

/* What is no part of its own is settled before the plan is given out, but for the list and `closed`, which
 * objects.mutex and close have. */
struct rota_executable {
    rota_released released;
    rota_executable *next, *previous; /* objects.executables */
    rota_plan *plan;
    bool closed;    /* the runtime is gone: only this struct is left */
    bool abandoned; /* a device that did not stop may touch the plan for ever */
    bool has_staging, has_arena, rotates, checks_external;
    bool ends_later;    /* a part of its does */
    bool stages_inputs; /* every input goes through staging memory */
    rota_observers observers;
    rota_executable_arguments arguments;
    uint32_t *direct; /* OUTPUT transfers that the device writes where the caller has them, by segment */
    uint32_t direct_count;
    uint64_t device_mask; /* bit per device */
    /* Submissions that were to wait and are not recycled yet; the sequencer's, and read by who submits: hence
     * here, apart from what changes with every replay. */
    _Atomic uint32_t sidelined;
    rota_executable_partition *partitions;
    rota_instance *instances;
    uint32_t instance_capacity;
    rota_executable_arenas arenas;
    rota_executable_order order;
    rota_executable_times_shared times;
};

/* Compile's last step: checks the memory limit, gives persistent buffers their memory, creates programs and
 * the first instance. On failure the plan is as before. */
rota_status rota_executable_create(rota_plan *plan);
/* All but the struct; the sequencer has let go of it before (rota_replay_release). */
void rota_executable_destroy(rota_executable *executable);

#endif
