/* Ops whose results have a length that the contents decide: nonzero, compact. */
#include "ops/op_length.h"

#include "base/divide.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

enum { NONZERO, COMPACT };

/* Elements of a chunk at the least, and chunks of an axis at the most, which one workgroup goes through. */
#define CHUNK_LEAST 4096u
#define CHUNKS_MOST 16384u

uint32_t rota_length_chunk(uint64_t n) {
    const uint32_t chunk = (uint32_t)rota_divide_up(n, CHUNKS_MOST);
    return chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk;
}

rota_status rota_shape_require_indices(const rota_op_use *use, uint32_t input, uint64_t n) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (n <= INT32_MAX) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s is %s, %llu to number; expected at most %d",
                        use->op->input_names[input],
                        rota_tensor_describe(&use->inputs[input], text, sizeof text), (unsigned long long)n,
                        INT32_MAX);
}

rota_status rota_record_exclusive_sum(rota_tape *tape, const rota_tensor *counts, uint64_t rows,
                                      rota_tensor *out_offsets, const rota_tensor *total) {
    ROTA_TRY(rota_tape_temporary(tape, "offsets", ROTA_U32, counts->rank, counts->shape, out_offsets));
    const rota_exclusive_sum_params params = {(uint32_t)rows, (uint32_t)(rota_tensor_count(counts) / rows)};
    rota_access accesses[] = {rota_tensor_access(counts, ROTA_READ), rota_tensor_write(out_offsets),
                              rota_tensor_write(total)};
    return rota_tape_kernel(tape, &rota_kernel_exclusive_sum, accesses, 3, &params, NULL, 0);
}

/* Neither finds nor moves 8-bit floats. */
static rota_status require_words(const rota_op_use *use, uint32_t input) {
    if (!rota_dtype_is_f8(use->inputs[input].dtype)) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s is %s, expected f32, f16, bf16, i32 or u32",
                        use->op->input_names[input], rota_dtype_name(use->inputs[input].dtype));
}

/* ---- nonzero ---- */

static rota_status shape_nonzero(const rota_op_use *use, rota_tensor *out) {
    const uint64_t n = rota_tensor_count(&use->inputs[0]);
    ROTA_TRY(require_words(use, 0));
    ROTA_TRY(rota_shape_require_indices(use, 0, n));
    ROTA_TRY(rota_tensor_of(NULL, 0, ROTA_I32, ROTA_SHAPE(n), &out[0]));
    return rota_tensor_of(NULL, 0, ROTA_I32, ROTA_SHAPE(1), &out[1]);
}

static rota_status run_nonzero(rota_tape *tape, const rota_tensor *x, const rota_tensor *index,
                               const rota_tensor *count) {
    const uint64_t n = rota_tensor_count(x);
    if (n == 0) return rota_record_zero(tape, count->buffer, count->offset_bytes, 4);
    rota_tensor from, counts, offsets;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    const rota_nonzero_params params = {(uint32_t)n, rota_length_chunk(n), x->dtype};
    const uint64_t chunks = rota_divide_up(n, params.chunk);
    ROTA_TRY(rota_tape_temporary(tape, "counts", ROTA_U32, ROTA_SHAPE(chunks), &counts));
    rota_access count_accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(&counts)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_nonzero_counts, count_accesses, 2, &params, NULL, 0));
    ROTA_TRY(rota_record_exclusive_sum(tape, &counts, 1, &offsets, count));
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_access(&offsets, ROTA_READ),
                              rota_tensor_access(count, ROTA_READ), rota_tensor_write(index)};
    return rota_tape_kernel(tape, &rota_kernel_nonzero, accesses, 4, &params, NULL, 0);
}

static rota_status record_nonzero(rota_tape *tape, rota_op_use *use) {
    return run_nonzero(tape, &use->inputs[0], &use->outputs[0], &use->outputs[1]);
}

/* ---- compact ---- */

static rota_status shape_compact(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0], *mask = &use->inputs[1];
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (x->rank == 0 || mask->rank != 1 || mask->shape[0] != x->shape[0])
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT, "x is %s, mask is %s; expected [rows, ...] and [rows]",
            rota_tensor_describe(x, text, sizeof text), rota_tensor_describe(mask, other, sizeof other));
    ROTA_TRY(require_words(use, 0));
    ROTA_TRY(require_words(use, 1));
    ROTA_TRY(rota_shape_require_indices(use, 1, mask->shape[0]));
    ROTA_TRY(rota_shape_like(x, x->dtype, &out[0]));
    ROTA_TRY(rota_tensor_of(NULL, 0, ROTA_I32, ROTA_SHAPE(1), &out[1]));
    return rota_tensor_of(NULL, 0, ROTA_I32, ROTA_SHAPE(mask->shape[0]), &out[2]);
}

static rota_status run_select(rota_tape *tape, const rota_tensor *x, const rota_op_use *use, bool put,
                              const rota_tensor *y) {
    const uint64_t rows = y->shape[0], count = rota_tensor_count(y);
    rota_tensor from;
    if (count == 0) return ROTA_OK;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    const rota_select_rows_params params = {(uint32_t)rows, (uint32_t)(count / rows), put, y->dtype};
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ),
                              rota_tensor_access(&use->outputs[2], ROTA_READ),
                              rota_tensor_access(&use->outputs[1], ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_select_rows, accesses, 4, &params, NULL, 0);
}

static rota_status record_compact(rota_tape *tape, rota_op_use *use) {
    ROTA_TRY(run_nonzero(tape, &use->inputs[1], &use->outputs[2], &use->outputs[1]));
    return run_select(tape, &use->inputs[0], use, false, &use->outputs[0]);
}

static rota_status gradient_compact(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(run_select(tape, rota_gradient_output(tape, 0), use, true, &write.dx));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

/* ---- Examples ---- */

typedef struct drawn {
    const char *label;
    uint64_t n, width;
    rota_dtype dtype, mask;
    uint64_t classes; /* of integers; 2: half of them are 0 */
} drawn;

static bool drawn_at(uint32_t index, uint32_t size, drawn *out) {
    static const drawn small[] = {
        {"one element", 1, 1, ROTA_F32, ROTA_I32, 2},
        {"half of them", 257, 3, ROTA_F32, ROTA_F32, 2},
        {"none", 64, 5, ROTA_F32, ROTA_F32, 1},
        {"nearly all, u32", 4097, 1, ROTA_F32, ROTA_U32, 1000},
        {"chunks, bf16", 12289, 2, ROTA_BF16, ROTA_BF16, 2},
        {"chunks, f16", 8192, 1, ROTA_F16, ROTA_F16, 2},
    };
    static const drawn large[] = {{"a million", 1u << 20, 1, ROTA_F32, ROTA_F32, 2}};
    if (index >= (size ? sizeof large / sizeof large[0] : sizeof small / sizeof small[0])) return false;
    *out = size ? large[index] : small[index];
    return true;
}

static bool example_of(uint32_t which, uint32_t index, uint32_t size, rota_op_example *out) {
    drawn d;
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX] = {{0}};
    if (!drawn_at(index, size, &d)) return false;
    *out = (rota_op_example){.label = d.label, .classes = d.classes};
    if (which == COMPACT)
        rota_example_input(out, 0, d.dtype, d.width == 1 ? 1 : 2, (const uint64_t[]){d.n, d.width},
                           ROTA_FILL_UNIFORM);
    rota_example_input(out, which == COMPACT, d.mask, 1, &d.n, ROTA_FILL_INDEX);
    out->use.op = &rota_ops_length[which];
    out->use.output_count = out->use.op->output_count;
    if (out->use.op->shape(&out->use, outputs) != ROTA_OK) return false;
    rota_example_bytes(out, outputs, out->use.op->output_count);
    return true;
}
static bool example_nonzero(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_of(NONZERO, index, size, out);
}
static bool example_compact(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_of(COMPACT, index, size, out);
}

/* ---- Table ---- */

static const rota_kernel *const nonzero_kernels[] = {&rota_kernel_nonzero_counts, &rota_kernel_exclusive_sum,
                                                     &rota_kernel_nonzero, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const compact_kernels[] = {&rota_kernel_nonzero_counts, &rota_kernel_exclusive_sum,
                                                     &rota_kernel_nonzero,        &rota_kernel_select_rows,
                                                     &rota_kernel_copy_strided,   NULL};

const rota_op rota_ops_length[] = {
    {
        .name = "nonzero",
        .of_nothing = ROTA_OF_NOTHING_RECORDED,
        .input_count = 1,
        .output_count = 2,
        .input_names = {"x"},
        .output_names = {"index", "count"},
        .kernels = nonzero_kernels,
        .shape = shape_nonzero,
        .record = record_nonzero,
        .example = example_nonzero,
    },
    {
        .name = "compact",
        .of_nothing = ROTA_OF_NOTHING_RECORDED,
        .input_count = 2,
        .output_count = 3,
        .input_names = {"x", "mask"},
        .output_names = {"y", "count", "index"},
        .kernels = compact_kernels,
        .shape = shape_compact,
        .record = record_compact,
        .gradient = gradient_compact,
        .differentiable = 1,
        .saved_outputs = 6,
        .example = example_compact,
    },
    {0},
};
