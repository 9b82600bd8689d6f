/* Replays overrule the model: whatever it says of nodes, copies and what several devices do to one another, after a
 * bounded number of replays that taught the placement is one that is no slower than the best single device, and stays.
 *
 * There are two of each problem: what the policy is told, and how things are, which is the test's own clock. */
#include "tests/kit/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sched/plan/placing_settle.h"
#include "tests/kit/random.h"

enum { NODES = 40, EDGES = 2 * NODES, DEVICES_MAX = 4, FOR_EVER = 120, WORLDS = 60 };
/* Single devices, and placements on several, that may be tried. */
enum { SEVERAL = 8 };
enum { HEADER = 32 }; /* of a record */

typedef struct world {
    uint64_t seed;
    uint32_t devices;
    rota_placing told, truth;
    rota_placing_node nodes[NODES];
    rota_placing_edge edges[EDGES];
    rota_placing_cost told_costs[NODES * DEVICES_MAX], true_costs[NODES * DEVICES_MAX];
    uint32_t hardware[DEVICES_MAX];
    double latency_ns[DEVICES_MAX * DEVICES_MAX], byte_ns[DEVICES_MAX * DEVICES_MAX], host_ns[DEVICES_MAX];
    double several_factor; /* of what the clock says of several devices: they are in one another's way */
    double noise;          /* a replay's, as a share */
    rota_history *histories[DEVICES_MAX];
    uint8_t chosen[NODES];
    uint32_t replays;
} world;

static double between(world *w, double low, double high) {
    return low + (high - low) * (double)(test_random(&w->seed) >> 11) / 0x1p53;
}

static void set_told(world *w, double wrong) {
    for (uint32_t i = 0; i < w->told.node_count * w->devices; i++) {
        const double ns = w->true_costs[i].span_ns * exp(between(w, -log(wrong), log(wrong)));
        w->told_costs[i] = (rota_placing_cost){ns, ns};
    }
}

/* A random graph of NODES nodes, each device another factor. */
static world *new_world(uint64_t seed, uint32_t devices, double several_factor) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->seed = seed;
    w->devices = devices;
    w->several_factor = several_factor;
    double speed[DEVICES_MAX];
    for (uint32_t d = 0; d < devices; d++) {
        char name[32];
        snprintf(name, sizeof name, "device %u", d);
        w->histories[d] = rota_history_open(NULL, name);
        w->hardware[d] = d;
        speed[d] = between(w, 1, 2.5);
        for (uint32_t e = 0; e < devices; e++) {
            w->latency_ns[d * devices + e] = d == e ? 0 : 500;
            w->byte_ns[d * devices + e] = d == e ? 0 : 0.1;
        }
    }
    w->truth = ROTA_PLACING(.node_count = NODES, .value_count = NODES, .device_count = devices,
                            .nodes = w->nodes, .edges = w->edges, .costs = w->true_costs,
                            .hardware = w->hardware, .latency_ns = w->latency_ns, .byte_ns = w->byte_ns,
                            .host_latency_ns = w->host_ns, .host_byte_ns = w->host_ns);
    for (uint32_t n = 0; n < NODES; n++) {
        const uint32_t edges = n < 2 ? 0 : (uint32_t)(test_random(&w->seed) % 3);
        w->nodes[n] = (rota_placing_node){
            .first_edge = w->truth.edge_count, .edge_count = edges, .possible = (1u << devices) - 1};
        for (uint32_t e = 0; e < edges; e++) {
            const uint32_t from = test_below(&w->seed, n);
            w->edges[w->truth.edge_count++] = (rota_placing_edge){from, from, 1000};
        }
        const double ns = between(w, 1000, 30000);
        for (uint32_t d = 0; d < devices; d++)
            w->true_costs[n * devices + d] = (rota_placing_cost){ns * speed[d], ns * speed[d]};
    }
    w->told = w->truth;
    w->told.costs = w->told_costs;
    set_told(w, 2);
    return w;
}

static void free_world(world *w) {
    free(w);
    rota_history_forget();
}

static double truth_of(const world *w, const uint8_t *devices) {
    double ns = 0;
    bool several = false;
    assert_ok(rota_placing_makespan(&w->truth, devices, &ns));
    for (uint32_t n = 1; n < NODES; n++) several |= devices[n] != devices[0];
    return several ? ns * w->several_factor : ns;
}

static double best_single(const world *w) {
    uint8_t devices[NODES];
    double best = INFINITY;
    for (uint32_t d = 0; d < w->devices; d++) {
        memset(devices, (int)d, sizeof devices);
        best = fmin(best, truth_of(w, devices));
    }
    return best;
}

/* Compiles: what the placement takes. */
static double settle(world *w, bool explores, rota_settled *out) {
    const rota_settling settling = {&w->told, w->histories, w->devices, 1000, 2000, explores};
    assert_ok(rota_placing_choose(&w->told, w->chosen));
    assert_ok(rota_placing_settle(&settling, w->chosen, out));
    assert_int_equal(out->node_count, NODES);
    return truth_of(w, w->chosen);
}

/* ... replays, and learns, by which what is told changes. */
static double round_of(world *w, double wrong) {
    rota_settled settled;
    const double ns = settle(w, true, &settled);
    settled.devices = w->chosen;
    rota_placing_taught(w->histories[0], settled.device == UINT32_MAX ? NULL : w->histories[settled.device],
                        &settled, ns * between(w, 1, 1 + w->noise));
    w->replays++;
    set_told(w, wrong);
    return ns;
}

static bool is_on_several(const world *w) {
    for (uint32_t n = 1; n < NODES; n++)
        if (w->chosen[n] != w->chosen[0]) return true;
    return false;
}

/* ---- However wrong the model is ---- */

static void no_worse_than_the_best_single_device(void **state) {
    (void)state;
    static const double factors[] = {0.8, 1, 1.3, 2, 5};
    uint32_t on_several = 0;
    for (uint64_t seed = 1; seed <= WORLDS; seed++)
        for (uint32_t f = 0; f < 5; f++) {
            world *w = new_world(seed * 100 + f, 2 + (uint32_t)seed % 3, factors[f]);
            w->noise = seed % 2 ? 0.02 : 0;
            const double single = best_single(w);
            for (uint32_t i = 0; i < w->devices + SEVERAL; i++) (void)round_of(w, 3);
            for (uint32_t i = 0; i < FOR_EVER; i++) {
                const double ns = round_of(w, 3);
                if (!(ns <= 1.05 * single))
                    fail_msg("world %llu, %g: round %u takes %g, the best single device %g",
                             (unsigned long long)seed, factors[f], w->replays, ns, single);
            }
            on_several += is_on_several(w);
            rota_settled settled;
            assert_true(settle(w, false, &settled) <= 1.05 * single);
            assert_false(settled.is_trial);
            free_world(w);
        }
    assert_true(on_several > WORLDS / 4); /* where those were faster */
}

/* The least of what was measured is kept, though the model would have another one each time. */
static void what_was_best_is_kept(void **state) {
    (void)state;
    uint32_t kept = 0;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        world *w = new_world(seed, 2, 1);
        double least = INFINITY, ns = 0;
        for (uint32_t i = 0; i < 2 + SEVERAL; i++) least = fmin(least, round_of(w, 3));
        for (uint32_t i = 0; i < 20; i++) {
            ns = round_of(w, 3);
            if (!(ns <= least / 0.97))
                fail_msg("world %llu: %g, was %g", (unsigned long long)seed, ns, least);
        }
        kept += is_on_several(w) && ns < 0.95 * best_single(w);
        free_world(w);
    }
    assert_true(kept > WORLDS / 2);
}

/* ---- Trials ---- */

static void nothing_measured_is_the_models(void **state) {
    (void)state;
    world *w = new_world(5, 3, 1);
    uint8_t model[NODES];
    rota_settled settled;
    assert_ok(rota_placing_choose(&w->told, model));
    for (uint32_t i = 0; i < 10; i++) {
        (void)settle(w, i % 2, &settled);
        assert_memory_equal(model, w->chosen, NODES);
        assert_false(settled.is_trial);
    }
    free_world(w);
}

/* Each device alone is measured once; with none to teach, nothing is tried. */
static void each_device_is_tried_once(void **state) {
    (void)state;
    world *w = new_world(6, 4, 5);
    uint32_t alone[DEVICES_MAX] = {0};
    rota_settled settled;
    (void)round_of(w, 2);
    assert_true(is_on_several(w));
    (void)settle(w, false, &settled); /* of the others nothing is known: it stays */
    assert_true(is_on_several(w) && !settled.is_trial);
    for (uint32_t i = 0; i < 4; i++) {
        (void)round_of(w, 2);
        assert_false(is_on_several(w));
        alone[w->chosen[0]]++;
    }
    for (uint32_t d = 0; d < 4; d++) assert_int_equal(alone[d], 1);
    (void)settle(w, false, &settled);
    assert_true(!is_on_several(w) && !settled.is_trial);
    free_world(w);
}

/* Plans for trials of which no replay teaches end. */
static void trials_that_teach_nothing_end(void **state) {
    (void)state;
    world *w = new_world(7, 3, 1);
    rota_settled settled;
    (void)round_of(w, 2);
    const uint64_t key = (settle(w, false, &settled), settled.key);
    uint32_t trials = 0;
    for (uint32_t i = 0; i < 20; i++) {
        (void)settle(w, true, &settled);
        trials += settled.is_trial;
        if (i >= 4) assert_true(!settled.is_trial && settled.key == key);
    }
    assert_int_equal(trials, 4);
    free_world(w);
}

/* One device becomes slow, and that which was the slowest fast, about which nobody asked since: it is found. */
static void costs_that_change_are_followed(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS / 2; seed++) {
        world *w = new_world(seed, 3, 5);
        for (uint32_t i = 0; i < 3 + SEVERAL + 5; i++) (void)round_of(w, 2);
        assert_false(is_on_several(w));
        const uint32_t before = w->chosen[0];
        uint32_t slowest = 0;
        for (uint32_t d = 1; d < 3; d++)
            if (w->true_costs[d].span_ns > w->true_costs[slowest].span_ns) slowest = d;
        for (uint32_t n = 0; n < NODES; n++)
            for (uint32_t d = 0; d < 3; d++) {
                rota_placing_cost *cost = &w->true_costs[n * 3 + d];
                cost->span_ns *= d == before ? 6 : d == slowest ? 0.3 : 1;
                cost->busy_ns = cost->span_ns;
            }
        const double single = best_single(w);
        for (uint32_t i = 0; i < 60; i++) (void)round_of(w, 2);
        for (uint32_t i = 0; i < FOR_EVER; i++) assert_true(round_of(w, 2) <= 1.05 * single);
        assert_int_equal(w->chosen[0], slowest);
        free_world(w);
    }
}

/* A device that has no memory for all is not tried alone, and what was measured of it before doesn't count. */
static void what_has_no_room_is_not_tried(void **state) {
    (void)state;
    static const uint64_t all_bytes = UINT64_C(100) * NODES;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        world *w = new_world(seed, 2, 8);
        uint32_t touches[NODES];
        rota_placing_buffer buffers[NODES];
        uint64_t bytes[2] = {all_bytes / 2, all_bytes / 2};
        for (uint32_t n = 0; n < NODES; n++) {
            touches[n] = n;
            buffers[n] = (rota_placing_buffer){100, UINT32_MAX};
            w->nodes[n].first_touch = n;
            w->nodes[n].touch_count = 1;
        }
        for (uint32_t i = 0; i <= 2 + SEVERAL; i++) (void)round_of(w, 2);
        assert_false(is_on_several(w));
        w->told.touches = touches;
        w->told.buffers = buffers;
        w->told.buffer_count = NODES;
        w->told.memory_bytes = bytes;
        for (uint32_t i = 0; i < 20; i++) {
            (void)round_of(w, 2);
            uint32_t on_first = 0;
            for (uint32_t n = 0; n < NODES; n++) on_first += w->chosen[n] == 0;
            assert_int_equal(on_first, NODES / 2);
        }
        bytes[seed % 2] = all_bytes;
        for (uint32_t i = 0; i <= 2 + SEVERAL; i++) (void)round_of(w, 2);
        assert_true(!is_on_several(w) && w->chosen[0] == seed % 2);
        free_world(w);
    }
}

/* ---- What is kept ---- */

/* A record of another version, another size, or with devices that are not, counts as none. */
static void strange_records_count_as_none(void **state) {
    (void)state;
    for (uint32_t byte = 0; byte < HEADER + NODES; byte++) {
        world *w = new_world(8, 2, 0.5);
        uint8_t record[HEADER + NODES + 8];
        rota_settled settled;
        for (uint32_t i = 0; i < 2 + SEVERAL + 2; i++) (void)round_of(w, 2);
        assert_int_equal(rota_history_kept(w->histories[0], 2000, record, sizeof record), HEADER + NODES);
        record[byte] ^= 0x84;
        rota_history_keep(w->histories[0], 2000, record, (size_t)(HEADER + NODES) - (byte == 30));
        for (uint32_t i = 0; i < 6; i++) {
            (void)settle(w, i % 2, &settled);
            for (uint32_t n = 0; n < NODES; n++) assert_true(w->chosen[n] < 2);
            (void)round_of(w, 2);
        }
        free_world(w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_worse_than_the_best_single_device),
        cmocka_unit_test(what_was_best_is_kept),
        cmocka_unit_test(nothing_measured_is_the_models),
        cmocka_unit_test(each_device_is_tried_once),
        cmocka_unit_test(trials_that_teach_nothing_end),
        cmocka_unit_test(costs_that_change_are_followed),
        cmocka_unit_test(what_has_no_room_is_not_tried),
        cmocka_unit_test(strange_records_count_as_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
