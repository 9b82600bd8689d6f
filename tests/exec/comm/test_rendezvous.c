/* Ranks that meet by an address or a file: the transport contract over their connections, who is named when some do not
 * come or say other things, strangers, and what launchers say. Ranks are threads of this process. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/comm/messages.h"
#include "exec/comm/rendezvous.h"
#include "exec/comm/tcp_engine.h"
#include "tests/exec/comm/transport_contract.h"
#include "tests/kit/free_port.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include "tests/ranks/rank_cases.h"

enum { RANKS_MOST = 5, MANY_RANKS = 70 };

typedef struct came {
    rota_meeting meeting;
    const char *name;
    uint64_t timeout_ns;
    void (*then)(rota_engine *engine);
    uint32_t late_ms;
    const _Atomic bool *after; /* NULL, or it comes once that is set */
    rota_status status;
    char text[ROTA_ERROR_MESSAGE_MAX];
} came;

static void *come(void *argument) {
    came *own = argument;
    rota_engine *engine = NULL;
    test_nap_ms(own->late_ms);
    while (own->after && !atomic_load(own->after)) test_nap_ms(1);
    own->status = rota_tcp_open(&own->meeting, own->name, own->timeout_ns, &engine);
    (void)snprintf(own->text, sizeof own->text, "%s", own->status == ROTA_OK ? "" : rota_last_error());
    if (own->status != ROTA_OK) return NULL;
    if (own->then)
        own->then(engine);
    else
        engine->vtable->close(engine);
    return NULL;
}

static void prepare(came *ranks, uint32_t size, const char *address) {
    memset(ranks, 0, size * sizeof *ranks);
    for (uint32_t r = 0; r < size; r++) {
        assert_ok(rota_meeting_at(address, r, size, &ranks[r].meeting));
        ranks[r].name = "world";
        ranks[r].timeout_ns = 30000000000u;
    }
}

static void run(came *ranks, uint32_t count) {
    pthread_t threads[MANY_RANKS];
    for (uint32_t r = 0; r < count; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, come, &ranks[r]), 0);
    for (uint32_t r = 0; r < count; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
}

static void expect_ok(const came *ranks, uint32_t count) {
    for (uint32_t r = 0; r < count; r++)
        if (ranks[r].status != ROTA_OK) fail_msg("rank %u: %s", r, ranks[r].text);
}

static void expect(const came *own, rota_status status, const char *text) {
    if (own->status != status || !strstr(own->text, text))
        fail_msg("%s: %s, expected %s with '%s'", rota_status_name(own->status), own->text,
                 rota_status_name(status), text);
}

static void address_of(uint16_t port, char out_text[64]) {
    (void)snprintf(out_text, 64, "127.0.0.1:%u", port);
}

/* ---- The contract ---- */

static void end(rota_transport *transport) {
    uint64_t abandoned = 1;
    rota_transport_close(transport, rota_deadline_after(10000000000u), &abandoned);
    rank_want(abandoned == 0, "%llu bytes abandoned", (unsigned long long)abandoned);
}

static void hold_contract(rota_engine *engine) {
    rota_transport *transport;
    rank_ok(rota_messages_open(engine, "world", 30000000000u, &transport));
    rank_want(strcmp(transport->kind, "tcp") == 0, "%s", transport->kind);
    transport_contract(transport);
    end(transport);
}

static void run_contract(uint32_t size, const char *address) {
    came ranks[RANKS_MOST];
    prepare(ranks, size, address);
    for (uint32_t r = 0; r < size; r++) ranks[r].then = hold_contract;
    ranks[0].late_ms = size == 2 ? 100 : 0; /* the others look until it is there */
    run(ranks, size);
    expect_ok(ranks, size);
}

static void by_port(void **state) {
    (void)state;
    char address[64];
    for (uint32_t size = 1; size <= RANKS_MOST; size++) {
        address_of(test_free_port(), address);
        run_contract(size, address);
    }
}

/* Also over a file that another job has left, and names a port where nobody listens; and it is gone in the end. */
static void by_file(void **state) {
    (void)state;
    char folder[] = "/tmp/rota_meetXXXXXX", path[64], address[80];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/here", folder);
    (void)snprintf(address, sizeof address, "file:%s", path);
    for (uint32_t is_stale = 0; is_stale < 2; is_stale++) {
        FILE *old = is_stale ? fopen(path, "w") : NULL;
        if (old) {
            (void)fprintf(old, "rota 0000000000000001\n4 %u 7f000001000000000000000000000000\n",
                          test_free_port());
            (void)fclose(old);
        }
        run_contract(3, address);
        struct stat found;
        assert_int_equal(stat(path, &found), -1);
    }
    assert_int_equal(rmdir(folder), 0);
}

static rota_status finish(rota_transport *transport, uint32_t lag_us) {
    rota_status status = ROTA_OK;
    for (bool is_over = false, moved; !is_over; test_nap_us(lag_us))
        status = transport->vtable->progress(transport, &is_over, &moved);
    return status;
}

static rota_status carry_out(rota_transport *transport, const rota_collective *collective, uint32_t lag_us) {
    transport->vtable->post(transport, collective);
    return finish(transport, lag_us);
}

/* A collective on all of them. */
static void see_all(rota_engine *engine) {
    rota_transport *transport;
    uint32_t all[MANY_RANKS];
    const uint32_t own = engine->rank, size = engine->size;
    rank_ok(rota_messages_open(engine, "world", 30000000000u, &transport));
    const rota_collective gather = {.kind = ROTA_COLLECTIVE_ALL_GATHER,
                                    .type = ROTA_COLLECTIVE_U32,
                                    .count = 1,
                                    .input = &own,
                                    .output = all,
                                    .name = "all"};
    rank_ok(carry_out(transport, &gather, 100));
    for (uint32_t r = 0; r < size; r++) rank_want(all[r] == r, "rank %u is %u", r, all[r]);
    end(transport);
}

static pthread_barrier_t both; /* ranks */

/* Goes on until the connection takes no more: nothing has moved for a while. */
static void send_until_it_is_full(rota_transport *transport) {
    bool is_over = false, moved;
    for (uint64_t moved_ns = rota_clock_ns(); rota_clock_ns() - moved_ns < 100000000u; test_nap_us(20)) {
        rank_ok(transport->vtable->progress(transport, &is_over, &moved));
        rank_want(!is_over, "a connection takes all of it, and nobody looks");
        if (moved) moved_ns = rota_clock_ns();
    }
}

/* Rank 0 ends a group in the midst of a message, and closes it, before rank 1 looks again, which hears of it. */
static void end_behind_a_message(rota_engine *engine) {
    enum { COUNT = 64 << 20 }; /* bytes; no connection has as many under way */
    rota_transport *world, *own;
    uint8_t *bytes = calloc(1, COUNT);
    rank_ok(rota_messages_open(engine, "world", 30000000000u, &world));
    world->vtable->split(world, 0, 0);
    rank_ok(finish(world, 20));
    rank_ok(world->vtable->take_split(world, "torn", &own));
    const rota_collective message = {.kind = engine->rank ? ROTA_COLLECTIVE_RECEIVE : ROTA_COLLECTIVE_SEND,
                                     .type = ROTA_COLLECTIVE_U32,
                                     .peer = !engine->rank,
                                     .count = COUNT / sizeof(uint32_t),
                                     .input = bytes,
                                     .output = bytes,
                                     .name = "there"};
    own->vtable->post(own, &message);
    (void)pthread_barrier_wait(&both);
    if (engine->rank == 0) {
        send_until_it_is_full(own);
        own->vtable->abort(own, "in the midst of it");
        end(own);
    }
    (void)pthread_barrier_wait(&both);
    if (engine->rank == 1) {
        rank_want(finish(own, 20) == ROTA_NODE_FAILED && strstr(rota_last_error(), "in the midst of it"),
                  "%s", rota_last_error());
        end(own);
    }
    rank_ok(carry_out(world, &(rota_collective){.kind = ROTA_COLLECTIVE_BARRIER, .name = "after it"}, 20));
    end(world);
    free(bytes);
}

static void ended_behind_a_message(void **state) {
    (void)state;
    char address[64];
    came ranks[2];
    address_of(test_free_port(), address);
    prepare(ranks, 2, address);
    for (uint32_t r = 0; r < 2; r++) ranks[r].then = end_behind_a_message;
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    run(ranks, 2);
    expect_ok(ranks, 2);
    assert_int_equal(pthread_barrier_destroy(&both), 0);
}

/* What a rank had sent before it went, without a word, is taken all the same. */
static void send_and_leave(rota_engine *engine) {
    enum { COUNT = 5 << 20 }; /* more pieces than looks between two at who is gone */
    rota_transport *transport;
    uint32_t *words = calloc(COUNT, sizeof *words);
    const uint32_t rank = engine->rank;
    rank_ok(rota_messages_open(engine, "world", 30000000000u, &transport));
    for (uint32_t i = 0; i < COUNT && rank == 0; i++) words[i] = i * 3 + 1;
    const rota_collective broadcast = {.kind = ROTA_COLLECTIVE_BROADCAST,
                                       .type = ROTA_COLLECTIVE_U32,
                                       .count = COUNT,
                                       .input = rank ? NULL : words,
                                       .output = words,
                                       .name = "words"};
    rank_ok(carry_out(transport, &broadcast, rank ? 5000 : 0));
    if (rank == 0) _exit(0); /* its process's only thread but the test's, which waits */
    for (uint32_t i = 0; i < COUNT; i++) rank_want(words[i] == i * 3 + 1, "word %u is %u", i, words[i]);
    rank_want(carry_out(transport, &broadcast, 0) == ROTA_NODE_FAILED, "it is there still");
    free(words);
    end(transport);
}

static void sent_before_it_went(void **state) {
    (void)state;
    char address[64];
    came ranks[2];
    int status = 0;
    address_of(test_free_port(), address);
    prepare(ranks, 2, address);
    for (uint32_t r = 0; r < 2; r++) ranks[r].then = send_and_leave;
    const pid_t child = fork();
    if (child == 0) {
        (void)come(&ranks[0]);
        _exit(1);
    }
    run(&ranks[1], 1);
    expect_ok(&ranks[1], 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A rank that ends without a farewell is missed at once, not by the timeout. */
static void leave_or_wait(rota_engine *engine) {
    rota_transport *transport;
    if (engine->rank == 1) {
        engine->vtable->close(engine);
        return;
    }
    const uint64_t begin = rota_clock_ns();
    rank_ok(rota_messages_open(engine, "world", 30000000000u, &transport));
    const rota_collective barrier = {.kind = ROTA_COLLECTIVE_BARRIER, .name = "the barrier"};
    rank_want(carry_out(transport, &barrier, 50) == ROTA_NODE_FAILED &&
                  strstr(rota_last_error(), "rank 1 is gone") &&
                  strstr(rota_last_error(), "communicator 'world'"),
              "%s", rota_last_error());
    rank_want(rota_clock_ns() - begin < 10000000000u, "it was waited for");
    end(transport);
}

static void gone_rank(void **state) {
    (void)state;
    char address[64];
    came ranks[3];
    address_of(test_free_port(), address);
    prepare(ranks, 3, address);
    for (uint32_t r = 0; r < 3; r++) ranks[r].then = leave_or_wait;
    run(ranks, 3);
    expect_ok(ranks, 3);
}

/* ---- Who does not come, or says other things ---- */

static void missing_rank(void **state) {
    (void)state;
    char address[64];
    came ranks[4];
    address_of(test_free_port(), address);
    prepare(ranks, 4, address);
    for (uint32_t r = 0; r < 4; r++)
        ranks[r].timeout_ns = r ? 30000000000u : 3000000000u; /* rank 0 tells them */
    run(ranks, 3);
    for (uint32_t r = 0; r < 3; r++) expect(&ranks[r], ROTA_TIMEOUT, "rank 0 waited 3.0 s at 127.0.0.1:");
    for (uint32_t r = 0; r < 3; r++) expect(&ranks[r], ROTA_TIMEOUT, "for ranks that did not come: 3");
}

static void no_rank_0(void **state) {
    (void)state;
    char address[64];
    came ranks[2];
    address_of(test_free_port(), address);
    prepare(ranks, 2, address);
    ranks[1].timeout_ns = 2000000000u;
    run(&ranks[1], 1);
    expect(&ranks[1], ROTA_TIMEOUT, "rank 1 did not find rank 0 at 127.0.0.1:");
    expect(&ranks[1], ROTA_TIMEOUT, "within 2.0 s: 127.0.0.1:");
    expect(&ranks[1], ROTA_TIMEOUT, "Connection refused");
    prepare(ranks, 2, "file:/tmp/no such folder/of any job");
    ranks[1].timeout_ns = 1000000000u;
    run(ranks, 2);
    expect(&ranks[0], ROTA_SYSTEM, "ranks can't meet by '/tmp/no such folder/of any job': No such file");
    expect(&ranks[1], ROTA_TIMEOUT, "it has not written the file");
}

typedef struct stopped {
    pid_t child;
    _Atomic bool is;
} stopped;

static void *stop_soon(void *argument) {
    stopped *own = argument;
    test_nap_ms(1000);
    (void)kill(own->child, SIGSTOP);
    (void)waitpid(own->child, NULL, WUNTRACED);
    atomic_store(&own->is, true);
    return NULL;
}

/* Rank 1 has come, and stands still as rank 2 connects to it: that is told when rank 0 gives up, long before its own
 * timeout. */
static void who_connects_is_told(void **state) {
    (void)state;
    char address[64];
    came all[3], ranks[2];
    pthread_t stopper;
    address_of(test_free_port(), address);
    prepare(all, 3, address);
    all[0].timeout_ns = 4000000000u;
    all[2].timeout_ns = 20000000000u;
    stopped one = {.child = fork()};
    if (one.child == 0) {
        (void)come(&all[1]);
        _exit(1);
    }
    all[2].after = &one.is;
    assert_int_equal(pthread_create(&stopper, NULL, stop_soon, &one), 0);
    ranks[0] = all[0];
    ranks[1] = all[2];
    const uint64_t begin_ns = rota_clock_ns();
    run(ranks, 2);
    const uint64_t took_ns = rota_clock_ns() - begin_ns;
    assert_int_equal(pthread_join(stopper, NULL), 0);
    (void)kill(one.child, SIGKILL); /* before anything may fail: stopped, it would stay */
    assert_int_equal(waitpid(one.child, NULL, 0), one.child);
    assert_true(took_ns < 12000000000u);
    assert_true(ranks[0].status != ROTA_OK);
    expect(&ranks[1], ROTA_TIMEOUT, "rank 0 waited at ");
}

static void other_words(void **state) {
    (void)state;
    char address[64];
    came ranks[3];
    address_of(test_free_port(), address);
    prepare(ranks, 3, address);
    for (uint32_t r = 0; r < 3; r++) ranks[r].timeout_ns = 3000000000u;
    ranks[2].meeting.size = 4;
    run(ranks, 3);
    expect(&ranks[0], ROTA_INVALID_ARGUMENT, "is rank 2 of 4, expected one of 3");
    expect(&ranks[2], ROTA_INVALID_ARGUMENT, "is rank 2 of 4, expected one of 3");
    assert_true(ranks[1].status != ROTA_OK);
    prepare(ranks, 3, address);
    for (uint32_t r = 0; r < 3; r++) ranks[r].timeout_ns = 3000000000u;
    ranks[1].name = "another";
    run(ranks, 3);
    expect(&ranks[0], ROTA_INVALID_ARGUMENT, "is rank 1 of communicator 'another'");
    expect(&ranks[1], ROTA_INVALID_ARGUMENT, "communicator 'world': who came to rank 0 at 127.0.0.1:");
    prepare(ranks, 3, address);
    for (uint32_t r = 0; r < 3; r++) ranks[r].timeout_ns = 3000000000u;
    ranks[2].meeting.rank = 1;
    run(ranks, 3);
    expect(&ranks[0], ROTA_INVALID_ARGUMENT, "is rank 1, which has come already");
}

/* Whoever connects and says nothing, or nothing that ranks say, keeps nobody waiting. */
static void *be_stranger(void *argument) {
    const uint16_t port = *(const uint16_t *)argument;
    int kept[80];
    for (uint32_t i = 0; i < 80; i++) {
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        kept[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(kept[i], (struct sockaddr *)&address, sizeof address) == 0 && i % 2)
            (void)send(kept[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
        if (i % 8 == 7) test_nap_ms(5);
    }
    test_nap_ms(300);
    for (uint32_t i = 0; i < 80; i++) (void)close(kept[i]);
    return NULL;
}

static void strangers(void **state) {
    (void)state;
    char address[64];
    uint16_t port = test_free_port();
    pthread_t stranger;
    came ranks[3];
    address_of(port, address);
    prepare(ranks, 3, address);
    ranks[1].late_ms = 30;
    ranks[2].late_ms = 200;
    assert_int_equal(pthread_create(&stranger, NULL, be_stranger, &port), 0);
    run(ranks, 3);
    assert_int_equal(pthread_join(stranger, NULL), 0);
    expect_ok(ranks, 3);
}

/* Two jobs that look at the same ports find their own. */
static void two_jobs(void **state) {
    (void)state;
    char address[64];
    came ranks[4];
    const uint16_t port = test_free_port();
    address_of(port, address);
    for (uint32_t i = 0; i < 4; i++) {
        prepare(&ranks[i], 1, address);
        ranks[i].meeting.size = 2;
        ranks[i].meeting.rank = i % 2;
        ranks[i].meeting.port_count = 8;
        ranks[i].meeting.key = 40 + i / 2;
    }
    ranks[3].late_ms = 50;
    run(ranks, 4);
    expect_ok(ranks, 4);
}

/* Two communicators that each process opens at once, by a launcher's ports. */
static void two_names(void **state) {
    (void)state;
    char address[64];
    came ranks[4];
    address_of(test_free_port(), address);
    for (uint32_t i = 0; i < 4; i++) {
        prepare(&ranks[i], 1, address);
        ranks[i].meeting.size = 2;
        ranks[i].meeting.rank = i % 2;
        ranks[i].meeting.port_count = 8;
        ranks[i].name = i < 2 ? "one" : "other";
    }
    run(ranks, 4);
    expect_ok(ranks, 4);
}

/* More than anybody has room for before it has heard who they are. */
static void many_ranks(void **state) {
    (void)state;
    char address[64];
    struct rlimit files;
    /* All in one process, so each connection is two of its descriptors. */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < (rlim_t)2 * MANY_RANKS * MANY_RANKS) skip();
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    came *ranks = calloc(MANY_RANKS, sizeof *ranks);
    address_of(test_free_port(), address);
    prepare(ranks, MANY_RANKS, address);
    for (uint32_t r = 0; r < MANY_RANKS; r++) ranks[r].then = see_all;
    run(ranks, MANY_RANKS);
    expect_ok(ranks, MANY_RANKS);
    free(ranks);
}

/* ---- What is said ---- */

static void addresses(void **state) {
    (void)state;
    static const char *const wrong[] = {"",           "here",    ":1",      "host:", "host:0",
                                        "host:65536", "host:4x", "::1:400", "[]:4",  "file:"};
    rota_meeting m;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(rota_meeting_at(wrong[i], 0, 2, &m), ROTA_INVALID_ARGUMENT);
        assert_non_null(strstr(rota_last_error(), "expected \"host:port\" of rank 0"));
    }
    assert_status(rota_meeting_at("host:1", 2, 2, &m), ROTA_INVALID_ARGUMENT);
    assert_status(rota_meeting_at("host:1", 0, 0, &m), ROTA_INVALID_ARGUMENT);
    char text[320];
    static const char *const right[] = {"host:1", "[::1]:65535", "10.0.0.1:80", "file:relative/path:4"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_ok(rota_meeting_at(right[i], 1, 2, &m));
        rota_meeting_describe(&m, text, sizeof text);
        assert_string_equal(text, right[i]);
    }
}

static void set_all(const char *const *pairs) {
    static const char *const names[] = {
        "TORCHELASTIC_RUN_ID", "RANK",         "WORLD_SIZE",           "MASTER_ADDR",
        "MASTER_PORT",         "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST",
        "SLURM_JOB_NODELIST",  "SLURM_JOB_ID", "SLURM_STEP_ID",        "SLURM_NTASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) (void)unsetenv(names[i]);
    for (; *pairs; pairs += 2) (void)setenv(pairs[0], pairs[1], 1);
}

static void torchrun_says(void **state) {
    (void)state;
    uint32_t ranks;
    rota_meeting m;
    set_all((const char *const[]){"RANK", "2", "WORLD_SIZE", "4", "MASTER_ADDR", "node1", "MASTER_PORT",
                                  "29500", "TORCHELASTIC_RUN_ID", "none", NULL});
    assert_string_equal(rota_meeting_launcher(&ranks), "torchrun");
    assert_int_equal(ranks, 4);
    assert_ok(rota_meeting_of_launcher(&m));
    assert_string_equal(m.host, "node1");
    assert_int_equal(m.rank, 2);
    assert_int_equal(m.size, 4);
    assert_int_equal(m.first_port, 29501); /* PyTorch's own store has the one before */
    static const char *const needed[] = {"RANK", "MASTER_ADDR", "MASTER_PORT"};
    for (size_t i = 0; i < 3; i++) {
        char expected[96], *before = strdup(getenv(needed[i]));
        (void)snprintf(expected, sizeof expected, "torchrun started, but %s is not set", needed[i]);
        (void)unsetenv(needed[i]);
        assert_status(rota_meeting_of_launcher(&m), ROTA_INVALID_ARGUMENT);
        assert_non_null(strstr(rota_last_error(), expected));
        (void)setenv(needed[i], before, 1);
        free(before);
    }
    (void)setenv("RANK", "4", 1);
    assert_status(rota_meeting_of_launcher(&m), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "rank 4 of 4"));
    /* WORLD_SIZE alone may be anybody's. */
    set_all((const char *const[]){"WORLD_SIZE", "4", NULL});
    assert_null(rota_meeting_launcher(&ranks));
}

static void slurm_says(void **state) {
    (void)state;
    static const char *const lists[][2] = {{"node7", "node7"},
                                           {"node[003-010,12],other", "node003"},
                                           {"a,b[1-2]", "a"},
                                           {"rack[2,5]-gpu,x", "rack2-gpu"},
                                           {"cn[5-6]", "cn5"}};
    uint32_t ranks;
    rota_meeting m, other;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        set_all((const char *const[]){"SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_NODELIST",
                                      lists[i][0], "SLURM_JOB_ID", "77", "SLURM_STEP_ID", "0", NULL});
        assert_string_equal(rota_meeting_launcher(&ranks), "srun");
        assert_ok(rota_meeting_of_launcher(&m));
        assert_string_equal(m.host, lists[i][1]);
        assert_int_equal(m.rank, 1);
        assert_int_equal(m.size, 2);
        assert_true(m.first_port >= 20000 && m.first_port + m.port_count <= 30000);
    }
    (void)setenv("SLURM_STEP_ID", "1", 1);
    assert_ok(rota_meeting_of_launcher(&other));
    assert_true(other.key != m.key);
    (void)setenv("SLURM_STEP_NODELIST", "rack[1-2]n[1-2]", 1);
    assert_status(rota_meeting_of_launcher(&m), ROTA_INVALID_ARGUMENT);
    (void)unsetenv("SLURM_PROCID");
    assert_status(rota_meeting_of_launcher(&m), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "srun started, but SLURM_PROCID is not set"));
    /* A batch script is one process, whatever the job has. */
    set_all((const char *const[]){"SLURM_PROCID", "0", "SLURM_NTASKS", "8", NULL});
    assert_null(rota_meeting_launcher(&ranks));
    set_all((const char *const[]){NULL});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(torchrun_says),
        cmocka_unit_test(slurm_says),
        cmocka_unit_test(by_port),
        cmocka_unit_test(by_file),
        cmocka_unit_test(gone_rank),
        cmocka_unit_test(missing_rank),
        cmocka_unit_test(no_rank_0),
        cmocka_unit_test(who_connects_is_told),
        cmocka_unit_test(other_words),
        cmocka_unit_test(two_names),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(ended_behind_a_message),
        cmocka_unit_test(sent_before_it_went),
        cmocka_unit_test(strangers),
        cmocka_unit_test(two_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
