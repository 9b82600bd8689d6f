/* Farewells that go, and transports that end, beside what else the thread of ranks has: see flush.c. Internal to
 * sched/ranks; all of it is called on the thread. */
#ifndef ROTA_SCHED_RANKS_FLUSH_H
#define ROTA_SCHED_RANKS_FLUSH_H

#include "exec/comm/transport.h"
#include "sched/communicator.h"
#include "sched/ranks/rank_thread.h"

/* Of one that has ended: other ranks are told, also where they take it late and nothing else is done, or a device takes
 * its time. Again: nothing. */
void rota_communicator_flush(rota_communicator *communicator);
/* By a call, not by a work's look: who closes it tells them from here on. */
void rota_communicator_stop_flushing(rota_communicator *communicator);
/* Closes a transport that nobody wants, beside what else the thread has. */
void rota_communicator_drop(rota_rank_thread *thread, rota_transport *transport);

#endif
