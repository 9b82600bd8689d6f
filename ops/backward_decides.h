/* Gradients of nodes that decide: see backward_decides.c. Internal; not installed. */
#ifndef ROTA_OPS_BACKWARD_DECIDES_H
#define ROTA_OPS_BACKWARD_DECIDES_H

#include "ops/tape.h"

/* The nodes of the tape's lane that a gradient may flow through, in record order, in the tape's arena. */
typedef struct rota_decides {
    rota_conditional **nodes;
    uint32_t count;
} rota_decides;

/* Whether gradients flow through the node: it is of the tape's own lane, and none of its bodies was recorded without a
 * tape. */
bool rota_decides_has(const rota_tape *tape, const rota_conditional *node);

rota_status rota_decides_list(rota_tape *tape, rota_decides *out_decides);
/* Forward through all that the tape has, in record order, as rota_backward_spread. */
rota_status rota_decides_spread_all(rota_tape *tape, const rota_decides *decides);
/* Whether a gradient gets to the node: something was added to one of what its bodies write. */
bool rota_decides_is_touched(rota_tape *tape, const rota_conditional *node);
/* Records the node's gradient, if one gets to it. UNSUPPORTED, WRONG_STATE: what stands in the way; OUT_OF_RANGE: more
 * is to be kept of iterations than there can be. */
rota_status rota_decides_step(rota_tape *tape, rota_conditional *node);

#endif
