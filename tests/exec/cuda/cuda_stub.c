/* The CUDA stand-in: its state, devices, contexts, memory and modules, and what tests call; see cuda_stub.h.
 * One mutex guards everything; the thread that runs work holds it while it does. */
#include "tests/exec/cuda/cuda_stub.h"

#ifdef ROTA_HAVE_CUDA
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "exec/address_kernels.h"
#include "exec/smoke_kernel.h"
#include "tests/exec/cuda/cuda_stub_internal.h"

static const char *const names[] = {
#define STUB_NAME(name, version, parameters) #name,
    ROTA_CUDA_FUNCTIONS(STUB_NAME) ROTA_CUDA_NEWER_FUNCTIONS(STUB_NAME)
#undef STUB_NAME
        NULL};

static const char *const kind_names[] = {"contexts", "streams", "events",      "graphs",  "executable graphs",
                                         "modules",  "memory",  "host memory", "handles", "reserved",
                                         "mapped",   "imports", "semaphores"};

_Thread_local bool stub_inside, stub_calls;
stub_state stub = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local CUcontext current[16];
static _Thread_local uint32_t depth;
static _Thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- Entering and leaving a call ---- */

void stub_violate(const char *what) {
    if (stub.violations++ == 0) snprintf(stub.violation, sizeof stub.violation, "%s", what);
}

static bool is_refused(int id) {
    static const int unsafe[] = {ID_EventQuery,       ID_StreamQuery, ID_StreamSynchronize, ID_MemAlloc,
                                 ID_MemFree,          ID_MemCreate,   ID_MemHostAlloc,      ID_MemFreeHost,
                                 ID_ModuleLoadDataEx, ID_GraphUpload};
    bool found = false;
    for (uint32_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++) found = found || unsafe[i] == id;
    return found && stub.captures_elsewhere && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult stub_enter(int id, bool in_context) {
    pthread_mutex_lock(&stub.lock);
    stub_inside = true;
    if (stub_calls) stub_violate("a call from a function on a stream");
    stub.calls[id]++;
    const CUresult told = stub.watch ? stub.watch(names[id]) : CUDA_SUCCESS;
    if (rota_cuda_is_fatal(told)) stub.sticky = told;
    if (told != CUDA_SUCCESS) return told;
    if (stub.fail_id == id && stub.calls[id] == stub.fail_at) {
        stub.fail_id = -1;
        if (rota_cuda_is_fatal(stub.fail_with)) stub.sticky = stub.fail_with;
        return stub.fail_with;
    }
    if (!in_context) return CUDA_SUCCESS;
    if (depth == 0) stub_violate(names[id]);
    if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (is_refused(id)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return stub_failed(stub_current());
}

CUresult stub_failed(CUcontext context) {
    if (stub.sticky || !context) return stub.sticky;
    return stub.lost >> ((int *)(void *)context - stub.retained) & 1 ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                                     : CUDA_SUCCESS;
}

CUresult stub_leave(CUresult result) {
    stub_inside = false;
    pthread_cond_broadcast(&stub.changed);
    pthread_mutex_unlock(&stub.lock);
    return result;
}

void *stub_take(int kind, size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) abort();
    stub.alive[kind]++;
    return memory;
}

void stub_give(int kind) {
    if (stub.alive[kind]-- == 0) stub_violate("something freed twice");
}

void stub_check_stream(CUstream stream) {
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        stub_violate("a default stream was used");
}

/* ---- Driver, devices, contexts ---- */

CUresult CUDAAPI stub_Init(unsigned flags) {
    (void)flags;
    ENTER_FREE(Init);
    return stub_leave(stub.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
}
CUresult CUDAAPI stub_DriverGetVersion(int *out) {
    ENTER_FREE(DriverGetVersion);
    *out = stub.version;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_GetErrorName(CUresult result, const char **out) {
    *out = result == CUDA_ERROR_OUT_OF_MEMORY        ? "CUDA_ERROR_OUT_OF_MEMORY"
           : result == CUDA_ERROR_ILLEGAL_ADDRESS    ? "CUDA_ERROR_ILLEGAL_ADDRESS"
           : result == CUDA_ERROR_INVALID_VALUE      ? "CUDA_ERROR_INVALID_VALUE"
           : result == CUDA_ERROR_DEVICE_UNAVAILABLE ? "CUDA_ERROR_DEVICE_UNAVAILABLE"
                                                     : "an error";
    return CUDA_SUCCESS;
}
CUresult CUDAAPI stub_GetErrorString(CUresult result, const char **out) {
    (void)result;
    *out = "as the stand-in was told";
    return CUDA_SUCCESS;
}
CUresult CUDAAPI stub_DeviceGetCount(int *out) {
    ENTER_FREE(DeviceGetCount);
    *out = stub.devices;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_DeviceGet(CUdevice *out, int ordinal) {
    ENTER_FREE(DeviceGet);
    *out = ordinal;
    return stub_leave(ordinal < stub.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}
CUresult CUDAAPI stub_DeviceGetName(char *out, int size, CUdevice device) {
    ENTER_FREE(DeviceGetName);
    snprintf(out, (size_t)size, "stand-in %d", device);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_DeviceTotalMem(size_t *out, CUdevice device) {
    (void)device;
    ENTER_FREE(DeviceTotalMem);
    *out = (size_t)1 << 30;
    return stub_leave(CUDA_SUCCESS);
}
/* All are one GPU, or each one of its own. */
CUresult CUDAAPI stub_DeviceGetUuid(CUuuid *out, CUdevice device) {
    ENTER_FREE(DeviceGetUuid);
    memset(out->bytes, stub.are_apart ? 7 + device : 7, sizeof out->bytes);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_DeviceGetAttribute(int *out, CUdevice_attribute which, CUdevice device) {
    (void)device;
    ENTER_FREE(DeviceGetAttribute);
    *out = 1;
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *out = 9;
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *out = 0;
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) *out = stub.compute_mode;
    if (which == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) *out = 232448;
    if (which == stub.lacking) *out = 0;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_DevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    ENTER_FREE(DevicePrimaryCtxRetain);
    if (stub.sticky) return stub_leave(stub.sticky);
    if (stub.retained[device]++ == 0) stub.alive[CONTEXT]++;
    *out = (CUcontext)(void *)&stub.retained[device];
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_DevicePrimaryCtxRelease(CUdevice device) {
    CUresult result = stub_enter(ID_DevicePrimaryCtxRelease, false);
    if (--stub.retained[device] == 0) stub_give(CONTEXT);
    for (uint32_t i = 0; i < depth; i++)
        if (current[i] == (CUcontext)(void *)&stub.retained[device])
            stub_violate("a context is released while it is current");
    return stub_leave(result);
}
CUcontext stub_current(void) {
    return depth ? current[depth - 1] : NULL;
}

uint32_t cuda_stub_current_device(void) {
    return (uint32_t)((int *)(void *)stub_current() - stub.retained);
}

CUresult CUDAAPI stub_CtxPushCurrent(CUcontext context) {
    ENTER_FREE(CtxPushCurrent);
    if (stub.retained[(int *)(void *)context - stub.retained] == 0)
        stub_violate("a released context is made current");
    current[depth++] = context;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_CtxPopCurrent(CUcontext *out) {
    CUresult result = stub_enter(ID_CtxPopCurrent, false);
    if (depth == 0) stub_violate("a context is popped that was not pushed");
    if (depth) *out = current[--depth];
    return stub_leave(result);
}

CUresult CUDAAPI stub_CtxGetDevice(CUdevice *out) {
    ENTER_FREE(CtxGetDevice);
    if (depth == 0) return stub_leave(CUDA_ERROR_INVALID_CONTEXT);
    *out = (CUdevice)((int *)(void *)current[depth - 1] - stub.retained);
    return stub_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI stub_ThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    ENTER_FREE(ThreadExchangeStreamCaptureMode);
    const CUstreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return stub_leave(CUDA_SUCCESS);
}

/* ---- Memory ---- */

CUresult CUDAAPI stub_MemGetInfo(size_t *out_free, size_t *out_total) {
    ENTER(MemGetInfo);
    *out_free = 12345;
    *out_total = (size_t)1 << 30;
    return stub_leave(CUDA_SUCCESS);
}
/* Aligned as CUDA does; the end is where a sanitizer looks for it. */
static void *bytes_of(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes ? bytes : 1) != 0) abort();
    memset(memory, 0xCD, bytes);
    return memory;
}
CUresult CUDAAPI stub_MemAlloc(CUdeviceptr *out, size_t bytes) {
    ENTER(MemAlloc);
    if (bytes > (size_t)1 << 30) return stub_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *out = (CUdeviceptr)(uintptr_t)bytes_of(bytes);
    uint32_t i = 0;
    while (i < MAPPINGS_MAX && stub.allocated[i].address) i++;
    if (i < MAPPINGS_MAX) stub.allocated[i] = (stub_mapping){.address = *out, .bytes = bytes};
    stub.alive[MEMORY]++;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemFree(CUdeviceptr address) {
    ENTER_END(MemFree);
    stub_give(MEMORY);
    for (uint32_t i = 0; i < MAPPINGS_MAX; i++)
        if (stub.allocated[i].address == address) stub.allocated[i].address = 0;
    for (uint32_t i = 0; i < MAPPINGS_MAX && address; i++)
        if (stub.mappings[i].address == address) {
            (void)munmap((void *)(uintptr_t)address, stub.mappings[i].bytes);
            stub.mappings[i].address = address = 0;
        }
    free((void *)(uintptr_t)address);
    return stub_leave(result_);
}
/* Of what cuMemAlloc gave, and of what is mapped; all of it is device 0's. */
CUresult CUDAAPI stub_PointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out,
                                           CUdeviceptr address) {
    ENTER(PointerGetAttributes);
    const stub_mapping *found = NULL;
    for (uint32_t i = 0; i < MAPPINGS_MAX; i++) {
        const stub_mapping *mapping = &stub.allocated[i];
        if (mapping->address && address >= mapping->address && address < mapping->address + mapping->bytes)
            found = mapping;
    }
    if (!found) found = stub_mapped_at(address);
    for (uint32_t i = 0; i < count; i++) switch ((int)attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)out[i] = found ? CU_MEMORYTYPE_DEVICE : 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)out[i] = found ? 0 : -2;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *(CUdeviceptr *)out[i] = found ? found->address : 0;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *(size_t *)out[i] = found ? found->bytes : 0;
            break;
        default:
            stub_violate("an attribute of a pointer that the stand-in does not know");
        }
    return stub_leave(CUDA_SUCCESS);
}
/* Not freed it is the context's for good, and no leak to a sanitizer: cuda_stub_alive says what is left. */
static void *pinned[MAPPINGS_MAX];
CUresult CUDAAPI stub_MemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    ENTER(MemHostAlloc);
    *out = bytes_of(bytes);
    uint32_t i = 0;
    while (i < MAPPINGS_MAX && pinned[i]) i++;
    if (i < MAPPINGS_MAX) pinned[i] = *out;
    stub.alive[HOST_MEMORY]++;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemHostGetDevicePointer(CUdeviceptr *out, void *host, unsigned flags) {
    (void)flags;
    ENTER(MemHostGetDevicePointer);
    *out = (CUdeviceptr)(uintptr_t)host;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemFreeHost(void *host) {
    ENTER_END(MemFreeHost);
    stub_give(HOST_MEMORY);
    for (uint32_t i = 0; i < MAPPINGS_MAX; i++)
        if (pinned[i] == host) pinned[i] = NULL;
    free(host);
    return stub_leave(result_);
}
CUresult CUDAAPI stub_MemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *properties,
                                                  CUmemAllocationGranularity_flags flags) {
    (void)properties, (void)flags;
    ENTER(MemGetAllocationGranularity);
    *out = 65536;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                                const CUmemAllocationProp *properties, unsigned long long flags) {
    (void)flags;
    ENTER(MemCreate);
    if (bytes % 65536 || properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return stub_leave(CUDA_ERROR_INVALID_VALUE);
    if (bytes > (size_t)1 << 30) return stub_leave(CUDA_ERROR_OUT_OF_MEMORY);
    int fd = memfd_create("stub", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) abort();
    *out = (CUmemGenericAllocationHandle)fd;
    stub.alive[HANDLE]++;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemRelease(CUmemGenericAllocationHandle handle) {
    ENTER_END(MemRelease);
    stub_give(HANDLE);
    if (close((int)handle) != 0) stub_violate("a handle is released that was not made");
    return stub_leave(result_);
}
CUresult CUDAAPI stub_MemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                                 CUmemAllocationHandleType type, unsigned long long flags) {
    (void)flags;
    ENTER(MemExportToShareableHandle);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    *(int *)out = dup((int)handle);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_ImportExternalMemory(CUexternalMemory *out,
                                           const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *from) {
    ENTER(ImportExternalMemory);
    struct stat about;
    if (from->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD || fstat(from->handle.fd, &about) != 0 ||
        from->size != (unsigned long long)about.st_size)
        return stub_leave(CUDA_ERROR_INVALID_VALUE);
    int *fd = stub_take(EXTERNAL, sizeof *fd);
    *fd = from->handle.fd;
    *out = (CUexternalMemory)(void *)fd;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_ExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory from,
                                                    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer) {
    ENTER(ExternalMemoryGetMappedBuffer);
    uint32_t i = 0;
    while (i < MAPPINGS_MAX && stub.mappings[i].address) i++;
    if (i == MAPPINGS_MAX || buffer->offset % 4096) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    void *bytes = mmap(NULL, buffer->size, PROT_READ | PROT_WRITE, MAP_SHARED, *(const int *)(void *)from,
                       (off_t)buffer->offset);
    if (bytes == MAP_FAILED) abort();
    *out = (CUdeviceptr)(uintptr_t)bytes;
    stub.mappings[i] = (stub_mapping){.address = *out, .bytes = buffer->size};
    stub.alive[MEMORY]++;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_DestroyExternalMemory(CUexternalMemory external) {
    ENTER_END(DestroyExternalMemory);
    stub_give(EXTERNAL);
    (void)close(*(int *)(void *)external);
    free(external);
    return stub_leave(result_);
}
/* ---- Modules and functions ---- */

CUresult CUDAAPI stub_ModuleLoadDataEx(CUmodule *out, const void *image, unsigned count,
                                       CUjit_option *options, void **values) {
    (void)image, (void)count, (void)options, (void)values;
    ENTER(ModuleLoadDataEx);
    *out = stub_take(MODULE, 1);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_ModuleUnload(CUmodule module) {
    ENTER_END(ModuleUnload);
    stub_give(MODULE);
    free(module);
    return stub_leave(result_);
}
CUresult CUDAAPI stub_ModuleGetFunction(CUfunction *out, CUmodule module, const char *entry) {
    (void)module;
    ENTER(ModuleGetFunction);
    for (uint32_t i = 0; i < stub.kernel_count; i++)
        if (strcmp(stub.kernels[i].entry, entry) == 0) {
            *out = (CUfunction)(void *)&stub.kernels[i];
            return stub_leave(CUDA_SUCCESS);
        }
    return stub_leave(CUDA_ERROR_NOT_FOUND);
}
static const stub_kernel starts_early = {.entry = "rota_starts_early"};
CUresult CUDAAPI stub_ModuleGetFunctionCount(unsigned *out, CUmodule module) {
    (void)module;
    ENTER(ModuleGetFunctionCount);
    *out = stub.kernel_count + stub.starts_early;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_ModuleEnumerateFunctions(CUfunction *out, unsigned count, CUmodule module) {
    (void)module;
    ENTER(ModuleEnumerateFunctions);
    for (unsigned i = 0; i < count; i++)
        out[i] = (CUfunction)(void *)(uintptr_t)(i < stub.kernel_count ? &stub.kernels[i] : &starts_early);
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_FuncGetName(const char **out, CUfunction function) {
    ENTER(FuncGetName);
    *out = ((const stub_kernel *)(void *)function)->entry;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_FuncGetAttribute(int *out, CUfunction_attribute which, CUfunction function) {
    (void)function;
    ENTER(FuncGetAttribute);
    *out = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_FuncGetParamInfo(CUfunction function, size_t index, size_t *out_offset,
                                       size_t *out_size) {
    const stub_kernel *kernel = (const stub_kernel *)(void *)function;
    ENTER(FuncGetParamInfo);
    if (index >= kernel->param_count) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    *out_offset = 0;
    for (size_t i = 0; i < index; i++) *out_offset += (kernel->param_bytes[i] + 63) / 64 * 64;
    *out_size = kernel->param_bytes[index];
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_FuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
    (void)function, (void)which, (void)value;
    ENTER(FuncSetAttribute);
    return stub_leave(CUDA_SUCCESS);
}

/* ---- What tests call ---- */

const rota_cuda_api *cuda_stub_api(void) {
    static const rota_cuda_api api = {
#define STUB_ENTRY(name, version, parameters) .name = stub_##name,
        ROTA_CUDA_FUNCTIONS(STUB_ENTRY) ROTA_CUDA_NEWER_FUNCTIONS(STUB_ENTRY)
#undef STUB_ENTRY
    };
    return &api;
}

void cuda_stub_start(uint64_t seed, int devices) {
    pthread_mutex_lock(&stub.lock);
    memset(stub.alive, 0, sizeof stub.alive);
    memset(stub.calls, 0, sizeof stub.calls);
    memset(stub.retained, 0, sizeof stub.retained);
    memset(stub.streams, 0, sizeof stub.streams);
    memset(stub.mappings, 0, sizeof stub.mappings);
    memset(stub.mapped, 0, sizeof stub.mapped);
    stub.seed = seed;
    stub.devices = devices;
    stub.are_apart = stub.out_of_reach = false;
    memset(stub.peers, 0, sizeof stub.peers);
    stub.version = 12040;
    stub.sticky = CUDA_SUCCESS;
    stub.lost = 0;
    stub.paused = stub.captures_elsewhere = stub.starts_early = false;
    stub.hang = stub.fault = NULL;
    stub.fail_id = -1;
    stub.lacking = 0;
    stub.compute_mode = CU_COMPUTEMODE_DEFAULT;
    stub.violations = 0;
    stub.violation[0] = 0;
    stub.kernel_count = 0;
    stub.watch = NULL;
    stub.running = true;
    pthread_mutex_unlock(&stub.lock);
    for (uint32_t i = 0; i < stub_own_kernel_count; i++)
        stub.kernels[stub.kernel_count++] = stub_own_kernels[i];
    cuda_stub_kernel(&rota_smoke_kernel);
    for (uint32_t i = 0; i < ROTA_ADDRESSED_MAX; i++) cuda_stub_kernel(&rota_address_kernels[i]);
    if (pthread_create(&stub.thread, NULL, stub_run_main, NULL) != 0) abort();
    rota_cuda_api_use(cuda_stub_api());
}

void cuda_stub_stop(void) {
    rota_cuda_api_use(NULL);
    pthread_mutex_lock(&stub.lock);
    stub.running = false;
    pthread_cond_broadcast(&stub.changed);
    pthread_mutex_unlock(&stub.lock);
    pthread_join(stub.thread, NULL);
}

void cuda_stub_kernel(const rota_kernel *kernel) {
    if (stub.kernel_count == KERNELS_MAX) abort();
    stub.kernels[stub.kernel_count++] = stub_kernel_of(kernel);
}

uint32_t cuda_stub_alive(char *out_text, size_t text_bytes) {
    uint32_t sum = 0;
    size_t used = 0;
    if (text_bytes) out_text[0] = 0;
    pthread_mutex_lock(&stub.lock);
    for (int k = 0; k < KIND_COUNT; k++) {
        sum += stub.alive[k];
        if (stub.alive[k] && used < text_bytes)
            used +=
                (size_t)snprintf(out_text + used, text_bytes - used, "%u %s ", stub.alive[k], kind_names[k]);
    }
    pthread_mutex_unlock(&stub.lock);
    return sum;
}

uint32_t cuda_stub_violations(char *out_text, size_t text_bytes) {
    pthread_mutex_lock(&stub.lock);
    uint32_t count = stub.violations;
    if (text_bytes) snprintf(out_text, text_bytes, "%s", stub.violation);
    pthread_mutex_unlock(&stub.lock);
    return count;
}

static int id_of(const char *name) {
    for (int i = 0; i < ID_COUNT; i++)
        if (strcmp(names[i], name) == 0) return i;
    abort();
}

void cuda_stub_fail(const char *name, uint32_t skip, CUresult result) {
    pthread_mutex_lock(&stub.lock);
    stub.fail_id = id_of(name);
    stub.fail_at = stub.calls[stub.fail_id] + skip + 1;
    stub.fail_with = result;
    pthread_mutex_unlock(&stub.lock);
}

uint64_t cuda_stub_calls(const char *name) {
    pthread_mutex_lock(&stub.lock);
    uint64_t calls = stub.calls[id_of(name)];
    pthread_mutex_unlock(&stub.lock);
    return calls;
}

const char *cuda_stub_name(uint32_t index) {
    return index < ID_COUNT ? names[index] : NULL;
}

#define SET(field, value)                                                                                    \
    pthread_mutex_lock(&stub.lock);                                                                          \
    stub.field = value;                                                                                      \
    pthread_cond_broadcast(&stub.changed);                                                                   \
    pthread_mutex_unlock(&stub.lock)

void cuda_stub_watch(CUresult (*watch)(const char *name)) {
    SET(watch, watch);
}
bool cuda_stub_is_inside(void) {
    return stub_inside;
}
void cuda_stub_pause(bool paused) {
    SET(paused, paused);
}
void cuda_stub_capture_elsewhere(bool captures) {
    SET(captures_elsewhere, captures);
}
void cuda_stub_hang_after(const char *entry, uint32_t count) {
    SET(hang_after, count);
    SET(hang, entry);
}
void cuda_stub_hang(const char *entry) {
    SET(hang_after, 0);
    SET(hang, entry);
}
void cuda_stub_fault(const char *entry) {
    SET(fault, entry);
}
void cuda_stub_lose(uint32_t device) {
    SET(lost, stub.lost | 1u << device);
}
void cuda_stub_lack(CUdevice_attribute attribute) {
    SET(lacking, attribute);
}
void cuda_stub_gpus_out_of_reach(void) {
    SET(out_of_reach, true);
}
void cuda_stub_gpus_apart(void) {
    SET(are_apart, true);
}
void cuda_stub_version(int version) {
    SET(version, version);
}
void cuda_stub_starts_early(bool early) {
    SET(starts_early, early);
}
void cuda_stub_capture_clusters(uint32_t blocks) {
    stub.captured_cluster = blocks;
}
void cuda_stub_compute_mode(int mode) {
    SET(compute_mode, mode);
}

cuda_stub_graph cuda_stub_last_graph(void) {
    pthread_mutex_lock(&stub.lock);
    cuda_stub_graph last = stub.last;
    pthread_mutex_unlock(&stub.lock);
    return last;
}
#endif
