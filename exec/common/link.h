/* Objects in lists, so that close can find what is left. Internal to the executors.
 *
 * A list is a link of its own, in a ring with those of its objects. Whoever adds, removes or walks holds the
 * lock that the list is under; begin is before that. */
#ifndef ROTA_EXEC_COMMON_LINK_H
#define ROTA_EXEC_COMMON_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rota_link {
    struct rota_link *previous, *next;
} rota_link;

static inline void rota_link_begin(rota_link *list) {
    list->next = list->previous = list;
}

static inline bool rota_link_is_alone(const rota_link *list) {
    return list->next == list;
}

static inline void rota_link_add(rota_link *list, rota_link *link) {
    link->next = list->next;
    link->previous = list;
    list->next->previous = link;
    list->next = link;
}

static inline void rota_link_remove(rota_link *link) {
    link->previous->next = link->next;
    link->next->previous = link->previous;
}

/* The object that has the link as that member. */
#define ROTA_LINKED(link, type, member) ((type *)(void *)((uint8_t *)(link)-offsetof(type, member)))

#endif
