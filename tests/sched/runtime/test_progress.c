/* Calls that are marked wait-free or lock-free make no memory, free none and take no lock. Linked so that
 * each of those calls of the library and of this file goes through a counter. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "sched/plan.h"

static _Thread_local bool is_counting;
static _Thread_local uint32_t counted;
static _Thread_local const char *first;

static void count(const char *what) {
    if (!is_counting) return;
    if (counted++ == 0) first = what;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t elements, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

void *__wrap_malloc(size_t bytes) {
    count("malloc");
    return __real_malloc(bytes);
}
void *__wrap_calloc(size_t elements, size_t bytes) {
    count("calloc");
    return __real_calloc(elements, bytes);
}
void *__wrap_realloc(void *memory, size_t bytes) {
    count("realloc");
    return __real_realloc(memory, bytes);
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    count("aligned_alloc");
    return __real_aligned_alloc(alignment, bytes);
}
void __wrap_free(void *memory) {
    if (memory) count("free");
    __real_free(memory);
}
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    count("mmap");
    return __real_mmap(address, bytes, protection, flags, fd, offset);
}
int __wrap_munmap(void *address, size_t bytes) {
    count("munmap");
    return __real_munmap(address, bytes);
}
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    count("pthread_mutex_lock");
    return __real_pthread_mutex_lock(mutex);
}

static void begin(void) {
    counted = 0;
    is_counting = true;
}

static void end(const char *call) {
    is_counting = false;
    if (counted) fail_msg("%s: %u calls, the first of %s", call, counted, first);
}

#define FREE(call)                                                                                           \
    do {                                                                                                     \
        begin();                                                                                             \
        (void)(call);                                                                                        \
        end(#call);                                                                                          \
    } while (0)
#define FREE_OK(call)                                                                                        \
    do {                                                                                                     \
        begin();                                                                                             \
        rota_status status_ = (call);                                                                        \
        end(#call);                                                                                          \
        if (status_ != ROTA_OK) fail_msg("%s: %s", #call, rota_last_error());                                \
    } while (0)

enum { WORDS = 64, BYTES = WORDS * 4 };

/* The counters do count. */
static void what_may_block_is_counted(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer;
    begin();
    assert_ok(rota_buffer_create_in(f->runtime, "x", BYTES, &buffer));
    is_counting = false;
    assert_true(counted >= 2);
    rota_buffer_release(buffer);
}

static void record_takes_no_lock(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", WORDS, 0);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_node nodes[2];
    rota_access access = {buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &access, .access_count = 1);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_recorder_reserve(recorder, 8, 8, 256));
    for (uint32_t i = 0; i < 2; i++) FREE_OK(rota_record_kernel(recorder, &node, &nodes[i]));
    FREE_OK(rota_recorder_last_node(recorder, &nodes[0]));
    FREE(rota_recorder_close(recorder));
    FREE(rota_graph_retain(graph));
    FREE(rota_graph_release(graph));
    rota_graph_release(graph);
    rota_buffer_release(buffer);
}

static void submissions_take_no_lock(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", WORDS, 0);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    rota_plan *gate = test_plan_1(f->device, "gate", &test_gate, buffer, ROTA_READWRITE);
    rota_ticket ticket, hung;
    uint64_t number;
    for (uint32_t i = 0; i < 3000; i++) FREE_OK(rota_submit_wait(plan, NULL, 0, &ticket));
    FREE_OK(rota_wait(ticket, 0));
    FREE_OK(rota_poll(ticket));
    FREE_OK(rota_ticket_number(ticket, &number));
    FREE_OK(rota_wait_inputs_taken(ticket, 0));
    FREE_OK(rota_submit_with(plan, NULL, NULL));
    FREE_OK(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.no_wait = true), NULL));
    rota_tape *tape;
    assert_ok(rota_tape_create_on(f->device, NULL, &tape));
    assert_ok(rota_tape_submit(tape, NULL, NULL)); /* compiles */
    for (uint32_t i = 0; i < 300; i++) FREE_OK(rota_tape_submit(tape, NULL, &ticket));
    FREE_OK(rota_wait(ticket, 0)); /* of this thread's, so many may wait, that there is room for none */
    rota_tape_destroy(tape);
    test_gate_open(false);
    FREE_OK(rota_submit(gate, NULL, &hung));
    FREE(rota_poll(hung));
    FREE(rota_wait(hung, 20000000));
    FREE(rota_poll((rota_ticket){f->runtime, 77}));
    test_gate_open(true);
    FREE_OK(rota_wait(hung, 0));
    rota_plan_release(plan);
    rota_plan_release(gate);
    rota_buffer_release(buffer);
}

/* The first submission of a thread, too. */
static void *first_submission(void *user) {
    rota_ticket ticket;
    begin();
    rota_status status = rota_submit(user, NULL, &ticket);
    is_counting = false;
    return status == ROTA_OK && counted == 0 ? NULL : "its first submission took memory or a lock";
}

static void first_submissions_take_no_lock(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", WORDS, 0);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    for (uint32_t i = 0; i < 3; i++) {
        pthread_t thread;
        void *failure;
        assert_int_equal(pthread_create(&thread, NULL, first_submission, plan), 0);
        (void)pthread_join(thread, &failure);
        assert_null(failure);
    }
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

static void arguments_take_no_lock(void **state) {
    runtime_fixture *f = *state;
    static uint32_t in[WORDS], out[WORDS];
    rota_buffer *bound = test_words(f->device, "bound", WORDS, 0), *view;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *slot, *input, *output;
    rota_plan *plan;
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_buffer_create_view(bound, 0, BYTES, &view));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "slot", BYTES, &slot));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "input", BYTES, &input));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "output", BYTES, &output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, slot, 0, input, 0, BYTES, NULL));
    assert_ok(rota_record_copy(recorder, output, 0, slot, 0, BYTES, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    assert_ok(rota_args_create(plan, &args));
    FREE_OK(rota_args_set_buffer(args, slot, view));
    FREE_OK(rota_args_set_buffer(args, slot, bound));
    FREE_OK(rota_args_set_input(args, input, in, BYTES, false));
    assert_ok(rota_args_set_input(args, input, in, BYTES, true)); /* may block */
    FREE_OK(rota_args_set_input(args, input, in, BYTES, true));
    FREE_OK(rota_args_set_output(args, output, out, BYTES));
    for (uint32_t i = 0; i < 10; i++) {
        in[3] = i;
        FREE_OK(rota_submit_wait(plan, args, 0, &ticket));
        FREE_OK(rota_wait(ticket, 0));
        assert_int_equal(out[3], i);
    }
    FREE(rota_args_release(args));
    FREE(rota_plan_retain(plan));
    FREE(rota_plan_release(plan));
    FREE(rota_plan_release(plan));
    rota_graph_release(graph);
    rota_buffer_release(view);
    rota_buffer_release(bound);
}

static void releases_take_no_lock(void **state) {
    runtime_fixture *f = *state;
#ifdef __SANITIZE_ADDRESS__ /* under which every block of a slab is malloc's (base/slab.c) */
    skip();
#endif
    rota_buffer *buffer = test_words(f->device, "a buffer with a name", WORDS, 0), *view, *inner;
    assert_ok(rota_buffer_create_view(buffer, 64, 128, &view));
    assert_ok(rota_buffer_create_view(view, 0, 64, &inner));
    assert_string_equal(rota_buffer_name(inner), "a buffer with a name");
    FREE(rota_buffer_retain(view));
    FREE(rota_buffer_release(view));
    FREE(rota_buffer_release(view));
    FREE(rota_buffer_release(buffer));
    assert_string_equal(rota_buffer_name(inner), "a buffer with a name");
    FREE(rota_buffer_release(inner)); /* the last of all */
}

int main(void) {
#define PROGRESS_TEST(test) cmocka_unit_test_setup_teardown(test, runtime_setup, runtime_teardown)
    const struct CMUnitTest tests[] = {
        PROGRESS_TEST(what_may_block_is_counted), PROGRESS_TEST(record_takes_no_lock),
        PROGRESS_TEST(submissions_take_no_lock),  PROGRESS_TEST(first_submissions_take_no_lock),
        PROGRESS_TEST(arguments_take_no_lock),    PROGRESS_TEST(releases_take_no_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
