/* What the machine is: its cores, and which are near one another. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_INFO_H
#define ROTA_EXEC_CPU_INFO_H

#include <sched.h>
#include "base/status.h"
#include "exec/cpu/near.h"
#include "exec/device.h"
#include "exec/locality.h"

#define ROTA_CPU_WORKERS_MAX 256

/* Cores are numbered so that those which share something follow one another. */
typedef struct rota_cpu_core {
    cpu_set_t set; /* of its threads, those that the process may use */
    rota_cpu_near near;
    int32_t node; /* the system's number of its memory; -1: there is one only, or it is not known */
} rota_cpu_core;

/* Adds the memories of these cores. */
static inline void rota_cpu_nodes(const rota_cpu_core *cores, uint32_t count, rota_nodes *nodes) {
    for (uint32_t i = 0; i < count; i++)
        if (cores[i].node >= 0) rota_nodes_add(nodes, (uint32_t)cores[i].node);
}

/* What the machine is. If out_cores is not NULL it gets one for each of the info's compute_units, which are
 * the cores of the process's affinity; malloc'ed, the caller frees. */
rota_status rota_cpu_describe(rota_device_info *out_info, rota_cpu_core **out_cores);

#endif
