/* A plan's commands as data: what each touches and calculates, and what is live while it runs. */
#include <stdlib.h>
#include <string.h>
#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/kernel_calls.h"
#include "sched/plan/commands.h"
#include "sched/plan/derived.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"

static rota_plan_command_kind kind_of(const rota_operation *operation) {
    switch ((rota_operation_kind)operation->kind) {
    case ROTA_OPERATION_UPLOAD:
        return ROTA_PLAN_UPLOAD;
    case ROTA_OPERATION_DOWNLOAD:
        return ROTA_PLAN_READ_BACK;
    case ROTA_OPERATION_TRANSFER:
        return ROTA_PLAN_TRANSFER;
    case ROTA_OPERATION_NODE:
        break;
    }
    switch (operation->record->kind) {
    case ROTA_NODE_COPY:
        return ROTA_PLAN_COPY;
    case ROTA_NODE_FILL:
        return ROTA_PLAN_FILL;
    case ROTA_NODE_HOST:
        return ROTA_PLAN_HOST;
    case ROTA_NODE_CONDITIONAL:
        return ROTA_PLAN_CONDITIONAL;
    default:
        return ROTA_PLAN_KERNEL;
    }
}

bool rota_plan_decides(const rota_plan *plan, uint32_t node) {
    return kind_of(&rota_plan_info(plan)->operations[node]) == ROTA_PLAN_CONDITIONAL;
}

bool rota_plan_is_transfer(const rota_plan *plan, uint32_t node) {
    const rota_compile_info *info = plan->compile_info;
    return info->operations[node].kind == ROTA_OPERATION_TRANSFER;
}

/* The same bytes read twice are read once: an absent operand is bound to another one's range. */
static bool is_repeated(const rota_plan *plan, const rota_operation *operation, uint32_t access) {
    const rota_exec_operand *operands = rota_plan_info(plan)->accesses + operation->first_access;
    for (uint32_t i = 0; i < access; i++)
        if (operands[i].mode == operands[access].mode && operands[i].memory == operands[access].memory &&
            operands[i].offset_bytes == operands[access].offset_bytes &&
            operands[i].size_bytes == operands[access].size_bytes &&
            rota_access_physical(plan, operation, i) == rota_access_physical(plan, operation, access))
            return true;
    return false;
}

static void fill_in(const rota_plan *plan, uint32_t n, rota_plan_command *out) {
    const rota_compile_info *info = plan->compile_info;
    const rota_operation *operation = &info->operations[n];
    uint64_t bytes[ROTA_OPERATION_ACCESSES_MAX];
    *out = (rota_plan_command){.struct_size = sizeof *out,
                               .name = rota_operation_name(plan, n),
                               .kind = kind_of(operation),
                               .device = plan->partitions[operation->part].device,
                               .queue = operation->queue,
                               .segment = rota_operation_segment(plan, operation),
                               .batch = rota_operation_batch(plan, operation)};
    for (uint32_t i = 0; i < operation->access_count; i++) {
        const rota_exec_operand *operand = &info->accesses[operation->first_access + i];
        bytes[i] = operand->size_bytes;
        if (is_repeated(plan, operation, i)) continue;
        if (operand->mode != ROTA_WRITE) out->read_bytes += operand->size_bytes;
        if (operand->mode != ROTA_READ) out->written_bytes += operand->size_bytes;
    }
    if (out->kind != ROTA_PLAN_KERNEL) return;
    out->kernel = operation->record->u.kernel.kernel;
    out->work = rota_kernel_work(out->kernel, rota_node_params(operation->record), bytes);
}

/* By physical that is packed: where it is touched last, or nowhere, being alive until all has ended. */
static void find_last(const rota_plan *plan, uint32_t *last) {
    const rota_compile_info *info = rota_plan_info(plan);
    for (uint32_t n = 0; n < info->operation_count; n++) {
        const rota_operation *operation = &info->operations[n];
        for (uint32_t i = 0; i < operation->access_count; i++) {
            const uint32_t physical = rota_access_physical(plan, operation, i);
            if (physical == ROTA_NONE) continue;
            last[physical] = info->physicals[physical].outlives ? ROTA_NONE : n;
        }
    }
}

/* As pack.c counts them. */
static void count_live(const rota_plan *plan, uint32_t *last, uint8_t *ended, rota_plan_command *out) {
    const rota_compile_info *info = plan->compile_info;
    uint64_t now[UINT8_MAX + 1] = {0};
    enum { BORN = 1, DEAD = 2 };
    find_last(plan, last);
    for (uint32_t n = 0; n < info->operation_count; n++) {
        const rota_operation *operation = &info->operations[n];
        uint32_t physical[ROTA_OPERATION_ACCESSES_MAX];
        for (uint32_t i = 0; i < operation->access_count; i++)
            physical[i] = rota_access_physical(plan, operation, i);
        for (uint32_t i = 0; i < operation->access_count; i++) {
            const rota_plan_physical *p = physical[i] == ROTA_NONE ? NULL : &info->physicals[physical[i]];
            if (!p || !p->packed || ended[physical[i]]) continue;
            ended[physical[i]] = BORN;
            if (!p->is_inplace) now[p->part] += rota_physical_bytes(plan, physical[i]);
        }
        out[n].live_bytes = now[operation->part];
        for (uint32_t i = 0; i < operation->access_count; i++) {
            const rota_plan_physical *p = physical[i] == ROTA_NONE ? NULL : &info->physicals[physical[i]];
            if (!p || !p->packed || last[physical[i]] != n || ended[physical[i]] != BORN) continue;
            ended[physical[i]] = DEAD;
            if (!p->handed_on) now[p->part] -= rota_physical_bytes(plan, physical[i]);
        }
    }
}

rota_status rota_plan_check_capacity(const rota_plan *plan, uint64_t capacity) {
    const rota_compile_info *info = plan->compile_info;
    if (capacity >= info->operation_count) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_RANGE, "plan '%s' has %u commands; there is room for %llu", plan->name,
                     info->operation_count, (unsigned long long)capacity);
}

rota_status rota_plan_get_commands(const rota_plan *plan, rota_plan_command *out_commands,
                                   uint64_t capacity) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN_ARRAY(out_commands, capacity);
    const rota_compile_info *info = plan->compile_info;
    ROTA_TRY(rota_plan_check_capacity(plan, capacity));
    if (info->operation_count == 0) return ROTA_OK;
    const size_t stride = out_commands->struct_size;
    ROTA_TRY(rota_sized_check(stride, "rota_plan_command"));
    uint8_t *ended = calloc(info->physical_count + 1u, 1);
    uint32_t *last = calloc(info->physical_count + 1u, sizeof *last);
    rota_plan_command *commands = calloc(info->operation_count, sizeof *commands);
    if (!ended || !last || !commands) {
        free(ended);
        free(last);
        free(commands);
        return rota_fail(ROTA_OUT_OF_MEMORY, "commands of plan '%s': no host memory", plan->name);
    }
    for (uint32_t n = 0; n < info->operation_count; n++) fill_in(plan, n, &commands[n]);
    count_live(plan, last, ended, commands);
    for (uint32_t n = 0; n < info->operation_count; n++) {
        void *element = (char *)out_commands + n * stride;
        memcpy(element, &stride, sizeof stride);
        rota_sized_out(element, &commands[n], sizeof *commands);
    }
    free(commands);
    free(last);
    free(ended);
    return ROTA_OK;
}
