/* Gathered parameters in a backward pass: what an unshard made is gone when the last op that reads it forward is
 * through (nobody keeps it), and is gathered again for the ops that read it backward, into another buffer that stands
 * for the first: gradients know one of the two (rota_tape_buffer.same_as).
 *
 *     forward     gather 0 | gather 1 | layer 0 | gather 2 | layer 1 | layer 2
 *     backward    gather 2 | gather 1 | layer 2, reduce 2 | gather 0 | layer 1, reduce 1 | layer 0, reduce 0
 *
 * A gather is recorded one before the ops that need it, and runs beside those of the one before. */
#include <stdlib.h>

#include "graph/record.h"
#include "ops/backward_bodies.h"
#include "ops/gradient.h"
#include "ops/unshard.h"

/* How many are gathered beside the one that is read: none waits for the next one, and no more are in memory. */
#define AHEAD 1u
#define NONE UINT64_MAX

typedef struct unshard {
    uint64_t use;       /* of the tape */
    uint64_t first_use; /* the first that reads it; itself, if none does */
    uint64_t needed;    /* the last use whose gradient reads it; NONE: none's does */
    rota_buffer *again; /* that has it now; NULL: not yet */
    uint32_t position;  /* in the order in which they are needed */
    bool is_done;       /* its gradient has gone out */
} unshard;

struct rota_unshards {
    rota_tape *tape;
    unshard *all;       /* in the order of their uses */
    unshard **needed;   /* as gradients need them */
    unshard **finished; /* as their gradients are complete, which is known of those that ops read */
    uint32_t count, needed_count, finished_count, next_finished;
};

static int by_need(const void *a, const void *b) {
    const unshard *x = *(unshard *const *)a, *y = *(unshard *const *)b;
    if (x->needed != y->needed) return x->needed > y->needed ? -1 : 1;
    return x->use > y->use ? -1 : x->use < y->use;
}

static int by_first_use(const void *a, const void *b) {
    const unshard *x = *(unshard *const *)a, *y = *(unshard *const *)b;
    if (x->first_use != y->first_use) return x->first_use > y->first_use ? -1 : 1;
    return x->use > y->use ? -1 : x->use < y->use;
}

static uint32_t count_of(const rota_tape *tape) {
    uint32_t count = 0;
    for (uint64_t u = 0; u < tape->use_count; u++) count += rota_collective_is_unshard(&tape->uses[u]->use);
    return count;
}

/* It is gathered once more as it was. */
static rota_status check_unwritten(const rota_tape *tape, const rota_tape_use *used,
                                   const rota_tape_buffer *entry) {
    static const char *const expected =
        "which are gathered again for the gradients; expected ops that read them";
    if (entry->writes && entry->writes->next)
        return rota_fail(ROTA_WRONG_STATE, "backward: op '%s' wrote gathered parameters in buffer '%s', %s",
                         entry->writes->op->name, rota_buffer_name(entry->root), expected);
    const rota_conditional *node =
        rota_backward_body_that_overwrites(tape, used, entry, 0, rota_buffer_size(entry->root));
    if (!node) return ROTA_OK;
    return rota_fail(ROTA_WRONG_STATE,
                     "backward: a body of node '%s' wrote gathered parameters in buffer '%s', %s",
                     rota_node_record_name(node->record), rota_buffer_name(entry->root), expected);
}

static rota_status note_use(rota_unshards *s, uint64_t u) {
    rota_tape *tape = s->tape;
    const rota_op_use *use = &tape->uses[u]->use;
    for (uint32_t i = 0; i < use->input_count; i++) {
        if (!use->inputs[i].buffer) continue;
        const rota_tape_buffer *entry = rota_tape_lookup(tape, &use->inputs[i]);
        if (!entry) return rota_backward_no_memory();
        if (!entry->unshard) continue;
        unshard *it = &s->all[entry->unshard - 1];
        if (it->first_use == it->use) it->first_use = u;
        if (use->op->saved_inputs & 1u << i) it->needed = u;
    }
    if (!rota_collective_is_unshard(use)) return ROTA_OK;
    rota_tape_buffer *entry = rota_tape_lookup(tape, &use->outputs[0]);
    if (!entry) return rota_backward_no_memory();
    ROTA_TRY(check_unwritten(tape, tape->uses[u], entry));
    s->all[s->count] = (unshard){.use = u, .first_use = u, .needed = NONE};
    entry->unshard = ++s->count;
    return ROTA_OK;
}

rota_status rota_unshards_open(rota_tape *tape, bool early, rota_unshards **out_unshards) {
    const uint32_t count = count_of(tape);
    *out_unshards = NULL;
    if (!count) return ROTA_OK;
    rota_unshards *s = rota_arena_calloc(&tape->arena, sizeof *s, 8);
    if (!s) return rota_backward_no_memory();
    s->tape = tape;
    s->all = rota_arena_calloc(&tape->arena, count * sizeof *s->all, 8);
    s->needed = rota_arena_calloc(&tape->arena, count * sizeof(unshard *), 8);
    s->finished = rota_arena_calloc(&tape->arena, count * sizeof(unshard *), 8);
    if (!s->all || !s->needed || !s->finished) return rota_backward_no_memory();
    for (uint64_t u = 0; u < tape->use_count; u++) ROTA_TRY(note_use(s, u));
    for (uint32_t i = 0; i < count; i++) {
        if (s->all[i].needed != NONE) s->needed[s->needed_count++] = &s->all[i];
        if (early && s->all[i].first_use != s->all[i].use) s->finished[s->finished_count++] = &s->all[i];
    }
    qsort(s->needed, s->needed_count, sizeof(unshard *), by_need);
    qsort(s->finished, s->finished_count, sizeof(unshard *), by_first_use);
    for (uint32_t i = 0; i < s->needed_count; i++) s->needed[i]->position = i;
    *out_unshards = s;
    return ROTA_OK;
}

const rota_tape_use *rota_unshards_again(const rota_unshards *s, uint32_t index) {
    return s && index < s->needed_count ? s->tape->uses[s->needed[index]->use] : NULL;
}

static rota_status gather_again(rota_unshards *s, unshard *it) {
    rota_tape *tape = s->tape;
    const rota_tape_use *used = tape->uses[it->use];
    rota_op_use use = used->use;
    use.outputs[0] = ROTA_TENSOR_NONE;
    tape->name = used->name;
    tape->op_name = NULL;
    ROTA_TRY(rota_tape_label_of(tape, use.op->name, "_again", &tape->op_name));
    ROTA_TRY(rota_op_apply(tape, &use));
    it->again = rota_tensor_root(&use.outputs[0]);
    rota_tape_buffer *entry = rota_tape_lookup(tape, &use.outputs[0]);
    if (!entry) return rota_backward_no_memory();
    entry->same_as = rota_tensor_root(&used->use.outputs[0]);
    return ROTA_OK;
}

rota_status rota_unshards_read(rota_unshards *s, uint64_t use, rota_tape_use *room,
                               const rota_tape_use **out_used) {
    const rota_tape_use *used = s->tape->uses[use];
    const rota_op_use *own = &used->use;
    *out_used = used;
    if (rota_collective_is_unshard(own)) {
        const rota_tape_buffer *made = rota_tape_lookup(s->tape, &own->outputs[0]);
        if (made && made->unshard && s->all[made->unshard - 1].is_done) *out_used = NULL;
    }
    if (!own->op->saved_inputs || !own->output_count || !rota_dtype_is_real(own->outputs[0].dtype) ||
        !rota_gradient_touched(s->tape, &own->outputs[0]))
        return ROTA_OK;
    for (uint32_t i = 0; i < own->input_count; i++) {
        if (!(own->op->saved_inputs & 1u << i) || !own->inputs[i].buffer) continue;
        const rota_tape_buffer *entry = rota_tape_lookup(s->tape, &own->inputs[i]);
        if (!entry) return rota_backward_no_memory();
        if (!entry->unshard) continue;
        const unshard *it = &s->all[entry->unshard - 1];
        for (uint32_t p = it->position; p < s->needed_count && p <= it->position + AHEAD; p++)
            if (!s->needed[p]->again) ROTA_TRY(gather_again(s, s->needed[p]));
        if (*out_used == used) *room = *used;
        *out_used = room;
        room->use.inputs[i].buffer = it->again;
    }
    return ROTA_OK;
}

const rota_tape_use *rota_unshards_finished(rota_unshards *s, uint64_t use) {
    if (s->next_finished == s->finished_count) return NULL;
    unshard *it = s->finished[s->next_finished];
    if (it->first_use < use) return NULL;
    it->is_done = true;
    s->next_finished++;
    return s->tape->uses[it->use];
}

rota_status rota_unshards_refuse_data_parallel(const rota_unshards *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        const rota_tensor *x = &s->tape->uses[s->all[i].use]->use.inputs[0];
        if (rota_gradient_given(s->tape, x))
            return rota_fail(
                ROTA_INVALID_ARGUMENT,
                "backward: a parameter in buffer '%s' is this rank's shard, whose gradient is that "
                "of all ranks already; expected no data_parallel",
                rota_buffer_name(x->buffer));
    }
    return ROTA_OK;
}
