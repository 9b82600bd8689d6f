/* What ranks that meet say, and who comes to one that listens, until it has said so: see rendezvous.c. Internal. */
#ifndef ROTA_EXEC_COMM_NEWCOMERS_H
#define ROTA_EXEC_COMM_NEWCOMERS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum {
    ROTA_MEETING_MAGIC = 0x61746f72, /* "rota" */
    ROTA_MEETING_PROTOCOL = 3,       /* of these structs, and of messages between ranks */
    ROTA_MEETING_ANSWER_NS =
        2000000000,                /* how long an address, or a newcomer, may take before the next one */
    ROTA_MEETING_NAP_NS = 20000000 /* between tries */
};

/* Of who connects; older protocols have it of the same size. */
typedef struct rota_greeting {
    uint32_t magic, protocol, size, rank;
    uint64_t key; /* the job's; between others than rank 0 the session's */
    uint32_t port, is_between;
    char name[64];
} rota_greeting;

/* HERE is of protocol 3: who is welcome at rank 0 says it. */
typedef enum rota_reply_kind {
    ROTA_REPLY_WELCOME,
    ROTA_REPLY_ALL_HAVE_COME,
    ROTA_REPLY_CONNECTED,
    ROTA_REPLY_OPEN,
    ROTA_REPLY_REFUSED,
    ROTA_REPLY_HERE
} rota_reply_kind;

typedef struct rota_reply {
    uint32_t magic, kind;
    uint64_t session;
    uint32_t status, reserved;
    char text[512]; /* why it is refused */
} rota_reply;

/* False: the other end takes none of it, for ROTA_MEETING_ANSWER_NS. */
bool rota_reply_send(int to, rota_reply_kind kind, uint64_t session, rota_status status, const char *text);
/* What the other end says next, if all of it is there: 1; it left: -1; else 0. */
int rota_reply_look(int from, rota_reply *out_said);

typedef struct rota_newcomer {
    int socket;    /* -1: none */
    uint32_t used; /* bytes that have come of the one of these that it is at */
    uint64_t since_ns;
    rota_greeting said;
    rota_reply more; /* of one that is welcome */
    bool is_welcome; /* set by who takes it: it stays until it says more */
} rota_newcomer;

typedef struct rota_newcomers {
    int listener;          /* the caller's; -1: nobody comes */
    int accept_error;      /* there was no descriptor for one who came; 0: never */
    struct pollfd *polled; /* the listener and those that are there */
    rota_newcomer *all;
} rota_newcomers;

enum { ROTA_NEWCOMERS = 64 }; /* or descriptors; one that does not say who it is for long gives way */

/* Of a zeroed one. False: no host memory. End frees what there is, and closes connections that were not taken. */
bool rota_newcomers_begin(rota_newcomers *n);
void rota_newcomers_end(rota_newcomers *n);
/* Waits a while, 0.1 s at the most, and has `take` see each who has said who it is, and each that is welcome and has
 * said something more, all of it. It takes the socket and leaves -1, or makes or leaves it welcome, or neither: then it
 * is closed, as is one that leaves. The first status other than OK ends it. */
rota_status rota_newcomers_look(rota_newcomers *n, rota_status (*take)(void *user, rota_newcomer *who),
                                void *user);

#endif
