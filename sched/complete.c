/* The completer thread: copies outputs out of staging, calls callbacks, adds to eventfds, and ends the waits
 * of devices for one that is lost. It frees nothing of a driver's, since a driver may let that wait for all
 * that its device has to do, and so for the very waits that are ended here. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/runtime_internal.h"

void rota_completer_push(rota_runtime *runtime, rota_job *job) {
    job->next = ra_load_relaxed(&runtime->jobs);
    /* Releases the job to the exchange in the completer; seq_cst with its sleep flag. */
    while (!ra_cas_seq_cst(&runtime->jobs, &job->next, job)) {
    }
    rota_sleeper_wake(&runtime->completer_sleeper);
}

/* Outputs of a completed replay go to the caller's memory; then, and only then, its ticket is complete. */
static bool finish_outputs(rota_runtime *runtime, rota_submission *submission) {
    rota_device *device = runtime->devices[rota_point_device(submission->final_point)];
    bool passed = rota_point_passed(runtime, submission->final_point);
    /* After it, both seq_cst: whoever saw the device lost and then the point not passed, and told the caller
     * that the ticket has ended, is seen here, though the point has passed since. */
    bool lost = rota_device_is_lost(device);
    if (!passed && !lost) return false;
    rota_run_instance *instance = &submission->plan->run->instances[submission->instance];
    if (lost) { /* the caller's memory may be gone; the sequencer fails the ticket */
        (void)ra_fetch_add_acq_rel(&instance->outputs_copied, 1);
        ra_store_release(&submission->hosted_done, ROTA_HOSTED_LOST);
        ra_store_seq_cst(&runtime->lost_pending, 1);
        rota_sleeper_wake(&runtime->sequencer_sleeper);
        return true;
    }
    if (!ra_load_acquire(&submission->cause)) {
        const rota_plan *plan = submission->plan;
        for (uint32_t t = plan->input_count; t < plan->transfer_count; t++) {
            const rota_plan_transfer *transfer = &plan->transfers[t];
            if (transfer->memory == ROTA_NONE) continue;
            const uint8_t *host = instance->memories[transfer->part][transfer->memory]->host;
            memcpy((void *)(uintptr_t)submission->payload[plan->word_count + t],
                   host + transfer->offset_bytes, plan->buffers[transfer->buffer].buffer->size_bytes);
        }
    }
    /* Release: the instance may be filled again. */
    (void)ra_fetch_add_acq_rel(&instance->outputs_copied, 1);
    /* seq_cst: with the load in view_ticket, around the sleep of who waits. */
    (void)ra_fetch_or_seq_cst(&submission->cell->state, (uint32_t)ROTA_CELL_DONE);
    /* Release: after this the sequencer may recycle the submission. */
    ra_store_release(&submission->hosted_done, ROTA_HOSTED_COPIED);
    rota_wait_table_wake(&runtime->hosted_waiters, 1);
    return true;
}

/* A descriptor that cannot take the 1 now (its count is at the highest, or it is no eventfd) is left alone: a
 * write that waits would hold up everything else. */
static void add_to_eventfd(const rota_job *job) {
    struct pollfd ready = {.fd = job->u.watch.eventfd, .events = POLLOUT};
    const rota_log *log = &job->u.watch.ticket.runtime->options.log;
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) {
        rota_log_write(log, ROTA_LOG_WARNING, "a ticket's eventfd %d takes nothing more", ready.fd);
        return;
    }
    uint64_t one = 1;
    ssize_t written;
    do written = write(ready.fd, &one, sizeof one);
    while (written < 0 && errno == EINTR);
    if (written < 0)
        rota_log_write(log, ROTA_LOG_WARNING, "a ticket's eventfd %d could not be written: %s", ready.fd,
                       strerror(errno));
}

static bool finish_watch(rota_job *job) {
    rota_status status = rota_ticket_status(job->u.watch.ticket);
    if (status == ROTA_BUSY) return false;
    if (job->kind == ROTA_JOB_CALLBACK) {
        job->u.watch.fn(job->u.watch.user, status, status == ROTA_OK ? "" : rota_last_error());
    } else {
        add_to_eventfd(job);
    }
    free(job);
    return true;
}

/* One pass over what is pending; what is not over stays, in order. */
static rota_job *pass(rota_runtime *runtime, rota_job *pending) {
    rota_job *kept = NULL, **end = &kept;
    while (pending) {
        rota_job *job = pending;
        pending = job->next;
        job->next = NULL;
        bool over = true;
        switch ((rota_job_kind)job->kind) {
        case ROTA_JOB_OUTPUTS:
            over = finish_outputs(runtime, job->u.submission);
            break;
        case ROTA_JOB_CALLBACK:
        case ROTA_JOB_EVENTFD:
            over = finish_watch(job);
            break;
        }
        if (over) continue;
        *end = job;
        end = &job->next;
    }
    return kept;
}

static rota_job *take(rota_runtime *runtime, rota_job *pending) {
    rota_job *stack = ra_exchange_acq_rel(&runtime->jobs, NULL);
    rota_job *fresh = NULL;
    while (stack) { /* newest first: turned round */
        rota_job *next = stack->next;
        stack->next = fresh;
        fresh = stack;
        stack = next;
    }
    if (!pending) return fresh;
    rota_job *last = pending;
    while (last->next) last = last->next;
    last->next = fresh;
    return pending;
}

void *rota_completer_main(void *user) {
    rota_runtime *runtime = user;
    rota_job *pending = NULL;
    while (!ra_load_acquire(&runtime->completer_stop)) {
        pending = pass(runtime, take(runtime, pending));
        rota_across_rescue(runtime);
        if (ra_load_acquire(&runtime->jobs)) continue;
        rota_sleeper_prepare(&runtime->completer_sleeper);
        /* With `advanced`: it sees the interest, or the pass below sees the new value. */
        if (pending) {
            ra_store_seq_cst(&runtime->completer_interest, 1);
            pending = pass(runtime, pending);
        }
        if (ra_load_seq_cst(&runtime->jobs) || ra_load_seq_cst(&runtime->completer_stop))
            rota_sleeper_cancel(&runtime->completer_sleeper);
        else
            rota_sleeper_wait(&runtime->completer_sleeper,
                              rota_deadline_after(pending ? 100000000u : 1000000000u));
        ra_store_relaxed(&runtime->completer_interest, 0);
    }
    /* At the end nothing is in flight any more: tickets have ended, or their device is abandoned. Twice,
     * since a ticket's callback may stand before its outputs. */
    for (int i = 0; i < 2; i++) pending = pass(runtime, take(runtime, pending));
    while (pending) {
        rota_job *next = pending->next;
        if (pending->kind == ROTA_JOB_CALLBACK)
            pending->u.watch.fn(pending->u.watch.user, ROTA_TIMEOUT,
                                "the runtime was closed before the submission ended");
        if (pending->kind == ROTA_JOB_EVENTFD) add_to_eventfd(pending);
        if (pending->kind != ROTA_JOB_OUTPUTS) free(pending);
        pending = next;
    }
    rota_runtime_thread_ends(runtime);
    ra_store_release(&runtime->completer_ended, 1); /* with rota_runtime_close */
    return NULL;
}
