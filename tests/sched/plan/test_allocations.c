/* Allocations that fail alone, those after them succeeding again: of an arena while a plan is compiled, and
 * of an instance's host memory in exec/vk's touch mode. Linked with --wrap for calloc and the arenas' calls.
 */
#include "tests/exec/vk/exec_vk_kit.h"

#include "base/arena.h"
#include "graph/graph.h"
#include "sched/plan.h"

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_rota_arena_alloc(rota_arena *arena, size_t size, size_t alignment);
void *__wrap_rota_arena_alloc(rota_arena *arena, size_t size, size_t alignment);
void *__real_rota_arena_calloc(rota_arena *arena, size_t size, size_t alignment);
void *__wrap_rota_arena_calloc(rota_arena *arena, size_t size, size_t alignment);

/* This thread's: the one that takes it to 0 fails. */
static _Thread_local uint32_t arena_fails_in, calloc_fails_in;

static bool fails(uint32_t *in) {
    return *in && --*in == 0;
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return fails(&calloc_fails_in) ? NULL : __real_calloc(count, bytes);
}
void *__wrap_rota_arena_alloc(rota_arena *arena, size_t size, size_t alignment) {
    return fails(&arena_fails_in) ? NULL : __real_rota_arena_alloc(arena, size, alignment);
}
void *__wrap_rota_arena_calloc(rota_arena *arena, size_t size, size_t alignment) {
    return fails(&arena_fails_in) ? NULL : __real_rota_arena_calloc(arena, size, alignment);
}

/* Some of each: ranges, transients, queues, and words that are bound. */
static rota_graph *record(rota_buffer *x) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *t, *slot;
    static const contract_step_params params = {COUNT, 1, 0};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "g"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", BYTES, &t));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "slot", BYTES, &slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, x, 0, BYTES / 2, 1, NULL));
    assert_ok(rota_record_fill(recorder, x, BYTES / 2, BYTES / 2, 2, NULL));
    assert_ok(rota_record_copy(recorder, t, 0, x, 0, BYTES, NULL));
    for (uint32_t i = 0; i < 8; i++) {
        const rota_access accesses[] = {{i % 2 ? x : t, 0, ROTA_WHOLE, ROTA_READWRITE},
                                        {i % 3 ? t : slot, 0, ROTA_WHOLE, ROTA_READ}};
        if (accesses[0].buffer == accesses[1].buffer) continue;
        assert_ok(rota_record_kernel(
            recorder,
            &ROTA_KERNEL_NODE(.kernel = &step, .params = &params, .accesses = accesses, .access_count = 2),
            NULL));
    }
    rota_recorder_close(recorder);
    return graph;
}

static void each_of_a_compile(void **state) {
    (void)state;
    for (uint32_t queues = 1; queues <= 2; queues++) {
        rota_buffer *x;
        assert_ok(rota_buffer_create("x", BYTES, &x));
        rota_graph *graph = record(x);
        const rota_compile_options options = ROTA_COMPILE_OPTIONS(.queues = queues, .certify = true);
        uint32_t failed = 0;
        for (uint32_t nth = 1;; nth++) {
            rota_plan *plan = NULL;
            arena_fails_in = nth;
            const rota_status status = rota_compile(NULL, graph, &options, &plan);
            const bool over = arena_fails_in != 0;
            arena_fails_in = 0;
            if (status != ROTA_OK) {
                assert_false(over);
                assert_status(status, ROTA_OUT_OF_MEMORY);
                assert_true(rota_last_error()[0] != 0);
                failed++;
            }
            rota_plan_release(plan);
            if (over) break;
        }
        assert_in_range(failed, 20, 100000);
        rota_graph_release(graph);
        rota_buffer_release(x);
    }
}

static void each_of_an_instance_in_touch_mode(void **state) {
    (void)state;
    static const contract_step_params params = {COUNT, 1, 0};
    fixture *f = open_as(&(rota_exec_open_options){.touch = true}, false);
    rota_exec_memory *memories[] = {memory(f, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
    test_program *p = chain_program(4, &params);
    rota_exec_program *program;
    assert_ok(f->device->vtable->program_create(f->device, &p->desc, &program));
    uint32_t failed = 0;
    for (;;) {
        rota_exec_instance *instance = NULL;
        calloc_fails_in = failed + 1;
        const rota_status status =
            f->device->vtable->instance_create(f->device, program, memories, &instance);
        const bool over = calloc_fails_in != 0;
        calloc_fails_in = 0;
        if (!over) assert_status(status, ROTA_OUT_OF_MEMORY);
        if (over) {
            assert_ok(status);
            f->device->vtable->instance_destroy(f->device, instance);
            break;
        }
        failed++;
    }
    assert_in_range(failed, 5, 1000); /* the two of touch mode among them */
    f->device->vtable->program_destroy(f->device, program);
    free(p);
    f->device->vtable->memory_destroy(f->device, memories[0]);
    close_quiet(f, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_a_compile),
        cmocka_unit_test(each_of_an_instance_in_touch_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
