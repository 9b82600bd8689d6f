/* What losses of class scores are recorded of, also where each rank has a part of the scores. Internal. */
#ifndef ROTA_OPS_OP_LOSS_H
#define ROTA_OPS_OP_LOSS_H

#include "ops/ops_tensor_parallel.h"
#include "ops/tape.h"

/* What `user` of a copy of one of these ops points to: the classes that the logits' columns are. NULL: all. */
typedef struct rota_loss_part {
    rota_rank_part part;
    rota_communicator *communicator;
} rota_loss_part;

/* Of each row loss and log-sum-exp, [rows], as the kernel cross_entropy has them. */
rota_status rota_loss_record_rows(rota_tape *tape, const rota_op_use *use, const rota_tensor *labels,
                                  const rota_tensor *losses, const rota_tensor *lse);
/* The mean of those whose label counts, as the use's outputs 0 and 2. */
rota_status rota_loss_record_mean(rota_tape *tape, const rota_op_use *use, const rota_tensor *labels,
                                  const rota_tensor *losses);

#endif
