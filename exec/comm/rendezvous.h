/* How processes that know an address become ranks that are connected, each to each: see rendezvous.c. Internal. */
#ifndef ROTA_EXEC_COMM_RENDEZVOUS_H
#define ROTA_EXEC_COMM_RENDEZVOUS_H

#include "exec/comm/launch.h"

/* A connection to each other rank, out_sockets[i], which are the caller's; out_sockets[own rank] is -1. `name` is the
 * communicator's, and all ranks give the same. Waits for all of them, up to the timeout, but for what a system takes to
 * find a host's address. TIMEOUT: some did not come, and which; INVALID_ARGUMENT: they say different sizes or names, or
 * two the same rank, which all that have come are told; SYSTEM: nothing can be listened to or connected. */
rota_status rota_rendezvous(const rota_meeting *meeting, const char *name, uint64_t timeout_ns,
                            int *out_sockets);

#endif
