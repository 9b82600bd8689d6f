/* Graph files with much of something, or that say so: time and memory in proportion to their bytes. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "rota.h"
#include "tests/file/folder.h"
#include "tests/kernels/kernels.h"

enum { MANY = 30000, SLOTS = 16000, ARGUMENTS = 2000000, LANES = 10000 };

/* Of the processor's time: what looks for each among all others takes minutes, ten times as many under a sanitizer. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SECONDS = 120 };
#else
enum { SECONDS = 12 };
#endif

/* Names, buffers, pieces and arguments without number take time in proportion. */
static void much_takes_time_in_proportion(void **state) {
    (void)state;
    rota_device *device;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_graph_file *file;
    rota_plan *plan;
    rota_args *args;
    rota_graph_file_host *hosts = calloc(MANY, sizeof *hosts);
    rota_graph_file_bytes *first = calloc(MANY, sizeof *first);
    rota_graph_file_argument *arguments = calloc(ARGUMENTS, sizeof *arguments);
    char(*names)[16] = calloc(MANY, sizeof *names);
    const clock_t begin = clock();
    assert_ok(rota_open("cpu", NULL, &device));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 1, "lane", &recorder));
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "host %u", i);
        hosts[i] = (rota_graph_file_host){names[i], test_host_function, &names[i]};
        assert_ok(rota_buffer_create_in(rota_device_runtime(device), "p", 4, &first[i].buffer));
        const rota_access written = {first[i].buffer, 0, 4, ROTA_WRITE};
        assert_ok(rota_record_host(recorder,
                                   &ROTA_HOST_NODE(.fn = test_host_function, .user = &names[i],
                                                   .accesses = &written, .access_count = 1),
                                   NULL));
    }
    for (uint32_t i = 0; i < ARGUMENTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "slot %u", i);
        if (i < SLOTS) assert_ok(rota_graph_slot(graph, name, 4, &arguments[i].slot));
        arguments[i].slot.index = 1 + i % SLOTS;
    }
    rota_recorder_close(recorder);
    assert_ok(rota_graph_save(graph,
                              &ROTA_GRAPH_SAVE_OPTIONS(.hosts = hosts, .host_count = MANY, .first = first,
                                                       .first_count = MANY, .arguments = arguments,
                                                       .argument_count = ARGUMENTS, .contents = true),
                              path_of("much")));
    rota_graph_release(graph);
    assert_ok(rota_graph_load(
        path_of("much"),
        &ROTA_GRAPH_LOAD_OPTIONS(.runtime = rota_device_runtime(device), .hosts = hosts, .host_count = MANY),
        &file));
    assert_ok(rota_compile(rota_device_runtime(device), rota_graph_file_graph(file),
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_graph_file_prepare(file, NULL, args));
    assert_true((clock() - begin) / CLOCKS_PER_SEC < SECONDS);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_file_release(file);
    for (uint32_t i = 0; i < MANY; i++) rota_buffer_release(first[i].buffer);
    assert_ok(rota_close(device, 0));
    free(hosts);
    free(first);
    free(arguments);
    free(names);
}

static size_t address_space_bytes(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    (void)fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A lane is a few bytes of a file, and little memory. */
static void many_lanes_take_little_memory(void **state) {
    (void)state;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_graph_file *file;
    assert_ok(rota_graph_create(NULL, &graph));
    for (uint32_t i = 0; i < LANES; i++) {
        assert_ok(rota_recorder_open(graph, i, "", &recorder));
        rota_recorder_close(recorder);
    }
    assert_ok(rota_graph_save(graph, NULL, path_of("lanes")));
    rota_graph_release(graph);
    const size_t before = address_space_bytes();
    assert_ok(rota_graph_load(path_of("lanes"), NULL, &file));
    assert_true(address_space_bytes() < before + ((size_t)200 << 20));
    rota_graph_file_release(file);
}

/* An array that says more than there are bytes for is refused before there is memory for it. */
static void an_array_is_no_larger_than_its_bytes(void **state) {
    (void)state;
    rota_graph *graph;
    rota_graph_file *file;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_save(graph, NULL, path_of("empty")));
    rota_graph_release(graph);
    FILE *stream = fopen(path_of("empty"), "rb");
    assert_non_null(stream);
    uint8_t bytes[1000];
    const size_t size = fread(bytes, 1, sizeof bytes, stream);
    assert_true(size < sizeof bytes);
    (void)fclose(stream);
    uint8_t *first = memmem(bytes, size, "first\x80", 6);
    assert_non_null(first);
    const size_t begin = (size_t)(first - bytes) + 5;
    /* As many as there are bytes, though each takes five. */
    uint8_t *more = malloc(begin + 5 + 1000);
    assert_non_null(more);
    memcpy(more, bytes, begin);
    memcpy(more + begin, "\x9a\x00\x00\x03\xe8", 5);
    memset(more + begin + 5, 0, 1000);
    files_write(path_of("claims"), more, begin + 5 + 1000);
    assert_status(rota_graph_load(path_of("claims"), NULL, &file), ROTA_INVALID_ARGUMENT);
    expect_said(
        "(first): an array of 1000, but the file has 1000 bytes more, and each element has at least 5");
    free(more);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(much_takes_time_in_proportion),
                                       cmocka_unit_test(many_lanes_take_little_memory),
                                       cmocka_unit_test(an_array_is_no_larger_than_its_bytes)};
    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
