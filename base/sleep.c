/* Sleeping on a flag or on a timeline's value. */
#include "base/sleep.h"

#include "base/atomic.h"
#include "base/futex.h"

void rota_sleeper_prepare(rota_sleeper *sleeper) {
    ra_store_seq_cst(&sleeper->asleep, 1); /* with the load in rota_sleeper_wake */
}

void rota_sleeper_cancel(rota_sleeper *sleeper) {
    ra_store_relaxed(&sleeper->asleep, 0);
}

void rota_sleeper_wait(rota_sleeper *sleeper, uint64_t deadline_ns) {
    while (ra_load_seq_cst(&sleeper->asleep) == 1)
        if (!rota_futex_wait(&sleeper->asleep, 1, deadline_ns)) break;
    ra_store_relaxed(&sleeper->asleep, 0);
}

void rota_sleeper_wake(rota_sleeper *sleeper) {
    if (ra_load_seq_cst(&sleeper->asleep) == 0) return; /* with the store in rota_sleeper_prepare */
    if (ra_exchange_seq_cst(&sleeper->asleep, 0) == 1) rota_futex_wake(&sleeper->asleep, 1);
}

/* All that follows is seq_cst. A sleeper loads the word, brings `lowest` down to its value, sets its bucket's
 * bit, asks whether the value was reached, and sleeps on the word that it loaded. A waker stores what was
 * reached, loads the bits and each `lowest`, and where that was reached clears the bit, takes `lowest` away
 * and then changes the word. So it sees a sleeper that did not see the value; and one whose bit or value it
 * takes away without knowing had loaded the word before the change, and does not sleep. */
void rota_wait_table_wake(rota_wait_table *table, uint64_t reached) {
    uint64_t used = ra_load_seq_cst(&table->used);
    while (used) {
        const uint64_t bit = used & -used;
        rota_wait_bucket *bucket = &table->buckets[__builtin_ctzll(used)];
        used &= ~bit;
        const uint64_t lowest = ra_load_seq_cst(&bucket->lowest);
        if (lowest == 0 || lowest > reached) continue;
        (void)ra_fetch_and_seq_cst(&table->used, ~bit);
        (void)ra_exchange_seq_cst(&bucket->lowest, 0);
        (void)ra_fetch_add_seq_cst(&bucket->word, 1);
        rota_futex_wake(&bucket->word, INT32_MAX);
    }
}

void rota_wait_table_sleep(rota_wait_table *table, uint64_t value, bool (*done)(void *user), void *user,
                           uint64_t deadline_ns) {
    const uint32_t index = (uint32_t)(value % ROTA_WAIT_BUCKETS);
    rota_wait_bucket *bucket = &table->buckets[index];
    const uint32_t word = ra_load_seq_cst(&bucket->word);
    uint64_t lowest = ra_load_seq_cst(&bucket->lowest);
    while ((lowest == 0 || lowest > value) && !ra_cas_seq_cst(&bucket->lowest, &lowest, value)) {
    }
    (void)ra_fetch_or_seq_cst(&table->used, (uint64_t)1 << index);
    if (!done(user)) (void)rota_futex_wait(&bucket->word, word, deadline_ns);
}
