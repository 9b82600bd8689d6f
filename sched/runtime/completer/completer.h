/* What the completer's thread alone has. Functions that take it are that thread's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_COMPLETER_COMPLETER_H
#define ROTA_SCHED_RUNTIME_COMPLETER_COMPLETER_H

#include <stdint.h>
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/runtime.h"

struct rota_completer {
    rota_runtime *runtime;
    uint64_t arrivals;
    rota_completion *unsequenced; /* watches of tickets that have no point yet */
    rota_completion *ending; /* watches of tickets whose value was reached and that are not over: a treap */
    rota_completion *late;   /* watches of tickets whose device is lost and that are not over */
    uint64_t ended_directly; /* the runtime's, and the sum of lost timelines, when those were looked at */
    uint64_t lost_progress;
    rota_completion *due;   /* deliveries whose turn has just come */
    uint64_t waiting;       /* deliveries before their turn */
    uint64_t call_named_ns; /* when the callback began that was named last (callbacks.c) */
    rota_completion *heaps[ROTA_DEVICES_MAX * ROTA_EXEC_QUEUES_MAX];
};

#define rota_assert_completer(completer) rota_assert_owner(&(completer)->runtime->completing.owner)

#endif
