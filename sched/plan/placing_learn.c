/* What a replay teaches of its nodes. A node that is several commands took from the first one's begin to the last one's
 * end; of nodes that a rewrite merged each is taken to have had its share, by the bytes that it declares, so that they
 * are known by themselves before they are merged again. */
#include "sched/plan/placing_learn.h"

#include <stdlib.h>
#include "graph/lane_records.h"
#include "sched/plan/derived.h"
#include "sched/plan/operations.h"

static double bytes_of(const rota_node_record *record) {
    const rota_access_record *accesses = rota_node_accesses(record);
    double sum = 1;
    for (uint32_t i = 0; i < record->access_count; i++) sum += (double)rota_access_size(&accesses[i]);
    return sum;
}

/* How long a node's commands, of which `operation` is the first, were at work; 0: they did not run. */
static double time_of(const rota_compile_info *info, const rota_plan_time *times, uint32_t operation) {
    uint32_t last = operation;
    while (info->operations[last].goes_on) {
        uint32_t next = last + 1;
        while (info->operations[next].kind != ROTA_OPERATION_NODE ||
               info->operations[next].node != info->operations[operation].node)
            next++;
        last = next;
    }
    if (times[last].end_ns <= times[operation].begin_ns || times[operation].begin_ns == 0) return 0;
    return (double)(times[last].end_ns - times[operation].begin_ns);
}

/* Goes over the graph's nodes: sums up the bytes of those that share an operation, then adds what each took. */
static void go_over(const rota_plan *plan, const rota_plan_time *times, rota_history *const *by_part,
                    bool adds, double *bytes) {
    const rota_compile_info *info = rota_plan_info(plan);
    for (uint32_t lane = 0; lane < info->lane_count; lane++) {
        uint32_t node = info->lane_first_node[lane];
        rota_record_cursor cursor = rota_lane_records(info->lanes[lane]);
        for (const rota_node_record *record; (record = rota_record_take(&cursor)); node++) {
            const uint32_t operation = rota_operation_of(info, node);
            if (operation == ROTA_NONE) continue;
            if (!adds) {
                bytes[operation] += bytes_of(record);
                continue;
            }
            const double share = bytes_of(record) / bytes[operation];
            rota_history_add(by_part[info->operations[operation].part], rota_history_key(record),
                             share * time_of(info, times, operation));
        }
    }
}

uint64_t rota_placing_graph_key(const rota_plan *plan) {
    const rota_compile_info *info = rota_plan_info(plan);
    uint64_t key = ROTA_HISTORY_GRAPH;
    for (uint32_t lane = 0; lane < info->lane_count; lane++) {
        rota_record_cursor cursor = rota_lane_records(info->lanes[lane]);
        for (const rota_node_record *record; (record = rota_record_take(&cursor));)
            key = rota_history_mix_node(key, record);
    }
    return key;
}

static bool is_mirror(const rota_plan *plan, const rota_operation *operation, uint32_t access) {
    const uint32_t physical = rota_access_physical(plan, operation, access);
    return physical != ROTA_NONE && rota_plan_info(plan)->physicals[physical].is_mirror;
}

/* How long copies were on their way, by device that they went to, and how fast their halves were, or
 * those that are whole. The halves of a copy
 * follow one another among the operations on its buffer, on different parts. */
static void learn_copies(const rota_plan *plan, const rota_plan_time *times, rota_history *const *by_part,
                         uint32_t *half_of) {
    const rota_compile_info *info = rota_plan_info(plan);
    double least[UINT8_MAX + 1];
    for (uint32_t p = 0; p <= UINT8_MAX; p++) least[p] = 0;
    for (uint32_t n = 0; n < info->operation_count; n++) {
        const rota_operation *operation = &info->operations[n];
        const uint64_t size = info->accesses[operation->first_access].size_bytes;
        if (operation->kind != ROTA_OPERATION_TRANSFER || times[n].begin_ns == 0) continue;
        const bool is_over = !is_mirror(plan, operation, 0) && !is_mirror(plan, operation, 1);
        if (size >= ROTA_HISTORY_COPY_LEAST)
            rota_history_add(by_part[operation->part], is_over ? ROTA_HISTORY_PEER : ROTA_HISTORY_COPY,
                             (double)(times[n].end_ns - times[n].begin_ns) * (1 << 20) / (double)size);
        if (is_over) continue;
        const uint32_t before = half_of[operation->node];
        half_of[operation->node] = n + 1;
        if (!before || info->operations[before - 1].part == operation->part) continue;
        const uint64_t left_ns = times[before - 1].end_ns;
        if (times[n].begin_ns <= left_ns) continue;
        const double ns = (double)(times[n].begin_ns - left_ns);
        if (least[operation->part] == 0 || ns < least[operation->part]) least[operation->part] = ns;
    }
    for (uint32_t p = 0; p < plan->partition_count; p++)
        rota_history_add(by_part[p], ROTA_HISTORY_LATENCY, least[p]);
}

/* How much of its nodes' time a device alone needs for all of them. */
static void learn_share(const rota_plan *plan, const rota_plan_time *times, rota_history *history) {
    const rota_compile_info *info = rota_plan_info(plan);
    uint64_t begin_ns = UINT64_MAX, end_ns = 0, sum_ns = 0;
    for (uint32_t n = 0; n < info->operation_count; n++) {
        if (info->operations[n].kind != ROTA_OPERATION_NODE || times[n].begin_ns == 0) continue;
        if (times[n].begin_ns < begin_ns) begin_ns = times[n].begin_ns;
        if (times[n].end_ns > end_ns) end_ns = times[n].end_ns;
        sum_ns += times[n].end_ns - times[n].begin_ns;
    }
    if (end_ns > begin_ns && sum_ns)
        rota_history_add(history, ROTA_HISTORY_SHARE, 1000 * (double)(end_ns - begin_ns) / (double)sum_ns);
}

rota_status rota_placing_learn(const rota_plan *plan, const rota_plan_time *times,
                               rota_history *const *by_part) {
    const rota_compile_info *info = rota_plan_info(plan);
    double *bytes = calloc(info->operation_count + (size_t)1, sizeof *bytes);
    uint32_t *half_of = calloc(plan->buffer_count + (size_t)1, sizeof *half_of);
    const bool there = bytes && half_of;
    if (there) {
        go_over(plan, times, by_part, false, bytes);
        go_over(plan, times, by_part, true, bytes);
        learn_copies(plan, times, by_part, half_of);
        if (plan->partition_count == 1) learn_share(plan, times, by_part[0]);
    }
    free(half_of);
    free(bytes);
    return there ? ROTA_OK
                 : rota_fail(ROTA_OUT_OF_MEMORY, "what plan '%s' teaches: no host memory", plan->name);
}
