/* Host nodes that end later, as an application has them: recorded, waited for, failed, left out, and refused where they
 * can't be. */
#include "base/atomic.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

/* What `begin` was given; a test ends it. */
typedef struct slow_disk {
    _Atomic(rota_host_run *) run;
    uint32_t *words;
    _Atomic uint32_t skips;
} slow_disk;

static rota_status begin_read(void *user, void *const *operands, const uint64_t *operand_bytes,
                              uint32_t operand_count, rota_host_run *run) {
    slow_disk *disk = user;
    if (operand_count != 1 || operand_bytes[0] != 16)
        return rota_fail(ROTA_INTERNAL, "not what was recorded");
    disk->words = operands[0];
    ra_store_release(&disk->run, run); /* pairs with take */
    return ROTA_OK;
}

static void count_skip(void *user) {
    ra_fetch_add_acq_rel(&((slow_disk *)user)->skips, 1);
}

static const rota_host_later reads = {begin_read, count_skip};

static rota_host_run *take(slow_disk *disk) {
    rota_host_run *run;
    const uint64_t deadline = rota_deadline_after(60000000000u);
    while (!(run = ra_exchange_acq_rel(&disk->run, NULL))) {
        assert_true(rota_clock_ns() < deadline);
        test_nap();
    }
    return run;
}

/* x, 4 words: maybe a kernel that fails while test_fail is set, then read from the disk, then each one more. */
static rota_graph *record(rota_buffer *x, slow_disk *disk, bool with_failing) {
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    const rota_access write = {x, 0, ROTA_WHOLE, ROTA_WRITE}, both = {x, 0, ROTA_WHOLE, ROTA_READWRITE};
    const rota_kernel_node failing =
        ROTA_KERNEL_NODE(.kernel = &test_failing, .accesses = &write, .access_count = 1);
    if (with_failing) assert_ok(rota_record_kernel(recorder, &failing, NULL));
    const rota_host_node read =
        ROTA_HOST_NODE(.user = disk, .name = "slow disk", .accesses = with_failing ? &both : &write,
                       .access_count = 1, .ends_later = &reads);
    assert_ok(rota_record_host(recorder, &read, NULL));
    const rota_kernel_node more =
        ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &both, .access_count = 1);
    assert_ok(rota_record_kernel(recorder, &more, NULL));
    rota_recorder_close(recorder);
    return graph;
}

static rota_plan *compile(runtime_fixture *f, rota_graph *graph) {
    rota_plan *plan;
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1);
    assert_ok(rota_compile(f->runtime, graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

/* Submitted twice at once; a wait's deadline names the node; what depends on it has its bytes. */
static void it_is_waited_for(void **state) {
    runtime_fixture *f = *state;
    slow_disk disk = {.words = NULL};
    rota_buffer *x = test_buffer(f->runtime, "x", 16);
    rota_plan *plan = compile(f, record(x, &disk, false));
    rota_ticket tickets[2];
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_submit(plan, NULL, &tickets[i]));
    for (uint32_t i = 0; i < 2; i++) {
        rota_host_run *run = take(&disk);
        assert_status(rota_wait(tickets[i], 20000000), ROTA_TIMEOUT);
        expect_said("'slow disk'");
        for (uint32_t w = 0; w < 4; w++) disk.words[w] = 100 * (i + 1);
        rota_host_end(run, ROTA_OK);
        assert_ok(rota_wait(tickets[i], 0));
    }
    test_expect_words(x, 4, 201);
    rota_plan_release(plan);
    rota_buffer_release(x);
}

/* Its failure is its ticket's, and what depends on it fails; the next success heals that. */
static void it_fails(void **state) {
    runtime_fixture *f = *state;
    slow_disk disk = {.words = NULL};
    rota_buffer *x = test_buffer(f->runtime, "x", 16);
    rota_plan *plan = compile(f, record(x, &disk, false));
    rota_ticket ticket;
    uint32_t words[4];
    assert_ok(rota_submit(plan, NULL, &ticket));
    rota_host_end(take(&disk), rota_fail(ROTA_SYSTEM, "the disk is gone"));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    expect_said("the disk is gone");
    assert_status(rota_buffer_read(x, 0, words, sizeof words), ROTA_NODE_FAILED);
    assert_ok(rota_submit(plan, NULL, &ticket));
    rota_host_run *run = take(&disk);
    for (uint32_t w = 0; w < 4; w++) disk.words[w] = 7;
    rota_host_end(run, ROTA_OK);
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(x, 4, 8);
    rota_plan_release(plan);
    rota_buffer_release(x);
}

static void it_is_left_out(void **state) {
    runtime_fixture *f = *state;
    slow_disk disk = {.words = NULL};
    rota_buffer *x = test_buffer(f->runtime, "x", 16);
    rota_plan *plan = compile(f, record(x, &disk, true));
    rota_ticket ticket;
    test_fail = 1;
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    test_fail = 0;
    assert_int_equal(ra_load_acquire(&disk.skips), 1);
    assert_null(ra_load_acquire(&disk.run));
    rota_plan_release(plan);
    rota_buffer_release(x);
}

/* What ends later holds up what depends on it, and nothing else: neither a plan of other buffers that was submitted
 * after it, nor one behind that, nor another that ends later, nor the host's reads. */
static void others_pass_it(void **state) {
    runtime_fixture *f = *state;
    slow_disk disks[2] = {{.words = NULL}, {.words = NULL}};
    rota_buffer *x = test_buffer(f->runtime, "x", 16), *y = test_buffer(f->runtime, "y", 16);
    rota_buffer *z = test_words(f->device, "z", 4, 5);
    rota_plan *plan_x = compile(f, record(x, &disks[0], false)),
              *plan_y = compile(f, record(y, &disks[1], false));
    rota_plan *more_x = test_plan_1(f->device, "more x", &test_increment, x, ROTA_READWRITE);
    rota_plan *more_z = test_plan_1(f->device, "more z", &test_increment, z, ROTA_READWRITE);
    rota_ticket tx[3], ty[2], tz;
    /* x x' x, then y y: on one queue the second x would keep y from beginning. */
    assert_ok(rota_submit(plan_x, NULL, &tx[0]));
    assert_ok(rota_submit(more_x, NULL, &tx[1]));
    assert_ok(rota_submit(plan_x, NULL, &tx[2]));
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_submit(plan_y, NULL, &ty[i]));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_submit(more_z, NULL, &tz));
        assert_ok(rota_wait(tz, 5000000000u));
    }
    test_expect_words(z, 4, 8);
    for (uint32_t i = 0; i < 2; i++) {
        rota_host_run *run = take(&disks[1]);
        for (uint32_t w = 0; w < 4; w++) disks[1].words[w] = 30 + i;
        rota_host_end(run, ROTA_OK);
        assert_ok(rota_wait(ty[i], 5000000000u));
    }
    test_expect_words(y, 4, 32);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(rota_poll(tx[i]), ROTA_BUSY);
    for (uint32_t i = 0; i < 2; i++) {
        rota_host_run *run = take(&disks[0]);
        for (uint32_t w = 0; w < 4; w++) disks[0].words[w] = 10;
        rota_host_end(run, ROTA_OK);
    }
    assert_ok(rota_wait(tx[2], 5000000000u));
    test_expect_words(x, 4, 11);
    rota_plan_release(plan_x);
    rota_plan_release(plan_y);
    rota_plan_release(more_x);
    rota_plan_release(more_z);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
}

static void end_with(slow_disk *disk, uint32_t value) {
    rota_host_run *run = take(disk);
    for (uint32_t w = 0; w < 4; w++) disk->words[w] = value;
    rota_host_end(run, ROTA_OK);
}

/* Cancelled, by a call or a deadline, while it is under way: it is not interrupted, its ticket ends after it, and what
 * has not begun is left out. One that had nothing of it begin, on its queue or held for the application, is told so. */
static void it_is_cancelled(void **state) {
    runtime_fixture *f = *state;
    slow_disk disk = {.words = NULL};
    rota_buffer *x = test_buffer(f->runtime, "x", 16);
    rota_plan *plan = compile(f, record(x, &disk, false));
    rota_ticket under_way, behind, held;
    uint32_t words[4];
    for (uint32_t by_deadline = 0; by_deadline < 2; by_deadline++) {
        const uint32_t skips = ra_load_acquire(&disk.skips);
        const rota_submit_options soon = ROTA_SUBMIT_OPTIONS(.deadline_ns = 500000000);
        assert_ok(by_deadline ? rota_submit_with(plan, &soon, &under_way)
                              : rota_submit(plan, NULL, &under_way));
        assert_ok(rota_submit(plan, NULL, &behind));
        rota_host_run *run = take(&disk);
        if (!by_deadline) assert_ok(rota_ticket_cancel(under_way));
        assert_ok(rota_ticket_cancel(behind));
        test_nap_ms(by_deadline ? 800 : 50);
        assert_int_equal(rota_poll(under_way), ROTA_BUSY);
        assert_int_equal(rota_poll(behind), ROTA_BUSY);
        assert_int_equal(ra_load_acquire(&disk.skips), skips); /* its turn has not come */
        for (uint32_t w = 0; w < 4; w++) disk.words[w] = 7;
        rota_host_end(run, ROTA_OK);
        assert_status(rota_wait(under_way, 5000000000u), ROTA_CANCELLED);
        assert_status(rota_wait(behind, 5000000000u), ROTA_CANCELLED);
        assert_int_equal(ra_load_acquire(&disk.skips), skips + 1);
        assert_true(rota_buffer_read(x, 0, words, sizeof words) != ROTA_OK);
        assert_ok(rota_submit(plan, NULL, &held));
        end_with(&disk, 20);
        assert_ok(rota_wait(held, 5000000000u));
        test_expect_words(x, 4, 21);
    }
    /* Held for a point of the application's, it is left out as a whole. */
    rota_external_timeline *frames;
    assert_ok(rota_external_timeline_create(f->runtime, "frames", &frames));
    const rota_external_point point = {frames, 1};
    const uint32_t before = ra_load_acquire(&disk.skips);
    assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &held));
    test_nap_ms(20);
    assert_ok(rota_ticket_cancel(held));
    assert_status(rota_wait(held, 5000000000u), ROTA_CANCELLED);
    assert_int_equal(ra_load_acquire(&disk.skips), before + 1);
    rota_external_timeline_release(frames);
    rota_plan_release(plan);
    rota_buffer_release(x);
}

static rota_status at_once(void *user, void *const *operands, const uint64_t *operand_bytes,
                           uint32_t operand_count) {
    (void)user, (void)operands, (void)operand_bytes, (void)operand_count;
    return ROTA_OK;
}

static void wrong_ones_are_refused(void **state) {
    runtime_fixture *f = *state;
    slow_disk disk = {.words = NULL};
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    const rota_host_later none = {NULL, NULL};
    const rota_host_node without = ROTA_HOST_NODE(.name = "n"),
                         empty = ROTA_HOST_NODE(.name = "n", .ends_later = &none);
    const rota_host_node two = ROTA_HOST_NODE(.name = "n", .fn = at_once, .ends_later = &reads);
    assert_status(rota_record_host(recorder, &without, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("'n' (lane 'key 0', node 0): no host function");
    assert_status(rota_record_host(recorder, &empty, NULL), ROTA_INVALID_ARGUMENT);
    assert_status(rota_record_host(recorder, &two, NULL), ROTA_INVALID_ARGUMENT);
    expect_said("a second host function");
    rota_recorder_close(recorder);
    rota_graph_release(graph);
    /* In a file there can be none. */
    rota_buffer *x = test_buffer(f->runtime, "x", 16);
    graph = record(x, &disk, false);
    assert_status(rota_graph_save(graph, NULL, "/nonexistent/later"), ROTA_UNSUPPORTED);
    rota_graph_release(graph);
    rota_buffer_release(x);
    rota_host_end(NULL, ROTA_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_waited_for, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(it_fails, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(others_pass_it, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(it_is_cancelled, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(it_is_left_out, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(wrong_ones_are_refused, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
