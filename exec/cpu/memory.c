/* Memory of the CPU executor: host memory, page-aligned and untouched when large.
 *
 * Threads: any at once; blocks in malloc, mmap and the device's list mutex. */
#include "exec/cpu/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "exec/common/dma_buf.h"
#include "exec/cpu/device.h"

enum {
    MAP_MIN_BYTES =
        1 << 20, /* from here on straight from the system: no copying of zeroes, pages come when used */
    HUGE_MIN_BYTES = 8 << 20 /* from here on large pages are asked for */
};

typedef struct rota_cpu_memory {
    rota_exec_memory base;
    rota_link link; /* the device's list, under its mutex */
    size_t allocated_bytes;
    bool is_mapped, is_adopted;
    void *
        file; /* of adopted memory: a descriptor's bytes, from its beginning on; NULL: it is the application's
                   pointer */
    size_t file_bytes;
} rota_cpu_memory;

/* Takes `size` from what the machine has, or fails with both numbers. */
static rota_status reserve(rota_cpu_device *device, uint64_t size, const char *name) {
    uint64_t total = device->base.info.memory_bytes;
    pthread_mutex_lock(&device->objects.mutex);
    uint64_t free_bytes =
        device->objects.allocated_bytes < total ? total - device->objects.allocated_bytes : 0;
    bool fits = size <= free_bytes;
    if (fits) device->objects.allocated_bytes += size;
    pthread_mutex_unlock(&device->objects.mutex);
    if (fits) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: '%s' asks for %llu bytes; %llu of the machine's %llu are free",
                     name ? name : "", (unsigned long long)size, (unsigned long long)free_bytes,
                     (unsigned long long)total);
}

static void unreserve(rota_cpu_device *device, uint64_t size) {
    pthread_mutex_lock(&device->objects.mutex);
    device->objects.allocated_bytes -= size;
    pthread_mutex_unlock(&device->objects.mutex);
}

rota_status rota_cpu_memory_create(rota_exec_device *base, uint64_t size_bytes, uint32_t flags,
                                   const char *name, rota_exec_memory **out_memory) {
    rota_cpu_device *device = rota_cpu_device_of(base);
    (void)flags; /* all memory here is the host's */
    if (size_bytes == 0)
        return rota_fail(ROTA_INVALID_ARGUMENT, "cpu: '%s' asks for 0 bytes", name ? name : "");
    if (size_bytes > ROTA_BUFFER_SIZE_MAX)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: '%s' asks for %llu bytes; the machine has %llu",
                         name ? name : "", (unsigned long long)size_bytes,
                         (unsigned long long)base->info.memory_bytes);
    uint64_t granule = size_bytes >= MAP_MIN_BYTES ? 4096 : ROTA_BUFFER_ALIGNMENT;
    uint64_t rounded = (size_bytes + granule - 1) / granule * granule;
    ROTA_TRY(reserve(device, rounded, name));
    rota_cpu_memory *memory = calloc(1, sizeof *memory);
    void *host = NULL;
    if (memory && size_bytes >= MAP_MIN_BYTES) {
        host = mmap(NULL, (size_t)rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (host == MAP_FAILED) host = NULL;
        /* Only advice: without large pages everything works. */
        else if (size_bytes >= HUGE_MIN_BYTES)
            (void)madvise(host, (size_t)rounded, MADV_HUGEPAGE);
        if (host) rota_locality_place(&device->base.locality, host, (size_t)rounded);
        memory->is_mapped = true;
    } else if (memory) {
        host = aligned_alloc(ROTA_BUFFER_ALIGNMENT, (size_t)rounded);
    }
    if (!host) {
        free(memory);
        unreserve(device, rounded);
        return rota_fail(
            ROTA_OUT_OF_MEMORY, "cpu: the system refused %llu bytes for '%s' of %llu in the machine",
            (unsigned long long)size_bytes, name ? name : "", (unsigned long long)base->info.memory_bytes);
    }
    memory->base =
        (rota_exec_memory){.address = (uint64_t)(uintptr_t)host, .host = host, .size_bytes = size_bytes};
    memory->allocated_bytes = (size_t)rounded;
    pthread_mutex_lock(&device->objects.mutex);
    rota_link_add(&device->objects.memories, &memory->link);
    pthread_mutex_unlock(&device->objects.mutex);
    *out_memory = &memory->base;
    return ROTA_OK;
}

void rota_cpu_memory_destroy(rota_exec_device *base, rota_exec_memory *given) {
    if (!given) return;
    rota_cpu_device *device = rota_cpu_device_of(base);
    rota_cpu_memory *memory = (rota_cpu_memory *)given;
    pthread_mutex_lock(&device->objects.mutex);
    rota_link_remove(&memory->link);
    device->objects.allocated_bytes -= memory->allocated_bytes;
    pthread_mutex_unlock(&device->objects.mutex);
    if (memory->file)
        (void)munmap(memory->file, memory->file_bytes);
    else if (memory->is_adopted)
        memory->base.host = NULL;
    else if (memory->is_mapped)
        (void)munmap(memory->base.host, memory->allocated_bytes);
    else
        free(memory->base.host);
    free(memory);
}

/* What can be mapped shared is host memory from then on; the descriptor stays the application's. */
static rota_status map_file(const rota_exec_foreign *from, const char *name, rota_cpu_memory *memory) {
    ROTA_TRY(rota_dma_buf_check("cpu", from, name));
    if (from->allocation_bytes > SIZE_MAX)
        return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: '%s': %llu bytes are more than addresses", name,
                         (unsigned long long)from->allocation_bytes);
    const size_t bytes = (size_t)from->allocation_bytes;
    const int access = from->is_read_only ? PROT_READ : PROT_READ | PROT_WRITE;
    void *file = mmap(NULL, bytes, access, MAP_SHARED, from->fd, 0);
    if (file == MAP_FAILED)
        return rota_fail(errno == ENOMEM ? ROTA_OUT_OF_MEMORY : ROTA_UNSUPPORTED,
                         "cpu: '%s': the descriptor %d can't be mapped to be read%s (%s), expected a "
                         "dma-buf whose exporter lets the CPU have it",
                         name, from->fd, from->is_read_only ? "" : " and written", strerror(errno));
    memory->file = file;
    memory->file_bytes = bytes;
    memory->base.host = (char *)file + from->offset_bytes;
    return ROTA_OK;
}

rota_status rota_cpu_memory_adopt(rota_exec_device *base, const rota_exec_foreign *from, const char *name,
                                  rota_exec_memory **out_memory) {
    rota_cpu_device *device = rota_cpu_device_of(base);
    const bool is_file = from->kind == ROTA_EXEC_FOREIGN_DMA_BUF;
    if (from->kind != ROTA_EXEC_FOREIGN_HOST && !is_file)
        return rota_fail(ROTA_UNSUPPORTED, "cpu: '%s' is %s, expected host memory or a dma-buf", name,
                         from->kind == ROTA_EXEC_FOREIGN_FD ? "a descriptor of a GPU's memory"
                                                            : "a GPU's memory");
    rota_cpu_memory *memory = calloc(1, sizeof *memory);
    if (!memory) return rota_fail(ROTA_OUT_OF_MEMORY, "cpu: no host memory for '%s'", name);
    memory->is_adopted = true;
    memory->base = (rota_exec_memory){.host = from->memory, .size_bytes = from->size_bytes};
    const rota_status status = is_file ? map_file(from, name, memory) : ROTA_OK;
    if (status != ROTA_OK) {
        free(memory);
        return status;
    }
    memory->base.address = (uint64_t)(uintptr_t)memory->base.host;
    pthread_mutex_lock(&device->objects.mutex);
    rota_link_add(&device->objects.memories, &memory->link);
    pthread_mutex_unlock(&device->objects.mutex);
    *out_memory = &memory->base;
    return ROTA_OK;
}

bool rota_cpu_memory_return(rota_exec_device *base, rota_exec_memory *memory) {
    rota_cpu_memory_destroy(base, memory);
    return true;
}

void rota_cpu_memory_free_all(rota_cpu_device *device) {
    rota_link *list = &device->objects.memories;
    while (!rota_link_is_alone(list))
        rota_cpu_memory_destroy(&device->base, &ROTA_LINKED(list->next, rota_cpu_memory, link)->base);
}
