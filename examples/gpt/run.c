/* What train_gpt does once its settings are known: as one rank, as one of mpirun's, or as several of a process. */
#include "examples/gpt/run.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/launched.h"
#include "bench/progress.h"
#include "examples/common/checkpoint.h"
#include "examples/gpt/memory.h"
#include "examples/gpt/overlap.h"
#include "examples/gpt/tokens.h"
#include "examples/gpt/weights.h"

static const char program[] = "train_gpt";

/* ---- One rank ---- */

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
    if ((s->shard_optimizer || s->shard_parameters) && t->ranks.communicator)
        config.shards = t->ranks.size, config.gathers_once = !s->shard_parameters;
    if (t->ranks.one_model) config.slices = rota_communicator_size(t->ranks.one_model);
    REPORT_TRY(gpt_model_create(&config, opened->runtime, opened->device, &t->ranks, &t->model));
    t->model.fuse = !s->no_fuse;
    t->model.bucket_bytes = s->bucket;
    t->model.deterministic = s->deterministic;
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

static const char *carried_by(const gpt_ranks *ranks) {
    if (ranks->said) return "threads of this process";
    return strcmp(rota_communicator_transport(ranks->communicator), "tcp") == 0 ? "by TCP" : "by MPI";
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
    if (t->ranks.rank) goto done; /* the first says and draws it */
    REPORT_TRY(plan_pictures_write(&s->pictures, t->train.plan));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(t->train.plan, &stats);
    printf("%zu tokens of %u kinds; %" PRIu64 " weights; one step is a graph of %" PRIu64 " nodes in %" PRIu64
           " batches, arena %.1f MiB, compiled in %.0f ms and replayed each step\n",
           t->text.count, t->text.vocabulary.count, t->model.weight_count, stats.nodes, stats.batches,
           (double)stats.arena_bytes / (1 << 20), (double)(rota_clock_ns() - begin) / 1e6);
    char together[48] = "";
    if (t->ranks.one_model)
        snprintf(together, sizeof together, ", %" PRIu64 " to a model", t->model.config.slices);
    if (t->ranks.size > 1)
        printf("%" PRIu32 " ranks, %s%s: a step's batch is %" PRIu32 " times %" PRIu64
               " windows; each has %.2f MiB of the optimizer's state%s\n",
               t->ranks.size, carried_by(&t->ranks), together, t->ranks.groups, t->train.rows,
               (double)(rota_buffer_size(t->model.parts[GPT_FIRST_MOMENTS]) +
                        rota_buffer_size(t->model.parts[GPT_SECOND_MOMENTS])) /
                   (1 << 20),
               t->model.groups ? ", and as little of the weights" : "");
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
    gpt_written written;
    REPORT_TRY(gpt_write(
        t->whole.parameters ? &t->whole : &t->model, vocabulary, &s->sampling,
        &(gpt_writing){.prompt = prompt,
                       .prompt_count = count,
                       .count = s->sample,
                       .end = vocabulary->bpe.count ? (int32_t)gpt_bpe_end_of_text(&vocabulary->bpe) : -1,
                       .random = random,
                       .stop = t->interrupted},
        s->host_loop, &written));
    if (s->generate)
        fprintf(stderr, "%" PRIu64 " tokens in %.3f s, %.1f a second, %s\n", written.tokens, written.seconds,
                (double)written.tokens / written.seconds,
                written.on_device ? "chosen on the device" : "chosen on the host");
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
             t->train.rows * t->ranks.groups, t->train.micro_batches, c->dropout, s->seed);
    run_report_add_fact(t->report, "A step's batch", text);
    run_report_add_fact(t->report, "Text", s->source.data);
    return run_report_end(t->report, t->model.runtime, t->model.device) ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
}

static int begin_training(gpt_trainer *t) {
    const gpt_settings *s = t->settings;
    const int code = prepare_training(t);
    t->meter.silent = true;
    if (code != EXIT_GOOD || t->ranks.rank) {
        t->meter.first_step = t->progress.step + 1;
        return code;
    }
    if (s->report || s->profile) {
        t->report = run_report_create(
            &(run_report_options){s->report, "GPT on text", "tokens per second", NULL, s->argc, s->argv,
                                  t->model.element_count * 3 * sizeof(float), s->profile});
        if (!t->report) return EXIT_BAD_ARGUMENT;
    }
    return gpt_meter_open(&t->meter, s->log, s->tensorboard, s->resume != NULL, t->progress.step + 1,
                          s->iters)
               ? EXIT_GOOD
               : EXIT_BAD_ARGUMENT;
}

/* Before they part: what each rank measured comes to all. */
static int share_times(gpt_trainer *t) {
    const uint32_t each = sizeof(gpt_rank_times) / sizeof(float);
    gpt_overlap overlap;
    if (!t->ranks.communicator || !t->steps) return EXIT_GOOD;
    t->times = calloc(t->ranks.size, sizeof *t->times);
    if (!t->times) {
        fprintf(stderr, "train_gpt: no memory for the times of %" PRIu32 " ranks\n", t->ranks.size);
        return EXIT_BAD_ARGUMENT;
    }
    gpt_rank_times *own = &t->times[t->ranks.rank];
    const uint64_t counted = t->steps > 1 ? t->steps - 1 : 1;
    *own = (gpt_rank_times){(float)t->spent_ns / (float)counted / 1e6f, -1, -1, -1};
    if (gpt_overlap_of_plan(t->train.plan, &overlap) == ROTA_OK) {
        own->computation_ms = (float)overlap.computation_ns / 1e6f;
        own->communication_ms = (float)overlap.communication_ns / 1e6f;
        own->hidden_ms = (float)overlap.hidden_ns / 1e6f;
    }
    const rota_status status =
        gpt_ranks_sum(&t->ranks, t->model.runtime, (float *)t->times, (uint64_t)t->ranks.size * each);
    return status == ROTA_OK ? EXIT_GOOD : gpt_rank_failure(t, status);
}

static void describe_times(const gpt_rank_times *times, char *text, size_t capacity) {
    const int length = snprintf(text, capacity, "%.2f ms a step", (double)times->step_ms);
    if (times->communication_ms < 0)
        snprintf(text + length, capacity - (size_t)length,
                 "; communication is measured on --device cpu, with --report and with --profile");
    else
        snprintf(text + length, capacity - (size_t)length,
                 "; in the last one %.2f ms of computation, %.2f ms of communication, %.0f %% of it hidden",
                 (double)times->computation_ms, (double)times->communication_ms,
                 times->communication_ms > 0
                     ? 100 * (double)times->hidden_ms / (double)times->communication_ms
                     : 100.0);
}

static void say_times(gpt_trainer *t) {
    char name[24], text[192];
    gpt_meter_break(&t->meter);
    for (uint32_t r = 0; t->times && !t->ranks.rank && r < t->ranks.size; r++) {
        describe_times(&t->times[r], text, sizeof text);
        snprintf(name, sizeof name, "Rank %" PRIu32, r);
        if (t->report) run_report_add_fact(t->report, name, text);
        printf("rank %" PRIu32 ": %s\n", r, text);
    }
    fflush(stdout);
}

/* And to the first all weights, to write with. */
static int share_weights(gpt_trainer *t) {
    const gpt_model *own = &t->model;
    gpt_config config = own->config;
    float *values = NULL;
    config.batch = config.shards = config.slices = 0;
    config.dtype = ROTA_F32;
    if (!own->groups && !own->one_model) return EXIT_GOOD;
    if (t->ranks.rank) {
        const rota_status status = gpt_model_follow(own, GPT_VALUES + 1);
        return status == ROTA_OK ? EXIT_GOOD : gpt_rank_failure(t, status);
    }
    rota_status status = gpt_model_create(&config, own->runtime, own->device, NULL, &t->whole);
    for (uint32_t i = 0; i < own->parameter_count && status == ROTA_OK; i++) {
        float *larger = realloc(values, own->parameters[i].count * sizeof *values);
        status = larger ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the weights to write with");
        if (larger) values = larger;
        if (status == ROTA_OK) status = gpt_model_read(own, &own->parameters[i], GPT_VALUES, values);
        if (status == ROTA_OK)
            status = gpt_model_write(&t->whole, &t->whole.parameters[i], GPT_VALUES, values);
    }
    free(values);
    t->whole.fuse = own->fuse;
    t->whole.packing = own->packing;
    t->whole.deterministic = own->deterministic;
    return status == ROTA_OK ? EXIT_GOOD : gpt_rank_failure(t, status);
}

/* What follows is one rank's business, or of nobody else. */
static int leave_ranks(gpt_trainer *t, int code) {
    t->model.communicator = t->model.one_model = t->model.one_part = NULL;
    const rota_status status = gpt_ranks_close(&t->ranks);
    return status == ROTA_OK || code != EXIT_GOOD ? code : report_failure(program, status);
}

/* Threads of this process are prepared one after the other; under MPI ranks have compared what they are about to do.
 * From here on the time of a step is a step's. */
static int await_ranks(gpt_trainer *t) {
    float nothing = 0;
    if (!t->ranks.said) return EXIT_GOOD;
    const rota_status status = gpt_ranks_sum(&t->ranks, t->model.runtime, &nothing, 1);
    t->meter.started_ns = rota_clock_ns();
    if (status == ROTA_OK) return EXIT_GOOD;
    const int code = gpt_rank_failure(t, status);
    gpt_rank_give_up(t);
    return code;
}

static int train_and_write(gpt_trainer *t) {
    const gpt_settings *s = t->settings;
    int code = await_ranks(t);
    if (code == EXIT_GOOD) code = gpt_train(t);
    if (code == EXIT_GOOD) code = share_times(t);
    if (code == EXIT_GOOD && s->sample) code = share_weights(t);
    code = leave_ranks(t, code);
    if (code == EXIT_GOOD) say_times(t);
    if (code == EXIT_GOOD && t->report) code = write_report(t);
    if (code == EXIT_GOOD && s->trace && !t->ranks.rank)
        REPORT_TRY(rota_plan_write_trace(t->train.plan, s->trace));
    gpt_meter_break(&t->meter);
    if (code == EXIT_GOOD && s->sample && !*t->interrupted && !t->ranks.rank) {
        printf("\n");
        code = write_sample(t);
    }
done:
    if (!gpt_meter_close(&t->meter) && code == EXIT_GOOD) code = EXIT_BAD_ARGUMENT;
    return code;
}

/* Up to the first step. */
static int prepare(gpt_trainer *t, opened_device *opened) {
    const int code = prepare_model(t, opened);
    return code == EXIT_GOOD && !t->settings->generate ? begin_training(t) : code;
}

/* The rest. What prepare failed at, other ranks are told. */
static int work(gpt_trainer *t, int code) {
    if (code != EXIT_GOOD) {
        gpt_rank_give_up(t);
        return leave_ranks(t, code);
    }
    return t->settings->generate ? write_sample(t) : train_and_write(t);
}

static void end_rank(gpt_trainer *t, opened_device *opened) {
    gpt_keeper_free(&t->keeper);
    gpt_plan_free(&t->train);
    gpt_plan_free(&t->loss);
    gpt_model_free(&t->whole);
    gpt_model_free(&t->model);
    report_close(opened);
    run_report_free(t->report);
    free(t->times);
}

static rota_runtime_options runtime_options(const gpt_settings *s, uint32_t ranks) {
    const uint64_t timeout_ns = s->timeout * 1000000000u;
    /* Nodes' times cost a GPU more than a CPU, and say how much of the communication is hidden. */
    const bool timed = ranks > 1 && s->device && strcmp(s->device, "cpu") == 0;
    /* Another rank that does not come is found out before the device that waits for it. */
    return ROTA_RUNTIME_OPTIONS(.diagnostics = s->trace || s->report || s->profile || timed,
                                .debug_names = s->debug_names,
                                .timeout_ns = ranks > 1 ? timeout_ns + timeout_ns / 2 : timeout_ns,
                                .memory_limit_bytes = s->memory_limit, OPTION_CAPTURED(s->capture));
}

static rota_communicator_options communicator_options(const gpt_settings *s, rota_device *const *devices) {
    return ROTA_COMMUNICATOR_OPTIONS(.name = "training", .timeout_ns = s->timeout * 1000000000u,
                                     .devices = launched_gpus(s->device) ? devices : NULL);
}

/* ---- A process: the only rank, or one of mpirun's ---- */

static int write_tokens(gpt_text *text, const gpt_settings *s) {
    const bool good =
        gpt_text_tokenize(text, &s->source) && gpt_tokens_write(s->write_tokens, text->tokens, text->count);
    if (good)
        printf("%zu tokens of %u kinds are in %s\n", text->count, text->vocabulary.count, s->write_tokens);
    gpt_text_free(text);
    return good ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
}

static uint32_t together_of(const gpt_settings *s) {
    return s->tensor_parallel > 1 ? (uint32_t)s->tensor_parallel : 1;
}

/* Neighbours have a model together. */
static void set_group(gpt_ranks *ranks, uint32_t together) {
    ranks->group = ranks->rank / together;
    ranks->groups = ranks->size / together;
    if (together == 1) ranks->one_part = ranks->communicator;
}

static rota_status split_ranks(gpt_trainer *t) {
    gpt_ranks *ranks = &t->ranks;
    const uint32_t together = together_of(t->settings);
    set_group(ranks, together);
    if (!ranks->communicator || together == 1) return ROTA_OK;
    ROTA_TRY(rota_communicator_open_split(ranks->communicator, ranks->group, ranks->rank, "one model",
                                          &ranks->one_model));
    return rota_communicator_open_split(ranks->communicator, ranks->rank % together, ranks->rank, "one part",
                                        &ranks->one_part);
}

/* Joins those that mpirun started with it. */
static int join_ranks(gpt_trainer *t, const opened_device *opened) {
    const gpt_settings *s = t->settings;
    const rota_communicator_options options = communicator_options(s, &opened->device);
    int code = EXIT_GOOD;
    REPORT_TRY(rota_communicator_open(opened->runtime, &options, &t->ranks.communicator));
    t->ranks.rank = rota_communicator_rank(t->ranks.communicator);
    t->ranks.size = rota_communicator_size(t->ranks.communicator);
    if (t->ranks.rank) progress_quiet();
    if (s->ranks && s->ranks != t->ranks.size) {
        if (!t->ranks.rank)
            fprintf(stderr, "train_gpt: --ranks %" PRIu64 ", but %" PRIu32 " were started: leave it out\n",
                    s->ranks, t->ranks.size);
        code = EXIT_BAD_ARGUMENT;
    }
    if (code == EXIT_GOOD && !s->generate && t->ranks.size % together_of(s) != 0) {
        if (!t->ranks.rank)
            fprintf(stderr, "train_gpt: --tensor-parallel %" PRIu64 ", but %" PRIu32 " were started\n",
                    s->tensor_parallel, t->ranks.size);
        code = EXIT_BAD_ARGUMENT;
    }
    if (t->ranks.size == 1 || s->generate) code = leave_ranks(t, code);
    if (code == EXIT_GOOD) REPORT_TRY(split_ranks(t));
done:
    return code;
}

static uint64_t settings_hash(const gpt_settings *s) {
    const uint64_t numbers[] = {s->iters,
                                s->warmup,
                                s->eval_interval,
                                s->eval_iters,
                                s->seed,
                                s->patience,
                                s->no_fuse,
                                s->shard_optimizer,
                                s->shard_parameters,
                                s->tensor_parallel,
                                s->find_nan,
                                s->report || s->profile,
                                (uint64_t)s->schedule,
                                s->source.block,
                                s->bucket};
    const double rates[] = {s->lr, s->min_lr};
    uint64_t hash = gpt_hash(GPT_HASH_BEGIN, numbers, sizeof numbers);
    hash = gpt_hash(hash, rates, sizeof rates);
    return gpt_hash(hash, &s->config, sizeof s->config);
}

/* Ranks on other hosts may have been given something else. */
static int check_ranks(gpt_trainer *t) {
    const gpt_text *text = &t->text;
    rota_runtime *runtime = t->model.runtime;
    int code = EXIT_GOOD;
    REPORT_TRY(gpt_ranks_agree(&t->ranks, runtime, "what was asked for", settings_hash(t->settings)));
    if (!t->ranks.communicator) return code;
    const uint64_t tokens = gpt_hash(GPT_HASH_BEGIN, text->tokens, text->count * sizeof *text->tokens);
    REPORT_TRY(gpt_ranks_agree(&t->ranks, runtime, "the text", tokens));
    REPORT_TRY(gpt_ranks_agree(&t->ranks, runtime, "where the training stands",
                               gpt_hash(GPT_HASH_BEGIN, &t->progress, sizeof t->progress)));
done:
    return code;
}

static int run_process(const gpt_settings *s, const atomic_bool *interrupted, uint32_t launched) {
    gpt_trainer t = {.settings = s, .interrupted = interrupted, .ranks = {.size = 1, .groups = 1}};
    const bool joins = launched > 1;
    if (s->checkpoint && !joins && !checkpoint_folder(s->checkpoint)) return EXIT_BAD_ARGUMENT;
    if (!(s->source.data ? gpt_text_read(&t.text, &s->source) : gpt_text_vocabulary(&t.text, &s->source)))
        return EXIT_BAD_ARGUMENT;
    if (s->write_tokens) return write_tokens(&t.text, s);
    opened_device opened;
    const rota_runtime_options options = runtime_options(s, launched);
    char room[16];
    const char *device = launched_device(s->device, launched_number(), room);
    int code = report_open_quietly(program, device, &options, &opened);
    if (code == EXIT_GOOD && joins) code = join_ranks(&t, &opened);
    if (code == EXIT_GOOD && !t.ranks.rank) {
        report_say_device(device, &opened);
        if (s->checkpoint && joins && !checkpoint_folder(s->checkpoint)) code = EXIT_BAD_ARGUMENT;
    }
    const bool writes = code == EXIT_GOOD && (!s->generate || !t.ranks.rank);
    if (writes && s->source.data && !gpt_text_tokenize(&t.text, &s->source)) code = EXIT_BAD_ARGUMENT;
    if (writes && code == EXIT_GOOD) code = prepare(&t, &opened);
    if (writes && code == EXIT_GOOD) code = check_ranks(&t);
    if (writes || code != EXIT_GOOD) code = work(&t, code);
    end_rank(&t, &opened);
    gpt_text_free(&t.text);
    return code;
}

/* ---- Ranks that are threads of this process ---- */

typedef struct own_rank {
    gpt_trainer trainer;
    opened_device opened;
    pthread_t thread;
    bool runs;
    int code;
} own_rank;

static void *run_own_rank(void *user) {
    own_rank *rank = user;
    gpt_trainer *t = &rank->trainer;
    if (t->ranks.rank) {
        progress_quiet();
        rank->code = prepare(t, &rank->opened);
    }
    rank->code = work(t, rank->code);
    return NULL;
}

/* Of ranks first, first + step and so on, `size` of them. */
static rota_status open_own_group(const gpt_settings *s, own_rank *ranks, uint32_t first, uint32_t step,
                                  uint32_t size, rota_runtime *const *runtimes, rota_device *const *devices) {
    rota_runtime *its[GPT_RANKS_MOST];
    rota_device *gpus[GPT_RANKS_MOST];
    rota_communicator *opened[GPT_RANKS_MOST];
    rota_communicator_options options = communicator_options(s, gpus);
    options.name = step == 1 ? "one model" : "one part";
    for (uint32_t i = 0; i < size; i++)
        its[i] = runtimes[first + i * step], gpus[i] = devices[first + i * step];
    ROTA_TRY(rota_communicator_open_ranks(its, size, &options, opened));
    for (uint32_t i = 0; i < size; i++) {
        gpt_ranks *of = &ranks[first + i * step].trainer.ranks;
        *(step == 1 ? &of->one_model : &of->one_part) = opened[i];
    }
    return ROTA_OK;
}

static rota_status open_own_groups(const gpt_settings *s, own_rank *ranks, uint32_t count,
                                   rota_runtime *const *runtimes, rota_device *const *devices) {
    const uint32_t together = together_of(s);
    for (uint32_t r = 0; r < count; r++) set_group(&ranks[r].trainer.ranks, together);
    if (together == 1) return ROTA_OK;
    for (uint32_t first = 0; first < count; first += together)
        ROTA_TRY(open_own_group(s, ranks, first, 1, together, runtimes, devices));
    for (uint32_t first = 0; first < together; first++)
        ROTA_TRY(open_own_group(s, ranks, first, together, count / together, runtimes, devices));
    return ROTA_OK;
}

static int open_own_ranks(const gpt_settings *s, own_rank *ranks, uint32_t count) {
    rota_runtime **runtimes = calloc(count, sizeof *runtimes);
    rota_device **devices = calloc(count, sizeof *devices);
    rota_communicator **communicators = calloc(count, sizeof *communicators);
    const rota_communicator_options options = communicator_options(s, devices);
    rota_runtime_options own = runtime_options(s, count);
    char room[16];
    int code = runtimes && devices && communicators ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    own.worker_threads = launched_workers(count);
    if (code != EXIT_GOOD) fprintf(stderr, "train_gpt: no memory for %" PRIu32 " ranks\n", count);
    for (uint32_t r = 0; r < count && code == EXIT_GOOD; r++) {
        code = report_open_quietly(program, launched_device(s->device, r, room), &own, &ranks[r].opened);
        runtimes[r] = ranks[r].opened.runtime;
        devices[r] = ranks[r].opened.device;
    }
    if (code != EXIT_GOOD) goto done;
    REPORT_TRY(rota_communicator_open_ranks(runtimes, count, &options, communicators));
    for (uint32_t r = 0; r < count; r++) ranks[r].trainer.ranks.communicator = communicators[r];
    REPORT_TRY(open_own_groups(s, ranks, count, runtimes, devices));
    report_say_device(launched_device(s->device, 0, room), &ranks[0].opened);
done:
    free(communicators);
    free(devices);
    free(runtimes);
    return code;
}

/* The first is prepared before the others begin: what is wrong is said once. */
static int work_own_ranks(own_rank *ranks, uint32_t count) {
    int code = prepare(&ranks[0].trainer, &ranks[0].opened);
    for (uint32_t r = 1; r < count && code == EXIT_GOOD; r++) {
        ranks[r].runs = pthread_create(&ranks[r].thread, NULL, run_own_rank, &ranks[r]) == 0;
        if (ranks[r].runs) continue;
        fprintf(stderr, "train_gpt: no thread for rank %" PRIu32 "\n", r);
        code = EXIT_BAD_ARGUMENT;
    }
    ranks[0].code = code;
    (void)run_own_rank(&ranks[0]);
    code = ranks[0].trainer.follows ? EXIT_GOOD : ranks[0].code;
    for (uint32_t r = 1; r < count; r++) {
        if (ranks[r].runs)
            (void)pthread_join(ranks[r].thread, NULL);
        else
            (void)leave_ranks(&ranks[r].trainer, EXIT_CHECK_FAILED);
        if (code == EXIT_GOOD && !ranks[r].trainer.follows) code = ranks[r].code;
    }
    return code;
}

static int run_own_ranks(const gpt_settings *s, const atomic_bool *interrupted) {
    const uint32_t count = (uint32_t)s->ranks;
    gpt_text text = {0};
    atomic_bool said = false;
    if (s->checkpoint && !checkpoint_folder(s->checkpoint)) return EXIT_BAD_ARGUMENT;
    if (!gpt_text_read(&text, &s->source)) return EXIT_BAD_ARGUMENT;
    own_rank *ranks = calloc(count, sizeof *ranks);
    int code = ranks ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (!ranks) fprintf(stderr, "train_gpt: no memory for %" PRIu32 " ranks\n", count);
    for (uint32_t r = 0; r < count && ranks; r++)
        ranks[r].trainer = (gpt_trainer){
            .settings = s, .interrupted = interrupted, .ranks = {.rank = r, .size = count, .said = &said}};
    if (code == EXIT_GOOD) code = open_own_ranks(s, ranks, count);
    if (code == EXIT_GOOD && !gpt_text_tokenize(&text, &s->source)) code = EXIT_BAD_ARGUMENT;
    for (uint32_t r = 0; r < count && ranks; r++) ranks[r].trainer.text = text; /* which is read only */
    if (code == EXIT_GOOD) code = work_own_ranks(ranks, count);
    for (uint32_t r = 0; r < count && ranks; r++) {
        (void)leave_ranks(&ranks[r].trainer, EXIT_CHECK_FAILED);
        end_rank(&ranks[r].trainer, &ranks[r].opened);
    }
    free(ranks);
    gpt_text_free(&text);
    return code;
}

int gpt_run(const gpt_settings *s, const atomic_bool *interrupted) {
    const uint32_t launched = launched_ranks();
    if (launched < 2 && s->ranks > 1 && !s->generate) return run_own_ranks(s, interrupted);
    if (launched < 2 || !s->write_tokens) return run_process(s, interrupted, launched);
    fprintf(stderr, "train_gpt: --write-tokens is what one process does, not %" PRIu32 "\n", launched);
    return EXIT_BAD_ARGUMENT;
}
