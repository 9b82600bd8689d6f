/* What the tests of exec/vk's contract share: two kernels, an open device with its checks at close, and short
 * names for the contract's calls. Include once in a test. */
#ifndef ROTA_TESTS_EXEC_VK_KIT_H
#define ROTA_TESTS_EXEC_VK_KIT_H

#include "tests/kit/support.h"
#include "tests/exec/exec_contract.h"
#include "tests/exec/vk_support.h"
#include <stdlib.h>
#include "base/clock.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_image.h"
#include "exec/vk/vk_record.h"
#include "spv/test_saxpy.h"
#include "spv/test_step.h"

#define COUNT 1024u
#define BYTES (COUNT * 4u)
#define QUEUES 3u

typedef struct saxpy_params {
    uint32_t count;
    float scale;
} saxpy_params;

static inline void saxpy_grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    out_groups[0] = (((const saxpy_params *)params)->count + 255) / 256;
    out_groups[1] = out_groups[2] = 1;
}

static inline void step_grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    out_groups[0] = (((const contract_step_params *)params)->count + 63) / 64;
    out_groups[1] = out_groups[2] = 1;
}

static const rota_kernel_bindable saxpy_bindables[] = {{.name = "scale", .offset_bytes = 4, .size_bytes = 4}};
static const rota_kernel saxpy __attribute__((unused)) = {
    .name = "saxpy",
    .operand_count = 3,
    .param_bytes = sizeof(saxpy_params),
    .bindables = saxpy_bindables,
    .bindable_count = 1,
    .vk = {.words = rota_spv_test_saxpy, .size_bytes = sizeof rota_spv_test_saxpy, .grid = saxpy_grid},
};
static const rota_kernel_bindable step_bindables[] = {{.name = "add", .offset_bytes = 4, .size_bytes = 4},
                                                      {.name = "wide", .offset_bytes = 8, .size_bytes = 8}};
static const rota_kernel step __attribute__((unused)) = {
    .name = "step",
    .operand_count = 2,
    .param_bytes = sizeof(contract_step_params),
    .bindables = step_bindables,
    .bindable_count = 2,
    .vk = {.words = rota_spv_test_step, .size_bytes = sizeof rota_spv_test_step, .grid = step_grid},
};

/* One open device and what is used of it. */
typedef struct fixture {
    test_host host;
    rota_exec_device *device;
    uint64_t next[QUEUES];
} fixture;

static inline fixture *open_as(const rota_exec_open_options *changes, bool validation) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    rota_exec_open_options options = test_vk_options(&f->host, QUEUES);
    options.validation = validation;
    if (changes) {
        options.diagnostics = changes->diagnostics;
        options.touch = changes->touch;
        options.debug_names = changes->debug_names;
        if (changes->host.node_name) options.host.node_name = changes->host.node_name;
        options.max_in_flight = changes->max_in_flight;
        options.spin_ns = changes->spin_ns;
        if (changes->cache_dir) options.cache_dir = changes->cache_dir;
        options.test = changes->test;
    }
    rota_status status = rota_exec_vk_driver.open(&rota_exec_vk_driver, 0, &options, &f->device);
    if (status != ROTA_OK) {
        print_message("skipped: no Vulkan device: %s\n", rota_last_error());
        free(f);
        skip();
    }
    return f;
}

static inline fixture *open_with(const rota_exec_open_options *changes) {
    return open_as(changes, true);
}

static inline void close_quiet(fixture *f, bool expect_messages) {
    char text[1024];
    uint64_t messages = rota_vk_validation_messages(f->device, text, sizeof text);
    if (!expect_messages && messages)
        fail_msg("%llu validation messages, the last: %s", (unsigned long long)messages, text);
    assert_int_equal(atomic_load(&f->host.descending), 0);
    uint64_t abandoned = 1;
    f->device->vtable->close(f->device, rota_deadline_after(10000000000ull), &abandoned);
    assert_int_equal(abandoned, 0);
    free(f);
}

static inline rota_exec_memory *memory(fixture *f, uint64_t size, uint32_t flags) {
    rota_exec_memory *m = NULL;
    assert_ok(f->device->vtable->memory_create(f->device, size, flags, "test memory", &m));
    assert_int_equal(m->address % 256, 0);
    return m;
}

static inline rota_exec_memory *shared(fixture *f, uint64_t size) {
    return memory(f, size, ROTA_EXEC_MEMORY_HOST_READ | ROTA_EXEC_MEMORY_HOST_WRITE);
}

/* A program and one instance of it. */
typedef struct loaded {
    rota_exec_program *program;
    rota_exec_instance *instance;
} loaded;

static inline loaded load(fixture *f, const test_program *p, rota_exec_memory *const *memories) {
    loaded l = {0};
    assert_ok(f->device->vtable->program_create(f->device, &p->desc, &l.program));
    assert_ok(f->device->vtable->instance_create(f->device, l.program, memories, &l.instance));
    return l;
}

static inline void unload(fixture *f, loaded l) {
    f->device->vtable->instance_destroy(f->device, l.instance);
    f->device->vtable->program_destroy(f->device, l.program);
}

static inline rota_exec_work work(fixture *f, loaded l, uint32_t segment, uint32_t queue,
                                  const rota_exec_wait *waits, uint32_t wait_count, const uint64_t *block) {
    return (rota_exec_work){.instance = l.instance,
                            .segment = segment,
                            .queue = queue,
                            .signal_value = ++f->next[queue],
                            .waits = waits,
                            .wait_count = wait_count,
                            .block = block};
}

static inline void submit(fixture *f, const rota_exec_work *works, uint32_t count) {
    assert_ok(f->device->vtable->submit(f->device, works, count));
}

static inline void wait_for(fixture *f, uint32_t queue) {
    if (!test_host_wait(&f->host, queue, f->next[queue])) fail_msg("queue %u never got there", queue);
}

/* What test_step makes of x after so many steps with add 1. */
static inline uint32_t stepped(uint32_t x, uint32_t y, uint32_t times) {
    for (uint32_t i = 0; i < times; i++) x = x * 3 + y + 1;
    return x;
}

/* saxpy of the first two of three arrays, one after the other in memory 0, into the third. */
static inline void saxpy_node(test_program *p, const saxpy_params *params) {
    test_program_kernel(p, &saxpy, params);
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READ);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    test_program_operand(p, 0, false, 2 * BYTES, BYTES, ROTA_WRITE);
}

/* A program of one node of a kernel with saxpy's operands, to be made and never run: all are the same array. */
static inline test_program *made_program(const rota_kernel *kernel, const void *params) {
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_kernel(p, kernel, params);
    for (uint32_t i = 0; i < 3; i++) test_program_operand(p, 0, false, 0, BYTES, ROTA_READ);
    return p;
}

#define CHAIN 200u

static inline test_program *chain_program(uint32_t length, const contract_step_params *params) {
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    for (uint32_t i = 0; i < length; i++) {
        test_program_batch(p);
        test_program_kernel(p, &step, params);
        test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
        test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    }
    return p;
}

#endif
