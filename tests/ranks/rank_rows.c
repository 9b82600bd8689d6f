/* Gradients of tables, of which embeddings add all ranks' rows: as one rank with all of their batches has them. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "tests/ranks/rank_graph.h"

enum { TABLE, WEIGHT, BIAS, PARAMS };
#define EMBEDDINGS UINT64_C(2)
#define PASSES UINT64_C(2)
enum { REPLAYS = 3 };

typedef struct way {
    const char *label;
    uint64_t classes, dim;
    uint32_t rows;
    rota_dtype dtype;
    bool tied;       /* a head multiplies by the table, too */
    bool twice;      /* two embeddings */
    bool behind;     /* another one, of what is recorded behind the head */
    bool padded;     /* the parameter has more rows than embeddings read */
    bool sum, whole; /* rota_data_parallel */
    bool accumulate; /* what a pass before left is reduced with it */
    bool uneven;     /* each rank has another number of rows */
    bool alike;      /* all rows are of one class */
    bool goes_by_rows;
    double tolerance; /* of the largest element */
} way;

static float number(uint32_t seed, uint64_t i) {
    const uint32_t mixed = (uint32_t)(i * 2654435761u + (uint64_t)seed * 40503u + 977u);
    return (float)(mixed >> 8) / 16777216.0f - 0.5f;
}

static uint32_t rows_of(const way *w, uint32_t rank) {
    return w->rows + (w->uneven ? rank : 0);
}

/* Many of one class, and some of the same on several ranks. */
static int32_t class_of(const way *w, uint32_t rank, uint32_t pass, uint32_t embedding, uint32_t row) {
    if (w->alike) return 7;
    const uint64_t hash = (rank * UINT64_C(7919) + pass * UINT64_C(104729) + embedding * UINT64_C(31) + row) *
                          UINT64_C(2654435761) % UINT64_C(1000003);
    return (int32_t)(hash % 5 == 0 ? 3 : hash % w->classes);
}

static uint64_t elements_of(const way *w, uint32_t p) {
    const uint64_t rows = w->classes + (w->padded ? 24 : 0);
    return p == TABLE ? rows * w->dim : p == WEIGHT ? w->dim * w->dim : w->dim;
}

static void *to_dtype(rota_dtype dtype, const float *values, uint64_t count) {
    void *out = calloc(count, rota_dtype_bytes(dtype));
    for (uint64_t i = 0; i < count; i++) {
        if (dtype == ROTA_F32) ((float *)out)[i] = values[i];
        if (dtype == ROTA_F16) ((uint16_t *)out)[i] = rota_to_f16(values[i]);
        if (dtype == ROTA_BF16) ((uint16_t *)out)[i] = rota_to_bf16(values[i]);
    }
    return out;
}

static double element(rota_dtype dtype, const void *values, uint64_t i) {
    if (dtype == ROTA_F32) return (double)((const float *)values)[i];
    const uint16_t word = ((const uint16_t *)values)[i];
    return (double)(dtype == ROTA_F16 ? rota_from_f16(word) : rota_from_bf16(word));
}

typedef struct network {
    rota_tensor params[PARAMS], grads[PARAMS]; /* each a buffer */
    rota_tensor index;                         /* [PASSES, EMBEDDINGS, rows] */
    uint64_t rows;
} network;

/* Of this rank's rows, or of those of all ranks. */
static void make_network(rank_graph *g, const way *w, bool of_all, network *out) {
    const uint32_t first = of_all ? 0 : g->rank, end = of_all ? g->size : g->rank + 1;
    out->rows = 0;
    for (uint32_t r = first; r < end; r++) out->rows += rows_of(w, r);
    int32_t *index = calloc(PASSES * EMBEDDINGS * out->rows, sizeof *index), *next = index;
    for (uint32_t pass = 0; pass < PASSES; pass++)
        for (uint32_t e = 0; e < EMBEDDINGS; e++)
            for (uint32_t r = first; r < end; r++)
                for (uint32_t i = 0; i < rows_of(w, r); i++) *next++ = class_of(w, r, pass, e, i);
    out->index = made(g, ROTA_I32, PASSES * EMBEDDINGS * out->rows, index);
    free(index);
    for (uint32_t p = 0; p < PARAMS; p++) {
        const uint64_t count = elements_of(w, p);
        float *values = calloc(count, sizeof *values);
        for (uint64_t i = 0; i < count; i++) values[i] = number(p, i);
        void *bytes = to_dtype(w->dtype, values, count);
        out->params[p] = made(g, w->dtype, count, bytes);
        out->grads[p] = made(g, w->dtype, count, bytes); /* what was there counts for nothing */
        free(bytes);
        free(values);
    }
}

static void drop_network(network *n) {
    for (uint32_t p = 0; p < PARAMS; p++) drop(n->params[p]), drop(n->grads[p]);
    drop(n->index);
}

static void shape_all(const way *w, const rota_tensor *flat, rota_tensor *out) {
    rank_ok(
        rota_tensor_reshape(&flat[TABLE], ROTA_SHAPE(elements_of(w, TABLE) / w->dim, w->dim), &out[TABLE]));
    rank_ok(rota_tensor_reshape(&flat[WEIGHT], ROTA_SHAPE(w->dim, w->dim), &out[WEIGHT]));
    out[BIAS] = flat[BIAS];
}

static void embed(rank_graph *g, const way *w, const network *n, rota_tensor table, uint32_t pass, uint32_t e,
                  rota_tensor *out) {
    rota_tensor index;
    rank_ok(rota_tensor_slice(&n->index, 0, (pass * EMBEDDINGS + e) * n->rows, n->rows, &index));
    if (e) rank_ok(rota_tensor_reshape(&index, ROTA_SHAPE(1, n->rows), &index));
    rank_ok(rota_op_embedding(g->tape, table, index, out));
    rank_ok(rota_tensor_reshape(out, ROTA_SHAPE(n->rows, w->dim), out));
}

static void record_loss(rank_graph *g, const way *w, const network *n, const rota_tensor *params,
                        uint32_t pass, rota_tensor *out_loss) {
    rota_tensor table = params[TABLE], h, other;
    if (w->padded) rank_ok(rota_tensor_slice(&table, 0, 16, w->classes, &table));
    embed(g, w, n, table, pass, 0, &h);
    if (w->twice) {
        embed(g, w, n, table, pass, 1, &other);
        rank_ok(rota_op_mul(g->tape, h, other, &h));
    }
    rank_ok(rota_op_matmul(g->tape, h, params[WEIGHT], false, false, &h));
    rank_ok(rota_op_add(g->tape, h, params[BIAS], &h));
    rank_ok(rota_op_gelu(g->tape, h, &h));
    if (w->tied) rank_ok(rota_op_matmul(g->tape, h, params[TABLE], false, true, &h));
    if (w->dtype != ROTA_F32) rank_ok(rota_op_cast(g->tape, h, ROTA_F32, &h));
    rank_ok(rota_op_mul(g->tape, h, h, &h));
    rank_ok(rota_tensor_reshape(&h, ROTA_SHAPE(rota_tensor_count(&h)), &h));
    rank_ok(rota_op_sum(g->tape, h, 0, false, out_loss));
    if (!w->behind) return;
    embed(g, w, n, table, pass, 1, &other);
    rank_ok(rota_op_mul(g->tape, other, other, &other));
    rank_ok(rota_op_sum(g->tape, other, 0, false, &other));
    rank_ok(rota_op_sum(g->tape, other, 0, false, &other));
    rank_ok(rota_op_add(g->tape, *out_loss, other, out_loss));
}

static uint32_t commands_named(const rota_plan *plan, const char *text) {
    uint32_t found = 0;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rank_ok(rota_plan_get_stats(plan, &stats));
    rota_plan_command *commands = calloc(stats.commands, sizeof *commands);
    commands[0].struct_size = sizeof *commands;
    rank_ok(rota_plan_get_commands(plan, commands, stats.commands));
    for (uint64_t i = 0; i < stats.commands; i++)
        found += strstr(commands[i].name, text) != NULL && commands[i].kind == ROTA_PLAN_HOST;
    free(commands);
    return found;
}

static void expect_commands(const rank_graph *g, const way *w) {
    const bool many = g->size > 1;
    const uint32_t rows = commands_named(g->plan, ", rows of all ranks"),
                   buckets = commands_named(g->plan, ", bucket ");
    const uint32_t wanted = many && w->goes_by_rows ? 1 + w->twice : 0;
    rank_want(rows == wanted, "%s: rows of %u embeddings go round, not %u", w->label, rows, wanted);
    const uint32_t table = w->tied || !w->goes_by_rows;
    rank_want(buckets == (many ? PARAMS - 1 + table : 0), "%s: %u buckets", w->label, buckets);
}

/* Gradients of all ranks' means or sums, by a data parallel step, or by one rank that has all rows; out[p] are new. */
static rota_status gradients_by(rota_runtime *runtime, rota_communicator *communicator, const way *w,
                                bool alone, void **out) {
    rank_graph g;
    network n;
    rota_tensor params[PARAMS], grads[PARAMS], loss;
    begin(&g, runtime, communicator, true);
    make_network(&g, w, alone, &n);
    shape_all(w, n.params, params);
    shape_all(w, n.grads, grads);
    const rota_data_parallel parallel = ROTA_DATA_PARALLEL(.communicator = communicator, .bucket_bytes = 1,
                                                           .sum = w->sum, .whole_tables = w->whole);
    for (uint32_t pass = 0; pass < 1u + w->accumulate; pass++) {
        record_loss(&g, w, &n, params, pass, &loss);
        if (alone && !w->sum) rank_ok(rota_op_scale(g.tape, loss, ROTA_PLAIN(1.0 / g.size), &loss));
        const bool reduces = !alone && pass == w->accumulate;
        rank_ok(rota_backward(
            g.tape, loss, params, PARAMS, grads,
            &ROTA_BACKWARD_OPTIONS(.accumulate = pass > 0, .data_parallel = reduces ? &parallel : NULL)));
    }
    compile(&g);
    if (!alone) expect_commands(&g, w);
    rota_status status = ROTA_OK;
    for (uint32_t replay = 0; replay < REPLAYS && status == ROTA_OK; replay++) {
        status = run(&g);
        for (uint32_t p = 0; p < PARAMS && status == ROTA_OK; p++) {
            const uint64_t bytes = elements_of(w, p) * rota_dtype_bytes(w->dtype);
            void *got = malloc(bytes);
            get(n.grads[p], got);
            rank_want(!replay || memcmp(got, out[p], bytes) == 0, "%s: replay %u of gradient %u differs",
                      w->label, replay, p);
            if (replay) free(out[p]);
            out[p] = got;
        }
    }
    end(&g);
    drop_network(&n);
    return status;
}

/* All ranks have the same, to the bit: their weights stay alike. */
static void expect_alike(rota_runtime *runtime, rota_communicator *communicator, const way *w,
                         void *const *got) {
    for (uint32_t p = 0; p < PARAMS; p++) {
        rank_graph g;
        const uint64_t count = elements_of(w, p), bytes = count * rota_dtype_bytes(w->dtype);
        begin(&g, runtime, communicator, false);
        const rota_tensor x = made(&g, w->dtype, count, got[p]);
        rank_ok(rota_op_broadcast_from_into(g.tape, communicator, 0, x, x));
        compile(&g);
        rank_ok(run(&g));
        void *of_first = malloc(bytes);
        get(x, of_first);
        rank_want(memcmp(of_first, got[p], bytes) == 0, "%s: gradient %u is not rank 0's", w->label, p);
        free(of_first);
        end(&g);
        drop(x);
    }
}

static void expect_way(rota_runtime *runtime, rota_communicator *communicator, const way *w) {
    void *wanted[PARAMS], *got[PARAMS];
    rank_ok(gradients_by(runtime, communicator, w, true, wanted));
    rank_ok(gradients_by(runtime, communicator, w, false, got));
    expect_alike(runtime, communicator, w, got);
    for (uint32_t p = 0; p < PARAMS; p++) {
        double largest = 0;
        const uint64_t count = elements_of(w, p);
        for (uint64_t i = 0; i < count; i++) largest = fmax(largest, fabs(element(w->dtype, wanted[p], i)));
        rank_want(largest > 0, "%s: gradient %u is 0", w->label, p);
        for (uint64_t i = 0; i < count; i++) {
            const double exact = element(w->dtype, wanted[p], i), is = element(w->dtype, got[p], i);
            rank_want(fabs(is - exact) <= w->tolerance * largest,
                      "%s: element %llu of gradient %u is %g, not %g; the largest is %g", w->label,
                      (unsigned long long)i, p, is, exact, largest);
        }
        free(wanted[p]), free(got[p]);
    }
}

#define TIED .classes = 600, .dim = 40, .rows = 9, .tied = true, .tolerance = 1e-5
#define SMALL .classes = 600, .dim = 40, .rows = 9, .tolerance = 1e-5

void rank_rows(rota_runtime *runtime, rota_communicator *communicator) {
    static const way ways[] = {
        {"tied", TIED, .goes_by_rows = true},
        {"tied, all of one class", TIED, .alike = true, .goes_by_rows = true},
        {"tied, two embeddings", TIED, .twice = true, .goes_by_rows = true},
        {"tied, one behind the head", TIED, .behind = true, .goes_by_rows = true},
        {"tied, sum", TIED, .sum = true, .goes_by_rows = true},
        {"tied, padded", TIED, .padded = true, .twice = true, .goes_by_rows = true},
        {"tied, accumulated", TIED, .accumulate = true, .twice = true, .goes_by_rows = true},
        {"tied, whole", TIED, .whole = true},
        {"tied, whole, uneven", TIED, .whole = true, .uneven = true},
        {"untied", SMALL, .goes_by_rows = true},
        {"untied, two embeddings, sum", SMALL, .twice = true, .sum = true, .goes_by_rows = true},
        {"untied, padded", SMALL, .padded = true, .goes_by_rows = true},
        /* What is there must be reduced, too, and is there before the embedding. */
        {"untied, accumulated", SMALL, .accumulate = true},
        /* Less than is worth a collective by itself. */
        {"a small table", .classes = 60, .dim = 40, .rows = 3, .tied = true, .tolerance = 1e-5},
        /* More rows than the table has. */
        {"many rows", .classes = 600, .dim = 40, .rows = 700, .twice = true, .tied = true, .tolerance = 1e-5},
        {"f16", .classes = 900, .dim = 40, .rows = 9, .dtype = ROTA_F16, .twice = true, .tied = true,
         .goes_by_rows = true, .tolerance = 0.01},
        {"bf16", .classes = 900, .dim = 40, .rows = 9, .dtype = ROTA_BF16, .tied = true, .goes_by_rows = true,
         .tolerance = 0.03},
        {"bf16, untied", .classes = 901, .dim = 39, .rows = 9, .dtype = ROTA_BF16, .goes_by_rows = true,
         .tolerance = 0.03},
    };
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) expect_way(runtime, communicator, &ways[i]);
}

/* With devices a gradient is reduced where it lies from 8 MiB on. */
void rank_rows_large(rota_runtime *runtime, rota_communicator *communicator) {
    static const way ways[] = {
        {"large", .classes = 8200, .dim = 256, .rows = 9, .tied = true, .goes_by_rows = true,
         .tolerance = 1e-5},
        {"large, untied", .classes = 8200, .dim = 256, .rows = 9, .twice = true, .goes_by_rows = true,
         .tolerance = 1e-5},
    };
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) expect_way(runtime, communicator, &ways[i]);
}

/* Ranks whose embeddings have other numbers of rows are told which gradient that is, before anything is added up. */
void rank_rows_uneven(rota_runtime *runtime, rota_communicator *communicator) {
    static const way uneven = {"uneven", TIED, .uneven = true, .goes_by_rows = true};
    void *got[PARAMS];
    const rota_status status = gradients_by(runtime, communicator, &uneven, false, got);
    rank_want(status == ROTA_NODE_FAILED, "taken: %s", rota_status_name(status));
    rank_want(strstr(rota_last_error(), "gradient 0, rows of all ranks"), "%s", rota_last_error());
}
