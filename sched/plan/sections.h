/* Sections of a plan: operations in a row of the record order whose names begin alike, which pictures show together.
 * Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_SECTIONS_H
#define ROTA_SCHED_PLAN_SECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "sched/plan/compiled.h"

typedef struct rota_section {
    const char
        *name; /* its first node's, of which the first name_bytes are what the others begin with, too */
    size_t name_bytes;
    uint32_t first, count; /* operations */
} rota_section;

typedef struct rota_sections {
    rota_section *list;
    uint32_t count;
    uint32_t *of_operation;
} rota_sections;

/* How much of a node's name says where it belongs. Words end at a blank, '.', '/' or ':'. Up to the first word that
 * ends with a digit: "layer 3" of "layer 3 attention", "h.0" of "h.0.attn.bias". Without one, up to the first '.', '/'
 * or ':', as "encoder" of "encoder/norm"; and all of a name that has none of these. */
size_t rota_section_name_bytes(const char *name);

/* A copy that rota inserted is of the section that it stands in. Since each section is a range of the record order, and
 * every edge goes up in it, edges between sections go from earlier ones to later ones. False: no memory. Linear in
 * operations and in the letters of their names. */
bool rota_sections_find(const rota_plan *plan, rota_arena *arena, rota_sections *out);

#endif
