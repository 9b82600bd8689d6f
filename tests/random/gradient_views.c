/* Drawing programs of ops and gradients: memory, and views of it. */
#include "tests/random/gradient_draw.h"

#include <math.h>
#include <string.h>
#include "tests/kit/random.h"

uint32_t draw_below(drawing *d, uint32_t bound) {
    program_source *s = d->source;
    if (!s->bytes) return test_below(&s->random, bound);
    if (s->left == 0) {
        s->dry = true;
        return 0;
    }
    s->left--;
    return *s->bytes++ % bound;
}

bool draw_one_in(drawing *d, uint32_t count) {
    return draw_below(d, count) == count - 1;
}
uint32_t draw_root(drawing *d, rota_dtype dtype, uint32_t count) {
    program *p = d->p;
    if (p->root_count == PROGRAM_ROOTS || p->value_count + count > PROGRAM_VALUES) return PROGRAM_NONE;
    p->roots[p->root_count] =
        (program_root){.dtype = dtype, .count = count, .base = p->value_count, .made_by = PROGRAM_NONE};
    for (uint32_t e = 0; e < count; e++) p->start[p->value_count + e] = d->values[p->value_count + e] = 0;
    p->value_count += count;
    return p->root_count++;
}

void draw_contents(drawing *d, uint32_t root, contents what, uint32_t classes) {
    program_root *r = &d->p->roots[root];
    uint64_t random =
        d->source->bytes ? draw_below(d, 256) + 1000 * r->base : test_random(&d->source->random);
    r->classes = classes;
    for (uint32_t e = 0; e < r->count; e++) {
        /* Of so few bits that every dtype holds them. */
        double value = (double)(test_below(&random, 160) + 16) / 64;
        if (what == ANY) value = (double)((int32_t)test_below(&random, 256) - 128) / 64;
        if (what == ANY && fabs(value) < 0.125) value += 0.25;
        if (what == DISTINCT) value = ((double)((e * 7 + 3) % 31) - 15.5) / 8;
        if (what == ZERO_OR_ONE) value = test_below(&random, 2);
        if (what == INDEX) value = test_below(&random, classes);
        d->p->start[r->base + e] = d->values[r->base + e] = value;
    }
}

void draw_dense(program_view *view) {
    uint64_t stride = 1;
    for (uint32_t i = view->tensor.rank; i-- > 0; stride *= view->tensor.shape[i])
        view->tensor.stride[i] = stride;
}

/* Strides and an offset for a view of this shape in a root; false if it is too small. */
bool draw_layout(drawing *d, uint32_t root, uint32_t rank, const uint64_t *shape, bool injective,
                 program_view *out) {
    const program_root *r = &d->p->roots[root];
    rota_tensor *t = &out->tensor;
    *out = (program_view){root, {.dtype = r->dtype, .rank = rank}};
    memcpy(t->shape, shape, rank * sizeof *shape);
    const uint32_t size = rota_dtype_bytes(r->dtype), form = draw_below(d, 6);
    for (uint32_t attempt = form < 3; attempt < 2; attempt++) {
        uint64_t stride = attempt == 0 && draw_one_in(d, 3) ? 2 : 1, last = 0;
        uint32_t order[ROTA_RANK_MAX];
        for (uint32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
        for (uint32_t i = 0; i + 1 < rank && attempt == 0; i++) {
            const uint32_t with = i + draw_below(d, rank - i), kept = order[i];
            order[i] = order[with];
            order[with] = kept;
        }
        for (uint32_t i = 0; i < rank; i++) {
            const uint32_t axis = order[i];
            if (attempt == 0 && !injective && draw_one_in(d, 4)) {
                t->stride[axis] = 0;
                continue;
            }
            if (attempt == 0 && !injective && d->windows && draw_one_in(d, 3)) {
                t->stride[axis] = 1;
                last += shape[axis] - 1;
                continue;
            }
            t->stride[axis] = stride;
            last += stride * (shape[axis] - 1);
            stride *= shape[axis];
            if (attempt == 0) stride += draw_below(d, 4) / 2;
        }
        if (last >= r->count) continue;
        const uint32_t room = (uint32_t)(r->count - last);
        t->offset_bytes = draw_one_in(d, 3) ? (uint64_t)draw_below(d, room < 255 ? room : 255) * size : 0;
        return true;
    }
    return false;
}

uint64_t draw_product(uint32_t rank, const uint64_t *shape) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    return count;
}

static bool holds(drawing *d, const program_view *view, contents what) {
    double x[PROGRAM_VIEW];
    if (what == ANY || what == DISTINCT) return true;
    program_read(d->p, view, d->values, x);
    for (uint32_t e = 0; e < program_count(view); e++)
        if (what == POSITIVE ? !(x[e] >= 0.25) : x[e] != 0 && x[e] != 1) return false;
    return true;
}

/* A new root for a view of this shape. */
static bool make_leaf(drawing *d, rota_dtype dtype, uint32_t rank, const uint64_t *shape, contents what,
                      uint32_t classes, program_view *out) {
    const uint32_t count = (uint32_t)draw_product(rank, shape);
    uint32_t more = 0;
    if (draw_one_in(d, 3)) more = draw_one_in(d, 2) ? count : 1 + draw_below(d, 4);
    const uint32_t root = draw_root(d, dtype, count + more);
    if (root == PROGRAM_NONE) return false;
    draw_contents(d, root, what, classes);
    program_root *r = &d->p->roots[root];
    r->input = draw_one_in(d, 2);
    r->constant = what == ZERO_OR_ONE || what == INDEX || draw_one_in(d, 3);
    return draw_layout(d, root, rank, shape, false, out);
}

/* Some view of this shape, of a root that is there or of a new one. */
bool draw_view(drawing *d, rota_dtype dtype, uint32_t rank, const uint64_t *shape, contents what,
               uint32_t classes, program_view *out) {
    const program *p = d->p;
    if (draw_product(rank, shape) > PROGRAM_VIEW) return false;
    for (uint32_t attempt = 0; attempt < 5 && p->root_count > 0 && !draw_one_in(d, 6); attempt++) {
        const uint32_t near = p->root_count < 6 ? p->root_count : 6;
        const uint32_t root =
            draw_one_in(d, 2) ? draw_below(d, p->root_count) : p->root_count - 1 - draw_below(d, near);
        const program_root *r = &p->roots[root];
        if (r->hidden || r->dtype != dtype || (what == INDEX && r->classes != classes)) continue;
        /* Whoever chooses by it, chooses the same wherever parameters go. */
        if (what == ZERO_OR_ONE && (!r->constant || r->written || r->made_by != PROGRAM_NONE)) continue;
        if (draw_layout(d, root, rank, shape, false, out) && holds(d, out, what)) return true;
    }
    return make_leaf(d, dtype, rank, shape, what, classes, out);
}
