/* Pictures of plans: what is a section, which edges a collapsed drawing has, and what stands in the files. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "graph/graph.h"
#include "sched/plan.h"
#include "sched/plan/drawing.h"
#include "sched/plan/sections.h"

static const rota_kernel map = {.name = "map <of> \"two\" & all", .operand_count = 2};
static const rota_kernel sum = {.name = "sum",
                                .operand_count = 1,
                                .flags = ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE};
static const rota_kernel look = {.name = "look", .operand_count = 1};

typedef struct fixture {
    rota_graph *graph;
    rota_recorder *recorder;
} fixture;

static void set_up(fixture *f) {
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "g"), &f->graph));
    assert_ok(rota_recorder_open(f->graph, 1, "main", &f->recorder));
}

static rota_plan *compile(fixture *f) {
    rota_plan *plan;
    rota_recorder_close(f->recorder);
    assert_ok(rota_compile(NULL, f->graph, NULL, &plan));
    return plan;
}

static void touch(fixture *f, const rota_kernel *kernel, const char *name, rota_buffer *buffer,
                  rota_access_mode mode) {
    rota_access access = {buffer, 0, ROTA_WHOLE, mode};
    assert_ok(rota_record_kernel(
        f->recorder,
        &ROTA_KERNEL_NODE(.kernel = kernel, .name = name, .accesses = &access, .access_count = 1), NULL));
}

/* The file that a picture of the plan is; freed by the caller. */
static char *drawn(const rota_plan *plan, rota_draw_format format, bool collapse) {
    char path[] = "/tmp/rota-draw-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_ok(rota_plan_draw(plan, &ROTA_DRAW_OPTIONS(.format = format, .collapse = collapse), path));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    enum { MOST = 1 << 20 };
    char *text = calloc(1, MOST);
    assert_non_null(text);
    assert_true(fread(text, 1, MOST - 1, file) > 0);
    (void)fclose(file);
    (void)remove(path);
    return text;
}

static uint32_t count(const char *text, const char *word) {
    uint32_t found = 0;
    for (const char *next = text; (next = strstr(next, word)); next += strlen(word)) found++;
    return found;
}

static void a_name_says_where_it_belongs(void **state) {
    (void)state;
    static const struct {
        const char *name, *section;
    } cases[] = {
        {"layer 3 attention", "layer 3"},
        {"layer 12", "layer 12"},
        {"h.0.attn.bias", "h.0"},
        {"h0.attn", "h0"},
        {"blocks/11/mlp", "blocks/11"},
        {"encoder/norm", "encoder"},
        {"decoder.out.bias", "decoder"},
        {"token embedding", "token embedding"},
        {"a b.c", "a b"},
        {"matmul", "matmul"},
        {"conv2d.weight", "conv2d"},
        {"", ""},
        {".hidden", ".hidden"},
        {"layer 3: attention", "layer 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t length = rota_section_name_bytes(cases[i].name);
        if (length != strlen(cases[i].section) || memcmp(cases[i].name, cases[i].section, length) != 0)
            fail_msg("'%s': '%.*s', expected '%s'", cases[i].name, (int)length, cases[i].name,
                     cases[i].section);
    }
}

/* Two layers of three nodes, and an input whose upload stands in the second. */
static rota_plan *two_layers(fixture *f) {
    rota_buffer *a, *b, *in;
    set_up(f);
    assert_ok(rota_graph_buffer(f->graph, ROTA_BUFFER_TRANSIENT, "a", 64, &a));
    assert_ok(rota_graph_buffer(f->graph, ROTA_BUFFER_TRANSIENT, "b", 64, &b));
    assert_ok(rota_graph_buffer(f->graph, ROTA_BUFFER_INPUT, "in", 64, &in));
    touch(f, &look, "layer 1 in", a, ROTA_WRITE);
    touch(f, &look, "layer 1 <b> & \xff\xEF\xBF\xBE", a, ROTA_READWRITE);
    touch(f, &look, "layer 1 out", a, ROTA_READWRITE);
    rota_access accesses[] = {{a, 0, ROTA_WHOLE, ROTA_READ}, {b, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        f->recorder,
        &ROTA_KERNEL_NODE(.kernel = &map, .name = "layer 2 in", .accesses = accesses, .access_count = 2),
        NULL));
    accesses[0].buffer = in;
    accesses[1].mode = ROTA_READWRITE;
    assert_ok(rota_record_kernel(
        f->recorder,
        &ROTA_KERNEL_NODE(.kernel = &map, .name = "layer 2 more", .accesses = accesses, .access_count = 2),
        NULL));
    touch(f, &look, "layer 2 out", b, ROTA_READWRITE);
    touch(f, &look, "loss", b, ROTA_READWRITE);
    return compile(f);
}

static void sections_stand_together_in_dot(void **state) {
    (void)state;
    fixture f;
    rota_plan *plan = two_layers(&f);
    char *text = drawn(plan, ROTA_DRAW_DOT, false);
    assert_non_null(strstr(text, "digraph \"g\""));
    assert_int_equal(count(text, "subgraph cluster_"), 2);
    assert_non_null(strstr(text, "label=\"layer 1\""));
    assert_non_null(strstr(text, "label=\"layer 2\""));
    /* The kernel below the node's name, where it has one of its own. */
    assert_non_null(strstr(text, "layer 2 in\\nmap <of> \\\"two\\\" & all\\n#"));
    assert_non_null(strstr(text, "style=\"filled,dashed\""));
    assert_non_null(strstr(text, "legend ["));
    assert_non_null(strstr(text, "overwrites what was read"));
    free(text);
    rota_plan_release(plan);
    rota_graph_release(f.graph);
}

static void a_collapsed_section_is_one_node(void **state) {
    (void)state;
    fixture f;
    rota_plan *plan = two_layers(&f);
    char *text = drawn(plan, ROTA_DRAW_DOT, true);
    assert_int_equal(count(text, "subgraph cluster_"), 0);
    assert_int_equal(count(text, "  s"), 4 /* two sections, and edges between them and to the loss */);
    assert_non_null(strstr(text, "layer 1\\n3 operations, #0 to #2"));
    assert_non_null(strstr(text, "layer 2\\n4 operations, #3 to #6"));
    assert_non_null(strstr(text, "  s0 -> s1 [label=\"RAW\""));
    assert_non_null(strstr(text, "  s1 -> n7 [label=\"RAW\""));
    free(text);
    rota_plan_release(plan);
    rota_graph_release(f.graph);
}

static void svg_has_every_node_and_edge(void **state) {
    (void)state;
    fixture f;
    rota_plan *plan = two_layers(&f);
    char *text = drawn(plan, ROTA_DRAW_SVG, false);
    assert_int_equal(count(text, "<g><rect"), 8);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(plan, &stats));
    assert_int_equal(count(text, "</title></path>"), stats.edges);
    /* What XML does not have is not there. */
    assert_non_null(strstr(text, "layer 1 &#60;b&#62; &#38; \xEF\xBF\xBD\xEF\xBF\xBD"));
    assert_null(strchr(text, '\xff'));
    assert_null(strstr(text, "\xEF\xBF\xBE"));
    free(text);
    text = drawn(plan, ROTA_DRAW_SVG, true);
    assert_int_equal(count(text, "<g><rect"), 3);
    assert_int_equal(count(text, "</title></path>"), 2);
    free(text);
    rota_plan_release(plan);
    rota_graph_release(f.graph);
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    fixture f;
    rota_plan *plan = two_layers(&f);
    assert_status(rota_plan_draw(plan, &ROTA_DRAW_OPTIONS(.format = (rota_draw_format)7), "/dev/null"),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_plan_draw(plan, &(rota_draw_options){0}, "/dev/null"), ROTA_INVALID_ARGUMENT);
    assert_status(rota_plan_draw(plan, NULL, "/nonexistent/folder/x.svg"), ROTA_SYSTEM);
    assert_ok(rota_plan_draw(plan, NULL, "/dev/null"));
    rota_plan_release(plan);
    rota_graph_release(f.graph);
}

/* ---- Edges, against what the plan has, one by one ---- */

enum { NODES_MOST = 400, BUFFERS = 3 };

/* Long lists of nodes without order among them, before and after one another: there the compiler puts joins. Sections
 * end in the middle of some, and go on over the ends of others. */
static rota_plan *random_plan(fixture *f, uint64_t *random) {
    static const char *const names[] = {"a 1 x", "a 1 y", "a 2 x", "b.c", "b.d", "c"};
    rota_buffer *buffers[BUFFERS];
    set_up(f);
    for (uint32_t b = 0; b < BUFFERS; b++) assert_ok(rota_buffer_create("x", 64, &buffers[b]));
    for (uint32_t n = 0, name = 0; n < NODES_MOST;) {
        const uint32_t length = test_below(random, 90) + 1;
        const bool adds = test_below(random, 2);
        rota_buffer *buffer = buffers[test_below(random, BUFFERS)];
        for (uint32_t i = 0; i < length && n < NODES_MOST; i++, n++) {
            if (test_below(random, 60) == 0) name = test_below(random, 6);
            touch(f, adds ? &sum : &look, names[name], buffer, adds ? ROTA_ACCUMULATE : ROTA_READ);
        }
    }
    for (uint32_t b = 0; b < BUFFERS; b++) rota_buffer_release(buffers[b]);
    return compile(f);
}

/* Everything that an edge's or join's beginning stands for, as bodies, marked in `to`. */
static void expand(const rota_compile_info *info, const uint32_t *bodies, uint32_t from, bool *to) {
    if (!(from & ROTA_JOIN)) {
        to[bodies ? bodies[from] : from] = true;
        return;
    }
    const rota_join *join = &info->joins[from & ~ROTA_JOIN];
    for (uint32_t i = 0; i < join->count; i++)
        expand(info, bodies, info->join_from[join->first_from + i], to);
}

static void expand_drawn(const rota_drawing *d, uint32_t from, bool *to) {
    if (from < d->body_count) {
        to[from] = true;
        return;
    }
    for (uint64_t e = 0; e < d->edge_count; e++)
        if (d->edges[e].to == from) expand_drawn(d, d->edges[e].from, to);
}

static void expect_the_plans_edges(const rota_plan *plan, bool collapse) {
    static bool wanted[NODES_MOST + 8][NODES_MOST + 8], found[NODES_MOST + 8][NODES_MOST + 8];
    memset(wanted, 0, sizeof wanted);
    memset(found, 0, sizeof found);
    const rota_compile_info *info = rota_plan_info(plan);
    rota_drawing d;
    assert_ok(rota_drawing_make(plan, collapse, &d));
    const uint32_t *bodies = collapse ? d.sections.of_operation : NULL;
    for (uint32_t n = 0; n < info->operation_count; n++)
        for (uint32_t e = info->first_edge[n]; e < info->first_edge[n + 1]; e++)
            expand(info, bodies, info->edge_from[e], wanted[bodies ? bodies[n] : n]);
    bool *complete = calloc(d.vertex_count + 1, 1);
    assert_non_null(complete);
    uint32_t last = ROTA_NONE;
    for (uint64_t e = 0; e < d.edge_count; e++) {
        const uint32_t from = d.edges[e].from, to = d.edges[e].to;
        assert_true(rota_drawing_shows(&d, from) && rota_drawing_shows(&d, to));
        /* Edges into one vertex stand together, behind those into all that it comes after: it is no circle. */
        if (to != last && last != ROTA_NONE) complete[last] = true;
        assert_false(complete[to]);
        last = to;
        for (uint64_t k = e + 1; k < d.edge_count && d.edges[k].to == to; k++)
            assert_int_not_equal(d.edges[k].from, from);
        for (uint64_t k = e + 1; k < d.edge_count; k++) assert_int_not_equal(d.edges[k].to, from);
        if (to < d.body_count) expand_drawn(&d, from, found[to]);
    }
    for (uint32_t to = 0; to < d.body_count; to++)
        for (uint32_t from = 0; from < d.body_count; from++)
            if (from != to && wanted[to][from] != found[to][from])
                fail_msg("%u %s before %u", from, wanted[to][from] ? "is not drawn" : "is drawn", to);
    free(complete);
    rota_drawing_free(&d);
}

static void drawn_edges_are_the_plans(void **state) {
    (void)state;
    uint64_t random = 7, joins = 0;
    for (uint32_t round = 0; round < 24; round++) {
        fixture f;
        rota_plan *plan = random_plan(&f, &random);
        joins += rota_plan_info(plan)->join_count;
        expect_the_plans_edges(plan, false);
        expect_the_plans_edges(plan, true);
        rota_plan_release(plan);
        rota_graph_release(f.graph);
    }
    assert_true(joins > 20);
}

/* Joins whose last section goes on after them: what else they stand for comes before that section, and all of it before
 * the next. The compiler gives the first node behind a list its edges one by one, so that these say nothing new: by
 * hand. */
static void a_join_inside_a_section_is_seen_through(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "b", "b", "c"};
    enum { COUNT = sizeof names / sizeof *names };
    rota_node_record records[COUNT];
    rota_operation operations[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        records[i] = (rota_node_record){.kind = ROTA_NODE_FILL, .name = names[i]};
        operations[i] = (rota_operation){.record = &records[i], .kind = ROTA_OPERATION_NODE};
    }
    uint32_t joined[] = {0, 1, ROTA_JOIN | 0, 2};
    const rota_join joins[] = {{.before = 3, .first_from = 0, .count = 2, .kind = ROTA_EDGE_WAR},
                               {.before = 3, .first_from = 2, .count = 2, .kind = ROTA_EDGE_WAR}};
    uint32_t first_edge[COUNT + 1] = {0, 0, 0, 0, 1, 2}, edge_from[] = {ROTA_JOIN | 1, ROTA_JOIN | 1};
    uint8_t kinds[] = {ROTA_EDGE_WAR, ROTA_EDGE_WAR};
    rota_compile_info info = {.operations = operations,
                              .operation_count = COUNT,
                              .first_edge = first_edge,
                              .edge_from = edge_from,
                              .edge_kind = kinds,
                              .edge_count = 2,
                              .joins = joins,
                              .join_count = 2,
                              .join_from = joined};
    const rota_plan plan = {.name = "by hand", .compile_info = &info};
    expect_the_plans_edges(&plan, false);
    expect_the_plans_edges(&plan, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_says_where_it_belongs),
        cmocka_unit_test(sections_stand_together_in_dot),
        cmocka_unit_test(a_collapsed_section_is_one_node),
        cmocka_unit_test(svg_has_every_node_and_edge),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(a_join_inside_a_section_is_seen_through),
        cmocka_unit_test(drawn_edges_are_the_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
