/* Memory of the application's: see cuda_adopt.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_ADOPT_H
#define ROTA_EXEC_CUDA_CUDA_ADOPT_H

#include <stdbool.h>
#include "exec/exec.h"

rota_status rota_cuda_memory_adopt(rota_exec_device *device, const rota_exec_foreign *from, const char *name,
                                   rota_exec_memory **out_memory);
bool rota_cuda_memory_return(rota_exec_device *device, rota_exec_memory *memory);

#endif
