/* Farewells of communicators that have nothing else under way: of one whose device takes its time to end, and of one at
 * rest that is ended by what lies there. Rank 0's engine is one that sends a farewell only when it is asked again, as
 * where a connection takes no bytes when it is said. */
#include "tests/kit/support.h"

#include "tests/exec/cuda/cuda_stub_kit.h"

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/comm/messages_parts.h"
#include "sched/ranks/parts.h"
#include "tests/ranks/rank_graph.h"
#ifdef ROTA_HAVE_CUDA
#include "tests/ranks/nccl_ranks.h"
#endif

/* ---- An engine that is asked twice ---- */

enum { HELD_MOST = 8 };

typedef struct held_farewell {
    rota_engine_request *request; /* NULL: the engine has not got it */
    uint32_t to, tag, asked;
    const void *bytes;
    uint64_t size_bytes;
} held_farewell;

/* Of one engine, and its thread's of ranks. */
static const rota_engine_vtable *real;
static rota_engine_vtable holding;
static held_farewell held[HELD_MOST];
static uint32_t held_count;
static _Atomic uint64_t sent_ns; /* when the first farewell was; 0: none was */

static rota_engine_request *real_of(rota_engine *engine, rota_engine_request *request) {
    held_farewell *own = request;
    if (own < held || own >= held + HELD_MOST) return request;
    if (own->request) return own->request;
    rank_ok(real->send(engine, own->to, own->tag, own->bytes, own->size_bytes, &own->request));
    if (!ra_load_relaxed(&sent_ns)) ra_store_release(&sent_ns, rota_clock_ns());
    return own->request;
}

static rota_status send_later(rota_engine *engine, uint32_t to, uint32_t tag, const void *bytes,
                              uint64_t size_bytes, rota_engine_request **out) {
    if (tag % ROTA_MESSAGES_CHANNELS != ROTA_MESSAGES_END)
        return real->send(engine, to, tag, bytes, size_bytes, out);
    held_farewell *own = &held[held_count++ % HELD_MOST];
    *own = (held_farewell){.to = to, .tag = tag, .bytes = bytes, .size_bytes = size_bytes};
    *out = own;
    return ROTA_OK;
}

static rota_status test_again(rota_engine *engine, rota_engine_request *request, bool *out_over) {
    held_farewell *own = request;
    *out_over = false;
    if (own >= held && own < held + HELD_MOST && own->asked++ == 0) return ROTA_OK;
    return real->test(engine, real_of(engine, request), out_over);
}

static bool cancel(rota_engine *engine, rota_engine_request *request) {
    return real->cancel(engine, real_of(engine, request));
}

static void detach(rota_engine *engine, rota_engine_request *request) {
    real->detach(engine, real_of(engine, request));
}

/* Of a communicator that nothing was done with yet. */
static void hold_farewells(rota_communicator *communicator) {
    rota_engine *engine = ((rota_messages *)(void *)communicator->under_way.transport)->group->engine;
    real = engine->vtable;
    holding = *real;
    holding.send = send_later;
    holding.test = test_again;
    holding.cancel = cancel;
    holding.detach = detach;
    engine->vtable = &holding;
    held_count = 0;
    ra_store_release(&sent_ns, 0);
}

/* ---- At rest ---- */

static const uint64_t timeout_ns = 20000000000u, soon_ns = 8000000000u;

typedef struct sum {
    rank_graph graph;
    rota_tensor x;
} sum;

static void make_sum(sum *s, rota_runtime *runtime, rota_communicator *communicator, rota_device *device) {
    static const float ones[64] = {1, 1, 1};
    begin(&s->graph, runtime, communicator, false);
    if (device) s->graph.device = device;
    s->x = made(&s->graph, ROTA_F32, 64, ones);
    assert_ok(rota_op_all_reduce_into(s->graph.tape, communicator, s->x, ROTA_COLLECTIVE_SUM, s->x));
    compile(&s->graph);
}

static void end_sum(sum *s) {
    end(&s->graph);
    drop(s->x);
}

/* Rank 0 waits at the first communicator's, so that the second one, at rest there, looks at what lies for it, which
 * makes no sense. That one ends, on both ranks, and says why; who waited goes on when rank 1 comes. */
static void ended_at_rest(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2][2];
    rota_engine_request *sent;
    rota_ticket ticket[2];
    sum sums[2][2];
    bool is_over;
    const rota_runtime_options one = ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "");
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_runtime_open(&one, &runtimes[r]));
    for (uint32_t c = 0; c < 2; c++) {
        const rota_communicator_options options =
            ROTA_COMMUNICATOR_OPTIONS(.name = c ? "second" : "first", .timeout_ns = timeout_ns);
        assert_ok(rota_communicator_open_ranks(runtimes, 2, &options, communicators[c]));
    }
    hold_farewells(communicators[1][0]);
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t r = 0; r < 2; r++) make_sum(&sums[c][r], runtimes[r], communicators[c][r], NULL);
    /* Rank 1's memory is damaged. */
    rota_messages *damaged = (rota_messages *)(void *)communicators[1][1]->under_way.transport;
    rota_engine *engine = damaged->group->engine;
    static rota_announcement said;
    said.kind = 1000;
    assert_ok(engine->vtable->send(engine, 0, rota_messages_tag(damaged, ROTA_MESSAGES_AGREE), &said,
                                   offsetof(rota_announcement, orders), &sent));
    assert_ok(rota_submit(sums[0][0].graph.plan, NULL, &ticket[0]));
    const uint64_t begin_ns = rota_clock_ns();
    while (!ra_load_acquire(&sent_ns) && rota_clock_ns() - begin_ns < soon_ns) (void)usleep(1000);
    if (!ra_load_acquire(&sent_ns)) fail_msg("rank 1 is not told");
    for (uint32_t r = 2; r-- > 0;) {
        assert_status(run(&sums[1][r].graph), ROTA_NODE_FAILED);
        expect_said(
            "communicator 'second': what rank 1 says of its collective makes no sense: its kind is 1000");
    }
    assert_ok(rota_submit(sums[0][1].graph.plan, NULL, &ticket[1]));
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(ticket[r], 0));
    assert_ok(engine->vtable->test(engine, sent, &is_over));
    assert_true(is_over);
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t r = 0; r < 2; r++) {
            end_sum(&sums[c][r]);
            assert_ok(rota_communicator_close(communicators[c][r], 0));
        }
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_runtime_close(runtimes[r], timeout_ns));
}

#ifdef ROTA_HAVE_CUDA
/* ---- While a device ends ---- */

static const uint64_t ends_ns = 4000000000u;

/* Until so many collectives are on devices, of all ranks together. */
static void await_posted(uint64_t count) {
    const uint64_t end_ns = rota_deadline_after(timeout_ns);
    while (nccl_standin_posted() < count && rota_clock_ns() < end_ns) (void)usleep(1000);
    assert_true(nccl_standin_posted() >= count);
}

typedef enum how { FAILS, CLOSED_IN_IT, CLOSED_AFTER } how;

/* Rank 0's communicator ends, or is closed, and its device, or the library, takes ends_ns for that: rank 1 is told long
 * before, and fails with what rank 0 says. */
static void while_a_device_ends(how it_ends, const char *said) {
    fixture f;
    sum sums[2];
    rota_ticket tickets[2];
    if (!cuda_stub_has_images()) skip();
    open_all(&f, 2, 0);
    hold_farewells(f.communicators[0]);
    for (uint32_t r = 0; r < 2; r++) make_sum(&sums[r], f.runtimes[r], f.communicators[r], f.devices[r]);
    if (it_ends == CLOSED_AFTER) {
        nccl_standin_finalize_takes(ends_ns);
    } else {
        nccl_standin_abort_takes(ends_ns);
        nccl_standin_stop_rank(1);
    }
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_submit_wait(sums[r].graph.plan, NULL, 0, &tickets[r]));
    if (it_ends == CLOSED_AFTER)
        for (uint32_t r = 0; r < 2; r++) assert_ok(rota_wait(tickets[r], 0));
    else
        await_posted(2);
    const uint64_t begin_ns = rota_clock_ns();
    if (it_ends == FAILS) {
        nccl_standin_async_error(0);
        assert_status(rota_wait(tickets[0], 0), ROTA_NODE_FAILED);
    } else {
        assert_ok(rota_communicator_close(f.communicators[0], 0));
        f.communicators[0] = NULL;
    }
    const uint64_t took_ns = rota_clock_ns() - begin_ns, told_ns = ra_load_acquire(&sent_ns);
    assert_true(took_ns >= ends_ns);
    if (!told_ns || told_ns - begin_ns > ends_ns / 2)
        fail_msg("rank 1 was told after %.2f s", told_ns ? (double)(told_ns - begin_ns) * 1e-9 : 99.0);
    if (it_ends == CLOSED_AFTER) assert_ok(rota_submit_wait(sums[1].graph.plan, NULL, 0, &tickets[1]));
    assert_status(rota_wait(tickets[1], 0), ROTA_NODE_FAILED);
    expect_said(said);
    for (uint32_t r = 0; r < 2; r++) end_sum(&sums[r]);
    close_all(&f);
}

typedef struct stopping {
    rota_rank_call call;
    _Atomic uint32_t has_begun, ends;
} stopping;

static void stand_still(rota_rank_call *call) {
    stopping *own = (stopping *)(void *)call;
    ra_store_release(&own->has_begun, 1);
    while (!ra_load_acquire(&own->ends)) (void)usleep(10000);
}

/* Rank 1 stands still in a collective of its device's until rank 0 has given it up, which takes longer than the timeout
 * where the machine is so busy that rank 0 seems stopped, too. What NCCL says on rank 1 when that goes on is how it
 * looks from there: both say what rank 0 did. */
static void stopped_and_given_up(void **state) {
    (void)state;
    fixture f;
    sum sums[2];
    rota_ticket tickets[2];
    static stopping still;
    if (!cuda_stub_has_images()) skip();
    open_all(&f, 2, 3000000000u);
    for (uint32_t r = 0; r < 2; r++) make_sum(&sums[r], f.runtimes[r], f.communicators[r], f.devices[r]);
    nccl_standin_stop_rank(0);
    for (uint32_t r = 0; r < 2; r++) assert_ok(rota_submit_wait(sums[r].graph.plan, NULL, 0, &tickets[r]));
    await_posted(2);
    still.call.fn = stand_still;
    rota_rank_thread_call(f.communicators[1]->thread, &still.call);
    while (!ra_load_acquire(&still.has_begun)) (void)usleep(1000);
    nccl_standin_async_error(1);
    for (uint32_t r = 0; r < 2; r++) {
        assert_status(rota_wait(tickets[r], 0), ROTA_NODE_FAILED);
        expect_said("communicator 'w': rank 0: all_reduce");
        expect_said("did not end within 3.0 s");
        ra_store_release(&still.ends, 1);
    }
    for (uint32_t r = 0; r < 2; r++) end_sum(&sums[r]);
    close_all(&f);
}

static void while_an_abort_takes_its_time(void **state) {
    (void)state;
    while_a_device_ends(FAILS, "NCCL says 6");
}
static void closed_while_a_device_is_at_it(void **state) {
    (void)state;
    while_a_device_ends(CLOSED_IN_IT, "rank 0 closed it with a collective under way");
}
static void closed_while_the_library_ends(void **state) {
    (void)state;
    while_a_device_ends(CLOSED_AFTER, "communicator 'w': rank 0 closed it");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ended_at_rest),
#ifdef ROTA_HAVE_CUDA
        cmocka_unit_test(while_an_abort_takes_its_time),
        cmocka_unit_test(closed_while_a_device_is_at_it),
        cmocka_unit_test(closed_while_the_library_ends),
        cmocka_unit_test(stopped_and_given_up),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
