/* Products, for ops that are made of them. Internal. */
#ifndef ROTA_OPS_OP_MATMUL_H
#define ROTA_OPS_OP_MATMUL_H

#include "ops/tape.h"

/* c = a b (+ c); transposes and batch broadcasting as rota_op_matmul; c any strides that are a matrix, else
 * it must not accumulate. */
rota_status rota_record_matmul(rota_tape *tape, const rota_tensor *a, const rota_tensor *b, bool transpose_a,
                               bool transpose_b, const rota_tensor *c, bool accumulate);
/* A matrix as an operand of a product: x itself, or a contiguous copy where it lies neither by rows nor by
 * columns, or at an address that is no multiple of 4. *out_transposed: by columns, `ld` elements apart. */
rota_status rota_record_matrix(rota_tape *tape, const rota_tensor *x, rota_tensor *out_x,
                               bool *out_transposed, uint64_t *out_ld);
/* Adds l^T r, both of as many rows, to the gradient of x, a weight. */
rota_status rota_gradient_of_rows(rota_tape *tape, const rota_tensor *x, const rota_tensor *l,
                                  const rota_tensor *r);
/* Whether that sum is so long, and has so few results, that it is made in pieces. */
bool rota_gradient_of_rows_is_cut(const rota_tensor *x, uint64_t rows);

#endif
