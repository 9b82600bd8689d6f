/* What chain.c notes of a timeline and progress.c reads. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_CHAIN_ENTRIES_H
#define ROTA_SCHED_RUNTIME_ORDER_CHAIN_ENTRIES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/runtime/shared/progress.h"

enum { ROTA_CHAIN_ENTRIES = 32 };

typedef struct rota_chain_entry {
    _Atomic uint64_t
        from_value; /* of the timeline: for this value and later ones; 0: none, or being written */
    _Atomic uint64_t count;
    _Atomic uint64_t points[]; /* of other timelines */
} rota_chain_entry;

struct rota_chain {
    size_t stride;          /* bytes of an entry */
    _Atomic uint64_t begun; /* entries ever begun; they follow each other round */
    _Alignas(8) unsigned char entries[];
};

static inline rota_chain_entry *rota_chain_entry_of(rota_chain *chain, uint64_t index) {
    return (rota_chain_entry *)(void *)&chain->entries[index % ROTA_CHAIN_ENTRIES * chain->stride];
}

#endif
