/* The body of a round on base/ring_spsc.h's ring, whichever that is where this is included. */
    structure_objects *o = memory;
    static rota_ring_spsc ring;
    static rota_ring_cell cells[2 * STRUCTURE_ENTRIES];
    rota_ring_begin_spsc(&ring, cells, 2 * STRUCTURE_ENTRIES);
    bool right = true;
    for (uint64_t r = 0; r < rounds; r++) {
        for (uint32_t i = 0; i < STRUCTURE_ENTRIES; i++)
            right = rota_ring_put_spsc(&ring, &o->entries[i]) && right;
        rota_ring_announce_spsc(&ring);
        for (uint32_t i = 0; i < STRUCTURE_ENTRIES; i++)
            right = rota_ring_take_spsc(&ring) == &o->entries[i] && right;
        right = rota_ring_is_empty_spsc(&ring) && right;
    }
    return right;
