/* Bytes from the host into a buffer. */
#include <stdlib.h>

#include "base/atomic.h"
#include "sched/runtime/kinds/migration.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime/kinds/write.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/hazard.h"
#include "sched/runtime/order/side_queues.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"

/* ---- What it holds ---- */

uint64_t rota_host_write_charge(const rota_host_write *write) {
    return rota_staging_charge(write->device->runtime, write->size);
}

void rota_host_write_unstage(const rota_host_write *write) {
    if (write->staging) {
        rota_staging_release(write->staging);
        rota_staging_return(write->device->runtime, write->size);
    } else {
        /* Release: with the claim; nothing reads the slot. */
        ra_store_release(&write->device->uploads.slots[write->slot].state, 0);
    }
}

/* What no device has been given. */
static void give_back(const rota_host_write *write) {
    if (write->staging)
        (void)ra_fetch_sub_release(&write->device->staging->uploading,
                                   (int64_t)rota_host_write_charge(write)); /* with fits */
    rota_host_write_unstage(write);
}

void rota_kind_write_give_back(const rota_submission *submission) {
    give_back(&submission->access.write);
}

void rota_kind_write_drop(void *object, const uint64_t *words) {
    (void)words;
    rota_host_write *write = object;
    give_back(write);
    free(write);
}

/* ---- Sequenced ---- */

void rota_kind_write_for_written(rota_runtime *runtime, const rota_submission *submission, rota_written_fn fn,
                                 void *user) {
    const rota_host_write *write = &submission->access.write;
    fn(runtime, submission, write->buffer, write->offset, write->offset + write->size, user);
}

/* Its work; returns the point of its end. */
static uint64_t make_work(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    rota_host_write *write = &submission->access.write;
    rota_device *device = write->device;
    rota_hazard_fold(write->residency, write->offset, write->offset + write->size);
    rota_prospect prospect = {.device = device, .queues = 1u << device->io_queue};
    rota_prospect_access(&prospect, write->residency, write->offset, write->offset + write->size, true);
    rota_work *work = rota_work_add_copy(submission, &prospect, ROTA_WORK_WRITE, 0);
    const uint64_t final = rota_work_point(work);
    rota_hazard_write(sequencer, wanted, write->residency, write->offset, write->offset + write->size, final,
                      rota_residency_bit(write->residency, device));
    ra_store_relaxed(&write->residency->home_plus_1, device->index + 1);
    rota_work_settle(sequencer, wanted, work, &prospect);
    const bool is_kept = rota_side_queue_keeps(work);
    uint64_t charge = write->staging ? rota_staging_charge(runtime, write->size) : 0;
    if (is_kept) {
        rota_keeping_begin(submission, write->residency, charge);
        /* Release: with fits in caller/write.c, which finds it counted there if no longer here. */
        if (charge) (void)ra_fetch_sub_release(&device->staging->uploading, (int64_t)charge);
        charge = 0;
    }
    /* Free once the copy has passed (P1). Release: with the claim. */
    if (write->staging)
        rota_staging_retire(write->staging, write->size, charge, final);
    else
        ra_store_release(&device->uploads.slots[write->slot].state,
                         is_kept ? final | ROTA_UPLOAD_KEPT : final);
    return final;
}

bool rota_kind_write_sequence(rota_sequencing *s) {
    rota_submission *submission = s->submission;
    rota_host_write *request = s->object;
    submission->access.write = *request;
    submission->access.pending_in = NULL;
    free(request);
    rota_submission_note_name(submission, submission->access.write.residency->buffer->name);
    if (!s->has_record || !rota_submission_reserve(s->runtime, submission, 1, 1, 0, 0)) return false;
    const rota_device *device = submission->access.write.device;
    if (rota_device_is_lost(device)) {
        s->status = ROTA_DEVICE_LOST;
        s->reason.cause = ra_load_acquire(&device->lost_cause);
        return false;
    }
    s->final = make_work(s->sequencer, s->wanted, submission);
    return true;
}

/* ---- Its work ---- */

rota_status rota_write_prepare(rota_work *work, rota_exec_work *out) {
    const rota_host_write *write = &work->submission->access.write;
    rota_exec_memory *destination = ra_load_acquire(&write->residency->memory[work->device->index]);
    if (write->staging) return rota_staging_copies_out(write->staging, destination, write->offset, out);
    uint64_t begin = write->slot * work->device->runtime->options.staging_slot_bytes;
    rota_exec_copy copy = {destination, work->device->uploads.memory, write->offset, begin, write->size};
    return rota_work_one_copy(work, copy, out);
}

bool rota_write_touch_node(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                           rota_touch_fn fn, void *user) {
    (void)owner, (void)node;
    const rota_host_write *write = &work->submission->access.write;
    const rota_memory_range where =
        rota_memory_range_of_copy(write->residency, work->device, write->offset, write->size);
    return fn(runtime, work, &where, ROTA_WRITE, user);
}

bool rota_write_touch(rota_runtime *runtime, const rota_work *work, rota_touch_fn before, rota_touch_fn after,
                      void *user) {
    (void)before;
    return after && rota_write_touch_node(runtime, work, NULL, 0, after, user);
}
