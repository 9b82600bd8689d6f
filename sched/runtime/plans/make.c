/* A plan out of a graph, for the runtime's devices: tells the compiler of plans what they are like, then gives the
 * plan its memory and instances. */
#include "sched/runtime/plans/make.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/sized_copy.h"
#include "graph/graph_internal.h"
#include "sched/plan/compile.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/plans/learn.h"
#include "sched/runtime/plans/limit.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/handle.h"

static const rota_compile_options default_options = {.struct_size = sizeof default_options};

static rota_status check_arena_of(const rota_runtime *runtime, const rota_graph *graph,
                                  const rota_compile_options *options) {
    const rota_plan *other = options->arena_of;
    ROTA_TRY(rota_plan_check(other));
    if (other->runtime != runtime || other->options.device_count != 1 || options->device_count != 1 ||
        other->options.devices[0] != options->devices[0])
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "compile of graph '%s': arena_of is plan '%s'; expected both to be for one device, the same",
            graph->name, other->name);
    if (other->options.arenas > 1 || options->arenas > 1)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "compile of graph '%s': %u arenas, and plan '%s' of arena_of has %u; expected one of each",
            graph->name, options->arenas, other->name, other->options.arenas);
    return ROTA_OK;
}

/* Refuses a device of another runtime: says which devices this one has. */
static rota_status other_runtime(const rota_runtime *runtime, const rota_graph *graph,
                                 const rota_compile_options *options, uint32_t device) {
    char own[256];
    rota_runtime_name_devices(runtime, own, sizeof own);
    char theirs[256];
    rota_runtime_name_devices(rota_device_runtime(options->devices[device]), theirs, sizeof theirs);
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "compile of graph '%s': devices[%u], '%s', is of another runtime, whose devices are %s; "
                     "this one's are %s",
                     graph->name, device, rota_device_exec(options->devices[device])->info.id, theirs, own);
}

static rota_status check_options(rota_runtime *runtime, const rota_graph *graph,
                                 const rota_compile_options *options) {
    if (runtime) ROTA_TRY(rota_runtime_check(runtime));
    if (options->device_count && !runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT, "compile of graph '%s': devices without a runtime",
                         graph->name);
    if (options->device_count && !options->devices)
        return rota_fail(ROTA_INVALID_ARGUMENT, "compile of graph '%s': device_count %u, but devices is NULL",
                         graph->name, options->device_count);
    for (uint32_t i = 0; i < options->device_count; i++)
        if (!options->devices[i])
            return rota_fail(ROTA_INVALID_ARGUMENT, "compile of graph '%s': devices[%u] is NULL", graph->name,
                             i);
    for (uint32_t i = 0; i < options->device_count; i++)
        if (rota_device_runtime(options->devices[i]) != runtime)
            ROTA_TRY(other_runtime(runtime, graph, options, i));
    if (options->queues > ROTA_PLAN_QUEUES_MAX ||
        (runtime && options->device_count && options->queues > rota_runtime_queue_count(runtime)))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "compile of graph '%s': %u queues; the runtime has %u a device (at most %d)",
                         graph->name, options->queues,
                         runtime ? rota_runtime_queue_count(runtime) : ROTA_PLAN_QUEUES_MAX,
                         ROTA_PLAN_QUEUES_MAX);
    if (options->packing != ROTA_PACK_TIGHT && options->packing != ROTA_PACK_CONCURRENT)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "compile of graph '%s': packing %d, expected TIGHT or CONCURRENT", graph->name,
                         (int)options->packing);
    if (options->arena_of) ROTA_TRY(check_arena_of(runtime, graph, options));
    return ROTA_OK;
}

static rota_device_traits traits_of(rota_device *device, bool by_table) {
    const rota_exec_device *exec = device->exec;
    return (rota_device_traits){.device = device,
                                .id = exec->info.id,
                                .driver = exec->info.driver,
                                .kind = exec->info.kind,
                                .features = exec->info.features,
                                .domain = device->domain,
                                .index = device->index,
                                .peers = ra_load_acquire(&device->others.peers),
                                .lent_flags = exec->caps.shares_memory ? ROTA_EXEC_MEMORY_SHARED : 0,
                                .transfer_queue = device->transfer_queue,
                                .memory_bytes = exec->info.memory_bytes,
                                .max_allocation_bytes = exec->info.max_allocation_bytes,
                                .unified_host = exec->caps.unified_host,
                                .runs_host_nodes = exec->caps.runs_host_nodes,
                                .runs_conditionals = exec->caps.runs_conditionals,
                                .hosts_decisions = exec->caps.hosts_decisions,
                                .runs_counted = exec->caps.runs_counted,
                                .cuda = by_table ? exec->cuda_by_table : exec->cuda,
                                .device_class = exec->info.device_class,
                                .compute_units = exec->info.compute_units};
}

/* free_bytes: what the transients may take; 0: what the options say. *out_limits: for another attempt, where the plan
 * has no room within the runtime's memory limit; else none. */
static rota_status try_plan(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                            const rota_plan_devices *devices, uint64_t free_bytes,
                            rota_plan_limits *out_limits, rota_plan **out_plan) {
    rota_plan *plan;
    *out_limits = (rota_plan_limits){0};
    ROTA_TRY(free_bytes ? rota_plan_compile_in(graph, options, devices, free_bytes, &plan)
                        : rota_plan_compile(graph, options, devices, &plan));
    plan->runtime = runtime;
    rota_plan_retain(plan->options.arena_of);
    const rota_status status = devices->count ? rota_executable_create(plan) : ROTA_OK;
    if (status == ROTA_OUT_OF_MEMORY) *out_limits = rota_plan_limits_of(plan);
    if (status != ROTA_OK) {
        rota_plan_free(plan);
        return status;
    }
    *out_plan = plan;
    return ROTA_OK;
}

/* Where the runtime's memory limit leaves the plan no room: another that takes less, by computing again what it would
 * keep. If there is none, the error says what the first one needed, and then how little the last could do with. */
static rota_status make_plan(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                             const rota_plan_devices *devices, rota_plan **out_plan) {
    rota_plan_limits limits, unused;
    rota_status status = try_plan(runtime, graph, options, devices, 0, &limits, out_plan);
    const uint64_t tried[] = {limits.with_spare, limits.all};
    char needed[ROTA_ERROR_MESSAGE_MAX / 2];
    bool any = false;
    for (uint32_t i = 0; i < 2 && status == ROTA_OUT_OF_MEMORY; i++) {
        if (!tried[i] || (i && tried[i] == tried[i - 1])) continue;
        rota_compile_options limited = *options;
        limited.packing = ROTA_PACK_TIGHT; /* which is less costly */
        if (!any) (void)snprintf(needed, sizeof needed, "%s", rota_last_error());
        any = true;
        status = try_plan(runtime, graph, &limited, devices, tried[i], &unused, out_plan);
    }
    if (status != ROTA_OUT_OF_MEMORY || !any) return status;
    return rota_fail(status, "%s; %s", needed, rota_last_error());
}

/* Compiles for the devices of the options, the first of which are `traits`, with room for one more. */
static rota_status make_for(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                            rota_device *host, rota_device_traits *traits, rota_plan **out_plan) {
    const uint32_t count = options->device_count;
    for (uint32_t i = 0; i < count; i++) traits[i] = traits_of(options->devices[i], options->deterministic);
    rota_plan_devices devices = {
        .all = traits, .count = count, .queues = runtime ? rota_runtime_queue_count(runtime) : 0};
    const bool watched = options->check_kernels && count && !traits[0].runs_host_nodes;
    if (watched || rota_plan_needs_host(graph, traits, count)) {
        if (!host) return ROTA_OK;
        traits[count] = traits_of(host, options->deterministic);
        devices.cpu = &traits[count];
    }
    devices.automatic = count > 1 && rota_plan_is_automatic(graph, options);
    devices.teaches = runtime && runtime->options.diagnostics;
    for (uint32_t i = 0;
         i <= count && devices.automatic && !options->place_by_table && !options->deterministic; i++)
        if (i < count || devices.cpu) traits[i].history = rota_device_history(traits[i].device);
    rota_status status = make_plan(runtime, graph, options, &devices, out_plan);
    /* Memory that can't be opened to a peer (an import, the application's): through the host, as far as it goes. */
    bool had_peers = false;
    for (uint32_t i = 0; i < count && status == ROTA_UNSUPPORTED; i++) {
        had_peers = had_peers || traits[i].peers;
        traits[i].peers = 0;
    }
    if (had_peers) status = make_plan(runtime, graph, options, &devices, out_plan);
    if (!devices.automatic || options->placer) return status;
    /* A device may refuse what it was thought to run, or have no room: then one device, as far as it goes. */
    while ((status == ROTA_UNSUPPORTED || status == ROTA_OUT_OF_MEMORY) && devices.only_plus_1 < count) {
        devices.only_plus_1++;
        status = make_plan(runtime, graph, options, &devices, out_plan);
    }
    return status;
}

rota_status rota_plan_make(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                           rota_device *host, rota_plan **out_plan) {
    *out_plan = NULL;
    rota_compile_options room;
    if (!options) options = &default_options;
    if (!(options = ROTA_SIZED_IN(rota_compile_options, options, &room))) return ROTA_INVALID_ARGUMENT;
    ROTA_TRY(check_options(runtime, graph, options));
    if (graph->outer)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "compile of graph '%s': it is a body, which is compiled with the graph whose node takes it",
            graph->name);
    rota_device_traits *traits = calloc(options->device_count + (size_t)1, sizeof *traits);
    if (!traits) return rota_fail(ROTA_OUT_OF_MEMORY, "compile of graph '%s': no host memory", graph->name);
    rota_graph_freeze(graph);
    rota_status status = make_for(runtime, graph, options, host, traits, out_plan);
    free(traits);
    return status;
}
