/* rota-bench plan: what recording and compiling a graph cost, and what comes of it. Needs no device. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "bench/commands.h"
#include "bench/graphs.h"
#include "bench/graphs_file.h"
#include "bench/options.h"
#include "bench/pictures.h"
#include "bench/progress.h"
#include "bench/report.h"

#define PROGRAM "rota-bench plan"
#define THREADS_MAX 64
#define BUILDS_MAX 1000
#define FILE_ROUNDS 5

typedef struct plan_settings {
    bench_graph_options graph;
    uint32_t threads;
    bool certify;
    const char *save;
    plan_pictures pictures;
    rota_compile_options compile;
} plan_settings;

typedef struct plan_build {
    double buffers_ns, record_ns, compile_ns; /* per node */
    double certified_ns;                      /* a compilation with its certificate; 0: not asked for */
    rota_plan_stats stats;
    uint64_t nodes;
} plan_build;

typedef struct lane_job {
    const bench_graph *graph;
    pthread_barrier_t *start;
    uint32_t lane, lanes;
    uint64_t begin_ns, end_ns;
    rota_status status;
    char message[ROTA_ERROR_MESSAGE_MAX];
} lane_job;

static rota_status record_lane(const bench_graph *graph, uint32_t lane, uint32_t lanes) {
    uint64_t first = graph->node_count * lane / lanes, end = graph->node_count * (lane + 1) / lanes;
    rota_recorder *recorder;
    ROTA_TRY(rota_recorder_open(graph->graph, lane, NULL, &recorder));
    rota_status status =
        rota_recorder_reserve(recorder, end - first, (end - first) * 4, (end - first) * sizeof(bench_params));
    if (status == ROTA_OK) status = bench_graph_record(graph, recorder, first, end - first);
    rota_recorder_close(recorder);
    return status;
}

static void *lane_thread(void *argument) {
    lane_job *job = argument;
    pthread_barrier_wait(job->start);
    job->begin_ns = rota_clock_ns();
    job->status = record_lane(job->graph, job->lane, job->lanes);
    job->end_ns = rota_clock_ns();
    if (job->status != ROTA_OK) snprintf(job->message, sizeof job->message, "%s", rota_last_error());
    return NULL;
}

/* Records with as many threads as lanes; the time is from the first to start to the last to end. */
static rota_status record_timed(const bench_graph *graph, uint32_t threads, uint64_t *out_ns) {
    if (threads == 1) {
        uint64_t begin = rota_clock_ns();
        ROTA_TRY(record_lane(graph, 0, 1));
        *out_ns = rota_clock_ns() - begin;
        return ROTA_OK;
    }
    static lane_job jobs[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    uint32_t started = 0;
    for (; started < threads; started++) {
        jobs[started] = (lane_job){.graph = graph, .start = &start, .lane = started, .lanes = threads};
        if (pthread_create(&ids[started], NULL, lane_thread, &jobs[started]) != 0) break;
    }
    if (started < threads) {
        fprintf(stderr, PROGRAM ": thread %u of %u can't be started\n", started + 1, threads);
        exit(EXIT_BAD_ARGUMENT); /* those started wait at the barrier for ever */
    }
    uint64_t begin = UINT64_MAX, end = 0;
    rota_status status = ROTA_OK;
    for (uint32_t t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        if (jobs[t].begin_ns < begin) begin = jobs[t].begin_ns;
        if (jobs[t].end_ns > end) end = jobs[t].end_ns;
        if (jobs[t].status != ROTA_OK) status = rota_fail(jobs[t].status, "%s", jobs[t].message);
    }
    pthread_barrier_destroy(&start);
    *out_ns = end - begin;
    return status;
}

static rota_status build(const plan_settings *settings, plan_build *out) {
    bench_graph *graph = NULL;
    rota_plan *plan = NULL;
    uint64_t begin = rota_clock_ns(), record_ns = 0;
    ROTA_TRY(bench_graph_create(&settings->graph, &graph));
    uint64_t made = rota_clock_ns();
    double nodes = (double)graph->node_count;
    *out = (plan_build){.buffers_ns = (double)(made - begin) / nodes, .nodes = graph->node_count};
    rota_status status = record_timed(graph, settings->threads, &record_ns);
    out->record_ns = (double)record_ns / nodes;
    if (status == ROTA_OK) {
        begin = rota_clock_ns();
        status = rota_compile(NULL, graph->graph, &settings->compile, &plan);
        out->compile_ns = (double)(rota_clock_ns() - begin) / nodes;
    }
    if (status == ROTA_OK) {
        out->stats = ROTA_PLAN_STATS();
        rota_plan_get_stats(plan, &out->stats);
    }
    if (status == ROTA_OK && settings->certify) {
        rota_compile_options options = settings->compile;
        rota_plan *certified = NULL;
        options.certify = true;
        begin = rota_clock_ns();
        status = rota_compile(NULL, graph->graph, &options, &certified);
        out->certified_ns = (double)(rota_clock_ns() - begin) / nodes;
        rota_plan_release(certified);
    }
    rota_plan_release(plan);
    bench_graph_release(graph);
    return status;
}

/* Times of a graph's file, per node: written, also to the disk, and read. What is no file that can be read again, such
 * as a pipe, is written once and not timed. */
typedef struct file_times {
    double save_ns[FILE_ROUNDS], load_ns[FILE_ROUNDS];
    double bytes; /* 0: not timed */
} file_times;

/* Saves, and loads what was saved, which has as many nodes. */
static rota_status save_and_load(const bench_graph *graph, const char *path, uint32_t round,
                                 file_times *out) {
    const rota_kernel *kernels[BENCH_KERNEL_COUNT];
    rota_graph_file *file;
    rota_graph_file_info info = ROTA_GRAPH_FILE_INFO();
    const double nodes = (double)graph->node_count;
    bench_graph_kernels(kernels);
    uint64_t begin = rota_clock_ns();
    ROTA_TRY(bench_graph_save(graph, path));
    out->save_ns[round] = (double)(rota_clock_ns() - begin) / nodes;
    begin = rota_clock_ns();
    ROTA_TRY(rota_graph_load(
        path, &ROTA_GRAPH_LOAD_OPTIONS(.kernels = kernels, .kernel_count = BENCH_KERNEL_COUNT), &file));
    out->load_ns[round] = (double)(rota_clock_ns() - begin) / nodes;
    rota_status status = rota_graph_file_get_info(file, &info);
    if (status == ROTA_OK && info.node_count != graph->node_count)
        status = rota_fail(ROTA_INTERNAL, "'%s' has %" PRIu64 " nodes, expected %" PRIu64, path,
                           info.node_count, graph->node_count);
    rota_graph_file_release(file);
    return status;
}

static rota_status save(const plan_settings *settings, file_times *out) {
    struct stat file;
    bench_graph *graph = NULL;
    out->bytes = 0;
    if (!settings->save) return ROTA_OK;
    ROTA_TRY(bench_graph_create(&settings->graph, &graph));
    rota_status status = bench_graph_record_all(graph, settings->threads);
    if (status == ROTA_OK) status = bench_graph_save(graph, settings->save);
    if (status == ROTA_OK && stat(settings->save, &file) == 0 && S_ISREG(file.st_mode))
        out->bytes = (double)file.st_size;
    for (uint32_t round = 0; round < FILE_ROUNDS && out->bytes > 0 && status == ROTA_OK; round++)
        status = save_and_load(graph, settings->save, round, out);
    bench_graph_release(graph);
    return status;
}

static void report_file(uint64_t nodes, file_times *times, cJSON *result) {
    if (times->bytes <= 0) return;
    const sample_stats saved = samples_describe(times->save_ns, FILE_ROUNDS);
    const sample_stats loaded = samples_describe(times->load_ns, FILE_ROUNDS);
    const double bytes = times->bytes / (double)nodes;
    printf("save     %8.1f ns/node  (%.1f to %.1f)\n", saved.median, saved.least, saved.most);
    printf("load     %8.1f ns/node  (%.1f to %.1f)\n", loaded.median, loaded.least, loaded.most);
    printf("file     %8.1f bytes/node\n", bytes);
    cJSON_AddNumberToObject(result, "save_ns_per_node", saved.median);
    cJSON_AddNumberToObject(result, "load_ns_per_node", loaded.median);
    cJSON_AddNumberToObject(result, "file_bytes_per_node", bytes);
}

/* A build of its own, since names that say the layer are not what is timed. */
static rota_status draw(const plan_settings *settings) {
    if (!settings->pictures.dot && !settings->pictures.svg) return ROTA_OK;
    bench_graph_options options = settings->graph;
    bench_graph *graph = NULL;
    rota_plan *plan = NULL;
    options.layer_names = true;
    ROTA_TRY(bench_graph_create(&options, &graph));
    rota_status status = bench_graph_record_all(graph, 1);
    if (status == ROTA_OK) status = rota_compile(NULL, graph->graph, &settings->compile, &plan);
    if (status == ROTA_OK) status = plan_pictures_write(&settings->pictures, plan);
    rota_plan_release(plan);
    bench_graph_release(graph);
    return status;
}

static uint64_t lower_bound(const plan_settings *settings) {
    bench_graph *graph;
    if (bench_graph_create(&settings->graph, &graph) != ROTA_OK) return 0;
    uint64_t bytes = bench_graph_lower_bound(graph);
    bench_graph_release(graph);
    return bytes;
}

static void print_table(const plan_settings *settings, const plan_build *last, const sample_stats *record,
                        const sample_stats *compile, const sample_stats *certified, uint64_t bound) {
    const rota_plan_stats *s = &last->stats;
    printf("%" PRIu64 " nodes, %u threads\n", last->nodes, settings->threads);
    printf("record   %8.1f ns/node  (%.1f to %.1f)\n", record->median, record->least, record->most);
    printf("compile  %8.1f ns/node  (%.1f to %.1f)\n", compile->median, compile->least, compile->most);
    if (settings->certify)
        printf("compile  %8.1f ns/node  (%.1f to %.1f) with its certificate, which accepts the plan\n",
               certified->median, certified->least, certified->most);
    printf("edges    %8" PRIu64 "          (%" PRIu64 " more implied and dropped; RAW %" PRIu64
           ", WAR %" PRIu64 ", WAW %" PRIu64 ", memory %" PRIu64 ")\n",
           s->edges, s->edges_dropped, s->edges_raw, s->edges_war, s->edges_waw, s->edges_memory);
    printf("barriers %8" PRIu64 "          in %" PRIu64 " batches, %" PRIu64 " segments\n", s->barriers,
           s->batches, s->segments);
    printf("plan     %8.1f bytes/node\n", (double)s->plan_bytes / (double)last->nodes);
    if (bound)
        printf("arena    %" PRIu64 " bytes, %.4f of the lower bound %" PRIu64 "\n", s->arena_bytes,
               (double)s->arena_bytes / (double)bound, bound);
    if (s->recomputed) printf("         %" PRIu64 " nodes run twice for the memory limit\n", s->recomputed);
}

static cJSON *described(const plan_settings *settings, const char *graph, uint64_t builds,
                        const plan_build *last, const sample_stats *record, const sample_stats *compile,
                        const sample_stats *certified) {
    const rota_plan_stats *s = &last->stats;
    cJSON *result = report_new();
    cJSON_AddStringToObject(result, "graph", graph);
    cJSON_AddNumberToObject(result, "nodes", (double)last->nodes);
    cJSON_AddNumberToObject(result, "threads", (double)settings->threads);
    cJSON_AddNumberToObject(result, "builds", (double)builds);
    cJSON_AddNumberToObject(result, "record_ns_per_node", record->median);
    cJSON_AddNumberToObject(result, "record_ns_per_node_min", record->least);
    cJSON_AddNumberToObject(result, "record_ns_per_node_max", record->most);
    cJSON_AddNumberToObject(result, "compile_ns_per_node", compile->median);
    cJSON_AddNumberToObject(result, "compile_ns_per_node_min", compile->least);
    cJSON_AddNumberToObject(result, "compile_ns_per_node_max", compile->most);
    if (settings->certify) {
        cJSON_AddNumberToObject(result, "certified_ns_per_node", certified->median);
        cJSON_AddNumberToObject(result, "certified_ns_per_node_min", certified->least);
        cJSON_AddNumberToObject(result, "certified_ns_per_node_max", certified->most);
    }
    cJSON_AddNumberToObject(result, "edges", (double)s->edges);
    cJSON_AddNumberToObject(result, "joins", (double)s->joins);
    cJSON_AddNumberToObject(result, "edges_dropped", (double)s->edges_dropped);
    cJSON_AddNumberToObject(result, "barriers", (double)s->barriers);
    cJSON_AddNumberToObject(result, "batches", (double)s->batches);
    cJSON_AddNumberToObject(result, "queues", s->queues);
    cJSON_AddNumberToObject(result, "bytes_per_node", (double)s->plan_bytes / (double)last->nodes);
    cJSON_AddNumberToObject(result, "arena_bytes", (double)s->arena_bytes);
    cJSON_AddNumberToObject(result, "recomputed", (double)s->recomputed);
    cJSON_AddNumberToObject(result, "plan_lower_bound_bytes", (double)s->arena_lower_bound_bytes);
    return result;
}

/* Builds the graph's plan `builds` times; what that took, and whether the arena can be. */
static int run_plan(const plan_settings *settings, const char *graph, uint64_t builds, const char *out) {
    double record_ns[BUILDS_MAX], compile_ns[BUILDS_MAX], buffers_ns[BUILDS_MAX], certified_ns[BUILDS_MAX];
    plan_build last;
    file_times file;
    progress_bar bar;
    progress_begin(&bar, "building", "builds", builds + 1);
    rota_status status = build(settings, &last); /* warms up */
    for (uint64_t b = 0; b < builds && status == ROTA_OK; b++) {
        progress_at(&bar, b + 1);
        status = build(settings, &last);
        record_ns[b] = last.record_ns;
        compile_ns[b] = last.compile_ns;
        buffers_ns[b] = last.buffers_ns;
        certified_ns[b] = last.certified_ns;
    }
    progress_end(&bar);
    if (status == ROTA_OK) status = draw(settings);
    if (status == ROTA_OK) status = save(settings, &file);
    if (status != ROTA_OK) return report_failure(PROGRAM, status);
    sample_stats record = samples_describe(record_ns, builds), compile = samples_describe(compile_ns, builds);
    sample_stats buffers = samples_describe(buffers_ns, builds);
    sample_stats certified = samples_describe(certified_ns, builds);
    uint64_t bound = lower_bound(settings);
    print_table(settings, &last, &record, &compile, &certified, bound);

    /* The bound is computed here from the graph's definition, apart from the plan's own. */
    const rota_plan_stats *s = &last.stats;
    int code = EXIT_GOOD;
    if (s->arena_bytes < bound && !s->recomputed) {
        fprintf(stderr, PROGRAM ": an arena of %" PRIu64 " bytes is below the lower bound %" PRIu64 "\n",
                s->arena_bytes, bound);
        code = EXIT_CHECK_FAILED;
    }
    cJSON *result = described(settings, graph, builds, &last, &record, &compile, &certified);
    cJSON_AddNumberToObject(result, "buffers_ns_per_node", buffers.median);
    cJSON_AddNumberToObject(result, "arena_lower_bound_bytes", (double)bound);
    report_file(last.nodes, &file, result);
    return report_write(result, out, code);
}

static bool is_good_graph(const option_table *table, int kind, uint64_t nodes, bool uploads) {
    if (kind == BENCH_TRAIN && nodes < BENCH_LAYER_NODES)
        return options_bad(table, "--graph train needs --nodes of at least %d, not %" PRIu64,
                           BENCH_LAYER_NODES, nodes) == OPTIONS_OK;
    if (uploads && kind != BENCH_TRAIN)
        return options_bad(table, "--uploads goes with --graph train") == OPTIONS_OK;
    return true;
}

int bench_plan(int argc, char **argv) {
    static const char *const kinds[] = {"chain", "wide", "train", "random"};
    int kind = BENCH_TRAIN, packing = ROTA_PACK_TIGHT;
    uint64_t nodes = 100000, threads = 1, builds = 5, queues = 1, limit = 0;
    bool uploads = false, slots = false, certify = false;
    const char *out = NULL, *save_path = NULL;
    plan_pictures pictures = {0};
    const option options[] = {
        {"--graph", OPTION_CHOICE, &kind, BENCH_GRAPH_FORM, 0, 0, false,
         "how the nodes depend on each other"},
        {"--nodes", OPTION_COUNT, &nodes, "N", 1, 16e6, false, "nodes of the graph"},
        {"--threads", OPTION_COUNT, &threads, "T", 1, THREADS_MAX, false, "threads that record"},
        {"--builds", OPTION_COUNT, &builds, "N", 5, BUILDS_MAX, false,
         "how often it is built; the median counts"},
        {"--packing", OPTION_CHOICE, &packing, "tight|concurrent", 0, 0, false,
         "transient memory: least memory, or least waiting"},
        {"--queues", OPTION_COUNT, &queues, "N", 1, 16, false, "compute queues that the plan may use"},
        {"--memory-limit", OPTION_COUNT, &limit, "BYTES", 1, 1e15, false,
         "memory that the plan may take; none by default"},
        {"--uploads", OPTION_FLAG, &uploads, NULL, 0, 0, false,
         "of the train graph: a weight of each layer is uploaded at each replay"},
        {"--slots", OPTION_FLAG, &slots, NULL, 0, 0, false, "persistent buffers are bound at each replay"},
        {"--certify", OPTION_FLAG, &certify, NULL, 0, 0, false, "check the plan against the record"},
        OPTION_ROW_SAVE(save_path),
        OPTION_ROWS_PICTURES(pictures),
        OPTION_ROW_OUT(out),
    };
    const option_table table = {
        PROGRAM,
        bench_text(PROGRAM),
        "rota-bench plan --graph train --nodes 1M --certify\n"
        "rota-bench plan --graph train --nodes 10K --memory-limit 512Mi --svg plan.svg --collapse",
        options,
        sizeof options / sizeof *options,
        NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (!plan_pictures_good(&table, &pictures)) return EXIT_BAD_ARGUMENT;
    if (!is_good_graph(&table, kind, nodes, uploads)) return EXIT_BAD_ARGUMENT;
    plan_settings settings = {.graph = {.kind = (bench_graph_kind)kind,
                                        .nodes = nodes,
                                        .real_sizes = true,
                                        .slots = slots,
                                        .uploads = uploads},
                              .threads = (uint32_t)threads,
                              .certify = certify,
                              .save = save_path,
                              .pictures = pictures,
                              .compile = ROTA_COMPILE_OPTIONS(.packing = (rota_packing)packing,
                                                              .queues = (uint32_t)queues,
                                                              .transfer_queue = uploads && queues > 1,
                                                              .memory_limit_bytes = limit)};
    return run_plan(&settings, kinds[kind], builds, out);
}
