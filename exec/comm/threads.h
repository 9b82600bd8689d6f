/* Ranks that are threads of one process: see threads.c. Internal. */
#ifndef ROTA_EXEC_COMM_THREADS_H
#define ROTA_EXEC_COMM_THREADS_H

#include "exec/comm/engine.h"

/* Makes the engines of all ranks; each is closed by itself. OUT_OF_MEMORY. */
rota_status rota_threads_open(uint32_t size, rota_engine **out_engines);

#endif
