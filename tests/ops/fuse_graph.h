/* Random graphs of elementwise ops, for the tests of fusion. */
#ifndef ROTA_TESTS_FUSE_GRAPH_H
#define ROTA_TESTS_FUSE_GRAPH_H

#include "rota.h"

enum { FUSE_INPUTS = 6, FUSE_OUTPUTS_MAX = 8 };

typedef struct fuse_graph {
    uint64_t rows, columns;
    rota_tensor inputs[FUSE_INPUTS]; /* whole, whole, row, column, number, whole in the other dtype */
    rota_tensor outputs[FUSE_OUTPUTS_MAX];
    uint32_t output_count;
    rota_slot alpha, seed; /* f32 and u32 */
} fuse_graph;

/* Records the graph that the seed stands for: the same whenever it is called. Only exact operations (and
 * roundings) where `exact`, so that any two devices agree. Inputs are INPUT buffers, outputs OUTPUT buffers.
 */
rota_status fuse_graph_record(rota_tape *tape, uint64_t seed, bool exact, fuse_graph *out_graph);

#endif
