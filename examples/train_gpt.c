/* train_gpt: a GPT that learns a text, from one forward/backward/optimizer graph built once and replayed each
 * step. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "bench/options.h"
#include "bench/report.h"
#include "examples/gpt_checkpoint.h"
#include "examples/gpt_data.h"
#include "examples/gpt_model.h"
#include "examples/gpt_progress.h"
#include "examples/gpt_tokens.h"

static const char program[] = "train_gpt";
#define SAMPLE_TEMPERATURE 0.8
#define BPE_TOKENS 8192 /* --tokenizer bpe without --vocab */

typedef struct settings {
    const char *device, *checkpoint, *resume, *log, *dot, *trace;
    gpt_source source;
    const char *write_tokens;
    uint64_t iters, warmup, eval_interval, eval_iters, seed, sample;
    double lr, min_lr;
    gpt_config config;
} settings;

static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

static double learning_rate(const settings *s, uint64_t step) {
    if (step <= s->warmup) return s->lr * (double)step / (double)s->warmup;
    if (step >= s->iters) return s->min_lr;
    double part = (double)(step - s->warmup) / (double)(s->iters - s->warmup);
    return s->min_lr + 0.5 * (s->lr - s->min_lr) * (1 + cos(3.141592653589793 * part));
}

/* ---- Validation ---- */

/* Mean over `eval_iters` random batches. They come from the seed and step alone, so that measuring more or
 * less often doesn't change the training. */
static rota_status sampled_loss(const settings *s, const gpt_text *text, gpt_plan *plan, uint64_t step,
                                int32_t *tokens, int32_t *targets, double *out_loss) {
    gpt_random random = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + step};
    double sum = 0;
    for (uint64_t i = 0; i < s->eval_iters && !interrupted; i++) {
        float loss;
        gpt_text_batch(text, text->train_count, text->count, plan->rows, plan->length, &random, tokens,
                       targets);
        ROTA_TRY(gpt_loss(plan, tokens, targets, &loss));
        sum += loss;
    }
    *out_loss = sum / (double)s->eval_iters;
    return ROTA_OK;
}

/* Adds to sum the losses of `windows` windows from `at`, one after the other, `rows` at a time with a plan of
 * their own. */
static rota_status window_losses(gpt_model *model, const gpt_text *text, size_t at, uint64_t windows,
                                 uint64_t rows, uint64_t length, gpt_plan *plan, double *sum) {
    gpt_plan own = {0};
    if (!plan) {
        ROTA_TRY(gpt_plan_loss(model, rows, length, &own));
        plan = &own;
    }
    rota_status status = ROTA_OK;
    for (uint64_t w = 0; w < windows && status == ROTA_OK && !interrupted; w += rows, at += rows * length) {
        float loss;
        /* Windows stand side by side in the text, so a batch is one run of tokens; its targets are one
         * further. */
        status = gpt_loss(plan, text->tokens + at, text->tokens + at + 1, &loss);
        if (status == ROTA_OK) *sum += (double)loss * (double)(rows * length);
    }
    gpt_plan_free(&own);
    return status;
}

/* Mean over every token of the validation split that has one before it: whole batches of windows, then the
 * windows left over, then the shorter end. */
static rota_status whole_loss(gpt_model *model, const gpt_text *text, gpt_plan *plan, double *out_loss) {
    uint64_t predictions = text->count - text->train_count - 1, length = plan->length;
    uint64_t windows = predictions / length, rest = predictions % length,
             whole = windows / plan->rows * plan->rows;
    size_t at = text->train_count;
    double sum = 0;
    ROTA_TRY(window_losses(model, text, at, whole, plan->rows, length, plan, &sum));
    at += whole * length;
    if (windows > whole)
        ROTA_TRY(window_losses(model, text, at, windows - whole, windows - whole, length, NULL, &sum));
    at += (windows - whole) * length;
    if (rest) ROTA_TRY(window_losses(model, text, at, 1, 1, rest, NULL, &sum));
    *out_loss = sum / (double)predictions;
    return ROTA_OK;
}

/* ---- Sampling ---- */

static int32_t choose(const float *logits, uint64_t count, gpt_random *random) {
    float most = logits[0];
    for (uint64_t i = 1; i < count; i++)
        if (logits[i] > most) most = logits[i];
    double total = 0;
    for (uint64_t i = 0; i < count; i++) total += exp((logits[i] - most) / SAMPLE_TEMPERATURE);
    double point = gpt_random_uniform(random) * total;
    for (uint64_t i = 0; i + 1 < count; i++) {
        point -= exp((logits[i] - most) / SAMPLE_TEMPERATURE);
        if (point < 0) return (int32_t)i;
    }
    return (int32_t)count - 1;
}

static rota_status write_sample(gpt_model *model, const gpt_text *text, uint64_t count, gpt_random random) {
    uint64_t block = model->config.block, vocabulary = model->config.vocabulary;
    gpt_plan plan = {0};
    int32_t *window = calloc(block, sizeof *window);
    float *logits = malloc(block * vocabulary * sizeof *logits);
    rota_status status = ROTA_OK;
    if (!window || !logits) status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a sample's logits");
    if (status == ROTA_OK) status = gpt_plan_logits(model, &plan);
    if (status == ROTA_OK) window[0] = text->tokens[0];
    uint64_t filled = 1;
    for (uint64_t i = 0; i < count && status == ROTA_OK && !interrupted; i++) {
        status = gpt_logits(&plan, window, logits);
        if (status != ROTA_OK) break;
        int32_t token = choose(logits + (filled - 1) * vocabulary, vocabulary, &random);
        gpt_vocabulary_print(&text->vocabulary, token, stdout);
        fflush(stdout);
        if (filled == block) memmove(window, window + 1, (block - 1) * sizeof *window);
        if (filled < block) filled++;
        window[filled - 1] = token;
    }
    putchar('\n');
    gpt_plan_free(&plan);
    free(window);
    free(logits);
    return status;
}

/* ---- Training ---- */

typedef struct trainer {
    const settings *settings;
    gpt_text text;
    gpt_model model;
    gpt_plan train, loss;
    gpt_progress progress;
    gpt_meter meter;
    int32_t *tokens, *targets;
} trainer;

static bool save(trainer *t) {
    if (!t->settings->checkpoint) return true;
    gpt_meter_break(&t->meter);
    return gpt_checkpoint_save(t->settings->checkpoint, &t->model, &t->text, &t->progress);
}

/* Runs the steps that are left. Returns the exit code. */
static int train(trainer *t) {
    const settings *s = t->settings;
    const uint64_t tokens_per_step = s->config.batch * s->config.block;
    int code = EXIT_GOOD;
    while (t->progress.step < s->iters) {
        uint64_t step = t->progress.step + 1;
        gpt_metrics metrics = {.step = step, .lr = learning_rate(s, step), .val_loss = NAN};
        float loss = NAN, norm = NAN;
        uint64_t begin = rota_clock_ns();
        gpt_text_batch(&t->text, 0, t->text.train_count, s->config.batch, s->config.block,
                       &t->progress.random, t->tokens, t->targets);
        REPORT_TRY(gpt_train_step(&t->train, t->tokens, t->targets, (float)metrics.lr, (uint32_t)step,
                                  (uint32_t)(s->seed ^ s->seed >> 32), &loss, &norm));
        double seconds = (double)(rota_clock_ns() - begin) / 1e9;
        t->progress.step = step;
        metrics.loss = loss;
        metrics.grad_norm = norm;
        metrics.ms = seconds * 1e3;
        metrics.tok_s = (double)tokens_per_step / seconds;
        if (!isfinite(loss)) {
            gpt_meter_break(&t->meter);
            fprintf(stderr, "train_gpt: the loss of step %" PRIu64 " is not finite; nothing was saved\n",
                    step);
            return EXIT_CHECK_FAILED;
        }
        bool last = step == s->iters, measure = s->eval_interval && step % s->eval_interval == 0;
        if (!interrupted && s->eval_iters && (last || measure)) {
            /* A split shorter than a block has no random windows. */
            bool whole = last || t->text.count - t->text.train_count <= s->config.block;
            if (whole)
                REPORT_TRY(whole_loss(&t->model, &t->text, &t->loss, &metrics.val_loss));
            else
                REPORT_TRY(
                    sampled_loss(s, &t->text, &t->loss, step, t->tokens, t->targets, &metrics.val_loss));
            /* Cut short, it is no mean of anything. */
            if (interrupted) metrics.val_loss = NAN;
        }
        if (!gpt_meter_step(&t->meter, &metrics)) code = EXIT_BAD_ARGUMENT;
        bool stopping = interrupted;
        if ((last || measure || stopping) && !save(t)) code = EXIT_BAD_ARGUMENT;
        if (code != EXIT_GOOD) return code;
        if (stopping) {
            gpt_meter_break(&t->meter);
            printf("stopped after step %" PRIu64 "%s%s\n", step, s->checkpoint ? ", saved in " : "",
                   s->checkpoint ? s->checkpoint : "");
            break;
        }
    }
done:
    return code;
}

static int prepare(trainer *t, opened_device *opened) {
    const settings *s = t->settings;
    int code = EXIT_GOOD;
    gpt_config config = s->config;
    config.vocabulary = t->text.vocabulary.count;
    REPORT_TRY(gpt_model_create(&config, opened->runtime, opened->device, &t->model));
    size_t batch = s->config.batch * s->config.block;
    t->tokens = malloc(batch * sizeof *t->tokens);
    t->targets = malloc(batch * sizeof *t->targets);
    if (!t->tokens || !t->targets) {
        fprintf(stderr, "train_gpt: no memory for a batch of %zu tokens\n", batch);
        return EXIT_BAD_ARGUMENT;
    }
    t->progress = (gpt_progress){.random = {s->seed}, .seed = s->seed};
    if (s->resume) {
        if (!gpt_checkpoint_load(s->resume, &t->model, &t->text, &t->progress)) return EXIT_BAD_ARGUMENT;
        if (t->progress.seed != s->seed) {
            fprintf(stderr,
                    "train_gpt: the checkpoint in '%s' was made with --seed %" PRIu64 ", not %" PRIu64 "\n",
                    s->resume, t->progress.seed, s->seed);
            return EXIT_BAD_ARGUMENT;
        }
    } else {
        REPORT_TRY(gpt_model_initialize(&t->model, &t->progress.random));
    }
    uint64_t begin = rota_clock_ns();
    REPORT_TRY(gpt_plan_train(&t->model, &t->train));
    REPORT_TRY(gpt_plan_loss(&t->model, s->config.batch, s->config.block, &t->loss));
    if (s->dot) REPORT_TRY(rota_plan_write_dot(t->train.plan, s->dot));
    rota_plan_stats stats;
    rota_plan_get_stats(t->train.plan, &stats);
    printf("%zu tokens of %u kinds; %" PRIu64 " weights; one step is a graph of %" PRIu64 " nodes in %" PRIu64
           " batches, arena %.1f MiB, compiled in %.0f ms and replayed each step\n",
           t->text.count, t->text.vocabulary.count, t->model.weight_count, stats.nodes, stats.batches,
           (double)stats.arena_bytes / (1 << 20), (double)(rota_clock_ns() - begin) / 1e6);
    if (s->resume)
        printf("resumed after step %" PRIu64 "%s\n", t->progress.step,
               t->progress.step < s->iters ? "" : ", the last of --iters: nothing is left to train");
done:
    return code;
}

static int run(const settings *s) {
    trainer t = {.settings = s};
    if (s->checkpoint && !gpt_checkpoint_folder(s->checkpoint)) return EXIT_BAD_ARGUMENT;
    if (!gpt_text_read(&t.text, &s->source)) return EXIT_BAD_ARGUMENT;
    if (s->write_tokens) {
        bool good = gpt_text_tokenize(&t.text, &s->source) &&
                    gpt_tokens_write(s->write_tokens, t.text.tokens, t.text.count);
        if (good)
            printf("%zu tokens of %u kinds are in %s\n", t.text.count, t.text.vocabulary.count,
                   s->write_tokens);
        gpt_text_free(&t.text);
        return good ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    }
    opened_device opened;
    int code =
        report_open(program, s->device, &(rota_runtime_options){.diagnostics = s->trace != NULL}, &opened);
    if (code == EXIT_GOOD && !gpt_text_tokenize(&t.text, &s->source)) code = EXIT_BAD_ARGUMENT;
    if (code == EXIT_GOOD) code = prepare(&t, &opened);
    if (code == EXIT_GOOD) {
        if (gpt_meter_open(&t.meter, s->log, s->resume != NULL, t.progress.step + 1, s->iters)) {
            code = train(&t);
            if (code == EXIT_GOOD && s->trace) REPORT_TRY(rota_plan_write_trace(t.train.plan, s->trace));
        } else {
            code = EXIT_BAD_ARGUMENT;
        }
    }
    if (code == EXIT_GOOD && s->sample && !interrupted) {
        gpt_meter_break(&t.meter);
        printf("\n");
        REPORT_TRY(write_sample(&t.model, &t.text, s->sample, t.progress.random));
    }
done:
    if (!gpt_meter_close(&t.meter) && code == EXIT_GOOD) code = EXIT_BAD_ARGUMENT;
    gpt_plan_free(&t.train);
    gpt_plan_free(&t.loss);
    gpt_model_free(&t.model);
    report_close(&opened);
    gpt_text_free(&t.text);
    free(t.tokens);
    free(t.targets);
    return code;
}

/* Options that say nothing beside the others are mistakes. */
static bool check_source(gpt_source *d) {
    const char *wrong = NULL;
    if (d->validation && d->tokenizer != GPT_BIN) wrong = "--val-data goes with --tokenizer bin";
    if (d->merges && d->tokenizer < GPT_BPE) wrong = "--merges goes with --tokenizer bpe or bin";
    if (d->vocabulary && !d->merges) wrong = "--merges-vocab goes with --merges";
    if (d->cache && (d->tokenizer != GPT_BPE || d->merges))
        wrong = "--bpe-cache goes with --tokenizer bpe without --merges";
    if (d->count && d->tokenizer != GPT_BIN && (d->tokenizer != GPT_BPE || d->merges))
        wrong = "--vocab goes with --tokenizer bin, or with bpe without --merges";
    if (d->count && d->count < GPT_BPE_LEAST && d->tokenizer == GPT_BPE)
        wrong = "--vocab for byte pairs is at least 257: the bytes, and the end of text";
    if (wrong) fprintf(stderr, "train_gpt: %s\n", wrong);
    if (d->tokenizer == GPT_BPE && !d->count) d->count = BPE_TOKENS;
    return !wrong;
}

int main(int argc, char **argv) {
    settings s = {.iters = 2000,
                  .warmup = 100,
                  .eval_interval = 250,
                  .eval_iters = 20,
                  .seed = 1337,
                  .lr = 1e-3,
                  .min_lr = 1e-4,
                  .config = {.batch = 12,
                             .block = 64,
                             .layers = 4,
                             .heads = 4,
                             .dim = 128,
                             .weight_decay = 0.1,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .grad_clip = 1}};
    gpt_config *c = &s.config;
    gpt_source *d = &s.source;
    const option options[] = {
        {"--data", OPTION_STRING, &d->data, "FILE", 0, 0, true},
        {"--device", OPTION_STRING, &s.device, "auto|cpu|vk:N|cuda:N", 0, 0, false},
        {"--tokenizer", OPTION_CHOICE, &d->tokenizer, "char|byte|bpe|bin", 0, 0, false},
        {"--vocab", OPTION_COUNT, &d->count, "N", 1, GPT_BPE_MOST, false},
        {"--merges", OPTION_STRING, &d->merges, "merges.txt", 0, 0, false},
        {"--merges-vocab", OPTION_STRING, &d->vocabulary, "vocab.json", 0, 0, false},
        {"--bpe-cache", OPTION_STRING, &d->cache, "DIR", 0, 0, false},
        {"--val-data", OPTION_STRING, &d->validation, "FILE.bin", 0, 0, false},
        {"--write-tokens", OPTION_STRING, &s.write_tokens, "FILE.bin", 0, 0, false},
        {"--iters", OPTION_COUNT, &s.iters, "N", 1, 1e9, false},
        {"--batch", OPTION_COUNT, &c->batch, "N", 1, 1 << 20, false},
        {"--block", OPTION_COUNT, &c->block, "N", 1, 1 << 20, false},
        {"--layers", OPTION_COUNT, &c->layers, "N", 1, 1024, false},
        {"--heads", OPTION_COUNT, &c->heads, "N", 1, 1 << 20, false},
        {"--dim", OPTION_COUNT, &c->dim, "N", 1, 1 << 20, false},
        {"--dropout", OPTION_REAL, &c->dropout, "P", 0, 0.99, false},
        {"--lr", OPTION_REAL, &s.lr, "RATE", 0, 1e3, false},
        {"--min-lr", OPTION_REAL, &s.min_lr, "RATE", 0, 1e3, false},
        {"--warmup", OPTION_COUNT, &s.warmup, "N", 0, 1e9, false},
        {"--weight-decay", OPTION_REAL, &c->weight_decay, "RATE", 0, 1e3, false},
        {"--beta1", OPTION_REAL, &c->beta1, "B", 0, 0.999999, false},
        {"--beta2", OPTION_REAL, &c->beta2, "B", 0, 0.999999, false},
        {"--grad-clip", OPTION_REAL, &c->grad_clip, "NORM", 0, 1e9, false},
        {"--eval-interval", OPTION_COUNT, &s.eval_interval, "N", 0, 1e9, false},
        {"--eval-iters", OPTION_COUNT, &s.eval_iters, "N", 0, 1e6, false},
        {"--seed", OPTION_COUNT, &s.seed, "N", 0, 9007199254740992.0, false},
        {"--checkpoint", OPTION_STRING, &s.checkpoint, "DIR", 0, 0, false},
        {"--resume", OPTION_STRING, &s.resume, "DIR", 0, 0, false},
        {"--sample", OPTION_COUNT, &s.sample, "N", 0, 1e6, false},
        {"--log", OPTION_STRING, &s.log, "FILE.jsonl", 0, 0, false},
        {"--dot", OPTION_STRING, &s.dot, "FILE", 0, 0, false},
        {"--trace", OPTION_STRING, &s.trace, "FILE", 0, 0, false},
    };
    const size_t count = sizeof options / sizeof *options;
    option_result parsed = options_parse(program, options, count, argc - 1, argv + 1);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (c->dim % c->heads != 0) {
        fprintf(stderr, "train_gpt: --heads %" PRIu64 " does not divide --dim %" PRIu64 "\n", c->heads,
                c->dim);
        return EXIT_BAD_ARGUMENT;
    }
    d->block = c->block;
    if (!check_source(d)) return EXIT_BAD_ARGUMENT;
    if (s.min_lr > s.lr) {
        fprintf(stderr, "train_gpt: --min-lr %g is above --lr %g\n", s.min_lr, s.lr);
        return EXIT_BAD_ARGUMENT;
    }
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run(&s);
}
