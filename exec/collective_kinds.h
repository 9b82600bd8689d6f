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

/* Where a collective of all ranks was recorded, by which those of one name and size are told apart. */
typedef struct rota_collective_position {
    const char *graph, *lane; /* borrowed until it is over; NULL: "" */
    uint32_t
        graph_number;    /* of the graph among those of its name that have collectives of the communicator */
    uint32_t index;      /* among the lane's on it, from 1; 0: not recorded */
    uint32_t list_count; /* how many the lane has */
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
