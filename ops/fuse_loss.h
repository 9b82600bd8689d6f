/* A pattern that fusion looks for: a cross entropy and its gradient. Takes time linear in nodes and
 * accesses, and an index that was made of the graph as it is. Internal. */
#ifndef ROTA_OPS_FUSE_LOSS_H
#define ROTA_OPS_FUSE_LOSS_H

#include "ops/fuse_index.h"

/* A cross entropy whose gradient takes the place of its scores, and is of the loss itself: on CUDA devices
 * whose shared memory holds a row, one node that reads and writes the scores once. */
rota_status rota_fuse_losses(rota_rewriter *rewriter, const rota_fuse_index *index);

#endif
