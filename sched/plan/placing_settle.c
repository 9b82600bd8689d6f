/* What was measured overrules what is modelled.
 *
 * Of each graph and set of devices a record is kept in the history of the first device: the best placement on several
 * devices that was measured, which way was taken last, and how many were tried. What replays took stands beside it, by
 * a key of the placement; of one device alone in that device's history, where plans that were compiled for it alone
 * teach it, too.
 *
 *     compile --> settle: least of what was measured, or a trial      (a record is read and written in one piece;
 *        ^          |                                                  two threads that settle one graph at a time may
 *        |          v                                                  lose one of two changes: a trial more)
 *     learn <---- replay */
#include "sched/plan/placing_settle.h"

#include <string.h>
#include "base/arena.h"
#include "sched/plan/placing_clock.h"
#include "sched/plan/placing_memory.h"

enum { SEVERAL_MAX = 8, UNPAID_MAX = 4, NODES_MAX = ROTA_HISTORY_KEPT_MAX - 64 };
/* Another way has to be better than the one in use by this, measured; or by the model, to be tried. */
#define BETTER 0.97
#define WORTH_IT 0.95
/* A device alone isn't tried where the model has it so many times slower than what was measured. */
#define RULED_OUT 16
/* So many times as long as when it was settled, or as short: costs have changed. */
#define MARKED 1.5

/* In the place of a device. */
#define WAY_NONE UINT32_MAX
#define WAY_SEVERAL (UINT32_MAX - 1)

/* As it is kept; the placement follows. */
typedef struct record {
    uint32_t version; /* RECORD_VERSION: of these bytes */
    uint32_t tried;   /* placements on several devices that taught, since costs last changed */
    uint32_t unpaid;  /* trials that were chosen since a replay taught */
    uint32_t again;   /* bits: devices that are to be measured alone again */
    uint32_t current; /* a device, WAY_SEVERAL or WAY_NONE */
    uint32_t node_count;
    double settled_ns; /* of the current way, when it became that */
} record;
enum { RECORD_VERSION = 1 };

/* ---- The record ---- */

/* `devices`: room for `room` nodes, or NULL. */
static record read_record(rota_history *first, uint64_t set, uint8_t *devices, uint32_t room) {
    record fresh = {.version = RECORD_VERSION, .current = WAY_NONE}, it;
    rota_arena arena = ROTA_ARENA_INIT;
    const size_t most = sizeof it + room;
    uint8_t *bytes = rota_arena_alloc(&arena, most, 8);
    const size_t size = bytes ? rota_history_kept(first, set, bytes, most) : 0;
    if (size >= sizeof it) {
        memcpy(&it, bytes, sizeof it);
        const bool whole = it.version == RECORD_VERSION && size == sizeof it + it.node_count &&
                           (it.node_count == 0 || it.node_count == room);
        if (whole) {
            fresh = it;
            memcpy(devices, bytes + sizeof it, it.node_count);
        }
    }
    rota_arena_free(&arena);
    return fresh;
}

static void keep_record(rota_history *first, uint64_t set, const record *it, const uint8_t *devices) {
    rota_arena arena = ROTA_ARENA_INIT;
    uint8_t *bytes = rota_arena_alloc(&arena, sizeof *it + it->node_count, 8);
    if (bytes) {
        memcpy(bytes, it, sizeof *it);
        if (it->node_count) memcpy(bytes + sizeof *it, devices, it->node_count);
        rota_history_keep(first, set, bytes, sizeof *it + it->node_count);
    }
    rota_arena_free(&arena);
}

/* ---- Ways ---- */

typedef struct way {
    uint8_t *devices;
    uint64_t key;
    rota_history *history;
    uint32_t device; /* WAY_SEVERAL: on several */
    bool is_measured, fits;
    double measured_ns, model_ns;
} way;

static uint64_t key_of(uint64_t set, const uint8_t *devices, uint32_t count) {
    uint64_t key = set;
    for (uint32_t n = 0; n < count; n++) key = rota_history_mix(key, devices[n]);
    return key;
}

/* The rest of a way whose devices are set. */
static rota_status describe(const rota_settling *s, way *it) {
    const rota_placing *p = s->placing;
    it->device = p->node_count ? it->devices[0] : 0;
    for (uint32_t n = 1; n < p->node_count && it->device != WAY_SEVERAL; n++)
        if (it->devices[n] != it->device) it->device = WAY_SEVERAL;
    const bool alone = it->device < s->own_count;
    it->key = alone ? s->graph : key_of(s->set, it->devices, p->node_count);
    it->history = s->histories[alone ? it->device : 0];
    it->fits = rota_placing_memory_fits_all(p, it->devices);
    it->is_measured = it->fits && rota_history_find(it->history, it->key, &it->measured_ns);
    return rota_placing_makespan(p, it->devices, &it->model_ns);
}

static bool is_same(const way *a, const way *b) {
    return a->key == b->key && a->history == b->history;
}

static void place_on(const rota_placing *p, uint32_t device, uint8_t *out_devices) {
    for (uint32_t n = 0; n < p->node_count; n++) {
        const uint32_t possible = p->nodes[n].possible;
        out_devices[n] = (uint8_t)(possible >> device & 1 ? device : (uint32_t)__builtin_ctz(possible));
    }
}

static bool is_possible(const rota_placing *p, const uint8_t *devices) {
    for (uint32_t n = 0; n < p->node_count; n++)
        if (devices[n] >= p->device_count || !(p->nodes[n].possible >> devices[n] & 1)) return false;
    return true;
}

/* Those that may be: each device as far as it goes, then what was the best of several, then the model's. */
typedef struct ways {
    way all[ROTA_PLACING_DEVICES_MAX + 2];
    uint32_t own, count; /* own: of single devices */
    way *model;
} ways;

static rota_status list_ways(const rota_settling *s, record *it, uint8_t *kept, uint8_t *devices,
                             rota_arena *arena, ways *w) {
    const rota_placing *p = s->placing;
    w->own = s->own_count;
    for (uint32_t d = 0; d < s->own_count; d++) {
        way *single = &w->all[w->count++];
        single->devices = rota_arena_alloc(arena, (size_t)p->node_count + 1, 1);
        if (!single->devices) return rota_fail(ROTA_OUT_OF_MEMORY, "placing: no host memory");
        place_on(p, d, single->devices);
        ROTA_TRY(describe(s, single));
    }
    if (it->node_count && is_possible(p, kept)) {
        w->all[w->count].devices = kept;
        ROTA_TRY(describe(s, &w->all[w->count++]));
    } else {
        it->node_count = 0;
    }
    w->model = &w->all[w->count++];
    w->model->devices = devices;
    return describe(s, w->model);
}

/* Which way it is, in a record. */
static uint32_t name_of(const ways *w, const way *it) {
    for (uint32_t d = 0; d < w->own; d++)
        if (is_same(&w->all[d], it)) return d;
    return WAY_SEVERAL;
}

/* The best of those that were measured; NULL: none was. */
static const way *best_measured(const ways *w, const record *it) {
    const way *best = NULL, *current = NULL;
    for (uint32_t i = 0; i < w->count; i++) {
        const way *const that = &w->all[i];
        if (!that->is_measured) continue;
        if (!best || that->measured_ns < best->measured_ns) best = that;
        if (name_of(w, that) == it->current && (!current || that->measured_ns < current->measured_ns))
            current = that;
    }
    return current && best->measured_ns > BETTER * current->measured_ns ? current : best;
}

/* A device alone that is to be measured; NULL: none. */
static const way *untried_single(const ways *w, const record *it, const way *best) {
    for (uint32_t d = 0; d < w->own; d++) {
        const way *const single = &w->all[d];
        bool known = !single->fits || (single->is_measured && !(it->again >> d & 1));
        for (uint32_t e = 0; e < d && !known; e++) known = is_same(&w->all[e], single);
        if (!known && single->model_ns <= RULED_OUT * best->measured_ns) return single;
    }
    return NULL;
}

/* Whether the model's choice, of which no replay taught, is to be. */
static bool is_worth_a_trial(const rota_settling *s, const ways *w, const record *it, const way *best) {
    const way *const model = w->model;
    const bool several = name_of(w, model) == WAY_SEVERAL;
    double least = best->model_ns;
    if (s->explores) {
        if (it->unpaid >= UNPAID_MAX || (several && it->tried >= SEVERAL_MAX)) return false;
    } else {
        if (several && it->tried) return false;
        if (best->measured_ns < least) least = best->measured_ns;
    }
    return model->model_ns < WORTH_IT * least;
}

static const way *choose(const rota_settling *s, const ways *w, record *it, bool *out_trial) {
    const way *const best = best_measured(w, it);
    *out_trial = false;
    if (!best) return w->model;
    if (it->current != name_of(w, best)) {
        it->current = name_of(w, best);
        it->settled_ns = best->measured_ns;
    }
    const way *trial = s->explores && it->unpaid < UNPAID_MAX ? untried_single(w, it, best) : NULL;
    if (!trial && !w->model->is_measured && is_worth_a_trial(s, w, it, best)) trial = w->model;
    *out_trial = trial && s->explores;
    return trial ? trial : best;
}

/* ---- The two ends ---- */

rota_status rota_placing_settle(const rota_settling *s, uint8_t *devices, rota_settled *out) {
    const uint32_t count = s->placing->node_count;
    rota_arena arena = ROTA_ARENA_INIT;
    ways w = {.count = 0};
    uint8_t *const kept = rota_arena_alloc(&arena, (size_t)count + 1, 1);
    rota_status status =
        kept ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "placing of %u nodes: no host memory", count);
    record it = {.current = WAY_NONE};
    if (kept) it = read_record(s->histories[0], s->set, kept, count);
    const record before = it;
    if (status == ROTA_OK) status = list_ways(s, &it, kept, devices, &arena, &w);
    if (status == ROTA_OK) {
        bool is_trial;
        const way *const chosen = choose(s, &w, &it, &is_trial);
        *out = (rota_settled){.graph = s->graph,
                              .set = s->set,
                              .key = chosen->key,
                              .device = chosen->device < s->own_count ? chosen->device : WAY_NONE,
                              .node_count = count,
                              .is_trial = is_trial};
        if (chosen->devices != devices) memcpy(devices, chosen->devices, count);
        it.unpaid += is_trial;
        if (is_trial || it.current != before.current || it.node_count != before.node_count)
            keep_record(s->histories[0], s->set, &it, kept);
    }
    rota_arena_free(&arena);
    return status;
}

/* A placement on several devices taught, for the first time or not. Whether it is the one that is kept. */
static bool take_several(rota_history *first, const rota_settled *settled, bool is_new, double ns, record *it,
                         uint8_t *kept) {
    double best_ns;
    if (is_new) it->tried++;
    const uint64_t key = it->node_count ? key_of(settled->set, kept, it->node_count) : 0;
    if (key == settled->key) return true;
    if (!settled->devices || settled->node_count > NODES_MAX ||
        (rota_history_find(first, key, &best_ns) && ns >= best_ns))
        return false;
    memcpy(kept, settled->devices, settled->node_count);
    it->node_count = settled->node_count;
    if (it->current == WAY_SEVERAL) it->settled_ns = ns;
    return true;
}

/* Costs that have changed markedly are looked for in the way that is in use. */
static void look_for_change(record *it, double ns) {
    if (!(it->settled_ns > 0)) return;
    const double factor = ns / it->settled_ns;
    if (factor < MARKED && factor * MARKED > 1) return;
    it->tried = 0;
    it->again = UINT32_MAX;
    it->settled_ns = ns;
}

void rota_placing_taught(rota_history *first, rota_history *own, const rota_settled *settled, double ns) {
    const bool several = settled->device == WAY_NONE;
    rota_history *const history = several ? first : own;
    rota_arena arena = ROTA_ARENA_INIT;
    uint8_t *const kept = rota_arena_alloc(&arena, (size_t)settled->node_count + 1, 1);
    if (kept) {
        record it = read_record(first, settled->set, kept, settled->node_count);
        double now_ns = ns;
        const bool is_new = !rota_history_find(history, settled->key, &now_ns);
        const bool again = !several && it.again >> settled->device & 1;
        rota_history_note(history, settled->key, ns, again);
        (void)rota_history_find(history, settled->key, &now_ns);
        uint32_t taught = settled->device;
        it.unpaid = 0;
        if (!several)
            it.again &= ~(1u << settled->device);
        else if (take_several(first, settled, is_new, now_ns, &it, kept))
            taught = WAY_SEVERAL;
        if (taught != WAY_NONE && taught == it.current) look_for_change(&it, now_ns);
        keep_record(first, settled->set, &it, kept);
    }
    rota_arena_free(&arena);
}
