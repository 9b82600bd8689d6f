/* The rewrite hook: changes to a graph before it is compiled (fusion, recomputation), made by those who know
 * what the nodes mean. The scheduler only offers the place. */
#ifndef ROTA_SCHED_REWRITE_H
#define ROTA_SCHED_REWRITE_H

#include "../graph/graph.h"
#include "plan.h"

/* A read-only look at a recorded node, during a rewrite. */
typedef struct rota_node_view {
    rota_node node;
    const char *name;
    const rota_kernel *kernel; /* NULL: not a kernel node */
    const void *params;
    const rota_access *accesses; /* of root buffers */
    uint32_t access_count;
} rota_node_view;

typedef struct rota_rewriter rota_rewriter;

/* Called once, by rota_compile, before hazards are resolved. Returns ROTA_OK or the result of rota_fail,
 * which ends the compile. The recorded graph stays as it is; the changes are the plan's. */
typedef rota_status (*rota_rewrite_fn)(void *user, rota_rewriter *rewriter);

/* Number of nodes in record order, removed ones included. A rewriter is valid during the hook's call, on its
 * thread. */
ROTA_API uint64_t rota_rewriter_node_count(const rota_rewriter *rewriter);
/* The node at a position; what *out_view points at is valid until the next view. A removed node has no kernel
 * and no accesses. OUT_OF_RANGE. O(log lanes + accesses). */
ROTA_API rota_status rota_rewriter_view(rota_rewriter *rewriter, uint64_t position, rota_node_view *out_view);

/* Removes the node at a position / puts another kernel node in its place (copied; checked like
 * rota_record_kernel, whose errors it returns). Positions do not shift. OUT_OF_RANGE. */
ROTA_API rota_status rota_rewriter_remove(rota_rewriter *rewriter, uint64_t position);
ROTA_API rota_status rota_rewriter_replace(rota_rewriter *rewriter, uint64_t position,
                                           const rota_kernel_node *node);

/* Adds a hook to a graph; hooks run in the order added. WRONG_STATE: graph already compiled. */
ROTA_API rota_status rota_graph_add_rewrite(rota_graph *graph, rota_rewrite_fn fn, void *user);

#endif
