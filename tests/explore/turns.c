/* Turns for room (base/turns.c): order, exclusion while nothing lapses, wakes, and those who stop or leave.
 */
#include <string.h>

#include "base/clock.h"
#include "base/turns.h"
#include "explore.h"

static rota_turns turns;
static _Atomic uint32_t room;
static uint64_t last; /* plain: a turn is one thread's, and happens before the next one */
static uint64_t served[EXPLORE_THREADS];
static bool stopped[EXPLORE_THREADS];

static void begin(void) {
    memset((void *)&turns, 0, sizeof turns);
    ra_store_relaxed(&room, 1);
    last = 0;
    memset(served, 0, sizeof served);
    memset(stopped, 0, sizeof stopped);
    explore_name(&turns.next, 8, "next");
    explore_name(&turns.serving, 8, "serving");
    explore_name(&turns.offered, 8, "offered");
    explore_name(turns.words, sizeof turns.words, "words");
    explore_name(turns.left, sizeof turns.left, "left");
    explore_name(&room, 4, "room");
}

/* As sched/runtime/caller/submit.c waits for a device's room, with a clock that stands: what is slept through is
 * lost. */
static void wait_for_turn(void) {
    const uint64_t number = rota_turns_take(&turns);
    for (;;) {
        const rota_turn turn = rota_turns_look(&turns, number, ra_load_acquire(&room) != 0, 0);
        if (turn == ROTA_TURN_NOW) break;
        explore_check(turn == ROTA_TURN_LATER, "a turn lapsed while no time passed");
        rota_turns_sleep(&turns, number, UINT64_MAX);
    }
    explore_check(last <= number, "number %llu has its turn after %llu", (unsigned long long)number,
                  (unsigned long long)last - 1);
    last = number + 1;
    served[explore_self()]++;
    rota_turns_leave(&turns, number);
}

static void wait_twice(void) {
    wait_for_turn();
    wait_for_turn();
}

/* Gives up, at once or after a look. */
static void give_up(void) {
    const uint64_t number = rota_turns_take(&turns);
    (void)rota_turns_look(&turns, number, true, 0);
    rota_turns_leave(&turns, number);
}

static void end_all_served(void) {
    explore_check(served[0] && served[1], "a waiter had no turn");
    explore_check(rota_turns_are_none(&turns), "a turn is left with nobody");
}

static void end_three_served(void) {
    explore_check(served[2], "a waiter had no turn");
    end_all_served();
}

/* With time: who stopped delays the others for ROTA_TURN_LAPSE_NS, and no more. */
static void wait_in_time(void) {
    uint64_t number = rota_turns_take(&turns);
    const uint64_t from = rota_clock_ns();
    for (;;) {
        const uint64_t now = rota_clock_ns();
        const rota_turn turn = rota_turns_look(&turns, number, true, now);
        if (turn == ROTA_TURN_NOW) break;
        if (turn == ROTA_TURN_LAPSED) {
            number = rota_turns_take(&turns);
            continue;
        }
        rota_turns_sleep(&turns, number, now + ROTA_TURN_LAPSE_NS / 2);
    }
    served[explore_self()]++;
    explore_check(rota_clock_ns() - from < 4 * (uint64_t)ROTA_TURN_LAPSE_NS, "a turn came after %llu ms",
                  (unsigned long long)(rota_clock_ns() - from) / 1000000);
    rota_turns_leave(&turns, number);
}

static void stop_in_turn(void) {
    const uint64_t number = rota_turns_take(&turns);
    stopped[explore_self()] = true;
    explore_may_stop();
    (void)rota_turns_look(&turns, number, true, rota_clock_ns());
    explore_may_stop();
    stopped[explore_self()] = false;
    rota_turns_leave(&turns, number);
}

/* A call that does not wait, but for which turns lapse. */
static void submit_often(void) {
    for (unsigned i = 0; i < 3; i++)
        if (!rota_turns_are_none(&turns))
            (void)rota_turns_lapse(&turns, rota_clock_ns() + i * ROTA_TURN_LAPSE_NS);
}

static void end_in_time(void) {
    explore_check(served[0] && served[1], "a waiter had no turn");
}

int main(int argc, char **argv) {
    static const explore_scenario scenarios[] = {
        {"two waiters, twice each", 6, 4, {wait_twice, wait_twice}, begin, end_all_served, false, 0},
        {"three waiters",
         5,
         3,
         {wait_for_turn, wait_for_turn, wait_for_turn},
         begin,
         end_three_served,
         false,
         0},
        {"three waiters, twice each",
         2,
         3,
         {wait_twice, wait_twice, wait_twice},
         begin,
         end_three_served,
         false,
         0},
        {"two waiters and one who gives up",
         5,
         3,
         {wait_for_turn, wait_for_turn, give_up},
         begin,
         end_all_served,
         false,
         0},
        {"three waiters and one who gives up",
         3,
         2,
         {wait_for_turn, wait_for_turn, wait_for_turn, give_up},
         begin,
         end_three_served,
         false,
         0},
        {"two waiters and one who may stop",
         4,
         2,
         {wait_in_time, wait_in_time, stop_in_turn},
         begin,
         end_in_time,
         true,
         0},
        {"two waiters and one who submits",
         4,
         2,
         {wait_in_time, wait_in_time, submit_often},
         begin,
         end_in_time,
         true,
         0},
    };
    return explore_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
