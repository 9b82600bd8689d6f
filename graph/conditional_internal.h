/* Inside of nodes that decide. Internal; not installed. */
#ifndef ROTA_GRAPH_CONDITIONAL_INTERNAL_H
#define ROTA_GRAPH_CONDITIONAL_INTERNAL_H

#include "graph/conditional.h"
#include "graph/graph_internal.h"

typedef enum rota_conditional_kind {
    ROTA_CONDITIONAL_IF, /* bodies: then, else */
    ROTA_CONDITIONAL_WHILE,
    ROTA_CONDITIONAL_FOR,
    ROTA_CONDITIONAL_SWITCH,
    ROTA_CONDITIONAL_KIND_COUNT
} rota_conditional_kind;

/* 4 bytes that the node itself reads or writes: which of its accesses they are in, and where in that. */
typedef struct rota_conditional_word {
    uint32_t access; /* ROTA_CONDITIONAL_NO_WORD: there is none */
    uint64_t offset_bytes;
} rota_conditional_word;

#define ROTA_CONDITIONAL_NO_WORD UINT32_MAX

/* What a record of ROTA_NODE_CONDITIONAL points to; in its lane's arena. Accesses of the record: disjoint ranges, those
 * of one buffer in ascending order side by side, and those of the graph's own TRANSIENT, INPUT and OUTPUT buffers
 * before all others. */
typedef struct rota_conditional {
    struct rota_conditional *next; /* of the graph's */
    const rota_recorder *lane;
    /* As it was recorded: a rewritten one may name other buffers, in the same order. */
    const rota_node_record *record;
    uint64_t iterations_max; /* WHILE, FOR */
    rota_conditional_word condition, iteration;
    rota_buffer **roots; /* of the record's accesses */
    uint32_t index;      /* in the lane */
    uint32_t body_count;
    uint8_t kind;        /* rota_conditional_kind */
    rota_graph **bodies; /* NULL among them: nothing */
} rota_conditional;

/* Whether it has iterations. */
static inline bool rota_conditional_is_loop(uint8_t kind) {
    return kind == ROTA_CONDITIONAL_WHILE || kind == ROTA_CONDITIONAL_FOR;
}

/* How many ranges more than where it was recorded a node may be found to touch, for each of its bodies. */
enum { ROTA_CONDITIONAL_ROOM = 3 };
/* What the node touches, inferred once more: something was recorded into its bodies (rota_recorder_open_first). Its
 * graph is not compiled. OUT_OF_RANGE: there is no room, or more than there may be where it is recorded; OUT_OF_MEMORY:
 * the node is as it was. */
rota_status rota_conditional_infer_again(rota_conditional *node);

/* "if" and so on. Static storage. */
const char *rota_conditional_kind_name(uint8_t kind);

/* How an access record of the graph's nodes names this root buffer. */
static inline uint64_t rota_access_buffer_of(const rota_graph *graph, const rota_buffer *root) {
    if (!root->graph) return (uint64_t)(uintptr_t)root;
    return root->graph == graph ? root->graph_key : ((uint64_t)(uintptr_t)root | ROTA_ACCESS_OUTER);
}

#endif
