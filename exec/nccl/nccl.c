/* A rank's communicator of NCCL's.
 *
 * Its kernels are on a stream of its own, and are not captured in a plan's graphs. NCCL has a capture, and each launch
 * of it, be the same on all ranks at once, and a communicator outlive the graphs that have it; of several devices of
 * one process a captured one may hang. A plan is compiled by each rank when it likes, into as many graphs as it takes,
 * and outlives communicators. What would be won is a launch.
 *
 * The stream has the greatest priority. A kernel of NCCL's begins when its blocks find room, and beside kernels of more
 * blocks than the GPU takes at once those of a stream of the same priority would come behind them; other ranks' kernels
 * wait for this one meanwhile, on their GPUs. A stream of another priority has also a channel to the GPU of its own,
 * where it is behind nothing that another stream was given before.
 *
 * Nobody waits on the device for what it does, nor does it for others: who posts has seen that what comes before is
 * complete, and what comes after is handed over once its event was seen here.
 *
 * There are two communicators of NCCL's, a parent and its child. Calls of one that does not block have NCCL make a
 * thread for each, which takes as long as the kernel of a small collective does, several times. So the parent, which
 * does not block, is for opening and for the end, and collectives are the child's, which does: called by a thread for
 * that alone (caller.h). It takes the parent's resources, and the parent's abort flag: a call that is held, since
 * another rank has died in the middle of it, is let go by the parent's abort, which the thread of ranks calls.
 *
 * Whose is what: while `is_calling` the child, the scratches and `wanted` are the caller's, and nothing of NCCL's is
 * called here but the parent's abort; else all is the thread's of ranks. */
#include "exec/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/nccl/caller.h"

#ifdef ROTA_HAVE_CUDA
#include <pthread.h>
#include <sys/random.h>

#include "exec/cuda/cuda_api.h"
#include "exec/nccl/peers.h"

typedef enum stage { IDLE, OPENS, SPLITS, CALLS, RUNS, CLOSES, FINALIZES } stage;

enum { SCRATCHES_MAX = 64 /* each twice as large as the one before */ };

struct rota_nccl {
    const rota_nccl_api *api;
    const rota_cuda_api *cu;
    rota_nccl_comm comm;  /* NULL: aborted, or not there */
    rota_nccl_comm child; /* likewise */
    rota_nccl_caller *caller;
    bool is_calling;        /* it was given a call, of which it was not seen yet that it has returned */
    rota_collective wanted; /* that is to be posted */
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUevent event;                      /* behind what was posted, in RUNS */
    CUdeviceptr scratch[SCRATCHES_MAX]; /* the last one is in use, and the largest */
    uint32_t scratch_count;
    uint64_t scratch_bytes;
    uint32_t rank, size;
    uint32_t *others, other_count; /* devices of this process's other ranks */
    rota_peers *peers;             /* NULL: some rank is elsewhere, or out of reach */
    stage stage;
    bool is_aborted;
    uint64_t close_deadline_ns;
};

static const int types[ROTA_COLLECTIVE_TYPE_COUNT] = {[ROTA_COLLECTIVE_F32] = ROTA_NCCL_F32,
                                                      [ROTA_COLLECTIVE_F16] = ROTA_NCCL_F16,
                                                      [ROTA_COLLECTIVE_BF16] = ROTA_NCCL_BF16,
                                                      [ROTA_COLLECTIVE_I32] = ROTA_NCCL_I32,
                                                      [ROTA_COLLECTIVE_U32] = ROTA_NCCL_U32};
static const int reductions[ROTA_COLLECTIVE_REDUCTION_COUNT] = {[ROTA_COLLECTIVE_SUM] = ROTA_NCCL_SUM,
                                                                [ROTA_COLLECTIVE_MEAN] = ROTA_NCCL_MEAN,
                                                                [ROTA_COLLECTIVE_MAX] = ROTA_NCCL_MAX,
                                                                [ROTA_COLLECTIVE_MIN] = ROTA_NCCL_MIN,
                                                                [ROTA_COLLECTIVE_PRODUCT] =
                                                                    ROTA_NCCL_PRODUCT};

/* ---- Results, and the context ---- */

static rota_status fail_nccl(const rota_nccl *n, rota_nccl_result result, const char *what) {
    const char *text = n->api->GetErrorString(result), *last = n->api->GetLastError(NULL);
    return rota_fail(ROTA_SYSTEM, "%s: NCCL says %d (%s)%s%s", what, result, text ? text : "no text",
                     last && *last ? ": " : "", last && *last ? last : "");
}

static rota_status check_cuda(const rota_nccl *n, CUresult result, const char *what) {
    return result == CUDA_SUCCESS ? ROTA_OK : rota_cuda_fail(n->cu, result, what);
}

/* The device's context, until `leave`. Relaxed: else somebody's capture in the default mode, on any thread, would have
 * the driver refuse what NCCL calls here. */
static rota_status enter(const rota_nccl *n, CUstreamCaptureMode *out_outer) {
    ROTA_TRY(check_cuda(n, n->cu->CtxPushCurrent(n->context), "cuCtxPushCurrent"));
    *out_outer = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)n->cu->ThreadExchangeStreamCaptureMode(out_outer);
    return ROTA_OK;
}

static void leave(const rota_nccl *n, CUstreamCaptureMode *outer) {
    CUcontext popped;
    (void)n->cu->ThreadExchangeStreamCaptureMode(outer);
    (void)n->cu->CtxPopCurrent(&popped);
}

/* ---- What a rank has ---- */

static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static uint64_t process_random; /* 0: there is none */

static void make_process_random(void) {
    if (getrandom(&process_random, sizeof process_random, 0) != (ssize_t)sizeof process_random)
        process_random = 0;
}

/* With the id in it, since what was forked has the same random bits. */
static rota_status find_process(uint64_t *out_process) {
    (void)pthread_once(&process_once, make_process_random);
    if (!process_random) return rota_fail(ROTA_SYSTEM, "getrandom: no number for this process");
    *out_process = process_random + (uint64_t)getpid() * UINT64_C(0x9E3779B97F4A7C15);
    return ROTA_OK;
}

rota_status rota_nccl_look(uint32_t index, rota_nccl_about *out_about) {
    const rota_nccl_api *api;
    const rota_cuda_api *cu;
    CUdevice device;
    CUuuid uuid;
    memset(out_about, 0, sizeof *out_about);
    ROTA_TRY(rota_nccl_api_get(&api));
    ROTA_TRY(rota_cuda_api_get(&cu));
    CUresult result = cu->DeviceGet(&device, (int)index);
    if (result != CUDA_SUCCESS) return rota_cuda_fail(cu, result, "cuDeviceGet");
    result = cu->DeviceGetUuid(&uuid, device);
    if (result != CUDA_SUCCESS) return rota_cuda_fail(cu, result, "cuDeviceGetUuid");
    out_about->version = (uint32_t)api->version;
    memcpy(out_about->device, uuid.bytes, sizeof out_about->device);
    out_about->index = index;
    return find_process(&out_about->process);
}

rota_status rota_nccl_make_id(rota_nccl_id *out_id) {
    const rota_nccl_api *api;
    ROTA_TRY(rota_nccl_api_get(&api));
    const rota_nccl_result result = api->GetUniqueId(out_id);
    if (result == ROTA_NCCL_SUCCESS) return ROTA_OK;
    return fail_nccl(&(rota_nccl){.api = api}, result, "ncclGetUniqueId");
}

/* ---- Opening ---- */

static rota_status begin_to_open(rota_nccl *n, const rota_nccl_id *id) {
    rota_nccl_config config = ROTA_NCCL_CONFIG(0);
    int least, greatest;
    config.split_share = 1; /* with its child */
    ROTA_TRY(rota_nccl_caller_start(&n->caller));
    ROTA_TRY(
        check_cuda(n, n->cu->CtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange"));
    ROTA_TRY(check_cuda(n, n->cu->StreamCreateWithPriority(&n->stream, CU_STREAM_NON_BLOCKING, greatest),
                        "cuStreamCreateWithPriority"));
    ROTA_TRY(check_cuda(n, n->cu->EventCreate(&n->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    const rota_peers_rank own = {n->cu, n->device, n->context, n->stream, n->rank, n->size};
    ROTA_TRY(rota_peers_join(id, &own, n->others, n->other_count, &n->peers));
    const rota_nccl_result result =
        n->api->CommInitRankConfig(&n->comm, (int)n->size, *id, (int)n->rank, &config);
    n->stage = OPENS;
    if (result == ROTA_NCCL_SUCCESS || result == ROTA_NCCL_IN_PROGRESS) return ROTA_OK;
    return fail_nccl(n, result, "ncclCommInitRankConfig");
}

/* Of one that is open. */
static rota_status begin_to_split(rota_nccl *n) {
    rota_nccl_config config = ROTA_NCCL_CONFIG(1);
    const rota_nccl_result result = n->api->CommSplit(n->comm, 0, (int)n->rank, &n->child, &config);
    n->stage = SPLITS;
    if (result == ROTA_NCCL_SUCCESS || result == ROTA_NCCL_IN_PROGRESS) return ROTA_OK;
    return fail_nccl(n, result, "ncclCommSplit");
}

/* Of one that NCCL has nothing of any more. The context is current where `outer` is given. */
static void end(rota_nccl *n, CUstreamCaptureMode *outer) {
    const bool is_entered = outer != NULL;
    if (n->peers) rota_peers_leave(n->peers, n->rank);
    for (uint32_t i = 0; i < n->scratch_count && is_entered; i++) (void)n->cu->MemFree(n->scratch[i]);
    if (is_entered && n->event) (void)n->cu->EventDestroy(n->event);
    if (is_entered && n->stream) (void)n->cu->StreamDestroy(n->stream);
    if (is_entered) leave(n, outer);
    if (n->caller) rota_nccl_caller_end(n->caller);
    (void)n->cu->DevicePrimaryCtxRelease(n->device);
    free(n->others);
    free(n);
}

rota_status rota_nccl_open(uint32_t index, const rota_nccl_id *id, uint32_t rank, uint32_t size,
                           const uint32_t *others, uint32_t other_count, rota_nccl **out_nccl) {
    rota_nccl *n = calloc(1, sizeof *n);
    if (n) n->others = calloc(other_count + 1u, sizeof *n->others);
    if (!n || !n->others) {
        free(n);
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a communicator of NCCL's");
    }
    if (other_count) memcpy(n->others, others, other_count * sizeof *others);
    n->other_count = other_count;
    n->rank = rank;
    n->size = size;
    rota_status status = rota_nccl_api_get(&n->api);
    if (status == ROTA_OK) status = rota_cuda_api_get(&n->cu);
    if (status == ROTA_OK) status = check_cuda(n, n->cu->DeviceGet(&n->device, (int)index), "cuDeviceGet");
    if (status == ROTA_OK)
        status =
            check_cuda(n, n->cu->DevicePrimaryCtxRetain(&n->context, n->device), "cuDevicePrimaryCtxRetain");
    if (status != ROTA_OK) {
        free(n->others);
        free(n);
        return status;
    }
    CUstreamCaptureMode outer;
    status = enter(n, &outer);
    const bool is_entered = status == ROTA_OK;
    if (is_entered) status = begin_to_open(n, id);
    if (status != ROTA_OK) {
        if (n->comm) (void)n->api->CommAbort(n->comm);
        end(n, is_entered ? &outer : NULL);
        return status;
    }
    leave(n, &outer);
    *out_nccl = n;
    return ROTA_OK;
}

/* ---- A collective ---- */

static rota_nccl_result exchange_all(rota_nccl *n, const rota_collective *c, const uint8_t *from) {
    const uint64_t bytes = c->count * rota_collective_type_bytes(c->type);
    uint8_t *to = c->output;
    rota_nccl_result result = n->api->GroupStart();
    for (uint32_t i = 0; i < n->size && result == ROTA_NCCL_SUCCESS; i++) {
        result = n->api->Send(from + bytes * i, c->count, types[c->type], (int)i, n->child, n->stream);
        if (result == ROTA_NCCL_SUCCESS || result == ROTA_NCCL_IN_PROGRESS)
            result = n->api->Recv(to + bytes * i, c->count, types[c->type], (int)i, n->child, n->stream);
        if (result == ROTA_NCCL_IN_PROGRESS) result = ROTA_NCCL_SUCCESS;
    }
    const rota_nccl_result ended = n->api->GroupEnd();
    return result == ROTA_NCCL_SUCCESS ? ended : result;
}

/* Between GPUs of one process NCCL's kernels reach the operands of the other rank themselves. Memory of cuMemAlloc is
 * theirs once NCCL has made the two peers; what rota has mapped (cuda_memory.c) is the GPU's alone until it is said
 * otherwise, and to touch it would end the other GPU's context. It is asked each time: what is at an address may be
 * another memory than it was. Where the other GPU can't reach it, NCCL does not try. */
static rota_status let_others_reach(rota_nccl *n, const void *operand) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&base, &bytes};
    if (!operand || !n->other_count) return ROTA_OK;
    ROTA_TRY(check_cuda(n,
                        n->cu->PointerGetAttributes(2, attributes, values, (CUdeviceptr)(uintptr_t)operand),
                        "cuPointerGetAttributes"));
    for (uint32_t i = 0; i < n->other_count && bytes; i++) {
        const CUmemAccessDesc wanted = {
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)n->others[i]},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        unsigned long long flags = 0;
        /* An error: it was not mapped. */
        if (n->cu->MemGetAccess(&flags, &wanted.location, base) != CUDA_SUCCESS || flags) continue;
        const CUresult result = n->cu->MemSetAccess(base, bytes, &wanted, 1);
        /* The other GPU can't reach it, or it was not mapped, whatever it said of itself. */
        if (result == CUDA_ERROR_INVALID_DEVICE || result == CUDA_ERROR_NOT_SUPPORTED ||
            result == CUDA_ERROR_INVALID_VALUE)
            continue;
        ROTA_TRY(check_cuda(n, result, "cuMemSetAccess"));
    }
    return ROTA_OK;
}

/* What is too small is kept until the end: to free memory waits for all that is on the device, and so for other ranks,
 * whom another communicator's kernel may wait for, and whom this very thread may be the one to give up. */
static rota_status make_scratch(rota_nccl *n, uint64_t bytes) {
    const uint64_t wanted = bytes > 2 * n->scratch_bytes ? bytes : 2 * n->scratch_bytes;
    ROTA_TRY(check_cuda(n, n->cu->MemAlloc(&n->scratch[n->scratch_count], wanted), "cuMemAlloc"));
    n->scratch_count++;
    n->scratch_bytes = wanted;
    return ROTA_OK;
}

/* NCCL sends from where it receives only if that was told apart: in place, what goes out is copied first. */
static rota_status keep_input(rota_nccl *n, const rota_collective *c, const uint8_t **out_from) {
    const uint64_t bytes = c->count * rota_collective_type_bytes(c->type) * n->size;
    *out_from = c->input;
    if (c->input != c->output) return ROTA_OK;
    if (bytes > n->scratch_bytes) ROTA_TRY(make_scratch(n, bytes));
    const CUdeviceptr scratch = n->scratch[n->scratch_count - 1];
    *out_from = (const uint8_t *)(uintptr_t)scratch;
    return check_cuda(n, n->cu->MemcpyAsync(scratch, (CUdeviceptr)(uintptr_t)c->input, bytes, n->stream),
                      "cuMemcpyAsync");
}

static rota_nccl_result put(rota_nccl *n, const rota_collective *c, const uint8_t *from) {
    const rota_nccl_api *api = n->api;
    const int type = types[c->type], reduction = reductions[c->reduction], peer = (int)c->peer;
    switch (c->kind) {
    case ROTA_COLLECTIVE_ALL_REDUCE:
        return api->AllReduce(from, c->output, c->count, type, reduction, n->child, n->stream);
    case ROTA_COLLECTIVE_REDUCE_SCATTER:
        return api->ReduceScatter(from, c->output, c->count, type, reduction, n->child, n->stream);
    case ROTA_COLLECTIVE_ALL_GATHER:
        return api->AllGather(from, c->output, c->count, type, n->child, n->stream);
    case ROTA_COLLECTIVE_ALL_TO_ALL:
        return exchange_all(n, c, from);
    case ROTA_COLLECTIVE_BROADCAST: /* who is not the root has no input */
        return api->Broadcast(from ? from : c->output, c->output, c->count, type, peer, n->child, n->stream);
    case ROTA_COLLECTIVE_SEND:
        return api->Send(from, c->count, type, peer, n->child, n->stream);
    case ROTA_COLLECTIVE_RECEIVE:
        return api->Recv(c->output, c->count, type, peer, n->child, n->stream);
    default:
        return ROTA_NCCL_SUCCESS; /* a barrier has no bytes, and no need of a device */
    }
}

static rota_status post_to_peers(rota_nccl *n, const rota_collective *c) {
    const uint64_t bytes = rota_peers_scratch_bytes(n->peers, c);
    if (bytes > n->scratch_bytes) ROTA_TRY(make_scratch(n, bytes));
    return rota_peers_post(n->peers, n->rank, c, bytes ? n->scratch[n->scratch_count - 1] : 0);
}

static bool is_of_peers(const rota_nccl *n) {
    return n->peers && rota_peers_take(n->peers, &n->wanted);
}

/* On the caller's thread. An event is behind it on the stream, where it went well, or the peers have theirs. */
static rota_status post(rota_nccl *n, const rota_collective *c) {
    const uint8_t *from = c->input;
    ROTA_TRY(let_others_reach(n, c->input));
    ROTA_TRY(let_others_reach(n, c->output));
    if (is_of_peers(n)) return post_to_peers(n, c);
    if (c->kind == ROTA_COLLECTIVE_ALL_TO_ALL) ROTA_TRY(keep_input(n, c, &from));
    const rota_nccl_result result = put(n, c, from);
    if (result != ROTA_NCCL_SUCCESS) return fail_nccl(n, result, rota_collective_kind_text(c->kind));
    return check_cuda(n, n->cu->EventRecord(n->event, n->stream), "cuEventRecord");
}

static rota_status call_post(void *user) {
    rota_nccl *n = user;
    CUstreamCaptureMode outer;
    ROTA_TRY(enter(n, &outer));
    const rota_status status = post(n, &n->wanted);
    leave(n, &outer);
    return status;
}

static void give(rota_nccl *n, rota_status (*fn)(void *user), stage next) {
    n->is_calling = true;
    n->stage = next;
    rota_nccl_caller_give(n->caller, fn, n);
}

/* False: it has not returned. */
static bool take(rota_nccl *n, rota_status *out_status) {
    n->is_calling = !rota_nccl_caller_take(n->caller, out_status);
    return !n->is_calling;
}

void rota_nccl_stir(rota_nccl *n) {
    rota_nccl_caller_stir(n->caller);
}

rota_status rota_nccl_post(rota_nccl *n, const rota_collective *collective) {
    if (n->is_aborted) return rota_fail(ROTA_WRONG_STATE, "NCCL's communicator was aborted");
    if (collective->count == 0) return ROTA_OK;
    n->wanted = *collective;
    give(n, call_post, CALLS);
    return ROTA_OK;
}

/* ---- Progress ---- */

/* SUCCESS, IN_PROGRESS, or what has gone wrong on this rank or, as NCCL noticed, another. */
static rota_nccl_result ask(const rota_nccl *n, rota_nccl_comm comm) {
    rota_nccl_result state = ROTA_NCCL_SUCCESS;
    const rota_nccl_result result = comm ? n->api->CommGetAsyncError(comm, &state) : ROTA_NCCL_SUCCESS;
    return result == ROTA_NCCL_SUCCESS ? state : result;
}

static rota_status look_at_opening(rota_nccl *n, bool *out_over) {
    const rota_nccl_result state = ask(n, n->comm);
    if (state == ROTA_NCCL_IN_PROGRESS) return ROTA_OK;
    if (state != ROTA_NCCL_SUCCESS) return fail_nccl(n, state, "opening");
    if (n->stage == OPENS) return begin_to_split(n);
    if (!n->child) return fail_nccl(n, state, "ncclCommSplit made no communicator");
    n->stage = IDLE;
    *out_over = true;
    return ROTA_OK;
}

static rota_status look_at_run(rota_nccl *n, bool *out_over) {
    if (is_of_peers(n)) {
        ROTA_TRY(rota_peers_look(n->peers, n->rank, out_over));
        if (*out_over) n->stage = IDLE;
        return ROTA_OK;
    }
    const rota_nccl_result state = ask(n, n->child);
    if (state != ROTA_NCCL_SUCCESS && state != ROTA_NCCL_IN_PROGRESS)
        return fail_nccl(n, state, "while it ran");
    const CUresult result = n->cu->EventQuery(n->event);
    if (result == CUDA_ERROR_NOT_READY) return ROTA_OK;
    ROTA_TRY(check_cuda(n, result, "cuEventQuery"));
    n->stage = IDLE;
    *out_over = true;
    return ROTA_OK;
}

static rota_status look(rota_nccl *n, bool *out_over) {
    rota_status status = ROTA_OK;
    if (n->stage == OPENS || n->stage == SPLITS) return look_at_opening(n, out_over);
    if (n->is_calling && !take(n, &status)) return ROTA_OK;
    ROTA_TRY(status);
    n->stage = RUNS;
    return look_at_run(n, out_over);
}

static void abort_one(const rota_nccl *n, rota_nccl_comm *comm) {
    if (*comm) (void)n->api->CommAbort(*comm);
    *comm = NULL;
}

/* After an abort: nothing but what was posted is on the stream, and NCCL puts nothing more there. A context that has
 * failed has nothing at work any more; whatever else the driver says, it may be. */
static bool is_at_rest(rota_nccl *n) {
    rota_status unused;
    CUstreamCaptureMode outer;
    if (n->is_calling && !take(n, &unused)) return false;
    if (enter(n, &outer) != ROTA_OK) return false;
    abort_one(n, &n->child); /* where the caller had it before */
    const CUresult result = n->cu->StreamQuery(n->stream);
    const bool are_others = !is_of_peers(n) || rota_peers_are_at_rest(n->peers);
    leave(n, &outer);
    if (!are_others) return false;
    return result == CUDA_SUCCESS || rota_cuda_is_fatal(result);
}

rota_status rota_nccl_progress(rota_nccl *n, bool *out_over) {
    CUstreamCaptureMode outer;
    *out_over = n->stage == IDLE;
    if (*out_over) return ROTA_OK;
    if (n->is_aborted) {
        *out_over = is_at_rest(n);
        if (*out_over) n->stage = IDLE;
        return ROTA_OK;
    }
    ROTA_TRY(enter(n, &outer));
    const rota_status status = look(n, out_over);
    leave(n, &outer);
    return status;
}

/* ---- Its end ---- */

void rota_nccl_abort(rota_nccl *n) {
    CUstreamCaptureMode outer;
    if (n->is_aborted) return;
    n->is_aborted = true;
    if (n->peers) rota_peers_abort(n->peers);
    const bool is_entered = enter(n, &outer) == ROTA_OK;
    abort_one(n, &n->comm); /* first: what holds the caller lets it go */
    if (!n->is_calling) abort_one(n, &n->child);
    if (n->stage == OPENS || n->stage == SPLITS) n->stage = IDLE;
    if (is_entered) leave(n, &outer);
}

/* On the caller's thread: NCCL lets go of all that is others'. */
static rota_status call_close(void *user) {
    rota_nccl *n = user;
    CUstreamCaptureMode outer;
    const bool is_entered = enter(n, &outer) == ROTA_OK;
    const rota_nccl_result result = n->api->CommFinalize(n->child);
    (void)(result == ROTA_NCCL_SUCCESS ? n->api->CommDestroy(n->child) : n->api->CommAbort(n->child));
    n->child = NULL;
    if (is_entered) leave(n, &outer);
    return ROTA_OK;
}

/* The child first, whose messages may be on their way. True: it has gone. */
static bool is_child_closed(rota_nccl *n, uint64_t now) {
    rota_status unused;
    if (n->stage != CLOSES && n->child) give(n, call_close, CLOSES);
    if (!n->is_calling || take(n, &unused)) return true;
    if (now >= n->close_deadline_ns) abort_one(n, &n->comm);
    return false;
}

/* True: NCCL has let go of all that is others', or has been made to. */
static bool is_finalized(rota_nccl *n, uint64_t deadline_ns) {
    const uint64_t now = rota_clock_ns();
    if (!n->close_deadline_ns) n->close_deadline_ns = deadline_ns > now ? now + (deadline_ns - now) / 2 : now;
    if (!is_child_closed(n, now)) return false;
    if (!n->comm) return true;
    rota_nccl_result state = ROTA_NCCL_SUCCESS;
    if (n->stage != FINALIZES) {
        n->stage = FINALIZES;
        state = n->api->CommFinalize(n->comm);
    }
    if (state == ROTA_NCCL_SUCCESS) state = ask(n, n->comm);
    if (state == ROTA_NCCL_IN_PROGRESS && now < n->close_deadline_ns) return false;
    (void)(state == ROTA_NCCL_SUCCESS ? n->api->CommDestroy(n->comm) : n->api->CommAbort(n->comm));
    n->comm = NULL;
    return true;
}

bool rota_nccl_close(rota_nccl *n, uint64_t deadline_ns) {
    CUstreamCaptureMode outer;
    if (n->stage == OPENS || n->stage == SPLITS) rota_nccl_abort(n);
    const bool is_entered = enter(n, &outer) == ROTA_OK;
    if (is_finalized(n, deadline_ns)) {
        end(n, is_entered ? &outer : NULL);
        return true;
    }
    if (is_entered) leave(n, &outer);
    if (rota_clock_ns() < deadline_ns || !n->is_calling) return false;
    rota_nccl_caller_end(n->caller); /* it is held in a call for good, and has the rest */
    return true;
}

#else

static rota_status absent(void) {
    return rota_fail(ROTA_UNSUPPORTED, "this build of rota has no CUDA devices: it was made without cuda.h");
}

rota_status rota_nccl_look(uint32_t index, rota_nccl_about *out_about) {
    (void)index, (void)out_about;
    return absent();
}
rota_status rota_nccl_make_id(rota_nccl_id *out_id) {
    (void)out_id;
    return absent();
}
rota_status rota_nccl_open(uint32_t index, const rota_nccl_id *id, uint32_t rank, uint32_t size,
                           const uint32_t *others, uint32_t other_count, rota_nccl **out_nccl) {
    (void)index, (void)id, (void)rank, (void)size, (void)others, (void)other_count, (void)out_nccl;
    return absent();
}
void rota_nccl_stir(rota_nccl *nccl) {
    (void)nccl;
}
rota_status rota_nccl_post(rota_nccl *nccl, const rota_collective *collective) {
    (void)nccl, (void)collective;
    return absent();
}
rota_status rota_nccl_progress(rota_nccl *nccl, bool *out_over) {
    (void)nccl;
    *out_over = true;
    return absent();
}
void rota_nccl_abort(rota_nccl *nccl) {
    (void)nccl;
}
bool rota_nccl_close(rota_nccl *nccl, uint64_t deadline_ns) {
    (void)nccl, (void)deadline_ns;
    return true;
}
#endif
