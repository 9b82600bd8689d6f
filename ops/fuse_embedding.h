/* Sums with an embedding's gradient (fuse_embedding.c). Takes time linear in nodes and accesses, and an index that was
 * made of the graph as it is. Internal. */
#ifndef ROTA_OPS_FUSE_EMBEDDING_H
#define ROTA_OPS_FUSE_EMBEDDING_H

#include "ops/fuse_index.h"

rota_status rota_fuse_embeddings(rota_rewriter *rewriter, const rota_fuse_index *index);

#endif
