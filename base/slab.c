/* Objects of 64 bytes in blocks of a page: a word that says which are free, and 63 objects. */
#include "base/slab.h"

#include <stdlib.h>
#include "base/arena.h"
#include "base/atomic.h"

#ifdef __SANITIZE_ADDRESS__

void *rota_slab_alloc(rota_slab *slab) {
    (void)slab;
    return aligned_alloc(ROTA_SLAB_OBJECT_BYTES, ROTA_SLAB_OBJECT_BYTES);
}

void rota_slab_free(rota_slab *slab, void *object) {
    (void)slab;
    free(object);
}

#else

enum { BLOCK_BYTES = 4096, CHUNK_MAX_BYTES = 2 << 20 };
enum { OBJECTS = BLOCK_BYTES / ROTA_SLAB_OBJECT_BYTES };

/* At the start of a block, in the place of object 0. */
struct rota_slab_block {
    _Atomic uint64_t free; /* bit i: object i was freed */
    rota_slab_block *next;
};
_Static_assert(sizeof(rota_slab_block) <= ROTA_SLAB_OBJECT_BYTES && OBJECTS == 64, "a bit for each object");

/* With the mutex held: the cursor on a new block, all of whose objects are free. */
static int add_block(rota_slab *slab) {
    if (slab->unused == slab->unused_end) {
        size_t bytes = slab->chunk_bytes ? slab->chunk_bytes * 2 : BLOCK_BYTES, usable;
        if (bytes > CHUNK_MAX_BYTES) bytes = CHUNK_MAX_BYTES;
        uint8_t *chunk = rota_chunk_alloc(bytes, &usable);
        if (!chunk) return 0;
        slab->unused = chunk;
        slab->unused_end = chunk + usable;
        slab->chunk_bytes = usable;
    }
    rota_slab_block *block = (rota_slab_block *)(void *)slab->unused;
    slab->unused += BLOCK_BYTES;
    atomic_init(&block->free, 0);
    block->next = NULL;
    if (slab->last)
        slab->last->next = block;
    else
        slab->first = block;
    slab->last = slab->cursor = block;
    slab->block_count++;
    slab->available = ~(uint64_t)1;
    return 1;
}

/* With the mutex held: the cursor on the next block with free objects. It starts over only when a quarter of
 * all objects were freed since it last did, which pays for the way. */
static int advance(rota_slab *slab) {
    while (!slab->available) {
        rota_slab_block *next = slab->cursor ? slab->cursor->next : NULL;
        if (!next) {
            uint64_t freed = ra_load_relaxed(&slab->freed);
            if (freed < slab->block_count * (OBJECTS / 4) || freed == 0) return add_block(slab);
            (void)ra_fetch_add_relaxed(&slab->freed, 0 - freed);
            next = slab->first;
        }
        slab->cursor = next;
        /* Acquire pairs with rota_slab_free: the last use of an object is before its next. */
        slab->available = ra_exchange_acq_rel(&next->free, 0);
    }
    return 1;
}

void *rota_slab_alloc(rota_slab *slab) {
    void *object = NULL;
    (void)pthread_mutex_lock(&slab->mutex);
    if (advance(slab)) {
        uint32_t index = (uint32_t)__builtin_ctzll(slab->available);
        slab->available &= slab->available - 1;
        object = (uint8_t *)slab->cursor + (size_t)index * ROTA_SLAB_OBJECT_BYTES;
    }
    (void)pthread_mutex_unlock(&slab->mutex);
    return object;
}

void rota_slab_free(rota_slab *slab, void *object) {
    if (!object) return;
    uintptr_t address = (uintptr_t)object, start = address & ~(uintptr_t)(BLOCK_BYTES - 1);
    rota_slab_block *block = (rota_slab_block *)start;
    (void)ra_fetch_add_relaxed(&slab->freed, 1);
    /* Releases the object to the exchange of advance. */
    (void)ra_fetch_or_acq_rel(&block->free, (uint64_t)1 << (address - start) / ROTA_SLAB_OBJECT_BYTES);
}

#endif
