/* Nodes that decide and host nodes that end later (rota_host_later) in one graph: beside each other, one after the
 * other, failed, cancelled and closed. In a body no node may end later, whatever is around it. */
#include <pthread.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

enum { WIDE = 1 << 16, MOMENT_NS = 1000000, SOON_NS = 100000000 };

/* ---- A disk: a host node that ends when the test says so ---- */

typedef struct slow_disk {
    _Atomic(rota_host_run *) run;
    uint32_t *word;
    _Atomic uint32_t begins, skips;
} slow_disk;

static rota_status begin_read(void *user, void *const *operands, const uint64_t *operand_bytes,
                              uint32_t operand_count, rota_host_run *run) {
    slow_disk *disk = user;
    (void)operand_bytes, (void)operand_count;
    disk->word = operands[0];
    ra_fetch_add_acq_rel(&disk->begins, 1);
    ra_store_release(&disk->run, run); /* pairs with take */
    return ROTA_OK;
}
static void count_skip(void *user) {
    ra_fetch_add_acq_rel(&((slow_disk *)user)->skips, 1);
}
static const rota_host_later reads = {begin_read, count_skip};

static rota_host_run *take(slow_disk *disk) {
    rota_host_run *run;
    const uint64_t deadline = rota_deadline_after(RUNTIME_TIMEOUT_NS);
    while (!(run = ra_exchange_acq_rel(&disk->run, NULL))) {
        assert_true(rota_clock_ns() < deadline);
        test_nap();
    }
    return run;
}

static void end_with(slow_disk *disk, rota_host_run *run, uint32_t value) {
    *disk->word = value;
    rota_host_end(run, ROTA_OK);
}

/* ---- A loop: goes round until it may end ---- */

static _Atomic uint32_t may_end, rounds, breaks;

static void word_items(const void *params, const uint64_t *operand_bytes, uint64_t *items, uint64_t *grain) {
    (void)params;
    *items = operand_bytes[0] / 4;
    *grain = 1024;
}
/* The first word is the condition; the others stay as they are. */
static rota_status turn(const rota_kernel_call *call) {
    if (call->begin != 0) return ROTA_OK;
    if (ra_load_acquire(&breaks)) return rota_fail(ROTA_NODE_FAILED, "it breaks");
    *(uint32_t *)call->operands[0] = !ra_load_acquire(&may_end);
    ra_fetch_add_acq_rel(&rounds, 1);
    return ROTA_OK;
}
static const rota_kernel k_turn = {
    .name = "turn", .operand_count = 1, .cpu = {.fn = turn, .items = word_items}};

static void wait_for_rounds(void) {
    const uint32_t from = ra_load_acquire(&rounds);
    const uint64_t deadline = rota_deadline_after(RUNTIME_TIMEOUT_NS);
    while (ra_load_acquire(&rounds) - from < 10) {
        assert_true(rota_clock_ns() < deadline);
        test_nap_us(50);
    }
}

/* ---- Plans with both ---- */

/* disk: y, then y++; loop: x. Where they are in a row, the later one reads what the earlier one wrote. */
typedef enum row { BESIDE, DISK_FIRST, LOOP_FIRST } row;

typedef struct both {
    runtime_fixture *f;
    rota_buffer *x, *y, *z;
    rota_plan *plan;
    slow_disk disk;
    bool is_wide;
} both;

static void record_loop(const both *b, rota_graph *graph, rota_recorder *lane, bool reads_y) {
    rota_graph *body;
    rota_recorder *inner;
    assert_ok(rota_graph_create_body(graph, "round", &body));
    assert_ok(rota_recorder_open(body, 0, "inner", &inner));
    const rota_access x = {b->x, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_record_kernel(
        inner, &ROTA_KERNEL_NODE(.kernel = &k_turn, .name = "turn", .accesses = &x, .access_count = 1),
        NULL));
    if (reads_y) {
        const rota_access copied[2] = {{b->y, 0, 4, ROTA_READ}, {b->z, 0, 4, ROTA_WRITE}};
        assert_ok(rota_record_kernel(
            inner, &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = copied, .access_count = 2), NULL));
    }
    rota_recorder_close(inner);
    const rota_while_node node =
        ROTA_WHILE_NODE(.name = "rounds", .condition = b->x, .body = body, .iterations_max = UINT64_MAX);
    assert_ok(rota_record_while(lane, &node, NULL));
}

static void record_disk(both *b, rota_recorder *lane, bool reads_x) {
    const rota_access accesses[2] = {{b->y, 0, ROTA_WHOLE, ROTA_WRITE}, {b->x, 0, ROTA_WHOLE, ROTA_READ}};
    const rota_host_node read = ROTA_HOST_NODE(.user = &b->disk, .name = "slow disk", .accesses = accesses,
                                               .access_count = reads_x ? 2 : 1, .ends_later = &reads);
    assert_ok(rota_record_host(lane, &read, NULL));
    const rota_access y = {b->y, 0, ROTA_WHOLE, ROTA_READWRITE};
    const rota_kernel_node more =
        ROTA_KERNEL_NODE(.kernel = &test_increment, .name = "more", .accesses = &y, .access_count = 1);
    assert_ok(rota_record_kernel(lane, &more, NULL));
}

/* What a body writes is read, too, since it may not run: after a failure it is to be written anew. */
static void arm(both *b) {
    const uint32_t none = 0;
    assert_ok(rota_buffer_write(b->z, b->f->device, 0, &none, 4, NULL));
    uint32_t *ones = calloc(b->is_wide ? WIDE : 1, 4);
    assert_non_null(ones);
    ones[0] = 1;
    assert_ok(rota_buffer_write(b->x, b->f->device, 0, ones, b->is_wide ? 4ull * WIDE : 4, NULL));
    free(ones);
    ra_store_release(&may_end, 0);
    ra_store_release(&breaks, 0);
}

static void make(both *b, runtime_fixture *f, row order, bool is_wide) {
    *b = (both){.f = f, .is_wide = is_wide};
    b->x = test_words(f->device, "x", is_wide ? WIDE : 1, 1);
    b->y = test_words(f->device, "y", 1, 0);
    b->z = test_words(f->device, "z", 1, 0);
    rota_graph *graph;
    rota_recorder *lane;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &lane));
    if (order == LOOP_FIRST) record_loop(b, graph, lane, false);
    record_disk(b, lane, order == LOOP_FIRST);
    if (order != LOOP_FIRST) record_loop(b, graph, lane, order == DISK_FIRST);
    rota_recorder_close(lane);
    const rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .certify = true);
    assert_ok(rota_compile(f->runtime, graph, &options, &b->plan));
    rota_graph_release(graph);
    arm(b);
}

static void drop(both *b) {
    rota_plan_release(b->plan);
    rota_buffer_release(b->x);
    rota_buffer_release(b->y);
    rota_buffer_release(b->z);
}

/* As a plan that had nothing to suffer. */
static void runs_well(both *b, bool loop_first) {
    rota_ticket ticket;
    arm(b);
    ra_store_release(&may_end, 1);
    assert_ok(rota_submit(b->plan, NULL, &ticket));
    rota_host_run *run = take(&b->disk);
    if (!loop_first) assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    end_with(&b->disk, run, 40);
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(b->y, 1, 41);
    test_expect_words(b->x, b->is_wide ? WIDE : 1, 0);
}

/* Until the ticket is cancelled, which a wait's sentence says, and no turn comes for a while after that. */
static void wait_for_cancelled(rota_ticket ticket) {
    const uint64_t deadline = rota_deadline_after(RUNTIME_TIMEOUT_NS);
    do {
        assert_true(rota_clock_ns() < deadline);
        assert_status(rota_wait(ticket, 20 * MOMENT_NS), ROTA_TIMEOUT);
    } while (!strstr(rota_last_error(), "which is cancelled"));
    for (uint32_t last = ra_load_acquire(&rounds) - 1; ra_load_acquire(&rounds) != last;) {
        assert_true(rota_clock_ns() < deadline);
        last = ra_load_acquire(&rounds);
        test_nap_ms(20);
    }
}

/* ---- Beside each other ---- */

/* Neither holds up the other, whichever ends first; a deadline's sentence names the one that has not. */
static void either_ends_first(void **state) {
    for (uint32_t is_wide = 0; is_wide < 2; is_wide++) {
        both b;
        rota_ticket ticket;
        make(&b, *state, BESIDE, is_wide);
        assert_ok(rota_submit(b.plan, NULL, &ticket));
        rota_host_run *run = take(&b.disk);
        wait_for_rounds();
        end_with(&b.disk, run, 20);
        wait_for_rounds();
        assert_status(rota_wait(ticket, MOMENT_NS), ROTA_TIMEOUT);
        ra_store_release(&may_end, 1);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(b.y, 1, 21);
        arm(&b);
        assert_ok(rota_submit(b.plan, NULL, &ticket));
        run = take(&b.disk);
        wait_for_rounds();
        ra_store_release(&may_end, 1);
        const uint64_t deadline = rota_deadline_after(RUNTIME_TIMEOUT_NS);
        do { /* until the loop has ended, too */
            assert_true(rota_clock_ns() < deadline);
            assert_status(rota_wait(ticket, 20 * MOMENT_NS), ROTA_TIMEOUT);
        } while (!strstr(rota_last_error(), "stuck at node 'slow disk'"));
        assert_null(strstr(rota_last_error(), "iteration"));
        end_with(&b.disk, run, 30);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(b.y, 1, 31);
        runs_well(&b, false);
        drop(&b);
    }
}

/* A body that fails, and a disk that does: the other one's results are there. */
static void either_fails(void **state) {
    for (uint32_t is_wide = 0; is_wide < 2; is_wide++) {
        both b;
        rota_ticket ticket;
        uint32_t word;
        make(&b, *state, BESIDE, is_wide);
        assert_ok(rota_submit(b.plan, NULL, &ticket));
        rota_host_run *run = take(&b.disk);
        wait_for_rounds();
        ra_store_release(&breaks, 1);
        test_nap_ms(20);
        assert_int_equal(rota_poll(ticket), ROTA_BUSY);
        end_with(&b.disk, run, 20);
        assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
        expect_said("node 'turn': it breaks");
        test_expect_words(b.y, 1, 21);
        assert_status(rota_buffer_read(b.x, 0, &word, 4), ROTA_NODE_FAILED);
        arm(&b);
        assert_ok(rota_submit(b.plan, NULL, &ticket));
        run = take(&b.disk);
        wait_for_rounds();
        rota_host_end(run, rota_fail(ROTA_SYSTEM, "the disk is gone"));
        wait_for_rounds(); /* it is no business of the loop's */
        ra_store_release(&may_end, 1);
        assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
        expect_said("the disk is gone");
        assert_status(rota_buffer_read(b.y, 0, &word, 4), ROTA_NODE_FAILED);
        test_expect_words(b.x, is_wide ? WIDE : 1, 0);
        runs_well(&b, false);
        drop(&b);
    }
}

/* Cancelled, by a call or a deadline, while both are under way: the loop ends at an iteration, the disk's run goes on
 * to its end, and the ticket ends with it; what comes after the disk is left out. */
static void both_are_cancelled(void **state) {
    for (uint32_t turn_of = 0; turn_of < 4; turn_of++) {
        const bool by_deadline = turn_of & 1;
        both b;
        rota_ticket ticket;
        uint32_t word;
        make(&b, *state, BESIDE, turn_of & 2);
        const rota_submit_options soon = ROTA_SUBMIT_OPTIONS(.deadline_ns = 10 * (uint64_t)SOON_NS);
        assert_ok(by_deadline ? rota_submit_with(b.plan, &soon, &ticket)
                              : rota_submit(b.plan, NULL, &ticket));
        rota_host_run *run = take(&b.disk);
        if (!by_deadline) {
            wait_for_rounds();
            assert_ok(rota_ticket_cancel(ticket));
        }
        wait_for_cancelled(ticket);
        assert_int_equal(rota_poll(ticket), ROTA_BUSY);
        end_with(&b.disk, run, 20);
        assert_status(rota_wait(ticket, 0), ROTA_CANCELLED); /* the loop goes round for ever without */
        assert_int_equal(ra_load_acquire(&may_end), 0);
        assert_int_equal(ra_load_acquire(&b.disk.skips), 0);
        assert_true(rota_buffer_read(b.x, 0, &word, 4) != ROTA_OK);
        assert_true(rota_buffer_read(b.y, 0, &word, 4) != ROTA_OK);
        runs_well(&b, false);
        drop(&b);
    }
}

/* ---- One after the other ---- */

/* The loop reads what the disk brings: not before; not at all where that fails or is cancelled. */
static void loop_after_disk(void **state) {
    for (uint32_t is_wide = 0; is_wide < 2; is_wide++) {
        both b;
        rota_ticket ticket;
        make(&b, *state, DISK_FIRST, is_wide);
        for (uint32_t way = 0; way < 3; way++) {
            arm(&b);
            ra_store_release(&may_end, 1);
            const uint32_t before = ra_load_acquire(&rounds);
            assert_ok(rota_submit(b.plan, NULL, &ticket));
            rota_host_run *run = take(&b.disk);
            test_nap_ms(5);
            assert_int_equal(ra_load_acquire(&rounds), before);
            if (way == 1) {
                rota_host_end(run, rota_fail(ROTA_SYSTEM, "the disk is gone"));
                assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
                expect_said("the disk is gone");
            } else {
                if (way == 2) assert_ok(rota_ticket_cancel(ticket));
                test_nap_ms(5);
                end_with(&b.disk, run, 20);
                assert_status(rota_wait(ticket, 0), way == 2 ? ROTA_CANCELLED : ROTA_OK);
            }
            assert_int_equal(ra_load_acquire(&rounds), before + (way == 0));
            if (way == 0) test_expect_words(b.z, 1, 21);
        }
        runs_well(&b, false);
        test_expect_words(b.z, 1, 41);
        drop(&b);
    }
}

/* The disk reads what the loop leaves: it is told that it is left out where that fails or is cancelled. */
static void disk_after_loop(void **state) {
    for (uint32_t is_wide = 0; is_wide < 2; is_wide++) {
        both b;
        rota_ticket ticket;
        make(&b, *state, LOOP_FIRST, is_wide);
        runs_well(&b, true);
        for (uint32_t way = 0; way < 2; way++) {
            arm(&b);
            assert_ok(rota_submit(b.plan, NULL, &ticket));
            wait_for_rounds();
            assert_int_equal(ra_load_acquire(&b.disk.skips), way);
            if (way == 0) ra_store_release(&breaks, 1);
            if (way == 1) assert_ok(rota_ticket_cancel(ticket));
            assert_status(rota_wait(ticket, 0), way == 0 ? ROTA_NODE_FAILED : ROTA_CANCELLED);
            assert_int_equal(ra_load_acquire(&b.disk.skips), way + 1);
            assert_int_equal(ra_load_acquire(&b.disk.begins), 1);
        }
        /* And where all of it is left out. */
        rota_external_timeline *frames;
        assert_ok(rota_external_timeline_create(b.f->runtime, "frames", &frames));
        const rota_external_point point = {frames, 1};
        arm(&b);
        assert_ok(rota_submit_with(b.plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &ticket));
        test_nap_ms(10);
        assert_ok(rota_ticket_cancel(ticket));
        assert_status(rota_wait(ticket, 0), ROTA_CANCELLED);
        assert_int_equal(ra_load_acquire(&b.disk.skips), 3);
        rota_external_timeline_release(frames);
        drop(&b);
    }
}

/* ---- The runtime's end ---- */

static void *end_in_a_while(void *user) {
    test_nap_ms(50);
    rota_host_end(user, ROTA_OK);
    return NULL;
}

/* Closed while both are under way: the loop ends at an iteration, the run is waited for. */
static void closed_in_use(void **state) {
    (void)state;
    for (uint32_t is_wide = 0; is_wide < 2; is_wide++) {
        void *fixture;
        both b;
        rota_ticket ticket;
        assert_int_equal(runtime_setup_4(&fixture), 0);
        make(&b, fixture, BESIDE, is_wide);
        assert_ok(rota_submit(b.plan, NULL, &ticket));
        rota_host_run *run = take(&b.disk);
        wait_for_rounds();
        pthread_t ender;
        assert_int_equal(pthread_create(&ender, NULL, end_in_a_while, run), 0);
        const uint64_t begin_ns = rota_clock_ns();
        (void)rota_runtime_close(b.f->runtime, 2 * SOON_NS);
        assert_true(rota_clock_ns() - begin_ns < RUNTIME_TIMEOUT_NS / 2);
        assert_int_equal(pthread_join(ender, NULL), 0);
        assert_true(rota_poll(ticket) != ROTA_BUSY);
        const uint32_t last = ra_load_acquire(&rounds);
        test_nap_ms(20);
        assert_int_equal(ra_load_acquire(&rounds), last);
        assert_int_equal(rota_devices_abandoned(), 0);
        drop(&b);
        free(fixture);
    }
}

/* ---- In a body ---- */

static rota_status add_5(const rota_kernel_call *call) {
    *(uint32_t *)call->operands[0] += 5;
    return ROTA_OK;
}
static const rota_kernel k_add_5 = {.name = "add 5", .operand_count = 1, .cpu = {.fn = add_5}};

/* Refused as it is recorded, at any depth; the body is as it was, and runs. */
static void none_in_bodies(void **state) {
    runtime_fixture *f = *state;
    for (uint32_t depth = 1; depth <= ROTA_BODY_DEPTH_MAX; depth++) {
        slow_disk disk = {.word = NULL};
        rota_buffer *y = test_words(f->device, "y", 1, 1);
        const rota_access access = {y, 0, 4, ROTA_READWRITE};
        rota_graph *graphs[ROTA_BODY_DEPTH_MAX + 1];
        rota_recorder *lanes[ROTA_BODY_DEPTH_MAX + 1];
        assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "outermost"), &graphs[0]));
        for (uint32_t d = 0; d <= depth; d++) {
            if (d) assert_ok(rota_graph_create_body(graphs[d - 1], "the body", &graphs[d]));
            assert_ok(rota_recorder_open(graphs[d], 0, "lane", &lanes[d]));
        }
        const rota_host_node read = ROTA_HOST_NODE(.user = &disk, .name = "slow disk", .accesses = &access,
                                                   .access_count = 1, .ends_later = &reads);
        assert_status(rota_record_host(lanes[depth], &read, NULL), ROTA_UNSUPPORTED);
        expect_said("node 'slow disk' (lane 'lane', node 0): it ends later than its function");
        expect_said("'the body' is the body of a node that decides");
        const rota_kernel_node five =
            ROTA_KERNEL_NODE(.kernel = &k_add_5, .accesses = &access, .access_count = 1);
        assert_ok(rota_record_kernel(lanes[depth], &five, NULL));
        for (uint32_t d = depth; d > 0; d--) {
            rota_recorder_close(lanes[d]);
            const rota_if_node node = ROTA_IF_NODE(.condition = y, .body = graphs[d]);
            assert_ok(rota_record_if(lanes[d - 1], &node, NULL));
        }
        rota_recorder_close(lanes[0]);
        rota_plan *plan;
        const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1);
        assert_ok(rota_compile(f->runtime, graphs[0], &options, &plan));
        rota_graph_release(graphs[0]);
        rota_ticket ticket;
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(y, 1, 6);
        assert_int_equal(ra_load_acquire(&disk.begins) + ra_load_acquire(&disk.skips), 0);
        rota_plan_release(plan);
        rota_buffer_release(y);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(either_ends_first, runtime_setup_4, runtime_teardown),
        cmocka_unit_test_setup_teardown(either_fails, runtime_setup_4, runtime_teardown),
        cmocka_unit_test_setup_teardown(both_are_cancelled, runtime_setup_4, runtime_teardown),
        {"both_are_cancelled (1 worker)", both_are_cancelled, runtime_setup_1, runtime_teardown, NULL},
        cmocka_unit_test_setup_teardown(loop_after_disk, runtime_setup_4, runtime_teardown),
        {"loop_after_disk (1 worker)", loop_after_disk, runtime_setup_1, runtime_teardown, NULL},
        cmocka_unit_test_setup_teardown(disk_after_loop, runtime_setup_4, runtime_teardown),
        {"disk_after_loop (1 worker)", disk_after_loop, runtime_setup_1, runtime_teardown, NULL},
        cmocka_unit_test(closed_in_use),
        cmocka_unit_test_setup_teardown(none_in_bodies, runtime_setup_4, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
