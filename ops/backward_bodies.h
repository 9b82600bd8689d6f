/* Gradients where nodes decide: see backward_bodies.c. Internal; not installed. */
#ifndef ROTA_OPS_BACKWARD_BODIES_H
#define ROTA_OPS_BACKWARD_BODIES_H

#include "ops/tape.h"

/* Once it is known which buffers gradients flow through (rota_tape_buffer.wanted). */
rota_status rota_backward_check_bodies(rota_tape *tape);
/* After that: a node behind the use in record order with a body that writes into [begin, end) of the entry's buffer. */
const rota_conditional *rota_backward_body_that_overwrites(const rota_tape *tape, const rota_tape_use *used,
                                                           const rota_tape_buffer *entry, uint64_t begin,
                                                           uint64_t end);

#endif
