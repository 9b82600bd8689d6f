/* Compiling a graph to a plan, and seeing what came of it. A plan is immutable. */
#ifndef ROTA_SCHED_PLAN_H
#define ROTA_SCHED_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include "../graph/graph.h"
#include "placing.h"
#include "runtime.h"

typedef enum rota_packing {
    ROTA_PACK_TIGHT,     /* least memory: the packer may order nodes to share it */
    ROTA_PACK_CONCURRENT /* least waiting: memory is shared only where order exists anyway */
} rota_packing;

/* Chooses the logical queue of a node; called once a node, in record order, during rota_compile. */
typedef uint32_t (*rota_queue_policy)(void *user, rota_node node, uint32_t queue_count);

typedef struct rota_compile_options {
    size_t struct_size; /* sizeof, by ROTA_COMPILE_OPTIONS() */
    const char *name;   /* copied; NULL: the graph's */
    /* Devices that placements may name; devices[0] is the graph's default. Borrowed. NULL with device_count
     * 0: the plan is only analysed (statistics, dot, explain), and can't be submitted. */
    rota_device *const *devices;
    uint32_t device_count;
    rota_packing packing; /* TIGHT where it has no room else within the runtime's memory limit */
    uint32_t queues;      /* logical queues to use; 0: 1 */
    rota_queue_policy
        queue_policy; /* NULL: queue 0, and uploads and read-backs on the transfer queue if transfer_queue */
    void *queue_policy_user;
    bool transfer_queue; /* uploads and read-backs of INPUT and OUTPUT on the device's transfer queue */
    uint32_t instances;  /* replays of the plan that may be in flight with arguments of their own; 0: 4 */
    uint32_t arenas;     /* copies of the transient memory: replays on different ones overlap; 0: 1 */
    /* Looks at the plan again, apart from all that made it: that each two operations which conflict are
     * ordered, by batches and by edges, that buffers share memory only one after the other, that waits are
     * for what was handed over before, and that a replay ends after all it did. INTERNAL names what is not
     * so. At most three times what the compilation takes. */
    bool certify;
    bool allow_undefined_reads; /* reading a transient that nothing wrote is no error (tests) */
    /* Instead of the graph's; 0: the graph's; UINT64_MAX: none. Where no room is left within the runtime's memory
     * limit, the plan gets what is free of that as its limit, less some for staging where it can, but with UINT64_MAX:
     * then it fails. */
    uint64_t memory_limit_bytes;
    /* A plan of this runtime whose transient memory this one uses too, as far as its own fits in there:
     * replays of the two wait for one another. Both are for one device, the same, with one arena. The new
     * plan holds a reference on it. NULL: none. */
    rota_plan *arena_of;
    /* Every kernel, one of the caller's own too, is watched at each replay, on any device: it runs on copies of
     * its operands between bands of a pattern, twice, over two patterns, before what it made takes its place.
     * Where it changes a byte outside of its operands or of a READ one, leaves one of a WRITE unwritten, or
     * (ROTA_KERNEL_PURE) makes other bytes the second time, which is what it does that reads where it declares
     * nothing, the node fails; the sentence names node, kernel, operand, buffer and byte, and what to do about
     * it. Results are the same. Many times the time and memory, part of it on the CPU device: for finding what
     * is wrong with a kernel. Times of nodes, commands and statistics are of what is added, too.
     * A node whose kernel interleaves what it writes (ROTA_KERNEL_INTERLEAVED, ranges that overlap) is not
     * watched. */
    bool check_kernels;
    /* Places what is ROTA_PLACE_AUTO, in plans of several devices (placing.h). NULL: rota_placing_choose; and where the
     * plan is then too large for a device's memory or the limit, or has a kernel that its device refuses, one device
     * as far as it goes, the first that takes it. */
    rota_placer placer;
    void *placer_user;
    /* Nodes without a device of their own are placed as ROTA_PLACE_AUTO ones are, in place of on devices[0]. What
     * has a device keeps it. Results are the same wherever nodes are, where their kernels' are. */
    bool place_auto;
    /* Costs are told by a table of devices alone, not by what rota_plan_learn has kept: the same graph on the same
     * devices is always placed alike. */
    bool place_by_table;
    /* Nodes that touch a PERSISTENT buffer, and that devices[0] runs, are placed there, of those that are placed
     * automatically: those buffers then stay where they are. */
    bool place_persistent_first;
    /* Nothing that changes bits is chosen by measuring, nor by what an earlier process measured: ways of products,
     * attention and convolutions are those of a table (cuBLASLt's and cuDNN's heuristics, rota's own kernels), and
     * costs are told as by place_by_table. So the same graph, recorded and compiled alike on GPUs of one model, with
     * the same libraries and driver, has the same bits in every process, whatever its caches hold. Without it, that
     * holds for all replays of one process, and for processes that share a cache folder. Kernels may be slower. */
    bool deterministic;
    /* Compares what the graph has of collectives with what the other ranks' graphs have, now: all ranks of all
     * communicators that it has collectives on compile with it, in one order and between the same submissions, as of a
     * split: what was submitted on them is waited for, and then the other ranks, on all communicators at once, up to
     * the longest timeout of theirs; one compilation or split of a communicator at a time (WRONG_STATE). NODE_FAILED:
     * the first node that differs is named, on all ranks, or who did not come, and those communicators have ended.
     * TIMEOUT: a library that carries messages did not come back. Without it a compilation waits for nobody, and ranks
     * compare before the first collective of a submission begins. */
    bool compare_ranks;
} rota_compile_options;
#define ROTA_COMPILE_OPTIONS(...) ROTA_SIZED(rota_compile_options, __VA_ARGS__)

/* Compiles. The graph can't be recorded into afterwards, but may be compiled again with other options. Fails,
 * naming node and lane: UNDEFINED_DATA (read of a transient that nothing wrote), ALREADY_EXISTS (duplicate
 * lane keys), WRONG_STATE (open recorder), UNSUPPORTED (kernel not on that device), INVALID_ARGUMENT
 * (options, or a device of another runtime), OUT_OF_MEMORY (need, limit and free; of a memory limit, how far
 * the plan is from it, where, and the largest buffers there), OUT_OF_RANGE (more than 2^30 nodes, 2^31
 * accesses or 2^32 - 2 edges), and what rota_runtime_options.compiled says. `options` may be NULL, and so may
 * `runtime` where the plan is only analysed. The caller owns one reference. May block in malloc and drivers.
 * Time and memory are O((nodes + accesses) log(ranges of one buffer)) whatever the graph, on so many devices
 * and queues; in plans of several, where a segment reads ranges that the plan has not written, also in the
 * number of those. */
ROTA_API rota_status rota_compile(rota_runtime *runtime, rota_graph *graph,
                                  const rota_compile_options *options, rota_plan **out_plan);

/* One reference more / one less; NULL is ignored. Any thread. Retain is wait-free. Release is lock-free, also
 * while replays are in flight (what they use is freed when they are over); of a plan that is only analysed,
 * and after the runtime was closed, the last release frees it, which may block in malloc. */
ROTA_API void rota_plan_retain(rota_plan *plan);
ROTA_API void rota_plan_release(rota_plan *plan);

typedef struct rota_plan_stats {
    size_t struct_size;                 /* sizeof, by ROTA_PLAN_STATS() */
    uint64_t nodes, accesses, commands; /* commands: nodes and the copies that rota inserted */
    uint64_t edges;                     /* kept, with those into joins */
    uint64_t joins; /* points without work behind many nodes, so that as many after them need one edge each */
    uint64_t edges_dropped; /* hazards proved implied by what is kept */
    uint64_t edges_raw, edges_war, edges_waw, edges_memory, edges_after; /* of the kept ones, by cause */
    uint64_t barriers, batches, segments, queue_waits, queue_waits_dropped;
    uint64_t arena_bytes, arena_lower_bound_bytes;
    uint64_t recomputed; /* nodes that run a second time, for the memory limit */
    uint64_t merged;     /* nodes whose work another node does: rewrites, such as fusion, put them together */
    uint64_t plan_bytes; /* host memory of the plan */
    uint32_t queues, devices;
} rota_plan_stats;
#define ROTA_PLAN_STATS(...) ROTA_SIZED(rota_plan_stats, __VA_ARGS__)

/* What compiling counted; constant. INVALID_ARGUMENT: out_stats->struct_size (base/sized.h). Wait-free. */
ROTA_API rota_status rota_plan_get_stats(const rota_plan *plan, rota_plan_stats *out_stats);

typedef enum rota_draw_format {
    ROTA_DRAW_DOT, /* Graphviz's language */
    ROTA_DRAW_SVG  /* a picture, nodes by level: each is below all that it waits for */
} rota_draw_format;

typedef struct rota_draw_options {
    size_t struct_size; /* sizeof, by ROTA_DRAW_OPTIONS() */
    rota_draw_format format;
    /* Each section is one node, and all edges between two are one. Else its nodes stand in a field of their
     * own. A section: nodes in a row of the record order whose names begin alike, up to the first word that
     * ends with a digit ("layer 3 attention", "h.0.attn"), else up to the first '.', '/' or ':', else all of
     * them. */
    bool collapse;
} rota_draw_options;
#define ROTA_DRAW_OPTIONS(...) ROTA_SIZED(rota_draw_options, __VA_ARGS__)

/* Draws the plan: nodes with their kernels, edges by hazard kind and memory, queues, batches, and what the
 * colours mean. Written to a random name beside it and renamed (a device or pipe is written directly).
 * `options` may be NULL. SYSTEM names the file and the reason; INVALID_ARGUMENT: options; OUT_OF_MEMORY. Any
 * thread. Linear in nodes and edges, of SVG n log n in the nodes that are drawn. */
ROTA_API rota_status rota_plan_draw(const rota_plan *plan, const rota_draw_options *options,
                                    const char *path);

/* rota_plan_draw for Graphviz, without options. */
ROTA_API rota_status rota_plan_write_dot(const rota_plan *plan, const char *path);

/* Chrome trace JSON of the last completed replay: per-node device times, queues as tracks (several, where
 * nodes overlap), submissions, waits, arrows along the plan's edges, bytes of the arenas in use. Written as
 * the former. WRONG_STATE: no diagnostics in the runtime's options, no replay completed yet, the plan is only
 * analysed, or its runtime was closed. OUT_OF_MEMORY. May block in a driver. O(n log n) in commands. */
ROTA_API rota_status rota_plan_write_trace(rota_plan *plan, const char *path);

/* Times of one node in the last completed replay, on rota_clock_ns's clock; both 0 if the node was skipped.
 * WRONG_STATE as above; NOT_FOUND: no such node in the plan; UNSUPPORTED: the device measures no times; BUSY: it
 * or the host was too busy, for a second, for the two clocks to be compared. Reads the times of all the device's
 * nodes: for many nodes rota_plan_write_trace is the cheaper way. */
ROTA_API rota_status rota_plan_node_times(rota_plan *plan, rota_node node, uint64_t *out_begin_ns,
                                          uint64_t *out_end_ns);

typedef enum rota_plan_command_kind {
    ROTA_PLAN_KERNEL,
    ROTA_PLAN_COPY,
    ROTA_PLAN_FILL,
    ROTA_PLAN_HOST,
    ROTA_PLAN_UPLOAD,     /* of an INPUT */
    ROTA_PLAN_READ_BACK,  /* of an OUTPUT */
    ROTA_PLAN_TRANSFER,   /* between devices */
    ROTA_PLAN_CONDITIONAL /* a node that decides, with its bodies */
} rota_plan_command_kind;

/* A command of a plan: a node, or a copy that rota inserted. */
typedef struct rota_plan_command {
    size_t struct_size; /* sizeof, by ROTA_PLAN_COMMAND() */
    const char *name;   /* lives as long as the plan */
    rota_plan_command_kind kind;
    const rota_kernel *kernel; /* of KERNEL, else NULL */
    rota_device *device;       /* NULL in a plan that is only analysed */
    uint32_t queue, segment, batch;
    uint64_t read_bytes, written_bytes; /* as its accesses declare */
    double work;                        /* rota_kernel.work; 0: the kernel doesn't say */
    uint64_t live_bytes; /* of transient, INPUT and OUTPUT buffers on its device while it runs, in record
                            order; the most of them is what arena_lower_bound_bytes adds up */
} rota_plan_command;
#define ROTA_PLAN_COMMAND(...) ROTA_SIZED(rota_plan_command, __VA_ARGS__)

/* All commands (rota_plan_stats.commands of them) in record order. out_commands[0].struct_size is the size of each
 * element (base/sized.h; INVALID_ARGUMENT), which all get it. OUT_OF_RANGE: less room than that;
 * OUT_OF_MEMORY. Any thread. Linear in nodes and accesses. */
ROTA_API rota_status rota_plan_get_commands(const rota_plan *plan, rota_plan_command *out_commands,
                                            uint64_t capacity);

typedef struct rota_plan_time {
    uint64_t begin_ns, end_ns; /* both 0: skipped, or nothing to do on that device */
} rota_plan_time;
/* Where a replay stood, on rota_clock_ns's clock. Handed over: the last of it, to its device, also where
 * it was skipped. Completed: the host was told that the device is through, by which a ticket without OUTPUTs
 * ends; OUTPUTs may be copied to the caller's memory after that. */
typedef struct rota_plan_replay {
    size_t struct_size; /* sizeof, by ROTA_PLAN_REPLAY() */
    uint64_t number, submitted_ns, sequenced_ns, handed_over_ns, completed_ns;
} rota_plan_replay;
#define ROTA_PLAN_REPLAY(...) ROTA_SIZED(rota_plan_replay, __VA_ARGS__)

/* When each command ran in the last completed replay, in the order of rota_plan_get_commands; out_replay may
 * be NULL. Where another replay of the plan is under way, times of that one may stand among them. Errors as
 * of rota_plan_node_times and the former's. May block in a driver. Linear in commands. */
ROTA_API rota_status rota_plan_command_times(rota_plan *plan, rota_plan_time *out_times, uint64_t capacity,
                                             rota_plan_replay *out_replay);

/* Keeps what nodes, copies and all of it took in the last completed replay, in memory and the runtime's cache_dir, for
 * automatic placement to come: by the kernel's name and parameters, the bytes of each operand, and the device's name
 * and driver; and what the whole replay took, which overrules what the model says of the graph on these devices: later
 * compiles take the best placement that was measured. With a runtime that has diagnostics they also try each device
 * alone once, and a few placements on several. Of a replay that was submitted while another one of the runtime was
 * under way, or that came after points not reached yet, the whole is not kept. Means of many replays are better than
 * one. Nodes that ran beside others took longer by that. Errors as of rota_plan_command_times; what can't be written to
 * the cache is none. Any thread; may block in a driver and in file calls. Linear in nodes and commands. */
ROTA_API rota_status rota_plan_learn(rota_plan *plan);

/* Why a node waits, on what, by which buffer and range, in sentences, into text[0..capacity); always
 * terminated where capacity is not 0. out_length (may be NULL) gets the full length, without the terminator.
 * NOT_FOUND: no such node, or one that a rewrite removed. Any thread. */
ROTA_API rota_status rota_plan_explain(const rota_plan *plan, rota_node node, char *text, uint64_t capacity,
                                       uint64_t *out_length);

/* What runs a node's kernel on the node's device, and why it is that: which of several it is, in which tiles, by which
 * library, what else there was and what that took where it was measured, what was left out and for which reason, and
 * whether that was found out now or by an earlier process. In lines, into text as rota_plan_explain does; out_length
 * too. A kernel of the caller's own says it by rota_kernel_functions.why. NOT_FOUND as there; WRONG_STATE: the plan is
 * only analysed, or its runtime was closed. Any thread; may block in file calls. */
ROTA_API rota_status rota_plan_explain_kernel(const rota_plan *plan, rota_node node, char *text,
                                              uint64_t capacity, uint64_t *out_length);

#endif
