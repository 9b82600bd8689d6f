/* Operations of a plan, their accesses and the edges between them: what the steps of the compiler work on, and what
 * stays with the plan for dot, explain and traces. Internal; not installed.
 *
 * An operation is a node or a copy that rota inserts; operations are numbered in record order, and every edge goes from
 * a lower number to a higher one. */
#ifndef ROTA_SCHED_PLAN_OPERATIONS_H
#define ROTA_SCHED_PLAN_OPERATIONS_H

#include "base/vector.h"
#include "exec/exec.h"
#include "graph/conditional.h"
#include "graph/graph_internal.h"
#include "sched/plan/compiled.h"
#include "sched/plan/placing_settle.h"

/* Accesses of one operation: a node's, and the workspace that the scheduler may add (workspace.c). */
enum { ROTA_OPERATION_ACCESSES_MAX = ROTA_BODY_RANGES_MAX + 1 };
_Static_assert(ROTA_KERNEL_OPERANDS_MAX <= ROTA_BODY_RANGES_MAX, "nodes that decide have the most");

typedef enum rota_operation_kind {
    ROTA_OPERATION_NODE,
    ROTA_OPERATION_UPLOAD,   /* INPUT contents to the device */
    ROTA_OPERATION_DOWNLOAD, /* OUTPUT contents from the device */
    ROTA_OPERATION_TRANSFER  /* between devices of the plan */
} rota_operation_kind;

/* What the steps need of a record, so that few of them go over the records, which are larger. */
typedef struct rota_operation {
    const rota_node_record *record; /* NULL for copies that rota inserts */
    uint32_t first_access;
    uint32_t
        node; /* NODE: its number in record order; UPLOAD, DOWNLOAD: the transfer; TRANSFER: the buffer */
    uint32_t
        command; /* in its part's program; until it is lowered, from edges on, its batch in its segment */
    uint8_t access_count;
    uint8_t kind : 6;           /* rota_operation_kind */
    uint8_t ends_segment : 1;   /* who waits for it is not to wait for what comes after it on its queue */
    uint8_t works_in_place : 1; /* its kernel may write where it reads */
    uint8_t part;
    uint8_t queue : 7;
    uint8_t goes_on : 1; /* a part of a node, not the last */
} rota_operation;
_Static_assert(sizeof(void *) != 8 || sizeof(rota_operation) == 24, "a plan has one for each node");

/* A bit for each access of an operation that may be of a packed physical: the first so many, or a workspace, which is
 * the last (graph/conditional_internal.h says how nodes with more accesses order them). */
enum { ROTA_PACKED_LAST_BIT = ROTA_BODY_PACKED_RANGES_MAX };
_Static_assert(ROTA_PACKED_LAST_BIT < 64 && ROTA_KERNEL_OPERANDS_MAX < ROTA_PACKED_LAST_BIT,
               "bits of a word");
static inline uint64_t rota_packed_bit(uint32_t access) {
    return (uint64_t)1 << (access < ROTA_PACKED_LAST_BIT ? access : ROTA_PACKED_LAST_BIT);
}
/* The access of the lowest bit. */
static inline uint32_t rota_packed_access(const rota_operation *operation, uint64_t bits) {
    const uint32_t bit = (uint32_t)__builtin_ctzll(bits);
    return bit < ROTA_PACKED_LAST_BIT ? bit : operation->access_count - 1u;
}

/* A buffer's memory on one part, and on those that share memory with it. Plans of one part have one for each
 * plan buffer, with the same index. Every step of the compiler comes back to them, so each is a cache line.
 */
typedef struct rota_physical {
    _Alignas(64) uint64_t size_bytes;
    uint64_t offset_bytes;                    /* in the piece */
    uint32_t buffer;                          /* plan buffer; ROTA_NONE: a mirror between parts */
    uint32_t first_operation, last_operation; /* ROTA_NONE: unused */
    uint8_t part;
    uint8_t kind;         /* rota_buffer_kind; mirrors: TRANSIENT */
    uint8_t phase : 2;    /* of the count of live bytes */
    uint8_t external : 3; /* edges: rota_external_flags of all its bytes, where all is one segment */
    uint8_t is_mirror : 1;
    uint8_t is_shared : 1; /* operations of several parts, which share memory, touch it */
    uint8_t handed_on : 1; /* another physical takes its memory over in its last operation */
    bool packed;           /* has bytes of the part's arena */
    uint32_t first_mirror; /* plus 1: list of mirrors that this part owns for the buffer */
    uint32_t inplace_of;   /* the physical whose memory it takes over as it starts; ROTA_NONE: none */
    uint32_t piece;        /* of the part's arena */
    union {
        uint32_t
            tenants; /* TIGHT: in compiler.pieces.tenants, of the physicals whose memory it got; 0: none */
        uint32_t memory_edges; /* edges, from its first operation on: list of what initial uses come after */
    };
    union {
        uint32_t writer; /* edges, while there is no map: as in rota_range_state, of all its bytes */
        uint32_t memory; /* index in the part's memories, once lowered */
    };
    uint32_t readers;   /* edges: the same */
    uint32_t last_uses; /* edges: list, once another physical took the memory over */
    uint32_t map;       /* edges: plus 1, of its ranges, where there are others than all its bytes */
} rota_physical;
_Static_assert(sizeof(rota_physical) == 64, "a cache line, which is all that most accesses need of it");

/* What stays of a physical with the plan, beside its buffer (rota_physical_buffer), whose size it has. */
typedef struct rota_plan_physical {
    uint64_t offset_bytes : 48; /* in its piece, as executors' operands have it; 0 where it is not packed */
    uint64_t part : 8;
    uint64_t packed : 1, is_mirror : 1;
    /* In the operation that touches it first it takes over the memory of one that is handed on there, has the same
     * offset, and is touched there last. */
    uint64_t is_inplace : 1, handed_on : 1;
    uint64_t outlives : 1; /* it is alive until the last operation, whoever touches it last */
} rota_plan_physical;
_Static_assert(sizeof(rota_plan_physical) == 8, "a plan has one for each buffer");

/* A kept edge's reason. */
typedef enum rota_edge_kind {
    ROTA_EDGE_RAW,
    ROTA_EDGE_WAR,
    ROTA_EDGE_WAW,
    ROTA_EDGE_MEMORY,
    ROTA_EDGE_AFTER,
    ROTA_EDGE_KIND_COUNT
} rota_edge_kind;

/* A point that comes after some operations and joins, and before whatever has an edge from it. Where an edge
 * begins (edges.from, edges.join_from) stands an operation, or ROTA_JOIN and a join's number. Joins are numbered so
 * that each comes after lower ones only. */
#define ROTA_JOIN 0x80000000u
#define ROTA_JOINS_MAX 0x7ffffff0u
typedef struct rota_join {
    uint32_t before; /* an operation later than all that it joins, and not later than what comes after it */
    uint32_t first_from, count;        /* in join_from */
    uint32_t first_local, local_count; /* in local_joins, by timeline */
    uint8_t kind;                      /* rota_edge_kind */
} rota_join;

/* A join on one logical queue (segments.c). */
typedef struct rota_local_join {
    uint32_t timeline;
    uint32_t segment; /* the last there that has something it joins */
    uint32_t earlier; /* the one before that; ROTA_NONE: none */
    uint32_t level;   /* batch of the latest in `segment` */
    uint32_t node; /* among the joins of the part's program; ROTA_NONE: nothing in `segment` comes after it */
} rota_local_join;

/* A rewrite's sentence about a node. */
typedef struct rota_compile_note {
    struct rota_compile_note *next;
    uint32_t node;
    const char *text;
} rota_compile_note;

/* The compiled bodies of a node that decides. */
typedef struct rota_plan_bodies {
    struct rota_plan_bodies *next;
    uint32_t operation, count;
    rota_plan **plans; /* the plan's to destroy; NULL among them: nothing */
} rota_plan_bodies;

/* Which physical an access has, which buffer a physical, and which segment an operation: what derived.c needs for that
 * beside what an executor gets. Plans on one device have `lane_base` and `workspaces`, those on several
 * `physical_buffer` and a list of accesses' physicals. */
typedef struct rota_plan_lookup {
    const uint32_t *physical_buffer; /* plan buffers; NULL: they have the same numbers */
    const uint32_t *segment_of;      /* by operation: of plan->segments; NULL: there is one */
    const uint32_t *lane_base;       /* the plan buffer of a lane's first buffer, by lane creation number */
    const uint32_t *workspaces;      /* the operations that have one, ascending */
    uint32_t workspace_count;
    uint32_t first_workspace; /* the physical of the first */
    uint32_t own_base;        /* the first plan buffer that rota_compile_own_buffer entered */
} rota_plan_lookup;

/* The vectors that stay with a plan as they were built (compile.c), and behind them what `physicals` lie in. */
enum { ROTA_KEPT_VECTORS = 8, ROTA_KEPT_PHYSICALS = ROTA_KEPT_VECTORS, ROTA_KEPT_COUNT };

/* What dot, explain and traces need after the compile; stays with the plan. */
typedef struct rota_compile_info {
    rota_operation *operations;
    uint32_t operation_count;
    const rota_physical
        *building; /* those of the compiler while it is at work: messages name their buffers */
    rota_plan_physical *physicals;
    uint32_t physical_count;
    uint32_t *access_physical; /* of each access; NULL: rota_access_physical finds them */
    rota_plan_lookup lookup;
    rota_exec_operand *accesses; /* the parts' operands point here: offsets in memory */
    uint32_t access_count;
    uint32_t *first_edge; /* operation_count + 1 */
    uint32_t *edge_from;
    uint8_t *edge_kind;
    uint32_t edge_count;
    const rota_join *joins;
    uint32_t join_count;
    const uint32_t *join_from;
    /* Lanes in key order: a node's number to lane and index, and back. */
    uint32_t lane_count;
    rota_recorder **lanes;
    uint32_t *lane_first_node;   /* lane_count + 1 */
    uint32_t *lane_rank;         /* creation number - 1 -> rank */
    uint32_t *operation_of_node; /* NULL: each node's is of its number (rota_operation_of) */
    rota_compile_note *notes;
    rota_plan_bodies *bodies; /* newest first; NULL: no node decides */
    rota_settled placing; /* where devices were chosen by what nodes cost: what names the replays' times */
    rota_vector kept[ROTA_KEPT_COUNT];
} rota_compile_info;

static inline uint32_t rota_physical_buffer(const rota_compile_info *info, uint32_t physical) {
    if (info->building) return info->building[physical].buffer;
    return info->lookup.physical_buffer ? info->lookup.physical_buffer[physical] : physical;
}

/* The rank of the lane that a node's number lies in: the last lane that begins at or before it, so that empty ones are
 * passed over. O(log lanes). */
static inline uint32_t rota_lane_of_node(const rota_compile_info *info, uint32_t node) {
    uint32_t low = 0, high = info->lane_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (info->lane_first_node[middle] <= node)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The operation that does the work of a node by its number, the first where it is several; ROTA_NONE: none. */
static inline uint32_t rota_operation_of(const rota_compile_info *info, uint32_t node) {
    return info->operation_of_node ? info->operation_of_node[node] : node;
}

static inline const rota_compile_info *rota_plan_info(const rota_plan *plan) {
    return plan->compile_info;
}

static inline uint64_t rota_physical_bytes(const rota_plan *plan, uint32_t physical) {
    return plan->buffers[rota_physical_buffer(rota_plan_info(plan), physical)].buffer->size_bytes;
}

#endif
