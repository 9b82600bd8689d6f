/* The short way: devices that are opened at once, tensors with data, tapes with a graph of their own. */
#include "ops/direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/given.h"
#include "ops/apply.h"
#include "sched/opened.h"

/* ---- Devices ---- */

rota_status rota_open(const char *id, const rota_runtime_options *options, rota_device **out_device) {
    ROTA_GIVEN(out_device);
    *out_device = NULL;
    rota_runtime *runtime;
    ROTA_TRY(rota_runtime_open(options, &runtime));
    const rota_status status = rota_device_open(runtime, id, out_device);
    if (status == ROTA_OK) return ROTA_OK;
    char text[ROTA_ERROR_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s", rota_last_error());
    (void)rota_runtime_close(runtime, 0);
    return rota_fail(status, "%s", text);
}

rota_status rota_close(rota_device *device, uint64_t timeout_ns) {
    return device ? rota_runtime_close(rota_device_runtime(device), timeout_ns) : ROTA_OK;
}

/* ---- Tensors ---- */

rota_status rota_tensor_create(rota_device *device, const char *name, rota_dtype dtype, uint32_t rank,
                               const uint64_t *shape, const void *data, rota_tensor *out_tensor) {
    ROTA_GIVEN(device);
    ROTA_GIVEN_ARRAY(shape, rank);
    ROTA_GIVEN(out_tensor);
    rota_tensor tensor; /* not *out_tensor: shape may be its */
    const rota_status described = rota_tensor_of(NULL, 0, dtype, rank, shape, &tensor);
    *out_tensor = ROTA_TENSOR_NONE;
    ROTA_TRY(described);
    const uint64_t bytes = rota_shape_bytes(dtype, rank, tensor.shape);
    /* Whole words, which is what fills write, and at least one. */
    const uint64_t room = bytes ? (bytes + 3) / 4 * 4 : 4;
    ROTA_TRY(rota_buffer_create_in(rota_device_runtime(device), name, room, &tensor.buffer));
    const rota_status status = data ? rota_buffer_write(tensor.buffer, device, 0, data, bytes, NULL)
                                    : rota_buffer_prepare(tensor.buffer, device);
    if (status != ROTA_OK) {
        rota_buffer_release(tensor.buffer);
        return status;
    }
    *out_tensor = tensor;
    return ROTA_OK;
}

/* Whether a tensor has contents that can be read, so many bytes. */
static rota_status check_read(const rota_tensor *tensor, uint64_t size_bytes) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (!tensor->buffer)
        return rota_fail(ROTA_INVALID_ARGUMENT, "rota_tensor_read: the tensor has no buffer");
    const rota_status status = rota_tensor_check(tensor);
    if (status != ROTA_OK) return rota_fail_context(status, "rota_tensor_read: the tensor ");
    const rota_buffer_kind kind = rota_buffer_get_kind(tensor->buffer);
    if (kind != ROTA_BUFFER_PERSISTENT)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "rota_tensor_read: the tensor is in buffer '%s', which is %s and has no contents "
                         "outside of a replay: have an op write into a tensor of rota_tensor_create "
                         "(rota_op_copy_into) and read that",
                         rota_buffer_name(tensor->buffer), rota_buffer_kind_name(kind));
    const uint64_t expected = rota_shape_bytes(tensor->dtype, tensor->rank, tensor->shape);
    if (size_bytes == expected) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT, "rota_tensor_read: %llu bytes, expected the %llu of %s",
                     (unsigned long long)size_bytes, (unsigned long long)expected,
                     rota_tensor_describe(tensor, text, sizeof text));
}

/* Elements in row-major order, side by side. */
static void gather(const rota_tensor *x, const uint8_t *from, uint8_t *to) {
    const uint32_t size = rota_dtype_bytes(x->dtype);
    uint64_t index[ROTA_RANK_MAX] = {0}, offset = 0;
    for (uint64_t left = rota_tensor_count(x); left > 0; left--, to += size) {
        memcpy(to, from + offset * size, size);
        for (uint32_t d = x->rank; d-- > 0;) {
            offset += x->stride[d];
            if (++index[d] < x->shape[d]) break;
            offset -= index[d] * x->stride[d];
            index[d] = 0;
        }
    }
}

rota_status rota_tensor_read(const rota_tensor *tensor, void *out_data, uint64_t size_bytes) {
    ROTA_GIVEN(tensor);
    ROTA_GIVEN_ARRAY(out_data, size_bytes);
    ROTA_TRY(check_read(tensor, size_bytes));
    if (size_bytes == 0) return ROTA_OK;
    if (rota_tensor_is_contiguous(tensor))
        return rota_buffer_read(tensor->buffer, tensor->offset_bytes, out_data, size_bytes);
    const uint64_t extent = rota_tensor_extent_bytes(tensor);
    uint8_t *bytes = malloc(extent);
    if (!bytes)
        return rota_fail(ROTA_OUT_OF_MEMORY, "rota_tensor_read: no host memory for the %llu bytes of '%s'",
                         (unsigned long long)extent, rota_buffer_name(tensor->buffer));
    const rota_status status = rota_buffer_read(tensor->buffer, tensor->offset_bytes, bytes, extent);
    if (status == ROTA_OK) gather(tensor, bytes, out_data);
    free(bytes);
    return status;
}

/* ---- Tapes ---- */

rota_status rota_tape_create_on(rota_device *device, const rota_tape_options *options, rota_tape **out_tape) {
    ROTA_GIVEN(device);
    ROTA_GIVEN(out_tape);
    *out_tape = NULL;
    rota_runtime *runtime = rota_device_runtime(device);
    rota_graph *graph;
    rota_recorder *recorder;
    ROTA_TRY(rota_runtime_check(runtime));
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "tape"), &graph));
    rota_status status = rota_recorder_open(graph, 0, "tape", &recorder);
    if (status == ROTA_OK) status = rota_tape_create(recorder, options, out_tape);
    if (status != ROTA_OK) {
        rota_graph_release(graph);
        return status;
    }
    (*out_tape)->device = device;
    (*out_tape)->opened = rota_opened_now(runtime);
    return ROTA_OK;
}

/* The tape has a plan. */
static rota_status compile(rota_tape *tape) {
    if (!tape->device)
        return rota_fail(
            ROTA_WRONG_STATE,
            "the tape records into a recorder of the caller's: compile its graph (rota_compile), or "
            "make the tape by rota_tape_create_on");
    if (tape->plan) return ROTA_OK;
    ROTA_TRY(rota_opened_check(tape->opened));
    rota_recorder_close(tape->recorder);
    return rota_compile(tape->opened.runtime, tape->graph,
                        &ROTA_COMPILE_OPTIONS(.devices = &tape->device, .device_count = 1), &tape->plan);
}

rota_status rota_tape_compile(rota_tape *tape, rota_plan **out_plan) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_plan);
    *out_plan = NULL;
    ROTA_TRY(compile(tape));
    rota_plan_retain(tape->plan);
    *out_plan = tape->plan;
    return ROTA_OK;
}

rota_status rota_tape_submit(rota_tape *tape, const rota_submit_options *options, rota_ticket *out_ticket) {
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    ROTA_GIVEN(tape);
    ROTA_TRY(compile(tape));
    return rota_submit_with(tape->plan, options, out_ticket);
}

/* ---- One op ---- */

static rota_status submit_use(rota_device *device, rota_op_use *use, rota_ticket *out_ticket) {
    rota_tape *tape;
    ROTA_TRY(rota_tape_create_on(device, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    rota_status status = rota_op_apply(tape, use);
    if (status == ROTA_OK) status = rota_tape_submit(tape, NULL, out_ticket);
    rota_tape_destroy(tape);
    return status;
}

rota_status rota_op_submit(rota_device *device, rota_op_use *use, rota_ticket *out_ticket) {
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    ROTA_GIVEN(device);
    ROTA_GIVEN(use);
    rota_op_use made = *use;
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX];
    ROTA_TRY(rota_tape_expect(&made, outputs));
    rota_status status = ROTA_OK;
    uint32_t own = 0; /* bit i: output i is made here */
    for (uint32_t i = 0; i < made.output_count && status == ROTA_OK; i++) {
        if (made.outputs[i].buffer) continue;
        status = rota_tensor_create(device, made.op->name, outputs[i].dtype, outputs[i].rank,
                                    outputs[i].shape, NULL, &made.outputs[i]);
        if (status == ROTA_OK) own |= 1u << i;
    }
    if (status == ROTA_OK) status = submit_use(device, &made, out_ticket);
    for (uint32_t i = 0; i < made.output_count; i++) {
        if (!(own & 1u << i)) continue;
        if (status == ROTA_OK)
            use->outputs[i] = made.outputs[i];
        else
            rota_buffer_release(made.outputs[i].buffer);
    }
    return status;
}
