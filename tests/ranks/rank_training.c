/* Gradients of all ranks, in buckets: as those that are reduced one by one, once each, and in the order promised. */
#include <string.h>
#include <time.h>

#include "tests/ranks/rank_graph.h"

/* x [ROWS, DIM] through LAYERS matrices, of which the first is used twice; biases; a scale that an op made of a
 * parameter; one parameter that nothing reads. */
#define DIM UINT64_C(40)
enum { ROWS = 3, LAYERS = 4, MATRICES = LAYERS, BIASES = LAYERS, OTHERS = 2 };
enum { PARAMS = MATRICES + BIASES + OTHERS };
#define MATRIX (DIM * DIM)
#define ELEMENTS (MATRICES * MATRIX + BIASES * DIM + OTHERS * DIM)

static float number(uint32_t seed, uint64_t i) {
    const uint32_t mixed = (uint32_t)(i * 2654435761u + (uint64_t)seed * 40503u + 977u);
    return (float)(mixed >> 8) / 16777216.0f - 0.5f;
}

/* Where parameter p is in a buffer of all: matrices, biases, others; or, `spread`, with a gap behind each. */
static uint64_t offset_of(uint32_t p, bool spread) {
    const uint64_t gap = spread ? 8 * (uint64_t)p : 0;
    if (p < MATRICES) return (uint64_t)p * MATRIX + gap;
    return (uint64_t)MATRICES * MATRIX + (uint64_t)(p - MATRICES) * DIM + gap;
}

static rota_tensor view_of(rota_tensor all, uint32_t p, bool spread) {
    rota_tensor view;
    const uint64_t offset = offset_of(p, spread) * rota_dtype_bytes(all.dtype);
    if (p < MATRICES)
        rank_ok(rota_tensor_of(all.buffer, offset, all.dtype, ROTA_SHAPE(DIM, DIM), &view));
    else
        rank_ok(rota_tensor_of(all.buffer, offset, all.dtype, ROTA_SHAPE(DIM), &view));
    return view;
}

typedef struct network {
    rota_tensor values, x, grads; /* grads: of all parameters, or none: a backward pass makes its own */
    rota_tensor outs[PARAMS];     /* OUTPUT */
} network;

static void record_loss(rank_graph *g, const network *net, const rota_tensor *params, rota_tensor *out_loss) {
    rota_tensor y = net->x, scale;
    for (uint32_t l = 0; l <= LAYERS; l++) {
        rank_ok(rota_op_matmul(g->tape, y, params[l % LAYERS], false, false, &y));
        if (l < LAYERS) rank_ok(rota_op_add(g->tape, y, params[MATRICES + l], &y));
        rank_ok(rota_op_gelu(g->tape, y, &y));
    }
    rank_ok(rota_op_gelu(g->tape, params[PARAMS - 2], &scale));
    rank_ok(rota_op_mul(g->tape, y, scale, &y));
    rank_ok(rota_op_reshape(g->tape, y, ROTA_SHAPE(ROWS * DIM), &y));
    rank_ok(rota_op_sum(g->tape, y, 0, false, out_loss));
}

/* How gradients come about: one by one behind the backward pass, or in buckets. */
typedef struct way {
    bool buckets, sum, spread, given, accumulate;
    uint64_t bucket_bytes;
    uint32_t least, most; /* collectives, of f32 */
} way;

static uint32_t collectives_of(const rota_plan *plan) {
    uint32_t found = 0;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rank_ok(rota_plan_get_stats(plan, &stats));
    rota_plan_command *commands = calloc(stats.commands, sizeof *commands);
    commands[0].struct_size = sizeof *commands;
    rank_ok(rota_plan_get_commands(plan, commands, stats.commands));
    for (uint64_t i = 0; i < stats.commands; i++)
        found += strstr(commands[i].name, ", bucket ") != NULL && commands[i].kind == ROTA_PLAN_HOST;
    free(commands);
    return found;
}

/* Every gradient of this rank, made so, into out; element after element, parameter after parameter. */
static void gradients_by(rota_runtime *runtime, rota_communicator *communicator, const way *w, float *out,
                         uint32_t *out_collectives) {
    rank_graph g;
    network net = {.grads = ROTA_TENSOR_NONE};
    const uint64_t room = ELEMENTS + (uint64_t)8 * PARAMS;
    begin(&g, runtime, communicator, true);
    float *values = calloc(room, sizeof *values), rows[ROWS * DIM];
    for (uint64_t i = 0; i < room; i++) values[i] = number(1, i) * 0.3f;
    for (uint64_t i = 0; i < ROWS * DIM; i++) rows[i] = number(7 + g.rank, i);
    net.values = made(&g, ROTA_F32, room, values);
    const rota_tensor flat = made(&g, ROTA_F32, (uint64_t)ROWS * DIM, rows),
                      grads = made(&g, ROTA_F32, room, values);
    rank_ok(rota_tensor_reshape(&flat, ROTA_SHAPE(ROWS, DIM), &net.x));
    rota_tensor params[PARAMS], each[PARAMS], loss;
    for (uint32_t p = 0; p < PARAMS; p++) {
        params[p] = view_of(net.values, p, false);
        each[p] = w->given ? view_of(grads, p, w->spread) : ROTA_TENSOR_NONE;
    }
    const rota_data_parallel parallel =
        ROTA_DATA_PARALLEL(.communicator = communicator, .bucket_bytes = w->bucket_bytes, .sum = w->sum);
    for (uint32_t pass = 0; pass < 1u + w->accumulate; pass++) {
        const bool last = pass == w->accumulate;
        record_loss(&g, &net, params, &loss);
        const rota_backward_options options =
            ROTA_BACKWARD_OPTIONS(.accumulate = pass > 0,
                                  .data_parallel = w->buckets && last ? &parallel : NULL);
        rank_ok(rota_backward(g.tape, loss, params, PARAMS, each, &options));
    }
    for (uint32_t p = 0; p < PARAMS; p++) {
        if (!w->buckets)
            rank_ok(rota_op_all_reduce_into(g.tape, communicator, each[p],
                                            w->sum ? ROTA_COLLECTIVE_SUM : ROTA_COLLECTIVE_MEAN, each[p]));
        rota_tensor kept;
        rank_ok(rota_tensor_of(net.values.buffer, 0, ROTA_F32, ROTA_SHAPE(1), &kept));
        net.outs[p] = made(&g, ROTA_F32, p < MATRICES ? MATRIX : DIM, NULL);
        rank_ok(rota_tensor_reshape(&each[p], ROTA_SHAPE(p < MATRICES ? MATRIX : DIM), &kept));
        rank_ok(rota_op_copy_into(g.tape, kept, net.outs[p]));
    }
    compile(&g);
    *out_collectives = collectives_of(g.plan);
    for (uint32_t replay = 0; replay < 3; replay++) {
        float *to = out;
        rank_ok(run(&g));
        for (uint32_t p = 0; p < PARAMS; p++) {
            const uint64_t count = p < MATRICES ? MATRIX : DIM;
            float *got = calloc(count, sizeof *got);
            get(net.outs[p], got);
            if (replay) rank_want(memcmp(to, got, count * sizeof *got) == 0, "replay %u differs", replay);
            memcpy(to, got, count * sizeof *got);
            free(got);
            to += count;
        }
    }
    end(&g);
    for (uint32_t p = 0; p < PARAMS; p++) drop(net.outs[p]);
    drop(net.values), drop(flat), drop(grads);
    free(values);
}

void rank_data_parallel(rota_runtime *runtime, rota_communicator *communicator) {
    static const way ways[] = {
        /* All in one: matrices, biases and what the loss does not reach lie side by side. */
        {.buckets = true, .given = true, .bucket_bytes = 1 << 30, .least = 1, .most = 1},
        /* The same without order in memory: one, by a copy. */
        {.buckets = true, .given = true, .spread = true, .bucket_bytes = 1 << 30, .least = 1, .most = 1},
        {.buckets = true, .bucket_bytes = 1 << 30, .least = 1, .most = 1},
        /* A matrix fills a bucket, with what was finished before it. */
        {.buckets = true,
         .given = true,
         .bucket_bytes = MATRIX * 4,
         .least = MATRICES,
         .most = MATRICES + BIASES},
        {.buckets = true, .bucket_bytes = 1, .least = PARAMS, .most = PARAMS},
        /* No number of bytes overflows. */
        {.buckets = true, .given = true, .bucket_bytes = UINT64_MAX, .least = 1, .most = 1},
        {.buckets = true, .given = true, .bucket_bytes = UINT64_MAX - 3, .least = 1, .most = 1},
        {.buckets = true, .given = true, .sum = true, .least = 1, .most = 1},
        {.buckets = true,
         .given = true,
         .accumulate = true,
         .bucket_bytes = 1 << 14,
         .least = 2,
         .most = PARAMS},
    };
    float *wanted = calloc(ELEMENTS, sizeof *wanted), *got = calloc(ELEMENTS, sizeof *got);
    const uint32_t size = rota_communicator_size(communicator);
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        way one_by_one = ways[i];
        uint32_t collectives;
        one_by_one.buckets = false;
        gradients_by(runtime, communicator, &one_by_one, wanted, &collectives);
        gradients_by(runtime, communicator, &ways[i], got, &collectives);
        for (uint32_t e = 0; e < ELEMENTS; e++)
            rank_want(memcmp(&wanted[e], &got[e], sizeof *got) == 0, "way %u: element %u is %g, not %g", i, e,
                      (double)got[e], (double)wanted[e]);
        rank_want(got[0] != 0 && got[MATRICES * MATRIX] != 0 && got[ELEMENTS - DIM - 1] != 0, "no gradients");
        rank_want(got[ELEMENTS - 1] == 0, "of what nothing reads %g", (double)got[ELEMENTS - 1]);
        rank_want(size == 1 ? collectives == 0 : collectives >= ways[i].least && collectives <= ways[i].most,
                  "way %u: %u collectives, expected %u to %u", i, collectives, ways[i].least, ways[i].most);
    }
    free(wanted);
    free(got);
}

/* One rank has its gradients in another order in memory: said so by all, before anything is added up. */
void rank_gradients_elsewhere(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, true);
    const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const rota_tensor all = made(&g, ROTA_F32, 8, values), grads = made(&g, ROTA_F32, 8, values);
    rota_tensor params[2], each[2], y, loss;
    for (uint32_t p = 0; p < 2; p++) {
        const uint32_t second = g.rank == 1 ? 1 - p : p;
        rank_ok(rota_tensor_slice(&all, 0, (uint64_t)p * 4, 4, &params[p]));
        rank_ok(rota_tensor_slice(&grads, 0, (uint64_t)second * 4, 4, &each[p]));
    }
    rank_ok(rota_op_mul(g.tape, params[0], params[1], &y));
    rank_ok(rota_op_sum(g.tape, y, 0, false, &loss));
    const rota_data_parallel parallel = ROTA_DATA_PARALLEL(.communicator = communicator);
    rank_ok(rota_backward(g.tape, loss, params, 2, each, &ROTA_BACKWARD_OPTIONS(.data_parallel = &parallel)));
    compile(&g);
    rank_want(run(&g) == ROTA_NODE_FAILED, "gradients of other places were added up");
    rank_want(strstr(rota_last_error(), "gradients, bucket 1 ("), "%s", rota_last_error());
    end(&g);
    drop(all), drop(grads);
}

/* Gradients that share bytes would be reduced twice: refused, also by a communicator of one rank. */
void rank_gradients_overlap(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, true);
    const float values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const rota_tensor all = made(&g, ROTA_F32, 12, values), grads = made(&g, ROTA_F32, 12, values);
    rota_tensor params[3], each[3], y, loss;
    for (uint32_t p = 0; p < 3; p++) {
        rank_ok(rota_tensor_slice(&all, 0, (uint64_t)p * 4, 4, &params[p]));
        /* The third ends where the second begins, and has the first one's last element. */
        rank_ok(rota_tensor_slice(&grads, 0, p == 0 ? 0 : p == 1 ? 7 : 3, 4, &each[p]));
    }
    rank_ok(rota_op_mul(g.tape, params[0], params[1], &y));
    rank_ok(rota_op_mul(g.tape, y, params[2], &y));
    rank_ok(rota_op_sum(g.tape, y, 0, false, &loss));
    const rota_data_parallel parallel = ROTA_DATA_PARALLEL(.communicator = communicator);
    const rota_backward_options options = ROTA_BACKWARD_OPTIONS(.keep = true, .data_parallel = &parallel);
    rank_want(rota_backward(g.tape, loss, params, 3, each, &options) == ROTA_INVALID_ARGUMENT, "taken");
    rank_want(strstr(rota_last_error(), "gradients 0 and 2 share bytes of buffer 't'"), "%s",
              rota_last_error());
    /* Side by side they share nothing. */
    for (uint32_t p = 0; p < 3; p++) each[p] = ROTA_TENSOR_NONE;
    rank_ok(rota_tensor_slice(&grads, 0, 0, 4, &each[0]));
    rank_ok(rota_tensor_slice(&grads, 0, 4, 4, &each[2]));
    rank_ok(rota_backward(g.tape, loss, params, 3, each, &options));
    rota_tape_destroy(g.tape);
    rota_recorder_close(g.recorder);
    end(&g);
    drop(all), drop(grads);
}

/* A gradient that is finished first and small, and the last one, which is large, side by side: with devices the small
 * one is held for the last bucket, and they are one collective; else a bucket each. */
static void expect_last_bucket(rota_runtime *runtime, rota_communicator *communicator, bool is_filled) {
    const uint64_t large = UINT64_C(2) << 20, small = 1024, counts[2] = {large, small};
    rank_graph g;
    begin(&g, runtime, communicator, true);
    float *values = calloc(large + small, sizeof *values), *got = calloc(large + small, sizeof *got),
          mean = 0;
    for (uint64_t i = 0; i < large + small; i++) values[i] = (float)(g.rank + 1) * (float)(i % 61);
    for (uint32_t r = 0; r < g.size; r++) mean += (float)(r + 1) / (float)g.size;
    const rota_tensor all = made(&g, ROTA_F32, large + small, values),
                      grads = made(&g, ROTA_F32, large + small, NULL);
    rota_tensor params[2], each[2], loss[2];
    for (uint32_t p = 0; p < 2; p++) {
        rank_ok(rota_tensor_slice(&all, 0, p ? large : 0, counts[p], &params[p]));
        rank_ok(rota_tensor_slice(&grads, 0, p ? large : 0, counts[p], &each[p]));
        rank_ok(rota_op_mul(g.tape, params[p], params[p], &loss[p]));
        rank_ok(rota_op_sum(g.tape, loss[p], 0, false, &loss[p]));
    }
    rank_ok(rota_op_add(g.tape, loss[0], loss[1], &loss[0]));
    const rota_data_parallel parallel =
        ROTA_DATA_PARALLEL(.communicator = communicator, .bucket_bytes = 4 * (large + !is_filled),
                           .first_bucket_bytes = 4 * small);
    rank_ok(
        rota_backward(g.tape, loss[0], params, 2, each, &ROTA_BACKWARD_OPTIONS(.data_parallel = &parallel)));
    compile(&g);
    const uint32_t found = collectives_of(g.plan), wanted = g.size == 1                              ? 0
                                                            : rota_communicator_device(communicator) ? 1
                                                                                                     : 2;
    rank_want(found == wanted, "%u collectives, expected %u", found, wanted);
    rank_ok(run(&g));
    get(grads, got);
    for (uint64_t i = 0; i < large + small; i++) {
        const float exact = 2 * mean * (float)(i % 61);
        rank_want(got[i] > exact - 1e-3f && got[i] < exact + 1e-3f, "element %llu is %g, not %g",
                  (unsigned long long)i, (double)got[i], (double)exact);
    }
    end(&g);
    free(values), free(got);
    drop(all), drop(grads);
}

void rank_last_bucket(rota_runtime *runtime, rota_communicator *communicator) {
    expect_last_bucket(runtime, communicator, false);
    expect_last_bucket(runtime, communicator, true);
}

/* CPU seconds of this thread to record the backward pass of so many parameters of one buffer, each used once. */
static double backward_seconds(rota_runtime *runtime, rota_communicator *communicator, uint32_t count) {
    enum { EACH = 4 };
    rank_graph g;
    begin(&g, runtime, communicator, true);
    const rota_tensor all = made(&g, ROTA_F32, (uint64_t)count * EACH, NULL),
                      x = made(&g, ROTA_F32, EACH, NULL);
    rota_tensor *params = calloc(count, sizeof *params), *grads = calloc(count, sizeof *grads), y = x, loss;
    for (uint32_t p = 0; p < count; p++) {
        rank_ok(rota_tensor_slice(&all, 0, (uint64_t)p * EACH, EACH, &params[p]));
        rank_ok(rota_op_add(g.tape, y, params[p], &y));
    }
    rank_ok(rota_op_sum(g.tape, y, 0, false, &loss));
    const rota_data_parallel parallel = ROTA_DATA_PARALLEL(.communicator = communicator);
    struct timespec before, after;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    rank_ok(rota_backward(g.tape, loss, params, count, grads,
                          &ROTA_BACKWARD_OPTIONS(.data_parallel = &parallel)));
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    rota_tape_destroy(g.tape);
    rota_recorder_close(g.recorder);
    end(&g);
    free(params), free(grads);
    drop(all), drop(x);
    return (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
}

/* Parameters that share a buffer are found among one another without being gone through: sixteen times as many take
 * about sixteen times as long, not 256. */
void rank_many_parameters(rota_runtime *runtime, rota_communicator *communicator) {
    enum { FEW = 2000, TIMES = 16 };
    double few = 1e9, many = 1e9;
    for (int i = 0; i < 3; i++) {
        const double now = backward_seconds(runtime, communicator, FEW),
                     then = backward_seconds(runtime, communicator, FEW * TIMES);
        if (now < few) few = now;
        if (then < many) many = then;
    }
    rank_want(many < 4 * TIMES * few, "%d parameters: %.4f s, %d times as many: %.4f s", FEW, few, TIMES,
              many);
}
