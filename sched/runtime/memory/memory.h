/* Memory of devices, counted. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_MEMORY_MEMORY_H
#define ROTA_SCHED_RUNTIME_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/runtime.h"

/* Within the runtime's limit, or OUT_OF_MEMORY and *out_is_limited. */
rota_status rota_device_memory_try(rota_device *device, uint64_t size_bytes, uint32_t flags, const char *name,
                                   bool *out_is_limited, rota_exec_memory **out_memory);
void rota_device_memory_destroy(rota_device *device, rota_exec_memory *memory);

#endif
