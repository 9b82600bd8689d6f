/* Opening NCCL and filling the function table. */
#include "exec/nccl/nccl_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/atomic.h"

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static rota_nccl_api loaded;
static rota_status load_status;
static char load_error[512];
static const rota_nccl_api *_Atomic replaced;

rota_status rota_nccl_api_fill(const char *library, rota_nccl_find_fn find, void *user,
                               rota_nccl_api *out_api) {
    memset(out_api, 0, sizeof *out_api);
    void *address;
    /* By memcpy: ISO C has no cast from a pointer to data to one to a function. */
#define LOAD(name, result, parameters)                                                                       \
    if (!(address = find(user, "nccl" #name)))                                                               \
        return rota_fail(ROTA_UNSUPPORTED, "NCCL ('%s') has no nccl" #name, library);                        \
    memcpy(&out_api->name, &address, sizeof address);
    ROTA_NCCL_FUNCTIONS(LOAD)
#undef LOAD
    if (out_api->GetVersion(&out_api->version) != ROTA_NCCL_SUCCESS)
        return rota_fail(ROTA_UNSUPPORTED, "NCCL ('%s') does not tell its version", library);
    if (out_api->version >= ROTA_NCCL_NEEDED) return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED, "NCCL ('%s') is of version %d, at least %d is needed", library,
                     out_api->version, ROTA_NCCL_NEEDED);
}

static void *find_in_library(void *user, const char *name) {
    return dlsym(user, name);
}

rota_status rota_nccl_api_load(const char *library, rota_nccl_api *out_api) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        return rota_fail(ROTA_UNSUPPORTED, "NCCL could not be opened: %s",
                         reason ? reason : "unknown reason");
    }
    const rota_status status = rota_nccl_api_fill(library, find_in_library, handle, out_api);
    if (status != ROTA_OK) (void)dlclose(handle); /* else it stays open: it has threads */
    return status;
}

/* ---- What is pinned ---- */

/* Its index among the names, from 1; 0: it is none of them alone. */
static uint32_t index_of(const char *variable, const char *const *names) {
    const char *text = getenv(variable);
    for (uint32_t i = 0; text && names[i]; i++)
        if (strcasecmp(text, names[i]) == 0) return i + 1;
    return 0;
}

rota_status rota_nccl_pins(uint32_t *out_pinned) {
    /* Those whose order is a matter of the ranks alone: not what switches add up. */
    static const char *const algorithms[] = {"Ring", "Tree", NULL};
    static const char *const protocols[] = {"Simple", "LL", "LL128", NULL};
    const uint32_t algorithm = index_of("NCCL_ALGO", algorithms),
                   protocol = index_of("NCCL_PROTO", protocols);
    *out_pinned = algorithm * 16 + protocol;
    if (algorithm && protocol) return ROTA_OK;
    const char *variable = algorithm ? "NCCL_PROTO" : "NCCL_ALGO", *text = getenv(variable);
    return rota_fail(
        ROTA_UNSUPPORTED,
        "deterministic sums by NCCL need one algorithm and one protocol, NCCL_ALGO=Ring or Tree and "
        "NCCL_PROTO=Simple, LL or LL128 in the environment; %s is %s%s%s",
        variable, text ? "'" : "not set", text ? text : "", text ? "'" : "");
}

static void load(void) {
    load_status = rota_nccl_api_load("libnccl.so.2", &loaded);
    if (load_status != ROTA_OK) (void)snprintf(load_error, sizeof load_error, "%s", rota_last_error());
}

rota_status rota_nccl_api_get(const rota_nccl_api **out_api) {
    *out_api = ra_load_acquire(&replaced); /* pairs with rota_nccl_api_use */
    if (*out_api) return ROTA_OK;
    (void)pthread_once(&load_once, load);
    if (load_status != ROTA_OK) return rota_fail(load_status, "%s", load_error);
    *out_api = &loaded;
    return ROTA_OK;
}

void rota_nccl_api_use(const rota_nccl_api *api) {
    ra_store_release(&replaced, api);
}
