/* What is drawn of a plan, whatever it is drawn with: vertices, and one edge for all that lie between two of them.
 * Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_DRAWING_H
#define ROTA_SCHED_PLAN_DRAWING_H

#include "base/status.h"
#include "sched/plan/operations.h"
#include "sched/plan/sections.h"

/* Vertices: first operations, or sections where the drawing is collapsed; then one for each join, of which those are
 * drawn that stand for more than one vertex. */
typedef struct rota_drawn_edge {
    uint32_t from, to;
    uint32_t counts[ROTA_EDGE_KIND_COUNT]; /* of the plan's edges, by kind */
} rota_drawn_edge;

typedef struct rota_drawing {
    const rota_plan *plan;
    bool collapsed;
    rota_sections sections;
    uint32_t body_count, vertex_count; /* without and with the joins */
    bool *join_drawn;
    /* By target, and the edges into a vertex stand behind those into all that it comes after. */
    rota_drawn_edge *edges;
    uint64_t edge_count;
    rota_arena arena;
} rota_drawing;

/* OUT_OF_MEMORY. Linear in operations and edges. Freed also where it failed. */
rota_status rota_drawing_make(const rota_plan *plan, bool collapse, rota_drawing *out);
void rota_drawing_free(rota_drawing *drawing);

/* Whether a vertex is drawn at all. */
static inline bool rota_drawing_shows(const rota_drawing *d, uint32_t vertex) {
    return vertex < d->body_count || d->join_drawn[vertex - d->body_count];
}

/* How an edge looks and what it means: by the first of its kinds. */
typedef struct rota_edge_look {
    const char *color, *meaning;
    bool dashed;
} rota_edge_look;
extern const rota_edge_look rota_edge_looks[ROTA_EDGE_KIND_COUNT];
rota_edge_kind rota_drawn_edge_kind(const rota_drawn_edge *edge);
/* "RAW", of several "RAW x 12, WAR"; ends text[0..capacity). */
void rota_drawn_edge_label(const rota_drawn_edge *edge, char *text, size_t capacity);

/* What an operation is in a drawing: its kernel's name, "copy", "fill", "host function", or "" of a copy that rota
 * inserted, whose own name says it. */
const char *rota_drawn_kind(const rota_operation *operation);
/* Pale colours that sections take in turn. */
const char *rota_section_color(uint32_t section);

#endif
