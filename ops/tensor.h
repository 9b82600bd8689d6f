/* Tensors: values that say how a part of a buffer is read as an array. Making, copying and viewing one costs
 * nothing and touches no memory; a tensor borrows its buffer. */
#ifndef ROTA_OPS_TENSOR_H
#define ROTA_OPS_TENSOR_H

#include <stdbool.h>
#include <stdint.h>
#include "../graph/buffer.h"

/* One list: enum name, printed name, bytes of an element. */
#define ROTA_DTYPE_LIST(X)                                                                                   \
    X(F32, "f32", 4)                                                                                         \
    X(F16, "f16", 2)                                                                                         \
    X(BF16, "bf16", 2)                                                                                       \
    X(I32, "i32", 4)                                                                                         \
    X(U32, "u32", 4)                                                                                         \
    X(F8_E4M3FN, "f8_e4m3fn", 1)                                                                             \
    X(F8_E5M2, "f8_e5m2", 1)

typedef enum rota_dtype {
#define ROTA_DTYPE_ENUM(name, text, bytes) ROTA_##name,
    ROTA_DTYPE_LIST(ROTA_DTYPE_ENUM)
#undef ROTA_DTYPE_ENUM
        ROTA_DTYPE_COUNT
} rota_dtype;

/* "f32" and so on; "unknown" outside the enum. Static storage. */
ROTA_API const char *rota_dtype_name(rota_dtype dtype);
ROTA_API uint32_t rota_dtype_bytes(rota_dtype dtype);
/* f32, f16 or bf16: what ops compute with. */
ROTA_API bool rota_dtype_is_real(rota_dtype dtype);
/* f8_e4m3fn or f8_e5m2, the 8-bit floats of the OCP's OFP8 (Micikevicius et al., arXiv 2209.05433): a sign, 4 bits of
 * exponent and 3 of mantissa, up to 448, with NaNs and no infinities; or 5 and 2, up to 57344, with both. They are
 * stored, moved, cast to and from real dtypes (rota_op_cast) and multiplied with scales (rota_op_scaled_matmul); no
 * other op computes with them. No gradient passes through them. */
ROTA_API bool rota_dtype_is_f8(rota_dtype dtype);

#define ROTA_RANK_MAX 8

/* Element [i0, i1, ...] is at offset_bytes + dtype bytes * (i0 * stride[0] + i1 * stride[1] + ...) of the
 * buffer. Strides are in elements, never negative; 0 repeats. Rank 0 is one element. At most 2^32 - 1
 * elements; an extent may be 0: a tensor without elements ("empty") still has a buffer. A tensor with a NULL
 * buffer is "none" (an absent optional operand).
 *
 * Tensors may be made by hand. Ops look at each that they are given, and refuse, with the numbers, one that
 * does not lie in its buffer or at multiples of its element (OUT_OF_RANGE, MISALIGNED), and strides above
 * 2^32 - 1 along axes of two elements or more (UNSUPPORTED). Any other place will do: what kernels can't take
 * where it is, as 2-byte elements from an odd one on, is copied. */
typedef struct rota_tensor {
    rota_buffer *buffer;
    uint64_t offset_bytes;
    rota_dtype dtype;
    uint32_t rank;
    uint64_t shape[ROTA_RANK_MAX];
    uint64_t stride[ROTA_RANK_MAX];
} rota_tensor;

#ifdef __cplusplus
#define ROTA_TENSOR_NONE (rota_tensor{})
#else
#define ROTA_TENSOR_NONE ((rota_tensor){0})
#endif

/* The whole of, or the part from offset_bytes of, a buffer as a dense row-major tensor. OUT_OF_RANGE if the
 * buffer is too small (names both sizes), MISALIGNED if offset_bytes is not a multiple of the element,
 * INVALID_ARGUMENT for a rank above ROTA_RANK_MAX or too many elements. */
ROTA_API rota_status rota_tensor_of(rota_buffer *buffer, uint64_t offset_bytes, rota_dtype dtype,
                                    uint32_t rank, const uint64_t *shape, rota_tensor *out_tensor);

/* A shape in place, as a rank and an array: rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(12, n, 128), &x). Extents
 * need not be constants. The array lives as long as the block around it, in C++ as the whole expression. */
#ifdef __cplusplus
extern "C++" {
template <unsigned Rank> struct rota_shape_values {
    static constexpr uint32_t rank = Rank;
    uint64_t extents[Rank];
    constexpr const uint64_t *data() const { return extents; }
};
template <typename... Extents>
constexpr rota_shape_values<sizeof...(Extents)> rota_shape_values_of(Extents... extents) {
    return {{static_cast<uint64_t>(extents)...}};
}
}
#define ROTA_SHAPE(...)                                                                                      \
    uint32_t(decltype(rota_shape_values_of(__VA_ARGS__))::rank), rota_shape_values_of(__VA_ARGS__).data()
#else
#define ROTA_SHAPE(...)                                                                                      \
    (uint32_t)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (const uint64_t[]) {                   \
        __VA_ARGS__                                                                                          \
    }
#endif

/* Number of elements. */
ROTA_API uint64_t rota_tensor_count(const rota_tensor *tensor);

/* An extent is 0. */
ROTA_API bool rota_tensor_is_empty(const rota_tensor *tensor);

/* Bytes from the first element to the end of the last one: the access range of the tensor; 0 if it is empty,
 * 2^63 - 1, which no buffer has, where strides made by hand reach that far or farther. */
ROTA_API uint64_t rota_tensor_extent_bytes(const rota_tensor *tensor);

/* Bytes of a dense tensor of this dtype and shape. */
ROTA_API uint64_t rota_shape_bytes(rota_dtype dtype, uint32_t rank, const uint64_t *shape);

/* Row-major without gaps. */
ROTA_API bool rota_tensor_is_contiguous(const rota_tensor *tensor);

/* Every element of the extent belongs to the tensor exactly once (a permuted contiguous tensor, for example).
 */
ROTA_API bool rota_tensor_is_dense(const rota_tensor *tensor);

/* ---- Views: the same memory, read differently. `out_view` may be `tensor`. ---- */

/* INVALID_ARGUMENT, naming both shapes, if the number of elements differs or the strides can't express the
 * new shape (make it contiguous first: rota_op_contiguous). */
ROTA_API rota_status rota_tensor_reshape(const rota_tensor *tensor, uint32_t rank, const uint64_t *shape,
                                         rota_tensor *out_view);
/* [start, start + length) along an axis. OUT_OF_RANGE, with the numbers, if the axis is shorter, or if its
 * stride, made by hand, reaches 2^63 bytes or farther. */
ROTA_API rota_status rota_tensor_slice(const rota_tensor *tensor, uint32_t axis, uint64_t start,
                                       uint64_t length, rota_tensor *out_view);
/* `count` equal parts along an axis, in order; INVALID_ARGUMENT if its extent is no multiple. */
ROTA_API rota_status rota_tensor_split(const rota_tensor *tensor, uint32_t axis, uint32_t count,
                                       rota_tensor *out_views);
/* Swaps two axes. */
ROTA_API rota_status rota_tensor_transpose(const rota_tensor *tensor, uint32_t axis_a, uint32_t axis_b,
                                           rota_tensor *out_view);
/* Axis i of the view is axis order[i] of the tensor. */
ROTA_API rota_status rota_tensor_permute(const rota_tensor *tensor, const uint32_t *order,
                                         rota_tensor *out_view);
/* Right-aligned broadcasting to a larger shape: missing or 1-long axes repeat with stride 0. */
ROTA_API rota_status rota_tensor_broadcast(const rota_tensor *tensor, uint32_t rank, const uint64_t *shape,
                                           rota_tensor *out_view);

/* "f32 [12, 64, 128]" into text[0..capacity), always terminated; returns text. */
#define ROTA_TENSOR_TEXT_MAX 224
ROTA_API const char *rota_tensor_describe(const rota_tensor *tensor, char *text, uint64_t capacity);

#endif
