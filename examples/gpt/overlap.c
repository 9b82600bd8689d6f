/* How much of a step's communication was hidden behind its computation. */
#include "examples/gpt/overlap.h"

#include <stdlib.h>

static int earlier_first(const void *a, const void *b) {
    const rota_plan_time *x = a, *y = b;
    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

/* The times in which at least one is, apart from one another and ascending; returns how many. */
static size_t join(rota_plan_time *times, size_t count) {
    size_t kept = 0;
    qsort(times, count, sizeof *times, earlier_first);
    for (size_t i = 0; i < count; i++) {
        if (times[i].end_ns <= times[i].begin_ns) continue;
        if (kept && times[i].begin_ns <= times[kept - 1].end_ns) {
            if (times[i].end_ns > times[kept - 1].end_ns) times[kept - 1].end_ns = times[i].end_ns;
            continue;
        }
        times[kept++] = times[i];
    }
    return kept;
}

static uint64_t total(const rota_plan_time *times, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += times[i].end_ns - times[i].begin_ns;
    return sum;
}

gpt_overlap gpt_overlap_of_times(rota_plan_time *computation, size_t computations,
                                 rota_plan_time *communication, size_t communications) {
    const size_t c = join(computation, computations), m = join(communication, communications);
    gpt_overlap overlap = {.computation_ns = total(computation, c),
                           .communication_ns = total(communication, m)};
    for (size_t i = 0, j = 0; i < c && j < m;) {
        const rota_plan_time *x = &computation[i], *y = &communication[j];
        const uint64_t begin = x->begin_ns > y->begin_ns ? x->begin_ns : y->begin_ns,
                       end = x->end_ns < y->end_ns ? x->end_ns : y->end_ns;
        if (end > begin) overlap.hidden_ns += end - begin;
        if (x->end_ns < y->end_ns)
            i++;
        else
            j++;
    }
    return overlap;
}

rota_status gpt_overlap_of_plan(rota_plan *plan, gpt_overlap *out_overlap) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    ROTA_TRY(rota_plan_get_stats(plan, &stats));
    const uint64_t count = stats.commands;
    rota_plan_command *commands = calloc(count + 1, sizeof *commands);
    rota_plan_time *times = calloc(count + 1, sizeof *times),
                   *communication = calloc(count + 1, sizeof *times);
    rota_status status = commands && times && communication
                             ? ROTA_OK
                             : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the times of %llu commands",
                                         (unsigned long long)count);
    if (status == ROTA_OK) {
        commands->struct_size = sizeof *commands;
        status = rota_plan_get_commands(plan, commands, count);
    }
    if (status == ROTA_OK) status = rota_plan_command_times(plan, times, count, NULL);
    size_t computations = 0, communications = 0;
    for (uint64_t i = 0; i < count && status == ROTA_OK; i++) {
        if (commands[i].kind == ROTA_PLAN_HOST)
            communication[communications++] = times[i];
        else
            times[computations++] = times[i];
    }
    if (status == ROTA_OK)
        *out_overlap = gpt_overlap_of_times(times, computations, communication, communications);
    free(communication);
    free(times);
    free(commands);
    return status;
}
