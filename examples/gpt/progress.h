/* How far training is: a bar on a terminal, plain lines otherwise, and the metrics file. */
#ifndef ROTA_EXAMPLES_GPT_PROGRESS_H
#define ROTA_EXAMPLES_GPT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "examples/common/events.h"

typedef struct gpt_metrics {
    uint64_t step; /* from 1 */
    double loss, lr, grad_norm, ms, tok_s;
    double val_loss;  /* NAN: not measured at this step */
    bool scales;      /* the loss is scaled: steps are skipped whose gradients overflow */
    uint64_t skipped; /* such steps of this run so far */
} gpt_metrics;

typedef struct gpt_meter {
    uint64_t first_step, last_step;
    uint64_t started_ns, drawn_ns;
    double smooth_loss;
    bool terminal, on_bar;
    bool silent; /* says and writes nothing: of several ranks one does */
    FILE *log;
    const char *log_path;
    long log_end; /* end of the last whole line */
    event_file events;
} gpt_meter;

/* `log_path`, and `events_dir` for TensorBoard, may be NULL; `append` keeps what the log has (resume). False with a
 * sentence. */
bool gpt_meter_open(gpt_meter *meter, const char *log_path, const char *events_dir, bool append,
                    uint64_t first_step, uint64_t last_step);
/* After a step. False with a sentence if the metrics can't be written; the file then ends with its last whole
 * line. */
bool gpt_meter_step(gpt_meter *meter, const gpt_metrics *metrics);
/* Ends the bar's line, so that something else can be printed. */
void gpt_meter_break(gpt_meter *meter);
bool gpt_meter_close(gpt_meter *meter);

#endif
