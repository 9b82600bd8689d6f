/* The certificate: operations, commands, batches and segments, and the order that edges and waits make. */
#include "sched/plan/certify_shape.h"

#include <stdlib.h>
#include <string.h>

#include "sched/plan/certify_parts.h"
#include "sched/plan/certify_text.h"
#include "sched/plan/names.h"

static rota_status number_timelines(certifier *c) {
    const rota_plan *plan = c->plan;
    memset(c->order.timeline_of_queue, 0xff, sizeof c->order.timeline_of_queue);
    c->order.timeline = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (plan->segment_count + 1u), 8);
    if (!c->order.timeline) return rota_certify_no_memory(c);
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        if (segment->part >= plan->partition_count || segment->queue >= ROTA_EXEC_QUEUES_MAX)
            return rota_certify_wrong(c, "segment %u is on queue %u of device %u", s, segment->queue,
                                      segment->part);
        uint32_t *timeline = &c->order.timeline_of_queue[segment->part][segment->queue];
        if (*timeline == ROTA_NONE) *timeline = c->order.timelines++;
        c->order.timeline[s] = *timeline;
    }
    return ROTA_OK;
}

/* Commands of a segment: batch after batch, each operation once. */
static rota_status read_segment(certifier *c, uint32_t s) {
    const rota_plan_segment *segment = &c->plan->segments[s];
    const rota_exec_program_desc *desc = &c->plan->partitions[segment->part].desc;
    if (segment->index >= desc->segment_count)
        return rota_certify_wrong(c, "segment %u has no part %u", s, segment->index);
    const rota_exec_segment *lowered = &desc->segments[segment->index];
    if (lowered->queue != segment->queue)
        return rota_certify_wrong(c, "segment %u is on queue %u and runs on queue %u", s, segment->queue,
                                  lowered->queue);
    uint32_t next = lowered->first_command;
    for (uint32_t b = 0; b < lowered->batch_count; b++) {
        if (lowered->first_batch + b >= desc->batch_count)
            return rota_certify_wrong(c, "segment %u has no batch %u", s, b);
        const rota_exec_batch *batch = &desc->batches[lowered->first_batch + b];
        if (batch->first_command != next || batch->command_count > desc->command_count - next)
            return rota_certify_wrong(c, "batch %u of segment %u is out of place", b, s);
        for (uint32_t i = 0; i < batch->command_count; i++, next++) {
            const uint32_t n = desc->commands[next].node, node = c->nodes.part_first[segment->part] + next;
            if (n >= c->operations || c->node[n] != ROTA_NONE)
                return rota_certify_wrong(c, "command %u of device %u is of operation %u, %s", next,
                                          segment->part, n,
                                          n >= c->operations ? "which there isn't" : "which has one already");
            c->node[n] = node;
            c->segment[n] = s;
            c->batch[n] = b;
            c->nodes.segment[node] = s;
        }
    }
    if (next != lowered->first_command + lowered->command_count)
        return rota_certify_wrong(c, "the batches of segment %u are not its commands", s);
    if (lowered->first_join > desc->join_count ||
        lowered->join_count > desc->join_count - lowered->first_join)
        return rota_certify_wrong(c, "segment %u has joins beyond the program's", s);
    for (uint32_t j = 0; j < lowered->join_count; j++)
        c->nodes.segment[c->nodes.part_first[segment->part] + desc->command_count + lowered->first_join + j] =
            s;
    return ROTA_OK;
}

/* What is complete when each segment starts. */
static rota_status read_waits(certifier *c) {
    const rota_plan *plan = c->plan;
    uint32_t *last = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (c->order.timelines + 1u), 8);
    c->order.start = rota_arena_calloc(
        &c->arena, sizeof(uint32_t) * ((size_t)plan->segment_count * c->order.timelines + 1), 8);
    if (!last || !c->order.start) return rota_certify_no_memory(c);
    for (uint32_t t = 0; t < c->order.timelines; t++) last[t] = ROTA_NONE;
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        uint32_t t = c->order.timeline[s], *start = c->order.start + (size_t)s * c->order.timelines;
        const uint32_t before = last[t] == ROTA_NONE ? 0 : plan->segments[last[t]].ordinal;
        if (segment->ordinal != before + 1)
            return rota_certify_wrong(c, "segment %u signals value %u of its queue, after %u", s,
                                      segment->ordinal, before);
        if (last[t] != ROTA_NONE)
            memcpy(start, c->order.start + (size_t)last[t] * c->order.timelines,
                   sizeof *start * c->order.timelines);
        for (uint32_t w = 0; w < segment->wait_count; w++) {
            const uint32_t waited = plan->segment_waits[segment->first_wait + w];
            if (waited >= s)
                return rota_certify_wrong(c, "segment %u waits for segment %u, which is handed over after it",
                                          s, waited);
            const uint32_t *from = c->order.start + (size_t)waited * c->order.timelines;
            for (uint32_t k = 0; k < c->order.timelines; k++)
                if (start[k] < from[k]) start[k] = from[k];
            uint32_t *own = &start[c->order.timeline[waited]];
            if (*own < plan->segments[waited].ordinal) *own = plan->segments[waited].ordinal;
        }
        last[t] = s;
    }
    if (plan->segment_count == 0) return ROTA_OK;
    if (plan->final_segment >= plan->segment_count)
        return rota_certify_wrong(c, "there is no final segment %u", plan->final_segment);
    const uint32_t *end = c->order.start + (size_t)plan->final_segment * c->order.timelines;
    for (uint32_t t = 0; t < c->order.timelines; t++)
        if (end[t] < plan->segments[last[t]].ordinal && last[t] != plan->final_segment)
            return rota_certify_wrong(
                c, "a replay is over, and its instance used again, with segment %u, before segment %u is",
                plan->final_segment, last[t]);
    for (uint32_t p = 0; p < plan->partition_count; p++)
        for (uint32_t q = 0; q < ROTA_EXEC_QUEUES_MAX; q++) {
            const uint32_t t = c->order.timeline_of_queue[p][q];
            const uint32_t values = t == ROTA_NONE ? 0 : plan->segments[last[t]].ordinal;
            if (plan->partitions[p].values_per_queue[q] != values)
                return rota_certify_wrong(
                    c, "a replay moves queue %u of device %u by %u, and its segments by %u", q, p,
                    plan->partitions[p].values_per_queue[q], values);
        }
    return ROTA_OK;
}

rota_status rota_certify_read_shape(certifier *c) {
    const rota_plan *plan = c->plan;
    c->nodes.part_first = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (plan->partition_count + 1u), 8);
    if (!c->nodes.part_first) return rota_certify_no_memory(c);
    uint64_t nodes = 0, commands = 0;
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        c->nodes.part_first[p] = (uint32_t)nodes;
        commands += plan->partitions[p].desc.command_count;
        nodes += (uint64_t)plan->partitions[p].desc.command_count + plan->partitions[p].desc.join_count;
    }
    c->nodes.part_first[plan->partition_count] = c->nodes.count = (uint32_t)nodes;
    c->operations = c->info->operation_count;
    if (nodes > UINT32_MAX / 2 || commands != c->operations)
        return rota_certify_wrong(c, "it has %llu commands for %u operations", (unsigned long long)commands,
                                  c->operations);
    c->node = rota_arena_alloc(&c->arena, sizeof(uint32_t) * ((size_t)c->operations + 1), 8);
    c->segment = rota_arena_alloc(&c->arena, sizeof(uint32_t) * ((size_t)c->operations + 1), 8);
    c->batch = rota_arena_alloc(&c->arena, sizeof(uint32_t) * ((size_t)c->operations + 1), 8);
    c->nodes.segment = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (nodes + 1), 8);
    if (!c->node || !c->segment || !c->batch || !c->nodes.segment) return rota_certify_no_memory(c);
    memset(c->node, 0xff, sizeof(uint32_t) * c->operations);
    memset(c->nodes.segment, 0xff, sizeof(uint32_t) * nodes);
    ROTA_TRY(number_timelines(c));
    for (uint32_t s = 0; s < plan->segment_count; s++) ROTA_TRY(read_segment(c, s));
    for (uint32_t n = 0; n < c->operations; n++)
        if (c->node[n] == ROTA_NONE)
            return rota_certify_wrong(c, "no segment runs %s", rota_operation_describe(plan, n));
    return read_waits(c);
}

/* ---- Edges ---- */

/* Turns the edges round, and sees that they stay in their segments and that executors wait for as many as
 * there are. */
rota_status rota_certify_turn_edges(certifier *c) {
    const rota_plan *plan = c->plan;
    uint64_t edges = 0;
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        const rota_exec_program_desc *desc = &plan->partitions[p].desc;
        if (desc->command_count) edges += desc->first_successor[desc->command_count + desc->join_count];
    }
    c->nodes.first_predecessor =
        rota_arena_calloc(&c->arena, sizeof(uint32_t) * ((size_t)c->nodes.count + 2), 8);
    c->nodes.predecessor = rota_arena_alloc(&c->arena, sizeof(uint32_t) * (edges + 1), 8);
    if (!c->nodes.first_predecessor || !c->nodes.predecessor) return rota_certify_no_memory(c);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t p = 0; p < plan->partition_count; p++) {
            const rota_exec_program_desc *desc = &plan->partitions[p].desc;
            const uint32_t base = c->nodes.part_first[p], nodes = desc->command_count + desc->join_count;
            for (uint32_t i = 0; i < nodes; i++)
                for (uint32_t e = desc->first_successor[i]; e < desc->first_successor[i + 1]; e++) {
                    const uint32_t to = desc->successor[e];
                    if (to >= nodes || c->nodes.segment[base + to] != c->nodes.segment[base + i])
                        return rota_certify_wrong(
                            c, "an edge of device %u from command %u to %u leaves its segment", p, i, to);
                    if (pass == 0)
                        c->nodes.first_predecessor[base + to + 2]++;
                    else
                        c->nodes.predecessor[c->nodes.first_predecessor[base + to + 1]++] = base + i;
                }
            for (uint32_t i = 0; pass == 0 && i < nodes; i++)
                if (desc->predecessor_count[i] != c->nodes.first_predecessor[base + i + 2])
                    return rota_certify_wrong(
                        c, "command %u of device %u waits for %u others and has edges from %u", i, p,
                        desc->predecessor_count[i], c->nodes.first_predecessor[base + i + 2]);
        }
        for (uint32_t i = 2; pass == 0 && i <= c->nodes.count; i++)
            c->nodes.first_predecessor[i] += c->nodes.first_predecessor[i - 1];
    }
    return ROTA_OK;
}

static void clock_note(chain_clock *clock, uint32_t chain, uint32_t latest) {
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < clock->count; i++) {
        if (clock->chain[i] == chain) {
            if (clock->latest[i] < latest) clock->latest[i] = latest;
            return;
        }
        if (clock->latest[i] < clock->latest[oldest]) oldest = i;
    }
    if (clock->count < CLOCK_ENTRIES) {
        oldest = clock->count++;
    } else if (clock->latest[oldest] > latest) {
        return;
    }
    clock->chain[oldest] = chain;
    clock->latest[oldest] = latest;
}

/* Topological order, chains and clocks. */
rota_status rota_certify_sort_nodes(certifier *c) {
    const size_t bytes = sizeof(uint32_t) * ((size_t)c->nodes.count + 1);
    uint32_t *left = rota_arena_alloc(&c->arena, bytes, 8), *queue = rota_arena_alloc(&c->arena, bytes, 8);
    uint32_t *tail = rota_arena_alloc(&c->arena, bytes, 8);
    c->nodes.position = rota_arena_alloc(&c->arena, bytes, 8);
    c->nodes.chain = rota_arena_alloc(&c->arena, bytes, 8);
    c->nodes.is_before = rota_arena_calloc(&c->arena, bytes, 8);
    c->nodes.visited = rota_arena_calloc(&c->arena, bytes, 8);
    c->nodes.clock = rota_arena_alloc(&c->arena, sizeof *c->nodes.clock * ((size_t)c->nodes.count + 1), 8);
    if (!left || !queue || !tail || !c->nodes.position || !c->nodes.chain || !c->nodes.is_before ||
        !c->nodes.visited || !c->nodes.clock)
        return rota_certify_no_memory(c);
    uint32_t count = 0, chains = 0;
    for (uint32_t i = 0; i < c->nodes.count; i++) {
        left[i] = c->nodes.first_predecessor[i + 1] - c->nodes.first_predecessor[i];
        if (left[i] == 0) queue[count++] = i;
    }
    for (uint32_t position = 0; position < count; position++) {
        const uint32_t node = queue[position];
        chain_clock *clock = &c->nodes.clock[node];
        clock->count = 0;
        c->nodes.position[node] = position;
        c->nodes.chain[node] = ROTA_NONE;
        for (uint32_t e = c->nodes.first_predecessor[node]; e < c->nodes.first_predecessor[node + 1]; e++) {
            const uint32_t before = c->nodes.predecessor[e];
            if (c->nodes.chain[node] == ROTA_NONE && tail[c->nodes.chain[before]] == before)
                c->nodes.chain[node] = c->nodes.chain[before];
        }
        if (c->nodes.chain[node] == ROTA_NONE) c->nodes.chain[node] = chains++;
        tail[c->nodes.chain[node]] = node;
        for (uint32_t e = c->nodes.first_predecessor[node]; e < c->nodes.first_predecessor[node + 1]; e++) {
            const uint32_t before = c->nodes.predecessor[e];
            const chain_clock *other = &c->nodes.clock[before];
            for (uint32_t i = 0; i < other->count; i++)
                if (other->chain[i] != c->nodes.chain[node])
                    clock_note(clock, other->chain[i], other->latest[i]);
            if (c->nodes.chain[before] != c->nodes.chain[node])
                clock_note(clock, c->nodes.chain[before], c->nodes.position[before]);
        }
        uint32_t part = 0;
        while (node >= c->nodes.part_first[part + 1]) part++;
        const rota_exec_program_desc *desc = &c->plan->partitions[part].desc;
        const uint32_t inner = node - c->nodes.part_first[part];
        for (uint32_t e = desc->first_successor[inner]; e < desc->first_successor[inner + 1]; e++)
            if (--left[c->nodes.part_first[part] + desc->successor[e]] == 0)
                queue[count++] = c->nodes.part_first[part] + desc->successor[e];
    }
    if (count != c->nodes.count)
        return rota_certify_wrong(c, "%u of its commands wait for one another", c->nodes.count - count);
    c->nodes.stack = left; /* done with */
    return ROTA_OK;
}
