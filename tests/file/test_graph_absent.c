/* A rota that was built without libcbor says so where a graph file is asked for, and refuses wrong arguments. */
#include "tests/kit/support.h"

#include "rota.h"

static void what_is_missing_is_named(void **state) {
    (void)state;
    rota_graph *graph;
    rota_graph_file *file = (rota_graph_file *)&graph;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_status(rota_graph_save(graph, NULL, "/nowhere/graph.rota"), ROTA_UNSUPPORTED);
    expect_said("'/nowhere/graph.rota' can't be written");
    expect_said("built without libcbor");
    assert_status(rota_graph_load("/nowhere/graph.rota", NULL, &file), ROTA_UNSUPPORTED);
    assert_null(file);
    expect_said("'/nowhere/graph.rota' can't be read");
    expect_said("libcbor-dev");
    rota_graph_release(graph);
}

static void wrong_arguments_are_refused_first(void **state) {
    (void)state;
    rota_graph *graph;
    rota_graph_file *file;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_status(rota_graph_save(NULL, NULL, "f"), ROTA_INVALID_ARGUMENT);
    assert_status(rota_graph_save(graph, NULL, NULL), ROTA_INVALID_ARGUMENT);
    assert_status(rota_graph_save(graph, &(rota_graph_save_options){0}, "f"), ROTA_INVALID_ARGUMENT);
    assert_status(rota_graph_save(graph, &ROTA_GRAPH_SAVE_OPTIONS(.first_count = 1), "f"),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_graph_load(NULL, NULL, &file), ROTA_INVALID_ARGUMENT);
    assert_status(rota_graph_load("f", NULL, NULL), ROTA_INVALID_ARGUMENT);
    assert_status(rota_graph_load("f", &(rota_graph_load_options){0}, &file), ROTA_INVALID_ARGUMENT);
    rota_graph_release(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(wrong_arguments_are_refused_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
