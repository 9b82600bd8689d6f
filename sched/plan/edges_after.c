/* Edges that rota_node_after asks for. */
#include "sched/plan/edges_after.h"

#include <stdlib.h>
#include <string.h>

#include "sched/plan/names.h"
#include "sched/plan/parts.h"

static int compare_afters(const void *left, const void *right) {
    const rota_after *a = left, *b = right;
    if (a->later.index != b->later.index) return a->later.index < b->later.index ? -1 : 1;
    return 0;
}

/* All parts of one node come after all of the other: parts of a node need not be ordered themselves. */
static rota_status add_after(rota_compiler *c, uint32_t later, uint32_t earlier) {
    for (uint32_t to = later; to != ROTA_NONE; to = rota_compile_next_part(c, to))
        for (uint32_t from = earlier; from != ROTA_NONE; from = rota_compile_next_part(c, from)) {
            if (from >= to) {
                char name[256];
                strncpy(name, rota_operation_describe(c->plan, from), sizeof name - 1);
                name[sizeof name - 1] = 0;
                return rota_fail(ROTA_INVALID_ARGUMENT,
                                 "rota_node_after: %s is to come after %s, which is later in record order",
                                 rota_operation_describe(c->plan, to), name);
            }
            if (!rota_vector_reserve(&c->edges.afters, sizeof(rota_after), 1))
                return rota_compile_no_memory(c);
            ((rota_after *)c->edges.afters.data)[c->edges.afters.count++] = (rota_after){{0, to}, {0, from}};
        }
    return ROTA_OK;
}

rota_status rota_edges_gather_afters(rota_compiler *c) {
    const rota_compile_info *info = c->info;
    uint64_t count = 0;
    for (uint32_t i = 0; i < info->lane_count; i++) count += info->lanes[i]->afters.count;
    if (count == 0) return ROTA_OK;
    if (!rota_vector_reserve(&c->edges.afters, sizeof(rota_after), count)) return rota_compile_no_memory(c);
    for (uint32_t i = 0; i < info->lane_count; i++)
        for (uint32_t k = 0; k < info->lanes[i]->afters.count; k++) {
            rota_after after = info->lanes[i]->afters.list[k];
            if (after.earlier.lane == 0 || after.earlier.lane > info->lane_count ||
                after.earlier.index >= info->lanes[info->lane_rank[after.earlier.lane - 1]]->node_count)
                return rota_fail(ROTA_INVALID_ARGUMENT,
                                 "rota_node_after on lane '%s': there is no node %u in lane %u",
                                 info->lanes[i]->name, after.earlier.index, after.earlier.lane);
            uint32_t earlier_lane = info->lane_rank[after.earlier.lane - 1];
            uint32_t later = rota_operation_of(info, info->lane_first_node[i] + after.later.index);
            uint32_t earlier =
                rota_operation_of(info, info->lane_first_node[earlier_lane] + after.earlier.index);
            if (later == ROTA_NONE || earlier == ROTA_NONE) continue; /* rewritten away */
            ROTA_TRY(add_after(c, later, earlier));
        }
    qsort(c->edges.afters.data, (size_t)c->edges.afters.count, sizeof(rota_after), compare_afters);
    return ROTA_OK;
}
