/* Bytes between devices, inside another submission: out of the memory of one that has them, where the host
 * does not see that, and into the other's. */
#include <string.h>

#include "base/atomic.h"
#include "sched/runtime/kinds/migration.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/hazard.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* ---- What copies share ---- */

rota_status rota_work_one_copy(rota_work *work, rota_exec_copy copy, rota_exec_work *out) {
    work->copy = copy;
    out->copies = &work->copy;
    out->copy_count = 1;
    return ROTA_OK;
}

static rota_migration *migration_of(const rota_work *work) {
    return &work->submission->made.migrations[work->segment];
}

/* ---- Prepared ---- */

/* Whether what a move brings has left the device that had it: its first half, which is the work before it and
 * has ended, did not fail; or the host sees it where it is. That there is memory for it says nothing. */
bool rota_migration_in_has_source(const rota_work *migration_in) {
    const rota_migration *transfer = &migration_in->submission->made.migrations[migration_in->segment];
    if (migration_in->device->runtime->devices[transfer->from]->exec->caps.unified_host) return true;
    return !ra_load_acquire(
        &migration_in[-1].failed); /* with rota_poison_work, before its end was published */
}

rota_need rota_migration_out_need(const rota_work *work) {
    rota_migration *transfer = migration_of(work);
    return (rota_need){&transfer->down, transfer->size, ROTA_EXEC_MEMORY_HOST_READ};
}

rota_need rota_migration_in_need(const rota_work *work) {
    rota_migration *transfer = migration_of(work);
    if (work->device->exec->caps.unified_host || !rota_migration_in_has_source(work))
        return (rota_need){NULL, 0, 0};
    return (rota_need){&transfer->up, transfer->size, ROTA_EXEC_MEMORY_HOST_WRITE};
}

rota_status rota_migration_out_prepare(rota_work *work, rota_exec_work *out) {
    rota_migration *transfer = &work->submission->made.migrations[work->segment];
    rota_extent extent = {transfer->offset, transfer->size, transfer->from};
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
rota_status rota_migration_in_prepare(rota_work *work, rota_exec_work *out) {
    rota_migration *transfer = &work->submission->made.migrations[work->segment];
    rota_device *device = work->device;
    rota_exec_memory *destination = ra_load_acquire(&transfer->residency->memory[device->index]);
    rota_exec_memory *source = ra_load_acquire(&transfer->residency->memory[transfer->from]);
    if (!device->exec->caps.unified_host) {
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

/* The copy is the device's own, which waits for who wrote the bytes, and reads them where they are: by the other
 * device's object (rota_exec_peers). Not of a device that is lost by now: what it has is nobody's to rely on. */
rota_status rota_migration_over_prepare(rota_work *work, rota_exec_work *out) {
    const rota_migration *move = migration_of(work);
    const rota_device *from = work->device->runtime->devices[move->from];
    if (rota_device_is_lost(from)) {
        const rota_cause *cause = ra_load_acquire(&from->lost_cause);
        return rota_fail(ROTA_DEVICE_LOST, "bytes [%llu, %llu) of buffer '%s' were only on device '%s': %s",
                         (unsigned long long)move->offset, (unsigned long long)(move->offset + move->size),
                         move->residency->buffer->name, from->id, cause ? cause->message : "device lost");
    }
    const rota_exec_copy copy = {ra_load_acquire(&move->residency->memory[work->device->index]),
                                 ra_load_acquire(&move->residency->memory[move->from]), move->offset,
                                 move->offset, move->size};
    return rota_work_one_copy(work, copy, out);
}

/* ---- Given back ---- */

static void release_span(rota_staging **span) {
    rota_staging_release(*span);
    *span = NULL;
}

static bool has_passed(const rota_work *work) {
    return rota_point_passed(work->device->runtime, rota_work_point(work));
}

/* Whether nobody looks at the first half's staging memory any more. A move in has a first half where the
 * device that is moved from is not unified; until that has passed its device's thread may look there. */
static bool first_half_is_over(const rota_work *migration_in) {
    const rota_device *from = migration_in->device->runtime->devices[migration_of(migration_in)->from];
    return !from->exec->caps.unified_host && has_passed(migration_in - 1);
}

/* The submissions of works that a lost device is not given are kept until close (keep in reap.c): what moves
 * have of staging memory is not. Nobody else looks at it: the second half of a move whose first half
 * never ends is skipped, and `keep` leaves alone what was for a work that has not ended. */
void rota_migration_out_give_back(const rota_work *work) {
    release_span(&migration_of(work)->down);
}

void rota_migration_in_give_back(const rota_work *work) {
    release_span(&migration_of(work)->up);
    if (first_half_is_over(work)) release_span(&migration_of(work)->down);
}

/* Of a move that has ended; of one that a lost device did not get its thread gives it back, as above. */
void rota_migration_in_release(rota_sequencer *sequencer, const rota_work *work) {
    rota_runtime *runtime = sequencer->runtime;
    (void)runtime;
    if (has_passed(work)) rota_migration_in_give_back(work);
}

/* ---- Judged ---- */

/* Where it brings the bytes. */
static rota_memory_range destination_of(const rota_work *work) {
    const rota_migration *move = migration_of(work);
    return rota_memory_range_of_copy(move->residency, work->device, move->offset, move->size);
}

bool rota_migration_in_carry(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node) {
    (void)owner, (void)node;
    const rota_migration *move = migration_of(work);
    const rota_memory_range from =
        rota_memory_range_of_copy(move->residency, runtime->devices[move->from], move->offset, move->size);
    const rota_memory_range to = destination_of(work);
    rota_failed_ranges_carry(runtime, &from, &to, rota_turn_of(work));
    return true;
}

/* Bytes that did not arrive: their copy here is not to be trusted, though it is marked valid. */
bool rota_migration_in_touch(rota_runtime *runtime, const rota_work *work, rota_touch_fn before,
                             rota_touch_fn after, void *user) {
    if (before) {
        (void)rota_migration_in_carry(runtime, work, NULL, 0);
        return false;
    }
    const rota_memory_range where = destination_of(work);
    return after(runtime, work, &where, ROTA_WRITE, user);
}

/* A move stands for the writer of what it brings. Of one that is lost nothing else says that it did not write
 * its own memory. What is in others was written before, or whoever was to write it has marked it by now: all
 * that the lost one came after is over, and where that one stood for another itself, it has marked that one's
 * memory when it was dropped. */
void rota_migration_in_undone(rota_runtime *runtime, const rota_work *migration_in) {
    const rota_submission *submission = migration_in->submission;
    const rota_migration *move = &submission->made.migrations[migration_in->segment];
    for (uint32_t i = 0; i < move->unwritten_count; i++) {
        const rota_unwritten *unwritten = &submission->made.unwritten[move->first_unwritten + i];
        const rota_cause *cause = rota_cause_of_loss(runtime, unwritten->writer);
        if (!cause) continue;
        const rota_memory_range where =
            rota_memory_range_of_copy(move->residency, runtime->devices[rota_point_device(unwritten->writer)],
                                      unwritten->begin, unwritten->end - unwritten->begin);
        rota_failed_ranges_mark(runtime, &where, rota_turn_of(migration_in), (rota_reason){cause, 0}, true);
    }
}
