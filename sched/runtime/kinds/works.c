/* What kinds of submissions share: room in a submission, works added and handed over, bytes checked and moved
 * between devices. The sequencer's. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime/memory/peers.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/chain.h"
#include "sched/runtime/order/clocks.h"
#include "sched/runtime/order/hazard.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/order/side_queues.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* The host's access to the buffer waits for more than copies: it is counted there until it is over. */
void rota_keeping_begin(rota_submission *submission, rota_residency *residency, uint64_t bytes) {
    submission->access.pending_in = residency;
    submission->access.kept_bytes = bytes;
    ra_store_relaxed(&residency->kept_bytes, ra_load_relaxed(&residency->kept_bytes) + bytes);
    ra_store_relaxed(&residency->kept, ra_load_relaxed(&residency->kept) + 1);
}

static void keeping_end(rota_submission *submission) {
    rota_residency *residency = submission->access.pending_in;
    if (!residency) return;
    ra_store_relaxed(&residency->kept_bytes,
                     ra_load_relaxed(&residency->kept_bytes) - submission->access.kept_bytes);
    ra_store_relaxed(&residency->kept, ra_load_relaxed(&residency->kept) - 1);
    submission->access.pending_in = NULL;
}

/* Makes *array hold at least `count` elements; contents are not kept. */
static bool room_aligned(void *array, uint32_t *capacity, uint64_t count, size_t element, size_t alignment) {
    void **pointer = array;
    if (count <= *capacity) return true;
    const uint64_t twice = (uint64_t)*capacity * 2u, wanted = twice > count ? twice : count;
    if (wanted > UINT32_MAX) return false;
    void *memory = alignment > _Alignof(max_align_t) ? aligned_alloc(alignment, wanted * element)
                                                     : malloc(wanted * element);
    if (!memory) return false;
    free(*pointer);
    *pointer = memory;
    *capacity = (uint32_t)wanted;
    return true;
}

static bool room(void *array, uint32_t *capacity, uint64_t count, size_t element) {
    return room_aligned(array, capacity, count, element, _Alignof(max_align_t));
}

static bool make_room(rota_submission *submission, uint64_t works, uint64_t timelines, uint64_t segments,
                      uint64_t transfers, uint64_t payload) {
    return room_aligned(&submission->made.works, &submission->made.work_capacity, works,
                        sizeof *submission->made.works, _Alignof(rota_work)) &&
           room(&submission->made.waits, &submission->made.wait_capacity, works * timelines,
                sizeof *submission->made.waits) &&
           room(&submission->made.foreign_waits, &submission->made.foreign_wait_capacity,
                works * (timelines + 1), sizeof *submission->made.foreign_waits) &&
           room(&submission->made.segment_points, &submission->made.segment_capacity, segments,
                sizeof *submission->made.segment_points) &&
           room(&submission->made.migrations, &submission->made.migration_capacity, transfers,
                sizeof *submission->made.migrations) &&
           room(&submission->made.unwritten, &submission->made.unwritten_capacity, transfers,
                sizeof *submission->made.unwritten) &&
           room(&submission->made.payload, &submission->made.payload_capacity, payload,
                sizeof *submission->made.payload);
}

static uint16_t at_most_16_bits(uint64_t count) {
    return count < UINT16_MAX ? (uint16_t)count : UINT16_MAX;
}

bool rota_submission_reserve(rota_runtime *runtime, rota_submission *submission, uint64_t works,
                             uint64_t segments, uint64_t transfers, uint64_t payload) {
    const uint64_t timelines = (uint64_t)ra_load_acquire(&runtime->device_count) * runtime->queue_count;
    rota_submission_room *has = &submission->made.room;
    if (works <= has->works && segments <= works && timelines <= has->timelines && payload <= has->payload &&
        transfers == 0)
        return true;
    const uint64_t points = segments > works ? segments : works;
    if (!make_room(submission, works, timelines, points, transfers, payload)) return false;
    has->works = at_most_16_bits(works);
    has->timelines = at_most_16_bits(timelines);
    has->payload = (uint32_t)(payload < UINT32_MAX ? payload : UINT32_MAX);
    return true;
}

void rota_submission_note_name(rota_submission *submission, const char *name) {
    size_t length = strlen(name);
    if (length >= sizeof submission->access.name) length = sizeof submission->access.name - 1;
    memcpy(submission->access.name, name, length);
    submission->access.name[length] = 0;
}

/* Whether the device has memory of the residency with what `valid` says. */
static bool holds(const rota_residency *residency, rota_device *device, rota_copies valid) {
    /* Acquire: with the release in rota_residency_prepare. */
    return ra_load_acquire(&residency->memory[device->index]) &&
           valid & rota_residency_bit(residency, device);
}

/* How well a device's memory suits who gets bytes from it, or the host: best one that it reads itself, else one that
 * the host sees. */
static uint32_t suits(const rota_residency *residency, const rota_device *holder, const rota_device *to) {
    if (to && rota_residency_is_open(residency, holder, to)) return 3;
    return holder->exec->caps.unified_host ? 2 : 1;
}

/* A device that has the bytes. One that is lost only where there is no other: what is handed to it fails with its
 * cause. */
rota_device *rota_residency_holder(rota_runtime *runtime, const rota_residency *residency, rota_copies valid,
                                   const rota_device *to) {
    rota_device *holder = NULL, *lost = NULL;
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        if (!holds(residency, device, valid)) continue;
        if (rota_device_is_lost(device))
            lost = lost ? lost : device;
        else if (!holder || suits(residency, device, to) > suits(residency, holder, to))
            holder = device;
    }
    return holder ? holder : lost;
}

/* Where one copy of some bytes is good and another is not, only the copying failed: that one counts as not
 * there, and is made again if it is needed. Not before who wrote or moved the bytes last is through. */
void rota_copies_drop_failed(rota_sequencer *sequencer, rota_residency *residency, uint64_t begin,
                             uint64_t end) {
    rota_runtime *runtime = sequencer->runtime;
    if (!rota_failed_is_any(ra_load_acquire(&runtime->failed.active)) ||
        rota_poison_copies(runtime, residency->buffer, begin, end, ROTA_COPIES_ALL) == 0)
        return;
    if (residency->owner) rota_replay_disown(residency);
    for (uint64_t offset = begin; offset < end;) {
        const rota_range *range = rota_ranges_find(residency, offset);
        const uint64_t to = range->end < end ? range->end : end;
        const rota_copies valid = range->valid;
        if (valid & (valid - 1) &&
            (range->writer == ROTA_POINT_NONE || rota_point_passed(runtime, range->writer))) {
            const rota_copies good =
                valid & ~rota_poison_copies(runtime, residency->buffer, offset, to, valid);
            if (good && good != valid) rota_ranges_assign(residency, offset, to, good);
        }
        offset = to;
    }
}

/* Whether bytes [begin, end) can be had where `there` says (as rota_range.valid; 0: by the host); counts the
 * moves that takes. On failure the cause and status of the ticket. */
bool rota_incoming_check(rota_sequencing *s, rota_residency *residency, uint64_t begin, uint64_t end,
                         rota_copies there, const char *node, uint32_t *moves) {
    rota_runtime *runtime = s->runtime;
    const rota_submission *submission = s->submission;
    const char *plan_name = submission->plan ? submission->plan->name : "host access";
    for (const rota_range *range = rota_ranges_find(residency, begin); range && range->begin < end;
         range = range->next) {
        if (range->valid & there) continue;
        uint64_t from = range->begin > begin ? range->begin : begin, to = range->end < end ? range->end : end;
        if (range->valid == 0) {
            if (rota_poison_find(runtime, residency->buffer, from, to, submission->number, &s->reason)) {
                s->status = rota_cause_inherited(s->reason.cause);
                return false;
            }
            s->status = ROTA_UNDEFINED_DATA;
            s->reason.number = submission->number;
            s->reason.cause = rota_cause_new(
                runtime, ROTA_UNDEFINED_DATA,
                "plan '%s', submission " ROTA_CAUSE_NUMBER ", node '%s' reads bytes [%llu, %llu) of buffer "
                "'%s', which nothing wrote",
                plan_name, node, (unsigned long long)from, (unsigned long long)to, residency->buffer->name);
            return false;
        }
        rota_device *lost = rota_residency_holder(runtime, residency, range->valid, NULL);
        if (rota_device_is_lost(lost)) {
            const rota_cause *cause = ra_load_acquire(&lost->lost_cause);
            s->status = ROTA_DEVICE_LOST;
            s->reason.number = submission->number;
            s->reason.cause =
                rota_cause_new(runtime, ROTA_DEVICE_LOST,
                               "plan '%s', submission " ROTA_CAUSE_NUMBER
                               ": bytes [%llu, %llu) of buffer '%s' were only on device '%s': %s",
                               plan_name, (unsigned long long)from, (unsigned long long)to,
                               residency->buffer->name, lost->id, cause ? cause->message : "device lost");
            return false;
        }
        (*moves)++;
    }
    return true;
}

const char *rota_kind_host_name(const rota_submission *submission) {
    return submission->access.name;
}

void rota_kind_host_uncount(rota_sequencer *sequencer, rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    (void)runtime;
    keeping_end(submission);
}

/* ---- Works ---- */

rota_work *rota_work_add(rota_submission *submission, rota_device *device, uint32_t queue,
                         rota_work_kind kind, uint32_t index) {
    rota_timeline *timeline = &device->timelines[queue];
    rota_work *work = &submission->made.works[submission->made.work_count++];
    memset(work, 0, offsetof(rota_work, next));
    work->submission = submission;
    work->device = device;
    work->kind = (uint8_t)kind;
    work->segment = index;
    work->queue = (uint8_t)queue;
    work->value = ra_load_relaxed(&timeline->issued) + 1;
    ra_store_release(&timeline->issued, work->value);
    if (kind == ROTA_WORK_LOOPS && device->exec->go_on) timeline->order.goes_on = work->value;
    if (ra_load_relaxed(&device->queues_used) <= queue) ra_store_relaxed(&device->queues_used, queue + 1);
    return work;
}

/* The works of a submission that come with no plan, and those that move bytes for one. */
rota_work *rota_work_add_copy(rota_submission *submission, const rota_prospect *prospect, rota_work_kind kind,
                              uint32_t index) {
    bool is_sidelined;
    uint32_t queue = rota_side_queue_for_copies(prospect, &is_sidelined);
    rota_work *work = rota_work_add(submission, prospect->device, queue, kind, index);
    work->is_sidelined = is_sidelined;
    return work;
}

/* Under a memory limit a copy whose staging memory does not lie idle may have to be blocked until there is some:
 * it is late. What goes over soon has its own from here on. */
void rota_work_provide(rota_sequencer *sequencer, rota_prospect *prospect, uint64_t size, uint32_t flags,
                       rota_staging **out_span) {
    rota_runtime *runtime = sequencer->runtime;
    if (!rota_runtime_is_limited(runtime) || rota_prospect_is_late(prospect)) return;
    *out_span = rota_staging_take(prospect->device, size, flags);
    if (!*out_span) prospect->waiting_for = 2;
}

void rota_work_settle(rota_sequencer *sequencer, rota_wanted *wanted, rota_work *work,
                      const rota_prospect *prospect) {
    rota_hazard_settle(sequencer, wanted, work);
    rota_chain_note(sequencer, wanted, work);
    rota_side_queue_note(work, prospect);
}

/* Up to where, at most `end`, bytes from `begin` on are on the same devices. */
uint64_t rota_residency_end_of_same(rota_residency *residency, uint64_t begin, uint64_t end,
                                    rota_copies *out_valid) {
    const rota_range *range = rota_ranges_find(residency, begin);
    rota_copies valid = *out_valid = range->valid;
    while (range->end < end && range->next->valid == valid) range = range->next;
    return range->end < end ? range->end : end;
}

/* A move that is being sequenced. */
typedef struct moving {
    rota_sequencer *sequencer;
    rota_wanted *wanted;
    rota_submission *submission;
    rota_residency *residency;
    uint64_t begin, end;
    rota_device *from, *to;
    uint32_t index; /* of the submission's migrations */
} moving;

static void begin_prospect(const moving *m, rota_device *device, rota_prospect *out_prospect) {
    *out_prospect = (rota_prospect){.device = device};
    if (m->submission->has_after) rota_prospect_add_external(out_prospect, &m->submission->seldom.after);
}

/* The move's last work, which brings the bytes. */
static void bring(const moving *m, const rota_prospect *prospect, rota_work *in) {
    rota_migration *transfer = &m->submission->made.migrations[m->index];
    transfer->unwritten_count =
        rota_hazard_migration(m->sequencer, m->wanted, m->residency, m->begin, m->end, rota_work_point(in),
                              m->to, m->submission->made.unwritten + transfer->first_unwritten);
    rota_work_settle(m->sequencer, m->wanted, in, prospect);
}

/* Out of the memory of the one, in the host's sight, and into the other's. */
static void move_by_host(const moving *m) {
    rota_migration *transfer = &m->submission->made.migrations[m->index];
    uint64_t out_point = ROTA_POINT_NONE;
    rota_prospect prospect;
    if (!m->from->exec->caps.unified_host) {
        begin_prospect(m, m->from, &prospect);
        prospect.queues = 1u << m->from->io_queue;
        rota_prospect_access(&prospect, m->residency, m->begin, m->end, false);
        rota_work_provide(m->sequencer, &prospect, m->end - m->begin, ROTA_EXEC_MEMORY_HOST_READ,
                          &transfer->down);
        rota_work *out = rota_work_add_copy(m->submission, &prospect, ROTA_WORK_MIGRATE_OUT, m->index);
        out_point = rota_work_point(out);
        rota_hazard_read(m->sequencer, m->wanted, m->residency, m->begin, m->end, out_point);
        rota_work_settle(m->sequencer, m->wanted, out, &prospect);
    }
    begin_prospect(m, m->to, &prospect); /* such a work never waits for another device on its own */
    rota_prospect_add(&prospect, out_point);
    rota_prospect_access(&prospect, m->residency, m->begin, m->end, true);
    if (!m->to->exec->caps.unified_host)
        rota_work_provide(m->sequencer, &prospect, m->end - m->begin, ROTA_EXEC_MEMORY_HOST_WRITE,
                          &transfer->up);
    rota_work *in = rota_work_add_copy(m->submission, &prospect, ROTA_WORK_MIGRATE_IN, m->index);
    in->by_host = true;
    rota_wanted_add(m->wanted, m->sequencer->runtime->queue_count, out_point);
    bring(m, &prospect, in);
}

/* By one copy of the device's that gets them. */
static void move_over(const moving *m) {
    rota_runtime *runtime = m->sequencer->runtime;
    rota_prospect prospect;
    begin_prospect(m, m->to, &prospect);
    prospect.queues = 1u << m->to->io_queue;
    rota_prospect_access(&prospect, m->residency, m->begin, m->end, true);
    bring(m, &prospect, rota_work_add_copy(m->submission, &prospect, ROTA_WORK_MIGRATE_OVER, m->index));
    (void)ra_fetch_add_relaxed(&runtime->stats.peer_bytes, m->end - m->begin);
}

/* Moves bytes [begin, end), which one device has, to the device. */
static void move_range(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                       rota_residency *residency, uint64_t begin, uint64_t end, rota_copies valid,
                       rota_device *to) {
    rota_runtime *runtime = sequencer->runtime;
    rota_device *from = rota_residency_holder(runtime, residency, valid, to);
    const uint32_t index = submission->made.migration_count++;
    rota_migration *transfer = &submission->made.migrations[index];
    *transfer = (rota_migration){.residency = residency,
                                 .offset = begin,
                                 .size = end - begin,
                                 .from = from->index,
                                 .to = to->index,
                                 .is_lent = ra_load_acquire(&residency->buffer->is_lent),
                                 .first_unwritten =
                                     index ? transfer[-1].first_unwritten + transfer[-1].unwritten_count : 0};
    const moving m = {sequencer, wanted, submission, residency, begin, end, from, to, index};
    if (rota_residency_is_open(residency, from, to))
        move_over(&m);
    else
        move_by_host(&m);
    (void)ra_fetch_add_relaxed(&runtime->stats.migrations, 1);
    (void)ra_fetch_add_relaxed(&runtime->stats.migrated_bytes, end - begin);
}

void rota_bytes_bring(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                      rota_residency *residency, uint64_t begin, uint64_t end, rota_device *device) {
    for (uint64_t offset = begin; offset < end;) {
        rota_copies valid;
        uint64_t to = rota_residency_end_of_same(residency, offset, end, &valid);
        if (!(valid & rota_residency_bit(residency, device)))
            move_range(sequencer, wanted, submission, residency, offset, to, valid, device);
        offset = to;
    }
}
