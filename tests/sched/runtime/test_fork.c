/* After a fork every public call on a runtime, or on what is of it, says so in the child. That none is left
 * out is checked against the public headers. */
#include "tests/kit/runtime_support.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/atomic.h"
#include "file/graph_file.h"
#include "sched/plan.h"
#include "sched/runtime/shared/external_semaphore.h"
#include "sched/runtime/shared/external_timeline.h"

enum { WORDS = 64, BYTES = WORDS * 4 };

/* What the child has of its parent. */
static struct {
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *buffer, *other, *slot, *input, *output;
    rota_graph *graph;
    rota_slot value;
    rota_node node;
    rota_plan *plan;
    rota_args *args;
    rota_ticket ticket;
    rota_external_timeline *timeline;
    rota_communicator *communicator;
    rota_graph_file *file; /* prepared; NULL without libcbor */
    char path[64];         /* of its graph's file */
    _Alignas(16) uint32_t memory[WORDS];
} p;

static void nothing(void *user, rota_status status, const char *message) {
    (void)user;
    (void)status;
    (void)message;
}

/* ---- The calls that give a status ---- */

static rota_status call_devices(void) {
    uint32_t count;
    return rota_devices(p.runtime, NULL, 0, &count);
}
static rota_status call_device_open(void) {
    rota_device *device;
    return rota_device_open(p.runtime, "cpu", &device);
}
static rota_status call_device_smoke(void) {
    return rota_device_smoke(p.device, 0);
}
static rota_status call_buffer_create_in(void) {
    rota_buffer *buffer;
    return rota_buffer_create_in(p.runtime, "x", BYTES, &buffer);
}
static rota_status call_device_open_vulkan(void) {
    rota_device *device;
    return rota_device_open_vulkan(p.runtime, &ROTA_VULKAN_DEVICE(), &device);
}
static rota_status call_device_open_cuda(void) {
    rota_device *device;
    return rota_device_open_cuda(p.runtime, &ROTA_CUDA_CONTEXT(), &device);
}
static rota_status call_buffer_adopt(void) {
    rota_buffer *buffer;
    return rota_buffer_adopt(p.device, &ROTA_ADOPT_OPTIONS(.memory = p.memory, .size_bytes = 64), &buffer);
}
static rota_status call_external_timeline_create(void) {
    rota_external_timeline *timeline;
    return rota_external_timeline_create(p.runtime, NULL, &timeline);
}
static rota_status call_external_timeline_adopt(void) {
    rota_external_timeline *timeline;
    return rota_external_timeline_adopt(p.device, p.memory, NULL, &timeline);
}
static rota_status call_external_timeline_import(void) {
    rota_external_timeline *timeline;
    return rota_external_timeline_import(p.device, -1, NULL, &timeline);
}
static rota_status call_external_timeline_export(void) {
    int fd;
    return rota_external_timeline_export(p.timeline, &fd);
}
static rota_status call_buffer_export(void) {
    rota_memory_export made = ROTA_MEMORY_EXPORT();
    return rota_buffer_export(p.buffer, p.device, &made);
}
static rota_status call_external_timeline_promise(void) {
    return rota_external_timeline_promise(p.timeline, 1);
}
static rota_status call_external_timeline_signal(void) {
    return rota_external_timeline_signal(p.timeline, 1);
}
static rota_status call_communicator_open(void) {
    rota_communicator *made;
    return rota_communicator_open(p.runtime, &ROTA_COMMUNICATOR_OPTIONS(.transport = "alone"), &made);
}
static rota_status call_communicator_open_ranks(void) {
    rota_communicator *made;
    return rota_communicator_open_ranks(&p.runtime, 1, NULL, &made);
}
static rota_status call_communicator_open_split(void) {
    rota_communicator *made;
    return rota_communicator_open_split(p.communicator, 0, 0, NULL, &made);
}
static rota_status call_communicator_abort(void) {
    return rota_communicator_abort(p.communicator, "the child's");
}
static rota_status call_stream_signal(void) {
    return rota_stream_signal(p.device, p.memory, p.timeline, 1);
}
static rota_status call_stream_wait(void) {
    return rota_stream_wait(p.device, p.memory, p.ticket, 1000000);
}
static rota_status call_stream_follow(void) {
    return rota_stream_follow(p.device, p.memory);
}
static rota_status call_ticket_cancel(void) {
    return rota_ticket_cancel(p.ticket);
}
static rota_status call_ticket_export(void) {
    return rota_ticket_export(p.ticket, p.timeline, 1);
}
static rota_status call_buffer_prepare(void) {
    return rota_buffer_prepare(p.buffer, p.device);
}
static rota_status call_buffer_address(void) {
    uint64_t address;
    return rota_buffer_address(p.buffer, p.device, &address);
}
static rota_status call_poll(void) {
    return rota_poll(p.ticket);
}
static rota_status call_wait(void) {
    return rota_wait(p.ticket, 0);
}
static rota_status call_wait_inputs_taken(void) {
    return rota_wait_inputs_taken(p.ticket, 0);
}
static rota_status call_ticket_number(void) {
    uint64_t number;
    return rota_ticket_number(p.ticket, &number);
}
static rota_status call_ticket_on_complete(void) {
    return rota_ticket_on_complete(p.ticket, nothing, NULL);
}
static rota_status call_ticket_eventfd(void) {
    return rota_ticket_eventfd(p.ticket, 0);
}
static rota_status call_buffer_write(void) {
    return rota_buffer_write(p.buffer, NULL, 0, p.memory, BYTES, NULL);
}
static rota_status call_buffer_read(void) {
    return rota_buffer_read(p.buffer, 0, p.memory, BYTES);
}
static rota_status call_buffer_read_async(void) {
    rota_ticket ticket;
    return rota_buffer_read_async(p.buffer, 0, p.memory, BYTES, &ticket);
}
static rota_status call_args_create(void) {
    rota_args *args;
    return rota_args_create(p.plan, &args);
}
static rota_status call_args_set_f32(void) {
    return rota_args_set_f32(p.args, p.value, 1);
}
static rota_status call_args_set_u32(void) {
    return rota_args_set_u32(p.args, p.value, 1);
}
static rota_status call_args_set_u64(void) {
    return rota_args_set_u64(p.args, p.value, 1);
}
static rota_status call_args_set_buffer(void) {
    return rota_args_set_buffer(p.args, p.slot, p.buffer);
}
static rota_status call_args_set_input(void) {
    return rota_args_set_input(p.args, p.input, p.memory, BYTES, false);
}
static rota_status call_args_set_output(void) {
    return rota_args_set_output(p.args, p.output, p.memory, BYTES);
}
static rota_status call_submit(void) {
    return rota_submit(p.plan, p.args, NULL);
}
static rota_status call_submit_wait(void) {
    return rota_submit_wait(p.plan, p.args, 1000000, NULL);
}
static rota_status call_submit_with(void) {
    return rota_submit_with(p.plan, &ROTA_SUBMIT_OPTIONS(.args = p.args), NULL);
}
static rota_status call_compile(void) {
    rota_plan *plan;
    return rota_compile(p.runtime, p.graph, &ROTA_COMPILE_OPTIONS(.devices = &p.device, .device_count = 1),
                        &plan);
}
static rota_status call_plan_write_trace(void) {
    return rota_plan_write_trace(p.plan, "/dev/null");
}
static rota_status call_plan_node_times(void) {
    uint64_t begin, end;
    return rota_plan_node_times(p.plan, p.node, &begin, &end);
}
static rota_status call_plan_learn(void) {
    return rota_plan_learn(p.plan);
}
static rota_status call_plan_command_times(void) {
    rota_plan_time times[8];
    rota_plan_replay replay = ROTA_PLAN_REPLAY();
    return rota_plan_command_times(p.plan, times, 8, &replay);
}

#ifdef ROTA_HAVE_CBOR
static rota_status call_graph_save(void) {
    return rota_graph_save(p.graph, &ROTA_GRAPH_SAVE_OPTIONS(.contents = true), "/dev/null");
}
static rota_status call_graph_load(void) {
    rota_graph_file *file;
    return rota_graph_load(p.path, &ROTA_GRAPH_LOAD_OPTIONS(.runtime = p.runtime), &file);
}
static rota_status call_graph_file_prepare(void) {
    return rota_graph_file_prepare(p.file, NULL, NULL);
}
static rota_status call_graph_file_check(void) {
    return rota_graph_file_check(p.file);
}
static rota_status call_graph_file_save_results(void) {
    return rota_graph_file_save_results(p.file, 0, "/dev/null");
}
#endif

#define CALL(name)                                                                                           \
    { "rota_" #name, call_##name }
static const struct {
    const char *name;
    rota_status (*call)(void);
} calls[] = {
    CALL(devices),
    CALL(device_open),
    CALL(device_open_cuda),
    CALL(device_open_vulkan),
    CALL(device_smoke),
    CALL(buffer_create_in),
    CALL(buffer_adopt),
    CALL(buffer_export),
    CALL(external_timeline_create),
    CALL(external_timeline_adopt),
    CALL(external_timeline_import),
    CALL(external_timeline_export),
    CALL(external_timeline_promise),
    CALL(external_timeline_signal),
    CALL(communicator_open),
    CALL(communicator_open_ranks),
    CALL(communicator_open_split),
    CALL(communicator_abort),
    CALL(stream_signal),
    CALL(stream_wait),
    CALL(stream_follow),
    CALL(ticket_cancel),
    CALL(ticket_export),
    CALL(buffer_prepare),
    CALL(buffer_address),
    CALL(poll),
    CALL(wait),
    CALL(wait_inputs_taken),
    CALL(ticket_number),
    CALL(ticket_on_complete),
    CALL(ticket_eventfd),
    CALL(buffer_write),
    CALL(buffer_read),
    CALL(buffer_read_async),
    CALL(args_create),
    CALL(args_set_f32),
    CALL(args_set_u32),
    CALL(args_set_u64),
    CALL(args_set_buffer),
    CALL(args_set_input),
    CALL(args_set_output),
    CALL(submit),
    CALL(submit_wait),
    CALL(submit_with),
    CALL(compile),
    CALL(plan_write_trace),
    CALL(plan_node_times),
    CALL(plan_command_times),
    CALL(plan_learn),
#ifdef ROTA_HAVE_CBOR
    CALL(graph_save),
    CALL(graph_load),
    CALL(graph_file_prepare),
    CALL(graph_file_check),
    CALL(graph_file_save_results),
#endif
};
enum { CALLS = sizeof calls / sizeof *calls };

/* Those of the same headers that are on no runtime, give no status, or only free. */
static const char *const others[] = {
    "rota_runtime_open",
    "rota_runtime_close",
    "rota_device_choice",
    "rota_device_get_info",
    "rota_device_runtime",
    "rota_args_release",
    "rota_runtime_get_stats",
    "rota_plan_retain",
    "rota_plan_release",
    "rota_plan_get_stats",
    "rota_plan_write_dot",
    "rota_plan_get_commands",
    "rota_plan_explain",
    "rota_plan_explain_kernel",
    "rota_plan_draw",
    "rota_devices_abandoned",
    "rota_external_timeline_release",
    "rota_external_timeline_value",
    "rota_communicator_rank",
    "rota_communicator_size",
    "rota_communicator_device",
    "rota_communicator_name",
    "rota_communicator_transport",
    "rota_communicator_close",
    "rota_capture",
    "rota_capture_contents",
    "rota_graph_file_release",
    "rota_graph_file_graph",
    "rota_graph_file_get_info",
    "rota_graph_file_buffer",
    "rota_graph_file_find_buffer",
    "rota_graph_file_find_slot",
};

static bool is_known(const char *name) {
    for (size_t i = 0; i < CALLS; i++)
        if (strcmp(calls[i].name, name) == 0) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], name) == 0) return true;
    return false;
}

/* Every function that a header declares is in one of the lists. */
static uint32_t check_header(const char *header) {
    char path[512], line[512];
    (void)snprintf(path, sizeof path, "%s/%s", ROTA_SOURCE, header);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    uint32_t found = 0;
    while (fgets(line, sizeof line, file)) {
        char *cursor = strncmp(line, "ROTA_API ", 9) == 0 ? strchr(line, '(') : NULL;
        if (!cursor) continue;
        *cursor = 0;
        while (cursor > line && (isalnum((unsigned char)cursor[-1]) || cursor[-1] == '_')) cursor--;
        if (!is_known(cursor)) fail_msg("%s: %s is in no list of this test", header, cursor);
        found++;
    }
    (void)fclose(file);
    return found;
}

static void no_call_is_left_out(void **state) {
    (void)state;
    assert_true(check_header("sched/runtime.h") >= 14);
    assert_true(check_header("sched/submit.h") >= 14);
    assert_true(check_header("sched/plan.h") >= 10);
    assert_true(check_header("sched/embed.h") >= 7);
    assert_true(check_header("sched/communicator.h") >= 8);
#ifdef ROTA_HAVE_CBOR
    assert_true(check_header("file/graph_file.h") >= 13);
#endif
}

/* ---- The fork ---- */

static void open_all(void) {
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.diagnostics = true), &p.runtime));
    assert_ok(rota_device_open(p.runtime, "cpu", &p.device));
    p.buffer = test_words(p.device, "x", WORDS, 5);
    p.other = test_words(p.device, "y", WORDS, 5);
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &p.graph));
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_SLOT, "slot", BYTES, &p.slot));
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_INPUT, "input", BYTES, &p.input));
    assert_ok(rota_graph_buffer(p.graph, ROTA_BUFFER_OUTPUT, "output", BYTES, &p.output));
    assert_ok(rota_graph_slot(p.graph, "value", 4, &p.value));
    assert_ok(rota_recorder_open(p.graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, p.slot, 0, p.input, 0, BYTES, &p.node));
    assert_ok(rota_record_copy(recorder, p.output, 0, p.slot, 0, BYTES, NULL));
    /* What `contents` reads. */
    assert_ok(rota_record_copy(recorder, p.slot, 0, p.other, 0, BYTES, NULL));
    rota_recorder_close(recorder);
#ifdef ROTA_HAVE_CBOR
    (void)snprintf(p.path, sizeof p.path, "/proc/self/fd/%d", memfd_create("graph", MFD_CLOEXEC));
    assert_ok(rota_graph_save(p.graph, NULL, p.path));
    assert_ok(rota_graph_load(p.path, &ROTA_GRAPH_LOAD_OPTIONS(.runtime = p.runtime), &p.file));
    assert_ok(rota_graph_file_prepare(p.file, NULL, NULL));
#endif
    assert_ok(rota_compile(p.runtime, p.graph, &ROTA_COMPILE_OPTIONS(.devices = &p.device, .device_count = 1),
                           &p.plan));
    assert_ok(rota_args_create(p.plan, &p.args));
    assert_ok(rota_args_set_buffer(p.args, p.slot, p.buffer));
    assert_ok(rota_args_set_input(p.args, p.input, p.memory, BYTES, false));
    assert_ok(rota_args_set_output(p.args, p.output, p.memory, BYTES));
    assert_ok(rota_external_timeline_create(p.runtime, NULL, &p.timeline));
    assert_ok(
        rota_communicator_open(p.runtime, &ROTA_COMMUNICATOR_OPTIONS(.transport = "alone"), &p.communicator));
    assert_ok(rota_submit(p.plan, p.args, &p.ticket));
    assert_ok(rota_wait(p.ticket, 0));
}

/* The first call that does not say so, to the pipe; 0: all do. */
static int try_all(int report) {
    for (uint32_t i = 0; i < CALLS; i++) {
        (void)rota_fail(ROTA_OK, "%s", "");
        rota_status status = calls[i].call();
        if (status == ROTA_WRONG_STATE && strstr(rota_last_error(), "fork")) continue;
        char text[400];
        int length = snprintf(text, sizeof text, "%s: %s: %.200s; ", calls[i].name, rota_status_name(status),
                              rota_last_error());
        if (write(report, text, (size_t)length) != length) return 2;
    }
    rota_runtime_stats stats = ROTA_RUNTIME_STATS(.buffers = 7);
    rota_runtime_get_stats(p.runtime, &stats);
    if (stats.buffers != 0) return 3;
    rota_args_release(p.args);
    rota_plan_release(p.plan);
    rota_buffer_release(p.buffer);
    rota_buffer_release(p.other);
    rota_graph_release(p.graph);
    rota_external_timeline_release(p.timeline);
    if (rota_communicator_close(p.communicator, 0) != ROTA_OK) return 8;
    if (rota_runtime_close(p.runtime, 0) != ROTA_OK) return 4;
    /* A runtime of the child's own works. */
    runtime_fixture f;
    if (rota_runtime_open(NULL, &f.runtime) != ROTA_OK) return 5;
    if (rota_device_open(f.runtime, "cpu", &f.device) != ROTA_OK) return 6;
    return rota_runtime_close(f.runtime, 0) == ROTA_OK ? 0 : 7;
}

static void every_call_says_so(void **state) {
    (void)state;
    int report[2], status;
    open_all();
    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(60);
        _exit(try_all(report[1]));
    }
    (void)close(report[1]);
    char text[4096] = "";
    size_t used = 0;
    for (ssize_t got;
         used < sizeof text - 1 && (got = read(report[0], text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)got;
    (void)close(report[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (used) fail_msg("in the child: %s", text);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* The parent has noticed nothing. */
    rota_graph_file_release(p.file);
    assert_ok(rota_external_timeline_signal(p.timeline, 2));
    assert_ok(rota_submit(p.plan, p.args, &p.ticket));
    assert_ok(rota_wait(p.ticket, 0));
    rota_args_release(p.args);
    rota_plan_release(p.plan);
    rota_graph_release(p.graph);
    rota_buffer_release(p.buffer);
    rota_buffer_release(p.other);
    rota_external_timeline_release(p.timeline);
    assert_ok(rota_communicator_close(p.communicator, 0));
    assert_ok(rota_runtime_close(p.runtime, 0));
}

/* ---- While another thread is at the cache of chunks ---- */

enum { FORKS = 300, CHUNK = 8192 };
static _Atomic uint32_t is_over;

static void *take_and_give(void *unused) {
    (void)unused;
    while (!ra_load_relaxed(&is_over)) {
        size_t size;
        void *chunk = rota_chunk_alloc(CHUNK, &size);
        rota_chunk_free(chunk, size);
    }
    return NULL;
}

static void a_child_can_use_the_cache(void **state) {
    (void)state;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            size_t size;
            (void)alarm(5);
            rota_chunk_free(rota_chunk_alloc(CHUNK, &size), size);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0) fail_msg("child %d of %d did not get to its end", i + 1, FORKS);
    }
    ra_store_relaxed(&is_over, 1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

/* ---- While another thread looks at a semaphore ---- */

/* Which is one without a device: this thread has its mutex, and so the child's never gets it. */
static void a_child_can_release_a_semaphore(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_external_timeline *timeline;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_external_timeline_create(runtime, NULL, &timeline));
    rota_external_semaphore *semaphore = calloc(1, sizeof *semaphore);
    assert_non_null(semaphore);
    assert_int_equal(pthread_mutex_init(&semaphore->mutex, NULL), 0);
    semaphore->timeline = timeline;
    atomic_init(&semaphore->references, 1);
    semaphore->timeout_ns = 60000000000u;
    timeline->semaphore = semaphore;
    assert_true(rota_external_semaphore_shut(semaphore)); /* with the mutex */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(5);
        rota_external_timeline_release(timeline);
        _exit(0);
    }
    (void)pthread_mutex_unlock(&semaphore->mutex);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rota_external_timeline_release(timeline);
    assert_ok(rota_runtime_close(runtime, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_is_left_out), cmocka_unit_test(every_call_says_so),
        cmocka_unit_test(a_child_can_use_the_cache), cmocka_unit_test(a_child_can_release_a_semaphore)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
