/* Nodes of exec/cuda whose work comes from elsewhere, over a stand-in for the CUDA driver (cuda_stub.h):
 * vendors' libraries, captured, and kernels that are chosen and prepared. */
#include "tests/kit/support.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include "tests/exec/cuda/exec_cuda_kit.h"

/* ---- Library nodes ---- */

typedef struct library {
    CUfunction step;
    uint32_t calls, tunes, prepares, launches, by_table;
    rota_status status; /* of a call that isn't made again, or of every one */
    bool recovers;
} library;
static library lib;

/* Puts steps on the stream, as a library would. */
static rota_status library_call(const rota_cuda_call *call) {
    lib.calls++;
    assert_int_equal(call->again, lib.status != ROTA_OK && lib.calls % 2 == 0);
    if (lib.status != ROTA_OK && !(call->again && lib.recovers))
        return rota_fail(lib.status, "the library does not want to");
    const contract_step_params *params = call->params;
    if (params->count == 0) return ROTA_OK; /* nothing on the stream */
    struct {
        uint64_t block;
        uint32_t slots, binds;
        uint64_t operands[2];
        contract_step_params params;
    } arguments = {.operands = {call->operands[0], call->operands[1]}, .params = *params};
    void *parameters[] = {&arguments};
    assert_int_equal(call->operand_count, 2);
    assert_int_equal(call->operand_bytes[0], BYTES);
    lib.by_table += call->target->by_table;
    assert_true(!call->target->by_table || !call->target->cache_dir);
    for (uint32_t i = 0; i < lib.launches; i++)
        if (cuda_stub_api()->LaunchKernel(lib.step, 16, 1, 1, 64, 1, 1, 0, call->stream, parameters, NULL) !=
            CUDA_SUCCESS)
            return rota_fail(ROTA_SYSTEM, "cuLaunchKernel failed");
    return ROTA_OK;
}

static rota_status library_tune(const rota_cuda_call *call) {
    lib.tunes++;
    memset((void *)(uintptr_t)call->operands[1], 0, call->operand_bytes[1]); /* scratch of the right size */
    return ROTA_OK;
}

static rota_kernel library_kernel(void) {
    rota_kernel kernel = contract_step;
    kernel.name = "library";
    kernel.cuda = (rota_kernel_cuda){.call = library_call, .tune = library_tune};
    lib = (library){.launches = 2};
    return kernel;
}

static void find_step(cuda_fixture *f) {
    rota_cuda_device *device = (rota_cuda_device *)f->device;
    assert_ok(rota_cuda_enter(device));
    assert_ok(rota_cuda_function_get(device, &contract_step, &lib.step, NULL));
    rota_cuda_leave(device);
}

static test_program *library_program(const rota_kernel *kernel, const contract_step_params *params, bool slot,
                                     bool bound) {
    test_program *p = test_program_new(QUEUES, 1, 3);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < 3; i++) { /* between ordinary ones */
        test_program_batch(p);
        test_program_kernel(p, i == 1 ? kernel : &contract_step, params);
        test_program_operand(p, i == 1 && slot ? 0 : 0, i == 1 && slot, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
        if (i == 1 && bound) test_program_binding(p, 0, 1);
    }
    return p;
}

static void test_library(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    contract_step_params params = {COUNT, 1, 0};
    rota_kernel kernel = library_kernel();
    find_step(f);
    test_program *p = library_program(&kernel, &params, false, false);
    const uint64_t streams = cuda_stub_calls("StreamCreate");
    contract_loaded l = cuda_load(f, p, memories);
    assert_int_equal(cuda_stub_calls("StreamCreate"), streams); /* the private one is free */
    cuda_stub_graph g = cuda_stub_last_graph();
    assert_int_equal(g.children, 1);
    assert_int_equal(g.nodes, 3);
    assert_int_equal(lib.calls, 1);
    assert_int_equal(lib.tunes, 1);
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    uint64_t block[3] = {0};
    cuda_run(f, l, block, 3);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], contract_stepped(i, i, 12));
    assert_int_equal(lib.calls, 1);
    cuda_unload(f, l);
    free(p);
    /* Nothing put on the stream is no error; a refusal is one, with the node's name. */
    contract_step_params none = {0, 1, 0};
    p = library_program(&kernel, &none, false, false);
    l = cuda_load(f, p, memories);
    assert_int_equal(cuda_stub_last_graph().children, 0);
    cuda_unload(f, l);
    l.edges = contract_edges(p);
    lib.status = ROTA_UNSUPPORTED;
    assert_ok(f->device->vtable->program_create(f->device, &p->desc, &l.program));
    assert_status(f->device->vtable->instance_create(f->device, l.program, memories, &l.instance),
                  ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "node 1"));
    f->device->vtable->program_destroy(f->device, l.program);
    free(l.edges);
    free(p);
    /* It is asked a second time, in a capture of its own, and may then have another way. */
    p = library_program(&kernel, &params, false, false);
    lib.recovers = true;
    lib.calls = 0;
    l = cuda_load(f, p, memories);
    assert_int_equal(lib.calls, 2);
    assert_int_equal(cuda_stub_last_graph().children, 1);
    assert_int_equal(cuda_stub_last_graph().nodes, 3);
    cuda_unload(f, l);
    free(p);
    /* Nobody waits for a thread that measures. */
    p = library_program(&kernel, &params, false, false);
    l.edges = contract_edges(p);
    assert_ok(f->device->vtable->program_create(f->device, &p->desc, &l.program));
    pthread_mutex_t *lock = &((rota_cuda_device *)f->device)->own.lock;
    pthread_mutex_lock(lock);
    const uint64_t before = cuda_stub_calls("StreamCreate");
    assert_ok(f->device->vtable->instance_create(f->device, l.program, memories, &l.instance));
    pthread_mutex_unlock(lock);
    assert_int_equal(cuda_stub_calls("StreamCreate"), before + 1);
    assert_int_equal(cuda_stub_last_graph().children, 1);
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* One captured kernel becomes a kernel node, with what it is launched by beside its parameters. */
static void test_library_one_kernel(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    contract_step_params params = {COUNT, 1, 0};
    rota_kernel kernel = library_kernel();
    find_step(f);
    lib.launches = 1;
    cuda_stub_capture_clusters(2);
    test_program *p = library_program(&kernel, &params, false, false);
    contract_loaded l = cuda_load(f, p, memories);
    cuda_stub_graph g = cuda_stub_last_graph();
    assert_int_equal(g.children, 0);
    assert_int_equal(g.kernels, 3);
    assert_int_equal(g.edges, 2);
    assert_int_equal(g.widest_cluster, 2);
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    uint64_t block[3] = {0};
    cuda_run(f, l, block, 1);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], contract_stepped(i, i, 3));
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* With an operand or a parameter in a slot: a graph for each set of values, made once, the least recently
 * used going first. */
static void test_variants(void **state) {
    (void)state;
    for (uint32_t bound = 0; bound < 2; bound++) {
        cuda_fixture *f = cuda_open(NULL);
        rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
        rota_exec_memory *others[6];
        uint32_t *x = memories[0]->host;
        for (uint32_t i = 0; i < 6; i++) others[i] = cuda_shared(f, BYTES);
        contract_step_params params = {COUNT, 1, 0};
        rota_kernel kernel = library_kernel();
        find_step(f);
        test_program *p = library_program(&kernel, &params, !bound, bound);
        contract_loaded l = cuda_load(f, p, memories);
        assert_int_equal(lib.calls, 0);
        static const struct {
            uint32_t binding, calls;
        } steps[] = {{0, 1}, {0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 4},
                     {4, 5}, {0, 5}, {2, 5}, {1, 6}, {5, 7}, {2, 7}};
        for (uint32_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
            uint32_t binding = steps[s].binding, *y = others[binding]->host;
            for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = y[i] = i;
            uint64_t block[3] = {others[binding]->address, 10 + binding, s}; /* word 2 is nobody's */
            cuda_run(f, l, block, 1);
            if (lib.calls != steps[s].calls) fail_msg("step %u: %u captures", s, lib.calls);
            for (uint32_t i = 0; i < COUNT; i++) {
                uint32_t expected = contract_stepped(i, i, bound ? 1 : 2);
                for (uint32_t k = 0; k < 2 && bound; k++) expected = expected * 3 + i + 10 + binding;
                if (bound) expected = contract_stepped(expected, i, 1);
                assert_int_equal(x[i], expected);
                if (!bound) assert_int_equal(y[i], contract_stepped(i, i, 2));
            }
        }
        cuda_unload(f, l);
        free(p);
        cuda_close(f);
    }
}

/* Of a program by table, the call is told so. */
static void test_by_table(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    contract_step_params params = {COUNT, 1, 0};
    rota_kernel kernel = library_kernel();
    find_step(f);
    for (uint32_t by_table = 0; by_table < 2; by_table++) {
        test_program *p = library_program(&kernel, &params, false, false);
        p->desc.by_table = by_table;
        const uint32_t calls = lib.calls;
        contract_loaded l = cuda_load(f, p, memories);
        assert_int_equal(lib.calls, calls + 1);
        assert_int_equal(lib.by_table, by_table);
        assert_int_equal(lib.tunes, 1);
        cuda_unload(f, l);
        free(p);
    }
    cuda_close(f);
}

/* Nodes alike are tuned once; another size or parameter is another node. */
static void test_tune(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    contract_step_params params[2] = {{COUNT, 1, 0}, {COUNT, 2, 0}};
    rota_kernel kernel = library_kernel();
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < 40; i++) {
        test_program_batch(p);
        test_program_kernel(p, &kernel, &params[i % 2]);
        test_program_operand(p, 0, false, 0, i % 4 < 2 ? BYTES : BYTES / 2, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    }
    uint32_t *edges = contract_edges(p);
    rota_exec_program *program = NULL;
    assert_ok(f->device->vtable->program_create(f->device, &p->desc, &program));
    assert_int_equal(lib.tunes, 4);
    f->device->vtable->program_destroy(f->device, program);
    p->desc.by_table = true; /* nothing is measured */
    assert_ok(f->device->vtable->program_create(f->device, &p->desc, &program));
    assert_int_equal(lib.tunes, 4);
    f->device->vtable->program_destroy(f->device, program);
    free(edges);
    free(p);
    cuda_close(f);
}

/* ---- Kernels that are chosen and prepared ---- */

static rota_status prepare_step(const rota_cuda_call *call, void *out_prepared) {
    lib.prepares++;
    memcpy(out_prepared, &call->operands[1], 8);
    return ROTA_OK;
}

static rota_kernel prepared_step;
static const rota_kernel *choose(const void *params, const uint64_t *operand_bytes, uint32_t slot_mask,
                                 const rota_cuda_target *target) {
    (void)params;
    assert_int_equal(operand_bytes[0], BYTES);
    assert_non_null(target->name);
    return slot_mask ? NULL : &prepared_step;
}

static void test_select(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    lib = (library){0};
    prepared_step = contract_step;
    prepared_step.cuda.entry = "prepared_step";
    prepared_step.cuda.prepared_bytes = 8;
    prepared_step.cuda.prepare = prepare_step;
    cuda_stub_kernel(&prepared_step);
    rota_kernel chooser = contract_step;
    chooser.cuda.select = choose;
    contract_step_params params = {COUNT, 1, 0};
    for (uint32_t slot = 0; slot < 2; slot++) {
        test_program *p = library_program(&chooser, &params, slot, false);
        contract_loaded l = cuda_load(f, p, memories);
        assert_int_equal(lib.prepares, 1);
        for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
        uint64_t block[3] = {memories[0]->address};
        cuda_run(f, l, block, 1);
        for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], contract_stepped(i, i, 3));
        cuda_unload(f, l);
        free(p);
    }
    /* Prepared for addresses that a slot gives: refused. */
    test_program *p = library_program(&prepared_step, &params, true, false);
    uint32_t *edges = contract_edges(p);
    rota_exec_program *program;
    assert_status(f->device->vtable->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "slot"));
    free(edges);
    free(p);
    cuda_close(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library),  cmocka_unit_test(test_library_one_kernel),
        cmocka_unit_test(test_variants), cmocka_unit_test(test_tune),
        cmocka_unit_test(test_by_table), cmocka_unit_test(test_select),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
