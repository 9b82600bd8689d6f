/* The adversarial executor's memory: poisoned when it is made and when it is destroyed, looked after beyond
 * that, and shared between its two devices where they are to be one GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "graph/buffer.h"
#include "tests/adversary/adversary_internal.h"
#include "tests/kit/nap.h"

/* Destroyed memory is kept, poisoned, up to this much, so that a late use reads poison and a late write is
 * seen. */
#define DEAD_BYTES_MAX ((uint64_t)48 << 20)

/* The thread sanitizer looks at every byte of a memset or memcmp, and keeps more of each than the byte: of large
 * memory, such as every device has for uploads, that is most of what a test takes there. It sees the first
 * bytes; the poison is in all, and looked for in all. */
#ifdef __SANITIZE_THREAD__
#define SEEN_BYTES 16384u
#define UNSEEN __attribute__((no_sanitize("thread"), optimize("no-tree-loop-distribute-patterns"), noinline))
#else
#define SEEN_BYTES UINT64_MAX
#define UNSEEN
#endif

static uint64_t seen_of(uint64_t size) {
    return size < SEEN_BYTES ? size : SEEN_BYTES;
}

UNSEEN static void fill_unseen(uint8_t *bytes, uint8_t value, uint64_t size) {
    const uint64_t words = value * 0x0101010101010101u;
    uint64_t i = 0;
    for (; i + 8 <= size; i += 8) *(uint64_t *)(void *)(bytes + i) = words;
    for (; i < size; i++) bytes[i] = value;
}

/* Whether all are the first one. */
UNSEEN static bool is_one_unseen(const uint8_t *bytes, uint64_t size) {
    const uint64_t words = bytes[0] * 0x0101010101010101u;
    uint64_t i = 0;
    while (i + 8 <= size && *(const uint64_t *)(const void *)(bytes + i) == words) i += 8;
    while (i < size && bytes[i] == bytes[0]) i++;
    return i == size;
}

void adversary_memory_fill(const adversary_memory *memory, uint8_t value, uint64_t size) {
    uint8_t *bytes = (uint8_t *)(uintptr_t)memory->base.address;
    const uint64_t seen = seen_of(size);
    memset(bytes, value, seen);
    if (seen < size) fill_unseen(bytes + seen, value, size - seen);
}

static uint64_t pages(uint64_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

/* Memory that may be shared is a file in memory, which each device maps for itself, at an address of its own.
 */
static bool map_file(adversary_memory *memory, int fd, uint64_t size_bytes) {
    memory->fd = fd;
    memory->mapped_bytes = pages(size_bytes);
    void *bytes = mmap(NULL, memory->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return false;
    memory->base.address = (uint64_t)(uintptr_t)bytes;
    return true;
}

/* The bytes that others may have mapped too stay as they are; whoever comes here later finds others. */
static void unmap_file(adversary_memory *memory) {
    void *bytes = (void *)(uintptr_t)(memory->base.address - memory->offset_bytes);
    (void)close(memory->fd);
    if (mmap(bytes, memory->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != bytes)
        abort();
}

static void adopt(adversary_device *device, adversary_memory *memory, uint64_t size_bytes, uint32_t flags,
                  const char *name) {
    void *bytes = (void *)(uintptr_t)memory->base.address;
    memory->base.host =
        flags & ~(uint32_t)ROTA_EXEC_MEMORY_SHARED || device->base.caps.unified_host ? bytes : NULL;
    memory->base.size_bytes = size_bytes;
    memory->magic = ADVERSARY_LIVE;
    memory->device = device->index;
    memory->flags = flags;
    snprintf(memory->name, sizeof memory->name, "%s", name);
    pthread_mutex_lock(&device->lock);
    memory->next = device->memories;
    device->memories = memory;
    pthread_mutex_unlock(&device->lock);
    atomic_fetch_add(&device->options->live_memories, 1);
}

rota_status adversary_memory_create(rota_exec_device *base, uint64_t size_bytes, uint32_t flags,
                                    const char *name, rota_exec_memory **out_memory) {
    adversary_device *device = (adversary_device *)base;
    if (!name) name = "memory";
    if (size_bytes == 0)
        return rota_fail(ROTA_INVALID_ARGUMENT, "%s: '%s' asks for 0 bytes", base->info.id, name);
    while (flags & ROTA_EXEC_MEMORY_HOST_READ && strcmp(name, "staging") == 0 &&
           atomic_load(&device->options->faults.memories_stay) >> device->index & 1u)
        test_nap_ms(1);
    bool fail = adversary_strikes(&device->options->faults.memory_fails_in);
    if (fail || size_bytes > base->info.max_allocation_bytes)
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: '%s' asks for %llu bytes, 0 free", base->info.id, name,
                         (unsigned long long)size_bytes);
    adversary_memory *memory = calloc(1, sizeof *memory);
    uint64_t usable =
        (size_bytes + ROTA_BUFFER_ALIGNMENT - 1) / ROTA_BUFFER_ALIGNMENT * ROTA_BUFFER_ALIGNMENT;
    if (usable == 0) usable = ROTA_BUFFER_ALIGNMENT;
    bool is_file = flags & ROTA_EXEC_MEMORY_SHARED, made = false;
    int fd = is_file ? memfd_create("adversary", MFD_CLOEXEC) : -1;
    if (is_file && !device->base.caps.shares_memory)
        adversary_violation(device, "memory '%s' is to be shared, but the device shares none", name);
    if (memory && fd >= 0) made = ftruncate(fd, (off_t)pages(usable)) == 0 && map_file(memory, fd, usable);
    if (memory && !is_file) {
        memory->base.address = (uint64_t)(uintptr_t)aligned_alloc(ROTA_BUFFER_ALIGNMENT, usable);
        made = memory->base.address != 0;
    }
    if (!made) {
        if (fd >= 0) (void)close(fd);
        free(memory);
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: '%s': the host has no %llu bytes", base->info.id, name,
                         (unsigned long long)size_bytes);
    }
    adversary_memory_fill(memory, ADVERSARY_POISON_FRESH, usable);
    adopt(device, memory, size_bytes, flags, name);
    *out_memory = &memory->base;
    return ROTA_OK;
}

rota_status adversary_memory_export(rota_exec_device *base, rota_exec_memory *base_memory, bool is_dma_buf,
                                    rota_exec_export *out) {
    adversary_device *device = (adversary_device *)base;
    const adversary_memory *memory = (const adversary_memory *)base_memory;
    if (is_dma_buf) return rota_fail(ROTA_UNSUPPORTED, "%s: exports no dma-buf", base->info.id);
    if (atomic_load(&device->lost)) return rota_fail(ROTA_DEVICE_LOST, "%s is lost", base->info.id);
    if (memory->magic != ADVERSARY_LIVE || !(memory->flags & ROTA_EXEC_MEMORY_SHARED) || memory->is_import)
        adversary_violation(device, "memory '%s' is exported, which was not made for that", memory->name);
    *out = (rota_exec_export){.fd = dup(memory->fd),
                              .allocation_bytes = memory->mapped_bytes,
                              .size_bytes = memory->base.size_bytes};
    return out->fd >= 0 ? ROTA_OK : rota_fail(ROTA_SYSTEM, "%s: no descriptor", base->info.id);
}

rota_status adversary_memory_import(rota_exec_device *base, const rota_exec_export *from, const char *name,
                                    rota_exec_memory **out_memory) {
    adversary_device *device = (adversary_device *)base;
    bool fail = adversary_strikes(&device->options->faults.import_fails_in);
    adversary_memory *memory = fail ? NULL : calloc(1, sizeof *memory);
    int fd = memory ? dup(from->fd) : -1;
    if (fd < 0 || !map_file(memory, fd, from->allocation_bytes)) {
        if (fd >= 0) (void)close(fd);
        free(memory);
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: '%s' can't be imported", base->info.id,
                         name ? name : "memory");
    }
    memory->is_import = true;
    memory->offset_bytes = from->offset_bytes;
    memory->base.address += from->offset_bytes;
    adopt(device, memory, from->size_bytes, ROTA_EXEC_MEMORY_SHARED, name ? name : "memory");
    atomic_fetch_add(&device->options->imports, 1);
    *out_memory = &memory->base;
    return ROTA_OK;
}

/* The application's, where it is. */
rota_status adversary_memory_adopt(rota_exec_device *base, const rota_exec_foreign *from, const char *name,
                                   rota_exec_memory **out_memory) {
    adversary_device *device = (adversary_device *)base;
    if (from->kind == ROTA_EXEC_FOREIGN_FD)
        return rota_fail(ROTA_UNSUPPORTED, "%s: '%s' is a descriptor", base->info.id, name);
    adversary_memory *memory = calloc(1, sizeof *memory);
    if (!memory) return rota_fail(ROTA_OUT_OF_MEMORY, "%s: '%s'", base->info.id, name);
    memory->is_adopted = true;
    memory->base.address = (uint64_t)(uintptr_t)from->memory;
    adopt(device, memory, from->size_bytes, ROTA_EXEC_MEMORY_DEVICE, name);
    *out_memory = &memory->base;
    return ROTA_OK;
}

bool adversary_memory_return(rota_exec_device *base, rota_exec_memory *base_memory) {
    adversary_device *device = (adversary_device *)base;
    adversary_memory *memory = (adversary_memory *)base_memory;
    if (device->options->faults.keeps_adopted) return false;
    pthread_mutex_lock(&device->lock);
    const bool is_live = memory->magic == ADVERSARY_LIVE && memory->is_adopted;
    memory->magic = ADVERSARY_GONE;
    pthread_mutex_unlock(&device->lock);
    if (!is_live)
        adversary_violation(device, "memory '%s' is given back that is not the application's", memory->name);
    atomic_fetch_sub(&device->options->live_memories, 1);
    return true;
}

void adversary_memory_check(adversary_device *device, const adversary_memory *memory) {
    const uint8_t *bytes = (const uint8_t *)(uintptr_t)memory->base.address;
    const uint64_t size = memory->base.size_bytes, seen = seen_of(size);
    /* All are the first and the first is poison: one call, where a sanitizer would look at each byte. */
    if (size == 0 || (bytes[0] == ADVERSARY_POISON_DEAD && memcmp(bytes, bytes + 1, seen - 1) == 0 &&
                      is_one_unseen(bytes + seen - 1, size - seen + 1)))
        return;
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != ADVERSARY_POISON_DEAD) {
            adversary_violation(device, "byte %llu of destroyed memory '%s' was written",
                                (unsigned long long)i, memory->name);
            return;
        }
}

static void release_bytes(adversary_memory *memory) {
    void *bytes = (void *)(uintptr_t)memory->base.address;
    if (memory->magic == ADVERSARY_GONE) return;
    if (memory->mapped_bytes && memory->magic == ADVERSARY_LIVE) (void)close(memory->fd);
    if (memory->mapped_bytes)
        (void)munmap((uint8_t *)bytes - memory->offset_bytes, memory->mapped_bytes);
    else if (!memory->is_adopted)
        free(bytes);
    memory->magic = ADVERSARY_GONE;
}

void adversary_memory_free(adversary_memory *memory) {
    release_bytes(memory);
    free(memory);
}

static bool free_waits(adversary_device *device) {
    uint32_t frees = atomic_load(&device->options->faults.frees);
    if (frees == ADVERSARY_FREES_AFTER_WORKS)
        return atomic_load(&device->unfinished) != 0 && !atomic_load(&device->lost);
    return frees == ADVERSARY_FREES_NEVER;
}

void adversary_memory_destroy(rota_exec_device *base, rota_exec_memory *base_memory) {
    adversary_device *device = (adversary_device *)base;
    adversary_memory *memory = (adversary_memory *)base_memory;
    if (!memory) return;
    if (free_waits(device)) {
        atomic_fetch_add(&device->options->frees_waiting, 1);
        while (free_waits(device)) test_nap_us(200);
        atomic_fetch_sub(&device->options->frees_waiting, 1);
    }
    const uint64_t takes_ns = atomic_load(&device->options->faults.free_ns);
    if (takes_ns) test_nap_ns(takes_ns);
    pthread_mutex_lock(&device->lock);
    if (memory->magic != ADVERSARY_LIVE) {
        pthread_mutex_unlock(&device->lock);
        adversary_violation(device, "memory '%s' is destroyed twice", memory->name);
        return;
    }
    if (memory->is_adopted)
        adversary_violation(device, "memory '%s' of the application's is destroyed", memory->name);
    memory->magic = ADVERSARY_DEAD;
    if (memory->mapped_bytes) unmap_file(memory);
    adversary_memory_fill(memory, ADVERSARY_POISON_DEAD, memory->base.size_bytes);
    device->dead_bytes += memory->base.size_bytes;
    /* Lets go of the bytes of the oldest dead, which stand last in the list; the objects stay until the
     * device closes. */
    while (device->dead_bytes > DEAD_BYTES_MAX) {
        adversary_memory *oldest = NULL;
        for (adversary_memory *m = device->memories; m; m = m->next)
            if (m->magic == ADVERSARY_DEAD && m != memory) oldest = m;
        if (!oldest) break;
        adversary_memory_check(device, oldest);
        device->dead_bytes -= oldest->base.size_bytes;
        release_bytes(oldest);
    }
    pthread_mutex_unlock(&device->lock);
    atomic_fetch_sub(&device->options->live_memories, 1);
}

adversary_memory *adversary_memory_find(adversary_device *device, const rota_exec_memory *memory) {
    pthread_mutex_lock(&device->lock);
    adversary_memory *m = device->memories;
    while (m && &m->base != memory) m = m->next;
    pthread_mutex_unlock(&device->lock);
    return m;
}

bool adversary_range_is_live(adversary_device *device, uint64_t address, uint64_t size_bytes) {
    bool found = false;
    pthread_mutex_lock(&device->lock);
    for (const adversary_memory *m = device->memories; m && !found; m = m->next)
        found = m->magic == ADVERSARY_LIVE && address >= m->base.address &&
                address - m->base.address <= m->base.size_bytes &&
                size_bytes <= m->base.size_bytes - (address - m->base.address);
    pthread_mutex_unlock(&device->lock);
    return found;
}
