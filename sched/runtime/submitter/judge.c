/* Errors that travel (P9): works are judged by which ranges failed (failed_ranges.c).
 *
 * One rule: a work is judged when all that it comes after is decided, and before anybody can take it for
 * done. Marks of failed writers are in place by then. Who judges:
 *
 * - executors that can leave out single nodes ask before each one, when its turn has come;
 * - for the others the hand-over does, of whole segments, as nothing undecided is before them;
 * - of works behind a gate (their device waits on the GPU for another one, or works before them do) the gate
 *   does when it lets them out: by then they have run, in vain where what they read had failed. */
#include <stdlib.h>

#include "sched/runtime/kinds/read.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime_internal.h"
#include "sched/submission.h"

/* ---- Operands ---- */

static rota_moment turn_of(const rota_work *work) {
    return (rota_moment){work->submission->number, work->kind == ROTA_WORK_SEGMENT ? work->segment + 1 : 0};
}

static rota_place copy_place(const rota_residency *residency, const rota_device *device, uint64_t offset,
                             uint64_t size) {
    return (rota_place){
        residency->buffer, 0, 0, offset, offset + size, rota_residency_bit(residency, device)};
}

static int compare_nodes(const void *a, const void *b) {
    const rota_exec_command *const *left = a, *const *right = b;
    return (*left)->node < (*right)->node ? -1 : (*left)->node > (*right)->node;
}

/* The part's commands by node; NULL without memory. */
static const rota_exec_command **commands_by_node(const rota_plan_part *part, rota_run_part *run_part) {
    if (run_part->by_node || part->desc.command_count == 0) return run_part->by_node;
    const rota_exec_command **sorted = malloc(part->desc.command_count * sizeof *sorted);
    if (!sorted) return NULL;
    for (uint32_t c = 0; c < part->desc.command_count; c++) sorted[c] = &part->desc.commands[c];
    qsort(sorted, part->desc.command_count, sizeof *sorted, compare_nodes);
    run_part->by_node = sorted;
    return sorted;
}

/* The part's commands by node, or NULL, and where in them to begin to look for this one. */
static const rota_exec_command **find_commands(const rota_plan_part *part, uint32_t part_index, uint32_t node,
                                               uint32_t *out_first) {
    const rota_exec_command **commands = commands_by_node(part, &part->plan->run->parts[part_index]);
    uint32_t low = 0, high = commands ? part->desc.command_count : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (commands[middle]->node < node)
            low = middle + 1;
        else
            high = middle;
    }
    *out_first = low;
    return commands;
}

/* Where an operand's bytes are. False: host memory of the caller's, or contents of an INPUT. */
static bool operand_place(const rota_submission *submission, uint32_t part_index,
                          const rota_exec_operand *operand, rota_place *out) {
    const rota_plan *plan = submission->plan;
    const rota_plan_part *part = &plan->parts[part_index];
    if (operand->is_slot) {
        const rota_plan_word *word = &plan->words[operand->memory];
        if (word->kind != ROTA_WORD_BUFFER) return false;
        const uint64_t *bound = rota_submission_bound(submission, plan->run->slot_of_buffer[word->index]);
        const rota_buffer *root = (const rota_buffer *)(uintptr_t)bound[0];
        *out =
            copy_place(root->residency, part->device, bound[1] + operand->offset_bytes, operand->size_bytes);
        return true;
    }
    const rota_plan_memory *memory = &part->memories[operand->memory];
    if (memory->kind == ROTA_EXEC_BASE_PERSISTENT) {
        *out = copy_place(plan->buffers[memory->buffer].buffer->residency, part->device,
                          operand->offset_bytes, operand->size_bytes);
        return true;
    }
    const bool own = memory->foreign_part == ROTA_NONE;
    *out = (rota_place){submission,
                        own ? part_index : memory->foreign_part,
                        own ? operand->memory : memory->foreign_memory,
                        operand->offset_bytes,
                        operand->offset_bytes + operand->size_bytes,
                        ROTA_COPIES_ALL};
    return true;
}

typedef bool (*operand_fn)(rota_runtime *runtime, const rota_work *work, const rota_place *where,
                           uint8_t mode, void *user);

/* Stops at true, as for_operands. */
static bool for_command(rota_runtime *runtime, const rota_work *work, uint32_t part_index,
                        const rota_exec_command *command, operand_fn fn, void *user) {
    const rota_exec_operand *operands = work->submission->plan->parts[part_index].desc.operands;
    for (uint32_t o = 0; o < command->operand_count; o++) {
        const rota_exec_operand *operand = &operands[command->first_operand + o];
        rota_place where;
        if (operand_place(work->submission, part_index, operand, &where) &&
            fn(runtime, work, &where, operand->mode, user))
            return true;
    }
    return false;
}

/* Calls fn for each operand of the work's commands of this node, or for each extent of a host read or write.
 * Stops at true. */
static bool for_operands(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                         operand_fn fn, void *user) {
    const rota_submission *submission = work->submission;
    if (!owner) {
        if (work->kind == ROTA_WORK_READ) {
            uint32_t count;
            const rota_extent *extents = rota_host_read_extents(work, &count);
            for (uint32_t e = 0; e < count; e++) {
                rota_place where =
                    copy_place(submission->read->residency, work->device, extents[e].offset, extents[e].size);
                if (fn(runtime, work, &where, ROTA_READ, user)) return true;
            }
            return false;
        }
        if (work->kind == ROTA_WORK_WRITE) {
            const rota_host_write *write = &submission->write;
            rota_place where = copy_place(write->residency, work->device, write->offset, write->size);
            return fn(runtime, work, &where, ROTA_WRITE, user);
        }
        return false; /* moves carry the marks along */
    }
    const rota_plan_part *part = owner;
    uint32_t part_index = (uint32_t)(part - submission->plan->parts), at;
    const rota_exec_command **commands = find_commands(part, part_index, node, &at);
    for (; at < part->desc.command_count; at++) {
        /* Without memory for the sorted ones each is looked at. */
        const rota_exec_command *command = commands ? commands[at] : &part->desc.commands[at];
        if (commands && command->node != node) break;
        if (command->node == node && for_command(runtime, work, part_index, command, fn, user)) return true;
    }
    return false;
}

static bool mark_written(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                         void *reason) {
    if (mode != ROTA_READ)
        rota_failed_ranges_mark(runtime, where, turn_of(work), *(const rota_reason *)reason, false);
    return false;
}

static bool mark_early(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                       void *reason) {
    if (mode != ROTA_READ)
        rota_failed_ranges_mark(runtime, where, turn_of(work), *(const rota_reason *)reason, true);
    return false;
}

static bool find_read(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                      void *out_reason) {
    return mode != ROTA_WRITE && rota_failed_ranges_find(runtime, where, turn_of(work), out_reason);
}

static bool heal_written(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                         void *user) {
    (void)user;
    if (mode == ROTA_WRITE) rota_failed_ranges_heal(runtime, where, turn_of(work));
    return false;
}

/* A copy that rota inserted between devices is no node: bytes move whether they are good or not, and marks
 * with them. False: the command is another one. */
static bool carry_command(rota_runtime *runtime, const rota_work *work, uint32_t part_index,
                          const rota_exec_command *command) {
    const rota_plan *plan = work->submission->plan;
    if (!rota_plan_is_transfer(plan, command->node)) return false;
    const rota_exec_operand *operands = &plan->parts[part_index].desc.operands[command->first_operand];
    rota_place to, from;
    if (operand_place(work->submission, part_index, &operands[0], &to) &&
        operand_place(work->submission, part_index, &operands[1], &from))
        rota_failed_ranges_carry(runtime, &from, &to, turn_of(work));
    return true;
}

static bool carry_node(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node) {
    if (!owner || !rota_plan_is_transfer(work->submission->plan, node)) return false;
    const rota_plan_part *part = owner;
    uint32_t part_index = (uint32_t)(part - work->submission->plan->parts), at;
    const rota_exec_command **commands = find_commands(part, part_index, node, &at);
    while (!commands && part->desc.commands[at].node != node) at++;
    return carry_command(runtime, work, part_index, commands ? commands[at] : &part->desc.commands[at]);
}

/* ---- Works ---- */

static rota_place external_place(const rota_work *work, const rota_plan_external *external) {
    uint64_t begin;
    const rota_residency *residency = rota_submission_external(work->submission, external, &begin);
    return copy_place(residency, work->device, begin, external->size_bytes);
}

/* As for_operands, of what a segment touches that others can see: of a plan's only segment that is what lies
 * outside the plan, of others all that their commands do, in order. */
static bool for_segment(rota_runtime *runtime, const rota_work *work, operand_fn before, operand_fn after,
                        void *user) {
    const rota_plan *plan = work->submission->plan;
    const rota_plan_segment *segment = &plan->segments[work->segment];
    if (plan->segment_count > 1) {
        const rota_plan_part *part = &plan->parts[segment->part];
        const rota_exec_segment *commands = &part->desc.segments[segment->index];
        for (uint32_t c = 0; c < commands->command_count; c++) {
            const rota_exec_command *command = &part->desc.commands[commands->first_command + c];
            if (before && carry_command(runtime, work, segment->part, command)) continue;
            if ((before && for_command(runtime, work, segment->part, command, before, user)) ||
                (after && for_command(runtime, work, segment->part, command, after, user)))
                return true;
        }
        return false;
    }
    const rota_plan_external *externals = &plan->externals[segment->first_external];
    for (uint32_t e = 0; before && e < segment->external_count; e++) {
        rota_place where = external_place(work, &externals[e]);
        if (externals[e].flags & ROTA_EXTERNAL_INCOMING && before(runtime, work, &where, ROTA_READ, user))
            return true;
    }
    for (uint32_t e = 0; after && e < segment->external_count; e++) {
        rota_place where = external_place(work, &externals[e]);
        if (externals[e].flags & ROTA_EXTERNAL_WRITE && after(runtime, work, &where, ROTA_WRITE, user))
            return true;
    }
    return false;
}

static void carry_moved(rota_runtime *runtime, const rota_work *work) {
    const rota_transfer *move = &work->submission->transfers[work->segment];
    rota_place from = copy_place(move->residency, runtime->devices[move->from], move->offset, move->size);
    rota_place to = copy_place(move->residency, work->device, move->offset, move->size);
    rota_failed_ranges_carry(runtime, &from, &to, turn_of(work));
}

void rota_poison_work(rota_work *work, rota_reason reason, bool first) {
    rota_submission *submission = work->submission;
    rota_runtime *runtime = work->device->runtime;
    rota_submission_fail(runtime, submission, reason, first);
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    if (work->kind == ROTA_WORK_SEGMENT) {
        (void)for_segment(runtime, work, NULL, mark_early, &reason);
    } else if (work->kind == ROTA_WORK_MIGRATE_IN) {
        /* The bytes did not arrive: their copy here is not to be trusted, though it is marked valid. */
        const rota_transfer *move = &submission->transfers[work->segment];
        rota_place where = copy_place(move->residency, work->device, move->offset, move->size);
        (void)mark_early(runtime, work, &where, ROTA_WRITE, &reason);
    } else {
        (void)for_operands(runtime, work, NULL, 0, mark_early, &reason);
    }
    /* Under the lock: not between a judgement and what it heals. Release: with must_skip. */
    ra_store_release(&work->failed, 1);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
}

/* Why the point will never pass, or NULL. */
static const rota_cause *cause_of_loss(rota_runtime *runtime, uint64_t point) {
    const rota_device *device = runtime->devices[rota_point_device(point)];
    const bool is_lost = rota_device_is_lost(device); /* first: then what was reached before is seen */
    return is_lost && !rota_point_passed(runtime, point) ? ra_load_acquire(&device->lost_cause) : NULL;
}

/* A move stands for the writer of what it brings. Of one that is lost nothing else says that it did not write
 * its own memory. What is in others was written before, or whoever was to write it has marked it by now: all
 * that the lost one came after is over, and where that one stood for another itself, it has marked that one's
 * memory when it was dropped. */
static void mark_unwritten(rota_runtime *runtime, const rota_work *move_in) {
    const rota_submission *submission = move_in->submission;
    const rota_transfer *move = &submission->transfers[move_in->segment];
    for (uint32_t i = 0; i < move->unwritten_count; i++) {
        const rota_unwritten *unwritten = &submission->unwritten[move->first_unwritten + i];
        const rota_cause *cause = cause_of_loss(runtime, unwritten->writer);
        if (!cause) continue;
        const rota_place where =
            copy_place(move->residency, runtime->devices[rota_point_device(unwritten->writer)],
                       unwritten->begin, unwritten->end - unwritten->begin);
        rota_failed_ranges_mark(runtime, &where, turn_of(move_in), (rota_reason){cause, 0}, true);
    }
}

/* A segment that copies what another part wrote stands for that one's, which is before it. All that lost
 * devices left of what is before it is marked, each work once for them: a submission may have many, all of
 * which are in vain. */
static void mark_undone(rota_runtime *runtime, const rota_work *segment) {
    rota_submission *submission = segment->submission;
    const rota_plan *plan = submission->plan;
    uint64_t lost = 0;
    for (uint32_t p = 0; p < plan->part_count; p++)
        if (rota_device_is_lost(plan->parts[p].device)) lost |= (uint64_t)1 << plan->parts[p].device->index;
    if (lost != submission->undone) submission->undone_to = 0;
    submission->undone = lost;
    for (const rota_work *work = submission->works + submission->undone_to; work < segment; work++) {
        submission->undone_to++;
        if (work->kind != ROTA_WORK_SEGMENT || !(lost >> work->device->index & 1u)) continue;
        rota_reason reason = {cause_of_loss(runtime, rota_work_point(work)), 0};
        if (reason.cause) (void)for_segment(runtime, work, NULL, mark_early, &reason);
    }
}

void rota_poison_undone(const rota_work *work) {
    rota_runtime *runtime = work->device->runtime;
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    if (work->kind == ROTA_WORK_MIGRATE_IN)
        mark_unwritten(runtime, work);
    else if (work->kind == ROTA_WORK_SEGMENT && work->submission->plan->part_count > 1)
        mark_undone(runtime, work);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
}

bool rota_poison_of_work(rota_work *work, rota_reason *out_reason) {
    rota_runtime *runtime = work->device->runtime;
    if (ra_load_acquire(&runtime->poison_active) == 0) return false;
    bool failed = false;
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    if (ra_load_relaxed(&work->failed)) {
        /* It has marked what it was to write. */
    } else if (work->kind == ROTA_WORK_SEGMENT) {
        failed = for_segment(runtime, work, find_read, heal_written, out_reason);
    } else if (work->kind == ROTA_WORK_MIGRATE_IN) {
        carry_moved(runtime, work);
    } else {
        failed = for_operands(runtime, work, NULL, 0, find_read, out_reason);
        (void)for_operands(runtime, work, NULL, 0, heal_written, NULL);
    }
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
    return failed;
}

/* ---- Calls of executors ---- */

void rota_poison_failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                        const char *message) {
    rota_device *device = user;
    rota_runtime *runtime = device->runtime;
    rota_work *work = cookie;
    if (!work || ra_load_relaxed(&device->closed)) return;
    rota_submission *submission = work->submission;
    rota_reason reason = {NULL, submission->number};
    reason.cause =
        owner ? rota_cause_new(runtime, status == ROTA_DEVICE_LOST ? status : ROTA_NODE_FAILED,
                               "plan '%s', submission " ROTA_CAUSE_NUMBER ", node '%s' failed with %s: %s",
                               submission->plan->name, rota_plan_node_name(owner, node),
                               rota_status_name(status), message)
              : rota_cause_new(runtime, status, "submission " ROTA_CAUSE_NUMBER ", a copy on '%s' failed: %s",
                               device->id, message);
    if (work->gated) { /* is judged as a whole */
        rota_poison_work(work, reason, true);
        return;
    }
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    (void)for_operands(runtime, work, owner, node, mark_written, &reason);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
    rota_submission_fail(runtime, submission, reason, true);
}

bool rota_poison_must_skip(void *user, void *cookie, const void *owner, uint32_t node) {
    rota_device *device = user;
    rota_runtime *runtime = device->runtime;
    rota_work *work = cookie;
    if (!work || ra_load_relaxed(&device->closed)) return false;
    if (ra_load_acquire(&work->failed)) return true; /* marks what it was to write, all of it */
    if (work->gated) return false;
    rota_reason reason;
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    const bool moves = carry_node(runtime, work, owner, node);
    const bool found = !moves && for_operands(runtime, work, owner, node, find_read, &reason);
    if (found) (void)for_operands(runtime, work, owner, node, mark_written, &reason);
    if (work->kind == ROTA_WORK_MIGRATE_IN) carry_moved(runtime, work);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
    if (found) rota_submission_fail(runtime, work->submission, reason, false);
    return found;
}

void rota_poison_succeeded(void *user, void *cookie, const void *owner, uint32_t node) {
    rota_device *device = user;
    rota_work *work = cookie;
    if (!work || ra_load_relaxed(&device->closed) || work->gated || ra_load_acquire(&work->failed)) return;
    if (owner && rota_plan_is_transfer(work->submission->plan, node)) return; /* carried */
    (void)pthread_mutex_lock(&device->runtime->poison_mutex);
    (void)for_operands(device->runtime, work, owner, node, heal_written, NULL);
    (void)pthread_mutex_unlock(&device->runtime->poison_mutex);
}
