/* The same structures in C11, as they are or were in rota. */
#ifndef ROTA_TEST_STOPS /* or base/atomic.h says so itself */
#define ROTA_ATOMICS_ARE_SEEN 1
#endif
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include "base/hash.h"
#include "base/ring_spsc.h" /* IWYU pragma: keep */
#include "base/sleep.h"
#include "base/stack_upmc.h" /* IWYU pragma: keep */
#include "bench/structures.h"
#include "bench/structures_objects.h"

void *structures_memory(void) {
    structure_objects *o = calloc(1, sizeof *o);
    for (uint32_t i = 0; o && i < STRUCTURE_OBJECTS; i++)
        (void)snprintf(o->objects[i].name, sizeof o->objects[i].name, "layer %u weight", i);
    return o;
}

void structures_free(void *memory) {
    free(memory);
}

bool structure_stack_own(void *memory, uint64_t rounds) {
#include "bench/structures_stack.h"
}

bool structure_ring_own(void *memory, uint64_t rounds) {
#include "bench/structures_ring.h"
}

#include "bench/structures_hand_off.h"
bool structure_hand_off_own(void *memory, uint64_t rounds) {
    return hand_off_run(memory, rounds);
}

/* Chains in 256 buckets. */
bool structure_names_own(void *memory, uint64_t rounds) {
    structure_objects *o = memory;
    structure_object *buckets[256] = {0};
    for (uint32_t i = 0; i < STRUCTURE_OBJECTS; i++) {
        structure_object **bucket = &buckets[structure_hash_name(&o->objects[i]) % 256];
        o->objects[i].next = *bucket;
        *bucket = &o->objects[i];
    }
    bool right = true;
    for (uint64_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < STRUCTURE_OBJECTS; i++) {
            const structure_object *found = buckets[structure_hash_name(&o->objects[i]) % 256];
            while (found && strcmp(found->name, o->objects[i].name) != 0) found = found->next;
            right = found == &o->objects[i] && right;
        }
    return right;
}

/* Open addressing, at most half full. */
bool structure_pointers_own(void *memory, uint64_t rounds) {
    structure_objects *o = memory;
    enum { CELLS = STRUCTURE_CELLS };
    static const structure_object *cells[CELLS];
    memset(cells, 0, sizeof cells);
    for (uint32_t i = 0; i < STRUCTURE_OBJECTS; i++) {
        uint64_t cell = rota_hash_pointer(&o->objects[i]) % CELLS;
        while (cells[cell]) cell = (cell + 1) % CELLS;
        cells[cell] = &o->objects[i];
    }
    bool right = true;
    for (uint64_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < STRUCTURE_OBJECTS; i++) {
            uint64_t cell = rota_hash_pointer(&o->objects[i]) % CELLS;
            while (cells[cell] && cells[cell] != &o->objects[i]) cell = (cell + 1) % CELLS;
            right = cells[cell] == &o->objects[i] && right;
        }
    return right;
}

/* Published by a seq_cst store, then a look at the sleeper's flag. */
bool structure_wake_own(void *memory, uint64_t rounds) {
    (void)memory;
    static rota_sleeper sleeper;
    static _Thread_local _Alignas(64) _Atomic uint64_t published;
    ra_store_relaxed(&published, 0);
    for (uint64_t r = 0; r < rounds * STRUCTURE_ENTRIES; r++) {
        ra_store_seq_cst(&published, r + 1);
        rota_sleeper_wake(&sleeper);
    }
    return ra_load_relaxed(&published) == rounds * STRUCTURE_ENTRIES;
}
