/* A pattern that fusion looks for: sums of the columns of what a norm's gradient writes. Takes time linear in nodes and
 * accesses, and an index that was made of the graph as it is. Internal. */
#ifndef ROTA_OPS_FUSE_NORM_H
#define ROTA_OPS_FUSE_NORM_H

#include "ops/fuse_index.h"

/* A norm's gradient, and a linear layer's gradient that sums the columns of what that wrote (its bias' gradient, where
 * the layer's result is added to a stream that a norm reads): where the device has a kernel for it, the norm's sums
 * them while it has them, and the layer's adds up the partial sums. */
rota_status rota_fuse_norms(rota_rewriter *rewriter, const rota_fuse_index *index);

#endif
