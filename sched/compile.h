/* The compiler's working state, and its steps. Internal.
 *
 *   gather.c    lanes in key order -> operations with resolved accesses; uploads and read-backs
 *   recompute.c under a memory limit: nodes that run again, so that less is live at once
 *   workspace.c scratch memory that kernels ask for
 *   place.c     several devices: physical buffers per device, copies between them
 *   pack.c      transient memory, from lifetimes in record order (TIGHT) or from proven order (CONCURRENT)
 *   hazards.c   edges: hazards by range, memory, rota_node_after; implied ones dropped by vector clocks
 *   segments.c  logical queues: segments, waits, levels
 *   lower.c     what executors get: commands, batches, CSR edges, memories, argument words
 *   externals.c what segments touch outside the plan
 *   certify.c   on request: all of that looked at again from the outside
 *
 * An operation is a node or a copy that rota inserts; operations are numbered in record order, and every edge
 * goes from a lower number to a higher one. */
#ifndef ROTA_SCHED_COMPILE_H
#define ROTA_SCHED_COMPILE_H

#include "base/vector.h"
#include "graph/graph_internal.h"
#include "sched/interval.h"
#include "sched/plan_internal.h"

/* Accesses of one operation: a node's, and the workspace that the scheduler may add (workspace.c). */
enum { ROTA_OPERATION_ACCESSES_MAX = ROTA_KERNEL_OPERANDS_MAX + 1 };

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
    uint32_t segment; /* of plan->segments */
    uint32_t level;   /* batch in its segment */
    uint8_t access_count;
    uint8_t kind : 7;           /* rota_operation_kind */
    uint8_t works_in_place : 1; /* its kernel may write where it reads */
    uint8_t part;
    uint8_t queue : 7;
    uint8_t goes_on : 1; /* a part of a node, not the last */
    uint32_t command;    /* in its part's program */
} rota_operation;

/* A buffer's memory on one part, and on those that share memory with it. Plans of one part have one for each
 * plan buffer, with the same index. Every step of the compiler comes back to them, so each is a cache line.
 */
typedef struct rota_physical {
    _Alignas(64) uint64_t size_bytes;
    uint64_t offset_bytes;                    /* in the piece */
    uint32_t buffer;                          /* plan buffer; ROTA_NONE: a mirror between parts */
    uint32_t first_operation, last_operation; /* ROTA_NONE: unused */
    uint8_t part;
    uint8_t kind;  /* rota_buffer_kind; mirrors: TRANSIENT */
    uint8_t phase; /* of the count of live bytes */
    bool packed;   /* has a place in the part's arena */
    bool is_mirror;
    bool is_shared;        /* operations of several parts, which share memory, touch it */
    bool handed_on;        /* another physical takes its memory over in its last operation */
    uint32_t first_mirror; /* plus 1: list of mirrors that this part owns for the buffer */
    uint32_t tenants;      /* TIGHT: list in compiler.tenants of the physicals whose memory it got */
    uint32_t inplace_of;   /* the physical whose memory it takes over as it starts; ROTA_NONE: none */
    uint32_t memory;       /* index in the part's memories, once lowered */
    uint32_t piece;        /* of the part's arena */
} rota_physical;

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
 * begins (edge_from, join_from) stands an operation, or ROTA_JOIN and a join's number. Joins are numbered so
 * that each comes after lower ones only. */
#define ROTA_JOIN 0x80000000u
#define ROTA_JOINS_MAX 0x7ffffff0u
typedef struct rota_join {
    uint32_t before; /* an operation later than all that it joins, and not later than what comes after it */
    uint32_t first_from, count;        /* in join_from */
    uint32_t first_place, place_count; /* in join_places, by timeline */
    uint8_t kind;                      /* rota_edge_kind */
} rota_join;

/* A join on one logical queue (segments.c). */
typedef struct rota_join_place {
    uint32_t timeline;
    uint32_t segment; /* the last there that has something it joins */
    uint32_t earlier; /* the one before that; ROTA_NONE: none */
    uint32_t level;   /* batch of the latest in `segment` */
    uint32_t node; /* among the joins of the part's program; ROTA_NONE: nothing in `segment` comes after it */
} rota_join_place;

/* How many other chains an operation's clock remembers. Forgetting one only means that an implied edge may be
 * kept. */
enum { ROTA_CLOCK_ENTRIES = 6 };

/* A vector clock over chains: operations of one chain are totally ordered by kept edges. `latest[i]` is the
 * last operation of chain[i] known to come before; the operation's own chain is implied up to itself. */
typedef struct rota_clock {
    uint32_t own_chain;
    uint32_t count;
    uint32_t chain[ROTA_CLOCK_ENTRIES];
    uint32_t latest[ROTA_CLOCK_ENTRIES];
} rota_clock;

typedef struct rota_cons {
    uint32_t operation; /* plus 1 */
    uint32_t next;      /* 0: end */
} rota_cons;

/* Host-mapped memory between two parts, through which a buffer's bytes go. */
typedef struct rota_mirror {
    uint32_t other; /* part; the owner's physical of the buffer has the list */
    uint32_t physical;
    uint32_t next; /* plus 1 */
} rota_mirror;

/* A rewrite's sentence about a node. */
typedef struct rota_compile_note {
    struct rota_compile_note *next;
    uint32_t node;
    const char *text;
} rota_compile_note;

/* What dot, explain and traces need after the compile; stays with the plan. */
typedef struct rota_compile_info {
    rota_operation *operations;
    uint32_t operation_count;
    rota_physical *physicals;
    uint32_t physical_count;
    uint32_t *access_physical;   /* of each access */
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
    uint32_t *lane_first_node; /* lane_count + 1 */
    uint32_t *lane_rank;       /* creation number - 1 -> rank */
    uint32_t *operation_of_node;
    rota_compile_note *notes;
    uint32_t own_base;   /* the first plan buffer that rota_compile_own_buffer entered */
    rota_vector kept[8]; /* the storage of what was built as vectors */
} rota_compile_info;

/* What runs again under a memory limit, and where (recompute.c). */
typedef struct rota_recomputed {
    uint32_t count;
    uint32_t *first; /* by node: those that come before node i are [first[i], first[i + 1]) */
    uint32_t *nodes; /* whose clones they are */
    const rota_node_record **clones;
    uint64_t bytes_without, bytes; /* largest sum of live bytes before, and now */
    uint32_t peak_tick;            /* where that is */
} rota_recomputed;

typedef struct rota_compiler {
    rota_runtime *runtime;
    rota_graph *graph;
    rota_plan *plan;
    rota_compile_info *info;
    rota_arena scratch; /* freed when the compile ends */
    /* Gather */
    uint32_t node_count;
    uint32_t *lane_base; /* plan buffer of a lane's first buffer, by lane creation number (0: the graph's) */
    uint32_t graph_buffer_count;
    uint32_t persistent_capacity;
    uint32_t *hash; /* plan buffer + 1 by address of a persistent buffer */
    uint32_t hash_mask;
    rota_vector buffers; /* rota_plan_buffer */
    rota_vector operations, accesses, access_physical, physicals;
    uint32_t binding_count[UINT8_MAX + 1]; /* of the records of each part */
    uint32_t queue_count;
    uint32_t policy_queues; /* of queue_count, those that nodes may be placed on */
    /* Devices in use: part of each entry of options.devices, and of the CPU device for host functions. */
    rota_device *part_device[UINT8_MAX + 1];
    /* The first part whose device shares memory with this one's: buffers have one physical for all of those.
     */
    uint8_t memory_part[UINT8_MAX + 1];
    uint32_t part_count;
    uint32_t cpu_part; /* ROTA_NONE: none */
    /* Plans of several parts: physical + 1 by plan buffer * part_stride + part; valid parts per range. */
    bool several_parts;
    uint32_t part_stride;
    rota_vector physical_of;
    rota_vector valid;   /* rota_interval_map * by plan buffer; state.writer is the mask of parts */
    rota_vector mirrors; /* rota_mirror */
    /* INPUT and OUTPUT copies, in order of first use. */
    rota_vector transfers;  /* rota_plan_transfer */
    rota_vector workspaces; /* nodes that want scratch memory (workspace.c) */
    /* Recomputation (recompute.c): what live transients may take; 0: no limit. */
    uint64_t memory_target;
    rota_recomputed recomputed;
    uint32_t *merged_into;   /* by node: the node that does its work (rota_rewriter_merge); NULL: none */
    uint32_t peak_operation; /* where most bytes are live */
    /* Hazards */
    rota_vector edge_from, edge_kind;
    rota_vector joins;       /* rota_join */
    rota_vector join_from;   /* uint32_t */
    rota_vector join_places; /* rota_join_place */
    uint32_t *first_edge;
    rota_clock *clocks;
    rota_vector afters; /* rota_after: operation numbers in .later.index, .earlier.index, sorted by later */
    /* External accesses: filled by hazards.c, used by externals.c */
    rota_vector externals;
    /* Pack */
    uint32_t piece_count[UINT8_MAX + 1]; /* arena pieces of each part */
    uint64_t *piece_bytes[UINT8_MAX + 1];
    rota_vector tenants;             /* rota_cons with physicals; index 0 unused */
    bool placed_anew[UINT8_MAX + 1]; /* by part: a search changed places after tenants were noted */
} rota_compiler;

#define ROTA_OPERATIONS(c) ((rota_operation *)(c)->operations.data)
#define ROTA_ACCESSES(c) ((rota_exec_operand *)(c)->accesses.data)
#define ROTA_ACCESS_PHYSICAL(c) ((uint32_t *)(c)->access_physical.data)
#define ROTA_PHYSICALS(c) ((rota_physical *)(c)->physicals.data)

/* An access to a PERSISTENT or SLOT buffer, noted in record order. */
typedef struct rota_external_note {
    uint32_t buffer; /* plan buffer */
    uint32_t operation;
    uint64_t low, high;
    uint32_t flags; /* rota_external_flags, INCOMING already decided */
} rota_external_note;

/* What a buffer takes in an arena. */
static inline uint64_t rota_aligned_size(uint64_t size) {
    return (size + ROTA_BUFFER_ALIGNMENT - 1) & ~(uint64_t)(ROTA_BUFFER_ALIGNMENT - 1);
}

rota_status rota_compile_gather(rota_compiler *compiler);
/* The sizes of a node's accesses, whose plan buffers are given, and the mask of those in slots. */
uint32_t rota_compile_operand_bytes(const rota_compiler *compiler, const rota_node_record *record,
                                    const uint32_t *buffers, uint64_t *out_bytes);
/* What a node with rota_kernel.parts becomes on `part`; *out_count 0: itself. */
rota_status rota_compile_parts(rota_compiler *compiler, uint32_t part, const rota_node_record *record,
                               const rota_node_record *out_records[ROTA_KERNEL_PARTS_MAX],
                               uint32_t *out_count);
/* The operation of the node's next part; ROTA_NONE: there is none, mostly. */
uint32_t rota_compile_next_part(const rota_compiler *compiler, uint32_t operation);
/* Scratch memory that a node's kernel asks for on `part`, where `buffers` are the plan buffers of its
 * accesses; 0: none. */
uint64_t rota_compile_workspace_bytes(const rota_compiler *compiler, uint32_t part,
                                      const rota_node_record *record, const uint32_t *buffers);
/* Notes that the newest operation's last access is a workspace of so many bytes ... */
rota_status rota_compile_want_workspace(rota_compiler *compiler, uint64_t size_bytes);
/* ... and makes them, after all other buffers are known. */
rota_status rota_compile_add_workspaces(rota_compiler *compiler);
/* Before an operation on `part` touches the range: makes the copies that bring valid bytes there, notes what
 * becomes valid, and gives the buffer's physical there. */
rota_status rota_compile_place(rota_compiler *compiler, uint32_t part, uint32_t buffer, uint64_t low,
                               uint64_t high, rota_access_mode mode, uint32_t *out_physical);
/* The physical of a buffer on a part (its memory_part's), made if need be; ROTA_NONE when out of memory. */
uint32_t rota_compile_physical(rota_compiler *compiler, uint32_t buffer, uint32_t part);
/* Runs the graph's rewrite hooks over the node records (NULL: removed). */
rota_status rota_compile_rewrite(rota_compiler *compiler, const rota_node_record **records);
/* Makes the largest sum of the transients' live bytes in record order at most memory_target, if it can, by
 * running pure nodes again: fills in compiler->recomputed, and changes records[] of the nodes that read what
 * was computed again. OUT_OF_MEMORY: host memory only. O((nodes + accesses) log nodes). */
rota_status rota_compile_recompute(rota_compiler *compiler, const rota_node_record **records);
/* Plan buffer of an access record's buffer, a persistent one entered when first seen. */
rota_status rota_compile_buffer_index(rota_compiler *compiler, uint64_t stored, uint32_t *out_index);
/* Enters a transient of the plan's own, which takes the reference even on failure, and what stands for it in
 * an access record. */
rota_status rota_compile_own_buffer(rota_compiler *compiler, rota_buffer *buffer, uint32_t *out_index);
uint64_t rota_compile_own_reference(const rota_compiler *compiler, uint32_t index);
rota_status rota_compile_pack_tight(rota_compiler *compiler);
rota_status rota_compile_hazards(rota_compiler *compiler);
rota_status rota_compile_segments(rota_compiler *compiler);
/* Whether all operations run on the first queue of the first part. */
bool rota_compile_on_one_queue(const rota_compiler *compiler);
/* The place of a join on a timeline; NULL: it joins nothing there. */
rota_join_place *rota_compile_join_place(const rota_compiler *compiler, uint32_t join, uint32_t timeline);
/* Plans of several parts: which of them hold what the plan writes, in the end. */
rota_status rota_compile_placed(rota_compiler *compiler);
rota_status rota_compile_lower(rota_compiler *compiler);
rota_status rota_compile_externals(rota_compiler *compiler);

/* CONCURRENT packing, driven by hazards.c as it goes. Physicals that start in an operation (`whole`: it
 * writes all of it, so every other use comes later) are placed after that operation's clock is known. `uses`:
 * list of last uses; `inplace_uses`: those of the physical whose memory it may take over. */
typedef struct rota_packer rota_packer;
rota_status rota_packer_create(rota_compiler *compiler, rota_packer **out_packer);
rota_status rota_packer_birth(rota_packer *packer, uint32_t physical, uint32_t operation, bool whole,
                              uint32_t inplace_uses, const rota_cons *cons);
void rota_packer_death(rota_packer *packer, uint32_t physical, uint32_t uses);
rota_status rota_packer_finish(rota_packer *packer);
void rota_packer_free(rota_packer *packer);

/* Sum and peak of live bytes in record order, counting in-place reuse: the lower bound of the arenas. Sets
 * inplace_of. */
void rota_compile_lifetimes(rota_compiler *compiler);
/* True if the clocks prove that operation a completes before b starts (a < b). */
bool rota_clock_before(const rota_clock *clocks, uint32_t a, uint32_t b);

/* Adds an operation with room for its accesses (to be set at once); NULL when out of memory. */
rota_operation *rota_compile_add_operation(rota_compiler *compiler, rota_operation_kind kind,
                                           uint32_t access_count);

/* Sets access `number` of the newest operation. `physical` ROTA_NONE: memory that no other operation touches.
 */
void rota_compile_set_access(rota_compiler *compiler, uint32_t number, uint32_t physical, uint64_t offset,
                             uint64_t size, rota_access_mode mode);

/* Whether the part's device addresses are host pointers; not where the plan is only analysed. */
bool rota_compile_is_unified(const rota_compiler *compiler, uint32_t part);

/* Host memory ran out, said for this plan. */
rota_status rota_compile_no_memory(const rota_compiler *compiler);

/* "node 'x' (lane 'y', node 3)" of an operation, in storage of the calling thread until its next call. */
const char *rota_operation_describe(const rota_plan *plan, uint32_t operation);
const char *rota_operation_name(const rota_plan *plan, uint32_t operation);

/* Bytes that two accesses have in common, and the hazard between them (earlier's mode, later's mode);
 * ROTA_EDGE_KIND_COUNT: none. */
rota_edge_kind rota_hazard_between(rota_access_mode earlier, rota_access_mode later);

#endif
