/* Cases of exec/cuda's own that hold over the stand-in for the driver as on a device. */
#include <stddef.h>
#ifdef ROTA_HAVE_CUDA
#include "tests/exec/cuda/exec_cuda_kit.h"
#include <pthread.h>
#include <string.h>

static const uint64_t bytes = UINT64_C(4) * COUNT;

/* Memories, programs and instances come and go. */
static void *churn(void *argument) {
    cuda_fixture *f = argument;
    const rota_exec_device_vtable *v = f->device->vtable;
    contract_step_params params = {COUNT, 1, 0};
    for (uint32_t round = 0; round < 30; round++) {
        test_program *p = contract_chain(2 + round % 3, &params);
        uint32_t *edges = contract_edges(p);
        p->desc.block_words = round % 2;
        rota_exec_memory *m = NULL;
        rota_exec_program *program = NULL;
        rota_exec_instance *instance = NULL;
        bool good = v->memory_create(f->device, 2 * bytes, 0, "churn", &m) == ROTA_OK &&
                    v->program_create(f->device, &p->desc, &program) == ROTA_OK &&
                    v->instance_create(f->device, program, &m, &instance) == ROTA_OK;
        if (!good) return p; /* not NULL: the thread failed */
        v->instance_destroy(f->device, instance);
        v->program_destroy(f->device, program);
        v->memory_destroy(f->device, m);
        free(edges);
        free(p);
    }
    return NULL;
}

/* Works wait for uploads of some length while other threads make instances for the same queue: what those
 * bring to the device may not come between a wait and its launch. */
static void test_waits_beside_instances(void **state) {
    (void)state;
    enum { UP_BYTES = 4 << 20, ROUNDS = 400 };
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *up = cuda_memory(f, UP_BYTES, ROTA_EXEC_MEMORY_HOST_WRITE);
    rota_exec_memory *memories[] = {cuda_memory(f, UP_BYTES, ROTA_EXEC_MEMORY_DEVICE),
                                    cuda_memory(f, bytes, ROTA_EXEC_MEMORY_HOST_READ)};
    test_program *p = test_program_new(QUEUES, 2, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, 0, bytes, ROTA_WRITE);
    test_program_operand(p, 0, false, UP_BYTES - bytes, bytes, ROTA_READ); /* what comes last */
    contract_loaded l = cuda_load(f, p, memories);
    pthread_t threads[3];
    bool running = false;
    uint32_t *last = (uint32_t *)up->host + (UP_BYTES - BYTES) / 4, *got = memories[1]->host;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t t = 0; round % 40 == 0 && t < 3; t++) {
            void *failed = NULL;
            if (running) pthread_join(threads[t], &failed);
            assert_null(failed);
            assert_int_equal(pthread_create(&threads[t], NULL, churn, f), 0);
        }
        running = true;
        for (uint32_t i = 0; i < COUNT; i++) last[i] = round * COUNT + i;
        rota_exec_copy upload = {.destination = memories[0], .source = up, .size_bytes = UP_BYTES};
        rota_exec_work works[2] = {
            {.copies = &upload, .copy_count = 1, .queue = 1, .signal_value = ++f->next[1]}};
        rota_exec_wait wait = {.queue = 1, .value = f->next[1]};
        works[1] = cuda_work(f, l, 0, 0, &wait, 1, NULL);
        cuda_submit(f, works, 2);
        cuda_wait(f, 0);
        for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(got[i], round * COUNT + i);
    }
    for (uint32_t t = 0; t < 3; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        assert_null(failed);
    }
    cuda_unload(f, l);
    free(p);
    rota_exec_memory *all[] = {up, memories[0], memories[1]};
    for (uint32_t i = 0; i < 3; i++) f->device->vtable->memory_destroy(f->device, all[i]);
    cuda_close(f);
}

/* What cannot run is refused with names and numbers. */
static void test_refusals(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    const rota_exec_device_vtable *v = f->device->vtable;
    rota_exec_memory *m = NULL;
    assert_status(v->memory_create(f->device, f->device->info.max_allocation_bytes + 1, 0, "too big", &m),
                  ROTA_OUT_OF_MEMORY);
    assert_non_null(strstr(rota_last_error(), "too big"));
    assert_non_null(strstr(rota_last_error(), " are free, rota holds "));
    contract_step_params params = {COUNT, 1, 0};
    test_program *p = contract_chain(1, &params);
    uint32_t *edges = contract_edges(p);
    rota_exec_program *program = NULL;
    rota_kernel other = contract_step;
    p->commands[0].u.kernel.kernel = &other;
    other.cuda.grid = NULL;
    p->commands[0].u.kernel.groups[1] = 65536;
    assert_status(v->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "65536"));
    p->commands[0].u.kernel.groups[1] = 1;
    other.cuda.block[0] = 2048;
    assert_status(v->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "2048"));
    other.cuda.block[0] = 64;
    other.cuda.shared_bytes = 1u << 20;
    assert_status(v->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "1048576"));
    other.cuda.shared_bytes = 0;
    other.cuda.entry = "no such kernel";
    assert_status(v->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "no such kernel"));
    other.cuda.image = NULL;
    assert_status(v->program_create(f->device, &p->desc, &program), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "node 0"));
    free(edges);
    free(p);
    cuda_close(f);
}

/* A kernel whose grid the device sets, over few, none, all and few of its items again. */
static void test_grids(void **state) {
    (void)state;
    static const uint32_t counts[] = {33, 0, COUNT, 1, COUNT - 1, 65};
    static const contract_step_params params = {COUNT, 1, 0};
    cuda_fixture *f = cuda_open(NULL);
    ((rota_cuda_device *)f->device)->bounds.grid_min = 2; /* so that a few are many */
    rota_exec_memory *m = cuda_shared(f, 2 * bytes + 4);
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    rota_exec_command *command = test_program_kernel(p, &contract_step, &params);
    command->is_counted = true;
    command->u.kernel.count_max = COUNT;
    command->u.kernel.items_per_group = 64;
    command->u.kernel.count_bindable_plus_1 = 3;
    test_program_operand(p, 0, false, 0, bytes, ROTA_READWRITE);
    test_program_operand(p, 0, false, bytes, bytes, ROTA_READ);
    test_program_operand(p, 0, false, 2 * bytes, 4, ROTA_READ);
    const contract_loaded l = cuda_load(f, p, &m);
    uint32_t *x = (uint32_t *)(void *)m->host;
    for (uint32_t round = 0; round < sizeof counts / sizeof *counts; round++) {
        for (uint32_t i = 0; i < 2 * COUNT; i++) x[i] = i;
        x[2 * (size_t)COUNT] = counts[round];
        cuda_run(f, l, NULL, 1);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_int_equal(x[i], i < counts[round] ? contract_stepped(i, COUNT + i, 1) : i);
    }
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, m);
    cuda_close(f);
}

const struct CMUnitTest exec_cuda_cases[] = {
    cmocka_unit_test(test_grids),
    cmocka_unit_test(test_waits_beside_instances),
    cmocka_unit_test(test_refusals),
};
const size_t exec_cuda_case_count = sizeof exec_cuda_cases / sizeof exec_cuda_cases[0];
#endif
