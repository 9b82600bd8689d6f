/* Kernels that move data, by place or by index: operands, parameters, and what each computes.
 * C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_MOVE_PARAMS_H
#define ROTA_OPS_MOVE_PARAMS_H

#include <stdint.h>
#include "elementwise_params.h"

/* ---- copy_strided: x:READ, y:WRITE (READWRITE where y has gaps or accumulates). Elements of any dtype.
 * y[...] = x[...]; with SCALE (real numbers only) y = alpha * x; with ACCUMULATE (likewise) y += alpha * x.
 * y's elements are all distinct; x may repeat (stride 0). ---- */

#define ROTA_COPY_SCALE 1u
#define ROTA_COPY_ACCUMULATE 2u

typedef struct rota_copy_strided_params {
    uint32_t count;
    uint32_t flags;
    float alpha;
    uint32_t dtype;
    uint32_t x_offset; /* in elements, 0 to 3: elements of 2 bytes or 1 may start between multiples of 4 */
    uint32_t y_offset;
    uint32_t shape[ROTA_KERNEL_DIMS];
    uint32_t x_stride[ROTA_KERNEL_DIMS];
    uint32_t y_stride[ROTA_KERNEL_DIMS];
} rota_copy_strided_params;

/* ---- copy_row: index:READ i32 [1], x:READ, y:WRITE (READWRITE with y_step). Words of any contents.
 * y[index * y_step + i] = x[index * x_step + i] for i < words; an index outside of rows is left on a GPU ---- */

typedef struct rota_copy_row_params {
    uint32_t words, rows;
    uint32_t x_step, y_step; /* words from a row to the next; 0: there is one */
} rota_copy_row_params;

/* ---- cast: x:READ, y:WRITE. Contiguous; f32, f16, bf16 among each other, round to nearest even; f32, f16,
 * bf16 to i32 towards 0, outside the nearest, NaN 0; i32 to them through f32; 8-bit floats among each other and to and
 * from f32, f16, bf16, to nearest even, saturating ---- */

typedef struct rota_cast_params {
    uint32_t count;
    uint32_t from, to; /* rota_dtype */
} rota_cast_params;

/* ---- gather: x:READ [outer, n, inner], index:READ i32 [outer, m, inner], y:WRITE. y[o, j, i] = x[o,
 * index[o, j, i], i]
 * ---- scatter_add: x:READ [outer, m, inner], index:READ i32, y:READWRITE f32 [outer, n, inner]. y[o,
 * index[o, j, i], i] += x[o, j, i] in order of j; an index outside is skipped on a GPU ---- */

typedef struct rota_gather_params {
    uint32_t outer, n, m, inner;
    uint32_t dtype; /* of x and, of gather, y */
} rota_gather_params;

/* ---- one_hot: index:READ i32 [rows], y:WRITE [rows, classes]. y = 1 where class == index, else 0 ---- */

typedef struct rota_one_hot_params {
    uint32_t rows, classes;
    uint32_t dtype;
} rota_one_hot_params;

/* ---- embedding: table:READ [classes, dim], index:READ i32 [rows], y:WRITE [rows, dim]. y[r] =
 * table[index[r]] ----
 * ---- embedding_backward: dy:READ [rows, dim], index:READ i32 [rows], dtable:WRITE (READWRITE with
 * accumulate) [classes, dim]. dtable[c] = (dtable[c] +) sum of dy[r] with index[r] == c, in order of r (on
 * CUDA in another that follows from the index); 0 where none. 16-bit: rounded once a sum, but on CUDA again
 * after each 5632 rows or so of one block's classes ----
 * Where `all` is not 0 the table is classes [first, first + classes) of so many, first + all < 2^31, and an index of
 * another one is no mistake: y[r] = 0, and dy[r] adds nothing.
 */

typedef struct rota_embedding_params {
    uint32_t rows, dim, classes;
    uint32_t accumulate; /* backward only */
    uint32_t dtype;
    uint32_t first, all;
} rota_embedding_params;

/* ---- index_add: index:READ i32 [rows], y:ACCUMULATE i32 [size]. y[index[r]] += value, atomically ---- */

typedef struct rota_index_add_params {
    uint32_t rows, size;
    int32_t value;
} rota_index_add_params;

#endif
