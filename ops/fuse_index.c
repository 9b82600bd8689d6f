/* Which nodes of a graph touch a buffer, for patterns that look beyond neighbours. */
#include "ops/fuse_index.h"

#include <stdlib.h>
#include "base/hash.h"

/* Accesses of one buffer that a pattern looks at: more, and what it looks for is not there. */
#define LOOKS_MAX 64u

static struct rota_fuse_chain *chain_of(const rota_fuse_index *index, const rota_buffer *buffer) {
    uint64_t i = rota_hash_pointer(buffer) & (index->chain_capacity - 1);
    while (index->chains[i].buffer && index->chains[i].buffer != buffer)
        i = (i + 1) & (index->chain_capacity - 1);
    return &index->chains[i];
}

static bool grow_chains(rota_fuse_index *index) {
    rota_fuse_index larger = {.chain_capacity = index->chain_capacity ? 2 * index->chain_capacity : 1024};
    larger.chains = calloc(larger.chain_capacity, sizeof *larger.chains);
    if (!larger.chains) return false;
    for (uint64_t i = 0; i < index->chain_capacity; i++)
        if (index->chains[i].buffer) *chain_of(&larger, index->chains[i].buffer) = index->chains[i];
    free(index->chains);
    index->chains = larger.chains;
    index->chain_capacity = larger.chain_capacity;
    return true;
}

static bool add(rota_fuse_index *index, uint64_t node, const rota_access *access, bool kernel) {
    if (2 * (index->chain_count + 1) > index->chain_capacity && !grow_chains(index)) return false;
    if (index->count == index->capacity) {
        const uint64_t capacity = index->capacity ? 2 * index->capacity : 1024;
        void *grown =
            capacity > UINT32_MAX ? NULL : realloc(index->touches, capacity * sizeof *index->touches);
        if (!grown) return false;
        index->touches = grown;
        index->capacity = capacity;
    }
    index->touches[index->count++] = (rota_fuse_touch){.access = *access, .node = node, .kernel = kernel};
    struct rota_fuse_chain *chain = chain_of(index, access->buffer);
    if (!chain->buffer) {
        *chain = (struct rota_fuse_chain){access->buffer, (uint32_t)index->count, 0};
        index->chain_count++;
    } else {
        index->touches[chain->last - 1].next = (uint32_t)index->count;
    }
    chain->last = (uint32_t)index->count;
    return true;
}

rota_status rota_fuse_index_make(rota_rewriter *rewriter, rota_fuse_index *out_index) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    *out_index = (rota_fuse_index){0};
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        for (uint32_t i = 0; i < view.access_count; i++)
            if (!add(out_index, n, &view.accesses[i], view.kernel && !view.ordered))
                return rota_fail(ROTA_OUT_OF_MEMORY, "fusion: no host memory for the accesses of %llu nodes",
                                 (unsigned long long)count);
    }
    return ROTA_OK;
}

void rota_fuse_index_free(rota_fuse_index *index) {
    free(index->touches);
    free(index->chains);
    *index = (rota_fuse_index){0};
}

const rota_fuse_touch *rota_fuse_index_first(const rota_fuse_index *index, const rota_buffer *buffer) {
    const uint32_t first = index->chain_capacity ? chain_of(index, buffer)->first : 0;
    return first ? &index->touches[first - 1] : NULL;
}

const rota_fuse_touch *rota_fuse_index_of(const rota_fuse_index *index, const rota_buffer *buffer,
                                          uint64_t n) {
    uint64_t first = 0, end = index->count;
    while (first < end) { /* they were added in the order of nodes */
        const uint64_t middle = first + (end - first) / 2;
        if (index->touches[middle].node < n)
            first = middle + 1;
        else
            end = middle;
    }
    for (; first < index->count && index->touches[first].node == n; first++)
        if (index->touches[first].access.buffer == buffer) return &index->touches[first];
    return NULL;
}

const rota_fuse_touch *rota_fuse_index_next(const rota_fuse_index *index, const rota_fuse_touch *touch) {
    return touch->next ? &index->touches[touch->next - 1] : NULL;
}

bool rota_fuse_only_reader(const rota_rewriter *rewriter, const rota_fuse_index *index,
                           const rota_access *access, uint64_t from, uint64_t *out_reader) {
    const rota_fuse_touch *writer = rota_fuse_index_first(index, access->buffer),
                          *reader = writer ? rota_fuse_index_next(index, writer) : NULL;
    if (!rota_rewriter_owns(rewriter, access->buffer) || !reader || rota_fuse_index_next(index, reader) ||
        writer->node != from || !reader->kernel || reader->access.mode != ROTA_READ ||
        !rota_fuse_same_range(&reader->access, access))
        return false;
    *out_reader = reader->node;
    return true;
}

bool rota_fuse_begins_with(const rota_rewriter *rewriter, const rota_fuse_index *index,
                           const rota_access *result, uint64_t node) {
    const rota_fuse_touch *first = rota_fuse_index_first(index, result->buffer);
    return rota_rewriter_owns(rewriter, result->buffer) && first && first->node == node;
}

bool rota_fuse_stays(const rota_fuse_index *index, const rota_access *access, uint64_t from, uint64_t to) {
    const rota_fuse_touch *t = rota_fuse_index_first(index, access->buffer);
    for (uint32_t looks = 0; t && t->node <= to; t = rota_fuse_index_next(index, t)) {
        if (++looks > LOOKS_MAX) return false;
        if (t->node >= from && t->access.mode != ROTA_READ && rota_fuse_overlap(&t->access, access))
            return false;
    }
    return true;
}
