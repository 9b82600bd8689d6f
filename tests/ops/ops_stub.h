/* Graphs of ops on the stand-in for CUDA's driver, beside the CPU. What isn't as expected here fails the test. */
#ifndef ROTA_TESTS_OPS_STUB_H
#define ROTA_TESTS_OPS_STUB_H

#include "rota.h"

#ifdef ROTA_HAVE_CUDA

/* Puts the stand-in in the driver's place, with a device and the ops' kernels. */
void ops_stub_start(uint64_t seed);

/* A rewrite (rota_graph_add_rewrite): programs of fused elementwise nodes are kernels that the stand-in does not know
 * until it is told them. */
rota_status ops_stub_tell(void *user, rota_rewriter *rewriter);

/* bf16, to nearest, for what kernels of images do: apart from the library's own. */
float ops_stub_from_bf16(uint16_t bits);
uint16_t ops_stub_to_bf16(float value);

/* The stand-in, and a runtime with both devices. */
typedef struct ops_stub {
    rota_runtime *runtime;
    rota_device *cpu, *cuda;
} ops_stub;

/* With `more` kernels of images. False: no images were built, which is said, and nothing is open. */
bool ops_stub_open(ops_stub *out, const rota_kernel *more, uint32_t more_count);
void ops_stub_close(ops_stub *stub);

/* A graph, from its first node to the end of a replay. */
typedef struct ops_stub_graph {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan *plan;
    rota_args *args;
} ops_stub_graph;

/* Recorded by `tape`, with fusion. options: of the tape; may be NULL. */
void ops_stub_record(ops_stub_graph *out, const rota_tape_options *options);
/* Nothing more is recorded: a plan for the device, certified, and its arguments. */
void ops_stub_compile(ops_stub_graph *graph, const ops_stub *stub, rota_device *device);
/* A replay, and the end of all. Returns how many nodes were merged. */
uint64_t ops_stub_replay(ops_stub_graph *graph);

#endif
#endif
