/* Where a device is in the machine: the CPUs and memories near it, threads that stay with those CPUs, and memory that
 * comes from those memories. The CPUs are of those that the process may use, and memory of a thread that has a policy
 * of its own (numactl) is left to that. All of it is best effort: where the system refuses, threads run and pages come
 * from anywhere, and the log says so once a device, at debug level. Internal; not installed. */
#ifndef ROTA_EXEC_LOCALITY_H
#define ROTA_EXEC_LOCALITY_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/log.h"

#define ROTA_NODES_MAX 1024u

/* Memories, by the system's numbers, a bit each. */
typedef struct rota_nodes {
    unsigned long bits[ROTA_NODES_MAX / (8 * sizeof(unsigned long))];
} rota_nodes;

/* Zeroes: nothing is near. Filled when the device is opened; only `told` changes then. */
typedef struct rota_locality {
    cpu_set_t cpus;     /* none: all are as near, or too few are */
    rota_nodes nodes;   /* none: all are as near, or it is not known */
    const char *device; /* its id */
    const rota_log *log;
    _Atomic uint32_t told; /* bits of what the log was told */
} rota_locality;

static inline bool rota_nodes_has(const rota_nodes *nodes, uint32_t node) {
    const uint32_t width = 8 * sizeof nodes->bits[0];
    return node < ROTA_NODES_MAX && nodes->bits[node / width] >> node % width & 1;
}

/* A number that is too high is left out. */
static inline void rota_nodes_add(rota_nodes *nodes, uint32_t node) {
    const uint32_t width = 8 * sizeof nodes->bits[0];
    if (node < ROTA_NODES_MAX) nodes->bits[node / width] |= 1ul << node % width;
}

uint32_t rota_nodes_count(const rota_nodes *nodes);

/* Fills cpus and nodes with those around the device `pci` ("0000:01:00.0"; "": not known), by hwloc: of the memory, or
 * the package, that it hangs on. Any thread; reads the machine's topology, which takes some milliseconds. */
void rota_locality_find(rota_locality *locality, const char *pci);

/* pthread_create, of a thread that stays on `cpus`; NULL or none: on those near the device, if there are such. */
int rota_locality_start(rota_locality *locality, const cpu_set_t *cpus, pthread_t *out_thread,
                        void *(*main)(void *), void *user);

/* Pages that are touched from now on come from the nodes: of one as long as it has any, of several in turns. `begin`
 * is a page's. Two system calls. */
void rota_locality_place(rota_locality *locality, void *begin, size_t size_bytes);
/* The same for what this thread lets the system, or a driver, make between the two. True: to be left. */
bool rota_locality_enter(rota_locality *locality);
void rota_locality_leave(bool entered);

#endif
