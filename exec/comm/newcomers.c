/* Who comes to a rank that listens. One that says nothing, or nothing that ranks say, keeps nobody waiting. */
#include "exec/comm/newcomers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "exec/comm/sockets.h"

bool rota_reply_send(int to, rota_reply_kind kind, uint64_t session, rota_status status, const char *text) {
    rota_reply said = {.magic = ROTA_MEETING_MAGIC, .kind = kind, .session = session, .status = status};
    (void)snprintf(said.text, sizeof said.text, "%s", text);
    return rota_socket_send(to, &said, sizeof said, rota_deadline_after(ROTA_MEETING_ANSWER_NS));
}

int rota_reply_look(int from, rota_reply *out_said) {
    const ssize_t got = recv(from, out_said, sizeof *out_said, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return -1;
    if (got < (ssize_t)sizeof *out_said) return 0;
    (void)recv(from, out_said, sizeof *out_said, MSG_DONTWAIT);
    return out_said->magic == ROTA_MEETING_MAGIC ? 1 : -1;
}

static void leave(rota_newcomer *one) {
    if (one->socket >= 0) (void)close(one->socket);
    *one = (rota_newcomer){.socket = -1};
}

bool rota_newcomers_begin(rota_newcomers *n) {
    n->polled = calloc(1 + ROTA_NEWCOMERS, sizeof *n->polled);
    n->all = calloc(ROTA_NEWCOMERS, sizeof *n->all);
    for (uint32_t i = 0; i < ROTA_NEWCOMERS && n->all; i++) n->all[i].socket = -1;
    return n->polled && n->all;
}

void rota_newcomers_end(rota_newcomers *n) {
    for (uint32_t i = 0; i < ROTA_NEWCOMERS && n->all; i++) leave(&n->all[i]);
    free(n->all);
    free(n->polled);
}

/* Leaves the one that has had its time for longest and not said who it is; NULL: all have some. Who is welcome does not
 * give way. */
static rota_newcomer *make_room(rota_newcomers *n) {
    rota_newcomer *oldest = NULL;
    for (uint32_t i = 0; i < ROTA_NEWCOMERS; i++) {
        rota_newcomer *one = &n->all[i];
        if (one->socket >= 0 && !one->is_welcome && (!oldest || one->since_ns < oldest->since_ns))
            oldest = one;
    }
    if (!oldest || rota_clock_ns() - oldest->since_ns < ROTA_MEETING_ANSWER_NS) return NULL;
    leave(oldest);
    return oldest;
}

/* For one more; NULL: the others wait where they are, in the system, which has them connected. */
static rota_newcomer *find_room(rota_newcomers *n) {
    for (uint32_t i = 0; i < ROTA_NEWCOMERS; i++)
        if (n->all[i].socket < 0) return &n->all[i];
    return make_room(n);
}

static void accept_some(rota_newcomers *n) {
    for (rota_newcomer *one; (one = find_room(n));) {
        one->socket = accept4(n->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (one->socket < 0 && (errno == EMFILE || errno == ENFILE)) {
            n->accept_error = errno;
            if (!make_room(n))
                rota_nap_until(rota_deadline_after(ROTA_MEETING_NAP_NS)); /* they are there still */
        }
        if (one->socket < 0) return;
        one->since_ns = rota_clock_ns();
        rota_socket_make_quick(one->socket);
    }
}

/* True: it has said who it is, or, where it is welcome, something more. One that says something else is left, and so is
 * one that leaves, also in the middle of a word. */
static bool hear(rota_newcomer *one) {
    uint8_t *room = one->is_welcome ? (uint8_t *)&one->more : (uint8_t *)&one->said;
    const uint32_t size = one->is_welcome ? sizeof one->more : sizeof one->said;
    const ssize_t got = recv(one->socket, room + one->used, size - one->used, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got > 0) one->used += (uint32_t)got;
    const uint32_t magic = one->is_welcome ? one->more.magic : one->said.magic;
    if (got <= 0 || (one->used >= sizeof magic && magic != ROTA_MEETING_MAGIC)) leave(one);
    if (one->used < size) return false;
    one->used = 0;
    one->said.name[sizeof one->said.name - 1] = 0;
    return true;
}

/* No more are asked for than are open: the system refuses more than the process may have. False: nobody has come, or
 * said something. */
static bool wait_for_any(rota_newcomers *n) {
    uint32_t count = 0;
    n->polled[count++] = (struct pollfd){.fd = find_room(n) ? n->listener : -1, .events = POLLIN};
    for (uint32_t i = 0; i < ROTA_NEWCOMERS; i++)
        if (n->all[i].socket >= 0)
            n->polled[count++] = (struct pollfd){.fd = n->all[i].socket, .events = POLLIN};
    const int ready = poll(n->polled, count, 100);
    if (ready < 0 && errno != EINTR) rota_nap_until(rota_deadline_after(ROTA_MEETING_NAP_NS));
    return ready > 0;
}

rota_status rota_newcomers_look(rota_newcomers *n, rota_status (*take)(void *user, rota_newcomer *who),
                                void *user) {
    if (!wait_for_any(n)) return ROTA_OK;
    const struct pollfd *polled = &n->polled[1];
    for (uint32_t i = 0; i < ROTA_NEWCOMERS; i++) {
        rota_newcomer *one = &n->all[i];
        if (one->socket < 0 || !(polled++)->revents || !hear(one)) continue;
        const rota_status status = take(user, one);
        if (status != ROTA_OK || one->socket < 0 || !one->is_welcome) leave(one);
        ROTA_TRY(status);
    }
    if (n->polled[0].revents) accept_some(n);
    return ROTA_OK;
}
