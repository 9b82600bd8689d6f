/* How ranks meet. Rank 0 listens where all know; each other one listens where its system likes, and tells rank 0:
 *
 *   rank i                                       rank 0
 *   who it is, where it listens    ------------> (another protocol, size, or name: all are refused)
 *                                  <------------ welcome: so it was the one looked for
 *   here: it stays                 ------------> (a rank that is here already: all are refused)
 *                                  <------------ when all have come: where each listens, and a number of this session
 *   rank i connects to each one below it but rank 0, saying who it is, and is welcome there; each above it does so
 *   connected to all               ------------>
 *                                  <------------ open: all are
 *
 * Who is not welcome in time goes, looks elsewhere, and comes again, while its welcome may be under way. So rank 0
 * counts who says that it is here, which no process says twice: what else came of it goes by itself. A process that has
 * gone may have its place taken by another one, until all are here.
 *
 * So every two ranks have one connection, and opening fails on all of them or on none, but for who leaves just then.
 * Who waits for whom: all for rank 0, rank 0 for all, then each for those below it to be connected to those below them,
 * and for those above it; each of these waits ends by the timeout, and says who is missing. A connection that does not
 * say what ranks say, or has another job's key, is closed, and keeps nobody waiting. Where rank 0 gives up it tells all
 * that have come. */
#include "exec/comm/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/hash.h"
#include "exec/comm/meeting_file.h"
#include "exec/comm/newcomers.h"
#include "exec/comm/rank_list.h"
#include "exec/comm/sockets.h"

enum {
    ADDRESSES = 16, /* of a host, that are tried */
    LOOK_NS = 200000,
    CONNECT_NS = 2000000000 /* until who connects looks at rank 0 again */
};

typedef struct gathering {
    const rota_meeting *meeting;
    const char *name;
    uint64_t timeout_ns, deadline_ns, key, session;
    uint32_t port; /* of the listener */
    int *sockets;
    rota_socket_address *ranks; /* where each listens */
    rota_newcomers newcomers;
    char where[320]; /* they meet */
} gathering;

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

static bool answer(const gathering *g, int to, rota_reply_kind kind, rota_status status, const char *text) {
    return rota_reply_send(to, kind, g->session, status, text);
}

/* ---- Rank 0 ---- */

/* Refuses it, and all. */
static rota_status refuse(gathering *g, const rota_newcomer *who, const char *text) {
    (void)answer(g, who->socket, ROTA_REPLY_REFUSED, ROTA_INVALID_ARGUMENT, text);
    return rota_fail(ROTA_INVALID_ARGUMENT, "%s", text);
}

/* One that is not of this job looks elsewhere. */
static rota_status greet(gathering *g, rota_newcomer *who, const rota_socket_address *from) {
    const rota_greeting *said = &who->said;
    char text[400], found[ROTA_SOCKET_TEXT] = "?";
    if (said->is_between || said->key != g->key) return ROTA_OK;
    rota_socket_describe(from, found);
    const int used =
        snprintf(text, sizeof text, "communicator '%.63s': who came to rank 0 at %.100s from %s ", g->name,
                 g->where, found);
    char *rest = text + used;
    const size_t room = sizeof text - (size_t)used;
    if (said->protocol != ROTA_MEETING_PROTOCOL) {
        (void)snprintf(rest, room, "has another version of rota (protocol %u, not %u)", said->protocol,
                       ROTA_MEETING_PROTOCOL);
    } else if (said->size != g->meeting->size) {
        (void)snprintf(rest, room, "is rank %u of %u, expected one of %u", said->rank, said->size,
                       g->meeting->size);
    } else if (strcmp(said->name, g->name) != 0) {
        (void)snprintf(rest, room, "is rank %u of communicator '%s'", said->rank, said->name);
    } else if (said->rank == 0 || said->rank >= g->meeting->size) {
        (void)snprintf(rest, room, "is rank %u, expected one of 1 to %u", said->rank, g->meeting->size - 1);
    } else {
        who->is_welcome = answer(g, who->socket, ROTA_REPLY_WELCOME, ROTA_OK, "");
        return ROTA_OK;
    }
    return refuse(g, who, text);
}

static void let_go(gathering *g, uint32_t r) {
    (void)close(g->sockets[r]);
    g->sockets[r] = -1;
}

/* It says that it is here, and stays with this connection. */
static rota_status count_in(gathering *g, rota_newcomer *who, const rota_socket_address *from) {
    const uint32_t r = who->said.rank;
    char text[400], found[ROTA_SOCKET_TEXT] = "?";
    if (g->sockets[r] >= 0 && rota_socket_has_left(g->sockets[r])) let_go(g, r); /* it comes again */
    if (g->sockets[r] < 0) {
        g->sockets[r] = who->socket;
        who->socket = -1;
        g->ranks[r] = *from;
        g->ranks[r].port = who->said.port;
        return ROTA_OK;
    }
    who->is_welcome = false;
    if (rota_socket_has_left(who->socket)) return ROTA_OK; /* before the other one came */
    rota_socket_describe(from, found);
    (void)snprintf(text, sizeof text,
                   "communicator '%.63s': who came to rank 0 at %.100s from %s is rank %u, which has come "
                   "already",
                   g->name, g->where, found, r);
    return refuse(g, who, text);
}

static rota_status take_rank(void *user, rota_newcomer *who) {
    gathering *g = user;
    rota_socket_address from;
    const bool is_there = rota_socket_peer(who->socket, &from);
    if (is_there && !who->is_welcome) return greet(g, who, &from);
    if (is_there && who->more.kind == ROTA_REPLY_HERE) return count_in(g, who, &from);
    who->is_welcome = false;
    return ROTA_OK;
}

static bool have_all_come(gathering *g) {
    bool are_here = true;
    for (uint32_t r = 1; r < g->meeting->size; r++) {
        if (g->sockets[r] >= 0 && rota_socket_has_left(g->sockets[r])) let_go(g, r);
        are_here = are_here && g->sockets[r] >= 0;
    }
    return are_here;
}

/* Who is welcome and has not said that it is here, or not been heard. */
static void refuse_rest(const gathering *g, rota_status status, const char *text) {
    for (uint32_t i = 0; i < ROTA_NEWCOMERS; i++) {
        const rota_newcomer *who = &g->newcomers.all[i];
        if (who->socket >= 0 && who->is_welcome)
            (void)answer(g, who->socket, ROTA_REPLY_REFUSED, status, text);
    }
}

/* A second process of a rank that comes now finds nobody who listens. */
static void refuse_second_ones(const gathering *g) {
    char text[400];
    (void)snprintf(text, sizeof text, "communicator '%.63s': all ranks have come to rank 0 at %.100s already",
                   g->name, g->where);
    refuse_rest(g, ROTA_INVALID_ARGUMENT, text);
}

static rota_status gather(gathering *g) {
    rota_rank_list missing;
    while (!have_all_come(g)) {
        if (rota_clock_ns() > g->deadline_ns) {
            return rota_fail(
                ROTA_TIMEOUT,
                "communicator '%.63s': rank 0 waited %.1f s at %s for ranks that did not come: %s%s%s",
                g->name, (double)g->timeout_ns * 1e-9, g->where, list_missing(g, 1, &missing),
                g->newcomers.accept_error ? "; it can't take more: " : "",
                g->newcomers.accept_error ? strerror(g->newcomers.accept_error) : "");
        }
        ROTA_TRY(rota_newcomers_look(&g->newcomers, take_rank, g));
    }
    refuse_second_ones(g);
    for (uint32_t r = 1; r < g->meeting->size; r++)
        if (!answer(g, g->sockets[r], ROTA_REPLY_ALL_HAVE_COME, ROTA_OK, "") ||
            !rota_socket_send(g->sockets[r], g->ranks, g->meeting->size * sizeof *g->ranks, g->deadline_ns))
            return rota_fail(ROTA_SYSTEM, "communicator '%.63s': rank %u left as all had come: %s", g->name,
                             r, strerror(errno));
    return ROTA_OK;
}

/* Each says when it is connected to all; then all are told that they are. */
static rota_status await_connected(gathering *g) {
    uint32_t count = 1;
    for (uint32_t r = 1; count < g->meeting->size; r = r + 1 < g->meeting->size ? r + 1 : 1) {
        rota_reply said;
        const bool is_late = rota_clock_ns() > g->deadline_ns;
        const int has_said = g->ranks[r].family ? rota_reply_look(g->sockets[r], &said) : 0;
        if (has_said > 0) g->ranks[r].family = 0; /* its address is with all: it is through */
        count += has_said > 0;
        if (has_said < 0 || (is_late && g->ranks[r].family))
            return rota_fail(
                has_said < 0 ? ROTA_SYSTEM : ROTA_TIMEOUT,
                "communicator '%.63s': rank 0 waited at %s for rank %u to be connected to all: %s", g->name,
                g->where, r, has_said < 0 ? "it left" : "it was not by the timeout");
        if (r + 1 == g->meeting->size) rota_nap_until(rota_deadline_after(LOOK_NS));
    }
    for (uint32_t r = 1; r < g->meeting->size; r++)
        (void)answer(g, g->sockets[r], ROTA_REPLY_OPEN, ROTA_OK, "");
    return ROTA_OK;
}

static void refuse_all(const gathering *g, rota_status status) {
    for (uint32_t r = 1; r < g->meeting->size; r++)
        if (g->sockets[r] >= 0) (void)answer(g, g->sockets[r], ROTA_REPLY_REFUSED, status, rota_last_error());
    refuse_rest(g, status, rota_last_error());
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
            g->newcomers.listener = rota_socket_listen(is_local(g->meeting), &g->port);
            if (g->newcomers.listener >= 0) return ROTA_OK;
            if (errno != EADDRINUSE) return fail_to_listen(g);
        }
        if (rota_clock_ns() > g->deadline_ns) {
            errno = EADDRINUSE;
            return fail_to_listen(g);
        }
        rota_nap_until(rota_deadline_after(ROTA_MEETING_NAP_NS));
    }
}

static rota_status receive_ranks(gathering *g) {
    if (g->meeting->path[0]) {
        g->key = random_number();
        g->port = 0;
        g->newcomers.listener = rota_socket_listen(false, &g->port);
        if (g->newcomers.listener < 0) return fail_to_listen(g);
        ROTA_TRY(rota_meeting_file_write(g->meeting->path, g->key, g->port, g->name));
    } else {
        ROTA_TRY(listen_at_port(g));
    }
    g->session = random_number();
    rota_status status = gather(g);
    if (status == ROTA_OK) status = await_connected(g);
    if (status != ROTA_OK) refuse_all(g, status);
    if (g->meeting->path[0]) rota_meeting_file_remove(g->meeting->path, g->key);
    return status;
}

/* ---- The others ---- */

static rota_status fail_refused(const rota_reply *said) {
    const bool is_known = said->status > ROTA_OK && said->status < ROTA_STATUS_COUNT;
    return rota_fail(is_known ? (rota_status)said->status : ROTA_SYSTEM, "%.511s", said->text);
}

/* One address: false, with a reason: rank 0 is not there. */
static bool try_address(gathering *g, const rota_socket_address *to, char *out_reason, size_t capacity,
                        rota_status *out_status) {
    const uint64_t soon_ns = rota_deadline_after(ROTA_MEETING_ANSWER_NS);
    const uint64_t until_ns = soon_ns < g->deadline_ns ? soon_ns : g->deadline_ns;
    char text[ROTA_SOCKET_TEXT];
    rota_greeting own = {.magic = ROTA_MEETING_MAGIC,
                         .protocol = ROTA_MEETING_PROTOCOL,
                         .size = g->meeting->size,
                         .rank = g->meeting->rank,
                         .key = g->key};
    rota_reply said = {.magic = 0};
    own.port = g->port;
    (void)snprintf(own.name, sizeof own.name, "%s", g->name);
    rota_socket_describe(to, text);
    const int made = rota_socket_connect(to, until_ns);
    if (made < 0) {
        (void)snprintf(out_reason, capacity, "%s: %s", text, strerror(errno));
        return false;
    }
    rota_socket_make_quick(made);
    const bool is_heard = rota_socket_send(made, &own, sizeof own, until_ns) &&
                          rota_socket_receive(made, &said, sizeof said, until_ns) &&
                          said.magic == ROTA_MEETING_MAGIC;
    const bool is_welcome = is_heard && said.kind == ROTA_REPLY_WELCOME;
    if (is_welcome && answer(g, made, ROTA_REPLY_HERE, ROTA_OK, "")) {
        g->sockets[0] = made;
        return true;
    }
    if (!is_heard || is_welcome)
        (void)snprintf(out_reason, capacity,
                       "%s: who listens there is not rank 0 of this job, or does not answer", text);
    const bool is_refused = is_heard && !is_welcome;
    if (is_refused) *out_status = fail_refused(&said);
    (void)close(made);
    return is_refused;
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
        rota_nap_until(rota_deadline_after(ROTA_MEETING_NAP_NS));
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
    rota_reply said;
    if (!rota_socket_receive(g->sockets[0], &said, sizeof said, g->deadline_ns) ||
        said.magic != ROTA_MEETING_MAGIC)
        return rota_fail(errno == ETIMEDOUT ? ROTA_TIMEOUT : ROTA_SYSTEM,
                         "communicator '%.63s': rank %u waited at rank 0, %s, until all have come: %s",
                         g->name, g->meeting->rank, g->where,
                         errno == ETIMEDOUT ? "it did not say so by the timeout" : "it has left");
    if (said.kind != ROTA_REPLY_ALL_HAVE_COME) return fail_refused(&said);
    g->session = said.session;
    if (!rota_socket_receive(g->sockets[0], g->ranks, g->meeting->size * sizeof *g->ranks, g->deadline_ns))
        return rota_fail(ROTA_SYSTEM, "communicator '%.63s': rank 0 has left as all had come: %s", g->name,
                         strerror(errno));
    correct_local(g);
    return ROTA_OK;
}

static rota_status take_between(void *user, rota_newcomer *who) {
    gathering *g = user;
    const rota_greeting *said = &who->said;
    if (said->protocol != ROTA_MEETING_PROTOCOL || !said->is_between || said->key != g->session ||
        said->rank <= g->meeting->rank || said->rank >= g->meeting->size || g->sockets[said->rank] >= 0)
        return ROTA_OK;
    if (!answer(g, who->socket, ROTA_REPLY_WELCOME, ROTA_OK, "")) return ROTA_OK;
    g->sockets[said->rank] = who->socket;
    who->socket = -1;
    return ROTA_OK;
}

/* Before its time it says that it gives up, or has left: then nobody else is to be waited for. */
static rota_status look_at_rank_0(const gathering *g) {
    rota_reply said;
    const int has_said = rota_reply_look(g->sockets[0], &said);
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
    while (!rota_socket_await(made, false, next_look(g, ROTA_MEETING_NAP_NS)) &&
           rota_clock_ns() < g->deadline_ns)
        ROTA_TRY(look_at_rank_0(g));
    return ROTA_OK;
}

/* Until it says WELCOME it may not have taken this one for what it is. *out_made false, with errno: not now. */
static rota_status try_to_connect(gathering *g, uint32_t r, bool *out_made) {
    const rota_greeting own = {.magic = ROTA_MEETING_MAGIC,
                               .protocol = ROTA_MEETING_PROTOCOL,
                               .size = g->meeting->size,
                               .rank = g->meeting->rank,
                               .key = g->session,
                               .is_between = 1};
    rota_reply said = {.magic = 0};
    *out_made = false;
    const int made = rota_socket_connect(&g->ranks[r], next_look(g, CONNECT_NS));
    if (made < 0) return ROTA_OK;
    rota_socket_make_quick(made);
    rota_status status = ROTA_OK;
    if (rota_socket_send(made, &own, sizeof own, g->deadline_ns)) {
        status = await_welcome(g, made);
        *out_made = status == ROTA_OK && rota_socket_receive(made, &said, sizeof said, g->deadline_ns) &&
                    said.magic == ROTA_MEETING_MAGIC && said.kind == ROTA_REPLY_WELCOME;
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
        rota_nap_until(rota_deadline_after(ROTA_MEETING_NAP_NS));
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
        ROTA_TRY(rota_newcomers_look(&g->newcomers, take_between, g));
    }
}

/* All are open, or none is. */
static rota_status conclude(gathering *g) {
    rota_reply said;
    if (!answer(g, g->sockets[0], ROTA_REPLY_CONNECTED, ROTA_OK, "") ||
        !rota_socket_receive(g->sockets[0], &said, sizeof said, g->deadline_ns) ||
        said.magic != ROTA_MEETING_MAGIC)
        return rota_fail(errno == ETIMEDOUT ? ROTA_TIMEOUT : ROTA_SYSTEM,
                         "communicator '%.63s': rank %u waited at rank 0, %s, until all are connected: %s",
                         g->name, g->meeting->rank, g->where,
                         errno == ETIMEDOUT ? "it did not say so by the timeout" : "it has left");
    return said.kind == ROTA_REPLY_OPEN ? ROTA_OK : fail_refused(&said);
}

static rota_status go_to_rank_0(gathering *g) {
    g->port = 0;
    g->newcomers.listener = rota_socket_listen(is_local(g->meeting), &g->port);
    if (g->newcomers.listener < 0) return fail_to_listen(g);
    ROTA_TRY(reach_rank_0(g));
    ROTA_TRY(hear_from_rank_0(g));
    ROTA_TRY(connect_between(g));
    return conclude(g);
}

/* ---- All ---- */

static rota_status meet(gathering *g) {
    if (g->meeting->size == 1) return ROTA_OK;
    g->ranks = calloc(g->meeting->size, sizeof *g->ranks);
    if (!rota_newcomers_begin(&g->newcomers) || !g->ranks)
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%.63s': no host memory for %u ranks", g->name,
                         g->meeting->size);
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
                   .sockets = out_sockets,
                   .newcomers.listener = -1};
    g.deadline_ns = rota_deadline_after(timeout_ns);
    rota_meeting_describe(meeting, g.where, sizeof g.where);
    for (uint32_t r = 0; r < meeting->size; r++) out_sockets[r] = -1;
    const rota_status status = meet(&g);
    rota_newcomers_end(&g.newcomers);
    if (g.newcomers.listener >= 0) (void)close(g.newcomers.listener);
    for (uint32_t r = 0; r < meeting->size && status != ROTA_OK; r++)
        if (out_sockets[r] >= 0) (void)close(out_sockets[r]);
    free(g.ranks);
    return status;
}
