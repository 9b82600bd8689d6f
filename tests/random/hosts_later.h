/* Host nodes of random graphs that end later than they begin: on a thread of the fuzzer's, in an order of its own. */
#ifndef ROTA_TESTS_HOSTS_LATER_H
#define ROTA_TESTS_HOSTS_LATER_H

#include "tests/random/mirror.h"

/* Half of the case's host nodes, of those that are in no body. */
void hosts_later_draw(mirror_case *mirror, uint64_t *random);
/* Does what test_host_function does, with the same user's value. */
extern const rota_host_later hosts_later;
/* The thread, from before the first submission until no run is left. */
void hosts_later_start(void);
/* How many runs it has ended. */
uint64_t hosts_later_stop(void);

#endif
