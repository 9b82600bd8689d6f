/* rota-bench peer: bytes from one device to another, and nodes that take turns on the two: what the copies take, and
 * how long it is from the end of a node on one to the begin of the next on the other, by the times that a trace has;
 * and by the host's clock without diagnostics, beside the CUDA driver's copies and events. All that is computed is
 * checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/commands.h"
#include "bench/options.h"
#include "bench/raw_peer.h"
#include "bench/report.h"

static const char program[] = "rota-bench peer";

typedef struct settings {
    uint64_t bytes, small_bytes, turns, repeat;
    const char *devices, *trace;
} settings;

/* A plan of nodes that take turns on the two devices, from `from` to `to`: each multiplies by `factor`. */
typedef struct chain {
    rota_buffer *from, *to;
    rota_plan *plan;
    uint64_t count, nodes;
    float factor;
} chain;

typedef struct world {
    const settings *s;
    rota_runtime *runtime;
    rota_device *devices[2];
    float *data; /* whole numbers, exact in any product here */
    chain large[2], turns;
} world;

static float value_at(uint64_t i) {
    return (float)(i % 1021 + 1);
}

static rota_status record(const world *w, rota_recorder *recorder, const chain *c) {
    rota_tape *tapes[2] = {NULL, NULL};
    rota_tensor x, last;
    rota_status status = ROTA_OK;
    for (uint32_t d = 0; d < 2 && status == ROTA_OK; d++)
        status = rota_tape_create(
            recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true, .placement = {.device_plus_1 = d + 1}),
            &tapes[d]);
    (void)w;
    if (status == ROTA_OK) status = rota_tensor_of(c->from, 0, ROTA_F32, 1, &c->count, &x);
    if (status == ROTA_OK) status = rota_tensor_of(c->to, 0, ROTA_F32, 1, &c->count, &last);
    for (uint64_t n = 0; n < c->nodes && status == ROTA_OK; n++) {
        rota_tape *tape = tapes[n % 2];
        status = n + 1 == c->nodes ? rota_op_scale_into(tape, x, ROTA_PLAIN(c->factor), last)
                                   : rota_op_scale(tape, x, ROTA_PLAIN(c->factor), &x);
    }
    for (uint32_t d = 0; d < 2; d++) rota_tape_destroy(tapes[d]);
    return status;
}

static rota_status make_chain(const world *w, const char *name, uint64_t bytes, uint64_t nodes, float factor,
                              chain *out) {
    rota_graph *graph = NULL;
    rota_recorder *recorder = NULL;
    *out = (chain){.count = bytes / 4, .nodes = nodes, .factor = factor};
    ROTA_TRY(rota_buffer_create_in(w->runtime, "from", bytes, &out->from));
    ROTA_TRY(rota_buffer_create_in(w->runtime, "to", bytes, &out->to));
    ROTA_TRY(rota_buffer_write(out->from, w->devices[0], 0, w->data, bytes, NULL));
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &graph));
    rota_status status = rota_recorder_open(graph, 0, NULL, &recorder);
    if (status == ROTA_OK) status = record(w, recorder, out);
    rota_recorder_close(recorder);
    if (status == ROTA_OK)
        status = rota_compile(w->runtime, graph,
                              &ROTA_COMPILE_OPTIONS(.name = name, .devices = w->devices, .device_count = 2),
                              &out->plan);
    rota_graph_release(graph);
    return status;
}

static void free_chain(chain *c) {
    rota_plan_release(c->plan);
    rota_buffer_release(c->from);
    rota_buffer_release(c->to);
}

static rota_status replay(const chain *c, double *out_us) {
    rota_ticket ticket;
    const uint64_t begin = rota_clock_ns();
    ROTA_TRY(rota_submit_wait(c->plan, NULL, 0, &ticket));
    ROTA_TRY(rota_wait(ticket, 0));
    *out_us = (double)(rota_clock_ns() - begin) / 1e3;
    return ROTA_OK;
}

static rota_status check(const world *w, const chain *c, uint64_t *wrong) {
    float *got = malloc(c->count * sizeof *got), product = 1;
    (void)w;
    if (!got) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for %" PRIu64 " elements", c->count);
    for (uint64_t n = 0; n < c->nodes; n++) product *= c->factor;
    const rota_status status = rota_buffer_read(c->to, 0, got, c->count * sizeof *got);
    for (uint64_t i = 0; status == ROTA_OK && i < c->count; i++) *wrong += got[i] != value_at(i) * product;
    free(got);
    return status;
}

/* ---- By the times of commands ---- */

/* Of the last replay: microseconds from a node's end to the next one's begin, the median; and what a copy took. */
static rota_status look(const chain *c, double *out_between_us, double *out_copy_us) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    ROTA_TRY(rota_plan_get_stats(c->plan, &stats));
    rota_plan_command *commands = calloc(stats.commands, sizeof *commands);
    rota_plan_time *times = calloc(stats.commands, sizeof *times);
    double *between = calloc(stats.commands, sizeof *between),
           *copies = calloc(stats.commands, sizeof *copies);
    const bool there = commands && times && between && copies;
    rota_status status = there ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for times");
    if (there) commands[0].struct_size = sizeof *commands;
    if (status == ROTA_OK) status = rota_plan_get_commands(c->plan, commands, stats.commands);
    if (status == ROTA_OK) status = rota_plan_command_times(c->plan, times, stats.commands, NULL);
    uint64_t between_count = 0, copy_count = 0, end_ns = 0;
    for (uint64_t i = 0; status == ROTA_OK && i < stats.commands; i++) {
        const bool is_node = commands[i].kind == ROTA_PLAN_KERNEL;
        if (is_node && end_ns) between[between_count++] = ((double)times[i].begin_ns - (double)end_ns) / 1e3;
        if (is_node) end_ns = times[i].end_ns;
        if (commands[i].kind == ROTA_PLAN_TRANSFER)
            copies[copy_count++] = (double)(times[i].end_ns - times[i].begin_ns) / 1e3;
    }
    *out_between_us = between_count ? samples_describe(between, between_count).median : 0;
    *out_copy_us = 0; /* of several that a copy is of, one after the other */
    for (uint64_t i = 0; i < copy_count; i++) *out_copy_us += copies[i] / (double)(c->nodes - 1);
    free(commands);
    free(times);
    free(between);
    free(copies);
    return status;
}

typedef struct measured {
    double *copy_us, *between_us, *turn_us, *raw_copy_us, *raw_turn_us;
    bool has_raw;
    uint64_t wrong;
} measured;

static rota_status measure(const world *w, bool timed, measured *m) {
    double us, unused;
    for (uint64_t r = 0; r < w->s->repeat + 2; r++) { /* two to warm up */
        const uint64_t i = r < 2 ? 0 : r - 2;
        const chain *large = &w->large[r % 2];
        if (timed) {
            ROTA_TRY(replay(large, &us));
            ROTA_TRY(look(large, &unused, &m->copy_us[i]));
            ROTA_TRY(check(w, large, &m->wrong));
        }
        ROTA_TRY(replay(&w->turns, &us));
        ROTA_TRY(check(w, &w->turns, &m->wrong));
        if (timed)
            ROTA_TRY(look(&w->turns, &m->between_us[i], &unused));
        else
            m->turn_us[i] = us / (double)w->s->turns;
    }
    return timed && w->s->trace ? rota_plan_write_trace(w->turns.plan, w->s->trace) : ROTA_OK;
}

static rota_status open_second(world *w, const char *id) {
    return rota_device_open(w->runtime, id, &w->devices[1]);
}

/* With diagnostics, or without: each in a runtime of its own. */
static int run_once(const settings *s, const char *const *ids, bool timed, float *data, measured *m,
                    cJSON *result) {
    opened_device opened;
    world w = {.s = s, .data = data};
    int code = report_open(program, ids[0], &ROTA_RUNTIME_OPTIONS(.diagnostics = timed), &opened);
    if (code != EXIT_GOOD) return code;
    w.runtime = opened.runtime;
    w.devices[0] = opened.device;
    REPORT_TRY(open_second(&w, ids[1]));
    cJSON *devices = timed ? cJSON_AddArrayToObject(result, "devices") : NULL;
    for (uint32_t d = 0; d < 2 && timed; d++)
        cJSON_AddItemToArray(devices, report_device(rota_device_get_info(w.devices[d])));
    for (uint32_t i = 0; i < 2 && timed; i++)
        REPORT_TRY(make_chain(&w, "copy", s->bytes, 2, (float)(2 + i), &w.large[i]));
    REPORT_TRY(make_chain(&w, "turns", s->small_bytes, s->turns + 1, -1, &w.turns));
    REPORT_TRY(measure(&w, timed, m));
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    REPORT_TRY(rota_runtime_get_stats(w.runtime, &stats));
    if (timed) cJSON_AddNumberToObject(result, "device_waits", (double)stats.device_waits);
    if (timed && stats.device_waits == 0)
        printf("the two are ordered by the host: no device waited for the other\n");
done:
    for (uint32_t i = 0; i < 2; i++) free_chain(&w.large[i]);
    free_chain(&w.turns);
    report_close(&opened);
    return code;
}

static bool raw_measure(const settings *s, raw_peer *raw, measured *m) {
    for (uint64_t r = 0; r < s->repeat + 2; r++) {
        const uint64_t i = r < 2 ? 0 : r - 2;
        const uint32_t word = (uint32_t)r + 7;
        if (!raw_peer_copy(raw, word, &m->raw_copy_us[i])) return false;
        if (!raw_peer_check(raw, word)) {
            fprintf(stderr, "raw CUDA: a copy brought other bytes\n");
            return false;
        }
        if (!raw_peer_turns(raw, (uint32_t)s->turns, s->small_bytes, &m->raw_turn_us[i])) return false;
    }
    return true;
}

/* "cuda:N": its number. False: another device. */
static bool cuda_index(const char *id, uint32_t *out_index) {
    char *end;
    if (strncmp(id, "cuda:", 5) != 0) return false;
    *out_index = (uint32_t)strtoul(id + 5, &end, 10);
    return *end == 0;
}

/* Of CUDA devices alone. */
static int run_raw(const settings *s, const char *const *ids, measured *m) {
    uint32_t indices[2];
    if (!cuda_index(ids[0], &indices[0]) || !cuda_index(ids[1], &indices[1])) return EXIT_GOOD;
    raw_peer *raw =
        raw_peer_create(indices[0], indices[1], s->bytes > s->small_bytes ? s->bytes : s->small_bytes);
    m->has_raw = raw && raw_measure(s, raw, m);
    raw_peer_destroy(raw);
    return m->has_raw ? EXIT_GOOD : EXIT_CHECK_FAILED;
}

/* ---- The command ---- */

static double put(cJSON *result, const char *name, double *samples, uint64_t count) {
    const sample_stats stats = samples_describe(samples, count);
    cJSON *row = cJSON_AddObjectToObject(result, name);
    cJSON_AddNumberToObject(row, "median", stats.median);
    cJSON_AddNumberToObject(row, "min", stats.least);
    cJSON_AddNumberToObject(row, "max", stats.most);
    return stats.median;
}

static int report(const settings *s, measured *m, cJSON *result) {
    const double copy = put(result, "copy_us", m->copy_us, s->repeat),
                 between = put(result, "between_nodes_us", m->between_us, s->repeat),
                 turn = put(result, "turn_us", m->turn_us, s->repeat);
    cJSON_AddNumberToObject(result, "bytes", (double)s->bytes);
    cJSON_AddNumberToObject(result, "small_bytes", (double)s->small_bytes);
    printf("copy of %" PRIu64 " bytes: %.1f us, %.1f GB/s\n", s->bytes, copy, (double)s->bytes / copy / 1e3);
    printf("from a node's end to its dependent's begin on the other, with %" PRIu64
           " bytes: %.1f us by a trace; "
           "a turn %.1f us without diagnostics\n",
           s->small_bytes, between, turn);
    if (m->has_raw) {
        const double raw_copy = put(result, "raw_copy_us", m->raw_copy_us, s->repeat),
                     raw_turn = put(result, "raw_turn_us", m->raw_turn_us, s->repeat);
        printf("the driver's: copy %.1f us, %.1f GB/s; a turn by events %.1f us\n", raw_copy,
               (double)s->bytes / raw_copy / 1e3, raw_turn);
        printf("rota's bandwidth over the driver's: %.3f\n", raw_copy / copy);
        cJSON_AddNumberToObject(result, "bandwidth_ratio", raw_copy / copy);
    }
    cJSON_AddNumberToObject(result, "wrong", (double)m->wrong);
    printf("%" PRIu64 " elements wrong\n", m->wrong);
    return m->wrong ? EXIT_CHECK_FAILED : EXIT_GOOD;
}

static int run(const settings *s, const char *const *ids, const char *out) {
    measured m = {.wrong = 0};
    double **samples[] = {&m.copy_us, &m.between_us, &m.turn_us, &m.raw_copy_us, &m.raw_turn_us};
    const uint64_t most = s->bytes > s->small_bytes ? s->bytes : s->small_bytes;
    float *data = malloc(most);
    bool there = data != NULL;
    for (uint32_t i = 0; i < 5; i++) {
        *samples[i] = calloc(s->repeat, sizeof(double));
        there = there && *samples[i];
    }
    cJSON *result = report_new();
    int code = EXIT_BAD_ARGUMENT;
    if (there) {
        for (uint64_t i = 0; i < most / 4; i++) data[i] = value_at(i);
        code = run_once(s, ids, true, data, &m, result);
        if (code == EXIT_GOOD) code = run_once(s, ids, false, data, &m, result);
        const int raw = code == EXIT_GOOD ? run_raw(s, ids, &m) : code;
        if (code == EXIT_GOOD) code = report(s, &m, result);
        if (code == EXIT_GOOD) code = raw;
    } else {
        fprintf(stderr, "%s: no host memory for %" PRIu64 " bytes\n", program, most);
    }
    for (uint32_t i = 0; i < 5; i++) free(*samples[i]);
    free(data);
    return report_write(result, out, code);
}

int bench_peer(int argc, char **argv) {
    const char *out = NULL;
    settings s = {
        .bytes = 128u << 20, .small_bytes = 4096, .turns = 64, .repeat = 10, .devices = "cuda:0,cuda:1"};
    const option options[] = {
        {"--device", OPTION_STRING, &s.devices, "ID,ID", 0, 0, false, "the two devices"},
        {"--bytes", OPTION_COUNT, &s.bytes, "N", 4096, (double)(UINT64_C(1) << 36), false,
         "of the copy that is timed"},
        {"--small", OPTION_COUNT, &s.small_bytes, "N", 4, (double)(UINT64_C(1) << 30), false,
         "bytes that go along with each turn"},
        {"--turns", OPTION_COUNT, &s.turns, "N", 1, 100000, false,
         "of nodes on the two, one after the other"},
        {"--repeat", OPTION_COUNT, &s.repeat, "N", 1, 10000, false, "how often each is timed"},
        OPTION_ROW_TRACE(s.trace),
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench peer --device cuda:0,cuda:1 --bytes 128Mi --out peer.json",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    char list[64];
    snprintf(list, sizeof list, "%s", s.devices);
    char *second = strchr(list, ',');
    if (!second || strchr(second + 1, ',') || !second[1]) {
        (void)options_bad(&table, "--device takes two devices, as cuda:0,cuda:1, not '%s'", s.devices);
        return EXIT_BAD_ARGUMENT;
    }
    *second++ = 0;
    s.bytes &= ~UINT64_C(3);
    s.small_bytes &= ~UINT64_C(3);
    return run(&s, (const char *const[]){list, second}, out);
}
