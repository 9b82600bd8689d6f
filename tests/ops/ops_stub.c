#include "tests/ops/ops_stub.h"

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include "ops/kernels.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/kit/support.h"

static const uint64_t patience_ns = 20000000000;

void ops_stub_start(uint64_t seed) {
    uint32_t count;
    const rota_kernel *const *kernels = rota_kernel_table(&count);
    cuda_stub_start(seed, 1);
    for (uint32_t k = 0; k < count; k++)
        if (kernels[k]->cuda.entry) cuda_stub_kernel(kernels[k]);
}

rota_status ops_stub_tell(void *user, rota_rewriter *rewriter) {
    (void)user;
    for (uint64_t n = 0; n < rota_rewriter_node_count(rewriter); n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (view.kernel && strncmp(view.kernel->name, "fused:", 6) == 0) cuda_stub_kernel(view.kernel);
    }
    return ROTA_OK;
}

float ops_stub_from_bf16(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t ops_stub_to_bf16(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return (uint16_t)((word + 0x7FFFu + (word >> 16 & 1)) >> 16);
}

bool ops_stub_open(ops_stub *out, const rota_kernel *more, uint32_t more_count) {
    if (!rota_kernels_have_cuda_images()) {
        print_message("skipped: no CUDA images were built\n");
        return false;
    }
    ops_stub_start(7);
    for (uint32_t k = 0; k < more_count; k++) cuda_stub_kernel(&more[k]);
    assert_ok(rota_runtime_open(NULL, &out->runtime));
    assert_ok(rota_device_open(out->runtime, "cpu", &out->cpu));
    assert_ok(rota_device_open(out->runtime, "cuda:0", &out->cuda));
    return true;
}

void ops_stub_close(ops_stub *stub) {
    assert_ok(rota_runtime_close(stub->runtime, patience_ns));
    cuda_stub_stop();
}

void ops_stub_record(ops_stub_graph *out, const rota_tape_options *options) {
    assert_ok(rota_graph_create(NULL, &out->graph));
    assert_ok(rota_graph_fuse(out->graph));
    assert_ok(rota_graph_add_rewrite(out->graph, ops_stub_tell, NULL));
    assert_ok(rota_recorder_open(out->graph, 0, NULL, &out->recorder));
    assert_ok(rota_tape_create(out->recorder, options, &out->tape));
}

void ops_stub_compile(ops_stub_graph *graph, const ops_stub *stub, rota_device *device) {
    rota_tape_destroy(graph->tape);
    rota_recorder_close(graph->recorder);
    assert_ok(rota_compile(stub->runtime, graph->graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true),
                           &graph->plan));
    assert_ok(rota_args_create(graph->plan, &graph->args));
}

uint64_t ops_stub_replay(ops_stub_graph *graph) {
    rota_ticket ticket;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_submit_wait(graph->plan, graph->args, patience_ns, &ticket));
    assert_ok(rota_wait(ticket, patience_ns));
    rota_plan_get_stats(graph->plan, &stats);
    rota_args_release(graph->args);
    rota_plan_release(graph->plan);
    rota_graph_release(graph->graph);
    return stats.merged;
}

#endif
