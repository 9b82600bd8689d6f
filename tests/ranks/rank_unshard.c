/* Fully sharded parameters: ranks that keep a shard of each group learn, to the bit, what ranks learn that keep all,
 * and need less memory for it. */
#include <math.h>
#include <string.h>

#include "tests/ranks/rank_graph.h"

/* Tokens through a table, LAYERS times y = gelu(y W + b), a scale, and the table again for the logits. A group is a
 * layer's two, or the table with the scale. */
enum {
    ROWS = 5,
    LAYERS = 6,
    GROUPS = LAYERS + 1,
    TABLE = LAYERS,
    EACH = 2,
    STEPS = 3,
    VOCABULARY = 11,
    DIM_MAX = 64
};

typedef struct way {
    uint64_t dim;
    rota_dtype dtype; /* of 16 bits: f32 values beside copies of that, which ops read */
    bool sum, keep;
    bool twice; /* the table is gathered for the first op and again for the last */
    bool ahead; /* a layer is gathered before the ops of the one before it */
    uint32_t passes;
    float tolerance; /* 0: to the bit */
} way;

/* f32 values, their moments, copies; of each group whole tensors one after the other, or a shard. */
typedef struct training {
    rota_tensor values[GROUPS], copies[GROUPS], m[GROUPS], v[GROUPS];
    rota_tensor norm, loss;
    rota_sharding *shards[GROUPS];
    uint64_t arena_bytes, kept_bytes;
    uint32_t gathers, again;
    uint32_t first_again; /* those before the first gradient that goes out */
} training;

static float number(uint32_t seed, uint64_t i) {
    const uint32_t mixed = (uint32_t)(i * 2654435761u + (uint64_t)seed * 40503u + 977u);
    return (float)(mixed >> 8) / 16777216.0f - 0.5f;
}

static uint64_t rows_of(const way *w, uint32_t g) {
    return g == TABLE ? VOCABULARY : w->dim;
}

/* The tensors of a group, without buffers. */
static void likes_of(const way *w, uint32_t g, rota_dtype dtype, rota_tensor likes[EACH]) {
    rank_ok(rota_tensor_of(NULL, 0, dtype, ROTA_SHAPE(rows_of(w, g), w->dim), &likes[0]));
    rank_ok(rota_tensor_of(NULL, 0, dtype, ROTA_SHAPE(w->dim), &likes[1]));
}

static uint64_t elements_of(const way *w, uint32_t g) {
    return (rows_of(w, g) + 1) * w->dim;
}

/* ... in a buffer that has one behind the other. */
static void views_of(const way *w, uint32_t g, rota_tensor all, rota_tensor views[EACH]) {
    likes_of(w, g, all.dtype, views);
    for (uint32_t i = 0; i < EACH; i++) views[i].buffer = all.buffer;
    views[1].offset_bytes = rows_of(w, g) * w->dim * rota_dtype_bytes(all.dtype);
}

static float first_value(const way *w, uint32_t g, uint64_t i) {
    const bool is_scale = g == TABLE && i >= rows_of(w, g) * w->dim;
    return number(g + 1, i) * 0.3f + (is_scale ? 1.0f : 0.0f);
}

static rota_tensor zeroes(rank_graph *g, uint64_t count) {
    float *values = calloc(count, sizeof *values);
    const rota_tensor x = made(g, ROTA_F32, count, values);
    free(values);
    return x;
}

/* ---- The step ---- */

/* Where the ops of a group find it: the same tensors each time, or gathered ones. */
typedef struct source {
    rank_graph *g;
    const way *w;
    training *t;
    bool is_sharded;
    rota_tensor views[GROUPS][EACH];
} source;

static rota_tensor read_by_ops(const way *w, const training *t, uint32_t group) {
    return w->dtype == ROTA_F32 ? t->values[group] : t->copies[group];
}

static void fetch(source *s, uint32_t group) {
    if (!s->is_sharded) {
        views_of(s->w, group, read_by_ops(s->w, s->t, group), s->views[group]);
        return;
    }
    rank_ok(rota_sharding_unshard(s->t->shards[group], s->g->tape, read_by_ops(s->w, s->t, group),
                                  &ROTA_UNSHARD(.sum = s->w->sum, .keep = s->w->keep), EACH,
                                  s->views[group]));
}

static rota_tensor record_loss(source *s, uint32_t pass) {
    rank_graph *g = s->g;
    const way *w = s->w;
    int32_t numbers[2][ROWS];
    rota_tensor tokens[2], y, loss;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t r = 0; r < ROWS; r++)
            numbers[i][r] =
                (int32_t)((number(7 + g->rank + 16 * pass, 31 * i + r) + 0.5f) * (VOCABULARY - 1));
        tokens[i] = made(g, ROTA_I32, ROWS, numbers[i]);
    }
    fetch(s, TABLE);
    if (w->ahead) fetch(s, 0);
    rank_ok(rota_op_embedding(g->tape, s->views[TABLE][0], tokens[0], &y));
    for (uint32_t l = 0; l < LAYERS; l++) {
        if (!w->ahead) fetch(s, l);
        if (w->ahead && l + 1 < LAYERS) fetch(s, l + 1);
        rank_ok(rota_op_matmul(g->tape, y, s->views[l][0], false, false, &y));
        rank_ok(rota_op_add(g->tape, y, s->views[l][1], &y));
        rank_ok(rota_op_gelu(g->tape, y, &y));
    }
    if (w->twice) fetch(s, TABLE);
    rank_ok(rota_op_mul(g->tape, y, s->views[TABLE][1], &y));
    rank_ok(rota_op_matmul(g->tape, y, s->views[TABLE][0], false, true, &y));
    rank_ok(rota_op_cross_entropy(g->tape, y, tokens[1], &loss));
    for (uint32_t i = 0; i < 2; i++) drop(tokens[i]); /* the graph has it */
    return loss;
}

static void update(rank_graph *g, const training *t, uint32_t group, rota_tensor grad) {
    rank_ok(rota_op_adamw(g->tape, t->values[group], grad, t->m[group], t->v[group],
                          &ROTA_ADAMW(.lr = ROTA_CONSTANT(0.01), .step = ROTA_CONSTANT(3), .beta1 = 0.9f,
                                      .beta2 = 0.99f, .eps = 1e-6f, .weight_decay = 0.1f,
                                      .factor = ROTA_TENSOR_NONE, .half = t->copies[group])));
}

/* Values and moments of so many elements each. */
static void make_states(rank_graph *g, const way *w, training *t) {
    for (uint32_t group = 0; group < GROUPS; group++) {
        const uint64_t count =
            t->shards[group] ? rota_sharding_elements(t->shards[group]) : elements_of(w, group);
        float *values = calloc(count, sizeof *values);
        for (uint64_t i = 0; !t->shards[group] && i < count; i++) values[i] = first_value(w, group, i);
        t->values[group] = made(g, ROTA_F32, count, values);
        free(values);
        t->m[group] = zeroes(g, count), t->v[group] = zeroes(g, count);
        t->copies[group] = ROTA_TENSOR_NONE;
        if (w->dtype != ROTA_F32) t->copies[group] = made(g, w->dtype, count, NULL);
        t->kept_bytes += count * (w->dtype == ROTA_F32 ? 12 : 14);
    }
    t->norm = zeroes(g, 2), t->loss = zeroes(g, 1);
}

/* A graph of its own: copies of the values, which of shards come from whole tensors, that nobody needs afterwards. */
static void first_values(rank_graph *g, const way *w, training *t) {
    for (uint32_t group = 0; group < GROUPS; group++) {
        if (t->shards[group]) {
            float values[(DIM_MAX + 1) * DIM_MAX];
            rota_tensor whole, views[EACH];
            for (uint64_t i = 0; i < elements_of(w, group); i++) values[i] = first_value(w, group, i);
            whole = made(g, ROTA_F32, elements_of(w, group), values);
            views_of(w, group, whole, views);
            rank_ok(rota_sharding_take(t->shards[group], g->tape, views, EACH, t->values[group]));
            drop(whole); /* the graph has it */
        }
        if (w->dtype != ROTA_F32) rank_ok(rota_op_cast_into(g->tape, t->values[group], t->copies[group]));
    }
}

static void record_step(rank_graph *g, const way *w, training *t, bool is_sharded) {
    source s = {.g = g, .w = w, .t = t, .is_sharded = is_sharded};
    rota_tensor params[GROUPS], grads[GROUPS], loss, norm;
    const rota_data_parallel all = ROTA_DATA_PARALLEL(.communicator = g->communicator, .sum = w->sum);
    for (uint32_t group = 0; group < GROUPS; group++) {
        params[group] = read_by_ops(w, t, group);
        grads[group] = ROTA_TENSOR_NONE;
    }
    for (uint32_t pass = 0; pass < w->passes; pass++) {
        const bool reduces = !is_sharded && pass + 1 == w->passes;
        if (!is_sharded)
            for (uint32_t group = 0; group < GROUPS; group++) fetch(&s, group);
        loss = record_loss(&s, pass);
        rank_ok(rota_backward(
            g->tape, loss, params, GROUPS, grads,
            &ROTA_BACKWARD_OPTIONS(.accumulate = pass > 0, .data_parallel = reduces ? &all : NULL)));
    }
    rank_ok(rota_op_copy_into(g->tape, loss, t->loss));
    if (is_sharded)
        rank_ok(rota_op_global_norm_of_ranks(g->tape, g->communicator, grads, GROUPS, 0.5f, &norm));
    else
        rank_ok(rota_op_global_norm(g->tape, grads, GROUPS, 0.5f, &norm));
    rank_ok(rota_op_copy_into(g->tape, norm, t->norm));
    for (uint32_t group = 0; group < GROUPS; group++) update(g, t, group, grads[group]);
}

static void count_gathers(const rota_plan *plan, training *t) {
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rank_ok(rota_plan_get_stats(plan, &stats));
    t->arena_bytes = stats.arena_bytes;
    rota_plan_command *commands = calloc(stats.commands, sizeof *commands);
    commands[0].struct_size = sizeof *commands;
    rank_ok(rota_plan_get_commands(plan, commands, stats.commands));
    t->gathers = t->again = 0;
    for (uint64_t i = 0; i < stats.commands; i++) {
        if (commands[i].kind != ROTA_PLAN_HOST) continue;
        t->gathers += strcmp(commands[i].name, "unshard") == 0;
        t->again += strcmp(commands[i].name, "unshard_again") == 0;
        if (!t->first_again && strcmp(commands[i].name, "unshard_backward") == 0) t->first_again = t->again;
    }
    free(commands);
}

static void train(rota_runtime *runtime, rota_communicator *communicator, const way *w, training *t,
                  bool is_sharded, uint32_t steps) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    for (uint32_t group = 0; group < GROUPS && is_sharded; group++) {
        rota_tensor likes[EACH];
        likes_of(w, group, ROTA_F32, likes);
        rank_ok(rota_sharding_create_group(communicator, likes, EACH, &t->shards[group]));
    }
    make_states(&g, w, t);
    first_values(&g, w, t);
    compile(&g);
    if (is_sharded || w->dtype != ROTA_F32) rank_ok(run(&g));
    end(&g);
    begin(&g, runtime, communicator, true);
    record_step(&g, w, t, is_sharded);
    compile(&g);
    count_gathers(g.plan, t);
    for (uint32_t step = 0; step < steps; step++) rank_ok(run(&g));
    end(&g);
}

static void drop_all(training *t) {
    for (uint32_t group = 0; group < GROUPS; group++) {
        drop(t->values[group]), drop(t->m[group]), drop(t->v[group]);
        if (t->copies[group].buffer) drop(t->copies[group]);
        rota_sharding_release(t->shards[group]);
    }
    drop(t->norm), drop(t->loss);
}

/* ---- What is compared ---- */

static void want_close(const way *w, const char *what, uint32_t group, const float *a, const float *b,
                       uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        rank_want(w->tolerance > 0 ? fabsf(a[i] - b[i]) <= w->tolerance * (1 + fabsf(a[i]))
                                   : memcmp(&a[i], &b[i], sizeof *a) == 0,
                  "dim %llu: element %llu of %s of group %u is %.9g, expected %.9g",
                  (unsigned long long)w->dim, (unsigned long long)i, what, group, (double)b[i], (double)a[i]);
}

/* Shards become whole on all ranks, as for a checkpoint. */
static void want_alike(rota_runtime *runtime, rota_communicator *communicator, const way *w,
                       const training *a, const training *b) {
    static const char *const names[] = {"values", "first moments", "second moments"};
    float x[(DIM_MAX + 1) * DIM_MAX], y[(DIM_MAX + 1) * DIM_MAX], norms[2][2], losses[2];
    const rota_tensor *of_a[] = {a->values, a->m, a->v}, *of_b[] = {b->values, b->m, b->v};
    for (uint32_t i = 0; i < 3; i++) {
        rota_tensor whole[GROUPS], views[EACH];
        rank_graph g;
        begin(&g, runtime, communicator, false);
        for (uint32_t group = 0; group < GROUPS; group++) {
            views_of(w, group, whole[group] = zeroes(&g, elements_of(w, group)), views);
            rank_ok(rota_sharding_gather_shards(b->shards[group], g.tape, of_b[i][group], views, EACH));
        }
        compile(&g);
        rank_ok(run(&g));
        end(&g);
        for (uint32_t group = 0; group < GROUPS; group++) {
            get(of_a[i][group], x), get(whole[group], y);
            want_close(w, names[i], group, x, y, elements_of(w, group));
            rank_want(x[0] != 0 && (i > 0 || x[0] != first_value(w, group, 0)), "group %u learns nothing",
                      group);
            drop(whole[group]);
        }
    }
    get(a->norm, norms[0]), get(b->norm, norms[1]), get(a->loss, &losses[0]), get(b->loss, &losses[1]);
    want_close(w, "the loss", 0, &losses[0], &losses[1], 1);
    for (uint32_t i = 0; i < 2; i++)
        rank_want(fabsf(norms[0][i] - norms[1][i]) <= 1e-5f * norms[0][i] && norms[0][i] > 0,
                  "norm or factor %g, expected %g", (double)norms[1][i], (double)norms[0][i]);
}

static void want_pieces(const way *w, const training *t) {
    for (uint32_t group = 0; group < GROUPS; group++) {
        const rota_shard_piece *pieces;
        uint32_t count;
        uint64_t end = 0;
        rank_ok(rota_sharding_get_pieces(t->shards[group], &pieces, &count));
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t all = pieces[i].parameter ? w->dim : rows_of(w, group) * w->dim;
            rank_want(pieces[i].offset >= end && pieces[i].count > 0 && !pieces[i].gradient.buffer,
                      "piece %u", i);
            rank_want(pieces[i].parameter < EACH && pieces[i].first + pieces[i].count <= all, "piece %u", i);
            end = pieces[i].offset + pieces[i].count;
        }
        rank_want(end <= rota_sharding_elements(t->shards[group]), "%llu elements", (unsigned long long)end);
    }
}

void rank_unshards(rota_runtime *runtime, rota_communicator *communicator) {
    static const way ways[] = {
        {.dim = 7, .dtype = ROTA_F32, .passes = 1},
        {.dim = 64, .dtype = ROTA_F32, .ahead = true, .passes = 1},
        {.dim = 13, .dtype = ROTA_F32, .sum = true, .ahead = true, .passes = 1},
        {.dim = 16, .dtype = ROTA_F32, .keep = true, .passes = 1},
        {.dim = 64, .dtype = ROTA_BF16, .ahead = true, .passes = 1},
        {.dim = 8, .dtype = ROTA_F16, .passes = 1},
        {.dim = 1, .dtype = ROTA_F32, .passes = 1}, /* fewer elements than ranks */
        /* What is added up in another order. */
        {.dim = 64, .dtype = ROTA_F32, .twice = true, .ahead = true, .passes = 1, .tolerance = 3e-5f},
        {.dim = 32, .dtype = ROTA_F32, .ahead = true, .passes = 3, .tolerance = 3e-5f},
        {.dim = 32, .dtype = ROTA_F32, .twice = true, .sum = true, .passes = 2, .tolerance = 3e-5f},
    };
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const way *w = &ways[i];
        training whole = {0}, sharded = {0};
        train(runtime, communicator, w, &whole, false, STEPS);
        train(runtime, communicator, w, &sharded, true, STEPS);
        want_alike(runtime, communicator, w, &whole, &sharded);
        want_pieces(w, &sharded);
        rank_want(whole.gathers == 0 && sharded.gathers == w->passes * (GROUPS + w->twice), "%u gathers",
                  sharded.gathers);
        /* The table's second gather is read by a gradient, the first one's ops read none of it. */
        rank_want(sharded.again == (w->keep ? 0 : w->passes * GROUPS), "%u gathers in the backward pass",
                  sharded.again);
        /* Up to that, and one ahead of it: the table is read by the first op, too, and its gradient is the last. */
        rank_want(sharded.first_again == (w->keep    ? 0u
                                          : w->twice ? 2u
                                                     : 3u),
                  "%u gathers before the first gradients", sharded.first_again);
        drop_all(&whole), drop_all(&sharded);
    }
}

/* What a rank needs: all of it; the optimizer's state by shards; fully sharded, kept for the backward pass and not. */
void rank_unshards_need_less(rota_runtime *runtime, rota_communicator *communicator) {
    const way w = {.dim = 64, .dtype = ROTA_F32, .twice = true, .ahead = true, .passes = 1};
    way kept = w;
    kept.keep = true;
    training whole = {0}, full = {0}, held = {0};
    train(runtime, communicator, &w, &whole, false, 1);
    train(runtime, communicator, &w, &full, true, 1);
    train(runtime, communicator, &kept, &held, true, 1);
    const uint64_t size = rota_communicator_size(communicator), layer = elements_of(&w, 0) * 4;
    /* Beside the shards of all gradients: up to three layers that were gathered, and the gradients of two. */
    const uint64_t most = full.kept_bytes / 3 + 5 * layer;
    rank_want(full.arena_bytes < most, "%llu bytes, expected less than %llu",
              (unsigned long long)full.arena_bytes, (unsigned long long)most);
    rank_want(size == 1 || full.arena_bytes + layer < held.arena_bytes, "%llu bytes, kept %llu",
              (unsigned long long)full.arena_bytes, (unsigned long long)held.arena_bytes);
    /* Stage 1: values whole, moments by rank; it needs no less transient memory than what has whole gradients. */
    const uint64_t stage_1 = whole.arena_bytes + whole.kept_bytes / 3 + whole.kept_bytes * 2 / 3 / size;
    rank_want(size == 1 || full.arena_bytes + full.kept_bytes < stage_1, "%llu bytes, by ZeRO-1 %llu",
              (unsigned long long)(full.arena_bytes + full.kept_bytes), (unsigned long long)stage_1);
    if (getenv("ROTA_TEST_SAY") && rota_communicator_rank(communicator) == 0)
        (void)fprintf(stderr, "%llu ranks: arena + kept: whole %llu + %llu, full %llu + %llu, held %llu\n",
                      (unsigned long long)size, (unsigned long long)whole.arena_bytes,
                      (unsigned long long)whole.kept_bytes, (unsigned long long)full.arena_bytes,
                      (unsigned long long)full.kept_bytes, (unsigned long long)held.arena_bytes);
    drop_all(&whole), drop_all(&full), drop_all(&held);
}
