/* Counted commands on exec/vk, beside the contract's cases: what is refused when a program is made, whom failures are
 * told of, and what synchronization validation sees of the barriers. */
#include "tests/exec/vk/exec_vk_kit.h"

#include <stdio.h>
#include <string.h>

enum { WORD = 3 * BYTES, LATER = WORD + 16, MEMORY = WORD + 32, UNIT = 8 };

static const contract_step_params params = {COUNT, 1, 0};

static void step_items(const void *from, const uint64_t *operand_bytes, uint64_t *out_items,
                       uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const contract_step_params *)from)->count;
    *out_grain = 64;
}
static const rota_kernel_bindable counted_bindables[] = {
    {.name = "add", .offset_bytes = 4, .size_bytes = 4},
    {.name = "wide", .offset_bytes = 8, .size_bytes = 8},
    {.name = "count", .offset_bytes = 0, .size_bytes = 4}};
static const rota_kernel counted_step = {
    .name = "counted step",
    .operand_count = 2,
    .param_bytes = sizeof params,
    .bindables = counted_bindables,
    .bindable_count = 3,
    .cpu = {.items = step_items},
    .vk = {.words = rota_spv_test_step, .size_bytes = sizeof rota_spv_test_step, .grid = step_grid},
};

/* A fill of the count and a kernel that it is of; beside that a fill of the next, of which is a copy over what the
 * kernel wrote. */
static test_program *counted_program(uint32_t value, uint32_t max) {
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_fill(p, value);
    test_program_operand(p, 0, false, WORD, 4, ROTA_WRITE);
    test_program_batch(p);
    rota_exec_command *command = test_program_kernel(p, &counted_step, &params);
    command->is_counted = true;
    command->u.kernel.count_max = max;
    command->u.kernel.items_per_group = 64;
    command->u.kernel.count_bindable_plus_1 = 3;
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    test_program_operand(p, 0, false, WORD, 4, ROTA_READ);
    test_program_fill(p, value);
    test_program_operand(p, 0, false, LATER, 4, ROTA_WRITE);
    test_program_batch(p);
    command = test_program_copy(p);
    command->is_counted = true;
    command->u.copy.unit_bytes = UNIT;
    command->u.copy.count_max = COUNT / 2;
    test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
    test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
    test_program_operand(p, 0, false, LATER, 4, ROTA_READ);
    return p;
}

/* ---- What is refused ---- */

static void refuse(fixture *f, test_program *p, rota_status status, const char *says) {
    rota_exec_program *program = NULL;
    assert_status(f->device->vtable->program_create(f->device, &p->desc, &program), status);
    if (!strstr(rota_last_error(), says)) fail_msg("no '%s' in: %s", says, rota_last_error());
    free(p);
}

static const rota_kernel *select_itself(const void *of_node, const uint64_t *operand_bytes,
                                        uint32_t features) {
    (void)of_node, (void)operand_bytes, (void)features;
    return NULL;
}

static void test_refused(void **state) {
    (void)state;
    fixture *f = open_with(NULL);
    refuse(f, counted_program(1, COUNT + 1), ROTA_OUT_OF_RANGE, "1024 items");
    refuse(f, counted_program(1, 0), ROTA_INVALID_ARGUMENT, "counted up to 0");
    test_program *p = counted_program(1, COUNT);
    p->operands[p->commands[1].first_operand + 2].size_bytes = 8;
    refuse(f, p, ROTA_INVALID_ARGUMENT, "last operand is 4");
    p = counted_program(1, COUNT);
    p->commands[3].u.copy.count_max = 3;
    refuse(f, p, ROTA_OUT_OF_RANGE, "at most 24 bytes");
    p = counted_program(1, COUNT);
    p->commands[1].u.kernel.count_bindable_plus_1 = 0;
    refuse(f, p, ROTA_UNSUPPORTED, "none of its parameters gets the count");
    rota_kernel says_nothing = counted_step;
    says_nothing.cpu = (rota_kernel_cpu){NULL};
    p = counted_program(1, UINT32_MAX);
    p->commands[1].u.kernel.kernel = &says_nothing;
    p->commands[1].u.kernel.items_per_group = 1;
    refuse(f, p, ROTA_UNSUPPORTED, "4294967295 workgroups along x");
    rota_kernel several = counted_step;
    several.vk.select = select_itself;
    p = counted_program(1, COUNT);
    p->commands[1].u.kernel.kernel = &several;
    refuse(f, p, ROTA_UNSUPPORTED, "another may take its place");
    close_quiet(f, false);
}

/* ---- Failures ---- */

typedef struct told {
    uint32_t failures, node;
    const void *cookie;
    uint64_t reached; /* by the queue before */
    char message[160];
} told;
static told heard;
static fixture *hearing;

static void on_failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                      const char *message) {
    (void)user, (void)owner;
    heard.failures++;
    heard.node = node;
    heard.cookie = cookie;
    heard.reached = atomic_load(&hearing->host.reached[0]);
    assert_int_equal(status, ROTA_NODE_FAILED);
    (void)snprintf(heard.message, sizeof heard.message, "%s", message);
}

/* The work whose count was too high is told of, before its value is reached, each time anew and no other. */
static void test_failures(void **state) {
    (void)state;
    enum { ROUNDS = 3 };
    fixture *f = hearing = open_with(NULL);
    ((rota_vk_device *)f->device)->host.failed = on_failed;
    rota_exec_memory *m = shared(f, MEMORY);
    memset(m->host, 0, MEMORY);
    test_program *wrong = counted_program(41, 40), *right = counted_program(40, 40);
    const loaded bad = load(f, wrong, &m), good = load(f, right, &m);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        rota_exec_work works[3];
        const rota_exec_wait waits[2] = {{0, f->next[0] + 1}, {0, f->next[0] + 2}};
        works[0] = work(f, good, 0, 0, NULL, 0, NULL);
        works[1] = work(f, bad, 0, 0, &waits[0], 1, NULL);
        works[2] = work(f, (loaded){NULL, NULL}, 0, 0, &waits[1], 1, NULL);
        for (uint32_t i = 0; i < 3; i++) works[i].cookie = &works[i];
        memset(&heard, 0, sizeof heard);
        submit(f, works, 3);
        wait_for(f, 0);
        assert_int_equal(heard.failures, 1);
        assert_int_equal(heard.node, 1);
        assert_ptr_equal(heard.cookie, &works[1]);
        assert_true(heard.reached < works[1].signal_value);
        assert_string_equal(heard.message, "its count is 41, the most it may be is 40 (rota_count.max)");
    }
    unload(f, bad);
    unload(f, good);
    free(wrong);
    free(right);
    f->device->vtable->memory_destroy(f->device, m);
    close_quiet(f, false);
}

/* ---- Barriers ---- */

/* Validation messages of the program in touch mode without that barrier; -1: with all. */
static uint64_t messages_without(int64_t barrier, uint32_t *out_barriers) {
    fixture *f = open_with(&(rota_exec_open_options){.touch = true});
    rota_vk_skip_barrier(f->device, barrier);
    rota_exec_memory *m = memory(f, MEMORY, 0);
    test_program *p = counted_program(8, COUNT);
    const loaded l = load(f, p, &m);
    *out_barriers = rota_vk_barriers_recorded(f->device);
    const rota_exec_work w = work(f, l, 0, 0, NULL, 0, NULL);
    submit(f, &w, 1);
    wait_for(f, 0);
    char text[4096];
    const uint64_t messages = rota_vk_validation_messages(f->device, text, sizeof text);
    if (barrier < 0 && messages) fail_msg("%s", text);
    unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, m);
    close_quiet(f, true);
    return messages;
}

/* One before each of two batches, and one behind each's counts: each is missed. */
static void test_barriers(void **state) {
    (void)state;
    uint32_t barriers;
    fixture *f = open_with(NULL);
    const bool is_seen = rota_vk_validation_active(f->device);
    close_quiet(f, false);
    if (!is_seen) {
        print_message("skipped: the validation layer is not installed\n");
        skip();
    }
    assert_int_equal(messages_without(-1, &barriers), 0);
    assert_int_equal(barriers, 4);
    for (uint32_t i = 0; i < barriers; i++)
        if (messages_without(i, &(uint32_t){0}) == 0) fail_msg("barrier %u is not missed", i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_failures),
                                       cmocka_unit_test(test_barriers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
