/* A pattern that fusion looks for: a product through GELU's gradient. Takes time linear in nodes and
 * accesses, and an index that was made of the graph as it is. Internal. */
#ifndef ROTA_OPS_FUSE_GELU_H
#define ROTA_OPS_FUSE_GELU_H

#include "ops/fuse_index.h"

/* A product whose result goes through GELU's gradient (linear_gelu_gradient) and nowhere else: one node where the
 * device has a kernel that does both. */
rota_status rota_fuse_gelus(rota_rewriter *rewriter, const rota_fuse_index *index);

#endif
