/* See raw_peer.h. */
#include "bench/raw_peer.h"

#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

/* name without "cu", the symbol's suffix, parameters. */
#define FUNCTIONS(X)                                                                                         \
    X(Init, , (unsigned))                                                                                    \
    X(DeviceGet, , (CUdevice *, int))                                                                        \
    X(DeviceCanAccessPeer, , (int *, CUdevice, CUdevice))                                                    \
    X(DevicePrimaryCtxRetain, , (CUcontext *, CUdevice))                                                     \
    X(DevicePrimaryCtxRelease, _v2, (CUdevice))                                                              \
    X(CtxPushCurrent, _v2, (CUcontext))                                                                      \
    X(CtxPopCurrent, _v2, (CUcontext *))                                                                     \
    X(CtxEnablePeerAccess, , (CUcontext, unsigned))                                                          \
    X(MemAlloc, _v2, (CUdeviceptr *, size_t))                                                                \
    X(MemFree, _v2, (CUdeviceptr))                                                                           \
    X(MemsetD32Async, , (CUdeviceptr, unsigned, size_t, CUstream))                                           \
    X(MemcpyPeerAsync, , (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))                 \
    X(MemcpyDtoDAsync, _v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                    \
    X(MemcpyDtoH, _v2, (void *, CUdeviceptr, size_t))                                                        \
    X(StreamCreate, , (CUstream *, unsigned))                                                                \
    X(StreamDestroy, _v2, (CUstream))                                                                        \
    X(StreamSynchronize, , (CUstream))                                                                       \
    X(StreamWaitEvent, , (CUstream, CUevent, unsigned))                                                      \
    X(EventCreate, , (CUevent *, unsigned))                                                                  \
    X(EventDestroy, _v2, (CUevent))                                                                          \
    X(EventRecord, , (CUevent, CUstream))                                                                    \
    X(EventElapsedTime, , (float *, CUevent, CUevent))

/* Of each GPU: what is sent, and what comes there. */
typedef struct side {
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUdeviceptr out, in;
    CUevent done, begun, ended;
} side;

struct raw_peer {
    void *library;
    side sides[2];
    uint64_t bytes;
#define DECLARE(name, suffix, parameters) CUresult(CUDAAPI *name) parameters;
    FUNCTIONS(DECLARE)
#undef DECLARE
};

static bool check(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS) return true;
    fprintf(stderr, "raw CUDA: %s failed with %d\n", call, (int)result);
    return false;
}
#define CHECK(call)                                                                                          \
    if (!check(call, #call)) return false

static bool enter(raw_peer *raw, uint32_t which) {
    CHECK(raw->CtxPushCurrent(raw->sides[which].context));
    return true;
}

static void leave(raw_peer *raw) {
    CUcontext popped;
    (void)raw->CtxPopCurrent(&popped);
}

static bool load(raw_peer *raw) {
    raw->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!raw->library) {
        fprintf(stderr, "raw CUDA: %s\n", dlerror());
        return false;
    }
#define LOAD(name, suffix, parameters)                                                                       \
    {                                                                                                        \
        void *address = dlsym(raw->library, "cu" #name #suffix);                                             \
        if (!address) {                                                                                      \
            fprintf(stderr, "raw CUDA: the driver has no cu" #name #suffix "\n");                            \
            return false;                                                                                    \
        }                                                                                                    \
        memcpy(&raw->name, &address, sizeof address);                                                        \
    }
    FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

static bool make_side(raw_peer *raw, side *own) {
    CHECK(raw->StreamCreate(&own->stream, CU_STREAM_NON_BLOCKING));
    CHECK(raw->MemAlloc(&own->out, raw->bytes));
    CHECK(raw->MemAlloc(&own->in, raw->bytes));
    CHECK(raw->EventCreate(&own->done, CU_EVENT_DISABLE_TIMING));
    CHECK(raw->EventCreate(&own->begun, CU_EVENT_DEFAULT));
    CHECK(raw->EventCreate(&own->ended, CU_EVENT_DEFAULT));
    return true;
}

static bool open(raw_peer *raw, const uint32_t *indices) {
    CHECK(raw->Init(0));
    for (uint32_t s = 0; s < 2; s++) {
        CHECK(raw->DeviceGet(&raw->sides[s].device, (int)indices[s]));
        CHECK(raw->DevicePrimaryCtxRetain(&raw->sides[s].context, raw->sides[s].device));
    }
    for (uint32_t s = 0; s < 2; s++) {
        side *own = &raw->sides[s];
        int can = 0;
        CHECK(raw->DeviceCanAccessPeer(&can, own->device, raw->sides[!s].device));
        if (!can) fprintf(stderr, "raw CUDA: GPU %u has no access to GPU %u\n", indices[s], indices[!s]);
        if (!enter(raw, s)) return false;
        const CUresult result = can ? raw->CtxEnablePeerAccess(raw->sides[!s].context, 0) : CUDA_SUCCESS;
        const bool good = (result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ||
                           check(result, "cuCtxEnablePeerAccess")) &&
                          make_side(raw, own);
        leave(raw);
        if (!good) return false;
    }
    return true;
}

raw_peer *raw_peer_create(uint32_t from, uint32_t to, uint64_t bytes) {
    const uint32_t indices[] = {from, to};
    raw_peer *raw = calloc(1, sizeof *raw);
    if (!raw) return NULL;
    raw->bytes = bytes;
    if (load(raw) && open(raw, indices)) return raw;
    raw_peer_destroy(raw);
    return NULL;
}

void raw_peer_destroy(raw_peer *raw) {
    for (uint32_t s = 0; raw && s < 2; s++) {
        side *own = &raw->sides[s];
        if (!own->context) continue;
        if (enter(raw, s)) {
            CUevent events[] = {own->done, own->begun, own->ended};
            if (own->stream) (void)raw->StreamSynchronize(own->stream);
            for (uint32_t i = 0; i < 3; i++)
                if (events[i]) (void)raw->EventDestroy(events[i]);
            if (own->out) (void)raw->MemFree(own->out);
            if (own->in) (void)raw->MemFree(own->in);
            if (own->stream) (void)raw->StreamDestroy(own->stream);
            leave(raw);
        }
        (void)raw->DevicePrimaryCtxRelease(own->device);
    }
    free(raw); /* the driver stays open: it does not survive being unloaded */
}

static bool bring(raw_peer *raw, uint32_t to, uint64_t bytes) {
    side *own = &raw->sides[to], *other = &raw->sides[!to];
    CHECK(raw->StreamWaitEvent(own->stream, other->done, 0));
    CHECK(raw->EventRecord(own->begun, own->stream));
    CHECK(raw->MemcpyPeerAsync(own->in, own->context, other->out, other->context, bytes, own->stream));
    CHECK(raw->EventRecord(own->ended, own->stream));
    return true;
}

static bool fill(raw_peer *raw, uint32_t which, uint32_t word, uint64_t bytes) {
    side *own = &raw->sides[which];
    CHECK(raw->MemsetD32Async(own->out, word, bytes / 4, own->stream));
    CHECK(raw->EventRecord(own->done, own->stream));
    CHECK(raw->StreamSynchronize(own->stream));
    return true;
}

static bool wait(raw_peer *raw, uint32_t which) {
    CHECK(raw->StreamSynchronize(raw->sides[which].stream));
    return true;
}

static bool copy(raw_peer *raw, double *out_us) {
    float ms = 0;
    if (!bring(raw, 1, raw->bytes) || !wait(raw, 1)) return false;
    CHECK(raw->EventElapsedTime(&ms, raw->sides[1].begun, raw->sides[1].ended));
    *out_us = (double)ms * 1e3;
    return true;
}

bool raw_peer_copy(raw_peer *raw, uint32_t word, double *out_us) {
    if (!enter(raw, 0)) return false;
    bool good = fill(raw, 0, word, raw->bytes);
    leave(raw);
    if (!good || !enter(raw, 1)) return false;
    good = copy(raw, out_us);
    leave(raw);
    return good;
}

static bool turn(raw_peer *raw, uint32_t which, uint64_t bytes) {
    side *own = &raw->sides[which];
    if (!bring(raw, which, bytes)) return false;
    CHECK(raw->MemcpyDtoDAsync(own->out, own->in, bytes, own->stream));
    CHECK(raw->EventRecord(own->done, own->stream));
    return true;
}

bool raw_peer_turns(raw_peer *raw, uint32_t turns, uint64_t bytes, double *out_us) {
    if (!enter(raw, 0)) return false;
    bool good = fill(raw, 0, 1, bytes);
    leave(raw);
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < turns && good; i++) {
        const uint32_t which = 1 - i % 2;
        if (!enter(raw, which)) return false;
        good = turn(raw, which, bytes);
        leave(raw);
    }
    if (!good || !enter(raw, turns % 2)) return false;
    good = wait(raw, turns % 2);
    leave(raw);
    *out_us = (double)(rota_clock_ns() - begin) / 1e3 / turns;
    return good;
}

bool raw_peer_check(raw_peer *raw, uint32_t word) {
    uint32_t *got = malloc(raw->bytes);
    if (!got || !enter(raw, 1)) {
        free(got);
        return false;
    }
    bool good = check(raw->MemcpyDtoH(got, raw->sides[1].in, raw->bytes), "cuMemcpyDtoH");
    leave(raw);
    for (uint64_t i = 0; i < raw->bytes / 4 && good; i++) good = got[i] == word;
    free(got);
    return good;
}

#else

static raw_peer *none(void) {
    fprintf(stderr, "raw CUDA: this build was made without cuda.h\n");
    return NULL;
}
raw_peer *raw_peer_create(uint32_t from, uint32_t to, uint64_t bytes) {
    (void)from, (void)to, (void)bytes;
    return none();
}
void raw_peer_destroy(raw_peer *raw) {
    (void)raw;
}
bool raw_peer_copy(raw_peer *raw, uint32_t word, double *out_us) {
    (void)raw, (void)word, (void)out_us;
    return false;
}
bool raw_peer_turns(raw_peer *raw, uint32_t turns, uint64_t bytes, double *out_us) {
    (void)raw, (void)turns, (void)bytes, (void)out_us;
    return false;
}
bool raw_peer_check(raw_peer *raw, uint32_t word) {
    (void)raw, (void)word;
    return false;
}
#endif
