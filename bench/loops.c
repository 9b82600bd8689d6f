/* rota-bench loops: a node that decides (rota_record_while) beside a C loop over the same plain calls, or on a CUDA
 * device beside the same by hand (raw_cuda_loop.h), and beside a loop on the host that submits each iteration and reads
 * what it decides by. On a Vulkan device, which has no loops of its own to do by hand, only the latter. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/commands.h"
#include "bench/options.h"
#include "bench/raw_cuda_loop.h"
#include "bench/report.h"
#include "cuda/loops_cuda.h"
#include "spv/bench_loops_down.h"
#include "spv/bench_loops_work.h"

static const char program[] = "rota-bench loops";

/* x = x * A + C, `steps` times: a body that takes as long as it is told to, and whose result is known apart from it. */
#define A UINT32_C(1664525)
#define C UINT32_C(1013904223)

static rota_status work(const rota_kernel_call *call) {
    uint32_t x = *(const uint32_t *)call->operands[0];
    const uint32_t steps = *(const uint32_t *)call->params;
    for (uint32_t i = 0; i < steps; i++) x = x * A + C;
    *(uint32_t *)call->operands[0] = x;
    return ROTA_OK;
}
static uint64_t work_turns(const void *params) {
    return *(const uint32_t *)params;
}
static const rota_kernel k_work = {
    .name = "work",
    .operand_count = 1,
    .param_bytes = 4,
    .cpu = {.fn = work},
    .vk = {.words = rota_spv_bench_loops_work,
           .size_bytes = sizeof rota_spv_bench_loops_work,
           .turns = work_turns},
    .cuda = {ROTA_CUDA_IMAGE_loops_cuda, .entry = ROTA_CUDA_ENTRY_loops_cuda(loops_work)},
};

static rota_status down(const rota_kernel_call *call) {
    --*(uint32_t *)call->operands[0];
    return ROTA_OK;
}
static const rota_kernel k_down = {
    .name = "down",
    .operand_count = 1,
    .cpu = {.fn = down},
    .vk = {.words = rota_spv_bench_loops_down, .size_bytes = sizeof rota_spv_bench_loops_down},
    .cuda = {ROTA_CUDA_IMAGE_loops_cuda, .entry = ROTA_CUDA_ENTRY_loops_cuda(loops_down)},
};

/* What so many steps make of x: each bit of the count is a step that was squared so often. */
static uint32_t expected(uint32_t x, uint64_t steps) {
    uint32_t a = A, c = C;
    for (; steps; steps >>= 1) {
        if (steps & 1) x = x * a + c;
        c = a * c + c;
        a *= a;
    }
    return x;
}

/* In the order in which they are run. */
enum { BASELINE, WHILE, SUBMITTED, WAYS };

typedef struct loops {
    opened_device opened;
    uint32_t first_way;
    uint64_t iterations;
    uint32_t steps;
    rota_buffer *x, *left;
    raw_cuda_loop *raw; /* of a CUDA device */
} loops;

static rota_status record_body(const loops *l, rota_recorder *recorder) {
    const rota_access x = {l->x, 0, 4, ROTA_READWRITE}, left = {l->left, 0, 4, ROTA_READWRITE};
    ROTA_TRY(rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = &k_work, .accesses = &x, .access_count = 1, .params = &l->steps), NULL));
    return rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &k_down, .accesses = &left, .access_count = 1), NULL);
}

static rota_status record_while(const loops *l, rota_graph *graph, rota_recorder *recorder) {
    rota_graph *body = NULL;
    rota_recorder *inner = NULL;
    ROTA_TRY(rota_graph_create_body(graph, "body", &body));
    rota_status status = rota_recorder_open(body, 0, NULL, &inner);
    if (status == ROTA_OK) status = record_body(l, inner);
    rota_recorder_close(inner);
    if (status == ROTA_OK)
        status = rota_record_while(
            recorder, &ROTA_WHILE_NODE(.condition = l->left, .body = body, .iterations_max = l->iterations),
            NULL);
    if (status != ROTA_OK) rota_graph_release(body);
    return status;
}

static rota_status record_one(const loops *l, rota_graph *graph, rota_recorder *recorder) {
    (void)graph;
    return record_body(l, recorder);
}

typedef rota_status (*record_fn)(const loops *l, rota_graph *graph, rota_recorder *recorder);

static rota_status make_plan(const loops *l, record_fn record, rota_plan **out_plan) {
    rota_graph *graph = NULL;
    rota_recorder *recorder = NULL;
    rota_device *device = l->opened.device;
    ROTA_TRY(rota_graph_create(NULL, &graph));
    rota_status status = rota_recorder_open(graph, 0, NULL, &recorder);
    if (status == ROTA_OK) status = record(l, graph, recorder);
    rota_recorder_close(recorder);
    if (status == ROTA_OK)
        status = rota_compile(l->opened.runtime, graph,
                              &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), out_plan);
    rota_graph_release(graph);
    return status;
}

static rota_status replay(rota_plan *plan) {
    rota_ticket ticket;
    ROTA_TRY(rota_submit_wait(plan, NULL, 0, &ticket));
    return rota_wait(ticket, 0);
}

/* As the executor would call them, but one after the other and nothing else. */
static void plain(uint64_t iterations, uint32_t steps, uint32_t *x, uint32_t *left) {
    void *of_work[1] = {x}, *of_down[1] = {left};
    const uint64_t bytes = 4;
    const rota_kernel_call call_work = {of_work, &steps, 0, 1, 1, 1, &bytes, NULL};
    const rota_kernel_call call_down = {of_down, NULL, 0, 1, 1, 1, &bytes, NULL};
    *left = (uint32_t)iterations;
    while (*left) {
        (void)k_work.cpu.fn(&call_work);
        (void)k_down.cpu.fn(&call_down);
    }
}

/* What each way begins with. */
#define START UINT32_C(12345)

static rota_status write_start(const loops *l) {
    const uint32_t x = START, left = (uint32_t)l->iterations;
    ROTA_TRY(rota_buffer_write(l->x, l->opened.device, 0, &x, 4, NULL));
    return rota_buffer_write(l->left, l->opened.device, 0, &left, 4, NULL);
}

static uint32_t steps_in(double us, double ns_of_one) {
    const double steps = us * 1e3 / ns_of_one;
    return steps < 1 ? 1 : steps > 1e9 ? 1000000000u : (uint32_t)steps;
}

/* Steps that take so long. */
static uint32_t steps_of(double us) {
    uint32_t x = 1, left;
    uint64_t begin = rota_clock_ns();
    plain(1, 1u << 24, &x, &left);
    return steps_in(us, (double)(rota_clock_ns() - begin) / (1u << 24));
}

/* The same by a plan of the device: the least of some replays with few steps from that with many. Every device takes as
 * many, and one in software not many more (rota_kernel_vk.turns): there, and where the time is lost in what else took
 * some, they are the most. */
static rota_status steps_on_device(loops *l, double us, uint32_t *out_steps) {
    enum { FEW = 1 << 10, MANY = 1 << 15, REPEAT = 15 };
    double least[2] = {1e30, 1e30};
    ROTA_TRY(write_start(l));
    for (uint32_t i = 0; i < 2; i++) {
        rota_plan *plan = NULL;
        l->steps = i ? MANY : FEW;
        ROTA_TRY(make_plan(l, record_one, &plan));
        rota_status status = ROTA_OK;
        for (uint32_t r = 0; r < REPEAT && status == ROTA_OK; r++) {
            const uint64_t begin = rota_clock_ns();
            status = replay(plan);
            const double took = (double)(rota_clock_ns() - begin);
            if (took < least[i]) least[i] = took;
        }
        rota_plan_release(plan);
        ROTA_TRY(status);
    }
    const double each = (least[1] - least[0]) / (MANY - FEW);
    const bool is_software = rota_device_get_info(l->opened.device)->device_class == ROTA_DEVICE_SOFTWARE_GPU;
    *out_steps = each > 0 ? steps_in(us, each) : MANY;
    if (is_software && *out_steps > MANY) *out_steps = MANY;
    return ROTA_OK;
}

/* One way, once: its time, and whether what it made is right. */
static rota_status run_way(const loops *l, uint32_t way, rota_plan *plan, double *out_us, bool *out_right) {
    uint32_t x = START, left = (uint32_t)l->iterations;
    ROTA_TRY(write_start(l));
    const uint32_t want = expected(x, l->iterations * l->steps);
    if (way == BASELINE && l->raw) {
        *out_right = raw_cuda_loop_run(l->raw, left, &x, out_us) && x == want;
        return ROTA_OK;
    }
    const uint64_t begin = rota_clock_ns();
    if (way == BASELINE) plain(l->iterations, l->steps, &x, &left);
    if (way == WHILE) ROTA_TRY(replay(plan));
    while (way == SUBMITTED && left) {
        ROTA_TRY(replay(plan));
        ROTA_TRY(rota_buffer_read(l->left, 0, &left, 4));
    }
    *out_us = (double)(rota_clock_ns() - begin) / 1e3;
    if (way != BASELINE) ROTA_TRY(rota_buffer_read(l->x, 0, &x, 4));
    *out_right = x == want;
    return ROTA_OK;
}

/* All ways in turn, so often. */
static rota_status run_ways(const loops *l, uint64_t repeat, double *us[WAYS], uint64_t *out_wrong) {
    rota_plan *plans[WAYS] = {NULL};
    rota_status status = make_plan(l, record_while, &plans[WHILE]);
    if (status == ROTA_OK) status = make_plan(l, record_one, &plans[SUBMITTED]);
    for (uint64_t r = 0; r <= repeat && status == ROTA_OK; r++)
        for (uint32_t way = l->first_way; way < WAYS && status == ROTA_OK; way++) {
            double took = 0;
            bool is_right = false;
            status = run_way(l, way, plans[way], &took, &is_right);
            if (status == ROTA_OK) *out_wrong += !is_right;
            if (r) us[way][r - 1] = took; /* the first is to warm up */
        }
    rota_plan_release(plans[WHILE]);
    rota_plan_release(plans[SUBMITTED]);
    return status;
}

/* What the loop is compared with, and how long its body takes. */
static bool open_baseline(loops *l, double body_us) {
    const rota_device_info *info = rota_device_get_info(l->opened.device);
    if (info->kind == ROTA_EXEC_VK) {
        l->first_way = WHILE;
        const rota_status status = steps_on_device(l, body_us, &l->steps);
        if (status != ROTA_OK) (void)fprintf(stderr, "%s: %s\n", program, rota_last_error());
        return status == ROTA_OK;
    }
    if (info->kind != ROTA_EXEC_CUDA) {
        l->steps = steps_of(body_us);
        return true;
    }
    l->raw = raw_cuda_loop_create((uint32_t)strtoul(info->id + sizeof "cuda", NULL, 10));
    l->steps = l->raw ? raw_cuda_loop_steps(l->raw, body_us) : 0;
    return l->steps && raw_cuda_loop_build(l->raw, l->steps);
}

static void report_ways(const loops *l, uint64_t repeat, double *us[WAYS], uint64_t wrong, cJSON *result) {
    const char *const names[WAYS] = {l->raw ? "raw" : "plain", "while", "submitted"};
    cJSON_AddItemToObject(result, "device", report_device(rota_device_get_info(l->opened.device)));
    cJSON_AddNumberToObject(result, "iterations", (double)l->iterations);
    cJSON_AddNumberToObject(result, "steps", (double)l->steps);
    const uint32_t first = l->first_way;
    double medians[WAYS] = {0}, least[WAYS] = {0};
    for (uint32_t way = first; way < WAYS; way++) {
        const sample_stats stats = samples_describe(us[way], repeat);
        medians[way] = stats.median;
        least[way] = stats.least;
        printf("%-10s %10.1f us (%.1f to %.1f), %.3f us an iteration, %.3f of %s\n", names[way], stats.median,
               stats.least, stats.most, stats.median / (double)l->iterations, stats.median / medians[first],
               names[first]);
        cJSON *row = cJSON_AddObjectToObject(result, names[way]);
        cJSON_AddNumberToObject(row, "us", stats.median);
        cJSON_AddNumberToObject(row, "us_min", stats.least);
        cJSON_AddNumberToObject(row, "us_max", stats.most);
    }
    cJSON_AddNumberToObject(result, "wrong", (double)wrong);
    if (first == BASELINE) {
        const double ratio = medians[WHILE] / medians[BASELINE], ratio_least = least[WHILE] / least[BASELINE];
        printf("while beside %s: %.3f by medians, %.3f by the least, which a busy machine disturbs less\n",
               l->raw ? "raw CUDA" : "plain calls", ratio, ratio_least);
        cJSON_AddNumberToObject(result, "ratio", ratio);
        cJSON_AddNumberToObject(result, "ratio_least", ratio_least);
    }
    printf("submitted beside while: %.3f by medians\n", medians[SUBMITTED] / medians[WHILE]);
    printf("%" PRIu64 " wrong of %" PRIu64 "\n", wrong, (WAYS - first) * (repeat + 1));
    cJSON_AddNumberToObject(result, "ratio_submitted", medians[SUBMITTED] / medians[WHILE]);
}

int bench_loops(int argc, char **argv) {
    const char *id = "cpu", *out = NULL;
    uint64_t iterations = 1000, body_us = 10, repeat = 15, wrong = 0;
    const option options[] = {
        OPTION_ROW_DEVICE(id),
        {"--iterations", OPTION_COUNT, &iterations, "N", 1, 1000000, false, "of the loop"},
        {"--body", OPTION_COUNT, &body_us, "US", 0, 100000, false,
         "microseconds that a body takes by itself; 0: as few as it can"},
        {"--repeat", OPTION_COUNT, &repeat, "N", 1, 10000, false, "how often each way is timed, in turn"},
        OPTION_ROW_OUT(out)};
    const option_table table = {program,
                                bench_text(program),
                                "rota-bench loops --iterations 1K --body 10",
                                options,
                                sizeof options / sizeof *options,
                                NULL};
    const option_result parsed = options_parse(&table, argc, argv);
    if (parsed != OPTIONS_OK) return parsed == OPTIONS_HELP ? EXIT_GOOD : EXIT_BAD_ARGUMENT;
    loops l = {.iterations = iterations};
    int code = report_open(program, id, NULL, &l.opened);
    if (code != EXIT_GOOD) return code;
    cJSON *result = report_new();
    double *us[WAYS] = {NULL};
    for (uint32_t way = 0; way < WAYS; way++)
        if (!(us[way] = calloc(repeat, sizeof **us)))
            REPORT_TRY(rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for samples"));
    REPORT_TRY(rota_buffer_create_in(l.opened.runtime, "x", 4, &l.x));
    REPORT_TRY(rota_buffer_create_in(l.opened.runtime, "left", 4, &l.left));
    if (!open_baseline(&l, (double)body_us)) {
        code = EXIT_CHECK_FAILED;
        goto done;
    }
    REPORT_TRY(run_ways(&l, repeat, us, &wrong));
    report_ways(&l, repeat, us, wrong, result);
    if (wrong) code = EXIT_CHECK_FAILED;
done:
    for (uint32_t way = 0; way < WAYS; way++) free(us[way]);
    raw_cuda_loop_destroy(l.raw);
    rota_buffer_release(l.x);
    rota_buffer_release(l.left);
    report_close(&l.opened);
    return report_write(result, out, code);
}
