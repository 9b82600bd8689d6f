/* What ranks say to each other before a collective, and what is wrong where it differs: see agreement.c. Internal. */
#ifndef ROTA_EXEC_COMM_AGREEMENT_H
#define ROTA_EXEC_COMM_AGREEMENT_H

#include <stddef.h>
#include "exec/comm/transport.h"

enum { ROTA_ANNOUNCED_NAME = 96, ROTA_ANNOUNCED_GRAPH = 48, ROTA_ANNOUNCED_LANE = 32 };

/* A message: of ranks of one build. */
struct rota_announcement {
    uint32_t kind, type, reduction, peer; /* those that the kind has, else 0 */
    uint64_t count, number; /* of the collective among those of its kind: all ranks', or with the peer */
    char name[ROTA_ANNOUNCED_NAME]; /* of the node, cut */
    char graph[ROTA_ANNOUNCED_GRAPH],
        lane[ROTA_ANNOUNCED_LANE]; /* of those that are all ranks', cut; as the rest: */
    uint32_t index, list_count;
    uint32_t on_device;
    uint32_t
        is_end; /* no collective: there are no more in the graph. As all before the same for all, or of a pair: */
    /* What its graph has on the communicator from here on; 0: not known. */
    uint64_t rest;
    uint32_t rest_count;
    /* Of other communicators: as many are sent as there are. */
    uint32_t order_count;
    rota_collective_order orders[ROTA_COLLECTIVE_ORDERS];
};

static inline uint64_t rota_announcement_bytes(const rota_announcement *a) {
    return offsetof(rota_announcement, orders) + a->order_count * sizeof *a->orders;
}

void rota_announce(const rota_collective *collective, uint64_t number, rota_announcement *out);
/* Before one is received: what is not sent of its orders is then seen to be missing. */
void rota_announcement_clear(rota_announcement *a);
/* Whether what came from `rank`, of `size`, can be one: nothing of it indexes, counts or names what there is not. All
 * other functions here take it for one. False: `out_cause` says what is wrong. O(order_count). */
bool rota_announcement_check(const rota_announcement *a, uint32_t size, const char *communicator,
                             uint32_t rank, char *out_cause, size_t capacity);
/* That the graph has no further collective, which would be that number. */
void rota_announce_end(const char *graph, uint64_t number, rota_announcement *out);
/* Whether ranks a and b, which announce these, mean the same. False: `out_cause` says how they differ. */
bool rota_announcements_agree(const char *communicator, uint32_t rank_a, const rota_announcement *a,
                              uint32_t rank_b, const rota_announcement *b, char *out_cause, size_t capacity);
/* The same of the order of collectives of different communicators: how many of others' went before this one on ranks
 * that are of both. ranks[0..count) ascend. *out_other: the communicator whose order is another one on two ranks, which
 * `out_cause` says; 0: all agree. OUT_OF_MEMORY. O(1) a rank where all are of the same communicators. */
rota_status rota_orders_agree(const char *communicator, const rota_announcement *announced,
                              const uint32_t *ranks, uint32_t count, uint64_t *out_other, char *out_cause,
                              size_t capacity);
/* What two ranks that share communicators say of another order. */
typedef struct rota_crossing {
    const char *communicator, *other;
    const rota_announcement *announced; /* of `communicator` */
    uint32_t ranks[2];
    uint64_t before[2]; /* how many of `other` each had submitted before */
    const char *more;   /* of `other`, after that; "": nothing */
} rota_crossing;
/* The sentence that ends both communicators. */
void rota_crossing_describe(const rota_crossing *crossing, char *out_cause, size_t capacity);
/* "all_reduce 'grad' (collective 12)" and the like. */
void rota_announcement_describe(const rota_announcement *announcement, char *out_text, size_t capacity);

#endif
