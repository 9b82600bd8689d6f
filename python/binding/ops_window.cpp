/* Convolutions and pooling. */
#include "ops.h"

#include <nanobind/stl/pair.h>
#include <tuple>
#include <utility>
#include <variant>

/* A number for both axes, or one for each. */
using Pair = std::variant<uint32_t, std::pair<uint32_t, uint32_t>>;

static void fill(uint32_t *to, const Pair &given) {
    if (const uint32_t *both = std::get_if<uint32_t>(&given)) {
        to[0] = to[1] = *both;
        return;
    }
    std::tie(to[0], to[1]) = std::get<1>(given);
}

/* An op of the table's, with its results where they are given. */
static void apply(rota_tape *tape, const char *op, std::initializer_list<rota_tensor> inputs,
                  const rota_op_window &window, std::initializer_list<rota_tensor> outputs) {
    rota_op_use use = {};
    use.op = rota_op_find(op);
    for (const rota_tensor &x : inputs) use.inputs[use.input_count++] = x;
    for (const rota_tensor &y : outputs) use.outputs[use.output_count++] = y;
    use.attributes.window = window;
    check(rota_op_apply(tape, &use));
}

static uint32_t or_one(uint32_t given) {
    return given ? given : 1;
}

static rota_op_window window_of(const rota_conv &options) {
    rota_op_window window = {};
    window.groups = or_one(options.groups);
    window.allow_tf32 = options.allow_tf32;
    window.channels_last = options.channels_last;
    for (int i = 0; i < 2; i++) {
        window.stride[i] = or_one(options.stride[i]);
        window.padding[i] = options.padding[i];
        window.dilation[i] = or_one(options.dilation[i]);
        window.output_padding[i] = options.output_padding[i];
    }
    return window;
}

static rota_op_window window_of(const rota_pool &options) {
    rota_op_window window = {};
    window.ceil_mode = options.ceil_mode;
    window.exclude_padding = options.exclude_padding;
    window.channels_last = options.channels_last;
    for (int i = 0; i < 2; i++) {
        window.extent[i] = options.window[i];
        window.stride[i] = options.stride[i] ? options.stride[i] : options.window[i];
        window.padding[i] = options.padding[i];
        window.dilation[i] = or_one(options.dilation[i]);
    }
    return window;
}

static rota_conv conv_options(const Out &bias, const Pair &stride, const Pair &padding, const Pair &dilation,
                              uint32_t groups, bool allow_tf32, bool channels_last) {
    rota_conv options = ROTA_CONV();
    options.allow_tf32 = allow_tf32;
    options.channels_last = channels_last;
    options.bias = none_or(bias);
    options.groups = groups;
    fill(options.stride, stride);
    fill(options.padding, padding);
    fill(options.dilation, dilation);
    return options;
}

static rota_pool pool_options(const Pair &window, const std::optional<Pair> &stride, const Pair &padding,
                              bool ceil_mode, bool channels_last) {
    rota_pool options = ROTA_POOL();
    options.ceil_mode = ceil_mode;
    options.channels_last = channels_last;
    fill(options.window, window);
    if (stride) fill(options.stride, *stride);
    fill(options.padding, padding);
    return options;
}

static void bind_convolutions(nb::module_ &m) {
    m.def(
        "conv2d",
        [](const Tensor &x, const Tensor &w, const Out &bias, const Pair &stride, const Pair &padding,
           const Pair &dilation, uint32_t groups, bool allow_tf32, bool channels_last, const Out &out) {
            const rota_conv options =
                conv_options(bias, stride, padding, dilation, groups, allow_tf32, channels_last);
            return record(
                {&x, &w, pointer(bias)}, out, "conv2d",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_conv2d(tape, x.t, w.t, &options, y); },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_conv2d_into(tape, x.t, w.t, &options, y);
                });
        },
        "x"_a, "w"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
        "groups"_a = 1, "allow_tf32"_a = false, "channels_last"_a = false, "out"_a = nb::none(),
        op_doc("conv2d",
               "x [batch, in, height, width] by windows w [out, in / groups, kh, kw], as in PyTorch; with "
               "channels_last x [batch, height, width, in] by w [out, kh, kw, in / groups].")
            .c_str());
    m.def(
        "conv_transpose2d",
        [](const Tensor &x, const Tensor &w, const Out &bias, const Pair &stride, const Pair &padding,
           const Pair &dilation, uint32_t groups, const Pair &output_padding, bool allow_tf32,
           bool channels_last, const Out &out) {
            rota_conv options =
                conv_options(bias, stride, padding, dilation, groups, allow_tf32, channels_last);
            fill(options.output_padding, output_padding);
            return record(
                {&x, &w, pointer(bias)}, out, "conv_transpose2d",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_conv_transpose2d(tape, x.t, w.t, &options, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    apply(tape, "conv_transpose2d", {x.t, w.t, options.bias}, window_of(options), {y});
                    return ROTA_OK;
                });
        },
        "x"_a, "w"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
        "groups"_a = 1, "output_padding"_a = 0, "allow_tf32"_a = false, "channels_last"_a = false,
        "out"_a = nb::none(),
        op_doc("conv_transpose2d",
               "conv2d's gradient by its input, as an op; w is [in, out / groups, kh, kw], or, with "
               "channels_last, [in, kh, kw, out / groups].")
            .c_str());
    m.def(
        "conv2d_backward_weight",
        [](const Tensor &x, const Tensor &dy, const Pair &window, const Pair &stride, const Pair &padding,
           const Pair &dilation, uint32_t groups, bool allow_tf32, bool channels_last, const Out &out) {
            const rota_conv options =
                conv_options(Out(), stride, padding, dilation, groups, allow_tf32, channels_last);
            uint32_t extent[2];
            fill(extent, window);
            return record(
                {&x, &dy}, out, "conv2d_backward_weight",
                [&](rota_tape *tape, rota_tensor *dw) {
                    return rota_op_conv2d_backward_weight(tape, x.t, dy.t, extent[0], extent[1], &options,
                                                          dw);
                },
                [&](rota_tape *tape, rota_tensor dw) {
                    rota_op_window all = window_of(options);
                    for (int i = 0; i < 2; i++) all.extent[i] = extent[i];
                    apply(tape, "conv2d_backward_weight", {x.t, dy.t}, all, {dw});
                    return ROTA_OK;
                });
        },
        "x"_a, "dy"_a, "window"_a, "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1,
        "allow_tf32"_a = false, "channels_last"_a = false, "out"_a = nb::none(),
        op_doc("conv2d_backward_weight", "conv2d's gradient by its weights, as an op.").c_str());
}

static void bind_pooling(nb::module_ &m) {
    m.def(
        "max_pool2d",
        [](const Tensor &x, const Pair &window, const std::optional<Pair> &stride, const Pair &padding,
           const Pair &dilation, bool ceil_mode, bool channels_last,
           const std::optional<std::pair<Tensor *, Tensor *>> &out) {
            rota_pool options = pool_options(window, stride, padding, ceil_mode, channels_last);
            fill(options.dilation, dilation);
            Recording recording({&x}, "max_pool2d");
            if (out) {
                recording.uses(out->first);
                recording.uses(out->second);
                apply(recording.tape(), "max_pool2d", {x.t}, window_of(options),
                      {out->first->t, out->second->t});
                return std::make_tuple(*out->first, *out->second);
            }
            rota_tensor y, index;
            check(rota_op_max_pool2d(recording.tape(), x.t, &options, &y, &index));
            return std::make_tuple(recording.made(y), recording.made(index));
        },
        "x"_a, "window"_a, "stride"_a = nb::none(), "padding"_a = 0, "dilation"_a = 1, "ceil_mode"_a = false,
        "channels_last"_a = false, "out"_a = nb::none(),
        op_doc("max_pool2d",
               "The largest of each window, and where it is in its plane; stride: the window's; "
               "channels_last: x is [batch, height, width, channels].")
            .c_str());
    m.def(
        "avg_pool2d",
        [](const Tensor &x, const Pair &window, const std::optional<Pair> &stride, const Pair &padding,
           bool ceil_mode, bool exclude_padding, bool channels_last, const Out &out) {
            rota_pool options = pool_options(window, stride, padding, ceil_mode, channels_last);
            options.exclude_padding = exclude_padding;
            return record(
                {&x}, out, "avg_pool2d",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_avg_pool2d(tape, x.t, &options, y); },
                [&](rota_tape *tape, rota_tensor y) {
                    apply(tape, "avg_pool2d", {x.t}, window_of(options), {y});
                    return ROTA_OK;
                });
        },
        "x"_a, "window"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
        "exclude_padding"_a = false, "channels_last"_a = false, "out"_a = nb::none(),
        op_doc("avg_pool2d", "The mean of each window; stride: the window's.").c_str());
}

static void bind_pooling_backward(nb::module_ &m) {
    m.def(
        "max_pool2d_backward",
        [](const Tensor &dy, const Tensor &index, const std::pair<uint32_t, uint32_t> &size,
           const Pair &window, const std::optional<Pair> &stride, const Pair &padding, const Pair &dilation,
           bool ceil_mode, bool channels_last, const Out &out) {
            rota_pool options = pool_options(window, stride, padding, ceil_mode, channels_last);
            fill(options.dilation, dilation);
            return record(
                {&dy, &index}, out, "max_pool2d_backward",
                [&](rota_tape *tape, rota_tensor *dx) {
                    return rota_op_max_pool2d_backward(tape, dy.t, index.t, size.first, size.second, &options,
                                                       dx);
                },
                [&](rota_tape *tape, rota_tensor dx) {
                    rota_op_window all = window_of(options);
                    std::tie(all.size[0], all.size[1]) = size;
                    apply(tape, "max_pool2d_backward", {dy.t, index.t}, all, {dx});
                    return ROTA_OK;
                });
        },
        "dy"_a, "index"_a, "size"_a, "window"_a, "stride"_a = nb::none(), "padding"_a = 0, "dilation"_a = 1,
        "ceil_mode"_a = false, "channels_last"_a = false, "out"_a = nb::none(),
        op_doc("max_pool2d_backward",
               "max_pool2d's gradient by x, as an op; size: the height and width of x.")
            .c_str());
    m.def(
        "avg_pool2d_backward",
        [](const Tensor &dy, const std::pair<uint32_t, uint32_t> &size, const Pair &window,
           const std::optional<Pair> &stride, const Pair &padding, bool ceil_mode, bool exclude_padding,
           bool channels_last, const Out &out) {
            rota_pool options = pool_options(window, stride, padding, ceil_mode, channels_last);
            options.exclude_padding = exclude_padding;
            return record(
                {&dy}, out, "avg_pool2d_backward",
                [&](rota_tape *tape, rota_tensor *dx) {
                    return rota_op_avg_pool2d_backward(tape, dy.t, size.first, size.second, &options, dx);
                },
                [&](rota_tape *tape, rota_tensor dx) {
                    rota_op_window all = window_of(options);
                    std::tie(all.size[0], all.size[1]) = size;
                    apply(tape, "avg_pool2d_backward", {dy.t}, all, {dx});
                    return ROTA_OK;
                });
        },
        "dy"_a, "size"_a, "window"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
        "exclude_padding"_a = false, "channels_last"_a = false, "out"_a = nb::none(),
        op_doc("avg_pool2d_backward",
               "avg_pool2d's gradient by x, as an op; size: the height and width of x.")
            .c_str());
}

void bind_windows(nb::module_ &m) {
    bind_convolutions(m);
    bind_pooling(m);
    bind_pooling_backward(m);
}
