/* The certificate: an independent look at what compiling made. It shares no code and no intermediate result
 * with the steps that find hazards, pack memory, cut segments and lower: it reads the graph's records and
 * what executors get.
 *
 * An operation's number is its position in record order, which every command carries. Then:
 *   shape    every operation has one command, in one batch of one segment; segments are handed over in an
 * order in which each waits only for earlier ones; the last one is reached after all others. order    what is
 * complete when a segment starts, as how far each queue's timeline is (waits are cumulative along a queue,
 * and so is what a queue's value stands for): exact. Inside a segment by batches: exact. By edges: an edge,
 *            or a bounded vector clock over chains, or else a search backwards: exact.
 *   accesses each command's operands are the record's accesses, each buffer at one offset. Operations are gone
 * through in record order; a buffer that is touched in several ranges has a tree over them, each of whose
 * nodes knows who touched all of it, and who some of it, since it was last overwritten. Each access must come
 * after those that it conflicts with. Where many meet many, each set is proved against an operation at once:
 * by its last commands on each queue, and by a command or join that was found to come after all of it.
 *   tenants  a buffer that first uses memory which others had comes after all uses of those, which end there.
 * Where that is not so each pair is looked at, since the other order is as good. outside  what a segment
 * touches of buffers that outlive the plan is in its externals. bodies  what a body touches is within what its node
 * does, and has a certificate of its own. */
#include "sched/plan/certify.h"

#include <stdlib.h>

#include "sched/plan/certify_bodies.h"
#include "sched/plan/certify_memory.h"
#include "sched/plan/certify_order.h"
#include "sched/plan/certify_parts.h"
#include "sched/plan/certify_ranges.h"
#include "sched/plan/certify_shape.h"
#include "sched/plan/certify_tenants.h"
#include "sched/plan/certify_text.h"
#include "sched/plan/names.h"

/* ---- What outlives the plan ---- */

/* How far one may go from the beginning of each external through those of its segment that have a flag. */
static rota_status read_externals(certifier *c) {
    const rota_plan *plan = c->plan;
    for (int k = 0; k < 2; k++) {
        c->memory.reaches[k] =
            rota_arena_alloc(&c->arena, sizeof(uint64_t) * ((size_t)plan->external_count + 1), 8);
        if (!c->memory.reaches[k]) return rota_certify_no_memory(c);
    }
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const uint32_t first = plan->segments[s].first_external, count = plan->segments[s].external_count;
        if (first > plan->external_count || count > plan->external_count - first)
            return rota_certify_wrong(c, "segment %u has externals beyond the plan's", s);
        for (uint32_t i = first + count; i-- > first;) {
            const rota_plan_external *external = &plan->externals[i], *next = external + 1;
            const uint64_t end = external->offset_bytes + external->size_bytes;
            const bool joins =
                i + 1 < first + count && next->buffer == external->buffer && next->offset_bytes == end;
            for (int k = 0; k < 2; k++) {
                const bool has = external->flags & (k == 0 ? ROTA_EXTERNAL_READ : ROTA_EXTERNAL_WRITE);
                c->memory.reaches[k][i] = !has ? external->offset_bytes
                                          : joins && c->memory.reaches[k][i + 1] > end
                                              ? c->memory.reaches[k][i + 1]
                                              : end;
            }
        }
    }
    return ROTA_OK;
}

/* Each byte is in an external of the segment that has the flag. */
static rota_status check_external(const certifier *c, uint32_t n, uint32_t buffer, uint64_t low,
                                  uint64_t high, uint32_t flag) {
    const rota_plan_segment *segment = &c->plan->segments[c->segment[n]];
    const rota_plan_external *list = c->plan->externals + segment->first_external;
    uint32_t first = 0, end = segment->external_count;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (list[middle].buffer < buffer ||
            (list[middle].buffer == buffer && list[middle].offset_bytes + list[middle].size_bytes <= low))
            first = middle + 1;
        else
            end = middle;
    }
    if (low < high && first < segment->external_count && list[first].buffer == buffer &&
        list[first].offset_bytes <= low) {
        const uint64_t reach =
            c->memory.reaches[flag == ROTA_EXTERNAL_READ ? 0 : 1][segment->first_external + first];
        if (low < reach) low = reach;
    }
    if (low >= high) return ROTA_OK;
    return rota_certify_wrong(c, "%s %s byte %llu of '%s', which its segment does not say",
                              rota_operation_describe(c->plan, n),
                              flag == ROTA_EXTERNAL_READ ? "reads" : "writes", (unsigned long long)low,
                              c->plan->buffers[buffer].buffer->name);
}

/* ---- The pass ---- */

static use_kind use_of(const certifier *c, const rota_exec_command *command, const rota_exec_operand *operand,
                       const instance *it, bool *out_free_order) {
    *out_free_order = false;
    if (operand->mode == ROTA_READ) return USE_READ;
    if (operand->mode != ROTA_ACCUMULATE || command->kind != ROTA_EXEC_COMMAND_KERNEL) return USE_WRITE;
    const uint32_t flags = command->u.kernel.kernel->flags;
    if (!(flags & ROTA_KERNEL_INTEGER_ACCUMULATE) && !c->plan->graph->allow_reassociation) return USE_WRITE;
    /* Nobody promises that two devices' atomics are each other's. */
    *out_free_order = !(flags & ROTA_KERNEL_ATOMIC_ACCUMULATE) || it->part == ROTA_NONE;
    return USE_ADD;
}

/* For messages: what the access at hand is of. */
static void name_access(certifier *c, uint32_t index, const rota_exec_operand *operand) {
    const instance *it = &INSTANCES(c)[index];
    c->at_buffer = it->buffer ? name_of(it) : "host memory";
    if (!it->buffer && (it->space >> 62 & 1))
        c->at_buffer = c->plan->buffers[(uint32_t)it->space].buffer->name;
    const uint32_t part = (uint32_t)(it->space >> 32);
    if (!it->buffer && !(it->space >> 62) &&
        c->plan->partitions[part].memories[(uint32_t)it->space].kind == ROTA_EXEC_BASE_PERSISTENT)
        c->at_buffer =
            c->plan->buffers[c->plan->partitions[part].memories[(uint32_t)it->space].buffer].buffer->name;
    c->at_low = operand->offset_bytes - (it->has_base ? it->base : 0);
    c->at_high = c->at_low + operand->size_bytes;
}

static rota_status check_operand(certifier *c, uint32_t n, const rota_exec_command *command, uint32_t k) {
    const uint32_t part = part_of(c, n), index = c->memory.instance_of[command->first_operand + k];
    const rota_exec_operand *operand = &c->plan->partitions[part].desc.operands[command->first_operand + k];
    const uint64_t low = operand->offset_bytes, high = low + operand->size_bytes;
    name_access(c, index, operand);
    if (INSTANCES(c)[index].buffer) ROTA_TRY(rota_certify_use_memory(c, index, n));
    const instance *it = &INSTANCES(c)[index];
    range_access a = {.n = n, .instance = index, .end = 1};
    a.use = use_of(c, command, operand, it, &a.free_order);
    if (it->leaves > 1) {
        const uint64_t *points = c->memory.points + it->first_point;
        a.first = rota_certify_leaf_of(points, it->leaves, low);
        a.end = rota_certify_leaf_of(points, it->leaves + 1, high);
    }
    if (low < high)
        ROTA_TRY(
            rota_certify_visit_range(c, &c->memory.ranges[it->tree], 0, it->leaves, 0, (between){0, 0}, &a));
    const rota_plan *plan = c->plan;
    uint32_t outside = ROTA_NONE;
    if (operand->is_slot) {
        if (plan->words[operand->memory].kind == ROTA_WORD_BUFFER)
            outside = plan->words[operand->memory].index;
    } else if (plan->partitions[part].memories[operand->memory].kind == ROTA_EXEC_BASE_PERSISTENT) {
        outside = plan->partitions[part].memories[operand->memory].buffer;
    }
    if (outside == ROTA_NONE) return ROTA_OK;
    if (operand->mode != ROTA_WRITE) ROTA_TRY(check_external(c, n, outside, low, high, ROTA_EXTERNAL_READ));
    if (operand->mode != ROTA_READ) ROTA_TRY(check_external(c, n, outside, low, high, ROTA_EXTERNAL_WRITE));
    return ROTA_OK;
}

/* A counted command reads its count, and may leave alone any byte that it may write: none is a WRITE, after which the
 * bytes would count as written. */
static rota_status check_count(const certifier *c, uint32_t n, const rota_exec_command *command,
                               const rota_exec_operand *operands) {
    const rota_operation *operation = &c->info->operations[n];
    const bool should_be = operation->kind == ROTA_OPERATION_NODE && operation->record->is_counted;
    if (command->is_counted != should_be)
        return rota_certify_wrong(c, "%s is %s", rota_operation_describe(c->plan, n),
                                  should_be ? "counted, and its command not"
                                            : "not counted, and its command is");
    if (!should_be) return ROTA_OK;
    const bool is_copy = command->kind == ROTA_EXEC_COMMAND_COPY;
    const uint32_t max = rota_exec_count_max(command), recorded = rota_node_count_max(operation->record);
    if (max != recorded)
        return rota_certify_wrong(c, "%s counts up to %u, and its command up to %u",
                                  rota_operation_describe(c->plan, n), recorded, max);
    if (is_copy && command->u.copy.unit_bytes != operation->record->u.copy.unit_bytes)
        return rota_certify_wrong(c, "%s counts units of %llu bytes, and its command of %llu",
                                  rota_operation_describe(c->plan, n),
                                  (unsigned long long)operation->record->u.copy.unit_bytes,
                                  (unsigned long long)command->u.copy.unit_bytes);
    const rota_exec_operand *count = &operands[command->operand_count - 1];
    if (count->mode != ROTA_READ || count->size_bytes != sizeof(uint32_t))
        return rota_certify_wrong(c, "%s is counted, and its last operand is %s of %llu bytes, not READ of 4",
                                  rota_operation_describe(c->plan, n),
                                  rota_access_mode_name((rota_access_mode)count->mode),
                                  (unsigned long long)count->size_bytes);
    for (uint32_t k = 0; k < command->operand_count; k++)
        if (operands[k].mode == ROTA_WRITE)
            return rota_certify_wrong(c, "%s is counted, and counts as writing all of operand %u",
                                      rota_operation_describe(c->plan, n), k);
    return ROTA_OK;
}

static rota_status check_operations(certifier *c) {
    for (uint32_t n = 0; n < c->operations; n++) {
        const rota_exec_command *command = command_of(c, n);
        const rota_exec_operand *operands =
            c->plan->partitions[part_of(c, n)].desc.operands + command->first_operand;
        ROTA_TRY(check_count(c, n, command, operands));
        remember_predecessors(c, c->node[n]);
        ROTA_TRY(rota_certify_check_inplace(c, n));
        /* Reads before writes: an operation in place reads what was there before it. */
        for (int writes = 0; writes < 2; writes++)
            for (uint32_t k = 0; k < command->operand_count; k++)
                if ((operands[k].mode != ROTA_READ) == (writes != 0))
                    ROTA_TRY(check_operand(c, n, command, k));
    }
    return ROTA_OK;
}

/* The operations of a node, from the first on: its own, or its parts'. */
static uint32_t next_part(const certifier *c, uint32_t n) {
    const rota_operation *operations = c->info->operations;
    if (!operations[n].goes_on) return ROTA_NONE;
    uint32_t next = n + 1;
    while (operations[next].kind != ROTA_OPERATION_NODE || operations[next].node != operations[n].node)
        next++;
    return next;
}

static rota_status check_afters(certifier *c) {
    const rota_compile_info *info = c->info;
    c->at_buffer = "none";
    c->at_low = c->at_high = 0;
    for (uint32_t l = 0; l < info->lane_count; l++)
        for (uint32_t i = 0; i < info->lanes[l]->afters.count; i++) {
            const rota_after after = info->lanes[l]->afters.list[i];
            const uint32_t lane = info->lane_rank[after.earlier.lane - 1];
            const uint32_t later = rota_operation_of(info, info->lane_first_node[l] + after.later.index);
            const uint32_t earlier =
                rota_operation_of(info, info->lane_first_node[lane] + after.earlier.index);
            if (later == ROTA_NONE || earlier == ROTA_NONE) continue;
            for (uint32_t to = later; to != ROTA_NONE; to = next_part(c, to)) {
                remember_predecessors(c, c->node[to]);
                for (uint32_t from = earlier; from != ROTA_NONE; from = next_part(c, from))
                    ROTA_TRY(rota_certify_check_pair(c, from, to, "rota_node_after"));
            }
        }
    return ROTA_OK;
}

static rota_status certify(certifier *c) {
    ROTA_TRY(rota_certify_read_shape(c));
    ROTA_TRY(rota_certify_turn_edges(c));
    ROTA_TRY(rota_certify_sort_nodes(c));
    ROTA_TRY(rota_certify_read_operands(c));
    ROTA_TRY(rota_certify_bodies(c));
    ROTA_TRY(rota_certify_make_trees(c));
    ROTA_TRY(rota_certify_make_arenas(c));
    ROTA_TRY(read_externals(c));
    ROTA_TRY(check_operations(c));
    if (c->memory.out_of_order) ROTA_TRY(rota_certify_check_all_tenants(c));
    return check_afters(c);
}

rota_status rota_plan_certify(const rota_plan *plan) {
    certifier *c = calloc(1, sizeof *c);
    if (!c) return rota_fail(ROTA_OUT_OF_MEMORY, "certificate of plan '%s': no host memory", plan->name);
    c->plan = plan;
    c->info = plan->compile_info;
    rota_status status =
        rota_vector_reserve(&c->memory.links, sizeof(op_link), 64) ? ROTA_OK : rota_certify_no_memory(c);
    if (status == ROTA_OK) {
        c->memory.links.count = 1; /* 0 ends lists */
        status = certify(c);
    }
    rota_vector *const vectors[] = {&c->memory.instances, &c->memory.links, &c->memory.crowds,
                                    &c->memory.arenas};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) rota_vector_free(vectors[i]);
    rota_arena_free(&c->arena);
    free(c);
    return status;
}
