/* The certificate: buffers that have the same memory, one after the other. */
#include "sched/plan/certify_tenants.h"

#include <stdio.h>

#include "sched/plan/certify_memory.h"
#include "sched/plan/certify_order.h"
#include "sched/plan/certify_parts.h"
#include "sched/plan/certify_ranges.h"
#include "sched/plan/certify_text.h"
#include "sched/plan/names.h"

static uint32_t arena_at(const certifier *c, uint64_t space) {
    const arena_space *arenas = c->memory.arenas.data;
    uint32_t low = 0, high = (uint32_t)c->memory.arenas.count; /* ascending */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (arenas[middle].space <= space)
            low = middle;
        else
            high = middle;
    }
    return high && arenas[low].space == space ? low : ROTA_NONE;
}

/* Gives each piece of an arena a tree over the ends of the buffers in it. */
rota_status rota_certify_make_arenas(certifier *c) {
    const rota_plan *plan = c->plan;
    for (uint32_t p = 0; p < plan->partition_count; p++)
        for (uint32_t m = 0; m < plan->partitions[p].desc.memory_count; m++) {
            const rota_plan_memory *memory = &plan->partitions[p].memories[m];
            if (memory->kind != ROTA_EXEC_BASE_ARENA || memory->foreign_part != ROTA_NONE) continue;
            if (!rota_vector_reserve(&c->memory.arenas, sizeof(arena_space), 1))
                return rota_certify_no_memory(c);
            ((arena_space *)c->memory.arenas.data)[c->memory.arenas.count++] =
                (arena_space){.space = (uint64_t)p << 32 | m};
        }
    arena_space *arenas = c->memory.arenas.data;
    for (uint32_t i = 0; i < c->memory.instances.count; i++) {
        instance *it = &INSTANCES(c)[i];
        if (!it->buffer) continue;
        it->arena = arena_at(c, it->space);
        if (it->arena == ROTA_NONE)
            return rota_certify_wrong(c, "'%s' is in no arena of its own device", name_of(it));
        arenas[it->arena].leaves += 2;
    }
    c->memory.ends = rota_arena_alloc(&c->arena, sizeof(uint64_t) * (2 * c->memory.instances.count + 1), 8);
    if (!c->memory.ends) return rota_certify_no_memory(c);
    uint32_t first = 0;
    for (uint32_t k = 0; k < c->memory.arenas.count; k++) {
        arenas[k].first_end = first;
        first += arenas[k].leaves;
        arenas[k].leaves = 0;
    }
    for (uint32_t i = 0; i < c->memory.instances.count; i++) {
        const instance *it = &INSTANCES(c)[i];
        if (!it->buffer) continue;
        arena_space *arena = &arenas[it->arena];
        c->memory.ends[arena->first_end + arena->leaves++] = it->low;
        c->memory.ends[arena->first_end + arena->leaves++] = it->high;
    }
    uint64_t trees = 0;
    for (uint32_t k = 0; k < c->memory.arenas.count; k++) {
        if (!arenas[k].leaves) continue;
        uint32_t kept = 0;
        ROTA_TRY(
            rota_certify_settle_points(c, c->memory.ends + arenas[k].first_end, arenas[k].leaves, &kept));
        arenas[k].leaves = kept - 1;
        arenas[k].tree = (uint32_t)trees;
        trees += 2ull * arenas[k].leaves;
    }
    c->memory.tenant = rota_arena_calloc(&c->arena, sizeof(uint32_t) * (trees + 1), 8);
    return c->memory.tenant ? ROTA_OK : rota_certify_no_memory(c);
}

static rota_status replace(certifier *c, uint32_t tenant, uint32_t by) {
    instance *it = &INSTANCES(c)[by];
    for (uint32_t link = it->predecessors, looked = 0; link && looked < 4;
         link = LINKS(c)[link].next, looked++)
        if (LINKS(c)[link].operation == tenant) return ROTA_OK;
    INSTANCES(c)[tenant].replaced = true;
    if (!rota_vector_reserve(&c->memory.links, sizeof(op_link), 1)) return rota_certify_no_memory(c);
    LINKS(c)[c->memory.links.count] = (op_link){tenant, it->predecessors};
    it->predecessors = (uint32_t)c->memory.links.count++;
    return ROTA_OK;
}

/* Instance `by` has leaves [first, end) from now on: notes who had them. */
static rota_status take_range(certifier *c, uint32_t *tree, uint32_t low, uint32_t high, uint32_t first,
                              uint32_t end, uint32_t by) {
    const bool all = first <= low && high <= end;
    if (*tree != ROTA_NONE) {
        if (*tree && *tree != by + 1) ROTA_TRY(replace(c, *tree - 1, by));
        if (all) {
            *tree = by + 1;
            return ROTA_OK;
        }
        if (*tree == by + 1) return ROTA_OK;
    }
    if (high - low == 1) return ROTA_OK; /* all of it, so never */
    const uint32_t middle = low + (high - low) / 2;
    uint32_t *left = tree + 1, *right = tree + (size_t)2 * (middle - low);
    if (*tree != ROTA_NONE) *left = *right = *tree;
    *tree = all ? by + 1 : ROTA_NONE;
    if (first < middle) ROTA_TRY(take_range(c, left, low, middle, first, end, by));
    if (end > middle) ROTA_TRY(take_range(c, right, middle, high, first, end, by));
    return ROTA_OK;
}

/* Operation n, a use of the instance, comes after all uses of those that had its memory before, or
 * out_of_order is set. */
static rota_status check_predecessors(certifier *c, uint32_t index, uint32_t n) {
    const instance *it = &INSTANCES(c)[index];
    for (uint32_t link = it->predecessors; link; link = LINKS(c)[link].next) {
        const instance *other = &INSTANCES(c)[LINKS(c)[link].operation];
        range_uses *uses = &c->memory.ranges[other->tree];
        for (uint32_t use = 0; use < USE_KINDS && !c->memory.out_of_order; use++) {
            rota_status status = rota_certify_check_list(c, &(meeting){.list = &uses->whole[use]}, n, "");
            if (status == ROTA_OK)
                status = rota_certify_check_list(c, &(meeting){.list = &uses->part[use]}, n, "");
            if (status == ROTA_OUT_OF_MEMORY) return status;
            c->memory.out_of_order = status != ROTA_OK;
        }
    }
    return ROTA_OK;
}

/* All uses of two buffers that share memory, pair by pair: those of one come first. */
static rota_status check_tenants(certifier *c, uint32_t one, uint32_t two) {
    uint32_t direction = 0;
    for (uint32_t n = 0; n < c->operations; n++) {
        const rota_exec_command *first = command_of(c, n);
        for (uint32_t k = 0; k < first->operand_count; k++) {
            if (c->memory.instance_of[first->first_operand + k] != one) continue;
            for (uint32_t m = 0; m < c->operations; m++) {
                const rota_exec_command *second = command_of(c, m);
                bool uses = false, by_edges;
                for (uint32_t i = 0; i < second->operand_count; i++)
                    uses = uses || c->memory.instance_of[second->first_operand + i] == two;
                if (!uses || n == m) continue;
                const uint32_t found = rota_certify_is_before(c, n, m, &by_edges)   ? 1
                                       : rota_certify_is_before(c, m, n, &by_edges) ? 2
                                                                                    : 3;
                if (found != 3 && (!direction || direction == found)) {
                    direction = found;
                    continue;
                }
                char why[256];
                (void)snprintf(why, sizeof why, "'%s' and '%s' share memory and %s",
                               name_of(&INSTANCES(c)[one]), name_of(&INSTANCES(c)[two]),
                               found == 3 ? "meet" : "take turns");
                return rota_certify_unordered(c, n < m ? n : m, n < m ? m : n, why, by_edges);
            }
        }
    }
    return ROTA_OK;
}

rota_status rota_certify_check_all_tenants(certifier *c) {
    for (uint32_t i = 0; i < c->memory.instances.count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const instance *a = &INSTANCES(c)[i], *b = &INSTANCES(c)[k];
            if (!a->buffer || !b->buffer || a->space != b->space || a->low >= b->high || b->low >= a->high)
                continue;
            c->at_buffer = name_of(a);
            c->at_low = (a->low > b->low ? a->low : b->low) - a->base;
            c->at_high = (a->high < b->high ? a->high : b->high) - a->base;
            ROTA_TRY(check_tenants(c, k, i));
        }
    return ROTA_OK;
}

rota_status rota_certify_use_memory(certifier *c, uint32_t index, uint32_t n) {
    instance *it = &INSTANCES(c)[index];
    if (it->replaced) { /* by one that comes later in record order, and starts before its last use */
        c->memory.out_of_order = true;
        return ROTA_OK;
    }
    if (!it->first_checked) {
        const arena_space *space = (const arena_space *)c->memory.arenas.data + it->arena;
        const uint64_t *ends = c->memory.ends + space->first_end;
        ROTA_TRY(take_range(c, c->memory.tenant + space->tree, 0, space->leaves,
                            rota_certify_leaf_of(ends, space->leaves, it->low),
                            rota_certify_leaf_of(ends, space->leaves + 1, it->high), index));
        it = &INSTANCES(c)[index];
        it->first_checked = n + 1;
        return check_predecessors(c, index, n);
    }
    if (!it->predecessors || it->first_checked == n + 1) return ROTA_OK;
    bool by_edges;
    const uint32_t first = it->first_checked - 1;
    if (rota_certify_is_before(c, first, n, &by_edges)) return ROTA_OK;
    return check_predecessors(c, index, n);
}

/* An operation whose output takes its input's memory: its kernel says that it may. */
rota_status rota_certify_check_inplace(const certifier *c, uint32_t n) {
    const rota_exec_command *command = command_of(c, n);
    const rota_exec_operand *operands =
        c->plan->partitions[part_of(c, n)].desc.operands + command->first_operand;
    for (uint32_t i = 0; i < command->operand_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const uint32_t a = c->memory.instance_of[command->first_operand + i],
                           b = c->memory.instance_of[command->first_operand + k];
            if (a == b || INSTANCES(c)[a].space != INSTANCES(c)[b].space ||
                (operands[i].mode == ROTA_READ && operands[k].mode == ROTA_READ) ||
                operands[i].offset_bytes >= rota_exec_operand_end(&operands[k]) ||
                operands[k].offset_bytes >= rota_exec_operand_end(&operands[i]))
                continue;
            const uint32_t out = operands[i].mode == ROTA_READ ? k : i, in = out == i ? k : i;
            const rota_kernel *kernel =
                command->kind == ROTA_EXEC_COMMAND_KERNEL ? command->u.kernel.kernel : NULL;
            if (operands[in].mode != ROTA_READ || !kernel || !(kernel->inplace_outputs >> out & 1) ||
                !(kernel->inplace_inputs >> in & 1) ||
                operands[in].offset_bytes != operands[out].offset_bytes ||
                operands[in].size_bytes != operands[out].size_bytes)
                return rota_certify_wrong(
                    c, "operands %u and %u of %s share memory, and it does not work in place", k, i,
                    rota_operation_describe(c->plan, n));
        }
    return ROTA_OK;
}
