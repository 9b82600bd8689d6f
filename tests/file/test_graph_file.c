/* Graphs in files: what is saved, loaded and run gives what the graph gives; what is no such file is refused. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph/graph_internal.h"
#include "rota.h"
#include "tests/file/folder.h"
#include "tests/kernels/kernels.h"
#include "tests/random/decide.h"
#include "tests/random/mirror.h"

enum { CASES = 60, HOSTS_MAX = 256, RESULTS_MAX = 4096 };

static const rota_kernel *kernels[TEST_KERNEL_COUNT + 1] = {[TEST_KERNEL_COUNT] = &decide_count_down};

static int set_up(void **state) {
    (void)folder_set_up(state);
    for (uint32_t i = 0; i < TEST_KERNEL_COUNT; i++) kernels[i] = &test_kernels[i].kernel;
    return 0;
}

/* ---- Random graphs ---- */

/* What a random graph's file is given, and what that needs to stay there. */
typedef struct given {
    rota_graph_file_host hosts[HOSTS_MAX];
    char host_names[HOSTS_MAX][16];
    rota_graph_file_bytes first[64], results[RESULTS_MAX];
    rota_graph_file_argument arguments[64];
    rota_buffer *views[RESULTS_MAX + 64];
    uint8_t *before[64];
    uint32_t host_count, first_count, argument_count, result_count, view_count, before_count;
} given;

static rota_buffer *view_of(given *g, rota_buffer *buffer, uint64_t offset, uint64_t size) {
    rota_buffer **view = &g->views[g->view_count++];
    assert_true(g->view_count <= RESULTS_MAX + 64);
    assert_ok(rota_buffer_create_view(buffer, offset, size, view));
    return *view;
}

static void give_hosts(given *g, const mirror_graph *graph) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].kind != MIRROR_HOST) continue;
        assert_true(g->host_count < HOSTS_MAX);
        snprintf(g->host_names[g->host_count], sizeof g->host_names[0], "host %u", n);
        g->hosts[g->host_count] = (rota_graph_file_host){g->host_names[g->host_count], test_host_function,
                                                         (void *)(uintptr_t)&graph->nodes[n].pattern};
        g->host_count++;
    }
}

/* What there is before the replay. */
static void give_before(given *g, const mirror_case *mirror, mirror_graph *graph,
                        const mirror_replay *replay) {
    for (uint32_t p = 0; p < mirror->persistent_count; p++) {
        const mirror_persistent *persistent = &mirror->persistents[p];
        uint8_t *copy = g->before[g->before_count++] = malloc(persistent->bytes);
        assert_non_null(copy);
        memcpy(copy, persistent->values, persistent->bytes);
        g->first[g->first_count++] = (rota_graph_file_bytes){persistent->handle, copy, 0};
    }
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        const mirror_buffer *buffer = &graph->buffers[b];
        if (buffer->is_view) continue;
        if (buffer->kind == ROTA_BUFFER_INPUT)
            g->first[g->first_count++] = (rota_graph_file_bytes){buffer->handle, replay->data[b], 0};
        if (buffer->kind != ROTA_BUFFER_SLOT) continue;
        rota_buffer *bound =
            view_of(g, mirror->persistents[replay->bound[b]].handle, replay->bound_offset[b], buffer->bytes);
        g->arguments[g->argument_count++] =
            (rota_graph_file_argument){.slot_buffer = buffer->handle, .bound = bound};
    }
    for (uint32_t s = 0; s < graph->slot_count; s++)
        g->arguments[g->argument_count++] =
            (rota_graph_file_argument){.slot = graph->slots[s], .value = replay->slot_value[s]};
    if (graph->counts) g->first[g->first_count++] = (rota_graph_file_bytes){graph->counts, replay->counts, 0};
    assert_true(g->first_count <= 64 && g->argument_count <= 64);
}

/* What there must be after it: of outputs what nodes write. */
static void give_after(given *g, const mirror_case *mirror, mirror_graph *graph,
                       const mirror_replay *replay) {
    for (uint32_t p = 0; p < mirror->persistent_count; p++)
        g->results[g->result_count++] =
            (rota_graph_file_bytes){mirror->persistents[p].handle, mirror->persistents[p].values, 0};
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        const mirror_buffer *buffer = &graph->buffers[b];
        if (buffer->is_view || buffer->kind != ROTA_BUFFER_OUTPUT || !buffer->used) continue;
        for (uint32_t begin = 0, end; begin < buffer->bytes; begin = end) {
            for (end = begin + 1; end < buffer->bytes && buffer->defined[end] == buffer->defined[begin];)
                end++;
            if (!buffer->defined[begin]) continue;
            assert_true(g->result_count < RESULTS_MAX);
            g->results[g->result_count++] = (rota_graph_file_bytes){
                view_of(g, buffer->handle, begin, end - begin), replay->expected[b] + begin, 0};
        }
    }
}

static void give_up(given *g) {
    for (uint32_t i = 0; i < g->view_count; i++) rota_buffer_release(g->views[i]);
    for (uint32_t i = 0; i < g->before_count; i++) free(g->before[i]);
    free(g);
}

/* Runs a file as the options say; wants what it says. */
static void run_file(const char *name, rota_device *device, const rota_compile_options *compile,
                     const rota_graph_load_options *load) {
    rota_graph_file *file;
    rota_plan *plan;
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_graph_load(path_of(name), load, &file));
    rota_graph_file_info info = ROTA_GRAPH_FILE_INFO();
    assert_ok(rota_graph_file_get_info(file, &info));
    assert_int_equal(info.device_count, 1);
    rota_compile_options options = *compile;
    options.devices = &device;
    options.device_count = 1;
    assert_ok(rota_compile(load->runtime, rota_graph_file_graph(file), &options, &plan));
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t twice = 0; twice < 2; twice++) {
        assert_ok(rota_graph_file_prepare(file, device, args));
        assert_ok(rota_submit_wait(plan, args, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        assert_ok(rota_graph_file_check(file));
    }
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_file_release(file);
}

/* Saved again, it is the same file: nothing was lost. */
static void expect_same_again(const char *name, const rota_graph_load_options *load, const given *g) {
    rota_graph_file *file;
    size_t size, again_size;
    assert_ok(rota_graph_load(path_of(name), load, &file));
    const rota_graph_save_options plain =
        ROTA_GRAPH_SAVE_OPTIONS(.hosts = g->hosts, .host_count = g->host_count);
    assert_ok(rota_graph_save(rota_graph_file_graph(file), &plain, path_of("again")));
    rota_graph_file_release(file);
    assert_ok(rota_graph_load(path_of("again"), load, &file));
    assert_ok(rota_graph_save(rota_graph_file_graph(file), &plain, path_of("third")));
    rota_graph_file_release(file);
    uint8_t *first = bytes_of("again", &size), *again = bytes_of("third", &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(first, again, size);
    free(first);
    free(again);
}

static void make_persistents(mirror_case *mirror, rota_device *device) {
    for (uint32_t p = 0; p < mirror->persistent_count; p++) {
        mirror_persistent *persistent = &mirror->persistents[p];
        char name[16];
        snprintf(name, sizeof name, "p%u", p);
        assert_ok(
            rota_buffer_create_in(rota_device_runtime(device), name, persistent->bytes, &persistent->handle));
        assert_ok(
            rota_buffer_write(persistent->handle, device, 0, persistent->values, persistent->bytes, NULL));
    }
}

/* A case's graph, saved with what its reference says; loaded and run with the kernels' functions (cpu), or with what
 * the file has of them. How many iterations of bodies it had. */
static uint64_t random_case(rota_device *device, uint64_t seed, bool with_functions, bool decides) {
    const mirror_limits limits = {.nodes = 40,
                                  .bytes = 600,
                                  .granule = 4,
                                  .queues = 2,
                                  .devices = 1,
                                  .automatic = seed % 2 == 0,
                                  .host_nodes = true,
                                  .counted = seed % 2 == 0};
    uint64_t random = seed * 77 + 1;
    mirror_case mirror;
    mirror_replay replay;
    given *g = calloc(1, sizeof *g);
    assert_non_null(g);
    mirror_generate(&mirror, seed, &limits);
    if (decides) decide_draw(&mirror, true, &random);
    make_persistents(&mirror, device);
    mirror_graph *graph = &mirror.graphs[0];
    assert_ok(mirror_record(&mirror, graph, &random));
    assert_ok(mirror_compile(graph, rota_device_runtime(device), &device, 1));
    mirror_replay_generate(&mirror, graph, &random, &replay);
    give_hosts(g, graph);
    give_before(g, &mirror, graph, &replay);
    reference_run(&mirror, graph, &replay);
    give_after(g, &mirror, graph, &replay);
    assert_ok(rota_graph_save(
        graph->graph,
        &ROTA_GRAPH_SAVE_OPTIONS(.hosts = g->hosts, .host_count = g->host_count, .first = g->first,
                                 .first_count = g->first_count, .arguments = g->arguments,
                                 .argument_count = g->argument_count, .results = g->results,
                                 .result_count = g->result_count),
        path_of("graph")));
    const rota_graph_load_options load =
        ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(device), .hosts = g->hosts,
                                .host_count = g->host_count, .kernels = kernels,
                                .kernel_count = with_functions ? TEST_KERNEL_COUNT + 1 : 0);
    run_file("graph", device, &graph->options, &load);
    expect_same_again("graph", &load, g);
    const uint64_t iterations = decide_iterations(graph);
    mirror_replay_free(graph, &replay);
    give_up(g);
    mirror_release(graph);
    for (uint32_t p = 0; p < mirror.persistent_count; p++) rota_buffer_release(mirror.persistents[p].handle);
    mirror_free(&mirror);
    return iterations;
}

static void random_graphs_run_alike(void **state) {
    (void)state;
    rota_device *device;
    assert_ok(rota_open("cpu", NULL, &device));
    uint64_t iterations = 0;
    for (uint64_t seed = 1; seed <= UINT64_C(3) * CASES; seed++)
        iterations += random_case(device, seed, true, seed > CASES);
    assert_true(iterations > CASES / 2);
    assert_ok(rota_close(device, 0));
}

/* By the images that the file has. */
static void run_on_a_gpu(const char *id) {
    rota_device *device;
    if (rota_open(id, NULL, &device) != ROTA_OK) {
        print_message("skipped: %s: %s\n", id, rota_last_error());
        skip();
    }
    for (uint64_t seed = 1; seed <= CASES / 3; seed++) (void)random_case(device, seed, false, false);
    assert_ok(rota_close(device, 0));
}

static void random_graphs_run_alike_by_spirv(void **state) {
    (void)state;
    run_on_a_gpu("vk:0");
}

static void random_graphs_run_alike_by_cuda_images(void **state) {
    (void)state;
    run_on_a_gpu("cuda:0");
}

/* ---- Built-in kernels ---- */

static rota_tensor tensor_of(rota_tape *tape, const rota_tensor *like) {
    rota_tensor made = ROTA_TENSOR_NONE;
    if (like->dtype != ROTA_DTYPE_COUNT)
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "operand", like->dtype, like->rank,
                                   like->shape, &made));
    return made;
}

/* Records an example of an op into a graph that is saved, loaded without anything, and saved again. */
static uint64_t check_example(const rota_op_example *example) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_graph_file *file;
    rota_plan *plan;
    size_t size, again_size;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = example->use.op->name), &graph));
    assert_ok(rota_recorder_open(graph, 7, "ops", &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    rota_op_use use = example->use;
    for (uint32_t i = 0; i < use.input_count; i++) use.inputs[i] = tensor_of(tape, &example->use.inputs[i]);
    for (uint32_t i = 0; i < use.output_count; i++)
        use.outputs[i] = example->use.outputs[i].rank ? tensor_of(tape, &example->use.outputs[i])
                                                      : example->use.outputs[i];
    assert_ok(rota_op_apply(tape, &use));
    assert_ok(rota_graph_fuse(graph));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    assert_ok(rota_graph_save(graph, NULL, path_of("op")));
    assert_ok(rota_graph_load(path_of("op"), NULL, &file));
    const uint64_t nodes = rota_graph_node_count(graph);
    assert_int_equal(rota_graph_node_count(rota_graph_file_graph(file)), nodes);
    assert_ok(rota_graph_save(rota_graph_file_graph(file), NULL, path_of("again")));
    uint8_t *first = bytes_of("op", &size), *again = bytes_of("again", &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(first, again, size);
    free(first);
    free(again);
    assert_ok(rota_compile(NULL, rota_graph_file_graph(file),
                           &ROTA_COMPILE_OPTIONS(.allow_undefined_reads = true), &plan));
    rota_plan_release(plan);
    rota_graph_file_release(file);
    rota_graph_release(graph);
    return nodes;
}

static void every_op_is_saved(void **state) {
    (void)state;
    uint32_t looked_at = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        rota_op_example example;
        for (uint32_t i = 0; rota_op_get_example(rota_op_at(o), i, 0, &example); i++)
            looked_at += check_example(&example) > 0;
    }
    assert_true(looked_at > 70);
}

/* With what its buffers hold, which is read when it is saved; results that are near are good enough. */
static void a_program_with_its_contents(void **state) {
    (void)state;
    static const float x[6] = {1, 2, 3, 4, 5, 6}, w[6] = {1, 0, -1, 0.5f, 2, 1};
    rota_device *device;
    rota_tape *tape;
    rota_tensor a, b, y, z;
    rota_graph_file *file;
    rota_plan *plan;
    rota_ticket ticket;
    float made[4];
    assert_ok(rota_open("cpu", NULL, &device));
    assert_ok(rota_tensor_create(device, "x", ROTA_F32, ROTA_SHAPE(2, 3), x, &a));
    assert_ok(rota_tensor_create(device, "w", ROTA_F32, ROTA_SHAPE(3, 2), w, &b));
    assert_ok(rota_tensor_create(device, "z", ROTA_F32, ROTA_SHAPE(2, 2), NULL, &z));
    assert_ok(rota_tape_create_on(device, NULL, &tape));
    assert_ok(rota_op_matmul(tape, a, b, false, false, &y));
    assert_ok(rota_op_relu_into(tape, y, z));
    assert_ok(rota_tape_submit(tape, NULL, &ticket));
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_tensor_read(&z, made, sizeof made));
    made[1] += 1e-5f;
    const rota_graph_file_bytes zeros = {z.buffer, NULL, 0}, result = {z.buffer, made, 1e-4f};
    rota_graph_save_options save =
        ROTA_GRAPH_SAVE_OPTIONS(.contents = true, .first = &zeros, .first_count = 1, .results = &result,
                                .result_count = 1);
    assert_ok(rota_graph_save(rota_tape_graph(tape), &save, path_of("program")));
    rota_tape_destroy(tape);
    rota_buffer_release(a.buffer);
    rota_buffer_release(b.buffer);
    rota_buffer_release(z.buffer);
    const rota_graph_load_options load = ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(device));
    assert_ok(rota_graph_load(path_of("program"), &load, &file));
    rota_graph_file_info info = ROTA_GRAPH_FILE_INFO();
    assert_ok(rota_graph_file_get_info(file, &info));
    assert_int_equal(info.first_count, 3);
    assert_int_equal(info.result_count, 1);
    assert_int_equal(info.given_kernel_count, 0);
    assert_ok(rota_compile(load.runtime, rota_graph_file_graph(file),
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    assert_status(rota_graph_file_check(file), ROTA_WRONG_STATE);
    assert_ok(rota_graph_file_prepare(file, device, NULL));
    assert_status(rota_graph_file_check(file), ROTA_INTERNAL); /* not run yet */
    expect_said("buffer 'z'");
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_graph_file_check(file));
    /* The graph outlives its file. */
    rota_graph *graph = rota_graph_file_graph(file);
    rota_graph_retain(graph);
    rota_graph_file_release(file);
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(plan);
    rota_graph_release(graph);
    assert_ok(rota_close(device, 0));
}

/* ---- What is refused ---- */

static rota_status hook(void *user, rota_rewriter *rewriter) {
    (void)user, (void)rewriter;
    return ROTA_OK;
}

static void what_cannot_be_saved_is_said(void **state) {
    (void)state;
    rota_graph *graph, *other;
    rota_recorder *recorder;
    rota_buffer *buffer, *foreign;
    rota_slot slot;
    const uint8_t bytes[64] = {0};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "mine"), &graph));
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "other"), &other));
    assert_ok(rota_graph_buffer(other, ROTA_BUFFER_OUTPUT, "foreign", 64, &foreign));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", 64, &buffer));
    assert_ok(rota_graph_slot(graph, "slot", 4, &slot));
    assert_ok(rota_recorder_open(graph, 1, "lane", &recorder));
    assert_status(rota_graph_save(graph, NULL, path_of("none")), ROTA_WRONG_STATE);
    expect_said("recorder 'lane' is open");
    const rota_access written = {buffer, 0, 64, ROTA_WRITE};
    assert_ok(rota_record_host(
        recorder,
        &ROTA_HOST_NODE(.fn = test_host_function, .name = "call", .accesses = &written, .access_count = 1),
        NULL));
    rota_recorder_close(recorder);
    assert_status(rota_graph_save(graph, NULL, path_of("none")), ROTA_UNSUPPORTED);
    expect_said("host function of node 'call' (lane 'lane', node 0) has no name");
    const rota_graph_file_host host = {"host", test_host_function, NULL};
    rota_graph_save_options save = ROTA_GRAPH_SAVE_OPTIONS(.hosts = &host, .host_count = 1);
    rota_graph_file_bytes result = {foreign, bytes, 0};
    save.results = &result;
    save.result_count = 1;
    assert_status(rota_graph_save(graph, &save, path_of("none")), ROTA_INVALID_ARGUMENT);
    expect_said("'foreign' belongs to graph 'other', not to 'mine'");
    result.buffer = buffer;
    assert_status(rota_graph_save(graph, &save, path_of("none")), ROTA_INVALID_ARGUMENT);
    expect_said("results[0] is of buffer 't', which is TRANSIENT");
    save.result_count = 0;
    const rota_graph_file_argument argument = {.slot = {7}};
    save.arguments = &argument;
    save.argument_count = 1;
    assert_status(rota_graph_save(graph, &save, path_of("none")), ROTA_INVALID_ARGUMENT);
    expect_said("arguments[0] is of slot 7 of 1");
    save.argument_count = 0;
    assert_status(rota_graph_save(graph, &save, "/nowhere/graph"), ROTA_SYSTEM);
    expect_said("/nowhere/graph");
    assert_int_equal(access(path_of("none"), F_OK), -1);
    assert_ok(rota_graph_save(graph, &save, path_of("named")));
    rota_graph_file *file;
    assert_status(rota_graph_load(path_of("named"), NULL, &file), ROTA_NOT_FOUND);
    expect_said("(records[0].nodes[0].host): host function 'host' is not among the 0");
    assert_ok(
        rota_graph_load(path_of("named"), &ROTA_GRAPH_LOAD_OPTIONS(.hosts = &host, .host_count = 1), &file));
    rota_graph_file_release(file);
    assert_ok(rota_graph_add_rewrite(graph, hook, NULL));
    assert_status(rota_graph_save(graph, &save, path_of("none")), ROTA_UNSUPPORTED);
    expect_said("rewrite hook");
    rota_graph_release(graph);
    rota_graph_release(other);
}

/* Bytes of a file changed, once, to others of the same number. */
static void expect_refused(const uint8_t *bytes, size_t size, const char *from, const char *to, size_t count,
                           rota_status expected, const char *said) {
    uint8_t *copy = malloc(size);
    rota_graph_file *file;
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    uint8_t *found = memmem(copy, size, from, count);
    assert_non_null(found);
    memcpy(found, to, count);
    files_write(path_of("changed"), copy, size);
    free(copy);
    assert_status(rota_graph_load(path_of("changed"), NULL, &file), expected);
    assert_null(file);
    expect_said(path_of("changed"));
    expect_said(said);
}

/* A built-in kernel's node. */
static void save_softmax(const char *name) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x, y;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 1, "lane", &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, "x", ROTA_F32, ROTA_SHAPE(4), &x));
    assert_ok(rota_op_softmax(tape, x, &y));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    assert_ok(rota_graph_save(graph, NULL, path_of(name)));
    rota_graph_release(graph);
}

static void what_cannot_be_loaded_is_said(void **state) {
    (void)state;
    rota_graph_file *file;
    size_t size;
    save_softmax("good");
    uint8_t *bytes = bytes_of("good", &size);
#define REFUSED(from, to, status, said) expect_refused(bytes, size, from, to, sizeof from - 1, status, said)
    REFUSED("\xd9\xd9\xf7", "\xd9\xd9\xf8", ROTA_INVALID_ARGUMENT, "byte 0: a tag, expected tag 55799");
    REFUSED("rota graph", "rota graft", ROTA_INVALID_ARGUMENT, "(format): a text, expected rota graph");
    REFUSED("version\x01", "version\x04", ROTA_UNSUPPORTED, "format 4; this is rota");
    REFUSED("version\x01", "version\x02", ROTA_INVALID_ARGUMENT, "key 'lanes', expected the key 'bodies'");
    REFUSED("edition\x01", "edition\x02", ROTA_UNSUPPORTED, "built-in kernel 'softmax' of edition 2");
    REFUSED("softmax", "softmix", ROTA_NOT_FOUND, "has no built-in kernel 'softmix'");
    REFUSED("operands\x02", "operands\x03", ROTA_UNSUPPORTED, "has 3 operands");
    REFUSED("operands\x02", "operands\x18", ROTA_INVALID_ARGUMENT, "byte ");
    REFUSED("buffers", "bluffer", ROTA_INVALID_ARGUMENT, "key 'bluffer', expected the key 'buffers'");
    REFUSED("INPUT", "INPIT", ROTA_INVALID_ARGUMENT,
            "(buffers[0][0]): a text, expected PERSISTENT, INPUT, OUTPUT");
    REFUSED("WRITE", "WRIDE", ROTA_INVALID_ARGUMENT, "(records[0].nodes[0].accesses[1][1])");
    REFUSED("fuse\xf4", "fuse\xf6", ROTA_INVALID_ARGUMENT, "(fuse): null, expected true or false");
    REFUSED("nodes\x81", "nodes\x9f", ROTA_INVALID_ARGUMENT, "without a length in front, expected an array");
    REFUSED("results\x80", "results\x98", ROTA_INVALID_ARGUMENT, "(results)");
    REFUSED("replays\x01", "replays\x00", ROTA_INVALID_ARGUMENT, "(replays): 0, expected 1 to 1000000");
#undef REFUSED
    /* Cut anywhere, it says where; and nothing may stand behind it. */
    for (size_t cut = 0; cut < size; cut++) {
        files_write(path_of("cut"), bytes, cut);
        assert_status(rota_graph_load(path_of("cut"), NULL, &file), ROTA_INVALID_ARGUMENT);
        expect_said("/cut', byte ");
    }
    bytes[size] = 0;
    files_write(path_of("more"), bytes, size + 1);
    assert_status(rota_graph_load(path_of("more"), NULL, &file), ROTA_INVALID_ARGUMENT);
    expect_said("1 bytes behind the end");
    assert_status(rota_graph_load(path_of("good"), &ROTA_GRAPH_LOAD_OPTIONS(.limit_bytes = size - 1), &file),
                  ROTA_OUT_OF_RANGE);
    assert_status(rota_graph_load(path_of("absent"), NULL, &file), ROTA_SYSTEM);
    assert_status(rota_graph_load(folder, NULL, &file), ROTA_SYSTEM);
    free(bytes);
}

/* Parameters by which a kernel's functions divide. */
static void a_parameter_of_0_is_refused(void **state) {
    (void)state;
    rota_graph_file *file;
    size_t size;
    save_softmax("good");
    uint8_t *bytes = bytes_of("good", &size);
    uint8_t *params = memmem(bytes, size, "parameters\x58", 11); /* of the node: of more than 23 bytes */
    if (!params) params = memmem(bytes, size, "parametersX", 11);
    assert_non_null(params);
    memset(params + 12 + sizeof(uint32_t), 0, sizeof(uint32_t)); /* rota_softmax_params.n */
    files_write(path_of("zero"), bytes, size);
    assert_status(rota_graph_load(path_of("zero"), NULL, &file), ROTA_INVALID_ARGUMENT);
    expect_said("parameter 'n' of built-in kernel 'softmax' is 0");
    free(bytes);
}

/* A kernel with functions alone, which nobody gives. */
static void a_kernel_that_nobody_has_is_named(void **state) {
    (void)state;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *buffer;
    rota_device *device;
    rota_graph_file *file;
    rota_kernel kernel = test_kernels[TEST_KERNEL_map].kernel;
    const test_params params = {.n = 4};
    const rota_param_binding constant = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    kernel.name = "mine";
    kernel.vk = (rota_kernel_vk){0};
    kernel.cuda = (rota_kernel_cuda){0};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 1, "lane", &recorder));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", 64, &buffer));
    const rota_access accesses[] = {{buffer, 0, 16, ROTA_READ}, {buffer, 32, 16, ROTA_WRITE}};
    assert_ok(
        rota_record_kernel(recorder,
                           &ROTA_KERNEL_NODE(.kernel = &kernel, .accesses = accesses, .access_count = 2,
                                             .params = &params, .bindings = &constant, .binding_count = 1),
                           NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_graph_save(graph, NULL, path_of("mine")));
    rota_graph_release(graph);
    assert_ok(rota_open("cpu", NULL, &device));
    rota_graph_load_options load = ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(device));
    assert_status(rota_graph_load(path_of("mine"), &load, &file), ROTA_NOT_FOUND);
    expect_said("(kernels[0]");
    expect_said("kernel 'mine' has functions alone");
    const rota_kernel *const mine = &kernel;
    load.kernels = &mine;
    load.kernel_count = 1;
    assert_ok(rota_graph_load(path_of("mine"), &load, &file));
    rota_graph_file_info info = ROTA_GRAPH_FILE_INFO();
    assert_ok(rota_graph_file_get_info(file, &info));
    assert_int_equal(info.given_kernel_count, 1);
    rota_graph_file_release(file);
    kernel.bindable_count = 1; /* no longer the same */
    assert_status(rota_graph_load(path_of("mine"), &load, &file), ROTA_NOT_FOUND);
    assert_ok(rota_close(device, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_run_alike),
                                       cmocka_unit_test(random_graphs_run_alike_by_spirv),
                                       cmocka_unit_test(random_graphs_run_alike_by_cuda_images),
                                       cmocka_unit_test(every_op_is_saved),
                                       cmocka_unit_test(a_program_with_its_contents),
                                       cmocka_unit_test(what_cannot_be_saved_is_said),
                                       cmocka_unit_test(what_cannot_be_loaded_is_said),
                                       cmocka_unit_test(a_parameter_of_0_is_refused),
                                       cmocka_unit_test(a_kernel_that_nobody_has_is_named)};
    return cmocka_run_group_tests(tests, set_up, folder_tear_down);
}
