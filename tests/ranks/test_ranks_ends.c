/* Ends at inconvenient times: of a communicator that is being split, with submissions behind the one that is under way,
 * in the midst of a message beside another communicator of its group, and of groups that have nothing in common. And
 * timeouts as long as there are. Ranks are threads' of this process, and meet by an address where that is said. */
#include <pthread.h>
#include <unistd.h>

#include "sched/ranks/rank_thread.h"
#include "tests/kit/free_port.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include "tests/ranks/rank_graph.h"

typedef struct pair {
    rota_runtime *runtimes[2];
    rota_communicator *of[2];
} pair;

typedef struct meeting_rank {
    rota_runtime *runtime;
    rota_communicator_options options;
    rota_communicator *communicator;
} meeting_rank;

static void *meet(void *argument) {
    meeting_rank *own = argument;
    rank_ok(rota_communicator_open(own->runtime, &own->options, &own->communicator));
    return NULL;
}

static void open_runtimes(pair *p) {
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 2, .cache_dir = "");
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_runtime_open(&options, &p->runtimes[r]));
}

static void open_by(pair *p, bool by_address, const char *name, uint64_t timeout_ns) {
    rota_communicator_options options = ROTA_COMMUNICATOR_OPTIONS(.name = name, .timeout_ns = timeout_ns);
    if (!by_address) {
        assert_ok(rota_communicator_open_ranks(p->runtimes, 2, &options, p->of));
        return;
    }
    char address[32];
    meeting_rank ranks[2];
    pthread_t threads[2];
    const uint16_t port = test_free_port();
    assert_true(port != 0);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    options.address = address;
    options.size = 2;
    for (uint32_t r = 0; r < 2; r++) {
        options.rank = r;
        ranks[r] = (meeting_rank){p->runtimes[r], options, NULL};
        assert_int_equal(pthread_create(&threads[r], NULL, meet, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
        p->of[r] = ranks[r].communicator;
    }
}

static void close_pair(pair *p) {
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_communicator_close(p->of[r], 0));
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_runtime_close(p->runtimes[r], 20000000000u));
}

/* x = the sum of all ranks' x, or rank 0's to rank 1. */
typedef struct work {
    rank_graph graph;
    rota_tensor x;
} work;

static void make_work(work *w, rota_runtime *runtime, rota_communicator *communicator, uint64_t count,
                      bool is_message, bool compares) {
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    values[0] = 1;
    begin(&w->graph, runtime, communicator, false);
    w->x = made(&w->graph, ROTA_F32, count, values);
    free(values);
    if (!is_message)
        assert_ok(rota_op_all_reduce_into(w->graph.tape, communicator, w->x, ROTA_COLLECTIVE_SUM, w->x));
    else if (w->graph.rank == 0)
        assert_ok(rota_op_send(w->graph.tape, communicator, 1, w->x));
    else
        assert_ok(rota_op_receive_into(w->graph.tape, communicator, 0, w->x));
    if (!compares) compile(&w->graph);
}

static void end_work(work *w) {
    end(&w->graph);
    drop(w->x);
}

/* What ended it is said, and was no timeout. */
static void expect_ended_by(const char *text) {
    expect_said(text);
    if (strstr(rota_last_error(), " waited ")) fail_msg("by a timeout: %s", rota_last_error());
}

/* ---- A split ---- */

typedef struct splitting {
    rota_communicator *whole, *made;
    rota_status status;
    char text[512];
} splitting;

static void *split_it(void *argument) {
    splitting *own = argument;
    own->status = rota_communicator_open_split(own->whole, 0, 0, "half", &own->made);
    (void)snprintf(own->text, sizeof own->text, "%s", rota_last_error());
    return NULL;
}

/* Rank 0 waits in a split, and one of the two ends the communicator, on a thread of its own where it is rank 0. */
static void ended_while_it_is_split(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        pair p;
        pthread_t thread;
        open_runtimes(&p);
        open_by(&p, i / 2 % 2, "whole", 0);
        splitting own = {.whole = p.of[0]};
        assert_int_equal(pthread_create(&thread, NULL, split_it, &own), 0);
        if (i < 4) test_nap_ms(100);
        assert_ok(rota_communicator_abort(p.of[i % 2], "not now"));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(own.status, ROTA_NODE_FAILED);
        assert_null(own.made);
        if (!strstr(own.text, "ended it: not now")) fail_msg("%s", own.text);
        assert_status(rota_communicator_open_split(p.of[1], 0, 0, "half", &own.made), ROTA_NODE_FAILED);
        expect_said("ended it: not now");
        close_pair(&p);
    }
}

/* ---- Submissions behind it ---- */

/* Several wait behind one that is under way; rank 0 closes, and all end, on both ranks. */
static void closed_with_others_behind(void **state) {
    (void)state;
    enum { BEHIND = 12 };
    for (uint32_t by_address = 0; by_address < 2; by_address++) {
        pair p;
        work works[2];
        rota_ticket tickets[2][BEHIND];
        open_runtimes(&p);
        open_by(&p, by_address, "w", 0);
        for (uint32_t r = 0; r < 2; r++) make_work(&works[r], p.runtimes[r], p.of[r], 1000, false, false);
        for (uint32_t i = 0; i < BEHIND; i++)
            assert_ok(rota_submit_wait(works[0].graph.plan, NULL, 0, &tickets[0][i]));
        test_nap_ms(50);
        assert_ok(rota_communicator_close(p.of[0], 0));
        p.of[0] = NULL;
        for (uint32_t i = 0; i < BEHIND; i++)
            assert_ok(rota_submit_wait(works[1].graph.plan, NULL, 0, &tickets[1][i]));
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t i = 0; i < BEHIND; i++)
                assert_status(rota_wait(tickets[r][i], 0), ROTA_NODE_FAILED);
        for (uint32_t r = 0; r < 2; r++) end_work(&works[r]);
        close_pair(&p);
    }
}

/* ---- In the midst of a message ---- */

static void *sum_on(void *argument) {
    work *own = argument;
    rota_ticket ticket;
    for (uint32_t i = 0; i < 20; i++) rank_ok(rota_submit_wait(own->graph.plan, NULL, 0, &ticket));
    rank_ok(rota_wait(ticket, 0));
    return NULL;
}

/* Of two communicators of one group, by one connection, one is closed, or aborted, by who sends or who receives, in the
 * midst of a message; the other one's collectives go on beside it, to their ends. */
static void in_the_midst_beside_another(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < 8; turn++) {
        pair whole, half = {.of = {NULL, NULL}};
        work sums[2], messages[2];
        splitting splits[2];
        pthread_t threads[2];
        rota_ticket tickets[2];
        const uint32_t who = turn % 2;
        open_runtimes(&whole);
        open_by(&whole, turn / 4 % 2, "whole", 0);
        for (uint32_t r = 0; r < 2; r++) {
            splits[r] = (splitting){.whole = whole.of[r]};
            assert_int_equal(pthread_create(&threads[r], NULL, split_it, &splits[r]), 0);
        }
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(pthread_join(threads[r], NULL), 0);
            assert_int_equal(splits[r].status, ROTA_OK);
            half.of[r] = splits[r].made;
            make_work(&sums[r], whole.runtimes[r], whole.of[r], 3000, false, false);
            make_work(&messages[r], whole.runtimes[r], half.of[r], 4 << 20, true, false);
        }
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_submit(messages[r].graph.plan, NULL, &tickets[r]));
        for (uint32_t r = 0; r < 2; r++)
            assert_int_equal(pthread_create(&threads[r], NULL, sum_on, &sums[r]), 0);
        test_nap_us((uint64_t)turn * 500);
        if (turn / 2 % 2)
            assert_ok(rota_communicator_abort(half.of[who], "enough"));
        else
            assert_ok(rota_communicator_close(half.of[who], 0));
        if (turn / 2 % 2 == 0) half.of[who] = NULL;
        for (uint32_t r = 0; r < 2; r++) {
            const rota_status status = rota_wait(tickets[r], 0); /* it may have been through */
            assert_true(status == ROTA_OK || status == ROTA_NODE_FAILED);
            if (status != ROTA_OK) expect_ended_by(turn / 2 % 2 ? "ended it: enough" : "closed");
        }
        for (uint32_t r = 0; r < 2; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
        for (uint32_t r = 0; r < 2; r++) {
            end_work(&sums[r]);
            end_work(&messages[r]);
            assert_ok(rota_communicator_close(half.of[r], 0));
        }
        close_pair(&whole);
    }
}

/* ---- Other groups ---- */

/* Two that have nothing in common but their runtimes, one by an address: the end of one is none of the other's. */
static void groups_apart(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < 2; turn++) {
        pair first, second;
        work works[2][2];
        rota_ticket tickets[2];
        open_runtimes(&first);
        second = first;
        open_by(&first, false, "first", 0);
        open_by(&second, true, "second", 0);
        pair *const both[2] = {&first, &second};
        for (uint32_t c = 0; c < 2; c++)
            for (uint32_t r = 0; r < 2; r++)
                make_work(&works[c][r], first.runtimes[r], both[c]->of[r], 100, false, false);
        assert_ok(rota_communicator_abort(both[turn]->of[0], "of this one alone"));
        for (uint32_t r = 0; r < 2; r++) {
            assert_status(run(&works[turn][r].graph), ROTA_NODE_FAILED);
            expect_said("of this one alone");
        }
        for (uint32_t i = 0; i < 5; i++) {
            for (uint32_t r = 0; r < 2; r++)
                assert_ok(rota_submit(works[1 - turn][r].graph.plan, NULL, &tickets[r]));
            for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(tickets[r], 0));
        }
        for (uint32_t c = 0; c < 2; c++)
            for (uint32_t r = 0; r < 2; r++) {
                end_work(&works[c][r]);
                if (c) assert_ok(rota_communicator_close(second.of[r], 0));
            }
        close_pair(&first);
    }
}

/* ---- For ever ---- */

static void *compile_compared(void *argument) {
    rank_graph *g = argument;
    rota_tape_destroy(g->tape);
    rota_recorder_close(g->recorder);
    const rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = &g->device, .device_count = 1, .compare_ranks = true);
    rank_ok(rota_compile(g->runtime, g->graph, &options, &g->plan));
    return NULL;
}

/* Timeouts whose sums would begin anew at 0: opened, split, compared, used, ended and closed. */
static void for_ever(void **state) {
    (void)state;
    static const uint64_t timeouts[] = {UINT64_MAX, UINT64_MAX / 3 * 2};
    for (uint32_t i = 0; i < 4; i++) {
        pair p;
        work works[2];
        splitting splits[2];
        pthread_t threads[2];
        rota_ticket tickets[2];
        open_runtimes(&p);
        open_by(&p, i / 2, "for ever", timeouts[i % 2]);
        for (uint32_t r = 0; r < 2; r++) {
            splits[r] = (splitting){.whole = p.of[r]};
            assert_int_equal(pthread_create(&threads[r], NULL, split_it, &splits[r]), 0);
        }
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(pthread_join(threads[r], NULL), 0);
            if (splits[r].status != ROTA_OK) fail_msg("%s", splits[r].text);
            make_work(&works[r], p.runtimes[r], splits[r].made, 1000, false, true);
        }
        for (uint32_t r = 0; r < 2; r++)
            assert_int_equal(pthread_create(&threads[r], NULL, compile_compared, &works[r].graph), 0);
        for (uint32_t r = 0; r < 2; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_submit(works[r].graph.plan, NULL, &tickets[r]));
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(tickets[r], 0));
        assert_ok(rota_submit(works[0].graph.plan, NULL, &tickets[0]));
        test_nap_ms(20);
        assert_ok(rota_communicator_abort(splits[1].made, "it has been long enough"));
        assert_status(rota_wait(tickets[0], 0), ROTA_NODE_FAILED);
        expect_said("it has been long enough");
        for (uint32_t r = 0; r < 2; r++) {
            end_work(&works[r]);
            assert_ok(rota_communicator_close(splits[r].made, timeouts[i % 2]));
        }
        for (uint32_t r = 0; r < 2; r++) {
            assert_ok(rota_communicator_close(p.of[r], timeouts[i % 2]));
            p.of[r] = NULL;
        }
        close_pair(&p);
    }
}

/* Who asks waits longer than what is asked may take: for each exchange the timeout, a quarter of it for farewells, and
 * more, whatever the timeout is. */
static void asked_for_longer_than_it_takes(void **state) {
    (void)state;
    static const uint64_t timeouts[] = {1, 1000000, 20000000000u, UINT64_MAX / 8};
    for (uint32_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        const uint64_t one = timeouts[i] + timeouts[i] / 4;
        assert_true(rota_rank_patience_ns(timeouts[i], 0, 0) > 0);
        assert_true(rota_rank_patience_ns(timeouts[i], 1, 0) > one);
        assert_true(rota_rank_patience_ns(timeouts[i], 3, timeouts[i] / 2) > 3 * one + timeouts[i] / 2);
    }
    assert_true(rota_rank_patience_ns(UINT64_MAX, 1, 0) == UINT64_MAX);
    assert_true(rota_rank_patience_ns(UINT64_MAX, 3, UINT64_MAX / 2) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ended_while_it_is_split),
        cmocka_unit_test(closed_with_others_behind),
        cmocka_unit_test(in_the_midst_beside_another),
        cmocka_unit_test(groups_apart),
        cmocka_unit_test(for_ever),
        cmocka_unit_test(asked_for_longer_than_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
