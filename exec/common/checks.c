/* See checks.h. */
#include "exec/common/checks.h"
#include "exec/common/names.h"

rota_status rota_check_slots(const rota_exec_command *command, const rota_exec_operand *operands,
                             const rota_kernel *kernel) {
    for (uint32_t i = 0; i < command->operand_count; i++)
        if (operands[i].is_slot && operands[i].memory > UINT16_MAX)
            return rota_fail(ROTA_UNSUPPORTED,
                             "kernel '%s': argument word %u of operand %u; the highest possible is %u",
                             kernel->name, operands[i].memory, i, UINT16_MAX);
    return ROTA_OK;
}

rota_status rota_check_groups(const rota_kernel *kernel, const uint32_t *groups, const uint32_t *most,
                              const char *things, const char *whose) {
    for (uint32_t i = 0; i < 3; i++)
        if (groups[i] > most[i])
            return rota_fail(ROTA_UNSUPPORTED, "kernel '%s' asks for %u %s along %c; %s has at most %u",
                             kernel->name, groups[i], things, "xyz"[i], whose, most[i]);
    return ROTA_OK;
}

rota_status rota_check_queues(const rota_exec_device *device, const rota_exec_program_desc *desc,
                              uint32_t queue_count) {
    for (uint32_t i = 0; i < desc->segment_count; i++)
        if (desc->segments[i].queue >= queue_count)
            return rota_fail(ROTA_OUT_OF_RANGE, "segment %u is on queue %u; %s was opened with %u", i,
                             desc->segments[i].queue, device->info.id, queue_count);
    return ROTA_OK;
}

static rota_status check_items(const rota_exec_command *command, const rota_exec_operand *operands,
                               uint64_t most) {
    const rota_kernel *kernel = command->u.kernel.kernel;
    uint64_t bytes[UINT8_MAX], items = most, grain;
    if (command->binding_count) return ROTA_OK;
    for (uint32_t i = 0; i < command->operand_count; i++) bytes[i] = operands[i].size_bytes;
    (void)rota_kernel_items(kernel, command->u.kernel.params, bytes, &items, &grain);
    if (most <= items) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_RANGE,
                     "it may have a count of %llu (rota_count.max), and its kernel '%s' has %llu items",
                     (unsigned long long)most, kernel->name, (unsigned long long)items);
}

rota_status rota_check_count(const rota_exec_command *command, const rota_exec_operand *operands) {
    const bool is_copy = command->kind == ROTA_EXEC_COMMAND_COPY;
    const uint32_t count = command->operand_count, wanted = is_copy ? 3 : 1;
    if ((!is_copy && command->kind != ROTA_EXEC_COMMAND_KERNEL) || count < wanted ||
        operands[count - 1].size_bytes != sizeof(uint32_t) || operands[count - 1].mode != ROTA_READ)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "it is counted, but is no kernel or copy whose last operand is 4 bytes that it reads");
    const uint64_t most = rota_exec_count_max(command) * (is_copy ? command->u.copy.unit_bytes : 1);
    if (most == 0) return rota_fail(ROTA_INVALID_ARGUMENT, "it is counted up to 0, expected at least 1");
    if (!is_copy) return check_items(command, operands, most);
    if (operands[0].size_bytes == most && operands[1].size_bytes == most) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_RANGE, "it copies at most %llu bytes, in ranges of others",
                     (unsigned long long)most);
}

rota_status rota_fail_kind(const rota_exec_device *device, const rota_exec_command *command) {
    const char *what = command->is_counted                              ? "counted commands"
                       : command->kind == ROTA_EXEC_COMMAND_HOST        ? "host functions"
                       : command->kind == ROTA_EXEC_COMMAND_CONDITIONAL ? "commands that decide"
                                                                        : "such commands";
    return rota_fail(ROTA_UNSUPPORTED, "%s (%s) runs no %s; devices of the CPU executor do", device->info.id,
                     device->info.driver, what);
}

rota_status rota_fail_at_node(rota_status status, const rota_exec_host *host,
                              const rota_exec_program_desc *desc, uint32_t command) {
    return rota_fail_context(
        status, "node '%s': ", rota_node_name_of(host, desc->owner, desc->commands[command].node));
}

uint32_t rota_slot_mask(const rota_exec_command *command, const rota_exec_operand *operands) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < command->operand_count && i < 32; i++)
        if (operands[i].is_slot) mask |= 1u << i;
    return mask;
}

uint32_t rota_bind_mask(const rota_exec_command *command, const rota_exec_binding *bindings) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < command->binding_count; i++) mask |= 1u << bindings[i].bindable;
    return mask;
}
