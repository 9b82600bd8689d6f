/* Bump arenas over a process-wide cache of blocks: of powers of two up to 128 KiB, above that of the sizes between
 * them, too, in steps of a 32nd, so that what is large is no larger than it need be. */
#include "base/arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/atomic.h"

enum {
    PAGE = 4096,
    MIN_SHIFT = 12,  /* 4 KiB: smaller arrays are not worth a class of their own */
    MAX_SHIFT = 28,  /* 256 MiB: beyond that blocks come from the system and go back to it */
    STEP_SHIFT = 17, /* 128 KiB: steps are whole pages from there on */
    STEPS = 32,      /* from one power of two to the next */
    CLASS_COUNT = (MAX_SHIFT - STEP_SHIFT) * STEPS + STEP_SHIFT - MIN_SHIFT + 1,
    ARENA_CHUNK_SHIFT = 16,
    ARENA_CHUNK_MAX_SHIFT = 22,
};
/* What the cache may hold before blocks are given back to the system. */
static const size_t cache_limit_bytes = (size_t)1 << 30;

typedef struct free_block {
    struct free_block *next;
    size_t size_bytes;
} free_block;

static pthread_mutex_t cache_mutex = PTHREAD_MUTEX_INITIALIZER;
static free_block *cache[CLASS_COUNT];
static size_t cached_bytes;
/* Blocks of a class, and the fewest there were since the last sweep: so many nobody needed. */
static size_t cached[CLASS_COUNT], fewest[CLASS_COUNT];
static _Atomic uint64_t swept_ns;

/* A child forked while another thread was at the cache has it whole and unlocked. */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void lock_cache(void) {
    (void)pthread_mutex_lock(&cache_mutex);
}
static void unlock_cache(void) {
    (void)pthread_mutex_unlock(&cache_mutex);
}
/* Its owner is the parent's thread. */
static void renew_lock(void) {
    cache_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
static void watch_forks(void) {
    (void)pthread_atfork(lock_cache, unlock_cache, renew_lock);
}

struct rota_arena_chunk {
    rota_arena_chunk *next;
    size_t usable_size;
};

/* The class of the smallest blocks that hold `size`, at most 256 MiB, and their size. */
static unsigned class_of(size_t size, size_t *out_bytes) {
    if (size <= (size_t)1 << MIN_SHIFT) size = (size_t)1 << MIN_SHIFT;
    const unsigned below = 63u - (unsigned)__builtin_clzll((unsigned long long)size);
    const size_t power = (size_t)1 << below;
    if (below < STEP_SHIFT || size == power) {
        const unsigned shift = below + (size != power);
        *out_bytes = (size_t)1 << shift;
        return shift <= STEP_SHIFT ? shift - MIN_SHIFT
                                   : STEP_SHIFT - MIN_SHIFT + (shift - STEP_SHIFT) * STEPS;
    }
    const size_t step = power / STEPS;
    *out_bytes = (size + step - 1) / step * step;
    return STEP_SHIFT - MIN_SHIFT + (below - STEP_SHIFT) * STEPS + (unsigned)((*out_bytes - power) / step);
}

/* Pages of their own from this size on: malloc keeps freed blocks as long as something small lives behind
 * them, and what a burst needed is to go back to the system. Not where a sanitizer looks after malloc. */
#if defined __SANITIZE_ADDRESS__
#define MAPPED_BYTES SIZE_MAX
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define MAPPED_BYTES SIZE_MAX
#endif
#endif
#ifndef MAPPED_BYTES
#define MAPPED_BYTES ((size_t)1 << ARENA_CHUNK_SHIFT)
#endif

/* From 2 MiB on, aligned to huge pages: fewer faults when the block is fresh and fewer misses of the address
 * cache later. */
static void *system_alloc(size_t size) {
    const size_t huge = (size_t)2 << 20, alignment = size < huge ? PAGE : huge;
    if (size > SIZE_MAX - huge) return NULL;
    if (size < MAPPED_BYTES) return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
    const size_t slack = alignment - PAGE;
    uint8_t *memory = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    if (slack == 0) return memory;
    const size_t before = (alignment - (uintptr_t)memory % alignment) % alignment;
    if (before) (void)munmap(memory, before);
    if (slack > before) (void)munmap(memory + before + size, slack - before);
    (void)madvise(memory + before, size, MADV_HUGEPAGE); /* a hint: a system without them ignores it */
    return memory + before;
}

static void system_free(void *memory, size_t size) {
    if (size < MAPPED_BYTES)
        free(memory);
    else
        (void)munmap(memory, size);
}

void *rota_chunk_alloc(size_t size, size_t *out_size) {
    (void)pthread_once(&fork_once, watch_forks); /* before the mutex is locked for the first time */
    if (size > (size_t)1 << MAX_SHIFT) {
        if (size > SIZE_MAX - PAGE) return NULL;
        *out_size = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
        rota_chunk_cache_trim(); /* whoever needs so much may need all that there is */
        return system_alloc(*out_size);
    }
    const unsigned kind = class_of(size, out_size);
    pthread_mutex_lock(&cache_mutex);
    free_block *block = cache[kind];
    if (block) {
        cache[kind] = block->next;
        cached_bytes -= *out_size;
        if (--cached[kind] < fewest[kind]) fewest[kind] = cached[kind];
    }
    pthread_mutex_unlock(&cache_mutex);
    return block ? (void *)block : system_alloc(*out_size);
}

void rota_chunk_free(void *memory, size_t usable_size) {
    if (!memory) return;
    if (usable_size <= (size_t)1 << MAX_SHIFT) {
        size_t bytes;
        const unsigned kind = class_of(usable_size, &bytes); /* which is the class's own */
        pthread_mutex_lock(&cache_mutex);
        if (cached_bytes + bytes <= cache_limit_bytes) {
            free_block *block = memory;
            block->size_bytes = bytes;
            block->next = cache[kind];
            cache[kind] = block;
            cached_bytes += bytes;
            cached[kind]++;
            memory = NULL;
        }
        pthread_mutex_unlock(&cache_mutex);
    }
    if (memory) system_free(memory, usable_size);
}

size_t rota_chunk_shrink(void *memory, size_t usable_size, size_t size) {
    size_t kept = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
    if (size <= (size_t)1 << MAX_SHIFT) (void)class_of(size, &kept);
    if (kept < MAPPED_BYTES || kept >= usable_size) return usable_size;
    return munmap((uint8_t *)memory + kept, usable_size - kept) == 0 ? kept : usable_size;
}

static void free_list(free_block *list) {
    while (list) {
        free_block *next = list->next;
        system_free(list, list->size_bytes);
        list = next;
    }
}

void rota_chunk_cache_trim(void) {
    for (unsigned kind = 0; kind < CLASS_COUNT; kind++) {
        pthread_mutex_lock(&cache_mutex);
        free_block *list = cache[kind];
        for (const free_block *block = list; block; block = block->next) cached_bytes -= block->size_bytes;
        cache[kind] = NULL;
        cached[kind] = fewest[kind] = 0;
        pthread_mutex_unlock(&cache_mutex);
        free_list(list);
    }
}

/* Takes half of what nobody needed, so that a need that comes now and then finds most of it. */
static free_block *take_idle(unsigned kind) {
    free_block *taken = NULL;
    for (size_t idle = (fewest[kind] + 1) / 2; idle > 0; idle--) {
        free_block *block = cache[kind];
        cache[kind] = block->next;
        block->next = taken;
        taken = block;
        cached[kind]--;
        cached_bytes -= block->size_bytes;
    }
    fewest[kind] = cached[kind];
    return taken;
}

void rota_chunk_cache_sweep(uint64_t now_ns) {
    uint64_t swept = ra_load_relaxed(&swept_ns);
    if (now_ns < swept + ROTA_CHUNK_CACHE_SWEEP_NS) return;
    /* Of several runtimes' threads one does it. */
    if (!ra_cas_acq_rel(&swept_ns, &swept, now_ns)) return;
    for (unsigned kind = 0; kind < CLASS_COUNT; kind++) {
        pthread_mutex_lock(&cache_mutex);
        free_block *taken = take_idle(kind);
        pthread_mutex_unlock(&cache_mutex);
        free_list(taken);
    }
}

size_t rota_chunk_cache_bytes(void) {
    pthread_mutex_lock(&cache_mutex);
    size_t bytes = cached_bytes;
    pthread_mutex_unlock(&cache_mutex);
    return bytes;
}

static int add_chunk(rota_arena *arena, size_t size) {
    /* Chunks grow with the arena, so that a large arena has few. */
    size_t want = (size_t)1 << (arena->is_small ? MIN_SHIFT : ARENA_CHUNK_SHIFT);
    while (want < arena->total_bytes && want < (size_t)1 << ARENA_CHUNK_MAX_SHIFT) want <<= 1;
    size_t header = sizeof(rota_arena_chunk);
    if (size > SIZE_MAX - header) return 0;
    if (want < size + header) want = size + header;
    size_t usable;
    rota_arena_chunk *chunk = rota_chunk_alloc(want, &usable);
    if (!chunk) return 0;
    chunk->next = arena->chunks;
    chunk->usable_size = usable;
    arena->chunks = chunk;
    arena->next = (uint8_t *)chunk + header;
    arena->end = (uint8_t *)chunk + usable;
    arena->total_bytes += usable;
    return 1;
}

void *rota_arena_alloc(rota_arena *arena, size_t size, size_t alignment) {
    for (;;) {
        uintptr_t start = ((uintptr_t)arena->next + alignment - 1) & ~(uintptr_t)(alignment - 1);
        if (arena->next && start <= (uintptr_t)arena->end && size <= (uintptr_t)arena->end - start) {
            arena->next = (uint8_t *)start + size;
            return (void *)start;
        }
        if (size > SIZE_MAX - alignment || !add_chunk(arena, size + alignment)) return NULL;
    }
}

void *rota_arena_calloc(rota_arena *arena, size_t size, size_t alignment) {
    void *memory = rota_arena_alloc(arena, size, alignment);
    if (memory) memset(memory, 0, size);
    return memory;
}

char *rota_arena_strdup(rota_arena *arena, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = rota_arena_alloc(arena, size, 1);
    if (copy) memcpy(copy, text, size);
    return copy;
}

void rota_arena_free(rota_arena *arena) {
    for (rota_arena_chunk *chunk = arena->chunks; chunk;) {
        rota_arena_chunk *next = chunk->next;
        rota_chunk_free(chunk, chunk->usable_size);
        chunk = next;
    }
    *arena = (rota_arena)ROTA_ARENA_INIT;
}
