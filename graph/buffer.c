/* Buffers: identity, views, references. */
#include "graph/buffer_internal.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/given.h"
#include "base/slab.h"
#include "graph/graph.h"

static _Atomic uint32_t next_number;
static rota_slab buffer_slab = ROTA_SLAB_INIT; /* all but the graphs' own */

const char *rota_buffer_kind_name(rota_buffer_kind kind) {
    static const char *const names[ROTA_BUFFER_KIND_COUNT] = {"PERSISTENT", "INPUT", "OUTPUT", "TRANSIENT",
                                                              "SLOT"};
    return (unsigned)kind < ROTA_BUFFER_KIND_COUNT ? names[kind] : "UNKNOWN";
}

static rota_buffer *new_buffer(rota_buffer_kind kind, const char *name, uint64_t size_bytes) {
    rota_buffer *buffer = rota_slab_alloc(&buffer_slab);
    if (!buffer) return NULL;
    memset(buffer, 0, sizeof *buffer);
    atomic_init(&buffer->references, 1);
    buffer->kind = (uint8_t)kind;
    buffer->is_read_only = kind == ROTA_BUFFER_INPUT;
    buffer->size_bytes = size_bytes;
    buffer->root = buffer;
    buffer->name = name;
    return buffer;
}

rota_buffer *rota_buffer_new(rota_buffer_kind kind, const char *name, uint64_t size_bytes) {
    char *copy = name && *name ? strdup(name) : NULL;
    rota_buffer *buffer = !name || !*name || copy ? new_buffer(kind, copy ? copy : "", size_bytes) : NULL;
    if (!buffer) free(copy);
    return buffer;
}

void rota_buffer_free(rota_buffer *buffer) {
    if (!buffer->is_view && *buffer->name) free((char *)(uintptr_t)buffer->name); /* rota_buffer_new's copy */
    rota_slab_free(&buffer_slab, buffer);
}

rota_status rota_buffer_create(const char *name, uint64_t size_bytes, rota_buffer **out_buffer) {
    ROTA_GIVEN(out_buffer);
    *out_buffer = NULL;
    if (size_bytes == 0 || size_bytes > ROTA_BUFFER_SIZE_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s': size %llu bytes, expected 1 to %llu",
                         name ? name : "", (unsigned long long)size_bytes,
                         (unsigned long long)ROTA_BUFFER_SIZE_MAX);
    *out_buffer = rota_buffer_new(ROTA_BUFFER_PERSISTENT, name, size_bytes);
    if (!*out_buffer) return rota_fail(ROTA_OUT_OF_MEMORY, "buffer '%s': no host memory", name ? name : "");
    (*out_buffer)->number = ra_fetch_add_relaxed(&next_number, 1);
    return ROTA_OK;
}

rota_status rota_buffer_create_view(rota_buffer *parent, uint64_t offset_bytes, uint64_t size_bytes,
                                    rota_buffer **out_view) {
    ROTA_GIVEN(parent);
    ROTA_GIVEN(out_view);
    *out_view = NULL;
    if (size_bytes == 0 || offset_bytes > parent->size_bytes ||
        size_bytes > parent->size_bytes - offset_bytes)
        return rota_fail(ROTA_OUT_OF_RANGE, "view of buffer '%s': bytes [%llu, +%llu) of %llu",
                         parent->root->name, (unsigned long long)offset_bytes, (unsigned long long)size_bytes,
                         (unsigned long long)parent->size_bytes);
    /* The name is the root's, which the view holds: what a release frees may be no more than the slab's
     * place. */
    rota_buffer *view = new_buffer((rota_buffer_kind)parent->kind, parent->root->name, size_bytes);
    if (!view)
        return rota_fail(ROTA_OUT_OF_MEMORY, "view of buffer '%s': no host memory", parent->root->name);
    view->is_view = 1;
    view->is_read_only = parent->is_read_only;
    view->root = parent->root;
    view->root_offset = parent->root_offset + offset_bytes;
    view->graph = parent->graph;
    if (view->graph)
        view->graph_key = parent->graph_key;
    else
        view->number = parent->number;
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
        if (!buffer->is_view && buffer->residency)
            (*(rota_last_release_fn *)buffer->residency)(buffer);
        else
            rota_buffer_free(buffer);
        buffer = root;
    }
}

const char *rota_buffer_name(const rota_buffer *buffer) {
    return buffer ? buffer->name : "";
}
uint64_t rota_buffer_size(const rota_buffer *buffer) {
    return buffer ? buffer->size_bytes : 0;
}
rota_buffer_kind rota_buffer_get_kind(const rota_buffer *buffer) {
    return buffer ? (rota_buffer_kind)buffer->kind : ROTA_BUFFER_KIND_COUNT;
}
