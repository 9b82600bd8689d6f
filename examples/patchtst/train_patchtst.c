/* train_patchtst: a PatchTST that forecasts a multivariate time series, from one forward/backward/optimizer
 * graph built once and replayed each step, and one for evaluation. Its defaults are the published settings
 * for ETTh1. */
#include <inttypes.h>
#include <stdlib.h>
#include "base/clock.h"
#include "bench/options.h"
#include "bench/progress.h"
#include "examples/common/checkpoint.h"
#include "examples/patchtst/train.h"

static const char program[] = "train_patchtst";

static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

static int resume(patchtst_trainer *t) {
    const patchtst_settings *s = t->settings;
    if (!patchtst_checkpoint_load(s->resume, &t->model, &t->progress)) return EXIT_BAD_ARGUMENT;
    if (t->progress.seed != s->seed) {
        fprintf(stderr, "%s: the checkpoint in '%s' was made with --seed %" PRIu64 ", not %" PRIu64 "\n",
                program, s->resume, t->progress.seed, s->seed);
        return EXIT_BAD_ARGUMENT;
    }
    return EXIT_GOOD;
}

/* A plan that could not be made: where memory is short, with the largest tensors. Returns the exit code. */
static int plan_failure(rota_status status, const patchtst_config *c) {
    if (status != ROTA_OUT_OF_MEMORY) return report_failure(program, status);
    const uint64_t rows = c->batch * c->channels, patches = patchtst_patches(c);
    fprintf(stderr,
            "%s: %s; the largest tensors: a layer's attention scores %" PRIu64 ", its widened rows %" PRIu64
            ", its rows %" PRIu64 "; a smaller --batch needs less\n",
            program, rota_last_error(), rows * c->heads * patches * patches * 4, rows * patches * c->wide * 4,
            rows * patches * c->dim * 4);
    return EXIT_BAD_ARGUMENT;
}

static int prepare(patchtst_trainer *t, const opened_device *opened) {
    const patchtst_settings *s = t->settings;
    int code = EXIT_GOOD;
    uint64_t begin = rota_clock_ns();
    rota_plan_stats stats = ROTA_PLAN_STATS();
    patchtst_config config = s->config;
    config.channels = t->series.channels;
    REPORT_TRY(patchtst_model_create(&config, opened->runtime, opened->device, &t->model));
    REPORT_TRY(patchtst_progress_create(&t->model, s->seed, &t->progress));
    REPORT_TRY(patchtst_model_initialize(&t->model, &t->progress.random));
    progress_bar bar;
    progress_begin(&bar, "compiling", NULL, 0);
    rota_status status = patchtst_plan_train(&t->model, &t->train);
    if (status == ROTA_OK) status = patchtst_plan_errors(&t->model, &t->errors);
    progress_end(&bar);
    if (status != ROTA_OK) return plan_failure(status, &config);
    REPORT_TRY(plan_pictures_write(&s->pictures, t->train.plan));
    rota_plan_get_stats(t->train.plan, &stats);
    printf("%" PRIu64 " rows of %" PRIu64 " channels: %" PRIu64 " windows to train on, %" PRIu64
           " to validate, %" PRIu64 " to test\n",
           t->series.rows, t->series.channels, t->series.count[SERIES_TRAIN],
           t->series.count[SERIES_VALIDATE], t->series.count[SERIES_TEST]);
    printf("%" PRIu64 " patches; %" PRIu64 " weights; one step is a graph of %" PRIu64 " nodes in %" PRIu64
           " batches, arena %.1f MiB, compiled in %.0f ms and replayed each step\n",
           patchtst_patches(&config), t->model.weight_count, stats.nodes, stats.batches,
           (double)stats.arena_bytes / (1 << 20), (double)(rota_clock_ns() - begin) / 1e6);
    if (config.fuse) printf("%" PRIu64 " elementwise nodes were put together with others\n", stats.merged);
    if (s->resume) code = resume(t);
    if (code == EXIT_GOOD && s->resume) printf("resumed after step %" PRIu64 "\n", t->progress.step);
    fflush(stdout);
done:
    return code;
}

static int run(const patchtst_settings *s) {
    patchtst_trainer t = {.settings = s, .interrupted = &interrupted};
    opened_device opened = {0};
    if (s->checkpoint && !checkpoint_folder(s->checkpoint)) return EXIT_BAD_ARGUMENT;
    if (!series_read(&s->source, &t.series)) return EXIT_BAD_ARGUMENT;
    int code = EXIT_GOOD;
    if (t.series.count[SERIES_TRAIN] < s->config.batch) {
        fprintf(stderr, "%s: '%s' has %" PRIu64 " windows to train on, fewer than --batch %" PRIu64 "\n",
                program, s->source.path, t.series.count[SERIES_TRAIN], s->config.batch);
        code = EXIT_BAD_ARGUMENT;
    }
    if (code == EXIT_GOOD)
        code = report_open(
            program, s->device,
            &ROTA_RUNTIME_OPTIONS(.diagnostics = s->trace || s->report || s->profile,
                                  .debug_names = s->debug_names, .timeout_ns = s->timeout * 1000000000u,
                                  .memory_limit_bytes = s->memory_limit, OPTION_CAPTURED(s->capture)),
            &opened);
    if (code == EXIT_GOOD) code = prepare(&t, &opened);
    if (code == EXIT_GOOD && (s->report || s->profile)) {
        t.report = run_report_create(&(run_report_options){
            s->report, "PatchTST", "windows per second", "epoch", s->argc, s->argv,
            (t.model.weight_count * 3 + t.model.statistic_count) * sizeof(float), s->profile});
        if (!t.report) code = EXIT_BAD_ARGUMENT;
    }
    if (code == EXIT_GOOD) code = patchtst_train(&t);
    if (code == EXIT_GOOD && t.report) {
        run_report_add_fact(t.report, "Data", s->source.path);
        if (!run_report_end(t.report, opened.runtime, opened.device)) code = EXIT_BAD_ARGUMENT;
    }
    if (code == EXIT_GOOD && s->trace) REPORT_TRY(rota_plan_write_trace(t.train.plan, s->trace));
done:
    patchtst_plan_free(&t.train);
    patchtst_plan_free(&t.errors);
    patchtst_progress_free(&t.progress);
    patchtst_model_free(&t.model);
    report_close(&opened);
    run_report_free(t.report);
    series_free(&t.series);
    return code;
}

/* NOLINTNEXTLINE(readability-function-size): most of it is the table of options */
int main(int argc, char **argv) {
    patchtst_settings s = {
        .argc = argc,
        .argv = argv,
        .epochs = 100,
        .seed = 2021,
        .timeout = 120,
        .lr = 1e-4,
        .source = {.rows = {8640, 2880, 2880}}, /* 12, 4 and 4 months of 30 days of hours */
        .config = {.look_back = 336,
                   .horizon = 96,
                   .patch = 16,
                   .stride = 8,
                   .layers = 3,
                   .heads = 4,
                   .dim = 16,
                   .wide = 128,
                   .batch = 128,
                   .dropout = 0.3,
                   .beta1 = 0.9,
                   .beta2 = 0.999}};
    patchtst_config *c = &s.config;
    const option options[] = {
        OPTION_ROW_HEADING("Data"),
        {"--data", OPTION_STRING, &s.source.path, "FILE.csv", 0, 0, true,
         "the table: a first line of names, a first column of times, then numbers"},
        OPTION_ROW_HEADING("The three parts of the table"),
        {"--train-rows", OPTION_COUNT, &s.source.rows[SERIES_TRAIN], "N", 1, 1e9, false,
         "rows to train on: the first"},
        {"--val-rows", OPTION_COUNT, &s.source.rows[SERIES_VALIDATE], "N", 1, 1e9, false,
         "rows to validate on: those after them"},
        {"--test-rows", OPTION_COUNT, &s.source.rows[SERIES_TEST], "N", 1, 1e9, false,
         "rows to test on: those after them"},
        OPTION_ROW_HEADING("Model"),
        {"--look-back", OPTION_COUNT, &c->look_back, "N", 1, 1e6, false, "rows that the model sees"},
        {"--horizon", OPTION_COUNT, &c->horizon, "N", 1, 1e6, false, "rows that it forecasts"},
        {"--patch", OPTION_COUNT, &c->patch, "N", 1, 1e6, false, "rows of a patch"},
        {"--stride", OPTION_COUNT, &c->stride, "N", 1, 1e6, false, "rows from one patch to the next"},
        {"--layers", OPTION_COUNT, &c->layers, "N", 1, 1024, false, "layers of the model"},
        {"--heads", OPTION_COUNT, &c->heads, "N", 1, 1 << 20, false, "attention heads of a layer"},
        {"--dim", OPTION_COUNT, &c->dim, "N", 1, 1 << 20, false, "width of the model"},
        {"--wide", OPTION_COUNT, &c->wide, "N", 1, 1 << 20, false, "width inside a layer"},
        {"--dropout", OPTION_REAL, &c->dropout, "P", 0, 0.9, false,
         "share of the activations that is dropped in training"},
        OPTION_ROW_HEADING("Training"),
        {"--epochs", OPTION_COUNT, &s.epochs, "N", 1, 1e6, false, "passes over the windows"},
        {"--batch", OPTION_COUNT, &c->batch, "N", 1, 1 << 20, false, "windows of a step"},
        {"--lr", OPTION_REAL, &s.lr, "RATE", 0, 1e3, false, "learning rate"},
        {"--seed", OPTION_COUNT, &s.seed, "N", 0, 9007199254740992.0, false,
         "of the first weights, the order of windows and dropout"},
        OPTION_ROW_HEADING("Going on later"),
        {"--checkpoint", OPTION_STRING, &s.checkpoint, "DIR", 0, 0, false,
         "keep the state there after each epoch, and at Ctrl-C"},
        {"--resume", OPTION_STRING, &s.resume, "DIR", 0, 0, false, "go on from a checkpoint"},
        OPTION_ROW_HEADING("Execution"),
        OPTION_ROW_DEVICE(s.device),
        {"--fuse", OPTION_FLAG, &c->fuse, NULL, 0, 0, false, "elementwise nodes in one"},
        {"--memory-limit", OPTION_COUNT, &s.memory_limit, "BYTES", 1, 1e18, false,
         "device memory that is used at most; all by default"},
        {"--timeout", OPTION_COUNT, &s.timeout, "SECONDS", 1, 1e9, false,
         "how long a device may get no further"},
        OPTION_ROW_HEADING("What is written of the run"),
        OPTION_ROWS_PICTURES(s.pictures),
        OPTION_ROW_TRACE(s.trace),
        OPTION_ROW_DEBUG_NAMES(s.debug_names),
        OPTION_ROW_CAPTURE(s.capture),
        {"--report", OPTION_OUTPUT, &s.report, "FILE.html", 0, 0, false,
         "write there a page with curves and times"},
        OPTION_ROW_PROFILE(s.profile),
        {"--tensorboard", OPTION_STRING, &s.tensorboard, "DIR", 0, 0, false,
         "write the same there for TensorBoard"},
        {"--log", OPTION_OUTPUT, &s.log, "FILE.jsonl", 0, 0, false,
         "write a line of JSON there for each epoch"},
    };
    const option_table table = {
        program,
        "trains a PatchTST, which forecasts a table of time series",
        "train_patchtst --data ETTh1.csv\n"
        "train_patchtst --data ETTh1.csv --horizon 192 --epochs 20 --checkpoint run --log run.jsonl\n"
        "train_patchtst --data ETTh1.csv --horizon 192 --epochs 40 --resume run --checkpoint run",
        options,
        sizeof options / sizeof *options,
        NULL};
    const option_result parsed = options_parse(&table, argc - 1, argv + 1);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (!plan_pictures_good(&table, &s.pictures)) return EXIT_BAD_ARGUMENT;
    s.source.look_back = c->look_back;
    s.source.horizon = c->horizon;
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return report_end(program, run(&s));
}
