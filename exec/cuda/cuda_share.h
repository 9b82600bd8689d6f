/* Memory that other drivers use too: see cuda_share.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_SHARE_H
#define ROTA_EXEC_CUDA_CUDA_SHARE_H

#include <stdbool.h>
#include "exec/cuda/cuda_memory.h"
#include "exec/exec.h"

/* Where the memory lies: a mapping of its own, or a page of the pool. False: in neither, and others can't have it. */
bool rota_cuda_find_mapping(rota_cuda_device *device, const rota_cuda_memory *memory,
                            rota_cuda_mapping *out_mapping);
rota_status rota_cuda_memory_export(rota_exec_device *device, rota_exec_memory *memory, bool is_dma_buf,
                                    rota_exec_export *out_export);
rota_status rota_cuda_memory_import(rota_exec_device *device, const rota_exec_export *from, const char *name,
                                    rota_exec_memory **out_memory);

#endif
