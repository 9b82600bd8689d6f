/* What executors say alike of commands that decide (rota_exec_conditional) or are counted, and failed. Internal to the
 * executors; any thread. Each call appends to a sentence of `length` bytes in `text`, cut at `text_bytes`, and returns
 * its new length; text_bytes: it is full. */
#ifndef ROTA_EXEC_COMMON_DECISIONS_H
#define ROTA_EXEC_COMMON_DECISIONS_H

#include <stddef.h>
#include <stdint.h>
#include "exec/exec_program.h"

/* "iteration 3 of while 'a'", of a loop that has begun 4; or "if 'a'", of what has no iterations, or none begun. Called
 * from the outermost command in; a comma stands between them. */
size_t rota_decision_place(char *text, size_t text_bytes, size_t length, uint8_t kind, uint64_t begun,
                           const char *name);
/* ", node 'a': ", of a body's that failed; what it says of itself follows. */
size_t rota_decision_node(char *text, size_t text_bytes, size_t length, const char *name);
/* "its count is 41, the most it may be is 40...", of what is counted. */
size_t rota_decision_count(char *text, size_t text_bytes, size_t length, uint32_t value, uint32_t max);
/* ": its condition is 1 after 7 iterations...", of a while or for, where `value` is what it read. */
size_t rota_decision_limit(char *text, size_t text_bytes, size_t length,
                           const rota_exec_conditional *conditional, uint32_t value);

#endif
