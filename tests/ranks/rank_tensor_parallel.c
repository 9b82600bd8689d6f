/* A model that is cut across ranks, by columns, rows and classes: its loss and gradients are those of one rank that has
 * all of it. */
#include <math.h>
#include <string.h>

#include "tests/ranks/rank_graph.h"

/* Tokens of a table, through a wide layer and back, to scores of the table's classes. Odd sizes: parts differ, and a
 * rank's rows of the table are padded. */
enum { ROWS = 7, DIM = 20, WIDE = 37, CLASSES = 29, PADDING = 3 };
enum { TABLE, W1, B1, W2, B2, PARAMS };
typedef struct cut {
    const char *name;
    uint64_t rows, columns; /* rows 1: of a vector */
    bool by_rows;           /* else by columns */
    bool is_whole;          /* on every rank */
} cut;
static const cut cuts[PARAMS] = {
    [TABLE] = {"table", CLASSES, DIM, true, false},
    [W1] = {"w1", DIM, WIDE, false, false},
    [B1] = {"b1", 1, WIDE, false, false},
    [W2] = {"w2", WIDE, DIM, true, false},
    [B2] = {"b2", 1, DIM, false, true},
};

typedef struct way {
    rota_dtype dtype;
    bool in_place, transposed;
    float smoothing;
    int32_t ignored;
    double bound; /* of the largest of a tensor's elements */
} way;

static float number(uint32_t seed, uint64_t i) {
    const uint32_t mixed = (uint32_t)(i * 2654435761u + (uint64_t)seed * 40503u + 977u);
    return (float)(mixed >> 8) / 16777216.0f - 0.5f;
}

/* f32 of either 16-bit dtype by its bits, and back by truncation, which both sides of a comparison have. */
static void store(rota_dtype dtype, const float *values, uint64_t count, void *out) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        if (dtype == ROTA_F32) ((float *)out)[i] = values[i];
        if (dtype == ROTA_BF16) ((uint16_t *)out)[i] = (uint16_t)(bits >> 16);
        if (dtype == ROTA_F16) {
            const uint32_t exponent = bits >> 23 & 255;
            const uint32_t half = exponent < 113 ? 0 : (exponent - 112) << 10 | (bits >> 13 & 1023);
            ((uint16_t *)out)[i] = (uint16_t)((bits >> 16 & 0x8000) | half);
        }
    }
}

static rota_tensor tensor(rank_graph *g, rota_dtype dtype, uint64_t rows, uint64_t columns,
                          const float *values) {
    uint8_t *bytes = calloc(rows * columns + 1, 4);
    if (values) store(dtype, values, rows * columns, bytes);
    rota_tensor x = made(g, dtype, rows * columns, bytes);
    free(bytes);
    if (rows > 1) rank_ok(rota_tensor_reshape(&x, ROTA_SHAPE(rows, columns), &x));
    return x;
}

/* Which of a parameter's rows and columns are this rank's; NULL: all. */
static void part_of(const cut *c, rota_communicator *ranks, rota_rank_part *out_rows,
                    rota_rank_part *out_columns) {
    *out_rows = rota_communicator_part(c->by_rows && !c->is_whole ? ranks : NULL, c->rows);
    *out_columns = rota_communicator_part(!c->by_rows && !c->is_whole ? ranks : NULL, c->columns);
}

/* A parameter's, or this rank's, with rows of the table behind them that nobody is to read; as [columns, rows] where
 * `turned`. */
static rota_tensor parameter(rank_graph *g, const way *w, uint32_t p, rota_communicator *ranks, bool turned) {
    const cut *c = &cuts[p];
    rota_rank_part rows, columns;
    part_of(c, ranks, &rows, &columns);
    const uint64_t padding = p == TABLE && ranks ? PADDING : 0, all = (rows.count + padding) * columns.count;
    float *values = calloc(all, sizeof *values);
    for (uint64_t i = 0; i < all; i++) values[i] = 3;
    for (uint64_t r = 0; r < rows.count; r++)
        for (uint64_t k = 0; k < columns.count; k++)
            values[turned ? k * rows.count + r : r * columns.count + k] =
                number(p, (rows.first + r) * c->columns + columns.first + k) * (c->rows == 1 ? 1.0f : 0.6f);
    const rota_tensor x = turned ? tensor(g, w->dtype, columns.count, rows.count, values)
                                 : tensor(g, w->dtype, rows.count + padding, columns.count, values);
    free(values);
    return x;
}

typedef struct outcome {
    float loss, *gradients[PARAMS]; /* f32, as the rank has them, without padding */
} outcome;

static void record_loss(rank_graph *g, const way *w, rota_communicator *ranks, const rota_tensor *params,
                        rota_tensor tokens, rota_tensor labels, rota_tensor *out_loss) {
    rota_tensor x, h, y, logits;
    const rota_linear first =
        ROTA_LINEAR(.bias = params[B1], .activation = ROTA_ACTIVATION_GELU, .transposed = w->transposed);
    if (!ranks) {
        rank_ok(rota_op_embedding(g->tape, params[TABLE], tokens, &x));
        rank_ok(rota_op_linear(g->tape, x, params[W1], &first, &h));
        rank_ok(rota_op_linear(g->tape, h, params[W2],
                               &ROTA_LINEAR(.bias = params[B2], .residual = x, .transposed = w->transposed),
                               &y));
        rank_ok(rota_op_matmul(g->tape, y, params[TABLE], false, true, &logits));
        rank_ok(rota_op_classifier(
            g->tape, logits, labels,
            &ROTA_CLASSIFIER(.ignored = w->ignored, .smoothing = w->smoothing, .in_place = w->in_place),
            out_loss));
        return;
    }
    const rota_rank_part part = rota_communicator_part(ranks, CLASSES);
    rank_ok(rota_op_embedding_of_ranks(g->tape, ranks, params[TABLE], tokens, part, &x));
    rank_ok(rota_op_linear_column(g->tape, ranks, x, params[W1], &first, &h));
    rank_ok(rota_op_linear_row(g->tape, ranks, h, params[W2],
                               &ROTA_LINEAR(.bias = params[B2], .residual = x, .transposed = w->transposed),
                               &y));
    rank_ok(rota_op_copy_to_ranks_into(g->tape, ranks, y, y));
    rank_ok(rota_op_matmul(g->tape, y, params[TABLE], false, true, &logits));
    rank_ok(rota_op_classifier_of_ranks(
        g->tape, ranks, logits, labels, part,
        &ROTA_CLASSIFIER(.ignored = w->ignored, .smoothing = w->smoothing, .in_place = w->in_place),
        out_loss));
}

static void learn(rota_runtime *runtime, rota_communicator *communicator, rota_communicator *ranks,
                  const way *w, outcome *out) {
    rank_graph g;
    int32_t numbers[2][ROWS];
    begin(&g, runtime, communicator, true);
    for (uint32_t i = 0; i < ROWS; i++) {
        numbers[0][i] = (int32_t)(i * 11 % CLASSES); /* of each rank some, and the last class */
        numbers[1][i] = i == 3 ? w->ignored : i == 5 ? CLASSES - 1 : (int32_t)((i * 13 + 4) % CLASSES);
    }
    const rota_tensor tokens = made(&g, ROTA_I32, ROWS, numbers[0]),
                      labels = made(&g, ROTA_I32, ROWS, numbers[1]);
    rota_tensor params[PARAMS], grads[PARAMS], wide[PARAMS], loss;
    for (uint32_t p = 0; p < PARAMS; p++) {
        params[p] = parameter(&g, w, p, ranks, w->transposed && (p == W1 || p == W2));
        grads[p] = ROTA_TENSOR_NONE;
    }
    const rota_tensor kept = made(&g, ROTA_F32, 1, NULL);
    record_loss(&g, w, ranks, params, tokens, labels, &loss);
    rank_ok(rota_op_copy_into(g.tape, loss, kept));
    rank_ok(rota_backward(g.tape, loss, params, PARAMS, grads, NULL));
    for (uint32_t p = 0; p < PARAMS; p++) {
        wide[p] = made(&g, ROTA_F32, rota_tensor_count(&grads[p]), NULL);
        rank_ok(rota_tensor_reshape(&grads[p], ROTA_SHAPE(rota_tensor_count(&grads[p])), &grads[p]));
        if (w->dtype == ROTA_F32)
            rank_ok(rota_op_copy_into(g.tape, grads[p], wide[p]));
        else
            rank_ok(rota_op_cast_into(g.tape, grads[p], wide[p]));
    }
    compile(&g);
    for (uint32_t replay = 0; replay < 2; replay++) {
        rank_ok(run(&g));
        get(kept, &out->loss);
        for (uint32_t p = 0; p < PARAMS; p++) {
            const uint64_t count = rota_tensor_count(&wide[p]);
            float *got = calloc(count, sizeof *got);
            get(wide[p], got);
            if (replay)
                rank_want(memcmp(got, out->gradients[p], count * sizeof *got) == 0, "replays differ in %s",
                          cuts[p].name);
            free(replay ? out->gradients[p] : NULL);
            out->gradients[p] = got;
        }
    }
    end(&g);
    for (uint32_t p = 0; p < PARAMS; p++) drop(params[p]), drop(wide[p]);
    drop(tokens), drop(labels), drop(kept);
}

static void compare(const way *w, uint32_t p, rota_communicator *ranks, const float *whole,
                    const float *own) {
    rota_rank_part rows, columns;
    const cut *c = &cuts[p];
    const bool turned = w->transposed && (p == W1 || p == W2);
    double most = 0, apart = 0;
    part_of(c, ranks, &rows, &columns);
    for (uint64_t i = 0; i < c->rows * c->columns; i++) most = fmax(most, fabs((double)whole[i]));
    for (uint64_t r = 0; r < rows.count; r++)
        for (uint64_t k = 0; k < columns.count; k++) {
            const uint64_t row = rows.first + r, column = columns.first + k;
            const double expected =
                (double)whole[turned ? column * c->rows + row : row * c->columns + column];
            const double got = (double)own[turned ? k * rows.count + r : r * columns.count + k];
            apart = fmax(apart, fabs(got - expected));
            rank_want(isfinite(got), "%s is not finite", c->name);
        }
    rank_want(most > 1e-4 && apart <= w->bound * most, "%s's gradient: %g apart, of %g", c->name, apart,
              most);
    for (uint64_t i = 0; p == TABLE && i < PADDING * (uint64_t)DIM; i++)
        rank_want(own[rows.count * DIM + i] == 0.0f, "rows behind the table have a gradient");
}

void rank_tensor_parallel(rota_runtime *runtime, rota_communicator *communicator) {
    static const way ways[] = {
        {ROTA_F32, false, false, 0, ROTA_IGNORED_LABEL, 1e-5},
        {ROTA_F32, true, true, 0.1f, 8, 1e-5},
        {ROTA_F16, true, false, 0, ROTA_IGNORED_LABEL, 0.01},
        {ROTA_F16, false, true, 0.1f, ROTA_IGNORED_LABEL, 0.01},
        {ROTA_BF16, true, false, 0, 8, 0.05},
        {ROTA_BF16, false, true, 0.1f, 8, 0.05},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const way *w = &ways[i];
        outcome whole = {0}, own = {0};
        learn(runtime, communicator, NULL, w, &whole);
        learn(runtime, communicator, communicator, w, &own);
        rank_want(fabs((double)(own.loss - whole.loss)) <= w->bound * (double)whole.loss,
                  "way %zu: loss %g, expected %g", i, (double)own.loss, (double)whole.loss);
        for (uint32_t p = 0; p < PARAMS; p++) {
            compare(w, p, communicator, whole.gradients[p], own.gradients[p]);
            free(whole.gradients[p]), free(own.gradients[p]);
        }
    }
}

/* ---- Dropout ---- */

enum { OUTER = 3, PARTED = 10, INNER = 4 };
#define OF_WHOLE ((uint64_t)OUTER * PARTED * INNER)

/* The mask of what is `part` of the whole, from a tape of one of two ranks with rows each. */
static void mask_of(rota_runtime *runtime, rota_communicator *communicator, rota_rank_part part, bool is_part,
                    float *out) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    rota_tape_destroy(g.tape);
    rank_ok(rota_tape_create(g.recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true, .rank = 1, .ranks = 2),
                             &g.tape));
    float ones[OF_WHOLE];
    for (uint64_t i = 0; i < OF_WHOLE; i++) ones[i] = 1;
    const uint64_t count = OUTER * part.count * INNER;
    const rota_tensor x = made(&g, ROTA_F32, count, ones), kept = made(&g, ROTA_F32, count, ones);
    rota_tensor y;
    rank_ok(rota_tensor_reshape(&x, ROTA_SHAPE(OUTER, part.count, INNER), &y));
    if (is_part)
        rank_ok(rota_op_dropout_of_part(g.tape, y, 1, part, 0.5f, ROTA_CONSTANT(7), ROTA_CONSTANT(3), &y));
    else
        rank_ok(rota_op_dropout(g.tape, y, 0.5f, ROTA_CONSTANT(7), ROTA_CONSTANT(3), &y));
    rank_ok(rota_tensor_reshape(&y, ROTA_SHAPE(count), &y));
    rank_ok(rota_op_copy_into(g.tape, y, kept));
    compile(&g);
    rank_ok(run(&g));
    get(kept, out);
    end(&g);
    drop(x), drop(kept);
}

void rank_dropout_parts(rota_runtime *runtime, rota_communicator *communicator) {
    float whole[OF_WHOLE], own[OF_WHOLE];
    const rota_rank_part part = rota_communicator_part(communicator, PARTED),
                         all = rota_communicator_part(NULL, PARTED);
    mask_of(runtime, communicator, all, false, whole);
    mask_of(runtime, communicator, part, true, own);
    uint64_t dropped = 0, seen = 0;
    for (uint64_t o = 0; o < OUTER; o++)
        for (uint64_t i = 0; i < part.count * INNER; i++, seen++) {
            const uint64_t of_whole = (o * PARTED + part.first) * INNER + i;
            rank_want(own[seen] == whole[of_whole], "element %llu", (unsigned long long)seen);
            dropped += own[seen] == 0.0f;
        }
    rank_want(dropped > seen / 5 && dropped < 4 * seen / 5, "%llu of %llu", (unsigned long long)dropped,
              (unsigned long long)seen);
}

/* ---- Masked classes ---- */

enum { OWN = 4 };

/* Classes of which some rows have none on some rank that counts: minus infinity is no NaN where others have more. */
void rank_masked_classes(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, true);
    const uint64_t all = (uint64_t)OWN * g.size;
    float *whole = calloc(3 * all, sizeof *whole), own[3 * OWN], losses[2],
          *slopes = calloc(3 * all, sizeof *slopes);
    for (uint64_t r = 0; r < 3; r++)
        for (uint64_t c = 0; c < all; c++) {
            const bool masked = r == 0 ? c < OWN : r == 1 && c >= all - OWN;
            whole[r * all + c] = masked ? -INFINITY : 3 * number(5, r * all + c);
            if (c / OWN == g.rank) own[r * OWN + c % OWN] = whole[r * all + c];
        }
    const int32_t numbers[3] = {OWN + 1, 0, 2};
    const rota_rank_part part = {UINT64_C(4) * g.rank, OWN, all};
    const rota_tensor x = tensor(&g, ROTA_F32, 3, all, whole), labels = made(&g, ROTA_I32, 3, numbers),
                      mine = tensor(&g, ROTA_F32, 3, OWN, own),
                      kept[2] = {made(&g, ROTA_F32, 1, NULL), made(&g, ROTA_F32, 1, NULL)};
    rota_tensor loss, grads[2] = {tensor(&g, ROTA_F32, 3, all, NULL), tensor(&g, ROTA_F32, 3, OWN, NULL)};
    rank_ok(rota_op_cross_entropy(g.tape, x, labels, &loss));
    rank_ok(rota_op_copy_into(g.tape, loss, kept[0]));
    rank_ok(rota_backward(g.tape, loss, &x, 1, &grads[0], NULL));
    rank_ok(rota_op_classifier_of_ranks(g.tape, communicator, mine, labels, part, NULL, &loss));
    rank_ok(rota_op_copy_into(g.tape, loss, kept[1]));
    rank_ok(rota_backward(g.tape, loss, &mine, 1, &grads[1], NULL));
    compile(&g);
    rank_ok(run(&g));
    get(kept[0], &losses[0]), get(kept[1], &losses[1]);
    rank_want(fabs((double)(losses[0] - losses[1])) < 1e-5, "loss %g, expected %g", (double)losses[1],
              (double)losses[0]);
    get(grads[0], slopes), get(grads[1], own);
    for (uint64_t i = 0; i < UINT64_C(3) * OWN; i++) {
        const double expected = (double)slopes[i / OWN * all + part.first + i % OWN];
        rank_want(fabs((double)own[i] - expected) < 1e-6, "gradient %g, expected %g", (double)own[i],
                  expected);
    }
    end(&g);
    drop(x), drop(labels), drop(mine), drop(kept[0]), drop(kept[1]), drop(grads[0]), drop(grads[1]);
    free(whole), free(slopes);
}

/* ---- Parts ---- */

void rank_parts(rota_runtime *runtime, rota_communicator *communicator) {
    (void)runtime;
    const uint32_t rank = rota_communicator_rank(communicator), size = rota_communicator_size(communicator);
    for (uint64_t whole = 0; whole < 40; whole++) {
        const rota_rank_part part = rota_communicator_part(communicator, whole);
        rank_want(part.whole == whole && part.count >= whole / size && part.count <= whole / size + 1,
                  "%u of %u", rank, size);
        rank_want(rank > 0 || part.first == 0, "the first begins at %llu", (unsigned long long)part.first);
        rank_want(rank + 1 < size || part.first + part.count == whole,
                  "the last does not end with the whole");
    }
    const rota_rank_part all = rota_communicator_part(NULL, 7),
                         large = rota_communicator_part(communicator, UINT64_MAX);
    rank_want(all.first == 0 && all.count == 7 && all.whole == 7, "of no ranks");
    rank_want(large.count >= UINT64_MAX / size &&
                  (rank + 1 < size || large.first + large.count == UINT64_MAX),
              "of 2^64 - 1");
}

/* ---- What is refused, before anything is recorded ---- */

static void refuse(rota_status status, const char *expected) {
    rank_want(status == ROTA_INVALID_ARGUMENT && strstr(rota_last_error(), expected), "%s: %s, expected %s",
              rota_status_name(status), rota_last_error(), expected);
}

void rank_tensor_parallel_refused(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, true);
    const int32_t numbers[ROWS] = {0};
    const rota_tensor table = tensor(&g, ROTA_F32, 5, DIM, NULL), x = tensor(&g, ROTA_F32, ROWS, 5, NULL),
                      bias = tensor(&g, ROTA_F32, 1, 6, NULL), none = ROTA_TENSOR_NONE,
                      index = made(&g, ROTA_I32, ROWS, numbers);
    rota_rank_part part = {0, 5, 10};
    rota_tensor y;
    refuse(rota_op_copy_to_ranks(g.tape, communicator, index, &y), "'copy_to_ranks'");
    refuse(rota_op_reduce_from_ranks(g.tape, communicator, index, &y), "'reduce_from_ranks'");
    refuse(rota_op_copy_to_ranks_into(g.tape, communicator, x, none), "the destination is missing");
    refuse(rota_op_reduce_from_ranks_into(g.tape, communicator, x, table), "destination 'y'");
    refuse(rota_op_copy_to_ranks(g.tape, NULL, x, &y), "communicator is NULL");
    refuse(rota_op_linear_row(g.tape, communicator, x, table, &ROTA_LINEAR(.bias = bias), &y),
           "expected one element a column");
    refuse(rota_op_linear_row(g.tape, communicator, x, table, &ROTA_LINEAR(.residual = x), &y),
           "expected one shape");
    refuse(rota_op_linear_row(g.tape, communicator, x, table, &ROTA_LINEAR(.activation = (rota_activation)9),
                              &y),
           "activation 9");
    refuse(rota_op_linear_row(g.tape, communicator, x, x, NULL, &y), "'matmul'");
    rota_tensor no_columns = table, no_rows = table;
    no_columns.shape[1] = no_rows.shape[0] = 0;
    refuse(rota_op_linear_column(g.tape, communicator, x, no_columns, NULL, &y), "expected one column");
    refuse(rota_op_linear_row(g.tape, communicator, x, no_rows, NULL, &y), "expected one row");
    refuse(rota_op_linear_row(g.tape, communicator, x, no_columns, &ROTA_LINEAR(.transposed = true), &y),
           "expected one row");
    refuse(rota_op_linear_column(g.tape, communicator, x, x, NULL, &y), "'linear'");
    refuse(rota_op_embedding_of_ranks(g.tape, communicator, x, x, part, &y), "'embedding'");
    part.count = 6;
    refuse(rota_op_embedding_of_ranks(g.tape, communicator, table, index, part, &y),
           "its first 6 rows are of 10");
    refuse(rota_op_dropout_of_part(g.tape, table, 0, part, 0.5f, ROTA_CONSTANT(1), ROTA_CONSTANT(1), &y),
           "expected 6 of 10 elements along axis 0");
    part = (rota_rank_part){6, 5, 10};
    refuse(rota_op_dropout_of_part(g.tape, table, 0, part, 0.5f, ROTA_CONSTANT(1), ROTA_CONSTANT(1), &y),
           "from element 6 on of 10 along axis 0");
    refuse(rota_op_embedding_of_ranks(g.tape, communicator, table, index, part, &y),
           "whose first class is 6 of 10");
    refuse(rota_op_classifier_of_ranks(g.tape, communicator, x, index, part, NULL, &y), "from 6 on, 5 of 10");
    part = (rota_rank_part){0, 0, 10};
    refuse(rota_op_classifier_of_ranks(g.tape, communicator, x, index, part, NULL, &y), "from 0 on, 0 of 10");
    part = (rota_rank_part){0, 6, 10};
    refuse(rota_op_classifier_of_ranks(g.tape, communicator, x, index, part, NULL, &y),
           "6 classes in logits");
    part.count = 5;
    refuse(
        rota_op_classifier_of_ranks(g.tape, communicator, x, index, part, &ROTA_CLASSIFIER(.classes = 5), &y),
        "5 classes, expected 0");
    compile(&g);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rank_ok(rota_plan_get_stats(g.plan, &stats));
    rank_want(stats.nodes <= 5, "%llu nodes were recorded", (unsigned long long)stats.nodes);
    end(&g);
    drop(table), drop(x), drop(bias), drop(index);
}

/* A label of no class fails on all ranks. */
void rank_labels_outside(rota_runtime *runtime, rota_communicator *communicator) {
    rank_graph g;
    begin(&g, runtime, communicator, false);
    const int32_t numbers[2] = {1, 40};
    const rota_tensor x = tensor(&g, ROTA_F32, 2, 10, NULL), labels = made(&g, ROTA_I32, 2, numbers);
    const rota_rank_part part = {UINT64_C(10) * g.rank, 10, UINT64_C(10) * g.size};
    rota_tensor y;
    rank_ok(rota_op_classifier_of_ranks(g.tape, communicator, x, labels, part, NULL, &y));
    compile(&g);
    const rota_status status = run(&g);
    rank_want(status == ROTA_NODE_FAILED, "%s: %s", rota_status_name(status), rota_last_error());
    end(&g);
    drop(x), drop(labels);
}
