/* A training run's step by kind of node, as lines of text. */
#include "examples/common/run_report_internal.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 24, NAME_COLUMNS = 30 };

/* Of all commands of one kind. Least: what they would take at the device's peaks, in seconds. */
typedef struct kind_of_node {
    const char *name;
    uint64_t count;
    double seconds, bytes, work, least_memory, least_work, peak_work;
} kind_of_node;

static const char *name_of(const rota_plan_command *command) {
    return command->kernel ? command->kernel->name : run_report_kind_name(command->kind);
}

static int by_name(const void *a, const void *b) {
    const kind_of_node *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_time(const void *a, const void *b) {
    const kind_of_node *x = a, *y = b;
    return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

static kind_of_node of_command(const run_report *report, uint64_t i) {
    const rota_plan_command *c = &report->commands[i];
    const rota_plan_time *time = &report->times[i];
    const run_report_peaks *peaks = &report->peaks;
    kind_of_node node = {.name = name_of(c), .count = 1, .work = c->work};
    node.bytes = (double)c->read_bytes + (double)c->written_bytes;
    if (time->end_ns > time->begin_ns) node.seconds = (double)(time->end_ns - time->begin_ns) / 1e9;
    /* Of 16 bits by its name (bf16, too), or since it is faster than f32's peak. */
    const bool is_half = strstr(node.name, "f16") || node.work > peaks->single * node.seconds;
    node.peak_work = is_half && peaks->half > 0 ? peaks->half : peaks->single;
    if (peaks->bandwidth > 0) node.least_memory = node.bytes / peaks->bandwidth;
    if (node.peak_work > 0) node.least_work = node.work / node.peak_work;
    return node;
}

static void add(kind_of_node *sum, const kind_of_node *node) {
    sum->count += node->count;
    sum->seconds += node->seconds;
    sum->bytes += node->bytes;
    sum->work += node->work;
    sum->least_memory += node->least_memory;
    sum->least_work += node->least_work;
}

/* What keeps a kind from being faster: the roofline's part that is longer. Far from both it is what the kernel does
 * beside, or, of nodes that are short, their beginning and end. */
static const char *bound_of(const kind_of_node *kind) {
    const double least = kind->least_memory > kind->least_work ? kind->least_memory : kind->least_work;
    if (!(kind->seconds > 0) || !(least > 0)) return "-";
    if (least < kind->seconds / 10) return kind->seconds < 1e-5 * (double)kind->count ? "latency" : "neither";
    return kind->least_work > kind->least_memory ? "arithmetic" : "memory";
}

/* "-" where there's nothing to say. */
static void put_rate(FILE *file, double amount, double seconds, double least, double unit) {
    if (amount > 0 && seconds > 0)
        fprintf(file, " %9.4g", amount / seconds / unit);
    else
        fprintf(file, " %9s", "-");
    if (least > 0 && seconds > 0)
        fprintf(file, " %4.0f %%", least < seconds ? 100 * least / seconds : 100.0);
    else
        fprintf(file, " %6s", "-");
}

static void put_row(FILE *file, const kind_of_node *kind, double total) {
    const size_t length = strlen(kind->name);
    const bool is_long = length > NAME_COLUMNS;
    fprintf(file, "%-*.*s%s %5llu %9.3f %5.1f %%", is_long ? NAME_COLUMNS - 2 : NAME_COLUMNS,
            is_long ? NAME_COLUMNS - 2 : NAME_COLUMNS, kind->name, is_long ? ".." : "",
            (unsigned long long)kind->count, kind->seconds * 1e3,
            total > 0 ? 100 * kind->seconds / total : 0);
    put_rate(file, kind->bytes, kind->seconds, kind->least_memory, 1e9);
    put_rate(file, kind->work, kind->seconds, kind->least_work, 1e12);
    fprintf(file, "  %s\n", bound_of(kind));
}

/* Those of one name become one; how many there are. */
static uint64_t gather(const run_report *report, kind_of_node *kinds) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < report->command_count; i++) kinds[i] = of_command(report, i);
    qsort(kinds, report->command_count, sizeof *kinds, by_name);
    for (uint64_t i = 0; i < report->command_count; i++)
        if (count && strcmp(kinds[count - 1].name, kinds[i].name) == 0)
            add(&kinds[count - 1], &kinds[i]);
        else
            kinds[count++] = kinds[i];
    qsort(kinds, count, sizeof *kinds, by_time);
    return count;
}

rota_status run_report_print_profile(const run_report *report, FILE *file) {
    if (!report->has_times) {
        fprintf(file, "a step by kind of node: there are no times: %s\n", report->untimed);
        return ROTA_OK;
    }
    kind_of_node *kinds = calloc(report->command_count + 1, sizeof *kinds);
    if (!kinds)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a profile of %llu commands",
                         (unsigned long long)report->command_count);
    const uint64_t count = gather(report, kinds);
    kind_of_node all = {.name = "all"}, rest = {.name = "others"};
    for (uint64_t i = 0; i < count; i++) {
        add(&all, &kinds[i]);
        if (i >= ROWS_MAX) add(&rest, &kinds[i]);
    }
    fprintf(file, "%-*s %5s %9s %7s %9s %6s %9s %6s  %s\n", NAME_COLUMNS, "a step by kind of node", "nodes",
            "ms", "of all", "GB/s", "peak", "TFLOP/s", "peak", "bound by");
    for (uint64_t i = 0; i < count && i < ROWS_MAX; i++) put_row(file, &kinds[i], all.seconds);
    if (rest.count) put_row(file, &rest, all.seconds);
    put_row(file, &all, all.seconds);
    fprintf(file,
            "the step took %.3f ms from its submission to its end, more than one whose nodes are not timed; "
            "nodes that ran "
            "at once count each\n",
            (double)(report->replay.completed_ns - report->replay.submitted_ns) / 1e6);
    const run_report_peaks *peaks = &report->peaks;
    if (peaks->bandwidth > 0) {
        fprintf(file, "peaks, as measured: %.0f GB/s, %.2f TFLOP/s of f32", peaks->bandwidth / 1e9,
                peaks->single / 1e12);
        if (peaks->half > 0) fprintf(file, ", %.0f of bf16", peaks->half / 1e12);
        fprintf(file, "; a share of more than all of it is said as 100 %%\n");
    } else {
        fprintf(file, "the device's peaks were not measured: %s\n", peaks->unmeasured);
    }
    free(kinds);
    return ROTA_OK;
}
