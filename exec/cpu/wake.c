/* Tasks on their way to workers: pushed, and a sleeper woken.
 *
 * Whoever pushes a task wakes a sleeper only if nobody searches; a searcher that finds a task wakes the next
 * one if there is more (worker.c). So a saturated machine makes no futex calls and an idle one uses no time.
 *
 * A worker wakes the nearest sleeper, which then steals from near ones first (rota_cpu_steal): what the one wrote the
 * other reads out of a cache that both have. Whoever is no worker is near none, and wakes the first.
 *
 * No wake is lost: a pusher stores `bottom` (or the overflow list) and then loads `searchers` and all of `idle`; a
 * worker leaves `searchers`, enters `idle` and then looks at every deque once more; all of these are seq_cst,
 * so either the pusher sees the sleeper, or the sleeper the task. A pusher that finds nobody near looks everywhere.
 *
 * Progress: push, inject and notify are lock-free and enter the kernel only to wake a sleeper. */
#include "exec/cpu/wake.h"

#include <stdio.h>

#include "base/futex.h"
#include "exec/cpu/device.h"

void rota_cpu_push_overflow(rota_cpu_device *device, rota_cpu_task *first, rota_cpu_task *last) {
    rota_cpu_task *head = ra_load_relaxed(&device->tasks.overflow);
    do {
        last->overflow_next = head;
    } while (!ra_cas_seq_cst(&device->tasks.overflow, &head,
                             first)); /* publishes to the exchange in take_overflow */
}

void rota_cpu_push(rota_cpu_worker *worker, rota_cpu_task *task) {
    if (!rota_cpu_deque_push(&worker->deque, task)) rota_cpu_push_overflow(worker->device, task, task);
    rota_cpu_notify(worker->device, &worker->near);
}

void rota_cpu_show_handed(rota_cpu_worker *worker) {
    rota_cpu_task *task = worker->handed;
    if (!task) return;
    worker->handed = NULL;
    rota_cpu_push(worker, task);
}

bool rota_cpu_put(rota_cpu_device *device, rota_cpu_task *task, uint32_t *count) {
    if (rota_cpu_deque_put(&device->tasks.inject, task, *count)) {
        ++*count;
        return true;
    }
    rota_cpu_push_overflow(device, task, task);
    rota_cpu_notify(device, NULL);
    return false;
}

void rota_cpu_inject(rota_cpu_device *device, uint32_t count) {
    rota_cpu_deque_show(&device->tasks.inject, count);
    rota_cpu_notify(device, NULL);
}

static bool is_any_idle(rota_cpu_device *device) {
    const uint32_t words = (device->worker_count + 63) / 64;
    for (uint32_t word = 0; word < words; word++)
        if (ra_load_seq_cst(&device->tasks.idle[word])) return true;
    return false;
}

/* The workers of the range among those of the word, a bit each. */
static uint64_t bits_of(rota_cpu_range range, uint32_t word) {
    const uint32_t first = word * 64, end = range.first + range.count;
    uint64_t bits = UINT64_MAX;
    if (range.first > first) bits &= UINT64_MAX << (range.first - first);
    if (end < first + 64) bits &= ((uint64_t)1 << (end - first)) - 1;
    return bits;
}

/* Wakes a sleeper of the range, the first. False: none sleeps there. */
static bool wake_within(rota_cpu_device *device, rota_cpu_range range) {
    for (uint32_t word = range.first / 64; word * 64 < range.first + range.count; word++) {
        const uint64_t near = bits_of(range, word);
        uint64_t idle = ra_load_seq_cst(&device->tasks.idle[word]);
        while (idle & near) {
            const uint64_t bit = (idle & near) & (0 - (idle & near));
            if (!ra_cas_seq_cst(&device->tasks.idle[word], &idle, idle & ~bit)) continue;
            /* The sleeper is ours to wake. It counts as searching from now on, so that the next push wakes
             * nobody. */
            ra_fetch_add_seq_cst(&device->tasks.searchers, 1);
            rota_cpu_worker *worker = &device->workers[word * 64 + (uint32_t)__builtin_ctzll(bit)];
            ra_store_release(&worker->wake_word, 1); /* pairs with the load in sleep_until_woken */
            rota_futex_wake(&worker->wake_word, 1);
            return true;
        }
    }
    return false;
}

void rota_cpu_notify(rota_cpu_device *device, const rota_cpu_near *near) {
    if (ra_load_seq_cst(&device->tasks.searchers) != 0) return;
    const uint32_t levels = near ? near->level_count : 0;
    /* All are at work: that is looked at once, however many levels there are. */
    if (levels && !is_any_idle(device)) return;
    for (uint32_t level = 0; level < levels; level++)
        if (wake_within(device, near->levels[level])) return;
    (void)wake_within(device, (rota_cpu_range){0, device->worker_count});
}

void rota_cpu_wake_all(rota_cpu_device *device) {
    for (uint32_t i = 0; i < device->worker_count; i++) {
        ra_store_release(&device->workers[i].wake_word, 1);
        rota_futex_wake(&device->workers[i].wake_word, 1);
    }
}

void rota_cpu_lose(rota_cpu_device *device, const char *message) {
    (void)snprintf(device->end.loss, sizeof device->end.loss, "%s", message);
    ra_store_seq_cst(&device->end.lost, 1);
    uint32_t runs = ROTA_CPU_RUNS;
    /* Releases the sentence to park. Fails only where close came first. */
    if (ra_cas_seq_cst(&device->end.stop, &runs, ROTA_CPU_IS_LOST)) rota_cpu_wake_all(device);
}
