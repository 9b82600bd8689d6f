/* Graphs to search, and what plain C finds in them. */
#ifndef ROTA_EXAMPLES_BFS_GENERATE_H
#define ROTA_EXAMPLES_BFS_GENERATE_H

#include "examples/cg/matrix.h"

/* A square of side x side vertices, each joined to its four neighbours: many levels, none wide. False with one sentence
 * on stderr. */
bool graph_grid(uint64_t side, sparse_matrix *out);
/* 2^scale vertices and 16 times as many edges, both ways, by R-MAT with 0.57, 0.19, 0.19, 0.05 (Chakrabarti, Zhan and
 * Faloutsos, 2004), as the Graph500 benchmark has them: few levels, some very wide. Loops and double edges stay. */
bool graph_rmat(uint64_t scale, uint64_t seed, sparse_matrix *out);
/* levels[vertex] from the source by a queue; BFS_UNREACHED where there is no way. False: no memory. */
bool graph_search(const sparse_matrix *graph, uint32_t source, uint32_t *levels);

#endif
