/* What a hung or lost device is at: see cuda_running.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_RUNNING_H
#define ROTA_EXEC_CUDA_CUDA_RUNNING_H

#include <stdbool.h>
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;

bool rota_cuda_stuck_node(rota_exec_device *device, rota_exec_instance *handle, rota_exec_stuck *out_stuck);
/* The name of a node that began and did not end, in whatever is in flight; NULL without diagnostics. */
const char *rota_cuda_running_node(rota_cuda_device *device);

#endif
