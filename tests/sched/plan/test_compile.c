/* sched's compiler: edges, packing, queues, and what it says. Plans here are only analysed; running them is
 * the business of the conformance suite and the fuzzer. Linked with --wrap for qsort. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "graph/graph.h"
#include "sched/plan.h"
#include "sched/plan/compiled.h"
#include "sched/rewrite.h"

static const rota_kernel read1_write1 = {
    .name = "map", .operand_count = 2, .inplace_outputs = 2, .inplace_inputs = 1};
static const rota_kernel strict1_write1 = {.name = "strict", .operand_count = 2};
static const rota_kernel atomic_sum = {.name = "sum",
                                       .operand_count = 2,
                                       .flags =
                                           ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE};

typedef struct fixture {
    rota_graph *graph;
    rota_recorder *recorder;
} fixture;

static void set_up(fixture *f) {
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "g"), &f->graph));
    assert_ok(rota_recorder_open(f->graph, 1, "main", &f->recorder));
}

static rota_buffer *transient(fixture *f, const char *name, uint64_t size) {
    rota_buffer *buffer;
    assert_ok(rota_graph_buffer(f->graph, ROTA_BUFFER_TRANSIENT, name, size, &buffer));
    return buffer;
}

static rota_node map(fixture *f, const rota_kernel *kernel, rota_buffer *from, rota_buffer *to,
                     rota_access_mode mode) {
    rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, mode}};
    rota_node node;
    assert_ok(rota_record_kernel(
        f->recorder, &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses, .access_count = 2), &node));
    return node;
}

static rota_node fill(fixture *f, rota_buffer *buffer) {
    rota_node node;
    assert_ok(rota_record_fill(f->recorder, buffer, 0, ROTA_WHOLE, 0, &node));
    return node;
}

static rota_plan *compile(fixture *f, const rota_compile_options *options) {
    rota_recorder_close(f->recorder);
    rota_plan *plan;
    rota_compile_options mine = options ? *options : ROTA_COMPILE_OPTIONS();
    mine.certify = true;
    assert_ok(rota_compile(NULL, f->graph, &mine, &plan));
    return plan;
}

static void finish(fixture *f, rota_plan *plan) {
    rota_plan_release(plan);
    rota_graph_release(f->graph);
}

/* Of 4 GiB and more, and from 2 GiB on: within reserved room, and without. */
static void ranges_of_many_gigabytes(void **state) {
    (void)state;
    const uint64_t gib = UINT64_C(1) << 30, half = 20 * gib;
    for (uint32_t reserved = 0; reserved < 2; reserved++) {
        fixture f;
        set_up(&f);
        rota_buffer *p, *q;
        assert_ok(rota_buffer_create("p", 2 * half, &p));
        assert_ok(rota_buffer_create("q", 64, &q));
        if (reserved) assert_ok(rota_recorder_reserve(f.recorder, 6, 12, 0));
        const rota_access low[] = {{p, 0, half, ROTA_READ}, {q, 0, 4, ROTA_WRITE}},
                          high[] = {{p, half + 4, half - 4, ROTA_READ}, {q, 4, 4, ROTA_WRITE}};
        assert_ok(rota_record_fill(f.recorder, p, 0, half, 1, NULL));    /* 0 */
        assert_ok(rota_record_fill(f.recorder, p, half, half, 2, NULL)); /* 1 */
        assert_ok(rota_record_fill(f.recorder, p, 3 * gib, 4, 3, NULL)); /* 2: WAW on 0 */
        assert_ok(rota_record_fill(f.recorder, p, half, 4, 4, NULL));    /* 3: WAW on 1 */
        for (uint32_t i = 0; i < 2; i++) /* RAW: 4 on 2, which implies 0, and 5 on 1 */
            assert_ok(rota_record_kernel(
                f.recorder,
                &ROTA_KERNEL_NODE(.kernel = &strict1_write1, .accesses = i ? high : low, .access_count = 2),
                NULL));
        rota_plan *plan = compile(&f, NULL);
        rota_plan_stats stats = ROTA_PLAN_STATS();
        assert_ok(rota_plan_get_stats(plan, &stats));
        assert_int_equal(stats.edges_waw, 2);
        assert_int_equal(stats.edges_raw, 2);
        assert_int_equal(stats.edges, 4);
        finish(&f, plan);
        rota_buffer_release(p);
        rota_buffer_release(q);
    }
}

static void hazards_of_each_kind_and_implied_ones(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_buffer *p, *q;
    assert_ok(rota_buffer_create("p", 64, &p));
    assert_ok(rota_buffer_create("q", 64, &q));
    fill(&f, p);                                    /* 0 */
    map(&f, &strict1_write1, p, q, ROTA_WRITE);     /* 1: RAW on 0 */
    fill(&f, p);                                    /* 2: WAR on 1 (WAW on 0 goes with it) */
    fill(&f, p);                                    /* 3: WAW on 2 */
    map(&f, &strict1_write1, p, q, ROTA_READWRITE); /* 4: RAW on 3; RAW on 1 through q is implied */
    rota_plan *plan = compile(&f, NULL);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.nodes, 5);
    assert_int_equal(stats.edges, 4);
    assert_int_equal(stats.edges_raw, 2);
    assert_int_equal(stats.edges_war, 1);
    assert_int_equal(stats.edges_waw, 1);
    assert_int_equal(stats.edges_dropped, 1);
    assert_int_equal(stats.batches, 5);
    assert_int_equal(stats.barriers, 4);
    finish(&f, plan);
    rota_buffer_release(p);
    rota_buffer_release(q);
}

static void independent_nodes_share_a_batch(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_buffer *sum;
    assert_ok(rota_buffer_create("sum", 64, &sum));
    fill(&f, sum);
    for (int i = 0; i < 100; i++) {
        rota_buffer *t = transient(&f, "t", 64);
        fill(&f, t);
        map(&f, &atomic_sum, t, sum, ROTA_ACCUMULATE); /* commute: no edge between them */
    }
    rota_plan *plan = compile(&f, &ROTA_COMPILE_OPTIONS(.packing = ROTA_PACK_CONCURRENT));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.batches, 2);
    assert_int_equal(stats.edges, 200);
    finish(&f, plan);
    rota_buffer_release(sum);
}

static void partial_ranges_depend_only_where_they_meet(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_buffer *x = transient(&f, "x", 600), *y = transient(&f, "y", 600);
    rota_node w1, w2, r1, r2, r3;
    assert_ok(rota_record_fill(f.recorder, x, 0, 400, 1, &w1));
    assert_ok(rota_record_fill(f.recorder, x, 200, 400, 2, &w2));
    assert_ok(rota_record_copy(f.recorder, y, 0, x, 0, 200, &r1));
    assert_ok(rota_record_copy(f.recorder, y, 200, x, 100, 200, &r2));
    assert_ok(rota_record_copy(f.recorder, y, 400, x, 400, 200, &r3));
    rota_plan *plan = compile(&f, NULL);
    char text[1024];
    uint64_t length;
    assert_ok(rota_plan_explain(plan, r1, text, sizeof text, &length));
    assert_non_null(strstr(text, "bytes [0, 200)"));
    assert_null(strstr(text, "node 1)"));
    assert_ok(rota_plan_explain(plan, r2, text, sizeof text, &length));
    assert_non_null(strstr(text, "RAW"));
    assert_non_null(strstr(text, "node 1)"));
    assert_ok(rota_plan_explain(plan, w2, text, sizeof text, &length));
    assert_non_null(strstr(text, "WAW"));
    assert_int_equal(length, strlen(text));
    char tiny[8];
    assert_ok(rota_plan_explain(plan, w2, tiny, sizeof tiny, &length));
    assert_int_equal(strlen(tiny), 7);
    assert_status(rota_plan_explain(plan, (rota_node){7, 0}, text, sizeof text, NULL), ROTA_NOT_FOUND);
    finish(&f, plan);
}

static void undefined_reads_name_node_lane_and_buffer(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_buffer *x = transient(&f, "x", 64), *y = transient(&f, "y", 64);
    assert_ok(rota_record_fill(f.recorder, x, 0, 32, 0, NULL));
    map(&f, &strict1_write1, x, y, ROTA_WRITE);
    rota_recorder_close(f.recorder);
    rota_plan *plan;
    assert_status(rota_compile(NULL, f.graph, NULL, &plan), ROTA_UNDEFINED_DATA);
    assert_non_null(strstr(rota_last_error(), "'strict' (lane 1 'main', node 1)"));
    assert_non_null(strstr(rota_last_error(), "[32, 64)"));
    assert_non_null(strstr(rota_last_error(), "'x'"));
    assert_ok(rota_compile(NULL, f.graph, &ROTA_COMPILE_OPTIONS(.allow_undefined_reads = true), &plan));
    finish(&f, plan);
}

static void lanes_merge_by_key_and_keys_differ(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_recorder *before;
    rota_buffer *x = transient(&f, "x", 64);
    rota_node later = fill(&f, x), earlier;
    assert_ok(rota_recorder_open(f.graph, 0, "first", &before));
    assert_ok(rota_record_fill(before, x, 0, 64, 1, &earlier));
    assert_ok(rota_node_after(before, earlier, later)); /* backwards: lane 0 comes first */
    rota_recorder_close(before);
    rota_recorder_close(f.recorder);
    rota_plan *plan;
    assert_status(rota_compile(NULL, f.graph, NULL, &plan), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "'first'"));
    assert_non_null(strstr(rota_last_error(), "'main'"));
    rota_graph_release(f.graph);

    set_up(&f);
    assert_ok(rota_recorder_open(f.graph, 1, "twin", &before));
    rota_recorder_close(before);
    rota_recorder_close(f.recorder);
    assert_status(rota_compile(NULL, f.graph, NULL, &plan), ROTA_ALREADY_EXISTS);
    assert_non_null(strstr(rota_last_error(), "'twin'"));
    rota_graph_release(f.graph);
}

/* A chain of n maps through transients: in place it needs one buffer's memory, without two. */
static void chain(fixture *f, const rota_kernel *kernel, int n) {
    set_up(f);
    rota_buffer *x = transient(f, "t", 1 << 20);
    fill(f, x);
    for (int i = 0; i < n; i++) {
        rota_buffer *y = transient(f, "t", 1 << 20);
        map(f, kernel, x, y, ROTA_WRITE);
        x = y;
    }
}

/* ---- Sorting ---- */

static uint64_t sorts;
void __real_qsort(void *items, size_t count, size_t bytes, int (*compare)(const void *, const void *));
void __wrap_qsort(void *items, size_t count, size_t bytes, int (*compare)(const void *, const void *));

/* C leaves it open which items are compared, an item with itself included, and forbids answers that contradict each
 * other. */
void __wrap_qsort(void *items, size_t count, size_t bytes, int (*compare)(const void *, const void *)) {
    const char *item = items;
    for (size_t i = 0; i < count; i++, item += bytes) {
        assert_int_equal(compare(item, item), 0);
        if (i == 0) continue;
        const int order = compare(item - bytes, item), back = compare(item, item - bytes);
        assert_true((order < 0) == (back > 0) && (order > 0) == (back < 0));
    }
    sorts++;
    __real_qsort(items, count, bytes, compare);
}

/* A gap that the first way to pack leaves makes it look for a better one: by size, area and life. */
static void items_are_compared_without_contradiction(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_buffer *kept[8];
    const uint64_t before = sorts;
    for (uint32_t i = 0; i < 8; i++) {
        rota_buffer *large = transient(&f, "large", 1000 + 3000 * i), *small = transient(&f, "small", 700);
        fill(&f, large);
        map(&f, &strict1_write1, large, small, ROTA_WRITE);
        kept[i] = transient(&f, "kept", 500 + 2500 * (uint64_t)(i % 3));
        map(&f, &strict1_write1, small, kept[i], ROTA_WRITE);
    }
    for (uint32_t i = 1; i < 8; i++) map(&f, &strict1_write1, kept[i - 1], kept[i], ROTA_READWRITE);
    rota_plan *plan = compile(&f, &ROTA_COMPILE_OPTIONS(.packing = ROTA_PACK_TIGHT));
    assert_true(sorts >= before + 3);
    finish(&f, plan);
}

static void packing_reuses_memory_in_place_and_not(void **state) {
    (void)state;
    const rota_packing packings[] = {ROTA_PACK_TIGHT, ROTA_PACK_CONCURRENT};
    for (int i = 0; i < 2; i++) {
        rota_compile_options options = ROTA_COMPILE_OPTIONS(.packing = packings[i]);
        rota_plan_stats stats = ROTA_PLAN_STATS();
        fixture f;
        chain(&f, &read1_write1, 50);
        rota_plan *plan = compile(&f, &options);
        rota_plan_get_stats(plan, &stats);
        assert_int_equal(stats.arena_bytes, 1 << 20);
        assert_int_equal(stats.arena_lower_bound_bytes, 1 << 20);
        finish(&f, plan);
        chain(&f, &strict1_write1, 50);
        plan = compile(&f, &options);
        rota_plan_get_stats(plan, &stats);
        assert_int_equal(stats.arena_bytes, 2 << 20);
        assert_int_equal(stats.arena_lower_bound_bytes, 2 << 20);
        finish(&f, plan);
    }
}

static uint32_t alternate(void *user, rota_node node, uint32_t queue_count) {
    (void)user;
    return node.index % queue_count;
}

enum { SHARED = 300 };
static rota_buffer *shared[SHARED];

/* Half way another graph with the same buffers is compiled, in whose plan they have other places. */
static uint32_t compile_another(void *user, rota_node node, uint32_t queue_count) {
    uint32_t *compiled = user;
    (void)queue_count;
    if (node.index != SHARED || (*compiled)++) return 0;
    fixture f;
    set_up(&f);
    for (uint32_t i = SHARED; i-- > 0;) fill(&f, shared[i]);
    finish(&f, compile(&f, NULL));
    return 0;
}

/* What a buffer remembers of its place in a plan is a guess: each of many is there once, whatever others wrote there
 * meanwhile. */
static void buffers_are_found_without_their_hint(void **state) {
    (void)state;
    fixture f;
    uint32_t compiled = 0;
    set_up(&f);
    for (uint32_t i = 0; i < SHARED; i++) {
        assert_ok(rota_buffer_create("shared", 64, &shared[i]));
        fill(&f, shared[i]);
    }
    for (uint32_t i = 1; i < SHARED; i++) map(&f, &strict1_write1, shared[i - 1], shared[i], ROTA_READWRITE);
    rota_plan *plan = compile(&f, &ROTA_COMPILE_OPTIONS(.queues = 2, .queue_policy = compile_another,
                                                        .queue_policy_user = &compiled));
    assert_true(compiled > 0);
    assert_int_equal(plan->buffer_count, SHARED);
    finish(&f, plan);
    for (uint32_t i = 0; i < SHARED; i++) rota_buffer_release(shared[i]);
}

static void queues_wait_and_the_last_segment_joins_all(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    rota_buffer *a = transient(&f, "a", 64), *b = transient(&f, "b", 64);
    fill(&f, a);                                /* queue 0 */
    fill(&f, b);                                /* queue 1 */
    map(&f, &strict1_write1, b, a, ROTA_WRITE); /* queue 0: waits for queue 1 */
    map(&f, &strict1_write1, a, b, ROTA_WRITE); /* queue 1: waits for queue 0 */
    rota_plan *plan = compile(&f, &ROTA_COMPILE_OPTIONS(.queues = 2, .queue_policy = alternate));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_true(stats.segments >= 4);
    assert_true(stats.queue_waits >= 2);
    /* Every wait names an earlier segment, and all are reached from the final one. */
    bool reached[64] = {false};
    reached[plan->final_segment] = true;
    assert_int_equal(plan->final_segment, plan->segment_count - 1);
    for (uint32_t i = plan->segment_count; i-- > 0;) {
        if (!reached[i]) continue;
        const rota_plan_segment *segment = &plan->segments[i];
        for (uint32_t k = 0; k < segment->wait_count; k++) {
            uint32_t wait = plan->segment_waits[segment->first_wait + k];
            assert_true(wait < i);
            /* Waits are cumulative along a queue. */
            for (uint32_t e = 0; e <= wait; e++)
                if (plan->segments[e].queue == plan->segments[wait].queue) reached[e] = true;
        }
    }
    for (uint32_t i = 0; i < plan->segment_count; i++) assert_true(reached[i]);
    finish(&f, plan);
}

static rota_status drop_second(void *user, rota_rewriter *rewriter) {
    (*(int *)user)++;
    rota_node_view view = ROTA_NODE_VIEW();
    ROTA_TRY(rota_rewriter_view(rewriter, 1, &view));
    if (strcmp(view.name, "strict") != 0 || view.access_count != 2)
        return rota_fail(ROTA_INTERNAL, "unexpected node '%s'", view.name);
    rota_kernel_node replacement =
        ROTA_KERNEL_NODE(.kernel = &read1_write1, .accesses = view.accesses, .access_count = 2);
    ROTA_TRY(rota_rewriter_replace(rewriter, 1, &replacement));
    return rota_rewriter_remove(rewriter, 2);
}

static void rewriting_removes_and_replaces(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    int calls = 0;
    rota_buffer *x = transient(&f, "x", 64), *y = transient(&f, "y", 64);
    fill(&f, x);
    rota_node replaced = map(&f, &strict1_write1, x, y, ROTA_WRITE);
    rota_node removed = fill(&f, x);
    assert_ok(rota_graph_add_rewrite(f.graph, drop_second, &calls));
    rota_plan *plan = compile(&f, NULL);
    assert_int_equal(calls, 1);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.commands, 2);
    char text[256];
    assert_ok(rota_plan_explain(plan, replaced, text, sizeof text, NULL));
    assert_non_null(strstr(text, "'map'"));
    assert_status(rota_plan_explain(plan, removed, text, sizeof text, NULL), ROTA_NOT_FOUND);
    finish(&f, plan);
}

static void dot_is_written_whole_or_not_at_all(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    /* Two independent pairs; TIGHT lets the second take the first one's memory over. */
    rota_buffer *a = transient(&f, "a", 64), *b = transient(&f, "b", 64), *out;
    assert_ok(rota_buffer_create("out", 128, &out));
    fill(&f, a);
    assert_ok(rota_record_copy(f.recorder, out, 0, a, 0, 64, NULL));
    fill(&f, b);
    assert_ok(rota_record_copy(f.recorder, out, 64, b, 0, 64, NULL));
    rota_plan *plan = compile(&f, NULL);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.edges_memory, 1);
    char path[] = "/tmp/rota-dot-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(rota_plan_write_dot(plan, path));
    char text[4096] = {0};
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_true(length > 0);
    assert_non_null(strstr(text, "digraph \"g\""));
    assert_non_null(strstr(text, "RAW"));
    assert_non_null(strstr(text, "memory"));
    remove(path);
    assert_status(rota_plan_write_dot(plan, "/nonexistent/folder/x.dot"), ROTA_SYSTEM);
    assert_non_null(strstr(rota_last_error(), "/nonexistent/folder"));
    assert_status(rota_plan_write_trace(plan, path), ROTA_WRONG_STATE);
    finish(&f, plan);
    rota_buffer_release(out);
}

static const rota_kernel half = {.name = "half", .operand_count = 1};

/* Two halves that have nothing to do with one another. */
static uint32_t in_halves(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                          uint32_t slot_mask, const rota_cuda_target *target,
                          rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)kind, (void)params, (void)operand_bytes, (void)slot_mask, (void)target;
    for (uint32_t i = 0; i < 2; i++) {
        out_parts[i] = (rota_kernel_part){.kernel = &half, .operand_count = 1};
        out_parts[i].operand[0] = (uint8_t)i;
        out_parts[i].mode[0] = ROTA_WRITE;
    }
    return 2;
}

/* rota_node_after is about whole nodes: all parts of the one come after all of the other. */
static void after_is_about_all_parts(void **state) {
    (void)state;
    static const rota_kernel halves = {.name = "halves", .operand_count = 2, .parts = in_halves};
    fixture f;
    set_up(&f);
    rota_node nodes[2];
    for (uint32_t i = 0; i < 2; i++) {
        rota_access accesses[] = {{transient(&f, "a", 64), 0, ROTA_WHOLE, ROTA_WRITE},
                                  {transient(&f, "b", 64), 0, ROTA_WHOLE, ROTA_WRITE}};
        assert_ok(rota_record_kernel(
            f.recorder, &ROTA_KERNEL_NODE(.kernel = &halves, .accesses = accesses, .access_count = 2),
            &nodes[i]));
    }
    assert_ok(rota_node_after(f.recorder, nodes[1], nodes[0]));
    rota_plan *plan = compile(&f, &ROTA_COMPILE_OPTIONS(.packing = ROTA_PACK_CONCURRENT));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.commands, 4);
    assert_int_equal(stats.edges_after, 4);
    assert_int_equal(stats.edges, 4);
    assert_int_equal(stats.batches, 2);
    finish(&f, plan);
}

/* k readers of one range and many partial writers after them must not give k edges each. */
static void edges_stay_linear(void **state) {
    (void)state;
    enum { N = 2000 };
    fixture f;
    set_up(&f);
    rota_buffer *big;
    assert_ok(rota_buffer_create("big", N * 64, &big));
    fill(&f, big);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) map(&f, &strict1_write1, big, transient(&f, "t", N * 64), ROTA_WRITE);
        for (uint64_t i = 0; i < N; i++) assert_ok(rota_record_fill(f.recorder, big, i * 64, 64, 1, NULL));
    }
    rota_plan *plan = compile(&f, &ROTA_COMPILE_OPTIONS(.packing = ROTA_PACK_CONCURRENT));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_true(stats.edges + stats.edges_dropped < 20u * N);
    finish(&f, plan);
    rota_buffer_release(big);
}

/* What reads a whole buffer waits for the last of a chain that wrote its pieces, in whatever order it did. */
static void the_last_of_many_implies_the_others(void **state) {
    (void)state;
    enum { N = 41 };
    for (uint64_t step = 1; step < N; step += 13) { /* N is prime: each piece once */
        for (uint32_t turned = 0; turned < 2; turned++) {
            fixture f;
            set_up(&f);
            rota_buffer *p, *q;
            assert_ok(rota_buffer_create("p", N * 64, &p));
            assert_ok(rota_buffer_create("q", 64, &q));
            for (uint64_t i = 0; i < N; i++) {
                const uint64_t piece = turned ? N - 1 - i * step % N : i * step % N;
                const rota_access accesses[] = {{p, piece * 64, 64, ROTA_WRITE},
                                                {q, 0, ROTA_WHOLE, i ? ROTA_READWRITE : ROTA_WRITE}};
                assert_ok(rota_record_kernel(
                    f.recorder,
                    &ROTA_KERNEL_NODE(.kernel = &strict1_write1, .accesses = accesses, .access_count = 2),
                    NULL));
            }
            map(&f, &strict1_write1, p, transient(&f, "t", N * 64), ROTA_WRITE);
            rota_plan *plan = compile(&f, NULL);
            rota_plan_stats stats = ROTA_PLAN_STATS();
            rota_plan_get_stats(plan, &stats);
            assert_int_equal(stats.edges, N);
            assert_int_equal(stats.edges_dropped, N - 1);
            finish(&f, plan);
            rota_buffer_release(p);
            rota_buffer_release(q);
        }
    }
}

/* A node that reads what many others read, and adds to it twice: it is in the list that each of its
 * accumulates comes after, and what joins that list must not have it wait for itself. */
static void nodes_do_not_come_after_themselves(void **state) {
    (void)state;
    enum { READERS = 200 };
    static const rota_kernel adds_twice = {.name = "adds twice",
                                           .operand_count = 3,
                                           .flags =
                                               ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE,
                                           .inplace_outputs = 6,
                                           .inplace_inputs = 7};
    fixture f;
    set_up(&f);
    rota_buffer *x, *between;
    assert_ok(rota_buffer_create("x", 64, &x));
    assert_ok(rota_buffer_create("between", 64, &between));
    fill(&f, x);
    for (uint32_t i = 0; i < READERS; i++) map(&f, &strict1_write1, x, transient(&f, "t", 64), ROTA_WRITE);
    const rota_access accesses[] = {{x, 0, ROTA_WHOLE, ROTA_READ},
                                    {x, 0, ROTA_WHOLE, ROTA_ACCUMULATE},
                                    {x, 0, ROTA_WHOLE, ROTA_ACCUMULATE}};
    fill(&f, between); /* the node before is in no list */
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(rota_record_kernel(
            f.recorder, &ROTA_KERNEL_NODE(.kernel = &adds_twice, .accesses = accesses, .access_count = 3),
            NULL));
    rota_plan *plan = compile(&f, &ROTA_COMPILE_OPTIONS(.packing = ROTA_PACK_CONCURRENT));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    assert_int_equal(stats.nodes, READERS + 4);
    assert_int_equal(stats.batches, 4); /* the fills, who reads, and the two one after the other */
    finish(&f, plan);
    rota_buffer_release(x);
    rota_buffer_release(between);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hazards_of_each_kind_and_implied_ones),
        cmocka_unit_test(independent_nodes_share_a_batch),
        cmocka_unit_test(partial_ranges_depend_only_where_they_meet),
        cmocka_unit_test(undefined_reads_name_node_lane_and_buffer),
        cmocka_unit_test(lanes_merge_by_key_and_keys_differ),
        cmocka_unit_test(items_are_compared_without_contradiction),
        cmocka_unit_test(packing_reuses_memory_in_place_and_not),
        cmocka_unit_test(buffers_are_found_without_their_hint),
        cmocka_unit_test(queues_wait_and_the_last_segment_joins_all),
        cmocka_unit_test(rewriting_removes_and_replaces),
        cmocka_unit_test(dot_is_written_whole_or_not_at_all),
        cmocka_unit_test(edges_stay_linear),
        cmocka_unit_test(the_last_of_many_implies_the_others),
        cmocka_unit_test(after_is_about_all_parts),
        cmocka_unit_test(nodes_do_not_come_after_themselves),
        cmocka_unit_test(ranges_of_many_gigabytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
