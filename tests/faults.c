/* Every allocation, every thread that is started and every driver call fails once, in a run of: open,
 * compile, first and 100th replay, read, write, close. After each: what failed says so in a sentence, what is
 * OK is right, the other device works, nothing is left. A point is a call by its place (a hash of the stack),
 * the phase, and its number there. Linked with --wrap for what it counts.
 *
 * rota-faults [--device cpu|cuda-stub|vk:0] [--full] [--sample N] [--seed S] [--only N] [--verbose] */
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/arena.h"
#include "exec/vk/vk_loader.h"
#include "rota.h"
#include "tests/cuda_stub.h"
#include "tests/kernels.h"
#include "tests/random.h"

/* ---- Points ---- */

enum { FRAMES = 8, PLACES_MAX = 1 << 14, POINTS_MAX = 1 << 16, BLOCKS_MAX = 1 << 18, RESULTS_MAX = 2 };
enum {
    OPEN,
    DEVICE,
    BUFFERS,
    RECORD,
    COMPILE,
    FIRST,
    BETWEEN,
    HUNDREDTH,
    READ,
    WRITE,
    RELEASE,
    CLOSE,
    PHASES
};
static const char *const phase_names[PHASES] = {"open",    "device",       "buffers", "record",
                                                "compile", "first replay", "replay",  "100th replay",
                                                "read",    "write",        "release", "close"};

typedef struct place {
    uint64_t key; /* 0: free */
    uint32_t count, seen;
    int phase;
    const char *call;
    uint32_t results; /* different ones that it can fail with */
    void *frames[FRAMES];
} place;

static place places[PLACES_MAX];
static struct { uint32_t place, ordinal, result; } points[POINTS_MAX];
static uint32_t point_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool counting;
static atomic_int phase;
static uint32_t wanted_place = UINT32_MAX, wanted_ordinal;
static atomic_bool fired;
static void *outermost; /* where main calls run_once: compilers have several copies of the call */
extern char __executable_start;

/* Whether this call is to fail. */
static bool fails(const char *call, uint32_t results) {
    if (!atomic_load_explicit(&counting, memory_order_acquire)) return false;
    void *frames[FRAMES + 2];
    const int depth = backtrace(frames, FRAMES + 2);
    uint64_t key = 1469598103934665603u ^ (uint64_t)atomic_load(&phase);
    for (int i = 2; i < depth && frames[i] != outermost; i++)
        key = (key ^ (uint64_t)(uintptr_t)frames[i]) * 1099511628211u;
    for (const char *c = call; *c; c++) key = (key ^ (uint64_t)*c) * 1099511628211u;
    key |= 1;
    pthread_mutex_lock(&lock);
    uint32_t at = (uint32_t)(key >> 20) % PLACES_MAX;
    while (places[at].key && places[at].key != key) at = (at + 1) % PLACES_MAX;
    place *p = &places[at];
    if (!p->key) {
        *p = (place){.key = key, .phase = atomic_load(&phase), .call = call, .results = results};
        for (int i = 2; i < depth; i++) p->frames[i - 2] = frames[i];
    }
    const bool hit = ++p->seen == wanted_ordinal && at == wanted_place;
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
static uint32_t heads[BLOCKS_MAX], free_blocks, blocks_used = 1, live;

static uint32_t bucket_of(const void *memory) {
    return (uint32_t)(((uintptr_t)memory >> 4) * 2654435761u) % BLOCKS_MAX;
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
    for (uint32_t *at = &heads[bucket_of(memory)]; *at; at = &blocks[*at].next)
        if (blocks[*at].memory == memory) {
            const uint32_t b = *at;
            *at = blocks[b].next;
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

static atomic_uint wanted_result;

#ifdef ROTA_HAVE_CUDA
static CUresult ask(const char *name) {
    static const CUresult results[RESULTS_MAX] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_FAILED};
    return fails(name, RESULTS_MAX) ? results[wanted_result] : CUDA_SUCCESS;
}
#endif

static int made; /* Vulkan objects, less those that were destroyed; under the lock */
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
static atomic_bool vk_lost;
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

/* ---- One run ---- */

enum { WORDS = 256, BYTES = WORDS * 4, LARGE_WORDS = 70000, REPLAYS = 100, PATIENCE_S = 20 };

typedef struct run {
    rota_runtime *runtime;
    rota_device *devices[2]; /* under test; the other */
    rota_buffer *x, *y, *z, *large;
    rota_graph *graph;
    rota_buffer *in, *out;
    rota_slot p, seed;
    rota_plan *plan;
    rota_args *args;
    bool lost, failed; /* the device under test; any call */
    uint32_t mx[WORDS], my[WORDS], mz[WORDS], input[WORDS], output[WORDS];
    char trouble[1024];
} run;

static void trouble(run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void trouble(run *r, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (!r->trouble[0]) (void)vsnprintf(r->trouble, sizeof r->trouble, format, list);
    va_end(list);
}

/* Takes note of a status, and of what is wrong with it. */
static bool good(run *r, const char *what, rota_status status) {
    if (status == ROTA_OK) return true;
    const char *says = rota_last_error();
    if (status == ROTA_DEVICE_LOST || status == ROTA_REFUSED) r->lost = true;
    if (!atomic_load(&fired))
        trouble(r, "%s: %s before anything failed: %s", what, rota_status_name(status), says);
    if (status == ROTA_TIMEOUT || status == ROTA_INTERNAL || status == ROTA_BUSY || !strchr(says, ' '))
        trouble(r, "%s: %s: '%s'", what, rota_status_name(status), says);
    r->failed = true;
    return false;
}

/* One thing failed once: what is asked for again succeeds, unless the device is lost. */
#define AGAIN(call)                                                                                          \
    do {                                                                                                     \
        rota_status status_ = (call);                                                                        \
        if (!good(r, #call, status_)) {                                                                      \
            status_ = (call);                                                                                \
            if (!good(r, #call, status_) && !r->lost) trouble(r, "again: %s: %s", #call, rota_last_error()); \
            if (status_ != ROTA_OK) return false;                                                            \
        }                                                                                                    \
    } while (0)

static void run_kernel(uint32_t k, const test_params *params, uint32_t *a, uint32_t *b) {
    void *operands[] = {a, b};
    const uint64_t bytes[] = {BYTES, BYTES};
    const rota_kernel_call call = {operands, params, 0, WORDS, WORDS, 2, bytes};
    (void)test_kernels[k].kernel.cpu.fn(&call);
}

static const uint32_t mixed_in = 5;
static void model(run *r, uint32_t p, uint64_t seed) {
    test_params varying = {WORDS, WORDS, p, 0, seed}, fixed = {WORDS, WORDS, 1, 0, 2};
    uint32_t t[WORDS];
    run_kernel(TEST_KERNEL_map, &fixed, r->input, t);
    run_kernel(TEST_KERNEL_update, &varying, r->mx, t);
    for (uint32_t i = 0; i < WORDS; i++) t[i] = test_mix(i < WORDS / 2 ? r->mx[i] : 9, mixed_in);
    run_kernel(TEST_KERNEL_map, &fixed, t, r->my);
    run_kernel(TEST_KERNEL_map, &fixed, r->my, r->mz);
}

static rota_status record_kernel(rota_recorder *recorder, uint32_t k, rota_buffer *a, rota_buffer *b,
                                 uint32_t device, const rota_param_binding *bindings) {
    const test_params params = {WORDS, WORDS, 1, 0, 2};
    const rota_param_binding constant = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    const rota_access accesses[] = {{a, 0, ROTA_WHOLE, test_kernels[k].operands[0].mode},
                                    {b, 0, ROTA_WHOLE, test_kernels[k].operands[1].mode}};
    return rota_record_kernel(recorder,
                              &(rota_kernel_node){.kernel = &test_kernels[k].kernel,
                                                  .accesses = accesses,
                                                  .access_count = 2,
                                                  .params = &params,
                                                  .bindings = bindings ? bindings : &constant,
                                                  .binding_count = bindings ? 2 : 1,
                                                  .placement = {.device_plus_1 = device + 1}},
                              NULL);
}

static bool record(run *r) {
    rota_recorder *recorder = NULL;
    rota_buffer *t[4];
    AGAIN(rota_graph_create(&(rota_graph_options){.name = "faults"}, &r->graph));
    AGAIN(rota_graph_buffer(r->graph, ROTA_BUFFER_INPUT, "in", BYTES, &r->in));
    AGAIN(rota_graph_buffer(r->graph, ROTA_BUFFER_OUTPUT, "out", BYTES, &r->out));
    for (uint32_t i = 0; i < 4; i++)
        AGAIN(rota_graph_buffer(r->graph, ROTA_BUFFER_TRANSIENT, "t", BYTES, &t[i]));
    AGAIN(rota_graph_slot(r->graph, "p", 4, &r->p));
    AGAIN(rota_graph_slot(r->graph, "seed", 8, &r->seed));
    AGAIN(rota_recorder_open(r->graph, 0, NULL, &recorder));
    const rota_param_binding slots[] = {{TEST_BIND_P, r->p}, {TEST_BIND_SEED, r->seed}};
    AGAIN(record_kernel(recorder, TEST_KERNEL_map, r->in, t[0], 0, NULL));
    AGAIN(record_kernel(recorder, TEST_KERNEL_update, r->x, t[0], 0, slots));
    AGAIN(rota_record_fill(recorder, t[1], 0, BYTES, 9, NULL));
    AGAIN(rota_record_copy(recorder, t[1], 0, r->x, 0, BYTES / 2, NULL));
    const rota_access host[] = {{t[1], 0, ROTA_WHOLE, ROTA_READ}, {t[2], 0, ROTA_WHOLE, ROTA_WRITE}};
    AGAIN(rota_record_host(
        recorder, &(rota_host_node){test_host_function, (void *)(uintptr_t)&mixed_in, NULL, host, 2}, NULL));
    AGAIN(record_kernel(recorder, TEST_KERNEL_map, t[2], r->y, 0, NULL));
    AGAIN(record_kernel(recorder, TEST_KERNEL_map, r->y, r->z, 1, NULL));
    AGAIN(rota_record_copy(recorder, r->out, 0, r->y, 0, BYTES, NULL));
    rota_recorder_close(recorder);
    return true;
}

/* A read is right or it fails; once more it succeeds, unless what it reads failed. */
static bool check(run *r, rota_buffer *buffer, const uint32_t *expected, bool may_fail) {
    uint32_t words[WORDS];
    const char *name = rota_buffer_name(buffer);
    for (uint32_t turn = 0; turn < 2; turn++) {
        memset(words, 0xee, sizeof words);
        const rota_status status = rota_buffer_read(buffer, 0, words, sizeof words);
        if (good(r, name, status)) {
            if (memcmp(words, expected, sizeof words) != 0)
                trouble(r, "'%s' is read as OK, and is wrong", name);
            return true;
        }
    }
    if (!may_fail && !r->lost) trouble(r, "reading '%s' again: %s", name, rota_last_error());
    return false;
}

/* False: it failed, and what it writes is either failed or as if it had not. */
static bool replay(run *r, uint32_t number) {
    rota_ticket ticket = {0};
    AGAIN(rota_args_set_u32(r->args, r->p, number));
    AGAIN(rota_args_set_u64(r->args, r->seed, 7 * number));
    for (uint32_t i = 0; i < WORDS; i++) r->input[i] = number + i;
    memset(r->output, 0xee, sizeof r->output);
    AGAIN(rota_submit_wait(r->plan, r->args, 0, &ticket));
    model(r, number, 7 * number);
    if (good(r, "replay", rota_wait(ticket, 0))) {
        if (memcmp(r->output, r->my, BYTES) != 0)
            trouble(r, "replay %u is OK and its output is wrong", number);
        return true;
    }
    (void)check(r, r->x, r->mx, true);
    (void)check(r, r->y, r->my, true);
    (void)check(r, r->z, r->mz, true);
    return false;
}

static bool replays(run *r, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        atomic_store(&phase, i == 0 ? FIRST : i == REPLAYS - 1 ? HUNDREDTH : BETWEEN);
        if (replay(r, i)) continue;
        if (r->lost) return false;
        for (uint32_t k = 0; k < WORDS; k++) r->mx[k] = k; /* what overwrites all of it heals it */
        AGAIN(rota_buffer_write(r->x, r->devices[0], 0, r->mx, BYTES, NULL));
        if (!replay(r, i) && !r->lost) trouble(r, "replay %u fails again: %s", i, rota_last_error());
        if (r->lost) return false;
    }
    return true;
}

static bool middle(run *r, const char *id) {
    static uint32_t large[LARGE_WORDS], back[LARGE_WORDS];
    atomic_store(&phase, DEVICE);
    AGAIN(rota_device_open(r->runtime, id, &r->devices[0]));
    atomic_store(&phase, BUFFERS);
    AGAIN(rota_runtime_buffer(r->runtime, "x", BYTES, &r->x));
    AGAIN(rota_runtime_buffer(r->runtime, "y", BYTES, &r->y));
    AGAIN(rota_runtime_buffer(r->runtime, "z", BYTES, &r->z));
    AGAIN(rota_runtime_buffer(r->runtime, "large", sizeof large, &r->large));
    for (uint32_t i = 0; i < WORDS; i++) r->mx[i] = i;
    AGAIN(rota_buffer_write(r->x, r->devices[0], 0, r->mx, BYTES, NULL));
    if (!check(r, r->x, r->mx, true)) {
        if (r->lost) return false;
        AGAIN(rota_buffer_write(r->x, r->devices[0], 0, r->mx, BYTES, NULL));
    }
    atomic_store(&phase, RECORD);
    if (!record(r)) return false;
    atomic_store(&phase, COMPILE);
    const rota_compile_options options = {
        .devices = r->devices, .device_count = 2, .queues = 2, .certify = true};
    AGAIN(rota_compile(r->runtime, r->graph, &options, &r->plan));
    AGAIN(rota_args_create(r->plan, &r->args));
    AGAIN(rota_args_set_input(r->args, r->in, r->input, BYTES, true));
    AGAIN(rota_args_set_output(r->args, r->out, r->output, BYTES));
    if (!replays(r, 0, REPLAYS)) return false;
    atomic_store(&phase, READ);
    if (!check(r, r->x, r->mx, false) || !check(r, r->y, r->my, false) || !check(r, r->z, r->mz, false))
        return false;
    for (uint32_t turn = 0; turn < 2; turn++) {
        rota_ticket ticket;
        memset(back, 0xee, BYTES);
        AGAIN(rota_buffer_read_async(r->y, 0, back, BYTES, &ticket));
        const bool is_good = good(r, "asynchronous read", rota_wait(ticket, 0));
        if (is_good && memcmp(back, r->my, BYTES) != 0)
            trouble(r, "an asynchronous read is OK, and is wrong");
        if (!is_good && back[0] != 0xeeeeeeee)
            trouble(r, "an asynchronous read failed, and changed the memory");
        if (is_good) break;
    }
    atomic_store(&phase, WRITE);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < LARGE_WORDS; i++) large[i] = i * 3;
        AGAIN(rota_buffer_write(r->large, r->devices[0], 0, large, sizeof large, NULL));
        const rota_status status = rota_buffer_read(r->large, 0, back, sizeof back);
        if (!good(r, "large", status)) continue;
        if (memcmp(large, back, sizeof back) != 0) trouble(r, "'large' is read as OK, and is wrong");
        break;
    }
    return true;
}

/* What the other device does, whatever happened to the first. */
static void try_other(run *r) {
    uint32_t words[WORDS], back[WORDS] = {0};
    rota_buffer *buffer = NULL;
    for (uint32_t i = 0; i < WORDS; i++) words[i] = i * 11;
    rota_status status = rota_runtime_buffer(r->runtime, "others", BYTES, &buffer);
    if (status == ROTA_OK) status = rota_buffer_write(buffer, r->devices[1], 0, words, BYTES, NULL);
    if (status == ROTA_OK) status = rota_buffer_read(buffer, 0, back, BYTES);
    if (status != ROTA_OK)
        trouble(r, "the other device: %s: %s", rota_status_name(status), rota_last_error());
    else if (memcmp(words, back, BYTES) != 0)
        trouble(r, "the other device's bytes are wrong");
    rota_buffer_release(buffer);
}

static const char *under_test = "cpu";
static bool verbose;

__attribute__((noinline)) static void run_once(run *r) {
    outermost = __builtin_return_address(0);
    const bool is_stub = strcmp(under_test, "vk:0") != 0;
    *r = (run){0};
    atomic_store(&fired, false);
    atomic_store(&vk_lost, false);
    rota_chunk_cache_trim();
    for (uint32_t i = 0; i < PLACES_MAX; i++) places[i].seen = 0;
    const uint32_t before = live, abandoned = rota_devices_abandoned();
    const int made_before = made;
#ifdef ROTA_HAVE_CUDA
    if (is_stub) {
        cuda_stub_start(1, 1);
        for (uint32_t k = 0; k < TEST_KERNEL_COUNT; k++) cuda_stub_kernel(&test_kernels[k].kernel);
        if (strcmp(under_test, "cuda-stub") == 0) cuda_stub_watch(ask);
    }
#endif
    const char *ids[2] = {strcmp(under_test, "cuda-stub") == 0 ? "cuda:0" : under_test,
                          strcmp(under_test, "cpu") == 0 ? "cuda:0" : "cpu"};
    const rota_runtime_options options = {.timeout_ns = 8000000000u,
                                          .worker_threads = 2,
                                          .staging_slots = 2,
                                          .staging_slot_bytes = 65536,
                                          .cache_dir = ""};
    atomic_store(&phase, OPEN);
    atomic_store(&counting, true);
    rota_status status = rota_runtime_open(&options, &r->runtime);
    if (!good(r, "open", status)) status = rota_runtime_open(&options, &r->runtime);
    atomic_store(&counting, false);
    if (status == ROTA_OK) status = rota_device_open(r->runtime, ids[1], &r->devices[1]);
    if (status != ROTA_OK) {
        trouble(r, "opening again, or the other device: %s", rota_last_error());
        return;
    }
    atomic_store(&counting, true);
    (void)middle(r, ids[0]);
    atomic_store(&counting, false); /* what is new there would fail with reason */
    try_other(r);
    atomic_store(&counting, true);
    atomic_store(&phase, RELEASE);
    rota_args_release(r->args);
    rota_plan_release(r->plan);
    rota_graph_release(r->graph);
    rota_buffer_release(r->x);
    rota_buffer_release(r->y);
    rota_buffer_release(r->z);
    rota_buffer_release(r->large);
    atomic_store(&phase, CLOSE);
    status = rota_runtime_close(r->runtime, 0);
    atomic_store(&counting, false);
    if (status != ROTA_OK) trouble(r, "close: %s: %s", rota_status_name(status), rota_last_error());
    rota_chunk_cache_trim();
    if (rota_devices_abandoned() != abandoned) trouble(r, "a device was abandoned");
#ifdef ROTA_HAVE_CUDA
    if (is_stub) {
        char text[256];
        if (cuda_stub_alive(text, sizeof text)) trouble(r, "left in the driver: %s", text);
        if (cuda_stub_violations(text, sizeof text)) trouble(r, "violated: %s", text);
        cuda_stub_stop();
    }
#endif
    /* The loader keeps one instance from the first run on. */
    if (wanted_place != UINT32_MAX && made != made_before)
        trouble(r, "%d objects left in the driver", made - made_before);
    if (wanted_place != UINT32_MAX && live != before) {
        trouble(r, "%d blocks of memory left", (int)(live - before));
        for (uint32_t i = blocks_used; verbose && i-- > 1;)
            if (blocks[i].memory && blocks[i].frames[0]) {
                fprintf(stderr, "  left, perhaps:");
                for (uint32_t k = 0; k < FRAMES && blocks[i].frames[k]; k++)
                    fprintf(stderr, " %tx", (char *)blocks[i].frames[k] - &__executable_start);
                fprintf(stderr, "\n");
            }
    }
}

/* ---- All points ---- */

static uint32_t current = UINT32_MAX;

static void describe(uint32_t number) {
    const place *p = &places[points[number].place];
    fprintf(stderr, "point %u: %s, %s, number %u, result %u, at", number, phase_names[p->phase], p->call,
            points[number].ordinal, points[number].result);
    for (uint32_t i = 0; i < FRAMES && p->frames[i]; i++)
        fprintf(stderr, " %tx", (char *)p->frames[i] - &__executable_start);
    fprintf(stderr, "\n");
}

/* A hang or a crash says where. */
static void fatal(int signal_number) {
    fprintf(stderr, "signal %d at ", signal_number);
    if (current != UINT32_MAX) describe(current);
    _exit(3);
}

static void list_points(void) {
    uint32_t per_phase[PHASES] = {0}, place_count = 0;
    for (uint32_t p = 0; p < PLACES_MAX; p++) {
        if (!places[p].key) continue;
        place_count++;
        places[p].count = places[p].seen;
        for (uint32_t n = 1; n <= places[p].count && point_count + RESULTS_MAX < POINTS_MAX; n++)
            for (uint32_t result = 0; result < places[p].results; result++) {
                points[point_count].place = p;
                points[point_count].ordinal = n;
                points[point_count++].result = result;
                per_phase[places[p].phase]++;
            }
    }
    fprintf(stderr, "%s: %u points at %u places:", under_test, point_count, place_count);
    for (int i = 0; i < PHASES; i++) fprintf(stderr, " %s %u", phase_names[i], per_phase[i]);
    fprintf(stderr, "\n");
}

int main(int argc, char **argv) {
    bool full = false;
    uint64_t seed = 1;
    uint32_t sample = 50, only = UINT32_MAX;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0) full = true;
        if (strcmp(argv[i], "--verbose") == 0) verbose = true;
        if (i + 1 == argc) continue;
        if (strcmp(argv[i], "--device") == 0) under_test = argv[i + 1];
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--sample") == 0) sample = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--only") == 0) only = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    }
#ifdef ROTA_HAVE_CUDA
    if (!test_kernels[0].kernel.cuda.image) return 77;
#else
    if (strcmp(under_test, "vk:0") != 0) return 77;
#endif
    (void)signal(SIGALRM, fatal);
#ifndef __SANITIZE_ADDRESS__
    (void)signal(SIGSEGV, fatal);
    (void)signal(SIGABRT, fatal);
#endif
    static run r;
    uint32_t runs = 0, missed = 0, troubles = 0, number = 0;
    /* The first two without a failure: what is made once a process is there after the first, and the second's
     * places are counted. All runs are called from here, as that is part of their places. */
    for (uint32_t turn = 0; turn < 2 || number < point_count; turn++) {
        if (turn == 1) memset(places, 0, sizeof places);
        if (turn >= 2) {
            const uint32_t now = number++;
            const bool is_sample = sample && test_random(&seed) % point_count < sample;
            if (only != UINT32_MAX ? now != only : !full && points[now].ordinal > 1 && !is_sample) continue;
            wanted_place = points[now].place;
            wanted_ordinal = points[now].ordinal;
            wanted_result = points[now].result;
            current = now;
            if (verbose) describe(now);
        }
        (void)alarm(PATIENCE_S);
        run_once(&r);
        if (turn < 2 && r.trouble[0]) {
            fprintf(stderr, "without any failure: %s\n", r.trouble);
            return strstr(r.trouble, "there is no device") ? 77 : 1;
        }
        if (turn == 1) list_points();
        if (turn < 2) continue;
        runs++;
        missed += !atomic_load(&fired);
        if (verbose && !atomic_load(&fired)) fprintf(stderr, "  not reached\n");
        if (!r.trouble[0]) continue;
        troubles++;
        describe(current);
        fprintf(stderr, "  %s\n", r.trouble);
    }
    (void)alarm(0);
    fprintf(stderr, "%s: %u runs, %u points not reached, %u with trouble\n", under_test, runs, missed,
            troubles);
    return troubles ? 1 : 0;
}
