/* Draws programs of ops and gradients: each step is tried in f64, and kept if it is smooth there. */
#include "tests/gradient_program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "tests/random.h"

typedef struct drawing {
    program *p;
    program_source *source;
    double values[PROGRAM_VALUES], before[PROGRAM_VALUES];
    uint64_t sizes[3]; /* most axes are as long as one of these, so that views fit to one another */
    bool windows;      /* views may hold an element several times by other strides than 0 */
    uint32_t segment;  /* the first item that the next call knows */
} drawing;

static uint32_t below(drawing *d, uint32_t bound) {
    program_source *s = d->source;
    if (!s->bytes) return test_below(&s->random, bound);
    if (s->left == 0) {
        s->dry = true;
        return 0;
    }
    s->left--;
    return *s->bytes++ % bound;
}

static bool one_in(drawing *d, uint32_t count) {
    return below(d, count) == count - 1;
}

/* ---- Roots and views ---- */

typedef enum contents { ANY, POSITIVE, DISTINCT, ZERO_OR_ONE, INDEX } contents;

static uint32_t add_root(drawing *d, rota_dtype dtype, uint32_t count) {
    program *p = d->p;
    if (p->root_count == PROGRAM_ROOTS || p->value_count + count > PROGRAM_VALUES) return PROGRAM_NONE;
    p->roots[p->root_count] =
        (program_root){.dtype = dtype, .count = count, .base = p->value_count, .made_by = PROGRAM_NONE};
    for (uint32_t e = 0; e < count; e++) p->start[p->value_count + e] = d->values[p->value_count + e] = 0;
    p->value_count += count;
    return p->root_count++;
}

static void fill_root(drawing *d, uint32_t root, contents what, uint32_t classes) {
    program_root *r = &d->p->roots[root];
    uint64_t random = d->source->bytes ? below(d, 256) + 1000 * r->base : test_random(&d->source->random);
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

static void dense(program_view *view) {
    uint64_t stride = 1;
    for (uint32_t i = view->tensor.rank; i-- > 0; stride *= view->tensor.shape[i])
        view->tensor.stride[i] = stride;
}

/* Strides and a place for a view of this shape in a root; false if it is too small. */
static bool place(drawing *d, uint32_t root, uint32_t rank, const uint64_t *shape, bool injective,
                  program_view *out) {
    const program_root *r = &d->p->roots[root];
    rota_tensor *t = &out->tensor;
    *out = (program_view){root, {.dtype = r->dtype, .rank = rank}};
    memcpy(t->shape, shape, rank * sizeof *shape);
    const uint32_t size = rota_dtype_bytes(r->dtype), form = below(d, 6);
    for (uint32_t attempt = form < 3; attempt < 2; attempt++) {
        uint64_t stride = attempt == 0 && one_in(d, 3) ? 2 : 1, last = 0;
        uint32_t order[ROTA_RANK_MAX];
        for (uint32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
        for (uint32_t i = 0; i + 1 < rank && attempt == 0; i++) {
            const uint32_t with = i + below(d, rank - i), kept = order[i];
            order[i] = order[with];
            order[with] = kept;
        }
        for (uint32_t i = 0; i < rank; i++) {
            const uint32_t axis = order[i];
            if (attempt == 0 && !injective && one_in(d, 4)) {
                t->stride[axis] = 0;
                continue;
            }
            if (attempt == 0 && !injective && d->windows && one_in(d, 3)) {
                t->stride[axis] = 1;
                last += shape[axis] - 1;
                continue;
            }
            t->stride[axis] = stride;
            last += stride * (shape[axis] - 1);
            stride *= shape[axis];
            if (attempt == 0) stride += below(d, 4) / 2;
        }
        if (last >= r->count) continue;
        const uint32_t room = (uint32_t)(r->count - last);
        t->offset_bytes = one_in(d, 3) ? (uint64_t)below(d, room < 255 ? room : 255) * size : 0;
        return true;
    }
    return false;
}

static uint64_t product_of(uint32_t rank, const uint64_t *shape) {
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
    const uint32_t count = (uint32_t)product_of(rank, shape);
    uint32_t more = 0;
    if (one_in(d, 3)) more = one_in(d, 2) ? count : 1 + below(d, 4);
    const uint32_t root = add_root(d, dtype, count + more);
    if (root == PROGRAM_NONE) return false;
    fill_root(d, root, what, classes);
    program_root *r = &d->p->roots[root];
    r->input = one_in(d, 2);
    r->constant = what == ZERO_OR_ONE || what == INDEX || one_in(d, 3);
    return place(d, root, rank, shape, false, out);
}

/* Some view of this shape, of a root that is there or of a new one. */
static bool want(drawing *d, rota_dtype dtype, uint32_t rank, const uint64_t *shape, contents what,
                 uint32_t classes, program_view *out) {
    const program *p = d->p;
    if (product_of(rank, shape) > PROGRAM_VIEW) return false;
    for (uint32_t attempt = 0; attempt < 5 && p->root_count > 0 && !one_in(d, 6); attempt++) {
        const uint32_t near = p->root_count < 6 ? p->root_count : 6;
        const uint32_t root = one_in(d, 2) ? below(d, p->root_count) : p->root_count - 1 - below(d, near);
        const program_root *r = &p->roots[root];
        if (r->hidden || r->dtype != dtype || (what == INDEX && r->classes != classes)) continue;
        /* Whoever chooses by it, chooses the same wherever parameters go. */
        if (what == ZERO_OR_ONE && (!r->constant || r->written || r->made_by != PROGRAM_NONE)) continue;
        if (place(d, root, rank, shape, false, out) && holds(d, out, what)) return true;
    }
    return make_leaf(d, dtype, rank, shape, what, classes, out);
}

static uint64_t size_of_axis(drawing *d) {
    const uint32_t choice = below(d, 8);
    return choice < 6 ? d->sizes[choice % 3] : choice == 6 ? 1 : 1 + below(d, 5);
}

static uint32_t shape_of(drawing *d, uint32_t least, uint32_t most, uint64_t *out) {
    const uint32_t rank = least + below(d, most - least + 1);
    do
        for (uint32_t i = 0; i < rank; i++) out[i] = size_of_axis(d);
    while (product_of(rank, out) > 60 && !d->source->dry);
    return rank;
}

/* ---- Steps ---- */

static rota_dtype real_dtype(drawing *d) {
    return d->p->dtype;
}

static bool real(drawing *d, program_item *item, uint32_t rank, const uint64_t *shape, contents what) {
    return want(d, real_dtype(d), rank, shape, what, 0, &item->in[item->input_count++]);
}

static void absent(program_item *item) {
    item->in[item->input_count++] = (program_view){.root = PROGRAM_NONE};
}

static bool maybe(drawing *d, program_item *item, uint32_t rank, const uint64_t *shape) {
    if (!one_in(d, 3)) return real(d, item, rank, shape, ANY);
    absent(item);
    return true;
}

static bool index_of(drawing *d, program_item *item, uint32_t rank, const uint64_t *shape, uint64_t classes) {
    return want(d, ROTA_I32, rank, shape, INDEX, (uint32_t)classes, &item->in[item->input_count++]);
}

/* A shape that is broadcast to another. */
static uint32_t part_of(drawing *d, uint32_t rank, const uint64_t *shape, uint64_t *out) {
    const uint32_t left = rank > 0 && one_in(d, 4) ? 1 + below(d, rank) : 0;
    for (uint32_t i = left; i < rank; i++) out[i - left] = one_in(d, 4) ? 1 : shape[i];
    return rank - left;
}

static bool draw_binary(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], a[ROTA_RANK_MAX], b[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 0, 3, shape);
    const uint32_t ranks[2] = {one_in(d, 4) ? part_of(d, rank, shape, a) : (memcpy(a, shape, sizeof a), rank),
                               one_in(d, 2) ? part_of(d, rank, shape, b)
                                            : (memcpy(b, shape, sizeof b), rank)};
    const bool pow = strcmp(item->op->name, "pow") == 0, div = strcmp(item->op->name, "div") == 0;
    return real(d, item, ranks[0], a, pow ? POSITIVE : ANY) &&
           real(d, item, ranks[1], b, div ? POSITIVE : ANY);
}

static bool draw_unary(drawing *d, program_item *item) {
    static const char *const of_positive[] = {"log", "sqrt", "rsqrt", "reciprocal", "pow_scalar", NULL};
    uint64_t shape[ROTA_RANK_MAX];
    const char *name = item->op->name;
    bool positive = false;
    for (uint32_t i = 0; of_positive[i]; i++) positive = positive || strcmp(name, of_positive[i]) == 0;
    const double numbers[] = {-1.75, 0.5, 2.5, 0.25};
    item->attributes.value[0] = rota_value_plain(numbers[below(d, 4)]);
    item->attributes.value[1] = rota_value_plain(numbers[1 + below(d, 3)]);
    if (strcmp(name, "clamp") == 0) item->attributes.value[0] = rota_value_plain(-0.5);
    if (strcmp(name, "softcap") == 0) item->attributes.value[0] = rota_value_plain(1.5);
    return real(d, item, shape_of(d, 0, 3, shape), shape, positive ? POSITIVE : ANY);
}

static bool draw_where(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], parts[3][ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 0, 3, shape);
    for (uint32_t i = 0; i < 3; i++) {
        memcpy(parts[i], shape, sizeof shape);
        const uint32_t of = one_in(d, 3) ? part_of(d, rank, shape, parts[i]) : rank;
        if (!want(d, real_dtype(d), of, parts[i], i == 0 ? ZERO_OR_ONE : ANY, 0,
                  &item->in[item->input_count++]))
            return false;
    }
    return true;
}

static bool draw_masked_fill(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], part[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, shape), of = part_of(d, rank, shape, part);
    item->attributes.value[0] = rota_value_plain(-1.5);
    return real(d, item, rank, shape, ANY) &&
           want(d, real_dtype(d), of, part, ZERO_OR_ONE, 0, &item->in[item->input_count++]);
}

static bool draw_dropout(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, shape);
    item->attributes.p = 0.25f;
    item->attributes.value[0] = rota_value_constant(1 + below(d, 100));
    item->attributes.value[1] = rota_value_constant(below(d, 100));
    item->attributes.stream = below(d, 5);
    return real(d, item, rank, shape, ANY) && (item->op->input_count == 1 || real(d, item, rank, shape, ANY));
}

/* The shape that a result without buffer has is its destination's. */
static bool draw_copy(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], part[ROTA_RANK_MAX];
    rota_tensor *y = &item->out[0].tensor;
    y->rank = shape_of(d, 1, 3, shape);
    memcpy(y->shape, shape, sizeof shape);
    y->dtype = real_dtype(d);
    memcpy(part, shape, sizeof part);
    const uint32_t rank = one_in(d, 3) ? part_of(d, y->rank, shape, part) : y->rank;
    return real(d, item, rank, part, ANY);
}

static bool draw_reshape(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], count;
    rota_tensor *y = &item->out[0].tensor;
    y->rank = shape_of(d, 1, 3, shape);
    memcpy(y->shape, shape, sizeof shape);
    y->dtype = real_dtype(d);
    count = product_of(y->rank, shape);
    const uint64_t other[2] = {shape[0], count / shape[0]};
    return one_in(d, 2) ? real(d, item, 1, &count, ANY) : real(d, item, 2, other, ANY);
}

static bool draw_axes(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, shape);
    rota_op_attributes *a = &item->attributes;
    a->axis[0] = below(d, rank);
    a->axis[1] = below(d, rank);
    a->keep = one_in(d, 2);
    const uint64_t n = shape[a->axis[0]];
    if (strcmp(item->op->name, "slice") == 0) {
        a->start = below(d, (uint32_t)n);
        a->length = 1 + below(d, (uint32_t)(n - a->start));
    }
    if (strcmp(item->op->name, "top_k") == 0) a->length = 1 + below(d, (uint32_t)n);
    if (strcmp(item->op->name, "variance") == 0) a->integer = n > 1 && one_in(d, 2);
    return real(d, item, rank, shape, DISTINCT);
}

static bool draw_gather(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], at[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, shape), axis = below(d, rank);
    item->attributes.axis[0] = axis;
    memcpy(at, shape, sizeof at);
    at[axis] = 1 + below(d, 4);
    return real(d, item, rank, shape, ANY) && index_of(d, item, rank, at, shape[axis]) &&
           (item->op->input_count == 2 || real(d, item, rank, at, ANY));
}

static bool draw_embedding(drawing *d, program_item *item) {
    uint64_t table[2] = {2 + below(d, 4), size_of_axis(d)}, at[2];
    const uint32_t rank = shape_of(d, 1, 2, at);
    return real(d, item, 2, table, ANY) && index_of(d, item, rank, at, table[0]);
}

static bool draw_one_hot(drawing *d, program_item *item) {
    uint64_t at[2];
    item->attributes.length = 2 + below(d, 3);
    item->attributes.dtype = real_dtype(d);
    const uint32_t rank = shape_of(d, 1, 2, at);
    return index_of(d, item, rank, at, item->attributes.length);
}

static bool draw_matmul(drawing *d, program_item *item) {
    uint64_t batch[2], a[4], b[4];
    const uint32_t leading = one_in(d, 2) ? 1 : 0;
    const uint64_t m = size_of_axis(d), n = size_of_axis(d), k = size_of_axis(d);
    const bool ta = item->attributes.transpose_a = one_in(d, 2),
               tb = item->attributes.transpose_b = one_in(d, 2);
    batch[0] = size_of_axis(d);
    a[0] = leading && one_in(d, 4) ? 1 : batch[0];
    b[0] = leading && one_in(d, 4) ? 1 : batch[0];
    const uint32_t a_leading = leading && !one_in(d, 4), b_leading = leading && !one_in(d, 4);
    a[a_leading] = ta ? k : m;
    a[a_leading + 1] = ta ? m : k;
    b[b_leading] = tb ? n : k;
    b[b_leading + 1] = tb ? k : n;
    return real(d, item, a_leading + 2, a, ANY) && real(d, item, b_leading + 2, b, ANY);
}

static bool draw_weighted(drawing *d, program_item *item) {
    const uint64_t batch = 1 + below(d, 2), heads = 1 + below(d, 2), q = size_of_axis(d), k = size_of_axis(d),
                   dim = size_of_axis(d);
    return real(d, item, 4, (const uint64_t[]){batch, heads, q, k}, ANY) &&
           real(d, item, 4, (const uint64_t[]){batch, heads, k, dim}, ANY);
}

static bool draw_linear(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, x);
    const uint64_t k = x[rank - 1], n = size_of_axis(d);
    const bool transposed = item->attributes.transpose_b = one_in(d, 2);
    if (!real(d, item, rank, x, ANY) ||
        !real(d, item, 2, (const uint64_t[]){transposed ? n : k, transposed ? k : n}, ANY) ||
        !maybe(d, item, 1, &n))
        return false;
    x[rank - 1] = n;
    return item->op->input_count == 3 || maybe(d, item, rank, x);
}

static bool draw_rows(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, x);
    return real(d, item, rank, x, ANY);
}

static bool draw_norm(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, x);
    item->attributes.eps = 0.125f; /* rows of one element, or of alike ones, are not steep */
    if (!real(d, item, rank, x, ANY)) return false;
    if (item->op->output_count == 3 && !real(d, item, rank, x, ANY)) return false;
    while (item->input_count < item->op->input_count)
        if (!maybe(d, item, 1, &x[rank - 1])) return false;
    return true;
}

static bool draw_batch_norm(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 2, 3, x), axis = below(d, rank);
    item->attributes.axis[0] = axis;
    item->attributes.eps = 0.125f;
    item->attributes.beta1 = 0.25f;
    item->attributes.evaluate = one_in(d, 3);
    if (product_of(rank, x) < 2 * x[axis]) return false;
    if (!real(d, item, rank, x, ANY) || !maybe(d, item, 1, &x[axis]) || !maybe(d, item, 1, &x[axis]))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t root = add_root(d, ROTA_F32, (uint32_t)x[axis]);
        if (root == PROGRAM_NONE) return false;
        fill_root(d, root, POSITIVE, 0);
        d->p->roots[root].written = d->p->roots[root].hidden = d->p->roots[root].constant = true;
        item->in[item->input_count] =
            (program_view){root, {.dtype = ROTA_F32, .rank = 1, .shape = {x[axis]}}};
        dense(&item->in[item->input_count++]);
    }
    return true;
}

static bool draw_rope(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 2, 3, x);
    x[rank - 1] = 2 + below(d, 4);
    item->attributes.scale = 100;
    item->attributes.interleaved = one_in(d, 2);
    item->attributes.length = one_in(d, 2) ? 2 : 0;
    item->attributes.value[0] = rota_value_constant(below(d, 5));
    return real(d, item, rank, x, ANY);
}

static bool draw_loss(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 2, 3, x);
    x[rank - 1] = 2 + below(d, 4);
    const uint64_t classes = x[rank - 1] > 2 && one_in(d, 3) ? x[rank - 1] - 1 : x[rank - 1];
    item->attributes.length = one_in(d, 2) || classes < x[rank - 1] ? classes : 0;
    item->attributes.integer = ROTA_IGNORED_LABEL;
    item->attributes.smoothing = one_in(d, 3) ? 0.25f : 0;
    if (strcmp(item->op->name, "classifier") == 0) { /* of contiguous logits; most of the graph's own */
        for (uint32_t r = d->p->root_count; r-- > 0;) {
            const program_root *root = &d->p->roots[r];
            if (root->hidden || root->dtype != real_dtype(d) || root->count % x[rank - 1] != 0 ||
                root->count > 48 || root->made_by == PROGRAM_NONE || one_in(d, 4))
                continue;
            const uint64_t shape[2] = {root->count / x[rank - 1], x[rank - 1]};
            item->in[0] = (program_view){r, {.dtype = root->dtype, .rank = 2, .shape = {shape[0], shape[1]}}};
            dense(&item->in[0]);
            item->input_count = 1;
            return index_of(d, item, 1, shape, classes);
        }
        if (!real(d, item, rank, x, ANY)) return false;
        program_view whole = item->in[0];
        dense(&whole);
        if (memcmp(&whole, &item->in[0], sizeof whole) != 0) return false;
    } else if (!real(d, item, rank, x, ANY)) {
        return false;
    }
    return index_of(d, item, rank - 1, x, classes);
}

static bool draw_attention(drawing *d, program_item *item) {
    const bool grouped = item->kind == PROGRAM_ATTENTION;
    const uint64_t batch = 1 + below(d, 2), kv_heads = 1 + below(d, 2), heads = kv_heads * (grouped ? 2 : 1),
                   queries = 1 + below(d, 3), dim = 1 + below(d, 3);
    item->attributes.causal = one_in(d, 2);
    const uint64_t keys = queries + below(d, 3);
    item->attributes.scale = grouped || one_in(d, 2) ? 0 : 0.75f;
    item->out[0].tensor =
        (rota_tensor){.dtype = real_dtype(d), .rank = 4, .shape = {batch, heads, queries, dim}};
    dense(&item->out[0]);
    return real(d, item, 4, (const uint64_t[]){batch, heads, queries, dim}, ANY) &&
           real(d, item, 4, (const uint64_t[]){batch, kv_heads, keys, dim}, ANY) &&
           real(d, item, 4, (const uint64_t[]){batch, kv_heads, keys, dim}, ANY);
}

static bool draw_cast(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 0, 3, shape);
    const rota_dtype others[] = {ROTA_F32, ROTA_F32, ROTA_F16, ROTA_BF16};
    item->attributes.dtype = d->p->dtype == ROTA_F32 ? ROTA_F32 : others[below(d, 4)];
    return real(d, item, rank, shape, ANY);
}

static bool draw_fill(drawing *d, program_item *item) {
    rota_tensor *y = &item->out[0].tensor;
    y->rank = shape_of(d, 1, 3, y->shape);
    y->dtype = real_dtype(d);
    item->attributes.value[0] = rota_value_plain(0.75);
    return true;
}

static bool draw_concat(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    rota_tensor *y = &item->out[0].tensor;
    const uint32_t rank = shape_of(d, 1, 3, shape), axis = below(d, rank), count = 1 + below(d, 3);
    item->attributes.axis[0] = axis;
    *y = (rota_tensor){.dtype = real_dtype(d), .rank = rank};
    memcpy(y->shape, shape, sizeof shape);
    y->shape[axis] = 0;
    for (uint32_t i = 0; i < count; i++) {
        shape[axis] = 1 + below(d, 3);
        y->shape[axis] += shape[axis];
        if (!real(d, item, rank, shape, ANY)) return false;
    }
    dense(&item->out[0]);
    return product_of(rank, y->shape) <= PROGRAM_VIEW;
}

static bool draw_prod(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    rota_tensor *y = &item->out[0].tensor;
    const uint32_t rank = shape_of(d, 1, 3, shape), axis = below(d, rank);
    item->attributes.axis[0] = axis;
    item->attributes.keep = one_in(d, 2);
    shape[axis] = 1 + below(d, 5);
    *y = (rota_tensor){.dtype = real_dtype(d)};
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis || item->attributes.keep) y->shape[y->rank++] = i == axis ? 1 : shape[i];
    dense(&item->out[0]);
    return real(d, item, rank, shape, ANY);
}

static bool draw_distance(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, shape);
    item->attributes.p = 0.5f;
    item->out[0].tensor = (rota_tensor){.dtype = ROTA_F32, .rank = 1, .shape = {1}, .stride = {1}};
    return real(d, item, rank, shape, ANY) && real(d, item, rank, shape, ANY);
}

static bool draw_group_norm(drawing *d, program_item *item) {
    const uint64_t groups = 1 + below(d, 2), channels = groups * (1 + below(d, 2)), batch = 1 + below(d, 2);
    const uint64_t shape[3] = {batch, channels, size_of_axis(d)};
    item->attributes.length = groups;
    item->attributes.eps = 0.125f;
    item->out[0].tensor =
        (rota_tensor){.dtype = real_dtype(d), .rank = 3, .shape = {batch, channels, shape[2]}};
    dense(&item->out[0]);
    return real(d, item, 3, shape, ANY) && maybe(d, item, 1, &channels) && maybe(d, item, 1, &channels);
}

/* ---- The list ---- */

typedef bool draw_step(drawing *d, program_item *item);

static const struct {
    draw_step *draw;
    program_kind kind;
    const char *names; /* of ops, or what it is made of */
} families[] = {
    {draw_binary, PROGRAM_OP,
     "add sub mul div minimum maximum pow silu_mul bias_gelu add mul sub mul eq ne lt le gt ge"},
    {draw_unary, PROGRAM_OP,
     "affine neg exp log sqrt relu gelu silu abs square reciprocal rsqrt tanh sigmoid sin cos sign floor "
     "ceil "
     "round gelu_erf softplus hardswish leaky_relu elu pow_scalar clamp softcap stop_gradient affine square"},
    {draw_where, PROGRAM_OP, "where"},
    {draw_masked_fill, PROGRAM_OP, "masked_fill"},
    {draw_dropout, PROGRAM_OP, "dropout residual_dropout"},
    {draw_copy, PROGRAM_OP, "copy"},
    {draw_reshape, PROGRAM_OP, "reshape"},
    {draw_cast, PROGRAM_OP, "cast"},
    {draw_fill, PROGRAM_OP, "fill"},
    {draw_axes, PROGRAM_OP, "sum mean max min variance cumulative_sum argmax top_k transpose slice"},
    {draw_rows, PROGRAM_OP, "softmax log_softmax sum_squares causal_mask"},
    {draw_gather, PROGRAM_OP, "gather scatter_add"},
    {draw_embedding, PROGRAM_OP, "embedding"},
    {draw_one_hot, PROGRAM_OP, "one_hot"},
    {draw_matmul, PROGRAM_OP, "matmul"},
    {draw_weighted, PROGRAM_OP, "weighted_matmul"},
    {draw_linear, PROGRAM_OP, "linear linear_gelu linear_relu"},
    {draw_norm, PROGRAM_OP, "layernorm rmsnorm residual_layernorm"},
    {draw_batch_norm, PROGRAM_OP, "batch_norm"},
    {draw_rope, PROGRAM_OP, "rope"},
    {draw_loss, PROGRAM_OP, "cross_entropy classifier classifier"},
    {draw_attention, PROGRAM_OP, "attention"},
    {draw_attention, PROGRAM_ATTENTION, "grouped"},
    {draw_concat, PROGRAM_CONCAT, "concat"},
    {draw_prod, PROGRAM_PROD, "prod"},
    {draw_distance, PROGRAM_MSE, "mse"},
    {draw_distance, PROGRAM_L1, "l1"},
    {draw_distance, PROGRAM_HUBER, "huber"},
    {draw_group_norm, PROGRAM_GROUP_NORM, "group_norm"},
};
enum { FAMILIES = sizeof families / sizeof *families };

/* One of the names in a list. */
static const rota_op *choose_op(drawing *d, const char *names) {
    uint32_t count = 1;
    char name[32];
    for (const char *c = names; *c; c++) count += *c == ' ';
    for (uint32_t skip = below(d, count); skip > 0; skip--) names = strchr(names, ' ') + 1;
    const size_t length = strcspn(names, " ");
    memcpy(name, names, length);
    name[length] = 0;
    return rota_op_find(name);
}

/* The first output and, of what is made, the second that others may read. */
static uint32_t second_output(const program_item *item) {
    if (item->kind != PROGRAM_OP) return PROGRAM_NONE;
    if (strcmp(item->op->name, "top_k") == 0) return 1;
    return strcmp(item->op->name, "residual_layernorm") == 0 ? 2 : PROGRAM_NONE;
}

static bool shape_outputs(program_item *item) {
    if (item->kind != PROGRAM_OP) {
        item->output_count = 1;
        return true;
    }
    rota_op_use use = {.op = item->op,
                       .input_count = item->input_count,
                       .output_count = item->op->output_count,
                       .attributes = item->attributes};
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX];
    for (uint32_t i = 0; i < item->input_count; i++)
        use.inputs[i] = item->in[i].root == PROGRAM_NONE ? ROTA_TENSOR_NONE : item->in[i].tensor;
    for (uint32_t i = 0; i < use.output_count; i++) use.outputs[i] = item->out[i].tensor;
    memcpy(outputs, use.outputs, sizeof outputs);
    if (item->op->shape(&use, outputs) != ROTA_OK) return false;
    item->output_count = use.output_count;
    for (uint32_t i = 0; i < use.output_count; i++) {
        item->out[i] = (program_view){PROGRAM_NONE, outputs[i]};
        if (program_count(&item->out[i]) > PROGRAM_VIEW || program_count(&item->out[i]) == 0) return false;
    }
    return true;
}

/* Whether steps may write to a root: not to parameters, mostly, whose gradients are then refused. */
static bool is_writable(drawing *d, uint32_t root) {
    const program_root *r = &d->p->roots[root];
    if (r->hidden || !rota_dtype_is_real(r->dtype)) return false;
    return r->made_by != PROGRAM_NONE || r->constant || one_in(d, 12);
}

/* Where an output goes: to an input's place, to some other, or to a root of its own. */
static bool direct_output(drawing *d, program_item *item, uint32_t output) {
    program *p = d->p;
    program_view *out = &item->out[output];
    const rota_tensor shape = out->tensor;
    const bool only_into = item->kind == PROGRAM_OP && strcmp(item->op->name, "fill") == 0;
    const uint32_t form = output == 0 && item->kind == PROGRAM_OP ? below(d, 8) : 0;
    item->made[output] = false;
    if (form >= 6) { /* in place */
        for (uint32_t i = 0; i < item->input_count; i++) {
            const program_view *x = &item->in[i];
            if (x->root == PROGRAM_NONE || !(item->op->inplace_inputs & 1u << i) ||
                x->tensor.dtype != shape.dtype || x->tensor.rank != shape.rank ||
                memcmp(x->tensor.shape, shape.shape, shape.rank * sizeof *shape.shape) ||
                !is_writable(d, x->root) || !program_view_is_injective(x))
                continue;
            *out = *x;
            p->roots[x->root].written = true;
            return true;
        }
    }
    for (uint32_t attempt = 0; attempt < 4 && (form >= 4 || only_into) && p->root_count > 0; attempt++) {
        const uint32_t root = below(d, p->root_count);
        if (p->roots[root].dtype != shape.dtype || !is_writable(d, root)) continue;
        if (!place(d, root, shape.rank, shape.shape, true, out)) continue;
        p->roots[root].written = true;
        return true;
    }
    if (only_into) return false;
    const uint32_t root = add_root(d, shape.dtype, (uint32_t)product_of(shape.rank, shape.shape));
    if (root == PROGRAM_NONE) return false;
    p->roots[root].made_by = p->item_count;
    *out = (program_view){root, shape};
    dense(out);
    item->made[output] = true;
    return true;
}

static bool smooth_item(drawing *d, uint32_t item) {
    memcpy(d->before, d->values, sizeof d->values);
    program_step(d->p, item, d->values, NULL);
    return program_step_is_smooth(d->p, item, d->before, d->values);
}

/* Adds an item whose operands and outputs' shapes are there; false, and all as before, if it is not smooth.
 */
static bool add_item(drawing *d, program_item *item) {
    program *p = d->p;
    if (p->item_count + 1 >= PROGRAM_ITEMS) return false;
    if (!direct_output(d, item, 0)) return false;
    const uint32_t second = second_output(item);
    for (uint32_t i = 1; i < item->output_count; i++) {
        if (i != second)
            item->out[i].root = PROGRAM_NONE;
        else if (!direct_output(d, item, i))
            return false;
    }
    p->items[p->item_count] = *item;
    if (!smooth_item(d, p->item_count)) return false;
    /* What is refused tells little. */
    if (program_item_overwrites(p, p->item_count, d->segment) && !one_in(d, 24)) return false;
    if (item->kind == PROGRAM_OP &&
        (strcmp(item->op->name, "argmax") == 0 || strcmp(item->op->name, "top_k") == 0)) {
        const uint32_t index = item->out[item->output_count - 1].root;
        p->roots[index].classes = (uint32_t)item->in[0].tensor.shape[item->attributes.axis[0]];
    }
    /* Whoever reads the logits of a classifier from here on may read their gradient. */
    if (item->kind == PROGRAM_OP && strcmp(item->op->name, "classifier") == 0)
        p->roots[item->in[0].root].hidden = true;
    p->item_count++;
    return true;
}

/* What a step that was not kept has made. */
typedef struct mark {
    uint32_t roots, values, items;
    program_root root[PROGRAM_ROOTS];
} mark;

static void keep_mark(const drawing *d, mark *m) {
    *m = (mark){.roots = d->p->root_count, .values = d->p->value_count, .items = d->p->item_count};
    memcpy(m->root, d->p->roots, sizeof m->root);
}

static void go_back(drawing *d, const mark *m, const double *values) {
    d->p->root_count = m->roots;
    d->p->value_count = m->values;
    d->p->item_count = m->items;
    memcpy(d->p->roots, m->root, sizeof m->root);
    memcpy(d->values, values, sizeof d->values);
}

/* Scores that nobody sees beyond the mask are read by a softmax alone. */
static bool add_masked_softmax(drawing *d, program_item *item) {
    program *p = d->p;
    if (p->item_count + 2 >= PROGRAM_ITEMS || item->in[0].tensor.rank < 2) return false;
    const uint64_t *shape = item->in[0].tensor.shape;
    if (shape[item->in[0].tensor.rank - 1] < shape[item->in[0].tensor.rank - 2]) return false;
    const uint32_t root = add_root(d, item->out[0].tensor.dtype, program_count(&item->out[0]));
    if (root == PROGRAM_NONE) return false;
    p->roots[root].made_by = p->item_count;
    p->roots[root].hidden = true;
    item->out[0].root = root;
    item->made[0] = true;
    p->items[p->item_count++] = *item;
    program_step(p, p->item_count - 1, d->values, NULL);
    program_item softmax = {.op = rota_op_find("softmax"), .input_count = 1, .in = {item->out[0]}};
    return shape_outputs(&softmax) && add_item(d, &softmax);
}

static bool add_step(drawing *d) {
    const uint32_t choice = below(d, 4), family = choice == 0 ? 0 : choice == 1 ? 1 : below(d, FAMILIES);
    program_item item = {.kind = families[family].kind};
    static _Thread_local mark m;
    static _Thread_local double values[PROGRAM_VALUES];
    keep_mark(d, &m);
    memcpy(values, d->values, sizeof values);
    if (item.kind == PROGRAM_OP) item.op = choose_op(d, families[family].names);
    bool good = families[family].draw(d, &item) && shape_outputs(&item);
    if (good && item.kind == PROGRAM_OP && strcmp(item.op->name, "causal_mask") == 0)
        good = add_masked_softmax(d, &item);
    else
        good = good && add_item(d, &item);
    if (!good) go_back(d, &m, values);
    return good;
}

/* ---- Calls of rota_backward ---- */

static bool add_op(drawing *d, const char *name, program_item *item) {
    item->op = rota_op_find(name);
    if (!shape_outputs(item) || d->p->item_count + 1 >= PROGRAM_ITEMS) return false;
    const uint32_t root = add_root(d, item->out[0].tensor.dtype, program_count(&item->out[0]));
    if (root == PROGRAM_NONE) return false;
    d->p->roots[root].made_by = d->p->item_count;
    item->out[0].root = root;
    item->made[0] = true;
    d->p->items[d->p->item_count++] = *item;
    program_step(d->p, d->p->item_count - 1, d->values, NULL);
    return true;
}

/* The sum of a root's elements, each times a number of its own. */
static bool add_weighted_sum(drawing *d, uint32_t root, program_view *out) {
    const program_root *r = &d->p->roots[root];
    const uint64_t count = r->count;
    program_view x = {root, {.dtype = r->dtype, .rank = 1, .shape = {count}, .stride = {1}}};
    if (count > PROGRAM_VIEW) return false;
    if (r->dtype != ROTA_F32) {
        program_item cast = {.input_count = 1, .in = {x}, .attributes.dtype = ROTA_F32};
        if (!add_op(d, "cast", &cast)) return false;
        x = cast.out[0];
    }
    const uint32_t weight = add_root(d, ROTA_F32, (uint32_t)count);
    if (weight == PROGRAM_NONE) return false;
    fill_root(d, weight, ANY, 0);
    d->p->roots[weight].constant = d->p->roots[weight].input = true;
    program_item mul = {.input_count = 2,
                        .in = {x, {weight, {.dtype = ROTA_F32, .rank = 1, .shape = {count}, .stride = {1}}}}};
    if (!add_op(d, "mul", &mul)) return false;
    program_item sum = {.input_count = 1, .in = {mul.out[0]}, .attributes.keep = true};
    if (!add_op(d, "sum", &sum)) return false;
    *out = sum.out[0];
    return true;
}

/* A scalar that is there, or a sum. */
static bool choose_loss(drawing *d, program_view *out) {
    const program *p = d->p;
    for (uint32_t attempt = 0; attempt < 6 && one_in(d, 2); attempt++) {
        const uint32_t root = below(d, p->root_count);
        const program_root *r = &p->roots[root];
        if (r->hidden || r->dtype != ROTA_F32 || r->count != 1 || r->made_by == PROGRAM_NONE) continue;
        *out = (program_view){root,
                              {.dtype = ROTA_F32, .rank = one_in(d, 3) ? 0 : 1, .shape = {1}, .stride = {1}}};
        return true;
    }
    for (uint32_t attempt = 0; attempt < 8; attempt++) {
        const uint32_t near = p->root_count < 5 ? p->root_count : 5;
        const uint32_t root =
            attempt < 4 && one_in(d, 2) ? below(d, p->root_count) : p->root_count - 1 - below(d, near);
        const program_root *r = &p->roots[root];
        if (r->hidden || !rota_dtype_is_real(r->dtype) || r->made_by == PROGRAM_NONE ||
            r->made_by < d->segment)
            continue;
        return add_weighted_sum(d, root, out);
    }
    return false;
}

static bool meets(const program_view *a, const program_view *b) {
    return a->root == b->root && program_begin(a) < program_end(b) && program_begin(b) < program_end(a);
}

/* A contiguous part of a root that was there before what the call knows, or the whole of one that a step
 * made. */
static bool choose_param(drawing *d, const program_call *call, program_view *out) {
    const program *p = d->p;
    for (uint32_t attempt = 0; attempt < 24; attempt++) {
        const uint32_t root = below(d, p->root_count);
        const program_root *r = &p->roots[root];
        const bool made = r->made_by != PROGRAM_NONE && r->made_by >= d->segment;
        if (r->hidden || r->constant || !rota_dtype_is_real(r->dtype) || r->count > PROGRAM_VIEW) continue;
        if (made && (r->written || !one_in(d, 4) || p->items[r->made_by].kind != PROGRAM_OP)) continue;
        /* The sum is what the other result is made of. */
        if (made && p->items[r->made_by].op->remember) continue;
        uint64_t first = 0, count = r->count;
        if (!made && count > 1 && one_in(d, 4)) {
            first = below(d, (uint32_t)count / 2);
            count = 1 + below(d, (uint32_t)(count - first));
        }
        *out = (program_view){root, {.offset_bytes = first * rota_dtype_bytes(r->dtype), .dtype = r->dtype}};
        out->tensor.rank = 1;
        out->tensor.shape[0] = count;
        if (count % 2 == 0 && one_in(d, 2)) {
            out->tensor.rank = 2;
            out->tensor.shape[0] = 2;
            out->tensor.shape[1] = count / 2;
        }
        dense(out);
        bool apart = true;
        for (uint32_t i = 0; i < call->param_count; i++) apart = apart && !meets(out, &call->param[i]);
        if (apart) return true;
    }
    return false;
}

static bool add_grad(drawing *d, const program_view *param, bool keep, program_view *out) {
    const uint32_t count = program_count(param), before = below(d, 3);
    if (count > PROGRAM_SAMPLES) return false;
    const uint32_t root = add_root(d, param->tensor.dtype, count + before + below(d, 2));
    if (root == PROGRAM_NONE) return false;
    fill_root(d, root, ANY, 0);
    d->p->roots[root].written = d->p->roots[root].constant = true;
    d->p->roots[root].hidden = keep; /* to later ops that the tape knows it would change under them */
    *out = *param;
    out->root = root;
    out->tensor.offset_bytes = before * rota_dtype_bytes(param->tensor.dtype);
    return true;
}

static bool same_shape(const program_view *a, const program_view *b) {
    return a->tensor.rank == b->tensor.rank && a->tensor.dtype == b->tensor.dtype &&
           memcmp(a->tensor.shape, b->tensor.shape, a->tensor.rank * sizeof *a->tensor.shape) == 0;
}

static bool add_call(drawing *d, bool keep) {
    program *p = d->p;
    if (p->call_count == PROGRAM_CALLS || p->item_count + 12 >= PROGRAM_ITEMS) return false;
    const program_call *before = p->call_count ? &p->calls[p->call_count - 1] : NULL;
    program_call call = {.keep = keep};
    const uint32_t losses = one_in(d, 3) ? 1 + below(d, PROGRAM_LOSSES) : 1,
                   params = 1 + below(d, PROGRAM_PARAMS);
    if (before && before->keep && one_in(d, 2)) { /* of the same losses, once more */
        memcpy(call.loss, before->loss, sizeof call.loss);
        call.loss_count = before->loss_count;
    }
    while (call.loss_count < losses)
        if (choose_loss(d, &call.loss[call.loss_count]))
            call.loss_count++;
        else
            break;
    call.accumulate = one_in(d, 3);
    p->items[p->item_count] = (program_item){.kind = PROGRAM_CALL, .call = p->call_count};
    for (uint32_t attempt = 0; attempt < 8 && call.param_count < params; attempt++) {
        if (!choose_param(d, &call, &call.param[call.param_count])) break;
        p->calls[p->call_count] = call;
        call.param_count +=
            !program_param_is_unsupported(p, p->call_count, call.param_count) || one_in(d, 24);
    }
    if (call.loss_count == 0 || call.param_count == 0) return false;
    for (uint32_t i = 0; i < call.param_count; i++) {
        call.grad[i].root = PROGRAM_NONE;
        if (!one_in(d, 3) && !call.accumulate) continue;
        if (call.accumulate && before && before->keep && i < before->param_count &&
            before->grad[i].root != PROGRAM_NONE && same_shape(&before->grad[i], &call.param[i]) &&
            one_in(d, 2))
            call.grad[i] = before->grad[i];
        else if (!add_grad(d, &call.param[i], keep, &call.grad[i]))
            call.grad[i].root = PROGRAM_NONE;
    }
    p->items[p->item_count++] = (program_item){.kind = PROGRAM_CALL, .call = p->call_count};
    p->calls[p->call_count++] = call;
    if (!keep) d->segment = p->item_count;
    return true;
}

void program_draw(program *p, program_source *source) {
    static _Thread_local drawing d;
    memset(p, 0, sizeof *p);
    d = (drawing){.p = p, .source = source};
    const uint32_t dtype = below(&d, 8);
    p->dtype = dtype == 6 ? ROTA_F16 : dtype == 7 ? ROTA_BF16 : ROTA_F32;
    for (uint32_t i = 0; i < 3; i++) d.sizes[i] = 1 + below(&d, 4) + (i == 0);
    d.windows = one_in(&d, 4);
    const uint32_t steps = 2 + below(&d, p->dtype == ROTA_F32 ? 12 : 7);
    uint32_t kept = 0;
    for (uint32_t attempt = 0; attempt < 8 * steps && kept < steps && !source->dry; attempt++) {
        kept += add_step(&d);
        if (kept > 2 && one_in(&d, 8)) (void)add_call(&d, !one_in(&d, 3));
    }
    if (p->root_count == 0) return;
    if (one_in(&d, 4)) (void)add_call(&d, true);
    (void)add_call(&d, one_in(&d, 6));
}

/* ---- What it looks like ---- */

static void print_view(const program *p, const program_view *view) {
    const rota_tensor *t = &view->tensor;
    if (view->root == PROGRAM_NONE) {
        fprintf(stderr, "-");
        return;
    }
    fprintf(stderr, "r%u", view->root);
    uint64_t stride = 1;
    bool is_whole = t->offset_bytes == 0;
    for (uint32_t i = t->rank; i-- > 0; stride *= t->shape[i])
        is_whole = is_whole && (t->stride[i] == stride || t->shape[i] == 1);
    fprintf(stderr, "[");
    for (uint32_t i = 0; i < t->rank; i++) fprintf(stderr, "%s%u", i ? "," : "", (unsigned)t->shape[i]);
    if (!is_whole || stride != p->roots[view->root].count) {
        fprintf(stderr, " at %u by", (unsigned)(t->offset_bytes / rota_dtype_bytes(t->dtype)));
        for (uint32_t i = 0; i < t->rank; i++) fprintf(stderr, "%s%u", i ? "," : " ", (unsigned)t->stride[i]);
    }
    fprintf(stderr, "]");
}

static void print_views(const program *p, const char *before, const program_view *views, uint32_t count) {
    fprintf(stderr, "%s", before);
    for (uint32_t i = 0; i < count; i++) {
        if (i) fprintf(stderr, ", ");
        print_view(p, &views[i]);
    }
}

static void print_attributes(const program_item *item) {
    const rota_op_attributes *a = &item->attributes;
    fprintf(
        stderr,
        "  {axis %u,%u start %u length %u integer %d numbers %g %g p %g scale %g smoothing %g%s%s%s%s%s%s}\n",
        a->axis[0], a->axis[1], (unsigned)a->start, (unsigned)a->length, a->integer, a->value[0].number,
        a->value[1].number, (double)a->p, (double)a->scale, (double)a->smoothing, a->keep ? " keep" : "",
        a->transpose_a ? " ta" : "", a->transpose_b ? " tb" : "", a->causal ? " causal" : "",
        a->evaluate ? " evaluate" : "", a->interleaved ? " interleaved" : "");
}

void program_print(const program *p) {
    for (uint32_t r = 0; r < p->root_count; r++) {
        const program_root *root = &p->roots[r];
        fprintf(stderr, "r%u: %s [%u]%s%s%s", r, rota_dtype_name(root->dtype), root->count,
                root->made_by == PROGRAM_NONE ? root->input && !root->written ? ", INPUT" : ", variable" : "",
                root->constant ? ", constant" : "", root->made_by == PROGRAM_NONE ? " =" : "");
        for (uint32_t e = 0; e < root->count && root->made_by == PROGRAM_NONE; e++)
            fprintf(stderr, " %.9g", p->start[root->base + e]);
        fprintf(stderr, "\n");
    }
    for (uint32_t k = 0; k < p->item_count; k++) {
        const program_item *item = &p->items[k];
        if (item->kind == PROGRAM_CALL) {
            const program_call *call = &p->calls[item->call];
            print_views(p, "backward of ", call->loss, call->loss_count);
            print_views(p, " by ", call->param, call->param_count);
            print_views(p, " into ", call->grad, call->param_count);
            fprintf(stderr, "%s%s\n", call->keep ? ", keep" : "", call->accumulate ? ", accumulate" : "");
            continue;
        }
        uint32_t family = 0;
        while (families[family].kind != item->kind) family++;
        print_views(p, "", item->out, item->output_count);
        fprintf(stderr, " %s %s", item->made[0] ? "=" : "<-",
                item->kind == PROGRAM_OP ? item->op->name : families[family].names);
        print_views(p, "(", item->in, item->input_count);
        fprintf(stderr, ")");
        print_attributes(item);
    }
}
