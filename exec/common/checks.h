/* What the executors of GPUs check alike when they make a program. Each error is a sentence with the names.
 * Internal to the executors; any thread. */
#ifndef ROTA_EXEC_COMMON_CHECKS_H
#define ROTA_EXEC_COMMON_CHECKS_H

#include <stdint.h>
#include "base/status.h"
#include "exec/exec.h"

/* An operand's argument word has 16 bits in what kernels are given. */
rota_status rota_check_slots(const rota_exec_command *command, const rota_exec_operand *operands,
                             const rota_kernel *kernel);
/* At most so many `things` along each axis; `whose` says of what that is the limit. */
rota_status rota_check_groups(const rota_kernel *kernel, const uint32_t *groups, const uint32_t *most,
                              const char *things, const char *whose);
/* The segments' queues are those that the device was opened with. */
rota_status rota_check_queues(const rota_exec_device *device, const rota_exec_program_desc *desc,
                              uint32_t queue_count);
/* Of a counted command of a GPU's: its last operand is the count, and what that may be at most the node's ranges, and
 * the kernel's items where it says them and no slot does, hold. */
rota_status rota_check_count(const rota_exec_command *command, const rota_exec_operand *operands);
/* For a command of a kind, or one that is counted, that the device does not run. */
rota_status rota_fail_kind(const rota_exec_device *device, const rota_exec_command *command);
/* A failure's sentence, with the command's node before it. */
rota_status rota_fail_at_node(rota_status status, const rota_exec_host *host,
                              const rota_exec_program_desc *desc, uint32_t command);

/* Operands and parameters that come by argument words: a bit each. */
uint32_t rota_slot_mask(const rota_exec_command *command, const rota_exec_operand *operands);
uint32_t rota_bind_mask(const rota_exec_command *command, const rota_exec_binding *bindings);

#endif
