/* See peers.h. The lock guards all groups. It is held while work is put on streams, and these are asked: that waits
 * for nothing, as all else that the driver does may, for a device, and so for a kernel of NCCL's that waits for a rank
 * whose thread wants the lock. */
#include "exec/nccl/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ROTA_HAVE_CUDA
#include <pthread.h>

#include "exec/cuda/cuda_peer.h"
#include "exec/cuda/cuda_sums.h"

/* Less is NCCL's: a kernel of its own takes less time than copies there and back take to begin. */
#define LEAST_BYTES (UINT64_C(256) << 10)
#define ALIGNMENT UINT64_C(16) /* of shares, for the copies and the sums */
#define BLOCKS_MAX 264u        /* of a kernel of sums: what reads memory as fast as it goes */

typedef struct member {
    rota_peers_rank own;
    bool is_here;
    CUmodule module;
    CUfunction sums[ROTA_COLLECTIVE_TYPE_COUNT];
    CUevent done; /* behind its share, all that its stream does */
    /* Under way: */
    rota_collective collective;
    CUdeviceptr scratch;
    bool is_put;
    bool is_done; /* its share, as somebody has seen: it may have left since */
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
    if (m->done) (void)cu->EventDestroy(m->done);
    if (m->module) (void)cu->ModuleUnload(m->module);
    m->done = NULL;
    m->module = NULL;
}

static bool make(member *m) {
    const rota_cuda_api *cu = m->own.cu;
    if (cu->EventCreate(&m->done, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
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
    if (!rota_cuda_sums_image() || rota_cuda_peers_are_off()) return false;
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

rota_status rota_peers_join(const rota_nccl_id *id, const rota_peers_rank *rank, const uint32_t *others,
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

/* ---- A collective ---- */

/* What all ranks together have of it, once. */
static uint64_t bytes_of(const rota_peers *p, const rota_collective *c) {
    const uint64_t bytes = c->count * rota_collective_type_bytes(c->type);
    return c->kind == ROTA_COLLECTIVE_ALL_REDUCE ? bytes : bytes * p->size;
}

bool rota_peers_take(const rota_peers *p, const rota_collective *c) {
    const bool sums = rota_collective_reduces(c->kind) && entries[c->type] &&
                      (c->reduction == ROTA_COLLECTIVE_SUM || c->reduction == ROTA_COLLECTIVE_MEAN);
    return !p->is_off && (sums || c->kind == ROTA_COLLECTIVE_ALL_GATHER) && bytes_of(p, c) >= LEAST_BYTES;
}

/* A rank's share, in bytes of what has all shares, one after the other: inputs, outputs, or both. In an all_reduce it
 * is as large as the others', but for the end. */
typedef struct share {
    uint64_t first, bytes;
} share;

static share share_of(const rota_peers *p, const rota_collective *c, uint32_t rank) {
    const uint64_t all = bytes_of(p, c), units = all / ALIGNMENT + (all % ALIGNMENT != 0);
    if (c->kind != ROTA_COLLECTIVE_ALL_REDUCE) return (share){all / p->size * rank, all / p->size};
    const uint64_t each = (units / p->size + (units % p->size != 0)) * ALIGNMENT;
    const uint64_t first = each * rank < all ? each * rank : all, left = all - first;
    return (share){first, left < each ? left : each};
}

/* Of scratch memory, for what one other rank has of a share. */
static uint64_t room_of(const rota_peers *p, const rota_collective *c) {
    const uint64_t bytes = share_of(p, c, 0).bytes; /* the largest */
    return (bytes / ALIGNMENT + (bytes % ALIGNMENT != 0)) * ALIGNMENT;
}

uint64_t rota_peers_scratch_bytes(const rota_peers *p, const rota_collective *c) {
    return rota_collective_reduces(c->kind) ? room_of(p, c) * (p->size - 1) : 0;
}

/* Of a rank's scratch memory, where another's values are. */
static CUdeviceptr scratch_of(const rota_peers *p, const member *m, uint32_t of) {
    return m->scratch + room_of(p, &m->collective) * (of < m->own.rank ? of : of - 1);
}

static CUdeviceptr input_of(const member *m) {
    return (CUdeviceptr)(uintptr_t)m->collective.input;
}
static CUdeviceptr output_of(const member *m) {
    return (CUdeviceptr)(uintptr_t)m->collective.output;
}

static rota_status copy(const member *m, CUdeviceptr to, CUdeviceptr from, uint64_t bytes) {
    if (bytes == 0 || to == from) return ROTA_OK;
    return check(m->own.cu, m->own.cu->MemcpyAsync(to, from, bytes, m->own.stream), "cuMemcpyAsync");
}

/* The others' values of its share are got, not all from the same rank at once, and all added up. */
static rota_status put_sum(rota_peers *p, member *m, share s, CUdeviceptr to) {
    const rota_cuda_api *cu = m->own.cu;
    rota_cuda_sums sums = {.to = to,
                           .count = s.bytes / rota_collective_type_bytes(m->collective.type),
                           .ranks = p->size,
                           .divisor =
                               m->collective.reduction == ROTA_COLLECTIVE_MEAN ? (float)p->size : 1.0f};
    if (s.bytes == 0) return ROTA_OK;
    for (uint32_t i = 0; i < p->size; i++) {
        const uint32_t r = (m->own.rank + i) % p->size;
        const CUdeviceptr input = input_of(&p->members[r]) + s.first;
        sums.from[r] = i ? scratch_of(p, m, r) : input;
        if (i) ROTA_TRY(copy(m, sums.from[r], input, s.bytes));
    }
    void *parameters[] = {&sums};
    const uint64_t blocks = s.bytes / ALIGNMENT / ROTA_CUDA_SUMS_THREADS + 1;
    const CUresult result =
        cu->LaunchKernel(m->sums[m->collective.type], (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX),
                         1, 1, ROTA_CUDA_SUMS_THREADS, 1, 1, 0, m->own.stream, parameters, NULL);
    return check(cu, result, "cuLaunchKernel of sums");
}

/* On a rank's stream all that it does: of the sums its share, of what is gathered what it has. Any rank's elements of a
 * share are touched by the share's rank alone, on this one stream, so that no stream waits for another, in place or
 * not. */
static rota_status put_share(rota_peers *p, member *m) {
    const rota_collective *c = &m->collective;
    const share s = share_of(p, c, m->own.rank);
    /* What of this rank's is a share alone begins with it. */
    const CUdeviceptr own = c->kind == ROTA_COLLECTIVE_ALL_GATHER       ? input_of(m)
                            : c->kind == ROTA_COLLECTIVE_REDUCE_SCATTER ? output_of(m)
                                                                        : output_of(m) + s.first;
    if (rota_collective_reduces(c->kind)) ROTA_TRY(put_sum(p, m, s, own));
    for (uint32_t i = 0; i < p->size && c->kind != ROTA_COLLECTIVE_REDUCE_SCATTER; i++)
        ROTA_TRY(copy(m, output_of(&p->members[(m->own.rank + i) % p->size]) + s.first, own, s.bytes));
    return check(m->own.cu, m->own.cu->EventRecord(m->done, m->own.stream), "cuEventRecord");
}

static rota_status fail_of(const member *m, rota_status status) {
    char text[ROTA_ERROR_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s", rota_last_error());
    return rota_fail(status, "rank %u's device: %s", m->own.rank, text);
}

static rota_status put_all(rota_peers *p) {
    rota_status status = ROTA_OK;
    for (uint32_t r = 0; r < p->size && status == ROTA_OK; r++) {
        member *m = &p->members[r];
        CUcontext popped;
        status = check(m->own.cu, m->own.cu->CtxPushCurrent(m->own.context), "cuCtxPushCurrent");
        if (status != ROTA_OK) return fail_of(m, status);
        status = put_share(p, m);
        if (status != ROTA_OK) status = fail_of(m, status);
        (void)m->own.cu->CtxPopCurrent(&popped);
    }
    for (uint32_t r = 0; r < p->size && status == ROTA_OK; r++) {
        p->members[r].is_put = true;
        p->members[r].is_done = false;
    }
    p->come = 0;
    return status;
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

/* Whether a rank's share is. Who has left had seen all shares done, and said so here, or had given up. */
static rota_status look_at(member *m, bool *out_done) {
    if (!m->is_done && m->is_here) {
        const CUresult result = m->own.cu->EventQuery(m->done);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
            return fail_of(m, check(m->own.cu, result, "cuEventQuery"));
        m->is_done = result == CUDA_SUCCESS;
    }
    *out_done = m->is_done;
    return ROTA_OK;
}

/* Where it is put there for this rank it is the last one that was put: the next is when all have seen the end of it. */
rota_status rota_peers_look(rota_peers *p, uint32_t rank, bool *out_over) {
    rota_status status = ROTA_OK;
    (void)pthread_mutex_lock(&lock);
    bool is_over = p->members[rank].is_put;
    for (uint32_t i = 0; i < p->size && is_over && status == ROTA_OK; i++)
        status = look_at(&p->members[(rank + i) % p->size], &is_over);
    (void)pthread_mutex_unlock(&lock);
    *out_over = is_over && status == ROTA_OK;
    return status;
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
