/* Bodies of nodes that decide (graph/conditional.h): each is compiled by itself, as a plan of one device and one queue,
 * to which buffers of the graphs around it are what PERSISTENT ones are to any plan. So its hazards, its transients'
 * memory and its certificate are made by the same steps as everybody's.
 *
 *     graph --gather--> operation of the node -----------------> command --executor--> runs the bodies' programs
 *                          | accesses: outer ranges                 ^
 *                          | workspace: the bodies' arenas          | lower_bodies.c: a body's memory is an operand of
 *     body --gather..lower--> its plan (kept by the outer one) -----/ the node, or a part of its workspace
 *
 * Of a node's bodies one runs at a time, and one iteration after the other, so that all have the same workspace: as
 * large as the largest needs. A body's operands in an outer buffer begin where the node's operand in it does, plus the
 * distance in the buffer: the node's ranges hold all of them. Bodies within bodies were put in terms of their body's
 * memories when that was lowered, and are put in terms of the plan's along with it. */
#include "sched/plan/bodies.h"

#include "graph/conditional_internal.h"
#include "graph/record.h"
#include "sched/plan/compile.h"
#include "sched/plan/pack.h"

rota_status rota_compile_can_run(const rota_compiler *c, const rota_node_record *record, rota_node node,
                                 uint32_t part) {
    const rota_device_traits *device = c->partitions.device[part];
    const bool decides = record->kind == ROTA_NODE_CONDITIONAL;
    if (!device || (decides ? device->runs_conditionals : device->runs_counted)) return ROTA_OK;
    const char *lane = c->info->lanes[c->info->lane_rank[node.lane - 1]]->name;
    return rota_fail(ROTA_UNSUPPORTED,
                     "node '%s' (lane %u '%s', node %u) is %s (%s), which device '%s' does not run; "
                     "place it on a device of the CPU executor",
                     rota_node_record_name(record), node.lane, lane, node.index,
                     decides ? "a node that decides" : "counted: its size is in a buffer",
                     decides ? rota_conditional_kind_name(record->u.conditional->kind)
                     : record->kind == ROTA_NODE_COPY ? "copy"
                                                      : record->u.kernel.kernel->name,
                     device->id);
}

/* Bytes of a body's arena, its pieces one after the other. */
static uint64_t arena_bytes(const rota_plan *body) {
    uint64_t bytes = 0;
    const rota_partition *part = &body->partitions[0];
    for (uint32_t i = 0; i < part->desc.memory_count; i++)
        if (part->memories[i].kind == ROTA_EXEC_BASE_ARENA)
            bytes += rota_aligned_size(part->memories[i].size_bytes);
    return bytes;
}

/* Among those that placements name. */
static uint32_t device_index(const rota_compiler *c, const rota_device_traits *device) {
    if (c->graph->outer) return c->devices->index;
    for (uint32_t i = 0; device && i < c->devices->count; i++)
        if (c->devices->all[i].device == device->device) return i;
    return 0;
}

static rota_status compile_body(rota_compiler *c, const rota_node_record *record, rota_graph *body,
                                uint32_t part, rota_plan **out_plan) {
    const rota_compile_options *outer = &c->plan->options;
    const rota_device_traits *device = c->partitions.device[part];
    rota_device *handle = device ? device->device : NULL;
    const rota_compile_options options = {
        .struct_size = sizeof options,
        .devices = &handle,
        .device_count = device ? 1 : 0,
        .packing = outer->packing,
        .certify = outer->certify,
        .allow_undefined_reads = outer->allow_undefined_reads,
        /* Where the host can look at what they write: a body is on one device. */
        .check_kernels = outer->check_kernels && (!device || device->runs_host_nodes),
        .memory_limit_bytes = UINT64_MAX};
    const rota_plan_devices devices = {.all = device,
                                       .count = device ? 1 : 0,
                                       .index = device_index(c, device),
                                       .queues = 1,
                                       .outer_queues =
                                           c->graph->outer ? c->devices->outer_queues : c->policy_queues};
    const rota_status status = rota_plan_compile(body, &options, &devices, out_plan);
    if (status == ROTA_OK) return ROTA_OK;
    return rota_fail_context(status, "in body '%s' of node '%s': ", body->name,
                             rota_node_record_name(record));
}

rota_status rota_compile_bodies(rota_compiler *c, const rota_node_record *record, uint32_t part,
                                uint64_t *out_bytes) {
    const rota_conditional *conditional = record->u.conditional;
    rota_plan *plan = c->plan;
    rota_plan_bodies *bodies = rota_arena_calloc(&plan->arena, sizeof *bodies, 8);
    if (bodies)
        bodies->plans = rota_arena_calloc(&plan->arena, sizeof(rota_plan *) * conditional->body_count, 8);
    if (!bodies || !bodies->plans) return rota_compile_no_memory(c);
    bodies->operation = (uint32_t)c->operations.count;
    bodies->count = conditional->body_count;
    bodies->next = c->info->bodies;
    c->info->bodies = bodies; /* from here on its plans are freed with it */
    *out_bytes = 0;
    for (uint32_t i = 0; i < bodies->count; i++) {
        if (!conditional->bodies[i]) continue;
        ROTA_TRY(compile_body(c, record, conditional->bodies[i], part, &bodies->plans[i]));
        const uint64_t bytes = arena_bytes(bodies->plans[i]);
        if (bytes > *out_bytes) *out_bytes = bytes;
    }
    return ROTA_OK;
}

void rota_plan_free_bodies(const rota_plan *plan) {
    const rota_compile_info *info = rota_plan_info(plan);
    for (const rota_plan_bodies *bodies = info ? info->bodies : NULL; bodies; bodies = bodies->next)
        for (uint32_t i = 0; i < bodies->count; i++)
            if (bodies->plans[i]) rota_plan_destroy(bodies->plans[i]);
}
