/* Inside of a transport of messages: its struct, and what its files have of one another. Internal to exec/comm. */
#ifndef ROTA_EXEC_COMM_MESSAGES_PARTS_H
#define ROTA_EXEC_COMM_MESSAGES_PARTS_H

#include "exec/comm/agreement.h"
#include "exec/comm/engine.h"

enum { ROTA_MESSAGES_CAUSE = 960 };

/* Tags of a transport: its number times ROTA_MESSAGES_CHANNELS, and */
typedef enum rota_messages_channel {
    ROTA_MESSAGES_AGREE,
    ROTA_MESSAGES_MOVE,
    ROTA_MESSAGES_END,
    ROTA_MESSAGES_DRAIN, /* of number 0, the group's: drain.c */
    ROTA_MESSAGES_CHANNELS
} rota_messages_channel;

typedef enum rota_messages_stage {
    ROTA_MESSAGES_IDLE,
    ROTA_MESSAGES_AGREES, /* ranks say what they are about to do */
    ROTA_MESSAGES_MOVES,  /* and do it, piece by piece, in one round of messages or two a piece */
    ROTA_MESSAGES_CARRIED /* or have a library do it, on their devices: no message is under way */
} rota_messages_stage;

typedef struct rota_messages rota_messages;
typedef struct rota_drain rota_drain;

/* The engine, of the transports that were split from one another. */
typedef struct rota_messages_group {
    rota_engine *engine;
    uint64_t id;    /* of all of its transports, with their numbers; the same on all ranks */
    uint32_t users; /* transports that are not closed */
    /* Splits that this rank was in. A group's number is this of its first rank, when that posted the split, and that
     * rank: what one rank has given out is never given out again, by it or another. */
    uint32_t reserved;
    rota_messages *left; /* closed, with messages that have not come to their end: a list */
    bool is_ending;      /* the last one closes */
    rota_drain *drain;   /* meanwhile */
} rota_messages_group;

/* How far a collective is. */
typedef struct rota_messages_now {
    rota_collective collective;
    /* The ranks' graphs differ in one behind it, which is looked for: how many were compared since, and the last one, a
     * rota_collective_position.node; NULL: there was none. */
    uint64_t compared_count;
    const void *compared;
    rota_messages_stage stage;
    uint64_t position, piece; /* elements of `count` that are through; of this piece */
    uint32_t round;
    uint32_t pending;             /* messages under way */
    uint64_t moved_ns, looked_ns; /* when one came or went; when progress was last called */
    uint64_t stood_ns;            /* for how long it was not, at the most, where this process was stopped */
    uint32_t stands;              /* how often it was since then */
} rota_messages_now;

/* What a rank says to another one when it will send it nothing more, and take nothing: a message. */
typedef struct rota_messages_farewell {
    uint64_t sent, taken;        /* messages between the two, from its sight */
    uint64_t unfinished;         /* the collective of all ranks that it was in; 0: none */
    uint64_t unfinished_between; /* so a message with that rank, for a library to carry */
    uint32_t is_failure;         /* else it was closed */
    uint32_t gave_up;            /* by a deadline, its own or that of the one whose sentence it is */
    char cause[ROTA_MESSAGES_CAUSE];
} rota_messages_farewell;

/* How it ended for good: by a sentence of this rank's, or of another's. */
typedef struct rota_messages_end {
    bool is_over, is_sent; /* its farewells, to all: once */
    char cause[ROTA_MESSAGES_CAUSE];
    rota_messages_farewell *own, *received;  /* by rank; received[i] counts once receives[i] is NULL */
    rota_engine_request **receives, **sends; /* farewells, by rank; NULL: none under way */
    uint32_t received_count;
    bool gave_up; /* as the farewell says */
    uint64_t
        concludes_ns; /* until when it hears who still says something, before what was under way ends; 0: no */
    uint64_t flushes_until_ns; /* until when it goes on with sending its farewells */
    uint32_t looks;            /* of progress, since others were listened to */
    bool is_closing, is_left;  /* to the group */
    uint64_t patience_ns;      /* until when close waits for its own messages; 0: it was not called */
} rota_messages_end;

/* Messages that came and went between this rank and another: those of AGREE and MOVE, which have one order. */
typedef struct rota_messages_counts {
    uint64_t sent, taken; /* posted; come */
    uint64_t outgoing_tag;
    uint64_t outgoing_bytes; /* of the one that is under way */
} rota_messages_counts;

/* What a rank says in a split: 32-bit words. */
typedef struct rota_messages_wish {
    uint32_t color, key, reserved;
} rota_messages_wish;

typedef struct rota_messages_split {
    rota_messages_wish own, *all; /* by rank; NULL: none was ever under way */
} rota_messages_split;

struct rota_messages {
    rota_transport base;
    rota_messages_group *group;
    rota_messages *next_left;     /* of the group's */
    uint32_t number;              /* of its tags */
    uint32_t *members;            /* by rank: the engine's rank */
    uint64_t collectives;         /* that all ranks took part in, so far */
    uint64_t *sent, *received;    /* by rank: messages of two so far */
    rota_announcement *announced; /* by rank */
    /* By rank: the next one, which is wanted at any time; NULL: it has come, or is one of `ins`. */
    rota_engine_request **expected;
    uint32_t *parts;              /* ranks that have a part in what is compared: room for all */
    uint8_t *outgoing, *incoming; /* by rank: cell_bytes */
    uint64_t cell_bytes;
    const void **sources;              /* by rank: what is combined */
    rota_engine_request **outs, **ins; /* by rank; NULL: none under way */
    rota_messages_counts *counts;      /* by rank */
    rota_messages_now now;
    rota_messages_end end;
    rota_messages_split split;
};

/* Whether rank i takes part in what is under way, beside this one. */
static inline bool rota_messages_has_part(const rota_messages *m, uint32_t i) {
    const rota_collective *c = &m->now.collective;
    return i != m->base.rank && (!rota_collective_is_of_two(c->kind) || c->peer == i);
}

/* Posts messages to and from rank i; 0 bytes: none. The memory is m's own. */
rota_status rota_messages_exchange(rota_messages *m, rota_messages_channel channel, uint32_t i,
                                   const void *from, uint64_t from_bytes, void *to, uint64_t to_bytes);

/* ahead.c. Wants rank i's next announcement. */
rota_status rota_messages_expect(rota_messages *m, uint32_t i);
/* Says to all who have a part what this rank is about to do, and waits for what they say. */
rota_status rota_messages_announce(rota_messages *m);

/* A transport's own, by its group's; 0: that has none. */
static inline uint64_t rota_messages_id(const rota_messages *m) {
    const uint64_t mixed = (m->group->id + m->number) * 0x9e3779b97f4a7c15u;
    return m->group->id ? (mixed ^ mixed >> 29) | 1 : 0;
}
static inline uint32_t rota_messages_tag(const rota_messages *m, rota_messages_channel channel) {
    return m->number * ROTA_MESSAGES_CHANNELS + (uint32_t)channel;
}

/* farewell.c. Ends it for good, unless it is; all others are told, once. */
void rota_messages_end_with(rota_messages *m, const char *cause);
/* The same, by a deadline: what is under way ends a little later, and names who said nothing until then. */
void rota_messages_give_up(rota_messages *m, const char *cause);
/* The same as another one did. */
void rota_messages_end_as(rota_messages *m, const rota_messages_farewell *heard);
/* Whether what is under way may end, of a transport that has ended. */
bool rota_messages_conclude(rota_messages *m);
/* Takes what others said. The first failure by which one of them has ended it; NULL: there is none. */
const rota_messages_farewell *rota_messages_listen(rota_messages *m);
/* By whom what is under way can't come to its end: one that has a part in it and said farewell before. NULL: nothing is
 * known. */
const rota_messages_farewell *rota_messages_hindrance(const rota_messages *m);
/* rota_transport_vtable.flush, begin_to_close and close. */
bool rota_messages_flush(rota_transport *transport);
void rota_messages_begin_to_close(rota_transport *transport);
bool rota_messages_close(rota_transport *transport, uint64_t deadline_ns, uint64_t *out_abandoned_bytes);
/* messages.c. */
void rota_messages_free(rota_messages *m);

/* rounds.c. Begins the first round after the ranks agreed; *out_over: there is nothing to move. */
rota_status rota_rounds_begin(rota_messages *m, bool *out_over);
/* All messages of a round came and went: uses them, and begins the next one. */
rota_status rota_rounds_go_on(rota_messages *m, bool *out_over);

#endif
