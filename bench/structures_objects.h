/* What the structures are given, and how it is hashed. */
#ifndef ROTA_BENCH_STRUCTURES_OBJECTS_H
#define ROTA_BENCH_STRUCTURES_OBJECTS_H

#include <stdint.h>
#include "base/hash.h"
#include "bench/structures.h"

typedef struct structure_object {
    char name[24];
    struct structure_object *next; /* in a bucket */
} structure_object;

typedef struct structure_objects {
    void *entries[STRUCTURE_ENTRIES]; /* each an entry of a stack */
    structure_object objects[STRUCTURE_OBJECTS];
} structure_objects;

static inline uint64_t structure_hash_name(const structure_object *object) {
    return rota_hash_text(ROTA_HASH_BEGIN, object->name);
}

#endif
