/* Collectives on the adversary: each rank's nodes in random orders that are legal, and the ranks against one another.
 * The bytes are those of the nodes one after the other; with one edge of one rank not kept, whichever it is, they are
 * not, in some order. */
#include "tests/kit/runtime_support.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sched/testing.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"
#include "tests/kit/random.h"

enum { RANKS = 3, WORDS = 24, BYTES = 4 * WORDS, SEEDS = 3000, ORDERS = 60, FIRST_FACTOR = 3 };
enum { X, A, B, C, D, Y, BUFFERS };

typedef struct rank {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *device;
    rota_communicator *world;
    rota_buffer *buffers[BUFFERS];
    rota_plan *plan;
    uint32_t words[BUFFERS][RANKS * WORDS]; /* as they have to be */
} rank;

static rank ranks[RANKS];

static uint32_t words_of(uint32_t buffer) {
    return buffer == C ? RANKS * WORDS : WORDS;
}

/* ---- The program ----
 *
 *   x --map--> a --all_reduce--> b --map--> a --all_gather--> c --fold--> d --all_reduce in place--> d --map--> y
 *              \------------------------------map----------------------------------------------------------^ b, x */

typedef struct map_params {
    uint32_t factor, added, words;
} map_params;

/* y[i] = the sum of x[i], x[i + words], ... * factor + added */
static uint32_t folded(const uint32_t *x, uint64_t x_words, const map_params *p, uint32_t i) {
    uint32_t sum = p->added + i;
    for (uint64_t k = i; k < x_words; k += p->words) sum += x[k] * p->factor;
    return sum;
}

static rota_status run_map(const rota_kernel_call *call) {
    const map_params *p = call->params;
    uint32_t *y = call->operands[1];
    /* So that ranks come at different times, and what should wait for the first map, and doesn't, is sooner. */
    if (p->factor == FIRST_FACTOR || p->added % 3 == 0) test_nap_us(150);
    for (uint32_t i = 0; i < p->words; i++)
        y[i] = folded(call->operands[0], call->operand_bytes[0] / 4, p, i);
    return ROTA_OK;
}

static const rota_kernel map = {
    .name = "map", .operand_count = 2, .param_bytes = sizeof(map_params), .cpu = {.fn = run_map}};

static map_params params_of(uint32_t r, uint32_t step) {
    return (map_params){2 * step + FIRST_FACTOR, 100 * r + 7 * step, WORDS};
}

static void record_map(const rank *it, rota_recorder *recorder, uint32_t r, uint32_t step, uint32_t x,
                       uint32_t y) {
    const map_params params = params_of(r, step);
    const rota_access accesses[] = {{it->buffers[x], 0, ROTA_WHOLE, ROTA_READ},
                                    {it->buffers[y], 0, BYTES, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = &map, .accesses = accesses, .access_count = 2, .params = &params), NULL));
}

static rota_tensor tensor_of(const rank *it, uint32_t buffer, uint32_t rows) {
    rota_tensor made;
    assert_ok(rota_tensor_of(it->buffers[buffer], 0, ROTA_U32, ROTA_SHAPE((uint64_t)rows * WORDS), &made));
    return made;
}

static void make_plan(rank *it, uint32_t r) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "ranks"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    record_map(it, recorder, r, 0, X, A);
    assert_ok(rota_op_all_reduce_into(tape, it->world, tensor_of(it, A, 1), ROTA_COLLECTIVE_SUM,
                                      tensor_of(it, B, 1)));
    record_map(it, recorder, r, 1, B, A);
    assert_ok(rota_op_all_gather_into(tape, it->world, tensor_of(it, A, 1), tensor_of(it, C, RANKS)));
    record_map(it, recorder, r, 2, C, D);
    assert_ok(rota_op_all_reduce_into(tape, it->world, tensor_of(it, D, 1), ROTA_COLLECTIVE_SUM,
                                      tensor_of(it, D, 1)));
    record_map(it, recorder, r, 3, D, Y);
    record_map(it, recorder, r, 4, Y, B);
    record_map(it, recorder, r, 5, B, X);
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    assert_ok(rota_compile(it->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &it->device, .device_count = 1, .certify = true),
                           &it->plan));
    rota_graph_release(graph);
}

static void open_ranks(void) {
    rota_runtime *runtimes[RANKS];
    rota_communicator *worlds[RANKS];
    memset(ranks, 0, sizeof ranks);
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r].options.mode = ADVERSARY_EDGES; /* batches are of devices that run no host functions */
        ranks[r].options.breaks.program = "ranks";
        assert_ok(
            rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = ""), &runtimes[r]));
        assert_ok(rota_runtime_add_driver(runtimes[r], &adversary_driver, &ranks[r].options));
        assert_ok(rota_device_open(runtimes[r], "adversary", &ranks[r].device));
    }
    assert_ok(rota_communicator_open_ranks(runtimes, RANKS,
                                           &ROTA_COMMUNICATOR_OPTIONS(.timeout_ns = 20000000000u), worlds));
    for (uint32_t r = 0; r < RANKS; r++) {
        rank *it = &ranks[r];
        it->runtime = runtimes[r];
        it->world = worlds[r];
        for (uint32_t b = 0; b < BUFFERS; b++)
            it->buffers[b] = test_buffer(it->runtime, "words", 4 * (uint64_t)words_of(b));
        make_plan(it, r);
    }
}

static void close_ranks(void) {
    for (uint32_t r = 0; r < RANKS; r++) {
        rota_plan_release(ranks[r].plan);
        for (uint32_t b = 0; b < BUFFERS; b++) rota_buffer_release(ranks[r].buffers[b]);
    }
    for (uint32_t r = 0; r < RANKS; r++) assert_ok(rota_communicator_close(ranks[r].world, 0));
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_ok(rota_runtime_close(ranks[r].runtime, 0));
        if (ranks[r].options.violations) fail_msg("rank %u: %s", r, ranks[r].options.violation);
    }
}

/* ---- What it comes to ---- */

static void map_all(uint32_t step, uint32_t x, uint32_t x_words, uint32_t y) {
    uint32_t made[WORDS];
    for (uint32_t r = 0; r < RANKS; r++) {
        const map_params params = params_of(r, step);
        for (uint32_t i = 0; i < WORDS; i++) made[i] = folded(ranks[r].words[x], x_words, &params, i);
        memcpy(ranks[r].words[y], made, BYTES);
    }
}

static void reduce_all(uint32_t x, uint32_t y) {
    uint32_t sums[WORDS] = {0};
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < WORDS; i++) sums[i] += ranks[r].words[x][i];
    for (uint32_t r = 0; r < RANKS; r++) memcpy(ranks[r].words[y], sums, BYTES);
}

static void find_expected(void) {
    map_all(0, X, WORDS, A);
    reduce_all(A, B);
    map_all(1, B, WORDS, A);
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t from = 0; from < RANKS; from++)
            memcpy(ranks[r].words[C] + (size_t)from * WORDS, ranks[from].words[A], BYTES);
    map_all(2, C, RANKS * WORDS, D);
    reduce_all(D, D);
    map_all(3, D, WORDS, Y);
    map_all(4, Y, WORDS, B);
    map_all(5, B, WORDS, X);
}

/* ---- Orders ---- */

/* One replay of all ranks, in an order of its own: whether all is as it has to be. A node may fail where an edge is not
 * kept: the communicator notices that two collectives begin at a time. */
static bool is_right(uint64_t seed) {
    uint64_t state = seed;
    uint32_t order[RANKS] = {0, 1, 2}, got[RANKS * WORDS];
    rota_ticket tickets[RANKS];
    bool right = true;
    for (uint32_t r = 0; r < RANKS; r++) {
        atomic_store(&ranks[r].options.seed, seed * RANKS + r);
        for (uint32_t b = 0; b < BUFFERS; b++) {
            for (uint32_t i = 0; i < words_of(b); i++)
                ranks[r].words[b][i] = (uint32_t)(test_random(&state) >> 40);
            assert_ok(rota_buffer_write(ranks[r].buffers[b], NULL, 0, ranks[r].words[b],
                                        4 * (uint64_t)words_of(b), NULL));
        }
    }
    find_expected();
    for (uint32_t r = RANKS; r-- > 0;) {
        const uint32_t pick = test_below(&state, r + 1), last = order[r];
        order[r] = order[pick];
        order[pick] = last;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_ok(rota_submit(ranks[order[r]].plan, NULL, &tickets[order[r]]));
        if (test_below(&state, 2)) test_nap_us(test_below(&state, 400));
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        const rota_status status = rota_wait(tickets[r], 0);
        assert_int_not_equal(status, ROTA_TIMEOUT);
        right &= status == ROTA_OK;
    }
    if (!right) return false;
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t b = 0; b < BUFFERS; b++) {
            assert_ok(rota_buffer_read(ranks[r].buffers[b], 0, got, 4 * (uint64_t)words_of(b)));
            right &= memcmp(got, ranks[r].words[b], 4 * (size_t)words_of(b)) == 0;
        }
    return right;
}

static void any_legal_order_has_the_same_bytes(void **state) {
    (void)state;
    open_ranks();
    for (uint64_t seed = 1; seed <= ORDERS; seed++)
        if (!is_right(seed)) fail_msg("order %llu: other bytes", (unsigned long long)seed);
    close_ranks();
}

#ifndef __SANITIZE_THREAD__
/* The edge of that number, 0: none, of rank `r` is not kept: how many orders it took to see it. */
static uint32_t orders_until_wrong(uint32_t r, uint32_t edge) {
    open_ranks(); /* anew: a communicator of which a collective failed is over */
    ranks[r].options.breaks.edge = edge;
    uint32_t orders = 1;
    while (orders <= SEEDS && is_right(1000 + orders)) orders++;
    close_ranks();
    return orders;
}

static void every_edge_that_is_not_kept_shows(void **state) {
    (void)state;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    open_ranks();
    assert_ok(rota_plan_get_stats(ranks[0].plan, &stats));
    close_ranks();
    assert_true(stats.edges >=
                8); /* nine nodes, each behind another one: six edges lead to or from collectives */
    uint32_t most = 0;
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t edge = 1; edge <= stats.edges; edge++) {
            const uint32_t orders = orders_until_wrong(r, edge);
            if (orders > SEEDS) fail_msg("rank %u without edge %u is right in %d orders", r, edge, SEEDS);
            if (orders > most) most = orders;
        }
    printf("%u edges of each of two ranks, seen in %u orders at most\n", (uint32_t)stats.edges, most);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_legal_order_has_the_same_bytes),
#ifndef __SANITIZE_THREAD__ /* which sees it, too, as the data race that it is */
        cmocka_unit_test(every_edge_that_is_not_kept_shows),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
