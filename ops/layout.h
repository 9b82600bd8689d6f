/* Reasoning about strides: merging axes, matrix layouts, overlap. Internal. */
#ifndef ROTA_OPS_LAYOUT_H
#define ROTA_OPS_LAYOUT_H

#include "ops/kernels.h"
#include "ops/tensor.h"

/* Up to three tensors of one shape walked together, neighbouring axes merged where all of them allow it. dims
 * axes are left (0: one element). */
typedef struct rota_walk {
    uint32_t dims;
    uint64_t shape[ROTA_RANK_MAX];
    uint64_t stride[3][ROTA_RANK_MAX];
} rota_walk;

void rota_walk_of(uint32_t rank, const uint64_t *shape, uint32_t count, const uint64_t *const *strides,
                  rota_walk *out_walk);

/* Strides have 32 bits in kernels' parameters: whether these do, or those of a walk's first `count` tensors;
 * else *out_stride is one that does not. */
bool rota_strides_fit(const uint64_t *strides, uint32_t count, uint64_t *out_stride);
bool rota_walk_fits(const rota_walk *walk, uint32_t count, uint64_t *out_stride);

/* Right-aligned into a fixed number of 32-bit entries, filled up in front with `filler`. The values fit. */
void rota_walk_pad(const uint64_t *values, uint32_t count, uint32_t dims, uint32_t filler,
                   uint32_t *out_values);

/* How a rows x columns matrix with these strides lies in memory: row after row (transposed false) or column
 * after column, `ld` elements apart. False if neither. */
bool rota_matrix_layout(uint64_t rows, uint64_t columns, uint64_t row_stride, uint64_t column_stride,
                        bool *out_transposed, uint64_t *out_ld);

/* Rows along the last axis, of which there is one: the product of the other extents. */
uint64_t rota_tensor_rows(const rota_tensor *tensor);

/* What an op asks of a tensor that may have been made by hand: a dtype, a rank, as many elements as an op
 * takes, at multiples of their size, all of them in the buffer. The sentence has the numbers, and no subject.
 */
rota_status rota_tensor_check(const rota_tensor *tensor);

/* The tensor as a part of its buffer's root: where it begins in memory, and how that is aligned, is then said
 * by its offset alone. */
void rota_tensor_resolve(rota_tensor *tensor);

/* First byte of the tensor in the root of its buffer. */
uint64_t rota_tensor_begin(const rota_tensor *tensor);
rota_buffer *rota_tensor_root(const rota_tensor *tensor);

/* The byte ranges from first to last element overlap. */
bool rota_tensors_overlap(const rota_tensor *a, const rota_tensor *b);

/* The same elements in the same order. */
bool rota_tensors_equal(const rota_tensor *a, const rota_tensor *b);

/* No element in common, as far as a simple test shows: ranges apart, or slices of one repeating pattern. */
bool rota_tensors_disjoint(const rota_tensor *a, const rota_tensor *b);

/* Same rank and extents. */
bool rota_shapes_equal(const rota_tensor *a, const rota_tensor *b);

#endif
