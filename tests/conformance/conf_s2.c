/* S2: threads. Everything at once on one runtime, against plain f32 loops. */
#include <math.h>
#include <stdlib.h>
#include "tests/conformance/conformance.h"

enum { THREADS = 8 };

typedef struct attention_shape {
    uint32_t b, h, q, k, d;
    double tolerance;
} attention_shape;

typedef struct thread_task {
    conf *c;
    rota_runtime *runtime;
    rota_device *device;
    uint32_t index;
} thread_task;

/* ---- References: layout [batch, heads, sequence, dim] ---- */

static void reference_weighted(const attention_shape *s, const float *weight, const float *value,
                               float *out) {
    for (uint32_t bh = 0; bh < s->b * s->h; bh++)
        for (uint32_t q = 0; q < s->q; q++)
            for (uint32_t d = 0; d < s->d; d++) {
                float sum = 0;
                for (uint32_t k = 0; k < s->k; k++)
                    sum += weight[(bh * s->q + q) * s->k + k] * value[(bh * s->k + k) * s->d + d];
                out[(bh * s->q + q) * s->d + d] = sum;
            }
}

static void reference_attention(const attention_shape *s, const float *q, const float *k, const float *v,
                                float *out) {
    float *score = malloc(s->k * sizeof *score);
    if (!score) abort();
    for (uint32_t bh = 0; bh < s->b * s->h; bh++)
        for (uint32_t i = 0; i < s->q; i++) {
            float most = -INFINITY, total = 0;
            for (uint32_t j = 0; j < s->k; j++) {
                score[j] = 0;
                for (uint32_t d = 0; d < s->d; d++)
                    score[j] += q[(bh * s->q + i) * s->d + d] * k[(bh * s->k + j) * s->d + d];
                score[j] /= sqrtf((float)s->d);
                most = fmaxf(most, score[j]);
            }
            for (uint32_t j = 0; j < s->k; j++) total += score[j] = expf(score[j] - most);
            for (uint32_t d = 0; d < s->d; d++) {
                float sum = 0;
                for (uint32_t j = 0; j < s->k; j++) sum += score[j] / total * v[(bh * s->k + j) * s->d + d];
                out[(bh * s->q + i) * s->d + d] = sum;
            }
        }
    free(score);
}

static void ramp(float *values, uint64_t count, double start, double step) {
    for (uint64_t i = 0; i < count; i++) values[i] = (float)(start + step * (double)i);
}

/* ---- One round of each ---- */

typedef enum attention_kind { WEIGHTED, FUSED, ONES, BOTH } attention_kind;

/* Three inputs (or weight and value), one or two outputs prefilled with NaN; once directly, once more as a
 * replay. */
static bool attention_round(const thread_task *task, attention_kind kind, const attention_shape *s) {
    conf *c = task->c;
    uint64_t q_shape[] = {s->b, s->h, s->q, s->d}, k_shape[] = {s->b, s->h, s->k, s->d};
    uint64_t w_shape[] = {s->b, s->h, s->q, s->k};
    uint64_t q_count = (uint64_t)s->b * s->h * s->q * s->d, k_count = (uint64_t)s->b * s->h * s->k * s->d;
    uint64_t w_count = (uint64_t)s->b * s->h * s->q * s->k,
             first_count = kind == WEIGHTED ? w_count : q_count;
    rota_tensor first, key = ROTA_TENSOR_NONE, value, out, other;
    CONF_TRY(conf_tensor(c, task->runtime, task->device, "out", 4, q_shape, NAN, 0, &out));
    CONF_TRY(conf_tensor(c, task->runtime, task->device, "separate out", 4, q_shape, NAN, 0, &other));
    CONF_TRY(conf_tensor(c, task->runtime, task->device, "q", 4, kind == WEIGHTED ? w_shape : q_shape, 0, 0.1,
                         &first));
    CONF_TRY(conf_tensor(c, task->runtime, task->device, "k", 4, k_shape, 1, 0.1, &key));
    CONF_TRY(conf_tensor(c, task->runtime, task->device, "v", 4, k_shape, 2, 0.1, &value));
    float *data = malloc((w_count + q_count + 2 * k_count + 3 * q_count) * sizeof *data);
    CONF_CHECK(c, data, "out of memory");
    float *f = data, *k = f + (w_count > q_count ? w_count : q_count), *v = k + k_count, *want = v + k_count,
          *got = want + q_count;
    ramp(f, first_count, 0, 0.1);
    ramp(k, k_count, 1, 0.1);
    ramp(v, k_count, 2, 0.1);
    if (kind == WEIGHTED) {
        for (uint64_t row = 0; row < w_count / s->k; row++)
            for (uint32_t j = 0; j < s->k; j++)
                f[row * s->k + j] = (float)(j + 1) / ((float)s->k * (float)(s->k + 1) / 2);
        CONF_TRY(conf_write_f32(c, &first, task->device, f));
    }
    if (kind == ONES) {
        ramp(v, k_count, 1, 0);
        CONF_TRY(conf_write_f32(c, &value, task->device, v));
    }
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    if (kind == WEIGHTED)
        CONF_OK(c, rota_op_weighted_matmul_into(graph.tape, first, value, out));
    else
        CONF_OK(c, rota_op_attention_into(graph.tape, first, key, value, false, 0, out));
    if (kind == BOTH) {
        rota_tensor separate;
        CONF_OK(c, rota_op_attention_separate(graph.tape, first, key, value, false, 0, &separate));
        CONF_OK(c, rota_op_copy_into(graph.tape, separate, other));
    }
    CONF_TRY(conf_graph_end(c, &graph, task->device, NULL, &plan));
    if (kind == WEIGHTED)
        reference_weighted(s, f, v, want);
    else if (kind == ONES)
        ramp(want, q_count, 1, 0);
    else
        reference_attention(s, f, k, v, want);
    for (uint32_t round = 0; round < 2; round++) {
        CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, NULL));
        CONF_TRY(conf_read_f32(c, &out, got));
        CONF_TRY(conf_near(c, kind == WEIGHTED ? "weighted_matmul" : "attention", got, want, q_count,
                           s->tolerance, s->tolerance));
    }
    if (kind == BOTH) {
        CONF_TRY(conf_read_f32(c, &other, want));
        CONF_TRY(conf_near(c, "separate attention", want, got, q_count, s->tolerance, s->tolerance));
    }
    free(data);
    rota_plan_release(plan);
    rota_buffer_release(first.buffer);
    rota_buffer_release(key.buffer);
    rota_buffer_release(value.buffer);
    rota_buffer_release(out.buffer);
    rota_buffer_release(other.buffer);
    return true;
}

static bool copy_round(const thread_task *task, uint32_t round) {
    conf *c = task->c;
    rota_buffer *buffer = NULL;
    float up[4], down[4] = {0};
    for (uint32_t i = 0; i < 4; i++) up[i] = (float)(task->index * 1000 + round * 4 + i);
    CONF_OK(c, rota_buffer_create_in(task->runtime, "private", sizeof up, &buffer));
    CONF_OK(c, rota_buffer_write(buffer, task->device, 0, up, sizeof up, NULL));
    CONF_OK(c, rota_buffer_read(buffer, 0, down, sizeof down));
    CONF_CHECK(c, memcmp(up, down, sizeof up) == 0, "thread %u, round %u: a private copy came back changed",
               task->index, round);
    rota_buffer_release(buffer);
    return true;
}

static bool table_thread(void *one) {
    const thread_task *task = one;
    static const attention_shape weighted[] = {
        {1, 2, 4, 4, 8, 1e-4}, {2, 4, 32, 32, 32, 1e-3}, {1, 2, 8, 16, 8, 1e-3}};
    static const attention_shape attention[] = {
        {1, 2, 4, 4, 8, 1e-4}, {1, 2, 16, 16, 16, 2e-3}, {2, 4, 32, 32, 32, 2e-3}};
    static const attention_shape ones = {1, 1, 8, 8, 16, 1e-3}, both = {1, 2, 8, 8, 16, 2e-3};
    uint32_t rounds = conf_times(task->c, 200, 3);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            /* Threads start at different places of the table. */
            uint32_t entry = (i + task->index) % 3;
            CONF_TRY(attention_round(task, WEIGHTED, &weighted[entry]));
            CONF_TRY(attention_round(task, FUSED, &attention[entry]));
        }
        CONF_TRY(attention_round(task, ONES, &ones));
        CONF_TRY(attention_round(task, BOTH, &both));
        CONF_TRY(copy_round(task, round));
    }
    return true;
}

static bool with_threads(conf *c, uint32_t count, bool (*fn)(void *one)) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    thread_task tasks[32];
    for (uint32_t i = 0; i < count; i++) tasks[i] = (thread_task){c, runtime, device, i};
    CONF_TRY(conf_threads(c, count, fn, tasks, sizeof *tasks));
    return conf_close(c, runtime);
}

static bool table(conf *c) {
    return with_threads(c, THREADS, table_thread);
}

/* ---- acc += 1 ---- */

typedef struct adding_task {
    conf *c;
    rota_plan *plan;
    uint32_t times;
} adding_task;

static bool adding_thread(void *one) {
    const adding_task *task = one;
    conf *c = task->c;
    rota_ticket ticket = {0};
    for (uint32_t i = 0; i < task->times; i++)
        CONF_OK(c, rota_submit_wait(task->plan, NULL, CONF_PATIENCE_NS, &ticket));
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    return true;
}

static bool shared_sum(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor acc;
    CONF_TRY(conf_tensor(c, runtime, device, "acc", ROTA_SHAPE(1024), 0, 0, &acc));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_affine_into(graph.tape, acc, ROTA_PLAIN(1), ROTA_PLAIN(1), acc));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    adding_task tasks[16];
    for (uint32_t i = 0; i < 16; i++) tasks[i] = (adding_task){c, plan, 1000};
    CONF_TRY(conf_threads(c, 16, adding_thread, tasks, sizeof *tasks));
    float got[1024];
    CONF_TRY(conf_read_f32(c, &acc, got));
    for (uint32_t i = 0; i < 1024; i++)
        CONF_CHECK(c, got[i] == 16000.0f, "16 threads x 1000 additions gave %g in element %u", (double)got[i],
                   i);
    return CONF_END(c, runtime, plan, acc);
}

/* ---- Private graphs ---- */

enum { PRIVATE_COUNT = 256 };

static bool private_thread(void *one) {
    const thread_task *task = one;
    conf *c = task->c;
    uint64_t random = c->seed * 1000 + task->index;
    rota_tensor x, y;
    CONF_TRY(conf_tensor(c, task->runtime, task->device, "x", ROTA_SHAPE(PRIVATE_COUNT), 0, 0, &x));
    CONF_TRY(conf_tensor(c, task->runtime, task->device, "y", ROTA_SHAPE(PRIVATE_COUNT), 0.37, 0.11, &y));
    float start[PRIVATE_COUNT], want[PRIVATE_COUNT], got[PRIVATE_COUNT], step[PRIVATE_COUNT];
    ramp(step, PRIVATE_COUNT, 0.37, 0.11);
    uint32_t graphs = conf_times(c, 256, 24);
    for (uint32_t g = 0; g < graphs; g++) {
        uint32_t adds = 1 + test_below(&random, 64);
        for (uint32_t i = 0; i < PRIVATE_COUNT; i++)
            want[i] = start[i] = (float)test_below(&random, 1000000) * 1.7e-3f + (float)i;
        for (uint32_t a = 0; a < adds; a++)
            for (uint32_t i = 0; i < PRIVATE_COUNT; i++) want[i] += step[i];
        CONF_TRY(conf_write_f32(c, &x, task->device, start));
        conf_graph graph;
        rota_plan *plan;
        CONF_TRY(conf_graph_begin(c, &graph));
        rota_tensor sum = x;
        for (uint32_t a = 0; a + 1 < adds; a++) CONF_OK(c, rota_op_add(graph.tape, sum, y, &sum));
        CONF_OK(c, rota_op_add_into(graph.tape, sum, y, x));
        CONF_TRY(conf_graph_end(c, &graph, task->device, NULL, &plan));
        CONF_OK(c, rota_submit_wait(plan, NULL, CONF_PATIENCE_NS, NULL));
        rota_plan_release(plan);
        CONF_TRY(conf_read_f32(c, &x, got));
        CONF_CHECK(c, memcmp(got, want, sizeof got) == 0,
                   "thread %u, graph %u of %u adds: not its serial result", task->index, g, adds);
    }
    rota_buffer_release(x.buffer);
    rota_buffer_release(y.buffer);
    return true;
}

static bool private_graphs(conf *c) {
    return with_threads(c, 16, private_thread);
}

/* ---- Views ---- */

typedef struct view_task {
    conf *c;
    rota_buffer *root;
    uint64_t random;
} view_task;

static bool view_thread(void *one) {
    view_task *task = one;
    conf *c = task->c;
    for (uint32_t i = 0; i < 1000; i++) {
        rota_buffer *view = NULL, *inner = NULL;
        uint32_t offset = test_below(&task->random, 1000) * 4;
        CONF_OK(c, rota_buffer_create_view(task->root, offset, 96, &view));
        CONF_OK(c, rota_buffer_create_view(view, 32, 64, &inner));
        rota_buffer_release(view);
        if (i % 100 == 0) {
            float got[16];
            CONF_OK(c, rota_buffer_read(inner, 0, got, sizeof got));
            CONF_CHECK(c, got[3] == (float)(offset / 4 + 8 + 3), "a view at %u reads %g", offset,
                       (double)got[3]);
        }
        rota_buffer_release(inner);
    }
    rota_buffer_release(task->root); /* The thread's own reference. */
    return true;
}

static bool views(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor root;
    rota_runtime_stats before = ROTA_RUNTIME_STATS(), after = ROTA_RUNTIME_STATS();
    do rota_runtime_get_stats(runtime, &before); /* The smoke test's buffers go first. */
    while (before.reclaim_pending);
    CONF_TRY(conf_tensor(c, runtime, device, "root", ROTA_SHAPE(4096), 0, 1, &root));
    float one = 0;
    view_task tasks[8];
    for (uint32_t i = 0; i < 8; i++) {
        tasks[i] = (view_task){c, root.buffer, c->seed + i};
        rota_buffer_retain(root.buffer);
    }
    CONF_TRY(conf_threads(c, 8, view_thread, tasks, sizeof *tasks));
    CONF_OK(c, rota_buffer_read(root.buffer, 4096 * 4 - 4, &one, 4));
    CONF_CHECK(c, one == 4095.0f, "the allocation went with a view");
    rota_buffer_release(root.buffer);
    /* Freed (the reclaimer needs a moment), and once: the adversary reports a second time. */
    uint64_t deadline = rota_deadline_after(CONF_PATIENCE_NS);
    do rota_runtime_get_stats(runtime, &after);
    while (after.buffers != before.buffers && rota_clock_ns() < deadline);
    CONF_CHECK(c, after.buffers == before.buffers, "%llu buffers are left of %llu",
               (unsigned long long)after.buffers, (unsigned long long)before.buffers);
    return conf_close(c, runtime);
}

/* ---- All of it at once ---- */

static bool opening_thread(void *one) {
    const thread_task *task = one;
    conf *c = task->c;
    uint32_t rounds = conf_times(c, 50, 4);
    for (uint32_t i = 0; i < rounds; i++) {
        conf *mine = calloc(1, sizeof *mine);
        CONF_CHECK(c, mine, "out of memory");
        mine->device = c->device;
        mine->seed = c->seed + i;
        pthread_mutex_init(&mine->lock, NULL);
        rota_runtime *runtime;
        rota_device *device;
        thread_task other = {mine, NULL, NULL, task->index};
        static const attention_shape shape = {1, 2, 4, 4, 8, 1e-4};
        bool good = conf_open(mine, NULL, &runtime, &device);
        other.runtime = runtime;
        other.device = device;
        /* The same kernel as the others compile, on a device of its own. */
        good = good && attention_round(&other, FUSED, &shape) && conf_close(mine, runtime);
        CONF_CHECK(c, good, "a runtime of its own: %s", mine->why);
        free(mine);
    }
    return true;
}

static bool mixed_thread(void *one) {
    const thread_task *task = one;
    if (task->index % 4 == 0) return opening_thread(one);
    if (task->index % 4 == 1) return private_thread(one);
    return table_thread(one);
}

static bool all_at_once(conf *c) {
    return with_threads(c, 8, mixed_thread);
}

const conf_case conf_cases_s2[] = {
    {"s2.table", table}, {"s2.shared_sum", shared_sum},   {"s2.private_graphs", private_graphs},
    {"s2.views", views}, {"s2.all_at_once", all_at_once}, {NULL, NULL},
};
