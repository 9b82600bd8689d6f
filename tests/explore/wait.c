/* Sleeping on a flag and on a timeline's value (base/sleep.c). */
#include <string.h>

#include "base/atomic.h"
#include "base/futex.h"
#include "base/sleep.h"
#include "explore.h"

/* ---- A thread that sleeps while it has nothing to do, and those who give it work ---- */

static rota_sleeper sleeper;
enum { PIECES = 2, GIVERS = 2 };
static _Atomic uint32_t work[GIVERS * PIECES];
static uint32_t content[GIVERS * PIECES];

static void begin_sleeper(void) {
    ra_store_relaxed(&sleeper.asleep, 0);
    for (unsigned i = 0; i < GIVERS * PIECES; i++) ra_store_relaxed(&work[i], 0);
    explore_name(&sleeper.asleep, 4, "asleep");
    explore_name(work, sizeof work, "work");
}

/* As sched/runtime/sequencer/sequencer.c: a look, and where there is nothing another one before it sleeps. */
static void serve(unsigned givers) {
    uint32_t taken[GIVERS] = {0};
    for (;;) {
        bool is_done = true;
        for (unsigned g = 0; g < givers; g++) {
            while (taken[g] < PIECES && ra_load_seq_cst(&work[g * PIECES + taken[g]])) {
                explore_check(content[g * PIECES + taken[g]] == g + 1,
                              "the work is not that which was given");
                taken[g]++;
            }
            is_done &= taken[g] == PIECES;
        }
        if (is_done) return;
        rota_sleeper_prepare(&sleeper);
        bool is_work = false;
        for (unsigned g = 0; g < givers; g++)
            is_work |= taken[g] < PIECES && ra_load_seq_cst(&work[g * PIECES + taken[g]]);
        if (is_work)
            rota_sleeper_cancel(&sleeper);
        else
            rota_sleeper_wait(&sleeper, UINT64_MAX);
    }
}

static void serve_one(void) {
    serve(1);
}
static void serve_two(void) {
    serve(2);
}

static void give_pieces(void) {
    const unsigned giver = explore_self() - 1;
    for (unsigned i = giver * PIECES; i < (giver + 1) * PIECES; i++) {
        content[i] = giver + 1;
        ra_store_seq_cst(&work[i], 1);
        rota_sleeper_wake(&sleeper);
    }
}

/* ---- Threads that wait for values of a timeline ---- */

static rota_wait_table table;
static _Atomic uint64_t reached;
static _Atomic uint32_t first_is_done;
static uint64_t written; /* plain, before the value is reached */

static void begin_table(void) {
    memset((void *)&table, 0, sizeof table);
    ra_store_relaxed(&reached, 0);
    ra_store_relaxed(&first_is_done, 0);
    written = 0;
    explore_name(&table.used, 8, "used");
    explore_name(table.buckets, sizeof table.buckets, "buckets");
    explore_name(&reached, 8, "reached");
}

static bool is_reached(void *user) {
    return ra_load_seq_cst(&reached) >= *(const uint64_t *)user;
}

static void wait_for(uint64_t value) {
    while (ra_load_acquire(&reached) < value)
        rota_wait_table_sleep(&table, value, is_reached, &value, UINT64_MAX);
    explore_check(written >= value, "what comes before the value is not seen");
}

static void wait_for_first(void) {
    wait_for(1);
    ra_store_release(&first_is_done, 1);
    rota_futex_wake(&first_is_done, 1);
}
static void wait_for_second(void) {
    wait_for(2);
}
/* In the bucket of 1. */
static void wait_for_65(void) {
    wait_for(65);
}

static void reach_65(void) {
    written = 65;
    ra_store_seq_cst(&reached, 1);
    rota_wait_table_wake(&table, 1);
    ra_store_seq_cst(&reached, 65);
    rota_wait_table_wake(&table, 65);
}

/* Goes on only when the one who waits for less has returned. */
static void reach_65_later(void) {
    written = 65;
    ra_store_seq_cst(&reached, 1);
    rota_wait_table_wake(&table, 1);
    while (!ra_load_acquire(&first_is_done)) (void)rota_futex_wait(&first_is_done, 0, UINT64_MAX);
    ra_store_seq_cst(&reached, 65);
    rota_wait_table_wake(&table, 65);
}

static void reach_two(void) {
    written = 2;
    ra_store_seq_cst(&reached, 1);
    rota_wait_table_wake(&table, 1);
    ra_store_seq_cst(&reached, 2);
    rota_wait_table_wake(&table, 2);
}

int main(int argc, char **argv) {
    static const explore_scenario scenarios[] = {
        {"sleeper and one who wakes", 7, 5, {serve_one, give_pieces}, begin_sleeper, NULL, false, 0},
        {"sleeper and two who wake",
         6,
         5,
         {serve_two, give_pieces, give_pieces},
         begin_sleeper,
         NULL,
         false,
         0},
        {"one waits for a value", 7, 5, {wait_for_second, reach_two}, begin_table, NULL, false, 0},
        {"two values, two buckets",
         5,
         4,
         {wait_for_first, wait_for_second, reach_two},
         begin_table,
         NULL,
         false,
         0},
        {"two values in one bucket",
         5,
         4,
         {wait_for_first, wait_for_65, reach_65},
         begin_table,
         NULL,
         false,
         0},
        {"the lower value first",
         4,
         3,
         {wait_for_first, wait_for_65, reach_65_later},
         begin_table,
         NULL,
         false,
         0},
        {"one value, two waiters",
         5,
         4,
         {wait_for_second, wait_for_second, reach_two},
         begin_table,
         NULL,
         false,
         0},
    };
    return explore_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
