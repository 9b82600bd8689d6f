/* Products, norms, attention, losses and optimizers. */
#include "ops.h"

rota_linear linear_of(const char *op, const Out &bias, const Out &residual, const std::string &activation,
                      bool transposed) {
    rota_linear options = ROTA_LINEAR();
    options.bias = none_or(bias);
    options.residual = none_or(residual);
    options.transposed = transposed;
    options.activation = activation == "none"   ? ROTA_ACTIVATION_NONE
                         : activation == "gelu" ? ROTA_ACTIVATION_GELU
                                                : ROTA_ACTIVATION_RELU;
    if (activation != "none" && activation != "gelu" && activation != "relu")
        fail(ROTA_INVALID_ARGUMENT, std::string("op '") + op +
                                        "': activation is 'none', 'gelu' or 'relu', not '" + activation +
                                        "'");
    return options;
}

static void bind_products(nb::module_ &m) {
    m.def(
        "matmul",
        [](const Tensor &a, const Tensor &b, bool ta, bool tb, const Out &out) {
            return record(
                {&a, &b}, out, "matmul",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_matmul(tape, a.t, b.t, ta, tb, y); },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_matmul_into(tape, a.t, b.t, ta, tb, y);
                });
        },
        "a"_a, "b"_a, "transpose_a"_a = false, "transpose_b"_a = false, "out"_a = nb::none(),
        op_doc("matmul", "The product of matrices, leading axes broadcast; sums in f32.").c_str());
    m.def(
        "weighted_matmul",
        [](const Tensor &weight, const Tensor &value, const Out &out) {
            return record(
                {&weight, &value}, out, "weighted_matmul",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_weighted_matmul(tape, weight.t, value.t, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_weighted_matmul_into(tape, weight.t, value.t, y);
                });
        },
        "weight"_a, "value"_a, "out"_a = nb::none(),
        op_doc("weighted_matmul", "out[b, h, q, d] = sum over k of weight[b, h, q, k] * value[b, h, k, d].")
            .c_str());
    m.def(
        "scaled_matmul",
        [](const Tensor &a, const Tensor &b, const Tensor &scale_a, const Tensor &scale_b, const Out &bias,
           const std::string &dtype, const Out &out) {
            const rota_dtype type = dtype_of(dtype);
            return record(
                {&a, &b, &scale_a, &scale_b, pointer(bias)}, out, "scaled_matmul",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_scaled_matmul(tape, a.t, b.t, scale_a.t, scale_b.t, none_or(bias), type,
                                                 y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_scaled_matmul_into(tape, a.t, b.t, scale_a.t, scale_b.t, none_or(bias), y);
                });
        },
        "a"_a, "b"_a, "scale_a"_a, "scale_b"_a, "bias"_a = nb::none(), "dtype"_a = "bf16",
        "out"_a = nb::none(),
        op_doc("scaled_matmul", "(scale_a * scale_b) * (a b^T) + bias of 8-bit floats a [..., k] and b [n, "
                                "k], in another dtype. A "
                                "scale (f32) is one element, or one for each row of its operand.")
            .c_str());
    m.def(
        "f8_scale",
        [](const Tensor &x, const std::string &dtype, bool by_rows) {
            const rota_dtype type = dtype_of(dtype);
            return record({&x}, "f8_scale", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_f8_scale(tape, x.t, type, by_rows, y);
            });
        },
        "x"_a, "dtype"_a = "f8_e4m3fn", "by_rows"_a = false,
        "The largest magnitude of x, or with by_rows of each row along the last axis, over the largest "
        "number of the "
        "8-bit dtype: f32 [1], or [..., 1]. To gradients it is a constant.");
    m.def(
        "quantize",
        [](const Tensor &x, const std::string &dtype, bool by_rows) {
            const rota_dtype type = dtype_of(dtype);
            Recording recording({&x}, "quantize");
            rota_tensor y, scale;
            check(rota_op_quantize(recording.tape(), x.t, type, by_rows, &y, &scale));
            return std::make_tuple(recording.made(y), recording.made(scale));
        },
        "x"_a, "dtype"_a = "f8_e4m3fn", "by_rows"_a = false,
        "x over its f8_scale in the 8-bit dtype, and the scale: what scaled_matmul takes.");
    m.def(
        "linear",
        [](const Tensor &x, const Tensor &w, const Out &bias, const Out &residual,
           const std::string &activation, bool transposed, const Out &out) {
            const rota_linear options = linear_of("linear", bias, residual, activation, transposed);
            return record(
                {&x, &w, pointer(bias), pointer(residual)}, out, "linear",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_linear(tape, x.t, w.t, &options, y); },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_linear_into(tape, x.t, w.t, &options, y);
                });
        },
        "x"_a, "w"_a, "bias"_a = nb::none(), "residual"_a = nb::none(), "activation"_a = "none",
        "transposed"_a = false, "out"_a = nb::none(),
        op_doc("linear",
               "activation(x w + bias) + residual, as one node; transposed: w is [n, k], as in PyTorch.")
            .c_str());
}

static void bind_norms(nb::module_ &m) {
    m.def(
        "layernorm",
        [](const Tensor &x, const Out &weight, const Out &bias, float eps, const Out &out) {
            const rota_tensor w = none_or(weight), b = none_or(bias);
            return record(
                {&x, pointer(weight), pointer(bias)}, out, "layernorm",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_layernorm(tape, x.t, w, b, eps, y); },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_layernorm_into(tape, x.t, w, b, eps, y);
                });
        },
        "x"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5f, "out"_a = nb::none(),
        op_doc("layernorm", "(x - mean) / sqrt(variance + eps) * weight + bias along the last axis.")
            .c_str());
    m.def(
        "rmsnorm",
        [](const Tensor &x, const Out &weight, float eps, const Out &out) {
            const rota_tensor w = none_or(weight);
            return record(
                {&x, pointer(weight)}, out, "rmsnorm",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_rmsnorm(tape, x.t, w, eps, y); },
                [&](rota_tape *tape, rota_tensor y) { return rota_op_rmsnorm_into(tape, x.t, w, eps, y); });
        },
        "x"_a, "weight"_a = nb::none(), "eps"_a = 1e-5f, "out"_a = nb::none(),
        op_doc("rmsnorm", "x / sqrt(mean(x^2) + eps) * weight along the last axis.").c_str());
    m.def(
        "residual_layernorm",
        [](const Tensor &x, const Tensor &r, const Out &weight, const Out &bias, float eps) {
            Recording recording({&x, &r, pointer(weight), pointer(bias)}, "residual_layernorm");
            rota_tensor y, sum;
            check(rota_op_residual_layernorm(recording.tape(), x.t, r.t, none_or(weight), none_or(bias), eps,
                                             &y, &sum));
            return std::make_tuple(recording.made(y), recording.made(sum));
        },
        "x"_a, "r"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5f,
        op_doc("residual_layernorm", "layernorm(x + r) and x + r, in one pass.").c_str());
}

/* An op of the table that has statistics of channels as its result, there where that has a place. */
static rota_status of_channels(rota_tape *tape, const char *op, std::initializer_list<rota_tensor> inputs,
                               uint32_t axis, float eps, float momentum, rota_tensor *result) {
    rota_op_use use = {};
    use.op = rota_op_find(op);
    for (const rota_tensor &x : inputs) use.inputs[use.input_count++] = x;
    use.output_count = 1;
    use.outputs[0] = *result;
    use.attributes.axis[0] = axis;
    use.attributes.eps = eps;
    use.attributes.beta1 = momentum;
    const rota_status status = rota_op_apply(tape, &use);
    *result = use.outputs[0];
    return status;
}

static void bind_batch_statistics(nb::module_ &m) {
    m.def(
        "batch_norm_stats",
        [](const Tensor &x, const Tensor &mean, const Tensor &variance, int64_t axis, float eps,
           float momentum, const Out &out) {
            const uint32_t channels = op_axis(x, axis, "batch_norm_stats");
            const auto of = [&](rota_tape *tape, rota_tensor *y) {
                return of_channels(tape, "batch_norm_stats", {x.t, mean.t, variance.t}, channels, eps,
                                   momentum, y);
            };
            return record({&x, &mean, &variance}, out, "batch_norm_stats", of,
                          [&](rota_tape *tape, rota_tensor y) { return of(tape, &y); });
        },
        "x"_a, "running_mean"_a, "running_variance"_a, "axis"_a = 1, "eps"_a = 1e-5f, "momentum"_a = 0.1f,
        "out"_a = nb::none(),
        op_doc("batch_norm_stats",
               "A batch's mean and 1 / sqrt(variance + eps) of each channel, [2, channels]; the "
               "running statistics are updated, as batch_norm does.")
            .c_str());
    m.def(
        "batch_norm_sums",
        [](const Tensor &dy, const Tensor &x, const Tensor &mean, const Tensor &rstd, int64_t axis,
           const Out &out) {
            const uint32_t channels = op_axis(x, axis, "batch_norm_sums");
            const auto of = [&](rota_tape *tape, rota_tensor *y) {
                return of_channels(tape, "batch_norm_sums", {dy.t, x.t, mean.t, rstd.t}, channels, 0, 0, y);
            };
            return record({&dy, &x, &mean, &rstd}, out, "batch_norm_sums", of,
                          [&](rota_tape *tape, rota_tensor y) { return of(tape, &y); });
        },
        "dy"_a, "x"_a, "mean"_a, "rstd"_a, "axis"_a = 1, "out"_a = nb::none(),
        op_doc("batch_norm_sums",
               "What batch_norm's gradients are made of, [2, channels]: of each channel the sums of "
               "dy * (x - mean) * rstd and of dy.")
            .c_str());
}

static void bind_group_norms(nb::module_ &m) {
    m.def(
        "batch_norm",
        [](const Tensor &x, const Tensor &mean, const Tensor &variance, const Out &weight, const Out &bias,
           int64_t axis, float eps, float momentum, bool evaluate) {
            rota_batch_norm options = ROTA_BATCH_NORM();
            options.axis = op_axis(x, axis, "batch_norm");
            options.eps = eps;
            options.momentum = momentum;
            options.evaluate = evaluate;
            options.weight = none_or(weight);
            options.bias = none_or(bias);
            options.running_mean = mean.t;
            options.running_variance = variance.t;
            return record(
                {&x, &mean, &variance, pointer(weight), pointer(bias)}, "batch_norm",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_batch_norm(tape, x.t, &options, y); });
        },
        "x"_a, "running_mean"_a, "running_variance"_a, "weight"_a = nb::none(), "bias"_a = nb::none(),
        "axis"_a = 1, "eps"_a = 1e-5f, "momentum"_a = 0.1f, "evaluate"_a = false,
        op_doc("batch_norm", "Normalized over all axes but that of the channels; in training the running "
                             "statistics are updated.")
            .c_str());
    m.def(
        "group_norm",
        [](const Tensor &x, uint32_t groups, const Out &weight, const Out &bias, float eps) {
            return record(
                {&x, pointer(weight), pointer(bias)}, "group_norm", [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_group_norm(tape, x.t, groups, none_or(weight), none_or(bias), eps, y);
                });
        },
        "x"_a, "groups"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5f,
        "layernorm over groups of the channels (axis 1). Gradient flows to x, weight, bias.");
}

static void bind_one(nb::module_ &m, const char *name,
                     rota_status (*fresh)(rota_tape *, rota_tensor, rota_tensor *),
                     rota_status (*into)(rota_tape *, rota_tensor, rota_tensor), const char *sentence) {
    m.def(
        name,
        [=](const Tensor &x, const Out &out) {
            return record(
                {&x}, out, name, [&](rota_tape *tape, rota_tensor *y) { return fresh(tape, x.t, y); },
                [&](rota_tape *tape, rota_tensor y) { return into(tape, x.t, y); });
        },
        "x"_a, "out"_a = nb::none(), op_doc(name, sentence).c_str());
}

static void bind_attention(nb::module_ &m) {
    bind_one(m, "softmax", rota_op_softmax, rota_op_softmax_into,
             "exp(x) / sum(exp(x)) along the last axis.");
    bind_one(m, "log_softmax", rota_op_log_softmax, rota_op_log_softmax_into,
             "x - log(sum(exp(x))) along the last axis.");
    bind_one(m, "causal_mask", rota_op_causal_mask, rota_op_causal_mask_into,
             "-infinity where the key comes after the query; x is [..., queries, keys].");
    m.def(
        "rope",
        [](const Tensor &x, const Value &offset, float base, uint32_t rotary, bool interleaved,
           const Out &out) {
            rota_rope options = ROTA_ROPE();
            options.offset = value_of(offset);
            options.base = base;
            options.rotary = rotary;
            options.interleaved = interleaved;
            return record(
                {&x}, out, "rope",
                [&](rota_tape *tape, rota_tensor *y) { return rota_op_rope(tape, x.t, &options, y); },
                [&](rota_tape *tape, rota_tensor y) { return rota_op_rope_into(tape, x.t, &options, y); });
        },
        "x"_a, "offset"_a, "base"_a = 10000.0f, "rotary"_a = 0, "interleaved"_a = false, "out"_a = nb::none(),
        op_doc("rope", "Rotary positions; x is [..., sequence, dim], offset a slot or a Constant.").c_str());
    m.def(
        "attention",
        [](const Tensor &q, const Tensor &k, const Tensor &v, bool causal, float scale, bool separate,
           const Out &out) {
            if (separate && pointer(out)) fail(ROTA_INVALID_ARGUMENT, "op 'attention': separate has no out");
            return record(
                {&q, &k, &v}, out, "attention",
                [&](rota_tape *tape, rota_tensor *y) {
                    return (separate ? rota_op_attention_separate : rota_op_attention)(tape, q.t, k.t, v.t,
                                                                                       causal, scale, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_attention_into(tape, q.t, k.t, v.t, causal, scale, y);
                });
        },
        "q"_a, "k"_a, "v"_a, "causal"_a = false, "scale"_a = 0.0f, "separate"_a = false, "out"_a = nb::none(),
        op_doc("attention",
               "softmax(scale * q k^T) v of [batch, heads, rows, dim]; scale 0 is 1 / sqrt(dim). "
               "separate: as nodes of its own for each step.")
            .c_str());
    m.def(
        "attention_dropout",
        [](const Tensor &q, const Tensor &k, const Tensor &v, float p, const Value &seed, const Value &step,
           bool causal, float scale, const Out &out) {
            const rota_value s = value_of(seed), t = value_of(step);
            return record(
                {&q, &k, &v}, out, "attention_dropout",
                [&](rota_tape *tape, rota_tensor *y) {
                    return rota_op_attention_dropout(tape, q.t, k.t, v.t, causal, scale, p, s, t, y);
                },
                [&](rota_tape *tape, rota_tensor y) {
                    return rota_op_attention_dropout_into(tape, q.t, k.t, v.t, causal, scale, p, s, t, y);
                });
        },
        "q"_a, "k"_a, "v"_a, "p"_a, "seed"_a, "step"_a, "causal"_a = false, "scale"_a = 0.0f,
        "out"_a = nb::none(),
        op_doc("attention_dropout", "attention whose probabilities are dropped as rota.dropout would drop them.")
            .c_str());
    m.def(
        "attention_residual",
        [](const Tensor &q, const Tensor &k, const Tensor &v, const Out &previous, float scale) {
            Recording recording({&q, &k, &v, pointer(previous)}, "attention_residual");
            rota_tensor y, scores;
            check(rota_op_attention_residual(recording.tape(), q.t, k.t, v.t, none_or(previous), scale, &y,
                                             &scores));
            return std::make_tuple(recording.made(y), recording.made(scores));
        },
        "q"_a, "k"_a, "v"_a, "previous"_a = nb::none(), "scale"_a = 0.0f,
        "Attention whose scores are added to the layer's before, and those scores. Gradient flows to all.");
}

static void bind_loss(nb::module_ &m, const char *name,
                      rota_status (*fresh)(rota_tape *, rota_tensor, rota_tensor, rota_tensor *),
                      const char *sentence) {
    m.def(
        name,
        [=](const Tensor &x, const Tensor &target) {
            return record({&x, &target}, name,
                          [&](rota_tape *tape, rota_tensor *y) { return fresh(tape, x.t, target.t, y); });
        },
        "x"_a, "target"_a, op_doc(name, sentence).c_str());
}

static void bind_losses(nb::module_ &m) {
    bind_loss(m, "mse", rota_op_mse, "The mean of (x - target)^2, f32 [1]. Gradient flows to both.");
    bind_loss(m, "l1", rota_op_l1, "The mean of |x - target|, f32 [1]. Gradient flows to both.");
    m.def(
        "huber",
        [](const Tensor &x, const Tensor &target, float delta) {
            return record({&x, &target}, "huber", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_huber(tape, x.t, target.t, delta, y);
            });
        },
        "x"_a, "target"_a, "delta"_a = 1.0f, "Huber's loss, its mean, f32 [1]. Gradient flows to both.");
    m.def(
        "cross_entropy",
        [](const Tensor &logits, const Tensor &labels) {
            return record({&logits, &labels}, "cross_entropy", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_cross_entropy(tape, logits.t, labels.t, y);
            });
        },
        "logits"_a, "labels"_a,
        op_doc("cross_entropy",
               "The mean of -log softmax(logits)[label], f32 [1]; rows labelled -100 don't count.")
            .c_str());
    m.def(
        "classifier",
        [](const Tensor &logits, const Tensor &labels, int32_t ignored, float smoothing, uint64_t classes,
           bool in_place) {
            rota_classifier options = ROTA_CLASSIFIER();
            options.ignored = ignored;
            options.smoothing = smoothing;
            options.classes = classes;
            options.in_place = in_place;
            return record({&logits, &labels}, "classifier", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_classifier(tape, logits.t, labels.t, &options, y);
            });
        },
        "logits"_a, "labels"_a, "ignored"_a = ROTA_IGNORED_LABEL, "smoothing"_a = 0.0f, "classes"_a = 0,
        "in_place"_a = false,
        op_doc("classifier",
               "cross_entropy with label smoothing, an ignored label, and the gradient in the place of "
               "the logits.")
            .c_str());
}

/* Tensors of a list, and one of them that belongs to a graph where there is one. */
static std::vector<rota_tensor> list_of(const std::vector<Tensor *> &tensors, const Tensor **out_of) {
    std::vector<rota_tensor> list;
    *out_of = nullptr;
    for (const Tensor *one : tensors) {
        list.push_back(one->t);
        if (!*out_of || one->graph) *out_of = one;
    }
    return list;
}

static void bind_updates(nb::module_ &m) {
    m.def(
        "global_norm",
        [](const std::vector<Tensor *> &tensors, float max_norm) {
            const Tensor *of;
            const std::vector<rota_tensor> list = list_of(tensors, &of);
            return record({of}, "global_norm", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_global_norm(tape, list.data(), static_cast<uint32_t>(list.size()), max_norm,
                                           y);
            });
        },
        "tensors"_a, "max_norm"_a,
        "f32 [2]: the norm of all tensors together, and what scales them to at most max_norm.");
    m.def(
        "clip_global_norm",
        [](const std::vector<Tensor *> &tensors, float max_norm) {
            const Tensor *of;
            const std::vector<rota_tensor> list = list_of(tensors, &of);
            return record({of}, "clip_global_norm", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_clip_global_norm(tape, list.data(), static_cast<uint32_t>(list.size()),
                                                max_norm, y);
            });
        },
        "tensors"_a, "max_norm"_a, "global_norm, and scales the tensors in place.");
    m.def(
        "index_add",
        [](const Tensor &index, int32_t value, const Tensor &y) {
            Recording recording({&index, &y}, "index_add");
            check(rota_op_index_add(recording.tape(), index.t, value, y.t));
        },
        "index"_a, "value"_a, "y"_a,
        op_doc("index_add", "y[index[r]] += value for every r; y and index are i32.").c_str());
}

static void bind_scaling(nb::module_ &m) {
    m.def(
        "ema",
        [](const Tensor &x, const Tensor &average, float decay) {
            Recording recording({&x, &average}, "ema");
            check(rota_op_ema(recording.tape(), x.t, average.t, decay));
        },
        "x"_a, "average"_a, "decay"_a, op_doc("ema", "average = decay * average + (1 - decay) * x.").c_str());
    m.def(
        "check_finite",
        [](const Tensor &x) {
            return record({&x}, "check_finite", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_check_finite(tape, x.t, y);
            });
        },
        "x"_a,
        op_doc("check_finite",
               "Fails the node where an element is NaN or infinite (CPU); u32 [2]: how many, and the "
               "first.")
            .c_str());
    m.def(
        "loss_scale",
        [](const Tensor &norm, const Tensor &state, uint32_t interval, float growth, float backoff,
           float max_norm) {
            rota_loss_scale options = ROTA_LOSS_SCALE();
            options.interval = interval;
            options.growth = growth;
            options.backoff = backoff;
            options.max_norm = max_norm;
            return record({&norm, &state}, "loss_scale", [&](rota_tape *tape, rota_tensor *y) {
                return rota_op_loss_scale(tape, norm.t, state.t, &options, y);
            });
        },
        "norm"_a, "state"_a, "interval"_a = 2000, "growth"_a = 2.0f, "backoff"_a = 0.5f,
        "max_norm"_a = std::numeric_limits<float>::infinity(),
        op_doc("loss_scale", "Dynamic loss scaling: the factor for the optimizer; state is f32 [2].")
            .c_str());
}

static void bind_optimizers(nb::module_ &m) {
    m.def(
        "adamw",
        [](const Tensor &p, const Tensor &g, const Tensor &mean, const Tensor &v, const Value &lr,
           const Value &step, float beta1, float beta2, float eps, float weight_decay, const Out &factor,
           const Out &half, bool coupled) {
            rota_adamw options = ROTA_ADAMW();
            options.lr = value_of(lr);
            options.step = value_of(step);
            options.beta1 = beta1;
            options.beta2 = beta2;
            options.eps = eps;
            options.weight_decay = weight_decay;
            options.factor = none_or(factor);
            options.half = none_or(half);
            options.coupled = coupled;
            Recording recording({&p, &g, &mean, &v, pointer(factor), pointer(half)}, "adamw");
            check(rota_op_adamw(recording.tape(), p.t, g.t, mean.t, v.t, &options));
        },
        "p"_a, "g"_a, "m"_a, "v"_a, "lr"_a, "step"_a, "beta1"_a = 0.9f, "beta2"_a = 0.999f, "eps"_a = 1e-8f,
        "weight_decay"_a = 0.01f, "factor"_a = nb::none(), "half"_a = nb::none(), "coupled"_a = false,
        op_doc("adamw", "One step of AdamW, in place; rota.AdamW does a model's.").c_str());
    m.def(
        "sgd",
        [](const Tensor &p, const Tensor &g, const Tensor &momentum_state, const Value &lr, float momentum,
           float weight_decay, bool nesterov, const Out &factor, const Out &half) {
            rota_sgd options = ROTA_SGD();
            options.lr = value_of(lr);
            options.momentum = momentum;
            options.weight_decay = weight_decay;
            options.nesterov = nesterov;
            options.factor = none_or(factor);
            options.half = none_or(half);
            Recording recording({&p, &g, &momentum_state, pointer(factor), pointer(half)}, "sgd");
            check(rota_op_sgd(recording.tape(), p.t, g.t, momentum_state.t, &options));
        },
        "p"_a, "g"_a, "m"_a, "lr"_a, "momentum"_a = 0.0f, "weight_decay"_a = 0.0f, "nesterov"_a = false,
        "factor"_a = nb::none(), "half"_a = nb::none(), "One step of SGD with momentum, in place.");
    m.def(
        "lion",
        [](const Tensor &p, const Tensor &g, const Tensor &state, const Value &lr, float beta1, float beta2,
           float weight_decay, const Out &factor, const Out &half) {
            rota_lion options = ROTA_LION();
            options.lr = value_of(lr);
            options.beta1 = beta1;
            options.beta2 = beta2;
            options.weight_decay = weight_decay;
            options.factor = none_or(factor);
            options.half = none_or(half);
            Recording recording({&p, &g, &state, pointer(factor), pointer(half)}, "lion");
            check(rota_op_lion(recording.tape(), p.t, g.t, state.t, &options));
        },
        "p"_a, "g"_a, "m"_a, "lr"_a, "beta1"_a = 0.9f, "beta2"_a = 0.99f, "weight_decay"_a = 0.0f,
        "factor"_a = nb::none(), "half"_a = nb::none(), "One step of Lion, in place.");
}

void bind_layers(nb::module_ &m) {
    bind_products(m);
    bind_norms(m);
    bind_batch_statistics(m);
    bind_group_norms(m);
    bind_attention(m);
    bind_losses(m);
    bind_updates(m);
    bind_scaling(m);
    bind_optimizers(m);
}
