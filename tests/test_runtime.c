/* The runtime on the CPU executor: submission, tickets, order, host access. */
#include "tests/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "rota.h"

typedef struct fixture {
    rota_runtime *runtime;
    rota_device *device;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_ok(rota_runtime_open(&(rota_runtime_options){.timeout_ns = 20000000000u}, &f->runtime));
    assert_ok(rota_device_open(f->runtime, "cpu", &f->device));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    assert_ok(rota_runtime_close(f->runtime, 0));
    free(f);
    return 0;
}

static void write_then_read(void **state) {
    fixture *f = *state;
    rota_buffer *buffer;
    assert_ok(rota_runtime_buffer(f->runtime, "x", 4096, &buffer));
    uint8_t in[4096], out[4096];
    for (int i = 0; i < 4096; i++) in[i] = (uint8_t)(i * 7);
    assert_ok(rota_buffer_write(buffer, NULL, 0, in, sizeof in, NULL));
    assert_ok(rota_buffer_read(buffer, 0, out, sizeof out));
    assert_memory_equal(in, out, sizeof in);
    rota_buffer_release(buffer);
}

/* x += 1 for each element: a plan whose count tells how often it ran. */
static rota_status increment(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) x[i]++;
    return ROTA_OK;
}
static void increment_items(const void *params, const uint64_t *operand_bytes, uint64_t *items,
                            uint64_t *grain) {
    (void)params;
    *items = operand_bytes[0] / 4;
    *grain = 1024;
}
static const rota_kernel increment_kernel = {
    .name = "increment", .operand_count = 1, .cpu = {.fn = increment, .items = increment_items}};

static rota_plan *increment_plan(fixture *f, rota_buffer *buffer, int nodes) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (int i = 0; i < nodes; i++) {
        rota_access access = {buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
        assert_ok(rota_record_kernel(
            recorder,
            &(rota_kernel_node){.kernel = &increment_kernel, .accesses = &access, .access_count = 1}, NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        f->runtime, graph,
        &(rota_compile_options){.name = "increment", .devices = &f->device, .device_count = 1}, &plan));
    rota_graph_release(graph);
    return plan;
}

static void replays_are_in_order(void **state) {
    fixture *f = *state;
    rota_buffer *buffer;
    uint32_t zero[256] = {0}, out[256];
    assert_ok(rota_runtime_buffer(f->runtime, "x", sizeof zero, &buffer));
    assert_ok(rota_buffer_write(buffer, f->device, 0, zero, sizeof zero, NULL));
    rota_plan *plan = increment_plan(f, buffer, 8);
    rota_ticket ticket = {0}, previous = {0};
    for (int i = 0; i < 3000; i++) {
        previous = ticket;
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    }
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_poll(previous));
    uint64_t number, before;
    assert_ok(rota_ticket_number(ticket, &number));
    assert_ok(rota_ticket_number(previous, &before));
    assert_true(number == before + 1);
    assert_ok(rota_buffer_read(buffer, 0, out, sizeof out));
    for (int i = 0; i < 256; i++) assert_int_equal(out[i], 24000);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

typedef struct shared_work {
    fixture *f;
    rota_plan *plan;
    int count;
} shared_work;

static void *submit_many(void *user) {
    shared_work *work = user;
    rota_ticket ticket = {0};
    for (int i = 0; i < work->count; i++)
        if (rota_submit_wait(work->plan, NULL, 0, &ticket) != ROTA_OK) return "submit failed";
    return rota_wait(ticket, 0) == ROTA_OK ? NULL : "wait failed";
}

static void sixteen_threads_add_to_one_buffer(void **state) {
    fixture *f = *state;
    rota_buffer *buffer;
    uint32_t zero[64] = {0}, out[64];
    assert_ok(rota_runtime_buffer(f->runtime, "acc", sizeof zero, &buffer));
    assert_ok(rota_buffer_write(buffer, f->device, 0, zero, sizeof zero, NULL));
    rota_plan *plan = increment_plan(f, buffer, 1);
    pthread_t threads[16];
    shared_work work = {f, plan, 1000};
    for (int t = 0; t < 16; t++) assert_int_equal(pthread_create(&threads[t], NULL, submit_many, &work), 0);
    for (int t = 0; t < 16; t++) {
        void *failure;
        (void)pthread_join(threads[t], &failure);
        assert_null(failure);
    }
    assert_ok(rota_buffer_read(buffer, 0, out, sizeof out));
    for (int i = 0; i < 64; i++) assert_int_equal(out[i], 16000);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_then_read, setup, teardown),
        cmocka_unit_test_setup_teardown(replays_are_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(sixteen_threads_add_to_one_buffer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
