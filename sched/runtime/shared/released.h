/* Objects that were released. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_RELEASED_H
#define ROTA_SCHED_RUNTIME_SHARED_RELEASED_H

#include <stdint.h>
#include "base/stack_upmc.h"

typedef enum rota_dead_kind {
    ROTA_DEAD_BUFFER,
    ROTA_DEAD_PLAN,
    ROTA_DEAD_ARGS,
    ROTA_DEAD_STAGING
} rota_dead_kind;

/* First members of every object that is reclaimed. */
typedef struct rota_dead {
    struct rota_dead *next;
    rota_stack_entry entry; /* on the way to the sequencer, and to the reclaimer */
    uint32_t kind;
} rota_dead;

/* What a stack has, as a list in its order: the newest first. */
static inline rota_dead *rota_dead_take(rota_stack_upmc *stack) {
    rota_dead *first = NULL, **last = &first;
    for (rota_stack_entry *entry = rota_stack_take_upmc(stack); entry; entry = entry->next) {
        *last = ROTA_STACK_OBJECT(entry, rota_dead, entry);
        last = &(*last)->next;
    }
    *last = NULL;
    return first;
}

/* The objects of one list, each before what is in the other. */
static inline void rota_dead_prepend(rota_dead **list, rota_dead *objects) {
    while (objects) {
        rota_dead *next = objects->next;
        objects->next = *list;
        *list = objects;
        objects = next;
    }
}

#endif
