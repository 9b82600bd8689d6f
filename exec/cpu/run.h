/* Running tasks: see run.c. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_RUN_H
#define ROTA_EXEC_CPU_RUN_H

#include "exec/cpu/deque.h"

typedef struct rota_cpu_worker rota_cpu_worker;

void rota_cpu_run_task(rota_cpu_worker *worker, rota_cpu_task *task);

#endif
