/* What is remembered for gradients. Internal. */
#ifndef ROTA_OPS_REMEMBER_H
#define ROTA_OPS_REMEMBER_H

#include "ops/tape.h"

/* What was recorded for another op, remembered for gradients as a use of this one (rota_op.remember). */
rota_status rota_tape_remember_use(rota_tape *tape, const rota_op_use *use);

#endif
