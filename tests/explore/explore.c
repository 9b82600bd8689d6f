/* The explorer: threads as coroutines, memory as lists of stores, and the search. See explore.h. */
#undef _FORTIFY_SOURCE
#include "explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/status.h"

enum {
    OBJECTS = 192, /* atomic objects */
    STORES = 128,  /* to one of them in an execution */
    VIEWS = 1024,
    STEPS = 4000, /* operations in an execution; more: it does not end */
    CHOICES = 4096,
    STACK_BYTES = 128 * 1024,
    INDEX = 1024,   /* of objects; a power of two */
    SHADOW = 16384, /* granules of plain data; a power of two */
    NAMES = 64,
    HEAP_BYTES = 256 * 1024,
    BOUND = 7,
    NOBODY = -1,
    CLOCK_STEP_NS = 20000 /* that a look at the clock takes, so that loops that spin for a time end */
};

/* What a thread knows of: the oldest store of each object that it may load, and how far it has seen each
 * thread's plain accesses. */
typedef struct view {
    uint32_t clock[EXPLORE_THREADS];
    uint16_t seen[OBJECTS];
} view;

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

typedef enum state { ABSENT, RUNNABLE, BLOCKED, STOPPED, ENDED } state;

typedef struct thread {
    jmp_buf base, resume;
    bool is_fresh;
    state state;
    view view;
    uint64_t chain; /* of what it did and saw */
    uint64_t clock_ns, deadline_ns;
    uint32_t word; /* object that it sleeps on */
    bool timed_out;
    uint8_t *stack;
} thread;

typedef struct choice {
    uint16_t count, taken;
} choice;

typedef struct granule {
    uintptr_t key;
    uint64_t execution;
    uint32_t write_clock, read_clock[EXPLORE_THREADS];
    uint8_t writer;
} granule;

typedef struct step {
    const explore_site *site;
    const char *what;
    uint32_t object;
    int thread;
    uint64_t value, put;
    uint32_t behind;
} step;

static struct {
    const explore_scenario *scenario;
    explore_result *result;
    bool has_trace, restart, is_over;
    unsigned preemptions, stale; /* bounds */
    jmp_buf main;
    int current;
    uint64_t execution, base_ns;
    size_t heap_used;
    unsigned used_preemptions, used_stale;
    uint32_t object_count, view_count, step_count, depth, choice_count;
} x = {.current = NOBODY};

static thread threads[EXPLORE_THREADS];
static object objects[OBJECTS];
static uint16_t index_of[INDEX];
static view views[VIEWS];
static choice choices[CHOICES];
static step steps[STEPS + 1];
static granule shadow[SHADOW];
static struct {
    const volatile uint8_t *address;
    size_t bytes;
    const char *name;
} names[NAMES];
static unsigned name_count;

static uint64_t mix(uint64_t a, uint64_t b) {
    a ^= b * 0x9e3779b97f4a7c15u + 0x7f4a7c159e3779b9u + (a << 6) + (a >> 2);
    a ^= a >> 29;
    a *= 0xbf58476d1ce4e5b9u;
    return a ^ a >> 32;
}

/* ---- A table of states: which bounds were used when one was reached ---- */

typedef struct entry {
    uint64_t key, used;
} entry;

typedef struct table {
    entry *entries;
    uint64_t size, count;
} table;

static table visited, traces;

static void table_clear(table *t) {
    free(t->entries);
    *t = (table){.size = 1u << 16};
    t->entries = calloc(t->size, sizeof *t->entries);
    if (!t->entries) abort();
}

static uint64_t *table_at(table *t, uint64_t key) {
    if (key == 0) key = 1;
    if (t->count * 2 > t->size) {
        table larger = {.size = t->size * 4};
        larger.entries = calloc(larger.size, sizeof *larger.entries);
        if (!larger.entries) abort();
        for (uint64_t i = 0; i < t->size; i++)
            if (t->entries[i].key) *table_at(&larger, t->entries[i].key) = t->entries[i].used;
        free(t->entries);
        *t = larger;
    }
    uint64_t i = key & (t->size - 1);
    while (t->entries[i].key && t->entries[i].key != key) i = (i + 1) & (t->size - 1);
    if (!t->entries[i].key) {
        t->entries[i].key = key;
        t->count++;
    }
    return &t->entries[i].used;
}

/* ---- Ends of an execution ---- */

/* How an error begins that is the explorer's own. */
#define LIMIT "limit: "

static const char *name_of(const volatile void *address, char *out, size_t bytes) {
    for (unsigned i = 0; i < name_count; i++) {
        const ptrdiff_t offset = (const volatile uint8_t *)address - names[i].address;
        if (offset >= 0 && (size_t)offset < names[i].bytes) {
            (void)snprintf(out, bytes, "%s+%td", names[i].name, offset);
            return out;
        }
    }
    (void)snprintf(out, bytes, "%p", (const void *)(uintptr_t)address);
    return out;
}

static void print_trace(void) {
    char name[64];
    printf("  %s: %s\n", x.scenario->name, x.result->error);
    for (uint32_t i = 0; i < x.step_count; i++) {
        const step *s = &steps[i];
        printf("    %d  %-12s", s->thread, s->what);
        if (s->object < OBJECTS) {
            printf(" %-24s %llx", name_of(objects[s->object].address, name, sizeof name),
                   (unsigned long long)s->value);
            if (s->put != s->value) printf(" -> %llx", (unsigned long long)s->put);
            if (s->behind) printf(" (%u behind)", s->behind);
        }
        if (s->site) printf("  %s:%d %s", s->site->function, s->site->line, s->site->operation);
        printf("\n");
    }
}

/* Ends the execution, from a thread of it or from the search. */
static _Noreturn void leave(void) {
    x.current = NOBODY;
    _longjmp(x.main, 1);
}

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(x.result->error, sizeof x.result->error, format, arguments);
    va_end(arguments);
    if (x.has_trace) print_trace();
    leave();
}

void explore_check(bool holds, const char *format, ...) {
    if (holds) return;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(x.result->error, sizeof x.result->error, format, arguments);
    va_end(arguments);
    if (x.has_trace) print_trace();
    leave();
}

/* ---- Choices ---- */

static unsigned choose(unsigned count) {
    if (count <= 1) return 0;
    if (x.depth == CHOICES) fail(LIMIT "more than %d choices", CHOICES);
    if (x.depth == x.choice_count) choices[x.choice_count++] = (choice){(uint16_t)count, 0};
    if (choices[x.depth].count != count) fail(LIMIT "an execution went another way when it was repeated");
    return choices[x.depth++].taken;
}

static uint64_t state_hash(void) {
    uint64_t sum = mix((uint64_t)(x.current + 1), x.base_ns);
    for (unsigned t = 0; t < EXPLORE_THREADS; t++)
        if (threads[t].state != ABSENT) sum += mix(threads[t].chain, t + 1);
    for (uint32_t p = 0; p < x.object_count; p++)
        if (objects[p].execution == x.execution && objects[p].chain) sum += mix(objects[p].chain, p + 1000);
    return sum;
}

/* Bits of the pairs of used bounds that are no more than these. */
static uint64_t covered_by(unsigned preemptions, unsigned stale) {
    uint64_t row = ((uint64_t)2 << stale) - 1, bits = 0;
    for (unsigned p = 0; p <= preemptions; p++) bits |= row << (p * 8);
    return bits;
}

/* Before an operation that was not done before after the same choices. */
static void cut_if_known(void) {
    if (x.depth != x.choice_count) return;
    uint64_t *used = table_at(&visited, state_hash());
    if (*used & covered_by(x.used_preemptions, x.used_stale)) {
        x.result->cut++;
        leave();
    }
    *used |= (uint64_t)1 << (x.used_preemptions * 8 + x.used_stale);
}

/* ---- Threads ---- */

static void note(const char *what, uint32_t p, const explore_site *site, uint64_t value, uint64_t put,
                 uint32_t behind) {
    if (x.step_count >= STEPS) fail("no end after %d operations", STEPS);
    steps[x.step_count++] = (step){site, what, p, x.current, value, put, behind};
}

/* The current thread's context must be saved. */
static _Noreturn void go_to(unsigned t) {
    x.current = (int)t;
    if (threads[t].is_fresh) {
        threads[t].is_fresh = false;
        _longjmp(threads[t].base, 1);
    }
    _longjmp(threads[t].resume, 1);
}

static void switch_to(unsigned t) {
    if ((int)t == x.current) return;
    if (_setjmp(threads[x.current].resume) == 0) go_to(t);
}

static unsigned others(uint8_t out[EXPLORE_THREADS]) {
    unsigned count = 0;
    for (unsigned t = 0; t < EXPLORE_THREADS; t++)
        if ((int)t != x.current && threads[t].state == RUNNABLE) out[count++] = (uint8_t)t;
    return count;
}

static object *object_at(unsigned p) {
    return &objects[p];
}

/* The current thread can't go on, or has ended: who does. */
static unsigned next_thread(void) {
    uint8_t list[EXPLORE_THREADS];
    for (;;) {
        const int self = x.current;
        x.current = NOBODY;
        const unsigned count = others(list);
        if (count > 1) cut_if_known();
        const unsigned chosen = choose(count);
        x.current = self;
        if (count) return list[chosen];
        unsigned blocked = 0;
        int first = NOBODY;
        for (unsigned t = 0; t < EXPLORE_THREADS; t++) {
            if (threads[t].state != BLOCKED) continue;
            blocked |= 1u << t;
            if (first == NOBODY || threads[t].deadline_ns < threads[first].deadline_ns) first = (int)t;
        }
        if ((blocked & ~x.scenario->may_remain) == 0) {
            x.is_over = true;
            leave();
        }
        if (!x.scenario->has_deadlines || threads[first].deadline_ns == UINT64_MAX)
            fail("thread %d sleeps, and nobody will wake it", first);
        /* Its time has come. */
        thread *woken = &threads[first];
        object *p = object_at(woken->word);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < p->sleeper_count; i++)
            if (p->sleepers[i] != first) p->sleepers[kept++] = p->sleepers[i];
        p->sleeper_count = kept;
        if (x.base_ns < woken->deadline_ns) x.base_ns = woken->deadline_ns;
        woken->chain = mix(woken->chain, 5);
        woken->timed_out = true;
        woken->state = RUNNABLE;
    }
}

/* Before an operation on an object that others use, too: another thread may come first. */
static void point(const object *p) {
    if (!p->is_shared) return;
    cut_if_known();
    uint8_t list[EXPLORE_THREADS];
    const unsigned count = x.used_preemptions < x.preemptions ? others(list) : 0;
    if (count == 0) return;
    const unsigned chosen = choose(count + 1);
    if (chosen == 0) return;
    x.used_preemptions++;
    switch_to(list[chosen - 1]);
}

static void thread_main(unsigned t) {
    if (_setjmp(threads[t].base) == 0) _longjmp(x.main, 1);
    /* Each execution begins here. */
    x.scenario->thread[x.current]();
    threads[x.current].state = ENDED;
    threads[x.current].chain = mix(threads[x.current].chain, 1);
    go_to(next_thread());
}

static void make_thread(unsigned t) {
    static ucontext_t context, back;
    threads[t].stack = malloc(STACK_BYTES);
    if (!threads[t].stack) abort();
    (void)getcontext(&context);
    context.uc_stack.ss_sp = threads[t].stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, (void (*)(void))thread_main, 1, t);
    if (_setjmp(x.main) == 0) (void)swapcontext(&back, &context);
}

unsigned explore_self(void) {
    return (unsigned)x.current;
}

bool explore_has_ended(unsigned t) {
    return threads[t].state == ENDED;
}

_Noreturn void explore_stop(void) {
    note("stops", OBJECTS, NULL, 0, 0, 0);
    threads[x.current].state = STOPPED;
    threads[x.current].chain = mix(threads[x.current].chain, 2);
    go_to(next_thread());
}

void explore_may_stop(void) {
    if (choose(2)) explore_stop();
}

int explore_yield(void) {
    if (x.current == NOBODY) return 0;
    uint8_t list[EXPLORE_THREADS];
    threads[x.current].chain = mix(threads[x.current].chain, 3);
    const unsigned count = others(list);
    if (count == 0) return 0;
    if (count > 1) cut_if_known();
    switch_to(list[choose(count)]);
    return 0;
}

uint64_t rota_clock_ns(void) {
    if (x.current == NOBODY) return x.base_ns;
    threads[x.current].clock_ns += CLOCK_STEP_NS;
    return x.base_ns + threads[x.current].clock_ns;
}

uint64_t rota_deadline_after(uint64_t ns) {
    const uint64_t now = rota_clock_ns();
    return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

/* ---- Atomic objects ---- */

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
        if (x.object_count == OBJECTS) fail(LIMIT "more than %d atomic objects", OBJECTS);
        objects[x.object_count] = (object){.address = address, .size = size};
        index_of[i] = (uint16_t)++x.object_count;
    }
    object *p = &objects[index_of[i] - 1];
    if (p->size != size) fail(LIMIT "an atomic object used with %u and with %u bytes", p->size, size);
    if (p->execution != x.execution) {
        p->execution = x.execution;
        p->chain = 0;
        p->count = 1;
        p->floor = p->sleeper_count = 0;
        p->stores[0] = (store){peek(address, size), mix((uint64_t)(p - objects), 7), NOBODY};
    }
    p->users |= 1u << x.current;
    p->is_written |= writes;
    if (!p->is_shared && p->is_written && (p->users & (p->users - 1))) p->is_shared = x.restart = true;
    return p;
}

static uint32_t number_of(const object *p) {
    return (uint32_t)(p - objects);
}

static void join(view *into, const view *from) {
    for (unsigned t = 0; t < EXPLORE_THREADS; t++)
        if (into->clock[t] < from->clock[t]) into->clock[t] = from->clock[t];
    for (uint32_t p = 0; p < x.object_count; p++)
        into->seen[p] = into->seen[p] < from->seen[p] ? from->seen[p] : into->seen[p];
}

static void copy_view(view *to, const view *from) {
    memcpy(to->clock, from->clock, sizeof to->clock);
    memcpy(to->seen, from->seen, x.object_count * sizeof to->seen[0]);
    memset(to->seen + x.object_count, 0, (OBJECTS - x.object_count) * sizeof to->seen[0]);
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
    if (p->count == STORES) fail(LIMIT "more than %d stores to an object", STORES);
    const uint32_t index = p->count++;
    me->view.seen[number_of(p)] = (uint16_t)index;
    int32_t released = carried;
    if (order & EXPLORE_RELEASE) {
        if (x.view_count == VIEWS) fail(LIMIT "more than %d releases", VIEWS);
        released = (int32_t)x.view_count++;
        copy_view(&views[released], &me->view);
        if (carried != NOBODY) join(&views[released], &views[carried]);
        me->view.clock[x.current]++;
    }
    value = cut_to(value, p->size);
    me->chain = mix(me->chain, value);
    p->stores[index] = (store){value, mix(me->chain, (uint64_t)x.current), released};
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
    if (x.current == NOBODY) return peek(address, size);
    thread *me = &threads[x.current];
    object *p = find_object(address, size, false);
    point(p);
    const uint32_t newest = p->count - 1, oldest = oldest_for(me, p, order);
    uint32_t behind = 0;
    if (oldest < newest && x.used_stale < x.stale) behind = choose(newest - oldest + 1);
    if (behind) x.used_stale++;
    saw(me, p, newest - behind, order);
    const uint64_t value = p->stores[newest - behind].value;
    note("load", number_of(p), site, value, value, behind);
    return value;
}

void explore_store(volatile void *address, unsigned size, uint64_t value, explore_order order,
                   const explore_site *site) {
    if (x.current == NOBODY) {
        poke(address, size, value);
        return;
    }
    object *p = find_object(address, size, true);
    point(p);
    note("store", number_of(p), site, cut_to(value, size), cut_to(value, size), 0);
    put(&threads[x.current], p, value, order, NOBODY);
}

uint64_t explore_rmw(volatile void *address, unsigned size, explore_rmw_kind kind, uint64_t operand,
                     explore_order order, const explore_site *site) {
    object *p = NULL;
    if (x.current != NOBODY) {
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
    note("change", number_of(p), site, old, value, 0);
    saw(&threads[x.current], p, newest, order);
    put(&threads[x.current], p, value, order, p->stores[newest].view);
    return old;
}

bool explore_cas(volatile void *address, unsigned size, uint64_t *expected, uint64_t desired,
                 explore_order order, explore_order failure, const explore_site *site) {
    if (x.current == NOBODY) {
        const uint64_t old = peek(address, size), wanted = cut_to(*expected, size);
        if (old == wanted) poke(address, size, desired);
        *expected = old;
        return old == wanted;
    }
    thread *me = &threads[x.current];
    object *p = find_object(address, size, true);
    point(p);
    const uint64_t wanted = cut_to(*expected, size);
    const uint32_t newest = p->count - 1;
    uint32_t found = newest;
    if (x.used_stale < x.stale) {
        /* Fails on an older store, too, if that differs from what is expected. */
        uint32_t list[STORES], count = 0;
        list[count++] = newest;
        for (uint32_t i = oldest_for(me, p, failure); i < newest; i++)
            if (p->stores[i].value != wanted) list[count++] = i;
        const unsigned chosen = choose(count);
        found = list[chosen];
        if (chosen) x.used_stale++;
    }
    const uint64_t old = p->stores[found].value;
    if (found != newest || old != wanted) {
        note("cas fails", number_of(p), site, old, old, newest - found);
        saw(me, p, found, failure);
        *expected = old;
        return false;
    }
    note("cas", number_of(p), site, old, cut_to(desired, size), 0);
    saw(me, p, newest, order);
    put(me, p, desired, order, p->stores[newest].view);
    return true;
}

/* ---- Futexes: the kernel looks at the newest value, and orders nothing ---- */

bool rota_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
    thread *me = &threads[x.current];
    object *p = find_object(word, sizeof *word, false);
    point(p);
    const uint32_t value = (uint32_t)p->stores[p->count - 1].value;
    me->chain = mix(me->chain, value);
    if (value != expected) {
        me->chain = mix(me->chain, p->stores[p->count - 1].id);
        note("no sleep", number_of(p), NULL, value, value, 0);
        return true;
    }
    note("sleeps", number_of(p), NULL, value, value, 0);
    me->state = BLOCKED;
    me->word = number_of(p);
    me->deadline_ns = deadline_ns;
    me->timed_out = false;
    me->chain = mix(me->chain, 4);
    p->sleepers[p->sleeper_count++] = (uint8_t)x.current;
    p->chain = mix(p->chain, mix(me->chain, 4));
    const unsigned next = next_thread();
    switch_to(next);
    return !me->timed_out;
}

void rota_futex_wake(_Atomic uint32_t *word, int count) {
    if (x.current == NOBODY) return;
    object *p = find_object(word, sizeof *word, true);
    point(p);
    thread *me = &threads[x.current];
    me->chain = mix(me->chain, 6);
    note("wakes", number_of(p), NULL, p->sleeper_count, p->sleeper_count, 0);
    p->chain = mix(p->chain, mix(me->chain, 6));
    uint32_t woken = 0;
    for (; woken < p->sleeper_count && count > 0; woken++, count--)
        threads[p->sleepers[woken]].state = RUNNABLE;
    for (uint32_t i = woken; i < p->sleeper_count; i++) p->sleepers[i - woken] = p->sleepers[i];
    p->sleeper_count -= woken;
}

/* ---- Memory and messages ---- */

static _Alignas(64) uint8_t heap[HEAP_BYTES];

void *explore_aligned_alloc(size_t alignment, size_t bytes) {
    const size_t offset = (x.heap_used + alignment - 1) / alignment * alignment;
    if (bytes > HEAP_BYTES || offset > HEAP_BYTES - bytes)
        fail(LIMIT "more than %d bytes allocated", HEAP_BYTES);
    x.heap_used = offset + bytes;
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
    if (x.current == NOBODY) return;
    thread *me = &threads[x.current];
    if (address - (uintptr_t)me->stack < STACK_BYTES) return;
    const uint32_t self = (uint32_t)x.current;
    for (uintptr_t key = address >> 2; key <= (address + bytes - 1) >> 2; key++) {
        uint32_t i = (uint32_t)(key * 2654435761u) & (SHADOW - 1), probes = 0;
        while (shadow[i].key && shadow[i].key != key) {
            i = (i + 1) & (SHADOW - 1);
            if (++probes == SHADOW) fail(LIMIT "more plain data than there is room for");
        }
        granule *g = &shadow[i];
        g->key = key;
        if (g->execution != x.execution)
            *g = (granule){.key = key, .execution = x.execution, .writer = UINT8_MAX};
        bool is_race =
            g->writer != UINT8_MAX && g->writer != self && g->write_clock > me->view.clock[g->writer];
        for (unsigned t = 0; writes && t < EXPLORE_THREADS; t++)
            is_race |= t != self && g->read_clock[t] > me->view.clock[t];
        if (is_race) {
            char name[64];
            fail("a race: thread %u %s %s, which another thread's access did not happen before", self,
                 writes ? "writes" : "reads", name_of((const volatile void *)(key << 2), name, sizeof name));
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

#define HOOKS(bytes)                                                                                         \
    void __tsan_read##bytes(void *address);                                                                  \
    void __tsan_read##bytes(void *address) {                                                                 \
        plain((uintptr_t)address, bytes, false);                                                             \
    }                                                                                                        \
    void __tsan_write##bytes(void *address);                                                                 \
    void __tsan_write##bytes(void *address) {                                                                \
        plain((uintptr_t)address, bytes, true);                                                              \
    }                                                                                                        \
    void __tsan_unaligned_read##bytes(void *address);                                                        \
    void __tsan_unaligned_read##bytes(void *address) {                                                       \
        plain((uintptr_t)address, bytes, false);                                                             \
    }                                                                                                        \
    void __tsan_unaligned_write##bytes(void *address);                                                       \
    void __tsan_unaligned_write##bytes(void *address) {                                                      \
        plain((uintptr_t)address, bytes, true);                                                              \
    }
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

/* ---- The search ---- */

void explore_name(const volatile void *address, size_t bytes, const char *name) {
    for (unsigned i = 0; i < name_count; i++)
        if (names[i].address == address) return;
    if (name_count == NAMES) abort();
    names[name_count].address = address;
    names[name_count].bytes = bytes;
    names[name_count++].name = name;
}

static void begin_execution(void) {
    x.execution++;
    x.base_ns = 1000000000;
    x.used_preemptions = x.used_stale = 0;
    x.view_count = x.step_count = x.depth = 0;
    x.is_over = false;
    x.heap_used = 0;
    for (unsigned t = 0; t < EXPLORE_THREADS; t++) {
        thread *th = &threads[t];
        th->state = x.scenario->thread[t] ? RUNNABLE : ABSENT;
        th->is_fresh = true;
        th->chain = 0;
        th->clock_ns = 0;
        memset(&th->view, 0, sizeof th->view);
        th->view.clock[t] = 1;
    }
    if (x.scenario->begin) x.scenario->begin();
}

/* The next sequence of choices; false: there is none. */
static bool advance(void) {
    while (x.choice_count && choices[x.choice_count - 1].taken + 1 == choices[x.choice_count - 1].count)
        x.choice_count--;
    if (x.choice_count == 0) return false;
    choices[x.choice_count - 1].taken++;
    return true;
}

static void search(void) {
    for (;;) {
        begin_execution();
        if (_setjmp(x.main) == 0) go_to(next_thread());
        if (x.result->error[0]) return;
        if (x.is_over) {
            x.result->executions++;
            *table_at(&traces, state_hash()) = 1;
            if (x.scenario->end && _setjmp(x.main) == 0) x.scenario->end();
            if (x.result->error[0]) return;
        }
        /* An object turned out to be shared: operations on it were not looked at as they should be. */
        if (x.restart) {
            x.restart = false;
            x.choice_count = 0;
            x.result->executions = x.result->cut = 0;
            table_clear(&visited);
            table_clear(&traces);
            continue;
        }
        if (!advance()) return;
    }
}

/* Of the processor, whatever else the machine does. */
static double seconds_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void run(const explore_scenario *scenario, bool has_trace, unsigned preemptions, unsigned stale,
                explore_result *out_result) {
    for (unsigned t = 0; t < EXPLORE_THREADS; t++)
        if (!threads[t].stack) make_thread(t);
    *out_result = (explore_result){.executions = 0};
    x.scenario = scenario;
    x.result = out_result;
    x.has_trace = has_trace;
    x.preemptions = preemptions < BOUND ? preemptions : BOUND;
    x.stale = stale < BOUND ? stale : BOUND;
    x.object_count = x.choice_count = 0;
    x.restart = false;
    memset(index_of, 0, sizeof index_of);
    memset(shadow, 0, sizeof shadow);
    table_clear(&visited);
    table_clear(&traces);
    const double from = seconds_now();
    search();
    out_result->distinct = traces.count;
    out_result->seconds = seconds_now() - from;
}

void explore_run(const explore_scenario *scenario, bool has_trace, explore_result *out_result) {
    run(scenario, has_trace, scenario->preemptions, scenario->stale, out_result);
}

static unsigned minus(unsigned a, unsigned b) {
    return a > b ? a - b : 0;
}

int explore_main(const explore_scenario *scenarios, unsigned count, int argc, char **argv) {
    bool planted = false, found = false;
    unsigned preemptions = 0;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        planted |= strcmp(argv[i], "--planted") == 0;
        if (strcmp(argv[i], "--full") == 0) preemptions++;
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) only = argv[++i];
    }
    explore_result result = {.executions = 0};
    uint64_t distinct = 0;
    double seconds = 0;
    /* A planted error is looked for with little before it is with much. */
    for (unsigned less = planted ? 2 : 0;; less--) {
        for (unsigned i = 0; i < count && !found; i++) {
            const explore_scenario *scenario = &scenarios[i];
            if (only && strcmp(only, scenario->name) != 0) continue;
            const unsigned most =
                scenario->preemptions + (preemptions ? (unsigned)((int)preemptions + scenario->more) : 0);
            run(scenario, !planted, minus(most, less), minus(scenario->stale, less), &result);
            printf("  %-34s %u preemptions %u stale: %8llu distinct of %8llu executions, %8llu cut, %.1f "
                   "s%s%s\n",
                   scenario->name, x.preemptions, x.stale, (unsigned long long)result.distinct,
                   (unsigned long long)result.executions, (unsigned long long)result.cut, result.seconds,
                   result.error[0] ? ": " : "", result.error);
            (void)fflush(stdout);
            found = result.error[0] != 0;
            distinct += result.distinct;
            seconds += result.seconds;
        }
        if (less == 0 || found) break;
    }
    if (!planted) printf("  distinct executions: %llu in %.1f s\n", (unsigned long long)distinct, seconds);
    if (planted && strncmp(result.error, LIMIT, strlen(LIMIT)) == 0) found = false;
    if (planted && !found) printf("  the planted error was not found\n");
    return planted == found ? 0 : 1;
}
