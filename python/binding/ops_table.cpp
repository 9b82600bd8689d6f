/* Any op of the library's table by its name, with all of its results, and its gradient alone. */
#include "ops.h"

static const rota_op *find(const std::string &name) {
    const rota_op *const op = rota_op_find(name.c_str());
    if (!op) fail(ROTA_NOT_FOUND, "there is no op '" + name + "'");
    return op;
}

static void set_attribute(rota_op_attributes *attributes, const rota_op *op, const std::string &name,
                          nb::handle given) {
    const rota_op_attribute *known = op->attributes;
    while (known && known->name && name != known->name) known++;
    if (!known || !known->name)
        fail(ROTA_INVALID_ARGUMENT, std::string("op '") + op->name + "' has no attribute '" + name + "'");
    void *const member = reinterpret_cast<char *>(attributes) + known->offset_bytes;
    switch (known->type) {
    case ROTA_ATTRIBUTE_VALUE:
        *static_cast<rota_value *>(member) = value_of(nb::cast<Value>(given));
        break;
    case ROTA_ATTRIBUTE_BOOL:
        *static_cast<bool *>(member) = nb::cast<bool>(given);
        break;
    case ROTA_ATTRIBUTE_U32:
        *static_cast<uint32_t *>(member) = nb::cast<uint32_t>(given);
        break;
    case ROTA_ATTRIBUTE_U64:
        *static_cast<uint64_t *>(member) = nb::cast<uint64_t>(given);
        break;
    case ROTA_ATTRIBUTE_I32:
        *static_cast<int32_t *>(member) = nb::cast<int32_t>(given);
        break;
    case ROTA_ATTRIBUTE_F32:
        *static_cast<float *>(member) = nb::cast<float>(given);
        break;
    default:
        *static_cast<rota_dtype *>(member) = dtype_of(nb::cast<std::string>(given));
    }
}

/* Tensors for an op's operands, fewer where the last are absent. */
static void take(Recording &recording, const rota_op *op, const char *what, const std::vector<Out> &given,
                 uint32_t count, rota_tensor *out) {
    if (given.size() > count)
        fail(ROTA_INVALID_ARGUMENT, std::string("op '") + op->name + "': " + std::to_string(given.size()) +
                                        " " + what + ", it has " + std::to_string(count));
    for (size_t i = 0; i < given.size(); i++) {
        recording.uses(pointer(given[i]));
        out[i] = none_or(given[i]);
    }
}

static rota_op_use use_of(Recording &recording, const rota_op *op, const std::vector<Out> &inputs,
                          const std::vector<Out> &outputs, const nb::kwargs &attributes) {
    rota_op_use use{};
    use.op = op;
    use.input_count = op->input_count;
    use.output_count = op->output_count;
    take(recording, op, "inputs", inputs, op->input_count, use.inputs);
    take(recording, op, "outputs", outputs, op->output_count, use.outputs);
    for (auto [key, value] : attributes) {
        const std::string name = nb::cast<std::string>(nb::str(key));
        if (name == "kept") {
            const Tensor &kept = nb::cast<const Tensor &>(value);
            recording.uses(&kept);
            use.attributes.kept = kept.t;
        } else {
            set_attribute(&use.attributes, op, name, value);
        }
    }
    return use;
}

/* The graph of what is given, else that of the `with` block. */
static Recording recording_of(const std::vector<Out> &inputs, const char *what) {
    for (const Out &one : inputs)
        if (const Tensor *x = pointer(one)) return Recording({x}, what);
    return Recording({}, what);
}

static std::vector<Tensor> apply(const std::string &name, const std::vector<Out> &inputs,
                                 const std::vector<Out> &outputs, const nb::kwargs &attributes) {
    const rota_op *const op = find(name);
    Recording recording = recording_of(inputs, op->name);
    rota_op_use use = use_of(recording, op, inputs, outputs, attributes);
    rota_tensor made[ROTA_OP_OUTPUTS_MAX];
    std::copy(use.outputs, use.outputs + ROTA_OP_OUTPUTS_MAX, made);
    check(rota_op_apply(recording.tape(), &use));
    std::vector<Tensor> results;
    results.reserve(use.output_count);
    for (uint32_t i = 0; i < use.output_count; i++)
        results.push_back(made[i].buffer ? **outputs[i] : recording.made(use.outputs[i]));
    return results;
}

static std::vector<std::optional<Tensor>> gradient(const std::string &name, const std::vector<Out> &inputs,
                                                   const std::vector<Out> &outputs, const Tensor &dy,
                                                   const std::vector<bool> &wanted,
                                                   const std::vector<Out> &out,
                                                   const nb::kwargs &attributes) {
    const rota_op *const op = find(name);
    Recording recording({&dy}, op->name);
    const rota_op_use use = use_of(recording, op, inputs, outputs, attributes);
    rota_tensor grads[ROTA_OP_INPUTS_MAX] = {};
    take(recording, op, "destinations", out, op->input_count, grads);
    uint32_t mask = 0;
    for (size_t i = 0; i < wanted.size() && i < 32; i++) mask |= wanted[i] ? 1u << i : 0;
    check(rota_op_gradient(recording.tape(), &use, dy.t, mask, grads));
    std::vector<std::optional<Tensor>> results(op->input_count);
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!(mask >> i & 1)) continue;
        if (i < out.size() && pointer(out[i]))
            results[i].emplace(**out[i]);
        else
            results[i].emplace(recording.made(grads[i]));
    }
    return results;
}

void bind_table(nb::module_ &m) {
    m.def(
        "apply", &apply, "op"_a, "inputs"_a, "outputs"_a = std::vector<Out>(), "attributes"_a,
        nb::sig("def apply(op: str, inputs: typing.Sequence[Tensor | None], outputs: "
                "typing.Sequence[Tensor | None] = (), **attributes: typing.Any) -> list[Tensor]"),
        "An op of the table by its name, with all of its results; those that `outputs` has a tensor for are "
        "written there. In a graph without gradients linear_gelu writes x w + bias, too, to the tensor that "
        "`kept=` is.");
    m.def("gradient", &gradient, "op"_a, "inputs"_a, "outputs"_a, "dy"_a, "wanted"_a,
          "out"_a = std::vector<Out>(), "attributes"_a,
          nb::sig("def gradient(op: str, inputs: typing.Sequence[Tensor | None], outputs: "
                  "typing.Sequence[Tensor | None], dy: Tensor, wanted: typing.Sequence[bool], out: "
                  "typing.Sequence[Tensor | None] = (), **attributes: typing.Any) -> list[Tensor | None]"),
          "The gradients of an op by those of its inputs that are wanted, of `dy`, its first result's, "
          "wherever the op "
          "was computed. `outputs` has those that the gradient reads; `kept=` is what linear_gelu's reads: x "
          "w + "
          "bias.");
}
