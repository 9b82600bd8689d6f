/* Connections between processes as a message engine: see tcp_engine.c. Internal. */
#ifndef ROTA_EXEC_COMM_TCP_ENGINE_H
#define ROTA_EXEC_COMM_TCP_ENGINE_H

#include "exec/comm/engine.h"
#include "exec/comm/launch.h"

/* Waits until all ranks have come, up to the timeout, by the thread that will use it: see rota_rendezvous, whose errors
 * it has; OUT_OF_MEMORY. */
rota_status rota_tcp_open(const rota_meeting *meeting, const char *name, uint64_t timeout_ns,
                          rota_engine **out_engine);

#endif
