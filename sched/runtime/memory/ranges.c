/* A buffer's ranges: their list, their tree, and what each is known to be. The sequencer's alone. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

void rota_ranges_start(rota_residency *residency) {
    residency->first.end = residency->buffer->size_bytes;
    residency->root = &residency->first;
    residency->range_count = 1;
    residency->fold_at = ROTA_RANGES_FOLD_AT_LEAST;
}

void rota_ranges_end(rota_residency *residency) {
    for (rota_range *range = residency->first.next; range;) {
        rota_range *next = range->next;
        free(range);
        range = next;
    }
    residency->first = (rota_range){0};
    residency->root = &residency->first;
}

rota_range *rota_ranges_find(rota_residency *residency, uint64_t offset) {
    rota_range *found = &residency->first;
    for (rota_range *range = residency->root; range;) {
        bool is_before = range->begin <= offset;
        if (is_before) found = range;
        range = is_before ? range->right : range->left;
    }
    return found;
}

/* What points to the range in the tree, or would if its priority let it stand there. */
static rota_range **place_of(rota_residency *residency, const rota_range *range) {
    rota_range **link = &residency->root;
    while (*link && *link != range && (*link)->priority >= range->priority)
        link = range->begin < (*link)->begin ? &(*link)->left : &(*link)->right;
    return link;
}

static void put_into_tree(rota_residency *residency, rota_range *range) {
    rota_range **link = place_of(residency, range), *under = *link;
    rota_range **left = &range->left, **right = &range->right;
    *link = range;
    while (under) { /* what was there, by side */
        bool is_before = under->begin < range->begin;
        rota_range **side = is_before ? left : right, **inner = is_before ? &under->right : &under->left;
        *side = under;
        if (is_before)
            left = inner;
        else
            right = inner;
        under = *inner;
    }
    *left = *right = NULL;
}

static void take_from_tree(rota_residency *residency, rota_range *range) {
    rota_range **link = place_of(residency, range), *left = range->left, *right = range->right;
    while (left && right) {
        bool is_left = left->priority > right->priority;
        *link = is_left ? left : right;
        link = is_left ? &left->right : &right->left;
        if (is_left)
            left = left->right;
        else
            right = right->left;
    }
    *link = left ? left : right;
}

/* Makes a range begin at `offset`. Without memory it stays as it is: the caller then treats more bytes as
 * touched than were, which orders too much and never too little; which devices hold them is in
 * rota_range_set_valid. */
static void split(rota_residency *residency, uint64_t offset) {
    if (offset >= residency->buffer->size_bytes) return;
    rota_range *range = rota_ranges_find(residency, offset);
    if (range->begin == offset) return;
    rota_range *rest = malloc(sizeof *rest);
    if (!rest) return;
    *rest = *range;
    range->end = rest->begin = offset;
    range->next = rest;
    rest->priority = rota_hash_priority(rest);
    put_into_tree(residency, rest);
    residency->range_count++;
}

static bool same_history(const rota_range *a, const rota_range *b) {
    return a->writer == b->writer && a->valid == b->valid && a->is_joint == b->is_joint &&
           a->reader_count == b->reader_count &&
           memcmp(a->readers, b->readers, a->reader_count * sizeof a->readers[0]) == 0;
}

static bool is_settled(rota_residency *residency, uint64_t point) {
    for (uint32_t i = 0; i < residency->settled_count; i++)
        if (rota_point_timeline(residency->settled[i]) == rota_point_timeline(point)) {
            if (residency->settled[i] < point) residency->settled[i] = point;
            return true;
        }
    if (residency->settled_count == ROTA_SETTLED_MAX) return false;
    residency->settled[residency->settled_count++] = point;
    return true;
}

/* Forgets what has passed: a reader, which nobody has to wait for any more; and which of the settled writers
 * it was, where others want only what that one made visible. */
static void forget_passed(rota_residency *residency, rota_range *range) {
    uint32_t kept = 0;
    for (uint32_t r = 0; r < range->reader_count; r++)
        if (!rota_point_passed(residency->runtime, range->readers[r]))
            range->readers[kept++] = range->readers[r];
    range->reader_count = kept;
    if (kept == 0) range->is_joint = false;
    if (range->writer != ROTA_POINT_NONE && rota_point_passed(residency->runtime, range->writer) &&
        is_settled(residency, range->writer))
        range->writer = ROTA_POINT_NONE;
}

void rota_ranges_join(rota_residency *residency, uint64_t begin, uint64_t end, bool forgets) {
    if (residency->range_count == 1) return;
    rota_range *range = rota_ranges_find(residency, begin > 0 ? begin - 1 : 0);
    if (forgets) forget_passed(residency, range);
    while (range->next && range->next->begin <= end) {
        rota_range *next = range->next;
        if (forgets) forget_passed(residency, next);
        if (!same_history(range, next)) {
            range = next;
            continue;
        }
        take_from_tree(residency, next);
        range->end = next->end;
        range->next = next->next;
        free(next);
        residency->range_count--;
    }
}

rota_range *rota_ranges_cut(rota_residency *residency, uint64_t begin, uint64_t end) {
    rota_assert(begin < end && end <= residency->buffer->size_bytes);
    rota_range *range = rota_ranges_find(residency, begin);
    /* Who comes again touches the same again. */
    if (range->begin == begin && range->end == end) return range;
    if (begin == 0 && end >= residency->buffer->size_bytes) return range;
    split(residency, begin);
    split(residency, end);
    return rota_ranges_find(residency, begin);
}

void rota_ranges_assign(rota_residency *residency, uint64_t begin, uint64_t end, rota_copies valid) {
    rota_range *first = rota_ranges_cut(residency, begin, end);
    for (rota_range *range = first; range && range->begin < end; range = range->next)
        rota_range_set_valid(range, begin, end, valid);
    rota_ranges_join(residency, begin, end, false);
}
