/* Copies that nobody needs: of a whole transient buffer into another one, of which the one is not read any
 * more when the other is written again. Gradients of a residual stream begin with such a copy. */
#include "ops/fuse_copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ops/kernel_objects.h"

/* What became of a buffer that was copied into. */
typedef struct alias {
    rota_buffer *from, *to;    /* `to` stands in the place of `from` */
    uint64_t last, last_write; /* the last nodes that touch, and write, `to`, also by others' names */
} alias;

typedef struct aliases {
    alias *entries; /* open addressing, by `from`; a power of two */
    uint64_t capacity, count;
} aliases;

static alias *entry_of(const aliases *a, const rota_buffer *buffer) {
    uint64_t i = rota_hash_pointer(buffer) & (a->capacity - 1);
    while (a->entries[i].from && a->entries[i].from != buffer) i = (i + 1) & (a->capacity - 1);
    return &a->entries[i];
}

/* No more than half of the entries are ever taken: each copy makes one. */
static bool make_aliases(aliases *a, uint64_t copies) {
    a->capacity = 16;
    while (a->capacity < 2 * (copies + 1)) a->capacity *= 2;
    a->entries = calloc(a->capacity, sizeof *a->entries);
    return a->entries != NULL;
}

static bool is_whole(const rota_rewriter *rewriter, const rota_access *access) {
    return rota_rewriter_owns(rewriter, access->buffer) && access->offset_bytes == 0 &&
           access->size_bytes == rota_buffer_size(access->buffer);
}

/* A plain copy, byte by byte, of one whole transient buffer into another. */
static bool is_copy(const rota_rewriter *rewriter, const rota_node_view *view) {
    if (view->kernel != &rota_kernel_copy_strided || view->ordered) return false;
    const rota_copy_strided_params *p = view->params;
    const int last = ROTA_KERNEL_DIMS - 1;
    return p->flags == 0 && p->shape[last] == p->count && p->x_stride[last] == 1 && p->y_stride[last] == 1 &&
           p->x_offset == 0 && p->y_offset == 0 && is_whole(rewriter, &view->accesses[0]) &&
           is_whole(rewriter, &view->accesses[1]) && view->accesses[1].mode == ROTA_WRITE &&
           view->accesses[0].size_bytes == view->accesses[1].size_bytes;
}

/* What is known of a buffer that nothing was copied into. */
static alias itself(const rota_fuse_index *index, rota_buffer *buffer) {
    alias own = {.from = buffer, .to = buffer};
    for (const rota_fuse_touch *t = rota_fuse_index_first(index, buffer); t;
         t = rota_fuse_index_next(index, t)) {
        own.last = t->node;
        if (t->access.mode != ROTA_READ) own.last_write = t->node;
    }
    return own;
}

/* Whether `to`, which the copy at `position` begins, can be `root`: nobody writes that from there on, or
 * reads it once `to` is written. *out_root: what root is then. */
static bool may_stand_for(const rota_fuse_index *index, const rota_buffer *to, uint64_t position,
                          const alias *root, alias *out_root) {
    *out_root = *root;
    if (root->last_write >= position) return false;
    for (const rota_fuse_touch *t = rota_fuse_index_first(index, to); t; t = rota_fuse_index_next(index, t)) {
        if (t->node < position || (t->node > position && !t->kernel)) return false;
        if (t->node == position) continue;
        if (t->access.mode != ROTA_READ && t->node <= root->last) return false;
        if (t->access.mode != ROTA_READ) out_root->last_write = t->node;
        if (t->node > out_root->last) out_root->last = t->node;
    }
    return true;
}

rota_status rota_fuse_with_accesses(rota_rewriter *rewriter, uint64_t n, const rota_node_view *view,
                                    const rota_access *accesses) {
    uint64_t params[ROTA_KERNEL_PARAM_BYTES_MAX / 8];
    rota_param_binding bindings[ROTA_KERNEL_BINDABLE_MAX];
    if (view->kernel->param_bytes) memcpy(params, view->params, view->kernel->param_bytes);
    if (view->binding_count) memcpy(bindings, view->bindings, sizeof *bindings * view->binding_count);
    return rota_rewriter_replace(
        rewriter, n,
        &ROTA_KERNEL_NODE(.kernel = view->kernel, .name = view->name, .accesses = accesses,
                          .access_count = view->access_count, .params = params, .bindings = bindings,
                          .binding_count = view->binding_count,
                          .groups = {view->groups[0], view->groups[1], view->groups[2]},
                          .placement = view->placement));
}

/* Node n with the buffers that its own became. */
static rota_status replace_buffers(rota_rewriter *rewriter, const aliases *a, uint64_t n) {
    rota_node_view view = ROTA_NODE_VIEW();
    ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
    if (!view.kernel)
        return ROTA_OK; /* whose buffers stay (may_stand_for), and may be more than a kernel's */
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    bool changed = false;
    for (uint32_t i = 0; i < view.access_count; i++) {
        accesses[i] = view.accesses[i];
        const alias *found = entry_of(a, accesses[i].buffer);
        if (!found->from || found->to == found->from) continue;
        accesses[i].buffer = found->to;
        changed = true;
    }
    return changed ? rota_fuse_with_accesses(rewriter, n, &view, accesses) : ROTA_OK;
}

/* Removes the copies that can go, and says which buffer stands for which. */
static rota_status drop_copies(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t count,
                               aliases *a) {
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (!is_copy(rewriter, &view)) continue;
        rota_buffer *from = view.accesses[0].buffer, *to = view.accesses[1].buffer;
        alias *source = entry_of(a, from);
        if (!source->from) *source = itself(index, from);
        alias *root = entry_of(a, source->to);
        alias larger;
        if (!may_stand_for(index, to, n, root, &larger)) continue;
        /* Nothing touches `to` before the copy: of many copies into one buffer only the first comes here. */
        const rota_fuse_touch *next = rota_fuse_index_first(index, to);
        while (next && next->node <= n) next = rota_fuse_index_next(index, next);
        if (!next) continue;
        *root = larger;
        *entry_of(a, to) = (alias){.from = to, .to = root->to};
        ROTA_TRY(rota_rewriter_merge(rewriter, n, next->node));
        a->count++;
    }
    return ROTA_OK;
}

rota_status rota_fuse_copies(rota_rewriter *rewriter, const rota_fuse_index *index) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    uint64_t copies = 0;
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        copies += is_copy(rewriter, &view);
    }
    if (copies == 0) return ROTA_OK;
    aliases a = {0};
    if (!make_aliases(&a, 2 * copies)) return rota_fail(ROTA_OUT_OF_MEMORY, "fusion: no host memory");
    rota_status status = drop_copies(rewriter, index, count, &a);
    for (uint64_t n = 0; n < count && status == ROTA_OK && a.count; n++)
        status = replace_buffers(rewriter, &a, n);
    free(a.entries);
    return status;
}
