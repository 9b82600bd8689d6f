/* The certificate: which buffer in which memory an operand is of. */
#include "sched/plan/certify_memory.h"
#include "sched/plan/certify_parts.h"
#include "sched/plan/certify_text.h"
#include "sched/plan/names.h"

static uint64_t space_of(const rota_plan *plan, uint32_t part, const rota_exec_operand *operand) {
    if (operand->is_slot) {
        const rota_plan_word *word = &plan->words[operand->memory];
        if (word->kind == ROTA_WORD_BUFFER)
            return (uint64_t)1 << 62 | (uint64_t)plan->partitions[part].memory_partition << 32 | word->index;
        return (uint64_t)1 << 63 | (uint64_t)part << 32 | operand->memory;
    }
    const rota_plan_memory *memory = &plan->partitions[part].memories[operand->memory];
    return memory->foreign_part != ROTA_NONE ? (uint64_t)memory->foreign_part << 32 | memory->foreign_memory
                                             : (uint64_t)part << 32 | operand->memory;
}

static const rota_buffer *recorded_buffer(const certifier *c, uint64_t stored) {
    if (!(stored & 1)) return ROTA_ACCESS_BUFFER(stored);
    const uint32_t lane = (uint32_t)(stored >> 32), index = (uint32_t)stored >> 1;
    const rota_graph *graph = c->plan->graph;
    if (lane > graph->lane_count) {
        const uint64_t own = (uint64_t)c->info->lookup.own_base + index;
        return own < c->plan->buffer_count ? c->plan->buffers[own].buffer : NULL;
    }
    const rota_recorder *recorder = lane ? graph->lanes[lane - 1] : &graph->own;
    return index < recorder->buffer_count ? rota_lane_buffer(recorder, index) : NULL;
}

/* Neighbours stay neighbours, up to so many: a graph's buffers were made side by side, and are used so. */
enum { HASH_NEIGHBOURS = 4096 };
static uint32_t hash_of(uint64_t space, const rota_buffer *buffer) {
    const uint64_t index = (uintptr_t)buffer / sizeof *buffer;
    const uint64_t group =
        (space / HASH_NEIGHBOURS * 0x9e3779b97f4a7c15u ^ index / HASH_NEIGHBOURS * 0xc2b2ae3d27d4eb4fu) >> 32;
    return (uint32_t)(group + (index + space) % HASH_NEIGHBOURS);
}

static rota_status find_instance(certifier *c, uint64_t space, const rota_buffer *buffer, uint32_t *out) {
    uint32_t *slot = &c->memory.instance_hash[hash_of(space, buffer) & c->memory.hash_mask];
    for (uint32_t i = *slot; i; i = INSTANCES(c)[i - 1].next)
        if (INSTANCES(c)[i - 1].space == space && INSTANCES(c)[i - 1].buffer == buffer) {
            *out = i - 1;
            return ROTA_OK;
        }
    if (!rota_vector_reserve(&c->memory.instances, sizeof(instance), 1)) return rota_certify_no_memory(c);
    *out = (uint32_t)c->memory.instances.count++;
    INSTANCES(c)
    [*out] =
        (instance){.space = space, .buffer = buffer, .low = UINT64_MAX, .next = *slot, .part = ROTA_NONE - 1};
    *slot = *out + 1;
    return ROTA_OK;
}

/* What an operand should be, from the record or the transfer that its command is of. */
typedef struct expected {
    const rota_buffer *buffer; /* NULL: memory of the host's, or scratch memory */
    uint64_t offset, size;
    rota_access_mode mode;
    bool any_offset; /* a copy between devices: the same byte as the other operand's */
} expected;

static rota_status expect(const certifier *c, uint32_t n, uint32_t k, const rota_exec_operand *operand,
                          expected *out) {
    const rota_operation *operation = &c->info->operations[n];
    const rota_plan *plan = c->plan;
    *out = (expected){.size = operand->size_bytes, .mode = (rota_access_mode)operand->mode};
    if (operation->kind == ROTA_OPERATION_NODE) {
        const rota_node_record *record = operation->record;
        if (k >= record->access_count) return ROTA_OK; /* a workspace */
        const rota_access_record *access = &rota_node_accesses(record)[k];
        out->buffer = recorded_buffer(c, rota_access_stored(access));
        out->offset = ROTA_ACCESS_OFFSET(access);
        out->size = rota_access_size(access);
        out->mode = ROTA_ACCESS_MODE(access);
        return out->buffer ? ROTA_OK
                           : rota_certify_wrong(c, "%s touches no buffer", rota_operation_describe(plan, n));
    }
    out->mode = k == 0 ? ROTA_WRITE : ROTA_READ;
    if (operation->kind == ROTA_OPERATION_TRANSFER) {
        out->buffer = plan->buffers[operation->node].buffer;
        out->any_offset = true;
        return ROTA_OK;
    }
    const rota_plan_transfer *transfer = &plan->transfers[operation->node];
    const bool is_device = k == (transfer->is_output ? 1u : 0u);
    out->size = plan->buffers[transfer->buffer].buffer->size_bytes;
    if (is_device) out->buffer = plan->buffers[transfer->buffer].buffer;
    if (!is_device && (operand->memory != (operand->is_slot ? transfer->word : transfer->memory) ||
                       operand->offset_bytes != (operand->is_slot ? 0 : transfer->offset_bytes)))
        return rota_certify_wrong(c, "%s is at another place than its contents",
                                  rota_operation_describe(plan, n));
    return ROTA_OK;
}

static bool is_mirror(const rota_plan *plan, uint32_t part, const rota_exec_operand *operand) {
    return !operand->is_slot && operand->memory < plan->partitions[part].desc.memory_count &&
           plan->partitions[part].memories[operand->memory].kind == ROTA_EXEC_BASE_STAGING;
}

/* Which byte of the buffer a copy out of a peer's memory begins with: by where the source has the buffer, as all before
 * it that touched it there said. */
static rota_status offset_of_source(certifier *c, uint32_t n, uint32_t part, const rota_exec_operand *target,
                                    const rota_exec_operand *source, expected *want) {
    const rota_plan *plan = c->plan;
    const rota_plan_memory *memories = plan->partitions[part].memories;
    const bool is_peer =
        !source->is_slot && !target->is_slot && source->memory < plan->partitions[part].desc.memory_count &&
        target->memory < plan->partitions[part].desc.memory_count && memories[source->memory].is_peer &&
        memories[target->memory].foreign_part == ROTA_NONE;
    uint32_t which;
    if (!is_peer)
        return rota_certify_wrong(c, "%s copies neither by a mirror nor out of a peer's memory",
                                  rota_operation_describe(plan, n));
    if (memories[source->memory].kind == ROTA_EXEC_BASE_PERSISTENT) {
        want->offset = source->offset_bytes;
        return ROTA_OK;
    }
    ROTA_TRY(find_instance(c, space_of(plan, part, source), want->buffer, &which));
    const instance *it = &INSTANCES(c)[which];
    if (!it->has_base || source->offset_bytes < it->base)
        return rota_certify_wrong(c, "%s reads bytes that nothing before it touched",
                                  rota_operation_describe(plan, n));
    want->offset = source->offset_bytes - it->base;
    return ROTA_OK;
}

/* One of a copy's two operands is in a mirror, or both are: it begins with the buffer's first byte. */
static rota_status offset_of_mirror(certifier *c, uint32_t n, uint32_t part, uint32_t k,
                                    const rota_exec_operand *operand, expected *want) {
    const rota_plan *plan = c->plan;
    const rota_exec_program_desc *desc = &plan->partitions[part].desc;
    const rota_exec_operand *other =
        &desc->operands[desc->commands[c->node[n] - c->nodes.part_first[part]].first_operand + 1 - k];
    const bool in_mirror = is_mirror(plan, part, operand), other_is = is_mirror(plan, part, other);
    if (!in_mirror && !other_is)
        return offset_of_source(c, n, part, k == 0 ? operand : other, k == 0 ? other : operand, want);
    if (in_mirror && other_is && operand->offset_bytes != other->offset_bytes)
        return rota_certify_wrong(c, "%s does not copy to or from the same byte of a mirror",
                                  rota_operation_describe(plan, n));
    want->offset = in_mirror ? operand->offset_bytes : other->offset_bytes;
    return ROTA_OK;
}

static void note_use(instance *it, const rota_exec_operand *operand, uint32_t part) {
    if (it->access_count && (it->low != operand->offset_bytes || it->high != rota_exec_operand_end(operand)))
        it->leaves = 2; /* several */
    else if (!it->access_count)
        it->leaves = 1;
    it->access_count++;
    if (it->low > operand->offset_bytes) it->low = operand->offset_bytes;
    if (it->high < rota_exec_operand_end(operand)) it->high = rota_exec_operand_end(operand);
    it->part = it->part == ROTA_NONE - 1 ? part : it->part == part ? part : ROTA_NONE;
}

/* Finds the buffer in its memory that an operand is of, and sees that it is what was recorded. */
static rota_status read_operand(certifier *c, uint32_t n, uint32_t part, uint32_t k,
                                const rota_exec_operand *operand, uint32_t *out_instance) {
    const rota_plan *plan = c->plan;
    const rota_exec_program_desc *desc = &plan->partitions[part].desc;
    if (operand->memory >= (operand->is_slot ? plan->word_count : desc->memory_count))
        return rota_certify_wrong(c, "operand %u of %s names no memory", k, rota_operation_describe(plan, n));
    expected want;
    ROTA_TRY(expect(c, n, k, operand, &want));
    if (want.any_offset) ROTA_TRY(offset_of_mirror(c, n, part, k, operand, &want));
    if (want.size != operand->size_bytes || want.mode != operand->mode)
        return rota_certify_wrong(c, "operand %u of %s is of %llu bytes (%s), recorded as %llu (%s)", k,
                                  rota_operation_describe(plan, n), (unsigned long long)operand->size_bytes,
                                  rota_access_mode_name((rota_access_mode)operand->mode),
                                  (unsigned long long)want.size, rota_access_mode_name(want.mode));
    const rota_plan_memory *memory =
        operand->is_slot ? NULL : &plan->partitions[part].memories[operand->memory];
    const rota_plan_word *word = operand->is_slot ? &plan->words[operand->memory] : NULL;
    const bool is_arena = memory && memory->kind == ROTA_EXEC_BASE_ARENA;
    const uint32_t outside = word && word->kind == ROTA_WORD_BUFFER                ? word->index
                             : memory && memory->kind == ROTA_EXEC_BASE_PERSISTENT ? memory->buffer
                                                                                   : ROTA_NONE;
    /* Scratch memory is a buffer of its own for each that uses it: a name that no buffer has. */
    const rota_buffer *name = !is_arena ? NULL : want.buffer ? want.buffer : (const rota_buffer *)operand;
    if (outside != ROTA_NONE && (!want.buffer || plan->buffers[outside].buffer != want.buffer ||
                                 operand->offset_bytes != want.offset))
        return rota_certify_wrong(
            c, "operand %u of %s is byte %llu of buffer '%s', recorded as byte %llu of '%s'", k,
            rota_operation_describe(plan, n), (unsigned long long)operand->offset_bytes,
            plan->buffers[outside].buffer->name, (unsigned long long)want.offset,
            want.buffer ? want.buffer->name : "no buffer");
    if (memory && rota_exec_operand_end(operand) > memory->size_bytes)
        return rota_certify_wrong(c, "operand %u of %s ends after its memory's %llu bytes", k,
                                  rota_operation_describe(plan, n), (unsigned long long)memory->size_bytes);
    ROTA_TRY(find_instance(c, space_of(plan, part, operand), name, out_instance));
    instance *it = &INSTANCES(c)[*out_instance];
    if (is_arena && want.buffer) {
        const uint64_t base = operand->offset_bytes - want.offset;
        if (operand->offset_bytes < want.offset || (it->has_base && it->base != base))
            return rota_certify_wrong(
                c, "operand %u of %s has buffer '%s' at byte %lld of the arena, others at %llu", k,
                rota_operation_describe(plan, n), want.buffer->name, (long long)base,
                (unsigned long long)it->base);
        it->base = base;
        it->has_base = true;
    }
    /* What a peer only reads is its owner's alone. */
    note_use(it, operand, memory && memory->is_peer ? memory->foreign_part : part);
    return ROTA_OK;
}

rota_status rota_certify_read_operands(certifier *c) {
    uint64_t operands = 0;
    for (uint32_t n = 0; n < c->operations; n++) {
        const rota_exec_command *command = command_of(c, n);
        const uint64_t end = (uint64_t)command->first_operand + command->operand_count;
        if (end > c->plan->partitions[part_of(c, n)].desc.operand_count)
            return rota_certify_wrong(c, "%s has operands beyond the program's",
                                      rota_operation_describe(c->plan, n));
        if (end > operands) operands = end;
    }
    uint32_t size = 256;
    while (size < c->plan->buffer_count * 2u && size < 1u << 30) size *= 2;
    c->memory.hash_mask = size - 1;
    c->memory.instance_hash = rota_arena_calloc(&c->arena, sizeof(uint32_t) * size, 8);
    c->memory.instance_of = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (operands + 1), 8);
    /* Each buffer is in one memory, or in some. */
    if (!c->memory.instance_hash || !c->memory.instance_of ||
        !rota_vector_reserve(&c->memory.instances, sizeof(instance), c->plan->buffer_count))
        return rota_certify_no_memory(c);
    for (uint32_t n = 0; n < c->operations; n++) {
        const uint32_t part = part_of(c, n);
        const rota_exec_command *command = command_of(c, n);
        const rota_operation *operation = &c->info->operations[n];
        const uint32_t least = operation->kind == ROTA_OPERATION_NODE ? operation->record->access_count : 2;
        const uint32_t most = operation->kind == ROTA_OPERATION_NODE ? least + 1 : least;
        if (command->operand_count < least || command->operand_count > most)
            return rota_certify_wrong(c, "%s has %u operands, recorded with %u",
                                      rota_operation_describe(c->plan, n), command->operand_count, least);
        for (uint32_t k = 0; k < command->operand_count; k++)
            ROTA_TRY(read_operand(c, n, part, k,
                                  &c->plan->partitions[part].desc.operands[command->first_operand + k],
                                  &c->memory.instance_of[command->first_operand + k]));
    }
    return ROTA_OK;
}
