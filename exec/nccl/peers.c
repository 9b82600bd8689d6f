/* See peers.h. The lock guards all groups. It is held while work is put on streams, and these are asked: that waits
 * for nothing, as all else that the driver does may, for a device, and so for a kernel of NCCL's that waits for a rank
 * whose thread wants the lock. */
#include "exec/nccl/peers.h"

#include <stdlib.h>
#include <string.h>

#ifdef ROTA_HAVE_CUDA
#include <pthread.h>

#include "exec/cuda/cuda_sums.h"

/* Less is NCCL's: a kernel of its own takes less time than copies there and back take to begin. */
#define LEAST_BYTES (UINT64_C(256) << 10)
#define ALIGNMENT UINT64_C(16) /* of shares, for the copies and the sums */
#define BLOCKS_MAX 264u        /* of a kernel of sums: what reads memory as fast as it goes */

typedef struct member {
    rota_peer own;
    bool is_here;
    CUmodule module;
    CUfunction sums[ROTA_COLLECTIVE_TYPE_COUNT];
    CUevent summed, ended; /* its share is done; all is that touches its memory */
    /* Under way: */
    rota_collective collective;
    CUdeviceptr scratch;
    bool is_put;
} member;

struct rota_peers {
    rota_peers *next;
    rota_nccl_id id;
    uint32_t size, here, come;
    bool is_off;    /* some rank can't: from before all have opened */
    bool has_ended; /* a rank has given up, or left, or could not put it there: nothing more is put there */
    member members[ROTA_CUDA_SUMS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rota_peers *groups;

static const char *const entries[ROTA_COLLECTIVE_TYPE_COUNT] = {[ROTA_COLLECTIVE_F32] = "rota_sums_f32",
                                                                [ROTA_COLLECTIVE_F16] = "rota_sums_f16",
                                                                [ROTA_COLLECTIVE_BF16] = "rota_sums_bf16"};

static rota_status check(const rota_cuda_api *cu, CUresult result, const char *what) {
    return result == CUDA_SUCCESS ? ROTA_OK : rota_cuda_fail(cu, result, what);
}

/* ---- Joining ---- */

static bool are_in_reach(const rota_cuda_api *cu, const CUdevice *devices, uint32_t count) {
    if (!cu->DeviceCanAccessPeer || !cu->CtxEnablePeerAccess) return false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++) {
            int can = i == k;
            if (!can && cu->DeviceCanAccessPeer(&can, devices[i], devices[k]) != CUDA_SUCCESS) return false;
            if (!can) return false;
        }
    return true;
}

/* The current context reaches the memory of these devices', which are open. */
static bool reach(const rota_cuda_api *cu, const CUdevice *devices, uint32_t count) {
    bool reached = true;
    for (uint32_t i = 0; i < count && reached; i++) {
        CUcontext context;
        if (cu->DevicePrimaryCtxRetain(&context, devices[i]) != CUDA_SUCCESS) return false;
        const CUresult result = cu->CtxEnablePeerAccess(context, 0);
        reached = result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
        (void)cu->DevicePrimaryCtxRelease(devices[i]);
    }
    return reached;
}

/* The context is current, here and in `make`; outside of the lock, since the driver may wait for the device. */
static void undo(member *m) {
    const rota_cuda_api *cu = m->own.cu;
    CUevent events[] = {m->summed, m->ended};
    for (uint32_t i = 0; i < 2; i++)
        if (events[i]) (void)cu->EventDestroy(events[i]);
    if (m->module) (void)cu->ModuleUnload(m->module);
    m->summed = m->ended = NULL;
    m->module = NULL;
}

static bool make(member *m) {
    const rota_cuda_api *cu = m->own.cu;
    if (cu->EventCreate(&m->summed, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
        cu->EventCreate(&m->ended, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
        cu->ModuleLoadDataEx(&m->module, rota_cuda_sums_image(), 0, NULL, NULL) != CUDA_SUCCESS)
        return false;
    for (uint32_t t = 0; t < ROTA_COLLECTIVE_TYPE_COUNT; t++)
        if (entries[t] && cu->ModuleGetFunction(&m->sums[t], m->module, entries[t]) != CUDA_SUCCESS)
            return false;
    return true;
}

/* Whether this rank can do it. */
static bool prepare(member *m, const uint32_t *others, uint32_t other_count) {
    const rota_cuda_api *cu = m->own.cu;
    CUdevice devices[ROTA_CUDA_SUMS_MAX] = {m->own.device};
    const char *wanted = getenv("ROTA_PEER");
    if (!rota_cuda_sums_image() || (wanted && strcmp(wanted, "0") == 0)) return false;
    for (uint32_t i = 0; i < other_count; i++)
        if (cu->DeviceGet(&devices[1 + i], (int)others[i]) != CUDA_SUCCESS) return false;
    return are_in_reach(cu, devices, m->own.size) && reach(cu, devices + 1, other_count) && make(m);
}

static rota_peers *find(const rota_nccl_id *id, uint32_t size) {
    rota_peers *p = groups;
    while (p && memcmp(&p->id, id, sizeof *id) != 0) p = p->next;
    if (p) return p;
    p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->id = *id;
    p->size = size;
    p->next = groups;
    return groups = p;
}

static void forget(rota_peers *p) {
    rota_peers **link = &groups;
    while (*link != p) link = &(*link)->next;
    *link = p->next;
    free(p);
}

rota_status rota_peers_join(const rota_nccl_id *id, const rota_peer *rank, const uint32_t *others,
                            uint32_t other_count, rota_peers **out_peers) {
    *out_peers = NULL;
    if (rank->size < 2 || rank->size > ROTA_CUDA_SUMS_MAX || other_count + 1 != rank->size) return ROTA_OK;
    member made = {.own = *rank, .is_here = true};
    const bool can = prepare(&made, others, other_count);
    if (!can) undo(&made);
    (void)pthread_mutex_lock(&lock);
    rota_peers *p = find(id, rank->size);
    if (p) {
        p->members[rank->rank] = made;
        p->here++;
        if (!can) p->is_off = true;
    }
    (void)pthread_mutex_unlock(&lock);
    *out_peers = p;
    if (p) return ROTA_OK;
    undo(&made);
    return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a communicator's peers");
}

void rota_peers_leave(rota_peers *p, uint32_t rank) {
    (void)pthread_mutex_lock(&lock);
    member gone = p->members[rank];
    p->members[rank].is_here = false;
    p->has_ended = true;
    if (--p->here == 0) forget(p);
    (void)pthread_mutex_unlock(&lock);
    undo(&gone);
}

/* ---- A sum ---- */

bool rota_peers_take(const rota_peers *p, const rota_collective *c) {
    return !p->is_off && c->kind == ROTA_COLLECTIVE_ALL_REDUCE && entries[c->type] &&
           (c->reduction == ROTA_COLLECTIVE_SUM || c->reduction == ROTA_COLLECTIVE_MEAN) &&
           c->count * rota_collective_type_bytes(c->type) >= LEAST_BYTES;
}

/* A rank's share, in bytes from the first element on: of as many as the others, but for the end. */
typedef struct share {
    uint64_t first, bytes;
} share;

static uint64_t share_bytes(const rota_peers *p, const rota_collective *c) {
    const uint64_t all = c->count * rota_collective_type_bytes(c->type);
    const uint64_t units = all / ALIGNMENT + (all % ALIGNMENT != 0);
    return (units / p->size + (units % p->size != 0)) * ALIGNMENT;
}

static share share_of(const rota_peers *p, const rota_collective *c, uint32_t rank) {
    const uint64_t all = c->count * rota_collective_type_bytes(c->type), each = share_bytes(p, c);
    const uint64_t first = each * rank < all ? each * rank : all, left = all - first;
    return (share){first, left < each ? left : each};
}

uint64_t rota_peers_scratch_bytes(const rota_peers *p, const rota_collective *c) {
    return share_bytes(p, c) * (p->size - 1);
}

/* Of a rank's scratch memory, where another's values are. */
static CUdeviceptr scratch_of(const rota_peers *p, uint32_t rank, uint32_t of) {
    const member *m = &p->members[rank];
    return m->scratch + share_bytes(p, &m->collective) * (of < rank ? of : of - 1);
}

static CUdeviceptr input_of(const member *m) {
    return (CUdeviceptr)(uintptr_t)m->collective.input;
}
static CUdeviceptr output_of(const member *m) {
    return (CUdeviceptr)(uintptr_t)m->collective.output;
}

static rota_status copy(const member *m, CUdeviceptr to, CUdeviceptr from, uint64_t bytes) {
    if (bytes == 0) return ROTA_OK;
    return check(m->own.cu, m->own.cu->MemcpyAsync(to, from, bytes, m->own.stream), "cuMemcpyAsync");
}

/* On a rank's stream all that it does: it gets the others' values of its share, adds, and sends the sums to all. A
 * share of any rank's elements is touched by the share's rank alone, on this one stream, so that none waits for another
 * in between, in place or not. */
static rota_status put_share(rota_peers *p, member *m) {
    const rota_cuda_api *cu = m->own.cu;
    const share s = share_of(p, &m->collective, m->own.rank);
    rota_cuda_sums sums = {.to = output_of(m) + s.first,
                           .count = s.bytes / rota_collective_type_bytes(m->collective.type),
                           .ranks = p->size,
                           .divisor =
                               m->collective.reduction == ROTA_COLLECTIVE_MEAN ? (float)p->size : 1.0f};
    for (uint32_t i = 0; i < p->size; i++) { /* not all of the same at once */
        const uint32_t r = (m->own.rank + i) % p->size;
        const CUdeviceptr input = input_of(&p->members[r]) + s.first;
        sums.from[r] = i ? scratch_of(p, m->own.rank, r) : input;
        if (i) ROTA_TRY(copy(m, sums.from[r], input, s.bytes));
    }
    if (s.bytes > 0) {
        void *parameters[] = {&sums};
        const uint64_t blocks = s.bytes / ALIGNMENT / ROTA_CUDA_SUMS_THREADS + 1;
        const CUresult result = cu->LaunchKernel(
            m->sums[m->collective.type], (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), 1, 1,
            ROTA_CUDA_SUMS_THREADS, 1, 1, 0, m->own.stream, parameters, NULL);
        ROTA_TRY(check(cu, result, "cuLaunchKernel of sums"));
    }
    for (uint32_t i = 1; i < p->size; i++)
        ROTA_TRY(copy(m, output_of(&p->members[(m->own.rank + i) % p->size]) + s.first, sums.to, s.bytes));
    return check(cu, cu->EventRecord(m->summed, m->own.stream), "cuEventRecord");
}

/* It is over when the others have done theirs: they read this rank's input, and write to its output. */
static rota_status put_end(rota_peers *p, member *m) {
    const rota_cuda_api *cu = m->own.cu;
    for (uint32_t r = 0; r < p->size; r++)
        if (r != m->own.rank)
            ROTA_TRY(
                check(cu, cu->StreamWaitEvent(m->own.stream, p->members[r].summed, 0), "cuStreamWaitEvent"));
    return check(cu, cu->EventRecord(m->ended, m->own.stream), "cuEventRecord");
}

static rota_status put_on(rota_peers *p, rota_status (*put)(rota_peers *p, member *m)) {
    rota_status status = ROTA_OK;
    for (uint32_t r = 0; r < p->size && status == ROTA_OK; r++) {
        member *m = &p->members[r];
        CUcontext popped;
        ROTA_TRY(check(m->own.cu, m->own.cu->CtxPushCurrent(m->own.context), "cuCtxPushCurrent"));
        status = put(p, m);
        (void)m->own.cu->CtxPopCurrent(&popped);
    }
    return status;
}

static rota_status put_all(rota_peers *p) {
    ROTA_TRY(put_on(p, put_share));
    ROTA_TRY(put_on(p, put_end));
    for (uint32_t r = 0; r < p->size; r++) p->members[r].is_put = true;
    p->come = 0;
    return ROTA_OK;
}

/* Where another rank has given up, that is for the transport to say, with its cause: nothing comes of this. */
rota_status rota_peers_post(rota_peers *p, uint32_t rank, const rota_collective *collective,
                            CUdeviceptr scratch) {
    rota_status status = ROTA_OK;
    (void)pthread_mutex_lock(&lock);
    member *m = &p->members[rank];
    m->collective = *collective;
    m->scratch = scratch;
    m->is_put = false;
    if (!p->has_ended && ++p->come == p->size) status = put_all(p);
    if (status != ROTA_OK) p->has_ended = true;
    (void)pthread_mutex_unlock(&lock);
    return status;
}

rota_status rota_peers_look(rota_peers *p, uint32_t rank, bool *out_over) {
    (void)pthread_mutex_lock(&lock);
    const member *m = &p->members[rank];
    const rota_cuda_api *cu = m->own.cu;
    const CUevent ended = m->is_put ? m->ended : NULL; /* its own: nobody else ends that */
    (void)pthread_mutex_unlock(&lock);
    const CUresult result = ended ? cu->EventQuery(ended) : CUDA_ERROR_NOT_READY;
    *out_over = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? ROTA_OK : check(cu, result, "cuEventQuery");
}

/* ---- Its end ---- */

void rota_peers_abort(rota_peers *p) {
    (void)pthread_mutex_lock(&lock);
    p->has_ended = true;
    (void)pthread_mutex_unlock(&lock);
}

/* What was put there in part is waited for, too: nothing but that, and what a rank has of NCCL's, is on the streams. */
bool rota_peers_are_at_rest(rota_peers *p) {
    bool at_rest = true;
    (void)pthread_mutex_lock(&lock);
    for (uint32_t r = 0; r < p->size; r++) {
        const member *m = &p->members[r];
        CUcontext popped;
        if (!m->is_here || m->own.cu->CtxPushCurrent(m->own.context) != CUDA_SUCCESS) continue;
        const CUresult result = m->own.cu->StreamQuery(m->own.stream);
        (void)m->own.cu->CtxPopCurrent(&popped);
        if (result != CUDA_SUCCESS && !rota_cuda_is_fatal(result)) at_rest = false;
    }
    (void)pthread_mutex_unlock(&lock);
    return at_rest;
}
#endif
