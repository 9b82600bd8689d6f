/* See stopped_calls.h. */
#include "tests/sched/runtime/stopped_calls.h"

#include <pthread.h>
#include <string.h>
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/embed.h"
#include "sched/runtime/shared/external_semaphore.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/kernels/kernels.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/nap.h"

enum {
    CROWD = 8,
    MANY = ROTA_TICKET_HISTORY + 300,
    FORGOTTEN = ROTA_TICKET_HISTORY + 1200,
    SPARE_SLOTS = 12
};

static rota_status expect(rota_status got, rota_status wanted) {
    if (got == wanted) return ROTA_OK;
    return rota_fail(ROTA_INTERNAL, "the call gave %s, expected %s", rota_status_name(got),
                     rota_status_name(wanted));
}

/* ---- The world ---- */

/* The test kernel, which here says what its parameters in slots are. */
static rota_kernel accumulate;
static rota_kernel_bindable accumulate_bindables[TEST_BIND_COUNT + 1];

static void make_kernel(void) {
    accumulate = test_kernels[TEST_KERNEL_accumulate].kernel;
    for (uint32_t i = 0; i <= TEST_BIND_COUNT; i++) accumulate_bindables[i] = accumulate.bindables[i];
    accumulate_bindables[TEST_BIND_P].type = ROTA_VALUE_U32;
    accumulate.bindables = accumulate_bindables;
}

static rota_status record_add(rota_recorder *recorder, rota_buffer *sum, rota_buffer *source, rota_slot p,
                              rota_node *out_node) {
    test_params params = {.n = STOPPED_WORDS, .m = STOPPED_WORDS, .p = 0, .seed = 0};
    rota_access accesses[] = {{sum, 0, ROTA_WHOLE, ROTA_ACCUMULATE}, {source, 0, ROTA_WHOLE, ROTA_READ}};
    rota_param_binding bindings[] = {{TEST_BIND_SEED, ROTA_SLOT_CONSTANT}, {TEST_BIND_P, p}};
    return rota_record_kernel(recorder,
                              &ROTA_KERNEL_NODE(.kernel = &accumulate, .accesses = accesses,
                                                .access_count = 2, .params = &params, .bindings = bindings,
                                                .binding_count = p.index ? 2 : 1),
                              out_node);
}

rota_status world_record(world *w, rota_recorder *recorder, rota_node *out_node) {
    return record_add(recorder, w->shared, w->ones, (rota_slot){0}, out_node);
}

static rota_status words(world *w, const char *name, uint32_t value, rota_buffer **out) {
    uint32_t values[STOPPED_WORDS];
    for (uint32_t i = 0; i < STOPPED_WORDS; i++) values[i] = value;
    ROTA_TRY(rota_buffer_create_in(w->runtime, name, sizeof values, out));
    return rota_buffer_write(*out, w->device, 0, values, sizeof values, NULL);
}

static rota_status compile(rota_runtime *runtime, rota_device *device, rota_graph *graph,
                           rota_plan **out_plan) {
    return rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1),
                        out_plan);
}

/* A plan of one kernel on one buffer. */
static rota_status plan_of(rota_runtime *runtime, rota_device *device, const rota_kernel *kernel,
                           rota_buffer *buffer, rota_access_mode mode, rota_plan **out_plan) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_access access = {buffer, 0, ROTA_WHOLE, mode};
    ROTA_TRY(rota_graph_create(NULL, &graph));
    ROTA_TRY(rota_recorder_open(graph, 1, NULL, &recorder));
    rota_status status = rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = &access, .access_count = 1), NULL);
    rota_recorder_close(recorder);
    if (status == ROTA_OK) status = compile(runtime, device, graph, out_plan);
    rota_graph_release(graph);
    return status;
}

rota_status world_open(world *w) {
    memset(w, 0, sizeof *w);
    make_kernel();
    rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.timeout_ns = STOPPED_PATIENCE_NS, .worker_threads = 2);
    ROTA_TRY(adversary_runtime_open(&w->adversary, &options, &w->runtime));
    ROTA_TRY(rota_device_open(w->runtime, "cpu", &w->device));
    ROTA_TRY(words(w, "shared", 0, &w->shared));
    ROTA_TRY(words(w, "ones", 1, &w->ones));
    ROTA_TRY(rota_graph_create(NULL, &w->graph));
    rota_graph *graph;
    rota_recorder *recorder;
    ROTA_TRY(rota_graph_create(NULL, &graph));
    ROTA_TRY(rota_recorder_open(graph, 1, NULL, &recorder));
    ROTA_TRY(world_record(w, recorder, NULL));
    rota_recorder_close(recorder);
    ROTA_TRY(compile(w->runtime, w->device, graph, &w->plan));
    rota_graph_release(graph);
    return ROTA_OK;
}

rota_status world_close(world *w) {
    rota_external_timeline_release(w->semaphore);
    rota_plan_release(w->plan);
    rota_graph_release(w->graph);
    rota_buffer_release(w->shared);
    rota_buffer_release(w->ones);
    return rota_runtime_close(w->runtime, STOPPED_PATIENCE_NS);
}

void victim_drop(victim *v) {
    rota_recorder_close(v->recorder);
    rota_args_release(v->args);
    rota_plan_release(v->plan);
    rota_buffer_release(v->view);
    rota_buffer_release(v->buffer);
    rota_graph_release(v->graph);
    rota_external_timeline_release(v->timeline);
}

/* ---- Record ---- */

static rota_status open_lane(victim *v) {
    ROTA_TRY(rota_graph_slot(v->w->graph, "p", 4, &v->slot));
    ROTA_TRY(rota_recorder_open(v->w->graph, 1000, NULL, &v->recorder));
    return rota_recorder_reserve(v->recorder, 8, 32, 1024);
}

static rota_status record_nodes(victim *v) {
    rota_node nodes[4];
    for (uint32_t i = 0; i < 4; i++, v->recorded++)
        ROTA_TRY(record_add(v->recorder, v->w->shared, v->w->ones, v->slot, &nodes[i]));
    ROTA_TRY(rota_node_after(v->recorder, nodes[3], nodes[0]));
    rota_recorder_close(v->recorder);
    v->recorder = NULL;
    return ROTA_OK;
}

static rota_status open_closed_lane(victim *v) {
    ROTA_TRY(open_lane(v));
    rota_recorder_close(v->recorder);
    return ROTA_OK;
}

static rota_status record_too_late(victim *v) {
    return expect(record_add(v->recorder, v->w->shared, v->w->ones, v->slot, NULL), ROTA_WRONG_STATE);
}

/* ---- Submit ---- */

static rota_status let_it_sleep(victim *v) {
    (void)v;
    test_nap_ms(3); /* the sequencer spins for far less */
    return ROTA_OK;
}

static rota_status submit_one(victim *v) {
    ROTA_TRY(rota_submit(v->w->plan, NULL, &v->ticket));
    v->added++;
    return ROTA_OK;
}

/* The shared plan's node with its source in a slot, and many words of arguments. */
static rota_status make_slot_plan(victim *v) {
    world *w = v->w;
    rota_recorder *recorder;
    ROTA_TRY(rota_graph_create(NULL, &v->graph));
    ROTA_TRY(rota_recorder_open(v->graph, 1, NULL, &recorder));
    ROTA_TRY(rota_graph_buffer(v->graph, ROTA_BUFFER_SLOT, "source", STOPPED_WORDS * 4, &v->slot_buffer));
    rota_slot slots[SPARE_SLOTS];
    for (uint32_t i = 0; i < SPARE_SLOTS; i++) {
        char name[2] = {(char)('a' + i), 0};
        ROTA_TRY(rota_graph_slot(v->graph, name, 4, &slots[i]));
    }
    ROTA_TRY(record_add(recorder, w->shared, v->slot_buffer, slots[0], NULL));
    rota_recorder_close(recorder);
    ROTA_TRY(compile(w->runtime, w->device, v->graph, &v->plan));
    ROTA_TRY(rota_args_create(v->plan, &v->args));
    for (uint32_t i = 0; i < SPARE_SLOTS; i++) ROTA_TRY(rota_args_set_u32(v->args, slots[i], 0));
    return ROTA_OK;
}

static rota_status make_arguments(victim *v) {
    ROTA_TRY(make_slot_plan(v));
    return rota_args_set_buffer(v->args, v->slot_buffer, v->w->ones);
}

/* Rounds every ring that a submission has a place in. */
static rota_status submit_many(victim *v) {
    for (uint32_t i = 0; i < MANY; i++, v->added++)
        ROTA_TRY(rota_submit_wait(v->plan, v->args, STOPPED_PATIENCE_NS, &v->ticket));
    return ROTA_OK;
}

static rota_status rest_sequencer(world *w) {
    return rota_runtime_lock_submission(w->runtime, true);
}
static rota_status wake_sequencer(world *w) {
    return rota_runtime_lock_submission(w->runtime, false);
}

/* More than a lane holds, while nothing is taken from it. */
static rota_status submit_too_many(victim *v) {
    for (uint32_t i = 0; i < 300; i++, v->added++)
        ROTA_TRY(rota_submit_wait(v->w->plan, NULL, 0, &v->ticket));
    return ROTA_OK;
}

/* A thread that has ended leaves its lane to the victim. */
static void *submit_and_end(void *user) {
    victim *v = user;
    return submit_one(v) == ROTA_OK ? NULL : v;
}
static rota_status leave_a_lane(victim *v) {
    pthread_t thread;
    void *failed;
    if (pthread_create(&thread, NULL, submit_and_end, v) != 0) return rota_fail(ROTA_SYSTEM, "no thread");
    (void)pthread_join(thread, &failed);
    return failed ? rota_fail(ROTA_INTERNAL, "another thread's submit failed") : ROTA_OK;
}

static struct {
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *buffer;
    rota_plan *plan;
} crowd[CROWD];

rota_status crowd_open(void) {
    for (uint32_t i = 0; i < CROWD; i++) {
        ROTA_TRY(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1), &crowd[i].runtime));
        ROTA_TRY(rota_device_open(crowd[i].runtime, "cpu", &crowd[i].device));
        ROTA_TRY(rota_buffer_create_in(crowd[i].runtime, "x", 256, &crowd[i].buffer));
        test_fail = 0;
        ROTA_TRY(plan_of(crowd[i].runtime, crowd[i].device, &test_failing, crowd[i].buffer, ROTA_WRITE,
                         &crowd[i].plan));
    }
    return ROTA_OK;
}

rota_status crowd_close(void) {
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < CROWD; i++) {
        rota_plan_release(crowd[i].plan);
        rota_buffer_release(crowd[i].buffer);
        rota_status closed = rota_runtime_close(crowd[i].runtime, STOPPED_PATIENCE_NS);
        if (status == ROTA_OK) status = closed;
    }
    return status;
}

/* A lane in as many runtimes as a thread remembers: the next one it claims makes it give one back. */
static rota_status join_crowd(victim *v) {
    (void)v;
    for (uint32_t i = 0; i < CROWD; i++) {
        rota_ticket ticket;
        ROTA_TRY(rota_submit(crowd[i].plan, NULL, &ticket));
        ROTA_TRY(rota_wait(ticket, STOPPED_PATIENCE_NS));
    }
    return ROTA_OK;
}

/* ---- Poll ---- */

static rota_status close_gate(world *w) {
    (void)w;
    test_gate_open(false);
    return ROTA_OK;
}
static rota_status open_gate(world *w) {
    (void)w;
    test_gate_open(true);
    return ROTA_OK;
}

static rota_status submit_kernel(victim *v, const rota_kernel *kernel) {
    world *w = v->w;
    ROTA_TRY(words(w, "the victim's", 0, &v->buffer));
    ROTA_TRY(plan_of(w->runtime, w->device, kernel, v->buffer,
                     kernel == &test_failing ? ROTA_WRITE : ROTA_READWRITE, &v->plan));
    return rota_submit(v->plan, NULL, &v->ticket);
}

static rota_status submit_gate(victim *v) {
    ROTA_TRY(submit_kernel(v, &test_gate));
    test_nap_ms(3); /* on its way to a worker */
    return ROTA_OK;
}
static rota_status poll_busy(victim *v) {
    ROTA_TRY(expect(rota_wait_inputs_taken(v->ticket, STOPPED_PATIENCE_NS), ROTA_OK));
    rota_status status = rota_poll(v->ticket);
    return status == ROTA_OK ? ROTA_OK
                             : expect(status, ROTA_BUSY); /* OK: the gate opened while it was halted */
}

static rota_status submit_and_wait(victim *v) {
    ROTA_TRY(submit_one(v));
    return rota_wait(v->ticket, STOPPED_PATIENCE_NS);
}
static rota_status poll_done(victim *v) {
    uint64_t number;
    ROTA_TRY(rota_ticket_number(v->ticket, &number));
    return rota_poll(v->ticket);
}

static rota_status submit_failing(victim *v) {
    test_fail = 1;
    rota_status status = submit_kernel(v, &test_failing);
    if (status == ROTA_OK) status = expect(rota_wait(v->ticket, STOPPED_PATIENCE_NS), ROTA_NODE_FAILED);
    test_fail = 0;
    return status;
}
static rota_status poll_failed(victim *v) {
    rota_ticket ticket = v->ticket;
    v->ticket = (rota_ticket){NULL, 0};
    return expect(rota_poll(ticket), ROTA_NODE_FAILED);
}

static rota_status submit_and_forget(victim *v) {
    rota_ticket first, last = {NULL, 0};
    ROTA_TRY(rota_submit(v->w->plan, NULL, &v->well));
    ROTA_TRY(submit_failing(v));
    v->failed = v->ticket;
    ROTA_TRY(rota_submit(v->w->plan, NULL, &first));
    for (uint32_t i = 0; i < FORGOTTEN; i++)
        ROTA_TRY(rota_submit_wait(v->w->plan, NULL, STOPPED_PATIENCE_NS, &last));
    v->added += 2 + FORGOTTEN;
    v->ticket = first;
    return rota_wait(last, STOPPED_PATIENCE_NS);
}

static rota_status poll_forgotten(victim *v) {
    ROTA_TRY(rota_poll(v->well));
    ROTA_TRY(expect(rota_poll(v->failed), ROTA_NODE_FAILED));
    return rota_poll(v->ticket);
}

static rota_status lose_device(victim *v) {
    world *w = v->w;
    rota_device *device;
    ROTA_TRY(rota_device_open(w->runtime, "adversary", &device));
    ROTA_TRY(rota_buffer_create_in(w->runtime, "the victim's", 256, &v->buffer));
    ROTA_TRY(plan_of(w->runtime, device, &test_failing, v->buffer, ROTA_WRITE, &v->plan));
    /* Lost with works in flight and the sequencer at rest, so that nobody has made up for their timeline,
     * which never gets there. The device has both works before it begins, and begins when all is ready. */
    w->adversary.quiet_ns = 50000000;
    atomic_store(&w->adversary.faults.lost_in_works, 1);
    for (uint32_t i = 0; i < 2; i++) ROTA_TRY(rota_submit(v->plan, NULL, &v->ticket));
    /* What rests has passed both on. */
    uint64_t number = 0, deadline = rota_deadline_after(STOPPED_PATIENCE_NS);
    while (rota_ticket_number(v->ticket, &number) == ROTA_BUSY && rota_clock_ns() < deadline) test_nap_ms(1);
    ROTA_TRY(rest_sequencer(w));
    return expect(rota_wait(v->ticket, STOPPED_PATIENCE_NS), ROTA_DEVICE_LOST);
}
static rota_status poll_lost(victim *v) {
    rota_ticket ticket = v->ticket;
    v->ticket = (rota_ticket){NULL, 0};
    return expect(rota_poll(ticket), ROTA_DEVICE_LOST);
}

/* ---- Wait ---- */

static rota_status wait_long(victim *v) {
    return rota_wait(v->ticket, 0);
}
static rota_status wait_too_short(victim *v) {
    /* So that there is a submission to speak of, however busy the machine is. */
    ROTA_TRY(expect(rota_wait_inputs_taken(v->ticket, STOPPED_PATIENCE_NS), ROTA_OK));
    rota_status status = rota_wait(v->ticket, 2000000);
    return status == ROTA_OK ? ROTA_OK : expect(status, ROTA_TIMEOUT); /* likewise */
}

/* A host node that ends when the gate of it is opened, by whoever of the two comes second. */
static _Atomic(rota_host_run *) begun;
static _Atomic bool may_end;

static void end_begun(void) {
    rota_host_end(atomic_exchange(&begun, NULL), ROTA_OK);
}
static rota_status begin_later(void *user, void *const *operands, const uint64_t *bytes, uint32_t count,
                               rota_host_run *run) {
    (void)user, (void)operands, (void)bytes, (void)count;
    atomic_store(&begun, run);
    if (atomic_load(&may_end)) end_begun();
    return ROTA_OK;
}
static rota_status keep_later(world *w) {
    (void)w;
    atomic_store(&may_end, false);
    return ROTA_OK;
}
static rota_status end_later(world *w) {
    (void)w;
    atomic_store(&may_end, true);
    end_begun();
    return ROTA_OK;
}
static rota_status submit_later(victim *v) {
    static const rota_host_later later = {begin_later, NULL};
    rota_recorder *recorder;
    rota_graph *graph;
    ROTA_TRY(rota_graph_create(NULL, &graph));
    ROTA_TRY(rota_recorder_open(graph, 1, NULL, &recorder));
    rota_status status = rota_record_host(recorder, &ROTA_HOST_NODE(.ends_later = &later), NULL);
    rota_recorder_close(recorder);
    if (status == ROTA_OK) status = compile(v->w->runtime, v->w->device, graph, &v->plan);
    rota_graph_release(graph);
    ROTA_TRY(status);
    ROTA_TRY(rota_submit(v->plan, NULL, &v->ticket));
    test_nap_ms(3); /* begun */
    return ROTA_OK;
}

/* ---- Room ---- */

/* Somebody came before, and stays away. */
static rota_status stay_away(victim *v) {
    (void)rota_turns_take(&v->w->device->turns);
    return ROTA_OK;
}

static rota_status submit_past_turn(victim *v) {
    const uint64_t deadline = rota_deadline_after(STOPPED_PATIENCE_NS);
    rota_status status;
    while ((status = submit_one(v)) == ROTA_BUSY && rota_clock_ns() < deadline) test_nap_ms(1);
    return status;
}

/* The device has all that it may, and somebody else waits for room. */
static rota_status fill_device(victim *v) {
    ROTA_TRY(submit_gate(v));
    const uint64_t deadline = rota_deadline_after(STOPPED_PATIENCE_NS);
    for (;;) {
        rota_status status = submit_one(v);
        if (status == ROTA_BUSY && strstr(rota_last_error(), "works unfinished")) break;
        if (status != ROTA_OK && status != ROTA_BUSY) return status;
        if (rota_clock_ns() > deadline) return rota_fail(ROTA_TIMEOUT, "the device takes everything");
    }
    return stay_away(v);
}

static rota_status wait_for_room(victim *v) {
    ROTA_TRY(rota_submit_wait(v->w->plan, NULL, 0, &v->ticket));
    v->added++;
    return ROTA_OK;
}

/* ---- Chains ---- */

static uint32_t on_queue(void *user, rota_node node, uint32_t queues) {
    (void)node;
    (void)queues;
    return *(const uint32_t *)user;
}

/* The victim's ticket comes after what hangs on another queue. */
static rota_status submit_behind_another_queue(victim *v) {
    world *w = v->w;
    for (uint32_t queue = 0; queue < 2; queue++) {
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan = NULL;
        if (queue == 0) ROTA_TRY(words(w, "the victim's", 0, &v->buffer));
        rota_access access = {v->buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
        ROTA_TRY(rota_graph_create(NULL, &graph));
        ROTA_TRY(rota_recorder_open(graph, 1, NULL, &recorder));
        rota_status status =
            rota_record_kernel(recorder,
                               &ROTA_KERNEL_NODE(.kernel = queue == 0 ? &test_gate : &test_increment,
                                                 .accesses = &access, .access_count = 1),
                               NULL);
        rota_recorder_close(recorder);
        if (status == ROTA_OK)
            status =
                rota_compile(w->runtime, graph,
                             &ROTA_COMPILE_OPTIONS(.devices = &w->device, .device_count = 1, .queues = 2,
                                                   .queue_policy = on_queue, .queue_policy_user = &queue),
                             &plan);
        rota_graph_release(graph);
        if (status == ROTA_OK) status = rota_submit(plan, NULL, &v->ticket);
        rota_plan_release(plan);
        ROTA_TRY(status);
    }
    test_nap_ms(3); /* sequenced */
    return ROTA_OK;
}

/* ---- Points of the application's ---- */

static rota_status make_timeline(victim *v) {
    world *w = v->w;
    ROTA_TRY(words(w, "the victim's", 0, &v->buffer));
    ROTA_TRY(plan_of(w->runtime, w->device, &test_increment, v->buffer, ROTA_READWRITE, &v->plan));
    return rota_external_timeline_create(w->runtime, "the victim's", &v->timeline);
}

/* What is held is the victim's alone, and its submit thread asleep when it is let go. */
static rota_status submit_and_signal(victim *v) {
    const rota_external_point point = {v->timeline, 1};
    uint64_t value;
    ROTA_TRY(rota_submit_with(v->plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &v->ticket));
    ROTA_TRY(expect(rota_wait(v->ticket, 3000000), ROTA_TIMEOUT));
    ROTA_TRY(rota_external_timeline_signal(v->timeline, 1));
    ROTA_TRY(rota_external_timeline_value(v->timeline, &value));
    if (value != 1) return rota_fail(ROTA_INTERNAL, "the timeline is not at 1");
    rota_external_timeline_release(v->timeline);
    v->timeline = NULL;
    return rota_wait(v->ticket, STOPPED_PATIENCE_NS);
}

/* ---- A semaphore ---- */

enum { VICTIMS_VALUE = 8, OTHERS_VALUE = 7 };

static rota_status make_semaphore(world *w) {
    rota_device *device;
    ROTA_TRY(rota_device_open(w->runtime, "adversary", &device));
    return rota_external_timeline_import(device, -1, "everybody's", &w->semaphore);
}

/* It gets there by a thread of the executor's, which nobody but those who signal tells to look. */
static rota_status signal_until(world *w, uint64_t value) {
    const void *handle = w->semaphore->semaphore->exec.handle;
    const uint64_t until = rota_deadline_after(STOPPED_PATIENCE_NS / 4);
    ROTA_TRY(rota_external_timeline_promise(w->semaphore, value));
    ROTA_TRY(rota_external_timeline_signal(w->semaphore, value));
    while (adversary_semaphore_value(handle) < value) {
        if (rota_clock_ns() > until)
            return rota_fail(ROTA_TIMEOUT, "the semaphore is at %llu, expected %llu",
                             (unsigned long long)adversary_semaphore_value(handle),
                             (unsigned long long)value);
        test_nap_us(50);
    }
    return ROTA_OK;
}

rota_status world_signal(world *w) {
    return signal_until(w, OTHERS_VALUE);
}

static rota_status signal_semaphore(victim *v) {
    return signal_until(v->w, VICTIMS_VALUE);
}

/* ---- Cancel ---- */

static rota_status submit_held(victim *v) {
    ROTA_TRY(make_timeline(v));
    const rota_external_point point = {v->timeline, 1};
    ROTA_TRY(rota_submit_with(v->plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &v->ticket));
    ROTA_TRY(expect(rota_wait(v->ticket, 3000000), ROTA_TIMEOUT));
    v->w->cancelled = v->ticket;
    return ROTA_OK;
}

/* The ticket ends by that, whoever else was told to cancel it and is halted over it. */
rota_status world_cancel(world *w) {
    ROTA_TRY(rota_ticket_cancel(w->cancelled));
    return expect(rota_wait(w->cancelled, STOPPED_PATIENCE_NS), ROTA_CANCELLED);
}

static rota_status cancel_held(victim *v) {
    v->ticket = (rota_ticket){NULL, 0};
    return world_cancel(v->w);
}

static rota_status submit_own(victim *v) {
    ROTA_TRY(submit_kernel(v, &test_increment));
    return ROTA_OK;
}

/* Either was first: the call, or the sequencer that goes on while it is halted. */
static rota_status cancel_unsequenced(victim *v) {
    const rota_ticket ticket = v->ticket;
    v->ticket = (rota_ticket){NULL, 0};
    ROTA_TRY(rota_ticket_cancel(ticket));
    const rota_status status = rota_wait(ticket, STOPPED_PATIENCE_NS);
    return status == ROTA_OK ? ROTA_OK : expect(status, ROTA_CANCELLED);
}

static rota_status cancel_done(victim *v) {
    ROTA_TRY(rota_ticket_cancel(v->ticket));
    return rota_poll(v->ticket);
}

/* ---- Release ---- */

static rota_status make_things(victim *v) {
    world *w = v->w;
    ROTA_TRY(make_slot_plan(v));
    ROTA_TRY(rota_buffer_create_in(w->runtime, "the victim's", 4096, &v->buffer));
    ROTA_TRY(rota_buffer_prepare(v->buffer, w->device));
    ROTA_TRY(rota_buffer_create_view(v->buffer, 256, 256, &v->view));
    return rota_args_set_buffer(v->args, v->slot_buffer, v->view);
}

static rota_status release_things(victim *v) {
    rota_buffer_retain(v->buffer);
    rota_buffer_release(v->buffer);
    rota_buffer_retain(v->slot_buffer); /* a graph's: it is the graph that is held */
    rota_buffer_release(v->slot_buffer);
    rota_plan_retain(v->plan);
    rota_plan_release(v->plan);
    victim_drop(v);
    *v = (victim){.w = v->w};
    return ROTA_OK;
}

const situation situations[] = {
    {"record", NULL, open_lane, record_nodes, NULL},
    {"record into a closed lane", NULL, open_closed_lane, record_too_late, NULL},
    {"submit", NULL, let_it_sleep, submit_one, NULL},
    {"submit in an old lane", NULL, leave_a_lane, submit_one, NULL},
    {"submit round every ring", NULL, make_arguments, submit_many, NULL},
    {"submit to a full lane", rest_sequencer, NULL, submit_too_many, wake_sequencer},
    {"submit in a ninth runtime", NULL, join_crowd, submit_one, NULL},
    {"submit when a turn lapses", NULL, stay_away, submit_past_turn, NULL},
    {"submit when there is no room", close_gate, fill_device, wait_for_room, open_gate},
    {"poll what runs", close_gate, submit_gate, poll_busy, open_gate},
    {"poll what is done", NULL, submit_and_wait, poll_done, NULL},
    {"poll what failed", NULL, submit_failing, poll_failed, NULL},
    {"poll what is forgotten", NULL, submit_and_forget, poll_forgotten, NULL},
    {"poll on a lost device", NULL, lose_device, poll_lost, wake_sequencer},
    {"wait asleep", close_gate, submit_gate, wait_long, open_gate},
    {"wait for another queue", close_gate, submit_behind_another_queue, wait_long, open_gate},
    {"wait to be sequenced", rest_sequencer, submit_one, wait_long, wake_sequencer},
    {"wait past the deadline", close_gate, submit_gate, wait_too_short, open_gate},
    {"wait for what ends later", keep_later, submit_later, wait_too_short, end_later},
    {"submit after a point, and reach it", NULL, make_timeline, submit_and_signal, NULL},
    {"signal a semaphore", make_semaphore, NULL, signal_semaphore, NULL},
    {"cancel what is held", NULL, submit_held, cancel_held, NULL},
    {"cancel before it is sequenced", rest_sequencer, submit_own, cancel_unsequenced, wake_sequencer},
    {"cancel what is done", NULL, submit_and_wait, cancel_done, NULL},
    {"release", NULL, make_things, release_things, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
