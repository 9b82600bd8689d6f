/* Failed ranges of buffers, with the first cause: a mark for each.
 *
 * A mark carries the turn of what should have written the range. Later turns are affected, earlier ones still
 * running are not, so a mark may be set before its own turn. Success of a node heals marks of its own and
 * earlier turns where it wrote every byte. A buffer that several devices have a copy of is marked by copy:
 * two segments of a plan may write it in memories of their own, in any order, and a move takes marks along.
 *
 * Behind one mutex: only rota's and executors' threads come here, and only while something has failed. */
#include <stdlib.h>

#include "base/atomic.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"

static rota_mark *mark_new(rota_runtime *runtime) {
    rota_mark *mark = malloc(sizeof *mark);
    if (mark) return mark;
    if ((mark = runtime->failed.spare)) {
        runtime->failed.spare = mark->left;
        return mark;
    }
    if (runtime->failed.reserve_used == ROTA_POISON_RESERVE) return NULL;
    return &runtime->failed.reserve[runtime->failed.reserve_used++];
}

static void mark_free(rota_runtime *runtime, rota_mark *mark) {
    uintptr_t first = (uintptr_t)runtime->failed.reserve;
    if ((uintptr_t)mark - first >= sizeof runtime->failed.reserve) {
        free(mark);
        return;
    }
    mark->left = runtime->failed.spare;
    runtime->failed.spare = mark;
}

static bool add(rota_runtime *runtime, const rota_memory_range *where, rota_moment turn, rota_reason reason) {
    rota_mark *mark = mark_new(runtime);
    if (!mark) return false;
    *mark = (rota_mark){.range = *where, .turn = turn, .reason = reason};
    rota_marks_put(&runtime->failed.marks, mark);
    (void)ra_fetch_add_acq_rel(&runtime->failed.active, 1);
    return true;
}

/* A range that can't be marked: nobody knows any more which ones are good, so that whatever later submissions
 * read has failed, until the runtime closes. (A mark of a whole buffer instead would be healed by overwriting
 * the range of an earlier submission's mark alone, unless it kept both numbers; that is not worth it.) */
static void lose(rota_runtime *runtime, uint64_t number, rota_reason reason) {
    if (!runtime->failed.lost.cause) {
        (void)rota_reason_fail(ROTA_OUT_OF_MEMORY, reason);
        runtime->failed.lost.number = number;
        runtime->failed.lost.cause = rota_cause_new(
            runtime, ROTA_OUT_OF_MEMORY,
            "no host memory to note which bytes failed: what is read after submission " ROTA_CAUSE_NUMBER
            " counts as failed; %s",
            rota_last_error());
        runtime->failed.lost_number = number;
        (void)ra_fetch_add_acq_rel(&runtime->failed.active, 1);
    } else if (number < runtime->failed.lost_number) {
        runtime->failed.lost_number = number;
    }
}

void rota_failed_ranges_remove(rota_runtime *runtime, rota_mark *list) {
    while (list) {
        rota_mark *next = list->left;
        mark_free(runtime, list);
        (void)ra_fetch_sub_release(&runtime->failed.active, 1);
        list = next;
    }
}

static bool is_inside(const rota_memory_range *range, const rota_memory_range *where) {
    return range->begin >= where->begin && range->end <= where->end;
}

/* Cuts off what of the mark, which is not put in, lies outside the range, and puts that in. False: there was
 * no memory, and some of it is in the mark still. */
static bool cut(rota_runtime *runtime, rota_mark *mark, const rota_memory_range *where) {
    rota_memory_range after = mark->range, before = mark->range;
    after.begin = where->end;
    before.end = where->begin;
    if (after.begin < after.end) {
        if (!add(runtime, &after, mark->turn, mark->reason)) return false;
        mark->range.end = where->end;
    }
    if (before.begin < before.end) {
        if (!add(runtime, &before, mark->turn, mark->reason)) return false;
        mark->range.begin = where->begin;
    }
    return true;
}

/* Takes the range out of a mark that is not put in, and puts in what is left. False: nothing is. */
static bool reduce(rota_runtime *runtime, rota_mark *mark, const rota_memory_range *where) {
    const rota_copies others = mark->range.copies & ~where->copies;
    if (others) { /* a failed cut leaves the mark whole: it stays failed, which is more than need be */
        if (cut(runtime, mark, where)) mark->range.copies = others;
    } else if (is_inside(&mark->range, where)) {
        return false;
    } else if (mark->range.begin >= where->begin) {
        mark->range.begin = where->end;
    } else if (mark->range.end <= where->end) {
        mark->range.end = where->begin;
    } else {
        rota_memory_range after = mark->range;
        after.begin = where->end;
        if (add(runtime, &after, mark->turn, mark->reason)) mark->range.end = where->begin;
    }
    rota_marks_put(&runtime->failed.marks, mark);
    return true;
}

/* Puts in what is left of marks that are not when the range is taken out of them. */
static void remove_reduced(rota_runtime *runtime, rota_mark *list, const rota_memory_range *where) {
    rota_mark *healed = NULL;
    while (list) {
        rota_mark *mark = list;
        list = mark->left;
        if (reduce(runtime, mark, where)) continue;
        mark->left = healed;
        healed = mark;
    }
    rota_failed_ranges_remove(runtime, healed);
}

/* Removes the range from all marks up to that turn. */
void rota_failed_ranges_heal(rota_runtime *runtime, const rota_memory_range *where, rota_moment up_to) {
    remove_reduced(runtime, rota_marks_take(&runtime->failed.marks, where, up_to), where);
}

/* `early`: the turn has not come, so older marks stay. */
void rota_failed_ranges_mark(rota_runtime *runtime, const rota_memory_range *where, rota_moment turn,
                             rota_reason reason, bool early) {
    /* Whoever could still read an older mark has run by the time this range is written. */
    if (!early) rota_failed_ranges_heal(runtime, where, turn);
    if (!rota_marks_cover(runtime->failed.marks, where, turn) && !add(runtime, where, turn, reason))
        lose(runtime, turn.number, reason);
}

/* What both have. */
static rota_memory_range common(const rota_memory_range *a, const rota_memory_range *b) {
    rota_memory_range both = *a;
    if (both.begin < b->begin) both.begin = b->begin;
    if (both.end > b->end) both.end = b->end;
    both.copies &= b->copies;
    return both;
}

void rota_failed_ranges_heal_with_causes(rota_runtime *runtime, const rota_memory_range *where,
                                         uint64_t number) {
    const rota_moment before = {number - 1, UINT32_MAX}, last = {number, UINT32_MAX};
    rota_mark *older = rota_marks_take(&runtime->failed.marks, where, before);
    for (const rota_mark *from = older; from; from = from->left) {
        if (from->reason.cause->status == ROTA_CANCELLED) continue;
        const rota_memory_range failed = common(&from->range, where); /* all of that are out */
        rota_mark *own = rota_marks_take(&runtime->failed.marks, &failed, last);
        while (own) {
            rota_mark *mark = own;
            own = mark->left;
            const rota_memory_range both = common(&mark->range, &failed);
            const rota_moment turn = mark->turn;
            const bool is_earlier = from->reason.number < mark->reason.number; /* by who failed first */
            rota_marks_put(&runtime->failed.marks, mark);
            if (is_earlier) rota_failed_ranges_mark(runtime, &both, turn, from->reason, false);
        }
    }
    remove_reduced(runtime, older, where);
}

bool rota_failed_ranges_find(rota_runtime *runtime, const rota_memory_range *where, rota_moment up_to,
                             rota_reason *out_reason) {
    const rota_mark *oldest = rota_marks_oldest(runtime->failed.marks, where, up_to);
    if (oldest)
        *out_reason = oldest->reason;
    else if (runtime->failed.lost.cause && runtime->failed.lost_number < up_to.number)
        *out_reason = runtime->failed.lost;
    else
        return false;
    return true;
}

/* The bytes of one range are moved to another of that size: they are as good or bad there. */
void rota_failed_ranges_carry(rota_runtime *runtime, const rota_memory_range *from,
                              const rota_memory_range *to, rota_moment turn) {
    rota_failed_ranges_heal(runtime, to, turn);
    rota_mark *list = rota_marks_take(&runtime->failed.marks, from, turn);
    while (list) {
        rota_mark *moved = list;
        list = moved->left;
        rota_memory_range part = *to;
        if (moved->range.begin > from->begin) part.begin += moved->range.begin - from->begin;
        if (moved->range.end < from->end) part.end -= from->end - moved->range.end;
        const rota_reason reason = moved->reason;
        rota_marks_put(&runtime->failed.marks, moved);
        rota_failed_ranges_mark(runtime, &part, turn, reason, true);
    }
}

/* Of marks of the range that no unfinished submission is older than, only the newest one that covers it
 * matters: whoever is still to read or to overwrite it comes after all of them. */
static void prune(rota_runtime *runtime, const rota_memory_range *where, uint64_t oldest) {
    rota_mark *list = rota_marks_take(&runtime->failed.marks, where, (rota_moment){oldest - 1, UINT32_MAX});
    const rota_mark *newest = NULL;
    for (const rota_mark *mark = list; mark; mark = mark->left)
        if (is_inside(where, &mark->range) && (mark->range.copies & where->copies) == where->copies &&
            (!newest || rota_moment_is_before(newest->turn, mark->turn)))
            newest = mark;
    rota_mark *gone = NULL;
    while (list) {
        rota_mark *mark = list;
        list = mark->left;
        if (newest && rota_moment_is_before(mark->turn, newest->turn) && is_inside(&mark->range, where)) {
            mark->left = gone;
            gone = mark;
        } else {
            rota_marks_put(&runtime->failed.marks, mark);
        }
    }
    rota_failed_ranges_remove(runtime, gone);
}

void rota_poison_mark(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                      uint64_t number, rota_reason reason, uint64_t oldest) {
    rota_memory_range where = rota_memory_range_of_buffer(root, begin, end);
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    if (oldest < number)
        prune(runtime, &where, oldest);
    else
        rota_failed_ranges_heal(runtime, &where, (rota_moment){number - 1, UINT32_MAX});
    rota_failed_ranges_mark(runtime, &where, (rota_moment){number, 0}, reason, true);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}

bool rota_poison_find(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                      uint64_t before_number, rota_reason *out_reason) {
    if (!rota_failed_is_any(ra_load_acquire(&runtime->failed.active))) return false;
    rota_memory_range where = rota_memory_range_of_buffer(root, begin, end);
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    bool found =
        rota_failed_ranges_find(runtime, &where, (rota_moment){before_number - 1, UINT32_MAX}, out_reason);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
    return found;
}

rota_copies rota_poison_copies(rota_runtime *runtime, const rota_buffer *root, uint64_t begin, uint64_t end,
                               rota_copies copies) {
    rota_copies failed = 0;
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    for (; copies; copies &= copies - 1) {
        rota_memory_range where = rota_memory_range_of_buffer(root, begin, end);
        where.copies = copies & -copies;
        if (rota_marks_oldest(runtime->failed.marks, &where, (rota_moment){UINT64_MAX, UINT32_MAX}))
            failed |= where.copies;
    }
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
    return failed;
}

void rota_poison_drop(rota_runtime *runtime, const void *of) {
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    rota_failed_ranges_remove(runtime, rota_marks_take_of(&runtime->failed.marks, of));
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}

void rota_poison_all_free(rota_runtime *runtime) {
    while (runtime->failed.marks)
        rota_failed_ranges_remove(
            runtime, rota_marks_take_of(&runtime->failed.marks, runtime->failed.marks->range.of));
    if (runtime->failed.lost.cause) (void)ra_fetch_sub_release(&runtime->failed.active, 1);
    runtime->failed.lost.cause = NULL;
    runtime->failed.spare = NULL;
    runtime->failed.reserve_used = 0;
}
