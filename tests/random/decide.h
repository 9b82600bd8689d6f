/* Random graphs some of whose nodes are in bodies of nodes that decide: runs of nodes of a described graph are wrapped,
 * the rest of the description is as it was. */
#ifndef ROTA_TESTS_DECIDE_H
#define ROTA_TESTS_DECIDE_H

#include "tests/random/mirror.h"

/* The one kernel that they have besides: a C function, and one for CUDA. */
extern const rota_kernel decide_count_down;

/* Draws groups of the case's graphs, with host functions among them or not. Reads of what nothing has written are
 * allowed where there are some: what a body writes counts as read, too. */
void decide_draw(mirror_case *mirror, bool has_hosts, uint64_t *random);
/* Records the group's nodes: one node into `recorder`, with bodies within bodies. */
rota_status decide_record(mirror_graph *graph, const mirror_group *group, rota_recorder *recorder);
/* Runs a node as often as its group has it run, by `run`. */
typedef void (*decide_run_fn)(const mirror_graph *graph, const mirror_node *node, mirror_replay *replay);
void decide_run(const mirror_graph *graph, const mirror_group *group, uint32_t layer, mirror_replay *replay,
                decide_run_fn run);
/* Iterations that a graph's groups have, the innermost ones. */
uint64_t decide_iterations(const mirror_graph *graph);

#endif
