/* P9 between devices: a failure reaches what depends on it on every other executor, in the submission that
 * has it and in later ones, also where what depends was handed over before; and nothing else. The CPU, the
 * adversary, the CUDA executor over the stand-in for its driver, and Vulkan. */
#include "tests/adversary/adversary.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/kernels/kernels.h"
#include "tests/kit/nap.h"
#include "tests/kit/random.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/sequenced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/runtime.h"

#define WORDS 256u
#define SEED 5u
/* Of memory: a limit all the same, so that what transfers are promised is counted from the beginning. */
#define PLENTY ((uint64_t)1 << 40)

/* ---- Devices ---- */

enum { CPU, ADVERSARY, CUDA, VK, KINDS };
static const char *const ids[KINDS] = {"cpu", "adversary", "cuda:0", "vk:0"};

typedef struct house {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *devices[KINDS]; /* NULL: there is none in this build or on this machine */
} house;

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

static house *open_house(bool is_linked) {
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

static void close_house(house *h) {
    assert_ok(rota_runtime_close(h->runtime, 10000000000u));
    if (h->options.violations) fail_msg("%s", h->options.violation);
    assert_int_equal(h->options.live_memories, 0);
#ifdef ROTA_HAVE_CUDA
    if (h->devices[CUDA]) {
        char text[256];
        if (cuda_stub_violations(text, sizeof text)) fail_msg("violated: %s", text);
        if (cuda_stub_alive(text, sizeof text)) fail_msg("left in the driver: %s", text);
        cuda_stub_stop();
    }
#endif
    free(h);
}

/* ---- Nodes ---- */

/* What fails, or writes 7 to its operand: not before the gate is open. */
static _Atomic uint32_t gate_is_open, must_fail;

static void open_gate(bool open) {
    ra_store_seq_cst(&gate_is_open, open ? 1 : 0);
    rota_futex_wake(&gate_is_open, INT32_MAX);
}

/* In the random graphs each source has a bit of its own, which is its user pointer or parameter. */
static rota_status source(uint32_t *words, uint64_t bytes, uint32_t bit) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (!ra_load_seq_cst(&gate_is_open) && rota_futex_wait(&gate_is_open, 0, deadline)) {
    }
    if (ra_load_seq_cst(&must_fail) >> bit & 1u) return rota_fail(ROTA_OUT_OF_RANGE, "told to fail");
    for (uint64_t i = 0; i < bytes / 4; i++) words[i] = 7;
    return ROTA_OK;
}
static rota_status source_host(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)count;
    return source(operands[0], bytes[0], (uint32_t)(uintptr_t)user);
}
static rota_status source_call(const rota_kernel_call *call) {
    return source(call->operands[0], call->operand_bytes[0], *(const uint32_t *)call->params);
}
static const rota_kernel source_kernel = {
    .name = "source", .operand_count = 1, .param_bytes = 4, .cpu = {.fn = source_call}};

typedef enum source_kind { HOST_NODE, CPU_KERNEL, ADVERSARY_KERNEL, SOURCES } source_kind;
static const char *const source_names[] = {"host node", "CPU's kernel", "adversary's kernel"};

static uint32_t mapped(uint32_t value, uint32_t i) {
    return test_mix(value, i + SEED);
}

typedef struct sketch {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_device *devices[KINDS + 2];
    uint32_t device_count, queues;
} sketch;

static void sketch_open(sketch *s) {
    memset(s, 0, sizeof *s);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "travel"), &s->graph));
    assert_ok(rota_recorder_open(s->graph, 0, NULL, &s->recorder));
}

static uint32_t number_of(sketch *s, rota_device *device) {
    for (uint32_t d = 0; d < s->device_count; d++)
        if (s->devices[d] == device) return d + 1;
    s->devices[s->device_count++] = device;
    return s->device_count;
}

static void add_source_to(sketch *s, const house *h, source_kind kind, rota_access access, uint32_t bit) {
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

static void add_source(sketch *s, const house *h, source_kind kind, rota_buffer *x) {
    add_source_to(s, h, kind, (rota_access){x, 0, ROTA_WHOLE, ROTA_WRITE}, 0);
}

/* to[i] = mapped(from[i], i), for so many words */
static void add_map_of(sketch *s, rota_placement placement, rota_access from, rota_access to,
                       uint32_t words) {
    rota_access accesses[] = {from, to};
    test_params params = {.n = words, .m = words, .seed = SEED};
    rota_param_binding binding = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel, .accesses = accesses,
                         .access_count = 2, .params = &params, .bindings = &binding, .binding_count = 1,
                         .placement = placement);
    assert_ok(rota_record_kernel(s->recorder, &node, NULL));
}

static void add_map(sketch *s, rota_device *device, rota_buffer *from, rota_buffer *to) {
    add_map_of(s, (rota_placement){.device_plus_1 = number_of(s, device)},
               (rota_access){from, 0, ROTA_WHOLE, ROTA_READ}, (rota_access){to, 0, ROTA_WHOLE, ROTA_WRITE},
               WORDS);
}

static rota_plan *sketch_compile(sketch *s, const house *h, const char *name) {
    rota_plan *plan;
    rota_recorder_close(s->recorder);
    if (s->device_count == 0) (void)number_of(s, h->devices[CPU]);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.name = name, .devices = s->devices,
                                                        .device_count = s->device_count, .queues = s->queues);
    assert_ok(rota_compile(h->runtime, s->graph, &options, &plan));
    rota_graph_release(s->graph);
    return plan;
}

static rota_plan *source_plan(const house *h, source_kind kind, rota_buffer *x) {
    sketch s;
    sketch_open(&s);
    add_source(&s, h, kind, x);
    return sketch_compile(&s, h, "source");
}

static rota_plan *map_plan(const house *h, rota_device *device, rota_buffer *from, rota_buffer *to) {
    sketch s;
    sketch_open(&s);
    add_map(&s, device, from, to);
    return sketch_compile(&s, h, "map");
}

/* ---- What is wanted ---- */

static void expect_untouched(const uint32_t *words, uint32_t count, const char *when) {
    for (uint32_t i = 0; i < count; i++)
        if (words[i] != 0xeeeeeeee) fail_msg("%s: word %u of what failed is %u", when, i, words[i]);
}

static void expect_failed(rota_buffer *buffer, const char *when) {
    uint32_t words[WORDS];
    memset(words, 0xee, sizeof words);
    rota_status status = rota_buffer_read(buffer, 0, words, sizeof words);
    expect_untouched(words, WORDS, when);
    if (status != ROTA_NODE_FAILED)
        fail_msg("%s: reading '%s' gives %s", when, rota_buffer_name(buffer), rota_status_name(status));
    if (!strstr(rota_last_error(), "node 'source' failed with OUT_OF_RANGE: told to fail"))
        fail_msg("%s: not the first cause: %s", when, rota_last_error());
}

static void expect_ticket(rota_ticket ticket, bool failed, const char *when) {
    rota_status status = rota_wait(ticket, 0);
    if (status != (failed ? ROTA_NODE_FAILED : ROTA_OK))
        fail_msg("%s: a ticket is %s: %s", when, rota_status_name(status), rota_last_error());
    if (failed && !strstr(rota_last_error(), "told to fail"))
        fail_msg("%s: not the first cause: %s", when, rota_last_error());
}

/* `begin`, mapped so many times. */
static void expect_mapped(rota_buffer *buffer, uint32_t begin, uint32_t times, const char *when) {
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

typedef struct chain {
    rota_buffer *x, *y, *z, *a, *b;
} chain;

static chain chain_make(const house *h) {
    chain c = {test_words(h->devices[CPU], "x", WORDS, 1), test_words(h->devices[CPU], "y", WORDS, 2),
               test_words(h->devices[CPU], "z", WORDS, 3), test_words(h->devices[CPU], "a", WORDS, 4),
               test_words(h->devices[CPU], "b", WORDS, 5)};
    return c;
}

static void chain_release(chain *c) {
    rota_buffer *buffers[] = {c->x, c->y, c->z, c->a, c->b};
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(buffers[i]);
}

static void describe(char *text, size_t size, const char *what, source_kind kind, uint32_t first,
                     uint32_t second) {
    (void)snprintf(text, size, "%s: %s, then %s, then %s", what, source_names[kind], ids[first], ids[second]);
}

/* ---- One submission ---- */

/* The source writes x (of the plan's own memory: t), the first device makes y of it, the second z of that. */
static void one_submission(const house *h, source_kind kind, uint32_t first, uint32_t second,
                           bool transient) {
    char when[128];
    describe(when, sizeof when, transient ? "transient" : "one submission", kind, first, second);
    chain c = chain_make(h);
    rota_buffer *x = c.x, *y = c.y;
    sketch s;
    sketch_open(&s);
    if (transient) {
        assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_TRANSIENT, "t", WORDS * 4, &x));
        assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_TRANSIENT, "u", WORDS * 4, &y));
    }
    add_source(&s, h, kind, x);
    add_map(&s, h->devices[first], x, y);
    add_map(&s, h->devices[second], y, c.z);
    rota_plan *plan = sketch_compile(&s, h, "one");
    rota_plan *alone = map_plan(h, h->devices[first], c.a, c.b);
    for (uint32_t round = 0; round < 2; round++) {
        rota_ticket ticket, alone_ticket;
        ra_store_seq_cst(&must_fail, 1);
        open_gate(false);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_submit_wait(alone, NULL, 0, &alone_ticket));
        open_gate(true);
        expect_ticket(ticket, true, when);
        expect_ticket(alone_ticket, false, when);
        expect_mapped(c.b, 4, 1, when);
        if (!transient) {
            expect_failed(x, when);
            expect_failed(y, when);
        }
        expect_failed(c.z, when);
        ra_store_seq_cst(&must_fail, 0);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        expect_ticket(ticket, false, when);
        expect_mapped(c.z, 7, 2, when);
    }
    rota_plan_release(plan);
    rota_plan_release(alone);
    chain_release(&c);
}

/* Calls fn for each source and each two devices after it. */
static void for_all(void (*fn)(const house *h, source_kind kind, uint32_t first, uint32_t second)) {
    house *h = open_house(false);
    for (uint32_t kind = 0; kind < SOURCES; kind++)
        for (uint32_t first = 0; first < KINDS; first++)
            for (uint32_t second = 0; second < KINDS; second++)
                if (h->devices[first] && h->devices[second]) fn(h, (source_kind)kind, first, second);
    close_house(h);
}

static void in_one_submission(const house *h, source_kind kind, uint32_t first, uint32_t second) {
    one_submission(h, kind, first, second, false);
    one_submission(h, kind, first, second, true);
}
static void failures_cross_devices_in_a_submission(void **state) {
    (void)state;
    for_all(in_one_submission);
}

/* ---- Several submissions ---- */

static void across_submissions(const house *h, source_kind kind, uint32_t first, uint32_t second) {
    char when[128];
    describe(when, sizeof when, "submissions", kind, first, second);
    chain c = chain_make(h);
    rota_plan *plans[] = {source_plan(h, kind, c.x), map_plan(h, h->devices[first], c.x, c.y),
                          map_plan(h, h->devices[second], c.y, c.z),
                          map_plan(h, h->devices[first], c.a, c.b)};
    rota_ticket tickets[4];
    /* Written: a CPU device of one thread would do that after the source. */
    expect_mapped(c.a, 4, 0, when);
    expect_mapped(c.b, 5, 0, when);
    for (uint32_t round = 0; round < 2; round++) {
        ra_store_seq_cst(&must_fail, 1);
        open_gate(false);
        for (uint32_t p = 0; p < 4; p++) assert_ok(rota_submit_wait(plans[p], NULL, 0, &tickets[p]));
        /* It passes what is held for the source, which is judged when it goes over. */
        if (first != (kind == ADVERSARY_KERNEL ? ADVERSARY : CPU)) expect_ticket(tickets[3], false, when);
        open_gate(true);
        for (uint32_t p = 0; p < 4; p++) expect_ticket(tickets[p], p < 3, when);
        expect_failed(c.x, when);
        expect_failed(c.y, when);
        expect_failed(c.z, when);
        expect_mapped(c.b, 4, 1, when);
        /* Again, all of it noted before. */
        assert_ok(rota_submit_wait(plans[2], NULL, 0, &tickets[2]));
        expect_ticket(tickets[2], true, when);
        ra_store_seq_cst(&must_fail, 0);
        for (uint32_t p = 0; p < 4; p++) assert_ok(rota_submit_wait(plans[p], NULL, 0, &tickets[p]));
        for (uint32_t p = 0; p < 4; p++) expect_ticket(tickets[p], false, when);
        expect_mapped(c.z, 7, 2, when);
    }
    for (uint32_t p = 0; p < 4; p++) rota_plan_release(plans[p]);
    chain_release(&c);
}

static void failures_cross_devices_between_submissions(void **state) {
    (void)state;
    for_all(across_submissions);
}

/* ---- Copies out ---- */

enum { FROM_MAPPED, FROM_SOURCE, HALF_AND_HALF, OUTS };

/* y is what the first device makes of the source's x. OUTPUTs: what the second makes of y; a copy of x by the
 * second; and the first quarter of y, with the rest from a, which is good, on the second. */
static void copied_out(const house *h, source_kind kind, uint32_t first, uint32_t second, bool across) {
    char when[128];
    describe(when, sizeof when, across ? "out, across" : "out", kind, first, second);
    chain c = chain_make(h);
    rota_buffer *outs[OUTS];
    sketch s;
    sketch_open(&s);
    for (uint32_t o = 0; o < OUTS; o++)
        assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &outs[o]));
    if (!across) add_source(&s, h, kind, c.x);
    add_map(&s, h->devices[first], c.x, c.y);
    add_map(&s, h->devices[second], c.y, outs[FROM_MAPPED]);
    const rota_placement on_first = {.device_plus_1 = number_of(&s, h->devices[first])},
                         on_second = {.device_plus_1 = number_of(&s, h->devices[second])};
    add_map_of(&s, on_second, (rota_access){c.x, 0, ROTA_WHOLE, ROTA_READ},
               (rota_access){outs[FROM_SOURCE], 0, ROTA_WHOLE, ROTA_WRITE}, WORDS);
    add_map_of(&s, on_first, (rota_access){c.y, 0, WORDS, ROTA_READ},
               (rota_access){outs[HALF_AND_HALF], 0, WORDS, ROTA_WRITE}, WORDS / 4);
    add_map_of(&s, on_second, (rota_access){c.a, WORDS, WORDS * 3, ROTA_READ},
               (rota_access){outs[HALF_AND_HALF], WORDS, WORDS * 3, ROTA_WRITE}, WORDS * 3 / 4);
    rota_plan *plan = sketch_compile(&s, h, "out"), *before = across ? source_plan(h, kind, c.x) : NULL;
    rota_args *args;
    static uint32_t words[OUTS][WORDS], read[WORDS];
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t o = 0; o < OUTS; o++)
        assert_ok(rota_args_set_output(args, outs[o], words[o], sizeof words[o]));
    for (uint32_t round = 0; round < 4; round++) {
        const bool fails = round % 2 == 0;
        rota_ticket tickets[2];
        memset(words, 0xee, sizeof words);
        memset(read, 0xee, sizeof read);
        ra_store_seq_cst(&must_fail, fails);
        open_gate(false);
        if (across) assert_ok(rota_submit_wait(before, NULL, 0, NULL));
        assert_ok(rota_submit_wait(plan, args, 0, &tickets[0]));
        assert_ok(rota_buffer_read_async(c.y, 0, read, sizeof read, &tickets[1]));
        if (round > 1 && across) { /* all that it reads has failed when it is sequenced, too */
            open_gate(true);
            (void)rota_wait(tickets[1], 0);
            assert_ok(rota_submit_wait(plan, args, 0, &tickets[0]));
        }
        open_gate(true);
        for (uint32_t t = 0; t < 2; t++) expect_ticket(tickets[t], fails, when);
        for (uint32_t o = 0; o < OUTS && fails; o++) expect_untouched(words[o], WORDS, when);
        if (fails) {
            expect_untouched(read, WORDS, when);
            continue;
        }
        for (uint32_t i = 0; i < WORDS; i++) {
            const uint32_t y = mapped(7, i), half = i < WORDS / 4 ? mapped(y, i) : mapped(4, i - WORDS / 4);
            if (read[i] != y || words[FROM_MAPPED][i] != mapped(y, i) || words[FROM_SOURCE][i] != y ||
                words[HALF_AND_HALF][i] != half)
                fail_msg("%s: word %u is %u, %u, %u and %u", when, i, read[i], words[0][i], words[1][i],
                         words[2][i]);
        }
    }
    rota_args_release(args);
    rota_plan_release(plan);
    rota_plan_release(before);
    chain_release(&c);
}

static void copied_out_both_ways(const house *h, source_kind kind, uint32_t first, uint32_t second) {
    copied_out(h, kind, first, second, false);
    copied_out(h, kind, first, second, true);
}
static void what_failed_is_not_copied_out(void **state) {
    (void)state;
    for_all(copied_out_both_ways);
    house *h = open_house(true); /* they wait for each other on the device */
    for (uint32_t kind = CPU_KERNEL; kind < SOURCES && h->devices[CUDA]; kind++) {
        copied_out_both_ways(h, (source_kind)kind, ADVERSARY, CUDA);
        copied_out_both_ways(h, (source_kind)kind, CUDA, ADVERSARY);
    }
    close_house(h);
}

/* ---- A work that its device cannot be given ---- */

/* Nobody makes an instance on the device; who had asked for one may know before its builder has left it. */
static void expect_builder_at_rest(const rota_device *device) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (ra_load_acquire(&device->building.done_count) != ra_load_relaxed(&device->building.asked_count) &&
           rota_clock_ns() < deadline)
        rota_nap_until(rota_deadline_after(100000));
    assert_int_equal(ra_load_acquire(&device->building.done_count),
                     ra_load_relaxed(&device->building.asked_count));
}

/* All memory under the limit is in use from here on: nothing new is to be had. */
static void take_memory(rota_runtime *runtime) {
    (void)ra_fetch_add_relaxed(&runtime->budget.memory_bytes, PLENTY);
}
static void give_memory(rota_runtime *runtime) {
    (void)ra_fetch_sub_acq_rel(&runtime->budget.memory_bytes, PLENTY);
}

/* The replay needs an instance that there is no memory for, which is found when it is handed over. */
static void without_an_instance(house *h, uint32_t device, uint32_t second) {
    char when[128];
    (void)snprintf(when, sizeof when, "no instance on %s, then %s", ids[device], ids[second]);
    chain c = chain_make(h);
    uint32_t input[WORDS], words[WORDS];
    rota_buffer *in;
    rota_args *args;
    for (uint32_t i = 0; i < WORDS; i++) input[i] = 8;
    sketch s;
    sketch_open(&s);
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_INPUT, "in", sizeof input, &in));
    add_map(&s, h->devices[device], in, c.x);
    rota_plan *gate = source_plan(h, CPU_KERNEL, c.x), *plan = sketch_compile(&s, h, "taking"),
              *after = map_plan(h, h->devices[second], c.x, c.y);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, input, sizeof input, false));
    rota_ticket tickets[3];
    ra_store_seq_cst(&must_fail, 0);
    open_gate(true);
    /* What else needs memory has it after this. */
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[1]));
    assert_ok(rota_submit_wait(after, NULL, 0, &tickets[0]));
    expect_ticket(tickets[0], false, when);
    expect_ticket(tickets[1], false, when); /* its instance is seen to be free */
    expect_mapped(c.y, 8, 2, when);
    expect_mapped(c.x, 8, 1, when);
    expect_builder_at_rest(
        h->devices[device]); /* else a replay would rather come after one that has an instance */
    open_gate(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[0])); /* the only instance is taken from here on */
    take_memory(h->runtime);
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[1]));
    assert_ok(rota_submit_wait(after, NULL, 0, &tickets[2]));
    test_sequenced(tickets[2]); /* ticket 1 is, before the instance is free again */
    open_gate(true);
    expect_ticket(tickets[0], false, when);
    for (uint32_t t = 1; t < 3; t++) {
        rota_status status = rota_wait(tickets[t], 0);
        if (status != ROTA_OUT_OF_MEMORY) fail_msg("%s: ticket %u is %s", when, t, rota_status_name(status));
        assert_non_null(strstr(rota_last_error(), "of the memory limit of"));
    }
    give_memory(h->runtime);
    assert_status(rota_buffer_read(c.x, 0, words, sizeof words), ROTA_OUT_OF_MEMORY);
    assert_status(rota_buffer_read(c.y, 0, words, sizeof words), ROTA_OUT_OF_MEMORY);
    assert_ok(rota_submit_wait(plan, args, 0, NULL));
    assert_ok(rota_submit_wait(after, NULL, 0, NULL));
    expect_mapped(c.y, 8, 2, when);
    rota_args_release(args);
    rota_plan_release(gate);
    rota_plan_release(plan);
    rota_plan_release(after);
    chain_release(&c);
}

static void what_cannot_be_handed_over_fails_what_follows(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t device = ADVERSARY; device < KINDS; device++)
        for (uint32_t second = 0; second < KINDS; second++)
            if (h->devices[device] && h->devices[second]) without_an_instance(h, device, second);
    close_house(h);
}

/* ---- Copies of one buffer ---- */

/* Both write x, each in a memory of its own and in any order, which the parts' order decides: what is valid
 * is the one recorded last. */
static void written_twice(const house *h, uint32_t device, bool source_is_last, bool source_has_first_part) {
    char when[128];
    describe(when, sizeof when, source_is_last ? "source last" : "source first", CPU_KERNEL, device, device);
    chain c = chain_make(h);
    sketch s;
    sketch_open(&s);
    (void)number_of(&s, h->devices[source_has_first_part ? CPU : device]);
    if (!source_is_last) add_source(&s, h, CPU_KERNEL, c.x);
    add_map(&s, h->devices[device], c.a, c.x);
    if (source_is_last) add_source(&s, h, CPU_KERNEL, c.x);
    rota_plan *plan = sketch_compile(&s, h, "twice");
    for (uint32_t round = 0; round < 2; round++) {
        rota_ticket ticket;
        open_gate(true);
        ra_store_seq_cst(&must_fail, 1);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        expect_ticket(ticket, true, when);
        if (source_is_last)
            expect_failed(c.x, when);
        else
            expect_mapped(c.x, 4, 1, when);
        ra_store_seq_cst(&must_fail, 0);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        expect_ticket(ticket, false, when);
        expect_mapped(c.x, source_is_last ? 7 : 4, source_is_last ? 0 : 1, when);
    }
    rota_plan_release(plan);
    chain_release(&c);
}

static void copies_fail_apart(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t device = ADVERSARY; device < KINDS; device++)
        for (uint32_t i = 0; i < 4 && h->devices[device]; i++) written_twice(h, device, i & 1, i & 2);
    close_house(h);
}

/* A part of x fails; all of it is moved, and only that part has failed there. */
static void moves_take_marks_along(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t device = ADVERSARY; device < KINDS; device++) {
        if (!h->devices[device]) continue;
        chain c = chain_make(h);
        sketch s;
        sketch_open(&s);
        rota_access accesses[] = {{c.x, 64, 64, ROTA_WRITE}, {c.x, 0, ROTA_WHOLE, ROTA_READ}};
        rota_host_node node = ROTA_HOST_NODE(source_host, NULL, "source", accesses, 1);
        assert_ok(rota_record_host(s.recorder, &node, NULL));
        rota_plan *part = sketch_compile(&s, h, "part"), *plan = map_plan(h, h->devices[device], c.x, c.y);
        uint32_t words[WORDS];
        rota_ticket ticket;
        ra_store_seq_cst(&must_fail, 1);
        open_gate(true);
        assert_ok(rota_submit_wait(part, NULL, 0, &ticket));
        assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket)); /* takes x to the device */
        assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 9;
        assert_status(rota_buffer_read(c.x, 60, words, 8), ROTA_NODE_FAILED);
        assert_status(rota_buffer_read(c.x, 64, words, 4), ROTA_NODE_FAILED);
        assert_status(rota_buffer_read(c.x, 124, words, 8), ROTA_NODE_FAILED);
        assert_ok(rota_buffer_read(c.x, 0, words, 64));
        assert_int_equal(words[15], 1);
        assert_ok(rota_buffer_read(c.x, 128, words, WORDS * 4 - 128));
        assert_int_equal(words[WORDS - 33], 1);
        /* Written there, it is good. */
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 1;
        assert_ok(rota_buffer_write(c.x, h->devices[device], 64, words, 64, NULL));
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        expect_mapped(c.y, 1, 1, ids[device]);
        rota_plan_release(part);
        rota_plan_release(plan);
        chain_release(&c);
    }
    close_house(h);
}

/* A read takes bytes from several devices and fails if any of them failed, which may come out when it has
 * long been submitted; what it was to fill stays as it was. */
static void gathered(const house *h, source_kind kind, uint32_t device) {
    char when[128];
    describe(when, sizeof when, "gathered", kind, CPU, device);
    chain c = chain_make(h);
    /* The CPU has the first quarter and the last one. */
    const uint64_t offset = kind == ADVERSARY_KERNEL ? 320 : 832,
                   other = kind == ADVERSARY_KERNEL ? 832 : 320;
    sketch s;
    sketch_open(&s);
    add_source_to(&s, h, kind, (rota_access){c.x, offset, 64, ROTA_WRITE}, 0);
    rota_plan *part = sketch_compile(&s, h, "part");
    for (uint32_t fails = 2; fails-- != 0;) {
        uint32_t words[WORDS], out[WORDS];
        rota_ticket tickets[2];
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 3;
        assert_ok(rota_buffer_write(c.x, h->devices[device], 256, words, 512, NULL));
        memset(out, 0xee, sizeof out);
        ra_store_seq_cst(&must_fail, fails);
        open_gate(false);
        assert_ok(rota_submit_wait(part, NULL, 0, &tickets[0]));
        assert_ok(rota_buffer_read_async(c.x, 0, out, sizeof out, &tickets[1]));
        assert_int_equal(rota_poll(tickets[1]), ROTA_BUSY);
        open_gate(true);
        for (uint32_t t = 0; t < 2; t++) expect_ticket(tickets[t], fails, when);
        for (uint32_t i = 0; i < WORDS; i++) {
            const uint32_t value = i / 16 == offset / 64 ? 7
                                   : i >= 64 && i < 192  ? 3
                                                         : 1,
                           want = fails ? 0xeeeeeeee : value;
            if (out[i] != want) fail_msg("%s: word %u is %u, expected %u", when, i, out[i], want);
        }
        if (fails) expect_failed(c.x, when);
        assert_ok(rota_buffer_read(c.x, other, words, 64));
        assert_int_equal(words[15], other == 320 ? 3 : 1);
    }
    rota_plan_release(part);
    chain_release(&c);
}

static void a_read_fails_with_any_of_its_parts(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t kind = 0; kind < SOURCES; kind++)
        for (uint32_t device = ADVERSARY; device < KINDS; device++)
            if (h->devices[device]) gathered(h, (source_kind)kind, device);
    close_house(h);
}

/* Bytes that could not be moved are good where they are, and are moved again. */
static void a_move_that_fails_is_made_again(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t device = ADVERSARY; device < KINDS; device++) {
        if (!h->devices[device]) continue;
        chain c = chain_make(h);
        rota_buffer *large =
            test_words(h->devices[CPU], "large", 65536, 6); /* no staging memory has that size */
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        rota_access accesses[] = {{large, 0, ROTA_WHOLE, ROTA_READ}, {c.y, 0, ROTA_WHOLE, ROTA_WRITE}};
        test_params params = {.n = WORDS, .m = 65536, .seed = SEED};
        rota_param_binding binding = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
        rota_kernel_node node =
            ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_sum].kernel, .accesses = accesses,
                             .access_count = 2, .params = &params, .bindings = &binding, .binding_count = 1);
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_record_kernel(recorder, &node, NULL));
        rota_recorder_close(recorder);
        assert_ok(rota_compile(h->runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = &h->devices[device], .device_count = 1),
                               &plan));
        rota_graph_release(graph);
        test_expect_words(large, 65536, 6);
        rota_ticket ticket;
        for (uint32_t i = 0; i < 2; i++) {
            take_memory(h->runtime);
            assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
            assert_status(rota_wait(ticket, 0), ROTA_OUT_OF_MEMORY);
            give_memory(h->runtime);
            test_expect_words(large, 65536, 6);
        }
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(large, 65536, 6);
        rota_plan_release(plan);
        rota_buffer_release(large);
        chain_release(&c);
    }
    close_house(h);
}

/* ---- Handed over before ---- */

static uint64_t device_waits(const house *h) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(h->runtime, &stats);
    return stats.device_waits;
}

/* Two drivers of one GPU: works wait on the GPU for the one that fails, and for those that wait for it. */
static void works_already_handed_over_fail(void **state) {
    (void)state;
    house *h = open_house(true);
    if (!h->devices[CUDA]) {
        close_house(h);
        skip();
    }
    rota_device *one = h->devices[ADVERSARY], *other = h->devices[CUDA];
    rota_buffer *x = test_words(one, "x", WORDS, 1), *y = test_words(other, "y", WORDS, 2),
                *z = test_words(one, "z", WORDS, 3), *w = test_words(h->devices[CPU], "w", WORDS, 4),
                *a = test_words(one, "a", WORDS, 5), *v = test_words(other, "v", WORDS, 6);
    rota_plan *plans[] = {source_plan(h, ADVERSARY_KERNEL, x),
                          map_plan(h, other, x, y),
                          map_plan(h, one, y, z),
                          map_plan(h, other, y, v),
                          map_plan(h, one, a, x),
                          map_plan(h, h->devices[CPU], z, w)};
    enum { PLANS = sizeof plans / sizeof *plans, OVER = 4 };
    rota_ticket tickets[PLANS];
    for (uint32_t round = 0; round < 6; round++) {
        const bool fails = round % 2;
        const uint64_t before = device_waits(h), deadline = rota_deadline_after(10000000000u);
        open_gate(false);
        ra_store_seq_cst(&must_fail, fails);
        for (uint32_t p = 0; p < PLANS; p++) assert_ok(rota_submit_wait(plans[p], NULL, 0, &tickets[p]));
        /* From the second round on those that wait for the source, for its reader, and to overwrite x wait on
         * the GPU; the first finds out that somebody waits. */
        while (round && device_waits(h) < before + 3 && rota_clock_ns() < deadline) test_nap();
        if (round) assert_true(device_waits(h) >= before + 3);
        open_gate(true);
        for (uint32_t p = 0; p < PLANS; p++) expect_ticket(tickets[p], fails && p != OVER, "handed over");
        expect_mapped(x, 5, 1, "handed over");
        if (fails) {
            expect_failed(y, "handed over");
            expect_failed(z, "handed over");
            expect_failed(v, "handed over");
            expect_failed(w, "handed over");
        } else {
            expect_mapped(y, 7, 1, "handed over");
            expect_mapped(w, 7, 3, "handed over");
        }
        if (!fails) continue;
        /* Good again, so that the next round's works may wait on the GPU. */
        ra_store_seq_cst(&must_fail, 0);
        for (uint32_t p = 0; p < PLANS; p++) assert_ok(rota_submit_wait(plans[p], NULL, 0, &tickets[p]));
        for (uint32_t p = 0; p < PLANS; p++) expect_ticket(tickets[p], false, "healed");
    }
    for (uint32_t p = 0; p < PLANS; p++) rota_plan_release(plans[p]);
    rota_buffer *buffers[] = {x, y, z, w, a, v};
    for (uint32_t i = 0; i < 6; i++) rota_buffer_release(buffers[i]);
    close_house(h);
}

/* ---- Random graphs ---- */

enum { HALVES = 2, PERSISTENTS = 5, BUFFERS = 8, NODES_MAX = 12, PLANS_MAX = 3, TIMES_MAX = 6 };

/* A node in terms of halves of buffers: `parts` of them from `half` on. */
typedef struct random_node {
    bool is_source;
    uint32_t bit, device; /* of a source: where it runs */
    uint32_t from, from_half, to, to_half, parts;
} random_node;

typedef struct random_plan {
    random_node nodes[NODES_MAX];
    uint32_t count;
    rota_plan *plan;
} random_plan;

/* What is known of a half. `may`: it may count as failed, since devices without single nodes leave out all of
 * a segment, copies of what the plan reads elsewhere too. */
typedef struct half {
    bool failed, may, defined;
    uint32_t words[WORDS / HALVES];
} half;

typedef struct world {
    house *h;
    bool is_linked;
    uint64_t random;
    rota_buffer *buffers[PERSISTENTS];
    half halves[BUFFERS][HALVES];
} world;

static rota_access half_of(rota_buffer *buffer, uint32_t first, uint32_t parts, rota_access_mode mode) {
    return (rota_access){buffer, first * WORDS / HALVES * 4, parts * WORDS / HALVES * 4, mode};
}

static void random_plan_make(world *w, random_plan *p, uint32_t *bits) {
    sketch s;
    rota_buffer *buffers[BUFFERS];
    bool defined[BUFFERS][HALVES] = {{false}};
    sketch_open(&s);
    s.queues = 1 + test_below(&w->random, 3);
    memcpy(buffers, w->buffers, sizeof w->buffers);
    for (uint32_t b = PERSISTENTS; b < BUFFERS; b++)
        assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_TRANSIENT, "t", WORDS * 4, &buffers[b]));
    p->count = 2 + test_below(&w->random, NODES_MAX - 1);
    for (uint32_t n = 0; n < p->count; n++) {
        random_node *node = &p->nodes[n];
        do {
            memset(node, 0, sizeof *node);
            node->parts = 1 + test_below(&w->random, 2);
            node->to = test_below(&w->random, BUFFERS);
            node->from = test_below(&w->random, BUFFERS);
            if (node->parts == 1) {
                node->to_half = test_below(&w->random, 2);
                node->from_half = test_below(&w->random, 2);
            }
            node->is_source = *bits < 32 && test_below(&w->random, 4) == 0;
            node->device = test_below(&w->random, KINDS);
        } while (!w->h->devices[node->device] ||
                 (!node->is_source &&
                  (node->from == node->to || (node->from >= PERSISTENTS &&
                                              !(defined[node->from][node->from_half] &&
                                                defined[node->from][node->from_half + node->parts - 1])))));
        for (uint32_t k = 0; k < node->parts; k++) defined[node->to][node->to_half + k] = true;
        rota_access to = half_of(buffers[node->to], node->to_half, node->parts, ROTA_WRITE);
        if (node->is_source) {
            const source_kind kind = (source_kind)test_below(&w->random, SOURCES);
            node->bit = (*bits)++;
            node->device = kind == ADVERSARY_KERNEL ? ADVERSARY : CPU;
            add_source_to(&s, w->h, kind, to, node->bit);
        } else {
            rota_placement placement = {.device_plus_1 = number_of(&s, w->h->devices[node->device]),
                                        .queue_plus_1 = (uint8_t)(1 + test_below(&w->random, s.queues))};
            add_map_of(&s, placement, half_of(buffers[node->from], node->from_half, node->parts, ROTA_READ),
                       to, node->parts * WORDS / HALVES);
        }
    }
    p->plan = sketch_compile(&s, w->h, "random");
}

/* The replay's nodes one by one. True: one of them failed; *out_may: one of them may count as failed. */
static bool random_plan_expect(world *w, const random_plan *p, uint32_t fails, bool *out_may) {
    static half after[BUFFERS][HALVES];
    bool any = false, may = false;
    for (uint32_t pass = 0; pass < 2; pass++) { /* the second knows whether anything failed */
        memcpy(after, w->halves, sizeof after);
        for (uint32_t n = 0; n < p->count; n++) {
            const random_node *node = &p->nodes[n];
            const bool asks = node->device == CPU || (node->device == ADVERSARY && !w->is_linked);
            bool failed = node->is_source && fails >> node->bit & 1u, loose = failed;
            for (uint32_t k = 0; k < node->parts && !node->is_source; k++) {
                failed |= after[node->from][node->from_half + k].failed;
                loose |= after[node->from][node->from_half + k].may;
            }
            any |= failed;
            may |= loose;
            if (pass == 1 && may && !asks) loose = true;
            for (uint32_t k = 0; k < node->parts; k++) {
                half *to = &after[node->to][node->to_half + k];
                const half from = after[node->from][node->from_half + k];
                *to = (half){.failed = failed, .may = loose};
                for (uint32_t i = 0; i < WORDS / HALVES; i++)
                    to->words[i] = node->is_source ? 7 : mapped(from.words[i], k * WORDS / HALVES + i);
            }
        }
    }
    bool asks = true;
    for (uint32_t n = 0; n < p->count; n++)
        asks &= p->nodes[n].device == CPU || (p->nodes[n].device == ADVERSARY && !w->is_linked);
    for (uint32_t n = 0; n < p->count && may && !asks; n++)
        for (uint32_t k = 0; k < p->nodes[n].parts && !p->nodes[n].is_source; k++)
            after[p->nodes[n].from][p->nodes[n].from_half + k].may = true;
    memcpy(w->halves, after, sizeof w->halves);
    *out_may = may;
    return any;
}

static void expect_halves(const world *w, uint64_t seed) {
    for (uint32_t b = 0; b < PERSISTENTS; b++)
        for (uint32_t k = 0; k < HALVES; k++) {
            const half *want = &w->halves[b][k];
            uint32_t words[WORDS / HALVES];
            rota_status status = rota_buffer_read(w->buffers[b], k * sizeof words, words, sizeof words);
            if (status == ROTA_OK ? want->failed : !want->may)
                fail_msg("seed %llu: half %u of buffer %u is %s (%s)", (unsigned long long)seed, k, b,
                         rota_status_name(status), status == ROTA_OK ? "" : rota_last_error());
            if (status == ROTA_OK && memcmp(words, want->words, sizeof words) != 0)
                fail_msg("seed %llu: half %u of buffer %u is wrong", (unsigned long long)seed, k, b);
        }
}

static void random_round(world *w, uint64_t seed) {
    random_plan plans[PLANS_MAX];
    rota_ticket tickets[TIMES_MAX];
    uint32_t order[TIMES_MAX], bits = 0;
    w->random = seed;
    memset(w->halves, 0, sizeof w->halves);
    for (uint32_t b = 0; b < PERSISTENTS; b++) {
        uint32_t words[WORDS];
        for (uint32_t i = 0; i < WORDS; i++)
            words[i] = w->halves[b][i / (WORDS / HALVES)].words[i % (WORDS / HALVES)] = b * 1000 + i;
        assert_ok(rota_buffer_write(w->buffers[b], NULL, 0, words, sizeof words, NULL));
        assert_ok(rota_buffer_read(w->buffers[b], 0, words, 4));
    }
    /* All was overwritten, and nothing is in flight: no mark is left. */
    rota_sequencer_reap_now(w->h->runtime);
    assert_int_equal(ra_load_seq_cst(&w->h->runtime->failed.active), 0);
    const uint32_t count = 1 + test_below(&w->random, PLANS_MAX),
                   times = 1 + test_below(&w->random, TIMES_MAX);
    for (uint32_t p = 0; p < count; p++) random_plan_make(w, &plans[p], &bits);
    const uint32_t fails =
        (uint32_t)(test_random(&w->random) >> 32) & (uint32_t)(test_random(&w->random) >> 32);
    ra_store_seq_cst(&must_fail, fails);
    atomic_store(&w->h->options.seed, seed);
    open_gate(test_below(&w->random, 3) == 0);
    for (uint32_t i = 0; i < times; i++) {
        order[i] = test_below(&w->random, count);
        assert_ok(rota_submit_wait(plans[order[i]].plan, NULL, 0, &tickets[i]));
    }
    open_gate(true);
    for (uint32_t i = 0; i < times; i++) {
        bool may;
        const bool failed = random_plan_expect(w, &plans[order[i]], fails, &may);
        const rota_status status = rota_wait(tickets[i], 0);
        if (status == ROTA_OK ? failed : !may)
            fail_msg("seed %llu: submission %u is %s", (unsigned long long)seed, i, rota_status_name(status));
    }
    expect_halves(w, seed);
    for (uint32_t p = 0; p < count; p++) rota_plan_release(plans[p].plan);
}

static void random_rounds(bool is_linked, uint32_t rounds, bool with_vk) {
    world w = {.h = open_house(is_linked), .is_linked = is_linked};
    if (!with_vk) w.h->devices[VK] = NULL;
    for (uint32_t b = 0; b < PERSISTENTS; b++) w.buffers[b] = test_words(w.h->devices[CPU], "x", WORDS, 0);
    for (uint32_t seed = 1; seed <= rounds; seed++) random_round(&w, seed);
    for (uint32_t b = 0; b < PERSISTENTS; b++) rota_buffer_release(w.buffers[b]);
    close_house(w.h);
}

static void random_graphs_fail_as_their_data_does(void **state) {
    (void)state;
    random_rounds(false, 150, false);
    random_rounds(false, 30, true);
    random_rounds(true, 200, false);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_cross_devices_in_a_submission),
        cmocka_unit_test(failures_cross_devices_between_submissions),
        cmocka_unit_test(what_failed_is_not_copied_out),
        cmocka_unit_test(what_cannot_be_handed_over_fails_what_follows),
        cmocka_unit_test(copies_fail_apart),
        cmocka_unit_test(moves_take_marks_along),
        cmocka_unit_test(a_read_fails_with_any_of_its_parts),
        cmocka_unit_test(a_move_that_fails_is_made_again),
        cmocka_unit_test(works_already_handed_over_fail),
        cmocka_unit_test(random_graphs_fail_as_their_data_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
