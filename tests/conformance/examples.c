/* Running an op's example: contents, buffers, recording. */
#include "tests/conformance/examples.h"

#include <math.h>
#include <stdlib.h>

#include "bench/half.h"

static uint16_t to_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = bits >> 16 & 0x8000, exponent = (bits >> 23 & 0xff), mantissa = bits & 0x7fffff;
    if (exponent < 113) return (uint16_t)sign; /* below the normal range: the examples don't need it */
    return (uint16_t)(sign | (exponent - 112) << 10 | mantissa >> 13);
}

static float from_f16(uint16_t half) {
    uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
    double value = exponent == 0    ? ldexp(mantissa, -24)
                   : exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                                    : ldexp(1024 + mantissa, (int)exponent - 25);
    return (float)(half & 0x8000 ? -value : value);
}

double example_value(rota_dtype dtype, const uint8_t *bytes, uint64_t index) {
    uint32_t word = 0;
    float real;
    if (rota_dtype_is_f8(dtype)) return (double)element_get(bytes, dtype, index);
    if (rota_dtype_bytes(dtype) == 2) {
        uint16_t half;
        memcpy(&half, bytes + index * 2, 2);
        if (dtype == ROTA_F16) return (double)from_f16(half);
        word = (uint32_t)half << 16;
    } else {
        memcpy(&word, bytes + index * 4, 4);
    }
    if (dtype == ROTA_I32) return (double)(int32_t)word;
    if (dtype == ROTA_U32) return (double)word;
    memcpy(&real, &word, 4);
    return (double)real;
}

static void put_value(rota_dtype dtype, uint8_t *bytes, uint64_t index, float value) {
    uint32_t word;
    if (rota_dtype_is_f8(dtype)) {
        element_set(bytes, dtype, index, value);
        return;
    }
    memcpy(&word, &value, 4);
    if (dtype == ROTA_F16 || dtype == ROTA_BF16) {
        uint16_t half = dtype == ROTA_F16 ? to_f16(value) : (uint16_t)(word >> 16);
        memcpy(bytes + index * 2, &half, 2);
        return;
    }
    if (dtype != ROTA_F32) word = (uint32_t)(int32_t)value;
    memcpy(bytes + index * 4, &word, 4);
}

static void fill(uint8_t *bytes, rota_dtype dtype, uint64_t count, rota_fill_kind kind, uint64_t classes,
                 uint64_t *random) {
    for (uint64_t i = 0; i < count; i++) {
        float unit = (float)test_below(random, 1u << 20) / (float)(1u << 20), value = 0;
        switch (kind) {
        case ROTA_FILL_UNIFORM:
            value = 2 * unit - 1;
            break;
        case ROTA_FILL_POSITIVE:
            value = 0.5f + unit;
            break;
        case ROTA_FILL_DISTINCT:
            value = ((float)((i * 7919) % count) + 0.5f) / (float)count * 2 - 1;
            break;
        case ROTA_FILL_INDEX:
            value = (float)test_below(random, (uint32_t)(classes ? classes : 1));
            break;
        default:
            break;
        }
        put_value(dtype, bytes, i, value);
    }
}

bool example_prepare(conf *c, const rota_op *op, const rota_op_example *example, uint64_t seed,
                     example_run *out_run) {
    memset(out_run, 0, sizeof *out_run);
    out_run->op = op;
    out_run->use = example->use;
    uint64_t random = seed;
    for (uint32_t i = 0; i < example->use.input_count; i++) {
        rota_tensor *tensor = &out_run->use.inputs[i];
        if (tensor->dtype == ROTA_DTYPE_COUNT) continue;
        out_run->bytes[i] = rota_shape_bytes(tensor->dtype, tensor->rank, tensor->shape);
        out_run->inputs[i] = malloc(out_run->bytes[i]);
        CONF_CHECK(c, out_run->inputs[i], "out of memory");
        fill(out_run->inputs[i], tensor->dtype, rota_tensor_count(tensor), example->fill[i], example->classes,
             &random);
    }
    return true;
}

void example_free(example_run *run) {
    for (uint32_t i = 0; i < ROTA_OP_INPUTS_MAX; i++) free(run->inputs[i]);
}

bool example_write(conf *c, example_run *run, rota_runtime *runtime, rota_device *device, bool destinations) {
    for (uint32_t i = 0; i < run->use.input_count; i++) {
        rota_tensor *tensor = &run->use.inputs[i];
        if (!run->inputs[i]) {
            *tensor = ROTA_TENSOR_NONE;
            continue;
        }
        CONF_OK(c, rota_buffer_create_in(runtime, run->op->input_names[i], (run->bytes[i] + 3) / 4 * 4,
                                         &tensor->buffer));
        CONF_OK(c, rota_buffer_write(tensor->buffer, device, 0, run->inputs[i], run->bytes[i], NULL));
    }
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX] = {0};
    if (!destinations) return true;
    CONF_OK(c, run->op->shape(&run->use, outputs));
    for (uint32_t o = 0; o < run->op->output_count; o++) {
        uint64_t bytes = (rota_shape_bytes(outputs[o].dtype, outputs[o].rank, outputs[o].shape) + 3) / 4 * 4;
        float *prefill = malloc(bytes);
        CONF_CHECK(c, prefill, "out of memory");
        for (uint64_t i = 0; i < bytes / 4; i++) prefill[i] = -999;
        run->use.outputs[o] = outputs[o];
        CONF_OK(c, rota_buffer_create_in(runtime, "destination", bytes, &run->use.outputs[o].buffer));
        CONF_OK(c, rota_buffer_write(run->use.outputs[o].buffer, device, 0, prefill, bytes, NULL));
        free(prefill);
    }
    run->use.output_count = run->op->output_count;
    return true;
}

void example_release(example_run *run) {
    for (uint32_t i = 0; i < ROTA_OP_INPUTS_MAX; i++) {
        if (run->inputs[i]) rota_buffer_release(run->use.inputs[i].buffer);
        if (run->inputs[i]) run->use.inputs[i].buffer = NULL;
    }
    for (uint32_t o = 0; o < ROTA_OP_OUTPUTS_MAX; o++) {
        rota_buffer_release(run->use.outputs[o].buffer);
        run->use.outputs[o].buffer = NULL;
    }
}

bool example_record(conf *c, example_run *run, rota_tape *tape) {
    CONF_OK(c, rota_op_apply(tape, &run->use));
    return true;
}
