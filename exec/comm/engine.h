/* The message engine contract: bytes from one rank of a process group to another, in order between two ranks for each
 * tag, as MPI has them and the threads of one process. Transports of messages (messages.h) are made on one. Internal.
 *
 * All calls on one engine come from one thread at a time, and wait for nothing but in close. */
#ifndef ROTA_EXEC_COMM_ENGINE_H
#define ROTA_EXEC_COMM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/sleep.h"
#include "base/status.h"

typedef struct rota_engine rota_engine;
/* A message that is under way. */
typedef void rota_engine_request;

/* Of one message: who says of one that it has more is no rank. */
enum { ROTA_ENGINE_MESSAGE_MOST = 1 << 20 };

typedef struct rota_engine_vtable {
    /* The bytes are the engine's until the request is over. */
    rota_status (*send)(rota_engine *engine, uint32_t to, uint32_t tag, const void *bytes,
                        uint64_t size_bytes, rota_engine_request **out_request);
    /* A message of least_bytes to size_bytes: of another size it ends with an error, so that no byte is used that
     * nobody sent. */
    rota_status (*receive)(rota_engine *engine, uint32_t from, uint32_t tag, void *bytes,
                           uint64_t least_bytes, uint64_t size_bytes, rota_engine_request **out_request);
    /* *out_over: it has ended, well or as the status says, and the request is gone. */
    rota_status (*test)(rota_engine *engine, rota_engine_request *request, bool *out_over);
    /* Wants it no more, which is over as soon as the engine can say so, if ever: until then its bytes stay. True: it
     * was sent, and is taken back: nobody gets it. */
    bool (*cancel)(rota_engine *engine, rota_engine_request *request);
    /* The request of a send is over, and its bytes are the caller's again; the message is not taken back, and goes all
     * the same, in its turn, by the engine's own copy, as long as that is open. Without memory for one it is lost, and
     * the other end sees that this rank is gone where the engine has `gone`. NULL: there is no way but to wait. */
    void (*detach)(rota_engine *engine, rota_engine_request *request);
    /* Frees it, its last use by this rank, when no message is under way. Where `is_ended_together` it waits for the
     * other ranks to come to it, which they are about to: for no longer than it takes. */
    void (*close)(rota_engine *engine);
    /* NULL, or where the engine sees by itself that a rank has ended: how, or NULL: it has not. What is wanted of such
     * a rank stays under way, and all that it sent before can be received. */
    const char *(*gone)(const rota_engine *engine, uint32_t rank);
    /* NULL, or wakes who sleeps (base/sleep.h) whenever one of its requests may have ended, from now until `close`: so
     * who looks once more after he said that he sleeps misses none. The sleeper is there until then. */
    void (*tell)(rota_engine *engine, rota_sleeper *sleeper);
} rota_engine_vtable;

/* Whether a message of so many bytes is one that was wanted; and what `test` says of one that is not. */
static inline bool rota_engine_fits(uint64_t got_bytes, uint64_t least_bytes, uint64_t size_bytes) {
    return got_bytes >= least_bytes && got_bytes <= size_bytes;
}
static inline rota_status rota_engine_fail_misfit(uint32_t from, uint64_t got_bytes, uint64_t least_bytes,
                                                  uint64_t size_bytes) {
    return rota_fail(ROTA_INTERNAL, "a message of rank %u has %llu bytes, expected %llu to %llu", from,
                     (unsigned long long)got_bytes, (unsigned long long)least_bytes,
                     (unsigned long long)size_bytes);
}

/* An engine's struct begins with this. */
struct rota_engine {
    const rota_engine_vtable *vtable;
    const char *kind; /* static */
    uint32_t rank, size;
    uint32_t last_tag; /* the highest there is */
    /* Ranks come to the end together: what was sent can't be taken back, and has to be taken before (drain.c). Else a
     * message that was cancelled is over. */
    bool is_ended_together;
    /* NULL, or why it carries nothing any more, and can't say what it still touches: `test` then fails, and nothing is
     * over; static. */
    const char *why_ended;
    uint64_t id;  /* the same on all ranks, and no other engine's; 0: they have agreed on none */
    bool is_told; /* `tell` was called */
};

#endif
