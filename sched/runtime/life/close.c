/* Closing a runtime: within a deadline, whatever the devices do. */
#include "sched/runtime/life/close.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/runtime/completer/complete.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/kinds/read.h"
#include "sched/runtime/kinds/released.h"
#include "sched/runtime/life/device.h"
#include "sched/runtime/memory/adopt.h"
#include "sched/runtime/memory/memory.h"
#include "sched/runtime/memory/peers.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/sequencer/last_use.h" /* IWYU pragma: keep */
#include "sched/runtime/sequencer/sequencer.h"
#include "sched/runtime/sequencer/submission_pool.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/text.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/gate.h"

#define RESCUE_NS 500000000u
#define THREAD_NS 1000000000u /* for a thread that has nothing left to do, on a machine with much to do */

static void nap(void) {
    rota_nap_until(rota_deadline_after(50000));
}

/* Whether some device that is not lost has works before it and is linked to one that is. */
static bool is_waiting_for_lost(rota_runtime *runtime) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        if (rota_device_is_lost(device) || rota_device_is_finished(device)) continue;
        for (uint64_t others = ra_load_acquire(&device->others.linked); others; others &= others - 1)
            if (rota_device_is_lost(runtime->devices[__builtin_ctzll(others)])) return true;
    }
    return false;
}

/* Submissions that the sequencer has not taken. */
static uint64_t waiting_submissions(rota_runtime *runtime) {
    uint64_t count = 0;
    uint32_t lanes = ra_load_acquire(&runtime->lanes.high);
    for (uint32_t i = 0; i < lanes; i++) { /* acquire: the works of what was taken are seen as issued */
        rota_lane *lane = rota_lane_at(&runtime->lanes, i);
        count += ra_load_acquire(&lane->tail) - ra_load_acquire(&lane->head);
    }
    return count;
}

/* Gives back what they hold; the sequencer has ended. */
static void drop_waiting(rota_runtime *runtime) {
    uint32_t lanes = ra_load_acquire(&runtime->lanes.high);
    for (uint32_t i = 0; i < lanes; i++) {
        rota_lane *lane = rota_lane_at(&runtime->lanes, i);
        uint64_t tail = ra_load_acquire(&lane->tail), head = ra_load_relaxed(&lane->head);
        for (; head != tail; head++) {
            const rota_record *record = &lane->store->records[head % ROTA_LANE_RECORDS];
            if (rota_kinds[record->kind].drop)
                rota_kinds[record->kind].drop(record->object,
                                              &lane->store->words[record->payload_begin % ROTA_LANE_WORDS]);
        }
        ra_store_release(&lane->head, tail);
    }
}

static uint64_t unfinished_devices(rota_runtime *runtime) {
    uint64_t mask = 0;
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        if (!rota_device_is_finished(runtime->devices[d])) mask |= (uint64_t)1 << d;
    return mask;
}

static bool is_finished(rota_runtime *runtime) {
    return waiting_submissions(runtime) == 0 && unfinished_devices(runtime) == 0;
}

/* Those that are held for the application fail now, and what comes after them goes on. */
static void end_external_waits(rota_runtime *runtime) {
    ra_store_seq_cst(&runtime->external.is_over, 1); /* with after_is_over, before its thread sleeps */
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) rota_sleeper_wake(runtime->devices[d]->handover.sleeper);
    if (!ra_load_relaxed(&runtime->external.is_used)) return; /* nothing was ever held so */
    const uint64_t until = rota_deadline_after(RESCUE_NS);
    while (!is_finished(runtime) && rota_clock_ns() < until) nap();
}

/* What did not end by the deadline. */
typedef struct stuck_threads {
    uint64_t submit; /* bit per device: its submit thread, or who makes instances */
    bool completer, reclaimer, callback;
} stuck_threads;

/* Whether a thread that was told to end is still at something at the deadline: then it is left to itself. */
static bool outlasts(pthread_t thread, const _Atomic uint32_t *ended, uint64_t deadline_ns) {
    while (!ra_load_acquire(ended) && rota_clock_ns() < deadline_ns) nap();
    bool has_ended = ra_load_acquire(ended) != 0;
    if (has_ended)
        (void)pthread_join(thread, NULL);
    else
        (void)pthread_detach(thread);
    return !has_ended;
}

/* What a thread or an executor is given that is told to end only now, where others have used up the deadline.
 */
static uint64_t at_least(uint64_t deadline_ns) {
    uint64_t least = rota_deadline_after(THREAD_NS);
    return deadline_ns > least ? deadline_ns : least;
}

/* Ends the threads: the reclaimer after the sequencer, which alone gives it something, and the completer
 * then: by then nothing is given to it, and until then it ends waits that may hold up a submit thread or the
 * reclaimer. Last the one that the completer gives callbacks to. What a callback releases now is left to
 * free_released. */
static stuck_threads stop_threads(rota_runtime *runtime, uint64_t deadline_ns) {
    stuck_threads stuck = {0};
    ra_store_seq_cst(&runtime->stop, 1);
    rota_sleeper_wake(&runtime->sequencing.sleeper);
    if (runtime->sequencing.thread_started) (void)pthread_join(runtime->sequencing.thread, NULL);
    uint32_t devices = ra_load_relaxed(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        (void)rota_device_move(device, ROTA_LIFE_CLOSING);
        rota_sleeper_wake(device->handover.sleeper);
        rota_sleeper_wake(&device->building.sleeper);
        for (uint32_t other = 0; other < devices; other++) rota_device_wake_waiters(runtime->devices[other]);
        if (outlasts(device->handover.thread, &device->handover.thread_ended, at_least(deadline_ns)))
            stuck.submit |= (uint64_t)1 << d;
        /* What it is making is other devices' too. */
        if (outlasts(device->building.thread, &device->building.thread_ended, at_least(deadline_ns)))
            stuck.submit |= (uint64_t)1 << d;
    }
    ra_store_seq_cst(&runtime->reclaiming.stop, 1);
    rota_sleeper_wake(&runtime->reclaiming.sleeper);
    stuck.reclaimer =
        runtime->reclaiming.thread_started &&
        outlasts(runtime->reclaiming.thread, &runtime->reclaiming.thread_ended, at_least(deadline_ns));
    ra_store_seq_cst(&runtime->completing.stop, 1);
    rota_sleeper_wake(&runtime->completing.sleeper);
    stuck.completer =
        runtime->completing.thread_started &&
        outlasts(runtime->completing.thread, &runtime->completing.thread_ended, at_least(deadline_ns));
    ra_store_seq_cst(&runtime->callbacks.stop, 1);
    rota_sleeper_wake(&runtime->callbacks.sleeper);
    stuck.callback =
        runtime->callbacks.thread_started &&
        outlasts(runtime->callbacks.thread, &runtime->callbacks.thread_ended, at_least(deadline_ns));
    return stuck;
}

/* Whether the object may be touched by a device of the mask. */
static bool is_retained(const rota_released *released, uint64_t stuck) {
    if (stuck == 0) return false;
    const rota_released_row *row = rota_released_row_of(released);
    return !row->is_of || row->is_of(released, stuck);
}

/* Before the first buffer goes: plans own those that were in their slots, too. */
static void release_replays(rota_runtime *runtime) {
    for (rota_executable *executable = runtime->objects.executables; executable;
         executable = executable->next)
        rota_replay_release(executable);
}

/* Frees what was released and can't be in use; what a stuck device may touch is left, in `dead`. */
static void free_released(rota_runtime *runtime, uint64_t stuck) {
    rota_released *released = runtime->sequencer->last_uses->released, *left = NULL;
    runtime->sequencer->last_uses->released = NULL;
    for (;;) {
        if (!released) {
            released = runtime->sequencer->last_uses->retained;
            runtime->sequencer->last_uses->retained = NULL;
        }
        if (!released) released = rota_released_take(&runtime->sequencing.released);
        if (!released) break;
        rota_released *next = released->next;
        if (is_retained(released, stuck)) {
            released->next = left;
            left = released;
        } else {
            rota_released_row_of(released)->free(released); /* args may release a plan, which then is next */
        }
        released = next;
    }
    runtime->sequencer->last_uses->released = left;
}

/* What callers still hold becomes a handle: the structs stay, the executors' objects go. */
static void empty_objects(rota_runtime *runtime, uint64_t stuck) {
    rota_executable *abandoned = NULL;
    for (rota_executable *executable = runtime->objects.executables; executable;) {
        rota_executable *next = executable->next;
        executable->closed = true;
        executable->abandoned = (executable->device_mask & stuck) != 0;
        if (executable->abandoned) {
            executable->next = abandoned;
            abandoned = executable;
        } else {
            rota_executable_destroy(executable);
        }
        executable = next;
    }
    for (rota_residency *residency = runtime->objects.residencies; residency;) {
        rota_residency *next = residency->next;
        residency->closed = true;
        for (uint32_t d = 0; d < ROTA_DEVICES_MAX; d++)
            if (stuck >> d & 1u) ra_store_relaxed(&residency->memory[d], NULL);
        rota_residency_destroy(residency, true);
        residency = next;
    }
    runtime->objects.executables = abandoned;
    runtime->objects.residencies = NULL;
}

static void let_go_of_reads(rota_submission *submission) {
    for (; submission; submission = submission->next) {
        if (submission->read) rota_host_read_release(submission->read);
        submission->read = NULL;
    }
}

/* Of devices that are through, while the staging memory is there that they give back, which may be another
 * device's. */
static void let_go_of_all_reads(rota_runtime *runtime, uint64_t stuck) {
    if (stuck == 0) let_go_of_reads(runtime->sequencer->orphaned_reads);
    uint32_t devices = ra_load_relaxed(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; !(stuck >> d & 1u) && q < runtime->queue_count; q++)
            let_go_of_reads(runtime->devices[d]->timelines[q].order.oldest);
}

static void free_submission(rota_submission *submission) {
    if (submission->read) rota_host_read_release(submission->read);
    if (submission->has_after) rota_external_wait_release(submission->seldom.after.words);
    rota_submission_free(submission);
}

static void free_submissions(rota_submission *submission) {
    while (submission) {
        rota_submission *next = submission->next;
        free_submission(submission);
        submission = next;
    }
}

static void free_ended(rota_runtime *runtime) {
    rota_stack_entry *entry = rota_stack_take_upmc(&runtime->sequencing.ended);
    while (entry) {
        rota_submission *submission = ROTA_STACK_OBJECT(entry, rota_submission, seldom.ended);
        entry = entry->next;
        free_submission(submission);
    }
}

/* Returns the bytes that are abandoned to the device. */
static uint64_t close_device(rota_device *device, bool is_stuck, uint64_t deadline_ns) {
    for (uint32_t q = 0; !is_stuck && q < device->runtime->queue_count; q++)
        free_submissions(device->timelines[q].order.oldest);
    if (!is_stuck) rota_staging_close(device);
    if (!is_stuck && device->uploads.memory) rota_device_memory_destroy(device, device->uploads.memory);
    uint64_t bytes = 0;
    device->exec->vtable->close(device->exec, deadline_ns, &bytes);
    (void)rota_device_move(device, bytes ? ROTA_LIFE_ABANDONED : ROTA_LIFE_CLOSED);
    return bytes;
}

typedef struct closing {
    bool was_finished;     /* all, at the deadline */
    uint64_t late;         /* bit per device: it had works unfinished then */
    stuck_threads threads; /* at the end of what they were given */
    uint64_t waiting;      /* submissions that the sequencer had not taken */
    uint64_t stuck;        /* it has works unfinished, now that nothing is handed over any more */
    uint64_t answers_not;  /* its executor could not be closed */
    uint64_t left;         /* it is left as it is */
    uint64_t abandoned_bytes;
} closing;

static uint64_t all_devices(const rota_runtime *runtime) {
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    return devices == 64 ? UINT64_MAX : ((uint64_t)1 << devices) - 1;
}

static void close_devices_of(rota_runtime *runtime, closing *c, uint64_t mask, uint64_t deadline_ns) {
    for (; mask; mask &= mask - 1) {
        uint32_t d = (uint32_t)__builtin_ctzll(mask);
        uint64_t bytes = close_device(runtime->devices[d], c->stuck >> d & 1u, at_least(deadline_ns));
        c->abandoned_bytes += bytes;
        if (bytes != 0) c->answers_not |= (uint64_t)1 << d;
    }
    c->left |= c->answers_not;
}

static void leave(rota_runtime *runtime, closing *c, uint64_t mask) {
    c->left |= mask;
    for (; mask; mask &= mask - 1) {
        rota_device *device = runtime->devices[__builtin_ctzll(mask)];
        /* The completer may stand that was to let streams of the application's go on. */
        const rota_exec_streams *streams = device->exec ? device->exec->vtable->streams : NULL;
        if (streams) streams->open_latches(device->exec);
        (void)rota_device_move(device, ROTA_LIFE_ABANDONED);
    }
}

/* Devices with memory that is known to works of those that are left: staging memory of what moves,
 * instances of plans on several devices, and buffers on peers. */
static uint64_t exposed_devices(const rota_runtime *runtime, uint64_t left) {
    uint64_t exposed = rota_peers_of(runtime, left);
    uint32_t devices = ra_load_relaxed(&runtime->device_count);
    for (const rota_executable *executable = runtime->objects.executables; executable;
         executable = executable->next)
        if (executable->device_mask & left) exposed |= executable->device_mask;
    for (uint32_t d = 0; d < devices; d++)
        if (rota_staging_is_busy(runtime->devices[d])) exposed |= (uint64_t)1 << d;
    return exposed & ~left;
}

/* Executors that work on the host, and those with peers, come first, where they are not through: they may be copying to
 * or from other devices' memory, stuck or not. Where one does not come to an end, what it may touch there is left. */
static void close_devices(rota_runtime *runtime, closing *c, uint64_t deadline_ns) {
    uint64_t first = 0, all = all_devices(runtime);
    for (uint64_t mask = c->stuck; mask; mask &= mask - 1) {
        uint32_t d = (uint32_t)__builtin_ctzll(mask);
        const rota_device *device = runtime->devices[d];
        if (device->exec->caps.unified_host || ra_load_acquire(&device->others.peers))
            first |= (uint64_t)1 << d;
    }
    close_devices_of(runtime, c, first, deadline_ns);
    let_go_of_all_reads(runtime, c->stuck);
    release_replays(runtime);
    /* What is left may still read its peers' memory. */
    const uint64_t touched = c->stuck | rota_peers_of(runtime, c->left);
    free_released(runtime, touched);
    empty_objects(runtime, touched);
    if (c->left) leave(runtime, c, exposed_devices(runtime, c->left));
    close_devices_of(runtime, c, all & ~first & ~c->left, deadline_ns);
}

/* But for those that stay, and those linked to them, since executors of linked devices look at each other's.
 */
static void free_devices(rota_runtime *runtime, uint64_t stay) {
    uint32_t devices = ra_load_relaxed(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        if ((((uint64_t)1 << d | ra_load_acquire(&device->others.linked)) & stay) == 0)
            rota_device_free(device);
    }
}

static void free_host_side(rota_runtime *runtime) {
    const rota_sequencer *sequencer = runtime->sequencer;
    if (sequencer && sequencer->pool) {
        free_submissions(sequencer->pool->unused);
        free_submissions(sequencer->pool->bare);
        free_submissions(sequencer->orphaned);
        free_submissions(sequencer->orphaned_reads);
        free_submissions(sequencer->pool->pinned);
    }
    if (sequencer) rota_deliveries_free(runtime->sequencer);
    free_ended(runtime);
    rota_completer_free(runtime);
    rota_poison_all_free(runtime);
    rota_causes_free(runtime);
    rota_sequencer_free(runtime);
    rota_lanes_destroy(runtime);
    free(runtime->cache_dir);
    runtime->cache_dir = NULL;
    (void)pthread_mutex_destroy(&runtime->opening.mutex);
    (void)pthread_mutex_destroy(&runtime->objects.mutex);
    (void)pthread_mutex_destroy(&runtime->failed.mutex);
    (void)pthread_mutex_destroy(&runtime->objects.times_mutex);
}

void rota_runtime_dismantle(rota_runtime *runtime) {
    /* Nothing was opened that could keep a thread, and one left behind would go on in the next runtime. */
    (void)stop_threads(runtime, UINT64_MAX);
    free_host_side(runtime);
    ra_store_release(&runtime->state, ROTA_RUNTIME_CLOSED);
    rota_runtime_keep_handle(runtime);
}

/* In a forked child the threads and the drivers' state are the parent's: only memory of ours is given back.
 */
static rota_status close_in_child(rota_runtime *runtime) {
    for (rota_executable *executable = runtime->objects.executables; executable;
         executable = executable->next)
        executable->closed = true;
    for (rota_residency *residency = runtime->objects.residencies; residency; residency = residency->next)
        residency->closed = true;
    ra_store_release(&runtime->state, ROTA_RUNTIME_CLOSED);
    return ROTA_OK;
}

/* OK, or TIMEOUT with what did not end. */
static rota_status outcome(const rota_runtime *runtime, const closing *c, double seconds) {
    char text[640] = "";
    size_t length = 0;
    if (c->threads.callback || c->threads.completer || c->threads.reclaimer)
        rota_append(
            text, sizeof text, &length, "%s did not return within %.3f s: nothing of the runtime is freed",
            c->threads.callback    ? "a ticket's callback"
            : c->threads.completer ? "the log's function, or an eventfd's write,"
                                   : "a driver that frees what was released, or an application's release,",
            seconds);
    const uint64_t devices = c->late | c->threads.submit | c->answers_not;
    for (uint64_t mask = devices; mask; mask &= mask - 1)
        rota_append(text, sizeof text, &length, "%s'%s'",
                    mask != devices ? ", "
                    : length        ? "; device "
                                    : "device ",
                    runtime->devices[__builtin_ctzll(mask)]->id);
    if (devices)
        rota_append(text, sizeof text, &length,
                    " did not finish within %.3f s: %llu bytes are abandoned to it", seconds,
                    (unsigned long long)c->abandoned_bytes);
    if (c->waiting)
        rota_append(text, sizeof text, &length,
                    "%s%llu submissions had not begun within %.3f s, and were dropped", length ? "; " : "",
                    (unsigned long long)c->waiting, seconds);
    if (c->was_finished && length == 0) return ROTA_OK;
    return rota_fail(ROTA_TIMEOUT, "%s", length ? text : "the last submissions did not finish in time");
}

rota_status rota_runtime_close(rota_runtime *runtime, uint64_t timeout_ns) {
    if (!runtime) return ROTA_OK;
    if (rota_runtime_is_forked(runtime)) return close_in_child(runtime);
    ROTA_TRY(rota_runtime_check(runtime));
    ra_store_seq_cst(&runtime->state, ROTA_RUNTIME_CLOSING);
    if (timeout_ns == 0) timeout_ns = runtime->options.timeout_ns;
    uint64_t deadline = rota_deadline_after(timeout_ns);
    while (!is_finished(runtime) && rota_clock_ns() < deadline) nap();
    if (!is_finished(runtime)) end_external_waits(runtime);
    /* Who only waits on the GPU for a device that does not end can be ended. */
    uint64_t rescue = rota_deadline_after(RESCUE_NS);
    if (!is_finished(runtime)) rota_gate_watch(runtime, true);
    while (is_waiting_for_lost(runtime) && rota_clock_ns() < rescue) nap();
    /* One more round: what completed is recycled, outputs are copied, and what was released is freed. */
    if (is_finished(runtime)) rota_sequencer_reap_now(runtime);
    /* Threads that end as they should do so at once; a little time beyond the deadline keeps that orderly. */
    uint64_t thread_deadline = rota_deadline_after(THREAD_NS);
    if (thread_deadline < deadline) thread_deadline = deadline;
    closing c = {.was_finished = is_finished(runtime), .late = unfinished_devices(runtime)};
    c.threads = stop_threads(runtime, thread_deadline);
    /* What may be freed. A device that has come to its end since was too late for outputs and callbacks. */
    c.stuck = unfinished_devices(runtime);
    c.late |= c.stuck;
    c.waiting = waiting_submissions(runtime);
    drop_waiting(runtime);
    /* A thread that is stuck, inside a driver or a callback, still uses the runtime when it goes on, and what
     * it has before it may use any device, its staging memory, its timelines: all is left as it is. */
    if (c.threads.completer || c.threads.callback || c.threads.reclaimer || c.threads.submit) {
        c.stuck = UINT64_MAX;
        leave(runtime, &c, all_devices(runtime));
    } else {
        close_devices(runtime, &c, thread_deadline);
    }
    rota_adopted_return(runtime, c.left);
    rota_status status = outcome(runtime, &c, (double)timeout_ns * 1e-9);
    rota_device_note_abandoned((uint32_t)__builtin_popcountll(c.left));
    free_devices(runtime, c.stuck | c.left);
    bool stays = c.stuck != 0 || c.left != 0;
    if (!stays) free_host_side(runtime);
    ra_store_release(&runtime->state, ROTA_RUNTIME_CLOSED);
    /* What a device may still touch, and what its executor may still call, stays for the life of the process.
     */
    if (stays)
        rota_runtime_abandon_handle(runtime);
    else
        rota_runtime_keep_handle(runtime);
    rota_runtime_note_closed();
    return status;
}
