/* A replay of a plan: sequenced, works on its devices' queues by segment; and prepared, by submit threads. */
#include <string.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/kinds/plan.h"
#include "sched/runtime/kinds/plan_externals.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/order/chain.h"
#include "sched/runtime/order/clocks.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/order/hazard.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/order/side_queues.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/plans/instances.h"
#include "sched/runtime/plans/times.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/end_times.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

#define OUTPUTS_SLICE_NS 50000000u

static void count_sidelined(rota_sequencer *sequencer, rota_submission *submission, bool begins) {
    _Atomic uint32_t *sidelined = &submission->plan->executable->sidelined;
    ra_store_relaxed(sidelined, ra_load_relaxed(sidelined) + (begins ? 1 : UINT32_MAX));
    sequencer->sidelined += begins ? 1 : UINT64_MAX;
    submission->sidelined = begins;
}

/* ---- Sequenced ---- */

/* The replay's instance, and what it must wait for on the host first (a hold), if anything: an earlier replay
 * of the same plan. */
static uint64_t choose_instance(rota_runtime *runtime, rota_submission *submission) {
    rota_executable *executable = submission->plan->executable;
    /* The first is always there. */
    if (!executable->rotates) {
        do submission->instance = executable->order.next_instance++ % executable->arenas.count;
        while (!rota_instance_is_near(executable, submission->instance));
        return ROTA_POINT_NONE;
    }
    for (uint32_t i = 0; i < executable->order.instance_count; i++) {
        uint32_t candidate = (executable->order.next_instance + i) % executable->order.instance_count;
        const rota_instance *instance = &executable->instances[candidate];
        /* Acquire: with the completer's release, after which it reads the staging memory no more. */
        if (!rota_point_passed(runtime, instance->last_point) ||
            ra_load_acquire(&instance->outputs_copied) != instance->outputs_issued ||
            !rota_instance_is_near(executable, candidate))
            continue;
        submission->instance = candidate;
        executable->order.next_instance = candidate + 1;
        return ROTA_POINT_NONE;
    }
    if (executable->order.instance_count < executable->instance_capacity &&
        rota_instance_is_near(executable, executable->order.instance_count)) {
        submission->instance = executable->order.instance_count++;
        executable->order.next_instance = 0; /* next time the oldest is looked at first */
        return ROTA_POINT_NONE;
    }
    do submission->instance = executable->order.next_instance++ % executable->order.instance_count;
    while (
        !ra_load_acquire(&executable->instances[submission->instance].created)); /* with rota_instance_make */
    return executable->instances[submission->instance].last_point;
}

static void add_foreign_wait(rota_submission *submission, rota_work *work, uint64_t point) {
    submission->made.foreign_waits[submission->made.foreign_wait_count++] = point;
    work->foreign_wait_count++;
}

/* How often the plan's own accesses to a buffer may cut [begin, end), each piece of which then moves by itself. */
static uint32_t inner_boundaries(const rota_submission *submission, const rota_residency *residency,
                                 uint64_t begin, uint64_t end) {
    const rota_plan *plan = submission->plan;
    uint32_t count = 1;
    for (uint32_t e = 0; e < plan->external_count; e++) {
        uint64_t low;
        if (rota_submission_external(submission, &plan->externals[e], &low) != residency) continue;
        uint64_t high = low + plan->externals[e].size_bytes;
        count += (uint32_t)(low > begin && low < end) + (uint32_t)(high > begin && high < end);
    }
    return count;
}

/* A device of the plan's that is lost, for good; NULL: none. */
static const rota_device *first_lost(const rota_plan *plan) {
    for (uint32_t p = 0; p < plan->partition_count; p++)
        if (rota_device_is_lost(plan->partitions[p].device)) return plan->partitions[p].device;
    return NULL;
}

/* Whether it can run: its devices are there, and what it reads; counts the moves that takes. */
static bool check(rota_sequencing *s, uint32_t *moves) {
    rota_runtime *runtime = s->runtime;
    rota_submission *submission = s->submission;
    const rota_plan *plan = submission->plan;
    const rota_device *lost = first_lost(plan);
    if (lost) {
        s->reason = (rota_reason){ra_load_acquire(&lost->lost_cause), 0};
        s->status = ROTA_DEVICE_LOST;
        return false;
    }
    const bool has_failed = rota_failed_is_any(ra_load_acquire(&runtime->failed.active));
    for (uint32_t e = 0; has_failed && e < plan->external_count; e++) {
        if (!(plan->externals[e].flags & ROTA_EXTERNAL_INCOMING)) continue;
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, &plan->externals[e], &begin);
        rota_copies_drop_failed(s->sequencer, residency, begin, begin + plan->externals[e].size_bytes);
    }
    /* Owned residencies are as this plan's last replay left them: what could be had then can be had now. */
    if (rota_replay_is_known(plan->executable)) return true;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const rota_plan_segment *segment = &plan->segments[i];
        const rota_partition *part = &plan->partitions[segment->part];
        const rota_exec_segment *commands = &part->desc.segments[segment->index];
        for (uint32_t e = 0; e < segment->external_count; e++) {
            const rota_plan_external *external = &plan->externals[segment->first_external + e];
            if (!(external->flags & ROTA_EXTERNAL_INCOMING)) continue;
            uint64_t begin;
            rota_residency *residency = rota_submission_external(submission, external, &begin);
            const char *node =
                commands->command_count
                    ? rota_plan_node_name(part, part->desc.commands[commands->first_command].node)
                    : "";
            uint32_t before = *moves;
            if (!rota_incoming_check(s, residency, begin, begin + external->size_bytes,
                                     rota_residency_bit(residency, part->device), node, moves))
                return false;
            if (*moves != before || plan->partition_count > 1)
                *moves += inner_boundaries(submission, residency, begin, begin + external->size_bytes);
        }
    }
    return true;
}

static void access_external(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                            const rota_plan_external *external, rota_device *device, uint64_t point) {
    uint64_t begin;
    rota_residency *residency = rota_submission_external(submission, external, &begin);
    uint64_t end = begin + external->size_bytes;
    if (external->flags & ROTA_EXTERNAL_WRITE) {
        rota_hazard_write(sequencer, wanted, residency, begin, end, point,
                          rota_residency_bit(residency, device));
        if (ra_load_relaxed(&residency->home_plus_1) != device->index + 1)
            ra_store_relaxed(&residency->home_plus_1, device->index + 1);
    } else {
        rota_hazard_read(sequencer, wanted, residency, begin, end, point);
    }
}

/* What a segment comes after because of what it touches outside the plan. */
static void want_external(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                          uint32_t index, rota_device *device, uint64_t point, const uint64_t *base,
                          bool *notes) {
    const rota_plan *plan = submission->plan;
    const rota_plan_segment *segment = &plan->segments[index];
    for (uint32_t e = 0; e < segment->external_count; e++)
        access_external(sequencer, wanted, submission, &plan->externals[segment->first_external + e], device,
                        point);
    if (*notes) rota_replay_note(sequencer, wanted, plan->executable, base, index, notes);
}

static void bring_incoming(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                           const rota_plan_segment *segment, rota_device *device) {
    for (uint32_t e = 0; e < segment->external_count; e++) {
        const rota_plan_external *external = &submission->plan->externals[segment->first_external + e];
        if (!(external->flags & ROTA_EXTERNAL_INCOMING)) continue;
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, external, &begin);
        rota_bytes_bring(sequencer, wanted, submission, residency, begin, begin + external->size_bytes,
                         device);
    }
}

/* Segments of different devices were taken in any order: who holds what they wrote is a matter of record order. */
static void place_written(const rota_submission *submission) {
    const rota_plan *plan = submission->plan;
    for (uint32_t p = 0; p < plan->placed.count; p++) {
        const rota_plan_placed *placed = &plan->placed.ranges[p];
        const rota_plan_external external = {.buffer = placed->buffer, .offset_bytes = placed->offset_bytes};
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, &external, &begin);
        rota_copies valid = 0;
        for (uint32_t part = 0; part < plan->partition_count; part++)
            if (placed->parts >> part & 1u)
                valid |= rota_residency_bit(residency, plan->partitions[part].device);
        rota_ranges_assign(residency, begin, begin + placed->size_bytes, valid);
    }
}

/* What the plan's segments on a device come after. Of a replay that is known that is there already, since
 * it is the replay before. */
static void look_at_prospect(const rota_submission *submission, bool known, uint32_t arena,
                             rota_prospect *prospect) {
    const rota_plan *plan = submission->plan;
    const rota_executable *executable = plan->executable;
    for (uint32_t s = 0; s < plan->segment_count; s++)
        if (plan->partitions[plan->segments[s].part].device == prospect->device)
            prospect->queues |= 1u << plan->segments[s].queue;
    if (executable->has_arena) rota_prospect_add(prospect, executable->order.arena_points[arena]);
    for (uint32_t s = 0; s < plan->segment_count && !known; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        if (plan->partitions[segment->part].device != prospect->device) continue;
        for (uint32_t e = 0; e < segment->external_count; e++) {
            const rota_plan_external *external = &plan->externals[segment->first_external + e];
            uint64_t begin;
            rota_residency *residency = rota_submission_external(submission, external, &begin);
            rota_prospect_access(prospect, residency, begin, begin + external->size_bytes,
                                 external->flags & ROTA_EXTERNAL_WRITE);
        }
    }
}

/* Whether segments on the part's device wait for others of the plan that it can't wait for itself. */
static bool waits_for_other_parts(const rota_plan *plan, const rota_device *device) {
    /* While something has failed none can: rota_linked_is_ready. */
    const uint32_t active = ra_load_acquire(&device->runtime->failed.active);
    const uint64_t linked = rota_failed_is_any(active) ? 0 : ra_load_acquire(&device->others.linked);
    for (uint32_t p = 0; p < plan->partition_count; p++)
        if (plan->partitions[p].device != device && !(linked >> plan->partitions[p].device->index & 1u))
            return true;
    return false;
}

/* Whether the plan is to leave its queues to works that wait on the device for another one. A replay that is
 * known comes after the one before, and after nothing else that is not through. */
static bool steps_aside(const rota_plan *plan, bool known, rota_prospect *prospect) {
    const uint64_t last = plan->executable->order.last_point;
    if (plan->partition_count > 1 || prospect->crosses || !ra_load_relaxed(&prospect->device->others.linked))
        return false;
    if (known && prospect->wanted[rota_point_queue(last)] < rota_point_value(last))
        prospect->wanted[rota_point_queue(last)] = rota_point_value(last);
    return rota_side_queue_is_crossed(prospect);
}

/* A replay while its works are made. */
typedef struct replay {
    rota_runtime *runtime;
    rota_sequencer *sequencer;
    rota_wanted *wanted;
    rota_submission *submission;
    uint64_t base[ROTA_DEVICES_MAX * ROTA_EXEC_QUEUES_MAX]; /* rota_replay_begin */
    uint64_t instance_wait;
    bool is_made; /* its instance */
    bool known;   /* its waits on the one before are noted; or, `notes`, they will be */
    bool notes;
    uint32_t arena;
    uint32_t direct;  /* rota_deliver_segment */
    uint64_t *points; /* by segment, of those whose works are made */
    uint64_t one_point;
    uint64_t sidelined; /* devices, as bits, whose works of this replay go to side queues */
    rota_prospect prospects[ROTA_DEVICES_MAX]; /* by part */
    uint8_t lanes[ROTA_DEVICES_MAX]
                 [ROTA_PLAN_QUEUES_MAX]; /* by part and queue, of those that are sidelined */
    uint64_t started[ROTA_DEVICES_MAX];  /* queues that have a work of this replay already */
} replay;

/* The devices, as bits, whose works of this submission go to side queues; and what they are late for. `is_waiting`:
 * for the instance, or the application. */
static uint64_t choose_sidelined(replay *r, bool is_waiting, bool known) {
    const rota_submission *submission = r->submission;
    const rota_plan *plan = submission->plan;
    uint64_t sidelined = 0;
    if (!is_waiting && !plan->executable->ends_later && r->sequencer->sidelined == 0 &&
        ra_load_relaxed(&r->runtime->device_count) == 1)
        return 0;
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        rota_prospect *prospect = &r->prospects[p];
        /* Its other parts may wait for what ends later, too. */
        *prospect = (rota_prospect){.device = plan->partitions[p].device,
                                    .ends_later = plan->partitions[p].ends_later,
                                    .comes_later = plan->executable->ends_later};
        look_at_prospect(submission, known, r->arena, prospect);
        rota_prospect_add_instance(prospect, r->instance_wait, r->is_made);
        if (submission->has_after) rota_prospect_add_external(prospect, &submission->seldom.after);
        if (waits_for_other_parts(plan, prospect->device)) prospect->waiting_for = 2;
        if (rota_prospect_is_late(prospect) || is_waiting || steps_aside(plan, known, prospect))
            sidelined |= (uint64_t)1 << prospect->device->index;
    }
    return sidelined;
}

/* The queue of the segment's work. `is_first`: none of the replay's is on it. */
static uint32_t choose_queue(replay *r, const rota_plan_segment *segment, bool is_first, bool is_sidelined) {
    if (!is_sidelined) return segment->queue;
    uint8_t *lanes = r->lanes[segment->part];
    const rota_prospect *prospect = &r->prospects[segment->part];
    const uint64_t others = r->started[prospect->device->index];
    const uint32_t own = others ? lanes[__builtin_ctzll(others)] : ROTA_NONE;
    if (is_first) lanes[segment->queue] = (uint8_t)rota_side_queue_choose(prospect, own);
    return lanes[segment->queue];
}

static void sequence_segment(replay *r, uint32_t s) {
    rota_runtime *runtime = r->runtime;
    rota_wanted *wanted = r->wanted;
    rota_submission *submission = r->submission;
    const rota_plan *plan = submission->plan;
    const rota_executable *executable = plan->executable;
    const rota_plan_segment *segment = &plan->segments[s];
    rota_device *device = plan->partitions[segment->part].device;
    const bool is_sidelined = r->sidelined >> device->index & 1u;
    const bool is_first = !(r->started[device->index] >> segment->queue & 1u);
    const uint32_t queue = choose_queue(r, segment, is_first, is_sidelined);
    rota_work *work = rota_work_add(submission, device, queue, rota_work_kind_of(segment), s);
    work->step = s + 1;
    work->is_sidelined = is_sidelined;
    const uint64_t point = rota_work_point(work);
    r->points[s] = point;
    if (r->known)
        rota_replay_want(r->sequencer, wanted, executable, r->base, s);
    else
        want_external(r->sequencer, wanted, submission, s, device, point, r->base, &r->notes);
    for (uint32_t w = 0; w < segment->wait_count; w++)
        rota_wanted_add(wanted, runtime->queue_count,
                        r->points[plan->segment_waits[segment->first_wait + w]]);
    if (executable->direct_count)
        rota_deliver_segment(r->sequencer, wanted, submission, s, point, &r->direct);
    if (executable->has_arena && is_first)
        rota_wanted_add(wanted, runtime->queue_count, executable->order.arena_points[r->arena]);
    rota_hazard_settle(r->sequencer, wanted, work);
    rota_side_queue_note(work, is_sidelined ? &r->prospects[segment->part] : NULL);
    if (!r->is_made) rota_chain_note_building(work, executable->partitions[0].device);
    if (r->instance_wait != ROTA_POINT_NONE && is_first) add_foreign_wait(submission, work, r->instance_wait);
    if (work->wait_count | work->foreign_wait_count) rota_chain_note(r->sequencer, wanted, work);
    r->started[device->index] |= (uint64_t)1 << segment->queue;
}

static void own_externals(const rota_submission *submission) {
    const rota_plan *plan = submission->plan;
    for (uint32_t e = 0; e < plan->external_count; e++) {
        uint64_t begin;
        rota_replay_own(plan->executable, rota_submission_external(submission, &plan->externals[e], &begin));
    }
}

/* Of a plan of one segment whose waits on the replay before are noted: nothing else is to be found out. */
static bool is_single(const replay *r) {
    const rota_plan *plan = r->submission->plan;
    return r->known && plan->segment_count == 1 && r->is_made && r->instance_wait == ROTA_POINT_NONE &&
           !plan->executable->has_arena && plan->executable->direct_count == 0;
}

static uint64_t sequence_single(const replay *r) {
    rota_submission *submission = r->submission;
    const rota_plan_segment *segment = submission->plan->segments;
    rota_device *device = submission->plan->partitions[segment->part].device;
    rota_work *work = rota_work_add(submission, device, segment->queue, rota_work_kind_of(segment), 0);
    work->step = 1;
    rota_hazard_settle_own(r->sequencer, work,
                           rota_replay_next_single(r->sequencer, submission->plan->executable, work));
    rota_side_queue_note(work, NULL);
    return rota_work_point(work);
}

static uint64_t sequence_segments(replay *r, bool is_waiting) {
    rota_submission *submission = r->submission;
    const rota_plan *plan = submission->plan;
    rota_executable *executable = plan->executable;
    for (uint32_t p = 0; p < plan->partition_count; p++) r->started[plan->partitions[p].device->index] = 0;
    r->direct = 0;
    r->points = plan->segment_count == 1 ? &r->one_point : submission->made.segment_points;
    r->notes = !r->known && rota_replay_notes(executable);
    const uint32_t timelines = rota_replay_begin(r->sequencer, executable, r->base);
    /* What a segment needs from before this replay moves first of all: an earlier segment on another device
     * may overwrite it there, and nothing in the plan orders the two. */
    for (uint32_t s = 0; s < plan->segment_count && !r->known; s++)
        bring_incoming(r->sequencer, r->wanted, submission, &plan->segments[s],
                       plan->partitions[plan->segments[s].part].device);
    if (!r->known) r->sidelined = choose_sidelined(r, is_waiting, false);
    r->notes = r->notes && !r->sidelined; /* whose waits are for queues of its own */
    for (uint32_t s = 0; s < plan->segment_count; s++) sequence_segment(r, s);
    if (!r->known) place_written(submission);
    if (rota_replay_end(r->sequencer, executable, r->base, timelines, r->known, r->notes,
                        submission->made.migration_count != 0 || r->sidelined))
        own_externals(submission);
    return r->points[plan->final_segment];
}

static uint64_t make_works(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    rota_executable *executable = submission->plan->executable;
    replay r; /* as much of it as the plan has parts is set */
    r.runtime = runtime;
    r.sequencer = sequencer;
    r.wanted = wanted;
    r.submission = submission;
    r.instance_wait = choose_instance(runtime, submission);
    rota_instance *instance = &executable->instances[submission->instance];
    /* One that is in use by a replay that is not blocked itself has its works blocked on their own queues: where
     * those of that replay are, behind which nothing would end any sooner. */
    r.is_made = rota_instance_ask(executable, submission->instance);
    const bool is_waiting =
        submission->has_after || !r.is_made || !rota_side_queue_is_at_hand(sequencer, r.instance_wait);
    if (executable->has_staging) submission->output.before = instance->outputs_issued;
    if (submission->by_delivery) instance->outputs_issued++;
    r.arena = submission->instance % executable->arenas.count;
    const bool like_before = rota_replay_is_known(executable);
    r.sidelined = like_before ? choose_sidelined(&r, is_waiting, true) : 0;
    if (r.sidelined) rota_replay_forget(executable);
    r.known = like_before && !r.sidelined;
    const uint64_t final = is_single(&r) ? sequence_single(&r) : sequence_segments(&r, is_waiting);
    if (r.sidelined) count_sidelined(sequencer, submission, true);
    if (executable->has_arena) executable->order.arena_points[r.arena] = final;
    instance->last_point = final;
    executable->order.last_point = final;
    return final;
}

/* From now on it waits for the application, whose points are in the payload. */
static void begin_after(const rota_runtime *runtime, rota_submission *submission, const uint64_t *words) {
    rota_external_wait *after = &submission->seldom.after;
    submission->has_after = true;
    after->words = words;
    after->count = (uint32_t)words[0];
    after->on = NULL;
    after->since_ns = rota_clock_ns();
    after->timeout_ns = words[1] ? words[1] : runtime->options.timeout_ns;
    ra_store_relaxed(&after->outcome, (uint32_t)ROTA_EXTERNAL_WAIT_PENDING); /* published with its works */
}

/* Room for its works, but for what it moves between devices: that is not known before its arguments are. */
static bool take_arguments(rota_sequencing *s) {
    rota_submission *submission = s->submission;
    const rota_plan *plan = submission->plan;
    const uint32_t own = plan->executable->arguments.payload_words, words = own + s->after_words;
    if (s->has_record &&
        rota_submission_reserve(s->runtime, submission, plan->segment_count, plan->segment_count, 0, words)) {
        if (words) memcpy(submission->made.payload, s->words, words * sizeof *submission->made.payload);
        if (s->after_words) begin_after(s->runtime, submission, submission->made.payload + own);
        return true;
    }
    /* Without room for the arguments they are read where the caller left them. */
    s->own_payload = submission->made.payload;
    submission->made.payload = s->words;
    return false;
}

bool rota_kind_plan_sequence(rota_sequencing *s) {
    rota_runtime *runtime = s->runtime;
    rota_submission *submission = s->submission;
    rota_plan *plan = submission->plan = s->object;
    rota_executable *executable = plan->executable;
    uint32_t moves = 0;
    if (s->has_record) executable->order.unreaped++;
    bool ok = take_arguments(s);
    if (executable->arguments.slot_buffer_count)
        rota_replay_bind(executable, rota_submission_bound(submission, 0));
    submission->by_delivery = executable->has_staging && plan->transfer_count > plan->input_count;
    ok = ok && check(s, &moves) &&
         (moves == 0 ||
          rota_submission_reserve(runtime, submission, plan->segment_count + 2u * moves, plan->segment_count,
                                  moves, executable->arguments.payload_words + s->after_words)) &&
         rota_deliver_outputs(s->sequencer, s->wanted, submission);
    if (executable->stages_inputs) ra_store_relaxed(&submission->told.inputs_left, plan->input_count);
    if (!rota_observers_submitted(&executable->observers, ok))
        return false; /* before anything of it can begin */
    const uint32_t state =
        (submission->by_delivery ? ROTA_CELL_BY_DELIVERY : 0u) |
        (plan->partition_count > 1 || rota_submission_comes_after_others(submission) ? ROTA_CELL_SPREAD
                                                                                     : 0u) |
        (plan->input_count ? 0u : ROTA_CELL_TAKEN);
    if (state)
        ra_store_release(&submission->cell->state,
                         state); /* nobody else writes it before the point is there */
    s->final = make_works(s->sequencer, s->wanted, submission);
    return true;
}

void rota_kind_plan_for_written(rota_runtime *runtime, const rota_submission *submission, rota_written_fn fn,
                                void *user) {
    const rota_plan *plan = submission->plan;
    for (uint32_t e = 0; e < plan->external_count; e++) {
        const rota_plan_external *external = &plan->externals[e];
        if (!(external->flags & ROTA_EXTERNAL_WRITE)) continue;
        uint64_t begin;
        const rota_buffer *root = rota_submission_root(submission, external, &begin);
        fn(runtime, submission, root, begin, begin + external->size_bytes, user);
    }
}

/* ---- Ended ---- */

/* A replay's end is that of its last segment, which comes after all others and by which its ticket ends: what
 * is published afterwards of other queues is no part of what who waits for the ticket waits for. */
void rota_kind_plan_note_end(rota_sequencer *sequencer, const rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    if (!runtime->options.diagnostics) return;
    const rota_submission_told *told = &submission->told;
    const uint64_t final = submission->final_point, over_ns = ra_load_relaxed(&told->handed_over_ns);
    const uint64_t ended_ns =
        rota_end_times_take(rota_runtime_timeline(runtime, final)->end_times, rota_point_value(final));
    rota_plan_replay_times times = {
        told->submitted_ns, told->sequenced_ns, over_ns, ended_ns, 0, ROTA_OK, false};
    times.number = submission->number;
    times.status = rota_submission_status(submission);
    rota_executable_note_replay(submission->plan, submission->instance, &times, submission->has_after);
}

void rota_kind_plan_uncount(rota_sequencer *sequencer, rota_submission *submission) {
    if (submission->sidelined) count_sidelined(sequencer, submission, false);
}

/* Its marks are those of memory of its own. */
void rota_kind_plan_end(rota_sequencer *sequencer, rota_submission *submission) {
    rota_runtime *runtime = sequencer->runtime;
    if (rota_failed_is_any(ra_load_relaxed(&runtime->failed.active))) rota_poison_drop(runtime, submission);
}

void rota_kind_plan_forget(const rota_submission *submission) {
    submission->plan->executable->order.unreaped--;
}

/* ---- Prepared, by a submit thread ---- */

static void inputs_taken(rota_runtime *runtime, rota_submission *submission, uint32_t count) {
    if (count == 0 || ra_fetch_sub_acq_rel(&submission->told.inputs_left, count) != count) return;
    (void)ra_fetch_or_seq_cst(&submission->cell->state,
                              (uint32_t)ROTA_CELL_TAKEN); /* seq_cst: as base/sleep.h argues */
    rota_wait_table_wake(&runtime->completing.delivery_waiters, 1);
}

static bool outputs_are_copied(void *user) {
    const rota_submission *submission = user;
    const rota_executable *executable = submission->plan->executable;
    return ra_load_seq_cst(
               &executable->instances[submission->instance].outputs_copied) >= /* with give_staging_back */
           submission->output.before;
}

/* An instance's staging memory is written again only when the completer has taken the outputs out of it: P1. */
static rota_status wait_for_outputs(rota_runtime *runtime, rota_submission *submission) {
    uint64_t deadline = rota_deadline_after(runtime->options.timeout_ns);
    while (!outputs_are_copied(submission)) {
        uint64_t now = rota_clock_ns();
        if (now >= deadline || ra_load_acquire(&runtime->stop))
            return rota_fail(ROTA_TIMEOUT, "plan '%s': the outputs of an earlier replay were not taken",
                             submission->plan->name);
        rota_wait_table_sleep(&runtime->completing.delivery_waiters, 1, outputs_are_copied, submission,
                              now + OUTPUTS_SLICE_NS);
    }
    return ROTA_OK;
}

rota_status rota_segment_prepare(rota_work *work, rota_exec_work *out) {
    rota_submission *submission = work->submission;
    rota_plan *plan = submission->plan;
    rota_executable *executable = plan->executable;
    const rota_plan_segment *segment = &plan->segments[work->segment];
    const rota_instance *instance = &executable->instances[submission->instance];
    if (!ra_load_acquire(&instance->created)) { /* with rota_instance_make */
        /* By which of the two it was decided (rota_segment_is_decided). Acquire: with answer, of this failure or of
         * one after it. */
        const rota_device *lost = first_lost(plan);
        const rota_cause *failure = ra_load_acquire(lost ? &lost->lost_cause : &instance->failure);
        rota_assert(failure);
        return rota_fail(failure->status, "%s", failure->message);
    }
    if (executable->has_staging) {
        ROTA_TRY(wait_for_outputs(work->device->runtime, submission));
        if (!rota_device_begin_filling(work->device, submission->number)) return ROTA_OK;
        uint32_t taken = 0;
        for (uint32_t t = 0; t < plan->input_count; t++) {
            const rota_plan_transfer *transfer = &plan->transfers[t];
            if (transfer->segment != work->segment) continue;
            taken++;
            if (transfer->memory == ROTA_NONE) continue;
            uint8_t *host = instance->memories[transfer->part][transfer->memory]->host;
            memcpy(host + transfer->offset_bytes,
                   (const void *)(uintptr_t)submission->made.payload[plan->word_count + t],
                   plan->buffers[transfer->buffer].buffer->size_bytes);
        }
        if (executable->stages_inputs) inputs_taken(work->device->runtime, submission, taken);
        rota_device_end_filling(work->device);
    }
    out->instance = instance->parts[segment->part];
    out->segment = segment->index, out->is_awaited = segment->is_awaited;
    out->block = plan->word_count ? submission->made.payload : NULL;
    return ROTA_OK;
}

/* Where a device of the plan is lost the replay fails, and does not wait for a driver that may stay for ever with what
 * it makes there. The instance may be there yet before the work is prepared, and then serves. */
bool rota_segment_is_decided(const rota_work *work) {
    const rota_submission *submission = work->submission;
    return !work->is_sidelined ||
           rota_instance_is_decided(&submission->plan->executable->instances[submission->instance]) ||
           first_lost(submission->plan);
}
