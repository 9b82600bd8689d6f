/* What the shape rules and examples of ops share. */
#include "ops/op_rules.h"

#include <stdio.h>
#include <string.h>

#include "base/given.h"

rota_status rota_shape_require(const rota_op_use *use, uint32_t inputs, rota_dtype dtype) {
    ROTA_GIVEN(use);
    for (uint32_t i = 0; i < use->input_count; i++) {
        const rota_tensor *x = &use->inputs[i];
        bool absent = !x->buffer && (use->op->optional_inputs & 1u << i);
        if (!(inputs & 1u << i) || absent || x->dtype == dtype) continue;
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s is %s; expected %s", use->op->input_names[i],
                            rota_tensor_describe(x, text, sizeof text), rota_dtype_name(dtype));
    }
    return ROTA_OK;
}

rota_status rota_shape_require_real(const rota_op_use *use, uint32_t inputs, rota_dtype *out_dtype) {
    ROTA_GIVEN(use);
    ROTA_GIVEN(out_dtype);
    const rota_tensor *first = NULL;
    const char *name = NULL;
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    for (uint32_t i = 0; i < use->input_count; i++) {
        const rota_tensor *x = &use->inputs[i];
        if (!(inputs & 1u << i) || (!x->buffer && (use->op->optional_inputs & 1u << i))) continue;
        if (!rota_dtype_is_real(x->dtype))
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s is %s; expected f32, f16 or bf16",
                                use->op->input_names[i], rota_tensor_describe(x, text, sizeof text));
        if (first && x->dtype != first->dtype)
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                                "%s is %s, %s is %s; expected one dtype: cast one of them", name,
                                rota_tensor_describe(first, text, sizeof text), use->op->input_names[i],
                                rota_tensor_describe(x, other, sizeof other));
        if (!first) name = use->op->input_names[i];
        if (!first) first = x;
    }
    if (!first) { /* optional ones alone, and none of them given */
        char names[ROTA_TENSOR_TEXT_MAX] = "";
        for (uint32_t i = 0; i < use->input_count; i++)
            if (inputs & 1u << i) {
                const size_t used = strlen(names);
                snprintf(names + used, sizeof names - used, "%s'%s'", used ? ", " : "",
                         use->op->input_names[i]);
            }
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "of the inputs %s none is there; expected one, of f32, f16 or bf16",
                            names[0] ? names : "of an empty mask");
    }
    *out_dtype = first->dtype;
    return ROTA_OK;
}

rota_status rota_shape_broadcast(const rota_op_use *use, uint32_t inputs, uint32_t *out_rank,
                                 uint64_t *out_shape) {
    ROTA_GIVEN(use);
    ROTA_GIVEN(out_rank);
    ROTA_GIVEN(out_shape);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < use->input_count; i++)
        if (inputs & 1u << i && use->inputs[i].rank > rank) rank = use->inputs[i].rank;
    *out_rank = rank;
    for (uint32_t d = 0; d < rank; d++) out_shape[d] = 1;
    for (uint32_t i = 0; i < use->input_count; i++) {
        if (!(inputs & 1u << i)) continue;
        const rota_tensor *x = &use->inputs[i];
        for (uint32_t d = 0; d < x->rank; d++) {
            uint64_t *extent = &out_shape[d + rank - x->rank];
            if (*extent == 1) *extent = x->shape[d];
            if (x->shape[d] == 1 || x->shape[d] == *extent) continue;
            char all[3 * ROTA_TENSOR_TEXT_MAX] = "", text[ROTA_TENSOR_TEXT_MAX];
            uint64_t used = 0;
            for (uint32_t k = 0; k < use->input_count && used < sizeof all; k++)
                if (inputs & 1u << k) {
                    int wrote = snprintf(all + used, sizeof all - used, "%s%s is %s", used ? ", " : "",
                                         use->op->input_names[k],
                                         rota_tensor_describe(&use->inputs[k], text, sizeof text));
                    used += wrote > 0 ? (uint64_t)wrote : 0;
                }
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                                "%s; expected axes, counted from the last, to be alike or 1", all);
        }
    }
    return ROTA_OK;
}

rota_status rota_shape_require_u32(const rota_op_use *use, uint32_t index, const char *name) {
    const rota_value *value = &use->attributes.value[index];
    /* Written so that NaN fails. */
    if (value->kind == ROTA_VALUE_SLOT || (value->number >= 0 && value->number <= UINT32_MAX)) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s is %.17g, expected 0 to %u", name, value->number,
                        UINT32_MAX);
}

rota_status rota_shape_like(const rota_tensor *x, rota_dtype dtype, rota_tensor *out_tensor) {
    ROTA_GIVEN(x);
    ROTA_GIVEN(out_tensor);
    return rota_tensor_of(NULL, 0, dtype, x->rank, x->shape, out_tensor);
}

void rota_example_input(rota_op_example *example, uint32_t input, rota_dtype dtype, uint32_t rank,
                        const uint64_t *shape, rota_fill_kind fill) {
    rota_op_use *use = &example->use;
    if (rota_tensor_of(NULL, 0, dtype, rank, shape, &use->inputs[input]) != ROTA_OK) return;
    if (use->input_count <= input) use->input_count = input + 1;
    example->fill[input] = fill;
}

void rota_example_absent(rota_op_example *example, uint32_t input) {
    if (example->use.input_count <= input) example->use.input_count = input + 1;
    example->use.inputs[input] = (rota_tensor){.dtype = ROTA_DTYPE_COUNT};
}

void rota_example_bytes(rota_op_example *example, const rota_tensor *outputs, uint32_t count) {
    example->bytes = 0;
    for (uint32_t i = 0; i < example->use.input_count; i++)
        if (example->use.inputs[i].dtype != ROTA_DTYPE_COUNT)
            example->bytes += (double)rota_tensor_extent_bytes(&example->use.inputs[i]);
    for (uint32_t i = 0; i < count; i++) example->bytes += (double)rota_tensor_extent_bytes(&outputs[i]);
}

bool rota_example_shape(uint32_t index, uint32_t size, const char **out_label, uint32_t *out_rank,
                        const uint64_t **out_shape) {
    static const struct {
        const char *label;
        uint32_t rank;
        uint64_t shape[3];
    } small[] = {{"one element", 1, {1}},
                 {"odd size", 2, {7, 37}},
                 {"three axes", 3, {2, 3, 16}},
                 {"more than one piece", 2, {170, 200}}},
      large = {"1024 x 1024", 2, {1024, 1024}};
    if (index >= (size ? 1 : sizeof small / sizeof small[0])) return false;
    *out_label = size ? large.label : small[index].label;
    *out_rank = size ? large.rank : small[index].rank;
    *out_shape = size ? large.shape : small[index].shape;
    return true;
}

bool rota_example_typed(uint32_t index, uint32_t size, const char **out_label, rota_dtype *out_dtype,
                        uint32_t *out_rank, const uint64_t **out_shape) {
    static const struct {
        const char *label;
        rota_dtype dtype;
        uint64_t shape[2];
    } halves[] = {{"one f16", ROTA_F16, {1, 1}},
                  {"odd f16", ROTA_F16, {7, 37}},
                  {"odd bf16", ROTA_BF16, {7, 37}},
                  {"more than one piece of bf16", ROTA_BF16, {171, 203}}},
      large[] = {{"4096 x 1024, f16", ROTA_F16, {4096, 1024}},
                 {"4096 x 1024, bf16", ROTA_BF16, {4096, 1024}}};
    *out_dtype = ROTA_F32;
    if (rota_example_shape(index, size, out_label, out_rank, out_shape)) return true;
    uint32_t before = 0;
    while (rota_example_shape(before, size, out_label, out_rank, out_shape)) before++;
    index -= before;
    if (index >= (size ? sizeof large / sizeof large[0] : sizeof halves / sizeof halves[0])) return false;
    *out_label = size ? large[index].label : halves[index].label;
    *out_dtype = size ? large[index].dtype : halves[index].dtype;
    *out_rank = 2;
    *out_shape = size ? large[index].shape : halves[index].shape;
    return true;
}
