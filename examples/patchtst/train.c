/* Training a PatchTST: epochs, measuring, keeping the best, stopping. */
#include "examples/patchtst/train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "bench/progress.h"

static const char program[] = "train_patchtst";

/* Epochs with the first learning rate, and what each later one multiplies it by. */
#define CONSTANT_EPOCHS 3
#define DECAY 0.9

static double learning_rate(const patchtst_settings *s, uint64_t epoch) {
    return epoch <= CONSTANT_EPOCHS ? s->lr : s->lr * pow(DECAY, (double)(epoch - CONSTANT_EPOCHS));
}

static uint64_t steps_of_epoch(const patchtst_trainer *t) {
    return t->series.count[SERIES_TRAIN] / t->settings->config.batch;
}

/* ---- The metrics file ---- */

static bool write_log(patchtst_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool write_log(patchtst_trainer *t, const char *format, ...) {
    if (!t->log) return true;
    va_list values;
    va_start(values, format);
    errno = 0;
    vfprintf(t->log, format, values);
    va_end(values);
    if (fflush(t->log) == 0 && !ferror(t->log)) {
        t->log_end = ftell(t->log);
        return true;
    }
    fprintf(stderr, "'%s' can't be written: %s\n", t->settings->log, strerror(errno ? errno : EIO));
    /* A part of a line is worse than none. */
    if (t->log_end >= 0 && ftruncate(fileno(t->log), t->log_end) != 0) errno = 0;
    return false;
}

static bool open_log(patchtst_trainer *t) {
    const patchtst_settings *s = t->settings;
    if (!s->log) return true;
    t->log = fopen(s->log, s->resume ? "ab" : "wb");
    if (!t->log) {
        fprintf(stderr, "'%s' can't be written: %s\n", s->log, strerror(errno));
        return false;
    }
    (void)fseek(t->log, 0, SEEK_END); /* a pipe has no end */
    t->log_end = ftell(t->log);
    return true;
}

/* ---- Measuring ---- */

/* Windows from `index` on, in order; beyond the last one it is repeated, and its errors don't count. */
static void fill_in_order(const patchtst_trainer *t, series_part part, uint64_t index, patchtst_turn *turn) {
    const series *s = &t->series;
    for (uint64_t w = 0; w < t->settings->config.batch; w++, index++) {
        const uint64_t here = index < s->count[part] ? index : s->count[part] - 1;
        series_window(s, s->first[part] + here, turn->windows + w * s->channels * s->window);
    }
}

rota_status patchtst_errors(patchtst_trainer *t, series_part part, double *out_mse, double *out_mae) {
    const uint64_t batch = t->settings->config.batch, count = t->series.count[part],
                   batches = (count + batch - 1) / batch;
    double squared = 0, absolute = 0;
    progress_bar bar;
    rota_status status = ROTA_OK;
    progress_begin(&bar, "evaluating", "windows", count);
    for (uint64_t sent = 0, done = 0; done < batches && status == ROTA_OK; done++) {
        for (; sent < batches && sent - done < PATCHTST_TURNS && status == ROTA_OK; sent++) {
            patchtst_turn *turn = &t->errors.turns[sent % PATCHTST_TURNS];
            fill_in_order(t, part, sent * batch, turn);
            status = patchtst_send(&t->errors, turn, NULL);
            if (status == ROTA_OK) status = patchtst_submit(&t->errors, turn, NULL);
        }
        patchtst_turn *turn = &t->errors.turns[done % PATCHTST_TURNS];
        if (status == ROTA_OK) status = patchtst_wait(turn);
        if (status != ROTA_OK) break;
        progress_at(&bar, (done + 1) * batch);
        for (uint64_t w = 0; w < batch && done * batch + w < count; w++) {
            squared += (double)turn->out[w];
            absolute += (double)turn->out[batch + w];
        }
    }
    progress_end(&bar);
    *out_mse = squared / (double)count;
    *out_mae = absolute / (double)count;
    return status;
}

/* ---- The weights of the best epoch ---- */

static double best_error(const patchtst_progress *p) {
    double best;
    memcpy(&best, &p->best_bits, sizeof best);
    return best;
}

static rota_status keep_best(patchtst_trainer *t, uint64_t epoch, double error) {
    const patchtst_model *model = &t->model;
    if (!(error < best_error(&t->progress))) return ROTA_OK;
    ROTA_TRY(rota_buffer_read(model->weights, 0, t->progress.best, model->weight_count * 4));
    ROTA_TRY(rota_buffer_read(model->statistics, 0, t->progress.best + model->weight_count,
                              model->statistic_count * 4));
    memcpy(&t->progress.best_bits, &error, sizeof error);
    t->progress.best_epoch = epoch;
    return ROTA_OK;
}

static rota_status take_best(patchtst_trainer *t) {
    const patchtst_model *model = &t->model;
    ROTA_TRY(
        rota_buffer_write(model->weights, model->device, 0, t->progress.best, model->weight_count * 4, NULL));
    return rota_buffer_write(model->statistics, model->device, 0, t->progress.best + model->weight_count,
                             model->statistic_count * 4, NULL);
}

/* ---- Epochs ---- */

/* An order of the training windows. */
static void shuffle(uint64_t count, random_state *random, uint32_t *order) {
    for (uint64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (uint64_t i = count; i > 1; i--) {
        const uint64_t other = random_next(random) % i;
        const uint32_t held = order[i - 1];
        order[i - 1] = order[other];
        order[other] = held;
    }
}

/* The batch of step `index` of the epoch is put together and sent; the windows that fill no batch are left
 * out, others in each epoch. */
static rota_status send_step(patchtst_trainer *t, const uint32_t *order, uint64_t index) {
    const patchtst_settings *s = t->settings;
    const series *data = &t->series;
    patchtst_turn *turn = &t->train.turns[index % PATCHTST_TURNS];
    const uint64_t window = data->channels * data->window;
    for (uint64_t w = 0; w < s->config.batch; w++)
        series_window(data, data->first[SERIES_TRAIN] + order[index * s->config.batch + w],
                      turn->windows + w * window);
    const uint64_t begin = rota_clock_ns();
    rota_ticket ticket;
    ROTA_TRY(patchtst_send(&t->train, turn, &ticket));
    if (t->report) {
        char name[48];
        snprintf(name, sizeof name, "batch %" PRIu64 " of the epoch", index + 1);
        run_report_follow_upload(t->report, name, begin, s->config.batch * window * sizeof(float), ticket);
    }
    return ROTA_OK;
}

static rota_status submit_step(patchtst_trainer *t, uint64_t epoch, uint64_t index) {
    const patchtst_settings *s = t->settings;
    const patchtst_step step = {.lr = (float)learning_rate(s, epoch),
                                .step = (uint32_t)((epoch - 1) * steps_of_epoch(t) + index + 1),
                                .seed = (uint32_t)(s->seed ^ s->seed >> 32)};
    return patchtst_submit(&t->train, &t->train.turns[index % PATCHTST_TURNS], &step);
}

/* The step of an epoch that the report shows: when all is warm, with the next one's batch on its way. That
 * one is not submitted until the times of the first were taken. */
static bool is_reported(const patchtst_trainer *t, uint64_t step) {
    enum { WARM = 8 };
    return t->report && !run_report_has_times(t->report) && (step >= WARM || step + 1 == steps_of_epoch(t));
}

/* Steps until the epoch's end, or until interrupted and what was submitted is over. While one runs, the
 * batches of the next ones are put together and sent. */
static int steps_until_end(patchtst_trainer *t, progress_bar *bar, const uint32_t *order, uint64_t epoch) {
    const uint64_t steps = steps_of_epoch(t);
    uint64_t done = t->progress.step % steps, submitted = done, sent = done;
    int code = EXIT_GOOD;
    while (done < steps) {
        for (; submitted < steps && submitted - done < PATCHTST_TURNS && !*t->interrupted; submitted++) {
            if (sent == submitted) REPORT_TRY(send_step(t, order, sent++));
            if (submitted > done && is_reported(t, submitted)) break;
            REPORT_TRY(submit_step(t, epoch, submitted));
        }
        if (submitted == done) break;
        patchtst_turn *turn = &t->train.turns[done % PATCHTST_TURNS];
        REPORT_TRY(patchtst_wait(turn));
        if (!isfinite(turn->out[0])) {
            progress_clear(bar);
            fprintf(stderr, "%s: the loss of step %" PRIu64 " is not finite; nothing was saved\n", program,
                    t->progress.step + 1);
            return EXIT_CHECK_FAILED;
        }
        t->progress.loss_sum += (double)turn->out[0];
        t->progress.step++;
        done++;
        /* Another may have been submitted behind the first of them before. */
        if (submitted == done && is_reported(t, done))
            REPORT_TRY(run_report_take_plan(t->report, t->train.plan));
        progress_at(bar, t->progress.step);
        progress_note(bar, "loss %.4f", (double)turn->out[0]);
    }
done:
    return code;
}

/* The bar is of all epochs: what is left of the training is what one waits for. */
static int run_steps(patchtst_trainer *t, const uint32_t *order, uint64_t epoch) {
    char what[48];
    progress_bar bar;
    snprintf(what, sizeof what, "epoch %" PRIu64 "/%" PRIu64, epoch, t->settings->epochs);
    progress_begin(&bar, what, "steps", t->settings->epochs * steps_of_epoch(t));
    progress_from(&bar, t->progress.step);
    const int code = steps_until_end(t, &bar, order, epoch);
    progress_end(&bar);
    return code;
}

/* The last step is reported where no other was. */
static rota_status report_epoch(patchtst_trainer *t, const run_report_step *epoch) {
    if (!t->report) return ROTA_OK;
    run_report_add_step(t->report, epoch);
    return run_report_has_times(t->report) ? ROTA_OK : run_report_take_plan(t->report, t->train.plan);
}

static int finish_epoch(patchtst_trainer *t, uint64_t epoch, double ms) {
    const patchtst_settings *s = t->settings;
    const double loss = t->progress.loss_sum / (double)steps_of_epoch(t), lr = learning_rate(s, epoch);
    double mse, mae;
    int code = EXIT_GOOD;
    t->progress.loss_sum = 0;
    REPORT_TRY(patchtst_errors(t, SERIES_VALIDATE, &mse, &mae));
    if (!isfinite(mse)) {
        fprintf(stderr, "%s: the validation error of epoch %" PRIu64 " is not finite; nothing was saved\n",
                program, epoch);
        return EXIT_CHECK_FAILED;
    }
    REPORT_TRY(keep_best(t, epoch, mse));
    REPORT_TRY(report_epoch(t, &(run_report_step){.step = epoch,
                                                  .loss = loss,
                                                  .val_loss = mse,
                                                  .lr = lr,
                                                  .rate = (double)s->config.batch / ms * 1e3,
                                                  .ms = ms}));
    printf("epoch %" PRIu64 "/%" PRIu64 "  loss %.4f  validation MSE %.4f, MAE %.4f  %.2f ms a step%s\n",
           epoch, s->epochs, loss, mse, mae, ms, t->progress.best_epoch == epoch ? "  best so far" : "");
    fflush(stdout);
    if (!write_log(t,
                   "{\"epoch\": %" PRIu64 ", \"step\": %" PRIu64
                   ", \"loss\": %.9g, \"val_loss\": %.9g, \"val_mae\": %.9g, \"lr\": %.9g, \"ms\": %.6g}\n",
                   epoch, t->progress.step, loss, mse, mae, lr, ms) ||
        !event_file_add(&t->events, epoch,
                        (const event_value[]){{"loss/train", loss},
                                              {"loss/validation_mse", mse},
                                              {"loss/validation_mae", mae},
                                              {"optimizer/learning_rate", lr},
                                              {"speed/ms_a_step", ms}},
                        5))
        code = EXIT_BAD_ARGUMENT;
done:
    return code;
}

static int save(patchtst_trainer *t) {
    const char *folder = t->settings->checkpoint;
    return !folder || patchtst_checkpoint_save(folder, &t->model, &t->progress) ? EXIT_GOOD
                                                                                : EXIT_BAD_ARGUMENT;
}

static int run_epoch(patchtst_trainer *t, uint32_t *order, bool *out_stop) {
    const uint64_t steps = steps_of_epoch(t), epoch = t->progress.step / steps + 1, first = t->progress.step,
                   began = rota_clock_ns();
    /* Until the epoch's end the generator kept is the one that its order came from. */
    random_state random = t->progress.random;
    shuffle(t->series.count[SERIES_TRAIN], &random, order);
    int code = run_steps(t, order, epoch);
    if (code != EXIT_GOOD) return code;
    const double ms = (double)(rota_clock_ns() - began) / 1e6 / (double)(t->progress.step - first);
    if (t->progress.step == epoch * steps) {
        t->progress.random = random;
        code = finish_epoch(t, epoch, ms);
    }
    if (code == EXIT_GOOD) code = save(t);
    *out_stop = *t->interrupted;
    if (code == EXIT_GOOD && *out_stop)
        printf("stopped after step %" PRIu64 "%s%s\n", t->progress.step,
               t->settings->checkpoint ? ", saved in " : "",
               t->settings->checkpoint ? t->settings->checkpoint : "");
    return code;
}

static int test(patchtst_trainer *t) {
    double mse, mae;
    int code = EXIT_GOOD;
    REPORT_TRY(take_best(t));
    REPORT_TRY(patchtst_errors(t, SERIES_TEST, &mse, &mae));
    printf("test MSE %.4f, MAE %.4f over %" PRIu64 " windows, with the weights of epoch %" PRIu64
           " (validation MSE %.4f)\n",
           mse, mae, t->series.count[SERIES_TEST], t->progress.best_epoch, best_error(&t->progress));
    if (!write_log(t,
                   "{\"test_mse\": %.9g, \"test_mae\": %.9g, \"windows\": %" PRIu64
                   ", \"best_epoch\": %" PRIu64 "}\n",
                   mse, mae, t->series.count[SERIES_TEST], t->progress.best_epoch))
        code = EXIT_BAD_ARGUMENT;
done:
    return code;
}

int patchtst_train(patchtst_trainer *t) {
    bool stop = false;
    int code = EXIT_GOOD;
    uint32_t *order = malloc(t->series.count[SERIES_TRAIN] * sizeof *order);
    if (!order) {
        fprintf(stderr, "%s: no memory for the order of %" PRIu64 " windows\n", program,
                t->series.count[SERIES_TRAIN]);
        return EXIT_BAD_ARGUMENT;
    }
    if (!open_log(t) || !event_file_open(&t->events, t->settings->tensorboard)) code = EXIT_BAD_ARGUMENT;
    while (code == EXIT_GOOD && !stop && t->progress.step < t->settings->epochs * steps_of_epoch(t))
        code = run_epoch(t, order, &stop);
    if (code == EXIT_GOOD && !stop) code = test(t);
    if (t->log && fclose(t->log) != 0 && code == EXIT_GOOD) {
        fprintf(stderr, "'%s' can't be written: %s\n", t->settings->log, strerror(errno));
        code = EXIT_BAD_ARGUMENT;
    }
    if (!event_file_close(&t->events) && code == EXIT_GOOD) code = EXIT_BAD_ARGUMENT;
    free(order);
    return code;
}
