/* Gradients where nodes decide: see backward_bodies.c. Internal; not installed. */
#ifndef ROTA_OPS_BACKWARD_BODIES_H
#define ROTA_OPS_BACKWARD_BODIES_H

#include "ops/tape.h"

/* Once it is known which buffers gradients flow through (rota_tape_buffer.wanted). */
rota_status rota_backward_check_bodies(rota_tape *tape);

#endif
