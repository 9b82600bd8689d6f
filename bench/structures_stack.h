/* The body of a round on base/stack_upmc.h's stack, whichever that is where this is included. */
    structure_objects *o = memory;
    static rota_stack_upmc stack;
    bool right = true;
    for (uint64_t r = 0; r < rounds; r++) {
        for (uint32_t i = 0; i < STRUCTURE_ENTRIES; i++)
            rota_stack_push_upmc(&stack, (rota_stack_entry *)&o->entries[i]);
        rota_stack_entry *entry = rota_stack_take_upmc(&stack);
        for (uint32_t i = STRUCTURE_ENTRIES; i-- > 0; entry = entry->next)
            right = entry == (rota_stack_entry *)&o->entries[i] && right;
        right = entry == NULL && right;
    }
    return right;
