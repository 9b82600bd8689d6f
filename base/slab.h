/* Objects of 64 bytes, side by side. Internal; not installed.
 *
 * Objects that are made one at a time and walked by the thousand (persistent buffers, while a graph is
 * recorded) cost a miss of the cache and one of the address cache each where malloc spreads them over small
 * pages. A slab has them in chunks of up to 2 MiB, in order of address as they are made; the places of freed
 * ones are given again in that order. Chunks are never given back: a slab keeps at most a third more than the
 * most objects that ever lived at once took.
 *
 * With the address sanitizer objects come from malloc, so that it sees their lives. */
#ifndef ROTA_BASE_SLAB_H
#define ROTA_BASE_SLAB_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define ROTA_SLAB_OBJECT_BYTES 64

typedef struct rota_slab_block rota_slab_block;

typedef struct rota_slab {
    _Atomic uint64_t freed; /* objects since the cursor started at the first block */
    pthread_mutex_t mutex;  /* what follows */
    rota_slab_block *first, *last;
    rota_slab_block *cursor;
    uint64_t available; /* of the cursor's block, a bit each: free, and to be given next */
    uint64_t block_count;
    uint8_t *unused, *unused_end; /* part of the newest chunk */
    size_t chunk_bytes;           /* of the newest chunk */
} rota_slab;

/* For storage of static duration. */
#define ROTA_SLAB_INIT                                                                                       \
    { .mutex = PTHREAD_MUTEX_INITIALIZER }

/* 64 bytes, aligned to as many, not cleared; NULL when out of memory. Any thread; may block in malloc.
 * Amortised O(1). */
void *rota_slab_alloc(rota_slab *slab);
/* Any thread; wait-free. NULL is ignored. */
void rota_slab_free(rota_slab *slab, void *object);

#endif
