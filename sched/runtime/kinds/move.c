/* Bytes between devices, inside another submission: prepared by the submit threads of both, with the staging
 * memory that they and reads need. */
#include <string.h>

#include "sched/runtime/kinds/move.h"
#include "sched/runtime_internal.h"
#include "sched/submission.h"

/* Whether what a move brings has left the device that had it: its first half, which is the work before it and
 * has ended, did not fail; or the host sees it where it is. That there is memory for it says nothing. */
bool rota_move_has_left(const rota_work *move_in) {
    const rota_transfer *transfer = &move_in->submission->transfers[move_in->segment];
    if (move_in->device->runtime->devices[transfer->from]->exec->caps.unified_host) return true;
    return !ra_load_acquire(&move_in[-1].failed); /* with rota_poison_work, before its end was published */
}

rota_need rota_need_of(const rota_work *work) {
    const rota_submission *submission = work->submission;
    if (work->kind == ROTA_WORK_READ) {
        rota_read_part *part = &submission->read->parts[work->segment];
        return (rota_need){&part->down, part->size, ROTA_EXEC_MEMORY_HOST_READ};
    }
    if (work->kind != ROTA_WORK_MIGRATE_OUT && work->kind != ROTA_WORK_MIGRATE_IN)
        return (rota_need){NULL, 0, 0};
    rota_transfer *transfer = &submission->transfers[work->segment];
    if (work->kind == ROTA_WORK_MIGRATE_OUT)
        return (rota_need){&transfer->down, transfer->size, ROTA_EXEC_MEMORY_HOST_READ};
    if (work->device->exec->caps.unified_host || !rota_move_has_left(work)) return (rota_need){NULL, 0, 0};
    return (rota_need){&transfer->up, transfer->size, ROTA_EXEC_MEMORY_HOST_WRITE};
}

/* It may have it from when it was sequenced, or held. */
rota_status rota_need_take(const rota_work *work) {
    const rota_need needed = rota_need_of(work);
    bool is_limited;
    if (!needed.span || *needed.span) return ROTA_OK;
    return rota_staging_try(work->device, needed.size, needed.flags, &is_limited, needed.span);
}

rota_status rota_work_one_copy(rota_work *work, rota_exec_copy copy, rota_exec_work *out) {
    work->copy = copy;
    out->copies = &work->copy;
    out->copy_count = 1;
    return ROTA_OK;
}

rota_status rota_kind_move_out_prepare(rota_work *work, rota_exec_work *out) {
    rota_transfer *transfer = &work->submission->transfers[work->segment];
    rota_extent extent = {transfer->offset, transfer->size, transfer->from};
    ROTA_TRY(rota_need_take(work));
    return rota_staging_copies_in(
        transfer->down, ra_load_acquire(&transfer->residency->memory[work->device->index]), &extent, 1, out);
}

static void fill(const rota_staging *to, const uint8_t *from) {
    for (; to; to = to->more) {
        memcpy(to->memory->host, from, to->used);
        from += to->used;
    }
}

/* Out of the other device's staging memory, or, where the host sees it, its memory itself: at once where this
 * device can, else by way of its own staging memory. */
rota_status rota_kind_move_in_prepare(rota_work *work, rota_exec_work *out) {
    rota_transfer *transfer = &work->submission->transfers[work->segment];
    rota_device *device = work->device;
    rota_exec_memory *destination = ra_load_acquire(&transfer->residency->memory[device->index]);
    rota_exec_memory *source = ra_load_acquire(&transfer->residency->memory[transfer->from]);
    if (!device->exec->caps.unified_host) {
        ROTA_TRY(rota_need_take(work));
        rota_staging *up = transfer->up;
        if (!transfer->down) fill(up, (const uint8_t *)source->host + transfer->offset);
        for (const rota_staging *down = transfer->down; down; down = down->more, up = up->more)
            memcpy(up->memory->host, down->memory->host, down->used); /* both are cut alike */
        return rota_staging_copies_out(transfer->up, destination, transfer->offset, out);
    }
    if (transfer->down) return rota_staging_copies_out(transfer->down, destination, transfer->offset, out);
    rota_exec_copy copy = {destination, source, transfer->offset, transfer->offset, transfer->size};
    return rota_work_one_copy(work, copy, out);
}

static void release_span(rota_staging **span) {
    rota_staging_release(*span);
    *span = NULL;
}

static bool has_passed(const rota_work *work) {
    return rota_point_passed(work->device->runtime, rota_work_point(work));
}

/* A lost device is not given the works, whose submissions are kept until close (keep in reap.c): what
 * moves have of staging memory is not. Nobody else looks at it: the second half of a move whose first half
 * never ends is skipped, and `keep` leaves alone what was for a work that has not ended. */
void rota_moves_give_back(rota_work *const *works, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const rota_work *work = works[i];
        if (work->kind != ROTA_WORK_MIGRATE_OUT && work->kind != ROTA_WORK_MIGRATE_IN) continue;
        rota_transfer *transfer = &work->submission->transfers[work->segment];
        const bool is_second = work->kind == ROTA_WORK_MIGRATE_IN;
        if (is_second) release_span(&transfer->up);
        /* A second half has a first where the device that is moved from is not unified. */
        const rota_device *from = work->device->runtime->devices[transfer->from];
        if (!is_second || (!from->exec->caps.unified_host && has_passed(work - 1)))
            release_span(&transfer->down);
    }
}
