/* References of the ops that work element by element, move, or reduce along an axis. */
#ifndef ROTA_BENCH_OPS_REFERENCE_BASIC_H
#define ROTA_BENCH_OPS_REFERENCE_BASIC_H

#include "bench/ops_reference.h"

/* What the references of all ops share. */

static inline uint64_t count_of(const rota_tensor *t) {
    return rota_tensor_count(t);
}

/* Elements before, along and after an axis. */
typedef struct split {
    uint64_t outer, n, inner;
} split;

static inline split split_at(const rota_tensor *t, uint32_t axis) {
    split s = {1, t->shape[axis], 1};
    for (uint32_t d = 0; d < axis; d++) s.outer *= t->shape[d];
    for (uint32_t d = axis + 1; d < t->rank; d++) s.inner *= t->shape[d];
    return s;
}

/* Where element `linear` of `of` reads in a right-aligned broadcast `from`. */
static inline uint64_t broadcast_index(const rota_tensor *of, uint64_t linear, const rota_tensor *from) {
    uint64_t index = 0, stride = 1;
    for (uint32_t back = 1; back <= of->rank; back++) {
        uint64_t coordinate = linear % of->shape[of->rank - back];
        linear /= of->shape[of->rank - back];
        if (back > from->rank) continue;
        uint64_t extent = from->shape[from->rank - back];
        if (extent > 1) index += coordinate * stride;
        stride *= extent;
    }
    return index;
}

/* What dropout with these attributes multiplies an element of the whole by. */
double reference_drawn(const rota_op_attributes *attributes, uint64_t index);

/* False if the op is none of them. */
bool reference_run_basic(reference *r);
/* Roundings to f32 between inputs and result, but for those of a long sum; -1 if the op is none of them. */
double reference_roundings_basic(const reference *r);

#endif
