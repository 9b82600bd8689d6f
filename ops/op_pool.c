/* Ops: max_pool2d, avg_pool2d, and their gradients by x as ops. */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/window.h"

enum { MAX, AVG, MAX_BACKWARD, AVG_BACKWARD };

static bool is_max(const rota_op_use *use) {
    return use->op == &rota_ops_pool[MAX] || use->op == &rota_ops_pool[MAX_BACKWARD];
}

/* How many windows there are of planes of `in`. */
static rota_status count_windows(const rota_op_use *use, const uint64_t in[2], uint64_t out_size[2]) {
    const rota_op_window *a = &use->attributes.window;
    ROTA_TRY(rota_window_check(use));
    for (uint32_t i = 0; i < 2; i++) {
        if (a->padding[i] > a->extent[i] / 2)
            return rota_op_fail(
                use->op, ROTA_INVALID_ARGUMENT,
                "the window is of %u x %u, the padding of %u x %u; expected at most half the window",
                a->extent[0], a->extent[1], a->padding[0], a->padding[1]);
        if (!is_max(use) && a->dilation[i] != 1)
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "dilation is %u x %u; expected 1 x 1",
                                a->dilation[0], a->dilation[1]);
        ROTA_TRY(rota_window_count(use, i, in[i], a->extent[i], a->ceil_mode, &out_size[i]));
    }
    if (is_max(use) && in[0] * in[1] > INT32_MAX) /* each below 2^31: counted */
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "planes of %llu x %llu elements; expected at most %d of them",
                            (unsigned long long)in[0], (unsigned long long)in[1], INT32_MAX);
    return ROTA_OK;
}

static const char *image_text(const rota_op_window *a) {
    return a->channels_last ? "[batch, height, width, channels]" : "[batch, channels, height, width]";
}

static rota_status shape_pool(const rota_op_use *use, rota_tensor *out) {
    const rota_op_window *a = &use->attributes.window;
    const rota_tensor *x = &use->inputs[0];
    char text[ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    uint64_t size[2];
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    if (x->rank != 4)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s; expected %s",
                            rota_tensor_describe(x, text, sizeof text), image_text(a));
    ROTA_TRY(count_windows(use, &x->shape[rota_window_first(a)], size));
    ROTA_TRY(rota_window_image(a, dtype, x->shape[0], x->shape[rota_window_channels(a)], size, &out[0]));
    return is_max(use) ? rota_shape_like(&out[0], ROTA_I32, &out[1]) : ROTA_OK;
}

static rota_status shape_backward(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *dy = &use->inputs[0], *index = &use->inputs[1];
    const rota_op_window *a = &use->attributes.window;
    const uint32_t *x = a->size, first = rota_window_first(a);
    char text[2][ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    uint64_t size[2];
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    if (is_max(use)) ROTA_TRY(rota_shape_require(use, 2, ROTA_I32));
    ROTA_TRY(count_windows(use, (const uint64_t[2]){x[0], x[1]}, size));
    if (is_max(use) && !rota_shapes_equal(dy, index))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "dy is %s, index is %s; expected the same shape",
                            rota_tensor_describe(dy, text[0], sizeof text[0]),
                            rota_tensor_describe(index, text[1], sizeof text[1]));
    if (dy->rank != 4 || dy->shape[first] != size[0] || dy->shape[first + 1] != size[1])
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "dy is %s; expected [batch%s, %llu, %llu%s], the windows of planes of %u x %u",
                            rota_tensor_describe(dy, text[0], sizeof text[0]),
                            a->channels_last ? "" : ", channels", (unsigned long long)size[0],
                            (unsigned long long)size[1], a->channels_last ? ", channels" : "", x[0], x[1]);
    return rota_window_image(a, dtype, dy->shape[0], dy->shape[rota_window_channels(a)],
                             (const uint64_t[2]){x[0], x[1]}, out);
}

static rota_pool_params params_of(const rota_op_use *use, const rota_tensor *x, const rota_tensor *y) {
    const rota_op_window *a = &use->attributes.window;
    const uint32_t first = rota_window_first(a);
    rota_pool_params params = {.planes = (uint32_t)(x->shape[0] * (a->channels_last ? 1 : x->shape[1])),
                               .channels = a->channels_last ? (uint32_t)x->shape[3] : 1,
                               .flags = is_max(use) || a->exclude_padding ? 0 : ROTA_POOL_PADDED,
                               .dtype = x->dtype};
    for (uint32_t i = 0; i < 2; i++) {
        params.in[i] = (uint32_t)x->shape[first + i];
        params.out[i] = (uint32_t)y->shape[first + i];
        params.window[i] = a->extent[i];
        params.stride[i] = a->stride[i];
        params.padding[i] = a->padding[i];
        params.dilation[i] = a->dilation[i];
    }
    return params;
}

static rota_status record_pool(rota_tape *tape, rota_op_use *use) {
    const rota_pool_params params = params_of(use, &use->inputs[0], &use->outputs[0]);
    rota_tensor x;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    rota_access accesses[3] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_write(&use->outputs[0])};
    if (is_max(use)) accesses[2] = rota_tensor_write(&use->outputs[1]);
    return rota_tape_kernel(tape, is_max(use) ? &rota_kernel_max_pool : &rota_kernel_avg_pool, accesses,
                            is_max(use) ? 3 : 2, &params, NULL, 0);
}

static rota_status run_backward(rota_tape *tape, const rota_op_use *use, const rota_tensor *from,
                                const rota_tensor *found, const rota_tensor *dx) {
    const rota_pool_params params = params_of(use, dx, from);
    rota_tensor dy, index;
    ROTA_TRY(rota_record_contiguous(tape, from, &dy));
    rota_access accesses[3] = {rota_tensor_access(&dy, ROTA_READ), rota_tensor_write(dx)};
    if (is_max(use)) {
        ROTA_TRY(rota_record_contiguous(tape, found, &index));
        accesses[2] = accesses[1];
        accesses[1] = rota_tensor_access(&index, ROTA_READ);
    }
    return rota_tape_kernel(tape,
                            is_max(use) ? &rota_kernel_max_pool_backward : &rota_kernel_avg_pool_backward,
                            accesses, is_max(use) ? 3 : 2, &params, NULL, 0);
}

static rota_status record_backward(rota_tape *tape, rota_op_use *use) {
    return run_backward(tape, use, &use->inputs[0], &use->inputs[1], &use->outputs[0]);
}

static rota_status gradient_pool(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    rota_gradient_write write;
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    ROTA_TRY(run_backward(tape, use, rota_gradient_output(tape, 0), &use->outputs[1], &write.dx));
    return rota_gradient_end(tape, x, &write);
}

/* ---- Examples ---- */

typedef struct pool_example {
    const char *label;
    rota_dtype dtype;
    uint64_t x[4];
    rota_op_window window;
} pool_example;

/* clang-format off */
#define WINDOW(KH, KW, SH, SW, PH, PW)                                                                       \
    .extent = {KH, KW}, .stride = {SH, SW}, .padding = {PH, PW}
static const pool_example examples[] = {
    {"2 x 2", ROTA_F32, {2, 3, 8, 6}, {WINDOW(2, 2, 2, 2, 0, 0), .dilation = {1, 1}}},
    {"3 x 3, overlapping, padded", ROTA_F32, {2, 5, 7, 9}, {WINDOW(3, 3, 2, 1, 1, 1), .dilation = {1, 1}}},
    {"rounded up", ROTA_F32, {1, 2, 10, 8}, {WINDOW(3, 4, 2, 3, 1, 2), .dilation = {1, 1}, .ceil_mode = true}},
    {"x alone counts", ROTA_F32, {2, 3, 7, 5},
     {WINDOW(3, 2, 2, 2, 1, 1), .dilation = {1, 1}, .ceil_mode = true, .exclude_padding = true}},
    {"height 1", ROTA_F32, {2, 3, 1, 37}, {WINDOW(1, 5, 1, 3, 0, 2), .dilation = {1, 1}}},
    {"apart from one another", ROTA_F32, {1, 2, 9, 11}, {WINDOW(2, 1, 4, 3, 0, 0), .dilation = {1, 1}}},
    {"one element", ROTA_F32, {1, 1, 1, 1}, {WINDOW(1, 1, 1, 1, 0, 0), .dilation = {1, 1}}},
    {"f16", ROTA_F16, {2, 3, 9, 7}, {WINDOW(3, 3, 2, 2, 1, 1), .dilation = {1, 1}}},
    {"rounded up, bf16", ROTA_BF16, {1, 3, 10, 8},
     {WINDOW(3, 4, 2, 3, 1, 2), .dilation = {1, 1}, .ceil_mode = true, .exclude_padding = true}},
    {"channels last", ROTA_F32, {2, 7, 9, 5},
     {WINDOW(3, 3, 2, 1, 1, 1), .dilation = {1, 1}, .channels_last = true}},
    {"channels last, rounded up, bf16", ROTA_BF16, {2, 10, 8, 24},
     {WINDOW(3, 4, 2, 3, 1, 2), .dilation = {1, 1}, .ceil_mode = true, .channels_last = true}},
    {"dilated", ROTA_F32, {2, 2, 11, 12}, {WINDOW(3, 2, 1, 2, 1, 1), .dilation = {3, 4}}},
    {"dilated, rounded up, bf16", ROTA_BF16, {2, 2, 11, 12},
     {WINDOW(3, 2, 2, 3, 1, 1), .dilation = {3, 4}, .ceil_mode = true}},
}, large[] = {
    {"8 x 64 x 112 x 112, 3 x 3", ROTA_F32, {8, 64, 112, 112}, {WINDOW(3, 3, 2, 2, 1, 1), .dilation = {1, 1}}},
};
/* clang-format on */
enum { DILATED = 2, EXAMPLES = sizeof examples / sizeof *examples };

static bool example_pool(bool of_max, uint32_t index, uint32_t size, rota_op_example *out) {
    const uint32_t count = size ? 1 : of_max ? EXAMPLES : EXAMPLES - DILATED;
    if (index >= count) return false;
    const pool_example *e = size ? &large[index] : &examples[index];
    *out = (rota_op_example){.label = e->label};
    rota_example_input(out, 0, e->dtype, 4, e->x, of_max ? ROTA_FILL_DISTINCT : ROTA_FILL_UNIFORM);
    out->use.attributes.window = e->window;
    rota_tensor y[2];
    rota_op_use use = out->use;
    use.op = &rota_ops_pool[of_max ? MAX : AVG];
    if (shape_pool(&use, y) != ROTA_OK) return false;
    out->flops = (double)e->window.extent[0] * e->window.extent[1] * (double)rota_tensor_count(&y[0]);
    rota_example_bytes(out, y, of_max ? 2 : 1);
    return true;
}

/* The pool's, with its results as inputs. Of max, indices in the plane of x: what is in no window whose index it is
 * has a gradient of 0. (With gaps between a window's elements the kernels look at fewer of them, and ask for indices
 * that max_pool2d gives.) */
static bool example_backward(bool of_max, uint32_t index, uint32_t size, rota_op_example *out) {
    rota_op_example pool;
    rota_tensor y[2];
    if (!example_pool(of_max, index, size, &pool) || (!size && index >= EXAMPLES - DILATED)) return false;
    const rota_tensor *x = &pool.use.inputs[0];
    rota_op_use use = pool.use;
    use.op = &rota_ops_pool[of_max ? MAX : AVG];
    if (shape_pool(&use, y) != ROTA_OK) return false;
    *out = (rota_op_example){.label = pool.label, .flops = pool.flops, .bytes = pool.bytes};
    rota_example_input(out, 0, x->dtype, 4, y[0].shape, ROTA_FILL_UNIFORM);
    if (of_max) rota_example_input(out, 1, ROTA_I32, 4, y[0].shape, ROTA_FILL_INDEX);
    const uint64_t *planes = &x->shape[rota_window_first(&pool.use.attributes.window)];
    out->classes = planes[0] * planes[1];
    out->use.attributes.window = pool.use.attributes.window;
    for (uint32_t i = 0; i < 2; i++) out->use.attributes.window.size[i] = (uint32_t)planes[i];
    return true;
}

static bool example_max_backward(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_backward(true, index, size, out);
}

static bool example_avg_backward(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_backward(false, index, size, out);
}

static bool example_max(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_pool(true, index, size, out);
}

static bool example_avg(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_pool(false, index, size, out);
}

static const rota_kernel *const max_kernels[] = {&rota_kernel_max_pool, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const avg_kernels[] = {&rota_kernel_avg_pool, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const max_backward_kernels[] = {&rota_kernel_max_pool_backward,
                                                          &rota_kernel_copy_strided, NULL};
static const rota_kernel *const avg_backward_kernels[] = {&rota_kernel_avg_pool_backward,
                                                          &rota_kernel_copy_strided, NULL};

/* clang-format off */
#define WINDOW_ATTRIBUTES                                                                                    \
    ATTRIBUTE(window_h, window.extent[0]), ATTRIBUTE(window_w, window.extent[1]),                            \
        ATTRIBUTE(stride_h, window.stride[0]), ATTRIBUTE(stride_w, window.stride[1]),                        \
        ATTRIBUTE(padding_h, window.padding[0]), ATTRIBUTE(padding_w, window.padding[1]),                    \
        ATTRIBUTE(dilation_h, window.dilation[0]), ATTRIBUTE(dilation_w, window.dilation[1]),                \
        ATTRIBUTE(ceil_mode, window.ceil_mode), ATTRIBUTE(channels_last, window.channels_last)
#define SIZE_ATTRIBUTES ATTRIBUTE(height, window.size[0]), ATTRIBUTE(width, window.size[1])
/* clang-format on */

const rota_op rota_ops_pool[] = {
    {
        .name = "max_pool2d",
        .input_count = 1,
        .output_count = 2,
        .input_names = {"x"},
        .output_names = {"y", "index"},
        .input_modes = {ROTA_READ},
        .attributes = ATTRIBUTES(WINDOW_ATTRIBUTES),
        .kernels = max_kernels,
        .shape = shape_pool,
        .record = record_pool,
        .gradient = gradient_pool,
        .differentiable = 1,
        .saved_outputs = 2,
        .example = example_max,
    },
    {
        .name = "avg_pool2d",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .input_modes = {ROTA_READ},
        .attributes = ATTRIBUTES(WINDOW_ATTRIBUTES, ATTRIBUTE(exclude_padding, window.exclude_padding)),
        .kernels = avg_kernels,
        .shape = shape_pool,
        .record = record_pool,
        .gradient = gradient_pool,
        .differentiable = 1,
        .example = example_avg,
    },
    {
        .name = "max_pool2d_backward",
        .input_count = 2,
        .output_count = 1,
        .input_names = {"dy", "index"},
        .output_names = {"dx"},
        .input_modes = {ROTA_READ, ROTA_READ},
        .attributes = ATTRIBUTES(SIZE_ATTRIBUTES, WINDOW_ATTRIBUTES),
        .kernels = max_backward_kernels,
        .shape = shape_backward,
        .record = record_backward,
        .example = example_max_backward,
    },
    {
        .name = "avg_pool2d_backward",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"dy"},
        .output_names = {"dx"},
        .input_modes = {ROTA_READ},
        .attributes = ATTRIBUTES(SIZE_ATTRIBUTES, WINDOW_ATTRIBUTES,
                                 ATTRIBUTE(exclude_padding, window.exclude_padding)),
        .kernels = avg_backward_kernels,
        .shape = shape_backward,
        .record = record_backward,
        .example = example_avg_backward,
    },
    {0},
};
