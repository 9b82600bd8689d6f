/* Graphs to search, and what plain C finds in them. */
#include "examples/bfs/generate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "examples/bfs/search.h"
#include "examples/common/random.h"

enum { RMAT_EDGES = 16 };

bool graph_grid(uint64_t side, sparse_matrix *out) {
    if (!matrix_allocate(side * side, side * side * 4 - side * 4, out)) return false;
    uint64_t next = 0;
    for (uint64_t vertex = 0; vertex < out->rows; vertex++) {
        const uint64_t x = vertex % side, y = vertex / side;
        if (y > 0) out->columns[next++] = (uint32_t)(vertex - side);
        if (x > 0) out->columns[next++] = (uint32_t)(vertex - 1);
        if (x + 1 < side) out->columns[next++] = (uint32_t)(vertex + 1);
        if (y + 1 < side) out->columns[next++] = (uint32_t)(vertex + side);
        out->starts[vertex + 1] = next;
    }
    return true;
}

static void rmat_edge(uint64_t scale, random_state *random, uint32_t edge[2]) {
    edge[0] = edge[1] = 0;
    for (uint64_t bit = 0; bit < scale; bit++) {
        const double x = random_uniform(random);
        edge[0] = edge[0] << 1 | (x >= 0.76);
        edge[1] = edge[1] << 1 | (x >= 0.95 || (x >= 0.57 && x < 0.76));
    }
}

bool graph_rmat(uint64_t scale, uint64_t seed, sparse_matrix *out) {
    const uint64_t vertices = UINT64_C(1) << scale, edges = RMAT_EDGES * vertices;
    if (!matrix_allocate(vertices, 2 * edges, out)) return false;
    uint64_t *starts = out->starts;
    uint32_t edge[2];
    /* Twice the same edges: counted, then put where they belong. */
    random_state random = {seed};
    for (uint64_t i = 0; i < edges; i++) {
        rmat_edge(scale, &random, edge);
        starts[edge[0] + 1]++;
        starts[edge[1] + 1]++;
    }
    for (uint64_t i = 0; i < vertices; i++) starts[i + 1] += starts[i];
    random = (random_state){seed};
    for (uint64_t i = 0; i < edges; i++) {
        rmat_edge(scale, &random, edge);
        out->columns[starts[edge[0]]++] = edge[1];
        out->columns[starts[edge[1]]++] = edge[0];
    }
    memmove(starts + 1, starts, vertices * sizeof *starts);
    starts[0] = 0;
    return true;
}

bool graph_search(const sparse_matrix *graph, uint32_t source, uint32_t *levels) {
    uint32_t *queue = malloc(graph->rows * sizeof *queue);
    if (!queue) {
        fprintf(stderr, "no memory for %" PRIu64 " vertices\n", graph->rows);
        return false;
    }
    uint64_t first = 0, end = 0;
    memset(levels, 0xFF, graph->rows * sizeof *levels);
    levels[source] = 0;
    queue[end++] = source;
    while (first < end) {
        const uint32_t vertex = queue[first++];
        for (uint64_t i = graph->starts[vertex]; i < graph->starts[vertex + 1]; i++) {
            if (levels[graph->columns[i]] != BFS_UNREACHED) continue;
            levels[graph->columns[i]] = levels[vertex] + 1;
            queue[end++] = graph->columns[i];
        }
    }
    free(queue);
    return true;
}
