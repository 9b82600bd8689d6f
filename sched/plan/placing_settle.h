/* Which placement stays: what replays of a graph took, placed in this way or that, overrules the model. Internal; not
 * installed. */
#ifndef ROTA_SCHED_PLAN_PLACING_SETTLE_H
#define ROTA_SCHED_PLAN_PLACING_SETTLE_H

#include "sched/placing.h"
#include "sched/plan/placing_history.h"

/* What is to be settled, of one graph on these devices. */
typedef struct rota_settling {
    const rota_placing *placing;
    rota_history *const *histories; /* by device */
    uint32_t own_count; /* the plan's devices are [0, own_count): a plan may be of one of them alone */
    uint64_t graph;     /* names the graph's replays on one device */
    uint64_t set;       /* graph and devices */
    bool explores;      /* the plan's replays may teach: it may be one that is not known yet */
} rota_settling;

/* Under which keys a plan's replays teach; `set` 0: they teach nothing of placements. */
typedef struct rota_settled {
    uint64_t graph, set, key;
    uint32_t device;        /* all is there, of the plan's own; UINT32_MAX: on several */
    uint32_t node_count;    /* of `devices` */
    const uint8_t *devices; /* a placement on several: how */
    bool is_trial;          /* it was chosen to be measured */
} rota_settled;

/* devices[0..node_count): in, the model's choice; out, the placement to be:
 *
 *     nothing measured        the model's
 *     explores                each device alone that was not measured, unless the model rules it out; then what the
 *                             model has to say, where it is new and by a twentieth faster than what was the best: of
 *                             placements on several devices, eight
 *     else                    the best that was measured, a single device or the best placement on several; and the
 *                             model's while none on several devices was measured
 *
 * What memory has no room for is not asked for. So the choice is the best measured one after at most own_count + 8
 * plans that taught, whatever the model says, and stays that: costs that change move it only where what is used has
 * changed by half, from when on all is measured again. Another one has to be better by three hundredths. What is tried
 * four times, and teaches nothing, as a plan that is never replayed or that a device refuses, is not tried again before
 * something else taught. out->devices is not set. OUT_OF_MEMORY. Any thread; of two at a time one may count for both.
 * O(own_count * (nodes + edges)). */
rota_status rota_placing_settle(const rota_settling *settling, uint8_t *devices, rota_settled *out);

/* What a replay took. `first` is devices[0]'s history, `own` that of the only device. Any thread. Linear in nodes. */
void rota_placing_taught(rota_history *first, rota_history *own, const rota_settled *settled, double ns);

#endif
