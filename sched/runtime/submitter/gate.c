/* The gate: what a device that waits on the GPU for another one has done is believed only when the host has
 * seen complete what it waited for.
 *
 * The driver may let such a wait end without that: it ends them all when it loses the other device, and so
 * does the rescue in rescue.c, so that nothing waits for ever. The works behind those waits have then run on
 * bytes that were never written. So a work whose waits are not decided is in the gate, with all that is
 * handed over after it and may depend on it: what is on its queue, what waits for it or for another one in
 * the gate, and what comes last. `completed` of a queue stays below the first of its works that is there; and
 * where the other device is lost before the host saw it get there, the work fails before anybody can take it
 * for done. Each work is judged as it leaves: what it waited for is decided then, and so it is known whether
 * what it read had failed. Thus a ticket, a buffer's bytes, a freed object never rest on a wait that merely
 * ended, or on bytes that another device did not write.
 *
 * On a device that says of failed nodes when a work is done, and asks about none before, a work of which one may
 * fail by itself (counted.h) is here until it has been said whether one did, with all that comes after it: then it
 * fails as a whole, and what read of it fails as it leaves. That is looked at first: a node that read what had failed
 * may well fail for the bytes that it found there, and that is not why. What is here for its own sake alone, with all
 * that it comes after decided, is judged as it is handed over as well, and so does not run on bytes known to be bad.
 *
 * What depends on none of them is not here: it is judged when it is handed over, as on any device, and its
 * end is believed when the device says so. Its own waits tell. One that was left out since its queue, or
 * another value that it waits for, comes after the same in any case, was some earlier work's, which is in the
 * gate for it; and what it waited for on other devices has been published there, and so what that came after.
 *
 * A work comes in here, by the submit thread, before its device has it. What it waits for was handed over
 * before, so the oldest undecided work of all devices waits for nothing undecided, and gates always drain. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/gate.h"
#include "sched/runtime/submitter/judge.h"

void rota_gate_lock(rota_device *device) {
    (void)pthread_mutex_lock(&device->gate.mutex);
}
void rota_gate_unlock(rota_device *device) {
    (void)pthread_mutex_unlock(&device->gate.mutex);
}

/* Whether one of its nodes may fail by itself, of which its device tells when it is done. */
static bool may_fail(const rota_work *work) {
    return work->kind == ROTA_WORK_SEGMENT && !work->device->asks_poison &&
           work->submission->plan->segments[work->segment].may_fail;
}

/* Whether what the work waited for on the device has come, or won't; with the cause where it will not come,
 * whatever else may. */
static bool waits_are_over(rota_runtime *runtime, const rota_work *work, const rota_cause **out_cause) {
    bool decided = true;
    *out_cause = NULL;
    for (uint32_t h = 0; h < work->foreign_wait_count; h++) {
        uint64_t foreign = work->submission->made.foreign_waits[work->first_foreign_wait + h];
        if (!(foreign & ROTA_FOREIGN_WAIT_ON_DEVICE)) continue; /* over before the work was handed over */
        rota_device *other = runtime->devices[rota_point_device(rota_foreign_wait_point(foreign))];
        bool lost = rota_device_is_lost(other); /* first: then what was reached before is seen */
        if (rota_point_passed(runtime, rota_foreign_wait_point(foreign))) continue;
        decided = decided && lost;
        if (lost) *out_cause = ra_load_acquire(&other->lost_cause);
    }
    return decided;
}

/* Of what a lost device was to tell nothing more is said that counts, though it may go on. With the cause. */
static bool is_never_told(const rota_device *device, const rota_cause **out_cause) {
    if (!rota_device_is_lost(device)) return false;
    *out_cause = ra_load_acquire(&device->lost_cause);
    return true;
}

/* Whether the work can be judged; with the cause as above. */
static bool is_decided(rota_runtime *runtime, const rota_work *work, const rota_cause **out_cause) {
    /* Where nodes fail by themselves its own may, or those of works before it on its own device, until it is done. */
    return waits_are_over(runtime, work, out_cause) &&
           (*out_cause || !(work->device->asks_poison || may_fail(work)) ||
            work->device->timelines[work->queue].gate.reported >= work->value ||
            (may_fail(work) && is_never_told(work->device, out_cause)));
}

/* Whether the work comes after one that is in the gate. */
static bool is_behind(const rota_work *work) {
    const rota_device *device = work->device;
    if (device->gate.head == device->gate.tail) return false;
    if (work->comes_last || device->timelines[work->queue].gate.gated) return true;
    const rota_exec_wait *waits = work->submission->made.waits + work->first_wait;
    for (uint32_t w = 0; w < work->wait_count; w++) {
        const rota_timeline *timeline = &device->timelines[waits[w].queue];
        if (timeline->gate.gated && waits[w].value > timeline->gate.believed) return true;
    }
    return false;
}

const rota_cause *rota_gate_push(rota_work *work, bool waits, bool *out_is_decided) {
    rota_device *device = work->device;
    rota_runtime *runtime = device->runtime;
    rota_gate_shared *gate = &device->gate;
    *out_is_decided = !waits && !is_behind(work);
    if (!*out_is_decided || may_fail(work)) {
        rota_timeline *timeline = &device->timelines[work->queue];
        if (gate->head == gate->tail) gate->since_ns = rota_clock_ns();
        /* From the first one on all of a queue are here, so what leaves is believed up to the next. */
        if (timeline->gate.gated++ == 0) timeline->gate.believed = work->value - 1;
        gate->works[gate->tail++ % ROTA_GATE_WORKS] = (rota_gate_entry){work, NULL};
        /* Before the device has the work: its `advanced` sees it. And before the other device's timelines are
         * looked at: who moves them afterwards sees it too. */
        ra_store_seq_cst(&gate->pending, 1);
        work->gated = true;
    }
    /* After `pending`. Of a device that is lost now the waits may have been ended before this one stood here;
     * of one that is lost later it fails before they are. */
    const rota_cause *cause = NULL;
    if (work->gated) (void)is_decided(runtime, work, &cause);
    return cause;
}

/* Whether the work will wait on its device. */
static bool will_wait(const rota_work *work) {
    for (uint32_t h = 0; h < work->foreign_wait_count; h++) {
        const uint64_t foreign = work->submission->made.foreign_waits[work->first_foreign_wait + h];
        if (foreign & ROTA_FOREIGN_WAIT_ON_DEVICE &&
            !rota_point_passed(work->device->runtime, rota_foreign_wait_point(foreign)))
            return true;
    }
    return false;
}

/* Those of one batch may come to be in the gate by each other: there is room for them all, or none of them is
 * to be there. */
bool rota_gate_takes(const rota_work *work) {
    rota_device *device = work->device;
    rota_gate_shared *gate = &device->gate;
    if (!ra_load_acquire(&gate->pending)) return true; /* with settle */
    const bool has_failed = rota_failed_is_any(ra_load_acquire(&device->runtime->failed.active));
    rota_gate_lock(device);
    /* Those of the look at `pending` may have left by now: nobody would wake the thread. */
    const bool is_empty = gate->head == gate->tail;
    const bool is_full = gate->tail - gate->head > ROTA_GATE_WORKS - ROTA_HANDOVER_BATCH;
    const bool comes = may_fail(work) || is_behind(work) || will_wait(work);
    const bool takes = is_empty || !(has_failed || is_full) || !comes;
    /* Before the thread's last look: who lets works leave after that finds this, and the thread asleep. */
    if (!takes) gate->is_wanted = true;
    rota_gate_unlock(device);
    return takes;
}

static bool is_linked_to_lost(const rota_device *device) {
    for (uint64_t open = ra_load_acquire(&device->others.linked); open; open &= open - 1)
        if (rota_device_is_lost(device->runtime->devices[__builtin_ctzll(open)])) return true;
    return false;
}

/* Takes what is decided out of the gate, in order, and publishes what is believed now; what waits for a lost
 * device fails wherever it stands, since its wait may end now (rota_linked_rescue), and that device may get
 * there late, which must not count. True: something moved. */
static bool settle(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    rota_gate_shared *gate = &device->gate;
    bool moved = false;
    rota_gate_lock(device);
    const uint64_t first = gate->head;
    const bool any_lost = is_linked_to_lost(device);
    bool leaves = true;
    for (uint64_t i = first; i != gate->tail && (leaves || any_lost); i++) {
        const rota_gate_entry *entry = &gate->works[i % ROTA_GATE_WORKS];
        rota_work *work = entry->work;
        rota_reason reason = {NULL, 0};
        leaves = is_decided(runtime, work, &reason.cause) && leaves;
        if (reason.cause) rota_poison_undone(work);
        /* What it read is known to be good or not now: before anybody can take it for done. */
        if (reason.cause || (leaves && rota_poison_of_work(work, &reason)))
            rota_poison_work(work, reason, false);
        else if (leaves && entry->failure)
            rota_poison_work(work, (rota_reason){entry->failure, work->submission->number}, true);
        if (!leaves) continue;
        rota_timeline *timeline = &device->timelines[work->queue];
        timeline->gate.believed = work->value;
        timeline->gate.gated--;
        gate->head++;
    }
    bool empty = gate->head == gate->tail;
    const bool is_lost = rota_device_is_lost(device);
    const bool wakes = gate->head != first && gate->is_wanted;
    if (gate->head != first) gate->since_ns = rota_clock_ns();
    if (wakes) gate->is_wanted = false;
    for (uint32_t q = 0; q < runtime->queue_count; q++) {
        rota_timeline *timeline = &device->timelines[q];
        uint64_t value = timeline->gate.reported;
        if (timeline->gate.gated && value > timeline->gate.believed) value = timeline->gate.believed;
        if (value <= ra_load_relaxed(&timeline->completed)) continue;
        rota_device_publish(device, q, value);
        moved = true;
    }
    /* Last, and releases what was published to `advanced`, which goes on without the gate. */
    if (empty) ra_store_seq_cst(&gate->pending, 0);
    rota_gate_unlock(device);
    if (wakes) rota_sleeper_wake(device->handover.sleeper);
    for (uint32_t q = 0; is_lost && q < runtime->queue_count; q++) /* rota_gate_is_through */
        rota_device_wake_holders(runtime, &device->timelines[q], UINT64_MAX);
    return moved;
}

bool rota_gate_is_through(rota_device *lost, uint32_t queue, uint64_t value) {
    rota_gate_shared *gate = &lost->gate;
    const rota_timeline *timeline = &lost->timelines[queue];
    if (!ra_load_acquire(&gate->pending)) return true; /* with settle */
    rota_gate_lock(lost);
    if (gate->through < gate->head) gate->through = gate->head;
    for (; gate->through != gate->tail; gate->through++) {
        const rota_work *work = gate->works[gate->through % ROTA_GATE_WORKS].work;
        const rota_cause *cause;
        if (!waits_are_over(lost->runtime, work, &cause)) break;
        if (cause) rota_poison_undone(work); /* as in settle, for who looks now */
        lost->timelines[work->queue].gate.through = work->value;
    }
    /* By its queue only what came in here, or had no need to: that is known of works that were handed over, and
     * acquired with their value from hand_over. One that was dropped comes after all of the gate. */
    const bool was_given = ra_load_acquire(&timeline->handed_over) >= value;
    const bool is_through = gate->through == gate->tail ||
                            (was_given && (timeline->gate.gated == 0 || timeline->gate.believed >= value ||
                                           timeline->gate.through >= value));
    rota_gate_unlock(lost);
    return is_through;
}

void rota_gate_report(rota_device *device, uint32_t queue, uint64_t value) {
    rota_gate_lock(device);
    device->timelines[queue].gate.reported = value;
    rota_gate_unlock(device);
    (void)settle(device);
}

/* Near the head: works are told of about in the order in which they came. */
bool rota_gate_note_failure(const rota_work *work, const rota_cause *failure) {
    rota_device *device = work->device;
    rota_gate_shared *gate = &device->gate;
    bool is_there = false;
    if (device->asks_poison || !work->gated) return false;
    rota_gate_lock(device);
    for (uint64_t i = gate->head; i != gate->tail && !is_there; i++) {
        rota_gate_entry *entry = &gate->works[i % ROTA_GATE_WORKS];
        is_there = entry->work == work;
        if (is_there && !entry->failure) entry->failure = failure; /* the first */
    }
    rota_gate_unlock(device);
    return is_there;
}

void rota_gate_drain(rota_device *lost) {
    if (ra_load_seq_cst(&lost->gate.pending)) (void)settle(lost);
}

void rota_gate_spread(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    uint64_t open = ra_load_acquire(&device->others.linked);
    while (open) {
        uint32_t d = (uint32_t)__builtin_ctzll(open);
        open &= open - 1;
        rota_device *other = runtime->devices[d];
        if (!ra_load_seq_cst(&other->gate.pending)) continue;
        if (settle(other)) open |= ra_load_acquire(&other->others.linked);
    }
}

bool rota_gate_keeps(rota_device *device, uint64_t point) {
    rota_gate_shared *gate = &device->gate;
    const rota_timeline *timeline = &device->timelines[rota_point_queue(point)];
    const rota_cause *cause;
    if (!ra_load_acquire(&gate->pending)) return false; /* with settle, as are losses that it saw */
    rota_gate_lock(device);
    const bool keeps =
        timeline->gate.gated && timeline->gate.believed < rota_point_value(point) &&
        !waits_are_over(device->runtime, gate->works[gate->head % ROTA_GATE_WORKS].work, &cause);
    rota_gate_unlock(device);
    return keeps;
}

/* The devices that the oldest work of the gate waits for, and of which it is not known what they will do; without `all`
 * but for those that wait there themselves. What such a work waits for was handed over before it, so that some gate's
 * oldest waits for a device that does not. */
static uint64_t waited_for(rota_device *device, bool all, uint64_t *out_since_ns) {
    rota_runtime *runtime = device->runtime;
    rota_gate_shared *gate = &device->gate;
    uint64_t devices = 0, points[ROTA_EXEC_TIMELINE_WAITS_MAX];
    uint32_t count = 0;
    rota_gate_lock(device);
    *out_since_ns = gate->since_ns;
    const rota_work *work = gate->head != gate->tail ? gate->works[gate->head % ROTA_GATE_WORKS].work : NULL;
    for (uint32_t h = 0; work && h < work->foreign_wait_count; h++) {
        uint64_t foreign = work->submission->made.foreign_waits[work->first_foreign_wait + h],
                 point = rota_foreign_wait_point(foreign);
        if (foreign & ROTA_FOREIGN_WAIT_ON_DEVICE && !rota_point_passed(runtime, point))
            points[count++] = point;
    }
    rota_gate_unlock(device); /* before another one's is taken */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t other = rota_point_device(points[i]);
        if (all || !rota_gate_keeps(runtime->devices[other], points[i])) devices |= (uint64_t)1 << other;
    }
    return devices;
}

/* When any queue of the device last got on. */
static uint64_t progress_of(const rota_device *device) {
    uint64_t latest = 0;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++) {
        uint64_t progress = ra_load_relaxed(&device->timelines[q].progress_ns);
        if (progress > latest) latest = progress;
    }
    return latest;
}

/* Whether another device was blocked for what of the lost one has not ended, which may be for the end of this gate.
 * Relaxed: only the time is taken by it, and it is looked at again. */
static bool is_awaited(const rota_device *lost, uint32_t devices) {
    for (uint32_t q = 0; q < lost->runtime->queue_count; q++) {
        const rota_timeline *timeline = &lost->timelines[q];
        const uint64_t completed = ra_load_relaxed(&timeline->completed);
        for (uint32_t d = 0; d < devices; d++)
            if (d != lost->index && ra_load_relaxed(&timeline->kept_for[d]) > completed) return true;
    }
    return false;
}

/* What it waits for is in vain and keeps nobody: the time begins when that is no longer so. */
static void begin_anew(rota_device *lost) {
    rota_gate_lock(lost);
    lost->gate.since_ns = rota_clock_ns();
    rota_gate_unlock(lost);
}

void rota_gate_watch(rota_runtime *runtime, bool at_once) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        if (!ra_load_acquire(&device->gate.pending)) continue;
        if (!at_once && rota_device_is_lost(device) && !is_awaited(device, devices)) {
            begin_anew(device);
            continue;
        }
        uint64_t since, now = rota_clock_ns();
        uint64_t others = waited_for(device, at_once, &since);
        for (uint64_t left = others; left; left &= left - 1) {
            uint64_t progress = progress_of(runtime->devices[__builtin_ctzll(left)]);
            if (since < progress) since = progress;
        }
        /* Anew at a loss, which lets go what waited for that one. After the looks above that saw it. */
        const uint64_t lost_ns = ra_load_relaxed(&runtime->lost_ns);
        if (since < lost_ns) since = lost_ns;
        if (!at_once && (now <= since || now - since <= runtime->options.timeout_ns)) continue;
        for (; others; others &= others - 1) {
            rota_device *other = runtime->devices[__builtin_ctzll(others)];
            if (rota_device_is_lost(other)) continue;
            rota_device_set_lost(other, at_once ? "the runtime was closed while another device waited for it"
                                                : "no progress within the deadline while other devices "
                                                  "waited for it");
        }
    }
}
