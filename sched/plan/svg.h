/* A drawing as SVG, without Graphviz. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_SVG_H
#define ROTA_SCHED_PLAN_SVG_H

#include <stdio.h>
#include "sched/plan/drawing.h"

/* Vertices by level, which is the longest way to them, in rows; within a level by where their neighbours are.
 * OUT_OF_MEMORY. O(n log n) in vertices, linear in edges. */
rota_status rota_svg_write(FILE *file, const rota_drawing *drawing);

#endif
