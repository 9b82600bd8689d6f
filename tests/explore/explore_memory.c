/* The explorer's memory: atomic objects as lists of stores, plain data, and who sleeps. See explore.h. */
#undef _FORTIFY_SOURCE
#include "explore_state.h"

#include <string.h>

#include "base/futex.h"
#include "base/status.h"

enum {
    STORES = 128, /* to one object in an execution */
    VIEWS = 1024,
    INDEX = 1024,   /* of objects; a power of two */
    SHADOW = 16384, /* granules of plain data; a power of two */
    HEAP_BYTES = 256 * 1024
};

typedef struct store {
    uint64_t value, id;
    int32_t view; /* that it releases; NOBODY: none */
} store;

/* Of one atomic object. The first two stay from one execution to the next, as all have one order of objects.
 */
typedef struct object {
    const volatile void *address;
    unsigned size, users; /* threads that ever used it, a bit each */
    bool is_written, is_shared;
    uint64_t execution; /* in which the rest is valid */
    uint64_t chain;     /* of its stores and of who slept */
    uint32_t count, floor;
    uint32_t sleeper_count;
    uint8_t sleepers[EXPLORE_THREADS];
    store stores[STORES];
} object;

typedef struct granule {
    uintptr_t key;
    uint64_t execution;
    uint32_t write_clock, read_clock[EXPLORE_THREADS];
    uint8_t writer;
} granule;

static object objects[OBJECTS];
static uint16_t index_of[INDEX];
static view views[VIEWS];
static granule shadow[SHADOW];

/* ---- Atomic objects ---- */

void explore_objects_forget(void) {
    memset(index_of, 0, sizeof index_of);
    memset(shadow, 0, sizeof shadow);
}

uint64_t explore_objects_hash(void) {
    uint64_t sum = 0;
    for (uint32_t p = 0; p < explored.object_count; p++)
        if (objects[p].execution == explored.execution && objects[p].chain)
            sum += mix(objects[p].chain, p + 1000);
    return sum;
}

const volatile void *explore_object_address(uint32_t number) {
    return objects[number].address;
}

void explore_object_leave(uint32_t number, unsigned sleeper) {
    object *p = &objects[number];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->sleeper_count; i++)
        if (p->sleepers[i] != sleeper) p->sleepers[kept++] = p->sleepers[i];
    p->sleeper_count = kept;
}

static uint64_t peek(const volatile void *address, unsigned size) {
    switch (size) {
    case 1:
        return *(const volatile uint8_t *)address;
    case 2:
        return *(const volatile uint16_t *)address;
    case 4:
        return *(const volatile uint32_t *)address;
    default:
        return *(const volatile uint64_t *)address;
    }
}

static void poke(volatile void *address, unsigned size, uint64_t value) {
    switch (size) {
    case 1:
        *(volatile uint8_t *)address = (uint8_t)value;
        break;
    case 2:
        *(volatile uint16_t *)address = (uint16_t)value;
        break;
    case 4:
        *(volatile uint32_t *)address = (uint32_t)value;
        break;
    default:
        *(volatile uint64_t *)address = value;
        break;
    }
}

static uint64_t cut_to(uint64_t value, unsigned size) {
    return size == 8 ? value : value & (((uint64_t)1 << size * 8) - 1);
}

static object *find_object(const volatile void *address, unsigned size, bool writes) {
    uint32_t i = (uint32_t)(((uintptr_t)address >> 2) * 2654435761u) & (INDEX - 1);
    while (index_of[i] && objects[index_of[i] - 1].address != address) i = (i + 1) & (INDEX - 1);
    if (!index_of[i]) {
        if (explored.object_count == OBJECTS) explore_fail(LIMIT "more than %d atomic objects", OBJECTS);
        objects[explored.object_count] = (object){.address = address, .size = size};
        index_of[i] = (uint16_t)++explored.object_count;
    }
    object *p = &objects[index_of[i] - 1];
    if (p->size != size) explore_fail(LIMIT "an atomic object used with %u and with %u bytes", p->size, size);
    if (p->execution != explored.execution) {
        p->execution = explored.execution;
        p->chain = 0;
        p->count = 1;
        p->floor = p->sleeper_count = 0;
        p->stores[0] = (store){peek(address, size), mix((uint64_t)(p - objects), 7), NOBODY};
    }
    p->users |= 1u << explored.current;
    p->is_written |= writes;
    if (!p->is_shared && p->is_written && (p->users & (p->users - 1))) p->is_shared = explored.restart = true;
    return p;
}

/* Before an operation on an object that others use, too: another thread may come first. */
static void point(const object *p) {
    if (p->is_shared) explore_point();
}

static uint32_t number_of(const object *p) {
    return (uint32_t)(p - objects);
}

static void join(view *into, const view *from) {
    for (unsigned t = 0; t < EXPLORE_THREADS; t++)
        if (into->clock[t] < from->clock[t]) into->clock[t] = from->clock[t];
    for (uint32_t p = 0; p < explored.object_count; p++)
        into->seen[p] = into->seen[p] < from->seen[p] ? from->seen[p] : into->seen[p];
}

static void copy_view(view *to, const view *from) {
    memcpy(to->clock, from->clock, sizeof to->clock);
    memcpy(to->seen, from->seen, explored.object_count * sizeof to->seen[0]);
    memset(to->seen + explored.object_count, 0, (OBJECTS - explored.object_count) * sizeof to->seen[0]);
}

static void saw(thread *me, object *p, uint32_t index, explore_order order) {
    const store *s = &p->stores[index];
    me->view.seen[number_of(p)] = (uint16_t)index;
    if ((order & EXPLORE_ACQUIRE) && s->view != NOBODY) join(&me->view, &views[s->view]);
    if (order == EXPLORE_SEQ_CST && p->floor < index) p->floor = index;
    me->chain = mix(me->chain, s->id);
}

/* Adds a store; `carried` is the view of the store that a read-modify-write saw. */
static void put(thread *me, object *p, uint64_t value, explore_order order, int32_t carried) {
    if (p->count == STORES) explore_fail(LIMIT "more than %d stores to an object", STORES);
    const uint32_t index = p->count++;
    me->view.seen[number_of(p)] = (uint16_t)index;
    int32_t released = carried;
    if (order & EXPLORE_RELEASE) {
        if (explored.view_count == VIEWS) explore_fail(LIMIT "more than %d releases", VIEWS);
        released = (int32_t)explored.view_count++;
        copy_view(&views[released], &me->view);
        if (carried != NOBODY) join(&views[released], &views[carried]);
        me->view.clock[explored.current]++;
    }
    value = cut_to(value, p->size);
    me->chain = mix(me->chain, value);
    p->stores[index] = (store){value, mix(me->chain, (uint64_t)explored.current), released};
    p->chain = mix(p->chain, p->stores[index].id);
    if (order == EXPLORE_SEQ_CST) p->floor = index;
    poke((volatile void *)(uintptr_t)p->address, p->size, value);
}

static uint32_t oldest_for(const thread *me, const object *p, explore_order order) {
    const uint32_t seen = me->view.seen[number_of(p)];
    return order == EXPLORE_SEQ_CST && p->floor > seen ? p->floor : seen;
}

uint64_t explore_load(const volatile void *address, unsigned size, explore_order order,
                      const explore_site *site) {
    if (explored.current == NOBODY) return peek(address, size);
    thread *me = &explore_threads[explored.current];
    object *p = find_object(address, size, false);
    point(p);
    const uint32_t newest = p->count - 1, oldest = oldest_for(me, p, order);
    uint32_t behind = 0;
    if (oldest < newest && explored.used_stale < explored.stale) behind = explore_choose(newest - oldest + 1);
    if (behind) explored.used_stale++;
    saw(me, p, newest - behind, order);
    const uint64_t value = p->stores[newest - behind].value;
    explore_note("load", number_of(p), site, value, value, behind);
    return value;
}

void explore_store(volatile void *address, unsigned size, uint64_t value, explore_order order,
                   const explore_site *site) {
    if (explored.current == NOBODY) {
        poke(address, size, value);
        return;
    }
    object *p = find_object(address, size, true);
    point(p);
    explore_note("store", number_of(p), site, cut_to(value, size), cut_to(value, size), 0);
    put(&explore_threads[explored.current], p, value, order, NOBODY);
}

uint64_t explore_rmw(volatile void *address, unsigned size, explore_rmw_kind kind, uint64_t operand,
                     explore_order order, const explore_site *site) {
    object *p = NULL;
    if (explored.current != NOBODY) {
        p = find_object(address, size, true);
        point(p);
    }
    const uint64_t old = peek(address, size);
    const uint64_t value = cut_to(kind == EXPLORE_SET   ? operand
                                  : kind == EXPLORE_ADD ? old + operand
                                  : kind == EXPLORE_SUB ? old - operand
                                  : kind == EXPLORE_OR  ? old | operand
                                                        : old & operand,
                                  size);
    if (!p) {
        poke(address, size, value);
        return old;
    }
    const uint32_t newest = p->count - 1;
    explore_note("change", number_of(p), site, old, value, 0);
    saw(&explore_threads[explored.current], p, newest, order);
    put(&explore_threads[explored.current], p, value, order, p->stores[newest].view);
    return old;
}

bool explore_cas(volatile void *address, unsigned size, uint64_t *expected, uint64_t desired,
                 explore_order order, explore_order failure, const explore_site *site) {
    if (explored.current == NOBODY) {
        const uint64_t old = peek(address, size), wanted = cut_to(*expected, size);
        if (old == wanted) poke(address, size, desired);
        *expected = old;
        return old == wanted;
    }
    thread *me = &explore_threads[explored.current];
    object *p = find_object(address, size, true);
    point(p);
    const uint64_t wanted = cut_to(*expected, size);
    const uint32_t newest = p->count - 1;
    uint32_t found = newest;
    if (explored.used_stale < explored.stale) {
        /* Fails on an older store, too, if that differs from what is expected. */
        uint32_t list[STORES], count = 0;
        list[count++] = newest;
        for (uint32_t i = oldest_for(me, p, failure); i < newest; i++)
            if (p->stores[i].value != wanted) list[count++] = i;
        const unsigned chosen = explore_choose(count);
        found = list[chosen];
        if (chosen) explored.used_stale++;
    }
    const uint64_t old = p->stores[found].value;
    if (found != newest || old != wanted) {
        explore_note("cas fails", number_of(p), site, old, old, newest - found);
        saw(me, p, found, failure);
        *expected = old;
        return false;
    }
    explore_note("cas", number_of(p), site, old, cut_to(desired, size), 0);
    saw(me, p, newest, order);
    put(me, p, desired, order, p->stores[newest].view);
    return true;
}

/* ---- Futexes: the kernel looks at the newest value, and orders nothing ---- */

bool rota_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
    thread *me = &explore_threads[explored.current];
    object *p = find_object(word, sizeof *word, false);
    point(p);
    const uint32_t value = (uint32_t)p->stores[p->count - 1].value;
    me->chain = mix(me->chain, value);
    if (value != expected) {
        me->chain = mix(me->chain, p->stores[p->count - 1].id);
        explore_note("no sleep", number_of(p), NULL, value, value, 0);
        return true;
    }
    explore_note("sleeps", number_of(p), NULL, value, value, 0);
    me->state = BLOCKED;
    me->word = number_of(p);
    me->deadline_ns = deadline_ns;
    me->timed_out = false;
    me->chain = mix(me->chain, 4);
    p->sleepers[p->sleeper_count++] = (uint8_t)explored.current;
    p->chain = mix(p->chain, mix(me->chain, 4));
    const unsigned next = explore_next_thread();
    explore_switch_to(next);
    return !me->timed_out;
}

void rota_nap_until(uint64_t deadline_ns) {
    static _Atomic uint32_t nobody; /* wakes it */
    (void)rota_futex_wait(&nobody, 0, deadline_ns);
}

void rota_futex_wake(_Atomic uint32_t *word, int count) {
    if (explored.current == NOBODY) return;
    object *p = find_object(word, sizeof *word, true);
    point(p);
    thread *me = &explore_threads[explored.current];
    me->chain = mix(me->chain, 6);
    explore_note("wakes", number_of(p), NULL, p->sleeper_count, p->sleeper_count, 0);
    p->chain = mix(p->chain, mix(me->chain, 6));
    uint32_t woken = 0;
    for (; woken < p->sleeper_count && count > 0; woken++, count--)
        explore_threads[p->sleepers[woken]].state = RUNNABLE;
    for (uint32_t i = woken; i < p->sleeper_count; i++) p->sleepers[i - woken] = p->sleepers[i];
    p->sleeper_count -= woken;
}

/* ---- Memory and messages ---- */

static _Alignas(64) uint8_t heap[HEAP_BYTES];

void *explore_aligned_alloc(size_t alignment, size_t bytes) {
    const size_t offset = (explored.heap_used + alignment - 1) / alignment * alignment;
    if (bytes > HEAP_BYTES || offset > HEAP_BYTES - bytes)
        explore_fail(LIMIT "more than %d bytes allocated", HEAP_BYTES);
    explored.heap_used = offset + bytes;
    return heap + offset;
}

__attribute__((weak)) rota_status rota_fail(rota_status status, const char *format, ...) {
    (void)format;
    return status;
}

const char *rota_last_error(void) {
    return "";
}

/* ---- Mutexes: a word that is 1 while it is held ---- */

static const explore_site locks = {"", "", "lock", 0}, unlocks = {"", "", "unlock", 0};

int explore_mutex_lock(pthread_mutex_t *mutex) {
    _Atomic uint32_t *word = (_Atomic uint32_t *)(void *)mutex;
    for (uint64_t expected = 0; !explore_cas(word, 4, &expected, 1, EXPLORE_ACQUIRE, EXPLORE_RELAXED, &locks);
         expected = 0)
        (void)rota_futex_wait(word, 1, UINT64_MAX);
    return 0;
}

int explore_mutex_unlock(pthread_mutex_t *mutex) {
    explore_store((volatile uint32_t *)(void *)mutex, 4, 0, EXPLORE_RELEASE, &unlocks);
    rota_futex_wake((_Atomic uint32_t *)(void *)mutex, 1);
    return 0;
}

/* ---- Plain data: what gcc's instrumentation calls ---- */

static void plain(uintptr_t address, size_t bytes, bool writes) {
    if (explored.current == NOBODY) return;
    thread *me = &explore_threads[explored.current];
    if (address - (uintptr_t)me->stack < STACK_BYTES) return;
    const uint32_t self = (uint32_t)explored.current;
    for (uintptr_t key = address >> 2; key <= (address + bytes - 1) >> 2; key++) {
        uint32_t i = (uint32_t)(key * 2654435761u) & (SHADOW - 1), probes = 0;
        while (shadow[i].key && shadow[i].key != key) {
            i = (i + 1) & (SHADOW - 1);
            if (++probes == SHADOW) explore_fail(LIMIT "more plain data than there is room for");
        }
        granule *g = &shadow[i];
        g->key = key;
        if (g->execution != explored.execution)
            *g = (granule){.key = key, .execution = explored.execution, .writer = UINT8_MAX};
        bool is_race =
            g->writer != UINT8_MAX && g->writer != self && g->write_clock > me->view.clock[g->writer];
        for (unsigned t = 0; writes && t < EXPLORE_THREADS; t++)
            is_race |= t != self && g->read_clock[t] > me->view.clock[t];
        if (is_race) {
            char name[64];
            explore_fail("a race: thread %u %s %s, which another thread's access did not happen before", self,
                         writes ? "writes" : "reads",
                         explore_name_of((const volatile void *)(key << 2), name, sizeof name));
        }
        if (writes) {
            g->writer = (uint8_t)self;
            g->write_clock = me->view.clock[self];
        } else {
            g->read_clock[self] = me->view.clock[self];
        }
    }
}

void *explore_memcpy(void *to, const void *from, size_t bytes) {
    if (bytes) {
        plain((uintptr_t)from, bytes, false);
        plain((uintptr_t)to, bytes, true);
    }
    return memcpy(to, from, bytes);
}

#define HOOK(name, bytes, writes)                                                                            \
    void __tsan_##name##bytes(void *address);                                                                \
    void __tsan_##name##bytes(void *address) {                                                               \
        plain((uintptr_t)address, bytes, writes);                                                            \
    }
#define HOOKS(bytes)                                                                                         \
    HOOK(read, bytes, false)                                                                                 \
    HOOK(write, bytes, true)                                                                                 \
    HOOK(unaligned_read, bytes, false)                                                                       \
    HOOK(unaligned_write, bytes, true)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(void *address, size_t bytes);
void __tsan_read_range(void *address, size_t bytes) {
    if (bytes) plain((uintptr_t)address, bytes, false);
}
void __tsan_write_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes) {
    if (bytes) plain((uintptr_t)address, bytes, true);
}
void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *from);
void __tsan_func_entry(void *from) {
    (void)from;
}
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
