/* Bump allocation in chunks that are recycled across arenas. Internal; not installed.
 *
 * Not thread-safe per arena; the chunk cache behind all arenas is (a mutex, taken once a chunk, never on a
 * path that is documented wait-free or lock-free). Fresh pages cost a fault each; recycled chunks do not,
 * which is why the cache exists: building a graph a second time runs out of warm memory. */
#ifndef ROTA_BASE_ARENA_H
#define ROTA_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rota_arena_chunk rota_arena_chunk;

typedef struct rota_arena {
    rota_arena_chunk *chunks; /* newest first */
    uint8_t *next, *end;      /* free part of the newest chunk */
    size_t total_bytes;       /* of all chunks held */
    bool is_small; /* set while empty: its first chunk is a page, and each as large as all before */
} rota_arena;

/* Zeroed storage is an empty arena. */
#define ROTA_ARENA_INIT                                                                                      \
    { 0 }

/* `size` bytes aligned to `alignment` (a power of two, at most 4096), not cleared; NULL only when out of memory: 0
 * bytes have an address, too. May block in malloc when a chunk runs out. O(1). */
void *rota_arena_alloc(rota_arena *arena, size_t size, size_t alignment);

/* Same, cleared to zero. */
void *rota_arena_calloc(rota_arena *arena, size_t size, size_t alignment);

/* A copy of a string, or NULL when out of memory. */
char *rota_arena_strdup(rota_arena *arena, const char *text);

/* Returns every chunk to the cache. All memory from the arena ends. */
void rota_arena_free(rota_arena *arena);

/* Blocks of at least `size` bytes straight from and to the chunk cache, aligned to 4096, for arrays whose
 * size is known. out_size gets the usable size, at least `size`. NULL when out of memory. Blocks above 256 MiB are not
 * cached, and the system gets all that the cache has before one of them is taken. */
void *rota_chunk_alloc(size_t size, size_t *out_size);
void rota_chunk_free(void *memory, size_t usable_size);
/* Gives the system what a block has beyond a block of `size` bytes, where that is whole pages of its own; returns what
 * is usable then. */
size_t rota_chunk_shrink(void *memory, size_t usable_size, size_t size);

/* Returns the cache's memory to the system (tests; low-memory situations). */
void rota_chunk_cache_trim(void);

/* Returns half of the blocks that nobody needed since the last sweep; no more often than once in
 * ROTA_CHUNK_CACHE_SWEEP_NS, by rota_clock_ns. Without it the cache would keep the most that was ever in use
 * at once, of each size: what many threads need at once goes on growing for hours. Called now and then by a
 * thread of each runtime; may block in malloc, and behind who is inside the cache. */
#define ROTA_CHUNK_CACHE_SWEEP_NS UINT64_C(5000000000)
void rota_chunk_cache_sweep(uint64_t now_ns);
size_t rota_chunk_cache_bytes(void); /* what it holds */

#endif
