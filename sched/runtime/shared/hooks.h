/* What tests and benchmarks set of a runtime (sched/testing.h): in builds without hooks nothing of it is, and nobody
 * looks. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_HOOKS_H
#define ROTA_SCHED_RUNTIME_SHARED_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/hooks.h"

/* Has its place in every build, so that objects of both kinds can be linked together (rota-bench). */
typedef struct rota_hooks_shared {
    bool touch;                       /* of rota_runtime_set_touch */
    bool few_turns;                   /* of rota_runtime_set_few_turns */
    bool unshared;                    /* of rota_runtime_set_unshared */
    bool host_ordered;                /* of rota_runtime_set_host_ordered */
    _Atomic uint32_t lent, lent_away; /* the sequencer: rota_runtime_lock_submission */
} rota_hooks_shared;

static inline bool rota_hooks_touch(const rota_hooks_shared *hooks) {
    return ROTA_TEST_HOOKS && hooks->touch;
}

static inline bool rota_hooks_few_turns(const rota_hooks_shared *hooks) {
    return ROTA_TEST_HOOKS && hooks->few_turns;
}

static inline bool rota_hooks_unshared(const rota_hooks_shared *hooks) {
    return ROTA_TEST_HOOKS && hooks->unshared;
}

static inline bool rota_hooks_host_ordered(const rota_hooks_shared *hooks) {
    return ROTA_TEST_HOOKS && hooks->host_ordered;
}

/* seq_cst: with the store in rota_runtime_lock_submission, and the sequencer's look before it sleeps. */
static inline bool rota_hooks_lent(const rota_hooks_shared *hooks) {
    return ROTA_TEST_HOOKS && ra_load_seq_cst(&hooks->lent);
}

#endif
