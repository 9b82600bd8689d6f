/* Memory in a trace: a counter of each arena's bytes in use. */
#include "sched/runtime/plans/trace_memory.h"

#include <stdlib.h>

#include "sched/plan/derived.h"

/* When a physical's memory begins or ends to be its own. */
typedef struct change {
    uint64_t ns, bytes;
    uint32_t part;
    bool ends;
} change;

static int compare_changes(const void *a, const void *b) {
    const change *one = a, *other = b;
    if (one->part != other->part) return one->part < other->part ? -1 : 1;
    if (one->ns != other->ns) return one->ns < other->ns ? -1 : 1;
    /* What follows a buffer in its memory may begin when that ends. */
    return (int)other->ends - (int)one->ends;
}

/* From the first operation in time to the last: operations of several queues may not end in record order. */
static void find_lives(const rota_trace *trace, rota_exec_time *lives) {
    const rota_compile_info *info = rota_plan_info(trace->plan);
    for (uint32_t n = 0; n < info->operation_count; n++) {
        const rota_operation *it = &info->operations[n];
        const rota_exec_time *time = rota_trace_time(trace, n);
        for (uint32_t i = 0; i < it->access_count && time->end_ns; i++) {
            const uint32_t physical = rota_access_physical(trace->plan, it, i);
            if (physical == ROTA_NONE) continue;
            rota_exec_time *life = &lives[physical];
            if (!life->end_ns || time->begin_ns < life->begin_ns) life->begin_ns = time->begin_ns;
            if (time->end_ns > life->end_ns) life->end_ns = time->end_ns;
        }
    }
}

/* The physical whose memory that of an access reuses in place, in the operation that touches it first. */
static uint32_t inplace_source(const rota_plan *plan, const rota_operation *it, uint32_t access) {
    const rota_compile_info *info = rota_plan_info(plan);
    const rota_exec_operand *operands = info->accesses + it->first_access;
    const uint32_t to = rota_access_physical(plan, it, access);
    for (uint32_t i = 0; i < it->access_count; i++) {
        const uint32_t from = rota_access_physical(plan, it, i);
        if (from != ROTA_NONE && from != to && info->physicals[from].handed_on &&
            info->physicals[from].offset_bytes == info->physicals[to].offset_bytes &&
            operands[i].memory == operands[access].memory)
            return from;
    }
    return ROTA_NONE;
}

/* By physical: the one whose memory it took over, plus 1; 0: none. */
static void find_inplace(const rota_plan *plan, uint32_t *inplace_of) {
    const rota_compile_info *info = rota_plan_info(plan);
    for (uint32_t n = 0; n < info->operation_count; n++) {
        const rota_operation *it = &info->operations[n];
        for (uint32_t i = 0; i < it->access_count; i++) {
            const uint32_t to = rota_access_physical(plan, it, i);
            if (to != ROTA_NONE && info->physicals[to].is_inplace && !inplace_of[to])
                inplace_of[to] = inplace_source(plan, it, i) + 1;
        }
    }
}

static uint32_t find_changes(const rota_plan *plan, const rota_exec_time *lives, const uint32_t *inplace_of,
                             change *out) {
    const rota_compile_info *info = rota_plan_info(plan);
    uint32_t count = 0;
    for (uint32_t p = 0; p < info->physical_count; p++) {
        const rota_plan_physical *physical = &info->physicals[p];
        uint64_t begin_ns = lives[p].begin_ns;
        if (!physical->packed || !lives[p].end_ns) continue;
        const uint64_t bytes = rota_physical_bytes(plan, p);
        /* Memory that it took over in an operation is the other's until that is over. */
        if (inplace_of[p] && lives[inplace_of[p] - 1].end_ns > begin_ns)
            begin_ns = lives[inplace_of[p] - 1].end_ns;
        if (begin_ns > lives[p].end_ns) begin_ns = lives[p].end_ns;
        out[count++] = (change){begin_ns, bytes, physical->part, false};
        out[count++] = (change){lives[p].end_ns, bytes, physical->part, true};
    }
    return count;
}

rota_status rota_trace_write_memory(rota_trace *trace) {
    const rota_compile_info *info = rota_plan_info(trace->plan);
    const size_t room = (size_t)info->physical_count + 1;
    rota_exec_time *lives = rota_arena_calloc(&trace->arena, room * sizeof *lives, 8);
    change *changes = rota_arena_alloc(&trace->arena, 2 * room * sizeof *changes, 8);
    uint32_t *inplace_of = rota_arena_calloc(&trace->arena, room * sizeof *inplace_of, 8);
    if (!lives || !changes || !inplace_of)
        return rota_fail(ROTA_OUT_OF_MEMORY, "trace of plan '%s': no host memory", trace->plan->name);
    find_lives(trace, lives);
    find_inplace(trace->plan, inplace_of);
    const uint32_t count = find_changes(trace->plan, lives, inplace_of, changes);
    if (count > 1) qsort(changes, count, sizeof *changes, compare_changes);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes = changes[i].ends ? bytes - changes[i].bytes : bytes + changes[i].bytes;
        if (i + 1 < count && changes[i + 1].part == changes[i].part && changes[i + 1].ns == changes[i].ns)
            continue;
        fprintf(
            trace->file,
            "{\"ph\":\"C\",\"name\":\"arena in use\",\"pid\":%u,\"ts\":%.3f,\"args\":{\"bytes\":%llu}},\n",
            rota_trace_process(changes[i].part), rota_trace_us(trace, changes[i].ns),
            (unsigned long long)bytes);
    }
    return ROTA_OK;
}
