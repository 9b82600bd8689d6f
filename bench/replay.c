/* rota-bench replay: what replaying a graph of trivial kernels costs, beside the same work issued through the
 * raw API (on the CPU: plain calls) in the same run, both checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/commands.h"
#include "bench/graphs.h"
#include "bench/graphs_file.h"
#include "bench/options.h"
#include "bench/pictures.h"
#include "bench/progress.h"
#include "bench/raw_cpu.h"
#include "bench/raw_cuda.h"
#include "bench/raw_vk.h"
#include "bench/report.h"

static const char program[] = "rota-bench replay";
/* A round is about this long, so that what one submission costs beside the nodes does not show. */
#define ROUND_NS 30e6
#define REPLAYS_MAX 256
/* Replays one by one, each waited for before the next: SINGLES in turns with one of the raw API, which leaves rota's
 * threads, and a GPU that changes between two drivers' contexts, as long without work; and ROWS rows of IN_ROW behind
 * one that is no sample, in turns with rows of the raw API. Fewer where they are long. */
#define SINGLES 20u
#define ROWS 10u
#define IN_ROW 16u
#define SINGLES_LONG_US 1e6
#define ROW_LONG_US 10e3
/* Replays of plans with slots that are no samples, if that is no more rounds than WARM_ROUNDS_MAX: until all
 * instances are there, and the device knows what stays the same in their slots. */
#define WARM_REPLAYS 400u
#define WARM_ROUNDS_MAX 32u

typedef struct settings {
    bench_graph_options graph;
    uint64_t rounds;
    plan_pictures pictures;
    const char *trace, *save;
    bool debug_names;
} settings;

/* Samples of one side. */
typedef struct samples {
    double *submit_ns, *device_ns; /* a submission; a round, per node */
    double *cpu_ns;                /* a submission, of a round: rota's threads */
    uint64_t submits, rounds;
} samples;

/* Submissions from submit to done, each side's. */
typedef struct done_samples {
    double us[ROWS * IN_ROW], raw_us[ROWS * IN_ROW];
    uint64_t count;
} done_samples;

typedef struct bench {
    const settings *settings;
    opened_device opened;
    bench_graph *graph;
    rota_plan *plan;
    rota_args *args[2]; /* the second with --change only */
    uint8_t *sets;      /* of each replay that there was */
    raw_vk *raw_vk;     /* one of the three */
    raw_cuda *raw_cuda;
    raw_cpu *raw_cpu;
    double compile_ns;
    uint64_t per_round, replays;
    done_samples single, row;
    samples rota, changed, raw; /* changed: every submission has other arguments than the last */
    double raw_cpu_ns;          /* of the caller, all rounds */
} bench;

static double thread_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static uint64_t scheduler_cpu_ns(const bench *b) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(b->opened.runtime, &stats);
    return stats.scheduler_cpu_ns;
}

static rota_status prepare_rota(bench *b) {
    rota_device *device = b->opened.device;
    ROTA_TRY(bench_graph_create(&b->settings->graph, &b->graph));
    ROTA_TRY(bench_graph_record_all(b->graph, 1));
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .instances = 16);
    /* The first plan loads the kernels; what compiling takes is the second's. */
    ROTA_TRY(rota_compile(b->opened.runtime, b->graph->graph, &options, &b->plan));
    rota_plan_release(b->plan);
    b->plan = NULL;
    uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_compile(b->opened.runtime, b->graph->graph, &options, &b->plan));
    b->compile_ns = (double)(rota_clock_ns() - begin);
    ROTA_TRY(bench_graph_reset(b->graph, device));
    if (b->settings->save) ROTA_TRY(bench_graph_save(b->graph, b->settings->save));
    for (uint32_t set = 0; set < (b->settings->graph.seeds ? 2 : 1); set++) {
        ROTA_TRY(rota_args_create(b->plan, &b->args[set]));
        ROTA_TRY(bench_graph_bind(b->graph, b->args[set], set));
    }
    return ROTA_OK;
}

/* One replay from submit to done. */
static rota_status one_replay(bench *b, double *out_us) {
    rota_ticket ticket;
    uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_submit_wait(b->plan, b->args[0], 0, &ticket));
    ROTA_TRY(rota_wait(ticket, 0));
    *out_us = (double)(rota_clock_ns() - begin) / 1e3;
    b->replays++;
    return ROTA_OK;
}

static bool raw_wait(bench *b) {
    if (b->raw_vk) return raw_vk_wait(b->raw_vk);
    return b->raw_cuda ? raw_cuda_wait(b->raw_cuda) : true;
}

/* The same through the raw API, waited for as one does who wants to know soon. */
static bool one_raw(bench *b, double *out_us) {
    bool good = true;
    uint64_t begin = rota_clock_ns();
    if (b->raw_cpu)
        raw_cpu_run(b->raw_cpu);
    else
        good = (b->raw_vk ? raw_vk_submit(b->raw_vk) : raw_cuda_submit(b->raw_cuda)) && raw_wait(b);
    *out_us = (double)(rota_clock_ns() - begin) / 1e3;
    return good;
}

/* A round of rota: submissions back to back, then a wait for the last. */
static rota_status rota_round(bench *b, bool change, samples *s) {
    rota_ticket ticket = {0};
    uint64_t cpu = scheduler_cpu_ns(b), begin = rota_clock_ns();
    for (uint64_t r = 0; r < b->per_round; r++) {
        const uint8_t set = change && r % 2 == 0;
        uint64_t before = rota_clock_ns();
        rota_status status = rota_submit(b->plan, b->args[set], &ticket);
        if (status == ROTA_BUSY)
            status = rota_submit_wait(b->plan, b->args[set], 0, &ticket);
        else
            s->submit_ns[s->submits++] = (double)(rota_clock_ns() - before);
        if (status != ROTA_OK) return status;
        b->sets[b->replays++] = set;
    }
    ROTA_TRY(rota_wait(ticket, 0));
    s->device_ns[s->rounds] =
        (double)(rota_clock_ns() - begin) / (double)b->per_round / (double)b->graph->node_count;
    /* A round may differ by less than zero. */
    s->cpu_ns[s->rounds++] = ((double)scheduler_cpu_ns(b) - (double)cpu) / (double)b->per_round;
    return ROTA_OK;
}

static bool raw_round(bench *b) {
    uint64_t begin = rota_clock_ns();
    double cpu = thread_cpu_ns();
    for (uint64_t r = 0; r < b->per_round; r++) {
        if (b->raw_cpu) {
            raw_cpu_run(b->raw_cpu);
            continue;
        }
        uint64_t before = rota_clock_ns();
        if (!(b->raw_vk ? raw_vk_submit(b->raw_vk) : raw_cuda_submit(b->raw_cuda))) return false;
        b->raw.submit_ns[b->raw.submits++] = (double)(rota_clock_ns() - before);
    }
    b->raw_cpu_ns += thread_cpu_ns() - cpu;
    if (!raw_wait(b)) return false;
    b->raw.device_ns[b->raw.rounds++] =
        (double)(rota_clock_ns() - begin) / (double)b->per_round / (double)b->graph->node_count;
    return true;
}

static void samples_free(samples *s) {
    free(s->submit_ns);
    free(s->device_ns);
    free(s->cpu_ns);
}

static bool samples_create(samples *s, uint64_t submits, uint64_t rounds) {
    s->submit_ns = calloc(submits, sizeof *s->submit_ns);
    s->device_ns = calloc(rounds, sizeof *s->device_ns);
    s->cpu_ns = calloc(rounds, sizeof *s->cpu_ns);
    return s->submit_ns && s->device_ns && s->cpu_ns;
}

/* A first round makes the instances and is no sample. */
static uint64_t warm_rounds(const bench *b) {
    if (!b->settings->graph.slots && !b->settings->graph.seeds) return 1;
    const uint64_t rounds = (WARM_REPLAYS + b->per_round - 1) / b->per_round;
    return rounds < WARM_ROUNDS_MAX ? rounds : WARM_ROUNDS_MAX;
}

/* Adds a row of each side. */
static int measure_row(bench *b, done_samples *to, uint64_t length, bool has_first) {
    int code = EXIT_GOOD;
    double us = 0;
    if (has_first) REPORT_TRY(one_replay(b, &us));
    for (uint64_t i = 0; i < length; i++) REPORT_TRY(one_replay(b, &to->us[to->count + i]));
    for (uint64_t i = 0; i < length + has_first; i++) {
        if (!one_raw(b, &us)) return EXIT_DEVICE_GONE;
        if (i >= has_first) to->raw_us[to->count + i - has_first] = us;
    }
    to->count += length;
done:
    return code;
}

static int measure_done(bench *b) {
    int code = EXIT_GOOD;
    double us = 0;
    /* The first replay allocates and compiles; it is no sample. */
    REPORT_TRY(one_replay(b, &us));
    for (uint64_t i = 0; i < SINGLES && (i < 3 || us < SINGLES_LONG_US) && code == EXIT_GOOD; i++) {
        code = measure_row(b, &b->single, 1, false);
        us = b->single.us[i];
    }
    const uint64_t in_row = us < ROW_LONG_US ? IN_ROW : 1, rows = us < ROW_LONG_US ? ROWS : 1;
    for (uint64_t i = 0; i < rows && code == EXIT_GOOD; i++) code = measure_row(b, &b->row, in_row, true);
done:
    return code;
}

/* Runs everything; the exit code. */
static int measure(bench *b) {
    progress_bar bar;
    bool measures = false;
    int code = measure_done(b);
    if (code != EXIT_GOOD) return code;
    const double us = b->single.us[b->single.count - 1];
    b->per_round = (uint64_t)(ROUND_NS / (us * 1e3)) + 1;
    if (b->per_round > REPLAYS_MAX) b->per_round = REPLAYS_MAX;
    const uint64_t rounds = b->settings->rounds, submits = b->per_round * rounds;
    const bool change = b->settings->graph.seeds;
    const uint64_t warm = warm_rounds(b);
    b->sets = calloc(b->replays + (2 * rounds + warm) * b->per_round, 1);
    if (!b->sets || !samples_create(&b->rota, submits, rounds) || !samples_create(&b->raw, submits, rounds) ||
        (change && !samples_create(&b->changed, submits, rounds))) {
        fprintf(stderr, "%s: out of memory\n", program);
        code = EXIT_BAD_ARGUMENT;
        goto done;
    }
    for (uint64_t r = 0; r < warm; r++) {
        REPORT_TRY(rota_round(b, change, &b->rota));
        b->rota.submits = b->rota.rounds = 0;
    }
    /* Interleaved, so that both see the same machine. */
    progress_begin(&bar, "measuring", "rounds", b->settings->rounds);
    measures = true;
    for (uint64_t r = 0; r < b->settings->rounds; r++) {
        progress_at(&bar, r);
        REPORT_TRY(rota_round(b, false, &b->rota));
        if (change) REPORT_TRY(rota_round(b, true, &b->changed));
        if (!raw_round(b)) {
            code = EXIT_DEVICE_GONE;
            goto done;
        }
    }
    REPORT_TRY(bench_graph_check(b->graph, b->replays, b->sets));
    bool raw_good = b->raw_cpu    ? raw_cpu_check(b->raw_cpu, b->graph)
                    : b->raw_cuda ? raw_cuda_check(b->raw_cuda, b->graph, raw_cuda_submitted(b->raw_cuda))
                                  : raw_vk_check(b->raw_vk, b->graph, raw_vk_submitted(b->raw_vk) - 1);
    if (!raw_good) code = EXIT_CHECK_FAILED;
done:
    if (measures) progress_end(&bar);
    return code;
}

static void add(cJSON *result, const char *name, double value) {
    cJSON_AddNumberToObject(result, name, value);
}

/* What a submission with other arguments costs beyond one with the last one's: caller and rota's threads. */
static void report_changed(bench *b, cJSON *result, double submit_ns, double cpu_ns) {
    sample_stats submit = samples_describe(b->changed.submit_ns, b->changed.submits);
    sample_stats cpu = samples_describe(b->changed.cpu_ns, b->changed.rounds);
    sample_stats device = samples_describe(b->changed.device_ns, b->changed.rounds);
    const double more = submit.median - submit_ns + cpu.median - cpu_ns;
    add(result, "changed_submit_ns_p50", submit.median);
    add(result, "changed_scheduler_cpu_ns_per_submission", cpu.median);
    add(result, "changed_device_ns_per_node", device.median);
    add(result, "changed_cpu_ns_more", more);
    printf("every argument changed: caller's submit p50 %.0f ns, rota's threads %.0f ns, together %+.0f ns; "
           "per node %.1f ns\n",
           submit.median, cpu.median, more, device.median);
}

/* From submit to done, of single replays and of those in rows: rota's and the raw API's. */
static void report_done(const bench *b, cJSON *result) {
    sample_stats done = samples_describe(b->single.us, b->single.count);
    sample_stats raw_done = samples_describe(b->single.raw_us, b->single.count);
    sample_stats row = samples_describe(b->row.us, b->row.count);
    sample_stats raw_row = samples_describe(b->row.raw_us, b->row.count);
    add(result, "done_us", done.median);
    add(result, "raw_done_us", raw_done.median);
    add(result, "row_done_us", row.median);
    add(result, "raw_row_done_us", raw_row.median);
    printf("submit to done    %10.1f us   (%.1f to %.1f); raw %.1f us (%.1f to %.1f)\n", done.median,
           done.least, done.most, raw_done.median, raw_done.least, raw_done.most);
    printf("the same, in rows %10.1f us   (%.1f to %.1f); raw %.1f us (%.1f to %.1f)\n", row.median,
           row.least, row.most, raw_row.median, raw_row.least, raw_row.most);
}

/* A node's share of a round in which the device always has work: rota's and the raw API's. */
static void report_saturated(const bench *b, cJSON *result) {
    sample_stats device = samples_describe(b->rota.device_ns, b->rota.rounds);
    sample_stats raw_device = samples_describe(b->raw.device_ns, b->raw.rounds);
    const double ratio = device.median / raw_device.median;
    add(result, "device_ns_per_node", device.median);
    add(result, "device_ns_per_node_min", device.least);
    add(result, "device_ns_per_node_max", device.most);
    add(result, "raw_device_ns_per_node", raw_device.median);
    add(result, "raw_device_ns_per_node_min", raw_device.least);
    add(result, "raw_device_ns_per_node_max", raw_device.most);
    add(result, "ratio", ratio);
    printf("per node, saturated  %7.1f ns (%.1f to %.1f)\n", device.median, device.least, device.most);
    printf("%s  %7.1f ns (%.1f to %.1f), ratio %.3f\n",
           b->raw_vk     ? "the same, raw Vulkan"
           : b->raw_cuda ? "the same, raw CUDA  "
                         : "the same, plain calls",
           raw_device.median, raw_device.least, raw_device.most, ratio);
}

static void report(bench *b, cJSON *result) {
    sample_stats submit = samples_describe(b->rota.submit_ns, b->rota.submits);
    sample_stats raw_submit = samples_describe(b->raw.submit_ns, b->raw.submits);
    sample_stats cpu = samples_describe(b->rota.cpu_ns, b->rota.rounds);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(b->plan, &stats);
    add(result, "replays", (double)b->replays);
    add(result, "replays_a_round", (double)b->per_round);
    add(result, "barriers", (double)stats.barriers);
    if (b->raw_vk) add(result, "raw_barriers", (double)raw_vk_barriers(b->raw_vk));
    add(result, "submit_ns_p50", submit.median);
    add(result, "submit_ns_p99", submit.p99);
    if (b->raw_cuda) {
        add(result, "raw_edges", (double)raw_cuda_edges(b->raw_cuda));
        add(result, "compile_us", b->compile_ns / 1e3);
        add(result, "raw_instantiate_us", raw_cuda_build_ns(b->raw_cuda) / 1e3);
    }
    bool raw_calls = b->raw_vk || b->raw_cuda; /* a submission of its own is a call into a driver */
    if (raw_calls)
        add(result, "raw_submit_ns_p50", raw_submit.median);
    else
        cJSON_AddNullToObject(result, "raw_submit_ns_p50");
    add(result, "scheduler_cpu_ns_per_submission", cpu.median);
    if (raw_calls) add(result, "raw_cpu_ns_per_submission", b->raw_cpu_ns / (double)b->raw.submits);

    printf("%" PRIu64 " nodes, %" PRIu64 " barriers; %" PRIu64 " replays, all checked\n",
           b->graph->node_count, stats.barriers, b->replays);
    printf("caller's submit   p50 %8.0f ns   p99 %8.0f ns\n", submit.median, submit.p99);
    report_done(b, result);
    report_saturated(b, result);
    printf("rota's threads' CPU a submission %.0f ns", cpu.median);
    if (raw_calls)
        printf("; raw %s p50 %.0f ns, CPU %.0f ns", b->raw_vk ? "vkQueueSubmit2" : "cuGraphLaunch",
               raw_submit.median, b->raw_cpu_ns / (double)b->raw.submits);
    putchar('\n');
    if (b->changed.rounds) report_changed(b, result, submit.median, cpu.median);
    if (b->raw_cuda)
        printf("compiled in %.0f us; the raw graph made and instantiated in %.0f us\n", b->compile_ns / 1e3,
               raw_cuda_build_ns(b->raw_cuda) / 1e3);
}

static int run(const settings *s, const char *id, const char *out) {
    static const char *const kinds[] = {"chain", "wide", "train", "random"};
    bench b = {.settings = s};
    int code = report_open(
        program, id, &ROTA_RUNTIME_OPTIONS(.diagnostics = s->trace != NULL, .debug_names = s->debug_names),
        &b.opened);
    if (code != EXIT_GOOD) return code;
    settings with_runtime = *s;
    with_runtime.graph.runtime = b.opened.runtime;
    b.settings = &with_runtime;
    const rota_device_info *info = rota_device_get_info(b.opened.device);
    cJSON *result = report_new();
    cJSON_AddItemToObject(result, "device", report_device(info));
    cJSON_AddStringToObject(result, "graph", kinds[s->graph.kind]);
    add(result, "nodes", (double)s->graph.nodes);
    cJSON_AddBoolToObject(result, "slots", s->graph.slots);
    cJSON_AddBoolToObject(result, "change", s->graph.seeds);
    cJSON_AddBoolToObject(result, "plain", s->graph.plain);
    rota_status prepared = prepare_rota(&b);
    if (prepared == ROTA_UNSUPPORTED && (s->graph.slots || s->graph.seeds)) {
        /* The device was opened and takes these kernels: it is the arguments that are too many. */
        fprintf(stderr, "%s: fewer --nodes, or no --slots and --change: %s\n", program, rota_last_error());
        code = EXIT_BAD_ARGUMENT;
        goto done;
    }
    REPORT_TRY(prepared);
    if (info->kind == ROTA_EXEC_VK)
        b.raw_vk = raw_vk_create(b.graph, (uint32_t)strtoul(info->id + 3, NULL, 10));
    else if (info->kind == ROTA_EXEC_CUDA)
        b.raw_cuda = raw_cuda_create(b.graph, (uint32_t)strtoul(info->id + 5, NULL, 10));
    else
        b.raw_cpu = raw_cpu_create(b.graph);
    if (!b.raw_vk && !b.raw_cuda && !b.raw_cpu) {
        fprintf(stderr, "%s: there is nothing to compare with\n", program);
        code = EXIT_BAD_ARGUMENT;
        goto done;
    }
    code = measure(&b);
    if (code == EXIT_GOOD) report(&b, result);
    if (code == EXIT_GOOD) REPORT_TRY(plan_pictures_write(&s->pictures, b.plan));
    if (code == EXIT_GOOD && s->trace) REPORT_TRY(rota_plan_write_trace(b.plan, s->trace));
done:
    raw_vk_destroy(b.raw_vk);
    raw_cuda_destroy(b.raw_cuda);
    raw_cpu_destroy(b.raw_cpu);
    for (uint32_t set = 0; set < 2; set++) rota_args_release(b.args[set]);
    rota_plan_release(b.plan);
    bench_graph_release(b.graph);
    report_close(&b.opened);
    free(b.sets);
    samples_free(&b.rota);
    samples_free(&b.changed);
    samples_free(&b.raw);
    return report_write(result, code == EXIT_GOOD ? out : NULL, code);
}

int bench_replay(int argc, char **argv) {
    int kind = BENCH_CHAIN;
    settings s = {.graph = {.nodes = 1000}, .rounds = 15};
    const char *id = NULL, *out = NULL;
    const option options[] = {
        OPTION_ROW_DEVICE(id),
        {"--graph", OPTION_CHOICE, &kind, BENCH_GRAPH_FORM, 0, 0, false,
         "how the nodes depend on each other"},
        {"--nodes", OPTION_COUNT, &s.graph.nodes, "N", 1, 4e6, false, "nodes of the graph"},
        {"--slots", OPTION_FLAG, &s.graph.slots, NULL, 0, 0, false,
         "persistent buffers are bound at each replay"},
        {"--skip", OPTION_COUNT, &s.graph.skip, "N", 0, 1e5, false,
         "buffers of 256 bytes before the one of a chain: how far it is from a multiprocessor shows"},
        {"--plain", OPTION_FLAG, &s.graph.plain, NULL, 0, 0, false,
         "kernels of a chain, wide or random graph that CUDA does not launch early"},
        {"--change", OPTION_FLAG, &s.graph.seeds, NULL, 0, 0, false,
         "each node has an argument that changes at each replay"},
        {"--rounds", OPTION_COUNT, &s.rounds, "N", 3, 10000, false, "how often each way is timed, in turn"},
        OPTION_ROW_SAVE(s.save),
        OPTION_ROWS_PICTURES(s.pictures),
        OPTION_ROW_TRACE(s.trace),
        OPTION_ROW_DEBUG_NAMES(s.debug_names),
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench replay --device cuda:0 --graph chain --nodes 1K --slots",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (!plan_pictures_good(&table, &s.pictures)) return EXIT_BAD_ARGUMENT;
    s.graph.kind = (bench_graph_kind)kind;
    if (s.graph.kind == BENCH_TRAIN && s.graph.nodes < BENCH_LAYER_NODES) {
        options_bad(&table, "--graph train needs --nodes of at least %d, not %" PRIu64, BENCH_LAYER_NODES,
                    s.graph.nodes);
        return EXIT_BAD_ARGUMENT;
    }
    if (s.graph.plain && (s.graph.kind == BENCH_TRAIN || s.graph.seeds)) {
        options_bad(&table, "--plain is for chain, wide and random graphs without --change");
        return EXIT_BAD_ARGUMENT;
    }
    if (s.graph.skip && (s.graph.kind != BENCH_CHAIN || s.graph.seeds)) {
        options_bad(&table, "--skip is for a chain without --change");
        return EXIT_BAD_ARGUMENT;
    }
    return run(&s, id, out);
}
