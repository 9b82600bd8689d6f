/* Inside of a buffer. Internal; not installed. */
#ifndef ROTA_GRAPH_BUFFER_INTERNAL_H
#define ROTA_GRAPH_BUFFER_INTERNAL_H

#include <stdatomic.h>
#include "graph/buffer.h"

/* One cache line, aligned: what recording reads of a buffer is one miss. */
struct rota_buffer {
    _Atomic uint32_t references; /* a graph's buffer, unless a view: unused, the graph's count */
    uint8_t kind;                /* rota_buffer_kind */
    uint8_t is_view : 1;
    uint8_t is_scratch : 1;  /* a graph's: nobody uses bytes that nothing wrote, so no fill of it is run */
    uint8_t is_read_only;    /* nodes and the host only read it: an INPUT, or memory that was adopted so */
    _Atomic uint8_t is_lent; /* a root: the application may touch its memory, or knows where it is */
    union {
        uint64_t graph_key; /* with `graph`: what access records name the root by (rota_graph_buffer_key) */
        struct {            /* PERSISTENT */
            /* Compile scratch of a root: where it stands in the plan being compiled; guarded by checking
             * plan->buffers[i].buffer == this, so that concurrent compiles may overwrite one another. */
            _Atomic uint32_t compile_hint;
            uint32_t number; /* of the root: made as the so-manieth in the process, modulo 2^32 */
        };
    };
    uint64_t size_bytes;
    void *graph;          /* the rota_graph it belongs to; NULL for PERSISTENT */
    rota_buffer *root;    /* itself, or what a view is of (held) */
    uint64_t root_offset; /* of a view */
    const char *name;
    /* PERSISTENT roots of a runtime: a rota_residency, sched's, with memory and valid ranges. It begins with
     * a rota_last_release_fn, which takes the buffer over when its last reference goes (and must free the
     * struct in the end with rota_buffer_free). */
    void *residency;
};
typedef void (*rota_last_release_fn)(rota_buffer *buffer);
_Static_assert(sizeof(rota_buffer) == 64, "a buffer is a cache line");

/* A buffer of a graph's by the lane that it was made in, 0 for the graph's own list, and its number there.
 * Odd, so that it is no address of a buffer. */
static inline uint64_t rota_graph_buffer_key(uint32_t lane, uint32_t index) {
    return (uint64_t)lane << 32 | (uint64_t)index << 1 | 1;
}

/* Frees the struct of a root whose last reference is gone. */
void rota_buffer_free(rota_buffer *buffer);

/* Makes a buffer with one reference; NULL when out of memory. */
rota_buffer *rota_buffer_new(rota_buffer_kind kind, const char *name, uint64_t size_bytes);

#endif
