/* Filling the table of driver functions. */
#include "ops/cuda/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "ops/cuda/libraries.h"

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static rota_cuda_driver loaded;
static char load_error[384] = "";

static void load(void) {
    const rota_cuda_library *library = rota_cuda_library_get(ROTA_CUDA_LIBRARY_DRIVER);
    if (!library->handle) {
        snprintf(load_error, sizeof load_error, "%s", library->reason);
        return;
    }
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    if (!rota_cuda_library_find(ROTA_CUDA_LIBRARY_DRIVER, "cuGetProcAddress_v2", &get, sizeof get)) {
        snprintf(load_error, sizeof load_error,
                 "%s has no cuGetProcAddress_v2: a driver for CUDA 12.0 or later is needed", library->file);
        return;
    }
    void *address;
#define ROTA_CUDA_LOAD(name, version)                                                                        \
    address = NULL;                                                                                          \
    if (get("cu" #name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, NULL) != CUDA_SUCCESS || !address) { \
        snprintf(load_error, sizeof load_error, "%s has no cu" #name, library->file);                        \
        return;                                                                                              \
    }                                                                                                        \
    memcpy(&loaded.name, &address, sizeof address);
    ROTA_CUDA_DRIVER_FUNCTIONS(ROTA_CUDA_LOAD)
#undef ROTA_CUDA_LOAD
}

rota_status rota_cuda_driver_get(const rota_cuda_driver **out_driver) {
    pthread_once(&load_once, load);
    if (load_error[0])
        return rota_fail(ROTA_UNSUPPORTED, "the CUDA driver could not be used: %s", load_error);
    *out_driver = &loaded;
    return ROTA_OK;
}

rota_status rota_cuda_driver_check(const rota_cuda_driver *driver, CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return ROTA_OK;
    const char *name = NULL;
    if (driver->GetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "an unknown error";
    return rota_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? ROTA_OUT_OF_MEMORY : ROTA_DEVICE_LOST,
                     "%s: %s (%d)", what, name, (int)result);
}

rota_status rota_cuda_scope_enter(int32_t ordinal, rota_cuda_scope *out_scope) {
    const rota_cuda_driver *cu;
    CUcontext context;
    *out_scope = (rota_cuda_scope){0};
    ROTA_TRY(rota_cuda_driver_get(&cu));
    ROTA_TRY(rota_cuda_driver_check(cu, cu->DeviceGet(&out_scope->device, ordinal), "cuDeviceGet"));
    ROTA_TRY(rota_cuda_driver_check(cu, cu->DevicePrimaryCtxRetain(&context, out_scope->device),
                                    "cuDevicePrimaryCtxRetain"));
    rota_status status = rota_cuda_driver_check(cu, cu->CtxPushCurrent(context), "cuCtxPushCurrent");
    if (status != ROTA_OK) {
        (void)cu->DevicePrimaryCtxRelease(out_scope->device);
        return status;
    }
    status = rota_cuda_driver_check(cu, cu->CtxGetId(context, &out_scope->context), "cuCtxGetId");
    if (status != ROTA_OK) rota_cuda_scope_leave(out_scope);
    return status;
}

void rota_cuda_scope_leave(const rota_cuda_scope *scope) {
    const rota_cuda_driver *cu;
    CUcontext before;
    if (rota_cuda_driver_get(&cu) != ROTA_OK) return;
    (void)cu->CtxPopCurrent(&before);
    (void)cu->DevicePrimaryCtxRelease(scope->device);
}
