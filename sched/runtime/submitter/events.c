/* What executors call back, on threads of theirs. Calls no executor. */
#include "base/atomic.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/cancelled.h"
#include "sched/runtime/submitter/events.h"
#include "sched/runtime/submitter/gate.h"
#include "sched/runtime/submitter/judge.h"
#include "sched/runtime/submitter/submitter.h" /* IWYU pragma: keep */

/* Closed or left: nobody listens any more. Relaxed: who closed it has ended its threads, or left them everything. */
static bool is_over(const rota_device *device) {
    return ra_load_relaxed(&device->life) >= ROTA_LIFE_CLOSED;
}

static void advanced(void *user, uint32_t queue, uint64_t value) {
    rota_device *device = user;
    if (is_over(device)) return;
    if (ra_load_seq_cst(&device->gate.pending)) /* with rota_gate_push */
        rota_gate_report(device, queue, value);
    else
        rota_device_publish(device, queue, value);
    if (ra_load_relaxed(&device->others.linked)) rota_gate_spread(device);
}

/* Stored before the thread's flag is looked at; the thread looks for it after it has said that it sleeps (rest in
 * thread.c): all seq_cst. */
static void goes_on(void *user) {
    rota_device *device = user;
    if (is_over(device)) return;
    ra_store_seq_cst(&device->handover.goes_on, 1);
    rota_sleeper_wake(device->handover.sleeper);
}

static void interrupted(void *user, const cpu_set_t *cpus) {
    rota_device *device = user;
    if (is_over(device)) return;
    rota_thread_cpus_keep_off(&device->submitter->cpus, cpus);
    /* Of several devices the last one to say so has it. */
    rota_thread_cpus_keep_off(&device->runtime->sequencing.cpus, cpus);
}

static void lost(void *user, rota_status status, const char *message) {
    (void)status;
    rota_device *device = user;
    if (is_over(device)) return;
    rota_device_gone(device, message);
}

static void failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                   const char *message) {
    rota_device *device = user;
    rota_runtime *runtime = device->runtime;
    rota_work *work = cookie;
    if (!work || is_over(device)) return;
    rota_submission *submission = work->submission;
    rota_reason reason = {NULL, submission->number};
    reason.cause =
        owner ? rota_cause_new(runtime, status == ROTA_DEVICE_LOST ? status : ROTA_NODE_FAILED,
                               "plan '%s', submission " ROTA_CAUSE_NUMBER ", node '%s' failed with %s: %s",
                               submission->plan->name, rota_plan_node_name(owner, node),
                               rota_status_name(status), message)
              : rota_cause_new(runtime, status, "submission " ROTA_CAUSE_NUMBER ", a copy on '%s' failed: %s",
                               device->id, message);
    /* Is judged as a whole; of a device that does not ask, what is behind the node in its work has run all the same. */
    if (work->gated || !device->asks_poison) {
        if (!rota_gate_note_failure(work, reason.cause)) rota_poison_work(work, reason, true);
        return;
    }
    rota_judge_failed(work, owner, node, reason);
    rota_submission_fail(runtime, submission, reason, true);
}

static bool must_skip(void *user, void *cookie, const void *owner, uint32_t node) {
    const rota_device *device = user;
    rota_work *work = cookie;
    if (!work || is_over(device)) return false;
    if (ra_load_acquire(&work->failed)) return true; /* marks what it was to write, all of it */
    rota_reason reason;
    /* First: it has the cause that was there before. Where nothing is marked it was asked for what is cancelled alone:
     * a mark of what it reads would have been made before. */
    if (!work->gated && device->asks_poison &&
        rota_failed_is_any(ra_load_acquire(&device->runtime->failed.active)) &&
        rota_judge_must_skip(work, owner, node, &reason)) {
        const bool is_first = rota_cancelled_after(work, &reason);
        rota_submission_fail(device->runtime, work->submission, reason, is_first);
        return true;
    }
    return rota_cancelled_node(work, owner, node);
}

static void succeeded(void *user, void *cookie, const void *owner, uint32_t node) {
    const rota_device *device = user;
    const rota_work *work = cookie;
    if (!work || is_over(device) || work->gated || ra_load_acquire(&work->failed)) return;
    const uint32_t active = ra_load_acquire(&device->runtime->failed.active);
    if (!rota_failed_is_any(active)) return;                                  /* likewise of what it writes */
    if (owner && rota_plan_is_transfer(work->submission->plan, node)) return; /* carried */
    rota_judge_succeeded(work, owner, node);
}

rota_exec_host rota_events_for(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    return (rota_exec_host){.user = device,
                            .log = runtime->options.log,
                            .advanced = advanced,
                            .failed = failed,
                            .lost = lost,
                            .poison_active = &runtime->failed.active,
                            .must_skip = must_skip,
                            .succeeded = succeeded,
                            .goes_on = goes_on,
                            .interrupted = interrupted,
                            .node_name = rota_plan_node_name};
}
