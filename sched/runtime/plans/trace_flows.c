/* Arrows of a trace, along the plan's edges. */
#include "sched/runtime/plans/trace_flows.h"

#include "sched/plan/names.h"

/* The operation that an edge begins at: of a join's, the one that ended last. ROTA_NONE: none of them ran. */
static uint32_t begin_of(const rota_trace *trace, const uint32_t *latest, uint32_t from) {
    if (from & ROTA_JOIN) return latest[from & ~ROTA_JOIN];
    return rota_trace_time(trace, from)->end_ns ? from : ROTA_NONE;
}

/* Joins are numbered so that each comes after lower ones only. */
static void find_latest(const rota_trace *trace, uint32_t *latest) {
    const rota_compile_info *info = rota_plan_info(trace->plan);
    for (uint32_t j = 0; j < info->join_count; j++) {
        const rota_join *join = &info->joins[j];
        latest[j] = ROTA_NONE;
        for (uint32_t i = 0; i < join->count; i++) {
            const uint32_t from = begin_of(trace, latest, info->join_from[join->first_from + i]);
            if (from == ROTA_NONE) continue;
            if (latest[j] == ROTA_NONE ||
                rota_trace_time(trace, from)->end_ns > rota_trace_time(trace, latest[j])->end_ns)
                latest[j] = from;
        }
    }
}

static void write_end(const rota_trace *trace, char phase, uint32_t operation, uint64_t ns, uint64_t id,
                      rota_edge_kind kind) {
    fprintf(trace->file,
            "{\"ph\":\"%c\",%s\"name\":\"%s\",\"cat\":\"hazard\",\"id\":%llu,\"pid\":%u,\"tid\":%u,\"ts\":%."
            "3f},\n",
            phase, phase == 'f' ? "\"bp\":\"e\"," : "", rota_edge_name(kind), (unsigned long long)id,
            rota_trace_process(rota_plan_info(trace->plan)->operations[operation].part),
            trace->track[operation], rota_trace_us(trace, ns));
}

/* Both ends lie inside their slices, where a viewer looks for them, and the arrow points on in time. Devices' clocks
 * are known to within a little, and a GPU says that a command began while it still waits: where what comes later
 * seems to have ended before the earlier one began, there is no such arrow. */
static bool write_flow(const rota_trace *trace, uint32_t from, uint32_t to, uint64_t id,
                       rota_edge_kind kind) {
    const rota_exec_time *earlier = rota_trace_time(trace, from), *later = rota_trace_time(trace, to);
    uint64_t begin = earlier->end_ns > earlier->begin_ns ? earlier->end_ns - 1 : earlier->begin_ns;
    if (begin > later->begin_ns) begin = earlier->begin_ns;
    const uint64_t end = begin > later->begin_ns ? begin : later->begin_ns;
    if (end > later->end_ns || (end == later->end_ns && end > later->begin_ns)) return false;
    write_end(trace, 's', from, begin, id, kind);
    write_end(trace, 'f', to, end, id, kind);
    return true;
}

rota_status rota_trace_write_flows(rota_trace *trace) {
    const rota_compile_info *info = rota_plan_info(trace->plan);
    uint32_t *latest = rota_arena_alloc(&trace->arena, ((size_t)info->join_count + 1) * sizeof *latest, 4);
    if (!latest)
        return rota_fail(ROTA_OUT_OF_MEMORY, "trace of plan '%s': no host memory", trace->plan->name);
    find_latest(trace, latest);
    uint64_t id = 1;
    for (uint32_t n = 0; n < info->operation_count; n++) {
        if (!rota_trace_time(trace, n)->end_ns) continue;
        for (uint32_t e = info->first_edge[n]; e < info->first_edge[n + 1]; e++) {
            const uint32_t from = begin_of(trace, latest, info->edge_from[e]);
            if (from != ROTA_NONE && write_flow(trace, from, n, id, (rota_edge_kind)info->edge_kind[e])) id++;
        }
    }
    return ROTA_OK;
}
