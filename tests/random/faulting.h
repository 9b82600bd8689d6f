/* Devices of one GPU, one of which reports an error at random: what may be said of what is under way, or of bytes,
 * then. */
#ifndef ROTA_TESTS_FAULTING_H
#define ROTA_TESTS_FAULTING_H

#include <stdbool.h>
#include <stdint.h>
#include "tests/adversary/adversary.h"

/* How often each was seen. */
typedef struct faulting {
    uint64_t armed, lost, inherited, well, healed;
} faulting;

/* From now on one of the next calls of the driver, or one of the next works of the adversary's devices, fails, and
 * with it its device. `is_stub`: the CUDA stand-in is in the driver's place. */
void faulting_arm(faulting *f, uint64_t *random, bool is_stub, adversary_options *adversary);
/* And none of them any more. */
void faulting_disarm(bool is_stub, adversary_options *adversary);
/* Whether that may be said of a call, a ticket or bytes; with the sentence in rota_last_error. What is said to be well
 * must be right, and is compared by the caller. */
bool faulting_allows(faulting *f, rota_status status);

#endif
