/* Smaller arenas for small plans. Internal. */
#ifndef ROTA_SCHED_PLAN_PACK_SEARCH_H
#define ROTA_SCHED_PLAN_PACK_SEARCH_H

#include "sched/plan/compiler.h"

/* Tries other packings of a part's transients, where they are few, and takes the best one if it beats
 * `best_bytes`. */
rota_status rota_compile_pack_search(rota_compiler *compiler, uint32_t part, uint64_t best_bytes);

#endif
