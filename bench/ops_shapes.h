/* The op table's examples in other shapes: each extent renamed wherever it stands, so that operands still
 * fit. */
#ifndef ROTA_BENCH_OPS_SHAPES_H
#define ROTA_BENCH_OPS_SHAPES_H

#include "ops/table.h"

typedef enum shapes_kind {
    SHAPES_AS_GIVEN,
    SHAPES_RANDOM, /* every extent but 1 becomes a random one, odd sizes and 1 among them; up to 2^14 elements
                    */
    SHAPES_EMPTY,  /* the seed-th extent becomes 0 */
    SHAPES_LARGE, /* the first input, or output, gets more than 2^24 elements by one of its axes: by its first
                   * (seed 0), or by the one that the op walks (seed 1) */
} shapes_kind;

/* Changes the example's shapes; false if there is no (further) change of this kind. The shape rule may refuse
 * what comes out. A number of classes follows the extent that it is; other attributes stay. */
bool shapes_change(rota_op_example *example, shapes_kind kind, uint64_t seed);

/* Whether the op works along an axis of its first input: sums it up, say. *out_rows, if not NULL: how many of
 * its rows or columns it works on. */
bool shapes_walk(const rota_op_use *use, uint64_t *out_rows);

#endif
