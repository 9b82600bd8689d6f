/* Bytes of a buffer to the host: sequenced, a work for each device that has some, and prepared by submit
 * threads. */
#include <stdlib.h>

#include "sched/runtime/kinds/move.h"
#include "sched/runtime/kinds/read.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime_internal.h"
#include "sched/submission.h"

const rota_extent *rota_host_read_extents(const rota_work *work, uint32_t *out_count) {
    const rota_host_read *read = work->submission->read;
    *out_count = read->parts[work->segment].extent_count;
    return &read->extents[read->parts[work->segment].first_extent];
}

/* Cuts what is read into extents, those of one device together; false without memory. */
static bool make_parts(rota_runtime *runtime, rota_host_read *read) {
    rota_residency *residency = read->residency;
    uint64_t end = read->offset + read->size;
    uint32_t count = 0, devices = ra_load_acquire(&runtime->device_count);
    rota_places valid;
    for (uint64_t at = read->offset; at < end; at = rota_residency_end_of_same(residency, at, end, &valid))
        count++;
    rota_extent *found = &read->one_extent;
    read->extents = &read->one_extent;
    read->parts = &read->one_part;
    if (count > 1) {
        read->extents = malloc(2 * (size_t)count * sizeof *read->extents);
        read->parts = calloc(devices, sizeof *read->parts);
        if (!read->extents || !read->parts) return false;
        found = read->extents + count;
    }
    /* Who has them is asked once: a device may be lost meanwhile. */
    uint32_t of_device[ROTA_DEVICES_MAX] = {0};
    uint64_t at = read->offset;
    for (uint32_t e = 0; e < count; e++) {
        uint64_t to = rota_residency_end_of_same(residency, at, end, &valid);
        found[e] = (rota_extent){at, to - at, rota_residency_holder(runtime, residency, valid)->index};
        of_device[found[e].device]++;
        at = to;
    }
    uint32_t first = 0;
    for (uint32_t d = 0; d < devices; d++) {
        if (of_device[d] == 0) continue;
        rota_read_part *part = &read->parts[read->part_count];
        *part = (rota_read_part){.device = runtime->devices[d], .first_extent = first};
        read->part_count++;
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
static bool deliver_read(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission) {
    const rota_host_read *read = submission->read;
    submission->hosted = read->data != NULL;
    if (!submission->hosted) return true;
    if (!rota_deliver_to(runtime, wanted, submission, read->data, read->size)) return false;
    uint32_t state =
        ROTA_CELL_HOSTED | (rota_submission_comes_after_others(submission) ? ROTA_CELL_SPREAD : 0u);
    (void)ra_fetch_or_acq_rel(&submission->cell->state, state);
    return true;
}

/* A work for each device that some of the bytes come from. */
bool rota_kind_read_sequence(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                             uint64_t *out_final, rota_reason *out_reason, rota_status *out_status) {
    rota_host_read *read = submission->read;
    rota_residency *residency = read->residency;
    uint32_t unused = 0;
    rota_copies_drop_failed(runtime, residency, read->offset, read->offset + read->size);
    rota_hazard_fold(residency, read->offset, read->offset + read->size);
    if (!rota_incoming_check(runtime, submission, residency, read->offset, read->offset + read->size, 0,
                             "read", &unused, out_reason, out_status))
        return false;
    if (!make_parts(runtime, read) ||
        !rota_submission_reserve(runtime, submission, read->part_count, 1, 1, 1) ||
        !deliver_read(runtime, wanted, submission)) {
        *out_status = ROTA_OUT_OF_MEMORY;
        out_reason->cause =
            rota_cause_new(runtime, ROTA_OUT_OF_MEMORY, "read of buffer '%s': no host memory for it",
                           residency->buffer->name);
        return false;
    }
    for (uint32_t p = 0; p < read->part_count; p++) {
        rota_read_part *part = &read->parts[p];
        rota_ahead ahead = {.device = part->device, .queues = 1u << part->device->io_queue};
        if (p > 0) rota_ahead_add(&ahead, *out_final);
        for (uint32_t e = part->first_extent; e < part->first_extent + part->extent_count; e++)
            rota_ahead_access(&ahead, residency, read->extents[e].offset,
                              read->extents[e].offset + read->extents[e].size, false);
        rota_work_provide(runtime, &ahead, part->size, ROTA_EXEC_MEMORY_HOST_READ, &part->down);
        rota_work *work = rota_work_add_copy(submission, &ahead, ROTA_WORK_READ, p);
        /* The last one stands for all. */
        if (p > 0) rota_wanted_add(wanted, runtime->queue_count, *out_final);
        *out_final = rota_work_point(work);
        for (uint32_t e = part->first_extent; e < part->first_extent + part->extent_count; e++)
            rota_hazard_read(runtime, wanted, residency, read->extents[e].offset,
                             read->extents[e].offset + read->extents[e].size, *out_final);
        rota_work_settle(runtime, wanted, work, &ahead);
        if (!submission->kept_in && rota_siding_keeps(work)) rota_keeping_begin(submission, residency, 0);
    }
    return true;
}

rota_status rota_kind_read_prepare(rota_work *work, rota_exec_work *out) {
    const rota_host_read *read = work->submission->read;
    const rota_read_part *part = &read->parts[work->segment];
    uint32_t count;
    const rota_extent *extents = rota_host_read_extents(work, &count);
    rota_status status = rota_need_take(work);
    if (status == ROTA_OK)
        status = rota_staging_copies_in(
            part->down, ra_load_acquire(&read->residency->memory[work->device->index]), extents, count, out);
    return status == ROTA_OK
               ? status
               : rota_fail_context(status, "read of buffer '%s': ", read->residency->buffer->name);
}
