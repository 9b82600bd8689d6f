/* The adversarial executor: keeps exec/exec.h and no more. It runs lowered programs on host memory in one
 * thread, in an order drawn from a seed among everything that the contract allows: works of different queues,
 * and works of one queue without a wait between them, are interleaved command by command; commands of a batch
 * run in any order, a kernel's items in pieces; a command may read all it reads when it begins and write all
 * it writes when it ends, with others between; signals come late; memory is poisoned when it is made, before
 * a replay first touches its arena, and when it is destroyed. What it can check of the caller's side of the
 * contract it checks and reports.
 *
 * Faults are things a real device may do. Breaks switch off something that the contract promises, to prove
 * that a test would notice. */
#ifndef ROTA_TESTS_ADVERSARY_H
#define ROTA_TESTS_ADVERSARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/runtime.h"

#define ADVERSARY_ALL UINT32_MAX

typedef enum adversary_mode { ADVERSARY_EITHER, ADVERSARY_BATCHES, ADVERSARY_EDGES } adversary_mode;

/* When memory_destroy returns. */
typedef enum adversary_frees {
    ADVERSARY_FREES_AT_ONCE,
    ADVERSARY_FREES_AFTER_WORKS, /* when its device has nothing more to do, or is lost: as cuMemFree */
    ADVERSARY_FREES_NEVER        /* not before this is set to something else */
} adversary_frees;

/* Counted down from when they are set; 0: never. */
typedef struct adversary_faults {
    _Atomic uint32_t memory_fails_in;   /* that memory_create returns OUT_OF_MEMORY */
    _Atomic uint32_t import_fails_in;   /* that memory_import does */
    _Atomic uint32_t timeline_fails_in; /* that timeline_create does */
    _Atomic uint32_t submit_fails_in;   /* that work handed over is refused and the device lost */
    _Atomic uint32_t lost_in_works;     /* the device is lost when so many more works completed */
    _Atomic bool silent;                /* nothing runs and no timeline moves */
    _Atomic uint32_t frees;             /* adversary_frees */
    _Atomic uint64_t free_ns;           /* every memory_destroy takes at least this long */
    /* Not counted down: the instance_create of this number (instance_creations) and later ones do not return
     * before this is changed. */
    _Atomic uint32_t instances_stay_from;
    _Atomic uint64_t instance_ns;   /* every instance_create takes at least this long */
    _Atomic uint32_t submits_stay;  /* nor does submit of a device whose bit is set */
    _Atomic uint32_t memories_stay; /* nor memory_create of one, for staging memory that the host reads */
    _Atomic bool signals_stay;      /* nor the signal of a semaphore */
    bool keeps_adopted;             /* memory_return says that the device may still touch it */
    uint64_t slow_command_ns;       /* every piece of a command takes at least this long */
} adversary_faults;

typedef struct adversary_breaks {
    const char *program; /* only works and commands of the program of this name; NULL: of any */
    uint32_t wait; /* that wait, counted over the works as handed over (ADVERSARY_ALL: every), is not kept */
    /* That barrier (between two batches) or edge of the program, counted over the program, is not kept. */
    uint32_t barrier, edge;
    bool timeline_waits; /* waits for other devices are not kept */
    bool early_signal;   /* a work's value is reported as soon as it is handed over, of whatever program */
    bool stray_writes;   /* the first written operand of a kernel goes to other memory */
    bool stale_block;    /* commands see the argument block of the submission before */
    bool mute_failures;  /* nobody is told that a command failed */
    bool keep_objects;   /* programs and instances are not destroyed */
    bool iterations;     /* one may begin before the one before has ended */
    bool blind_counts;   /* counted commands run all that they may */
    bool deaf_loops;     /* whether one begins, once the first has, is not asked */
} adversary_breaks;

/* Belongs to the test, which may change seed, faults and breaks while the device is idle. Zeroed: seed 0,
 * nothing special. One per runtime. */
typedef struct adversary_options {
    _Atomic uint64_t seed;
    adversary_mode mode;
    adversary_faults faults;
    adversary_breaks breaks;
    bool
        counts_replays; /* works are not a runtime's, so that their cookies say nothing of their submission */
    bool unified_host;  /* offered as a capability; both are tested */
    bool no_host_nodes; /* host functions must go elsewhere */
    bool no_conditionals; /* and nodes that decide, and counted ones */
    bool submit_never_blocks;
    bool shares_memory; /* all devices say that they are one GPU */
    bool timelines;     /* and wait for each other; with shares_memory */
    bool peers; /* each device is another GPU, whose memory the others read; with timelines they wait, too */
    bool foreign; /* with shares_memory: one GPU with the CUDA stand-in's, which signals timelines too */
    uint64_t memory_bytes;         /* what devices say that they have; 0: 4 GiB */
    uint64_t max_allocation_bytes; /* 0: 1 GiB */
    uint64_t quiet_ns; /* gathers works until none came for so long; 0: 60 us. Most interleaving, and the same
                          from one run to the next */
    bool trace;        /* prints every command and signal */
    /* Called first when works are handed over, by every thread that does: the sequencer, where submit never
     * blocks. May be NULL. */
    void (*_Atomic on_submit)(void *user, uint32_t device);
    void *on_submit_user;
    /* Written by the device. */
    _Atomic uint32_t violations;         /* of the contract, by the caller */
    char violation[256];                 /* the first one */
    _Atomic uint64_t imports;            /* of memory, from the other device */
    _Atomic uint64_t peer_copies;        /* works and commands that read memory of another device */
    _Atomic uint32_t closes;             /* that freed the device */
    _Atomic uint64_t acquires;           /* works that had to */
    _Atomic uint64_t timeline_waits;     /* for another device */
    _Atomic uint64_t signals;            /* of semaphores, begun */
    _Atomic uint64_t rescues;            /* calls of timeline_signal */
    _Atomic uint64_t frees_waiting;      /* threads that are in memory_destroy because of faults.frees */
    _Atomic uint32_t instance_creations; /* calls begun; the test may set it back */
    _Atomic uint64_t works, commands, waits,
        overlaps; /* overlaps: commands run while another work was also started */
    _Atomic uint64_t live_memories, live_programs, live_instances;
} adversary_options;

/* Devices "adversary", "adversary:1" and "adversary:2"; the runtime passes an adversary_options as `test`. */
extern const rota_exec_driver adversary_driver;

/* What the semaphore of a handle of such a device was signalled with last. */
uint64_t adversary_semaphore_value(const void *handle);

/* A runtime that knows the adversary's devices, with `queues` logical queues (0: the default). */
rota_status adversary_runtime_open(adversary_options *options, const rota_runtime_options *runtime_options,
                                   rota_runtime **out_runtime);

#endif
