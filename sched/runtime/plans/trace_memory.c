/* Memory in a trace: a counter of each arena's bytes in use. */
#include "sched/runtime/plans/trace_memory.h"

#include <stdlib.h>

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
        for (uint32_t i = it->first_access; i < it->first_access + it->access_count && time->end_ns; i++) {
            if (info->access_physical[i] == ROTA_NONE) continue;
            rota_exec_time *life = &lives[info->access_physical[i]];
            if (!life->end_ns || time->begin_ns < life->begin_ns) life->begin_ns = time->begin_ns;
            if (time->end_ns > life->end_ns) life->end_ns = time->end_ns;
        }
    }
}

static uint32_t find_changes(const rota_plan *plan, const rota_exec_time *lives, change *out) {
    const rota_compile_info *info = rota_plan_info(plan);
    uint32_t count = 0;
    for (uint32_t p = 0; p < info->physical_count; p++) {
        const rota_plan_physical *physical = &info->physicals[p];
        const uint64_t bytes = rota_physical_bytes(plan, physical);
        uint64_t begin_ns = lives[p].begin_ns;
        if (!physical->packed || !lives[p].end_ns) continue;
        /* Memory that it took over in an operation is the other's until that is over. */
        if (physical->inplace_of != ROTA_NONE && lives[physical->inplace_of].end_ns > begin_ns)
            begin_ns = lives[physical->inplace_of].end_ns;
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
    if (!lives || !changes)
        return rota_fail(ROTA_OUT_OF_MEMORY, "trace of plan '%s': no host memory", trace->plan->name);
    find_lives(trace, lives);
    const uint32_t count = find_changes(trace->plan, lives, changes);
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
