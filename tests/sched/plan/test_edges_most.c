/* As many edges as can be numbered: one more is refused, with the numbers. edges.c is built into this program
 * with a limit of 64 (tests/parts.cmake). */
#include <stdio.h>
#include <string.h>
#include "rota.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/support.h"

enum { MOST = 64 };

/* A chain: an edge between each two. */
static rota_status compile_chain(uint32_t nodes) {
    rota_runtime *runtime;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *x;
    rota_plan *plan = NULL;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_buffer_create_in(runtime, "x", 256, &x));
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "chain"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < nodes; i++) {
        const rota_access access = {x, 0, ROTA_WHOLE, i ? ROTA_READWRITE : ROTA_WRITE};
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &test_increment, .accesses = &access, .access_count = 1),
            NULL));
    }
    rota_recorder_close(recorder);
    const rota_status status = rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.queues = 1), &plan);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(x);
    char said[512];
    (void)snprintf(said, sizeof said, "%s", rota_last_error());
    assert_ok(rota_runtime_close(runtime, 5000000000u));
    if (status != ROTA_OK) {
        assert_non_null(strstr(said, "64 edges up to"));
        assert_non_null(strstr(said, "and 1 more; at most 64"));
    }
    return status;
}

static void one_more_is_refused(void **state) {
    (void)state;
    assert_ok(compile_chain(MOST + 1));
    assert_status(compile_chain(MOST + 2), ROTA_OUT_OF_RANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_more_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
