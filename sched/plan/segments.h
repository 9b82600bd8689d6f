/* Logical queues: segments, the waits between them, and batches. Internal. */
#ifndef ROTA_SCHED_PLAN_SEGMENTS_H
#define ROTA_SCHED_PLAN_SEGMENTS_H

#include "sched/plan/compiler.h"

rota_status rota_compile_segments(rota_compiler *compiler);
/* Whether all operations run on the first queue of the first part. */
bool rota_compile_on_one_queue(const rota_compiler *compiler);
/* A join on one timeline; NULL: it joins nothing there. */
rota_local_join *rota_compile_local_join(const rota_compiler *compiler, uint32_t join, uint32_t timeline);

#endif
