/* Where gradients live during rota_backward. Internal. */
#ifndef ROTA_OPS_GRADIENT_H
#define ROTA_OPS_GRADIENT_H

#include "ops/tape.h"

typedef struct rota_byte_range {
    struct rota_byte_range *next;
    uint64_t begin, end;
} rota_byte_range;

typedef struct rota_gradient_view {
    struct rota_gradient_view *next;
    rota_tensor tensor; /* of the region's memory */
} rota_gradient_view;

/* Mirrors the bytes [begin, end) of a root buffer. */
struct rota_gradient_region {
    rota_gradient_region *next;
    uint64_t begin, end;
    rota_tensor memory; /* its first byte mirrors `begin` */
    bool kept;          /* complete: the op that wrote the parameter has been gone through */
    uint32_t parameter; /* of one that is given: which */
    bool is_used;       /* by an op of those remembered; `first_use` is the first that is */
    uint64_t first_use;
    bool is_dense; /* by one that is no embedding of it; `dense_use` is the first of those */
    uint64_t dense_use;
    uint64_t row_bytes;        /* of all ranks' rows that embeddings before that one add */
    bool by_rows;              /* those go to all ranks, and are added last (data_parallel_rows.h) */
    rota_byte_range *written;  /* bytes of [begin, end) whose mirror holds something */
    rota_gradient_view *views; /* that were added to; the rest of what is written is 0 */
    uint32_t view_count;
    bool crowded; /* there were more, which nobody remembers */
};

/* OUT_OF_MEMORY, with its sentence: of all that a backward pass does. */
rota_status rota_backward_no_memory(void);

/* A region for x, in `memory`, of which nothing is written; of those of its buffer unless it is given. */
rota_status rota_gradient_region_add(rota_tape *tape, const rota_tensor *x, const rota_tensor *memory,
                                     bool given, rota_gradient_region **out_region);

/* Where a tensor lies in its root buffer. */
typedef struct rota_place {
    rota_buffer *root;
    uint64_t begin, end;
    uint32_t index; /* of the tensor */
} rota_place;
/* Tensors that share bytes, the lower index first. */
typedef struct rota_overlap {
    bool found;
    uint32_t first, second;
} rota_overlap;
/* The places of those of `count` tensors that have a buffer and are not empty, by root and beginning; count log count.
 * In the tape's arena. */
rota_status rota_gradient_places(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                 rota_place **out_places, uint32_t *out_count, rota_overlap *out_overlap);
/* The first of entry->given that ends behind `begin`, entry->given_count if none does; entry may be NULL.
 * Logarithmic. */
uint32_t rota_gradient_given_from(const rota_tape_buffer *entry, uint64_t begin);
/* x is of real numbers and was computed from a parameter. */
bool rota_gradient_passes(rota_tape *tape, const rota_tensor *x);
/* Something was added to y's gradient. */
bool rota_gradient_touched(rota_tape *tape, const rota_tensor *y);
/* The first region that was given for a parameter and has bytes in common with y; NULL if there is none. */
rota_gradient_region *rota_gradient_given(rota_tape *tape, const rota_tensor *y);
/* y's gradient, complete. */
rota_status rota_gradient_read(rota_tape *tape, const rota_tensor *y, rota_tensor *out_dy);
/* y's gradient was used up: what was in y's memory before has another, of which nothing is known yet.
 * written_before: an op wrote that, and its gradient reads the one that it has. */
rota_status rota_gradient_clear(rota_tape *tape, const rota_tensor *y, bool written_before);
/* Lets x's gradient take the place of x, where x is the whole of a buffer of the graph's own and has no
 * gradient yet; *out_in_place: whether it will. */
rota_status rota_gradient_in_place(rota_tape *tape, const rota_tensor *x, bool *out_in_place);
/* Whether tensors are every byte from the first's beginning to the last one's end, which *out_begin and *out_end then
 * are, each once. */
bool rota_gradient_fill_a_range(const rota_tensor *const *xs, uint32_t count, uint64_t *out_begin,
                                uint64_t *out_end);
/* The gradients of `count` tensors whose elements lie between one another's, and that together are every byte
 * from the first's beginning to the last one's end: where nothing was added to any of them yet, out_dx are
 * what one node writes, nothing of which is zeroed before; *out_together: whether that is so. */
rota_status rota_gradient_targets(rota_tape *tape, const rota_tensor *const *xs, uint32_t count,
                                  rota_tensor *out_dx, bool *out_together);
/* x may hold an element several times: by a stride of 0, or as windows that overlap. Its gradient is then one
 * that rota_gradient_add sums up. */
bool rota_gradient_folds(const rota_tensor *x);
/* Zeroes those bytes of [begin, end) that hold nothing. */
rota_status rota_gradient_zero_rest(rota_tape *tape, rota_gradient_region *region, uint64_t begin,
                                    uint64_t end);

#endif
