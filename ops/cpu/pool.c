/* CPU kernels: max_pool, max_pool_backward, avg_pool, avg_pool_backward. An item is a plane's row of results, in which
 * position `o` counts columns and, within one, channels. */
#include "cpu.h"
#include "half.h"

static void items_of(uint64_t planes, uint32_t rows, uint64_t work_of_row, uint64_t *out_items,
                     uint64_t *out_grain) {
    *out_items = planes * rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / (work_of_row ? work_of_row : 1);
}

#define ITEMS(NAME, SIDE)                                                                                    \
    void rota_cpu_items_##NAME(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,       \
                               uint64_t *out_grain) {                                                        \
        (void)operand_bytes;                                                                                 \
        const rota_pool_params *p = params;                                                                  \
        items_of(p->planes, p->SIDE[0], (uint64_t)p->SIDE[1] * p->channels * p->window[0] * p->window[1],    \
                 out_items, out_grain);                                                                      \
    }
ITEMS(max_pool, out)
ITEMS(max_pool_backward, in)
ITEMS(avg_pool, out)
ITEMS(avg_pool_backward, in)

/* The elements of x in a window along an axis: the first, how far apart, how many; and of how many the window
 * is in x with its padding, where taps lie side by side. */
typedef struct taps {
    uint64_t first, count;
    uint64_t padded;
} taps;

static taps taps_of(const rota_pool_params *p, uint32_t axis, uint64_t position) {
    const int64_t size = p->in[axis], padding = p->padding[axis], dilation = p->dilation[axis],
                  window = p->window[axis];
    const int64_t begin = (int64_t)(position * p->stride[axis]) - padding;
    const int64_t skipped = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
    const int64_t first = begin + skipped * dilation;
    int64_t count = first < size ? (size - first + dilation - 1) / dilation : 0;
    if (count > window - skipped) count = window > skipped ? window - skipped : 0;
    const int64_t end = begin + window < size + padding ? begin + window : size + padding;
    return (taps){(uint64_t)first, (uint64_t)count, (uint64_t)(end - begin)};
}

rota_status rota_cpu_max_pool(const rota_kernel_call *call) {
    const rota_pool_params *p = call->params;
    const uint64_t width = (uint64_t)p->out[1] * p->channels;
    int32_t *index = call->operands[2];
    for (uint64_t item = call->begin; item < call->end; item++) {
        const uint64_t plane = item / p->out[0] * p->in[0] * p->in[1];
        const taps rows = taps_of(p, 0, item % p->out[0]);
        for (uint64_t o = 0; o < width; o++) {
            const taps columns = taps_of(p, 1, o / p->channels);
            float most = -INFINITY;
            int64_t found = -1;
            for (uint64_t r = 0; r < rows.count; r++)
                for (uint64_t c = 0; c < columns.count; c++) {
                    const uint64_t element =
                        (rows.first + r * p->dilation[0]) * p->in[1] + columns.first + c * p->dilation[1];
                    const float value = rota_cpu_get(p->dtype, call->operands[0],
                                                     (plane + element) * p->channels + o % p->channels);
                    if (found >= 0 && !(value > most) && !(value != value && most == most)) continue;
                    most = value;
                    found = (int64_t)element;
                }
            rota_cpu_put(p->dtype, call->operands[1], item * width + o, most);
            index[item * width + o] = (int32_t)found;
        }
    }
    return ROTA_OK;
}

rota_status rota_cpu_avg_pool(const rota_kernel_call *call) {
    const rota_pool_params *p = call->params;
    const uint64_t width = (uint64_t)p->out[1] * p->channels;
    for (uint64_t item = call->begin; item < call->end; item++) {
        const uint64_t plane = item / p->out[0] * p->in[0] * p->in[1];
        const taps rows = taps_of(p, 0, item % p->out[0]);
        for (uint64_t o = 0; o < width; o++) {
            const taps columns = taps_of(p, 1, o / p->channels);
            float sum = 0.0f;
            for (uint64_t r = 0; r < rows.count; r++)
                for (uint64_t c = 0; c < columns.count; c++)
                    sum +=
                        rota_cpu_get(p->dtype, call->operands[0],
                                     (plane + (rows.first + r) * p->in[1] + columns.first + c) * p->channels +
                                         o % p->channels);
            const bool padded = p->flags & ROTA_POOL_PADDED, none = rows.count * columns.count == 0;
            const uint64_t of = padded ? rows.padded * columns.padded : rows.count * columns.count;
            rota_cpu_put(p->dtype, call->operands[1], item * width + o, none ? 0.0f : sum / (float)of);
        }
    }
    return ROTA_OK;
}

/* The windows that reach over element q along an axis, [first, last). */
typedef struct reached {
    uint64_t first, last;
} reached;

static reached windows_over(const rota_pool_params *p, uint32_t axis, uint64_t q) {
    const uint64_t from = q + p->padding[axis], stride = p->stride[axis];
    const uint64_t reach = (uint64_t)(p->window[axis] - 1) * p->dilation[axis];
    const uint64_t first = from > reach ? (from - reach + stride - 1) / stride : 0, last = from / stride + 1;
    return (reached){first, last < p->out[axis] ? last : p->out[axis]};
}

rota_status rota_cpu_max_pool_backward(const rota_kernel_call *call) {
    const rota_pool_params *p = call->params;
    const uint64_t width = (uint64_t)p->in[1] * p->channels;
    const int32_t *index = call->operands[1];
    for (uint64_t item = call->begin; item < call->end; item++) {
        const uint64_t plane = item / p->in[0] * p->out[0] * p->out[1], row = item % p->in[0];
        const reached rows = windows_over(p, 0, row);
        for (uint64_t q = 0; q < width; q++) {
            const reached columns = windows_over(p, 1, q / p->channels);
            const int64_t element = (int64_t)(row * p->in[1] + q / p->channels);
            float sum = 0.0f;
            for (uint64_t r = rows.first; r < rows.last; r++)
                for (uint64_t c = columns.first; c < columns.last; c++) {
                    const uint64_t window = (plane + r * p->out[1] + c) * p->channels + q % p->channels;
                    if (index[window] == element) sum += rota_cpu_get(p->dtype, call->operands[0], window);
                }
            rota_cpu_put(p->dtype, call->operands[2], item * width + q, sum);
        }
    }
    return ROTA_OK;
}

rota_status rota_cpu_avg_pool_backward(const rota_kernel_call *call) {
    const rota_pool_params *p = call->params;
    const uint64_t width = (uint64_t)p->in[1] * p->channels;
    const bool padded = p->flags & ROTA_POOL_PADDED;
    for (uint64_t item = call->begin; item < call->end; item++) {
        const uint64_t plane = item / p->in[0] * p->out[0] * p->out[1];
        const reached rows = windows_over(p, 0, item % p->in[0]);
        for (uint64_t q = 0; q < width; q++) {
            const reached columns = windows_over(p, 1, q / p->channels);
            float sum = 0.0f;
            for (uint64_t r = rows.first; r < rows.last; r++) {
                const taps of_row = taps_of(p, 0, r);
                for (uint64_t c = columns.first; c < columns.last; c++) {
                    const taps of_column = taps_of(p, 1, c);
                    const uint64_t of =
                        padded ? of_row.padded * of_column.padded : of_row.count * of_column.count;
                    sum += rota_cpu_get(p->dtype, call->operands[0],
                                        (plane + r * p->out[1] + c) * p->channels + q % p->channels) /
                           (float)of;
                }
            }
            rota_cpu_put(p->dtype, call->operands[1], item * width + q, sum);
        }
    }
    return ROTA_OK;
}
