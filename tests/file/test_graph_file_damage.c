/* Graph files that were damaged: each is refused with a sentence that says where, or gives a graph that can be saved,
 * and compiled or refused. test_graph_file_damage [--full] */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "rota.h"
#include "tests/file/damage.h"
#include "tests/kernels/kernels.h"
#include "tests/random/decide.h"

enum { FILES_MAX = 400, ITEMS_MAX = 20000, BYTES_MAX = 1 << 21 };
static uint64_t wanted = 6000;

typedef struct source {
    uint8_t *bytes;
    size_t size, count;
    damage_item *items;
} source;

static source sources[FILES_MAX];
static uint32_t source_count;
static rota_graph_file_host host = {"host", test_host_function, NULL};

/* A file without a name, by which it is opened again. */
static int memory_file(char *path, size_t capacity) {
    const int descriptor = memfd_create("graph", MFD_CLOEXEC);
    assert_true(descriptor >= 0);
    snprintf(path, capacity, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

static void add_source(rota_graph *graph, const rota_graph_save_options *options) {
    char path[64];
    const int descriptor = memory_file(path, sizeof path);
    assert_true(source_count < FILES_MAX);
    assert_ok(rota_graph_save(graph, options, path));
    source *s = &sources[source_count++];
    s->size = (size_t)lseek(descriptor, 0, SEEK_END);
    s->bytes = malloc(s->size);
    s->items = malloc(sizeof *s->items * ITEMS_MAX);
    assert_non_null(s->bytes);
    assert_non_null(s->items);
    assert_int_equal(pread(descriptor, s->bytes, s->size, 0), s->size);
    assert_int_equal(close(descriptor), 0);
    s->count = damage_items(s->bytes, s->size, s->items, ITEMS_MAX);
    assert_true(s->count > 20);
    assert_int_equal(s->items[0].end, s->size);
}

/* Random graphs of all kinds of nodes, with contents and results. Whether it has nodes that decide. */
static bool add_random(uint64_t seed, bool decides) {
    const mirror_limits limits = {
        .nodes = 12, .bytes = 64, .granule = 4, .queues = 2, .devices = 1, .counted = seed % 2 == 0};
    uint64_t random = seed;
    mirror_case mirror;
    mirror_generate(&mirror, seed, &limits);
    if (decides) decide_draw(&mirror, true, &random);
    mirror_graph *graph = &mirror.graphs[0];
    for (uint32_t p = 0; p < mirror.persistent_count; p++)
        assert_ok(rota_buffer_create("p", mirror.persistents[p].bytes, &mirror.persistents[p].handle));
    assert_ok(mirror_record(&mirror, graph, &random));
    rota_graph_file_bytes bytes[8];
    rota_graph_file_argument arguments[MIRROR_SLOTS_MAX];
    uint32_t count = 0;
    for (uint32_t p = 0; p < mirror.persistent_count && p < 8; p++)
        bytes[count++] =
            (rota_graph_file_bytes){mirror.persistents[p].handle, mirror.persistents[p].values, 0};
    for (uint32_t s = 0; s < graph->slot_count; s++)
        arguments[s] = (rota_graph_file_argument){.slot = graph->slots[s], .value = s};
    add_source(graph->graph, &ROTA_GRAPH_SAVE_OPTIONS(.first = bytes, .first_count = count, .results = bytes,
                                                      .result_count = count, .arguments = arguments,
                                                      .argument_count = graph->slot_count));
    const bool has_bodies = decides && graph->group_count;
    mirror_release(graph);
    for (uint32_t p = 0; p < mirror.persistent_count; p++) rota_buffer_release(mirror.persistents[p].handle);
    mirror_free(&mirror);
    return has_bodies;
}

/* Graphs whose nodes decide, each of another kind of node, one within the other, three deep, as a lane's only nodes or
 * among others. */
static void add_deciding(uint32_t kind) {
    rota_graph *graphs[4];
    rota_recorder *lanes[4];
    rota_buffer *x;
    assert_ok(rota_buffer_create("x", 64, &x));
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "deciding"), &graphs[0]));
    assert_ok(rota_recorder_open(graphs[0], 0, NULL, &lanes[0]));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_graph_create_body(graphs[i], "body", &graphs[i + 1]));
        assert_ok(rota_recorder_open(graphs[i + 1], 0, NULL, &lanes[i + 1]));
    }
    for (uint32_t i = 4; i-- > 0; kind++) {
        rota_buffer *own;
        const rota_access access = {x, 8, 4, ROTA_READWRITE};
        assert_ok(rota_recorder_buffer(lanes[i], ROTA_BUFFER_TRANSIENT, "own", 16, &own));
        assert_ok(rota_record_fill(lanes[i], own, 0, 16, i, NULL));
        assert_ok(rota_record_copy(lanes[i], x, 16, own, 8, 4, NULL));
        assert_ok(rota_record_kernel(
            lanes[i], &ROTA_KERNEL_NODE(.kernel = &decide_count_down, .accesses = &access, .access_count = 1),
            NULL));
        rota_graph *const bodies[] = {NULL, i < 3 ? graphs[i + 1] : NULL, NULL};
        if (i < 3 && kind % 4 == 0)
            assert_ok(rota_record_if(lanes[i], &ROTA_IF_NODE(.condition = x, .body = bodies[1]), NULL));
        else if (i < 3 && kind % 4 == 1)
            assert_ok(rota_record_while(lanes[i],
                                        &ROTA_WHILE_NODE(.condition = x, .condition_offset_bytes = 8,
                                                         .body = bodies[1], .iterations_max = 100),
                                        NULL));
        else if (i < 3 && kind % 4 == 2)
            assert_ok(rota_record_for(lanes[i],
                                      &ROTA_FOR_NODE(.count = x, .index = own, .index_offset_bytes = 4,
                                                     .body = bodies[1], .iterations_max = 3),
                                      NULL));
        else if (i < 3)
            assert_ok(rota_record_switch(
                lanes[i], &ROTA_SWITCH_NODE(.condition = x, .bodies = bodies, .body_count = 3), NULL));
        rota_recorder_close(lanes[i]);
    }
    add_source(graphs[0], NULL);
    rota_graph_release(graphs[0]);
    rota_buffer_release(x);
}

/* Counted nodes, one after the other, with names and without; `kind`: of the graph, or in a body of it; with
 * placements. */
static void add_counted(uint32_t kind) {
    rota_graph *graph, *body = NULL;
    rota_recorder *lane, *inner = NULL;
    rota_buffer *x, *own;
    const test_params params = {.n = 4, .m = 1};
    const rota_param_binding seed = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    assert_ok(rota_buffer_create("x", 64, &x));
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "counted"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    if (kind % 2) {
        assert_ok(rota_graph_create_body(graph, "body", &body));
        assert_ok(rota_recorder_open(body, 0, NULL, &inner));
    }
    rota_recorder *to = kind % 2 ? inner : lane;
    assert_ok(rota_recorder_buffer(to, ROTA_BUFFER_TRANSIENT, "own", 32, &own));
    assert_ok(rota_record_fill(to, own, 0, 32, 3, NULL));
    for (uint32_t i = 0; i < 6; i++) {
        const rota_count count = i % 3 == 2 ? ROTA_COUNT(.buffer = own, .offset_bytes = 4,
                                                         .max = 8 >> (i / 3), .unit_bytes = i < 3 ? 2 : 1)
                                            : ROTA_COUNT(.buffer = x, .max = 4, .items_per_group = 64,
                                                         .bindable_plus_1 = i % 3 ? TEST_BIND_COUNT + 1 : 0);
        const rota_access accesses[] = {{x, 16, 16, ROTA_READ}, {own, 16, 16, ROTA_WRITE}};
        if (i % 3 == 2)
            assert_ok(rota_record_counted_copy(to, x, 32, own, 8, &count, NULL));
        else
            assert_ok(rota_record_counted_kernel(
                to,
                &ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel, .accesses = accesses,
                                  .access_count = 2, .params = &params, .bindings = &seed, .binding_count = 1,
                                  .name = i < 3 ? NULL : "named",
                                  .placement = {.queue_plus_1 = (uint32_t)(kind == 0 && i % 3)}),
                &count, NULL));
    }
    if (inner) rota_recorder_close(inner);
    if (inner) assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.condition = x, .body = body), NULL));
    rota_recorder_close(lane);
    add_source(graph, NULL);
    rota_graph_release(graph);
    rota_buffer_release(x);
}

static rota_tensor tensor_of(rota_tape *tape, const rota_tensor *like) {
    rota_tensor made = ROTA_TENSOR_NONE;
    if (like->dtype != ROTA_DTYPE_COUNT)
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "operand", like->dtype, like->rank, like->shape,
                                   &made));
    return made;
}

/* Built-in kernels, whose functions get damaged parameters. */
static void add_op(const rota_op *op) {
    rota_op_example example;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    if (!rota_op_get_example(op, 0, 0, &example)) return;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = op->name), &graph));
    assert_ok(rota_recorder_open(graph, 1, "ops", &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    rota_op_use use = example.use;
    for (uint32_t i = 0; i < use.input_count; i++) use.inputs[i] = tensor_of(tape, &example.use.inputs[i]);
    for (uint32_t i = 0; i < use.output_count; i++) use.outputs[i] = ROTA_TENSOR_NONE;
    const bool recorded = rota_op_apply(tape, &use) == ROTA_OK; /* not what it writes in place */
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    if (recorded && rota_graph_node_count(graph)) {
        assert_ok(rota_graph_fuse(graph));
        add_source(graph, NULL);
    }
    rota_graph_release(graph);
}

static int set_up(void **state) {
    (void)state;
    uint32_t deciding = 0;
    for (uint64_t seed = 1; seed <= 36; seed++) deciding += add_random(seed, seed > 12);
    assert_true(deciding >= 4);
    for (uint32_t kind = 0; kind < 4; kind++) add_deciding(kind);
    for (uint32_t kind = 0; kind < 4; kind++) add_counted(kind);
    for (uint32_t o = 0; o < rota_op_count() && source_count < FILES_MAX; o++) add_op(rota_op_at(o));
    assert_true(source_count > 60);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (uint32_t i = 0; i < source_count; i++) {
        free(sources[i].bytes);
        free(sources[i].items);
    }
    return 0;
}

/* What became of files. */
typedef struct counts {
    uint64_t loaded, refused, compiled;
} counts;

static void try_file(const char *path, rota_device *device, const rota_graph_load_options *load, counts *c) {
    rota_graph_file *file;
    rota_plan *plan = NULL;
    const rota_status status = rota_graph_load(path, load, &file);
    if (status != ROTA_OK) {
        assert_null(file);
        assert_true(status != ROTA_SYSTEM && status != ROTA_INTERNAL && status != ROTA_OUT_OF_MEMORY);
        expect_said(path);
        expect_said("byte ");
        c->refused++;
        return;
    }
    c->loaded++;
    rota_graph *graph = rota_graph_file_graph(file);
    assert_ok(rota_graph_save(graph, &ROTA_GRAPH_SAVE_OPTIONS(.hosts = &host, .host_count = 1), "/dev/null"));
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.allow_undefined_reads = true, .queues = 2, .certify = true);
    if (load->runtime) {
        options.devices = &device;
        options.device_count = 1;
    }
    if (rota_compile(load->runtime, graph, &options, &plan) == ROTA_OK)
        c->compiled++;
    else
        assert_true(strlen(rota_last_error()) > 0);
    rota_plan_release(plan);
    rota_graph_file_release(file);
}

static void damaged_files_are_refused_or_compile(void **state) {
    (void)state;
    char path[64];
    rota_device *device;
    counts c = {0};
    uint64_t random = 1;
    uint8_t *damaged = malloc(BYTES_MAX), *again = malloc(BYTES_MAX);
    assert_non_null(damaged);
    assert_non_null(again);
    assert_ok(rota_open("cpu", &ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = 64 << 20, .worker_threads = 1),
                        &device));
    const int descriptor = memory_file(path, sizeof path);
    const rota_kernel *kernels[TEST_KERNEL_COUNT + 1] = {[TEST_KERNEL_COUNT] = &decide_count_down};
    for (uint32_t i = 0; i < TEST_KERNEL_COUNT; i++) kernels[i] = &test_kernels[i].kernel;
    for (uint64_t n = 0; n < wanted; n++) {
        const source *s = &sources[n % source_count];
        size_t size = damage_once(s->bytes, s->size, s->items, s->count, &random, damaged, BYTES_MAX);
        if (test_below(&random, 4) == 0) { /* and once more */
            static damage_item items[ITEMS_MAX];
            const size_t count = damage_items(damaged, size, items, ITEMS_MAX);
            size = damage_once(damaged, size, items, count, &random, again, BYTES_MAX);
            memcpy(damaged, again, size);
        }
        assert_int_equal(ftruncate(descriptor, 0), 0);
        assert_int_equal(pwrite(descriptor, damaged, size, 0), size);
        const bool runs = test_below(&random, 3) != 0;
        try_file(path, device,
                 &ROTA_GRAPH_LOAD_OPTIONS(.runtime = runs ? rota_device_runtime(device) : NULL,
                                          .kernels = kernels,
                                          .kernel_count = test_below(&random, 2) ? TEST_KERNEL_COUNT + 1 : 0,
                                          .hosts = &host, .host_count = 1),
                 &c);
    }
    printf("%llu damaged files: %llu refused, %llu loaded, of which %llu compiled\n",
           (unsigned long long)wanted, (unsigned long long)c.refused, (unsigned long long)c.loaded,
           (unsigned long long)c.compiled);
    assert_true(c.refused > wanted / 4 && c.compiled > wanted / 40);
    assert_int_equal(close(descriptor), 0);
    free(damaged);
    free(again);
    assert_ok(rota_close(device, 0));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_files_are_refused_or_compile)};
    if (argc > 1 && strcmp(argv[1], "--full") == 0)
        wanted = 100000;
    else if (argc > 1)
        wanted = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
