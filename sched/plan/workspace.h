/* Scratch memory that kernels ask for. Internal. */
#ifndef ROTA_SCHED_PLAN_WORKSPACE_H
#define ROTA_SCHED_PLAN_WORKSPACE_H

#include "sched/plan/compiler.h"

/* The sizes of a node's accesses, whose plan buffers are given, and the mask of those in slots. */
uint32_t rota_compile_operand_bytes(const rota_compiler *compiler, const rota_node_record *record,
                                    const uint32_t *buffers, uint64_t *out_bytes);
/* Scratch memory that a node's kernel asks for on `part`, where `buffers` are the plan buffers of its
 * accesses; 0: none. */
uint64_t rota_compile_workspace_bytes(const rota_compiler *compiler, uint32_t part,
                                      const rota_node_record *record, const uint32_t *buffers);
/* Notes that the newest operation's last access is a workspace of so many bytes ... */
rota_status rota_compile_want_workspace(rota_compiler *compiler, uint64_t size_bytes);
/* ... and makes them, after all other buffers are known. */
rota_status rota_compile_add_workspaces(rota_compiler *compiler);
/* The operations that have one, in the order of their physicals; room for as many as there are. */
void rota_compile_list_workspaces(const rota_compiler *compiler, uint32_t *out_operations);

#endif
