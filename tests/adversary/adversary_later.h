/* Inside of the adversarial executor: adversary_later.c. */
#ifndef ROTA_TESTS_ADVERSARY_LATER_H
#define ROTA_TESTS_ADVERSARY_LATER_H

#include "tests/adversary/adversary_internal.h"

/* Whether a command is a host function that ends later; begins it: running->later is set, or it has failed; whether
 * that is over; waits for it, and frees it; and of those that are left out. */
bool adversary_is_later(const rota_exec_command *command);
rota_status adversary_later_begin(const rota_exec_command *command, adversary_running *running);
bool adversary_later_is_over(const adversary_running *running);
rota_status adversary_later_end(adversary_running *running);
void adversary_later_skip(const rota_exec_command *command);
void adversary_later_leave_out(const rota_exec_program_desc *desc, uint32_t segment);

#endif
