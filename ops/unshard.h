/* Shards of parameters that become whole for the ops that read them: an all_gather whose result the backward pass makes
 * anew. Internal. */
#ifndef ROTA_OPS_UNSHARD_H
#define ROTA_OPS_UNSHARD_H

#include "ops/ops_collective.h"
#include "ops/tape.h"

/* x [m] of each rank, one after the other: y [n * m], a transient. Its gradient is the rank's part of the sum or mean
 * of all ranks'. `keep`: it stays as it is until the backward pass has read it. */
rota_status rota_collective_unshard(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                    rota_collective_reduction reduction, bool keep, rota_tensor *out_y);
/* A use of that, whose result is to be gathered again. */
bool rota_collective_is_unshard(const rota_op_use *use);

/* ---- During rota_backward (backward_unshard.c) ---- */

typedef struct rota_unshards rota_unshards;

/* Of the tape's uses; in its arena. `early`: gradients go out when the last op that adds to them has been gone
 * through, which is known where ops alone read tensors. NULL in *out_unshards: there are none. WRONG_STATE: an op, or
 * a body, wrote what was gathered. */
rota_status rota_unshards_open(rota_tape *tape, bool early, rota_unshards **out_unshards);
/* Of those that gradients read: the uses that are to be gathered again, of shards that are as they were; NULL past the
 * last, and of NULL. */
const rota_tape_use *rota_unshards_again(const rota_unshards *unshards, uint32_t index);
/* What `use` reads of gathered tensors is gathered again, and that which is needed after it; *out_used is the use with
 * what there is now, maybe in `room`, and NULL if it has been gone through. */
rota_status rota_unshards_read(rota_unshards *unshards, uint64_t use, rota_tape_use *room,
                               const rota_tape_use **out_used);
/* A use whose gradient is complete now that `use` has been gone through, to be gone through next; NULL: no more. */
const rota_tape_use *rota_unshards_finished(rota_unshards *unshards, uint64_t use);
/* Those that gathers read are this rank's alone, and no mean of all ranks': INVALID_ARGUMENT. */
rota_status rota_unshards_refuse_data_parallel(const rota_unshards *unshards);

#endif
