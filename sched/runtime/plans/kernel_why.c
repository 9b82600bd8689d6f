/* What runs a node's kernel on its device, and why. */
#include "base/given.h"
#include "base/text_out.h"
#include "graph/kernel_calls.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/shared/devices.h"

/* What the executor launches in the place of a kernel that says nothing itself: asked as executors do. */
static void say_selected(rota_text_out *out, const rota_kernel *kernel, const rota_kernel_use *use) {
    const rota_kernel *other = NULL;
    const char *what = "kernel";
    if (use->kind == ROTA_EXEC_CUDA) {
        other = rota_exec_cuda_kernel(kernel, use->params, use->operand_bytes, use->slot_mask, use->target);
        what = other->cuda.call ? "library node" : "CUDA kernel";
    } else if (use->kind == ROTA_EXEC_VK) {
        if (use->target &&
            rota_kernel_vk_select_image(kernel, use->params, use->operand_bytes, use->slot_mask, use->target,
                                        &other) &&
            other)
            what = "CUDA image";
        else
            other = rota_kernel_vk_select(kernel, use->params, use->operand_bytes, use->features),
            what = "shader";
    } else {
        what = "C function of kernel";
    }
    if (!other) other = kernel;
    rota_text_say(out, "runs: %s '%s'\n", what, other->name);
    rota_text_say(out, "why: %s\n",
                  other == kernel ? "it is the kernel's own, by no choice"
                                  : "the kernel chose it for these parameters");
}

static void say_kernel(rota_text_out *out, const rota_plan *plan, const rota_operation *operation) {
    const rota_compile_info *info = rota_plan_info(plan);
    const rota_device *device = plan->partitions[operation->part].device;
    const rota_kernel *kernel = operation->record->u.kernel.kernel;
    uint64_t operand_bytes[ROTA_OPERATION_ACCESSES_MAX], length;
    rota_kernel_use use =
        ROTA_KERNEL_USE(.kind = device->exec->info.kind, .params = rota_node_params(operation->record),
                        .operand_bytes = operand_bytes, .operand_count = operation->access_count,
                        .features = device->exec->info.features,
                        .target = !device->exec->cuda           ? device->exec->images
                                  : plan->options.deterministic ? device->exec->cuda_by_table
                                                                : device->exec->cuda);
    for (uint32_t i = 0; i < operation->access_count; i++) {
        const rota_exec_operand *operand = &info->accesses[operation->first_access + i];
        operand_bytes[i] = operand->size_bytes;
        use.slot_mask |= (uint32_t)(operand->is_slot != 0) << (i < 31 ? i : 31);
    }
    rota_text_say(out, "kernel '%s' on %s (%s)\n", kernel->name, device->exec->info.id,
                  device->exec->info.name);
    const uint64_t left = out->length < out->capacity ? out->capacity - out->length : 0;
    if (rota_kernel_says_why(kernel, &use, left ? out->text + out->length : NULL, left, &length))
        out->length += length;
    else
        say_selected(out, kernel, &use);
}

rota_status rota_plan_explain_kernel(const rota_plan *plan, rota_node node, char *text, uint64_t capacity,
                                     uint64_t *out_length) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN_ARRAY(text, capacity);
    uint32_t operation;
    if (capacity) text[0] = 0;
    ROTA_TRY(rota_plan_operation_of(plan, node, &operation));
    ROTA_TRY(rota_plan_check(plan));
    const rota_operation *it = &rota_plan_info(plan)->operations[operation];
    rota_text_out out = {text, capacity, 0};
    rota_text_say(&out, "%s: ", rota_operation_describe(plan, operation));
    if (it->record && it->record->kind == ROTA_NODE_KERNEL)
        say_kernel(&out, plan, it);
    else
        rota_text_say(&out, "has no kernel\n");
    if (out_length) *out_length = out.length;
    return ROTA_OK;
}
