/* Memory of the CPU executor: see memory.c. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_MEMORY_H
#define ROTA_EXEC_CPU_MEMORY_H

#include "exec/exec.h"

typedef struct rota_cpu_device rota_cpu_device;

rota_status rota_cpu_memory_create(rota_exec_device *device, uint64_t size_bytes, uint32_t flags,
                                   const char *name, rota_exec_memory **out_memory);
void rota_cpu_memory_destroy(rota_exec_device *device, rota_exec_memory *memory);
rota_status rota_cpu_memory_adopt(rota_exec_device *device, const rota_exec_foreign *from, const char *name,
                                  rota_exec_memory **out_memory);
bool rota_cpu_memory_return(rota_exec_device *device, rota_exec_memory *memory);
/* What is left (close). */
void rota_cpu_memory_free_all(rota_cpu_device *device);

#endif
