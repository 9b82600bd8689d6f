/* S5: hazards. */
#include <math.h>
#include <stdlib.h>
#include "tests/conformance/conformance.h"
#include "tests/kernels/kernels.h"

enum { WIDE = 65536 };

static bool equal_all(conf *c, const rota_tensor *tensor, const char *what, float want) {
    uint64_t count = rota_tensor_count(tensor);
    float *got = malloc(count * sizeof *got);
    CONF_CHECK(c, got, "out of memory");
    CONF_TRY(conf_read_f32(c, tensor, got));
    for (uint64_t i = 0; i < count; i++)
        CONF_CHECK(c, got[i] == want, "%s: element %llu is %g, expected %g", what, (unsigned long long)i,
                   (double)got[i], (double)want);
    free(got);
    return true;
}

static bool equal_list(conf *c, const rota_tensor *tensor, const char *what, const float *want) {
    float got[64];
    CONF_TRY(conf_read_f32(c, tensor, got));
    for (uint64_t i = 0; i < rota_tensor_count(tensor); i++)
        CONF_CHECK(c, got[i] == want[i], "%s: element %llu is %g, expected %g", what, (unsigned long long)i,
                   (double)got[i], (double)want[i]);
    return true;
}

/* s = a + b; t = 2s; r = t - a, tiny and wide. */
static bool raw_chain(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor a, b, r, wa, wb, wr, s, t;
    CONF_TRY(conf_tensor(c, runtime, device, "a", ROTA_SHAPE(4), 1, 1, &a));
    CONF_TRY(conf_tensor(c, runtime, device, "b", ROTA_SHAPE(4), 5, 1, &b));
    CONF_TRY(conf_tensor(c, runtime, device, "r", ROTA_SHAPE(4), -999, 0, &r));
    CONF_TRY(conf_tensor(c, runtime, device, "wide a", ROTA_SHAPE(WIDE), 1, 0, &wa));
    CONF_TRY(conf_tensor(c, runtime, device, "wide b", ROTA_SHAPE(WIDE), 5, 0, &wb));
    CONF_TRY(conf_tensor(c, runtime, device, "wide r", ROTA_SHAPE(WIDE), NAN, 0, &wr));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    for (uint32_t wide = 0; wide < 2; wide++) {
        CONF_OK(c, rota_op_add(graph.tape, wide ? wa : a, wide ? wb : b, &s));
        CONF_OK(c, rota_op_scale(graph.tape, s, ROTA_PLAIN(2), &t));
        CONF_OK(c, rota_op_sub_into(graph.tape, t, wide ? wa : a, wide ? wr : r));
    }
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    uint32_t times = conf_times(c, 1000, 20);
    for (uint32_t i = 0; i < times; i++) {
        CONF_TRY(conf_replay(c, plan, NULL, i == 0 ? 1 : 3));
        CONF_TRY(equal_list(c, &r, "r", (const float[]){11, 14, 17, 20}));
        CONF_TRY(equal_all(c, &wr, "wide r", 11));
    }
    return CONF_END(c, runtime, plan, a, b, r, wa, wb, wr);
}

/* s = 3a, then a += 10. */
static bool war(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor a, s, wa, ws;
    CONF_TRY(conf_tensor(c, runtime, device, "a", ROTA_SHAPE(8), 1, 1, &a));
    CONF_TRY(conf_tensor(c, runtime, device, "s", ROTA_SHAPE(8), -999, 0, &s));
    CONF_TRY(conf_tensor(c, runtime, device, "wide a", ROTA_SHAPE(WIDE), 2, 0, &wa));
    CONF_TRY(conf_tensor(c, runtime, device, "wide s", ROTA_SHAPE(WIDE), NAN, 0, &ws));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_scale_into(graph.tape, a, ROTA_PLAIN(3), s));
    CONF_OK(c, rota_op_affine_into(graph.tape, a, ROTA_PLAIN(1), ROTA_PLAIN(10), a));
    CONF_OK(c, rota_op_scale_into(graph.tape, wa, ROTA_PLAIN(3), ws));
    CONF_OK(c, rota_op_affine_into(graph.tape, wa, ROTA_PLAIN(1), ROTA_PLAIN(10), wa));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    float *twos = malloc(WIDE * sizeof *twos);
    CONF_CHECK(c, twos, "out of memory");
    for (uint32_t i = 0; i < WIDE; i++) twos[i] = 2;
    uint32_t times = conf_times(c, 1000, 20);
    for (uint32_t i = 0; i < times; i++) {
        CONF_TRY(conf_write_f32(c, &a, device, (const float[]){1, 2, 3, 4, 5, 6, 7, 8}));
        CONF_TRY(conf_write_f32(c, &wa, device, twos));
        CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, NULL));
        CONF_TRY(equal_list(c, &s, "s", (const float[]){3, 6, 9, 12, 15, 18, 21, 24}));
        CONF_TRY(equal_list(c, &a, "a", (const float[]){11, 12, 13, 14, 15, 16, 17, 18}));
        CONF_TRY(equal_all(c, &ws, "wide s", 6));
        CONF_TRY(equal_all(c, &wa, "wide a", 12));
    }
    free(twos);
    return CONF_END(c, runtime, plan, a, s, wa, ws);
}

static bool waw(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor x, y;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(WIDE), NAN, 0, &x));
    CONF_TRY(conf_tensor(c, runtime, device, "y", ROTA_SHAPE(WIDE), NAN, 0, &y));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_fill_into(graph.tape, x, 1));
    CONF_OK(c, rota_op_fill_into(graph.tape, x, 2));
    CONF_OK(c, rota_record_copy(graph.recorder, y.buffer, 0, x.buffer, 0, WIDE * 4, NULL));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    uint32_t times = conf_times(c, 1000, 20);
    for (uint32_t i = 0; i < times; i++) {
        CONF_TRY(conf_replay(c, plan, NULL, i == 0 ? 1 : 2));
        CONF_TRY(equal_all(c, &y, "y", 2));
    }
    return CONF_END(c, runtime, plan, x, y);
}

/* fill(g, 0), then g[idx] += 1, every idx 0. */
static bool index_add(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor zeros, index, g;
    CONF_TRY(conf_tensor(c, runtime, device, "index", ROTA_SHAPE(WIDE), 0, 0, &zeros));
    CONF_OK(c, rota_tensor_of(zeros.buffer, 0, ROTA_I32, ROTA_SHAPE(WIDE), &index));
    rota_buffer *buffer = NULL;
    CONF_OK(c, rota_buffer_create_in(runtime, "g", 1024 * 4, &buffer));
    CONF_OK(c, rota_tensor_of(buffer, 0, ROTA_I32, ROTA_SHAPE(1024), &g));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_fill_into(graph.tape, g, 0));
    CONF_OK(c, rota_op_index_add(graph.tape, index, 1, g));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    uint32_t times = conf_times(c, 1000, 10);
    for (uint32_t i = 0; i < times; i++) {
        int32_t got[1024];
        CONF_TRY(conf_replay(c, plan, NULL, i == 0 ? 1 : 2));
        CONF_OK(c, rota_buffer_read(buffer, 0, got, sizeof got));
        CONF_CHECK(c, got[0] == WIDE, "g[0] is %d, expected %d", got[0], WIDE);
        for (uint32_t k = 1; k < 1024; k++) CONF_CHECK(c, got[k] == 0, "g[%u] is %d, expected 0", k, got[k]);
    }
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    rota_buffer_release(zeros.buffer);
    return conf_close(c, runtime);
}

/* A kernel that writes two buffers; the next node reads only the first. */
static bool two_outputs(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_buffer *a, *b, *d, *y;
    rota_buffer **all[] = {&a, &b, &d, &y};
    uint32_t *host = malloc(WIDE * sizeof *host);
    CONF_CHECK(c, host, "out of memory");
    for (uint32_t i = 0; i < 4; i++) {
        CONF_OK(c, rota_buffer_create_in(runtime, "two outputs", WIDE * 4, all[i]));
        for (uint32_t k = 0; k < WIDE; k++) host[k] = i == 0 ? k * 7 : 0x7fc00000u;
        CONF_OK(c, rota_buffer_write(*all[i], device, 0, host, WIDE * 4, NULL));
    }
    test_params params = {.n = WIDE, .m = WIDE, .p = 5, .seed = 9};
    rota_param_binding binding = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    rota_access split[] = {
        {a, 0, ROTA_WHOLE, ROTA_READ}, {b, 0, ROTA_WHOLE, ROTA_WRITE}, {d, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_access map[] = {{b, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_split].kernel, .accesses = split,
                         .access_count = 3, .params = &params, .bindings = &binding, .binding_count = 1);
    CONF_OK(c, rota_record_kernel(graph.recorder, &node, NULL));
    node.kernel = &test_kernels[TEST_KERNEL_map].kernel;
    node.accesses = map;
    node.access_count = 2;
    CONF_OK(c, rota_record_kernel(graph.recorder, &node, NULL));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    uint32_t times = conf_times(c, 1000, 20);
    for (uint32_t round = 0; round < times; round++) {
        CONF_TRY(conf_replay(c, plan, NULL, 1));
        CONF_OK(c, rota_buffer_read(y, 0, host, WIDE * 4));
        for (uint32_t k = 0; k < WIDE; k++)
            CONF_CHECK(c, host[k] == test_mix(test_mix(k * 7, 1 + 5) + 5, k + 9), "element %u is wrong", k);
    }
    free(host);
    rota_plan_release(plan);
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(*all[i]);
    return conf_close(c, runtime);
}

/* ---- Backward passes whose inputs an earlier submission wrote ---- */

typedef enum backward_kind { BACKWARD_ATTENTION, BACKWARD_LAYERNORM } backward_kind;
enum { BACKWARD_ELEMENTS = 2 * 4 * 32 * 16 };

static bool run_backward(conf *c, rota_device *device, backward_kind kind, float *out_gradients) {
    rota_runtime *runtime = rota_device_runtime(device);
    rota_tensor source[3], in[3], gradient[3], out, loss;
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t attention[] = {2, 4, 32, 16}, rows[] = {256, 16}, row[] = {16};
        const uint64_t *shape = kind == BACKWARD_ATTENTION ? attention : i ? row : rows;
        uint32_t rank = kind == BACKWARD_ATTENTION ? 4 : i ? 1 : 2;
        CONF_TRY(conf_tensor(c, runtime, device, "source", rank, shape, -0.8 + 0.2 * i,
                             (kind == BACKWARD_LAYERNORM ? 1.3e-2 : 3.7e-4) * (i + 1), &source[i]));
        CONF_TRY(conf_tensor(c, runtime, device, "in", rank, shape, NAN, 0, &in[i]));
        CONF_TRY(conf_tensor(c, runtime, device, "gradient", rank, shape, NAN, 0, &gradient[i]));
    }
    conf_graph writer, graph;
    rota_plan *write_plan, *plan;
    CONF_TRY(conf_graph_begin(c, &writer));
    for (uint32_t i = 0; i < 3; i++) {
        rota_tensor wave;
        CONF_OK(c, rota_op_silu(writer.tape, source[i], &wave));
        CONF_OK(c, rota_op_affine_into(writer.tape, wave, ROTA_PLAIN(2), ROTA_PLAIN(0.05), in[i]));
    }
    CONF_TRY(conf_graph_end(c, &writer, device, NULL, &write_plan));
    CONF_TRY(conf_graph_begin(c, &graph));
    if (kind == BACKWARD_ATTENTION)
        CONF_OK(c, rota_op_attention(graph.tape, in[0], in[1], in[2], true, 0, &out));
    else
        CONF_OK(c, rota_op_layernorm(graph.tape, in[0], in[1], in[2], 1e-5f, &out));
    CONF_OK(c, rota_op_sum_squares(graph.tape, out, &loss));
    CONF_OK(c, rota_backward(graph.tape, loss, in, 3, gradient, NULL));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    CONF_OK(c, rota_submit_wait(write_plan, NULL, CONF_PATIENCE_NS, NULL));
    CONF_TRY(conf_replay(c, plan, NULL, 2));
    for (uint32_t i = 0; i < 3; i++) {
        CONF_TRY(conf_read_f32(c, &gradient[i], out_gradients));
        out_gradients += rota_tensor_count(&gradient[i]);
        rota_buffer_release(source[i].buffer);
        rota_buffer_release(in[i].buffer);
        rota_buffer_release(gradient[i].buffer);
    }
    rota_plan_release(write_plan);
    rota_plan_release(plan);
    return true;
}

static bool backward(conf *c, backward_kind kind) {
    rota_runtime *runtime;
    rota_device *device, *cpu;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    CONF_OK(c, rota_device_open(runtime, "cpu", &cpu));
    uint32_t total = kind == BACKWARD_ATTENTION ? 3 * BACKWARD_ELEMENTS : BACKWARD_ELEMENTS + 32;
    float *got = malloc(total * sizeof *got), *want = malloc(total * sizeof *want);
    CONF_CHECK(c, got && want, "out of memory");
    CONF_TRY(run_backward(c, cpu, kind, want));
    uint32_t times = conf_times(c, 1000, 5);
    for (uint32_t i = 0; i < times; i++) {
        CONF_TRY(run_backward(c, device, kind, got));
        for (uint32_t k = 0; k < total; k++)
            CONF_CHECK(c, isfinite(got[k]), "gradient element %u is not finite", k);
        CONF_TRY(conf_near(c, "gradients", got, want, total, kind == BACKWARD_ATTENTION ? 1e-3 : 1e-4,
                           kind == BACKWARD_ATTENTION ? 1e-3 : 1e-4));
    }
    free(got);
    free(want);
    return conf_close(c, runtime);
}

static bool attention_backward(conf *c) {
    return backward(c, BACKWARD_ATTENTION);
}

static bool layernorm_backward(conf *c) {
    return backward(c, BACKWARD_LAYERNORM);
}

/* ---- Optimizer ---- */

static rota_adamw adamw_options(rota_value step) {
    return ROTA_ADAMW(.lr = ROTA_CONSTANT(0.1), .step = step, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f);
}

static bool adamw_twice(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor p, g, m, v, first;
    CONF_TRY(conf_tensor(c, runtime, device, "p", ROTA_SHAPE(WIDE), 1, 0, &p));
    CONF_TRY(conf_tensor(c, runtime, device, "g", ROTA_SHAPE(WIDE), 0.5, 0, &g));
    CONF_TRY(conf_tensor(c, runtime, device, "m", ROTA_SHAPE(WIDE), 0, 0, &m));
    CONF_TRY(conf_tensor(c, runtime, device, "v", ROTA_SHAPE(WIDE), 0, 0, &v));
    CONF_TRY(conf_tensor(c, runtime, device, "p after one", ROTA_SHAPE(WIDE), NAN, 0, &first));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_fill_into(graph.tape, p, 1));
    CONF_OK(c, rota_op_fill_into(graph.tape, m, 0));
    CONF_OK(c, rota_op_fill_into(graph.tape, v, 0));
    rota_adamw one = adamw_options(ROTA_CONSTANT(1)), two = adamw_options(ROTA_CONSTANT(2));
    CONF_OK(c, rota_op_adamw(graph.tape, p, g, m, v, &one));
    CONF_OK(c, rota_op_copy_into(graph.tape, p, first));
    CONF_OK(c, rota_op_adamw(graph.tape, p, g, m, v, &two));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    float *got = malloc(WIDE * sizeof *got), *want = malloc(WIDE * sizeof *want);
    CONF_CHECK(c, got && want, "out of memory");
    static const float values[] = {0.9f, 0.8f, 0.095f, 4.9975e-4f};
    const rota_tensor *tensors[] = {&first, &p, &m, &v};
    uint32_t times = conf_times(c, 1000, 10);
    for (uint32_t i = 0; i < times; i++) {
        CONF_TRY(conf_replay(c, plan, NULL, i == 0 ? 1 : 2));
        for (uint32_t t = 0; t < 4; t++) {
            for (uint32_t k = 0; k < WIDE; k++) want[k] = values[t];
            CONF_TRY(conf_read_f32(c, tensors[t], got));
            CONF_TRY(conf_near(c, "AdamW", got, want, WIDE, t == 3 ? 1e-8 : 1e-6, 1e-6));
        }
    }
    free(got);
    free(want);
    return CONF_END(c, runtime, plan, p, g, m, v, first);
}

/* A cached cast of a parameter, AdamW on it, then a product: it uses the new values. */
static bool cached_cast(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    enum { N = 64 };
    rota_tensor p, g, m, v, x, y1, y2, half, half_x;
    CONF_TRY(conf_tensor(c, runtime, device, "p", ROTA_SHAPE(N, N), 1, 0, &p));
    CONF_TRY(conf_tensor(c, runtime, device, "g", ROTA_SHAPE(N, N), 0.5, 0, &g));
    CONF_TRY(conf_tensor(c, runtime, device, "m", ROTA_SHAPE(N, N), 0, 0, &m));
    CONF_TRY(conf_tensor(c, runtime, device, "v", ROTA_SHAPE(N, N), 0, 0, &v));
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(N, N), 0.25, 0, &x));
    CONF_TRY(conf_tensor(c, runtime, device, "y1", ROTA_SHAPE(N, N), NAN, 0, &y1));
    CONF_TRY(conf_tensor(c, runtime, device, "y2", ROTA_SHAPE(N, N), NAN, 0, &y2));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_fill_into(graph.tape, p, 1));
    CONF_OK(c, rota_op_fill_into(graph.tape, m, 0));
    CONF_OK(c, rota_op_fill_into(graph.tape, v, 0));
    CONF_OK(c, rota_op_cast(graph.tape, x, ROTA_BF16, &half_x));
    CONF_OK(c, rota_op_cast(graph.tape, p, ROTA_BF16, &half));
    CONF_OK(c, rota_op_matmul_into(graph.tape, half_x, half, false, false, y1));
    rota_adamw one = adamw_options(ROTA_CONSTANT(1));
    CONF_OK(c, rota_op_adamw(graph.tape, p, g, m, v, &one));
    CONF_OK(c, rota_op_cast_into(graph.tape, p, half));
    CONF_OK(c, rota_op_matmul_into(graph.tape, half_x, half, false, false, y2));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    float got[N * N], want[N * N];
    uint32_t times = conf_times(c, 1000, 10);
    for (uint32_t i = 0; i < times; i++) {
        CONF_TRY(conf_replay(c, plan, NULL, i == 0 ? 1 : 2));
        for (uint32_t k = 0; k < N * N; k++) want[k] = 16;
        CONF_TRY(conf_read_f32(c, &y1, got));
        CONF_TRY(conf_near(c, "the product before AdamW", got, want, N * N, 0, 5e-3));
        for (uint32_t k = 0; k < N * N; k++) want[k] = 16 * 0.9f;
        CONF_TRY(conf_read_f32(c, &y2, got));
        CONF_TRY(conf_near(c, "the product after AdamW", got, want, N * N, 0, 5e-3));
    }
    return CONF_END(c, runtime, plan, p, g, m, v, x, y1, y2);
}

/* ---- Replays ---- */

/* w <- 0.99 w, 512 times, with allocations coming and going between. */
static bool decay(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor w;
    CONF_TRY(conf_tensor(c, runtime, device, "w", ROTA_SHAPE(WIDE), 1, 0, &w));
    conf_graph graph;
    rota_plan *plan;
    uint64_t before, after;
    CONF_OK(c, rota_buffer_address(w.buffer, device, &before));
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_scale_into(graph.tape, w, ROTA_PLAIN(0.99), w));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    rota_ticket ticket = {0};
    for (uint32_t i = 0; i < 512; i++) {
        rota_tensor churn;
        CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, &ticket));
        CONF_TRY(conf_tensor(c, runtime, device, "churn", ROTA_SHAPE(64 + 97 * (i % 7)), 3, 0, &churn));
        rota_buffer_release(churn.buffer);
    }
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    float *got = malloc(WIDE * sizeof *got);
    CONF_CHECK(c, got, "out of memory");
    CONF_TRY(conf_read_f32(c, &w, got));
    for (uint32_t i = 0; i < WIDE; i++)
        CONF_CHECK(c, fabs((double)got[i] - 0.005824) <= 1e-6, "element %u is %.9g", i, (double)got[i]);
    CONF_OK(c, rota_buffer_address(w.buffer, device, &after));
    CONF_CHECK(c, before == after, "the address changed");
    free(got);
    return CONF_END(c, runtime, plan, w);
}

/* out = k x with k an argument, 1 to 512, no wait between. */
static bool argument(conf *c) {
    enum { COUNT = 1024, TIMES = 512 };
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor x, out;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(COUNT), 1, 1, &x));
    conf_graph graph;
    rota_plan *plan;
    rota_slot slot;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_graph_slot(graph.graph, "k", 4, &slot));
    CONF_OK(c, rota_tape_tensor(graph.tape, ROTA_BUFFER_OUTPUT, "out", ROTA_F32, ROTA_SHAPE(COUNT), &out));
    CONF_OK(c, rota_op_scale_into(graph.tape, x, ROTA_SLOT(slot), out));
    rota_buffer *output = out.buffer;
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    rota_args *args;
    CONF_OK(c, rota_args_create(plan, &args));
    float *got = malloc((size_t)TIMES * COUNT * sizeof *got);
    CONF_CHECK(c, got, "out of memory");
    rota_ticket ticket = {0};
    for (uint32_t k = 1; k <= TIMES; k++) {
        CONF_OK(c, rota_args_set_f32(args, slot, (float)k));
        CONF_OK(c, rota_args_set_output(args, output, got + (k - 1) * COUNT, COUNT * 4));
        CONF_OK(c, rota_submit_wait(plan, args, CONF_PATIENCE_NS, &ticket));
    }
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    for (uint32_t k = 1; k <= TIMES; k++)
        for (uint32_t i = 0; i < COUNT; i++)
            CONF_CHECK(c, got[(k - 1) * COUNT + i] == (float)(k * (i + 1)), "replay %u, element %u is %g", k,
                       i, (double)got[(k - 1) * COUNT + i]);
    free(got);
    rota_args_release(args);
    return CONF_END(c, runtime, plan, x);
}

/* The last reference to x goes while a long chain that ends in reading it runs; its memory is not given away.
 */
static bool dropped_reference(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    uint32_t times = conf_times(c, 1000, 8);
    for (uint32_t round = 0; round < times; round++) {
        rota_tensor x, y, z, fresh;
        CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(WIDE), 5, 0, &x));
        CONF_TRY(conf_tensor(c, runtime, device, "y", ROTA_SHAPE(WIDE), NAN, 0, &y));
        CONF_TRY(conf_tensor(c, runtime, device, "z", ROTA_SHAPE(WIDE), 0, 0, &z));
        conf_graph graph;
        rota_plan *plan;
        CONF_TRY(conf_graph_begin(c, &graph));
        for (uint32_t i = 0; i < 100; i++)
            CONF_OK(c, rota_op_affine_into(graph.tape, z, ROTA_PLAIN(1), ROTA_PLAIN(1), z));
        CONF_OK(c, rota_op_add_into(graph.tape, x, z, y));
        CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
        CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, NULL));
        rota_plan_release(plan);
        rota_buffer_release(x.buffer);
        CONF_TRY(conf_tensor(c, runtime, device, "fresh", ROTA_SHAPE(WIDE), 7, 0, &fresh));
        CONF_TRY(equal_all(c, &y, "what read x", 105));
        CONF_TRY(equal_all(c, &fresh, "the new buffer", 7));
        rota_buffer_release(y.buffer);
        rota_buffer_release(z.buffer);
        rota_buffer_release(fresh.buffer);
    }
    return conf_close(c, runtime);
}

/* Writes to [0,100) and [50,150), reads of [0,50), [25,75), [100,150); each unit is 1024 elements. */
static bool partial_overlaps(conf *c) {
    enum { UNIT = 1024 };
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor x, low, middle, high, w1, w2, r1, r2, r3;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(150 * UNIT), -999, 0, &x));
    CONF_TRY(conf_tensor(c, runtime, device, "low", ROTA_SHAPE(50 * UNIT), NAN, 0, &low));
    CONF_TRY(conf_tensor(c, runtime, device, "middle", ROTA_SHAPE(50 * UNIT), NAN, 0, &middle));
    CONF_TRY(conf_tensor(c, runtime, device, "high", ROTA_SHAPE(50 * UNIT), NAN, 0, &high));
    CONF_OK(c, rota_tensor_slice(&x, 0, 0, 100 * UNIT, &w1));
    CONF_OK(c, rota_tensor_slice(&x, 0, 50 * UNIT, 100 * UNIT, &w2));
    CONF_OK(c, rota_tensor_slice(&x, 0, 0, 50 * UNIT, &r1));
    CONF_OK(c, rota_tensor_slice(&x, 0, 25 * UNIT, 50 * UNIT, &r2));
    CONF_OK(c, rota_tensor_slice(&x, 0, 100 * UNIT, 50 * UNIT, &r3));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_fill_into(graph.tape, w1, 1));
    CONF_OK(c, rota_op_fill_into(graph.tape, w2, 2));
    CONF_OK(c, rota_op_scale_into(graph.tape, r1, ROTA_PLAIN(10), low));
    CONF_OK(c, rota_op_scale_into(graph.tape, r2, ROTA_PLAIN(10), middle));
    CONF_OK(c, rota_op_scale_into(graph.tape, r3, ROTA_PLAIN(10), high));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    float *got = malloc(50 * UNIT * sizeof *got);
    CONF_CHECK(c, got, "out of memory");
    uint32_t times = conf_times(c, 1000, 20);
    for (uint32_t i = 0; i < times; i++) {
        CONF_TRY(conf_replay(c, plan, NULL, i == 0 ? 1 : 3));
        CONF_TRY(equal_all(c, &low, "[0,50)", 10));
        CONF_TRY(equal_all(c, &high, "[100,150)", 20));
        CONF_TRY(conf_read_f32(c, &middle, got));
        for (uint32_t k = 0; k < 50 * UNIT; k++)
            CONF_CHECK(c, got[k] == (k < 25 * UNIT ? 10.0f : 20.0f), "[25,75): element %u is %g", k,
                       (double)got[k]);
    }
    free(got);
    return CONF_END(c, runtime, plan, x, low, middle, high);
}

const conf_case conf_cases_s5[] = {
    {"s5.raw_chain", raw_chain},
    {"s5.war", war},
    {"s5.waw", waw},
    {"s5.index_add", index_add},
    {"s5.two_outputs", two_outputs},
    {"s5.attention_backward", attention_backward},
    {"s5.layernorm_backward", layernorm_backward},
    {"s5.adamw_twice", adamw_twice},
    {"s5.decay", decay},
    {"s5.argument", argument},
    {"s5.dropped_reference", dropped_reference},
    {"s5.cached_cast", cached_cast},
    {"s5.partial_overlaps", partial_overlaps},
    {"s5.decides", conf_decides},
    {"s5.counted", conf_counted},
    {"s5.lengths", conf_lengths},
    {NULL, NULL},
};
