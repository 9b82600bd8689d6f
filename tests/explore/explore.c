/* The explorer: threads as coroutines, and the search. See explore.h. */
#undef _FORTIFY_SOURCE
#include "explore_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "base/clock.h"

enum {
    STEPS = 4000, /* operations in an execution; more: it does not end */
    CHOICES = 4096,
    NAMES = 64,
    BOUND = 7,
    CLOCK_STEP_NS = 20000 /* that a look at the clock takes, so that loops that spin for a time end */
};

typedef struct choice {
    uint16_t count, taken;
} choice;

typedef struct step {
    const explore_site *site;
    const char *what;
    uint32_t object;
    int thread;
    uint64_t value, put;
    uint32_t behind;
} step;

exploration explored = {.current = NOBODY};
thread explore_threads[EXPLORE_THREADS];
static choice choices[CHOICES];
static step steps[STEPS + 1];
static struct {
    const volatile uint8_t *address;
    size_t bytes;
    const char *name;
} names[NAMES];
static unsigned name_count;

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

const char *explore_name_of(const volatile void *address, char *out, size_t bytes) {
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
    printf("  %s: %s\n", explored.scenario->name, explored.result->error);
    for (uint32_t i = 0; i < explored.step_count; i++) {
        const step *s = &steps[i];
        printf("    %d  %-12s", s->thread, s->what);
        if (s->object < OBJECTS) {
            printf(" %-24s %llx", explore_name_of(explore_object_address(s->object), name, sizeof name),
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
    explored.current = NOBODY;
    _longjmp(explored.main, 1);
}

_Noreturn void explore_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(explored.result->error, sizeof explored.result->error, format, arguments);
    va_end(arguments);
    if (explored.has_trace) print_trace();
    leave();
}

void explore_check(bool holds, const char *format, ...) {
    if (holds) return;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(explored.result->error, sizeof explored.result->error, format, arguments);
    va_end(arguments);
    if (explored.has_trace) print_trace();
    leave();
}

/* ---- Choices ---- */

unsigned explore_choose(unsigned count) {
    if (count <= 1) return 0;
    if (explored.depth == CHOICES) explore_fail(LIMIT "more than %d choices", CHOICES);
    if (explored.depth == explored.choice_count)
        choices[explored.choice_count++] = (choice){(uint16_t)count, 0};
    if (choices[explored.depth].count != count)
        explore_fail(LIMIT "an execution went another way when it was repeated");
    return choices[explored.depth++].taken;
}

static uint64_t state_hash(void) {
    uint64_t sum = mix((uint64_t)(explored.current + 1), explored.base_ns);
    for (unsigned t = 0; t < EXPLORE_THREADS; t++)
        if (explore_threads[t].state != ABSENT) sum += mix(explore_threads[t].chain, t + 1);
    return sum + explore_objects_hash();
}

/* Bits of the pairs of used bounds that are no more than these. */
static uint64_t covered_by(unsigned preemptions, unsigned stale) {
    uint64_t row = ((uint64_t)2 << stale) - 1, bits = 0;
    for (unsigned p = 0; p <= preemptions; p++) bits |= row << (p * 8);
    return bits;
}

/* Before an operation that was not done before after the same choices. */
static void cut_if_known(void) {
    if (explored.depth != explored.choice_count) return;
    uint64_t *used = table_at(&visited, state_hash());
    if (*used & covered_by(explored.used_preemptions, explored.used_stale)) {
        explored.result->cut++;
        leave();
    }
    *used |= (uint64_t)1 << (explored.used_preemptions * 8 + explored.used_stale);
}

/* ---- Threads ---- */

void explore_note(const char *what, uint32_t p, const explore_site *site, uint64_t value, uint64_t put,
                  uint32_t behind) {
    if (explored.step_count >= STEPS) explore_fail("no end after %d operations", STEPS);
    steps[explored.step_count++] = (step){site, what, p, explored.current, value, put, behind};
}

/* The current thread's context must be saved. */
static _Noreturn void go_to(unsigned t) {
    explored.current = (int)t;
    if (explore_threads[t].is_fresh) {
        explore_threads[t].is_fresh = false;
        _longjmp(explore_threads[t].base, 1);
    }
    _longjmp(explore_threads[t].resume, 1);
}

void explore_switch_to(unsigned t) {
    if ((int)t == explored.current) return;
    if (_setjmp(explore_threads[explored.current].resume) == 0) go_to(t);
}

static unsigned others(uint8_t out[EXPLORE_THREADS]) {
    unsigned count = 0;
    for (unsigned t = 0; t < EXPLORE_THREADS; t++)
        if ((int)t != explored.current && explore_threads[t].state == RUNNABLE) out[count++] = (uint8_t)t;
    return count;
}

unsigned explore_next_thread(void) {
    uint8_t list[EXPLORE_THREADS];
    for (;;) {
        const int self = explored.current;
        explored.current = NOBODY;
        const unsigned count = others(list);
        if (count > 1) cut_if_known();
        const unsigned chosen = explore_choose(count);
        explored.current = self;
        if (count) return list[chosen];
        unsigned blocked = 0;
        int first = NOBODY;
        for (unsigned t = 0; t < EXPLORE_THREADS; t++) {
            if (explore_threads[t].state != BLOCKED) continue;
            blocked |= 1u << t;
            if (first == NOBODY || explore_threads[t].deadline_ns < explore_threads[first].deadline_ns)
                first = (int)t;
        }
        if ((blocked & ~explored.scenario->may_remain) == 0) {
            explored.is_over = true;
            leave();
        }
        if (!explored.scenario->has_deadlines || explore_threads[first].deadline_ns == UINT64_MAX)
            explore_fail("thread %d sleeps, and nobody will wake it", first);
        /* Its time has come. */
        thread *woken = &explore_threads[first];
        explore_object_leave(woken->word, (unsigned)first);
        if (explored.base_ns < woken->deadline_ns) explored.base_ns = woken->deadline_ns;
        woken->chain = mix(woken->chain, 5);
        woken->timed_out = true;
        woken->state = RUNNABLE;
    }
}

void explore_point(void) {
    cut_if_known();
    uint8_t list[EXPLORE_THREADS];
    const unsigned count = explored.used_preemptions < explored.preemptions ? others(list) : 0;
    if (count == 0) return;
    const unsigned chosen = explore_choose(count + 1);
    if (chosen == 0) return;
    explored.used_preemptions++;
    explore_switch_to(list[chosen - 1]);
}

static void thread_main(unsigned t) {
    if (_setjmp(explore_threads[t].base) == 0) _longjmp(explored.main, 1);
    /* Each execution begins here. */
    explored.scenario->thread[explored.current]();
    explore_threads[explored.current].state = ENDED;
    explore_threads[explored.current].chain = mix(explore_threads[explored.current].chain, 1);
    go_to(explore_next_thread());
}

static void make_thread(unsigned t) {
    static ucontext_t context, back;
    explore_threads[t].stack = malloc(STACK_BYTES);
    if (!explore_threads[t].stack) abort();
    (void)getcontext(&context);
    context.uc_stack.ss_sp = explore_threads[t].stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, (void (*)(void))thread_main, 1, t);
    if (_setjmp(explored.main) == 0) (void)swapcontext(&back, &context);
}

unsigned explore_self(void) {
    return (unsigned)explored.current;
}

bool explore_has_ended(unsigned t) {
    return explore_threads[t].state == ENDED;
}

_Noreturn void explore_stop(void) {
    explore_note("stops", OBJECTS, NULL, 0, 0, 0);
    explore_threads[explored.current].state = STOPPED;
    explore_threads[explored.current].chain = mix(explore_threads[explored.current].chain, 2);
    go_to(explore_next_thread());
}

void explore_may_stop(void) {
    if (explore_choose(2)) explore_stop();
}

int explore_yield(void) {
    if (explored.current == NOBODY) return 0;
    uint8_t list[EXPLORE_THREADS];
    explore_threads[explored.current].chain = mix(explore_threads[explored.current].chain, 3);
    const unsigned count = others(list);
    if (count == 0) return 0;
    if (count > 1) cut_if_known();
    explore_switch_to(list[explore_choose(count)]);
    return 0;
}

uint64_t rota_clock_by_ns(void) {
    return rota_clock_ns();
}

uint64_t rota_clock_ns(void) {
    if (explored.current == NOBODY) return explored.base_ns;
    explore_threads[explored.current].clock_ns += CLOCK_STEP_NS;
    return explored.base_ns + explore_threads[explored.current].clock_ns;
}

uint64_t rota_deadline_after(uint64_t ns) {
    const uint64_t now = rota_clock_ns();
    return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

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
    explored.execution++;
    explored.base_ns = 1000000000;
    explored.used_preemptions = explored.used_stale = 0;
    explored.view_count = explored.step_count = explored.depth = 0;
    explored.is_over = false;
    explored.heap_used = 0;
    for (unsigned t = 0; t < EXPLORE_THREADS; t++) {
        thread *th = &explore_threads[t];
        th->state = explored.scenario->thread[t] ? RUNNABLE : ABSENT;
        th->is_fresh = true;
        th->chain = 0;
        th->clock_ns = 0;
        memset(&th->view, 0, sizeof th->view);
        th->view.clock[t] = 1;
    }
    if (explored.scenario->begin) explored.scenario->begin();
}

/* The next sequence of choices; false: there is none. */
static bool advance(void) {
    while (explored.choice_count &&
           choices[explored.choice_count - 1].taken + 1 == choices[explored.choice_count - 1].count)
        explored.choice_count--;
    if (explored.choice_count == 0) return false;
    choices[explored.choice_count - 1].taken++;
    return true;
}

static void search(void) {
    for (;;) {
        begin_execution();
        if (_setjmp(explored.main) == 0) go_to(explore_next_thread());
        if (explored.result->error[0]) return;
        if (explored.is_over) {
            explored.result->executions++;
            *table_at(&traces, state_hash()) = 1;
            if (explored.scenario->end && _setjmp(explored.main) == 0) explored.scenario->end();
            if (explored.result->error[0]) return;
        }
        /* An object turned out to be shared: operations on it were not looked at as they should be. */
        if (explored.restart) {
            explored.restart = false;
            explored.choice_count = 0;
            explored.result->executions = explored.result->cut = 0;
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
        if (!explore_threads[t].stack) make_thread(t);
    *out_result = (explore_result){.executions = 0};
    explored.scenario = scenario;
    explored.result = out_result;
    explored.has_trace = has_trace;
    explored.preemptions = preemptions < BOUND ? preemptions : BOUND;
    explored.stale = stale < BOUND ? stale : BOUND;
    explored.object_count = explored.choice_count = 0;
    explored.restart = false;
    explore_objects_forget();
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
    bool is_short = false;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        planted |= strcmp(argv[i], "--planted") == 0;
        is_short |= strcmp(argv[i], "--short") == 0;
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
            unsigned most =
                scenario->preemptions + (preemptions ? (unsigned)((int)preemptions + scenario->more) : 0);
            if (is_short && most > 1) most--;
            run(scenario, !planted, minus(most, less), minus(scenario->stale, less), &result);
            printf("  %-34s %u preemptions %u stale: %8llu distinct of %8llu executions, %8llu cut, %.1f "
                   "s%s%s\n",
                   scenario->name, explored.preemptions, explored.stale, (unsigned long long)result.distinct,
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
