/* Lowering: the commands of nodes that decide get their bodies' (bodies.c). A body's description is copied, with
 * operands in the memories and words of the plan that its node is in. */
#include "sched/plan/lower_bodies.h"

#include "graph/buffer_internal.h"
#include "graph/conditional_internal.h"
#include "graph/record.h"
#include "sched/plan/pack.h"

/* A node whose bodies are put in terms of the plan's memories. */
typedef struct outer_node {
    rota_compiler *c;
    const rota_exec_program_desc *desc; /* of its part */
    const rota_node_record *record;
    const rota_exec_operand *operands; /* of its command */
    uint32_t operand_count;
} outer_node;

/* ---- What a body touches ---- */

/* The node's accesses of a buffer: disjoint, in ascending order, side by side. */
typedef struct declaration {
    const rota_access_record *first;
    uint32_t count;
} declaration;

static declaration find_declaration(const outer_node *outer, const rota_buffer *root) {
    const rota_access_record *accesses = rota_node_accesses(outer->record->u.conditional->record);
    const uint64_t stored = rota_access_buffer_of(outer->c->graph, root);
    declaration found = {accesses, 0};
    for (uint32_t i = 0; i < outer->record->access_count; i++) {
        if (rota_access_stored(&accesses[i]) != stored) continue;
        if (found.count++ == 0) found.first = &accesses[i];
    }
    return found;
}

static bool holds(const declaration *declared, const rota_exec_operand *operand) {
    uint32_t low = 0, high = declared->count; /* the last that begins no later is below `high` */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (ROTA_ACCESS_OFFSET(&declared->first[middle]) <= operand->offset_bytes)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return false;
    const rota_access_record *access = &declared->first[low - 1];
    return operand->offset_bytes - ROTA_ACCESS_OFFSET(access) <= rota_access_size(access) &&
           operand->size_bytes <=
               rota_access_size(access) - (operand->offset_bytes - ROTA_ACCESS_OFFSET(access)) &&
           (operand->mode == ROTA_READ || ROTA_ACCESS_MODE(access) != ROTA_READ);
}

/* What a node declares was inferred from what was recorded. Its body may have been rewritten since, and what the rest
 * of the plan is ordered by is what was declared. */
static rota_status check_touched(const outer_node *outer, const rota_plan *body) {
    const rota_partition *part = &body->partitions[0];
    const rota_exec_program_desc *desc = &part->desc;
    declaration *of = rota_arena_calloc(&outer->c->scratch, sizeof *of * (desc->memory_count + 1u), 8);
    if (!of) return rota_compile_no_memory(outer->c);
    for (uint32_t i = 0; i < desc->command_count; i++) {
        const rota_exec_command *command = &desc->commands[i];
        for (uint32_t k = 0; k < command->operand_count; k++) {
            const rota_exec_operand *operand = &desc->operands[command->first_operand + k];
            if (part->memories[operand->memory].kind != ROTA_EXEC_BASE_PERSISTENT) continue;
            const rota_buffer *root = body->buffers[part->memories[operand->memory].buffer].buffer;
            declaration *declares = &of[operand->memory];
            if (!declares->first) *declares = find_declaration(outer, root);
            if (holds(declares, operand)) continue;
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "compile of graph '%s': node '%s' of body '%s' touches bytes [%llu, +%llu) of "
                             "buffer '%s' (%s), "
                             "which are not within what node '%s' declares; that is what the body touched "
                             "when the node was "
                             "recorded, and a rewrite may not add to it",
                             outer->c->graph->name, rota_plan_node_name(part, command->node), body->name,
                             (unsigned long long)operand->offset_bytes,
                             (unsigned long long)operand->size_bytes, root->name,
                             rota_access_mode_name((rota_access_mode)operand->mode),
                             rota_node_record_name(outer->record));
        }
    }
    return ROTA_OK;
}

/* ---- Where it is ---- */

/* Where a buffer's first byte is, by the node's operands in it. */
static rota_status find_buffer(const outer_node *outer, const rota_buffer *root,
                               rota_exec_operand *out_base) {
    /* Not those of the record at hand, where recomputation may have put another buffer in the place of one. */
    const rota_access_record *accesses = rota_node_accesses(outer->record->u.conditional->record);
    const uint64_t stored = rota_access_buffer_of(outer->c->graph, root);
    for (uint32_t i = 0; i < outer->record->access_count; i++) {
        if (rota_access_stored(&accesses[i]) != stored) continue;
        *out_base = outer->operands[i];
        rota_exec_operand_move(out_base, -ROTA_ACCESS_OFFSET(&accesses[i]));
        return ROTA_OK;
    }
    return rota_fail(ROTA_INTERNAL,
                     "compile of graph '%s': node '%s' does not touch buffer '%s', but its body does",
                     outer->c->graph->name, rota_node_record_name(outer->record), root->name);
}

/* The place of each of a body's memories: `offset_bytes` is that of its first byte. */
static rota_status find_bases(const outer_node *outer, const rota_plan *body, rota_exec_operand **out_bases) {
    const rota_partition *part = &body->partitions[0];
    rota_exec_operand *bases =
        rota_arena_alloc(&outer->c->scratch, sizeof *bases * (part->desc.memory_count + 1u), 8);
    if (!bases) return rota_compile_no_memory(outer->c);
    uint64_t in_workspace = 0;
    for (uint32_t m = 0; m < part->desc.memory_count; m++) {
        const rota_plan_memory *memory = &part->memories[m];
        if (memory->kind == ROTA_EXEC_BASE_PERSISTENT) {
            ROTA_TRY(find_buffer(outer, body->buffers[memory->buffer].buffer, &bases[m]));
            continue;
        }
        bases[m] = outer->operands[outer->operand_count - 1]; /* the workspace */
        rota_exec_operand_move(&bases[m], in_workspace);
        in_workspace += rota_aligned_size(memory->size_bytes);
    }
    *out_bases = bases;
    return ROTA_OK;
}

/* A copy of a body's description whose operands are in the memories, and words, of `like`. */
static rota_status rebase(const outer_node *outer, const rota_exec_program_desc *body,
                          const rota_exec_operand *bases, const rota_exec_program_desc **out_desc) {
    rota_compiler *c = outer->c;
    rota_arena *arena = &c->plan->arena;
    rota_exec_program_desc *desc = rota_arena_alloc(arena, sizeof *desc, 8);
    rota_exec_operand *operands = rota_arena_alloc(arena, sizeof *operands * (body->operand_count + 1u), 8);
    rota_exec_command *commands = rota_arena_alloc(arena, sizeof *commands * (body->command_count + 1u), 8);
    if (!desc || !operands || !commands) return rota_compile_no_memory(c);
    for (uint32_t i = 0; i < body->operand_count; i++) {
        operands[i] = body->operands[i];
        const rota_exec_operand *base = &bases[operands[i].memory];
        operands[i].memory = base->memory;
        operands[i].is_slot = base->is_slot;
        rota_exec_operand_move(&operands[i], base->offset_bytes);
    }
    for (uint32_t i = 0; i < body->command_count; i++) {
        commands[i] = body->commands[i];
        if (commands[i].kind != ROTA_EXEC_COMMAND_CONDITIONAL) continue;
        const rota_exec_conditional *inner = commands[i].u.conditional;
        rota_exec_conditional *kept = rota_arena_alloc(arena, sizeof *kept, 8);
        const rota_exec_program_desc **bodies =
            rota_arena_alloc(arena, sizeof *bodies * inner->body_count, 8);
        if (!kept || !bodies) return rota_compile_no_memory(c);
        *kept = *inner;
        kept->bodies = bodies;
        for (uint32_t k = 0; k < inner->body_count; k++) {
            bodies[k] = NULL;
            if (inner->bodies[k]) ROTA_TRY(rebase(outer, inner->bodies[k], bases, &bodies[k]));
        }
        commands[i].u.conditional = kept;
    }
    *desc = *body;
    desc->operands = operands;
    desc->commands = commands;
    desc->memory_count = outer->desc->memory_count;
    desc->memory_kind = outer->desc->memory_kind;
    desc->block_words = outer->desc->block_words;
    *out_desc = desc;
    return ROTA_OK;
}

/* Arguments that a body takes are taken by the plan: the outermost one, which has the words. */
static void use_words(rota_plan *plan, const rota_exec_program_desc *body) {
    for (uint32_t i = 0; i < body->binding_count; i++) plan->words[body->bindings[i].word].used = true;
    for (uint32_t i = 0; i < body->command_count; i++) {
        if (body->commands[i].kind != ROTA_EXEC_COMMAND_CONDITIONAL) continue;
        const rota_exec_conditional *inner = body->commands[i].u.conditional;
        for (uint32_t k = 0; k < inner->body_count; k++)
            if (inner->bodies[k]) use_words(plan, inner->bodies[k]);
    }
}

/* Whether a command in its bodies, however deep, is such a one. */
static bool has_inside(const rota_exec_conditional *conditional,
                       bool (*is_one)(const rota_exec_command *command)) {
    for (uint32_t b = 0; b < conditional->body_count; b++) {
        const rota_exec_program_desc *body = conditional->bodies[b];
        for (uint32_t i = 0; body && i < body->command_count; i++) {
            const rota_exec_command *command = &body->commands[i];
            if (is_one(command)) return true;
            if (command->kind == ROTA_EXEC_COMMAND_CONDITIONAL && has_inside(command->u.conditional, is_one))
                return true;
        }
    }
    return false;
}

static bool is_loop(const rota_exec_command *command) {
    return command->kind == ROTA_EXEC_COMMAND_CONDITIONAL &&
           rota_conditional_is_loop(command->u.conditional->kind);
}

static bool is_counted(const rota_exec_command *command) {
    return command->is_counted;
}

static rota_status lower_node(lowering *l, const rota_plan_bodies *bodies) {
    rota_compiler *c = l->c;
    const rota_operation *operation = &ROTA_OPERATIONS(c)[bodies->operation];
    const rota_conditional *conditional = operation->record->u.conditional;
    const outer_node outer = {c, &c->plan->partitions[operation->part].desc, operation->record,
                              ROTA_ACCESSES(c) + operation->first_access, operation->access_count};
    rota_exec_conditional *made = rota_arena_alloc(&c->plan->arena, sizeof *made, 8);
    const rota_exec_program_desc **descs =
        rota_arena_calloc(&c->plan->arena, sizeof *descs * bodies->count, 8);
    if (!made || !descs) return rota_compile_no_memory(c);
    *made = (rota_exec_conditional){
        .kind = conditional->kind,
        .iterations_max = conditional->iterations_max,
        .condition = {conditional->condition.access, conditional->condition.offset_bytes},
        .index = {conditional->iteration.access, conditional->iteration.offset_bytes},
        .body_count = bodies->count,
        .bodies = descs};
    for (uint32_t i = 0; i < bodies->count; i++) {
        if (!bodies->plans[i]) continue;
        rota_exec_operand *bases = NULL;
        ROTA_TRY(check_touched(&outer, bodies->plans[i]));
        ROTA_TRY(find_bases(&outer, bodies->plans[i], &bases));
        ROTA_TRY(rebase(&outer, &bodies->plans[i]->partitions[0].desc, bases, &descs[i]));
        if (!c->graph->outer) use_words(c->plan, descs[i]);
        c->plan->stats.plan_bytes += bodies->plans[i]->stats.plan_bytes;
    }
    l->parts[operation->part].commands[operation->command].u.conditional = made;
    const rota_device_traits *device = c->partitions.device[operation->part];
    const bool is_hosted = device && device->hosts_decisions,
               is_cuda = device && device->kind == ROTA_EXEC_CUDA;
    rota_plan_segment *segment = &c->plan->segments[rota_segment_of(c, bodies->operation)];
    /* It may by itself, but on a CUDA device, where only iterations do, and what comes after waits for their end. */
    if (!is_cuda) segment->may_fail = true;
    if (is_hosted || rota_conditional_is_loop(made->kind) ||
        has_inside(made, is_loop)) /* what comes after them waits for their end (blocked.c) */
        segment->has_loops = true;
    else if (has_inside(made, is_counted))
        segment->may_fail = true;
    return ROTA_OK;
}

/* What comes after loops on a CUDA or Vulkan device waits for their end, and so for that of what is counted beside
 * them: nothing runs on what a loop that failed left, and such a work does not have to have ended to be judged, so that
 * its loops end where what they read failed. */
static void settle_loops(const lowering *l) {
    for (uint32_t s = 0; s < l->c->plan->segment_count; s++) {
        rota_plan_segment *segment = &l->c->plan->segments[s];
        const rota_device_traits *device = l->c->partitions.device[segment->part];
        if (segment->has_loops && device && (device->kind == ROTA_EXEC_CUDA || device->kind == ROTA_EXEC_VK))
            segment->may_fail = false;
    }
}

rota_status rota_lower_bodies(lowering *l) {
    for (const rota_plan_bodies *bodies = l->c->info->bodies; bodies; bodies = bodies->next)
        ROTA_TRY(lower_node(l, bodies));
    settle_loops(l);
    return ROTA_OK;
}
