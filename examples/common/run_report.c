/* A training run as one HTML file: gathering. run_report_write.c writes it, run_report_peaks.c measures the
 * device. */
#include "examples/common/run_report_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/files.h"

static char *copy_text(const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

/* The words of the command line with spaces between them. */
static char *join(int argc, char **argv) {
    size_t size = 1;
    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 1;
    char *text = calloc(size, 1);
    if (!text) return NULL;
    for (int i = 0; i < argc; i++) {
        if (i) strcat(text, " ");
        strcat(text, argv[i]);
    }
    return text;
}

/* Known before hours of training, not after. */
static bool can_be_written(const char *path) {
    file_writer file;
    if (!file_open(&file, path)) return false;
    file_abandon(&file);
    return true;
}

run_report *run_report_create(const run_report_options *options) {
    if (options->path && !can_be_written(options->path)) return NULL;
    run_report *report = calloc(1, sizeof *report);
    if (!report) {
        fprintf(stderr, "no memory for a report\n");
        return NULL;
    }
    report->path = options->path;
    report->prints = options->prints;
    report->title = copy_text(options->title ? options->title : "run");
    report->rate = copy_text(options->rate ? options->rate : "rate");
    report->unit = copy_text(options->unit ? options->unit : "step");
    report->command = join(options->argc, options->argv);
    report->persistent_bytes = options->persistent_bytes;
    report->stride = 1;
    report->untimed = copy_text("no step was taken into the report");
    if (report->title && report->rate && report->unit && report->command && report->untimed) return report;
    run_report_free(report);
    fprintf(stderr, "no memory for a report\n");
    return NULL;
}

void run_report_free(run_report *report) {
    if (!report) return;
    for (uint32_t i = 0; i < report->fact_count; i++) {
        free(report->facts[i].name);
        free(report->facts[i].value);
    }
    free(report->title);
    free(report->rate);
    free(report->unit);
    free(report->command);
    free(report->untimed);
    free(report->commands);
    free(report->times);
    free(report);
}

void run_report_add_fact(run_report *report, const char *name, const char *value) {
    if (report->fact_count == RUN_REPORT_FACTS) return;
    run_report_fact *fact = &report->facts[report->fact_count];
    *fact = (run_report_fact){copy_text(name), copy_text(value)};
    if (fact->name && fact->value) {
        report->fact_count++;
        return;
    }
    free(fact->name);
    free(fact->value);
}

/* ---- Steps ---- */

static void add(double value, double *sum, uint32_t *count) {
    if (!isfinite(value)) return;
    *sum += value;
    ++*count;
}

/* Two neighbours become one. */
static run_report_point merged(const run_report_point *a, const run_report_point *b) {
    run_report_point out = {.step = b->step};
    for (int v = 0; v < RUN_REPORT_VALUES; v++) {
        out.sum[v] = a->sum[v] + b->sum[v];
        out.count[v] = a->count[v] + b->count[v];
    }
    return out;
}

void run_report_add_step(run_report *report, const run_report_step *step) {
    run_report_point *open = &report->open;
    const double values[RUN_REPORT_VALUES] = {step->loss, step->val_loss, step->lr, step->rate, step->ms};
    open->step = step->step;
    for (int v = 0; v < RUN_REPORT_VALUES; v++) add(values[v], &open->sum[v], &open->count[v]);
    if (++report->in_open < report->stride) return;
    report->points[report->point_count++] = *open;
    *open = (run_report_point){0};
    report->in_open = 0;
    if (report->point_count < RUN_REPORT_POINTS) return;
    for (uint32_t i = 0; i < RUN_REPORT_POINTS / 2; i++)
        report->points[i] = merged(&report->points[(size_t)2 * i], &report->points[2 * i + 1]);
    report->point_count = RUN_REPORT_POINTS / 2;
    report->stride *= 2;
}

/* ---- Uploads ---- */

/* On a thread of rota's. */
static void upload_done(void *user, rota_status status, const char *message) {
    (void)message;
    atomic_store_explicit((_Atomic uint64_t *)user, status == ROTA_OK ? rota_clock_ns() : 0,
                          memory_order_relaxed);
}

void run_report_follow_upload(run_report *report, const char *name, uint64_t begin_ns, uint64_t bytes,
                              rota_ticket ticket) {
    if (report->has_times) return; /* those of the step that was taken stay */
    run_report_upload *upload = &report->uploads[report->upload_count++ % RUN_REPORT_UPLOADS];
    *upload = (run_report_upload){.begin_ns = begin_ns, .bytes = bytes};
    snprintf(upload->name, sizeof upload->name, "%s", name);
    if (rota_ticket_on_complete(ticket, upload_done, &upload->end_ns) != ROTA_OK) upload->begin_ns = 0;
}

/* ---- The plan ---- */

const char *run_report_kind_name(rota_plan_command_kind kind) {
    static const char *const names[] = {
        [ROTA_PLAN_KERNEL] = "kernel",     [ROTA_PLAN_COPY] = "copy",
        [ROTA_PLAN_FILL] = "fill",         [ROTA_PLAN_HOST] = "host function",
        [ROTA_PLAN_UPLOAD] = "upload",     [ROTA_PLAN_READ_BACK] = "read back",
        [ROTA_PLAN_TRANSFER] = "transfer", [ROTA_PLAN_CONDITIONAL] = "conditional",
    };
    return names[kind];
}

static void say_untimed(run_report *report, const char *why) {
    char *copy = copy_text(why);
    if (!copy) return;
    free(report->untimed);
    report->untimed = copy;
}

rota_status run_report_take_plan(run_report *report, rota_plan *plan) {
    report->stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &report->stats);
    const uint64_t count = report->stats.commands;
    free(report->commands);
    free(report->times);
    report->commands = calloc(count + 1, sizeof *report->commands);
    report->times = calloc(count + 1, sizeof *report->times);
    report->has_times = false;
    report->command_count = 0;
    if (!report->commands || !report->times)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a report of %llu commands",
                         (unsigned long long)count);
    report->commands->struct_size = sizeof *report->commands;
    ROTA_TRY(rota_plan_get_commands(plan, report->commands, count));
    report->replay = ROTA_PLAN_REPLAY();
    report->command_count = count;
    if (rota_plan_command_times(plan, report->times, count, &report->replay) == ROTA_OK)
        report->has_times = true;
    else
        say_untimed(report, rota_last_error());
    return ROTA_OK;
}

bool run_report_end(run_report *report, rota_runtime *runtime, rota_device *device) {
    run_report_measure(report, runtime, device);
    if (report->prints && run_report_print_profile(report, stdout) != ROTA_OK) {
        fprintf(stderr, "%s\n", rota_last_error());
        return false;
    }
    if (!report->path) return true;
    if (!run_report_write(report, device)) return false;
    printf("the report is in %s\n", report->path);
    return true;
}

bool run_report_has_times(const run_report *report) {
    return report->has_times;
}
