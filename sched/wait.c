/* Sleeping on a flag or on a timeline's value. */
#include "sched/wait.h"

#include "base/atomic.h"
#include "base/clock.h"
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

void rota_wait_table_wake(rota_wait_table *table, uint64_t reached) {
    uint64_t used = ra_load_seq_cst(&table->used);
    while (used) {
        rota_wait_slot *slot = &table->slots[__builtin_ctzll(used)];
        used &= used - 1;
        uint64_t value = ra_load_seq_cst(&slot->value); /* with the store in rota_wait_table_sleep */
        if (value == 0 || value > reached) continue;
        if (ra_exchange_seq_cst(&slot->word, 1) == 0) rota_futex_wake(&slot->word, 1);
    }
}

static int claim_slot(rota_wait_table *table) {
    uint64_t used = ra_load_relaxed(&table->used);
    while (used != UINT64_MAX) {
        int index = __builtin_ctzll(~used);
        if (ra_cas_seq_cst(&table->used, &used, used | (uint64_t)1 << index)) return index;
    }
    return -1;
}

void rota_wait_table_sleep(rota_wait_table *table, uint64_t value, bool (*done)(void *user), void *user,
                           uint64_t deadline_ns) {
    int index = claim_slot(table);
    if (index < 0) {
        static _Atomic uint32_t nobody_wakes;
        uint64_t slice = rota_deadline_after(100000);
        (void)rota_futex_wait(&nobody_wakes, 0, slice < deadline_ns ? slice : deadline_ns);
        return;
    }
    rota_wait_slot *slot = &table->slots[index];
    ra_store_relaxed(&slot->word, 0);
    ra_store_seq_cst(&slot->value, value); /* with the load in rota_wait_table_wake */
    while (!done(user) && ra_load_relaxed(&slot->word) == 0)
        if (!rota_futex_wait(&slot->word, 0, deadline_ns)) break;
    ra_store_seq_cst(&slot->value, 0);
    (void)ra_fetch_and_acq_rel(&table->used, ~((uint64_t)1 << index));
}
