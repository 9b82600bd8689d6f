/* A stand-in for NCCL between processes of one machine, over the CUDA stand-in of each (cuda_stub.h): for ranks under
 * MPI. All-reduces alone, of no more than NCCL_PROCESSES_BYTES, by memory that the processes share; else as
 * nccl_standin.h, which looks at more than this does. A process that is killed comes to nothing more. */
#ifndef ROTA_TESTS_NCCL_PROCESSES_H
#define ROTA_TESTS_NCCL_PROCESSES_H

#include <stdint.h>

enum { NCCL_PROCESSES_BYTES = 1 << 16, NCCL_PROCESSES_RANKS = 8 };

/* Puts it in NCCL's position; the CUDA stand-in was started. */
void nccl_processes_start(void);
/* This process is killed when the turn of this collective has come on its device, of those from 1 on. */
void nccl_processes_die_in(uint64_t number);

#endif
