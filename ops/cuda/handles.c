/* See handles.h. */
#include "ops/cuda/handles.h"

#include <stdlib.h>
#include "ops/cuda/driver.h"

struct rota_cuda_handle {
    rota_cuda_handle *next;
    unsigned long long context;
    void *handle;
};

static rota_status find_context(unsigned long long *out_context) {
    const rota_cuda_driver *cu;
    CUcontext current;
    ROTA_TRY(rota_cuda_driver_get(&cu));
    ROTA_TRY(rota_cuda_driver_check(cu, cu->CtxGetCurrent(&current), "cuCtxGetCurrent"));
    return rota_cuda_driver_check(cu, cu->CtxGetId(current, out_context), "cuCtxGetId");
}

rota_status rota_cuda_handle_get(rota_cuda_handles_shared *handles, rota_status (*make)(void **out_handle),
                                 const char *library, void **out_handle) {
    unsigned long long context;
    ROTA_TRY(find_context(&context));
    rota_status status = ROTA_OK;
    pthread_mutex_lock(&handles->lock);
    rota_cuda_handle *entry = handles->first;
    while (entry && entry->context != context) entry = entry->next;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (entry)
            status = make(&entry->handle);
        else
            status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a handle of %s", library);
        if (status == ROTA_OK) {
            entry->context = context;
            entry->next = handles->first;
            handles->first = entry;
        } else {
            free(entry);
        }
    }
    if (status == ROTA_OK) *out_handle = entry->handle;
    pthread_mutex_unlock(&handles->lock);
    return status;
}
