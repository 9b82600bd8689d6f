/* CPU kernels: conv2d, conv2d_backward_input, conv2d_backward_weight. Products of matrices one of which is
 * never there as a whole: a block of it is gathered, multiplied and forgotten, so that memory stays bounded. An
 * item is a block of results; blocks follow from the parameters alone, so results do not depend on the workers. */
#include "cpu.h"
#include "base/divide.h"
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

/* How far apart, in elements, the images of a tensor are, the channels of an image and the positions of a plane. */
typedef struct steps {
    uint64_t image, channel, position;
} steps;

static bool is_last(const rota_conv_params *p) {
    return p->flags & ROTA_CONV_CHANNELS_LAST;
}
/* Of a side with so many channels in a group. */
static steps steps_of(const rota_conv_params *p, uint64_t channels, uint64_t plane) {
    const uint64_t all = p->groups * channels;
    return is_last(p) ? (steps){all * plane, 1, all} : (steps){all * plane, plane, 1};
}
static steps steps_of_x(const rota_conv_params *p) {
    return steps_of(p, p->in_channels, plane_in(p));
}
static steps steps_of_y(const rota_conv_params *p) {
    return steps_of(p, p->out_channels, plane_out(p));
}
/* Where a group's channels begin, by the number of images and groups. */
static uint64_t group_at(const rota_conv_params *p, const steps *s, uint64_t channels, uint64_t number) {
    return number / p->groups * s->image + number % p->groups * channels * s->channel;
}
/* Where an element of a channel of y's weights is, by its channel of x and its place in the window as one number. */
static uint64_t weight_at(const rota_conv_params *p, uint64_t column) {
    return is_last(p) ? column % window_of(p) * p->in_channels + column / window_of(p) : column;
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
static void gather_row(const rota_conv_params *p, const void *x, uint64_t row_begin, uint64_t step,
                       int64_t shift, int64_t first, int64_t last, float *to) {
    const int64_t stride = p->stride[1], size = p->in[1];
    const int64_t begin = clip(shift >= 0 ? 0 : (-shift + stride - 1) / stride, first, last);
    const int64_t end = clip(shift >= size ? 0 : (size - shift + stride - 1) / stride, begin, last);
    memset(to, 0, (size_t)(begin - first) * sizeof *to);
    if (begin < end)
        copy_run(p->dtype, x, row_begin + (uint64_t)(begin * stride + shift) * step, p->stride[1] * step,
                 (uint64_t)(end - begin), to + (begin - first));
    memset(to + (end - first), 0, (size_t)(last - end) * sizeof *to);
}

/* Rows [k, k + depth), columns [column, column + columns) of the matrix that an image's and group's x is read
 * as: row k what tap k reads, a column per position of a window. */
static void gather(const rota_conv_params *p, const void *x, uint64_t first, uint64_t k, uint64_t depth,
                   uint64_t column, uint64_t columns, float *to) {
    const uint64_t width = p->out[1];
    const steps s = steps_of_x(p);
    for (uint64_t i = 0; i < depth; i++) {
        const tap t = tap_of(p, k + i);
        for (uint64_t c = 0, count; c < columns; c += count, to += count) {
            const int64_t row = (int64_t)((column + c) / width), position = (int64_t)((column + c) % width);
            const int64_t from = row * p->stride[0] + t.shift[0];
            count = least(columns - c, width - (uint64_t)position);
            if (from < 0 || from >= p->in[0]) {
                memset(to, 0, count * sizeof *to);
                continue;
            }
            const uint64_t begin = first + t.channel * s.channel + (uint64_t)from * p->in[1] * s.position;
            gather_row(p, x, begin, s.position, t.shift[1], position, position + (int64_t)count, to);
        }
    }
}

/* ---- Phases ---- */

/* Elements of x that the same taps of a window read: every stride-th along each axis. So no products are made
 * of the zeroes that lie between windows. */
typedef struct phase {
    uint64_t first[2], size[2];            /* elements of x */
    uint64_t tap[2], tap_step[2], taps[2]; /* elements of the window: the first, how far apart, how many */
    int64_t shift[2]; /* the window whose first tap reads the first element; may be before them */
} phase;

static uint64_t phases_along(const rota_conv_params *p, uint32_t axis) {
    return least(p->stride[axis], p->in[axis]);
}
static uint64_t phases_of(const rota_conv_params *p) {
    return phases_along(p, 0) * phases_along(p, 1);
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static phase phase_of(const rota_conv_params *p, uint64_t number) {
    const uint64_t along_width = phases_along(p, 1);
    phase h = {.first = {number / along_width, number % along_width}};
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t stride = p->stride[i], window = p->window[i];
        const int64_t padded = (int64_t)(h.first[i] + p->padding[i]);
        h.size[i] = rota_divide_up(p->in[i] - h.first[i], stride);
        h.tap_step[i] = stride / common_divisor(stride, p->dilation[i]);
        const uint64_t end = least(window, h.tap_step[i]);
        while (h.tap[i] < end && (padded - (int64_t)(h.tap[i] * p->dilation[i])) % (int64_t)stride != 0)
            h.tap[i]++;
        if (h.tap[i] == end) continue; /* between all windows */
        h.taps[i] = rota_divide_up(window - h.tap[i], h.tap_step[i]);
        h.shift[i] = (padded - (int64_t)(h.tap[i] * p->dilation[i])) / (int64_t)stride;
    }
    return h;
}

/* Which element of the window tap `t` of a phase is along an axis. */
static uint64_t element_of(const phase *h, uint32_t axis, uint64_t t) {
    return h->tap[axis] + t * h->tap_step[axis];
}

/* As gather, of dy: row k the gradients of the windows whose tap k reads the phase's elements, which are the
 * columns. */
static void gather_back(const rota_conv_params *p, const phase *h, const void *dy, uint64_t first, uint64_t k,
                        uint64_t depth, uint64_t column, uint64_t columns, float *to) {
    const uint64_t taps = h->taps[0] * h->taps[1], width = h->size[1];
    const steps s = steps_of_y(p);
    for (uint64_t i = k; i < k + depth; i++) {
        const uint64_t channel = i / taps, in_taps[2] = {i % taps / h->taps[1], i % taps % h->taps[1]};
        int64_t shift[2];
        for (uint32_t a = 0; a < 2; a++)
            shift[a] = h->shift[a] - (int64_t)(in_taps[a] * h->tap_step[a] * p->dilation[a] / p->stride[a]);
        for (uint64_t c = 0, count; c < columns; c += count, to += count) {
            const int64_t row = (int64_t)((column + c) / width) + shift[0];
            const int64_t from = (int64_t)((column + c) % width) + shift[1];
            count = least(columns - c, width - (column + c) % width);
            const int64_t begin = clip(from, 0, p->out[1]),
                          end = clip(from + (int64_t)count, begin, p->out[1]);
            memset(to, 0, count * sizeof *to);
            if (row >= 0 && row < p->out[0] && begin < end)
                copy_run(p->dtype, dy,
                         first + channel * s.channel +
                             ((uint64_t)row * p->out[1] + (uint64_t)begin) * s.position,
                         s.position, (uint64_t)(end - begin), to + (begin - from));
        }
    }
}

/* Rows [row, row + rows), columns [k, k + depth) of a group's weights as the gradient has them: a row per
 * channel of x, k counts channels of y and a phase's taps. */
static void gather_weights_back(const rota_conv_params *p, const phase *h, const void *w, uint64_t first,
                                uint64_t row, uint64_t rows, uint64_t k, uint64_t depth, float *to) {
    const uint64_t taps = h->taps[0] * h->taps[1], window = window_of(p);
    uint64_t offset[BLOCK_DEPTH]; /* of each column, in the first channel of x */
    for (uint64_t i = 0; i < depth; i++) {
        const uint64_t t = (k + i) % taps;
        const uint64_t element =
            element_of(h, 0, t / h->taps[1]) * p->window[1] + element_of(h, 1, t % h->taps[1]);
        offset[i] = first + (k + i) / taps * p->in_channels * window + weight_at(p, element);
    }
    for (uint64_t r = row; r < row + rows; r++)
        for (uint64_t i = 0; i < depth; i++)
            *to++ = rota_cpu_get(p->dtype, w, offset[i] + weight_at(p, r * window));
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
                 .columns = plane_out(p)};
    if (back) /* of the first phase, which has the most */
        s.columns = rota_divide_up(p->in[0], p->stride[0]) * rota_divide_up(p->in[1], p->stride[1]);
    s.block_depth = least(s.depth, BLOCK_DEPTH);
    s.block_columns = least(s.columns, least(BLOCK_GATHERED / s.block_depth, BLOCK_COLUMNS));
    s.row_blocks = rota_divide_up(s.rows, BLOCK_ROWS);
    s.column_blocks = rota_divide_up(s.columns, s.block_columns);
    return s;
}

static void items_of(const rota_conv_params *p, bool back, uint64_t *out_items, uint64_t *out_grain) {
    const product s = product_of(p, back);
    *out_items = (uint64_t)p->batch * p->groups * (back ? phases_of(p) : 1) * s.row_blocks * s.column_blocks;
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
    return p->dtype == ROTA_F32 && !is_last(p) && window_of(p) == 1 && p->stride[0] == 1 &&
           p->stride[1] == 1 && p->padding[0] == 0 && p->padding[1] == 0;
}

/* Floats of scratch: a gathered block, weights, sums. */
static uint64_t scratch_of(const product *s) {
    return s->block_depth * s->block_columns + (uint64_t)BLOCK_ROWS * (s->block_depth + s->block_columns);
}

/* Sums begin as the bias of their channel, or 0. */
static void begin_sums(const rota_kernel_call *call, uint64_t channel, uint64_t rows, uint64_t columns,
                       float *sums, uint64_t pitch) {
    const rota_conv_params *p = call->params;
    for (uint64_t r = 0; r < rows; r++) {
        const float bias =
            p->flags & ROTA_CONV_BIAS ? rota_cpu_get(p->dtype, call->operands[2], channel + r) : 0.0f;
        for (uint64_t c = 0; c < columns; c++) sums[r * pitch + c] = bias;
    }
}

/* Rows of dense sums to where their channels are. */
static void put_rows(const rota_conv_params *p, const steps *s, const float *sums, uint64_t rows,
                     uint64_t columns, void *y, uint64_t first) {
    for (uint64_t r = 0; r < rows; r++, sums += columns) {
        const uint64_t from = first + r * s->channel;
        if (s->position == 1 && p->dtype != ROTA_F32)
            rota_cpu_narrow(p->dtype, sums, y, from, columns);
        else
            for (uint64_t c = 0; c < columns; c++) rota_cpu_put(p->dtype, y, from + c * s->position, sums[c]);
    }
}

static void run_block(const rota_kernel_call *call, const product *s, uint64_t item, float *scratch) {
    const rota_conv_params *p = call->params;
    const bool direct = p->dtype == ROTA_F32 && !is_last(p), in_place = reads_in_place(p);
    const steps of_x = steps_of_x(p), of_y = steps_of_y(p);
    const uint64_t row = item % s->row_blocks * BLOCK_ROWS, rows = least(s->rows - row, BLOCK_ROWS);
    item /= s->row_blocks;
    const uint64_t column = item % s->column_blocks * s->block_columns,
                   columns = least(s->columns - column, s->block_columns);
    const uint64_t plane = item / s->column_blocks,
                   group = plane % p->groups; /* plane: of images and groups */
    const uint64_t x_first = group_at(p, &of_x, p->in_channels, plane),
                   y_first = group_at(p, &of_y, s->rows, plane) + row * of_y.channel + column * of_y.position;
    const uint64_t w_first = (group * p->out_channels + row) * s->depth;
    float *gathered = scratch, *weights = gathered + s->block_depth * s->block_columns;
    float *sums = direct ? (float *)call->operands[3] + y_first : weights + BLOCK_ROWS * s->block_depth;
    const uint64_t pitch = direct ? s->columns : columns;
    begin_sums(call, group * s->rows + row, rows, columns, sums, pitch);
    for (uint64_t k = 0; k < s->depth; k += s->block_depth) {
        const uint64_t depth = least(s->depth - k, s->block_depth);
        const float *left = (const float *)call->operands[1] + w_first + k, *right = gathered;
        for (uint64_t r = 0; r < rows && !direct; r++) {
            const uint64_t from = w_first + r * s->depth;
            if (!is_last(p))
                copy_run(p->dtype, call->operands[1], from + k, 1, depth, weights + r * depth);
            else
                for (uint64_t i = 0; i < depth; i++)
                    weights[r * depth + i] =
                        rota_cpu_get(p->dtype, call->operands[1], from + weight_at(p, k + i));
        }
        if (in_place)
            right = (const float *)call->operands[0] + x_first + k * s->columns + column;
        else
            gather(p, call->operands[0], x_first, k, depth, column, columns, gathered);
        rota_cpu_sgemm(false, false, rows, columns, depth, 1.0f, direct ? left : weights,
                       direct ? s->depth : depth, right, in_place ? s->columns : columns, 1.0f, sums, pitch);
    }
    if (!direct) put_rows(p, &of_y, sums, rows, columns, call->operands[3], y_first);
}

/* A phase's columns from `column` on of some channels of x, from dense sums. */
static void scatter(const rota_kernel_call *call, const phase *h, uint64_t first, uint64_t rows,
                    uint64_t column, uint64_t columns, const float *sums) {
    const rota_conv_params *p = call->params;
    const steps s = steps_of_x(p);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = column; c < column + columns; c++) {
            const uint64_t in_row = h->first[0] + c / h->size[1] * p->stride[0];
            const uint64_t in_column = h->first[1] + c % h->size[1] * p->stride[1];
            rota_cpu_put(p->dtype, call->operands[3],
                         first + r * s.channel + (in_row * p->in[1] + in_column) * s.position, *sums++);
        }
}

static void run_block_back(const rota_kernel_call *call, const product *s, uint64_t item, float *scratch) {
    const rota_conv_params *p = call->params;
    const steps of_x = steps_of_x(p), of_y = steps_of_y(p);
    const uint64_t row = item % s->row_blocks * BLOCK_ROWS, rows = least(s->rows - row, BLOCK_ROWS);
    item /= s->row_blocks;
    const uint64_t column = item % s->column_blocks * s->block_columns, phases = phases_of(p);
    item /= s->column_blocks;
    const phase h = phase_of(p, item % phases);
    const uint64_t plane = item / phases, group = plane % p->groups, all = h.size[0] * h.size[1];
    if (column >= all) return; /* a phase of fewer elements */
    const uint64_t columns = least(all - column, s->block_columns),
                   dx_first = group_at(p, &of_x, s->rows, plane) + row * of_x.channel;
    const uint64_t depth_all = p->out_channels * h.taps[0] * h.taps[1],
                   dy_first = group_at(p, &of_y, p->out_channels, plane);
    const uint64_t w_first = group * p->out_channels * p->in_channels * window_of(p);
    const bool direct = p->dtype == ROTA_F32 && !is_last(p) && phases == 1;
    float *gathered = scratch, *weights = gathered + s->block_depth * s->block_columns;
    float *sums =
        direct ? (float *)call->operands[3] + dx_first + column : weights + BLOCK_ROWS * s->block_depth;
    const uint64_t pitch = direct ? all : columns;
    begin_sums(call, group * s->rows + row, rows, columns, sums, pitch);
    for (uint64_t k = 0; k < depth_all; k += s->block_depth) {
        const uint64_t depth = least(depth_all - k, s->block_depth);
        gather_weights_back(p, &h, call->operands[1], w_first, row, rows, k, depth, weights);
        gather_back(p, &h, call->operands[0], dy_first, k, depth, column, columns, gathered);
        rota_cpu_sgemm(false, false, rows, columns, depth, 1.0f, weights, depth, gathered, columns, 1.0f,
                       sums, pitch);
    }
    if (!direct) scatter(call, &h, dx_first, rows, column, columns, sums);
}

static rota_status run(const rota_kernel_call *call, bool back, const char *name) {
    const product s = product_of(call->params, back);
    float *scratch = malloc(scratch_of(&s) * sizeof *scratch);
    if (!scratch) return rota_cpu_no_scratch(name, scratch_of(&s));
    for (uint64_t item = call->begin; item < call->end; item++)
        (back ? run_block_back : run_block)(call, &s, item, scratch);
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
    return (weight_blocks){rota_divide_up(p->out_channels, BLOCK_ROWS), rota_divide_up(columns, BLOCK_DEPTH),
                           rota_divide_up(p->batch * plane_out(p), p->chunk), columns};
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
static void weight_block(const rota_kernel_call *call, const weight_blocks *b, uint64_t item,
                         float *scratch) {
    const rota_conv_params *p = call->params;
    const steps of_x = steps_of_x(p), of_y = steps_of_y(p);
    const bool direct = !is_last(p);
    float *gathered = scratch, *gradients = gathered + (size_t)BLOCK_WEIGHTS * BLOCK_DEPTH;
    const uint64_t row = item % b->rows * BLOCK_ROWS, rows = least(p->out_channels - row, BLOCK_ROWS);
    item /= b->rows;
    const uint64_t column = item % b->columns * BLOCK_DEPTH,
                   columns = least(b->columns_all - column, BLOCK_DEPTH);
    item /= b->columns;
    const uint64_t group = item % p->groups, chunk = item / p->groups, plane = plane_out(p);
    const uint64_t begin = chunk * p->chunk, end = least(begin + p->chunk, p->batch * plane);
    float *partial =
        (float *)call->operands[2] + ((chunk * p->groups + group) * p->out_channels + row) * b->columns_all;
    float *sums = direct ? partial + column : gradients + (size_t)BLOCK_WEIGHTS * BLOCK_ROWS;
    for (uint64_t first_of_run = begin, count; first_of_run < end; first_of_run += count) {
        const uint64_t position = first_of_run % plane, of_group = first_of_run / plane * p->groups + group;
        const uint64_t dy_first =
            group_at(p, &of_y, p->out_channels, of_group) + row * of_y.channel + position * of_y.position;
        const bool as_it_is = p->dtype == ROTA_F32 && direct;
        count = least(least(end - first_of_run, plane - position), BLOCK_WEIGHTS);
        gather(p, call->operands[0], group_at(p, &of_x, p->in_channels, of_group), column, columns, position,
               count, gathered);
        const float *dy = (const float *)call->operands[1] + dy_first;
        if (!as_it_is) {
            for (uint64_t r = 0; r < rows; r++)
                copy_run(p->dtype, call->operands[1], dy_first + r * of_y.channel, of_y.position, count,
                         gradients + r * count);
            dy = gradients;
        }
        rota_cpu_sgemm(false, true, rows, columns, count, 1.0f, dy, as_it_is ? plane : count, gathered, count,
                       first_of_run == begin ? 0.0f : 1.0f, sums, direct ? b->columns_all : columns);
    }
    for (uint64_t i = 0; i < rows * columns && !direct; i++)
        partial[i / columns * b->columns_all + weight_at(p, column + i % columns)] = sums[i];
}

rota_status rota_cpu_conv2d_backward_weight(const rota_kernel_call *call) {
    const weight_blocks b = weights_of(call->params);
    const uint64_t floats =
        (uint64_t)BLOCK_WEIGHTS * (BLOCK_DEPTH + BLOCK_ROWS) + (uint64_t)BLOCK_ROWS * BLOCK_DEPTH;
    float *scratch = malloc(floats * sizeof *scratch);
    if (!scratch) return rota_cpu_no_scratch("conv2d_backward_weight", floats);
    for (uint64_t item = call->begin; item < call->end; item++) weight_block(call, &b, item, scratch);
    free(scratch);
    return ROTA_OK;
}
