/* rota-bench fuse: a chain of elementwise ops as nodes of their own and fused, against an f64 reference and
 * each other. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/commands.h"
#include "bench/options.h"
#include "bench/report.h"

static const char program[] = "rota-bench fuse";

/* Chains in a plan that is timed: one submission would cost as much as a short chain. */
enum { TIMED_CHAINS = 8, OPS = 6, COLUMNS = 1024, CHECKED = 4096 };

typedef struct chain {
    uint64_t rows;
    rota_buffer *x, *bias, *y, *seen;
    float *x_data, *bias_data;
} chain;

static rota_status tensor_of(rota_buffer *buffer, uint64_t rows, rota_tensor *out) {
    const uint64_t shape[2] = {rows, COLUMNS};
    return rota_tensor_of(buffer, 0, ROTA_F32, 2, shape, out);
}

static rota_status make_chain(const opened_device *opened, uint64_t rows, chain *out) {
    const uint64_t count = rows * COLUMNS;
    *out = (chain){.rows = rows, .x_data = malloc(count * 4), .bias_data = malloc((size_t)COLUMNS * 4)};
    if (!out->x_data || !out->bias_data)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %" PRIu64 " elements", count);
    for (uint64_t i = 0; i < count; i++)
        out->x_data[i] = (float)((i * 2654435761u) % 65536u) / 16384.0f - 2.0f;
    for (uint64_t i = 0; i < COLUMNS; i++) out->bias_data[i] = (float)(i % 64) / 64.0f - 0.5f;
    ROTA_TRY(rota_buffer_create_in(opened->runtime, "x", count * 4, &out->x));
    ROTA_TRY(rota_buffer_create_in(opened->runtime, "y", count * 4, &out->y));
    ROTA_TRY(rota_buffer_create_in(opened->runtime, "bias", (uint64_t)COLUMNS * 4, &out->bias));
    ROTA_TRY(rota_buffer_create_in(opened->runtime, "seen", 4, &out->seen));
    ROTA_TRY(rota_buffer_write(out->x, opened->device, 0, out->x_data, count * 4, NULL));
    return rota_buffer_write(out->bias, opened->device, 0, out->bias_data, (uint64_t)COLUMNS * 4, NULL);
}

static void free_chain(chain *c) {
    rota_buffer_release(c->x);
    rota_buffer_release(c->y);
    rota_buffer_release(c->bias);
    rota_buffer_release(c->seen);
    free(c->x_data);
    free(c->bias_data);
}

/* y = clamp(silu(gelu(2 x - 0.5) + bias) * x, -1, 3) */
static double reference(float x, float bias) {
    const double a = 2.0 * (double)x - 0.5;
    const double g = 0.5 * a * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (a + 0.044715 * a * a * a)));
    const double b = g + (double)bias, s = b / (1.0 + exp(-b)) * (double)x;
    return s < -1.0 ? -1.0 : s > 3.0 ? 3.0 : s;
}

static rota_status record(rota_tape *tape, const chain *c) {
    rota_tensor x, y, bias, a, g, b, s, p;
    ROTA_TRY(tensor_of(c->x, c->rows, &x));
    ROTA_TRY(tensor_of(c->y, c->rows, &y));
    ROTA_TRY(tensor_of(c->bias, 1, &bias));
    ROTA_TRY(rota_op_affine(tape, x, ROTA_PLAIN(2.0), ROTA_PLAIN(-0.5), &a));
    ROTA_TRY(rota_op_gelu(tape, a, &g));
    ROTA_TRY(rota_op_add(tape, g, bias, &b));
    ROTA_TRY(rota_op_silu(tape, b, &s));
    ROTA_TRY(rota_op_mul(tape, s, x, &p));
    ROTA_TRY(rota_op_clamp_into(tape, p, ROTA_PLAIN(-1.0), ROTA_PLAIN(3.0), y));
    /* Somebody reads y, so that no two chains become one. */
    return rota_record_copy(rota_tape_recorder(tape), c->seen, 0, c->y, 0, 4, NULL);
}

static rota_status make_plan(const opened_device *opened, const chain *c, bool fused, uint64_t *out_merged,
                             double *out_compile_ms, rota_plan **out_plan) {
    rota_graph *graph = NULL;
    rota_recorder *recorder = NULL;
    rota_tape *tape = NULL;
    rota_device *device = opened->device;
    ROTA_TRY(rota_graph_create(NULL, &graph));
    rota_status status = rota_recorder_open(graph, 0, NULL, &recorder);
    if (status == ROTA_OK)
        status = rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape);
    for (uint32_t i = 0; i < TIMED_CHAINS && status == ROTA_OK; i++) status = record(tape, c);
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    if (status == ROTA_OK && fused) status = rota_graph_fuse(graph);
    const uint64_t begin = rota_clock_ns();
    if (status == ROTA_OK)
        status = rota_compile(opened->runtime, graph,
                              &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), out_plan);
    *out_compile_ms = (double)(rota_clock_ns() - begin) / 1e6;
    rota_graph_release(graph);
    if (status != ROTA_OK) return status;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(*out_plan, &stats);
    *out_merged = stats.merged;
    if (fused && stats.merged == 0) {
        char why[1024];
        if (rota_plan_explain(*out_plan, (rota_node){1, 0}, why, sizeof why, NULL) == ROTA_OK)
            printf("nothing was fused: %s", why);
    }
    return ROTA_OK;
}

static rota_status replay(rota_plan *plan) {
    rota_ticket ticket;
    ROTA_TRY(rota_submit_wait(plan, NULL, 0, &ticket));
    return rota_wait(ticket, 0);
}

#define WARM_NS 100000000u

/* One way: its time a chain, its y, and how many of the checked elements are wrong. */
static rota_status run_way(const opened_device *opened, const chain *c, bool fused, uint64_t repeat,
                           float *out_y, uint64_t *out_wrong, cJSON *row) {
    rota_plan *plan = NULL;
    uint64_t merged = 0;
    double compile_ms = 0, *us = calloc(repeat, sizeof *us);
    if (!us) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for samples");
    rota_status status = make_plan(opened, c, fused, &merged, &compile_ms, &plan);
    const uint64_t warm_from_ns = rota_clock_ns(), count = c->rows * COLUMNS;
    do {
        if (status == ROTA_OK) status = replay(plan);
    } while (status == ROTA_OK && rota_clock_ns() - warm_from_ns < WARM_NS);
    for (uint64_t r = 0; r < repeat && status == ROTA_OK; r++) {
        const uint64_t begin = rota_clock_ns();
        status = replay(plan);
        us[r] = (double)(rota_clock_ns() - begin) / 1e3 / (double)TIMED_CHAINS;
    }
    if (status == ROTA_OK) status = rota_buffer_read(c->y, 0, out_y, count * 4);
    rota_plan_release(plan);
    if (status == ROTA_OK) {
        const uint64_t step = count > CHECKED ? count / CHECKED : 1;
        for (uint64_t i = 0; i < count; i += step) {
            const double want = reference(c->x_data[i], c->bias_data[i % COLUMNS]);
            if (!(fabs((double)out_y[i] - want) <= 1e-5 * (1.0 + fabs(want)))) ++*out_wrong;
        }
        const sample_stats stats = samples_describe(us, repeat);
        const double gb_s = 8.0 * (double)count / stats.median / 1e3;
        printf("%-8s %10.1f us a chain (%.1f to %.1f), %8.1f GB/s of x and y, compiled in %.1f ms, %" PRIu64
               " of %d nodes merged\n",
               fused ? "fused" : "separate", stats.median, stats.least, stats.most, gb_s, compile_ms, merged,
               OPS * TIMED_CHAINS);
        cJSON_AddBoolToObject(row, "fused", fused);
        cJSON_AddNumberToObject(row, "us", stats.median);
        cJSON_AddNumberToObject(row, "us_min", stats.least);
        cJSON_AddNumberToObject(row, "us_max", stats.most);
        cJSON_AddNumberToObject(row, "compile_ms", compile_ms);
        cJSON_AddNumberToObject(row, "merged", (double)merged);
    }
    free(us);
    return status;
}

int bench_fuse(int argc, char **argv) {
    const char *id = NULL, *out = NULL;
    uint64_t repeat = 10, rows = 16384;
    bool no_fuse = false;
    const option options[] = {
        OPTION_ROW_DEVICE(id),
        {"--rows", OPTION_COUNT, &rows, "N", 1, 1 << 20, false, "rows of the tensors, of 1024 elements each"},
        {"--repeat", OPTION_COUNT, &repeat, "N", 1, 10000, false, "how often each way is timed"},
        {"--no-fuse", OPTION_FLAG, &no_fuse, NULL, 0, 0, false, "one by one only"},
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench fuse --device cuda:0 --rows 16Ki",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    opened_device opened;
    chain c = {0};
    int code = report_open(program, id, NULL, &opened);
    if (code != EXIT_GOOD) return code;
    cJSON *result = report_new();
    cJSON_AddItemToObject(result, "device", report_device(rota_device_get_info(opened.device)));
    cJSON_AddNumberToObject(result, "elements", (double)(rows * COLUMNS));
    cJSON *ways = cJSON_AddArrayToObject(result, "ways");
    uint64_t wrong = 0;
    float *y[2] = {malloc(rows * COLUMNS * 4), malloc(rows * COLUMNS * 4)};
    if (!y[0] || !y[1])
        REPORT_TRY(rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %" PRIu64 " elements", rows * COLUMNS));
    REPORT_TRY(make_chain(&opened, rows, &c));
    for (int way = 0; way < (no_fuse ? 1 : 2); way++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddItemToArray(ways, row);
        REPORT_TRY(run_way(&opened, &c, way == 1, repeat, y[way], &wrong, row));
    }
    uint64_t different = 0;
    for (uint64_t i = 0; i < rows * COLUMNS && !no_fuse; i++)
        different += memcmp(&y[0][i], &y[1][i], sizeof(float)) != 0;
    printf("%" PRIu64 " elements, %" PRIu64 " checked ones wrong", rows * COLUMNS, wrong);
    if (!no_fuse) printf(", %" PRIu64 " not the same bits fused and separate", different);
    printf("\n");
    cJSON_AddNumberToObject(result, "wrong", (double)wrong);
    cJSON_AddNumberToObject(result, "different_bits", (double)different);
    if (wrong) code = EXIT_CHECK_FAILED;
done:
    free(y[0]);
    free(y[1]);
    free_chain(&c);
    report_close(&opened);
    return report_write(result, out, code);
}
