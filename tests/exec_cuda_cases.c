/* Cases of exec/cuda's contract that hold over the stand-in for the driver as on a device. */
#include <stddef.h>
#ifdef ROTA_HAVE_CUDA
#include "tests/exec_cuda_kit.h"
#include <pthread.h>
#include <string.h>

/* Upload, a chain, read back, with memory of every kind. */
static void test_fixed(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_memory(f, 3u << 20, ROTA_EXEC_MEMORY_DEVICE),
                                    cuda_shared(f, 3 * BYTES)};
    uint32_t *host = memories[1]->host;
    for (uint32_t i = 0; i < 3 * COUNT; i++) host[i] = i;
    step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 2, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 0, false, 256, 2 * BYTES, ROTA_WRITE);
    test_program_operand(p, 1, false, 0, 2 * BYTES, ROTA_READ);
    for (uint32_t i = 0; i < 5; i++) {
        test_program_batch(p);
        test_program_kernel(p, &cuda_step, &params);
        test_program_operand(p, 0, false, 256, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, 256 + BYTES, BYTES, ROTA_READ);
    }
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, 2 * BYTES, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, 256, BYTES, ROTA_READ);
    cuda_loaded l = cuda_load(f, p, memories);
    cuda_run(f, l, NULL, 1);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(host[2 * COUNT + i], cuda_stepped(i, COUNT + i, 5));
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    f->device->vtable->memory_destroy(f->device, memories[1]);
    cuda_close(f);
}

/* Operands, a 4-byte and an 8-byte parameter, a copy and a fill through argument words, other values each
 * time; in two segments on two queues, each with its copy of the block. */
static void test_slots(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_shared(f, BYTES), cuda_shared(f, 4 * BYTES)};
    uint32_t *x = memories[0]->host, *other = memories[1]->host;
    step_params params = {COUNT, 0, 0};
    test_program *p = test_program_new(QUEUES, 1, 4);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_kernel(p, &cuda_step, &params);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, true, BYTES, BYTES, ROTA_READ); /* block[0] + BYTES */
    test_program_binding(p, 0, 1);
    test_program_binding(p, 1, 3);
    test_program_segment(p, 1);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 0, true, 2 * BYTES + 1, BYTES - 3, ROTA_WRITE); /* odd in every way */
    test_program_operand(p, 0, false, 1, BYTES - 3, ROTA_READ);
    test_program_fill(p, 0xABCD1234u);
    test_program_operand(p, 2, true, 4, 8, ROTA_WRITE);
    cuda_loaded l = cuda_load(f, p, memories);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            x[i] = i;
            other[COUNT + i] = 7 * i + round;
            other[2 * COUNT + i] = 0;
            other[3 * COUNT + i] = 5;
        }
        uint64_t block[4] = {memories[1]->address, 100 + round, memories[1]->address + 3 * BYTES,
                             (uint64_t)(round + 1) << 32};
        rota_exec_wait wait = {.queue = 0, .value = f->next[0] + 1};
        rota_exec_work works[] = {cuda_work(f, l, 0, 0, NULL, 0, block),
                                  cuda_work(f, l, 1, 1, &wait, 1, block)};
        cuda_submit(f, works, 2);
        cuda_wait(f, 1);
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t expected = 3 * i + 7 * i + round + 100 + round + round + 1;
            assert_int_equal(x[i], expected);
            if (i && i + 1 < COUNT) assert_int_equal(other[2 * COUNT + i], expected);
            assert_int_equal(other[3 * COUNT + i], i == 1 || i == 2 ? 0xABCD1234u : 5);
        }
        assert_int_equal(((uint8_t *)&other[2 * COUNT])[0], 0);
        assert_int_equal(((uint8_t *)&other[3 * COUNT - 1])[2], 0);
    }
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* Copies and fills of every alignment and of sizes around the steps of the kernels, between device and pinned
 * memory and inside the device. */
static void test_transfers(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    enum { SPACE = 200000, ROUNDS = 60 };
    static uint8_t expected[SPACE], filled[SPACE];
    rota_exec_memory *memories[] = {cuda_shared(f, SPACE), cuda_memory(f, SPACE, 0), cuda_memory(f, SPACE, 0),
                                    cuda_shared(f, 2 * SPACE)};
    const uint8_t kinds[] = {ROTA_EXEC_BASE_STAGING, ROTA_EXEC_BASE_ARENA, ROTA_EXEC_BASE_ARENA,
                             ROTA_EXEC_BASE_STAGING};
    uint64_t seed = 11;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint8_t *host = memories[0]->host, *back = memories[3]->host;
        uint64_t size = round < 40 ? 1 + test_below(&seed, 100) : 1 + test_below(&seed, 150000);
        uint64_t a = test_below(&seed, 33), b = test_below(&seed, 33), c = test_below(&seed, 33);
        uint64_t fill_at = 4 * (uint64_t)test_below(&seed, 9), fill_size = 4 * (size / 4);
        for (uint32_t i = 0; i < SPACE; i++) host[i] = (uint8_t)test_random(&seed);
        memset(back, 0x11, 2 * SPACE);
        memset(expected, 0x11, sizeof expected);
        memcpy(expected + c, host + a, size);
        memset(filled, 0x22, sizeof filled);
        for (uint64_t i = 0; i < fill_size; i++) filled[fill_at + i] = (uint8_t)(0xA1B2C3D4u >> 8 * (i % 4));
        test_program *p = test_program_new(QUEUES, 4, 0);
        p->desc.memory_kind = kinds;
        test_program_segment(p, 0);
        test_program_batch(p);
        test_program_copy(p);
        test_program_operand(p, 1, false, b, size, ROTA_WRITE);
        test_program_operand(p, 0, false, a, size, ROTA_READ);
        test_program_fill(p, 0x22222222u);
        test_program_operand(p, 3, false, SPACE, SPACE, ROTA_WRITE);
        test_program_batch(p);
        test_program_copy(p);
        test_program_operand(p, 2, false, c, size, ROTA_WRITE);
        test_program_operand(p, 1, false, b, size, ROTA_READ);
        test_program_fill(p, 0xA1B2C3D4u);
        test_program_operand(p, 3, false, SPACE + fill_at, fill_size, ROTA_WRITE);
        test_program_batch(p);
        test_program_copy(p);
        test_program_operand(p, 3, false, c, size, ROTA_WRITE);
        test_program_operand(p, 2, false, c, size, ROTA_READ);
        cuda_loaded l = cuda_load(f, p, memories);
        cuda_run(f, l, NULL, 1);
        if (memcmp(back, expected, SPACE) != 0)
            fail_msg("a copy of %llu bytes went wrong", (unsigned long long)size);
        if (memcmp(back + SPACE, filled, SPACE) != 0)
            fail_msg("a fill of %llu bytes went wrong", (unsigned long long)fill_size);
        cuda_unload(f, l);
        free(p);
    }
    cuda_close(f);
}

/* 1 000 submissions of a chain in flight at once, each behind the one before. */
static void test_many(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(&(rota_exec_open_options){.max_in_flight = 8});
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    step_params params = {COUNT, 1, 0};
    test_program *p = cuda_chain(3, &params);
    cuda_loaded l = cuda_load(f, p, memories);
    for (uint32_t sent = 0; sent < 1000;) {
        rota_exec_work works[10];
        rota_exec_wait waits[10];
        for (uint32_t i = 0; i < 10; i++, sent++) {
            waits[i] = (rota_exec_wait){.queue = 0, .value = f->next[0]};
            works[i] = cuda_work(f, l, 0, 0, &waits[i], 1, NULL);
        }
        cuda_submit(f, works, 10);
    }
    cuda_wait(f, 0);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], cuda_stepped(i, i, 3000));
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* Chains that hand over to each other across queues, and copies that come with works. */
static void test_queues(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_memory(f, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
    rota_exec_memory *up = cuda_memory(f, 2 * BYTES, ROTA_EXEC_MEMORY_HOST_WRITE);
    rota_exec_memory *down = cuda_memory(f, BYTES + 3, ROTA_EXEC_MEMORY_HOST_READ);
    step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        test_program_segment(p, queue);
        test_program_batch(p);
        test_program_kernel(p, &cuda_step, &params);
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    }
    cuda_loaded l = cuda_load(f, p, memories);
    uint64_t seed = 7;
    for (uint32_t round = 0; round < 50; round++) {
        uint32_t *values = up->host;
        for (uint32_t i = 0; i < COUNT; i++) {
            values[i] = i + round;
            values[COUNT + i] = i;
        }
        rota_exec_copy upload = {.destination = memories[0], .source = up, .size_bytes = 2 * BYTES};
        rota_exec_copy download = {
            .destination = down, .source = memories[0], .destination_offset = 3, .size_bytes = BYTES};
        rota_exec_work works[22] = {0};
        rota_exec_wait waits[22] = {0};
        works[0] = (rota_exec_work){
            .copies = &upload, .copy_count = 1, .queue = QUEUES - 1, .signal_value = ++f->next[QUEUES - 1]};
        uint32_t queue = QUEUES - 1;
        for (uint32_t i = 1; i <= 20; i++) {
            waits[i] = (rota_exec_wait){.queue = queue, .value = f->next[queue]};
            queue = (uint32_t)(test_random(&seed) % QUEUES);
            works[i] = cuda_work(f, l, queue, queue, &waits[i], 1, NULL);
        }
        waits[21] = (rota_exec_wait){.queue = queue, .value = f->next[queue]};
        works[21] = (rota_exec_work){.copies = &download,
                                     .copy_count = 1,
                                     .queue = QUEUES - 1,
                                     .signal_value = ++f->next[QUEUES - 1],
                                     .waits = &waits[21],
                                     .wait_count = 1};
        cuda_submit(f, works, 22);
        cuda_wait(f, QUEUES - 1);
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t got;
            memcpy(&got, (uint8_t *)down->host + 3 + 4 * i, 4);
            assert_int_equal(got, cuda_stepped(i + round, i, 20));
        }
    }
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* A wide segment and one whose batches wait for all of the one before. */
static void test_wide(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    enum { WIDTH = 100, DEPTH = 6 };
    rota_exec_memory *memories[] = {cuda_shared(f, WIDTH * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < WIDTH * COUNT; i++) x[i] = i;
    step_params params = {COUNT, 1, 0};
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t d = 0; d < DEPTH; d++) {
        test_program_batch(p);
        for (uint32_t w = 0; w < WIDTH;
             w += 2) { /* odd ones read, even ones change, then the other way round */
            uint32_t target = w + d % 2, source = w + 1 - d % 2;
            test_program_kernel(p, &cuda_step, &params);
            test_program_operand(p, 0, false, target * BYTES, BYTES, ROTA_READWRITE);
            test_program_operand(p, 0, false, ((source + 2 * d) % WIDTH) * BYTES, BYTES, ROTA_READ);
        }
    }
    cuda_loaded l = cuda_load(f, p, memories);
    for (uint32_t round = 0; round < 5; round++) {
        rota_exec_work w = cuda_work(f, l, 0, 0, NULL, 0, NULL);
        cuda_submit(f, &w, 1);
    }
    cuda_wait(f, 0);
    static uint32_t y[WIDTH][COUNT];
    for (uint32_t i = 0; i < WIDTH * COUNT; i++) y[i / COUNT][i % COUNT] = i;
    for (uint32_t round = 0; round < 5; round++)
        for (uint32_t d = 0; d < DEPTH; d++)
            for (uint32_t w = 0; w < WIDTH; w += 2) {
                uint32_t target = w + d % 2, source = (w + 1 - d % 2 + 2 * d) % WIDTH;
                for (uint32_t i = 0; i < COUNT; i++) y[target][i] = y[target][i] * 3 + y[source][i] + 1;
            }
    for (uint32_t i = 0; i < WIDTH * COUNT; i++) assert_int_equal(x[i], y[i / COUNT][i % COUNT]);
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* Per-command times lie in order. */
static void test_times(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(&(rota_exec_open_options){.diagnostics = true});
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    memset(memories[0]->host, 0, 2 * BYTES);
    step_params params = {COUNT, 1, 0};
    enum { CHAIN = 50 };
    test_program *p = cuda_chain(CHAIN, &params);
    cuda_loaded l = cuda_load(f, p, memories);
    rota_exec_time times[CHAIN];
    assert_ok(f->device->vtable->times(f->device, l.instance, times));
    assert_int_equal(times[0].end_ns, 0);
    uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < 2; i++) {
        rota_exec_work w = cuda_work(f, l, 0, 0, NULL, 0, NULL);
        cuda_submit(f, &w, 1);
    }
    cuda_wait(f, 0);
    uint64_t end = rota_clock_ns(), slack = 2000000;
    assert_ok(f->device->vtable->times(f->device, l.instance, times));
    for (uint32_t i = 0; i < CHAIN; i++) {
        assert_true(times[i].begin_ns + slack >= begin && times[i].end_ns <= end + slack);
        assert_true(times[i].begin_ns <= times[i].end_ns);
        if (i) assert_true(times[i].begin_ns >= times[i - 1].end_ns);
    }
    uint32_t node;
    assert_false(f->device->vtable->stuck_node(f->device, l.instance, &node));
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* Compile and destroy rounds leave nothing behind. */
static void test_leaks(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_cuda_device *device = (rota_cuda_device *)f->device;
    rota_exec_memory *memories[] = {cuda_memory(f, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
    step_params params = {COUNT, 1, 0};
    uint64_t held = 0;
    for (uint32_t round = 0; round < 60; round++) {
        test_program *p = cuda_chain(4, &params);
        p->desc.block_words = 1 + round % 3 * 100;
        test_program_binding(p, 0, 0);
        cuda_loaded l = cuda_load(f, p, memories);
        uint64_t block[256] = {0};
        cuda_run(f, l, block, 1);
        cuda_unload(f, l);
        free(p);
        if (round == 10) held = atomic_load(&device->objects.memory_bytes);
        if (round > 10) assert_int_equal(atomic_load(&device->objects.memory_bytes), held);
    }
    cuda_close(f);
}

/* Memories, programs and instances come and go on several threads while works are submitted. */
static void *churn(void *argument) {
    cuda_fixture *f = argument;
    const rota_exec_device_vtable *v = f->device->vtable;
    step_params params = {COUNT, 1, 0};
    for (uint32_t round = 0; round < 30; round++) {
        test_program *p = cuda_chain(2 + round % 3, &params);
        uint32_t *edges = cuda_edges(p);
        p->desc.block_words = round % 2;
        rota_exec_memory *m = NULL;
        rota_exec_program *program = NULL;
        rota_exec_instance *instance = NULL;
        bool good = v->memory_create(f->device, 2 * BYTES, 0, "churn", &m) == ROTA_OK &&
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

static void test_threads(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *memories[] = {cuda_shared(f, 2 * BYTES)};
    uint32_t *x = memories[0]->host;
    for (uint32_t i = 0; i < COUNT; i++) x[i] = x[COUNT + i] = i;
    step_params params = {COUNT, 1, 0};
    test_program *p = cuda_chain(1, &params);
    cuda_loaded l = cuda_load(f, p, memories);
    pthread_t threads[3];
    for (uint32_t t = 0; t < 3; t++) assert_int_equal(pthread_create(&threads[t], NULL, churn, f), 0);
    for (uint32_t i = 0; i < 200; i++) {
        rota_exec_wait wait = {.queue = 0, .value = f->next[0]};
        rota_exec_work w = cuda_work(f, l, 0, 0, &wait, 1, NULL);
        cuda_submit(f, &w, 1);
    }
    for (uint32_t t = 0; t < 3; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        assert_null(failed);
    }
    cuda_wait(f, 0);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(x[i], cuda_stepped(i, i, 200));
    cuda_unload(f, l);
    free(p);
    cuda_close(f);
}

/* Works wait for uploads of some length while other threads make instances for the same queue: what those
 * bring to the device may not come between a wait and its launch. */
static void test_waits_beside_instances(void **state) {
    (void)state;
    enum { UP_BYTES = 4 << 20, ROUNDS = 400 };
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *up = cuda_memory(f, UP_BYTES, ROTA_EXEC_MEMORY_HOST_WRITE);
    rota_exec_memory *memories[] = {cuda_memory(f, UP_BYTES, ROTA_EXEC_MEMORY_DEVICE),
                                    cuda_memory(f, BYTES, ROTA_EXEC_MEMORY_HOST_READ)};
    test_program *p = test_program_new(QUEUES, 2, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_copy(p);
    test_program_operand(p, 1, false, 0, BYTES, ROTA_WRITE);
    test_program_operand(p, 0, false, UP_BYTES - BYTES, BYTES, ROTA_READ); /* what comes last */
    cuda_loaded l = cuda_load(f, p, memories);
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
    step_params params = {COUNT, 1, 0};
    test_program *p = cuda_chain(1, &params);
    uint32_t *edges = cuda_edges(p);
    rota_exec_program *program = NULL;
    rota_kernel other = cuda_step;
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

const struct CMUnitTest exec_cuda_cases[] = {
    cmocka_unit_test(test_fixed),     cmocka_unit_test(test_slots),
    cmocka_unit_test(test_transfers), cmocka_unit_test(test_many),
    cmocka_unit_test(test_queues),    cmocka_unit_test(test_wide),
    cmocka_unit_test(test_times),     cmocka_unit_test(test_leaks),
    cmocka_unit_test(test_threads),   cmocka_unit_test(test_waits_beside_instances),
    cmocka_unit_test(test_refusals),
};
const size_t exec_cuda_case_count = sizeof exec_cuda_cases / sizeof exec_cuda_cases[0];
#endif
