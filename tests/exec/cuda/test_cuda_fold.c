/* The order of a CUDA graph's nodes (exec/cuda/cuda_fold.h): enough for every edge of the description, and
 * few branches. */
#include "tests/kit/support.h"
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "exec/cuda/cuda_fold.h"

#define MOST 300u

typedef struct random_dag {
    uint32_t count;
    bool edge[MOST][MOST];
    uint32_t first[MOST + 1], successor[MOST * MOST], predecessors[MOST];
    rota_exec_program_desc desc;
    rota_exec_segment segment;
} random_dag;

static void describe(random_dag *dag) {
    uint32_t edge = 0;
    memset(dag->predecessors, 0, sizeof dag->predecessors);
    for (uint32_t i = 0; i < dag->count; i++) {
        dag->first[i] = edge;
        for (uint32_t j = i + 1; j < dag->count; j++)
            if (dag->edge[i][j]) {
                dag->successor[edge++] = j;
                dag->predecessors[j]++;
            }
    }
    dag->first[dag->count] = edge;
    dag->desc = (rota_exec_program_desc){.command_count = dag->count,
                                         .first_successor = dag->first,
                                         .successor = dag->successor,
                                         .predecessor_count = dag->predecessors};
    dag->segment = (rota_exec_segment){.command_count = dag->count};
}

/* Every command with its number before it, and whoever it waits for: reached by the fold's own orders. */
static void check(const random_dag *dag, uint32_t lanes, uint32_t *out_edges) {
    static bool before[MOST][MOST];
    rota_cuda_fold fold;
    assert_ok(rota_cuda_fold_create(&dag->desc, &dag->segment, lanes, &fold));
    assert_int_equal(fold.count, dag->count);
    memset(before, 0, sizeof before);
    uint32_t most = 1;
    for (uint32_t i = 0; i < dag->count; i++) {
        uint32_t waits = fold.first[i + 1] - fold.first[i];
        if (waits > most) most = waits;
        for (uint32_t e = fold.first[i]; e < fold.first[i + 1]; e++) {
            uint32_t p = fold.before[e];
            assert_true(p < i);
            assert_false(before[p][i]); /* named twice, or implied by one named before */
            before[p][i] = true;
            for (uint32_t q = 0; q < p; q++) before[q][i] = before[q][i] || before[q][p];
        }
        for (uint32_t p = 0; p < i; p++)
            if (dag->edge[p][i] && !before[p][i]) fail_msg("%u of %u does not wait for %u", i, dag->count, p);
    }
    assert_int_equal(most, fold.most);
    /* No more commands side by side than lanes: every antichain is in different lanes, so that among any
     * lanes + 1 commands in a row of numbers two are ordered. */
    for (uint32_t i = 0; i + lanes < dag->count; i++) {
        bool ordered = false;
        for (uint32_t a = i; a <= i + lanes && !ordered; a++)
            for (uint32_t b = a + 1; b <= i + lanes && !ordered; b++) ordered = before[a][b];
        assert_true(ordered);
    }
    if (out_edges) *out_edges = fold.first[dag->count];
    rota_cuda_fold_free(&fold);
}

static void test_random_dags(void **state) {
    (void)state;
    random_dag *dag = calloc(1, sizeof *dag);
    assert_non_null(dag);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t random = seed;
        dag->count = 1 + test_below(&random, seed % 10 == 0 ? MOST - 1 : 60);
        uint32_t sparse = 1 + test_below(&random, dag->count), reach = 1 + test_below(&random, dag->count);
        memset(dag->edge, 0, sizeof dag->edge);
        for (uint32_t i = 0; i < dag->count; i++)
            for (uint32_t j = i + 1; j < dag->count && j <= i + reach; j++)
                dag->edge[i][j] = test_below(&random, sparse) == 0;
        describe(dag);
        for (uint32_t lanes = 1; lanes <= 8; lanes++) check(dag, lanes, NULL);
    }
    free(dag);
}

static void test_shapes(void **state) {
    (void)state;
    random_dag *dag = calloc(1, sizeof *dag);
    assert_non_null(dag);
    uint32_t edges;
    dag->count = MOST;
    describe(dag); /* no edges: a wide segment becomes lanes */
    check(dag, ROTA_CUDA_LANES, &edges);
    assert_int_equal(edges, MOST - ROTA_CUDA_LANES);
    for (uint32_t i = 0; i + 1 < MOST; i++) dag->edge[i][i + 1] = true;
    describe(dag); /* a chain stays one */
    check(dag, ROTA_CUDA_LANES, &edges);
    assert_int_equal(edges, MOST - 1);
    /* Batches of 50, each after all of the one before: edges between lanes, not between all. */
    memset(dag->edge, 0, sizeof dag->edge);
    for (uint32_t i = 0; i < MOST; i++)
        for (uint32_t j = 0; j < MOST; j++) dag->edge[i][j] = j / 50 == i / 50 + 1;
    describe(dag);
    check(dag, ROTA_CUDA_LANES, &edges);
    assert_true(edges <= MOST + 6 * ROTA_CUDA_LANES * ROTA_CUDA_LANES);
    /* Two chains that never meet stay apart. */
    memset(dag->edge, 0, sizeof dag->edge);
    for (uint32_t i = 0; i + 2 < MOST; i++) dag->edge[i][i + 2] = true;
    describe(dag);
    check(dag, ROTA_CUDA_LANES, &edges);
    assert_int_equal(edges, MOST - 2);
    dag->count = 0;
    describe(dag);
    check(dag, ROTA_CUDA_LANES, &edges);
    assert_int_equal(edges, 0);
    free(dag);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_dags), cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
