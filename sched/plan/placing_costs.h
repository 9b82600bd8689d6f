/* What nodes and copies cost where nothing was measured. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_PLACING_COSTS_H
#define ROTA_SCHED_PLAN_PLACING_COSTS_H

#include "graph/graph_internal.h"
#include "sched/placing.h"
#include "sched/plan/traits.h"

/* Of a node on a device; infinite where it can't run there. */
rota_placing_cost rota_placing_prior(const rota_device_traits *device, const rota_node_record *record);

/* Of a copy between two devices. Of the same memory: nothing to copy, but turns to take. */
void rota_placing_prior_copy(const rota_device_traits *from, const rota_device_traits *to,
                             double *out_latency_ns, double *out_byte_ns);
/* Of INPUTs and OUTPUTs. */
void rota_placing_prior_host(const rota_device_traits *device, double *out_latency_ns, double *out_byte_ns);
/* Of a byte that the host gives: how long its cores' memory is taken by that. */
double rota_placing_prior_taken(const rota_device_traits *device);

/* Whether two devices are the same hardware: what one runs takes the other's time. */
bool rota_placing_same_hardware(const rota_device_traits *a, const rota_device_traits *b);

#endif
