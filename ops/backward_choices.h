/* Gradients of nodes that choose among bodies, if and switch: see backward_choices.c. Internal; not installed. */
#ifndef ROTA_OPS_BACKWARD_CHOICES_H
#define ROTA_OPS_BACKWARD_CHOICES_H

#include "ops/tape.h"

/* The nodes of the tape's lane that a gradient may flow through, in record order, in the tape's arena. */
typedef struct rota_choices {
    const rota_conditional **nodes;
    uint32_t count;
} rota_choices;

/* Whether gradients flow through the node: an if or switch of the tape's own lane, none of whose bodies was recorded
 * without a tape. */
bool rota_choices_has(const rota_tape *tape, const rota_conditional *node);

rota_status rota_choices_list(rota_tape *tape, rota_choices *out_choices);
/* Forward through all of a node's bodies, as rota_backward_spread. */
rota_status rota_choices_spread(rota_tape *tape, const rota_conditional *node);
/* Whether a gradient gets to the node: something was added to one of what its bodies write. */
bool rota_choices_is_touched(rota_tape *tape, const rota_conditional *node);
/* Records the node's gradient, if one gets to it: another node of its kind, of the same condition. UNSUPPORTED,
 * WRONG_STATE: what stands in the way. */
rota_status rota_choices_step(rota_tape *tape, const rota_conditional *node);

#endif
