/* Collectives as values: what ranks do together, for who records it and who carries it out. Internal; not installed. */
#ifndef ROTA_EXEC_COLLECTIVE_KINDS_H
#define ROTA_EXEC_COLLECTIVE_KINDS_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/collective.h"

/* One list: enum name, text, bytes of an element. */
#define ROTA_COLLECTIVE_TYPES(X)                                                                             \
    X(F32, "f32", 4)                                                                                         \
    X(F16, "f16", 2)                                                                                         \
    X(BF16, "bf16", 2)                                                                                       \
    X(I32, "i32", 4)                                                                                         \
    X(U32, "u32", 4)
typedef enum rota_collective_type {
#define ROTA_COLLECTIVE_TYPE_ENUM(name, text, bytes) ROTA_COLLECTIVE_##name,
    ROTA_COLLECTIVE_TYPES(ROTA_COLLECTIVE_TYPE_ENUM)
#undef ROTA_COLLECTIVE_TYPE_ENUM
        ROTA_COLLECTIVE_TYPE_COUNT
} rota_collective_type;

/* Kinds, with what input and output have: c is `count`, n the number of ranks. "In place" where they may be the same
 * elements: exactly, or where it says so this rank's part. */
#define ROTA_COLLECTIVE_KINDS(X)                                                                             \
    X(ALL_REDUCE, "all_reduce")         /* c, c: in place */                                                 \
    X(REDUCE_SCATTER, "reduce_scatter") /* n * c, c: output may be this rank's part of the input */          \
    X(ALL_GATHER, "all_gather")         /* c, n * c: input may be this rank's part of the output */          \
    X(ALL_TO_ALL, "all_to_all")         /* n * c, n * c: in place */                                         \
    X(BROADCAST, "broadcast_from")      /* c on the root `peer`, c everywhere: in place */                   \
    X(SEND, "send")                     /* c to `peer`, none */                                              \
    X(RECEIVE, "receive")               /* none, c from `peer` */                                            \
    X(BARRIER, "barrier")               /* none, none */
typedef enum rota_collective_kind {
#define ROTA_COLLECTIVE_KIND_ENUM(name, text) ROTA_COLLECTIVE_##name,
    ROTA_COLLECTIVE_KINDS(ROTA_COLLECTIVE_KIND_ENUM)
#undef ROTA_COLLECTIVE_KIND_ENUM
        ROTA_COLLECTIVE_KIND_COUNT
} rota_collective_kind;

/* How many collectives of another communicator this rank has submitted before a collective: ranks that are of both must
 * have as many. */
enum { ROTA_COLLECTIVE_ORDERS = 16, ROTA_COLLECTIVE_ORDER_NAME = 24 };
typedef struct rota_collective_order {
    uint64_t communicator; /* its identity, the same on all of its ranks */
    uint64_t before;
    char name[ROTA_COLLECTIVE_ORDER_NAME]; /* the communicator's, cut */
} rota_collective_order;

struct rota_collective;
/* Where a collective of all ranks was recorded, by which those of one name and size are told apart. */
typedef struct rota_collective_position {
    const char *graph, *lane; /* borrowed until it is over; NULL: "" */
    uint32_t index;           /* among the lane's on it, from 1; 0: not recorded */
    uint32_t list_count;      /* how many the lane has */
    /* Of the graph's collectives on it, from this one on: how many, and a digest of what is compared of them; and how
     * the next one is found, by `node`. NULL: none is known. */
    uint32_t rest_count;
    uint64_t rest;
    const void *node;
    bool (*next)(const void *node, struct rota_collective *out);
} rota_collective_position;

typedef struct rota_collective {
    rota_collective_kind kind;
    rota_collective_type type;
    rota_collective_reduction reduction; /* of those that reduce */
    uint32_t peer;
    uint64_t count;
    const void *input;
    void *output;
    bool on_device;   /* input and output are a device's, whose library carries it out once the ranks agree */
    const char *name; /* of the node; borrowed until it is over */
    rota_collective_position position;
    const rota_collective_order *orders; /* of other communicators; borrowed while it is posted */
    uint32_t order_count;                /* ROTA_COLLECTIVE_ORDERS at the most */
} rota_collective;

const char *rota_collective_kind_text(rota_collective_kind kind);
const char *rota_collective_type_text(rota_collective_type type);
const char *rota_collective_reduction_text(rota_collective_reduction reduction);
uint32_t rota_collective_type_bytes(rota_collective_type type);

static inline bool rota_collective_is_of_two(rota_collective_kind kind) {
    return kind == ROTA_COLLECTIVE_SEND || kind == ROTA_COLLECTIVE_RECEIVE;
}
static inline bool rota_collective_reduces(rota_collective_kind kind) {
    return kind == ROTA_COLLECTIVE_ALL_REDUCE || kind == ROTA_COLLECTIVE_REDUCE_SCATTER;
}

#endif
