/* Sleeping: one thread on its own flag, and many threads on values of a timeline. Internal; not installed.
 *
 * Both pair a seq_cst store with a seq_cst load on either side: the waker stores what changed and then loads
 * whether somebody sleeps; the sleeper stores that it sleeps and then loads whether it changed. One of the
 * two sees the other, so that a waker makes a system call only when somebody does sleep. */
#ifndef ROTA_BASE_SLEEP_H
#define ROTA_BASE_SLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One thread that sleeps while it has nothing to do. */
typedef struct rota_sleeper {
    _Alignas(64) _Atomic uint32_t asleep; /* 1: sleeping or about to */
} rota_sleeper;

/* About to sleep: the caller must look for work once more afterwards, and then wait or cancel. */
void rota_sleeper_prepare(rota_sleeper *sleeper);
void rota_sleeper_cancel(rota_sleeper *sleeper);
void rota_sleeper_wait(rota_sleeper *sleeper, uint64_t deadline_ns);
/* After publishing work with a seq_cst store. Lock-free; a system call only if the thread sleeps. */
void rota_sleeper_wake(rota_sleeper *sleeper);

#define ROTA_WAIT_BUCKETS 64

typedef struct rota_wait_bucket {
    _Atomic uint64_t lowest; /* of the values waited for since the last wake; 0: none */
    _Atomic uint32_t word;   /* changes with each wake */
} rota_wait_bucket;

/* Threads asleep until a value is reached, any number of them: by value in buckets, each woken as a whole. A
 * thread stopped inside a wait keeps nothing that another one needs. */
typedef struct rota_wait_table {
    _Alignas(64) _Atomic uint64_t used; /* bit per bucket that somebody may sleep in */
    rota_wait_bucket buckets[ROTA_WAIT_BUCKETS];
} rota_wait_table;

/* Wakes those who wait for `reached` or less, after it was stored with seq_cst. Lock-free. */
void rota_wait_table_wake(rota_wait_table *table, uint64_t reached);

/* Sleeps until a wake for `value`, or the deadline; `done(user)` is asked (with seq_cst loads) after the
 * sleeper is visible. May return early: check again. */
void rota_wait_table_sleep(rota_wait_table *table, uint64_t value, bool (*done)(void *user), void *user,
                           uint64_t deadline_ns);

#endif
