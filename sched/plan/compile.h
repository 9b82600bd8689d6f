/* From a graph to a plan. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_COMPILE_H
#define ROTA_SCHED_PLAN_COMPILE_H

#include "sched/plan/compiled.h"
#include "sched/plan/traits.h"

/* Whether a plan of the graph, which is frozen, needs the host's device beside those: host functions run there, and
 * copies between two devices that are not the host's go through it. Linear in nodes. */
bool rota_plan_needs_host(const rota_graph *graph, const rota_device_traits *devices, uint32_t count);

/* Whether a compile for several devices has nodes to place (placing.c). Linear in nodes. */
bool rota_plan_is_automatic(const rota_graph *graph, const rota_compile_options *options);

/* Compiles the graph, which is frozen, with options that were checked: rota_compile says how it fails. The plan has no
 * runtime yet, and holds no reference on options->arena_of. */
rota_status rota_plan_compile(rota_graph *graph, const rota_compile_options *options,
                              const rota_plan_devices *devices, rota_plan **out_plan);

/* The same, where the transients may take so many bytes (not 0), which is what happened to be free, and not what the
 * caller chose: nodes run again for it, which gives the same bits, but rewrites are not told. */
rota_status rota_plan_compile_in(rota_graph *graph, const rota_compile_options *options,
                                 const rota_plan_devices *devices, uint64_t free_bytes, rota_plan **out_plan);

/* Frees the plan's host memory and drops its buffers and graph. */
void rota_plan_destroy(rota_plan *plan);

#endif
