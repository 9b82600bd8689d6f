/* train_gpt: a GPT that learns a text, from one forward/backward/optimizer graph built once and replayed each
 * step, and that writes. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/options.h"
#include "examples/common/checkpoint.h"
#include "examples/gpt/memory.h"
#include "examples/gpt/tokens.h"
#include "examples/gpt/train.h"
#include "examples/gpt/weights.h"

static const char program[] = "train_gpt";
#define BPE_TOKENS 8192 /* --tokenizer bpe without --vocab */

static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* Where all that training needs is little of a GPU's memory, it takes somewhat more and has nodes wait less: a step of
 * GPT-2 124M with 4 windows by 1.6 % (docs/measurements.md). */
#define LITTLE_OF_MEMORY 16

static rota_packing packing_of(const gpt_settings *s, const gpt_config *config,
                               const rota_device_info *info) {
    if (s->packing != GPT_PACK_AUTO)
        return s->packing == GPT_PACK_TIGHT ? ROTA_PACK_TIGHT : ROTA_PACK_CONCURRENT;
    return info->kind == ROTA_EXEC_CUDA && !s->memory_limit &&
                   LITTLE_OF_MEMORY * gpt_model_bytes(config) <= (double)info->memory_bytes
               ? ROTA_PACK_CONCURRENT
               : ROTA_PACK_TIGHT;
}

/* The model, its first weights, and where training stands. */
static int prepare_model(gpt_trainer *t, opened_device *opened) {
    const gpt_settings *s = t->settings;
    int code = EXIT_GOOD;
    const double infinite = INFINITY;
    gpt_config config = s->config;
    config.vocabulary = t->text.vocabulary.count;
    if (s->generate) config.batch = 0, config.dtype = ROTA_F32;
    REPORT_TRY(gpt_model_create(&config, opened->runtime, opened->device, &t->model));
    t->model.fuse = !s->no_fuse;
    t->model.packing = packing_of(s, &config, rota_device_get_info(opened->device));
    t->progress = (gpt_progress){.random = {s->seed}, .seed = s->seed};
    memcpy(&t->progress.best_bits, &infinite, sizeof infinite);
    if (s->resume) {
        if (!gpt_checkpoint_load(s->resume, &t->model, &t->text, &t->progress)) return EXIT_BAD_ARGUMENT;
        if (t->progress.seed != s->seed && !s->generate) {
            fprintf(stderr,
                    "train_gpt: the checkpoint in '%s' was made with --seed %" PRIu64 ", not %" PRIu64 "\n",
                    s->resume, t->progress.seed, s->seed);
            return EXIT_BAD_ARGUMENT;
        }
        return EXIT_GOOD;
    }
    /* The optimizer's state is set in any case. */
    REPORT_TRY(gpt_model_initialize(&t->model, &t->progress.random));
    if (s->init_from && !gpt_weights_load(s->init_from, &t->model)) code = EXIT_BAD_ARGUMENT;
done:
    return code;
}

static int prepare_training(gpt_trainer *t) {
    const gpt_settings *s = t->settings;
    int code = EXIT_GOOD;
    uint64_t begin = rota_clock_ns();
    progress_bar bar;
    progress_begin(&bar, "compiling", NULL, 0);
    rota_status status = gpt_plan_train(&t->model, s->find_nan, &t->train);
    const bool made = status == ROTA_OK;
    if (made && s->eval_iters)
        status = gpt_plan_loss(&t->model, s->config.batch, s->config.block, &t->train, &t->loss);
    progress_end(&bar);
    if (!made) return gpt_memory_failure(program, status, &t->model);
    REPORT_TRY(status);
    REPORT_TRY(plan_pictures_write(&s->pictures, t->train.plan));
    rota_plan_stats stats = ROTA_PLAN_STATS();
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

/* Writes on from the prompt; without one, from the text's first token, or from the end of a text. */
static int write_sample(gpt_trainer *t) {
    const gpt_settings *s = t->settings;
    const gpt_vocabulary *vocabulary = &t->text.vocabulary;
    const size_t size = s->prompt ? strlen(s->prompt) : 0;
    int code = EXIT_GOOD;
    size_t count = 1;
    int32_t *prompt = malloc((size + 1) * sizeof *prompt);
    if (!prompt) {
        fprintf(stderr, "train_gpt: no memory for a prompt\n");
        return EXIT_BAD_ARGUMENT;
    }
    prompt[0] = t->text.count           ? t->text.tokens[0]
                : vocabulary->bpe.count ? (int32_t)gpt_bpe_end_of_text(&vocabulary->bpe)
                                        : '\n';
    if (s->prompt &&
        !gpt_vocabulary_encode(vocabulary, (const unsigned char *)s->prompt, size, NULL, prompt, &count)) {
        code = EXIT_BAD_ARGUMENT;
        goto done;
    }
    if (s->prompt) printf("%s", s->prompt);
    random_state random = s->generate ? (random_state){s->seed} : t->progress.random;
    REPORT_TRY(
        gpt_write(&t->model, vocabulary, prompt, count, s->sample, &s->sampling, random, &interrupted));
done:
    free(prompt);
    return code;
}

/* What the report says beside what it was given step by step. */
static int write_report(gpt_trainer *t) {
    const gpt_settings *s = t->settings;
    const gpt_config *c = &s->config;
    char text[256];
    gpt_meter_break(&t->meter);
    snprintf(text, sizeof text,
             "%" PRIu64 " layers, %" PRIu64 " heads, dim %" PRIu64 ", block %" PRIu64 ", %u tokens, %" PRIu64
             " weights, f32",
             c->layers, c->heads, c->dim, c->block, t->text.vocabulary.count, t->model.weight_count);
    run_report_add_fact(t->report, "Model", text);
    snprintf(text, sizeof text, "%" PRIu64 " windows, in %" PRIu64 " part(s); dropout %g; seed %" PRIu64,
             t->train.rows, t->train.micro_batches, c->dropout, s->seed);
    run_report_add_fact(t->report, "A step's batch", text);
    run_report_add_fact(t->report, "Text", s->source.data);
    run_report_measure(t->report, t->model.runtime, t->model.device);
    if (!run_report_write(t->report, t->model.device)) return EXIT_BAD_ARGUMENT;
    printf("the report is in %s\n", s->report);
    return EXIT_GOOD;
}

static int train_and_write(gpt_trainer *t) {
    const gpt_settings *s = t->settings;
    int code = prepare_training(t);
    if (code != EXIT_GOOD) return code;
    if (s->report) {
        t->report = run_report_create(&(run_report_options){s->report, "GPT on text", "tokens per second",
                                                            NULL, s->argc, s->argv,
                                                            t->model.weight_count * 3 * sizeof(float)});
        if (!t->report) return EXIT_BAD_ARGUMENT;
    }
    if (!gpt_meter_open(&t->meter, s->log, s->tensorboard, s->resume != NULL, t->progress.step + 1, s->iters))
        return EXIT_BAD_ARGUMENT;
    code = gpt_train(t);
    if (code == EXIT_GOOD && t->report) code = write_report(t);
    if (code == EXIT_GOOD && s->trace) REPORT_TRY(rota_plan_write_trace(t->train.plan, s->trace));
    gpt_meter_break(&t->meter);
    if (code == EXIT_GOOD && s->sample && !interrupted) {
        printf("\n");
        code = write_sample(t);
    }
done:
    if (!gpt_meter_close(&t->meter) && code == EXIT_GOOD) code = EXIT_BAD_ARGUMENT;
    return code;
}

static int run(const gpt_settings *s) {
    gpt_trainer t = {.settings = s, .interrupted = &interrupted};
    if (s->checkpoint && !checkpoint_folder(s->checkpoint)) return EXIT_BAD_ARGUMENT;
    if (!(s->source.data ? gpt_text_read(&t.text, &s->source) : gpt_text_vocabulary(&t.text, &s->source)))
        return EXIT_BAD_ARGUMENT;
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
        report_open(program, s->device,
                    &ROTA_RUNTIME_OPTIONS(.diagnostics = s->trace || s->report, .debug_names = s->debug_names,
                                          .timeout_ns = s->timeout * 1000000000u,
                                          .memory_limit_bytes = s->memory_limit, OPTION_CAPTURED(s->capture)),
                    &opened);
    if (code == EXIT_GOOD && s->source.data && !gpt_text_tokenize(&t.text, &s->source))
        code = EXIT_BAD_ARGUMENT;
    if (code == EXIT_GOOD) code = prepare_model(&t, &opened);
    if (code == EXIT_GOOD) code = s->generate ? write_sample(&t) : train_and_write(&t);
    gpt_plan_free(&t.train);
    gpt_plan_free(&t.loss);
    gpt_model_free(&t.model);
    report_close(&opened);
    run_report_free(t.report);
    gpt_text_free(&t.text);
    return code;
}

/* Whether an option was given that says otherwise than the checkpoint, with a sentence that names both. */
static bool contradicts(const option_table *table, const gpt_settings *s, const char *name, const char *given,
                        const char *stored) {
    if (!options_given(table, s->argc - 1, s->argv + 1, name)) return false;
    fprintf(stderr, "train_gpt: %s %s contradicts '%s', which was made with %s %s\n", name, given,
            s->stored.path, name, stored);
    return true;
}

/* The word of an option's choices that has this number. */
static void choice_word(const option_table *table, const char *name, uint64_t index, char out_word[16]) {
    out_word[0] = 0;
    for (size_t i = 0; i < table->option_count; i++) {
        const option *o = &table->options[i];
        if (strcmp(o->name, name) != 0) continue;
        const char *word = o->form;
        while (index-- && *word) word += strcspn(word, "|"), word += *word == '|';
        snprintf(out_word, 16, "%.*s", (int)strcspn(word, "|"), word);
    }
}

/* How many tokens there are to be, and, for training, which. */
static bool take_stored_data(const option_table *table, gpt_settings *s) {
    const gpt_stored *stored = &s->stored;
    gpt_source *d = &s->source;
    const uint64_t count = stored->asked ? stored->asked : stored->vocabulary;
    if (d->count && d->count != count && d->tokenizer >= GPT_BPE) {
        char given[24], there[24];
        snprintf(given, sizeof given, "%" PRIu64, d->count);
        snprintf(there, sizeof there, "%" PRIu64, count);
        if (contradicts(table, s, "--vocab", given, there)) return false;
    }
    if (d->tokenizer == GPT_BIN) d->count = count;
    if (d->tokenizer == GPT_BPE && d->stored) d->count = stored->asked;
    if (s->generate || d->data) return true;
    d->data = stored->data;
    if (!d->validation) d->validation = stored->val_data;
    return true;
}

/* What a checkpoint says of model, tokens and data is taken; a setting that is given and says otherwise is a
 * mistake. */
static bool take_stored(const option_table *table, gpt_settings *s) {
    gpt_stored *stored = &s->stored;
    gpt_source *d = &s->source;
    if (!gpt_stored_read(s->resume, stored)) return false;
    uint64_t arch = (uint64_t)s->config.arch, tokenizer = (uint64_t)d->tokenizer, seed = s->seed;
    const struct {
        const char *name;
        uint64_t *value, stored;
        bool counts, is_word;
    } rows[] = {{"--block", &s->config.block, stored->block, true, false},
                {"--layers", &s->config.layers, stored->layers, true, false},
                {"--heads", &s->config.heads, stored->heads, true, false},
                {"--dim", &s->config.dim, stored->dim, true, false},
                {"--arch", &arch, stored->arch, true, true},
                {"--tokenizer", &tokenizer, (uint64_t)stored->tokenizer, stored->tokenizer >= 0, true},
                /* What is written has a chance of its own. */
                {"--seed", &seed, stored->seed, !s->generate, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].counts || *rows[i].value == rows[i].stored) continue;
        char given[24], there[24];
        snprintf(given, sizeof given, "%" PRIu64, *rows[i].value);
        snprintf(there, sizeof there, "%" PRIu64, rows[i].stored);
        if (rows[i].is_word) {
            choice_word(table, rows[i].name, *rows[i].value, given);
            choice_word(table, rows[i].name, rows[i].stored, there);
        }
        if (contradicts(table, s, rows[i].name, given, there)) return false;
        *rows[i].value = rows[i].stored;
    }
    s->config.arch = (int)arch;
    d->tokenizer = (int)tokenizer;
    s->seed = seed;
    if (stored->tokenizer < 0) return true;
    if (!d->merges) d->stored = stored;
    return take_stored_data(table, s);
}

/* Options that say nothing beside the others are mistakes. */
static bool check_settings(gpt_settings *s) {
    gpt_source *d = &s->source;
    gpt_config *c = &s->config;
    char number[160];
    const char *wrong = NULL;
    if (!d->data && (!s->generate || s->write_tokens))
        wrong = "--data FILE is needed, except with --generate";
    if (d->validation && d->tokenizer != GPT_BIN) wrong = "--val-data goes with --tokenizer bin";
    if (s->generate && *s->generate && s->prompt)
        wrong = "--generate TEXT and --prompt TEXT both say what the text begins with";
    if (d->merges && d->tokenizer < GPT_BPE) wrong = "--merges goes with --tokenizer bpe or bin";
    if (d->vocabulary && !d->merges) wrong = "--merges-vocab goes with --merges";
    if (d->cache && (d->tokenizer != GPT_BPE || d->merges))
        wrong = "--bpe-cache goes with --tokenizer bpe without --merges";
    if (d->count && d->tokenizer != GPT_BIN && (d->tokenizer != GPT_BPE || d->merges))
        wrong = "--vocab goes with --tokenizer bin, or with bpe without --merges";
    if (d->count && d->count < GPT_BPE_LEAST && d->tokenizer == GPT_BPE)
        wrong = "--vocab for byte pairs is at least 257: the bytes, and the end of text";
    if (s->generate && !s->resume && !s->init_from)
        wrong = "--generate needs a model's weights: --resume DIR or --init-from FILE";
    if (s->init_from && s->resume) wrong = "--init-from and --resume both say where the weights come from";
    if (c->dim % c->heads != 0) {
        snprintf(number, sizeof number, "--heads %" PRIu64 " does not divide --dim %" PRIu64, c->heads,
                 c->dim);
        wrong = number;
    }
    if (s->min_lr > s->lr) {
        snprintf(number, sizeof number, "--min-lr %g is above --lr %g", s->min_lr, s->lr);
        wrong = number;
    }
    if (wrong) fprintf(stderr, "train_gpt: %s\n", wrong);
    if (s->generate && *s->generate) s->prompt = s->generate;
    if (d->tokenizer == GPT_BPE && !d->merges && !d->stored && !d->count) d->count = BPE_TOKENS;
    if (s->generate && !s->sample) s->sample = 200;
    d->block = c->block;
    return !wrong;
}

/* NOLINTNEXTLINE(readability-function-size): most of it is the table of options */
int main(int argc, char **argv) {
    gpt_settings s = {.argc = argc,
                      .argv = argv,
                      .iters = 2000,
                      .warmup = 100,
                      .eval_interval = 250,
                      .eval_iters = 20,
                      .seed = 1337,
                      .timeout = 120,
                      .lr = 1e-3,
                      .min_lr = 1e-4,
                      .sampling = {.temperature = 0.8, .top_p = 1},
                      .config = {.batch = 12,
                                 .accumulate = 1,
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
        OPTION_ROW_HEADING("Data and tokens"),
        {"--data", OPTION_STRING, &d->data, "FILE", 0, 0, false, "the text, or a file of tokens"},
        {"--tokenizer", OPTION_CHOICE, &d->tokenizer, "char|byte|bpe|bin", 0, 0, false,
         "what a token is: a character, a byte, a learned pair of bytes, or a number of a .bin file"},
        {"--vocab", OPTION_COUNT, &d->count, "N", 1, GPT_BPE_MOST, false,
         "how many tokens: byte pairs to learn (8192 by default), or what a .bin file may hold"},
        {"--merges", OPTION_STRING, &d->merges, "merges.txt", 0, 0, false,
         "byte pairs as GPT-2's merges.txt has them"},
        {"--merges-vocab", OPTION_STRING, &d->vocabulary, "vocab.json", 0, 0, false,
         "their numbers as GPT-2's vocab.json has them"},
        {"--bpe-cache", OPTION_STRING, &d->cache, "DIR", 0, 0, false,
         "where learned byte pairs are kept; by default in the user's cache"},
        {"--val-data", OPTION_STRING, &d->validation, "FILE.bin", 0, 0, false,
         "tokens to validate on; by default the last tenth of --data"},
        {"--write-tokens", OPTION_OUTPUT, &s.write_tokens, "FILE.bin", 0, 0, false,
         "write the tokens of --data there, and stop"},
        OPTION_ROW_HEADING("Model"),
        {"--arch", OPTION_CHOICE, &c->arch, "plain|gpt2", 0, 0, false,
         "the model: without biases, or GPT-2's"},
        {"--block", OPTION_COUNT, &c->block, "N", 1, 1 << 20, false, "tokens of a window"},
        {"--layers", OPTION_COUNT, &c->layers, "N", 1, 1024, false, "layers of the model"},
        {"--heads", OPTION_COUNT, &c->heads, "N", 1, 1 << 20, false, "attention heads of a layer"},
        {"--dim", OPTION_COUNT, &c->dim, "N", 1, 1 << 20, false, "width of the model"},
        {"--dropout", OPTION_REAL, &c->dropout, "P", 0, 0.99, false,
         "share of the activations that is dropped in training"},
        OPTION_ROW_HEADING("Weights and going on later"),
        {"--init-from", OPTION_STRING, &s.init_from, "FILE.safetensors", 0, 0, false,
         "weights to begin with"},
        {"--save-weights", OPTION_OUTPUT, &s.save_weights, "FILE.safetensors", 0, 0, false,
         "write the weights there at the end"},
        {"--weights-dtype", OPTION_CHOICE, &s.weights_dtype, "f32|f16|bf16", 0, 0, false,
         "of --save-weights"},
        {"--checkpoint", OPTION_STRING, &s.checkpoint, "DIR", 0, 0, false,
         "keep the state there: at each look at the validation loss, at the end, at Ctrl-C"},
        {"--resume", OPTION_STRING, &s.resume, "DIR", 0, 0, false,
         "go on from a checkpoint (its folder, or its file), whose model, tokens and data are taken"},
        OPTION_ROW_HEADING("Training"),
        {"--dtype", OPTION_CHOICE, &c->dtype, "f32|f16|bf16", 0, 0, false,
         "what training computes in; weights are kept as f32"},
        {"--iters", OPTION_COUNT, &s.iters, "N", 1, 1e9, false, "steps to train"},
        {"--batch", OPTION_COUNT, &c->batch, "N", 1, 1 << 20, false, "windows of a micro-batch"},
        {"--accumulate", OPTION_COUNT, &c->accumulate, "N", 1, 1024, false, "micro-batches of a step"},
        {"--lr", OPTION_REAL, &s.lr, "RATE", 0, 1e3, false, "learning rate, after the warm-up"},
        {"--min-lr", OPTION_REAL, &s.min_lr, "RATE", 0, 1e3, false, "learning rate at the end"},
        {"--schedule", OPTION_CHOICE, &s.schedule, "cosine|linear|constant", 0, 0, false,
         "how it falls from one to the other"},
        {"--warmup", OPTION_COUNT, &s.warmup, "N", 0, 1e9, false, "steps in which it rises from 0"},
        {"--weight-decay", OPTION_REAL, &c->weight_decay, "RATE", 0, 1e3, false, "of the matrices"},
        {"--beta1", OPTION_REAL, &c->beta1, "B", 0, 0.999999, false, "AdamW's, of the mean"},
        {"--beta2", OPTION_REAL, &c->beta2, "B", 0, 0.999999, false, "AdamW's, of the mean square"},
        {"--grad-clip", OPTION_REAL, &c->grad_clip, "NORM", 0, 1e9, false,
         "largest norm of the gradient; 0: any"},
        {"--seed", OPTION_COUNT, &s.seed, "N", 0, 9007199254740992.0, false,
         "of the first weights, the batches, dropout and writing"},
        OPTION_ROW_HEADING("Validation"),
        {"--eval-interval", OPTION_COUNT, &s.eval_interval, "N", 0, 1e9, false,
         "steps between two looks at the validation loss; 0: only at the end"},
        {"--eval-iters", OPTION_COUNT, &s.eval_iters, "N", 0, 1e6, false,
         "random batches of such a look; 0: no looks at all"},
        {"--patience", OPTION_COUNT, &s.patience, "N", 1, 1e9, false,
         "stop after so many looks without a better loss; none by default"},
        OPTION_ROW_HEADING("Writing"),
        {"--generate", OPTION_OPTIONAL, &s.generate, "[TEXT]", 0, 0, false,
         "write on from TEXT, train nothing; with --resume nothing else is needed"},
        {"--sample", OPTION_COUNT, &s.sample, "N", 0, 1e6, false,
         "tokens to write at the end; 200 with --generate"},
        {"--prompt", OPTION_STRING, &s.prompt, "TEXT", 0, 0, false, "what the text begins with"},
        {"--temperature", OPTION_REAL, &s.sampling.temperature, "T", 0, 100, false,
         "below 1: likelier tokens; 0: the likeliest"},
        {"--top-k", OPTION_COUNT, &s.sampling.top_k, "K", 1, 1e9, false,
         "choose among the K likeliest tokens; all by default"},
        {"--top-p", OPTION_REAL, &s.sampling.top_p, "P", 1e-9, 1, false,
         "choose among the likeliest that together have this probability"},
        OPTION_ROW_HEADING("Execution"),
        OPTION_ROW_DEVICE(s.device),
        {"--no-fuse", OPTION_FLAG, &s.no_fuse, NULL, 0, 0, false, "elementwise nodes one by one"},
        {"--find-nan", OPTION_FLAG, &s.find_nan, NULL, 0, 0, false,
         "stop at the first number that is not finite, and name its tensor"},
        {"--packing", OPTION_CHOICE, &s.packing, "auto|tight|concurrent", 0, 0, false,
         "of memory between nodes: the least, or so that they wait least; auto: by how much there is"},
        {"--memory-limit", OPTION_COUNT, &s.memory_limit, "BYTES", 1, 1e18, false,
         "device memory that is used at most; all by default"},
        {"--timeout", OPTION_COUNT, &s.timeout, "SECONDS", 1, 1e9, false,
         "how long a device may get no further"},
        OPTION_ROW_HEADING("What is written of the run"),
        {"--log", OPTION_OUTPUT, &s.log, "FILE.jsonl", 0, 0, false,
         "write a line of JSON there for each step"},
        {"--tensorboard", OPTION_STRING, &s.tensorboard, "DIR", 0, 0, false,
         "write the same there for TensorBoard"},
        OPTION_ROWS_PICTURES(s.pictures),
        OPTION_ROW_TRACE(s.trace),
        OPTION_ROW_DEBUG_NAMES(s.debug_names),
        OPTION_ROW_CAPTURE(s.capture),
        {"--report", OPTION_OUTPUT, &s.report, "FILE.html", 0, 0, false,
         "write there a page with curves and times"},
    };
    const option_table table = {
        program,
        "trains a GPT on a text, and writes with it",
        "train_gpt --data book.txt --iters 500 --checkpoint run --sample 400\n"
        "train_gpt --data book.txt --tokenizer bpe --vocab 4K --layers 6 --heads 6 --dim 384\n"
        "train_gpt --resume run --iters 4K --checkpoint run --report run.html\n"
        "train_gpt --resume run --generate \"Once upon a time\"\n"
        "train_gpt --data tokens.bin --tokenizer bin --arch gpt2 --dtype bf16 --init-from gpt2.safetensors",
        options,
        sizeof options / sizeof *options,
        NULL};
    const option_result parsed = options_parse(&table, argc - 1, argv + 1);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int code = EXIT_BAD_ARGUMENT;
    if (s.resume && !take_stored(&table, &s)) goto done;
    if (!s.source.data && !s.generate)
        options_bad(&table, "--data FILE is needed, except with --generate");
    else if (plan_pictures_good(&table, &s.pictures) && check_settings(&s))
        code = run(&s);
done:
    gpt_stored_free(&s.stored);
    return report_end(program, code);
}
