/* Places of transients in the arena. Internal. */
#ifndef ROTA_SCHED_PLAN_PACK_H
#define ROTA_SCHED_PLAN_PACK_H

#include "sched/plan/compiler.h"

/* TIGHT packing: packs everything, and counts lifetimes as it goes. */
rota_status rota_compile_pack_tight(rota_compiler *compiler);

/* CONCURRENT packing, driven by edges.c as it goes. Physicals that start in an operation (`whole`: it
 * writes all of it, so every other use comes later) are packed after that operation's clock is known. `uses`:
 * list of last uses; `inplace_uses`: those of the physical whose memory it may take over. */
typedef struct rota_packer rota_packer;
rota_status rota_packer_create(rota_compiler *compiler, rota_packer **out_packer);
rota_status rota_packer_birth(rota_packer *packer, uint32_t physical, uint32_t operation, bool whole,
                              uint32_t inplace_uses, const rota_cons *cons);
void rota_packer_death(rota_packer *packer, uint32_t physical, uint32_t uses);
rota_status rota_packer_finish(rota_packer *packer);
void rota_packer_free(rota_packer *packer);

/* Sum and peak of live bytes in record order, counting in-place reuse: the lower bound of the arenas. Sets
 * inplace_of. */
void rota_compile_lifetimes(rota_compiler *compiler);

/* What a buffer takes in an arena. */
static inline uint64_t rota_aligned_size(uint64_t size) {
    return (size + ROTA_BUFFER_ALIGNMENT - 1) & ~(uint64_t)(ROTA_BUFFER_ALIGNMENT - 1);
}

/* The most that a piece of the arena of the part, and of those that share its memory, may hold: a multiple of what
 * sizes are rounded up to, so that a size that is no more needs no rounding to be compared. */
static inline uint64_t rota_piece_limit(const rota_compiler *c, uint32_t part) {
    uint64_t limit = ROTA_EXEC_SIZE_MAX; /* operands' offsets in it */
    for (uint32_t p = 0; p < c->partitions.count; p++) {
        if (c->partitions.memory[p] != part || !c->partitions.device[p]) continue;
        uint64_t own = c->partitions.device[p]->max_allocation_bytes;
        if (own && own < limit) limit = own;
    }
    return limit & ~(uint64_t)(ROTA_BUFFER_ALIGNMENT - 1);
}

#endif
