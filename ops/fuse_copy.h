/* A pattern that fusion looks for: copies between transient buffers. Takes time linear in nodes and
 * accesses, and an index that was made of the graph as it is. Internal. */
#ifndef ROTA_OPS_FUSE_COPY_H
#define ROTA_OPS_FUSE_COPY_H

#include "ops/fuse_index.h"

/* A copy of a whole transient buffer into another one goes, where nobody reads the first after the second is
 * written again: the second's users take the first. */
rota_status rota_fuse_copies(rota_rewriter *rewriter, const rota_fuse_index *index);

/* Puts the kernel node at position n, of which a view was just taken, in its own place, with other accesses. */
rota_status rota_fuse_with_accesses(rota_rewriter *rewriter, uint64_t n, const rota_node_view *view,
                                    const rota_access *accesses);

#endif
