/* A transport made of messages: see messages.c. Internal. */
#ifndef ROTA_EXEC_COMM_MESSAGES_H
#define ROTA_EXEC_COMM_MESSAGES_H

#include "exec/comm/engine.h"
#include "exec/comm/transport.h"

/* Of all ranks of an engine, which it takes over, also where it fails. */
rota_status rota_messages_open(rota_engine *engine, const char *name, uint64_t timeout_ns,
                               rota_transport **out_transport);

/* An identity of an engine, as good as no other one's. */
uint64_t rota_messages_make_id(void);

#endif
