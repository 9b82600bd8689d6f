/* Logical queues: cuts each queue's operations into segments that wait at their start and signal at their
 * end, drops waits that a vector clock proves implied, and gives each operation its batch.
 *
 * Operations are visited in record order. An operation whose predecessor ran on another queue needs that
 * queue's segment closed (it signals at its end) and its own queue's segment to start with a wait for it,
 * unless its queue already waited for that or something later. Segments are numbered in the order they close,
 * so a wait always names an earlier one. A batch is a level: one more than the highest level of a predecessor
 * in the same segment.
 *
 * What comes after a join comes after all that it joins, queue by queue: of each it is enough to know the
 * last segment that has something of it, and the one before, since a queue's timeline moves in order.
 * O(operations + edges + segments * timelines). */
#include "sched/plan/segments.h"

#include <stdlib.h>
#include <string.h>

typedef struct open_segment {
    uint32_t id;              /* in opening order; ROTA_NONE: none open */
    uint32_t operation_count; /* so far */
} open_segment;

/* A segment in opening order. */
typedef struct opened {
    uint32_t part, queue, ordinal;
    uint32_t first_wait, wait_count; /* in waits: ids of opened segments */
    uint32_t closed_as;              /* number in the plan; ROTA_NONE while open */
    uint32_t needed_by;              /* the last operation that was found to need it, plus 1 */
} opened;

typedef struct segmenter {
    rota_compiler *c;
    uint32_t timelines; /* part * queue_count + queue */
    open_segment *open; /* by timeline */
    uint32_t *ordinals; /* by timeline: segments opened so far */
    uint32_t *known; /* timelines x timelines: known[t][u]: the ordinal of u that t has waited for, directly
                        or not */
    rota_vector opened; /* opened */
    rota_vector clocks; /* timelines entries a segment: what was known when it opened, and itself */
    rota_vector waits;  /* uint32_t */
    rota_vector needed; /* uint32_t: ids, scratch */
    uint32_t closed_count;
    uint32_t joins_done;
    uint32_t *local_of; /* by timeline: index of the join at hand there, plus 1; 0: none */
} segmenter;

#define JOINS(c) ((rota_join *)(c)->edges.joins.data)
#define LOCALS(c) ((rota_local_join *)(c)->edges.local_joins.data)
#define OPENED(s) ((opened *)(s)->opened.data)

static uint32_t timeline_of(const segmenter *s, uint32_t part, uint32_t queue) {
    return part * s->c->queue_count + queue;
}

static rota_status open_new(segmenter *s, uint32_t part, uint32_t queue) {
    uint32_t timeline = timeline_of(s, part, queue);
    if (!rota_vector_reserve(&s->opened, sizeof(opened), 1) ||
        !rota_vector_reserve(&s->clocks, sizeof(uint32_t), s->timelines))
        return rota_compile_no_memory(s->c);
    s->open[timeline] = (open_segment){(uint32_t)s->opened.count, 0};
    OPENED(s)
    [s->opened.count++] =
        (opened){part, queue, ++s->ordinals[timeline], (uint32_t)s->waits.count, 0, ROTA_NONE, 0};
    s->clocks.count += s->timelines;
    return ROTA_OK;
}

static void close_open(segmenter *s, uint32_t timeline) {
    uint32_t id = s->open[timeline].id;
    if (id == ROTA_NONE) return;
    opened *segment = &OPENED(s)[id];
    segment->closed_as = s->closed_count++;
    uint32_t *clock = (uint32_t *)s->clocks.data + (size_t)id * s->timelines;
    memcpy(clock, s->known + (size_t)timeline * s->timelines, sizeof *clock * s->timelines);
    clock[timeline] = segment->ordinal;
    s->open[timeline].id = ROTA_NONE;
}

static bool is_known(const segmenter *s, uint32_t timeline, uint32_t id) {
    const opened *segment = &OPENED(s)[id];
    return s->known[(size_t)timeline * s->timelines + timeline_of(s, segment->part, segment->queue)] >=
           segment->ordinal;
}

/* The open segment of the timeline waits for a closed one. */
static rota_status add_wait(segmenter *s, uint32_t timeline, uint32_t id) {
    if (!rota_vector_reserve(&s->waits, sizeof(uint32_t), 1)) return rota_compile_no_memory(s->c);
    ((uint32_t *)s->waits.data)[s->waits.count++] = id;
    OPENED(s)[s->open[timeline].id].wait_count++;
    uint32_t *known = s->known + (size_t)timeline * s->timelines;
    const uint32_t *clock = (const uint32_t *)s->clocks.data + (size_t)id * s->timelines;
    for (uint32_t i = 0; i < s->timelines; i++)
        if (known[i] < clock[i]) known[i] = clock[i];
    return ROTA_OK;
}

/* ---- Joins ---- */

rota_local_join *rota_compile_local_join(const rota_compiler *c, uint32_t join, uint32_t timeline) {
    uint32_t low = JOINS(c)[join].first_local, end = low + JOINS(c)[join].local_count, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (LOCALS(c)[middle].timeline < timeline)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && LOCALS(c)[low].timeline == timeline ? &LOCALS(c)[low] : NULL;
}

/* Notes that the join at hand has something in a segment. */
static rota_status add_local(segmenter *s, uint32_t timeline, uint32_t segment, uint32_t earlier,
                             uint32_t level) {
    if (!s->local_of[timeline]) {
        if (!rota_vector_reserve(&s->c->edges.local_joins, sizeof(rota_local_join), 1))
            return rota_compile_no_memory(s->c);
        LOCALS(s->c)
        [s->c->edges.local_joins.count++] = (rota_local_join){timeline, segment, earlier, level, ROTA_NONE};
        s->local_of[timeline] = (uint32_t)s->c->edges.local_joins.count;
        return ROTA_OK;
    }
    rota_local_join *local = &LOCALS(s->c)[s->local_of[timeline] - 1];
    if (segment == local->segment) {
        if (level > local->level) local->level = level;
        if (earlier != ROTA_NONE && (local->earlier == ROTA_NONE || earlier > local->earlier))
            local->earlier = earlier;
    } else if (segment > local->segment) { /* numbered in the order in which they were opened */
        local->earlier = local->segment;
        if (earlier != ROTA_NONE && earlier > local->earlier) local->earlier = earlier;
        local->segment = segment;
        local->level = level;
    } else if (local->earlier == ROTA_NONE || segment > local->earlier) {
        local->earlier = segment;
    }
    return ROTA_OK;
}

static int compare_locals(const void *left, const void *right) {
    const rota_local_join *a = left, *b = right;
    return a->timeline < b->timeline ? -1 : a->timeline > b->timeline;
}

/* Places the joins that operation `n` may be the first to come after. */
static rota_status localize_joins(segmenter *s, uint32_t n) {
    rota_compiler *c = s->c;
    for (; s->joins_done < c->edges.joins.count && JOINS(c)[s->joins_done].before <= n; s->joins_done++) {
        rota_join *join = &JOINS(c)[s->joins_done];
        const uint32_t *from = (const uint32_t *)c->edges.join_from.data + join->first_from;
        uint32_t first = join->first_local = (uint32_t)c->edges.local_joins.count;
        if (first > UINT32_MAX - 2 - s->timelines)
            return rota_fail(ROTA_OUT_OF_RANGE, "compile of graph '%s': more than 2^32 places of joins",
                             c->graph->name);
        for (uint32_t i = 0; i < join->count; i++) {
            if (!(from[i] & ROTA_JOIN)) {
                const rota_operation *operation = &ROTA_OPERATIONS(c)[from[i]];
                ROTA_TRY(add_local(s, timeline_of(s, operation->part, operation->queue),
                                   rota_segment_of(c, from[i]), ROTA_NONE,
                                   ROTA_OPERATIONS(c)[from[i]].command));
                continue;
            }
            const rota_join *inner = &JOINS(c)[from[i] & ~ROTA_JOIN];
            for (uint32_t k = 0; k < inner->local_count; k++) {
                const rota_local_join local = LOCALS(c)[inner->first_local + k];
                ROTA_TRY(add_local(s, local.timeline, local.segment, local.earlier, local.level));
            }
        }
        rota_local_join *locals = LOCALS(c) + first;
        const uint32_t count = join->local_count = (uint32_t)c->edges.local_joins.count - first;
        for (uint32_t i = 0; i < count; i++) s->local_of[locals[i].timeline] = 0;
        if (count > 1) qsort(locals, count, sizeof *locals, compare_locals);
    }
    return ROTA_OK;
}

/* ---- Segments ---- */

static rota_status need(segmenter *s, uint32_t n, uint32_t id, uint32_t own) {
    if (id == own || id == ROTA_NONE || OPENED(s)[id].needed_by == n + 1) return ROTA_OK;
    OPENED(s)[id].needed_by = n + 1;
    if (!rota_vector_reserve(&s->needed, sizeof(uint32_t), 1)) return rota_compile_no_memory(s->c);
    ((uint32_t *)s->needed.data)[s->needed.count++] = id;
    return ROTA_OK;
}

static int compare_ids(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? 1 : a > b ? -1 : 0;
}

static void sort_needed(uint32_t *ids, uint64_t count) {
    if (count > 24) {
        qsort(ids, (size_t)count, sizeof *ids, compare_ids);
        return;
    }
    for (uint64_t i = 1; i < count; i++) {
        uint32_t moved = ids[i];
        uint64_t k = i;
        for (; k && ids[k - 1] < moved; k--) ids[k] = ids[k - 1];
        ids[k] = moved;
    }
}

/* Collects, once each, the segments that an operation's predecessors are in and that are not its own open
 * one. */
static rota_status collect_needed(segmenter *s, uint32_t n, uint32_t own) {
    const rota_compiler *c = s->c;
    const uint32_t *edges = c->edges.from.data;
    s->needed.count = 0;
    for (uint32_t e = c->edges.first[n]; e < c->edges.first[n + 1]; e++) {
        if (!(edges[e] & ROTA_JOIN)) {
            ROTA_TRY(need(s, n, rota_segment_of(c, edges[e]), own));
            continue;
        }
        const rota_join *join = &JOINS(c)[edges[e] & ~ROTA_JOIN];
        for (uint32_t k = join->first_local; k < join->first_local + join->local_count; k++) {
            ROTA_TRY(need(s, n, LOCALS(c)[k].segment, own));
            if (LOCALS(c)[k].segment == own) ROTA_TRY(need(s, n, LOCALS(c)[k].earlier, own));
        }
    }
    /* Latest opened first: a later one may imply an earlier. */
    sort_needed(s->needed.data, s->needed.count);
    return ROTA_OK;
}

/* The open segment of the timeline comes after what is in `segment`, which may have been its own until it was
 * closed for this operation. */
static rota_status come_after(segmenter *s, uint32_t timeline, uint32_t segment, uint32_t level,
                              uint32_t *out_level) {
    if (segment != s->open[timeline].id)
        return is_known(s, timeline, segment) ? ROTA_OK : add_wait(s, timeline, segment);
    if (level >= *out_level) *out_level = level + 1;
    return ROTA_OK;
}

static rota_status visit(segmenter *s, uint32_t n) {
    const rota_operation *operation = &ROTA_OPERATIONS(s->c)[n];
    uint32_t timeline = timeline_of(s, operation->part, operation->queue);
    ROTA_TRY(localize_joins(s, n));
    ROTA_TRY(collect_needed(s, n, s->open[timeline].id));
    const uint32_t *needed = s->needed.data;
    rota_plan_stats *stats = &s->c->plan->stats;
    bool waits = false;
    for (uint64_t i = 0; i < s->needed.count; i++) {
        const opened *segment = &OPENED(s)[needed[i]];
        if (segment->closed_as == ROTA_NONE) close_open(s, timeline_of(s, segment->part, segment->queue));
        if (!is_known(s, timeline, needed[i])) waits = true;
    }
    if (waits && s->open[timeline].id != ROTA_NONE && s->open[timeline].operation_count)
        close_open(s, timeline);
    if (s->open[timeline].id == ROTA_NONE) ROTA_TRY(open_new(s, operation->part, operation->queue));
    for (uint64_t i = 0; i < s->needed.count; i++) {
        if (is_known(s, timeline, needed[i]))
            stats->queue_waits_dropped++;
        else
            ROTA_TRY(add_wait(s, timeline, needed[i]));
    }
    /* Closing our own segment may have made predecessors foreign: they are before this segment on its own
     * queue. */
    uint32_t own = s->open[timeline].id;
    const uint32_t *edges = s->c->edges.from.data;
    uint32_t level = 0;
    for (uint32_t e = s->c->edges.first[n]; e < s->c->edges.first[n + 1]; e++) {
        if (!(edges[e] & ROTA_JOIN)) {
            ROTA_TRY(come_after(s, timeline, rota_segment_of(s->c, edges[e]),
                                ROTA_OPERATIONS(s->c)[edges[e]].command, &level));
            continue;
        }
        /* Of other queues all are waited for already. */
        rota_local_join *local = rota_compile_local_join(s->c, edges[e] & ~ROTA_JOIN, timeline);
        if (!local) continue;
        if (local->segment == own) local->node = 0;
        ROTA_TRY(come_after(s, timeline, local->segment, local->level, &level));
    }
    ((uint32_t *)s->c->edges.segment.data)[n] = own;
    ROTA_OPERATIONS(s->c)[n].command = level;
    s->open[timeline].operation_count++;
    if (operation->ends_segment) close_open(s, timeline);
    return ROTA_OK;
}

/* One queue of one device: no cuts, no waits. Levels stand already where no join has one. */
static rota_status visit_all_on_one(rota_compiler *c) {
    rota_operation *operations = ROTA_OPERATIONS(c);
    const uint32_t *edges = c->edges.from.data;
    uint32_t local_of = 0;
    segmenter s = {.c = c, .timelines = 1, .local_of = &local_of};
    if (c->edges.joins.count == 0) return ROTA_OK;
    for (uint32_t n = 0; n < c->operations.count; n++) {
        uint32_t level = 0;
        if (s.joins_done < c->edges.joins.count) ROTA_TRY(localize_joins(&s, n));
        for (uint32_t e = c->edges.first[n]; e < c->edges.first[n + 1]; e++) {
            uint32_t before;
            if (edges[e] & ROTA_JOIN) {
                rota_local_join *local = &LOCALS(c)[JOINS(c)[edges[e] & ~ROTA_JOIN].first_local];
                local->node = 0;
                before = local->level;
            } else {
                before = operations[edges[e]].command;
            }
            if (before >= level) level = before + 1;
        }
        operations[n].command = level;
    }
    return ROTA_OK;
}

bool rota_compile_on_one_queue(const rota_compiler *c) {
    const rota_operation *operations = ROTA_OPERATIONS(c);
    if (c->queue_count == 1 && c->partitions.count == 1) return true;
    for (uint32_t n = 0; n < c->operations.count; n++)
        if (operations[n].part || operations[n].queue) return false;
    return true;
}

/* The last segment waits, directly or not, for everything; an empty one is added if none does. */
static rota_status close_all(segmenter *s) {
    for (uint32_t t = s->timelines; t-- > 0;) close_open(s, t);
    uint32_t last = ROTA_NONE;
    for (uint32_t id = 0; id < s->opened.count; id++)
        if (OPENED(s)[id].closed_as == s->closed_count - 1) last = id;
    bool covers = last != ROTA_NONE;
    for (uint32_t t = 0; t < s->timelines && covers; t++)
        covers = ((const uint32_t *)s->clocks.data)[(size_t)last * s->timelines + t] >= s->ordinals[t];
    if (covers) return ROTA_OK;
    ROTA_TRY(open_new(s, 0, 0));
    uint32_t ending = s->open[0].id;
    for (uint32_t id = ending; id-- > 0;)
        if (!is_known(s, 0, id)) ROTA_TRY(add_wait(s, 0, id));
    close_open(s, 0);
    return ROTA_OK;
}

static rota_status write_segments(segmenter *s) {
    rota_compiler *c = s->c;
    rota_plan *plan = c->plan;
    uint32_t count = (uint32_t)s->opened.count;
    plan->segments = rota_arena_calloc(&plan->arena, sizeof *plan->segments * count, 8);
    plan->segment_waits = rota_arena_alloc(&plan->arena, sizeof(uint32_t) * (size_t)(s->waits.count + 1), 8);
    if (!plan->segments || !plan->segment_waits) return rota_compile_no_memory(c);
    plan->segment_count = count;
    for (uint32_t id = 0; id < count; id++) {
        const opened *from = &OPENED(s)[id];
        plan->segments[from->closed_as] = (rota_plan_segment){.part = from->part,
                                                              .queue = from->queue,
                                                              .ordinal = from->ordinal,
                                                              .first_wait = from->first_wait,
                                                              .wait_count = from->wait_count};
    }
    for (uint64_t i = 0; i < s->waits.count; i++)
        plan->segment_waits[i] = OPENED(s)[((uint32_t *)s->waits.data)[i]].closed_as;
    for (uint32_t i = 0; i < count; i++) {
        rota_plan_segment *segment = &plan->segments[i];
        segment->is_end = c->spread.ends.is_there && segment->queue == c->spread.ends.queue;
        for (uint32_t w = segment->first_wait; w < segment->first_wait + segment->wait_count; w++) {
            rota_plan_segment *before = &plan->segments[plan->segment_waits[w]];
            if (before->part != segment->part) before->is_awaited = true;
        }
    }
    uint32_t *segment_of = c->edges.segment.data;
    for (uint32_t n = 0; n < c->operations.count; n++) segment_of[n] = OPENED(s)[segment_of[n]].closed_as;
    for (uint32_t i = 0; i < c->edges.local_joins.count; i++)
        LOCALS(c)[i].segment = OPENED(s)[LOCALS(c)[i].segment].closed_as;
    plan->final_segment = count - 1;
    plan->stats.queue_waits = s->waits.count;
    return ROTA_OK;
}

static rota_status run_segmenter(segmenter *s) {
    for (uint32_t n = 0; n < s->c->operations.count; n++) ROTA_TRY(visit(s, n));
    ROTA_TRY(close_all(s));
    return write_segments(s);
}

rota_status rota_compile_segments(rota_compiler *c) {
    rota_plan *plan = c->plan;
    if (rota_compile_on_one_queue(c)) {
        ROTA_TRY(visit_all_on_one(c));
        plan->segments = rota_arena_calloc(&plan->arena, sizeof *plan->segments, 8);
        plan->segment_waits = rota_arena_calloc(&plan->arena, sizeof(uint32_t), 8);
        if (!plan->segments || !plan->segment_waits) return rota_compile_no_memory(c);
        plan->segments[0].ordinal = 1;
        plan->segment_count = 1;
        plan->final_segment = 0;
        return ROTA_OK;
    }
    segmenter s = {.c = c, .timelines = c->partitions.count * c->queue_count};
    s.open = rota_arena_alloc(&c->scratch, sizeof *s.open * s.timelines, 8);
    s.ordinals = rota_arena_calloc(&c->scratch, sizeof *s.ordinals * s.timelines, 8);
    s.known = rota_arena_calloc(&c->scratch, sizeof *s.known * s.timelines * s.timelines, 8);
    s.local_of = rota_arena_calloc(&c->scratch, sizeof *s.local_of * s.timelines, 8);
    if (!s.open || !s.ordinals || !s.known || !s.local_of ||
        !rota_vector_reserve(&c->edges.segment, sizeof(uint32_t), c->operations.count + 1))
        return rota_compile_no_memory(c);
    c->edges.segment.count = c->operations.count;
    for (uint32_t t = 0; t < s.timelines; t++) s.open[t] = (open_segment){ROTA_NONE, 0};
    rota_status status = run_segmenter(&s);
    rota_vector_free(&s.opened);
    rota_vector_free(&s.clocks);
    rota_vector_free(&s.waits);
    rota_vector_free(&s.needed);
    return status;
}
