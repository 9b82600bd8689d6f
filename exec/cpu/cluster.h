/* Cutting segments into units: see cluster.c. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_CLUSTER_H
#define ROTA_EXEC_CPU_CLUSTER_H

#include "exec/cpu/program.h"

typedef struct rota_cpu_estimate {
    uint64_t cost_ns; /* a rough guess from bytes and grains */
    uint64_t items, grain;
    bool split;           /* worth splitting over workers */
    bool later;           /* ends later: no worker may go on behind it */
    bool is_alone;        /* in a unit of its own: either, or it decides and its bodies' units are tasks */
    uint32_t conditional; /* of the program's; ROTA_CPU_NONE: it decides nothing */
} rota_cpu_estimate;
/* Cuts the segments into units: fills segments, units, unit_successors, roots and their counts, from the
 * program's arena. later_count: of those that end later. out_order[command_count] gets the commands in the order in
 * which their records must stand. Time and memory are linear in commands and edges; where something ends later, time is
 * n log n in a unit's edges. */
rota_status rota_cpu_cluster(rota_exec_program *program, const rota_cpu_estimate *estimates,
                             size_t later_count, uint32_t worker_count, uint32_t *out_order);

#endif
