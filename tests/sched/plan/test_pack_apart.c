/* TIGHT packing leaves memory alone for some operations where the arena has room for that: who takes it then seldom
 * waits for who had it. */
#include "tests/kit/support.h"

#include "rota.h"

enum { WIDE = 8, SIZE = 1024 };

static const rota_kernel reads = {.name = "read", .operand_count = 2};

static void pair(rota_recorder *recorder, rota_buffer *out, uint64_t offset, rota_buffer *x) {
    const rota_access accesses[] = {{x, 0, ROTA_WHOLE, ROTA_READ}, {out, offset, SIZE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &reads, .accesses = accesses, .access_count = 2), NULL));
}

/* Eight buffers at once, which the arena has room for then; later pairs, of which two share memory only after others
 * had it: they run beside each other. */
static void pairs_run_side_by_side(void **state) {
    (void)state;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *out, *at_once[WIDE], *later;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_buffer_create("out", 2 * WIDE * SIZE, &out));
    for (uint32_t i = 0; i < WIDE; i++) {
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "at once", SIZE, &at_once[i]));
        assert_ok(rota_record_fill(recorder, at_once[i], 0, ROTA_WHOLE, 1, NULL));
    }
    for (uint32_t i = 0; i < WIDE; i++) pair(recorder, out, i * SIZE, at_once[i]);
    for (uint32_t i = 0; i < WIDE; i++) {
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "later", SIZE, &later));
        assert_ok(rota_record_fill(recorder, later, 0, ROTA_WHOLE, 2, NULL));
        pair(recorder, out, (WIDE + i) * SIZE, later);
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(NULL, graph, &ROTA_COMPILE_OPTIONS(.certify = true), &plan));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(plan, &stats));
    assert_int_equal(stats.arena_bytes, WIDE * SIZE);
    assert_int_equal(stats.arena_bytes, stats.arena_lower_bound_bytes);
    /* Fills and readers of the first eight, then those of most pairs; one after the other they would be 16. */
    assert_true(stats.batches <= 8);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_run_side_by_side)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
