/* The CPU executor's workers: submission, deques, sleepers and the pump (exec/cpu/wake.c, worker.c, queue.c,
 * run.c, deque.h). Thread 0 submits; the others are workers. Works copy plain data, so that a wait that does not
 * hold is a race. */
#include "exec/cpu/device.h"
#include "exec/cpu/instance.h"
#include "exec/cpu/program.h"

#include <string.h>

#include "explore.h"

enum { WORKERS = 2, SLOTS = 4, QUEUES = 2, CELLS = 6 };

static rota_cpu_device device;
static rota_cpu_worker workers[WORKERS];
static _Atomic(rota_cpu_task *) slots[WORKERS + 1][SLOTS];
static _Atomic uint32_t poison;
static uint64_t cells[CELLS];
static rota_exec_memory memories[CELLS];
/* Plain, as are the cells: `advanced` is called by one thread at a time, and `lost` after all that touches
 * memory. */
static uint64_t reached[ROTA_EXEC_QUEUES_MAX];
static uint32_t losses;
static void *cookie; /* of the works that are submitted */
static int hung;     /* that of one that never ends */
static bool stays;   /* an allocation of who submits never ends */

static void advanced(void *user, uint32_t queue, uint64_t value) {
    (void)user;
    explore_check(value > reached[queue], "the timeline of queue %u goes from %llu to %llu", queue,
                  (unsigned long long)reached[queue], (unsigned long long)value);
    reached[queue] = value;
    explore_check(!workers[explore_self() - 1].handed,
                  "a work that was started is seen by no worker while the pump goes on");
}

static void lost(void *user, rota_status status, const char *message) {
    (void)user;
    (void)status;
    (void)message;
    losses++;
    memset(cells, 0, sizeof cells);
    for (unsigned i = 0; i < CELLS; i++) cells[i] = 99; /* the host frees what works read and write */
}

static bool must_skip(void *user, void *of, const void *owner, uint32_t node) {
    (void)user, (void)owner, (void)node;
    if (of == &hung) explore_stop();
    return false;
}

/* Called before each allocation (cpu.plants). */
void cpu_allocates(void) {
    if (stays) explore_stop();
}

const char *rota_conditional_kind_name(uint8_t kind) {
    (void)kind; /* no command here decides: loops.c */
    return NULL;
}

static void succeeded(void *user, void *of, const void *owner, uint32_t node) {
    (void)user, (void)of, (void)owner, (void)node;
}

static void begin_with(int64_t capacity) {
    memset((void *)&device, 0, sizeof device);
    memset((void *)workers, 0, sizeof workers);
    device.queue_count = QUEUES;
    device.worker_count = WORKERS;
    device.workers = workers;
    device.host = (rota_exec_host){.advanced = advanced,
                                   .lost = lost,
                                   .must_skip = must_skip,
                                   .succeeded = succeeded,
                                   .poison_active = &poison};
    ra_store_relaxed(&poison, 0);
    cookie = NULL;
    stays = false;
    device.tasks.inject.capacity = capacity;
    device.tasks.inject.cells = slots[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i].device = &device;
        workers[i].index = i;
        workers[i].random = i;
        workers[i].deque.capacity = capacity;
        workers[i].deque.cells = slots[i];
    }
    memset((void *)slots, 0, sizeof slots);
    memset(reached, 0, sizeof reached);
    losses = 0;
    for (uint64_t i = 0; i < CELLS; i++) {
        cells[i] = i + 1;
        memories[i] = (rota_exec_memory){.address = (uintptr_t)&cells[i], .host = &cells[i], .size_bytes = 8};
    }
    explore_check(rota_cpu_queues_init(&device) == ROTA_OK, "no memory");
    explore_name(&device.tasks.inject.bottom, 8, "inject.bottom");
    explore_name(&device.tasks.inject.top, 8, "inject.top");
    explore_name(&device.tasks.searchers, 4, "searchers");
    explore_name(&device.tasks.idle[0], 8, "idle");
    explore_name(&device.pump.kick, 4, "kick");
    explore_name(&device.pump.events, 4, "events");
    explore_name(&device.tasks.overflow, 8, "overflow");
    explore_name(&device.end.stop, 4, "stop");
    explore_name(device.queues, sizeof device.queues, "queues");
    explore_name(workers, sizeof workers, "workers");
    explore_name(cells, sizeof cells, "cells");
}

static void begin(void) {
    begin_with(SLOTS);
}

/* A deque of one: what does not fit goes to the overflow list. */
static void begin_small(void) {
    begin_with(1);
}

/* Works are asked about, and so can stop. */
static void begin_asked(void) {
    begin();
    ra_store_relaxed(&poison, 1);
}

/* The same, of workers that are near nobody: as on two packages. */
static void begin_apart(void) {
    begin_asked();
    for (uint32_t i = 0; i < WORKERS; i++)
        workers[i].near = (rota_cpu_near){.levels = {{i, 1}}, .level_count = 1};
}

static void work(void) {
    (void)rota_cpu_worker_main(&workers[explore_self() - 1]);
}

enum { TOGETHER_MAX = 3 };
typedef struct call {
    rota_exec_work works[TOGETHER_MAX];
    rota_exec_copy copies[TOGETHER_MAX];
    rota_exec_wait waits[TOGETHER_MAX];
    uint32_t count;
} call;

/* cells[to] = cells[from] on a queue, after a value of another one (0: none). to == from: no copy. */
static void add(call *c, uint32_t queue, uint64_t signal, unsigned to, unsigned from, uint32_t other,
                uint64_t value) {
    const uint32_t i = c->count++;
    c->copies[i] = (rota_exec_copy){&memories[to], &memories[from], 0, 0, 8};
    c->waits[i] = (rota_exec_wait){other, value};
    c->works[i] = (rota_exec_work){.copies = &c->copies[i],
                                   .copy_count = to != from,
                                   .cookie = cookie,
                                   .queue = queue,
                                   .signal_value = signal,
                                   .waits = &c->waits[i],
                                   .wait_count = value != 0};
}

static void hand_over(const call *c) {
    explore_check(rota_cpu_submit(&device.base, c->works, c->count) == ROTA_OK, "submit fails");
}

static void submit(uint32_t queue, uint64_t signal, unsigned to, unsigned from, uint32_t other,
                   uint64_t value) {
    call c = {.count = 0};
    add(&c, queue, signal, to, from, other, value);
    hand_over(&c);
}

static void expect(uint64_t first, uint64_t second, unsigned cell, uint64_t value) {
    explore_check(reached[0] == first && reached[1] == second,
                  "the timelines end at %llu and %llu, not %llu and %llu", (unsigned long long)reached[0],
                  (unsigned long long)reached[1], (unsigned long long)first, (unsigned long long)second);
    explore_check(cells[cell] == value, "cell %u has %llu, not %llu", cell, (unsigned long long)cells[cell],
                  (unsigned long long)value);
}

static void submit_one(void) {
    submit(0, 1, 1, 0, 0, 0);
}
static void end_one(void) {
    expect(1, 0, 1, 1);
}

static void submit_two(void) {
    submit(0, 1, 1, 0, 0, 0);
    submit(0, 2, 3, 2, 0, 0);
}
static void end_two(void) {
    expect(2, 0, 3, 3);
}

static void submit_pair(void) {
    submit(0, 1, 1, 0, 0, 0);
    submit(1, 1, 2, 1, 0, 1);
}
static void end_pair(void) {
    expect(1, 1, 2, 1);
}

/* Whoever has the first of them, the other one is another worker's. */
static void submit_hung(void) {
    cookie = &hung;
    submit(0, 1, 1, 0, 0, 0);
    cookie = NULL;
    submit(1, 1, 3, 2, 0, 0);
}
static void end_hung(void) {
    expect(0, 1, 3, 3);
}

static void submit_chain(void) {
    submit_pair();
    submit(0, 2, 3, 2, 1, 1);
}
static void end_chain(void) {
    expect(2, 1, 3, 1);
}

/* One more that waits for nothing, but behind one that is held: where that is let go meanwhile, nobody else
 * looks. */
static void submit_behind(void) {
    submit_pair();
    submit(1, 2, 5, 4, 0, 0);
}
static void end_behind(void) {
    expect(1, 2, 5, 5);
}

/* Works of a queue start in order, and do not wait for each other's ends. */
static void submit_behind_hung(void) {
    submit(0, 1, 1, 0, 0, 0);
    cookie = &hung;
    submit(1, 1, 2, 1, 0, 1);
    cookie = NULL;
    submit(1, 2, 5, 4, 0, 0);
}
static void end_behind_hung(void) {
    expect(1, 0, 5, 5);
}

/* One more that waits for nothing: whoever starts the one that never ends, the other worker has this one. */
static void submit_hung_and_free(void) {
    submit(0, 1, 1, 0, 0, 0);
    cookie = &hung;
    submit(1, 1, 2, 1, 0, 1);
    cookie = NULL;
    submit(0, 2, 5, 4, 0, 0);
}
static void end_hung_and_free(void) {
    expect(2, 0, 5, 5);
}

static void submit_three_at_once(void) {
    call c = {.count = 0};
    add(&c, 0, 1, 1, 0, 0, 0);
    add(&c, 1, 1, 3, 2, 0, 0);
    add(&c, 0, 2, 5, 4, 0, 0);
    hand_over(&c);
}
static void end_three_at_once(void) {
    expect(2, 1, 5, 5);
}

/* Both behind one that is held until the call before has been worked on. */
static void submit_behind_at_once(void) {
    submit_pair();
    call c = {.count = 0};
    add(&c, 1, 2, 5, 4, 0, 0);
    add(&c, 1, 3, 3, 5, 1, 2);
    hand_over(&c);
}
static void end_behind_at_once(void) {
    expect(1, 3, 3, 5);
}

/* A work without copies, which the pump itself completes. */
static void submit_empty(void) {
    submit(0, 1, 1, 0, 0, 0);
    submit(1, 1, 0, 0, 0, 1);
}
static void end_empty(void) {
    expect(1, 1, 1, 1);
}

/* One more on the first queue is complete as soon as it is started, with which the pump goes on when it has handed the
 * other queue's to its worker. */
static void submit_empty_beside(void) {
    submit(0, 1, 1, 0, 0, 0);
    submit(1, 1, 2, 1, 0, 1);
    submit(0, 2, 0, 0, 0, 1);
}
static void end_empty_beside(void) {
    expect(2, 1, 2, 1);
}

/* There is room for two works, and who makes more stays there for ever. */
static void submit_and_stay(void) {
    call c = {.count = 0};
    add(&c, 0, 1, 1, 0, 0, 0);
    add(&c, 1, 1, 2, 1, 0, 1);
    add(&c, 0, 2, 4, 3, 0, 0);
    stays = true;
    hand_over(&c);
}
static void end_stays(void) {
    expect(1, 1, 2, 1);
}

/* The second of the call has more copies than stand in a work. */
static void submit_copies_and_stay(void) {
    call c = {.count = 0};
    add(&c, 0, 1, 1, 0, 0, 0);
    add(&c, 1, 1, 3, 2, 0, 0);
    c.copies[2] = (rota_exec_copy){&memories[5], &memories[4], 0, 0, 8};
    c.works[1].copy_count = 2;
    stays = true;
    hand_over(&c);
}
/* More words. */
static void submit_words_and_stay(void) {
    static const rota_exec_program program = {.block_words = ROTA_CPU_INLINE_WORDS + 1};
    static rota_exec_instance instance = {.program = &program};
    call c = {.count = 0};
    add(&c, 0, 1, 1, 0, 0, 0);
    add(&c, 1, 1, 0, 0, 0, 0);
    c.works[1].instance = &instance;
    stays = true;
    hand_over(&c);
}
static void end_large_stays(void) {
    expect(1, 0, 1, 1);
}

static void submit_many(void) {
    submit(0, 1, 1, 0, 0, 0);
    submit(0, 2, 3, 2, 0, 0);
    submit(1, 1, 5, 4, 0, 0);
}
static void end_many(void) {
    expect(2, 1, 5, 5);
}

static void submit_and_lose(void) {
    submit(0, 1, 1, 0, 0, 0);
    rota_cpu_lose(&device, "no memory");
}
static void end_lost(void) {
    explore_check(losses == 1, "the host was told of the loss %u times", losses);
}

/* ---- A deque alone: each task is taken once, with what its pusher wrote ---- */

enum { TASKS = 3 };
static rota_cpu_task tasks[TASKS];
static uint32_t taken[TASKS];

static void begin_deque(void) {
    begin();
    for (uint32_t i = 0; i < TASKS; i++) {
        tasks[i].unit = 0;
        taken[i] = 0;
    }
    explore_name(tasks, sizeof tasks, "tasks");
}

static void took(rota_cpu_task *task) {
    if (!task) return;
    const uint32_t index = (uint32_t)(task - tasks);
    explore_check(task->unit == index + 1, "task %u has another one's contents", index);
    task->unit = 99; /* a race, where it is taken twice */
    taken[index]++;
}

static void push(uint32_t index) {
    tasks[index].unit = index + 1;
    explore_check(rota_cpu_deque_push(&workers[0].deque, &tasks[index]), "the deque is full");
}

static void own(void) {
    push(0);
    push(1);
    took(rota_cpu_deque_pop(&workers[0].deque));
    push(2);
    for (rota_cpu_task *task; (task = rota_cpu_deque_pop(&workers[0].deque));) took(task);
}

static void steal(void) {
    took(rota_cpu_deque_steal(&workers[0].deque));
}

static void steal_twice(void) {
    steal();
    steal();
}

static void end_deque(void) {
    for (uint32_t i = 0; i < TASKS; i++)
        explore_check(taken[i] == 1, "task %u was taken %u times", i, taken[i]);
}

int main(int argc, char **argv) {
    enum { SLEEP = 1 << 1 | 1 << 2, STAY = 1 << 0 | SLEEP };
    static const explore_scenario scenarios[] = {
        {"a deque and two thieves", 5, 3, {own, steal, steal_twice}, begin_deque, end_deque, false, 0},
        {"one worker, two works in order", 3, 2, {submit_pair, work}, begin, end_pair, false, SLEEP},
        {"a work behind one that is let go", 2, 1, {submit_behind, work}, begin, end_behind, false, SLEEP},
        {"two works in one call behind one that is let go",
         2,
         1,
         {submit_behind_at_once, work},
         begin,
         end_behind_at_once,
         false,
         SLEEP},
        {"one work", 3, 2, {submit_one, work, work}, begin, end_one, false, SLEEP},
        {"two works", 2, 1, {submit_two, work, work}, begin, end_two, false, SLEEP},
        {"three works in one call",
         1,
         0,
         {submit_three_at_once, work, work},
         begin,
         end_three_at_once,
         false,
         SLEEP},
        {"a work that never ends, and another",
         2,
         1,
         {submit_hung, work, work},
         begin_asked,
         end_hung,
         false,
         SLEEP},
        {"the same, of workers that are far from each other",
         2,
         1,
         {submit_hung, work, work},
         begin_apart,
         end_hung,
         false,
         SLEEP},
        {"a work behind one that is let go and never ends",
         2,
         1,
         {submit_behind_hung, work, work},
         begin_asked,
         end_behind_hung,
         false,
         SLEEP},
        {"a work that is let go and never ends, and another",
         2,
         1,
         {submit_hung_and_free, work, work},
         begin_asked,
         end_hung_and_free,
         false,
         SLEEP,
         -1},
        {"a work that waits", 2, 1, {submit_pair, work, work}, begin, end_pair, false, SLEEP},
        {"a chain over two queues", 1, 0, {submit_chain, work, work}, begin, end_chain, false, SLEEP},
        {"an empty work that waits", 2, 1, {submit_empty, work, work}, begin, end_empty, false, SLEEP},
        {"an empty work beside one that is let go",
         2,
         1,
         {submit_empty_beside, work},
         begin,
         end_empty_beside,
         false,
         SLEEP},
        {"who submits stays where it makes works",
         2,
         1,
         {submit_and_stay, work},
         begin,
         end_stays,
         false,
         STAY},
        {"who submits stays where it makes room for copies",
         2,
         1,
         {submit_copies_and_stay, work},
         begin,
         end_large_stays,
         false,
         STAY},
        {"who submits stays where it makes room for words",
         2,
         1,
         {submit_words_and_stay, work},
         begin,
         end_large_stays,
         false,
         STAY},
        {"more than a deque holds", 2, 0, {submit_many, work, work}, begin_small, end_many, false, SLEEP, -1},
        {"a loss", 2, 1, {submit_and_lose, work, work}, begin, end_lost, false, SLEEP},
    };
    return explore_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
