/* Kernels and plans for the tests of the runtime. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/futex.h"

static int setup_with(void **state, uint32_t workers) {
    runtime_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_ok(rota_runtime_open(
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = RUNTIME_TIMEOUT_NS, .worker_threads = workers), &f->runtime));
    assert_ok(rota_device_open(f->runtime, "cpu", &f->device));
    *state = f;
    return 0;
}

int runtime_setup(void **state) {
    return setup_with(state, 0);
}
int runtime_setup_1(void **state) {
    return setup_with(state, 1);
}
int runtime_setup_4(void **state) {
    return setup_with(state, 4);
}

int runtime_teardown(void **state) {
    runtime_fixture *f = *state;
    assert_ok(rota_runtime_close(f->runtime, 0));
    free(f);
    return 0;
}

static void word_items(const void *params, const uint64_t *operand_bytes, uint64_t *items, uint64_t *grain) {
    (void)params;
    *items = operand_bytes[0] / 4;
    *grain = 1024;
}

static rota_status increment(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) x[i]++;
    return ROTA_OK;
}
const rota_kernel test_increment = {
    .name = "increment", .operand_count = 1, .cpu = {.fn = increment, .items = word_items}};

static rota_status copy(const rota_kernel_call *call) {
    const uint32_t *x = call->operands[0];
    uint32_t *y = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++) y[i] = x[i];
    return ROTA_OK;
}
const rota_kernel test_copy = {.name = "copy", .operand_count = 2, .cpu = {.fn = copy, .items = word_items}};

static _Atomic uint32_t gate_open, gates_running;

void test_gate_open(bool open) {
    ra_store_seq_cst(&gate_open, open ? 1 : 0);
    rota_futex_wake(&gate_open, INT32_MAX);
}

void test_gates_running(uint32_t count) {
    static _Atomic uint32_t never;
    uint64_t deadline = rota_deadline_after(20000000000u);
    while (ra_load_seq_cst(&gates_running) != count && rota_clock_ns() < deadline)
        (void)rota_futex_wait(&never, 0, rota_deadline_after(100000));
    assert_int_equal(ra_load_seq_cst(&gates_running), count);
}

static rota_status gate(const rota_kernel_call *call) {
    (void)call;
    uint64_t deadline = rota_deadline_after(60000000000u);
    bool in_time = true;
    (void)ra_fetch_add_seq_cst(&gates_running, 1);
    while (in_time && !ra_load_seq_cst(&gate_open)) in_time = rota_futex_wait(&gate_open, 0, deadline);
    (void)ra_fetch_sub_acq_rel(&gates_running, 1);
    return in_time ? ROTA_OK : rota_fail(ROTA_TIMEOUT, "the gate never opened");
}
const rota_kernel test_gate = {.name = "gate", .operand_count = 1, .cpu = {.fn = gate}};

_Atomic int test_fail;

static rota_status failing(const rota_kernel_call *call) {
    if (test_fail) return rota_fail(ROTA_OUT_OF_RANGE, "told to fail");
    uint32_t *x = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) x[i] = 7;
    return ROTA_OK;
}
const rota_kernel test_failing = {
    .name = "failing", .operand_count = 1, .cpu = {.fn = failing, .items = word_items}};

void test_hold_log(void *user, rota_log_level level, const char *message) {
    test_hold *hold = user;
    if (level != ROTA_LOG_WARNING) return;
    (void)snprintf(hold->line, sizeof hold->line, "%s", message);
    (void)ra_fetch_add_seq_cst(&hold->lines, 1);
    const uint64_t deadline = rota_deadline_after(30000000000u);
    while (ra_load_seq_cst(&hold->keeps) && rota_clock_ns() < deadline) test_nap();
}

void test_hold_begin(test_hold *hold, rota_ticket ticket) {
    const uint64_t most = UINT64_MAX - 1; /* takes nothing more, which is worth a warning */
    const uint32_t before = ra_load_seq_cst(&hold->lines);
    hold->eventfd = eventfd(0, EFD_NONBLOCK);
    assert_int_equal(write(hold->eventfd, &most, sizeof most), sizeof most);
    ra_store_seq_cst(&hold->keeps, 1);
    assert_ok(rota_ticket_eventfd(ticket, hold->eventfd));
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (rota_poll(ticket) != ROTA_BUSY && ra_load_seq_cst(&hold->lines) == before &&
           rota_clock_ns() < deadline)
        test_nap();
    assert_true(rota_clock_ns() < deadline);
}

void test_hold_end(test_hold *hold) {
    const int fd = hold->eventfd; /* the rest may be gone once the completer goes on */
    ra_store_seq_cst(&hold->keeps, 0);
    (void)close(fd);
}

rota_plan *test_plan(rota_device *device, const char *name, const test_node *nodes, uint32_t count) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < count; i++)
        assert_ok(rota_record_kernel(recorder,
                                     &ROTA_KERNEL_NODE(.kernel = nodes[i].kernel, .name = nodes[i].name,
                                                       .accesses = nodes[i].accesses,
                                                       .access_count = nodes[i].access_count),
                                     NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

rota_plan *test_plan_1(rota_device *device, const char *name, const rota_kernel *kernel, rota_buffer *buffer,
                       rota_access_mode mode) {
    test_node node = {kernel, NULL, {{buffer, 0, ROTA_WHOLE, mode}}, 1};
    return test_plan(device, name, &node, 1);
}

rota_plan *test_plan_on_queue(rota_device *device, uint32_t queue, uint32_t queues, const test_node *node) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = node->kernel, .name = node->name, .accesses = node->accesses,
                          .access_count = node->access_count, .placement = {.queue_plus_1 = queue + 1}),
        NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = queues),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

rota_plan *test_plan_copy_kernel(rota_device *device, const char *name, rota_buffer *from, rota_buffer *to) {
    const test_node node = {
        &test_copy, name, {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    return test_plan(device, name, &node, 1);
}

rota_plan *test_plan_copy_node(rota_device *device, rota_buffer *from, rota_buffer *to, uint64_t size_bytes) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, to, 0, from, 0, size_bytes, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(graph);
    return plan;
}

rota_plan *test_plan_gate_then_output(rota_device *device, rota_buffer *x, uint64_t size_bytes,
                                      rota_buffer **out_output) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", size_bytes, out_output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_access gate = {x, 0, ROTA_WHOLE, ROTA_READWRITE},
                copy[] = {{x, 0, ROTA_WHOLE, ROTA_READ}, {*out_output, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &test_gate, .accesses = &gate, .access_count = 1), NULL));
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = copy, .access_count = 2), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .instances = 1),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

rota_buffer *test_buffer(rota_runtime *runtime, const char *name, uint64_t size_bytes) {
    rota_buffer *buffer;
    assert_ok(rota_buffer_create_in(runtime, name, size_bytes, &buffer));
    return buffer;
}

rota_buffer *test_words(rota_device *device, const char *name, uint32_t count, uint32_t value) {
    rota_buffer *buffer = test_buffer(rota_device_runtime(device), name, count * 4u);
    uint32_t *words = malloc(count * 4u);
    assert_non_null(words);
    for (uint32_t i = 0; i < count; i++) words[i] = value;
    assert_ok(rota_buffer_write(buffer, device, 0, words, count * 4u, NULL));
    free(words);
    return buffer;
}

void test_expect_words(rota_buffer *buffer, uint32_t count, uint32_t value) {
    uint32_t *words = malloc(count * 4u);
    assert_non_null(words);
    memset(words, 0xee, count * 4u);
    assert_ok(rota_buffer_read(buffer, 0, words, count * 4u));
    for (uint32_t i = 0; i < count; i++)
        if (words[i] != value)
            fail_msg("word %u of '%s' is %u, expected %u", i, rota_buffer_name(buffer), words[i], value);
    free(words);
}
