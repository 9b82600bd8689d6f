/* Faults of a CUDA device as a caller of the runtime sees them, over the stand-in for the driver: a kernel
 * that does not end is named by the deadline, one that faults fails its ticket and loses its device alone,
 * and memory that there is not is said in numbers. */
#include "tests/kit/runtime_support.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "tests/exec/cuda/cuda_stub_kit.h"
#include "tests/kit/sequenced.h"

#ifdef ROTA_HAVE_CUDA
#include "exec/smoke_kernel.h"

enum { WORDS = 1024 };

typedef struct fixture {
    rota_runtime *runtime;
    rota_device *cpu, *cuda;
    rota_buffer *a, *b, *c;
    rota_plan *plan;
} fixture;

/* A plan of three nodes on the device, the second of which is the smoke test's kernel. */
static rota_plan *three(fixture *f) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    const uint32_t words = WORDS;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "three"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, f->b, 0, WORDS * 4, 0, NULL));
    rota_access accesses[] = {{f->a, 0, ROTA_WHOLE, ROTA_READ},
                              {f->b, 0, ROTA_WHOLE, ROTA_READ},
                              {f->c, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .name = "the culprit",
                                             .accesses = accesses, .access_count = 3, .params = &words);
    assert_ok(rota_record_kernel(recorder, &node, NULL));
    assert_ok(rota_record_copy(recorder, f->a, 0, f->c, 0, WORDS * 4, NULL));
    rota_recorder_close(recorder);
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "three", .devices = &f->cuda, .device_count = 1);
    assert_ok(rota_compile(f->runtime, graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

static void open_all(fixture *f, bool diagnostics) {
    memset(f, 0, sizeof *f);
    cuda_stub_start(9, 1);
    rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.timeout_ns = 10000000000u, .diagnostics = diagnostics);
    assert_ok(rota_runtime_open(&options, &f->runtime));
    assert_ok(rota_device_open(f->runtime, "cpu", &f->cpu));
    assert_ok(rota_device_open(f->runtime, "cuda:0", &f->cuda));
    f->a = test_words(f->cuda, "a", WORDS, 0);
    f->b = test_buffer(f->runtime, "b", WORDS * 4);
    f->c = test_buffer(f->runtime, "c", WORDS * 4);
    f->plan = three(f);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(f->plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
}

static void close_all(fixture *f) {
    rota_plan_release(f->plan);
    rota_buffer_release(f->a);
    rota_buffer_release(f->b);
    rota_buffer_release(f->c);
    assert_ok(rota_runtime_close(f->runtime, 5000000000u));
    cuda_stub_end_clean();
}

static void expect_all_said(const char *const *texts, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!strstr(rota_last_error(), texts[i])) fail_msg("'%s' is not in: %s", texts[i], rota_last_error());
}

/* P2: the deadline names plan, submission, segment and its first and last node; with diagnostics the node. */
static void endless(void **state) {
    (void)state;
    for (uint32_t diagnostics = 0; diagnostics < 2; diagnostics++) {
        fixture f;
        open_all(&f, diagnostics);
        cuda_stub_hang(rota_smoke_kernel.cuda.entry);
        rota_ticket ticket;
        assert_ok(rota_submit_wait(f.plan, NULL, 0, &ticket));
        test_sequenced(ticket);
        assert_status(rota_wait(ticket, 200000000u), ROTA_TIMEOUT);
        const char *said[] = {"plan 'three'", "submission", "on 'cuda:0'", "from node 'fill' to node 'copy'",
                              "'cuda:0' queue 0 at"};
        expect_all_said(said, 5);
        /* Another device goes on. */
        rota_buffer *w = test_words(f.cpu, "w", WORDS, 4);
        rota_plan *alone = test_plan_1(f.cpu, "alone", &test_increment, w, ROTA_READWRITE);
        assert_ok(rota_submit_wait(alone, NULL, 0, &(rota_ticket){0}));
        test_expect_words(w, WORDS, 5);
        rota_plan_release(alone);
        rota_buffer_release(w);
        cuda_stub_hang(NULL);
        assert_ok(rota_wait(ticket, 0));
        close_all(&f);
    }
}

static void faulting(void **state) {
    (void)state;
    fixture f;
    open_all(&f, true);
    rota_buffer *w = test_words(f.cpu, "w", WORDS, 4);
    rota_plan *alone = test_plan_1(f.cpu, "alone", &test_increment, w, ROTA_READWRITE);
    cuda_stub_fault(rota_smoke_kernel.cuda.entry);
    rota_ticket ticket;
    uint32_t word;
    assert_ok(rota_submit_wait(f.plan, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    const char *said[] = {"device 'cuda:0' is lost", "CUDA_ERROR_ILLEGAL_ADDRESS"};
    expect_all_said(said, 2);
    assert_status(rota_buffer_read(f.c, 0, &word, 4), ROTA_DEVICE_LOST);
    rota_status status = rota_submit_wait(f.plan, NULL, 0, &ticket);
    if (status == ROTA_OK) status = rota_wait(ticket, 0);
    assert_int_equal(status, ROTA_DEVICE_LOST);
    assert_ok(rota_submit_wait(alone, NULL, 0, NULL));
    test_expect_words(w, WORDS, 5);
    rota_plan_release(alone);
    rota_buffer_release(w);
    close_all(&f);
}

/* The last replay failed before its instance was made: there are no times of it, and that is said. */
static void times_of_nothing(void **state) {
    (void)state;
    fixture f;
    open_all(&f, true);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_args *args;
    rota_buffer *in;
    rota_node node;
    uint32_t words[WORDS] = {0};
    uint64_t begin, end;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "fed"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", sizeof words, &in));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, f.c, 0, in, 0, sizeof words, &node));
    rota_recorder_close(recorder);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.name = "fed", .devices = &f.cuda, .device_count = 1);
    assert_ok(rota_compile(f.runtime, graph, &options, &plan));
    rota_graph_release(graph);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, words, sizeof words, false));
    rota_ticket tickets[2];
    cuda_stub_pause(true);
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[0]));
    const uint64_t made = cuda_stub_calls("GraphInstantiateWithFlags");
    cuda_stub_fail("GraphInstantiateWithFlags", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[1]));
    /* The first is in flight until the second has tried to make an instance of its own. */
    while (rota_poll(tickets[1]) == ROTA_BUSY && cuda_stub_calls("GraphInstantiateWithFlags") == made)
        sched_yield();
    cuda_stub_pause(false);
    assert_ok(rota_wait(tickets[0], 0));
    assert_int_not_equal(rota_wait(tickets[1], 0), ROTA_OK);
    assert_status(rota_plan_node_times(plan, node, &begin, &end), ROTA_WRONG_STATE);
    assert_non_null(strstr(rota_last_error(), "plan 'fed'"));
    rota_args_release(args);
    rota_plan_release(plan);
    assert_ok(rota_buffer_write(f.c, f.cuda, 0, words, sizeof words, NULL)); /* heals it */
    close_all(&f);
}

/* What was asked, what is free and what rota holds: 12 345 of 1 GiB, as the stand-in says. */
static void out_of_memory(void **state) {
    (void)state;
    fixture f;
    open_all(&f, false);
    for (uint32_t i = 0; i < 2; i++) {
        rota_buffer *large = test_buffer(f.runtime, "large", i ? (uint64_t)3 << 30 : (uint64_t)3 << 20);
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan = NULL;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_record_fill(recorder, large, 0, ROTA_WHOLE, 0, NULL));
        rota_recorder_close(recorder);
        if (!i) cuda_stub_fail("MemCreate", 0, CUDA_ERROR_OUT_OF_MEMORY);
        rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &f.cuda, .device_count = 1);
        assert_status(rota_compile(f.runtime, graph, &options, &plan), ROTA_OUT_OF_MEMORY);
        const char *said[] = {"'large'", i ? "3221225472" : "3145728", "12345 of 1073741824 are free",
                              "rota holds "};
        expect_all_said(said, 4);
        rota_graph_release(graph);
        rota_buffer_release(large);
    }
    close_all(&f);
}

int main(void) {
    if (!cuda_stub_has_images()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(endless), cmocka_unit_test(faulting),
                                       cmocka_unit_test(times_of_nothing), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#endif
