/* Kinds of released objects: a row of functions each. A new kind is a row; nothing else asks which kind an object is.
 * Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_RELEASED_H
#define ROTA_SCHED_RUNTIME_KINDS_RELEASED_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/released.h"

/* What a released object is. `devices` has a bit per device. */
typedef struct rota_released_row {
    /* ---- The sequencer's; NULL: such an object is given to the reclaimer without it ---- */

    /* Whether every use has passed and no submission names the object any more. */
    bool (*is_unused)(rota_runtime *runtime, rota_released *released);
    /* Of what is unused: whether works of these devices, which are lost, may still touch it. NULL: its submissions,
     * which are kept, hold it for as long. */
    bool (*is_touched_by)(const rota_released *released, uint64_t devices);
    /* It goes to the reclaimer. NULL: nothing is to be done. */
    void (*leave)(rota_released *released);

    /* ---- Who closes ---- */

    /* Whether works of these devices, which did not end, may touch it. NULL: they may. */
    bool (*is_of)(const rota_released *released, uint64_t devices);

    /* ---- The reclaimer's, or who closes ---- */

    /* With all uses passed; may block in drivers. */
    void (*free)(rota_released *released);
} rota_released_row;

/* By rota_released_kind. */
extern const rota_released_row rota_released_rows[];

static inline const rota_released_row *rota_released_row_of(const rota_released *released) {
    return &rota_released_rows[released->kind];
}

#endif
