/* Nodes that decide: if, while, for and switch. What such a node runs, its *body*, is a graph of its own that is
 * recorded like any other, into which the node's graph then takes it.
 *
 *     rota_graph_create_body(graph, "step", &body);
 *     rota_recorder_open(body, 0, NULL, &inner);          nodes of the body: buffers of `graph`, and its own transients
 *     rota_record_kernel(inner, ...);
 *     rota_recorder_close(inner);
 *     rota_record_while(recorder, &ROTA_WHILE_NODE(.condition = more, .body = body, .iterations_max = 1000), NULL);
 *
 * To the graph it is recorded into, the node is one like any other: its accesses are what the nodes of its bodies touch
 * of buffers that are not the bodies' own, with its condition's 4 bytes as a READ. What a body only reads is a READ;
 * all else is a READWRITE, since nobody knows whether it runs: a transient that only a body writes is not written for
 * who reads it later (UNDEFINED_DATA), so fill it before. The result is, bit for bit, that of running the nodes one at
 * a time in record order (P8), each body's once an iteration. Iterations of one node come one after the other; nodes of
 * a body run side by side where its accesses let them, and so do other nodes of the graph.
 *
 * Transients of a body have one memory for all iterations, and no contents when one begins. Arguments of the graph
 * (rota_graph_slot) may be bound in its bodies. A body that fails, in whichever node and iteration, fails the node,
 * with a sentence that names both; no further iteration begins, nor does one of a submission that was cancelled.
 *
 * A host node that ends later than its function (rota_host_later), as collectives do, can't be in a body: it is refused
 * as it is recorded (UNSUPPORTED). Other ranks would wait for iterations that one does not have, and nobody would tell
 * them. Beside such nodes, before and after them, nodes that decide are like any other.
 *
 * To the rest of its device such a node is one node: iterations are no progress that a wait counts, so that one which
 * takes longer than the runtime's timeout makes waits for what comes after it TIMEOUT though it gets on; and on the CPU
 * a worker that has begun it stays with it until it ends or is cancelled, so that as many endless ones as there are
 * workers keep all other work waiting.
 *
 * Gradients of ops go through such nodes (rota_backward, ops/ops_tape.h), which then keep what iterations overwrite:
 * of a node that was recorded already, without a change of what it computes.
 *
 * A body runs where its node does, on one queue: its nodes may name that device, and a queue of the plan's, which
 * changes nothing.
 *
 * Such nodes run on devices of the CPU executor, on CUDA's and on Vulkan's; rota_compile refuses others (UNSUPPORTED),
 * and names node and device. On a GPU bodies hold no host nodes (UNSUPPORTED as the plan is compiled, by name).
 *
 * On a CUDA or Vulkan device a loop that fails, or is cancelled, fails all that is handed to the device along with it,
 * nodes beside it in its plan, too, and what stands behind it there need not run; work that comes after a while or for,
 * or later on its queue, is handed to the device when that has ended. With a driver for CUDA 12.4 or newer the device
 * decides by itself. With an older one a thread of rota's launches what is chosen, which costs each choice and each
 * iteration the way to the host and back; and work that comes after an if or switch, too, is handed over when that has
 * ended.
 *
 * A Vulkan device is given a few iterations at a time, those of which not all run dispatched with no workgroups, and
 * the next ones while those run, until the loop is over: what does not run costs no more than a quarter of what does,
 * or than some 130 commands. In a body each iteration of a loop costs, beside its own nodes, a share of those around
 * it. */
#ifndef ROTA_GRAPH_CONDITIONAL_H
#define ROTA_GRAPH_CONDITIONAL_H

#include "graph.h"

/* Bodies within bodies, at most. */
#define ROTA_BODY_DEPTH_MAX 8
/* Ranges that a node and its bodies may touch of buffers that are not the bodies' own, where ranges that overlap, or
 * meet and are of one mode, are one; and how many of them may be in transient, INPUT and OUTPUT buffers of the graph
 * that the node is recorded into. */
#define ROTA_BODY_RANGES_MAX 254
#define ROTA_BODY_PACKED_RANGES_MAX 63
/* Bodies of a switch, at most. */
#define ROTA_SWITCH_BODIES_MAX 256

/* An empty graph for a body of a node of `outer`, which may be a body itself. Its nodes may touch buffers of `outer`,
 * of graphs that `outer` is within, and PERSISTENT ones; its own are TRANSIENT. A slot that is made of it
 * (rota_graph_slot) is one of the outermost graph. Float accumulates are reordered as in `outer`. The caller owns one
 * reference, until a node takes it; without a node it is released like any graph. `name` is copied; NULL: "body". May
 * block in malloc. OUT_OF_RANGE: deeper than ROTA_BODY_DEPTH_MAX; WRONG_STATE: `outer` is compiled, or a body that a
 * node has taken; OUT_OF_MEMORY. */
ROTA_API rota_status rota_graph_create_body(rota_graph *outer, const char *name, rota_graph **out_body);

/* Runs `body` once if the 4-byte value is not 0, else `otherwise`. */
typedef struct rota_if_node {
    size_t struct_size;     /* sizeof, by ROTA_IF_NODE() */
    const char *name;       /* borrowed for the life of graph and plans; NULL: "if" */
    rota_buffer *condition; /* borrowed during the call; 4 bytes are read, at a multiple of 4 */
    uint64_t condition_offset_bytes;
    rota_graph *body;      /* taken */
    rota_graph *otherwise; /* taken; NULL: nothing */
    rota_placement placement;
} rota_if_node;
#define ROTA_IF_NODE(...) ROTA_SIZED(rota_if_node, __VA_ARGS__)

/* Runs `body` again and again while the 4-byte value is not 0; looks at it before each iteration. */
typedef struct rota_while_node {
    size_t struct_size; /* sizeof, by ROTA_WHILE_NODE() */
    const char *name;   /* as of rota_if_node; NULL: "while" */
    rota_buffer *condition;
    uint64_t condition_offset_bytes;
    rota_graph *body; /* taken */
    /* 1 or more. Where the value is not 0 after so many iterations, the node fails. */
    uint64_t iterations_max;
    rota_placement placement;
} rota_while_node;
#define ROTA_WHILE_NODE(...) ROTA_SIZED(rota_while_node, __VA_ARGS__)

/* Runs `body` as often as the 4-byte unsigned value says, which is read once, before the first iteration. */
typedef struct rota_for_node {
    size_t struct_size; /* sizeof, by ROTA_FOR_NODE() */
    const char *name;   /* as of rota_if_node; NULL: "for" */
    rota_buffer *count;
    uint64_t count_offset_bytes;
    /* NULL, or: gets the iteration's number, from 0, as 4 bytes at a multiple of 4 before each iteration. The bytes
     * must not be the count's, and count as written by the node, which may not run an iteration: as for all that a
     * body writes, those of a transient must have been written before. */
    rota_buffer *index;
    uint64_t index_offset_bytes;
    rota_graph *body;        /* taken */
    uint64_t iterations_max; /* 1 or more; a higher count fails the node before its first iteration */
    rota_placement placement;
} rota_for_node;
#define ROTA_FOR_NODE(...) ROTA_SIZED(rota_for_node, __VA_ARGS__)

/* Runs once the body that the 4-byte unsigned value is the number of, from 0; none where there is no such. */
typedef struct rota_switch_node {
    size_t struct_size; /* sizeof, by ROTA_SWITCH_NODE() */
    const char *name;   /* as of rota_if_node; NULL: "switch" */
    rota_buffer *condition;
    uint64_t condition_offset_bytes;
    rota_graph *const
        *bodies;         /* taken, each once; the array is read during the call. NULL among them: nothing */
    uint32_t body_count; /* 1 to ROTA_SWITCH_BODIES_MAX */
    rota_placement placement;
} rota_switch_node;
#define ROTA_SWITCH_NODE(...) ROTA_SIZED(rota_switch_node, __VA_ARGS__)

/* Record the node. Its graph takes the caller's references to the bodies, into which nothing can be recorded from then
 * on: don't release them unless you retained them. On failure they stay the caller's as they were. Errors, each naming
 * the node and what it is about: INVALID_ARGUMENT (no condition, no body, a body of another graph or given twice, an
 * iteration limit of 0, index and count the same bytes), WRONG_STATE (a body that another node has, that has an open
 * recorder, or bodies that no node has taken; recorder closed; graph already compiled), OUT_OF_RANGE (condition or
 * index outside of its buffer; more ranges than ROTA_BODY_RANGES_MAX), MISALIGNED, OUT_OF_MEMORY. `out_node` may be
 * NULL. May block in malloc. O(a log a) in the accesses of the bodies. */
ROTA_API rota_status rota_record_if(rota_recorder *recorder, const rota_if_node *node, rota_node *out_node);
ROTA_API rota_status rota_record_while(rota_recorder *recorder, const rota_while_node *node,
                                       rota_node *out_node);
ROTA_API rota_status rota_record_for(rota_recorder *recorder, const rota_for_node *node, rota_node *out_node);
ROTA_API rota_status rota_record_switch(rota_recorder *recorder, const rota_switch_node *node,
                                        rota_node *out_node);

#endif
