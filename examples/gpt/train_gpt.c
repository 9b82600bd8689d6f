/* train_gpt: a GPT that learns a text, from one forward/backward/optimizer graph built once and replayed each
 * step, and that writes. What the command line says is here, what is done then in run.c. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "bench/launched.h"
#include "bench/options.h"
#include "examples/gpt/run.h"

static const char program[] = "train_gpt";
#define BPE_TOKENS 8192 /* --tokenizer bpe without --vocab */

/* Read by the threads of all ranks. */
static atomic_bool interrupted;
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler takes no lock");
static void on_interrupt(int signal_number) {
    (void)signal_number;
    atomic_store(&interrupted, true);
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

/* Whether ranks can't have a model together so, and why. */
static bool check_tensor_parallel(const gpt_settings *s, char *text, size_t capacity) {
    const uint64_t n = s->tensor_parallel;
    if (n < 2) return false;
    if (s->ranks && s->ranks % n != 0)
        snprintf(text, capacity, "--tensor-parallel %" PRIu64 " does not divide --ranks %" PRIu64, n,
                 s->ranks);
    else if (s->config.heads % n != 0)
        snprintf(text, capacity,
                 "--tensor-parallel %" PRIu64 " does not divide --heads %" PRIu64
                 ": each rank has as many of them",
                 n, s->config.heads);
    else if (s->shard_optimizer || s->shard_parameters)
        snprintf(text, capacity,
                 "--tensor-parallel does not go with --shard-optimizer and --shard-parameters");
    else
        return false;
    return true;
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
    if (check_tensor_parallel(s, number, sizeof number)) wrong = number;
    if (s->min_lr > s->lr) {
        snprintf(number, sizeof number, "--min-lr %g is above --lr %g", s->min_lr, s->lr);
        wrong = number;
    }
    if (s->bucket && (s->shard_optimizer || s->shard_parameters))
        wrong = "--bucket is of gradients that each rank gets whole, which --shard-optimizer and "
                "--shard-parameters have none of";
    if (s->keep_every && (!s->checkpoint || launched_ranks() < 2))
        wrong = "--keep-every goes with --checkpoint DIR, and with ranks that are processes";
    if (s->keep_every && (s->shard_optimizer || s->shard_parameters || s->tensor_parallel > 1))
        wrong = "--keep-every is for ranks of which each has all: not with --shard-optimizer and the like";
    if (s->checkpoint_shards && !s->checkpoint) wrong = "--checkpoint-shards goes with --checkpoint DIR";
    if (s->write_tokens && s->ranks > 1) wrong = "--write-tokens is what one rank does, without --ranks";
    if (wrong) fprintf(stderr, "train_gpt: %s\n", wrong);
    if (s->generate && *s->generate) s->prompt = s->generate;
    if (d->tokenizer == GPT_BPE && !d->merges && !d->stored && !d->count) d->count = BPE_TOKENS;
    if (s->generate && !s->sample) s->sample = 200;
    if (!s->ranks && s->tensor_parallel > 1 && launched_ranks() < 2) s->ranks = s->tensor_parallel;
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
        {"--checkpoint-shards", OPTION_FLAG, &s.checkpoint_shards, NULL, 0, 0, false,
         "each rank writes a file of it, which any number of ranks goes on from"},
        {"--resume", OPTION_STRING, &s.resume, "DIR", 0, 0, false,
         "go on from a checkpoint (its folder, its file or its index), whose model, tokens and data are "
         "taken"},
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
        {"--host-loop", OPTION_FLAG, &s.host_loop, NULL, 0, 0, false,
         "a submission a token, also on devices that write on by themselves"},
        OPTION_ROW_HEADING("Execution"),
        {"--device", OPTION_STRING, &s.device, OPTION_DEVICES "|cuda", 0, 0, false,
         "where it runs; auto, the default: the best device that passes its smoke test; cuda: a GPU for each "
         "rank, "
         "with "
         "collectives by NCCL"},
        {"--ranks", OPTION_COUNT, &s.ranks, "N", 1, GPT_RANKS_MOST, false,
         "train as N ranks of this process, each with --batch windows; under rota-run or mpirun, which start "
         "them, it "
         "need not be said"},
        {"--tensor-parallel", OPTION_COUNT, &s.tensor_parallel, "N", 1, GPT_RANKS_MOST, false,
         "N ranks have one model together, each some of its heads, of the wide layers and of the vocabulary; "
         "--ranks "
         "is a multiple, and by default N"},
        {"--bucket", OPTION_COUNT, &s.bucket, "BYTES", 4096, 1e15, false,
         "of gradients that ranks reduce together, beside the backward pass; by default 4Mi, of more than 32 "
         "ranks 128Ki for each, with cuda 32Mi; not of shards"},
        {"--shard-optimizer", OPTION_FLAG, &s.shard_optimizer, NULL, 0, 0, false,
         "each rank keeps and updates a part of weights and AdamW's state; all weights are gathered for a "
         "step, "
         "and gradients reduced to parts (ZeRO-1)"},
        {"--shard-parameters", OPTION_FLAG, &s.shard_parameters, NULL, 0, 0, false,
         "the same, with weights gathered layer by layer, and gradients reduced so (ZeRO-3)"},
        {"--keep-every", OPTION_COUNT, &s.keep_every, "N", 1, 1e9, false,
         "each N steps a rank keeps the training in its host's memory, two or three times, and saves that "
         "when "
         "another rank is lost; never by default"},
        {"--deterministic", OPTION_FLAG, &s.deterministic, NULL, 0, 0, false,
         "no way of computing is chosen by measuring: the same losses to the bit in every process on a GPU "
         "of one "
         "model, whatever its cache holds"},
        {"--no-fuse", OPTION_FLAG, &s.no_fuse, NULL, 0, 0, false, "elementwise nodes one by one"},
        {"--find-nan", OPTION_FLAG, &s.find_nan, NULL, 0, 0, false,
         "stop at the first number that is not finite, and name its tensor"},
        {"--packing", OPTION_CHOICE, &s.packing, "auto|tight|concurrent", 0, 0, false,
         "of memory between nodes: the least, or so that they wait least; auto: by how much there is"},
        {"--memory-limit", OPTION_COUNT, &s.memory_limit, "BYTES", 1, 1e18, false,
         "device memory that is used at most; all by default; what has no room is computed again"},
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
        OPTION_ROW_PROFILE(s.profile),
    };
    const option_table table = {
        program,
        "trains a GPT on a text, and writes with it",
        "train_gpt --data book.txt --iters 500 --checkpoint run --sample 400\n"
        "train_gpt --data book.txt --tokenizer bpe --vocab 4K --layers 6 --heads 6 --dim 384\n"
        "train_gpt --data book.txt --ranks 4 --batch 3\n"
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
        code = gpt_run(&s, &interrupted);
done:
    gpt_stored_free(&s.stored);
    return report_end(program, code);
}
