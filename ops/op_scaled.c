/* Op: scaled_matmul, a product of 8-bit floats with the scales of its operands. */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

enum { A, B, SCALE_A, SCALE_B, BIAS, INPUTS };

static uint64_t rows_of(const rota_tensor *x) {
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < x->rank; i++) rows *= x->shape[i];
    return rows;
}

/* One for all, or one for each row. */
static rota_status check_scale(const rota_op_use *use, uint32_t input, uint32_t of) {
    const rota_tensor *scale = &use->inputs[input], *x = &use->inputs[of];
    const uint64_t count = rota_tensor_count(scale), rows = rows_of(x);
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (scale->dtype == ROTA_F32 && (count == 1 || count == rows)) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                        "%s is %s; expected f32, one for all of %s, which is %s, or one for each of its %llu "
                        "rows",
                        use->op->input_names[input], rota_tensor_describe(scale, text, sizeof text),
                        use->op->input_names[of], rota_tensor_describe(x, other, sizeof other),
                        (unsigned long long)rows);
}

static rota_status check_bias(const rota_op_use *use) {
    const rota_tensor *bias = &use->inputs[BIAS];
    const rota_dtype dtype = use->attributes.dtype;
    const uint64_t n = use->inputs[B].shape[0];
    char text[ROTA_TENSOR_TEXT_MAX];
    if (!bias->buffer && (bias->dtype == ROTA_DTYPE_COUNT || bias->rank == 0)) return ROTA_OK;
    if (dtype == ROTA_F32)
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT,
            "a bias of an f32 result; expected none (rota_op_add), or a result of f16 or bf16");
    if (bias->dtype == dtype && bias->rank == 1 && bias->shape[0] == n) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "bias is %s; expected %s [%llu]",
                        rota_tensor_describe(bias, text, sizeof text), rota_dtype_name(dtype),
                        (unsigned long long)n);
}

static rota_status shape_scaled(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *a = &use->inputs[A], *b = &use->inputs[B];
    const rota_dtype dtype = use->attributes.dtype;
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (!rota_dtype_is_f8(a->dtype) || !rota_dtype_is_f8(b->dtype) || a->rank < 2 || b->rank != 2 ||
        a->shape[a->rank - 1] != b->shape[1])
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "a is %s, b is %s; expected [..., k] and [n, k], each f8_e4m3fn or f8_e5m2",
                            rota_tensor_describe(a, text, sizeof text),
                            rota_tensor_describe(b, other, sizeof other));
    if (!rota_dtype_is_real(dtype))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "a result of %s, expected f32, f16 or bf16",
                            rota_dtype_name(dtype));
    ROTA_TRY(check_scale(use, SCALE_A, A));
    ROTA_TRY(check_scale(use, SCALE_B, B));
    ROTA_TRY(check_bias(use));
    uint64_t shape[ROTA_RANK_MAX];
    for (uint32_t i = 0; i + 1 < a->rank; i++) shape[i] = a->shape[i];
    shape[a->rank - 1] = b->shape[0];
    return rota_tensor_of(NULL, 0, dtype, a->rank, shape, out);
}

/* The rows of x, each contiguous, from a multiple of 4 bytes on; *out_ld: from a row to the next. */
static rota_status as_rows(rota_tape *tape, const rota_tensor *x, rota_tensor *out, uint64_t *out_ld) {
    const uint64_t k = x->shape[x->rank - 1];
    rota_tensor rows;
    if (rota_tensor_reshape(x, ROTA_SHAPE(rows_of(x), k), &rows) != ROTA_OK || rows.offset_bytes % 4 != 0 ||
        (k > 1 && rows.stride[1] != 1) ||
        (rows.shape[0] > 1 && (rows.stride[0] < k || rows.stride[0] > UINT32_MAX))) {
        ROTA_TRY(rota_record_contiguous(tape, x, &rows));
        ROTA_TRY(rota_tensor_reshape(&rows, ROTA_SHAPE(rows_of(x), k), &rows));
    }
    *out = rows;
    *out_ld = rows.shape[0] > 1 ? rows.stride[0] : k;
    return ROTA_OK;
}

/* A scale's elements side by side; where rows have each their own, those of one for all repeated. */
static rota_status as_scales(rota_tape *tape, const rota_tensor *scale, bool by_rows, uint64_t rows,
                             rota_tensor *out) {
    const uint64_t count = rota_tensor_count(scale);
    rota_tensor all;
    ROTA_TRY(rota_record_contiguous(tape, scale, out));
    ROTA_TRY(rota_tensor_reshape(out, ROTA_SHAPE(count), out));
    if (!by_rows || count == rows) return ROTA_OK;
    ROTA_TRY(rota_tape_temporary(tape, "scale", ROTA_F32, ROTA_SHAPE(rows), &all));
    ROTA_TRY(rota_record_strided(tape, out, &all, 1.0f, false));
    *out = all;
    return ROTA_OK;
}

static rota_status record_scaled(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *in = use->inputs, *y = &use->outputs[0];
    rota_tensor a, b, scale_a, scale_b, bias;
    uint64_t lda, ldb;
    const uint64_t m = rows_of(&in[A]), n = in[B].shape[0];
    const bool has_bias = in[BIAS].buffer != NULL,
               by_rows = rota_tensor_count(&in[SCALE_A]) > 1 || rota_tensor_count(&in[SCALE_B]) > 1;
    ROTA_TRY(as_rows(tape, &in[A], &a, &lda));
    ROTA_TRY(as_rows(tape, &in[B], &b, &ldb));
    ROTA_TRY(as_scales(tape, &in[SCALE_A], by_rows, m, &scale_a));
    ROTA_TRY(as_scales(tape, &in[SCALE_B], by_rows, n, &scale_b));
    bias = a; /* bound, and not read */
    if (has_bias) ROTA_TRY(rota_record_contiguous(tape, &in[BIAS], &bias));
    const bool aligned = (a.offset_bytes | b.offset_bytes | y->offset_bytes | bias.offset_bytes) % 16 == 0;
    const rota_scaled_matmul_params params = {
        .m = (uint32_t)m,
        .n = (uint32_t)n,
        .k = (uint32_t)in[B].shape[1],
        .lda = (uint32_t)lda,
        .ldb = (uint32_t)ldb,
        .flags = (has_bias ? ROTA_SCALED_BIAS : 0) | (by_rows ? ROTA_SCALED_BY_ROWS : 0) |
                 (aligned ? ROTA_SCALED_ALIGNED_16 : 0),
        .a_dtype = a.dtype,
        .b_dtype = b.dtype,
        .y_dtype = y->dtype,
    };
    const rota_access accesses[] = {
        rota_tensor_access(&a, ROTA_READ),       rota_tensor_access(&b, ROTA_READ),
        rota_tensor_access(&scale_a, ROTA_READ), rota_tensor_access(&scale_b, ROTA_READ),
        rota_tensor_access(&bias, ROTA_READ),    rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_scaled_matmul, accesses, ROTA_SCALED_OPERANDS, &params, NULL,
                            0);
}

/* ---- Examples ---- */

static bool example_scaled(uint32_t index, uint32_t size, rota_op_example *out) {
    typedef struct drawn {
        const char *label;
        uint64_t m, n, k;
        rota_dtype a, b, y;
        bool rows_a, rows_b, bias;
    } drawn;
    static const drawn small[] = {
        {"one element", 1, 1, 1, ROTA_F8_E4M3FN, ROTA_F8_E4M3FN, ROTA_F32, false, false, false},
        {"odd", 7, 5, 9, ROTA_F8_E4M3FN, ROTA_F8_E5M2, ROTA_F32, false, false, false},
        {"odd, bf16, bias", 33, 65, 17, ROTA_F8_E5M2, ROTA_F8_E4M3FN, ROTA_BF16, false, false, true},
        {"rows, f16", 19, 37, 70, ROTA_F8_E4M3FN, ROTA_F8_E4M3FN, ROTA_F16, true, true, true},
        {"rows of one, f32", 19, 37, 70, ROTA_F8_E5M2, ROTA_F8_E5M2, ROTA_F32, false, true, false},
        /* Just enough for a library. */
        {"64 x 64 x 64, bf16", 64, 64, 64, ROTA_F8_E4M3FN, ROTA_F8_E4M3FN, ROTA_BF16, false, false, true},
        {"64 x 64 x 64, rows", 64, 64, 64, ROTA_F8_E4M3FN, ROTA_F8_E4M3FN, ROTA_BF16, true, true, false},
        {"80 x 64 x 96, f32", 80, 64, 96, ROTA_F8_E5M2, ROTA_F8_E4M3FN, ROTA_F32, false, false, false},
    };
    static const drawn large[] = {
        {"4096 x 3072 x 768, bf16", 4096, 3072, 768, ROTA_F8_E4M3FN, ROTA_F8_E4M3FN, ROTA_BF16, false, false,
         true},
        {"4096 x 3072 x 768, rows", 4096, 3072, 768, ROTA_F8_E4M3FN, ROTA_F8_E4M3FN, ROTA_BF16, true, true,
         false},
    };
    if (index >= (size ? sizeof large / sizeof *large : sizeof small / sizeof *small)) return false;
    const drawn *d = size ? &large[index] : &small[index];
    *out = (rota_op_example){.label = d->label, .use.op = &rota_ops_scaled[0]};
    rota_example_input(out, A, d->a, 2, (const uint64_t[]){d->m, d->k}, ROTA_FILL_UNIFORM);
    rota_example_input(out, B, d->b, 2, (const uint64_t[]){d->n, d->k}, ROTA_FILL_UNIFORM);
    rota_example_input(out, SCALE_A, ROTA_F32, 1, d->rows_a ? &d->m : (const uint64_t[]){1},
                       ROTA_FILL_POSITIVE);
    rota_example_input(out, SCALE_B, ROTA_F32, 1, d->rows_b ? &d->n : (const uint64_t[]){1},
                       ROTA_FILL_POSITIVE);
    if (d->bias)
        rota_example_input(out, BIAS, d->y, 1, &d->n, ROTA_FILL_UNIFORM);
    else
        rota_example_absent(out, BIAS);
    out->use.attributes.dtype = d->y;
    rota_tensor y;
    if (rota_tensor_of(NULL, 0, d->y, 2, (const uint64_t[]){d->m, d->n}, &y) != ROTA_OK) return false;
    out->flops = 2.0 * (double)(d->m * d->n * d->k);
    rota_example_bytes(out, &y, 1);
    return true;
}

static const rota_kernel *const scaled_kernels[] = {&rota_kernel_scaled_matmul, &rota_kernel_copy_strided,
                                                    NULL};

const rota_op rota_ops_scaled[] = {
    {
        .name = "scaled_matmul",
        .input_count = INPUTS,
        .optional_inputs = 1u << BIAS,
        .output_count = 1,
        .input_names = {"a", "b", "scale_a", "scale_b", "bias"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE_DTYPE),
        .kernels = scaled_kernels,
        .shape = shape_scaled,
        .record = record_scaled,
        .example = example_scaled,
    },
    {0},
};
