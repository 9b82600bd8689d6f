/* How ranks meet. Rank 0 listens where all know; each other one listens where its system likes, and tells rank 0:
 *
 *   rank i                                       rank 0
 *   who it is, where it listens    ------------> (another protocol, size, name, or a rank twice: all are refused)
 *                                  <------------ welcome: so it was the one looked for
 *                                  <------------ when all have come: where each listens, and a number of this session
 *   rank i connects to each one below it but rank 0, saying who it is, and is welcome there; each above it does so
 *   connected to all               ------------>
 *                                  <------------ open: all are
 *
 * So every two ranks have one connection, and opening fails on all of them or on none, but for who leaves just then.
 * Who waits for whom: all for rank 0, rank 0 for all, then each for those below it to be connected to those below them,
 * and for those above it; each of these waits ends by the timeout, and says who is missing. A connection that does not
 * say what ranks say, or has another job's key, is closed, and keeps nobody waiting. Where rank 0 gives up it tells all
 * that have come. */
#include "exec/comm/rendezvous.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/hash.h"
#include "exec/comm/meeting_file.h"
#include "exec/comm/rank_list.h"
#include "exec/comm/sockets.h"

enum {
    MAGIC = 0x61746f72, /* "rota" */
    PROTOCOL = 2,       /* of these structs, and of messages between ranks */
    NEWCOMERS = 64,     /* that have not said who they are; one that does not for long gives way */
    ADDRESSES = 16,     /* of a host, that are tried */
    NAP_NS = 20000000,
    LOOK_NS = 200000,
    CONNECT_NS = 2000000000 /* until who connects looks at rank 0 again */
};
static const uint64_t answer_ns = 2000000000u; /* how long one address may take before the next is tried */

typedef struct greeting {
    uint32_t magic, protocol, size, rank;
    uint64_t key; /* the job's; between others than rank 0 the session's */
    uint32_t port, is_between;
    char name[64];
} greeting;

typedef enum reply_kind { WELCOME, ALL_HAVE_COME, CONNECTED, OPEN, REFUSED } reply_kind;

typedef struct reply {
    uint32_t magic, kind;
    uint64_t session;
    uint32_t status, reserved;
    char text[512]; /* why it is refused */
} reply;

typedef struct newcomer {
    int socket; /* -1: none */
    uint32_t used;
    uint64_t since_ns;
    greeting said;
} newcomer;

typedef struct gathering {
    const rota_meeting *meeting;
    const char *name;
    uint64_t timeout_ns, deadline_ns, key, session;
    int listener;
    uint32_t port; /* of the listener */
    int *sockets;
    rota_socket_address *ranks; /* where each listens */
    struct pollfd *polled;      /* the listener and newcomers */
    newcomer *newcomers;
    int accept_error; /* there was no descriptor for one who came; 0: never */
    char where[320];  /* they meet */
} gathering;

static void make_quick(int own) {
    static const int yes = 1;
    (void)setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static uint64_t random_number(void) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) number = rota_clock_ns();
    return number;
}

/* Those that are not connected. */
static const char *list_missing(const gathering *g, uint32_t first, rota_rank_list *out_missing) {
    *out_missing = (rota_rank_list){.count = 0};
    for (uint32_t r = first; r < g->meeting->size; r++)
        if (r != g->meeting->rank && g->sockets[r] < 0) rota_rank_list_add(out_missing, r);
    return rota_rank_list_end(out_missing);
}

/* ---- Who comes ---- */

static void leave_newcomer(newcomer *n) {
    if (n->socket >= 0) (void)close(n->socket);
    *n = (newcomer){.socket = -1};
}

/* Room for one more; NULL: the others wait where they are, in the system, which has them connected. */
static newcomer *find_room(gathering *g) {
    newcomer *oldest = &g->newcomers[0];
    for (uint32_t i = 0; i < NEWCOMERS; i++) {
        if (g->newcomers[i].socket < 0) return &g->newcomers[i];
        if (g->newcomers[i].since_ns < oldest->since_ns) oldest = &g->newcomers[i];
    }
    if (rota_clock_ns() - oldest->since_ns < answer_ns) return NULL;
    leave_newcomer(oldest); /* it has had its time */
    return oldest;
}

static void accept_some(gathering *g) {
    for (newcomer *n; (n = find_room(g));) {
        n->socket = accept4(g->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (n->socket < 0 && (errno == EMFILE || errno == ENFILE)) {
            g->accept_error = errno;
            rota_nap_until(rota_deadline_after(NAP_NS)); /* they are there still */
        }
        if (n->socket < 0) return;
        n->since_ns = rota_clock_ns();
        make_quick(n->socket);
    }
}

/* True: it has said who it is. One that says something else is left. */
static bool hear(newcomer *n) {
    const ssize_t got =
        recv(n->socket, (uint8_t *)&n->said + n->used, sizeof n->said - n->used, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got > 0) n->used += (uint32_t)got;
    if (got <= 0 || (n->used >= sizeof n->said.magic && n->said.magic != MAGIC)) leave_newcomer(n);
    if (n->used < sizeof n->said) return false;
    n->said.name[sizeof n->said.name - 1] = 0;
    return true;
}

/* Waits a while for someone, and has `take` see who says who it is: it takes the socket, or not. */
static rota_status look_for_newcomers(gathering *g, rota_status (*take)(gathering *g, newcomer *who)) {
    g->polled[0] = (struct pollfd){.fd = find_room(g) ? g->listener : -1, .events = POLLIN};
    for (uint32_t i = 0; i < NEWCOMERS; i++)
        g->polled[1 + i] = (struct pollfd){.fd = g->newcomers[i].socket, .events = POLLIN};
    if (poll(g->polled, 1 + NEWCOMERS, 100) <= 0) return ROTA_OK;
    for (uint32_t i = 0; i < NEWCOMERS; i++) {
        newcomer *n = &g->newcomers[i];
        if (!g->polled[1 + i].revents || !hear(n)) continue;
        const rota_status status = take(g, n);
        leave_newcomer(n);
        ROTA_TRY(status);
    }
    if (g->polled[0].revents) accept_some(g);
    return ROTA_OK;
}

static bool answer(const gathering *g, int to, reply_kind kind, rota_status status, const char *text) {
    reply said = {.magic = MAGIC, .kind = kind, .session = g->session, .status = status};
    (void)snprintf(said.text, sizeof said.text, "%s", text);
    return rota_socket_send(to, &said, sizeof said, rota_deadline_after(answer_ns));
}

/* ---- Rank 0 ---- */

/* Refuses it, and all. */
static rota_status refuse(gathering *g, const newcomer *who, const char *text) {
    (void)answer(g, who->socket, REFUSED, ROTA_INVALID_ARGUMENT, text);
    return rota_fail(ROTA_INVALID_ARGUMENT, "%s", text);
}

static rota_status take_rank(gathering *g, newcomer *who) {
    const greeting *said = &who->said;
    char text[400], found[ROTA_SOCKET_TEXT] = "?";
    rota_socket_address from;
    if (said->is_between || said->key != g->key) return ROTA_OK; /* another job's: it looks elsewhere */
    if (!rota_socket_peer(who->socket, &from)) return ROTA_OK;
    rota_socket_describe(&from, found);
    const int used =
        snprintf(text, sizeof text, "communicator '%.63s': who came to rank 0 at %.100s from %s ", g->name,
                 g->where, found);
    char *rest = text + used;
    const size_t room = sizeof text - (size_t)used;
    if (said->protocol != PROTOCOL) {
        (void)snprintf(rest, room, "has another version of rota (protocol %u, not %u)", said->protocol,
                       PROTOCOL);
    } else if (said->size != g->meeting->size) {
        (void)snprintf(rest, room, "is rank %u of %u, expected one of %u", said->rank, said->size,
                       g->meeting->size);
    } else if (strcmp(said->name, g->name) != 0) {
        (void)snprintf(rest, room, "is rank %u of communicator '%s'", said->rank, said->name);
    } else if (said->rank == 0 || said->rank >= g->meeting->size) {
        (void)snprintf(rest, room, "is rank %u, expected one of 1 to %u", said->rank, g->meeting->size - 1);
    } else {
        char byte;
        int *own = &g->sockets[said->rank];
        /* It may have gone meanwhile, and come again. */
        if (*own >= 0 && recv(*own, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
            (void)close(*own);
            *own = -1;
        }
        if (*own < 0) {
            if (!answer(g, who->socket, WELCOME, ROTA_OK, "")) return ROTA_OK;
            *own = who->socket;
            who->socket = -1;
            g->ranks[said->rank] = from;
            g->ranks[said->rank].port = said->port;
            return ROTA_OK;
        }
        (void)snprintf(rest, room, "is rank %u, which has come already", said->rank);
    }
    return refuse(g, who, text);
}

static bool have_all_come(gathering *g) {
    bool are_here = true;
    for (uint32_t r = 1; r < g->meeting->size; r++) {
        char byte;
        if (g->sockets[r] >= 0 && recv(g->sockets[r], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
            (void)close(g->sockets[r]);
            g->sockets[r] = -1;
        }
        are_here = are_here && g->sockets[r] >= 0;
    }
    return are_here;
}

static rota_status gather(gathering *g) {
    rota_rank_list missing;
    while (!have_all_come(g)) {
        if (rota_clock_ns() > g->deadline_ns) {
            return rota_fail(
                ROTA_TIMEOUT,
                "communicator '%.63s': rank 0 waited %.1f s at %s for ranks that did not come: %s%s%s",
                g->name, (double)g->timeout_ns * 1e-9, g->where, list_missing(g, 1, &missing),
                g->accept_error ? "; it can't take more: " : "",
                g->accept_error ? strerror(g->accept_error) : "");
        }
        ROTA_TRY(look_for_newcomers(g, take_rank));
    }
    for (uint32_t r = 1; r < g->meeting->size; r++)
        if (!answer(g, g->sockets[r], ALL_HAVE_COME, ROTA_OK, "") ||
            !rota_socket_send(g->sockets[r], g->ranks, g->meeting->size * sizeof *g->ranks, g->deadline_ns))
            return rota_fail(ROTA_SYSTEM, "communicator '%.63s': rank %u left as all had come: %s", g->name,
                             r, strerror(errno));
    return ROTA_OK;
}

/* What the other end says next, if all of it is there: 1; it left: -1; else 0. */
static int look_for_reply(int from, reply *out_said) {
    const ssize_t got = recv(from, out_said, sizeof *out_said, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return -1;
    if (got < (ssize_t)sizeof *out_said) return 0;
    (void)recv(from, out_said, sizeof *out_said, MSG_DONTWAIT);
    return out_said->magic == MAGIC ? 1 : -1;
}

/* Each says when it is connected to all; then all are told that they are. */
static rota_status await_connected(gathering *g) {
    uint32_t count = 1;
    for (uint32_t r = 1; count < g->meeting->size; r = r + 1 < g->meeting->size ? r + 1 : 1) {
        reply said;
        const bool is_late = rota_clock_ns() > g->deadline_ns;
        const int has_said = g->ranks[r].family ? look_for_reply(g->sockets[r], &said) : 0;
        if (has_said > 0) g->ranks[r].family = 0; /* its address is with all: it is through */
        count += has_said > 0;
        if (has_said < 0 || (is_late && g->ranks[r].family))
            return rota_fail(
                has_said < 0 ? ROTA_SYSTEM : ROTA_TIMEOUT,
                "communicator '%.63s': rank 0 waited at %s for rank %u to be connected to all: %s", g->name,
                g->where, r, has_said < 0 ? "it left" : "it was not by the timeout");
        if (r + 1 == g->meeting->size) rota_nap_until(rota_deadline_after(LOOK_NS));
    }
    for (uint32_t r = 1; r < g->meeting->size; r++) (void)answer(g, g->sockets[r], OPEN, ROTA_OK, "");
    return ROTA_OK;
}

static void refuse_all(const gathering *g, rota_status status) {
    for (uint32_t r = 1; r < g->meeting->size; r++)
        if (g->sockets[r] >= 0) (void)answer(g, g->sockets[r], REFUSED, status, rota_last_error());
}

static bool is_local(const rota_meeting *meeting) {
    return strcmp(meeting->host, "localhost") == 0 || strncmp(meeting->host, "127.", 4) == 0;
}

static rota_status fail_to_listen(const gathering *g) {
    return rota_fail(ROTA_SYSTEM, "communicator '%.63s': rank %u can't listen at %s: %s", g->name,
                     g->meeting->rank, g->where, strerror(errno));
}

/* A port that is busy may be so for moments: another communicator's of these ranks may just have met there. */
static rota_status listen_at_port(gathering *g) {
    for (;;) {
        for (uint32_t i = 0; i < g->meeting->port_count; i++) {
            g->port = g->meeting->first_port + i;
            g->listener = rota_socket_listen(is_local(g->meeting), &g->port);
            if (g->listener >= 0) return ROTA_OK;
            if (errno != EADDRINUSE) return fail_to_listen(g);
        }
        if (rota_clock_ns() > g->deadline_ns) {
            errno = EADDRINUSE;
            return fail_to_listen(g);
        }
        rota_nap_until(rota_deadline_after(NAP_NS));
    }
}

static rota_status receive_ranks(gathering *g) {
    if (g->meeting->path[0]) {
        g->key = random_number();
        g->port = 0;
        g->listener = rota_socket_listen(false, &g->port);
        if (g->listener < 0) return fail_to_listen(g);
        ROTA_TRY(rota_meeting_file_write(g->meeting->path, g->key, g->port, g->name));
    } else {
        ROTA_TRY(listen_at_port(g));
    }
    g->session = random_number();
    rota_status status = gather(g);
    if (status == ROTA_OK) status = await_connected(g);
    if (status != ROTA_OK) refuse_all(g, status);
    if (g->meeting->path[0]) (void)unlink(g->meeting->path);
    return status;
}

/* ---- The others ---- */

static rota_status fail_refused(const reply *said) {
    const bool is_known = said->status > ROTA_OK && said->status < ROTA_STATUS_COUNT;
    return rota_fail(is_known ? (rota_status)said->status : ROTA_SYSTEM, "%.511s", said->text);
}

/* One address: false, with a reason: rank 0 is not there. */
static bool try_address(gathering *g, const rota_socket_address *to, char *out_reason, size_t capacity,
                        rota_status *out_status) {
    const uint64_t soon_ns = rota_deadline_after(answer_ns);
    const uint64_t until_ns = soon_ns < g->deadline_ns ? soon_ns : g->deadline_ns;
    char text[ROTA_SOCKET_TEXT];
    greeting own = {.magic = MAGIC,
                    .protocol = PROTOCOL,
                    .size = g->meeting->size,
                    .rank = g->meeting->rank,
                    .key = g->key};
    reply said = {.magic = 0};
    own.port = g->port;
    (void)snprintf(own.name, sizeof own.name, "%s", g->name);
    rota_socket_describe(to, text);
    const int made = rota_socket_connect(to, until_ns);
    if (made < 0) {
        (void)snprintf(out_reason, capacity, "%s: %s", text, strerror(errno));
        return false;
    }
    make_quick(made);
    const bool is_heard = rota_socket_send(made, &own, sizeof own, until_ns) &&
                          rota_socket_receive(made, &said, sizeof said, until_ns) && said.magic == MAGIC;
    if (is_heard && said.kind == WELCOME) {
        g->sockets[0] = made;
        return true;
    }
    if (!is_heard)
        (void)snprintf(out_reason, capacity,
                       "%s: who listens there is not rank 0 of this job, or does not answer", text);
    if (is_heard) *out_status = fail_refused(&said);
    (void)close(made);
    return is_heard;
}

static rota_status reach_rank_0(gathering *g) {
    char reason[256] = "";
    rota_socket_address found[ADDRESSES];
    rota_status status = ROTA_OK;
    for (;;) {
        const char *text = "it has not written the file";
        const uint32_t count = g->meeting->path[0]
                                   ? rota_meeting_file_read(g->meeting->path, ADDRESSES, &g->key, found)
                                   : rota_socket_resolve(g->meeting->host, ADDRESSES, found, &text);
        if (count == 0) (void)snprintf(reason, sizeof reason, "%s", text);
        for (uint32_t p = 0; p < g->meeting->port_count; p++)
            for (uint32_t i = 0; i < count; i++) {
                if (!g->meeting->path[0]) found[i].port = g->meeting->first_port + p;
                if (try_address(g, &found[i], reason, sizeof reason, &status)) return status;
                if (rota_clock_ns() > g->deadline_ns) break;
            }
        if (rota_clock_ns() > g->deadline_ns)
            return rota_fail(ROTA_TIMEOUT,
                             "communicator '%.63s': rank %u did not find rank 0 at %s within %.1f s: %s",
                             g->name, g->meeting->rank, g->where, (double)g->timeout_ns * 1e-9, reason);
        rota_nap_until(rota_deadline_after(NAP_NS));
    }
}

/* Those of rank 0's own host may have come to it from an address that others can't reach. */
static void correct_local(gathering *g) {
    rota_socket_address zero;
    if (!rota_socket_peer(g->sockets[0], &zero) || rota_socket_is_loopback(&zero)) return;
    for (uint32_t r = 1; r < g->meeting->size; r++) {
        if (r == g->meeting->rank || !rota_socket_is_loopback(&g->ranks[r])) continue;
        const uint32_t port = g->ranks[r].port;
        g->ranks[r] = zero;
        g->ranks[r].port = port;
    }
}

static rota_status hear_from_rank_0(gathering *g) {
    reply said;
    if (!rota_socket_receive(g->sockets[0], &said, sizeof said, g->deadline_ns) || said.magic != MAGIC)
        return rota_fail(errno == ETIMEDOUT ? ROTA_TIMEOUT : ROTA_SYSTEM,
                         "communicator '%.63s': rank %u waited at rank 0, %s, until all have come: %s",
                         g->name, g->meeting->rank, g->where,
                         errno == ETIMEDOUT ? "it did not say so by the timeout" : "it has left");
    if (said.kind != ALL_HAVE_COME) return fail_refused(&said);
    g->session = said.session;
    if (!rota_socket_receive(g->sockets[0], g->ranks, g->meeting->size * sizeof *g->ranks, g->deadline_ns))
        return rota_fail(ROTA_SYSTEM, "communicator '%.63s': rank 0 has left as all had come: %s", g->name,
                         strerror(errno));
    correct_local(g);
    return ROTA_OK;
}

static rota_status take_between(gathering *g, newcomer *who) {
    const greeting *said = &who->said;
    if (said->protocol != PROTOCOL || !said->is_between || said->key != g->session ||
        said->rank <= g->meeting->rank || said->rank >= g->meeting->size || g->sockets[said->rank] >= 0)
        return ROTA_OK;
    if (!answer(g, who->socket, WELCOME, ROTA_OK, "")) return ROTA_OK;
    g->sockets[said->rank] = who->socket;
    who->socket = -1;
    return ROTA_OK;
}

/* Before its time it says that it gives up, or has left: then nobody else is to be waited for. */
static rota_status look_at_rank_0(const gathering *g) {
    reply said;
    const int has_said = look_for_reply(g->sockets[0], &said);
    if (has_said > 0) return fail_refused(&said);
    if (has_said == 0) return ROTA_OK;
    return rota_fail(ROTA_SYSTEM, "communicator '%.63s': rank 0, %s, left before all were connected", g->name,
                     g->where);
}

static uint64_t next_look(const gathering *g, uint64_t after_ns) {
    const uint64_t look_ns = rota_deadline_after(after_ns);
    return look_ns < g->deadline_ns ? look_ns : g->deadline_ns;
}

/* A connection that is not there yet is begun anew; who has it may be connected to others first. */
static rota_status await_welcome(const gathering *g, int made) {
    while (!rota_socket_await(made, false, next_look(g, NAP_NS)) && rota_clock_ns() < g->deadline_ns)
        ROTA_TRY(look_at_rank_0(g));
    return ROTA_OK;
}

/* Until it says WELCOME it may not have taken this one for what it is. *out_made false, with errno: not now. */
static rota_status try_to_connect(gathering *g, uint32_t r, bool *out_made) {
    const greeting own = {.magic = MAGIC,
                          .protocol = PROTOCOL,
                          .size = g->meeting->size,
                          .rank = g->meeting->rank,
                          .key = g->session,
                          .is_between = 1};
    reply said = {.magic = 0};
    *out_made = false;
    const int made = rota_socket_connect(&g->ranks[r], next_look(g, CONNECT_NS));
    if (made < 0) return ROTA_OK;
    make_quick(made);
    rota_status status = ROTA_OK;
    if (rota_socket_send(made, &own, sizeof own, g->deadline_ns)) {
        status = await_welcome(g, made);
        *out_made = status == ROTA_OK && rota_socket_receive(made, &said, sizeof said, g->deadline_ns) &&
                    said.magic == MAGIC && said.kind == WELCOME;
    }
    if (*out_made) {
        g->sockets[r] = made;
        return ROTA_OK;
    }
    const int error = errno;
    (void)close(made);
    errno = error;
    return status;
}

/* The one that it connects to has come, so what is wrong passes, or the time does. */
static rota_status connect_to(gathering *g, uint32_t r) {
    char text[ROTA_SOCKET_TEXT];
    for (bool is_made = false;;) {
        ROTA_TRY(try_to_connect(g, r, &is_made));
        const int error = errno;
        if (is_made) return ROTA_OK;
        ROTA_TRY(look_at_rank_0(g));
        if (rota_clock_ns() > g->deadline_ns || error == EMFILE || error == ENFILE) {
            rota_socket_describe(&g->ranks[r], text);
            return rota_fail(error == EMFILE || error == ENFILE ? ROTA_SYSTEM : ROTA_TIMEOUT,
                             "communicator '%.63s': rank %u can't connect to rank %u at %s: %s", g->name,
                             g->meeting->rank, r, text, strerror(error));
        }
        rota_nap_until(rota_deadline_after(NAP_NS));
    }
}

static rota_status connect_between(gathering *g) {
    rota_rank_list missing;
    for (uint32_t r = 1; r < g->meeting->rank; r++) ROTA_TRY(connect_to(g, r));
    for (;;) {
        ROTA_TRY(look_at_rank_0(g));
        const char *text = list_missing(g, g->meeting->rank + 1, &missing);
        if (!missing.count) return ROTA_OK;
        if (rota_clock_ns() > g->deadline_ns)
            return rota_fail(
                ROTA_TIMEOUT,
                "communicator '%.63s': rank %u waited for ranks that had come to %s and did not connect: %s",
                g->name, g->meeting->rank, g->where, text);
        ROTA_TRY(look_for_newcomers(g, take_between));
    }
}

/* All are open, or none is. */
static rota_status conclude(gathering *g) {
    reply said;
    if (!answer(g, g->sockets[0], CONNECTED, ROTA_OK, "") ||
        !rota_socket_receive(g->sockets[0], &said, sizeof said, g->deadline_ns) || said.magic != MAGIC)
        return rota_fail(errno == ETIMEDOUT ? ROTA_TIMEOUT : ROTA_SYSTEM,
                         "communicator '%.63s': rank %u waited at rank 0, %s, until all are connected: %s",
                         g->name, g->meeting->rank, g->where,
                         errno == ETIMEDOUT ? "it did not say so by the timeout" : "it has left");
    return said.kind == OPEN ? ROTA_OK : fail_refused(&said);
}

static rota_status go_to_rank_0(gathering *g) {
    g->port = 0;
    g->listener = rota_socket_listen(is_local(g->meeting), &g->port);
    if (g->listener < 0) return fail_to_listen(g);
    ROTA_TRY(reach_rank_0(g));
    ROTA_TRY(hear_from_rank_0(g));
    ROTA_TRY(connect_between(g));
    return conclude(g);
}

/* ---- All ---- */

static rota_status meet(gathering *g) {
    if (g->meeting->size == 1) return ROTA_OK;
    g->ranks = calloc(g->meeting->size, sizeof *g->ranks);
    g->polled = calloc(1 + NEWCOMERS, sizeof *g->polled);
    g->newcomers = calloc(NEWCOMERS, sizeof *g->newcomers);
    if (!g->ranks || !g->polled || !g->newcomers)
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%.63s': no host memory for %u ranks", g->name,
                         g->meeting->size);
    for (uint32_t i = 0; i < NEWCOMERS; i++) g->newcomers[i].socket = -1;
    return g->meeting->rank == 0 ? receive_ranks(g) : go_to_rank_0(g);
}

/* At ports where several jobs may look, and communicators of one, each finds its own. */
static uint64_t key_of(const rota_meeting *meeting, const char *name) {
    return meeting->port_count > 1 ? rota_hash_text(meeting->key, name) : meeting->key;
}

rota_status rota_rendezvous(const rota_meeting *meeting, const char *name, uint64_t timeout_ns,
                            int *out_sockets) {
    gathering g = {.meeting = meeting,
                   .name = name,
                   .timeout_ns = timeout_ns,
                   .key = key_of(meeting, name),
                   .listener = -1,
                   .sockets = out_sockets};
    g.deadline_ns = rota_deadline_after(timeout_ns);
    rota_meeting_describe(meeting, g.where, sizeof g.where);
    for (uint32_t r = 0; r < meeting->size; r++) out_sockets[r] = -1;
    const rota_status status = meet(&g);
    for (uint32_t i = 0; i < NEWCOMERS && g.newcomers; i++) leave_newcomer(&g.newcomers[i]);
    if (g.listener >= 0) (void)close(g.listener);
    for (uint32_t r = 0; r < meeting->size && status != ROTA_OK; r++)
        if (out_sockets[r] >= 0) (void)close(out_sockets[r]);
    free(g.newcomers);
    free(g.polled);
    free(g.ranks);
    return status;
}
