/* Ops: matmul, weighted_matmul. */
#include "ops/op_matmul.h"

#include <string.h>

#include "ops/gradient.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

/* A matrix of the last two axes of a batch, as op(a) reads it. */
typedef struct operand {
    rota_tensor tensor;
    bool transposed; /* as it lies in memory, against op(a) */
    uint64_t ld;
    uint64_t batch_stride[ROTA_RANK_MAX];
} operand;

static bool lay_out(const rota_tensor *tensor, bool transpose, operand *out) {
    const uint32_t r = tensor->rank - 2, c = tensor->rank - 1;
    const uint32_t row = transpose ? c : r, column = transpose ? r : c;
    out->tensor = *tensor;
    return rota_matrix_layout(tensor->shape[row], tensor->shape[column], tensor->stride[row],
                              tensor->stride[column], &out->transposed, &out->ld);
}

/* The matrix's and the batches' strides have the 32 bits that parameters have for them. */
static bool strides_fit(const operand *o) {
    const rota_tensor *x = &o->tensor;
    for (uint32_t i = 0; i + 2 < x->rank; i++)
        if (x->shape[i] > 1 && x->stride[i] > UINT32_MAX) return false;
    return o->ld <= UINT32_MAX;
}

/* The operand with batch strides for `rank` leading axes of extents `batch` (0 where it repeats). */
static rota_status prepare(rota_tape *tape, const rota_tensor *tensor, bool transpose, uint32_t rank,
                           const uint64_t *batch, operand *out) {
    rota_tensor source = *tensor;
    if (source.offset_bytes % 4 != 0 || !lay_out(&source, transpose, out) || !strides_fit(out)) {
        ROTA_TRY(rota_record_contiguous(tape, &source, &source));
        lay_out(&source, transpose, out);
    }
    const uint32_t own = source.rank - 2;
    for (uint32_t i = 0; i < rank; i++) {
        bool there = i + own >= rank;
        uint32_t axis = i + own - rank;
        out->batch_stride[i] =
            there && source.shape[axis] == batch[i] && batch[i] > 1 ? source.stride[axis] : 0;
    }
    return ROTA_OK;
}

rota_status rota_record_matrix(rota_tape *tape, const rota_tensor *x, rota_tensor *out_x,
                               bool *out_transposed, uint64_t *out_ld) {
    operand matrix;
    ROTA_TRY(prepare(tape, x, false, 0, NULL, &matrix));
    *out_x = matrix.tensor;
    *out_transposed = matrix.transposed;
    *out_ld = matrix.ld;
    return ROTA_OK;
}

/* Batches of a product with one b are rows of one larger product, if a's and c's rows go on evenly. */
static void fold_batches(rota_walk *walk, rota_matmul_params *p) {
    while (walk->dims > 0) {
        uint32_t last = walk->dims - 1;
        if (walk->stride[1][last] != 0 || p->flags & ROTA_MATMUL_TRANSPOSE_A ||
            walk->stride[0][last] != (uint64_t)p->m * p->lda ||
            walk->stride[2][last] != (uint64_t)p->m * p->ldc)
            return;
        p->m *= (uint32_t)walk->shape[last];
        walk->dims--;
    }
}

static const rota_kernel *kernel_of(rota_dtype dtype) {
    switch (dtype) {
    case ROTA_F16:
        return &rota_kernel_matmul_f16;
    case ROTA_BF16:
        return &rota_kernel_matmul_bf16;
    default:
        return &rota_kernel_matmul;
    }
}

rota_status rota_record_matmul(rota_tape *tape, const rota_tensor *a, const rota_tensor *b, bool transpose_a,
                               bool transpose_b, const rota_tensor *c, bool accumulate) {
    const uint32_t rank = c->rank - 2;
    operand left, right, result;
    ROTA_TRY(prepare(tape, a, transpose_a, rank, c->shape, &left));
    ROTA_TRY(prepare(tape, b, transpose_b, rank, c->shape, &right));
    /* Kernels accumulate in f32 only. */
    if (c->offset_bytes % 4 != 0 || (accumulate && c->dtype != ROTA_F32) || !lay_out(c, false, &result) ||
        result.transposed || !strides_fit(&result)) {
        rota_tensor whole;
        ROTA_TRY(rota_tape_temporary(tape, "matmul", c->dtype, c->rank, c->shape, &whole));
        ROTA_TRY(rota_record_matmul(tape, a, b, transpose_a, transpose_b, &whole, false));
        return rota_record_strided(tape, &whole, c, 1.0f, accumulate);
    }
    /* Buffers begin at multiples of ROTA_BUFFER_ALIGNMENT. */
    const bool aligned = (left.tensor.offset_bytes | right.tensor.offset_bytes | c->offset_bytes) % 16 == 0;
    rota_matmul_params params = {
        .m = (uint32_t)c->shape[rank],
        .n = (uint32_t)c->shape[rank + 1],
        .k = (uint32_t)a->shape[a->rank - (transpose_a ? 2 : 1)],
        .lda = (uint32_t)left.ld,
        .ldb = (uint32_t)right.ld,
        .ldc = (uint32_t)result.ld,
        .flags = (left.transposed ? ROTA_MATMUL_TRANSPOSE_A : 0) |
                 (right.transposed ? ROTA_MATMUL_TRANSPOSE_B : 0) |
                 (accumulate ? ROTA_MATMUL_ACCUMULATE : 0) | (aligned ? ROTA_MATMUL_ALIGNED_16 : 0),
        .c_dtype = c->dtype,
        .alpha = 1.0f,
    };
    rota_walk walk;
    const uint64_t *strides[] = {left.batch_stride, right.batch_stride, c->stride};
    rota_walk_of(rank, c->shape, 3, strides, &walk);
    fold_batches(&walk, &params);
    if (walk.dims > 3) {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_fail(ROTA_UNSUPPORTED, "matmul to %s: %u batch axes are left after merging, at most 3",
                         rota_tensor_describe(c, text, sizeof text), walk.dims);
    }
    rota_walk_pad(walk.shape, walk.dims, 3, 1, params.batch);
    rota_walk_pad(walk.stride[0], walk.dims, 3, 0, params.a_batch_stride);
    rota_walk_pad(walk.stride[1], walk.dims, 3, 0, params.b_batch_stride);
    rota_walk_pad(walk.stride[2], walk.dims, 3, 0, params.c_batch_stride);
    rota_access accesses[] = {rota_tensor_access(&left.tensor, ROTA_READ),
                              rota_tensor_access(&right.tensor, ROTA_READ), rota_tensor_write(c)};
    if (accumulate) accesses[2].mode = ROTA_READWRITE;
    return rota_tape_kernel(tape, kernel_of(a->dtype), accesses, 3, &params, NULL, 0);
}

static rota_status fail_shapes(const rota_op_use *use, const char *expected) {
    char a[ROTA_TENSOR_TEXT_MAX], b[ROTA_TENSOR_TEXT_MAX];
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "a is %s%s, b is %s%s; expected %s",
                        rota_tensor_describe(&use->inputs[0], a, sizeof a),
                        use->attributes.transpose_a ? " transposed" : "",
                        rota_tensor_describe(&use->inputs[1], b, sizeof b),
                        use->attributes.transpose_b ? " transposed" : "", expected);
}

static rota_status shape_matmul(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *a = &use->inputs[0], *b = &use->inputs[1];
    const bool ta = use->attributes.transpose_a, tb = use->attributes.transpose_b;
    if (a->dtype != b->dtype || (a->dtype != ROTA_F32 && a->dtype != ROTA_F16 && a->dtype != ROTA_BF16))
        return fail_shapes(use, "f32, f16 or bf16, both alike");
    if (a->rank < 2 || b->rank < 2) return fail_shapes(use, "two axes or more of each");
    uint64_t ka = a->shape[a->rank - (ta ? 2 : 1)], kb = b->shape[b->rank - (tb ? 1 : 2)];
    if (ka != kb) return fail_shapes(use, "the summed axes to be as long as one another");
    const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    uint64_t shape[ROTA_RANK_MAX];
    for (uint32_t i = 0; i < rank - 2; i++) {
        uint64_t ea = i + a->rank >= rank ? a->shape[i + a->rank - rank] : 1;
        uint64_t eb = i + b->rank >= rank ? b->shape[i + b->rank - rank] : 1;
        if (ea != eb && ea != 1 && eb != 1) return fail_shapes(use, "leading axes alike or 1");
        shape[i] = ea == 1 ? eb : ea;
    }
    shape[rank - 2] = a->shape[a->rank - (ta ? 1 : 2)];
    shape[rank - 1] = b->shape[b->rank - (tb ? 2 : 1)];
    rota_dtype dtype = a->dtype;
    if (use->outputs[0].buffer && use->outputs[0].dtype == ROTA_F32) dtype = ROTA_F32;
    return rota_tensor_of(NULL, 0, dtype, rank, shape, out);
}

static rota_status record_matmul(rota_tape *tape, rota_op_use *use) {
    return rota_record_matmul(tape, &use->inputs[0], &use->inputs[1], use->attributes.transpose_a,
                              use->attributes.transpose_b, &use->outputs[0], false);
}

static rota_status record_weighted(rota_tape *tape, rota_op_use *use) {
    return rota_record_matmul(tape, &use->inputs[0], &use->inputs[1], false, false, &use->outputs[0], false);
}

/* Rank 2 with all leading axes in the rows, if the strides allow it. */
static bool as_rows(const rota_tensor *x, rota_tensor *out) {
    const uint64_t columns = x->shape[x->rank - 1];
    const uint64_t shape[] = {rota_tensor_count(x) / columns, columns};
    return rota_tensor_reshape(x, 2, shape, out) == ROTA_OK;
}

static bool same_batch(const rota_tensor *x, const rota_tensor *c) {
    if (x->rank != c->rank) return false;
    for (uint32_t i = 0; i + 2 < c->rank; i++)
        if (x->shape[i] != c->shape[i]) return false;
    return true;
}

/* A sum so long, for so few results, keeps few of a GPU's units busy for long: it is cut into parts of about
 * this length, which are batches. */
#define LONG_SUM 8192u
#define FEW_RESULTS 16384u
#define SUM_PART 256u

static uint64_t sum_parts(const rota_tensor *x, uint64_t length) {
    if (x->dtype != ROTA_F32 || length < LONG_SUM || rota_tensor_count(x) > FEW_RESULTS) return 1;
    uint64_t parts = length / SUM_PART;
    while (length % parts != 0) parts--;
    return parts;
}

bool rota_gradient_of_rows_is_cut(const rota_tensor *x, uint64_t rows) {
    return sum_parts(x, rows) > 1;
}

rota_status rota_gradient_of_rows(rota_tape *tape, const rota_tensor *x, const rota_tensor *l,
                                  const rota_tensor *r) {
    const uint64_t rows = l->shape[0], parts = sum_parts(x, rows);
    rota_tensor dx, cut_l, cut_r, partial;
    rota_gradient_write write;
    bool fresh;
    if (parts == 1 ||
        rota_tensor_reshape(l, ROTA_SHAPE(parts, rows / parts, l->shape[1]), &cut_l) != ROTA_OK ||
        rota_tensor_reshape(r, ROTA_SHAPE(parts, rows / parts, r->shape[1]), &cut_r) != ROTA_OK) {
        if (rota_gradient_folds(x)) {
            ROTA_TRY(rota_tape_temporary(tape, "gradient", x->dtype, x->rank, x->shape, &dx));
            ROTA_TRY(rota_record_matmul(tape, l, r, true, false, &dx, false));
            return rota_gradient_add(tape, x, &dx, 1.0f);
        }
        ROTA_TRY(rota_gradient_target(tape, x, &dx, &fresh));
        return rota_record_matmul(tape, l, r, true, false, &dx, !fresh);
    }
    ROTA_TRY(rota_tape_temporary(tape, "partial", ROTA_F32, ROTA_SHAPE(parts, x->shape[0], x->shape[1]),
                                 &partial));
    ROTA_TRY(rota_record_matmul(tape, &cut_l, &cut_r, true, false, &partial, false));
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    ROTA_TRY(
        rota_record_reduce(tape, ROTA_REDUCE_SUM, 1.0f, 1, parts, rota_tensor_count(x), &partial, &write.dx));
    return rota_gradient_end(tape, x, &write);
}

/* dx (the gradient of an operand) = l r, where l and r have c's batches. */
static rota_status operand_gradient(rota_tape *tape, const rota_tensor *x, const rota_tensor *c,
                                    const rota_tensor *l, const rota_tensor *r, bool tl, bool tr) {
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    rota_tensor rows_l, rows_r, dx;
    bool fresh;
    /* A weight shared by all batches: the sum over them is the sum over the rows of one long product. */
    if (x->rank == 2 && c->rank > 2 && tl && !tr && as_rows(l, &rows_l) && as_rows(r, &rows_r) &&
        rows_l.shape[0] == rows_r.shape[0])
        return rota_gradient_of_rows(tape, x, &rows_l, &rows_r);
    if (same_batch(x, c) && !rota_gradient_folds(x)) {
        ROTA_TRY(rota_gradient_target(tape, x, &dx, &fresh));
        return rota_record_matmul(tape, l, r, tl, tr, &dx, !fresh);
    }
    rota_tensor whole = *c;
    whole.shape[c->rank - 2] = x->shape[x->rank - 2];
    whole.shape[c->rank - 1] = x->shape[x->rank - 1];
    ROTA_TRY(rota_tape_temporary(tape, "matmul gradient", x->dtype, whole.rank, whole.shape, &whole));
    ROTA_TRY(rota_record_matmul(tape, l, r, tl, tr, &whole, false));
    return rota_gradient_add(tape, x, &whole, 1.0f);
}

static rota_status product_gradient(rota_tape *tape, const rota_op_use *use, bool ta, bool tb) {
    const rota_tensor *a = &use->inputs[0], *b = &use->inputs[1], *dc = rota_gradient_output(tape, 0);
    rota_tensor narrow;
    if (dc->dtype != a->dtype) { /* an f32 result of 16-bit operands */
        ROTA_TRY(rota_tape_temporary(tape, "gradient", a->dtype, dc->rank, dc->shape, &narrow));
        ROTA_TRY(rota_record_cast(tape, dc, &narrow));
        dc = &narrow;
    }
    /* c = a b: da = dc b^T, db = a^T dc; a stored transposed: da^T = b dc^T, and so on. */
    if (!ta)
        ROTA_TRY(operand_gradient(tape, a, dc, dc, b, false, !tb));
    else
        ROTA_TRY(operand_gradient(tape, a, dc, b, dc, tb, true));
    if (!tb) return operand_gradient(tape, b, dc, a, dc, !ta, false);
    return operand_gradient(tape, b, dc, dc, a, true, ta);
}

static rota_status gradient_matmul(rota_tape *tape, const rota_op_use *use) {
    return product_gradient(tape, use, use->attributes.transpose_a, use->attributes.transpose_b);
}

static rota_status gradient_weighted(rota_tape *tape, const rota_op_use *use) {
    return product_gradient(tape, use, false, false);
}

static rota_status shape_weighted(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *w = &use->inputs[0], *v = &use->inputs[1];
    if (w->dtype != v->dtype || !rota_dtype_is_real(w->dtype) || w->rank != 4 || v->rank != 4 ||
        w->shape[0] != v->shape[0] || w->shape[1] != v->shape[1] || w->shape[3] != v->shape[2])
        return fail_shapes(
            use, "[batch, heads, queries, keys] and [batch, heads, keys, dim], both alike f32, f16 or bf16");
    return rota_tensor_of(NULL, 0, w->dtype, 4,
                          (const uint64_t[]){w->shape[0], w->shape[1], w->shape[2], v->shape[3]}, out);
}

/* ---- Examples ---- */

static bool example_matmul(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank_a, rank_b;
        uint64_t a[4], b[4];
        bool ta, tb;
        rota_dtype dtype;
    } small[] = {
        {"NN odd", 2, 2, {7, 5}, {5, 9}, false, false, ROTA_F32},
        {"NT odd", 2, 2, {33, 17}, {65, 17}, false, true, ROTA_F32},
        {"TN odd", 2, 2, {19, 37}, {19, 3}, true, false, ROTA_F32},
        {"TT", 2, 2, {6, 4}, {5, 6}, true, true, ROTA_F32},
        {"one element", 2, 2, {1, 1}, {1, 1}, false, false, ROTA_F32},
        {"row by matrix", 2, 2, {1, 70}, {70, 33}, false, false, ROTA_F32},
        {"batched", 4, 4, {2, 3, 5, 7}, {2, 3, 7, 4}, false, false, ROTA_F32},
        {"one matrix for all batches", 3, 2, {3, 5, 8}, {8, 6}, false, false, ROTA_F32},
        {"one transposed matrix for all batches", 3, 2, {3, 5, 8}, {6, 8}, false, true, ROTA_F32},
        {"batches repeat on both sides", 4, 3, {3, 1, 5, 4}, {2, 4, 6}, false, false, ROTA_F32},
        {"f16", 2, 2, {35, 66}, {66, 34}, false, false, ROTA_F16},
        {"f16 NT", 2, 2, {16, 300}, {48, 300}, false, true, ROTA_F16},
        {"bf16 TN", 2, 2, {40, 18}, {40, 50}, true, false, ROTA_BF16},
    };
    static const struct {
        const char *label;
        uint64_t a[2], b[2];
        bool ta, tb;
        rota_dtype dtype;
    } large[] = {
        {"768x128x512", {768, 128}, {128, 512}, false, false, ROTA_F32},
        {"1024 NN", {1024, 1024}, {1024, 1024}, false, false, ROTA_F32},
        {"1024 NT", {1024, 1024}, {1024, 1024}, false, true, ROTA_F32},
        {"1024 TN", {1024, 1024}, {1024, 1024}, true, false, ROTA_F32},
        {"1024 f16", {1024, 1024}, {1024, 1024}, false, false, ROTA_F16},
        {"1024 bf16", {1024, 1024}, {1024, 1024}, false, false, ROTA_BF16},
    };
    if (index >= (size ? sizeof large / sizeof large[0] : sizeof small / sizeof small[0])) return false;
    *out = (rota_op_example){.label = size ? large[index].label : small[index].label};
    rota_dtype dtype = size ? large[index].dtype : small[index].dtype;
    if (size) {
        rota_example_input(out, 0, dtype, 2, large[index].a, ROTA_FILL_UNIFORM);
        rota_example_input(out, 1, dtype, 2, large[index].b, ROTA_FILL_UNIFORM);
    } else {
        rota_example_input(out, 0, dtype, small[index].rank_a, small[index].a, ROTA_FILL_UNIFORM);
        rota_example_input(out, 1, dtype, small[index].rank_b, small[index].b, ROTA_FILL_UNIFORM);
    }
    out->use.attributes.transpose_a = size ? large[index].ta : small[index].ta;
    out->use.attributes.transpose_b = size ? large[index].tb : small[index].tb;
    const rota_tensor *a = &out->use.inputs[0];
    rota_tensor c;
    out->use.op = &rota_ops_matmul[0];
    if (shape_matmul(&out->use, &c) != ROTA_OK) return false;
    out->flops = 2.0 * (double)rota_tensor_count(&c) *
                 (double)a->shape[a->rank - (out->use.attributes.transpose_a ? 2 : 1)];
    rota_example_bytes(out, &c, 1);
    return true;
}

static bool example_weighted(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t shapes[][5] = {
        {1, 2, 4, 4, 8}, {2, 4, 32, 32, 32}, {1, 2, 8, 16, 8}, {8, 8, 256, 256, 64}};
    if (size ? index > 0 : index > 2) return false;
    const uint64_t *s = shapes[size ? 3 : index];
    *out = (rota_op_example){.label = size ? "8 heads of 256" : "SCENARIOS S2"};
    rota_example_input(out, 0, ROTA_F32, 4, (const uint64_t[]){s[0], s[1], s[2], s[3]}, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, ROTA_F32, 4, (const uint64_t[]){s[0], s[1], s[3], s[4]}, ROTA_FILL_UNIFORM);
    out->flops = 2.0 * (double)(s[0] * s[1] * s[2] * s[3] * s[4]);
    rota_tensor y;
    out->use.op = &rota_ops_matmul[1];
    if (shape_weighted(&out->use, &y) != ROTA_OK) return false;
    rota_example_bytes(out, &y, 1);
    return true;
}

static const rota_kernel *const matmul_kernels[] = {
    &rota_kernel_matmul, &rota_kernel_matmul_f16, &rota_kernel_matmul_bf16, &rota_kernel_copy_strided, NULL};

const rota_op rota_ops_matmul[] = {
    {
        .name = "matmul",
        .of_nothing = ROTA_OF_NOTHING_ZERO,
        .input_count = 2,
        .output_count = 1,
        .input_names = {"a", "b"},
        .output_names = {"c"},
        .attributes = ATTRIBUTES(ATTRIBUTE(transpose_a, transpose_a), ATTRIBUTE(transpose_b, transpose_b)),
        .strided_output = true,
        .kernels = matmul_kernels,
        .shape = shape_matmul,
        .record = record_matmul,
        .gradient = gradient_matmul,
        .differentiable = 3,
        .saved_inputs = 3,
        .example = example_matmul,
    },
    {
        .name = "weighted_matmul",
        .of_nothing = ROTA_OF_NOTHING_ZERO,
        .input_count = 2,
        .output_count = 1,
        .input_names = {"weight", "value"},
        .output_names = {"y"},
        .strided_output = true,
        .kernels = matmul_kernels,
        .shape = shape_weighted,
        .record = record_weighted,
        .gradient = gradient_weighted,
        .differentiable = 3,
        .saved_inputs = 3,
        .example = example_weighted,
    },
    {0},
};
