/* Concurrency Kit's structures, as rota calls them where it does. */
#include <ck_ec.h>
#include <ck_ring.h>
#include <stdlib.h>
#include <string.h>
#include "base/set.h"
#include "base/stack_upmc.h" /* IWYU pragma: keep */
#include "bench/structures.h"
#include "bench/structures_objects.h"

#ifndef ROTA_ATOMICS_ARE_SEEN

bool structure_stack_kit(void *memory, uint64_t rounds) {
#include "bench/structures_stack.h"
}

#else /* a sanitizer's build has no other stack than C11's */

bool structure_stack_kit(void *memory, uint64_t rounds) {
    return structure_stack_own(memory, rounds);
}

#endif

bool structure_ring_kit(void *memory, uint64_t rounds) {
    structure_objects *o = memory;
    static ck_ring_t ring;
    static ck_ring_buffer_t cells[2 * STRUCTURE_ENTRIES];
    ck_ring_init(&ring, 2 * STRUCTURE_ENTRIES);
    bool right = true;
    for (uint64_t r = 0; r < rounds; r++) {
        for (uint32_t i = 0; i < STRUCTURE_ENTRIES; i++)
            right = ck_ring_enqueue_spsc(&ring, cells, &o->entries[i]) && right;
        for (uint32_t i = 0; i < STRUCTURE_ENTRIES; i++) {
            void *entry = NULL;
            right = ck_ring_dequeue_spsc(&ring, cells, &entry) && entry == &o->entries[i] && right;
        }
    }
    return right;
}

static unsigned long hash_name(const void *object, unsigned long seed) {
    return structure_hash_name(object) ^ seed;
}

static bool same_name(const void *a, const void *b) {
    return strcmp(((const structure_object *)a)->name, ((const structure_object *)b)->name) == 0;
}

static unsigned long hash_pointer(const void *object, unsigned long seed) {
    return structure_hash_pointer(object) ^ seed;
}

static bool same_pointer(const void *a, const void *b) {
    return a == b;
}

static bool get_all(structure_objects *o, rota_set *set, uint64_t rounds) {
    bool right = true;
    for (uint32_t i = 0; i < STRUCTURE_OBJECTS; i++) right = rota_set_put(set, &o->objects[i]) && right;
    for (uint64_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < STRUCTURE_OBJECTS; i++)
            right = rota_set_get(set, &o->objects[i]) == &o->objects[i] && right;
    rota_set_end(set);
    return right;
}

bool structure_names_kit(void *memory, uint64_t rounds) {
    rota_set set = ROTA_SET(hash_name, same_name);
    return get_all(memory, &set, rounds);
}

bool structure_pointers_kit(void *memory, uint64_t rounds) {
    rota_set set = ROTA_SET(hash_pointer, same_pointer);
    return get_all(memory, &set, rounds);
}

/* Nobody sleeps, so none of these is called. */
static int no_time(const struct ck_ec_ops *ops, struct timespec *out) {
    (void)ops;
    (void)out;
    return -1;
}

static void no_wait(const struct ck_ec_wait_state *state, const uint32_t *address, uint32_t expected,
                    const struct timespec *deadline) {
    (void)state;
    (void)address;
    (void)expected;
    (void)deadline;
}

static void no_wait_64(const struct ck_ec_wait_state *state, const uint64_t *address, uint64_t expected,
                       const struct timespec *deadline) {
    (void)state;
    (void)address;
    (void)expected;
    (void)deadline;
}

static void no_wake(const struct ck_ec_ops *ops, const uint32_t *address) {
    (void)ops;
    (void)address;
}

static void no_wake_64(const struct ck_ec_ops *ops, const uint64_t *address) {
    (void)ops;
    (void)address;
}

static const struct ck_ec_ops ec_ops = {
    .gettime = no_time, .wait32 = no_wait, .wait64 = no_wait_64, .wake32 = no_wake, .wake64 = no_wake_64};
static const struct ck_ec_mode ec_mode = {.ops = &ec_ops, .single_producer = false};

/* What is published is a release store, which the increment orders before the look at who sleeps. */
bool structure_wake_kit(void *memory, uint64_t rounds) {
    (void)memory;
    static ck_ec32_t count = CK_EC_INITIALIZER;
    static _Thread_local _Alignas(64) _Atomic uint64_t published;
    ra_store_relaxed(&published, 0);
    for (uint64_t r = 0; r < rounds * STRUCTURE_ENTRIES; r++) {
        ra_store_release(&published, r + 1);
        ck_ec32_inc(&count, &ec_mode);
    }
    return ra_load_relaxed(&published) == rounds * STRUCTURE_ENTRIES;
}
