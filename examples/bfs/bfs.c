/* bfs: how many edges each vertex of a graph is away from one of them, as one submission whose while node works on
 * frontiers of their own length. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "bench/options.h"
#include "bench/report.h"
#include "examples/bfs/generate.h"
#include "examples/bfs/search.h"
#include "examples/cg/market.h"

static const char program[] = "bfs";

typedef struct bfs_options {
    const char *graph, *levels, *device;
    uint64_t grid, rmat, seed, source, repeat, threads, timeout;
    bool is_host_loop;
} bfs_options;

typedef struct bfs_data {
    sparse_matrix graph;
    uint32_t *levels, *expected;
    double *seconds;
} bfs_data;

static bool read_data(const bfs_options *o, bfs_data *out) {
    const bool good = o->graph  ? market_read_graph(o->graph, &out->graph)
                      : o->grid ? graph_grid(o->grid, &out->graph)
                                : graph_rmat(o->rmat, o->seed, &out->graph);
    if (!good) return false;
    if (o->source > out->graph.rows) {
        fprintf(stderr, "%s: --source %" PRIu64 ", expected a vertex from 1 to %" PRIu64 "\n", program,
                o->source, out->graph.rows);
        return false;
    }
    out->levels = malloc(out->graph.rows * sizeof *out->levels);
    out->expected = malloc(out->graph.rows * sizeof *out->expected);
    out->seconds = calloc(o->repeat, sizeof *out->seconds);
    if (out->levels && out->expected && out->seconds) return true;
    fprintf(stderr, "%s: no memory for %" PRIu64 " vertices\n", program, out->graph.rows);
    return false;
}

static void free_data(bfs_data *data) {
    matrix_free(&data->graph);
    free(data->levels);
    free(data->expected);
    free(data->seconds);
}

/* What was found, against a queue in plain C. */
static int say(const bfs_options *o, const bfs_data *data, const bfs_result *result) {
    const uint64_t began = rota_clock_ns();
    if (!graph_search(&data->graph, (uint32_t)(o->source - 1), data->expected)) return EXIT_BAD_ARGUMENT;
    const double plain = (double)(rota_clock_ns() - began) / 1e9;
    uint64_t edges = 0;
    for (uint64_t i = 0; i < data->graph.rows; i++) {
        if (data->levels[i] != data->expected[i]) {
            fprintf(stderr, "%s: vertex %" PRIu64 " is %" PRIu32 " edges away, expected %" PRIu32 "\n",
                    program, i + 1, data->levels[i], data->expected[i]);
            return EXIT_CHECK_FAILED;
        }
        if (data->levels[i] != BFS_UNREACHED) edges += data->graph.starts[i + 1] - data->graph.starts[i];
    }
    const sample_stats stats = samples_describe(data->seconds, o->repeat);
    printf("%s: %" PRIu32 " of %" PRIu64 " vertices reached, the farthest %" PRIu32
           " edges away, a level of at most %" PRIu32 ", %.6f s",
           o->is_host_loop ? "a submission a level" : "a while node", result->reached, data->graph.rows,
           result->levels, result->widest, stats.median);
    if (o->repeat > 1) printf(" (%.6f to %.6f)", stats.least, stats.most);
    printf(", %.1f million edges a second (a queue in plain C: %.1f)\n", (double)edges / stats.median / 1e6,
           (double)edges / plain / 1e6);
    return EXIT_GOOD;
}

static bool write_levels(const bfs_options *o, const bfs_data *data) {
    double *values = malloc(data->graph.rows * sizeof *values);
    if (!values) return false;
    for (uint64_t i = 0; i < data->graph.rows; i++)
        values[i] = data->levels[i] == BFS_UNREACHED ? -1 : (double)data->levels[i];
    const bool good = market_write_vector(o->levels, values, data->graph.rows);
    free(values);
    return good;
}

static int run(const bfs_options *o) {
    bfs_data data = {0};
    opened_device opened = {0};
    bfs_searcher searcher = {0};
    bfs_result result = {0};
    int code = read_data(o, &data) ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (code == EXIT_GOOD)
        code = report_open(program, o->device,
                           &ROTA_RUNTIME_OPTIONS(.worker_threads = (uint32_t)o->threads,
                                                 .timeout_ns = o->timeout * 1000000000u),
                           &opened);
    if (code != EXIT_GOOD) goto done;
    printf("%" PRIu64 " vertices, %" PRIu64 " edges\n", data.graph.rows, data.graph.entries);
    REPORT_TRY(bfs_searcher_create(opened.runtime, opened.device, &data.graph, o->is_host_loop, &searcher));
    for (uint64_t i = 0; i < o->repeat; i++) {
        REPORT_TRY(bfs_search(&searcher, (uint32_t)(o->source - 1), &result));
        data.seconds[i] = result.seconds;
    }
    REPORT_TRY(bfs_read(&searcher, data.levels));
    code = say(o, &data, &result);
    if (code == EXIT_GOOD && o->levels && !write_levels(o, &data)) code = EXIT_BAD_ARGUMENT;
done:
    bfs_searcher_free(&searcher);
    report_close(&opened);
    free_data(&data);
    return code;
}

int main(int argc, char **argv) {
    bfs_options o = {.device = NULL, .seed = 1, .source = 1, .repeat = 1, .timeout = 3600};
    const option options[] = {
        OPTION_ROW_HEADING("The graph"),
        {"--graph", OPTION_STRING, &o.graph, "FILE.mtx", 0, 0, false,
         "a Matrix Market file: coordinate, an edge from each entry's row to its column; symmetric: both "
         "ways"},
        {"--grid", OPTION_COUNT, &o.grid, "N", 1, 16384, false,
         "in its place: a square of N by N vertices, each joined to its neighbours"},
        {"--rmat", OPTION_COUNT, &o.rmat, "S", 1, 27, false,
         "or 2^S vertices and 16 times as many random edges, as Graph500 has them"},
        {"--seed", OPTION_COUNT, &o.seed, "N", 0, 1e18, false, "of random edges"},
        {"--source", OPTION_COUNT, &o.source, "V", 1, 4e9, false, "the vertex to begin at, from 1"},
        {"--levels", OPTION_OUTPUT, &o.levels, "FILE.mtx", 0, 0, false,
         "write how far each vertex is away there; -1: there is no way"},
        OPTION_ROW_HEADING("How it runs"),
        {"--host-loop", OPTION_FLAG, &o.is_host_loop, NULL, 0, 0, false,
         "a submission a level, whose length the host reads, to compare with"},
        {"--repeat", OPTION_COUNT, &o.repeat, "N", 1, 10000, false,
         "search so often, and print the median time"},
        {"--threads", OPTION_COUNT, &o.threads, "N", 0, 1024, false, "of the CPU; 0: one for each core"},
        {"--timeout", OPTION_COUNT, &o.timeout, "SECONDS", 1, 1e9, false, "how long a search may take"},
        OPTION_ROW_DEVICE(o.device),
    };
    const option_table table = {program,
                                "searches a graph breadth first, in one submission",
                                "bfs --rmat 18\n"
                                "bfs --grid 500 --host-loop\n"
                                "bfs --graph road.mtx --source 17 --levels levels.mtx",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc - 1, argv + 1);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    const int graphs = (o.graph != NULL) + (o.grid > 0) + (o.rmat > 0);
    if (graphs != 1) {
        options_bad(&table, "%s; expected --graph FILE.mtx, --grid N or --rmat S",
                    graphs ? "more than one graph" : "no graph");
        return EXIT_BAD_ARGUMENT;
    }
    return report_end(program, run(&o));
}
