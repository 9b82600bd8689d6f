/* A program's graphs become files by the runtime's option `compiled`. What one run of a file makes, the next must. */
#include "tests/kit/support.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "rota.h"
#include "tests/file/folder.h"
#include "tests/kernels/kernels.h"

/* How many files are captured, and of those that begin so the last in the order of names. */
static uint32_t captured(const char *captures, const char *begin, char *out_path, size_t capacity) {
    struct dirent **entries;
    uint32_t found = 0;
    const int count = scandir(captures, &entries, NULL, alphasort);
    assert_true(count >= 0);
    out_path[0] = 0;
    for (int i = 0; i < count; i++) {
        found += entries[i]->d_name[0] != '.';
        if (strncmp(entries[i]->d_name, begin, strlen(begin)) == 0)
            snprintf(out_path, capacity, "%s/%s", captures, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return found;
}

/* INPUT, OUTPUT, SLOT, PERSISTENT ones, a host function without a name, and a rewrite hook where it is asked for. */
typedef struct program {
    rota_graph *graph;
    rota_buffer *kept, *bound, *input, *output, *slot;
} program;

static rota_status hook(void *user, rota_rewriter *rewriter) {
    (void)user, (void)rewriter;
    return ROTA_OK;
}

static void record(rota_device *device, const char *name, program *out) {
    static const uint8_t bytes[64] = {1, 2, 3, 4};
    rota_runtime *runtime = rota_device_runtime(device);
    rota_recorder *recorder;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &out->graph));
    assert_ok(rota_buffer_create_in(runtime, "kept", 64, &out->kept));
    assert_ok(rota_buffer_create_in(runtime, "bound", 64, &out->bound));
    assert_ok(rota_buffer_write(out->kept, device, 0, bytes, sizeof bytes, NULL));
    assert_ok(rota_graph_buffer(out->graph, ROTA_BUFFER_INPUT, "input", 64, &out->input));
    assert_ok(rota_graph_buffer(out->graph, ROTA_BUFFER_OUTPUT, "output", 64, &out->output));
    assert_ok(rota_graph_buffer(out->graph, ROTA_BUFFER_SLOT, "slot", 16, &out->slot));
    assert_ok(rota_recorder_open(out->graph, 1, "lane", &recorder));
    /* Of the output bytes 0 to 16 and 32 to 48, in pieces that overlap. */
    assert_ok(rota_record_copy(recorder, out->output, 32, out->kept, 0, 16, NULL));
    assert_ok(rota_record_copy(recorder, out->output, 8, out->kept, 0, 8, NULL));
    assert_ok(rota_record_copy(recorder, out->output, 0, out->input, 0, 12, NULL));
    assert_ok(rota_record_fill(recorder, out->slot, 4, 8, 0x01020304, NULL));
    assert_ok(rota_record_fill(recorder, out->kept, 60, 4, 7, NULL));
    rota_recorder_close(recorder);
}

static void release(program *p) {
    rota_graph_release(p->graph);
    rota_buffer_release(p->kept);
    rota_buffer_release(p->bound);
}

static void compile(rota_device *device, rota_graph *graph) {
    rota_plan *plan;
    assert_ok(rota_compile(
        rota_device_runtime(device), graph,
        &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .allow_undefined_reads = true), &plan));
    rota_plan_release(plan);
}

static void open_capturing(rota_compiled_fn compiled, char *captures, rota_device **out_device) {
    assert_ok(
        rota_open("cpu", &ROTA_RUNTIME_OPTIONS(.compiled = compiled, .compiled_user = captures), out_device));
}

/* Each that is compiled, but not rota's own. */
static void each_graph_is_a_file(void **state) {
    (void)state;
    char captures[80], path[512], again[512];
    struct stat stats;
    rota_device *device;
    rota_graph_file *file;
    program p;
    snprintf(captures, sizeof captures, "%s/each/deep", folder);
    open_capturing(rota_capture, captures, &device);
    assert_ok(rota_device_smoke(device, 0));
    record(device, "a/b \xc3\xa4", &p);
    compile(device, p.graph);
    assert_int_equal(captured(captures, "a_b___-", path, sizeof path), 1);
    assert_true(path[0]);
    assert_int_equal(stat(captures, &stats), 0);
    assert_int_equal(stats.st_mode & 077, 0);
    compile(device, p.graph);
    assert_int_equal(captured(captures, "a_b___-", again, sizeof again), 2);
    assert_ok(rota_graph_load(path, &ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(device)), &file));
    rota_graph_file_info info = ROTA_GRAPH_FILE_INFO();
    assert_ok(rota_graph_file_get_info(file, &info));
    assert_string_equal(info.name, "a/b \xc3\xa4");
    assert_int_equal(info.node_count, 5);
    assert_int_equal(info.first_count, 0); /* without contents */
    assert_status(rota_graph_file_check(file), ROTA_WRONG_STATE);
    assert_status(rota_graph_file_save_results(file, 0, again), ROTA_WRONG_STATE);
    expect_said("was not prepared");
    rota_graph_file_release(file);
    release(&p);
    assert_ok(rota_close(device, 0));
}

/* What it can't capture is not compiled, and the sentence says why. */
static void what_cannot_be_captured_is_said(void **state) {
    (void)state;
    char captures[80], path[512];
    rota_device *device;
    rota_plan *plan = (rota_plan *)&device;
    program p;
    snprintf(captures, sizeof captures, "%s/none", folder);
    open_capturing(rota_capture, captures, &device);
    record(device, "hooked", &p);
    assert_ok(rota_graph_add_rewrite(p.graph, hook, NULL));
    assert_status(rota_compile(rota_device_runtime(device), p.graph,
                               &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1,
                                                     .allow_undefined_reads = true),
                               &plan),
                  ROTA_UNSUPPORTED);
    expect_said("graph 'hooked' to be saved: it has a rewrite hook");
    assert_null(plan);
    assert_int_equal(captured(captures, "hooked", path, sizeof path), 0);
    release(&p);
    assert_ok(rota_close(device, 0));
}

/* Two host functions that the program gave no names. */
static void host_functions_are_named(void **state) {
    (void)state;
    static uint32_t patterns[2] = {3, 5};
    char captures[80], path[512];
    rota_device *device;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *buffer;
    rota_graph_file *file;
    snprintf(captures, sizeof captures, "%s/hosts", folder);
    open_capturing(rota_capture, captures, &device);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "hosts"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", 64, &buffer));
    assert_ok(rota_recorder_open(graph, 1, "lane", &recorder));
    const rota_access written = {buffer, 0, 64, ROTA_WRITE};
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(rota_record_host(recorder,
                                   &ROTA_HOST_NODE(.fn = test_host_function, .user = &patterns[i % 2],
                                                   .accesses = &written, .access_count = 1),
                                   NULL));
    rota_recorder_close(recorder);
    compile(device, graph);
    rota_graph_release(graph);
    captured(captures, "hosts-", path, sizeof path);
    rota_graph_file_host hosts[] = {{"host 1", test_host_function, &patterns[0]},
                                    {"host 2", test_host_function, &patterns[1]}};
    assert_status(rota_graph_load(path, &ROTA_GRAPH_LOAD_OPTIONS(.hosts = hosts, .host_count = 1), &file),
                  ROTA_NOT_FOUND);
    expect_said("'host 2'");
    assert_ok(rota_graph_load(path, &ROTA_GRAPH_LOAD_OPTIONS(.hosts = hosts, .host_count = 2), &file));
    /* A name of the options' is not made a second time: here that of the second. */
    hosts[0].name = "host 1";
    hosts[0].user = &patterns[1];
    assert_ok(rota_graph_save(rota_graph_file_graph(file),
                              &ROTA_GRAPH_SAVE_OPTIONS(.hosts = hosts, .host_count = 1, .name_hosts = true),
                              path));
    rota_graph_file_release(file);
    hosts[1].user = &patterns[0];
    assert_ok(rota_graph_load(path, &ROTA_GRAPH_LOAD_OPTIONS(.hosts = hosts, .host_count = 2), &file));
    rota_graph_file_release(file);
    assert_ok(rota_close(device, 0));
}

static void replay(rota_device *device, rota_graph_file *file) {
    rota_plan *plan;
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_compile(
        rota_device_runtime(device), rota_graph_file_graph(file),
        &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .allow_undefined_reads = true), &plan));
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_graph_file_prepare(file, device, args));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    rota_args_release(args);
    rota_plan_release(plan);
}

/* With contents; the results of a run are all that nodes write, and nothing else, and another run is compared. */
static void what_a_run_makes_is_compared(void **state) {
    (void)state;
    char captures[80], path[512], bound[512], checked[512];
    rota_device *device;
    rota_graph_file *file;
    program p;
    snprintf(captures, sizeof captures, "%s/contents", folder);
    snprintf(bound, sizeof bound, "%s/bound", folder);
    snprintf(checked, sizeof checked, "%s/checked", folder);
    open_capturing(rota_capture_contents, captures, &device);
    const rota_graph_load_options load = ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(device));
    record(device, "contents", &p);
    compile(device, p.graph);
    captured(captures, "contents-", path, sizeof path);
    rota_graph_file_info info = ROTA_GRAPH_FILE_INFO();
    assert_ok(rota_graph_load(path, &load, &file));
    assert_ok(rota_graph_file_get_info(file, &info));
    assert_int_equal(info.first_count, 1);
    replay(device, file);
    assert_status(rota_graph_file_check(file), ROTA_NOT_FOUND);
    assert_status(rota_graph_file_save_results(file, -1, checked), ROTA_INVALID_ARGUMENT);
    assert_status(rota_graph_file_save_results(file, 0, "/nowhere/checked"), ROTA_SYSTEM);
    assert_ok(rota_graph_file_save_results(file, 0, checked));
    rota_graph_file_release(file);
    assert_ok(rota_graph_load(checked, &load, &file));
    assert_ok(rota_graph_file_get_info(file, &info));
    assert_int_equal(info.result_count,
                     3); /* two ranges of the output, one of what is kept; nothing is bound */
    replay(device, file);
    assert_ok(rota_graph_file_check(file));
    rota_graph_file_release(file);
    /* The same, with a buffer bound to the slot: its bytes 20 to 28 are a result too. */
    rota_buffer *view;
    assert_ok(rota_buffer_create_view(p.bound, 16, 16, &view));
    const rota_graph_file_argument argument = {.slot_buffer = p.slot, .bound = view};
    assert_ok(rota_graph_save(
        p.graph, &ROTA_GRAPH_SAVE_OPTIONS(.arguments = &argument, .argument_count = 1, .contents = true),
        bound));
    rota_buffer_release(view);
    assert_ok(rota_graph_load(bound, &load, &file));
    replay(device, file);
    assert_ok(rota_graph_file_save_results(file, 1e-6f, checked));
    rota_graph_file_release(file);
    assert_ok(rota_graph_load(checked, &load, &file));
    assert_ok(rota_graph_file_get_info(file, &info));
    assert_int_equal(info.result_count, 4);
    replay(device, file);
    assert_ok(rota_graph_file_check(file));
    rota_buffer *other;
    uint8_t zeros[4] = {0};
    assert_ok(rota_graph_file_find_buffer(file, "bound", &other));
    assert_ok(rota_buffer_write(other, device, 24, zeros, sizeof zeros, NULL));
    assert_ok(rota_graph_file_check(file)); /* near enough to 2e-38 as f32 */
    zeros[3] = 0x40;                        /* 2.0 */
    assert_ok(rota_buffer_write(other, device, 24, zeros, sizeof zeros, NULL));
    assert_status(rota_graph_file_check(file), ROTA_INTERNAL);
    expect_said("f32 at byte 24 of buffer 'bound' is 2, expected");
    rota_graph_file_release(file);
    release(&p);
    assert_ok(rota_close(device, 0));
}

/* ---- Threads ---- */

enum { THREADS = 4, TURNS = 8 };

typedef struct shared {
    rota_device *device;
    rota_graph *graph;
    uint32_t number;
} shared;

/* Compiles, and so captures, a graph as others do; then a file of its own: loaded, run, written again. Threads of
 * cmocka's tests may not fail by themselves: gives NULL, or a sentence in static storage. */
static void *one_of_many(void *user) {
    const shared *s = user;
    char path[512], again[512];
    rota_runtime *runtime = rota_device_runtime(s->device);
    snprintf(path, sizeof path, "%s/thread-%u", folder, s->number);
    snprintf(again, sizeof again, "%s/thread-%u-again", folder, s->number);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        rota_plan *plan = NULL;
        rota_graph_file *file = NULL;
        rota_args *args = NULL;
        rota_ticket ticket;
        rota_device *device = s->device;
        const rota_compile_options options =
            ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .allow_undefined_reads = true);
        const char *fault = NULL;
        if (rota_compile(runtime, s->graph, &options, &plan) != ROTA_OK)
            fault = "the shared graph is not compiled";
        rota_plan_release(plan);
        plan = NULL;
        if (!fault &&
            (rota_graph_save(s->graph, &ROTA_GRAPH_SAVE_OPTIONS(.contents = true), path) != ROTA_OK ||
             rota_graph_load(path, &ROTA_GRAPH_LOAD_OPTIONS(.runtime = runtime), &file) != ROTA_OK))
            fault = "the shared graph is not saved and loaded";
        if (!fault && (rota_compile(runtime, rota_graph_file_graph(file), &options, &plan) != ROTA_OK ||
                       rota_args_create(plan, &args) != ROTA_OK))
            fault = "the loaded graph is not compiled";
        if (!fault &&
            (rota_graph_file_prepare(file, device, args) != ROTA_OK ||
             rota_submit_wait(plan, args, 0, &ticket) != ROTA_OK || rota_wait(ticket, 0) != ROTA_OK ||
             rota_graph_file_save_results(file, 0, again) != ROTA_OK))
            fault = "the loaded graph does not run";
        rota_args_release(args);
        rota_plan_release(plan);
        rota_graph_file_release(file);
        if (fault) return (void *)(uintptr_t)fault;
    }
    return NULL;
}

static void threads_save_and_load_at_once(void **state) {
    (void)state;
    char captures[80], path[512];
    program p;
    shared all[THREADS];
    pthread_t threads[THREADS];
    rota_device *device;
    snprintf(captures, sizeof captures, "%s/threads", folder);
    open_capturing(rota_capture_contents, captures, &device);
    record(device, "shared", &p);
    for (uint32_t i = 0; i < THREADS; i++) {
        all[i] = (shared){device, p.graph, i};
        assert_int_equal(pthread_create(&threads[i], NULL, one_of_many, &all[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        void *fault;
        assert_int_equal(pthread_join(threads[i], &fault), 0);
        if (fault) fail_msg("thread %u: %s", i, (const char *)fault);
    }
    /* Each time the shared graph, and what was loaded: none took another's name. */
    assert_int_equal(captured(captures, "shared-", path, sizeof path), 2 * THREADS * TURNS);
    release(&p);
    assert_ok(rota_close(device, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_graph_is_a_file), cmocka_unit_test(what_cannot_be_captured_is_said),
        cmocka_unit_test(host_functions_are_named), cmocka_unit_test(what_a_run_makes_is_compared),
        cmocka_unit_test(threads_save_and_load_at_once)};
    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
