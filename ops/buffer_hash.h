/* Where tables of buffers begin to look for one. Internal; not installed. */
#ifndef ROTA_OPS_BUFFER_HASH_H
#define ROTA_OPS_BUFFER_HASH_H

#include <stdint.h>
#include "graph/buffer.h"

/* By address: objects lie cache lines apart, and the product spreads over its upper bits alone. */
static inline uint64_t rota_buffer_hash(const rota_buffer *buffer) {
    return (((uint64_t)(uintptr_t)buffer >> 6) * UINT64_C(0x9E3779B97F4A7C15)) >> 20;
}

#endif
