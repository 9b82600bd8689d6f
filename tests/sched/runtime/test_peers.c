/* Devices of different GPUs that read each other's memory and wait for each other without the host: the adversary's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary_internal.h"
#include "tests/kit/nap.h"
#include "tests/kit/never_asks.h"
#include "tests/kit/sequenced.h"
#include "tests/sched/runtime/across_kit.h"

enum { LONG_NS = 2000000000 };

static pair *open_peers(uint64_t seed, bool timelines) {
    return open_pair_with(&(adversary_options){.peers = true, .timelines = timelines, .seed = seed},
                          20000000000u);
}

static rota_runtime_stats stats_of(const pair *p) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    assert_ok(rota_runtime_get_stats(p->runtime, &stats));
    return stats;
}

static uint32_t transfers_of(rota_plan *plan) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(plan, &stats));
    rota_plan_command *commands = calloc(stats.commands, sizeof *commands);
    assert_non_null(commands);
    commands[0].struct_size = sizeof *commands;
    assert_ok(rota_plan_get_commands(plan, commands, stats.commands));
    uint32_t count = 0;
    for (uint64_t i = 0; i < stats.commands; i++) count += commands[i].kind == ROTA_PLAN_TRANSFER;
    free(commands);
    return count;
}

static rota_plan *alternating(pair *p, rota_buffer *x, uint32_t nodes) {
    const rota_kernel *kernels[16];
    for (uint32_t i = 0; i < nodes; i++) kernels[i] = &test_increment;
    return in_turns(p, x, kernels, nodes, NULL);
}

/* Two replays, each behind a gate of the first device's that is shut until all of it is sequenced: what comes after it
 * on the other one has to wait, on the GPU where they are linked. In the first round nobody signals yet. */
static void wait_behind_a_gate(pair *p, rota_buffer *x, rota_plan *plan, bool linked) {
    rota_plan *gate = test_plan_1(p->devices[0], "gate", &test_gate, x, ROTA_READWRITE);
    for (uint32_t round = 0; round < 2; round++) {
        rota_ticket ticket;
        test_gate_open(false);
        const uint64_t before = stats_of(p).device_waits, deadline = rota_deadline_after(10000000000u);
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        test_sequenced(ticket);
        while (linked && round && stats_of(p).device_waits == before && rota_clock_ns() < deadline)
            test_nap();
        assert_int_equal(rota_poll(ticket), ROTA_BUSY);
        test_gate_open(true);
        assert_ok(rota_wait(ticket, 0));
    }
    rota_plan_release(gate);
}

/* A plan on both has one copy for each turn, and where they wait nothing does so by the host. */
static void plans_copy_once(void **state) {
    (void)state;
    for (uint32_t linked = 0; linked < 2; linked++) {
        pair *p = open_peers(3 + linked, linked);
        rota_buffer *x = test_words(p->devices[0], "x", WORDS, 5);
        rota_plan *plan = alternating(p, x, 8);
        assert_int_equal(transfers_of(plan), 7);
        for (uint32_t i = 0; i < 20; i++) assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        test_expect_words(x, WORDS, 165);
        wait_behind_a_gate(p, x, plan, linked);
        test_expect_words(x, WORDS, 181);
        const rota_runtime_stats stats = stats_of(p);
        assert_int_equal(stats.device_waits != 0, linked);
        assert_true(stats.peer_bytes >=
                    19 * WORDS * 4); /* from where one replay left it to where the next begins */
        assert_int_equal(stats.migrated_bytes, stats.peer_bytes);
        rota_plan_release(plan);
        rota_buffer_release(x);
        close_pair(p);
    }
}

/* Where memory can't be opened, by an import that fails or since it is the application's, bytes go through the host. */
static void what_is_not_open_goes_by_the_host(void **state) {
    (void)state;
    for (uint32_t adopted = 0; adopted < 2; adopted++) {
        pair *p = open_peers(11, true);
        _Alignas(64) static uint32_t memory[WORDS];
        for (uint32_t i = 0; i < WORDS; i++) memory[i] = 5;
        rota_buffer *x;
        if (adopted)
            assert_ok(rota_buffer_adopt(p->devices[0],
                                        &ROTA_ADOPT_OPTIONS(.name = "x", .kind = ROTA_MEMORY_DEVICE,
                                                            .memory = memory, .size_bytes = sizeof memory),
                                        &x));
        else
            x = test_words(p->devices[0], "x", WORDS, 5);
        rota_buffer *y = test_words(p->devices[1], "y", WORDS, 0);
        if (!adopted) p->options.faults.import_fails_in = 1;
        rota_plan *copy = test_plan_copy_kernel(p->devices[1], "copy", x, y), *plan = alternating(p, x, 6);
        assert_int_equal(p->options.faults.import_fails_in, 0);
        assert_ok(rota_submit_wait(copy, NULL, 0, NULL));
        test_expect_words(y, WORDS, 5);
        for (uint32_t i = 0; i < 5; i++) assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        test_expect_words(x, WORDS, 35);
        assert_true(transfers_of(plan) > 5);
        /* One way it may be open. */
        const rota_runtime_stats stats = stats_of(p);
        assert_true(stats.migrated_bytes - stats.peer_bytes >= WORDS * 4);
        rota_plan_release(copy);
        rota_plan_release(plan);
        rota_buffer_release(x);
        rota_buffer_release(y);
        close_pair(p);
    }
}

/* x is on the first, the rest on the second, whose copy brings x over and waits for `step`. */
static void begin_scene(scene *s) {
    scene_on(s, open_peers(7, true));
    for (uint32_t round = 0; round < 2; round++) { /* from the first on the works signal */
        const uint64_t before = s->p->options.timeline_waits;
        scene_submit(s);
        test_sequenced(s->alone_ticket);
        if (round) {
            const uint64_t deadline = rota_deadline_after(5000000000u);
            while (s->p->options.timeline_waits == before && rota_clock_ns() < deadline) test_nap_ms(1);
            assert_true(s->p->options.timeline_waits > before);
            return;
        }
        test_gate_open(true);
        test_expect_words(s->y, WORDS, 2);
    }
}

/* What does not come after the copy is not kept by it, though it is on the same device. */
static void others_run_beside(void **state) {
    (void)state;
    scene s;
    begin_scene(&s);
    assert_ok(rota_wait(s.alone_ticket, LONG_NS));
    assert_int_equal(rota_poll(s.copy_ticket), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(s.next_ticket, 0));
    test_expect_words(s.z, WORDS, 3);
    scene_release(&s);
    close_pair(s.p);
}

/* The device that was to signal is lost, by what it says, by the deadline of who waits, or by the test: what waited
 * fails with that, all else goes on, and what is written anew is well. */
static void the_other_is_lost(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 2; way++) {
        scene s;
        uint32_t word;
        begin_scene(&s);
        assert_ok(rota_wait(s.alone_ticket, LONG_NS)); /* the next work that ends is the gate's */
        if (way == 0) {
            s.p->options.faults.lost_in_works = 1; /* the gate's */
            test_gate_open(true);
        } else {
            rota_device_set_lost(s.p->devices[0], "given up by the test");
        }
        assert_status(rota_wait(s.step_ticket, 0), ROTA_DEVICE_LOST);
        assert_status(rota_wait(s.copy_ticket, 0), ROTA_DEVICE_LOST);
        assert_non_null(strstr(rota_last_error(), "'adversary' is lost"));
        assert_status(rota_wait(s.next_ticket, 0), ROTA_DEVICE_LOST);
        assert_ok(rota_wait(s.alone_ticket, 0));
        assert_status(rota_buffer_read(s.y, 0, &word, 4), ROTA_DEVICE_LOST);
        assert_status(rota_buffer_read(s.z, 0, &word, 4), ROTA_DEVICE_LOST);
        test_expect_words(s.w, WORDS, 3);
        assert_true(s.p->options.rescues > 0);
        static const uint32_t words[WORDS];
        rota_ticket ticket;
        assert_ok(rota_buffer_write(s.y, s.p->devices[1], 0, words, sizeof words, NULL));
        assert_ok(rota_submit_wait(s.next, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(s.z, WORDS, 0);
        test_gate_open(true);
        scene_release(&s);
        (void)rota_runtime_close(s.p->runtime, 5000000000u);
        if (s.p->options.violations) fail_msg("%s", s.p->options.violation);
        free(s.p);
    }
}

static rota_status look_beside(const rota_kernel_call *call) {
    memcpy(call->operands[2], call->operands[0], WORDS * 4);
    return ROTA_OK;
}
static const rota_kernel look_kernel = {.name = "look", .operand_count = 3, .cpu = {.fn = look_beside}};

/* Reads x only after many nodes of its own. */
static rota_plan *looking_late(rota_device *device, rota_buffer *x, rota_buffer *w, rota_buffer *seen) {
    enum { NODES = 100 };
    test_node nodes[NODES + 1];
    for (uint32_t i = 0; i < NODES; i++)
        nodes[i] = (test_node){&test_increment, "before", {{w, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
    nodes[NODES] = (test_node){
        &look_kernel,
        "look",
        {{x, 0, ROTA_WHOLE, ROTA_READ}, {w, 0, ROTA_WHOLE, ROTA_READ}, {seen, 0, ROTA_WHOLE, ROTA_WRITE}},
        3};
    return test_plan(device, "look", nodes, NODES + 1);
}

static bool is_rescued(const pair *p, uint64_t before) {
    const uint64_t deadline = rota_deadline_after(2000000000u);
    while (p->options.rescues == before && rota_clock_ns() < deadline) test_nap_ms(1);
    return p->options.rescues > before;
}

/* The second reads its x; the first, after that, writes x anew; the second has it copied back, after that. When the
 * first is lost before it wrote, the copy is in vain: it does not come before what was read is read. */
static void in_vain_disturbs_nobody(void **state) {
    (void)state;
    pair *p = open_peers(13, true);
    rota_device *first = p->devices[0], *second = p->devices[1];
    test_never_asks(second, false); /* a GPU that runs what is in vain */
    rota_buffer *x = test_words(second, "x", WORDS, 1), *seen = test_words(second, "seen", WORDS, 0),
                *y = test_words(first, "y", WORDS, 7), *z = test_words(second, "z", WORDS, 0),
                *w = test_words(second, "w", WORDS, 0);
    rota_plan *look = looking_late(second, x, w, seen), *renew = test_plan_copy_kernel(first, "renew", y, x),
              *bring = test_plan_copy_kernel(second, "bring", x, z);
    rota_ticket looked, renewed, brought;
    for (uint32_t round = 0; round < 3; round++) {
        static uint32_t words[WORDS];
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 3;
        assert_ok(rota_buffer_write(x, second, 0, words, sizeof words, NULL));
        test_expect_words(x, WORDS, 3);
        p->options.faults.slow_command_ns = round == 2 ? 2000000 : 0;
        assert_ok(rota_submit_wait(look, NULL, 0, &looked));
        assert_ok(rota_submit_wait(renew, NULL, 0, &renewed));
        assert_ok(rota_submit_wait(bring, NULL, 0, &brought));
        test_sequenced(brought);
        const uint64_t rescues = p->options.rescues;
        test_nap_ms(20); /* to be with their devices */
        if (round == 2) {
            atomic_store(&((adversary_device *)first->exec)->lost, true); /* it does nothing more */
            rota_device_set_lost(first, "given up by the test");
            assert_true(is_rescued(p, rescues));
            assert_int_equal(rota_poll(looked), ROTA_BUSY);
        }
        assert_ok(rota_wait(looked, 0));
        test_expect_words(seen, WORDS, 3);
        if (round == 2) break;
        assert_ok(rota_wait(brought, 0));
        test_expect_words(z, WORDS, 7);
    }
    assert_status(rota_wait(renewed, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(brought, 0), ROTA_DEVICE_LOST);
    rota_plan *plans[] = {look, renew, bring};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    rota_buffer *buffers[] = {x, seen, y, z, w};
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(buffers[i]);
    (void)rota_runtime_close(p->runtime, 5000000000u);
    if (p->options.violations) fail_msg("%s", p->options.violation);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_copy_once), cmocka_unit_test(what_is_not_open_goes_by_the_host),
        cmocka_unit_test(others_run_beside), cmocka_unit_test(the_other_is_lost),
        cmocka_unit_test(in_vain_disturbs_nobody)};
    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
