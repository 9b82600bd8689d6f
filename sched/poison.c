/* Errors that travel (P9): failed ranges of buffers, with the first cause.
 *
 * One rule: a work is judged when all that it comes after is decided, and before anybody can take it for
 * done. Marks of failed writers are in place by then. Who judges:
 *
 * - executors that can leave out single nodes ask before each one, when its turn has come;
 * - for the others the hand-over does, of whole segments, as nothing undecided is before them;
 * - of works behind a gate (their device waits on the GPU for another one, or works before them do) the gate
 *   does when it lets them out: by then they have run, in vain where what they read had failed.
 *
 * A mark carries the turn of what should have written the range. Later turns are affected, earlier ones still
 * running are not, so a mark may be set before its own turn. Success of a node heals marks of its own and
 * earlier turns where it wrote every byte. A buffer that several devices have a copy of is marked by copy:
 * two segments of a plan may write it in memories of their own, in any order, and a move takes marks along.
 *
 * Behind one mutex: only rota's and executors' threads come here, and only while something has failed. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime_internal.h"
#include "sched/submission.h"

/* ---- The marks; with the mutex held ---- */

static rota_mark *mark_new(rota_runtime *runtime) {
    rota_mark *mark = malloc(sizeof *mark);
    if (mark) return mark;
    if ((mark = runtime->poison_spare)) {
        runtime->poison_spare = mark->left;
        return mark;
    }
    if (runtime->poison_reserve_used == ROTA_POISON_RESERVE) return NULL;
    return &runtime->poison_reserve[runtime->poison_reserve_used++];
}

static void mark_free(rota_runtime *runtime, rota_mark *mark) {
    uintptr_t first = (uintptr_t)runtime->poison_reserve;
    if ((uintptr_t)mark - first >= sizeof runtime->poison_reserve) {
        free(mark);
        return;
    }
    mark->left = runtime->poison_spare;
    runtime->poison_spare = mark;
}

static bool add(rota_runtime *runtime, const rota_place *where, rota_moment turn, rota_reason reason) {
    rota_mark *mark = mark_new(runtime);
    if (!mark) return false;
    *mark = (rota_mark){.place = *where, .turn = turn, .reason = reason};
    rota_marks_put(&runtime->poisons, mark);
    (void)ra_fetch_add_acq_rel(&runtime->poison_active, 1);
    return true;
}

/* A range that can't be marked: nobody knows any more which ones are good, so that whatever later submissions
 * read has failed, until the runtime closes. (A mark of a whole buffer instead would be healed by overwriting
 * the range of an earlier submission's mark alone, unless it kept both numbers; that is not worth it.) */
static void lose(rota_runtime *runtime, uint64_t number, rota_reason reason) {
    if (!runtime->poison_lost.cause) {
        (void)rota_reason_fail(ROTA_OUT_OF_MEMORY, reason);
        runtime->poison_lost.number = number;
        runtime->poison_lost.cause = rota_cause_new(
            runtime, ROTA_OUT_OF_MEMORY,
            "no host memory to note which bytes failed: what is read after submission " ROTA_CAUSE_NUMBER
            " counts as failed; %s",
            rota_last_error());
        runtime->poison_lost_number = number;
        (void)ra_fetch_add_acq_rel(&runtime->poison_active, 1);
    } else if (number < runtime->poison_lost_number) {
        runtime->poison_lost_number = number;
    }
}

static void remove_all(rota_runtime *runtime, rota_mark *list) {
    while (list) {
        rota_mark *next = list->left;
        mark_free(runtime, list);
        (void)ra_fetch_sub_release(&runtime->poison_active, 1);
        list = next;
    }
}

static bool is_inside(const rota_place *place, const rota_place *where) {
    return place->begin >= where->begin && place->end <= where->end;
}

/* Cuts off what of the mark, which is not put in, lies outside the place, and puts that in. False: there was
 * no memory, and some of it is in the mark still. */
static bool cut(rota_runtime *runtime, rota_mark *mark, const rota_place *where) {
    rota_place after = mark->place, before = mark->place;
    after.begin = where->end;
    before.end = where->begin;
    if (after.begin < after.end) {
        if (!add(runtime, &after, mark->turn, mark->reason)) return false;
        mark->place.end = where->end;
    }
    if (before.begin < before.end) {
        if (!add(runtime, &before, mark->turn, mark->reason)) return false;
        mark->place.begin = where->begin;
    }
    return true;
}

/* Takes the place out of a mark that is not put in, and puts in what is left. False: nothing is. */
static bool reduce(rota_runtime *runtime, rota_mark *mark, const rota_place *where) {
    const rota_places others = mark->place.copies & ~where->copies;
    if (others) { /* a failed cut leaves the mark whole: it stays failed, which is more than need be */
        if (cut(runtime, mark, where)) mark->place.copies = others;
    } else if (is_inside(&mark->place, where)) {
        return false;
    } else if (mark->place.begin >= where->begin) {
        mark->place.begin = where->end;
    } else if (mark->place.end <= where->end) {
        mark->place.end = where->begin;
    } else {
        rota_place after = mark->place;
        after.begin = where->end;
        if (add(runtime, &after, mark->turn, mark->reason)) mark->place.end = where->begin;
    }
    rota_marks_put(&runtime->poisons, mark);
    return true;
}

/* Removes the place from all marks up to that turn. */
static void heal(rota_runtime *runtime, const rota_place *where, rota_moment up_to) {
    rota_mark *list = rota_marks_take(&runtime->poisons, where, up_to);
    rota_mark *healed = NULL;
    while (list) {
        rota_mark *mark = list;
        list = mark->left;
        if (reduce(runtime, mark, where)) continue;
        mark->left = healed;
        healed = mark;
    }
    remove_all(runtime, healed);
}

/* `early`: the turn has not come, so older marks stay. */
static void mark(rota_runtime *runtime, const rota_place *where, rota_moment turn, rota_reason reason,
                 bool early) {
    /* Whoever could still read an older mark has run by the time this range is written. */
    if (!early) heal(runtime, where, turn);
    if (!rota_marks_cover(runtime->poisons, where, turn) && !add(runtime, where, turn, reason))
        lose(runtime, turn.number, reason);
}

static bool find(rota_runtime *runtime, const rota_place *where, rota_moment up_to, rota_reason *out_reason) {
    const rota_mark *oldest = rota_marks_oldest(runtime->poisons, where, up_to);
    if (oldest)
        *out_reason = oldest->reason;
    else if (runtime->poison_lost.cause && runtime->poison_lost_number < up_to.number)
        *out_reason = runtime->poison_lost;
    else
        return false;
    return true;
}

/* The bytes of one place are moved to another of that size: they are as good or bad there. */
static void carry(rota_runtime *runtime, const rota_place *from, const rota_place *to, rota_moment turn) {
    heal(runtime, to, turn);
    rota_mark *list = rota_marks_take(&runtime->poisons, from, turn);
    while (list) {
        rota_mark *moved = list;
        list = moved->left;
        rota_place part = *to;
        if (moved->place.begin > from->begin) part.begin += moved->place.begin - from->begin;
        if (moved->place.end < from->end) part.end -= from->end - moved->place.end;
        const rota_reason reason = moved->reason;
        rota_marks_put(&runtime->poisons, moved);
        mark(runtime, &part, turn, reason, true);
    }
}

/* Of marks of the place that no unfinished submission is older than, only the newest one that covers it
 * matters: whoever is still to read or to overwrite it comes after all of them. */
static void prune(rota_runtime *runtime, const rota_place *where, uint64_t oldest) {
    rota_mark *list = rota_marks_take(&runtime->poisons, where, (rota_moment){oldest - 1, UINT32_MAX});
    const rota_mark *newest = NULL;
    for (const rota_mark *mark = list; mark; mark = mark->left)
        if (is_inside(where, &mark->place) && (mark->place.copies & where->copies) == where->copies &&
            (!newest || rota_moment_is_before(newest->turn, mark->turn)))
            newest = mark;
    rota_mark *gone = NULL;
    while (list) {
        rota_mark *mark = list;
        list = mark->left;
        if (newest && rota_moment_is_before(mark->turn, newest->turn) && is_inside(&mark->place, where)) {
            mark->left = gone;
            gone = mark;
        } else {
            rota_marks_put(&runtime->poisons, mark);
        }
    }
    remove_all(runtime, gone);
}

static rota_place whole_range(const rota_buffer *root, uint64_t begin, uint64_t end) {
    return (rota_place){root, 0, 0, begin, end, ROTA_COPIES_ALL};
}

void rota_poison_mark(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                      uint64_t number, rota_reason reason, uint64_t oldest) {
    rota_place where = whole_range(root, begin, end);
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    if (oldest < number)
        prune(runtime, &where, oldest);
    else
        heal(runtime, &where, (rota_moment){number - 1, UINT32_MAX});
    mark(runtime, &where, (rota_moment){number, 0}, reason, true);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
}

bool rota_poison_find(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                      uint64_t before_number, rota_reason *out_reason) {
    if (ra_load_acquire(&runtime->poison_active) == 0) return false;
    rota_place where = whole_range(root, begin, end);
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    bool found = find(runtime, &where, (rota_moment){before_number - 1, UINT32_MAX}, out_reason);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
    return found;
}

rota_places rota_poison_copies(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                               rota_places copies) {
    rota_places failed = 0;
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    for (; copies; copies &= copies - 1) {
        rota_place where = whole_range(root, begin, end);
        where.copies = copies & -copies;
        if (rota_marks_oldest(runtime->poisons, &where, (rota_moment){UINT64_MAX, UINT32_MAX}))
            failed |= where.copies;
    }
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
    return failed;
}

void rota_poison_drop(rota_runtime *runtime, const void *of) {
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    remove_all(runtime, rota_marks_take_of(&runtime->poisons, of));
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
}

void rota_poison_all_free(rota_runtime *runtime) {
    while (runtime->poisons)
        remove_all(runtime, rota_marks_take_of(&runtime->poisons, runtime->poisons->place.of));
    if (runtime->poison_lost.cause) (void)ra_fetch_sub_release(&runtime->poison_active, 1);
    runtime->poison_lost.cause = NULL;
    runtime->poison_spare = NULL;
    runtime->poison_reserve_used = 0;
}

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
    if (mode != ROTA_READ) mark(runtime, where, turn_of(work), *(const rota_reason *)reason, false);
    return false;
}

static bool mark_early(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                       void *reason) {
    if (mode != ROTA_READ) mark(runtime, where, turn_of(work), *(const rota_reason *)reason, true);
    return false;
}

static bool find_read(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                      void *out_reason) {
    return mode != ROTA_WRITE && find(runtime, where, turn_of(work), out_reason);
}

static bool heal_written(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                         void *user) {
    (void)user;
    if (mode == ROTA_WRITE) heal(runtime, where, turn_of(work));
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
        carry(runtime, &from, &to, turn_of(work));
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
    carry(runtime, &from, &to, turn_of(work));
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
        mark(runtime, &where, turn_of(move_in), (rota_reason){cause, 0}, true);
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

void rota_poison_end(rota_runtime *runtime, rota_submission *submission) {
    const rota_moment before = {submission->number - 1, UINT32_MAX};
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    remove_all(runtime, rota_marks_take_of(&runtime->poisons, submission));
    /* In copies that it did not write these bytes are none that anybody could still read. Unlike a plan's own
     * buffers, what was bound to its slots, or was written by the host, may be gone: its last use has passed.
     * It is but compared with what marks name, and those of another buffer in its place are of later
     * submissions. */
    if (submission->kind == ROTA_RECORD_PLAN) {
        const rota_plan *plan = submission->plan;
        for (uint32_t e = 0; e < plan->external_count; e++) {
            const rota_plan_external *external = &plan->externals[e];
            if (!(external->flags & ROTA_EXTERNAL_WRITE)) continue;
            uint64_t begin;
            const rota_buffer *root = rota_submission_root(submission, external, &begin);
            rota_place where = whole_range(root, begin, begin + external->size_bytes);
            heal(runtime, &where, before);
        }
    } else if (submission->kind == ROTA_RECORD_WRITE) {
        const rota_host_write *write = &submission->write;
        rota_place where = whole_range(write->buffer, write->offset, write->offset + write->size);
        heal(runtime, &where, before);
    }
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
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
