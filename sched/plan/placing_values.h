/* Which node reads what of which other one's, for automatic placement. Internal. */
#ifndef ROTA_SCHED_PLAN_PLACING_VALUES_H
#define ROTA_SCHED_PLAN_PLACING_VALUES_H

#include "sched/placing.h"
#include "sched/plan/compiler.h"

/* Beside an edge: the bytes that go along. */
typedef struct rota_placing_range {
    uint64_t stored;    /* as access records name the buffer */
    uint64_t low, high; /* high 0: none of this replay's */
} rota_placing_range;

typedef struct rota_placing_values {
    rota_vector edges;  /* rota_placing_edge, by the node that they lead to */
    rota_vector ranges; /* rota_placing_range of each */
    uint32_t value_count;
    rota_vector touches; /* uint32_t: buffers, by the node that touches them */
    rota_vector buffers; /* rota_placing_buffer */
} rota_placing_values;

/* Goes over all records and sets first_edge, edge_count, read_back_bytes, first_touch and touch_count of
 * each node. The values are freed by
 * rota_placing_values_free, whatever this returns. O((nodes + accesses) log(ranges of a buffer)). */
rota_status rota_placing_find_values(rota_compiler *compiler, const rota_node_record *const *records,
                                     rota_placing_node *nodes, rota_placing_values *out_values);
void rota_placing_values_free(rota_placing_values *values);

#endif
