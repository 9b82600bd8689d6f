/* Objects that were released. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_RELEASED_H
#define ROTA_SCHED_RUNTIME_SHARED_RELEASED_H

#include <stdint.h>

typedef enum rota_dead_kind {
    ROTA_DEAD_BUFFER,
    ROTA_DEAD_PLAN,
    ROTA_DEAD_ARGS,
    ROTA_DEAD_STAGING
} rota_dead_kind;

/* First members of every object that is reclaimed. */
typedef struct rota_dead {
    struct rota_dead *next;
    uint32_t kind;
} rota_dead;

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
