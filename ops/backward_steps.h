/* The steps of rota_backward, for whoever goes back through ops apart from a tape's own. Internal; not installed. */
#ifndef ROTA_OPS_BACKWARD_STEPS_H
#define ROTA_OPS_BACKWARD_STEPS_H

#include "ops/tape.h"

/* A region for each parameter, where its gradient will be, in grads[i] or, where that has no buffer, in a temporary;
 * what is there stays where `accumulate` says so. */
rota_status rota_backward_open(rota_tape *tape, const rota_tensor *params, uint32_t count, rota_tensor *grads,
                               bool accumulate);
/* Forward: gradients flow through what a use computes of what they flow through. */
rota_status rota_backward_spread(rota_tape *tape, const rota_op_use *use);
/* The gradient of one use is recorded, if one gets to it. */
rota_status rota_backward_step(rota_tape *tape, const rota_tape_use *used, bool accumulate);

#endif
