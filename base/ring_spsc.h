/* A ring of pointers from one thread to another: one producer at a time puts, one consumer at a time takes, in the same
 * order. Who is either may change, where the one before gave that to the next by a release and an acquire. A ring has a
 * power of two of cells, which are the caller's, and holds one less. Internal; not installed.
 *
 * put          wait-free; false: the ring is full. The producer's.
 * announce     wait-free. The producer's, after what it put and before it looks at a sleeper's flag.
 * take         wait-free; NULL: the ring is empty. The consumer's.
 * is_empty     wait-free. The consumer's, after it stored its own flag and before it sleeps.
 * seems_empty  wait-free; either's. To the producer it says true only of a ring out of which all has been taken; to the
 *              consumer it may miss what came just now. It orders nothing.
 * count        wait-free; either's. To the producer no less than there are, to the consumer no more.
 * A thread stopped in any of them has done all of it or nothing.
 *
 * Orders. A put releases what its thread wrote and read before it to the take that gets the pointer; a take releases
 * what it read of the cell to the put that writes there next. announce and is_empty are seq_cst, the one after the last
 * put, the other before its look at it: a producer that puts, announces and then loads a flag, and a consumer that
 * stores the flag and then asks is_empty, do not both miss the other (base/sleep.h).
 *
 * The operations are Concurrency Kit's ck_ring, whose positions have 32 bits: who wants to know how many there were
 * ever counts them himself. Where somebody must see each operation (the thread sanitizer, tests that halt threads, the
 * explorer of interleavings), the same ones stand in C11: see ROTA_ATOMICS_ARE_SEEN. */
#ifndef ROTA_BASE_RING_SPSC_H
#define ROTA_BASE_RING_SPSC_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"

#ifdef ROTA_ATOMICS_ARE_SEEN

typedef struct rota_ring_cell {
    void *value;
} rota_ring_cell;

/* Positions only rise, and wrap. */
typedef struct rota_ring_spsc {
    _Alignas(64) _Atomic uint32_t taken; /* the consumer's */
    _Alignas(64) _Atomic uint32_t put;   /* the producer's */
    _Alignas(64) uint32_t mask;
    rota_ring_cell *cells;
} rota_ring_spsc;

static inline void rota_ring_begin_spsc(rota_ring_spsc *ring, rota_ring_cell *cells, uint32_t cell_count) {
    atomic_init(&ring->taken, 0);
    atomic_init(&ring->put, 0);
    ring->mask = cell_count - 1;
    ring->cells = cells;
}

static inline bool rota_ring_put_spsc(rota_ring_spsc *ring, void *entry) {
    const uint32_t put = ra_load_relaxed(&ring->put);
    if (put - ra_load_acquire(&ring->taken) >= ring->mask) return false; /* with take: the cell was read */
    ring->cells[put & ring->mask].value = entry;
    ra_store_release(&ring->put, put + 1); /* with take */
    return true;
}

static inline void rota_ring_announce_spsc(rota_ring_spsc *ring) {
    ra_store_seq_cst(&ring->put, ra_load_relaxed(&ring->put)); /* with is_empty */
}

static inline void *rota_ring_take_spsc(rota_ring_spsc *ring) {
    const uint32_t taken = ra_load_relaxed(&ring->taken);
    if (taken == ra_load_acquire(&ring->put)) return NULL; /* with put: the cell was written */
    void *entry = ring->cells[taken & ring->mask].value;
    ra_store_release(&ring->taken, taken + 1); /* with put */
    return entry;
}

static inline bool rota_ring_is_empty_spsc(rota_ring_spsc *ring) {
    return ra_load_seq_cst(&ring->put) == ra_load_relaxed(&ring->taken); /* with announce */
}

static inline uint32_t rota_ring_count_spsc(rota_ring_spsc *ring) {
    const uint32_t taken = ra_load_relaxed(&ring->taken);
    return ra_load_relaxed(&ring->put) - taken;
}

#else

#include <ck_ring.h>

typedef ck_ring_buffer_t rota_ring_cell;

typedef struct rota_ring_spsc {
    _Alignas(64) ck_ring_t kit;
    rota_ring_cell *cells;
    _Alignas(64) void *out; /* the consumer's: see take */
} rota_ring_spsc;

static inline void rota_ring_begin_spsc(rota_ring_spsc *ring, rota_ring_cell *cells, uint32_t cell_count) {
    ck_ring_init(&ring->kit, cell_count);
    ring->cells = cells;
}

static inline bool rota_ring_put_spsc(rota_ring_spsc *ring, void *entry) {
    ck_pr_fence_release(); /* ck orders stores alone; whoever takes the entry may free what was read here */
    return ck_ring_enqueue_spsc(&ring->kit, ring->cells, entry);
}

static inline void rota_ring_announce_spsc(rota_ring_spsc *ring) {
    (void)ring;
    ck_pr_fence_store_load(); /* before the look at a sleeper's flag */
}

/* ck orders its store of the pointer, and not its load of the cell, before its store of the position. So the pointer
 * is stored into memory that others can reach, where no compiler leaves it in a register: that store needs what was
 * loaded, and so the cell is read before it is given back. */
static inline void *rota_ring_take_spsc(rota_ring_spsc *ring) {
    if (!ck_ring_dequeue_spsc(&ring->kit, ring->cells, &ring->out)) return NULL;
    ck_pr_fence_acquire(); /* ck orders loads alone */
    return ring->out;
}

static inline bool rota_ring_is_empty_spsc(rota_ring_spsc *ring) {
    ck_pr_fence_store_load(); /* after the store of the own flag */
    return ck_ring_size(&ring->kit) == 0;
}

static inline uint32_t rota_ring_count_spsc(rota_ring_spsc *ring) {
    return ck_ring_size(&ring->kit);
}

#endif

static inline bool rota_ring_seems_empty_spsc(rota_ring_spsc *ring) {
    return rota_ring_count_spsc(ring) == 0;
}

#endif
