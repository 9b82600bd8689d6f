/* The one order of a runtime's collectives, across its communicators: see order.c. Internal to sched/ranks. */
#ifndef ROTA_SCHED_RANKS_ORDER_H
#define ROTA_SCHED_RANKS_ORDER_H

#include "exec/collective_kinds.h"
#include "sched/communicator.h"
#include "sched/ranks/rank_thread.h"

typedef struct rota_rank_order rota_rank_order;

/* Elements of one size, in the order in which they came: a ring that grows. */
typedef struct rota_order_queue {
    uint8_t *data;
    uint64_t first, count, capacity; /* `first` of all that ever were */
} rota_order_queue;

/* A communicator's part of it: under the order's mutex, but for what is said otherwise. */
typedef struct rota_ordered {
    rota_rank_order *order; /* NULL: the communicator is of none; constant */
    rota_communicator *next,
        *previous; /* of the order's, the one that had a collective submitted last first */
    uint64_t id;
    bool is_own;                      /* constant: rota_communicator_options.own_order */
    bool is_member;                   /* it is open, and all that it has submitted is known */
    uint64_t submitted;               /* collectives of all its ranks */
    rota_order_queue entries, before; /* those that have not begun; and what was before each of others' */
    uint64_t begun;                   /* the number of the last of all its ranks' that has, and its node */
    char begun_name[96];
    _Atomic uint32_t has_ended; /* for good: what it still submits says nothing */
    _Atomic uint32_t is_asked;  /* to look at what others have come to: `look` is in the thread's list */
    rota_rank_call look;
    uint64_t asks_ns,
        pause_ns; /* the thread's own: when it asks others to, while it waits; and how long then */
    rota_collective_order now[ROTA_COLLECTIVE_ORDERS]; /* the thread's own: of what it posts */
} rota_ordered;

/* The runtime's, found or made; held by the communicator until rota_order_release. OUT_OF_MEMORY. */
rota_status rota_order_find(rota_communicator *communicator);
void rota_order_release(rota_communicator *communicator);
/* From here on, and until it leaves, it is one of those whose order is compared; has an identity then. Any thread. */
void rota_order_join(rota_communicator *communicator);
void rota_order_leave(rota_communicator *communicator);

/* By the sequencer: a replay has its turn, with this node. O(communicators of the order). */
void rota_order_submitted(rota_communicator *communicator, const void *node,
                          const rota_collective *collective);
/* The rest on the thread. What it is to post begins: with the orders that the node was submitted with. */
void rota_order_begin(rota_communicator *communicator, rota_collective *collective);
/* What is under way has not moved: now and then the others look whether ranks are at their collectives that had to
 * come to this one first. */
void rota_order_waits(rota_communicator *communicator);
/* It has ended for good, by the sentence; the other one whose order crosses, too, if `crossed` is one's identity. */
void rota_order_ended(rota_communicator *communicator, uint64_t crossed, const char *cause);

#endif
