/* Nodes that several ops record, beside those of ops/custom.h. Internal. */
#ifndef ROTA_OPS_RECORD_H
#define ROTA_OPS_RECORD_H

#include "ops/tape.h"

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
/* The reduction of rows that rota_record_reduce makes in two nodes: rows of a partial sum; n: in one. */
uint64_t rota_reduce_chunk(uint64_t outer, uint64_t n, uint64_t inner);
/* y [outer, columns] = the sums of the columns of x [outer, rows, columns], partial sums so few that they are added at
 * once. */
rota_status rota_record_partial_sums(rota_tape *tape, uint64_t outer, uint64_t rows, uint64_t columns,
                                     const rota_tensor *x, const rota_tensor *y);

#endif
