/* Patterns of a few nodes that fusion replaces, before it looks for groups of elementwise ones. Internal; not
 * installed. */
#ifndef ROTA_OPS_FUSE_PATTERNS_H
#define ROTA_OPS_FUSE_PATTERNS_H

#include "ops/fuse_index.h"

/* All take time linear in nodes and accesses, and an index that was made of the graph as it is. */

/* A copy of a whole transient buffer into another one goes, where nobody reads the first after the second is
 * written again: the second's users take the first. */
rota_status rota_fuse_copies(rota_rewriter *rewriter, const rota_fuse_index *index);

/* A cross entropy whose gradient takes the place of its scores, and is of the loss itself: on CUDA devices
 * whose shared memory holds a row, one node that reads and writes the scores once. */
rota_status rota_fuse_losses(rota_rewriter *rewriter, const rota_fuse_index *index);

/* A cross entropy that rota_fuse_losses made one node, whose scores, at least least_bytes of them, come from a
 * product and go into the two that are its gradients, and nowhere else: on CUDA devices that have cuBLASLt one
 * node, which has the scores of some rows at a time, at most piece_bytes. */
rota_status rota_fuse_classifiers(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t least_bytes,
                                  uint64_t piece_bytes);

/* A product whose result goes through GELU's gradient (linear_gelu_gradient) and nowhere else: one node where the
 * device has a kernel that does both. */
rota_status rota_fuse_gelus(rota_rewriter *rewriter, const rota_fuse_index *index);

#endif
