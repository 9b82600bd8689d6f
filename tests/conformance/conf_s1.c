/* S1: smoke, upload reuse, bounded waits. */
#include <stdlib.h>
#include "tests/conformance/conformance.h"
#include "tests/kit/nap.h"

/* The smoke test that a device passes when it is opened, again and again, with pauses. */
static bool smoke(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    uint32_t times = conf_times(c, 1000, 45);
    for (uint32_t i = 0; i < times; i++) {
        static const uint32_t gap_ms[] = {0, 1, 50};
        /* The long pause rarely: one in nine in CI, one in three in full. */
        uint32_t gap = gap_ms[i % 3];
        if (gap == 50 && !c->full && i % 9 != 2) gap = 0;
        CONF_OK(c, rota_device_smoke(device, (uint64_t)gap * 1000000u));
    }
    if (c->full) CONF_OK(c, rota_device_smoke(device, 10u * 1000000000ull));
    return conf_close(c, runtime);
}

enum { SMOKE_COUNT = 65536 };

/* The same as a recorded graph: c = a + b with fills, then with two back-to-back uploads, direct and
 * replayed. */
static bool smoke_graph(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor a, b, sum;
    CONF_TRY(conf_tensor(c, runtime, device, "a", ROTA_SHAPE(SMOKE_COUNT), 0, 0, &a));
    CONF_TRY(conf_tensor(c, runtime, device, "b", ROTA_SHAPE(SMOKE_COUNT), 0, 0, &b));
    CONF_TRY(conf_tensor(c, runtime, device, "c", ROTA_SHAPE(SMOKE_COUNT), -999, 0, &sum));
    conf_graph fills, adds;
    rota_plan *fill_plan, *add_plan;
    CONF_TRY(conf_graph_begin(c, &fills));
    CONF_OK(c, rota_op_fill_into(fills.tape, a, 1));
    CONF_OK(c, rota_op_fill_into(fills.tape, b, 2));
    CONF_OK(c, rota_op_add_into(fills.tape, a, b, sum));
    CONF_TRY(conf_graph_end(c, &fills, device, NULL, &fill_plan));
    CONF_TRY(conf_graph_begin(c, &adds));
    CONF_OK(c, rota_op_add_into(adds.tape, a, b, sum));
    CONF_TRY(conf_graph_end(c, &adds, device, NULL, &add_plan));
    float *values = malloc(SMOKE_COUNT * sizeof *values), *got = malloc(SMOKE_COUNT * sizeof *got);
    CONF_CHECK(c, values && got, "out of memory");
    uint32_t times = conf_times(c, 1000, 30);
    for (uint32_t round = 0; round < times; round++) {
        bool upload = round % 2;
        for (uint32_t k = 0; k < 2 && upload; k++) {
            for (uint32_t i = 0; i < SMOKE_COUNT; i++) values[i] = (float)(k + 1);
            CONF_TRY(conf_write_f32(c, k ? &b : &a, device, values));
        }
        CONF_OK(c, rota_submit_wait(upload ? add_plan : fill_plan, NULL, CONF_PATIENCE_NS, NULL));
        CONF_TRY(conf_read_f32(c, &sum, got));
        for (uint32_t i = 0; i < SMOKE_COUNT; i++)
            CONF_CHECK(c, got[i] == 3.0f, "round %u: element %u is %g, expected 3", round, i, (double)got[i]);
        test_nap_ms(round % 10 == 9 ? 5 : 0);
    }
    free(values);
    free(got);
    rota_plan_release(fill_plan);
    rota_plan_release(add_plan);
    rota_buffer_release(a.buffer);
    rota_buffer_release(b.buffer);
    rota_buffer_release(sum.buffer);
    return conf_close(c, runtime);
}

enum { STORM = 64, STORM_COUNT = 16384 };

/* 64 uploads through a ring of 4, and no wait before the last result is read. */
static bool upload_storm(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, &ROTA_RUNTIME_OPTIONS(.staging_slots = 4, .staging_slot_bytes = 65536), &runtime,
                       &device));
    static const uint64_t shape[] = {STORM_COUNT};
    rota_tensor in[STORM], out[STORM];
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    for (uint32_t k = 0; k < STORM; k++) {
        CONF_TRY(conf_tensor(c, runtime, device, "in", 1, shape, -1, 0, &in[k]));
        CONF_TRY(conf_tensor(c, runtime, device, "out", 1, shape, -999, 0, &out[k]));
        CONF_OK(c, rota_op_affine_into(graph.tape, in[k], ROTA_PLAIN(1), ROTA_PLAIN(k), out[k]));
    }
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    float *values = malloc(STORM_COUNT * sizeof *values);
    CONF_CHECK(c, values, "out of memory");
    uint32_t times = conf_times(c, 1000, 6);
    for (uint32_t round = 0; round < times; round++) {
        for (uint32_t k = 0; k < STORM; k++) {
            /* The same memory again at once: the write has copied it. */
            for (uint32_t i = 0; i < STORM_COUNT; i++) values[i] = (float)(k + round);
            CONF_TRY(conf_write_f32(c, &in[k], device, values));
        }
        CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, NULL));
        for (uint32_t k = 0; k < STORM; k++) {
            CONF_TRY(conf_read_f32(c, &out[k], values));
            for (uint32_t i = 0; i < STORM_COUNT; i++)
                CONF_CHECK(c, values[i] == (float)(2 * k + round),
                           "round %u, upload %u: element %u is %g, expected %u", round, k, i,
                           (double)values[i], 2 * k + round);
        }
    }
    free(values);
    rota_plan_release(plan);
    for (uint32_t k = 0; k < STORM; k++) {
        rota_buffer_release(in[k].buffer);
        rota_buffer_release(out[k].buffer);
    }
    return conf_close(c, runtime);
}

/* More submissions in flight than four times any ring holds; every one counts. */
static bool many_in_flight(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, &ROTA_RUNTIME_OPTIONS(.staging_slots = 4), &runtime, &device));
    rota_tensor x;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(16), 0, 0, &x));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_affine_into(graph.tape, x, ROTA_PLAIN(1), ROTA_PLAIN(1), x));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    /* All of them at once, so these are no repetitions to be shared out. */
    uint32_t times = c->full ? 100000 : 4 * ROTA_TICKET_HISTORY + 1;
    CONF_TRY(conf_replay(c, plan, NULL, times));
    float got[16];
    CONF_TRY(conf_read_f32(c, &x, got));
    CONF_CHECK(c, got[0] == (float)times && got[15] == (float)times, "%u submissions left %g", times,
               (double)got[0]);
    return CONF_END(c, runtime, plan, x);
}

/* A device with a fault: the wait ends inside its deadline and says what it waited for; the CPU still works. A loss is
 * told long before the deadline. A silent device has nothing but the deadline, which is short then, but long enough for
 * what comes before the fault, on a busy machine. */
static bool faulty_wait(conf *c, const adversary_faults *faults, bool may_time_out) {
    const uint64_t timeout_ns = may_time_out ? 2000000000u : CONF_PATIENCE_NS, soon_ns = CONF_PATIENCE_NS / 2;
    rota_runtime *runtime;
    rota_device *device, *cpu;
    c->expect_errors = true;
    CONF_TRY(conf_open(c, &ROTA_RUNTIME_OPTIONS(.timeout_ns = timeout_ns), &runtime, &device));
    rota_tensor x;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(64), 1, 0, &x));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_tape_name(graph.tape, "the culprit"));
    CONF_OK(c, rota_op_affine_into(graph.tape, x, ROTA_PLAIN(2), ROTA_PLAIN(0), x));
    CONF_TRY(conf_graph_end(c, &graph, device, &ROTA_COMPILE_OPTIONS(.name = "faulty plan"), &plan));
    float got[64];
    CONF_TRY(conf_read_f32(c, &x, got));
    if (!c->no_faults) {
        c->adversary.faults.submit_fails_in = faults->submit_fails_in;
        c->adversary.faults.lost_in_works = faults->lost_in_works;
        c->adversary.faults.silent = faults->silent;
    }
    rota_ticket ticket = {0};
    uint64_t begin = rota_clock_ns();
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < 4 && status == ROTA_OK; i++) status = rota_submit(plan, NULL, &ticket);
    if (status == ROTA_OK && may_time_out)
        CONF_TRY(conf_sequenced(c, ticket)); /* so that its plan can be named */
    if (status == ROTA_OK) status = rota_wait(ticket, may_time_out ? 300000000u : 0);
    uint64_t took = rota_clock_ns() - begin;
    CONF_CHECK(c, status == ROTA_DEVICE_LOST || (may_time_out && status == ROTA_TIMEOUT),
               "the wait gave %s: %s", rota_status_name(status), rota_last_error());
    CONF_CHECK(c, took < soon_ns, "the wait took %llu ms", (unsigned long long)(took / 1000000u));
    if (status == ROTA_TIMEOUT)
        CONF_CHECK(c, strstr(rota_last_error(), "faulty plan") && strstr(rota_last_error(), "the culprit"),
                   "the message names neither plan nor node: %s", rota_last_error());
    begin = rota_clock_ns();
    CONF_CHECK(c, rota_buffer_read(x.buffer, 0, got, sizeof got) != ROTA_OK,
               "reading from a faulty device succeeded");
    CONF_CHECK(c, rota_clock_ns() - begin < soon_ns, "the read did not end at its deadline");
    CONF_OK(c, rota_device_open(runtime, "cpu", &cpu));
    CONF_OK(c, rota_device_smoke(cpu, 0));
    rota_plan_release(plan);
    rota_buffer_release(x.buffer);
    begin = rota_clock_ns();
    status = rota_runtime_close(runtime, 500000000u);
    CONF_CHECK(c, rota_clock_ns() - begin < soon_ns, "close did not end at its deadline");
    return true;
}

static bool submit_fails(conf *c) {
    if (!conf_is(c, "adversary")) return conf_skip(c, "only the adversary's submit can be made to fail");
    return faulty_wait(c, &(adversary_faults){.submit_fails_in = 1}, false);
}

static bool signal_never_comes(conf *c) {
    if (!conf_is(c, "adversary")) return conf_skip(c, "only the adversary can be made silent");
    return faulty_wait(c, &(adversary_faults){.silent = true}, true);
}

static bool device_lost(conf *c) {
    if (!conf_is(c, "adversary")) return conf_skip(c, "only the adversary can be lost at will");
    return faulty_wait(c, &(adversary_faults){.lost_in_works = 1}, false);
}

/* A device that fails its smoke test is refused, with a sentence. */
static bool smoke_refused(conf *c) {
    if (!conf_is(c, "adversary")) return conf_skip(c, "only the adversary computes wrongly at will");
    c->expect_errors = true;
    rota_runtime *runtime;
    adversary_options *options = &c->adversary;
    memset(options, 0, sizeof *options);
    options->breaks.stray_writes = !c->no_faults;
    CONF_OK(c, adversary_runtime_open(options, NULL, &runtime));
    rota_device *device = NULL;
    rota_status status = rota_device_open(runtime, c->device, &device);
    CONF_CHECK(c, status == ROTA_REFUSED, "opening a device that computes wrongly gave %s",
               rota_status_name(status));
    CONF_CHECK(c, strstr(rota_last_error(), "element"), "no element is named: %s", rota_last_error());
    CONF_OK(c, rota_device_open(runtime, "cpu", &device));
    CONF_OK(c, rota_runtime_close(runtime, CONF_PATIENCE_NS));
    return true;
}

/* No memory is a status that says how much, and everything made before goes on working. */
static bool out_of_memory(conf *c) {
    if (!conf_is(c, "adversary")) return conf_skip(c, "only the adversary runs out of memory at will");
    c->expect_errors = true;
    rota_runtime *runtime;
    rota_device *device;
    uint32_t refused = 0;
    for (uint32_t nth = 1; nth <= 6; nth++) {
        CONF_TRY(conf_open(c, NULL, &runtime, &device));
        rota_tensor x;
        CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(64), 1, 0, &x));
        c->adversary.faults.memory_fails_in = c->no_faults ? 0 : nth;
        conf_graph graph;
        CONF_TRY(conf_graph_begin(c, &graph));
        rota_tensor y;
        CONF_OK(c, rota_op_exp(graph.tape, x, &y));
        CONF_OK(c, rota_op_exp(graph.tape, y, &y));
        CONF_OK(c, rota_op_exp_into(graph.tape, y, x));
        rota_tape_destroy(graph.tape);
        rota_recorder_close(graph.recorder);
        rota_plan *plan = NULL;
        rota_status status = rota_compile(
            runtime, graph.graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan);
        CONF_CHECK(c, status == ROTA_OK || status == ROTA_OUT_OF_MEMORY, "compile gave %s",
                   rota_status_name(status));
        if (status == ROTA_OUT_OF_MEMORY)
            CONF_CHECK(c, strstr(rota_last_error(), "bytes"), "%s", rota_last_error());
        refused += status == ROTA_OUT_OF_MEMORY;
        c->adversary.faults.memory_fails_in = 0;
        float got[64];
        CONF_TRY(conf_read_f32(c, &x, got));
        CONF_CHECK(c, got[5] == 1.0f, "the buffer changed");
        rota_plan_release(plan);
        rota_graph_release(graph.graph);
        rota_buffer_release(x.buffer);
        CONF_TRY(conf_close(c, runtime));
    }
    CONF_CHECK(c, refused > 0, "no compile ran out of memory");
    return true;
}

const conf_case conf_cases_s1[] = {
    {"s1.smoke", smoke},
    {"s1.smoke_graph", smoke_graph},
    {"s1.upload_storm", upload_storm},
    {"s1.many_in_flight", many_in_flight},
    {"s1.submit_fails", submit_fails},
    {"s1.signal_never_comes", signal_never_comes},
    {"s1.device_lost", device_lost},
    {"s1.smoke_refused", smoke_refused},
    {"s1.out_of_memory", out_of_memory},
    {NULL, NULL},
};
