/* Marks of failed ranges: random marks, searches and removals against a plain list. */
#include "sched/runtime/shared/marks.h"

#include <stdlib.h>
#include <time.h>
#include "tests/kit/random.h"
#include "tests/kit/support.h"

enum { MARKS = 400, OBJECTS = 3, SPACE = 1000, STEPS = 20000 };

typedef struct listed {
    rota_mark mark;
    bool in;
} listed;

static rota_memory_range random_range(uint64_t *random, const char *objects) {
    uint64_t begin = test_below(random, SPACE);
    uint64_t size = 1 + test_below(random, test_below(random, 4) == 0 ? SPACE : 20);
    return (rota_memory_range){.of = objects + test_below(random, OBJECTS),
                               .part = test_below(random, 2),
                               .memory = test_below(random, 2),
                               .begin = begin,
                               .end = begin + size,
                               .copies = 1 + test_below(random, 7)};
}

static rota_moment random_turn(uint64_t *random) {
    return (rota_moment){1 + test_below(random, 25), test_below(random, 2)};
}

static bool not_after(rota_moment a, rota_moment b) {
    return a.number < b.number || (a.number == b.number && a.step <= b.step);
}

static bool same_memory(const rota_memory_range *a, const rota_memory_range *b) {
    return a->of == b->of && a->part == b->part && a->memory == b->memory;
}
static bool overlap(const rota_memory_range *a, const rota_memory_range *b) {
    return same_memory(a, b) && a->begin < b->end && b->begin < a->end && (a->copies & b->copies) != 0;
}

/* Wants exactly the listed marks that overlap, or with `whole` are of the same buffer, and takes them off the
 * list. */
static void expect_taken(listed *all, rota_mark *taken, const rota_memory_range *where, rota_moment turn,
                         bool whole) {
    uint32_t expected = 0, count = 0;
    for (uint32_t i = 0; i < MARKS; i++)
        expected +=
            all[i].in && (whole ? all[i].mark.range.of == where->of
                                : overlap(&all[i].mark.range, where) && not_after(all[i].mark.turn, turn));
    for (; taken; taken = taken->left, count++) {
        listed *entry = (listed *)taken;
        assert_true(entry->in);
        assert_true(whole ? taken->range.of == where->of
                          : overlap(&taken->range, where) && not_after(taken->turn, turn));
        entry->in = false;
    }
    assert_int_equal(count, expected);
}

static void marks_agree_with_a_list(void **state) {
    (void)state;
    static listed all[MARKS];
    static const char objects[OBJECTS];
    uint64_t random = 11;
    rota_mark *root = NULL;
    for (uint32_t step = 0; step < STEPS; step++) {
        rota_memory_range where = random_range(&random, objects);
        rota_moment turn = random_turn(&random);
        listed *entry = &all[test_below(&random, MARKS)];
        if (!entry->in) {
            entry->mark = (rota_mark){.range = where, .turn = turn};
            rota_marks_put(&root, &entry->mark);
            entry->in = true;
        }
        where = random_range(&random, objects);
        turn = random_turn(&random);
        const rota_mark *oldest = rota_marks_oldest(root, &where, turn);
        const rota_mark *expected = NULL;
        bool covered = false;
        for (uint32_t i = 0; i < MARKS; i++) {
            const rota_mark *mark = &all[i].mark;
            if (!all[i].in || !same_memory(&mark->range, &where)) continue;
            covered |= mark->turn.number == turn.number && mark->turn.step == turn.step &&
                       mark->range.begin <= where.begin && mark->range.end >= where.end &&
                       (mark->range.copies & where.copies) == where.copies;
            if (overlap(&mark->range, &where) && not_after(mark->turn, turn) &&
                (!expected || !not_after(expected->turn, mark->turn)))
                expected = mark;
        }
        assert_int_equal(oldest != NULL, expected != NULL);
        if (oldest) {
            assert_true(overlap(&oldest->range, &where));
            assert_int_equal(oldest->turn.number, expected->turn.number);
            assert_int_equal(oldest->turn.step, expected->turn.step);
        }
        assert_int_equal(rota_marks_cover(root, &where, turn), covered);
        uint32_t choice = test_below(&random, 20);
        const rota_moment none = {0, 0};
        if (choice == 0) expect_taken(all, rota_marks_take_of(&root, where.of), &where, none, true);
        if (choice > 16) expect_taken(all, rota_marks_take(&root, &where, turn), &where, turn, false);
    }
    for (uint32_t p = 0; p < OBJECTS; p++) {
        rota_memory_range where = {.of = objects + p};
        expect_taken(all, rota_marks_take_of(&root, where.of), &where, (rota_moment){0, 0}, true);
    }
    assert_null(root);
}

static uint64_t thread_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* As many replays leave one mark each of one range, and who comes after each asks for the oldest. */
static double mark_and_ask_ns(rota_mark *marks, uint32_t count) {
    static const char object;
    const rota_memory_range where = {.of = &object, .end = 64, .copies = 1};
    rota_mark *root = NULL;
    const uint64_t begin = thread_ns();
    for (uint32_t i = 0; i < count; i++) {
        const rota_moment turn = {i + 1, 1};
        assert_false(rota_marks_cover(root, &where, turn));
        marks[i] = (rota_mark){.range = where, .turn = turn};
        rota_marks_put(&root, &marks[i]);
        assert_true(rota_marks_cover(root, &where, turn));
        assert_ptr_equal(rota_marks_oldest(root, &where, turn), &marks[0]);
        assert_null(rota_marks_take(&root, &where, (rota_moment){1, 0}));
    }
    return (double)(thread_ns() - begin);
}

/* 8 times as many of one range take 8 to 11 times as long; were each looked at for each, 64 times. */
static void a_range_may_have_many_marks(void **state) {
    (void)state;
    enum { FEW = 4096, MANY_MARKS = 8 * FEW, TIMES = 3 };
    rota_mark *marks = malloc(MANY_MARKS * sizeof *marks);
    assert_non_null(marks);
    double few = 1e18, many = 1e18;
    for (uint32_t i = 0; i < TIMES; i++) {
        const double few_ns = mark_and_ask_ns(marks, FEW), many_ns = mark_and_ask_ns(marks, MANY_MARKS);
        if (few_ns < few) few = few_ns;
        if (many_ns < many) many = many_ns;
    }
    free(marks);
    if (many > 25 * few) fail_msg("%.1f ms, and of 8 times as many marks %.1f ms", few * 1e-6, many * 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(marks_agree_with_a_list),
                                       cmocka_unit_test(a_range_may_have_many_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
