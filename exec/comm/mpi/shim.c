/* The library that is linked with MPI: point to point on duplicates of its communicators, whose errors are returned.
 * See exec/comm/mpi_functions.h. */
#include <mpi.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/comm/mpi_functions.h"

typedef struct world {
    MPI_Comm mpi;
} world;

/* MPI in this process: how many worlds there are, and whether one of them began it. The last one ends it then, also
 * where the application has given its own meanwhile. */
static pthread_mutex_t life_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned worlds;
static int is_begun_here;

/* What the application may do meanwhile: call MPI_Finalize. Before that takes anything apart it deletes the attributes
 * of MPI_COMM_SELF, and so calls `ends` below, in the application's thread. That waits until no call of this library is
 * within MPI, and none goes in any more: each holds `calls` as a reader, and looks at has_ended behind it. */
static pthread_rwlock_t calls = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int has_ended, ends_here; /* by the application, under worlds or not; by end_life */
static int is_watched;

/* Not OK: MPI is gone, and is not to be called; else leave_mpi follows. */
static int enter_mpi(void) {
    if (atomic_load(&has_ended)) return ROTA_MPI_ENDED; /* so that who waits to write is not kept waiting */
    (void)pthread_rwlock_rdlock(&calls);
    if (!atomic_load(&has_ended)) return MPI_SUCCESS;
    (void)pthread_rwlock_unlock(&calls);
    return ROTA_MPI_ENDED;
}

static int leave_mpi(int error) {
    (void)pthread_rwlock_unlock(&calls);
    return error;
}

/* MPI_Comm_delete_attr_function. One that waits for other ranks, to open or close a world, is not waited for longer
 * than that: it may want what this thread has of MPI. */
static int ends(MPI_Comm self, int key, void *value, void *state) {
    enum { PATIENCE_S = 10 };
    struct timespec until;
    (void)self, (void)key, (void)value, (void)state;
    if (atomic_load(&ends_here)) return MPI_SUCCESS;
    atomic_store(&has_ended, 1);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (pthread_rwlock_timedwrlock(&calls, &until) == 0) (void)pthread_rwlock_unlock(&calls);
    return MPI_SUCCESS;
}

/* Under life_mutex, once. */
static int watch_end(void) {
    int key = MPI_KEYVAL_INVALID;
    if (is_watched) return MPI_SUCCESS;
    int error = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, ends, &key, NULL);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    is_watched = error == MPI_SUCCESS;
    return error;
}

typedef struct request {
    MPI_Request mpi;
    int is_receive, is_cancelled, least_bytes;
} request;

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#if defined(OMPI_MAJOR_VERSION)
#define LIBRARY                                                                                              \
    "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION)
static const char family[] = "Open MPI";
#elif defined(MPICH_VERSION)
#define LIBRARY "MPICH " MPICH_VERSION
static const char family[] = "MPICH";
#else
#define LIBRARY "MPI " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
static const char family[] = "";
#endif

_Static_assert(sizeof(MPI_Comm) <= sizeof(uint64_t), "a handle is a number or a pointer");

static uint64_t take(const void *mpi_communicator) {
    uint64_t taken = 0;
    memcpy(&taken, mpi_communicator, sizeof(MPI_Comm));
    return taken;
}

/* An application that is linked with another one has its functions found first, also by this library. */
static int is_own_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    return MPI_Get_library_version(text, &length) == MPI_SUCCESS && strstr(text, family) != NULL;
}

/* Under life_mutex. */
static int initialise(int is_given) {
    int is_initialised = 0, is_finalised = 0, level = MPI_THREAD_SINGLE;
    int error = MPI_Finalized(&is_finalised);
    if (error == MPI_SUCCESS && is_finalised) return ROTA_MPI_FINALISED;
    if (error == MPI_SUCCESS) error = MPI_Initialized(&is_initialised);
    if (error != MPI_SUCCESS) return error;
    if (!is_initialised) {
        if (is_given) return ROTA_MPI_NOT_INITIALISED;
        /* The application may call MPI itself later. */
        error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
        is_begun_here = error == MPI_SUCCESS;
        return error;
    }
    error = MPI_Query_thread(&level);
    return error == MPI_SUCCESS && level < MPI_THREAD_MULTIPLE ? ROTA_MPI_NOT_MULTIPLE : error;
}

static int begin_life(int is_given) {
    (void)pthread_mutex_lock(&life_mutex);
    int error = initialise(is_given);
    if (error == MPI_SUCCESS) error = watch_end();
    worlds += error == MPI_SUCCESS;
    (void)pthread_mutex_unlock(&life_mutex);
    return error;
}

static int end_life(void) {
    (void)pthread_mutex_lock(&life_mutex);
    const int is_last = --worlds == 0 && is_begun_here && !atomic_load(&has_ended);
    atomic_store(&ends_here, is_last);
    const int error = is_last ? MPI_Finalize() : MPI_SUCCESS; /* under it: nobody begins one meanwhile */
    (void)pthread_mutex_unlock(&life_mutex);
    return error;
}

static int duplicate(const uint64_t *taken, MPI_Comm *out_own) {
    MPI_Comm given = MPI_COMM_WORLD;
    int is_between = 0;
    if (taken) memcpy(&given, taken, sizeof given);
    if (given == MPI_COMM_NULL) return ROTA_MPI_NOT_A_GROUP;
    int error = MPI_Comm_test_inter(given, &is_between);
    if (error == MPI_SUCCESS && is_between) return ROTA_MPI_NOT_A_GROUP;
    return error == MPI_SUCCESS ? MPI_Comm_dup(given, out_own) : error;
}

static int begin(const uint64_t *taken, void **out_world, uint32_t *out_rank, uint32_t *out_size,
                 uint32_t *out_last_tag) {
    int *last_tag = NULL, has_last_tag = 0, rank = 0, size = 0;
    if (!is_own_library()) return ROTA_MPI_OTHER;
    world *made = calloc(1, sizeof *made);
    if (!made) return MPI_ERR_NO_MEM;
    int error = enter_mpi();
    const int is_in = error == MPI_SUCCESS;
    if (error == ROTA_MPI_ENDED)
        error = ROTA_MPI_FINALISED; /* under worlds of before, or when there was none */
    if (error == MPI_SUCCESS) error = begin_life(taken != NULL);
    const int is_alive = error == MPI_SUCCESS;
    if (error == MPI_SUCCESS) error = duplicate(taken, &made->mpi);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(made->mpi, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS) error = MPI_Comm_rank(made->mpi, &rank);
    if (error == MPI_SUCCESS) error = MPI_Comm_size(made->mpi, &size);
    if (error == MPI_SUCCESS) error = MPI_Comm_get_attr(made->mpi, MPI_TAG_UB, &last_tag, &has_last_tag);
    *out_last_tag = has_last_tag && last_tag ? (uint32_t)*last_tag : 32767; /* what each MPI has */
    *out_rank = (uint32_t)rank;
    *out_size = (uint32_t)size;
    *out_world = made;
    if (is_in) (void)leave_mpi(error);
    if (error != MPI_SUCCESS && is_alive) (void)end_life();
    if (error != MPI_SUCCESS) free(made);
    return error;
}

static int post(int error, request *made, void **out_request) {
    if (error == MPI_SUCCESS)
        *out_request = made;
    else
        free(made);
    return error;
}

static int send(void *own, uint32_t to, uint32_t tag, const void *bytes, uint64_t size_bytes,
                void **out_request) {
    const world *w = own;
    request *made = calloc(1, sizeof *made);
    if (!made) return MPI_ERR_NO_MEM;
    int error = enter_mpi();
    if (error == MPI_SUCCESS)
        error = leave_mpi(MPI_Isend(bytes, (int)size_bytes, MPI_BYTE, (int)to, (int)tag, w->mpi, &made->mpi));
    return post(error, made, out_request);
}

static int receive(void *own, uint32_t from, uint32_t tag, void *bytes, uint64_t least_bytes,
                   uint64_t size_bytes, void **out_request) {
    const world *w = own;
    request *made = calloc(1, sizeof *made);
    if (!made) return MPI_ERR_NO_MEM;
    made->is_receive = 1;
    made->least_bytes = (int)least_bytes;
    int error = enter_mpi();
    if (error == MPI_SUCCESS)
        error =
            leave_mpi(MPI_Irecv(bytes, (int)size_bytes, MPI_BYTE, (int)from, (int)tag, w->mpi, &made->mpi));
    return post(error, made, out_request);
}

static int test(void *own, int *out_over) {
    request *tested = own;
    MPI_Status status;
    int size = 0, error = enter_mpi();
    *out_over = 0;
    if (error != MPI_SUCCESS) return error;
    error = MPI_Test(&tested->mpi, out_over, &status);
    if (error != MPI_SUCCESS) *out_over = 1;
    /* One that was cancelled has no size, and nobody wants it. */
    if (error == MPI_SUCCESS && *out_over && tested->is_receive && !tested->is_cancelled &&
        (error = MPI_Get_count(&status, MPI_BYTE, &size)) == MPI_SUCCESS && size < tested->least_bytes)
        error = ROTA_MPI_SHORT;
    if (*out_over) free(tested);
    return leave_mpi(error); /* behind the size, too, which MPI says no more once it has ended */
}

/* A send that nobody has taken can't be cancelled; nor anything twice, which Open MPI 4.1 does not survive. */
static int cancel(void *own) {
    request *cancelled = own;
    if (!cancelled->is_receive || cancelled->is_cancelled) return MPI_SUCCESS;
    const int error = enter_mpi();
    if (error != MPI_SUCCESS) return error;
    cancelled->is_cancelled = 1;
    return leave_mpi(MPI_Cancel(&cancelled->mpi));
}

/* Small messages that are over for who sent them, and were never wanted: MPICH's UCX complains of each that is left. */
static void take_unwanted(MPI_Comm mpi) {
    for (;;) {
        MPI_Message message;
        MPI_Status status;
        int is_there = 0, size = 0;
        if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi, &is_there, &message, &status) != MPI_SUCCESS ||
            !is_there)
            return;
        (void)MPI_Get_count(&status, MPI_BYTE, &size);
        void *bytes = malloc(size > 0 ? (size_t)size : 1);
        const int error =
            bytes ? MPI_Mrecv(bytes, size, MPI_BYTE, &message, MPI_STATUS_IGNORE) : MPI_ERR_NO_MEM;
        free(bytes);
        if (error != MPI_SUCCESS) return;
    }
}

static int end(void *own) {
    world *ended = own;
    int error = enter_mpi();
    if (error == MPI_SUCCESS) {
        take_unwanted(ended->mpi);
        error = leave_mpi(MPI_Comm_free(&ended->mpi));
    }
    const int ended_error = end_life();
    free(ended);
    return error != MPI_SUCCESS ? error : ended_error;
}

static void explain(int error, char *out_text, size_t capacity) {
    static const char *const own[] = {
        [-ROTA_MPI_NOT_MULTIPLE] =
            "the application initialised MPI without MPI_THREAD_MULTIPLE, which rota's own thread needs",
        [-ROTA_MPI_FINALISED] = "MPI was finalised in this process, and can't be initialised again",
        [-ROTA_MPI_NOT_INITIALISED] = "MPI is not initialised, as it must be where an MPI_Comm is given",
        [-ROTA_MPI_NOT_A_GROUP] = "MPI_COMM_NULL, or a communicator between two groups, has no ranks to take",
        [-ROTA_MPI_OTHER] = "the process has another MPI than rota's library for it was built with",
        [-ROTA_MPI_SHORT] = "it has fewer bytes than a rank sends",
        [-ROTA_MPI_ENDED] =
            "the application called MPI_Finalize while this was open, which it has to close first"};
    char text[MPI_MAX_ERROR_STRING] = "an error that MPI does not know";
    int length = 0;
    const char *found = error < 0 && (size_t)-error < sizeof own / sizeof *own ? own[-error] : text;
    if (error >= 0 && enter_mpi() == MPI_SUCCESS) (void)leave_mpi(MPI_Error_string(error, text, &length));
    if (!capacity) return;
    strncpy(out_text, found ? found : text, capacity - 1);
    out_text[capacity - 1] = 0;
}

__attribute__((visibility("default"))) const rota_mpi_functions *rota_mpi_functions_get(void) {
    static const rota_mpi_functions functions = {ROTA_MPI_VERSION, LIBRARY, take,   begin, send,
                                                 receive,          test,    cancel, end,   explain};
    return &functions;
}
