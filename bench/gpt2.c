/* rota-bench gpt2: train_gpt's step of GPT-2, and PyTorch's beside it in the same call. PyTorch's side is
 * gpt2_torch_step.py, which this program carries; each side is a process of its own. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/commands.h"
#include "bench/files.h"
#include "bench/options.h"
#include "bench/report.h"
#include "gpt2_torch_step.h"

static const char program[] = "rota-bench gpt2";

enum { BATCHES_MAX = 16, ARGUMENTS_MAX = 64, DRAWN_TOKENS = 1 << 21, SKIPPED = 77, NOT_STARTED = 127 };
enum { AGAINST_NOTHING, AGAINST_TORCH };

typedef struct settings {
    const char *data, *device, *batches, *trainer, *modes, *attentions, *out;
    uint64_t steps, ranks, layers, heads, dim, block, vocabulary, seed, variant_seconds;
    int against;
} settings;

/* What one run came to. */
typedef struct row {
    char name[48];
    double median_ms, least_ms, most_ms, first_loss, last_loss;
    bool is_checked;
} row;

/* ---- Files: in a folder that is gone at the end ---- */

typedef struct folder {
    char path[PATH_MAX], tokens[PATH_MAX + 16], script[PATH_MAX + 16], log[PATH_MAX + 16],
        result[PATH_MAX + 16];
} folder;

static bool make_folder(folder *f) {
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent) parent = "/tmp";
    const bool fits = snprintf(f->path, sizeof f->path, "%s/rota-gpt2-XXXXXX", parent) < (int)sizeof f->path;
    if (!fits || !mkdtemp(f->path)) {
        fprintf(stderr, "%s: no folder for temporary files in '%s': %s\n", program, parent,
                strerror(fits ? errno : ENAMETOOLONG));
        return false;
    }
    snprintf(f->tokens, sizeof f->tokens, "%s/tokens.bin", f->path);
    snprintf(f->script, sizeof f->script, "%s/step.py", f->path);
    snprintf(f->log, sizeof f->log, "%s/log.jsonl", f->path);
    snprintf(f->result, sizeof f->result, "%s/result.json", f->path);
    return true;
}

static void remove_folder(const folder *f) {
    const char *files[] = {f->tokens, f->script, f->log, f->result};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) (void)unlink(files[i]);
    (void)rmdir(f->path);
}

/* Tokens by Zipf's law, as words of a language are: the chance of the n-th is that of 1 / n. As llm.c writes them: 256
 * words of 32 bits (a mark, the version, how many), then 16 bits each. */
static bool draw_tokens(const settings *s, const char *path) {
    file_writer file;
    uint32_t header[256] = {20240520, 1, DRAWN_TOKENS};
    unsigned short state[3] = {(unsigned short)s->seed, (unsigned short)(s->seed >> 16), 1};
    uint16_t *tokens = malloc(DRAWN_TOKENS * sizeof *tokens);
    if (!tokens || !file_open(&file, path)) {
        if (!tokens) fprintf(stderr, "%s: no memory for %d tokens\n", program, DRAWN_TOKENS);
        free(tokens);
        return false;
    }
    for (uint32_t i = 0; i < DRAWN_TOKENS; i++) {
        const double drawn = exp(erand48(state) * log((double)s->vocabulary)) - 1;
        tokens[i] = (uint16_t)(drawn < (double)s->vocabulary - 1 ? drawn : (double)s->vocabulary - 1);
    }
    file_put(&file, header, sizeof header);
    file_put(&file, tokens, DRAWN_TOKENS * sizeof *tokens);
    free(tokens);
    return file_commit(&file);
}

static bool write_script(const char *path) {
    file_writer file;
    if (!file_open(&file, path)) return false;
    file_put(&file, gpt2_torch_step, sizeof gpt2_torch_step - 1);
    return file_commit(&file);
}

/* ---- Processes ---- */

typedef struct command {
    const char *words[ARGUMENTS_MAX];
    char numbers[ARGUMENTS_MAX][24];
    int count;
} command;

static void add(command *c, const char *word) {
    if (c->count < ARGUMENTS_MAX - 1) c->words[c->count++] = word;
}

static void add_number(command *c, const char *name, uint64_t value) {
    add(c, name);
    snprintf(c->numbers[c->count], sizeof c->numbers[0], "%" PRIu64, value);
    add(c, c->numbers[c->count]);
}

/* What both sides have the same options for. */
static void add_model(command *c, const settings *s, uint64_t batch) {
    add_number(c, "--batch", batch);
    add_number(c, "--layers", s->layers);
    add_number(c, "--heads", s->heads);
    add_number(c, "--dim", s->dim);
    add_number(c, "--block", s->block);
    add_number(c, "--vocab", s->vocabulary);
    add_number(c, "--seed", s->seed);
}

/* Signals that ask this program to end are taken between its steps (run_command), so that its folder goes first. They
 * are blocked from the begin of `run` on, and so is SIGCHLD, for a wait for both. What is ignored, as by nohup, stays
 * so. */
typedef struct signals {
    sigset_t taken, before;
    int asked; /* the one that came; 0: none */
} signals;

static void take_signals(signals *g) {
    *g = (signals){0};
    const int asking[] = {SIGINT, SIGTERM, SIGHUP};
    (void)signal(SIGCHLD, SIG_DFL); /* a parent that ignores it hands that on: no child's end would be told */
    sigemptyset(&g->taken);
    sigaddset(&g->taken, SIGCHLD);
    for (size_t i = 0; i < sizeof asking / sizeof *asking; i++) {
        struct sigaction now;
        if (sigaction(asking[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&g->taken, asking[i]);
    }
    sigprocmask(SIG_BLOCK, &g->taken, &g->before);
}

/* Ends by the signal that came, as who sent it expects; else returns. */
static void give_signals_back(const signals *g) {
    if (g->asked) {
        signal(g->asked, SIG_DFL);
        (void)raise(g->asked);
    }
    sigprocmask(SIG_SETMASK, &g->before, NULL);
}

/* The exit code, NOT_STARTED where there's no such program, or 128 and the signal. Where `quiet`, what it prints on
 * stdout is dropped. A signal that asks to end goes to the child, too, unless the terminal has sent it one; the second
 * kills it. */
static int run_command(signals *g, const command *c, bool quiet) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &g->before, NULL);
        if (quiet && !freopen("/dev/null", "w", stdout)) _exit(NOT_STARTED);
        execvp(c->words[0], (char **)(uintptr_t)c->words);
        _exit(NOT_STARTED);
    }
    int status = 0;
    pid_t ended = child < 0 ? -1 : 0;
    while (!ended && !(ended = waitpid(child, &status, WNOHANG))) {
        siginfo_t info;
        const int number = sigwaitinfo(&g->taken, &info);
        if (number < 0 || number == SIGCHLD) continue;
        if (g->asked)
            kill(child, SIGKILL);
        else if (info.si_code != SI_KERNEL)
            kill(child, number);
        g->asked = number;
    }
    if (ended < 0) return NOT_STARTED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- rota's side ---- */

/* Beside this program, where packages put it; in a build's folder of examples; else PATH's. */
static const char *find_trainer(char *room, size_t size) {
    static const char *const there[] = {"train_gpt", "../examples/train_gpt"};
    char self[1024];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return "train_gpt";
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (!slash) return "train_gpt";
    slash[1] = 0;
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        if (snprintf(room, size, "%s%s", self, there[i]) < (int)size && access(room, X_OK) == 0) return room;
    }
    return "train_gpt";
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* As PyTorch's side is judged. */
static bool is_good(const settings *s, const row *r) {
    return isfinite(r->first_loss) && isfinite(r->last_loss) &&
           fabs(r->first_loss / log((double)s->vocabulary) - 1) < 0.05 && r->last_loss < r->first_loss;
}

static double number_of(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItem(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* The log's lines: the later two thirds of the steps are timed. */
static bool read_log(const settings *s, const char *path, row *out) {
    size_t size;
    char *text = file_read(path, &size), *next = NULL;
    double *ms = calloc(s->steps, sizeof *ms);
    uint64_t count = 0;
    bool good = text && ms;
    for (char *line = text ? strtok_r(text, "\n", &next) : NULL; line && good && count < s->steps;
         line = strtok_r(NULL, "\n", &next)) {
        cJSON *step = cJSON_Parse(line);
        const double loss = number_of(step, "loss");
        ms[count++] = number_of(step, "ms");
        good = isfinite(loss) && isfinite(ms[count - 1]);
        if (count == 1) out->first_loss = loss;
        out->last_loss = loss;
        cJSON_Delete(step);
    }
    if (good && count == s->steps) {
        const uint64_t from = count / 3;
        qsort(ms + from, count - from, sizeof *ms, by_value);
        const uint64_t middle = (count - from) / 2;
        out->least_ms = ms[from];
        out->most_ms = ms[count - 1];
        out->median_ms =
            (count - from) % 2 ? ms[from + middle] : (ms[from + middle - 1] + ms[from + middle]) / 2;
        out->is_checked = is_good(s, out);
    }
    free(ms);
    free(text);
    if (good && count == s->steps) return true;
    fprintf(stderr, "%s: train_gpt's log has %" PRIu64 " good steps of %" PRIu64 "\n", program, count,
            s->steps);
    return false;
}

static int run_rota(const settings *s, signals *g, const folder *f, uint64_t batch, row *out) {
    char room[1100];
    command c = {0};
    add(&c, s->trainer ? s->trainer : find_trainer(room, sizeof room));
    const char *const words[] = {"--tokenizer",  "bin",   "--arch",     "gpt2",     "--dtype",        "bf16",
                                 "--eval-iters", "0",     "--lr",       "6e-4",     "--beta1",        "0.9",
                                 "--beta2",      "0.95",  "--warmup",   "1",        "--grad-clip",    "1",
                                 "--data",       s->data, "--schedule", "constant", "--weight-decay", "0.1",
                                 "--log",        f->log};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) add(&c, words[i]);
    if (s->device) add(&c, "--device"), add(&c, s->device);
    add_number(&c, "--iters", s->steps);
    add_model(&c, s, batch);
    if (s->ranks > 1) add_number(&c, "--ranks", s->ranks);
    snprintf(out->name, sizeof out->name, "rota");
    const int code = run_command(g, &c, true);
    if (g->asked) return EXIT_BAD_ARGUMENT;
    if (code == EXIT_GOOD) return read_log(s, f->log, out) ? EXIT_GOOD : EXIT_CHECK_FAILED;
    if (code == NOT_STARTED)
        fprintf(stderr, "%s: '%s' can't be started: --train-gpt PROGRAM says where train_gpt is\n", program,
                c.words[0]);
    else
        fprintf(stderr, "%s: %s ended with %d at batch %" PRIu64 "\n", program, c.words[0], code, batch);
    return code <= EXIT_DEVICE_GONE ? code : EXIT_BAD_ARGUMENT;
}

/* ---- PyTorch's ---- */

static void read_variant(const cJSON *item, row *out) {
    const cJSON *mode = cJSON_GetObjectItem(item, "mode"),
                *attention = cJSON_GetObjectItem(item, "attention");
    snprintf(out->name, sizeof out->name, "PyTorch %s, %s, %.0f",
             cJSON_IsString(mode) ? mode->valuestring : "?",
             cJSON_IsString(attention) ? attention->valuestring : "?", number_of(item, "vocabulary"));
    out->median_ms = number_of(item, "median_ms");
    out->least_ms = number_of(item, "min_ms");
    out->most_ms = number_of(item, "max_ms");
    out->first_loss = number_of(item, "first_loss");
    out->last_loss = number_of(item, "last_loss");
    out->is_checked = cJSON_IsTrue(cJSON_GetObjectItem(item, "checked"));
}

/* The fastest of its variants that count; `out` stays unchecked where there is none. */
static bool read_best(const char *path, row *out) {
    size_t size;
    char *text = file_read(path, &size);
    cJSON *result = text ? cJSON_Parse(text) : NULL;
    const cJSON *item, *rows = cJSON_GetObjectItem(result, "rows");
    cJSON_ArrayForEach(item, rows) {
        row one = {0};
        read_variant(item, &one);
        if (one.is_checked && (!out->is_checked || one.median_ms < out->median_ms)) *out = one;
    }
    const bool good = cJSON_IsArray(rows);
    cJSON_Delete(result);
    free(text);
    return good;
}

static int run_torch(const settings *s, signals *g, const folder *f, uint64_t batch, row *out) {
    command c = {0};
    const char *const words[] = {"python3", f->script,      "--data",      s->data, "--modes",
                                 s->modes,  "--attentions", s->attentions, "--out", f->result};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) add(&c, words[i]);
    add_number(&c, "--steps", s->steps);
    add_number(&c, "--ranks", s->ranks);
    add_number(&c, "--variant-seconds", s->variant_seconds);
    add_model(&c, s, batch);
    /* A vocabulary padded to a multiple of 128 is the faster one. */
    char vocabularies[48];
    const uint64_t padded = (s->vocabulary + 127) / 128 * 128;
    snprintf(vocabularies, sizeof vocabularies, "%" PRIu64, padded);
    add(&c, "--vocabularies"), add(&c, vocabularies);
    (void)unlink(f->result);
    const int code = run_command(g, &c, false);
    if (!g->asked && (code == SKIPPED || code == NOT_STARTED)) {
        printf("PyTorch is not there, or has not that many CUDA devices: nothing to compare with\n");
        return EXIT_GOOD;
    }
    /* Also of a run that was ended: what it had measured till then. */
    const bool good = access(f->result, F_OK) == 0 && read_best(f->result, out);
    if (good && out->is_checked && code == EXIT_GOOD) return EXIT_GOOD;
    if (g->asked) return EXIT_BAD_ARGUMENT;
    fprintf(stderr, "%s: PyTorch's side ended with %d and %s\n", program, code,
            !good             ? "wrote no result"
            : out->is_checked ? "not all of its variants have run"
                              : "none of its variants counts: each failed or has wrong losses");
    return EXIT_CHECK_FAILED;
}

/* ---- The table ---- */

static void print_row(const settings *s, uint64_t batch, const row *r, double beside) {
    const double tokens = (double)(s->ranks * batch * s->block) / r->median_ms * 1e3;
    printf("| %" PRIu64 " | %s | %.3f | %.3f to %.3f | %.0f | %.4f to %.4f | ", batch, r->name, r->median_ms,
           r->least_ms, r->most_ms, tokens, r->first_loss, r->last_loss);
    if (!r->is_checked)
        printf("losses are wrong |\n");
    else if (beside > 0)
        printf("%.3f |\n", r->median_ms / beside);
    else
        printf(" |\n");
}

static cJSON *row_json(uint64_t batch, const row *r) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "batch", (double)batch);
    cJSON_AddStringToObject(object, "name", r->name);
    cJSON_AddNumberToObject(object, "median_ms", r->median_ms);
    cJSON_AddNumberToObject(object, "least_ms", r->least_ms);
    cJSON_AddNumberToObject(object, "most_ms", r->most_ms);
    cJSON_AddNumberToObject(object, "first_loss", r->first_loss);
    cJSON_AddNumberToObject(object, "last_loss", r->last_loss);
    cJSON_AddBoolToObject(object, "checked", r->is_checked);
    return object;
}

typedef struct results {
    row rows[BATCHES_MAX][2];
    uint32_t count;
    const uint64_t *batches;
} results;

static int write_results(const settings *s, const results *r, int code) {
    cJSON *result = report_new(), *list = cJSON_AddArrayToObject(result, "rows");
    for (uint32_t i = 0; i < r->count; i++)
        for (int side = 0; side < 2; side++)
            if (r->rows[i][side].median_ms > 0)
                cJSON_AddItemToArray(list, row_json(r->batches[i], &r->rows[i][side]));
    return report_write(result, s->out, code);
}

static void print_results(const settings *s, const results *r) {
    bool begun = false;
    for (uint32_t i = 0; i < r->count; i++)
        for (int side = 0; side < 2; side++) {
            if (!(r->rows[i][side].median_ms > 0)) continue;
            if (!begun)
                printf(
                    "\n| batch | by | ms a step | least to most | tokens a second | loss | of PyTorch's |\n"
                    "| --- | --- | --- | --- | --- | --- | --- |\n");
            begun = true;
            const bool compared = side == 0 && r->rows[i][1].is_checked;
            print_row(s, r->batches[i], &r->rows[i][side], compared ? r->rows[i][1].median_ms : 0);
        }
}

/* The result's file is written anew after each side: a run that is ended has left what it measured. */
static int run_batches(const settings *s, signals *g, const folder *f, results *r) {
    int code = EXIT_GOOD;
    for (uint32_t i = 0; i < r->count && code == EXIT_GOOD; i++) {
        row *rota = &r->rows[i][0];
        code = run_rota(s, g, f, r->batches[i], rota);
        if (code == EXIT_GOOD && s->against == AGAINST_TORCH) {
            printf("rota, batch %" PRIu64 ": %.3f ms a step (%.3f to %.3f)\n", r->batches[i], rota->median_ms,
                   rota->least_ms, rota->most_ms);
            code = write_results(s, r, code);
            if (code == EXIT_GOOD) code = run_torch(s, g, f, r->batches[i], &r->rows[i][1]);
        }
        if (code == EXIT_GOOD && !rota->is_checked) code = EXIT_CHECK_FAILED;
        code = write_results(s, r, code);
    }
    print_results(s, r);
    return code;
}

/* "4,32"; how many, or 0. */
static uint32_t read_batches(const char *text, uint64_t *out) {
    uint32_t count = 0;
    for (const char *cursor = text; count < BATCHES_MAX; cursor++) {
        char *end;
        errno = 0;
        out[count++] = strtoull(cursor, &end, 10);
        if (end == cursor || errno || *cursor < '0' || *cursor > '9' || !out[count - 1] ||
            out[count - 1] > 1 << 20)
            return 0;
        if (!*end) return count;
        if (*end != ',') return 0;
        cursor = end;
    }
    return 0;
}

static int run(settings *s, const uint64_t *batches, uint32_t count) {
    folder f;
    signals g;
    results r = {.count = count, .batches = batches};
    if (s->ranks > 1 && !s->device) s->device = "cuda";
    take_signals(&g);
    int code = EXIT_BAD_ARGUMENT;
    if (make_folder(&f)) {
        bool good = s->data || draw_tokens(s, f.tokens);
        if (good && s->against == AGAINST_TORCH) good = write_script(f.script);
        if (!s->data) s->data = f.tokens;
        if (good) code = run_batches(s, &g, &f, &r);
        remove_folder(&f);
    }
    fflush(stdout);
    give_signals_back(&g);
    return code;
}

static int check_and_run(const option_table *table, settings *s) {
    uint64_t batches[BATCHES_MAX];
    const uint32_t count = read_batches(s->batches, batches);
    if (count && s->dim % s->heads == 0) return run(s, batches, count);
    if (!count)
        (void)options_bad(table, "--batch '%s' is no list of 1 to %d numbers from 1 to 2^20, such as 4,32",
                          s->batches, BATCHES_MAX);
    else
        (void)options_bad(table, "--heads %" PRIu64 " does not divide --dim %" PRIu64, s->heads, s->dim);
    return EXIT_BAD_ARGUMENT;
}

int bench_gpt2(int argc, char **argv) {
    settings s = {.batches = "4,32",
                  .steps = 60,
                  .ranks = 1,
                  .layers = 12,
                  .heads = 12,
                  .dim = 768,
                  .block = 1024,
                  .vocabulary = 50257,
                  .seed = 1337,
                  .variant_seconds = 900,
                  .modes = "reduce-overhead,max-autotune",
                  .attentions = "flash,cudnn"};
    const option options[] = {
        {"--against", OPTION_CHOICE, &s.against, "nothing|torch", 0, 0, false,
         "what is timed beside it in the same call: PyTorch, compiled, each mode with each attention, of "
         "which the "
         "fastest counts"},
        {"--batch", OPTION_STRING, &s.batches, "N[,N...]", 0, 0, false, "windows of a step, of each rank"},
        {"--steps", OPTION_COUNT, &s.steps, "N", 3, 1e6, false,
         "of each run; the later two thirds are timed"},
        {"--device", OPTION_STRING, &s.device, OPTION_DEVICES "|cuda", 0, 0, false,
         "train_gpt's; by default the best one, or with --ranks cuda, a GPU for each"},
        {"--ranks", OPTION_COUNT, &s.ranks, "N", 1, 64, false,
         "of both sides: train_gpt's, and DistributedDataParallel's"},
        {"--data", OPTION_STRING, &s.data, "TOKENS.bin", 0, 0, false,
         "tokens of 16 bits as llm.c writes them; by default drawn, as often as words of a language are"},
        {"--vocab", OPTION_COUNT, &s.vocabulary, "N", 2, 65536, false, "kinds of tokens"},
        {"--layers", OPTION_COUNT, &s.layers, "N", 1, 1024, false,
         "of the model, which is GPT-2 124M by default"},
        {"--heads", OPTION_COUNT, &s.heads, "N", 1, 1 << 20, false, "attention heads of a layer"},
        {"--dim", OPTION_COUNT, &s.dim, "N", 1, 1 << 20, false, "width of the model"},
        {"--block", OPTION_COUNT, &s.block, "N", 2, 1 << 20, false, "tokens of a window"},
        {"--seed", OPTION_COUNT, &s.seed, "N", 0, 9007199254740992.0, false,
         "of weights, batches and drawn tokens"},
        {"--modes", OPTION_STRING, &s.modes, "MODE[,MODE...]", 0, 0, false,
         "of torch.compile; eager: not compiled"},
        {"--attentions", OPTION_STRING, &s.attentions, "flash|cudnn[,...]", 0, 0, false, "PyTorch's"},
        {"--variant-seconds", OPTION_COUNT, &s.variant_seconds, "N", 1, 1e6, false,
         "what each mode with each attention may take, compiling included; one that takes longer has failed, "
         "and the "
         "others go on"},
        {"--train-gpt", OPTION_STRING, &s.trainer, "PROGRAM", 0, 0, false,
         "train_gpt; by default the one beside this program, or of the same build"},
        OPTION_ROW_OUT(s.out)};
    const option_table table = {
        program,
        bench_text(program),
        "rota-bench gpt2 --against torch\n"
        "rota-bench gpt2 --against torch --ranks 2 --modes default --batch 4\n"
        "rota-bench gpt2 --device cpu --layers 2 --heads 2 --dim 64 --block 64 --vocab 512",
        options,
        sizeof options / sizeof *options,
        NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    return check_and_run(&table, &s);
}
