/* P9 between devices: a failure reaches what depends on it on every other executor, in the submission that
 * has it and in later ones, also where what depends was handed over before; and nothing else. The CPU, the
 * adversary, the CUDA executor over the stand-in for its driver, and Vulkan. */
#include "tests/sched/runtime/travel_kit.h"

#include <stdio.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kernels/kernels.h"
#include "tests/kit/nap.h"
#include "tests/kit/sequenced.h"

/* ---- One submission ---- */

/* The source writes x (of the plan's own memory: t), the first device makes y of it, the second z of that. */
static void one_submission(const house *h, source_kind kind, uint32_t first, uint32_t second,
                           bool transient) {
    char when[128];
    describe(when, sizeof when, transient ? "transient" : "one submission", kind, first, second);
    chain c = chain_make(h);
    rota_buffer *x = c.x, *y = c.y;
    sketch s;
    sketch_open(&s);
    if (transient) {
        assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_TRANSIENT, "t", WORDS * 4, &x));
        assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_TRANSIENT, "u", WORDS * 4, &y));
    }
    add_source(&s, h, kind, x);
    add_map(&s, h->devices[first], x, y);
    add_map(&s, h->devices[second], y, c.z);
    rota_plan *plan = sketch_compile(&s, h, "one");
    rota_plan *alone = map_plan(h, h->devices[first], c.a, c.b);
    for (uint32_t round = 0; round < 2; round++) {
        rota_ticket ticket, alone_ticket;
        ra_store_seq_cst(&must_fail, 1);
        open_gate(false);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_submit_wait(alone, NULL, 0, &alone_ticket));
        open_gate(true);
        expect_ticket(ticket, true, when);
        expect_ticket(alone_ticket, false, when);
        expect_mapped(c.b, 4, 1, when);
        if (!transient) {
            expect_failed(x, when);
            expect_failed(y, when);
        }
        expect_failed(c.z, when);
        ra_store_seq_cst(&must_fail, 0);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        expect_ticket(ticket, false, when);
        expect_mapped(c.z, 7, 2, when);
    }
    rota_plan_release(plan);
    rota_plan_release(alone);
    chain_release(&c);
}

/* Calls fn for each source and each two devices after it. */
static void for_all(void (*fn)(const house *h, source_kind kind, uint32_t first, uint32_t second)) {
    house *h = open_house(false);
    for (uint32_t kind = 0; kind < SOURCES; kind++)
        for (uint32_t first = 0; first < KINDS; first++)
            for (uint32_t second = 0; second < KINDS; second++)
                if (h->devices[first] && h->devices[second]) fn(h, (source_kind)kind, first, second);
    close_house(h);
}

static void in_one_submission(const house *h, source_kind kind, uint32_t first, uint32_t second) {
    one_submission(h, kind, first, second, false);
    one_submission(h, kind, first, second, true);
}
static void failures_cross_devices_in_a_submission(void **state) {
    (void)state;
    for_all(in_one_submission);
}

/* ---- Several submissions ---- */

static void across_submissions(const house *h, source_kind kind, uint32_t first, uint32_t second) {
    char when[128];
    describe(when, sizeof when, "submissions", kind, first, second);
    chain c = chain_make(h);
    rota_plan *plans[] = {source_plan(h, kind, c.x), map_plan(h, h->devices[first], c.x, c.y),
                          map_plan(h, h->devices[second], c.y, c.z),
                          map_plan(h, h->devices[first], c.a, c.b)};
    rota_ticket tickets[4];
    /* Written: a CPU device of one thread would do that after the source. */
    expect_mapped(c.a, 4, 0, when);
    expect_mapped(c.b, 5, 0, when);
    for (uint32_t round = 0; round < 2; round++) {
        ra_store_seq_cst(&must_fail, 1);
        open_gate(false);
        for (uint32_t p = 0; p < 4; p++) assert_ok(rota_submit_wait(plans[p], NULL, 0, &tickets[p]));
        /* It passes what is held for the source, which is judged when it goes over. */
        if (first != (kind == ADVERSARY_KERNEL ? ADVERSARY : CPU)) expect_ticket(tickets[3], false, when);
        open_gate(true);
        for (uint32_t p = 0; p < 4; p++) expect_ticket(tickets[p], p < 3, when);
        expect_failed(c.x, when);
        expect_failed(c.y, when);
        expect_failed(c.z, when);
        expect_mapped(c.b, 4, 1, when);
        /* Again, all of it noted before. */
        assert_ok(rota_submit_wait(plans[2], NULL, 0, &tickets[2]));
        expect_ticket(tickets[2], true, when);
        ra_store_seq_cst(&must_fail, 0);
        for (uint32_t p = 0; p < 4; p++) assert_ok(rota_submit_wait(plans[p], NULL, 0, &tickets[p]));
        for (uint32_t p = 0; p < 4; p++) expect_ticket(tickets[p], false, when);
        expect_mapped(c.z, 7, 2, when);
    }
    for (uint32_t p = 0; p < 4; p++) rota_plan_release(plans[p]);
    chain_release(&c);
}

static void failures_cross_devices_between_submissions(void **state) {
    (void)state;
    for_all(across_submissions);
}

/* ---- Copies out ---- */

enum { FROM_MAPPED, FROM_SOURCE, HALF_AND_HALF, OUTS };

/* y is what the first device makes of the source's x. OUTPUTs: what the second makes of y; a copy of x by the
 * second; and the first quarter of y, with the rest from a, which is good, on the second. */
static void copied_out(const house *h, source_kind kind, uint32_t first, uint32_t second, bool across) {
    char when[128];
    describe(when, sizeof when, across ? "out, across" : "out", kind, first, second);
    chain c = chain_make(h);
    rota_buffer *outs[OUTS];
    sketch s;
    sketch_open(&s);
    for (uint32_t o = 0; o < OUTS; o++)
        assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &outs[o]));
    if (!across) add_source(&s, h, kind, c.x);
    add_map(&s, h->devices[first], c.x, c.y);
    add_map(&s, h->devices[second], c.y, outs[FROM_MAPPED]);
    const rota_placement on_first = {.device_plus_1 = number_of(&s, h->devices[first])},
                         on_second = {.device_plus_1 = number_of(&s, h->devices[second])};
    add_map_of(&s, on_second, (rota_access){c.x, 0, ROTA_WHOLE, ROTA_READ},
               (rota_access){outs[FROM_SOURCE], 0, ROTA_WHOLE, ROTA_WRITE}, WORDS);
    add_map_of(&s, on_first, (rota_access){c.y, 0, WORDS, ROTA_READ},
               (rota_access){outs[HALF_AND_HALF], 0, WORDS, ROTA_WRITE}, WORDS / 4);
    add_map_of(&s, on_second, (rota_access){c.a, WORDS, WORDS * 3, ROTA_READ},
               (rota_access){outs[HALF_AND_HALF], WORDS, WORDS * 3, ROTA_WRITE}, WORDS * 3 / 4);
    rota_plan *plan = sketch_compile(&s, h, "out"), *before = across ? source_plan(h, kind, c.x) : NULL;
    rota_args *args;
    static uint32_t words[OUTS][WORDS], read[WORDS];
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t o = 0; o < OUTS; o++)
        assert_ok(rota_args_set_output(args, outs[o], words[o], sizeof words[o]));
    for (uint32_t round = 0; round < 4; round++) {
        const bool fails = round % 2 == 0;
        rota_ticket tickets[2];
        memset(words, 0xee, sizeof words);
        memset(read, 0xee, sizeof read);
        ra_store_seq_cst(&must_fail, fails);
        open_gate(false);
        if (across) assert_ok(rota_submit_wait(before, NULL, 0, NULL));
        assert_ok(rota_submit_wait(plan, args, 0, &tickets[0]));
        assert_ok(rota_buffer_read_async(c.y, 0, read, sizeof read, &tickets[1]));
        if (round > 1 && across) { /* all that it reads has failed when it is sequenced, too */
            open_gate(true);
            (void)rota_wait(tickets[1], 0);
            assert_ok(rota_submit_wait(plan, args, 0, &tickets[0]));
        }
        open_gate(true);
        for (uint32_t t = 0; t < 2; t++) expect_ticket(tickets[t], fails, when);
        for (uint32_t o = 0; o < OUTS && fails; o++) expect_untouched(words[o], WORDS, when);
        if (fails) {
            expect_untouched(read, WORDS, when);
            continue;
        }
        for (uint32_t i = 0; i < WORDS; i++) {
            const uint32_t y = mapped(7, i), half = i < WORDS / 4 ? mapped(y, i) : mapped(4, i - WORDS / 4);
            if (read[i] != y || words[FROM_MAPPED][i] != mapped(y, i) || words[FROM_SOURCE][i] != y ||
                words[HALF_AND_HALF][i] != half)
                fail_msg("%s: word %u is %u, %u, %u and %u", when, i, read[i], words[0][i], words[1][i],
                         words[2][i]);
        }
    }
    rota_args_release(args);
    rota_plan_release(plan);
    rota_plan_release(before);
    chain_release(&c);
}

static void copied_out_both_ways(const house *h, source_kind kind, uint32_t first, uint32_t second) {
    copied_out(h, kind, first, second, false);
    copied_out(h, kind, first, second, true);
}
static void what_failed_is_not_copied_out(void **state) {
    (void)state;
    for_all(copied_out_both_ways);
    house *h = open_house(true); /* they wait for each other on the device */
    for (uint32_t kind = CPU_KERNEL; kind < SOURCES && h->devices[CUDA]; kind++) {
        copied_out_both_ways(h, (source_kind)kind, ADVERSARY, CUDA);
        copied_out_both_ways(h, (source_kind)kind, CUDA, ADVERSARY);
    }
    close_house(h);
}

/* ---- A work that its device cannot be given ---- */

/* Nobody makes an instance on the device; who had asked for one may know before its builder has left it. */
static void expect_builder_at_rest(const rota_device *device) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (ra_load_acquire(&device->building.done_count) != ra_load_relaxed(&device->building.asked_count) &&
           rota_clock_ns() < deadline)
        test_nap_us(100);
    assert_int_equal(ra_load_acquire(&device->building.done_count),
                     ra_load_relaxed(&device->building.asked_count));
}

/* All memory under the limit is in use from here on: nothing new is to be had. */
static void take_memory(rota_runtime *runtime) {
    (void)ra_fetch_add_relaxed(&runtime->budget.memory_bytes, PLENTY);
}
static void give_memory(rota_runtime *runtime) {
    (void)ra_fetch_sub_acq_rel(&runtime->budget.memory_bytes, PLENTY);
}

/* The replay needs an instance that there is no memory for, which is found when it is handed over. */
static void without_an_instance(house *h, uint32_t device, uint32_t second) {
    char when[128];
    (void)snprintf(when, sizeof when, "no instance on %s, then %s", ids[device], ids[second]);
    chain c = chain_make(h);
    uint32_t input[WORDS], words[WORDS];
    rota_buffer *in;
    rota_args *args;
    for (uint32_t i = 0; i < WORDS; i++) input[i] = 8;
    sketch s;
    sketch_open(&s);
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_INPUT, "in", sizeof input, &in));
    add_map(&s, h->devices[device], in, c.x);
    rota_plan *gate = source_plan(h, CPU_KERNEL, c.x), *plan = sketch_compile(&s, h, "taking"),
              *after = map_plan(h, h->devices[second], c.x, c.y);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, input, sizeof input, false));
    rota_ticket tickets[3];
    ra_store_seq_cst(&must_fail, 0);
    open_gate(true);
    /* What else needs memory has it after this. */
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[1]));
    assert_ok(rota_submit_wait(after, NULL, 0, &tickets[0]));
    expect_ticket(tickets[0], false, when);
    expect_ticket(tickets[1], false, when); /* its instance is seen to be free */
    expect_mapped(c.y, 8, 2, when);
    expect_mapped(c.x, 8, 1, when);
    expect_builder_at_rest(
        h->devices[device]); /* else a replay would rather come after one that has an instance */
    open_gate(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[0])); /* the only instance is taken from here on */
    take_memory(h->runtime);
    assert_ok(rota_submit_wait(plan, args, 0, &tickets[1]));
    assert_ok(rota_submit_wait(after, NULL, 0, &tickets[2]));
    test_sequenced(tickets[2]); /* ticket 1 is, before the instance is free again */
    open_gate(true);
    expect_ticket(tickets[0], false, when);
    for (uint32_t t = 1; t < 3; t++) {
        rota_status status = rota_wait(tickets[t], 0);
        if (status != ROTA_OUT_OF_MEMORY) fail_msg("%s: ticket %u is %s", when, t, rota_status_name(status));
        assert_non_null(strstr(rota_last_error(), "of the memory limit of"));
    }
    give_memory(h->runtime);
    assert_status(rota_buffer_read(c.x, 0, words, sizeof words), ROTA_OUT_OF_MEMORY);
    assert_status(rota_buffer_read(c.y, 0, words, sizeof words), ROTA_OUT_OF_MEMORY);
    assert_ok(rota_submit_wait(plan, args, 0, NULL));
    assert_ok(rota_submit_wait(after, NULL, 0, NULL));
    expect_mapped(c.y, 8, 2, when);
    rota_args_release(args);
    rota_plan_release(gate);
    rota_plan_release(plan);
    rota_plan_release(after);
    chain_release(&c);
}

static void what_cannot_be_handed_over_fails_what_follows(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t device = ADVERSARY; device < KINDS; device++)
        for (uint32_t second = 0; second < KINDS; second++)
            if (h->devices[device] && h->devices[second]) without_an_instance(h, device, second);
    close_house(h);
}

/* ---- Copies of one buffer ---- */

/* Both write x, each in a memory of its own and in any order, which the parts' order decides: what is valid
 * is the one recorded last. */
static void written_twice(const house *h, uint32_t device, bool source_is_last, bool source_has_first_part) {
    char when[128];
    describe(when, sizeof when, source_is_last ? "source last" : "source first", CPU_KERNEL, device, device);
    chain c = chain_make(h);
    sketch s;
    sketch_open(&s);
    (void)number_of(&s, h->devices[source_has_first_part ? CPU : device]);
    if (!source_is_last) add_source(&s, h, CPU_KERNEL, c.x);
    add_map(&s, h->devices[device], c.a, c.x);
    if (source_is_last) add_source(&s, h, CPU_KERNEL, c.x);
    rota_plan *plan = sketch_compile(&s, h, "twice");
    for (uint32_t round = 0; round < 2; round++) {
        rota_ticket ticket;
        open_gate(true);
        ra_store_seq_cst(&must_fail, 1);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        expect_ticket(ticket, true, when);
        if (source_is_last)
            expect_failed(c.x, when);
        else
            expect_mapped(c.x, 4, 1, when);
        ra_store_seq_cst(&must_fail, 0);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        expect_ticket(ticket, false, when);
        expect_mapped(c.x, source_is_last ? 7 : 4, source_is_last ? 0 : 1, when);
    }
    rota_plan_release(plan);
    chain_release(&c);
}

static void copies_fail_apart(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t device = ADVERSARY; device < KINDS; device++)
        for (uint32_t i = 0; i < 4 && h->devices[device]; i++) written_twice(h, device, i & 1, i & 2);
    close_house(h);
}

/* A part of x fails; all of it is moved, and only that part has failed there. */
static void moves_take_marks_along(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t device = ADVERSARY; device < KINDS; device++) {
        if (!h->devices[device]) continue;
        chain c = chain_make(h);
        sketch s;
        sketch_open(&s);
        rota_access accesses[] = {{c.x, 64, 64, ROTA_WRITE}, {c.x, 0, ROTA_WHOLE, ROTA_READ}};
        rota_host_node node = ROTA_HOST_NODE(source_host, NULL, "source", accesses, 1);
        assert_ok(rota_record_host(s.recorder, &node, NULL));
        rota_plan *part = sketch_compile(&s, h, "part"), *plan = map_plan(h, h->devices[device], c.x, c.y);
        uint32_t words[WORDS];
        rota_ticket ticket;
        ra_store_seq_cst(&must_fail, 1);
        open_gate(true);
        assert_ok(rota_submit_wait(part, NULL, 0, &ticket));
        assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket)); /* takes x to the device */
        assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 9;
        assert_status(rota_buffer_read(c.x, 60, words, 8), ROTA_NODE_FAILED);
        assert_status(rota_buffer_read(c.x, 64, words, 4), ROTA_NODE_FAILED);
        assert_status(rota_buffer_read(c.x, 124, words, 8), ROTA_NODE_FAILED);
        assert_ok(rota_buffer_read(c.x, 0, words, 64));
        assert_int_equal(words[15], 1);
        assert_ok(rota_buffer_read(c.x, 128, words, WORDS * 4 - 128));
        assert_int_equal(words[WORDS - 33], 1);
        /* Written there, it is good. */
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 1;
        assert_ok(rota_buffer_write(c.x, h->devices[device], 64, words, 64, NULL));
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        expect_mapped(c.y, 1, 1, ids[device]);
        rota_plan_release(part);
        rota_plan_release(plan);
        chain_release(&c);
    }
    close_house(h);
}

/* A read takes bytes from several devices and fails if any of them failed, which may come out when it has
 * long been submitted; what it was to fill stays as it was. */
static void gathered(const house *h, source_kind kind, uint32_t device) {
    char when[128];
    describe(when, sizeof when, "gathered", kind, CPU, device);
    chain c = chain_make(h);
    /* The CPU has the first quarter and the last one. */
    const uint64_t offset = kind == ADVERSARY_KERNEL ? 320 : 832,
                   other = kind == ADVERSARY_KERNEL ? 832 : 320;
    sketch s;
    sketch_open(&s);
    add_source_to(&s, h, kind, (rota_access){c.x, offset, 64, ROTA_WRITE}, 0);
    rota_plan *part = sketch_compile(&s, h, "part");
    for (uint32_t fails = 2; fails-- != 0;) {
        uint32_t words[WORDS], out[WORDS];
        rota_ticket tickets[2];
        for (uint32_t i = 0; i < WORDS; i++) words[i] = 3;
        assert_ok(rota_buffer_write(c.x, h->devices[device], 256, words, 512, NULL));
        memset(out, 0xee, sizeof out);
        ra_store_seq_cst(&must_fail, fails);
        open_gate(false);
        assert_ok(rota_submit_wait(part, NULL, 0, &tickets[0]));
        assert_ok(rota_buffer_read_async(c.x, 0, out, sizeof out, &tickets[1]));
        assert_int_equal(rota_poll(tickets[1]), ROTA_BUSY);
        open_gate(true);
        for (uint32_t t = 0; t < 2; t++) expect_ticket(tickets[t], fails, when);
        for (uint32_t i = 0; i < WORDS; i++) {
            const uint32_t value = i / 16 == offset / 64 ? 7
                                   : i >= 64 && i < 192  ? 3
                                                         : 1,
                           want = fails ? 0xeeeeeeee : value;
            if (out[i] != want) fail_msg("%s: word %u is %u, expected %u", when, i, out[i], want);
        }
        if (fails) expect_failed(c.x, when);
        assert_ok(rota_buffer_read(c.x, other, words, 64));
        assert_int_equal(words[15], other == 320 ? 3 : 1);
    }
    rota_plan_release(part);
    chain_release(&c);
}

static void a_read_fails_with_any_of_its_parts(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t kind = 0; kind < SOURCES; kind++)
        for (uint32_t device = ADVERSARY; device < KINDS; device++)
            if (h->devices[device]) gathered(h, (source_kind)kind, device);
    close_house(h);
}

/* Bytes that could not be moved are good where they are, and are moved again. */
static void a_move_that_fails_is_made_again(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t device = ADVERSARY; device < KINDS; device++) {
        if (!h->devices[device]) continue;
        chain c = chain_make(h);
        rota_buffer *large =
            test_words(h->devices[CPU], "large", 65536, 6); /* no staging memory has that size */
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        rota_access accesses[] = {{large, 0, ROTA_WHOLE, ROTA_READ}, {c.y, 0, ROTA_WHOLE, ROTA_WRITE}};
        test_params params = {.n = WORDS, .m = 65536, .seed = SEED};
        rota_param_binding binding = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
        rota_kernel_node node =
            ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_sum].kernel, .accesses = accesses,
                             .access_count = 2, .params = &params, .bindings = &binding, .binding_count = 1);
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_record_kernel(recorder, &node, NULL));
        rota_recorder_close(recorder);
        assert_ok(rota_compile(h->runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = &h->devices[device], .device_count = 1),
                               &plan));
        rota_graph_release(graph);
        test_expect_words(large, 65536, 6);
        rota_ticket ticket;
        for (uint32_t i = 0; i < 2; i++) {
            take_memory(h->runtime);
            assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
            assert_status(rota_wait(ticket, 0), ROTA_OUT_OF_MEMORY);
            give_memory(h->runtime);
            test_expect_words(large, 65536, 6);
        }
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(large, 65536, 6);
        rota_plan_release(plan);
        rota_buffer_release(large);
        chain_release(&c);
    }
    close_house(h);
}

/* ---- Handed over before ---- */

static uint64_t device_waits(const house *h) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(h->runtime, &stats);
    return stats.device_waits;
}

/* Two drivers of one GPU: works wait on the GPU for the one that fails, and for those that wait for it. */
static void works_already_handed_over_fail(void **state) {
    (void)state;
    house *h = open_house(true);
    if (!h->devices[CUDA]) {
        close_house(h);
        skip();
    }
    rota_device *one = h->devices[ADVERSARY], *other = h->devices[CUDA];
    rota_buffer *x = test_words(one, "x", WORDS, 1), *y = test_words(other, "y", WORDS, 2),
                *z = test_words(one, "z", WORDS, 3), *w = test_words(h->devices[CPU], "w", WORDS, 4),
                *a = test_words(one, "a", WORDS, 5), *v = test_words(other, "v", WORDS, 6);
    rota_plan *plans[] = {source_plan(h, ADVERSARY_KERNEL, x),
                          map_plan(h, other, x, y),
                          map_plan(h, one, y, z),
                          map_plan(h, other, y, v),
                          map_plan(h, one, a, x),
                          map_plan(h, h->devices[CPU], z, w)};
    enum { PLANS = sizeof plans / sizeof *plans, OVER = 4 };
    rota_ticket tickets[PLANS];
    for (uint32_t round = 0; round < 6; round++) {
        const bool fails = round % 2;
        const uint64_t before = device_waits(h), deadline = rota_deadline_after(10000000000u);
        open_gate(false);
        ra_store_seq_cst(&must_fail, fails);
        for (uint32_t p = 0; p < PLANS; p++) assert_ok(rota_submit_wait(plans[p], NULL, 0, &tickets[p]));
        /* From the second round on those that wait for the source, for its reader, and to overwrite x wait on
         * the GPU; the first finds out that somebody waits. */
        while (round && device_waits(h) < before + 3 && rota_clock_ns() < deadline) test_nap();
        if (round) assert_true(device_waits(h) >= before + 3);
        open_gate(true);
        for (uint32_t p = 0; p < PLANS; p++) expect_ticket(tickets[p], fails && p != OVER, "handed over");
        expect_mapped(x, 5, 1, "handed over");
        if (fails) {
            expect_failed(y, "handed over");
            expect_failed(z, "handed over");
            expect_failed(v, "handed over");
            expect_failed(w, "handed over");
        } else {
            expect_mapped(y, 7, 1, "handed over");
            expect_mapped(w, 7, 3, "handed over");
        }
        if (!fails) continue;
        /* Good again, so that the next round's works may wait on the GPU. */
        ra_store_seq_cst(&must_fail, 0);
        for (uint32_t p = 0; p < PLANS; p++) assert_ok(rota_submit_wait(plans[p], NULL, 0, &tickets[p]));
        for (uint32_t p = 0; p < PLANS; p++) expect_ticket(tickets[p], false, "healed");
    }
    for (uint32_t p = 0; p < PLANS; p++) rota_plan_release(plans[p]);
    rota_buffer *buffers[] = {x, y, z, w, a, v};
    for (uint32_t i = 0; i < 6; i++) rota_buffer_release(buffers[i]);
    close_house(h);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_cross_devices_in_a_submission),
        cmocka_unit_test(failures_cross_devices_between_submissions),
        cmocka_unit_test(what_failed_is_not_copied_out),
        cmocka_unit_test(what_cannot_be_handed_over_fails_what_follows),
        cmocka_unit_test(copies_fail_apart),
        cmocka_unit_test(moves_take_marks_along),
        cmocka_unit_test(a_read_fails_with_any_of_its_parts),
        cmocka_unit_test(a_move_that_fails_is_made_again),
        cmocka_unit_test(works_already_handed_over_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
