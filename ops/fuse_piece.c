/* What one recorded node would be in a group of fused ones: its step, what it reads and how that repeats, its
 * words. */
#include "ops/fuse_piece.h"

#include <string.h>

#include "ops/kernel_objects.h"

bool rota_fuse_is_elementwise(const rota_kernel *kernel) {
    return kernel == &rota_kernel_binary || kernel == &rota_kernel_unary ||
           kernel == &rota_kernel_unary_backward || kernel == &rota_kernel_cast ||
           kernel == &rota_kernel_dropout || kernel == &rota_kernel_where ||
           kernel == &rota_kernel_copy_strided;
}

/* How an operand of these strides repeats over the elements of `shape`, innermost last: element i is its (i /
 * div) % mod, or i itself (mod 0). False: in no such way. */
static bool repetition(const uint32_t shape[ROTA_KERNEL_DIMS], const uint32_t stride[ROTA_KERNEL_DIMS],
                       uint32_t count, uint32_t *out_div, uint32_t *out_mod) {
    uint32_t div = 1, mod = 1;
    enum { INSIDE, WITHIN, OUTSIDE } region = INSIDE;
    for (int d = ROTA_KERNEL_DIMS - 1; d >= 0; d--) {
        if (shape[d] == 1) continue;
        if (stride[d] == 0) {
            if (region == INSIDE)
                div *= shape[d];
            else
                region = OUTSIDE;
        } else {
            if (region == OUTSIDE || stride[d] != mod) return false;
            region = WITHIN;
            mod *= shape[d];
        }
    }
    if (mod == 1) div = 1;
    *out_div = div == 1 && mod == count ? 0 : div;
    *out_mod = div == 1 && mod == count ? 0 : mod;
    return true;
}

static bool is_real(uint32_t dtype) {
    return dtype == ROTA_F32 || dtype == ROTA_F16 || dtype == ROTA_BF16;
}

/* Adds access `from`, in the part of its range that `elements` of the dtype take. */
static bool add_read(rota_fuse_piece *piece, const rota_node_view *view, uint32_t from, uint32_t to,
                     uint32_t div, uint32_t mod, uint32_t dtype) {
    const rota_access *access = &view->accesses[from];
    const uint64_t bytes = (uint64_t)(mod ? mod : piece->count) * rota_dtype_bytes((rota_dtype)dtype);
    if (access->mode != ROTA_READ || access->size_bytes != bytes) return false;
    piece->read[piece->read_count++] = (rota_fuse_read){
        *access, div, mod, (uint8_t)dtype,
        mod == 0 && (view->kernel->inplace_inputs >> from & 1) && (view->kernel->inplace_outputs >> to & 1)};
    return true;
}

static bool set_result(rota_fuse_piece *piece, const rota_access *access, uint32_t dtype) {
    piece->result = *access;
    piece->result_dtype = (uint8_t)dtype;
    return access->mode == ROTA_WRITE &&
           access->size_bytes == (uint64_t)piece->count * rota_dtype_bytes((rota_dtype)dtype);
}

static bool bound_to(const rota_node_view *view, uint32_t bindable, rota_slot *out_slot) {
    for (uint32_t b = 0; b < view->binding_count; b++)
        if (view->bindings[b].bindable == bindable &&
            view->bindings[b].slot.index != ROTA_SLOT_CONSTANT.index) {
            *out_slot = view->bindings[b].slot;
            return true;
        }
    return false;
}

static void add_word(rota_fuse_piece *piece, const void *field, const rota_node_view *view, int bindable) {
    const uint32_t w = piece->word_count++;
    memcpy(&piece->word[w], field, sizeof piece->word[w]);
    piece->slot[w] = (rota_slot){0};
    if (bindable >= 0) (void)bound_to(view, (uint32_t)bindable, &piece->slot[w]);
}

/* How many of alpha and beta an operation uses. */
static uint32_t unary_words(uint32_t op) {
    switch (op) {
    case ROTA_UNARY_AFFINE:
    case ROTA_UNARY_CLAMP:
        return 2;
    case ROTA_UNARY_LEAKY_RELU:
    case ROTA_UNARY_ELU:
    case ROTA_UNARY_POW:
    case ROTA_UNARY_SOFTCAP:
        return 1;
    default:
        return 0;
    }
}

static bool unary_of(const rota_node_view *view, rota_fuse_piece *out) {
    const rota_unary_params *p = view->params;
    const bool backward = view->kernel == &rota_kernel_unary_backward;
    const uint32_t to = backward ? 2 : 1;
    out->kind = backward ? ROTA_FUSED_UNARY_BACKWARD : ROTA_FUSED_UNARY;
    out->op = (uint8_t)p->op;
    out->dtype = (uint8_t)p->dtype;
    out->count = p->count;
    if (p->op >= ROTA_UNARY_COUNT) return false;
    if (unary_words(p->op) > 0) add_word(out, &p->alpha, view, 0);
    if (unary_words(p->op) > 1) add_word(out, &p->beta, view, 1);
    for (uint32_t i = 0; i < to; i++)
        if (!add_read(out, view, i, to, 0, 0, p->dtype)) return false;
    return set_result(out, &view->accesses[to], p->dtype);
}

static bool binary_of(const rota_node_view *view, rota_fuse_piece *out) {
    const rota_binary_params *p = view->params;
    uint32_t div, mod;
    out->kind = ROTA_FUSED_BINARY;
    out->op = (uint8_t)p->op;
    out->dtype = (uint8_t)p->dtype;
    out->count = p->count;
    return p->op < ROTA_BINARY_COUNT && repetition(p->shape, p->b_stride, p->count, &div, &mod) &&
           add_read(out, view, 0, 2, 0, 0, p->dtype) && add_read(out, view, 1, 2, div, mod, p->dtype) &&
           set_result(out, &view->accesses[2], p->dtype);
}

/* c and b may repeat in different ways only where one of them is a single number. */
static bool where_of(const rota_node_view *view, rota_fuse_piece *out) {
    const rota_where_params *p = view->params;
    const bool number = p->flags & ROTA_WHERE_NUMBER;
    uint32_t c_div, c_mod, b_div = 0, b_mod = 0;
    out->kind = ROTA_FUSED_WHERE;
    out->op = (uint8_t)p->flags;
    out->dtype = (uint8_t)p->dtype;
    out->count = p->count;
    if (!is_real(p->dtype) || !repetition(p->shape, p->c_stride, p->count, &c_div, &c_mod)) return false;
    if (!number && !repetition(p->shape, p->b_stride, p->count, &b_div, &b_mod)) return false;
    if (c_mod > 1 && b_mod > 1 && (c_div != b_div || c_mod != b_mod)) return false;
    if (number) add_word(out, &p->number, view, -1);
    return add_read(out, view, 0, 3, c_div, c_mod, p->dtype) && add_read(out, view, 1, 3, 0, 0, p->dtype) &&
           (number || add_read(out, view, 2, 3, b_div, b_mod, p->dtype)) &&
           set_result(out, &view->accesses[3], p->dtype);
}

static bool cast_of(const rota_node_view *view, rota_fuse_piece *out) {
    const rota_cast_params *p = view->params;
    out->kind = ROTA_FUSED_CAST;
    out->dtype = (uint8_t)p->from;
    out->count = p->count;
    return is_real(p->from) && is_real(p->to) && add_read(out, view, 0, 1, 0, 0, p->from) &&
           set_result(out, &view->accesses[1], p->to);
}

static bool dropout_of(const rota_node_view *view, rota_fuse_piece *out) {
    const rota_dropout_params *p = view->params;
    out->kind = ROTA_FUSED_DROPOUT;
    out->dtype = (uint8_t)p->dtype;
    out->count = p->count;
    add_word(out, &p->threshold, view, -1);
    add_word(out, &p->scale, view, -1);
    add_word(out, &p->stream, view, -1);
    add_word(out, &p->seed, view, 0);
    add_word(out, &p->step, view, 1);
    add_word(out, &p->first, view, -1);
    return add_read(out, view, 0, 2, 0, 0, p->dtype) &&
           (!p->has_residual || add_read(out, view, 1, 2, 0, 0, p->dtype)) &&
           set_result(out, &view->accesses[2], p->dtype);
}

/* y += x and y -= x, on a contiguous y: the sum or the difference of two operands, of which one is the
 * result. Other factors would be rounded in between. */
static bool accumulation_of(const rota_node_view *view, rota_fuse_piece *out) {
    const rota_copy_strided_params *p = view->params;
    uint32_t div, mod, y_div, y_mod;
    const float alpha = p->flags & ROTA_COPY_SCALE ? p->alpha : 1.0f;
    if (!(p->flags & ROTA_COPY_ACCUMULATE) || (alpha != 1.0f && alpha != -1.0f) || p->x_offset ||
        p->y_offset || view->accesses[1].mode != ROTA_READWRITE)
        return false;
    out->kind = ROTA_FUSED_BINARY;
    out->op = alpha == 1.0f ? ROTA_BINARY_ADD : ROTA_BINARY_SUB;
    out->dtype = (uint8_t)p->dtype;
    out->count = p->count;
    if (!is_real(p->dtype) || !repetition(p->shape, p->x_stride, p->count, &div, &mod) ||
        !repetition(p->shape, p->y_stride, p->count, &y_div, &y_mod) || y_mod != 0)
        return false;
    rota_access y = view->accesses[1];
    const uint64_t bytes = (uint64_t)p->count * rota_dtype_bytes((rota_dtype)p->dtype);
    if (y.size_bytes != bytes) return false;
    y.mode = ROTA_READ;
    out->read[out->read_count++] = (rota_fuse_read){y, 0, 0, (uint8_t)p->dtype, true};
    y.mode = ROTA_WRITE;
    return add_read(out, view, 0, 1, div, mod, p->dtype) && set_result(out, &y, p->dtype);
}

bool rota_fuse_piece_of(const rota_node_view *view, rota_fuse_piece *out_piece) {
    *out_piece = (rota_fuse_piece){0};
    const rota_kernel *kernel = view->kernel;
    if (!kernel || !rota_fuse_is_elementwise(kernel) || view->ordered) return false;
    bool good = false;
    if (kernel == &rota_kernel_unary || kernel == &rota_kernel_unary_backward)
        good = unary_of(view, out_piece);
    else if (kernel == &rota_kernel_binary)
        good = binary_of(view, out_piece);
    else if (kernel == &rota_kernel_where)
        good = where_of(view, out_piece);
    else if (kernel == &rota_kernel_cast)
        good = cast_of(view, out_piece);
    else if (kernel == &rota_kernel_dropout)
        good = dropout_of(view, out_piece);
    else if (kernel == &rota_kernel_copy_strided)
        good = accumulation_of(view, out_piece);
    return good && is_real(out_piece->dtype) && out_piece->count > 0;
}
