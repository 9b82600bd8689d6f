/* Inside of a tape, and what op files record with. Internal. */
#ifndef ROTA_OPS_TAPE_H
#define ROTA_OPS_TAPE_H

#include "base/arena.h"
#include "ops/custom.h"
#include "ops/layout.h"
#include "ops/ops.h"
#include "ops/table.h"
#include "sched/opened.h"
#include "sched/plan.h"

/* A remembered use, with the names its nodes had. */
typedef struct rota_tape_use {
    rota_op_use use;
    const char *name, *op_name; /* rota_tape's */
    uint64_t sequence;
    bool onto; /* output 0 has gaps, and what a remembered op wrote before may lie in its place */
} rota_tape_use;

/* An op's write into a buffer, newest first. */
typedef struct rota_tape_write {
    struct rota_tape_write *next;
    const rota_op *op;
    const rota_tensor *tensor; /* of a remembered use; NULL: the op was not remembered */
    uint64_t sequence;
    uint64_t begin, end;
} rota_tape_write;

typedef struct rota_gradient_region rota_gradient_region;

/* A name that was made of another, in the lane's arena. */
typedef struct rota_tape_label {
    const char *of, *made;
} rota_tape_label;
enum { ROTA_TAPE_LABELS = 32 }; /* a power of two */

/* What a tape knows of a root buffer. */
typedef struct rota_tape_buffer {
    rota_buffer *root;
    rota_tape_write *writes;
    uint64_t first_read; /* sequence of the first remembered use that reads it */
    bool wanted;         /* during rota_backward: a gradient flows through it */
    rota_gradient_region *regions;
} rota_tape_buffer;

struct rota_tape {
    rota_recorder *recorder;
    rota_graph *graph;
    /* Of rota_device_tape, whose recorder and graph are its own; else NULL. */
    rota_device *device; /* as long as `opened` lasts */
    rota_opened opened;
    rota_plan *plan; /* once it is compiled */
    rota_tape_options options;
    bool remember;
    bool keep;           /* during rota_backward: the ops stay for another one */
    const char *name;    /* of nodes, as the caller said; NULL: op_name */
    const char *op_name; /* of the op that is being recorded, the outermost one; NULL: the kernels' names */
    rota_tape_label labels[ROTA_TAPE_LABELS]; /* by the hash of `of` */
    rota_arena arena;                         /* writes, regions; emptied by rota_backward */
    rota_tape_use **uses;
    uint64_t use_count, use_capacity;
    uint64_t sequence;                                 /* of the next op */
    uint32_t streams;                                  /* dropouts so far */
    rota_tape_buffer *map;                             /* open addressing; root NULL: free */
    uint64_t map_count, map_capacity;                  /* capacity a power of two */
    rota_tensor output_gradients[ROTA_OP_OUTPUTS_MAX]; /* of the use whose gradient is being recorded */
};

/* The entry of a tensor's root, made if it is not there; NULL when out of memory. Entries move when another
 * is made. */
rota_tape_buffer *rota_tape_lookup(rota_tape *tape, const rota_tensor *tensor);

/* ---- Ops and their nodes' names ---- */

/* rota_op_apply for an op of the library's, which is in order; its nodes are named `name`, which is static,
 * but where they are part of another op. */
rota_status rota_tape_apply(rota_tape *tape, rota_op_use *use, const char *name);
/* Checks a use as rota_op_apply does, takes its tensors in (they are of root buffers then), and says what its
 * outputs are to be. */
rota_status rota_tape_expect(rota_op_use *use, rota_tensor *out_outputs);
/* `text` with `suffix` behind it, for as long as the graph lives; without a suffix the text need not live on,
 * with one it does as long as the tape. OUT_OF_MEMORY. */
rota_status rota_tape_label_of(rota_tape *tape, const char *text, const char *suffix, const char **out_made);

/* From here to rota_tape_end_op, which is given what this returns, nodes belong to the op of that (static)
 * name. */
static inline const char *rota_tape_begin_op(rota_tape *tape, const char *name) {
    const char *outer = tape->op_name;
    if (!outer) tape->op_name = name;
    return outer;
}
static inline void rota_tape_end_op(rota_tape *tape, const char *outer) {
    tape->op_name = outer;
}
/* An op that is made of others: returns what `CALL` does, which records them. */
#define ROTA_TAPE_AS_OP(TAPE, NAME, CALL)                                                                    \
    do {                                                                                                     \
        const char *const outer_ = rota_tape_begin_op(TAPE, NAME);                                           \
        const rota_status status_ = (CALL);                                                                  \
        rota_tape_end_op(TAPE, outer_);                                                                      \
        return status_;                                                                                      \
    } while (0)

/* ---- Nodes, beside those of ops/custom.h ---- */

/* As rota_record_fill. */
rota_status rota_tape_fill(rota_tape *tape, rota_buffer *buffer, uint64_t offset_bytes, uint64_t size_bytes,
                           uint32_t pattern);

/* y = alpha * x, or y += alpha * x; x is broadcast to y's shape; any strides, dtypes alike. alpha other than
 * 1, and accumulate, real numbers only. */
rota_status rota_record_strided(rota_tape *tape, const rota_tensor *x, const rota_tensor *y, float alpha,
                                bool accumulate);
/* Every byte of a range of 4-byte elements. */
rota_status rota_record_zero(rota_tape *tape, rota_buffer *buffer, uint64_t offset_bytes,
                             uint64_t size_bytes);
/* y = a op b; y contiguous; a and b broadcast to it; y may be exactly a or b, not overlap them otherwise. */
rota_status rota_record_binary(rota_tape *tape, rota_binary op, const rota_tensor *a, const rota_tensor *b,
                               const rota_tensor *y);
/* x as an operand of a kernel that walks y's shape by strides: at an address that is a multiple of 4,
 * broadcast to y, axes merged into out_shape and out_stride [ROTA_KERNEL_DIMS]. out_x may be x. */
rota_status rota_record_operand(rota_tape *tape, const rota_tensor *x, const rota_tensor *y,
                                rota_tensor *out_x, uint32_t *out_shape, uint32_t *out_stride);
/* x has y's shape, is contiguous and where kernels can take it as it is. */
bool rota_record_fits(const rota_tensor *x, const rota_tensor *y);
/* x's numbers in contiguous y's dtype. */
rota_status rota_record_cast(rota_tape *tape, const rota_tensor *x, const rota_tensor *y);
/* Contiguous x [outer, n, inner] to contiguous y [outer, inner], of any real dtypes; f32 in between. */
rota_status rota_record_reduce(rota_tape *tape, rota_reduce op, float scale, uint64_t outer, uint64_t n,
                               uint64_t inner, const rota_tensor *x, const rota_tensor *y);
/* Sums what a broadcast of `shape`'s tensor to x's shape repeated: contiguous x to a contiguous tensor of
 * `like`'s shape (x itself if nothing was repeated). */
rota_status rota_record_unbroadcast(rota_tape *tape, const rota_tensor *x, const rota_tensor *like,
                                    rota_tensor *out_y);
/* c = a b (+ c); transposes and batch broadcasting as rota_op_matmul; c any strides that are a matrix, else
 * it must not accumulate. */
rota_status rota_record_matmul(rota_tape *tape, const rota_tensor *a, const rota_tensor *b, bool transpose_a,
                               bool transpose_b, const rota_tensor *c, bool accumulate);
/* A matrix as an operand of a product: x itself, or a contiguous copy where it lies neither by rows nor by
 * columns, or at an address that is no multiple of 4. *out_transposed: by columns, `ld` elements apart. */
rota_status rota_record_matrix(rota_tape *tape, const rota_tensor *x, rota_tensor *out_x,
                               bool *out_transposed, uint64_t *out_ld);
/* The reduction of rows that rota_record_reduce makes in two nodes: rows of a partial sum; n: in one. */
uint64_t rota_reduce_chunk(uint64_t outer, uint64_t n, uint64_t inner);
/* y [outer, columns] = the sums of the columns of x [outer, rows, columns], partial sums so few that they are added at
 * once. */
rota_status rota_record_partial_sums(rota_tape *tape, uint64_t outer, uint64_t rows, uint64_t columns,
                                     const rota_tensor *x, const rota_tensor *y);
/* out [2] = {norm, factor} of the contiguous tensors together. */
rota_status rota_record_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                    float max_norm, const rota_tensor *out);

/* What was recorded for another op, remembered for gradients as a use of this one (rota_op.remember). */
rota_status rota_tape_remember_use(rota_tape *tape, const rota_op_use *use);

/* Adds l^T r, both of as many rows, to the gradient of x, a weight. */
rota_status rota_gradient_of_rows(rota_tape *tape, const rota_tensor *x, const rota_tensor *l,
                                  const rota_tensor *r);
/* Whether that sum is so long, and has so few results, that it is made in pieces. */
bool rota_gradient_of_rows_is_cut(const rota_tensor *x, uint64_t rows);

/* Frees what rota_backward left on the tape's buffers. */
void rota_tape_forget(rota_tape *tape);

#endif
