/* Buffers: identity, views, references. */
#include "graph/buffer_internal.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "graph/graph_internal.h"

static _Atomic uint64_t next_id = 1;

const char *rota_buffer_kind_name(rota_buffer_kind kind) {
    static const char *const names[ROTA_BUFFER_KIND_COUNT] = {"PERSISTENT", "INPUT", "OUTPUT", "TRANSIENT",
                                                              "SLOT"};
    return (unsigned)kind < ROTA_BUFFER_KIND_COUNT ? names[kind] : "UNKNOWN";
}

rota_buffer *rota_buffer_new(rota_buffer_kind kind, const char *name, uint64_t size_bytes) {
    size_t name_bytes = name ? strlen(name) + 1 : 1;
    rota_buffer *buffer = calloc(1, sizeof *buffer + name_bytes);
    if (!buffer) return NULL;
    atomic_init(&buffer->references, 1);
    buffer->kind = (uint8_t)kind;
    buffer->size_bytes = size_bytes;
    buffer->id = ra_fetch_add_relaxed(&next_id, 1);
    buffer->root = buffer;
    if (name) memcpy(buffer->name, name, name_bytes);
    return buffer;
}

void rota_buffer_free(rota_buffer *buffer) {
    free(buffer);
}

rota_status rota_buffer_create(const char *name, uint64_t size_bytes, rota_buffer **out_buffer) {
    *out_buffer = NULL;
    if (size_bytes == 0 || size_bytes > ROTA_BUFFER_SIZE_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s': size %llu bytes, expected 1 to %llu",
                         name ? name : "", (unsigned long long)size_bytes,
                         (unsigned long long)ROTA_BUFFER_SIZE_MAX);
    *out_buffer = rota_buffer_new(ROTA_BUFFER_PERSISTENT, name, size_bytes);
    if (!*out_buffer) return rota_fail(ROTA_OUT_OF_MEMORY, "buffer '%s': no host memory", name ? name : "");
    return ROTA_OK;
}

rota_status rota_buffer_view(rota_buffer *parent, uint64_t offset_bytes, uint64_t size_bytes,
                             rota_buffer **out_view) {
    *out_view = NULL;
    if (size_bytes == 0 || offset_bytes > parent->size_bytes ||
        size_bytes > parent->size_bytes - offset_bytes)
        return rota_fail(ROTA_OUT_OF_RANGE, "view of buffer '%s': bytes [%llu, +%llu) of %llu",
                         parent->root->name, (unsigned long long)offset_bytes, (unsigned long long)size_bytes,
                         (unsigned long long)parent->size_bytes);
    rota_buffer *view = rota_buffer_new((rota_buffer_kind)parent->kind, parent->root->name, size_bytes);
    if (!view)
        return rota_fail(ROTA_OUT_OF_MEMORY, "view of buffer '%s': no host memory", parent->root->name);
    view->is_view = 1;
    view->root = parent->root;
    view->root_offset = parent->root_offset + offset_bytes;
    view->graph = parent->graph;
    view->lane = parent->root->lane;
    view->index = parent->root->index;
    rota_buffer_retain(view->root);
    *out_view = view;
    return ROTA_OK;
}

void rota_buffer_retain(rota_buffer *buffer) {
    if (!buffer) return;
    /* A buffer of a graph lives as the graph does: its references are the graph's. */
    if (buffer->graph && !buffer->is_view)
        rota_graph_retain(buffer->graph);
    else
        (void)ra_fetch_add_relaxed(&buffer->references, 1);
}

void rota_buffer_release(rota_buffer *buffer) {
    while (buffer) {
        if (buffer->graph && !buffer->is_view) {
            rota_graph_release(buffer->graph);
            return;
        }
        /* acq_rel: the release half publishes this thread's use, the acquire half lets the last one see all
         * others'. */
        if (ra_fetch_sub_acq_rel(&buffer->references, 1) != 1) return;
        rota_buffer *root = buffer->is_view ? buffer->root : NULL;
        if (!buffer->is_view && buffer->last_release)
            buffer->last_release(buffer);
        else
            rota_buffer_free(buffer);
        buffer = root;
    }
}

const char *rota_buffer_name(const rota_buffer *buffer) {
    return buffer->name;
}
uint64_t rota_buffer_size(const rota_buffer *buffer) {
    return buffer->size_bytes;
}
rota_buffer_kind rota_buffer_get_kind(const rota_buffer *buffer) {
    return (rota_buffer_kind)buffer->kind;
}
