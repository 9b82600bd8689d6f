/* The library that is linked with MPI: point to point on a duplicate of MPI_COMM_WORLD, whose errors are returned. See
 * exec/comm/mpi_functions.h. */
#include <mpi.h>

#include <stdlib.h>
#include <string.h>

#include "exec/comm/mpi_functions.h"

static MPI_Comm world = MPI_COMM_NULL;
static int initialised_here;

typedef struct request {
    MPI_Request mpi;
    int is_receive, is_cancelled;
} request;

static int begin(uint32_t *out_rank, uint32_t *out_size, uint32_t *out_last_tag) {
    int *last_tag = NULL, has_last_tag = 0;
    int is_initialised = 0, is_finalised = 0, level = MPI_THREAD_SINGLE, rank = 0, size = 0;
    int error = MPI_Finalized(&is_finalised);
    if (error == MPI_SUCCESS && is_finalised) return -2;
    if (error == MPI_SUCCESS) error = MPI_Initialized(&is_initialised);
    if (error != MPI_SUCCESS) return error;
    if (is_initialised) {
        error = MPI_Query_thread(&level);
        if (error == MPI_SUCCESS && level < MPI_THREAD_MULTIPLE) return -1;
    } else {
        /* The application may call MPI itself later. */
        error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
        initialised_here = error == MPI_SUCCESS;
    }
    if (error == MPI_SUCCESS) error = MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS) error = MPI_Comm_rank(world, &rank);
    if (error == MPI_SUCCESS) error = MPI_Comm_size(world, &size);
    if (error == MPI_SUCCESS) error = MPI_Comm_get_attr(world, MPI_TAG_UB, &last_tag, &has_last_tag);
    *out_last_tag = has_last_tag && last_tag ? (uint32_t)*last_tag : 32767; /* what each MPI has */
    *out_rank = (uint32_t)rank;
    *out_size = (uint32_t)size;
    return error;
}

static int post(int error, request *made, void **out_request) {
    if (error == MPI_SUCCESS)
        *out_request = made;
    else
        free(made);
    return error;
}

static int send(uint32_t to, uint32_t tag, const void *bytes, uint64_t size_bytes, void **out_request) {
    request *made = calloc(1, sizeof *made);
    if (!made) return MPI_ERR_NO_MEM;
    return post(MPI_Isend(bytes, (int)size_bytes, MPI_BYTE, (int)to, (int)tag, world, &made->mpi), made,
                out_request);
}

static int receive(uint32_t from, uint32_t tag, void *bytes, uint64_t size_bytes, void **out_request) {
    request *made = calloc(1, sizeof *made);
    if (!made) return MPI_ERR_NO_MEM;
    made->is_receive = 1;
    return post(MPI_Irecv(bytes, (int)size_bytes, MPI_BYTE, (int)from, (int)tag, world, &made->mpi), made,
                out_request);
}

static int test(void *own, int *out_over) {
    request *tested = own;
    MPI_Status status;
    const int error = MPI_Test(&tested->mpi, out_over, &status);
    if (error != MPI_SUCCESS) *out_over = 1;
    if (*out_over) free(tested);
    return error;
}

/* A send that nobody has taken can't be cancelled; nor anything twice, which Open MPI 4.1 does not survive. */
static int cancel(void *own) {
    request *cancelled = own;
    if (!cancelled->is_receive || cancelled->is_cancelled) return MPI_SUCCESS;
    cancelled->is_cancelled = 1;
    return MPI_Cancel(&cancelled->mpi);
}

static int end(void) {
    const int error = MPI_Comm_free(&world);
    if (!initialised_here) return error;
    initialised_here = 0;
    return MPI_Finalize();
}

static void explain(int error, char *out_text, size_t capacity) {
    char text[MPI_MAX_ERROR_STRING] = "an error that MPI does not know";
    int length = 0;
    if (error == -1) {
        strcpy(text,
               "the application initialised MPI without MPI_THREAD_MULTIPLE, which rota's own thread needs");
    } else if (error == -2) {
        strcpy(text, "MPI was finalised in this process, and can't be initialised again");
    } else {
        (void)MPI_Error_string(error, text, &length);
    }
    if (!capacity) return;
    strncpy(out_text, text, capacity - 1);
    out_text[capacity - 1] = 0;
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#if defined(OMPI_MAJOR_VERSION)
#define LIBRARY                                                                                              \
    "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION)
#elif defined(MPICH_VERSION)
#define LIBRARY "MPICH " MPICH_VERSION
#else
#define LIBRARY "MPI " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#endif

__attribute__((visibility("default"))) const rota_mpi_functions *rota_mpi_functions_get(void) {
    static const rota_mpi_functions functions = {ROTA_MPI_VERSION, LIBRARY, begin,  send, receive, test,
                                                 cancel,           end,     explain};
    return &functions;
}
