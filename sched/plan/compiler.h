/* The compiler's working state: what its steps hand on to one another. Internal; not installed.
 *
 *   gather.c    lanes in key order -> operations with resolved accesses; uploads and read-backs
 *   placing.c   nodes to devices, where that is automatic
 *   hooks.c     the graph's rewrite hooks
 *   recompute.c under a memory limit: nodes that run again, so that less is live at once
 *   parts.c     kernels that are several on some devices
 *   check.c     kernels that are watched (check_kernels)
 *   on_device.c host nodes of what a library of the device's does
 *   workspace.c scratch memory that kernels ask for
 *   placement.c several devices: physical buffers per device, copies between them
 *   pack.c      transient memory, from lifetimes in record order (TIGHT) or from proven order (CONCURRENT)
 *   edges.c     hazards by range, memory, rota_node_after; implied ones dropped by vector clocks
 *   segments.c  logical queues: segments, waits, levels
 *   lower.c     what executors get: commands, batches, CSR edges, memories, argument words
 *   externals.c what segments touch outside the plan
 *   certify.c   on request: all of that looked at again from the outside */
#ifndef ROTA_SCHED_PLAN_COMPILER_H
#define ROTA_SCHED_PLAN_COMPILER_H

#include "base/prefetch.h"
#include "base/vector.h"
#include "sched/plan/clock.h"
#include "sched/plan/compiled.h"
#include "sched/plan/operations.h"
#include "sched/plan/traits.h"

typedef struct rota_cons {
    uint32_t operation; /* plus 1 */
    uint32_t next;      /* 0: end */
} rota_cons;

/* A list is the number of its first cell, or, of one operation, which most are, that with this bit. */
#define ROTA_LIST_OF_ONE 0x80000000u
/* The first cell of a list, which is not empty. */
static inline rota_cons rota_list_first(const rota_cons *cells, uint32_t list) {
    return list & ROTA_LIST_OF_ONE ? (rota_cons){(list & ~ROTA_LIST_OF_ONE) + 1, 0} : cells[list];
}

/* Host-mapped memory between two parts, through which a buffer's bytes go. */
typedef struct rota_mirror {
    uint32_t other; /* part; the owner's physical of the buffer has the list */
    uint32_t physical;
    uint32_t next; /* plus 1 */
} rota_mirror;

/* A memory limit, as the attempt at hand has it. */
typedef struct rota_memory_aim {
    uint64_t target; /* what live transients may take; 0: no limit */
    uint64_t
        rewrite_limit; /* what rewrites hear of: the limit, where computing again was not enough; else 0 */
} rota_memory_aim;

/* What runs again under a memory limit, and where (recompute.c). */
typedef struct rota_recomputed {
    uint32_t count;
    uint32_t *first; /* by node: those that come before node i are [first[i], first[i + 1]) */
    uint32_t *nodes; /* whose clones they are */
    const rota_node_record **clones;
    uint64_t bytes_without, bytes; /* largest sum of live bytes before, and now */
    uint32_t peak_tick;            /* where that is */
} rota_recomputed;

/* Which plan buffer a record's buffer is (compiler.c). */
typedef struct rota_gathering {
    uint32_t *lane_base; /* plan buffer of a lane's first buffer, by lane creation number (0: the graph's) */
    uint32_t graph_buffer_count;
    uint32_t *hash; /* plan buffer + 1 by address of a persistent buffer; NULL: to be made */
    size_t hash_bytes;
    uint32_t hash_mask;
} rota_gathering;

/* By part: what it is for. */
typedef struct rota_partition_table {
    uint32_t count;
    uint32_t cpu; /* ROTA_NONE: none */
    /* One of devices, or the CPU device for host functions; NULL: the plan is only analysed. */
    const rota_device_traits *device[UINT8_MAX + 1];
    /* The first part whose device shares memory with this one's: buffers have one physical for all of those.
     */
    uint8_t memory[UINT8_MAX + 1];
    uint32_t binding_count[UINT8_MAX + 1]; /* of its records */
} rota_partition_table;

/* Host nodes of what a device's library does (on_device.c): the logical queue on which their ends are waited for. */
typedef struct rota_end_queue {
    uint32_t queue;  /* beyond those of nodes, where */
    bool is_there;   /* a node needed it and there was room */
    uint64_t turn;   /* the reference of a buffer that all of them write, one after the other; 0: none yet */
    rota_vector own; /* uint32_t: plan buffers by which the host and the device tell one another */
} rota_end_queue;

/* Bytes that a node writes and that are read on another device. */
typedef struct rota_compile_send {
    uint64_t stored; /* the buffer, as access records name it */
    uint64_t low, high;
    uint32_t device;
} rota_compile_send;

/* Automatic placement (placing.c). */
typedef struct rota_compile_placing {
    uint8_t *device; /* by node: index in devices->all, or past them the host's; NULL: nothing is automatic */
    uint32_t home;   /* the device of the first part */
    bool alone;      /* all is there */
    bool host_idle;  /* no node is on the device that copies between others */
    uint32_t *first_send; /* by node: those of its values are [first_send[n], first_send[n + 1]) */
    rota_compile_send *sends;
    uint32_t *input_devices; /* by the graph's buffers: of an INPUT the devices that read it, as bits */
} rota_compile_placing;

/* Where buffers of plans of several parts are (placement.c). */
typedef struct rota_spread {
    bool several_parts;
    uint32_t part_stride;
    rota_vector physical_of; /* physical + 1 by plan buffer * part_stride + part */
    rota_vector valid;       /* rota_interval_map * by plan buffer; state.writer is the mask of parts */
    rota_vector mirrors;     /* rota_mirror */
    uint32_t copies_from, copies_to; /* queues of copies from other parts and to that of the record at hand */
    rota_vector written; /* uint8_t by plan buffer: of persistent ones, whether some node writes it */
    rota_end_queue ends;
    rota_compile_placing placing;
} rota_spread;

/* Hazards (edges.c): by operation, and through joins. */
typedef struct rota_edges {
    rota_vector segment; /* uint32_t by operation: of plan->segments; empty: there is one */
    rota_vector from, kind;
    uint32_t *first;         /* by operation */
    rota_vector joins;       /* rota_join */
    rota_vector join_from;   /* uint32_t */
    rota_vector local_joins; /* rota_local_join */
    rota_clocks clocks;
    rota_vector afters; /* rota_after: operation numbers in .later.index, .earlier.index, sorted by later */
} rota_edges;

/* The pieces of arenas (pack.c), by part; and the physicals whose memory each one got (uint32_t, index 0 unused), from
 * the number that its `tenants` is down to that of the one with this bit. */
#define ROTA_TENANT_OLDEST 0x80000000u
typedef struct rota_pieces {
    uint32_t count[UINT8_MAX + 1];
    uint64_t *bytes[UINT8_MAX + 1];
    rota_vector tenants;
    bool packed_anew[UINT8_MAX + 1]; /* a search changed offsets after tenants were noted */
} rota_pieces;

typedef struct rota_compiler {
    rota_graph *graph;
    const rota_plan_devices *devices; /* that the plan is for */
    rota_plan *plan;
    rota_compile_info *info;
    rota_arena scratch; /* freed when the compile ends */
    uint32_t node_count;
    uint32_t queue_count;
    uint32_t policy_queues; /* of queue_count, those that nodes may be placed on */
    rota_gathering gathering;
    rota_partition_table partitions;
    rota_vector buffers; /* rota_plan_buffer */
    rota_vector operations, accesses, access_physical, physicals;
    rota_spread spread;
    rota_vector transfers;  /* rota_plan_transfer: INPUT and OUTPUT copies, in order of first use */
    rota_vector workspaces; /* nodes that want scratch memory (workspace.c) */
    rota_memory_aim memory;
    rota_recomputed recomputed; /* recompute.c */
    uint32_t *merged_into;      /* by node: the node that does its work (rota_rewriter_merge); NULL: none */
    uint32_t peak_operation;    /* where most bytes are live */
    rota_edges edges;
    rota_vector externals; /* external accesses: of edges_ranges.c, for externals.c */
    rota_pieces pieces;
} rota_compiler;

#define ROTA_OPERATIONS(c) ((rota_operation *)(c)->operations.data)
#define ROTA_ACCESSES(c) ((rota_exec_operand *)(c)->accesses.data)
#define ROTA_ACCESS_PHYSICAL(c) ((uint32_t *)(c)->access_physical.data)
#define ROTA_PHYSICALS(c) ((rota_physical *)(c)->physicals.data)

static inline uint32_t rota_segment_of(const rota_compiler *c, uint32_t operation) {
    return c->edges.segment.data ? ((const uint32_t *)c->edges.segment.data)[operation] : 0;
}

/* The steps wait for memory more than they compute: operations and accesses are gone over in order, which the processor
 * sees coming, but physicals and records are where they are. So each step asks for them some operations early. */
enum { ROTA_OPERATIONS_AHEAD = 5, ROTA_ACCESSES_AHEAD = 16 };

/* Asks for an element, of `bytes`, of an array by physical: that of the access so far ahead of this one. */
static inline void rota_compile_prefetch(const rota_compiler *c, const void *by_physical, size_t bytes,
                                         uint32_t access) {
    if (access + ROTA_ACCESSES_AHEAD >= c->access_physical.count) return;
    const uint32_t physical = ROTA_ACCESS_PHYSICAL(c)[access + ROTA_ACCESSES_AHEAD];
    if (physical != ROTA_NONE) rota_prefetch((const uint8_t *)by_physical + physical * bytes);
}

/* Plan buffer of a persistent buffer, entered when first seen; the plan then holds it. In a body also one of a graph
 * around it, which is not held. */
rota_status rota_compile_persistent_index(rota_compiler *compiler, rota_buffer *buffer, uint32_t *out_index);
/* Asks for what that is about to look at beside the buffer: its physical, or where it will be entered. Plans of one
 * part. */
void rota_compile_prefetch_persistent(const rota_compiler *compiler, const rota_buffer *buffer);
/* Plan buffer of an access record's buffer. */
static inline rota_status rota_compile_buffer_index(rota_compiler *c, uint64_t stored, uint32_t *out_index) {
    if (!(stored & 1)) return rota_compile_persistent_index(c, ROTA_ACCESS_BUFFER(stored), out_index);
    *out_index = c->gathering.lane_base[stored >> 32] + ((uint32_t)stored >> 1);
    return ROTA_OK;
}
/* Enters a transient of the plan's own, which takes the reference even on failure, and what stands for it in
 * an access record. */
rota_status rota_compile_own_buffer(rota_compiler *compiler, rota_buffer *buffer, uint32_t *out_index);
uint64_t rota_compile_own_reference(const rota_compiler *compiler, uint32_t index);
/* The physical of a buffer on a part (its memory_partition's), made if need be; ROTA_NONE when out of memory. */
uint32_t rota_compile_physical(rota_compiler *compiler, uint32_t buffer, uint32_t part);
/* Lets go of what only finds plan buffers. */
void rota_compile_free_hash(rota_compiler *compiler);
/* Adds an operation with room for its accesses (to be set at once); NULL when out of memory. */
static inline rota_operation *rota_compile_add_operation(rota_compiler *c, rota_operation_kind kind,
                                                         uint32_t access_count) {
    if (!rota_vector_reserve(&c->operations, sizeof(rota_operation), 1) ||
        !rota_vector_reserve(&c->accesses, sizeof(rota_exec_operand), access_count) ||
        !rota_vector_reserve(&c->access_physical, sizeof(uint32_t), access_count))
        return NULL;
    rota_operation *operation = &ROTA_OPERATIONS(c)[c->operations.count++];
    *operation = (rota_operation){.first_access = (uint32_t)c->accesses.count,
                                  .access_count = (uint8_t)access_count,
                                  .kind = (unsigned)kind & 0x3f};
    c->accesses.count += access_count;
    c->access_physical.count += access_count;
    return operation;
}
/* Sets access `number` of the newest operation. `physical` ROTA_NONE: memory that no other operation touches.
 */
static inline void rota_compile_set_access(rota_compiler *c, uint32_t number, uint32_t physical,
                                           uint64_t offset, uint64_t size, rota_access_mode mode) {
    const uint32_t newest = (uint32_t)c->operations.count - 1;
    const uint32_t access = ROTA_OPERATIONS(c)[newest].first_access + number;
    ROTA_ACCESSES(c)
    [access] = rota_exec_operand_at(0, offset, size, mode);
    ROTA_ACCESS_PHYSICAL(c)[access] = physical;
    if (physical == ROTA_NONE) return;
    rota_physical *it = &ROTA_PHYSICALS(c)[physical];
    if (it->first_operation == ROTA_NONE) it->first_operation = newest;
    it->last_operation = newest;
}
/* Whether the part's device addresses are host pointers; not where the plan is only analysed. */
bool rota_compile_is_unified(const rota_compiler *compiler, uint32_t part);
/* Host memory ran out, said for this plan. */
rota_status rota_compile_no_memory(const rota_compiler *compiler);

/* Enters buffers that are not there yet: several that lie side by side, and one. */
rota_status rota_compile_add_buffers(rota_compiler *compiler, rota_buffer *list, uint32_t count);
rota_status rota_compile_add_buffer(rota_compiler *compiler, rota_buffer *buffer);

#endif
