/* Ops with a length whose results are in order: unique, top_p. */
#include "base/divide.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_length.h"
#include "ops/op_rules.h"
#include "ops/record.h"

enum { UNIQUE, TOP_P };

/* ---- Sorting ---- */

/* The keys of contiguous x [rows, n], of 4 bytes, of which each row is in ascending order, equal ones as they were, and
 * where each was: by four bits a pass, from the lowest on. */
static rota_status run_sort(rota_tape *tape, const rota_tensor *x, rota_sort_order order, uint64_t rows,
                            rota_tensor *out_keys, const rota_tensor *index) {
    const uint64_t count = rota_tensor_count(x), n = count / rows;
    rota_sort_params params = {(uint32_t)rows, (uint32_t)n, rota_length_chunk(n), 0, true};
    const uint64_t chunks = rota_divide_up(n, params.chunk);
    rota_tensor keys[2], indices[2] = {*index}, counts, offsets, total;
    ROTA_TRY(rota_tape_temporary(tape, "keys", ROTA_U32, ROTA_SHAPE(count), &keys[0]));
    ROTA_TRY(rota_tape_temporary(tape, "keys", ROTA_U32, ROTA_SHAPE(count), &keys[1]));
    ROTA_TRY(rota_tape_temporary(tape, "index", ROTA_I32, ROTA_SHAPE(count), &indices[1]));
    ROTA_TRY(rota_tape_temporary(tape, "total", ROTA_U32, ROTA_SHAPE(rows), &total));
    const rota_sort_keys_params of_keys = {(uint32_t)count, order, x->dtype};
    rota_access key_accesses[] = {rota_tensor_access(x, ROTA_READ), rota_tensor_write(&keys[0])};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_sort_keys, key_accesses, 2, &of_keys, NULL, 0));
    for (uint32_t pass = 0; pass < 32 / ROTA_SORT_BITS; pass++) {
        const uint32_t from = pass % 2, to = 1 - from;
        params.shift = pass * ROTA_SORT_BITS;
        params.is_first = pass == 0;
        ROTA_TRY(rota_tape_temporary(tape, "counts", ROTA_U32, ROTA_SHAPE(rows, ROTA_SORT_DIGITS, chunks),
                                     &counts));
        rota_access count_accesses[] = {rota_tensor_access(&keys[from], ROTA_READ),
                                        rota_tensor_write(&counts)};
        ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_sort_counts, count_accesses, 2, &params, NULL, 0));
        ROTA_TRY(rota_record_exclusive_sum(tape, &counts, rows, &offsets, &total));
        rota_access accesses[] = {
            rota_tensor_access(&keys[from], ROTA_READ),
            rota_tensor_access(params.is_first ? &keys[from] : &indices[from], ROTA_READ),
            rota_tensor_access(&offsets, ROTA_READ), rota_tensor_write(&keys[to]),
            rota_tensor_write(&indices[to])};
        ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_sort, accesses, 5, &params, NULL, 0));
    }
    *out_keys = keys[0]; /* after an even number of passes */
    return ROTA_OK;
}
_Static_assert(32 / ROTA_SORT_BITS % 2 == 0, "the last pass writes where the first one read");

/* ---- unique ---- */

static rota_status shape_unique(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    const uint64_t n = rota_tensor_count(x);
    if (x->dtype != ROTA_F32 && x->dtype != ROTA_I32 && x->dtype != ROTA_U32)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s; expected f32, i32 or u32",
                            rota_dtype_name(x->dtype));
    ROTA_TRY(rota_shape_require_indices(use, 0, n));
    ROTA_TRY(rota_tensor_of(NULL, 0, x->dtype, ROTA_SHAPE(n), &out[0]));
    ROTA_TRY(rota_tensor_of(NULL, 0, ROTA_I32, ROTA_SHAPE(1), &out[1]));
    return rota_shape_like(x, ROTA_I32, &out[2]);
}

static rota_status record_unique(rota_tape *tape, rota_op_use *use) {
    const uint64_t n = rota_tensor_count(&use->inputs[0]);
    const rota_tensor *y = &use->outputs[0], *count = &use->outputs[1], *inverse = &use->outputs[2];
    if (n == 0) return rota_record_zero(tape, count->buffer, count->offset_bytes, 4);
    rota_tensor x, keys, index, counts, offsets;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    ROTA_TRY(rota_tape_temporary(tape, "index", ROTA_I32, ROTA_SHAPE(n), &index));
    ROTA_TRY(run_sort(tape, &x, ROTA_SORT_RISING, 1, &keys, &index));
    const rota_unique_params params = {(uint32_t)n, rota_length_chunk(n), x.dtype};
    ROTA_TRY(
        rota_tape_temporary(tape, "counts", ROTA_U32, ROTA_SHAPE(rota_divide_up(n, params.chunk)), &counts));
    rota_access count_accesses[] = {rota_tensor_access(&keys, ROTA_READ), rota_tensor_write(&counts)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_unique_counts, count_accesses, 2, &params, NULL, 0));
    ROTA_TRY(rota_record_exclusive_sum(tape, &counts, 1, &offsets, count));
    rota_access accesses[] = {rota_tensor_access(&keys, ROTA_READ),
                              rota_tensor_access(&index, ROTA_READ),
                              rota_tensor_access(&offsets, ROTA_READ),
                              rota_tensor_access(count, ROTA_READ),
                              rota_tensor_write(y),
                              rota_tensor_write(inverse)};
    return rota_tape_kernel(tape, &rota_kernel_unique, accesses, 6, &params, NULL, 0);
}

/* ---- top_p ---- */

static rota_status shape_top_p(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    const rota_value p = use->attributes.value[0];
    rota_dtype dtype;
    uint64_t shape[ROTA_RANK_MAX];
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    if (x->rank == 0) return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x has no axis; expected [..., n]");
    ROTA_TRY(rota_shape_require_indices(use, 0, x->shape[x->rank - 1]));
    if (p.kind != ROTA_VALUE_SLOT && !(p.number > 0 && p.number <= 1))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "p is %g, expected 0 < p <= 1", p.number);
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = i + 1 < x->rank ? x->shape[i] : 1;
    ROTA_TRY(rota_shape_like(x, ROTA_I32, &out[0]));
    return rota_tensor_of(NULL, 0, ROTA_I32, x->rank, shape, &out[1]);
}

static rota_status record_top_p(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *index = &use->outputs[0], *count = &use->outputs[1];
    const uint64_t rows = rota_tensor_count(count), n = index->shape[index->rank - 1];
    if (rows == 0) return ROTA_OK;
    if (n == 0) return rota_record_zero(tape, count->buffer, count->offset_bytes, rows * 4);
    rota_tensor x, keys, sums;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    ROTA_TRY(run_sort(tape, &x, ROTA_SORT_PROBABLE, rows, &keys, index));
    const rota_value p = use->attributes.value[0];
    const rota_top_p_params params = {(uint32_t)rows, (uint32_t)n, rota_length_chunk(n), rota_value_f32(p)};
    rota_param_binding bindings[1];
    uint32_t binding_count = 0;
    rota_value_bind(p, 0, bindings, &binding_count);
    ROTA_TRY(rota_tape_temporary(tape, "sums", ROTA_U32, ROTA_SHAPE(rows, rota_divide_up(n, params.chunk), 2),
                                 &sums));
    const rota_top_p_params of_sums = {params.rows, params.n, params.chunk, 0};
    rota_access sum_accesses[] = {rota_tensor_access(&keys, ROTA_READ), rota_tensor_write(&sums)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_top_p_sums, sum_accesses, 2, &of_sums, NULL, 0));
    rota_access accesses[] = {rota_tensor_access(&keys, ROTA_READ), rota_tensor_access(&sums, ROTA_READ),
                              rota_tensor_write(count)};
    return rota_tape_kernel(tape, &rota_kernel_top_p, accesses, 3, &params, bindings, binding_count);
}

/* ---- Examples ---- */

static bool example_unique(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint64_t n, classes;
        rota_dtype dtype;
        rota_fill_kind fill;
    } small[] = {
        {"one element", 1, 1, ROTA_F32, ROTA_FILL_UNIFORM},
        {"few kinds", 301, 5, ROTA_I32, ROTA_FILL_INDEX},
        {"none alike", 257, 1, ROTA_F32, ROTA_FILL_DISTINCT},
        {"chunks, u32", 9001, 700, ROTA_U32, ROTA_FILL_INDEX},
    };
    static const uint64_t large = 1u << 20;
    if (index >= (size ? 1 : sizeof small / sizeof *small)) return false;
    *out = (rota_op_example){.label = size ? "a million" : small[index].label,
                             .classes = size ? 1000 : small[index].classes};
    rota_example_input(out, 0, size ? ROTA_I32 : small[index].dtype, 1, size ? &large : &small[index].n,
                       size ? ROTA_FILL_INDEX : small[index].fill);
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX] = {{0}};
    out->use.op = &rota_ops_sort[UNIQUE];
    if (out->use.op->shape(&out->use, outputs) != ROTA_OK) return false;
    rota_example_bytes(out, outputs, 3);
    return true;
}

static bool example_top_p(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank;
        uint64_t shape[3];
        rota_dtype dtype;
        rota_fill_kind fill;
        double p;
    } small[] = {
        {"one element", 1, {1}, ROTA_F32, ROTA_FILL_POSITIVE, 0.5},
        {"rows", 3, {2, 3, 77}, ROTA_F32, ROTA_FILL_POSITIVE, 0.75},
        {"none alike", 2, {3, 257}, ROTA_F32, ROTA_FILL_DISTINCT, 0.25},
        {"all of it, bf16", 2, {5, 65}, ROTA_BF16, ROTA_FILL_UNIFORM, 1},
        {"chunks, f16", 1, {9001}, ROTA_F16, ROTA_FILL_POSITIVE, 0.875},
    };
    static const uint64_t large[] = {16, 50257};
    if (index >= (size ? 1 : sizeof small / sizeof *small)) return false;
    *out = (rota_op_example){.label = size ? "16 rows of 50257" : small[index].label};
    rota_example_input(out, 0, size ? ROTA_F32 : small[index].dtype, size ? 2 : small[index].rank,
                       size ? large : small[index].shape, size ? ROTA_FILL_DISTINCT : small[index].fill);
    out->use.attributes.value[0] = rota_value_plain(size ? 0.9 : small[index].p);
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX] = {{0}};
    out->use.op = &rota_ops_sort[TOP_P];
    if (out->use.op->shape(&out->use, outputs) != ROTA_OK) return false;
    rota_example_bytes(out, outputs, 2);
    return true;
}

/* ---- Table ---- */

#define SORTING                                                                                              \
    &rota_kernel_sort_keys, &rota_kernel_sort_counts, &rota_kernel_exclusive_sum, &rota_kernel_sort,         \
        &rota_kernel_copy_strided
static const rota_kernel *const unique_kernels[] = {SORTING, &rota_kernel_unique_counts, &rota_kernel_unique,
                                                    NULL};
static const rota_kernel *const top_p_kernels[] = {SORTING, &rota_kernel_top_p_sums, &rota_kernel_top_p,
                                                   NULL};

const rota_op rota_ops_sort[] = {
    {
        .name = "unique",
        .of_nothing = ROTA_OF_NOTHING_RECORDED,
        .input_count = 1,
        .output_count = 3,
        .input_names = {"x"},
        .output_names = {"y", "count", "inverse"},
        .kernels = unique_kernels,
        .shape = shape_unique,
        .record = record_unique,
        .example = example_unique,
    },
    {
        .name = "top_p",
        .of_nothing = ROTA_OF_NOTHING_RECORDED,
        .input_count = 1,
        .output_count = 2,
        .input_names = {"x"},
        .output_names = {"index", "count"},
        .attributes = ATTRIBUTES(ATTRIBUTE(p, value[0])),
        .kernels = top_p_kernels,
        .shape = shape_top_p,
        .record = record_top_p,
        .example = example_top_p,
    },
    {0},
};
