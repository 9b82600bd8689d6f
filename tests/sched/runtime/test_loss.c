/* What is left when a device is lost while others of its runtime go on: nothing that rests on what it did not
 * do ends well, and memory that a ticket's end gives back is left alone, by the devices that live, too. */
#include "tests/sched/runtime/across_kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/ticket_state.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/nap.h"

/* The first device, with the gate's work before it, is lost. */
static void lose_the_first(pair *p) {
    p->options.faults.lost_in_works = 1;
    test_gate_open(true);
}

/* Two readers of what the lost device was to write, one after the other on one queue: the second one's wait
 * is no less in vain than the first's, and so is that of whoever comes after the loss. */
static void a_second_reader(void **state) {
    (void)state;
    scene s;
    scene_open(&s, 10000000000u);
    rota_buffer *second = test_words(s.p->devices[1], "second", WORDS, 77);
    rota_plan *copy = test_plan_copy_kernel(s.p->devices[1], "second copy", s.x, second);
    rota_ticket tickets[3];
    uint32_t word;
    scene_wait_on_device(&s);
    assert_ok(rota_submit_wait(copy, NULL, 0, &tickets[0]));
    test_nap_ms(20);
    lose_the_first(s.p);
    assert_status(rota_wait(s.step_ticket, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(s.copy_ticket, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(tickets[0], 0), ROTA_DEVICE_LOST);
    assert_status(rota_buffer_read(second, 0, &word, 4), ROTA_DEVICE_LOST);
    for (uint32_t i = 1; i < 3; i++) {
        assert_ok(rota_submit_wait(copy, NULL, 0, &tickets[i]));
        assert_status(rota_wait(tickets[i], 0), ROTA_DEVICE_LOST);
    }
    assert_status(rota_buffer_read(s.x, 0, &word, 4), ROTA_DEVICE_LOST);
    assert_ok(rota_wait(s.alone_ticket, 0));
    scene_release(&s);
    rota_plan_release(copy);
    rota_buffer_release(second);
    close_after_loss(s.p);
}

/* The same for replays of one plan, whose waits are found once and counted on. */
static void replays_in_a_row(void **state) {
    (void)state;
    enum { COPIES = 10, REPLAYS = 4 };
    scene s;
    scene_open(&s, 10000000000u);
    rota_buffer *to[COPIES];
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "copies"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < COPIES; i++) {
        to[i] = test_words(s.p->devices[1], "to", WORDS, 77);
        rota_access accesses[] = {{s.x, 0, ROTA_WHOLE, ROTA_READ}, {to[i], 0, ROTA_WHOLE, ROTA_WRITE}};
        rota_kernel_node node =
            ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses, .access_count = 2);
        assert_ok(rota_record_kernel(recorder, &node, NULL));
    }
    rota_recorder_close(recorder);
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "copies", .devices = &s.p->devices[1], .device_count = 1);
    assert_ok(rota_compile(s.p->runtime, graph, &options, &plan));
    rota_graph_release(graph);
    rota_ticket tickets[REPLAYS];
    scene_wait_on_device(&s);
    for (uint32_t i = 0; i < REPLAYS; i++) assert_ok(rota_submit_wait(plan, NULL, 0, &tickets[i]));
    test_nap_ms(50);
    lose_the_first(s.p);
    assert_status(rota_wait(s.step_ticket, 0), ROTA_DEVICE_LOST);
    for (uint32_t i = 0; i < REPLAYS; i++) assert_status(rota_wait(tickets[i], 0), ROTA_DEVICE_LOST);
    scene_release(&s);
    rota_plan_release(plan);
    for (uint32_t i = 0; i < COPIES; i++) rota_buffer_release(to[i]);
    close_after_loss(s.p);
}

static void *read_word(void *user) {
    uint32_t word;
    static rota_status status;
    status = rota_buffer_read(user, 0, &word, 4);
    return &status;
}

/* A read is under way when its device is lost; then the runtime is closed. */
static void a_read_under_way(void **state) {
    (void)state;
    pair *p = open_pair(7, 10000000000u, 0);
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, 1);
    rota_plan *gate = test_plan_1(p->devices[0], "gate", &test_gate, x, ROTA_READWRITE);
    pthread_t thread;
    void *status;
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_int_equal(pthread_create(&thread, NULL, read_word, x), 0);
    test_nap_ms(100);
    lose_the_first(p);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal(*(rota_status *)status, ROTA_DEVICE_LOST);
    rota_plan_release(gate);
    rota_buffer_release(x);
    close_after_loss(p);
}

/* The device that is lost has the end of a plan; the one that lives takes the inputs, late, since they
 * come after what waits for the gate. The ticket does not end before: the caller frees them then, or, with
 * `copied`, the library what it copied them to (which the sanitizers see). */
static void inputs_of_the_survivor(bool copied) {
    pair *p = open_pair(3, 10000000000u, 1);
    rota_buffer *in, *out, *y = test_words(p->devices[0], "y", WORDS, 1),
                           *z = test_words(p->devices[1], "z", WORDS, 1);
    rota_plan *plan = through_both(p, 1, z, &in, &out);
    rota_plan *gate = test_plan_1(p->devices[0], "gate", &test_gate, y, ROTA_READWRITE);
    rota_plan *step = test_plan_1(p->devices[0], "step", &test_increment, y, ROTA_READWRITE);
    rota_plan *copy = test_plan_copy_kernel(p->devices[1], "copy", y, z);
    rota_args *args;
    rota_ticket ticket;
    rota_status status;
    uint32_t *from = calloc(WORDS, 4), *to = calloc(WORDS, 4);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, from, WORDS * 4, copied));
    assert_ok(rota_args_set_output(args, out, to, WORDS * 4));
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(step, NULL, 0, NULL));
    assert_ok(rota_submit_wait(copy, NULL, 0, NULL));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    test_nap_ms(50);
    ra_store_relaxed(&p->loss_ms, 300);
    lose_the_first(p);
    while ((status = rota_poll(ticket)) == ROTA_BUSY) {
    }
    assert_int_equal(status, ROTA_DEVICE_LOST);
    if (copied) rota_args_release(args);
    free(from);
    free(to);
    test_nap_ms(400);
    assert_status(rota_poll(ticket), ROTA_DEVICE_LOST);
    if (!copied) rota_args_release(args);
    rota_plan *plans[] = {plan, gate, step, copy};
    for (uint32_t i = 0; i < 4; i++) rota_plan_release(plans[i]);
    rota_buffer_release(y);
    rota_buffer_release(z);
    close_after_loss(p);
}

static void borrowed_inputs(void **state) {
    (void)state;
    inputs_of_the_survivor(false);
}

static void copied_inputs(void **state) {
    (void)state;
    inputs_of_the_survivor(true);
}

static _Atomic uint32_t second_gate;

static rota_status wait_at_second_gate(const rota_kernel_call *call) {
    (void)call;
    while (!ra_load_seq_cst(&second_gate)) test_nap_ms(1);
    return ROTA_OK;
}
static const rota_kernel second_gate_kernel = {
    .name = "second gate", .operand_count = 1, .cpu = {.fn = wait_at_second_gate}};

static rota_status fives(const rota_kernel_call *call) {
    ROTA_TRY(test_gate.cpu.fn(call));
    uint32_t *half = call->operands[0], *whole = call->operands[1];
    for (uint32_t i = 0; i < WORDS / 2; i++) half[i] = 5;
    for (uint32_t i = 0; i < WORDS; i++) whole[i] = 5;
    return ROTA_OK;
}
static const rota_kernel fives_kernel = {.name = "fives", .operand_count = 2, .cpu = {.fn = fives}};

/* A write to a device waits for two others, one of which is lost; what comes after it on its queue and needs
 * the other still waits for that. */
static void one_of_two_is_lost(void **state) {
    (void)state;
    pair *p = open_pair(3, 10000000000u, 1);
    rota_device *cpu, *first = p->devices[0], *second = p->devices[1];
    assert_ok(rota_device_open(p->runtime, "cpu", &cpu));
    rota_buffer *c = test_words(first, "c", WORDS, 1), *d = test_words(cpu, "d", WORDS, 1),
                *r = test_words(second, "r", WORDS, 1), *h = test_words(first, "h", WORDS / 2, 1);
    test_expect_words(c, WORDS, 1);
    test_expect_words(r, WORDS, 1); /* no work is left that could end before the one that is to */
    test_expect_words(h, WORDS / 2, 1);
    test_node on_cpu = {
        &fives_kernel, "fives", {{c, WORDS * 2, WORDS * 2, ROTA_WRITE}, {d, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    test_node on_first = {
        &test_copy, "first", {{c, 0, WORDS * 2, ROTA_READ}, {h, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *plans[] = {test_plan_1(first, "gate", &second_gate_kernel, h, ROTA_READWRITE),
                          test_plan(cpu, "fives", &on_cpu, 1), test_plan(first, "first", &on_first, 1),
                          test_plan_copy_kernel(second, "second", d, r)};
    rota_ticket tickets[4], written;
    static const uint32_t words[WORDS];
    test_gate_open(false);
    ra_store_seq_cst(&second_gate, 0);
    assert_ok(rota_submit_wait(plans[1], NULL, 0, &tickets[1]));
    assert_ok(rota_submit_wait(plans[0], NULL, 0, &tickets[0]));
    assert_ok(rota_submit_wait(plans[2], NULL, 0, &tickets[2]));
    assert_ok(rota_buffer_write(c, second, 0, words, sizeof words, &written));
    assert_ok(rota_submit_wait(plans[3], NULL, 0, &tickets[3]));
    test_nap_ms(100);
    p->options.faults.lost_in_works = 1;
    ra_store_seq_cst(&second_gate, 1);
    rota_status status = rota_wait(tickets[3], 300000000u); /* what it reads is not written yet */
    assert_int_equal(status, ROTA_TIMEOUT);
    test_gate_open(true);
    assert_ok(rota_wait(tickets[1], 0));
    assert_ok(rota_wait(tickets[3], 0));
    test_expect_words(r, WORDS, 5);
    assert_status(rota_wait(written, 0), ROTA_DEVICE_LOST);
    rota_buffer *buffers[] = {c, d, r, h};
    for (uint32_t i = 0; i < 4; i++) {
        rota_plan_release(plans[i]);
        rota_buffer_release(buffers[i]);
    }
    close_after_loss(p);
}

/* Memory whose first reader stays in its copy until `read_on`. */
static struct {
    uint8_t *page;
    size_t bytes;
    struct sigaction before;
    _Atomic uint32_t is_read, read_on;
} kept;

static void at_kept(int number, siginfo_t *info, void *context) {
    (void)context;
    if ((uint8_t *)info->si_addr < kept.page || (uint8_t *)info->si_addr >= kept.page + kept.bytes) {
        (void)sigaction(number, &kept.before, NULL);
        return;
    }
    ra_store_seq_cst(&kept.is_read, 1);
    while (!ra_load_seq_cst(&kept.read_on)) test_nap_ms(1);
    (void)mprotect(kept.page, kept.bytes, PROT_READ | PROT_WRITE);
}

static void keep_readers(size_t bytes) {
    kept.bytes = bytes;
    kept.page = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(kept.page != MAP_FAILED);
    const struct sigaction action = {.sa_sigaction = at_kept, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGSEGV, &action, &kept.before), 0);
}

static void until(const _Atomic uint32_t *flag) {
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (!ra_load_seq_cst(flag) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(flag), 1);
}

static void until_lost(const rota_device *device) {
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (!rota_device_is_lost(device) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_true(rota_device_is_lost(device));
}

/* The lost device's thread is in the caller's INPUT memory when the plan's last work, which is another
 * device's, passes: the ticket has not ended, however many come after it. */
static void an_input_that_is_being_taken(void **state) {
    (void)state;
    enum { LATER = 12000 };
    pair *p = open_pair(3, 20000000000u, 1);
    rota_device *devices[2] = {p->devices[0], NULL};
    assert_ok(rota_device_open(p->runtime, "cpu", &devices[1]));
    rota_buffer *in, *t, *v = test_words(devices[0], "v", WORDS, 1),
                         *y = test_words(devices[1], "y", WORDS, 1),
                         *w = test_words(devices[1], "w", WORDS, 1);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan, *gate = test_plan_1(devices[0], "gate", &test_gate, v, ROTA_READWRITE),
                     *alone = test_plan_1(devices[1], "alone", &test_increment, w, ROTA_READWRITE);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", WORDS * 4, &in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", WORDS * 4, &t));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 2; i++) {
        rota_access accesses[] = {{i ? t : in, 0, ROTA_WHOLE, ROTA_READ},
                                  {i ? y : t, 0, ROTA_WHOLE, ROTA_WRITE}};
        rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses,
                                                 .access_count = 2, .placement = {.device_plus_1 = 1 + i});
        assert_ok(rota_record_kernel(recorder, &node, NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(
        rota_compile(p->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2), &plan));
    rota_graph_release(graph);
    rota_args *args;
    rota_ticket ticket, last;
    keep_readers(4096);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, kept.page, WORDS * 4, false));
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    test_gates_running(1);
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    until(&kept.is_read);
    lose_the_first(p);
    until_lost(devices[0]);
    for (uint32_t i = 0; i < LATER; i++) assert_ok(rota_submit_wait(alone, NULL, 0, &last));
    assert_ok(rota_wait(last, 0));
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    ra_store_seq_cst(&kept.read_on, 1);
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    assert_int_equal(munmap(kept.page, kept.bytes), 0);
    assert_int_equal(sigaction(SIGSEGV, &kept.before, NULL), 0);
    rota_args_release(args);
    rota_buffer *buffers[] = {v, y, w};
    rota_plan *plans[] = {plan, gate, alone};
    for (uint32_t i = 0; i < 3; i++) {
        rota_buffer_release(buffers[i]);
        rota_plan_release(plans[i]);
    }
    close_after_loss(p);
}

/* ---- Three devices and a fourth ---- */

enum { TAKES, LOST, LAST, ROLES };

typedef struct trio {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *by_role[ROLES], *cpu;
    rota_buffer *in, *z, *y, *own[ROLES];
    rota_plan *plan, *gate, *alone[ROLES];
} trio;

static void add_node(rota_recorder *recorder, const rota_kernel *kernel, const rota_access *accesses,
                     uint32_t count, uint32_t role) {
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses, .access_count = count,
                                             .placement = {.device_plus_1 = (uint8_t)(1 + role)});
    assert_ok(rota_record_kernel(recorder, &node, NULL));
}

/* z, which the gate on the CPU has, is changed where the input is taken; the last device has what came of
 * that by way of the one that is lost, or, `beside`, of both of them. */
static rota_plan *trio_plan(trio *t, bool beside) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_buffer *taken, *passed;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", WORDS * 4, &t->in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "taken", WORDS * 4, &taken));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "passed", WORDS * 4, &passed));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_access change = {t->z, 0, ROTA_WHOLE, ROTA_READWRITE};
    rota_access take[] = {{t->in, 0, ROTA_WHOLE, ROTA_READ}, {taken, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_access pass[] = {{beside ? t->own[LOST] : taken, 0, ROTA_WHOLE, ROTA_READ},
                          {passed, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_access end[] = {{passed, 0, ROTA_WHOLE, ROTA_READ}, {t->y, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_access also[] = {{taken, 0, ROTA_WHOLE, ROTA_READ}, {t->y, 0, ROTA_WHOLE, ROTA_WRITE}};
    add_node(recorder, &test_increment, &change, 1, TAKES);
    add_node(recorder, &test_copy, take, 2, TAKES);
    add_node(recorder, &test_copy, pass, 2, LOST);
    add_node(recorder, &test_copy, end, 2, LAST);
    if (beside) add_node(recorder, &test_copy, also, 2, LAST);
    rota_recorder_close(recorder);
    assert_ok(rota_compile(t->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = t->by_role, .device_count = ROLES), &plan));
    rota_graph_release(graph);
    return plan;
}

static void trio_open(trio *t, const uint32_t *order, bool linked, bool beside) {
    static const char *const ids[] = {"adversary", "adversary:1", "adversary:2"};
    memset(t, 0, sizeof *t);
    t->options.seed = 3;
    t->options.shares_memory = t->options.timelines = linked;
    assert_ok(
        adversary_runtime_open(&t->options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &t->runtime));
    for (uint32_t d = 0; d < ROLES; d++)
        assert_ok(rota_device_open(t->runtime, ids[d], &t->by_role[order[d]]));
    assert_ok(rota_device_open(t->runtime, "cpu", &t->cpu));
    t->z = test_words(t->cpu, "z", WORDS, 1);
    t->y = test_words(t->by_role[LAST], "y", WORDS, 1);
    for (uint32_t r = 0; r < ROLES; r++) {
        t->own[r] = test_words(t->by_role[r], "own", WORDS, 1);
        t->alone[r] = test_plan_1(t->by_role[r], "alone", &test_increment, t->own[r], ROTA_READWRITE);
        test_expect_words(t->own[r], WORDS, 1);
    }
    t->gate = test_plan_1(t->cpu, "gate", &test_gate, t->z, ROTA_READWRITE);
    t->plan = trio_plan(t, beside);
}

static void trio_close(trio *t) {
    rota_buffer *buffers[] = {t->z, t->y, t->own[0], t->own[1], t->own[2]};
    rota_plan *plans[] = {t->plan, t->gate, t->alone[0], t->alone[1], t->alone[2]};
    for (uint32_t i = 0; i < 5; i++) {
        rota_plan_release(plans[i]);
        rota_buffer_release(buffers[i]);
    }
    assert_ok(rota_runtime_close(t->runtime, 5000000000u));
    if (t->options.violations) fail_msg("%s", t->options.violation);
}

/* Whoever might end the ticket has looked since: the thread that hands over what comes last, and the
 * sequencer. */
static void all_have_looked(trio *t, bool last_is_lost) {
    rota_ticket ticket;
    for (uint32_t i = 0; i < 3 && !last_is_lost; i++) {
        assert_ok(rota_submit_wait(t->alone[LAST], NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 8000000000u));
    }
    for (uint32_t i = 0; i < 3; i++) rota_sequencer_reap_now(t->runtime);
}

static void inputs_of_one_of_three(const uint32_t *order, bool linked, bool beside, bool last_is_lost) {
    trio *t = malloc(sizeof *t);
    assert_non_null(t);
    rota_args *args;
    rota_ticket ticket, alone;
    trio_open(t, order, linked, beside);
    ra_store_seq_cst(&kept.is_read, 0);
    ra_store_seq_cst(&kept.read_on, 0);
    keep_readers(4096);
    assert_ok(rota_args_create(t->plan, &args));
    assert_ok(rota_args_set_input(args, t->in, kept.page, WORDS * 4, false));
    test_gate_open(false);
    assert_ok(rota_submit_wait(t->gate, NULL, 0, NULL));
    test_gates_running(1);
    /* What the lost one has to do beside does not come to its end. */
    for (uint32_t d = 0; d < ROLES; d++)
        if (order[d] == LOST) ra_store_seq_cst(&t->options.faults.submits_stay, 1u << d);
    assert_ok(rota_submit_wait(t->plan, args, 0, &ticket));
    all_have_looked(t, false);
    rota_device_set_lost(t->by_role[LOST], "given up by the test");
    if (last_is_lost) rota_device_set_lost(t->by_role[LAST], "given up by the test");
    all_have_looked(t, last_is_lost);
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    assert_false(rota_ticket_taken(ticket));
    assert_status(rota_wait(ticket, 1000000u), ROTA_TIMEOUT);
    assert_status(rota_wait_inputs_taken(ticket, 1000000u), ROTA_TIMEOUT);
    assert_int_equal(ra_load_seq_cst(&kept.is_read), 0);
    test_gate_open(true);
    until(&kept.is_read); /* its thread is in the caller's memory, and stays there */
    all_have_looked(t, last_is_lost);
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    assert_false(rota_ticket_taken(ticket));
    ra_store_seq_cst(&kept.read_on, 1);
    rota_status status;
    while ((status = rota_poll(ticket)) == ROTA_BUSY) {
    }
    assert_int_equal(mprotect(kept.page, kept.bytes, PROT_NONE), 0);
    ra_store_seq_cst(&kept.is_read, 0);
    assert_int_equal(status, ROTA_DEVICE_LOST);
    assert_ok(rota_wait_inputs_taken(ticket, 0));
    all_have_looked(t, last_is_lost);
    assert_ok(rota_submit_wait(t->alone[TAKES], NULL, 0, &alone));
    assert_ok(rota_wait(alone, 8000000000u));
    test_expect_words(t->z, WORDS, 2); /* that device did all of its part */
    assert_int_equal(ra_load_seq_cst(&kept.is_read), 0);
    assert_int_equal(sigaction(SIGSEGV, &kept.before, NULL), 0);
    assert_int_equal(munmap(kept.page, kept.bytes), 0);
    ra_store_seq_cst(&t->options.faults.submits_stay, 0);
    rota_args_release(args);
    trio_close(t);
    free(t);
}

/* A device takes inputs late, one is lost, and one, which may be lost too, comes last: the ticket has not
 * ended before the first of them has let go of the caller's memory. Whichever two of them wait for each other
 * on the device. */
static void inputs_while_another_is_lost(void **state) {
    (void)state;
    static const uint32_t orders[6][ROLES] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1},
                                              {1, 0, 2}, {2, 1, 0}, {0, 2, 1}};
    for (uint32_t kind = 0; kind < 4; kind++) inputs_of_one_of_three(orders[0], false, kind & 1, kind & 2);
    for (uint32_t o = 0; o < 6; o++) inputs_of_one_of_three(orders[o], true, o & 1, o > 2);
}

/* a of the first device becomes what `from` is after the kernel, on another device, has changed that. */
static rota_plan *by_way_of(rota_device *first, rota_device *other, const rota_kernel *kernel,
                            rota_buffer *from, rota_buffer *a) {
    rota_device *devices[2] = {first, other};
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_access change = {from, 0, ROTA_WHOLE, ROTA_READWRITE};
    rota_access copy[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {a, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_kernel_node nodes[] = {ROTA_KERNEL_NODE(.kernel = kernel, .accesses = &change, .access_count = 1,
                                                 .placement = {.device_plus_1 = 2}),
                                ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = copy, .access_count = 2,
                                                 .placement = {.device_plus_1 = 1})};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_record_kernel(recorder, &nodes[i], NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(first), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2), &plan));
    rota_graph_release(graph);
    return plan;
}

/* Of what a lost device left, one is at work on another device still. Those that came later to the same queue
 * and are not at work anywhere end before it. */
static void those_behind_one_at_work(void **state) {
    (void)state;
    enum { LATER = 200 };
    pair *p = open_pair(3, 20000000000u, 1);
    rota_device *first = p->devices[0], *second = p->devices[1], *cpu;
    assert_ok(rota_device_open(p->runtime, "cpu", &cpu));
    rota_buffer *a = test_words(first, "a", WORDS, 0), *g = test_words(cpu, "g", WORDS, 1),
                *h = test_words(second, "h", WORDS, 1);
    test_expect_words(a, WORDS, 0);
    test_expect_words(h, WORDS, 1);
    rota_plan *working = by_way_of(first, cpu, &test_gate, g, a),
              *done = by_way_of(first, second, &test_increment, h, a);
    static rota_ticket tickets[LATER];
    rota_ticket ticket;
    test_gate_open(false);
    assert_ok(rota_submit_wait(working, NULL, 0, &ticket));
    test_gates_running(1);
    for (uint32_t i = 0; i < LATER; i++) assert_ok(rota_submit_wait(done, NULL, 0, &tickets[i]));
    uint64_t number, point = rota_ticket_point(ticket, &number);
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (rota_ticket_point(tickets[LATER - 1], &number) == ROTA_POINT_NONE && rota_clock_ns() < deadline)
        test_nap_ms(1);
    assert_int_equal(rota_point_timeline(rota_ticket_point(tickets[LATER - 1], &number)),
                     rota_point_timeline(point));
    rota_device_set_lost(first, "as the test says");
    for (uint32_t i = 0; i < LATER; i++) assert_status(rota_wait(tickets[i], 8000000000u), ROTA_DEVICE_LOST);
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    test_gate_open(true);
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    rota_buffer *buffers[] = {a, g, h};
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    rota_plan_release(working);
    rota_plan_release(done);
    close_after_loss(p);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_reader),
        cmocka_unit_test(replays_in_a_row),
        cmocka_unit_test(a_read_under_way),
        cmocka_unit_test(borrowed_inputs),
        cmocka_unit_test(copied_inputs),
        cmocka_unit_test(one_of_two_is_lost),
        cmocka_unit_test(an_input_that_is_being_taken),
        cmocka_unit_test(inputs_while_another_is_lost),
        cmocka_unit_test(those_behind_one_at_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
