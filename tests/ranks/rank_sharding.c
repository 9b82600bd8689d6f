/* Shards of parameters: ranks that each update their own learn, to the bit, what ranks learn that update all. */
#include <math.h>
#include <string.h>

#include "tests/ranks/rank_graph.h"

/* y = gelu(x W + b) of each layer, times a scale in bf16; one parameter that nothing reads. */
enum { ROWS = 3, LAYERS = 3, PARAMS = 2 * LAYERS + 2, SCALE = 2 * LAYERS, UNREAD, STEPS = 3 };

typedef struct way {
    uint64_t dim, bucket_bytes;
    bool given, sum; /* gradients lie in one buffer */
} way;

static uint64_t count_of(const way *w, uint32_t p) {
    return p < SCALE && p % 2 == 0 ? w->dim * w->dim : w->dim;
}

static float number(uint32_t seed, uint64_t i) {
    const uint32_t mixed = (uint32_t)(i * 2654435761u + (uint64_t)seed * 40503u + 977u);
    return (float)(mixed >> 8) / 16777216.0f - 0.5f;
}

/* What one way of training has: parameters, f32 states of all or of a shard, and what is read afterwards. */
typedef struct training {
    rota_tensor params[PARAMS], m, v, norm, m_whole[PARAMS], m_again;
} training;

static rota_dtype dtype_of(uint32_t p) {
    return p == SCALE ? ROTA_BF16 : ROTA_F32;
}

static rota_tensor shaped(const way *w, rota_tensor x, uint32_t p) {
    if (p < SCALE && p % 2 == 0) rank_ok(rota_tensor_reshape(&x, ROTA_SHAPE(w->dim, w->dim), &x));
    return x;
}

static rota_tensor record_loss(rank_graph *g, const way *w, const rota_tensor *params) {
    float rows[ROWS * 64];
    rota_tensor y, scale, loss;
    for (uint64_t i = 0; i < ROWS * w->dim; i++) rows[i] = number(7 + g->rank, i);
    y = made(g, ROTA_F32, ROWS * w->dim, rows);
    rota_buffer *const x = y.buffer;
    rank_ok(rota_tensor_reshape(&y, ROTA_SHAPE(ROWS, w->dim), &y));
    for (uint32_t p = 0; p < SCALE; p += 2) {
        const rota_tensor b = params[p + 1];
        rank_ok(rota_op_matmul(g->tape, y, shaped(w, params[p], p), false, false, &y));
        rank_ok(rota_op_add(g->tape, y, b, &y));
        rank_ok(rota_op_gelu(g->tape, y, &y));
    }
    rank_ok(rota_op_cast(g->tape, params[SCALE], ROTA_F32, &scale));
    rank_ok(rota_op_mul(g->tape, y, scale, &y));
    rank_ok(rota_op_reshape(g->tape, y, ROTA_SHAPE(ROWS * w->dim), &y));
    rank_ok(rota_op_sum(g->tape, y, 0, false, &loss));
    rota_buffer_release(x); /* the graph has it */
    return loss;
}

static void update(rank_graph *g, rota_tensor p, rota_tensor grad, rota_tensor m, rota_tensor v) {
    if (p.dtype != ROTA_F32) {
        rank_ok(rota_op_sub_into(g->tape, p, grad, p));
        return;
    }
    rank_ok(rota_op_adamw(g->tape, p, grad, m, v,
                          &ROTA_ADAMW(.lr = ROTA_CONSTANT(0.01), .step = ROTA_CONSTANT(3), .beta1 = 0.9f,
                                      .beta2 = 0.99f, .eps = 1e-6f, .weight_decay = 0.1f,
                                      .factor = ROTA_TENSOR_NONE, .half = ROTA_TENSOR_NONE)));
}

static void make_parameters(rank_graph *g, const way *w, training *t, rota_tensor *grads) {
    uint64_t elements = 0;
    for (uint32_t p = 0; p < PARAMS; p++) {
        float values[64 * 64];
        uint16_t halves[64];
        const uint64_t count = count_of(w, p);
        for (uint64_t i = 0; i < count; i++) values[i] = number(p + 1, i) * 0.3f;
        for (uint64_t i = 0; p == SCALE && i < count; i++) halves[i] = (uint16_t)(0x3F80 + i); /* 1 and on */
        t->params[p] = made(g, dtype_of(p), count, p == SCALE ? (const void *)halves : values);
        elements += count;
    }
    for (uint32_t p = 0; p < PARAMS; p++) grads[p] = ROTA_TENSOR_NONE;
    if (!w->given) return;
    rota_tensor all;
    uint64_t offset = 0;
    rank_ok(
        rota_tape_tensor(g->tape, ROTA_BUFFER_TRANSIENT, "gradients", ROTA_F32, ROTA_SHAPE(elements), &all));
    for (uint32_t p = 0; p < PARAMS; p++) {
        if (dtype_of(p) != ROTA_F32) continue;
        rank_ok(rota_tensor_slice(&all, 0, offset, count_of(w, p), &grads[p]));
        offset += count_of(w, p);
    }
}

static rota_tensor zeroes(rank_graph *g, uint64_t count) {
    float *values = calloc(count, sizeof *values);
    const rota_tensor x = made(g, ROTA_F32, count, values);
    free(values);
    return x;
}

/* Each rank updates all. */
static void record_whole(rank_graph *g, const way *w, training *t) {
    rota_tensor grads[PARAMS], norm;
    make_parameters(g, w, t, grads);
    const rota_tensor loss = record_loss(g, w, t->params);
    const rota_data_parallel parallel =
        ROTA_DATA_PARALLEL(.communicator = g->communicator, .bucket_bytes = w->bucket_bytes, .sum = w->sum);
    rank_ok(rota_backward(g->tape, loss, t->params, PARAMS, grads,
                          &ROTA_BACKWARD_OPTIONS(.data_parallel = &parallel)));
    rank_ok(rota_op_global_norm(g->tape, grads, PARAMS, 0.5f, &norm));
    rank_ok(rota_op_copy_into(g->tape, norm, t->norm = zeroes(g, 2)));
    uint64_t elements = 0, offset = 0;
    for (uint32_t p = 0; p < PARAMS; p++) elements += count_of(w, p);
    t->m = zeroes(g, elements), t->v = zeroes(g, elements);
    for (uint32_t p = 0; p < PARAMS; p++) {
        rota_tensor m, v;
        rank_ok(rota_tensor_slice(&t->m, 0, offset, count_of(w, p), &m));
        rank_ok(rota_tensor_slice(&t->v, 0, offset, count_of(w, p), &v));
        update(g, t->params[p], grads[p], m, v);
        offset += count_of(w, p);
    }
}

/* The same by a shard each. */
static void record_sharded(rank_graph *g, const way *w, training *t, rota_sharding **out_shards) {
    rank_ok(rota_sharding_create(g->communicator, out_shards));
    rota_tensor grads[PARAMS], norm;
    make_parameters(g, w, t, grads);
    const rota_tensor loss = record_loss(g, w, t->params);
    const rota_data_parallel parallel =
        ROTA_DATA_PARALLEL(.communicator = g->communicator, .bucket_bytes = w->bucket_bytes, .sum = w->sum,
                           .sharding = *out_shards);
    rank_ok(rota_backward(g->tape, loss, t->params, PARAMS, grads,
                          &ROTA_BACKWARD_OPTIONS(.data_parallel = &parallel)));
    const rota_sharding *shards = *out_shards;
    const rota_shard_piece *pieces;
    uint32_t count;
    rank_ok(rota_sharding_norm(shards, g->tape, 0.5f, &norm));
    rank_ok(rota_op_copy_into(g->tape, norm, t->norm = zeroes(g, 2)));
    rank_ok(rota_sharding_get_pieces(shards, &pieces, &count));
    const uint64_t elements = rota_sharding_elements(shards);
    t->m = zeroes(g, elements), t->v = zeroes(g, elements);
    uint64_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const rota_shard_piece *piece = &pieces[i];
        rota_tensor p, m, v;
        rank_want(piece->offset >= end && piece->count > 0 && piece->offset + piece->count <= elements,
                  "piece %u: elements %llu and on of %llu", i, (unsigned long long)piece->offset,
                  (unsigned long long)elements);
        end = piece->offset + piece->count;
        rank_ok(rota_tensor_slice(&t->params[piece->parameter], 0, piece->first, piece->count, &p));
        rank_ok(rota_tensor_slice(&t->m, 0, piece->offset, piece->count, &m));
        rank_ok(rota_tensor_slice(&t->v, 0, piece->offset, piece->count, &v));
        update(g, p, piece->gradient, m, v);
    }
    rank_ok(rota_sharding_gather(shards, g->tape, t->params, PARAMS));
}

/* A graph of its own: a shard becomes whole tensors, and a shard again. */
static void states_to_whole(rank_graph *g, const way *w, training *t, const rota_sharding *shards) {
    for (uint32_t p = 0; p < PARAMS; p++) t->m_whole[p] = zeroes(g, count_of(w, p));
    t->m_again = made(g, ROTA_F32, rota_sharding_elements(shards), NULL);
    rank_ok(rota_sharding_gather_shards(shards, g->tape, t->m, t->m_whole, PARAMS));
    rank_ok(rota_op_fill_into(g->tape, t->m_again, 5));
    rank_ok(rota_sharding_take(shards, g->tape, t->m_whole, PARAMS, t->m_again));
}

static void want_alike(const way *w, const training *a, const training *b, const rota_sharding *shards) {
    float x[64 * 64], y[64 * 64], norms[2][2];
    uint64_t offset = 0, elements = 0;
    for (uint32_t p = 0; p < PARAMS; p++) elements += count_of(w, p);
    float *m = calloc(elements, sizeof *m);
    get(a->m, m);
    for (uint32_t p = 0; p < PARAMS; p++) {
        const uint64_t count = count_of(w, p);
        get(a->params[p], x), get(b->params[p], y);
        rank_want(memcmp(x, y, count * rota_dtype_bytes(dtype_of(p))) == 0, "parameter %u is another", p);
        get(b->m_whole[p], y);
        rank_want(memcmp(m + offset, y, count * sizeof *y) == 0, "moments of parameter %u are others", p);
        rank_want(dtype_of(p) != ROTA_F32 || p == UNREAD || y[0] != 0, "no moments of parameter %u", p);
        offset += count;
    }
    get(a->norm, norms[0]), get(b->norm, norms[1]);
    for (uint32_t i = 0; i < 2; i++)
        rank_want(fabsf(norms[0][i] - norms[1][i]) <= 1e-5f * norms[0][i] && norms[0][i] > 0,
                  "norm or factor %g, expected %g", (double)norms[1][i], (double)norms[0][i]);
    const uint64_t size = rota_sharding_elements(shards);
    float *kept = calloc(size, sizeof *kept), *again = calloc(size, sizeof *again);
    get(b->m, kept), get(b->m_again, again);
    rank_want(memcmp(kept, again, size * sizeof *kept) == 0, "a shard is another one afterwards");
    free(m), free(kept), free(again);
}

static void drop_all(training *t) {
    for (uint32_t p = 0; p < PARAMS; p++) {
        drop(t->params[p]);
        if (t->m_again.buffer) drop(t->m_whole[p]);
    }
    if (t->m_again.buffer) drop(t->m_again);
    drop(t->m), drop(t->v), drop(t->norm);
}

void rank_shards(rota_runtime *runtime, rota_communicator *communicator) {
    static const way ways[] = {
        {.dim = 7, .bucket_bytes = 1 << 30},
        {.dim = 7, .bucket_bytes = 1},
        {.dim = 13, .bucket_bytes = 1024, .given = true, .sum = true},
        /* Parts of whole parameters, which need no copy. */
        {.dim = 64, .bucket_bytes = UINT64_C(64) * 64 * 4, .given = true},
        {.dim = 1, .bucket_bytes = 4}, /* fewer elements than ranks */
    };
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        training whole = {0}, sharded = {0};
        rota_sharding *shards = NULL;
        rank_graph g;
        begin(&g, runtime, communicator, true);
        record_whole(&g, &ways[i], &whole);
        compile(&g);
        for (uint32_t step = 0; step < STEPS; step++) rank_ok(run(&g));
        end(&g);
        begin(&g, runtime, communicator, true);
        record_sharded(&g, &ways[i], &sharded, &shards);
        compile(&g);
        for (uint32_t step = 0; step < STEPS; step++) rank_ok(run(&g));
        end(&g);
        begin(&g, runtime, communicator, false);
        states_to_whole(&g, &ways[i], &sharded, shards);
        compile(&g);
        rank_ok(run(&g));
        end(&g);
        want_alike(&ways[i], &whole, &sharded, shards);
        drop_all(&whole), drop_all(&sharded);
        rota_sharding_release(shards);
    }
}

static void want_refused(rota_status status, const char *sentence) {
    rank_want(status == ROTA_INVALID_ARGUMENT && strstr(rota_last_error(), sentence),
              "'%s' does not say '%s'", rota_last_error(), sentence);
}

void rank_shards_refused(rota_runtime *runtime, rota_communicator *communicator) {
    const way w = {.dim = 7, .bucket_bytes = 1 << 30};
    training t = {0};
    rota_sharding *shards = NULL;
    rank_graph g;
    begin(&g, runtime, communicator, true);
    record_sharded(&g, &w, &t, &shards);
    rota_tensor others[PARAMS];
    memcpy(others, t.params, sizeof others);
    want_refused(rota_sharding_gather(shards, g.tape, others, PARAMS - 1), "7 tensors, expected 8");
    others[2] = t.params[1];
    want_refused(rota_sharding_gather(shards, g.tape, others, PARAMS),
                 "tensor 2, expected a contiguous one of 49 elements");
    others[2] = t.params[2];
    others[UNREAD] = t.params[SCALE];
    want_refused(rota_sharding_gather(shards, g.tape, others, PARAMS), "of the same bucket");
    memcpy(others, t.params, sizeof others);
    want_refused(rota_sharding_take(shards, g.tape, others, PARAMS, t.params[0]), "the shard, expected");
    want_refused(rota_sharding_take(shards, g.tape, others, PARAMS, t.m), "is bf16, expected f32");
    /* Of one backward pass alone. */
    rota_tensor y, grad = ROTA_TENSOR_NONE;
    rank_ok(rota_op_mul(g.tape, t.params[1], t.params[1], &y));
    rank_ok(rota_op_sum(g.tape, y, 0, false, &y));
    const rota_data_parallel again = ROTA_DATA_PARALLEL(.communicator = communicator, .sharding = shards);
    rank_want(rota_backward(g.tape, y, &t.params[1], 1, &grad,
                            &ROTA_BACKWARD_OPTIONS(.data_parallel = &again)) == ROTA_WRONG_STATE,
              "a sharding was filled twice");
    rota_tape_destroy(g.tape);
    rota_recorder_close(g.recorder);
    end(&g);
    drop_all(&t);
    rota_sharding_release(shards);
}
