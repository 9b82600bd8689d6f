/* What each op computes, written down a second time, plainly and in f64. */
#include "bench/ops_reference.h"

#include "bench/ops_reference_basic.h"
#include "bench/ops_reference_window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows along the last axis. */
static split rows_of(const rota_tensor *t) {
    return split_at(t, t->rank - 1);
}

/* ---- Reductions ---- */

static double squares(const double *x, uint64_t count) {
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sum;
}
static void ref_sum_squares(reference *r) {
    r->out[0][0] = squares(r->in[0], count_of(&r->use->inputs[0]));
}

/* ---- Products ---- */

static double dot(const double *a, const double *b, uint64_t k) {
    double sum[4] = {0, 0, 0, 0};
    uint64_t p = 0;
    for (; p + 4 <= k; p += 4)
        for (uint64_t lane = 0; lane < 4; lane++) sum[lane] += a[p + lane] * b[p + lane];
    for (; p < k; p++) sum[0] += a[p] * b[p];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* c [m, n] = a b; element (i, p) of a is a[i * ai + p * ap], and so on. */
static void product(const double *a, uint64_t ai, uint64_t ap, const double *b, uint64_t bp, uint64_t bj,
                    double *c, uint64_t m, uint64_t n, uint64_t k) {
    memset(c, 0, m * n * sizeof *c);
    if (ap == 1 && bp == 1) { /* both along their rows: else each step along j is a line of the cache */
        for (uint64_t i = 0; i < m; i++)
            for (uint64_t j = 0; j < n; j++) c[i * n + j] = dot(a + i * ai, b + j * bj, k);
        return;
    }
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t p = 0; p < k; p++)
            for (uint64_t j = 0; j < n; j++) c[i * n + j] += a[i * ai + p * ap] * b[p * bp + j * bj];
}

static void ref_matmul(reference *r) {
    rota_tensor a = r->use->inputs[0], b = r->use->inputs[1], c = r->use->outputs[0];
    bool ta = r->use->attributes.transpose_a, tb = r->use->attributes.transpose_b;
    uint64_t m = c.shape[c.rank - 2], n = c.shape[c.rank - 1], k = a.shape[a.rank - (ta ? 2 : 1)];
    uint64_t batches = count_of(&c) / (m * n);
    /* The leading axes alone, for broadcasting. */
    a.rank -= 2;
    b.rank -= 2;
    c.rank -= 2;
    for (uint64_t batch = 0; batch < batches; batch++)
        product(r->in[0] + broadcast_index(&c, batch, &a) * m * k, ta ? 1 : k, ta ? m : 1,
                r->in[1] + broadcast_index(&c, batch, &b) * k * n, tb ? 1 : n, tb ? k : 1,
                r->out[0] + batch * m * n, m, n, k);
}

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
static double relu(double x) {
    return x > 0 ? x : 0;
}

static void linear(reference *r, double (*activation)(double), bool residual) {
    const rota_tensor *w = &r->use->inputs[1];
    const bool transposed = r->use->attributes.transpose_b;
    const uint64_t k = w->shape[transposed], n = w->shape[!transposed], count = count_of(&r->use->outputs[0]);
    product(r->in[0], k, 1, r->in[1], transposed ? 1 : n, transposed ? k : 1, r->out[0], count / n, n, k);
    for (uint64_t i = 0; i < count; i++) {
        double y = r->out[0][i] + (r->in[2] ? r->in[2][i % n] : 0);
        if (activation) y = activation(y);
        r->out[0][i] = y + (residual && r->in[3] ? r->in[3][i] : 0);
    }
}
static void ref_scaled_matmul(reference *r) {
    const rota_tensor *b = &r->use->inputs[1];
    const uint64_t n = b->shape[0], k = b->shape[1], count = count_of(&r->use->outputs[0]);
    const bool rows_a = count_of(&r->use->inputs[2]) > 1, rows_b = count_of(&r->use->inputs[3]) > 1;
    product(r->in[0], k, 1, r->in[1], 1, k, r->out[0], count / n, n, k);
    for (uint64_t i = 0; i < count; i++)
        r->out[0][i] = r->out[0][i] * r->in[2][rows_a ? i / n : 0] * r->in[3][rows_b ? i % n : 0] +
                       (r->in[4] ? r->in[4][i % n] : 0);
}
static void ref_linear(reference *r) {
    linear(r, NULL, true);
}
static void ref_linear_gelu(reference *r) {
    linear(r, gelu, false);
}
static void ref_linear_relu(reference *r) {
    linear(r, relu, false);
}

static void ref_weighted_matmul(reference *r) {
    const uint64_t *w = r->use->inputs[0].shape, dim = r->use->inputs[1].shape[3];
    for (uint64_t batch = 0; batch < w[0] * w[1]; batch++)
        product(r->in[0] + batch * w[2] * w[3], w[3], 1, r->in[1] + batch * w[3] * dim, dim, 1,
                r->out[0] + batch * w[2] * dim, w[2], dim, w[3]);
}

/* ---- Networks ---- */

/* x <- softmax of the first `seen` of n, the rest 0; the logarithm of the sum. */
static double softmax_row(double *x, uint64_t n, uint64_t seen) {
    double most = -INFINITY, sum = 0;
    for (uint64_t i = 0; i < seen; i++) most = fmax(most, x[i]);
    for (uint64_t i = 0; i < n; i++) x[i] = i < seen ? exp(x[i] - most) : 0;
    for (uint64_t i = 0; i < seen; i++) sum += x[i];
    for (uint64_t i = 0; i < seen; i++) x[i] /= sum;
    return most + log(sum);
}

static void ref_log_softmax(reference *r) {
    split s = rows_of(&r->use->inputs[0]);
    double *row = malloc(s.n * sizeof *row);
    for (uint64_t i = 0; i < s.outer && row; i++) {
        memcpy(row, r->in[0] + i * s.n, s.n * sizeof *row);
        const double lse = softmax_row(row, s.n, s.n);
        for (uint64_t k = 0; k < s.n; k++) r->out[0][i * s.n + k] = r->in[0][i * s.n + k] - lse;
    }
    free(row);
}

static void ref_softmax(reference *r) {
    split s = rows_of(&r->use->inputs[0]);
    memcpy(r->out[0], r->in[0], count_of(&r->use->outputs[0]) * sizeof(double));
    for (uint64_t row = 0; row < s.outer; row++) softmax_row(r->out[0] + row * s.n, s.n, s.n);
}

static void ref_causal_mask(reference *r) {
    const rota_tensor *x = &r->use->inputs[0];
    uint64_t keys = x->shape[x->rank - 1], queries = x->shape[x->rank - 2];
    for (uint64_t i = 0; i < count_of(x); i++)
        r->out[0][i] = i % keys > i / keys % queries + keys - queries ? -INFINITY : r->in[0][i];
}

static void ref_embedding(reference *r) {
    const uint64_t classes = r->use->inputs[0].shape[0], dim = r->use->inputs[0].shape[1];
    for (uint64_t row = 0; row < count_of(&r->use->inputs[1]); row++) {
        const int64_t index = (int64_t)r->in[1][row] - (int64_t)r->use->attributes.start;
        for (uint64_t i = 0; i < dim; i++) /* 0 where it is a class of another part of the table */
            r->out[0][row * dim + i] =
                index < 0 || (uint64_t)index >= classes ? 0 : r->in[0][(uint64_t)index * dim + i];
    }
}

static void norm(reference *r, const double *values, const double *weight, const double *bias, bool layer) {
    split s = rows_of(&r->use->inputs[0]);
    for (uint64_t row = 0; row < s.outer; row++) {
        const double *x = values + row * s.n;
        double mean = 0, variance = 0;
        for (uint64_t i = 0; i < s.n && layer; i++) mean += x[i] / (double)s.n;
        for (uint64_t i = 0; i < s.n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)s.n;
        double rstd = 1 / sqrt(variance + (double)r->use->attributes.eps);
        for (uint64_t i = 0; i < s.n; i++)
            r->out[0][row * s.n + i] = (x[i] - mean) * rstd * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
        if (layer) r->out[1][2 * row] = mean;
        r->out[1][layer ? 2 * row + 1 : row] = rstd;
    }
}
static void ref_layernorm(reference *r) {
    norm(r, r->in[0], r->in[1], r->in[2], true);
}
static void ref_rmsnorm(reference *r) {
    norm(r, r->in[0], r->in[1], NULL, false);
}
static void ref_residual_layernorm(reference *r) {
    const rota_tensor *x = &r->use->inputs[0];
    for (uint64_t i = 0; i < count_of(x); i++) r->out[2][i] = r->in[0][i] + r->in[1][i];
    norm(r, r->out[2], r->in[2], r->in[3], true);
}

/* A channel's mean and variance over the batch; as PyTorch has it, the running ones move. */
static void moments(const reference *r, const split *s, uint64_t c, double out[2], double *running_mean,
                    double *running_variance) {
    const double n = (double)(s->outer * s->inner), momentum = (double)r->use->attributes.beta1;
    out[0] = out[1] = 0;
    for (uint64_t o = 0; o < s->outer; o++)
        for (uint64_t i = 0; i < s->inner; i++) out[0] += r->in[0][(o * s->n + c) * s->inner + i] / n;
    for (uint64_t o = 0; o < s->outer; o++)
        for (uint64_t i = 0; i < s->inner; i++)
            out[1] += pow(r->in[0][(o * s->n + c) * s->inner + i] - out[0], 2) / n;
    running_mean[c] += momentum * (out[0] - running_mean[c]);
    running_variance[c] += momentum * (out[1] * n / (n - 1) - running_variance[c]);
}

static void ref_batch_norm(reference *r) {
    const rota_op_attributes *a = &r->use->attributes;
    const split s = split_at(&r->use->inputs[0], a->axis[0]);
    for (uint64_t c = 0; c < s.n; c++) {
        double of_channel[2] = {r->in[3][c], r->in[4][c]};
        if (!a->evaluate) moments(r, &s, c, of_channel, r->in[3], r->in[4]);
        const double mean = of_channel[0], rstd = 1 / sqrt(of_channel[1] + (double)a->eps);
        r->out[1][c] = mean;
        r->out[1][s.n + c] = a->evaluate ? of_channel[1] : rstd;
        for (uint64_t o = 0; o < s.outer; o++)
            for (uint64_t i = 0; i < s.inner; i++) {
                const uint64_t element = (o * s.n + c) * s.inner + i;
                r->out[0][element] = (r->in[0][element] - mean) * rstd * (r->in[1] ? r->in[1][c] : 1) +
                                     (r->in[2] ? r->in[2][c] : 0);
            }
    }
}

static void ref_batch_norm_stats(reference *r) {
    const split s = split_at(&r->use->inputs[0], r->use->attributes.axis[0]);
    for (uint64_t c = 0; c < s.n; c++) {
        double of_channel[2];
        moments(r, &s, c, of_channel, r->in[1], r->in[2]);
        r->out[0][c] = of_channel[0];
        r->out[0][s.n + c] = 1 / sqrt(of_channel[1] + (double)r->use->attributes.eps);
    }
}

static void ref_batch_norm_sums(reference *r) {
    const split s = split_at(&r->use->inputs[1], r->use->attributes.axis[0]);
    for (uint64_t c = 0; c < s.n; c++) {
        r->out[0][c] = r->out[0][s.n + c] = 0;
        for (uint64_t o = 0; o < s.outer; o++)
            for (uint64_t i = 0; i < s.inner; i++) {
                const uint64_t element = (o * s.n + c) * s.inner + i;
                const double h = (r->in[1][element] - r->in[2][c]) * r->in[3][c];
                r->out[0][c] += r->in[0][element] * h;
                r->out[0][s.n + c] += r->in[0][element];
            }
    }
}

static void ref_rope(reference *r) {
    const rota_tensor *x = &r->use->inputs[0];
    const rota_op_attributes *a = &r->use->attributes;
    const uint64_t dim = x->shape[x->rank - 1], sequence = x->shape[x->rank - 2];
    const uint64_t rotary = a->length ? a->length : dim / 2 * 2;
    memcpy(r->out[0], r->in[0], count_of(x) * sizeof(double));
    for (uint64_t row = 0; row < count_of(x) / dim; row++)
        for (uint64_t i = 0; i < rotary / 2; i++) {
            const uint64_t first = row * dim + (a->interleaved ? 2 * i : i),
                           second = first + (a->interleaved ? 1 : rotary / 2);
            const double angle = (a->value[0].number + (double)(row % sequence)) *
                                 pow((double)a->scale, -2 * (double)i / (double)rotary);
            r->out[0][first] = r->in[0][first] * cos(angle) - r->in[0][second] * sin(angle);
            r->out[0][second] = r->in[0][second] * cos(angle) + r->in[0][first] * sin(angle);
        }
}

static void ref_cross_entropy(reference *r) {
    split s = rows_of(&r->use->inputs[0]);
    const uint64_t pitch = s.n;
    const double smoothing = (double)r->use->attributes.smoothing;
    if (r->use->attributes.length) s.n = r->use->attributes.length;
    double *row = malloc(s.n * sizeof *row), sum = row ? 0 : NAN, counted = 0;
    for (uint64_t i = 0; i < s.outer && row; i++) {
        const double *x = r->in[0] + i * pitch;
        double mean = 0;
        memcpy(row, x, s.n * sizeof *row);
        r->out[1][i] = softmax_row(row, s.n, s.n);
        if (r->in[1][i] == r->use->attributes.integer) continue;
        for (uint64_t k = 0; k < s.n && smoothing != 0; k++) mean += x[k] / (double)s.n;
        sum += r->out[1][i] - (1 - smoothing) * x[(uint64_t)r->in[1][i]] - smoothing * mean;
        counted++;
    }
    r->out[0][0] = sum / counted;
    r->out[2][0] = 1 / counted;
    free(row);
}

/* What dropout's kernels read: its numbers, as they are, of 32 bits. */
static void ref_draw(const rota_op_attributes *a, double scale, double *out) {
    const float kept = 1.0f / (1.0f - a->p), factor = (float)scale;
    uint32_t words[8] = {(uint32_t)fmin(round((double)a->p * 4294967296.0), 4294967295.0), 0, a->stream,
                         (uint32_t)a->value[0].number, (uint32_t)a->value[1].number};
    memcpy(&words[1], &kept, sizeof kept);
    memcpy(&words[5], &factor, sizeof factor);
    for (int i = 0; i < 8; i++) out[i] = (double)(int32_t)words[i];
}

/* Also attention_dropout. */
static void ref_attention(reference *r) {
    const bool drops = strcmp(r->use->op->name, "attention_dropout") == 0;
    const uint64_t *q = r->use->inputs[0].shape, keys = r->use->inputs[1].shape[2], dim = q[3];
    double scale = r->use->attributes.scale != 0 ? (double)r->use->attributes.scale : 1 / sqrt((double)dim);
    double *scores = malloc(keys * sizeof *scores);
    for (uint64_t row = 0; row < q[0] * q[1] * q[2] && scores; row++) {
        uint64_t head = row / q[2], query = row % q[2];
        uint64_t seen = r->use->attributes.causal ? query + keys - q[2] + 1 : keys;
        for (uint64_t k = 0; k < seen; k++) {
            scores[k] = 0;
            for (uint64_t d = 0; d < dim; d++)
                scores[k] += scale * r->in[0][row * dim + d] * r->in[1][(head * keys + k) * dim + d];
        }
        r->out[1][row] = softmax_row(scores, keys, seen);
        for (uint64_t k = 0; k < keys && drops; k++)
            scores[k] *= reference_drawn(&r->use->attributes, row * keys + k);
        product(scores, keys, 1, r->in[2] + head * keys * dim, dim, 1, r->out[0] + row * dim, 1, dim, keys);
    }
    free(scores);
    if (drops) ref_draw(&r->use->attributes, scale, r->out[2]);
}

/* ---- Training ---- */

static void ref_index_add(reference *r) {
    for (uint64_t i = 0; i < count_of(&r->use->inputs[0]); i++)
        r->in[1][(uint64_t)r->in[0][i]] += r->use->attributes.integer;
}

static void ref_global_norm(reference *r) {
    double sum = 0, limit = (double)r->use->attributes.scale;
    for (uint32_t i = 0; i < r->use->input_count; i++)
        if (r->in[i]) sum += squares(r->in[i], count_of(&r->use->inputs[i]));
    r->out[0][0] = sqrt(sum);
    r->out[0][1] = sqrt(sum) > limit ? limit / sqrt(sum) : 1;
}

/* Loshchilov and Hutter, Decoupled weight decay regularization, 2019; COUPLED: Kingma and Ba, Adam, 2015,
 * with L2. */
static void ref_adamw(reference *r) {
    const rota_op_attributes *a = &r->use->attributes;
    double lr = a->value[0].number, step = a->value[1].number, factor = r->in[4] ? r->in[4][0] : 1;
    double beta1 = (double)a->beta1, beta2 = (double)a->beta2, decay = (double)a->weight_decay;
    const bool coupled = a->flags & ROTA_UPDATE_COUPLED;
    for (uint64_t i = 0; i < count_of(&r->use->inputs[0]); i++) {
        double g = factor * r->in[1][i], *p = &r->in[0][i], *m = &r->in[2][i], *v = &r->in[3][i];
        if (factor >= 0) {
            if (coupled) g += decay * *p;
            *m = beta1 * *m + (1 - beta1) * g;
            *v = beta2 * *v + (1 - beta2) * g * g;
            *p = *p * (coupled ? 1 : 1 - lr * decay) -
                 lr * (*m / (1 - pow(beta1, step))) / (sqrt(*v / (1 - pow(beta2, step))) + (double)a->eps);
        }
        if (r->in[5]) r->in[5][i] = *p;
    }
}

/* SGD as PyTorch has it; SIGN: Chen et al., Symbolic discovery of optimization algorithms, 2023 (Lion). */
static void ref_momentum(reference *r) {
    const rota_op_attributes *a = &r->use->attributes;
    const double lr = a->value[0].number, factor = r->in[3] ? r->in[3][0] : 1,
                 decay = (double)a->weight_decay;
    const double beta1 = (double)a->beta1, beta2 = (double)a->beta2;
    for (uint64_t i = 0; i < count_of(&r->use->inputs[0]); i++) {
        double g = factor * r->in[1][i], *p = &r->in[0][i], *m = &r->in[2][i];
        if (factor >= 0 && (a->flags & ROTA_UPDATE_SIGN)) {
            const double u = beta1 * *m + (1 - beta1) * g;
            *p = *p * (1 - lr * decay) - lr * (u > 0 ? 1 : u < 0 ? -1 : 0);
            *m = beta2 * *m + (1 - beta2) * g;
        } else if (factor >= 0) {
            g += decay * *p;
            *m = beta1 * *m + g;
            *p -= lr * (a->flags & ROTA_UPDATE_NESTEROV ? g + beta1 * *m : *m);
        }
        if (r->in[4]) r->in[4][i] = *p;
    }
}

static void ref_ema(reference *r) {
    const double decay = (double)r->use->attributes.beta1;
    for (uint64_t i = 0; i < count_of(&r->use->inputs[1]); i++)
        r->in[1][i] = decay * r->in[1][i] + (1 - decay) * r->in[0][i];
}

static void ref_loss_scale(reference *r) {
    const rota_op_attributes *a = &r->use->attributes;
    const double scale = r->in[1][0], norm = r->in[0][0] / scale, limit = (double)a->scale;
    if (!isfinite(norm)) {
        r->out[0][0] = -1;
        r->in[1][0] = scale * (double)a->backoff;
        r->in[1][1] = 0;
        return;
    }
    r->out[0][0] = (norm > limit ? limit / norm : 1) / scale;
    r->in[1][1] += 1;
    if (r->in[1][1] < (double)a->length) return;
    r->in[1][0] = scale * (double)a->growth;
    r->in[1][1] = 0;
}

static void ref_check_finite(reference *r) {
    r->out[0][0] = 0;
    r->out[0][1] = UINT32_MAX;
    for (uint64_t i = count_of(&r->use->inputs[0]); i-- > 0;)
        if (!isfinite(r->in[0][i])) {
            r->out[0][0]++;
            r->out[0][1] = (double)i;
        }
}

bool reference_run(reference *r) {
    static const struct {
        const char *name;
        void (*run)(reference *r);
    } references[] = {
        {"sum_squares", ref_sum_squares},
        {"matmul", ref_matmul},
        {"weighted_matmul", ref_weighted_matmul},
        {"scaled_matmul", ref_scaled_matmul},
        {"linear", ref_linear},
        {"linear_gelu", ref_linear_gelu},
        {"linear_relu", ref_linear_relu},
        {"softmax", ref_softmax},
        {"log_softmax", ref_log_softmax},
        {"causal_mask", ref_causal_mask},
        {"embedding", ref_embedding},
        {"layernorm", ref_layernorm},
        {"rmsnorm", ref_rmsnorm},
        {"residual_layernorm", ref_residual_layernorm},
        {"batch_norm", ref_batch_norm},
        {"batch_norm_stats", ref_batch_norm_stats},
        {"batch_norm_sums", ref_batch_norm_sums},
        {"rope", ref_rope},
        {"cross_entropy", ref_cross_entropy},
        {"classifier", ref_cross_entropy},
        {"attention", ref_attention},
        {"attention_dropout", ref_attention},
        {"index_add", ref_index_add},
        {"global_norm", ref_global_norm},
        {"adamw", ref_adamw},
        {"momentum", ref_momentum},
        {"ema", ref_ema},
        {"loss_scale", ref_loss_scale},
        {"check_finite", ref_check_finite},
    };
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        if (strcmp(references[i].name, r->use->op->name) == 0) {
            references[i].run(r);
            return true;
        }
    return reference_run_window(r) || reference_run_basic(r);
}

/* Additions one after the other: their roundings, which go both ways, add up like the square root where they
 * are many. */
static double additions(double count) {
    return count <= 16384 ? count : 128 * sqrt(count);
}

/* Elements of the axes that one result is summed over. */
static double longest_sum(const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    const char *name = use->op->name;
    if (strcmp(name, "sum") == 0 || strcmp(name, "mean") == 0) /* columns may be a thread's alone */
        return 2 * additions((double)x->shape[use->attributes.axis[0]]);
    if (strcmp(name, "variance") == 0) return 2 * additions((double)x->shape[use->attributes.axis[0]]);
    /* Each addition is rounded on its way. */
    if (strcmp(name, "cumulative_sum") == 0) return 4 * additions((double)x->shape[use->attributes.axis[0]]);
    if (strcmp(name, "scatter_add") == 0)
        return 4 * additions((double)use->inputs[1].shape[use->attributes.axis[0]]);
    if (strcmp(name, "sum_squares") == 0 || strcmp(name, "global_norm") == 0) return 20000;
    if (reference_sum_window(use) > 0) return additions(reference_sum_window(use));
    if (strcmp(name, "matmul") == 0)
        return additions((double)x->shape[x->rank - (use->attributes.transpose_a ? 2 : 1)]);
    if (strncmp(name, "linear", 6) == 0 || strcmp(name, "scaled_matmul") == 0)
        return (double)x->shape[x->rank - 1];
    if (strncmp(name, "attention", 9) == 0) return (double)(use->inputs[1].shape[2] + x->shape[3]);
    if (strncmp(name, "batch_norm", 10) == 0) {
        const uint64_t of_channel = rota_tensor_count(x) / x->shape[use->attributes.axis[0]];
        return (double)of_channel;
    }
    if (strcmp(name, "cross_entropy") == 0 || strcmp(name, "classifier") == 0) {
        const uint64_t rows = rota_tensor_count(x) / x->shape[2];
        return (double)(rows + x->shape[2]);
    }
    if (reference_roundings_basic(&(reference){.use = use}) >= 0) return 0;
    return x->rank > 0 ? additions((double)x->shape[x->rank - 1]) : 1;
}

/* The largest that a product of a linear op can be before what follows it: its result, less what was added,
 * or, under an activation, which may make small what was large, a bound by its operands. */
static double linear_largest(const reference *r, double result) {
    if (strcmp(r->use->op->name, "linear") == 0) {
        double most[2] = {0, 0};
        for (int i = 0; i < 2; i++)
            for (uint64_t e = 0; r->in[2 + i] && e < count_of(&r->use->inputs[2 + i]); e++)
                most[i] = fmax(most[i], fabs(r->in[2 + i][e]));
        return result + most[0] + most[1];
    }
    const rota_tensor *x = &r->use->inputs[0], *w = &r->use->inputs[1];
    const uint64_t k = x->shape[x->rank - 1], n = count_of(w) / k;
    double row = 0, column = 0, bias = 0;
    for (uint64_t i = 0; i < count_of(x) / k; i++) row = fmax(row, squares(r->in[0] + i * k, k));
    for (uint64_t j = 0; j < n; j++) {
        double sum = 0;
        for (uint64_t p = 0; p < k; p++) {
            const double v = r->in[1][r->use->attributes.transpose_b ? j * k + p : p * n + j];
            sum += v * v;
        }
        column = fmax(column, sum);
    }
    for (uint64_t j = 0; j < n && r->in[2]; j++) bias = fmax(bias, fabs(r->in[2][j]));
    return sqrt(row * column) + bias; /* Cauchy and Schwarz */
}

/* An element's rounding, as the norm of its row sees it: over the row's deviation. A row of few, nearly alike
 * elements keeps little but that. 0 for other ops. */
static double normalized_growth(const reference *r) {
    const char *const name = r->use->op->name;
    const bool layer = strcmp(name, "layernorm") == 0, residual = strcmp(name, "residual_layernorm") == 0;
    if (!layer && !residual && strcmp(name, "rmsnorm") != 0) return 0;
    const split s = rows_of(&r->use->inputs[0]);
    const double *x = residual ? r->out[2] : r->in[0];
    double most = 0;
    for (uint64_t row = 0; row < s.outer; row++) {
        double largest = 0;
        for (uint64_t i = 0; i < s.n; i++) largest = fmax(largest, fabs(x[row * s.n + i]));
        most = fmax(most, largest * r->out[1][layer || residual ? 2 * row + 1 : row]);
    }
    return most;
}

/* The most that a row of a and one of b come to, as linear_largest has it, with the scales. */
static double scaled_largest(const reference *r) {
    const rota_tensor *b = &r->use->inputs[1];
    const uint64_t k = b->shape[1];
    double most[2] = {0, 0}, scale[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
        const uint64_t rows = count_of(&r->use->inputs[side]) / k,
                       scales = count_of(&r->use->inputs[2 + side]);
        for (uint64_t i = 0; i < rows; i++) most[side] = fmax(most[side], squares(r->in[side] + i * k, k));
        for (uint64_t i = 0; i < scales; i++) scale[side] = fmax(scale[side], fabs(r->in[2 + side][i]));
    }
    return sqrt(most[0] * most[1]) * scale[0] * scale[1];
}

double reference_bound(const reference *r, uint32_t output) {
    double largest = 0, roundings = reference_roundings_basic(r);
    const rota_tensor *y = &r->use->outputs[output];
    if (rota_tensor_is_empty(y)) return 0;
    for (uint64_t i = 0; i < count_of(y); i++)
        if (isfinite(r->out[output][i])) largest = fmax(largest, fabs(r->out[output][i]));
    /* Sums are in lanes and trees, whose errors add up like the square root at worst seen; the bound takes a
     * lane's length. */
    double bound = 0x1p-24 * ((roundings < 0 ? 16 : roundings) + longest_sum(r->use) / 4) * fmax(largest, 1);
    if (y->dtype == ROTA_F16) bound += fmax(0x1p-11 * largest, 0x1p-25);
    if (y->dtype == ROTA_BF16) bound += 0x1p-8 * largest;
    if (y->dtype == ROTA_F8_E4M3FN) bound += fmax(0x1p-4 * largest, 0x1p-10);
    if (y->dtype == ROTA_F8_E5M2) bound += fmax(0x1p-3 * largest, 0x1p-17);
    /* The element's own rounding, the mean's and their difference's, and as much in what it is divided by.
     * What comes from a sum was rounded to its dtype before. */
    const rota_dtype dtype = r->use->inputs[0].dtype;
    double unit = 4 * 0x1p-24;
    if (strcmp(r->use->op->name, "residual_layernorm") == 0 && dtype != ROTA_F32)
        unit += 2 * (dtype == ROTA_F16 ? 0x1p-11 : 0x1p-8);
    if (output < 2) bound += unit * normalized_growth(r) * fmax(largest, 1);
    /* The last position's angle is its number, rounded, times the slowest power's few roundings. */
    if (strcmp(r->use->op->name, "rope") == 0) {
        const rota_tensor *x = &r->use->inputs[0];
        bound += 4 * 0x1p-24 * (r->use->attributes.value[0].number + (double)x->shape[x->rank - 2]) *
                 fmax(largest, 1);
    }
    /* The product and what the bias is added to may be rounded on their way, each at most as large as all
     * that was added up; gelu's slope is at most 1.13. */
    if (strncmp(r->use->op->name, "linear", 6) == 0 && dtype != ROTA_F32)
        bound += 1.13 * 2 * (dtype == ROTA_F16 ? 0x1p-11 : 0x1p-8) * linear_largest(r, largest);
    if (r->by_matrix_units && strcmp(r->use->op->name, "scaled_matmul") == 0)
        bound += 0x1p-13 * scaled_largest(r);
    return bound;
}
