/* The default policy of automatic placement: HEFT, the same in record order, and each device alone; the best of them
 * by the model of placing_clock.c.
 *
 * H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling for heterogeneous
 * computing. IEEE Transactions on Parallel and Distributed Systems 13(3), 2002. */
#include <math.h>
#include <string.h>
#include "base/arena.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "sched/plan/placing_clock.h"
#include "sched/plan/placing_memory.h"

/* Of each hardware's gaps so many of the widest are kept: the search for one is not to grow with the nodes. */
enum { GAPS_MAX = 16 };
/* Several devices are taken only where they are faster than the best one by this: costs are no better known. */
#define WORTH_IT 0.95

typedef struct gap {
    double begin, end;
} gap;

typedef struct hardware_time {
    gap gaps[GAPS_MAX];
    uint32_t gap_count;
    double free; /* when the last node lets others begin */
} hardware_time;

typedef struct search {
    const rota_placing *placing;
    rota_arena arena;
    rota_placing_clock clock;
    rota_placing_memory memory;
    double *arrived;   /* HEFT's own, by value and device */
    double *ended;     /* by node */
    float *rank;       /* by node */
    uint32_t *order;   /* by rank, largest first */
    uint32_t *scratch; /* as many */
    uint8_t *candidate, *single;
    hardware_time hardware[ROTA_PLACING_DEVICES_MAX];
} search;

/* ---- Upward ranks ---- */

/* Means over pairs of devices that are different hardware. */
static void mean_copy(const rota_placing *p, double *out_latency, double *out_byte) {
    double latency = 0, byte = 0;
    uint32_t pairs = 0;
    for (uint32_t from = 0; from < p->device_count; from++)
        for (uint32_t to = 0; to < p->device_count; to++) {
            if (p->hardware[from] == p->hardware[to]) continue;
            latency += p->latency_ns[from * p->device_count + to];
            byte += p->byte_ns[from * p->device_count + to];
            pairs++;
        }
    *out_latency = pairs ? latency / pairs : 0;
    *out_byte = pairs ? byte / pairs : 0;
}

static double mean_span(const rota_placing *p, uint32_t n) {
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t d = 0; d < p->device_count; d++) {
        if (!(p->nodes[n].possible >> d & 1)) continue;
        sum += rota_placing_cost_of(p, n, d)->span_ns;
        count++;
    }
    return sum / count;
}

/* A node's rank is no lower than that of whatever comes after it. */
static void find_ranks(search *s) {
    const rota_placing *p = s->placing;
    double latency, byte;
    mean_copy(p, &latency, &byte);
    for (uint32_t n = 0; n < p->node_count; n++) s->rank[n] = 0;
    for (uint32_t n = p->node_count; n-- > 0;) {
        const double rank = s->rank[n] + mean_span(p, n);
        s->rank[n] = (float)rank;
        const rota_placing_node *node = &p->nodes[n];
        for (uint32_t e = node->first_edge; e < node->first_edge + node->edge_count; e++) {
            const rota_placing_edge *edge = &p->edges[e];
            if (edge->from == ROTA_PLACING_OUTSIDE) continue;
            const float with = (float)(rank + (edge->bytes ? latency + byte * (double)edge->bytes : 0));
            if (s->rank[edge->from] < with) s->rank[edge->from] = with;
        }
    }
}

/* By falling rank; of equal ones in record order. Ranks are not negative, so that their bits rise with them. */
static void sort_by_rank(search *s) {
    enum { DIGIT_BITS = 11, DIGITS = 3, BUCKETS = 1 << DIGIT_BITS };
    const uint32_t count = s->placing->node_count;
    uint32_t *from = s->scratch, *to = s->order;
    for (uint32_t n = 0; n < count; n++) from[n] = n;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t first[BUCKETS + 1] = {0};
        for (uint32_t pass = 0; pass < 2; pass++) {
            for (uint32_t i = 0; i < count; i++) {
                uint32_t bits;
                memcpy(&bits, &s->rank[from[i]], sizeof bits);
                const uint32_t bucket = ~bits >> digit * DIGIT_BITS & (BUCKETS - 1);
                if (pass == 0)
                    first[bucket + 1]++;
                else
                    to[first[bucket]++] = from[i];
            }
            for (uint32_t b = 0; pass == 0 && b < BUCKETS; b++) first[b + 1] += first[b];
        }
        uint32_t *swapped = from;
        from = to;
        to = swapped;
    }
    s->order = from; /* the last that was written */
    s->scratch = to;
}

/* ---- Earliest finish, with insertion ---- */

static double value_arrives(const search *s, const uint8_t *devices, const rota_placing_edge *edge,
                            uint32_t device) {
    const rota_placing *p = s->placing;
    const double known = s->arrived[(size_t)edge->value * p->device_count + device];
    if (known >= 0) return known;
    const bool outside = edge->from == ROTA_PLACING_OUTSIDE;
    const uint32_t from = outside ? 0 : devices[edge->from];
    return (outside ? 0 : s->ended[edge->from]) + rota_placing_latency_ns(p, edge, from, device) +
           rota_placing_link_ns(p, edge, from, device);
}

/* When all that a node needs is on `device`; `commit`: it is going to be. */
static double ready_at(search *s, const uint8_t *devices, uint32_t n, uint32_t device, bool commit) {
    const rota_placing *p = s->placing;
    const rota_placing_node *node = &p->nodes[n];
    double ready = 0;
    for (uint32_t e = node->first_edge; e < node->first_edge + node->edge_count; e++) {
        const rota_placing_edge *edge = &p->edges[e];
        double here;
        if (edge->from != ROTA_PLACING_OUTSIDE && (devices[edge->from] == device || !edge->bytes)) {
            here = s->ended[edge->from];
        } else {
            here = value_arrives(s, devices, edge, device);
            if (commit) s->arrived[(size_t)edge->value * p->device_count + device] = here;
        }
        if (ready < here) ready = here;
    }
    return ready;
}

/* The earliest begin of something that keeps the hardware so long; *out_gap is the gap, or GAPS_MAX. */
static double find_begin(const hardware_time *time, double ready, double busy, uint32_t *out_gap) {
    double best = time->free > ready ? time->free : ready;
    *out_gap = GAPS_MAX;
    for (uint32_t g = 0; g < time->gap_count; g++) {
        const double begin = time->gaps[g].begin > ready ? time->gaps[g].begin : ready;
        if (begin + busy > time->gaps[g].end || begin >= best) continue;
        best = begin;
        *out_gap = g;
    }
    return best;
}

static void add_gap(hardware_time *time, double begin, double end) {
    uint32_t g = time->gap_count;
    if (!(end > begin)) return;
    if (g == GAPS_MAX) {
        for (uint32_t i = g = 0; i < GAPS_MAX; i++)
            if (time->gaps[i].end - time->gaps[i].begin < time->gaps[g].end - time->gaps[g].begin) g = i;
        if (time->gaps[g].end - time->gaps[g].begin >= end - begin) return;
    } else {
        time->gap_count++;
    }
    time->gaps[g] = (gap){begin, end};
}

static void take_time(hardware_time *time, uint32_t taken, double begin, double busy) {
    if (taken == GAPS_MAX) {
        add_gap(time, time->free, begin);
        time->free = begin + busy;
        return;
    }
    const gap whole = time->gaps[taken];
    time->gaps[taken] = time->gaps[--time->gap_count];
    add_gap(time, whole.begin, begin);
    add_gap(time, begin + busy, whole.end);
}

static void place_by_rank(search *s, uint8_t *devices) {
    const rota_placing *p = s->placing;
    find_ranks(s);
    sort_by_rank(s);
    for (size_t i = 0; i < (size_t)p->value_count * p->device_count; i++) s->arrived[i] = -1;
    memset(s->hardware, 0, sizeof s->hardware);
    for (uint32_t i = 0; i < p->node_count; i++) {
        const uint32_t n = s->order[i];
        double best_end = INFINITY, best_begin = 0;
        uint32_t best = 0, best_gap = GAPS_MAX;
        for (uint32_t d = 0; d < p->device_count; d++) {
            if (!(p->nodes[n].possible >> d & 1)) continue;
            const rota_placing_cost *cost = rota_placing_cost_of(p, n, d);
            uint32_t found;
            const double begin = find_begin(&s->hardware[p->hardware[d]], ready_at(s, devices, n, d, false),
                                            cost->busy_ns, &found);
            if (begin + cost->span_ns >= best_end) continue;
            best_end = begin + cost->span_ns;
            best_begin = begin;
            best = d;
            best_gap = found;
        }
        devices[n] = (uint8_t)best;
        s->ended[n] = best_end;
        (void)ready_at(s, devices, n, best, true);
        take_time(&s->hardware[p->hardware[best]], best_gap, best_begin,
                  rota_placing_cost_of(p, n, best)->busy_ns);
    }
}

/* ---- In record order ---- */

/* A placement's makespan, and whether memory is short somewhere. */
typedef struct outcome {
    double ns;
    bool is_short;
} outcome;

/* Where node `n` would end the earliest, of devices that have the memory; ROTA_PLACING_DEVICES_MAX: none has. */
static uint32_t best_with_room(const search *s, uint32_t n) {
    const rota_placing *p = s->placing;
    double best_end = INFINITY;
    uint32_t best = ROTA_PLACING_DEVICES_MAX;
    for (uint32_t d = 0; d < p->device_count; d++) {
        if (!(p->nodes[n].possible >> d & 1) || !rota_placing_memory_fits(&s->memory, n, d)) continue;
        const double end = rota_placing_clock_try(&s->clock, n, d);
        if (end >= best_end) continue;
        best_end = end;
        best = d;
    }
    return best;
}

static void reset(search *s) {
    rota_placing_clock_reset(&s->clock);
    rota_placing_memory_reset(&s->memory);
}

static void begin(search *s, uint32_t n, uint32_t device) {
    rota_placing_clock_begin(&s->clock, n, device);
    rota_placing_memory_begin(&s->memory, n, device);
}

static outcome place_in_order(search *s, uint8_t *devices) {
    const rota_placing *p = s->placing;
    bool is_short = false;
    reset(s);
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint32_t best = best_with_room(s, n);
        if (best == ROTA_PLACING_DEVICES_MAX) {
            best = (uint32_t)__builtin_ctz(p->nodes[n].possible);
            is_short = true;
        }
        devices[n] = (uint8_t)best;
        begin(s, n, best);
    }
    return (outcome){s->clock.all_ended, is_short};
}

/* Goes through a placement; with `moves`, what has no room goes to the next best device that has. */
static outcome go_through(search *s, uint8_t *devices, bool moves) {
    const rota_placing *p = s->placing;
    bool is_short = false;
    reset(s);
    for (uint32_t n = 0; n < p->node_count; n++) {
        if (!rota_placing_memory_fits(&s->memory, n, devices[n])) {
            const uint32_t best = moves ? best_with_room(s, n) : ROTA_PLACING_DEVICES_MAX;
            if (best < ROTA_PLACING_DEVICES_MAX)
                devices[n] = (uint8_t)best;
            else
                is_short = true;
        }
        begin(s, n, devices[n]);
    }
    return (outcome){s->clock.all_ended, is_short};
}

/* All that can be on `device` there, the rest on the lowest possible. False: nothing else than was placed is. */
static bool place_on_one(const search *s, uint32_t device, uint8_t *devices) {
    const rota_placing *p = s->placing;
    bool any = false;
    for (uint32_t n = 0; n < p->node_count; n++) {
        const uint32_t possible = p->nodes[n].possible;
        const bool here = possible >> device & 1;
        any |= here && (possible & (possible - 1));
        devices[n] = (uint8_t)(here ? device : (uint32_t)__builtin_ctz(possible));
    }
    return any;
}

/* ---- The choice ---- */

static bool is_time(double ns) {
    return ns >= 0 && isfinite(ns);
}

static rota_status check(const rota_placing *p) {
    if (p->device_count == 0 || p->device_count > ROTA_PLACING_DEVICES_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "placing: %u devices, expected 1 to %d", p->device_count,
                         ROTA_PLACING_DEVICES_MAX);
    const uint32_t all = p->device_count == 32 ? UINT32_MAX : (1u << p->device_count) - 1;
    for (uint32_t n = 0; n < p->node_count; n++) {
        const uint32_t possible = p->nodes[n].possible;
        if (!possible || (possible & ~all))
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "placing: node %u may be on devices %#x of %u; expected one of them or more", n,
                             possible, p->device_count);
        for (uint32_t d = 0; d < p->device_count; d++) {
            const rota_placing_cost *cost = rota_placing_cost_of(p, n, d);
            if (!(possible >> d & 1) || (is_time(cost->span_ns) && is_time(cost->busy_ns))) continue;
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "placing: node %u may be on device %u, and costs %g ns there, %g of them busy; "
                             "expected finite times that are not negative",
                             n, d, cost->span_ns, cost->busy_ns);
        }
    }
    return ROTA_OK;
}

static bool make_room(search *s) {
    const rota_placing *p = s->placing;
    const size_t nodes = (size_t)p->node_count + 1, values = (size_t)p->value_count * p->device_count + 1;
    s->arrived = rota_arena_alloc(&s->arena, sizeof(double) * values, 8);
    s->ended = rota_arena_alloc(&s->arena, sizeof(double) * nodes, 8);
    s->rank = rota_arena_alloc(&s->arena, sizeof(float) * nodes, 8);
    s->order = rota_arena_alloc(&s->arena, sizeof(uint32_t) * nodes, 8);
    s->scratch = rota_arena_alloc(&s->arena, sizeof(uint32_t) * nodes, 8);
    s->candidate = rota_arena_alloc(&s->arena, nodes, 1);
    s->single = rota_arena_alloc(&s->arena, nodes, 1);
    return s->arrived && s->ended && s->rank && s->order && s->scratch && s->candidate && s->single &&
           rota_placing_clock_init(&s->clock, p, &s->arena) &&
           rota_placing_memory_init(&s->memory, p, &s->arena);
}

/* Whether `a` is to be taken before `b`, of which it has to be a part of the time. */
static bool is_better(outcome a, outcome b, double part) {
    if (a.is_short != b.is_short) return b.is_short;
    return a.ns < part * b.ns;
}

static void choose(search *s, uint8_t *out_devices) {
    const rota_placing *p = s->placing;
    const size_t bytes = p->node_count;
    outcome single = {INFINITY, true};
    for (uint32_t d = 0; d < p->device_count; d++) {
        const bool any = place_on_one(s, d, s->candidate);
        if (!any && (single.ns < INFINITY || d + 1 < p->device_count)) continue;
        const outcome that = go_through(s, s->candidate, false);
        if (!is_better(that, single, 1)) continue;
        single = that;
        memcpy(s->single, s->candidate, bytes);
    }
    outcome several = place_in_order(s, out_devices);
    place_by_rank(s, s->candidate);
    const outcome by_rank = go_through(s, s->candidate, true);
    if (is_better(by_rank, several, 1)) {
        several = by_rank;
        memcpy(out_devices, s->candidate, bytes);
    }
    if (!is_better(several, single, WORTH_IT)) memcpy(out_devices, s->single, bytes);
}

rota_status rota_placing_choose(const rota_placing *placing, uint8_t *out_devices) {
    ROTA_GIVEN(placing);
    ROTA_GIVEN(out_devices);
    rota_placing room;
    if (!(placing = ROTA_SIZED_IN(rota_placing, placing, &room))) return ROTA_INVALID_ARGUMENT;
    ROTA_TRY(check(placing));
    if (placing->node_count == 0) return ROTA_OK;
    search s = {.placing = placing};
    const bool there = make_room(&s);
    if (there) choose(&s, out_devices);
    rota_arena_free(&s.arena);
    return there ? ROTA_OK
                 : rota_fail(ROTA_OUT_OF_MEMORY, "placing of %u nodes: no host memory", placing->node_count);
}

rota_status rota_placing_makespan(const rota_placing *placing, const uint8_t *devices,
                                  double *out_makespan_ns) {
    ROTA_GIVEN(placing);
    ROTA_GIVEN(devices);
    ROTA_GIVEN(out_makespan_ns);
    rota_placing room;
    if (!(placing = ROTA_SIZED_IN(rota_placing, placing, &room))) return ROTA_INVALID_ARGUMENT;
    ROTA_TRY(check(placing));
    for (uint32_t n = 0; n < placing->node_count; n++)
        if (devices[n] >= placing->device_count || !(placing->nodes[n].possible >> devices[n] & 1))
            return rota_fail(ROTA_INVALID_ARGUMENT, "placing: node %u on device %u; it may be on devices %#x",
                             n, devices[n], placing->nodes[n].possible);
    rota_arena arena = ROTA_ARENA_INIT;
    rota_placing_clock clock;
    const bool there = rota_placing_clock_init(&clock, placing, &arena);
    if (there) *out_makespan_ns = rota_placing_clock_run(&clock, devices);
    rota_arena_free(&arena);
    return there ? ROTA_OK
                 : rota_fail(ROTA_OUT_OF_MEMORY, "placing of %u nodes: no host memory", placing->node_count);
}
