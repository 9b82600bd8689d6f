/* Collectives on two GPUs, of one process: the cases of device_cases.c; sums that round, the same to the bit in each
 * replay; how fast 128 MiB are, beside NCCL called alone in the same run (P7); and one GPU's context that fails in the
 * middle, in a process of its own ("test_ranks_gpus dies"). Another argument is a pattern of tests' names, and one
 * behind it the seconds that opening and collectives may take, under a tool that makes all slow. Skipped
 * where there are not two GPUs, or no NCCL. */
#include "tests/kit/support.h"

#ifdef ROTA_HAVE_CUDA
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "exec/nccl/nccl_api.h"
#include "exec/cuda/cuda_api.h"
#include "tests/ranks/device_cases.h"

enum { RANKS = 2, TIMES = 21, MANY = 3000002 };
static const uint64_t fast_count = UINT64_C(1) << 25; /* f32: 128 MiB */

static device_rank ranks[RANKS];
static uint64_t timeout_ns; /* 0: the default */

static int open_ranks(void **state) {
    (void)state;
    rota_runtime *runtimes[RANKS];
    rota_device *devices[RANKS];
    rota_communicator *communicators[RANKS];
    for (uint32_t i = 0; i < RANKS; i++) {
        const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 4);
        char id[16];
        (void)snprintf(id, sizeof id, "cuda:%u", i);
        assert_ok(rota_runtime_open(&options, &runtimes[i]));
        assert_ok(rota_device_open(runtimes[i], id, &devices[i]));
    }
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = "gpus", .devices = devices, .timeout_ns = timeout_ns);
    const uint64_t begin = rota_clock_ns();
    assert_ok(rota_communicator_open_ranks(runtimes, RANKS, &options, communicators));
    print_message("the communicator opened in %.0f ms\n", (double)(rota_clock_ns() - begin) * 1e-6);
    for (uint32_t i = 0; i < RANKS; i++) ranks[i] = (device_rank){runtimes[i], devices[i], communicators[i]};
    return 0;
}

static int close_ranks(void **state) {
    (void)state;
    for (uint32_t i = 0; i < RANKS; i++) assert_ok(rota_communicator_close(ranks[i].communicator, 0));
    for (uint32_t i = 0; i < RANKS; i++) assert_ok(rota_runtime_close(ranks[i].runtime, 20000000000u));
    return 0;
}

typedef struct running {
    void (*run)(const device_rank *rank);
    const device_rank *rank;
} running;

static void *run_rank(void *user) {
    const running *own = user;
    own->run(own->rank);
    return NULL;
}

static void run_all(void (*run)(const device_rank *rank)) {
    pthread_t threads[RANKS];
    running own[RANKS];
    for (uint32_t i = 0; i < RANKS; i++) {
        own[i] = (running){run, &ranks[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &own[i]), 0);
    }
    for (uint32_t i = 0; i < RANKS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void cases(void **state) {
    (void)state;
    for (const device_case *now = device_cases; now->name; now++) {
        const uint64_t begin = rota_clock_ns();
        run_all(now->run);
        print_message("%s: %.0f ms\n", now->name, (double)(rota_clock_ns() - begin) * 1e-6);
    }
}

/* ---- A collective of f32, x to y ---- */

typedef enum collective_kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, KINDS } collective_kind;
static const char *const kind_names[KINDS] = {"all_reduce", "reduce_scatter", "all_gather"};

typedef struct collective {
    collective_kind kind;
    rota_tensor x, y;
    uint64_t y_count;
    rota_plan *plan;
} collective;

static float element(uint32_t rank, uint64_t i) {
    const uint32_t mixed = (uint32_t)(i * 2654435761u + (uint64_t)rank * 40503u + 12345u);
    return ((float)(mixed >> 8) / 16777216.0f - 0.5f) * (rank % 2 ? 1e3f : 1e-1f);
}

static rota_tensor made(const device_rank *r, uint64_t count, bool has_values) {
    rota_buffer *buffer;
    rota_tensor tensor;
    float *values = has_values ? malloc(count * sizeof *values) : NULL;
    const uint32_t rank = rota_communicator_rank(r->communicator);
    for (uint64_t i = 0; values && i < count; i++) values[i] = element(rank, i);
    rank_ok(rota_buffer_create_in(r->runtime, "t", count * 4, &buffer));
    if (values) rank_ok(rota_buffer_write(buffer, r->device, 0, values, count * 4, NULL));
    rank_ok(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(count), &tensor));
    free(values);
    return tensor;
}

/* Of `count` elements of all ranks together. */
static collective begin_collective(const device_rank *r, collective_kind kind, uint64_t count) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    collective c = {.kind = kind, .y_count = kind == REDUCE_SCATTER ? count / RANKS : count};
    c.x = made(r, kind == ALL_GATHER ? count / RANKS : count, true);
    c.y = made(r, c.y_count, false);
    rota_device *device = r->device;
    rank_ok(rota_graph_create(NULL, &graph));
    rank_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rank_ok(rota_tape_create(recorder, NULL, &tape));
    rank_ok(rota_tape_name(tape, kind_names[kind]));
    if (kind == ALL_REDUCE)
        rank_ok(rota_op_all_reduce_into(tape, r->communicator, c.x, ROTA_COLLECTIVE_SUM, c.y));
    else if (kind == REDUCE_SCATTER)
        rank_ok(rota_op_reduce_scatter_into(tape, r->communicator, c.x, ROTA_COLLECTIVE_SUM, c.y));
    else
        rank_ok(rota_op_all_gather_into(tape, r->communicator, c.x, c.y));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1);
    rank_ok(rota_compile(r->runtime, graph, &options, &c.plan));
    rota_graph_release(graph);
    return c;
}

static void replay(const collective *c) {
    rota_ticket ticket;
    rank_ok(rota_submit_wait(c->plan, NULL, 0, &ticket));
    rank_ok(rota_wait(ticket, 0));
}

/* Of two ranks there is one order of adding. */
static void expect_collective(const device_rank *r, const collective *c, const float *got) {
    const uint32_t rank = rota_communicator_rank(r->communicator);
    const uint64_t first = c->kind == REDUCE_SCATTER ? rank * c->y_count : 0, part = c->y_count / RANKS;
    for (uint64_t i = 0; i < c->y_count; i++) {
        const float wanted = c->kind == ALL_GATHER ? element((uint32_t)(i / part), i % part)
                                                   : element(0, first + i) + element(1, first + i);
        rank_want(memcmp(&got[i], &wanted, sizeof wanted) == 0, "%s: element %llu is %g, not %g",
                  kind_names[c->kind], (unsigned long long)i, (double)got[i], (double)wanted);
    }
}

static void end_collective(collective *c) {
    rota_plan_release(c->plan);
    rota_buffer_release(c->x.buffer);
    rota_buffer_release(c->y.buffer);
}

static void again(const device_rank *r) {
    float *first = malloc(MANY * sizeof *first), *got = malloc(MANY * sizeof *got);
    for (uint32_t k = 0; k < KINDS; k++) {
        collective c = begin_collective(r, (collective_kind)k, MANY);
        for (uint32_t i = 0; i < 20; i++) {
            replay(&c);
            rank_ok(rota_buffer_read(c.y.buffer, 0, i ? got : first, c.y_count * sizeof *got));
            rank_want(i == 0 || memcmp(first, got, c.y_count * sizeof *got) == 0, "%s: replay %u differs",
                      kind_names[k], i);
        }
        expect_collective(r, &c, first);
        end_collective(&c);
    }
    free(first);
    free(got);
}

static void the_same_again(void **state) {
    (void)state;
    run_all(again);
}

/* ---- How fast ---- */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say_times(collective_kind kind, const char *what, double *times_us) {
    qsort(times_us, TIMES, sizeof *times_us, by_size);
    const double bytes = (double)fast_count * 4 / (kind == ALL_REDUCE ? 1 : RANKS);
    print_message("%s of 128 MiB, %s: median %.0f us, %.0f to %.0f (%.0f GB/s each way)\n", kind_names[kind],
                  what, times_us[TIMES / 2], times_us[0], times_us[TIMES - 1],
                  bytes / times_us[TIMES / 2] * 1e-3);
}

static void fast_kind(const device_rank *r, collective_kind kind) {
    collective c = begin_collective(r, kind, fast_count);
    double times_us[TIMES];
    for (uint32_t i = 0; i < 3; i++) replay(&c);
    for (uint32_t i = 0; i < TIMES; i++) {
        const uint64_t begin = rota_clock_ns();
        replay(&c);
        times_us[i] = (double)(rota_clock_ns() - begin) * 1e-3;
    }
    /* Beginnings of different ranks apart: each round waits for the other one anyway. */
    rota_ticket ticket;
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < TIMES; i++) rank_ok(rota_submit_wait(c.plan, NULL, 0, &ticket));
    rank_ok(rota_wait(ticket, 0));
    const double each_us = (double)(rota_clock_ns() - begin) * 1e-3 / TIMES;
    float *got = malloc(c.y_count * 4);
    rank_ok(rota_buffer_read(c.y.buffer, 0, got, c.y_count * 4));
    expect_collective(r, &c, got);
    free(got);
    if (rota_communicator_rank(r->communicator) == 0) {
        say_times(kind, "a replay of rota's, to its wait", times_us);
        print_message("%s of 128 MiB, replays of rota's one after the other: %.0f us each\n",
                      kind_names[kind], each_us);
    }
    end_collective(&c);
}

static void all_fast(const device_rank *r) {
    double times_us[TIMES];
    for (uint32_t k = 0; k < KINDS; k++) fast_kind(r, (collective_kind)k);
    collective small = begin_collective(r, ALL_REDUCE, 1024);
    for (uint32_t i = 0; i < TIMES; i++) {
        const uint64_t start = rota_clock_ns();
        replay(&small);
        times_us[i] = (double)(rota_clock_ns() - start) * 1e-3;
    }
    qsort(times_us, TIMES, sizeof *times_us, by_size);
    if (rota_communicator_rank(r->communicator) == 0)
        print_message("all_reduce of 4 KiB, a replay of rota's, to its wait: median %.0f us, %.0f to %.0f\n",
                      times_us[TIMES / 2], times_us[0], times_us[TIMES - 1]);
    end_collective(&small);
}

static rota_nccl_id raw_ids[2]; /* of communicators that block, and that do not */

#define RAW(call) rank_want((call) == 0, "a call of the driver's or NCCL's")

/* A rank of NCCL alone: on the rank's GPU, with a stream and two operands. */
typedef struct raw_rank {
    const rota_cuda_api *cu;
    const rota_nccl_api *api;
    uint32_t rank;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUdeviceptr from, to;
    rota_nccl_comm comm;
} raw_rank;

static void await_nccl(const raw_rank *w) {
    rota_nccl_result result = ROTA_NCCL_IN_PROGRESS;
    while (result == ROTA_NCCL_IN_PROGRESS) RAW(w->api->CommGetAsyncError(w->comm, &result));
    RAW(result);
}

static void raw_open(const device_rank *r, int blocks, uint64_t bytes, raw_rank *w) {
    rota_nccl_config config = ROTA_NCCL_CONFIG(blocks);
    config.split_share = !blocks; /* with its children */
    *w = (raw_rank){.rank = rota_communicator_rank(r->communicator)};
    rank_ok(rota_cuda_api_get(&w->cu));
    rank_ok(rota_nccl_api_get(&w->api));
    RAW(w->cu->DeviceGet(&w->device, (int)w->rank));
    RAW(w->cu->DevicePrimaryCtxRetain(&w->context, w->device));
    RAW(w->cu->CtxPushCurrent(w->context));
    RAW(w->cu->StreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
    RAW(w->cu->MemAlloc(&w->from, bytes));
    RAW(w->cu->MemAlloc(&w->to, bytes));
    const rota_nccl_result result =
        w->api->CommInitRankConfig(&w->comm, RANKS, raw_ids[blocks ? 0 : 1], (int)w->rank, &config);
    if (blocks)
        RAW(result);
    else
        await_nccl(w);
}

static rota_nccl_result raw_sum(const raw_rank *w, CUdeviceptr to, uint64_t count) {
    return w->api->AllReduce((void *)(uintptr_t)w->from, (void *)(uintptr_t)to, count, ROTA_NCCL_F32,
                             ROTA_NCCL_SUM, w->comm, w->stream);
}

static void raw_close(raw_rank *w) {
    if (w->comm) RAW(w->api->CommDestroy(w->comm));
    RAW(w->cu->MemFree(w->from));
    RAW(w->cu->MemFree(w->to));
    RAW(w->cu->StreamDestroy(w->stream));
    RAW(w->cu->CtxPopCurrent(&w->context));
    RAW(w->cu->DevicePrimaryCtxRelease(w->device));
}

static void raw_fast(const device_rank *r) {
    raw_rank w;
    double times_us[TIMES];
    raw_open(r, 1, fast_count * 4, &w);
    for (uint32_t i = 0; i < TIMES + 3; i++) {
        const uint64_t begin = rota_clock_ns();
        RAW(raw_sum(&w, w.to, fast_count));
        RAW(w.cu->StreamSynchronize(w.stream));
        if (i >= 3) times_us[i - 3] = (double)(rota_clock_ns() - begin) * 1e-3;
    }
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < TIMES; i++) RAW(raw_sum(&w, w.to, fast_count));
    RAW(w.cu->StreamSynchronize(w.stream));
    const double each_us = (double)(rota_clock_ns() - begin) * 1e-3 / TIMES;
    if (w.rank == 0) {
        say_times(ALL_REDUCE, "NCCL alone, called and waited for", times_us);
        print_message("all_reduce of 128 MiB, NCCL alone, one after the other: %.0f us each\n", each_us);
    }
    raw_close(&w);
}

enum { PARTS = 3 };

static void say_small(const raw_rank *w, const char *how, double times_us[PARTS][TIMES]) {
    static const char *const parts[PARTS] = {"called", "on the stream", "complete"};
    for (uint32_t k = 0; k < PARTS && w->rank == 0; k++) {
        qsort(times_us[k], TIMES, sizeof *times_us[k], by_size);
        print_message("all_reduce of 4 KiB, NCCL alone, %s, %s: median %.0f us, %.0f to %.0f\n", how,
                      parts[k], times_us[k][TIMES / 2], times_us[k][0], times_us[k][TIMES - 1]);
    }
}

static void time_small(raw_rank *w, const char *how) {
    double times_us[PARTS][TIMES];
    for (uint32_t i = 0; i < TIMES + 3; i++) {
        const uint64_t begin = rota_clock_ns();
        uint64_t ends[PARTS];
        (void)raw_sum(w, w->from, 1024);
        ends[0] = rota_clock_ns();
        await_nccl(w);
        ends[1] = rota_clock_ns();
        RAW(w->cu->StreamSynchronize(w->stream));
        ends[2] = rota_clock_ns();
        for (uint32_t k = 0; k < PARTS && i >= 3; k++) times_us[k][i - 3] = (double)(ends[k] - begin) * 1e-3;
    }
    say_small(w, how, times_us);
}

/* What of rota's time for few bytes is NCCL's: by a communicator whose calls do not block, and by its child's, whose
 * calls do. */
static void raw_small(const device_rank *r) {
    rota_nccl_config config = ROTA_NCCL_CONFIG(1);
    raw_rank w;
    raw_open(r, 0, 4096, &w);
    time_small(&w, "not blocking");
    raw_rank child = w;
    config.split_share = 1;
    const uint64_t begin = rota_clock_ns();
    (void)w.api->CommSplit(w.comm, 0, (int)w.rank, &child.comm, &config);
    await_nccl(&w);
    if (w.rank == 0) print_message("a child of NCCL's: %.1f ms\n", (double)(rota_clock_ns() - begin) * 1e-6);
    time_small(&child, "a child that blocks");
    RAW(w.api->CommDestroy(child.comm));
    (void)w.api->CommFinalize(w.comm);
    await_nccl(&w);
    raw_close(&w);
}

static pthread_barrier_t raw_barrier;

static void await_all(void) {
    const int result = pthread_barrier_wait(&raw_barrier);
    rank_want(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD, "a barrier says %d", result);
}

/* A child whose kernel waits for the other rank for ever is ended by its parent's abort, and then by its own. */
static void raw_abort(const device_rank *r) {
    rota_nccl_config config = ROTA_NCCL_CONFIG(1);
    raw_rank w;
    raw_open(r, 0, 4096, &w);
    raw_rank child = w;
    config.split_share = 1;
    (void)w.api->CommSplit(w.comm, 0, (int)w.rank, &child.comm, &config);
    await_nccl(&w);
    RAW(raw_sum(&child, child.from, 1024));
    RAW(w.cu->StreamSynchronize(w.stream));
    uint64_t begin = rota_clock_ns();
    if (w.rank == 0) {
        RAW(raw_sum(&child, child.from, 1024));
        while (rota_clock_ns() - begin < 20000000u) (void)sched_yield();
        rank_want(w.cu->StreamQuery(w.stream) == CUDA_ERROR_NOT_READY, "it waits for nobody");
        begin = rota_clock_ns();
    }
    await_all(); /* else what the one frees waits for the other one's kernel, with the driver locked */
    RAW(w.api->CommAbort(w.comm));
    const uint64_t parent_ns = rota_clock_ns();
    RAW(w.api->CommAbort(child.comm));
    const uint64_t child_ns = rota_clock_ns();
    RAW(w.cu->StreamSynchronize(w.stream));
    if (w.rank == 0)
        print_message("a child's abort: its parent's %.1f ms, its own %.1f ms, then the stream %.1f ms\n",
                      (double)(parent_ns - begin) * 1e-6, (double)(child_ns - parent_ns) * 1e-6,
                      (double)(rota_clock_ns() - child_ns) * 1e-6);
    await_all();
    w.comm = NULL;
    raw_close(&w);
}

static void fast(void **state) {
    (void)state;
    const rota_nccl_api *api;
    assert_ok(rota_nccl_api_get(&api));
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(api->GetUniqueId(&raw_ids[i]), 0);
    print_message("NCCL %d\n", api->version);
    run_all(raw_fast);
    run_all(raw_small);
    run_all(all_fast);
}

static void children(void **state) {
    (void)state;
    const rota_nccl_api *api;
    assert_ok(rota_nccl_api_get(&api));
    assert_int_equal(api->GetUniqueId(&raw_ids[1]), 0);
    assert_int_equal(pthread_barrier_init(&raw_barrier, NULL, RANKS), 0);
    run_all(raw_abort);
    assert_int_equal(pthread_barrier_destroy(&raw_barrier), 0);
}

/* ---- A context that fails ---- */

/* A kernel that waits, and then ends its context. */
static const char dying[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".visible .entry die(.param .u64 ns) {\n"
                            ".reg .u64 %end, %now; .reg .pred %left;\n"
                            "ld.param.u64 %end, [ns];\nmov.u64 %now, %globaltimer;\n"
                            "add.u64 %end, %end, %now;\n"
                            "again: mov.u64 %now, %globaltimer;\nsetp.lt.u64 %left, %now, %end;\n"
                            "@%left bra again;\ntrap;\nret;\n}\n";

static void die(const device_rank *r) {
    raw_rank w = {.rank = rota_communicator_rank(r->communicator)};
    CUmodule module;
    CUfunction function;
    uint64_t ns = 3000000;
    void *parameters[] = {&ns};
    rank_ok(rota_cuda_api_get(&w.cu));
    RAW(w.cu->DeviceGet(&w.device, (int)w.rank));
    RAW(w.cu->DevicePrimaryCtxRetain(&w.context, w.device));
    RAW(w.cu->CtxPushCurrent(w.context));
    RAW(w.cu->StreamCreate(&w.stream, CU_STREAM_NON_BLOCKING));
    RAW(w.cu->ModuleLoadDataEx(&module, dying, 0, NULL, NULL));
    RAW(w.cu->ModuleGetFunction(&function, module, "die"));
    RAW(w.cu->LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, w.stream, parameters, NULL));
    RAW(w.cu->CtxPopCurrent(&w.context));
}

/* Sums all the time; in the middle of one rank 0's context fails. The other rank ends by that, and goes on alone,
 * unless its own context has failed, too, as those may that reach one another's memory: two H200s' do. */
static void sum_and_die(const device_rank *r) {
    enum { SUMS = 400 };
    const uint32_t rank = rota_communicator_rank(r->communicator);
    collective c = begin_collective(r, ALL_REDUCE, fast_count);
    rota_ticket ticket;
    replay(&c);
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < SUMS; i++) {
        if (rota_submit_wait(c.plan, NULL, 0, &ticket) != ROTA_OK) break;
        if (rank == 0 && i == 20) die(r);
    }
    const rota_status status = rota_wait(ticket, 30000000000u);
    const double passed_ms = (double)(rota_clock_ns() - begin) * 1e-6;
    print_message("rank %u after %.0f ms: %s: %s\n", rank, passed_ms, rota_status_name(status),
                  rota_last_error());
    char device[16];
    (void)snprintf(device, sizeof device, "'cuda:%u'", rank);
    const bool lost = status == ROTA_DEVICE_LOST;
    rank_want(status == ROTA_NODE_FAILED || lost, "rank %u: %s", rank, rota_status_name(status));
    rank_want(!lost || strstr(rota_last_error(), device), "rank %u: %s", rank, rota_last_error());
    rank_want(rank == 0 || lost ||
                  (strstr(rota_last_error(), "rank 0") && strstr(rota_last_error(), "'all_reduce'") &&
                   strstr(rota_last_error(), "communicator 'gpus'")),
              "%s", rota_last_error());
    rank_want(passed_ms < 10000, "rank %u ended after %.0f ms", rank, passed_ms);
    end_collective(&c);
    if (rank == 0 || lost) return;
    float got[4];
    const rota_tensor own = made(r, 4, true);
    rank_ok(rota_buffer_read(own.buffer, 0, got, sizeof got));
    rank_want(memcmp(&got[3], &(float){element(rank, 3)}, sizeof(float)) == 0, "rank %u has lost its device",
              rank);
    rota_buffer_release(own.buffer);
}

/* The process ends here: what is left of the context goes with it. */
static int die_alone(void) {
    void *none = NULL;
    (void)open_ranks(&none);
    run_all(sum_and_die);
    for (uint32_t i = 0; i < RANKS; i++) {
        const uint64_t begin = rota_clock_ns();
        const rota_status closed = rota_communicator_close(ranks[i].communicator, 2000000000u);
        const rota_status gone = rota_runtime_close(ranks[i].runtime, 5000000000u);
        print_message("rank %u closed in %.0f ms: %s, %s\n", i, (double)(rota_clock_ns() - begin) * 1e-6,
                      rota_status_name(closed), rota_status_name(gone));
    }
    (void)fflush(NULL);
    _exit(0);
}

extern char **environ;

static void a_context_that_dies(void **state) {
    (void)state;
    char name[] = "test_ranks_gpus", what[] = "dies";
    char *arguments[] = {name, what, NULL};
    pid_t child;
    int status = 0;
    const uint64_t begin = rota_clock_ns();
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (rota_clock_ns() - begin > 60000000000u) (void)kill(child, SIGKILL);
        (void)usleep(10000);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool can_run(void) {
    const rota_cuda_api *cu;
    const rota_nccl_api *api;
    int count = 0;
    if (rota_cuda_api_get(&cu) != ROTA_OK || cu->Init(0) != CUDA_SUCCESS ||
        cu->DeviceGetCount(&count) != CUDA_SUCCESS || count < RANKS) {
        (void)printf("skipped: %d GPUs, %d are needed\n", count, RANKS);
        return false;
    }
    if (rota_nccl_api_get(&api) == ROTA_OK) return true;
    (void)printf("skipped: %s\n", rota_last_error());
    return false;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(the_same_again),
                                       cmocka_unit_test(fast), cmocka_unit_test(children),
                                       cmocka_unit_test(a_context_that_dies)};
    if (!can_run()) return 77;
    if (argc > 1 && strcmp(argv[1], "dies") == 0) return die_alone();
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (argc > 2) timeout_ns = strtoull(argv[2], NULL, 0) * UINT64_C(1000000000);
    return cmocka_run_group_tests(tests, open_ranks, close_ranks);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 77;
}
#endif
