/* Kernels that are several on some devices (rota_kernel.parts): the records of what a node becomes there. To
 * the steps that follow, the parts are operations like any others; they share the node's number and name. */
#include <string.h>
#include "graph/kernel_calls.h"
#include "sched/plan/parts.h"
#include "sched/plan/workspace.h"

static rota_status check_part(const rota_node_record *record, const rota_kernel_part *part) {
    bool fits = part->kernel && part->operand_count == part->kernel->operand_count &&
                part->kernel->param_bytes <= ROTA_KERNEL_PARAM_BYTES_MAX;
    for (uint32_t i = 0; fits && i < part->operand_count; i++) fits = part->operand[i] < record->access_count;
    if (fits) return rota_kernel_check_functions(part->kernel);
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "kernel '%s' names as a part of it kernel '%s' with %u operands out of %u; it has %u",
                     record->u.kernel.kernel->name, part->kernel ? part->kernel->name : "none",
                     part->operand_count, record->access_count,
                     part->kernel ? part->kernel->operand_count : 0);
}

static rota_status make_record(rota_compiler *c, const rota_node_record *record, const rota_kernel_part *part,
                               const rota_node_record **out_record) {
    ROTA_TRY(check_part(record, part));
    const uint32_t param_bytes = part->kernel->param_bytes;
    const size_t bytes =
        (sizeof *record + sizeof(rota_access_record) * part->operand_count + param_bytes + 7) & ~(size_t)7;
    /* Lives as long as what describes the plan's operations. */
    rota_node_record *made = rota_arena_alloc(&c->plan->arena, bytes, 8);
    if (!made) return rota_compile_no_memory(c);
    *made = (rota_node_record){.record_words = rota_record_words(bytes) & 0x3fffu,
                               .param_words = (uint8_t)(param_bytes / 4),
                               .kind = ROTA_NODE_KERNEL,
                               .access_count = (uint8_t)part->operand_count,
                               .device_plus_1 = record->device_plus_1,
                               .queue_plus_1 = record->queue_plus_1,
                               .name = record->name,
                               .u.kernel.kernel = part->kernel};
    const rota_access_record *from = rota_node_accesses(record);
    rota_access_record *to = (rota_access_record *)(made + 1);
    for (uint32_t i = 0; i < part->operand_count; i++) {
        const rota_access_record *access = &from[part->operand[i]];
        to[i] = rota_access_record_like(access, rota_access_stored(access), (rota_access_mode)part->mode[i]);
    }
    memcpy(to + part->operand_count, part->params, param_bytes);
    *out_record = made;
    return ROTA_OK;
}

rota_status rota_compile_parts(rota_compiler *c, uint32_t part, const rota_node_record *record,
                               const rota_node_record *out_records[ROTA_KERNEL_PARTS_MAX],
                               uint32_t *out_count) {
    const rota_kernel *kernel = record->u.kernel.kernel;
    const rota_device_traits *device = c->partitions.device[part];
    const rota_access_record *accesses = rota_node_accesses(record);
    uint64_t bytes[ROTA_KERNEL_OPERANDS_MAX];
    uint32_t buffers[ROTA_KERNEL_OPERANDS_MAX] = {0};
    for (uint32_t i = 0; i < record->access_count; i++)
        ROTA_TRY(rota_compile_buffer_index(c, rota_access_stored(&accesses[i]), &buffers[i]));
    const uint32_t slot_mask = rota_compile_operand_bytes(c, record, buffers, bytes);
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX];
    memset(parts, 0, sizeof parts); /* also what lies between parameters */
    *out_count = rota_kernel_parts(kernel, device ? device->kind : ROTA_EXEC_CPU, rota_node_params(record),
                                   bytes, slot_mask, device ? device->cuda : NULL, parts);
    for (uint32_t i = 0; i < *out_count; i++) ROTA_TRY(make_record(c, record, &parts[i], &out_records[i]));
    return ROTA_OK;
}

/* Copies between devices may lie between two parts of a node. */
uint32_t rota_compile_next_part(const rota_compiler *c, uint32_t operation) {
    const rota_operation *operations = c->operations.data;
    if (operations[operation].kind != ROTA_OPERATION_NODE || !operations[operation].goes_on) return ROTA_NONE;
    uint32_t next = operation + 1;
    while (operations[next].kind != ROTA_OPERATION_NODE ||
           operations[next].node != operations[operation].node)
        next++;
    return next;
}
