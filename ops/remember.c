/* Remembering ops on a tape: what rota_backward is to know of each. */
#include "ops/remember.h"

#include <stdlib.h>

#include "ops/tape.h"

static rota_status note_write(rota_tape *tape, const rota_op *op, const rota_tensor *y, bool remembered) {
    rota_tape_buffer *entry = rota_tape_lookup(tape, y);
    rota_tape_write *write = entry ? rota_arena_alloc(&tape->arena, sizeof *write, 8) : NULL;
    if (!write) return rota_op_fail(op, ROTA_OUT_OF_MEMORY, "no host memory for the tape");
    uint64_t begin = rota_tensor_begin(y);
    *write = (rota_tape_write){.next = entry->writes,
                               .op = op,
                               .tensor = remembered ? y : NULL,
                               .sequence = tape->sequence,
                               .begin = begin,
                               .end = begin + rota_tensor_extent_bytes(y),
                               .lane_nodes = tape->recorder->node_count};
    entry->writes = write;
    return ROTA_OK;
}

/* So many writes before are looked at. */
#define WRITES_LOOKED_AT 64

/* Whether a remembered op may have written some of y's elements before. Without gaps it does not matter. */
static bool writes_onto(rota_tape *tape, const rota_tensor *y) {
    if (rota_tensor_is_dense(y)) return false;
    const rota_tape_buffer *entry = rota_tape_lookup(tape, y);
    uint32_t looked_at = 0;
    for (const rota_tape_write *write = entry ? entry->writes : NULL; write; write = write->next)
        if (++looked_at > WRITES_LOOKED_AT || (write->tensor && !rota_tensors_disjoint(write->tensor, y)))
            return true;
    return false;
}

static rota_status note_writes(rota_tape *tape, const rota_op_use *use, bool remembered) {
    for (uint32_t i = 0; i < use->output_count; i++)
        ROTA_TRY(note_write(tape, use->op, &use->outputs[i], remembered));
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->op->input_modes[i] != ROTA_READ && use->inputs[i].buffer)
            ROTA_TRY(note_write(tape, use->op, &use->inputs[i], remembered));
    return ROTA_OK;
}

/* What rota_backward must know: who wrote what, and the use itself if it may have a gradient. */
rota_status rota_tape_remember_use(rota_tape *tape, const rota_op_use *use) {
    if (tape->options.no_gradients) return ROTA_OK;
    if (use->op->remember) return use->op->remember(tape, use);
    /* In a body they are computed again, for what decides by them. */
    if (!tape->remember || (use->output_count == 0 && !tape->is_in_body)) {
        ROTA_TRY(note_writes(tape, use, false));
        tape->sequence++;
        return ROTA_OK;
    }
    if (tape->use_count == tape->use_capacity) {
        uint64_t capacity = tape->use_capacity ? tape->use_capacity * 2 : 64;
        rota_tape_use **uses = realloc(tape->uses, capacity * sizeof *uses);
        if (!uses) return rota_op_fail(use->op, ROTA_OUT_OF_MEMORY, "no host memory for the tape");
        tape->uses = uses;
        tape->use_capacity = capacity;
    }
    for (uint32_t i = 0; i < use->input_count; i++) {
        if (!use->inputs[i].buffer) continue;
        rota_tape_buffer *entry = rota_tape_lookup(tape, &use->inputs[i]);
        if (!entry) return rota_op_fail(use->op, ROTA_OUT_OF_MEMORY, "no host memory for the tape");
        if (entry->first_read == UINT64_MAX) entry->first_read = tape->sequence;
    }
    rota_tape_use *used = rota_arena_alloc(&tape->arena, sizeof *used, 8);
    if (!used) return rota_op_fail(use->op, ROTA_OUT_OF_MEMORY, "no host memory for the tape");
    *used = (rota_tape_use){.use = *use,
                            .name = tape->name,
                            .op_name = tape->op_name,
                            .sequence = tape->sequence,
                            .lane_nodes = tape->recorder->node_count,
                            .onto = use->output_count && writes_onto(tape, &use->outputs[0])};
    ROTA_TRY(note_writes(tape, &used->use, true));
    tape->sequence++;
    tape->uses[tape->use_count++] = used;
    return ROTA_OK;
}
