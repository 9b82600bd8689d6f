/* Runtimes of tests under the Khronos validation layer, whose messages are counted. */
#ifndef ROTA_TESTS_VALIDATION_H
#define ROTA_TESTS_VALIDATION_H

#include "rota.h"

/* The options with the layer on, in the build without sanitizers: theirs leave it to that one. The log
 * becomes the count's. */
rota_runtime_options validation_on(rota_runtime_options options);

/* Messages of the layer in this process so far; each was printed. Any thread. */
uint32_t validation_messages(void);

#endif
