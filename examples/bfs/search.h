/* Breadth-first search as a graph: each iteration works on as many vertices as the one before it found. */
#ifndef ROTA_EXAMPLES_BFS_SEARCH_H
#define ROTA_EXAMPLES_BFS_SEARCH_H

#include "examples/cg/matrix.h"
#include "rota.h"

#define BFS_UNREACHED UINT32_MAX

/* What the iterations know of how far they are. */
typedef struct bfs_state {
    uint32_t frontier; /* how many vertices the level has: what a counted node reads */
    uint32_t next;     /* how many of the next level were found so far */
    uint32_t more;     /* whether another level is due: what the while node reads */
    uint32_t level;
    uint32_t widest; /* the most that a level had */
    uint32_t reached;
} bfs_state;

typedef struct bfs_searcher {
    rota_runtime *runtime;
    rota_device *device;
    uint64_t vertices, edges;
    rota_buffer *starts, *targets, *levels, *state, *source;
    rota_buffer *frontier,
        *next;       /* of the loop on the host, whose submissions hand them on; else transients */
    rota_plan *plan; /* all of it; with the loop on the host: what comes before the first level */
    rota_plan *step; /* a level, of the loop on the host */
} bfs_searcher;

typedef struct bfs_result {
    uint32_t levels; /* how far the farthest vertex is */
    uint32_t reached, widest;
    double seconds; /* from submit to the end, as the host sees it */
} bfs_result;

/* Writes the graph to the device, an edge from each entry's row to its column, and compiles. The searcher is zeroed,
 * and freed by bfs_searcher_free either way; it borrows runtime and device, not `graph`. `is_host_loop`: with a
 * submission a level. */
rota_status bfs_searcher_create(rota_runtime *runtime, rota_device *device, const sparse_matrix *graph,
                                bool is_host_loop, bfs_searcher *out);
void bfs_searcher_free(bfs_searcher *searcher);

/* From a vertex, counted from 0. As often as one likes. OUT_OF_RANGE; NODE_FAILED: more levels than there may be. */
rota_status bfs_search(const bfs_searcher *searcher, uint32_t source, bfs_result *out);

/* How many edges each vertex is away, BFS_UNREACHED where there is no way: `levels` has room for all vertices. */
rota_status bfs_read(const bfs_searcher *searcher, uint32_t *levels);

#endif
