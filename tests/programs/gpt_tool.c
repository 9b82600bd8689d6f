/* What the tests of the GPT example compare with independent programs, one command at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/files.h"
#include "examples/gpt/bpe.h"
#include "examples/gpt/overlap.h"
#include "examples/gpt/sample.h"
#include "examples/gpt/weights.h"

static int usage(void) {
    fprintf(stderr, "gpt_tool learn TEXT COUNT MERGES | encode TEXT MERGES [VOCABULARY] | decode TOKENS "
                    "MERGES [VOCABULARY]"
                    " | logits DEVICE WEIGHTS ARCH VOCABULARY BLOCK LAYERS HEADS DIM TOKEN..."
                    " | write DEVICE LOOP BLOCK VOCABULARY TEMPERATURE END COUNT TOKEN..."
                    " | choose TEMPERATURE TOP_K TOP_P SEED DRAWS LOGIT..."
                    " | overlap COMPUTATIONS BEGIN END...\n");
    return 1;
}

/* Learns COUNT tokens and writes the merges. */
static int learn(const char *text_path, const char *count, const char *merges_path) {
    size_t size;
    gpt_bpe bpe;
    char *text = file_read(text_path, &size);
    if (!text) return 1;
    uint64_t begin = rota_clock_ns();
    bool good = gpt_bpe_train((unsigned char *)text, size, (uint32_t)atoi(count), NULL, &bpe);
    if (good) {
        printf("%" PRIu32 " tokens in %.2f s\n", bpe.count, (double)(rota_clock_ns() - begin) / 1e9);
        good = gpt_bpe_save(&bpe, merges_path);
    }
    gpt_bpe_free(&bpe);
    free(text);
    return !good;
}

/* One token a line. */
static int encode(const char *text_path, const char *merges_path, const char *vocabulary_path) {
    size_t size, count;
    gpt_bpe bpe;
    char *text = file_read(text_path, &size);
    int32_t *tokens = malloc((size + 1) * sizeof *tokens);
    bool good = text && tokens && gpt_bpe_load(merges_path, vocabulary_path, &bpe);
    if (good) {
        good = gpt_bpe_encode(&bpe, (unsigned char *)text, size, NULL, tokens, &count);
        for (size_t i = 0; good && i < count; i++) printf("%" PRId32 "\n", tokens[i]);
        gpt_bpe_free(&bpe);
    }
    free(text);
    free(tokens);
    return !good;
}

/* Token numbers, one a line, to bytes. */
static int decode(const char *tokens_path, const char *merges_path, const char *vocabulary_path) {
    size_t size;
    gpt_bpe bpe;
    char *text = file_read(tokens_path, &size);
    bool good = text && gpt_bpe_load(merges_path, vocabulary_path, &bpe);
    if (good) {
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
            size_t length;
            const unsigned char *bytes = gpt_bpe_bytes(&bpe, (uint32_t)atoi(line), &length);
            fwrite(bytes, 1, length, stdout);
        }
        gpt_bpe_free(&bpe);
    }
    free(text);
    return !good;
}

static uint64_t number(const char *text) {
    return strtoull(text, NULL, 10);
}

static void print_row(const float *logits, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) printf("%.9g%c", (double)logits[i], i + 1 < count ? ' ' : '\n');
}

/* The logits after each token, a line each: all at once, then token after token through the cache. */
static rota_status print_logits(gpt_model *model, const char *weights, const int32_t *tokens,
                                uint64_t count) {
    const uint64_t vocabulary = model->config.vocabulary;
    gpt_plan plan = {0};
    gpt_decoder decoder = {0};
    float *logits = malloc(count * vocabulary * sizeof *logits);
    const float *row;
    random_state random = {1};
    rota_status status = gpt_model_initialize(model, &random);
    if (status == ROTA_OK && !gpt_weights_load(weights, model)) status = ROTA_INVALID_ARGUMENT;
    if (status == ROTA_OK) status = gpt_plan_logits(model, count, &plan);
    if (status == ROTA_OK) status = gpt_logits(&plan, tokens, logits);
    for (uint64_t i = 0; status == ROTA_OK && i < count; i++) print_row(logits + i * vocabulary, vocabulary);
    if (status == ROTA_OK) status = gpt_decoder_create(model, &decoder);
    for (uint64_t i = 0; status == ROTA_OK && i < count; i++) {
        status = gpt_decoder_step(&decoder, tokens[i], &row);
        if (status == ROTA_OK) print_row(row, vocabulary);
    }
    gpt_plan_free(&plan);
    gpt_decoder_free(&decoder);
    free(logits);
    return status;
}

static int logits_of(int argc, char **argv) {
    const gpt_config config = {.arch = strcmp(argv[2], "gpt2") == 0 ? GPT_2 : GPT_PLAIN,
                               .vocabulary = number(argv[3]),
                               .block = number(argv[4]),
                               .layers = number(argv[5]),
                               .heads = number(argv[6]),
                               .dim = number(argv[7])};
    int32_t *tokens = malloc((size_t)argc * sizeof *tokens);
    rota_runtime *runtime = NULL;
    rota_device *device;
    gpt_model model = {0};
    for (int i = 8; i < argc; i++) tokens[i - 8] = atoi(argv[i]);
    rota_status status = rota_runtime_open(NULL, &runtime);
    if (status == ROTA_OK) status = rota_device_open(runtime, argv[0], &device);
    if (status == ROTA_OK) status = gpt_model_create(&config, runtime, device, NULL, &model);
    if (status == ROTA_OK) status = print_logits(&model, argv[1], tokens, (uint64_t)argc - 8);
    if (status != ROTA_OK) fprintf(stderr, "%s\n", rota_last_error());
    gpt_model_free(&model);
    if (runtime) (void)rota_runtime_close(runtime, 5000000000);
    free(tokens);
    return status == ROTA_OK ? 0 : status == ROTA_NOT_FOUND ? 3 : 1;
}

static void print_token(void *user, int32_t token) {
    (void)user;
    printf("%" PRId32 " ", token);
}

/* What a small model of random weights writes: LOOP is host or device. Last where the loop was. */
static int write_tokens(int argc, char **argv) {
    const gpt_config config = {.arch = GPT_2,
                               .vocabulary = number(argv[3]),
                               .block = number(argv[2]),
                               .layers = 2,
                               .heads = 2,
                               .dim = 32};
    const gpt_sampling sampling = {.temperature = atof(argv[4]), .top_p = 1};
    const atomic_bool stop = false;
    int32_t *prompt = malloc((size_t)argc * sizeof *prompt);
    rota_runtime *runtime = NULL;
    rota_device *device;
    gpt_model model = {0};
    random_state random = {11};
    gpt_written written;
    for (int i = 7; i < argc; i++) prompt[i - 7] = atoi(argv[i]);
    rota_status status = rota_runtime_open(NULL, &runtime);
    if (status == ROTA_OK) status = rota_device_open(runtime, argv[0], &device);
    if (status == ROTA_OK) status = gpt_model_create(&config, runtime, device, NULL, &model);
    if (status == ROTA_OK) status = gpt_model_initialize(&model, &random);
    if (status == ROTA_OK)
        status = gpt_write_tokens(&model, &sampling,
                                  &(gpt_writing){.prompt = prompt,
                                                 .prompt_count = (uint64_t)argc - 7,
                                                 .count = number(argv[6]),
                                                 .end = atoi(argv[5]),
                                                 .random = {5},
                                                 .stop = &stop,
                                                 .write = print_token},
                                  strcmp(argv[1], "host") == 0, &written);
    if (status == ROTA_OK) printf("%" PRIu64 " %s\n", written.tokens, written.on_device ? "device" : "host");
    if (status != ROTA_OK) fprintf(stderr, "%s\n", rota_last_error());
    gpt_model_free(&model);
    if (runtime) (void)rota_runtime_close(runtime, 5000000000);
    free(prompt);
    return status == ROTA_OK ? 0 : status == ROTA_NOT_FOUND ? 3 : 1;
}

/* How often each token is drawn. */
static int choose(int argc, char **argv) {
    const gpt_sampling sampling = {
        .temperature = atof(argv[0]), .top_k = number(argv[1]), .top_p = atof(argv[2])};
    random_state random = {number(argv[3])};
    float logits[64];
    uint64_t drawn[64] = {0};
    const int count = argc - 5;
    if (count > 64) return usage();
    for (int i = 0; i < count; i++) logits[i] = (float)atof(argv[5 + i]);
    for (uint64_t i = 0; i < number(argv[4]); i++)
        drawn[gpt_choose(&sampling, logits, (uint64_t)count, gpt_choose_point(&random))]++;
    for (int i = 0; i < count; i++) printf("%" PRIu64 "\n", drawn[i]);
    return 0;
}

/* Of so many computations, and then collectives, each by where it begins and ends: computation, communication, hidden.
 */
static int overlap(int count, char **numbers) {
    enum { MOST = 1000 };
    static rota_plan_time times[MOST];
    const size_t computations = strtoull(numbers[0], NULL, 10), all = (size_t)(count - 1) / 2;
    if (all > MOST || computations > all) return usage();
    for (size_t i = 0; i < all; i++)
        times[i] =
            (rota_plan_time){strtoull(numbers[1 + 2 * i], NULL, 10), strtoull(numbers[2 + 2 * i], NULL, 10)};
    const gpt_overlap o = gpt_overlap_of_times(times, computations, times + computations, all - computations);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", o.computation_ns, o.communication_ns, o.hidden_ns);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "learn") == 0) return learn(argv[2], argv[3], argv[4]);
    if (argc >= 4 && strcmp(argv[1], "encode") == 0) return encode(argv[2], argv[3], argv[4]);
    if (argc >= 4 && strcmp(argv[1], "decode") == 0) return decode(argv[2], argv[3], argv[4]);
    if (argc >= 11 && strcmp(argv[1], "logits") == 0) return logits_of(argc - 2, argv + 2);
    if (argc >= 3 && strcmp(argv[1], "overlap") == 0) return overlap(argc - 2, argv + 2);
    if (argc >= 10 && strcmp(argv[1], "write") == 0) return write_tokens(argc - 2, argv + 2);
    if (argc >= 8 && strcmp(argv[1], "choose") == 0) return choose(argc - 2, argv + 2);
    return usage();
}
