/* A group of elementwise nodes: which nodes join it, and the node that it becomes.
 *
 * Every node of a group works on element i of all its operands for result i, but for operands that repeat. So a
 * group computes the same, element by element, as its nodes one after another, as long as what it writes
 * overlaps nothing that it reads or writes in any other way than whole. All of it moves to the place of its
 * last node; what stands in between must touch nothing of it. */
#include "ops/fuse_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ops/fuse_piece.h"
#include "ops/fuse_program.h"
#include "ops/vk/fused.h"

/* ---- Uses of buffers ---- */

static uint64_t entry_of(const rota_fuse_uses *uses, const rota_buffer *buffer) {
    uint64_t i = rota_hash_pointer(buffer) & (uses->capacity - 1);
    while (uses->entries[i].buffer && uses->entries[i].buffer != buffer) i = (i + 1) & (uses->capacity - 1);
    return i;
}

static bool grow_uses(rota_fuse_uses *uses) {
    rota_fuse_uses larger = {.capacity = uses->capacity ? 2 * uses->capacity : 1024,
                             .count = uses->count,
                             .rewriter = uses->rewriter};
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (!larger.entries) return false;
    for (uint64_t i = 0; i < uses->capacity; i++)
        if (uses->entries[i].buffer)
            larger.entries[entry_of(&larger, uses->entries[i].buffer)] = uses->entries[i];
    free(uses->entries);
    *uses = larger;
    return true;
}

bool rota_fuse_uses_add(rota_fuse_uses *uses, const rota_buffer *buffer, uint64_t node) {
    if (2 * (uses->count + 1) > uses->capacity && !grow_uses(uses)) return false;
    const uint64_t i = entry_of(uses, buffer);
    if (!uses->entries[i].buffer) uses->count++;
    uses->entries[i].buffer = buffer;
    uses->entries[i].last = node;
    return true;
}

uint64_t rota_fuse_uses_last(const rota_fuse_uses *uses, const rota_buffer *buffer) {
    const uint64_t i = entry_of(uses, buffer);
    return uses->entries[i].buffer ? uses->entries[i].last : 0;
}

void rota_fuse_uses_free(rota_fuse_uses *uses) {
    free(uses->entries);
    *uses = (rota_fuse_uses){0};
}

/* ---- Places ---- */

static bool overlap(const rota_fuse_range *range, const rota_access *access) {
    return range->buffer == access->buffer &&
           range->offset_bytes < access->offset_bytes + access->size_bytes &&
           access->offset_bytes < range->offset_bytes + range->size_bytes;
}

static bool exactly(const rota_fuse_range *range, const rota_access *access) {
    return range->buffer == access->buffer && range->offset_bytes == access->offset_bytes &&
           range->size_bytes == access->size_bytes;
}

static rota_fuse_range *add_range(rota_fuse_group *group, const rota_access *access) {
    if (group->range_count == ROTA_FUSE_RANGES_MAX) return NULL;
    rota_fuse_range *range = &group->ranges[group->range_count++];
    *range = (rota_fuse_range){.buffer = access->buffer,
                               .offset_bytes = access->offset_bytes,
                               .size_bytes = access->size_bytes,
                               .read = ROTA_FUSED_NONE,
                               .written = ROTA_FUSED_NONE};
    return range;
}

static uint8_t add_value(rota_fuse_group *group, uint32_t div, uint32_t mod, uint8_t dtype, bool input) {
    if (group->shape.value_count == ROTA_FUSED_VALUES_MAX) return ROTA_FUSED_NONE;
    group->shape.values[group->shape.value_count] = (rota_fused_value){
        .div = div, .mod = mod, .dtype = dtype, .operand = ROTA_FUSED_NONE, .input = input};
    return (uint8_t)group->shape.value_count++;
}

/* The value that a read finds; NONE: it can't be part of the group. *out_shared: the group had it before. */
static uint8_t value_of_read(rota_fuse_group *group, const rota_fuse_read *read, uint8_t step,
                             bool *out_shared) {
    rota_fuse_range *found = NULL;
    for (uint32_t p = 0; p < group->range_count; p++) {
        rota_fuse_range *range = &group->ranges[p];
        if (!overlap(range, &read->access)) continue;
        if (exactly(range, &read->access) && range->dtype == read->dtype) {
            if (range->written != ROTA_FUSED_NONE) {
                if (read->mod) return ROTA_FUSED_NONE;
                *out_shared = true;
                return range->written;
            }
            if (range->div == read->div && range->mod == read->mod) found = range;
        } else if (range->written != ROTA_FUSED_NONE) {
            return ROTA_FUSED_NONE;
        }
    }
    if (found) {
        *out_shared = true;
        found->may_be_replaced =
            read->may_be_replaced && (found->last_read_step != step || found->may_be_replaced);
        found->last_read_step = step;
        return found->read;
    }
    found = add_range(group, &read->access);
    if (!found) return ROTA_FUSED_NONE;
    found->div = read->div;
    found->mod = read->mod;
    found->dtype = read->dtype;
    found->last_read_step = step;
    found->may_be_replaced = read->may_be_replaced;
    return found->read = add_value(group, read->div, read->mod, read->dtype, true);
}

/* Writes the result: over a whole range of the group, or where the group touches nothing yet. */
static bool put_result(rota_fuse_group *group, const rota_fuse_piece *piece, uint8_t step, uint8_t value) {
    rota_fuse_range *found = NULL;
    for (uint32_t p = 0; p < group->range_count; p++) {
        rota_fuse_range *range = &group->ranges[p];
        if (!overlap(range, &piece->result)) continue;
        if (found || !exactly(range, &piece->result) || range->mod || range->dtype != piece->result_dtype)
            return false;
        found = range;
    }
    if (!found && !(found = add_range(group, &piece->result))) return false;
    found->dtype = piece->result_dtype;
    found->written = value;
    found->write_step = step;
    return true;
}

/* ---- What a group would be ---- */

/* Nobody reads what the group leaves there. */
static bool is_dead(const rota_fuse_group *group, const rota_fuse_range *range) {
    return rota_rewriter_owns(group->uses->rewriter, range->buffer) &&
           rota_fuse_uses_last(group->uses, range->buffer) <= group->positions[group->shape.step_count - 1];
}

static bool is_stored(const rota_fuse_group *group, const rota_fuse_range *range) {
    return range->written != ROTA_FUSED_NONE && !is_dead(group, range);
}

/* Whether the result left at `out` may lie where `in` was read: it is written after the last read, or by the
 * same step, of a kernel that allows it. */
static bool may_replace(const rota_fuse_range *out, const rota_fuse_range *in) {
    return in->last_read_step < out->write_step ||
           (in->last_read_step == out->write_step && in->may_be_replaced);
}

/* Nothing else of the group reads any of it, so that it may be given up for a result. */
static bool is_apart(const rota_fuse_group *group, const rota_fuse_range *range) {
    const rota_access whole = {range->buffer, range->offset_bytes, range->size_bytes, ROTA_READ};
    for (uint32_t p = 0; p < group->range_count; p++)
        if (&group->ranges[p] != range && overlap(&group->ranges[p], &whole)) return false;
    return true;
}

/* The operands, reads first, with the ranges that they are; and which results may lie in which reads' place:
 * all pairs of the two masks. False: there are too many, or the group's own order does not allow what it does
 * in place. */
static bool find_operands(const rota_fuse_group *group, uint8_t operand_range[ROTA_FUSED_OPERANDS_MAX],
                          uint32_t *out_reads, uint32_t *out_count, uint32_t *out_outputs,
                          uint32_t *out_inputs) {
    uint32_t count = 0;
    for (int written = 0; written < 2; written++) {
        for (uint32_t p = 0; p < group->range_count; p++) {
            const rota_fuse_range *range = &group->ranges[p];
            if (written ? !is_stored(group, range) : range->read == ROTA_FUSED_NONE) continue;
            if (count == ROTA_FUSED_OPERANDS_MAX) return false;
            operand_range[count++] = (uint8_t)p;
        }
        if (!written) *out_reads = count;
    }
    *out_count = count;
    uint32_t inputs = 0, outputs = 0, last = ROTA_FUSED_NONE;
    for (uint32_t o = *out_reads; o < count; o++) {
        const rota_fuse_range *out = &group->ranges[operand_range[o]];
        if (last == ROTA_FUSED_NONE || out->write_step > group->ranges[operand_range[last]].write_step)
            last = o;
        if (out->read == ROTA_FUSED_NONE) continue;
        outputs |= 1u << o;
        for (uint32_t i = 0; i < *out_reads; i++)
            if (operand_range[i] == operand_range[o]) inputs |= 1u << i;
    }
    if (!outputs && last != ROTA_FUSED_NONE) outputs = 1u << last;
    for (uint32_t o = *out_reads; o < count; o++)
        for (uint32_t i = 0; i < *out_reads; i++)
            if ((outputs >> o & 1) && (inputs >> i & 1) &&
                !may_replace(&group->ranges[operand_range[o]], &group->ranges[operand_range[i]]))
                return false;
    for (uint32_t i = 0; i < *out_reads; i++) {
        const rota_fuse_range *in = &group->ranges[operand_range[i]];
        bool good = in->mod == 0 && is_apart(group, in);
        for (uint32_t o = *out_reads; o < count && good; o++)
            good = !(outputs >> o & 1) || may_replace(&group->ranges[operand_range[o]], in);
        if (good) inputs |= 1u << i;
    }
    for (uint32_t o = *out_reads; o < count; o++) {
        bool good = true;
        for (uint32_t i = 0; i < *out_reads && good; i++)
            good = !(inputs >> i & 1) ||
                   may_replace(&group->ranges[operand_range[o]], &group->ranges[operand_range[i]]);
        if (good) outputs |= 1u << o;
    }
    *out_outputs = inputs ? outputs : 0;
    *out_inputs = inputs;
    return true;
}

/* Whether it could end as it is. */
static bool is_possible(const rota_fuse_group *group) {
    uint8_t operand_range[ROTA_FUSED_OPERANDS_MAX];
    uint32_t reads, operands, outputs, inputs;
    if (!find_operands(group, operand_range, &reads, &operands, &outputs, &inputs)) return false;
    const bool for_vk = !group->target.known || group->target.kind == ROTA_EXEC_VK;
    return !for_vk || rota_vk_fused_fits(&group->shape, operands);
}

static bool same_placement(const rota_placement *a, const rota_placement *b) {
    return a->device_plus_1 == b->device_plus_1 && a->queue_plus_1 == b->queue_plus_1;
}

/* Adds the node; the group is spoiled where it can't. */
static bool add(rota_fuse_group *group, uint64_t position, const rota_fuse_piece *piece, bool linked) {
    const uint32_t number = group->shape.step_count;
    if (number == ROTA_FUSED_STEPS_MAX || group->shape.word_count + piece->word_count > ROTA_FUSED_WORDS_MAX)
        return false;
    rota_fused_step *step = &group->shape.steps[number];
    *step = (rota_fused_step){.kind = (uint8_t)piece->kind,
                              .op = piece->op,
                              .dtype = piece->dtype,
                              .source_count = (uint8_t)piece->read_count,
                              .word = (uint8_t)group->shape.word_count,
                              .word_count = (uint8_t)piece->word_count};
    bool shared = number == 0 || linked;
    for (uint32_t i = 0; i < piece->read_count; i++) {
        step->source[i] = value_of_read(group, &piece->read[i], (uint8_t)number, &shared);
        if (step->source[i] == ROTA_FUSED_NONE) return false;
    }
    step->result = add_value(group, 0, 0, piece->result_dtype, false);
    if (!shared || step->result == ROTA_FUSED_NONE ||
        !put_result(group, piece, (uint8_t)number, step->result))
        return false;
    for (uint32_t w = 0; w < piece->word_count; w++) {
        group->words[group->shape.word_count] = piece->word[w];
        group->slots[group->shape.word_count++] = piece->slot[w];
    }
    group->positions[group->shape.step_count++] = position;
    return true;
}

bool rota_fuse_group_join(rota_fuse_group *group, rota_rewriter *rewriter, uint64_t position,
                          const rota_node_view *view, const rota_fuse_piece *piece, bool linked) {
    if (group->shape.step_count == 0) {
        group->count = piece->count;
        group->placement = view->placement;
        group->target = ROTA_REWRITE_TARGET();
        (void)rota_rewriter_target(rewriter, &view->placement, &group->target);
        /* What does not fit even alone is left as it is. */
        if (add(group, position, piece, false) && is_possible(group)) return true;
        const rota_fuse_uses *uses = group->uses;
        rota_fuse_group *spare = group->trial;
        *group = (rota_fuse_group){.uses = uses, .trial = spare};
        return false;
    }
    if (piece->count != group->count || !same_placement(&view->placement, &group->placement)) return false;
    rota_fuse_group *trial = group->trial;
    *trial = *group;
    if (!add(trial, position, piece, linked) || !is_possible(trial)) return false;
    *group = *trial;
    group->trial = trial;
    return true;
}

bool rota_fuse_group_links(const rota_fuse_group *group, const rota_node_view *view,
                           const rota_access *range) {
    const rota_fuse_range of_node = {
        .buffer = range->buffer, .offset_bytes = range->offset_bytes, .size_bytes = range->size_bytes};
    bool reads_range = false, reads_group = false;
    for (uint32_t a = 0; a < view->access_count; a++) {
        if (view->accesses[a].mode != ROTA_READ) continue;
        if (exactly(&of_node, &view->accesses[a])) reads_range = true;
        for (uint32_t p = 0; p < group->range_count; p++)
            if (exactly(&group->ranges[p], &view->accesses[a])) reads_group = true;
    }
    return reads_range && reads_group;
}

bool rota_fuse_group_touches(const rota_fuse_group *group, const rota_node_view *view) {
    if (group->shape.step_count == 0) return false;
    if (view->ordered) return true;
    for (uint32_t a = 0; a < view->access_count; a++)
        for (uint32_t p = 0; p < group->range_count; p++)
            if (overlap(&group->ranges[p], &view->accesses[a]) &&
                (view->accesses[a].mode != ROTA_READ || group->ranges[p].written != ROTA_FUSED_NONE))
                return true;
    return false;
}

/* ---- The end ---- */

/* Scratch blocks for results that no operand has: each is free again after the last step that reads it. */
static void assign_slots(rota_fused_shape *shape) {
    uint32_t last_use[ROTA_FUSED_VALUES_MAX] = {0}, busy = 0;
    for (uint32_t s = 0; s < shape->step_count; s++) {
        last_use[shape->steps[s].result] = s;
        for (uint32_t k = 0; k < shape->steps[s].source_count; k++) last_use[shape->steps[s].source[k]] = s;
    }
    uint8_t slot_of_value[ROTA_FUSED_VALUES_MAX];
    for (uint32_t s = 0; s < shape->step_count; s++) {
        rota_fused_step *step = &shape->steps[s];
        if (shape->values[step->result].operand == ROTA_FUSED_NONE) {
            uint32_t slot = 0;
            while (busy >> slot & 1) slot++;
            busy |= 1u << slot;
            step->slot = slot_of_value[step->result] = (uint8_t)slot;
            if (slot + 1 > shape->slot_count) shape->slot_count = slot + 1;
        }
        for (uint32_t v = 0; v < shape->value_count; v++)
            if (last_use[v] == s && !shape->values[v].input && v <= step->result &&
                shape->values[v].operand == ROTA_FUSED_NONE)
                busy &= ~(1u << slot_of_value[v]);
    }
}

/* Puts the program's node in the place of the group's. */
static rota_status put_node(const rota_fuse_group *group, const rota_fused_program *program,
                            const uint8_t *operand_range, uint32_t reads, rota_rewriter *rewriter) {
    const rota_fused_shape *shape = &group->shape;
    rota_access accesses[ROTA_FUSED_OPERANDS_MAX];
    for (uint32_t o = 0; o < shape->operand_count; o++) {
        const rota_fuse_range *range = &group->ranges[operand_range[o]];
        accesses[o] = (rota_access){range->buffer, range->offset_bytes, range->size_bytes,
                                    o < reads ? ROTA_READ : ROTA_WRITE};
    }
    rota_fused_params params = {.program = program, .count = group->count};
    rota_param_binding bindings[ROTA_FUSED_WORDS_MAX];
    uint32_t bound = 0;
    for (uint32_t w = 0; w < shape->word_count; w++) {
        params.words[w] = group->words[w];
        if (group->slots[w].index) bindings[bound++] = (rota_param_binding){w, group->slots[w]};
    }
    const uint64_t last = group->positions[shape->step_count - 1];
    ROTA_TRY(rota_rewriter_replace(rewriter, last,
                                   &ROTA_KERNEL_NODE(.kernel = &program->kernel, .accesses = accesses,
                                                     .access_count = shape->operand_count, .params = &params,
                                                     .bindings = bindings, .binding_count = bound,
                                                     .placement = group->placement)));
    for (uint32_t s = 0; s + 1 < shape->step_count; s++)
        ROTA_TRY(rota_rewriter_merge(rewriter, group->positions[s], last));
    return ROTA_OK;
}

static rota_status end_run(rota_fuse_group *group, rota_rewriter *rewriter) {
    uint8_t operand_range[ROTA_FUSED_OPERANDS_MAX];
    rota_fused_shape *shape = &group->shape;
    uint32_t reads;
    if (!find_operands(group, operand_range, &reads, &shape->operand_count, &shape->inplace_outputs,
                       &shape->inplace_inputs))
        return ROTA_OK;
    if (reads == shape->operand_count) return ROTA_OK; /* nobody needs any of it */
    for (uint32_t o = 0; o < shape->operand_count; o++) {
        const rota_fuse_range *range = &group->ranges[operand_range[o]];
        shape->values[o < reads ? range->read : range->written].operand = (uint8_t)o;
    }
    assign_slots(shape);
    const rota_fused_program *program = rota_fused_program_get(shape);
    if (!program) return rota_fail(ROTA_OUT_OF_MEMORY, "fusion: no host memory for a program");
    char reason[400], note[512];
    if (rota_fused_prepare(program, &group->target, reason, sizeof reason))
        return put_node(group, program, operand_range, reads, rewriter);
    (void)snprintf(note, sizeof note, "not fused with %u nodes around it: %s", shape->step_count - 1, reason);
    for (uint32_t s = 0; s < shape->step_count; s++)
        ROTA_TRY(rota_rewriter_note(rewriter, group->positions[s], note));
    return ROTA_OK;
}

rota_status rota_fuse_group_end(rota_fuse_group *group, rota_rewriter *rewriter) {
    const rota_status status = group->shape.step_count > 1 ? end_run(group, rewriter) : ROTA_OK;
    const rota_fuse_uses *uses = group->uses;
    rota_fuse_group *trial = group->trial;
    memset(group, 0, sizeof *group);
    group->uses = uses;
    group->trial = trial;
    return status;
}
