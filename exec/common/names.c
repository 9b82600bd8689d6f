/* What tools are shown of a program. */
#include "exec/common/names.h"

#include <stdio.h>
#include <string.h>

const char *rota_node_name_of(const rota_exec_host *host, const void *owner, uint32_t node) {
    const char *name = host->node_name ? host->node_name(owner, node) : NULL;
    return name ? name : "?";
}

void rota_segment_text(const rota_exec_program_desc *desc, uint32_t segment, char text[ROTA_NAME_MAX_BYTES]) {
    (void)snprintf(text, ROTA_NAME_MAX_BYTES, "%s, segment %u", desc->name ? desc->name : "plan", segment);
}

void rota_node_text(const rota_exec_host *host, const rota_exec_program_desc *desc,
                    const rota_exec_command *command, char text[ROTA_NAME_MAX_BYTES]) {
    const char *name = host->node_name ? host->node_name(desc->owner, command->node) : NULL;
    const char *kernel = command->kind == ROTA_EXEC_COMMAND_KERNEL ? command->u.kernel.kernel->name : NULL;
    const bool both = name && kernel && strcmp(name, kernel) != 0;
    (void)snprintf(text, ROTA_NAME_MAX_BYTES, "%s%s%s",
                   name     ? name
                   : kernel ? kernel
                            : "node",
                   both ? ": " : "", both ? kernel : "");
}
