/* Which argument words count as staying the same (exec/common/steady.h). */
#include "tests/kit/support.h"
#include <string.h>
#include "exec/common/steady.h"

enum { WORDS = 4 };

static const rota_steady_rules rules = {.patience = 2, .pays = 4, .readers_least = 64, .readers_share = 4};

static void look(rota_steady *s, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    const uint64_t block[WORDS] = {a, b, c, d};
    rota_steady_look(s, block);
}

static uint32_t turned(const rota_steady *s, uint32_t word) {
    uint32_t times = 0;
    for (uint32_t i = 0; i < s->turned_count; i++) times += s->turned[i] == word;
    return times;
}

/* A word is steady with the third launch that gives its value, and loose with the next that gives another; what
 * nobody reads asks for nothing. */
static void test_turns(void **state) {
    (void)state;
    static const uint32_t first_reader[WORDS + 1] = {0, 1, 3, 3, 4};
    rota_steady s;
    assert_ok(rota_steady_create(WORDS, first_reader, &rules, &s));
    assert_int_equal(s.loose_count, 3);
    for (uint32_t launch = 1; launch <= 3; launch++) {
        look(&s, 5, 0, launch, launch); /* 0 counts like any other value */
        assert_int_equal(s.turned_count, launch == 3 ? 2 : 0);
    }
    assert_true(turned(&s, 0) && turned(&s, 1));
    assert_true(rota_steady_is(&s, 0) && rota_steady_is(&s, 1) && rota_steady_is(&s, 2));
    assert_false(rota_steady_is(&s, 3));
    assert_int_equal(s.loose_count, 1);
    look(&s, 5, 7, 100, 3);
    assert_int_equal(s.turned_count, 1);
    assert_int_equal(turned(&s, 1), 1);
    assert_false(rota_steady_is(&s, 1));
    look(&s, 5, 7, 101, 3);
    assert_int_equal(turned(&s, 3), 1);
    rota_steady_free(&s);
}

/* How many of so many launches rewrite something, of a word that changes with every `period`th. */
static uint32_t rewritten(uint32_t period, uint32_t launches) {
    static const uint32_t first_reader[WORDS + 1] = {0, 1, 1, 1, 1};
    uint32_t count = 0;
    rota_steady s;
    assert_ok(rota_steady_create(WORDS, first_reader, &rules, &s));
    for (uint32_t i = 0; i < launches; i++) {
        look(&s, i / period, 0, 0, 0);
        count += s.turned_count;
        assert_int_equal(s.values[0], i / period);
    }
    rota_steady_free(&s);
    return count;
}

/* Rewriting stays rare whatever changes when: a word that it doesn't pay for waits longer each time. */
static void test_patience(void **state) {
    (void)state;
    assert_int_equal(rewritten(1, 4000), 0);
    assert_int_equal(rewritten(4000, 4000), 1);
    assert_int_equal(rewritten(100, 4000), 79);
    for (uint32_t period = 2; period < 6; period++) assert_in_range(rewritten(period, 4000), 0, 8);
    for (uint32_t period = 6; period < 300; period++)
        assert_in_range(rewritten(period, 4000), 1, 2 * 4000 / period + 2);
}

/* Many readers learn of a value over several launches; a word that has them all has them at once. */
static void test_share(void **state) {
    (void)state;
    enum { MANY = 1000 };
    static uint32_t first_reader[MANY + 1];
    static uint64_t block[MANY];
    rota_steady s;
    for (uint32_t w = 0; w <= MANY; w++) first_reader[w] = w;
    assert_ok(rota_steady_create(MANY, first_reader, &rules, &s));
    uint32_t most = 0, launches = 0;
    for (; s.loose_count; launches++) {
        rota_steady_look(&s, block);
        if (s.turned_count > most) most = s.turned_count;
    }
    assert_int_equal(most, MANY / 4);
    assert_int_equal(launches, 6);
    /* Loose again at once. */
    memset(block, 1, sizeof block);
    rota_steady_look(&s, block);
    assert_int_equal(s.turned_count, MANY);
    assert_int_equal(s.loose_count, MANY);
    rota_steady_free(&s);
    static const uint32_t all[2] = {0, 100000};
    assert_ok(rota_steady_create(1, all, &rules, &s));
    for (uint32_t i = 0; i < 3; i++) rota_steady_look(&s, block);
    assert_true(rota_steady_is(&s, 0));
    rota_steady_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns), cmocka_unit_test(test_patience),
                                       cmocka_unit_test(test_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
