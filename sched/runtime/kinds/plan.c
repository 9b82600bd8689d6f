/* A replay of a plan: sequenced, works on its devices' queues by segment; and prepared, by the submit
 * threads. */
#include <string.h>

#include "sched/runtime/kinds/plan.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime_internal.h"
#include "sched/submission.h"

#define OUTPUTS_SLICE_NS 50000000u

void rota_kind_plan_end_parking(rota_runtime *runtime, rota_submission *submission) {
    _Atomic uint32_t *parked = &submission->plan->run->parked;
    ra_store_relaxed(parked, ra_load_relaxed(parked) - 1);
    runtime->parked--;
    submission->parked = false;
}

/* ---- Sequenced ---- */

/* The replay's instance, and what it must wait for on the host first (a hold), if anything: an earlier replay
 * of the same plan. */
static uint64_t choose_instance(rota_runtime *runtime, rota_submission *submission) {
    rota_plan_run *run = submission->plan->run;
    /* The first is always there. */
    if (!run->rotates) {
        do submission->instance = run->next_instance++ % run->arena_count;
        while (!rota_run_instance_is_near(run, submission->instance));
        return ROTA_POINT_NONE;
    }
    for (uint32_t i = 0; i < run->instance_count; i++) {
        uint32_t candidate = (run->next_instance + i) % run->instance_count;
        const rota_run_instance *instance = &run->instances[candidate];
        /* Acquire: with the completer's release, after which it reads the staging memory no more. */
        if (!rota_point_passed(runtime, instance->last_point) ||
            ra_load_acquire(&instance->outputs_copied) != instance->outputs_issued ||
            !rota_run_instance_is_near(run, candidate))
            continue;
        submission->instance = candidate;
        run->next_instance = candidate + 1;
        return ROTA_POINT_NONE;
    }
    if (run->instance_count < run->instance_capacity && rota_run_instance_is_near(run, run->instance_count)) {
        submission->instance = run->instance_count++;
        run->next_instance = 0; /* next time the oldest is looked at first */
        return ROTA_POINT_NONE;
    }
    do submission->instance = run->next_instance++ % run->instance_count;
    while (!ra_load_acquire(&run->instances[submission->instance].created)); /* with rota_run_instance_make */
    return run->instances[submission->instance].last_point;
}

static void add_hold(rota_submission *submission, rota_work *work, uint64_t point) {
    submission->holds[submission->hold_count++] = point;
    work->hold_count++;
}

/* How often the plan's own accesses to a buffer may cut [begin, end), each piece of which then moves by
 * itself. */
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

bool rota_kind_plan_check(rota_runtime *runtime, rota_submission *submission, uint32_t *moves,
                          rota_reason *out_reason, rota_status *out_status) {
    const rota_plan *plan = submission->plan;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        rota_device *device = plan->parts[p].device;
        if (!rota_device_is_lost(device)) continue;
        *out_reason = (rota_reason){ra_load_acquire(&device->lost_cause), 0};
        *out_status = ROTA_DEVICE_LOST;
        return false;
    }
    for (uint32_t e = 0; ra_load_acquire(&runtime->poison_active) != 0 && e < plan->external_count; e++) {
        if (!(plan->externals[e].flags & ROTA_EXTERNAL_INCOMING)) continue;
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, &plan->externals[e], &begin);
        rota_copies_drop_failed(runtime, residency, begin, begin + plan->externals[e].size_bytes);
    }
    /* Owned residencies are as this plan's last replay left them: what could be had then can be had now. */
    if (rota_replay_is_known(plan->run)) return true;
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        const rota_plan_part *part = &plan->parts[segment->part];
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
            if (!rota_incoming_check(runtime, submission, residency, begin, begin + external->size_bytes,
                                     rota_residency_bit(residency, part->device), node, moves, out_reason,
                                     out_status))
                return false;
            if (*moves != before || plan->part_count > 1)
                *moves += inner_boundaries(submission, residency, begin, begin + external->size_bytes);
        }
    }
    return true;
}

static void access_external(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                            const rota_plan_external *external, rota_device *device, uint64_t point) {
    uint64_t begin;
    rota_residency *residency = rota_submission_external(submission, external, &begin);
    uint64_t end = begin + external->size_bytes;
    if (external->flags & ROTA_EXTERNAL_WRITE) {
        rota_hazard_write(runtime, wanted, residency, begin, end, point,
                          rota_residency_bit(residency, device));
        if (ra_load_relaxed(&residency->home_plus_1) != device->index + 1)
            ra_store_relaxed(&residency->home_plus_1, device->index + 1);
    } else {
        rota_hazard_read(runtime, wanted, residency, begin, end, point);
    }
}

/* What a segment comes after because of what it touches outside the plan. */
static void want_external(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                          uint32_t index, rota_device *device, uint64_t point, const uint64_t *base,
                          bool *notes) {
    const rota_plan *plan = submission->plan;
    const rota_plan_segment *segment = &plan->segments[index];
    for (uint32_t e = 0; e < segment->external_count; e++)
        access_external(runtime, wanted, submission, &plan->externals[segment->first_external + e], device,
                        point);
    if (*notes) rota_replay_note(runtime, wanted, plan->run, base, index, notes);
}

static void bring_incoming(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                           const rota_plan_segment *segment, rota_device *device) {
    for (uint32_t e = 0; e < segment->external_count; e++) {
        const rota_plan_external *external = &submission->plan->externals[segment->first_external + e];
        if (!(external->flags & ROTA_EXTERNAL_INCOMING)) continue;
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, external, &begin);
        rota_bytes_bring(runtime, wanted, submission, residency, begin, begin + external->size_bytes, device);
    }
}

/* Segments of different devices were taken in any order: who holds what they wrote is a matter of record
 * order. */
static void place_written(const rota_submission *submission) {
    const rota_plan *plan = submission->plan;
    for (uint32_t p = 0; p < plan->placed_count; p++) {
        const rota_plan_placed *placed = &plan->placed[p];
        const rota_plan_external external = {.buffer = placed->buffer, .offset_bytes = placed->offset_bytes};
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, &external, &begin);
        rota_places valid = 0;
        for (uint32_t part = 0; part < plan->part_count; part++)
            if (placed->parts >> part & 1u) valid |= rota_residency_bit(residency, plan->parts[part].device);
        rota_ranges_place(residency, begin, begin + placed->size_bytes, valid);
    }
}

/* What the plan's segments on a device come after. Of a replay that is known that is there already, since
 * it is the replay before. */
static void look_ahead(const rota_submission *submission, bool known, uint32_t arena, rota_ahead *ahead) {
    const rota_plan *plan = submission->plan;
    const rota_plan_run *run = plan->run;
    for (uint32_t s = 0; s < plan->segment_count; s++)
        if (plan->parts[plan->segments[s].part].device == ahead->device)
            ahead->queues |= 1u << plan->segments[s].queue;
    if (run->has_arena) rota_ahead_add(ahead, run->arena_points[arena]);
    for (uint32_t s = 0; s < plan->segment_count && !known; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        if (plan->parts[segment->part].device != ahead->device) continue;
        for (uint32_t e = 0; e < segment->external_count; e++) {
            const rota_plan_external *external = &plan->externals[segment->first_external + e];
            uint64_t begin;
            rota_residency *residency = rota_submission_external(submission, external, &begin);
            rota_ahead_access(ahead, residency, begin, begin + external->size_bytes,
                              external->flags & ROTA_EXTERNAL_WRITE);
        }
    }
}

/* Whether segments on the part's device wait for others of the plan that it can't wait for itself. */
static bool waits_for_other_parts(const rota_plan *plan, const rota_device *device) {
    /* While something has failed none can: rota_across_is_ready. */
    const uint64_t linked =
        ra_load_acquire(&device->runtime->poison_active) == 0 ? ra_load_acquire(&device->linked) : 0;
    for (uint32_t p = 0; p < plan->part_count; p++)
        if (plan->parts[p].device != device && !(linked >> plan->parts[p].device->index & 1u)) return true;
    return false;
}

/* Whether the plan is to leave its queues to works that wait on the device for another one. A replay that is
 * known comes after the one before, and after nothing else that is not through. */
static bool steps_aside(const rota_plan *plan, bool known, rota_ahead *ahead) {
    const uint64_t last = plan->run->last_point;
    if (plan->part_count > 1 || ahead->crosses || !ra_load_relaxed(&ahead->device->linked)) return false;
    if (known && ahead->wanted[rota_point_queue(last)] < rota_point_value(last))
        ahead->wanted[rota_point_queue(last)] = rota_point_value(last);
    return rota_siding_is_crossed(ahead);
}

/* The devices, as bits, whose works of this submission go to sidings; and what they are late for. `is_late`:
 * for the instance. */
static uint64_t choose_parking(rota_runtime *runtime, const rota_submission *submission, bool is_late,
                               bool known, uint32_t arena, rota_ahead *aheads) {
    const rota_plan *plan = submission->plan;
    uint64_t parking = 0;
    if (!is_late && runtime->parked == 0 && ra_load_relaxed(&runtime->device_count) == 1) return 0;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        rota_ahead *ahead = &aheads[p];
        *ahead = (rota_ahead){.device = plan->parts[p].device};
        look_ahead(submission, known, arena, ahead);
        if (waits_for_other_parts(plan, ahead->device)) ahead->late = 2;
        if (ahead->late || is_late || steps_aside(plan, known, ahead))
            parking |= (uint64_t)1 << ahead->device->index;
    }
    return parking;
}

void rota_kind_plan_sequence(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                             uint64_t *out_final) {
    rota_plan *plan = submission->plan;
    rota_plan_run *run = plan->run;
    uint64_t base[ROTA_DEVICES_MAX * ROTA_EXEC_QUEUES_MAX];
    uint64_t instance_hold = choose_instance(runtime, submission);
    /* One that is in use by a replay that is not held itself has its works held on their own queues: where
     * those of that replay are, behind which nothing would end any sooner. */
    const bool is_made = rota_run_instance_ask(run, submission->instance);
    const bool is_late = !is_made || !rota_siding_is_at_hand(runtime, instance_hold);
    submission->outputs_before = run->instances[submission->instance].outputs_issued;
    if (submission->hosted) run->instances[submission->instance].outputs_issued++;
    uint32_t arena = submission->instance % run->arena_count;
    uint64_t started[ROTA_DEVICES_MAX]; /* queues that have a work of this replay already */
    for (uint32_t p = 0; p < plan->part_count; p++) started[plan->parts[p].device->index] = 0;
    uint32_t direct = 0;
    bool known = rota_replay_is_known(run);
    rota_ahead aheads[ROTA_DEVICES_MAX];                   /* by part */
    uint8_t lanes[ROTA_DEVICES_MAX][ROTA_PLAN_QUEUES_MAX]; /* by part and queue, of those that are parked */
    uint64_t parking = known ? choose_parking(runtime, submission, is_late, true, arena, aheads) : 0;
    if (parking) rota_replay_forget(run);
    known = known && !parking;
    bool notes = !known && rota_replay_notes(run);
    uint32_t timelines = rota_replay_begin(runtime, run, base);
    /* What a segment needs from before this replay moves first of all: an earlier segment on another device
     * may overwrite it there, and nothing in the plan orders the two. */
    for (uint32_t s = 0; s < plan->segment_count && !known; s++)
        bring_incoming(runtime, wanted, submission, &plan->segments[s],
                       plan->parts[plan->segments[s].part].device);
    if (!known) parking = choose_parking(runtime, submission, is_late, false, arena, aheads);
    notes = notes && !parking; /* whose waits are for queues of its own */
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        rota_device *device = plan->parts[segment->part].device;
        const bool parks = parking >> device->index & 1u;
        const bool is_first = !(started[device->index] >> segment->queue & 1u);
        uint32_t queue = segment->queue;
        if (parks) {
            uint8_t *lane = &lanes[segment->part][segment->queue];
            if (is_first) *lane = (uint8_t)rota_siding_choose(&aheads[segment->part]);
            queue = *lane;
        }
        rota_work *work = rota_work_add(submission, device, queue, ROTA_WORK_SEGMENT, s);
        work->parks = parks;
        uint64_t point = rota_work_point(work);
        submission->segment_points[s] = point;
        if (known)
            rota_replay_want(runtime, wanted, run, base, s);
        else
            want_external(runtime, wanted, submission, s, device, point, base, &notes);
        for (uint32_t w = 0; w < segment->wait_count; w++)
            rota_wanted_add(wanted, runtime->queue_count,
                            submission->segment_points[plan->segment_waits[segment->first_wait + w]]);
        if (run->direct_count) rota_deliver_segment(runtime, wanted, submission, s, point, &direct);
        if (run->has_arena && is_first)
            rota_wanted_add(wanted, runtime->queue_count, run->arena_points[arena]);
        rota_hazard_settle(runtime, wanted, work);
        rota_siding_note(work, parks ? &aheads[segment->part] : NULL);
        if (!is_made) rota_chain_note_making(work, run->parts[0].device);
        if (instance_hold != ROTA_POINT_NONE && is_first) add_hold(submission, work, instance_hold);
        if (work->wait_count | work->hold_count) rota_chain_note(runtime, wanted, work);
        started[device->index] |= (uint64_t)1 << segment->queue;
    }
    if (!known) place_written(submission);
    rota_replay_end(runtime, run, base, timelines, known, notes, submission->transfer_count != 0 || parking);
    submission->parked = parking != 0;
    if (parking) {
        ra_store_relaxed(&run->parked, ra_load_relaxed(&run->parked) + 1);
        runtime->parked++;
    }
    *out_final = submission->segment_points[plan->final_segment];
    if (run->has_arena) run->arena_points[arena] = *out_final;
    run->instances[submission->instance].last_point = *out_final;
    run->last_point = *out_final;
    run->unreaped++;
}

/* ---- Prepared, by a submit thread ---- */

static void inputs_taken(rota_runtime *runtime, rota_submission *submission, uint32_t count) {
    if (count == 0 || ra_fetch_sub_acq_rel(&submission->inputs_left, count) != count) return;
    (void)ra_fetch_or_seq_cst(&submission->cell->state,
                              (uint32_t)ROTA_CELL_TAKEN); /* seq_cst: as base/sleep.h argues */
    rota_wait_table_wake(&runtime->hosted_waiters, 1);
}

static bool outputs_are_copied(void *user) {
    const rota_submission *submission = user;
    const rota_plan_run *run = submission->plan->run;
    return ra_load_seq_cst(
               &run->instances[submission->instance].outputs_copied) >= /* with give_staging_back */
           submission->outputs_before;
}

/* An instance's staging memory is written again only when the completer has taken the outputs out of it (P1).
 */
static rota_status wait_for_outputs(rota_runtime *runtime, rota_submission *submission) {
    uint64_t deadline = rota_deadline_after(runtime->options.timeout_ns);
    while (!outputs_are_copied(submission)) {
        uint64_t now = rota_clock_ns();
        if (now >= deadline || ra_load_acquire(&runtime->stop))
            return rota_fail(ROTA_TIMEOUT, "plan '%s': the outputs of an earlier replay were not taken",
                             submission->plan->name);
        rota_wait_table_sleep(&runtime->hosted_waiters, 1, outputs_are_copied, submission,
                              now + OUTPUTS_SLICE_NS);
    }
    return ROTA_OK;
}

rota_status rota_kind_plan_prepare(rota_work *work, rota_exec_work *out) {
    rota_submission *submission = work->submission;
    rota_plan *plan = submission->plan;
    rota_plan_run *run = plan->run;
    const rota_plan_segment *segment = &plan->segments[work->segment];
    const rota_run_instance *instance = &run->instances[submission->instance];
    if (!ra_load_acquire(&instance->created)) { /* with rota_run_instance_make */
        /* Acquire: with answer, of this failure or of one after it. */
        const rota_cause *failure = ra_load_acquire(&instance->failure);
        return rota_fail(failure->status, "%s", failure->message);
    }
    if (run->has_staging) {
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
                   (const void *)(uintptr_t)submission->payload[plan->word_count + t],
                   plan->buffers[transfer->buffer].buffer->size_bytes);
        }
        if (run->stages_inputs) inputs_taken(work->device->runtime, submission, taken);
        rota_device_end_filling(work->device);
    }
    out->instance = instance->parts[segment->part];
    out->segment = segment->index;
    out->block = plan->word_count ? submission->payload : NULL;
    return ROTA_OK;
}
