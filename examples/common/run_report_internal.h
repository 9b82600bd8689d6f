/* What the files of a run report share. */
#ifndef ROTA_EXAMPLES_COMMON_RUN_REPORT_INTERNAL_H
#define ROTA_EXAMPLES_COMMON_RUN_REPORT_INTERNAL_H

#include <stdio.h>
#include "examples/common/run_report.h"

enum { RUN_REPORT_POINTS = 4096, RUN_REPORT_VALUES = 5, RUN_REPORT_UPLOADS = 64, RUN_REPORT_FACTS = 64 };

/* Sums over the steps of a point, each value's over those steps that had it. */
typedef struct run_report_point {
    uint64_t step; /* the last */
    double sum[RUN_REPORT_VALUES];
    uint32_t count[RUN_REPORT_VALUES];
} run_report_point;

typedef struct run_report_upload {
    char name[48];
    uint64_t begin_ns, bytes;
    _Atomic uint64_t end_ns; /* 0: under way, or failed */
} run_report_upload;

typedef struct run_report_fact {
    char *name, *value;
} run_report_fact;

typedef struct run_report_peaks {
    double bandwidth, single, half; /* bytes and operations a second; 0: not measured */
    char how[256], unmeasured[256];
} run_report_peaks;

struct run_report {
    const char *path;
    bool prints;
    char *title, *rate, *unit, *command;
    uint64_t persistent_bytes;
    run_report_point points[RUN_REPORT_POINTS], open;
    uint32_t point_count, stride, in_open;
    run_report_upload uploads[RUN_REPORT_UPLOADS];
    uint32_t upload_count;
    run_report_fact facts[RUN_REPORT_FACTS];
    uint32_t fact_count;
    rota_plan_stats stats;
    rota_plan_command *commands; /* names and kernels: valid while the plan is */
    rota_plan_time *times;
    uint64_t command_count;
    rota_plan_replay replay;
    bool has_times;
    char *untimed; /* why not */
    run_report_peaks peaks;
};

const char *run_report_kind_name(rota_plan_command_kind kind);

#endif
