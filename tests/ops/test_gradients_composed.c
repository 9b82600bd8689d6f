/* Gradients of ops in forms that their examples don't have, and of ops that are made of others. */
#include <stdlib.h>
#include <string.h>
#include "tests/ops/gradient_kit.h"

/* Query, key and value as slices of one product, heads side by side: the same as from contiguous copies. */
static void attention_of_slices_is_attention(void **state) {
    (void)state;
    enum { B = 2, T = 9, H = 2, D = 4, C = H * D };
    static float x[B * T * 3 * C], weights[B * T * C];
    make_weights(B * T * 3 * C, x);
    make_weights(B * T * C, weights);
    for (int causal = 0; causal < 2; causal++) {
        op_kit kit;
        uint32_t outputs[3];
        op_kit_open(&kit);
        rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(B, T, 3 * C), x);
        rota_tensor w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(B, T, C), weights);
        for (int form = 0; form < 3; form++) {
            rota_tensor all, part[3], merged, heads, y, grads[1] = {{0}};
            assert_ok(rota_op_copy(kit.tape, p, &all));
            for (uint32_t i = 0; i < 3; i++) {
                assert_ok(rota_tensor_slice(&all, 2, i * C, C, &part[i]));
                assert_ok(rota_tensor_reshape(&part[i], ROTA_SHAPE(B, T, H, D), &part[i]));
                assert_ok(rota_tensor_transpose(&part[i], 1, 2, &part[i]));
                if (form == 1) assert_ok(rota_op_contiguous(kit.tape, part[i], &part[i]));
            }
            assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, NULL, ROTA_F32, ROTA_SHAPE(B, T, C),
                                       &merged));
            assert_ok(rota_tensor_reshape(&merged, ROTA_SHAPE(B, T, H, D), &heads));
            assert_ok(rota_tensor_transpose(&heads, 1, 2, &heads));
            if (form == 2) {
                assert_ok(rota_op_attention_separate(kit.tape, part[0], part[1], part[2], causal, 0, &y));
                assert_ok(rota_op_copy_into(kit.tape, y, heads));
            } else {
                assert_ok(rota_op_attention_into(kit.tape, part[0], part[1], part[2], causal, 0, heads));
            }
            assert_ok(rota_op_mul(kit.tape, merged, w, &y));
            assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
            outputs[form] = op_kit_output(&kit, grads[0]);
        }
        op_kit_run(&kit);
        for (int i = 0; i < B * T * 3 * C; i++)
            for (int form = 1; form < 3; form++)
                assert_true(fabsf(op_kit_f32(&kit, outputs[0])[i] - op_kit_f32(&kit, outputs[form])[i]) <
                            2e-5f);
        op_kit_close(&kit);
    }
}

/* Counts the nodes that only move or fill memory. */
static rota_status count_moves(void *user, rota_rewriter *rewriter) {
    uint32_t *count = user;
    for (uint64_t n = 0; n < rota_rewriter_node_count(rewriter); n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        *count += !view.kernel || strcmp(view.kernel->name, "copy_strided") == 0;
    }
    return ROTA_OK;
}

/* Side by side in one tensor, whose gradient is then written by one node, without copies or zeroes; not where
 * one of them is used once more, for which it is added to. */
static void gradients_side_by_side_are_written_at_once(void **state) {
    (void)state;
    enum { B = 2, T = 5, H = 2, D = 4, C = H * D };
    static float x[B * T * 3 * C], weights[B * T * C];
    make_weights(B * T * 3 * C, x);
    make_weights(B * T * C, weights);
    uint32_t moves[2] = {0};
    for (int twice = 0; twice < 2; twice++) {
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(B, T, 3 * C), x), all, part[3], y, loss;
        rota_tensor w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(B, H, T, D), weights),
                    grad = ROTA_TENSOR_NONE;
        assert_ok(rota_op_scale(kit.tape, p, ROTA_PLAIN(2), &all));
        for (uint32_t i = 0; i < 3; i++) {
            assert_ok(rota_tensor_slice(&all, 2, i * C, C, &part[i]));
            assert_ok(rota_tensor_reshape(&part[i], ROTA_SHAPE(B, T, H, D), &part[i]));
            assert_ok(rota_tensor_transpose(&part[i], 1, 2, &part[i]));
        }
        assert_ok(rota_op_attention(kit.tape, part[0], part[1], part[2], true, 0, &y));
        assert_ok(rota_op_mul(kit.tape, y, w, &y));
        loss = total(&kit, y);
        if (twice) {
            rota_tensor squares;
            assert_ok(rota_op_mul(kit.tape, part[2], part[2], &squares));
            assert_ok(rota_op_add(kit.tape, loss, total(&kit, squares), &loss));
        }
        assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
        const uint32_t output = op_kit_output(&kit, grad);
        assert_ok(rota_graph_add_rewrite(kit.graph, count_moves, &moves[twice]));
        op_kit_run(&kit);
        assert_true(op_kit_f32(&kit, output)[0] == op_kit_f32(&kit, output)[0]);
        op_kit_close(&kit);
    }
    assert_true(moves[0] < moves[1]);
    assert_int_equal(moves[0],
                     3); /* y as it lies for its gradient, the loss's own gradient, and the output */
}

/* The gradient of a weight that all batches share is summed over so many rows that it is summed up in parts,
 * where their number allows it: 2^4 * 5 * 103 rows, and a prime number of them. It may be added to what there
 * is. */
static void long_sums_of_a_weight_are_whole(void **state) {
    (void)state;
    enum { K = 3, COLUMNS = 2 };
    static const uint64_t rows_of[] = {8240, 8243};
    for (uint32_t round = 0; round < 2; round++) {
        const uint64_t rows = rows_of[round];
        float *x = malloc(rows * K * sizeof *x), *c = malloc(rows * COLUMNS * sizeof *c);
        float first[K * COLUMNS] = {0};
        assert_non_null(x);
        assert_non_null(c);
        make_weights(rows * K, x);
        make_weights(rows * COLUMNS, c);
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor input = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, rows, K), x), y;
        rota_tensor w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(K, COLUMNS), first),
                    grad = ROTA_TENSOR_NONE;
        uint32_t outputs[2];
        for (uint32_t again = 0; again < 2; again++) {
            assert_ok(rota_op_matmul(kit.tape, input, w, false, false, &y));
            assert_ok(rota_backward(kit.tape, weighted_sum(&kit, y, c), &w, 1, &grad,
                                    &ROTA_BACKWARD_OPTIONS(.accumulate = again)));
            outputs[again] = op_kit_output(&kit, grad);
        }
        op_kit_run(&kit);
        for (uint32_t i = 0; i < K; i++)
            for (uint32_t j = 0; j < COLUMNS; j++) {
                double expected = 0, magnitude = 0;
                for (uint64_t r = 0; r < rows; r++) {
                    const double term = (double)x[r * K + i] * (double)c[r * COLUMNS + j];
                    expected += term;
                    magnitude += fabs(term);
                }
                for (uint32_t again = 0; again < 2; again++) {
                    const double got = (double)op_kit_f32(&kit, outputs[again])[i * COLUMNS + j];
                    assert_true(fabs(got - (again + 1) * expected) <= 2 * (double)rows * 0x1p-24 * magnitude);
                }
            }
        op_kit_close(&kit);
        free(x);
        free(c);
    }
}

/* The gradients of x and w through a product, whose own gradient may take its place, are the same bits; and
 * it does. */
static void a_classifier_keeps_its_gradient_in_place(void **state) {
    (void)state;
    enum { ROWS = 6, DIM = 5, CLASSES = 9 };
    float x[ROWS * DIM], w[DIM * CLASSES];
    const int32_t labels[ROWS] = {3, 0, ROTA_IGNORED_LABEL, 8, 1, 1};
    for (int i = 0; i < ROWS * DIM; i++) x[i] = (float)(i * 7 % 11) * 0.1f - 0.5f;
    for (int i = 0; i < DIM * CLASSES; i++) w[i] = (float)(i * 5 % 13) * 0.1f - 0.6f;
    op_kit kits[2];
    uint32_t loss_at[2], grad_at[2][2], logits_at[2];
    for (int in_place = 0; in_place < 2; in_place++) {
        op_kit *kit = &kits[in_place];
        op_kit_open(kit);
        rota_tensor params[2], grads[2] = {{0}}, logits, loss;
        params[0] = op_kit_input(kit, ROTA_F32, ROTA_SHAPE(ROWS, DIM), x);
        params[1] = op_kit_input(kit, ROTA_F32, ROTA_SHAPE(DIM, CLASSES), w);
        rota_tensor label = op_kit_input(kit, ROTA_I32, ROTA_SHAPE(ROWS), labels);
        const rota_classifier options =
            ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .smoothing = 0.1f, .in_place = in_place != 0);
        assert_ok(rota_op_matmul(kit->tape, params[0], params[1], false, false, &logits));
        assert_ok(rota_op_classifier(kit->tape, logits, label, &options, &loss));
        assert_ok(rota_backward(kit->tape, loss, params, 2, grads, NULL));
        loss_at[in_place] = op_kit_output(kit, loss);
        logits_at[in_place] = op_kit_output(kit, logits);
        for (int g = 0; g < 2; g++) grad_at[in_place][g] = op_kit_output(kit, grads[g]);
        op_kit_run(kit);
    }
    assert_true(*op_kit_f32(&kits[0], loss_at[0]) == *op_kit_f32(&kits[1], loss_at[1]));
    for (int g = 0; g < 2; g++)
        assert_memory_equal(op_kit_f32(&kits[0], grad_at[0][g]), op_kit_f32(&kits[1], grad_at[1][g]),
                            kits[0].output_bytes[grad_at[0][g]]);
    /* each row of the gradient adds up to 0, and the ignored one is 0 */
    const float *dlogits = op_kit_f32(&kits[1], logits_at[1]);
    assert_memory_not_equal(op_kit_f32(&kits[0], logits_at[0]), dlogits, sizeof(float) * ROWS * CLASSES);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            sum += (double)dlogits[r * CLASSES + c];
            if (r == 2) assert_true(dlogits[r * CLASSES + c] == 0);
        }
        assert_true(fabs(sum) < 1e-6);
    }
    op_kit_close(&kits[0]);
    op_kit_close(&kits[1]);
}

/* Who needs the logits after the classifier took their place is told so. */
static void a_classifier_leaves_no_logits_to_others(void **state) {
    (void)state;
    float x[12] = {1, 2, 3};
    const int32_t labels[3] = {0, 1, 2};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x), grads[1] = {{0}}, logits, other, loss;
    rota_tensor label = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels);
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_scale(kit.tape, p, rota_value_plain(2), &logits));
    assert_ok(rota_op_sum_squares(kit.tape, logits, &other));
    assert_ok(rota_op_classifier(kit.tape, logits, label, &options, &loss));
    assert_ok(rota_op_add(kit.tape, loss, other, &loss));
    assert_status(rota_backward(kit.tape, loss, &p, 1, grads, NULL), ROTA_WRONG_STATE);
    assert_non_null(strstr(rota_last_error(), "'classifier' overwrote"));
    op_kit_close(&kit);
}

/* Four query heads on two key heads are four on four where each of the two stands twice. */
static void query_groups_share_their_keys(void **state) {
    (void)state;
    enum {
        HEADS = 4,
        KV = 2,
        QUERIES = 3,
        KEYS = 5,
        DIM = 4,
        Q = HEADS * QUERIES * DIM,
        K = KV * KEYS * DIM
    };
    float q[Q], k[K], v[K], twice[2][2 * K];
    for (int i = 0; i < Q; i++) q[i] = (float)(i * 7 % 13) * 0.2f - 1;
    for (int i = 0; i < K; i++)
        k[i] = (float)(i * 5 % 17) * 0.1f - 0.7f, v[i] = (float)(i * 11 % 19) * 0.1f - 0.9f;
    for (int i = 0; i < 2 * K; i++) {
        const int from = i / (2 * KEYS * DIM) * KEYS * DIM + i % (KEYS * DIM);
        twice[0][i] = k[from], twice[1][i] = v[from];
    }
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor few[3], many[3], y[2], loss, grads[2][3] = {{{0}}};
    uint32_t y_at[2], grad_at[2][3];
    few[0] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, HEADS, QUERIES, DIM), q);
    few[1] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, KV, KEYS, DIM), k);
    few[2] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, KV, KEYS, DIM), v);
    many[0] = few[0];
    for (int i = 1; i < 3; i++)
        many[i] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, HEADS, KEYS, DIM), twice[i - 1]);
    for (int i = 0; i < 2; i++) {
        const rota_tensor *in = i ? many : few;
        assert_ok(rota_op_attention(kit.tape, in[0], in[1], in[2], true, 0, &y[i]));
        y_at[i] = op_kit_output(&kit, y[i]);
        assert_ok(rota_op_sum_squares(kit.tape, y[i], &loss));
        assert_ok(rota_backward(kit.tape, loss, in, 3, grads[i], NULL));
        for (int g = 0; g < 3; g++) grad_at[i][g] = op_kit_output(&kit, grads[i][g]);
    }
    op_kit_run(&kit);
    assert_memory_equal(op_kit_f32(&kit, y_at[0]), op_kit_f32(&kit, y_at[1]), sizeof q);
    assert_memory_equal(op_kit_f32(&kit, grad_at[0][0]), op_kit_f32(&kit, grad_at[1][0]), sizeof q);
    for (int g = 1; g < 3; g++)
        for (int i = 0; i < K; i++) {
            const float *all = op_kit_f32(&kit, grad_at[1][g]);
            const int element = i / (KEYS * DIM) * 2 * KEYS * DIM + i % (KEYS * DIM);
            const double sum = (double)all[element] + (double)all[element + KEYS * DIM];
            assert_true(fabs((double)op_kit_f32(&kit, grad_at[0][g])[i] - sum) <= 1e-6 * fmax(1, fabs(sum)));
        }
    op_kit_close(&kit);
}

static double made_of_others(const double *x) {
    /* mse, l1, huber against 0.5; PatchTST's attention of two layers is compared elsewhere */
    double mse = 0, l1 = 0, huber = 0;
    for (int i = 0; i < N; i++) {
        const double d = x[i] - 0.5, a = fabs(d);
        mse += d * d / N;
        l1 += a / N;
        huber += (a <= 0.4 ? d * d / 2 : 0.4 * (a - 0.2)) / N;
    }
    return mse + 2 * l1 + 3 * huber;
}

static double grouped(const double *x) {
    /* group norm of [2, 6], two groups of three channels, weight 1 + c / 4, bias c / 8; sum of y^2 * (1 + i)
     */
    double sum = 0;
    for (int g = 0; g < 4; g++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < 3; i++) mean += x[g * 3 + i] / 3;
        for (int i = 0; i < 3; i++) variance += (x[g * 3 + i] - mean) * (x[g * 3 + i] - mean) / 3;
        for (int i = 0; i < 3; i++) {
            const int c = g % 2 * 3 + i;
            const double y = (x[g * 3 + i] - mean) / sqrt(variance + 1e-3) * (1 + c / 4.0) + c / 8.0;
            sum += y * y;
        }
    }
    return sum;
}

static void ops_made_of_others_have_gradients(void **state) {
    (void)state;
    float x[N], half[N], weight[6], bias[6];
    fill_values(x);
    for (int i = 0; i < N; i++) half[i] = 0.5f;
    for (int i = 0; i < 6; i++) weight[i] = 1 + (float)i / 4, bias[i] = (float)i / 8;
    x[3] += 0.7f;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x),
                t = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), half);
    rota_tensor a, b, c, loss, y, rows, grads[1] = {{0}}, again[1] = {{0}};
    assert_ok(rota_op_mse(kit.tape, p, t, &a));
    assert_ok(rota_op_l1(kit.tape, p, t, &b));
    assert_ok(rota_op_huber(kit.tape, p, t, 0.4f, &c));
    assert_ok(rota_op_scale(kit.tape, b, rota_value_plain(2), &b));
    assert_ok(rota_op_scale(kit.tape, c, rota_value_plain(3), &c));
    assert_ok(rota_op_add(kit.tape, a, b, &loss));
    assert_ok(rota_op_add(kit.tape, loss, c, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, grads, NULL));
    uint32_t first = op_kit_output(&kit, grads[0]), value = op_kit_output(&kit, loss);
    rota_tensor w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6), weight),
                d = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6), bias);
    assert_ok(rota_tensor_reshape(&p, ROTA_SHAPE(2, 6), &rows));
    assert_ok(rota_op_group_norm(kit.tape, rows, 2, w, d, 1e-3f, &y));
    assert_ok(rota_op_sum_squares(kit.tape, y, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, again, NULL));
    uint32_t second = op_kit_output(&kit, again[0]);
    op_kit_run(&kit);
    double values[N];
    for (int i = 0; i < N; i++) values[i] = (double)x[i];
    assert_true(fabs((double)*op_kit_f32(&kit, value) - made_of_others(values)) < 1e-5);
    check_function(made_of_others, x, op_kit_f32(&kit, first), "mse + 2 l1 + 3 huber");
    check_function(grouped, x, op_kit_f32(&kit, second), "group norm");
    op_kit_close(&kit);
}

/* Rows [3, 4] of which some have zeroes, and columns with an odd length. */
static double products(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++) sum += (1 + r) * x[r * 4] * x[r * 4 + 1] * x[r * 4 + 2] * x[r * 4 + 3];
    for (int c = 0; c < 4; c++) sum += x[c] * x[4 + c] * x[8 + c];
    return sum;
}

static void products_with_zeroes_have_gradients(void **state) {
    (void)state;
    float x[N], weights[3] = {1, 2, 3};
    fill_values(x);
    x[5] = x[8] = x[10] = 0;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x), w, rows, columns, one, loss,
                grads[1] = {{0}};
    w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3), weights);
    assert_ok(rota_op_prod(kit.tape, p, 1, false, &rows));
    assert_int_equal(rows.rank, 1);
    assert_ok(rota_op_mul(kit.tape, rows, w, &rows));
    assert_ok(rota_op_prod(kit.tape, p, 0, true, &columns));
    assert_true(columns.rank == 2 && columns.shape[0] == 1 && columns.shape[1] == 4);
    assert_ok(rota_op_prod(kit.tape, columns, 0, false, &one)); /* of one element */
    assert_ok(rota_op_add(kit.tape, total(&kit, rows), total(&kit, one), &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, grads, NULL));
    const uint32_t gradient = op_kit_output(&kit, grads[0]), value = op_kit_output(&kit, loss);
    assert_status(rota_op_prod(kit.tape, p, 2, false, &one), ROTA_INVALID_ARGUMENT);
    assert_message("prod: x is f32 [3, 4], the axis 2");
    op_kit_run(&kit);
    double values[N];
    for (int i = 0; i < N; i++) values[i] = (double)x[i];
    assert_true(fabs((double)*op_kit_f32(&kit, value) - products(values)) < 1e-6);
    check_function(products, x, op_kit_f32(&kit, gradient), "products");
    op_kit_close(&kit);
}

static double put_together(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 4; c++) {
            const double left = x[r * 4 + (c < 2 ? c + 2 : c - 2)]; /* halves exchanged */
            sum += left * left * (1 + r * 4 + c) + (r + 1) * x[c] * x[c];
        }
    return sum;
}

/* concat, broadcast and column_sums are views and other ops: gradients pass. */
static void gradients_pass_through_compositions(void **state) {
    (void)state;
    float x[N], weights[N];
    fill_values(x);
    for (int i = 0; i < N; i++) weights[i] = (float)(1 + i);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x), part[2], y, w, row, z,
                grads[1] = {{0}};
    w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), weights);
    const float rows[3] = {1, 2, 3};
    rota_tensor v = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 1), rows);
    assert_ok(rota_tensor_split(&p, 1, 2, part));
    assert_ok(rota_op_concat(kit.tape, (const rota_tensor[]){part[1], part[0]}, 2, 1, &y));
    assert_ok(rota_op_square(kit.tape, y, &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    assert_ok(rota_tensor_slice(&p, 0, 0, 1, &row));
    assert_ok(rota_op_broadcast(kit.tape, row, ROTA_SHAPE(3, 4), &z));
    assert_ok(rota_op_square(kit.tape, z, &z));
    assert_ok(rota_op_mul(kit.tape, z, v, &z));
    assert_ok(rota_op_add(kit.tape, y, z, &y));
    assert_ok(rota_op_column_sums(kit.tape, y, &y));
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
    uint32_t output = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    check_function(put_together, x, op_kit_f32(&kit, output), "compositions");
    op_kit_close(&kit);
}

/* Mixed precision: 16-bit copies of f32 parameters, values at odd places of 16-bit buffers, and f32 in
 * between. */
static void gradients_cross_dtypes(void **state) {
    (void)state;
    for (rota_dtype dtype = ROTA_F16; dtype <= ROTA_BF16; dtype++) {
        const double unit = dtype == ROTA_F16 ? 0x1p-11 : 0x1p-8;
        float x[N];
        uint16_t halves[N + 1] = {0};
        fill_values(x);
        for (uint64_t i = 0; i < N; i++) element_store(dtype, halves, i, 0.5 + 0.0625 * (double)i);
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), h, q, back, y, z, part[3];
        h = op_kit_variable(&kit, dtype, ROTA_SHAPE(N), halves);
        assert_ok(rota_op_cast(kit.tape, p, dtype, &q));
        assert_ok(rota_op_mul(kit.tape, q, h, &y)); /* x h */
        /* Thirds that begin at odd elements: squares of [1, 4), the rest as it is. */
        assert_ok(rota_tensor_slice(&y, 0, 1, 3, &part[0]));
        assert_ok(rota_op_square(kit.tape, part[0], &z));
        assert_ok(rota_op_cast(kit.tape, z, ROTA_F32, &z));
        assert_ok(rota_tensor_slice(&y, 0, 5, 7, &part[1]));
        assert_ok(rota_op_cast(kit.tape, part[1], ROTA_F32, &back));
        rota_tensor first = total(&kit, z), second = total(&kit, back), loss, params[2] = {p, h},
                    grads[2] = {{0}};
        assert_ok(rota_op_add(kit.tape, first, second, &loss));
        assert_ok(rota_backward(kit.tape, loss, params, 2, grads, NULL));
        assert_int_equal(grads[0].dtype, ROTA_F32);
        assert_int_equal(grads[1].dtype, dtype);
        uint32_t of_p = op_kit_output(&kit, grads[0]), of_h = op_kit_output(&kit, grads[1]);
        op_kit_run(&kit);
        for (int i = 0; i < N; i++) {
            const double a = (double)x[i], b = element_load(dtype, halves, (uint64_t)i);
            const double slope = i >= 1 && i < 4 ? 2 * a * b : i >= 5 ? 1 : 0;
            const double dp = (double)op_kit_f32(&kit, of_p)[i],
                         dh = element_load(dtype, kit.output_data[of_h], (uint64_t)i);
            /* the cast of x, its product, the square's slope and the last product are each rounded */
            if (fabs(dp - slope * b) > 4 * unit * fabs(slope * b) ||
                fabs(dh - slope * a) > 4 * unit * fabs(slope * a))
                fail_msg("%s, %d: %g and %g, expected %g and %g", rota_dtype_name(dtype), i, dp, dh,
                         slope * b, slope * a);
        }
        op_kit_close(&kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_slices_is_attention),
        cmocka_unit_test(gradients_side_by_side_are_written_at_once),
        cmocka_unit_test(long_sums_of_a_weight_are_whole),
        cmocka_unit_test(a_classifier_keeps_its_gradient_in_place),
        cmocka_unit_test(a_classifier_leaves_no_logits_to_others),
        cmocka_unit_test(query_groups_share_their_keys),
        cmocka_unit_test(ops_made_of_others_have_gradients),
        cmocka_unit_test(products_with_zeroes_have_gradients),
        cmocka_unit_test(gradients_cross_dtypes),
        cmocka_unit_test(gradients_pass_through_compositions),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
