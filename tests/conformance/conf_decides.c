/* Nodes that decide, which every executor runs. */
#include <math.h>
#include "graph/conditional.h"
#include "tests/conformance/conformance.h"

enum { WIDE = 65536, TIMES = 5 };

typedef struct deciding {
    rota_tensor x, wide, r;
    rota_buffer *counts; /* words: iterations, whether more than one op is in each, an iteration's number */
} deciding;

/* x = 2x - 1, out of a transient of the body's own; and in a body within it, where counts[1] says so, x = x + 10. */
static bool record_body(conf *c, rota_graph *graph, const deciding *d, rota_graph **out_body) {
    rota_recorder *lane, *inner_lane;
    rota_tape *tape, *inner_tape;
    rota_graph *inner;
    CONF_OK(c, rota_graph_create_body(graph, "body", out_body));
    CONF_OK(c, rota_recorder_open(*out_body, 0, NULL, &lane));
    CONF_OK(c, rota_tape_create(lane, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    for (uint32_t wide = 0; wide < 2; wide++) {
        const rota_tensor x = wide ? d->wide : d->x;
        rota_tensor twice;
        CONF_OK(c, rota_op_scale(tape, x, ROTA_PLAIN(2), &twice));
        CONF_OK(c, rota_op_affine_into(tape, twice, ROTA_PLAIN(1), ROTA_PLAIN(-1), x));
    }
    rota_tape_destroy(tape);
    CONF_OK(c, rota_graph_create_body(*out_body, "inner", &inner));
    CONF_OK(c, rota_recorder_open(inner, 0, NULL, &inner_lane));
    CONF_OK(c, rota_tape_create(inner_lane, &ROTA_TAPE_OPTIONS(.no_gradients = true), &inner_tape));
    CONF_OK(c, rota_op_affine_into(inner_tape, d->x, ROTA_PLAIN(1), ROTA_PLAIN(10), d->x));
    rota_tape_destroy(inner_tape);
    rota_recorder_close(inner_lane);
    CONF_OK(c, rota_record_if(
                   lane, &ROTA_IF_NODE(.condition = d->counts, .condition_offset_bytes = 4, .body = inner),
                   NULL));
    rota_recorder_close(lane);
    return true;
}

static bool check(conf *c, const deciding *d, float want_x, float want_wide) {
    float got[4];
    static float wide[WIDE];
    CONF_TRY(conf_read_f32(c, &d->x, got));
    CONF_TRY(conf_near(c, "x", got, (const float[]){want_x, want_x, want_x, want_x}, 4, 0, 0));
    CONF_TRY(conf_read_f32(c, &d->r, got));
    CONF_CHECK(c, got[0] == 3 * want_x, "r is %g, expected %g", (double)got[0], 3 * (double)want_x);
    CONF_TRY(conf_read_f32(c, &d->wide, wide));
    for (uint32_t i = 0; i < WIDE; i++)
        CONF_CHECK(c, wide[i] == want_wide, "wide: element %u is %g, expected %g", i, (double)wide[i],
                   (double)want_wide);
    return true;
}

bool conf_decides(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    deciding d;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(4), 3, 0, &d.x));
    CONF_TRY(conf_tensor(c, runtime, device, "r", ROTA_SHAPE(4), NAN, 0, &d.r));
    CONF_TRY(conf_tensor(c, runtime, device, "wide", ROTA_SHAPE(WIDE), 3, 0, &d.wide));
    CONF_OK(c, rota_buffer_create_in(runtime, "counts", 12, &d.counts));
    CONF_OK(c, rota_buffer_write(d.counts, device, 0, (const uint32_t[]){0, 0, 0}, 12, NULL));
    rota_plan *plan = NULL;
    for (uint32_t adds = 0; adds < 2; adds++) {
        conf_graph graph;
        rota_graph *body;
        CONF_TRY(conf_graph_begin(c, &graph));
        CONF_TRY(record_body(c, graph.graph, &d, &body));
        CONF_OK(c,
                rota_record_for(graph.recorder,
                                &ROTA_FOR_NODE(.count = d.counts, .index = d.counts, .index_offset_bytes = 8,
                                               .body = body, .iterations_max = TIMES),
                                NULL));
        CONF_OK(c, rota_op_scale_into(graph.tape, d.x, ROTA_PLAIN(3), d.r));
        CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
        float x = 3, wide = 3;
        static float threes[WIDE];
        for (uint32_t i = 0; i < WIDE; i++) threes[i] = 3;
        for (uint32_t count = 0; count <= TIMES; count++) {
            CONF_TRY(conf_write_f32(c, &d.x, device, threes));
            CONF_TRY(conf_write_f32(c, &d.wide, device, threes));
            CONF_OK(c, rota_buffer_write(d.counts, device, 0, (const uint32_t[]){count, adds, 77}, 12, NULL));
            CONF_TRY(conf_replay(c, plan, NULL, 1));
            CONF_TRY(check(c, &d, x, wide));
            wide = 2 * wide - 1;
            x = 2 * x - 1 + (adds ? 10.0f : 0.0f);
        }
        if (adds == 0) rota_plan_release(plan);
    }
    rota_buffer_release(d.counts);
    return CONF_END(c, runtime, plan, d.x, d.r, d.wide);
}
