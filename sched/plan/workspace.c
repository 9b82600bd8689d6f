/* Scratch memory that a kernel asks for on the device it is placed on (rota_kernel.cuda.workspace): a
 * transient buffer of the plan's own, written by that one node, so that it is packed like any other. */
#include "graph/buffer_internal.h"
#include "graph/kernel_calls.h"
#include "sched/plan/workspace.h"

/* A node that wants one. */
typedef struct workspace {
    uint32_t operation;
    uint64_t size_bytes;
} workspace;

uint32_t rota_compile_operand_bytes(const rota_compiler *c, const rota_node_record *record,
                                    const uint32_t *buffers, uint64_t *out_bytes) {
    const rota_access_record *accesses = rota_node_accesses(record);
    uint32_t slot_mask = 0;
    for (uint32_t i = 0; i < record->access_count; i++) {
        out_bytes[i] = rota_access_size(&accesses[i]);
        if (((const rota_plan_buffer *)c->buffers.data)[buffers[i]].buffer->kind == ROTA_BUFFER_SLOT)
            slot_mask |= 1u << i;
    }
    return slot_mask;
}

uint64_t rota_compile_workspace_bytes(const rota_compiler *c, uint32_t part, const rota_node_record *record,
                                      const uint32_t *buffers) {
    const rota_device_traits *device = c->partitions.device[part];
    if (!device || record->kind != ROTA_NODE_KERNEL) return 0;
    const rota_cuda_target *target = device->cuda;
    if (!target) return 0;
    uint64_t bytes[ROTA_KERNEL_OPERANDS_MAX];
    const uint32_t slot_mask = rota_compile_operand_bytes(c, record, buffers, bytes);
    const void *params = rota_node_params(record);
    const rota_kernel *kernel =
        rota_exec_cuda_kernel(record->u.kernel.kernel, params, bytes, slot_mask, target);
    return rota_kernel_cuda_workspace(kernel, params, bytes, target);
}

rota_status rota_compile_want_workspace(rota_compiler *c, uint64_t size_bytes) {
    if (!rota_vector_reserve(&c->workspaces, sizeof(workspace), 1)) return rota_compile_no_memory(c);
    ((workspace *)c->workspaces.data)[c->workspaces.count++] =
        (workspace){(uint32_t)c->operations.count - 1, size_bytes};
    return ROTA_OK;
}

rota_status rota_compile_add_workspaces(rota_compiler *c) {
    const workspace *list = c->workspaces.data;
    for (uint64_t i = 0; i < c->workspaces.count; i++) {
        const rota_operation *operation = &ROTA_OPERATIONS(c)[list[i].operation];
        if (!rota_vector_reserve(&c->buffers, sizeof(rota_plan_buffer), 1) ||
            !rota_vector_reserve(&c->physicals, sizeof(rota_physical), 1))
            return rota_compile_no_memory(c);
        /* Belongs to no graph: the plan, which holds it, lets it go. */
        rota_buffer *buffer = rota_buffer_new(ROTA_BUFFER_TRANSIENT, "workspace", list[i].size_bytes);
        if (!buffer) return rota_compile_no_memory(c);
        uint32_t index = (uint32_t)c->buffers.count++, physical = (uint32_t)c->physicals.count++;
        ((rota_plan_buffer *)c->buffers.data)[index].buffer = buffer;
        ROTA_PHYSICALS(c)
        [physical] = (rota_physical){.buffer = index,
                                     .first_operation = list[i].operation,
                                     .last_operation = list[i].operation,
                                     .part = operation->part,
                                     .kind = ROTA_BUFFER_TRANSIENT,
                                     .packed = true,
                                     .inplace_of = ROTA_NONE,
                                     .size_bytes = list[i].size_bytes};
        uint32_t access = operation->first_access + operation->access_count - 1u;
        ROTA_ACCESS_PHYSICAL(c)[access] = physical;
    }
    return ROTA_OK;
}

void rota_compile_list_workspaces(const rota_compiler *c, uint32_t *out_operations) {
    const workspace *list = c->workspaces.data;
    for (uint64_t i = 0; i < c->workspaces.count; i++) out_operations[i] = list[i].operation;
}
