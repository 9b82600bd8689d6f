/* The rewrite hook: changes to a graph before it is compiled (fusion, recomputation), made by those who know
 * what the nodes mean. The scheduler only offers the place. */
#ifndef ROTA_SCHED_REWRITE_H
#define ROTA_SCHED_REWRITE_H

#include "../graph/graph.h"
#include "plan.h"

/* A read-only look at a recorded node, during a rewrite. */
typedef struct rota_node_view {
    size_t struct_size; /* sizeof, by ROTA_NODE_VIEW() */
    rota_node node;
    const char *name;
    const rota_kernel *kernel; /* NULL: not a kernel node, or a counted one */
    const void *params;
    const rota_access *accesses; /* of root buffers */
    uint32_t access_count;
    const rota_param_binding *bindings;
    uint32_t binding_count;
    uint32_t groups[3];
    rota_placement placement;
    bool ordered;         /* it stands in a rota_node_after */
    uint64_t fill_plus_1; /* of a fill: 1 more than the pattern of its access's words; else 0 */
} rota_node_view;
#define ROTA_NODE_VIEW(...) ROTA_SIZED(rota_node_view, __VA_ARGS__)

/* Where a node is going to run, as far as a rewrite can know. */
typedef struct rota_rewrite_target {
    size_t struct_size; /* sizeof, by ROTA_REWRITE_TARGET() */
    bool known;         /* false: the plan is only analysed, there is no device */
    rota_exec_kind kind;
    uint32_t features;            /* rota_device_feature bits */
    const rota_cuda_target *cuda; /* of a CUDA device, else NULL; lives as long as the device is open */
    /* 0; or what the plan's transients may take together by its own limit, where they take more even if nodes run
     * again: whatever takes less memory is worth its time. */
    uint64_t memory_limit_bytes;
} rota_rewrite_target;
#define ROTA_REWRITE_TARGET(...) ROTA_SIZED(rota_rewrite_target, __VA_ARGS__)

typedef struct rota_rewriter rota_rewriter;

/* Called by rota_compile before hazards are resolved; once, or, under a memory limit, in each attempt to meet it.
 * Returns ROTA_OK or the result of rota_fail, which ends the compile. The recorded graph stays as it is; the changes
 * are the plan's. */
typedef rota_status (*rota_rewrite_fn)(void *user, rota_rewriter *rewriter);

/* Number of nodes in record order, removed ones included. A rewriter is valid during the hook's call, on its
 * thread. */
ROTA_API uint64_t rota_rewriter_node_count(const rota_rewriter *rewriter);
/* The node at a position; what *out_view points at is valid until the next view. A removed node has no kernel
 * and no accesses. OUT_OF_RANGE; INVALID_ARGUMENT: out_view->struct_size (base/sized.h). O(log lanes +
 * accesses). */
ROTA_API rota_status rota_rewriter_view(rota_rewriter *rewriter, uint64_t position, rota_node_view *out_view);

/* Whether the buffer is a TRANSIENT one of the graph that is rewritten, so that nobody but its nodes sees what is in
 * it. Not of a graph around a body: nodes of that, and other iterations, do. NULL: false. Wait-free. */
ROTA_API bool rota_rewriter_owns(const rota_rewriter *rewriter, const rota_buffer *buffer);

/* Where a node of this placement runs. INVALID_ARGUMENT: out_target->struct_size (base/sized.h). Wait-free.
 */
ROTA_API rota_status rota_rewriter_target(const rota_rewriter *rewriter, const rota_placement *placement,
                                          rota_rewrite_target *out_target);

/* Removes the node at a position / puts another kernel node in its place (copied; checked like
 * rota_record_kernel, whose errors it returns). Positions do not shift. OUT_OF_RANGE. */
ROTA_API rota_status rota_rewriter_remove(rota_rewriter *rewriter, uint64_t position);
ROTA_API rota_status rota_rewriter_replace(rota_rewriter *rewriter, uint64_t position,
                                           const rota_kernel_node *node);

/* Removes the node at a position, whose work the node at position `into` does from now on: what is asked
 * about it (explain, times) is answered for that one, and rota_plan_stats.merged counts it. OUT_OF_RANGE;
 * INVALID_ARGUMENT: into itself. */
ROTA_API rota_status rota_rewriter_merge(rota_rewriter *rewriter, uint64_t position, uint64_t into);

/* A sentence about the node at a position that rota_plan_explain adds to its own; `text` is copied.
 * OUT_OF_RANGE. */
ROTA_API rota_status rota_rewriter_note(rota_rewriter *rewriter, uint64_t position, const char *text);

/* Adds a hook to a graph; hooks run in the order added. WRONG_STATE: graph already compiled. */
ROTA_API rota_status rota_graph_add_rewrite(rota_graph *graph, rota_rewrite_fn fn, void *user);

#endif
