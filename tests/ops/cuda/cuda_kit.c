/* A CUDA device for tests, by the driver's functions as its library exports them. */
#include "tests/ops/cuda/cuda_kit.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include "ops/cuda/libraries.h"
#include "tests/kit/support.h"

/* Field, exported name. */
#define FUNCTIONS(X)                                                                                         \
    X(Init, cuInit)                                                                                          \
    X(DriverGetVersion, cuDriverGetVersion)                                                                  \
    X(DeviceGet, cuDeviceGet)                                                                                \
    X(DeviceGetName, cuDeviceGetName)                                                                        \
    X(DeviceGetAttribute, cuDeviceGetAttribute)                                                              \
    X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                                      \
    X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)                                                 \
    X(CtxPushCurrent, cuCtxPushCurrent_v2)                                                                   \
    X(CtxPopCurrent, cuCtxPopCurrent_v2)                                                                     \
    X(StreamCreate, cuStreamCreate)                                                                          \
    X(StreamDestroy, cuStreamDestroy_v2)                                                                     \
    X(StreamSynchronize, cuStreamSynchronize)                                                                \
    X(StreamBeginCapture, cuStreamBeginCapture_v2)                                                           \
    X(StreamEndCapture, cuStreamEndCapture)                                                                  \
    X(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags)                                                \
    X(GraphLaunch, cuGraphLaunch)                                                                            \
    X(GraphExecDestroy, cuGraphExecDestroy)                                                                  \
    X(GraphDestroy, cuGraphDestroy)                                                                          \
    X(MemAlloc, cuMemAlloc_v2)                                                                               \
    X(MemFree, cuMemFree_v2)                                                                                 \
    X(MemsetD8Async, cuMemsetD8Async)                                                                        \
    X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                                                                 \
    X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)

static struct {
#define FIELD(name, exported) __typeof__(&exported) name;
    FUNCTIONS(FIELD)
#undef FIELD
} cu;

#define CHECK(expression)                                                                                    \
    do {                                                                                                     \
        CUresult result_ = (expression);                                                                     \
        if (result_ != CUDA_SUCCESS) fail_msg("%s: error %d", #expression, (int)result_);                    \
    } while (0)

rota_matmul_params cuda_kit_product(uint32_t m, uint32_t n, uint32_t k, uint32_t flags, uint32_t c_dtype) {
    return (rota_matmul_params){
        .m = m,
        .n = n,
        .k = k,
        .lda = flags & ROTA_MATMUL_TRANSPOSE_A ? m : k,
        .ldb = flags & ROTA_MATMUL_TRANSPOSE_B ? k : n,
        .ldc = n,
        .flags = flags,
        .c_dtype = c_dtype,
        .alpha = 1,
        .batch = {1, 1, 1},
    };
}

const char *cuda_kit_open(cuda_kit *kit) {
    *kit = (cuda_kit){0};
#define FIND(name, exported)                                                                                 \
    if (!rota_cuda_library_find(ROTA_CUDA_LIBRARY_DRIVER, #exported, &cu.name, sizeof cu.name))              \
        return "there is no NVIDIA driver with " #exported;
    FUNCTIONS(FIND)
#undef FIND
    if (cu.Init(0) != CUDA_SUCCESS) return "there is no CUDA device";
    CUdevice device;
    CUcontext context;
    int version, values[5];
    const CUdevice_attribute attributes[5] = {
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN};
    CHECK(cu.DeviceGet(&device, 0));
    CHECK(cu.DevicePrimaryCtxRetain(&context, device));
    CHECK(cu.CtxPushCurrent(context));
    CHECK(cu.DriverGetVersion(&version));
    CHECK(cu.DeviceGetName(kit->name, sizeof kit->name, device));
    for (int i = 0; i < 5; i++) CHECK(cu.DeviceGetAttribute(&values[i], attributes[i], device));
    snprintf(kit->driver, sizeof kit->driver, "%d", version);
    kit->target = (rota_cuda_target){.compute_capability = (uint32_t)(10 * values[0] + values[1]),
                                     .multiprocessors = (uint32_t)values[2],
                                     .l2_bytes = (uint64_t)values[3],
                                     .shared_bytes_max = (uint32_t)values[4],
                                     .name = kit->name,
                                     .driver = kit->driver};
    CUstream stream;
    CHECK(cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    kit->stream = stream;
    return NULL;
}

void cuda_kit_close(cuda_kit *kit) {
    CUcontext context;
    CHECK(cu.StreamDestroy(kit->stream));
    CHECK(cu.CtxPopCurrent(&context));
    CHECK(cu.DevicePrimaryCtxRelease(kit->target.ordinal));
}

uint64_t cuda_kit_alloc(cuda_kit *kit, uint64_t size_bytes) {
    CUdeviceptr address;
    CHECK(cu.MemAlloc(&address, size_bytes));
    CHECK(cu.MemsetD8Async(address, 0xff, size_bytes, kit->stream));
    return address;
}

void cuda_kit_free(cuda_kit *kit, uint64_t address) {
    cuda_kit_finish(kit);
    CHECK(cu.MemFree(address));
}

void cuda_kit_write(cuda_kit *kit, uint64_t address, const void *data, uint64_t size_bytes) {
    CHECK(cu.MemcpyHtoDAsync(address, data, size_bytes, kit->stream));
    cuda_kit_finish(kit);
}

void cuda_kit_read(cuda_kit *kit, uint64_t address, void *data, uint64_t size_bytes) {
    CHECK(cu.MemcpyDtoHAsync(data, address, size_bytes, kit->stream));
    cuda_kit_finish(kit);
}

void cuda_kit_finish(cuda_kit *kit) {
    CHECK(cu.StreamSynchronize(kit->stream));
}

void cuda_kit_capture_begin(cuda_kit *kit) {
    CHECK(cu.StreamBeginCapture(kit->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

void cuda_kit_capture_end_and_run(cuda_kit *kit) {
    CUgraph graph;
    CUgraphExec executable;
    CHECK(cu.StreamEndCapture(kit->stream, &graph));
    CHECK(cu.GraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cu.GraphLaunch(executable, kit->stream));
    cuda_kit_finish(kit);
    CHECK(cu.GraphExecDestroy(executable));
    CHECK(cu.GraphDestroy(graph));
}
