/* What failures leave behind: as much as there are different ones, however often they happen; and what old
 * tickets say. */
#include "tests/kit/runtime_support.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/atomic.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/timeline.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

#define WORDS 16u

/* Counted where the allocator is the C library's own. */
static uint64_t heap_bytes(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    return mallinfo2().uordblks;
#endif
}

/* A few at a time, so that what is in flight takes no memory that counts. */
static void submit_many(rota_plan *plan, uint32_t count, rota_ticket *out_first, rota_ticket *out_last) {
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(rota_submit_wait(plan, NULL, 0, out_last));
        if (i == 0) *out_first = *out_last;
        if (i % 64 == 63) (void)rota_wait(*out_last, 0);
    }
    (void)rota_wait(*out_last, 0);
}

static uint64_t number_of(rota_ticket ticket) {
    uint64_t number;
    assert_ok(rota_ticket_number(ticket, &number));
    return number;
}

/* The same failure again and again leaves one sentence and one run of tickets. */
static void a_failure_is_kept_once(void **state) {
    runtime_fixture *f = *state;
    enum { MANY = 30000 };
    rota_buffer *a = test_words(f->device, "a", WORDS, 1), *b = test_words(f->device, "b", WORDS, 1);
    rota_plan *fails = test_plan_1(f->device, "fails", &test_failing, a, ROTA_WRITE);
    test_node node = {
        &test_copy, "depends", {{a, 0, ROTA_WHOLE, ROTA_READ}, {b, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *depends = test_plan(f->device, "depends", &node, 1);
    rota_ticket first, last, first_after, last_after;
    char text[64];
    test_fail = 1;
    submit_many(fails, 2 * ROTA_TICKET_HISTORY, &first, &last);
    const uint64_t number = number_of(last) - 2 * ROTA_TICKET_HISTORY + 1;
    const uint64_t bytes = heap_bytes();
    const uint32_t causes = ra_load_seq_cst(&f->runtime->causes.count);
    assert_int_equal(causes, 1);
    submit_many(fails, MANY, &first_after, &last);
    /* What depends on it names the submission that it depends on. */
    submit_many(depends, MANY, &first_after, &last_after);
    assert_int_equal(ra_load_seq_cst(&f->runtime->causes.count), causes);
    assert_in_range(ra_load_seq_cst(&f->runtime->failed.active), 2, 16);
    assert_true(heap_bytes() < bytes + 65536);
    (void)snprintf(text, sizeof text, "submission %llu, node 'failing'", (unsigned long long)number);
    assert_status(rota_poll(first), ROTA_NODE_FAILED); /* the first of its run */
    assert_non_null(strstr(rota_last_error(), text));
    (void)snprintf(text, sizeof text, "submission %llu, node 'failing'",
                   (unsigned long long)number_of(last_after) - MANY);
    assert_status(rota_poll(first_after), ROTA_NODE_FAILED);
    assert_status(rota_poll(last_after), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), text));
    test_fail = 0;
    rota_plan_release(fails);
    rota_plan_release(depends);
    rota_buffer_release(a);
    rota_buffer_release(b);
}

/* Each of a thread's last tickets says which submission failed; older ones say that of the first in their
 * run; those between runs are well; and beyond the runs that are kept it is said that it is not known. */
static void old_tickets_say_what_is_known(void **state) {
    runtime_fixture *f = *state;
    enum { PAIRS = ROTA_FAILURE_SPANS + 50 };
    static rota_ticket failed[PAIRS], good[PAIRS];
    rota_buffer *a = test_words(f->device, "a", WORDS, 1), *b = test_words(f->device, "b", WORDS, 1);
    rota_plan *fails = test_plan_1(f->device, "fails", &test_failing, a, ROTA_WRITE);
    rota_plan *writes = test_plan_1(f->device, "writes", &test_increment, b, ROTA_READWRITE);
    rota_ticket before, last;
    char text[64];
    assert_ok(rota_submit_wait(writes, NULL, 0, &before));
    test_fail = 1;
    uint64_t numbers[PAIRS];
    for (uint32_t i = 0; i < PAIRS; i++) {
        assert_ok(rota_submit_wait(fails, NULL, 0, &failed[i]));
        assert_ok(rota_submit_wait(writes, NULL, 0, &good[i]));
        assert_status(rota_wait(failed[i], 0), ROTA_NODE_FAILED);
        assert_ok(rota_wait(good[i], 0));
        numbers[i] = number_of(failed[i]);
    }
    for (uint32_t age = 0; age < 2; age++) {
        assert_ok(rota_poll(before));
        for (uint32_t i = 0; i < PAIRS; i++) {
            const bool known = age == 0 || i >= PAIRS - ROTA_FAILURE_SPANS;
            /* Lies between two that are not known. */
            const bool between = !known && i + 1 < PAIRS - ROTA_FAILURE_SPANS;
            assert_status(rota_poll(failed[i]), known ? ROTA_NODE_FAILED : ROTA_NOT_FOUND);
            (void)snprintf(text, sizeof text, "submission %llu, node", (unsigned long long)numbers[i]);
            if (known)
                assert_non_null(strstr(rota_last_error(), text));
            else
                assert_non_null(strstr(rota_last_error(), "not known any more"));
            assert_status(rota_poll(good[i]), between ? ROTA_NOT_FOUND : ROTA_OK);
        }
        for (uint32_t i = 0; i < ROTA_TICKET_HISTORY && age == 0; i++)
            assert_ok(rota_submit_wait(writes, NULL, 0, &last));
        if (age == 0) assert_ok(rota_wait(last, 0));
    }
    test_fail = 0;
    rota_plan_release(fails);
    rota_plan_release(writes);
    rota_buffer_release(a);
    rota_buffer_release(b);
}

static _Atomic uint32_t message;

static rota_status says_something_else(void *user, void *const *operands, const uint64_t *bytes,
                                       uint32_t count) {
    (void)user;
    (void)operands;
    (void)bytes;
    (void)count;
    return rota_fail(ROTA_OUT_OF_RANGE, "message %u", ra_fetch_add_relaxed(&message, 1));
}

/* However many sentences there are, no more than so many are kept. */
static void sentences_are_bounded(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *a = test_words(f->device, "a", WORDS, 1);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_access access = {a, 0, ROTA_WHOLE, ROTA_WRITE};
    rota_host_node node = ROTA_HOST_NODE(says_something_else, NULL, "talks", &access, 1);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_host(recorder, &node, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    rota_graph_release(graph);
    rota_ticket first, last;
    submit_many(plan, ROTA_CAUSES_MAX, &first, &last);
    assert_status(rota_poll(last), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "node 'talks' failed with OUT_OF_RANGE: message"));
    assert_int_equal(ra_load_seq_cst(&f->runtime->causes.count), ROTA_CAUSES_MAX);
    submit_many(plan, 5000, &first, &last);
    assert_in_range(ra_load_seq_cst(&f->runtime->causes.count), ROTA_CAUSES_MAX, ROTA_CAUSES_MAX + 8);
    assert_status(rota_poll(last), ROTA_NODE_FAILED);
    char text[64];
    (void)snprintf(text, sizeof text, "submission %llu failed with NODE_FAILED",
                   (unsigned long long)number_of(last));
    assert_non_null(strstr(rota_last_error(), text));
    rota_plan_release(plan);
    rota_buffer_release(a);
}

/* Of every length, and so at every place in what the allocator gives. */
static void sentences_are_kept_whole(void **state) {
    runtime_fixture *f = *state;
    char text[128];
    for (size_t length = 1; length < sizeof text; length++) {
        memset(text, 's', length);
        text[length] = 0;
        const rota_cause *cause = rota_cause_new(f->runtime, ROTA_NODE_FAILED, "%s", text);
        assert_string_equal(cause->message, text);
        assert_ptr_equal(rota_cause_new(f->runtime, ROTA_NODE_FAILED, "%s", text), cause);
    }
}

/* Submissions that fail before they have works mark what they should have written; the marks are as many as
 * the ranges, also while an older submission runs on. */
static void early_failures_leave_one_mark(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *never = test_buffer(f->runtime, "never", WORDS * 4),
                *b = test_words(f->device, "b", WORDS, 2), *held = test_words(f->device, "held", WORDS, 0),
                *c = test_words(f->device, "c", WORDS, 0);
    test_node node = {
        &test_copy, NULL, {{never, 0, ROTA_WHOLE, ROTA_READ}, {b, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *gate = test_plan_1(f->device, "gate", &test_gate, held, ROTA_READWRITE),
              *other = test_plan_1(f->device, "other", &test_increment, c, ROTA_READWRITE),
              *undefined = test_plan(f->device, "undefined", &node, 1);
    rota_ticket first, last, ticket;
    uint32_t word;
    for (uint32_t round = 0; round < 2; round++) {
        test_expect_words(c, WORDS, round * 500); /* nothing is unfinished */
        submit_many(undefined, 500, &first, &last);
        assert_status(rota_wait(last, 0), ROTA_UNDEFINED_DATA);
        assert_int_equal(ra_load_seq_cst(&f->runtime->failed.active), 1);
        /* Others come and go between them. */
        for (uint32_t i = 0; i < 500; i++) {
            assert_ok(rota_submit_wait(other, NULL, 0, &ticket));
            assert_ok(rota_submit_wait(undefined, NULL, 0, &last));
            assert_ok(rota_wait(ticket, 0));
        }
        assert_status(rota_wait(last, 0), ROTA_UNDEFINED_DATA);
        assert_in_range(ra_load_seq_cst(&f->runtime->failed.active), 1, 4);
        assert_status(rota_buffer_read(b, 0, &word, 4), ROTA_UNDEFINED_DATA);
        /* What overwrites all of it heals them all, those of a time when something else was running too. */
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
        submit_many(undefined, 10, &first, &last);
        test_gate_open(true);
        assert_ok(rota_wait(ticket, 0));
        uint32_t words[WORDS] = {0};
        assert_ok(rota_buffer_write(b, f->device, 0, words, sizeof words, NULL));
        assert_ok(rota_buffer_read(b, 0, words, sizeof words));
        rota_sequencer_reap_now(f->runtime);
        assert_int_equal(ra_load_seq_cst(&f->runtime->failed.active), 0);
    }
    rota_plan_release(gate);
    rota_plan_release(other);
    rota_plan_release(undefined);
    rota_buffer *buffers[] = {never, b, held, c};
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
}

#define RUNTIME_TEST(name) cmocka_unit_test_setup_teardown(name, runtime_setup, runtime_teardown)
/* ---- Two threads that fail one submission ---- */

typedef struct failing {
    rota_runtime *runtime;
    rota_submission *submission;
    const rota_cause *cause;
    _Atomic uint32_t state; /* 1: on its way, 2: back */
} failing;

static void *fails(void *of) {
    failing *f = of;
    ra_store_seq_cst(&f->state, 1);
    rota_submission_fail(f->runtime, f->submission, (rota_reason){f->cause, f->submission->number}, true);
    ra_store_seq_cst(&f->state, 2);
    return NULL;
}

/* The first is stopped before it has marked the ticket. The second would let the submission end when it is back, and
 * whoever waits for the ticket would be told that all is well. */
static void who_comes_second_waits_for_the_mark(void **state) {
    runtime_fixture *f = *state;
    rota_runtime *runtime = f->runtime;
    rota_buffer *x = test_words(f->device, "x", WORDS, 1);
    rota_plan *gate = test_plan_1(f->device, "gate", &test_gate, x, ROTA_READWRITE);
    rota_ticket ticket;
    test_expect_words(x, WORDS, 1);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    test_sequenced(ticket);
    rota_submission *submission = NULL;
    for (uint32_t q = 0; q < runtime->queue_count && !submission; q++)
        submission = f->device->timelines[q].order.oldest;
    assert_non_null(submission);
    failing by[2];
    pthread_t threads[2];
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    for (uint32_t i = 0; i < 2; i++) {
        by[i] = (failing){.runtime = runtime, .submission = submission};
        by[i].cause = rota_cause_new(runtime, ROTA_NODE_FAILED, "failed by %u", i);
        assert_int_equal(pthread_create(&threads[i], NULL, fails, &by[i]), 0);
        while (ra_load_seq_cst(&by[i].state) == 0) test_nap_ms(1);
        test_nap_ms(50); /* the first is at the mutex, the second there or, if it does not wait, back */
    }
    const bool is_back = ra_load_seq_cst(&by[1].state) == 2;
    const bool is_marked = ra_load_seq_cst(&submission->cell->state) & ROTA_CELL_FAILED;
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(ra_load_seq_cst(&submission->cell->state) & ROTA_CELL_FAILED);
    test_gate_open(true);
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "failed by"));
    rota_plan_release(gate);
    rota_buffer_release(x);
    assert_true(is_marked || !is_back);
}

/* ---- What is cancelled, and what had failed there before ---- */

static rota_memory_range bytes_of(const rota_buffer *buffer, uint64_t begin, uint64_t end) {
    return rota_memory_range_of_buffer(buffer, begin, end);
}

/* The first cause of the range up to and with that submission; 0: none, else its status. */
static uint32_t found(rota_runtime *runtime, const rota_buffer *x, uint64_t begin, uint64_t end,
                      uint64_t number) {
    const rota_memory_range where = bytes_of(x, begin, end);
    rota_reason reason;
    if (!rota_failed_ranges_find(runtime, &where, (rota_moment){number, UINT32_MAX}, &reason)) return 0;
    return reason.cause->status;
}

/* As the sequencer does at the end of submission 9, which was cancelled: for each range that it was to write, of which
 * one may be there twice. */
static void older_causes_stay(void **state) {
    runtime_fixture *f = *state;
    rota_runtime *runtime = f->runtime;
    rota_buffer *x = test_buffer(runtime, "x", 120);
    const rota_cause *causes[] = {rota_cause_new(runtime, ROTA_NODE_FAILED, "a"),
                                  rota_cause_new(runtime, ROTA_TIMEOUT, "b"),
                                  rota_cause_new(runtime, ROTA_CANCELLED, "c")};
    const struct {
        uint64_t begin, end, number;
        uint32_t cause;
    } marks[] = {{0, 40, 3, 0},  {60, 80, 5, 1},   {85, 90, 6, 2},   {90, 100, 7, 1}, {20, 70, 9, 2},
                 {86, 89, 9, 2}, {100, 120, 3, 0}, {110, 118, 5, 1}, {100, 104, 9, 2}};
    const rota_memory_range wheres[] = {bytes_of(x, 0, 65), bytes_of(x, 0, 65), bytes_of(x, 65, 90),
                                        bytes_of(x, 100, 108)};
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    for (uint32_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const rota_memory_range range = bytes_of(x, marks[i].begin, marks[i].end);
        rota_failed_ranges_mark(runtime, &range, (rota_moment){marks[i].number, 1},
                                (rota_reason){causes[marks[i].cause], marks[i].number}, true);
    }
    for (uint32_t i = 0; i < sizeof wheres / sizeof *wheres; i++)
        rota_failed_ranges_heal_with_causes(runtime, &wheres[i], 9);
    const struct {
        uint64_t begin, end;
        uint32_t is;
    } wanted[] = {{0, 20, 0},
                  {20, 40, ROTA_NODE_FAILED}, /* as it had failed */
                  {40, 60, ROTA_CANCELLED},   /* as it was well */
                  {60, 70, ROTA_TIMEOUT},
                  {70, 86, 0}, /* written */
                  {86, 89, ROTA_CANCELLED},
                  {89, 90, 0},
                  {90, 100, ROTA_TIMEOUT}}; /* none of its ranges */
    for (uint32_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (uint64_t byte = wanted[i].begin; byte < wanted[i].end; byte++)
            if (found(runtime, x, byte, byte + 1, 9) != wanted[i].is)
                fail_msg("byte %llu: %u, expected %u", (unsigned long long)byte,
                         found(runtime, x, byte, byte + 1, 9), wanted[i].is);
    assert_int_equal(found(runtime, x, 0, 90, 8), 0); /* older ones are gone */
    /* What is none of its ranges is as it was, also where what failed before reaches into one of them. */
    const rota_memory_range beside = bytes_of(x, 104, 120);
    assert_int_equal(found(runtime, x, 100, 104, 9), ROTA_NODE_FAILED);
    assert_int_equal(found(runtime, x, 104, 108, 9), 0);
    assert_int_equal(found(runtime, x, 108, 120, 9), ROTA_NODE_FAILED);
    rota_failed_ranges_heal(runtime, &beside, (rota_moment){3, UINT32_MAX});
    assert_int_equal(found(runtime, x, 110, 118, 9), ROTA_TIMEOUT);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
    rota_buffer_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        RUNTIME_TEST(a_failure_is_kept_once),
        RUNTIME_TEST(old_tickets_say_what_is_known),
        RUNTIME_TEST(sentences_are_bounded),
        RUNTIME_TEST(sentences_are_kept_whole),
        RUNTIME_TEST(early_failures_leave_one_mark),
        RUNTIME_TEST(who_comes_second_waits_for_the_mark),
        RUNTIME_TEST(older_causes_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
