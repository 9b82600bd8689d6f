/* Why a node waits, in sentences. */
#include "base/given.h"
#include "base/text_out.h"
#include "sched/plan/derived.h"
#include "sched/plan/edges.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"

/* The first pair of accesses that makes the edge a hazard. */
static bool find_conflict(const rota_plan *plan, const rota_operation *earlier, const rota_operation *later,
                          rota_edge_kind kind, uint32_t *out_physical, uint64_t *out_low,
                          uint64_t *out_high) {
    const rota_exec_operand *accesses = rota_plan_info(plan)->accesses;
    for (uint32_t i = 0; i < earlier->access_count; i++)
        for (uint32_t k = 0; k < later->access_count; k++) {
            const rota_exec_operand *a = &accesses[earlier->first_access + i],
                                    *b = &accesses[later->first_access + k];
            const uint32_t physical = rota_access_physical(plan, earlier, i);
            if (physical != rota_access_physical(plan, later, k) || physical == ROTA_NONE) continue;
            if (rota_hazard_between((rota_access_mode)a->mode, (rota_access_mode)b->mode) != kind) continue;
            uint64_t low = rota_access_buffer_offset(plan, earlier, i), high = low + a->size_bytes;
            uint64_t low2 = rota_access_buffer_offset(plan, later, k), high2 = low2 + b->size_bytes;
            if (low < low2) low = low2;
            if (high > high2) high = high2;
            if (low >= high) continue;
            *out_physical = physical;
            *out_low = low;
            *out_high = high;
            return true;
        }
    return false;
}

/* The first pair of transients of the two that share memory. */
static bool find_shared_memory(const rota_plan *plan, const rota_operation *earlier,
                               const rota_operation *later, uint32_t *out_old, uint32_t *out_new) {
    const rota_compile_info *info = rota_plan_info(plan);
    for (uint32_t i = 0; i < earlier->access_count; i++)
        for (uint32_t k = 0; k < later->access_count; k++) {
            const uint32_t old = rota_access_physical(plan, earlier, i),
                           new = rota_access_physical(plan, later, k);
            if (old == ROTA_NONE || new == ROTA_NONE) continue;
            const rota_plan_physical *a = &info->physicals[old], *b = &info->physicals[new];
            if (a == b || !a->packed || !b->packed || a->part != b->part) continue;
            if (info->accesses[earlier->first_access + i].memory !=
                info->accesses[later->first_access + k].memory)
                continue; /* another piece */
            if (a->offset_bytes >= b->offset_bytes + rota_physical_bytes(plan, new) ||
                b->offset_bytes >= a->offset_bytes + rota_physical_bytes(plan, old))
                continue;
            *out_old = old;
            *out_new = new;
            return true;
        }
    return false;
}

static void explain_from(rota_text_out *out, const rota_plan *plan, uint32_t operation, uint32_t from,
                         rota_edge_kind kind) {
    const rota_compile_info *info = rota_plan_info(plan);
    const rota_operation *earlier = &info->operations[from], *later = &info->operations[operation];
    rota_text_say(out, "  waits for %s: ", rota_operation_describe(plan, from));
    uint32_t physical, old, new;
    uint64_t low, high;
    if (kind == ROTA_EDGE_AFTER) {
        rota_text_say(out, "rota_node_after");
    } else if (kind == ROTA_EDGE_MEMORY && find_shared_memory(plan, earlier, later, &old, &new)) {
        rota_text_say(out, "buffer '%s' takes memory over from buffer '%s'",
                      plan->buffers[rota_physical_buffer(info, new)].buffer->name,
                      plan->buffers[rota_physical_buffer(info, old)].buffer->name);
    } else if (kind != ROTA_EDGE_MEMORY &&
               find_conflict(plan, earlier, later, kind, &physical, &low, &high)) {
        static const char *const verbs[ROTA_EDGE_KIND_COUNT] = {
            [ROTA_EDGE_RAW] = "it writes what is read here",
            [ROTA_EDGE_WAR] = "it reads what is overwritten here",
            [ROTA_EDGE_WAW] = "it writes what is overwritten here"};
        rota_text_say(out, "%s, %s, buffer '%s' bytes [%llu, %llu)", rota_edge_name(kind), verbs[kind],
                      plan->buffers[rota_physical_buffer(info, physical)].buffer->name,
                      (unsigned long long)low, (unsigned long long)high);
    } else {
        rota_text_say(out, "%s, on behalf of nodes that it comes after itself", rota_edge_name(kind));
    }
    if (earlier->part != later->part)
        rota_text_say(out, " (on another device)");
    else if (earlier->queue != later->queue)
        rota_text_say(out, " (on queue %u)", earlier->queue);
    rota_text_say(out, "\n");
}

/* Of what is joined, the latest by name. */
static void explain_join(rota_text_out *out, const rota_plan *plan, uint32_t operation, uint32_t join,
                         rota_edge_kind kind) {
    enum { NAMED = 4 };
    const rota_compile_info *info = rota_plan_info(plan);
    const rota_join *it = &info->joins[join];
    uint32_t named = 0, inner = ROTA_NONE;
    for (uint32_t i = 0; i < it->count; i++) {
        const uint32_t from = info->join_from[it->first_from + i];
        if (from & ROTA_JOIN)
            inner = from & ~ROTA_JOIN;
        else if (named++ < NAMED)
            explain_from(out, plan, operation, from, kind);
    }
    if (named > NAMED) rota_text_say(out, "  and, joined with those, for %u others\n", named - NAMED);
    if (inner != ROTA_NONE)
        rota_text_say(out, "  and for what join %u stands for, which came before those\n", inner);
}

static void explain_edge(rota_text_out *out, const rota_plan *plan, uint32_t operation, uint32_t edge) {
    const rota_compile_info *info = rota_plan_info(plan);
    const uint32_t from = info->edge_from[edge];
    const rota_edge_kind kind = (rota_edge_kind)info->edge_kind[edge];
    if (from & ROTA_JOIN)
        explain_join(out, plan, operation, from & ~ROTA_JOIN, kind);
    else
        explain_from(out, plan, operation, from, kind);
}

rota_status rota_plan_explain(const rota_plan *plan, rota_node node, char *text, uint64_t capacity,
                              uint64_t *out_length) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN_ARRAY(text, capacity);
    uint32_t operation;
    if (capacity) text[0] = 0;
    ROTA_TRY(rota_plan_operation_of(plan, node, &operation));
    const rota_compile_info *info = rota_plan_info(plan);
    const rota_operation *it = &info->operations[operation];
    rota_text_out out = {text, capacity, 0};
    rota_text_say(&out, "%s: queue %u, segment %u, batch %u\n", rota_operation_describe(plan, operation),
                  it->queue, rota_operation_segment(plan, it), rota_operation_batch(plan, it));
    char count[256];
    if (rota_operation_count_text(plan, operation, count, sizeof count))
        rota_text_say(&out, "  runs as its %s\n", count);
    const uint32_t number = info->lane_first_node[info->lane_rank[node.lane - 1]] + node.index;
    for (const rota_compile_note *note = info->notes; note; note = note->next)
        if (note->node == number) rota_text_say(&out, "  %s\n", note->text);
    for (uint32_t e = info->first_edge[operation]; e < info->first_edge[operation + 1]; e++)
        explain_edge(&out, plan, operation, e);
    if (info->first_edge[operation] == info->first_edge[operation + 1])
        rota_text_say(&out, "  waits for no other node of the plan\n");
    const rota_plan_segment *segment = &plan->segments[rota_operation_segment(plan, it)];
    for (uint32_t i = 0; i < segment->external_count; i++) {
        const rota_plan_external *external = &plan->externals[segment->first_external + i];
        for (uint32_t k = 0; k < it->access_count; k++) {
            const uint32_t physical = rota_access_physical(plan, it, k);
            if (physical != ROTA_NONE && rota_physical_buffer(info, physical) == external->buffer &&
                !info->physicals[physical].is_mirror) {
                rota_text_say(
                    &out,
                    "  its segment waits for earlier submissions that touch buffer '%s' bytes [%llu, %llu)\n",
                    plan->buffers[external->buffer].buffer->name, (unsigned long long)external->offset_bytes,
                    (unsigned long long)(external->offset_bytes + external->size_bytes));
                break;
            }
        }
    }
    if (out_length) *out_length = out.length;
    return ROTA_OK;
}
