/* For tests of ops: recording, running, contents and references. */
#include "tests/ops/op_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/kit/random.h"
#include "tests/kit/validation.h"

static rota_runtime *runtime;
static rota_device *device;
static bool watched;

static uint32_t troubles; /* beside the tests: opening, closing, and what the validation layer says */

static int setup(void **state) {
    (void)state;
    const rota_runtime_options options = validation_on(ROTA_RUNTIME_OPTIONS(.worker_threads = 2));
    troubles = 1;
    assert_ok(rota_runtime_open(&options, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    troubles = 0;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rota_status status = rota_runtime_close(runtime, 10000000000u);
    if (status != ROTA_OK) {
        print_error("closing: %s: %s\n", rota_status_name(status), rota_last_error());
        troubles++;
    }
    troubles += validation_messages();
    return 0;
}

int op_kit_run_tests(const struct CMUnitTest *tests, size_t count) {
    int failed = _cmocka_run_group_tests("tests", tests, count, setup, teardown);
    return failed + (int)troubles; /* cmocka's count has nothing of what fails in setup and teardown */
}

bool op_kit_use_device(const char *id) {
    rota_device *opened;
    if (rota_device_open(runtime, id, &opened) != ROTA_OK) {
        print_message("skipped on %s: %s\n", id, rota_last_error());
        return false;
    }
    device = opened;
    return true;
}

void op_kit_on_each_device(void (*test)(const char *device)) {
    static const char *const devices[] = {"cpu", "vk:0", "cuda:0"};
    for (int d = 0; d < 3; d++)
        if (op_kit_use_device(devices[d])) test(devices[d]);
    assert_true(op_kit_use_device("cpu"));
}

void op_kit_watch(bool watch) {
    watched = watch;
}

const rota_device_info *op_kit_device_info(void) {
    return rota_device_get_info(device);
}

void op_kit_open(op_kit *kit) {
    *kit = (op_kit){0};
    assert_ok(rota_graph_create(NULL, &kit->graph));
    assert_ok(rota_recorder_open(kit->graph, 0, NULL, &kit->recorder));
    assert_ok(rota_tape_create(kit->recorder, NULL, &kit->tape));
}

rota_tensor op_kit_input(op_kit *kit, rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                         const void *data) {
    rota_tensor tensor;
    if (rota_shape_bytes(dtype, rank, shape) == 0) { /* there is nothing to upload */
        assert_ok(rota_tape_tensor(kit->tape, ROTA_BUFFER_TRANSIENT, "empty", dtype, rank, shape, &tensor));
        return tensor;
    }
    uint32_t i = kit->input_count++;
    assert_true(i < OP_ARRAYS_MAX);
    assert_ok(rota_tape_tensor(kit->tape, ROTA_BUFFER_INPUT, NULL, dtype, rank, shape, &tensor));
    kit->inputs[i] = tensor.buffer;
    kit->input_bytes[i] = rota_buffer_size(tensor.buffer);
    kit->input_data[i] = malloc(kit->input_bytes[i]);
    assert_non_null(kit->input_data[i]);
    memcpy(kit->input_data[i], data, kit->input_bytes[i]);
    return tensor;
}

rota_tensor op_kit_variable(op_kit *kit, rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                            const void *data) {
    rota_tensor tensor, source = op_kit_input(kit, dtype, rank, shape, data);
    assert_ok(rota_tape_tensor(kit->tape, ROTA_BUFFER_TRANSIENT, "variable", dtype, rank, shape, &tensor));
    rota_tape_remember(kit->tape, false);
    assert_ok(rota_op_copy_into(kit->tape, source, tensor));
    rota_tape_remember(kit->tape, true);
    return tensor;
}

uint32_t op_kit_output(op_kit *kit, rota_tensor tensor) {
    rota_tensor output;
    uint32_t i = kit->output_count++;
    assert_true(i < OP_ARRAYS_MAX);
    if (rota_tensor_is_empty(&tensor)) return i; /* nor to read back */
    assert_ok(rota_tape_tensor(kit->tape, ROTA_BUFFER_OUTPUT, NULL, tensor.dtype, tensor.rank, tensor.shape,
                               &output));
    kit->outputs[i] = output.buffer;
    kit->output_bytes[i] = rota_buffer_size(output.buffer);
    kit->output_data[i] = malloc(kit->output_bytes[i]);
    assert_non_null(kit->output_data[i]);
    memset(kit->output_data[i], 0xff, kit->output_bytes[i]);
    rota_tape_remember(kit->tape, false);
    assert_ok(rota_op_copy_into(kit->tape, tensor, output));
    rota_tape_remember(kit->tape, true);
    return i;
}

static rota_status compile(op_kit *kit) {
    if (kit->plan) return ROTA_OK;
    rota_tape_destroy(kit->tape);
    rota_recorder_close(kit->recorder);
    kit->tape = NULL;
    kit->recorder = NULL;
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1,
                                                        .certify = true, .check_kernels = watched);
    ROTA_TRY(rota_compile(runtime, kit->graph, &options, &kit->plan));
    assert_ok(rota_args_create(kit->plan, &kit->args));
    for (uint32_t i = 0; i < kit->input_count; i++)
        assert_ok(
            rota_args_set_input(kit->args, kit->inputs[i], kit->input_data[i], kit->input_bytes[i], false));
    for (uint32_t i = 0; i < kit->output_count; i++)
        if (kit->outputs[i])
            assert_ok(
                rota_args_set_output(kit->args, kit->outputs[i], kit->output_data[i], kit->output_bytes[i]));
    return ROTA_OK;
}

void op_kit_set_u32(op_kit *kit, rota_slot slot, uint32_t value) {
    assert_ok(compile(kit));
    assert_ok(rota_args_set_u32(kit->args, slot, value));
}

void op_kit_set_f32(op_kit *kit, rota_slot slot, float value) {
    assert_ok(compile(kit));
    assert_ok(rota_args_set_f32(kit->args, slot, value));
}

rota_status op_kit_try_run(op_kit *kit) {
    rota_ticket ticket;
    ROTA_TRY(compile(kit));
    assert_ok(rota_submit_wait(kit->plan, kit->args, 0, &ticket));
    return rota_wait(ticket, 0);
}

void op_kit_run(op_kit *kit) {
    assert_ok(op_kit_try_run(kit));
}

const float *op_kit_f32(const op_kit *kit, uint32_t output) {
    return kit->output_data[output];
}

void op_kit_close(op_kit *kit) {
    rota_args_release(kit->args);
    rota_plan_release(kit->plan);
    rota_tape_destroy(kit->tape);
    rota_recorder_close(kit->recorder);
    rota_graph_release(kit->graph);
    for (uint32_t i = 0; i < kit->input_count; i++) free(kit->input_data[i]);
    for (uint32_t i = 0; i < kit->output_count; i++) free(kit->output_data[i]);
}

/* ---- Elements ---- */

static double half_load(uint16_t bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    if (exponent == 31) value = mantissa ? NAN : INFINITY;
    return bits & 0x8000 ? -value : value;
}

/* By the definition of the two formats, without the library's conversions. */
static double f8_load(rota_dtype dtype, uint8_t bits) {
    const int mantissa_bits = dtype == ROTA_F8_E4M3FN ? 3 : 2, bias = dtype == ROTA_F8_E4M3FN ? 7 : 15;
    const int exponent = (bits & 0x7F) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    double value = exponent ? ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)
                            : ldexp(mantissa, 1 - bias - mantissa_bits);
    if (dtype == ROTA_F8_E4M3FN ? (bits & 0x7F) == 0x7F : exponent == 31 && mantissa) value = NAN;
    if (dtype == ROTA_F8_E5M2 && exponent == 31 && !mantissa) value = INFINITY;
    return bits & 0x80 ? -value : value;
}

/* Towards 0: the largest that is no larger. */
static uint8_t f8_store(rota_dtype dtype, double value) {
    const uint8_t sign = value < 0 ? 0x80 : 0, largest = dtype == ROTA_F8_E4M3FN ? 0x7E : 0x7B;
    uint8_t bits = 0;
    if (isnan(value)) return 0x7F;
    while (bits < largest && f8_load(dtype, bits + 1) <= fabs(value)) bits++;
    return sign | bits;
}

double element_load(rota_dtype dtype, const void *data, uint64_t index) {
    uint32_t word;
    float single;
    switch (dtype) {
    case ROTA_F32:
        return (double)((const float *)data)[index];
    case ROTA_I32:
        return ((const int32_t *)data)[index];
    case ROTA_U32:
        return ((const uint32_t *)data)[index];
    case ROTA_F16:
        return half_load(((const uint16_t *)data)[index]);
    case ROTA_F8_E4M3FN:
    case ROTA_F8_E5M2:
        return f8_load(dtype, ((const uint8_t *)data)[index]);
    default:
        break;
    }
    word = (uint32_t)((const uint16_t *)data)[index] << 16;
    memcpy(&single, &word, sizeof single);
    return (double)single;
}

/* 16-bit and 8-bit types: any value near `value` will do, the contents of a test are what is then loaded. */
void element_store(rota_dtype dtype, void *data, uint64_t index, double value) {
    float single = (float)value;
    uint32_t word;
    int exponent;
    switch (dtype) {
    case ROTA_F32:
        ((float *)data)[index] = single;
        return;
    case ROTA_I32:
        ((int32_t *)data)[index] = (int32_t)value;
        return;
    case ROTA_U32:
        ((uint32_t *)data)[index] = (uint32_t)value;
        return;
    case ROTA_BF16:
        memcpy(&word, &single, sizeof word);
        ((uint16_t *)data)[index] = (uint16_t)(word >> 16);
        return;
    case ROTA_F8_E4M3FN:
    case ROTA_F8_E5M2:
        ((uint8_t *)data)[index] = f8_store(dtype, value);
        return;
    default:
        break;
    }
    double fraction = frexp(fabs(value), &exponent);
    uint16_t bits = 0;
    if (!isfinite(value))
        bits = isnan(value) ? 0x7e00 : 0x7c00;
    else if (fraction != 0.0 && exponent > -14)
        bits = (uint16_t)((exponent + 14) << 10 | ((int)(fraction * 2048) & 1023));
    ((uint16_t *)data)[index] = (uint16_t)(bits | (value < 0 ? 0x8000 : 0));
}

/* ---- Trials ---- */

static double fill_value(const rota_op_example *example, uint32_t input, uint64_t index, uint64_t count,
                         uint64_t *random) {
    double uniform = (double)(test_random(random) >> 11) * 0x1p-53;
    switch (example->fill[input]) {
    case ROTA_FILL_POSITIVE:
        return 0.5 + uniform;
    case ROTA_FILL_DISTINCT: {
        /* A permutation of odd multiples of 1 / count, 0 not among them. */
        uint64_t step = 7919 % count ? 7919 : 7907;
        return ((double)(index * step % count) * 2 + 1 - (double)count - (count % 2 ? 0.5 : 0)) /
               (double)count;
    }
    case ROTA_FILL_INDEX:
        return (double)(test_random(random) % (example->classes ? example->classes : 1));
    case ROTA_FILL_ZERO:
        return 0;
    case ROTA_FILL_NEGATIVE:
        return -0.5 - uniform;
    default:
        return uniform * 2 - 1;
    }
}

bool op_trial_make(const rota_op *op, uint32_t index, op_trial *trial) {
    rota_op_example example;
    if (!rota_op_get_example(op, index, 0, &example)) return false;
    assert_true(op_trial_of(&example, index, trial));
    return true;
}

bool op_trial_of(const rota_op_example *example, uint64_t seed, op_trial *trial) {
    *trial = (op_trial){.example = *example};
    rota_op_use *use = &trial->example.use;
    const rota_op *op = use->op;
    for (uint32_t i = 0; i < use->input_count; i++) {
        const rota_tensor *x = &use->inputs[i];
        if (x->dtype == ROTA_DTYPE_COUNT) {
            use->inputs[i] = ROTA_TENSOR_NONE;
            continue;
        }
        uint64_t count = rota_tensor_count(x), random = seed * 100 + i + 1;
        trial->data[i] = calloc(count + 1, 4);
        trial->reference.in[i] = malloc((count + 1) * sizeof(double));
        assert_non_null(trial->data[i]);
        assert_non_null(trial->reference.in[i]);
        for (uint64_t e = 0; e < count; e++) {
            element_store(x->dtype, trial->data[i], e, fill_value(&trial->example, i, e, count, &random));
            trial->reference.in[i][e] = element_load(x->dtype, trial->data[i], e);
        }
    }
    memcpy(trial->result, use->outputs, sizeof trial->result);
    if (op->shape(use, trial->result) != ROTA_OK) {
        op_trial_free(trial);
        return false;
    }
    trial->described = *use;
    for (uint32_t i = 0; i < use->output_count; i++) {
        trial->described.outputs[i] = trial->result[i];
        trial->reference.out[i] = malloc((rota_tensor_count(&trial->result[i]) + 1) * sizeof(double));
        assert_non_null(trial->reference.out[i]);
    }
    trial->reference.use = &trial->described;
    return true;
}

void op_trial_free(op_trial *trial) {
    for (uint32_t i = 0; i < ROTA_OP_INPUTS_MAX; i++) {
        free(trial->data[i]);
        free(trial->reference.in[i]);
    }
    for (uint32_t i = 0; i < ROTA_OP_OUTPUTS_MAX; i++) free(trial->reference.out[i]);
}

rota_op_use op_trial_use(op_kit *kit, const op_trial *trial) {
    rota_op_use use = trial->example.use;
    for (uint32_t i = 0; i < use.input_count; i++) {
        const rota_tensor *x = &trial->example.use.inputs[i];
        if (!trial->data[i]) continue;
        use.inputs[i] = use.op->input_modes[i] == ROTA_READ
                            ? op_kit_input(kit, x->dtype, x->rank, x->shape, trial->data[i])
                            : op_kit_variable(kit, x->dtype, x->rank, x->shape, trial->data[i]);
    }
    return use;
}

double op_trial_bound(const op_trial *trial, uint32_t output) {
    return reference_bound(&trial->reference, output);
}

void op_trial_reference(const op_trial *trial) {
    reference r = trial->reference;
    bool any = false; /* of nothing there is no reference */
    for (uint32_t i = 0; i < trial->example.use.output_count; i++)
        any = any || !rota_tensor_is_empty(&trial->result[i]);
    for (uint32_t i = 0; i < trial->example.use.input_count; i++)
        any = any || (trial->example.use.op->input_modes[i] != ROTA_READ && trial->data[i] &&
                      !rota_tensor_is_empty(&trial->example.use.inputs[i]));
    if (any) assert_true(reference_run(&r));
}

void op_trial_compare(const op_trial *trial, uint32_t output, const void *got, const char *how) {
    const rota_tensor *y = &trial->result[output];
    const double *expected = trial->reference.out[output], bound = op_trial_bound(trial, output);
    for (uint64_t i = 0; i < rota_tensor_count(y); i++) {
        double value = element_load(y->dtype, got, i);
        if (expected[i] == value || fabs(expected[i] - value) <= bound) continue;
        fail_msg("%s (%s), %s: '%s'[%llu] is %.9g, expected %.9g within %.2g", trial->example.use.op->name,
                 trial->example.label, how, trial->example.use.op->output_names[output],
                 (unsigned long long)i, value, expected[i], bound);
    }
}

void op_trial_check(const op_trial *trial) {
    const rota_status status = op_trial_try(trial);
    if (status != ROTA_OK)
        fail_msg("%s (%s): %s", trial->example.use.op->name, trial->example.label, rota_last_error());
}

rota_status op_trial_try(const op_trial *trial) {
    op_kit kit;
    op_kit_open(&kit);
    rota_op_use use = op_trial_use(&kit, trial);
    for (uint32_t i = 0; i < use.output_count; i++) use.outputs[i] = trial->example.use.outputs[i];
    const rota_status status = rota_op_apply(kit.tape, &use);
    if (status != ROTA_OK) {
        op_kit_close(&kit);
        return status;
    }
    uint32_t outputs[ROTA_OP_OUTPUTS_MAX], written[ROTA_OP_INPUTS_MAX] = {0};
    for (uint32_t i = 0; i < use.output_count; i++) outputs[i] = op_kit_output(&kit, use.outputs[i]);
    for (uint32_t i = 0; i < use.input_count; i++)
        if (use.op->input_modes[i] != ROTA_READ && use.inputs[i].buffer)
            written[i] = op_kit_output(&kit, use.inputs[i]);
    op_kit_run(&kit);
    op_trial_reference(trial);
    for (uint32_t i = 0; i < use.output_count; i++)
        op_trial_compare(trial, i, kit.output_data[outputs[i]], "result made");
    for (uint32_t i = 0; i < use.input_count; i++) {
        if (use.op->input_modes[i] == ROTA_READ || !use.inputs[i].buffer) continue;
        const rota_tensor *x = &use.inputs[i];
        for (uint64_t e = 0; e < rota_tensor_count(x); e++) {
            double value = element_load(x->dtype, kit.output_data[written[i]], e),
                   expected = trial->reference.in[i][e];
            const double unit = x->dtype == ROTA_F16 ? 0x1p-11 : x->dtype == ROTA_BF16 ? 0x1p-8 : 0;
            if (fabs(value - expected) > 16 * 0x1p-24 * fmax(1, fabs(expected)) + unit * fabs(expected))
                fail_msg("%s (%s): '%s'[%llu] is %.9g, expected %.9g", use.op->name, trial->example.label,
                         use.op->input_names[i], (unsigned long long)e, value, expected);
        }
    }
    op_kit_close(&kit);
    return ROTA_OK;
}
