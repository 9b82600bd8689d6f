/* Workers' lives: where tasks are looked for, and how workers sleep.
 *
 * A worker with nothing to do searches for up to SEARCH_NS, yielding its core between looks, and then sleeps
 * on its own futex word. At most half of the workers search at a time, the others sleep at once. One goes on for as
 * long as a host function that ends later says that ends and begins come soon (later.c): waking up takes longer than
 * those. Why no wake is lost stands in wake.c.
 *
 * Whoever counts as searching is not woken. So a worker that yields to others for long would leave a task for as long,
 * and it sleeps as soon as one that computes has its core (base/spin.h).
 *
 * A worker pumps only while it counts neither as searching nor as sleeping: who pushes wakes nobody where one searches,
 * or wakes one that sleeps, and a pump may go on for as long as others submit. So whoever finds `kick` set while it
 * counts as either leaves that state first, and wakes another for what else there is. */
#include "exec/cpu/worker.h"

#include <sched.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/spin.h"
#include "exec/cpu/device.h"
#include "exec/cpu/later.h"
#include "exec/cpu/run.h"

enum {
    SEARCH_NS = 50000,
    LOOKS_PER_YIELD = 2,  /* about two microseconds: who needs this core may be who brings a task */
    PAUSES_PER_LOOK = 16, /* each look takes lines from the cores of those who have tasks */
    RUNS_LOOK_NS = 1000000,
    INJECT_EVERY = 61 /* so that a worker busy with its own tasks still takes up new works */
};
/* A sleeper looks again after this long, so that no wait is without a deadline. */
static const uint64_t sleep_ns = 10000000000u;

/* ---- Finding ---- */

/* Takes the whole overflow list: keeps one task, pushes what fits to the own deque, and puts the rest back.
 */
static rota_cpu_task *take_overflow(rota_cpu_worker *worker) {
    rota_cpu_device *device = worker->device;
    if (!ra_load_seq_cst(&device->tasks.overflow)) return NULL;
    rota_cpu_task *task = ra_exchange_seq_cst(&device->tasks.overflow, NULL);
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
        rota_cpu_push_overflow(device, rest, last);
    }
    /* A worker may have found the list empty meanwhile and gone to sleep. */
    rota_cpu_notify(device, &worker->near);
    return task;
}

/* From workers of the range that were not asked before. */
static rota_cpu_task *steal_within(rota_cpu_worker *worker, rota_cpu_range range, rota_cpu_range asked) {
    const uint32_t start = (uint32_t)(worker->random >> 33) % range.count;
    for (uint32_t i = 0; i < range.count; i++) {
        const uint32_t victim = range.first + (start + i < range.count ? start + i : start + i - range.count);
        if (victim == worker->index || rota_cpu_range_has(asked, victim)) continue;
        rota_cpu_task *task = rota_cpu_deque_steal(&worker->device->workers[victim].deque);
        if (task) return task;
    }
    return NULL;
}

rota_cpu_task *rota_cpu_steal(rota_cpu_worker *worker) {
    const rota_cpu_near *near = &worker->near;
    const rota_cpu_range all = {0, worker->device->worker_count};
    if (all.count == 1) return NULL;
    worker->random = worker->random * 6364136223846793005u + 1442695040888963407u;
    rota_cpu_range asked = {0, 0};
    for (uint32_t level = 0; level <= near->level_count; level++) {
        const rota_cpu_range range = level < near->level_count ? near->levels[level] : all;
        rota_cpu_task *task = steal_within(worker, range, asked);
        if (task) return task;
        asked = range;
    }
    return NULL;
}

/* Somebody is to pump: see publish_blocked, which this pairs with. */
static bool is_kicked(rota_cpu_device *device) {
    return ra_load_seq_cst(&device->pump.kick) != 0;
}

static rota_cpu_task *find_task(rota_cpu_worker *worker) {
    rota_cpu_task *task;
    if (++worker->tick % INJECT_EVERY == 0) {
        task = rota_cpu_deque_steal(&worker->device->tasks.inject);
        if (!task) task = take_overflow(worker); /* runs that ended elsewhere come by it */
        if (task) {
            rota_cpu_show_handed(worker);
            return task;
        }
    }
    if (worker->handed) {
        task = worker->handed;
        worker->handed = NULL;
        return task;
    }
    task = rota_cpu_deque_pop(&worker->deque);
    if (!task) task = rota_cpu_deque_steal(&worker->device->tasks.inject);
    if (!task) task = rota_cpu_steal(worker);
    if (!task) task = take_overflow(worker);
    return task;
}

static bool is_task_left(rota_cpu_device *device) {
    if (!rota_cpu_deque_is_empty(&device->tasks.inject) || ra_load_seq_cst(&device->tasks.overflow))
        return true;
    for (uint32_t i = 0; i < device->worker_count; i++) {
        if (!rota_cpu_deque_is_empty(&device->workers[i].deque)) return true;
    }
    return false;
}

/* The worker counts as searching or sleeping no longer, for a task or to pump: who pushed what else there is may have
 * relied on it, and woken nobody. */
static void wake_next(rota_cpu_worker *worker, const rota_cpu_task *task, bool pumps) {
    rota_cpu_device *device = worker->device;
    if ((task && is_kicked(device)) || ((task || pumps) && is_task_left(device)))
        rota_cpu_notify(device, &worker->near);
}

/* The worker has looked for long enough: it counts as searching no longer, unless it is the last one, there is to be
 * one (later.c), and no other thread computes on its core. */
static bool leave_search(rota_cpu_device *device, bool is_core_wanted) {
    const uint64_t now = is_core_wanted ? UINT64_MAX : rota_clock_ns();
    uint32_t searchers = ra_load_relaxed(&device->tasks.searchers);
    while (searchers > 1 || now >= ra_load_relaxed(&device->tasks.looks_until_ns))
        if (ra_cas_seq_cst(&device->tasks.searchers, &searchers, searchers - 1)) return true;
    return false;
}

/* Between two looks; false: the worker counts as searching no longer. */
static bool go_on_searching(rota_cpu_worker *worker, rota_spin *spin) {
    rota_cpu_device *device = worker->device;
    const uint64_t before_ns = rota_clock_ns();
    const bool is_core_wanted = spin->has_lost || worker->patience.lost_left != 0;
    if ((is_core_wanted || before_ns - spin->begin_ns >= spin->limit_ns) &&
        leave_search(device, is_core_wanted))
        return false;
    (void)sched_yield();
    const uint64_t away_ns = rota_clock_ns() - before_ns;
    if (away_ns >= ROTA_SPIN_ALONE_NS) rota_spin_note_others(spin, away_ns);
    return true;
}

/* How it went. Workers look no longer where tasks came soon: what they remember is that others want the cores. */
static void learn(rota_cpu_worker *worker, const rota_spin *spin) {
    rota_patience_note(&worker->patience, spin);
    rota_patience_learn(&worker->patience, UINT64_MAX);
}

/* The worker counts as searching. Leaves that state either way. *out_pumps: it is to pump. */
static rota_cpu_task *search(rota_cpu_worker *worker, bool *out_pumps) {
    rota_cpu_device *device = worker->device;
    rota_cpu_task *task = NULL;
    rota_spin spin = {.limit_ns = 0};
    *out_pumps = false;
    for (uint32_t look = 0;; look++) {
        *out_pumps = is_kicked(device);
        if (*out_pumps) break;
        task = find_task(worker);
        if (task || ra_load_acquire(&device->end.stop)) break; /* stop: as in next_task */
        if (look % LOOKS_PER_YIELD == LOOKS_PER_YIELD - 1) {
            if (spin.begin_ns == 0) spin = rota_patience_spin(&worker->patience, SEARCH_NS, 0);
            if (!go_on_searching(worker, &spin)) {
                learn(worker, &spin);
                return NULL;
            }
        } else {
            for (int pause = 0; pause < PAUSES_PER_LOOK; pause++) ra_pause();
        }
    }
    if (spin.begin_ns) learn(worker, &spin);
    ra_fetch_add_seq_cst(&device->tasks.searchers, UINT32_MAX);
    wake_next(worker, task, *out_pumps);
    return task;
}

/* Sleeps until woken, or until there is something at the last look: a task, which is returned, or a pump to be made.
 * Without a task *out_searching says whether the waker counted this worker as searching. */
static rota_cpu_task *sleep_until_woken(rota_cpu_worker *worker, bool *out_searching) {
    rota_cpu_device *device = worker->device;
    _Atomic uint64_t *idle = &device->tasks.idle[worker->index / 64];
    uint64_t bit = (uint64_t)1 << (worker->index % 64);
    /* Only wake_all can have written it since the last sleep; the exchange then makes `stop` visible below.
     */
    ra_exchange_acq_rel(&worker->wake_word, 0);
    ra_fetch_add_seq_cst(idle, bit); /* sets it: it was clear */
    const bool pumps = is_kicked(device);
    rota_cpu_task *task = pumps ? NULL : find_task(worker);
    if (!task && !pumps && !ra_load_seq_cst(&device->end.stop))
        (void)rota_futex_wait(&worker->wake_word, 0, rota_deadline_after(sleep_ns));
    uint64_t mask = ra_load_seq_cst(idle);
    *out_searching = false;
    while (mask & bit) {
        if (!ra_cas_seq_cst(idle, &mask, mask & ~bit)) continue;
        wake_next(worker, task, pumps);
        return task;
    }
    /* A waker took the bit, and has counted this worker or is about to. Its write of wake_word comes after
     * that. */
    while (!ra_load_acquire(&worker->wake_word))
        (void)rota_futex_wait(&worker->wake_word, 0, rota_deadline_after(sleep_ns));
    *out_searching = true;
    if (!task) return NULL;
    ra_fetch_add_seq_cst(&device->tasks.searchers, UINT32_MAX);
    *out_searching = false;
    wake_next(worker, task, false);
    return task;
}

static bool enter_search(rota_cpu_device *device) {
    uint32_t limit = device->worker_count > 2 ? device->worker_count / 2 : 1;
    uint32_t searchers = ra_load_relaxed(&device->tasks.searchers);
    while (searchers < limit) {
        if (ra_cas_seq_cst(&device->tasks.searchers, &searchers, searchers + 1)) return true;
    }
    return false;
}

/* The next task; NULL when the device stops. */
static rota_cpu_task *next_task(rota_cpu_worker *worker) {
    rota_cpu_device *device = worker->device;
    bool searching = false, pumps = false;
    for (;;) {
        if (ra_load_acquire(&device->end.stop)) return NULL; /* pairs with close and rota_cpu_lose */
        rota_cpu_task *task;
        if (!searching) {
            /* What the pump starts is this worker's, or lands in its deque. */
            if (is_kicked(device) && ra_exchange_seq_cst(&device->pump.kick, 0)) rota_cpu_pump(worker);
            task = find_task(worker);
            if (task) return task;
            searching = enter_search(device);
        }
        if (searching) {
            task = search(worker, &pumps);
            if (task) return task;
            searching = false;
            if (pumps) continue;
        }
        task = sleep_until_woken(worker, &searching);
        if (task) return task;
    }
}

/* ---- The end ---- */

/* What host functions that end later touch is the host's memory, too. False: close came first. */
static bool wait_for_runs(rota_cpu_device *device) {
    while (!rota_cpu_later_wait(device, rota_deadline_after(RUNS_LOOK_NS)))
        if (ra_load_acquire(&device->end.stop) != ROTA_CPU_IS_LOST) return false; /* pairs with close */
    return true;
}

/* Until close. Whoever comes last has seen (acquire and release of `parked`) that no worker is in a command,
 * and none will begin another. */
static void park(rota_cpu_device *device) {
    if (ra_fetch_add_acq_rel(&device->end.parked, 1) + 1 == device->worker_count && wait_for_runs(device))
        device->host.lost(device->host.user, ROTA_OUT_OF_MEMORY, device->end.loss);
    while (ra_load_acquire(&device->end.stop) == ROTA_CPU_IS_LOST) /* pairs with close */
        (void)rota_futex_wait(&device->end.stop, ROTA_CPU_IS_LOST, rota_deadline_after(sleep_ns));
}

void *rota_cpu_worker_main(void *argument) {
    rota_cpu_worker *worker = argument;
    rota_cpu_device *device = worker->device;
    for (rota_cpu_task *task; (task = next_task(worker));) rota_cpu_run_task(worker, task);
    if (ra_load_acquire(&device->end.stop) == ROTA_CPU_IS_LOST) park(device); /* pairs with rota_cpu_lose */
    ra_store_release(&worker->exited, 1);                                     /* pairs with close */
    ra_fetch_add_seq_cst(&device->end.exited_count, 1);
    rota_futex_wake(&device->end.exited_count, 1);
    return NULL;
}
