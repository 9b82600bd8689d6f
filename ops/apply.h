/* An op is applied: checked, recorded, and remembered. Internal. */
#ifndef ROTA_OPS_APPLY_H
#define ROTA_OPS_APPLY_H

#include "ops/tape.h"

/* rota_op_apply for an op of the library's, which is in order; its nodes are named `name`, which is static,
 * but where they are part of another op. */
rota_status rota_tape_apply(rota_tape *tape, rota_op_use *use, const char *name);
/* Checks a use as rota_op_apply does, takes its tensors in (they are of root buffers then), and says what its
 * outputs are to be. */
rota_status rota_tape_expect(rota_op_use *use, rota_tensor *out_outputs);

#endif
