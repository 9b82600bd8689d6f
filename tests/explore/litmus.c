/* The explorer judged by small programs whose outcomes under C11 are known: each must show exactly those. */
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/futex.h"
#include "explore.h"

static _Atomic uint32_t a, b, word;
static uint32_t plain_data;
static uint32_t r[4];
static uint64_t outcomes; /* a bit for each that was seen, by r[0] + 4 r[1] + ... */
static unsigned digits;

static void begin(void) {
    ra_store_relaxed(&a, 0);
    ra_store_relaxed(&b, 0);
    ra_store_relaxed(&word, 0);
    plain_data = 0;
    memset(r, 0, sizeof r);
}

static void end(void) {
    unsigned outcome = 0;
    for (unsigned i = digits; i-- > 0;) outcome = outcome * (digits == 4 ? 2 : 4) + r[i];
    outcomes |= (uint64_t)1 << outcome;
}

#define THREAD(name, ...)                                                                                    \
    static void name(void) {                                                                                 \
        __VA_ARGS__                                                                                          \
    }

/* Message passing. */
THREAD(mp_put_relaxed, ra_store_relaxed(&a, 1); ra_store_relaxed(&b, 1);)
THREAD(mp_put_release, ra_store_relaxed(&a, 1); ra_store_release(&b, 1);)
THREAD(mp_get_relaxed, r[0] = ra_load_relaxed(&b); r[1] = ra_load_relaxed(&a);)
THREAD(mp_get_acquire, r[0] = ra_load_acquire(&b); r[1] = ra_load_relaxed(&a);)
/* The same with plain data. */
THREAD(plain_put_relaxed, plain_data = 1; ra_store_relaxed(&b, 1);)
THREAD(plain_put_release, plain_data = 1; ra_store_release(&b, 1);)
THREAD(plain_get, r[0] = ra_load_acquire(&b); if (r[0]) r[1] = plain_data;)
THREAD(plain_get_relaxed, r[0] = ra_load_relaxed(&b); if (r[0]) r[1] = plain_data;)
/* Store buffering. */
THREAD(sb_0_relaxed, ra_store_relaxed(&a, 1); r[0] = ra_load_relaxed(&b);)
THREAD(sb_1_relaxed, ra_store_relaxed(&b, 1); r[1] = ra_load_relaxed(&a);)
THREAD(sb_0_acq_rel, ra_store_release(&a, 1); r[0] = ra_load_acquire(&b);)
THREAD(sb_1_acq_rel, ra_store_release(&b, 1); r[1] = ra_load_acquire(&a);)
THREAD(sb_0_seq_cst, ra_store_seq_cst(&a, 1); r[0] = ra_load_seq_cst(&b);)
THREAD(sb_1_seq_cst, ra_store_seq_cst(&b, 1); r[1] = ra_load_seq_cst(&a);)
/* Two loads of one object. */
THREAD(corr_put, ra_store_relaxed(&a, 1); ra_store_relaxed(&a, 2);)
THREAD(corr_get, r[0] = ra_load_relaxed(&a); r[1] = ra_load_relaxed(&a);)
/* Two readers of two writers. */
THREAD(put_a_release, ra_store_release(&a, 1);)
THREAD(put_b_release, ra_store_release(&b, 1);)
THREAD(get_ab_acquire, r[0] = ra_load_acquire(&a); r[1] = ra_load_acquire(&b);)
THREAD(get_ba_acquire, r[2] = ra_load_acquire(&b); r[3] = ra_load_acquire(&a);)
THREAD(put_a_seq_cst, ra_store_seq_cst(&a, 1);)
THREAD(put_b_seq_cst, ra_store_seq_cst(&b, 1);)
THREAD(get_ab_seq_cst, r[0] = ra_load_seq_cst(&a); r[1] = ra_load_seq_cst(&b);)
THREAD(get_ba_seq_cst, r[2] = ra_load_seq_cst(&b); r[3] = ra_load_seq_cst(&a);)
/* Read-modify-writes. */
THREAD(add_0, r[0] = ra_fetch_add_relaxed(&a, 1);)
THREAD(add_1, r[1] = ra_fetch_add_relaxed(&a, 1);)
THREAD(cas_0, uint32_t e = 0; r[0] = ra_cas_acq_rel(&a, &e, 1);)
THREAD(cas_1, uint32_t e = 0; r[1] = ra_cas_acq_rel(&a, &e, 2);)
/* A relaxed read-modify-write carries on the release before it; a store does not. */
THREAD(sequence_put, ra_store_relaxed(&a, 1); ra_store_release(&b, 1);)
THREAD(sequence_add, (void)ra_fetch_add_relaxed(&b, 1);)
THREAD(sequence_store, if (ra_load_relaxed(&b) == 1) ra_store_relaxed(&b, 2);)
THREAD(sequence_get, r[0] = ra_load_acquire(&b); r[1] = ra_load_relaxed(&a);)
/* Write to read causality: what is acquired travels on. */
THREAD(wrc_0, ra_store_relaxed(&a, 1);)
THREAD(wrc_1, if (ra_load_relaxed(&a)) ra_store_release(&b, 1);)
/* A sleeper that looks again, and one that does not. */
THREAD(sleeper, ra_store_seq_cst(&word, 1);
       if (!ra_load_seq_cst(&a))(void) rota_futex_wait(&word, 1, UINT64_MAX);)
THREAD(
    sleeper_blind, if (!ra_load_seq_cst(&a)) {
        ra_store_seq_cst(&word, 1);
        (void)rota_futex_wait(&word, 1, UINT64_MAX);
    })
THREAD(sleeper_weak, ra_store_release(&word, 1);
       if (!ra_load_acquire(&a))(void) rota_futex_wait(&word, 1, UINT64_MAX);)
THREAD(
    waker, ra_store_seq_cst(&a, 1); if (ra_load_seq_cst(&word)) {
        ra_store_relaxed(&word, 0);
        rota_futex_wake(&word, 1);
    })
THREAD(
    waker_weak, ra_store_release(&a, 1); if (ra_load_acquire(&word)) {
        ra_store_relaxed(&word, 0);
        rota_futex_wake(&word, 1);
    })
THREAD(yields, while (!ra_load_acquire(&a))(void) explore_yield(); r[0] = 1;)
THREAD(endless, for (;;)(void) ra_load_relaxed(&a);)

#define P(x, y) ((uint64_t)1 << ((x) + 4 * (y)))
#define IRIW(w, x, y, z) ((uint64_t)1 << ((w) + 2 * (x) + 4 * (y) + 8 * (z)))

static const struct {
    explore_scenario scenario;
    unsigned digits;
    uint64_t outcomes; /* exactly these; r[0] changes fastest */
    const char *error; /* that must be found */
} litmus[] = {
    {{"mp relaxed", 3, 2, {mp_put_relaxed, mp_get_relaxed}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(1, 1) | P(1, 0),
     NULL},
    {{"mp acquire of relaxed", 3, 2, {mp_put_relaxed, mp_get_acquire}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(1, 1) | P(1, 0),
     NULL},
    {{"mp release and acquire", 3, 2, {mp_put_release, mp_get_acquire}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(1, 1),
     NULL},
    {{"mp plain, release and acquire", 3, 2, {plain_put_release, plain_get}, begin, end, 0, 0},
     2,
     P(0, 0) | P(1, 1),
     NULL},
    {{"mp plain, relaxed store", 3, 2, {plain_put_relaxed, plain_get}, begin, end, 0, 0}, 2, 0, "a race"},
    {{"mp plain, relaxed load", 3, 2, {plain_put_release, plain_get_relaxed}, begin, end, 0, 0},
     2,
     0,
     "a race"},
    {{"sb relaxed", 3, 2, {sb_0_relaxed, sb_1_relaxed}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(1, 0) | P(1, 1),
     NULL},
    {{"sb release and acquire", 3, 2, {sb_0_acq_rel, sb_1_acq_rel}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(1, 0) | P(1, 1),
     NULL},
    {{"sb seq_cst", 3, 2, {sb_0_seq_cst, sb_1_seq_cst}, begin, end, 0, 0},
     2,
     P(0, 1) | P(1, 0) | P(1, 1),
     NULL},
    {{"sb half seq_cst", 3, 2, {sb_0_seq_cst, sb_1_acq_rel}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(1, 0) | P(1, 1),
     NULL},
    {{"corr", 3, 2, {corr_put, corr_get}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(0, 2) | P(1, 1) | P(1, 2) | P(2, 2),
     NULL},
    {{"iriw acquire", 4, 4, {put_a_release, put_b_release, get_ab_acquire, get_ba_acquire}, begin, end, 0, 0},
     4,
     0xffff,
     NULL},
    {{"iriw seq_cst", 4, 4, {put_a_seq_cst, put_b_seq_cst, get_ab_seq_cst, get_ba_seq_cst}, begin, end, 0, 0},
     4,
     0xffff & ~IRIW(1, 0, 1, 0),
     NULL},
    {{"two adds", 3, 2, {add_0, add_1}, begin, end, 0, 0}, 2, P(0, 1) | P(1, 0), NULL},
    {{"two compare-and-swaps", 3, 2, {cas_0, cas_1}, begin, end, 0, 0}, 2, P(0, 1) | P(1, 0), NULL},
    {{"release sequence over an add", 3, 2, {sequence_put, sequence_add, sequence_get}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(1, 0) | P(1, 1) | P(2, 1),
     NULL},
    {{"no release sequence over a store",
      3,
      2,
      {sequence_put, sequence_store, sequence_get},
      begin,
      end,
      0,
      0},
     2,
     P(0, 0) | P(0, 1) | P(1, 1) | P(2, 0) | P(2, 1),
     NULL},
    {{"write to read causality, relaxed", 4, 3, {wrc_0, wrc_1, mp_get_acquire}, begin, end, 0, 0},
     2,
     P(0, 0) | P(0, 1) | P(1, 1),
     NULL},
    {{"sleeper", 3, 2, {sleeper, waker}, begin, end, 0, 0}, 1, P(0, 0), NULL},
    {{"sleeper without a second look", 3, 2, {sleeper_blind, waker}, begin, end, 0, 0},
     1,
     0,
     "nobody will wake"},
    {{"sleeper, release and acquire", 3, 2, {sleeper_weak, waker}, begin, end, 0, 0},
     1,
     0,
     "nobody will wake"},
    {{"waker, release and acquire", 3, 2, {sleeper, waker_weak}, begin, end, 0, 0}, 1, 0, "nobody will wake"},
    {{"a loop that yields", 2, 1, {yields, put_a_release}, begin, end, 0, 0}, 1, P(1, 0), NULL},
    {{"an endless loop", 1, 0, {endless, put_a_release}, begin, end, 0, 0}, 1, 0, "no end"},
};

int main(void) {
    int failures = 0;
    uint64_t distinct = 0;
    for (unsigned i = 0; i < sizeof litmus / sizeof *litmus; i++) {
        explore_result result;
        outcomes = 0;
        digits = litmus[i].digits;
        explore_run(&litmus[i].scenario, false, &result);
        distinct += result.distinct;
        const bool is_right = litmus[i].error ? strstr(result.error, litmus[i].error) != NULL
                                              : !result.error[0] && outcomes == litmus[i].outcomes;
        if (is_right) continue;
        failures++;
        printf("  %s: outcomes %llx, not %llx; error '%s', not '%s'\n", litmus[i].scenario.name,
               (unsigned long long)outcomes, (unsigned long long)litmus[i].outcomes, result.error,
               litmus[i].error ? litmus[i].error : "");
    }
    printf("  %zu programs, %llu distinct executions, %d wrong\n", sizeof litmus / sizeof *litmus,
           (unsigned long long)distinct, failures);
    return failures != 0;
}
