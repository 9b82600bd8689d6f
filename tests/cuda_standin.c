/* A stand-in for the few functions of the CUDA driver by which ops make a device's context current, built as
 * a library of the driver's name; every other function fails. */
#include <cuda.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Contexts pushed and retained that were not popped and released. */
EXPORT int standin_pushed, standin_retained;

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
typedef void (*any)(void); /* the type that every function's address may be cast to */

static CUresult other(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *found) {
    static const struct {
        const char *name;
        any function;
    } table[] = {{"cuGetErrorName", (any)get_error_name},   {"cuDeviceGet", (any)device_get},
                 {"cuDevicePrimaryCtxRetain", (any)retain}, {"cuDevicePrimaryCtxRelease", (any)release},
                 {"cuCtxPushCurrent", (any)push},           {"cuCtxPopCurrent", (any)pop},
                 {"cuCtxGetCurrent", (any)current},         {"cuCtxGetId", (any)id}};
    (void)version, (void)flags, (void)found;
    any function = (any)other;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) function = table[i].function;
    memcpy(out, &function, sizeof function);
    return CUDA_SUCCESS;
}
