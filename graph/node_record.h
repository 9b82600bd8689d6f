/* A node as its lane has it: header, accesses, bindings, parameters. Internal; not installed. */
#ifndef ROTA_GRAPH_NODE_RECORD_H
#define ROTA_GRAPH_NODE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "graph/buffer.h"
#include "graph/graph.h"

typedef enum rota_node_kind {
    ROTA_NODE_KERNEL,
    ROTA_NODE_COPY, /* access 0 destination, access 1 source; the count's, if it is counted */
    ROTA_NODE_FILL,
    ROTA_NODE_HOST,
    ROTA_NODE_CONDITIONAL /* accesses as conditional.c inferred them */
} rota_node_kind;

/* A recorded access. Buffers of the graph are stored by lane and index, so that compile need not touch the
 * buffer objects; PERSISTENT ones by pointer. Made by rota_access_record_of, and read by the functions below. */
typedef struct rota_access_record {
    /* rota_graph_buffer_key of a graph's, else the root rota_buffer's address, which is even, plus ROTA_ACCESS_OUTER
     * where that is a buffer of a graph that the node's graph is a body within; in the two highest bits the mode. */
    uint64_t buffer_mode;
    uint64_t
        range; /* offset in the root << 32 | size; or, with the highest bit, the address of a rota_wide_range */
} rota_access_record;
_Static_assert(sizeof(rota_access_record) == 16, "a graph has some three for each node");

/* Bytes from 2 GiB on, or 4 GiB of them and more: beside the records, and as long as they live. */
typedef struct rota_wide_range {
    uint64_t offset_bytes, size_bytes;
} rota_wide_range;

enum { ROTA_ACCESS_MODE_SHIFT = 62 };
#define ROTA_ACCESS_WIDE ((uint64_t)1 << 63)
#define ROTA_ACCESS_OUTER ((uint64_t)2)
/* Held by the lane: neither the graph's nor an outer one's. */
#define ROTA_ACCESS_IS_PERSISTENT(stored) (((stored) & (1 | ROTA_ACCESS_OUTER)) == 0)
/* The buffer of what is no key. */
#define ROTA_ACCESS_BUFFER(stored) ((rota_buffer *)(uintptr_t)((stored) & ~ROTA_ACCESS_OUTER))

/* How it names its buffer. */
static inline uint64_t rota_access_stored(const rota_access_record *access) {
    return access->buffer_mode & (((uint64_t)1 << ROTA_ACCESS_MODE_SHIFT) - 1);
}
static inline rota_access_mode rota_access_mode_of(const rota_access_record *access) {
    return (rota_access_mode)(access->buffer_mode >> ROTA_ACCESS_MODE_SHIFT);
}
static inline const rota_wide_range *rota_access_wide(const rota_access_record *access) {
    return (const rota_wide_range *)(uintptr_t)(access->range & ~ROTA_ACCESS_WIDE);
}
static inline uint64_t rota_access_offset(const rota_access_record *access) {
    return __builtin_expect(access->range >= ROTA_ACCESS_WIDE, 0) ? rota_access_wide(access)->offset_bytes
                                                                  : access->range >> 32;
}
static inline uint64_t rota_access_size(const rota_access_record *access) {
    return __builtin_expect(access->range >= ROTA_ACCESS_WIDE, 0) ? rota_access_wide(access)->size_bytes
                                                                  : (uint32_t)access->range;
}
#define ROTA_ACCESS_OFFSET(record) rota_access_offset(record)
#define ROTA_ACCESS_MODE(record) rota_access_mode_of(record)

static inline bool rota_access_is_wide(uint64_t offset_bytes, uint64_t size_bytes) {
    return (offset_bytes >> 31 | size_bytes >> 32) != 0;
}
/* `wide`: room for such a range, which holds it then; NULL: it is none (rota_access_is_wide). */
static inline rota_access_record rota_access_record_of(uint64_t stored, uint64_t offset_bytes,
                                                       uint64_t size_bytes, rota_access_mode mode,
                                                       rota_wide_range *wide) {
    if (wide) *wide = (rota_wide_range){offset_bytes, size_bytes};
    return (rota_access_record){stored | (uint64_t)mode << ROTA_ACCESS_MODE_SHIFT,
                                wide ? (uint64_t)(uintptr_t)wide | ROTA_ACCESS_WIDE
                                     : offset_bytes << 32 | size_bytes};
}
/* The same bytes of another buffer, or accessed otherwise. */
static inline rota_access_record rota_access_record_like(const rota_access_record *access, uint64_t stored,
                                                         rota_access_mode mode) {
    return (rota_access_record){stored | (uint64_t)mode << ROTA_ACCESS_MODE_SHIFT, access->range};
}

/* Header of a node record; followed by accesses, then bindings, then parameters. */
typedef struct rota_node_record {
    uint16_t record_words : 14;    /* of 8 bytes, of all of it (rota_record_words) */
    uint16_t is_counted : 1;       /* a kernel or a copy: its last access is a 4-byte count (counted.h) */
    uint16_t may_be_on_device : 1; /* a host node, whose `later` is a rota_host_on_device's `host` */
    uint16_t queue_plus_1;
    uint8_t access_count;
    uint8_t device_plus_1;
    uint8_t kind : 3; /* rota_node_kind */
    uint8_t binding_count : 5;
    uint8_t param_words; /* of 4 bytes */
    const char *name;    /* NULL: the kernel's, or the kind's */
    union {
        struct {
            const rota_kernel *kernel;
            uint32_t groups[3]; /* of a counted one: of rota_count items_per_group, bindable_plus_1; and 0 */
            uint32_t count_max;
        } kernel;
        struct {
            uint64_t unit_bytes; /* of one that is counted */
            uint32_t count_max;
        } copy;
        struct {
            uint32_t pattern;
        } fill;
        struct {
            rota_host_fn fn;
            void *user;
            const rota_host_later *later; /* in the place of fn */
        } host;
        const struct rota_conditional *conditional; /* conditional_internal.h */
    } u;
} rota_node_record;
/* There is one for each node, which recording writes and compiling reads. */
_Static_assert(sizeof(void *) != 8 || sizeof(rota_node_record) == 40, "no more than it needs");
_Static_assert(ROTA_KERNEL_PARAM_BYTES_MAX / 4 <= UINT8_MAX && ROTA_KERNEL_BINDABLE_MAX < 32,
               "its bits suffice");

/* Bytes of a record, a multiple of 8. The largest are those of nodes that decide: some 16 KiB. */
static inline uint32_t rota_record_words(size_t bytes) {
    return (uint32_t)(bytes / 8);
}
static inline size_t rota_record_bytes(const rota_node_record *node) {
    return (size_t)node->record_words * 8;
}
static inline uint32_t rota_node_param_bytes(const rota_node_record *node) {
    return (uint32_t)node->param_words * 4;
}

/* Of one that is counted. */
static inline uint32_t rota_node_count_max(const rota_node_record *node) {
    return node->kind == ROTA_NODE_COPY ? node->u.copy.count_max : node->u.kernel.count_max;
}

static inline const rota_access_record *rota_node_accesses(const rota_node_record *node) {
    return (const rota_access_record *)(node + 1);
}
static inline const rota_param_binding *rota_node_bindings(const rota_node_record *node) {
    return (const rota_param_binding *)(rota_node_accesses(node) + node->access_count);
}
static inline const void *rota_node_params(const rota_node_record *node) {
    return rota_node_bindings(node) + node->binding_count;
}

#endif
