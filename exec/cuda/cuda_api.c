/* Opening the CUDA driver and filling the function table. */
#include "exec/cuda/cuda_api.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/atomic.h"

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static rota_cuda_api loaded;
static rota_status load_status;
static char load_error[512];
static const rota_cuda_api *_Atomic replaced;

typedef CUresult(CUDAAPI *find_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult(CUDAAPI *version_fn)(int *);

/* A function pointer out of a data pointer: what dlsym needs and ISO C has no cast for. */
#define ASSIGN(function, address)                                                                            \
    do {                                                                                                     \
        void *address_ = (address);                                                                          \
        memcpy(&(function), &address_, sizeof address_);                                                     \
    } while (0)

rota_status rota_cuda_api_fill(int version, rota_cuda_find_fn find, void *user, rota_cuda_api *out_api) {
    if (version < ROTA_CUDA_DRIVER_NEEDED)
        return rota_fail(ROTA_UNSUPPORTED, "the CUDA driver is for CUDA %d.%d; %d.%d or newer is needed",
                         version / 1000, version % 1000 / 10, ROTA_CUDA_DRIVER_NEEDED / 1000,
                         ROTA_CUDA_DRIVER_NEEDED % 1000 / 10);
    memset(out_api, 0, sizeof *out_api);
#define LOAD(name, since, parameters)                                                                        \
    ASSIGN(out_api->name, find(user, "cu" #name, since));                                                    \
    if (!out_api->name)                                                                                      \
        return rota_fail(ROTA_UNSUPPORTED, "the CUDA driver (for CUDA %d.%d) has no cu" #name,               \
                         version / 1000, version % 1000 / 10);
    ROTA_CUDA_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD(name, since, parameters)                                                                        \
    if (version >= (since)) ASSIGN(out_api->name, find(user, "cu" #name, since));
    ROTA_CUDA_NEWER_FUNCTIONS(LOAD)
#undef LOAD
    return ROTA_OK;
}

static void *find_in_driver(void *user, const char *name, int version) {
    find_fn find;
    ASSIGN(find, user);
    void *function = NULL;
    CUdriverProcAddressQueryResult found;
    /* Legacy names: the streams of the other ones would be per thread, and rota names every stream. */
    if (find(name, &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS)
        return NULL;
    return found == CU_GET_PROC_ADDRESS_SUCCESS ? function : NULL;
}

rota_status rota_cuda_api_load(const char *library, rota_cuda_api *out_api) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        return rota_fail(ROTA_UNSUPPORTED, "the CUDA driver could not be opened: %s",
                         reason ? reason : "unknown reason");
    }
    version_fn get_version;
    ASSIGN(get_version, dlsym(handle, "cuDriverGetVersion"));
    int version = 0;
    if (!get_version || get_version(&version) != CUDA_SUCCESS) {
        dlclose(handle);
        return rota_fail(ROTA_UNSUPPORTED, "'%s' is no CUDA driver: it does not tell its version", library);
    }
    void *find = dlsym(handle, "cuGetProcAddress_v2");
    if (!find && version >= ROTA_CUDA_DRIVER_NEEDED) {
        dlclose(handle);
        return rota_fail(ROTA_UNSUPPORTED, "'%s' is no CUDA driver: it has no cuGetProcAddress_v2", library);
    }
    rota_status status = rota_cuda_api_fill(version, find_in_driver, find, out_api);
    if (status != ROTA_OK) dlclose(handle); /* else it stays open */
    return status;
}

static void load(void) {
    load_status = rota_cuda_api_load("libcuda.so.1", &loaded);
    if (load_status != ROTA_OK) snprintf(load_error, sizeof load_error, "%s", rota_last_error());
}

rota_status rota_cuda_api_get(const rota_cuda_api **out_api) {
    *out_api = ra_load_acquire(&replaced); /* pairs with rota_cuda_api_use */
    if (*out_api) return ROTA_OK;
    pthread_once(&load_once, load);
    if (load_status != ROTA_OK) return rota_fail(load_status, "%s", load_error);
    *out_api = &loaded;
    return ROTA_OK;
}

void rota_cuda_api_use(const rota_cuda_api *api) {
    ra_store_release(&replaced, api);
}

bool rota_cuda_api_is_replaced(void) {
    return ra_load_acquire(&replaced) != NULL; /* pairs with rota_cuda_api_use */
}

const char *rota_cuda_result_name(const rota_cuda_api *api, CUresult result) {
    const char *name = NULL;
    if (api->GetErrorName(result, &name) != CUDA_SUCCESS || !name) return "a CUDA error without a name here";
    return name;
}

bool rota_cuda_is_fatal(CUresult result) {
    switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

rota_status rota_cuda_fail(const rota_cuda_api *api, CUresult result, const char *what) {
    rota_status status = ROTA_SYSTEM;
    if (rota_cuda_is_fatal(result)) status = ROTA_DEVICE_LOST;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) status = ROTA_OUT_OF_MEMORY;
    const char *text = NULL;
    if (api->GetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "no text";
    return rota_fail(status, "%s: %s (%s)", what, rota_cuda_result_name(api, result), text);
}
