/* A training run as one HTML file: what the device does at most, measured on itself. */
#include "examples/common/run_report_internal.h"

#include <stdlib.h>
#include <string.h>

enum { REPLAYS = 6 };

/* The shortest time of the plan's longest command, in seconds; 0: no times. */
static rota_status best_time(rota_plan *plan, double *out_seconds) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    rota_plan_time *times = calloc(stats.commands + 1, sizeof *times);
    if (!times) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the times of %s", "a measurement");
    rota_status status = ROTA_OK;
    uint64_t best = 0;
    for (int i = 0; i < REPLAYS && status == ROTA_OK; i++) {
        rota_ticket ticket;
        status = rota_submit_wait(plan, NULL, 0, &ticket);
        if (status == ROTA_OK) status = rota_wait(ticket, 0);
        if (status == ROTA_OK) status = rota_plan_command_times(plan, times, stats.commands, NULL);
        uint64_t longest = 0;
        for (uint64_t c = 0; c < stats.commands && status == ROTA_OK; c++)
            if (times[c].end_ns - times[c].begin_ns > longest) longest = times[c].end_ns - times[c].begin_ns;
        if (i > 0 && longest && (!best || longest < best)) best = longest; /* the first warms up */
    }
    free(times);
    *out_seconds = (double)best / 1e9;
    return status;
}

/* y = 1.5 x over `count` f32, or where `side` is not 0 the product of two square matrices; of `dtype`. */
static rota_status measure(rota_runtime *runtime, rota_device *device, uint64_t count, uint64_t side,
                           rota_dtype dtype, double *out_seconds) {
    const uint64_t shape[2] = {side ? side : 1, side ? side : count};
    const uint64_t bytes = shape[0] * shape[1] * rota_dtype_bytes(dtype);
    rota_buffer *buffers[2] = {NULL, NULL};
    rota_graph *graph = NULL;
    rota_recorder *recorder = NULL;
    rota_tape *tape = NULL;
    rota_plan *plan = NULL;
    rota_tensor x, y;
    *out_seconds = 0;
    rota_status status = rota_buffer_create_in(runtime, "peak operand", bytes, &buffers[0]);
    if (status == ROTA_OK) status = rota_buffer_create_in(runtime, "peak result", bytes, &buffers[1]);
    if (status == ROTA_OK) status = rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "peak"), &graph);
    if (status == ROTA_OK) status = rota_recorder_open(graph, 0, NULL, &recorder);
    if (status == ROTA_OK)
        status = rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape);
    if (status == ROTA_OK) status = rota_tensor_of(buffers[0], 0, dtype, 2, shape, &x);
    if (status == ROTA_OK) status = rota_tensor_of(buffers[1], 0, dtype, 2, shape, &y);
    /* Written on the device, so that nothing is uploaded and the numbers are plain ones. */
    if (status == ROTA_OK) status = rota_op_fill_into(tape, x, 0.5);
    if (status == ROTA_OK)
        status = side ? rota_op_matmul_into(tape, x, x, false, true, y)
                      : rota_op_scale_into(tape, x, ROTA_PLAIN(1.5), y);
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    if (status == ROTA_OK)
        status =
            rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan);
    if (status == ROTA_OK) status = best_time(plan, out_seconds);
    rota_plan_release(plan);
    rota_graph_release(graph);
    for (int i = 0; i < 2; i++) rota_buffer_release(buffers[i]);
    return status;
}

void run_report_measure(run_report *report, rota_runtime *runtime, rota_device *device) {
    const rota_device_info *info = rota_device_get_info(device);
    const bool gpu = info->device_class == ROTA_DEVICE_GPU, cpu = info->device_class == ROTA_DEVICE_CPU;
    /* Above what caches hold, where that takes no seconds. */
    const uint64_t count = gpu ? UINT64_C(64) << 20 : cpu ? UINT64_C(16) << 20 : UINT64_C(4) << 20;
    const uint64_t side = gpu ? 4096 : cpu ? 1024 : 256;
    run_report_peaks *peaks = &report->peaks;
    double seconds;
    *peaks = (run_report_peaks){0};
    rota_status status = measure(runtime, device, count, 0, ROTA_F32, &seconds);
    if (status == ROTA_OK && seconds > 0) peaks->bandwidth = 2.0 * 4.0 * (double)count / seconds;
    const double operations = 2.0 * (double)side * (double)side * (double)side;
    if (status == ROTA_OK) status = measure(runtime, device, 0, side, ROTA_F32, &seconds);
    if (status == ROTA_OK && seconds > 0) peaks->single = operations / seconds;
    if (status != ROTA_OK || !(peaks->bandwidth > 0) || !(peaks->single > 0)) {
        snprintf(peaks->unmeasured, sizeof peaks->unmeasured, "%s",
                 status != ROTA_OK ? rota_last_error() : "the device gave no times");
        peaks->bandwidth = peaks->single = 0;
        return;
    }
    /* Not every device has them. */
    if (gpu && measure(runtime, device, 0, side, ROTA_BF16, &seconds) == ROTA_OK && seconds > 0)
        peaks->half = operations / seconds;
    snprintf(peaks->how, sizeof peaks->how,
             "Both were measured after the run, on this device: y = 1.5 x over %llu MiB, and a product of "
             "%llu x %llu f32 matrices%s; the best of %d.",
             (unsigned long long)(count * 4 >> 20), (unsigned long long)side, (unsigned long long)side,
             peaks->half > 0 ? " and of bf16 ones" : "", REPLAYS - 1);
}
