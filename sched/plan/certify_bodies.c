/* The certificate: bodies of nodes that decide, as the executor gets them. */
#include "sched/plan/certify_bodies.h"

#include "sched/plan/certify_text.h"
#include "sched/plan/names.h"

/* Operands of one memory that are disjoint and ascending need one look each; the few that a command may have are all
 * looked at. */
static bool is_within(const rota_exec_program_desc *desc, const rota_exec_command *command,
                      const rota_exec_operand *inner) {
    for (uint32_t k = 0; k < command->operand_count; k++) {
        const rota_exec_operand *outer = &desc->operands[command->first_operand + k];
        if (outer->memory == inner->memory && outer->is_slot == inner->is_slot &&
            inner->offset_bytes >= outer->offset_bytes &&
            inner->offset_bytes - outer->offset_bytes <= outer->size_bytes &&
            inner->size_bytes <= outer->size_bytes - (inner->offset_bytes - outer->offset_bytes) &&
            (outer->mode != ROTA_READ || inner->mode == ROTA_READ))
            return true;
    }
    return false;
}

static rota_status check_command(const certifier *c, const rota_exec_program_desc *desc,
                                 const rota_exec_command *command) {
    const rota_exec_conditional *conditional = command->u.conditional;
    for (uint32_t i = 0; i < conditional->body_count; i++) {
        const rota_exec_program_desc *body = conditional->bodies[i];
        for (uint32_t n = 0; body && n < body->command_count; n++) {
            const rota_exec_command *inner = &body->commands[n];
            for (uint32_t k = 0; k < inner->operand_count; k++)
                if (!is_within(desc, command, &body->operands[inner->first_operand + k]))
                    return rota_certify_wrong(
                        c,
                        "operand %u of node '%s' of body '%s' is not within what node '%s' "
                        "declares",
                        k, rota_plan_node_name(body->owner, inner->node), body->name,
                        rota_plan_node_name(desc->owner, command->node));
            if (inner->kind == ROTA_EXEC_COMMAND_CONDITIONAL) ROTA_TRY(check_command(c, body, inner));
        }
    }
    return ROTA_OK;
}

rota_status rota_certify_bodies(const certifier *c) {
    for (uint32_t p = 0; p < c->plan->partition_count; p++) {
        const rota_exec_program_desc *desc = &c->plan->partitions[p].desc;
        for (uint32_t i = 0; i < desc->command_count; i++)
            if (desc->commands[i].kind == ROTA_EXEC_COMMAND_CONDITIONAL)
                ROTA_TRY(check_command(c, desc, &desc->commands[i]));
    }
    return ROTA_OK;
}
