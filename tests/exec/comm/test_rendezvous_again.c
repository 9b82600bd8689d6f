/* Who comes to rank 0 more than once: the same process, which was not welcome in time, another one for one that has
 * gone, or a second one beside it. The test says what ranks say, so each is at rank 0 when the next one comes. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/comm/meeting_file.h"
#include "exec/comm/newcomers.h"
#include "exec/comm/rendezvous.h"
#include "exec/comm/sockets.h"
#include "tests/kit/free_port.h"
#include "tests/kit/support.h"

enum { RANKS_MOST = 3, LOOKS = 600 };
#define PATIENCE_NS UINT64_C(60000000000)

typedef struct rank_0 {
    rota_meeting meeting;
    pthread_t thread;
    rota_status status;
    char text[ROTA_ERROR_MESSAGE_MAX];
} rank_0;

static void *meet(void *argument) {
    rank_0 *own = argument;
    int sockets[RANKS_MOST];
    own->status = rota_rendezvous(&own->meeting, "world", PATIENCE_NS, sockets);
    (void)snprintf(own->text, sizeof own->text, "%s", own->status == ROTA_OK ? "" : rota_last_error());
    for (uint32_t r = 1; r < own->meeting.size && own->status == ROTA_OK; r++) (void)close(sockets[r]);
    return NULL;
}

static void start(rank_0 *own, uint32_t size) {
    char address[64];
    memset(own, 0, sizeof *own);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", test_free_port());
    assert_ok(rota_meeting_at(address, 0, size, &own->meeting));
    assert_int_equal(pthread_create(&own->thread, NULL, meet, own), 0);
}

static void end(rank_0 *own, rota_status status, const char *text) {
    assert_int_equal(pthread_join(own->thread, NULL), 0);
    if (own->status != status || !strstr(own->text, text))
        fail_msg("%s: %s, expected %s with '%s'", rota_status_name(own->status), own->text,
                 rota_status_name(status), text);
}

/* ---- What ranks say and hear ---- */

static rota_reply hear(int from) {
    rota_reply said;
    if (!rota_socket_receive(from, &said, sizeof said, rota_deadline_after(PATIENCE_NS)))
        fail_msg("rank 0 says nothing: %s", strerror(errno));
    assert_int_equal(said.magic, ROTA_MEETING_MAGIC);
    return said;
}

static void expect(int from, rota_reply_kind kind) {
    const rota_reply said = hear(from);
    if (said.kind != kind) fail_msg("rank 0 says %u: %s, expected %u", said.kind, said.text, kind);
}

static void expect_refused(int from, const char *text) {
    const rota_reply said = hear(from);
    if (said.kind != ROTA_REPLY_REFUSED || !strstr(said.text, text))
        fail_msg("rank 0 says %u: %s, expected that it refuses with '%s'", said.kind, said.text, text);
}

static void say(int to, rota_reply_kind kind) {
    assert_true(rota_reply_send(to, kind, 0, ROTA_OK, ""));
}

/* A connection of that rank's, which is welcome. */
static int come(const rank_0 *to, uint32_t rank) {
    rota_socket_address address = {
        .family = AF_INET, .port = to->meeting.first_port, .bytes = {127, 0, 0, 1}};
    const rota_greeting own = {.magic = ROTA_MEETING_MAGIC,
                               .protocol = ROTA_MEETING_PROTOCOL,
                               .size = to->meeting.size,
                               .rank = rank,
                               .key = to->meeting.key,
                               .port = 1000 + rank,
                               .name = "world"};
    int made;
    while ((made = rota_socket_connect(&address, rota_deadline_after(PATIENCE_NS))) < 0)
        assert_int_equal(errno, ECONNREFUSED); /* it does not listen yet */
    assert_true(rota_socket_send(made, &own, sizeof own, rota_deadline_after(PATIENCE_NS)));
    expect(made, ROTA_REPLY_WELCOME);
    return made;
}

/* Each of them is told that all have come, and is connected; and so is rank 0. */
static void go_on(rank_0 *with, const int *ranks) {
    rota_socket_address all[RANKS_MOST];
    for (uint32_t i = 0; i + 1 < with->meeting.size; i++) {
        expect(ranks[i], ROTA_REPLY_ALL_HAVE_COME);
        assert_true(rota_socket_receive(ranks[i], all, with->meeting.size * sizeof *all,
                                        rota_deadline_after(PATIENCE_NS)));
        for (uint32_t r = 1; r < with->meeting.size; r++) assert_int_equal(all[r].port, 1000 + r);
    }
    for (uint32_t i = 0; i + 1 < with->meeting.size; i++) say(ranks[i], ROTA_REPLY_CONNECTED);
    for (uint32_t i = 0; i + 1 < with->meeting.size; i++) expect(ranks[i], ROTA_REPLY_OPEN);
    end(with, ROTA_OK, "");
}

static void close_all(const int *sockets, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) (void)close(sockets[i]);
}

/* ---- Who comes again ---- */

/* The first one is still on its way out as the second comes, and is looked at first. */
static void the_same_twice(void **state) {
    (void)state;
    rank_0 zero;
    start(&zero, 2);
    const int left = come(&zero, 1), own = come(&zero, 1);
    say(own, ROTA_REPLY_HERE);
    expect_refused(left, "all ranks have come");
    go_on(&zero, &own);
    close_all((const int[]){left, own}, 2);
}

/* Who was welcome, and went before it knew, is waited for. */
static void welcome_and_gone(void **state) {
    (void)state;
    rank_0 zero;
    start(&zero, 3);
    const int left = come(&zero, 1);
    int own[2] = {-1, come(&zero, 2)};
    say(own[1], ROTA_REPLY_HERE);
    (void)close(left);
    own[0] = come(&zero, 1);
    rota_reply said;
    assert_int_equal(rota_reply_look(own[1], &said), 0);
    say(own[0], ROTA_REPLY_HERE);
    go_on(&zero, own);
    close_all(own, 2);
}

/* A process that was here, and another one in its place. */
static void here_and_gone(void **state) {
    (void)state;
    rank_0 zero;
    start(&zero, 3);
    const int gone = come(&zero, 1);
    say(gone, ROTA_REPLY_HERE);
    (void)close(gone);
    int own[2] = {come(&zero, 1), -1};
    say(own[0], ROTA_REPLY_HERE);
    own[1] = come(&zero, 2);
    say(own[1], ROTA_REPLY_HERE);
    go_on(&zero, own);
    close_all(own, 2);
}

/* Two processes that are one rank: all that have come are told, also who has not said yet that it is here. */
static void a_second_one(void **state) {
    (void)state;
    rank_0 zero;
    start(&zero, 3);
    const int all[3] = {come(&zero, 1), come(&zero, 2), come(&zero, 1)};
    say(all[0], ROTA_REPLY_HERE);
    const int seen = come(&zero, 2); /* what came before it has been heard */
    say(all[2], ROTA_REPLY_HERE);
    for (uint32_t i = 0; i < 3; i++) expect_refused(all[i], "is rank 1, which has come already");
    expect_refused(seen, "is rank 1, which has come already");
    end(&zero, ROTA_INVALID_ARGUMENT, "is rank 1, which has come already");
    close_all(all, 3);
    (void)close(seen);
}

/* ---- Who says a part of it ---- */

static void say_a_part(int to) {
    const rota_reply here = {.magic = ROTA_MEETING_MAGIC, .kind = ROTA_REPLY_HERE};
    assert_true(rota_socket_send(to, &here, sizeof here / 2, rota_deadline_after(PATIENCE_NS)));
}

/* Those that go in the middle of it have no room any more: as many as there is room for. */
static void gone_in_the_middle(void **state) {
    (void)state;
    rank_0 zero;
    start(&zero, 2);
    for (uint32_t i = 0; i < ROTA_NEWCOMERS; i++) {
        const int left = come(&zero, 1);
        say_a_part(left);
        (void)close(left);
    }
    const int own = come(&zero, 1);
    say(own, ROTA_REPLY_HERE);
    go_on(&zero, &own);
    (void)close(own);
}

typedef struct taken {
    uint32_t greetings, more;
} taken;

static rota_status welcome(void *user, rota_newcomer *who) {
    taken *own = user;
    if (who->is_welcome)
        own->more++;
    else
        own->greetings++;
    who->is_welcome = !who->is_welcome;
    return ROTA_OK;
}

/* Who comes to a listener of their own, at that address. */
static rota_socket_address listen_for(rota_newcomers *newcomers) {
    uint32_t port = 0;
    *newcomers = (rota_newcomers){.listener = -1};
    assert_true(rota_newcomers_begin(newcomers));
    newcomers->listener = rota_socket_listen(true, &port);
    assert_true(newcomers->listener >= 0);
    return (rota_socket_address){.family = AF_INET, .port = port, .bytes = {127, 0, 0, 1}};
}

/* It is not asked for as long as the rest has not come: who looks sleeps meanwhile. */
static void the_rest_is_late(void **state) {
    (void)state;
    rota_newcomers newcomers;
    const rota_socket_address address = listen_for(&newcomers);
    taken seen = {0};
    const rota_greeting own = {.magic = ROTA_MEETING_MAGIC};
    const rota_reply here = {.magic = ROTA_MEETING_MAGIC, .kind = ROTA_REPLY_HERE};
    const int made = rota_socket_connect(&address, rota_deadline_after(PATIENCE_NS));
    assert_true(made >= 0);
    assert_true(rota_socket_send(made, &own, sizeof own, rota_deadline_after(PATIENCE_NS)));
    while (!seen.greetings) assert_ok(rota_newcomers_look(&newcomers, welcome, &seen));
    say_a_part(made);
    for (uint32_t i = 0; i < 4; i++) assert_ok(rota_newcomers_look(&newcomers, welcome, &seen));
    assert_int_equal(seen.more, 0);
    assert_true(rota_socket_send(made, (const uint8_t *)&here + sizeof here / 2,
                                 sizeof here - sizeof here / 2, rota_deadline_after(PATIENCE_NS)));
    while (!seen.more) assert_ok(rota_newcomers_look(&newcomers, welcome, &seen));
    assert_true(rota_socket_await(made, false, rota_deadline_after(PATIENCE_NS)));
    assert_true(rota_socket_has_left(made)); /* it was left as it was not to stay */
    assert_int_equal(seen.greetings, 1);
    assert_int_equal(seen.more, 1);
    rota_newcomers_end(&newcomers);
    (void)close(newcomers.listener);
    (void)close(made);
}

/* ---- Few descriptors ---- */

/* One is left for who comes, and one that says nothing has it, until it has had its time. */
static void one_descriptor(void **state) {
    (void)state;
    rota_newcomers newcomers;
    const rota_socket_address address = listen_for(&newcomers);
    struct rlimit files, few;
    uint32_t looks = 0;
    taken seen = {0};
    const rota_greeting own = {.magic = ROTA_MEETING_MAGIC};
    int made[2];
    for (uint32_t i = 0; i < 2; i++) {
        made[i] = rota_socket_connect(&address, rota_deadline_after(PATIENCE_NS));
        assert_true(made[i] >= 0);
    }
    assert_true(rota_socket_send(made[1], &own, sizeof own, rota_deadline_after(PATIENCE_NS)));
    const int next = dup(newcomers.listener);
    assert_true(next >= 0);
    (void)close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = (rlim_t)next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (!newcomers.accept_error && looks++ < LOOKS)
        assert_ok(rota_newcomers_look(&newcomers, welcome, &seen));
    assert_int_equal(newcomers.accept_error, EMFILE);
    assert_int_equal(seen.greetings, 0);
    for (uint32_t i = 0; i < ROTA_NEWCOMERS; i++) newcomers.all[i].since_ns = 0;
    while (!seen.greetings && looks++ < LOOKS) assert_ok(rota_newcomers_look(&newcomers, welcome, &seen));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(seen.greetings, 1);
    rota_newcomers_end(&newcomers);
    (void)close(newcomers.listener);
    close_all(made, 2);
}

/* ---- The file ---- */

/* A job that gives up, or has met, leaves the file of one that has been started since. */
static void a_file_of_another_job(void **state) {
    (void)state;
    char folder[] = "/tmp/rota_againXXXXXX", path[64];
    struct stat found;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/here", folder);
    rota_meeting_file_remove(path, 7); /* somebody else has done it */
    assert_ok(rota_meeting_file_write(path, 7, 4000, "world"));
    assert_ok(rota_meeting_file_write(path, 8, 4001, "world"));
    rota_meeting_file_remove(path, 7);
    assert_int_equal(stat(path, &found), 0);
    rota_meeting_file_remove(path, 8);
    assert_int_equal(stat(path, &found), -1);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_twice),     cmocka_unit_test(welcome_and_gone),
        cmocka_unit_test(here_and_gone),      cmocka_unit_test(a_second_one),
        cmocka_unit_test(gone_in_the_middle), cmocka_unit_test(the_rest_is_late),
        cmocka_unit_test(one_descriptor),     cmocka_unit_test(a_file_of_another_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
