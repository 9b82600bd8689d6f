/* The norm of many tensors, for ops that scale by it. Internal. */
#ifndef ROTA_OPS_OP_UPDATE_H
#define ROTA_OPS_OP_UPDATE_H

#include "ops/tape.h"

/* out [2] = {norm, factor} of the contiguous tensors together. */
rota_status rota_record_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                    float max_norm, const rota_tensor *out);

#endif
