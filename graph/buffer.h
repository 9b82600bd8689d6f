/* Buffers: named byte ranges whose identity, and whose address on each device, never change in their life.
 *
 * Kinds:
 *
 * - PERSISTENT: the runtime's; lives across replays (parameters, optimizer state). Made by
 *   rota_buffer_create_in (sched/runtime.h), or by rota_buffer_create with no runtime for graphs that are only
 *   compiled, never run.
 *
 * - INPUT: host memory given at each replay; read-only for nodes. The host memory is borrowed until the
 *   ticket's inputs-taken point, or copied at submit on request.
 *
 * - OUTPUT: host memory given at each replay, written before the ticket completes.
 *
 * - TRANSIENT: lives inside one replay; may share memory with other transients. Contents are undefined until
 *   written in that replay.
 *
 * - SLOT: a place to which a PERSISTENT buffer is bound at each replay (rota_args_set_buffer).
 *
 * INPUT, OUTPUT, TRANSIENT and SLOT buffers belong to one graph and are made by rota_graph_buffer.
 *
 * A buffer is reference-counted. Views hold their allocation; a graph holds the buffers of its nodes; a plan
 * holds its persistent buffers, and what is in flight holds them too: releasing the last reference while a
 * device still uses the memory is legal, the memory goes back once the last use's timeline value has passed.
 */
#ifndef ROTA_GRAPH_BUFFER_H
#define ROTA_GRAPH_BUFFER_H

#include <stdint.h>
#include "../base/status.h"

typedef struct rota_buffer rota_buffer;

typedef enum rota_buffer_kind {
    ROTA_BUFFER_PERSISTENT,
    ROTA_BUFFER_INPUT,
    ROTA_BUFFER_OUTPUT,
    ROTA_BUFFER_TRANSIENT,
    ROTA_BUFFER_SLOT,
    ROTA_BUFFER_KIND_COUNT
} rota_buffer_kind;

/* Every buffer starts at an address with at least this alignment on every device, in bytes; but one whose memory is
 * the application's there may start at any multiple of ROTA_ADOPT_ALIGNMENT (sched/embed_memory.h). */
#define ROTA_BUFFER_ALIGNMENT 256

/* Largest size of one buffer, in bytes. */
#define ROTA_BUFFER_SIZE_MAX ((uint64_t)1 << 46)

/* A PERSISTENT buffer with no runtime. `name` is copied (NULL: unnamed). The caller owns one reference. May
 * block in malloc. INVALID_ARGUMENT: size 0 or above ROTA_BUFFER_SIZE_MAX. */
ROTA_API rota_status rota_buffer_create(const char *name, uint64_t size_bytes, rota_buffer **out_buffer);

/* The part [offset, offset + size) of `parent` as a buffer of its own, which holds a reference to the
 * allocation. A view of a view is a view of the root. The caller owns one reference. Any thread; may block in
 * malloc. OUT_OF_RANGE names both sizes. */
ROTA_API rota_status rota_buffer_create_view(rota_buffer *parent, uint64_t offset_bytes, uint64_t size_bytes,
                                             rota_buffer **out_view);

/* One reference more / one less. Any thread. Retain is wait-free. Release of a PERSISTENT buffer or a view of
 * one is lock-free, and when it drops the last reference it hands the memory to the runtime's reclaimer
 * without waiting for any device; after the runtime was closed the last release frees, which may block in
 * malloc. A reference to a graph's buffer or to a view of one holds the graph: see rota_graph_release. NULL
 * is ignored. */
ROTA_API void rota_buffer_retain(rota_buffer *buffer);
ROTA_API void rota_buffer_release(rota_buffer *buffer);

/* Constant properties; wait-free. The name is never NULL ("" when unnamed) and lives as long as the buffer.
 */
ROTA_API const char *rota_buffer_name(const rota_buffer *buffer);
ROTA_API uint64_t rota_buffer_size(const rota_buffer *buffer);
ROTA_API rota_buffer_kind rota_buffer_get_kind(const rota_buffer *buffer);

/* "PERSISTENT" and so on. Static storage. */
ROTA_API const char *rota_buffer_kind_name(rota_buffer_kind kind);

#endif
