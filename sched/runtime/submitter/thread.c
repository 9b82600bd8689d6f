/* A device's submit thread, which is the only one in the driver's submit path: takes works, hands them over,
 * rests. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/spin.h"
#include "exec/locality.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/batch_memory.h"
#include "sched/runtime/submitter/blocked.h"
#include "sched/runtime/submitter/handover.h"
#include "sched/runtime/submitter/ring.h"      /* IWYU pragma: keep */
#include "sched/runtime/submitter/submitter.h" /* IWYU pragma: keep */
#include "sched/runtime/submitter/thread.h"

#define HOLD_SLICE_NS 50000000u
#define STARVED_SLICE_NS 200000u
#define COLLECTIVE_SPIN_NS 1000000u

/* Looks now and then whether who keeps what it holds is to be taken for lost: also where it never comes to rest, or
 * looks for work for longer than that. */
static void look_at_keepers(rota_submitter *submitter) {
    if (ra_load_relaxed(&submitter->device->handover.blocked_count) == 0) return;
    const uint64_t now = rota_clock_ns();
    if (now - submitter->keepers_ns < HOLD_SLICE_NS) return;
    submitter->keepers_ns = now;
    rota_blocked_give_up(submitter);
}

static bool is_to_go_on(rota_device *device) {
    return ra_load_seq_cst(&device->handover.goes_on) != 0; /* with goes_on in events.c */
}

/* Whether the device has several works to do: there is no hurry to give it one more, and what comes while the thread
 * is being woken goes over in one call of the driver's. Until the thread gives it some it has no more than that. */
static bool is_at_work(const rota_device *device) {
    uint64_t works = 0;
    for (uint32_t q = 0; q < device->runtime->queue_count && works < 2; q++) {
        const rota_timeline *timeline = &device->timelines[q];
        const uint64_t completed =
            ra_load_relaxed(&timeline->completed); /* first: it does not pass the other */
        works += ra_load_relaxed(&timeline->handed_over) - completed;
    }
    return works >= 2;
}

/* How long it looks for work: as the options say, or longer where works came soon of late, or while something is
 * blocked for a collective of a device's memory, or comes before one. Those come and end one after the other while a
 * step is under way, and each goes through several threads: what each would take to wake up is time in which the
 * devices of all ranks may have nothing to do. */
static uint64_t patience_of(rota_submitter *submitter) {
    const rota_runtime *runtime = submitter->device->runtime;
    const uint64_t asked_ns = runtime->options.spin_ns;
    const uint64_t own_ns =
        is_at_work(submitter->device) ? asked_ns : rota_patience_ns(&submitter->patience, asked_ns);
    const bool has_blocked = ra_load_relaxed(&submitter->device->handover.blocked_count) != 0;
    for (uint32_t q = 0; has_blocked && own_ns < COLLECTIVE_SPIN_NS && q < runtime->queue_count; q++) {
        const rota_work *work = submitter->blocked_first[q];
        if (work && work->step && work->submission->plan->segments[work->segment].is_end)
            return COLLECTIVE_SPIN_NS;
    }
    return own_ns;
}

/* Looks for work; false: there is none. */
static bool look_for_work(rota_submitter *submitter) {
    rota_device *device = submitter->device;
    rota_runtime *runtime = device->runtime;
    const uint64_t patience_ns = patience_of(submitter);
    if (patience_ns == 0) return false;
    rota_spin spin = rota_patience_spin(&submitter->patience, patience_ns, runtime->options.spin_ns);
    bool found = false;
    while (!found && rota_spin_yields(&spin)) { /* whoever brings the work may need this core */
        look_at_keepers(submitter);
        found = !rota_ring_seems_empty_spsc(&device->handover.ring) || ra_load_acquire(&runtime->stop) ||
                is_to_go_on(device) || rota_blocked_any_ready(submitter);
    }
    (void)ra_fetch_add_relaxed(&runtime->stats.spin_ns, rota_spin_own_ns(&spin));
    rota_patience_note(&submitter->patience, &spin);
    return found;
}

/* Nothing may go over: sleeps until that changes. */
static void rest(rota_submitter *submitter) {
    rota_device *device = submitter->device;
    rota_runtime *runtime = device->runtime;
    const bool holds = ra_load_relaxed(&device->handover.blocked_count) != 0;
    if ((holds && rota_blocked_look_for_signal(submitter)) || look_for_work(submitter)) return;
    rota_sleeper_prepare(device->handover.sleeper);
    for (uint32_t q = 0; holds && q < runtime->queue_count; q++)
        if (submitter->blocked_first[q]) rota_blocked_watch(submitter, submitter->blocked_first[q]);
    submitter->starves = false;
    /* With the announcement in rota_handover_flush. */
    if (rota_ring_is_empty_spsc(&device->handover.ring) && !ra_load_seq_cst(&runtime->stop) &&
        !is_to_go_on(device) && !rota_blocked_any_ready(submitter))
        rota_sleeper_wait(device->handover.sleeper, rota_deadline_after(submitter->starves ? STARVED_SLICE_NS
                                                                        : holds            ? HOLD_SLICE_NS
                                                                                           : 1000000000u));
    else
        rota_sleeper_cancel(device->handover.sleeper);
    if (holds) rota_blocked_watch_nothing(submitter);
}

/* The same, and what it was like is known the next time. */
static void rest_for_works(rota_submitter *submitter) {
    const uint64_t since_ns = rota_clock_ns();
    rest(submitter);
    rota_patience_learn(&submitter->patience, rota_clock_ns() - since_ns);
}

/* Whether the works that were taken, the batch, are the thread's own now, those that have the memory that they need or
 * are to fail; one that is to be blocked for that is blocked again, with what was taken behind it. While a driver makes
 * the memory another thread may put all of them back, where the device is lost: false, and it is given back. Not later:
 * what copies is not to be done with before it is. */
static bool begin_to_hand_over(rota_submitter *submitter, rota_batch_memory *memory) {
    rota_device *device = submitter->device;
    rota_batch_memory_ask(submitter, memory);
    rota_handover_note(device); /* first: released by the next, to give_up_on */
    if (memory->is_needed) {
        /* Releases the batch, and what is blocked, to look_for_thread. */
        ra_store_release(&device->handover.hands_over, ROTA_HANDS_MEMORY);
        rota_batch_memory_make(submitter, memory);
        uint32_t expected = ROTA_HANDS_MEMORY; /* until now nobody else had it, and from now on nobody will */
        const uint32_t next = memory->ready == memory->count ? ROTA_HANDS_OVER : ROTA_HANDS_NOTHING;
        if (!ra_cas_acq_rel(&device->handover.hands_over, &expected, next)) {
            rota_batch_memory_release(memory);
            return false;
        }
        rota_batch_memory_give(memory);
        if (next == ROTA_HANDS_OVER) return true;
        rota_blocked_put_back(submitter, memory->ready);
    }
    ra_store_release(&device->handover.hands_over, ROTA_HANDS_OVER); /* with look_for_thread */
    return true;
}

/* It was in the driver, or about to be: what it holds is its own again. */
static void leave_driver(rota_submitter *submitter, uint32_t state, uint32_t count) {
    rota_device *device = submitter->device;
    /* Acquires what another one took meanwhile, which does not take long. */
    for (uint32_t expected = state;
         !ra_cas_acq_rel(&device->handover.hands_over, &expected, ROTA_HANDS_NOTHING); expected = state)
        (void)sched_yield();
    /* Release: with thread_is_idle, after which the sequencer may be in submit. */
    ra_store_release(&device->handover.consumed,
                     ra_load_relaxed(&device->handover.consumed) + count + submitter->looked_at);
    submitter->looked_at = 0;
}

/* The driver may keep it there as it may in submit: what is blocked can be looked through meanwhile. */
static void go_on(rota_submitter *submitter) {
    rota_device *device = submitter->device;
    ra_store_seq_cst(&device->handover.goes_on, 0); /* first: what is said later is seen later */
    if (rota_device_is_lost(device)) return;
    submitter->batch_count = 0;
    ra_store_relaxed(&device->handover.went_on_ns, rota_clock_ns()); /* released by the next, to give_up_on */
    ra_store_release(&device->handover.hands_over, ROTA_HANDS_OVER); /* with look_for_thread */
    bool moved = false;
    if (device->exec->go_on(device->exec, &moved) != ROTA_OK) rota_device_set_lost(device, rota_last_error());
    if (moved) rota_handover_note(device); /* it gets on: give_up_on */
    leave_driver(submitter, ROTA_HANDS_OVER, 0);
}

static void serve(rota_submitter *submitter) {
    rota_device *device = submitter->device;
    rota_runtime *runtime = device->runtime;
    rota_batch_memory memory;
    while (!ra_load_acquire(&runtime->stop)) {
        look_at_keepers(submitter);
        if (is_to_go_on(device)) go_on(submitter);
        submitter->batch_count = rota_blocked_take(submitter, submitter->batch);
        if (submitter->batch_count == 0) {
            rest_for_works(submitter);
            continue;
        }
        const bool hands_over = begin_to_hand_over(submitter, &memory);
        /* What went back to what is blocked counts where it is taken once more. */
        const uint32_t count = hands_over ? submitter->batch_count : 0;
        if (count != 0) rota_hand_over(device, submitter->batch, count, &memory);
        leave_driver(submitter, hands_over ? ROTA_HANDS_OVER : ROTA_HANDS_AWAY, count);
    }
}

static void *submit_thread(void *user) {
    rota_device *device = user;
    rota_thread_cpus_begin(&device->submitter->cpus);
    rota_owner_take(&device->submitter->owner);
    serve(device->submitter);
    if (device->exec->submit_ended) device->exec->submit_ended(device->exec);
    rota_owner_leave(&device->submitter->owner);
    rota_thread_cpus_end(&device->submitter->cpus);
    rota_runtime_thread_ends(device->runtime);
    ra_store_release(&device->handover.thread_ended, 1); /* with rota_runtime_close */
    return NULL;
}

rota_status rota_handover_start(rota_device *device) {
    rota_ring_cell *cells = calloc(ROTA_HANDOVER_CELLS, sizeof *cells);
    rota_ring_begin_spsc(&device->handover.ring, cells, ROTA_HANDOVER_CELLS);
    device->outbox = calloc(1, sizeof *device->outbox);
    device->submitter = calloc(1, sizeof *device->submitter);
    if (!cells || !device->outbox || !device->submitter)
        return rota_fail(ROTA_OUT_OF_MEMORY, "device '%s': no host memory", device->id);
    device->submitter->device = device;
    int error =
        rota_locality_start(&device->exec->locality, NULL, &device->handover.thread, submit_thread, device);
    if (error != 0)
        return rota_fail(ROTA_SYSTEM, "device '%s': no submit thread: %s", device->id, strerror(error));
    device->handover.thread_started = true;
    return ROTA_OK;
}
