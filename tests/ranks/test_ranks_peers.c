/* Large sums between GPUs of one process by their copy engines (exec/nccl/peers.c), over the stand-ins: what goes
 * wrong. What it computes: device_cases.c, in test_ranks_nccl and on GPUs. */
#include "tests/kit/support.h"

#include "tests/exec/cuda/cuda_stub_kit.h"

#ifdef ROTA_HAVE_CUDA
#include <stdlib.h>

#include "base/clock.h"
#include "exec/nccl/peers.h"
#include "tests/kit/await.h"
#include "tests/ranks/nccl_ranks.h"

enum { FLOATS = 1 << 17 };
static const uint64_t short_ns = 2000000000u; /* in which all ranks come, however slow their threads are */

/* Of each rank: x = the sum of all ranks' x. */
typedef struct summing {
    rota_buffer *x[RANKS_MOST];
    rota_plan *plans[RANKS_MOST];
    rota_ticket tickets[RANKS_MOST];
} summing;

static void make_plan(const fixture *f, uint32_t rank, summing *s) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x;
    float *values = calloc(FLOATS, sizeof *values);
    assert_non_null(values);
    for (uint32_t i = 0; i < FLOATS; i++) values[i] = (float)(rank + 1);
    assert_ok(rota_buffer_create_in(f->runtimes[rank], "x", FLOATS * sizeof *values, &s->x[rank]));
    assert_ok(rota_buffer_write(s->x[rank], NULL, 0, values, FLOATS * sizeof *values, NULL));
    free(values);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "sums"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    assert_ok(rota_tensor_of(s->x[rank], 0, ROTA_F32, ROTA_SHAPE(FLOATS), &x));
    assert_ok(rota_tape_name(tape, "grad"));
    assert_ok(rota_op_all_reduce_into(tape, f->communicators[rank], x, ROTA_COLLECTIVE_SUM, x));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    rota_device *device = f->devices[rank];
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1);
    assert_ok(rota_compile(f->runtimes[rank], graph, &options, &s->plans[rank]));
    rota_graph_release(graph);
}

static void open_sums(fixture *f, uint32_t size, uint64_t timeout_ns, summing *s) {
    *s = (summing){0};
    open_all(f, size, timeout_ns);
    for (uint32_t i = 0; i < size; i++) make_plan(f, i, s);
}

static void submit_all(const fixture *f, summing *s) {
    for (uint32_t i = 0; i < f->size; i++) assert_ok(rota_submit_wait(s->plans[i], NULL, 0, &s->tickets[i]));
}

static void expect_sums(const fixture *f, const summing *s, float wanted) {
    for (uint32_t i = 0; i < f->size; i++) {
        float got[2];
        assert_ok(rota_wait(s->tickets[i], 0));
        assert_ok(rota_buffer_read(s->x[i], 0, &got[0], sizeof(float)));
        assert_ok(rota_buffer_read(s->x[i], (FLOATS - 1) * sizeof(float), &got[1], sizeof(float)));
        assert_true(got[0] == wanted && got[1] == wanted);
    }
}

/* With the kernels that add hung: each rank's is on its device, so that all have agreed, and nothing ends. */
static void submit_all_to_hang(const fixture *f, summing *s) {
    cuda_stub_hang("rota_sums_f32");
    const uint64_t before = cuda_stub_calls("LaunchKernel");
    submit_all(f, s);
    test_await(cuda_stub_calls("LaunchKernel") >= before + f->size);
}

/* Each fails with what is said, and so does each later one. */
static void expect_failed(const fixture *f, summing *s, const char *const *texts) {
    for (uint32_t i = 0; i < f->size; i++) {
        assert_status(rota_wait(s->tickets[i], 0), ROTA_NODE_FAILED);
        for (const char *const *text = texts; *text; text++)
            if (!strstr(rota_last_error(), *text)) fail_msg("'%s' is not in: %s", *text, rota_last_error());
        assert_ok(rota_submit_wait(s->plans[i], NULL, 0, &s->tickets[i]));
        assert_status(rota_wait(s->tickets[i], 0), ROTA_NODE_FAILED);
    }
}

static void end_sums(fixture *f, summing *s) {
    for (uint32_t i = 0; i < f->size; i++) {
        rota_plan_release(s->plans[i]);
        rota_buffer_release(s->x[i]);
    }
    close_all(f);
}

static void sums_again_and_again(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 3, 0, &s);
    uint32_t wanted = 6; /* 1 + 2 + 3, then three times that */
    for (uint32_t i = 0; i < 8; i++) {
        submit_all(&f, &s);
        expect_sums(&f, &s, (float)wanted);
        wanted *= 3;
    }
    assert_int_equal(nccl_standin_done(), 0);
    end_sums(&f, &s);
}

/* One rank's share is done, another's is not: what all wait for is in each rank's memory only then. */
static void a_share_that_takes_longer(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 3, 0, &s);
    cuda_stub_hang_after("rota_sums_f32", 2);
    submit_all(&f, &s);
    for (uint32_t i = 0; i < f.size; i++) assert_status(rota_wait(s.tickets[i], 100000000u), ROTA_TIMEOUT);
    cuda_stub_hang(NULL);
    expect_sums(&f, &s, 6);
    end_sums(&f, &s);
}

/* By the environment, as for measuring. */
static void not_by_copies(void **state) {
    (void)state;
    fixture f;
    summing s;
    assert_int_equal(setenv("ROTA_PEER", "0", 1), 0);
    open_sums(&f, 2, 0, &s);
    assert_int_equal(unsetenv("ROTA_PEER"), 0);
    submit_all(&f, &s);
    expect_sums(&f, &s, 3);
    assert_int_equal(nccl_standin_done(), 2);
    end_sums(&f, &s);
}

/* Of the ranks' own, so that nothing else is the one that fails; the first rank's part is there already. */
static void calls_that_fail(void **state) {
    (void)state;
    static const struct {
        const char *name, *said;
        uint32_t skip;
    } calls[] = {{"LaunchKernel", "cuLaunchKernel", 1}, {"MemcpyAsync", "rank 1's device: cuMemcpyAsync", 5}};
    for (uint32_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fixture f;
        summing s;
        open_sums(&f, 3, 0, &s);
        cuda_stub_fail(calls[i].name, calls[i].skip, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        const uint64_t begin = rota_clock_ns();
        submit_all(&f, &s);
        expect_failed(&f, &s,
                      (const char *const[]){"communicator 'w'", "all_reduce 'grad'", calls[i].said, NULL});
        assert_true(rota_clock_ns() - begin < 10000000000u); /* nobody waited for the timeout */
        assert_int_equal(nccl_standin_aborts(), 3);
        end_sums(&f, &s);
    }
}

/* Where one rank can't have it, all have NCCL's. */
static void a_rank_that_cannot_join(void **state) {
    (void)state;
    for (uint32_t skip = 0; skip < 6; skip++) {
        fixture f;
        summing s = {0};
        open_devices(&f, 3, false);
        cuda_stub_fail("CtxEnablePeerAccess", skip, CUDA_ERROR_TOO_MANY_PEERS);
        assert_ok(open_ranks(&f));
        for (uint32_t i = 0; i < f.size; i++) make_plan(&f, i, &s);
        submit_all(&f, &s);
        expect_sums(&f, &s, 6);
        assert_int_equal(nccl_standin_done(), 3);
        end_sums(&f, &s);
    }
}

static void a_rank_that_never_comes(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 3, short_ns, &s);
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_submit_wait(s.plans[i], NULL, 0, &s.tickets[i]));
    for (uint32_t i = 0; i < 2; i++) {
        assert_status(rota_wait(s.tickets[i], 0), ROTA_NODE_FAILED);
        if (!strstr(rota_last_error(), "rank 2") || !strstr(rota_last_error(), "did not come"))
            fail_msg("%s", rota_last_error());
    }
    end_sums(&f, &s);
}

/* All agreed, and one rank's device can't have its memory, so that it never posts: the others are told its cause. */
static void a_rank_that_cannot_post(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 3, 0, &s);
    cuda_stub_fail("PointerGetAttributes", 2, CUDA_ERROR_INVALID_VALUE);
    const uint64_t begin = rota_clock_ns();
    submit_all(&f, &s);
    expect_failed(&f, &s,
                  (const char *const[]){"communicator 'w'", "'grad'", "cuPointerGetAttributes", NULL});
    assert_true(rota_clock_ns() - begin < 10000000000u);
    end_sums(&f, &s);
}

/* The context fails under it: nothing is at work any more, and all ends. */
static void a_device_that_is_lost(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, 0, &s);
    cuda_stub_fault("rota_sums_f32");
    const uint64_t begin = rota_clock_ns();
    submit_all(&f, &s);
    for (uint32_t i = 0; i < 2; i++) {
        const rota_status status = rota_wait(s.tickets[i], 0);
        if (status != ROTA_NODE_FAILED && status != ROTA_DEVICE_LOST)
            fail_msg("rank %u: %s: %s", i, rota_status_name(status), rota_last_error());
    }
    assert_true(rota_clock_ns() - begin < 15000000000u);
    end_sums(&f, &s);
}

/* That of one rank's: what is on the other's stream waits for nothing of it, and both end, long before the timeout. */
static void a_context_that_dies(void **state) {
    (void)state;
    for (uint32_t dead = 0; dead < 2; dead++) {
        fixture f;
        summing s;
        open_sums(&f, 2, 0, &s);
        submit_all_to_hang(&f, &s);
        cuda_stub_lose(dead);
        cuda_stub_hang(NULL);
        const uint64_t begin = rota_clock_ns();
        char text[16];
        (void)snprintf(text, sizeof text, "rank %u", dead);
        for (uint32_t i = 0; i < 2; i++) {
            const rota_status status = rota_wait(s.tickets[i], 10000000000u);
            if (status != ROTA_NODE_FAILED && (status != ROTA_DEVICE_LOST || i != dead))
                fail_msg("rank %u: %s: %s", i, rota_status_name(status), rota_last_error());
            if (i != dead && (!strstr(rota_last_error(), text) || !strstr(rota_last_error(), "'grad'") ||
                              !strstr(rota_last_error(), "communicator 'w'")))
                fail_msg("rank %u: %s", i, rota_last_error());
        }
        assert_true(rota_clock_ns() - begin < 5000000000u);
        end_sums(&f, &s);
    }
}

/* P1: the run ends only when the devices are at rest, of which each touches the others' memory. */
static void a_device_that_stops_in_it(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, short_ns, &s);
    submit_all_to_hang(&f, &s);
    test_await(nccl_standin_aborts() == 2);
    for (uint32_t i = 0; i < 2; i++) assert_status(rota_wait(s.tickets[i], 50000000u), ROTA_TIMEOUT);
    cuda_stub_hang(NULL);
    expect_failed(
        &f, &s,
        (const char *const[]){"communicator 'w'", "all_reduce 'grad'", "did not end within 2.0 s", NULL});
    assert_int_equal(nccl_standin_aborts(), 2);
    end_sums(&f, &s);
}

static void an_end_by_the_application(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, 0, &s);
    submit_all_to_hang(&f, &s);
    assert_ok(rota_communicator_abort(f.communicators[1], "enough"));
    test_await(nccl_standin_aborts() == 2);
    cuda_stub_hang(NULL);
    for (uint32_t i = 0; i < 2; i++) {
        const rota_status status = rota_wait(s.tickets[i], 0);
        if (status != ROTA_NODE_FAILED || !strstr(rota_last_error(), "enough"))
            fail_msg("rank %u: %s: %s", i, rota_status_name(status), rota_last_error());
    }
    end_sums(&f, &s);
}

static void closed_in_the_middle(void **state) {
    (void)state;
    fixture f;
    summing s;
    open_sums(&f, 2, 0, &s);
    submit_all_to_hang(&f, &s);
    (void)rota_communicator_close(f.communicators[0], short_ns);
    f.communicators[0] = NULL;
    test_await(nccl_standin_aborts() == 2);
    cuda_stub_hang(NULL);
    for (uint32_t i = 0; i < 2; i++) assert_status(rota_wait(s.tickets[i], 0), ROTA_NODE_FAILED);
    end_sums(&f, &s);
}

/* ---- Without ranks' threads ---- */

#define MEMBERS 3u
#define PART UINT64_C(200003) /* elements */
#define PART_BYTES (PART * 4)

/* A rank's device with the whole, of all parts, and another part beside it. */
typedef struct peer {
    rota_peers_rank own;
    CUdeviceptr whole, part, scratch;
    uint64_t scratch_bytes;
} peer;

static float part_value(uint32_t rank, uint64_t i) {
    return (float)(i % 101 + (uint64_t)rank * 7) / 3;
}

static void join_peers(peer *peers, rota_peers **out_peers) {
    const rota_nccl_id id = {.bytes = {7}};
    const rota_cuda_api *cu = cuda_stub_api();
    for (uint32_t r = 0; r < MEMBERS; r++) {
        peer *m = &peers[r];
        CUcontext popped;
        const uint32_t others[MEMBERS - 1] = {(r + 1) % MEMBERS, (r + 2) % MEMBERS};
        *m = (peer){.own = {cu, (CUdevice)r, NULL, NULL, r, MEMBERS},
                    .scratch_bytes = (MEMBERS - 1) * (PART_BYTES + 16)};
        assert_int_equal(cu->DevicePrimaryCtxRetain(&m->own.context, (CUdevice)r), CUDA_SUCCESS);
        assert_int_equal(cu->CtxPushCurrent(m->own.context), CUDA_SUCCESS);
        assert_int_equal(cu->StreamCreate(&m->own.stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        assert_int_equal(cu->MemAlloc(&m->whole, MEMBERS * PART_BYTES), CUDA_SUCCESS);
        assert_int_equal(cu->MemAlloc(&m->part, PART_BYTES), CUDA_SUCCESS);
        assert_int_equal(cu->MemAlloc(&m->scratch, m->scratch_bytes), CUDA_SUCCESS);
        assert_ok(rota_peers_join(&id, &m->own, others, MEMBERS - 1, out_peers));
        assert_non_null(*out_peers);
        assert_int_equal(cu->CtxPopCurrent(&popped), CUDA_SUCCESS);
    }
}

static void leave_peers(peer *peers, rota_peers *joined) {
    const rota_cuda_api *cu = cuda_stub_api();
    for (uint32_t r = 0; r < MEMBERS; r++) {
        CUcontext popped;
        assert_int_equal(cu->CtxPushCurrent(peers[r].own.context), CUDA_SUCCESS);
        rota_peers_leave(joined, r);
        const CUdeviceptr memory[] = {peers[r].whole, peers[r].part, peers[r].scratch};
        for (uint32_t i = 0; i < 3; i++) assert_int_equal(cu->MemFree(memory[i]), CUDA_SUCCESS);
        assert_int_equal(cu->StreamDestroy(peers[r].own.stream), CUDA_SUCCESS);
        assert_int_equal(cu->CtxPopCurrent(&popped), CUDA_SUCCESS);
        assert_int_equal(cu->DevicePrimaryCtxRelease((CUdevice)r), CUDA_SUCCESS);
    }
}

/* Of all ranks, to its end. */
static void carry_out(const peer *peers, rota_peers *joined, rota_collective c, bool in_place) {
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const uint32_t r = (i + 1) % MEMBERS;
        CUcontext popped;
        uint8_t *whole = (uint8_t *)(uintptr_t)peers[r].whole,
                *part = in_place ? whole + r * PART_BYTES : (uint8_t *)(uintptr_t)peers[r].part;
        c.input = c.kind == ROTA_COLLECTIVE_ALL_GATHER ? part : whole;
        c.output = c.kind == ROTA_COLLECTIVE_REDUCE_SCATTER ? part : whole;
        assert_true(rota_peers_take(joined, &c));
        assert_true(rota_peers_scratch_bytes(joined, &c) <= peers[r].scratch_bytes);
        assert_int_equal(peers[r].own.cu->CtxPushCurrent(peers[r].own.context), CUDA_SUCCESS);
        assert_ok(rota_peers_post(joined, r, &c, peers[r].scratch));
        assert_int_equal(peers[r].own.cu->CtxPopCurrent(&popped), CUDA_SUCCESS);
    }
    for (uint32_t r = 0; r < MEMBERS; r++) {
        bool is_over = false;
        CUcontext popped;
        assert_int_equal(peers[r].own.cu->CtxPushCurrent(peers[r].own.context), CUDA_SUCCESS);
        while (!is_over) assert_ok(rota_peers_look(joined, r, &is_over));
        assert_int_equal(peers[r].own.cu->CtxPopCurrent(&popped), CUDA_SUCCESS);
    }
}

/* Parts where they are in the whole, which no op records, and apart: the mean of each part, then all parts. */
static void parts_in_place(void **state) {
    (void)state;
    peer peers[MEMBERS];
    rota_peers *joined;
    cuda_stub_start(11, MEMBERS);
    cuda_stub_gpus_apart();
    join_peers(peers, &joined);
    for (uint32_t times = 0; times < 4; times++) {
        const bool in_place = times % 2;
        for (uint32_t r = 0; r < MEMBERS; r++)
            for (uint64_t i = 0; i < MEMBERS * PART; i++)
                ((float *)(uintptr_t)peers[r].whole)[i] = part_value(r, i);
        rota_collective c = {.kind = ROTA_COLLECTIVE_REDUCE_SCATTER,
                             .type = ROTA_COLLECTIVE_F32,
                             .reduction = ROTA_COLLECTIVE_MEAN,
                             .count = PART};
        carry_out(peers, joined, c, in_place);
        c.kind = ROTA_COLLECTIVE_ALL_GATHER;
        carry_out(peers, joined, c, in_place);
        for (uint32_t r = 0; r < MEMBERS; r++)
            for (uint64_t i = 0; i < MEMBERS * PART; i++) {
                const float wanted = (part_value(0, i) + part_value(1, i) + part_value(2, i)) / 3,
                            got = ((const float *)(uintptr_t)peers[r].whole)[i];
                if (got != wanted) fail_msg("rank %u, element %llu", r, (unsigned long long)i);
            }
    }
    leave_peers(peers, joined);
    cuda_stub_end_clean();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_again_and_again),
        cmocka_unit_test(a_share_that_takes_longer),
        cmocka_unit_test(not_by_copies),
        cmocka_unit_test(calls_that_fail),
        cmocka_unit_test(a_rank_that_cannot_join),
        cmocka_unit_test(a_rank_that_never_comes),
        cmocka_unit_test(a_rank_that_cannot_post),
        cmocka_unit_test(a_device_that_is_lost),
        cmocka_unit_test(a_context_that_dies),
        cmocka_unit_test(a_device_that_stops_in_it),
        cmocka_unit_test(an_end_by_the_application),
        cmocka_unit_test(closed_in_the_middle),
        cmocka_unit_test(parts_in_place),
    };
    if (!cuda_stub_has_images()) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 77;
}
#endif
