/* CPU kernel: copy_strided, with its fast paths for long runs and for transposition. Items are rows of the
 * innermost dimension (of long ones, pieces), or, where the two innermost dimensions are transposed, blocks
 * of rows. */
#include "cpu.h"
#include "half.h"

/* Rows of one transposed block: with 16 floats a cache line, 16 destination rows share the lines of the
 * source. */
enum { BLOCK = 16 };

typedef rota_copy_strided_params params_t;

static bool is_transpose(const params_t *p) {
    const int d = ROTA_KERNEL_DIMS - 1;
    return rota_dtype_bytes((rota_dtype)p->dtype) == 4 && p->y_stride[d] == 1 && p->x_stride[d - 1] == 1 &&
           p->x_stride[d] > 1 && p->shape[d] >= 8 && p->shape[d - 1] >= 8;
}

/* Long rows are several items. */
static uint64_t pieces(uint64_t row) {
    return (row + ROTA_CPU_GRAIN - 1) / ROTA_CPU_GRAIN;
}

void rota_cpu_items_copy_strided(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                 uint64_t *out_grain) {
    (void)operand_bytes;
    const params_t *p = params;
    const uint64_t row = p->shape[ROTA_KERNEL_DIMS - 1], rows = p->count / row;
    if (is_transpose(p)) {
        const uint64_t height = p->shape[ROTA_KERNEL_DIMS - 2];
        *out_items = rows / height * ((height + BLOCK - 1) / BLOCK);
        *out_grain = 1 + ROTA_CPU_GRAIN / (row * BLOCK);
    } else {
        *out_items = rows * pieces(row);
        *out_grain = row < ROTA_CPU_GRAIN ? 1 + ROTA_CPU_GRAIN / row : 1;
    }
}

ROTA_VECTOR static void row_f32(const params_t *p, const float *x, uint64_t xs, float *y, uint64_t ys,
                                uint64_t count) {
    const float alpha = p->flags & ROTA_COPY_SCALE ? p->alpha : 1.0f;
    if (p->flags & ROTA_COPY_ACCUMULATE) {
        if (xs == 1 && ys == 1) {
            ROTA_IVDEP
            for (uint64_t i = 0; i < count; i++) y[i] += alpha * x[i];
        } else
            for (uint64_t i = 0; i < count; i++) y[i * ys] += alpha * x[i * xs];
    } else {
        if (xs == 1 && ys == 1) {
            ROTA_IVDEP
            for (uint64_t i = 0; i < count; i++) y[i] = alpha * x[i];
        } else
            for (uint64_t i = 0; i < count; i++) y[i * ys] = alpha * x[i * xs];
    }
}

/* The same of f16 and bf16. */
static void row_half(const params_t *p, const void *x, uint64_t xs, void *y, uint64_t ys, uint64_t count) {
    const float alpha = p->flags & ROTA_COPY_SCALE ? p->alpha : 1.0f;
    const bool add = p->flags & ROTA_COPY_ACCUMULATE;
    float from[ROTA_CPU_BLOCK], to[ROTA_CPU_BLOCK];
    for (uint64_t i = 0, n; i < count; i += n) {
        n = count - i < ROTA_CPU_BLOCK ? count - i : ROTA_CPU_BLOCK;
        if (xs == 1)
            rota_cpu_widen(p->dtype, x, i, n, from);
        else
            for (uint64_t k = 0; k < n; k++) from[k] = rota_cpu_get(p->dtype, x, (i + k) * xs);
        if (add && ys == 1) rota_cpu_widen(p->dtype, y, i, n, to);
        for (uint64_t k = 0; k < n; k++) {
            const float before = !add ? 0.0f : ys == 1 ? to[k] : rota_cpu_get(p->dtype, y, (i + k) * ys);
            to[k] = add ? before + alpha * from[k] : alpha * from[k];
        }
        if (ys == 1)
            rota_cpu_narrow(p->dtype, to, y, i, n);
        else
            for (uint64_t k = 0; k < n; k++) rota_cpu_put(p->dtype, y, (i + k) * ys, to[k]);
    }
}

/* Elements moved as bits: a NaN keeps its payload, an integer its value. */
static void row_bits(uint32_t bytes, const void *x, uint64_t xs, void *y, uint64_t ys, uint64_t count) {
    if (xs == 1 && ys == 1) {
        memcpy(y, x, count * bytes);
    } else if (bytes == 4) {
        const uint32_t *x4 = x;
        uint32_t *y4 = y;
        for (uint64_t i = 0; i < count; i++) y4[i * ys] = x4[i * xs];
    } else if (bytes == 1) {
        const uint8_t *x1 = x;
        uint8_t *y1 = y;
        for (uint64_t i = 0; i < count; i++) y1[i * ys] = x1[i * xs];
    } else {
        const uint16_t *x2 = x;
        uint16_t *y2 = y;
        for (uint64_t i = 0; i < count; i++) y2[i * ys] = x2[i * xs];
    }
}

/* y[r, c] = x[c, r] for the rows [r0, r1). */
ROTA_VECTOR static void transpose_rows(const params_t *p, const float *x, uint64_t xs, float *y, uint64_t ys,
                                       uint64_t r0, uint64_t r1, uint64_t columns) {
    const float alpha = p->flags & ROTA_COPY_SCALE ? p->alpha : 1.0f;
    const bool plain = !(p->flags & (ROTA_COPY_SCALE | ROTA_COPY_ACCUMULATE));
    for (uint64_t c0 = 0; c0 < columns; c0 += BLOCK) {
        uint64_t c1 = c0 + BLOCK < columns ? c0 + BLOCK : columns;
        for (uint64_t r = r0; r < r1; r++) {
            float *row = y + r * ys;
            if (plain)
                for (uint64_t c = c0; c < c1; c++) memcpy(row + c, x + c * xs + r, sizeof(float));
            else if (p->flags & ROTA_COPY_ACCUMULATE)
                for (uint64_t c = c0; c < c1; c++) row[c] += alpha * x[c * xs + r];
            else
                for (uint64_t c = c0; c < c1; c++) row[c] = alpha * x[c * xs + r];
        }
    }
}

/* Offsets of the position `index` in the dimensions [0, dims). */
static void offsets(const params_t *p, int dims, uint64_t index, uint64_t *out_x, uint64_t *out_y) {
    *out_x = p->x_offset;
    *out_y = p->y_offset;
    for (int d = dims - 1; d >= 0; d--) {
        uint64_t i = index % p->shape[d];
        index /= p->shape[d];
        *out_x += i * p->x_stride[d];
        *out_y += i * p->y_stride[d];
    }
}

rota_status rota_cpu_copy_strided(const rota_kernel_call *call) {
    const params_t *p = call->params;
    const int last = ROTA_KERNEL_DIMS - 1;
    const uint64_t xs = p->x_stride[last], ys = p->y_stride[last], row = p->shape[last];
    const uint8_t *x = call->operands[0];
    uint8_t *y = call->operands[1];
    if (is_transpose(p)) {
        const uint64_t height = p->shape[last - 1], blocks = (height + BLOCK - 1) / BLOCK;
        for (uint64_t item = call->begin; item < call->end; item++) {
            uint64_t x_first, y_first, r0 = item % blocks * BLOCK;
            offsets(p, last - 1, item / blocks, &x_first, &y_first);
            transpose_rows(p, (const float *)x + x_first, xs, (float *)y + y_first, p->y_stride[last - 1], r0,
                           r0 + BLOCK < height ? r0 + BLOCK : height, row);
        }
        return ROTA_OK;
    }
    const uint64_t cut = pieces(row);
    const uint32_t bytes = rota_dtype_bytes((rota_dtype)p->dtype);
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t x_first, y_first, from = item % cut * ROTA_CPU_GRAIN;
        const uint64_t count = row - from < ROTA_CPU_GRAIN ? row - from : ROTA_CPU_GRAIN;
        offsets(p, last, item / cut, &x_first, &y_first);
        x_first += from * xs;
        y_first += from * ys;
        const uint8_t *from_x = x + x_first * bytes;
        uint8_t *to_y = y + y_first * bytes;
        if (!(p->flags & (ROTA_COPY_SCALE | ROTA_COPY_ACCUMULATE)))
            row_bits(bytes, from_x, xs, to_y, ys, count);
        else if (p->dtype == ROTA_F32)
            row_f32(p, (const float *)from_x, xs, (float *)to_y, ys, count);
        else
            row_half(p, from_x, xs, to_y, ys, count);
    }
    return ROTA_OK;
}
