#include "base/owner.h"

/* Relaxed, and no places where tests stop a thread: nothing is read because of an owner, and a thread that
 * may call at all was told so by another way. */

static uintptr_t self(void) {
    static _Thread_local char one; /* whose place is another one in every thread that runs */
    return (uintptr_t)&one;
}

void rota_owner_take(rota_owner *owner) {
    atomic_store_explicit(&owner->thread, self(), memory_order_relaxed);
}

void rota_owner_leave(rota_owner *owner) {
    atomic_store_explicit(&owner->thread, (uintptr_t)0, memory_order_relaxed);
}

bool rota_owner_may(const rota_owner *owner) {
    const uintptr_t thread = atomic_load_explicit(&owner->thread, memory_order_relaxed);
    return thread == 0 || thread == self();
}
