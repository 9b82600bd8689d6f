/* The last thing that the ranks of an engine do together: see drain.c. Internal to exec/comm. */
#ifndef ROTA_EXEC_COMM_DRAIN_H
#define ROTA_EXEC_COMM_DRAIN_H

#include "exec/comm/engine.h"

/* A message to another rank that nobody may want. */
typedef struct rota_drain_message {
    uint32_t to, tag;
    uint64_t size_bytes;
} rota_drain_message;

typedef struct rota_drain rota_drain;

/* Tells each other rank which messages of this one's it is to take, and listens for theirs, of which each has `most` at
 * the most. NULL: no memory, or the engine fails. */
rota_drain *rota_drain_begin(rota_engine *engine, const rota_drain_message *messages, uint32_t count,
                             uint64_t most);
/* Gets on, without waiting. `is_own_over`: all messages that this rank named have come to their end. True: so have
 * those of all others, and none of the drain's own is under way. */
bool rota_drain_go_on(rota_drain *drain, bool is_own_over);
/* Why it can't get on, as what a rank names there can't be, or failed; "": it can, or there is no memory, or the engine
 * takes no more. */
const char *rota_drain_failure(const rota_drain *drain);
/* Of what the engine may still touch. */
uint64_t rota_drain_bytes(const rota_drain *drain);
/* After go_on returned true. */
void rota_drain_free(rota_drain *drain);

#endif
