/* Memory of the application's as a buffer's: no byte of it is copied, and it is given back once, when nothing touches
 * it any more, whatever became of the device. On the CPU, the adversary, lavapipe and the stand-in for CUDA. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/smoke_kernel.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kit/nap.h"

enum { WORDS = 4096, BYTES = 4 * WORDS };
#define PATIENCE_NS 20000000000u

/* What the application knows of its memory. */
typedef struct owned {
    uint32_t *words;
    _Atomic uint32_t releases;
    pthread_t released_by;
} owned;

static void released(void *user) {
    owned *mine = user;
    mine->released_by = pthread_self();
    (void)ra_fetch_add_seq_cst(&mine->releases, 1);
}

static owned own(uint32_t value) {
    owned mine = {.words = aligned_alloc(64, BYTES)};
    assert_non_null(mine.words);
    for (uint32_t i = 0; i < WORDS; i++) mine.words[i] = value + i;
    return mine;
}

static rota_adopt_options options_of(owned *mine, const char *name) {
    return ROTA_ADOPT_OPTIONS(.name = name, .memory = mine->words, .size_bytes = BYTES, .release = released,
                              .user = mine);
}

static rota_buffer *adopt(rota_device *device, owned *mine, const char *name) {
    const rota_adopt_options options = options_of(mine, name);
    rota_buffer *buffer;
    assert_ok(rota_buffer_adopt(device, &options, &buffer));
    return buffer;
}

static void expect_releases(owned *mine, uint32_t count) {
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (ra_load_seq_cst(&mine->releases) < count && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(&mine->releases), count);
}

static void expect_words(const owned *mine, uint32_t value) {
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(mine->words[i], value + i);
}

static uint64_t memory_bytes(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    assert_ok(rota_runtime_get_stats(runtime, &stats));
    return stats.memory_bytes;
}

/* ---- On the CPU ---- */

static void no_copy(void **state) {
    runtime_fixture *f = *state;
    owned mine = own(10);
    rota_buffer *buffer = adopt(f->device, &mine, "mine");
    uint64_t address;
    assert_ok(rota_buffer_address(buffer, f->device, &address));
    assert_int_equal(address, (uint64_t)(uintptr_t)mine.words);
    rota_plan *plan = test_plan_1(f->device, "increments", &test_increment, buffer, ROTA_READWRITE);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    expect_words(&mine, 11);
    uint32_t word = 7;
    assert_ok(rota_buffer_write(buffer, NULL, 0, &word, 4, &ticket));
    assert_ok(rota_wait(ticket, 0));
    assert_int_equal(mine.words[0], 7);
    mine.words[1] = 99;
    assert_ok(rota_buffer_read(buffer, 4, &word, 4));
    assert_int_equal(word, 99);
    rota_plan_release(plan);
    assert_int_equal(ra_load_seq_cst(&mine.releases), 0);
    rota_buffer_release(buffer);
    expect_releases(&mine, 1);
    free(mine.words);
}

/* It counts towards no limit. The device's staging memory, which comes and goes meanwhile, is less. */
static void uncounted(void **state) {
    runtime_fixture *f = *state;
    const size_t size = (size_t)1 << 30;
    void *pages =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    const uint64_t before = memory_bytes(f->runtime);
    owned mine = {.words = pages};
    rota_adopt_options options = options_of(&mine, "large");
    options.size_bytes = size;
    rota_buffer *buffer;
    assert_ok(rota_buffer_adopt(f->device, &options, &buffer));
    assert_true(memory_bytes(f->runtime) < before + size);
    rota_buffer_release(buffer);
    expect_releases(&mine, 1);
    assert_int_equal(munmap(pages, size), 0);
}

/* Not before the last use has passed: a view, a plan and a kernel hold it in turn. */
static void released_after_last_use(void **state) {
    runtime_fixture *f = *state;
    owned mine = own(0);
    rota_buffer *buffer = adopt(f->device, &mine, "mine"), *view;
    assert_ok(rota_buffer_create_view(buffer, 0, 64, &view));
    rota_plan *plan = test_plan_1(f->device, "gate", &test_gate, buffer, ROTA_READWRITE);
    rota_buffer_release(buffer);
    test_gate_open(false);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    test_gates_running(1);
    rota_plan_release(plan);
    rota_buffer_release(view);
    test_nap_ms(50);
    assert_int_equal(ra_load_seq_cst(&mine.releases), 0);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    expect_releases(&mine, 1);
    free(mine.words);
}

static void undefined(void **state) {
    runtime_fixture *f = *state;
    owned mine = own(0);
    rota_adopt_options options = options_of(&mine, "mine");
    options.is_undefined = true;
    rota_buffer *buffer;
    uint32_t word;
    assert_ok(rota_buffer_adopt(f->device, &options, &buffer));
    assert_status(rota_buffer_read(buffer, 0, &word, 4), ROTA_UNDEFINED_DATA);
    rota_buffer_release(buffer);
    expect_releases(&mine, 1);
    free(mine.words);
}

/* Refused where it is recorded, bound or written. */
static void read_only(void **state) {
    runtime_fixture *f = *state;
    owned mine = own(3);
    rota_adopt_options options = options_of(&mine, "constants");
    options.read_only = true;
    rota_buffer *buffer, *view, *slot;
    assert_ok(rota_buffer_adopt(f->device, &options, &buffer));
    assert_ok(rota_buffer_create_view(buffer, 16, 16, &view));
    uint32_t word = 1;
    assert_status(rota_buffer_write(view, NULL, 0, &word, 4, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("'constants', which is read-only");
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "slot", 16, &slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_status(rota_record_fill(recorder, view, 0, 16, 0, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("WRITE of read-only buffer 'constants'");
    assert_ok(rota_record_fill(recorder, slot, 0, 16, 0, NULL));
    rota_recorder_close(recorder);
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    assert_ok(rota_args_create(plan, &args));
    assert_status(rota_args_set_buffer(args, slot, view), ROTA_INVALID_ARGUMENT);
    expect_said("read-only buffer 'constants' bound to 'slot'");
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer *copy = test_buffer(f->runtime, "copy", BYTES);
    const test_node node = {
        &test_copy, "copy", {{buffer, 0, ROTA_WHOLE, ROTA_READ}, {copy, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    plan = test_plan(f->device, "reads", &node, 1);
    assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    assert_ok(rota_buffer_read(copy, 8, &word, 4));
    assert_int_equal(word, 5);
    rota_plan_release(plan);
    rota_buffer_release(copy);
    rota_buffer_release(view);
    rota_buffer_release(buffer);
    expect_releases(&mine, 1);
    free(mine.words);
}

/* Nothing is released of what was not adopted. */
static void refused(void **state) {
    runtime_fixture *f = *state;
    owned mine = own(0);
    rota_buffer *buffer;
    rota_adopt_options options = options_of(&mine, "odd");
    options.memory = (uint8_t *)mine.words + 4;
    options.size_bytes = 16;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_MISALIGNED);
    assert_null(buffer);
    options = options_of(&mine, "none");
    options.memory = NULL;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    options = options_of(&mine, "empty");
    options.size_bytes = 0;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    options = options_of(&mine, "kind");
    options.kind = ROTA_MEMORY_KIND_COUNT;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    options = options_of(&mine, "both");
    options.kind = ROTA_MEMORY_FD;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    options.memory = NULL;
    options.allocation_bytes = BYTES;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_UNSUPPORTED);
    options.offset_bytes = 64;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    expect_said("16384 bytes from 64 on, expected them to end by 16384");
    options.offset_bytes = UINT64_MAX - 255; /* the sum wraps */
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    options = options_of(&mine, "last");
    options.memory = (void *)(UINTPTR_MAX - 4095);
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_INVALID_ARGUMENT);
    options = options_of(&mine, "device");
    options.kind = ROTA_MEMORY_DEVICE;
    assert_status(rota_buffer_adopt(f->device, &options, &buffer), ROTA_UNSUPPORTED);
    expect_said("expected host memory");
    assert_int_equal(ra_load_seq_cst(&mine.releases), 0);
    free(mine.words);
}

/* ---- Two devices, and what becomes of them ---- */

typedef struct pair {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *cpu, *other;
} pair;

static pair *open_pair(void) {
    pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->options.seed = 5;
    assert_ok(
        adversary_runtime_open(&p->options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &p->runtime));
    assert_ok(rota_device_open(p->runtime, "cpu", &p->cpu));
    assert_ok(rota_device_open(p->runtime, "adversary", &p->other));
    return p;
}

static void run(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(plan);
}

/* Bytes go to the other device and, once this one needs them, come back into the application's memory. */
static void moves(void **state) {
    (void)state;
    pair *p = open_pair();
    owned mine = own(20);
    rota_buffer *buffer = adopt(p->cpu, &mine, "mine");
    run(test_plan_1(p->other, "there", &test_increment, buffer, ROTA_READWRITE));
    expect_words(&mine, 20);
    run(test_plan_1(p->cpu, "here", &test_increment, buffer, ROTA_READWRITE));
    expect_words(&mine, 22);
    rota_buffer_release(buffer);
    expect_releases(&mine, 1);
    assert_ok(rota_runtime_close(p->runtime, 0));
    assert_int_equal(p->options.violations, 0);
    assert_int_equal(p->options.live_memories, 0);
    free(mine.words);
    free(p);
}

/* One that is still held when its runtime closes is given back there; its release later does nothing. */
static void closed_before_release(void **state) {
    (void)state;
    pair *p = open_pair();
    owned a = own(0), b = own(0);
    rota_buffer *first = adopt(p->cpu, &a, "a"), *second = adopt(p->other, &b, "b");
    run(test_plan_1(p->other, "there", &test_increment, second, ROTA_READWRITE));
    expect_words(&b, 1);
    assert_ok(rota_runtime_close(p->runtime, 0));
    assert_int_equal(ra_load_seq_cst(&a.releases), 1);
    assert_int_equal(ra_load_seq_cst(&b.releases), 1);
    assert_true(pthread_equal(a.released_by, pthread_self()));
    uint32_t word;
    assert_status(rota_buffer_read(first, 0, &word, 4), ROTA_WRONG_STATE);
    rota_buffer_release(first);
    rota_buffer_release(second);
    assert_int_equal(ra_load_seq_cst(&a.releases), 1);
    assert_int_equal(p->options.violations, 0);
    free(a.words);
    free(b.words);
    free(p);
}

typedef struct held {
    owned memory;
    rota_buffer *buffers[2]; /* that go with it; NULL: none */
} held;

static void drops(void *user) {
    held *mine = user;
    released(&mine->memory);
    for (uint32_t i = 0; i < 2; i++) rota_buffer_release(mine->buffers[i]);
}

/* Close calls `release`, which drops the reference to its own buffer and to one that close came to later. */
static void closed_then_dropped(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *cpu;
    held mine[2] = {{.memory = own(0)}, {.memory = own(0)}};
    rota_buffer *buffers[2];
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    for (uint32_t i = 0; i < 2; i++) {
        rota_adopt_options options = options_of(&mine[i].memory, "mine");
        options.release = drops;
        options.user = &mine[i];
        assert_ok(rota_buffer_adopt(cpu, &options, &buffers[i]));
    }
    mine[1].buffers[0] = buffers[1];
    mine[1].buffers[1] = buffers[0];
    assert_ok(rota_runtime_close(runtime, 0));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ra_load_seq_cst(&mine[i].memory.releases), 1);
        free(mine[i].memory.words);
    }
}

/* `keeps`: the executor does not know whether the device goes on, and has the memory until it is closed. */
static void lost(bool keeps) {
    pair *p = open_pair();
    owned mine = own(0);
    rota_buffer *buffer = adopt(p->other, &mine, "mine");
    p->options.faults.keeps_adopted = keeps;
    atomic_store(&p->options.faults.lost_in_works, 1);
    rota_plan *plan = test_plan_1(p->other, "lost", &test_increment, buffer, ROTA_READWRITE);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    (void)rota_wait(ticket, 0);
    /* What is handed to it before is kept until close, and the memory with it. */
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (!rota_device_is_lost(p->other) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    owned late = own(0);
    const rota_adopt_options options = options_of(&late, "late");
    rota_buffer *none;
    assert_status(rota_buffer_adopt(p->other, &options, &none), ROTA_DEVICE_LOST);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    if (!keeps) expect_releases(&mine, 1);
    test_nap_ms(50);
    assert_int_equal(ra_load_seq_cst(&mine.releases), keeps ? 0 : 1);
    (void)rota_runtime_close(p->runtime, 0);
    assert_int_equal(ra_load_seq_cst(&mine.releases), 1);
    assert_int_equal(ra_load_seq_cst(&late.releases), 0);
    assert_int_equal(p->options.violations, 0);
    free(mine.words);
    free(late.words);
    free(p);
}
static void lost_device(void **state) {
    (void)state;
    lost(false);
}
static void lost_device_keeps(void **state) {
    (void)state;
    lost(true);
}

/* A device that close abandons may go on to touch the memory: the application does not get it back. */
static void abandoned(void **state) {
    (void)state;
    static owned mine;
    mine = own(0);
    rota_runtime *runtime;
    rota_device *cpu;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    rota_buffer *buffer = adopt(cpu, &mine, "mine");
    rota_plan *plan = test_plan_1(cpu, "stays", &test_gate, buffer, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    test_gates_running(1);
    assert_status(rota_runtime_close(runtime, 50000000), ROTA_TIMEOUT);
    assert_int_equal(ra_load_seq_cst(&mine.releases), 0);
    rota_buffer_release(buffer);
    rota_plan_release(plan);
    assert_int_equal(ra_load_seq_cst(&mine.releases), 0);
    test_gate_open(true);
}

/* ---- Drivers ---- */

/* c = a + b over adopted memory, c being the application's too. */
static void add(rota_device *device, rota_buffer *const *abc) {
    const uint32_t words = WORDS;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    const rota_access accesses[] = {{abc[0], 0, ROTA_WHOLE, ROTA_READ},
                                    {abc[1], 0, ROTA_WHOLE, ROTA_READ},
                                    {abc[2], 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .accesses = accesses,
                                                   .access_count = 3, .params = &words),
                                 NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(graph);
    run(plan);
}

static void fill_floats(owned *mine, float step) {
    for (uint32_t i = 0; i < WORDS; i++) {
        const float value = step * (float)i;
        memcpy(&mine->words[i], &value, sizeof value);
    }
}

static void expect_floats(const owned *mine, float step) {
    for (uint32_t i = 0; i < WORDS; i++) {
        float value;
        memcpy(&value, &mine->words[i], sizeof value);
        assert_true(value == step * (float)i);
    }
}

/* Host memory as a Vulkan device's own, none of it at the beginning of a page. */
static void vulkan_host(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &runtime));
    if (rota_device_open(runtime, "vk:0", &device) != ROTA_OK) {
        print_message("no Vulkan device: %s\n", rota_last_error());
        assert_ok(rota_runtime_close(runtime, 0));
        skip();
    }
    owned memory[3];
    rota_buffer *buffers[3];
    uint8_t *pages = aligned_alloc(4096, 3 * 2 * BYTES);
    assert_non_null(pages);
    for (uint32_t i = 0; i < 3; i++) {
        memory[i] = (owned){.words = (uint32_t *)(void *)(pages + (size_t)i * 2 * BYTES + 48)};
        fill_floats(&memory[i], (float)(i + 1));
        const rota_adopt_options options = options_of(&memory[i], "host");
        const rota_status status = rota_buffer_adopt(device, &options, &buffers[i]);
        if (status == ROTA_UNSUPPORTED && i == 0) {
            print_message("%s\n", rota_last_error());
            assert_ok(rota_runtime_close(runtime, 0));
            free(pages);
            skip();
        }
        assert_ok(status);
    }
    add(device, buffers);
    expect_floats(&memory[2], 3);
    rota_adopt_options options = options_of(&memory[0], "pointer");
    options.kind = ROTA_MEMORY_DEVICE;
    rota_buffer *none;
    assert_status(rota_buffer_adopt(device, &options, &none), ROTA_UNSUPPORTED);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    for (uint32_t i = 0; i < 3; i++) expect_releases(&memory[i], 1);
    assert_ok(rota_runtime_close(runtime, 0));
    free(pages);
}

#ifdef ROTA_HAVE_CUDA
/* Device pointers, which the driver is asked for. */
static void cuda_pointers(void **state) {
    (void)state;
    if (!cuda_stub_has_images()) skip();
    rota_runtime *runtime;
    rota_device *device;
    cuda_stub_start(3, 1);
    const rota_cuda_api *cu = cuda_stub_api();
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &runtime));
    assert_ok(rota_device_open(runtime, "cuda:0", &device));
    CUcontext context, before;
    assert_int_equal(cu->DevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cu->CtxPushCurrent(context), CUDA_SUCCESS);
    owned memory[3];
    rota_buffer *buffers[3];
    for (uint32_t i = 0; i < 3; i++) {
        CUdeviceptr address;
        assert_int_equal(cu->MemAlloc(&address, BYTES + 16), CUDA_SUCCESS);
        memory[i] = (owned){.words = (uint32_t *)(uintptr_t)(address + 16)};
        fill_floats(&memory[i], (float)(i + 1)); /* the stand-in's memory is the host's */
        rota_adopt_options options = options_of(&memory[i], "mine");
        options.kind = ROTA_MEMORY_DEVICE;
        assert_ok(rota_buffer_adopt(device, &options, &buffers[i]));
        uint64_t is_at;
        assert_ok(rota_buffer_address(buffers[i], device, &is_at));
        assert_int_equal(is_at, address + 16);
    }
    add(device, buffers);
    expect_floats(&memory[2], 3);
    rota_buffer *none;
    rota_adopt_options options = options_of(&memory[0], "long");
    options.kind = ROTA_MEMORY_DEVICE;
    options.size_bytes = BYTES + 16;
    assert_status(rota_buffer_adopt(device, &options, &none), ROTA_INVALID_ARGUMENT);
    expect_said("byte 16384 of the 16400 of 'long'");
    owned host = own(0);
    options.memory = host.words;
    assert_status(rota_buffer_adopt(device, &options, &none), ROTA_INVALID_ARGUMENT);
    options.kind = ROTA_MEMORY_HOST;
    assert_status(rota_buffer_adopt(device, &options, &none), ROTA_UNSUPPORTED);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    for (uint32_t i = 0; i < 3; i++) {
        expect_releases(&memory[i], 1);
        assert_int_equal(cu->MemFree((CUdeviceptr)(uintptr_t)memory[i].words - 16), CUDA_SUCCESS);
    }
    assert_int_equal(cu->CtxPopCurrent(&before), CUDA_SUCCESS);
    assert_int_equal(cu->DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    assert_ok(rota_runtime_close(runtime, 0));
    cuda_stub_end_clean();
    free(host.words);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_copy, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(uncounted, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(released_after_last_use, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(undefined, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(read_only, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(refused, runtime_setup, runtime_teardown),
        cmocka_unit_test(moves),
        cmocka_unit_test(closed_before_release),
        cmocka_unit_test(closed_then_dropped),
        cmocka_unit_test(lost_device),
        cmocka_unit_test(lost_device_keeps),
        cmocka_unit_test(vulkan_host),
#ifdef ROTA_HAVE_CUDA
        cmocka_unit_test(cuda_pointers),
#endif
        cmocka_unit_test(abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
