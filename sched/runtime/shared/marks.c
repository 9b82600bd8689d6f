/* A treap of marks: ordered by range, then turn, a heap by random priorities, so that its depth is
 * logarithmic. Marks of one range may overlap; `reach` says which subtrees have nothing that reaches up to
 * where one looks. It takes no notice of ranges, so that of a subtree with several it may be too high, which
 * costs O(log n) steps. */
#include "sched/runtime/shared/marks.h"

#include <stddef.h>
#include "base/hash.h"

static int compare_ranges(const rota_memory_range *a, const rota_memory_range *b) {
    if (a->of != b->of) return (uintptr_t)a->of < (uintptr_t)b->of ? -1 : 1;
    if (a->part != b->part) return a->part < b->part ? -1 : 1;
    if (a->memory != b->memory) return a->memory < b->memory ? -1 : 1;
    return 0;
}

static bool comes_before(const rota_mark *a, const rota_mark *b) {
    int order = compare_ranges(&a->range, &b->range);
    if (order != 0) return order < 0;
    if (a->range.begin != b->range.begin) return a->range.begin < b->range.begin;
    return rota_moment_is_before(a->turn, b->turn);
}

static void include(rota_mark *mark, const rota_mark *below) {
    if (!below) return;
    if (below->reach > mark->reach) mark->reach = below->reach;
    if (rota_moment_is_before(below->oldest, mark->oldest)) mark->oldest = below->oldest;
    if (rota_moment_is_before(mark->newest, below->newest)) mark->newest = below->newest;
}

static void update(rota_mark *mark) {
    mark->reach = mark->range.end;
    mark->oldest = mark->newest = mark->turn;
    include(mark, mark->left);
    include(mark, mark->right);
}

/* What comes before `mark` goes left. */
static void split(rota_mark *root, const rota_mark *mark, rota_mark **out_left, rota_mark **out_right) {
    if (!root) {
        *out_left = *out_right = NULL;
        return;
    }
    if (comes_before(root, mark)) {
        split(root->right, mark, &root->right, out_right);
        *out_left = root;
    } else {
        split(root->left, mark, out_left, &root->left);
        *out_right = root;
    }
    update(root);
}

static rota_mark *merge(rota_mark *left, rota_mark *right) {
    if (!left) return right;
    if (!right) return left;
    rota_mark *top;
    if (left->priority > right->priority) {
        left->right = merge(left->right, right);
        top = left;
    } else {
        right->left = merge(left, right->left);
        top = right;
    }
    update(top);
    return top;
}

void rota_marks_put(rota_mark **root, rota_mark *mark) {
    rota_mark *left, *right;
    mark->left = mark->right = NULL;
    mark->priority = rota_hash_priority(mark);
    update(mark);
    split(*root, mark, &left, &right);
    *root = merge(merge(left, mark), right);
}

static bool overlaps(const rota_mark *mark, const rota_memory_range *where) {
    return mark->range.begin < where->end && where->begin < mark->range.end &&
           (mark->range.copies & where->copies) != 0;
}

/* Where marks that overlap the range may lie, seen from one. */
static bool may_be_left(const rota_mark *mark, const rota_memory_range *where, int order) {
    return order >= 0 && mark->left && mark->left->reach > where->begin;
}
static bool may_be_right(const rota_mark *mark, const rota_memory_range *where, int order) {
    return order < 0 || (order == 0 && mark->range.begin < where->end);
}

static void prepend(rota_mark **list, rota_mark *mark) {
    mark->left = *list;
    *list = mark;
}

static rota_mark *take(rota_mark *root, const rota_memory_range *where, rota_moment up_to, rota_mark **list) {
    if (!root || rota_moment_is_before(up_to, root->oldest)) return root;
    int order = compare_ranges(&root->range, where);
    if (may_be_left(root, where, order)) root->left = take(root->left, where, up_to, list);
    if (may_be_right(root, where, order)) root->right = take(root->right, where, up_to, list);
    if (order == 0 && !rota_moment_is_before(up_to, root->turn) && overlaps(root, where)) {
        rota_mark *rest = merge(root->left, root->right);
        prepend(list, root);
        return rest;
    }
    update(root);
    return root;
}

rota_mark *rota_marks_take(rota_mark **root, const rota_memory_range *where, rota_moment up_to) {
    rota_mark *list = NULL;
    *root = take(*root, where, up_to, &list);
    return list;
}

static rota_mark *take_of(rota_mark *root, const void *of, rota_mark **list) {
    if (!root) return NULL;
    uintptr_t here = (uintptr_t)root->range.of;
    if (here >= (uintptr_t)of) root->left = take_of(root->left, of, list);
    if (here <= (uintptr_t)of) root->right = take_of(root->right, of, list);
    if (here == (uintptr_t)of) {
        rota_mark *rest = merge(root->left, root->right);
        prepend(list, root);
        return rest;
    }
    update(root);
    return root;
}

rota_mark *rota_marks_take_of(rota_mark **root, const void *of) {
    rota_mark *list = NULL;
    *root = take_of(*root, of, &list);
    return list;
}

static void find_oldest(const rota_mark *mark, const rota_memory_range *where, rota_moment up_to,
                        const rota_mark **oldest) {
    while (mark && !rota_moment_is_before(up_to, mark->oldest) &&
           (!*oldest || rota_moment_is_before(mark->oldest, (*oldest)->turn))) {
        int order = compare_ranges(&mark->range, where);
        if (may_be_left(mark, where, order)) find_oldest(mark->left, where, up_to, oldest);
        if (order == 0 && !rota_moment_is_before(up_to, mark->turn) && overlaps(mark, where) &&
            (!*oldest || rota_moment_is_before(mark->turn, (*oldest)->turn)))
            *oldest = mark;
        mark = may_be_right(mark, where, order) ? mark->right : NULL;
    }
}

const rota_mark *rota_marks_oldest(const rota_mark *root, const rota_memory_range *where, rota_moment up_to) {
    const rota_mark *oldest = NULL;
    find_oldest(root, where, up_to, &oldest);
    return oldest;
}

bool rota_marks_cover(const rota_mark *mark, const rota_memory_range *where, rota_moment turn) {
    while (mark && !rota_moment_is_before(turn, mark->oldest) && !rota_moment_is_before(mark->newest, turn)) {
        int order = compare_ranges(&mark->range, where);
        if (order == 0 && mark->turn.number == turn.number && mark->turn.step == turn.step &&
            mark->range.begin <= where->begin && mark->range.end >= where->end &&
            (mark->range.copies & where->copies) == where->copies)
            return true;
        if (may_be_left(mark, where, order) && rota_marks_cover(mark->left, where, turn)) return true;
        mark = may_be_right(mark, where, order) ? mark->right : NULL;
    }
    return false;
}
