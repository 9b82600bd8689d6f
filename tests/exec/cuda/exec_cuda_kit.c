/* See exec_cuda_kit.h. */
#include <stddef.h>
#ifdef ROTA_HAVE_CUDA
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/exec/cuda/exec_cuda_kit.h"
#include <stdio.h>
#include <string.h>
#include "tests/kit/nap.h"

bool exec_cuda_real, exec_cuda_hosted;

bool exec_cuda_hide_conditionals(void) {
    static rota_cuda_api without;
    const rota_cuda_api *api;
    if (rota_cuda_api_get(&api) != ROTA_OK) return false;
    without = *api;
    without.GraphConditionalHandleCreate = NULL;
    without.GraphAddNode = NULL;
    rota_cuda_api_use(&without);
    return true;
}

static const char *name_of(const void *owner, uint32_t node) {
    static _Thread_local char name[32];
    (void)owner;
    snprintf(name, sizeof name, "node %u", node);
    return name;
}

static void keep_lost(void *user, rota_status status, const char *message) {
    lost_host *host = user;
    (void)status;
    snprintf(host->message, sizeof host->message, "%s", message);
    atomic_fetch_add(&host->host.lost, 1);
}

rota_exec_open_options lost_host_options(lost_host *host, bool diagnostics) {
    rota_exec_open_options options = test_vk_options(&host->host, QUEUES);
    options.host.user = host;
    options.host.lost = keep_lost;
    options.host.node_name = name_of;
    options.diagnostics = diagnostics;
    return options;
}

bool lost_host_wait(lost_host *host) {
    const uint64_t deadline = rota_deadline_after(10000000000ull);
    while (!atomic_load(&host->host.lost) && rota_clock_ns() < deadline) test_nap();
    return atomic_load(&host->host.lost) == 1;
}

static void start_standin(contract *c, rota_exec_open_options *options) {
    (void)c, (void)options;
    if (exec_cuda_real) return;
    cuda_stub_start(7, 1);
    if (exec_cuda_hosted) cuda_stub_version(12030);
    cuda_stub_kernel(&contract_step);
}

static void stop_standin(contract *c) {
    (void)c;
    if (exec_cuda_real) return;
    cuda_stub_end_clean();
}

cuda_fixture *cuda_open(const rota_exec_open_options *changes) {
    cuda_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    rota_exec_open_options options = test_vk_options(&f->host, QUEUES);
    options.host.node_name = name_of;
    if (changes) {
        options.diagnostics = changes->diagnostics;
        options.debug_names = changes->debug_names;
        options.max_in_flight = changes->max_in_flight;
        if (changes->queue_count) options.queue_count = changes->queue_count;
    }
    start_standin(NULL, NULL);
    rota_status status = rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &f->device);
    if (status == ROTA_OK) return f;
    free(f);
    if (!exec_cuda_real) fail_msg("%s", rota_last_error());
    print_message("skipped: no CUDA device: %s\n", rota_last_error());
    skip();
    return NULL;
}

void cuda_close(cuda_fixture *f) {
    assert_int_equal(atomic_load(&f->host.descending), 0);
    uint64_t abandoned = 1;
    f->device->vtable->close(f->device, rota_deadline_after(10000000000ull), &abandoned);
    assert_int_equal(abandoned, 0);
    free(f);
    stop_standin(NULL);
}

rota_exec_memory *cuda_memory(cuda_fixture *f, uint64_t size, uint32_t flags) {
    rota_exec_memory *m = NULL;
    assert_ok(f->device->vtable->memory_create(f->device, size, flags, "test memory", &m));
    assert_int_equal(m->address % 256, 0);
    assert_int_equal(m->size_bytes, size);
    return m;
}

rota_exec_memory *cuda_shared(cuda_fixture *f, uint64_t size) {
    return cuda_memory(f, size, ROTA_EXEC_MEMORY_HOST_READ | ROTA_EXEC_MEMORY_HOST_WRITE);
}

contract_loaded cuda_load(cuda_fixture *f, test_program *p, rota_exec_memory *const *memories) {
    contract_loaded l = {.edges = contract_edges(p)};
    assert_ok(f->device->vtable->program_create(f->device, &p->desc, &l.program));
    assert_ok(f->device->vtable->instance_create(f->device, l.program, memories, &l.instance));
    return l;
}

void cuda_unload(cuda_fixture *f, contract_loaded l) {
    f->device->vtable->instance_destroy(f->device, l.instance);
    f->device->vtable->program_destroy(f->device, l.program);
    free(l.edges);
}

rota_exec_work cuda_work(cuda_fixture *f, contract_loaded l, uint32_t segment, uint32_t queue,
                         const rota_exec_wait *waits, uint32_t wait_count, const uint64_t *block) {
    return (rota_exec_work){.instance = l.instance,
                            .segment = segment,
                            .queue = queue,
                            .signal_value = ++f->next[queue],
                            .waits = waits,
                            .wait_count = wait_count,
                            .block = block};
}

void cuda_submit(cuda_fixture *f, const rota_exec_work *works, uint32_t count) {
    assert_ok(f->device->vtable->submit(f->device, works, count));
}

void cuda_wait(cuda_fixture *f, uint32_t queue) {
    if (!test_host_wait(&f->host, queue, f->next[queue])) fail_msg("queue %u never got there", queue);
}

void cuda_run(cuda_fixture *f, contract_loaded l, const uint64_t *block, uint32_t times) {
    for (uint32_t i = 0; i < times; i++) {
        rota_exec_work w = cuda_work(f, l, 0, 0, NULL, 0, block);
        cuda_submit(f, &w, 1);
        cuda_wait(f, 0);
    }
}

/* ---- The contract's cases ---- */

static uint64_t bytes_in_use(contract *c) {
    return atomic_load(&((rota_cuda_device *)c->device)->objects.memory_bytes);
}

contract_kit exec_cuda_contract(void) {
    return (contract_kit){.name = exec_cuda_real ? "cuda" : "cuda over the stand-in",
                          .driver = &rota_exec_cuda_driver,
                          .is_optional = exec_cuda_real,
                          .before_open = start_standin,
                          .after_close = stop_standin,
                          .in_use = bytes_in_use};
}

int exec_cuda_run(const char *name, const struct CMUnitTest *more, size_t more_count) {
    struct CMUnitTest *tests = calloc(exec_cuda_case_count + more_count + 1, sizeof *tests);
    if (!tests) return 1;
    memcpy(tests, exec_cuda_cases, exec_cuda_case_count * sizeof *tests);
    if (more_count) memcpy(tests + exec_cuda_case_count, more, more_count * sizeof *tests);
    int failed = _cmocka_run_group_tests(name, tests, exec_cuda_case_count + more_count, NULL, NULL);
    free(tests);
    return failed;
}
#endif
