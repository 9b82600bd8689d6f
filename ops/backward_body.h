/* A body of a node that decides, gone back through: what its files share. Internal; not installed.
 *
 *     backward_walk.c      which nodes, and a body's ops and nodes in order
 *     backward_decides.c   the gradient's node, and how its bodies go back
 *     backward_spans.c     what a body's ops, and the nodes within it, read and write
 *     backward_needs.c     what of that its gradient needs
 *     backward_kept.c      what is kept of each iteration, since later ones overwrite it
 *     backward_again.c     the body once more, forward, in the gradient's body */
#ifndef ROTA_OPS_BACKWARD_BODY_H
#define ROTA_OPS_BACKWARD_BODY_H

#include "base/vector.h"
#include "ops/gradient.h"

/* Bytes of a buffer, as the body's ops name it. Those of one kind, of one buffer, are apart from one another. */
struct rota_backward_span {
    rota_backward_span *next; /* of the buffer */
    uint64_t begin, end;
    uint64_t number; /* in the order in which they were met */
    bool is_written; /* else read, before anything was written there */
    bool is_wanted;  /* read: a gradient flows to it */
    bool is_kept;    /* read: the node writes it, and the gradient's body needs what was there */
    uint64_t offset; /* kept: in a row of what is */
    rota_buffer *root;
    rota_buffer *memory; /* written: where the gradient's body has it by now */
    bool is_used;        /* something needs what is there by now, so what is written next goes elsewhere */
    bool is_real;        /* written: real numbers, or some of it */
};

/* What is done about bytes that the body writes before an op or node does so. */
typedef enum rota_backward_change_kind {
    ROTA_CHANGE_BRING, /* what was there before the body is brought to the copy, since a part of it stays */
    ROTA_CHANGE_RENEW, /* the span that begins at or before `begin` has other memory from here on, if it is used */
    ROTA_CHANGE_TAKE /* and there then is what was here */
} rota_backward_change_kind;

typedef struct rota_backward_change {
    rota_backward_change_kind kind;
    const void *by; /* rota_conditional, or rota_tape_use */
    rota_buffer *root;
    uint64_t begin, end;
    bool is_real;
} rota_backward_change;

/* An op or a node of the body itself. */
typedef struct rota_backward_item {
    const rota_tape_use *used; /* NULL: a node */
    const rota_conditional *node;
    bool is_needed; /* an op: it is computed again */
} rota_backward_item;

typedef struct rota_backward_body {
    rota_tape *tape; /* the gradients' */
    rota_conditional *node;
    rota_graph *body;
    rota_taped_uses *taped;
    rota_tape
        apart; /* of the gradient's body: what it computes again, and its map knows of the body's buffers */
    rota_vector spans;         /* rota_backward_span *, in order */
    rota_vector is_before;     /* bool of each read, in order: of what was there before the body */
    uint64_t next_read;        /* of those, as the body is computed again */
    rota_vector items;         /* rota_backward_item, in order */
    uint64_t next_item;        /* of those, as the body is computed again */
    rota_vector changes;       /* rota_backward_change, in order */
    uint64_t next_change;      /* of those */
    rota_vector params, grads; /* rota_tensor: what the body reads of what gradients flow through */
    uint64_t span_number;
    const rota_conditional *outermost; /* the body's own node, while its ops are noted */
    const rota_backward_kept *kept;    /* NULL: nothing is */
    rota_buffer *row;                  /* of what is kept of the iteration that is gone back through */
    rota_buffer *left; /* of a loop: how many iterations are left, in 4 bytes at its beginning */
} rota_backward_body;

rota_status rota_backward_refuse(const rota_backward_body *c, rota_status status, const char *format, ...)
    ROTA_PRINTF(3, 4);

static inline bool rota_backward_is_own(const rota_backward_body *c, const rota_buffer *root) {
    return root->graph == c->body;
}
/* Whether the buffer is of a body within this one. */
bool rota_backward_is_inner(const rota_backward_body *c, const rota_buffer *root);

/* ---- backward_spans.c ---- */

/* NULL: out of memory. */
rota_backward_span **rota_backward_spans_of(rota_backward_body *c, const rota_tensor *x);
/* The first of a kind that has bytes in common. */
rota_backward_span *rota_backward_find_span(rota_backward_span *list, bool is_written, uint64_t begin,
                                            uint64_t end);
/* f32, of a span's bytes. */
rota_tensor rota_backward_words(rota_buffer *root, uint64_t begin, uint64_t end);
/* 4 bytes that a node of a body itself reads or writes: which. */
rota_tensor rota_backward_word(const rota_conditional *node, const rota_conditional_word *word);
/* What the body reads and writes, and what stands in the way; c->spans is in order then. */
rota_status rota_backward_note_body(rota_backward_body *c);

/* ---- backward_needs.c ---- */

/* Of c->items, and of the buffers that the apart tape knows: rota_tape_buffer.is_needed. */
rota_status rota_backward_note_needs(rota_backward_body *c);

/* ---- backward_kept.c ---- */

/* What the node overwrites is kept of each iteration from now on, and counted: c->kept. Before the gradient's node all
 * of a loop's are left (c->left), of which the gradient's body takes one off, and has its row (c->row). */
rota_status rota_backward_keep(rota_backward_body *c);
rota_status rota_backward_take_row(rota_backward_body *c);

/* ---- backward_again.c ---- */

rota_status rota_backward_compute_again(rota_backward_body *c);
/* Where the gradient's body has what is there before the body, of a span that is read. */
rota_tensor rota_backward_map_before(const rota_backward_body *c, const rota_backward_span *span,
                                     const rota_tensor *x);
/* ... and what the body wrote. */
rota_status rota_backward_map_written(rota_backward_body *c, const rota_tensor *x, rota_tensor *out);

/* The ops of a body that has a tape (backward_walk.c). */
rota_taped_uses *rota_backward_taped(const rota_graph *body);

/* ---- A body's ops and nodes, in record order (backward_walk.c) ---- */

typedef struct rota_backward_walk {
    void *user;
    rota_status (*use)(void *user, const rota_tape_use *used);
    rota_status (*node)(void *user, rota_conditional *node); /* that gradients flow through */
} rota_backward_walk;
rota_status rota_backward_walk_body(const rota_graph *body, const rota_backward_walk *walk);

#endif
