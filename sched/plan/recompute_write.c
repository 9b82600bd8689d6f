/* Under a memory limit: what the plan becomes. */
#include "sched/plan/recompute_write.h"

#include <string.h>

#include "graph/buffer_internal.h"
#include "sched/plan/recompute_state.h"

/* The plan's own transient in which a buffer is computed again, or which takes an output that nobody needs.
 */
static rota_status new_buffer(state *s, uint32_t like, uint32_t *out_index) {
    const rota_buffer *root = buffer_at(s, like);
    rota_buffer *buffer = rota_buffer_new(ROTA_BUFFER_TRANSIENT, root->name, root->size_bytes);
    if (!buffer) return rota_compile_no_memory(s->c);
    return rota_compile_own_buffer(s->c, buffer, out_index);
}

static rota_node_record *copy_record(state *s, uint32_t node) {
    const rota_node_record *record = s->records[node];
    rota_node_record *copy = rota_arena_alloc(&s->c->plan->arena, rota_record_bytes(record), 8);
    if (copy) memcpy(copy, record, rota_record_bytes(record));
    return copy;
}

static rota_access_record *accesses_of(rota_node_record *record) {
    return (rota_access_record *)(record + 1);
}

static void rename_access(rota_access_record *access, uint64_t stored) {
    *access = rota_access_record_like(access, stored, ROTA_ACCESS_MODE(access));
}

static rota_status make_clone(state *s, uint32_t node, const rota_node_record **out_clone) {
    const uint32_t before = s->restore[node];
    rota_node_record *clone = copy_record(s, node);
    if (!clone) return rota_compile_no_memory(s->c);
    rota_access_record *accesses = accesses_of(clone);
    for (uint32_t i = 0; i < clone->access_count; i++) {
        const uint32_t buffer = s->buffer_of[s->first_access[node] + i];
        life *l = &s->lives[buffer];
        if (ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ) {
            uint32_t index = l->again;
            if (!l->given_up) ROTA_TRY(new_buffer(s, buffer, &index));
            rename_access(&accesses[i], rota_compile_own_reference(s->c, index));
        } else if (!in_first_life(l, before)) {
            rename_access(&accesses[i], rota_compile_own_reference(s->c, l->again));
        }
    }
    *out_clone = clone;
    return ROTA_OK;
}

/* Uses after the gap go to the buffer that it is computed into again. */
static rota_status redirect(state *s, uint32_t node) {
    const rota_node_record *record = s->records[node];
    rota_node_record *changed = NULL;
    for (uint32_t i = 0; record && i < record->access_count; i++) {
        const life *l = &s->lives[s->buffer_of[s->first_access[node] + i]];
        if (!l->given_up || node < l->late) continue;
        if (!changed) changed = copy_record(s, node);
        if (!changed) return rota_compile_no_memory(s->c);
        rename_access(&accesses_of(changed)[i], rota_compile_own_reference(s->c, l->again));
    }
    if (changed) s->records[node] = changed;
    return ROTA_OK;
}

rota_status rota_recompute_write(state *s, rota_recomputed *out) {
    rota_arena *arena = &s->c->scratch;
    uint32_t count = 0;
    for (uint32_t node = 0; node < s->node_count; node++) count += s->restore[node] != ROTA_NONE;
    out->count = count;
    if (!count) return ROTA_OK;
    out->first = rota_arena_calloc(arena, sizeof(uint32_t) * ((size_t)s->node_count + 3), 8);
    out->nodes = rota_arena_alloc(arena, sizeof(uint32_t) * count, 8);
    out->clones = rota_arena_alloc(arena, sizeof *out->clones * count, 8);
    if (!out->first || !out->nodes || !out->clones) return rota_compile_no_memory(s->c);
    for (uint32_t buffer = 0; buffer < s->buffer_count; buffer++)
        if (s->lives[buffer].given_up) ROTA_TRY(new_buffer(s, buffer, &s->lives[buffer].again));
    for (uint32_t node = 0; node < s->node_count; node++)
        if (s->restore[node] != ROTA_NONE) out->first[s->restore[node] + 2]++;
    for (uint32_t node = 0; node < s->node_count; node++) out->first[node + 2] += out->first[node + 1];
    /* Those before one node in record order, so that they read what earlier ones wrote. */
    for (uint32_t node = 0; node < s->node_count; node++) {
        if (s->restore[node] == ROTA_NONE) continue;
        const uint32_t i = out->first[s->restore[node] + 1]++;
        out->nodes[i] = node;
        ROTA_TRY(make_clone(s, node, &out->clones[i]));
    }
    for (uint32_t node = 0; node < s->node_count; node++) ROTA_TRY(redirect(s, node));
    return ROTA_OK;
}
