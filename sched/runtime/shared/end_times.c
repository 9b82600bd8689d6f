/* When values of a timeline were published: kept with diagnostics only, since a replay is put away when the
 * sequencer next comes by, which may be long after its end.
 *
 * Whoever publishes adds the stamp before the timeline's `completed` moves, one thread at a time and in
 * ascending order as `advanced` is called and the gate settles; the sequencer, which has seen `completed`,
 * takes. It is a mutex and no more, held for moments, and by no application's thread: only diagnostics pay.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "sched/runtime/shared/end_times.h"
#include "sched/runtime/shared/runtime.h"

typedef struct stamp {
    uint64_t value, ns;
} stamp;

struct rota_stamps {
    pthread_mutex_t mutex;
    uint64_t first, end;   /* of those kept and not known to be too old, at index % ROTA_STAMPS */
    stamp at[ROTA_STAMPS]; /* a full ring loses its oldest */
};

rota_stamps *rota_stamps_create(void) {
    rota_stamps *stamps = calloc(1, sizeof *stamps);
    if (stamps) (void)pthread_mutex_init(&stamps->mutex, NULL);
    return stamps;
}

void rota_stamps_destroy(rota_stamps *stamps) {
    if (stamps) (void)pthread_mutex_destroy(&stamps->mutex);
    free(stamps);
}

void rota_stamps_add(rota_stamps *stamps, uint64_t value) {
    (void)pthread_mutex_lock(&stamps->mutex);
    stamps->at[stamps->end++ % ROTA_STAMPS] = (stamp){value, rota_clock_ns()};
    if (stamps->end - stamps->first > ROTA_STAMPS) stamps->first = stamps->end - ROTA_STAMPS;
    (void)pthread_mutex_unlock(&stamps->mutex);
}

uint64_t rota_stamps_take(rota_stamps *stamps, uint64_t value) {
    (void)pthread_mutex_lock(&stamps->mutex);
    /* Values may be skipped: the first that is not below is the one that told. There is one, since the
     * caller has seen the value published. */
    while (stamps->first + 1 < stamps->end && stamps->at[stamps->first % ROTA_STAMPS].value < value)
        stamps->first++;
    uint64_t ns = stamps->at[stamps->first % ROTA_STAMPS].ns;
    (void)pthread_mutex_unlock(&stamps->mutex);
    return ns;
}
