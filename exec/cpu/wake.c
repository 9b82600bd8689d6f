/* Workers' lives: where tasks are looked for, and how workers sleep and are woken.
 *
 * A worker with nothing to do searches for up to SEARCH_NS, yielding its core between looks, and then sleeps
 * on its own futex word. At most half of the workers search at a time, the others sleep at once. Whoever
 * pushes a task wakes a sleeper only if nobody searches; a searcher that finds a task wakes the next one if
 * there is more. So a saturated machine makes no futex calls and an idle one uses no time.
 *
 * No wake is lost: a pusher stores `bottom` (or the overflow list) and then loads `searchers` and `idle`; a
 * worker leaves `searchers`, enters `idle` and then looks at every deque once more; all of these are seq_cst,
 * so either the pusher sees the sleeper, or the sleeper the task.
 *
 * Progress: push, inject and notify are lock-free and enter the kernel only to wake a sleeper. */
#include "exec/cpu/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/futex.h"

enum {
    SEARCH_NS = 50000,
    LOOKS_PER_YIELD = 8,
    PAUSES_PER_LOOK = 16,
    INJECT_EVERY = 61 /* so that a worker busy with its own tasks still takes up new works */
};
/* A sleeper looks again after this long, so that no wait is without a deadline. */
static const uint64_t sleep_ns = 10000000000u;

bool rota_cpu_deque_init(rota_cpu_deque *deque, int64_t capacity) {
    atomic_init(&deque->top, 0);
    atomic_init(&deque->bottom, 0);
    deque->capacity = capacity;
    deque->slots = calloc((size_t)capacity, sizeof *deque->slots);
    return deque->slots != NULL;
}

void rota_cpu_deque_free(rota_cpu_deque *deque) {
    free((void *)deque->slots);
    deque->slots = NULL;
}

/* ---- Pushing ---- */

static void push_overflow(rota_cpu_device *device, rota_cpu_task *first, rota_cpu_task *last) {
    rota_cpu_task *head = ra_load_relaxed(&device->overflow);
    do {
        last->overflow_next = head;
    } while (
        !ra_cas_seq_cst(&device->overflow, &head, first)); /* publishes to the exchange in take_overflow */
}

void rota_cpu_push(rota_cpu_worker *worker, rota_cpu_task *task) {
    if (!rota_cpu_deque_push(&worker->deque, task)) push_overflow(worker->device, task, task);
    rota_cpu_notify(worker->device);
}

void rota_cpu_push_quietly(rota_cpu_worker *worker, rota_cpu_task *task) {
    if (rota_cpu_deque_push(&worker->deque, task)) return;
    push_overflow(worker->device, task, task);
    rota_cpu_notify(worker->device);
}

void rota_cpu_inject(rota_cpu_device *device, rota_cpu_task *task) {
    if (!rota_cpu_deque_push(&device->inject, task)) push_overflow(device, task, task);
    rota_cpu_notify(device);
}

void rota_cpu_notify(rota_cpu_device *device) {
    if (ra_load_seq_cst(&device->searchers) != 0) return;
    uint32_t words = (device->worker_count + 63) / 64;
    for (uint32_t word = 0; word < words; word++) {
        uint64_t idle = ra_load_seq_cst(&device->idle[word]);
        while (idle) {
            uint64_t bit = idle & (0 - idle);
            if (!ra_cas_seq_cst(&device->idle[word], &idle, idle & ~bit)) continue;
            /* The sleeper is ours to wake. It counts as searching from now on, so that the next push wakes
             * nobody. */
            ra_fetch_add_seq_cst(&device->searchers, 1);
            rota_cpu_worker *worker = &device->workers[word * 64 + (uint32_t)__builtin_ctzll(bit)];
            ra_store_release(&worker->wake_word, 1); /* pairs with the load in sleep_until_woken */
            rota_futex_wake(&worker->wake_word, 1);
            return;
        }
    }
}

void rota_cpu_wake_all(rota_cpu_device *device) {
    for (uint32_t i = 0; i < device->worker_count; i++) {
        ra_store_release(&device->workers[i].wake_word, 1);
        rota_futex_wake(&device->workers[i].wake_word, 1);
    }
}

/* ---- Finding ---- */

/* Takes the whole overflow list: keeps one task, pushes what fits to the own deque, and puts the rest back.
 */
static rota_cpu_task *take_overflow(rota_cpu_worker *worker) {
    rota_cpu_device *device = worker->device;
    if (!ra_load_seq_cst(&device->overflow)) return NULL;
    rota_cpu_task *task = ra_exchange_seq_cst(&device->overflow, NULL);
    if (!task) return NULL;
    rota_cpu_task *rest = task->overflow_next;
    while (rest) {
        rota_cpu_task *next = rest->overflow_next; /* read first: once pushed, another worker may reuse it */
        if (!rota_cpu_deque_push(&worker->deque, rest)) break;
        rest = next;
    }
    if (rest) {
        rota_cpu_task *last = rest;
        while (last->overflow_next) last = last->overflow_next;
        push_overflow(device, rest, last);
    }
    /* A worker may have found the list empty meanwhile and gone to sleep. */
    rota_cpu_notify(device);
    return task;
}

static rota_cpu_task *steal_from_others(rota_cpu_worker *worker) {
    rota_cpu_device *device = worker->device;
    uint32_t count = device->worker_count;
    if (count == 1) return NULL;
    worker->random = worker->random * 6364136223846793005u + 1442695040888963407u;
    uint32_t start = (uint32_t)(worker->random >> 33) % count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t victim = start + i < count ? start + i : start + i - count;
        if (victim == worker->index) continue;
        rota_cpu_task *task = rota_cpu_deque_steal(&device->workers[victim].deque);
        if (task) return task;
    }
    return NULL;
}

static rota_cpu_task *find_task(rota_cpu_worker *worker) {
    rota_cpu_task *task;
    /* Pairs with block_work. What the pump starts lands in this worker's deque. */
    if (ra_load_seq_cst(&worker->device->kick) && ra_exchange_seq_cst(&worker->device->kick, 0))
        rota_cpu_pump(worker);
    if (++worker->tick % INJECT_EVERY == 0) {
        task = rota_cpu_deque_steal(&worker->device->inject);
        if (task) {
            if (!rota_cpu_deque_is_empty(&worker->deque))
                rota_cpu_notify(worker->device); /* see push_quietly */
            return task;
        }
    }
    task = rota_cpu_deque_pop(&worker->deque);
    if (!task) task = rota_cpu_deque_steal(&worker->device->inject);
    if (!task) task = steal_from_others(worker);
    if (!task) task = take_overflow(worker);
    return task;
}

static bool is_work_left(rota_cpu_device *device) {
    if (!rota_cpu_deque_is_empty(&device->inject) || ra_load_seq_cst(&device->overflow) ||
        ra_load_seq_cst(&device->kick))
        return true;
    for (uint32_t i = 0; i < device->worker_count; i++) {
        if (!rota_cpu_deque_is_empty(&device->workers[i].deque)) return true;
    }
    return false;
}

/* The worker counts as searching. Leaves that state either way. */
static rota_cpu_task *search(rota_cpu_worker *worker) {
    rota_cpu_device *device = worker->device;
    rota_cpu_task *task = NULL;
    uint64_t until = 0;
    for (uint32_t look = 0;; look++) {
        task = find_task(worker);
        if (task || ra_load_acquire(&device->stop)) break; /* stop: as in next_task */
        if (look % LOOKS_PER_YIELD == LOOKS_PER_YIELD - 1) {
            uint64_t now = rota_clock_ns();
            if (until == 0) until = now + SEARCH_NS;
            if (now >= until) break;
            (void)sched_yield();
        } else {
            for (int pause = 0; pause < PAUSES_PER_LOOK; pause++) ra_pause();
        }
    }
    ra_fetch_add_seq_cst(&device->searchers, UINT32_MAX);
    if (task && is_work_left(device)) rota_cpu_notify(device);
    return task;
}

/* Sleeps until woken. A task found at the last look is returned; otherwise *out_searching says whether the
 * waker counted this worker as searching. */
static rota_cpu_task *sleep_until_woken(rota_cpu_worker *worker, bool *out_searching) {
    rota_cpu_device *device = worker->device;
    _Atomic uint64_t *idle = &device->idle[worker->index / 64];
    uint64_t bit = (uint64_t)1 << (worker->index % 64);
    /* Only wake_all can have written it since the last sleep; the exchange then makes `stop` visible below.
     */
    ra_exchange_acq_rel(&worker->wake_word, 0);
    ra_fetch_add_seq_cst(idle, bit); /* sets it: it was clear */
    rota_cpu_task *task = find_task(worker);
    if (!task && !ra_load_seq_cst(&device->stop))
        (void)rota_futex_wait(&worker->wake_word, 0, rota_deadline_after(sleep_ns));
    uint64_t mask = ra_load_seq_cst(idle);
    *out_searching = false;
    while (mask & bit) {
        if (!ra_cas_seq_cst(idle, &mask, mask & ~bit)) continue;
        /* Who pushed what else there is may have taken this worker for a searcher, and woken nobody. */
        if (task && is_work_left(device)) rota_cpu_notify(device);
        return task;
    }
    /* A waker took the bit, and has counted this worker or is about to. Its write of wake_word comes after
     * that. */
    while (!ra_load_acquire(&worker->wake_word))
        (void)rota_futex_wait(&worker->wake_word, 0, rota_deadline_after(sleep_ns));
    *out_searching = true;
    if (!task) return NULL;
    ra_fetch_add_seq_cst(&device->searchers, UINT32_MAX);
    *out_searching = false;
    if (is_work_left(device)) rota_cpu_notify(device);
    return task;
}

static bool enter_search(rota_cpu_device *device) {
    uint32_t limit = device->worker_count > 2 ? device->worker_count / 2 : 1;
    uint32_t searchers = ra_load_relaxed(&device->searchers);
    while (searchers < limit) {
        if (ra_cas_seq_cst(&device->searchers, &searchers, searchers + 1)) return true;
    }
    return false;
}

/* The next task; NULL when the device stops. */
static rota_cpu_task *next_task(rota_cpu_worker *worker) {
    rota_cpu_device *device = worker->device;
    bool searching = false;
    for (;;) {
        if (ra_load_acquire(&device->stop)) return NULL; /* pairs with close and rota_cpu_lose */
        rota_cpu_task *task;
        if (!searching) {
            task = find_task(worker);
            if (task) return task;
            searching = enter_search(device);
        }
        if (searching) {
            task = search(worker);
            if (task) return task;
        }
        task = sleep_until_woken(worker, &searching);
        if (task) return task;
    }
}

/* ---- Loss ---- */

void rota_cpu_lose(rota_cpu_device *device, const char *message) {
    (void)snprintf(device->loss, sizeof device->loss, "%s", message);
    ra_store_seq_cst(&device->lost, 1);
    uint32_t runs = ROTA_CPU_RUNS;
    /* Releases the sentence to park. Fails only where close came first. */
    if (ra_cas_seq_cst(&device->stop, &runs, ROTA_CPU_IS_LOST)) rota_cpu_wake_all(device);
}

/* Until close. Whoever comes last has seen (acquire and release of `parked`) that no worker is in a command,
 * and none will begin another. */
static void park(rota_cpu_device *device) {
    if (ra_fetch_add_acq_rel(&device->parked, 1) + 1 == device->worker_count)
        device->host.lost(device->host.user, ROTA_OUT_OF_MEMORY, device->loss);
    while (ra_load_acquire(&device->stop) == ROTA_CPU_IS_LOST) /* pairs with close */
        (void)rota_futex_wait(&device->stop, ROTA_CPU_IS_LOST, rota_deadline_after(sleep_ns));
}

void *rota_cpu_worker_main(void *argument) {
    rota_cpu_worker *worker = argument;
    rota_cpu_device *device = worker->device;
    for (rota_cpu_task *task; (task = next_task(worker));) rota_cpu_run_task(worker, task);
    if (ra_load_acquire(&device->stop) == ROTA_CPU_IS_LOST) park(device); /* pairs with rota_cpu_lose */
    ra_store_release(&worker->exited, 1);                                 /* pairs with close */
    ra_fetch_add_seq_cst(&device->exited_count, 1);
    rota_futex_wake(&device->exited_count, 1);
    return NULL;
}
