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

static rota_conv conv_options(const Out &bias, const Pair &stride, const Pair &padding, const Pair &dilation,
                              uint32_t groups) {
    rota_conv options = ROTA_CONV();
    options.bias = none_or(bias);
    options.groups = groups;
    fill(options.stride, stride);
    fill(options.padding, padding);
    fill(options.dilation, dilation);
    return options;
}

static rota_pool pool_options(const Pair &window, const std::optional<Pair> &stride, const Pair &padding,
                              bool ceil_mode) {
    rota_pool options = ROTA_POOL();
    options.ceil_mode = ceil_mode;
    fill(options.window, window);
    if (stride) fill(options.stride, *stride);
    fill(options.padding, padding);
    return options;
}

static void bind_convolutions(nb::module_ &m) {
    m.def(
        "conv2d",
        [](const Tensor &x, const Tensor &w, const Out &bias, const Pair &stride, const Pair &padding,
           const Pair &dilation, uint32_t groups, const Out &out) {
            const rota_conv options = conv_options(bias, stride, padding, dilation, groups);
            return record(
                {&x, &w, pointer(bias)}, out, "conv2d",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_conv2d(tape, x.t, w.t, &options, y); },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_conv2d_into(tape, x.t, w.t, &options, y);
                });
        },
        "x"_a, "w"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
        "groups"_a = 1, "out"_a = nb::none(),
        op_doc("conv2d",
               "x [batch, in, height, width] by windows w [out, in / groups, kh, kw], as in PyTorch.")
            .c_str());
    m.def(
        "conv_transpose2d",
        [](const Tensor &x, const Tensor &w, const Out &bias, const Pair &stride, const Pair &padding,
           const Pair &dilation, uint32_t groups, const Pair &output_padding) {
            rota_conv options = conv_options(bias, stride, padding, dilation, groups);
            fill(options.output_padding, output_padding);
            return record({&x, &w, pointer(bias)}, "conv_transpose2d", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_conv_transpose2d(tape, x.t, w.t, &options, y);
            });
        },
        "x"_a, "w"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
        "groups"_a = 1, "output_padding"_a = 0,
        op_doc("conv_transpose2d",
               "conv2d's gradient by its input, as an op; w is [in, out / groups, kh, kw].")
            .c_str());
}

static void bind_pooling(nb::module_ &m) {
    m.def(
        "max_pool2d",
        [](const Tensor &x, const Pair &window, const std::optional<Pair> &stride, const Pair &padding,
           const Pair &dilation, bool ceil_mode) {
            rota_pool options = pool_options(window, stride, padding, ceil_mode);
            fill(options.dilation, dilation);
            Recording recording({&x}, "max_pool2d");
            rota_tensor y, index;
            check(rota_op_max_pool2d(recording.tape(), x.t, &options, &y, &index));
            return std::make_tuple(recording.made(y), recording.made(index));
        },
        "x"_a, "window"_a, "stride"_a = nb::none(), "padding"_a = 0, "dilation"_a = 1, "ceil_mode"_a = false,
        op_doc("max_pool2d",
               "The largest of each window, and where it is in its plane; stride: the window's.")
            .c_str());
    m.def(
        "avg_pool2d",
        [](const Tensor &x, const Pair &window, const std::optional<Pair> &stride, const Pair &padding,
           bool ceil_mode, bool exclude_padding) {
            rota_pool options = pool_options(window, stride, padding, ceil_mode);
            options.exclude_padding = exclude_padding;
            return record({&x}, "avg_pool2d", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_avg_pool2d(tape, x.t, &options, y);
            });
        },
        "x"_a, "window"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
        "exclude_padding"_a = false,
        op_doc("avg_pool2d", "The mean of each window; stride: the window's.").c_str());
}

void bind_windows(nb::module_ &m) {
    bind_convolutions(m);
    bind_pooling(m);
}
