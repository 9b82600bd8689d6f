/* Counted nodes: a kernel that every executor has, and functions on those that have them. */
#include "graph/counted.h"
#include "tests/conformance/conformance.h"
#include "tests/kernels/kernels.h"

enum { N = 40000, HALF = N / 2, OLD = 7 };

typedef struct counting {
    rota_buffer *found, *kept, *copied, *input; /* of words: how many, those, a copy of them, of what */
} counting;

/* found[0]: how many words of the input are even; kept: those, one after the other. */
static rota_status keep_even(const rota_kernel_call *call) {
    uint32_t *found = call->operands[0], *kept = call->operands[1], count = 0;
    const uint32_t *input = call->operands[2];
    for (uint32_t i = 0; i < N; i++)
        if (input[i] % 2 == 0) kept[count++] = input[i];
    found[0] = count;
    return ROTA_OK;
}
static const rota_kernel k_keep_even = {.name = "keep even", .operand_count = 3, .cpu = {.fn = keep_even}};

/* x[i] = x[i] * 2 + items */
static rota_status stretch(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) x[i] = x[i] * 2 + (uint32_t)call->items;
    return ROTA_OK;
}
static void word_items(const void *params, const uint64_t *operand_bytes, uint64_t *items, uint64_t *grain) {
    (void)params;
    *items = operand_bytes[0] / 4;
    *grain = 1024;
}
static const rota_kernel k_stretch = {
    .name = "stretch", .operand_count = 1, .cpu = {.fn = stretch, .items = word_items}};

/* The count is copied from `found`; so many words of `kept` are made of the input, by a kernel that each executor has;
 * and copied. */
static bool record_map(conf *c, conf_graph *graph, const counting *b) {
    rota_buffer *count;
    const test_params params = {.n = N, .p = 3};
    const rota_param_binding seed = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    const rota_access maps[] = {{b->input, 0, ROTA_WHOLE, ROTA_READ}, {b->kept, 0, ROTA_WHOLE, ROTA_WRITE}};
    CONF_TRY(conf_graph_begin(c, graph));
    CONF_OK(c, rota_recorder_buffer(graph->recorder, ROTA_BUFFER_TRANSIENT, "count", 4, &count));
    CONF_OK(c, rota_record_copy(graph->recorder, count, 0, b->found, 0, 4, NULL));
    CONF_OK(
        c, rota_record_counted_kernel(
               graph->recorder,
               &ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel, .accesses = maps,
                                 .access_count = 2, .params = &params, .bindings = &seed, .binding_count = 1),
               &ROTA_COUNT(.buffer = count, .max = HALF, .items_per_group = TEST_ITEMS_PER_GROUP,
                           .bindable_plus_1 = TEST_BIND_COUNT + 1),
               NULL));
    CONF_OK(c, rota_record_counted_copy(graph->recorder, b->copied, 0, b->kept, 0,
                                        &ROTA_COUNT(.buffer = count, .max = HALF, .unit_bytes = 4), NULL));
    return true;
}

/* Once, on that input, and where the results go OLD; how its ticket ended. */
static bool replay(conf *c, const counting *b, rota_device *device, rota_plan *plan, const uint32_t *input,
                   rota_status *out_status) {
    static uint32_t old[N];
    for (uint32_t i = 0; i < N; i++) old[i] = OLD;
    CONF_OK(c, rota_buffer_write(b->input, device, 0, input, sizeof old, NULL));
    CONF_OK(c, rota_buffer_write(b->kept, device, 0, old, sizeof old, NULL));
    CONF_OK(c, rota_buffer_write(b->copied, device, 0, old, sizeof old, NULL));
    rota_ticket ticket;
    CONF_OK(c, rota_submit(plan, NULL, &ticket));
    *out_status = rota_wait(ticket, 0);
    return true;
}

static bool run_map(conf *c, const counting *b, rota_device *device, rota_plan *plan, uint32_t count) {
    static uint32_t input[N], kept[N], copied[N];
    for (uint32_t i = 0; i < N; i++) input[i] = i * 5;
    CONF_OK(c, rota_buffer_write(b->found, device, 0, &count, sizeof count, NULL));
    rota_status status;
    CONF_TRY(replay(c, b, device, plan, input, &status));
    if (count > HALF) {
        CONF_CHECK(c, status == ROTA_NODE_FAILED, "an excess gave %s", rota_status_name(status));
        CONF_CHECK(c, strstr(rota_last_error(), "its count is 20001, the most it may be is 20000"),
                   "the sentence names not value and maximum: %s", rota_last_error());
        CONF_CHECK(c, rota_buffer_read(b->copied, 0, copied, sizeof copied) == ROTA_NODE_FAILED,
                   "what comes after the failed node is well");
        return true;
    }
    CONF_CHECK(c, status == ROTA_OK, "%s: %s", rota_status_name(status), rota_last_error());
    CONF_OK(c, rota_buffer_read(b->kept, 0, kept, sizeof kept));
    CONF_OK(c, rota_buffer_read(b->copied, 0, copied, sizeof copied));
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t want = i < count ? test_mix(input[i] + 3, i) : OLD;
        CONF_CHECK(c, kept[i] == want && copied[i] == want,
                   "of %u counted, word %u is %u, and its copy %u, expected %u", count, i, kept[i], copied[i],
                   want);
    }
    return true;
}

/* None, some, groups filled and not, too many, and well again. */
static bool run_maps(conf *c, const counting *b, rota_device *device) {
    static const uint32_t counts[] = {0, 1, 63, 64, 65, HALF + 1, HALF, 7777, HALF + 1, 2};
    conf_graph graph;
    rota_plan *plan = NULL;
    CONF_TRY(record_map(c, &graph, b));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++)
        CONF_TRY(run_map(c, b, device, plan, counts[i]));
    rota_plan_release(plan);
    return true;
}

/* keep even; stretch what was kept; copy it: none of the last two knows how much before the first has run. */
static bool record(conf *c, conf_graph *graph, const counting *b) {
    CONF_TRY(conf_graph_begin(c, graph));
    const rota_access keeps[] = {{b->found, 0, 4, ROTA_WRITE},
                                 {b->kept, 0, ROTA_WHOLE, ROTA_READWRITE},
                                 {b->input, 0, ROTA_WHOLE, ROTA_READ}};
    CONF_OK(c, rota_record_kernel(
                   graph->recorder,
                   &ROTA_KERNEL_NODE(.kernel = &k_keep_even, .accesses = keeps, .access_count = 3), NULL));
    const rota_access stretched = {b->kept, 0, ROTA_WHOLE, ROTA_READWRITE};
    CONF_OK(c, rota_record_counted_kernel(
                   graph->recorder,
                   &ROTA_KERNEL_NODE(.kernel = &k_stretch, .accesses = &stretched, .access_count = 1),
                   &ROTA_COUNT(.buffer = b->found, .max = HALF), NULL));
    CONF_OK(c, rota_record_counted_copy(graph->recorder, b->copied, 0, b->kept, 0,
                                        &ROTA_COUNT(.buffer = b->found, .max = HALF, .unit_bytes = 4), NULL));
    return true;
}

/* The first of each `every` words of the input is even, and the rest odd. */
static bool run(conf *c, const counting *b, rota_device *device, rota_plan *plan, uint32_t every) {
    static uint32_t input[N], kept[N], copied[N];
    for (uint32_t i = 0; i < N; i++) input[i] = i * 2 + (every == 0 || i % every != 0);
    rota_status status;
    CONF_TRY(replay(c, b, device, plan, input, &status));
    if (every == 1) { /* twice as many as there may be */
        CONF_CHECK(c, status == ROTA_NODE_FAILED, "an excess gave %s", rota_status_name(status));
        CONF_CHECK(c,
                   strstr(rota_last_error(), "'stretch'") && strstr(rota_last_error(), "40000") &&
                       strstr(rota_last_error(), "20000"),
                   "the sentence names not node, value and maximum: %s", rota_last_error());
        return true;
    }
    CONF_CHECK(c, status == ROTA_OK, "%s: %s", rota_status_name(status), rota_last_error());
    const uint32_t count = every ? (N + every - 1) / every : 0;
    CONF_OK(c, rota_buffer_read(b->kept, 0, kept, sizeof kept));
    CONF_OK(c, rota_buffer_read(b->copied, 0, copied, sizeof copied));
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t want = i < count ? i * every * 4 + count : OLD;
        CONF_CHECK(c, kept[i] == want && copied[i] == want,
                   "of %u counted, word %u is %u, and its copy %u, expected %u", count, i, kept[i], copied[i],
                   want);
    }
    return true;
}

bool conf_counted(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    counting b;
    conf_graph graph;
    rota_plan *plan = NULL;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    CONF_OK(c, rota_buffer_create_in(runtime, "found", 4, &b.found));
    CONF_OK(c, rota_buffer_create_in(runtime, "kept", (uint64_t)N * 4, &b.kept));
    CONF_OK(c, rota_buffer_create_in(runtime, "copied", (uint64_t)N * 4, &b.copied));
    CONF_OK(c, rota_buffer_create_in(runtime, "input", (uint64_t)N * 4, &b.input));
    const bool has_functions = conf_is(c, "cpu") || conf_is(c, "adversary");
    CONF_TRY(run_maps(c, &b, device));
    if (has_functions) {
        CONF_TRY(record(c, &graph, &b));
        CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
        for (uint32_t every = 0; every < 6; every++) CONF_TRY(run(c, &b, device, plan, every));
    }
    rota_buffer_release(b.found);
    rota_buffer_release(b.kept);
    rota_buffer_release(b.copied);
    rota_buffer_release(b.input);
    return conf_end(c, runtime, plan, NULL, 0);
}
