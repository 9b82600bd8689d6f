/* A round on base/ring_spsc.h's ring, whichever that is where this is included, from the calling thread to another one:
 * as many pointers as a ring is filled with elsewhere, in a ring of twice as many cells. Neither thread sleeps. */
#include <pthread.h>
#include <sched.h>
#include "base/ring_spsc.h"
#include "bench/structures.h"
#include "bench/structures_objects.h"

typedef struct hand_off {
    rota_ring_spsc ring;
    rota_ring_cell cells[2 * STRUCTURE_ENTRIES];
    structure_objects *objects;
    uint64_t rounds;
    bool is_right;
} hand_off;

/* Whoever is waited for may need this core. */
static void hand_off_pause(uint32_t *looks) {
    if (++*looks % 256 == 0)
        (void)sched_yield();
    else
        ra_pause();
}

static void *hand_off_take(void *user) {
    hand_off *h = user;
    uint32_t looks = 0;
    h->is_right = true;
    for (uint64_t r = 0; r < h->rounds; r++)
        for (uint32_t i = 0; i < STRUCTURE_ENTRIES; i++) {
            const void *entry;
            while (!(entry = rota_ring_take_spsc(&h->ring))) hand_off_pause(&looks);
            h->is_right = entry == &h->objects->entries[i] && h->is_right;
        }
    return NULL;
}

static bool hand_off_run(void *memory, uint64_t rounds) {
    static hand_off h;
    pthread_t thread;
    uint32_t looks = 0;
    rota_ring_begin_spsc(&h.ring, h.cells, 2 * STRUCTURE_ENTRIES);
    h.objects = memory;
    h.rounds = rounds;
    if (pthread_create(&thread, NULL, hand_off_take, &h) != 0) return false;
    for (uint64_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < STRUCTURE_ENTRIES; i++)
            while (!rota_ring_put_spsc(&h.ring, &h.objects->entries[i])) hand_off_pause(&looks);
    return pthread_join(thread, NULL) == 0 && h.is_right;
}
