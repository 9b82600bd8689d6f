/* From lanes to operations: record order, resolved accesses, uploads and read-backs, placement. */
#include "sched/plan/gather.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/prefetch.h"
#include "graph/kernel_calls.h"
#include "graph/lane_records.h"
#include "graph/record.h"
#include "sched/plan/bodies.h"
#include "sched/plan/check.h"
#include "sched/plan/interval.h"
#include "sched/plan/on_device.h"
#include "sched/plan/parts.h"
#include "sched/plan/placement.h"
#include "sched/plan/placing.h"
#include "sched/plan/recompute.h"
#include "sched/plan/hooks.h"
#include "sched/plan/workspace.h"

/* How far ahead of the record at hand what the compiler has of its buffers is asked for, in two steps; and of the
 * lane at hand, lanes and where their records begin. */
enum { RECORDS_AHEAD = 4, LANES_AHEAD = 2, LINES_OF_LANE = 12, LINE_BYTES = 64 };

/* ---- Lanes ---- */

static int compare_lanes(const void *left, const void *right) {
    const rota_recorder *a = *(rota_recorder *const *)left, *b = *(rota_recorder *const *)right;
    if (a == b) return 0;
    return rota_lane_precedes(a, b) ? -1 : 1;
}

static rota_status sort_lanes(rota_compiler *c) {
    rota_graph *graph = c->graph;
    rota_compile_info *info = c->info;
    uint32_t count = graph->lane_count;
    info->lane_count = count;
    info->lanes = rota_arena_alloc(&c->plan->arena, sizeof *info->lanes * (count + 1), 8);
    info->lane_first_node = rota_arena_alloc(&c->plan->arena, sizeof(uint32_t) * (count + 1), 8);
    info->lane_rank = rota_arena_alloc(&c->plan->arena, sizeof(uint32_t) * (count + 1), 8);
    c->gathering.lane_base = rota_arena_calloc(&c->scratch, sizeof(uint32_t) * (count + 2), 8);
    if (!info->lanes || !info->lane_first_node || !info->lane_rank || !c->gathering.lane_base)
        return rota_compile_no_memory(c);
    if (count) memcpy(info->lanes, graph->lanes, sizeof *info->lanes * count);
    if (count > 1) qsort(info->lanes, count, sizeof *info->lanes, compare_lanes);

    uint64_t nodes = 0, accesses = 0, held = 0, buffers = graph->own.buffer_count;
    c->gathering.lane_base[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        rota_recorder *lane = info->lanes[i];
        /* Acquire pairs with rota_recorder_close: the lane's contents are complete and visible. */
        if (!ra_load_acquire(&lane->closed))
            return rota_fail(ROTA_WRONG_STATE, "compile of graph '%s': recorder '%s' is still open",
                             graph->name, lane->name);
        if (i && !info->lanes[i - 1]->order.is_first && info->lanes[i - 1]->order.key == lane->order.key)
            return rota_fail(ROTA_ALREADY_EXISTS,
                             "compile of graph '%s': lanes '%s' and '%s' have the same order key %llu",
                             graph->name, info->lanes[i - 1]->name, lane->name,
                             (unsigned long long)lane->order.key);
        info->lane_rank[lane->lane - 1] = i;
        info->lane_first_node[i] = (uint32_t)nodes;
        nodes += lane->node_count;
        accesses += lane->access_count;
        held += lane->held_count; /* no fewer than the persistent buffers that it names */
    }
    for (uint32_t i = 0; i < count; i++) {
        c->gathering.lane_base[i + 1] = (uint32_t)buffers;
        buffers += graph->lanes[i]->buffer_count;
    }
    if (nodes > UINT32_MAX / 4 || accesses > UINT32_MAX / 2 || buffers > UINT32_MAX / 4)
        return rota_fail(
            ROTA_OUT_OF_RANGE,
            "compile of graph '%s': %llu nodes, %llu accesses, %llu buffers; at most 2^30, 2^31, 2^30",
            graph->name, (unsigned long long)nodes, (unsigned long long)accesses,
            (unsigned long long)buffers);
    info->lane_first_node[count] = (uint32_t)nodes;
    c->node_count = (uint32_t)nodes;
    c->gathering.graph_buffer_count = (uint32_t)buffers;
    c->plan->stats.nodes = nodes;
    if (!rota_vector_reserve(&c->operations, sizeof(rota_operation), nodes + 16) ||
        !rota_vector_reserve(&c->accesses, sizeof(rota_exec_operand), accesses + 32) ||
        !rota_vector_reserve(&c->access_physical, sizeof(uint32_t), accesses + 32) ||
        !rota_vector_reserve(&c->buffers, sizeof(rota_plan_buffer), buffers + held) ||
        !rota_vector_reserve(&c->physicals, sizeof(rota_physical), buffers + held) ||
        !rota_vector_reserve(&c->edges.kind, sizeof(uint8_t), accesses))
        return rota_compile_no_memory(c);
    return ROTA_OK;
}

/* A list of them is made for the first node whose operation is not of its number. */
static rota_status set_operation_of(rota_compiler *c, uint32_t node, uint32_t operation) {
    rota_compile_info *info = c->info;
    if (!info->operation_of_node) {
        if (operation == node) return ROTA_OK;
        info->operation_of_node =
            rota_arena_alloc(&c->plan->arena, sizeof(uint32_t) * ((size_t)c->node_count + 1), 8);
        if (!info->operation_of_node) return rota_compile_no_memory(c);
        for (uint32_t i = 0; i < c->node_count; i++) info->operation_of_node[i] = i;
    }
    info->operation_of_node[node] = operation;
    return ROTA_OK;
}

/* ---- Buffers and copies ---- */

static rota_status add_graph_buffers(rota_compiler *c) {
    for (uint32_t lane = 0; lane <= c->graph->lane_count; lane++) {
        const rota_recorder *recorder = lane ? c->graph->lanes[lane - 1] : &c->graph->own;
        for (uint32_t i = 0, count; i < recorder->buffer_count; i += count) {
            rota_buffer *list = rota_lane_buffers(recorder, i, &count);
            ROTA_TRY(rota_compile_add_buffers(c, list, count));
        }
    }
    return ROTA_OK;
}

static const rota_buffer *plan_buffer(const rota_compiler *c, uint32_t buffer) {
    return ((const rota_plan_buffer *)c->buffers.data)[buffer].buffer;
}

/* A copy between host memory of the caller's and an INPUT or OUTPUT buffer. */
static rota_status add_transfer(rota_compiler *c, uint32_t buffer, uint32_t part, bool is_output) {
    if (!rota_vector_reserve(&c->transfers, sizeof(rota_plan_transfer), 1)) return rota_compile_no_memory(c);
    uint64_t size = plan_buffer(c, buffer)->size_bytes;
    uint32_t physical;
    if (c->spread.several_parts)
        ROTA_TRY(
            rota_compile_placement(c, part, buffer, 0, size, is_output ? ROTA_READ : ROTA_WRITE, &physical));
    else
        physical = buffer;
    rota_operation *operation =
        rota_compile_add_operation(c, is_output ? ROTA_OPERATION_DOWNLOAD : ROTA_OPERATION_UPLOAD, 2);
    if (!operation) return rota_compile_no_memory(c);
    operation->part = (uint8_t)part;
    operation->node = (uint32_t)c->transfers.count;
    uint32_t transfer_queue = c->partitions.device[part] ? c->partitions.device[part]->transfer_queue : 1;
    if (c->plan->options.transfer_queue && transfer_queue < c->queue_count)
        operation->queue = transfer_queue & 0x7fu;
    rota_compile_set_access(c, is_output ? 1 : 0, physical, 0, size, is_output ? ROTA_READ : ROTA_WRITE);
    rota_compile_set_access(c, is_output ? 0 : 1, ROTA_NONE, 0, size, is_output ? ROTA_WRITE : ROTA_READ);
    ((rota_plan_transfer *)c->transfers.data)[c->transfers.count++] = (rota_plan_transfer){
        .buffer = buffer, .part = part, .memory = ROTA_NONE, .word = ROTA_NONE, .is_output = is_output};
    return ROTA_OK;
}

/* ---- Placement of a node ---- */

static rota_status use_part(rota_compiler *c, const rota_device_traits *device, uint32_t *out_part) {
    for (uint32_t i = 0; i < c->partitions.count; i++)
        if (c->partitions.device[i]->device == device->device) {
            *out_part = i;
            return ROTA_OK;
        }
    if (c->partitions.count > UINT8_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE, "plan on more than %d devices", UINT8_MAX);
    uint32_t memory_partition = 0;
    while (memory_partition < c->partitions.count &&
           c->partitions.device[memory_partition]->domain != device->domain)
        memory_partition++;
    c->partitions.device[c->partitions.count] = device;
    c->partitions.memory[c->partitions.count] = (uint8_t)memory_partition;
    *out_part = c->partitions.count++;
    return ROTA_OK;
}

static rota_status no_queue(const rota_node_record *record, uint32_t queue, uint32_t count) {
    return rota_fail(ROTA_INVALID_ARGUMENT, "node '%s' is placed on logical queue %u; the plan uses %u",
                     rota_node_record_name(record), queue, count);
}

/* A body is where its node is, on one queue. */
static rota_status place_in_body(const rota_compiler *c, const rota_node_record *record) {
    if (record->queue_plus_1 > c->devices->outer_queues)
        return no_queue(record, record->queue_plus_1 - 1u, c->devices->outer_queues);
    if (record->device_plus_1 == 0 || record->device_plus_1 == ROTA_PLACE_AUTO ||
        record->device_plus_1 - 1u == c->devices->index)
        return ROTA_OK;
    return rota_fail(
        ROTA_INVALID_ARGUMENT,
        "node '%s' of body '%s' is placed on device %u, and its body's node on device %u; a body runs "
        "where its node does",
        rota_node_record_name(record), c->graph->name, record->device_plus_1 - 1, c->devices->index);
}

static rota_status place_node(rota_compiler *c, const rota_node_record *record, uint32_t number,
                              rota_node node, uint32_t *out_part, uint32_t *out_queue) {
    const rota_compile_options *options = &c->plan->options;
    const uint32_t device_plus_1 = rota_compile_device_plus_1(c, record, number);
    *out_part = *out_queue = 0;
    if (c->graph->outer) return place_in_body(c, record);
    if (record->kind == ROTA_NODE_HOST && c->partitions.cpu != ROTA_NONE) {
        *out_part = c->partitions.cpu;
    } else if (device_plus_1) {
        if (device_plus_1 > options->device_count)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "node '%s' is placed on device %u; the plan has %u devices",
                             rota_node_record_name(record), device_plus_1 - 1, options->device_count);
        ROTA_TRY(use_part(c, &c->devices->all[device_plus_1 - 1], out_part));
    }
    uint32_t queue = 0;
    if (record->queue_plus_1)
        queue = record->queue_plus_1 - 1u;
    else if (options->queue_policy)
        queue = options->queue_policy(options->queue_policy_user, node, c->policy_queues);
    if (queue >= c->policy_queues) return no_queue(record, queue, c->policy_queues);
    *out_queue = queue;
    return ROTA_OK;
}

/* Whether an INPUT's contents are still to be brought to the device. */
static bool is_input_due(const rota_compiler *c, uint32_t buffer) {
    if (!c->spread.several_parts) {
        const rota_physical *physical = &ROTA_PHYSICALS(c)[buffer];
        return physical->kind == ROTA_BUFFER_INPUT && physical->first_operation == ROTA_NONE;
    }
    return plan_buffer(c, buffer)->kind == ROTA_BUFFER_INPUT &&
           (buffer >= c->spread.valid.count || !((void **)c->spread.valid.data)[buffer]);
}

/* Physicals for the accesses of a node, from their buffers. Reads before writes: an operation in place reads what was
 * there before it. */
static rota_status place_accesses(rota_compiler *c, const rota_node_record *record, uint32_t part,
                                  uint32_t *physicals) {
    const rota_access_record *accesses = rota_node_accesses(record);
    for (int writes = 0; writes < 2; writes++)
        for (uint32_t i = 0; i < record->access_count; i++) {
            if ((ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ) != writes) continue;
            uint64_t low = ROTA_ACCESS_OFFSET(&accesses[i]);
            ROTA_TRY(rota_compile_placement(c, part, physicals[i], low, low + rota_access_size(&accesses[i]),
                                            ROTA_ACCESS_MODE(&accesses[i]), &physicals[i]));
        }
    return ROTA_OK;
}

/* The upload of an INPUT, and where placement is automatic its copies to the other devices that read it. */
static rota_status bring_input(rota_compiler *c, uint32_t buffer, uint32_t part) {
    ROTA_TRY(add_transfer(c, buffer, part, false));
    const uint32_t *readers = c->spread.placing.input_devices;
    if (!readers || !c->spread.several_parts || buffer >= c->gathering.graph_buffer_count) return ROTA_OK;
    for (uint32_t mask = readers[buffer]; mask; mask &= mask - 1) {
        uint32_t to = 0;
        ROTA_TRY(use_part(c, &c->devices->all[__builtin_ctz(mask)], &to));
        ROTA_TRY(rota_compile_send_range(c, to, buffer, 0, plan_buffer(c, buffer)->size_bytes));
    }
    return ROTA_OK;
}

/* Where placement is automatic: what a node wrote leaves for the devices that will read it. */
static rota_status send_values(rota_compiler *c, uint32_t node) {
    const rota_compile_placing *placing = &c->spread.placing;
    if (!placing->first_send || !c->spread.several_parts) return ROTA_OK;
    for (uint32_t i = placing->first_send[node]; i < placing->first_send[node + 1]; i++) {
        const rota_compile_send *send = &placing->sends[i];
        uint32_t buffer, to = 0;
        ROTA_TRY(rota_compile_buffer_index(c, send->stored, &buffer));
        ROTA_TRY(use_part(c, &c->devices->all[send->device], &to));
        ROTA_TRY(rota_compile_send_range(c, to, buffer, send->low, send->high));
    }
    return ROTA_OK;
}

/* `physicals`: room for one an access; plan buffers, which are the same where all is one part. */
static inline __attribute__((always_inline)) rota_status put_operation(rota_compiler *c,
                                                                       const rota_node_record *record,
                                                                       uint32_t node, uint32_t part,
                                                                       uint32_t queue, uint32_t *physicals) {
    const rota_access_record *accesses = rota_node_accesses(record);
    const uint32_t count = record->access_count;
    for (uint32_t i = 0; i < count; i++) {
        ROTA_TRY(rota_compile_buffer_index(c, rota_access_stored(&accesses[i]), &physicals[i]));
        if (is_input_due(c, physicals[i])) ROTA_TRY(bring_input(c, physicals[i], part));
    }
    uint64_t workspace_bytes =
        c->partitions.device[part] ? rota_compile_workspace_bytes(c, part, record, physicals) : 0;
    if (c->spread.several_parts) ROTA_TRY(place_accesses(c, record, part, physicals));
    if (record->kind == ROTA_NODE_CONDITIONAL)
        ROTA_TRY(rota_compile_bodies(c, record, part, &workspace_bytes));
    rota_operation *operation =
        rota_compile_add_operation(c, ROTA_OPERATION_NODE, count + (workspace_bytes ? 1u : 0u));
    if (!operation) return rota_compile_no_memory(c);
    operation->record = record;
    operation->node = node;
    operation->part = (uint8_t)part;
    c->partitions.binding_count[part] += record->binding_count;
    if (record->kind == ROTA_NODE_KERNEL) {
        const rota_kernel *kernel = record->u.kernel.kernel;
        operation->works_in_place = kernel->inplace_outputs && kernel->inplace_inputs;
    }
    operation->queue = queue & 0x7fu;
    for (uint32_t i = 0; i < count; i++)
        rota_compile_set_access(c, i, physicals[i], ROTA_ACCESS_OFFSET(&accesses[i]),
                                rota_access_size(&accesses[i]), ROTA_ACCESS_MODE(&accesses[i]));
    if (!workspace_bytes) return ROTA_OK;
    rota_compile_set_access(c, count, ROTA_NONE, 0, workspace_bytes, ROTA_WRITE);
    return rota_compile_want_workspace(c, workspace_bytes);
}

/* A node that decides may have more accesses than others. Room for so many keeps a function out of those that call it
 * (GCC's large-stack-frame), which no other node is to pay for. */
static __attribute__((noinline)) rota_status add_large_operation(rota_compiler *c,
                                                                 const rota_node_record *record,
                                                                 uint32_t node, uint32_t part,
                                                                 uint32_t queue) {
    uint32_t physicals[ROTA_OPERATION_ACCESSES_MAX];
    return put_operation(c, record, node, part, queue, physicals);
}

static rota_status add_operation(rota_compiler *c, const rota_node_record *record, uint32_t node,
                                 uint32_t part, uint32_t queue) {
    uint32_t physicals[ROTA_KERNEL_OPERANDS_MAX];
    if (record->access_count > ROTA_KERNEL_OPERANDS_MAX)
        return add_large_operation(c, record, node, part, queue);
    return put_operation(c, record, node, part, queue, physicals);
}

/* The newest operation, which is a node's: copies come before what they are for. */
static rota_operation *newest(const rota_compiler *c) {
    return &ROTA_OPERATIONS(c)[c->operations.count - 1];
}

/* The operations of a record, which other records of its node may stand before and behind. */
static rota_status add_record(rota_compiler *c, const rota_node_record *record, uint32_t node, uint32_t part,
                              uint32_t queue, bool is_first, bool is_last) {
    uint32_t count = 0;
    const rota_node_record *parts[ROTA_KERNEL_PARTS_MAX];
    if (record->kind == ROTA_NODE_KERNEL && rota_kernel_has_parts(record->u.kernel.kernel))
        ROTA_TRY(rota_compile_parts(c, part, record, parts, &count));
    if (count == 0) {
        parts[0] = record;
        count = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        ROTA_TRY(add_operation(c, parts[i], node, part, queue));
        newest(c)->goes_on = i + 1 < count || !is_last;
        if (i == 0 && is_first) ROTA_TRY(set_operation_of(c, node, (uint32_t)c->operations.count - 1));
    }
    return ROTA_OK;
}

/* A fill of a buffer that needs none. */
static rota_status is_idle(rota_compiler *c, const rota_node_record *record, bool *out) {
    uint32_t buffer;
    *out = false;
    if (record->kind != ROTA_NODE_FILL) return ROTA_OK;
    ROTA_TRY(rota_compile_buffer_index(c, rota_access_stored(rota_node_accesses(record)), &buffer));
    *out = plan_buffer(c, buffer)->is_scratch;
    return ROTA_OK;
}

/* What a library of the first device's does for the host: two kernels there, with the host node between. */
static rota_status add_on_device(rota_compiler *c, const rota_node_record *record, uint32_t node,
                                 uint32_t queue) {
    const rota_node_record *records[ROTA_ON_DEVICE_RECORDS];
    ROTA_TRY(rota_compile_on_device(c, record, records));
    const uint32_t end_queue = rota_compile_end_queue(c, queue);
    for (uint32_t i = 0; i < ROTA_ON_DEVICE_RECORDS; i++) {
        c->spread.copies_from = i == ROTA_ON_DEVICE_END ? end_queue : 0;
        c->spread.copies_to = i == 0 ? 0 : end_queue;
        ROTA_TRY(add_record(c, records[i], node, i == ROTA_ON_DEVICE_HOST ? c->partitions.cpu : 0,
                            i == 0 ? queue : end_queue, i == 0, i == ROTA_ON_DEVICE_END));
    }
    c->spread.copies_from = c->spread.copies_to = 0;
    return ROTA_OK;
}

/* A kernel's node, whose accesses are checked if the plan's options say so. */
static inline rota_status add_kernel(rota_compiler *c, const rota_node_record *record, uint32_t node,
                                     uint32_t part, uint32_t queue) {
    if (!c->plan->options.check_kernels || !rota_compile_can_check(record))
        return add_record(c, record, node, part, queue, true, true);
    rota_check_records records;
    ROTA_TRY(rota_compile_check(c, part, record, &records));
    for (uint32_t i = 0; i < records.count; i++) {
        const bool is_host = records.list[i]->kind == ROTA_NODE_HOST && c->partitions.cpu != ROTA_NONE;
        ROTA_TRY(add_record(c, records.list[i], node, is_host ? c->partitions.cpu : part, queue, i == 0,
                            i + 1 == records.count));
    }
    return ROTA_OK;
}

static bool is_placed(const rota_compiler *c, const rota_node_record *record) {
    return c->spread.placing.device || record->device_plus_1 | record->queue_plus_1 ||
           c->plan->options.queue_policy || c->partitions.cpu != ROTA_NONE;
}

/* Of a node that is no plain kernel, which are most: apart, so that those are not asked all of this. */
static __attribute__((noinline)) rota_status add_other_node(rota_compiler *c, const rota_node_record *record,
                                                            uint32_t node, rota_node handle) {
    uint32_t part = 0, queue = 0;
    bool idle;
    ROTA_TRY(is_idle(c, record, &idle));
    if (idle) return set_operation_of(c, node, ROTA_NONE); /* as one that was removed */
    if (is_placed(c, record)) ROTA_TRY(place_node(c, record, node, handle, &part, &queue));
    if (record->kind == ROTA_NODE_CONDITIONAL || record->is_counted)
        ROTA_TRY(rota_compile_can_run(c, record, handle, part));
    if (rota_compile_is_on_device(c, record)) return add_on_device(c, record, node, queue);
    if (record->kind == ROTA_NODE_KERNEL) return add_kernel(c, record, node, part, queue);
    if (rota_compile_takes_turn(c, record)) ROTA_TRY(rota_compile_in_turn(c, record, &record));
    return add_record(c, record, node, part, queue, true, true);
}

static rota_status add_node_alone(rota_compiler *c, const rota_node_record *record, uint32_t node,
                                  rota_node handle) {
    uint32_t part = 0, queue = 0;
    if (record->kind != ROTA_NODE_KERNEL || record->is_counted)
        return add_other_node(c, record, node, handle);
    if (is_placed(c, record)) ROTA_TRY(place_node(c, record, node, handle, &part, &queue));
    return add_kernel(c, record, node, part, queue);
}

static rota_status add_node(rota_compiler *c, const rota_node_record *record, uint32_t node,
                            rota_node handle) {
    ROTA_TRY(add_node_alone(c, record, node, handle));
    return c->spread.placing.device ? send_values(c, node) : ROTA_OK;
}

/* Outputs are read back after all nodes, each from the part that has it: part 0 unless only another wrote it.
 */
static rota_status add_outputs(rota_compiler *c) {
    for (uint32_t buffer = 0; buffer < c->gathering.graph_buffer_count; buffer++) {
        if (plan_buffer(c, buffer)->kind != ROTA_BUFFER_OUTPUT) continue;
        uint32_t part = 0;
        if (c->spread.several_parts) {
            uint32_t written = 0;
            if (buffer < c->spread.valid.count && ((void **)c->spread.valid.data)[buffer]) {
                const rota_interval *range =
                    rota_interval_map_find(((rota_interval_map **)c->spread.valid.data)[buffer], 0);
                written = range ? range->state.writer : 0;
            }
            if (written) part = (uint32_t)__builtin_ctz(written);
        }
        ROTA_TRY(add_transfer(c, buffer, part, true));
    }
    return ROTA_OK;
}

static rota_status choose_parts(rota_compiler *c) {
    const rota_plan_devices *devices = c->devices;
    c->partitions.cpu = ROTA_NONE;
    c->partitions.count = 1;
    if (devices->count == 0) return ROTA_OK;
    const rota_device_traits *home = &devices->all[c->spread.placing.home];
    c->partitions.device[0] = home;
    if ((!devices->cpu && devices->count == 1) || c->spread.placing.alone) return ROTA_OK;
    if (home->runs_host_nodes)
        c->partitions.cpu = 0;
    else
        ROTA_TRY(use_part(c, devices->cpu ? devices->cpu : &devices->all[0], &c->partitions.cpu));
    c->spread.several_parts = true;
    c->spread.part_stride = devices->count + 2;
    if (c->spread.part_stride > 32)
        return rota_fail(ROTA_OUT_OF_RANGE, "compile of graph '%s': %u devices, at most 30", c->graph->name,
                         devices->count);
    return ROTA_OK;
}

static rota_node handle_of(const rota_compiler *c, uint32_t node) {
    const uint32_t lane = rota_lane_of_node(c->info, node);
    return (rota_node){c->info->lanes[lane]->lane, node - c->info->lane_first_node[lane]};
}

/* The node that does a merged node's work: what that was merged into may have been merged itself. All on the
 * way are told, so that no way is walked twice. */
static uint32_t merged_at_last(rota_compiler *c, uint32_t node) {
    uint32_t last = node;
    while (c->merged_into[last] != ROTA_NONE) last = c->merged_into[last];
    while (node != last) {
        const uint32_t next = c->merged_into[node];
        c->merged_into[node] = last;
        node = next;
    }
    return last;
}

/* Nodes that run again stand for the same node of the graph, whose operation stays the first. */
static rota_status add_rewritten(rota_compiler *c, const rota_node_record **records) {
    const rota_recomputed *again = &c->recomputed;
    for (uint32_t i = 0; i < c->node_count; i++) {
        for (uint32_t r = again->count ? again->first[i] : 0; again->count && r < again->first[i + 1]; r++) {
            const uint32_t node = again->nodes[r], operation = rota_operation_of(c->info, node);
            ROTA_TRY(add_node(c, again->clones[r], node, handle_of(c, node)));
            ROTA_TRY(set_operation_of(c, node, operation));
        }
        if (records[i])
            ROTA_TRY(add_node(c, records[i], i, handle_of(c, i)));
        else
            ROTA_TRY(set_operation_of(c, i, ROTA_NONE));
    }
    for (uint32_t i = 0; c->merged_into && i < c->node_count; i++)
        if (c->merged_into[i] != ROTA_NONE)
            ROTA_TRY(set_operation_of(c, i, rota_operation_of(c->info, merged_at_last(c, i))));
    return ROTA_OK;
}

/* Asks for what a record to come needs: the physicals of the graph's buffers, and other buffers, by which theirs are
 * found later. Plans of one part: there a physical has its buffer's number. */
static void prefetch_buffers(const rota_compiler *c, const rota_node_record *record) {
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++) {
        const uint64_t stored = rota_access_stored(&accesses[i]);
        const uint32_t buffer =
            stored & 1 ? c->gathering.lane_base[stored >> 32] + ((uint32_t)stored >> 1) : 0;
        const uintptr_t line =
            stored & 1 ? (uintptr_t)&ROTA_PHYSICALS(c)[buffer] : (uintptr_t)ROTA_ACCESS_BUFFER(stored);
        rota_prefetch((const void *)line);
    }
}

/* ... later. */
static void prefetch_persistent(const rota_compiler *c, const rota_node_record *record) {
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++)
        if (!(rota_access_stored(&accesses[i]) & 1))
            rota_compile_prefetch_persistent(c, ROTA_ACCESS_BUFFER(rota_access_stored(&accesses[i])));
}

/* The operations of a lane's nodes, the first of which is number `node`. */
static rota_status add_lane(rota_compiler *c, const rota_recorder *lane, uint32_t node) {
    rota_record_cursor cursor = rota_lane_records(lane), near, far;
    near = far = cursor;
    for (uint32_t i = 0; i < 2 * RECORDS_AHEAD; i++) {
        const rota_node_record *later = rota_record_take(&far);
        if (i < RECORDS_AHEAD) (void)rota_record_take(&near);
        if (later && !c->spread.several_parts) prefetch_buffers(c, later);
    }
    rota_node handle = {lane->lane, 0};
    for (const rota_node_record *record; (record = rota_record_take(&cursor)); node++, handle.index++) {
        const rota_node_record *soon = rota_record_take(&near), *later = rota_record_take(&far);
        if (later && !c->spread.several_parts) prefetch_buffers(c, later);
        if (soon && !c->spread.several_parts) prefetch_persistent(c, soon);
        ROTA_TRY(add_node(c, record, node, handle));
    }
    return ROTA_OK;
}

/* Asks for where the records of a lane to come begin, and for a later lane: each has memory of its own, which short
 * lanes would wait for at their first record. */
static void prefetch_lanes(const rota_compile_info *info, uint32_t lane) {
    if (lane + 2 * LANES_AHEAD < info->lane_count)
        rota_prefetch(&info->lanes[lane + 2 * LANES_AHEAD]->first_chunk);
    if (lane + LANES_AHEAD >= info->lane_count) return;
    const char *records = (const char *)info->lanes[lane + LANES_AHEAD]->first_chunk;
    for (uint32_t i = 0; records && i < LINES_OF_LANE; i++) rota_prefetch(records + (size_t)i * LINE_BYTES);
}

/* Only where the records are. */
static void list_lane(const rota_recorder *lane, const rota_node_record **records) {
    rota_record_cursor cursor = rota_lane_records(lane);
    for (uint32_t i = 0; i < lane->node_count; i++) records[i] = rota_record_take(&cursor);
}

rota_status rota_compile_gather(rota_compiler *c) {
    ROTA_TRY(sort_lanes(c));
    const rota_node_record **records = NULL;
    if (c->graph->hook_count || c->memory.target || c->devices->automatic) {
        records = rota_arena_alloc(&c->scratch, sizeof *records * ((size_t)c->node_count + 1), 8);
        if (!records) return rota_compile_no_memory(c);
        for (uint32_t i = 0; i < c->info->lane_count; i++) {
            prefetch_lanes(c->info, i);
            list_lane(c->info->lanes[i], records + c->info->lane_first_node[i]);
        }
    }
    /* Before rewrites, which look where nodes are. */
    if (c->devices->automatic) ROTA_TRY(rota_compile_placing_choose(c, records));
    ROTA_TRY(choose_parts(c));
    ROTA_TRY(add_graph_buffers(c));
    if (c->spread.several_parts) ROTA_TRY(rota_compile_mark_written(c));
    for (uint32_t i = 0; !records && i < c->info->lane_count; i++) {
        prefetch_lanes(c->info, i);
        ROTA_TRY(add_lane(c, c->info->lanes[i], c->info->lane_first_node[i]));
    }
    if (records) {
        ROTA_TRY(rota_compile_rewrite(c, records));
        if (c->memory.target) ROTA_TRY(rota_compile_recompute(c, records));
        ROTA_TRY(add_rewritten(c, records));
    }
    ROTA_TRY(add_outputs(c));
    rota_compile_end_lives(c);
    rota_compile_free_hash(c);
    return rota_compile_add_workspaces(c);
}
