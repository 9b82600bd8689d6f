/* Memory of one driver as another's: devices of one GPU. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_MEMORY_IMPORT_H
#define ROTA_SCHED_RUNTIME_MEMORY_IMPORT_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/runtime.h"

/* Whether buffers have the same memory on both devices: they are one, or of one GPU. */
bool rota_device_shares(const rota_device *a, const rota_device *b);
/* Whether the two say that they are of one GPU, and can. */
bool rota_share_may(const rota_device *a, const rota_device *b);
/* The new device, not visible yet, has its memory in common with the other from here on; returns what
 * `refuse` takes, which makes that undone. */
uint32_t rota_share_begin(rota_device *device, rota_device *other);
void rota_share_refuse(rota_device *device, rota_device *other, uint32_t before);
/* `memory` of another device of its domain as memory of `device`; it counts as no memory of the runtime's. */
rota_status rota_share_import(rota_device *owner, rota_exec_memory *memory, rota_device *device,
                              const char *name, rota_exec_memory **out_memory);
/* Ends the import. False: its device is lost and may still touch the owner's memory, which then stays until
 * the owner's device is closed. */
bool rota_share_end(rota_device *device, rota_exec_memory *memory);

#endif
