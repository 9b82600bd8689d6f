/* Bytes of a buffer to the host: a work for each device that has some. */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "sched/runtime/kinds/read.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/order/hazard.h"
#include "sched/runtime/order/side_queues.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"

/* ---- What it holds ---- */

void rota_host_read_return_staging(rota_host_read *read) {
    for (uint32_t p = 0; p < read->piece_count; p++) {
        rota_staging_release(read->pieces[p].down);
        read->pieces[p].down = NULL;
    }
    if (!read->is_returned) rota_staging_return(read->runtime, read->size);
    read->is_returned = true;
}

void rota_host_read_release(rota_host_read *read) {
    if (ra_fetch_sub_acq_rel(&read->references, 1) != 1) return;
    rota_host_read_return_staging(read);
    if (read->extents != &read->one_extent) free(read->extents);
    if (read->pieces != &read->one_piece) free(read->pieces);
    free(read);
}

void rota_host_read_deliver(rota_host_read *read, uint8_t *out) {
    for (uint32_t p = 0; p < read->piece_count; p++) {
        rota_read_piece *part = &read->pieces[p];
        const rota_extent *extent = &read->extents[part->first_extent];
        uint64_t done = 0; /* of the extent */
        for (const rota_staging *block = part->down; block; block = block->more)
            for (uint64_t offset = 0; offset < block->used;) {
                if (done == extent->size) {
                    extent++;
                    done = 0;
                }
                uint64_t left = extent->size - done, here = block->used - offset,
                         bytes = left < here ? left : here;
                memcpy(out + (extent->offset - read->offset) + done,
                       (const uint8_t *)block->memory->host + offset, bytes);
                done += bytes;
                offset += bytes;
            }
    }
    rota_host_read_return_staging(
        read); /* at once, not when the sequencer next recycles, which looks at it only afterwards */
}

void rota_kind_read_drop(void *object, const uint64_t *words) {
    (void)words;
    rota_host_read_release(object);
}

void rota_kind_read_end(rota_sequencer *sequencer, rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    (void)runtime;
    if (submission->read) rota_host_read_release(submission->read);
    submission->read = NULL; /* once, though the submission may be kept */
}

/* ---- Sequenced ---- */

/* Cuts what is read into extents, those of one device together; false without memory. */
static bool make_parts(rota_runtime *runtime, rota_host_read *read) {
    rota_residency *residency = read->residency;
    uint64_t end = read->offset + read->size;
    uint32_t count = 0, devices = ra_load_acquire(&runtime->device_count);
    rota_copies valid;
    for (uint64_t offset = read->offset; offset < end;
         offset = rota_residency_end_of_same(residency, offset, end, &valid))
        count++;
    rota_extent *found = &read->one_extent;
    read->extents = &read->one_extent;
    read->pieces = &read->one_piece;
    if (count > 1) {
        read->extents = malloc(2 * (size_t)count * sizeof *read->extents);
        read->pieces = calloc(devices, sizeof *read->pieces);
        if (!read->extents || !read->pieces) return false;
        found = read->extents + count;
    }
    /* Who has them is asked once: a device may be lost meanwhile. */
    uint32_t of_device[ROTA_DEVICES_MAX] = {0};
    uint64_t offset = read->offset;
    for (uint32_t e = 0; e < count; e++) {
        uint64_t to = rota_residency_end_of_same(residency, offset, end, &valid);
        found[e] =
            (rota_extent){offset, to - offset, rota_residency_holder(runtime, residency, valid, NULL)->index};
        of_device[found[e].device]++;
        offset = to;
    }
    uint32_t first = 0;
    for (uint32_t d = 0; d < devices; d++) {
        if (of_device[d] == 0) continue;
        rota_read_piece *part = &read->pieces[read->piece_count];
        *part = (rota_read_piece){.device = runtime->devices[d], .first_extent = first};
        read->piece_count++;
        for (uint32_t e = 0; e < count; e++) {
            if (found[e].device != d) continue;
            read->extents[first++] = found[e];
            part->extent_count++;
            part->size += found[e].size;
        }
    }
    return true;
}

/* Where nobody waits in the call, the completer brings the bytes, when it is their turn. */
static bool deliver_read(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission) {
    const rota_host_read *read = submission->read;
    submission->by_delivery = read->data != NULL;
    if (!submission->by_delivery) return true;
    if (!rota_deliver_to(sequencer, wanted, submission, read->data, read->size)) return false;
    uint32_t state =
        ROTA_CELL_BY_DELIVERY | (rota_submission_comes_after_others(submission) ? ROTA_CELL_SPREAD : 0u);
    ra_store_release(&submission->cell->state, state); /* nobody else writes it before the point is there */
    return true;
}

/* A work for each device that some of the bytes come from; returns the point of the last one's end. */
static uint64_t make_works(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    const rota_host_read *read = submission->read;
    rota_residency *residency = read->residency;
    uint64_t final = ROTA_POINT_NONE;
    for (uint32_t p = 0; p < read->piece_count; p++) {
        rota_read_piece *part = &read->pieces[p];
        rota_prospect prospect = {.device = part->device, .queues = 1u << part->device->io_queue};
        if (p > 0) rota_prospect_add(&prospect, final);
        for (uint32_t e = part->first_extent; e < part->first_extent + part->extent_count; e++)
            rota_prospect_access(&prospect, residency, read->extents[e].offset,
                                 read->extents[e].offset + read->extents[e].size, false);
        rota_work_provide(sequencer, &prospect, part->size, ROTA_EXEC_MEMORY_HOST_READ, &part->down);
        rota_work *work = rota_work_add_copy(submission, &prospect, ROTA_WORK_READ, p);
        /* The last one stands for all. */
        if (p > 0) rota_wanted_add(wanted, runtime->queue_count, final);
        final = rota_work_point(work);
        for (uint32_t e = part->first_extent; e < part->first_extent + part->extent_count; e++)
            rota_hazard_read(sequencer, wanted, residency, read->extents[e].offset,
                             read->extents[e].offset + read->extents[e].size, final);
        rota_work_settle(sequencer, wanted, work, &prospect);
        if (!submission->access.pending_in && rota_side_queue_keeps(work))
            rota_keeping_begin(submission, residency, 0);
    }
    return final;
}

bool rota_kind_read_sequence(rota_sequencing *s) {
    rota_runtime *runtime = s->runtime;
    rota_submission *submission = s->submission;
    rota_host_read *read = submission->read = s->object;
    rota_residency *residency = read->residency;
    uint32_t unused = 0;
    submission->access.pending_in = NULL;
    rota_submission_note_name(submission, residency->buffer->name);
    if (!s->has_record) return false;
    rota_copies_drop_failed(s->sequencer, residency, read->offset, read->offset + read->size);
    rota_hazard_fold(residency, read->offset, read->offset + read->size);
    if (!rota_incoming_check(s, residency, read->offset, read->offset + read->size, 0, "read", &unused))
        return false;
    if (!make_parts(runtime, read) ||
        !rota_submission_reserve(runtime, submission, read->piece_count, 1, 1, 1) ||
        !deliver_read(s->sequencer, s->wanted, submission)) {
        s->status = ROTA_OUT_OF_MEMORY;
        s->reason.cause =
            rota_cause_new(runtime, ROTA_OUT_OF_MEMORY, "read of buffer '%s': no host memory for it",
                           residency->buffer->name);
        return false;
    }
    s->final = make_works(s->sequencer, s->wanted, submission);
    return true;
}

/* ---- Its works ---- */

/* The extents that the work takes from its device. */
static const rota_extent *extents_of(const rota_work *work, uint32_t *out_count) {
    const rota_host_read *read = work->submission->read;
    *out_count = read->pieces[work->segment].extent_count;
    return &read->extents[read->pieces[work->segment].first_extent];
}

rota_need rota_read_need(const rota_work *work) {
    rota_read_piece *part = &work->submission->read->pieces[work->segment];
    return (rota_need){&part->down, part->size, ROTA_EXEC_MEMORY_HOST_READ};
}

rota_status rota_read_prepare(rota_work *work, rota_exec_work *out) {
    const rota_host_read *read = work->submission->read;
    const rota_read_piece *part = &read->pieces[work->segment];
    uint32_t count;
    const rota_extent *extents = extents_of(work, &count);
    const rota_status status = rota_staging_copies_in(
        part->down, ra_load_acquire(&read->residency->memory[work->device->index]), extents, count, out);
    return status == ROTA_OK
               ? status
               : rota_fail_context(status, "read of buffer '%s': ", read->residency->buffer->name);
}

bool rota_read_touch_node(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                          rota_touch_fn fn, void *user) {
    (void)owner, (void)node;
    const rota_host_read *read = work->submission->read;
    uint32_t count;
    const rota_extent *extents = extents_of(work, &count);
    for (uint32_t e = 0; e < count; e++) {
        const rota_memory_range where =
            rota_memory_range_of_copy(read->residency, work->device, extents[e].offset, extents[e].size);
        if (fn(runtime, work, &where, ROTA_READ, user)) return true;
    }
    return false;
}

bool rota_read_touch(rota_runtime *runtime, const rota_work *work, rota_touch_fn before, rota_touch_fn after,
                     void *user) {
    (void)after;
    return before && rota_read_touch_node(runtime, work, NULL, 0, before, user);
}
