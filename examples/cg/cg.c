/* cg: solves A x = b, with A sparse, symmetric and positive definite, by conjugate gradient until the residual is
 * small, as one submission of a graph whose while node decides. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/options.h"
#include "bench/report.h"
#include "examples/cg/market.h"
#include "examples/cg/solve.h"

static const char program[] = "cg";

typedef struct cg_options {
    const char *matrix, *right, *solution, *device;
    uint64_t poisson, iterations_max, repeat, threads, timeout;
    double tolerance;
    bool is_host_loop;
} cg_options;

typedef struct cg_data {
    sparse_matrix m;
    double *b, *x, *seconds;
} cg_data;

static bool read_data(const cg_options *o, cg_data *out) {
    if (o->matrix ? !market_read_matrix(o->matrix, &out->m) : !matrix_poisson(o->poisson, &out->m))
        return false;
    if (o->right) {
        out->b = market_read_vector(o->right, out->m.rows);
        if (!out->b) return false;
    }
    if (!out->b) out->b = malloc(out->m.rows * sizeof *out->b);
    out->x = malloc(out->m.rows * sizeof *out->x);
    out->seconds = calloc(o->repeat, sizeof *out->seconds);
    if (!out->b || !out->x || !out->seconds) {
        fprintf(stderr, "%s: no memory for %" PRIu64 " rows\n", program, out->m.rows);
        return false;
    }
    for (uint64_t i = 0; i < out->m.rows && !o->right; i++) out->b[i] = 1;
    return true;
}

static void free_data(cg_data *data) {
    matrix_free(&data->m);
    free(data->b);
    free(data->x);
    free(data->seconds);
}

/* What was found, against the same in plain C. */
static int say(const cg_options *o, const cg_data *data, const cg_result *result) {
    double rounding;
    const double residual = matrix_residual(&data->m, data->x, data->b, result->iterations, &rounding);
    const sample_stats stats = samples_describe(data->seconds, o->repeat);
    printf("%s: %" PRIu64 " iterations, residual %.3g of the right-hand side (%.3g in plain C), %.6f s",
           o->is_host_loop ? "a submission an iteration" : "a while node", result->iterations,
           result->residual, residual, stats.median);
    if (o->repeat > 1) printf(" (%.6f to %.6f)", stats.least, stats.most);
    printf(", %.2f us an iteration\n",
           stats.median * 1e6 / (double)(result->iterations ? result->iterations : 1));
    if (residual <= o->tolerance + rounding) return EXIT_GOOD;
    fprintf(stderr, "%s: the residual is %g in plain C, expected at most %g, of which %g for rounding\n",
            program, residual, o->tolerance + rounding, rounding);
    return EXIT_CHECK_FAILED;
}

static int run(const cg_options *o) {
    cg_data data = {0};
    opened_device opened = {0};
    cg_solver solver = {0};
    cg_result result = {0};
    int code = read_data(o, &data) ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (code == EXIT_GOOD)
        code = report_open(program, o->device,
                           &ROTA_RUNTIME_OPTIONS(.worker_threads = (uint32_t)o->threads,
                                                 .timeout_ns = o->timeout * 1000000000u),
                           &opened);
    if (code != EXIT_GOOD) goto done;
    printf("%" PRIu64 " unknowns, %" PRIu64 " entries\n", data.m.rows, data.m.entries);
    REPORT_TRY(cg_solver_create(opened.runtime, opened.device, &data.m, data.b, o->tolerance,
                                o->iterations_max, o->is_host_loop, &solver));
    for (uint64_t i = 0; i < o->repeat; i++) {
        REPORT_TRY(cg_solve(&solver, &result));
        data.seconds[i] = result.seconds;
    }
    REPORT_TRY(cg_read(&solver, data.x));
    code = say(o, &data, &result);
    if (code == EXIT_GOOD && o->solution && !market_write_vector(o->solution, data.x, data.m.rows))
        code = EXIT_BAD_ARGUMENT;
done:
    cg_solver_free(&solver);
    report_close(&opened);
    free_data(&data);
    return code;
}

int main(int argc, char **argv) {
    cg_options o = {
        .device = NULL, .repeat = 1, .timeout = 3600, .tolerance = 1e-8, .iterations_max = 100000};
    const option options[] = {
        OPTION_ROW_HEADING("The equations"),
        {"--matrix", OPTION_STRING, &o.matrix, "FILE.mtx", 0, 0, false,
         "a Matrix Market file: coordinate, symmetric or general with both triangles alike"},
        {"--poisson", OPTION_COUNT, &o.poisson, "N", 1, 16384, false,
         "in its place: Poisson's equation on a square of N by N points"},
        {"--right", OPTION_STRING, &o.right, "FILE.mtx", 0, 0, false,
         "the right-hand side, a Matrix Market array of one column; ones by default"},
        {"--solution", OPTION_OUTPUT, &o.solution, "FILE.mtx", 0, 0, false,
         "write the solution there, likewise"},
        OPTION_ROW_HEADING("When it ends"),
        {"--tolerance", OPTION_REAL, &o.tolerance, "T", 0, 1, false,
         "where the residual is T times as long as the right-hand side"},
        {"--iterations", OPTION_COUNT, &o.iterations_max, "N", 1, 4e9, false,
         "most iterations; more of them are an error"},
        {"--timeout", OPTION_COUNT, &o.timeout, "SECONDS", 1, 1e9, false, "how long a solution may take"},
        OPTION_ROW_HEADING("How it runs"),
        {"--host-loop", OPTION_FLAG, &o.is_host_loop, NULL, 0, 0, false,
         "a submission an iteration, whose residual the host reads, to compare with"},
        {"--repeat", OPTION_COUNT, &o.repeat, "N", 1, 10000, false,
         "solve it so often, and print the median time"},
        {"--threads", OPTION_COUNT, &o.threads, "N", 0, 1024, false, "of the CPU; 0: one for each core"},
        OPTION_ROW_DEVICE(o.device),
    };
    const option_table table = {program,
                                "solves sparse symmetric equations by conjugate gradient, in one submission",
                                "cg --poisson 256\n"
                                "cg --poisson 256 --host-loop\n"
                                "cg --matrix bcsstk16.mtx --tolerance 1e-10 --solution x.mtx",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc - 1, argv + 1);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    if (!o.matrix == !o.poisson) {
        options_bad(&table, "%s; expected --matrix FILE.mtx or --poisson N",
                    o.matrix ? "--matrix and --poisson" : "no equations");
        return EXIT_BAD_ARGUMENT;
    }
    return report_end(program, run(&o));
}
