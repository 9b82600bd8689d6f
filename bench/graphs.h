/* The graphs that the benchmarks and tests build: chain, wide, train and random, all of trivial kernels, with
 * the result of running them in record order. */
#ifndef ROTA_BENCH_GRAPHS_H
#define ROTA_BENCH_GRAPHS_H

#include <stdbool.h>
#include "bench/kernels.h"
#include "graph/graph.h"
#include "sched/runtime.h"

typedef enum bench_graph_kind {
    BENCH_CHAIN,  /* each node reads and writes one buffer */
    BENCH_WIDE,   /* N nodes on N buffers */
    BENCH_TRAIN,  /* layers of 36 nodes: 12 forward, then, last layer first, 24 backward; what is left over of
                     N are  optimizer nodes on a gradient and its parameter */
    BENCH_RANDOM, /* 2 reads and 1 write over 1024 buffers */
    BENCH_GRAPH_KIND_COUNT
} bench_graph_kind;
#define BENCH_GRAPH_FORM "chain|wide|train|random"
#define BENCH_LAYER_NODES 36
#define BENCH_NAME_MAX 40
#define BENCH_TRAIN_OPTIMIZER_MAX (BENCH_LAYER_NODES - 1)

typedef struct bench_graph_options {
    bench_graph_kind kind;
    uint64_t nodes; /* train: at least 36 */
    /* Buffers as large as in training (batch 8, 256 tokens, width 384, 6 heads), to be compiled only; else
     * each is one to three words, to be run. */
    bool real_sizes;
    bool slots;    /* the persistent buffers are SLOT buffers, to be bound at each replay */
    uint64_t skip; /* chain without seeds: so many buffers before the one that it uses */
    bool plain;    /* chain, wide and random without seeds: bench_kernels_plain */
    bool seeds;    /* each node's seed is in a slot; there are two sets of seeds to bind */
    bool uploads;  /* train: each layer's largest attention weight is uploaded at each replay into a transient
                   */
    bool layer_names;      /* train: nodes of layers are called after them, "layer 3 softmax"; for pictures */
    rota_runtime *runtime; /* whose persistent buffers; NULL: for compiling only */
} bench_graph_options;

typedef struct bench_graph {
    bench_graph_options options;
    rota_graph *graph;
    uint64_t layers, buffer_count, node_count; /* node_count: with the uploads */
    rota_buffer **buffers;                     /* NULL where a number is unused */
    rota_buffer **bound;                       /* slots: the persistent buffer of each */
    char (*layer_names)[BENCH_NAME_MAX];       /* by layer and row; NULL without */
    rota_slot *seed_slots;                     /* by node; NULL without seeds */
    rota_buffer **roots; /* with a runtime: the allocations of which the persistent buffers are views */
    uint64_t root_count, persistent_count;
    uint32_t train_modes[BENCH_LAYER_NODES]; /* bench_params.modes of each row of a layer */
    /* By buffer: 1 + number among the persistent ones; 0: not persistent. NULL with real sizes. */
    uint32_t *persistent_number;
} bench_graph;

/* One access of a node: bytes [offset, offset + size) of buffers[buffer]. */
typedef struct bench_access {
    uint64_t buffer, offset_bytes, size_bytes;
    rota_access_mode mode;
} bench_access;

typedef struct bench_node {
    const char *name;
    const rota_kernel *kernel; /* NULL: an upload, accesses[0] from accesses[1] */
    uint32_t access_count;
    bench_access accesses[BENCH_OPERANDS_MAX];
    bench_params params;
} bench_node;

/* The graph and its buffers; nothing is recorded yet. With a runtime the persistent buffers are written with
 * their first contents (see bench_graph_first). Statuses of rota; the message is rota's. */
rota_status bench_graph_create(const bench_graph_options *options, bench_graph **out_graph);
void bench_graph_release(bench_graph *graph);

/* Records nodes [first, first + count) into the lane. Any threads at once, each with its own lane. */
rota_status bench_graph_record(const bench_graph *graph, rota_recorder *recorder, uint64_t first,
                               uint64_t count);

/* All of it into `lanes` lanes, one after the other. */
rota_status bench_graph_record_all(const bench_graph *graph, uint32_t lanes);

/* Node `index` in record order. */
void bench_graph_node(const bench_graph *graph, uint64_t index, bench_node *out_node);

/* Binds slot buffers, inputs and, where they are in slots, the seeds of set 0 or 1, of which each differs
 * from the other set's; so do the slot buffers of all but train graphs. */
rota_status bench_graph_bind(const bench_graph *graph, rota_args *args, uint32_t set);

/* Writes the persistent buffers' first contents / compares them, read back, with what `replays` runs in
 * record order give, replay r with the seeds of set sets[r] (NULL: 0 in all). Sizes must not be real.
 * INTERNAL names the first difference. */
rota_status bench_graph_reset(const bench_graph *graph, rota_device *device);
rota_status bench_graph_check(const bench_graph *graph, uint64_t replays, const uint8_t *sets);

/* What `replays` runs in record order, with such sets, leave in each buffer, BENCH_WORDS_MAX words each,
 * from malloc; NULL out of memory. */
#define BENCH_WORDS_MAX 3
uint32_t *bench_graph_state(const bench_graph *graph, uint64_t replays, const uint8_t *sets);

/* The largest sum of bytes of transients live at once in record order; an output whose kernel allows it takes
 * over the memory of an input of its size that dies there. */
uint64_t bench_graph_lower_bound(const bench_graph *graph);

#endif
