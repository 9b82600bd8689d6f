/* Counted commands on exec/cuda, beside the contract's cases, over a stand-in for the CUDA driver (cuda_stub.h): what
 * is refused when a program is made, which nodes they become, and whom failures are told of. */
#include "tests/kit/support.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include "graph/conditional_internal.h"
#include "tests/exec/cuda/exec_cuda_kit.h"

enum { SIZE = BYTES, WORD = 2 * BYTES, LATER = WORD + 16, MEMORY = WORD + 32, UNIT = 8 };

static const contract_step_params params = {COUNT, 1, 0};

/* A fill of the count and a kernel that it is of; then a fill of the next, of which is a copy over what the kernel
 * wrote. */
static test_program *counted_program(const rota_kernel *kernel, uint32_t value, uint32_t max) {
    test_program *p = test_program_new(QUEUES, 1, 0);
    test_program_segment(p, 0);
    test_program_batch(p);
    test_program_fill(p, value);
    test_program_operand(p, 0, false, WORD, 4, ROTA_WRITE);
    test_program_batch(p);
    rota_exec_command *command = test_program_kernel(p, kernel, &params);
    command->is_counted = true;
    command->u.kernel.count_max = max;
    command->u.kernel.items_per_group = 64;
    command->u.kernel.count_bindable_plus_1 = 3;
    test_program_operand(p, 0, false, 0, SIZE, ROTA_READWRITE);
    test_program_operand(p, 0, false, SIZE, SIZE, ROTA_READ);
    test_program_operand(p, 0, false, WORD, 4, ROTA_READ);
    test_program_batch(p);
    test_program_fill(p, 2);
    test_program_operand(p, 0, false, LATER, 4, ROTA_WRITE);
    test_program_batch(p);
    command = test_program_copy(p);
    command->is_counted = true;
    command->u.copy.unit_bytes = UNIT;
    command->u.copy.count_max = COUNT / 2;
    test_program_operand(p, 0, false, 0, SIZE, ROTA_READWRITE);
    test_program_operand(p, 0, false, SIZE, SIZE, ROTA_READ);
    test_program_operand(p, 0, false, LATER, 4, ROTA_READ);
    return p;
}

/* ---- What is refused ---- */

static void refuse(cuda_fixture *f, test_program *p, rota_status status, const char *says) {
    rota_exec_program *program = NULL;
    assert_status(f->device->vtable->program_create(f->device, &p->desc, &program), status);
    expect_said(says);
    free(p);
}

static const rota_kernel *select_none(const void *of_node, const uint64_t *operand_bytes, uint32_t slot_mask,
                                      const rota_cuda_target *target) {
    (void)of_node, (void)operand_bytes, (void)slot_mask, (void)target;
    return NULL;
}

static rota_status call_nothing(const rota_cuda_call *call) {
    (void)call;
    return ROTA_OK;
}

static void test_refused(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    refuse(f, counted_program(&contract_step, 1, COUNT + 1), ROTA_OUT_OF_RANGE, "1024 items");
    refuse(f, counted_program(&contract_step, 1, 0), ROTA_INVALID_ARGUMENT, "counted up to 0");
    test_program *p = counted_program(&contract_step, 1, COUNT);
    p->commands[1].u.kernel.count_bindable_plus_1 = 0;
    refuse(f, p, ROTA_UNSUPPORTED, "node 1': kernel 'step' is counted, and none of its parameters gets");
    p = counted_program(&contract_step, 1, COUNT);
    p->commands[3].u.copy.count_max = 3;
    refuse(f, p, ROTA_OUT_OF_RANGE, "node 3': it copies at most 24 bytes");
    rota_kernel says_nothing = contract_step, several = contract_step, called = contract_step;
    says_nothing.cpu.items = NULL;
    p = counted_program(&says_nothing, 1, UINT32_MAX);
    p->commands[1].u.kernel.items_per_group = 1;
    refuse(f, p, ROTA_UNSUPPORTED, "4294967295 blocks along x");
    several.cuda.select = select_none;
    refuse(f, counted_program(&several, 1, COUNT), ROTA_UNSUPPORTED, "another may take its place on cuda:0");
    called.cuda = (rota_kernel_cuda){.call = call_nothing};
    refuse(f, counted_program(&called, 1, COUNT), ROTA_UNSUPPORTED, "a function (rota_kernel.cuda.call)");
    cuda_close(f);
}

/* ---- What they become ---- */

static uint32_t *fill(rota_exec_memory *memory) {
    uint32_t *x = memory->host;
    for (uint32_t i = 0; i < MEMORY / 4; i++) x[i] = i;
    return x;
}

/* `stepped` elements of the first array were, and the first 4 are the second's. */
static void expect(const uint32_t *x, uint32_t stepped) {
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t want = i < 2 * 2 ? COUNT + i : i < stepped ? contract_stepped(i, COUNT + i, 1) : i;
        if (x[i] != want) fail_msg("element %u of %u counted is %u, not %u", i, stepped, x[i], want);
    }
}

/* A step of one thread before each; the copy is a kernel, whatever its memory. */
static void test_nodes(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *m = cuda_shared(f, MEMORY);
    test_program *p = counted_program(&contract_step, 33, COUNT);
    const contract_loaded l = cuda_load(f, p, &m);
    const cuda_stub_graph g = cuda_stub_last_graph();
    assert_int_equal(g.nodes, 6);
    assert_int_equal(g.kernels, 6);
    assert_int_equal(g.edges, 5);
    for (uint32_t round = 0; round < 3; round++) {
        const uint32_t *x = fill(m);
        cuda_run(f, l, NULL, 1);
        expect(x, 33);
    }
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, m);
    cuda_close(f);
}

/* Runs the kernel over 33, none, all and 1 of the items: of many groups as many as these need, whatever the last launch
 * had. Where the driver takes no such nodes, or no graph with them, there are as many as the most need. */
static void grids(const char *fails, uint32_t max, uint32_t updatables) {
    static const uint32_t counts[] = {33, 0, COUNT, 1};
    cuda_fixture *f = cuda_open(NULL);
    ((rota_cuda_device *)f->device)->bounds.grid_min = COUNT / 64;
    rota_exec_memory *m = cuda_shared(f, MEMORY);
    test_program *p = counted_program(&contract_step, 0, max);
    /* The count is the memory's; what was to fill it fills the next. */
    p->operands[p->commands[0].first_operand].offset_bytes = LATER;
    if (fails) cuda_stub_fail(fails, 0, CUDA_ERROR_NOT_SUPPORTED);
    const contract_loaded l = cuda_load(f, p, &m);
    assert_int_equal(cuda_stub_last_graph().updatables, updatables);
    for (uint32_t round = 0; round < sizeof counts / sizeof *counts; round++) {
        uint32_t *x = fill(m);
        x[WORD / 4] = counts[round] < max ? counts[round] : max;
        const uint32_t stepped = x[WORD / 4];
        cuda_run(f, l, NULL, 1);
        expect(x, stepped);
    }
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, m);
    cuda_close(f);
}

static void test_grids(void **state) {
    (void)state;
    grids(NULL, COUNT, 1);
    grids(NULL, COUNT - 64, 0); /* not so many groups that it pays */
    grids("GraphKernelNodeSetAttribute", COUNT, 0);
    grids("GraphInstantiateWithFlags", COUNT, 0);
}

static void launch_clusters(const void *of_node, const uint64_t *operand_bytes,
                            const rota_cuda_target *target, rota_cuda_launch *out_launch) {
    (void)of_node, (void)operand_bytes, (void)target;
    *out_launch = (rota_cuda_launch){.groups = {1, 1, 1}, .block = {64, 1, 1}, .cluster = {4, 1, 1}};
}

/* Groups for the most that there may be are made whole clusters. */
static void test_clusters(void **state) {
    (void)state;
    cuda_fixture *f = cuda_open(NULL);
    rota_exec_memory *m = cuda_shared(f, MEMORY);
    rota_kernel clusters = contract_step;
    clusters.cuda.launch = launch_clusters;
    test_program *p = counted_program(&clusters, 65, 66);
    const contract_loaded l = cuda_load(f, p, &m);
    assert_int_equal(cuda_stub_last_graph().widest_cluster, 4);
    const uint32_t *x = fill(m);
    cuda_run(f, l, NULL, 1);
    expect(x, 65);
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, m);
    cuda_close(f);
}

/* ---- Failures ---- */

enum { WORKS = 60 };
typedef struct told {
    _Atomic uint32_t failures, of[WORKS];
    _Atomic bool is_wrong;
} told;
static told heard;
static rota_exec_work works[WORKS];
static cuda_fixture *hearing;

static void on_failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                      const char *message) {
    (void)user, (void)owner;
    const uint32_t index = (uint32_t)((const rota_exec_work *)cookie - works);
    if (status != ROTA_NODE_FAILED || node != 1 ||
        strcmp(message, "its count is 41, the most it may be is 40 (rota_count.max)") != 0 ||
        atomic_load(&hearing->host.reached[0]) >= works[index].signal_value)
        atomic_store(&heard.is_wrong, true);
    atomic_fetch_add(&heard.of[index], 1);
    atomic_fetch_add(&heard.failures, 1);
}

/* The first of `works`. */
static void run_one(cuda_fixture *f, contract_loaded l) {
    works[0] = cuda_work(f, l, 0, 0, NULL, 0, NULL);
    works[0].cookie = &works[0];
    cuda_submit(f, works, 1);
    cuda_wait(f, 0);
    assert_false(atomic_load(&heard.is_wrong));
}

/* More in flight at once than there are records: each work whose count was too high is told of once, before its value
 * is reached, and no other is. */
static void test_failures(void **state) {
    (void)state;
    cuda_fixture *f = hearing = cuda_open(NULL);
    ((rota_cuda_device *)f->device)->host.failed = on_failed;
    rota_exec_memory *m = cuda_shared(f, MEMORY);
    test_program *wrong = counted_program(&contract_step, 41, 40),
                 *right = counted_program(&contract_step, 40, 40);
    const contract_loaded bad = cuda_load(f, wrong, &m), good = cuda_load(f, right, &m);
    memset(&heard, 0, sizeof heard);
    for (uint32_t i = 0; i < WORKS; i++) {
        works[i] = cuda_work(f, i % 3 == 1 ? good : bad, 0, 0, NULL, 0, NULL);
        works[i].cookie = &works[i];
    }
    cuda_submit(f, works, WORKS);
    cuda_wait(f, 0);
    assert_false(atomic_load(&heard.is_wrong));
    assert_int_equal(atomic_load(&heard.failures), WORKS - WORKS / 3);
    for (uint32_t i = 0; i < WORKS; i++) assert_int_equal(atomic_load(&heard.of[i]), i % 3 != 1);
    /* What fails runs nothing of its own. */
    const uint32_t *x = fill(m);
    run_one(f, bad);
    expect(x, 0);
    cuda_unload(f, bad);
    cuda_unload(f, good);
    free(wrong);
    free(right);
    f->device->vtable->memory_destroy(f->device, m);
    cuda_close(f);
}

static void no_groups(const void *of_node, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)of_node, (void)operand_bytes;
    out_groups[0] = 1;
    out_groups[1] = 0;
    out_groups[2] = 1;
}

/* A kernel that has no groups whatever the count fails by it all the same, and what is behind it is well. */
static void test_empty(void **state) {
    (void)state;
    cuda_fixture *f = hearing = cuda_open(NULL);
    ((rota_cuda_device *)f->device)->host.failed = on_failed;
    rota_exec_memory *m = cuda_shared(f, MEMORY);
    rota_kernel empty = contract_step;
    empty.cuda.grid = no_groups;
    memset(&heard, 0, sizeof heard);
    for (uint32_t value = 40; value <= 41; value++) {
        test_program *p = counted_program(&empty, value, 40);
        const contract_loaded l = cuda_load(f, p, &m);
        assert_int_equal(cuda_stub_last_graph().kernels, 5);
        const uint32_t *x = fill(m);
        run_one(f, l);
        assert_int_equal(atomic_load(&heard.failures), value - 40);
        expect(x, 0);
        cuda_unload(f, l);
        free(p);
    }
    f->device->vtable->memory_destroy(f->device, m);
    cuda_close(f);
}

/* Likewise where the count is in a slot, of which its step is the only one to read. */
static void test_empty_slot(void **state) {
    (void)state;
    cuda_fixture *f = hearing = cuda_open(NULL);
    ((rota_cuda_device *)f->device)->host.failed = on_failed;
    rota_exec_memory *m = cuda_shared(f, MEMORY);
    rota_kernel empty = contract_step;
    empty.cuda.grid = no_groups;
    memset(&heard, 0, sizeof heard);
    test_program *p = counted_program(&empty, 1, 40);
    p->desc.block_words = 1;
    p->operands[p->commands[1].first_operand + 2] =
        (rota_exec_operand){.offset_bytes = WORD, .size_bytes = 4, .is_slot = true, .mode = ROTA_READ};
    p->commands[0].u.fill.pattern = 41;
    const contract_loaded l = cuda_load(f, p, &m);
    const uint64_t block[1] = {m->address};
    fill(m);
    works[0] = cuda_work(f, l, 0, 0, NULL, 0, block);
    works[0].cookie = &works[0];
    cuda_submit(f, works, 1);
    cuda_wait(f, 0);
    assert_false(atomic_load(&heard.is_wrong));
    assert_int_equal(atomic_load(&heard.failures), 1);
    cuda_unload(f, l);
    free(p);
    f->device->vtable->memory_destroy(f->device, m);
    cuda_close(f);
}

/* Nothing that decides begins behind it in its launch: its condition, or its times, may be what was not written. */
static void test_loop_behind(void **state) {
    enum { TIMES = WORD + 4, SUM = WORD + 8, NUMBER = WORD + 12 };
    (void)state;
    cuda_fixture *f = hearing = cuda_open(NULL);
    ((rota_cuda_device *)f->device)->host.failed = on_failed;
    rota_exec_memory *m = cuda_shared(f, MEMORY);
    test_program *p = counted_program(&contract_step, 1, 40), *body = test_program_new(QUEUES, 1, 0);
    static const contract_step_params one = {1, 1, 0};
    test_program_segment(body, 0);
    test_program_batch(body);
    test_program_kernel(body, &contract_step, &one);
    test_program_operand(body, 0, false, SUM, 4, ROTA_READWRITE);
    test_program_operand(body, 0, false, NUMBER, 4, ROTA_READ);
    uint32_t *const edges = contract_edges(body);
    const rota_exec_program_desc *const bodies[] = {&body->desc};
    rota_exec_conditional loop = {.kind = ROTA_CONDITIONAL_FOR,
                                  .body_count = 1,
                                  .iterations_max = 5,
                                  .condition = {0, TIMES - WORD},
                                  .index = {0, NUMBER - WORD},
                                  .bodies = bodies};
    /* The count is the memory's; what was to fill it fills the next. */
    p->operands[p->commands[0].first_operand].offset_bytes = LATER;
    test_program_batch(p);
    rota_exec_command *command = test_program_fill(p, 0);
    command->kind = ROTA_EXEC_COMMAND_CONDITIONAL;
    command->u.conditional = &loop;
    test_program_operand(p, 0, false, WORD, 16, ROTA_READWRITE);
    const contract_loaded l = cuda_load(f, p, &m);
    memset(&heard, 0, sizeof heard);
    for (uint32_t round = 0, failures = 0; round < 6; round++) {
        const bool fails = round % 3 == 1;
        uint32_t *x = fill(m);
        x[WORD / 4] = fails ? 41 : 40;
        x[TIMES / 4] = fails && round > 3 ? 6 : 2; /* nor is that told of */
        x[SUM / 4] = 7;
        run_one(f, l);
        failures += fails;
        assert_int_equal(atomic_load(&heard.failures), failures);
        assert_int_equal(x[SUM / 4], fails ? 7 : contract_stepped(contract_stepped(7, 0, 1), 1, 1));
    }
    cuda_unload(f, l);
    free(edges);
    free(body);
    free(p);
    f->device->vtable->memory_destroy(f->device, m);
    cuda_close(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused),    cmocka_unit_test(test_nodes),
                                       cmocka_unit_test(test_grids),      cmocka_unit_test(test_clusters),
                                       cmocka_unit_test(test_failures),   cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_empty_slot), cmocka_unit_test(test_loop_behind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
