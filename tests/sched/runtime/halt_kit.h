/* A submit thread of the adversary's that is halted in a function of the runtime's, for as long as the test likes. One
 * at a time. */
#ifndef ROTA_TESTS_HALT_KIT_H
#define ROTA_TESTS_HALT_KIT_H

#include <stdbool.h>
#include <stdint.h>
#include "tests/adversary/adversary.h"

/* From the next submit on: its thread stays at the first stop that it comes to in `function`, borrowed, until it may go
 * on, or for limit_ns. */
void halt_begin(adversary_options *options, const char *function, uint64_t limit_ns);
/* Waits until it has come there, for at most 10 s; fails the test else. */
void halt_await(void);
/* Whether it is there. Any thread. */
bool halt_is_on(void);
void halt_end(void);

#endif
