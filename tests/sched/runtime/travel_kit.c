#include "tests/sched/runtime/travel_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kernels/kernels.h"
#include "tests/kit/random.h"

/* ---- Devices ---- */

const char *const ids[KINDS] = {"cpu", "adversary", "cuda:0", "vk:0"};

static bool start_stub(void) {
#ifdef ROTA_HAVE_CUDA
    if (!test_kernels[0].kernel.cuda.image) return false;
    cuda_stub_start(3, 1);
    for (uint32_t k = 0; k < TEST_KERNEL_COUNT; k++) cuda_stub_kernel(&test_kernels[k].kernel);
    return true;
#else
    return false;
#endif
}

static bool has(uint32_t kind) {
#ifdef __SANITIZE_THREAD__
    if (kind == VK) return false; /* a driver that is not instrumented */
#endif
    return kind != CUDA || start_stub();
}

house *open_house(bool is_linked) {
    house *h = calloc(1, sizeof *h);
    assert_non_null(h);
    h->options.seed = 5;
    h->options.no_host_nodes = true;
    h->options.shares_memory = h->options.timelines = h->options.foreign = is_linked;
    assert_ok(adversary_runtime_open(&h->options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 3,
                                                           .memory_limit_bytes = PLENTY),
                                     &h->runtime));
    for (uint32_t k = 0; k < KINDS; k++)
        if (!has(k) || (k == VK && is_linked))
            continue;
        else if (k == VK)
            (void)rota_device_open(h->runtime, ids[k], &h->devices[k]);
        else
            assert_ok(rota_device_open(h->runtime, ids[k], &h->devices[k]));
    return h;
}

void close_house(house *h) {
    assert_ok(rota_runtime_close(h->runtime, 10000000000u));
    if (h->options.violations) fail_msg("%s", h->options.violation);
    assert_int_equal(h->options.live_memories, 0);
#ifdef ROTA_HAVE_CUDA
    if (h->devices[CUDA]) {
        cuda_stub_end_clean();
    }
#endif
    free(h);
}

/* ---- Nodes ---- */

static _Atomic uint32_t gate_is_open;
_Atomic uint32_t must_fail;

void open_gate(bool open) {
    ra_store_seq_cst(&gate_is_open, open ? 1 : 0);
    rota_futex_wake(&gate_is_open, INT32_MAX);
}

static rota_status source(uint32_t *words, uint64_t bytes, uint32_t bit) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (!ra_load_seq_cst(&gate_is_open) && rota_futex_wait(&gate_is_open, 0, deadline)) {
    }
    if (ra_load_seq_cst(&must_fail) >> bit & 1u) return rota_fail(ROTA_OUT_OF_RANGE, "told to fail");
    for (uint64_t i = 0; i < bytes / 4; i++) words[i] = 7;
    return ROTA_OK;
}
rota_status source_host(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)count;
    return source(operands[0], bytes[0], (uint32_t)(uintptr_t)user);
}
static rota_status source_call(const rota_kernel_call *call) {
    return source(call->operands[0], call->operand_bytes[0], *(const uint32_t *)call->params);
}
static const rota_kernel source_kernel = {
    .name = "source", .operand_count = 1, .param_bytes = 4, .cpu = {.fn = source_call}};

static const char *const source_names[] = {"host node", "CPU's kernel", "adversary's kernel"};

uint32_t mapped(uint32_t value, uint32_t i) {
    return test_mix(value, i + SEED);
}

rota_buffer *filled(rota_device *device, const char *name, uint32_t value) {
    return test_words(device, name, WORDS, value);
}

void sketch_open(sketch *s) {
    memset(s, 0, sizeof *s);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "travel"), &s->graph));
    assert_ok(rota_recorder_open(s->graph, 0, NULL, &s->recorder));
}

uint32_t number_of(sketch *s, rota_device *device) {
    for (uint32_t d = 0; d < s->device_count; d++)
        if (s->devices[d] == device) return d + 1;
    s->devices[s->device_count++] = device;
    return s->device_count;
}

void add_source_to(sketch *s, const house *h, source_kind kind, rota_access access, uint32_t bit) {
    if (kind == HOST_NODE) {
        rota_host_node node = ROTA_HOST_NODE(source_host, (void *)(uintptr_t)bit, "source", &access, 1);
        assert_ok(rota_record_host(s->recorder, &node, NULL));
        return;
    }
    rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &source_kernel, .accesses = &access, .access_count = 1, .params = &bit,
                         .placement = {.device_plus_1 =
                                           number_of(s, h->devices[kind == CPU_KERNEL ? CPU : ADVERSARY])});
    assert_ok(rota_record_kernel(s->recorder, &node, NULL));
}

void add_source(sketch *s, const house *h, source_kind kind, rota_buffer *x) {
    add_source_to(s, h, kind, (rota_access){x, 0, ROTA_WHOLE, ROTA_WRITE}, 0);
}

void add_map_of(sketch *s, rota_placement placement, rota_access from, rota_access to, uint32_t words) {
    rota_access accesses[] = {from, to};
    test_params params = {.n = words, .m = words, .seed = SEED};
    rota_param_binding binding = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel, .accesses = accesses,
                         .access_count = 2, .params = &params, .bindings = &binding, .binding_count = 1,
                         .placement = placement);
    assert_ok(rota_record_kernel(s->recorder, &node, NULL));
}

void add_map(sketch *s, rota_device *device, rota_buffer *from, rota_buffer *to) {
    add_map_of(s, (rota_placement){.device_plus_1 = number_of(s, device)},
               (rota_access){from, 0, ROTA_WHOLE, ROTA_READ}, (rota_access){to, 0, ROTA_WHOLE, ROTA_WRITE},
               WORDS);
}

rota_plan *sketch_compile(sketch *s, const house *h, const char *name) {
    rota_plan *plan;
    rota_recorder_close(s->recorder);
    if (s->device_count == 0) (void)number_of(s, h->devices[CPU]);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.name = name, .devices = s->devices,
                                                        .device_count = s->device_count, .queues = s->queues);
    assert_ok(rota_compile(h->runtime, s->graph, &options, &plan));
    rota_graph_release(s->graph);
    return plan;
}

rota_plan *source_plan(const house *h, source_kind kind, rota_buffer *x) {
    sketch s;
    sketch_open(&s);
    add_source(&s, h, kind, x);
    return sketch_compile(&s, h, "source");
}

rota_plan *map_plan(const house *h, rota_device *device, rota_buffer *from, rota_buffer *to) {
    sketch s;
    sketch_open(&s);
    add_map(&s, device, from, to);
    return sketch_compile(&s, h, "map");
}

/* ---- What is wanted ---- */

void release_all(rota_external_timeline *timeline, rota_plan *const *plans, rota_buffer *const *buffers) {
    rota_external_timeline_release(timeline);
    for (; *plans; plans++) rota_plan_release(*plans);
    for (; *buffers; buffers++) rota_buffer_release(*buffers);
}

void expect_untouched(const uint32_t *words, uint32_t count, const char *when) {
    for (uint32_t i = 0; i < count; i++)
        if (words[i] != 0xeeeeeeee) fail_msg("%s: word %u of what failed is %u", when, i, words[i]);
}

void expect_failed(rota_buffer *buffer, const char *when) {
    uint32_t words[WORDS];
    memset(words, 0xee, sizeof words);
    rota_status status = rota_buffer_read(buffer, 0, words, sizeof words);
    expect_untouched(words, WORDS, when);
    if (status != ROTA_NODE_FAILED)
        fail_msg("%s: reading '%s' gives %s", when, rota_buffer_name(buffer), rota_status_name(status));
    if (!strstr(rota_last_error(), "node 'source' failed with OUT_OF_RANGE: told to fail"))
        fail_msg("%s: not the first cause: %s", when, rota_last_error());
}

void expect_ticket(rota_ticket ticket, bool failed, const char *when) {
    rota_status status = rota_wait(ticket, 0);
    if (status != (failed ? ROTA_NODE_FAILED : ROTA_OK))
        fail_msg("%s: a ticket is %s: %s", when, rota_status_name(status), rota_last_error());
    if (failed && !strstr(rota_last_error(), "told to fail"))
        fail_msg("%s: not the first cause: %s", when, rota_last_error());
}

void expect_mapped(rota_buffer *buffer, uint32_t begin, uint32_t times, const char *when) {
    uint32_t words[WORDS];
    rota_status status = rota_buffer_read(buffer, 0, words, sizeof words);
    if (status != ROTA_OK)
        fail_msg("%s: reading '%s': %s", when, rota_buffer_name(buffer), rota_last_error());
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t value = begin;
        for (uint32_t t = 0; t < times; t++) value = mapped(value, i);
        if (words[i] != value)
            fail_msg("%s: word %u of '%s' is %u, expected %u", when, i, rota_buffer_name(buffer), words[i],
                     value);
    }
}

chain chain_make(const house *h) {
    chain c = {test_words(h->devices[CPU], "x", WORDS, 1), test_words(h->devices[CPU], "y", WORDS, 2),
               test_words(h->devices[CPU], "z", WORDS, 3), test_words(h->devices[CPU], "a", WORDS, 4),
               test_words(h->devices[CPU], "b", WORDS, 5)};
    return c;
}

void chain_release(chain *c) {
    rota_buffer *buffers[] = {c->x, c->y, c->z, c->a, c->b};
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(buffers[i]);
}

void describe(char *text, size_t size, const char *what, source_kind kind, uint32_t first, uint32_t second) {
    (void)snprintf(text, size, "%s: %s, then %s, then %s", what, source_names[kind], ids[first], ids[second]);
}
