/* P9 between devices on random graphs: plans over several devices, of whose sources some fail, leave every half
 * of a buffer as a model of them says. */
#include "tests/sched/runtime/travel_kit.h"

#include <string.h>
#include "base/atomic.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/random.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_fail_as_their_data_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
