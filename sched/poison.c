/* Errors that travel (P9): failed ranges of buffers, with the first cause.
 *
 * A mark carries the number of the submission that should have written the range. Later submissions are
 * affected, earlier ones still running are not, so a mark may be set before its submission's turn. Success of
 * a node heals marks of its own and earlier submissions where it wrote every byte. Behind one mutex: only
 * rota's and executors' threads come here, and only while something has failed. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime_internal.h"

void rota_submission_fail(rota_runtime *runtime, rota_submission *submission, const rota_cause *cause,
                          bool first) {
    const rota_cause *none = NULL;
    if (!ra_cas_acq_rel(&submission->cause, &none, cause)) return;
    rota_status status =
        first && cause->status != ROTA_UNDEFINED_DATA ? cause->status : rota_cause_inherited(cause);
    rota_ticket_set_failed(runtime, submission->cell, submission->ticket_id, status, cause);
}

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

static bool add(rota_runtime *runtime, const rota_place *where, uint64_t number, const rota_cause *cause) {
    rota_mark *mark = mark_new(runtime);
    if (!mark) return false;
    *mark = (rota_mark){.place = *where, .number = number, .cause = cause};
    rota_marks_put(&runtime->poisons, mark);
    (void)ra_fetch_add_acq_rel(&runtime->poison_active, 1);
    return true;
}

/* A range that can't be marked: nobody knows any more which ones are good, so that whatever later submissions
 * read has failed, until the runtime closes. (A mark of a whole buffer instead would be healed by overwriting
 * the range of an earlier submission's mark alone, unless it kept both numbers; that is not worth it.) */
static void lose(rota_runtime *runtime, uint64_t number, const rota_cause *cause) {
    if (!runtime->poison_lost) {
        runtime->poison_lost = rota_cause_new(runtime, ROTA_OUT_OF_MEMORY,
                                              "no host memory to note which bytes failed: what is read after "
                                              "submission %llu counts as failed; %s",
                                              (unsigned long long)number, cause->message);
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

/* Removes [begin, end) from all marks of submissions up to `number`. */
static void heal(rota_runtime *runtime, const rota_place *where, uint64_t number) {
    rota_mark *list = rota_marks_take(&runtime->poisons, where, number);
    rota_mark *healed = NULL;
    while (list) {
        rota_mark *mark = list;
        list = mark->left;
        rota_place after = mark->place;
        after.begin = where->end;
        if (mark->place.begin >= where->begin && mark->place.end <= where->end) {
            mark->left = healed;
            healed = mark;
            continue;
        }
        if (mark->place.begin >= where->begin)
            mark->place.begin = where->end;
        else if (mark->place.end <= where->end)
            mark->place.end = where->begin;
        else if (add(runtime, &after, mark->number, mark->cause))
            mark->place.end = where->begin; /* without memory for two pieces it stays failed as a whole */
        rota_marks_put(&runtime->poisons, mark);
    }
    remove_all(runtime, healed);
}

static void mark(rota_runtime *runtime, const rota_place *where, uint64_t number, const rota_cause *cause,
                 bool early) {
    /* Whoever could still read an older mark has run by the time this range is written. */
    if (!early) heal(runtime, where, number);
    if (!rota_marks_cover(runtime->poisons, where, number) && !add(runtime, where, number, cause))
        lose(runtime, number, cause);
}

static const rota_cause *find(rota_runtime *runtime, const rota_place *where, uint64_t before) {
    const rota_mark *oldest = rota_marks_oldest(runtime->poisons, where, before);
    if (oldest) return oldest->cause;
    return runtime->poison_lost && runtime->poison_lost_number < before ? runtime->poison_lost : NULL;
}

void rota_poison_mark(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                      uint64_t number, const rota_cause *cause, bool early) {
    rota_place where = {root, 0, 0, begin, end};
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    mark(runtime, &where, number, cause, early);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
}

void rota_poison_heal(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                      uint64_t number) {
    rota_place where = {root, 0, 0, begin, end};
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    heal(runtime, &where, number);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
}

const rota_cause *rota_poison_find(rota_runtime *runtime, const rota_buffer *root, uint64_t begin,
                                   uint64_t end, uint64_t before_number) {
    if (ra_load_acquire(&runtime->poison_active) == 0) return NULL;
    rota_place where = {root, 0, 0, begin, end};
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    const rota_cause *cause = find(runtime, &where, before_number);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
    return cause;
}

void rota_poison_drop(rota_runtime *runtime, const void *of) {
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    remove_all(runtime, rota_marks_take_of(&runtime->poisons, of));
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
}

void rota_poison_all_free(rota_runtime *runtime) {
    while (runtime->poisons)
        remove_all(runtime, rota_marks_take_of(&runtime->poisons, runtime->poisons->place.of));
    if (runtime->poison_lost) (void)ra_fetch_sub_release(&runtime->poison_active, 1);
    runtime->poison_lost = NULL;
    runtime->poison_spare = NULL;
    runtime->poison_reserve_used = 0;
}

/* ---- Works ---- */

void rota_poison_work(rota_work *work, const rota_cause *cause, bool first) {
    rota_submission *submission = work->submission;
    rota_runtime *runtime = work->device->runtime;
    rota_submission_fail(runtime, submission, cause, first);
    /* With the loads below and in rota_poison_must_skip, which then find the cause. */
    ra_store_release(&submission->poisoned, 1);
    cause = ra_load_acquire(&submission->cause);
    if (work->kind == ROTA_WORK_WRITE) {
        rota_host_write *write = &submission->write;
        rota_poison_mark(runtime, write->residency->buffer, write->offset, write->offset + write->size,
                         submission->number, cause, true);
    } else if (work->kind == ROTA_WORK_MIGRATE_IN) {
        /* The bytes did not arrive: their copy here is not to be trusted, though it is marked valid. */
        rota_transfer *move = &submission->transfers[work->segment];
        rota_poison_mark(runtime, move->residency->buffer, move->offset, move->offset + move->size,
                         submission->number, cause, true);
    } else if (work->kind == ROTA_WORK_SEGMENT) {
        const rota_plan_segment *segment = &submission->plan->segments[work->segment];
        for (uint32_t e = 0; e < segment->external_count; e++) {
            const rota_plan_external *external = &submission->plan->externals[segment->first_external + e];
            if (!(external->flags & ROTA_EXTERNAL_WRITE)) continue;
            uint64_t begin;
            rota_residency *residency = rota_submission_external(submission, external, &begin);
            rota_poison_mark(runtime, residency->buffer, begin, begin + external->size_bytes,
                             submission->number, cause, true);
        }
    }
}

/* Where nothing fails a single node, all that can fail before this work has been noted by the time it is
 * handed over; and where the device waits for another one that was lost, by the time that it is looked at
 * again (gate.c). */
const rota_cause *rota_poison_of_work(rota_work *work) {
    rota_submission *submission = work->submission;
    rota_runtime *runtime = work->device->runtime;
    if (work->kind == ROTA_WORK_MIGRATE_OUT || work->kind == ROTA_WORK_MIGRATE_IN)
        return NULL; /* bytes move whether they are good or not; the marks stay on the range */
    if (ra_load_acquire(&submission->poisoned)) return ra_load_acquire(&submission->cause);
    if (ra_load_acquire(&runtime->poison_active) == 0) return NULL;
    if (work->kind == ROTA_WORK_READ) {
        uint32_t count;
        const rota_extent *extents = rota_host_read_extents(work, &count);
        const rota_cause *cause = NULL;
        for (uint32_t e = 0; e < count && !cause; e++)
            cause = rota_poison_find(runtime, submission->read->residency->buffer, extents[e].offset,
                                     extents[e].offset + extents[e].size, submission->number);
        return cause;
    }
    if (work->kind == ROTA_WORK_WRITE) {
        rota_poison_heal(runtime, submission->write.residency->buffer, submission->write.offset,
                         submission->write.offset + submission->write.size, submission->number);
        return NULL;
    }
    if (work->kind != ROTA_WORK_SEGMENT) return NULL;
    const rota_plan_segment *segment = &submission->plan->segments[work->segment];
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t e = 0; e < segment->external_count; e++) {
            const rota_plan_external *external = &submission->plan->externals[segment->first_external + e];
            uint64_t begin;
            rota_residency *residency = rota_submission_external(submission, external, &begin);
            uint64_t end = begin + external->size_bytes;
            if (pass == 0 && external->flags & ROTA_EXTERNAL_INCOMING) {
                const rota_cause *cause =
                    rota_poison_find(runtime, residency->buffer, begin, end, submission->number);
                if (cause) return cause;
            } else if (pass == 1 && external->flags & ROTA_EXTERNAL_WRITE &&
                       !(external->flags & ROTA_EXTERNAL_INCOMING)) {
                rota_poison_heal(runtime, residency->buffer, begin, end, submission->number);
            }
        }
    return NULL;
}

/* ---- Commands ---- */

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

/* Where an operand's bytes are. False: host memory of the caller's, or contents of an INPUT. */
static bool operand_place(const rota_submission *submission, uint32_t part_index,
                          const rota_exec_operand *operand, rota_place *out) {
    const rota_plan *plan = submission->plan;
    const rota_plan_part *part = &plan->parts[part_index];
    *out = (rota_place){NULL, 0, 0, operand->offset_bytes, operand->offset_bytes + operand->size_bytes};
    if (operand->is_slot) {
        const rota_plan_word *word = &plan->words[operand->memory];
        if (word->kind != ROTA_WORD_BUFFER) return false;
        uint32_t slot = plan->run->slot_of_buffer[word->index];
        const uint64_t *bound = rota_submission_bound(submission, slot);
        out->of = (const rota_buffer *)(uintptr_t)bound[0];
        out->begin += bound[1];
        out->end += bound[1];
        return true;
    }
    const rota_plan_memory *memory = &part->memories[operand->memory];
    out->of = submission;
    out->part = part_index;
    out->memory = operand->memory;
    if (memory->kind == ROTA_EXEC_BASE_PERSISTENT) {
        out->of = plan->buffers[memory->buffer].buffer;
        out->part = out->memory = 0;
    } else if (memory->foreign_part != ROTA_NONE) {
        out->part = memory->foreign_part;
        out->memory = memory->foreign_memory;
    }
    return true;
}

typedef bool (*operand_fn)(rota_runtime *runtime, const rota_work *work, const rota_place *where,
                           uint8_t mode, void *user);

/* Calls fn for each operand of the work's commands of this node, or once for a host read or write. Stops at
 * true. */
static bool for_operands(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                         operand_fn fn, void *user) {
    const rota_submission *submission = work->submission;
    if (!owner) {
        if (work->kind == ROTA_WORK_READ) {
            uint32_t count;
            const rota_extent *extents = rota_host_read_extents(work, &count);
            for (uint32_t e = 0; e < count; e++) {
                rota_place where = {submission->read->residency->buffer, 0, 0, extents[e].offset,
                                    extents[e].offset + extents[e].size};
                if (fn(runtime, work, &where, ROTA_READ, user)) return true;
            }
            return false;
        }
        if (work->kind == ROTA_WORK_WRITE) {
            const rota_host_write *write = &submission->write;
            rota_place where = {write->residency->buffer, 0, 0, write->offset, write->offset + write->size};
            return fn(runtime, work, &where, ROTA_WRITE, user);
        }
        return false; /* moves carry the marks along */
    }
    const rota_plan_part *part = owner;
    uint32_t part_index = (uint32_t)(part - submission->plan->parts);
    const rota_exec_command **commands = commands_by_node(part, &submission->plan->run->parts[part_index]);
    uint32_t low = 0, high = commands ? part->desc.command_count : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (commands[middle]->node < node)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < part->desc.command_count; low++) {
        /* Without memory for the sorted ones each is looked at. */
        const rota_exec_command *command = commands ? commands[low] : &part->desc.commands[low];
        if (commands && command->node != node) break;
        for (uint32_t o = 0; command->node == node && o < command->operand_count; o++) {
            rota_place where;
            const rota_exec_operand *operand = &part->desc.operands[command->first_operand + o];
            if (operand_place(submission, part_index, operand, &where) &&
                fn(runtime, work, &where, operand->mode, user))
                return true;
        }
    }
    return false;
}

static bool mark_written(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                         void *user) {
    if (mode != ROTA_READ) mark(runtime, where, work->submission->number, user, false);
    return false;
}

static bool find_read(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                      void *user) {
    if (mode == ROTA_WRITE) return false;
    const rota_cause **out = user;
    *out = find(runtime, where, work->submission->number + 1) /* its own too */;
    return *out != NULL;
}

static bool heal_written(rota_runtime *runtime, const rota_work *work, const rota_place *where, uint8_t mode,
                         void *user) {
    (void)user;
    if (mode == ROTA_WRITE) heal(runtime, where, work->submission->number);
    return false;
}

void rota_poison_failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                        const char *message) {
    rota_device *device = user;
    rota_runtime *runtime = device->runtime;
    rota_work *work = cookie;
    if (!work || ra_load_relaxed(&device->closed)) return;
    rota_submission *submission = work->submission;
    const rota_cause *cause =
        owner ? rota_cause_new(runtime, status == ROTA_DEVICE_LOST ? status : ROTA_NODE_FAILED,
                               "plan '%s', submission %llu, node '%s' failed with %s: %s",
                               submission->plan->name, (unsigned long long)submission->number,
                               rota_plan_node_name(owner, node), rota_status_name(status), message)
              : rota_cause_new(runtime, status, "submission %llu, a copy on '%s' failed: %s",
                               (unsigned long long)submission->number, device->id, message);
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    (void)for_operands(runtime, work, owner, node, mark_written, (void *)(uintptr_t)cause);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
    rota_submission_fail(runtime, submission, cause, true);
}

bool rota_poison_must_skip(void *user, void *cookie, const void *owner, uint32_t node) {
    rota_device *device = user;
    rota_runtime *runtime = device->runtime;
    rota_work *work = cookie;
    if (!work || ra_load_relaxed(&device->closed)) return false;
    rota_submission *submission = work->submission;
    const rota_cause *cause = NULL;
    (void)pthread_mutex_lock(&runtime->poison_mutex);
    /* Of a submission that was skipped elsewhere the rest is skipped too: its marks on transients are not
     * kept. */
    if (ra_load_acquire(&submission->poisoned))
        cause = ra_load_acquire(&submission->cause);
    else
        (void)for_operands(runtime, work, owner, node, find_read, &cause);
    if (cause) (void)for_operands(runtime, work, owner, node, mark_written, (void *)(uintptr_t)cause);
    (void)pthread_mutex_unlock(&runtime->poison_mutex);
    if (cause) rota_submission_fail(runtime, submission, cause, false);
    return cause != NULL;
}

void rota_poison_succeeded(void *user, void *cookie, const void *owner, uint32_t node) {
    rota_device *device = user;
    if (!cookie || ra_load_relaxed(&device->closed)) return;
    (void)pthread_mutex_lock(&device->runtime->poison_mutex);
    (void)for_operands(device->runtime, cookie, owner, node, heal_written, NULL);
    (void)pthread_mutex_unlock(&device->runtime->poison_mutex);
}
