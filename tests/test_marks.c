/* Marks of failed ranges: random marks, searches and removals against a plain list. */
#include "sched/marks.h"

#include <stdlib.h>
#include "tests/random.h"
#include "tests/support.h"

enum { MARKS = 400, PLACES = 3, SPACE = 1000, STEPS = 20000 };

typedef struct listed {
    rota_mark mark;
    bool in;
} listed;

static rota_place random_place(uint64_t *random, const char *places) {
    uint64_t begin = test_below(random, SPACE);
    uint64_t size = 1 + test_below(random, test_below(random, 4) == 0 ? SPACE : 20);
    return (rota_place){places + test_below(random, PLACES), test_below(random, 2), test_below(random, 2),
                        begin, begin + size};
}

static bool same_memory(const rota_place *a, const rota_place *b) {
    return a->of == b->of && a->part == b->part && a->memory == b->memory;
}
static bool overlap(const rota_place *a, const rota_place *b) {
    return same_memory(a, b) && a->begin < b->end && b->begin < a->end;
}

/* Wants exactly the listed marks that overlap, or with `whole` are of the same buffer, and takes them off the
 * list. */
static void expect_taken(listed *all, rota_mark *taken, const rota_place *where, uint64_t number,
                         bool whole) {
    uint32_t expected = 0, count = 0;
    for (uint32_t i = 0; i < MARKS; i++)
        expected += all[i].in && (whole ? all[i].mark.place.of == where->of
                                        : overlap(&all[i].mark.place, where) && all[i].mark.number <= number);
    for (; taken; taken = taken->left, count++) {
        listed *entry = (listed *)taken;
        assert_true(entry->in);
        assert_true(whole ? taken->place.of == where->of
                          : overlap(&taken->place, where) && taken->number <= number);
        entry->in = false;
    }
    assert_int_equal(count, expected);
}

static void marks_agree_with_a_list(void **state) {
    (void)state;
    static listed all[MARKS];
    static const char places[PLACES];
    uint64_t random = 11;
    rota_mark *root = NULL;
    for (uint32_t step = 0; step < STEPS; step++) {
        rota_place where = random_place(&random, places);
        uint64_t number = 1 + test_below(&random, 50);
        listed *entry = &all[test_below(&random, MARKS)];
        if (!entry->in) {
            entry->mark = (rota_mark){.place = where, .number = number};
            rota_marks_put(&root, &entry->mark);
            entry->in = true;
        }
        where = random_place(&random, places);
        const rota_mark *oldest = rota_marks_oldest(root, &where, number);
        uint64_t lowest = UINT64_MAX;
        bool covered = false;
        for (uint32_t i = 0; i < MARKS; i++) {
            const rota_mark *mark = &all[i].mark;
            if (!all[i].in || !same_memory(&mark->place, &where)) continue;
            covered |=
                mark->number == number && mark->place.begin <= where.begin && mark->place.end >= where.end;
            if (mark->number < number && mark->number < lowest && overlap(&mark->place, &where))
                lowest = mark->number;
        }
        assert_int_equal(oldest ? oldest->number : UINT64_MAX, lowest);
        assert_int_equal(rota_marks_cover(root, &where, number), covered);
        uint32_t choice = test_below(&random, 20);
        if (choice == 0) expect_taken(all, rota_marks_take_of(&root, where.of), &where, 0, true);
        if (choice > 16) expect_taken(all, rota_marks_take(&root, &where, number), &where, number, false);
    }
    for (uint32_t p = 0; p < PLACES; p++) {
        rota_place where = {places + p, 0, 0, 0, 0};
        expect_taken(all, rota_marks_take_of(&root, where.of), &where, 0, true);
    }
    assert_null(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(marks_agree_with_a_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
