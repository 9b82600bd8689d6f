/* Where ranks meet, as a communicator's options and launchers say it: ranks that are threads of this process, and what
 * is refused. */
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/comm/messages.h"
#include "exec/comm/tcp_engine.h"
#include "tests/kit/free_port.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include "tests/ranks/rank_graph.h"

static void open_runtimes(uint32_t size, rota_runtime **out_runtimes) {
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "");
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_runtime_open(&options, &out_runtimes[i]));
}

static void close_runtimes(uint32_t size, rota_runtime **runtimes) {
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_runtime_close(runtimes[i], 20000000000u));
}

/* host:port, a port that nobody has. */
static void free_address(char *out, size_t capacity) {
    const uint16_t port = test_free_port();
    assert_true(port != 0);
    (void)snprintf(out, capacity, "127.0.0.1:%u", port);
}

enum { LAUNCHER_PORTS = 16 };

/* A port behind which are LAUNCHER_PORTS that nobody has but the sockets, which listen for nobody. */
static uint16_t take_ports(int *out_sockets) {
    for (uint32_t turn = 0; turn < 1000; turn++) {
        const uint16_t first = test_free_port();
        uint32_t count = 0;
        uint16_t port;
        if (first == 0 || first > UINT16_MAX - LAUNCHER_PORTS) continue;
        while (count < LAUNCHER_PORTS &&
               (out_sockets[count] = test_take_port((uint16_t)(first + 1 + count), &port)) >= 0)
            count++;
        if (count == LAUNCHER_PORTS) return first;
        while (count > 0) (void)close(out_sockets[--count]);
    }
    fail_msg("no %d free ports in a row", LAUNCHER_PORTS);
    return 0;
}

/* Several ranks of a launcher that MPI was not told of are not taken for one that is alone, nor for MPI's; they meet by
 * what it says, and are told what it did not. */
static void other_launchers_are_noticed(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_communicator *communicator;
    const rota_communicator_options alone = ROTA_COMMUNICATOR_OPTIONS(.transport = "alone");
    const rota_communicator_options mpi = ROTA_COMMUNICATOR_OPTIONS(.transport = "mpi");
    const rota_communicator_options soon = ROTA_COMMUNICATOR_OPTIONS(.timeout_ns = 200000000u);
    int sockets[LAUNCHER_PORTS];
    char port[8], missed[128];
    const uint16_t master = take_ports(sockets);
    (void)snprintf(port, sizeof port, "%u", master);
    (void)snprintf(missed, sizeof missed,
                   "communicator 'world': rank 2 did not find rank 0 at 127.0.0.1:%u to %u", master + 1u,
                   master + 0u + LAUNCHER_PORTS);
    open_runtimes(1, &runtime);
    (void)setenv("TORCHELASTIC_RUN_ID", "none", 1);
    (void)setenv("WORLD_SIZE", "4", 1);
    assert_status(rota_communicator_open(runtime, NULL, &communicator), ROTA_INVALID_ARGUMENT);
    expect_said("a rank that torchrun started, but RANK is not set");
    assert_null(communicator);
    assert_status(rota_communicator_open(runtime, &mpi, &communicator), ROTA_UNSUPPORTED);
    expect_said("4 ranks that torchrun started without it");
    (void)setenv("RANK", "2", 1);
    (void)setenv("MASTER_ADDR", "127.0.0.1", 1);
    (void)setenv("MASTER_PORT", port, 1); /* nobody listens behind it */
    assert_status(rota_communicator_open(runtime, &soon, &communicator), ROTA_TIMEOUT);
    expect_said(missed);
    /* Within srun each of its tasks may be several of torchrun's processes: MPI's variables are the task's. */
    (void)setenv("PMI_SIZE", "2", 1);
    (void)setenv("SLURM_PROCID", "1", 1);
    assert_status(rota_communicator_open(runtime, &soon, &communicator), ROTA_TIMEOUT);
    expect_said(missed);
    (void)unsetenv("PMI_SIZE");
    (void)unsetenv("SLURM_PROCID");
    for (const char *const *name = (const char *const[]){"TORCHELASTIC_RUN_ID", "RANK", "MASTER_ADDR", NULL};
         *name; name++)
        (void)unsetenv(*name);
    (void)setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    assert_status(rota_communicator_open(runtime, NULL, &communicator), ROTA_INVALID_ARGUMENT);
    expect_said("a rank that srun started, but SLURM_PROCID is not set");
    assert_ok(rota_communicator_open(runtime, &alone, &communicator));
    assert_ok(rota_communicator_close(communicator, 0));
    (void)unsetenv("SLURM_STEP_NUM_TASKS");
    assert_ok(rota_communicator_open(runtime, NULL, &communicator)); /* WORLD_SIZE may be anybody's */
    assert_int_equal(rota_communicator_size(communicator), 1);
    assert_ok(rota_communicator_close(communicator, 0));
    (void)unsetenv("WORLD_SIZE");
    (void)unsetenv("MASTER_PORT");
    for (uint32_t i = 0; i < LAUNCHER_PORTS; i++) (void)close(sockets[i]);
    close_runtimes(1, &runtime);
}

/* ---- Ranks that meet by an address ---- */

typedef struct meeting_rank {
    pthread_t thread;
    rota_runtime *runtime;
    rota_communicator_options options;
    rota_communicator *communicator;
    rota_status status;
} meeting_rank;

static void *meet(void *argument) {
    meeting_rank *own = argument;
    own->status = rota_communicator_open(own->runtime, &own->options, &own->communicator);
    if (own->status != ROTA_OK) return NULL;
    rank_cases[0].run(own->runtime, own->communicator);
    rank_ok(rota_communicator_close(own->communicator, 0));
    return NULL;
}

/* Twice at one: the second time as the first was. */
static void ranks_that_meet(void **state) {
    (void)state;
    char folder[] = "/tmp/rota_ranksXXXXXX", address[64];
    rota_runtime *runtimes[3];
    meeting_rank ranks[3];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(address, sizeof address, "file:%s/here", folder);
    open_runtimes(3, runtimes);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t r = 0; r < 3; r++) {
            ranks[r] = (meeting_rank){.runtime = runtimes[r]};
            ranks[r].options = ROTA_COMMUNICATOR_OPTIONS(.name = turn ? "second" : "first",
                                                         .address = address, .rank = r, .size = 3);
            assert_int_equal(pthread_create(&ranks[r].thread, NULL, meet, &ranks[r]), 0);
        }
        for (uint32_t r = 0; r < 3; r++) assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
        for (uint32_t r = 0; r < 3; r++) assert_int_equal(ranks[r].status, ROTA_OK);
    }
    close_runtimes(3, runtimes);
    assert_int_equal(rmdir(folder), 0);
}

typedef struct late_rank {
    char address[32];
    rota_engine *engine;
} late_rank;

/* Comes late, and then says nothing. */
static void *come_late(void *argument) {
    late_rank *own = argument;
    rota_meeting meeting;
    rank_ok(rota_meeting_at(own->address, 1, 2, &meeting));
    test_nap_ms(1500);
    rank_ok(rota_tcp_open(&meeting, "late", 10000000000u, &own->engine));
    return NULL;
}

/* The timeout is that of all of it: of the ranks' coming, and of what they say to each other then. */
static void one_deadline(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_communicator *communicator;
    late_rank late = {.engine = NULL};
    pthread_t thread;
    open_runtimes(1, &runtime);
    free_address(late.address, sizeof late.address);
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = "late", .address = late.address, .size = 2,
                                  .timeout_ns = 3000000000u);
    assert_int_equal(pthread_create(&thread, NULL, come_late, &late), 0);
    assert_status(rota_communicator_open(runtime, &options, &communicator), ROTA_NODE_FAILED);
    expect_said("communicator 'late': rank 0 waited ");
    expect_said("for rank 1, which did not come to it");
    /* From its coming on: what was left of the timeout. */
    const double waited = strtod(strstr(rota_last_error(), "waited ") + strlen("waited "), NULL);
    if (waited > 2.8) fail_msg("%s", rota_last_error());
    assert_int_equal(pthread_join(thread, NULL), 0);
    late.engine->vtable->close(late.engine);
    close_runtimes(1, &runtime);
}

enum { TORN_COUNT = 16 << 20 }; /* floats; no connection has as many under way */
static pthread_barrier_t both;

/* Wants a message, and does not look until the other rank has ended it. */
static void look_late_at(rota_transport *transport, const char *said) {
    float *y = malloc(TORN_COUNT * sizeof *y);
    const rota_collective receive = {.kind = ROTA_COLLECTIVE_RECEIVE,
                                     .type = ROTA_COLLECTIVE_F32,
                                     .peer = 0,
                                     .count = TORN_COUNT,
                                     .output = y,
                                     .name = "there"};
    transport->vtable->post(transport, &receive);
    (void)pthread_barrier_wait(&both);
    (void)pthread_barrier_wait(&both);
    rota_status status = ROTA_OK;
    for (bool is_over = false, moved; !is_over; test_nap_us(20))
        status = transport->vtable->progress(transport, &is_over, &moved);
    rank_want(status == ROTA_NODE_FAILED && strstr(rota_last_error(), said), "%s", rota_last_error());
    free(y);
}

static void close_well(rota_transport *transport) {
    uint64_t abandoned = 1;
    rota_transport_close(transport, rota_deadline_after(10000000000u), &abandoned);
    rank_want(abandoned == 0, "%llu bytes abandoned", (unsigned long long)abandoned);
}

static rota_transport *open_other(const char *address, const char *name) {
    rota_meeting meeting;
    rota_engine *engine;
    rota_transport *transport;
    rank_ok(rota_meeting_at(address, 1, 2, &meeting));
    rank_ok(rota_tcp_open(&meeting, name, 10000000000u, &engine));
    rank_ok(rota_messages_open(engine, name, 30000000000u, &transport));
    rank_ok(rota_transport_identify(transport, rota_deadline_after(10000000000u)));
    return transport;
}

static void *look_late(void *address) {
    rota_transport *transport = open_other(address, "torn");
    look_late_at(transport, "rank 0 ended it: enough");
    close_well(transport);
    return NULL;
}

/* One that was ended behind a message that another rank does not take yet tells it so when it does, though nothing else
 * is done with it. */
static void ended_and_at_rest(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_communicator *communicator;
    rota_ticket ticket;
    pthread_t thread;
    rank_graph g;
    char address[32];
    open_runtimes(1, &runtime);
    free_address(address, sizeof address);
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, look_late, address), 0);
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = "torn", .address = address, .size = 2);
    assert_ok(rota_communicator_open(runtime, &options, &communicator));
    begin(&g, runtime, communicator, false);
    float *values = calloc(TORN_COUNT, sizeof *values);
    const rota_tensor x = made(&g, ROTA_F32, TORN_COUNT, values);
    free(values);
    assert_ok(rota_op_send(g.tape, communicator, 1, x));
    compile(&g);
    (void)pthread_barrier_wait(&both);
    assert_ok(rota_submit(g.plan, NULL, &ticket));
    test_nap_ms(1000); /* the connection is full */
    assert_ok(rota_communicator_abort(communicator, "enough"));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    (void)pthread_barrier_wait(&both);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(rota_communicator_close(communicator, 0));
    assert_int_equal(pthread_barrier_destroy(&both), 0);
    end(&g);
    drop(x);
    close_runtimes(1, &runtime);
}

static void *split_and_look_late(void *address) {
    rota_transport *whole = open_other(address, "whole"), *half;
    whole->vtable->split(whole, 0, 0);
    for (bool is_over = false, moved; !is_over; test_nap_us(20))
        rank_ok(whole->vtable->progress(whole, &is_over, &moved));
    rank_ok(whole->vtable->take_split(whole, "half", &half));
    look_late_at(half, "rank 0 closed it");
    close_well(half);
    close_well(whole);
    return NULL;
}

/* The same of one that is closed, while the one that it was split from is at rest. */
static void closed_and_at_rest(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_communicator *whole, *half;
    rota_ticket ticket;
    pthread_t thread;
    rank_graph g;
    char address[32];
    open_runtimes(1, &runtime);
    free_address(address, sizeof address);
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, split_and_look_late, address), 0);
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = "whole", .address = address, .size = 2);
    assert_ok(rota_communicator_open(runtime, &options, &whole));
    assert_ok(rota_communicator_open_split(whole, 0, 0, "half", &half));
    begin(&g, runtime, half, false);
    float *values = calloc(TORN_COUNT, sizeof *values);
    const rota_tensor x = made(&g, ROTA_F32, TORN_COUNT, values);
    free(values);
    assert_ok(rota_op_send(g.tape, half, 1, x));
    compile(&g);
    (void)pthread_barrier_wait(&both);
    assert_ok(rota_submit(g.plan, NULL, &ticket));
    test_nap_ms(1000); /* the connection is full */
    assert_ok(rota_communicator_close(half, 0));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    (void)pthread_barrier_wait(&both);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(rota_communicator_close(whole, 0));
    assert_int_equal(pthread_barrier_destroy(&both), 0);
    end(&g);
    drop(x);
    close_runtimes(1, &runtime);
}

static void meetings_that_will_not_do(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_communicator *communicator;
    int no_comm = 0;
    const struct {
        rota_communicator_options options;
        rota_status status;
        const char *text;
    } rows[] = {
        {ROTA_COMMUNICATOR_OPTIONS(.address = "nowhere", .size = 2), ROTA_INVALID_ARGUMENT,
         "'nowhere', expected \"host:port\""},
        {ROTA_COMMUNICATOR_OPTIONS(.address = "localhost:4000", .rank = 2, .size = 2), ROTA_INVALID_ARGUMENT,
         "rank 2 of 2"},
        {ROTA_COMMUNICATOR_OPTIONS(.address = "localhost:4000", .size = 2, .transport = "mpi"),
         ROTA_INVALID_ARGUMENT, "by transport 'mpi', expected \"tcp\""},
        {ROTA_COMMUNICATOR_OPTIONS(.mpi_communicator = &no_comm, .transport = "tcp"), ROTA_INVALID_ARGUMENT,
         "of an MPI_Comm by transport 'tcp', expected \"mpi\""},
        {ROTA_COMMUNICATOR_OPTIONS(.mpi_communicator = &no_comm, .address = "localhost:4000", .size = 1),
         ROTA_INVALID_ARGUMENT, "expected one of them"},
        {ROTA_COMMUNICATOR_OPTIONS(.size = 2), ROTA_INVALID_ARGUMENT, "without an address"},
        {ROTA_COMMUNICATOR_OPTIONS(.transport = "tcp"), ROTA_INVALID_ARGUMENT,
         "need an address with rank and size"},
        {ROTA_COMMUNICATOR_OPTIONS(.transport = "pigeons"), ROTA_UNSUPPORTED,
         "'pigeons', expected \"mpi\", \"tcp\""},
    };
    open_runtimes(1, &runtime);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_status(rota_communicator_open(runtime, &rows[i].options, &communicator), rows[i].status);
        expect_said(rows[i].text);
        assert_null(communicator);
    }
    char address[32];
    free_address(address, sizeof address);
    const rota_communicator_options one = ROTA_COMMUNICATOR_OPTIONS(.address = address, .size = 1);
    assert_ok(rota_communicator_open(runtime, &one, &communicator));
    assert_string_equal(rota_communicator_transport(communicator), "tcp");
    assert_ok(rota_communicator_close(communicator, 0));
    assert_status(rota_communicator_open_ranks(&runtime, 1, &one, &communicator), ROTA_INVALID_ARGUMENT);
    close_runtimes(1, &runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_launchers_are_noticed),
        cmocka_unit_test(one_deadline),
        cmocka_unit_test(ranks_that_meet),
        cmocka_unit_test(ended_and_at_rest),
        cmocka_unit_test(closed_and_at_rest),
        cmocka_unit_test(meetings_that_will_not_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
