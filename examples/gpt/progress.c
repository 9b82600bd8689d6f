/* How far training is: a bar on a terminal, plain lines otherwise, and the metrics file. */
#include "examples/gpt/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"

#define BAR_WIDTH 30
#define REDRAW_NS 100000000u
#define PLAIN_LINES 20

bool gpt_meter_open(gpt_meter *meter, const char *log_path, const char *events_dir, bool append,
                    uint64_t first_step, uint64_t last_step) {
    *meter = (gpt_meter){.first_step = first_step,
                         .last_step = last_step,
                         .started_ns = rota_clock_ns(),
                         .smooth_loss = NAN,
                         .terminal = isatty(STDOUT_FILENO) == 1,
                         .log_path = log_path};
    if (!event_file_open(&meter->events, events_dir)) return false;
    if (!log_path) return true;
    meter->log = fopen(log_path, append ? "ab" : "wb");
    if (!meter->log) {
        fprintf(stderr, "'%s' can't be written: %s\n", log_path, strerror(errno));
        (void)event_file_close(&meter->events);
        return false;
    }
    (void)fseek(meter->log, 0, SEEK_END); /* a pipe has no end */
    meter->log_end = ftell(meter->log);
    return true;
}

static void print_number(FILE *stream, const char *name, double value, const char *end) {
    if (isfinite(value))
        fprintf(stream, "\"%s\": %.9g%s", name, value, end);
    else
        fprintf(stream, "\"%s\": null%s", name, end);
}

static bool write_log(gpt_meter *meter, const gpt_metrics *m) {
    if (!meter->log) return true;
    errno = 0;
    fprintf(meter->log, "{\"step\": %" PRIu64 ", ", m->step);
    print_number(meter->log, "loss", m->loss, ", ");
    print_number(meter->log, "val_loss", m->val_loss, ", ");
    print_number(meter->log, "lr", m->lr, ", ");
    print_number(meter->log, "grad_norm", m->grad_norm, ", ");
    if (m->scales) fprintf(meter->log, "\"skipped\": %" PRIu64 ", ", m->skipped);
    print_number(meter->log, "ms", m->ms, ", ");
    print_number(meter->log, "tok_s", m->tok_s, "}\n");
    if (fflush(meter->log) == 0 && !ferror(meter->log)) {
        meter->log_end = ftell(meter->log);
        return true;
    }
    int error = errno;
    gpt_meter_break(meter);
    fprintf(stderr, "'%s' can't be written: %s\n", meter->log_path, strerror(error ? error : EIO));
    /* A part of a line is worse than none. */
    if (meter->log_end >= 0 && ftruncate(fileno(meter->log), meter->log_end) != 0) errno = 0;
    return false;
}

static bool write_events(gpt_meter *meter, const gpt_metrics *m) {
    if (!meter->events.stream) return true;
    const event_value values[] = {{"loss/train", m->loss},
                                  {"loss/validation", m->val_loss},
                                  {"optimizer/learning_rate", m->lr},
                                  {"optimizer/gradient_norm", m->grad_norm},
                                  {"optimizer/skipped_steps", m->scales ? (double)m->skipped : NAN},
                                  {"speed/ms_a_step", m->ms},
                                  {"speed/tokens_per_second", m->tok_s}};
    return event_file_add(&meter->events, m->step, values, sizeof values / sizeof *values);
}

static void draw_bar(gpt_meter *meter, const gpt_metrics *m, const char *skipped, double left_s) {
    char bar[BAR_WIDTH + 1];
    uint64_t filled = m->step * BAR_WIDTH / meter->last_step;
    for (uint64_t i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = 0;
    printf("\r[%s] %3.0f%%  step %" PRIu64 "/%" PRIu64 "  loss %.4f%s  %.1fk tok/s  %d:%02d left ", bar,
           100.0 * (double)m->step / (double)meter->last_step, m->step, meter->last_step, meter->smooth_loss,
           skipped, m->tok_s / 1000, (int)(left_s / 60), (int)left_s % 60);
    fflush(stdout);
    meter->on_bar = true;
}

bool gpt_meter_step(gpt_meter *meter, const gpt_metrics *m) {
    if (meter->silent) return true;
    const bool logged = write_log(meter, m), good = write_events(meter, m) && logged;
    /* The bar's loss follows the last twenty steps or so. */
    meter->smooth_loss = isnan(meter->smooth_loss) ? m->loss : 0.95 * meter->smooth_loss + 0.05 * m->loss;
    uint64_t now = rota_clock_ns(), done = m->step - meter->first_step + 1;
    double left_s =
        (double)(now - meter->started_ns) / 1e9 / (double)done * (double)(meter->last_step - m->step);
    bool last = m->step == meter->last_step, measured = !isnan(m->val_loss);
    char skipped[48] = "";
    if (m->skipped) snprintf(skipped, sizeof skipped, "  %" PRIu64 " skipped", m->skipped);
    if (meter->terminal) {
        if (last || measured || now - meter->drawn_ns >= REDRAW_NS) {
            meter->drawn_ns = now;
            draw_bar(meter, m, skipped, left_s);
        }
    } else {
        uint64_t every = (meter->last_step + PLAIN_LINES - 1) / PLAIN_LINES;
        if (last || measured || m->step % every == 0 || m->step == 1)
            printf("step %" PRIu64 "/%" PRIu64 "  loss %.4f%s  %.1fk tok/s  %d:%02d left\n", m->step,
                   meter->last_step, m->loss, skipped, m->tok_s / 1000, (int)(left_s / 60), (int)left_s % 60);
    }
    if (measured) {
        gpt_meter_break(meter);
        printf("step %" PRIu64 "  validation loss %.4f\n", m->step, m->val_loss);
    }
    fflush(stdout);
    return good;
}

void gpt_meter_break(gpt_meter *meter) {
    if (meter->on_bar) putchar('\n');
    fflush(stdout);
    meter->on_bar = false;
}

bool gpt_meter_close(gpt_meter *meter) {
    gpt_meter_break(meter);
    FILE *log = meter->log;
    meter->log = NULL;
    const bool good = event_file_close(&meter->events);
    if (!log || fclose(log) == 0) return good;
    fprintf(stderr, "'%s' can't be written: %s\n", meter->log_path, strerror(errno));
    return false;
}
