/* Products in shares on Hopper: every stage of every tile is added up once, by blocks that have about the same to do,
 * and an owner fetches the parts that were given, in the order of the sum, from blocks before it. */
#include "tests/kit/support.h"

#include <stdlib.h>
#include "ops/cuda/matmul_shares_sm90.h"
#include "ops/cuda/matmul_shares_walk.h"

typedef struct part {
    uint32_t tile, first, steps, giver;
} part;

static uint32_t stages_of(const rota_matmul_params *p) {
    return (p->k + ROTA_MATMUL_SM90_STEP - 1) / ROTA_MATMUL_SM90_STEP;
}

/* A block's stretches: notes the parts that it gives, and asks for those that it fetches, which are there: all before
 * it have been looked at. */
static uint32_t walk_block(rota_matmul_shares_walk *w, part *parts, uint32_t *summed, uint32_t steps) {
    uint32_t all = 0;
    for (; rota_matmul_shares_next(w); all += w->steps) {
        assert_true(w->steps > 0 && w->first + w->steps <= steps);
        if (w->gives) {
            assert_true(w->part < w->blocks && parts[w->part].steps == 0);
            parts[w->part] = (part){w->number, w->first, w->steps, w->block};
            continue;
        }
        uint32_t helper = 0, sum = w->steps;
        const uint32_t count = w->fetches ? rota_matmul_shares_parts(w, &helper) : 0;
        assert_int_equal(w->first, 0);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t which = rota_matmul_shares_part(w, helper, i);
            assert_true(which < w->blocks && parts[which].tile == w->number && parts[which].giver < w->block);
            assert_int_equal(parts[which].first, sum);
            sum += parts[which].steps;
            parts[which].tile = UINT32_MAX; /* nobody else's */
        }
        assert_int_equal(sum, steps);
        summed[w->number]++;
    }
    return all;
}

/* False: it isn't divided. */
static bool check_shares(const rota_matmul_params *p, uint32_t rows, uint32_t columns,
                         uint32_t multiprocessors) {
    rota_matmul_shares shares;
    const uint32_t tiles = ((p->m + rows - 1) / rows) * ((p->n + columns - 1) / columns),
                   steps = stages_of(p);
    if (!rota_matmul_share(p, rows, columns, multiprocessors, &shares)) return false;
    assert_true(shares.blocks > 0 && shares.blocks <= multiprocessors && shares.own > 0 &&
                shares.own < steps);
    part *parts = calloc(shares.blocks, sizeof *parts);
    uint32_t *summed = calloc(tiles, sizeof *summed);
    assert_true(parts && summed);
    const uint64_t all = (uint64_t)tiles * steps, most = (uint64_t)tiles / shares.blocks * steps + shares.own;
    uint64_t sum = 0;
    for (uint32_t block = 0; block < shares.blocks; block++) {
        rota_matmul_shares_walk walk;
        rota_matmul_shares_begin(&walk, tiles, steps, shares.own, block, shares.blocks);
        const uint32_t stages = walk_block(&walk, parts, summed, steps);
        assert_in_range(stages, 1, most);
        sum += stages;
    }
    assert_int_equal(sum, all);
    for (uint32_t t = 0; t < tiles; t++) assert_int_equal(summed[t], 1);
    for (uint32_t i = 0; i < shares.blocks; i++)
        assert_true(parts[i].steps == 0 || parts[i].tile == UINT32_MAX);
    free(parts);
    free(summed);
    return true;
}

static void test_walk(void **state) {
    (void)state;
    uint32_t seed = 1, divided = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t size[4];
        for (int j = 0; j < 4; j++) {
            seed = seed * 1664525u + 1013904223u;
            size[j] = 1 + (seed >> 8) % (j == 3 ? 200 : 1u << (4 + (seed >> 4) % 9));
        }
        const rota_matmul_params p = {.m = size[0] * 2, .n = size[1] * 2, .k = size[2] * 8};
        divided += check_shares(&p, 128, i % 2 ? 128 : 256, size[3]);
    }
    assert_true(divided > 5000);
}

static void test_shares(void **state) {
    (void)state;
    rota_matmul_shares shares;
    rota_matmul_params p = {.m = 768, .n = 2304, .k = 4096};
    /* 108 tiles of 64 stages each for 132 multiprocessors. */
    assert_true(rota_matmul_share(&p, 128, 128, 132, &shares));
    assert_int_equal(shares.blocks, 132);
    assert_int_equal(shares.own, 55);
    assert_float_equal(shares.rounds, (55 + 3 + 2 * 4) / 64.0, 1e-9);
    /* Two for each of 64 tiles, none of three for another. */
    p.n = 3072;
    assert_true(rota_matmul_share(&p, 192, 192, 132, &shares));
    assert_int_equal(shares.blocks, 128);
    assert_int_equal(shares.own, 32);
    /* Nothing idles; too little for two; nothing at all. */
    p.n = 2304;
    assert_false(rota_matmul_share(&p, 128, 128, 108, &shares));
    assert_false(rota_matmul_share(&p, 128, 128, 54, &shares));
    p = (rota_matmul_params){.m = 128, .n = 128, .k = 256};
    assert_false(rota_matmul_share(&p, 128, 128, 132, &shares));
    p.k = 0;
    assert_false(rota_matmul_share(&p, 128, 128, 132, &shares));
    /* One tile. */
    p.k = 4096;
    assert_true(rota_matmul_share(&p, 128, 128, 132, &shares));
    assert_int_equal(shares.blocks, 16);
    assert_int_equal(shares.own, 4);
    /* The largest that there is. */
    p = (rota_matmul_params){.m = UINT32_MAX, .n = UINT32_MAX, .k = UINT32_MAX};
    assert_false(rota_matmul_share(&p, 128, 128, 131, &shares));
}

static void test_rows(void **state) {
    (void)state;
    const uint32_t row = rota_matmul_shares_row(4096);
    assert_true(row < ROTA_MATMUL_SHARES_ROWS);
    bool taken[ROTA_MATMUL_SHARES_ROWS] = {false};
    for (uint64_t i = 1; i <= ROTA_MATMUL_SHARES_ROWS; i++) {
        const uint32_t of = rota_matmul_shares_row(i * 4096);
        assert_true(of < ROTA_MATMUL_SHARES_ROWS && !taken[of]);
        taken[of] = true;
    }
    assert_int_equal(rota_matmul_shares_row(4096), row);
    assert_int_equal(rota_matmul_shares_row(16), ROTA_MATMUL_SHARES_ROWS); /* no row is left */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
