/* A set of objects that are told apart by what is in them: Concurrency Kit's ck_hs, under its owner's lock.
 * Objects are the owner's; two that are equal are never both in it. Gets and puts cost a few comparisons, a
 * put now and then as many hashes as there are objects. Not for threads at once: whoever has the set keeps
 * others off. Internal; not installed. */
#ifndef ROTA_BASE_SET_H
#define ROTA_BASE_SET_H

#include <ck_hs.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct rota_set {
    ck_hs_hash_cb_t *hash;
    ck_hs_compare_cb_t *equal;
    bool is_made; /* by the first put */
    ck_hs_t table;
} rota_set;

/* An empty set, also for static storage. Both functions may be given keys that have no more of an object than
 * they read; `seed` is ck's, and 0: nobody gains by objects that collide but who names them. */
#define ROTA_SET(hash_fn, equal_fn)                                                                          \
    { .hash = (hash_fn), .equal = (equal_fn) }

/* The object equal to `key`; NULL: there is none. */
void *rota_set_get(rota_set *set, const void *key);
/* Puts in an object that has no equal there. False: no memory, and it is as it was. */
bool rota_set_put(rota_set *set, const void *object);
/* Frees the set's own memory, and leaves it empty. The objects stay. */
void rota_set_end(rota_set *set);

#endif
