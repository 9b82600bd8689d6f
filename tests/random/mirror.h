/* Random graphs described apart from rota: a seeded generator makes the description, which is recorded into a
 * rota_graph (mirror.c) and run node by node on host arrays (reference.c). All offsets and sizes are in
 * bytes. */
#ifndef ROTA_TESTS_MIRROR_H
#define ROTA_TESTS_MIRROR_H

#include <stdbool.h>
#include <stdint.h>
#include "graph/conditional.h"
#include "sched/plan.h"
#include "tests/kernels/kernels.h"

enum { MIRROR_COPY = TEST_KERNEL_COUNT, MIRROR_FILL, MIRROR_HOST, MIRROR_NODE_KINDS };
enum { MIRROR_COUNTS = 4 }; /* words of a graph's counts, which each replay brings */
enum { MIRROR_ACCESSES_MAX = 8, MIRROR_LANES_MAX = 6, MIRROR_PLANS_MAX = 3, MIRROR_SLOTS_MAX = 6 };

typedef struct mirror_limits {
    uint32_t nodes;      /* most nodes of a graph */
    uint32_t bytes;      /* most bytes of a buffer */
    uint32_t granule;    /* of offsets and sizes: 4, or 16 for the touch mode (then copies keep to it too) */
    uint32_t queues;     /* logical queues there are */
    uint32_t devices;    /* nodes are placed on any */
    uint32_t keep_nodes; /* only the first so many nodes of each graph stay (for shrinking); 0: all */
    bool host_nodes, many_host_nodes;
    bool counted;   /* some kernels and copies are */
    bool automatic; /* rota, or a policy at random, places some nodes */
} mirror_limits;

/* Memory of the runtime that all plans of a case share, and what it must hold at this point of the script. */
typedef struct mirror_persistent {
    uint32_t bytes;
    bool for_slots; /* only bound to SLOT buffers, never named by a node */
    uint8_t *values;
    rota_buffer *handle;
} mirror_persistent;

typedef struct mirror_buffer {
    rota_buffer_kind kind;
    uint32_t bytes;
    uint32_t root, root_offset;           /* of a view; of a root: itself, 0 */
    uint32_t persistent;                  /* PERSISTENT: which */
    bool is_view, through_recorder, used; /* used: a node names this root or a view of it */
    uint8_t *defined; /* TRANSIENT and OUTPUT roots: which bytes were written so far in record order */
    uint32_t group;   /* 1 + the only group that touches its root, in whose body it is; 0: the graph's */
    uint8_t *storage; /* of roots, while the reference runs */
    rota_buffer *handle;
    char name[16];
} mirror_buffer;

typedef struct mirror_access {
    uint32_t buffer, offset, bytes;
    rota_access_mode mode;
} mirror_access;

typedef struct mirror_node {
    uint32_t kind; /* TEST_KERNEL_*, MIRROR_COPY, ... */
    uint32_t access_count;
    mirror_access access[MIRROR_ACCESSES_MAX];
    test_params params;
    uint32_t p_slot, seed_slot; /* 1 + index in slots; 0: the value in params */
    uint32_t pattern;           /* fill; host function's user value */
    uint32_t lane;
    uint32_t queue_plus_1, device_plus_1;
    uint32_t group;  /* 1 + which it is in; 0: none */
    bool ends_later; /* a host node that does (hosts_later.h) */
    /* Of a kernel or copy that is counted: 1 + the most it may count, and how many it counts, items or units. */
    uint32_t count_max_plus_1, count, unit_bytes;
    uint32_t count_word_plus_1; /* its count is that word of the graph's, in the place of `count` */
    rota_node handle;
} mirror_node;

/* Nodes of a lane, one after the other, in the body of a node that decides (decide.h). A layer is such a node: its body
 * has the next layer's node, and then nodes up to `end`, from that one's on. */
enum { MIRROR_LAYERS_MAX = 3 };
enum { MIRROR_IF, MIRROR_FOR, MIRROR_WHILE, MIRROR_SWITCH, MIRROR_LAYER_KINDS };
typedef struct mirror_layer {
    uint32_t kind, count, end;
} mirror_layer;
typedef struct mirror_group {
    uint32_t first, layer_count;
    mirror_layer layers[MIRROR_LAYERS_MAX];
} mirror_group;

typedef struct mirror_graph {
    uint32_t buffer_count, node_count, lane_count, slot_count, after_count;
    mirror_buffer *buffers;
    mirror_node *nodes;                 /* in record order */
    uint32_t count_most[MIRROR_COUNTS]; /* of each word: what all of its nodes may count; 0: it has none */
    uint64_t lane_key[MIRROR_LANES_MAX];
    uint32_t slot_bytes[MIRROR_SLOTS_MAX];
    uint32_t (*afters)[2]; /* later, earlier */
    mirror_group *groups;
    uint32_t group_count;
    uint64_t policy_seed;
    bool automatic;
    rota_compile_options options; /* all but devices */
    rota_graph *graph;
    rota_buffer *counts; /* INPUT */
    rota_slot slots[MIRROR_SLOTS_MAX];
    rota_plan *plan;
    rota_args *args;
} mirror_graph;

typedef struct mirror_case {
    uint64_t seed;
    mirror_limits limits;
    uint32_t persistent_count, graph_count, script_length;
    mirror_persistent *persistents;
    mirror_graph graphs[MIRROR_PLANS_MAX];
} mirror_case;

/* What one replay is given and must give. */
typedef struct mirror_replay {
    uint64_t slot_value[MIRROR_SLOTS_MAX];
    uint32_t counts[MIRROR_COUNTS];
    bool exceeds;       /* set by the reference: a node came to a count above its maximum, and was left out */
    uint8_t **data;     /* of each buffer: INPUT contents, OUTPUT destination, else NULL */
    uint8_t **expected; /* of each OUTPUT buffer, filled by the reference */
    uint32_t *bound;    /* of each SLOT buffer: persistent */
    uint32_t *bound_offset;
} mirror_replay;

/* Makes a case from its seed; never fails (aborts when the host is out of memory). */
void mirror_generate(mirror_case *out_case, uint64_t seed, const mirror_limits *limits);
void mirror_free(mirror_case *mirror);

/* Random contents, slot values and bindings for one replay of a graph. */
void mirror_replay_generate(const mirror_case *mirror, const mirror_graph *graph, uint64_t *random,
                            mirror_replay *out_replay);
void mirror_replay_free(const mirror_graph *graph, mirror_replay *replay);

/* Records a graph into rota, lanes interleaved. Persistent handles must exist. */
rota_status mirror_record(mirror_case *mirror, mirror_graph *graph, uint64_t *random);
/* Records one node, into a lane of the graph or of a body. */
rota_status mirror_record_node(mirror_graph *graph, mirror_node *node, rota_recorder *recorder);
/* Compiles it for the devices given and makes its arguments. */
rota_status mirror_compile(mirror_graph *graph, rota_runtime *runtime, rota_device *const *devices,
                           uint32_t device_count);
/* Sets everything a replay needs in graph->args. `copy_inputs`: inputs are copied at submit. */
rota_status mirror_set_args(const mirror_case *mirror, mirror_graph *graph, const mirror_replay *replay,
                            bool copy_inputs);
/* Drops plan, arguments, views and graph. */
void mirror_release(mirror_graph *graph);

/* Runs the replay on host arrays, one node after the other: changes the persistents' values and fills
 * `expected`. */
void reference_run(mirror_case *mirror, mirror_graph *graph, mirror_replay *replay);

/* The first byte of an output that differs from what is expected, of those the graph defines; -1: none. */
int64_t reference_compare(const mirror_buffer *buffer, const uint8_t *expected, const uint8_t *got);

/* Prints the description, for finding out. */
void mirror_print(const mirror_case *mirror);

#endif
