/* A drawing in Graphviz's language. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_DOT_H
#define ROTA_SCHED_PLAN_DOT_H

#include <stdio.h>
#include "sched/plan/drawing.h"

/* Sections are clusters, or nodes where it is collapsed. Linear in vertices and edges. */
void rota_dot_write(FILE *file, const rota_drawing *drawing);

#endif
