/* rota-bench submit: many threads submitting plans of 8 nodes, against the same code behind one mutex in the
 * same run. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/atomic.h"
#include "base/futex.h"
#include "bench/commands.h"
#include "bench/graphs.h"
#include "bench/options.h"
#include "bench/progress.h"
#include "bench/raw_vk.h"
#include "bench/report.h"
#include "sched/testing.h"

static const char program[] = "rota-bench submit";
#define PLAN_NODES 8
#define THREADS_MAX 64
/* Samples kept of each thread and phase; further calls are counted only. */
#define SAMPLES_MAX (UINT64_C(1) << 20)
#define RAW_SUBMISSIONS 4096
#define RAW_ROUNDS 7
/* A device that makes no room for this long is not going to. */
#define BUSY_MAX_NS UINT64_C(30000000000)

typedef rota_status (*submit_fn)(rota_plan *plan, rota_args *args, rota_ticket *out_ticket);

typedef struct phase {
    const char *name;
    submit_fn submit;
    double rate; /* submissions a second of all threads together; 0: as fast as it goes */
    uint64_t until_ns;
} phase;

/* One thread's plan on a buffer of its own, and what its calls took. */
typedef struct caller {
    const phase *phase;
    pthread_barrier_t *start;
    uint32_t threads;
    bench_graph *graph;
    rota_plan *plan;
    uint64_t submissions; /* of all phases: what the buffer must show */
    uint64_t calls, busy; /* of this phase */
    uint64_t begin_ns, end_ns;
    float *samples;
    uint64_t sample_count;
    rota_status status;
    char message[ROTA_ERROR_MESSAGE_MAX];
} caller;

typedef struct result {
    double rate, p50, p99, p999; /* completed a second; nanoseconds of a caller's call */
    uint64_t calls, busy;
} result;

static void sleep_until(uint64_t ns) {
    const struct timespec when = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) != 0) {
    }
}

/* One call, with retries while there is no room; the sample is all of it in an open loop, and in a closed one
 * the call that was accepted (waiting for room there is the load, not the call's cost). */
static rota_status call_once(caller *c, rota_ticket *ticket) {
    uint64_t begin = rota_clock_ns(), give_up = begin + BUSY_MAX_NS;
    rota_status status = c->phase->submit(c->plan, NULL, ticket);
    while (status == ROTA_BUSY) {
        if (rota_clock_ns() > give_up)
            return rota_fail_context(ROTA_TIMEOUT, "no room within %.0f s: ", BUSY_MAX_NS * 1e-9);
        c->busy++;
        sleep_until(rota_clock_ns() + 20000);
        if (c->phase->rate <= 0) begin = rota_clock_ns();
        status = c->phase->submit(c->plan, NULL, ticket);
    }
    if (status != ROTA_OK) return status;
    if (c->sample_count < SAMPLES_MAX) c->samples[c->sample_count++] = (float)(rota_clock_ns() - begin);
    c->calls++;
    c->submissions++;
    return ROTA_OK;
}

static rota_status run_calls(caller *c) {
    const phase *p = c->phase;
    rota_ticket ticket = {0};
    uint64_t now = c->begin_ns;
    double spacing_ns = p->rate > 0 ? 1e9 * c->threads / p->rate : 0;
    while (now < p->until_ns) {
        if (spacing_ns > 0) {
            uint64_t due = c->begin_ns + (uint64_t)(spacing_ns * (double)c->calls);
            if (due > now) sleep_until(due);
        }
        ROTA_TRY(call_once(c, &ticket));
        now = rota_clock_ns();
    }
    /* Completed is what counts. */
    if (ticket.id) ROTA_TRY(rota_wait(ticket, 0));
    return ROTA_OK;
}

static void *caller_main(void *argument) {
    caller *c = argument;
    pthread_barrier_wait(c->start);
    c->begin_ns = rota_clock_ns();
    c->status = run_calls(c);
    c->end_ns = rota_clock_ns();
    if (c->status != ROTA_OK) snprintf(c->message, sizeof c->message, "%s", rota_last_error());
    return NULL;
}

static progress_bar bar;
static uint64_t phases_done;

/* Runs a phase; `scratch` holds THREADS * SAMPLES_MAX. */
static int run_phase(caller *callers, uint32_t threads, phase *p, double seconds, double *scratch,
                     result *out) {
    pthread_t ids[THREADS_MAX];
    pthread_barrier_t start;
    if (pthread_barrier_init(&start, NULL, threads) != 0) return EXIT_BAD_ARGUMENT;
    p->until_ns = rota_clock_ns() + (uint64_t)(seconds * 1e9);
    for (uint32_t t = 0; t < threads; t++) {
        caller *c = &callers[t];
        c->phase = p;
        c->start = &start;
        c->threads = threads;
        c->calls = c->busy = c->sample_count = 0;
        if (pthread_create(&ids[t], NULL, caller_main, c) != 0) {
            fprintf(stderr, "%s: thread %u of %u can't be started\n", program, t + 1, threads);
            exit(EXIT_BAD_ARGUMENT); /* those started wait at the barrier for ever */
        }
    }
    uint64_t begin = UINT64_MAX, end = 0, samples = 0;
    int code = EXIT_GOOD;
    *out = (result){0};
    for (uint32_t t = 0; t < threads; t++) {
        caller *c = &callers[t];
        pthread_join(ids[t], NULL);
        progress_at(&bar, phases_done += t + 1 == threads);
        if (c->begin_ns < begin) begin = c->begin_ns;
        if (c->end_ns > end) end = c->end_ns;
        out->calls += c->calls;
        out->busy += c->busy;
        for (uint64_t i = 0; i < c->sample_count; i++) scratch[samples++] = c->samples[i];
        if (c->status != ROTA_OK && code == EXIT_GOOD) {
            rota_fail(c->status, "thread %u, %s: %s", t, p->name, c->message);
            code = report_failure(program, c->status);
        }
    }
    pthread_barrier_destroy(&start);
    sample_stats stats = samples_describe(scratch, samples);
    out->rate = (double)out->calls / ((double)(end - begin) / 1e9);
    out->p50 = stats.median;
    out->p99 = stats.p99;
    out->p999 = stats.p999;
    return code;
}

static rota_status caller_create(caller *c, const opened_device *opened, bench_graph_kind kind) {
    rota_device *device = opened->device;
    c->samples = malloc(SAMPLES_MAX * sizeof *c->samples);
    if (!c->samples) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for samples");
    ROTA_TRY(bench_graph_create(
        &(bench_graph_options){.kind = kind, .nodes = PLAN_NODES, .runtime = opened->runtime}, &c->graph));
    ROTA_TRY(bench_graph_record_all(c->graph, 1));
    ROTA_TRY(rota_compile(opened->runtime, c->graph->graph,
                          &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &c->plan));
    return bench_graph_reset(c->graph, device);
}

/* vkQueueSubmit2 alone, saturated: one round on a thread of its own. */
typedef struct raw_round {
    raw_vk *raw;
    uint32_t merged; /* command buffers a call */
    double cpu_ns;   /* a submission */
    bool good;
} raw_round;

static void *raw_main(void *argument) {
    raw_round *round = argument;
    struct timespec begin, end;
    round->good = true;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (uint32_t i = 0; i < RAW_SUBMISSIONS && round->good; i += round->merged)
        round->good = raw_vk_submit_merged(round->raw, round->merged);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    round->cpu_ns =
        ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / RAW_SUBMISSIONS;
    round->good = round->good && raw_vk_wait(round->raw);
    return NULL;
}

/* CPU time of vkQueueSubmit2 alone, one at a time and with 8 command buffers a call. What a call costs
 * depends on the CPU that it runs on, and many times as much where that one takes the GPU's interrupts: so
 * each round has a thread of its own, and the medians are given. */
static bool raw_cost(const bench_graph *graph, uint32_t index, sample_stats *out_single,
                     sample_stats *out_merged) {
    raw_vk *raw = raw_vk_create(graph, index);
    bool good = raw != NULL;
    sample_stats *outs[] = {out_single, out_merged};
    const uint32_t merged[] = {1, 8};
    uint64_t runs = 0;
    for (int m = 0; m < 2 && good; m++) {
        double costs[RAW_ROUNDS];
        for (int r = 0; r < RAW_ROUNDS && good; r++) {
            raw_round round = {.raw = raw, .merged = merged[m]};
            pthread_t thread;
            good = pthread_create(&thread, NULL, raw_main, &round) == 0;
            if (!good) {
                fprintf(stderr, "%s: a thread can't be started\n", program);
                break;
            }
            pthread_join(thread, NULL);
            good = round.good;
            costs[r] = round.cpu_ns;
            runs += RAW_SUBMISSIONS;
        }
        if (good) *outs[m] = samples_describe(costs, RAW_ROUNDS);
    }
    good = good && raw_vk_check(raw, graph, runs);
    raw_vk_destroy(raw);
    return good;
}

static double median_rate(const result *results, uint64_t count) {
    double rates[64];
    for (uint64_t i = 0; i < count; i++) rates[i] = results[i].rate;
    return samples_describe(rates, count).median;
}

/* The round with the median rate stands for all: its rate, its callers' times. */
static const result *median_round(const result *results, uint64_t count) {
    double median = median_rate(results, count);
    const result *best = &results[0];
    for (uint64_t i = 1; i < count; i++) {
        double d = results[i].rate - median, b = best->rate - median;
        if ((d < 0 ? -d : d) < (b < 0 ? -b : b)) best = &results[i];
    }
    return best;
}

static void print_result(const char *name, const result *r) {
    printf("%-22s %10.0f submissions/s   caller p50 %8.0f   p99 %9.0f   p99.9 %9.0f ns   BUSY %" PRIu64 "\n",
           name, r->rate, r->p50, r->p99, r->p999, r->busy);
}

static void add_result(cJSON *json, const char *prefix, const result *r) {
    const struct {
        const char *name;
        double value;
    } fields[] = {{"submissions_per_s", r->rate},
                  {"caller_ns_p50", r->p50},
                  {"caller_ns_p99", r->p99},
                  {"caller_ns_p999", r->p999},
                  {"busy", (double)r->busy}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, fields[i].name);
        cJSON_AddNumberToObject(json, name, fields[i].value);
    }
}

/* ---- Submitting to a sequencer that sleeps, against waking a bare thread ---- */

#define WAKES 300
#define WAKE_GAP_NS 1000000 /* far beyond what the sequencer spins */

typedef struct wake_target {
    _Atomic uint32_t word, stop;
} wake_target;

static void *wake_main(void *argument) {
    wake_target *target = argument;
    while (!ra_load_acquire(&target->stop)) {
        uint32_t seen = ra_load_acquire(&target->word);
        (void)rota_futex_wait(&target->word, seen, rota_deadline_after(100000000));
    }
    return NULL;
}

static rota_status time_wakes(caller *c, wake_target *target, double *out_submit, double *out_wake) {
    static double submits[WAKES], wakes[WAKES];
    rota_ticket ticket;
    for (uint32_t i = 0; i < WAKES; i++) {
        sleep_until(rota_clock_ns() + WAKE_GAP_NS);
        uint64_t begin = rota_clock_ns();
        ROTA_TRY(rota_submit(c->plan, NULL, &ticket));
        submits[i] = (double)(rota_clock_ns() - begin);
        c->submissions++;
        ROTA_TRY(rota_wait(ticket, 0));
        sleep_until(rota_clock_ns() + WAKE_GAP_NS);
        begin = rota_clock_ns();
        (void)ra_fetch_add_seq_cst(&target->word, 1);
        rota_futex_wake(&target->word, 1);
        wakes[i] = (double)(rota_clock_ns() - begin);
    }
    *out_submit = samples_describe(submits, WAKES).median;
    *out_wake = samples_describe(wakes, WAKES).median;
    return ROTA_OK;
}

/* The two in turn, so that both meet the same machine. */
static rota_status measure_asleep(caller *c, cJSON *json) {
    wake_target target = {0};
    pthread_t thread;
    double submit_ns = 0, wake_ns = 0;
    if (pthread_create(&thread, NULL, wake_main, &target) != 0)
        return rota_fail(ROTA_SYSTEM, "a thread can't be started");
    rota_status status = time_wakes(c, &target, &submit_ns, &wake_ns);
    ra_store_release(&target.stop, 1);
    rota_futex_wake(&target.word, 1);
    pthread_join(thread, NULL);
    ROTA_TRY(status);
    printf("sequencer asleep       caller p50 %.0f ns; waking a bare thread %.0f ns, ratio %.2f\n", submit_ns,
           wake_ns, submit_ns / wake_ns);
    cJSON_AddNumberToObject(json, "asleep_caller_ns_p50", submit_ns);
    cJSON_AddNumberToObject(json, "futex_wake_ns_p50", wake_ns);
    return ROTA_OK;
}

#define ROUNDS_MAX 64
#define OTHER_PHASES 3u /* beside two a round: the warm one and two open loops */

static int measure(const opened_device *opened, caller *callers, uint32_t threads, double seconds,
                   uint64_t rounds, double *scratch, cJSON *json) {
    int code = EXIT_GOOD;
    static result closed[ROUNDS_MAX], mutex_closed[ROUNDS_MAX];
    result open, mutex_open, warm;
    phase free_phase = {.name = "closed loop", .submit = rota_submit};
    phase locked_phase = {.name = "closed loop, mutex", .submit = rota_submit_locked};
    progress_begin(&bar, "measuring", NULL, 2 * rounds + OTHER_PHASES);
    code = run_phase(callers, threads, &free_phase, seconds / 4, scratch, &warm);
    rota_runtime_stats before = ROTA_RUNTIME_STATS(), after = ROTA_RUNTIME_STATS();
    double cpu_ns[ROUNDS_MAX], submissions = 0, driver_submits = 0;
    for (uint64_t r = 0; r < rounds && code == EXIT_GOOD; r++) {
        rota_runtime_get_stats(opened->runtime, &before);
        code = run_phase(callers, threads, &free_phase, seconds, scratch, &closed[r]);
        rota_runtime_get_stats(opened->runtime, &after);
        cpu_ns[r] = (double)(after.scheduler_cpu_ns - before.scheduler_cpu_ns) / (double)closed[r].calls;
        submissions += (double)closed[r].calls;
        driver_submits += (double)(after.driver_submits - before.driver_submits);
        if (code != EXIT_GOOD) break;
        REPORT_TRY(rota_runtime_lock_submission(opened->runtime, true));
        code = run_phase(callers, threads, &locked_phase, seconds, scratch, &mutex_closed[r]);
        REPORT_TRY(rota_runtime_lock_submission(opened->runtime, false));
    }
    if (code != EXIT_GOOD) goto done;
    const result *best = median_round(closed, rounds), *mutex = median_round(mutex_closed, rounds);
    phase open_phase = {.name = "open loop", .submit = rota_submit, .rate = mutex->rate / 2};
    phase locked_open = {.name = "open loop, mutex", .submit = rota_submit_locked, .rate = mutex->rate / 2};
    code = run_phase(callers, threads, &open_phase, seconds, scratch, &open);
    if (code == EXIT_GOOD) {
        REPORT_TRY(rota_runtime_lock_submission(opened->runtime, true));
        code = run_phase(callers, threads, &locked_open, seconds, scratch, &mutex_open);
        REPORT_TRY(rota_runtime_lock_submission(opened->runtime, false));
    }
    if (code == EXIT_GOOD) REPORT_TRY(measure_asleep(&callers[0], json));
    for (uint32_t t = 0; t < threads && code == EXIT_GOOD; t++)
        REPORT_TRY(bench_graph_check(callers[t].graph, callers[t].submissions, NULL));
    if (code != EXIT_GOOD) goto done;

    progress_clear(&bar);
    print_result("closed loop", best);
    print_result("closed loop, mutex", mutex);
    print_result("open loop", &open);
    print_result("open loop, mutex", &mutex_open);
    sample_stats cpu = samples_describe(cpu_ns, rounds);
    printf("completed against the mutex %.2f; open loop p99 against the mutex %.3f; %.0f ns of rota's "
           "threads' CPU a submission (%.0f to %.0f), %.1f submissions a driver call; all results checked\n",
           best->rate / mutex->rate, open.p99 / mutex_open.p99, cpu.median, cpu.least, cpu.most,
           submissions / (driver_submits > 0 ? driver_submits : 1));
    add_result(json, "", best);
    add_result(json, "mutex_", mutex);
    add_result(json, "open_", &open);
    add_result(json, "mutex_open_", &mutex_open);
    cJSON_AddNumberToObject(json, "scheduler_cpu_ns_per_submission", cpu.median);
    cJSON_AddNumberToObject(json, "submissions_per_driver_submit",
                            submissions / (driver_submits > 0 ? driver_submits : 1));
done:
    progress_end(&bar);
    return code;
}

/* What the same submissions cost through the raw API. Returns the exit code. */
static int add_raw(const bench_graph *graph, const rota_device_info *info, cJSON *json) {
    sample_stats single, merged;
    if (!raw_cost(graph, (uint32_t)strtoul(info->id + 3, NULL, 10), &single, &merged))
        return EXIT_CHECK_FAILED;
    printf("raw vkQueueSubmit2: CPU %.0f ns a submission (%.0f to %.0f), %.0f ns with 8 a call\n",
           single.median, single.least, single.most, merged.median);
    cJSON_AddNumberToObject(json, "raw_cpu_ns_per_submission", single.median);
    cJSON_AddNumberToObject(json, "raw_cpu_ns_per_submission_merged_8", merged.median);
    return EXIT_GOOD;
}

int bench_submit(int argc, char **argv) {
    uint64_t threads = 8, rounds = 3, merge = 0;
    int kind = 0;
    double seconds = 1;
    const char *id = NULL, *out = NULL;
    const option options[] = {
        OPTION_ROW_DEVICE(id),
        {"--graph", OPTION_CHOICE, &kind, "chain|wide", 0, 0, false, "of the small plans"},
        {"--threads", OPTION_COUNT, &threads, "T", 1, THREADS_MAX, false, "threads that submit"},
        {"--seconds", OPTION_REAL, &seconds, "S", 0.05, 600, false, "of a round"},
        {"--rounds", OPTION_COUNT, &rounds, "N", 1, ROUNDS_MAX, false, "rounds of each way, in turn"},
        {"--merge", OPTION_COUNT, &merge, "N", 0, 1000000, false,
         "submissions that one driver's call takes at most; 0: the library's default"},
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench submit --threads 8 --seconds 2 --merge 1",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;

    opened_device opened;
    int code = report_open(program, id, &ROTA_RUNTIME_OPTIONS(.merge_max = (uint32_t)merge), &opened);
    if (code != EXIT_GOOD) return code;
    const rota_device_info *info = rota_device_get_info(opened.device);
    cJSON *json = report_new();
    cJSON_AddItemToObject(json, "device", report_device(info));
    cJSON_AddNumberToObject(json, "threads", (double)threads);
    cJSON_AddStringToObject(json, "graph", kind == BENCH_CHAIN ? "chain" : "wide");
    cJSON_AddNumberToObject(json, "nodes", PLAN_NODES);
    cJSON_AddNumberToObject(json, "merge_max", (double)merge);
    static caller callers[THREADS_MAX];
    double *scratch = malloc(threads * SAMPLES_MAX * sizeof *scratch);
    if (!scratch) {
        fprintf(stderr, "%s: no memory for samples\n", program);
        code = EXIT_BAD_ARGUMENT;
        goto done;
    }
    for (uint64_t t = 0; t < threads; t++)
        REPORT_TRY(caller_create(&callers[t], &opened, (bench_graph_kind)kind));
    code = measure(&opened, callers, (uint32_t)threads, seconds, rounds, scratch, json);
    if (code == EXIT_GOOD && info->kind == ROTA_EXEC_VK) code = add_raw(callers[0].graph, info, json);
done:
    for (uint64_t t = 0; t < threads; t++) {
        rota_plan_release(callers[t].plan);
        bench_graph_release(callers[t].graph);
        free(callers[t].samples);
    }
    free(scratch);
    report_close(&opened);
    return report_write(json, code == EXIT_GOOD ? out : NULL, code);
}
