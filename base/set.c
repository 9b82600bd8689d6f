/* Concurrency Kit's hash set over the C library's allocator. */
#include "base/set.h"

#include <stdlib.h>

enum { SET_CAPACITY = 64 };

static void *set_malloc(size_t size) {
    return malloc(size);
}

/* ck says whether a reader may still look at what is freed; here the owner's lock keeps readers off. */
static void set_free(void *memory, size_t size, bool defer) {
    (void)size;
    (void)defer;
    free(memory);
}

static struct ck_malloc set_allocator = {.malloc = set_malloc, .free = set_free};

void *rota_set_get(rota_set *set, const void *key) {
    return set->is_made ? ck_hs_get(&set->table, CK_HS_HASH(&set->table, set->hash, key), key) : NULL;
}

bool rota_set_put(rota_set *set, const void *object) {
    if (!set->is_made)
        set->is_made = ck_hs_init(&set->table, CK_HS_MODE_OBJECT | CK_HS_MODE_SPMC, set->hash, set->equal,
                                  &set_allocator, SET_CAPACITY, 0);
    return set->is_made && ck_hs_put(&set->table, CK_HS_HASH(&set->table, set->hash, object), object);
}

void rota_set_end(rota_set *set) {
    if (set->is_made) ck_hs_destroy(&set->table);
    set->is_made = false;
}
