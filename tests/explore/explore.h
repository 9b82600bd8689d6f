/* An explorer of rota's own functions: runs up to four threads of them again and again, each time in another
 * order and with other values out of those that C11 lets a load return, and judges each execution. Tests
 * only.
 *
 * What is explored is compiled from the tree's sources with two changes: the operations of base/atomic.h are
 * those of tests/explore/base/atomic.h, and gcc puts a call before every plain access (-fsanitize=thread; the
 * calls are the explorer's, not the sanitizer's). Futexes, the clock and yields are the explorer's, too.
 *
 * The memory. Every atomic object has its stores in one order, the one in which they were executed. A load
 * may return any of them that is not older than one that its thread knows of: that it stored or loaded
 * itself, or that happened before by releases and acquires. A read-modify-write takes the newest; a
 * compare-and-swap that fails may have seen an older one. A seq_cst load sees nothing older than what a
 * seq_cst operation stored or saw there before. A plain access that another thread's access did not happen
 * before is a race, which is an error. A futex orders nothing. Not there: fences (rota has none), stores that
 * become visible in another order than they were executed in (2+2W), loads that see what is stored later
 * (load buffering), wakes that nobody sent.
 *
 * The bounds. A thread goes on until it blocks, ends or yields; to leave it elsewhere is a preemption. To
 * return an older store is a stale load. All executions with no more of each than the bounds say are looked
 * at; a state that was reached before, with no more of the bounds used, is not gone on from. Executions are
 * counted as distinct by what each thread did, what each load saw and the order of each object's stores, so
 * that two which differ in the order of unrelated operations count once. */
#ifndef ROTA_TESTS_EXPLORE_H
#define ROTA_TESTS_EXPLORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum explore_order {
    EXPLORE_RELAXED = 0,
    EXPLORE_ACQUIRE = 1,
    EXPLORE_RELEASE = 2,
    EXPLORE_ACQ_REL = 3,
    EXPLORE_SEQ_CST = 7
} explore_order;

typedef enum explore_rmw_kind {
    EXPLORE_SET,
    EXPLORE_ADD,
    EXPLORE_SUB,
    EXPLORE_OR,
    EXPLORE_AND
} explore_rmw_kind;

typedef struct explore_site {
    const char *file, *function, *operation;
    int line;
} explore_site;

/* ---- What the shadow of base/atomic.h calls ---- */

uint64_t explore_load(const volatile void *address, unsigned size, explore_order order,
                      const explore_site *site);
void explore_store(volatile void *address, unsigned size, uint64_t value, explore_order order,
                   const explore_site *site);
uint64_t explore_rmw(volatile void *address, unsigned size, explore_rmw_kind kind, uint64_t operand,
                     explore_order order, const explore_site *site);
bool explore_cas(volatile void *address, unsigned size, uint64_t *expected, uint64_t desired,
                 explore_order order, explore_order failure, const explore_site *site);

/* ---- What a protocol says ---- */

enum { EXPLORE_THREADS = 4 };

typedef struct explore_scenario {
    const char *name;
    unsigned preemptions, stale;           /* bounds, 7 at most */
    void (*thread[EXPLORE_THREADS])(void); /* NULL: no more */
    /* Before each execution: sets what the threads work on, which has the same address each time. */
    void (*begin)(void);
    /* After each execution: judges, by explore_check. May be NULL. */
    void (*end)(void);
    /* Where no thread can go on, the one with the earliest deadline does, at that time. Else that is an
     * error, as a wake was lost. */
    bool has_deadlines;
    unsigned may_remain; /* threads that may be blocked at the end: a bit each */
    int more; /* preemptions that `--full` adds beyond the one that it adds to all, or less than that */
} explore_scenario;

typedef struct explore_result {
    uint64_t executions; /* that came to their end */
    uint64_t distinct;
    uint64_t cut; /* left, as their state was known */
    double seconds;
    char error[256]; /* empty: none */
} explore_result;

/* Explores it to the end of its bounds, or to the first error, whose trace it prints if so told. */
void explore_run(const explore_scenario *scenario, bool has_trace, explore_result *out_result);
/* The whole of a program: explores each scenario, prints what was run and returns main's status. Arguments:
 * `--planted`: an error must be found; `--full`: a preemption more, may be repeated; `--short`: one less,
 * of two or more; `--only NAME`: that scenario. */
int explore_main(const explore_scenario *scenarios, unsigned count, int argc, char **argv);

/* ---- For scenarios ---- */

unsigned explore_self(void);
/* Ends the execution with this sentence, as an error, unless `holds`. */
void explore_check(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool explore_has_ended(unsigned thread);
/* The thread stops for ever, which is no error. */
_Noreturn void explore_stop(void);
/* The thread may be stopped for ever here, or not: both are explored. */
void explore_may_stop(void);
/* For traces: what lies there. `name` is kept; said once. */
void explore_name(const volatile void *address, size_t bytes, const char *name);

/* ---- In place of what the sources call ---- */

int explore_yield(void);
/* Given back when the execution ends. */
void *explore_aligned_alloc(size_t alignment, size_t bytes);
void *explore_memcpy(void *to, const void *from, size_t bytes);
int explore_mutex_lock(pthread_mutex_t *mutex);
int explore_mutex_unlock(pthread_mutex_t *mutex);

#endif
