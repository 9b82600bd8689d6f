/* Whether of two operations one comes before the other. Internal to certify*.c. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_ORDER_H
#define ROTA_SCHED_PLAN_CERTIFY_ORDER_H

#include "sched/plan/certify_parts.h"

/* By an edge into `b`, whose predecessors are remembered, or by its clock. */
static inline bool known_before(const certifier *c, uint32_t a, uint32_t b) {
    if (c->nodes.chain[a] == c->nodes.chain[b]) return c->nodes.position[a] < c->nodes.position[b];
    if (c->nodes.is_before[a] == b + 1) return true;
    const chain_clock *clock = &c->nodes.clock[b];
    for (uint32_t i = 0; i < clock->count; i++)
        if (clock->chain[i] == c->nodes.chain[a]) return c->nodes.position[a] <= clock->latest[i];
    return false;
}

static inline void remember_predecessors(certifier *c, uint32_t node) {
    for (uint32_t e = c->nodes.first_predecessor[node]; e < c->nodes.first_predecessor[node + 1]; e++)
        c->nodes.is_before[c->nodes.predecessor[e]] = node + 1;
}

static inline bool before_by_waits(const certifier *c, uint32_t segment, uint32_t later_segment) {
    return c->order.start[(size_t)later_segment * c->order.timelines + c->order.timeline[segment]] >=
           c->plan->segments[segment].ordinal;
}

/* Visits what comes before `from` and not before `earliest` in the topological order; until `wanted`
 * (ROTA_NONE: all). */
bool rota_certify_search(certifier *c, uint32_t from, uint32_t earliest, uint32_t wanted);
/* Whether operation `a` completes before `b` starts; *out_by_edges: it is by edges that it does not. */
bool rota_certify_is_before(certifier *c, uint32_t a, uint32_t b, bool *out_by_edges);
rota_status rota_certify_check_pair(certifier *c, uint32_t earlier, uint32_t later, const char *why);
/* The same without a search; false: unknown. */
static inline bool is_known_before(const certifier *c, uint32_t a, uint32_t b) {
    if (c->segment[a] != c->segment[b]) return before_by_waits(c, c->segment[a], c->segment[b]);
    return c->batch[a] < c->batch[b] && known_before(c, c->node[a], c->node[b]);
}

#endif
