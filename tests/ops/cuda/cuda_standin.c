/* A stand-in for the few functions of the CUDA driver that ops call, built as a library of the driver's name:
 * contexts are counted, device memory is the host's, kernels are counted and take the time that a test gives
 * them. Every other function fails. */
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Contexts pushed and retained that were not popped and released. */
EXPORT int standin_pushed, standin_retained;
/* Kernels launched, what each takes, and the time that has passed. */
EXPORT int standin_launches;
/* ... of which the blocks all run at the same time. */
EXPORT int standin_together;
EXPORT const char
    *standin_newer; /* a function that the driver says is of a later version than was asked for */
EXPORT double standin_launch_ms, standin_clock_ms;
EXPORT double
    standin_first_launch_ms; /* what a graph's first launch takes more, of those instantiated from now on */
EXPORT int standin_captures, standin_refuses_capture; /* a stream is being captured; none can be */
EXPORT int standin_breaks_capture;                    /* the one under way ends with an error */

static struct CUctx_st { int nothing; } context;

static CUresult get_error_name(CUresult error, const char **name) {
    (void)error;
    *name = "an error of the stand-in";
    return CUDA_SUCCESS;
}
static CUresult device_get(CUdevice *device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
}
static CUresult retain(CUcontext *out, CUdevice device) {
    (void)device;
    standin_retained++;
    *out = &context;
    return CUDA_SUCCESS;
}
static CUresult release(CUdevice device) {
    (void)device;
    standin_retained--;
    return CUDA_SUCCESS;
}
static CUresult push(CUcontext given) {
    standin_pushed++;
    return given == &context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
static CUresult pop(CUcontext *out) {
    standin_pushed--;
    *out = &context;
    return CUDA_SUCCESS;
}
static CUresult current(CUcontext *out) {
    *out = standin_pushed > 0 ? &context : NULL;
    return CUDA_SUCCESS;
}
static CUresult id(CUcontext given, unsigned long long *out) {
    *out = 7;
    return given == &context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- Events, memory, kernels ---- */

struct CUevent_st {
    double ms;
};
static struct CUevent_st events[2];
static int next_event;
static unsigned int shared_bytes_allowed = 48 * 1024;

static void *pointer_to(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}
static CUresult event_create(CUevent *out, unsigned int flags) {
    (void)flags;
    *out = &events[next_event++ % 2];
    return CUDA_SUCCESS;
}
static CUresult event_nothing(CUevent event) {
    return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
static CUresult event_record(CUevent event, CUstream stream) {
    event->ms = standin_clock_ms;
    return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
static CUresult event_elapsed(float *out, CUevent begin, CUevent end) {
    *out = (float)(end->ms - begin->ms);
    return CUDA_SUCCESS;
}
static CUresult synchronize(CUstream stream) {
    return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
/* What is captured takes no time until it is launched. */
struct CUgraph_st {
    double ms, first_ms; /* of its runs, and what its first launch takes more */
};
static struct CUgraph_st captured, repeated;
static double capture_begin_ms;
static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode) {
    (void)mode;
    if (standin_refuses_capture) return CUDA_ERROR_NOT_SUPPORTED;
    standin_captures = 1;
    capture_begin_ms = standin_clock_ms;
    return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
static CUresult end_capture(CUstream stream, CUgraph *out) {
    if (!standin_captures) return CUDA_ERROR_ILLEGAL_STATE;
    standin_captures = 0;
    captured.ms = standin_clock_ms - capture_begin_ms;
    standin_clock_ms = capture_begin_ms;
    if (standin_breaks_capture) {
        standin_breaks_capture = 0;
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *out = &captured;
    return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
static CUresult create_graph(CUgraph *out, unsigned int flags) {
    repeated.ms = 0;
    *out = &repeated;
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult add_graph(CUgraphNode *out, CUgraph to, const CUgraphNode *before, size_t count,
                          CUgraph child) {
    static char node;
    if (count != (to->ms > 0) || (count && !before[0]))
        return CUDA_ERROR_INVALID_VALUE; /* one after the other */
    to->ms += child->ms;
    *out = (CUgraphNode)(void *)&node;
    return CUDA_SUCCESS;
}
static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    *out = (CUgraphExec)(void *)graph;
    graph->first_ms = standin_first_launch_ms;
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult launch_graph(CUgraphExec exec, CUstream stream) {
    CUgraph graph = (CUgraph)(void *)exec;
    standin_clock_ms += graph->ms + graph->first_ms;
    graph->first_ms = 0;
    return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
static CUresult destroy_exec(CUgraphExec exec) {
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
static CUresult destroy_graph(CUgraph graph) {
    return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
static CUresult copy_down(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    memcpy(pointer_to(to), from, bytes);
    return synchronize(stream);
}
static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_down(to, pointer_to(from), bytes, stream);
}
static CUresult copy_up(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    memcpy(to, pointer_to(from), bytes);
    return synchronize(stream);
}
static CUresult load(CUlibrary *out, const void *image, CUjit_option *options, void **values,
                     unsigned int count, CUlibraryOption *library_options, void **library_values,
                     unsigned int library_count) {
    static char one;
    (void)options, (void)values, (void)count;
    (void)library_options, (void)library_values, (void)library_count;
    *out = (CUlibrary)(void *)&one;
    return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult get_kernel(CUkernel *out, CUlibrary library, const char *name) {
    *out = (CUkernel)(void *)library;
    shared_bytes_allowed = 48 * 1024;
    return name[0] ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
static CUresult set_attribute(CUfunction function, CUfunction_attribute attribute, int value) {
    if (!function || attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 227 * 1024)
        return CUDA_ERROR_INVALID_VALUE;
    shared_bytes_allowed = (unsigned int)value;
    return CUDA_SUCCESS;
}
static CUresult get_function(CUfunction *out, CUkernel kernel) {
    *out = (CUfunction)(void *)kernel;
    return CUDA_SUCCESS;
}
static CUresult launch(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    if (!function || !parameters || extra || config->sharedMemBytes > shared_bytes_allowed)
        return CUDA_ERROR_INVALID_VALUE;
    standin_launches++;
    for (unsigned int i = 0; i < config->numAttrs; i++)
        standin_together += config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
                            config->attrs[i].value.cooperative && config->gridDimX <= 132;
    standin_clock_ms += standin_launch_ms;
    return synchronize(config->hStream);
}
/* As the driver looks at them; the map says nothing. */
static CUresult encode(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *address,
                       const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *boxes,
                       const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    (void)type, (void)interleave, (void)promotion, (void)fill;
    bool right = (uintptr_t)address % 16 == 0;
    for (cuuint32_t i = 0; i < rank; i++)
        right = right && extents[i] > 0 && boxes[i] > 0 && boxes[i] <= 256 && steps[i] == 1;
    for (cuuint32_t i = 0; i + 1 < rank; i++)
        right = right && strides[i] > 0 && strides[i] % 16 == 0 && strides[i] < UINT64_C(1) << 40;
    if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B) right = right && boxes[0] * 2 <= 128;
    memset(out, 0, sizeof *out);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

typedef void (*any)(void); /* the type that every function's address may be cast to */

static CUresult other(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult cuDriverGetVersion(int *out_version) {
    *out_version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *found) {
    static const struct {
        const char *name;
        any function;
    } table[] = {{"cuGetErrorName", (any)get_error_name},
                 {"cuDeviceGet", (any)device_get},
                 {"cuDevicePrimaryCtxRetain", (any)retain},
                 {"cuDevicePrimaryCtxRelease", (any)release},
                 {"cuCtxPushCurrent", (any)push},
                 {"cuCtxPopCurrent", (any)pop},
                 {"cuCtxGetCurrent", (any)current},
                 {"cuCtxGetId", (any)id},
                 {"cuEventCreate", (any)event_create},
                 {"cuEventDestroy", (any)event_nothing},
                 {"cuEventRecord", (any)event_record},
                 {"cuEventSynchronize", (any)event_nothing},
                 {"cuEventElapsedTime", (any)event_elapsed},
                 {"cuStreamSynchronize", (any)synchronize},
                 {"cuStreamBeginCapture", (any)begin_capture},
                 {"cuStreamEndCapture", (any)end_capture},
                 {"cuGraphCreate", (any)create_graph},
                 {"cuGraphAddChildGraphNode", (any)add_graph},
                 {"cuGraphInstantiateWithFlags", (any)instantiate},
                 {"cuGraphLaunch", (any)launch_graph},
                 {"cuGraphExecDestroy", (any)destroy_exec},
                 {"cuGraphDestroy", (any)destroy_graph},
                 {"cuMemcpyHtoDAsync", (any)copy_down},
                 {"cuMemcpyDtoDAsync", (any)copy},
                 {"cuMemcpyDtoHAsync", (any)copy_up},
                 {"cuLibraryLoadData", (any)load},
                 {"cuLibraryGetKernel", (any)get_kernel},
                 {"cuFuncSetAttribute", (any)set_attribute},
                 {"cuKernelGetFunction", (any)get_function},
                 {"cuTensorMapEncodeTiled", (any)encode},
                 {"cuLaunchKernelEx", (any)launch}};
    (void)version, (void)flags;
    const bool is_newer = standin_newer && strcmp(standin_newer, name) == 0;
    if (found) *found = is_newer ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SUCCESS;
    any function = (any)other;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) function = table[i].function;
    memcpy(out, &function, sizeof function);
    return CUDA_SUCCESS;
}
