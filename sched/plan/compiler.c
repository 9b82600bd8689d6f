/* The compiler's working state: buffers and physicals are entered here, whichever step adds them. */
#include "sched/plan/compiler.h"

#include <string.h>
#include "base/atomic.h"
#include "base/hash.h"
#include "base/prefetch.h"

rota_status rota_compile_no_memory(const rota_compiler *compiler) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "compile of graph '%s': no host memory", compiler->graph->name);
}

bool rota_compile_is_unified(const rota_compiler *c, uint32_t part) {
    return c->partitions.device[part] && c->partitions.device[part]->unified_host;
}

/* ---- Buffers ---- */

/* In place: a struct that is returned is copied in other pieces than it was written in, which the processor
 * waits for. */
static inline void set_physical(const rota_compiler *c, rota_physical *out, const rota_buffer *root,
                                uint32_t buffer, uint32_t part) {
    /* To a body, what is of a graph around it is memory from outside. */
    const uint8_t kind = root->graph && root->graph != c->graph ? ROTA_BUFFER_PERSISTENT : root->kind;
    *out = (rota_physical){.buffer = buffer,
                           .first_operation = ROTA_NONE,
                           .last_operation = ROTA_NONE,
                           .part = (uint8_t)part,
                           .kind = kind,
                           .packed = kind != ROTA_BUFFER_PERSISTENT && kind != ROTA_BUFFER_SLOT,
                           .inplace_of = ROTA_NONE,
                           .size_bytes = root->size_bytes};
}

rota_status rota_compile_add_buffers(rota_compiler *c, rota_buffer *list, uint32_t count) {
    if (count == 0) return ROTA_OK; /* and there may be no memory yet */
    if (!rota_vector_reserve(&c->buffers, sizeof(rota_plan_buffer), count) ||
        !rota_vector_reserve(&c->physicals, sizeof(rota_physical), count))
        return rota_compile_no_memory(c);
    const uint32_t first = (uint32_t)c->buffers.count;
    rota_plan_buffer *buffers = (rota_plan_buffer *)c->buffers.data + first;
    for (uint32_t i = 0; i < count; i++) buffers[i].buffer = &list[i];
    c->buffers.count += count;
    if (c->spread.several_parts) return ROTA_OK;
    rota_physical *physicals = ROTA_PHYSICALS(c) + first;
    const uint32_t part = c->partitions.memory[0];
    for (uint32_t i = 0; i < count; i++) set_physical(c, &physicals[i], &list[i], first + i, part);
    c->physicals.count += count;
    return ROTA_OK;
}

rota_status rota_compile_add_buffer(rota_compiler *c, rota_buffer *buffer) {
    if (!rota_vector_reserve(&c->buffers, sizeof(rota_plan_buffer), 1)) return rota_compile_no_memory(c);
    uint32_t index = (uint32_t)c->buffers.count++;
    ((rota_plan_buffer *)c->buffers.data)[index].buffer = buffer;
    if (!c->spread.several_parts && rota_compile_physical(c, index, 0) == ROTA_NONE) {
        c->buffers.count--; /* whoever frees the plan lets go of all that are in it */
        return rota_compile_no_memory(c);
    }
    return ROTA_OK;
}

void rota_compile_free_hash(rota_compiler *c) {
    rota_chunk_free(c->gathering.hash, c->gathering.hash_bytes);
    c->gathering.hash = NULL;
}

static bool grow_hash(rota_compiler *c) {
    /* Of the plan's own buffers many may have come since. */
    const uint32_t entered = (uint32_t)c->buffers.count - c->gathering.graph_buffer_count;
    uint32_t size = 256;
    while (entered >= size / 2) size *= 2;
    size_t grown_bytes;
    uint32_t *grown = rota_chunk_alloc(sizeof *grown * size, &grown_bytes);
    if (!grown) return false;
    memset(grown, 0, sizeof *grown * size);
    rota_compile_free_hash(c);
    c->gathering.hash = grown;
    c->gathering.hash_bytes = grown_bytes;
    c->gathering.hash_mask = size - 1;
    const rota_plan_buffer *buffers = c->buffers.data;
    for (uint32_t i = c->gathering.graph_buffer_count; i < c->buffers.count; i++) {
        uint32_t slot = rota_hash_pointer(buffers[i].buffer) & c->gathering.hash_mask;
        while (grown[slot]) slot = (slot + 1) & c->gathering.hash_mask;
        grown[slot] = i + 1;
    }
    return true;
}

rota_status rota_compile_persistent_index(rota_compiler *c, rota_buffer *buffer, uint32_t *out_index) {
    const rota_plan_buffer *buffers = c->buffers.data;
    /* The hint is only a guess: other compiles overwrite it, and a graph's buffer has its key there. */
    uint32_t hint = ra_load_relaxed(&buffer->compile_hint);
    if (hint < c->buffers.count && buffers[hint].buffer == buffer) {
        *out_index = hint;
        return ROTA_OK;
    }
    uint32_t entered = (uint32_t)c->buffers.count - c->gathering.graph_buffer_count;
    if ((!c->gathering.hash || entered * 2 >= c->gathering.hash_mask) && !grow_hash(c))
        return rota_compile_no_memory(c);
    uint32_t slot = rota_hash_pointer(buffer) & c->gathering.hash_mask;
    while (c->gathering.hash[slot]) {
        *out_index = c->gathering.hash[slot] - 1;
        if (buffers[*out_index].buffer == buffer) return ROTA_OK;
        slot = (slot + 1) & c->gathering.hash_mask;
    }
    *out_index = (uint32_t)c->buffers.count;
    c->gathering.hash[slot] = *out_index + 1;
    if (buffer->graph)
        return rota_compile_add_buffer(c, buffer); /* the hint is another member of a union there */
    rota_buffer_retain(buffer);
    rota_status status = rota_compile_add_buffer(c, buffer);
    if (status != ROTA_OK) {
        rota_buffer_release(buffer);
        return status;
    }
    ra_store_relaxed(&buffer->compile_hint, *out_index);
    return ROTA_OK;
}

void rota_compile_prefetch_persistent(const rota_compiler *c, const rota_buffer *buffer) {
    const uint32_t hint = ra_load_relaxed(&buffer->compile_hint);
    if (hint < c->buffers.count && ((const rota_plan_buffer *)c->buffers.data)[hint].buffer == buffer)
        rota_prefetch(&ROTA_PHYSICALS(c)[hint]);
    else if (c->gathering.hash)
        rota_prefetch(&c->gathering.hash[rota_hash_pointer(buffer) & c->gathering.hash_mask]);
}

rota_status rota_compile_own_buffer(rota_compiler *c, rota_buffer *buffer, uint32_t *out_index) {
    *out_index = (uint32_t)c->buffers.count;
    uint32_t *base = &c->gathering.lane_base[c->graph->lane_count + 1];
    if (!*base) *base = *out_index;
    rota_status status = rota_compile_add_buffer(c, buffer);
    if (status != ROTA_OK) rota_buffer_release(buffer);
    return status;
}

uint64_t rota_compile_own_reference(const rota_compiler *c, uint32_t index) {
    const uint64_t lane = c->graph->lane_count + 1;
    return lane << 32 | (uint64_t)(index - c->gathering.lane_base[lane]) << 1 | 1;
}

uint32_t rota_compile_physical(rota_compiler *c, uint32_t buffer, uint32_t part) {
    uint32_t *known = NULL;
    part = c->partitions.memory[part];
    if (c->spread.several_parts) {
        uint64_t cell = (uint64_t)buffer * c->spread.part_stride + part;
        if (cell >= c->spread.physical_of.count) {
            uint64_t rows = ((uint64_t)buffer + 1) * c->spread.part_stride;
            if (!rota_vector_reserve(&c->spread.physical_of, sizeof(uint32_t),
                                     rows - c->spread.physical_of.count))
                return ROTA_NONE;
            memset((uint32_t *)c->spread.physical_of.data + c->spread.physical_of.count, 0,
                   sizeof(uint32_t) * (size_t)(rows - c->spread.physical_of.count));
            c->spread.physical_of.count = rows;
        }
        known = (uint32_t *)c->spread.physical_of.data + cell;
        if (*known) return *known - 1;
    }
    if (!rota_vector_reserve(&c->physicals, sizeof(rota_physical), 1)) return ROTA_NONE;
    uint32_t index = (uint32_t)c->physicals.count++;
    set_physical(c, &ROTA_PHYSICALS(c)[index], ((rota_plan_buffer *)c->buffers.data)[buffer].buffer, buffer,
                 part);
    if (known) *known = index + 1;
    return index;
}
