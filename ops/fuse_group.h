/* A group of elementwise nodes while it grows. Internal; not installed. */
#ifndef ROTA_OPS_FUSE_GROUP_H
#define ROTA_OPS_FUSE_GROUP_H

#include "ops/fuse_piece.h"
#include "ops/fusion.h"

/* ---- Uses of buffers ---- */

/* The last node that touches each buffer. */
typedef struct rota_fuse_uses {
    struct rota_fuse_use {
        const rota_buffer *buffer;
        uint64_t last;
    } * entries;
    uint64_t count, capacity;      /* a power of two */
    const rota_rewriter *rewriter; /* whose nodes' they are */
} rota_fuse_uses;

/* In record order. False: no memory. */
bool rota_fuse_uses_add(rota_fuse_uses *uses, const rota_buffer *buffer, uint64_t node);
uint64_t rota_fuse_uses_last(const rota_fuse_uses *uses, const rota_buffer *buffer);
void rota_fuse_uses_free(rota_fuse_uses *uses);

/* ---- The group (fuse_group.c) ---- */

/* A range that the group touches. */
typedef struct rota_fuse_range {
    rota_buffer *buffer;
    uint64_t offset_bytes, size_bytes;
    uint32_t div, mod; /* of what is read there from before the group */
    uint8_t dtype;
    uint8_t read;    /* value that was read from it before the group wrote it; NONE: none was */
    uint8_t written; /* value that the group leaves there; NONE: it doesn't write it */
    uint8_t last_read_step, write_step;
    bool may_be_replaced; /* by a result of last_read_step */
} rota_fuse_range;

enum { ROTA_FUSE_RANGES_MAX = 32 };

typedef struct rota_fuse_group {
    uint32_t count; /* elements */
    rota_placement placement;
    rota_rewrite_target target;
    uint64_t positions[ROTA_FUSED_STEPS_MAX];
    rota_fused_shape shape; /* steps and values; operands come at the end */
    uint32_t words[ROTA_FUSED_WORDS_MAX];
    rota_slot slots[ROTA_FUSED_WORDS_MAX];
    rota_fuse_range ranges[ROTA_FUSE_RANGES_MAX];
    uint32_t range_count;
    const rota_fuse_uses *uses;
    struct rota_fuse_group *trial; /* where a join is tried */
} rota_fuse_group;

/* Adds a node; an empty group takes any, another one what reads something of it, or is `linked` to it by a node to
 * come. False: it can't, and the group is as before. */
bool rota_fuse_group_join(rota_fuse_group *group, rota_rewriter *rewriter, uint64_t position,
                          const rota_node_view *view, const rota_fuse_piece *piece, bool linked);
/* Whether a node reads both a range and something that the group reads or writes. */
bool rota_fuse_group_links(const rota_fuse_group *group, const rota_node_view *view,
                           const rota_access *range);
/* Whether another node may not stay between the group's nodes: all of them move to the place of the last. */
bool rota_fuse_group_touches(const rota_fuse_group *group, const rota_node_view *view);
/* Makes the group a node, if it is one of several and can be, and empties it. */
rota_status rota_fuse_group_end(rota_fuse_group *group, rota_rewriter *rewriter);

#endif
