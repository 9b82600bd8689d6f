/* The short way (ops/direct.h): what it gives, what it refuses, what it leaves behind, many threads at once,
 * and no memory. Linked with --wrap for malloc, calloc, realloc and aligned_alloc. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "tests/kit/runtime_support.h"

static rota_device *device_of(void **state) {
    return ((runtime_fixture *)*state)->device;
}

static rota_runtime_stats stats_of(rota_device *device) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    assert_ok(rota_runtime_get_stats(rota_device_runtime(device), &stats));
    return stats;
}

/* Released ones are counted until the reclaimer has come to them. */
static void expect_plans(rota_device *device, uint64_t count) {
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (stats_of(device).plans > count && rota_clock_ns() < deadline) (void)sched_yield();
    assert_int_equal(stats_of(device).plans, count);
}

static void expect_buffers(rota_device *device, uint64_t count) {
    const uint64_t deadline = rota_deadline_after(10000000000u);
    while (stats_of(device).buffers > count && rota_clock_ns() < deadline) (void)sched_yield();
    assert_int_equal(stats_of(device).buffers, count);
}

static rota_tensor vector_of(rota_device *device, const char *name, const float *data, uint64_t count) {
    rota_tensor tensor;
    assert_ok(rota_tensor_create(device, name, ROTA_F32, ROTA_SHAPE(count), data, &tensor));
    return tensor;
}

static void expect_values(const rota_tensor *tensor, const float *expected) {
    float got[64];
    const uint64_t count = rota_tensor_count(tensor);
    assert_true(count <= 64);
    assert_ok(rota_tensor_read(tensor, got, count * sizeof *got));
    assert_memory_equal(got, expected, count * sizeof *got);
}

/* ---- Devices ---- */

static void a_device_is_opened_and_closed(void **state) {
    (void)state;
    rota_device *device = (rota_device *)state;
    assert_status(rota_open("none:7", NULL, &device), ROTA_NOT_FOUND);
    assert_null(device);
    expect_said("'cpu'");
    rota_runtime_options wrong = ROTA_RUNTIME_OPTIONS(.queues_per_device = UINT32_MAX);
    assert_status(rota_open("cpu", &wrong, &device), ROTA_INVALID_ARGUMENT);
    assert_ok(rota_open("cpu", &ROTA_RUNTIME_OPTIONS(.worker_threads = 1), &device));
    assert_string_equal(rota_device_get_info(device)->id, "cpu");
    assert_ok(rota_close(device, 0));
    assert_ok(rota_open(NULL, NULL, &device));
    assert_true(strlen(rota_device_choice(rota_device_runtime(device))) > 0);
    assert_ok(rota_close(device, 1000000000));
    assert_ok(rota_close(NULL, 0));
}

/* ---- Tensors ---- */

static void tensors_hold_what_they_were_given(void **state) {
    rota_device *device = device_of(state);
    const float numbers[6] = {1, 2, 3, 4, 5, 6}, turned[6] = {1, 4, 2, 5, 3, 6}, columns[4] = {2, 3, 5, 6};
    float data[6], got[6];
    rota_tensor x, view;
    memcpy(data, numbers, sizeof data);
    assert_ok(rota_tensor_create(device, "x", ROTA_F32, ROTA_SHAPE(2, 3), data, &x));
    memset(data, 0, sizeof data); /* it was copied */
    assert_string_equal(rota_buffer_name(x.buffer), "x");
    expect_values(&x, numbers);
    /* Views of it, whatever their strides: another order, gaps, repeats. */
    assert_ok(rota_tensor_transpose(&x, 0, 1, &view));
    expect_values(&view, turned);
    assert_ok(rota_tensor_slice(&x, 1, 1, 2, &view));
    expect_values(&view, columns);
    rota_tensor row, twice;
    assert_ok(rota_tensor_slice(&x, 0, 1, 1, &row));
    assert_ok(rota_tensor_broadcast(&row, ROTA_SHAPE(2, 3), &twice));
    expect_values(&twice, (const float[]){4, 5, 6, 4, 5, 6});
    /* Sizes that are not the tensor's. */
    memset(got, 0, sizeof got);
    assert_status(rota_tensor_read(&x, got, sizeof got - 4), ROTA_INVALID_ARGUMENT);
    expect_said("20 bytes, expected the 24 of f32 [2, 3]");
    assert_true(got[0] == 0 && got[5] == 0);
    rota_buffer_release(x.buffer);

    /* Half words, one element, none. */
    const uint16_t halves[3] = {0x3f80, 0x4000, 0x4040};
    uint16_t got_halves[3] = {0};
    assert_ok(rota_tensor_create(device, NULL, ROTA_BF16, ROTA_SHAPE(3), halves, &x));
    assert_ok(rota_tensor_read(&x, got_halves, sizeof got_halves));
    assert_memory_equal(got_halves, halves, sizeof halves);
    rota_buffer_release(x.buffer);
    assert_ok(rota_tensor_create(device, NULL, ROTA_F32, 0, NULL, numbers, &x));
    expect_values(&x, numbers);
    rota_buffer_release(x.buffer);
    assert_ok(rota_tensor_create(device, NULL, ROTA_F32, ROTA_SHAPE(4, 0), NULL, &x));
    assert_ok(rota_tensor_read(&x, NULL, 0));
    rota_buffer_release(x.buffer);
}

static void tensors_that_cannot_be_are_refused(void **state) {
    rota_device *device = device_of(state);
    expect_buffers(device, 0); /* the smoke test had some */
    const float numbers[4] = {1, 2, 3, 4};
    float got[4] = {-1, -1, -1, -1};
    rota_tensor x = {.rank = 3};
    assert_status(rota_tensor_create(device, "x", (rota_dtype)77, ROTA_SHAPE(4), numbers, &x),
                  ROTA_INVALID_ARGUMENT);
    assert_true(!x.buffer && x.rank == 0);
    assert_status(rota_tensor_create(device, "x", ROTA_F32, 9, (const uint64_t[9]){0}, numbers, &x),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_create(device, "x", ROTA_F32, ROTA_SHAPE(UINT32_MAX, 2), numbers, &x),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_create(NULL, "x", ROTA_F32, ROTA_SHAPE(4), numbers, &x), ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_create(device, "x", ROTA_F32, 1, NULL, numbers, &x), ROTA_INVALID_ARGUMENT);
    assert_int_equal(stats_of(device).buffers, 0);
    /* What nobody wrote. */
    x = vector_of(device, "x", NULL, 4);
    assert_status(rota_tensor_read(&x, got, sizeof got), ROTA_UNDEFINED_DATA);
    assert_true(got[0] == -1 && got[3] == -1);
    /* Out of its buffer. */
    rota_tensor outside = x;
    outside.offset_bytes = 4;
    assert_status(rota_tensor_read(&outside, got, sizeof got), ROTA_OUT_OF_RANGE);
    outside.dtype = (rota_dtype)77;
    assert_status(rota_tensor_read(&outside, got, sizeof got), ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_read(&ROTA_TENSOR_NONE, got, 0), ROTA_INVALID_ARGUMENT);
    rota_buffer_release(x.buffer);
    /* An op's result lives in the replay only; the sentence says what to do. */
    rota_tape *tape;
    rota_tensor y;
    x = vector_of(device, "x", numbers, 4);
    assert_ok(rota_tape_create_on(device, NULL, &tape));
    assert_ok(rota_op_exp(tape, x, &y));
    assert_ok(rota_tape_submit(tape, NULL, NULL));
    assert_status(rota_tensor_read(&y, got, sizeof got), ROTA_INVALID_ARGUMENT);
    expect_said("TRANSIENT");
    expect_said("rota_tensor_create");
    rota_tape_destroy(tape);
    rota_buffer_release(x.buffer);
}

/* ---- Tapes ---- */

static void a_tape_is_compiled_once(void **state) {
    rota_device *device = device_of(state);
    const float numbers[4] = {1, 2, 3, 4};
    rota_tensor x = vector_of(device, "x", numbers, 4), y = vector_of(device, "y", numbers, 4), scaled;
    rota_tape *tape;
    rota_plan *plan, *same;
    rota_ticket ticket;
    expect_plans(device, 0); /* the smoke test had one */
    assert_ok(rota_tape_create_on(device, NULL, &tape));
    assert_ok(rota_op_scale(tape, x, ROTA_PLAIN(10), &scaled));
    assert_ok(rota_op_add_into(tape, scaled, y, y));
    for (int i = 0; i < 3; i++) assert_ok(rota_tape_submit(tape, NULL, &ticket));
    assert_true(ticket.id != 0);
    assert_ok(rota_wait(ticket, 0));
    expect_values(&y, (const float[]){31, 62, 93, 124});
    assert_ok(rota_tape_compile(tape, &plan));
    assert_ok(rota_tape_compile(tape, &same));
    assert_ptr_equal(plan, same);
    assert_int_equal(stats_of(device).plans, 1);
    rota_plan_release(same);
    /* It is recorded. */
    assert_status(rota_op_exp(tape, x, &scaled), ROTA_WRONG_STATE);
    assert_status(rota_op_exp_into(tape, x, y), ROTA_WRONG_STATE);
    /* What was submitted, and the plan, outlive the tape. */
    assert_ok(rota_tape_submit(tape, NULL, NULL));
    rota_tape_destroy(tape);
    assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    rota_plan_release(plan);
    expect_values(&y, (const float[]){51, 102, 153, 204});
    rota_buffer_release(x.buffer);
    rota_buffer_release(y.buffer);
}

static void a_tape_takes_arguments(void **state) {
    rota_device *device = device_of(state);
    rota_tensor x = vector_of(device, "x", (const float[]){1, 2}, 2);
    rota_tape *tape;
    rota_slot k;
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_tape_create_on(device, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    assert_ok(rota_graph_slot(rota_tape_graph(tape), "k", 4, &k));
    assert_ok(rota_op_scale_into(tape, x, ROTA_SLOT(k), x));
    assert_ok(rota_tape_compile(tape, &plan));
    assert_ok(rota_args_create(plan, &args));
    assert_status(rota_tape_submit(tape, NULL, NULL), ROTA_INVALID_ARGUMENT); /* k was never set */
    for (int step = 2; step < 5; step++) {
        assert_ok(rota_args_set_f32(args, k, (float)step));
        assert_ok(rota_tape_submit(tape, &ROTA_SUBMIT_OPTIONS(.args = args), NULL));
    }
    expect_values(&x, (const float[]){24, 48});
    rota_args_release(args);
    rota_plan_release(plan);
    rota_tape_destroy(tape);
    rota_buffer_release(x.buffer);
}

static void a_tape_of_nothing_and_one_of_others(void **state) {
    rota_device *device = device_of(state);
    rota_tape *tape;
    rota_plan *plan = (rota_plan *)state;
    rota_ticket ticket;
    assert_ok(rota_tape_create_on(device, NULL, &tape));
    rota_tape_destroy(tape);
    assert_ok(rota_tape_create_on(device, NULL, &tape));
    assert_ok(rota_tape_submit(tape, NULL, &ticket));
    assert_ok(rota_wait(ticket, 0));
    rota_tape_destroy(tape);
    rota_tape_options wrong = {.no_gradients = true};
    assert_status(rota_tape_create_on(device, &wrong, &tape), ROTA_INVALID_ARGUMENT);
    assert_null(tape);

    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_tape_create(recorder, NULL, &tape));
    assert_status(rota_tape_submit(tape, NULL, &ticket), ROTA_WRONG_STATE);
    assert_int_equal(ticket.id, 0);
    expect_said("rota_tape_create_on");
    assert_status(rota_tape_compile(tape, &plan), ROTA_WRONG_STATE);
    assert_null(plan);
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    rota_graph_release(graph);
}

/* What fails to compile says why each time, and leaves nothing. */
static void a_tape_that_does_not_compile(void **state) {
    rota_device *device = device_of(state);
    rota_tape *tape;
    rota_tensor x, y;
    assert_ok(rota_tape_create_on(device, NULL, &tape));
    assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "unwritten", ROTA_F32, ROTA_SHAPE(4), &x));
    assert_ok(rota_op_exp(tape, x, &y));
    for (int i = 0; i < 2; i++) {
        assert_status(rota_tape_submit(tape, NULL, NULL), ROTA_UNDEFINED_DATA);
        expect_said("'unwritten'");
        expect_said("'exp'");
    }
    rota_tape_destroy(tape);
    expect_plans(device, 0);
}

/* ---- One op ---- */

static void one_op_at_once(void **state) {
    rota_device *device = device_of(state);
    const float numbers[4] = {1, 2, 3, 4};
    rota_tensor x = vector_of(device, "x", numbers, 4);
    rota_ticket ticket;
    /* A result of its own. */
    rota_op_use use = {.op = rota_op_find("add"), .input_count = 2, .output_count = 1, .inputs = {x, x}};
    assert_ok(rota_op_submit(device, &use, &ticket));
    assert_true(ticket.id != 0);
    expect_values(&use.outputs[0], (const float[]){2, 4, 6, 8});
    assert_string_equal(rota_buffer_name(use.outputs[0].buffer), "add");
    rota_buffer_release(use.outputs[0].buffer);
    /* In place. */
    use.outputs[0] = x;
    for (int i = 0; i < 3; i++) assert_ok(rota_op_submit(device, &use, NULL));
    expect_values(&x, (const float[]){8, 16, 24, 32});
    /* Several results, each made or given. */
    rota_op_use top = {.op = rota_op_find("top_k"),
                       .input_count = 1,
                       .output_count = 2,
                       .inputs = {x},
                       .attributes = {.length = 2}};
    int32_t index[2];
    assert_ok(rota_op_submit(device, &top, NULL));
    expect_values(&top.outputs[0], (const float[]){32, 24});
    assert_ok(rota_tensor_read(&top.outputs[1], index, sizeof index));
    assert_true(index[0] == 3 && index[1] == 2);
    rota_buffer_release(top.outputs[0].buffer);
    rota_buffer_release(top.outputs[1].buffer);
    /* No elements: nothing to do. */
    rota_tensor empty;
    assert_ok(rota_tensor_create(device, "empty", ROTA_F32, ROTA_SHAPE(0), NULL, &empty));
    rota_op_use nothing = {.op = rota_op_find("exp"), .input_count = 1, .output_count = 1, .inputs = {empty}};
    assert_ok(rota_op_submit(device, &nothing, NULL));
    assert_true(nothing.outputs[0].buffer && rota_tensor_is_empty(&nothing.outputs[0]));
    rota_buffer_release(nothing.outputs[0].buffer);
    rota_buffer_release(empty.buffer);
    rota_buffer_release(x.buffer);
}

static void one_op_that_is_wrong(void **state) {
    rota_device *device = device_of(state);
    rota_tensor x = vector_of(device, "x", (const float[]){1, 2, 3, 4}, 4);
    rota_tensor y = vector_of(device, "y", (const float[]){1, 2, 3}, 3);
    expect_values(&y, (const float[]){1, 2, 3}); /* both were written */
    const uint64_t submissions = stats_of(device).submissions;
    rota_ticket ticket = {NULL, 7};
    rota_op_use use = {.op = rota_op_find("add"), .input_count = 2, .output_count = 1, .inputs = {x, y}};
    assert_status(rota_op_submit(device, &use, &ticket), ROTA_INVALID_ARGUMENT);
    expect_said("op 'add'");
    assert_true(!use.outputs[0].buffer && ticket.id == 0);
    use.inputs[1].dtype = ROTA_F16;
    assert_status(rota_op_submit(device, &use, NULL), ROTA_INVALID_ARGUMENT);
    use.inputs[1] = ROTA_TENSOR_NONE;
    assert_status(rota_op_submit(device, &use, NULL), ROTA_INVALID_ARGUMENT);
    use.inputs[1] = x;
    use.output_count = 2;
    assert_status(rota_op_submit(device, &use, NULL), ROTA_INVALID_ARGUMENT);
    use.op = NULL;
    assert_status(rota_op_submit(device, &use, NULL), ROTA_INVALID_ARGUMENT);
    /* A slot is of no graph; what was made for the result is gone. */
    rota_op_use scale = {.op = rota_op_find("affine"),
                         .input_count = 1,
                         .output_count = 1,
                         .inputs = {x},
                         .attributes = {.value = {ROTA_SLOT((rota_slot){1})}}};
    assert_status(rota_op_submit(device, &scale, NULL), ROTA_INVALID_ARGUMENT);
    assert_null(scale.outputs[0].buffer);
    rota_buffer_release(x.buffer);
    rota_buffer_release(y.buffer);
    assert_int_equal(stats_of(device).submissions, submissions);
    expect_buffers(device, 0);
}

/* ---- After the end ---- */

static void what_is_left_when_a_device_was_closed(void **state) {
    (void)state;
    rota_device *device, *another;
    rota_tape *compiled, *recorded;
    rota_ticket ticket;
    float got[2];
    assert_ok(rota_open("cpu", &ROTA_RUNTIME_OPTIONS(.worker_threads = 1), &device));
    rota_tensor x = vector_of(device, "x", (const float[]){1, 2}, 2);
    assert_ok(rota_tape_create_on(device, NULL, &compiled));
    assert_ok(rota_tape_create_on(device, NULL, &recorded));
    assert_ok(rota_op_exp_into(compiled, x, x));
    assert_ok(rota_op_exp_into(recorded, x, x));
    assert_ok(rota_tape_submit(compiled, NULL, NULL));
    assert_ok(rota_close(device, 0));
    /* Also where another runtime has taken the place of the first. */
    for (int reopened = 0; reopened < 2; reopened++) {
        if (reopened) assert_ok(rota_open("cpu", &ROTA_RUNTIME_OPTIONS(.worker_threads = 1), &another));
        assert_status(rota_tape_submit(compiled, NULL, &ticket), ROTA_WRONG_STATE);
        assert_status(rota_tape_submit(recorded, NULL, &ticket), ROTA_WRONG_STATE);
        expect_said("closed");
        assert_int_equal(ticket.id, 0);
        assert_status(rota_tensor_read(&x, got, sizeof got), ROTA_WRONG_STATE);
    }
    rota_tape_destroy(compiled);
    rota_tape_destroy(recorded);
    rota_buffer_release(x.buffer);
    assert_ok(rota_close(another, 0));
}

/* ---- Many threads ---- */

enum { THREADS = 6, ROUNDS = 12 };

typedef struct one_thread {
    rota_device *device;
    rota_tensor ones, shared, own;
    rota_status status;
    char said[256];
} one_thread;

/* own += ones and shared += ones, each by an op at once and by a tape. */
static rota_status work(one_thread *t) {
    rota_op_use own = {.op = rota_op_find("add"), .input_count = 2, .output_count = 1};
    own.inputs[0] = own.outputs[0] = t->own;
    own.inputs[1] = t->ones;
    rota_op_use shared = own;
    shared.inputs[0] = shared.outputs[0] = t->shared;
    rota_tape *tape;
    ROTA_TRY(rota_tape_create_on(t->device, NULL, &tape));
    rota_status status = rota_op_add_into(tape, t->own, t->ones, t->own);
    if (status == ROTA_OK) status = rota_op_add_into(tape, t->shared, t->ones, t->shared);
    for (int i = 0; i < ROUNDS && status == ROTA_OK; i++) {
        status = rota_op_submit(t->device, &own, NULL);
        if (status == ROTA_OK) status = rota_op_submit(t->device, &shared, NULL);
        if (status == ROTA_OK) status = rota_tape_submit(tape, NULL, NULL);
    }
    rota_tape_destroy(tape);
    return status;
}

static void *run_thread(void *given) {
    one_thread *t = given;
    t->status = work(t);
    (void)snprintf(t->said, sizeof t->said, "%s", t->status == ROTA_OK ? "" : rota_last_error());
    return NULL;
}

static void many_threads_at_once(void **state) {
    rota_device *device = device_of(state);
    one_thread threads[THREADS];
    pthread_t ids[THREADS];
    const float ones[3] = {1, 2, 3}, none[3] = {0};
    rota_tensor one = vector_of(device, "ones", ones, 3), shared = vector_of(device, "shared", none, 3);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (one_thread){.device = device, .ones = one, .shared = shared};
        threads[i].own = vector_of(device, "own", none, 3);
        assert_int_equal(pthread_create(&ids[i], NULL, run_thread, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(ids[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        if (threads[i].status != ROTA_OK) fail_msg("thread %d: %s", i, threads[i].said);
        expect_values(&threads[i].own, (const float[]){2 * ROUNDS, 4 * ROUNDS, 6 * ROUNDS});
        rota_buffer_release(threads[i].own.buffer);
    }
    const float all = 2.0f * THREADS * ROUNDS;
    expect_values(&shared, (const float[]){all, 2 * all, 3 * all});
    rota_buffer_release(one.buffer);
    rota_buffer_release(shared.buffer);
}

/* ---- Without memory ---- */

/* Of this thread's allocations, the one that takes it to 0 is refused. */
static _Thread_local uint32_t refused_in;

static bool is_refused(void) {
    return refused_in && --refused_in == 0;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    return is_refused() ? NULL : __real_malloc(bytes);
}
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    return is_refused() ? NULL : __real_calloc(count, bytes);
}
void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes) {
    return is_refused() ? NULL : __real_realloc(block, bytes);
}
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return is_refused() ? NULL : __real_aligned_alloc(alignment, bytes);
}

typedef struct made {
    rota_tensor y;
    rota_tape *tape;
    rota_op_use use;
    float turned[4], sum[4];
} made;

static rota_status make(made *m, rota_device *device) {
    const float numbers[4] = {1, 2, 3, 4};
    rota_tensor scaled, view;
    ROTA_TRY(rota_tensor_create(device, "y", ROTA_F32, ROTA_SHAPE(2, 2), numbers, &m->y));
    ROTA_TRY(rota_tape_create_on(device, NULL, &m->tape));
    ROTA_TRY(rota_op_scale(m->tape, m->y, ROTA_PLAIN(2), &scaled));
    ROTA_TRY(rota_op_add_into(m->tape, scaled, m->y, m->y));
    ROTA_TRY(rota_tape_submit(m->tape, NULL, NULL));
    ROTA_TRY(rota_tensor_transpose(&m->y, 0, 1, &view));
    ROTA_TRY(rota_tensor_read(&view, m->turned, sizeof m->turned));
    m->use =
        (rota_op_use){.op = rota_op_find("add"), .input_count = 2, .output_count = 1, .inputs = {m->y, m->y}};
    ROTA_TRY(rota_op_submit(device, &m->use, NULL));
    return rota_tensor_read(&m->use.outputs[0], m->sum, sizeof m->sum);
}

static void whichever_allocation_fails(void **state) {
    rota_device *device = device_of(state);
    uint32_t number = 1;
    for (bool is_through = false; !is_through; number++) {
        made m = {0};
        rota_chunk_cache_trim();
        (void)rota_fail(ROTA_OK, "%s", "");
        refused_in = number;
        const rota_status status = make(&m, device);
        is_through = refused_in > 0; /* it has not come to so many */
        refused_in = 0;
        if (status == ROTA_OK) {
            assert_memory_equal(m.turned, ((const float[]){3, 9, 6, 12}), sizeof m.turned);
            assert_memory_equal(m.sum, ((const float[]){6, 12, 18, 24}), sizeof m.sum);
        } else {
            if (status != ROTA_OUT_OF_MEMORY)
                fail_msg("allocation %u: %s: %s", number, rota_status_name(status), rota_last_error());
            assert_true(strlen(rota_last_error()) > 0);
            assert_false(is_through);
        }
        rota_tape_destroy(m.tape);
        rota_buffer_release(m.y.buffer);
        rota_buffer_release(m.use.outputs[0].buffer);
        expect_plans(device, 0);
        expect_buffers(device, 0);
        assert_true(number < 2000);
    }
    assert_true(number > 30);
    print_message("%u allocations\n", number - 2);
}

int main(void) {
#define WITH_DEVICE(test) cmocka_unit_test_setup_teardown(test, runtime_setup, runtime_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_opened_and_closed),
        WITH_DEVICE(tensors_hold_what_they_were_given),
        WITH_DEVICE(tensors_that_cannot_be_are_refused),
        WITH_DEVICE(a_tape_is_compiled_once),
        WITH_DEVICE(a_tape_takes_arguments),
        WITH_DEVICE(a_tape_of_nothing_and_one_of_others),
        WITH_DEVICE(a_tape_that_does_not_compile),
        WITH_DEVICE(one_op_at_once),
        WITH_DEVICE(one_op_that_is_wrong),
        cmocka_unit_test(what_is_left_when_a_device_was_closed),
        WITH_DEVICE(many_threads_at_once),
        WITH_DEVICE(whichever_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
