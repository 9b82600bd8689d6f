/* Recomputation: where a plan's transient memory would pass its limit, buffers are given up between two uses
 * that are far apart, and computed again before the later one.
 *
 * A buffer can be given up if one pure node writes all of it, once, and whatever that node reads is not
 * overwritten before the later use: the node is then run again there (its clone), into a new buffer, and the
 * later uses read that. What the clone reads must be there: a transient that would be dead by then is
 * computed again in time, too, or kept longer where it is small or can't be. So all follows from the set of
 * buffers that are given up, and that set grows, the cheapest bytes first, until the largest sum of live
 * bytes in record order is below the limit. A buffer whose chain of clones would pass the limit where it is
 * computed again stays: so a long chain falls into runs with a kept buffer between them. A pure node gives
 * the same bits again, so results don't change.
 *
 * Time is kept in ticks: before, during and after each node, where after one is before the next. An operand
 * that is handed on in place ends during the node, and what takes its memory over begins after it. Sums are
 * changed by ranges of ticks (peaks.h), so giving up a buffer costs O(log nodes) for each buffer that its
 * clone reads. */
#include "sched/plan/recompute.h"
#include "graph/kernel_calls.h"

#include "sched/plan/pack.h"
#include "sched/plan/recompute_state.h"
#include "sched/plan/recompute_write.h"
#include "sched/plan/workspace.h"

#include <stdlib.h>
#include <string.h>

/* Buffers whose loss frees nothing at the moment, because of what it keeps alive, are tried again so often.
 */
enum { ROUNDS_MAX = 8 };
/* An input is kept for a clone where it is at most this part of what the clone writes. */
enum { SMALL_SHARE = 8 };
/* Clones that giving up one buffer may move; bounds its time. */
enum { MOVED_MAX = 128 };
/* A buffer that costs so many times what was thought waits for the next round. */
#define DEARER 1.01
/* Operations of arithmetic that cost as much as moving a byte. */
#define WORK_PER_BYTE 32.0

/* ---- Who uses what ---- */

static rota_status count_accesses(state *s) {
    uint64_t accesses = 0;
    for (uint32_t node = 0; node < s->node_count; node++)
        if (s->records[node]) accesses += s->records[node]->access_count;
    rota_arena *arena = &s->c->scratch;
    s->first_access = rota_arena_alloc(arena, sizeof(uint32_t) * ((size_t)s->node_count + 1), 8);
    s->buffer_of = rota_arena_alloc(arena, sizeof(uint32_t) * (size_t)accesses, 8);
    s->uses = rota_arena_alloc(arena, sizeof(uint32_t) * (size_t)accesses, 8);
    s->writes = rota_arena_alloc(arena, sizeof(uint32_t) * (size_t)accesses, 8);
    s->slot_writes = rota_arena_alloc(arena, sizeof(uint32_t) * (size_t)accesses, 8);
    s->external_writes = rota_arena_alloc(arena, sizeof(uint32_t) * (size_t)accesses, 8);
    if (!s->first_access || !s->buffer_of || !s->uses || !s->writes || !s->slot_writes || !s->external_writes)
        return rota_compile_no_memory(s->c);
    uint32_t access = 0;
    for (uint32_t node = 0; node < s->node_count; node++) {
        s->first_access[node] = access;
        const rota_node_record *record = s->records[node];
        for (uint32_t i = 0; record && i < record->access_count; i++)
            ROTA_TRY(rota_compile_buffer_index(s->c, rota_access_stored(&rota_node_accesses(record)[i]),
                                               &s->buffer_of[access++]));
    }
    s->first_access[s->node_count] = access;
    s->buffer_count = (uint32_t)s->c->buffers.count;
    return ROTA_OK;
}

static rota_status list_uses(state *s) {
    rota_arena *arena = &s->c->scratch;
    const size_t bytes = sizeof(uint32_t) * ((size_t)s->buffer_count + 2);
    s->first_use = rota_arena_calloc(arena, bytes, 8);
    s->first_write = rota_arena_calloc(arena, bytes, 8);
    s->lives = rota_arena_calloc(arena, sizeof *s->lives * ((size_t)s->buffer_count + 1), 8);
    if (!s->first_use || !s->first_write || !s->lives) return rota_compile_no_memory(s->c);
    /* Counts two ahead, then begins one ahead, then moved on by filling in. */
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t node = 0; node < s->node_count; node++) {
            const rota_node_record *record = s->records[node];
            for (uint32_t i = 0; record && i < record->access_count; i++) {
                const uint32_t buffer = s->buffer_of[s->first_access[node] + i];
                const bool writes = ROTA_ACCESS_MODE(&rota_node_accesses(record)[i]) != ROTA_READ;
                if (!fill) {
                    s->first_use[buffer + 2]++;
                    s->first_write[buffer + 2] += writes;
                    continue;
                }
                s->uses[s->first_use[buffer + 1]++] = node;
                if (!writes) continue;
                s->writes[s->first_write[buffer + 1]++] = node;
                const rota_buffer_kind kind = (rota_buffer_kind)buffer_at(s, buffer)->kind;
                if (kind == ROTA_BUFFER_SLOT) s->slot_writes[s->slot_write_count++] = node;
                if (kind == ROTA_BUFFER_SLOT || kind == ROTA_BUFFER_PERSISTENT)
                    s->external_writes[s->external_write_count++] = node;
            }
        }
        for (uint32_t buffer = 0; !fill && buffer < s->buffer_count; buffer++) {
            s->first_use[buffer + 2] += s->first_use[buffer + 1];
            s->first_write[buffer + 2] += s->first_write[buffer + 1];
        }
    }
    return ROTA_OK;
}

/* Whether a node of the sorted list lies strictly between two. */
static bool any_between(const uint32_t *nodes, uint32_t count, uint32_t after, uint32_t before) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (nodes[middle] <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && nodes[low] < before;
}

static bool written_between(const state *s, uint32_t buffer, uint32_t after, uint32_t before) {
    const rota_buffer_kind kind = (rota_buffer_kind)buffer_at(s, buffer)->kind;
    /* What is bound to a slot may be any persistent buffer, or what another slot has. */
    if (kind == ROTA_BUFFER_SLOT)
        return any_between(s->external_writes, s->external_write_count, after, before);
    if (kind == ROTA_BUFFER_PERSISTENT && any_between(s->slot_writes, s->slot_write_count, after, before))
        return true;
    return any_between(s->writes + s->first_write[buffer],
                       s->first_write[buffer + 1] - s->first_write[buffer], after, before);
}

/* ---- Lives ---- */

static void set_life(state *s, uint32_t buffer) {
    life *l = &s->lives[buffer];
    const rota_buffer *root = buffer_at(s, buffer);
    const uint32_t first = s->first_use[buffer], end = s->first_use[buffer + 1];
    l->producer = l->again = ROTA_NONE;
    l->end = -1;
    if (root->kind == ROTA_BUFFER_PERSISTENT || root->kind == ROTA_BUFFER_SLOT || first == end) return;
    l->bytes = rota_aligned_size(root->size_bytes);
    l->begin = TICK_DURING(s->uses[first]);
    l->end = root->kind == ROTA_BUFFER_OUTPUT ? TICK_AFTER(s->node_count) : TICK_AFTER(s->uses[end - 1]);
}

/* Whether the kernel works in place on each of the node's operands in a buffer. */
static bool all_in_place(const rota_node_record *record, const uint32_t *buffers, uint32_t buffer,
                         uint64_t size) {
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++)
        if (buffers[i] == buffer &&
            (!(record->u.kernel.kernel->inplace_inputs >> i & 1) || rota_access_size(&accesses[i]) != size))
            return false;
    return true;
}

/* Pairs what ends in a node with what begins there in its memory, as packing will (pack.c). */
static void hand_on(state *s, uint32_t node) {
    const rota_node_record *record = s->records[node];
    if (!record || record->kind != ROTA_NODE_KERNEL) return;
    const rota_kernel *kernel = record->u.kernel.kernel;
    const uint32_t *buffers = s->buffer_of + s->first_access[node];
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t out = 0; out < record->access_count && kernel->inplace_outputs; out++) {
        life *to = &s->lives[buffers[out]];
        if (!(kernel->inplace_outputs >> out & 1) || to->begin != TICK_DURING(node) || !to->bytes) continue;
        for (uint32_t in = 0; in < record->access_count; in++) {
            life *from = &s->lives[buffers[in]];
            if (!(kernel->inplace_inputs >> in & 1) || from->end != TICK_AFTER(node) || from == to ||
                from->begin >= TICK_DURING(node) || from->bytes != to->bytes ||
                rota_access_size(&accesses[in]) != rota_access_size(&accesses[out]) ||
                !all_in_place(record, buffers, buffers[in], rota_access_size(&accesses[in])))
                continue;
            to->begin = TICK_AFTER(node);
            from->end = TICK_DURING(node);
            from->taken_over = buffers[out] + 1;
            break;
        }
    }
}

/* A node whose repetition gives the same again, and changes nothing but transients that it writes whole. */
static bool repeatable(const state *s, uint32_t node) {
    const rota_node_record *record = s->records[node];
    if (record->kind == ROTA_NODE_HOST || record->kind == ROTA_NODE_CONDITIONAL) return false;
    if (record->kind == ROTA_NODE_KERNEL && !(record->u.kernel.kernel->flags & ROTA_KERNEL_PURE))
        return false;
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++) {
        const rota_access_mode mode = ROTA_ACCESS_MODE(&accesses[i]);
        if (mode == ROTA_READ) continue;
        const rota_buffer *root = buffer_at(s, s->buffer_of[s->first_access[node] + i]);
        if (mode != ROTA_WRITE || root->kind != ROTA_BUFFER_TRANSIENT ||
            ROTA_ACCESS_OFFSET(&accesses[i]) != 0 || rota_access_size(&accesses[i]) != root->size_bytes)
            return false;
    }
    return true;
}

static double cost_of(const state *s, uint32_t node) {
    const rota_node_record *record = s->records[node];
    uint64_t sizes[ROTA_OPERATION_ACCESSES_MAX];
    double bytes = 0;
    for (uint32_t i = 0; i < record->access_count; i++) {
        sizes[i] = rota_access_size(&rota_node_accesses(record)[i]);
        bytes += (double)sizes[i];
    }
    if (record->kind != ROTA_NODE_KERNEL) return bytes;
    return bytes + rota_kernel_work(record->u.kernel.kernel, rota_node_params(record), sizes) / WORK_PER_BYTE;
}

/* Whether what a node reads is still the same before node `to`. */
static bool inputs_last(const state *s, uint32_t node, uint32_t to) {
    const rota_node_record *record = s->records[node];
    for (uint32_t i = 0; i < record->access_count; i++)
        if (ROTA_ACCESS_MODE(&rota_node_accesses(record)[i]) == ROTA_READ &&
            written_between(s, s->buffer_of[s->first_access[node] + i], node, to))
            return false;
    return true;
}

/* Finds who could compute a buffer again, and whether there is a gap to give it up in. */
static bool find_gap(state *s, uint32_t buffer) {
    life *l = &s->lives[buffer];
    const uint32_t first = s->first_use[buffer], end = s->first_use[buffer + 1];
    if (!l->bytes || buffer_at(s, buffer)->kind != ROTA_BUFFER_TRANSIENT) return false;
    if (s->first_write[buffer + 1] - s->first_write[buffer] != 1) return false;
    const uint32_t producer = s->uses[first];
    if (s->writes[s->first_write[buffer]] != producer || !repeatable(s, producer)) return false;
    l->producer = producer;
    uint32_t widest = 1;
    for (uint32_t u = first; u + 1 < end; u++)
        if (s->uses[u + 1] - s->uses[u] > widest) {
            widest = s->uses[u + 1] - s->uses[u];
            l->early = s->uses[u];
            l->late = s->uses[u + 1];
        }
    l->can_go = widest >= 2 && inputs_last(s, producer, l->late);
    return l->can_go;
}

/* What one more run of a node could bring: all of its results that may be given up and were not. */
static uint64_t bytes_of_run(const state *s, uint32_t node) {
    uint64_t bytes = 0;
    const rota_node_record *record = s->records[node];
    for (uint32_t i = 0; i < record->access_count; i++) {
        const life *l = &s->lives[s->buffer_of[s->first_access[node] + i]];
        if (l->producer == node && ROTA_ACCESS_MODE(&rota_node_accesses(record)[i]) != ROTA_READ &&
            l->can_go && !l->given_up)
            bytes += l->bytes;
    }
    return bytes;
}

static int compare_candidates(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->cost != b->cost) return a->cost < b->cost ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

/* What kernels get beside their operands. Of plans of several parts it is not known yet where nodes run: there packing
 * shows what it came to. */
static void add_workspaces(state *s) {
    for (uint32_t node = 0; node < s->node_count && !s->c->spread.several_parts; node++) {
        if (!s->records[node]) continue;
        const uint64_t bytes =
            rota_compile_workspace_bytes(s->c, 0, s->records[node], s->buffer_of + s->first_access[node]);
        rota_peaks_add(&s->peaks, TICK_DURING(node), TICK_DURING(node), (int64_t)rota_aligned_size(bytes));
    }
}

static rota_status prepare(state *s) {
    ROTA_TRY(count_accesses(s));
    ROTA_TRY(list_uses(s));
    rota_arena *arena = &s->c->scratch;
    s->restore = rota_arena_alloc(arena, sizeof(uint32_t) * ((size_t)s->node_count + 1), 8);
    s->candidates = rota_arena_alloc(arena, sizeof(candidate) * ((size_t)s->buffer_count + 1), 8);
    s->seen = rota_arena_calloc(arena, sizeof(uint32_t) * ((size_t)s->node_count + 1), 8);
    if (!s->restore || !s->candidates || !s->seen ||
        !rota_peaks_init(&s->peaks, arena, 2 * s->node_count + 3))
        return rota_compile_no_memory(s->c);
    memset(s->restore, 0xff, sizeof(uint32_t) * (size_t)s->node_count);
    for (uint32_t buffer = 0; buffer < s->buffer_count; buffer++) set_life(s, buffer);
    for (uint32_t node = 0; node < s->node_count; node++) hand_on(s, node);
    for (uint32_t buffer = 0; buffer < s->buffer_count; buffer++) {
        const life *l = &s->lives[buffer];
        rota_peaks_add(&s->peaks, l->begin, l->end, (int64_t)l->bytes);
        if (find_gap(s, buffer)) s->candidates[s->candidate_count++].buffer = buffer;
    }
    add_workspaces(s);
    for (uint32_t i = 0; i < s->candidate_count; i++) {
        const uint32_t producer = s->lives[s->candidates[i].buffer].producer;
        s->candidates[i].cost = cost_of(s, producer) / (double)bytes_of_run(s, producer);
    }
    return ROTA_OK;
}

/* ---- Giving up ---- */

/* Nobody takes its memory over any more: who did begins as its node does. */
static void keep_memory(state *s, life *l) {
    if (!l->taken_over) return;
    life *other = &s->lives[l->taken_over - 1];
    rota_peaks_add(&s->peaks, other->begin - 1, other->begin - 1, (int64_t)other->bytes);
    other->begin--;
    l->taken_over = 0;
}

static void extend(state *s, life *l, int64_t *end, int64_t to) {
    if (*end >= to) return;
    rota_peaks_add(&s->peaks, *end + 1, to, (int64_t)l->bytes);
    *end = to;
    if (end == &l->end) keep_memory(s, l);
}

/* Whether the node's clone before node `to` finds an input computed again that was not given up so far: one
 * that is dead by then, may be computed again, and is not so small beside what the node writes that it is
 * kept instead. */
static bool revives(const state *s, uint32_t node, const life *l, uint32_t to) {
    if (l->given_up || l->end >= TICK_BEFORE(to) || l->producer == ROTA_NONE) return false;
    uint64_t largest = 0;
    const rota_node_record *record = s->records[node];
    for (uint32_t i = 0; i < record->access_count; i++) {
        const life *out = &s->lives[s->buffer_of[s->first_access[node] + i]];
        if (ROTA_ACCESS_MODE(&rota_node_accesses(record)[i]) != ROTA_READ && out->bytes > largest)
            largest = out->bytes;
    }
    return l->bytes * SMALL_SHARE > largest && inputs_last(s, l->producer, to);
}

static bool lower_later(state *s, uint32_t node, uint32_t to) {
    if (!rota_vector_reserve(&s->lowered, sizeof(lowering), 1)) return false;
    ((lowering *)s->lowered.data)[s->lowered.count++] = (lowering){node, to};
    return true;
}

/* From when a buffer counts that is computed again before node `at`. What only other clones read counts from
 * the next tick on: most such buffers end with the clones that come there, one after the other, so the sum
 * there would be far too high; if it is too low, packing shows it, and less is aimed at (compile.c). */
static int64_t again_from(const life *l, uint32_t node) {
    return TICK_BEFORE(node) + (l->late == ROTA_NONE);
}

/* The node's clone comes no later than before node `to`. */
static rota_status lower_one(state *s, uint32_t node, uint32_t to) {
    const uint32_t old = s->restore[node];
    if (old != ROTA_NONE && old <= to) return ROTA_OK;
    s->restore[node] = to;
    const rota_access_record *accesses = rota_node_accesses(s->records[node]);
    for (uint32_t i = 0; i < s->records[node]->access_count; i++) {
        const uint32_t buffer = s->buffer_of[s->first_access[node] + i];
        life *l = &s->lives[buffer];
        if (!l->bytes) continue;
        if (ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ) {
            if (l->given_up)
                rota_peaks_add(&s->peaks, again_from(l, to),
                               old == ROTA_NONE ? l->late_end : again_from(l, old) - 1, (int64_t)l->bytes);
            continue;
        }
        if (old == ROTA_NONE) {
            if (!rota_vector_reserve(&s->reads, sizeof(clone_read), 1)) return rota_compile_no_memory(s->c);
            ((clone_read *)s->reads.data)[s->reads.count++] = (clone_read){node, l->clone_reads};
            l->clone_reads = (uint32_t)s->reads.count;
        }
        if (revives(s, node, l, to)) {
            /* It was at most an output of a clone that nobody needed. */
            const uint32_t clone = s->restore[l->producer];
            l->given_up = true;
            l->late = ROTA_NONE;
            l->late_end = TICK_BEFORE(clone != ROTA_NONE && clone > to ? clone : to);
            if (clone != ROTA_NONE)
                rota_peaks_add(&s->peaks, again_from(l, clone), l->late_end, (int64_t)l->bytes);
            if (!lower_later(s, l->producer, to)) return rota_compile_no_memory(s->c);
        } else if (!l->given_up) {
            extend(s, l, &l->end, TICK_BEFORE(to));
        } else if (!in_first_life(l, to)) {
            extend(s, l, &l->late_end, TICK_BEFORE(to));
            if (!lower_later(s, l->producer, to)) return rota_compile_no_memory(s->c);
        }
    }
    return ROTA_OK;
}

/* The node that a given-up buffer's clone must come before, given who reads it. */
static uint32_t needed_before(const state *s, const life *l) {
    uint32_t node = l->late;
    const clone_read *reads = s->reads.data;
    for (uint32_t r = l->clone_reads; r; r = reads[r - 1].next) {
        const uint32_t restored = s->restore[reads[r - 1].node];
        if (TICK_BEFORE(restored) > TICK_AFTER(l->early) && restored < node) node = restored;
    }
    return node;
}

/* What giving a buffer up leads to. */
typedef struct effect {
    uint64_t kept;  /* bytes that are kept at the tick asked for, and were dead there */
    uint64_t later; /* bytes that come to life where the buffer is computed again */
    double cost;    /* of the nodes that run again for it and did not yet */
    bool too_many;  /* clones move */
} effect;

/* If the buffer's clone comes before node `to`. */
static effect effect_of(state *s, uint32_t buffer, uint32_t to, uint32_t tick) {
    uint32_t pending[MOVED_MAX], count = 0, moved = 0;
    effect e = {0};
    s->questions++;
    pending[count++] = s->lives[buffer].producer;
    while (count && !e.too_many) {
        const uint32_t node = pending[--count], old = s->restore[node];
        if (s->seen[node] == s->questions || (old != ROTA_NONE && old <= to)) continue;
        s->seen[node] = s->questions;
        e.too_many = ++moved > MOVED_MAX;
        if (old == ROTA_NONE) e.cost += cost_of(s, node);
        const rota_access_record *accesses = rota_node_accesses(s->records[node]);
        for (uint32_t i = 0; i < s->records[node]->access_count && !e.too_many; i++) {
            const uint32_t other = s->buffer_of[s->first_access[node] + i];
            const life *l = &s->lives[other];
            if (!l->bytes || other == buffer) continue;
            if (ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ) {
                if (l->given_up && old != ROTA_NONE) e.later += l->bytes;
            } else if (revives(s, node, l, to) || !in_first_life(l, to)) {
                e.too_many = count == MOVED_MAX;
                if (!e.too_many) pending[count++] = l->producer;
            } else if (!l->given_up && l->end < TICK_BEFORE(to)) {
                e.later += l->bytes;
                if (l->end < tick) e.kept += l->bytes;
            }
        }
    }
    return e;
}

/* Whether giving the buffer up makes less of what lives at the tick, and passes the bound nowhere; and what
 * a byte of it costs. */
static bool gains(state *s, uint32_t buffer, uint32_t tick, uint64_t bound, double *out_cost) {
    const life *l = &s->lives[buffer];
    const uint32_t needed = needed_before(s, l);
    if (tick <= TICK_AFTER(l->early) || tick >= TICK_BEFORE(needed)) return false;
    /* A clone that is there already may come too early. */
    if (s->restore[l->producer] != ROTA_NONE && TICK_BEFORE(s->restore[l->producer]) <= tick) return false;
    const effect e = effect_of(s, buffer, needed, tick);
    *out_cost = e.cost / (double)bytes_of_run(s, l->producer);
    if (e.too_many || e.kept >= l->bytes) return false;
    return e.later == 0 || (e.later <= bound && rota_peaks_most_in(&s->peaks, TICK_BEFORE(needed),
                                                                   TICK_BEFORE(l->late)) <= bound - e.later);
}

static rota_status give_up(state *s, uint32_t buffer) {
    life *l = &s->lives[buffer];
    const uint32_t needed = needed_before(s, l), clone = s->restore[l->producer];
    rota_peaks_add(&s->peaks, TICK_AFTER(l->early) + 1, l->end, -(int64_t)l->bytes);
    l->late_end = l->end;
    l->end = TICK_AFTER(l->early);
    l->given_up = true;
    keep_memory(s, l);      /* whose later life the taker's does not follow */
    if (clone != ROTA_NONE) /* it was an output that nobody needed */
        rota_peaks_add(&s->peaks, again_from(l, clone), l->late_end, (int64_t)l->bytes);
    if (!lower_later(s, l->producer, needed)) return rota_compile_no_memory(s->c);
    while (s->lowered.count) {
        const lowering next = ((lowering *)s->lowered.data)[--s->lowered.count];
        ROTA_TRY(lower_one(s, next.node, next.to));
    }
    return ROTA_OK;
}

static rota_status choose(state *s, uint64_t target) {
    bool *taken = rota_arena_alloc(&s->c->scratch, s->candidate_count + 1u, 1);
    if (!taken) return rota_compile_no_memory(s->c);
    /* At first nothing may pass the target where it is computed again; once that gets no further, it need
     * only pass no peak that there is. */
    bool any = true, strict = true;
    for (uint32_t round = 0; round < ROUNDS_MAX && (any || strict); round++) {
        strict = strict && any;
        any = false;
        qsort(s->candidates, s->candidate_count, sizeof *s->candidates, compare_candidates);
        rota_peaks_withdraw_all(&s->peaks);
        for (uint32_t i = s->candidate_count; i-- > 0;) {
            const life *l = &s->lives[s->candidates[i].buffer];
            taken[i] = l->given_up;
            if (!l->given_up &&
                !rota_peaks_offer(&s->peaks, TICK_AFTER(l->early) + 1, TICK_BEFORE(l->late) - 1, i))
                return rota_compile_no_memory(s->c);
        }
        for (;;) {
            uint32_t tick;
            const uint64_t most = rota_peaks_most(&s->peaks, &tick);
            if (most <= target) return ROTA_OK;
            const uint32_t item = rota_peaks_best(&s->peaks, tick, taken);
            if (item == UINT32_MAX) break;
            candidate *chosen = &s->candidates[item];
            taken[item] = true;
            double cost;
            if (s->lives[chosen->buffer].given_up ||
                !gains(s, chosen->buffer, tick, strict ? target : most - 1, &cost))
                continue;
            any = true;
            if (cost > chosen->cost * DEARER && round + 1 < ROUNDS_MAX)
                chosen->cost = cost; /* what it takes with it costs, too: others may be cheaper */
            else
                ROTA_TRY(give_up(s, chosen->buffer));
        }
    }
    return ROTA_OK;
}

/* ---- The pass ---- */

rota_status rota_compile_recompute(rota_compiler *c, const rota_node_record **records) {
    rota_recomputed *out = &c->recomputed;
    state s = {.c = c, .records = records, .node_count = c->node_count};
    rota_status status = prepare(&s);
    if (status == ROTA_OK) out->bytes_without = rota_peaks_most(&s.peaks, &out->peak_tick);
    if (status == ROTA_OK) status = choose(&s, c->memory.target);
    if (status == ROTA_OK) {
        out->bytes = rota_peaks_most(&s.peaks, &out->peak_tick);
        status = rota_recompute_write(&s, out);
    }
    rota_peaks_free(&s.peaks);
    rota_vector_free(&s.reads);
    rota_vector_free(&s.lowered);
    return status;
}
