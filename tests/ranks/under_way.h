/* Whether a rank has begun with a collective, as its thread knows. */
#ifndef ROTA_TESTS_UNDER_WAY_H
#define ROTA_TESTS_UNDER_WAY_H

#include "base/atomic.h"
#include "sched/ranks/parts.h"
#include "sched/ranks/rank_thread.h"
#include "tests/kit/nap.h"

typedef struct under_way_call {
    rota_rank_call call;
    const rota_communicator *communicator;
    _Atomic uint32_t is_answered;
    bool is_under_way;
} under_way_call;

static inline void under_way_look(rota_rank_call *call) {
    under_way_call *own = (under_way_call *)(void *)call;
    own->is_under_way = own->communicator->under_way.run != NULL;
    ra_store_release(&own->is_answered, 1);
}

/* Waits for the communicator's thread to say so. */
static inline bool rank_is_under_way(rota_communicator *communicator) {
    under_way_call own = {.call = {.fn = under_way_look}, .communicator = communicator};
    rota_rank_thread_call(communicator->thread, &own.call);
    while (!ra_load_acquire(&own.is_answered)) test_nap();
    return own.is_under_way;
}

#endif
