/* Joins: points without work that come after all of a long list. */
#include "sched/plan/edges_join.h"
#include "sched/plan/edges_parts.h"
#include "sched/plan/edges_reduce.h"

enum { VISITS_START = 256 };

/* A join of what stands in h->joined from `base` on, or what that comes to: one operation, INCOMING if none.
 * ROTA_NONE: out of memory. */
uint32_t rota_edges_make_join(hazards *h, uint64_t base, rota_edge_kind kind) {
    rota_compiler *c = h->c;
    uint64_t count = h->joined.count - base;
    h->joined.count = base;
    if (count == 0) return h->failed ? ROTA_NONE : INCOMING;
    candidate *list = (candidate *)h->joined.data + base;
    count = rota_edges_reduce(h, list, count);
    if (count == 1) return list[0].from;
    if (h->failed || c->edges.joins.count >= ROTA_JOINS_MAX ||
        !rota_vector_reserve(&c->edges.joins, sizeof(rota_join), 1) ||
        !rota_vector_reserve(&c->edges.join_from, sizeof(uint32_t), count) ||
        !rota_vector_reserve(&h->join_clocks, sizeof(rota_clock), 1)) {
        h->failed = true;
        return ROTA_NONE;
    }
    const uint32_t id = ROTA_JOIN | (uint32_t)c->edges.joins.count;
    ((rota_join *)c->edges.joins.data)[c->edges.joins.count++] =
        (rota_join){.before = h->operation,
                    .first_from = (uint32_t)c->edges.join_from.count,
                    .count = (uint32_t)count,
                    .kind = (uint8_t)kind};
    rota_clock *clock = (rota_clock *)h->join_clocks.data + h->join_clocks.count++;
    *clock = (rota_clock){0};
    rota_edges_clock_reduced(h, clock, ROTA_NONE);
    for (uint64_t i = 0; i < count; i++)
        ((uint32_t *)c->edges.join_from.data)[c->edges.join_from.count++] = list[i].from;
    return id;
}

static uint32_t visit_entry(const visit *visits, uint32_t mask, uint32_t cell) {
    uint32_t slot = cell * 0x9e3779b1u & mask;
    while (visits[slot].cell && visits[slot].cell != cell) slot = (slot + 1) & mask;
    return slot;
}

static visit *find_visit(const hazards *h, uint32_t cell) {
    if (!h->visits) return NULL;
    visit *found = &h->visits[visit_entry(h->visits, h->visit_mask, cell)];
    return found->cell ? found : NULL;
}

static void add_visit(hazards *h, uint32_t cell) {
    if (!h->visits || h->visit_count * 2 > h->visit_mask) {
        uint32_t size = h->visits ? (h->visit_mask + 1) * 2 : VISITS_START;
        visit *grown = rota_arena_calloc(&h->arena, sizeof *grown * size, 8);
        if (!grown) {
            h->failed = true;
            return;
        }
        for (uint32_t i = 0; h->visits && i <= h->visit_mask; i++)
            if (h->visits[i].cell) grown[visit_entry(grown, size - 1, h->visits[i].cell)] = h->visits[i];
        h->visits = grown;
        h->visit_mask = size - 1;
    }
    h->visits[visit_entry(h->visits, h->visit_mask, cell)] = (visit){cell, ROTA_NONE};
    h->visit_count++;
}

/* Joins a list from a visited cell on, block by block, the oldest first, as far as that was not done before.
 * Not while the operation at hand is in it itself, which comes after the rest: ROTA_NONE then. */
static uint32_t join_rest(hazards *h, uint32_t cell, rota_edge_kind kind) {
    uint32_t join = ROTA_NONE;
    h->blocks.count = 0;
    for (uint32_t i = cell; i; i = cell_at(h, i).next) {
        const visit *m = find_visit(h, i);
        if (m && m->join != ROTA_NONE) {
            join = m->join;
            break;
        }
        if (cell_at(h, i).operation == h->operation + 1) return ROTA_NONE;
        if (!m) continue;
        if (!rota_vector_reserve(&h->blocks, sizeof(uint32_t), 1)) {
            h->failed = true;
            return ROTA_NONE;
        }
        ((uint32_t *)h->blocks.data)[h->blocks.count++] = i;
    }
    while (h->blocks.count && !h->failed) {
        const uint32_t first = ((uint32_t *)h->blocks.data)[--h->blocks.count];
        const uint64_t base = h->joined.count;
        if (join != ROTA_NONE) append(h, &h->joined, join, kind);
        for (uint32_t i = first; i; i = cell_at(h, i).next) {
            const visit *m = i == first ? NULL : find_visit(h, i);
            if (m && m->join != ROTA_NONE) break;
            append(h, &h->joined, cell_at(h, i).operation - 1, kind);
        }
        join = rota_edges_make_join(h, base, kind);
        find_visit(h, first)->join = join;
    }
    return join;
}

/* The next of a long list as whoever comes after all of it should name them: operations one by one the first
 * time, which is noted as a visit at every JOIN_AT of them, and from where one is met a join of the rest. */
typedef struct walk {
    uint32_t cell, passed;
    rota_edge_kind kind;
} walk;

static uint32_t walk_next(hazards *h, walk *w) {
    const visit *m = find_visit(h, w->cell);
    if (m) {
        uint32_t join = m->join != ROTA_NONE ? m->join : join_rest(h, w->cell, w->kind);
        if (join != ROTA_NONE) {
            w->cell = 0;
            return join;
        }
    } else if (w->passed % JOIN_AT == 0) {
        add_visit(h, w->cell);
    }
    const rota_cons cell = cell_at(h, w->cell);
    w->cell = cell.next;
    w->passed++;
    return cell.operation - 1;
}

bool rota_edges_is_long(const hazards *h, uint32_t list) {
    if (!list || !cell_at(h, list).next) return false; /* mostly */
    for (uint32_t length = 0; list; list = cell_at(h, list).next)
        if (++length > JOIN_AT) return true;
    return false;
}

void rota_edges_add_list(hazards *h, uint32_t list, rota_edge_kind kind) {
    if (rota_edges_is_long(h, list)) {
        for (walk w = {list, 0, kind}; w.cell && !h->failed;) add_candidate(h, walk_next(h, &w), kind);
        return;
    }
    for (; list; list = cell_at(h, list).next) add_candidate(h, cell_at(h, list).operation - 1, kind);
}

/* The list `list` with all of `more` before it. */
uint32_t rota_edges_concatenate(hazards *h, uint32_t list, uint32_t more, rota_edge_kind kind) {
    if (!list) return more;
    if (rota_edges_is_long(h, more)) {
        for (walk w = {more, 0, kind}; w.cell && !h->failed;) list = push(h, list, walk_next(h, &w));
        return list;
    }
    for (; more; more = cell_at(h, more).next) list = push(h, list, cell_at(h, more).operation - 1);
    return list;
}

/* What a list adds to the join that is being made. */
void rota_edges_join_list(hazards *h, uint32_t list, rota_edge_kind kind) {
    if (rota_edges_is_long(h, list)) {
        for (walk w = {list, 0, kind}; w.cell && !h->failed;) append(h, &h->joined, walk_next(h, &w), kind);
        return;
    }
    for (; list; list = cell_at(h, list).next) append(h, &h->joined, cell_at(h, list).operation - 1, kind);
}
