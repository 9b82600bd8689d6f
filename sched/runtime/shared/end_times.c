/* When values of a timeline were published: kept with diagnostics only, since a replay is put away when the
 * sequencer next comes by, which may be long after its end.
 *
 * Whoever publishes adds the end time before the timeline's `completed` moves, one thread at a time and in
 * ascending order as `advanced` is called and the gate settles; the sequencer, which has seen `completed`,
 * takes. It is a mutex and no more, held for moments, and by no application's thread: only diagnostics pay.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sched/runtime/shared/end_times.h"

typedef struct end_time {
    uint64_t value, ns;
} end_time;

struct rota_end_times {
    pthread_mutex_t mutex;
    uint64_t first, end;           /* of those kept and not known to be too old, at index % ROTA_END_TIMES */
    end_time ring[ROTA_END_TIMES]; /* a full ring loses its oldest */
};

rota_end_times *rota_end_times_create(void) {
    rota_end_times *end_times = calloc(1, sizeof *end_times);
    if (end_times) (void)pthread_mutex_init(&end_times->mutex, NULL);
    return end_times;
}

void rota_end_times_destroy(rota_end_times *end_times) {
    if (end_times) (void)pthread_mutex_destroy(&end_times->mutex);
    free(end_times);
}

void rota_end_times_add(rota_end_times *end_times, uint64_t value) {
    (void)pthread_mutex_lock(&end_times->mutex);
    end_times->ring[end_times->end++ % ROTA_END_TIMES] = (end_time){value, rota_clock_ns()};
    if (end_times->end - end_times->first > ROTA_END_TIMES)
        end_times->first = end_times->end - ROTA_END_TIMES;
    (void)pthread_mutex_unlock(&end_times->mutex);
}

uint64_t rota_end_times_take(rota_end_times *end_times, uint64_t value) {
    (void)pthread_mutex_lock(&end_times->mutex);
    /* Values may be skipped: the first that is not below is the one that told. There is one, since the
     * caller has seen the value published. */
    while (end_times->first + 1 < end_times->end &&
           end_times->ring[end_times->first % ROTA_END_TIMES].value < value)
        end_times->first++;
    uint64_t ns = end_times->ring[end_times->first % ROTA_END_TIMES].ns;
    (void)pthread_mutex_unlock(&end_times->mutex);
    return ns;
}
