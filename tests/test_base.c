/* base: status sentences, arena, clock. */
#include "tests/support.h"

#include <string.h>
#include "base/arena.h"
#include "base/clock.h"

static void status_names_and_sentences(void **state) {
    (void)state;
    assert_string_equal(rota_status_name(ROTA_OUT_OF_RANGE), "OUT_OF_RANGE");
    assert_string_equal(rota_status_name((rota_status)999), "UNKNOWN");
    assert_int_equal(rota_fail(ROTA_OUT_OF_RANGE, "offset %d of '%s'", 7, "x"), ROTA_OUT_OF_RANGE);
    assert_string_equal(rota_last_error(), "offset 7 of 'x'");
    assert_int_equal(rota_fail_context(ROTA_OUT_OF_RANGE, "node '%s': ", "n"), ROTA_OUT_OF_RANGE);
    assert_string_equal(rota_last_error(), "node 'n': offset 7 of 'x'");
    (void)rota_fail(ROTA_SYSTEM, "again: %s", rota_last_error());
    assert_string_equal(rota_last_error(), "again: node 'n': offset 7 of 'x'");
}

static void arena_blocks_are_aligned_and_disjoint(void **state) {
    (void)state;
    rota_arena arena = ROTA_ARENA_INIT;
    uint8_t *blocks[1000];
    for (int i = 0; i < 1000; i++) {
        size_t size = (size_t)(i * 37 % 5000 + 1);
        blocks[i] = rota_arena_alloc(&arena, size, 64);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], i & 0xff, size);
    }
    for (int i = 0; i < 1000; i++)
        for (int k = 0; k < i * 37 % 5000 + 1; k++) assert_int_equal(blocks[i][k], i & 0xff);
    rota_arena_free(&arena);
    assert_null(arena.chunks);
    rota_chunk_cache_trim();
}

static void sizes_near_the_end_are_refused(void **state) {
    (void)state;
    size_t usable;
    for (size_t less = 0; less < ((size_t)1 << 20); less += 4095)
        assert_null(rota_chunk_alloc(SIZE_MAX - less, &usable));
}

static void deadlines_saturate(void **state) {
    (void)state;
    assert_true(rota_deadline_after(UINT64_MAX) == UINT64_MAX);
    assert_true(rota_deadline_after(1000) >= rota_clock_ns() - 1000000000u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names_and_sentences),
        cmocka_unit_test(arena_blocks_are_aligned_and_disjoint),
        cmocka_unit_test(sizes_near_the_end_are_refused),
        cmocka_unit_test(deadlines_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
