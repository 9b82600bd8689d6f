/* CPU kernels: reduce, max_backward, global_norm. */
#include "cpu.h"
#include "half.h"
#include "sums.h"

/* Columns of one item where the reduced axis is not the innermost. */
enum { COLUMNS = 64 };

/* An item is one output where inner is 1, else up to COLUMNS neighbouring outputs. */
void rota_cpu_items_reduce(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_reduce_params *p = params;
    uint64_t chunks = ((uint64_t)p->n + p->chunk - 1) / p->chunk;
    uint64_t groups = p->inner == 1 ? 1 : ((uint64_t)p->inner + COLUMNS - 1) / COLUMNS;
    uint64_t length = p->chunk < p->n ? p->chunk : p->n;
    uint64_t work = length * (p->inner == 1 ? 1 : COLUMNS);
    *out_items = (uint64_t)p->outer * chunks * groups;
    *out_grain = 1 + ROTA_CPU_GRAIN / work;
}

ROTA_INLINE float larger(float x, float y) {
    return (x > y || x != x) ? x : y;
}

ROTA_INLINE float smaller(float x, float y) {
    return (x < y || x != x) ? x : y;
}

ROTA_VECTOR static float reduce_row(uint32_t op, const float *x, uint64_t count) {
    float sum = 0.0f;
    if (op == ROTA_REDUCE_SUM) {
        ROTA_LANE_SUM(sum, count, x[i]);
    } else if (op == ROTA_REDUCE_SUM_SQUARES) {
        ROTA_LANE_SUM(sum, count, x[i] * x[i]);
    } else {
        const bool max = op == ROTA_REDUCE_MAX;
        float lane[ROTA_LANES];
        const uint64_t whole = count - count % ROTA_LANES;
        for (uint64_t l = 0; l < ROTA_LANES; l++) lane[l] = max ? -INFINITY : INFINITY;
        for (uint64_t base = 0; base < whole; base += ROTA_LANES)
            for (uint64_t l = 0; l < ROTA_LANES; l++)
                lane[l] = max ? larger(x[base + l], lane[l]) : smaller(x[base + l], lane[l]);
        for (uint64_t i = whole; i < count; i++)
            lane[0] = max ? larger(x[i], lane[0]) : smaller(x[i], lane[0]);
        sum = lane[0];
        for (uint64_t l = 1; l < ROTA_LANES; l++) sum = max ? larger(lane[l], sum) : smaller(lane[l], sum);
    }
    return sum;
}

/* What a reduction of nothing is. */
static float first_value(uint32_t op) {
    return op == ROTA_REDUCE_MAX ? -INFINITY : op == ROTA_REDUCE_MIN ? INFINITY : 0.0f;
}

static bool is_sum(uint32_t op) {
    return op == ROTA_REDUCE_SUM || op == ROTA_REDUCE_SUM_SQUARES;
}

static float join(uint32_t op, float a, float b) {
    return op == ROTA_REDUCE_MAX ? larger(a, b) : op == ROTA_REDUCE_MIN ? smaller(a, b) : a + b;
}

/* Elements [from, from + count) of any real dtype: of a 16-bit one, block after block. */
static float reduce_any_row(uint32_t op, uint32_t dtype, const void *x, uint64_t from, uint64_t count) {
    if (dtype == ROTA_F32) return reduce_row(op, (const float *)x + from, count);
    float buffer[ROTA_CPU_BLOCK], picked = first_value(op);
    double total = 0.0;
    for (uint64_t i = 0, n; i < count; i += n) {
        n = count - i < ROTA_CPU_BLOCK ? count - i : ROTA_CPU_BLOCK;
        const float part = reduce_row(op, rota_cpu_widen(dtype, x, from + i, n, buffer), n);
        if (is_sum(op))
            total += (double)part;
        else
            picked = join(op, picked, part);
    }
    return is_sum(op) ? (float)total : picked;
}

/* The columns are summed in four interleaved rows, so that a long axis loses less to rounding and waits less;
 * after so many rows of each, these go into sums in f64. */
enum { ROWS_BLOCK = 4 * 256 };

ROTA_VECTOR static void add_row(uint32_t op, const float *restrict row, uint64_t columns,
                                float *restrict sum) {
    if (op == ROTA_REDUCE_SUM)
        for (uint64_t c = 0; c < columns; c++) sum[c] += row[c];
    else if (op == ROTA_REDUCE_SUM_SQUARES)
        for (uint64_t c = 0; c < columns; c++) sum[c] += row[c] * row[c];
    else if (op == ROTA_REDUCE_MAX)
        for (uint64_t c = 0; c < columns; c++) sum[c] = larger(row[c], sum[c]);
    else
        for (uint64_t c = 0; c < columns; c++) sum[c] = smaller(row[c], sum[c]);
}

static void reduce_columns(uint32_t op, uint32_t dtype, const void *x, uint64_t from, uint64_t stride,
                           uint64_t length, uint64_t columns, float *restrict y) {
    float part[4][COLUMNS], buffer[COLUMNS];
    double before[COLUMNS] = {0};
    for (uint64_t k = 0; k < length;) {
        const uint64_t upto = is_sum(op) && length - k > ROWS_BLOCK ? k + ROWS_BLOCK : length;
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < COLUMNS; c++) part[r][c] = first_value(op);
        for (; k < upto; k++)
            add_row(op, rota_cpu_widen(dtype, x, from + k * stride, columns, buffer), columns, part[k % 4]);
        for (uint64_t c = 0; c < columns; c++)
            y[c] = join(op, join(op, part[0][c], part[1][c]), join(op, part[2][c], part[3][c]));
        for (uint64_t c = 0; length > ROWS_BLOCK && is_sum(op) && c < columns; c++) {
            before[c] += (double)y[c];
            y[c] = (float)before[c];
        }
    }
}

rota_status rota_cpu_reduce(const rota_kernel_call *call) {
    const rota_reduce_params *p = call->params;
    const void *x = call->operands[0];
    const uint64_t chunks = ((uint64_t)p->n + p->chunk - 1) / p->chunk;
    const uint64_t groups = p->inner == 1 ? 1 : ((uint64_t)p->inner + COLUMNS - 1) / COLUMNS;
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t group = item % groups, chunk = item / groups % chunks, outer = item / groups / chunks;
        uint64_t first = chunk * p->chunk, length = p->n - first < p->chunk ? p->n - first : p->chunk;
        const uint64_t from = (outer * p->n + first) * p->inner + group * COLUMNS;
        const uint64_t to = (outer * chunks + chunk) * p->inner + group * COLUMNS;
        uint64_t columns = p->inner == 1 ? 1 : p->inner - group * COLUMNS;
        if (columns > COLUMNS) columns = COLUMNS;
        float buffer[COLUMNS], *y = rota_cpu_results(p->to, call->operands[1], to, buffer);
        if (p->inner == 1)
            y[0] = reduce_any_row(p->op, p->from, x, from, length);
        else
            reduce_columns(p->op, p->from, x, from, p->inner, length, columns, y);
        for (uint64_t c = 0; c < columns; c++) y[c] *= p->scale;
        rota_cpu_narrow(p->to, y, call->operands[1], to, columns);
    }
    return ROTA_OK;
}

/* An item is one output of the maximum. */
void rota_cpu_items_max_backward(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                 uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_max_backward_params *p = params;
    *out_items = (uint64_t)p->outer * p->inner;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->n;
}

rota_status rota_cpu_max_backward(const rota_kernel_call *call) {
    const rota_max_backward_params *p = call->params;
    const void *x = call->operands[0];
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t base = item / p->inner * p->n * p->inner + item % p->inner;
        const float y = rota_cpu_get(p->dtype, call->operands[1], item);
        const float dy = rota_cpu_get(p->dtype, call->operands[2], item);
        bool found = false;
        for (uint64_t k = 0; k < p->n; k++) {
            uint64_t i = base + k * p->inner;
            bool here = !found && rota_cpu_get(p->dtype, x, i) == y;
            rota_cpu_put(p->dtype, call->operands[3], i, here ? dy : 0.0f);
            found = found || here;
        }
    }
    return ROTA_OK;
}

void rota_cpu_items_global_norm(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                uint64_t *out_grain) {
    (void)params;
    (void)operand_bytes;
    *out_items = 1;
    *out_grain = 1;
}

rota_status rota_cpu_global_norm(const rota_kernel_call *call) {
    const rota_global_norm_params *p = call->params;
    float *out = call->operands[1];
    float norm = sqrtf(reduce_row(ROTA_REDUCE_SUM, call->operands[0], p->count));
    out[0] = norm;
    out[1] = norm <= p->max_norm ? 1.0f : p->max_norm / norm;
    return ROTA_OK;
}
