/* base: status sentences, arena, slab, clock. */
#include "tests/kit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/owner.h"
#include "base/patience.h"
#include "base/slab.h"
#include "tests/kit/assertion.h"

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

/* A thread looks for long where what it waits for came soon several times in a row, and for few pauses in vain. */
static void patience_follows_pauses(void **state) {
    (void)state;
    enum { LEAST = 10000, SOON = ROTA_PATIENCE_NS, LATE = ROTA_PATIENCE_NS + 1 };
    rota_patience patience = {.cpus = ROTA_PATIENCE_CPUS};
    assert_int_equal(rota_patience_ns(&patience, LEAST), LEAST);
    for (uint32_t i = 0; i < 100; i++) { /* as many late as soon: never */
        rota_patience_learn(&patience, SOON);
        assert_int_equal(rota_patience_ns(&patience, LEAST), LEAST);
        rota_patience_learn(&patience, LATE);
        assert_int_equal(rota_patience_ns(&patience, LEAST), LEAST);
    }
    for (uint32_t i = 0; i < 100; i++) rota_patience_learn(&patience, SOON);
    assert_int_equal(rota_patience_ns(&patience, LEAST), ROTA_PATIENCE_NS);
    assert_int_equal(rota_patience_ns(&patience, 0), ROTA_PATIENCE_NS);
    assert_int_equal(rota_patience_ns(&patience, 2 * ROTA_PATIENCE_NS), 2 * ROTA_PATIENCE_NS);
    uint32_t in_vain = 0;
    for (uint32_t i = 0; i < 100; i++) {
        in_vain += rota_patience_ns(&patience, LEAST) != LEAST;
        rota_patience_learn(&patience, UINT64_MAX);
    }
    assert_int_equal(in_vain, 2);
    for (uint32_t i = 0; i < 100; i++) rota_patience_learn(&patience, SOON);
    for (uint32_t pauses = ROTA_PATIENCE_CROWDED; pauses <= 4 * ROTA_PATIENCE_CROWDED; pauses *= 2) {
        rota_patience_is_crowded(&patience);
        for (uint32_t i = 0; i < pauses; i++) {
            assert_int_equal(rota_patience_ns(&patience, LEAST), LEAST);
            rota_patience_learn(&patience, SOON);
        }
        assert_int_equal(rota_patience_ns(&patience, LEAST), ROTA_PATIENCE_NS);
    }
    rota_patience few = {.soon = ROTA_PATIENCE_SOON_MAX,
                         .cpus = ROTA_PATIENCE_CPUS - 1}; /* who brings it needs them */
    assert_int_equal(rota_patience_ns(&few, LEAST), LEAST);
    rota_patience unasked = {.soon = ROTA_PATIENCE_SOON_MAX};
    (void)rota_patience_ns(&unasked, LEAST);
    assert_int_not_equal(unasked.cpus, 0);
}

/* Who loses the core to one that computes looks no longer, and sleeps at once for some pauses; but looks for as long as
 * the application asked for. Threads that only yield by turns are looked beside. */
static void a_lost_core_ends_looking(void **state) {
    (void)state;
    const uint64_t forever = UINT64_MAX / 4, asked = 500;
    rota_patience patience = {0};
    rota_spin spin = rota_patience_spin(&patience, forever, 0);
    rota_spin_note_others(&spin, ROTA_SPIN_LOST_NS);
    rota_patience_note(&patience, &spin);
    assert_true(spin.is_crowded && rota_spin_yields(&spin));
    assert_true(rota_patience_spin(&patience, forever, 0).limit_ns == forever);
    for (uint32_t pauses = ROTA_PATIENCE_CROWDED, i = 0; i < 10; i++) {
        spin = rota_patience_spin(&patience, forever, 0);
        rota_spin_note_others(&spin, ROTA_SPIN_LOST_NS + 1);
        assert_false(rota_spin_yields(&spin));
        rota_patience_note(&patience, &spin);
        for (uint32_t pause = 0; pause < pauses; pause++) {
            assert_int_equal(rota_patience_spin(&patience, forever, 0).limit_ns, 0);
            assert_int_equal(rota_patience_spin(&patience, forever, asked).limit_ns, asked);
            rota_patience_learn(&patience, UINT64_MAX);
        }
        assert_true(rota_patience_spin(&patience, forever, 0).limit_ns == forever);
        pauses = 2 * pauses < ROTA_PATIENCE_LOST_MAX ? 2 * pauses : ROTA_PATIENCE_LOST_MAX;
    }
    spin = rota_patience_spin(&patience, 2 * forever, forever);
    rota_spin_note_others(&spin, 2 * ROTA_SPIN_LOST_NS);
    assert_true(rota_spin_yields(&spin));
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
    assert_non_null(rota_arena_alloc(&arena, 0, 64));
    rota_arena_free(&arena);
    assert_null(arena.chunks);
    assert_non_null(rota_arena_alloc(&arena, 0, 64)); /* the first one, too */
    rota_arena_free(&arena);
    rota_chunk_cache_trim();
}

/* What was in use at once once is given back by halves; what is used now and then stays. */
static void idle_chunks_are_given_back(void **state) {
    (void)state;
    enum { BLOCKS = 64, USED = 5, BLOCK_BYTES = 1 << 16 };
    void *blocks[BLOCKS];
    size_t usable;
    uint64_t now = 0;
    rota_chunk_cache_trim();
    for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = rota_chunk_alloc(BLOCK_BYTES, &usable));
    for (int i = 0; i < BLOCKS; i++) rota_chunk_free(blocks[i], usable);
    assert_int_equal(rota_chunk_cache_bytes(), BLOCKS * BLOCK_BYTES);
    rota_chunk_cache_sweep(now += ROTA_CHUNK_CACHE_SWEEP_NS);
    assert_int_equal(rota_chunk_cache_bytes(), BLOCKS * BLOCK_BYTES); /* all were needed before it */
    rota_chunk_cache_sweep(now + ROTA_CHUNK_CACHE_SWEEP_NS - 1);
    assert_int_equal(rota_chunk_cache_bytes(), BLOCKS * BLOCK_BYTES);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < USED; i++) blocks[i] = rota_chunk_alloc(BLOCK_BYTES, &usable);
        for (int i = 0; i < USED; i++) rota_chunk_free(blocks[i], usable);
        rota_chunk_cache_sweep(now += ROTA_CHUNK_CACHE_SWEEP_NS);
        if (round == 0)
            assert_int_equal(rota_chunk_cache_bytes(), (BLOCKS - (BLOCKS - USED + 1) / 2) * BLOCK_BYTES);
    }
    assert_int_equal(rota_chunk_cache_bytes(), USED * BLOCK_BYTES);
    for (int round = 0; round < 4; round++) rota_chunk_cache_sweep(now += ROTA_CHUNK_CACHE_SWEEP_NS);
    assert_int_equal(rota_chunk_cache_bytes(), 0);
}

static uint64_t resident_bytes(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %llu", &pages), 1);
    fclose(file);
    return pages * 4096;
}

/* Also while small things live between them. */
static void chunks_go_back_to_the_system(void **state) {
    (void)state;
    enum { BLOCKS = 512, SIZES = 2 };
    static void *blocks[BLOCKS], *between[BLOCKS];
    static const size_t sizes[SIZES] = {1 << 16, 3 << 20};
    for (uint32_t s = 0; s < SIZES; s++) {
        const uint32_t count = s == 0 ? BLOCKS : BLOCKS / 32;
        size_t usable = 0;
        rota_chunk_cache_trim();
        const uint64_t before = resident_bytes();
        for (uint32_t i = 0; i < count; i++) {
            assert_non_null(blocks[i] = rota_chunk_alloc(sizes[s], &usable));
            assert_int_equal((uintptr_t)blocks[i] % (usable < (2 << 20) ? 4096 : 2 << 20), 0);
            memset(blocks[i], 1, usable);
            assert_non_null(between[i] = malloc(100));
        }
        const uint64_t full = resident_bytes();
        for (uint32_t i = 0; i < count; i++) rota_chunk_free(blocks[i], usable);
        rota_chunk_cache_trim();
        const uint64_t after = resident_bytes();
        for (uint32_t i = 0; i < count; i++) free(between[i]);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && !defined __clang__
        assert_true(full >= before + count * (uint64_t)usable);
        assert_true(after < before + count * (uint64_t)usable / 8);
#else
        (void)before, (void)full, (void)after;
#endif
    }
}

static void sizes_near_the_end_are_refused(void **state) {
    (void)state;
    size_t usable;
    for (size_t less = 0; less < ((size_t)1 << 20); less += 4095)
        assert_null(rota_chunk_alloc(SIZE_MAX - less, &usable));
}

enum { SLAB_OBJECTS = 1000, SLAB_ROUNDS = 200, SLAB_THREADS = 4 };

static int by_address(const void *left, const void *right) {
    uintptr_t a = *(const uintptr_t *)left, b = *(const uintptr_t *)right;
    return a < b ? -1 : a > b;
}

/* What was freed is given again, in order of address, and a slab of as many objects as ever doesn't grow. */
static void a_slab_gives_freed_objects_again(void **state) {
    (void)state;
    static rota_slab slab = ROTA_SLAB_INIT;
    static void *objects[SLAB_OBJECTS];
    for (int round = 0; round < SLAB_ROUNDS; round++) {
        for (int i = 0; i < SLAB_OBJECTS; i++) {
            objects[i] = rota_slab_alloc(&slab);
            assert_non_null(objects[i]);
            assert_int_equal((uintptr_t)objects[i] % ROTA_SLAB_OBJECT_BYTES, 0);
            memset(objects[i], round, ROTA_SLAB_OBJECT_BYTES);
        }
        int falls = 0;
        for (int i = 1; i < SLAB_OBJECTS; i++) falls += (uintptr_t)objects[i] < (uintptr_t)objects[i - 1];
#ifndef __SANITIZE_ADDRESS__
        assert_true(slab.block_count * 63 <= SLAB_OBJECTS * 4 / 3 + 63 * 2);
        assert_true(falls <= 10); /* once a chunk, and where the cursor starts over */
#else
        (void)falls;
#endif
        qsort(objects, SLAB_OBJECTS, sizeof *objects, by_address);
        for (int i = 1; i < SLAB_OBJECTS; i++) assert_true(objects[i] != objects[i - 1]);
        /* In another order each time. */
        for (int i = 0; i < SLAB_OBJECTS; i++)
            rota_slab_free(&slab, objects[(i * (10 * round + 3) + round) % SLAB_OBJECTS]);
    }
}

static rota_slab shared_slab = ROTA_SLAB_INIT;

static void *slab_thread(void *argument) {
    uint8_t fill = (uint8_t)(uintptr_t)argument;
    uint8_t *mine[64] = {0};
    uintptr_t wrong = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t **object = &mine[i * 2654435761u >> 26];
        if (*object) {
            for (int k = 0; k < ROTA_SLAB_OBJECT_BYTES; k++) wrong += (*object)[k] != fill;
            rota_slab_free(&shared_slab, *object);
            *object = NULL;
        } else {
            *object = rota_slab_alloc(&shared_slab);
            if (*object) memset(*object, fill, ROTA_SLAB_OBJECT_BYTES);
        }
    }
    for (int i = 0; i < 64; i++) rota_slab_free(&shared_slab, mine[i]);
    return (void *)wrong;
}

static void slab_objects_are_one_threads_at_a_time(void **state) {
    (void)state;
    pthread_t threads[SLAB_THREADS];
    for (uintptr_t t = 0; t < SLAB_THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, slab_thread, (void *)(t + 1)), 0);
    for (int t = 0; t < SLAB_THREADS; t++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[t], &wrong), 0);
        assert_null(wrong);
    }
#ifndef __SANITIZE_ADDRESS__
    assert_true(shared_slab.block_count <= SLAB_THREADS * 64 / 63 * 4 / 3 + 4);
#endif
}

static void deadlines_saturate(void **state) {
    (void)state;
    assert_true(rota_deadline_after(UINT64_MAX) == UINT64_MAX);
    assert_true(rota_deadline_after(1000) >= rota_clock_ns() - 1000000000u);
}

static void *may(void *owner) {
    return rota_owner_may(owner) ? owner : NULL;
}

static bool another_may(rota_owner *owner) {
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, may, owner), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result != NULL;
}

static void one_thread_owns(void **state) {
    (void)state;
    if (!ROTA_ASSERTIONS) skip();
    rota_owner owner = {0};
    assert_true(rota_owner_may(&owner) && another_may(&owner));
    rota_owner_take(&owner);
    assert_true(rota_owner_may(&owner) && !another_may(&owner));
    rota_owner_leave(&owner);
    assert_true(rota_owner_may(&owner) && another_may(&owner));
}

static void break_one(void *computed) {
    rota_assert(*(uint32_t *)computed > 1);
    (void)computed;
}

/* In builds that have assertions a broken one ends the program, and in others it isn't computed. */
static void assertions_end_the_program(void **state) {
    (void)state;
    uint32_t computed = 0;
    rota_assert(++computed == 1);
    assert_int_equal(computed, ROTA_ASSERTIONS);
    assert_int_equal(test_is_an_assertion(break_one, &computed), ROTA_ASSERTIONS);
}

/* Blocks are little larger than asked for, and given back they are there for who asks for any size of their class. */
static void chunks_are_little_larger_than_asked(void **state) {
    (void)state;
    const size_t huge = (size_t)2 << 20;
    rota_chunk_cache_trim();
    for (size_t size = 1; size < (size_t)3 << 30; size += size / 13 + 1) {
        size_t usable, again;
        void *chunk = rota_chunk_alloc(size, &usable);
        assert_non_null(chunk);
        assert_true(usable >= size);
        const size_t most = size <= 4096      ? 4096
                            : size <= huge    ? 2 * size - 1
                            : size / 8 < huge ? size + huge - 1
                                              : size + size / 8;
        if (usable > most) fail_msg("%zu bytes: a chunk of %zu, at most %zu expected", size, usable, most);
        rota_chunk_free(chunk, usable);
        const size_t kept = rota_chunk_cache_bytes();
        assert_int_equal(kept, usable <= (size_t)256 << 20 ? usable : 0);
        chunk = rota_chunk_alloc(usable, &again);
        assert_int_equal(again, usable); /* the class's own size */
        assert_int_equal(rota_chunk_cache_bytes(), 0);
        rota_chunk_free(chunk, again);
        rota_chunk_cache_trim();
    }
}

/* draft-eastlake-fnv's vectors. Files in caches are named so, and hold such checks: other values would disown them. */
static void hashes_are_the_published_ones(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t hash;
        uint32_t hash32;
    } known[] = {{"", UINT64_C(0xcbf29ce484222325), 0x811c9dc5u},
                 {"a", UINT64_C(0xaf63dc4c8601ec8c), 0xe40c292cu},
                 {"foobar", UINT64_C(0x85944171f73967e8), 0xbf9cf968u}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *text = known[i].text;
        const size_t size = strlen(text), half = size / 2;
        const uint64_t begun = rota_hash_bytes(ROTA_HASH_BEGIN, text, half);
        uint32_t hash32 = ROTA_HASH32_BEGIN;
        for (size_t k = 0; k < size; k++) hash32 = rota_hash32_byte(hash32, (uint8_t)text[k]);
        assert_true(rota_hash_text(ROTA_HASH_BEGIN, text) == known[i].hash);
        assert_true(rota_hash_bytes(begun, text + half, size - half) == known[i].hash);
        assert_true(hash32 == known[i].hash32);
    }
    assert_true(rota_hash_mix(UINT64_C(0x9e3779b97f4a7c15)) ==
                UINT64_C(0xe220a8397b1dcdaf));     /* splitmix64's, of 0 */
    assert_true(rota_hash_word(1) == 0x9e3779b9u); /* the upper half of 2^64 over the golden ratio */
    assert_true(rota_hash_pointer((const void *)(uintptr_t)0x30) == rota_hash_word(3));
}

/* What a block is too large by goes back, what is left is a block as any other, and a block that is too large to be
 * kept has all that was kept go back before it. */
static void chunks_shrink_and_make_room(void **state) {
    (void)state;
    enum { WHOLE = 12 << 20, LEFT = 5 << 20 };
    size_t usable, large, again;
    rota_chunk_cache_trim();
    uint8_t *chunk = rota_chunk_alloc(WHOLE, &usable);
    assert_non_null(chunk);
    memset(chunk, 1, usable);
    const uint64_t before = resident_bytes();
    const size_t left = rota_chunk_shrink(chunk, usable, LEFT);
    assert_true(left >= LEFT && left <= usable);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && !defined __clang__
    assert_true(left < LEFT + LEFT / 16);
    assert_true(resident_bytes() + (usable - left) / 2 < before);
#else
    (void)before;
#endif
    for (size_t i = 0; i < left; i += 4096) assert_int_equal(chunk[i], 1);
    assert_int_equal(rota_chunk_shrink(chunk, left, left), left);
    rota_chunk_free(chunk, left);
    assert_int_equal(rota_chunk_cache_bytes(), left);
    chunk = rota_chunk_alloc(left, &again);
    assert_int_equal(again, left);
    rota_chunk_free(chunk, again);
    void *much = rota_chunk_alloc((size_t)300 << 20, &large);
    assert_non_null(much);
    assert_int_equal(rota_chunk_cache_bytes(), 0);
    rota_chunk_free(much, large);
    assert_int_equal(rota_chunk_cache_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_little_larger_than_asked),
        cmocka_unit_test(chunks_shrink_and_make_room),
        cmocka_unit_test(status_names_and_sentences),
        cmocka_unit_test(patience_follows_pauses),
        cmocka_unit_test(a_lost_core_ends_looking),
        cmocka_unit_test(arena_blocks_are_aligned_and_disjoint),
        cmocka_unit_test(idle_chunks_are_given_back),
        cmocka_unit_test(chunks_go_back_to_the_system),
        cmocka_unit_test(sizes_near_the_end_are_refused),
        cmocka_unit_test(a_slab_gives_freed_objects_again),
        cmocka_unit_test(slab_objects_are_one_threads_at_a_time),
        cmocka_unit_test(deadlines_saturate),
        cmocka_unit_test(one_thread_owns),
        cmocka_unit_test(assertions_end_the_program),
        cmocka_unit_test(hashes_are_the_published_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
