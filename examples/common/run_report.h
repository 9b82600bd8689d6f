/* A training run as one HTML file that opens from disk: curves, the timeline of one step by queue, its memory
 * against the lower bound, the most expensive nodes beside the device's peaks, and facts about device and
 * build. For any trainer; timeline and node times need a runtime opened with diagnostics. One thread. */
#ifndef ROTA_EXAMPLES_COMMON_RUN_REPORT_H
#define ROTA_EXAMPLES_COMMON_RUN_REPORT_H

#include <stdio.h>
#include "rota.h"

typedef struct run_report run_report;

typedef struct run_report_options {
    const char *path;  /* where it will be; borrowed; NULL: it is only printed */
    const char *title; /* these are copied */
    const char *rate;  /* what run_report_step.rate counts: "tokens per second" */
    const char *unit;  /* what run_report_step.step counts: NULL: "step" */
    int argc;          /* the command line, to be shown */
    char **argv;
    uint64_t persistent_bytes; /* weights, optimizer state; 0: not said */
    bool prints;               /* a step's time by kind of node, at the end */
} run_report_options;

typedef struct run_report_step {
    uint64_t step;
    double loss, val_loss, lr, rate, ms; /* NAN: not measured */
} run_report_step;

/* NULL, with a sentence on stderr: no memory, or the file can't be written there. */
run_report *run_report_create(const run_report_options *options);
/* After the runtime was closed, if uploads were followed. NULL is ignored. */
void run_report_free(run_report *report);

/* Past some thousand steps neighbours are averaged. */
void run_report_add_step(run_report *report, const run_report_step *step);
/* A line of the last table. Both are copied. */
void run_report_add_fact(run_report *report, const char *name, const char *value);

/* Around what sends data beside the plan (rota_buffer_write): the time before, and its ticket. The last few
 * before run_report_take_plan are shown, with the end of those then under way. */
void run_report_follow_upload(run_report *report, const char *name, uint64_t begin_ns, uint64_t bytes,
                              rota_ticket ticket);

/* What the plan is, and its last completed replay: best called when the next step's upload is done or under
 * way, but no other replay of the plan, whose times would stand among these. The plan stays until the report
 * is written. A later call takes the place of an earlier one. Missing times (no diagnostics, no replay) are
 * no error; the report says why. */
rota_status run_report_take_plan(run_report *report, rota_plan *plan);
bool run_report_has_times(const run_report *report);

/* Measures what the device does at most: a large y = alpha x for bandwidth, matrix products for arithmetic.
 * Part of a second to some. What can't be measured is said in the report. */
void run_report_measure(run_report *report, rota_runtime *runtime, rota_device *device);

/* A step's time by kind of node, one line each: how many, their time, the rates that they reach and the share of the
 * device's peaks, and what bounds them. After run_report_take_plan; the shares after run_report_measure. Where there
 * are no times, a line that says why. OUT_OF_MEMORY. */
rota_status run_report_print_profile(const run_report *report, FILE *file);

/* Writes the file, under a temporary name that is then renamed. False, with a sentence on stderr. */
bool run_report_write(run_report *report, rota_device *device);

/* After the run: run_report_measure, what is to be printed goes to stdout, and the file is written, and said to be.
 * False, with a sentence on stderr. */
bool run_report_end(run_report *report, rota_runtime *runtime, rota_device *device);

#endif
