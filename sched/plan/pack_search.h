/* Better arenas for small plans: smaller ones, and such that let operations overlap. Internal. */
#ifndef ROTA_SCHED_PLAN_PACK_SEARCH_H
#define ROTA_SCHED_PLAN_PACK_SEARCH_H

#include "sched/plan/compiler.h"

/* Tries other packings of a part's transients, where they are few, and takes the best one if it beats
 * `best_bytes`. */
rota_status rota_compile_pack_search(rota_compiler *compiler, uint32_t part, uint64_t best_bytes);

/* A transient that takes memory right after another's last use waits for that use. Packs a part anew, where its
 * transients are few, so that memory is left alone for some operations wherever `bytes`, what its arena takes now in
 * one piece, has room for that. */
rota_status rota_compile_pack_apart(rota_compiler *compiler, uint32_t part, uint64_t bytes);

#endif
