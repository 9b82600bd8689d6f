/* What tools are shown of a program, in the words of every executor. Internal. */
#ifndef ROTA_EXEC_COMMON_NAMES_H
#define ROTA_EXEC_COMMON_NAMES_H

#include "exec/exec_host.h"
#include "exec/exec_program.h"

#define ROTA_NAME_MAX_BYTES 256

/* A node's name for a message (rota_exec_program_desc.owner, rota_exec_command.node); "?" where none is known. */
const char *rota_node_name_of(const rota_exec_host *host, const void *owner, uint32_t node);
/* Which plan's segment it is; cut where it is too long. */
void rota_segment_text(const rota_exec_program_desc *desc, uint32_t segment, char text[ROTA_NAME_MAX_BYTES]);
/* The node's name, and its kernel's where that says more. */
void rota_node_text(const rota_exec_host *host, const rota_exec_program_desc *desc,
                    const rota_exec_command *command, char text[ROTA_NAME_MAX_BYTES]);

#endif
