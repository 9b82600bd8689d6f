/* MPI as a message engine, by a library of rota's that is linked with it and is opened here (mpi/shim.c). It is looked
 * for where the system and this library's own run path find it; once opened it stays, as MPI may not come back. */
#include "exec/comm/mpi_engine.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "exec/comm/mpi_functions.h"

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static const rota_mpi_functions *mpi;
static char load_error[512];
static _Atomic uint32_t
    is_open; /* MPI_COMM_WORLD's; those of the application's own are as many as it likes */

typedef struct mpi_engine {
    rota_engine base;
    void *world;
    bool is_given; /* by the application, which finalises MPI */
} mpi_engine;

static void *world_of(const rota_engine *engine) {
    return ((const mpi_engine *)(const void *)engine)->world;
}

static void load(void) {
    /* Global: plugins of MPI's look for its names among the process's. */
    void *library = dlopen(ROTA_MPI_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        const char *reason = dlerror();
        (void)snprintf(load_error, sizeof load_error, "%s", reason ? reason : "unknown reason");
        return;
    }
    void *address = dlsym(library, ROTA_MPI_FUNCTION);
    rota_mpi_functions_get_fn get;
    memcpy(&get, &address, sizeof get);
    const rota_mpi_functions *found = address ? get() : NULL;
    if (found && found->version == ROTA_MPI_VERSION)
        mpi = found;
    else
        (void)snprintf(load_error, sizeof load_error, ROTA_MPI_LIBRARY " is of another version of rota");
}

/* `engine` may be NULL. */
static rota_status fail_with(rota_engine *engine, const char *what, int error) {
    char text[256];
    mpi->explain(error, text, sizeof text);
    if (engine && error == ROTA_MPI_ENDED)
        engine->why_ended = "the application called MPI_Finalize while it was open";
    rota_status status = error < 0 ? ROTA_WRONG_STATE : ROTA_SYSTEM;
    if (error == ROTA_MPI_NOT_A_GROUP) status = ROTA_INVALID_ARGUMENT;
    if (error == ROTA_MPI_OTHER) status = ROTA_UNSUPPORTED;
    if (error == ROTA_MPI_SHORT) status = ROTA_INTERNAL;
    return rota_fail(status, "%s: %s: %s", mpi->library, what, text);
}

static rota_status send(rota_engine *engine, uint32_t to, uint32_t tag, const void *bytes,
                        uint64_t size_bytes, rota_engine_request **out_request) {
    const int error = mpi->send(world_of(engine), to, tag, bytes, size_bytes, out_request);
    return error ? fail_with(engine, "a message can't be sent", error) : ROTA_OK;
}

static rota_status receive(rota_engine *engine, uint32_t from, uint32_t tag, void *bytes,
                           uint64_t least_bytes, uint64_t size_bytes, rota_engine_request **out_request) {
    const int error = mpi->receive(world_of(engine), from, tag, bytes, least_bytes, size_bytes, out_request);
    return error ? fail_with(engine, "a message can't be received", error) : ROTA_OK;
}

static rota_status test(rota_engine *engine, rota_engine_request *request, bool *out_over) {
    int over = 0;
    const int error = mpi->test(request, &over);
    *out_over = over != 0;
    return error ? fail_with(engine, "a message failed", error) : ROTA_OK;
}

static bool cancel(rota_engine *engine, rota_engine_request *request) {
    const int error = mpi->cancel(request);
    if (error) (void)fail_with(engine, "a message can't be cancelled", error);
    return false;
}

static void close_engine(rota_engine *engine) {
    const bool is_given = ((mpi_engine *)(void *)engine)->is_given;
    (void)mpi->end(world_of(engine));
    free(engine);
    if (!is_given) ra_store_release(&is_open, 0); /* pairs with rota_mpi_open */
}

static const rota_engine_vtable vtable = {send, receive, test, cancel, NULL, close_engine, NULL, NULL};

bool rota_mpi_is_started(void) {
    /* Open MPI; MPICH and whoever speaks PMI; PMIx. */
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK");
}

static rota_status find_library(void) {
    (void)pthread_once(&load_once, load);
    if (mpi) return ROTA_OK;
    return rota_fail(
        ROTA_UNSUPPORTED,
        "MPI is not there: rota's library for it can't be opened (%s). It is built where MPI's headers "
        "are (Debian and Ubuntu: libopenmpi-dev, or libmpich-dev)",
        load_error);
}

rota_status rota_mpi_take(const void *mpi_communicator, uint64_t *out_taken) {
    ROTA_TRY(find_library());
    *out_taken = mpi->take(mpi_communicator);
    return ROTA_OK;
}

rota_status rota_mpi_open(const uint64_t *taken, rota_engine **out_engine) {
    ROTA_TRY(find_library());
    if (!taken && ra_exchange_acq_rel(&is_open, 1))
        return rota_fail(ROTA_WRONG_STATE,
                         "MPI_COMM_WORLD is a communicator of this process already: split that one");
    mpi_engine *engine = calloc(1, sizeof *engine);
    uint32_t rank = 0, size = 0, last_tag = 0;
    const int error = engine ? mpi->begin(taken, &engine->world, &rank, &size, &last_tag) : 0;
    if (engine && !error) {
        engine->base = (rota_engine){&vtable, "mpi", rank, size, last_tag, true, NULL, 0, false};
        engine->is_given = taken != NULL;
        *out_engine = &engine->base;
        return ROTA_OK;
    }
    free(engine);
    if (!taken) ra_store_release(&is_open, 0); /* as in close_engine */
    return error ? fail_with(NULL, "it can't be begun", error)
                 : rota_fail(ROTA_OUT_OF_MEMORY, "MPI: no host memory");
}
