/* Messages over a connection to each other rank: where no library carries them, since MPI was not told of the ranks.
 *
 * A message is a tag, its size, its bytes. What comes goes into the memory of who wants it, or into a copy until
 * somebody does; what goes out waits in a list until the system takes it. A send is over when that has all of it. All
 * of it gets on in `test`, once a round of them: each request knows the last look that it was asked after, and the
 * first one that asks again has the engine look again.
 *
 * A connection that ends says that a rank is gone: what is wanted of it stays under way, since a farewell may have come
 * before (farewell.c), which asks for why. */
#include "exec/comm/tcp_engine.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "exec/comm/rendezvous.h"
#include "exec/comm/sockets.h"
#include "exec/common/link.h"

enum {
    EVENTS = 64,
    TURN_BYTES = 4 << 20 /* of one rank's, before another's turn */
};
static const uint64_t linger_ns =
    500000000u; /* how long close waits until others' systems have all that was sent */

typedef struct header {
    uint64_t size_bytes;
    uint32_t tag, reserved;
} header;

/* A request, or a copy that nobody has wanted yet. */
typedef struct message {
    rota_link link; /* of the connection's lists, or alone */
    header head;
    uint32_t rank; /* of the other end */
    bool is_send, is_over, is_misfit;
    uint64_t seen;     /* the engine's looks when it was last asked after */
    const void *bytes; /* sent */
    void *room;        /* wanted, or the copy's own */
    uint64_t least_bytes, room_bytes;
    uint64_t got_bytes; /* of a misfit */
    bool is_copy, is_whole;
    struct message *taker; /* of a copy that is not whole: who wants it */
} message;

typedef struct connection {
    int socket; /* -1: this rank, or gone */
    bool is_watched_to_write, cannot_write;
    rota_link sends, wanted, copies; /* oldest first */
    uint64_t sent_bytes;             /* of the first of sends, with its header */
    header head;                     /* of what comes */
    uint64_t head_bytes, body_bytes; /* of that, so far */
    message *into;                   /* once it has a header; NULL: nobody wants it any more */
    char why[160];                   /* it is gone */
    rota_socket_address address;
} connection;

typedef struct tcp_engine {
    rota_engine base;
    int events;
    uint64_t looks;
    connection *connections;
    uint8_t *nowhere; /* for what nobody wants any more */
} tcp_engine;
enum { NOWHERE_BYTES = 64 * 1024 };

static tcp_engine *engine_of(rota_engine *engine) {
    return (tcp_engine *)(void *)engine;
}

static void add_last(rota_link *list, rota_link *link) {
    rota_link_add(list->previous, link);
}

static void take_off(message *m) {
    rota_link_remove(&m->link);
    rota_link_begin(&m->link);
}

static message *find(rota_link *list, uint32_t tag) {
    for (rota_link *link = list->next; link != list; link = link->next) {
        message *m = ROTA_LINKED(link, message, link);
        if (m->head.tag == tag && !m->taker) return m;
    }
    return NULL;
}

static message *first_of(rota_link *list) {
    return rota_link_is_alone(list) ? NULL : ROTA_LINKED(list->next, message, link);
}

/* ---- A rank that is gone ---- */

static void lose(tcp_engine *e, connection *p, const char *reason) {
    char where[ROTA_SOCKET_TEXT];
    if (p->socket < 0) return;
    rota_socket_describe(&p->address, where);
    (void)snprintf(p->why, sizeof p->why, "its connection at %s has ended: %s", where, reason);
    (void)epoll_ctl(e->events, EPOLL_CTL_DEL, p->socket, NULL);
    (void)close(p->socket);
    p->socket = -1;
}

static const char *gone(const rota_engine *engine, uint32_t rank) {
    const connection *p = &((const tcp_engine *)(const void *)engine)->connections[rank];
    return p->socket < 0 && rank != engine->rank ? p->why : NULL;
}

/* ---- Out ---- */

static void watch(tcp_engine *e, connection *p, bool writes) {
    if (p->is_watched_to_write == writes || p->socket < 0) return;
    p->is_watched_to_write = writes;
    struct epoll_event event = {.events = writes ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.u32 = (uint32_t)(p - e->connections)};
    (void)epoll_ctl(e->events, EPOLL_CTL_MOD, p->socket, &event);
}

/* All of it went, or was given up by who sent it and went on as a copy. */
static void end_send(connection *p, message *m) {
    p->sent_bytes = 0;
    take_off(m);
    m->is_over = true;
    if (m->is_copy) free(m);
}

static void write_some(tcp_engine *e, connection *p) {
    uint64_t turn = 0;
    for (message *m; (m = first_of(&p->sends)) && p->socket >= 0 && !p->cannot_write && turn < TURN_BYTES;) {
        const uint64_t of_head = p->sent_bytes < sizeof m->head ? p->sent_bytes : sizeof m->head;
        const uint64_t of_body = p->sent_bytes - of_head;
        struct iovec parts[2] = {{(uint8_t *)&m->head + of_head, sizeof m->head - of_head},
                                 {(uint8_t *)(uintptr_t)m->bytes + of_body, m->head.size_bytes - of_body}};
        const struct msghdr all = {.msg_iov = parts, .msg_iovlen = 2};
        const ssize_t sent = sendmsg(p->socket, &all, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) {
            /* What it said before it went may still be there to be read: reading says that it is gone. */
            p->cannot_write = errno != EAGAIN;
            break;
        }
        turn += (uint64_t)sent;
        p->sent_bytes += (uint64_t)sent;
        if (p->sent_bytes == sizeof m->head + m->head.size_bytes) end_send(p, m);
    }
    watch(e, p, !p->cannot_write && first_of(&p->sends) != NULL);
}

/* ---- In ---- */

static void deliver(message *wanted, const void *bytes, uint64_t size_bytes) {
    wanted->is_misfit = !rota_engine_fits(size_bytes, wanted->least_bytes, wanted->room_bytes);
    wanted->got_bytes = size_bytes;
    if (!wanted->is_misfit && size_bytes) memcpy(wanted->room, bytes, size_bytes);
    wanted->is_over = true;
}

/* Who gets what has a header now. */
static void find_taker(tcp_engine *e, connection *p) {
    message *m = find(&p->wanted, p->head.tag);
    p->body_bytes = 0;
    if (m && rota_engine_fits(p->head.size_bytes, m->least_bytes, m->room_bytes)) {
        take_off(m);
        p->into = m;
        return;
    }
    const bool can_be = p->head.size_bytes <= ROTA_ENGINE_MESSAGE_MOST;
    m = can_be ? malloc(sizeof *m + p->head.size_bytes) : NULL;
    if (!m) {
        char reason[80] = "no host memory for a message";
        if (!can_be)
            (void)snprintf(reason, sizeof reason, "it sends a message of %llu bytes, expected %d at the most",
                           (unsigned long long)p->head.size_bytes, ROTA_ENGINE_MESSAGE_MOST);
        lose(e, p, reason);
        return;
    }
    *m = (message){.head = p->head, .room = m + 1, .room_bytes = p->head.size_bytes, .is_copy = true};
    add_last(&p->copies, &m->link);
    p->into = m;
    message *wanted = find(&p->wanted, p->head.tag); /* one that it does not fit */
    if (!wanted) return;
    take_off(wanted);
    m->taker = wanted;
}

static void end_receive(connection *p) {
    message *m = p->into;
    p->into = NULL;
    p->head_bytes = 0;
    if (!m) return;
    if (!m->is_copy) {
        m->is_over = true;
        return;
    }
    m->is_whole = true;
    if (!m->taker) return;
    deliver(m->taker, m->room, m->head.size_bytes);
    take_off(m);
    free(m);
}

static bool take_bytes(tcp_engine *e, connection *p, void *to, uint64_t most, uint64_t *used) {
    const ssize_t got = recv(p->socket, to, most, MSG_DONTWAIT);
    if (got > 0) {
        *used += (uint64_t)got;
        return true;
    }
    if (got < 0 && errno == EINTR) return true;
    if (got == 0)
        lose(e, p, "it left");
    else if (errno != EAGAIN)
        lose(e, p, strerror(errno));
    return false;
}

static void read_some(tcp_engine *e, connection *p) {
    for (uint64_t turn = 0; p->socket >= 0 && turn < TURN_BYTES;) {
        if (p->head_bytes < sizeof p->head) {
            if (!take_bytes(e, p, (uint8_t *)&p->head + p->head_bytes, sizeof p->head - p->head_bytes,
                            &p->head_bytes))
                return;
            if (p->head_bytes == sizeof p->head) find_taker(e, p);
            if (p->socket < 0) return;
        } else {
            const uint64_t left = p->head.size_bytes - p->body_bytes, before = p->body_bytes;
            const uint64_t most = p->into || left < NOWHERE_BYTES ? left : NOWHERE_BYTES;
            uint8_t *to = p->into ? (uint8_t *)p->into->room + p->body_bytes : e->nowhere;
            if (!take_bytes(e, p, to, most, &p->body_bytes)) return;
            turn += p->body_bytes - before;
        }
        if (p->head_bytes == sizeof p->head && p->body_bytes == p->head.size_bytes) end_receive(p);
    }
}

static void look(tcp_engine *e) {
    struct epoll_event events[EVENTS];
    const int count = epoll_wait(e->events, events, EVENTS, 0);
    e->looks++;
    for (int i = 0; i < count; i++) {
        connection *p = &e->connections[events[i].data.u32];
        if (events[i].events & EPOLLOUT) write_some(e, p);
        if (events[i].events & ~(uint32_t)EPOLLOUT) read_some(e, p);
    }
}

/* ---- The contract ---- */

static message *make(tcp_engine *e, uint32_t rank, uint32_t tag, uint64_t size_bytes) {
    message *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    rota_link_begin(&m->link);
    m->rank = rank;
    m->head = (header){.size_bytes = size_bytes, .tag = tag};
    m->seen = e->looks;
    return m;
}

static rota_status fail_memory(void) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a message");
}

static rota_status send_message(rota_engine *base, uint32_t to, uint32_t tag, const void *bytes,
                                uint64_t size_bytes, rota_engine_request **out_request) {
    tcp_engine *e = engine_of(base);
    connection *p = &e->connections[to];
    message *m = make(e, to, tag, size_bytes);
    if (!m) return fail_memory();
    const bool is_first = rota_link_is_alone(&p->sends);
    m->is_send = true;
    m->bytes = bytes;
    add_last(&p->sends, &m->link);
    if (is_first) write_some(e, p);
    *out_request = m;
    return ROTA_OK;
}

static rota_status receive_message(rota_engine *base, uint32_t from, uint32_t tag, void *bytes,
                                   uint64_t least_bytes, uint64_t size_bytes,
                                   rota_engine_request **out_request) {
    tcp_engine *e = engine_of(base);
    connection *p = &e->connections[from];
    message *m = make(e, from, tag, size_bytes);
    if (!m) return fail_memory();
    m->room = bytes;
    m->least_bytes = least_bytes;
    m->room_bytes = size_bytes;
    message *copy = find(&p->copies, tag);
    if (!copy) {
        add_last(&p->wanted, &m->link);
    } else if (copy->is_whole) {
        deliver(m, copy->room, copy->head.size_bytes);
        take_off(copy);
        free(copy);
    } else {
        copy->taker = m;
    }
    *out_request = m;
    return ROTA_OK;
}

static rota_status test(rota_engine *base, rota_engine_request *request, bool *out_over) {
    tcp_engine *e = engine_of(base);
    message *m = request;
    if (!m->is_over && m->seen == e->looks) look(e);
    m->seen = e->looks;
    *out_over = m->is_over;
    if (!m->is_over) return ROTA_OK;
    const message ended = *m;
    free(m);
    return ended.is_misfit
               ? rota_engine_fail_misfit(ended.rank, ended.got_bytes, ended.least_bytes, ended.room_bytes)
               : ROTA_OK;
}

/* It goes on as a copy, in its turn; without memory for one the connection ends, which the other end sees. */
static void go_on_as_copy(tcp_engine *e, connection *p, message *m) {
    message *copy = malloc(sizeof *copy + m->head.size_bytes);
    if (!copy) {
        lose(e, p, "no host memory for a message that was given up");
        take_off(m);
        return;
    }
    *copy = *m;
    copy->is_copy = true;
    copy->bytes = memcpy(copy + 1, m->bytes, m->head.size_bytes);
    rota_link_add(&m->link, &copy->link);
    take_off(m);
}

static bool cancel(rota_engine *base, rota_engine_request *request) {
    tcp_engine *e = engine_of(base);
    message *m = request;
    connection *p = &e->connections[m->rank];
    if (m->is_over) return false;
    m->is_over = true;
    if (m->is_send) {
        const bool has_begun = first_of(&p->sends) == m && p->sent_bytes > 0;
        if (has_begun && p->socket >= 0)
            go_on_as_copy(e, p, m); /* the other end has its header */
        else
            take_off(m);
        return !has_begun;
    }
    take_off(m);
    if (p->into == m) p->into = NULL;
    for (rota_link *link = p->copies.next; link != &p->copies; link = link->next) {
        message *copy = ROTA_LINKED(link, message, link);
        if (copy->taker != m) continue;
        if (p->into == copy) p->into = NULL;
        take_off(copy);
        free(copy);
        break;
    }
    return false;
}

static void detach(rota_engine *base, rota_engine_request *request) {
    tcp_engine *e = engine_of(base);
    message *m = request;
    connection *p = &e->connections[m->rank];
    if (m->is_over) return;
    m->is_over = true;
    if (p->socket >= 0)
        go_on_as_copy(e, p, m);
    else
        take_off(m);
}

/* ---- Its end ---- */

static void free_list(rota_link *list) {
    while (list->next && !rota_link_is_alone(list)) {
        message *m = ROTA_LINKED(list->next, message, link);
        take_off(m);
        if (m->is_copy) free(m);
    }
}

/* Whether its system has all that this one's sent; what it sends is let go by, as else its coming would have this end
 * reset the connection, and what is not through yet lost. */
static bool is_through(tcp_engine *e, connection *p) {
    int left = 0;
    if (p->socket < 0 || p->cannot_write) return true;
    for (uint32_t i = 0; i < EVENTS; i++) {
        const ssize_t got = recv(p->socket, e->nowhere, NOWHERE_BYTES, MSG_DONTWAIT);
        if (got == 0) return true; /* it closes, too, and has read before: it waits for nothing */
        if (got < 0) break;
    }
    return first_of(&p->sends) == NULL && ioctl(p->socket, SIOCOUTQ, &left) == 0 && left == 0;
}

/* Without its connections. */
static void free_engine(tcp_engine *e) {
    if (e->events >= 0) (void)close(e->events);
    free(e->nowhere);
    free(e->connections);
    free(e);
}

static void close_engine(rota_engine *base) {
    tcp_engine *e = engine_of(base);
    const uint64_t deadline_ns = rota_deadline_after(linger_ns);
    for (;;) {
        bool are_through = true;
        for (uint32_t r = 0; r < base->size; r++) {
            write_some(e, &e->connections[r]);
            are_through = is_through(e, &e->connections[r]) && are_through;
        }
        if (are_through || rota_clock_ns() > deadline_ns) break;
        rota_nap_until(rota_deadline_after(50000));
    }
    for (uint32_t r = 0; r < base->size; r++) {
        connection *p = &e->connections[r];
        if (p->socket >= 0) (void)close(p->socket);
        free_list(&p->sends);
        free_list(&p->wanted);
        free_list(&p->copies);
    }
    free_engine(e);
}

static const rota_engine_vtable vtable = {send_message, receive_message, test, cancel,
                                          detach,       close_engine,    gone, NULL};

/* ---- Opening ---- */

/* Takes the sockets. */
static rota_status watch_all(tcp_engine *e, const int *sockets) {
    for (uint32_t r = 0; r < e->base.size; r++) {
        connection *p = &e->connections[r];
        p->socket = sockets[r];
        rota_link_begin(&p->sends);
        rota_link_begin(&p->wanted);
        rota_link_begin(&p->copies);
        if (p->socket >= 0) (void)rota_socket_peer(p->socket, &p->address);
    }
    for (uint32_t r = 0; r < e->base.size; r++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = r};
        if (sockets[r] >= 0 && epoll_ctl(e->events, EPOLL_CTL_ADD, sockets[r], &event) != 0)
            return rota_fail(ROTA_SYSTEM, "rank %u can't look at its connection to rank %u: %s", e->base.rank,
                             r, strerror(errno));
    }
    return ROTA_OK;
}

static rota_status make_engine(const rota_meeting *meeting, const char *name, tcp_engine **out_engine) {
    tcp_engine *e = calloc(1, sizeof *e);
    int error = e ? 0 : ENOMEM;
    if (e) {
        e->base =
            (rota_engine){&vtable, "tcp", meeting->rank, meeting->size, UINT32_MAX, false, NULL, 0, false};
        e->connections = calloc(meeting->size, sizeof *e->connections);
        e->nowhere = malloc(NOWHERE_BYTES);
        e->events = epoll_create1(EPOLL_CLOEXEC);
        error = e->events < 0 ? errno : e->connections && e->nowhere ? 0 : ENOMEM;
    }
    if (!error) {
        *out_engine = e;
        return ROTA_OK;
    }
    if (e) free_engine(e);
    if (error == ENOMEM)
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%.63s': no host memory for %u ranks", name,
                         meeting->size);
    return rota_fail(ROTA_SYSTEM, "communicator '%.63s': rank %u can't look at connections: %s", name,
                     meeting->rank, strerror(error));
}

rota_status rota_tcp_open(const rota_meeting *meeting, const char *name, uint64_t timeout_ns,
                          rota_engine **out_engine) {
    tcp_engine *e = NULL;
    ROTA_TRY(make_engine(meeting, name, &e));
    int *sockets = calloc(meeting->size, sizeof *sockets);
    if (!sockets) {
        free_engine(e);
        return rota_fail(ROTA_OUT_OF_MEMORY, "communicator '%.63s': no host memory for %u ranks", name,
                         meeting->size);
    }
    for (uint32_t r = 0; r < meeting->size; r++) {
        e->connections[r].socket = -1;
        rota_link_begin(&e->connections[r].sends);
        rota_link_begin(&e->connections[r].wanted);
        rota_link_begin(&e->connections[r].copies);
    }
    rota_status status = rota_rendezvous(meeting, name, timeout_ns, sockets);
    if (status == ROTA_OK) status = watch_all(e, sockets);
    free(sockets);
    if (status == ROTA_OK) {
        *out_engine = &e->base;
        return ROTA_OK;
    }
    char text[ROTA_ERROR_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s", rota_last_error());
    close_engine(&e->base);
    return rota_fail(status, "%s", text);
}
