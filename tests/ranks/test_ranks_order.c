/* Ranks that share several communicators, and submit their collectives in one order or in two: what differs is found,
 * by all and by name, whether they wait for each other by it or not, and long before the timeout; what is in one order
 * is never taken for two. And graphs that differ somewhere: nothing of them is begun. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "exec/nccl/nccl_api.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"
#include "tests/ranks/nccl_pins.h"
#include "tests/ranks/rank_cases.h"

enum { RANKS_MOST = 3 };
static const uint64_t timeout_ns = 20000000000u, soon_ns = 5000000000u; /* of communicators; what is soon */

static rota_runtime *runtimes[RANKS_MOST];

static void open_runtimes(uint32_t size) {
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 2, .cache_dir = "");
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_runtime_open(&options, &runtimes[i]));
}

static void close_runtimes(uint32_t size) {
    for (uint32_t i = 0; i < size; i++) assert_ok(rota_runtime_close(runtimes[i], timeout_ns));
}

static void open_named(uint32_t size, const char *name, bool own_order, rota_communicator **out) {
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = name, .timeout_ns = timeout_ns, .own_order = own_order);
    assert_ok(rota_communicator_open_ranks(runtimes, size, &options, out));
}

static rota_tensor tensor_of(uint32_t rank, float value) {
    rota_buffer *buffer;
    rota_tensor tensor;
    assert_ok(rota_buffer_create_in(runtimes[rank], "x", sizeof value, &buffer));
    assert_ok(rota_buffer_write(buffer, NULL, 0, &value, sizeof value, NULL));
    assert_ok(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(1), &tensor));
    return tensor;
}

typedef struct recording {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
} recording;

static recording begin(const char *name) {
    recording r;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &r.graph));
    assert_ok(rota_recorder_open(r.graph, 0, NULL, &r.recorder));
    assert_ok(rota_tape_create(r.recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &r.tape));
    return r;
}

static rota_plan *end(uint32_t rank, recording *r) {
    rota_device *device;
    rota_plan *plan;
    rota_tape_destroy(r->tape);
    rota_recorder_close(r->recorder);
    assert_ok(rota_device_open(runtimes[rank], "cpu", &device));
    assert_ok(rota_compile(runtimes[rank], r->graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(r->graph);
    return plan;
}

static rota_plan *sum_of(const char *name, uint32_t rank, rota_communicator *communicator, rota_tensor x) {
    recording r = begin(name);
    assert_ok(rota_op_all_reduce_into(r.tape, communicator, x, ROTA_COLLECTIVE_SUM, x));
    return end(rank, &r);
}

static float value_of(rota_tensor x) {
    float value;
    assert_ok(rota_buffer_read(x.buffer, 0, &value, sizeof value));
    return value;
}

/* Both fail soon, with a sentence that has both communicators. */
static void expect_crossed(rota_ticket ticket, const char *a, const char *b) {
    char text[64];
    const uint64_t begin_ns = rota_clock_ns();
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    assert_true(rota_clock_ns() - begin_ns < soon_ns);
    expect_said("orders of collectives differ");
    (void)snprintf(text, sizeof text, "communicator '%s'", a);
    expect_said(text);
    (void)snprintf(text, sizeof text, "communicator '%s'", b);
    expect_said(text);
}

/* Of two ranks: two communicators, a tensor and a plan of each. */
typedef struct pair {
    rota_communicator *of[2][2]; /* by communicator, rank */
    rota_tensor x[2][2];
    rota_plan *plan[2][2];
} pair;

static void make_pair(pair *p, bool own_order) {
    open_runtimes(2);
    open_named(2, "first", false, p->of[0]);
    open_named(2, "second", own_order, p->of[1]);
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t r = 0; r < 2; r++) {
            p->x[c][r] = tensor_of(r, 1);
            p->plan[c][r] = sum_of(c ? "b" : "a", r, p->of[c][r], p->x[c][r]);
        }
}

static void end_pair(pair *p) {
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t r = 0; r < 2; r++) {
            rota_plan_release(p->plan[c][r]);
            rota_buffer_release(p->x[c][r].buffer);
            assert_ok(rota_communicator_close(p->of[c][r], 0));
        }
    close_runtimes(2);
}

/* Of two ranks: one communicator, two tensors and a plan of each. */
typedef struct world {
    rota_communicator *of[2];
    rota_tensor x[2], y[2];
    rota_plan *plans[2];
    rota_ticket tickets[2];
} world;

static void open_world(world *w) {
    *w = (world){0};
    open_runtimes(2);
    open_named(2, "world", false, w->of);
    for (uint32_t r = 0; r < 2; r++) {
        w->x[r] = tensor_of(r, 7);
        w->y[r] = tensor_of(r, 7);
    }
}

static void close_world(world *w) {
    for (uint32_t r = 0; r < 2; r++) {
        rota_plan_release(w->plans[r]);
        rota_buffer_release(w->x[r].buffer);
        rota_buffer_release(w->y[r].buffer);
        assert_ok(rota_communicator_close(w->of[r], 0));
    }
    close_runtimes(2);
}

/* The rank's plan of what was recorded, submitted. */
static void submit_in_world(world *w, uint32_t rank, recording *r) {
    w->plans[rank] = end(rank, r);
    assert_ok(rota_submit(w->plans[rank], NULL, &w->tickets[rank]));
}

/* Rank 0 waits at the first one's collective, rank 1 at the second one's, and neither submits anything else. */
static void each_waits_at_another(void **state) {
    (void)state;
    pair p;
    make_pair(&p, false);
    rota_ticket tickets[2];
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_submit(p.plan[r][r], NULL, &tickets[r]));
    for (uint32_t r = 0; r < 2; r++) expect_crossed(tickets[r], "first", "second");
    /* Both have ended for good. */
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(rota_submit(p.plan[1 - r][r], NULL, &tickets[r]));
        assert_status(rota_wait(tickets[r], 0), ROTA_NODE_FAILED);
        expect_said("orders of collectives differ");
    }
    end_pair(&p);
}

/* As many of each before, on both; then crossed. */
static void after_a_while(void **state) {
    (void)state;
    pair p;
    make_pair(&p, false);
    rota_ticket tickets[2];
    for (uint32_t i = 0; i < 20; i++) {
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t c = 0; c < 2; c++)
                assert_ok(rota_submit(p.plan[(c + i) % 2][r], NULL, &tickets[r]));
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(tickets[r], 0));
    }
    for (uint32_t r = 0; r < 2; r++) assert_true(value_of(p.x[0][r]) == 1048576.0f);
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_submit(p.plan[r][r], NULL, &tickets[r]));
    for (uint32_t r = 0; r < 2; r++) expect_crossed(tickets[r], "first", "second");
    end_pair(&p);
}

/* All are submitted, so that nobody waits for good: found all the same. */
static void submitted_in_two_orders(void **state) {
    (void)state;
    pair p;
    make_pair(&p, false);
    rota_ticket tickets[2][2];
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < 2; i++) assert_ok(rota_submit(p.plan[(i + r) % 2][r], NULL, &tickets[r][i]));
    uint32_t failed[2] = {0, 0};
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < 2; i++)
            if (rota_wait(tickets[r][i], 0) != ROTA_OK) {
                failed[r]++;
                expect_said("orders of collectives differ");
            }
    assert_true(failed[0] && failed[1]);
    end_pair(&p);
}

/* Whose order is their own: nothing is compared, and they pass one another. */
static void orders_of_their_own(void **state) {
    (void)state;
    pair p;
    make_pair(&p, true);
    rota_ticket tickets[2];
    for (uint32_t i = 0; i < 10; i++) {
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t k = 0; k < 2; k++)
                assert_ok(rota_submit(p.plan[(k + r) % 2][r], NULL, &tickets[r]));
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(tickets[r], 0));
    }
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t r = 0; r < 2; r++) assert_true(value_of(p.x[c][r]) == 1024.0f);
    end_pair(&p);
}

/* ---- Within graphs ---- */

static rota_status be_late(void *user, void *const *operands, const uint64_t *operand_bytes, uint32_t count) {
    (void)user, (void)operands, (void)operand_bytes, (void)count;
    test_nap_ms(400);
    return ROTA_OK;
}

/* One order on both; but on rank 0 the first one's operand is late, and on rank 1 the second one's, so that each comes
 * to the other one first, and stands there for longer than it takes to look around. */
static void one_order_that_comes_in_two(void **state) {
    (void)state;
    pair p;
    make_pair(&p, false);
    rota_plan *plans[2];
    rota_ticket tickets[2];
    for (uint32_t r = 0; r < 2; r++) {
        recording g = begin("both");
        const rota_access access = {p.x[r][r].buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
        assert_ok(rota_record_host(
            g.recorder, &ROTA_HOST_NODE(.fn = be_late, .accesses = &access, .access_count = 1), NULL));
        for (uint32_t c = 0; c < 2; c++)
            assert_ok(rota_op_all_reduce_into(g.tape, p.of[c][r], p.x[c][r], ROTA_COLLECTIVE_SUM, p.x[c][r]));
        plans[r] = end(r, &g);
    }
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_submit(plans[r], NULL, &tickets[r]));
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(tickets[r], 0));
    }
    for (uint32_t r = 0; r < 2; r++) rota_plan_release(plans[r]);
    end_pair(&p);
}

/* Recorded in two orders in one graph, the second behind the first by its data. */
static void recorded_in_two_orders(void **state) {
    (void)state;
    pair p;
    make_pair(&p, false);
    rota_plan *plans[2];
    rota_ticket tickets[2];
    for (uint32_t r = 0; r < 2; r++) {
        recording g = begin("both");
        for (uint32_t i = 0; i < 2; i++)
            assert_ok(rota_op_all_reduce_into(g.tape, p.of[(i + r) % 2][r], p.x[0][r], ROTA_COLLECTIVE_SUM,
                                              p.x[0][r]));
        plans[r] = end(r, &g);
        assert_ok(rota_submit(plans[r], NULL, &tickets[r]));
    }
    for (uint32_t r = 0; r < 2; r++) expect_crossed(tickets[r], "first", "second");
    for (uint32_t r = 0; r < 2; r++) rota_plan_release(plans[r]);
    end_pair(&p);
}

/* The fourth collective of five is another one on rank 1: the first is not begun, and the fourth is named. */
static void a_graph_that_differs_behind(void **state) {
    (void)state;
    world w;
    open_world(&w);
    for (uint32_t r = 0; r < 2; r++) {
        recording g = begin("step");
        for (uint32_t i = 0; i < 5; i++) {
            const rota_tensor x = i == 3 ? w.y[r] : w.x[r];
            const rota_collective_reduction reduction =
                i == 3 && r ? ROTA_COLLECTIVE_MAX : ROTA_COLLECTIVE_SUM;
            assert_ok(rota_op_all_reduce_into(g.tape, w.of[r], x, reduction, x));
        }
        submit_in_world(&w, r, &g);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_status(rota_wait(w.tickets[r], 0), ROTA_NODE_FAILED);
        expect_said(
            "rank 0 is at all_reduce 'all_reduce' (collective 4) of 1 f32, by sum, number 4 of 5 in lane "
            "'key 0' of graph 'step', rank 1 at all_reduce 'all_reduce' (collective 4) of 1 f32, by max");
    }
    close_world(&w);
}

/* One lane more on rank 1, behind the others: told before the first begins. */
static void a_graph_that_has_more(void **state) {
    (void)state;
    world w;
    open_world(&w);
    for (uint32_t r = 0; r < 2; r++) {
        recording g = begin("step");
        for (uint32_t lane = 0; lane < 1 + r; lane++) {
            if (lane) {
                rota_tape_destroy(g.tape);
                rota_recorder_close(g.recorder);
                assert_ok(rota_recorder_open(g.graph, lane, "more", &g.recorder));
                assert_ok(rota_tape_create(g.recorder, NULL, &g.tape));
            }
            assert_ok(rota_op_all_reduce_into(g.tape, w.of[r], w.x[r], ROTA_COLLECTIVE_SUM, w.x[r]));
        }
        submit_in_world(&w, r, &g);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_status(rota_wait(w.tickets[r], 0), ROTA_NODE_FAILED);
        expect_said("rank 0 is at the end of graph 'step', without a collective 2, rank 1 at all_reduce");
        expect_said("in lane 'more'");
    }
    close_world(&w);
}

/* ---- What fails before its turn ---- */

static rota_status fail_late(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)user, (void)operands, (void)bytes, (void)count;
    test_nap_ms(100);
    return rota_fail(ROTA_SYSTEM, "the disk is full");
}

/* A sum behind a node that fails a little later. */
static rota_plan *failing_sum(uint32_t rank, rota_communicator *communicator, rota_tensor x) {
    recording r = begin("one");
    const rota_access access = {x.buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    const rota_host_node host = ROTA_HOST_NODE(.fn = fail_late, .accesses = &access, .access_count = 1);
    assert_ok(rota_record_host(r.recorder, &host, NULL));
    assert_ok(rota_op_all_reduce_into(r.tape, communicator, x, ROTA_COLLECTIVE_SUM, x));
    return end(rank, &r);
}

/* Rank 0 submits a collective, and one that fails as it is sequenced, since nobody wrote what it reads. The first ends
 * well, though rank 1 comes to it later, and then rank 1 is told of the second; where the first is left out itself it
 * is told at once. */
static void fails_behind_another(void **state) {
    (void)state;
    for (uint32_t is_left_out = 0; is_left_out < 2; is_left_out++) {
        world w;
        rota_plan *second[2];
        rota_ticket failed, told;
        open_world(&w);
        rota_buffer_release(w.y[0].buffer);
        assert_ok(rota_buffer_create_in(runtimes[0], "never written", sizeof(float), &w.y[0].buffer));
        for (uint32_t r = 0; r < 2; r++) {
            w.plans[r] =
                is_left_out && r == 0 ? failing_sum(r, w.of[r], w.x[r]) : sum_of("one", r, w.of[r], w.x[r]);
            second[r] = sum_of("two", r, w.of[r], w.y[r]);
        }
        assert_ok(rota_submit(w.plans[0], NULL, &w.tickets[0]));
        assert_ok(rota_submit(second[0], NULL, &failed));
        assert_true(rota_wait(failed, 0) != ROTA_OK);
        expect_said("'never written'");
        test_nap_ms(is_left_out ? 0 : 100);
        const uint64_t begin_ns = rota_clock_ns();
        assert_ok(rota_submit(w.plans[1], NULL, &w.tickets[1]));
        assert_ok(rota_submit(second[1], NULL, &told));
        for (uint32_t r = 0; r < 2; r++)
            assert_status(rota_wait(w.tickets[r], 0), is_left_out ? ROTA_NODE_FAILED : ROTA_OK);
        assert_true(rota_wait(told, 0) != ROTA_OK);
        expect_said("rank 0 left out its node 'all_reduce'");
        assert_true(rota_clock_ns() - begin_ns < soon_ns);
        for (uint32_t r = 0; r < 2; r++) rota_plan_release(second[r]);
        close_world(&w);
    }
}

/* ---- As plans are compiled ---- */

typedef struct compiling {
    pthread_t thread;
    rota_communicator *of[2];
    uint32_t rank;
    bool differs;
    rota_status status;
    char said[ROTA_ERROR_MESSAGE_MAX];
} compiling;

static void *compile_compared(void *user) {
    compiling *own = user;
    rota_device *device;
    rota_buffer *x;
    rota_tensor tensor;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan *plan;
    rank_ok(rota_device_open(runtimes[own->rank], "cpu", &device));
    rank_ok(rota_buffer_create_in(runtimes[own->rank], "x", sizeof(float), &x));
    rank_ok(rota_tensor_of(x, 0, ROTA_F32, ROTA_SHAPE(1), &tensor));
    rank_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "step"), &graph));
    rank_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rank_ok(rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    for (uint32_t i = 0; i < 6; i++)
        rank_ok(rota_op_all_reduce_into(tape, own->of[i % 2], tensor,
                                        own->differs && i == 3 ? ROTA_COLLECTIVE_MIN : ROTA_COLLECTIVE_SUM,
                                        tensor));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    own->status = rota_compile(
        runtimes[own->rank], graph,
        &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .compare_ranks = true), &plan);
    (void)snprintf(own->said, sizeof own->said, "%s", rota_last_error());
    rota_graph_release(graph);
    rota_plan_release(own->status == ROTA_OK ? plan : NULL);
    rota_buffer_release(x);
    return NULL;
}

/* Alike on both ranks; another fourth collective on one, which is the second one's second; and on one rank alone. */
static void compared_as_compiled(void **state) {
    (void)state;
    for (uint32_t what = 0; what < 3; what++) {
        rota_communicator *of[2][2];
        compiling ranks[2];
        open_runtimes(2);
        for (uint32_t c = 0; c < 2; c++) {
            const rota_communicator_options options =
                ROTA_COMMUNICATOR_OPTIONS(.name = c ? "second" : "first",
                                          .timeout_ns = what == 2 ? 500000000u : timeout_ns);
            assert_ok(rota_communicator_open_ranks(runtimes, 2, &options, of[c]));
        }
        const uint32_t count = what == 2 ? 1 : 2;
        for (uint32_t r = 0; r < count; r++) {
            ranks[r] = (compiling){.of = {of[0][r], of[1][r]}, .rank = r, .differs = what == 1 && r};
            assert_int_equal(pthread_create(&ranks[r].thread, NULL, compile_compared, &ranks[r]), 0);
        }
        for (uint32_t r = 0; r < count; r++) {
            assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
            assert_int_equal(ranks[r].status, what ? ROTA_NODE_FAILED : ROTA_OK);
            if (what == 1) {
                assert_non_null(strstr(ranks[r].said,
                                       "communicator 'second': the ranks' collectives differ: rank 0 "
                                       "is at all_reduce 'all_reduce'"));
                assert_non_null(
                    strstr(ranks[r].said, "by min, number 2 of 3 in lane 'key 0' of graph 'step'"));
            }
            if (what == 2) assert_non_null(strstr(ranks[r].said, "for rank 1, which did not come to it"));
        }
        for (uint32_t c = 0; c < 2; c++)
            for (uint32_t r = 0; r < 2; r++) assert_ok(rota_communicator_close(of[c][r], 0));
        close_runtimes(2);
    }
}

/* More communicators than one would think of: each is compared, also the last one. */
enum { GROUPS = 300 };

typedef struct wide {
    pthread_t thread;
    rota_communicator *world;
    uint32_t rank;
    rota_status status;
    char said[ROTA_ERROR_MESSAGE_MAX];
} wide;

static void *compile_wide(void *user) {
    wide *own = user;
    rota_communicator *groups[GROUPS];
    rota_device *device;
    rota_plan *plan = NULL;
    char name[16];
    for (uint32_t g = 0; g < GROUPS; g++) {
        (void)snprintf(name, sizeof name, "group %u", g);
        rank_ok(rota_communicator_open_split(own->world, 0, 0, name, &groups[g]));
    }
    rota_tensor x = tensor_of(own->rank, 1);
    recording r = begin("wide");
    for (uint32_t g = 0; g < GROUPS; g++)
        rank_ok(rota_op_all_reduce_into(
            r.tape, groups[g], x, own->rank && g == GROUPS - 1 ? ROTA_COLLECTIVE_MIN : ROTA_COLLECTIVE_SUM,
            x));
    rota_tape_destroy(r.tape);
    rota_recorder_close(r.recorder);
    rank_ok(rota_device_open(runtimes[own->rank], "cpu", &device));
    own->status = rota_compile(
        runtimes[own->rank], r.graph,
        &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .compare_ranks = true), &plan);
    (void)snprintf(own->said, sizeof own->said, "%s", rota_last_error());
    rota_plan_release(plan);
    rota_graph_release(r.graph);
    rota_buffer_release(x.buffer);
    for (uint32_t g = 0; g < GROUPS; g++) rank_ok(rota_communicator_close(groups[g], 0));
    return NULL;
}

static void many_are_compared(void **state) {
    (void)state;
    rota_communicator *both[2];
    wide ranks[2];
    open_runtimes(2);
    open_named(2, "world", false, both);
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r] = (wide){.world = both[r], .rank = r};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, compile_wide, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
        assert_int_equal(ranks[r].status, ROTA_NODE_FAILED);
        if (!strstr(ranks[r].said, "communicator 'group 299': the ranks' collectives differ"))
            fail_msg("%s", ranks[r].said);
    }
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_communicator_close(both[r], 0));
    close_runtimes(2);
}

/* One rank can't compare on the first communicator, which it has ended: it is at the second one all the same, where the
 * other rank waits for it, and both are told of the first one at once. */
static void one_that_has_ended(void **state) {
    (void)state;
    rota_communicator *of[2][2];
    compiling ranks[2];
    open_runtimes(2);
    open_named(2, "first", false, of[0]);
    open_named(2, "second", false, of[1]);
    const uint64_t begin_ns = rota_clock_ns();
    assert_ok(rota_communicator_abort(of[0][0], "it is not needed"));
    rota_tensor x = tensor_of(0, 1);
    rota_plan *failing = sum_of("before", 0, of[0][0], x);
    rota_ticket ticket;
    assert_ok(rota_submit(failing, NULL, &ticket)); /* so that what was submitted on it has failed, too */
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r] = (compiling){.of = {of[0][r], of[1][r]}, .rank = r};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, compile_compared, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
        assert_int_equal(ranks[r].status, ROTA_NODE_FAILED);
        if (!strstr(ranks[r].said, "communicator 'first': rank 0 ended it: it is not needed"))
            fail_msg("%s", ranks[r].said);
    }
    assert_true(rota_clock_ns() - begin_ns < soon_ns);
    rota_plan_release(failing);
    rota_buffer_release(x.buffer);
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_communicator_close(of[c][r], 0));
    close_runtimes(2);
}

/* ---- What is pinned ---- */

/* As rota_communicator_options.deterministic has it. */
static void what_nccl_has_pinned(void **state) {
    (void)state;
    uint32_t pinned[2] = {0, 0}, count = 0;
    for (uint32_t i = 0; i < NCCL_PINS; i++) {
        const char *said = nccl_pins[i].said;
        uint32_t pins;
        nccl_pin_set(&nccl_pins[i]);
        assert_status(rota_nccl_pins(&pins), said ? ROTA_UNSUPPORTED : ROTA_OK);
        if (said) expect_said(said);
        if (!said && count < 2) pinned[count++] = pins;
        nccl_pin_unset();
    }
    assert_true(count == 2 && pinned[0] && pinned[1] && pinned[0] != pinned[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_waits_at_another),       cmocka_unit_test(after_a_while),
        cmocka_unit_test(submitted_in_two_orders),     cmocka_unit_test(orders_of_their_own),
        cmocka_unit_test(one_order_that_comes_in_two), cmocka_unit_test(recorded_in_two_orders),
        cmocka_unit_test(a_graph_that_differs_behind), cmocka_unit_test(a_graph_that_has_more),
        cmocka_unit_test(compared_as_compiled),        cmocka_unit_test(what_nccl_has_pinned),
        cmocka_unit_test(fails_behind_another),        cmocka_unit_test(many_are_compared),
        cmocka_unit_test(one_that_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
