/* Ranks that are threads of this process, 1 to 4 of them, each with a runtime of its own: the cases of rank_cases.c.
 * And what is about one process: orders, lives, closing, errors. */
#include <pthread.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "base/clock.h"
#include "sched/ranks/rank_thread.h"
#include "tests/kit/await.h"
#include "tests/kit/support.h"
#include "tests/ranks/rank_cases.h"
#include "tests/ranks/under_way.h"

/* By all cases; by some, which cut what they have into parts. */
enum { RANKS_MOST = 4, RANKS_OF_SOME = 8 };

typedef struct one_rank {
    const rank_case *now;
    rota_runtime *runtime;
    rota_communicator *communicator;
} one_rank;

static void open_runtimes(uint32_t size, rota_runtime **out_runtimes) {
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 2, .cache_dir = "");
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_runtime_open(&options, &out_runtimes[i]));
}

static void close_runtimes(uint32_t size, rota_runtime **runtimes) {
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_runtime_close(runtimes[i], 20000000000u));
}

static void *run_rank(void *user) {
    const one_rank *rank = user;
    rank->now->run(rank->runtime, rank->communicator);
    return NULL;
}

static void run_case(const rank_case *now, uint32_t size) {
    rota_runtime *runtimes[RANKS_OF_SOME] = {0};
    rota_communicator *communicators[RANKS_OF_SOME];
    one_rank ranks[RANKS_OF_SOME];
    pthread_t threads[RANKS_OF_SOME];
    open_runtimes(size, runtimes);
    const rota_communicator_options options = ROTA_COMMUNICATOR_OPTIONS(.timeout_ns = now->timeout_ns);
    assert_ok(rota_communicator_open_ranks(runtimes, size, &options, communicators));
    for (uint32_t i = 0; i < size; i++) {
        ranks[i] = (one_rank){now, runtimes[i], communicators[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < size; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_communicator_close(communicators[i], 0));
    close_runtimes(size, runtimes);
}

/* The thread sanitizer, by which they take ten times as long, looks at the order of ranks' threads, and has every other
 * number of them. */
#ifdef __SANITIZE_THREAD__
enum { NEXT_SIZE = 2 };
#else
enum { NEXT_SIZE = 1 };
#endif

static void cases(void **state) {
    (void)state;
    for (const rank_case *now = rank_cases; now->name; now++) {
        const uint32_t most = now->most && now->most < RANKS_MOST ? now->most : RANKS_MOST;
        for (uint32_t size = now->least + (most - now->least) % NEXT_SIZE; size <= most; size += NEXT_SIZE) {
            print_message("%s, %u ranks\n", now->name, size);
            run_case(now, size);
        }
    }
}

static void more_ranks(void **state) {
    (void)state;
    for (const rank_case *now = rank_cases; now->name; now++)
        for (uint32_t size = RANKS_MOST + NEXT_SIZE;
             strncmp(now->name, "unshard", 7) == 0 && size <= RANKS_OF_SOME; size += NEXT_SIZE)
            if (!now->most) run_case(now, size);
}

/* ---- One process ---- */

static rota_tensor tensor_of(rota_runtime *runtime, uint32_t count, const float *values) {
    rota_buffer *buffer;
    rota_tensor tensor;
    assert_ok(rota_buffer_create_in(runtime, "x", count * sizeof *values, &buffer));
    assert_ok(rota_buffer_write(buffer, NULL, 0, values, count * sizeof *values, NULL));
    assert_ok(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(count), &tensor));
    return tensor;
}

typedef struct recorded_graph {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
} recorded_graph;

static recorded_graph begin_named_graph(const char *name) {
    recorded_graph g;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &g.graph));
    assert_ok(rota_recorder_open(g.graph, 0, NULL, &g.recorder));
    assert_ok(rota_tape_create(g.recorder, NULL, &g.tape));
    return g;
}

static recorded_graph begin_graph(void) {
    return begin_named_graph(NULL);
}

static rota_plan *compile_graph_on(rota_runtime *runtime, rota_device *device, recorded_graph *g) {
    rota_plan *plan;
    rota_tape_destroy(g->tape);
    rota_recorder_close(g->recorder);
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1);
    assert_ok(rota_compile(runtime, g->graph, &options, &plan));
    rota_graph_release(g->graph);
    return plan;
}

static rota_plan *compile_graph(rota_runtime *runtime, recorded_graph *g) {
    rota_device *device;
    assert_ok(rota_device_open(runtime, "cpu", &device));
    return compile_graph_on(runtime, device, g);
}

static rota_plan *named_plan(const char *name, rota_runtime *runtime, rota_communicator *communicator,
                             rota_tensor x) {
    recorded_graph g = begin_named_graph(name);
    assert_ok(rota_op_all_reduce_into(g.tape, communicator, x, ROTA_COLLECTIVE_SUM, x));
    return compile_graph(runtime, &g);
}

static rota_plan *all_reduce_plan(rota_runtime *runtime, rota_communicator *communicator, rota_tensor x) {
    return named_plan(NULL, runtime, communicator, x);
}

/* A device of one worker: a collective that waits for other ranks does not keep it, nor does one in the same plan. */
static void one_worker_is_enough(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2];
    const rota_runtime_options one = ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "");
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_runtime_open(&one, &runtimes[r]));
    assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
    rota_plan *plans[2], *others[2];
    rota_tensor x[2], y[2];
    const float value = 1;
    for (uint32_t r = 0; r < 2; r++) {
        x[r] = tensor_of(runtimes[r], 1, &value);
        y[r] = tensor_of(runtimes[r], 1, &value);
        recorded_graph g = begin_graph();
        assert_ok(rota_op_all_reduce_into(g.tape, communicators[r], x[r], ROTA_COLLECTIVE_SUM, x[r]));
        assert_ok(rota_op_add_into(g.tape, y[r], y[r], y[r]));
        plans[r] = compile_graph(runtimes[r], &g);
        recorded_graph h = begin_graph();
        assert_ok(rota_op_add_into(h.tape, x[r], x[r], x[r]));
        others[r] = compile_graph(runtimes[r], &h);
    }
    for (uint32_t i = 0; i < 20; i++) {
        rota_ticket tickets[2];
        for (uint32_t r = 0; r < 2; r++) {
            assert_ok(rota_submit(plans[r], NULL, &tickets[r]));
            assert_ok(rota_submit(others[r], NULL, &tickets[r]));
        }
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(tickets[r], 0));
    }
    for (uint32_t r = 0; r < 2; r++) {
        float got;
        assert_ok(rota_buffer_read(x[r].buffer, 0, &got, sizeof got));
        assert_true(got == 1099511627776.0f); /* 4^20 */
        assert_ok(rota_buffer_read(y[r].buffer, 0, &got, sizeof got));
        assert_true(got == 1048576.0f);
        rota_plan_release(plans[r]);
        rota_plan_release(others[r]);
        rota_buffer_release(x[r].buffer);
        rota_buffer_release(y[r].buffer);
        assert_ok(rota_communicator_close(communicators[r], 0));
    }
    close_runtimes(2, runtimes);
}

/* Two plans of one communicator that share no tensor: submitted without waiting, in an order that all ranks have. With
 * them reversed on one rank the nodes differ, and that is found. */
static void plans_are_ordered_by_the_communicator(void **state) {
    (void)state;
    for (uint32_t reversed = 0; reversed < 2; reversed++) {
        rota_runtime *runtimes[2];
        rota_communicator *communicators[2];
        rota_plan *plans[2][2];
        rota_tensor x[2][2];
        open_runtimes(2, runtimes);
        assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
        for (uint32_t r = 0; r < 2; r++) {
            for (uint32_t p = 0; p < 2; p++) {
                const float ones[2] = {1, 1};
                x[r][p] = tensor_of(runtimes[r], p + 1, ones);
                plans[r][p] = all_reduce_plan(runtimes[r], communicators[r], x[r][p]);
            }
        }
        rota_ticket tickets[2];
        for (uint32_t i = 0; i < 40; i++)
            for (uint32_t r = 0; r < 2; r++)
                assert_ok(rota_submit(plans[r][(i + (reversed && r)) % 2], NULL, &tickets[r]));
        for (uint32_t r = 0; r < 2; r++) {
            const rota_status status = rota_wait(tickets[r], 0);
            assert_int_equal(status, reversed ? ROTA_NODE_FAILED : ROTA_OK);
            if (reversed) expect_said("rank 0 is at all_reduce 'all_reduce' (collective 1) of 1 f32, by sum");
            for (uint32_t p = 0; p < 2; p++) {
                float got;
                if (!reversed) assert_ok(rota_buffer_read(x[r][p].buffer, 0, &got, sizeof got));
                if (!reversed) assert_true(got == 1048576.0f); /* 2^20: each plan 20 times */
                rota_buffer_release(x[r][p].buffer);
                rota_plan_release(plans[r][p]);
            }
        }
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_communicator_close(communicators[r], 0));
        close_runtimes(2, runtimes);
    }
}

/* Two communicators of own_order, of each of which all ranks have one order: X X Y Y beside Y Y X X, and with what
 * depends on the first of each between. No rank waits for another in a circle. */
static void communicators_in_cross_order(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2][2]; /* by communicator, rank */
    rota_plan *plans[2][2];
    rota_tensor x[2][2];
    open_runtimes(2, runtimes);
    const rota_communicator_options soon =
        ROTA_COMMUNICATOR_OPTIONS(.timeout_ns = 5000000000u, .own_order = true);
    for (uint32_t c = 0; c < 2; c++)
        assert_ok(rota_communicator_open_ranks(runtimes, 2, &soon, communicators[c]));
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t c = 0; c < 2; c++) {
            const float one = 1;
            x[c][r] = tensor_of(runtimes[r], 1, &one);
            plans[c][r] = all_reduce_plan(runtimes[r], communicators[c][r], x[c][r]);
        }
    rota_ticket tickets[2];
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t i = 0; i < 4; i++)
                assert_ok(rota_submit(plans[(i / 2 + r) % 2][r], NULL, &tickets[r]));
        for (uint32_t r = 0; r < 2; r++) {
            assert_ok(rota_wait(tickets[r], 0));
            for (uint32_t c = 0; c < 2; c++) {
                float got;
                const float one = 1;
                assert_ok(rota_buffer_read(x[c][r].buffer, 0, &got, sizeof got));
                assert_true(got == 4);
                assert_ok(rota_buffer_write(x[c][r].buffer, NULL, 0, &one, sizeof one, NULL));
            }
        }
    }
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t c = 0; c < 2; c++) {
            rota_buffer_release(x[c][r].buffer);
            rota_plan_release(plans[c][r]);
            assert_ok(rota_communicator_close(communicators[c][r], 0));
        }
    close_runtimes(2, runtimes);
}

/* Nodes without names and of one size, of graphs with names, or of two lanes of one, in another order on one rank; and
 * a lane that has one more there. All are told apart at the first that differs, on both ranks, with both said. */
static void unnamed_ones_are_told_apart(void **state) {
    (void)state;
    static const char *const said[3][2] = {
        {"rank 0 is at all_reduce 'all_reduce' (collective 1) of 2 f32, by sum, number 1 of 1 in lane 'key "
         "0' of "
         "graph 'first', rank 1",
         "of graph 'second'"},
        {"number 1 of 1 in lane 'left' of graph 'graph'", "number 1 of 1 in lane 'right' of graph 'graph'"},
        {"number 1 of 1 in lane 'key 0'", "number 1 of 2 in lane 'key 0'"}};
    for (uint32_t what = 0; what < 3; what++) {
        rota_runtime *runtimes[2];
        rota_communicator *communicators[2];
        rota_plan *plans[2][2] = {{NULL, NULL}, {NULL, NULL}};
        rota_tensor x[2][2];
        rota_ticket tickets[2];
        const float ones[2] = {1, 1};
        open_runtimes(2, runtimes);
        const rota_communicator_options options = ROTA_COMMUNICATOR_OPTIONS(.timeout_ns = 5000000000u);
        assert_ok(rota_communicator_open_ranks(runtimes, 2, &options, communicators));
        for (uint32_t r = 0; r < 2; r++) {
            for (uint32_t i = 0; i < 2; i++) x[r][i] = tensor_of(runtimes[r], 2, ones);
            if (what == 0) {
                for (uint32_t p = 0; p < 2; p++)
                    plans[r][p] = named_plan(p ? "second" : "first", runtimes[r], communicators[r], x[r][p]);
            } else if (what == 1) {
                recorded_graph g = begin_graph();
                rota_recorder_close(g.recorder);
                for (uint32_t lane = 0; lane < 2; lane++) {
                    rota_tape_destroy(g.tape);
                    assert_ok(rota_recorder_open(g.graph, (lane + r) % 2 + 1, lane ? "right" : "left",
                                                 &g.recorder));
                    assert_ok(rota_tape_create(g.recorder, NULL, &g.tape));
                    assert_ok(rota_op_all_reduce_into(g.tape, communicators[r], x[r][lane],
                                                      ROTA_COLLECTIVE_SUM, x[r][lane]));
                    if (!lane) rota_recorder_close(g.recorder);
                }
                plans[r][0] = compile_graph(runtimes[r], &g);
            } else {
                recorded_graph g = begin_graph();
                for (uint32_t i = 0; i < r + 1; i++)
                    assert_ok(rota_op_all_reduce_into(g.tape, communicators[r], x[r][i], ROTA_COLLECTIVE_SUM,
                                                      x[r][i]));
                plans[r][0] = compile_graph(runtimes[r], &g);
            }
            assert_ok(rota_submit(plans[r][what == 0 && r ? 1 : 0], NULL, &tickets[r]));
        }
        for (uint32_t r = 0; r < 2; r++) {
            assert_status(rota_wait(tickets[r], 20000000000u), ROTA_NODE_FAILED);
            for (uint32_t i = 0; i < 2; i++) expect_said(said[what][i]);
        }
        for (uint32_t r = 0; r < 2; r++) {
            for (uint32_t i = 0; i < 2; i++) rota_buffer_release(x[r][i].buffer);
            for (uint32_t i = 0; i < 2; i++) rota_plan_release(plans[r][i]);
            assert_ok(rota_communicator_close(communicators[r], 0));
        }
        close_runtimes(2, runtimes);
    }
}

/* What two ranks say to each other is recorded anywhere, and graphs are tried again: none of it is a difference. */
static void what_may_differ(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2];
    rota_plan *of_two[2], *plans[2];
    rota_tensor x[2];
    rota_ticket tickets[2];
    const float one = 1;
    open_runtimes(2, runtimes);
    assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
    for (uint32_t r = 0; r < 2; r++) {
        x[r] = tensor_of(runtimes[r], 1, &one);
        if (r) rota_plan_release(named_plan("tried", runtimes[r], communicators[r], x[r]));
        rota_plan_release(all_reduce_plan(runtimes[r], communicators[r], x[r]));
        recorded_graph g = begin_named_graph(r ? "takes" : NULL);
        if (r)
            assert_ok(rota_op_receive_into(g.tape, communicators[r], 0, x[r]));
        else
            assert_ok(rota_op_send(g.tape, communicators[r], 1, x[r]));
        of_two[r] = compile_graph(runtimes[r], &g);
        plans[r] = all_reduce_plan(runtimes[r], communicators[r], x[r]);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(rota_submit(of_two[r], NULL, &tickets[r]));
        assert_ok(rota_submit(plans[r], NULL, &tickets[r]));
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(rota_wait(tickets[r], 0));
        rota_plan_release(of_two[r]);
        rota_plan_release(plans[r]);
        rota_buffer_release(x[r].buffer);
        assert_ok(rota_communicator_close(communicators[r], 0));
    }
    close_runtimes(2, runtimes);
}

/* A look that adds another work before it returns: both go on. */
typedef struct added_work {
    rota_rank_work work;
    rota_rank_thread *thread;
    struct added_work *adds;
    _Atomic uint32_t looks;
} added_work;

static bool look_and_add(rota_rank_work *work, bool *out_moved) {
    added_work *own = (added_work *)(void *)work;
    *out_moved = true;
    if (own->adds) rota_rank_thread_add(own->thread, &own->adds->work);
    own->adds = NULL;
    return ra_fetch_add_acq_rel(&own->looks, 1) < 5;
}

typedef struct adding_call {
    rota_rank_call call;
    added_work *first, *second;
} adding_call;

static void add_two(rota_rank_call *call) {
    const adding_call *own = (adding_call *)(void *)call;
    rota_rank_thread_add(own->first->thread, &own->first->work);
    rota_rank_thread_add(own->first->thread, &own->second->work);
}

static void a_look_adds_another(void **state) {
    (void)state;
    rota_rank_thread *thread;
    assert_ok(rota_rank_thread_start(&thread));
    added_work works[3];
    for (uint32_t i = 0; i < 3; i++) works[i] = (added_work){{.look = look_and_add}, thread, NULL, 0};
    works[1].adds = &works[2]; /* the second is the first of the list */
    adding_call call = {{.fn = add_two}, &works[0], &works[1]};
    rota_rank_thread_call(thread, &call.call);
    rota_rank_thread_leave(thread);
    const uint64_t deadline = rota_deadline_after(10000000000u);
    for (uint32_t i = 0; i < 3; i++)
        while (ra_load_acquire(&works[i].looks) < 6) {
            assert_true(rota_clock_ns() < deadline);
            test_nap_ms(1);
        }
    while (!ra_load_seq_cst(&thread->is_ended)) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_ms(1);
    }
    rota_rank_thread_release(thread);
}

/* Who was stopped while it waited sees a deadline that has long passed, and the thread, which was stopped, too, answers
 * a moment later: that is what it is told. One that is only past its deadline is not waited for. */
static _Atomic uint32_t may_answer;

static void answer_late(rota_rank_call *call) {
    while (!ra_load_acquire(&may_answer)) test_nap_ms(1);
    test_nap_ms(100);
    (void)rota_rank_answer((rota_rank_asked *)(void *)call, rota_fail(ROTA_NODE_FAILED, "so the ranks say"));
}

static void stopped_past_a_deadline(void **state) {
    (void)state;
    rota_rank_thread *thread;
    bool is_answered;
    assert_ok(rota_rank_thread_start(&thread));
    for (uint32_t was_stopped = 0; was_stopped < 2; was_stopped++) {
        rota_rank_asked *asked = rota_rank_ask(sizeof *asked, answer_late);
        assert_non_null(asked);
        ra_store_release(&may_answer, was_stopped);
        const uint64_t now = rota_clock_ns(), deadline_ns = was_stopped ? now - 500000000u : now;
        const rota_status status = rota_rank_wait(thread, asked, deadline_ns, "a split", &is_answered);
        ra_store_release(&may_answer, 1);
        assert_int_equal(status, was_stopped ? ROTA_NODE_FAILED : ROTA_TIMEOUT);
        assert_int_equal(is_answered, was_stopped);
        expect_said(was_stopped ? "so the ranks say" : "a split: it was not done by the deadline");
        if (is_answered) rota_rank_forget(asked);
    }
    rota_rank_thread_leave(thread);
    rota_rank_thread_release(thread);
}

/* Of several that are waited for by one deadline, as of a graph's communicators, all have the same second more. */
static void several_past_a_deadline(void **state) {
    (void)state;
    enum { SEVERAL = 6 };
    const uint64_t begin_ns = rota_clock_ns();
    uint64_t deadline_ns = begin_ns - 500000000u;
    for (uint32_t i = 0; i < SEVERAL; i++) {
        bool is_answered;
        rota_rank_asked *asked = rota_rank_ask(sizeof *asked, answer_late); /* no thread has it */
        assert_non_null(asked);
        assert_status(rota_rank_await(asked, &deadline_ns, "a split", &is_answered), ROTA_TIMEOUT);
        assert_false(is_answered);
        rota_rank_forget(asked);
    }
    assert_in_range(rota_clock_ns() - begin_ns, 1000000000u, (SEVERAL - 2) * 1000000000ull);
}

/* On a device that is no CPU: what goes in comes from it and goes back, and two of those overlap as they may. */
static void on_vulkan(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2][2];
    rota_device *devices[2];
    open_runtimes(2, runtimes);
    if (rota_device_open(runtimes[0], "vk:0", &devices[0]) != ROTA_OK) {
        print_message("skipped: %s\n", rota_last_error());
        close_runtimes(2, runtimes);
        return;
    }
    assert_ok(rota_device_open(runtimes[1], "vk:0", &devices[1]));
    const rota_communicator_options own = ROTA_COMMUNICATOR_OPTIONS(.own_order = true);
    for (uint32_t c = 0; c < 2; c++)
        assert_ok(rota_communicator_open_ranks(runtimes, 2, &own, communicators[c]));
    rota_plan *plans[2][2];
    rota_tensor x[2][2];
    rota_ticket tickets[2];
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t r = 0; r < 2; r++) {
            const float values[2] = {1, (float)(r + 1)};
            rota_tensor twice, sum;
            recorded_graph g = begin_graph();
            x[c][r] = tensor_of(runtimes[r], 2, values);
            assert_ok(rota_op_add(g.tape, x[c][r], x[c][r], &twice));
            assert_ok(rota_op_all_reduce(g.tape, communicators[c][r], twice, ROTA_COLLECTIVE_MEAN, &sum));
            assert_ok(rota_op_add_into(g.tape, sum, sum, x[c][r]));
            plans[c][r] = compile_graph_on(runtimes[r], devices[r], &g);
        }
    /* Each replay makes 4 times the mean; twice of one communicator, then of the other, in cross order. */
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t i = 0; i < 4; i++)
                assert_ok(rota_submit_wait(plans[(i / 2 + r) % 2][r], NULL, 0, &tickets[r]));
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(tickets[r], 0));
    }
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t r = 0; r < 2; r++) {
            float got[2];
            assert_ok(rota_buffer_read(x[c][r].buffer, 0, got, sizeof got));
            assert_true(got[0] == 1048576.0f && got[1] == 1.5f * 1048576.0f); /* 4^10 */
            rota_buffer_release(x[c][r].buffer);
            rota_plan_release(plans[c][r]);
            assert_ok(rota_communicator_close(communicators[c][r], 0));
        }
    close_runtimes(2, runtimes);
}

/* One rank closes while a collective is under way: it ends on both, by that sentence; what comes fails. */
static void closed_in_use(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2];
    rota_plan *plans[2];
    rota_tensor x[2];
    rota_ticket ticket;
    const float one = 1;
    open_runtimes(2, runtimes);
    assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
    for (uint32_t r = 0; r < 2; r++) {
        x[r] = tensor_of(runtimes[r], 1, &one);
        plans[r] = all_reduce_plan(runtimes[r], communicators[r], x[r]);
    }
    assert_ok(rota_submit(plans[0], NULL, &ticket));
    test_await(rank_is_under_way(communicators[0]));
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    assert_ok(rota_communicator_close(communicators[0], 0));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    expect_said("rank 0 closed it with a collective under way");
    assert_ok(rota_submit(plans[1], NULL, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    expect_said("rank 0 closed it with a collective under way");
    assert_ok(rota_submit(plans[0], NULL, &ticket));
    assert_true(rota_wait(ticket, 0) != ROTA_OK);
    assert_ok(rota_communicator_close(communicators[1], 0));
    for (uint32_t r = 0; r < 2; r++) {
        rota_buffer_release(x[r].buffer);
        rota_plan_release(plans[r]);
    }
    close_runtimes(2, runtimes);
}

#if defined(__SSE__)
/* Sums of numbers that whoever opened the communicator has flushed to zero. */
static void subnormals_are_not_flushed(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2];
    rota_ticket tickets[2];
    rota_tensor x[2];
    rota_plan *plans[2];
    const float small = 1e-40f;
    open_runtimes(2, runtimes);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040); /* flush results, take operands for zero */
    assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
    _mm_setcsr(before);
    for (uint32_t r = 0; r < 2; r++) {
        x[r] = tensor_of(runtimes[r], 1, &small);
        plans[r] = all_reduce_plan(runtimes[r], communicators[r], x[r]);
        assert_ok(rota_submit(plans[r], NULL, &tickets[r]));
    }
    for (uint32_t r = 0; r < 2; r++) {
        float got;
        assert_ok(rota_wait(tickets[r], 0));
        assert_ok(rota_buffer_read(x[r].buffer, 0, &got, sizeof got));
        assert_true(got == small + small && got > 0);
        rota_plan_release(plans[r]);
        rota_buffer_release(x[r].buffer);
        assert_ok(rota_communicator_close(communicators[r], 0));
    }
    close_runtimes(2, runtimes);
}
#endif

/* While a graph names it, what is called on a closed one is refused. */
static void calls_after_close(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2], *none;
    const float one = 1;
    open_runtimes(2, runtimes);
    assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
    const rota_tensor x = tensor_of(runtimes[0], 1, &one);
    rota_plan *plan = all_reduce_plan(runtimes[0], communicators[0], x);
    assert_ok(rota_communicator_close(communicators[0], 0));
    assert_status(rota_communicator_abort(communicators[0], "too late"), ROTA_WRONG_STATE);
    expect_said("communicator 'world' is closed on rank 0");
    assert_status(rota_communicator_open_split(communicators[0], 0, 0, NULL, &none), ROTA_WRONG_STATE);
    assert_null(none);
    /* The other one is told as soon as it wants something of it. */
    rota_ticket ticket;
    const rota_tensor y = tensor_of(runtimes[1], 1, &one);
    rota_plan *other = all_reduce_plan(runtimes[1], communicators[1], y);
    assert_ok(rota_submit(other, NULL, &ticket));
    assert_status(rota_wait(ticket, 19000000000u), ROTA_NODE_FAILED);
    expect_said("communicator 'world': rank 0 closed it");
    assert_status(rota_communicator_open_split(communicators[1], 0, 0, NULL, &none), ROTA_NODE_FAILED);
    assert_ok(rota_communicator_close(communicators[1], 0));
    rota_plan_release(plan);
    rota_plan_release(other);
    rota_buffer_release(x.buffer);
    rota_buffer_release(y.buffer);
    close_runtimes(2, runtimes);
}

/* What names a communicator may outlive it, and the runtime may go before it. */
static void lives(void **state) {
    (void)state;
    for (uint32_t runtime_first = 0; runtime_first < 2; runtime_first++) {
        rota_runtime *runtime;
        rota_communicator *communicator;
        const float one = 1;
        rota_ticket ticket;
        open_runtimes(1, &runtime);
        const rota_communicator_options alone =
            ROTA_COMMUNICATOR_OPTIONS(.transport = "alone", .name = "mine");
        assert_ok(rota_communicator_open(runtime, &alone, &communicator));
        assert_string_equal(rota_communicator_transport(communicator), "alone");
        assert_string_equal(rota_communicator_name(communicator), "mine");
        rota_tensor x = tensor_of(runtime, 1, &one);
        rota_plan *plan = all_reduce_plan(runtime, communicator, x);
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0));
        if (runtime_first) close_runtimes(1, &runtime);
        assert_ok(rota_communicator_close(communicator, 0));
        if (!runtime_first) {
            assert_ok(rota_submit(plan, NULL, &ticket));
            assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
            expect_said("communicator 'mine' is closed on rank 0");
        }
        rota_plan_release(plan);
        rota_buffer_release(x.buffer);
        if (!runtime_first) close_runtimes(1, &runtime);
    }
}

/* A timeout of for ever is no sum that begins anew at 0. */
static void for_ever(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_communicator *communicator, *own;
    open_runtimes(1, &runtime);
    const rota_communicator_options alone =
        ROTA_COMMUNICATOR_OPTIONS(.transport = "alone", .timeout_ns = UINT64_MAX);
    assert_ok(rota_communicator_open(runtime, &alone, &communicator));
    assert_ok(rota_communicator_open_split(communicator, 0, 0, NULL, &own));
    assert_ok(rota_communicator_close(own, UINT64_MAX - 1));
    assert_ok(rota_communicator_close(communicator, 0));
    assert_true(rota_rank_later(UINT64_MAX - 1, 1) == UINT64_MAX);
    assert_true(rota_rank_later(UINT64_MAX / 3 * 2 + 1, UINT64_MAX / 3 + 1) == UINT64_MAX);
    close_runtimes(1, &runtime);
}

static void wrong_calls(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2], *none;
    open_runtimes(2, runtimes);
    const rota_communicator_options wrong = ROTA_COMMUNICATOR_OPTIONS(.transport = "pigeons");
    assert_status(rota_communicator_open(runtimes[0], &wrong, &none), ROTA_UNSUPPORTED);
    expect_said("'pigeons'");
    assert_status(rota_communicator_open(NULL, NULL, &none), ROTA_INVALID_ARGUMENT);
    assert_status(rota_communicator_open_ranks(runtimes, 0, NULL, &none), ROTA_INVALID_ARGUMENT);
    assert_status(rota_communicator_open_ranks(runtimes, 2, &wrong, communicators), ROTA_INVALID_ARGUMENT);
    rota_runtime *const same[2] = {runtimes[0], runtimes[0]};
    assert_status(rota_communicator_open_ranks(same, 2, NULL, communicators), ROTA_INVALID_ARGUMENT);
    expect_said("ranks 0 and 1 of one process have one runtime");
    assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
    const float values[3] = {1, 2, 3};
    const rota_tensor x = tensor_of(runtimes[0], 3, values);
    rota_tensor y;
    recorded_graph g = begin_graph();
    assert_status(rota_op_reduce_scatter(g.tape, communicators[0], x, ROTA_COLLECTIVE_SUM, &y),
                  ROTA_INVALID_ARGUMENT);
    expect_said("x is f32 [3], expected a first axis that is a multiple of 2 ranks");
    assert_status(rota_op_all_to_all(g.tape, communicators[0], x, &y), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_broadcast_from(g.tape, communicators[0], 2, x, &y), ROTA_INVALID_ARGUMENT);
    expect_said("rank 2, expected one below 2, the ranks of 'world'");
    assert_status(rota_op_send(g.tape, communicators[0], 0, x), ROTA_INVALID_ARGUMENT);
    expect_said("rank 0, expected another one");
    assert_status(rota_op_all_reduce(g.tape, communicators[0], x, (rota_collective_reduction)9, &y),
                  ROTA_INVALID_ARGUMENT);
    expect_said("reduction 9");
    assert_status(rota_op_all_reduce(g.tape, NULL, x, ROTA_COLLECTIVE_SUM, &y), ROTA_INVALID_ARGUMENT);
    /* By max there is no gradient. */
    rota_tensor loss, grad = ROTA_TENSOR_NONE;
    assert_ok(rota_op_all_reduce(g.tape, communicators[0], x, ROTA_COLLECTIVE_MAX, &y));
    assert_ok(rota_op_sum(g.tape, y, 0, false, &loss));
    assert_status(rota_backward(g.tape, loss, &x, 1, &grad, NULL), ROTA_UNSUPPORTED);
    expect_said("by max it has no gradient");
    assert_status(rota_communicator_abort(communicators[0], NULL), ROTA_INVALID_ARGUMENT);
    rota_tape_destroy(g.tape);
    rota_recorder_close(g.recorder);
    rota_graph_release(g.graph);
    rota_buffer_release(x.buffer);
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_communicator_close(communicators[r], 0));
    assert_ok(rota_communicator_close(NULL, 0));
    close_runtimes(2, runtimes);
}

/* In a body of a node that decides no collective is recorded, however deep it is, and one that was refused is none of
 * its lane's: the other rank has not tried, and both go on. */
static void none_in_bodies(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2];
    open_runtimes(2, runtimes);
    assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
    const float values[2] = {1, 2};
    rota_tensor x[2], y;
    rota_plan *plans[2];
    rota_ticket tickets[2];
    for (uint32_t r = 0; r < 2; r++) {
        x[r] = tensor_of(runtimes[r], 2, values);
        recorded_graph g = begin_graph();
        rota_graph *bodies[2];
        for (uint32_t depth = 0; r == 0 && depth < 2; depth++) {
            rota_recorder *inner;
            rota_tape *tape;
            assert_ok(rota_graph_create_body(depth ? bodies[0] : g.graph, "body", &bodies[depth]));
            assert_ok(rota_recorder_open(bodies[depth], 0, NULL, &inner));
            assert_ok(rota_tape_create(inner, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
            rota_communicator *c = communicators[0];
            assert_status(rota_op_all_reduce(tape, c, x[0], ROTA_COLLECTIVE_SUM, &y), ROTA_UNSUPPORTED);
            expect_said("node 'all_reduce'");
            expect_said("'body' is the body of a node that decides");
            assert_status(rota_op_all_reduce_into(tape, c, x[0], ROTA_COLLECTIVE_SUM, x[0]),
                          ROTA_UNSUPPORTED);
            assert_status(rota_op_reduce_scatter(tape, c, x[0], ROTA_COLLECTIVE_SUM, &y), ROTA_UNSUPPORTED);
            assert_status(rota_op_all_gather(tape, c, x[0], &y), ROTA_UNSUPPORTED);
            assert_status(rota_op_all_to_all(tape, c, x[0], &y), ROTA_UNSUPPORTED);
            assert_status(rota_op_broadcast_from(tape, c, 0, x[0], &y), ROTA_UNSUPPORTED);
            assert_status(rota_op_send(tape, c, 1, x[0]), ROTA_UNSUPPORTED);
            assert_status(rota_op_receive_into(tape, c, 1, x[0]), ROTA_UNSUPPORTED);
            assert_status(rota_op_barrier(tape, c), ROTA_UNSUPPORTED);
            expect_said("node 'barrier'");
            /* Nothing is left of them, nor of the copy that one of a tensor with gaps would have read. */
            rota_tensor spread = x[0];
            spread.stride[0] = 0;
            assert_status(rota_op_all_reduce(tape, c, spread, ROTA_COLLECTIVE_SUM, &y), ROTA_UNSUPPORTED);
            rota_tape_destroy(tape);
            rota_recorder_close(inner);
            assert_int_equal(rota_graph_node_count(bodies[depth]), 0);
        }
        for (uint32_t depth = 2; r == 0 && depth-- > 0;) rota_graph_release(bodies[depth]);
        assert_ok(rota_op_all_reduce_into(g.tape, communicators[r], x[r], ROTA_COLLECTIVE_SUM, x[r]));
        plans[r] = compile_graph(runtimes[r], &g);
        assert_ok(rota_submit(plans[r], NULL, &tickets[r]));
    }
    for (uint32_t r = 0; r < 2; r++) {
        float got[2];
        assert_ok(rota_wait(tickets[r], 0));
        assert_ok(rota_buffer_read(x[r].buffer, 0, got, sizeof got));
        assert_true(got[0] == 2 && got[1] == 4);
        rota_plan_release(plans[r]);
        rota_buffer_release(x[r].buffer);
        assert_ok(rota_communicator_close(communicators[r], 0));
    }
    close_runtimes(2, runtimes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),
        cmocka_unit_test(more_ranks),
        cmocka_unit_test(one_worker_is_enough),
        cmocka_unit_test(plans_are_ordered_by_the_communicator),
        cmocka_unit_test(communicators_in_cross_order),
        cmocka_unit_test(unnamed_ones_are_told_apart),
        cmocka_unit_test(what_may_differ),
        cmocka_unit_test(a_look_adds_another),
        cmocka_unit_test(stopped_past_a_deadline),
        cmocka_unit_test(several_past_a_deadline),
        cmocka_unit_test(on_vulkan),
        cmocka_unit_test(closed_in_use),
#if defined(__SSE__)
        cmocka_unit_test(subnormals_are_not_flushed),
#endif
        cmocka_unit_test(calls_after_close),
        cmocka_unit_test(lives),
        cmocka_unit_test(for_ever),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(none_in_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
