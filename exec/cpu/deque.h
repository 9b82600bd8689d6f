/* A work-stealing deque of fixed capacity (Chase and Lev). Internal to exec/cpu.
 *
 * One owner pushes and pops at the bottom; any thread steals at the top. push is wait-free, pop and steal are
 * lock-free: a thread stopped anywhere inside delays nobody. Nothing is ever allocated; a full deque refuses.
 *
 * Orders: all uses of `top`, and of `bottom` by thieves and pop, are seq_cst on the objects themselves: pop's
 * store of bottom before its load of top pairs with steal's load of top before its load of bottom, so of an
 * owner and a thief after the last task one at least sees the other, and the compare-and-swap of top settles
 * it. show's store of bottom also publishes the tasks' contents to the thief's load of it, and its seq_cst is
 * what the sleep protocol of wake.c relies on. A cell is read before the swap of top; it can only have been
 * overwritten if top moved, and then the swap fails. */
#ifndef ROTA_EXEC_CPU_DEQUE_H
#define ROTA_EXEC_CPU_DEQUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/atomic.h"

typedef struct rota_cpu_task rota_cpu_task;

/* What deques hold: a work about to start, or a unit of a started one, or the end of such a unit. */
typedef enum rota_cpu_task_kind {
    ROTA_CPU_TASK_WORK,
    ROTA_CPU_TASK_UNIT,
    ROTA_CPU_TASK_ENDED /* a unit whose run has ended, later than its function returned */
} rota_cpu_task_kind;
struct rota_cpu_task {
    rota_cpu_task *overflow_next; /* while it stands on the overflow list (all deques full) */
    uint32_t kind;
    uint32_t unit; /* UNIT, ENDED: index in the program */
};

typedef struct rota_cpu_deque {
    _Alignas(64) _Atomic int64_t top;
    _Alignas(64) _Atomic int64_t bottom;
    _Alignas(64) int64_t capacity; /* a power of two */
    _Atomic(rota_cpu_task *) *cells;
} rota_cpu_deque;

/* Owner only. Behind so many that were put there and are not shown; false when full. */
static inline bool rota_cpu_deque_put(rota_cpu_deque *deque, rota_cpu_task *task, uint32_t hidden) {
    int64_t bottom = ra_load_relaxed(&deque->bottom) + hidden; /* only the owner writes it */
    int64_t top = ra_load_acquire(&deque->top); /* pairs with the swap in steal: its cell was read */
    if (bottom - top >= deque->capacity) return false;
    ra_store_relaxed(&deque->cells[bottom & (deque->capacity - 1)], task);
    return true;
}

/* Owner only: of what was put there, so many. */
static inline void rota_cpu_deque_show(rota_cpu_deque *deque, uint32_t hidden) {
    ra_store_seq_cst(&deque->bottom, ra_load_relaxed(&deque->bottom) + hidden);
}

/* Owner only. False when full. */
static inline bool rota_cpu_deque_push(rota_cpu_deque *deque, rota_cpu_task *task) {
    if (!rota_cpu_deque_put(deque, task, 0)) return false;
    rota_cpu_deque_show(deque, 1);
    return true;
}

/* Owner only. The newest task, or NULL. */
static inline rota_cpu_task *rota_cpu_deque_pop(rota_cpu_deque *deque) {
    int64_t bottom = ra_load_relaxed(&deque->bottom);
    /* top only grows: if it already reached bottom there is nothing, and the costly store is saved. */
    if (ra_load_relaxed(&deque->top) >= bottom) return NULL;
    bottom--;
    ra_store_seq_cst(&deque->bottom, bottom);
    int64_t top = ra_load_seq_cst(&deque->top);
    if (top > bottom) {
        ra_store_release(&deque->bottom, bottom + 1); /* pairs with the loads of bottom in steal */
        return NULL;
    }
    rota_cpu_task *task = ra_load_relaxed(&deque->cells[bottom & (deque->capacity - 1)]);
    if (top == bottom) {
        if (!ra_cas_seq_cst(&deque->top, &top, top + 1)) task = NULL;
        ra_store_release(&deque->bottom, bottom + 1); /* pairs with the loads of bottom in steal */
    }
    return task;
}

/* Any thread. The oldest task, or NULL when there is none. */
static inline rota_cpu_task *rota_cpu_deque_steal(rota_cpu_deque *deque) {
    for (;;) {
        int64_t top = ra_load_seq_cst(&deque->top);
        int64_t bottom = ra_load_seq_cst(&deque->bottom);
        if (top >= bottom) return NULL;
        rota_cpu_task *task = ra_load_relaxed(&deque->cells[top & (deque->capacity - 1)]);
        if (ra_cas_seq_cst(&deque->top, &top, top + 1)) return task;
    }
}

/* Any thread; a moment's view. */
static inline bool rota_cpu_deque_is_empty(rota_cpu_deque *deque) {
    int64_t top = ra_load_seq_cst(&deque->top);
    return top >= ra_load_seq_cst(&deque->bottom);
}

bool rota_cpu_deque_init(rota_cpu_deque *deque, int64_t capacity);
void rota_cpu_deque_free(rota_cpu_deque *deque);

#endif
