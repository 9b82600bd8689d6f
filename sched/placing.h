/* Automatic placement (ROTA_PLACE_AUTO): nodes to devices by what they, and copies between devices, cost. */
#ifndef ROTA_SCHED_PLACING_H
#define ROTA_SCHED_PLACING_H

#include <stddef.h>
#include <stdint.h>
#include "../graph/graph.h"
#include "runtime.h"

/* What a node costs on a device. */
typedef struct rota_placing_cost {
    double span_ns; /* from its begin to its end, by itself on the device; infinite: it does not run there */
    double
        busy_ns; /* of that, how long no other can begin: less than the span where nodes run side by side */
} rota_placing_cost;

typedef struct rota_placing_node {
    rota_node node;
    const char *name;          /* valid during the policy's call */
    const rota_kernel *kernel; /* NULL: not a kernel's */
    uint32_t first_edge;       /* edges into it: [first_edge, first_edge + edge_count) */
    uint32_t edge_count;
    uint32_t possible;        /* bit d: device d may get it; one bit: it was placed, or the host runs it */
    uint64_t read_back_bytes; /* of OUTPUTs that it writes */
    uint32_t first_touch;     /* in touches: the buffers that it reads and writes, each once */
    uint32_t touch_count;
} rota_placing_node;

/* A buffer: a device on which some node touches it has memory for all of it. */
typedef struct rota_placing_buffer {
    uint64_t bytes;
    uint32_t last; /* the last node that touches it; UINT32_MAX: it stays, as PERSISTENT ones do */
} rota_placing_buffer;

#define ROTA_PLACING_OUTSIDE UINT32_MAX

/* Why a node comes after another one. */
typedef struct rota_placing_edge {
    uint32_t from; /* a node with a lower number; ROTA_PLACING_OUTSIDE: the host, which gives an INPUT */
    /* What an access writes, in [0, value_count). Edges of one value bring the same bytes, which a device gets once. */
    uint32_t value;
    uint64_t bytes; /* that go along where the two are on different devices; 0: only order */
} rota_placing_edge;

/* What is to be placed. All that is pointed to is valid during the policy's call. */
typedef struct rota_placing {
    size_t struct_size; /* sizeof, by ROTA_PLACING() */
    uint32_t node_count, edge_count, value_count;
    uint32_t
        device_count; /* at most 32; rota_compile_options.devices, and maybe one that host nodes run on */
    const rota_placing_node *nodes; /* in record order */
    const rota_placing_edge *edges;
    const rota_placing_cost *costs; /* of node n on device d: [n * device_count + d] */
    rota_device *const *devices;
    const uint32_t
        *hardware; /* by device: the lowest one that runs on the same hardware, which may be itself */
    const double *latency_ns, *byte_ns;           /* of a copy from device d to e: [d * device_count + e] */
    const double *host_latency_ns, *host_byte_ns; /* of INPUTs and OUTPUTs, by device */
    /* The device of the host's cores and memory, plus 1; 0: none. What a device is given by the host, a byte, keeps
     * that from other things by so long; NULL: by nothing. */
    uint32_t host_plus_1;
    const double *host_taken_ns;
    const uint32_t *touches;            /* numbers of buffers */
    const rota_placing_buffer *buffers; /* NULL: memory is not limited */
    uint32_t buffer_count;
    const uint64_t *memory_bytes;   /* by device, 0: not known; NULL: of none */
    uint64_t transient_limit_bytes; /* of buffers that don't stay, on all devices together; 0: no limit */
} rota_placing;
#define ROTA_PLACING(...) ROTA_SIZED(rota_placing, __VA_ARGS__)

/* A policy: writes the device of each node, one of its `possible` ones. Called once by rota_compile, on its thread, and
 * by a compile under a memory limit once each time it tries. Returns ROTA_OK, or the result of rota_fail, which ends
 * the compile. */
typedef rota_status (*rota_placer)(void *user, const rota_placing *placing, uint8_t *out_devices);

/* The default policy: HEFT (Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002). Nodes in the order of their upward rank,
 * each where it ends earliest, into gaps where one is wide enough; of each device some of its widest gaps are looked
 * through. The same is done in record order, in which devices begin their nodes. Of those two and, for each device,
 * all that it can run on it, the one with the least makespan is taken; those of several devices only where they are
 * faster than the best single one by a twentieth. A node that a device has no memory for, in record order, goes to the
 * next best that has; what keeps the limits is taken before what does not, which is taken only where nothing does. The
 * same input gives the same answer. `out_devices`: room for
 * node_count. INVALID_ARGUMENT: struct_size, more than 32 devices, a node that no device can run, or that may be on one
 * where its costs are not finite, or negative; OUT_OF_MEMORY. Any thread. O(devices * (nodes + edges)). */
ROTA_API rota_status rota_placing_choose(const rota_placing *placing, uint8_t *out_devices);

/* How long a replay takes with these devices, as rota runs it: devices begin nodes in record order, a copy leaves when
 * all that its device began before it has ended, and arrives once. INVALID_ARGUMENT: also a device that a node can't
 * be on. OUT_OF_MEMORY. Any thread. O(nodes + edges). */
ROTA_API rota_status rota_placing_makespan(const rota_placing *placing, const uint8_t *devices,
                                           double *out_makespan_ns);

#endif
