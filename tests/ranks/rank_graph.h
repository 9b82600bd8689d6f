/* A graph of one rank, for the cases. */
#ifndef ROTA_TESTS_RANK_GRAPH_H
#define ROTA_TESTS_RANK_GRAPH_H

#include "tests/ranks/rank_cases.h"

typedef struct rank_graph {
    rota_runtime *runtime;
    rota_communicator *communicator;
    uint32_t rank, size;
    rota_device *device;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan *plan;
} rank_graph;

static inline void begin(rank_graph *g, rota_runtime *runtime, rota_communicator *communicator,
                         bool gradients) {
    *g = (rank_graph){.runtime = runtime,
                      .communicator = communicator,
                      .rank = rota_communicator_rank(communicator),
                      .size = rota_communicator_size(communicator)};
    rank_ok(rota_device_open(runtime, "cpu", &g->device));
    rank_ok(rota_graph_create(NULL, &g->graph));
    rank_ok(rota_recorder_open(g->graph, 0, NULL, &g->recorder));
    const rota_tape_options options = ROTA_TAPE_OPTIONS(.no_gradients = !gradients);
    rank_ok(rota_tape_create(g->recorder, &options, &g->tape));
}

static inline void compile(rank_graph *g) {
    rota_tape_destroy(g->tape);
    rota_recorder_close(g->recorder);
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &g->device, .device_count = 1);
    rank_ok(rota_compile(g->runtime, g->graph, &options, &g->plan));
}

static inline rota_status run(rank_graph *g) {
    rota_ticket ticket;
    rank_ok(rota_submit(g->plan, NULL, &ticket));
    return rota_wait(ticket, 0);
}

static inline void end(rank_graph *g) {
    rota_plan_release(g->plan);
    rota_graph_release(g->graph);
}

static inline rota_tensor made(rank_graph *g, rota_dtype dtype, uint64_t count, const void *bytes) {
    rota_buffer *buffer;
    rota_tensor tensor;
    rank_ok(rota_buffer_create_in(g->runtime, "t", count * rota_dtype_bytes(dtype), &buffer));
    if (bytes) rank_ok(rota_buffer_write(buffer, NULL, 0, bytes, count * rota_dtype_bytes(dtype), NULL));
    rank_ok(rota_tensor_of(buffer, 0, dtype, ROTA_SHAPE(count), &tensor));
    return tensor;
}

static inline void get(rota_tensor tensor, void *bytes) {
    rank_ok(rota_buffer_read(tensor.buffer, 0, bytes, rota_buffer_size(tensor.buffer)));
}

static inline void drop(rota_tensor tensor) {
    rota_buffer_release(tensor.buffer);
}

#endif
