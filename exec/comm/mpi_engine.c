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
static _Atomic uint32_t is_open;

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

static rota_status fail_with(const char *what, int error) {
    char text[256];
    mpi->explain(error, text, sizeof text);
    return rota_fail(error < 0 ? ROTA_WRONG_STATE : ROTA_SYSTEM, "%s: %s: %s", mpi->library, what, text);
}

static rota_status send(rota_engine *engine, uint32_t to, uint32_t tag, const void *bytes,
                        uint64_t size_bytes, rota_engine_request **out_request) {
    (void)engine;
    const int error = mpi->send(to, tag, bytes, size_bytes, out_request);
    return error ? fail_with("a message can't be sent", error) : ROTA_OK;
}

static rota_status receive(rota_engine *engine, uint32_t from, uint32_t tag, void *bytes, uint64_t size_bytes,
                           rota_engine_request **out_request) {
    (void)engine;
    const int error = mpi->receive(from, tag, bytes, size_bytes, out_request);
    return error ? fail_with("a message can't be received", error) : ROTA_OK;
}

static rota_status test(rota_engine *engine, rota_engine_request *request, bool *out_over) {
    (void)engine;
    int over = 0;
    const int error = mpi->test(request, &over);
    *out_over = over != 0;
    return error ? fail_with("a message failed", error) : ROTA_OK;
}

static bool cancel(rota_engine *engine, rota_engine_request *request) {
    (void)engine;
    (void)mpi->cancel(request);
    return false;
}

static void close_engine(rota_engine *engine) {
    (void)mpi->end();
    free(engine);
    ra_store_release(&is_open, 0); /* pairs with rota_mpi_open */
}

static const rota_engine_vtable vtable = {send, receive, test, cancel, close_engine};

bool rota_mpi_is_started(void) {
    /* Open MPI; MPICH and whoever speaks PMI; PMIx. */
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK");
}

static uint32_t count_in(const char *variable) {
    const char *text = getenv(variable);
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

const char *rota_mpi_other_launcher(uint32_t *out_ranks) {
    /* WORLD_SIZE alone may be anybody's. */
    if (getenv("TORCHELASTIC_RUN_ID") && (*out_ranks = count_in("WORLD_SIZE")) > 1) return "torchrun";
    if ((*out_ranks = count_in("SLURM_STEP_NUM_TASKS")) > 1) return "srun";
    return NULL;
}

rota_status rota_mpi_open(rota_engine **out_engine) {
    (void)pthread_once(&load_once, load);
    if (!mpi)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "MPI is not there: rota's library for it can't be opened (%s). It is built where MPI's headers "
            "are (Debian and Ubuntu: libopenmpi-dev, or libmpich-dev)",
            load_error);
    if (ra_exchange_acq_rel(&is_open, 1))
        return rota_fail(ROTA_WRONG_STATE,
                         "MPI_COMM_WORLD is a communicator of this process already: split that one");
    rota_engine *engine = calloc(1, sizeof *engine);
    uint32_t rank = 0, size = 0, last_tag = 0;
    const int error = engine ? mpi->begin(&rank, &size, &last_tag) : 0;
    if (engine && !error) {
        *engine = (rota_engine){&vtable, "mpi", rank, size, last_tag, true};
        *out_engine = engine;
        return ROTA_OK;
    }
    free(engine);
    ra_store_release(&is_open, 0); /* as in close_engine */
    return error ? fail_with("it can't be begun", error)
                 : rota_fail(ROTA_OUT_OF_MEMORY, "MPI: no host memory");
}
