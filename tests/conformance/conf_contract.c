/* What the public calls promise beyond the scenarios: deadlines, order, errors that travel, reads, leaks,
 * ends. */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "tests/conformance/conformance.h"
#include "tests/kit/nap.h"

static bool add_one_plan(conf *c, rota_device *device, rota_tensor x, uint32_t nodes, rota_plan **out_plan) {
    conf_graph graph;
    CONF_TRY(conf_graph_begin(c, &graph));
    for (uint32_t i = 0; i < nodes; i++)
        CONF_OK(c, rota_op_affine_into(graph.tape, x, ROTA_PLAIN(1), ROTA_PLAIN(1), x));
    return conf_graph_end(c, &graph, device, &ROTA_COMPILE_OPTIONS(.name = "add one"), out_plan);
}

static bool record_slow(conf *c, conf_graph *graph, const char *name, rota_tensor x,
                        const conf_slow_params *params, rota_slot fail) {
    rota_access access = {x.buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    rota_param_binding binding = {1, fail};
    CONF_OK(c,
            rota_record_kernel(graph->recorder,
                               &ROTA_KERNEL_NODE(.kernel = &conf_slow_kernel, .name = name,
                                                 .accesses = &access, .access_count = 1, .params = params,
                                                 .bindings = &binding, .binding_count = fail.index ? 1 : 0),
                               NULL));
    return true;
}

static bool runs_c_kernels(rota_device *device) {
    return rota_device_get_info(device)->kind == ROTA_EXEC_CPU;
}

/* The ticket's node is held meanwhile. */
static bool wait_for_held(conf *c, rota_ticket ticket) {
    /* It can be named once the device has it. */
    const uint64_t deadline_ns = rota_deadline_after(CONF_PATIENCE_NS);
    while (!ra_load_seq_cst(&conf_slow_held) && rota_clock_ns() < deadline_ns) test_nap();
    CONF_CHECK(c, ra_load_seq_cst(&conf_slow_held) == 1, "the node does not run");
    CONF_CHECK(c, rota_poll(ticket) == ROTA_BUSY, "a node that is held is not BUSY");
    uint64_t begin = rota_clock_ns();
    rota_status status = rota_wait(ticket, 30000000u);
    uint64_t took = rota_clock_ns() - begin;
    CONF_CHECK(c, status == ROTA_TIMEOUT, "the wait gave %s", rota_status_name(status));
    /* It ended at its own deadline, not at the runtime's, which is so long; the node does not end meanwhile. */
    CONF_CHECK(c, took >= 29000000u && took < CONF_PATIENCE_NS / 2, "a wait of 30 ms took %llu us",
               (unsigned long long)took / 1000);
    CONF_CHECK(c, strstr(rota_last_error(), "sleepy plan") && strstr(rota_last_error(), "the sleeper"),
               "the message names neither plan nor node: %s", rota_last_error());
    CONF_CHECK(c, rota_poll(ticket) == ROTA_BUSY, "the node that is held has ended");
    return true;
}

/* A wait whose deadline passes says what it waited for; the work then completes all the same. */
static bool deadline(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    if (!runs_c_kernels(device)) return conf_close(c, runtime) && conf_skip(c, "its kernels cannot be held");
    rota_tensor x;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(16), 1, 0, &x));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    conf_slow_params params = {.n = 16, .is_held = 1, .alpha = 2};
    CONF_TRY(record_slow(c, &graph, "the sleeper", x, &params, (rota_slot){0}));
    CONF_TRY(conf_graph_end(c, &graph, device, &ROTA_COMPILE_OPTIONS(.name = "sleepy plan"), &plan));
    rota_ticket ticket;
    ra_store_seq_cst(&conf_slow_held, 0);
    ra_store_release(&conf_slow_goes_on, 0);
    CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, &ticket));
    const bool is_told = wait_for_held(c, ticket);
    ra_store_release(&conf_slow_goes_on, 1);
    CONF_TRY(is_told);
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    CONF_OK(c, rota_poll(ticket));
    float got[16];
    CONF_TRY(conf_read_f32(c, &x, got));
    CONF_CHECK(c, got[7] == 2.0f, "the node did not complete");
    return CONF_END(c, runtime, plan, x);
}

typedef struct callback_state {
    _Atomic uint32_t calls;
    _Atomic int status;
} callback_state;

static void on_complete(void *user, rota_status status, const char *message) {
    callback_state *state = user;
    (void)message;
    atomic_store(&state->status, (int)status);
    atomic_fetch_add(&state->calls, 1);
}

static bool observers(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor x;
    rota_plan *plan;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(1024), 0, 0, &x));
    CONF_TRY(add_one_plan(c, device, x, 20, &plan));
    int fd = eventfd(0, EFD_CLOEXEC);
    CONF_CHECK(c, fd >= 0, "no eventfd");
    static callback_state states[64];
    memset(states, 0, sizeof states);
    rota_ticket tickets[64];
    for (uint32_t i = 0; i < 64; i++) {
        CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, &tickets[i]));
        CONF_OK(c, rota_ticket_on_complete(tickets[i], on_complete, &states[i]));
        CONF_OK(c, rota_ticket_eventfd(tickets[i], fd));
    }
    uint64_t total = 0, deadline_ns = rota_deadline_after(CONF_PATIENCE_NS);
    while (total < 64 && rota_clock_ns() < deadline_ns) {
        uint64_t count = 0;
        CONF_CHECK(c, read(fd, &count, sizeof count) == (ssize_t)sizeof count, "reading the eventfd");
        total += count;
    }
    CONF_CHECK(c, total == 64, "the eventfd counted %llu of 64 tickets", (unsigned long long)total);
    for (uint32_t i = 0; i < 64; i++) {
        CONF_OK(c, rota_poll(tickets[i]));
        CONF_OK(c, rota_wait(tickets[i], CONF_PATIENCE_NS));
    }
    for (uint32_t i = 0; i < 64; i++) {
        while (atomic_load(&states[i].calls) == 0 && rota_clock_ns() < deadline_ns) {
        }
        CONF_CHECK(c, atomic_load(&states[i].calls) == 1 && atomic_load(&states[i].status) == ROTA_OK,
                   "callback %u was called %u times", i, atomic_load(&states[i].calls));
    }
    /* On a ticket that is complete: at once. */
    callback_state late = {0};
    CONF_OK(c, rota_ticket_on_complete(tickets[0], on_complete, &late));
    CONF_CHECK(c, atomic_load(&late.calls) == 1, "a callback on a complete ticket was not called at once");
    /* Whoever was told may rely on it. */
    float got[1024];
    CONF_TRY(conf_read_f32(c, &x, got));
    CONF_CHECK(c, got[0] == 64.0f * 20, "x is %g when all is said to be complete", (double)got[0]);
    close(fd);
    return CONF_END(c, runtime, plan, x);
}

/* P9. A failed node fails its ticket and all that depends on it, with the first cause; other work goes on; a
 * range is good again once something overwrites it. */
static bool errors_travel(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    if (!runs_c_kernels(device)) return conf_close(c, runtime) && conf_skip(c, "its kernels cannot fail");
    rota_tensor x, y, z, other;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(1024), 1, 0, &x));
    CONF_TRY(conf_tensor(c, runtime, device, "y", ROTA_SHAPE(1024), 2, 0, &y));
    CONF_TRY(conf_tensor(c, runtime, device, "z", ROTA_SHAPE(1024), 3, 0, &z));
    CONF_TRY(conf_tensor(c, runtime, device, "other", ROTA_SHAPE(1024), 0, 0, &other));
    conf_graph graph;
    rota_plan *breaking, *depending, *independent, *mending;
    rota_args *args;
    rota_slot fail;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_graph_slot(graph.graph, "fail", 4, &fail));
    conf_slow_params params = {.n = 1024, .alpha = 1, .beta = 1};
    CONF_TRY(record_slow(c, &graph, "the breaker", x, &params, fail));
    CONF_OK(c, rota_op_add_into(graph.tape, x, x, y));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &breaking));
    CONF_OK(c, rota_args_create(breaking, &args));
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_add_into(graph.tape, y, y, z));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &depending));
    CONF_TRY(add_one_plan(c, device, other, 1, &independent));
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_fill_into(graph.tape, x, 1));
    CONF_OK(c, rota_op_fill_into(graph.tape, y, 10));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &mending));
    uint32_t times = conf_times(c, 1000, 10);
    for (uint32_t round = 0; round < times; round++) {
        rota_ticket bad, dependent, good, last;
        float got[1024];
        CONF_OK(c, rota_args_set_u32(args, fail, 1));
        CONF_OK(c, rota_submit_wait(breaking, args, CONF_PATIENCE_NS, &bad));
        CONF_OK(c, rota_submit_wait(depending, NULL, CONF_PATIENCE_NS, &dependent));
        CONF_OK(c, rota_submit_wait(independent, NULL, CONF_PATIENCE_NS, &good));
        rota_status status = rota_wait(dependent, CONF_PATIENCE_NS);
        CONF_CHECK(c, status == ROTA_NODE_FAILED, "round %u: the dependent submission gave %s", round,
                   rota_status_name(status));
        CONF_CHECK(c, strstr(rota_last_error(), "the breaker"), "the first cause is not named: %s",
                   rota_last_error());
        status = rota_wait(bad, CONF_PATIENCE_NS);
        CONF_CHECK(c, status == ROTA_NODE_FAILED && strstr(rota_last_error(), "the breaker"),
                   "the failed one gave %s: %s", rota_status_name(status), rota_last_error());
        CONF_OK(c, rota_wait(good, CONF_PATIENCE_NS));
        status = rota_buffer_read(z.buffer, 0, got, sizeof got);
        CONF_CHECK(c, status == ROTA_NODE_FAILED, "reading a failed range gave %s", rota_status_name(status));
        CONF_TRY(conf_read_f32(c, &other, got));
        CONF_CHECK(c, got[0] == (float)(round + 1), "independent work did not go on");
        /* Mended where overwritten. */
        CONF_OK(c, rota_submit_wait(mending, NULL, CONF_PATIENCE_NS, NULL));
        CONF_OK(c, rota_submit_wait(depending, NULL, CONF_PATIENCE_NS, &last));
        CONF_OK(c, rota_wait(last, CONF_PATIENCE_NS));
        CONF_TRY(conf_read_f32(c, &z, got));
        CONF_CHECK(c, got[1023] == 20.0f, "after mending, z is %g", (double)got[1023]);
        CONF_OK(c, rota_args_set_u32(args, fail, 0));
        CONF_OK(c, rota_submit_wait(breaking, args, CONF_PATIENCE_NS, &bad));
        CONF_OK(c, rota_wait(bad, CONF_PATIENCE_NS));
        CONF_TRY(conf_read_f32(c, &y, got));
        CONF_CHECK(c, got[5] == 4.0f, "after mending, y is %g", (double)got[5]);
    }
    rota_args_release(args);
    rota_plan_release(breaking);
    rota_plan_release(depending);
    rota_plan_release(independent);
    rota_plan_release(mending);
    rota_tensor all[] = {x, y, z, other};
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(all[i].buffer);
    return conf_close(c, runtime);
}

/* ---- P3: one order, whatever the threads ---- */

enum { ORDER_THREADS = 8, ORDER_EACH = 40, ORDER_COUNT = 256 };

typedef struct order_submission {
    float a, b;
    uint64_t begin, end, number;
} order_submission;

typedef struct order_task {
    conf *c;
    rota_plan *plan;
    rota_slot a, b;
    _Atomic uint64_t *clock;
    order_submission submissions[ORDER_EACH];
} order_task;

static bool order_thread(void *one) {
    order_task *task = one;
    conf *c = task->c;
    rota_args *args;
    rota_ticket tickets[ORDER_EACH];
    CONF_OK(c, rota_args_create(task->plan, &args));
    for (uint32_t i = 0; i < ORDER_EACH; i++) {
        order_submission *s = &task->submissions[i];
        CONF_OK(c, rota_args_set_f32(args, task->a, s->a));
        CONF_OK(c, rota_args_set_f32(args, task->b, s->b));
        s->begin = atomic_fetch_add(task->clock, 1);
        CONF_OK(c, rota_submit_wait(task->plan, args, CONF_PATIENCE_NS, &tickets[i]));
        s->end = atomic_fetch_add(task->clock, 1);
    }
    for (uint32_t i = 0; i < ORDER_EACH; i++) {
        CONF_OK(c, rota_wait(tickets[i], CONF_PATIENCE_NS));
        CONF_OK(c, rota_ticket_number(tickets[i], &task->submissions[i].number));
    }
    rota_args_release(args);
    return true;
}

static int by_number(const void *x, const void *y) {
    const order_submission *const *a = x, *const *b = y;
    return (*a)->number < (*b)->number ? -1 : (*a)->number > (*b)->number;
}

static bool one_order(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor x;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(ORDER_COUNT), 1, 1e-3, &x));
    conf_graph graph;
    rota_plan *plan;
    rota_slot a, b;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_graph_slot(graph.graph, "a", 4, &a));
    CONF_OK(c, rota_graph_slot(graph.graph, "b", 4, &b));
    CONF_OK(c, rota_op_affine_into(graph.tape, x, ROTA_SLOT(a), ROTA_SLOT(b), x));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    static _Atomic uint64_t clock;
    order_task *tasks = calloc(ORDER_THREADS, sizeof *tasks);
    CONF_CHECK(c, tasks, "out of memory");
    uint64_t random = c->seed;
    for (uint32_t t = 0; t < ORDER_THREADS; t++) {
        tasks[t].c = c;
        tasks[t].plan = plan;
        tasks[t].a = a;
        tasks[t].b = b;
        tasks[t].clock = &clock;
        for (uint32_t i = 0; i < ORDER_EACH; i++) {
            tasks[t].submissions[i].a = 0.5f + 1e-3f * (float)test_below(&random, 700);
            tasks[t].submissions[i].b = 1e-2f * (float)test_below(&random, 700) - 3;
        }
    }
    CONF_TRY(conf_threads(c, ORDER_THREADS, order_thread, tasks, sizeof *tasks));
    float got[ORDER_COUNT], want[ORDER_COUNT];
    CONF_TRY(conf_read_f32(c, &x, got));
    enum { TOTAL = ORDER_THREADS * ORDER_EACH };
    order_submission *all[TOTAL];
    for (uint32_t i = 0; i < TOTAL; i++) all[i] = &tasks[i / ORDER_EACH].submissions[i % ORDER_EACH];
    qsort(all, TOTAL, sizeof *all, by_number);
    for (uint32_t i = 0; i < TOTAL; i++)
        for (uint32_t j = i + 1; j < TOTAL; j++) {
            CONF_CHECK(c, all[i]->number != all[j]->number, "two submissions have number %llu",
                       (unsigned long long)all[i]->number);
            CONF_CHECK(c, all[j]->end > all[i]->begin,
                       "submission %llu returned before %llu was called, yet comes later",
                       (unsigned long long)all[j]->number, (unsigned long long)all[i]->number);
        }
    /* The same submissions in the same order from one thread. */
    rota_args *args;
    rota_ticket ticket = {0};
    CONF_OK(c, rota_args_create(plan, &args));
    for (uint32_t i = 0; i < ORDER_COUNT; i++) want[i] = (float)(1 + 1e-3 * (double)i);
    CONF_TRY(conf_write_f32(c, &x, device, want));
    for (uint32_t i = 0; i < TOTAL; i++) {
        CONF_OK(c, rota_args_set_f32(args, a, all[i]->a));
        CONF_OK(c, rota_args_set_f32(args, b, all[i]->b));
        CONF_OK(c, rota_submit_wait(plan, args, CONF_PATIENCE_NS, &ticket));
    }
    CONF_TRY(conf_read_f32(c, &x, want));
    CONF_CHECK(c, memcmp(got, want, sizeof got) == 0,
               "eight threads gave another result than one: %.9g against %.9g", (double)got[0],
               (double)want[0]);
    /* And the same as plain arithmetic, nearly: a device may fuse. */
    float value = 1;
    for (uint32_t i = 0; i < TOTAL; i++) value = value * all[i]->a + all[i]->b;
    CONF_CHECK(c, fabs((double)(value - got[0])) < 1e-3, "x[0] is %.9g, plain arithmetic gives %.9g",
               (double)got[0], (double)value);
    rota_args_release(args);
    free(tasks);
    return CONF_END(c, runtime, plan, x);
}

/* ---- P5 ---- */

/* Host writes, replays and reads in turn, nothing waited for by hand; also of parts. */
static bool host_order(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, &ROTA_RUNTIME_OPTIONS(.staging_slots = 2, .staging_slot_bytes = 4096), &runtime,
                       &device));
    enum { COUNT = 8192 };
    rota_tensor x;
    rota_plan *plan;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(COUNT), 0, 0, &x));
    CONF_TRY(add_one_plan(c, device, x, 3, &plan));
    float *model = calloc(COUNT, sizeof *model), *got = malloc(COUNT * sizeof *got);
    CONF_CHECK(c, model && got, "out of memory");
    uint64_t random = c->seed;
    uint32_t times = conf_times(c, 1000, 200);
    for (uint32_t i = 0; i < times; i++) {
        uint32_t first = test_below(&random, COUNT), count = 1 + test_below(&random, COUNT - first);
        switch (test_below(&random, 3)) {
        case 0:
            for (uint32_t k = 0; k < count; k++) model[first + k] = (float)test_below(&random, 1000);
            CONF_OK(c, rota_buffer_write(x.buffer, NULL, first * 4, model + first, count * 4, NULL));
            break;
        case 1:
            CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, NULL));
            for (uint32_t k = 0; k < COUNT; k++) model[k] += 3;
            break;
        default:
            if (count % 2) {
                CONF_OK(c, rota_buffer_read(x.buffer, first * 4, got, count * 4));
            } else {
                rota_ticket ticket;
                CONF_OK(c, rota_buffer_read_async(x.buffer, first * 4, got, count * 4, &ticket));
                CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
            }
            CONF_CHECK(c, memcmp(got, model + first, count * 4) == 0,
                       "step %u: a read of %u elements from %u is old", i, count, first);
        }
    }
    free(model);
    free(got);
    return CONF_END(c, runtime, plan, x);
}

static bool undefined_read(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_buffer *buffer;
    uint32_t word[4] = {0};
    CONF_OK(c, rota_buffer_create_in(runtime, "never written", 64, &buffer));
    if (c->no_faults) CONF_OK(c, rota_buffer_write(buffer, device, 0, word, 16, NULL));
    rota_status status = rota_buffer_read(buffer, 0, word, 16);
    CONF_CHECK(c, status == ROTA_UNDEFINED_DATA, "reading what was never written gave %s",
               rota_status_name(status));
    CONF_OK(c, rota_buffer_write(buffer, device, 16, word, 16, NULL));
    CONF_OK(c, rota_buffer_read(buffer, 16, word, 16));
    status = rota_buffer_read(buffer, 12, word, 16);
    CONF_CHECK(c, status == ROTA_UNDEFINED_DATA, "reading half of what was written gave %s",
               rota_status_name(status));
    status = rota_buffer_read(buffer, 56, word, 16);
    CONF_CHECK(c, status == ROTA_OUT_OF_RANGE, "reading past the end gave %s", rota_status_name(status));
    rota_buffer_release(buffer);
    return conf_close(c, runtime);
}

/* ---- Leaks ---- */

typedef struct census {
    uint64_t buffers, plans, memory_bytes, host_bytes, memories, programs, instances;
} census;

static bool take_census(conf *c, rota_runtime *runtime, census *out) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    uint64_t deadline_ns = rota_deadline_after(CONF_PATIENCE_NS);
    do rota_runtime_get_stats(runtime, &stats);
    while (stats.reclaim_pending && rota_clock_ns() < deadline_ns);
    CONF_CHECK(c, stats.reclaim_pending == 0, "%llu objects wait to be reclaimed",
               (unsigned long long)stats.reclaim_pending);
    *out = (census){.buffers = stats.buffers,
                    .plans = stats.plans,
                    .memory_bytes = stats.memory_bytes,
                    .host_bytes = mallinfo2().uordblks,
                    .memories = atomic_load(&c->adversary.live_memories),
                    .programs = atomic_load(&c->adversary.live_programs),
                    .instances = atomic_load(&c->adversary.live_instances)};
    return true;
}

/* What malloc holds moves a little; a leak of one small object a round does not fit into this many bytes a
 * round. */
#define LEAK_BYTES 32u

static bool same_objects(conf *c, const char *when, const census *before, const census *after) {
    CONF_CHECK(
        c,
        after->buffers == before->buffers && after->plans == before->plans &&
            after->memory_bytes == before->memory_bytes && after->memories == before->memories &&
            after->programs == before->programs && after->instances == before->instances,
        "%s: buffers %llu -> %llu, plans %llu -> %llu, device bytes %llu -> %llu, instances %llu -> %llu",
        when, (unsigned long long)before->buffers, (unsigned long long)after->buffers,
        (unsigned long long)before->plans, (unsigned long long)after->plans,
        (unsigned long long)before->memory_bytes, (unsigned long long)after->memory_bytes,
        (unsigned long long)before->instances, (unsigned long long)after->instances);
    return true;
}

static uint64_t host_growth(const conf *c, const census *before, const census *after) {
    /* The adversary keeps what is destroyed, to see late uses; the validation layer's books grow too. */
    if (conf_is(c, "adversary") || c->validation) return 0;
    return after->host_bytes > before->host_bytes ? after->host_bytes - before->host_bytes : 0;
}

typedef struct leak_plan {
    rota_plan *plan;
    rota_args *args;
} leak_plan;

static bool make_leak_plan(conf *c, rota_device *device, rota_tensor x, float *in_data, float *out_data,
                           leak_plan *out) {
    conf_graph graph;
    rota_tensor in, result, a, b;
    rota_slot slot;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_graph_slot(graph.graph, "k", 4, &slot));
    CONF_OK(c, rota_tape_tensor(graph.tape, ROTA_BUFFER_INPUT, "in", ROTA_F32, ROTA_SHAPE(256), &in));
    CONF_OK(c, rota_tape_tensor(graph.tape, ROTA_BUFFER_OUTPUT, "out", ROTA_F32, ROTA_SHAPE(256), &result));
    CONF_OK(c, rota_op_scale(graph.tape, in, ROTA_SLOT(slot), &a));
    CONF_OK(c, rota_op_exp(graph.tape, a, &b));
    CONF_OK(c, rota_op_add_into(graph.tape, x, b, x));
    CONF_OK(c, rota_op_add_into(graph.tape, a, b, result));
    rota_buffer *in_buffer = in.buffer, *out_buffer = result.buffer;
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &out->plan));
    CONF_OK(c, rota_args_create(out->plan, &out->args));
    CONF_OK(c, rota_args_set_f32(out->args, slot, 0.5f));
    CONF_OK(c, rota_args_set_input(out->args, in_buffer, in_data, 1024, true));
    CONF_OK(c, rota_args_set_output(out->args, out_buffer, out_data, 1024));
    return true;
}

static bool churn_plans(conf *c, rota_runtime *runtime, rota_device *device, rota_tensor x, float *in_data,
                        float *out_data, uint32_t rounds, uint32_t warm_up, census *out_before,
                        census *out_after) {
    leak_plan passing;
    rota_ticket ticket = {0};
    for (uint32_t i = 0; i < warm_up + rounds; i++) {
        if (i == warm_up) {
            if (i) CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
            CONF_TRY(take_census(c, runtime, out_before));
        }
        CONF_TRY(make_leak_plan(c, device, x, in_data, out_data, &passing));
        CONF_OK(c, rota_submit_wait(passing.plan, passing.args, CONF_PATIENCE_NS, &ticket));
        rota_args_release(passing.args); /* While it is in flight. */
        rota_plan_release(passing.plan);
        /* Not a thousand plans alive at once: recycled memory stays as much as that took. */
        if (i % 10 == 9) CONF_TRY(take_census(c, runtime, out_after));
    }
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    return take_census(c, runtime, out_after);
}

static bool replay(conf *c, rota_runtime *runtime, const leak_plan *kept, uint32_t rounds, uint32_t warm_up,
                   census *out_before, census *out_after) {
    rota_ticket ticket = {0};
    for (uint32_t i = 0; i < warm_up + rounds; i++) {
        if (i == warm_up) {
            if (i) CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
            CONF_TRY(take_census(c, runtime, out_before));
        }
        CONF_OK(c, rota_submit_wait(kept->plan, kept->args, CONF_PATIENCE_NS, &ticket));
    }
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    return take_census(c, runtime, out_after);
}

/* How many plans die at once, and what drivers and other threads keep for a while, moves the balance by some tens of
 * KiB either way. A leak adds up in every thousand rounds; so if the first thousand are over the limit, the next two
 * must be as well. */
static bool leaks(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    /* What is kept for transfers is not to be given back between two counts. */
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.staging_idle_ns = 3600000000000u);
    CONF_TRY(conf_open(c, &options, &runtime, &device));
    rota_tensor x;
    static float in_data[256], out_data[256];
    leak_plan kept;
    census before, after;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(256), 0, 0, &x));
    CONF_TRY(make_leak_plan(c, device, x, in_data, out_data, &kept));
    enum { ROUNDS = 1000, WARM_UP = 100 };
    for (uint32_t churns = 0; churns < 2; churns++) {
        const char *when = churns ? "compile and destroy" : "replays";
        bool steady = false;
        for (uint32_t window = 0; window < 3 && !steady; window++) {
            const uint32_t warm_up = window ? 0 : WARM_UP;
            CONF_TRY(churns ? churn_plans(c, runtime, device, x, in_data, out_data, ROUNDS, warm_up, &before,
                                          &after)
                            : replay(c, runtime, &kept, ROUNDS, warm_up, &before, &after));
            CONF_TRY(same_objects(c, when, &before, &after));
            steady = host_growth(c, &before, &after) < ROUNDS * LEAK_BYTES;
        }
        CONF_CHECK(c, steady, "%s: malloc holds %llu bytes more after each of three times %u rounds", when,
                   (unsigned long long)host_growth(c, &before, &after), (unsigned)ROUNDS);
    }
    rota_args_release(kept.args);
    rota_plan_release(kept.plan);
    rota_buffer_release(x.buffer);
    return conf_close(c, runtime);
}

/* ---- Ends ---- */

static bool release_in_flight(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    uint32_t times = conf_times(c, 1000, 30);
    for (uint32_t round = 0; round < times; round++) {
        rota_tensor x, y;
        rota_plan *plan;
        rota_ticket ticket = {0};
        CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(4096), 0, 0, &x));
        CONF_TRY(conf_tensor(c, runtime, device, "y", ROTA_SHAPE(4096), 1, 0, &y));
        rota_buffer_release(y.buffer); /* Its write may still be in flight. */
        CONF_TRY(add_one_plan(c, device, x, 30, &plan));
        for (uint32_t i = 0; i < 5; i++) CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, &ticket));
        rota_plan_release(plan);
        float got[4096];
        CONF_TRY(conf_read_f32(c, &x, got));
        CONF_CHECK(c, got[0] == 150.0f && got[4095] == 150.0f, "x is %g, expected 150", (double)got[0]);
        rota_buffer_release(x.buffer);
        CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    }
    return conf_close(c, runtime);
}

static bool close_in_flight(conf *c) {
    for (uint32_t round = 0; round < 5; round++) {
        rota_runtime *runtime;
        rota_device *device;
        CONF_TRY(conf_open(c, NULL, &runtime, &device));
        rota_tensor x;
        rota_plan *plan;
        rota_ticket ticket = {0};
        CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(4096), 0, 0, &x));
        CONF_TRY(add_one_plan(c, device, x, 30, &plan));
        for (uint32_t i = 0; i < 50; i++) CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, &ticket));
        CONF_TRY(conf_close(c, runtime));
        CONF_CHECK(c, rota_poll(ticket) == ROTA_WRONG_STATE, "polling after close gave %s",
                   rota_status_name(rota_poll(ticket)));
        rota_plan_release(plan); /* Empty shells by now. */
        rota_buffer_release(x.buffer);
    }
    return true;
}

static bool memory_limit(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    uint64_t limit = c->no_faults ? 0 : 64u << 20;
    CONF_TRY(conf_open(c, &ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = limit), &runtime, &device));
    rota_buffer *small, *large;
    CONF_OK(c, rota_buffer_create_in(runtime, "small", 1u << 20, &small));
    CONF_OK(c, rota_buffer_prepare(small, device));
    CONF_OK(c, rota_buffer_create_in(runtime, "large", 128u << 20, &large));
    rota_status status = rota_buffer_prepare(large, device);
    CONF_CHECK(c, status == ROTA_OUT_OF_MEMORY, "passing the memory limit gave %s", rota_status_name(status));
    CONF_CHECK(c, strstr(rota_last_error(), "large"), "the buffer is not named: %s", rota_last_error());
    rota_buffer_release(small);
    rota_buffer_release(large);
    return conf_close(c, runtime);
}

const conf_case conf_cases_contract[] = {
    {"contract.deadline", deadline},
    {"contract.observers", observers},
    {"contract.errors_travel", errors_travel},
    {"contract.one_order", one_order},
    {"contract.host_order", host_order},
    {"contract.undefined_read", undefined_read},
    {"contract.leaks", leaks},
    {"contract.release_in_flight", release_in_flight},
    {"contract.close_in_flight", close_in_flight},
    {"contract.memory_limit", memory_limit},
    {NULL, NULL},
};
