/* What is held, for another device or for an instance that is being made, holds up nothing that does not
 * depend on it; what does depend keeps its place in the order. The adversary stands in for devices with
 * memory of their own; what never ends is a kernel at a gate. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

#define WORDS 256u
#define SOON_NS 8000000000u /* for what nothing keeps: the runtime's deadline is later */
#define A_WHILE_NS 20000000u

typedef struct stage {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *cpu, *first, *second;
} stage;

static stage *open_stage(bool unified, bool direct, uint32_t queues, uint64_t timeout_ns) {
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->options.unified_host = unified;
    s->options.submit_never_blocks = direct;
    s->options.seed = 11;
    test_gate_open(false);
    assert_ok(adversary_runtime_open(
        &s->options,
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = timeout_ns, .queues_per_device = queues, .worker_threads = 4),
        &s->runtime));
    assert_ok(rota_device_open(s->runtime, "cpu", &s->cpu));
    assert_ok(rota_device_open(s->runtime, "adversary", &s->first));
    assert_ok(rota_device_open(s->runtime, "adversary:1", &s->second));
    return s;
}

static void close_stage(stage *s) {
    assert_ok(rota_runtime_close(s->runtime, 5000000000u));
    if (s->options.violations) fail_msg("%s", s->options.violation);
    assert_int_equal(s->options.live_memories, 0);
    assert_int_equal(s->options.live_instances, 0);
    free(s);
}

static rota_ticket submit(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    return ticket;
}

static void runs_now(rota_plan *plan) {
    assert_ok(rota_wait(submit(plan), SOON_NS));
}

/* None of them is going to end while the gate is shut, though they had the time. */
static void are_kept(const rota_ticket *tickets, uint32_t count) {
    assert_status(rota_wait(tickets[0], A_WHILE_NS), ROTA_TIMEOUT);
    for (uint32_t i = 0; i < count; i++) assert_int_equal(rota_poll(tickets[i]), ROTA_BUSY);
}

static void write_words(rota_buffer *buffer, rota_device *device, uint32_t value) {
    uint32_t words[WORDS];
    rota_ticket ticket;
    for (uint32_t i = 0; i < WORDS; i++) words[i] = value;
    assert_ok(rota_buffer_write(buffer, device, 0, words, sizeof words, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
}

/* x of one device is behind the gate. The other one has a copy of it and what follows that, and work of its
 * own that passes; then what reads, overwrites and goes back again, in the order of submission. */
static void passes_on(stage *s, rota_device *slow, rota_device *fast) {
    rota_buffer *x = test_words(slow, "x", WORDS, 5), *y = test_words(fast, "y", WORDS, 0);
    rota_buffer *z = test_words(fast, "z", WORDS, 0), *w = test_words(fast, "w", WORDS, 100);
    rota_buffer *v = test_words(slow, "v", WORDS, 0);
    rota_plan *gate = test_plan_1(slow, "gate", &test_gate, x, ROTA_READWRITE);
    rota_plan *copy = test_plan_copy_kernel(fast, "copy", x, y),
              *next = test_plan_copy_kernel(fast, "next", y, z);
    rota_plan *alone = test_plan_1(fast, "alone", &test_increment, w, ROTA_READWRITE);
    rota_plan *change = test_plan_1(slow, "change", &test_increment, x, ROTA_READWRITE);
    rota_plan *more = test_plan_1(fast, "more", &test_increment, y, ROTA_READWRITE);
    rota_plan *back = test_plan_copy_kernel(slow, "back", y, v);
    runs_now(alone);
    (void)submit(gate);
    rota_ticket held[6];
    held[0] = submit(copy);
    for (uint32_t i = 0; i < 20; i++) runs_now(alone);
    held[1] = submit(next);   /* the y of the copy, not of `more` */
    held[2] = submit(change); /* after the copy has read x */
    held[3] = submit(more);   /* after `next` has read y */
    held[4] = submit(back);
    held[5] = submit(next);
    for (uint32_t i = 0; i < 20; i++) runs_now(alone);
    test_expect_words(w, WORDS, 141);
    write_words(w, fast, 7);
    test_expect_words(w, WORDS, 7);
    are_kept(held, 6);
    test_gate_open(true);
    for (uint32_t i = 0; i < 6; i++) assert_ok(rota_wait(held[i], 0));
    test_expect_words(x, WORDS, 6);
    test_expect_words(y, WORDS, 6);
    test_expect_words(z, WORDS, 6);
    test_expect_words(v, WORDS, 6);
    for (uint32_t i = 0; i < 3; i++) runs_now(copy); /* nothing is held any more: its own queue again */
    test_expect_words(y, WORDS, 6);
    test_gate_open(false);
    rota_plan *plans[] = {gate, copy, next, alone, change, more, back};
    rota_buffer *buffers[] = {x, y, z, w, v};
    for (uint32_t i = 0; i < 7; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(buffers[i]);
    (void)s;
}

static void what_is_independent_passes(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < 4; kind++)
        for (uint32_t queues = 1; queues <= 3; queues += 2) {
            stage *s = open_stage(kind & 1, kind & 2, queues, 20000000000u);
            passes_on(s, s->cpu, s->first);
            passes_on(s, s->first, s->cpu);
            close_stage(s);
        }
}

/* Held for one device, a work does not keep one that is held for another device, nor a plan on both. */
static void each_is_held_for_its_own(void **state) {
    (void)state;
    stage *s = open_stage(false, false, 2, 20000000000u);
    rota_buffer *x = test_words(s->cpu, "x", WORDS, 1), *u = test_words(s->first, "u", WORDS, 1);
    rota_buffer *y[8], *t = test_words(s->second, "t", WORDS, 0);
    rota_plan *gate = test_plan_1(s->cpu, "gate", &test_gate, x, ROTA_READWRITE), *held[8];
    rota_plan *change = test_plan_1(s->first, "change", &test_increment, u, ROTA_READWRITE);
    rota_plan *copy = test_plan_copy_kernel(s->second, "copy", u, t);
    rota_ticket tickets[8];
    for (uint32_t i = 0; i < 8; i++) {
        y[i] = test_words(s->second, "y", WORDS, 0);
        held[i] = test_plan_copy_kernel(s->second, "held", x, y[i]);
    }
    (void)submit(gate);
    for (uint32_t i = 0; i < 8; i++) tickets[i] = submit(held[i]);
    for (uint32_t i = 0; i < 10; i++) {
        (void)submit(change);
        runs_now(copy); /* held for the first device, each time */
        test_expect_words(t, WORDS, 2 + i);
    }
    are_kept(tickets, 8);
    test_gate_open(true);
    for (uint32_t i = 0; i < 8; i++) {
        assert_ok(rota_wait(tickets[i], 0));
        test_expect_words(y[i], WORDS, 1);
        rota_plan_release(held[i]);
        rota_buffer_release(y[i]);
    }
    rota_plan_release(gate);
    rota_plan_release(change);
    rota_plan_release(copy);
    rota_buffer_release(x);
    rota_buffer_release(u);
    rota_buffer_release(t);
    close_stage(s);
}

static void wait_until(const _Atomic uint32_t *word, uint32_t low, uint32_t high) {
    static _Atomic uint32_t never;
    uint64_t deadline = rota_deadline_after(SOON_NS);
    while ((ra_load_seq_cst(word) < low || ra_load_seq_cst(word) > high) && rota_clock_ns() < deadline)
        (void)rota_futex_wait(&never, 0, rota_deadline_after(100000));
    assert_in_range(ra_load_seq_cst(word), low, high);
}

typedef struct reading {
    rota_buffer *buffer;
    pthread_t thread;
    _Atomic uint32_t done;
    uint32_t word;
} reading;

static void *read_first(void *user) {
    reading *r = user;
    rota_status status = rota_buffer_read(r->buffer, 0, &r->word, 4);
    ra_store_seq_cst(&r->done, status == ROTA_OK ? 1 : 2);
    return NULL;
}

static uint64_t submissions(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(runtime, &stats);
    return stats.submissions;
}

/* One logical queue, a kernel on it that does not end, and a read that waits for that. */
static void reads_pass_what_runs(void **state) {
    (void)state;
    stage *s = open_stage(true, true, 1, 20000000000u);
    rota_buffer *x = test_words(s->cpu, "x", WORDS, 3), *w = test_words(s->cpu, "w", WORDS, 4);
    rota_plan *gate = test_plan_1(s->cpu, "gate", &test_gate, x, ROTA_READWRITE);
    rota_ticket ticket = submit(gate);
    test_gates_running(1);
    test_expect_words(w, WORDS, 4);
    uint64_t before = submissions(s->runtime);
    reading readings[10];
    for (uint32_t i = 0; i < 10; i++) {
        readings[i] = (reading){.buffer = x};
        assert_int_equal(pthread_create(&readings[i].thread, NULL, read_first, &readings[i]), 0);
    }
    static _Atomic uint32_t never;
    uint64_t deadline = rota_deadline_after(SOON_NS);
    while (submissions(s->runtime) < before + 10 && rota_clock_ns() < deadline)
        (void)rota_futex_wait(&never, 0, rota_deadline_after(100000));
    assert_int_equal(submissions(s->runtime), before + 10);
    for (uint32_t i = 0; i < 20; i++) {
        write_words(w, s->cpu, i);
        test_expect_words(w, WORDS, i);
    }
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(ra_load_seq_cst(&readings[i].done), 0);
    are_kept(&ticket, 1);
    test_gate_open(true);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(pthread_join(readings[i].thread, NULL), 0);
        assert_int_equal(readings[i].done, 1);
        assert_int_equal(readings[i].word, 3);
    }
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(gate);
    rota_buffer_release(x);
    rota_buffer_release(w);
    close_stage(s);
}

typedef struct flood {
    rota_plan *plan;
    uint32_t count;
    rota_status last;
    char said[256];
    pthread_t thread;
    pthread_barrier_t *end; /* its lane is its own until all of them are there */
    _Atomic uint32_t done;
} flood;

static void *submit_many(void *user) {
    flood *f = user;
    static _Atomic uint32_t never;
    for (uint32_t i = 0; i < f->count; i++) {
        /* Until the sequencer has taken some, a thread's own lane may be full. */
        uint64_t deadline = rota_deadline_after(1000000000u);
        do f->last = rota_submit(f->plan, NULL, NULL);
        while (f->last == ROTA_BUSY && rota_clock_ns() < deadline &&
               !strstr(rota_last_error(), "of its submissions wait") &&
               (rota_futex_wait(&never, 0, rota_deadline_after(20000)), true));
        if (f->last != ROTA_OK) break;
    }
    strncpy(f->said, f->last == ROTA_OK ? "" : rota_last_error(), sizeof f->said - 1);
    ra_store_seq_cst(&f->done, 1);
    (void)pthread_barrier_wait(f->end);
    return NULL;
}

/* Until it has submitted all it can. */
static void start_flood(flood *f, pthread_barrier_t *end) {
    f->end = end;
    assert_int_equal(pthread_create(&f->thread, NULL, submit_many, f), 0);
    wait_until(&f->done, 1, 1);
}

/* What is held fills nothing that others need, and is bounded: its own plan is told BUSY. */
static void held_works_are_bounded(void **state) {
    (void)state;
    stage *s = open_stage(false, false, 2, 20000000000u);
    rota_buffer *x = test_words(s->cpu, "x", WORDS, 1), *y = test_words(s->first, "y", WORDS, 0);
    rota_buffer *w = test_words(s->first, "w", WORDS, 0);
    rota_plan *gate = test_plan_1(s->cpu, "gate", &test_gate, x, ROTA_READWRITE);
    rota_plan *copy = test_plan_copy_kernel(s->first, "copy", x, y);
    rota_plan *alone = test_plan_1(s->first, "alone", &test_increment, w, ROTA_READWRITE);
    (void)submit(gate);
    flood floods[2] = {{.plan = copy, .count = 3000}, {.plan = copy, .count = 3000}};
    pthread_barrier_t end;
    (void)pthread_barrier_init(&end, NULL, 3);
    for (uint32_t i = 0; i < 2; i++) {
        start_flood(&floods[i], &end);
        runs_now(alone);
    }
    (void)pthread_barrier_wait(&end);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(pthread_join(floods[i].thread, NULL), 0);
    assert_int_equal(floods[0].last, ROTA_OK);
    assert_int_equal(floods[1].last, ROTA_BUSY);
    assert_non_null(strstr(floods[1].said, "plan 'copy': 4096 of its submissions wait for other devices"));
    for (uint32_t i = 0; i < 50; i++) runs_now(alone);
    test_expect_words(w, WORDS, 52);
    test_gate_open(true);
    assert_ok(rota_wait(submit(copy), 0));
    test_expect_words(y, WORDS, 1);
    rota_plan_release(gate);
    rota_plan_release(copy);
    rota_plan_release(alone);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(w);
    close_stage(s);
}

/* The device that a work is held for is lost: the work fails, and its end comes after what it depends on
 * through the lost one, which its own device still holds for a third. */
static void lost_while_held(void **state) {
    (void)state;
    stage *s = open_stage(false, false, 2, 20000000000u);
    rota_buffer *x = test_words(s->cpu, "x", WORDS, 1), *y = test_words(s->second, "y", WORDS, 2);
    rota_buffer *z = test_words(s->second, "z", WORDS, 3), *w = test_words(s->second, "w", WORDS, 4);
    rota_buffer *q = test_words(s->first, "q", WORDS, 5);
    rota_plan *gate = test_plan_1(s->cpu, "gate", &test_gate, x, ROTA_READWRITE);
    rota_plan *fill = test_plan_copy_kernel(s->second, "fill", x, y); /* held for the CPU */
    rota_plan *pass = test_plan_1(s->first, "pass", &test_increment, y, ROTA_READWRITE); /* held for `fill` */
    rota_plan *take = test_plan_copy_kernel(s->second, "take", y, z);                    /* held for `pass` */
    rota_plan *alone = test_plan_1(s->second, "alone", &test_increment, w, ROTA_READWRITE);
    rota_plan *poke = test_plan_1(s->first, "poke", &test_increment, q, ROTA_READWRITE);
    (void)submit(gate);
    rota_ticket filled = submit(fill), passed = submit(pass), taken = submit(take);
    runs_now(alone);
    s->options.faults.lost_in_works = 1;
    (void)rota_wait(submit(poke), SOON_NS); /* whose end it does not survive */
    assert_status(rota_wait(passed, SOON_NS), ROTA_DEVICE_LOST);
    for (uint32_t i = 0; i < 10; i++) runs_now(alone);
    are_kept((rota_ticket[]){filled, taken}, 2);
    test_gate_open(true);
    assert_ok(rota_wait(filled, 0));
    assert_status(rota_wait(taken, 0), ROTA_DEVICE_LOST);
    test_expect_words(w, WORDS, 15);
    uint32_t word;
    assert_status(rota_buffer_read(z, 0, &word, 4), ROTA_DEVICE_LOST);
    rota_plan *plans[] = {gate, fill, pass, take, alone, poke};
    rota_buffer *buffers[] = {x, y, z, w, q};
    for (uint32_t i = 0; i < 6; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(s->runtime, 5000000000u));
    if (s->options.violations) fail_msg("%s", s->options.violation);
    free(s);
}

/* A device that never gets on with what it was given ends by the deadline of who is held for it, whatever
 * others do meanwhile. */
static void held_for_what_never_ends(void **state) {
    (void)state;
    stage *s = open_stage(false, false, 2, 700000000u);
    rota_buffer *x = test_words(s->first, "x", WORDS, 1), *y = test_words(s->second, "y", WORDS, 2);
    rota_buffer *w = test_words(s->second, "w", WORDS, 0);
    rota_plan *stuck = test_plan_1(s->first, "stuck", &test_increment, x, ROTA_READWRITE);
    rota_plan *copy = test_plan_copy_kernel(s->second, "copy", x, y);
    rota_plan *alone = test_plan_1(s->second, "alone", &test_increment, w, ROTA_READWRITE);
    s->options.faults.silent = false;
    runs_now(stuck);
    assert_ok(rota_wait(submit(copy), 0));
    rota_plan *gate = test_plan_1(s->first, "gate", &test_gate, x, ROTA_READWRITE);
    (void)submit(gate);
    rota_ticket held = submit(copy);
    uint32_t rounds = 0;
    uint64_t deadline = rota_deadline_after(SOON_NS);
    do { /* once at least, also where this thread did not run for so long */
        runs_now(alone);
        rounds++;
    } while (rota_poll(held) == ROTA_BUSY && rota_clock_ns() < deadline);
    assert_status(rota_poll(held), ROTA_DEVICE_LOST);
    assert_non_null(strstr(rota_last_error(), "'adversary' is lost: no progress within the deadline"));
    test_expect_words(w, WORDS, rounds);
    test_gate_open(true);
    test_gates_running(0);
    rota_plan *plans[] = {stuck, copy, alone, gate};
    rota_buffer *buffers[] = {x, y, w};
    for (uint32_t i = 0; i < 4; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(s->runtime, 5000000000u));
    free(s);
}

/* ---- Instances ---- */

/* from, of the runtime, to memory of the caller's. */
static rota_plan *giving(rota_device *device, rota_buffer *from, rota_buffer **out_output) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "giving"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, out_output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {*out_output, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses, .access_count = 2), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        rota_device_runtime(device), graph,
        &ROTA_COMPILE_OPTIONS(.name = "giving", .devices = &device, .device_count = 1, .arenas = 2), &plan));
    rota_graph_release(graph);
    return plan;
}

typedef struct gift {
    stage *s;
    rota_buffer *x, *w, *output;
    rota_plan *gate, *plan, *alone;
    rota_args *args[3];
    uint32_t words[3][WORDS];
    rota_ticket tickets[3];
} gift;

/* One replay is held, so that its instance is in use. */
static void gift_open(gift *g) {
    memset(g, 0, sizeof *g);
    g->s = open_stage(false, false, 2, 20000000000u);
    g->x = test_words(g->s->cpu, "x", WORDS, 9);
    g->w = test_words(g->s->first, "w", WORDS, 0);
    g->gate = test_plan_1(g->s->cpu, "gate", &test_gate, g->x, ROTA_READWRITE);
    g->plan = giving(g->s->first, g->x, &g->output);
    g->alone = test_plan_1(g->s->first, "alone", &test_increment, g->w, ROTA_READWRITE);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_args_create(g->plan, &g->args[i]));
        assert_ok(rota_args_set_output(g->args[i], g->output, g->words[i], sizeof g->words[i]));
    }
    (void)submit(g->gate);
    assert_ok(rota_submit_wait(g->plan, g->args[0], 0, &g->tickets[0]));
    runs_now(g->alone);
}

static void gift_close(gift *g) {
    for (uint32_t i = 0; i < 3; i++) rota_args_release(g->args[i]);
    rota_plan_release(g->gate);
    rota_plan_release(g->plan);
    rota_plan_release(g->alone);
    rota_buffer_release(g->x);
    rota_buffer_release(g->w);
    close_stage(g->s);
}

/* A driver that does not come back from making one keeps who needs it, and nobody else. */
static void others_pass_while_one_is_made(void **state) {
    (void)state;
    gift g;
    gift_open(&g);
    uint32_t made = g.s->options.instance_creations;
    g.s->options.faults.instances_stay_from = made + 1;
    assert_ok(rota_submit_wait(g.plan, g.args[1], 0, &g.tickets[1]));
    wait_until(&g.s->options.instance_creations, made + 1, made + 1);
    for (uint32_t i = 0; i < 20; i++) runs_now(g.alone);
    test_expect_words(g.w, WORDS, 21);
    test_gate_open(true);
    assert_ok(rota_wait(g.tickets[0], SOON_NS));
    are_kept(&g.tickets[1], 1);
    for (uint32_t i = 0; i < 20; i++) { /* what is there is used again */
        assert_ok(rota_submit_wait(g.plan, g.args[2], 0, &g.tickets[2]));
        assert_ok(rota_wait(g.tickets[2], SOON_NS));
    }
    ra_store_seq_cst(&g.s->options.faults.instances_stay_from, 0);
    assert_ok(rota_wait(g.tickets[1], SOON_NS));
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < WORDS; k++) assert_int_equal(g.words[i][k], 9);
    assert_int_equal(g.s->options.instance_creations, made + 1);
    gift_close(&g);
}

/* One that can't be made fails its replay, and is made for a later one. */
static void one_that_cannot_be_made(void **state) {
    (void)state;
    gift g;
    gift_open(&g);
    ra_store_seq_cst(&g.s->options.faults.memory_fails_in, 1);
    assert_ok(rota_submit_wait(g.plan, g.args[1], 0, &g.tickets[1]));
    wait_until(&g.s->options.faults.memory_fails_in, 0, 0);
    runs_now(g.alone);
    test_gate_open(true);
    assert_ok(rota_wait(g.tickets[0], SOON_NS));
    assert_status(rota_wait(g.tickets[1], SOON_NS), ROTA_OUT_OF_MEMORY);
    assert_int_equal(g.words[1][0], 0);
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < 3; i++) assert_ok(rota_submit_wait(g.plan, g.args[i], 0, &g.tickets[i]));
        for (uint32_t i = 0; i < 3; i++) assert_ok(rota_wait(g.tickets[i], SOON_NS));
    }
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(g.words[i][WORDS - 1], 9);
    gift_close(&g);
}

/* ---- What the lists and rings of fixed size do when they are full ---- */

static rota_status copy_at_gate(const rota_kernel_call *call) {
    rota_status status = ROTA_OK;
    uint32_t *y = call->operands[1];
    if (y[0] == 1000) status = test_gate.cpu.fn(call);
    memcpy(y, call->operands[0], WORDS * 4);
    return status;
}
static const rota_kernel gated_copy = {
    .name = "copy at the gate", .operand_count = 2, .cpu = {.fn = copy_at_gate}};

/* A range has had more readers than it has room for, each on a queue of its own; whichever of them has not
 * ended keeps a writer. */
static void every_reader_is_waited_for(void **state) {
    (void)state;
    enum { QUEUES = 10, READERS = 9 };
    for (uint32_t late = 0; late < READERS; late++) {
        rota_runtime *runtime;
        rota_device *device;
        test_gate_open(false);
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u,
                                                          .queues_per_device = QUEUES, .worker_threads = 3),
                                    &runtime));
        assert_ok(rota_device_open(runtime, "cpu", &device));
        rota_buffer *x = test_words(device, "x", WORDS, 5), *y[READERS];
        rota_plan *readers[READERS];
        rota_ticket tickets[READERS], written;
        for (uint32_t q = 0; q < READERS; q++) {
            y[q] = test_words(device, "y", WORDS, q == late ? 1000 : 0);
            const test_node reads = {
                &gated_copy, NULL, {{x, 0, ROTA_WHOLE, ROTA_READ}, {y[q], 0, ROTA_WHOLE, ROTA_READWRITE}}, 2};
            readers[q] = test_plan_on_queue(device, q, QUEUES, &reads);
            test_expect_words(y[q], 1, q == late ? 1000 : 0); /* the host has seen all that was written */
        }
        const test_node change = {&test_increment, NULL, {{x, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
        rota_plan *writer = test_plan_on_queue(device, READERS, QUEUES, &change);
        for (uint32_t q = 0; q < READERS; q++) tickets[q] = submit(readers[q]);
        written = submit(writer);
        are_kept(&written, 1);
        test_gate_open(true);
        for (uint32_t q = 0; q < READERS; q++) assert_ok(rota_wait(tickets[q], 0));
        assert_ok(rota_wait(written, 0));
        for (uint32_t q = 0; q < READERS; q++) {
            test_expect_words(y[q], WORDS, 5);
            rota_plan_release(readers[q]);
            rota_buffer_release(y[q]);
        }
        test_expect_words(x, WORDS, 6);
        rota_plan_release(writer);
        rota_buffer_release(x);
        assert_ok(rota_runtime_close(runtime, 0));
    }
}

/* More works than the hand-over's ring holds, while the driver takes none: all of them come through. */
static void a_full_ring(void **state) {
    (void)state;
    stage *s = open_stage(false, false, 3, 20000000000u);
    enum { QUEUES = 3 };
    rota_buffer *x[QUEUES];
    rota_plan *plans[QUEUES];
    uint32_t submitted[QUEUES] = {0}, total = 0;
    for (uint32_t q = 0; q < QUEUES; q++) {
        x[q] = test_words(s->first, "x", WORDS, 0);
        const test_node node = {&test_increment, NULL, {{x[q], 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
        plans[q] = test_plan_on_queue(s->first, q, QUEUES, &node);
        test_expect_words(x[q], 1, 0);
    }
    ra_store_seq_cst(&s->options.faults.submits_stay, 1);
    flood floods[QUEUES];
    pthread_barrier_t end;
    (void)pthread_barrier_init(&end, NULL, QUEUES + 1);
    for (uint32_t q = 0; q < QUEUES; q++) {
        floods[q] = (flood){.plan = plans[q], .count = 3900};
        start_flood(&floods[q], &end);
        if (floods[q].last != ROTA_OK) fail_msg("%s", floods[q].said);
        submitted[q] = floods[q].count;
        total += floods[q].count;
    }
    (void)pthread_barrier_wait(&end);
    for (uint32_t q = 0; q < QUEUES; q++) assert_int_equal(pthread_join(floods[q].thread, NULL), 0);
    assert_true(total > 8192);
    ra_store_seq_cst(&s->options.faults.submits_stay, 0);
    for (uint32_t q = 0; q < QUEUES; q++) {
        test_expect_words(x[q], WORDS, submitted[q]);
        rota_plan_release(plans[q]);
        rota_buffer_release(x[q]);
    }
    close_stage(s);
}

/* A large write that is held keeps its own staging memory, and no later one's: with room for four, twelve
 * others go past it. */
static void large_writes_pass_one_that_is_held(void **state) {
    (void)state;
    enum { LARGE = 1u << 20, LIMIT = 4u << 20 };
    adversary_options options = {.seed = 3};
    rota_runtime *runtime;
    rota_device *cpu, *device;
    test_gate_open(false);
    assert_ok(adversary_runtime_open(&options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = 3000000000u, .staging_slots = 4,
                                                           .staging_slot_bytes = 4096,
                                                           .staging_limit_bytes = LIMIT),
                                     &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *x = test_words(cpu, "x", WORDS, 5), *y, *z;
    assert_ok(rota_buffer_create_in(runtime, "y", LARGE, &y));
    assert_ok(rota_buffer_create_in(runtime, "z", LARGE, &z));
    uint8_t *bytes = calloc(1, LARGE);
    assert_non_null(bytes);
    assert_ok(rota_buffer_write(y, device, 0, bytes, LARGE, NULL));
    rota_access accesses[] = {{x, 0, WORDS * 4, ROTA_READ}, {y, 0, WORDS * 4, ROTA_WRITE}};
    test_node node = {&test_copy, "copy", {accesses[0], accesses[1]}, 2};
    rota_plan *gate = test_plan_1(cpu, "gate", &test_gate, x, ROTA_READWRITE);
    rota_plan *copy = test_plan(device, "copy", &node, 1);
    (void)submit(gate);
    (void)submit(copy); /* held for the CPU, and the write for it */
    rota_ticket held, ticket;
    assert_ok(rota_buffer_write(y, device, 0, bytes, LARGE, &held));
    for (uint32_t i = 0; i < 12; i++) {
        memset(bytes, (int)i + 1, LARGE);
        assert_ok(rota_buffer_write(z, device, 0, bytes, LARGE, &ticket));
        assert_ok(rota_wait(ticket, SOON_NS));
    }
    assert_int_equal(rota_poll(held), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(held, SOON_NS));
    free(bytes);
    rota_plan_release(gate);
    rota_plan_release(copy);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
    assert_ok(rota_runtime_close(runtime, 5000000000u));
    if (options.violations) fail_msg("%s", options.violation);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_independent_passes),
        cmocka_unit_test(each_is_held_for_its_own),
        cmocka_unit_test(reads_pass_what_runs),
        cmocka_unit_test(held_works_are_bounded),
        cmocka_unit_test(lost_while_held),
        cmocka_unit_test(held_for_what_never_ends),
        cmocka_unit_test(others_pass_while_one_is_made),
        cmocka_unit_test(one_that_cannot_be_made),
        cmocka_unit_test(every_reader_is_waited_for),
        cmocka_unit_test(a_full_ring),
        cmocka_unit_test(large_writes_pass_one_that_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
