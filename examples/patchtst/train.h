/* Training a PatchTST: epochs, measuring, keeping the best, stopping. */
#ifndef ROTA_EXAMPLES_PATCHTST_TRAIN_H
#define ROTA_EXAMPLES_PATCHTST_TRAIN_H

#include <signal.h>
#include <stdio.h>
#include "bench/pictures.h"
#include "bench/report.h"
#include "examples/patchtst/checkpoint.h"
#include "examples/patchtst/data.h"
#include "examples/patchtst/graph.h"
#include "examples/common/events.h"
#include "examples/common/run_report.h"

/* What the command line says. */
typedef struct patchtst_settings {
    const char *device, *checkpoint, *resume, *log, *tensorboard, *report, *trace, *capture;
    plan_pictures pictures;
    bool debug_names, profile;
    int argc; /* the command line, for the report */
    char **argv;
    uint64_t epochs, seed, memory_limit;
    uint64_t timeout; /* seconds in which a device may get no further */
    double lr;
    series_source source;
    patchtst_config config;
} patchtst_settings;

typedef struct patchtst_trainer {
    const patchtst_settings *settings;
    const volatile sig_atomic_t *interrupted;
    series series;
    patchtst_model model;
    patchtst_plan train, errors;
    patchtst_progress progress;
    event_file events;
    FILE *log;
    long log_end;       /* end of the last whole line */
    run_report *report; /* --report, --profile; else NULL */
} patchtst_trainer;

/* Mean squared and mean absolute error over all windows of a part. */
rota_status patchtst_errors(patchtst_trainer *t, series_part part, double *out_mse, double *out_mae);

/* Runs the epochs that are left, then measures the test part with the best weights. Returns the exit code. */
int patchtst_train(patchtst_trainer *t);

#endif
