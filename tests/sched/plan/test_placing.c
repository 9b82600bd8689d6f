/* The default policy of automatic placement, by itself: never behind the best single device, close to the best of all
 * placements where those can be gone through, and well where the answer is known. */
#include "tests/kit/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sched/placing.h"

enum { NODES_MAX = 200000, SOME = 1000, EDGES_OF_NODE = 4, DEVICES = 4, SMALL = 8 };

/* A problem, with room. */
typedef struct made {
    rota_placing placing;
    rota_placing_node *nodes;
    rota_placing_edge *edges;
    rota_placing_cost *costs;
    uint32_t hardware[DEVICES];
    double latency_ns[DEVICES * DEVICES], byte_ns[DEVICES * DEVICES], host_latency_ns[DEVICES],
        host_byte_ns[DEVICES];
} made;

static made *new_large(uint32_t most, uint32_t devices, double latency_ns, double byte_ns) {
    made *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->nodes = calloc(most, sizeof *m->nodes);
    m->edges = calloc((size_t)most * EDGES_OF_NODE, sizeof *m->edges);
    m->costs = calloc((size_t)most * devices, sizeof *m->costs);
    assert_true(m->nodes && m->edges && m->costs);
    for (uint32_t d = 0; d < devices; d++) {
        m->hardware[d] = d;
        for (uint32_t e = 0; e < devices; e++) {
            m->latency_ns[d * devices + e] = d == e ? 0 : latency_ns;
            m->byte_ns[d * devices + e] = d == e ? 0 : byte_ns;
        }
    }
    m->placing =
        ROTA_PLACING(.device_count = devices, .nodes = m->nodes, .edges = m->edges, .costs = m->costs,
                     .hardware = m->hardware, .latency_ns = m->latency_ns, .byte_ns = m->byte_ns,
                     .host_latency_ns = m->host_latency_ns, .host_byte_ns = m->host_byte_ns);
    return m;
}

static made *new_problem(uint32_t devices, double latency_ns, double byte_ns) {
    return new_large(SOME, devices, latency_ns, byte_ns);
}

static void free_problem(made *m) {
    free(m->nodes);
    free(m->edges);
    free(m->costs);
    free(m);
}

/* A node that takes so long on every device, and is one value. */
static uint32_t add_node(made *m, double span_ns) {
    const uint32_t n = m->placing.node_count++;
    m->nodes[n] = (rota_placing_node){.first_edge = m->placing.edge_count,
                                      .possible = (1u << m->placing.device_count) - 1};
    for (uint32_t d = 0; d < m->placing.device_count; d++)
        m->costs[(size_t)n * m->placing.device_count + d] = (rota_placing_cost){span_ns, span_ns};
    m->placing.value_count = n + 1;
    return n;
}

/* Into the newest node. */
static void add_edge(made *m, uint32_t from, uint64_t bytes) {
    m->edges[m->placing.edge_count++] = (rota_placing_edge){from, from, bytes};
    m->nodes[m->placing.node_count - 1].edge_count++;
}

static double makespan(const made *m, const uint8_t *devices) {
    double ns = -1;
    assert_ok(rota_placing_makespan(&m->placing, devices, &ns));
    return ns;
}

static double single(const made *m, uint32_t device) {
    uint8_t devices[SOME];
    memset(devices, (int)device, sizeof devices);
    return makespan(m, devices);
}

static double best_single(const made *m) {
    double best = INFINITY;
    for (uint32_t d = 0; d < m->placing.device_count; d++) best = fmin(best, single(m, d));
    return best;
}

static double best_of_all(const made *m) {
    uint8_t devices[SMALL] = {0};
    double best = INFINITY;
    for (;;) {
        best = fmin(best, makespan(m, devices));
        uint32_t n = 0;
        while (n < m->placing.node_count && ++devices[n] == m->placing.device_count) devices[n++] = 0;
        if (n == m->placing.node_count) return best;
    }
}

static double chosen(const made *m, uint8_t *out_devices) {
    uint8_t again[SOME];
    assert_ok(rota_placing_choose(&m->placing, out_devices));
    assert_ok(rota_placing_choose(&m->placing, again));
    assert_memory_equal(again, out_devices, m->placing.node_count);
    return makespan(m, out_devices);
}

/* ---- Known answers ---- */

static void equal_branches_are_halved(void **state) {
    (void)state;
    uint8_t devices[SOME];
    made *m = new_problem(2, 1000, 0.01);
    const uint32_t root = add_node(m, 1000);
    for (uint32_t b = 0; b < 64; b++) {
        add_node(m, 50000);
        add_edge(m, root, 4096);
        add_node(m, 50000);
        add_edge(m, m->placing.node_count - 2, 4096);
    }
    add_node(m, 1000);
    for (uint32_t b = 0; b < 64; b++) add_edge(m, root + 2 + 2 * b, 64);
    const double ns = chosen(m, devices), alone = best_single(m);
    if (!(ns * 1.9 < alone)) fail_msg("%.0f ns on two devices, %.0f on one", ns, alone);
    for (uint32_t b = 0; b < 64; b++) assert_int_equal(devices[1 + 2 * b], devices[2 + 2 * b]);
    free_problem(m);
}

static void chains_stay_where_they_are(void **state) {
    (void)state;
    uint8_t devices[SOME];
    made *m = new_problem(3, 1000, 1);
    add_node(m, 100);
    for (uint32_t i = 1; i < 100; i++) {
        add_node(m, 100);
        add_edge(m, i - 1, 1000);
    }
    (void)chosen(m, devices);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(devices[i], 0); /* of equal ones the first */
    for (uint32_t i = 0; i < 100; i++) m->costs[i * 3 + 1].span_ns = m->costs[i * 3 + 1].busy_ns = 90;
    (void)chosen(m, devices);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(devices[i], 1);
    free_problem(m);
}

/* Each to the device that is good at it, where what goes between costs little. */
static void unlike_nodes_go_to_unlike_devices(void **state) {
    (void)state;
    uint8_t devices[SOME];
    made *m = new_problem(2, 10, 0.001);
    for (uint32_t i = 0; i < 40; i++) {
        const uint32_t n = add_node(m, 1000);
        m->costs[n * 2 + i % 2] = (rota_placing_cost){10000, 10000};
    }
    (void)chosen(m, devices);
    for (uint32_t i = 0; i < 40; i++) assert_int_equal(devices[i], 1 - i % 2);
    free_problem(m);
}

/* Two devices of one piece of hardware are no faster than one. */
static void the_same_hardware_is_not_counted_twice(void **state) {
    (void)state;
    uint8_t devices[SOME];
    made *m = new_problem(2, 0, 0);
    m->hardware[1] = 0;
    for (uint32_t i = 0; i < 16; i++) add_node(m, 1000);
    assert_true(chosen(m, devices) == 16000);
    for (uint32_t i = 0; i < 16; i++) assert_int_equal(devices[i], 0);
    free_problem(m);
}

/* Nodes that run side by side on one device don't become faster by another one. */
static void what_overlaps_is_not_spread(void **state) {
    (void)state;
    uint8_t devices[SOME];
    made *m = new_problem(2, 5000, 0);
    const uint32_t root = add_node(m, 100);
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t n = add_node(m, 1000);
        for (uint32_t d = 0; d < 2; d++) m->costs[n * 2 + d].busy_ns = 10;
        add_edge(m, root, 4);
    }
    (void)chosen(m, devices);
    for (uint32_t i = 0; i < 17; i++) assert_int_equal(devices[i], 0);
    free_problem(m);
}

/* A value that many nodes of one device read is copied there once. */
static void a_value_is_copied_once(void **state) {
    (void)state;
    made *m = new_problem(2, 1000, 1);
    uint8_t devices[11] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    add_node(m, 100);
    for (uint32_t i = 0; i < 10; i++) {
        add_node(m, 100);
        add_edge(m, 0, 5000);
    }
    const double ns = makespan(m, devices);
    if (!(ns < 100 + 6000 + 10 * 100 + 1000)) fail_msg("%.0f ns with one copy of 6000", ns);
    free_problem(m);
}

/* ---- Memory ---- */

/* Each node has two buffers, of which it is the only one to touch the first, which stays or not; the second is that of
 * the node that its first edge comes from, or one that nobody else has. */
typedef struct memory {
    uint32_t touches[2 * SOME];
    rota_placing_buffer buffers[2 * SOME];
    uint64_t bytes[DEVICES];
} memory;

static void add_buffers(made *m, memory *room, uint64_t own_bytes, bool stays, uint64_t passed_bytes) {
    rota_placing *p = &m->placing;
    for (uint32_t n = 0; n < p->node_count; n++) {
        room->buffers[n] = (rota_placing_buffer){own_bytes, stays ? UINT32_MAX : n};
        room->buffers[p->node_count + n] = (rota_placing_buffer){passed_bytes, n};
        const uint32_t from = m->nodes[n].edge_count ? m->edges[m->nodes[n].first_edge].from : n;
        room->buffers[p->node_count + from].last = n;
        uint32_t *const touches = &room->touches[(size_t)2 * n];
        touches[0] = n;
        touches[1] = p->node_count + from;
        m->nodes[n].first_touch = 2 * n;
        m->nodes[n].touch_count = 2;
    }
    p->touches = room->touches;
    p->buffers = room->buffers;
    p->buffer_count = 2 * p->node_count;
    p->memory_bytes = room->bytes;
}

/* The most that a device's buffers take, and the sum of that of the others: by going over nodes for each buffer. */
static uint64_t most_of(const made *m, const uint8_t *devices, uint32_t device, bool staying) {
    const rota_placing *p = &m->placing;
    uint64_t live[SOME] = {0}, most = 0;
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        const bool stays = p->buffers[b].last == UINT32_MAX;
        uint32_t first = UINT32_MAX;
        for (uint32_t t = 0; t < 2 * p->node_count && first == UINT32_MAX; t++)
            if (p->touches[t] == b && devices[t / 2] == device) first = t / 2;
        for (uint32_t n = first; n < p->node_count && stays == staying && (stays || n <= p->buffers[b].last);
             n++)
            live[n] += p->buffers[b].bytes;
    }
    for (uint32_t n = 0; n < p->node_count; n++)
        if (live[n] > most) most = live[n];
    return most;
}

static bool keeps_limits(const made *m, const uint8_t *devices) {
    uint64_t sum = 0;
    for (uint32_t d = 0; d < m->placing.device_count; d++) {
        const uint64_t live = most_of(m, devices, d, false), kept = most_of(m, devices, d, true);
        if (m->placing.memory_bytes[d] && live + kept > m->placing.memory_bytes[d]) return false;
        sum += live;
    }
    return !m->placing.transient_limit_bytes || sum <= m->placing.transient_limit_bytes;
}

/* As many go to the fast device as it has room for, the others to the next best. */
static void what_has_no_room_goes_to_the_next_best(void **state) {
    (void)state;
    static memory room;
    uint8_t devices[SOME];
    made *m = new_problem(3, 10, 0);
    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t n = add_node(m, 1000);
        rota_placing_cost *const costs = &m->costs[(size_t)n * 3];
        costs[1] = (rota_placing_cost){20000, 20000};
        costs[2] = (rota_placing_cost){100000, 100000};
    }
    add_buffers(m, &room, 100, true, 1);
    (void)chosen(m, devices);
    for (uint32_t n = 0; n < 10; n++) assert_int_equal(devices[n], 0); /* no limit is known */
    room.bytes[0] = 450;
    room.bytes[1] = 550;
    (void)chosen(m, devices);
    uint32_t on[3] = {0};
    for (uint32_t n = 0; n < 10; n++) on[devices[n]]++;
    assert_true(on[0] == 4 && on[1] == 5 && on[2] == 1);
    /* One that has room for all is taken before one without, however slow. */
    m->nodes[0].possible = m->nodes[1].possible = 4;
    room.bytes[0] = room.bytes[1] = 50;
    (void)chosen(m, devices);
    for (uint32_t n = 0; n < 10; n++) assert_int_equal(devices[n], 2);
    /* Nothing has: as if it had. */
    room.bytes[2] = 50;
    m->nodes[0].possible = m->nodes[1].possible = 7;
    (void)chosen(m, devices);
    for (uint32_t n = 0; n < 10; n++) assert_int_equal(devices[n], 0);
    free_problem(m);
}

static void limits_are_kept(void **state) {
    (void)state;
    static memory room;
    uint64_t random = 9;
    uint32_t spread = 0;
    for (uint32_t round = 0; round < 300; round++) {
        uint8_t devices[SOME], on_one[SOME] = {0};
        made *m = new_problem(2 + round % 3, test_below(&random, 1000), 0.05);
        const uint32_t count = 20 + test_below(&random, 60);
        for (uint32_t n = 0; n < count; n++) {
            add_node(m, 1000 + test_below(&random, 9000));
            if (n > 3 && test_below(&random, 4)) add_edge(m, n - 1 - test_below(&random, 3), 100);
        }
        add_buffers(m, &room, 1000, round % 2, 300);
        memset(room.bytes, 0, sizeof room.bytes);
        const uint64_t all = most_of(m, on_one, 0, true) + most_of(m, on_one, 0, false);
        /* Of buffers that stay there is room for all nodes on two devices. */
        for (uint32_t d = 0; d < m->placing.device_count; d++)
            room.bytes[d] = round % 2 ? all / 2 + 4000 + test_below(&random, 2000) : 0;
        if (round % 2 == 0) m->placing.transient_limit_bytes = all + test_below(&random, 3000);
        (void)chosen(m, devices);
        if (!keeps_limits(m, devices)) fail_msg("round %u: a limit is not kept", round);
        bool several = false;
        for (uint32_t n = 1; n < count; n++) several |= devices[n] != devices[0];
        spread += several;
        free_problem(m);
    }
    assert_true(spread > 150); /* half of them can't be on one */
}

/* What a device is given by the host takes the time of the host's own: of sums over its data, nothing is won. */
static void what_the_host_gives_takes_its_time(void **state) {
    (void)state;
    static const double taken_ns[2] = {0, 0.98};
    uint8_t devices[SOME];
    made *m = new_problem(2, 10, 0.001);
    m->host_byte_ns[1] = 1;
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t n = add_node(m, 1000);
        m->costs[(size_t)n * 2 + 1] = (rota_placing_cost){10, 10};
        m->edges[m->placing.edge_count++] = (rota_placing_edge){ROTA_PLACING_OUTSIDE, n, 1000};
        m->nodes[n].edge_count = 1;
    }
    uint32_t on_both = 0;
    (void)chosen(m, devices);
    for (uint32_t n = 1; n < 32; n++) on_both += devices[n] != devices[0];
    assert_true(on_both > 0);
    m->placing.host_plus_1 = 1;
    m->placing.host_taken_ns = taken_ns;
    (void)chosen(m, devices);
    for (uint32_t n = 1; n < 32; n++) assert_int_equal(devices[n], devices[0]);
    free_problem(m);
}

/* ---- Random graphs ---- */

static void draw(made *m, uint64_t *random, uint32_t count) {
    for (uint32_t n = 0; n < count; n++) {
        add_node(m, 1);
        for (uint32_t d = 0; d < m->placing.device_count; d++) {
            const double span = 100 + test_below(random, 2000);
            m->costs[(size_t)n * m->placing.device_count + d] =
                (rota_placing_cost){span, test_below(random, 2) ? span : span / 4};
        }
        for (uint32_t e = 0; n && e < test_below(random, 4); e++)
            add_edge(m, n - 1 - test_below(random, n < 6 ? n : 6),
                     test_below(random, 3) ? test_below(random, 2000) : 0);
        if (test_below(random, 8) == 0)
            m->nodes[n].possible = 1u << test_below(random, m->placing.device_count);
    }
}

static void small_graphs_are_near_the_best(void **state) {
    (void)state;
    uint64_t random = 1;
    double worst = 1, sum = 0;
    enum { ROUNDS = 400 };
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint8_t devices[SMALL];
        made *m = new_problem(2 + round % 2, test_below(&random, 1000), 0.5);
        draw(m, &random, SMALL);
        for (uint32_t n = 0; n < SMALL; n++) m->nodes[n].possible = (1u << m->placing.device_count) - 1;
        const double ns = chosen(m, devices), least = best_of_all(m), alone = best_single(m);
        assert_true(ns >= least * 0.999);
        if (ns > alone * 1.0001) fail_msg("round %u: %.0f ns, %.0f on one device", round, ns, alone);
        worst = fmax(worst, ns / least);
        sum += ns / least;
        free_problem(m);
    }
    printf("of the best placement's time: %.3f on average, %.2f at most\n", sum / ROUNDS, worst);
    if (sum / ROUNDS > 1.15) fail_msg("%.3f of the best placement's time on average", sum / ROUNDS);
}

static void never_behind_a_single_device(void **state) {
    (void)state;
    uint8_t devices[SOME];
    uint64_t random = 2;
    for (uint32_t round = 0; round < 100; round++) {
        made *m = new_problem(1 + round % DEVICES, test_below(&random, 20000), 0.1);
        draw(m, &random, 300);
        for (uint32_t n = 0; n < 300 && round % 2; n++)
            m->nodes[n].possible = (1u << m->placing.device_count) - 1;
        const double ns = chosen(m, devices);
        if (round % 2 && ns > best_single(m) * 1.0001)
            fail_msg("round %u: %.0f ns, %.0f on one device", round, ns, best_single(m));
        for (uint32_t n = 0; n < 300; n++) assert_true(m->nodes[n].possible >> devices[n] & 1);
        free_problem(m);
    }
}

/* ---- Cost, and errors ---- */

static uint64_t cpu_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double seconds_of(uint32_t count, bool wide) {
    static uint8_t devices[NODES_MAX];
    made *m = new_large(count, 2, 1000, 0.1);
    uint64_t random = 3;
    add_node(m, 100);
    for (uint32_t n = 1; n < count; n++) {
        add_node(m, 100 + test_below(&random, 900));
        add_edge(m, wide ? 0 : n - 1 - test_below(&random, n < 50 ? n : 50), test_below(&random, 2000));
    }
    double least = INFINITY;
    for (uint32_t i = 0; i < 3; i++) {
        const uint64_t begin = cpu_ns();
        assert_ok(rota_placing_choose(&m->placing, devices));
        least = fmin(least, (double)(cpu_ns() - begin) * 1e-9);
    }
    free_problem(m);
    return least;
}

static void many_nodes_cost_as_much_each(void **state) {
    (void)state;
    for (uint32_t wide = 0; wide < 2; wide++) {
        const double few = seconds_of(NODES_MAX / 16, wide), many = seconds_of(NODES_MAX, wide);
        printf("%s: %.0f ns a node of %d, %.0f of %d\n", wide ? "wide" : "deep", few / NODES_MAX * 16e9,
               NODES_MAX / 16, many / NODES_MAX * 1e9, NODES_MAX);
        if (many > few * 16 * 4 + 0.05)
            fail_msg("%.4f s of %d nodes, %.4f s of a sixteenth", many, NODES_MAX, few);
    }
}

static void wrong_problems_are_refused(void **state) {
    (void)state;
    uint8_t devices[2] = {0, 0};
    double ns;
    made *m = new_problem(2, 0, 0);
    add_node(m, 1);
    add_node(m, 1);
    m->nodes[1].possible = 0;
    assert_status(rota_placing_choose(&m->placing, devices), ROTA_INVALID_ARGUMENT);
    expect_said("node 1");
    m->nodes[1].possible = 4;
    assert_status(rota_placing_choose(&m->placing, devices), ROTA_INVALID_ARGUMENT);
    m->nodes[1].possible = 2;
    assert_status(rota_placing_makespan(&m->placing, devices, &ns), ROTA_INVALID_ARGUMENT);
    expect_said("node 1 on device 0");
    devices[1] = 7;
    assert_status(rota_placing_makespan(&m->placing, devices, &ns), ROTA_INVALID_ARGUMENT);
    m->costs[1 * 2 + 1].span_ns = INFINITY;
    assert_status(rota_placing_choose(&m->placing, devices), ROTA_INVALID_ARGUMENT);
    expect_said("node 1 may be on device 1");
    m->costs[1 * 2 + 1].span_ns = -1;
    assert_status(rota_placing_choose(&m->placing, devices), ROTA_INVALID_ARGUMENT);
    m->costs[1 * 2 + 1].span_ns = 1;
    m->costs[1 * 2 + 1].busy_ns = NAN;
    assert_status(rota_placing_choose(&m->placing, devices), ROTA_INVALID_ARGUMENT);
    m->costs[1 * 2 + 1].busy_ns = 1;
    assert_ok(rota_placing_choose(&m->placing, devices));
    assert_int_equal(devices[1], 1);
    m->placing.device_count = 33;
    assert_status(rota_placing_choose(&m->placing, devices), ROTA_INVALID_ARGUMENT);
    expect_said("33 devices");
    m->placing.device_count = 2;
    m->placing.struct_size = 0;
    assert_status(rota_placing_choose(&m->placing, devices), ROTA_INVALID_ARGUMENT);
    m->placing.struct_size = sizeof m->placing;
    m->placing.node_count = 0;
    assert_ok(rota_placing_choose(&m->placing, devices));
    free_problem(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_branches_are_halved),
        cmocka_unit_test(chains_stay_where_they_are),
        cmocka_unit_test(unlike_nodes_go_to_unlike_devices),
        cmocka_unit_test(the_same_hardware_is_not_counted_twice),
        cmocka_unit_test(what_overlaps_is_not_spread),
        cmocka_unit_test(a_value_is_copied_once),
        cmocka_unit_test(what_has_no_room_goes_to_the_next_best),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(what_the_host_gives_takes_its_time),
        cmocka_unit_test(small_graphs_are_near_the_best),
        cmocka_unit_test(never_behind_a_single_device),
        cmocka_unit_test(many_nodes_cost_as_much_each),
        cmocka_unit_test(wrong_problems_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
