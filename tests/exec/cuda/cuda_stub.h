/* A recording stand-in for the CUDA driver, so that the CUDA executor's own logic is tested where there is no
 * device. It believes nothing but what CUDA promises: work on different streams runs in random order but for
 * events, the nodes of a graph in random order but for its edges, and nothing is complete before it has run.
 * Device memory is host memory, kernels are the C functions of their rota_kernel. It counts what is alive,
 * and what no correct program does (the default stream, a call without a context, something destroyed in use)
 * as violations. */
#ifndef ROTA_TESTS_CUDA_STUB_H
#define ROTA_TESTS_CUDA_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "graph/kernel.h"

#ifdef ROTA_HAVE_CUDA
#include "exec/cuda/cuda_api.h"

/* Puts the stand-in in the driver's place, fresh, with `devices` devices; its thread runs work in an order
 * from the seed. */
void cuda_stub_start(uint64_t seed, int devices);
/* Ends its thread and takes it out again. */
void cuda_stub_stop(void);
const rota_cuda_api *cuda_stub_api(void);

/* A kernel that images have from now on: its C function runs, over all items; where a parameter named "count" is bound,
 * over as many as that says. NULL kernels: the executor's
 * own and the smoke test's are there anyway. */
void cuda_stub_kernel(const rota_kernel *kernel);

/* Objects alive (contexts, streams, events, graphs, executable graphs, modules, memory of any kind), listed
 * in out_text. */
uint32_t cuda_stub_alive(char *out_text, size_t text_bytes);
/* Violations so far; the first one's sentence. */
uint32_t cuda_stub_violations(char *out_text, size_t text_bytes);

/* Call number `skip` from now of cu<name> fails with `result`, once. What ends an object's life ends it all
 * the same. */
void cuda_stub_fail(const char *name, uint32_t skip, CUresult result);
/* Every call asks `watch`, under the stand-in's lock, what it is to fail with (CUDA_SUCCESS: nothing), until the
 * next start; NULL: nobody is asked. What ends an object's life ends it all the same. */
void cuda_stub_watch(CUresult (*watch)(const char *name));
/* Whether this thread is inside the stand-in: its memory is not the executor's. */
bool cuda_stub_is_inside(void);
/* Calls of cu<name> since the start. */
uint64_t cuda_stub_calls(const char *name);
/* Names of the table's functions, in order; NULL past the last. */
const char *cuda_stub_name(uint32_t index);

/* Work waits until it is told to go on. */
void cuda_stub_pause(bool paused);
/* Somebody else in the process captures a stream in the default mode: calls that this forbids are refused on
 * threads that did not ask for the relaxed mode. */
void cuda_stub_capture_elsewhere(bool captures);
/* Kernels of this entry do not end (true), or, fault, which ends the context; NULL: none. */
void cuda_stub_hang(const char *entry);
/* The same, of those that were put on a stream by themselves, but for the next `count` of them. */
void cuda_stub_hang_after(const char *entry, uint32_t count);
void cuda_stub_fault(const char *entry);
/* This device's context has failed, and no other one: nothing of what is on its streams goes on, nor is an event
 * reached that was recorded there. */
void cuda_stub_lose(uint32_t device);

/* Of the device's attributes: 0 is answered for this one. */
void cuda_stub_lack(CUdevice_attribute attribute);
void cuda_stub_compute_mode(int mode);

/* The version of CUDA that the driver says it is for, from now on: 12040 at each start. What it has of conditional
 * nodes goes by it. */
void cuda_stub_version(int version);
/* Each device is a GPU of its own from here on; before, all are one GPU. */
void cuda_stub_gpus_apart(void);
/* ... and none can reach another's memory. */
void cuda_stub_gpus_out_of_reach(void);

/* Kernels of images loaded from now on wait themselves for what they come after (rota_kernel_early.cuh). */
void cuda_stub_starts_early(bool early);

/* Kernels that are put on a captured stream from now on are launched in clusters of so many blocks. */
void cuda_stub_capture_clusters(uint32_t blocks);

/* Work of another library's on a stream: when its turn has come, and until it is over, `is_over` is asked again and
 * again, under the stand-in's lock, and does it. `user` lives until the stand-in is stopped. */
void cuda_stub_hold(CUstream stream, bool (*is_over)(void *user), void *user);

/* By such an `is_over`: the devices, as bits, that may touch what is mapped at the address; all, where nothing is. */
uint32_t cuda_stub_reached_by(CUdeviceptr address);
/* Of the context that is current. */
uint32_t cuda_stub_current_device(void);

typedef struct cuda_stub_graph {
    uint32_t nodes, edges, roots, kernels, memcpys, children, empties, conditionals; /* those of bodies not */
    uint32_t early_edges; /* of the edges: programmatic ones */
    uint32_t widest_cluster;
    uint32_t updatables; /* of the kernels: those whose grids the device sets */
} cuda_stub_graph;
/* Of the last graph that was made executable. */
cuda_stub_graph cuda_stub_last_graph(void);

#endif
#endif
