/* Concurrency Kit's structures, as rota calls them where it does. */
#include <ck_ec.h>
#include <ck_ht.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/ring_spsc.h" /* IWYU pragma: keep */
#include "base/set.h"
#include "base/stack_upmc.h" /* IWYU pragma: keep */
#include "bench/structures.h"
#include "bench/structures_objects.h"

#ifndef ROTA_ATOMICS_ARE_SEEN

bool structure_stack_kit(void *memory, uint64_t rounds) {
#include "bench/structures_stack.h"
}

bool structure_ring_kit(void *memory, uint64_t rounds) {
#include "bench/structures_ring.h"
}

#include "bench/structures_hand_off.h"
bool structure_hand_off_kit(void *memory, uint64_t rounds) {
    return hand_off_run(memory, rounds);
}

#else /* a sanitizer's build has no others than C11's */

bool structure_stack_kit(void *memory, uint64_t rounds) {
    return structure_stack_own(memory, rounds);
}
bool structure_ring_kit(void *memory, uint64_t rounds) {
    return structure_ring_own(memory, rounds);
}
bool structure_hand_off_kit(void *memory, uint64_t rounds) {
    return structure_hand_off_own(memory, rounds);
}

#endif

static unsigned long hash_name(const void *object, unsigned long seed) {
    return structure_hash_name(object) ^ seed;
}

static bool same_name(const void *a, const void *b) {
    return strcmp(((const structure_object *)a)->name, ((const structure_object *)b)->name) == 0;
}

static unsigned long hash_pointer(const void *object, unsigned long seed) {
    return rota_hash_pointer(object) ^ seed;
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

/* By the pointer itself as a key of 64 bits, which no object is read for. */
static void hash_key(ck_ht_hash_t *out, const void *key, size_t bytes, uint64_t seed) {
    (void)bytes;
    out->value = rota_hash_pointer(*(void *const *)key) ^ seed;
}

static void *table_malloc(size_t size) {
    return malloc(size);
}

static void table_free(void *memory, size_t size, bool defer) {
    (void)size;
    (void)defer;
    free(memory);
}

bool structure_keys_kit(void *memory, uint64_t rounds) {
    structure_objects *o = memory;
    static struct ck_malloc allocator = {.malloc = table_malloc, .free = table_free};
    ck_ht_t table;
    if (!ck_ht_init(&table, CK_HT_MODE_DIRECT, hash_key, &allocator, STRUCTURE_CELLS, 0)) return false;
    bool right = true;
    for (uint32_t i = 0; i < STRUCTURE_OBJECTS; i++) {
        const uintptr_t key = (uintptr_t)&o->objects[i];
        ck_ht_hash_t hash;
        ck_ht_entry_t entry;
        ck_ht_hash_direct(&hash, &table, key);
        ck_ht_entry_set_direct(&entry, hash, key, i);
        right = ck_ht_put_spmc(&table, hash, &entry) && right;
    }
    for (uint64_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < STRUCTURE_OBJECTS; i++) {
            const uintptr_t key = (uintptr_t)&o->objects[i];
            ck_ht_hash_t hash;
            ck_ht_entry_t entry;
            ck_ht_hash_direct(&hash, &table, key);
            ck_ht_entry_key_set_direct(&entry, key);
            right = ck_ht_get_spmc(&table, hash, &entry) && ck_ht_entry_value_direct(&entry) == i && right;
        }
    ck_ht_destroy(&table);
    return right;
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
