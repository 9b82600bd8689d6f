/* Graph files with counted nodes: saved, loaded and run; and what is no such file. `--write COPIES KERNEL` writes one
 * of copies alone, and one of a kernel that is SPIR-V, for rota-bench run. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rota.h"
#include "tests/file/folder.h"
#include "tests/kernels/kernels.h"

/* ---- Counts in a graph and in a body ---- */

enum { WORDS = 200, MAX = 150, COPIES = 60, OLD = 9 };

/* to[i] = 3 x[i] + the count that its parameter gets. */
static rota_status step(const rota_kernel_call *call) {
    uint32_t *to = call->operands[0];
    const uint32_t *x = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++) to[i] = 3 * x[i] + *(const uint32_t *)call->params;
    return ROTA_OK;
}
static const rota_kernel_bindable count_of = {.name = "count", .size_bytes = 4, .type = ROTA_VALUE_U32};
static const rota_kernel k_step = {.name = "step",
                                   .operand_count = 2,
                                   .param_bytes = 4,
                                   .bindables = &count_of,
                                   .bindable_count = 1,
                                   .cpu = {.fn = step}};
static const rota_kernel *const given[] = {&k_step};

/* Of `counts`: the first word counts what is stepped, the second the pairs that are copied. */
static void record(rota_recorder *lane, rota_buffer *to, rota_buffer *x, rota_buffer *counts) {
    const rota_access accesses[] = {{to, 0, ROTA_WHOLE, ROTA_WRITE}, {x, 0, ROTA_WHOLE, ROTA_READ}};
    const uint32_t nothing = 0;
    assert_ok(rota_record_counted_kernel(
        lane,
        &ROTA_KERNEL_NODE(.kernel = &k_step, .name = "use", .accesses = accesses, .access_count = 2,
                          .params = &nothing),
        &ROTA_COUNT(.buffer = counts, .max = MAX, .items_per_group = 32, .bindable_plus_1 = 1), NULL));
    assert_ok(rota_record_counted_copy(
        lane, x, 0, to, 8, &ROTA_COUNT(.buffer = counts, .offset_bytes = 4, .max = COPIES, .unit_bytes = 8),
        NULL));
}

static rota_graph *make_graph(rota_buffer *const *b, bool in_body) {
    rota_graph *graph, *body;
    rota_recorder *lane, *inner;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "counting"), &graph));
    assert_ok(rota_recorder_open(graph, 0, "lane", &lane));
    if (in_body) {
        assert_ok(rota_graph_create_body(graph, "inside", &body));
        assert_ok(rota_recorder_open(body, 0, NULL, &inner));
        record(inner, b[0], b[1], b[2]);
        rota_recorder_close(inner);
        assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.condition = b[2], .body = body), NULL));
    } else {
        record(lane, b[0], b[1], b[2]);
    }
    rota_recorder_close(lane);
    return graph;
}

static rota_status run(rota_graph_file *file, rota_device *device) {
    rota_plan *plan = NULL;
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_compile(rota_device_runtime(device), rota_graph_file_graph(file),
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true),
                           &plan));
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_graph_file_prepare(file, device, args));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    const rota_status status = rota_wait(ticket, 0);
    if (status == ROTA_OK) assert_ok(rota_graph_file_check(file));
    rota_args_release(args);
    rota_plan_release(plan);
    return status;
}

/* Saved from what was loaded it is the same to the byte. */
static void expect_same_again(rota_graph *graph, const rota_graph_load_options *load) {
    rota_graph_file *file;
    size_t size, again_size;
    assert_ok(rota_graph_save(graph, NULL, path_of("plain")));
    assert_ok(rota_graph_load(path_of("plain"), load, &file));
    assert_ok(rota_graph_save(rota_graph_file_graph(file), NULL, path_of("again")));
    uint8_t *plain = bytes_of("plain", &size), *again = bytes_of("again", &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(plain, again, size);
    assert_non_null(memmem(plain, size, "version\x03", 8));
    free(plain);
    free(again);
    rota_graph_file_release(file);
}

static void saved_and_run(rota_device *device, bool in_body, uint32_t count, uint32_t pairs) {
    rota_runtime *runtime = rota_device_runtime(device);
    static uint32_t first_to[WORDS], first_x[WORDS], to[WORDS], x[WORDS];
    const uint32_t counts[2] = {count, pairs};
    rota_buffer *b[3];
    rota_graph_file *file;
    assert_ok(rota_buffer_create_in(runtime, "to", sizeof to, &b[0]));
    assert_ok(rota_buffer_create_in(runtime, "x", sizeof x, &b[1]));
    assert_ok(rota_buffer_create_in(runtime, "counts", sizeof counts, &b[2]));
    rota_graph *graph = make_graph(b, in_body);
    for (uint32_t i = 0; i < WORDS; i++) first_x[i] = x[i] = i, first_to[i] = to[i] = OLD;
    const bool runs = !in_body || count;
    for (uint32_t i = 0; runs && i < count && i < WORDS; i++) to[i] = 3 * i + count;
    for (uint32_t i = 0; runs && i < 2 * pairs; i++) x[i] = to[i + 2];
    const rota_graph_file_bytes before[] = {{b[0], first_to, 0}, {b[1], first_x, 0}, {b[2], counts, 0}},
                                after[] = {{b[0], to, 0}, {b[1], x, 0}};
    assert_ok(rota_graph_save(
        graph,
        &ROTA_GRAPH_SAVE_OPTIONS(.first = before, .first_count = 3, .results = after, .result_count = 2),
        path_of("graph")));
    const rota_graph_load_options load =
        ROTA_GRAPH_LOAD_OPTIONS(.runtime = runtime, .kernels = given, .kernel_count = 1);
    assert_ok(rota_graph_load(path_of("graph"), &load, &file));
    expect_same_again(graph, &load);
    if (count > MAX) {
        assert_status(run(file, device), ROTA_NODE_FAILED);
        expect_said("'use'");
        expect_said("its count is 151, the most it may be is 150");
    } else {
        assert_ok(run(file, device));
        assert_ok(rota_graph_file_save_results(file, 0, path_of("made")));
        rota_graph_file_release(file);
        assert_ok(rota_graph_load(path_of("made"), &load, &file));
        assert_ok(run(file, device));
    }
    rota_graph_file_release(file);
    rota_graph_release(graph);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(b[i]);
}

static void counts_are_saved_and_run(void **state) {
    static const uint32_t cases[][2] = {{0, 0}, {1, 1}, {MAX, COPIES}, {77, 0}, {0, 33}, {MAX + 1, 1}};
    (void)state;
    rota_device *device;
    assert_ok(rota_open("cpu", NULL, &device));
    for (uint32_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++)
        saved_and_run(device, i % 2, cases[i / 2][0], cases[i / 2][1]);
    assert_ok(rota_close(device, 0));
}

/* ---- What is no such file ---- */

typedef struct change {
    const char *from, *to; /* of the same length */
    size_t size;
} change;

/* Bytes of a file changed, once. */
static void expect_refused(const change *c, rota_status expected, const char *said) {
    size_t size;
    rota_graph_file *file;
    uint8_t *bytes = bytes_of("small", &size);
    uint8_t *found = memmem(bytes, size, c->from, c->size);
    if (!found) fail_msg("there is no '%s'", c->from);
    memcpy(found, c->to, c->size);
    files_write(path_of("changed"), bytes, size);
    free(bytes);
    assert_status(rota_graph_load(path_of("changed"),
                                  &ROTA_GRAPH_LOAD_OPTIONS(.kernels = given, .kernel_count = 1), &file),
                  expected);
    assert_null(file);
    expect_said(said);
}
#define REFUSED(status, said, from, to)                                                                      \
    expect_refused(&(const change){from, to, sizeof from - 1}, status, said)

static void what_counts_nothing_is_refused(void **state) {
    (void)state;
    rota_graph *graph;
    rota_recorder *lane;
    rota_buffer *x, *to, *counts;
    rota_graph_file *file;
    assert_ok(rota_buffer_create("to", 16, &to));
    assert_ok(rota_buffer_create("x", 16, &x));
    assert_ok(rota_buffer_create("counts", 16, &counts));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, "main", &lane));
    const rota_access accesses[] = {{to, 0, ROTA_WHOLE, ROTA_WRITE}, {x, 0, ROTA_WHOLE, ROTA_READ}};
    const uint32_t nothing = 0;
    assert_ok(rota_record_counted_kernel(
        lane,
        &ROTA_KERNEL_NODE(.kernel = &k_step, .accesses = accesses, .access_count = 2, .params = &nothing),
        &ROTA_COUNT(.buffer = counts, .max = 3, .items_per_group = 5, .bindable_plus_1 = 1), NULL));
    assert_ok(rota_record_counted_copy(
        lane, x, 0, to, 8, &ROTA_COUNT(.buffer = counts, .offset_bytes = 4, .max = 2, .unit_bytes = 4),
        NULL));
    rota_recorder_close(lane);
    assert_ok(rota_graph_save(graph, NULL, path_of("small")));
    rota_graph_release(graph);
    rota_buffer_release(x);
    rota_buffer_release(to);
    rota_buffer_release(counts);
#define KERNEL "count\x85\x02\x00\x03\x05\x00"
#define COPY                                                                                                 \
    "copy\x85\x01\x00\x00\x08\x04\x65"                                                                       \
    "count\x83\x02\x04\x02"
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[0].nodes[0]): key 'count'", "version\x03", "version\x02");
    REFUSED(ROTA_UNSUPPORTED, "format 4; this is rota", "version\x03", "version\x04");
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[0].nodes[0].count): an array of 4, expected 5", KERNEL,
            "count\x84\x02\x00\x03\x05\x00");
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[0].nodes[0].count[0]): 3, expected at most 2", KERNEL,
            "count\x85\x03\x00\x03\x05\x00");
    REFUSED(ROTA_MISALIGNED, "its count starts at byte 2", KERNEL, "count\x85\x02\x02\x03\x05\x00");
    REFUSED(ROTA_OUT_OF_RANGE, "its count is bytes [16, +4)", KERNEL, "count\x85\x02\x10\x03\x05\x00");
    REFUSED(ROTA_INVALID_ARGUMENT, "its count's maximum (rota_count.max) is 0", KERNEL,
            "count\x85\x02\x00\x00\x05\x00");
    REFUSED(ROTA_INVALID_ARGUMENT, "its count is for parameter 1", KERNEL, "count\x85\x02\x00\x03\x05\x01");
    REFUSED(ROTA_OVERLAP, "overlap", KERNEL, "count\x85\x00\x00\x03\x05\x00");
    REFUSED(ROTA_INVALID_ARGUMENT, "0 bytes for each that is counted, expected 1 to 4294967295", COPY,
            "copy\x85\x01\x00\x00\x08\x00\x65"
            "count\x83\x02\x04\x02");
    REFUSED(ROTA_OUT_OF_RANGE, "copy", COPY,
            "copy\x85\x01\x00\x00\x08\x05\x65"
            "count\x83\x02\x04\x02");
    REFUSED(ROTA_INVALID_ARGUMENT, "(records[0].nodes[1].count): an array of 4, expected 3", COPY,
            "copy\x85\x01\x00\x00\x08\x04\x65"
            "count\x84\x02\x04\x02");
    size_t size;
    uint8_t *bytes = bytes_of("small", &size);
    for (size_t cut = 0; cut < size; cut++) {
        files_write(path_of("cut"), bytes, cut);
        assert_status(rota_graph_load(path_of("cut"), NULL, &file), ROTA_INVALID_ARGUMENT);
        expect_said("/cut', byte ");
    }
    free(bytes);
}

/* ---- For rota-bench run ---- */

static rota_buffer *buffer_of(rota_device *device, const char *name, uint64_t bytes) {
    rota_buffer *made;
    assert_ok(rota_buffer_create_in(rota_device_runtime(device), name, bytes, &made));
    return made;
}

/* As many words as are counted, at most 40 of 50, are made of x, or copied. */
static void write_file(rota_device *device, const char *path, bool is_kernel) {
    enum { N = 50, MOST = 40, COUNT = 0x21 };
    uint32_t x[N], old[N] = {0}, result[N] = {0};
    const uint32_t count = COUNT;
    const test_params params = {.n = N, .p = 2};
    const rota_param_binding seed = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    rota_buffer *from = buffer_of(device, "x", sizeof x), *to = buffer_of(device, "result", sizeof x),
                *found = buffer_of(device, "found", 4);
    rota_graph *graph;
    rota_recorder *lane;
    for (uint32_t i = 0; i < N; i++) x[i] = 100 + i;
    for (uint32_t i = 0; i < count; i++) result[i] = is_kernel ? test_mix(x[i] + 2, i) : x[i];
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    const rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
    if (is_kernel)
        assert_ok(rota_record_counted_kernel(
            lane,
            &ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel, .accesses = accesses,
                              .access_count = 2, .params = &params, .bindings = &seed, .binding_count = 1),
            &ROTA_COUNT(.buffer = found, .max = MOST, .items_per_group = TEST_ITEMS_PER_GROUP,
                        .bindable_plus_1 = TEST_BIND_COUNT + 1),
            NULL));
    else
        assert_ok(rota_record_counted_copy(lane, to, 0, from, 0,
                                           &ROTA_COUNT(.buffer = found, .max = MOST, .unit_bytes = 4), NULL));
    rota_recorder_close(lane);
    const rota_graph_file_bytes before[] = {{from, x, 0}, {to, old, 0}, {found, &count, 0}},
                                after = {to, result, 0};
    assert_ok(rota_graph_save(
        graph,
        &ROTA_GRAPH_SAVE_OPTIONS(.first = before, .first_count = 3, .results = &after, .result_count = 1),
        path));
    rota_graph_release(graph);
    rota_buffer_release(from);
    rota_buffer_release(to);
    rota_buffer_release(found);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_saved_and_run),
                                       cmocka_unit_test(what_counts_nothing_is_refused)};
    if (argc == 4 && strcmp(argv[1], "--write") == 0) {
        rota_device *device;
        assert_ok(rota_open("cpu", NULL, &device));
        write_file(device, argv[2], false);
        write_file(device, argv[3], true);
        assert_ok(rota_close(device, 0));
        return 0;
    }
    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
