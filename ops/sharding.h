/* What each rank keeps of the parameters: made bucket by bucket (data_parallel.c). Internal. */
#ifndef ROTA_OPS_SHARDING_H
#define ROTA_OPS_SHARDING_H

#include "ops/ops_collective.h"

/* A parameter's gradient in a bucket. */
typedef struct rota_shard_run {
    uint32_t parameter;
    rota_tensor gradient; /* one-dimensional */
} rota_shard_run;

/* Before the first bucket, of so many parameters. INVALID_ARGUMENT: it is another communicator's; WRONG_STATE: it has
 * been filled. */
rota_status rota_sharding_begin(rota_sharding *sharding, const rota_communicator *communicator,
                                uint32_t parameter_count);
/* A bucket of gradients of one dtype, in an order that is the same on all ranks: this rank's part of their mean, or
 * sum, becomes pieces. */
rota_status rota_sharding_add(rota_sharding *sharding, rota_tape *tape, bool sum, const rota_shard_run *runs,
                              uint32_t count);

#endif
