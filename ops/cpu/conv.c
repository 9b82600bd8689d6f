/* CPU kernels: conv2d, conv2d_backward_input, conv2d_backward_weight. Products of matrices one of which is
 * never there as a whole: a block of it is gathered, multiplied and forgotten, so that memory stays bounded. An
 * item is a block of results; blocks follow from the parameters alone, so results do not depend on the workers. */
#include "cpu.h"
#include "gemm.h"
#include "half.h"
#include "rows.h"

#include <stdlib.h>

/* Rows of results, of the summed dimension, and most columns, in a block; a gathered block has at most
 * BLOCK_GATHERED. */
enum {
    BLOCK_ROWS = 128,
    BLOCK_DEPTH = 256,
    BLOCK_COLUMNS = 1024,
    BLOCK_GATHERED = 32768,
    BLOCK_WEIGHTS = 128
};
/* Multiply-adds that are worth a task. */
#define TASK_WORK (1u << 19)

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}
static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t window_of(const rota_conv_params *p) {
    return (uint64_t)p->window[0] * p->window[1];
}
static uint64_t plane_in(const rota_conv_params *p) {
    return (uint64_t)p->in[0] * p->in[1];
}
static uint64_t plane_out(const rota_conv_params *p) {
    return (uint64_t)p->out[0] * p->out[1];
}

/* ---- Gathering ---- */

/* `count` elements from `from` on as floats. */
static void copy_run(uint32_t dtype, const void *x, uint64_t from, uint64_t step, uint64_t count, float *to) {
    if (count == 0) return;
    if (step == 1) {
        const float *wide = rota_cpu_widen(dtype, x, from, count, to);
        if (wide != to) memcpy(to, wide, count * sizeof *to);
        return;
    }
    for (uint64_t i = 0; i < count; i++) to[i] = rota_cpu_get(dtype, x, from + i * step);
}

/* A tap of a window: the channel that it reads, and how far from the window's position along each axis. */
typedef struct tap {
    uint64_t channel;
    int64_t shift[2];
} tap;

static tap tap_of(const rota_conv_params *p, uint64_t k) {
    const uint64_t in_window = k % window_of(p), row = in_window / p->window[1],
                   column = in_window % p->window[1];
    return (tap){k / window_of(p),
                 {(int64_t)(row * p->dilation[0]) - p->padding[0],
                  (int64_t)(column * p->dilation[1]) - p->padding[1]}};
}

static int64_t clip(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Places [first, last) of a row of windows: what the tap reads in x's row, 0 outside. */
static void gather_row(const rota_conv_params *p, const void *x, uint64_t row_begin, int64_t shift,
                       int64_t first, int64_t last, float *to) {
    const int64_t stride = p->stride[1], size = p->in[1];
    const int64_t begin = clip(shift >= 0 ? 0 : (-shift + stride - 1) / stride, first, last);
    const int64_t end = clip(shift >= size ? 0 : (size - shift + stride - 1) / stride, begin, last);
    memset(to, 0, (size_t)(begin - first) * sizeof *to);
    if (begin < end)
        copy_run(p->dtype, x, row_begin + (uint64_t)(begin * stride + shift), p->stride[1],
                 (uint64_t)(end - begin), to + (begin - first));
    memset(to + (end - first), 0, (size_t)(last - end) * sizeof *to);
}

/* Elements [first, last) of a row of x: the gradients of the windows whose tap reads them, 0 where none does. */
static void gather_row_back(const rota_conv_params *p, const void *dy, uint64_t row_begin, int64_t shift,
                            int64_t first, int64_t last, float *to) {
    const int64_t stride = p->stride[1], size = p->out[1];
    const int64_t begin = clip(first - shift > 0 ? (first - shift + stride - 1) / stride : 0, 0, size);
    const int64_t end = clip(last - shift > 0 ? (last - shift + stride - 1) / stride : 0, begin, size);
    memset(to, 0, (size_t)(last - first) * sizeof *to);
    if (stride == 1) {
        if (begin < end)
            copy_run(p->dtype, dy, row_begin + (uint64_t)begin, 1, (uint64_t)(end - begin),
                     to + (begin + shift - first));
        return;
    }
    for (int64_t o = begin; o < end; o++)
        to[o * stride + shift - first] = rota_cpu_get(p->dtype, dy, row_begin + (uint64_t)o);
}

/* Rows [k, k + depth), columns [column, column + columns) of the matrix that an image's and group's x is read
 * as: row k what tap k reads, a column per position of a window. Back: of dy, a column per element of x. */
static void gather(const rota_conv_params *p, bool back, const void *x, uint64_t first, uint64_t k,
                   uint64_t depth, uint64_t column, uint64_t columns, float *to) {
    const uint64_t width = back ? p->in[1] : p->out[1], height = back ? p->out[0] : p->in[0];
    const uint64_t row_length = back ? p->out[1] : p->in[1];
    for (uint64_t i = 0; i < depth; i++) {
        const tap t = tap_of(p, k + i);
        for (uint64_t c = 0, count; c < columns; c += count, to += count) {
            const int64_t row = (int64_t)((column + c) / width), position = (int64_t)((column + c) % width);
            count = least(columns - c, width - (uint64_t)position);
            int64_t from = back ? row - t.shift[0] : row * p->stride[0] + t.shift[0];
            const bool between = back && (from < 0 || from % p->stride[0] != 0);
            if (back) from /= p->stride[0];
            if (between || from < 0 || from >= (int64_t)height) {
                memset(to, 0, count * sizeof *to);
                continue;
            }
            const uint64_t begin = first + (t.channel * height + (uint64_t)from) * row_length;
            (back ? gather_row_back : gather_row)(p, x, begin, t.shift[1], position,
                                                  position + (int64_t)count, to);
        }
    }
}

/* Rows [row, row + rows), columns [k, k + depth) of a group's weights, a row per channel of the result, as
 * floats: those of conv2d lie so; of its gradient a row is a channel of x, and k counts channels of y and the
 * window. */
static void gather_weights(const rota_conv_params *p, bool back, const void *w, uint64_t first, uint64_t row,
                           uint64_t rows, uint64_t k, uint64_t depth, float *to) {
    const uint64_t window = window_of(p), all = p->in_channels * window;
    for (uint64_t r = row; r < row + rows; r++, to += depth) {
        if (!back) {
            copy_run(p->dtype, w, first + r * all + k, 1, depth, to);
            continue;
        }
        for (uint64_t i = 0, count; i < depth; i += count) { /* what there is of one window at a time */
            const uint64_t channel = (k + i) / window, in_window = (k + i) % window;
            count = least(depth - i, window - in_window);
            copy_run(p->dtype, w, first + channel * all + r * window + in_window, 1, count, to + i);
        }
    }
}

/* ---- conv2d and its gradient by x ---- */

/* A product of an image and a group: rows x depth by depth x columns, in blocks. */
typedef struct product {
    uint64_t rows, depth, columns;
    uint64_t block_depth, block_columns;
    uint64_t row_blocks, column_blocks;
} product;

static product product_of(const rota_conv_params *p, bool back) {
    product s = {.rows = back ? p->in_channels : p->out_channels,
                 .depth = (back ? p->out_channels : p->in_channels) * window_of(p),
                 .columns = back ? plane_in(p) : plane_out(p)};
    s.block_depth = least(s.depth, BLOCK_DEPTH);
    s.block_columns = least(s.columns, least(BLOCK_GATHERED / s.block_depth, BLOCK_COLUMNS));
    s.row_blocks = divide_up(s.rows, BLOCK_ROWS);
    s.column_blocks = divide_up(s.columns, s.block_columns);
    return s;
}

static void items_of(const rota_conv_params *p, bool back, uint64_t *out_items, uint64_t *out_grain) {
    const product s = product_of(p, back);
    *out_items = (uint64_t)p->batch * p->groups * s.row_blocks * s.column_blocks;
    *out_grain = 1 + TASK_WORK / (least(s.rows, BLOCK_ROWS) * s.block_columns * s.depth);
}

void rota_cpu_items_conv2d(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    (void)operand_bytes;
    items_of(params, false, out_items, out_grain);
}

void rota_cpu_items_conv2d_backward_input(const void *params, const uint64_t *operand_bytes,
                                          uint64_t *out_items, uint64_t *out_grain) {
    (void)operand_bytes;
    items_of(params, true, out_items, out_grain);
}

/* Where x itself is the matrix that it would be gathered into. */
static bool reads_in_place(const rota_conv_params *p) {
    return p->dtype == ROTA_F32 && window_of(p) == 1 && p->stride[0] == 1 && p->stride[1] == 1 &&
           p->padding[0] == 0 && p->padding[1] == 0;
}

/* Floats of scratch: a gathered block, weights, sums. */
static uint64_t scratch_of(const product *s) {
    return s->block_depth * s->block_columns + (uint64_t)BLOCK_ROWS * (s->block_depth + s->block_columns);
}

static void run_block(const rota_kernel_call *call, bool back, const product *s, uint64_t item,
                      float *scratch) {
    const rota_conv_params *p = call->params;
    const bool is_f32 = p->dtype == ROTA_F32, in_place = reads_in_place(p);
    const uint64_t row = item % s->row_blocks * BLOCK_ROWS, rows = least(s->rows - row, BLOCK_ROWS);
    item /= s->row_blocks;
    const uint64_t column = item % s->column_blocks * s->block_columns,
                   columns = least(s->columns - column, s->block_columns);
    const uint64_t plane = item / s->column_blocks,
                   group = plane % p->groups; /* plane: of images and groups */
    const uint64_t x_first = plane * (back ? p->out_channels * plane_out(p) : p->in_channels * plane_in(p));
    const uint64_t w_first = group * p->out_channels * p->in_channels * window_of(p);
    const uint64_t y_first = (plane * s->rows + row) * s->columns + column;
    float *gathered = scratch, *weights = gathered + s->block_depth * s->block_columns;
    float *sums = is_f32 ? (float *)call->operands[3] + y_first : weights + BLOCK_ROWS * s->block_depth;
    const uint64_t pitch = is_f32 ? s->columns : columns;
    const bool has_bias = p->flags & ROTA_CONV_BIAS;
    for (uint64_t r = 0; r < rows && has_bias; r++) {
        const float bias = rota_cpu_get(p->dtype, call->operands[2], group * s->rows + row + r);
        for (uint64_t c = 0; c < columns; c++) sums[r * pitch + c] = bias;
    }
    for (uint64_t k = 0; k < s->depth; k += s->block_depth) {
        const uint64_t depth = least(s->depth - k, s->block_depth);
        const float *left = (const float *)call->operands[1] + w_first + row * s->depth + k,
                    *right = gathered;
        const bool packed = !is_f32 || back;
        if (packed) gather_weights(p, back, call->operands[1], w_first, row, rows, k, depth, weights);
        if (in_place)
            right = (const float *)call->operands[0] + x_first + k * s->columns + column;
        else
            gather(p, back, call->operands[0], x_first, k, depth, column, columns, gathered);
        rota_cpu_sgemm(false, false, rows, columns, depth, 1.0f, packed ? weights : left,
                       packed ? depth : s->depth, right, in_place ? s->columns : columns,
                       k > 0 || has_bias ? 1.0f : 0.0f, sums, pitch);
    }
    for (uint64_t r = 0; r < rows && !is_f32; r++)
        rota_cpu_narrow(p->dtype, sums + r * columns, call->operands[3], y_first + r * s->columns, columns);
}

static rota_status run(const rota_kernel_call *call, bool back, const char *name) {
    const product s = product_of(call->params, back);
    float *scratch = malloc(scratch_of(&s) * sizeof *scratch);
    if (!scratch) return rota_cpu_no_scratch(name, scratch_of(&s));
    for (uint64_t item = call->begin; item < call->end; item++) run_block(call, back, &s, item, scratch);
    free(scratch);
    return ROTA_OK;
}

rota_status rota_cpu_conv2d(const rota_kernel_call *call) {
    return run(call, false, "conv2d");
}

rota_status rota_cpu_conv2d_backward_input(const rota_kernel_call *call) {
    return run(call, true, "conv2d_backward_input");
}

/* ---- The gradient by w ---- */

/* Blocks of a group's weights: rows of channels of y, columns of channels of x and the window. */
typedef struct weight_blocks {
    uint64_t rows, columns, chunks;
    uint64_t columns_all;
} weight_blocks;

static weight_blocks weights_of(const rota_conv_params *p) {
    const uint64_t columns = p->in_channels * window_of(p);
    return (weight_blocks){divide_up(p->out_channels, BLOCK_ROWS), divide_up(columns, BLOCK_DEPTH),
                           divide_up(p->batch * plane_out(p), p->chunk), columns};
}

void rota_cpu_items_conv2d_backward_weight(const void *params, const uint64_t *operand_bytes,
                                           uint64_t *out_items, uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_conv_params *p = params;
    const weight_blocks b = weights_of(p);
    *out_items = b.chunks * p->groups * b.rows * b.columns;
    *out_grain = 1 + TASK_WORK / (least(p->out_channels, BLOCK_ROWS) * least(b.columns_all, BLOCK_DEPTH) *
                                  (uint64_t)p->chunk);
}

/* Adds up dy [rows, positions] by the transpose of x [columns, positions], over the chunk's positions, image by
 * image. */
static void weight_block(const rota_kernel_call *call, const weight_blocks *b, uint64_t item, float *gathered,
                         float *gradients) {
    const rota_conv_params *p = call->params;
    const uint64_t row = item % b->rows * BLOCK_ROWS, rows = least(p->out_channels - row, BLOCK_ROWS);
    item /= b->rows;
    const uint64_t column = item % b->columns * BLOCK_DEPTH,
                   columns = least(b->columns_all - column, BLOCK_DEPTH);
    item /= b->columns;
    const uint64_t group = item % p->groups, chunk = item / p->groups, plane = plane_out(p);
    const uint64_t begin = chunk * p->chunk, end = least(begin + p->chunk, p->batch * plane);
    float *sums = (float *)call->operands[2] +
                  ((chunk * p->groups + group) * p->out_channels + row) * b->columns_all + column;
    for (uint64_t first_of_run = begin, count; first_of_run < end; first_of_run += count) {
        const uint64_t image = first_of_run / plane, position = first_of_run % plane,
                       of_group = image * p->groups + group;
        const uint64_t dy_first = (of_group * p->out_channels + row) * plane + position;
        count = least(least(end - first_of_run, plane - position), BLOCK_WEIGHTS);
        gather(p, false, call->operands[0], of_group * p->in_channels * plane_in(p), column, columns,
               position, count, gathered);
        const float *dy = (const float *)call->operands[1] + dy_first;
        if (p->dtype != ROTA_F32) {
            for (uint64_t r = 0; r < rows; r++)
                copy_run(p->dtype, call->operands[1], dy_first + r * plane, 1, count, gradients + r * count);
            dy = gradients;
        }
        rota_cpu_sgemm(false, true, rows, columns, count, 1.0f, dy, p->dtype == ROTA_F32 ? plane : count,
                       gathered, count, first_of_run == begin ? 0.0f : 1.0f, sums, b->columns_all);
    }
}

rota_status rota_cpu_conv2d_backward_weight(const rota_kernel_call *call) {
    const weight_blocks b = weights_of(call->params);
    const uint64_t floats = (uint64_t)BLOCK_WEIGHTS * (BLOCK_DEPTH + BLOCK_ROWS);
    float *scratch = malloc(floats * sizeof *scratch);
    if (!scratch) return rota_cpu_no_scratch("conv2d_backward_weight", floats);
    for (uint64_t item = call->begin; item < call->end; item++)
        weight_block(call, &b, item, scratch, scratch + (uint64_t)BLOCK_WEIGHTS * BLOCK_DEPTH);
    free(scratch);
    return ROTA_OK;
}
