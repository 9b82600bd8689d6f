/* Layer norms of f32 rows with the conversions and sums around them (fuse_norm.c). Internal. */
#ifndef ROTA_OPS_FUSE_NORM_H
#define ROTA_OPS_FUSE_NORM_H

#include "ops/fuse_index.h"

rota_status rota_fuse_norms(rota_rewriter *rewriter, const rota_fuse_index *index);

#endif
