/* Collectives as nodes of other ops. Internal. */
#ifndef ROTA_OPS_COLLECTIVE_H
#define ROTA_OPS_COLLECTIVE_H

#include "ops/ops_collective.h"
#include "sched/collectives.h"

/* Within an op's `record`: y = the sum of all ranks' x, or, of ROTA_COLLECTIVE_ALL_GATHER, all of them one after the
 * other; both contiguous, and of the same real dtype. */
rota_status rota_collective_record(rota_tape *tape, rota_communicator *communicator,
                                   rota_collective_kind kind, const rota_tensor *x, const rota_tensor *y);

#endif
