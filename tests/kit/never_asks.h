/* A device of the adversary's as a GPU, which does not ask node by node whether what it depends on has failed. */
#ifndef ROTA_TESTS_NEVER_ASKS_H
#define ROTA_TESTS_NEVER_ASKS_H

#include "base/atomic.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary_internal.h"

static inline void test_ignore_success(void *user, void *cookie, const void *owner, uint32_t which) {
    (void)user, (void)cookie, (void)owner, (void)which;
}

static inline bool test_has_failed(void *user, void *cookie, const void *owner, uint32_t which) {
    (void)user, (void)owner, (void)which;
    return cookie && ra_load_acquire(&((rota_work *)cookie)->failed);
}

/* `leaves_out`: works that are known to have failed are left out whole; else they run all the same. */
static inline void test_never_asks(rota_device *device, bool leaves_out) {
    adversary_device *adversary = (adversary_device *)device->exec;
    device->asks_poison = false;
    adversary->host.must_skip = test_has_failed;
    adversary->host.succeeded = test_ignore_success;
    if (!leaves_out) adversary->host.poison_active = NULL;
}

#endif
