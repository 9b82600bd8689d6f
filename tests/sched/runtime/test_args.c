/* Argument sets: what a set holds stays while a submission reads it, whatever became of the set and of its
 * other submissions; and what binding refuses. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"

#define PATIENCE_NS 5000000000u
/* A size that the allocator writes into as soon as it is given back. */
enum { WORDS = 64 };

/* ---- A kernel whose calls go one by one ---- */

static _Atomic uint32_t turns, begun, ended, wrong;

/* Call i waits until `turns` is above i; then its operand must be 7 throughout. */
static rota_status expect_sevens(const rota_kernel_call *call) {
    const uint32_t *words = call->operands[0];
    const uint32_t own = ra_fetch_add_seq_cst(&begun, 1);
    const uint64_t deadline = rota_deadline_after(4 * (uint64_t)PATIENCE_NS);
    while (ra_load_seq_cst(&turns) <= own && rota_clock_ns() < deadline) test_nap();
    for (uint32_t i = 0; i < WORDS; i++)
        if (words[i] != 7) (void)ra_fetch_add_seq_cst(&wrong, 1);
    (void)ra_fetch_add_seq_cst(&ended, 1);
    return ROTA_OK;
}
static const rota_kernel sevens = {.name = "sevens", .operand_count = 3, .cpu = {.fn = expect_sevens}};

static void begin(void) {
    ra_store_seq_cst(&turns, 0);
    ra_store_seq_cst(&begun, 0);
    ra_store_seq_cst(&ended, 0);
    ra_store_seq_cst(&wrong, 0);
}

static void wait_for(const _Atomic uint32_t *counter, uint32_t count) {
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (ra_load_seq_cst(counter) < count && rota_clock_ns() < deadline) test_nap();
    assert_true(ra_load_seq_cst(counter) >= count);
}

/* Reads `in` (INPUT) and `slot`, writes `out`. */
static rota_plan *plan_of_sevens(rota_device *device, rota_buffer *out, rota_buffer **out_in,
                                 rota_buffer **out_slot) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", WORDS * 4, out_in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "slot", WORDS * 4, out_slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    const rota_access accesses[] = {{*out_in, 0, ROTA_WHOLE, ROTA_READ},
                                    {*out_slot, 0, ROTA_WHOLE, ROTA_READ},
                                    {out, 0, ROTA_WHOLE, ROTA_READWRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &sevens, .accesses = accesses, .access_count = 3), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(graph);
    return plan;
}

static rota_runtime_stats stats_of(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(runtime, &stats);
    return stats;
}

/* Whatever was released before and is not in use is freed: a buffer released now is, and the oldest goes
 * first. Twice, since the count of one may be behind. */
static void expect_pending(rota_runtime *runtime, uint64_t pending) {
    for (int i = 0; i < 2; i++) {
        rota_buffer *spare = test_buffer(runtime, "spare", 256);
        const uint64_t before = stats_of(runtime).buffers, deadline = rota_deadline_after(PATIENCE_NS);
        rota_buffer_release(spare);
        while (stats_of(runtime).buffers >= before && rota_clock_ns() < deadline) test_nap();
        assert_true(stats_of(runtime).buffers < before);
    }
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (stats_of(runtime).reclaim_pending != pending && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(stats_of(runtime).reclaim_pending, pending);
}

/* The first holds the arena, the second waits for it and has not read its copy, the third fails when it is
 * sequenced: that the set's last submission has ended says nothing of the second. */
static void copies_outlive_the_last_submission(void **state) {
    runtime_fixture *f = *state;
    begin();
    rota_buffer *out = test_words(f->device, "out", WORDS, 0), *in, *slot,
                *written = test_words(f->device, "written", WORDS, 1),
                *never = test_buffer(f->runtime, "never", WORDS * 4);
    rota_plan *plan = plan_of_sevens(f->device, out, &in, &slot);
    rota_args *args;
    rota_ticket tickets[3];
    uint32_t data[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) data[i] = 7;
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, data, sizeof data, true));
    assert_ok(rota_args_set_buffer(args, slot, written));
    for (int i = 0; i < 2; i++) assert_ok(rota_submit_wait(plan, args, 0, &tickets[i]));
    wait_for(&begun, 1);
    assert_ok(rota_args_set_buffer(args, slot, never));
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[2]));
    assert_status(rota_wait(tickets[2], 0), ROTA_UNDEFINED_DATA);
    rota_args_release(args);
    expect_pending(f->runtime, 1);
    ra_store_seq_cst(&turns, 2);
    for (int i = 0; i < 2; i++) assert_ok(rota_wait(tickets[i], 0));
    assert_int_equal(ra_load_seq_cst(&ended), 2);
    assert_int_equal(ra_load_seq_cst(&wrong), 0);
    expect_pending(f->runtime, 0);
    rota_plan_release(plan);
    rota_buffer_release(out);
    rota_buffer_release(written);
    rota_buffer_release(never);
}

/* Every way that a submission ends lets go of the set: it ran, or failed, early or late. */
static void every_end_lets_go(void **state) {
    runtime_fixture *f = *state;
    begin();
    ra_store_seq_cst(&turns, UINT32_MAX);
    rota_buffer *out = test_words(f->device, "out", WORDS, 0), *in, *slot,
                *written = test_words(f->device, "written", WORDS, 1),
                *never = test_buffer(f->runtime, "never", WORDS * 4),
                *bad = test_buffer(f->runtime, "bad", WORDS * 4);
    rota_plan *plan = plan_of_sevens(f->device, out, &in, &slot),
              *failing = test_plan_1(f->device, "failing", &test_failing, bad, ROTA_WRITE);
    uint32_t data[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) data[i] = 7;
    test_fail = 1;
    assert_ok(rota_submit_wait(failing, NULL, 0, NULL));
    for (uint32_t way = 0; way < 8; way++) {
        rota_args *args;
        rota_ticket ticket;
        assert_ok(rota_args_create(plan, &args));
        assert_ok(rota_args_set_input(args, in, data, sizeof data, true));
        for (uint32_t i = 0; i < 3; i++)
            if (way >> i & 1u) {
                assert_ok(rota_args_set_buffer(args, slot, i == 0 ? written : i == 1 ? never : bad));
                assert_ok(rota_submit_wait(plan, args, 0, &ticket));
                const rota_status status = rota_wait(ticket, 0);
                assert_true(i == 0 || status != ROTA_OK);
            }
        rota_args_release(args);
        expect_pending(f->runtime, 0);
    }
    test_fail = 0;
    rota_plan_release(plan);
    rota_plan_release(failing);
    rota_buffer_release(out);
    rota_buffer_release(written);
    rota_buffer_release(never);
    rota_buffer_release(bad);
}

/* ---- During a close ---- */

typedef struct closing {
    rota_runtime *runtime;
    rota_args *args;
    _Atomic uint32_t released;
} closing;

static void release_args(void *user, rota_status status, const char *message) {
    closing *c = user;
    (void)status;
    (void)message;
    rota_args_release(c->args);
    ra_store_seq_cst(&c->released, 1);
}

/* Lets the first submission end once the runtime closes, and the others once its callback has released the
 * set. */
static void *let_them_end(void *user) {
    closing *c = user;
    while (ra_load_acquire(&c->runtime->state) != ROTA_RUNTIME_CLOSING) test_nap();
    ra_store_seq_cst(&turns, 1);
    while (!ra_load_seq_cst(&c->released)) test_nap();
    ra_store_seq_cst(&turns, UINT32_MAX);
    return NULL;
}

static void released_by_a_callback_while_it_closes(void **state) {
    (void)state;
    begin();
    closing c = {0};
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1), &c.runtime));
    assert_ok(rota_device_open(c.runtime, "cpu", &device));
    rota_buffer *out = test_words(device, "out", WORDS, 0), *in, *slot,
                *written = test_words(device, "written", WORDS, 1);
    rota_plan *plan = plan_of_sevens(device, out, &in, &slot);
    rota_ticket tickets[3];
    uint32_t data[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) data[i] = 7;
    assert_ok(rota_args_create(plan, &c.args));
    assert_ok(rota_args_set_input(c.args, in, data, sizeof data, true));
    assert_ok(rota_args_set_buffer(c.args, slot, written));
    for (int i = 0; i < 3; i++) assert_ok(rota_submit_wait(plan, c.args, 0, &tickets[i]));
    assert_ok(rota_ticket_on_complete(tickets[0], release_args, &c));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, let_them_end, &c), 0);
    assert_ok(rota_runtime_close(c.runtime, PATIENCE_NS));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ra_load_seq_cst(&c.released), 1);
    assert_int_equal(ra_load_seq_cst(&ended), 3);
    assert_int_equal(ra_load_seq_cst(&wrong), 0);
    rota_plan_release(plan);
    rota_buffer_release(out);
    rota_buffer_release(written);
}

/* A set that outlives its runtime goes with its release, also where the runtime's struct serves another. */
static void released_after_the_close(void **state) {
    (void)state;
    begin();
    ra_store_seq_cst(&turns, UINT32_MAX);
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *out = test_words(device, "out", WORDS, 0), *in, *slot,
                *written = test_words(device, "written", WORDS, 1);
    rota_plan *plan = plan_of_sevens(device, out, &in, &slot);
    rota_args *args[2];
    uint32_t data[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) data[i] = 7;
    for (int i = 0; i < 2; i++) {
        assert_ok(rota_args_create(plan, &args[i]));
        assert_ok(rota_args_set_input(args[i], in, data, sizeof data, true));
        assert_ok(rota_args_set_buffer(args[i], slot, written));
        assert_ok(rota_submit_wait(plan, args[i], 0, NULL));
    }
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
    rota_args_release(args[0]);
    assert_ok(rota_runtime_open(NULL, &runtime));
    rota_args_release(args[1]);
    rota_plan_release(plan);
    rota_buffer_release(out);
    rota_buffer_release(written);
    assert_int_equal(stats_of(runtime).reclaim_pending, 0);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
}

/* ---- Buffers bound to slots ---- */

/* The slot is bound to another buffer while a submission reads the one that was bound before, which is
 * released: it is freed when that reader has ended. */
static void a_bound_buffer_outlives_its_readers(void **state) {
    runtime_fixture *f = *state;
    begin();
    rota_buffer *out = test_words(f->device, "out", WORDS, 0), *in, *slot,
                *read = test_words(f->device, "read", WORDS, 3),
                *other = test_words(f->device, "other", WORDS, 4);
    rota_plan *plan = plan_of_sevens(f->device, out, &in, &slot);
    rota_args *args;
    rota_ticket ticket;
    uint32_t data[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) data[i] = 7;
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, data, sizeof data, false));
    assert_ok(rota_args_set_buffer(args, slot, read));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    wait_for(&begun, 1);
    assert_ok(rota_args_set_buffer(args, slot, other));
    rota_buffer_release(read);
    expect_pending(f->runtime, 1);
    ra_store_seq_cst(&turns, 1);
    assert_ok(rota_wait(ticket, 0));
    expect_pending(f->runtime, 0);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(out);
    rota_buffer_release(other);
}

/* A slot that the plan only reads, bound to a buffer that the plan writes. */
static void a_read_slot_may_not_name_what_is_written(void **state) {
    runtime_fixture *f = *state;
    begin();
    ra_store_seq_cst(&turns, UINT32_MAX);
    rota_buffer *out = test_words(f->device, "the plan's", WORDS, 0), *in, *slot,
                *other = test_words(f->device, "other", WORDS, 4);
    rota_plan *plan = plan_of_sevens(f->device, out, &in, &slot);
    rota_args *args;
    rota_ticket ticket;
    uint32_t data[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) data[i] = 7;
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, data, sizeof data, false));
    assert_ok(rota_args_set_buffer(args, slot, out));
    assert_status(rota_submit(plan, args, NULL), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "'the plan's'"));
    assert_non_null(strstr(rota_last_error(), "'slot'"));
    assert_ok(rota_args_set_buffer(args, slot, other));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(out);
    rota_buffer_release(other);
}

/* Submits with the slots bound to these: the plan copies `from` to `to` and x to y. */
static rota_status submit_bound(rota_plan *plan, rota_args *args, rota_buffer *const slots[2],
                                rota_buffer *from, rota_buffer *to) {
    assert_ok(rota_args_set_buffer(args, slots[0], from));
    assert_ok(rota_args_set_buffer(args, slots[1], to));
    return rota_submit_wait(plan, args, 0, NULL);
}

/* What is only read may have several names; what is written has one, whether a slot or a node writes it. */
static void names_of_one_buffer(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *x = test_words(f->device, "x", WORDS, 1), *y = test_words(f->device, "y", WORDS, 2),
                *z = test_words(f->device, "z", WORDS, 3), *two = test_words(f->device, "two", 2 * WORDS, 4),
                *halves[2], *slots[2];
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "from", WORDS * 4, &slots[0]));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "to", WORDS * 4, &slots[1]));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, slots[1], 0, slots[0], 0, ROTA_WHOLE, NULL));
    assert_ok(rota_record_copy(recorder, y, 0, x, 0, ROTA_WHOLE, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    rota_graph_release(graph);
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(rota_buffer_create_view(two, i * WORDS * 4, WORDS * 4, &halves[i]));
    assert_ok(submit_bound(plan, args, slots, x, z));
    test_expect_words(z, WORDS, 1);
    assert_ok(submit_bound(plan, args, slots, halves[0], halves[1]));
    assert_status(submit_bound(plan, args, slots, z, x), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "'x' bound to 'to' overlaps 'x'"));
    assert_status(submit_bound(plan, args, slots, y, z), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "'y' bound to 'from' overlaps 'y'"));
    assert_status(submit_bound(plan, args, slots, halves[0], two), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "overlaps"));
    rota_args_release(args);
    rota_plan_release(plan);
    for (uint32_t i = 0; i < 2; i++) rota_buffer_release(halves[i]);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
    rota_buffer_release(two);
}

/* What arenas get next is zero, as the system's memory is. */
static void clear_arenas(void) {
    enum { LEAST = 12, MOST = 20 };
    for (uint32_t shift = LEAST; shift <= MOST; shift++) {
        size_t usable;
        void *chunk = rota_chunk_alloc((size_t)1 << shift, &usable);
        assert_non_null(chunk);
        memset(chunk, 0, usable);
        rota_chunk_free(chunk, usable);
    }
}

/* Of a plan without any other arguments, on a device that gets them by way of staging memory. */
static void every_input_is_asked_for(void **state) {
    (void)state;
    static adversary_options options;
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(adversary_runtime_open(&options, NULL, &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    enum { INPUTS = 8 };
    clear_arenas();
    static uint32_t data[WORDS];
    rota_buffer *x = test_words(device, "x", WORDS, 1), *inputs[INPUTS];
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < INPUTS; i++) {
        const char name[] = {'i', 'n', (char)('0' + i), 0};
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, name, sizeof data, &inputs[i]));
        assert_ok(rota_record_copy(recorder, x, 0, inputs[i], 0, ROTA_WHOLE, NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(graph);
    assert_status(rota_submit(plan, NULL, NULL), ROTA_INVALID_ARGUMENT);
    for (uint32_t left = 0; left < INPUTS; left++) {
        const char name[] = {'\'', 'i', 'n', (char)('0' + left), '\'', 0};
        rota_args *args;
        assert_ok(rota_args_create(plan, &args));
        for (uint32_t i = 0; i < INPUTS; i++)
            if (i != left) assert_ok(rota_args_set_input(args, inputs[i], data, sizeof data, false));
        assert_status(rota_submit(plan, args, NULL), ROTA_INVALID_ARGUMENT);
        if (!strstr(rota_last_error(), name)) fail_msg("%s is not in: %s", name, rota_last_error());
        assert_ok(rota_args_set_input(args, inputs[left], data, sizeof data, false));
        assert_ok(rota_submit_wait(plan, args, 0, NULL));
        rota_args_release(args);
    }
    rota_plan_release(plan);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(runtime, 0));
}

static rota_status give_parameter(const rota_kernel_call *call) {
    memcpy(call->operands[0], call->params, sizeof(uint32_t));
    return ROTA_OK;
}

/* A number comes to the kernel as it was given, each bit of it. */
static void numbers_keep_their_bits(void **state) {
    runtime_fixture *f = *state;
    static const rota_kernel_bindable bindable = {.name = "p", .size_bytes = 4, .type = ROTA_VALUE_F32};
    static const rota_kernel kernel = {.name = "parameter",
                                       .operand_count = 1,
                                       .param_bytes = sizeof(uint32_t),
                                       .bindables = &bindable,
                                       .bindable_count = 1,
                                       .cpu = {.fn = give_parameter}};
    static const uint32_t bits[] = {0x3fc00000, 0xbf000000, 0x80000000, 0x00000001, 0x7fc01234, 0xff7fffff};
    static float numbers[sizeof bits / sizeof *bits];
    memcpy(numbers, bits, sizeof bits);
    rota_buffer *x = test_words(f->device, "x", 1, 0);
    const rota_access access = {x, 0, ROTA_WHOLE, ROTA_WRITE};
    const uint32_t params = 0;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_slot slot;
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_slot(graph, "p", 4, &slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder,
        &ROTA_KERNEL_NODE(.kernel = &kernel, .accesses = &access, .access_count = 1, .params = &params,
                          .bindings = &(const rota_param_binding){0, slot}, .binding_count = 1),
        NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    rota_graph_release(graph);
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        assert_ok(rota_args_set_f32(args, slot, numbers[i]));
        assert_ok(rota_submit_wait(plan, args, 0, NULL));
        test_expect_words(x, 1, bits[i]);
    }
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies_outlive_the_last_submission, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(every_end_lets_go, runtime_setup, runtime_teardown),
        cmocka_unit_test(released_by_a_callback_while_it_closes),
        cmocka_unit_test(released_after_the_close),
        cmocka_unit_test_setup_teardown(a_bound_buffer_outlives_its_readers, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(a_read_slot_may_not_name_what_is_written, runtime_setup,
                                        runtime_teardown),
        cmocka_unit_test_setup_teardown(names_of_one_buffer, runtime_setup, runtime_teardown),
        cmocka_unit_test(every_input_is_asked_for),
        cmocka_unit_test_setup_teardown(numbers_keep_their_bits, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
