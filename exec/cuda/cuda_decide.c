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

rota_status rota_cuda_count_create(const rota_exec_program_desc *desc, const rota_exec_command *command,
                                   const rota_cuda_decision *outer, uint32_t param_offset,
                                   rota_cuda_count **out_count) {
    rota_cuda_count *count = calloc(1, sizeof *count);
    if (!count) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a counted command");
    *count = (rota_cuda_count){
        .outer = outer,
        .in = desc,
        .node = command->node,
        .max = rota_exec_count_max(command),
        .unit = command->kind == ROTA_EXEC_COMMAND_COPY ? command->u.copy.unit_bytes : 1,
        .param_offset = param_offset,
    };
    *out_count = count;
    return ROTA_OK;
}

/* ---- Sentences ---- */

/* "while 'a', iteration 3 of for 'b'": what a decision is in, and itself, with what all of its root have begun. Returns
 * the length. */
static size_t describe(const rota_cuda_device *device, const rota_cuda_decision *decision,
                       const uint64_t *begun, char *text, size_t text_bytes) {
    const size_t length = decision->outer ? describe(device, decision->outer, begun, text, text_bytes) : 0;
    return rota_decision_place(text, text_bytes, length, decision->desc->kind, begun[decision->number],
                               rota_node_name_of(&device->host, decision->in->owner, decision->node));
}

void rota_cuda_root_describe(const rota_cuda_device *device, const rota_cuda_root *root,
                             const uint64_t *record, char *text, size_t text_bytes) {
    const uint32_t number = (uint32_t)record[0] - 1, value = (uint32_t)(record[0] >> 32);
    size_t length = 0;
    if (number < root->count) {
        const rota_cuda_decision *decision = root->all[number];
        length = describe(device, decision, record + 1, text, text_bytes);
        (void)rota_decision_limit(text, text_bytes, length, decision->desc, value);
        return;
    }
    const rota_cuda_count *count = root->counted[number - root->count];
    if (count->outer) {
        length = describe(device, count->outer, record + 1, text, text_bytes);
        length = rota_decision_node(text, text_bytes, length,
                                    rota_node_name_of(&device->host, count->in->owner, count->node));
    }
    (void)rota_decision_count(text, text_bytes, length, value, count->max);
}

/* ---- Roots ---- */

/* What a decision, or a command, and those in its bodies are: how many, whether there is a loop among them, and, where
 * `root` is, its lists by their numbers, which they get. */
typedef struct census {
    uint32_t count, counted;
    bool has_loop;
    rota_cuda_root *root;
    uint32_t *next_word;
} census;

static void take_census(const rota_cuda_dispatch *dispatch, census *of);

static void take_count(rota_cuda_count *count, census *of) {
    if (of->root) {
        count->number = of->root->count + of->counted;
        count->word = (*of->next_word)++;
        of->root->counted[of->counted] = count;
    }
    of->counted++;
}

static void take_decision(rota_cuda_decision *decision, census *of) {
    of->has_loop = of->has_loop || rota_conditional_is_loop(decision->desc->kind);
    if (of->root) {
        decision->has_state = true;
        decision->number = of->count;
        of->root->all[of->count] = decision;
    }
    of->count++;
    for (uint32_t b = 0; b < decision->desc->body_count; b++) {
        const rota_cuda_program *body = decision->bodies[b];
        for (uint32_t c = 0; body && c < body->desc->command_count; c++)
            take_census(&body->dispatches[c], of);
    }
}

static void take_census(const rota_cuda_dispatch *dispatch, census *of) {
    if (dispatch->decision) take_decision(dispatch->decision, of);
    if (dispatch->count) take_count(dispatch->count, of);
}

static rota_status add_root(const rota_cuda_program *program, uint32_t command, uint32_t *next_word,
                            rota_cuda_roots *roots) {
    const rota_cuda_dispatch *dispatch = &program->dispatches[command];
    census of = {0};
    take_census(dispatch, &of);
    if (!of.has_loop && !of.counted) return ROTA_OK;
    rota_cuda_root *root = &roots->all[roots->count++];
    *root = (rota_cuda_root){.command = command,
                             .node = program->desc->commands[command].node,
                             .first_state = roots->state_count,
                             .count = of.count ? of.count : 1, /* its own */
                             .counted_count = of.counted,
                             .has_loop = of.has_loop};
    root->all = calloc(root->count, sizeof *root->all);
    root->counted = calloc(of.counted + (size_t)1, sizeof *root->counted);
    if (!root->all || !root->counted)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for %u loops and counts",
                         of.count + of.counted);
    take_census(dispatch, &(census){.root = root, .next_word = next_word});
    roots->state_count += root->count;
    return ROTA_OK;
}

static rota_status add_roots(rota_cuda_program *program, uint32_t segment) {
    const rota_exec_program_desc *desc = program->desc;
    const uint32_t first = desc->segments[segment].first_command,
                   end = first + desc->segments[segment].command_count;
    uint32_t decisions = 0, counts = 0, next_word = desc->block_words;
    for (uint32_t c = first; c < end; c++) {
        decisions += program->dispatches[c].decision != NULL;
        counts += program->dispatches[c].count != NULL;
    }
    if (decisions + counts == 0) return ROTA_OK;
    rota_cuda_roots *roots = calloc(1, sizeof *roots);
    program->segments[segment].roots = roots;
    if (roots) roots->all = calloc(decisions + (size_t)counts, sizeof *roots->all);
    if (!roots || !roots->all)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for %u loops and counts",
                         decisions + counts);
    roots->decides = decisions != 0;
    for (uint32_t c = first; c < end; c++)
        if (program->dispatches[c].decision || program->dispatches[c].count)
            ROTA_TRY(add_root(program, c, &next_word, roots));
    program->segments[segment].count_words = next_word - desc->block_words;
    return ROTA_OK;
}

rota_status rota_cuda_roots_create(rota_cuda_program *program) {
    for (uint32_t s = 0; s < program->desc->segment_count; s++) ROTA_TRY(add_roots(program, s));
    return ROTA_OK;
}

static void free_root(const rota_cuda_root *root) {
    free(root->all);
    free(root->counted);
}

void rota_cuda_roots_free(rota_cuda_program *program) {
    for (uint32_t s = 0; program->segments && s < program->desc->segment_count; s++) {
        rota_cuda_roots *roots = program->segments[s].roots;
        for (uint32_t r = 0; roots && r < roots->count; r++) free_root(&roots->all[r]);
        if (roots) free(roots->all);
        free(roots);
    }
}
