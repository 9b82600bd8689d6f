/* See cuda_decide.h. A body is a program of its own, whose operands are in the memories and words of the one that its
 * command is in; so it is made, and laid out as a graph (cuda_bodies.c), as any other. */
#include "exec/cuda/cuda_decide.h"
#include "exec/common/names.h"
#include <stdlib.h>
#include "exec/common/decisions.h"
#include "exec/cuda/cuda_device.h"
#include "graph/conditional_internal.h"

/* ---- One ---- */

static bool is_in_slot(const rota_exec_program_desc *desc, const rota_exec_command *command,
                       const rota_exec_word *word) {
    return word->operand != UINT32_MAX && desc->operands[command->first_operand + word->operand].is_slot;
}

uint32_t rota_cuda_decision_slots(const rota_exec_program_desc *desc, const rota_exec_command *command) {
    const rota_exec_conditional *conditional = command->u.conditional;
    return (is_in_slot(desc, command, &conditional->condition) ? 1u : 0u) |
           (is_in_slot(desc, command, &conditional->index) ? 2u : 0u);
}

rota_status rota_cuda_decision_create(const rota_exec_program_desc *desc, const rota_exec_command *command,
                                      const rota_cuda_decision *outer, rota_cuda_decision **out_decision) {
    const rota_exec_conditional *conditional = command->u.conditional;
    rota_cuda_decision *decision = calloc(1, sizeof *decision);
    if (decision) decision->bodies = calloc(conditional->body_count + (size_t)1, sizeof *decision->bodies);
    if (!decision || !decision->bodies) {
        free(decision);
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for %u bodies", conditional->body_count);
    }
    decision->desc = conditional;
    decision->outer = outer;
    decision->in = desc;
    decision->node = command->node;
    *out_decision = decision;
    return ROTA_OK;
}

size_t rota_cuda_decision_describe(const rota_cuda_device *device, const rota_cuda_decision *decision,
                                   const uint64_t *begun, char *text, size_t text_bytes) {
    const size_t length =
        decision->outer ? rota_cuda_decision_describe(device, decision->outer, begun, text, text_bytes) : 0;
    return rota_decision_place(text, text_bytes, length, decision->desc->kind, begun[decision->number],
                               rota_node_name_of(&device->host, decision->in->owner, decision->node));
}

/* ---- Roots ---- */

/* What a decision and those in its bodies are: how many, whether there is a loop among them, and, where `all` is, a
 * list by their numbers, which they get. */
typedef struct census {
    uint32_t count;
    bool has_loop;
    const rota_cuda_decision **all;
} census;

static void take_census(rota_cuda_decision *decision, census *of) {
    const uint8_t kind = decision->desc->kind;
    of->has_loop = of->has_loop || rota_conditional_is_loop(kind);
    if (of->all) {
        decision->has_state = true;
        decision->number = of->count;
        of->all[of->count] = decision;
    }
    of->count++;
    for (uint32_t b = 0; b < decision->desc->body_count; b++) {
        const rota_cuda_program *body = decision->bodies[b];
        for (uint32_t c = 0; body && c < body->desc->command_count; c++)
            if (body->dispatches[c].decision) take_census(body->dispatches[c].decision, of);
    }
}

static rota_status add_root(const rota_cuda_program *program, uint32_t command, rota_cuda_roots *roots) {
    rota_cuda_decision *decision = program->dispatches[command].decision;
    census of = {0};
    take_census(decision, &of);
    if (!of.has_loop) return ROTA_OK;
    const rota_cuda_decision **all = calloc(of.count, sizeof *all);
    if (!all) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for %u loops", of.count);
    take_census(decision, &(census){.all = all});
    roots->all[roots->count++] = (rota_cuda_root){.command = command,
                                                  .node = decision->node,
                                                  .first_state = roots->state_count,
                                                  .count = of.count,
                                                  .all = all};
    roots->state_count += of.count;
    return ROTA_OK;
}

rota_status rota_cuda_roots_create(rota_cuda_program *program) {
    const rota_exec_program_desc *desc = program->desc;
    for (uint32_t s = 0; s < desc->segment_count; s++) {
        const rota_exec_segment *segment = &desc->segments[s];
        const uint32_t end = segment->first_command + segment->command_count;
        uint32_t decisions = 0;
        for (uint32_t c = segment->first_command; c < end; c++)
            decisions += program->dispatches[c].decision != NULL;
        if (decisions == 0) continue;
        rota_cuda_roots *roots = calloc(1, sizeof *roots);
        program->segments[s].roots = roots;
        if (roots) roots->all = calloc(decisions, sizeof *roots->all);
        if (!roots || !roots->all)
            return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for %u loops", decisions);
        for (uint32_t c = segment->first_command; c < end; c++)
            if (program->dispatches[c].decision) ROTA_TRY(add_root(program, c, roots));
    }
    return ROTA_OK;
}

void rota_cuda_roots_free(rota_cuda_program *program) {
    for (uint32_t s = 0; program->segments && s < program->desc->segment_count; s++) {
        rota_cuda_roots *roots = program->segments[s].roots;
        for (uint32_t r = 0; roots && r < roots->count; r++) free(roots->all[r].all);
        if (roots) free(roots->all);
        free(roots);
    }
}
