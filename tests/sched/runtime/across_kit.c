#include "base/log.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "tests/kit/nap.h"
#include "tests/kit/sequenced.h"
#include "tests/sched/runtime/across_kit.h"

static void log_line(void *user, rota_log_level level, const char *message) {
    pair *p = user;
    (void)level;
    if (strstr(message, "is lost")) test_nap_ms(ra_load_relaxed(&p->loss_ms));
    if (strstr(message, "order")) (void)snprintf(p->told, sizeof p->told, "%s", message);
}

pair *open_pair(uint64_t seed, uint64_t timeout_ns, uint32_t timeline_fails_in) {
    return open_pair_with(&(adversary_options){.shares_memory = true,
                                               .timelines = true,
                                               .seed = seed,
                                               .faults.timeline_fails_in = timeline_fails_in},
                          timeout_ns);
}

pair *open_pair_with(const adversary_options *adversary, uint64_t timeout_ns) {
    pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->options = *adversary;
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.log = {log_line, p, ROTA_LOG_INFO},
                                                        .timeout_ns = timeout_ns, .queues_per_device = 3);
    assert_ok(adversary_runtime_open(&p->options, &options, &p->runtime));
    assert_ok(rota_device_open(p->runtime, "adversary", &p->devices[0]));
    assert_ok(rota_device_open(p->runtime, "adversary:1", &p->devices[1]));
    return p;
}

void close_pair(pair *p) {
    assert_ok(rota_runtime_close(p->runtime, 5000000000u));
    if (p->options.violations) fail_msg("%s", p->options.violation);
    assert_int_equal(p->options.live_memories, 0);
    free(p);
}

/* Each of the kernels changes x, each on the other device than the one before; with `out_slot`, x is what
 * that is bound to. */
rota_plan *in_turns(pair *p, rota_buffer *x, const rota_kernel *const *kernels, uint32_t nodes,
                    rota_buffer **out_slot) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "alternating"), &graph));
    if (out_slot) {
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "x", WORDS * 4, out_slot));
        x = *out_slot;
    }
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < nodes; i++) {
        rota_access access = {x, 0, ROTA_WHOLE, ROTA_READWRITE};
        rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = kernels[i], .accesses = &access, .access_count = 1,
                                                 .placement = {.device_plus_1 = 1 + i % 2});
        assert_ok(rota_record_kernel(recorder, &node, NULL));
    }
    rota_recorder_close(recorder);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.name = "alternating", .devices = p->devices,
                                                        .device_count = 2, .certify = true);
    assert_ok(rota_compile(p->runtime, graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

rota_plan *through_both(pair *p, uint32_t first, rota_buffer *behind, rota_buffer **out_in,
                        rota_buffer **out_out) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_buffer *t;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "through both"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", WORDS * 4, out_in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", WORDS * 4, &t));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, out_out));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    if (behind) {
        rota_access access = {behind, 0, ROTA_WHOLE, ROTA_READWRITE};
        rota_kernel_node node =
            ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &access, .access_count = 1,
                             .placement = {.device_plus_1 = 1 + first});
        assert_ok(rota_record_kernel(recorder, &node, NULL));
    }
    for (uint32_t i = 0; i < 2; i++) {
        rota_access accesses[] = {{i ? t : *out_in, 0, ROTA_WHOLE, ROTA_READ},
                                  {i ? *out_out : t, 0, ROTA_WHOLE, ROTA_WRITE}};
        rota_kernel_node node =
            ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses, .access_count = 2,
                             .placement = {.device_plus_1 = 1 + (i + first) % 2});
        assert_ok(rota_record_kernel(recorder, &node, NULL));
    }
    rota_recorder_close(recorder);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.name = "through both", .devices = p->devices,
                                                        .device_count = 2, .certify = true);
    assert_ok(rota_compile(p->runtime, graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

void scene_on(scene *s, pair *p) {
    rota_device **devices = p->devices;
    *s = (scene){.p = p};
    s->x = test_words(devices[0], "x", WORDS, 1);
    s->y = test_words(devices[1], "y", WORDS, 1);
    s->z = test_words(devices[1], "z", WORDS, 1);
    s->w = test_words(devices[1], "w", WORDS, 1);
    s->gate = test_plan_1(devices[0], "gate", &test_gate, s->x, ROTA_READWRITE);
    s->step = test_plan_1(devices[0], "step", &test_increment, s->x, ROTA_READWRITE);
    s->copy = test_plan_copy_kernel(devices[1], "copy", s->x, s->y);
    s->next = test_plan_copy_kernel(devices[1], "next", s->y, s->z);
    s->alone = test_plan_1(devices[1], "alone", &test_increment, s->w, ROTA_READWRITE);
}

void scene_submit(scene *s) {
    test_gate_open(false);
    assert_ok(rota_submit_wait(s->gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(s->step, NULL, 0, &s->step_ticket));
    assert_ok(rota_submit_wait(s->copy, NULL, 0, &s->copy_ticket));
    assert_ok(rota_submit_wait(s->next, NULL, 0, &s->next_ticket));
    assert_ok(rota_submit_wait(s->alone, NULL, 0, &s->alone_ticket));
}

void scene_open(scene *s, uint64_t timeout_ns) {
    scene_on(s, open_pair(7, timeout_ns, 0));
    /* Once round, with the copy sequenced while the gate is shut: from then on the first signals what it
     * waits for. */
    rota_ticket ticket;
    test_gate_open(false);
    assert_ok(rota_submit_wait(s->gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(s->step, NULL, 0, NULL));
    assert_ok(rota_submit_wait(s->copy, NULL, 0, NULL));
    assert_ok(rota_submit_wait(s->alone, NULL, 0, &ticket)); /* comes after it */
    test_sequenced(ticket);
    test_gate_open(true);
    test_expect_words(s->y, WORDS, 2);
}

void scene_wait_on_device(scene *s) {
    uint64_t before = s->p->options.timeline_waits;
    scene_submit(s);
    uint64_t deadline = rota_deadline_after(5000000000u);
    while (s->p->options.timeline_waits == before && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_true(s->p->options.timeline_waits > before);
    test_nap_ms(20);
    assert_int_equal(rota_poll(s->copy_ticket), ROTA_BUSY);
}

void scene_release(scene *s) {
    rota_plan *plans[] = {s->gate, s->step, s->copy, s->next, s->alone};
    rota_buffer *buffers[] = {s->x, s->y, s->z, s->w};
    for (uint32_t i = 0; i < 5; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
}

void keep(pair *p) {
    static pair *volatile kept[64];
    static uint32_t count;
    assert_true(count < 64);
    kept[count++] = p;
    assert_non_null(kept[0]);
}

void close_after_loss(pair *p) {
    (void)rota_runtime_close(p->runtime, 5000000000u);
    if (p->options.violations) fail_msg("%s", p->options.violation);
    keep(p);
}
