/* rota-bench run: a graph from a file on any device, checked against the results that the file has, and timed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/commands.h"
#include "bench/graphs_file.h"
#include "bench/options.h"
#include "bench/pictures.h"
#include "bench/progress.h"
#include "bench/report.h"

static const char program[] = "rota-bench run";

typedef struct settings {
    const char *path, *trace, *save;
    uint64_t rounds;
    double tolerance;
    bool debug_names, certify;
    plan_pictures pictures;
} settings;

typedef struct run {
    const settings *settings;
    opened_device opened;
    rota_graph_file *file;
    rota_graph_file_info info;
    rota_plan *plan;
    rota_args *args;
    double compile_ns;
    double *done_us; /* of each round: a replay, from submit to done */
} run;

static rota_status load(run *r) {
    const rota_kernel *kernels[BENCH_KERNEL_COUNT];
    bench_graph_kernels(kernels);
    ROTA_TRY(rota_graph_load(r->settings->path,
                             &ROTA_GRAPH_LOAD_OPTIONS(.runtime = r->opened.runtime, .kernels = kernels,
                                                      .kernel_count = BENCH_KERNEL_COUNT),
                             &r->file));
    r->info = ROTA_GRAPH_FILE_INFO();
    ROTA_TRY(rota_graph_file_get_info(r->file, &r->info));
    if (r->info.device_count > 1)
        return rota_fail(ROTA_UNSUPPORTED, "'%s' has nodes on %u devices; one device runs it here",
                         r->settings->path, r->info.device_count);
    rota_device *device = r->opened.device;
    const rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = r->info.queue_count,
                             .certify = r->settings->certify);
    const uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_compile(r->opened.runtime, rota_graph_file_graph(r->file), &options, &r->plan));
    r->compile_ns = (double)(rota_clock_ns() - begin);
    return rota_args_create(r->plan, &r->args);
}

static rota_status replay(const run *r, double *out_us) {
    rota_ticket ticket;
    const uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_submit_wait(r->plan, r->args, 0, &ticket));
    ROTA_TRY(rota_wait(ticket, 0));
    *out_us = (double)(rota_clock_ns() - begin) / 1e3;
    return ROTA_OK;
}

/* The replays that the file describes, and what they made. */
static rota_status check(const run *r) {
    double us;
    ROTA_TRY(rota_graph_file_prepare(r->file, r->opened.device, r->args));
    for (uint32_t i = 0; i < r->info.replays; i++) ROTA_TRY(replay(r, &us));
    return r->info.result_count ? rota_graph_file_check(r->file) : ROTA_OK;
}

static void report(const run *r, cJSON *result) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(r->plan, &stats);
    cJSON_AddStringToObject(result, "graph", r->info.name);
    cJSON_AddStringToObject(result, "writer", r->info.writer);
    cJSON_AddNumberToObject(result, "nodes", (double)r->info.node_count);
    cJSON_AddNumberToObject(result, "checked", r->info.result_count);
    cJSON_AddNumberToObject(result, "edges", (double)stats.edges);
    cJSON_AddNumberToObject(result, "barriers", (double)stats.barriers);
    cJSON_AddNumberToObject(result, "compile_us", r->compile_ns / 1e3);
    printf("graph '%s', written by rota %s: %" PRIu64 " nodes, %u buffers; %" PRIu64 " edges, %" PRIu64
           " barriers; compiled in %.0f us\n",
           r->info.name, r->info.writer, r->info.node_count, r->info.buffer_count, stats.edges,
           stats.barriers, r->compile_ns / 1e3);
    if (!r->info.result_count) {
        printf("it ran, but the file has no results: nothing was checked, and nothing is timed\n");
        return;
    }
    const sample_stats done = samples_describe(r->done_us, r->settings->rounds);
    cJSON_AddNumberToObject(result, "done_us", done.median);
    cJSON_AddNumberToObject(result, "done_us_min", done.least);
    cJSON_AddNumberToObject(result, "done_us_max", done.most);
    printf("%u results are as they should be after %u replays\n", r->info.result_count, r->info.replays);
    printf("submit to done    %10.1f us   (%.1f to %.1f)\n", done.median, done.least, done.most);
}

/* Checked before and after what is timed. */
static int measure(run *r) {
    int code = EXIT_GOOD;
    progress_bar bar;
    bool measures = false;
    r->done_us = calloc(r->settings->rounds, sizeof *r->done_us);
    if (!r->done_us) {
        fprintf(stderr, "%s: out of memory\n", program);
        return EXIT_BAD_ARGUMENT;
    }
    REPORT_TRY(check(r));
    if (r->settings->save)
        REPORT_TRY(rota_graph_file_save_results(r->file, (float)r->settings->tolerance, r->settings->save));
    if (!r->info.result_count) goto done;
    progress_begin(&bar, "measuring", "replays", r->settings->rounds);
    measures = true;
    for (uint64_t i = 0; i < r->settings->rounds; i++) {
        progress_at(&bar, i);
        REPORT_TRY(replay(r, &r->done_us[i]));
    }
    REPORT_TRY(check(r));
done:
    if (measures) progress_end(&bar);
    return code;
}

static int run_file(const settings *s, const char *id, const char *out) {
    run r = {.settings = s};
    int code = report_open(
        program, id, &ROTA_RUNTIME_OPTIONS(.diagnostics = s->trace != NULL, .debug_names = s->debug_names),
        &r.opened);
    if (code != EXIT_GOOD) return code;
    cJSON *result = report_new();
    cJSON_AddItemToObject(result, "device", report_device(rota_device_get_info(r.opened.device)));
    cJSON_AddStringToObject(result, "file", s->path);
    REPORT_TRY(load(&r));
    code = measure(&r);
    if (code == EXIT_GOOD) report(&r, result);
    if (code == EXIT_GOOD) REPORT_TRY(plan_pictures_write(&s->pictures, r.plan));
    if (code == EXIT_GOOD && s->trace) REPORT_TRY(rota_plan_write_trace(r.plan, s->trace));
done:
    rota_args_release(r.args);
    rota_plan_release(r.plan);
    rota_graph_file_release(r.file);
    report_close(&r.opened);
    free(r.done_us);
    return report_write(result, code == EXIT_GOOD ? out : NULL, code);
}

int bench_run(int argc, char **argv) {
    settings s = {.rounds = 20};
    const char *id = NULL, *out = NULL;
    const option options[] = {
        {"FILE", OPTION_STRING, &s.path, "FILE", 0, 0, true, "the graph, from rota_graph_save or --save"},
        OPTION_ROW_DEVICE(id),
        {"--rounds", OPTION_COUNT, &s.rounds, "N", 3, 100000, false, "how often it is timed"},
        {"--save", OPTION_OUTPUT, &s.save, "FILE", 0, 0, false,
         "write it there again, with what this run makes as the results"},
        {"--tolerance", OPTION_REAL, &s.tolerance, "T", 0, 1, false,
         "of --save: results are f32, and others may differ by T times the larger of 1 and their size"},
        {"--certify", OPTION_FLAG, &s.certify, NULL, 0, 0, false, "check the plan against the record"},
        OPTION_ROWS_PICTURES(s.pictures),
        OPTION_ROW_TRACE(s.trace),
        OPTION_ROW_DEBUG_NAMES(s.debug_names),
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench replay --graph random --nodes 100 --save graph.rota\n"
                                "rota-bench run graph.rota --device vk:0\n"
                                "rota-bench run captured.rota --device cpu --save checked.rota",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (!plan_pictures_good(&table, &s.pictures)) return EXIT_BAD_ARGUMENT;
    if (s.tolerance > 0 && !s.save) {
        options_bad(&table, "--tolerance goes with --save");
        return EXIT_BAD_ARGUMENT;
    }
    return run_file(&s, id, out);
}
