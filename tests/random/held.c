/* See held.h. */
#include "tests/random/held.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "tests/kit/random.h"

enum { TIMELINES = 7, POINTS = 2 }; /* more than side queues have place for */

struct held {
    rota_external_timeline *timelines[TIMELINES];
    _Atomic uint64_t wanted[TIMELINES]; /* by whoever submits; the mover gets there */
    rota_external_point points[POINTS];
    uint64_t count, random;
    _Atomic uint32_t ends;
    pthread_t thread;
};

static void must(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, rota_last_error());
    abort();
}

/* In steps, each timeline whenever it comes to it; in the end all of them. */
static void *move(void *user) {
    held *h = user;
    uint64_t moved[TIMELINES] = {0};
    for (bool ends = false; !ends;) {
        ends = ra_load_acquire(&h->ends);
        for (uint32_t t = 0; t < TIMELINES; t++) {
            const uint64_t wanted = ra_load_acquire(&h->wanted[t]);
            if (moved[t] == wanted || (!ends && test_below(&h->random, 3) == 0)) continue;
            moved[t] = ends || test_below(&h->random, 2) ? wanted : moved[t] + 1;
            must(rota_external_timeline_signal(h->timelines[t], moved[t]) == ROTA_OK, "moving a timeline");
        }
        if (test_below(&h->random, 4))
            (void)sched_yield();
        else
            rota_nap_until(rota_deadline_after(test_below(&h->random, 200000)));
    }
    return NULL;
}

held *held_open(rota_runtime *runtime, uint64_t seed) {
    held *h = calloc(1, sizeof *h);
    must(h != NULL, "memory");
    h->random = seed;
    for (uint32_t t = 0; t < TIMELINES; t++)
        must(rota_external_timeline_create(runtime, "moved", &h->timelines[t]) == ROTA_OK, "a timeline");
    must(pthread_create(&h->thread, NULL, move, h) == 0, "a thread");
    return h;
}

void held_close(held *h) {
    ra_store_release(&h->ends, 1);
    (void)pthread_join(h->thread, NULL);
    for (uint32_t t = 0; t < TIMELINES; t++) rota_external_timeline_release(h->timelines[t]);
    free(h);
}

void held_draw(held *h, uint64_t *random, rota_submit_options *options) {
    if (test_below(random, 3)) return;
    options->after = h->points;
    options->after_count = 1 + test_below(random, POINTS);
    for (uint32_t i = 0; i < options->after_count; i++) {
        const uint32_t t = test_below(random, TIMELINES);
        const uint64_t value = ra_load_relaxed(&h->wanted[t]) + test_below(random, 4);
        h->points[i] = (rota_external_point){h->timelines[t], value};
        if (value > ra_load_relaxed(&h->wanted[t])) ra_store_release(&h->wanted[t], value);
    }
    h->count++;
}

uint64_t held_count(const held *h) {
    return h->count;
}
