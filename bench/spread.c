/* rota-bench spread: one graph on each device alone, and placed on all of them by rota, in turn, each result compared
 * with what it has to be. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/commands.h"
#include "bench/options.h"
#include "bench/report.h"

static const char program[] = "rota-bench spread";

enum { DEVICES_MAX = 8, PLANS_MAX = DEVICES_MAX + 1, COLUMNS = 1024, VALUES = 8 };
enum { WORK_PRODUCTS, WORK_SHARDS, WORK_PROJECTION };
static const char *const work_names[] = {"products", "shards", "projection"};
#define WARM_NS 200000000u

/* What the graph is of.
 *
 *   products:  x --*w[0]*w[0]...--> column sums --\      shards:  host's shard 0 --squares--> column sums --\
 *                --*w[1]*w[1]...--> column sums ---+--> total     host's shard 1 --squares--> column sums ---+--> total
 *
 * x is computed in each replay, so that all devices that take a branch need it. w[b] moves columns, so that sums are
 * known: all are of small whole numbers, exact in any order.
 *
 *   projection:  host's shard 0 --*w--> column sums --\      w: 1024 x side, each column of a shard goes to one
 *                host's shard 1 --*w--> column sums ---+--> total                                          of w's */
typedef struct settings {
    int work;
    uint64_t branches, side, chain, rows, repeat;
    bool learn;
    uint64_t rounds, threads;
    const char *devices;
} settings;

typedef struct world {
    const settings *s;
    rota_runtime *runtime;
    rota_device *devices[DEVICES_MAX];
    uint32_t device_count;
    uint64_t columns;
    float *data; /* x, or a shard: all have the same */
    rota_buffer *x, **w, *total;
    rota_graph *graph;
    rota_buffer **shards; /* INPUT */
    float *got, *expected;
} world;

/* A way to place it. */
typedef struct way {
    char name[128];
    rota_plan *plan;
    rota_args *args;
    double compile_ms, *us;
    uint64_t wrong;
    uint32_t commands_on[DEVICES_MAX];
    uint32_t transfers;
} way;

/* ---- The graph ---- */

static uint64_t shift_of(const world *w, uint64_t branch) {
    return (branch * 7 + 1) % w->columns;
}

static rota_status make_data(world *w) {
    const settings *s = w->s;
    const uint64_t count = s->work == WORK_PRODUCTS ? s->side * s->side : s->rows * COLUMNS;
    w->data = malloc(count * sizeof *w->data);
    w->got = calloc(w->columns, sizeof *w->got);
    w->expected = calloc(w->columns, sizeof *w->expected);
    w->w = calloc(s->branches, sizeof(rota_buffer *));
    w->shards = calloc(s->branches, sizeof(rota_buffer *));
    if (!w->data || !w->got || !w->expected || !w->w || !w->shards)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %" PRIu64 " elements", count);
    for (uint64_t i = 0; i < count; i++) w->data[i] = (float)(((i * 2654435761u) >> 7) % VALUES);
    for (uint64_t i = 0; i < count; i++) {
        const float value = s->work == WORK_SHARDS ? w->data[i] * w->data[i] : w->data[i];
        for (uint64_t b = 0; s->work == WORK_PRODUCTS && b < s->branches; b++)
            w->expected[(i % w->columns + shift_of(w, b) * s->chain) % w->columns] += value;
        if (s->work == WORK_SHARDS) w->expected[i % w->columns] += value * (float)s->branches;
        if (s->work == WORK_PROJECTION) w->expected[i % COLUMNS % w->columns] += value * (float)s->branches;
    }
    return ROTA_OK;
}

static rota_status make_directions(world *w) {
    const uint64_t bytes = COLUMNS * w->columns * 4;
    float *directions = calloc(COLUMNS * w->columns, sizeof *directions);
    if (!directions) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a matrix");
    for (uint64_t i = 0; i < COLUMNS; i++) directions[i * w->columns + i % w->columns] = 1;
    rota_status status = rota_buffer_create_in(w->runtime, "w", bytes, &w->w[0]);
    if (status == ROTA_OK) status = rota_buffer_write(w->w[0], w->devices[0], 0, directions, bytes, NULL);
    free(directions);
    return status;
}

static rota_status make_buffers(world *w) {
    const settings *s = w->s;
    ROTA_TRY(rota_buffer_create_in(w->runtime, "total", w->columns * 4, &w->total));
    if (s->work == WORK_SHARDS) return ROTA_OK;
    if (s->work == WORK_PROJECTION) return make_directions(w);
    const uint64_t bytes = s->side * s->side * 4;
    ROTA_TRY(rota_buffer_create_in(w->runtime, "x", bytes, &w->x));
    ROTA_TRY(rota_buffer_write(w->x, w->devices[0], 0, w->data, bytes, NULL));
    float *moves = calloc(s->side * s->side, sizeof *moves);
    rota_status status = moves ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a matrix");
    for (uint64_t b = 0; b < s->branches && status == ROTA_OK; b++) {
        memset(moves, 0, bytes);
        for (uint64_t i = 0; i < s->side; i++) moves[i * s->side + (i + shift_of(w, b)) % s->side] = 1;
        status = rota_buffer_create_in(w->runtime, "w", bytes, &w->w[b]);
        if (status == ROTA_OK) status = rota_buffer_write(w->w[b], w->devices[0], 0, moves, bytes, NULL);
    }
    free(moves);
    return status;
}

static rota_status matrix_of(rota_buffer *buffer, uint64_t rows, uint64_t columns, rota_tensor *out) {
    const uint64_t shape[2] = {rows, columns};
    return rota_tensor_of(buffer, 0, ROTA_F32, 2, shape, out);
}

static rota_status record_branch(world *w, rota_tape *tape, rota_tensor x, uint64_t b,
                                 rota_tensor *out_sums) {
    const settings *s = w->s;
    if (s->work == WORK_PRODUCTS) {
        rota_tensor moves;
        ROTA_TRY(matrix_of(w->w[b], s->side, s->side, &moves));
        for (uint64_t i = 0; i < s->chain; i++) ROTA_TRY(rota_op_matmul(tape, x, moves, false, false, &x));
    } else {
        ROTA_TRY(
            rota_graph_buffer(w->graph, ROTA_BUFFER_INPUT, "shard", s->rows * COLUMNS * 4, &w->shards[b]));
        ROTA_TRY(matrix_of(w->shards[b], s->rows, COLUMNS, &x));
        rota_tensor directions;
        if (s->work == WORK_SHARDS) {
            ROTA_TRY(rota_op_mul(tape, x, x, &x));
        } else {
            ROTA_TRY(matrix_of(w->w[0], COLUMNS, w->columns, &directions));
            ROTA_TRY(rota_op_matmul(tape, x, directions, false, false, &x));
        }
    }
    return rota_op_column_sums(tape, x, out_sums);
}

static rota_status record(world *w, rota_tape *tape) {
    rota_tensor x = ROTA_TENSOR_NONE, sum = ROTA_TENSOR_NONE, total;
    const uint64_t shape[1] = {w->columns};
    ROTA_TRY(rota_tensor_of(w->total, 0, ROTA_F32, 1, shape, &total));
    if (w->s->work == WORK_PRODUCTS) {
        ROTA_TRY(matrix_of(w->x, w->s->side, w->s->side, &x));
        ROTA_TRY(rota_op_scale(tape, x, ROTA_PLAIN(1), &x));
    }
    rota_tensor *sums = calloc(w->s->branches, sizeof *sums);
    if (!sums) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for branches");
    rota_status status = ROTA_OK;
    for (uint64_t b = 0; b < w->s->branches && status == ROTA_OK; b++)
        status = record_branch(w, tape, x, b, &sums[b]);
    sum = sums[0];
    for (uint64_t b = 1; b < w->s->branches && status == ROTA_OK; b++)
        status = rota_op_add(tape, sum, sums[b], &sum);
    free(sums);
    return status == ROTA_OK ? rota_op_scale_into(tape, sum, ROTA_PLAIN(1), total) : status;
}

static rota_status make_graph(world *w) {
    rota_recorder *recorder = NULL;
    rota_tape *tape = NULL;
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "wide"), &w->graph));
    ROTA_TRY(rota_recorder_open(w->graph, 0, NULL, &recorder));
    rota_status status = rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape);
    if (status == ROTA_OK) status = record(w, tape);
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    return status;
}

/* ---- Ways ---- */

static rota_status describe(const world *w, way *it) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    ROTA_TRY(rota_plan_get_stats(it->plan, &stats));
    rota_plan_command *commands = calloc(stats.commands + 1, sizeof *commands);
    if (!commands)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %" PRIu64 " commands", stats.commands);
    commands[0].struct_size = sizeof *commands;
    const rota_status status = rota_plan_get_commands(it->plan, commands, stats.commands);
    for (uint64_t i = 0; status == ROTA_OK && i < stats.commands; i++) {
        it->transfers += commands[i].kind == ROTA_PLAN_TRANSFER;
        for (uint32_t d = 0; d < w->device_count; d++)
            it->commands_on[d] += commands[i].device == w->devices[d] && commands[i].kind == ROTA_PLAN_KERNEL;
    }
    free(commands);
    return status;
}

static rota_status make_way(const world *w, uint32_t only_plus_1, way *it) {
    const settings *s = w->s;
    rota_device *const *devices = only_plus_1 ? &w->devices[only_plus_1 - 1] : w->devices;
    snprintf(it->name, sizeof it->name, "%s",
             only_plus_1 ? rota_device_get_info(devices[0])->id : "placed by rota");
    it->us = calloc(s->repeat, sizeof *it->us);
    if (!it->us) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for samples");
    const uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_compile(w->runtime, w->graph,
                          &ROTA_COMPILE_OPTIONS(.devices = devices,
                                                .device_count = only_plus_1 ? 1 : w->device_count,
                                                .place_auto = !only_plus_1),
                          &it->plan));
    it->compile_ms = (double)(rota_clock_ns() - begin) / 1e6;
    ROTA_TRY(rota_args_create(it->plan, &it->args));
    for (uint64_t b = 0; s->work != WORK_PRODUCTS && b < s->branches; b++)
        ROTA_TRY(rota_args_set_input(it->args, w->shards[b], w->data, s->rows * COLUMNS * 4, false));
    return describe(w, it);
}

static rota_status replay(const way *it, double *out_us) {
    rota_ticket ticket;
    const uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_submit_wait(it->plan, it->args, 0, &ticket));
    ROTA_TRY(rota_wait(ticket, 0));
    *out_us = (double)(rota_clock_ns() - begin) / 1e3;
    return ROTA_OK;
}

static rota_status check(const world *w, way *it) {
    ROTA_TRY(rota_buffer_read(w->total, 0, w->got, w->columns * 4));
    for (uint64_t i = 0; i < w->columns; i++) it->wrong += w->got[i] != w->expected[i];
    return ROTA_OK;
}

/* All ways in turn, so that what else the machine does hits all alike. */
static rota_status measure(const world *w, way *ways, uint32_t count) {
    double us;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t begin = rota_clock_ns();
        do ROTA_TRY(replay(&ways[i], &us));
        while (rota_clock_ns() - begin < WARM_NS);
        ROTA_TRY(check(w, &ways[i]));
    }
    for (uint64_t r = 0; r < w->s->repeat; r++)
        for (uint32_t i = 0; i < count; i++) {
            ROTA_TRY(replay(&ways[i], &us)); /* brings back what the way before left elsewhere */
            ROTA_TRY(replay(&ways[i], &ways[i].us[r]));
            ROTA_TRY(check(w, &ways[i]));
        }
    return ROTA_OK;
}

static int report(const world *w, way *ways, uint32_t count, cJSON *result) {
    cJSON *rows = cJSON_AddArrayToObject(result, "ways");
    double best = 0, placed = 0;
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < count; i++) {
        const sample_stats stats = samples_describe(ways[i].us, w->s->repeat);
        cJSON *row = cJSON_CreateObject();
        cJSON_AddItemToArray(rows, row);
        cJSON_AddStringToObject(row, "way", ways[i].name);
        cJSON_AddNumberToObject(row, "us", stats.median);
        cJSON_AddNumberToObject(row, "us_min", stats.least);
        cJSON_AddNumberToObject(row, "us_max", stats.most);
        cJSON_AddNumberToObject(row, "compile_ms", ways[i].compile_ms);
        cJSON_AddNumberToObject(row, "transfers", ways[i].transfers);
        printf("%-16s %10.1f us (%.1f to %.1f), compiled in %.1f ms, %u copies between devices; kernels:",
               ways[i].name, stats.median, stats.least, stats.most, ways[i].compile_ms, ways[i].transfers);
        for (uint32_t d = 0; d < w->device_count; d++)
            printf(" %u on %s", ways[i].commands_on[d], rota_device_get_info(w->devices[d])->id);
        printf("\n");
        wrong += ways[i].wrong;
        if (i + 1 == count)
            placed = stats.median;
        else if (i == 0 || stats.median < best)
            best = stats.median;
    }
    printf("placed by rota: %.2f times as fast as the best single device; %" PRIu64 " sums wrong\n",
           best / placed, wrong);
    cJSON_AddNumberToObject(result, "speedup", best / placed);
    cJSON_AddNumberToObject(result, "wrong", (double)wrong);
    return wrong ? EXIT_CHECK_FAILED : EXIT_GOOD;
}

/* ---- The command ---- */

static rota_status open_devices(world *w, rota_device *first) {
    char list[256];
    snprintf(list, sizeof list, "%s", w->s->devices);
    char *rest = list;
    w->device_count = 0;
    for (const char *id; (id = strsep(&rest, ","));) {
        if (w->device_count == DEVICES_MAX)
            return rota_fail(ROTA_INVALID_ARGUMENT, "--device takes at most %d devices", DEVICES_MAX);
        if (w->device_count == 0)
            w->devices[0] = first;
        else
            ROTA_TRY(rota_device_open(w->runtime, id, &w->devices[w->device_count]));
        const rota_device *now = w->devices[w->device_count++];
        if (w->device_count > 1)
            printf("device %s: %s\n", rota_device_get_info(now)->id, rota_device_get_info(now)->name);
    }
    return ROTA_OK;
}

static void free_way(way *it) {
    rota_args_release(it->args);
    rota_plan_release(it->plan);
    free(it->us);
    *it = (way){0};
}

static void free_world(world *w, way *ways) {
    for (uint32_t i = 0; i < PLANS_MAX; i++) free_way(&ways[i]);
    rota_graph_release(w->graph);
    for (uint64_t b = 0; w->w && b < w->s->branches; b++) rota_buffer_release(w->w[b]);
    rota_buffer_release(w->x);
    rota_buffer_release(w->total);
    free(w->w);
    free((void *)w->shards);
    free(w->data);
    free(w->got);
    free(w->expected);
}

enum { LESSONS = 3 };

static rota_status teach(const world *w, way *it) {
    double us;
    ROTA_TRY(replay(it, &us));
    for (uint32_t lesson = 0; lesson < LESSONS; lesson++) {
        ROTA_TRY(replay(it, &us));
        ROTA_TRY(rota_plan_learn(it->plan));
    }
    return check(w, it);
}

/* Has each way's replays teach what nodes cost, with a runtime that measures times; then what rota places by that, and
 * by what those teach, until its choice is settled. */
static rota_status learn(const world *w, way *ways, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(teach(w, &ways[i]));
    for (uint64_t round = 1; round < w->s->rounds; round++) {
        free_way(&ways[count - 1]);
        ROTA_TRY(make_way(w, 0, &ways[count - 1]));
        ROTA_TRY(teach(w, &ways[count - 1]));
    }
    return ROTA_OK;
}

/* Learns, or measures. */
static int run(const settings *s, bool learns, const char *out) {
    opened_device opened;
    char first[64];
    way ways[PLANS_MAX] = {0};
    world w = {.s = s, .columns = s->work == WORK_SHARDS ? COLUMNS : s->side};
    snprintf(first, sizeof first, "%.*s", (int)strcspn(s->devices, ","), s->devices);
    int code = report_open(
        program, first, &ROTA_RUNTIME_OPTIONS(.diagnostics = learns, .worker_threads = (uint32_t)s->threads),
        &opened);
    if (code != EXIT_GOOD) return code;
    cJSON *result = report_new();
    w.runtime = opened.runtime;
    REPORT_TRY(open_devices(&w, opened.device));
    cJSON *devices = cJSON_AddArrayToObject(result, "devices");
    for (uint32_t d = 0; d < w.device_count; d++)
        cJSON_AddItemToArray(devices, report_device(rota_device_get_info(w.devices[d])));
    cJSON_AddStringToObject(result, "work", work_names[s->work]);
    cJSON_AddBoolToObject(result, "learned", s->learn);
    REPORT_TRY(make_data(&w));
    REPORT_TRY(make_buffers(&w));
    REPORT_TRY(make_graph(&w));
    for (uint32_t i = 0; i <= w.device_count; i++)
        REPORT_TRY(make_way(&w, i < w.device_count ? i + 1 : 0, &ways[i]));
    if (learns) {
        REPORT_TRY(learn(&w, ways, w.device_count + 1));
    } else {
        REPORT_TRY(measure(&w, ways, w.device_count + 1));
        code = report(&w, ways, w.device_count + 1, result);
    }
done:
    free_world(&w, ways);
    report_close(&opened);
    return report_write(result, out, code);
}

int bench_spread(int argc, char **argv) {
    const char *out = NULL;
    settings s = {.branches = 16,
                  .side = 1024,
                  .chain = 4,
                  .rows = 4096,
                  .repeat = 10,
                  .rounds = 16,
                  .devices = "cpu,vk:0"};
    const option options[] = {
        {"--device", OPTION_STRING, &s.devices, "ID,ID[,ID...]", 0, 0, false, "the devices"},
        {"--work", OPTION_CHOICE, &s.work, "products|shards|projection", 0, 0, false,
         "branches of matrix products of one matrix, or of sums over the host's data, of squares or of "
         "products"},
        {"--branches", OPTION_COUNT, &s.branches, "N", 1, 4096, false, "of the graph"},
        {"--side", OPTION_COUNT, &s.side, "N", 16, 16384, false,
         "products: rows and columns of the matrices; projection: columns of what shards are multiplied by"},
        {"--chain", OPTION_COUNT, &s.chain, "N", 1, 1024, false,
         "products: how many a branch has, one after the other"},
        {"--rows", OPTION_COUNT, &s.rows, "N", 1, 1 << 20, false,
         "shards, projection: rows of a shard, of 1024 elements each"},
        {"--learn", OPTION_FLAG, &s.learn, NULL, 0, 0, false,
         "have replays on each device, and placed by rota, teach what they cost, before"},
        {"--rounds", OPTION_COUNT, &s.rounds, "N", 1, 1000, false,
         "plans placed by rota that teach, with --learn"},
        {"--threads", OPTION_COUNT, &s.threads, "N", 0, 1024, false, "of the CPU device; 0: one a core"},
        {"--repeat", OPTION_COUNT, &s.repeat, "N", 1, 10000, false, "how often each way is timed"},
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench spread --device cuda:0,cuda:1 --side 2048\n"
                                "rota-bench spread --device cuda:0,cpu --work projection --side 64 --learn",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    const int code = s.learn ? run(&s, true, NULL) : EXIT_GOOD;
    return code == EXIT_GOOD ? run(&s, false, out) : code;
}
