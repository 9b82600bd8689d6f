/* What compiling costs as graphs grow. For each kind of graph that has made a compiler quadratic, or could:
 * how edges, the plan's memory and the compiler's own time (of its thread) grow with the number of nodes, as
 * an exponent fitted over sizes that double.
 *
 * test_compile_scale [--full] [KIND]: --full measures 10^3 to 10^6 nodes and wants the exponent of the time
 * too to be at most 1.1, and a certificate in three times the compile's. What else the machine does makes one
 * size dearer than another: where the limit is passed, all sizes are measured again, thrice at most, and the
 * least of all counts. The test proper stays small, where caches and other programs bend the time, and judges
 * edges and memory: a square of either shows there. Of the time it wants an exponent that no square has. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched/plan/certify.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/runtime_support.h"

static rota_status nothing(const rota_kernel_call *call) {
    (void)call;
    return ROTA_OK;
}

static const rota_kernel one = {.name = "one", .operand_count = 1, .cpu = {.fn = nothing}};
static const rota_kernel two = {.name = "two", .operand_count = 2, .cpu = {.fn = nothing}};
static const rota_kernel in_place = {.name = "in place",
                                     .operand_count = 2,
                                     .inplace_inputs = 1,
                                     .inplace_outputs = 2,
                                     .cpu = {.fn = nothing}};
static const rota_kernel sum = {.name = "sum",
                                .operand_count = 1,
                                .flags = ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE,
                                .cpu = {.fn = nothing}};

enum { SLICE = 256 };

typedef struct scene {
    rota_graph *graph;
    rota_recorder *recorder;
    uint64_t n;    /* nodes to record, about */
    uint64_t seed; /* of random ones */
    rota_compile_options options;
    rota_buffer *held[4]; /* persistent ones that it made */
    uint32_t device;      /* plus 1, of the next nodes */
} scene;

static rota_buffer *persistent(scene *s, uint64_t bytes) {
    uint32_t i = 0;
    while (s->held[i]) i++;
    assert_ok(rota_buffer_create("x", bytes, &s->held[i]));
    return s->held[i];
}

static rota_buffer *transient(scene *s, uint64_t bytes) {
    rota_buffer *buffer;
    assert_ok(rota_recorder_buffer(s->recorder, ROTA_BUFFER_TRANSIENT, "t", bytes, &buffer));
    return buffer;
}

static rota_node node(scene *s, const rota_kernel *kernel, const rota_access *accesses) {
    rota_node made;
    assert_ok(rota_record_kernel(s->recorder,
                                 &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses,
                                                   .access_count = kernel->operand_count,
                                                   .placement = {.device_plus_1 = s->device}),
                                 &made));
    return made;
}

static rota_node touch(scene *s, const rota_kernel *kernel, rota_buffer *buffer, uint64_t offset,
                       uint64_t size, rota_access_mode mode) {
    return node(s, kernel, &(rota_access){buffer, offset, size, mode});
}

static void whole(scene *s, uint64_t count, rota_buffer *buffer, rota_access_mode mode) {
    for (uint64_t i = 0; i < count; i++)
        touch(s, mode == ROTA_ACCUMULATE ? &sum : &one, buffer, 0, ROTA_WHOLE, mode);
}

static void slices(scene *s, uint64_t count, uint64_t step, rota_buffer *buffer, rota_access_mode mode) {
    for (uint64_t i = 0; i < count; i++)
        touch(s, mode == ROTA_ACCUMULATE ? &sum : &one, buffer, i * step * SLICE, SLICE, mode);
}

/* ---- Kinds of graphs ---- */

static void chain(scene *s) {
    rota_buffer *last = transient(s, SLICE);
    touch(s, &one, last, 0, ROTA_WHOLE, ROTA_WRITE);
    for (uint64_t i = 1; i < s->n; i++) {
        rota_buffer *next = transient(s, SLICE);
        node(s, &two, (rota_access[]){{last, 0, ROTA_WHOLE, ROTA_READ}, {next, 0, ROTA_WHOLE, ROTA_WRITE}});
        last = next;
    }
}

/* Each takes over the memory of the one before: one range of the arena, as long as the graph. It is smaller than what
 * memory is handed out in, so that the search for a better packing goes over it. */
static void chain_in_place(scene *s) {
    rota_buffer *last = transient(s, SLICE / 4);
    touch(s, &one, last, 0, ROTA_WHOLE, ROTA_WRITE);
    for (uint64_t i = 1; i < s->n; i++) {
        rota_buffer *next = transient(s, SLICE / 4);
        node(s, &in_place,
             (rota_access[]){{last, 0, ROTA_WHOLE, ROTA_READ}, {next, 0, ROTA_WHOLE, ROTA_WRITE}});
        last = next;
    }
}

static void wide(scene *s) {
    rota_buffer *x = persistent(s, SLICE);
    for (uint64_t i = 0; i < s->n; i++)
        node(
            s, &two,
            (rota_access[]){{x, 0, ROTA_WHOLE, ROTA_READ}, {transient(s, SLICE), 0, ROTA_WHOLE, ROTA_WRITE}});
}

static void random_ranges(scene *s) {
    rota_buffer *x = persistent(s, s->n * SLICE);
    for (uint64_t i = 0; i < s->n; i++) {
        const uint64_t first = test_random(&s->seed) % s->n;
        uint64_t size = 1 + test_random(&s->seed) % 4;
        if (test_random(&s->seed) % 16 == 0) size = s->n;
        if (size > s->n - first) size = s->n - first;
        static const rota_access_mode modes[] = {ROTA_READ, ROTA_WRITE, ROTA_READWRITE, ROTA_ACCUMULATE};
        const rota_access_mode mode = modes[test_random(&s->seed) % 4];
        touch(s, mode == ROTA_ACCUMULATE ? &sum : &one, x, first * SLICE, size * SLICE, mode);
    }
}

/* Each reads all, then each writes a piece. */
static void readers_then_writers(scene *s) {
    rota_buffer *x = persistent(s, s->n * SLICE);
    for (int round = 0; round < 2; round++) {
        whole(s, s->n / 4, x, ROTA_READ);
        slices(s, s->n / 4, 4, x, ROTA_WRITE);
    }
}

/* A reader of all and a writer of a piece take turns: the list that each writer comes after is another one.
 */
static void readers_between_writers(scene *s) {
    rota_buffer *x = persistent(s, s->n * SLICE);
    whole(s, s->n / 3, x, ROTA_READ);
    for (uint64_t i = 0; i < s->n / 3; i++) {
        touch(s, &one, x, i * SLICE, (s->n - i) * SLICE, ROTA_READ);
        touch(s, &one, x, i * SLICE, SLICE, ROTA_WRITE);
    }
}

static void accumulates(scene *s) {
    rota_buffer *x = persistent(s, SLICE);
    for (int round = 0; round < 2; round++) {
        whole(s, s->n / 4, x, ROTA_READ);
        whole(s, s->n / 4, x, ROTA_ACCUMULATE);
    }
}

/* Pieces written, read and added to, and all of them together. */
static void pieces(scene *s) {
    rota_buffer *x = persistent(s, s->n * SLICE);
    static const rota_access_mode modes[] = {ROTA_WRITE, ROTA_READ, ROTA_ACCUMULATE};
    for (int i = 0; i < 3; i++) {
        slices(s, s->n / 12, 12, x, modes[i]);
        whole(s, s->n / 12, x, ROTA_READ);
        slices(s, s->n / 12, 12, x, modes[i]);
        whole(s, s->n / 12, x, ROTA_ACCUMULATE);
    }
}

/* Memory of one buffer that many read goes to many. */
static void aliases(scene *s) {
    const uint64_t n = s->n / 3;
    rota_buffer *x = persistent(s, n * SLICE), *big = transient(s, n * SLICE);
    rota_buffer **small = calloc(n, sizeof *small);
    assert_non_null(small);
    touch(s, &one, big, 0, ROTA_WHOLE, ROTA_WRITE);
    for (uint64_t i = 0; i < n; i++)
        node(s, &two, (rota_access[]){{big, 0, ROTA_WHOLE, ROTA_READ}, {x, i * SLICE, SLICE, ROTA_WRITE}});
    for (uint64_t i = 0; i < n; i++)
        touch(s, &one, small[i] = transient(s, SLICE), 0, ROTA_WHOLE, ROTA_WRITE);
    for (uint64_t i = 0; i < n; i++)
        node(s, &two,
             (rota_access[]){{small[i], 0, ROTA_WHOLE, ROTA_READ}, {x, i * SLICE, SLICE, ROTA_WRITE}});
    free(small);
}

static void aliases_concurrent(scene *s) {
    s->options.packing = ROTA_PACK_CONCURRENT;
    aliases(s);
}

/* The same, read one after another, so that memory is proved to be free. */
static void aliases_proved(scene *s) {
    s->options.packing = ROTA_PACK_CONCURRENT;
    const uint64_t n = s->n / 2;
    rota_buffer *x = persistent(s, SLICE), *big = transient(s, n * SLICE);
    touch(s, &one, big, 0, ROTA_WHOLE, ROTA_WRITE);
    for (uint64_t i = 0; i < n; i++)
        node(s, &two, (rota_access[]){{big, 0, ROTA_WHOLE, ROTA_READ}, {x, 0, ROTA_WHOLE, ROTA_READWRITE}});
    for (uint64_t i = 0; i < n; i++)
        node(
            s, &two,
            (rota_access[]){{x, 0, ROTA_WHOLE, ROTA_READ}, {transient(s, SLICE), 0, ROTA_WHOLE, ROTA_WRITE}});
}

/* Every other piece of a slot is written here, the others come from outside; all is read again and again. */
static void slots(scene *s) {
    rota_buffer *slot;
    assert_ok(rota_recorder_buffer(s->recorder, ROTA_BUFFER_SLOT, "slot", s->n * SLICE, &slot));
    slices(s, s->n / 2, 2, slot, ROTA_WRITE);
    whole(s, s->n / 2, slot, ROTA_READ);
}

static uint32_t by_turns(void *user, rota_node node, uint32_t queues) {
    (void)user;
    return (node.index ^ node.index / 7) % queues;
}

static void queues(scene *s) {
    s->options.queues = 4;
    s->options.queue_policy = by_turns;
    accumulates(s);
}

static void queues_random(scene *s) {
    s->options.queues = 4;
    s->options.queue_policy = by_turns;
    random_ranges(s);
}

/* A lane for every 16 nodes. */
static void lanes(scene *s) {
    rota_buffer *x = persistent(s, SLICE);
    for (uint64_t lane = 1; lane < s->n / 16; lane++) {
        rota_recorder_close(s->recorder);
        assert_ok(rota_recorder_open(s->graph, s->n - lane, NULL, &s->recorder));
        whole(s, 15, x, ROTA_READ);
        whole(s, 1, x, ROTA_READWRITE);
    }
}

static rota_status host_nothing(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)user, (void)operands, (void)bytes, (void)count;
    return ROTA_OK;
}

/* A long history of host functions, and nodes that come after many of them. */
static void host_history(scene *s) {
    rota_buffer *x = persistent(s, s->n * SLICE);
    rota_node last = {0};
    for (uint64_t i = 0; i < s->n; i++) {
        rota_node made;
        rota_access access = {x, i % 2 ? 0 : i * SLICE, i % 2 ? ROTA_WHOLE : SLICE,
                              i % 2 ? ROTA_READ : ROTA_WRITE};
        assert_ok(rota_record_host(
            s->recorder, &ROTA_HOST_NODE(.fn = host_nothing, .accesses = &access, .access_count = 1), &made));
        if (i > 8) {
            assert_ok(rota_node_after(s->recorder, made, (rota_node){made.lane, made.index / 2}));
            assert_ok(rota_node_after(s->recorder, made, last));
        }
        last = made;
    }
}

/* Two devices that share nothing write pieces by turns, and each reads all. */
static void devices(scene *s) {
    rota_buffer *x = transient(s, s->n * SLICE);
    touch(s, &one, x, 0, ROTA_WHOLE, ROTA_WRITE);
    for (uint64_t i = 0; i < s->n / 4; i++) {
        s->device = 1 + i % 2;
        touch(s, &one, x, 2 * i * SLICE, SLICE, ROTA_WRITE);
    }
    for (uint64_t i = 0; i < s->n / 2; i++) {
        s->device = 1 + i % 2;
        touch(s, &one, x, 0, ROTA_WHOLE, ROTA_READ);
    }
}

typedef struct kind {
    const char *name;
    void (*record)(scene *);
    bool on_devices;
    bool is_usual; /* its certificate takes at most three times what compiling it does */
} kind;

static const kind kinds[] = {
    {"chain", chain, false, true},
    {"chain in place", chain_in_place, false, true},
    {"wide", wide, false, true},
    {"random", random_ranges, false, false},
    {"readers then writers", readers_then_writers, false, false},
    {"readers between writers", readers_between_writers, false, false},
    {"accumulates", accumulates, false, true},
    {"pieces", pieces, false, false},
    {"aliases", aliases, false, true},
    {"aliases, concurrent", aliases_concurrent, false, false},
    {"aliases, proved", aliases_proved, false, false},
    {"slots", slots, false, false},
    {"four queues", queues, false, false},
    {"four queues, random", queues_random, false, false},
    {"lanes", lanes, false, true},
    {"host history", host_history, false, false},
    {"two devices", devices, true, false},
};

/* ---- Measuring ---- */

typedef struct cost {
    double edges, bytes, seconds, certificate; /* the last two: of the thread's time */
} cost;

static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The time is the least of so many compilations. */
static cost measure(const kind *k, uint64_t n, uint32_t times, rota_device *const *on) {
    scene s = {.n = n, .seed = 7, .options = ROTA_COMPILE_OPTIONS()};
    assert_ok(rota_graph_create(NULL, &s.graph));
    assert_ok(rota_recorder_open(s.graph, 0, NULL, &s.recorder));
    k->record(&s);
    rota_recorder_close(s.recorder);
    if (k->on_devices) {
        s.options.devices = on;
        s.options.device_count = 2;
    }
    cost least = {.seconds = INFINITY, .certificate = INFINITY};
    for (uint32_t i = 0; i < times; i++) {
        rota_plan *plan;
        rota_plan_stats stats = ROTA_PLAN_STATS();
        const double begin = thread_seconds();
        assert_ok(
            rota_compile(k->on_devices ? rota_device_runtime(on[0]) : NULL, s.graph, &s.options, &plan));
        const double seconds = thread_seconds() - begin;
        rota_plan_get_stats(plan, &stats);
        least.edges =
            (double)(stats.edges + stats.edges_dropped + stats.queue_waits + stats.queue_waits_dropped);
        least.bytes = (double)stats.plan_bytes;
        if (seconds < least.seconds) least.seconds = seconds;
        if (k->is_usual || (i == 0 && n <= 2000)) { /* of the others, that it accepts a small one */
            const double certify = thread_seconds();
            assert_ok(rota_plan_certify(plan));
            const double took = thread_seconds() - certify;
            if (took < least.certificate) least.certificate = took;
        }
        rota_plan_release(plan);
    }
    rota_graph_release(s.graph);
    for (uint32_t i = 0; i < 4; i++)
        if (s.held[i]) rota_buffer_release(s.held[i]);
    return least;
}

enum { SIZES_MAX = 12, TIMES = 3, MEASUREMENTS_MAX = 4 };
static const double limit = 1.1, certificate_limit = 3, small_limit = 1.6;

static int compare_doubles(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* The median of the exponents between any two sizes: one measurement that went wrong changes little. */
static double exponent(const double *nodes, const double *costs, uint32_t count) {
    double slopes[SIZES_MAX * SIZES_MAX];
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count; k++)
            slopes[found++] = log((costs[k] + 1e-12) / (costs[i] + 1e-12)) / log(nodes[k] / nodes[i]);
    qsort(slopes, found, sizeof *slopes, compare_doubles);
    return found % 2 ? slopes[found / 2] : (slopes[found / 2 - 1] + slopes[found / 2]) / 2;
}

static bool full;
static const char *only; /* the kind to measure; NULL: all */

/* The costs of a kind of graph by size. */
typedef struct costs {
    double nodes[SIZES_MAX], edges[SIZES_MAX], bytes[SIZES_MAX], seconds[SIZES_MAX], certificate[SIZES_MAX];
    uint32_t count;
} costs;

/* Once more: the times are the least of all measurements. */
static void measure_sizes(const kind *k, rota_device *const *on, costs *io_costs) {
    const uint64_t first = full ? 1000 : 2000, last = full ? 1000000 : 16000;
    const bool again = io_costs->count > 0;
    uint32_t i = 0;
    for (uint64_t n = first; n <= last;
         n = full && n * 4 > last && n < last ? last : n * (full ? 4 : 2), i++) {
        if (k->on_devices && n > 64000) break; /* their driver's part takes long */
        const cost c = measure(k, n, TIMES, on);
        io_costs->nodes[i] = (double)n;
        io_costs->edges[i] = c.edges + 1;
        io_costs->bytes[i] = c.bytes;
        io_costs->seconds[i] = again ? fmin(io_costs->seconds[i], c.seconds) : c.seconds;
        io_costs->certificate[i] = again ? fmin(io_costs->certificate[i], c.certificate) : c.certificate;
    }
    io_costs->count = i;
}

/* Whether the times are within their limits. */
static bool is_quick(const kind *k, const costs *c) {
    const double by_time = exponent(c->nodes, c->seconds, c->count);
    if (!full) return by_time <= small_limit;
    return by_time <= limit &&
           (!k->is_usual || c->certificate[c->count - 1] <= certificate_limit * c->seconds[c->count - 1]);
}

static bool judge(const kind *k, rota_device *const *on) {
    costs c = {.count = 0};
    uint32_t measurements = 0;
    do {
        measure_sizes(k, on, &c);
    } while (++measurements < MEASUREMENTS_MAX && !is_quick(k, &c));
    const double by_edges = exponent(c.nodes, c.edges, c.count),
                 by_bytes = exponent(c.nodes, c.bytes, c.count);
    const uint32_t last = c.count - 1;
    print_message(
        "%-24s edges %.3f, memory %.3f, time %.3f; %.0f edges, %.0f bytes, %.0f ns a node at %.0f; measured "
        "%u times\n",
        k->name, by_edges, by_bytes, exponent(c.nodes, c.seconds, c.count), c.edges[last] / c.nodes[last],
        c.bytes[last] / c.nodes[last], c.seconds[last] / c.nodes[last] * 1e9, c.nodes[last],
        measurements * TIMES);
    print_message("%-24s ns a node by size:", "");
    for (uint32_t i = 0; i < c.count; i++) print_message(" %.0f", c.seconds[i] / c.nodes[i] * 1e9);
    print_message("\n");
    if (k->is_usual)
        print_message("%-24s certificate %.3f, %.2f times the compile\n", "",
                      exponent(c.nodes, c.certificate, c.count), c.certificate[last] / c.seconds[last]);
    return by_edges <= limit && by_bytes <= limit && is_quick(k, &c);
}

static void costs_grow_with_nodes(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *on[2];
    static adversary_options options = {.max_allocation_bytes = 1ull << 32};
    assert_ok(adversary_runtime_open(&options, NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &on[0]));
    assert_ok(rota_device_open(runtime, "adversary", &on[1]));
    bool good = true;
    bool any = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (only && strcmp(only, kinds[i].name) != 0) continue;
        any = true;
        good = judge(&kinds[i], on) && good;
    }
    if (!any) fail_msg("there is no kind '%s'", only);
    assert_ok(rota_runtime_close(runtime, 5000000000ull));
    assert_true(good);
}

/* ---- What joins order, run ---- */

enum { READERS = 300, ADDERS = 200 };

static _Atomic uint32_t readers_done, adders_done, early;

static void spin(void) {
    for (volatile int i = 0; i < 40000; i++) {
    }
}

static rota_status run_reader(const rota_kernel_call *call) {
    (void)call;
    spin();
    if (atomic_load(&adders_done) % ADDERS) atomic_fetch_add(&early, 1);
    atomic_fetch_add(&readers_done, 1);
    return ROTA_OK;
}

static rota_status run_adder(const rota_kernel_call *call) {
    (void)call;
    if (atomic_load(&readers_done) % READERS) atomic_fetch_add(&early, 1);
    spin();
    atomic_fetch_add(&adders_done, 1);
    return ROTA_OK;
}

static void grain(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                  uint64_t *out_grain) {
    (void)params, (void)operand_bytes;
    *out_items = 1;
    *out_grain = 1;
}

/* Whole sets, one after the other in every replay, on several workers. */
static void joined_sets_run_in_order(void **state) {
    (void)state;
    const rota_kernel reader = {
        .name = "reader", .operand_count = 1, .cpu = {.fn = run_reader, .items = grain}};
    rota_kernel adder = sum;
    adder.cpu.fn = run_adder;
    adder.cpu.items = grain;
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 4), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *x = test_buffer(runtime, "x", SLICE);
    scene s = {0};
    assert_ok(rota_graph_create(NULL, &s.graph));
    assert_ok(rota_recorder_open(s.graph, 0, NULL, &s.recorder));
    touch(&s, &one, x, 0, ROTA_WHOLE, ROTA_WRITE);
    for (int i = 0; i < READERS; i++) touch(&s, &reader, x, 0, ROTA_WHOLE, ROTA_READ);
    for (int i = 0; i < ADDERS; i++) touch(&s, &adder, x, 0, ROTA_WHOLE, ROTA_ACCUMULATE);
    rota_recorder_close(s.recorder);
    rota_plan *plan;
    assert_ok(
        rota_compile(runtime, s.graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.batches, 3); /* a join takes no batch */
    assert_true(stats.joins > 0);
    assert_true(stats.edges < 3 * (READERS + ADDERS));
    for (int i = 0; i < 20; i++) {
        rota_ticket ticket;
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0));
    }
    assert_int_equal(atomic_load(&early), 0);
    assert_int_equal(atomic_load(&adders_done), 20 * ADDERS);
    rota_plan_release(plan);
    rota_graph_release(s.graph);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(runtime, 5000000000ull));
}

int main(int argc, char **argv) {
    full = argc > 1 && strcmp(argv[1], "--full") == 0;
    only = argc > 1 + full ? argv[1 + full] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_grow_with_nodes),
        cmocka_unit_test(joined_sets_run_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
