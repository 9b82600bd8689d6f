/* The completion thread: see cuda_complete.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_COMPLETE_H
#define ROTA_EXEC_CUDA_CUDA_COMPLETE_H

#include "exec/exec.h"

void *rota_cuda_complete_main(void *device);
uint64_t rota_cuda_own_cpu_ns(rota_exec_device *device);

#endif
