/* What one node would be in a group of elementwise ones. Internal. */
#ifndef ROTA_OPS_FUSE_PIECE_H
#define ROTA_OPS_FUSE_PIECE_H

#include "ops/fusion.h"

typedef struct rota_fuse_read {
    rota_access access;
    uint32_t div, mod; /* as of rota_fused_value */
    uint8_t dtype;
    bool may_be_replaced; /* its kernel's result may lie in its place */
} rota_fuse_read;

typedef struct rota_fuse_piece {
    rota_fused_kind kind;
    uint8_t op, dtype;
    uint32_t count;
    rota_fuse_read read[ROTA_FUSED_SOURCES_MAX];
    uint32_t read_count;
    rota_access result;
    uint8_t result_dtype;
    uint32_t word[ROTA_FUSED_STEP_WORDS_MAX];
    rota_slot slot[ROTA_FUSED_STEP_WORDS_MAX]; /* 0: the word itself */
    uint32_t word_count;
} rota_fuse_piece;

/* Whether nodes of the kernel may be fused at all. */
bool rota_fuse_is_elementwise(const rota_kernel *kernel);
/* False: the node can be part of no group. */
bool rota_fuse_piece_of(const rota_node_view *view, rota_fuse_piece *out_piece);

#endif
