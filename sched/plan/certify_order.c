/* The certificate: whether one operation completes before another starts. */
#include "sched/plan/certify_order.h"
#include "sched/plan/certify_parts.h"
#include "sched/plan/certify_text.h"

/* Visits what comes before `from` and not before `earliest` in the topological order; until `wanted`
 * (ROTA_NONE: all). */
bool rota_certify_search(certifier *c, uint32_t from, uint32_t earliest, uint32_t wanted) {
    uint32_t depth = 0;
    c->nodes.visit++;
    c->nodes.stack[depth++] = from;
    while (depth) {
        const uint32_t node = c->nodes.stack[--depth];
        for (uint32_t e = c->nodes.first_predecessor[node]; e < c->nodes.first_predecessor[node + 1]; e++) {
            const uint32_t before = c->nodes.predecessor[e];
            if (c->nodes.position[before] < earliest || c->nodes.visited[before] == c->nodes.visit) continue;
            if (wanted != ROTA_NONE && (before == wanted || known_before(c, wanted, before))) return true;
            c->nodes.visited[before] = c->nodes.visit;
            c->nodes.stack[depth++] = before;
        }
    }
    return false;
}

static bool before_by_edges(certifier *c, uint32_t a, uint32_t b) {
    if (known_before(c, a, b)) return true;
    return c->nodes.position[a] < c->nodes.position[b] && rota_certify_search(c, b, c->nodes.position[a], a);
}

/* Whether operation `a` completes before `b` starts; *out_by_edges: it is by edges that it does not. */
bool rota_certify_is_before(certifier *c, uint32_t a, uint32_t b, bool *out_by_edges) {
    *out_by_edges = false;
    if (c->segment[a] != c->segment[b]) return before_by_waits(c, c->segment[a], c->segment[b]);
    if (c->batch[a] >= c->batch[b]) return false;
    *out_by_edges = true;
    return before_by_edges(c, c->node[a], c->node[b]);
}

rota_status rota_certify_check_pair(certifier *c, uint32_t earlier, uint32_t later, const char *why) {
    bool by_edges;
    if (earlier == later || rota_certify_is_before(c, earlier, later, &by_edges)) return ROTA_OK;
    return rota_certify_unordered(c, earlier, later, why, by_edges);
}
