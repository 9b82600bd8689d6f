/* Every allocation of saving, loading, preparing and adding results fails once; it is reported, and nothing is left.
 * Linked with --wrap for what allocates. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/arena.h"
#include "rota.h"
#include "tests/kernels/kernels.h"

/* The allocation that takes this to 0 fails; 0: none. Of this thread, as others go on. */
static _Thread_local uint32_t left;
static _Thread_local bool has_failed;

static bool fails(void) {
    if (!left || --left) return false;
    has_failed = true;
    return true;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);

void *__wrap_malloc(size_t bytes) {
    return fails() ? NULL : __real_malloc(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes) {
    return fails() ? NULL : __real_calloc(count, bytes);
}
void *__wrap_realloc(void *block, size_t bytes) {
    return fails() ? NULL : __real_realloc(block, bytes);
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    return fails() ? MAP_FAILED : __real_mmap(address, bytes, protection, flags, file, offset);
}

static struct {
    rota_device *device;
    rota_graph *graph;
    rota_graph_file *file;
    rota_plan *plan;
    rota_args *args;
    char path[64], results[64];
    rota_graph_save_options save;
    rota_graph_load_options load;
} s;

static rota_status call_save(void) {
    return rota_graph_save(s.graph, &s.save, s.path);
}
static rota_status call_load(void) {
    rota_graph_file *file;
    const rota_status status = rota_graph_load(s.path, &s.load, &file);
    rota_graph_file_release(file);
    return status;
}
static rota_status call_prepare(void) {
    return rota_graph_file_prepare(s.file, s.device, s.args);
}
static rota_status call_check(void) {
    return rota_graph_file_check(s.file);
}
static rota_status call_save_results(void) {
    return rota_graph_file_save_results(s.file, 0, s.results);
}

static void fail_each(const char *name, rota_status (*call)(void)) {
    uint32_t count = 0;
    for (rota_status status = ROTA_INTERNAL; status != ROTA_OK; count++) {
        rota_chunk_cache_trim(); /* so that what takes pages asks for them */
        (void)rota_fail(ROTA_OK, "%s", "");
        has_failed = false;
        left = count + 1;
        status = call();
        left = 0;
        if (status == ROTA_OK && has_failed)
            status = ROTA_INTERNAL; /* did without */
        else if (status != ROTA_OK && status != ROTA_INTERNAL)
            assert_true(has_failed && (status == ROTA_OUT_OF_MEMORY || status == ROTA_SYSTEM) &&
                        *rota_last_error());
        assert_true(count < 10000);
    }
    print_message("%s: %u allocations\n", name, count - 1);
    assert_true(count > 1);
}

static void memory_path(char *path, size_t capacity) {
    snprintf(path, capacity, "/proc/self/fd/%d", memfd_create("graph", MFD_CLOEXEC));
}

static rota_status host_function(void *user, void *const *operands, const uint64_t *operand_bytes,
                                 uint32_t operand_count) {
    (void)user, (void)operand_count;
    memset(operands[0], 3, operand_bytes[0]);
    return ROTA_OK;
}

static void make(rota_graph_file_host *hosts, rota_graph_file_bytes *first,
                 rota_graph_file_argument *arguments) {
    rota_runtime *runtime = rota_device_runtime(s.device);
    rota_buffer *input, *output, *slot;
    rota_recorder *recorders[2];
    rota_node node;
    static const uint8_t bytes[64] = {1, 2, 3};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "memory"), &s.graph));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_buffer_create_in(runtime, "kept", 64, &first[i].buffer));
        assert_ok(rota_buffer_write(first[i].buffer, s.device, 0, bytes, sizeof bytes, NULL));
    }
    first[0].data = bytes;
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_INPUT, "input", 64, &input));
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_OUTPUT, "output", 64, &output));
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_SLOT, "slot", 64, &slot));
    assert_ok(rota_graph_slot(s.graph, "value", 8, &arguments[1].slot));
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_recorder_open(s.graph, i, "lane", &recorders[i]));
    const rota_access accesses[] = {{first[1].buffer, 0, 16, ROTA_READ},
                                    {first[2].buffer, 32, 16, ROTA_WRITE}};
    const test_params params = {.n = 4};
    const rota_param_binding binding = {TEST_BIND_SEED, arguments[1].slot};
    assert_ok(rota_record_kernel(recorders[0],
                                 &ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel,
                                                   .accesses = accesses, .access_count = 2, .params = &params,
                                                   .bindings = &binding, .binding_count = 1),
                                 &node));
    assert_ok(rota_record_host(
        recorders[1],
        &ROTA_HOST_NODE(.fn = hosts->fn, .user = hosts->user, .accesses = accesses + 1, .access_count = 1),
        NULL));
    rota_node last;
    assert_ok(rota_recorder_last_node(recorders[1], &last));
    assert_ok(rota_node_after(recorders[1], last, node));
    assert_ok(rota_record_copy(recorders[1], output, 0, input, 0, 64, NULL));
    rota_graph *body;
    rota_recorder *inner;
    rota_buffer *own;
    assert_ok(rota_graph_create_body(s.graph, "body", &body));
    assert_ok(rota_recorder_open(body, 0, "inner", &inner));
    assert_ok(rota_recorder_buffer(inner, ROTA_BUFFER_TRANSIENT, "own", 64, &own));
    assert_ok(rota_record_fill(inner, own, 0, 64, 7, NULL));
    assert_ok(rota_record_copy(inner, slot, 0, own, 0, 64, NULL));
    rota_recorder_close(inner);
    assert_ok(rota_record_if(recorders[1],
                             &ROTA_IF_NODE(.name = "if", .condition = first[1].buffer, .body = body), NULL));
    for (uint32_t i = 0; i < 2; i++) rota_recorder_close(recorders[i]);
    assert_ok(rota_graph_fuse(s.graph));
    arguments[0] = (rota_graph_file_argument){.slot_buffer = slot, .bound = first[0].buffer};
}

static void each_allocation_fails_once(void **state) {
    (void)state;
    static const rota_kernel *const kernels[] = {&test_kernels[TEST_KERNEL_map].kernel};
    rota_graph_file_host host = {"host", host_function, NULL};
    rota_graph_file_bytes first[3] = {0}, result;
    rota_graph_file_argument arguments[2] = {0};
    rota_ticket ticket;
    const uint8_t sevens[64] = {7, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7,
                                0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0,
                                0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7};
    assert_ok(rota_open("cpu", &ROTA_RUNTIME_OPTIONS(.worker_threads = 1), &s.device));
    memory_path(s.path, sizeof s.path);
    memory_path(s.results, sizeof s.results);
    make(&host, first, arguments);
    result = (rota_graph_file_bytes){first[0].buffer, sevens, 0};
    s.save = ROTA_GRAPH_SAVE_OPTIONS(.hosts = &host, .host_count = 1, .first = first, .first_count = 1,
                                     .arguments = arguments, .argument_count = 2, .results = &result,
                                     .result_count = 1, .contents = true);
    s.load = ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(s.device), .hosts = &host,
                                     .host_count = 1, .kernels = kernels, .kernel_count = 1);
    fail_each("save", call_save);
    fail_each("load", call_load);
    assert_ok(rota_graph_load(s.path, &s.load, &s.file));
    assert_ok(rota_compile(s.load.runtime, rota_graph_file_graph(s.file),
                           &ROTA_COMPILE_OPTIONS(.devices = &s.device, .device_count = 1), &s.plan));
    assert_ok(rota_args_create(s.plan, &s.args));
    fail_each("prepare", call_prepare);
    assert_ok(rota_submit_wait(s.plan, s.args, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    fail_each("check", call_check);
    fail_each("save results", call_save_results);
    rota_args_release(s.args);
    rota_plan_release(s.plan);
    rota_graph_file_release(s.file);
    rota_graph_release(s.graph);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(first[i].buffer);
    assert_ok(rota_close(s.device, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
