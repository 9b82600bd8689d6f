/* Inside of a buffer. Internal; not installed. */
#ifndef ROTA_GRAPH_BUFFER_INTERNAL_H
#define ROTA_GRAPH_BUFFER_INTERNAL_H

#include <stdatomic.h>
#include "graph/buffer.h"

struct rota_buffer {
    _Atomic uint32_t references;
    uint8_t kind; /* rota_buffer_kind */
    uint8_t is_view;
    uint16_t reserved;
    uint32_t lane;  /* of a graph's buffer: the lane it was made in, 0 for the graph's own list ... */
    uint32_t index; /* ... and its number there */
    uint64_t size_bytes;
    uint64_t id;          /* unique in the process, never reused */
    rota_buffer *root;    /* itself, or what a view is of (held) */
    uint64_t root_offset; /* of a view */
    void *graph;          /* the rota_graph it belongs to; NULL for PERSISTENT */
    /* Set by sched on PERSISTENT roots: per-device memory and valid ranges, and the call that takes the
     * buffer over when the last reference goes (it must free the struct in the end with rota_buffer_free). */
    void *residency;
    void (*last_release)(rota_buffer *buffer);
    /* Compile scratch: where the buffer stands in the plan being compiled; guarded by checking
     * plan->buffers[i].buffer == this, so that concurrent compiles may overwrite one another. */
    _Atomic uint32_t compile_hint;
    char name[]; /* NUL-terminated */
};

/* Frees the struct of a root whose last reference is gone. */
void rota_buffer_free(rota_buffer *buffer);

/* Makes a buffer with one reference; NULL when out of memory. */
rota_buffer *rota_buffer_new(rota_buffer_kind kind, const char *name, uint64_t size_bytes);

#endif
