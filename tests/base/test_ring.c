/* base/ring_spsc.h: what is put comes out in its order, once, also where its positions wrap; a ring of so many cells
 * holds one less; and two threads, of which the one sleeps while there is nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/ring_spsc.h"
#include "base/sleep.h"

enum { CELLS = 8, MOST = CELLS - 1 };

typedef struct ring_fixture {
    rota_ring_spsc ring;
    rota_ring_cell cells[CELLS];
} ring_fixture;

/* An empty ring, out of which so many were taken. */
static void begin_at(ring_fixture *f, uint32_t position) {
    memset((void *)f, 0, sizeof *f);
    rota_ring_begin_spsc(&f->ring, f->cells, CELLS);
#ifdef ROTA_ATOMICS_ARE_SEEN
    atomic_init(&f->ring.taken, position);
    atomic_init(&f->ring.put, position);
#else
    f->ring.kit.c_head = f->ring.kit.p_tail = position;
#endif
}

static void *named(uintptr_t number) {
    return (void *)(number + 1);
}

static void expect_count(ring_fixture *f, uint32_t count) {
    assert_int_equal(rota_ring_count_spsc(&f->ring), count);
    assert_int_equal(rota_ring_is_empty_spsc(&f->ring), count == 0);
    assert_int_equal(rota_ring_seems_empty_spsc(&f->ring), count == 0);
}

static void in_their_order(void **state) {
    (void)state;
    static ring_fixture f;
    const uint32_t begins[] = {0, 5, UINT32_MAX - MOST, UINT32_MAX - 3, UINT32_MAX};
    for (size_t b = 0; b < sizeof begins / sizeof *begins; b++)
        for (uint32_t filled = 0; filled <= MOST; filled++) {
            begin_at(&f, begins[b]);
            uintptr_t put = 0, taken = 0;
            for (; put < filled; put++) assert_true(rota_ring_put_spsc(&f.ring, named(put)));
            for (uint32_t round = 0; round < 3 * CELLS; round++) {
                expect_count(&f, filled);
                const bool has_room = filled < MOST;
                assert_int_equal(rota_ring_put_spsc(&f.ring, named(put)), has_room);
                put += has_room;
                assert_ptr_equal(rota_ring_take_spsc(&f.ring), named(taken));
                taken++;
                if (has_room) continue;
                assert_true(rota_ring_put_spsc(&f.ring, named(put)));
                put++;
            }
            for (; taken < put; taken++) assert_ptr_equal(rota_ring_take_spsc(&f.ring), named(taken));
            assert_null(rota_ring_take_spsc(&f.ring));
            expect_count(&f, 0);
        }
}

/* ---- Two threads ---- */

enum { PIECES = 200000 };

typedef struct hand_off {
    ring_fixture f;
    rota_sleeper sleeper;
    uint64_t content[PIECES];
} hand_off;

/* As a submit thread does (sched/runtime/submitter/thread.c): looks, and where there is nothing sleeps. What it is not
 * woken for it does not get before the test is over. */
static void *consume(void *user) {
    hand_off *h = user;
    const uint64_t deadline = rota_deadline_after(60000000000u);
    uintptr_t taken = 0;
    while (taken < PIECES && rota_clock_ns() < deadline) {
        uint32_t left = rota_ring_count_spsc(&h->f.ring);
        for (; left != 0; left--) {
            if (rota_ring_take_spsc(&h->f.ring) != named(taken) || h->content[taken] != taken + 1)
                return NULL;
            taken++;
        }
        if (taken == PIECES) break;
        rota_sleeper_prepare(&h->sleeper);
        if (rota_ring_is_empty_spsc(&h->f.ring))
            rota_sleeper_wait(&h->sleeper, deadline);
        else
            rota_sleeper_cancel(&h->sleeper);
    }
    return taken == PIECES ? h : NULL;
}

static void a_sleeper_is_woken(void **state) {
    (void)state;
    static hand_off h;
    for (uint32_t batch = 1; batch <= 4; batch += 3) {
        memset((void *)&h, 0, sizeof h);
        begin_at(&h.f, UINT32_MAX - 1000);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, consume, &h), 0);
        const uint64_t deadline = rota_deadline_after(60000000000u);
        for (uintptr_t put = 0; put < PIECES;) {
            for (uint32_t i = 0; i < batch && put < PIECES; i++) {
                h.content[put] = put + 1;
                if (!rota_ring_put_spsc(&h.f.ring, named(put))) break;
                put++;
            }
            if (rota_clock_ns() > deadline) break;
            if (rota_ring_seems_empty_spsc(&h.f.ring)) continue; /* all of it was taken */
            rota_ring_announce_spsc(&h.f.ring);
            rota_sleeper_wake(&h.sleeper);
        }
        void *result;
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, &h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_their_order),
        cmocka_unit_test(a_sleeper_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
