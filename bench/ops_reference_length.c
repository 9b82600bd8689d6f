/* References of the ops whose results have a length that the contents decide. */
#include "bench/ops_reference_length.h"

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
