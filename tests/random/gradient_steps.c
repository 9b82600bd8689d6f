/* Drawing programs of ops and gradients: the operands of each op. */
#include "tests/random/gradient_draw.h"

#include <string.h>

static uint64_t size_of_axis(drawing *d) {
    const uint32_t choice = draw_below(d, 8);
    return choice < 6 ? d->sizes[choice % 3] : choice == 6 ? 1 : 1 + draw_below(d, 5);
}

static uint32_t shape_of(drawing *d, uint32_t least, uint32_t most, uint64_t *out) {
    const uint32_t rank = least + draw_below(d, most - least + 1);
    do
        for (uint32_t i = 0; i < rank; i++) out[i] = size_of_axis(d);
    while (draw_product(rank, out) > 60 && !d->source->dry);
    return rank;
}

/* ---- Steps ---- */

static rota_dtype real_dtype(drawing *d) {
    return d->p->dtype;
}

static bool real(drawing *d, program_item *item, uint32_t rank, const uint64_t *shape, contents what) {
    return draw_view(d, real_dtype(d), rank, shape, what, 0, &item->in[item->input_count++]);
}

static void absent(program_item *item) {
    item->in[item->input_count++] = (program_view){.root = PROGRAM_NONE};
}

static bool maybe(drawing *d, program_item *item, uint32_t rank, const uint64_t *shape) {
    if (!draw_one_in(d, 3)) return real(d, item, rank, shape, ANY);
    absent(item);
    return true;
}

static bool index_of(drawing *d, program_item *item, uint32_t rank, const uint64_t *shape, uint64_t classes) {
    return draw_view(d, ROTA_I32, rank, shape, INDEX, (uint32_t)classes, &item->in[item->input_count++]);
}

/* A shape that is broadcast to another. */
static uint32_t part_of(drawing *d, uint32_t rank, const uint64_t *shape, uint64_t *out) {
    const uint32_t left = rank > 0 && draw_one_in(d, 4) ? 1 + draw_below(d, rank) : 0;
    for (uint32_t i = left; i < rank; i++) out[i - left] = draw_one_in(d, 4) ? 1 : shape[i];
    return rank - left;
}

static bool draw_binary(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], a[ROTA_RANK_MAX], b[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 0, 3, shape);
    const uint32_t ranks[2] = {
        draw_one_in(d, 4) ? part_of(d, rank, shape, a) : (memcpy(a, shape, sizeof a), rank),
        draw_one_in(d, 2) ? part_of(d, rank, shape, b) : (memcpy(b, shape, sizeof b), rank)};
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
    item->attributes.value[0] = rota_value_plain(numbers[draw_below(d, 4)]);
    item->attributes.value[1] = rota_value_plain(numbers[1 + draw_below(d, 3)]);
    if (strcmp(name, "clamp") == 0) item->attributes.value[0] = rota_value_plain(-0.5);
    if (strcmp(name, "softcap") == 0) item->attributes.value[0] = rota_value_plain(1.5);
    return real(d, item, shape_of(d, 0, 3, shape), shape, positive ? POSITIVE : ANY);
}

static bool draw_where(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], parts[3][ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 0, 3, shape);
    for (uint32_t i = 0; i < 3; i++) {
        memcpy(parts[i], shape, sizeof shape);
        const uint32_t of = draw_one_in(d, 3) ? part_of(d, rank, shape, parts[i]) : rank;
        if (!draw_view(d, real_dtype(d), of, parts[i], i == 0 ? ZERO_OR_ONE : ANY, 0,
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
           draw_view(d, real_dtype(d), of, part, ZERO_OR_ONE, 0, &item->in[item->input_count++]);
}

static bool draw_dropout(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, shape);
    item->attributes.p = 0.25f;
    item->attributes.value[0] = rota_value_constant(1 + draw_below(d, 100));
    item->attributes.value[1] = rota_value_constant(draw_below(d, 100));
    item->attributes.stream = draw_below(d, 5);
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
    const uint32_t rank = draw_one_in(d, 3) ? part_of(d, y->rank, shape, part) : y->rank;
    return real(d, item, rank, part, ANY);
}

static bool draw_reshape(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], count;
    rota_tensor *y = &item->out[0].tensor;
    y->rank = shape_of(d, 1, 3, shape);
    memcpy(y->shape, shape, sizeof shape);
    y->dtype = real_dtype(d);
    count = draw_product(y->rank, shape);
    const uint64_t other[2] = {shape[0], count / shape[0]};
    return draw_one_in(d, 2) ? real(d, item, 1, &count, ANY) : real(d, item, 2, other, ANY);
}

static bool draw_axes(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, shape);
    rota_op_attributes *a = &item->attributes;
    a->axis[0] = draw_below(d, rank);
    a->axis[1] = draw_below(d, rank);
    a->keep = draw_one_in(d, 2);
    const uint64_t n = shape[a->axis[0]];
    if (strcmp(item->op->name, "slice") == 0) {
        a->start = draw_below(d, (uint32_t)n);
        a->length = 1 + draw_below(d, (uint32_t)(n - a->start));
    }
    if (strcmp(item->op->name, "top_k") == 0) a->length = 1 + draw_below(d, (uint32_t)n);
    if (strcmp(item->op->name, "variance") == 0) a->integer = n > 1 && draw_one_in(d, 2);
    return real(d, item, rank, shape, DISTINCT);
}

static bool draw_gather(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX], index_shape[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, shape), axis = draw_below(d, rank);
    item->attributes.axis[0] = axis;
    memcpy(index_shape, shape, sizeof index_shape);
    index_shape[axis] = 1 + draw_below(d, 4);
    return real(d, item, rank, shape, ANY) && index_of(d, item, rank, index_shape, shape[axis]) &&
           (item->op->input_count == 2 || real(d, item, rank, index_shape, ANY));
}

static bool draw_embedding(drawing *d, program_item *item) {
    uint64_t table[2] = {2 + draw_below(d, 4), size_of_axis(d)}, index_shape[2];
    const uint32_t rank = shape_of(d, 1, 2, index_shape);
    return real(d, item, 2, table, ANY) && index_of(d, item, rank, index_shape, table[0]);
}

static bool draw_one_hot(drawing *d, program_item *item) {
    uint64_t index_shape[2];
    item->attributes.length = 2 + draw_below(d, 3);
    item->attributes.dtype = real_dtype(d);
    const uint32_t rank = shape_of(d, 1, 2, index_shape);
    return index_of(d, item, rank, index_shape, item->attributes.length);
}

static bool draw_matmul(drawing *d, program_item *item) {
    uint64_t batch[2], a[4], b[4];
    const uint32_t leading = draw_one_in(d, 2) ? 1 : 0;
    const uint64_t m = size_of_axis(d), n = size_of_axis(d), k = size_of_axis(d);
    const bool ta = item->attributes.transpose_a = draw_one_in(d, 2),
               tb = item->attributes.transpose_b = draw_one_in(d, 2);
    batch[0] = size_of_axis(d);
    a[0] = leading && draw_one_in(d, 4) ? 1 : batch[0];
    b[0] = leading && draw_one_in(d, 4) ? 1 : batch[0];
    const uint32_t a_leading = leading && !draw_one_in(d, 4), b_leading = leading && !draw_one_in(d, 4);
    a[a_leading] = ta ? k : m;
    a[a_leading + 1] = ta ? m : k;
    b[b_leading] = tb ? n : k;
    b[b_leading + 1] = tb ? k : n;
    return real(d, item, a_leading + 2, a, ANY) && real(d, item, b_leading + 2, b, ANY);
}

static bool draw_weighted(drawing *d, program_item *item) {
    const uint64_t batch = 1 + draw_below(d, 2), heads = 1 + draw_below(d, 2), q = size_of_axis(d),
                   k = size_of_axis(d), dim = size_of_axis(d);
    return real(d, item, 4, (const uint64_t[]){batch, heads, q, k}, ANY) &&
           real(d, item, 4, (const uint64_t[]){batch, heads, k, dim}, ANY);
}

static bool draw_linear(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 1, 3, x);
    const uint64_t k = x[rank - 1], n = size_of_axis(d);
    const bool transposed = item->attributes.transpose_b = draw_one_in(d, 2);
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
    const uint32_t rank = shape_of(d, 2, 3, x), axis = draw_below(d, rank);
    item->attributes.axis[0] = axis;
    item->attributes.eps = 0.125f;
    item->attributes.beta1 = 0.25f;
    item->attributes.evaluate = draw_one_in(d, 3);
    if (draw_product(rank, x) < 2 * x[axis]) return false;
    if (!real(d, item, rank, x, ANY) || !maybe(d, item, 1, &x[axis]) || !maybe(d, item, 1, &x[axis]))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t root = draw_root(d, ROTA_F32, (uint32_t)x[axis]);
        if (root == PROGRAM_NONE) return false;
        draw_contents(d, root, POSITIVE, 0);
        d->p->roots[root].written = d->p->roots[root].hidden = d->p->roots[root].constant = true;
        item->in[item->input_count] =
            (program_view){root, {.dtype = ROTA_F32, .rank = 1, .shape = {x[axis]}}};
        draw_dense(&item->in[item->input_count++]);
    }
    return true;
}

/* Along an axis: of x, a window, its stride, padding and dilation. */
static void draw_window(drawing *d, program_item *item, uint32_t axis, uint64_t *size, uint64_t *extent) {
    rota_op_window *a = &item->attributes.window;
    *size = 1 + draw_below(d, 4);
    *extent = 1 + draw_below(d, 3);
    a->stride[axis] = 1 + draw_below(d, 3);
    a->dilation[axis] = draw_one_in(d, 3) ? 2 : 1;
    a->padding[axis] = draw_below(d, 2);
}

static bool draw_conv(drawing *d, program_item *item) {
    const bool transposed = strcmp(item->op->name, "conv_transpose2d") == 0;
    const uint64_t groups = 1 + draw_below(d, 2), channels = groups * (1 + draw_below(d, 2)),
                   others = 1 + draw_below(d, 2);
    uint64_t x[4] = {1 + draw_below(d, 2), channels},
             w[4] = {transposed ? channels : groups * others, transposed ? others : channels / groups};
    for (uint32_t i = 0; i < 2; i++) {
        draw_window(d, item, i, &x[2 + i], &w[2 + i]);
        if (transposed)
            item->attributes.window.output_padding[i] = draw_below(d, item->attributes.window.stride[i]);
    }
    item->attributes.window.groups = (uint32_t)groups;
    const uint64_t results = groups * others;
    return real(d, item, 4, x, ANY) && real(d, item, 4, w, ANY) &&
           maybe(d, item, 1, transposed ? &results : &w[0]);
}

static bool draw_pool(drawing *d, program_item *item) {
    const bool is_max = strcmp(item->op->name, "max_pool2d") == 0;
    rota_op_window *a = &item->attributes.window;
    uint64_t x[4] = {1 + draw_below(d, 2), 1 + draw_below(d, 2)}, extent;
    for (uint32_t i = 0; i < 2; i++) {
        draw_window(d, item, i, &x[2 + i], &extent);
        a->extent[i] = (uint32_t)extent;
        if (a->padding[i] > extent / 2) a->padding[i] = 0;
        if (!is_max) a->dilation[i] = 1;
    }
    a->ceil_mode = draw_one_in(d, 3);
    a->exclude_padding = !is_max && draw_one_in(d, 2);
    return real(d, item, 4, x, is_max ? DISTINCT : ANY);
}

static bool draw_rope(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 2, 3, x);
    x[rank - 1] = 2 + draw_below(d, 4);
    item->attributes.scale = 100;
    item->attributes.interleaved = draw_one_in(d, 2);
    item->attributes.length = draw_one_in(d, 2) ? 2 : 0;
    item->attributes.value[0] = rota_value_constant(draw_below(d, 5));
    return real(d, item, rank, x, ANY);
}

static bool draw_loss(drawing *d, program_item *item) {
    uint64_t x[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 2, 3, x);
    x[rank - 1] = 2 + draw_below(d, 4);
    const uint64_t classes = x[rank - 1] > 2 && draw_one_in(d, 3) ? x[rank - 1] - 1 : x[rank - 1];
    item->attributes.length = draw_one_in(d, 2) || classes < x[rank - 1] ? classes : 0;
    item->attributes.integer = ROTA_IGNORED_LABEL;
    item->attributes.smoothing = draw_one_in(d, 3) ? 0.25f : 0;
    if (strcmp(item->op->name, "classifier") == 0) { /* of contiguous logits; most of the graph's own */
        for (uint32_t r = d->p->root_count; r-- > 0;) {
            const program_root *root = &d->p->roots[r];
            if (root->hidden || root->dtype != real_dtype(d) || root->count % x[rank - 1] != 0 ||
                root->count > 48 || root->made_by == PROGRAM_NONE || draw_one_in(d, 4))
                continue;
            const uint64_t shape[2] = {root->count / x[rank - 1], x[rank - 1]};
            item->in[0] = (program_view){r, {.dtype = root->dtype, .rank = 2, .shape = {shape[0], shape[1]}}};
            draw_dense(&item->in[0]);
            item->input_count = 1;
            return index_of(d, item, 1, shape, classes);
        }
        if (!real(d, item, rank, x, ANY)) return false;
        program_view whole = item->in[0];
        draw_dense(&whole);
        if (memcmp(&whole, &item->in[0], sizeof whole) != 0) return false;
    } else if (!real(d, item, rank, x, ANY)) {
        return false;
    }
    return index_of(d, item, rank - 1, x, classes);
}

static bool draw_attention(drawing *d, program_item *item) {
    const bool grouped = item->kind == PROGRAM_ATTENTION;
    const uint64_t batch = 1 + draw_below(d, 2), kv_heads = 1 + draw_below(d, 2),
                   heads = kv_heads * (grouped ? 2 : 1), queries = 1 + draw_below(d, 3),
                   dim = 1 + draw_below(d, 3);
    item->attributes.causal = draw_one_in(d, 2);
    const uint64_t keys = queries + draw_below(d, 3);
    item->attributes.scale = grouped || draw_one_in(d, 2) ? 0 : 0.75f;
    item->out[0].tensor =
        (rota_tensor){.dtype = real_dtype(d), .rank = 4, .shape = {batch, heads, queries, dim}};
    draw_dense(&item->out[0]);
    return real(d, item, 4, (const uint64_t[]){batch, heads, queries, dim}, ANY) &&
           real(d, item, 4, (const uint64_t[]){batch, kv_heads, keys, dim}, ANY) &&
           real(d, item, 4, (const uint64_t[]){batch, kv_heads, keys, dim}, ANY);
}

static bool draw_cast(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    const uint32_t rank = shape_of(d, 0, 3, shape);
    const rota_dtype others[] = {ROTA_F32, ROTA_F32, ROTA_F16, ROTA_BF16};
    item->attributes.dtype = d->p->dtype == ROTA_F32 ? ROTA_F32 : others[draw_below(d, 4)];
    return real(d, item, rank, shape, ANY);
}

static bool draw_filled(drawing *d, program_item *item) {
    rota_tensor *y = &item->out[0].tensor;
    y->rank = shape_of(d, 1, 3, y->shape);
    y->dtype = real_dtype(d);
    item->attributes.value[0] = rota_value_plain(0.75);
    return true;
}

static bool draw_concat(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    rota_tensor *y = &item->out[0].tensor;
    const uint32_t rank = shape_of(d, 1, 3, shape), axis = draw_below(d, rank), count = 1 + draw_below(d, 3);
    item->attributes.axis[0] = axis;
    *y = (rota_tensor){.dtype = real_dtype(d), .rank = rank};
    memcpy(y->shape, shape, sizeof shape);
    y->shape[axis] = 0;
    for (uint32_t i = 0; i < count; i++) {
        shape[axis] = 1 + draw_below(d, 3);
        y->shape[axis] += shape[axis];
        if (!real(d, item, rank, shape, ANY)) return false;
    }
    draw_dense(&item->out[0]);
    return draw_product(rank, y->shape) <= PROGRAM_VIEW;
}

static bool draw_prod(drawing *d, program_item *item) {
    uint64_t shape[ROTA_RANK_MAX];
    rota_tensor *y = &item->out[0].tensor;
    const uint32_t rank = shape_of(d, 1, 3, shape), axis = draw_below(d, rank);
    item->attributes.axis[0] = axis;
    item->attributes.keep = draw_one_in(d, 2);
    shape[axis] = 1 + draw_below(d, 5);
    *y = (rota_tensor){.dtype = real_dtype(d)};
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis || item->attributes.keep) y->shape[y->rank++] = i == axis ? 1 : shape[i];
    draw_dense(&item->out[0]);
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
    const uint64_t groups = 1 + draw_below(d, 2), channels = groups * (1 + draw_below(d, 2)),
                   batch = 1 + draw_below(d, 2);
    const uint64_t shape[3] = {batch, channels, size_of_axis(d)};
    item->attributes.length = groups;
    item->attributes.eps = 0.125f;
    item->out[0].tensor =
        (rota_tensor){.dtype = real_dtype(d), .rank = 3, .shape = {batch, channels, shape[2]}};
    draw_dense(&item->out[0]);
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
    {draw_filled, PROGRAM_OP, "fill"},
    {draw_axes, PROGRAM_OP,
     "sum mean max min variance cumulative_sum argmax top_k transpose slice sum "
     "mean max min variance cumulative_sum top_k transpose slice"},
    {draw_rows, PROGRAM_OP, "softmax log_softmax sum_squares causal_mask"},
    {draw_gather, PROGRAM_OP, "gather scatter_add"},
    {draw_embedding, PROGRAM_OP, "embedding"},
    {draw_one_hot, PROGRAM_OP, "one_hot"},
    {draw_matmul, PROGRAM_OP, "matmul"},
    {draw_weighted, PROGRAM_OP, "weighted_matmul"},
    {draw_linear, PROGRAM_OP, "linear linear_gelu linear_relu"},
    {draw_norm, PROGRAM_OP, "layernorm rmsnorm residual_layernorm"},
    {draw_batch_norm, PROGRAM_OP, "batch_norm"},
    {draw_conv, PROGRAM_OP, "conv2d conv_transpose2d"},
    {draw_pool, PROGRAM_OP, "max_pool2d avg_pool2d"},
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

static uint32_t names_in(const char *names) {
    uint32_t count = 1;
    for (const char *c = names; *c; c++) count += *c == ' ';
    return count;
}

/* The op of this number in a list of names. */
static const rota_op *op_of(const char *names, uint32_t number) {
    char name[32];
    while (number-- > 0) names = strchr(names, ' ') + 1;
    const size_t length = strcspn(names, " ");
    memcpy(name, names, length);
    name[length] = 0;
    return rota_op_find(name);
}

bool draw_operands(drawing *d, program_item *out_item) {
    uint32_t family = 0, number, all = 0;
    if (draw_one_in(d, 4)) { /* of all families alike */
        family = draw_below(d, FAMILIES);
        number = draw_below(d, names_in(families[family].names));
    } else { /* of all names */
        for (uint32_t i = 0; i < FAMILIES; i++) all += names_in(families[i].names);
        number = draw_below(d, all);
        for (; number >= names_in(families[family].names); family++)
            number -= names_in(families[family].names);
    }
    *out_item = (program_item){.kind = families[family].kind};
    if (out_item->kind == PROGRAM_OP) out_item->op = op_of(families[family].names, number);
    return families[family].draw(d, out_item);
}

const char *draw_name(program_kind kind) {
    uint32_t family = 0;
    while (families[family].kind != kind) family++;
    return families[family].names;
}
