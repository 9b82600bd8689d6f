/* Inside of a plan: what compile makes and the runtime replays. Internal; not installed.
 *
 * The steps of the compiler fill everything here; the runtime reads it. Immutable after rota_compile but for
 * `references` and `run`. */
#ifndef ROTA_SCHED_PLAN_COMPILED_H
#define ROTA_SCHED_PLAN_COMPILED_H

#include "base/arena.h"
#include "exec/exec.h"
#include "sched/plan.h"
#include "sched/runtime.h"

#define ROTA_NONE UINT32_MAX

/* A root buffer that the plan touches. PERSISTENT ones are held by the plan; the others by its graph, which
 * it holds. */
typedef struct rota_plan_buffer {
    rota_buffer *buffer;
} rota_plan_buffer;

/* One memory of a part, an entry of the executor's memory table. */
typedef struct rota_plan_memory {
    uint8_t kind;        /* rota_exec_memory_kind */
    uint32_t buffer;     /* PERSISTENT: index in plan->buffers */
    uint64_t size_bytes; /* ARENA and STAGING: what to allocate */
    uint32_t flags;      /* rota_exec_memory_flags to allocate with */
    /* Memory of another part: that part and its index there; ROTA_NONE: own. STAGING (mirrors between a GPU
     * part and the CPU part) is seen through its host pointer, which is the wrapped memory's address here;
     * PERSISTENT and ARENA memory is shared between devices of one GPU; or, is_peer, that of another GPU's device,
     * which copies of this part read where it is. */
    uint32_t foreign_part, foreign_memory;
    bool is_peer;
} rota_plan_memory;

/* One device's share of the plan. */
typedef struct rota_partition {
    rota_device *device;              /* NULL in plans that are only analysed */
    rota_exec_program_desc desc;      /* desc.owner is this part */
    const rota_plan_memory *memories; /* desc.memory_count */
    const rota_plan *plan;
    uint32_t memory_partition;                       /* the first part that shares memory with this one */
    uint32_t values_per_queue[ROTA_EXEC_QUEUES_MAX]; /* segments on each queue: what a replay adds to its
                                                        timeline */
    bool ends_later; /* it has host nodes that end later than their functions return */
} rota_partition;

typedef enum rota_external_flags {
    ROTA_EXTERNAL_READ = 1u << 0,    /* some byte of the range is read in this segment */
    ROTA_EXTERNAL_WRITE = 1u << 1,   /* every byte of the range is written in this segment */
    ROTA_EXTERNAL_INCOMING = 1u << 2 /* bytes of the range are read before this plan wrote them: they must be
                                        valid on the part's device when the segment starts. Implies READ */
} rota_external_flags;

/* A range of a PERSISTENT or SLOT buffer that a segment touches. Per segment: disjoint and sorted by buffer,
 * offset. */
typedef struct rota_plan_external {
    uint32_t buffer; /* in plan->buffers */
    uint32_t flags;
    uint64_t offset_bytes, size_bytes;
} rota_plan_external;

/* A written range of a PERSISTENT or SLOT buffer and the parts (memory_partition) that hold its bytes after a
 * replay. Two parts may both write it, in memories of their own and so in any order. */
typedef struct rota_plan_placed {
    uint32_t buffer; /* in plan->buffers */
    uint32_t parts;  /* bits */
    uint64_t offset_bytes, size_bytes;
} rota_plan_placed;

/* All of them: plans of several parts only. */
typedef struct rota_plan_placed_ranges {
    rota_plan_placed *ranges;
    uint32_t count;
} rota_plan_placed_ranges;

/* A segment, in an order in which each waits for earlier ones only. */
typedef struct rota_plan_segment {
    uint32_t part;
    uint32_t index;                  /* in the part's program */
    uint32_t queue;                  /* logical queue */
    uint32_t ordinal;                /* from 1: a replay's signal value is the queue's base + ordinal */
    uint32_t first_wait, wait_count; /* in plan->segment_waits: earlier segments, of this or another part */
    uint32_t first_external, external_count;
    /* Nodes that decide, of which some have iterations, which may be too many, or the host launches what they choose:
     * what comes after them waits for their end. */
    bool has_loops;
    bool is_awaited; /* a segment of another part waits for it */
    bool is_end;     /* on the end queue (on_device.h) */
    /* A node of its may by itself, on any device: it is counted, or holds what is. Not beside loops on GPUs. */
    bool may_fail;
} rota_plan_segment;

/* Host memory given at each replay: contents of an INPUT, or where an OUTPUT goes. */
typedef struct rota_plan_transfer {
    uint32_t buffer; /* in plan->buffers */
    uint32_t part;
    uint32_t segment;      /* of plan->segments: the one that copies */
    uint32_t memory;       /* staging: memory index in the part; ROTA_NONE on a unified device */
    uint64_t offset_bytes; /* in that memory */
    uint32_t word;         /* unified: block word that takes the host pointer; else ROTA_NONE */
    bool is_output;
} rota_plan_transfer;

/* Why a plan can't be used. */
#define ROTA_PLAN_ANALYSED                                                                                   \
    "it was compiled without devices, which only analyses it; one that runs is compiled with a runtime and " \
    "its devices in rota_compile_options.devices and .device_count"

typedef enum rota_word_kind {
    ROTA_WORD_VALUE,  /* a slot's value */
    ROTA_WORD_BUFFER, /* address of the PERSISTENT buffer bound to a SLOT buffer, on part `part` */
    ROTA_WORD_HOST    /* host pointer of transfer `index` */
} rota_word_kind;

typedef struct rota_plan_word {
    uint8_t kind;
    uint32_t index; /* VALUE: slot index (from 1); BUFFER: plan buffer; HOST: transfer */
    uint32_t part;
    uint32_t size_bytes; /* VALUE: 4 or 8 */
    const char *name;
    bool used;    /* VALUE: some node takes it */
    uint8_t type; /* VALUE: rota_value_type */
} rota_plan_word;

typedef struct rota_executable rota_executable;

struct rota_plan {
    _Atomic uint32_t references;
    rota_runtime *runtime; /* whose plan it is; not looked into here. NULL: only analysed */
    rota_graph *graph;     /* held */
    const char *name;
    rota_arena arena; /* all arrays below, and what the descriptions of the parts point to */
    rota_compile_options options;
    rota_plan_stats stats;

    rota_plan_buffer *buffers;
    uint32_t buffer_count;
    rota_partition *partitions;
    uint32_t partition_count;
    rota_plan_segment *segments;
    uint32_t segment_count;
    uint32_t *segment_waits;
    rota_plan_placed_ranges placed;
    rota_plan_external *externals;
    uint32_t external_count;
    rota_plan_transfer *transfers; /* inputs first */
    uint32_t transfer_count, input_count;
    rota_plan_word *words; /* the argument block */
    uint32_t word_count;
    /* The ticket's point: the last segment, which waits (directly or not) for all others. */
    uint32_t final_segment;

    void *compile_info;          /* what dot, explain and traces need (sched/plan/operations.h) */
    rota_executable *executable; /* the runtime's: instances and their use; NULL: only analysed */
};

#define ROTA_PLAN_QUEUES_MAX 16

/* Names a node of a part's program for executors: "name (lane 'x', node 12)" is made on demand elsewhere;
 * this is the short name, static for the life of the plan. */
const char *rota_plan_node_name(const void *part, uint32_t node);
/* Whether it is a node that decides. */
bool rota_plan_decides(const rota_plan *plan, uint32_t node);
/* Whether what a part's command calls node is a copy between devices that rota inserted. */
bool rota_plan_is_transfer(const rota_plan *plan, uint32_t node);

#endif
