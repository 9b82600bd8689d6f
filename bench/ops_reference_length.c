/* References of the ops whose results have a length that the contents decide. */
#include "bench/ops_reference_length.h"

#include <math.h>
#include <stdlib.h>

/* Those that are not zero, then those that are; returns how many are not. */
static uint64_t partition(const double *x, uint64_t n, double *index) {
    uint64_t next = 0, count = 0;
    for (uint64_t i = 0; i < n; i++)
        if (x[i] != 0) index[next++] = (double)i;
    count = next;
    for (uint64_t i = 0; i < n; i++)
        if (x[i] == 0) index[next++] = (double)i;
    return count;
}

void reference_nonzero(reference *r) {
    r->out[1][0] = (double)partition(r->in[0], rota_tensor_count(&r->use->inputs[0]), r->out[0]);
}

void reference_compact(reference *r) {
    const uint64_t rows = rota_tensor_count(&r->use->inputs[1]),
                   elements = rota_tensor_count(&r->use->inputs[0]), width = rows ? elements / rows : 0,
                   count = partition(r->in[1], rows, r->out[2]);
    r->out[1][0] = (double)count;
    for (uint64_t i = 0; i < elements; i++)
        r->out[0][i] = i / width < count ? r->in[0][(uint64_t)r->out[2][i / width] * width + i % width] : 0;
}

/* A number and where it was. */
typedef struct numbered {
    double x;
    uint64_t index;
} numbered;

static int rising(const void *left, const void *right) {
    const numbered *a = left, *b = right;
    if (a->x != b->x) return a->x < b->x ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}
static int falling(const void *left, const void *right) {
    const numbered *a = left, *b = right;
    if (a->x != b->x) return a->x > b->x ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static numbered *sorted(const double *x, uint64_t n, int (*order)(const void *, const void *)) {
    numbered *all = malloc((n + 1) * sizeof *all);
    if (!all) abort();
    for (uint64_t i = 0; i < n; i++) all[i] = (numbered){x[i], i};
    qsort(all, n, sizeof *all, order);
    return all;
}

void reference_unique(reference *r) {
    const uint64_t n = rota_tensor_count(&r->use->inputs[0]);
    numbered *all = sorted(r->in[0], n, rising);
    uint64_t count = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i == 0 || all[i].x != all[i - 1].x) r->out[0][count++] = all[i].x;
        r->out[2][all[i].index] = (double)(count - 1);
    }
    for (uint64_t i = count; i < n; i++) r->out[0][i] = 0;
    r->out[1][0] = (double)count;
    free(all);
}

void reference_top_p(reference *r) {
    const rota_tensor *x = &r->use->inputs[0];
    const uint64_t n = x->shape[x->rank - 1], rows = rota_tensor_count(&r->use->outputs[1]);
    double *above = malloc((n + 1) * sizeof *above);
    if (!above) abort();
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t i = 0; i < n; i++) above[i] = fmax(r->in[0][row * n + i], 0);
        numbered *all = sorted(above, n, falling);
        /* In 2^-32ths, of which sums are exact while they are below 2^53. */
        double sum = 0, reached = 0;
        for (uint64_t i = 0; i < n; i++) sum += all[i].x = fmin(floor(all[i].x * 0x1p32), 0x1p32 - 1);
        const double wanted =
            ceil(floor((double)(float)r->use->attributes.value[0].number * 0x1p31) * sum / 0x1p31);
        uint64_t count = 0;
        while (count < n && (count == 0 || reached < wanted)) reached += all[count++].x;
        for (uint64_t i = 0; i < n; i++) r->out[0][row * n + i] = (double)all[i].index;
        r->out[1][row] = (double)count;
        free(all);
    }
    free(above);
}
