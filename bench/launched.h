/* What mpirun, srun and others tell the processes that they start as ranks. */
#ifndef ROTA_BENCH_LAUNCHED_H
#define ROTA_BENCH_LAUNCHED_H

#include <stdbool.h>
#include <stdint.h>

/* How many ranks a launcher (mpirun, and so rota-run; torchrun, srun) says that it started; 0: none did. Where it does
 * not say how many, 2: a communicator will. */
uint32_t launched_ranks(void);
/* This process's number among those of its host, as the launcher says; 0: none says. */
uint32_t launched_number(void);

/* Whether the device that was asked for is a GPU for each rank, with collectives by NCCL: "cuda". */
bool launched_gpus(const char *device);
/* The device of this number among the ranks of this host: what was asked for, or of a GPU for each "cuda:0" and so on,
 * in `room`. */
const char *launched_device(const char *device, uint32_t number, char room[16]);

/* Worker threads of each of so many ranks in this process, which have its processors between them; 0: as many as there
 * are. */
uint32_t launched_workers(uint64_t ranks);

#endif
