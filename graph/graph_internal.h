/* Inside of a graph: lanes of packed node records. Internal; not installed.
 *
 * A lane is a list of chunks that one thread fills. A node is one variable-length record in it: header,
 * accesses, bindings, parameters. Nothing in a lane points at another lane, so lanes are filled side by side
 * with no shared writes; what the graph itself holds (lane list, slots, its own buffers) is under its mutex.
 */
#ifndef ROTA_GRAPH_GRAPH_INTERNAL_H
#define ROTA_GRAPH_GRAPH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "base/arena.h"
#include "base/set.h"
#include "graph/buffer_internal.h"
#include "graph/graph.h"
#include "graph/node_record.h"

/* A host node that ends later, of what a device may do as well (a collective by its vendor's library). Operand 0 is in
 * the host's memory. Where the plan's first device is one that it `is_on`, the others stay there, and `device` begins
 * it instead of `host`: its operands are operand 0, then ROTA_ADDRESSED_MAX words of 64 bits, in the host's memory,
 * that hold where the device has operands 1, 2 and 3, and a word of 4 bytes that it writes. All that comes before is
 * complete on the device then, and what comes after waits for the end (sched/plan/on_device.c). */
enum { ROTA_ADDRESSED_MAX = 3 };
typedef struct rota_host_on_device {
    rota_host_later host; /* the first member: the node's record names it */
    rota_host_later device;
    /* `device` is a rota_device; by who compiles. `is_beside`: others of its kind may be there, and it takes its turn
     * with them, in the order of records, also where it is not on it. */
    bool (*is_on)(const void *user, const void *device);
    bool (*is_beside)(const void *user, const void *device);
    /* Of the device, by the number of such operands less one: what writes those words, its operand 0; and what touches
     * nothing, with the word of 4 bytes as its operand 0. */
    const rota_kernel *tells, *ends;
    /* NULL, or of all such nodes of a graph that a plan is made of, in the order of their records (`users`): that
     * order, as any of its plans is compiled, by any thread; and of each, that a replay with it has its turn in the
     * runtime's one order: by the sequencer, replay by replay, nodes as they were recorded. Neither waits. */
    void (*arranged)(void *const *users, uint32_t count);
    void (*submitted)(void *user);
    /* The same of a replay that fails as it would get its turn: nothing of it begins or is left out by who runs it. */
    void (*failed)(void *user);
    /* As a plan was compiled with rota_compile_options.compare_ranks, of the same: by who compiles. Waits. */
    rota_status (*compared)(void *const *users, uint32_t count);
} rota_host_on_device;

typedef struct rota_lane_chunk {
    struct rota_lane_chunk *next;
    size_t usable_bytes; /* of the block, header included */
    uint8_t *end;        /* end of the records in it, set when the lane moves on or closes */
} rota_lane_chunk;

typedef struct rota_after {
    rota_node later, earlier;
} rota_after;

/* How many collectives a lane has of each communicator: of sched/ranks. */
typedef struct rota_listed_collectives rota_listed_collectives;

typedef struct rota_lane_afters {
    rota_after *list;
    uint32_t count, capacity;
} rota_lane_afters;

typedef struct rota_lane_order {
    uint64_t key;
    bool is_first; /* before all lanes that are not, whatever their keys; those in the order of creation */
} rota_lane_order;

struct rota_recorder {
    rota_graph *graph;
    rota_lane_order order;
    const char *name;
    uint32_t lane;       /* creation number, from 1 */
    _Atomic bool closed; /* release by close, acquire by compile: all of the lane is visible */
    rota_lane_chunk *first_chunk, *chunk;
    uint8_t *next, *end; /* free part of the current chunk */
    uint32_t node_count;
    uint64_t access_count;
    rota_arena arena;            /* names, and what ops keep with the lane */
    rota_buffer **buffer_blocks; /* rota_buffer_block_of */
    uint32_t buffer_count, buffer_block_count;
    rota_lane_afters afters;
    /* PERSISTENT buffers that this lane holds, each at least once; recently seen ones need no second
     * reference. */
    rota_buffer **held;
    uint64_t held_count, held_capacity;
    size_t held_usable;
    rota_buffer *recent[64];
    rota_listed_collectives *collectives;
    struct rota_taped_uses *taped; /* of a body's lane: ops that tapes remembered, newest tape first (ops) */
};

/* A lane's buffers lie side by side, apart from their names, in blocks of 1, 2, 4 to 1024 pages, and of 1024 each from
 * there on, so that no list says where each is. */
enum { ROTA_BUFFERS_PER_PAGE = 64, ROTA_BUFFER_BLOCK_PAGES_MAX = 1024, ROTA_BUFFER_BLOCKS_SMALLER = 10 };

/* The block that a lane's buffer of such a number is in, and the number of the first there. */
static inline uint32_t rota_buffer_block_of(uint32_t index, uint32_t *out_first) {
    const uint32_t page = index / ROTA_BUFFERS_PER_PAGE + 1;
    uint32_t block, first;
    if (page < ROTA_BUFFER_BLOCK_PAGES_MAX) {
        block = 31u - (uint32_t)__builtin_clz(page);
        first = 1u << block;
    } else {
        block = ROTA_BUFFER_BLOCKS_SMALLER - 1 + page / ROTA_BUFFER_BLOCK_PAGES_MAX;
        first = page / ROTA_BUFFER_BLOCK_PAGES_MAX * ROTA_BUFFER_BLOCK_PAGES_MAX;
    }
    *out_first = (first - 1) * ROTA_BUFFERS_PER_PAGE;
    return block;
}
static inline uint32_t rota_buffer_block_pages(uint32_t block) {
    return block < ROTA_BUFFER_BLOCKS_SMALLER ? 1u << block : ROTA_BUFFER_BLOCK_PAGES_MAX;
}

/* A lane's buffer by its number; and, of those from there on, how many lie side by side. */
static inline rota_buffer *rota_lane_buffers(const rota_recorder *lane, uint32_t index, uint32_t *out_count) {
    uint32_t first;
    const uint32_t block = rota_buffer_block_of(index, &first);
    const uint32_t end = first + rota_buffer_block_pages(block) * ROTA_BUFFERS_PER_PAGE;
    *out_count = (end < lane->buffer_count ? end : lane->buffer_count) - index;
    return lane->buffer_blocks[block] + (index - first);
}
static inline rota_buffer *rota_lane_buffer(const rota_recorder *lane, uint32_t index) {
    uint32_t first;
    const uint32_t block = rota_buffer_block_of(index, &first);
    return lane->buffer_blocks[block] + (index - first);
}

#define ROTA_GRAPH_SLOTS_MAX 65536
enum { ROTA_SLOT_BLOCK = 256 };

typedef struct rota_slot_info {
    const char *name;
    uint32_t size_bytes;
    _Atomic uint32_t type; /* rota_value_type: of the first node that said one */
} rota_slot_info;

typedef rota_status (*rota_rewrite_opaque_fn)(void *user, void *rewriter);

typedef struct rota_rewrite_hook {
    rota_rewrite_opaque_fn fn;
    void *user;
} rota_rewrite_hook;

struct rota_graph {
    _Atomic uint32_t references;
    _Atomic bool compiled; /* or taken by a node as a body */
    /* A body's: the graph that it is for, held until a node of that takes it, and how many are around it. */
    struct rota_graph *outer;
    uint32_t depth;
    bool is_taken; /* under its mutex, as is the next */
    uint32_t
        open_bodies; /* bodies for it that no node has taken; 0 once it is taken, so that no one outlives `outer` */
    bool allow_reassociation;
    uint64_t memory_limit_bytes;
    const char *name;
    pthread_mutex_t mutex; /* all below but the slot blocks' contents, which are read without it */
    rota_arena arena;
    struct rota_recorder **lanes;
    uint32_t lane_count, lane_capacity;
    struct rota_recorder own; /* lane 0: only buffers */
    /* Blocks of slots never move; slot_count is the release that publishes an entry to recording threads. */
    rota_slot_info *slot_blocks[ROTA_GRAPH_SLOTS_MAX / ROTA_SLOT_BLOCK];
    _Atomic uint32_t slot_count;
    rota_set slot_names;                   /* of rota_slot_info */
    struct rota_conditional *conditionals; /* newest first; their bodies are the graph's to release */
    rota_rewrite_hook *hooks;
    uint32_t hook_count, hook_capacity;
    rota_release_fn release; /* of what nodes borrow */
    void *user;
};

/* The outermost graph around a body, which has the slots of all within; of others the graph itself. */
static inline const rota_graph *rota_graph_outermost(const rota_graph *graph) {
    while (graph->outer) graph = graph->outer;
    return graph;
}

/* Slot by index (from 1), which is in range. */
static inline rota_slot_info *rota_graph_slot_info(const rota_graph *graph, uint32_t index) {
    return &graph->slot_blocks[(index - 1) / ROTA_SLOT_BLOCK][(index - 1) % ROTA_SLOT_BLOCK];
}

/* Whether a lane's nodes come before another's. */
bool rota_lane_precedes(const rota_recorder *a, const rota_recorder *b);
/* A lane before all others, also of a body that a node has taken, as long as the graph around it is not compiled.
 * `name` is copied. WRONG_STATE, OUT_OF_MEMORY. */
rota_status rota_recorder_open_first(rota_graph *graph, const char *name, rota_recorder **out_recorder);
/* The lane's order key; where any of a graph's lanes is first, one that keeps it where it is among them without that.
 * O(lanes). */
uint64_t rota_lane_plain_key(const rota_recorder *lane, const rota_recorder *const *lanes, uint32_t count);

/* From here on nothing can be recorded; recorders that are open still are the compile's to refuse. */
void rota_graph_freeze(rota_graph *graph);
/* Stores a rewrite hook (sched/rewrite.h gives it its type). */
rota_status rota_graph_add_hook(rota_graph *graph, rota_rewrite_opaque_fn fn, void *user);

#endif
