/* See nccl_processes.h. What a process writes of the shared memory is its own rank's, and published by `come` and
 * `gone`: collectives of which its bytes are there, and of which it has its result. */
#include "tests/exec/comm/nccl_processes.h"

#ifdef ROTA_HAVE_CUDA
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "exec/comm/elements.h"
#include "exec/nccl/nccl_api.h"
#include "tests/exec/cuda/cuda_stub.h"

typedef struct shared_rank {
    _Alignas(64) _Atomic uint64_t come, gone;
    uint8_t bytes[NCCL_PROCESSES_BYTES];
} shared_rank;

typedef struct shared {
    _Atomic uint32_t opened, split; /* ranks that have */
    shared_rank ranks[NCCL_PROCESSES_RANKS];
} shared;

struct ncclComm {
    rota_nccl_comm parent;
    rota_nccl_comm *wants_child;
    rota_nccl_comm child;
    shared *all;
    uint32_t rank, size;
    uint64_t posted;             /* collectives so far */
    _Atomic uint32_t is_aborted; /* the parent's: both's */
};

/* On a stream, from its turn on. */
typedef struct operation {
    rota_nccl_comm comm;
    const void *from;
    void *to;
    uint64_t count, number;
    rota_collective_type type;
    bool has_come;
} operation;

static _Atomic uint64_t dies_in; /* 0: in none */

static rota_nccl_result get_version(int *out) {
    *out = 22809;
    return ROTA_NCCL_SUCCESS;
}
static const char *text_of(rota_nccl_result result) {
    (void)result;
    return "an error of the stand-in's";
}
static const char *last_error(rota_nccl_comm comm) {
    (void)comm;
    return "";
}

static rota_nccl_result unique_id(rota_nccl_id *out) {
    memset(out, 0, sizeof *out);
    (void)snprintf(out->bytes, sizeof out->bytes, "/rota-nccl-%ld", (long)getpid());
    const int file = shm_open(out->bytes, O_CREAT | O_EXCL | O_RDWR, 0600);
    const bool is_made = file >= 0 && ftruncate(file, sizeof(shared)) == 0;
    if (file >= 0) (void)close(file);
    return is_made ? ROTA_NCCL_SUCCESS : 2;
}

static rota_nccl_result open_comm(rota_nccl_comm *out, int ranks, rota_nccl_id id, int rank,
                                  rota_nccl_config *config) {
    struct ncclComm *made = calloc(1, sizeof *made);
    const int file = shm_open(id.bytes, O_RDWR, 0600);
    if (!made || file < 0 || config->blocking != 0 || config->split_share != 1 ||
        ranks > NCCL_PROCESSES_RANKS)
        return 3;
    void *memory = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (memory == MAP_FAILED) return 2;
    made->all = memory;
    made->rank = (uint32_t)rank;
    made->size = (uint32_t)ranks;
    /* Whoever comes last takes its name away: nothing stays where a process is killed later. */
    if (ra_fetch_add_acq_rel(&made->all->opened, 1) + 1 == made->size) (void)shm_unlink(id.bytes);
    *out = made;
    return ROTA_NCCL_IN_PROGRESS;
}

static rota_nccl_result split(rota_nccl_comm comm, int color, int key, rota_nccl_comm *out,
                              rota_nccl_config *config) {
    struct ncclComm *made = calloc(1, sizeof *made);
    if (!made || color != 0 || key != (int)comm->rank || config->blocking != 1) return 3;
    made->parent = comm;
    made->all = comm->all;
    made->rank = comm->rank;
    made->size = comm->size;
    comm->child = made;
    comm->wants_child = out;
    ra_fetch_add_acq_rel(&made->all->split, 1);
    return ROTA_NCCL_IN_PROGRESS;
}

static rota_nccl_result async_error(rota_nccl_comm comm, rota_nccl_result *out) {
    const bool have_split = ra_load_acquire(&comm->all->split) >= comm->size;
    *out = ROTA_NCCL_SUCCESS;
    if (ra_load_acquire(&comm->all->opened) < comm->size || (comm->wants_child && !have_split))
        *out = ROTA_NCCL_IN_PROGRESS;
    else if (comm->wants_child)
        *comm->wants_child = comm->child, comm->wants_child = NULL;
    return ROTA_NCCL_SUCCESS;
}

static rota_nccl_result abort_comm(rota_nccl_comm comm) {
    ra_store_release(&comm->is_aborted, 1);
    return ROTA_NCCL_SUCCESS;
}
static rota_nccl_result leave(rota_nccl_comm comm) {
    (void)comm;
    return ROTA_NCCL_SUCCESS;
}

static bool have_all(const operation *o, bool gone, uint64_t number) {
    for (uint32_t r = 0; r < o->comm->size; r++) {
        shared_rank *rank = &o->comm->all->ranks[r];
        if (ra_load_acquire(gone ? &rank->gone : &rank->come) < number) return false;
    }
    return true;
}

/* By the CUDA stand-in's thread. */
static bool is_over(void *user) {
    operation *o = user;
    shared_rank *own = &o->comm->all->ranks[o->comm->rank];
    const void *sources[NCCL_PROCESSES_RANKS];
    if (ra_load_acquire(&o->comm->parent->is_aborted)) return true;
    if (o->number == ra_load_relaxed(&dies_in)) (void)raise(SIGKILL);
    if (!o->has_come) {
        if (!have_all(o, true, o->number - 1)) return false; /* who still reads the one before */
        memcpy(own->bytes, o->from, o->count * rota_collective_type_bytes(o->type));
        ra_store_release(&own->come, o->number);
        o->has_come = true;
    }
    if (!have_all(o, false, o->number)) return false;
    for (uint32_t r = 0; r < o->comm->size; r++) sources[r] = o->comm->all->ranks[r].bytes;
    rota_elements_combine(o->type, ROTA_COLLECTIVE_SUM, sources, o->comm->size, o->count, o->to);
    ra_store_release(&own->gone, o->number);
    return true;
}

static rota_nccl_result all_reduce(const void *from, void *to, size_t count, int type, int reduction,
                                   rota_nccl_comm comm, rota_nccl_stream stream) {
    operation *made = calloc(1, sizeof *made);
    const bool is_f32 = type == ROTA_NCCL_F32;
    if (!made || !comm->parent || reduction != ROTA_NCCL_SUM || (!is_f32 && type != ROTA_NCCL_U32) ||
        count * 4 > NCCL_PROCESSES_BYTES)
        return 4;
    *made = (operation){
        comm, from, to, count, ++comm->posted, is_f32 ? ROTA_COLLECTIVE_F32 : ROTA_COLLECTIVE_U32, false};
    cuda_stub_hold(stream, is_over, made);
    return ROTA_NCCL_SUCCESS;
}

/* ---- What it has not ---- */

static rota_nccl_result no_scatter(const void *from, void *to, size_t count, int type, int reduction,
                                   rota_nccl_comm comm, rota_nccl_stream stream) {
    (void)from, (void)to, (void)count, (void)type, (void)reduction, (void)comm, (void)stream;
    return 5;
}
static rota_nccl_result no_gather(const void *from, void *to, size_t count, int type, rota_nccl_comm comm,
                                  rota_nccl_stream stream) {
    return no_scatter(from, to, count, type, 0, comm, stream);
}
static rota_nccl_result no_send(const void *from, size_t count, int type, int peer, rota_nccl_comm comm,
                                rota_nccl_stream stream) {
    return no_scatter(from, NULL, count, type, peer, comm, stream);
}
static rota_nccl_result no_receive(void *to, size_t count, int type, int peer, rota_nccl_comm comm,
                                   rota_nccl_stream stream) {
    return no_scatter(NULL, to, count, type, peer, comm, stream);
}
static rota_nccl_result no_group(void) {
    return 5;
}

void nccl_processes_die_in(uint64_t number) {
    ra_store_relaxed(&dies_in, number);
}

void nccl_processes_start(void) {
    static const rota_nccl_api api = {.version = 22809,
                                      .GetVersion = get_version,
                                      .GetErrorString = text_of,
                                      .GetLastError = last_error,
                                      .GetUniqueId = unique_id,
                                      .CommInitRankConfig = open_comm,
                                      .CommSplit = split,
                                      .CommGetAsyncError = async_error,
                                      .CommFinalize = leave,
                                      .CommDestroy = leave,
                                      .CommAbort = abort_comm,
                                      .AllReduce = all_reduce,
                                      .ReduceScatter = no_scatter,
                                      .AllGather = no_gather,
                                      .Broadcast = no_scatter,
                                      .Send = no_send,
                                      .Recv = no_receive,
                                      .GroupStart = no_group,
                                      .GroupEnd = no_group};
    rota_nccl_api_use(&api);
}
#endif
