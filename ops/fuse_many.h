/* Small nodes that do the same, as one (fuse_many.c). Takes time linear in nodes and accesses, and an index that was
 * made of the graph as it is. Internal. */
#ifndef ROTA_OPS_FUSE_MANY_H
#define ROTA_OPS_FUSE_MANY_H

#include "ops/fuse_index.h"

rota_status rota_fuse_many(rota_rewriter *rewriter, const rota_fuse_index *index);

#endif
