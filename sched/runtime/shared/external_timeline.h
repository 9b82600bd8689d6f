/* Timelines that the application moves, and what waits for points of them. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_EXTERNAL_TIMELINE_H
#define ROTA_SCHED_RUNTIME_SHARED_EXTERNAL_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "exec/exec_work.h"
#include "sched/embed.h"
#include "sched/opened.h"

typedef struct rota_external_semaphore rota_external_semaphore; /* external_semaphore.h */

struct rota_external_timeline {
    _Alignas(64) _Atomic uint64_t reached;
    _Atomic uint64_t moved_ns; /* when, stored before it; never falls */
    _Atomic uint64_t holders;  /* bit per device whose submit thread may sleep until it moves */
    _Atomic uint32_t references;
    rota_opened opened;
    char *name;
    rota_external_semaphore *semaphore; /* NULL, or what it stands for; settled */
};

/* As in a record, behind the plan's own words: how many points, their deadline (0: the runtime's), and of each point
 * the timeline and the value; then the submission's own deadline, of base's clock (0: none). */
#define ROTA_AFTER_WORDS (3 + 2 * ROTA_AFTER_MAX)

typedef enum rota_external_outcome {
    ROTA_EXTERNAL_WAIT_PENDING,
    ROTA_EXTERNAL_WAIT_REACHED,
    ROTA_EXTERNAL_WAIT_EXPIRED, /* a deadline passed before: the submission fails */
    ROTA_EXTERNAL_WAIT_CLOSED   /* or its runtime closes, and nobody waits any longer */
} rota_external_outcome;

/* What the works of a submission come after outside: all of them, of whatever device. */
typedef struct rota_external_wait {
    const uint64_t *words; /* in its payload */
    uint32_t count;        /* 0: nothing */
    /* rota_external_outcome, decided once, by the submit thread that sees it first; above those bits which of the
     * points was not reached then. */
    _Atomic uint32_t outcome;
    uint64_t since_ns, timeout_ns;
    /* NULL, or the device that has all its works, and waits itself for those of its semaphores that were promised. */
    const rota_device *on;
} rota_external_wait;

static inline rota_external_timeline *rota_external_wait_timeline(const uint64_t *words, uint32_t i) {
    return (rota_external_timeline *)(uintptr_t)words[2 + 2 * i];
}
static inline uint64_t rota_external_wait_value(const uint64_t *words, uint32_t i) {
    return words[3 + 2 * i];
}

static inline uint64_t rota_after_deadline(const uint64_t *words) {
    return words[2 + 2 * words[0]];
}
static inline uint32_t rota_after_words(const uint64_t *words) {
    return 3 + 2 * (uint32_t)words[0];
}

void rota_external_timeline_retain(rota_external_timeline *timeline);
/* One reference less, of rota's own. */
void rota_external_timeline_drop(rota_external_timeline *timeline);
/* The value is reached: rota_external_timeline_signal for who saw that it is. The caller has a reference. */
void rota_external_timeline_raise(rota_external_timeline *timeline, uint64_t value);
/* The same, and a semaphore behind it is signalled, by the executor's thread. Lock-free. WRONG_STATE, with nothing
 * changed: the semaphore's device is closed. */
rota_status rota_external_timeline_reach(rota_external_timeline *timeline, uint64_t value);
/* Whether the value was reached. seq_cst: with rota_external_timeline_signal, around the sleep of who waits. */
bool rota_external_timeline_has(rota_external_timeline *timeline, uint64_t value);
/* Words as a record has them: each timeline once more, or once less, referred to; whether all points are reached. */
void rota_external_wait_retain(const uint64_t *words);
void rota_external_wait_release(const uint64_t *words);
bool rota_external_wait_is_reached(const uint64_t *words);
/* Has the points that are not reached looked for, where somebody must look. `device` has all works: it waits itself for
 * what it can; NULL: they are of several. The sequencer's, before anybody has the works. */
void rota_external_wait_begin(rota_external_wait *after, const rota_device *device);
/* What is left for its device to wait for, at most ROTA_EXEC_SEMAPHORE_WAITS_MAX; how many. */
uint32_t rota_external_wait_semaphores(const rota_external_wait *after, rota_exec_timeline_wait *out_waits);
/* Whether the earlier one, which began to wait before, is over wherever the later one is: it has no timeline that that
 * has not, nor a higher value of one or a longer deadline. */
bool rota_external_wait_covers(const rota_external_wait *later, const rota_external_wait *earlier);
/* Has the device's submit thread woken when one of the timelines moves; and not any more. */
void rota_external_wait_watch(const rota_external_wait *after, uint32_t device);
void rota_external_wait_watch_nothing(const rota_external_wait *after, uint32_t device);
/* Decides, where it can be decided by now. `closes`: the runtime does, whose deadline has
 * passed. */
rota_external_outcome rota_external_wait_look(rota_external_wait *after, bool closes);
/* The first of its points that is not reached, or was not when that was decided, as a clause; "" where all were. */
void rota_external_wait_describe(const rota_external_wait *after, char *text, size_t capacity);

#endif
