/* Ops element by element, that move data, and along an axis. */
#include "ops.h"

std::string op_doc(const char *name, const char *sentence) {
    std::string text = sentence;
    const rota_op *op = rota_op_find(name);
    if (!op) return text;
    text += "\n\nInputs: ";
    for (uint32_t i = 0; i < op->input_count; i++) {
        text += std::string(i ? ", " : "") + op->input_names[i];
        if (op->optional_inputs >> i & 1) text += " (may be None)";
    }
    text += op->output_count ? ". Results: " : ". In place";
    for (uint32_t i = 0; i < op->output_count; i++) text += std::string(i ? ", " : "") + op->output_names[i];
    std::string flows;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->differentiable >> i & 1)
            flows += (flows.empty() ? "" : ", ") + std::string(op->input_names[i]);
    if (op->gradient || op->remember) {
        text += ". Gradient flows to " + (flows.empty() ? "none" : flows) + ".";
    } else {
        text += ". Without gradient.";
    }
    return text;
}

uint32_t op_axis(const Tensor &x, int64_t axis, const char *op) {
    const int64_t rank = x.t.rank;
    if (axis >= -rank && axis < rank) return static_cast<uint32_t>(axis < 0 ? axis + rank : axis);
    fail(ROTA_INVALID_ARGUMENT,
         std::string("op '") + op + "': axis " + std::to_string(axis) + " of " + x.describe());
}

using UnaryOp = rota_status (*)(rota_tape *, rota_tensor, rota_tensor *);
using UnaryInto = rota_status (*)(rota_tape *, rota_tensor, rota_tensor);
using BinaryOp = rota_status (*)(rota_tape *, rota_tensor, rota_tensor, rota_tensor *);
using BinaryInto = rota_status (*)(rota_tape *, rota_tensor, rota_tensor, rota_tensor);
using ReduceOp = rota_status (*)(rota_tape *, rota_tensor, uint32_t, bool, rota_tensor *);
using ReduceInto = rota_status (*)(rota_tape *, rota_tensor, uint32_t, bool, rota_tensor);
using ValueOp = rota_status (*)(rota_tape *, rota_tensor, rota_value, rota_tensor *);
using ValueInto = rota_status (*)(rota_tape *, rota_tensor, rota_value, rota_tensor);

static void bind_unary(nb::module_ &m, const char *name, UnaryOp fresh, UnaryInto into,
                       const char *sentence) {
    m.def(
        name,
        [=](const Tensor &x, const Out &out) {
            return record(
                {&x}, out, name, [&](rota_tape *tape, rota_tensor *y) { return fresh(tape, x.t, y); },
                [&](rota_tape *tape, rota_tensor y) { return into(tape, x.t, y); });
        },
        "x"_a, "out"_a = nb::none(), op_doc(name, sentence).c_str());
}

static void bind_binary(nb::module_ &m, const char *name, BinaryOp fresh, BinaryInto into,
                        const char *sentence) {
    m.def(
        name,
        [=](const Tensor &a, const Tensor &b, const Out &out) {
            return record(
                {&a, &b}, out, name,
                [&](rota_tape *tape, rota_tensor *y) { return fresh(tape, a.t, b.t, y); },
                [&](rota_tape *tape, rota_tensor y) { return into(tape, a.t, b.t, y); });
        },
        "a"_a, "b"_a, "out"_a = nb::none(), op_doc(name, sentence).c_str());
}

static void bind_reduce(nb::module_ &m, const char *name, ReduceOp fresh, ReduceInto into,
                        const char *sentence) {
    m.def(
        name,
        [=](const Tensor &x, int64_t axis, bool keep, const Out &out) {
            const uint32_t along = op_axis(x, axis, name);
            return record(
                {&x}, out, name,
                [&](rota_tape *tape, rota_tensor *y) { return fresh(tape, x.t, along, keep, y); },
                [&](rota_tape *tape, rota_tensor y) { return into(tape, x.t, along, keep, y); });
        },
        "x"_a, "axis"_a = -1, "keep"_a = false, "out"_a = nb::none(), op_doc(name, sentence).c_str());
}

static void bind_value(nb::module_ &m, const char *name, const char *value_name, ValueOp fresh,
                       ValueInto into, const char *sentence) {
    m.def(
        name,
        [=](const Tensor &x, const Value &value, const Out &out) {
            const rota_value v = value_of(value);
            return record(
                {&x}, out, name, [&](rota_tape *tape, rota_tensor *y) { return fresh(tape, x.t, v, y); },
                [&](rota_tape *tape, rota_tensor y) { return into(tape, x.t, v, y); });
        },
        "x"_a, nb::arg(value_name), "out"_a = nb::none(), op_doc(name, sentence).c_str());
}

static void bind_elementwise(nb::module_ &m) {
#define UNARY(name, sentence) bind_unary(m, #name, rota_op_##name, rota_op_##name##_into, sentence)
#define BINARY(name, sentence) bind_binary(m, #name, rota_op_##name, rota_op_##name##_into, sentence)
#define VALUE(name, value, sentence)                                                                         \
    bind_value(m, #name, value, rota_op_##name, rota_op_##name##_into, sentence)
    BINARY(add, "a + b, broadcast.");
    BINARY(sub, "a - b, broadcast.");
    BINARY(mul, "a * b, broadcast.");
    BINARY(div, "a / b, broadcast.");
    BINARY(minimum, "The smaller of two; NaN if either is.");
    BINARY(maximum, "The larger of two; NaN if either is.");
    BINARY(pow, "a to the power of b.");
    BINARY(silu_mul, "silu(a) * b (SwiGLU).");
    BINARY(eq, "1 where a == b, else 0, in the inputs' dtype.");
    BINARY(ne, "1 where a != b, else 0.");
    BINARY(lt, "1 where a < b, else 0.");
    BINARY(le, "1 where a <= b, else 0.");
    BINARY(gt, "1 where a > b, else 0.");
    BINARY(ge, "1 where a >= b, else 0.");
    BINARY(bias_gelu, "gelu(a + b), the tanh form; b is the bias.");
    UNARY(neg, "-x.");
    UNARY(exp, "e to the power of x.");
    UNARY(log, "The natural logarithm.");
    UNARY(sqrt, "The square root.");
    UNARY(relu, "max(x, 0).");
    UNARY(gelu, "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).");
    UNARY(silu, "x / (1 + exp(-x)).");
    UNARY(abs, "The magnitude.");
    UNARY(square, "x * x.");
    UNARY(reciprocal, "1 / x.");
    UNARY(rsqrt, "1 / sqrt(x).");
    UNARY(tanh, "The hyperbolic tangent.");
    UNARY(sigmoid, "1 / (1 + exp(-x)).");
    UNARY(sin, "The sine.");
    UNARY(cos, "The cosine.");
    UNARY(sign, "-1, 0 or 1.");
    UNARY(floor, "The next whole number down.");
    UNARY(ceil, "The next whole number up.");
    UNARY(round, "The nearest whole number, halves to even.");
    UNARY(gelu_erf, "0.5 x (1 + erf(x / sqrt 2)).");
    UNARY(softplus, "log(1 + exp(x)).");
    UNARY(hardswish, "x * min(max(x + 3, 0), 6) / 6.");
    VALUE(leaky_relu, "alpha", "x where x > 0, else alpha * x.");
    VALUE(elu, "alpha", "x where x > 0, else alpha * (exp(x) - 1).");
    VALUE(pow_scalar, "exponent", "x to the power of a number.");
    VALUE(softcap, "cap", "cap * tanh(x / cap).");
    VALUE(scale, "alpha", "alpha * x.");
}

static void bind_affine(nb::module_ &m) {
    m.def(
        "affine",
        [](const Tensor &x, const Value &alpha, const Value &beta, const Out &out) {
            const rota_value a = value_of(alpha), b = value_of(beta);
            return record(
                {&x}, out, "affine",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_affine(tape, x.t, a, b, y); },
                [&](rota_tape *tape, rota_tensor y) { return rota_op_affine_into(tape, x.t, a, b, y); });
        },
        "x"_a, "alpha"_a, "beta"_a, "out"_a = nb::none(), op_doc("affine", "alpha * x + beta.").c_str());
    m.def(
        "clamp",
        [](const Tensor &x, const Value &low, const Value &high, const Out &out) {
            const rota_value a = value_of(low), b = value_of(high);
            return record(
                {&x}, out, "clamp",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_clamp(tape, x.t, a, b, y); },
                [&](rota_tape *tape, rota_tensor y) { return rota_op_clamp_into(tape, x.t, a, b, y); });
        },
        "x"_a, "low"_a, "high"_a, "out"_a = nb::none(), op_doc("clamp", "min(max(x, low), high).").c_str());
}

static void bind_choose(nb::module_ &m) {
    m.def(
        "where",
        [](const Tensor &condition, const Tensor &a, const Tensor &b, const Out &out) {
            return record(
                {&condition, &a, &b}, out, "where",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_where(tape, condition.t, a.t, b.t, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_where_into(tape, condition.t, a.t, b.t, y);
                });
        },
        "condition"_a, "a"_a, "b"_a, "out"_a = nb::none(),
        op_doc("where", "a where condition is not 0, else b.").c_str());
    m.def(
        "masked_fill",
        [](const Tensor &x, const Tensor &mask, float number, const Out &out) {
            return record(
                {&x, &mask}, out, "masked_fill",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_masked_fill(tape, x.t, mask.t, number, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_masked_fill_into(tape, x.t, mask.t, number, y);
                });
        },
        "x"_a, "mask"_a, "number"_a, "out"_a = nb::none(),
        op_doc("masked_fill", "The number where mask is not 0, else x.").c_str());
    m.def(
        "dropout",
        [](const Tensor &x, float p, const Value &seed, const Value &step, const Out &out) {
            const rota_value s = value_of(seed), t = value_of(step);
            return record(
                {&x}, out, "dropout",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_dropout(tape, x.t, p, s, t, y); },
                [&](rota_tape *tape, rota_tensor y) { return rota_op_dropout_into(tape, x.t, p, s, t, y); });
        },
        "x"_a, "p"_a, "seed"_a, "step"_a, "out"_a = nb::none(),
        op_doc("dropout", "0 with probability p, else x / (1 - p). seed and step are slots or Constants.")
            .c_str());
    m.def(
        "residual_dropout",
        [](const Tensor &x, const Tensor &residual, float p, const Value &seed, const Value &step,
           const Out &out) {
            const rota_value s = value_of(seed), t = value_of(step);
            return record(
                {&x, &residual}, out, "residual_dropout",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_residual_dropout(tape, x.t, residual.t, p, s, t, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_residual_dropout_into(tape, x.t, residual.t, p, s, t, y);
                });
        },
        "x"_a, "residual"_a, "p"_a, "seed"_a, "step"_a, "out"_a = nb::none(),
        op_doc("residual_dropout", "residual + dropout(x), in one pass.").c_str());
}

static void bind_move(nb::module_ &m) {
    UNARY(copy, "x's elements, in new memory.");
    UNARY(stop_gradient, "x's elements, through which no gradient flows.");
    m.def(
        "contiguous",
        [](const Tensor &x) {
            return record({&x}, "contiguous",
                          [&](rota_tape *tape, rota_tensor *y) { return rota_op_contiguous(tape, x.t, y); });
        },
        "x"_a, "x itself if it is contiguous, else a contiguous copy.");
    m.def(
        "cast",
        [](const Tensor &x, const std::string &dtype) {
            const rota_dtype type = dtype_of(dtype);
            return record({&x}, "cast",
                          [&](rota_tape *tape, rota_tensor *y) { return rota_op_cast(tape, x.t, type, y); });
        },
        "x"_a, "dtype"_a, op_doc("cast", "x in another dtype.").c_str());
    m.def(
        "transpose",
        [](const Tensor &x, int64_t a, int64_t b) {
            const uint32_t i = op_axis(x, a, "transpose"), j = op_axis(x, b, "transpose");
            return record({&x}, "transpose", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_transpose(tape, x.t, i, j, y);
            });
        },
        "x"_a, "axis_a"_a, "axis_b"_a,
        op_doc("transpose", "Two axes swapped, moved in memory (x.transpose is the view).").c_str());
    m.def(
        "slice",
        [](const Tensor &x, int64_t axis, uint64_t start, uint64_t length) {
            const uint32_t along = op_axis(x, axis, "slice");
            return record({&x}, "slice", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_slice(tape, x.t, along, start, length, y);
            });
        },
        "x"_a, "axis"_a, "start"_a, "length"_a,
        op_doc("slice", "A range along an axis, moved in memory (x[...] is the view).").c_str());
    m.def(
        "reshape",
        [](const Tensor &x, const std::vector<uint64_t> &shape) {
            return record({&x}, "reshape", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_reshape(tape, x.t, static_cast<uint32_t>(shape.size()), shape.data(), y);
            });
        },
        "x"_a, "shape"_a, op_doc("reshape", "Another shape of as many elements.").c_str());
    m.def(
        "broadcast",
        [](const Tensor &x, const std::vector<uint64_t> &shape) {
            return record({&x}, "broadcast", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_broadcast(tape, x.t, static_cast<uint32_t>(shape.size()), shape.data(), y);
            });
        },
        "x"_a, "shape"_a,
        "x repeated in memory to a larger shape (x.broadcast_to is the view). Gradient flows to x.");
}

static void bind_joined(nb::module_ &m) {
    m.def(
        "fill",
        [](const Tensor &y, double number) {
            Recording recording({&y}, "fill");
            check(rota_op_fill_into(recording.tape(), y.t, number));
        },
        "y"_a, "number"_a, "Every element of y becomes the number.");
    m.def(
        "concat",
        [](const std::vector<Tensor *> &tensors, int64_t axis, const Out &out) {
            if (tensors.empty()) fail(ROTA_INVALID_ARGUMENT, "op 'concat': no tensors");
            std::vector<rota_tensor> parts;
            const Tensor *of = tensors[0];
            for (const Tensor *one : tensors) {
                parts.push_back(one->t);
                if (one->graph) of = one;
            }
            const uint32_t along = op_axis(*tensors[0], axis, "concat");
            const auto count = static_cast<uint32_t>(parts.size());
            return record(
                {of}, out, "concat",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_concat(tape, parts.data(), count, along, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_concat_into(tape, parts.data(), count, along, y);
                });
        },
        "tensors"_a, "axis"_a = 0, "out"_a = nb::none(),
        "The tensors side by side along an axis. Gradient flows to all.");
    m.def(
        "embedding",
        [](const Tensor &table, const Tensor &index, const Out &out) {
            return record(
                {&table, &index}, out, "embedding",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_embedding(tape, table.t, index.t, y); },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_embedding_into(tape, table.t, index.t, y);
                });
        },
        "table"_a, "index"_a, "out"_a = nb::none(),
        op_doc("embedding", "Rows of a table by index (i32).").c_str());
}

static void bind_indexed(nb::module_ &m) {
    m.def(
        "gather",
        [](const Tensor &x, int64_t axis, const Tensor &index, const Out &out) {
            const uint32_t i = op_axis(x, axis, "gather");
            return record(
                {&x, &index}, out, "gather",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_gather(tape, x.t, i, index.t, y); },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_gather_into(tape, x.t, i, index.t, y);
                });
        },
        "x"_a, "axis"_a, "index"_a, "out"_a = nb::none(),
        op_doc("gather", "Elements by index along an axis.").c_str());
    m.def(
        "scatter_add",
        [](const Tensor &base, int64_t axis, const Tensor &index, const Tensor &x, const Out &out) {
            const uint32_t i = op_axis(base, axis, "scatter_add");
            return record(
                {&base, &index, &x}, out, "scatter_add",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_scatter_add(tape, base.t, i, index.t, x.t, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_scatter_add_into(tape, base.t, i, index.t, x.t, y);
                });
        },
        "base"_a, "axis"_a, "index"_a, "x"_a, "out"_a = nb::none(),
        op_doc("scatter_add", "base, with each element of x added at its index along the axis.").c_str());
    m.def(
        "one_hot",
        [](const Tensor &index, uint64_t classes, const std::string &dtype) {
            const rota_dtype type = dtype_of(dtype);
            return record({&index}, "one_hot", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_one_hot(tape, index.t, classes, type, y);
            });
        },
        "index"_a, "classes"_a, "dtype"_a = "f32", op_doc("one_hot", "1 at the index, else 0.").c_str());
}

static void bind_along(nb::module_ &m) {
#define REDUCE(name, sentence) bind_reduce(m, #name, rota_op_##name, rota_op_##name##_into, sentence)
    REDUCE(sum, "The sum along an axis.");
    REDUCE(mean, "The mean along an axis.");
    REDUCE(max, "The largest along an axis.");
    REDUCE(min, "The smallest along an axis.");
    REDUCE(argmax, "The index (i32) of the largest along an axis.");
    UNARY(sum_squares, "The sum of all squares, f32 [1].");
    m.def(
        "variance",
        [](const Tensor &x, int64_t axis, int32_t correction, bool keep) {
            const uint32_t i = op_axis(x, axis, "variance");
            return record({&x}, "variance", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_variance(tape, x.t, i, correction, keep, y);
            });
        },
        "x"_a, "axis"_a = -1, "correction"_a = 0, "keep"_a = false,
        op_doc("variance", "The sum of (x - mean)^2 over n - correction.").c_str());
}

static void bind_sums(nb::module_ &m) {
    m.def(
        "column_sums",
        [](const Tensor &x) {
            return record({&x}, "column_sums",
                          [&](rota_tape *tape, rota_tensor *y) { return rota_op_column_sums(tape, x.t, y); });
        },
        "x"_a, "The sum over all axes but the last. Gradient flows to x.");
    m.def(
        "prod",
        [](const Tensor &x, int64_t axis, bool keep) {
            const uint32_t i = op_axis(x, axis, "prod");
            return record({&x}, "prod", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_prod(tape, x.t, i, keep, y);
            });
        },
        "x"_a, "axis"_a = -1, "keep"_a = false, "The product along an axis. Gradient flows to x.");
    m.def(
        "cumulative_sum",
        [](const Tensor &x, int64_t axis) {
            const uint32_t i = op_axis(x, axis, "cumulative_sum");
            return record({&x}, "cumulative_sum", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_cumulative_sum(tape, x.t, i, y);
            });
        },
        "x"_a, "axis"_a = -1,
        op_doc("cumulative_sum", "Sums of the first 1, 2, ... along the axis.").c_str());
    m.def(
        "top_k",
        [](const Tensor &x, uint64_t k, int64_t axis) {
            const uint32_t i = op_axis(x, axis, "top_k");
            Recording recording({&x}, "top_k");
            rota_tensor values, index;
            check(rota_op_top_k(recording.tape(), x.t, i, k, &values, &index));
            return std::make_tuple(recording.made(values), recording.made(index));
        },
        "x"_a, "k"_a, "axis"_a = -1,
        op_doc("top_k", "The k largest along the axis, falling, and their indices.").c_str());
}

/* Of an op that gives a result and how much of it there is. */
template <typename Op> static auto with_count(const Tensor &x, const char *name, const Tensor *mask, Op op) {
    Recording recording({&x}, name);
    if (mask) recording.uses(mask);
    rota_tensor y, count;
    check(op(recording.tape(), &y, &count));
    return std::make_tuple(recording.made(y), recording.made(count));
}

static void bind_lengths(nb::module_ &m) {
    m.def(
        "nonzero",
        [](const Tensor &x) {
            return with_count(x, "nonzero", nullptr,
                              [&](rota_tape *tape, rota_tensor *y, rota_tensor *count) {
                                  return rota_op_nonzero(tape, x.t, y, count);
                              });
        },
        "x"_a,
        op_doc("nonzero",
               "Flat indices (i32 [n]) of the elements that are not zero, ascending, then of those that "
               "are; and how many are not (i32 [1]).")
            .c_str());
    m.def(
        "compact",
        [](const Tensor &x, const Tensor &mask) {
            return with_count(x, "compact", &mask, [&](rota_tape *tape, rota_tensor *y, rota_tensor *count) {
                return rota_op_compact(tape, x.t, mask.t, y, count);
            });
        },
        "x"_a, "mask"_a,
        op_doc("compact",
               "Rows along axis 0 where the mask [rows] is not zero, in order, then rows of 0; and how "
               "many stay (i32 [1]).")
            .c_str());
    m.def(
        "unique",
        [](const Tensor &x) {
            Recording recording({&x}, "unique");
            rota_tensor y, count, inverse;
            check(rota_op_unique(recording.tape(), x.t, &y, &count, &inverse));
            return std::make_tuple(recording.made(y), recording.made(count), recording.made(inverse));
        },
        "x"_a,
        op_doc("unique",
               "Each number of x (f32, i32, u32) once, ascending, then 0; how many there are (i32 [1]); and "
               "where each element of x is among them (i32).")
            .c_str());
    m.def(
        "top_p",
        [](const Tensor &x, const Value &p) {
            const rota_value share = value_of(p);
            return with_count(x, "top_p", nullptr, [&](rota_tape *tape, rota_tensor *y, rota_tensor *count) {
                return rota_op_top_p(tape, x.t, share, y, count);
            });
        },
        "x"_a, "p"_a,
        op_doc("top_p",
               "Indices (i32) of each row of probabilities, falling; and of how many the sum reaches the "
               "share p of all (i32 [..., 1]).")
            .c_str());
}

static nb::list op_names() {
    nb::list names;
    for (uint32_t i = 0; i < rota_op_count(); i++) names.append(rota_op_at(i)->name);
    return names;
}

void bind_ops(nb::module_ &m) {
    bind_elementwise(m);
    bind_affine(m);
    bind_choose(m);
    bind_move(m);
    bind_joined(m);
    bind_indexed(m);
    bind_along(m);
    bind_sums(m);
    bind_lengths(m);
    m.def("op_names", &op_names, nb::sig("def op_names() -> list[str]"), "Every op of the library's table.");
}
