/* A plan's observers: nodes that are called as each of its replays gets its turn (rota_host_on_device.submitted), which
 * are its collectives. Internal. */
#ifndef ROTA_SCHED_PLAN_OBSERVERS_H
#define ROTA_SCHED_PLAN_OBSERVERS_H

#include "graph/graph_internal.h"
#include "sched/plan/compiled.h"

/* Those functions are rota_host_on_device's, which all nodes here have in common. */
typedef struct rota_observers {
    void **
        users; /* each node's, in the order of records; malloc'ed, by whoever has the struct freed; NULL: none */
    uint32_t count;
    void (*submitted)(void *user);
    void (*failed)(void *user);
    rota_status (*compared)(void *const *users, uint32_t count);
} rota_observers;

/* Finds the observers of the plan's graph and gives them their order (rota_host_on_device.arranged). O(nodes): for
 * plans that have nodes which end later. ROTA_OUT_OF_MEMORY. */
rota_status rota_observers_find(const rota_plan *plan, rota_observers *out_observers);

/* A replay has its turn, or fails instead: each is called, in their order. By the sequencer. Whether it has. */
static inline bool rota_observers_submitted(const rota_observers *observers, bool has_turn) {
    for (uint32_t i = 0; i < observers->count; i++)
        if (has_turn)
            observers->submitted(observers->users[i]);
        else
            observers->failed(observers->users[i]);
    return has_turn;
}

#endif
