/* What fails in rota-faults (faults.c): memory, threads, files, and drivers' calls, each told by its site;
 * and what is counted of them. */
#include "tests/faults/faults.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/hash.h"
#include "exec/vk/vk_loader.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"

/* ---- Points ---- */

enum { BLOCKS_MAX = 1 << 18 };

site sites[SITES_MAX];
atomic_bool counting, fired, vk_lost;
atomic_int phase;
atomic_uint wanted_result;
uint32_t wanted_site = UINT32_MAX, wanted_ordinal;
void *outermost;
plant planted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether this call is to fail. */
static bool fails(const char *call, uint32_t results) {
    if (!atomic_load_explicit(&counting, memory_order_acquire)) return false;
    void *frames[FRAMES + 2];
    const int depth = backtrace(frames, FRAMES + 2);
    uint64_t key = rota_hash_text(ROTA_HASH_BEGIN, call) ^ (uint64_t)atomic_load(&phase);
    for (int i = 2; i < depth && frames[i] != outermost; i++) key = rota_hash_mix(key ^ (uintptr_t)frames[i]);
    key |= 1;
    pthread_mutex_lock(&lock);
    uint32_t entry = (uint32_t)(key >> 20) % SITES_MAX;
    while (sites[entry].key && sites[entry].key != key) entry = (entry + 1) % SITES_MAX;
    site *p = &sites[entry];
    if (!p->key) {
        *p = (site){.key = key, .phase = atomic_load(&phase), .call = call, .results = results};
        for (int i = 2; i < depth; i++) p->frames[i - 2] = frames[i];
    }
    const bool hit = ++p->seen == wanted_ordinal && entry == wanted_site;
    if (hit) atomic_store(&fired, true);
    pthread_mutex_unlock(&lock);
    return hit;
}

/* ---- Memory and threads ---- */

typedef struct block {
    void *memory;
    uint32_t next;
    void *frames[FRAMES];
} block;
static block blocks[BLOCKS_MAX];
static uint32_t heads[BLOCKS_MAX], free_blocks, blocks_used = 1;
uint32_t live;

static uint32_t bucket_of(const void *memory) {
    return rota_hash_pointer(memory) % BLOCKS_MAX;
}

static void *taken(void *memory) {
    if (!memory) return NULL;
    void *frames[FRAMES + 2] = {0};
    if (atomic_load(&counting)) (void)backtrace(frames, FRAMES + 2);
    pthread_mutex_lock(&lock);
    uint32_t b = free_blocks ? free_blocks : blocks_used++;
    if (b >= BLOCKS_MAX) abort();
    if (b == free_blocks) free_blocks = blocks[b].next;
    blocks[b].memory = memory;
    blocks[b].next = heads[bucket_of(memory)];
    memcpy(blocks[b].frames, frames + 2, sizeof blocks[b].frames);
    heads[bucket_of(memory)] = b;
    live++;
    pthread_mutex_unlock(&lock);
    return memory;
}

static void given(void *memory) {
    if (!memory) return;
    pthread_mutex_lock(&lock);
    for (uint32_t *link = &heads[bucket_of(memory)]; *link; link = &blocks[*link].next)
        if (blocks[*link].memory == memory) {
            const uint32_t b = *link;
            *link = blocks[b].next;
            blocks[b] = (block){.next = free_blocks};
            free_blocks = b;
            live--;
            break;
        }
    pthread_mutex_unlock(&lock);
}

#ifdef ROTA_HAVE_CUDA
#define FOREIGN cuda_stub_is_inside()
#else
#define FOREIGN false
#endif

#define WRAP(type, name, parameters, arguments)                                                              \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters {                                                                          \
        if (FOREIGN) return __real_##name arguments;                                                         \
        return fails(#name, 1) ? NULL : taken(__real_##name arguments);                                      \
    }
WRAP(void *, malloc, (size_t bytes), (bytes))
WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes))
WRAP(void *, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))
WRAP(char *, strdup, (const char *text), (text))
WRAP(char *, strndup, (const char *text, size_t bytes), (text, bytes))

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes) {
    if (FOREIGN) return __real_realloc(memory, bytes);
    if (fails("realloc", 1)) return NULL;
    given(memory); /* first: another thread may be given the same address */
    void *grown = __real_realloc(memory, bytes);
    (void)taken(grown ? grown : memory);
    return grown;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory) {
    static atomic_uint planted_leaks;
    if (planted == PLANT_LEAK && memory && atomic_load(&fired) && atomic_load(&counting) &&
        atomic_fetch_add(&planted_leaks, 1) % 16 == 0)
        return;
    given(memory);
    __real_free(memory);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                          void *user) {
    return fails("pthread_create", 1) ? 11 : __real_pthread_create(thread, attributes, main, user);
}

/* ---- Drivers ---- */

#ifdef ROTA_HAVE_CUDA
CUresult ask_stub(const char *name) {
    static const CUresult results[RESULTS_MAX] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_FAILED};
    return fails(name, RESULTS_MAX) ? results[wanted_result] : CUDA_SUCCESS;
}
#endif

int made; /* under the lock */
static void count_made(int by) {
    pthread_mutex_lock(&lock);
    made += by;
    pthread_mutex_unlock(&lock);
}

/* Name, parameters, arguments; what a call makes, and the results that it can fail with besides memory's. */
#define A(...) (__VA_ARGS__)
#define DV VkDevice d
#define CB const VkAllocationCallbacks *c
#define CREATES(X, name, info, object) X(name, A(DV, const info *i, CB, object *o), A(d, i, c, o), 1)
#define VK_CALLS(X)                                                                                          \
    X(EnumerateInstanceVersion, A(uint32_t *v), A(v), 0)                                                     \
    X(EnumeratePhysicalDevices, A(VkInstance d, uint32_t *n, VkPhysicalDevice *o), A(d, n, o), 0)            \
    X(EnumerateDeviceExtensionProperties,                                                                    \
      A(VkPhysicalDevice d, const char *l, uint32_t *n, VkExtensionProperties *o), A(d, l, n, o), 0)         \
    X(CreateInstance, A(const VkInstanceCreateInfo *i, CB, VkInstance *o), A(i, c, o), 1)                    \
    X(CreateDevice, A(VkPhysicalDevice d, const VkDeviceCreateInfo *i, CB, VkDevice *o), A(d, i, c, o), 1)   \
    CREATES(X, AllocateMemory, VkMemoryAllocateInfo, VkDeviceMemory)                                         \
    CREATES(X, CreateBuffer, VkBufferCreateInfo, VkBuffer)                                                   \
    CREATES(X, CreateShaderModule, VkShaderModuleCreateInfo, VkShaderModule)                                 \
    CREATES(X, CreatePipelineLayout, VkPipelineLayoutCreateInfo, VkPipelineLayout)                           \
    CREATES(X, CreatePipelineCache, VkPipelineCacheCreateInfo, VkPipelineCache)                              \
    CREATES(X, CreateCommandPool, VkCommandPoolCreateInfo, VkCommandPool)                                    \
    CREATES(X, CreateQueryPool, VkQueryPoolCreateInfo, VkQueryPool)                                          \
    CREATES(X, CreateSemaphore, VkSemaphoreCreateInfo, VkSemaphore)                                          \
    X(CreateComputePipelines,                                                                                \
      A(DV, VkPipelineCache k, uint32_t n, const VkComputePipelineCreateInfo *i, CB, VkPipeline *o),         \
      A(d, k, n, i, c, o), 1)                                                                                \
    X(MapMemory, A(DV, VkDeviceMemory m, VkDeviceSize a, VkDeviceSize n, VkMemoryMapFlags f, void **o),      \
      A(d, m, a, n, f, o), 0)                                                                                \
    X(BindBufferMemory, A(DV, VkBuffer b, VkDeviceMemory m, VkDeviceSize a), A(d, b, m, a), 0)               \
    X(AllocateCommandBuffers, A(DV, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *o), A(d, i, o),   \
      0)                                                                                                     \
    X(BeginCommandBuffer, A(VkCommandBuffer b, const VkCommandBufferBeginInfo *i), A(b, i), 0)               \
    X(EndCommandBuffer, A(VkCommandBuffer b), A(b), 0)                                                       \
    X(ResetCommandPool, A(DV, VkCommandPool p, VkCommandPoolResetFlags f), A(d, p, f), 0)                    \
    X(WaitSemaphores, A(DV, const VkSemaphoreWaitInfo *i, uint64_t t), A(d, i, t), 2)                        \
    X(GetSemaphoreCounterValue, A(DV, VkSemaphore s, uint64_t *o), A(d, s, o), 2)                            \
    X(QueueSubmit2, A(VkQueue d, uint32_t n, const VkSubmitInfo2 *i, VkFence f), A(d, n, i, f), 2)
#define ENDS(X, name, object) X(name, A(DV, object o, CB), A(d, o, c), o != VK_NULL_HANDLE)
#define VK_ENDS(X)                                                                                           \
    X(DestroyInstance, A(VkInstance o, CB), A(o, c), o != VK_NULL_HANDLE)                                    \
    X(DestroyDevice, A(VkDevice o, CB), A(o, c), o != VK_NULL_HANDLE)                                        \
    ENDS(X, FreeMemory, VkDeviceMemory)                                                                      \
    ENDS(X, DestroyBuffer, VkBuffer)                                                                         \
    ENDS(X, DestroyShaderModule, VkShaderModule)                                                             \
    ENDS(X, DestroyPipelineLayout, VkPipelineLayout)                                                         \
    ENDS(X, DestroyPipelineCache, VkPipelineCache)                                                           \
    ENDS(X, DestroyCommandPool, VkCommandPool)                                                               \
    ENDS(X, DestroyQueryPool, VkQueryPool)                                                                   \
    ENDS(X, DestroySemaphore, VkSemaphore)                                                                   \
    ENDS(X, DestroyPipeline, VkPipeline)

/* A device that was lost once stays so. What it was given ends first: the real one does not know of the loss.
 */
static PFN_vkDeviceWaitIdle vk_idle;
static VkDevice vk_device;

static VkResult vk_fails(const char *name, int kind) {
    if (kind == 2 && atomic_load(&vk_lost)) return VK_ERROR_DEVICE_LOST;
    if (!fails(name, kind == 2 ? 2 : 1)) return VK_SUCCESS;
    if (wanted_result == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
    (void)vk_idle(vk_device);
    atomic_store(&vk_lost, true);
    return VK_ERROR_DEVICE_LOST;
}

#define HOOK(name, parameters, arguments, kind)                                                              \
    static PFN_vk##name real_##name;                                                                         \
    static VKAPI_ATTR VkResult VKAPI_CALL hook_##name parameters {                                           \
        VkResult result = vk_fails("vk" #name, kind);                                                        \
        if (result == VK_SUCCESS) result = real_##name arguments;                                            \
        if (kind == 1 && result >= 0) count_made(1);                                                         \
        return result;                                                                                       \
    }
#define HOOK_END(name, parameters, arguments, is)                                                            \
    static PFN_vk##name real_##name;                                                                         \
    static VKAPI_ATTR void VKAPI_CALL hook_##name parameters {                                               \
        real_##name arguments;                                                                               \
        if (is) count_made(-1);                                                                              \
    }
VK_CALLS(HOOK)
VK_ENDS(HOOK_END)

static PFN_vkGetInstanceProcAddr real_instance_proc;
static PFN_vkGetDeviceProcAddr real_device_proc;

static PFN_vkVoidFunction hooked(const char *name, PFN_vkVoidFunction real) {
    if (!real) return NULL;
#define FIND(entry, parameters, arguments, kind)                                                             \
    if (strcmp(name, "vk" #entry) == 0) {                                                                    \
        real_##entry = (PFN_vk##entry)real;                                                                  \
        return (PFN_vkVoidFunction)hook_##entry;                                                             \
    }
    VK_CALLS(FIND)
    VK_ENDS(FIND)
    return real;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name) {
    vk_device = device;
    vk_idle = (PFN_vkDeviceWaitIdle)real_device_proc(device, "vkDeviceWaitIdle");
    return hooked(name, real_device_proc(device, name));
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance instance, const char *name) {
    PFN_vkVoidFunction real = real_instance_proc(instance, name);
    if (strcmp(name, "vkGetDeviceProcAddr") != 0) return hooked(name, real);
    real_device_proc = (PFN_vkGetDeviceProcAddr)real;
    return (PFN_vkVoidFunction)device_proc;
}

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name) {
    void *address = __real_dlsym(library, name);
    if (strcmp(name, "vkGetInstanceProcAddr") != 0 || !address) return address;
    memcpy(&real_instance_proc, &address, sizeof address);
    PFN_vkGetInstanceProcAddr mine = instance_proc;
    memcpy(&address, &mine, sizeof address);
    return address;
}

/* ---- Files, pages and the machine ---- */

#define WRAP_INT(type, name, parameters, arguments, failed, why)                                             \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters {                                                                          \
        if (FOREIGN || !fails(#name, 1)) return __real_##name arguments;                                     \
        errno = (why);                                                                                       \
        return (failed);                                                                                     \
    }
WRAP_INT(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE)
WRAP_INT(FILE *, fdopen, (int file, const char *mode), (file, mode), NULL, ENOMEM)
WRAP_INT(size_t, fread, (void *to, size_t size, size_t count, FILE *file), (to, size, count, file), 0, EIO)
WRAP_INT(size_t, fwrite, (const void *from, size_t size, size_t count, FILE *file), (from, size, count, file),
         0, ENOSPC)
WRAP_INT(int, fsync, (int file), (file), -1, EIO)
WRAP_INT(int, renameat, (int from, const char *old, int to, const char *new), (from, old, to, new), -1,
         ENOSPC)
WRAP_INT(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, EACCES)
WRAP_INT(ssize_t, getrandom, (void *to, size_t size, unsigned flags), (to, size, flags), -1, EINTR)
WRAP_INT(void *, mmap, (void *address, size_t size, int protection, int flags, int file, off_t offset),
         (address, size, protection, flags, file, offset), MAP_FAILED, ENOMEM)
WRAP_INT(int, hwloc_topology_init, (hwloc_topology_t * out), (out), -1, ENOMEM)
WRAP_INT(int, hwloc_topology_load, (hwloc_topology_t topology), (topology), -1, ENOMEM)

#define WRAP_OPEN(name, parameters, arguments)                                                               \
    int __real_##name parameters;                                                                            \
    int __wrap_##name parameters;                                                                            \
    int __wrap_##name parameters {                                                                           \
        va_list list;                                                                                        \
        va_start(list, flags);                                                                               \
        const unsigned mode = flags & O_CREAT ? va_arg(list, unsigned) : 0;                                  \
        va_end(list);                                                                                        \
        if (FOREIGN || !fails(#name, 1)) return __real_##name arguments;                                     \
        errno = EMFILE;                                                                                      \
        return -1;                                                                                           \
    }
WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

/* ---- Errors of the library that are planted, once a call has failed ---- */

static bool is_planted(plant which) {
    return planted == which && atomic_load(&fired);
}

bool __real_rota_poison_find(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                             uint64_t before_number, rota_reason *out_reason);
bool __wrap_rota_poison_find(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                             uint64_t before_number, rota_reason *out_reason);
bool __wrap_rota_poison_find(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                             uint64_t before_number, rota_reason *out_reason) {
    return !is_planted(PLANT_FORGOTTEN) &&
           __real_rota_poison_find(runtime, root, begin, end, before_number, out_reason);
}

bool __real_rota_poison_of_work(rota_work *work, rota_reason *out_reason);
bool __wrap_rota_poison_of_work(rota_work *work, rota_reason *out_reason);
bool __wrap_rota_poison_of_work(rota_work *work, rota_reason *out_reason) {
    return !is_planted(PLANT_FORGOTTEN) && __real_rota_poison_of_work(work, out_reason);
}

bool __real_rota_judge_must_skip(const rota_work *work, const void *owner, uint32_t node,
                                 rota_reason *out_reason);
bool __wrap_rota_judge_must_skip(const rota_work *work, const void *owner, uint32_t node,
                                 rota_reason *out_reason);
bool __wrap_rota_judge_must_skip(const rota_work *work, const void *owner, uint32_t node,
                                 rota_reason *out_reason) {
    return !is_planted(PLANT_FORGOTTEN) && __real_rota_judge_must_skip(work, owner, node, out_reason);
}

void __real_rota_host_read_deliver(rota_host_read *read, uint8_t *out);
void __wrap_rota_host_read_deliver(rota_host_read *read, uint8_t *out);
void __wrap_rota_host_read_deliver(rota_host_read *read, uint8_t *out) {
    __real_rota_host_read_deliver(read, out);
    if (is_planted(PLANT_WRONG)) out[0] ^= 1;
}

rota_status __real_rota_fail(rota_status status, const char *format, ...);
rota_status __wrap_rota_fail(rota_status status, const char *format, ...);
rota_status __wrap_rota_fail(rota_status status, const char *format, ...) {
    char text[ROTA_ERROR_MESSAGE_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return __real_rota_fail(status, "%s", is_planted(PLANT_SILENT) ? "" : text);
}

void print_left(void) {
    for (uint32_t i = blocks_used; i-- > 1;)
        if (blocks[i].memory && blocks[i].frames[0]) {
            fprintf(stderr, "  left, perhaps:");
            for (uint32_t k = 0; k < FRAMES && blocks[i].frames[k]; k++)
                fprintf(stderr, " %tx", (char *)blocks[i].frames[k] - &__executable_start);
            fprintf(stderr, "\n");
        }
}
