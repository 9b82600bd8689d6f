/* Recomputes, command by command, what completes before what in one replay of a plan, from batches or edges
 * and from the waits between segments alone, and checks every pair of conflicting accesses against it.
 * Quadratic, for tests. */
#include "tests/random/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sched/plan/derived.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"

typedef struct reach {
    const rota_plan *plan;
    reach_mode mode;
    const reach_breaks *breaks;
    uint32_t total, words;  /* commands of all parts; words of a set of commands */
    uint64_t *joins;        /* of each join of the segment at hand: as `before` */
    uint32_t *part_first;   /* number of a part's first command */
    uint32_t *operation_of; /* of each command */
    uint64_t *before;       /* of each command: the set of those that complete before it starts */
    uint64_t *start,
        *done; /* of each segment: what completes before it starts, and before its value is reached */
    uint32_t barriers, waits; /* counted so far */
    uint32_t part_edges;      /* edges of the parts before the one at hand */
} reach;

static uint64_t *set_of(reach *r, uint64_t *sets, uint32_t index) {
    return sets + (uint64_t)index * r->words;
}

static void unite(reach *r, uint64_t *into, const uint64_t *from) {
    for (uint32_t w = 0; w < r->words; w++) into[w] |= from[w];
}

static void put(uint64_t *set, uint32_t command) {
    set[command / 64] |= (uint64_t)1 << command % 64;
}

static bool has(const uint64_t *set, uint32_t command) {
    return set[command / 64] >> command % 64 & 1;
}

static void walk_batches(reach *r, const rota_exec_program_desc *desc, const rota_exec_segment *segment,
                         uint32_t first, const uint64_t *start) {
    uint64_t *so_far = malloc(r->words * 8), *batch_end = malloc(r->words * 8);
    if (!so_far || !batch_end) abort();
    memcpy(so_far, start, r->words * 8);
    memcpy(batch_end, start, r->words * 8);
    for (uint32_t b = 0; b < segment->batch_count; b++) {
        if (b > 0 && ++r->barriers != r->breaks->barrier) memcpy(so_far, batch_end, r->words * 8);
        const rota_exec_batch *batch = &desc->batches[segment->first_batch + b];
        for (uint32_t c = batch->first_command; c < batch->first_command + batch->command_count; c++) {
            memcpy(set_of(r, r->before, first + c), so_far, r->words * 8);
            put(batch_end, first + c);
        }
    }
    free(so_far);
    free(batch_end);
}

/* Commands of a segment may stand in any order: those without predecessors left are taken first. Joins are
 * numbered behind the segment's commands here. */
static void walk_edges(reach *r, const rota_exec_program_desc *desc, const rota_exec_segment *segment,
                       uint32_t first, const uint64_t *start) {
    uint32_t base = segment->first_command, commands = segment->command_count,
             count = commands + segment->join_count;
    uint32_t joins = desc->command_count + segment->first_join - commands, ready_count = 0;
    uint32_t *left = malloc((count + 1) * sizeof *left), *ready = malloc((count + 1) * sizeof *ready);
    r->joins = calloc((uint64_t)(segment->join_count + 1) * r->words, 8);
    if (!left || !ready || !r->joins) abort();
    for (uint32_t c = 0; c < count; c++) {
        if (c < commands) memcpy(set_of(r, r->before, first + base + c), start, r->words * 8);
        left[c] = desc->predecessor_count[c < commands ? base + c : joins + c];
        if (left[c] == 0) ready[ready_count++] = c;
    }
    while (ready_count) {
        uint32_t c = ready[--ready_count], node = c < commands ? base + c : joins + c;
        const uint64_t *own =
            c < commands ? set_of(r, r->before, first + node) : set_of(r, r->joins, c - commands);
        for (uint32_t e = desc->first_successor[node]; e < desc->first_successor[node + 1]; e++) {
            uint32_t to = desc->successor[e] < desc->command_count ? desc->successor[e] - base
                                                                   : desc->successor[e] - joins;
            uint64_t *set =
                to < commands ? set_of(r, r->before, first + base + to) : set_of(r, r->joins, to - commands);
            if (r->part_edges + e + 1 != r->breaks->edge) {
                unite(r, set, own);
                if (c < commands) put(set, first + node);
            }
            if (--left[to] == 0) ready[ready_count++] = to;
        }
    }
    free(left);
    free(ready);
    free(r->joins);
}

static uint32_t edge_count(const rota_exec_program_desc *desc) {
    return desc->command_count ? desc->first_successor[desc->command_count + desc->join_count] : 0;
}

static void walk_segments(reach *r) {
    const rota_plan *plan = r->plan;
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        const rota_exec_program_desc *desc = &plan->partitions[segment->part].desc;
        const rota_exec_segment *lowered = &desc->segments[segment->index];
        uint64_t *start = set_of(r, r->start, s), *done = set_of(r, r->done, s);
        for (uint32_t w = 0; w < segment->wait_count; w++)
            if (++r->waits != r->breaks->wait)
                unite(r, start, set_of(r, r->done, plan->segment_waits[segment->first_wait + w]));
        /* Waits hold for all later works of the queue, and a queue's timeline is reached in order. */
        for (uint32_t e = 0; e < s; e++)
            if (plan->segments[e].part == segment->part && plan->segments[e].queue == segment->queue) {
                unite(r, start, set_of(r, r->start, e));
                unite(r, done, set_of(r, r->done, e));
            }
        uint32_t first = r->part_first[segment->part];
        r->part_edges = 0;
        for (uint32_t p = 0; p < segment->part; p++) r->part_edges += edge_count(&plan->partitions[p].desc);
        if (r->mode == REACH_BATCHES)
            walk_batches(r, desc, lowered, first, start);
        else
            walk_edges(r, desc, lowered, first, start);
        unite(r, done, start);
        for (uint32_t c = 0; c < lowered->command_count; c++) put(done, first + lowered->first_command + c);
    }
}

/* ---- Accesses ---- */

typedef struct reach_access {
    uint64_t memory; /* part and memory, or part and slot word */
    uint64_t low, high;
    uint32_t command, operation, physical, part, number;
    uint8_t mode;
    uint8_t kernel_flags;
    const rota_kernel *kernel;
} reach_access;

static uint64_t memory_of(const rota_plan *plan, uint32_t part, const rota_exec_operand *operand) {
    uint32_t memory = operand->memory;
    if (operand->is_slot &&
        plan->words[memory].kind == ROTA_WORD_BUFFER) /* one memory for parts that share it */
        return (uint64_t)3 << 62 | (uint64_t)plan->partitions[part].memory_partition << 32 |
               plan->words[memory].index;
    if (operand->is_slot) return (uint64_t)1 << 63 | (uint64_t)part << 32 | memory;
    const rota_plan_memory *entry = &plan->partitions[part].memories[memory];
    if (entry->foreign_part != ROTA_NONE) return (uint64_t)entry->foreign_part << 32 | entry->foreign_memory;
    return (uint64_t)part << 32 | memory;
}

static int by_memory(const void *a, const void *b) {
    const reach_access *x = a, *y = b;
    if (x->memory != y->memory) return x->memory < y->memory ? -1 : 1;
    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    return x->command < y->command ? -1 : x->command > y->command;
}

static reach_access *collect(reach *r, uint32_t *out_count) {
    const rota_plan *plan = r->plan;
    const rota_compile_info *info = plan->compile_info;
    uint32_t count = 0, capacity = 0;
    for (uint32_t p = 0; p < plan->partition_count; p++) capacity += plan->partitions[p].desc.operand_count;
    reach_access *list = calloc(capacity + 1u, sizeof *list);
    if (!list) abort();
    for (uint32_t o = 0; o < info->operation_count; o++) {
        const rota_operation *operation = &info->operations[o];
        const rota_exec_program_desc *desc = &plan->partitions[operation->part].desc;
        const rota_exec_command *command = &desc->commands[operation->command];
        r->operation_of[r->part_first[operation->part] + operation->command] = o;
        for (uint32_t k = 0; k < command->operand_count && count < capacity; k++) {
            const rota_exec_operand *operand = &desc->operands[command->first_operand + k];
            list[count++] = (reach_access){
                .memory = memory_of(plan, operation->part, operand),
                .low = operand->offset_bytes,
                .high = rota_exec_operand_end(operand),
                .command = r->part_first[operation->part] + operation->command,
                .operation = o,
                .physical = rota_access_physical(plan, operation, k),
                .part = operation->part,
                .number = k,
                .kernel = command->kind == ROTA_EXEC_COMMAND_KERNEL ? command->u.kernel.kernel : NULL,
                .mode = operand->mode,
                .kernel_flags =
                    command->kind == ROTA_EXEC_COMMAND_KERNEL ? (uint8_t)command->u.kernel.kernel->flags : 0,
            };
        }
    }
    qsort(list, count, sizeof *list, by_memory);
    *out_count = count;
    return list;
}

/* Nobody promises that the atomics of two devices are each other's. */
static bool may_meet(const reach_access *a, const reach_access *b) {
    if (a->mode == ROTA_READ && b->mode == ROTA_READ) return true;
    uint32_t both = a->kernel_flags & b->kernel_flags;
    return a->part == b->part && a->mode == ROTA_ACCUMULATE && b->mode == ROTA_ACCUMULATE &&
           (both & ROTA_KERNEL_ATOMIC_ACCUMULATE) && (both & ROTA_KERNEL_INTEGER_ACCUMULATE);
}

/* Integer accumulates that are not atomic must not meet, but their order is free. */
static bool order_is_free(const reach_access *a, const reach_access *b) {
    uint32_t both = a->kernel_flags & b->kernel_flags;
    return a->mode == ROTA_ACCUMULATE && b->mode == ROTA_ACCUMULATE &&
           (both & ROTA_KERNEL_INTEGER_ACCUMULATE);
}

static bool complain(char *message, uint32_t capacity, const reach *r, const reach_access *a,
                     const reach_access *b, const char *what) {
    snprintf(message, capacity, "%s order: operations %u (%s, [%llu, %llu)) and %u (%s, [%llu, %llu)): %s",
             r->mode == REACH_BATCHES ? "batch" : "edge", a->operation, rota_access_mode_name(a->mode),
             (unsigned long long)a->low, (unsigned long long)a->high, b->operation,
             rota_access_mode_name(b->mode), (unsigned long long)b->low, (unsigned long long)b->high, what);
    return false;
}

/* The operands of one command that works in place: the same bytes, and its kernel says that it may. */
static bool works_in_place(const reach_access *a, const reach_access *b) {
    const reach_access *out = a->mode == ROTA_READ ? b : a, *in = out == a ? b : a;
    if (out->mode == ROTA_READ || out->low >= in->high || in->low >= out->high)
        return true; /* they don't meet */
    return in->mode == ROTA_READ && in->low == out->low && in->high == out->high && out->kernel &&
           (out->kernel->inplace_outputs >> out->number & 1) &&
           (out->kernel->inplace_inputs >> in->number & 1);
}

/* Two physical buffers that share memory: every use of one before every use of the other. `directions` holds,
 * per pair, 1 if the lower-numbered physical comes first, 2 if last. */
static bool check_tenants(reach *r, uint8_t *directions, uint32_t physicals, const reach_access *a,
                          const reach_access *b, char *message, uint32_t capacity) {
    if (a->command == b->command) /* in-place take-over: the reads of one node before its writes */
        return works_in_place(a, b) || complain(message, capacity, r, a, b, "it does not work in place");
    bool ab = has(set_of(r, r->before, b->command), a->command),
         ba = has(set_of(r, r->before, a->command), b->command);
    if (!ab && !ba) return complain(message, capacity, r, a, b, "tenants of one memory meet");
    if (a->physical > b->physical) {
        const reach_access *swap = a;
        a = b;
        b = swap;
        ab = ba;
    }
    uint8_t *known = &directions[(uint64_t)a->physical * physicals + b->physical], direction = ab ? 1 : 2;
    if (*known == 0) *known = direction;
    return *known == direction ||
           complain(message, capacity, r, a, b, "two tenants of one memory take turns");
}

/* The bytes of memory that each physical buffer covers, as far as it is used. */
static bool check_pairs(reach *r, const reach_access *list, uint32_t count, char *message,
                        uint32_t capacity) {
    const rota_compile_info *info = r->plan->compile_info;
    uint32_t physicals = info->physical_count;
    uint8_t *directions = calloc((uint64_t)physicals * physicals + 1, 1);
    uint64_t *low = malloc((physicals + 1u) * 8), *high = calloc(physicals + 1u, 8);
    if (!directions || !low || !high) abort();
    memset(low, 0xff, (physicals + 1u) * 8);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].physical >= physicals) continue;
        if (list[i].low < low[list[i].physical]) low[list[i].physical] = list[i].low;
        if (list[i].high > high[list[i].physical]) high[list[i].physical] = list[i].high;
    }
    bool good = true;
    for (uint32_t i = 0; i < count && good; i++)
        for (uint32_t j = i + 1; j < count && good && list[j].memory == list[i].memory; j++) {
            const reach_access *a = &list[i], *b = &list[j];
            if (a->physical != b->physical && a->physical < physicals && b->physical < physicals &&
                low[a->physical] < high[b->physical] && low[b->physical] < high[a->physical]) {
                good = check_tenants(r, directions, physicals, a, b, message, capacity);
                continue;
            }
            if (a->high <= b->low || b->high <= a->low || a->operation == b->operation || may_meet(a, b))
                continue;
            const reach_access *first = a->operation < b->operation ? a : b, *then = first == a ? b : a;
            bool ordered = has(set_of(r, r->before, then->command), first->command);
            if (!ordered && order_is_free(a, b))
                ordered = has(set_of(r, r->before, first->command), then->command);
            if (!ordered) good = complain(message, capacity, r, first, then, "they are not ordered");
        }
    free(directions);
    free(low);
    free(high);
    return good;
}

/* rota_node_after: all parts of one node before all of the other. */
static bool check_afters(reach *r, char *message, uint32_t capacity) {
    const rota_compile_info *info = r->plan->compile_info;
    for (uint32_t l = 0; l < info->lane_count; l++)
        for (uint32_t i = 0; i < info->lanes[l]->afters.count; i++) {
            rota_after after = info->lanes[l]->afters.list[i];
            uint32_t lane = info->lane_rank[after.earlier.lane - 1];
            uint32_t later = info->lane_first_node[l] + after.later.index;
            uint32_t earlier = info->lane_first_node[lane] + after.earlier.index;
            for (uint32_t a = 0; a < info->operation_count; a++)
                for (uint32_t b = a + 1; b < info->operation_count; b++) {
                    const rota_operation *first = &info->operations[a], *then = &info->operations[b];
                    if (first->kind != ROTA_OPERATION_NODE || then->kind != ROTA_OPERATION_NODE ||
                        first->node != earlier || then->node != later)
                        continue;
                    if (has(set_of(r, r->before, r->part_first[then->part] + then->command),
                            r->part_first[first->part] + first->command))
                        continue;
                    snprintf(message, capacity, "operation %u is to come after %u", b, a);
                    return false;
                }
        }
    return true;
}

bool reach_check(const rota_plan *plan, reach_mode mode, const reach_breaks *breaks, char *message,
                 uint32_t capacity) {
    static const reach_breaks none;
    reach r = {.plan = plan, .mode = mode, .breaks = breaks ? breaks : &none};
    r.part_first = calloc(plan->partition_count + 1u, sizeof *r.part_first);
    if (!r.part_first) abort();
    for (uint32_t p = 0; p < plan->partition_count; p++)
        r.part_first[p + 1] = r.part_first[p] + plan->partitions[p].desc.command_count;
    r.total = r.part_first[plan->partition_count];
    r.words = r.total / 64 + 1;
    r.before = calloc((uint64_t)(r.total + 1) * r.words, 8);
    r.start = calloc((uint64_t)(plan->segment_count + 1) * r.words, 8);
    r.done = calloc((uint64_t)(plan->segment_count + 1) * r.words, 8);
    r.operation_of = calloc(r.total + 1u, sizeof *r.operation_of);
    if (!r.before || !r.start || !r.done || !r.operation_of) abort();
    walk_segments(&r);
    uint32_t count = 0;
    reach_access *list = collect(&r, &count);
    bool good = check_pairs(&r, list, count, message, capacity) && check_afters(&r, message, capacity);
    if (good && plan->segment_count) {
        /* The ticket's point must cover everything. */
        const uint64_t *all = set_of(&r, r.done, plan->final_segment);
        for (uint32_t c = 0; c < r.total && good; c++)
            if (!has(all, c)) {
                snprintf(message, capacity, "the final segment does not wait for operation %u",
                         r.operation_of[c]);
                good = false;
            }
    }
    free(list);
    free(r.part_first);
    free(r.before);
    free(r.start);
    free(r.done);
    free(r.operation_of);
    return good;
}

reach_breaks reach_counts(const rota_plan *plan) {
    reach_breaks counts = {0};
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        const rota_exec_program_desc *desc = &plan->partitions[segment->part].desc;
        const rota_exec_segment *lowered = &desc->segments[segment->index];
        counts.wait += segment->wait_count;
        if (lowered->batch_count) counts.barrier += lowered->batch_count - 1;
    }
    for (uint32_t p = 0; p < plan->partition_count; p++) counts.edge += edge_count(&plan->partitions[p].desc);
    return counts;
}
