/* Memory of a buffer that other GPUs read. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_MEMORY_PEERS_H
#define ROTA_SCHED_RUNTIME_MEMORY_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/runtime.h"

typedef struct rota_residency rota_residency;

/* Whether copies of `device` may read the memory, which is of `owner`, a peer of its, from now on. UNSUPPORTED where
 * they are none, or of that memory. Blocks in the driver. */
rota_status rota_peer_open(rota_device *owner, rota_exec_memory *memory, rota_device *device);
/* The device is about to have this memory of the buffer: its peers' and its own become open to each other, as far as
 * that goes. Under the residency's mutex. */
void rota_residency_open(rota_residency *residency, rota_device *device, rota_exec_memory *memory);
/* Whether copies of `to` can read the buffer's memory on `from`, both of which are there. */
bool rota_residency_is_open(const rota_residency *residency, const rota_device *from, const rota_device *to);
/* The peers of these devices, as bits, and they. */
uint64_t rota_peers_of(const rota_runtime *runtime, uint64_t devices);

#endif
