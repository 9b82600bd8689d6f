/* Works of two linked devices and a third one at random, some of which fail: each ticket, and each range of a
 * buffer, is as if they had run one at a time, whatever passes the gate (sched/runtime/submitter/gate.c). */
#include "tests/kit/nap.h"
#include "tests/sched/runtime/across_kit.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary_internal.h"
#include "tests/kit/random.h"

#define BUFFERS 6u
#define PARTS 4u
#define PART_WORDS 32u
#define WORDS_ALL (PARTS * PART_WORDS)
#define PLANS 36u
#define NODES_MAX 3u

static uint64_t word_count(const rota_kernel_call *call) {
    return call->operand_bytes[0] / 4;
}
static _Atomic uint64_t slow_ns;
static rota_status slow(const rota_kernel_call *call) {
    uint64_t ns = ra_load_relaxed(&slow_ns);
    if (ns) test_nap_ns(ns);
    uint32_t *x = call->operands[0];
    for (uint64_t i = 0; i < word_count(call); i++) x[i]++;
    return ROTA_OK;
}
static rota_status bad(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint64_t i = 0; i < word_count(call); i++) x[i] = 0xbadbad;
    return rota_fail(ROTA_OUT_OF_RANGE, "told to fail");
}
static rota_status good(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint64_t i = 0; i < word_count(call); i++) x[i] = 7;
    return ROTA_OK;
}
static const rota_kernel slow_kernel = {.name = "slow", .operand_count = 1, .cpu = {.fn = slow}},
                         bad_kernel = {.name = "bad", .operand_count = 1, .cpu = {.fn = bad}},
                         good_kernel = {.name = "good", .operand_count = 1, .cpu = {.fn = good}};

typedef enum op { OP_SLOW, OP_INCREMENT, OP_COPY, OP_BAD, OP_GOOD } op;
typedef struct span {
    uint32_t buffer, begin, end; /* words */
} span;
typedef struct node {
    op op;
    uint32_t device;
    span to, from;
} node;
typedef struct mixed {
    rota_plan *plan;
    node nodes[NODES_MAX];
    uint32_t count;
} mixed;
typedef struct word {
    uint32_t value;
    bool failed;
} word;

static word model[BUFFERS][WORDS_ALL];
static rota_buffer *buffers[BUFFERS];
static rota_device *devices[3];
static uint64_t dice;

static span draw_span(uint32_t size) {
    span s = {test_below(&dice, BUFFERS), 0, 0};
    uint32_t parts = size ? size : 1 + test_below(&dice, test_below(&dice, 3) ? 2 : PARTS);
    s.begin = test_below(&dice, PARTS - parts + 1) * PART_WORDS;
    s.end = s.begin + parts * PART_WORDS;
    return s;
}

static node draw_node(uint32_t device, bool fails) {
    node n = {.device = device};
    uint32_t kind = test_below(&dice, 30);
    n.op = kind < 8 ? OP_SLOW : kind < 14 ? OP_INCREMENT : kind < 26 ? OP_COPY : kind < 28 ? OP_GOOD : OP_BAD;
    if (n.op == OP_BAD && !fails) n.op = OP_COPY;
    n.to = draw_span(0);
    do n.from = draw_span((n.to.end - n.to.begin) / PART_WORDS);
    while (n.op == OP_COPY && n.from.buffer == n.to.buffer);
    return n;
}

static void record(rota_recorder *recorder, const node *n, uint32_t device_plus_1) {
    static const rota_kernel *const kernels[] = {&slow_kernel, &test_increment, &test_copy, &bad_kernel,
                                                 &good_kernel};
    rota_access accesses[2];
    uint32_t count = 0;
    const span *spans[] = {&n->from, &n->to};
    for (uint32_t i = n->op == OP_COPY ? 0 : 1; i < 2; i++) {
        rota_access_mode mode = i == 0                                      ? ROTA_READ
                                : n->op == OP_SLOW || n->op == OP_INCREMENT ? ROTA_READWRITE
                                                                            : ROTA_WRITE;
        accesses[count++] = (rota_access){buffers[spans[i]->buffer], spans[i]->begin * 4u,
                                          (spans[i]->end - spans[i]->begin) * 4u, mode};
    }
    rota_kernel_node kernel =
        ROTA_KERNEL_NODE(.kernel = kernels[n->op], .accesses = accesses, .access_count = count,
                         .placement = {.device_plus_1 = device_plus_1});
    assert_ok(rota_record_kernel(recorder, &kernel, NULL));
}

/* 0: one node; 1: on both linked devices, a node each. */
static void make_plan(rota_runtime *runtime, mixed *m, uint32_t shape, bool gpu) {
    rota_graph *graph;
    rota_recorder *recorder;
    uint32_t first = shape ? test_below(&dice, 2) : test_below(&dice, 5) / 2;
    m->count = shape ? 2 : 1;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t device = shape ? (first + i) % 2 : first;
        m->nodes[i] = draw_node(device, !gpu || device == 2);
        record(recorder, &m->nodes[i], shape ? 1 + device : 1);
    }
    rota_recorder_close(recorder);
    rota_device *one[] = {devices[first]};
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = shape ? devices : one, .device_count = shape ? 2 : 1);
    assert_ok(rota_compile(runtime, graph, &options, &m->plan));
    rota_graph_release(graph);
}

static bool any_failed(const span *s) {
    for (uint32_t i = s->begin; i < s->end; i++)
        if (model[s->buffer][i].failed) return true;
    return false;
}

static bool simulate(const mixed *m) {
    bool all = true;
    for (uint32_t k = 0; k < m->count; k++) {
        const node *n = &m->nodes[k];
        bool fails = n->op == OP_BAD || (n->op == OP_COPY && any_failed(&n->from)) ||
                     ((n->op == OP_SLOW || n->op == OP_INCREMENT) && any_failed(&n->to));
        for (uint32_t i = n->to.begin; i < n->to.end; i++) {
            word *w = &model[n->to.buffer][i];
            w->failed = fails;
            if (fails) continue;
            if (n->op == OP_COPY)
                w->value = model[n->from.buffer][n->from.begin + i - n->to.begin].value;
            else
                w->value = n->op == OP_GOOD ? 7 : w->value + 1;
        }
        all = all && !fails;
    }
    return all;
}

static bool is_given_up;

static void check_span(uint64_t seed, uint32_t step, const span *s) {
    uint32_t words[WORDS_ALL];
    bool fails = any_failed(s);
    rota_status status = rota_buffer_read(buffers[s->buffer], s->begin * 4u, words, (s->end - s->begin) * 4u);
    if ((status != ROTA_OK) != fails && !(is_given_up && status != ROTA_OK))
        fail_msg("seed %llu at %u: buffer %u [%u, %u) is %s, should %s", (unsigned long long)seed, step,
                 s->buffer, s->begin, s->end, rota_status_name(status), fails ? "have failed" : "be good");
    for (uint32_t i = s->begin; status == ROTA_OK && i < s->end; i++)
        if (words[i - s->begin] != model[s->buffer][i].value)
            fail_msg("seed %llu at %u: buffer %u word %u is %u, not %u", (unsigned long long)seed, step,
                     s->buffer, i, words[i - s->begin], model[s->buffer][i].value);
}

typedef struct pending {
    rota_ticket ticket;
    bool ok, reads;
    span s;
    uint32_t *words, expected[WORDS_ALL];
    const mixed *m;
} pending;

static void ignore(void *user, void *cookie, const void *owner, uint32_t which) {
    (void)user, (void)cookie, (void)owner, (void)which;
}
static bool must_not(void *user, void *cookie, const void *owner, uint32_t which) {
    (void)user, (void)owner, (void)which;
    return cookie && ra_load_acquire(&((rota_work *)cookie)->failed);
}

static void mix(uint64_t seed, bool gpu, uint32_t lost_in) {
    enum { OPS = 160 };
    static pending all[OPS];
    static mixed plans[PLANS];
    dice = seed * 77 + gpu;
    is_given_up = lost_in != 0;
    pair *p = open_pair(seed, 20000000000u, 0);
    devices[0] = p->devices[0];
    devices[1] = p->devices[1];
    assert_ok(rota_device_open(p->runtime, "cpu", &devices[2]));
    assert_true(ra_load_relaxed(&devices[0]->others.linked) != 0);
    for (uint32_t d = 0; gpu && d < 2; d++) { /* asks for nothing, as a GPU */
        adversary_device *device = (adversary_device *)devices[d]->exec;
        devices[d]->asks_poison = false;
        device->host.must_skip = must_not;
        device->host.succeeded = ignore;
    }
    for (uint32_t b = 0; b < BUFFERS; b++) {
        buffers[b] = test_words(devices[b % 2], "b", WORDS_ALL, b * 1000);
        for (uint32_t i = 0; i < WORDS_ALL; i++) model[b][i] = (word){b * 1000, false};
    }
    for (uint32_t i = 0; i < PLANS; i++) make_plan(p->runtime, &plans[i], i % 4 == 0, gpu);
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t few = round % 2 ? PLANS : 8;
        ra_store_relaxed(&slow_ns, (uint64_t)test_below(&dice, 4) * 200000u);
        if (lost_in && round == 3) p->options.faults.lost_in_works = lost_in;
        /* Nothing has failed, and so devices wait by themselves. */
        for (uint32_t b = 0; b < BUFFERS && !is_given_up; b++) {
            static const uint32_t zero[WORDS_ALL];
            rota_ticket ticket;
            assert_ok(
                rota_buffer_write(buffers[b], devices[test_below(&dice, 2)], 0, zero, sizeof zero, &ticket));
            assert_ok(rota_wait(ticket, 0));
            memset(model[b], 0, sizeof model[b]);
        }
        const uint64_t until = rota_deadline_after(50000000u);
        while (ra_load_acquire(&p->runtime->failed.active) && rota_clock_ns() < until) test_nap_us(100);
        for (uint32_t k = 0; k < OPS; k++) {
            pending *q = &all[k];
            uint32_t what = test_below(&dice, 20);
            q->reads = false;
            q->m = NULL;
            if (what == 0) { /* a write heals */
                span s = q->s = draw_span(0);
                uint32_t words[WORDS_ALL];
                for (uint32_t i = s.begin; i < s.end; i++) words[i - s.begin] = k;
                rota_status status =
                    rota_buffer_write(buffers[s.buffer], devices[test_below(&dice, 3)], s.begin * 4u, words,
                                      (s.end - s.begin) * 4u, &q->ticket);
                if (status != ROTA_OK) { /* lost: not submitted */
                    assert_true(is_given_up);
                    q->ticket = (rota_ticket){0};
                } else {
                    for (uint32_t i = s.begin; i < s.end; i++) model[s.buffer][i] = (word){k, false};
                }
                q->ok = true;
            } else if (what < 3) {
                q->reads = true;
                q->s = draw_span(0);
                q->words = calloc(WORDS_ALL, 4);
                q->ok = !any_failed(&q->s);
                for (uint32_t i = q->s.begin; i < q->s.end; i++) q->expected[i] = model[q->s.buffer][i].value;
                assert_ok(rota_buffer_read_async(buffers[q->s.buffer], q->s.begin * 4u, q->words,
                                                 (q->s.end - q->s.begin) * 4u, &q->ticket));
            } else {
                const mixed *m = q->m = &plans[test_below(&dice, few)];
                q->ok = simulate(m);
                assert_ok(rota_submit_wait(m->plan, NULL, 0, &q->ticket));
            }
        }
        for (uint32_t k = 0; k < OPS; k++) {
            pending *q = &all[k];
            if (q->ticket.id == 0) continue;
            rota_status status = rota_wait(q->ticket, 0);
            if ((status == ROTA_OK) != q->ok && !(is_given_up && status != ROTA_OK))
                fail_msg("seed %llu round %u: submission %u (%s) is %s (%s), should be %s",
                         (unsigned long long)seed, round, k,
                         q->reads ? "read"
                         : q->m   ? "plan"
                                  : "write",
                         rota_status_name(status), status ? rota_last_error() : "",
                         q->ok ? "good" : "failed");
            for (uint32_t i = q->s.begin; q->reads && status == ROTA_OK && i < q->s.end; i++)
                if (q->words[i - q->s.begin] != q->expected[i])
                    fail_msg("seed %llu round %u: read %u: word %u is %u, not %u", (unsigned long long)seed,
                             round, k, i, q->words[i - q->s.begin], q->expected[i]);
            if (q->reads) free(q->words);
        }
        for (uint32_t b = 0; b < BUFFERS; b++)
            for (uint32_t part = 0; part < PARTS; part++)
                check_span(seed, round, &(span){b, part * PART_WORDS, (part + 1) * PART_WORDS});
    }
    for (uint32_t i = 0; i < PLANS; i++) rota_plan_release(plans[i].plan);
    for (uint32_t b = 0; b < BUFFERS; b++) rota_buffer_release(buffers[b]);
    if (lost_in)
        close_after_loss(p);
    else
        close_pair(p);
}

static uint64_t first_seed = 1, seeds = 2;

static void asks(void **state) {
    (void)state;
    for (uint64_t s = 0; s < seeds; s++) mix(first_seed + s, false, 0);
}
static void does_not_ask(void **state) {
    (void)state;
    for (uint64_t s = 0; s < seeds; s++) mix(first_seed + s, true, 0);
}
/* One of the two is lost on the way: what has failed then may be more. */
static void lost(void **state) {
    (void)state;
    for (uint64_t s = first_seed; s < first_seed + seeds; s++)
        for (uint32_t gpu = 0; gpu < 2; gpu++) mix(s, gpu, 1 + (uint32_t)((2 * s + gpu - 1) * 13 % 160));
}

/* Arguments: a test's name, the first seed, and how many. */
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    if (argc > 3) seeds = strtoull(argv[3], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(asks), cmocka_unit_test(does_not_ask),
                                       cmocka_unit_test(lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
