/* Lowering: the description that an executor gets of each part, and the argument block. */
#include "sched/plan/lower.h"
#include "sched/plan/lower_bodies.h"
#include "sched/plan/lower_parts.h"
#include "sched/plan/names.h"
#include "sched/plan/segments.h"
#include "sched/plan/pack.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/prefetch.h"
#include "graph/kernel_calls.h"

static uint32_t add_memory(lowering *l, uint32_t part, rota_plan_memory memory) {
    rota_vector *memories = &l->parts[part].memories;
    if (!rota_vector_reserve(memories, sizeof memory, 1)) return ROTA_NONE;
    ((rota_plan_memory *)memories->data)[memories->count] = memory;
    return (uint32_t)memories->count++;
}

static uint32_t add_word(lowering *l, rota_plan_word word) {
    if (!rota_vector_reserve(&l->words, sizeof word, 1)) return ROTA_NONE;
    ((rota_plan_word *)l->words.data)[l->words.count] = word;
    return (uint32_t)l->words.count++;
}

/* ---- Memories and words ---- */

static rota_status add_arena_memories(lowering *l) {
    for (uint32_t part = 0; part < l->c->partitions.count; part++) {
        l->parts[part].first_piece = (uint32_t)l->parts[part].memories.count;
        for (uint32_t i = 0; i < l->c->pieces.count[part]; i++)
            if (add_memory(l, part,
                           (rota_plan_memory){.kind = ROTA_EXEC_BASE_ARENA,
                                              .buffer = ROTA_NONE,
                                              .size_bytes = l->c->pieces.bytes[part][i],
                                              .foreign_part = ROTA_NONE}) == ROTA_NONE)
                return rota_compile_no_memory(l->c);
    }
    return ROTA_OK;
}

/* The pieces of arenas that several parts share are named by the others as they come up. */
static rota_status prepare_foreign(lowering *l) {
    rota_compiler *c = l->c;
    if (c->partitions.count == 1) return ROTA_OK;
    size_t count = (size_t)c->physicals.count * c->partitions.count;
    l->foreign_memory = rota_arena_alloc(&c->scratch, sizeof(uint32_t) * (count + 1), 8);
    if (!l->foreign_memory) return rota_compile_no_memory(c);
    for (size_t i = 0; i < count; i++) l->foreign_memory[i] = ROTA_NONE;
    for (uint32_t p = 0; p < c->partitions.count; p++) {
        const uint32_t pieces = rota_lower_pieces(c, c->partitions.count);
        l->parts[p].foreign_piece = rota_arena_alloc(&c->scratch, sizeof(uint32_t) * (pieces + 1u), 8);
        if (!l->parts[p].foreign_piece) return rota_compile_no_memory(c);
        for (uint32_t i = 0; i < pieces; i++) l->parts[p].foreign_piece[i] = ROTA_NONE;
    }
    return ROTA_OK;
}

/* Of the outermost plan alone, in slot order, whatever bodies there are: theirs name them by the slot's number, and are
 * in terms of its words as soon as they are lowered along with it (lower_bodies.c). */
static rota_status add_value_words(lowering *l) {
    const rota_graph *graph = l->c->graph;
    if (graph->outer) return ROTA_OK;
    uint32_t count = ra_load_relaxed(&graph->slot_count); /* frozen */
    for (uint32_t i = 1; i <= count; i++) {
        const rota_slot_info *slot = rota_graph_slot_info(graph, i);
        if (add_word(l, (rota_plan_word){ROTA_WORD_VALUE, i, 0, slot->size_bytes, slot->name, false,
                                         (uint8_t)ra_load_relaxed(&slot->type)}) == ROTA_NONE)
            return rota_compile_no_memory(l->c);
    }
    return ROTA_OK;
}

/* Where a physical is found: a memory of its part, or for SLOT buffers a word. */
static rota_status find_memories(lowering *l) {
    rota_compiler *c = l->c;
    ROTA_TRY(rota_lower_keep_physicals(c));
    for (uint32_t i = 0; i < c->physicals.count; i++) {
        rota_physical *physical = &ROTA_PHYSICALS(c)[i];
        if (physical->first_operation == ROTA_NONE) continue;
        const rota_buffer *root = c->plan->buffers[physical->buffer].buffer;
        if (physical->packed) {
            physical->memory = l->parts[physical->part].first_piece + physical->piece;
        } else if (physical->kind == ROTA_BUFFER_SLOT) {
            physical->memory =
                add_word(l, (rota_plan_word){ROTA_WORD_BUFFER, physical->buffer, physical->part, 8,
                                             root->name, true, ROTA_VALUE_ANY});
        } else if (physical->is_mirror) {
            physical->memory = add_memory(
                l, physical->part,
                (rota_plan_memory){.kind = ROTA_EXEC_BASE_STAGING,
                                   .buffer = ROTA_NONE,
                                   .size_bytes = physical->size_bytes,
                                   .flags = ROTA_EXEC_MEMORY_HOST_READ | ROTA_EXEC_MEMORY_HOST_WRITE,
                                   .foreign_part = ROTA_NONE});
        } else {
            physical->memory = add_memory(l, physical->part,
                                          (rota_plan_memory){.kind = ROTA_EXEC_BASE_PERSISTENT,
                                                             .buffer = physical->buffer,
                                                             .size_bytes = physical->size_bytes,
                                                             .foreign_part = ROTA_NONE});
        }
        if (physical->memory == ROTA_NONE) return rota_compile_no_memory(c);
    }
    return ROTA_OK;
}

/* Memory of a physical in a part that does not own it: a mirror, what devices of one GPU share, or a peer's. */
static uint32_t foreign_memory(lowering *l, uint32_t physical, uint32_t part) {
    const rota_physical *it = &ROTA_PHYSICALS(l->c)[physical];
    uint32_t *known = &l->foreign_memory[(size_t)physical * l->c->partitions.count + part];
    if (it->packed) known = &l->parts[part].foreign_piece[rota_lower_pieces(l->c, it->part) + it->piece];
    if (*known != ROTA_NONE) return *known;
    if (it->kind == ROTA_BUFFER_SLOT) {
        const rota_buffer *root = l->c->plan->buffers[it->buffer].buffer;
        return *known = add_word(l, (rota_plan_word){ROTA_WORD_BUFFER, it->buffer, part, 8, root->name, true,
                                                     ROTA_VALUE_ANY});
    }
    rota_plan_memory *own = (rota_plan_memory *)l->parts[it->part].memories.data + it->memory;
    const rota_device_traits *owner = l->c->partitions.device[it->part];
    if (it->packed) own->flags |= owner ? owner->lent_flags : ROTA_EXEC_MEMORY_SHARED;
    rota_plan_memory memory = *own;
    memory.is_peer = !it->is_mirror && l->c->partitions.memory[part] != l->c->partitions.memory[it->part];
    memory.foreign_part = it->part;
    memory.foreign_memory = it->memory;
    return *known = add_memory(l, part, memory);
}

static rota_status patch_accesses(lowering *l, const rota_operation *operation) {
    rota_compiler *c = l->c;
    rota_exec_operand *accesses = ROTA_ACCESSES(c);
    const uint32_t *access_physical = ROTA_ACCESS_PHYSICAL(c);
    const uint32_t end = operation->first_access + operation->access_count;
    for (uint32_t i = operation->first_access; i < end; i++) {
        rota_compile_prefetch(c, ROTA_PHYSICALS(c), sizeof(rota_physical), i);
        if (access_physical[i] == ROTA_NONE) continue;
        const rota_physical *physical = &ROTA_PHYSICALS(c)[access_physical[i]];
        const uint32_t memory = physical->part == operation->part
                                    ? physical->memory
                                    : foreign_memory(l, access_physical[i], operation->part);
        if (memory == ROTA_NONE) return rota_compile_no_memory(c);
        rota_exec_operand_set_memory(&accesses[i], memory);
        if (physical->packed) rota_exec_operand_move(&accesses[i], physical->offset_bytes);
        if (physical->kind == ROTA_BUFFER_SLOT) accesses[i].is_slot = 1;
    }
    return ROTA_OK;
}

/* The same of all accesses, where there is one part. */
static void patch_all(const lowering *l) {
    const rota_compiler *c = l->c;
    rota_exec_operand *accesses = ROTA_ACCESSES(c);
    const uint32_t *access_physical = ROTA_ACCESS_PHYSICAL(c);
    const rota_physical *physicals = ROTA_PHYSICALS(c);
    for (uint32_t i = 0; i < c->accesses.count; i++) {
        rota_compile_prefetch(c, physicals, sizeof *physicals, i);
        if (access_physical[i] == ROTA_NONE) continue;
        const rota_physical *physical = &physicals[access_physical[i]];
        accesses[i] = rota_exec_operand_of(physical->memory, physical->kind == ROTA_BUFFER_SLOT,
                                           (uint64_t)accesses[i].offset_bytes +
                                               (physical->packed ? physical->offset_bytes : 0),
                                           accesses[i].size_bytes, accesses[i].mode);
    }
}

/* The host side of uploads and read-backs: a word with the caller's pointer, or bytes of staging memory. */
static rota_status lower_transfers(lowering *l) {
    rota_compiler *c = l->c;
    rota_plan *plan = c->plan;
    uint32_t count = (uint32_t)c->transfers.count;
    plan->transfers = rota_arena_alloc(&plan->arena, sizeof *plan->transfers * (count + 1u), 8);
    if (!plan->transfers) return rota_compile_no_memory(c);
    if (count) memcpy(plan->transfers, c->transfers.data, sizeof *plan->transfers * count);
    plan->transfer_count = count;
    for (uint32_t part = 0; part < c->partitions.count; part++)
        l->parts[part].input_memory = l->parts[part].output_memory = ROTA_NONE;
    for (uint32_t n = 0; count && n < c->operations.count; n++) {
        rota_operation *operation = &ROTA_OPERATIONS(c)[n];
        if (operation->kind != ROTA_OPERATION_UPLOAD && operation->kind != ROTA_OPERATION_DOWNLOAD) continue;
        rota_plan_transfer *transfer = &plan->transfers[operation->node];
        transfer->segment = rota_segment_of(c, n);
        if (!transfer->is_output) plan->input_count++;
        rota_exec_operand *host = &ROTA_ACCESSES(c)[operation->first_access + (transfer->is_output ? 0 : 1)];
        part_builder *part = &l->parts[operation->part];
        if (rota_compile_is_unified(c, operation->part)) {
            transfer->word = add_word(l, (rota_plan_word){ROTA_WORD_HOST, operation->node, operation->part, 8,
                                                          plan->buffers[transfer->buffer].buffer->name, true,
                                                          ROTA_VALUE_ANY});
            if (transfer->word == ROTA_NONE) return rota_compile_no_memory(c);
            host->is_slot = 1;
            rota_exec_operand_set_memory(host, transfer->word);
            continue;
        }
        uint32_t *memory = transfer->is_output ? &part->output_memory : &part->input_memory;
        uint64_t *bytes = transfer->is_output ? &part->output_bytes : &part->input_bytes;
        if (*memory == ROTA_NONE)
            *memory =
                add_memory(l, operation->part,
                           (rota_plan_memory){.kind = ROTA_EXEC_BASE_STAGING,
                                              .buffer = ROTA_NONE,
                                              .flags = transfer->is_output ? ROTA_EXEC_MEMORY_HOST_READ
                                                                           : ROTA_EXEC_MEMORY_HOST_WRITE,
                                              .foreign_part = ROTA_NONE});
        if (*memory == ROTA_NONE) return rota_compile_no_memory(c);
        transfer->memory = *memory;
        transfer->offset_bytes = *bytes;
        rota_exec_operand_set_memory(host, *memory);
        rota_exec_operand_move(host, *bytes);
        *bytes = rota_aligned_size(*bytes + host->size_bytes);
        ((rota_plan_memory *)part->memories.data)[*memory].size_bytes = *bytes;
    }
    return ROTA_OK;
}

/* ---- Joins ---- */

#define JOINS(c) ((const rota_join *)(c)->edges.joins.data)
#define LOCALS(c) ((rota_local_join *)(c)->edges.local_joins.data)

static uint32_t timeline_of(const rota_compiler *c, const rota_operation *operation) {
    return operation->part * c->queue_count + operation->queue;
}

static part_builder *part_of_local(const lowering *l, const rota_local_join *local) {
    return &l->parts[local->timeline / l->c->queue_count];
}

/* Of a join that another comes after: its node where they meet in the segment of `outer`; NULL: they don't.
 */
static rota_local_join *inner_local(const rota_compiler *c, uint32_t join, const rota_local_join *outer) {
    rota_local_join *local = rota_compile_local_join(c, join, outer->timeline);
    return local && local->segment == outer->segment ? local : NULL;
}

/* Numbers the nodes of joins in each part, those of a segment one after another and inner ones first, and
 * makes room for the edges into them. */
static rota_status count_joins(lowering *l) {
    rota_compiler *c = l->c;
    rota_plan *plan = c->plan;
    const uint32_t *from = c->edges.join_from.data;
    uint32_t *next = l->joins_end =
        rota_arena_calloc(&c->scratch, sizeof(uint32_t) * (plan->segment_count + 1u), 8);
    l->first_join = rota_arena_calloc(&c->scratch, sizeof(uint32_t) * (plan->segment_count + 1u), 8);
    if (!next || !l->first_join) return rota_compile_no_memory(c);
    for (uint32_t j = (uint32_t)c->edges.joins.count; j-- > 0;)
        for (uint32_t k = 0; k < JOINS(c)[j].local_count; k++) {
            const rota_local_join *local = &LOCALS(c)[JOINS(c)[j].first_local + k];
            if (local->node == ROTA_NONE) continue;
            next[local->segment]++;
            part_of_local(l, local)->edge_count += JOINS(c)[j].count; /* no more than that */
            for (uint32_t i = 0; i < JOINS(c)[j].count; i++) {
                const uint32_t id = from[JOINS(c)[j].first_from + i];
                rota_local_join *inner = id & ROTA_JOIN ? inner_local(c, id & ~ROTA_JOIN, local) : NULL;
                if (inner) inner->node = 0;
            }
        }
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        part_builder *part = &l->parts[plan->segments[i].part];
        l->first_join[i] = part->join_count;
        part->join_count += next[i];
        next[i] = l->first_join[i];
    }
    for (uint32_t i = 0; i < c->edges.local_joins.count; i++)
        if (LOCALS(c)[i].node != ROTA_NONE) LOCALS(c)[i].node = next[LOCALS(c)[i].segment]++;
    return ROTA_OK;
}

/* The number that an edge's beginning has in the program of the operation that it goes to; ROTA_NONE: it is
 * in another segment, and a wait stands for it. */
static uint32_t node_of(const lowering *l, uint32_t from, uint32_t operation) {
    const rota_compiler *c = l->c;
    const rota_operation *to = &ROTA_OPERATIONS(c)[operation];
    const uint32_t segment = rota_segment_of(c, operation);
    if (!(from & ROTA_JOIN)) return rota_segment_of(c, from) == segment ? l->command_of[from] : ROTA_NONE;
    const rota_local_join *local = rota_compile_local_join(c, from & ~ROTA_JOIN, timeline_of(c, to));
    return local && local->segment == segment ? l->parts[to->part].command_count + local->node : ROTA_NONE;
}

/* The same of an edge into a join's node. */
static uint32_t node_into_join(const lowering *l, uint32_t from, const rota_local_join *local) {
    const rota_compiler *c = l->c;
    if (!(from & ROTA_JOIN))
        return rota_segment_of(c, from) == local->segment ? l->command_of[from] : ROTA_NONE;
    const rota_local_join *inner = inner_local(c, from & ~ROTA_JOIN, local);
    return inner ? part_of_local(l, local)->command_count + inner->node : ROTA_NONE;
}

/* Edges into joins: first counted as count_edges does, then written as emit_edges does. */
static void lower_joins(lowering *l, bool write) {
    const rota_compiler *c = l->c;
    const uint32_t *from = c->edges.join_from.data;
    for (uint32_t j = 0; j < c->edges.joins.count; j++)
        for (uint32_t k = 0; k < JOINS(c)[j].local_count; k++) {
            const rota_local_join *local = &LOCALS(c)[JOINS(c)[j].first_local + k];
            if (local->node == ROTA_NONE) continue;
            part_builder *part = part_of_local(l, local);
            const uint32_t own = part->command_count + local->node;
            for (uint32_t i = 0; i < JOINS(c)[j].count; i++) {
                const uint32_t node = node_into_join(l, from[JOINS(c)[j].first_from + i], local);
                if (node == ROTA_NONE) continue;
                if (write) {
                    part->successor[part->first_successor[node + 1]++] = own;
                } else {
                    part->first_successor[node + 2]++;
                    part->predecessor_count[own]++;
                }
            }
        }
}

/* ---- Commands and batches ---- */

/* Counts commands, edges and levels; all are of the one segment. */
static void count_plain(lowering *l) {
    const rota_compiler *c = l->c;
    part_builder *part = l->only_part;
    uint32_t levels = 0;
    for (uint32_t n = 0; n < c->operations.count; n++)
        if (ROTA_OPERATIONS(c)[n].command >= levels) levels = ROTA_OPERATIONS(c)[n].command + 1;
    l->level_count[0] = levels;
    part->command_count = (uint32_t)c->operations.count;
    part->edge_count = (uint32_t)c->edges.from.count;
}

static void count_of_segments(lowering *l) {
    const rota_compiler *c = l->c;
    const uint32_t *edges = c->edges.from.data;
    for (uint32_t n = 0; n < c->operations.count; n++) {
        const uint32_t segment = rota_segment_of(c, n), level = ROTA_OPERATIONS(c)[n].command;
        if (level >= l->level_count[segment]) l->level_count[segment] = level + 1;
        part_builder *part = &l->parts[ROTA_OPERATIONS(c)[n].part];
        part->command_count++;
        for (uint32_t e = c->edges.first[n]; e < c->edges.first[n + 1]; e++)
            if (edges[e] & ROTA_JOIN || rota_segment_of(c, edges[e]) == segment) part->edge_count++;
    }
}

/* Counts what each part gets, and resolves the operands on the way. */
static rota_status count_commands(lowering *l) {
    rota_compiler *c = l->c;
    rota_plan *plan = c->plan;
    l->first_batch = rota_arena_alloc(&c->scratch, sizeof(uint32_t) * (plan->segment_count + 1u), 8);
    l->level_count = rota_arena_calloc(&c->scratch, sizeof(uint32_t) * (plan->segment_count + 1u), 8);
    if (!l->first_batch || !l->level_count) return rota_compile_no_memory(c);
    if (l->only_part)
        count_plain(l);
    else
        count_of_segments(l);
    if (c->partitions.count == 1)
        patch_all(l);
    else
        for (uint32_t n = 0; n < c->operations.count; n++)
            ROTA_TRY(patch_accesses(l, &ROTA_OPERATIONS(c)[n]));
    if (c->edges.joins.count) ROTA_TRY(count_joins(l));
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        part_builder *part = &l->parts[plan->segments[i].part];
        plan->segments[i].index = part->segment_count++;
        l->first_batch[i] = part->batch_count;
        part->batch_count += l->level_count[i];
    }
    return ROTA_OK;
}

static rota_status size_parts(lowering *l) {
    rota_compiler *c = l->c;
    rota_plan *plan = c->plan;
    for (uint32_t p = 0; p < c->partitions.count; p++) {
        part_builder *part = &l->parts[p];
        part->commands =
            rota_arena_alloc(&plan->arena, sizeof *part->commands * ((size_t)part->command_count + 1), 8);
        part->batches =
            rota_arena_calloc(&plan->arena, sizeof *part->batches * ((size_t)part->batch_count + 1), 8);
        part->segments =
            rota_arena_calloc(&plan->arena, sizeof *part->segments * ((size_t)part->segment_count + 1), 8);
        part->first_successor = rota_arena_calloc(
            &plan->arena, sizeof(uint32_t) * ((size_t)part->command_count + part->join_count + 2), 8);
        part->successor =
            rota_arena_alloc(&plan->arena, sizeof(uint32_t) * ((size_t)part->edge_count + 1), 8);
        part->predecessor_count = rota_arena_calloc(
            &plan->arena, sizeof(uint32_t) * ((size_t)part->command_count + part->join_count + 1), 8);
        part->bindings = rota_arena_alloc(
            &plan->arena, sizeof *part->bindings * ((size_t)c->partitions.binding_count[p] + 1), 8);
        if (!part->commands || !part->batches || !part->segments || !part->first_successor ||
            !part->successor || !part->predecessor_count || !part->bindings)
            return rota_compile_no_memory(c);
    }
    return ROTA_OK;
}

static inline rota_exec_batch *batch_of(const lowering *l, uint32_t n) {
    const uint32_t level = ROTA_OPERATIONS(l->c)[n].command;
    if (l->only_part) return &l->only_part->batches[level];
    return &l->parts[ROTA_OPERATIONS(l->c)[n].part].batches[l->first_batch[rota_segment_of(l->c, n)] + level];
}

/* The batches: levels in each segment, segments in plan order. Their counts are what number_command counts up
 * to again. */
static void lay_out_batches(lowering *l) {
    rota_compiler *c = l->c;
    rota_plan *plan = c->plan;
    for (uint32_t n = 0; n < c->operations.count; n++) batch_of(l, n)->command_count++;
    uint32_t cursor[UINT8_MAX + 1] = {0};
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        uint32_t p = plan->segments[i].part;
        part_builder *part = &l->parts[p];
        rota_exec_segment *segment = &part->segments[plan->segments[i].index];
        *segment = (rota_exec_segment){.queue = plan->segments[i].queue,
                                       .first_batch = l->first_batch[i],
                                       .batch_count = l->level_count[i],
                                       .first_command = cursor[p]};
        for (uint32_t b = 0; b < segment->batch_count; b++) {
            rota_exec_batch *batch = &part->batches[segment->first_batch + b];
            batch->first_command = cursor[p];
            cursor[p] += batch->command_count;
            batch->command_count = 0;
        }
        segment->command_count = cursor[p] - segment->first_command;
        if (l->first_join) {
            segment->first_join = l->first_join[i];
            segment->join_count = l->joins_end[i] - l->first_join[i];
        }
        if (segment->batch_count) plan->stats.barriers += segment->batch_count - 1;
        plan->stats.batches += segment->batch_count;
    }
}

/* The operation's command number, in the place of its batch: record order inside a batch. */
static void number_command(lowering *l, rota_operation *operation, uint32_t n) {
    rota_exec_batch *batch = batch_of(l, n);
    l->command_of[n] = operation->command = batch->first_command + batch->command_count++;
}

static void lower_bindings(lowering *l, part_builder *part, rota_exec_command *command,
                           const rota_node_record *record) {
    rota_plan_word *words = l->words.data;
    command->first_binding = part->binding_count;
    const rota_param_binding *bindings = rota_node_bindings(record);
    for (uint32_t i = 0; i < record->binding_count; i++) {
        if (bindings[i].slot.index == ROTA_SLOT_CONSTANT.index) continue;
        /* Value words come first, in slot order. */
        part->bindings[part->binding_count++] =
            (rota_exec_binding){bindings[i].bindable, bindings[i].slot.index - 1};
        if (!l->c->graph->outer) words[bindings[i].slot.index - 1].used = true;
        command->binding_count++;
    }
}

static rota_status emit_command(lowering *l, const rota_operation *operation, uint32_t n) {
    part_builder *part = l->only_part ? l->only_part : &l->parts[operation->part];
    rota_exec_command *command = &part->commands[operation->command];
    *command = (rota_exec_command){.node = n,
                                   .kind = ROTA_EXEC_COMMAND_COPY,
                                   .operand_count = operation->access_count,
                                   .first_operand = operation->first_access};
    const rota_node_record *record = operation->record;
    if (!record) return ROTA_OK;
    switch ((rota_node_kind)record->kind) {
    case ROTA_NODE_KERNEL:
        if (l->c->partitions.device[operation->part])
            ROTA_TRY(rota_lower_check_kernel(l, n, record->u.kernel.kernel,
                                             l->c->partitions.device[operation->part]));
        command->kind = ROTA_EXEC_COMMAND_KERNEL;
        command->u.kernel.kernel = record->u.kernel.kernel;
        command->u.kernel.params = rota_node_params(record);
        for (int i = 0; i < 3; i++)
            command->u.kernel.groups[i] = record->u.kernel.groups[i] ? record->u.kernel.groups[i] : 1;
        if (record->is_counted) rota_lower_counted(l, operation, command);
        if (record->binding_count) lower_bindings(l, part, command, record);
        break;
    case ROTA_NODE_COPY:
        if (record->is_counted) rota_lower_counted(l, operation, command);
        break;
    case ROTA_NODE_FILL:
        command->kind = ROTA_EXEC_COMMAND_FILL;
        command->u.fill.pattern = record->u.fill.pattern;
        break;
    case ROTA_NODE_HOST:
        command->kind = ROTA_EXEC_COMMAND_HOST;
        command->u.host.fn = record->u.host.fn;
        command->u.host.later = record->u.host.later;
        if (record->u.host.later) part->ends_later = true;
        command->u.host.user = record->u.host.user;
        break;
    case ROTA_NODE_CONDITIONAL: /* the rest comes with its bodies */
        command->kind = ROTA_EXEC_COMMAND_CONDITIONAL;
        break;
    }
    return ROTA_OK;
}

/* The edges into an operation that its part gets; for others a wait between segments stands. They are counted
 * two places up, so that after the running sum first_successor[i + 1] is where i's list begins and can be the
 * cursor that ends where i + 1's begins. Predecessors have their commands already. */
static __attribute__((noinline)) void count_edges(lowering *l, const rota_operation *operation, uint32_t n) {
    const rota_compiler *c = l->c;
    const uint32_t *edges = c->edges.from.data, segment = rota_segment_of(c, n);
    part_builder *part = &l->parts[operation->part];
    uint32_t count = 0;
    for (uint32_t e = c->edges.first[n]; e < c->edges.first[n + 1]; e++) {
        const uint32_t from = edges[e];
        if (!(from & ROTA_JOIN) && rota_segment_of(c, from) != segment) continue;
        const uint32_t node = from & ROTA_JOIN ? node_of(l, from, n) : l->command_of[from];
        if (node == ROTA_NONE) continue;
        part->first_successor[node + 2]++;
        count++;
    }
    part->predecessor_count[operation->command] = count;
}

/* The same where all edges go from a command to another of the one segment: most plans. */
static void count_plain_edges(const lowering *l, part_builder *part, uint32_t command, uint32_t n) {
    const rota_compiler *c = l->c;
    const uint32_t *edges = c->edges.from.data, *command_of = l->command_of;
    const uint32_t first = c->edges.first[n], end = c->edges.first[n + 1];
    for (uint32_t e = first; e < end; e++) part->first_successor[command_of[edges[e]] + 2]++;
    part->predecessor_count[command] = end - first;
}

static __attribute__((noinline)) void emit_edges(lowering *l) {
    rota_compiler *c = l->c;
    const rota_operation *operations = ROTA_OPERATIONS(c);
    const uint32_t *edges = c->edges.from.data, *command_of = l->command_of;
    lower_joins(l, true);
    for (uint32_t n = 0; n < c->operations.count; n++) {
        part_builder *part = &l->parts[operations[n].part];
        for (uint32_t e = c->edges.first[n]; e < c->edges.first[n + 1]; e++) {
            const uint32_t from = edges[e];
            if (!(from & ROTA_JOIN) && rota_segment_of(c, from) != rota_segment_of(c, n)) continue;
            const uint32_t node = from & ROTA_JOIN ? node_of(l, from, n) : command_of[from];
            if (node != ROTA_NONE) part->successor[part->first_successor[node + 1]++] = command_of[n];
        }
    }
}

static void emit_plain_edges(lowering *l) {
    const rota_compiler *c = l->c;
    const uint32_t *edges = c->edges.from.data, *command_of = l->command_of, *first_edge = c->edges.first;
    const part_builder *part = l->only_part;
    uint32_t *first_successor = part->first_successor, *successor = part->successor;
    for (uint32_t n = 0; n < c->operations.count; n++)
        for (uint32_t e = first_edge[n]; e < first_edge[n + 1]; e++)
            successor[first_successor[command_of[edges[e]] + 1]++] = command_of[n];
}

static void sum_successors(lowering *l) {
    for (uint32_t p = 0; p < l->c->partitions.count; p++)
        for (uint32_t i = 0; i < l->parts[p].command_count + l->parts[p].join_count; i++)
            l->parts[p].first_successor[i + 2] += l->parts[p].first_successor[i + 1];
}

/* ---- The pass ---- */

static rota_status lower_all(lowering *l) {
    rota_compiler *c = l->c;
    ROTA_TRY(add_arena_memories(l));
    ROTA_TRY(prepare_foreign(l));
    ROTA_TRY(add_value_words(l));
    ROTA_TRY(find_memories(l));
    ROTA_TRY(count_commands(l));
    rota_lower_drop_physicals(c);
    ROTA_TRY(lower_transfers(l));
    ROTA_TRY(size_parts(l));
    lay_out_batches(l);
    const bool plain = l->only_part && c->edges.joins.count == 0;
    for (uint32_t n = 0; n < c->operations.count; n++) {
        rota_operation *operation = &ROTA_OPERATIONS(c)[n];
        if (n + ROTA_OPERATIONS_AHEAD < c->operations.count && operation[ROTA_OPERATIONS_AHEAD].record)
            rota_prefetch(operation[ROTA_OPERATIONS_AHEAD].record);
        number_command(l, operation, n);
        ROTA_TRY(emit_command(l, operation, n));
        if (plain)
            count_plain_edges(l, l->only_part, operation->command, n);
        else
            count_edges(l, operation, n);
    }
    if (!plain) lower_joins(l, false);
    sum_successors(l);
    if (plain)
        emit_plain_edges(l);
    else
        emit_edges(l);
    ROTA_TRY(rota_lower_write_parts(l));
    return rota_lower_bodies(l);
}

rota_status rota_compile_lower(rota_compiler *c) {
    lowering l = {.c = c};
    l.parts = rota_arena_calloc(&c->scratch, sizeof *l.parts * c->partitions.count, 8);
    if (l.parts && c->plan->segment_count == 1) l.only_part = &l.parts[c->plan->segments[0].part];
    l.command_of = rota_arena_alloc(&c->scratch, sizeof(uint32_t) * ((size_t)c->operations.count + 1), 8);
    if (!l.parts || !l.command_of) return rota_compile_no_memory(c);
    rota_status status = lower_all(&l);
    for (uint32_t p = 0; p < c->partitions.count; p++) rota_vector_free(&l.parts[p].memories);
    rota_vector_free(&l.words);
    return status;
}
