/* Inside of a transport of messages: its struct, and what its files have of one another. Internal to exec/comm. */
#ifndef ROTA_EXEC_COMM_MESSAGES_PARTS_H
#define ROTA_EXEC_COMM_MESSAGES_PARTS_H

#include "exec/comm/agreement.h"
#include "exec/comm/engine.h"

enum { ROTA_MESSAGES_CAUSE = 640 };

/* Tags of a transport: its number times 4, and */
typedef enum rota_messages_channel {
    ROTA_MESSAGES_AGREE,
    ROTA_MESSAGES_MOVE,
    ROTA_MESSAGES_END
} rota_messages_channel;

typedef enum rota_messages_stage {
    ROTA_MESSAGES_IDLE,
    ROTA_MESSAGES_AGREES, /* ranks say what they are about to do */
    ROTA_MESSAGES_MOVES   /* and do it, piece by piece, in one round of messages or two a piece */
} rota_messages_stage;

/* The engine, of the transports that were split from one another. */
typedef struct rota_messages_group {
    rota_engine *engine;
    uint32_t users;
    uint32_t
        free_number; /* above all that this process has transports of; a new one has the highest of its ranks' */
    bool keeps_messages; /* some never came to their end: the engine still has memory of theirs */
} rota_messages_group;

/* How far a collective is. */
typedef struct rota_messages_now {
    rota_collective collective;
    rota_messages_stage stage;
    uint64_t position, piece; /* elements of `count` that are through; of this piece */
    uint32_t round;
    uint32_t pending;             /* messages under way */
    uint64_t moved_ns, looked_ns; /* when one came or went; when progress was last called */
} rota_messages_now;

/* How it ended for good: by a sentence of this rank's, or of another's. */
typedef struct rota_messages_end {
    bool is_over;
    char cause[ROTA_MESSAGES_CAUSE];     /* sent, too */
    char *heard;                         /* size * ROTA_MESSAGES_CAUSE: what others say */
    rota_engine_request **hears, **says; /* by rank; NULL: none under way */
    uint32_t looks;                      /* of progress, since others were listened to */
} rota_messages_end;

/* What a rank says in a split: 32-bit words. */
typedef struct rota_messages_wish {
    uint32_t color, key, free_number;
} rota_messages_wish;

typedef struct rota_messages_split {
    rota_messages_wish own, *all; /* by rank; NULL: none was ever under way */
} rota_messages_split;

typedef struct rota_messages {
    rota_transport base;
    rota_messages_group *group;
    uint32_t number;              /* of its tags */
    uint32_t *members;            /* by rank: the engine's rank */
    uint64_t collectives;         /* that all ranks took part in, so far */
    uint64_t *sent, *received;    /* by rank: messages of two so far */
    rota_announcement *announced; /* by rank */
    uint8_t *outgoing, *incoming; /* by rank: cell_bytes */
    uint64_t cell_bytes;
    const void **sources;              /* by rank: what is combined */
    rota_engine_request **outs, **ins; /* by rank; NULL: none under way */
    rota_messages_now now;
    rota_messages_end end;
    rota_messages_split split;
} rota_messages;

/* Whether rank i takes part in what is under way, beside this one. */
static inline bool rota_messages_has_part(const rota_messages *m, uint32_t i) {
    const rota_collective *c = &m->now.collective;
    return i != m->base.rank && (!rota_collective_is_of_two(c->kind) || c->peer == i);
}

/* Posts messages to and from rank i; 0 bytes: none. The memory is m's own. */
rota_status rota_messages_exchange(rota_messages *m, rota_messages_channel channel, uint32_t i,
                                   const void *from, uint64_t from_bytes, void *to, uint64_t to_bytes);

/* rounds.c. Begins the first round after the ranks agreed; *out_over: there is nothing to move. */
rota_status rota_rounds_begin(rota_messages *m, bool *out_over);
/* All messages of a round came and went: uses them, and begins the next one. */
rota_status rota_rounds_go_on(rota_messages *m, bool *out_over);

#endif
