/* What is drawn of a plan: operations or sections, joins, and the edges between them, each two vertices' as one. */
#include "sched/plan/drawing.h"

#include <stdio.h>
#include <string.h>
#include "graph/conditional_internal.h"
#include "sched/plan/names.h"

const rota_edge_look rota_edge_looks[ROTA_EDGE_KIND_COUNT] = {
    [ROTA_EDGE_RAW] = {"black", "reads what was written", false},
    [ROTA_EDGE_WAR] = {"blue", "overwrites what was read", false},
    [ROTA_EDGE_WAW] = {"red", "overwrites what was written", false},
    [ROTA_EDGE_MEMORY] = {"orange", "takes memory over", true},
    [ROTA_EDGE_AFTER] = {"gray", "rota_node_after", true}};

rota_edge_kind rota_drawn_edge_kind(const rota_drawn_edge *edge) {
    uint32_t kind = 0;
    while (kind + 1 < ROTA_EDGE_KIND_COUNT && !edge->counts[kind]) kind++;
    return (rota_edge_kind)kind;
}

void rota_drawn_edge_label(const rota_drawn_edge *edge, char *text, size_t capacity) {
    size_t length = 0;
    *text = 0;
    for (uint32_t kind = 0; kind < ROTA_EDGE_KIND_COUNT && length < capacity; kind++) {
        const uint32_t count = edge->counts[kind];
        const char *comma = length ? ", " : "", *name = rota_edge_name((rota_edge_kind)kind);
        int more = 0;
        if (count == 1) more = snprintf(text + length, capacity - length, "%s%s", comma, name);
        if (count > 1) more = snprintf(text + length, capacity - length, "%s%s x %u", comma, name, count);
        length += more > 0 ? (size_t)more : 0;
    }
}

const char *rota_drawn_kind(const rota_operation *operation) {
    if (operation->kind != ROTA_OPERATION_NODE) return "";
    switch ((rota_node_kind)operation->record->kind) {
    case ROTA_NODE_KERNEL:
        return operation->record->u.kernel.kernel->name;
    case ROTA_NODE_COPY:
        return "copy";
    case ROTA_NODE_FILL:
        return "fill";
    case ROTA_NODE_HOST:
        return "host function";
    case ROTA_NODE_CONDITIONAL:
        return rota_conditional_kind_name(operation->record->u.conditional->kind);
    }
    return "";
}

const char *rota_section_color(uint32_t section) {
    static const char *const colors[] = {"#e3eefb", "#fbeee0", "#e6f4e3", "#f7e4ef",
                                         "#fdf7d8", "#e2f3f3", "#ece6f7", "#f1ece4"};
    return colors[section % (sizeof colors / sizeof *colors)];
}

/* ---- Making ---- */

typedef struct making {
    rota_drawing *d;
    const rota_compile_info *info;
    uint32_t *join_vertex; /* what a join is drawn as: the one vertex that it joins, or its own */
    uint32_t *join_last;   /* the last body among what it joins; later bodies come after it */
    uint32_t *first_join;  /* by body: the joins whose last it is, as a list; ROTA_NONE: none */
    uint32_t *next_join;
    bool *meets;      /* by join: what comes after it is partly in its last body, and has its edges itself */
    uint64_t *latest; /* by vertex: 1 + the latest edge from it */
} making;

static uint32_t body_of(const making *m, uint32_t operation) {
    return m->d->collapsed ? m->d->sections.of_operation[operation] : operation;
}

static uint32_t vertex_of(const making *m, uint32_t from) {
    return from & ROTA_JOIN ? m->join_vertex[from & ~ROTA_JOIN] : body_of(m, from);
}

/* Whether an edge begins at a join whose last body is this one: what it stands for is inside the body in part. */
static bool is_inside(const making *m, uint32_t from, uint32_t body) {
    if (!(from & ROTA_JOIN)) return false;
    const uint32_t join = from & ~ROTA_JOIN;
    return m->join_vertex[join] >= m->d->body_count && m->join_last[join] == body;
}

static void add_edge(making *m, uint32_t from, uint32_t to, uint32_t kind) {
    rota_drawing *d = m->d;
    if (from == to) return;
    const uint64_t latest = m->latest[from];
    if (latest && d->edges[latest - 1].to == to) {
        d->edges[latest - 1].counts[kind]++;
        return;
    }
    d->edges[d->edge_count] = (rota_drawn_edge){.from = from, .to = to};
    d->edges[d->edge_count].counts[kind] = 1;
    m->latest[from] = ++d->edge_count;
}

/* A join's place, in the order of their numbers: it joins only such as were placed before. */
static void place_joins(making *m) {
    const rota_compile_info *info = m->info;
    for (uint32_t j = 0; j < info->join_count; j++) {
        const rota_join *join = &info->joins[j];
        uint32_t vertex = ROTA_NONE, last = 0;
        for (uint32_t i = 0; i < join->count; i++) {
            const uint32_t from = info->join_from[join->first_from + i], one = vertex_of(m, from);
            const uint32_t body = from & ROTA_JOIN ? m->join_last[from & ~ROTA_JOIN] : one;
            if (body > last) last = body;
            if (i == 0) vertex = one;
            if (one != vertex) vertex = m->d->body_count + j;
        }
        m->join_vertex[j] = vertex == ROTA_NONE ? m->d->body_count + j : vertex;
        m->join_last[j] = last;
    }
    for (uint32_t b = 0; b < m->d->body_count; b++) m->first_join[b] = ROTA_NONE;
    for (uint32_t j = info->join_count; j-- > 0;) {
        m->next_join[j] = m->first_join[m->join_last[j]];
        m->first_join[m->join_last[j]] = j;
    }
}

/* Which joins of their own have something after them, in a later body or in their last one. */
static void see_what_follows(making *m) {
    const rota_compile_info *info = m->info;
    for (uint32_t n = 0; n < info->operation_count; n++)
        for (uint32_t e = info->first_edge[n]; e < info->first_edge[n + 1]; e++) {
            if (!(info->edge_from[e] & ROTA_JOIN)) continue;
            const uint32_t join = info->edge_from[e] & ~ROTA_JOIN;
            if (m->join_vertex[join] < m->d->body_count) continue;
            if (m->join_last[join] == body_of(m, n))
                m->meets[join] = true;
            else
                m->d->join_drawn[join] = true;
        }
    for (uint32_t j = info->join_count; j-- > 0;) {
        const rota_join *join = &info->joins[j];
        for (uint32_t i = 0; i < join->count && (m->meets[j] || m->d->join_drawn[j]); i++) {
            const uint32_t from = info->join_from[join->first_from + i];
            if (!(from & ROTA_JOIN) || m->join_vertex[from & ~ROTA_JOIN] < m->d->body_count) continue;
            if (m->meets[j] && is_inside(m, from, m->join_last[j]))
                m->meets[from & ~ROTA_JOIN] = true;
            else if (m->meets[j])
                m->d->join_drawn[from & ~ROTA_JOIN] = true;
            if (m->d->join_drawn[j]) m->d->join_drawn[from & ~ROTA_JOIN] = true;
        }
    }
}

/* What a join stands for, before a vertex: its own, or its last body, of which some comes after it. */
static void add_joined(making *m, uint32_t j, uint32_t to) {
    const rota_join *join = &m->info->joins[j];
    for (uint32_t i = 0; i < join->count; i++) {
        const uint32_t from = m->info->join_from[join->first_from + i];
        if (!is_inside(m, from, to)) add_edge(m, vertex_of(m, from), to, join->kind);
    }
}

static void add_edges(making *m) {
    const rota_compile_info *info = m->info;
    uint32_t n = 0;
    for (uint32_t b = 0; b < m->d->body_count; b++) {
        for (; n < info->operation_count && body_of(m, n) == b; n++)
            for (uint32_t e = info->first_edge[n]; e < info->first_edge[n + 1]; e++)
                if (!is_inside(m, info->edge_from[e], b))
                    add_edge(m, vertex_of(m, info->edge_from[e]), b, info->edge_kind[e]);
        for (uint32_t j = m->first_join[b]; j != ROTA_NONE; j = m->next_join[j])
            if (m->meets[j]) add_joined(m, j, b);
        for (uint32_t j = m->first_join[b]; j != ROTA_NONE; j = m->next_join[j])
            if (m->d->join_drawn[j]) add_joined(m, j, m->d->body_count + j);
    }
}

static void *zeroed(rota_drawing *d, size_t count, size_t bytes, bool *good) {
    void *memory = rota_arena_calloc(&d->arena, (count + 1) * bytes, 8);
    if (!memory) *good = false;
    return memory;
}

static rota_status no_memory(const rota_plan *plan) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "drawing of plan '%s': no host memory", plan->name);
}

rota_status rota_drawing_make(const rota_plan *plan, bool collapse, rota_drawing *out) {
    const rota_compile_info *info = rota_plan_info(plan);
    *out = (rota_drawing){.plan = plan, .collapsed = collapse};
    if (!rota_sections_find(plan, &out->arena, &out->sections)) return no_memory(plan);
    out->body_count = collapse ? out->sections.count : info->operation_count;
    out->vertex_count = out->body_count + info->join_count;
    uint64_t edges_most = info->edge_count;
    /* A join's are drawn once where it stands and once where it meets its last body. */
    for (uint32_t j = 0; j < info->join_count; j++) edges_most += 2 * (uint64_t)info->joins[j].count;
    bool good = true;
    out->join_drawn = zeroed(out, info->join_count, sizeof *out->join_drawn, &good);
    out->edges = zeroed(out, edges_most, sizeof *out->edges, &good);
    making m = {.d = out, .info = info};
    m.join_vertex = zeroed(out, info->join_count, sizeof *m.join_vertex, &good);
    m.join_last = zeroed(out, info->join_count, sizeof *m.join_last, &good);
    m.first_join = zeroed(out, out->body_count, sizeof *m.first_join, &good);
    m.next_join = zeroed(out, info->join_count, sizeof *m.next_join, &good);
    m.meets = zeroed(out, info->join_count, sizeof *m.meets, &good);
    m.latest = zeroed(out, out->vertex_count, sizeof *m.latest, &good);
    if (!good) return no_memory(plan);
    place_joins(&m);
    see_what_follows(&m);
    add_edges(&m);
    return ROTA_OK;
}

void rota_drawing_free(rota_drawing *drawing) {
    rota_arena_free(&drawing->arena);
}
