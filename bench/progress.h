/* How far a long action is: a bar with rate and time left on a terminal, else a plain line now and then. */
#ifndef ROTA_BENCH_PROGRESS_H
#define ROTA_BENCH_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A thread of its own looks at `done` and writes to standard error, so that saying how far one is costs a store, and an
 * action that is one call shows that it goes on. What is over within a second says nothing. */
typedef struct progress_bar {
    const char *what, *unit; /* "tokenising", "bytes"; unit NULL: how much is done is not known */
    uint64_t total;          /* 0: nor is how much there is */
    _Atomic uint64_t done, before;
    FILE *stream;
    bool terminal;
    uint64_t begun_ns, first_ns, every_ns; /* when it is first said, and how long to the next time */
    pthread_t thread;
    bool runs; /* there is such a thread */
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool ended, drawn; /* under the lock, as is the rest */
    char note[40];
} progress_bar;

/* From now on actions that this thread begins say nothing: of several that do the same, one says how far it is. */
void progress_quiet(void);
/* `what` and `unit` are borrowed until its end. Where no thread can be made nothing is said. */
void progress_begin(progress_bar *p, const char *what, const char *unit, uint64_t total);
/* The same, on any stream, first said after so long, and again after so long each. */
void progress_begin_on(progress_bar *p, FILE *stream, bool terminal, uint64_t first_ns, uint64_t every_ns,
                       const char *what, const char *unit, uint64_t total);
/* So much is done, of anyone's thread. NULL, in place of a progress, is nobody who wants to know. */
static inline void progress_at(progress_bar *p, uint64_t done) {
    /* Nothing else is read by who sees it. */
    if (p) atomic_store_explicit(&p->done, done, memory_order_relaxed);
}
/* So much was done already when it began: neither rate nor time left are of that. */
void progress_from(progress_bar *p, uint64_t before);
/* What stands behind it from now on, such as a loss. */
void progress_note(progress_bar *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes the bar from the terminal, so that something else can be written there; the next look draws it again. */
void progress_clear(progress_bar *p);
/* Nothing is written after it. */
void progress_end(progress_bar *p);

#endif
