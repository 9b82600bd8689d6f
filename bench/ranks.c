/* rota-bench ranks: collectives between ranks, as replays of a plan that is nothing else; and by a model that fits what
 * was measured (ranks_model.h), the same and a training's step with many more ranks. Ranks are threads of this process,
 * each with a runtime, or under mpirun processes. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/commands.h"
#include "bench/launched.h"
#include "bench/options.h"
#include "bench/progress.h"
#include "bench/ranks_model.h"
#include "bench/report.h"
#include "ops/data_parallel.h"

static const char program[] = "rota-bench ranks";
#define RANKS_MAX 64
#define SIZES_MAX 64
/* Replays of a size: so many bytes together, within limits. */
#define TIMED_BYTES (UINT64_C(256) << 20)
#define REPLAYS_LEAST 8
#define REPLAYS_MOST 1000
#define REPLAYS_BEFORE 64 /* at most: ranks come to it at different times, and threads wake up */
#define MIB 1048576.0

typedef enum collective_kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BARRIER, KINDS } collective_kind;
static const char *const algorithm_names[] = {"exchange", "ring", "doubling"}; /* RANKS_ALGORITHMS */
static const char *const kind_names[KINDS] = {"all_reduce", "reduce_scatter", "all_gather", "barrier"};

typedef struct ranks_settings {
    const char *device, *out, *model;
    uint64_t ranks, least, most;
    int kind, algorithm;
    double latency_us, gb_per_s; /* 0: as measured */
    double step_ms, backward_percent;
    uint64_t gradient_bytes, bucket_bytes;
} ranks_settings;

typedef struct measured {
    uint64_t bytes, replays;
    double back_to_back_s, to_a_wait_s;
} measured;

typedef struct bench_rank {
    const ranks_settings *settings;
    opened_device opened;
    rota_communicator *communicator;
    pthread_t thread;
    bool runs; /* its thread */
    uint32_t rank, size;
    measured sizes[SIZES_MAX];
    uint32_t size_count;
    uint64_t wrong; /* elements */
    int code;
} bench_rank;

/* ---- One size ---- */

typedef struct trial {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x, y;
    uint64_t x_count, y_count;
    rota_plan *plan;
    float *values; /* of the larger one */
} trial;

/* Sums of 2^24 at most: whole numbers, so exact in any order. */
static float element(uint32_t rank, uint64_t i) {
    return (float)(i % 1021 + rank);
}

static float expected(const bench_rank *r, const trial *t, uint64_t i) {
    const float all = (float)r->size, ranks = all * (all - 1) / 2;
    if (r->settings->kind == BARRIER) return 0; /* as it was */
    if (r->settings->kind == ALL_GATHER) return element((uint32_t)(i / t->x_count), i % t->x_count);
    if (r->settings->kind == REDUCE_SCATTER) i += t->y_count * r->rank;
    return all * (float)(i % 1021) + ranks;
}

static rota_status make_tensors(const bench_rank *r, uint64_t elements, trial *t) {
    const bool scatters = r->settings->kind == REDUCE_SCATTER, gathers = r->settings->kind == ALL_GATHER;
    t->x_count = gathers ? elements / r->size : elements;
    t->y_count = scatters ? elements / r->size : elements;
    t->values = malloc(elements * sizeof *t->values);
    if (!t->values) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %" PRIu64 " values", elements);
    for (uint64_t i = 0; i < t->x_count; i++) t->values[i] = element(r->rank, i);
    ROTA_TRY(rota_tensor_create(r->opened.device, "x", ROTA_F32, ROTA_SHAPE(t->x_count), t->values, &t->x));
    memset(t->values, 0, elements * sizeof *t->values);
    return rota_tensor_create(r->opened.device, "y", ROTA_F32, ROTA_SHAPE(t->y_count), t->values, &t->y);
}

static rota_status make_plan(bench_rank *r, trial *t) {
    ROTA_TRY(rota_graph_create(NULL, &t->graph));
    ROTA_TRY(rota_recorder_open(t->graph, 0, NULL, &t->recorder));
    ROTA_TRY(rota_tape_create(t->recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &t->tape));
    ROTA_TRY(rota_tape_name(t->tape, kind_names[r->settings->kind]));
    if (r->settings->kind == ALL_REDUCE)
        ROTA_TRY(rota_op_all_reduce_into(t->tape, r->communicator, t->x, ROTA_COLLECTIVE_SUM, t->y));
    else if (r->settings->kind == REDUCE_SCATTER)
        ROTA_TRY(rota_op_reduce_scatter_into(t->tape, r->communicator, t->x, ROTA_COLLECTIVE_SUM, t->y));
    else if (r->settings->kind == ALL_GATHER)
        ROTA_TRY(rota_op_all_gather_into(t->tape, r->communicator, t->x, t->y));
    else
        ROTA_TRY(rota_op_barrier(t->tape, r->communicator));
    rota_recorder_close(t->recorder);
    return rota_compile(r->opened.runtime, t->graph,
                        &ROTA_COMPILE_OPTIONS(.devices = &r->opened.device, .device_count = 1), &t->plan);
}

static rota_status replay(const trial *t, uint64_t replays, bool waits, double *out_s) {
    const uint64_t begin = rota_clock_ns();
    rota_ticket ticket = {0};
    for (uint64_t i = 0; i < replays; i++) {
        ROTA_TRY(rota_submit_wait(t->plan, NULL, 0, &ticket));
        if (waits) ROTA_TRY(rota_wait(ticket, 0));
    }
    ROTA_TRY(rota_wait(ticket, 0));
    *out_s = (double)(rota_clock_ns() - begin) * 1e-9 / (double)replays;
    return ROTA_OK;
}

static rota_status run_trial(bench_rank *r, uint64_t elements, trial *t) {
    double unused;
    measured *m = &r->sizes[r->size_count];
    ROTA_TRY(make_tensors(r, elements, t));
    ROTA_TRY(make_plan(r, t));
    m->bytes = elements * sizeof(float);
    m->replays = TIMED_BYTES / m->bytes;
    if (m->replays < REPLAYS_LEAST) m->replays = REPLAYS_LEAST;
    if (m->replays > REPLAYS_MOST) m->replays = REPLAYS_MOST;
    ROTA_TRY(replay(t, m->replays < REPLAYS_BEFORE ? m->replays : REPLAYS_BEFORE, true, &unused));
    ROTA_TRY(replay(t, m->replays, false, &m->back_to_back_s));
    ROTA_TRY(replay(t, m->replays, true, &m->to_a_wait_s));
    ROTA_TRY(rota_tensor_read(&t->y, t->values, t->y_count * sizeof *t->values));
    for (uint64_t i = 0; i < t->y_count; i++) r->wrong += t->values[i] != expected(r, t, i);
    r->size_count++;
    return ROTA_OK;
}

static void free_trial(trial *t) {
    rota_plan_release(t->plan);
    rota_tape_destroy(t->tape);
    rota_recorder_close(t->recorder);
    rota_graph_release(t->graph);
    rota_buffer_release(t->x.buffer);
    rota_buffer_release(t->y.buffer);
    free(t->values);
}

/* Whole elements of each rank, and as many from each. */
static bool run_size(bench_rank *r, uint64_t bytes) {
    const uint64_t unit = sizeof(float) * r->size, elements = (bytes + unit - 1) / unit * r->size;
    trial t = {0};
    const rota_status status = run_trial(r, elements, &t);
    if (status != ROTA_OK) r->code = report_failure(program, status);
    free_trial(&t);
    return status == ROTA_OK;
}

/* All ranks the same sizes, so many times the same; the first twice, since a process's first is slower. */
static void *run_rank(void *user) {
    bench_rank *r = user;
    const ranks_settings *s = r->settings;
    progress_bar bar;
    if (r->rank == 0) progress_begin(&bar, "measuring", "sizes", 0);
    bool good = run_size(r, s->least);
    r->size_count = 0;
    for (uint64_t bytes = s->least; good && bytes <= s->most && r->size_count < SIZES_MAX; bytes *= 4) {
        good = run_size(r, bytes);
        if (r->rank == 0) progress_at(&bar, r->size_count);
    }
    if (r->rank == 0) progress_end(&bar);
    return NULL;
}

/* ---- What came of it ---- */

static double sent_bytes(const bench_rank *r, uint64_t bytes) {
    const double share = ((double)r->size - 1) / (double)r->size;
    const double times[KINDS] = {2, 1, 1, 0};
    return (double)bytes * share * times[r->settings->kind];
}

static void print_sizes(const bench_rank *r, cJSON *result) {
    cJSON *list = cJSON_AddArrayToObject(result, "sizes");
    printf("%s, %" PRIu32 " ranks (%s)\n%14s %14s %14s %12s\n", kind_names[r->settings->kind], r->size,
           rota_communicator_device(r->communicator) ? "NCCL" : rota_communicator_transport(r->communicator),
           "bytes", "one by one, us", "to a wait, us", "sent, GB/s");
    for (uint32_t i = 0; i < r->size_count; i++) {
        const measured *m = &r->sizes[i];
        printf("%14" PRIu64 " %14.1f %14.1f %12.2f\n", m->bytes, m->back_to_back_s * 1e6,
               m->to_a_wait_s * 1e6, sent_bytes(r, m->bytes) / m->back_to_back_s * 1e-9);
        cJSON *row = cJSON_CreateObject();
        cJSON_AddItemToArray(list, row);
        cJSON_AddNumberToObject(row, "bytes", (double)m->bytes);
        cJSON_AddNumberToObject(row, "replays", (double)m->replays);
        cJSON_AddNumberToObject(row, "back_to_back_us", m->back_to_back_s * 1e6);
        cJSON_AddNumberToObject(row, "to_a_wait_us", m->to_a_wait_s * 1e6);
    }
    printf("%" PRIu64 " wrong of rank 0's results\n", r->wrong);
    cJSON_AddNumberToObject(result, "wrong", (double)r->wrong);
}

static ranks_model make_model(const bench_rank *r) {
    const ranks_settings *s = r->settings;
    double bytes[SIZES_MAX], seconds[SIZES_MAX];
    ranks_model model = {.algorithm = (ranks_algorithm)s->algorithm};
    for (uint32_t i = 0; i < r->size_count; i++) {
        bytes[i] = (double)r->sizes[i].bytes;
        seconds[i] = r->sizes[i].back_to_back_s;
    }
    if (r->size_count > 1) model = ranks_model_fit(model.algorithm, r->size, bytes, seconds, r->size_count);
    if (s->latency_us > 0) model.latency_s = s->latency_us * 1e-6;
    if (s->gb_per_s > 0) model.bytes_per_s = s->gb_per_s * 1e9;
    return model;
}

/* Of the powers of two, from 1 MiB on, the bucket with which a step takes the least. */
static double best_bucket(const ranks_model *model, ranks_step step, uint32_t ranks, double *out_step_s) {
    double best = 0;
    *out_step_s = INFINITY;
    for (uint32_t doubled = 0; doubled == 0 || step.bucket_bytes < step.gradient_bytes; doubled++) {
        step.bucket_bytes = ldexp(MIB, (int)doubled);
        step.first_bucket_bytes = step.bucket_bytes / 4;
        const double s = ranks_model_step(model, &step, ranks).seconds;
        if (s < *out_step_s) best = step.bucket_bytes, *out_step_s = s;
    }
    return best;
}

/* How far the model is from what it was made of, in parts of it, at most. */
static double most_off(const bench_rank *r, const ranks_model *model) {
    double most = 0;
    for (uint32_t i = 0; i < r->size_count; i++) {
        const double s = r->sizes[i].back_to_back_s;
        most = fmax(most, fabs(ranks_model_all_reduce(model, (double)r->sizes[i].bytes, r->size) / s - 1));
    }
    return most;
}

static void print_model(const bench_rank *r, const uint64_t *counts, size_t count, cJSON *result) {
    const ranks_settings *s = r->settings;
    const ranks_model model = make_model(r);
    ranks_step step = {.seconds = s->step_ms * 1e-3,
                       .backward_share = s->backward_percent / 100,
                       .gradient_bytes = (double)s->gradient_bytes};
    cJSON *json = cJSON_AddObjectToObject(result, "model"), *list = cJSON_AddArrayToObject(json, "steps");
    const double off = most_off(r, &model);
    printf("model (%s): a message %.2f us, %.2f GB/s; off by %.0f %% at most where it was measured\n"
           "a step of %.1f ms, %.1f MiB of gradients, as the model has it:\n"
           "%8s %16s %12s %12s %14s %10s %12s %20s\n",
           algorithm_names[s->algorithm], model.latency_s * 1e6, model.bytes_per_s * 1e-9, off * 100,
           s->step_ms, step.gradient_bytes / MIB, "ranks", "all_reduce, ms", "bucket, MiB", "step, ms",
           "communic., ms", "hidden", "efficiency", "best bucket: step, ms");
    cJSON_AddNumberToObject(json, "message_us", model.latency_s * 1e6);
    cJSON_AddNumberToObject(json, "gb_per_s", model.bytes_per_s * 1e-9);
    cJSON_AddNumberToObject(json, "most_off", off);
    for (size_t i = 0; i < count; i++) {
        const uint32_t ranks = (uint32_t)counts[i];
        /* The model is of ranks on CPUs. */
        step.bucket_bytes = (double)(s->bucket_bytes ? s->bucket_bytes : rota_bucket_bytes(ranks, false));
        step.first_bucket_bytes = step.bucket_bytes / 4;
        const ranks_step_times t = ranks_model_step(&model, &step, ranks);
        const double whole = ranks_model_all_reduce(&model, step.gradient_bytes, ranks);
        double least_s;
        const double bucket = best_bucket(&model, step, ranks, &least_s);
        printf("%8" PRIu32 " %16.3f %12.1f %12.3f %14.3f %8.0f %% %10.1f %% %8.0f MiB: %8.3f\n", ranks,
               whole * 1e3, step.bucket_bytes / MIB, t.seconds * 1e3, t.communication_s * 1e3,
               t.communication_s > 0 ? t.hidden_s / t.communication_s * 100 : 100,
               step.seconds / t.seconds * 100, bucket / MIB, least_s * 1e3);
        cJSON *row = cJSON_CreateObject();
        cJSON_AddItemToArray(list, row);
        cJSON_AddNumberToObject(row, "ranks", ranks);
        cJSON_AddNumberToObject(row, "all_reduce_ms", whole * 1e3);
        cJSON_AddNumberToObject(row, "bucket_bytes", step.bucket_bytes);
        cJSON_AddNumberToObject(row, "step_ms", t.seconds * 1e3);
        cJSON_AddNumberToObject(row, "communication_ms", t.communication_s * 1e3);
        cJSON_AddNumberToObject(row, "hidden_ms", t.hidden_s * 1e3);
        cJSON_AddNumberToObject(row, "efficiency", step.seconds / t.seconds);
        cJSON_AddNumberToObject(row, "best_bucket_bytes", bucket);
        cJSON_AddNumberToObject(row, "best_step_ms", least_s * 1e3);
    }
}

/* ---- Ranks ---- */

/* One of mpirun's. */
static int open_process(bench_rank *r) {
    char room[16];
    int code = report_open_quietly(program, launched_device(r->settings->device, launched_number(), room),
                                   NULL, &r->opened);
    if (code != EXIT_GOOD) return code;
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = "bench",
                                  .devices = launched_gpus(r->settings->device) ? &r->opened.device : NULL);
    REPORT_TRY(rota_communicator_open(r->opened.runtime, &options, &r->communicator));
done:
    return code;
}

static int open_threads(bench_rank *ranks, uint32_t count) {
    const char *device = ranks->settings->device;
    rota_runtime *runtimes[RANKS_MAX];
    rota_device *devices[RANKS_MAX];
    rota_communicator *communicators[RANKS_MAX] = {NULL};
    char room[16];
    int code = EXIT_GOOD;
    for (uint32_t i = 0; i < count && code == EXIT_GOOD; i++) {
        code = report_open_quietly(program, launched_device(device, i, room),
                                   &ROTA_RUNTIME_OPTIONS(.worker_threads = launched_workers(count)),
                                   &ranks[i].opened);
        runtimes[i] = ranks[i].opened.runtime;
        devices[i] = ranks[i].opened.device;
    }
    if (code != EXIT_GOOD) return code;
    REPORT_TRY(rota_communicator_open_ranks(
        runtimes, count,
        &ROTA_COMMUNICATOR_OPTIONS(.name = "bench", .devices = launched_gpus(device) ? devices : NULL),
        communicators));
    for (uint32_t i = 0; i < count; i++) ranks[i].communicator = communicators[i];
done:
    return code;
}

static int run_threads(bench_rank *ranks, uint32_t count) {
    int code = EXIT_GOOD;
    for (uint32_t i = 1; i < count; i++) {
        ranks[i].runs = pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) == 0;
        if (ranks[i].runs) continue;
        fprintf(stderr, "%s: no thread for rank %" PRIu32 "\n", program, i);
        (void)rota_communicator_abort(ranks[i].communicator, "no thread for it");
        code = EXIT_BAD_ARGUMENT;
    }
    (void)run_rank(&ranks[0]);
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i].runs) (void)pthread_join(ranks[i].thread, NULL);
        if (ranks[i].code != EXIT_GOOD) code = ranks[i].code;
        if (i) ranks[0].wrong += ranks[i].wrong;
    }
    return code;
}

static int close_ranks(bench_rank *ranks, uint32_t count, int code) {
    for (uint32_t i = 0; i < count; i++) {
        if (rota_communicator_close(ranks[i].communicator, 0) != ROTA_OK && code == EXIT_GOOD)
            code = report_failure(program, ROTA_TIMEOUT);
        report_close(&ranks[i].opened);
    }
    return code;
}

/* ---- The command ---- */

/* "8,64,1024"; false with a sentence. */
static bool read_counts(const option_table *table, const char *text, uint64_t *out_counts,
                        size_t *out_count) {
    *out_count = 0;
    while (text && *text) {
        char *end;
        const unsigned long long n = strtoull(text, &end, 10);
        if (end == text || n < 1 || n > 1000000 || (*end && *end != ',') || *out_count == SIZES_MAX) {
            (void)options_bad(table, "--model takes up to %d numbers of ranks, from 1 to 1000000, not '%s'",
                              SIZES_MAX, text);
            return false;
        }
        out_counts[(*out_count)++] = n;
        text = *end ? end + 1 : end;
    }
    return true;
}

static bool is_sound(const option_table *table, const ranks_settings *s, bool has_model) {
    const char *wrong = NULL;
    if (has_model && s->kind != ALL_REDUCE) wrong = "--model is of --kind all_reduce";
    if (has_model && s->least >= s->most)
        wrong = "--model needs --to above --from, to measure at several sizes";
    if (s->least > s->most) wrong = "--to is below --from";
    if (wrong) (void)options_bad(table, "%s", wrong);
    return !wrong;
}

static int run(const ranks_settings *s, const uint64_t *counts, size_t count, bench_rank *ranks) {
    const bool launched = launched_ranks() > 0;
    const uint32_t own = launched ? 1 : (uint32_t)s->ranks;
    for (uint32_t i = 0; i < own; i++) ranks[i].settings = s;
    int code = launched ? open_process(&ranks[0]) : open_threads(ranks, own);
    cJSON *result = report_new();
    for (uint32_t i = 0; i < own && code == EXIT_GOOD; i++) {
        ranks[i].rank = rota_communicator_rank(ranks[i].communicator);
        ranks[i].size = rota_communicator_size(ranks[i].communicator);
    }
    const bool speaks = ranks[0].rank == 0;
    if (!speaks) progress_quiet();
    if (code == EXIT_GOOD) code = run_threads(ranks, own);
    if (code == EXIT_GOOD && speaks) {
        cJSON_AddStringToObject(result, "kind", kind_names[s->kind]);
        cJSON_AddNumberToObject(result, "ranks", ranks[0].size);
        cJSON_AddItemToObject(result, "device", report_device(rota_device_get_info(ranks[0].opened.device)));
        print_sizes(&ranks[0], result);
        if (count) print_model(&ranks[0], counts, count, result);
    }
    if (code == EXIT_GOOD && ranks[0].wrong) code = EXIT_CHECK_FAILED;
    code = close_ranks(ranks, own, code);
    return report_write(result, speaks ? s->out : NULL, code);
}

int bench_ranks(int argc, char **argv) {
    ranks_settings s = {.device = "cpu",
                        .ranks = 2,
                        .least = 1024,
                        .most = 16 << 20,
                        .step_ms = 100,
                        .backward_percent = 67,
                        .gradient_bytes = 256 << 20};
    const option options[] = {
        {"--device", OPTION_STRING, &s.device, "cpu|cuda", 0, 0, false,
         "of each rank; cuda: a GPU each, with collectives by NCCL"},
        {"--ranks", OPTION_COUNT, &s.ranks, "N", 1, RANKS_MAX, false,
         "threads of this process; under mpirun its processes are the ranks"},
        {"--kind", OPTION_CHOICE, &s.kind, "all_reduce|reduce_scatter|all_gather|barrier", 0, 0, false,
         "of collective; the model is of all_reduce. barrier: what the ranks' agreement costs a submission, "
         "without bytes"},
        {"--from", OPTION_COUNT, &s.least, "BYTES", 4, 1e11, false,
         "the smallest size, of all that is summed or gathered"},
        {"--to", OPTION_COUNT, &s.most, "BYTES", 4, 1e11, false, "the largest; each is four times the last"},
        OPTION_ROW_HEADING("A model of more ranks"),
        {"--model", OPTION_STRING, &s.model, "N[,N...]", 0, 0, false,
         "say what a latency and a bandwidth come to with so many ranks"},
        {"--algorithm", OPTION_CHOICE, &s.algorithm, RANKS_ALGORITHMS, 0, 0, false,
         "how messages follow one another; exchange is rota's own, by MPI or threads"},
        {"--latency", OPTION_REAL, &s.latency_us, "US", 0, 1e9, false,
         "of a message, in microseconds; 0: what fits the measured times best"},
        {"--bandwidth", OPTION_REAL, &s.gb_per_s, "GB/S", 0, 1e9, false, "that a rank sends; 0: the same"},
        {"--step", OPTION_REAL, &s.step_ms, "MS", 0.001, 1e9, false, "of training, without communication"},
        {"--backward", OPTION_REAL, &s.backward_percent, "PERCENT", 0, 100, false,
         "of it the backward pass, at its end"},
        {"--gradients", OPTION_COUNT, &s.gradient_bytes, "BYTES", 1, 1e15, false, "of one rank"},
        {"--bucket", OPTION_COUNT, &s.bucket_bytes, "BYTES", 0, 1e15, false,
         "of gradients that are reduced together, of the first bucket a quarter; 0: as data_parallel has it "
         "with so many ranks"},
        OPTION_ROW_OUT(s.out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench ranks --ranks 4\n"
                                "mpirun -n 2 rota-bench ranks --model 8,64,1024 --step 250 --gradients 250M\n"
                                "rota-bench ranks --device cuda --to 128Mi",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    uint64_t counts[SIZES_MAX];
    size_t count;
    if (!read_counts(&table, s.model, counts, &count) || !is_sound(&table, &s, count > 0))
        return EXIT_BAD_ARGUMENT;
    if (s.kind == BARRIER) s.most = s.least; /* has no bytes */
    bench_rank *ranks = calloc(RANKS_MAX, sizeof *ranks);
    if (!ranks) return report_failure(program, rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for ranks"));
    const int code = run(&s, counts, count, ranks);
    free(ranks);
    return code;
}
