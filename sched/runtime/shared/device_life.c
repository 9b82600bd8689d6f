/* A device's life: the table of what may follow what, and the one word that is changed by it. */
#include "sched/runtime/shared/device_life.h"

#include <stdint.h>
#include "base/assert.h"
#include "base/atomic.h"
#include "sched/runtime/shared/devices.h" /* IWYU pragma: keep */

#define TO(NAME) (1u << ROTA_LIFE_##NAME)

/* By where it is, what may follow, as bits. One that was closed in time is ABANDONED where it lent memory to one that
 * was not; one that failed its trials is closed with the others. */
static const uint8_t follows[ROTA_LIVES] = {
    [ROTA_LIFE_OPENING] = TO(OPEN) | TO(CLOSING) | TO(LOST) | TO(QUIET) | TO(CLOSED) | TO(ABANDONED),
    [ROTA_LIFE_OPEN] = TO(CLOSING) | TO(LOST) | TO(QUIET),
    [ROTA_LIFE_CLOSING] = TO(LOST) | TO(QUIET) | TO(CLOSED) | TO(ABANDONED),
    [ROTA_LIFE_LOST] = TO(QUIET) | TO(CLOSED) | TO(ABANDONED),
    [ROTA_LIFE_QUIET] = TO(CLOSED) | TO(ABANDONED),
    [ROTA_LIFE_CLOSED] = TO(ABANDONED),
    [ROTA_LIFE_ABANDONED] = 0,
};

bool rota_life_may_follow(rota_life from, rota_life to) {
    return follows[from] >> to & 1u;
}

bool rota_device_move(rota_device *device, rota_life to) {
    uint32_t from = ra_load_relaxed(&device->life);
    do {
        /* Life goes on meanwhile, and never back. */
        rota_assert(rota_life_may_follow((rota_life)from, to) || from >= (uint32_t)to ||
                    from >= ROTA_LIFE_LOST);
        if (!rota_life_may_follow((rota_life)from, to)) return false;
    } while (!ra_cas_seq_cst(&device->life, &from, (uint32_t)to));
    return true;
}

rota_life rota_device_life(const rota_device *device) {
    return (rota_life)ra_load_seq_cst(&device->life);
}
