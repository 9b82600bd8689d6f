/* Commands that decide, on the CPU executor (exec/cpu/loop.c, run.c): how an iteration is handed over to the next one
 * between workers, and how a loop ends: by its condition, a failure in its body, a cancelled submission, a lost device.
 * Thread 0 submits, cancels, loses the device; the others are workers. Kernels work on plain data, condition and all,
 * so that an iteration which begins before all of the one before has ended is a race; and so is a worker that touches
 * a work's data, or its loop, after the host was told of its end. How workers find work and sleep is in cpu.c. */
#include "exec/cpu/device.h"
#include "exec/cpu/instance.h"
#include "exec/cpu/later.h"
#include "exec/cpu/loop.h"
#include "exec/cpu/program.h"
#include "graph/conditional_internal.h"

#include <stdio.h>
#include <string.h>

#include "explore.h"

enum { WORKERS = 2, SLOTS = 8, ITERATIONS = 2, BODY_UNITS_MAX = 3 };
enum { LEFT, RIGHT, SUM, BESIDE, AFTER, MORE, COUNT, INDEX, CELLS };
enum { OUTER_NODE = 7, AFTER_NODE = 8 };

static rota_cpu_device device;
static rota_cpu_worker workers[WORKERS];
static _Atomic(rota_cpu_task *) slots[WORKERS + 1][SLOTS];
static _Atomic uint32_t poison, is_cancelled;
/* Plain, as are the cells. */
static uint32_t cells[CELLS];
static uint64_t reached;
static uint32_t losses, failures, successes, ends;
static bool left_fails, right_fails, left_cancels; /* in the first iteration */
static uint64_t last_value;                        /* of the works */

/* ---- The host ---- */

/* From here on all is the host's, which frees what works read and write, and their loops. */
static void take_back(void);

static void advanced(void *user, uint32_t queue, uint64_t value) {
    (void)user, (void)queue;
    explore_check(value > reached, "the timeline goes from %llu to %llu", (unsigned long long)reached,
                  (unsigned long long)value);
    explore_check(losses == 0, "the timeline goes on after the loss");
    reached = value;
    if (value == last_value) take_back();
}

static void lost(void *user, rota_status status, const char *message) {
    (void)user, (void)status, (void)message;
    losses++;
    take_back();
}

static bool must_skip(void *user, void *of, const void *owner, uint32_t node) {
    (void)user, (void)of, (void)owner;
    explore_check(node == OUTER_NODE || node == AFTER_NODE, "the host is asked about a body's node %u", node);
    return ra_load_acquire(&is_cancelled) != 0;
}

static void succeeded(void *user, void *of, const void *owner, uint32_t node) {
    (void)user, (void)of, (void)owner;
    if (node == OUTER_NODE) successes++;
}

static void failed(void *user, void *of, const void *owner, uint32_t node, rota_status status,
                   const char *message) {
    (void)user, (void)of, (void)owner, (void)status;
    explore_check(node == OUTER_NODE, "node %u of a body has failed to the host", node);
    explore_check(strstr(message, "iteration 0 of while 'node'") != NULL, "the failure says: %s", message);
    failures++;
}

static const char *node_name(const void *owner, uint32_t node) {
    (void)owner, (void)node;
    return "node";
}

const char *rota_conditional_kind_name(uint8_t kind) {
    return kind == ROTA_CONDITIONAL_WHILE ? "while" : "other";
}

/* ---- Kernels of the body, and what comes after the loop ---- */

static rota_status run_left(const rota_kernel_call *call) {
    (void)call;
    const bool is_first = cells[LEFT]++ == 0;
    if (is_first && left_cancels) ra_store_release(&is_cancelled, 1);
    return is_first && left_fails ? ROTA_NODE_FAILED : ROTA_OK;
}
static rota_status run_right(const rota_kernel_call *call) {
    (void)call;
    return cells[RIGHT]++ == 0 && right_fails ? ROTA_NODE_FAILED : ROTA_OK;
}
/* In a body of two that nothing comes after, the left one decides. */
static rota_status run_left_and_decide(const rota_kernel_call *call) {
    const rota_status status = run_left(call);
    cells[MORE] = cells[LEFT] % ITERATIONS;
    return status;
}
/* Else who comes after both. */
static rota_status run_sum(const rota_kernel_call *call) {
    (void)call;
    explore_check(cells[LEFT] == cells[RIGHT], "a unit begins before both that it comes after have ended");
    cells[SUM] = cells[LEFT] + cells[RIGHT];
    cells[MORE] = cells[LEFT] % ITERATIONS;
    return ROTA_OK;
}
/* Of a for. */
static rota_status run_left_by_index(const rota_kernel_call *call) {
    explore_check(cells[INDEX] == cells[LEFT] % ITERATIONS, "iteration %u has number %u",
                  cells[LEFT] % ITERATIONS, cells[INDEX]);
    return run_left(call);
}
static rota_status run_right_by_index(const rota_kernel_call *call) {
    explore_check(cells[INDEX] == cells[RIGHT] % ITERATIONS, "iteration %u has number %u",
                  cells[RIGHT] % ITERATIONS, cells[INDEX]);
    return run_right(call);
}
static rota_status run_arm(const rota_kernel_call *call) {
    (void)call;
    cells[MORE] = 1;
    return ROTA_OK;
}
static rota_status run_beside(const rota_kernel_call *call) {
    (void)call;
    cells[BESIDE]++;
    return ROTA_OK;
}
static rota_status run_after(const rota_kernel_call *call) {
    (void)call;
    cells[AFTER] = 10 * cells[LEFT] + cells[RIGHT];
    return ROTA_OK;
}
/* In two pieces. */
static rota_status run_both(const rota_kernel_call *call) {
    for (uint64_t i = call->begin; i < call->end; i++) cells[LEFT + i]++;
    return ROTA_OK;
}

/* ---- Programs: a loop, alone or with a unit after it, and its body ---- */

typedef struct program {
    rota_exec_program made;
    rota_exec_program_desc desc;
    rota_cpu_record records[BODY_UNITS_MAX];
    rota_cpu_unit units[BODY_UNITS_MAX];
    uint32_t successors[BODY_UNITS_MAX + 1], roots[BODY_UNITS_MAX];
    rota_cpu_segment segment;
    rota_cpu_conditional conditional;
    rota_exec_conditional decides;
    rota_exec_command commands[BODY_UNITS_MAX]; /* as far as they are looked at */
    rota_exec_program *bodies[1];
} program;

typedef struct instance {
    rota_exec_instance made;
    rota_cpu_run run;
    rota_cpu_unit_state units[BODY_UNITS_MAX];
    rota_cpu_split_state splits[1];
    rota_cpu_loop loops[1];
    rota_exec_instance *bodies[1];
    void *operands[3];
} instance;

/* [0]: the work's; [1], [2]: bodies, the second one in the first. */
static program programs[3];
static instance instances[3];

static void touch(void *what, size_t bytes) {
    volatile uint8_t *byte = what;
    for (size_t i = 0; i < bytes; i++) byte[i] = byte[i];
}

static void take_back(void) {
    ends++;
    for (uint32_t i = 0; i < CELLS; i++) cells[i] += 1000;
    for (uint32_t i = 0; i < 2; i++) {
        touch(instances[i].loops, sizeof instances[i].loops);
        touch(instances[i].splits, sizeof instances[i].splits);
        touch(instances[i].units, sizeof instances[i].units);
    }
}

static uint32_t program_index; /* of the one that is put together */
static program *p_of(void) {
    return &programs[program_index];
}

/* A unit of one kernel; its successors are given next. */
static void add_unit(rota_status (*fn)(const rota_kernel_call *), uint32_t predecessors) {
    program *p = p_of();
    const uint32_t u = p->segment.unit_count++;
    p->records[u] = (rota_cpu_record){.fn.kernel = fn, .items = 1, .node = u, .command = u};
    p->units[u] = (rota_cpu_unit){.first_record = u,
                                  .record_count = 1,
                                  .first_successor = u, /* one at most */
                                  .predecessor_count = predecessors,
                                  .state = ROTA_CPU_NONE};
    if (predecessors == 0) p->roots[p->segment.root_count++] = u;
    p->segment.sink_count++;
}

static void add_edge(uint32_t from, uint32_t to) {
    program *p = p_of();
    p->units[from].successor_count = 1;
    p->successors[from] = to;
    p->segment.sink_count--;
}

/* A while on cells[MORE], or a for of cells[COUNT]: a unit, whose body is the next program. */
static void add_loop(uint8_t kind, uint32_t predecessors) {
    program *p = p_of();
    const uint32_t u = p->segment.unit_count;
    add_unit(NULL, predecessors);
    p->units[u].state = 0;
    p->records[u].flags = ROTA_CPU_RECORD_CONDITIONAL;
    p->records[u].u.conditional = &p->conditional;
    p->decides = (rota_exec_conditional){.kind = kind,
                                         .body_count = 1,
                                         .iterations_max = 5,
                                         .condition = {kind == ROTA_CONDITIONAL_FOR ? 1 : 0, 0},
                                         .index = {kind == ROTA_CONDITIONAL_FOR ? 2 : UINT32_MAX, 0}};
    p->conditional = (rota_cpu_conditional){.desc = &p->decides, .command = u};
    p->bodies[0] = &programs[program_index + 1].made;
    p->made.bodies = p->bodies;
    p->made.body_count = p->made.conditional_count = p->made.loop_count = 1;
    p->made.conditionals = &p->conditional;
}

static const uint32_t no_words[3] = {ROTA_CPU_NONE, ROTA_CPU_NONE, ROTA_CPU_NONE};
static const uint64_t word_bytes[3] = {4, 4, 4};

static void finish(rota_cpu_loop *loop) {
    program *p = p_of();
    instance *i = &instances[program_index];
    p->made.desc = &p->desc;
    p->made.records = p->records;
    p->made.units = p->units;
    p->made.unit_count = p->segment.unit_count;
    p->made.unit_successors = p->successors;
    p->made.roots = p->roots;
    p->made.segments = &p->segment;
    p->made.operand_word = (uint32_t *)(uintptr_t)no_words;
    p->made.operand_bytes = (uint64_t *)(uintptr_t)word_bytes;
    p->desc.commands = p->commands;
    i->made.program = &p->made;
    i->made.operands = i->operands;
    i->operands[0] = &cells[MORE];
    i->operands[1] = &cells[COUNT];
    i->operands[2] = &cells[INDEX];
    i->made.runs = &i->run;
    i->made.units = i->units;
    i->made.splits = i->splits;
    i->made.loops = i->loops;
    i->made.bodies = i->bodies;
    i->bodies[0] = program_index + 1 < 3 ? &instances[program_index + 1].made : NULL;
    i->run.instance = &i->made;
    i->run.loop = loop;
    for (uint32_t u = 0; u < p->segment.unit_count; u++) {
        i->units[u].task.kind = ROTA_CPU_TASK_UNIT;
        i->units[u].task.unit = u;
        i->units[u].run = &i->run;
        ra_store_relaxed(&i->units[u].pending, p->units[u].predecessor_count);
    }
    program_index++;
}

static void begin_device(void) {
    memset((void *)&device, 0, sizeof device);
    memset((void *)workers, 0, sizeof workers);
    memset((void *)programs, 0, sizeof programs);
    memset((void *)instances, 0, sizeof instances);
    memset((void *)slots, 0, sizeof slots);
    memset(cells, 0, sizeof cells);
    left_fails = right_fails = left_cancels = false;
    last_value = 1;
    program_index = 0;
    device.queue_count = 1;
    device.worker_count = WORKERS;
    device.workers = workers;
    device.host = (rota_exec_host){.advanced = advanced,
                                   .lost = lost,
                                   .must_skip = must_skip,
                                   .succeeded = succeeded,
                                   .failed = failed,
                                   .node_name = node_name,
                                   .poison_active = &poison};
    ra_store_relaxed(&poison, 0);
    ra_store_relaxed(&is_cancelled, 0);
    device.tasks.inject.capacity = SLOTS;
    device.tasks.inject.cells = slots[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i].device = &device;
        workers[i].index = i;
        workers[i].random = i;
        workers[i].deque.capacity = SLOTS;
        workers[i].deque.cells = slots[i];
    }
    reached = 0;
    losses = failures = successes = ends = 0;
    cells[MORE] = 1;
    cells[COUNT] = ITERATIONS;
    explore_check(rota_cpu_queues_init(&device) == ROTA_OK, "no memory");
    explore_name(cells, sizeof cells, "cells");
    explore_name(instances, sizeof instances, "instances");
    explore_name(workers, sizeof workers, "workers");
    explore_name(&device.end.stop, 4, "stop");
}

static void begin_outer(uint8_t kind) {
    begin_device();
    add_loop(kind, 0);
    add_unit(run_after, 1);
    add_edge(0, 1);
    p_of()->records[0].node = OUTER_NODE;
    p_of()->records[1].node = AFTER_NODE;
    finish(NULL);
}

static void body_of_two(void) {
    add_unit(run_left_and_decide, 0);
    add_unit(run_right, 0);
    finish(&instances[0].loops[0]);
}

static void body_of_three(rota_cpu_loop *loop) {
    add_unit(run_left, 0);
    add_unit(run_right, 0);
    add_unit(run_sum, 2);
    add_edge(0, 2);
    add_edge(1, 2);
    finish(loop);
}

/* Two units that nothing comes after: the last to end goes on with the next iteration. */
static void begin_two(void) {
    begin_outer(ROTA_CONDITIONAL_WHILE);
    body_of_two();
}

/* A unit after both, whose counter is armed again for the next iteration. */
static void begin_three(void) {
    begin_outer(ROTA_CONDITIONAL_WHILE);
    body_of_three(&instances[0].loops[0]);
}

/* A kernel in pieces, and a unit after it. */
static void begin_split(void) {
    begin_outer(ROTA_CONDITIONAL_WHILE);
    program *p = p_of();
    add_unit(run_both, 0);
    add_unit(run_sum, 1);
    add_edge(0, 1);
    p->records[0].items = 2;
    p->units[0].state = 0;
    p->units[0].grain = 1;
    finish(&instances[0].loops[0]);
}

/* A for, each of whose iterations has a while, which makes the condition first, and a unit beside both. */
static void begin_nested(void) {
    begin_outer(ROTA_CONDITIONAL_FOR);
    add_unit(run_arm, 0);
    add_loop(ROTA_CONDITIONAL_WHILE, 1);
    add_unit(run_beside, 0);
    add_edge(0, 1);
    finish(&instances[0].loops[0]);
    body_of_three(&instances[1].loops[0]);
}

/* A for, run by two works of one instance. */
static void begin_again(void) {
    begin_outer(ROTA_CONDITIONAL_FOR);
    add_unit(run_left_by_index, 0);
    add_unit(run_right_by_index, 0);
    finish(&instances[0].loops[0]);
    last_value = 2;
}

static void begin_asked(void) {
    begin_two();
    ra_store_relaxed(&poison, 1);
}

static void begin_cancels(void) {
    begin_asked();
    left_cancels = true;
}

static void begin_left_fails(void) {
    begin_two();
    left_fails = true;
}

static void begin_both_fail(void) {
    begin_two();
    left_fails = right_fails = true;
}

static void begin_left_of_three_fails(void) {
    begin_three();
    left_fails = true;
}

/* ---- Threads ---- */

static void work(void) {
    (void)rota_cpu_worker_main(&workers[explore_self() - 1]);
}

static void submit(void) {
    for (uint64_t value = 1; value <= last_value; value++) {
        const rota_exec_work one = {.instance = &instances[0].made, .queue = 0, .signal_value = value};
        explore_check(rota_cpu_submit(&device.base, &one, 1) == ROTA_OK, "submit fails");
    }
}

static void submit_and_cancel(void) {
    submit();
    ra_store_release(&is_cancelled, 1);
}

static void submit_and_lose(void) {
    submit();
    rota_cpu_lose(&device, "given up");
}

/* ---- Judging ---- */

static void expect_end(uint32_t left, uint32_t right) {
    explore_check(reached == last_value && ends == 1, "the works have ended %u times, at %llu", ends,
                  (unsigned long long)reached);
    explore_check(cells[LEFT] == 1000 + left && cells[RIGHT] == 1000 + right,
                  "the sides ran %u and %u times, not %u and %u", cells[LEFT] - 1000, cells[RIGHT] - 1000,
                  left, right);
}

static void expect_all(uint32_t iterations) {
    expect_end(iterations, iterations);
    explore_check(cells[AFTER] == 1000 + 11 * iterations, "what comes after the loop saw %u, not %u",
                  cells[AFTER] - 1000, 11 * iterations);
    explore_check(failures == 0, "%u failures", failures);
}

static void end_once(void) {
    expect_all(ITERATIONS);
}

static void end_again(void) {
    expect_all(2 * ITERATIONS);
}

static void end_nested(void) {
    expect_all(2 * ITERATIONS);
    explore_check(cells[BESIDE] == 1000 + ITERATIONS, "what is beside the inner loop ran %u times",
                  cells[BESIDE] - 1000);
}

/* An iteration that has begun is all run; success is told of once, and only where none was left out. */
static void end_cancelled(void) {
    const uint32_t iterations = cells[LEFT] - 1000;
    expect_end(iterations, iterations);
    explore_check(iterations <= ITERATIONS && successes == (iterations == ITERATIONS),
                  "%u successes after %u iterations", successes, iterations);
}

static void end_cancelled_in_first(void) {
    expect_end(1, 1);
    explore_check(successes == 0, "%u successes", successes);
    explore_check(cells[AFTER] == 1000, "what comes after a cancelled loop has run");
}

static void end_failed(void) {
    const uint32_t right = cells[RIGHT] - 1000;
    expect_end(1, right);
    explore_check(right <= 1, "an iteration begins after one that failed");
    explore_check(failures == 1, "%u failures", failures);
}

static void end_left_of_three_failed(void) {
    end_failed();
    explore_check(cells[SUM] == 1000, "what comes after a unit that failed has run");
}

/* Of two that fail the other one may have been left out, if it had not begun. */
static void end_both_failed(void) {
    const uint32_t left = cells[LEFT] - 1000, right = cells[RIGHT] - 1000;
    expect_end(left, right);
    explore_check(left <= 1 && right <= 1 && left + right >= 1, "%u and %u iterations", left, right);
    explore_check(failures == 1, "%u failures", failures);
}

static void end_lost(void) {
    explore_check(losses == 1, "the host was told of the loss %u times", losses);
}

int main(int argc, char **argv) {
    enum { SLEEP = 1 << 1 | 1 << 2 };
    static const explore_scenario scenarios[] = {
        {"a body of two", 2, 2, {submit, work, work}, begin_two, end_once, false, SLEEP, -1},
        {"a body of three", 2, 1, {submit, work, work}, begin_three, end_once, false, SLEEP, -1},
        {"a body with a kernel in pieces",
         2,
         1,
         {submit, work, work},
         begin_split,
         end_once,
         false,
         SLEEP,
         -1},
        {"a loop in a loop", 2, 1, {submit, work, work}, begin_nested, end_nested, false, SLEEP, -1},
        {"a loop in two works", 2, 1, {submit, work, work}, begin_again, end_again, false, SLEEP, -1},
        {"cancelled", 2, 1, {submit_and_cancel, work, work}, begin_asked, end_cancelled, false, SLEEP, -1},
        {"cancelled in an iteration",
         2,
         1,
         {submit, work, work},
         begin_cancels,
         end_cancelled_in_first,
         false,
         SLEEP,
         -1},
        {"one fails", 2, 1, {submit, work, work}, begin_left_fails, end_failed, false, SLEEP, -1},
        {"one of three fails",
         2,
         1,
         {submit, work, work},
         begin_left_of_three_fails,
         end_left_of_three_failed,
         false,
         SLEEP,
         -1},
        {"both fail", 2, 1, {submit, work, work}, begin_both_fail, end_both_failed, false, SLEEP, -1},
        {"a loss", 2, 1, {submit_and_lose, work, work}, begin_two, end_lost, false, SLEEP, -1},
    };
    return explore_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
