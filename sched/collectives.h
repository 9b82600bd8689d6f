/* Recording collectives on ranges of bytes, for the ops on tensors (ops/collective.c). Internal; not installed. */
#ifndef ROTA_SCHED_COLLECTIVES_H
#define ROTA_SCHED_COLLECTIVES_H

#include "exec/collective_kinds.h"
#include "graph/graph.h"
#include "sched/communicator.h"

/* A collective as a node: `input` and `output` are set where it runs, from what is accessed. */
typedef struct rota_collective_node {
    rota_communicator *communicator;
    rota_collective collective;
    /* Without a buffer: none. In place: exactly the same range, or, of an all_gather and a reduce_scatter, what has one
     * part is this rank's of what has all. */
    rota_access input, output;
} rota_collective_node;

/* The collective's name is borrowed for the life of graph and plans. As rota_record_host; WRONG_STATE: the communicator
 * is closed. */
rota_status rota_record_collective(rota_recorder *recorder, const rota_collective_node *node);

#endif
