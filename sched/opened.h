/* Whether a runtime is the one that somebody knew: the struct of one that was closed may serve another.
 * Internal; not installed. */
#ifndef ROTA_SCHED_OPENED_H
#define ROTA_SCHED_OPENED_H

#include "sched/runtime.h"

/* One opening of a runtime. A value. */
typedef struct rota_opened {
    rota_runtime *runtime;
    uint32_t generation;
} rota_opened;

/* The present one, of a runtime that is open. */
rota_opened rota_opened_now(rota_runtime *runtime);
/* ROTA_OK while it lasts; WRONG_STATE. Wait-free. */
rota_status rota_opened_check(rota_opened opened);
/* The same, and ROTA_OK also while the runtime closes, in a child after a fork as well. Wait-free. */
rota_status rota_opened_check_lasts(rota_opened opened);
rota_status rota_runtime_check(const rota_runtime *runtime);

#endif
