/* Graphs and recording: operations as nodes with explicit access sets, in lanes that many threads fill at
 * once.
 *
 * Record order, which defines what a graph means: lanes in ascending order key, and within a lane the
 * order of its calls. Which thread filled which lane when does not matter. */
#ifndef ROTA_GRAPH_GRAPH_H
#define ROTA_GRAPH_GRAPH_H

#include <stdint.h>
#include "../base/sized.h"
#include "buffer.h"
#include "kernel.h"

typedef struct rota_graph rota_graph;
typedef struct rota_recorder rota_recorder;

/* A node of one graph: lane and position in it. Valid as long as the graph and its plans. */
typedef struct rota_node {
    uint32_t lane; /* creation number of the lane, not its order key */
    uint32_t index;
} rota_node;

/* An argument of one graph: a value of 4 or 8 bytes given at each replay. */
typedef struct rota_slot {
    uint32_t index; /* 1-based; 0 is no slot */
} rota_slot;

typedef enum rota_access_mode {
    ROTA_READ,
    ROTA_WRITE, /* every byte of the range is written, none read */
    ROTA_READWRITE,
    ROTA_ACCUMULATE, /* adds into the range; float accumulates keep record order unless ALLOW_REASSOCIATION */
    ROTA_ACCESS_MODE_COUNT
} rota_access_mode;

/* "READ" and so on; "UNKNOWN" for what is none. Static storage. */
ROTA_API const char *rota_access_mode_name(rota_access_mode mode);

/* One access: bytes [offset, offset + size) of a buffer (of a view: relative to the view). */
typedef struct rota_access {
    rota_buffer *buffer; /* borrowed during the call; the graph takes its own reference */
    uint64_t offset_bytes;
    uint64_t size_bytes; /* ROTA_WHOLE: to the end of the buffer */
    rota_access_mode mode;
} rota_access;

#define ROTA_WHOLE UINT64_MAX

/* Binds one bindable parameter of the kernel to a slot, or says that a step-varying one is meant to be
 * constant. */
typedef struct rota_param_binding {
    uint32_t bindable; /* index in kernel->bindables */
    rota_slot slot;    /* or ROTA_SLOT_CONSTANT */
} rota_param_binding;

#ifdef __cplusplus
#define ROTA_SLOT_CONSTANT (rota_slot{UINT32_MAX})
#else
#define ROTA_SLOT_CONSTANT ((rota_slot){UINT32_MAX})
#endif

/* Where a node runs. Zeroed: the graph's default device and the queue policy's choice. */
typedef struct rota_placement {
    /* 1 + index of the device in rota_compile_options.devices; 0: the graph's default; ROTA_PLACE_AUTO */
    uint32_t device_plus_1;
    uint32_t queue_plus_1; /* 1 + logical queue; 0: the policy's choice */
} rota_placement;

/* In rota_placement.device_plus_1: rota_compile chooses one of the plan's devices (sched/placing.h). In a body: where
 * its node is. */
#define ROTA_PLACE_AUTO 255u

/* What somebody lent is needed no longer. */
typedef void (*rota_release_fn)(void *user);

typedef struct rota_graph_options {
    size_t struct_size;       /* sizeof, by ROTA_GRAPH_OPTIONS() */
    const char *name;         /* copied; NULL: "graph" */
    bool allow_reassociation; /* float accumulates may be reordered */
    /* What transient, INPUT and OUTPUT buffers of a plan may take together (an arena of it, over all its
     * devices). Where they would take more, the plan computes transients again instead of keeping them, those
     * first that cost least a byte: the results of nodes whose kernels are marked PURE, of copies and of
     * fills. Results don't change. 0: no limit. */
    uint64_t memory_limit_bytes;
    /* NULL, or: called once, when neither the graph nor a plan of it is there any more: kernels, names and what
     * is for host functions (`user`), which nodes borrow, are needed no longer. On the thread that gave back the
     * last reference, which may be rota's own; it may call nothing of rota's that blocks. Not called where no
     * graph was made, nor where close abandons a device that plans of it run on (rota_devices_abandoned). */
    rota_release_fn release;
    void *user;
} rota_graph_options;
#define ROTA_GRAPH_OPTIONS(...) ROTA_SIZED(rota_graph_options, __VA_ARGS__)

/* An empty graph; the caller owns one reference. `options` may be NULL. May block in malloc. */
ROTA_API rota_status rota_graph_create(const rota_graph_options *options, rota_graph **out_graph);

/* One reference more / one less. Any thread, also while plans compiled from it live. Retain is wait-free; so
 * is release, but for the last one, which frees what was recorded: takes time with its size, and may block in
 * malloc and behind other threads that record, compile or free. NULL is ignored. */
ROTA_API void rota_graph_retain(rota_graph *graph);
ROTA_API void rota_graph_release(rota_graph *graph);

/* An INPUT, OUTPUT, TRANSIENT or SLOT buffer of this graph. `name` is copied. The graph keeps it for its
 * whole life; the caller's reference is the graph's (do not release it unless you retained it). Any thread,
 * several at once; may block in malloc. WRONG_STATE: graph already compiled. */
ROTA_API rota_status rota_graph_buffer(rota_graph *graph, rota_buffer_kind kind, const char *name,
                                       uint64_t size_bytes, rota_buffer **out_buffer);

/* A value argument of 4 or 8 bytes; its type is that of the parameters which are bound to it, where their
 * kernels say one (rota_kernel_bindable). `name` is copied and must be new in the graph. Any thread; may
 * block in malloc. ALREADY_EXISTS, INVALID_ARGUMENT (size), WRONG_STATE (graph already compiled). */
ROTA_API rota_status rota_graph_slot(rota_graph *graph, const char *name, uint32_t size_bytes,
                                     rota_slot *out_slot);

/* Opens a lane. One thread at a time may use a recorder; different recorders of one graph are independent,
 * with no shared writes. Order keys must differ; that is checked at compile, which names both lanes. `name`
 * is copied (NULL: "key <key>"). May block in malloc. WRONG_STATE: graph already compiled. */
ROTA_API rota_status rota_recorder_open(rota_graph *graph, uint64_t order_key, const char *name,
                                        rota_recorder **out_recorder);

/* Room for that many more nodes, accesses, and bytes of parameters: recording within it is wait-free and does
 * not allocate. Recording beyond it grows the lane, which may block in malloc. */
ROTA_API rota_status rota_recorder_reserve(rota_recorder *recorder, uint64_t nodes, uint64_t accesses,
                                           uint64_t param_bytes);

/* The same as rota_graph_buffer, out of the lane's own memory: no lock and no shared write, so that lanes
 * make buffers side by side. One thread at a time per recorder; may block in malloc when the lane grows. */
ROTA_API rota_status rota_recorder_buffer(rota_recorder *recorder, rota_buffer_kind kind, const char *name,
                                          uint64_t size_bytes, rota_buffer **out_buffer);

/* Ends the lane; its nodes stay in the graph. A graph is compiled after all its recorders were closed. NULL
 * is ignored. Wait-free. */
ROTA_API void rota_recorder_close(rota_recorder *recorder);

/* The node that was recorded last in this lane, whatever recorded it: an op, rota_backward, a call of this
 * header. Nodes of a lane have consecutive indexes: those of an op are the ones after the node that this gave
 * before it (none, where the op only made a view, or had no element to write). NOT_FOUND: the lane has no
 * node. Of a closed recorder, too, while its graph lives. Wait-free. */
ROTA_API rota_status rota_recorder_last_node(const rota_recorder *recorder, rota_node *out_node);

/* The graph that the recorder records into. */
ROTA_API rota_graph *rota_recorder_graph(const rota_recorder *recorder);

/* A kernel node. accesses[i] is operand i of the kernel. */
typedef struct rota_kernel_node {
    size_t struct_size;          /* sizeof, by ROTA_KERNEL_NODE() */
    const rota_kernel *kernel;   /* borrowed for the life of graph and plans */
    const char *name;            /* borrowed for the life of graph and plans; NULL: the kernel's name */
    const rota_access *accesses; /* read during the call */
    uint32_t access_count;
    const void *params;                 /* kernel->param_bytes bytes, copied; may be NULL if that is 0 */
    const rota_param_binding *bindings; /* copied */
    uint32_t binding_count;
    uint32_t groups[3]; /* workgroups where the kernel has no grid function; zeroes mean 1 */
    rota_placement placement;
} rota_kernel_node;
#define ROTA_KERNEL_NODE(...) ROTA_SIZED(rota_kernel_node, __VA_ARGS__)

/* Errors, each naming node, kernel and buffer; nothing is recorded then: OUT_OF_RANGE (access outside its
 * buffer; the range and the size), INVALID_ARGUMENT (wrong number of accesses; write to INPUT; buffer of
 * another graph; step-varying parameter given as a plain value; unknown slot or a slot of another size),
 * MISALIGNED (offset not a multiple of 4), OVERLAP, WRONG_STATE (graph already compiled; recorder closed),
 * OUT_OF_MEMORY. `out_node` may be NULL. O(accesses). */
ROTA_API rota_status rota_record_kernel(rota_recorder *recorder, const rota_kernel_node *node,
                                        rota_node *out_node);

/* Copies size bytes between any offsets; the two ranges must not overlap (OVERLAP). Further errors, and cost,
 * as of rota_record_kernel. */
ROTA_API rota_status rota_record_copy(rota_recorder *recorder, rota_buffer *destination,
                                      uint64_t destination_offset_bytes, rota_buffer *source,
                                      uint64_t source_offset_bytes, uint64_t size_bytes, rota_node *out_node);

/* Fills with a repeated 32-bit pattern. Offset and size are multiples of 4 (MISALIGNED). Further errors, and
 * cost, as of rota_record_kernel. */
ROTA_API rota_status rota_record_fill(rota_recorder *recorder, rota_buffer *destination,
                                      uint64_t offset_bytes, uint64_t size_bytes, uint32_t pattern,
                                      rota_node *out_node);

/* What a host function gets: the host address of each access's first byte, its size, and `user`. It runs on a
 * worker of the CPU executor, ordered like any node. Returns ROTA_OK or the result of rota_fail. It must not
 * wait for a ticket of the same runtime. */
typedef rota_status (*rota_host_fn)(void *user, void *const *operands, const uint64_t *operand_bytes,
                                    uint32_t operand_count);

/* One run of a host node that ends later: from its `begin` to rota_host_end. */
typedef struct rota_host_run rota_host_run;

/* A host node that ends later than its function returns: what it began goes on elsewhere (messages, a disk), and no
 * thread of the CPU device's waits for that. */
typedef struct rota_host_later {
    /* Begins, on a thread of the CPU device's, and waits for nothing. `operands` and `operand_bytes` are read during
     * the call; the memory that they name is the run's until it ends. ROTA_OK: somebody calls rota_host_end for `run`
     * once, on any thread, maybe before this returns; else the node has failed, by rota_fail, and nobody does. */
    rota_status (*begin)(void *user, void *const *operands, const uint64_t *operand_bytes,
                         uint32_t operand_count, rota_host_run *run);
    /* NULL, or: called in the place of `begin`, when its turn has come, where the node is left out, since something
     * that it reads has failed or its submission was cancelled: for who must tell others. Waits for nothing. Not called
     * where a whole submission fails before it gets to the CPU device. */
    void (*skipped)(void *user);
} rota_host_later;

/* The run's end: its results are in their memory, or (not ROTA_OK, by rota_fail on this thread) the node has failed.
 * What the caller wrote before is seen by what depends on the node. `run` is gone with it, and with the plan; until
 * then a second end is ignored, unless another run of the node has begun. Any thread; lock-free. A device is closed
 * only when all runs have ended; one that has not by close's deadline is abandoned with it (rota_devices_abandoned),
 * and its end is then nobody's. A device that is lost says so only then, too: until the runs end, or who waits for it
 * has waited long enough. NULL is ignored. */
ROTA_API void rota_host_end(rota_host_run *run, rota_status status);

typedef struct rota_host_node {
    size_t struct_size; /* sizeof, by ROTA_HOST_NODE() */
    rota_host_fn fn;
    void *user;       /* borrowed for the life of graph and plans */
    const char *name; /* borrowed likewise; NULL: "host" */
    const rota_access *accesses;
    uint32_t access_count;
    const rota_host_later *ends_later; /* in the place of `fn`; borrowed likewise */
} rota_host_node;
#define ROTA_HOST_NODE(...) ROTA_SIZED(rota_host_node, __VA_ARGS__)

/* A function of the host's, called on a thread of the CPU device's. INVALID_ARGUMENT: no function or two, more than
 * ROTA_KERNEL_OPERANDS_MAX accesses. UNSUPPORTED: one that ends later, in a body (conditional.h). Further errors, and
 * cost, as of rota_record_kernel. */
ROTA_API rota_status rota_record_host(rota_recorder *recorder, const rota_host_node *node,
                                      rota_node *out_node);

/* Orders `later` after `earlier`, which may share no data. Both nodes exist already; `later` is a node of
 * this recorder's lane, `earlier` any node before it in record order (where they are of different lanes,
 * checked at compile, which names both). INVALID_ARGUMENT, WRONG_STATE (recorder closed), OUT_OF_MEMORY.
 * O(1). */
ROTA_API rota_status rota_node_after(rota_recorder *recorder, rota_node later, rota_node earlier);

/* Number of nodes in all lanes closed so far. */
ROTA_API uint64_t rota_graph_node_count(const rota_graph *graph);

#endif
