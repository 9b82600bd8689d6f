/* Fully sharded parameters beside what is not a plain row of ops: nodes that decide, several losses, parameters without
 * gradients; and what is refused. */
#include <math.h>
#include <string.h>

#include "tests/ranks/rank_graph.h"

enum { COUNT = 70 };

static rota_tensor alike(rank_graph *g, const float *values, rota_sharding **out_group,
                         rota_tensor *out_shard) {
    const rota_tensor whole = made(g, ROTA_F32, COUNT, values);
    rank_ok(rota_sharding_create_group(g->communicator, &whole, 1, out_group));
    *out_shard = made(g, ROTA_F32, rota_sharding_elements(*out_group), NULL);
    rank_ok(rota_sharding_take(*out_group, g->tape, &whole, 1, *out_shard));
    return whole;
}

static void multiply(rota_tape *tape, rota_tensor x, rota_tensor w, rota_tensor y) {
    rota_tensor product;
    rank_ok(rota_op_mul(tape, x, w, &product));
    rank_ok(rota_op_mul_into(tape, product, w, y));
}

/* y = x w w, by a body or without. */
static void record_product(rank_graph *g, bool decides, rota_tensor x, rota_tensor w, rota_tensor y) {
    rota_graph *body;
    rota_recorder *lane;
    rota_tape *tape;
    rota_buffer *word;
    if (!decides) {
        multiply(g->tape, x, w, y);
        return;
    }
    rank_ok(rota_graph_create_body(g->graph, "body", &body));
    rank_ok(rota_recorder_open(body, 0, NULL, &lane));
    rank_ok(rota_tape_create(lane, NULL, &tape));
    multiply(tape, x, w, y);
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    rank_ok(rota_graph_buffer(g->graph, ROTA_BUFFER_TRANSIENT, "word", 4, &word));
    rank_ok(rota_record_fill(g->recorder, word, 0, 4, 1, NULL));
    rank_ok(
        rota_record_if(g->recorder, &ROTA_IF_NODE(.name = "choose", .condition = word, .body = body), NULL));
}

/* The gradients of w, which is gathered or whole, and of x, in `out` [2 * COUNT]. */
static void product_gradients(rota_runtime *runtime, rota_communicator *communicator, bool sharded,
                              bool decides, bool frozen, float *out) {
    rank_graph g;
    float values[2][COUNT];
    rota_sharding *group;
    rota_tensor shard, w, y, z, loss[2], params[2], grads[2] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE};
    begin(&g, runtime, communicator, true);
    for (uint32_t i = 0; i < COUNT; i++) {
        values[0][i] = 0.5f + 0.01f * (float)i;
        values[1][i] = 1.0f + 0.25f * (float)(i % 5) + (float)g.rank;
    }
    const rota_tensor whole = alike(&g, values[0], &group, &shard), x = made(&g, ROTA_F32, COUNT, values[1]);
    rank_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_TRANSIENT, "y", ROTA_F32, ROTA_SHAPE(COUNT), &y));
    rank_ok(rota_op_fill_into(g.tape, y, 0));
    w = whole;
    if (sharded) rank_ok(rota_sharding_unshard(group, g.tape, shard, &ROTA_UNSHARD(.sum = true), 1, &w));
    rank_ok(rota_op_mul(g.tape, x, w, &z));
    record_product(&g, decides, x, w, y);
    rank_ok(rota_op_mul(g.tape, y, z, &y));
    rank_ok(rota_op_sum(g.tape, y, 0, false, &loss[0]));
    rank_ok(rota_op_sum(g.tape, z, 0, false, &loss[1]));
    params[0] = x;
    params[1] = sharded ? shard : whole;
    rank_ok(rota_backward_losses(g.tape, loss, 2, params, frozen ? 1 : 2, grads, NULL));
    const rota_tensor outs[2] = {made(&g, ROTA_F32, COUNT, NULL), made(&g, ROTA_F32, COUNT, NULL)};
    memset(out, 0, sizeof(float[2 * COUNT]));
    rank_ok(rota_op_copy_into(g.tape, grads[0], outs[0]));
    if (!frozen && sharded)
        rank_ok(rota_sharding_gather_shards(group, g.tape, grads[1], &outs[1], 1));
    else if (!frozen)
        rank_ok(rota_op_all_reduce_into(g.tape, communicator, grads[1], ROTA_COLLECTIVE_SUM, outs[1]));
    compile(&g);
    rank_ok(run(&g));
    get(outs[0], out);
    if (!frozen) get(outs[1], out + COUNT);
    end(&g);
    rota_sharding_release(group);
    drop(whole), drop(x), drop(shard), drop(outs[0]), drop(outs[1]);
}

void rank_unshard_kinds(rota_runtime *runtime, rota_communicator *communicator) {
    float expected[2 * COUNT], got[2 * COUNT];
    for (uint32_t frozen = 0; frozen < 2; frozen++) {
        product_gradients(runtime, communicator, false, false, frozen, expected);
        for (uint32_t decides = 0; decides < 2; decides++) {
            product_gradients(runtime, communicator, true, decides, frozen, got);
            for (uint32_t i = 0; i < 2 * COUNT; i++)
                rank_want(fabsf(got[i] - expected[i]) <= 1e-5f * fabsf(expected[i]) &&
                              (expected[i] > 0 || (frozen && i >= COUNT)),
                          "element %u is %g, expected %g", i, (double)got[i], (double)expected[i]);
        }
    }
}

/* ---- Whole gradients, reduced when they are added up ---- */

static void record_two(rank_graph *g, rota_sharding *group, const rota_tensor likes[2], bool sum,
                       bool elsewhere, rota_tensor shard) {
    rota_tensor tensors[2], ramp;
    float values[COUNT];
    rank_ok(rota_sharding_tensors(group, g->tape, ROTA_F32, 2, tensors));
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t count = likes[i].shape[0];
        rank_want(tensors[i].shape[0] == count && tensors[i].rank == 1, "tensor %u", i);
        if (elsewhere)
            rank_ok(rota_tape_tensor(g->tape, ROTA_BUFFER_TRANSIENT, "x", ROTA_F32, ROTA_SHAPE(count),
                                     &tensors[i]));
        for (uint32_t k = 0; k < count; k++) values[k] = (float)(k + 1) * (float)(1 + i + g->rank);
        ramp = made(g, ROTA_F32, count, values);
        rank_ok(rota_op_copy_into(g->tape, ramp, tensors[i]));
        drop(ramp); /* the graph has it */
    }
    rank_ok(rota_sharding_reduce(group, g->tape, tensors, 2, sum, shard));
}

/* The zeroes between and behind them have stayed. */
static void want_zeroes_between(const rota_sharding *group, rota_tensor shard) {
    float *own = calloc(rota_sharding_elements(group), sizeof *own);
    const rota_shard_piece *pieces;
    uint32_t count;
    uint64_t next = 0;
    get(shard, own);
    rank_ok(rota_sharding_get_pieces(group, &pieces, &count));
    for (uint32_t i = 0; i <= count; i++) {
        const uint64_t first = i < count ? pieces[i].offset : rota_sharding_elements(group);
        for (; next < first; next++) rank_want(own[next] == 0, "%g between pieces", (double)own[next]);
        if (i < count) next += pieces[i].count;
    }
    free(own);
}

static void reduce_by(rota_runtime *runtime, rota_communicator *communicator, bool sum, bool elsewhere) {
    rank_graph g;
    rota_tensor likes[2], outs[2];
    rota_sharding *group;
    float got[COUNT], ranks = 0;
    begin(&g, runtime, communicator, true);
    rank_ok(rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(COUNT), &likes[0]));
    rank_ok(rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(13), &likes[1]));
    rank_ok(rota_sharding_create_group(communicator, likes, 2, &group));
    const rota_tensor shard = made(&g, ROTA_F32, rota_sharding_elements(group), NULL);
    record_two(&g, group, likes, sum, elsewhere, shard);
    for (uint32_t i = 0; i < 2; i++) outs[i] = made(&g, ROTA_F32, likes[i].shape[0], NULL);
    rank_ok(rota_sharding_gather_shards(group, g.tape, shard, outs, 2));
    compile(&g);
    for (uint32_t replay = 0; replay < 2; replay++) rank_ok(run(&g));
    end(&g);
    for (uint32_t r = 0; r < g.size; r++) ranks += (float)r;
    for (uint32_t i = 0; i < 2; i++) {
        get(outs[i], got);
        for (uint32_t k = 0; k < likes[i].shape[0]; k++) {
            const float all = (float)(k + 1) * ((float)((1 + i) * g.size) + ranks),
                        expected = sum ? all : all / (float)g.size;
            rank_want(fabsf(got[k] - expected) <= 1e-5f * expected, "element %u is %g, expected %g", k,
                      (double)got[k], (double)expected);
        }
        drop(outs[i]);
    }
    want_zeroes_between(group, shard);
    rota_sharding_release(group);
    drop(shard);
}

void rank_unshard_reduces(rota_runtime *runtime, rota_communicator *communicator) {
    for (uint32_t way = 0; way < 4; way++) reduce_by(runtime, communicator, (way & 1) != 0, (way & 2) != 0);
}

/* ---- What is refused ---- */

static void want_refused(rota_status status, rota_status expected, const char *sentence) {
    rank_want(status == expected && strstr(rota_last_error(), sentence), "'%s' does not say '%s'",
              rota_last_error(), sentence);
}

/* What reads w, and a loss of it. */
static rota_status backward_of(rank_graph *g, rota_tensor w, rota_tensor param,
                               const rota_data_parallel *parallel) {
    rota_tensor y, loss, grad = ROTA_TENSOR_NONE;
    rank_ok(rota_op_mul(g->tape, w, w, &y));
    rank_ok(rota_op_sum(g->tape, y, 0, false, &loss));
    return rota_backward(g->tape, loss, &param, 1, &grad, &ROTA_BACKWARD_OPTIONS(.data_parallel = parallel));
}

static void overwrite_by_body(rank_graph *g, rota_tensor x) {
    rota_graph *body;
    rota_recorder *lane;
    rota_tape *tape;
    rota_buffer *word;
    rank_ok(rota_graph_create_body(g->graph, "body", &body));
    rank_ok(rota_recorder_open(body, 0, NULL, &lane));
    rank_ok(rota_tape_create(lane, NULL, &tape));
    rank_ok(rota_op_fill_into(tape, x, 7));
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    rank_ok(rota_graph_buffer(g->graph, ROTA_BUFFER_TRANSIENT, "word", 4, &word));
    rank_ok(rota_record_fill(g->recorder, word, 0, 4, 1, NULL));
    rank_ok(rota_record_if(g->recorder, &ROTA_IF_NODE(.name = "overwrites", .condition = word, .body = body),
                           NULL));
}

/* What is to be gathered again, and what was gathered, stay as they are. */
static void refuse_overwritten(rank_graph *g, rota_sharding *group, rota_tensor shard, rota_tensor x) {
    rota_tensor w, y, norm = ROTA_TENSOR_NONE;
    rank_ok(rota_sharding_unshard(group, g->tape, shard, NULL, 1, &w));
    rank_ok(rota_op_fill_into(g->tape, w, 1));
    want_refused(backward_of(g, w, shard, NULL), ROTA_WRONG_STATE, "op 'fill' wrote gathered parameters");
    rank_ok(rota_sharding_unshard(group, g->tape, shard, NULL, 1, &w));
    rank_ok(rota_op_fill_into(g->tape, shard, 1));
    want_refused(backward_of(g, w, shard, NULL), ROTA_WRONG_STATE, "op 'unshard' needs its 'x'");
    /* Nor may a shard be overwritten that gets no gradient, but is read by another one's. */
    rank_ok(rota_sharding_unshard(group, g->tape, shard, NULL, 1, &w));
    rank_ok(rota_op_mul(g->tape, x, w, &y));
    rank_ok(rota_op_fill_into(g->tape, shard, 1));
    rank_ok(rota_op_sum(g->tape, y, 0, false, &y));
    want_refused(rota_backward(g->tape, y, &x, 1, &norm, NULL), ROTA_WRONG_STATE,
                 "op 'unshard' needs its 'x'");
    /* By a body. */
    for (uint32_t of_shard = 0; of_shard < 2; of_shard++) {
        rank_ok(rota_sharding_unshard(group, g->tape, shard, NULL, 1, &w));
        overwrite_by_body(g, of_shard ? shard : w);
        rank_ok(rota_op_mul(g->tape, x, w, &y));
        rank_ok(rota_op_sum(g->tape, y, 0, false, &y));
        norm = ROTA_TENSOR_NONE;
        want_refused(rota_backward(g->tape, y, &x, 1, &norm, NULL), ROTA_WRONG_STATE,
                     of_shard ? "which a body of node 'overwrites' overwrote"
                              : "a body of node 'overwrites' wrote gathered parameters");
    }
    /* Kept, it may be overwritten by then. */
    rank_ok(rota_sharding_unshard(group, g->tape, shard, &ROTA_UNSHARD(.keep = true), 1, &w));
    rank_ok(rota_op_fill_into(g->tape, shard, 1));
    rank_ok(backward_of(g, w, shard, NULL));
}

void rank_unshard_refused(rota_runtime *runtime, rota_communicator *communicator) {
    float values[COUNT] = {0};
    rank_graph g;
    rota_sharding *group, *none, *filled;
    rota_tensor shard, w, norm, empty;
    rota_graph *body;
    rota_recorder *lane;
    rota_tape *tape;
    begin(&g, runtime, communicator, true);
    const rota_tensor whole = alike(&g, values, &group, &shard), x = made(&g, ROTA_F32, COUNT, values);
    rank_ok(rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(3, 0), &empty));
    want_refused(rota_sharding_create_group(communicator, &empty, 1, &none), ROTA_INVALID_ARGUMENT,
                 "1 tensors without elements");
    rank_want(none == NULL, "it is made");
    const rota_tensor huge[2] = {whole, {.dtype = ROTA_F32, .rank = 1, .shape = {UINT32_MAX}, .stride = {1}}};
    want_refused(rota_sharding_create_group(communicator, huge, 2, &none), ROTA_OUT_OF_RANGE,
                 "a group of 4294967424 elements");
    want_refused(rota_sharding_unshard(group, g.tape, whole, NULL, 1, &w), ROTA_INVALID_ARGUMENT,
                 "the shard is f32 [70]; expected");
    want_refused(rota_sharding_unshard(group, g.tape, shard, NULL, 2, (rota_tensor[2]){w, w}),
                 ROTA_INVALID_ARGUMENT, "2 tensors, expected 1");
    want_refused(rota_sharding_norm(group, g.tape, 1, &norm), ROTA_INVALID_ARGUMENT,
                 "a group has no gradients");
    want_refused(rota_sharding_reduce(group, g.tape, &shard, 1, true, shard), ROTA_INVALID_ARGUMENT,
                 "tensor 0, expected a contiguous one of 70 elements");
    want_refused(rota_sharding_reduce(group, g.tape, &whole, 1, true, whole), ROTA_INVALID_ARGUMENT,
                 "the shard is f32 [70]; expected");
    rank_ok(rota_sharding_create(communicator, &filled));
    want_refused(rota_sharding_tensors(filled, g.tape, ROTA_F32, 1, &w), ROTA_INVALID_ARGUMENT,
                 "expected one of rota_sharding_create_group");
    want_refused(rota_sharding_unshard(filled, g.tape, shard, NULL, 1, &w), ROTA_INVALID_ARGUMENT,
                 "expected one of rota_sharding_create_group");
    const rota_data_parallel all = ROTA_DATA_PARALLEL(.communicator = communicator),
                             as_shards = ROTA_DATA_PARALLEL(.communicator = communicator, .sharding = group);
    want_refused(backward_of(&g, whole, whole, &as_shards), ROTA_WRONG_STATE, "is that of a group");
    rank_ok(rota_sharding_unshard(group, g.tape, shard, NULL, 1, &w));
    want_refused(backward_of(&g, w, shard, &all), ROTA_INVALID_ARGUMENT, "is this rank's shard");
    refuse_overwritten(&g, group, shard, x);
    rank_ok(rota_graph_create_body(g.graph, "body", &body));
    rank_ok(rota_recorder_open(body, 0, NULL, &lane));
    rank_ok(rota_tape_create(lane, NULL, &tape));
    want_refused(rota_sharding_unshard(group, tape, shard, NULL, 1, &w), ROTA_UNSUPPORTED, "node 'unshard'");
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    rota_graph_release(body);
    rota_tape_destroy(g.tape);
    rota_recorder_close(g.recorder);
    end(&g);
    rota_sharding_release(group), rota_sharding_release(filled);
    drop(whole), drop(shard), drop(x);
}
