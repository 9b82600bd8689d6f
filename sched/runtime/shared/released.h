/* Objects that were released. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_RELEASED_H
#define ROTA_SCHED_RUNTIME_SHARED_RELEASED_H

#include <stdint.h>
#include "base/stack_upmc.h"

typedef enum rota_released_kind {
    ROTA_RELEASED_BUFFER,
    ROTA_RELEASED_PLAN,
    ROTA_RELEASED_ARGS,
    ROTA_RELEASED_STAGING
} rota_released_kind;

/* First members of every object that is reclaimed. */
typedef struct rota_released {
    struct rota_released *next;
    rota_stack_entry entry; /* on the way to the sequencer, and to the reclaimer */
    uint32_t kind;
} rota_released;

/* What a stack has, as a list in its order: the newest first. */
static inline rota_released *rota_released_take(rota_stack_upmc *stack) {
    rota_released *first = NULL, **last = &first;
    for (rota_stack_entry *entry = rota_stack_take_upmc(stack); entry; entry = entry->next) {
        *last = ROTA_STACK_OBJECT(entry, rota_released, entry);
        last = &(*last)->next;
    }
    *last = NULL;
    return first;
}

/* The objects of one list, each before what is in the other. */
static inline void rota_released_prepend(rota_released **list, rota_released *objects) {
    while (objects) {
        rota_released *next = objects->next;
        objects->next = *list;
        *list = objects;
        objects = next;
    }
}

#endif
