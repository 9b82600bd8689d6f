/* A thread for calls of NCCL's that may block.
 *
 * `state` hands a call over and back: the owner writes fn and user and stores GIVEN (release), the thread loads that
 * (acquire), calls, writes status and message, and stores RETURNED (release), which the owner loads (acquire) and makes
 * RESTS. Both stores are seq_cst where the other one may sleep (base/sleep.h).
 *
 * The thread looks for the next call for LOOKS_NS before it sleeps: to wake it takes longer than a call. Whoever of the
 * two leaves last frees the struct. */
#include "exec/nccl/caller.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/signals.h"
#include "base/sleep.h"

enum { RESTS, GIVEN, RETURNED };
enum { LOOKS_NS = 1000000 };
static const uint64_t sleep_ns = 10000000000u; /* a sleeper looks again after this long */

struct rota_nccl_caller {
    rota_sleeper sleeper;
    _Atomic uint32_t state;
    _Atomic uint32_t is_stirred, is_ended;
    _Atomic uint32_t users; /* the owner and the thread */
    rota_status (*fn)(void *user);
    void *user;
    rota_status status;
    char message[ROTA_ERROR_MESSAGE_MAX]; /* of a status other than OK */
};

static void leave(rota_nccl_caller *c) {
    if (ra_fetch_sub_acq_rel(&c->users, 1) == 1) free(c); /* pairs with itself */
}

static void call(rota_nccl_caller *c) {
    c->status = c->fn(c->user);
    if (c->status != ROTA_OK) (void)snprintf(c->message, sizeof c->message, "%s", rota_last_error());
    ra_store_release(&c->state, RETURNED); /* pairs with the load in rota_nccl_caller_take */
}

/* All of them with seq_cst: after the sleeper's flag. */
static bool has_any(rota_nccl_caller *c) {
    return ra_load_seq_cst(&c->state) == GIVEN || ra_load_seq_cst(&c->is_stirred) != 0 ||
           ra_load_seq_cst(&c->is_ended) != 0;
}

static void *run(void *user) {
    rota_nccl_caller *c = user;
    uint64_t looks_until_ns = 0;
    for (;;) {
        if (ra_load_acquire(&c->state) == GIVEN) { /* pairs with rota_nccl_caller_give */
            call(c);
            looks_until_ns = rota_deadline_after(LOOKS_NS);
        } else if (ra_load_acquire(&c->is_ended)) {
            break;
        } else if (ra_exchange_acq_rel(&c->is_stirred, 0)) {
            looks_until_ns = rota_deadline_after(LOOKS_NS);
        } else if (rota_clock_ns() < looks_until_ns) {
            (void)sched_yield();
        } else {
            rota_sleeper_prepare(&c->sleeper);
            if (has_any(c))
                rota_sleeper_cancel(&c->sleeper);
            else
                rota_sleeper_wait(&c->sleeper, rota_deadline_after(sleep_ns));
        }
    }
    leave(c);
    return NULL;
}

rota_status rota_nccl_caller_start(rota_nccl_caller **out_caller) {
    rota_nccl_caller *c = aligned_alloc(64, (sizeof *c + 63) / 64 * 64);
    if (!c) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a thread that calls NCCL");
    memset(c, 0, sizeof *c);
    atomic_init(&c->users, 2);
    sigset_t before;
    pthread_t started;
    rota_signals_block(&before);
    const int error = pthread_create(&started, NULL, run, c);
    rota_signals_restore(&before);
    if (error) {
        free(c);
        return rota_fail(ROTA_SYSTEM, "a thread that calls NCCL can't be started: %s", strerror(error));
    }
    (void)pthread_setname_np(started, "rota-nccl");
    (void)pthread_detach(started); /* it may be held by the library: nobody waits for it */
    *out_caller = c;
    return ROTA_OK;
}

void rota_nccl_caller_give(rota_nccl_caller *c, rota_status (*fn)(void *user), void *user) {
    c->fn = fn;
    c->user = user;
    ra_store_seq_cst(&c->state, GIVEN); /* pairs with the load in run */
    rota_sleeper_wake(&c->sleeper);
}

bool rota_nccl_caller_take(rota_nccl_caller *c, rota_status *out_status) {
    if (ra_load_acquire(&c->state) != RETURNED) return false; /* pairs with the store in call */
    *out_status = c->status == ROTA_OK ? ROTA_OK : rota_fail(c->status, "%s", c->message);
    ra_store_relaxed(&c->state, RESTS);
    return true;
}

void rota_nccl_caller_stir(rota_nccl_caller *c) {
    ra_store_seq_cst(&c->is_stirred, 1);
    rota_sleeper_wake(&c->sleeper);
}

void rota_nccl_caller_end(rota_nccl_caller *c) {
    ra_store_seq_cst(&c->is_ended, 1);
    rota_sleeper_wake(&c->sleeper);
    leave(c);
}
