/* Whose something is: the one thread that may call what belongs to it. A function of that thread begins with
 * rota_assert_owner. Nobody's, as when zeroed: whoever is alone with it, before its thread was started and
 * after that ended. Internal. */
#ifndef ROTA_BASE_OWNER_H
#define ROTA_BASE_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/assert.h"

typedef struct rota_owner {
    _Atomic uintptr_t thread; /* 0: nobody */
} rota_owner;

/* By the thread whose it is. */
void rota_owner_take(rota_owner *owner);
void rota_owner_leave(rota_owner *owner);
/* Whether the calling thread may call what belongs to the owner. */
bool rota_owner_may(const rota_owner *owner);

#define rota_assert_owner(owner) rota_assert(rota_owner_may(owner))

#endif
