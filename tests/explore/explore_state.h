/* Between the explorer's files: explore.c has the threads and the search, explore_memory.c what memory does. */
#ifndef ROTA_TESTS_EXPLORE_STATE_H
#define ROTA_TESTS_EXPLORE_STATE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "explore.h"

enum {
    OBJECTS = 192, /* atomic objects */
    STACK_BYTES = 128 * 1024,
    NOBODY = -1
};

/* How an error begins that is the explorer's own. */
#define LIMIT "limit: "

/* What a thread knows of: the oldest store of each object that it may load, and how far it has seen each
 * thread's plain accesses. */
typedef struct view {
    uint32_t clock[EXPLORE_THREADS];
    uint16_t seen[OBJECTS];
} view;

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

typedef struct exploration {
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
} exploration;

extern exploration explored;
extern thread explore_threads[EXPLORE_THREADS];

static inline uint64_t mix(uint64_t a, uint64_t b) {
    a ^= b * 0x9e3779b97f4a7c15u + 0x7f4a7c159e3779b9u + (a << 6) + (a >> 2);
    a ^= a >> 29;
    a *= 0xbf58476d1ce4e5b9u;
    return a ^ a >> 32;
}

/* ---- The search's ---- */

_Noreturn void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One of `count`; each in an execution of its own. */
unsigned explore_choose(unsigned count);
/* Before an operation on an object that others use, too: another thread may come first. */
void explore_point(void);
/* A step of the trace, on an object's number; OBJECTS: on none. */
void explore_note(const char *what, uint32_t p, const explore_site *site, uint64_t value, uint64_t put,
                  uint32_t behind);
/* The current thread can't go on, or has ended: who does. */
unsigned explore_next_thread(void);
void explore_switch_to(unsigned t);
const char *explore_name_of(const volatile void *address, char *out, size_t bytes);

/* ---- The memory's ---- */

/* Before the first execution of a scenario. */
void explore_objects_forget(void);
/* Of what was stored in this execution. */
uint64_t explore_objects_hash(void);
const volatile void *explore_object_address(uint32_t number);
/* A thread does not sleep on it any more. */
void explore_object_leave(uint32_t number, unsigned sleeper);

#endif
