/* A thread for calls of NCCL's that may block: of one rank's communicator. Internal to exec/nccl.
 *
 * One thread owns it, that of ranks, and gives it one call at a time; it looks for what came of it, and waits for
 * nothing. So a call that never returns holds this thread alone. */
#ifndef ROTA_EXEC_NCCL_CALLER_H
#define ROTA_EXEC_NCCL_CALLER_H

#include <stdbool.h>
#include "base/status.h"

typedef struct rota_nccl_caller rota_nccl_caller;

/* SYSTEM, OUT_OF_MEMORY. */
rota_status rota_nccl_caller_start(rota_nccl_caller **out_caller);
/* Has the thread call fn(user); none is under way. What `user` is stays until it has returned. Lock-free. */
void rota_nccl_caller_give(rota_nccl_caller *caller, rota_status (*fn)(void *user), void *user);
/* Whether what was given has returned, as *out_status says: where it is not OK its sentence is this thread's. False
 * where nothing was given, too. Once for each. */
bool rota_nccl_caller_take(rota_nccl_caller *caller, rota_status *out_status);
/* A call comes soon: the thread is to be awake. Lock-free. */
void rota_nccl_caller_stir(rota_nccl_caller *caller);
/* The thread ends, when it has returned from what it was given, if ever: nobody looks at that any more. */
void rota_nccl_caller_end(rota_nccl_caller *caller);

#endif
