/* Whose something is: the one thread that may call what belongs to it. A function of that thread begins with
 * rota_assert_owner. Nobody's, as when zeroed: whoever is alone with it, before its thread was started and
 * after that ended. Internal. */
#ifndef ROTA_BASE_OWNER_H
#define ROTA_BASE_OWNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/assert.h"

typedef struct rota_owner {
    _Atomic uintptr_t thread; /* 0: nobody */
} rota_owner;

#if ROTA_ASSERTIONS
/* Relaxed, and no places where tests stop a thread: nothing is read because of an owner, and a thread that
 * may call at all was told so by another way. */

static inline uintptr_t rota_owner_self(void) {
    return (uintptr_t)pthread_self();
}

/* By the thread whose it is. */
static inline void rota_owner_take(rota_owner *owner) {
    atomic_store_explicit(&owner->thread, rota_owner_self(), memory_order_relaxed);
}

static inline void rota_owner_leave(rota_owner *owner) {
    atomic_store_explicit(&owner->thread, (uintptr_t)0, memory_order_relaxed);
}

/* Whether the calling thread may call what belongs to the owner. */
static inline bool rota_owner_may(const rota_owner *owner) {
    const uintptr_t thread = atomic_load_explicit(&owner->thread, memory_order_relaxed);
    return thread == 0 || thread == rota_owner_self();
}
#else /* nobody asks */
static inline void rota_owner_take(rota_owner *owner) {
    (void)owner;
}
static inline void rota_owner_leave(rota_owner *owner) {
    (void)owner;
}
static inline bool rota_owner_may(const rota_owner *owner) {
    (void)owner;
    return true;
}
#endif

#define rota_assert_owner(owner) rota_assert(rota_owner_may(owner))

#endif
