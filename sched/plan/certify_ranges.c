/* The certificate: who touched a range comes before who touches it now; sets at once. */
#include "sched/plan/certify_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "sched/plan/certify_memory.h"
#include "sched/plan/certify_order.h"
#include "sched/plan/certify_parts.h"
#include "sched/plan/certify_text.h"

/* ---- Order of many ---- */

static rota_status list_push(certifier *c, op_list *list, uint32_t operation) {
    if (list->count && LINKS(c)[list->head].operation == operation) return ROTA_OK;
    if (!rota_vector_reserve(&c->memory.links, sizeof(op_link), 1)) return rota_certify_no_memory(c);
    LINKS(c)[c->memory.links.count] = (op_link){operation, list->count ? list->head : 0};
    list->head = (uint32_t)c->memory.links.count++;
    list->count++;
    return ROTA_OK;
}

static rota_status crowd_of(certifier *c, op_list *list, crowd **out) {
    if (!list->crowd) {
        if (!rota_vector_reserve(&c->memory.crowds, sizeof(crowd), 1)) return rota_certify_no_memory(c);
        CROWDS(c)[c->memory.crowds.count++] = (crowd){0};
        list->crowd = (uint32_t)c->memory.crowds.count;
    }
    *out = &CROWDS(c)[list->crowd - 1];
    return ROTA_OK;
}

static rota_status sum_operation(certifier *c, crowd *set, uint32_t n) {
    const uint32_t s = c->segment[n], t = c->order.timeline[s];
    uint32_t i = 0;
    while (i < set->last_count && set->last[i].timeline != t) i++;
    if (i == set->last_count) {
        if (i == set->last_capacity) {
            const uint32_t room = i ? 2 * i : 2;
            last_on_queue *grown = rota_arena_alloc(&c->arena, sizeof *grown * room, 8);
            if (!grown) return rota_certify_no_memory(c);
            if (i) memcpy(grown, set->last, sizeof *grown * i);
            set->last = grown;
            set->last_capacity = room;
        }
        set->last[set->last_count++] = (last_on_queue){t, s, c->batch[n], 0};
        return ROTA_OK;
    }
    last_on_queue *last = &set->last[i];
    const uint32_t ordinal = c->plan->segments[s].ordinal, known = c->plan->segments[last->segment].ordinal;
    if (ordinal > known) {
        last->earlier = known;
        last->segment = s;
        last->batch = c->batch[n];
    } else if (ordinal == known) {
        if (c->batch[n] > last->batch) last->batch = c->batch[n];
    } else if (ordinal > last->earlier) {
        last->earlier = ordinal;
    }
    return ROTA_OK;
}

/* *out_meets: some are in n's own segment. */
static bool crowd_is_before(const certifier *c, const crowd *set, uint32_t n, bool *out_meets) {
    const uint32_t *start = c->order.start + (size_t)c->segment[n] * c->order.timelines;
    *out_meets = false;
    for (uint32_t i = 0; i < set->last_count; i++) {
        const last_on_queue *last = &set->last[i];
        *out_meets = *out_meets || last->segment == c->segment[n];
        if (last->segment == c->segment[n]
                ? last->batch >= c->batch[n] || start[last->timeline] < last->earlier
                : start[last->timeline] < c->plan->segments[last->segment].ordinal)
            return false;
    }
    return true;
}

static bool is_join(const certifier *c, uint32_t node) {
    uint32_t part = 0;
    while (node >= c->nodes.part_first[part + 1]) part++;
    return node - c->nodes.part_first[part] >= c->plan->partitions[part].desc.command_count;
}

/* Tries whether `node` comes after all of the list that is in its segment, and remembers it. */
static bool bear_witness(certifier *c, const op_list *list, crowd *set, uint32_t node) {
    const uint32_t segment = c->nodes.segment[node];
    uint32_t covered = 0, earliest = UINT32_MAX, index = list->count;
    /* What a witness before this one covers need not be looked at again. */
    for (uint32_t w = 0; w < WITNESSES; w++)
        if (set->covered[w] > covered && c->nodes.segment[set->witness[w]] == segment &&
            known_before(c, set->witness[w], node))
            covered = set->covered[w];
    for (uint32_t hop = node, hops = 0; hop != ROTA_NONE && hops < HOPS; hops++) {
        uint32_t next = ROTA_NONE;
        for (uint32_t e = c->nodes.first_predecessor[hop]; e < c->nodes.first_predecessor[hop + 1]; e++) {
            const uint32_t before = c->nodes.predecessor[e];
            for (uint32_t w = 0; w < WITNESSES; w++)
                if (set->covered[w] > covered && set->witness[w] == before) covered = set->covered[w];
            if (is_join(c, before)) next = before;
        }
        hop = next;
    }
    for (uint32_t link = list->head; index > covered; link = LINKS(c)[link].next, index--) {
        const uint32_t n = LINKS(c)[link].operation;
        if (c->segment[n] == segment && c->nodes.position[c->node[n]] < earliest)
            earliest = c->nodes.position[c->node[n]];
    }
    if (earliest != UINT32_MAX) (void)rota_certify_search(c, node, earliest, ROTA_NONE);
    index = list->count;
    for (uint32_t link = list->head; index > covered; link = LINKS(c)[link].next, index--) {
        const uint32_t n = LINKS(c)[link].operation;
        if (c->segment[n] == segment && c->node[n] != node && c->nodes.visited[c->node[n]] != c->nodes.visit)
            return false;
    }
    set->witness[set->next_witness] = node;
    set->covered[set->next_witness] = list->count;
    set->next_witness = (set->next_witness + 1) % WITNESSES;
    return true;
}

/* A predecessor of operation n's that may come after all of the list: a join, or the last of them. */
static bool find_witness(certifier *c, const op_list *list, crowd *set, uint32_t n) {
    const uint32_t node = c->node[n];
    uint32_t last = ROTA_NONE, tried = 0;
    for (uint32_t e = c->nodes.first_predecessor[node]; e < c->nodes.first_predecessor[node + 1]; e++) {
        const uint32_t before = c->nodes.predecessor[e];
        if (last == ROTA_NONE || c->nodes.position[before] > c->nodes.position[last]) last = before;
        if (is_join(c, before) && tried++ < WITNESSES && bear_witness(c, list, set, before)) return true;
    }
    return last != ROTA_NONE && !tried && bear_witness(c, list, set, last);
}

static uint32_t covered_for(const certifier *c, const crowd *set, uint32_t n) {
    uint32_t covered = 0;
    for (uint32_t w = 0; w < WITNESSES; w++)
        if (set->covered[w] > covered && c->nodes.segment[set->witness[w]] == c->segment[n] &&
            (set->witness[w] == c->node[n] || known_before(c, set->witness[w], c->node[n])))
            covered = set->covered[w];
    return covered;
}

static bool is_overwritten(const certifier *c, const meeting *m, uint32_t operation);

static rota_status check_each(certifier *c, const meeting *m, uint32_t n, uint32_t covered, const char *why) {
    uint32_t index = m->list->count;
    for (uint32_t link = m->list->head; index > covered; link = LINKS(c)[link].next, index--) {
        const uint32_t earlier = LINKS(c)[link].operation;
        if (earlier + 1 < m->since || earlier + 1 < m->skip) break;
        if (earlier == n || is_known_before(c, earlier, n) || (m->parts && is_overwritten(c, m, earlier)))
            continue;
        ROTA_TRY(rota_certify_check_pair(c, earlier, n, why));
    }
    return ROTA_OK;
}

/* Operation n comes after all of the list, if it is not one of them. */
rota_status rota_certify_check_list(certifier *c, const meeting *m, uint32_t n, const char *why) {
    op_list *list = m->list;
    if (list->count && LINKS(c)[list->head].operation + 1 < m->since) *list = (op_list){0};
    if (list->count && LINKS(c)[list->head].operation + 1 < m->skip) return ROTA_OK;
    if (list->count <= CROWD_AT) return check_each(c, m, n, 0, why);
    crowd *set = NULL;
    ROTA_TRY(crowd_of(c, list, &set));
    uint32_t fresh = list->count - set->summed;
    for (uint32_t link = list->head; fresh; link = LINKS(c)[link].next, fresh--)
        ROTA_TRY(sum_operation(c, set, LINKS(c)[link].operation));
    set->summed = list->count;
    bool meets;
    if (!crowd_is_before(c, set, n, &meets)) /* says which, or that it is n itself */
        return check_each(c, m, n, 0, why);
    if (!meets) return ROTA_OK;
    /* By batches and waits all is well. By edges: what no witness covers, one by one. */
    uint32_t covered = covered_for(c, set, n);
    if (list->count - covered > CROWD_AT && find_witness(c, list, set, n)) covered = covered_for(c, set, n);
    return check_each(c, m, n, covered, why);
}

/* ---- Trees over ranges ---- */

/* Fewer are compared. */
enum { FEW_POINTS = 512 };

static int compare_points(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Sorts many points by their bytes, the lowest first; those bytes that are the same in all are passed over, and of the
 * offsets in an arena these are half of them. */
static rota_status sort_points(certifier *c, uint64_t *points, uint64_t count) {
    uint64_t *from = points, *to = rota_arena_alloc(&c->arena, sizeof *to * (size_t)count, 8);
    uint64_t differ = 0;
    if (!to) return rota_certify_no_memory(c);
    for (uint64_t i = 1; i < count; i++) differ |= points[i] ^ points[0];
    for (uint32_t shift = 0; shift < 64; shift += 8) {
        if (!(differ >> shift & 0xff)) continue;
        uint64_t first[257] = {0};
        for (uint64_t i = 0; i < count; i++) first[(from[i] >> shift & 0xff) + 1]++;
        for (uint32_t k = 1; k < 257; k++) first[k] += first[k - 1];
        for (uint64_t i = 0; i < count; i++) to[first[from[i] >> shift & 0xff]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != points) memcpy(points, from, sizeof *points * (size_t)count);
    return ROTA_OK;
}

rota_status rota_certify_settle_points(certifier *c, uint64_t *points, uint64_t count, uint32_t *out_count) {
    bool sorted = true;
    for (uint64_t i = 1; i < count && sorted; i++) sorted = points[i - 1] <= points[i];
    if (!sorted && count < FEW_POINTS)
        qsort(points, (size_t)count, sizeof *points, compare_points);
    else if (!sorted)
        ROTA_TRY(sort_points(c, points, count));
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++)
        if (!kept || points[kept - 1] != points[i]) points[kept++] = points[i];
    *out_count = (uint32_t)kept;
    return ROTA_OK;
}

uint32_t rota_certify_leaf_of(const uint64_t *points, uint32_t count, uint64_t point) {
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (points[middle] < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Gives each buffer that is touched in several ranges a tree over their ends. */
rota_status rota_certify_make_trees(certifier *c) {
    uint64_t points = 0;
    for (uint32_t i = 0; i < c->memory.instances.count; i++) {
        instance *it = &INSTANCES(c)[i];
        it->first_point = (uint32_t)points;
        if (it->leaves > 1) points += 2ull * it->access_count;
    }
    if (points > UINT32_MAX) return rota_certify_no_memory(c);
    c->memory.points = rota_arena_alloc(&c->arena, sizeof(uint64_t) * (points + 1), 8);
    if (!c->memory.points) return rota_certify_no_memory(c);
    for (uint32_t n = 0; n < c->operations && points; n++) {
        const rota_exec_command *command = command_of(c, n);
        for (uint32_t k = 0; k < command->operand_count; k++) {
            instance *it = &INSTANCES(c)[c->memory.instance_of[command->first_operand + k]];
            if (it->leaves <= 1) continue;
            const rota_exec_operand *operand =
                &c->plan->partitions[part_of(c, n)].desc.operands[command->first_operand + k];
            c->memory.points[it->first_point++] = operand->offset_bytes;
            c->memory.points[it->first_point++] = rota_exec_operand_end(operand);
        }
    }
    uint64_t trees = 0;
    for (uint32_t i = 0; i < c->memory.instances.count; i++) {
        instance *it = &INSTANCES(c)[i];
        it->tree = (uint32_t)trees;
        if (it->leaves > 1) {
            it->first_point -= 2 * it->access_count;
            uint32_t kept = 0;
            ROTA_TRY(rota_certify_settle_points(c, c->memory.points + it->first_point,
                                                2ull * it->access_count, &kept));
            it->leaves = kept - 1;
            trees += 2ull * it->leaves - 1; /* nodes in depth first order */
        } else {
            trees++;
        }
    }
    if (trees > UINT32_MAX) return rota_certify_no_memory(c);
    c->memory.ranges = rota_arena_calloc(&c->arena, sizeof *c->memory.ranges * (trees + 1), 8);
    return c->memory.ranges ? ROTA_OK : rota_certify_no_memory(c);
}

/* By what the earlier one does, and the later. */
static const char *const conflicts[USE_KINDS][USE_KINDS] = {
    {"both read", "one reads and one then adds", "one reads and one then writes"},
    {"one adds and one then reads", "both add", "one adds and one then writes"},
    {"one writes and one then reads", "one writes and one then adds", "both write"}};

static rota_status check_free(certifier *c, op_list *list, uint32_t n) {
    bool by_edges;
    uint32_t count = list->count;
    if (!count || rota_certify_is_before(c, LINKS(c)[list->head].operation, n, &by_edges)) return ROTA_OK;
    for (uint32_t link = list->head; count; link = LINKS(c)[link].next, count--) {
        const uint32_t other = LINKS(c)[link].operation;
        if (other != n && !rota_certify_is_before(c, other, n, &by_edges) &&
            !rota_certify_is_before(c, n, other, &by_edges))
            return rota_certify_unordered(c, other, n, "both add there, and may not do it at once", by_edges);
    }
    return ROTA_OK;
}

static rota_status check_uses(certifier *c, op_list lists[USE_KINDS], meeting m, between last,
                              const range_access *a) {
    for (uint32_t use = 0; use < USE_KINDS; use++) {
        if (lists[use].count == 0 || (use == USE_READ && a->use == USE_READ)) continue;
        if (use == USE_ADD && a->use == USE_ADD) {
            if (a->free_order) ROTA_TRY(check_free(c, &lists[use], a->n));
            continue;
        }
        m.list = &lists[use];
        m.skip = a->use == USE_READ || use == USE_READ ? 0 : last.read;
        if (a->use != USE_ADD && use != USE_ADD && m.skip < last.add) m.skip = last.add;
        ROTA_TRY(rota_certify_check_list(c, &m, a->n, conflicts[use][a->use]));
    }
    return ROTA_OK;
}

/* Whether all that the operation touched of the range was overwritten since, in the tree below. */
static bool is_covered(const range_uses *ranges, uint32_t low, uint32_t high, uint32_t first, uint32_t end,
                       uint32_t operation) {
    if (ranges->written > operation + 1) return true;
    if (first <= low && high <= end) return false;
    const uint32_t middle = low + (high - low) / 2;
    return (first >= middle || is_covered(ranges + 1, low, middle, first, end, operation)) &&
           (end <= middle ||
            is_covered(ranges + (size_t)2 * (middle - low), middle, high, first, end, operation));
}

static bool is_overwritten(const certifier *c, const meeting *m, uint32_t operation) {
    const instance *it = &INSTANCES(c)[m->instance];
    const uint64_t *points = c->memory.points + it->first_point;
    const rota_exec_command *command = command_of(c, operation);
    const rota_exec_operand *operands = c->plan->partitions[part_of(c, operation)].desc.operands;
    for (uint32_t k = command->first_operand; k < command->first_operand + command->operand_count; k++) {
        if (c->memory.instance_of[k] != m->instance) continue;
        const uint32_t first = rota_certify_leaf_of(points, it->leaves, operands[k].offset_bytes);
        const uint32_t end =
            rota_certify_leaf_of(points, it->leaves + 1, rota_exec_operand_end(&operands[k]));
        if (first < m->high && end > m->low && !is_covered(m->parts, m->low, m->high, first, end, operation))
            return false;
    }
    return true;
}

static uint32_t newest(const certifier *c, const op_list *list) {
    return list->count ? LINKS(c)[list->head].operation + 1 : 0;
}

static void drop_older(const certifier *c, op_list *list, uint32_t than) {
    if (newest(c, list) < than) *list = (op_list){0};
}

/* Reads that adds or writes came after and now a read of all, or adds that reads came after and now an add to
 * all: who comes after that comes after them. */
static void drop_implied(const certifier *c, range_uses *ranges, use_kind use) {
    const use_kind other = use == USE_READ ? USE_ADD : USE_READ;
    const uint32_t whole = newest(c, &ranges->whole[other]);
    uint32_t any = newest(c, &ranges->part[other]);
    if (any < whole) any = whole;
    if (any < newest(c, &ranges->part[USE_WRITE])) any = newest(c, &ranges->part[USE_WRITE]);
    drop_older(c, &ranges->whole[use], any);
    drop_older(c, &ranges->part[use], whole);
}

/* Node `v` of the tree has leaves [low, high): its left half follows it, its right half that. */
rota_status rota_certify_visit_range(certifier *c, range_uses *ranges, uint32_t low, uint32_t high,
                                     uint32_t since, between last, const range_access *a) {
    meeting m = {.since = since, .instance = a->instance};
    if (last.read < newest(c, &ranges->whole[USE_READ])) last.read = newest(c, &ranges->whole[USE_READ]);
    if (last.add < newest(c, &ranges->whole[USE_ADD])) last.add = newest(c, &ranges->whole[USE_ADD]);
    ROTA_TRY(check_uses(c, ranges->whole, m, last, a));
    if (a->first <= low && high <= a->end) {
        m.parts = high - low > 1 ? ranges : NULL;
        m.low = low;
        m.high = high;
        ROTA_TRY(check_uses(c, ranges->part, m, last, a));
        if (a->use == USE_WRITE)
            *ranges = (range_uses){.written = a->n + 1};
        else
            drop_implied(c, ranges, a->use);
        return list_push(c, &ranges->whole[a->use], a->n);
    }
    ROTA_TRY(list_push(c, &ranges->part[a->use], a->n));
    if (since < ranges->written) since = ranges->written;
    const uint32_t middle = low + (high - low) / 2;
    if (a->first < middle) ROTA_TRY(rota_certify_visit_range(c, ranges + 1, low, middle, since, last, a));
    if (a->end > middle)
        ROTA_TRY(
            rota_certify_visit_range(c, ranges + (size_t)2 * (middle - low), middle, high, since, last, a));
    return ROTA_OK;
}
