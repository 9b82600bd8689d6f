/* A stack of linked entries: any number of threads push, and whoever takes takes all that is there at once, the
 * newest first. Entries are the caller's, in one stack at a time, and nobody's between push and take. A stack is
 * zero to begin with and needs no end. Internal; not installed.
 *
 * push         lock-free: tried again only where another thread's push came between. A thread stopped in it has put
 *              nothing there yet, or has put it there whole, and keeps nobody from anything.
 * take         wait-free: one exchange.
 * is_empty     wait-free.
 * seems_empty  wait-free, for who looks again anyway: it may miss what came just now, and orders nothing.
 *
 * Orders, of the first three: as of one object whose operations are seq_cst. A push releases what was written before
 * it to the take that gets it, and comes before whatever its thread looks at next (a sleeper's flag); is_empty comes
 * after whatever its thread stored before (its own flag).
 *
 * The operations are Concurrency Kit's ck_stack. Where somebody must see each of them (the thread sanitizer, tests that
 * halt threads, the explorer of interleavings), the same ones stand in C11: see ROTA_ATOMICS_ARE_SEEN. */
#ifndef ROTA_BASE_STACK_UPMC_H
#define ROTA_BASE_STACK_UPMC_H

#include <stdbool.h>
#include <stddef.h>
#include "base/atomic.h"

/* The object that has `entry` as its member of that name. */
#define ROTA_STACK_OBJECT(entry_, type, member) ((type *)(void *)((char *)(entry_)-offsetof(type, member)))

#ifdef ROTA_ATOMICS_ARE_SEEN

typedef struct rota_stack_entry {
    struct rota_stack_entry *next;
} rota_stack_entry;

typedef struct rota_stack_upmc {
    _Atomic(rota_stack_entry *) head;
} rota_stack_upmc;

static inline void rota_stack_push_upmc(rota_stack_upmc *stack, rota_stack_entry *entry) {
    entry->next = ra_load_relaxed(&stack->head);
    while (!ra_cas_seq_cst(&stack->head, &entry->next, entry)) { /* with take, and with a sleeper's flag */
    }
}

static inline rota_stack_entry *rota_stack_take_upmc(rota_stack_upmc *stack) {
    return ra_exchange_seq_cst(&stack->head, NULL); /* with push */
}

static inline bool rota_stack_is_empty_upmc(rota_stack_upmc *stack) {
    return ra_load_seq_cst(&stack->head) == NULL; /* with push, after the own flag's store */
}

static inline bool rota_stack_seems_empty_upmc(rota_stack_upmc *stack) {
    return ra_load_relaxed(&stack->head) == NULL;
}

#else

#include <ck_stack.h>

typedef ck_stack_entry_t rota_stack_entry;
typedef struct rota_stack_upmc {
    ck_stack_t stack;
} rota_stack_upmc;

static inline void rota_stack_push_upmc(rota_stack_upmc *stack, rota_stack_entry *entry) {
    ck_pr_fence_release(); /* ck orders stores alone; whoever takes the entry may free what was read here */
    ck_stack_push_upmc(&stack->stack, entry);
    ck_pr_fence_atomic_load(); /* before the look at a sleeper's flag */
}

static inline rota_stack_entry *rota_stack_take_upmc(rota_stack_upmc *stack) {
    rota_stack_entry *newest = ck_stack_batch_pop_upmc(&stack->stack);
    ck_pr_fence_acquire(); /* ck orders loads alone */
    return newest;
}

static inline bool rota_stack_is_empty_upmc(rota_stack_upmc *stack) {
    ck_pr_fence_store_load(); /* after the store of the own flag */
    return ck_pr_load_ptr(&stack->stack.head) == NULL;
}

static inline bool rota_stack_seems_empty_upmc(rota_stack_upmc *stack) {
    return ck_pr_load_ptr(&stack->stack.head) == NULL;
}

#endif

/* What was taken, the oldest first. */
static inline rota_stack_entry *rota_stack_turned(rota_stack_entry *newest) {
    rota_stack_entry *oldest = NULL;
    while (newest) {
        rota_stack_entry *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

#endif
