/* Gradients of all ranks, reduced in buckets as a backward pass finishes them. Internal. */
#ifndef ROTA_OPS_DATA_PARALLEL_H
#define ROTA_OPS_DATA_PARALLEL_H

#include "ops/gradient.h"
#include "ops/ops_collective.h"

typedef struct rota_buckets rota_buckets;

/* Bytes of a bucket where none are said, by what all ranks know. */
uint64_t rota_bucket_bytes(uint32_t ranks, bool has_devices);

/* For params[0..count), whose regions are there, their gradients, and the tape's uses so far; in the tape's arena. NULL
 * in *out_buckets: there is one rank, and nothing to be done. */
rota_status rota_buckets_open(rota_tape *tape, const rota_data_parallel *options, const rota_tensor *params,
                              const rota_tensor *grads, uint32_t count, rota_buckets **out_buckets);
/* The use has been gone through: what it was the last to add to is finished. */
rota_status rota_buckets_step(rota_buckets *buckets, uint64_t use);
/* What is left, and parameters that no op reads. Their gradients are complete. */
rota_status rota_buckets_close(rota_buckets *buckets);

#endif
