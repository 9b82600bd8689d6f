/* Nodes that are told of each replay as it gets its turn (rota_host_on_device.submitted): collectives. Internal. */
#ifndef ROTA_SCHED_PLAN_TOLD_H
#define ROTA_SCHED_PLAN_TOLD_H

#include "graph/graph_internal.h"
#include "sched/plan/compiled.h"

typedef struct rota_told_nodes {
    void **users; /* in the order of records, malloc'ed; NULL: none */
    uint32_t count;
    void (*submitted)(void *user);
    void (*failed)(void *user);
    rota_status (*compared)(void *const *users, uint32_t count);
} rota_told_nodes;

/* Finds those of the plan's graph, and tells them their order. O(nodes): for plans that have nodes which end later. */
rota_status rota_plan_tell_arranged(const rota_plan *plan, rota_told_nodes *out);

/* A replay has its turn, or fails instead. */
static inline bool rota_told_submitted(const rota_told_nodes *told, bool has_turn) {
    for (uint32_t i = 0; i < told->count; i++)
        if (has_turn)
            told->submitted(told->users[i]);
        else
            told->failed(told->users[i]);
    return has_turn;
}

#endif
