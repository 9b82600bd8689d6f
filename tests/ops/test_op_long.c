/* Ops along axes so long that an invocation of a shader that walked them alone would take more turns than
 * llvmpipe lets it (65 535, all of its loops together): Vulkan's results, and gradients, against the CPU's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/ops/op_kit.h"
#include "tests/kit/random.h"

static float *values(uint64_t count, uint64_t seed) {
    float *x = malloc((count + 1) * sizeof *x);
    uint64_t random = seed;
    assert_non_null(x);
    for (uint64_t i = 0; i < count; i++) x[i] = (float)((double)(test_random(&random) >> 11) * 0x1p-52 - 1);
    return x;
}

static rota_tensor input(op_kit *kit, rota_dtype dtype, uint32_t rank, const uint64_t *shape, uint64_t seed) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    float *x = values(count, seed);
    if (dtype != ROTA_F32) {
        uint16_t *half = malloc(count * 2);
        assert_non_null(half);
        for (uint64_t i = 0; i < count; i++) element_store(dtype, half, i, (double)x[i]);
        memcpy(x, half, count * 2);
        free(half);
    }
    const rota_tensor tensor = op_kit_input(kit, dtype, rank, shape, x);
    free(x);
    return tensor;
}

static rota_tensor indices(op_kit *kit, uint32_t rank, const uint64_t *shape, uint32_t below) {
    uint64_t count = 1, random = 5;
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    int32_t *x = malloc(count * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < count; i++) x[i] = (int32_t)(test_random(&random) % below);
    const rota_tensor tensor = op_kit_input(kit, ROTA_I32, rank, shape, x);
    free(x);
    return tensor;
}

/* Puts out the gradient of sum(y w) with respect to x, w of random weights. */
static void put_gradient(op_kit *kit, rota_tensor y, rota_tensor x) {
    rota_tensor w, product, loss, gradient = ROTA_TENSOR_NONE;
    w = input(kit, y.dtype, y.rank, y.shape, 77);
    assert_ok(rota_op_mul(kit->tape, y, w, &product));
    assert_ok(rota_op_reshape(kit->tape, product, ROTA_SHAPE(rota_tensor_count(&y)), &product));
    if (product.dtype != ROTA_F32) assert_ok(rota_op_cast(kit->tape, product, ROTA_F32, &product));
    assert_ok(rota_op_sum(kit->tape, product, 0, true, &loss));
    assert_ok(rota_backward(kit->tape, loss, &x, 1, &gradient, NULL));
    (void)op_kit_output(kit, gradient);
}

/* ---- Cases ---- */

static void argmax(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, ROTA_F32, 3, n, 1);
    rota_tensor y;
    assert_ok(rota_op_argmax(kit->tape, x, 1, false, &y));
    (void)op_kit_output(kit, y);
}

static void top_k(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 3, n, 1);
    rota_tensor y, indices;
    assert_ok(rota_op_top_k(kit->tape, x, 1, n[3], &y, &indices));
    (void)op_kit_output(kit, y);
    (void)op_kit_output(kit, indices);
    put_gradient(kit, y, x);
}

static void cumulative_sum(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 3, n, 2);
    rota_tensor y;
    assert_ok(rota_op_cumulative_sum(kit->tape, x, 1, &y));
    (void)op_kit_output(kit, y);
    put_gradient(kit, y, x);
}

static void variance(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 3, n, 3);
    rota_tensor y;
    assert_ok(rota_op_variance(kit->tape, x, 1, 1, false, &y));
    (void)op_kit_output(kit, y);
    put_gradient(kit, y, x);
}

static void max(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 3, n, 4);
    rota_tensor y;
    assert_ok(rota_op_max(kit->tape, x, 1, false, &y));
    (void)op_kit_output(kit, y);
    put_gradient(kit, y, x);
}

static void min(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, ROTA_F32, 3, n, 4);
    rota_tensor y;
    assert_ok(rota_op_min(kit->tape, x, 1, false, &y));
    put_gradient(kit, y, x);
}

/* n[3] indices. */
static void gather(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 3, n, 5);
    const rota_tensor index = indices(kit, 3, (const uint64_t[]){n[0], n[3], n[2]}, (uint32_t)n[1]);
    rota_tensor y;
    assert_ok(rota_op_gather(kit->tape, x, 1, index, &y));
    (void)op_kit_output(kit, y);
    put_gradient(kit, y, x);
}

/* rows, dim, classes */
static void embedding(op_kit *kit, const uint64_t *n) {
    const rota_tensor table = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 2, (const uint64_t[]){n[2], n[1]}, 6);
    const rota_tensor index = indices(kit, 1, n, (uint32_t)n[2]);
    rota_tensor y;
    assert_ok(rota_op_embedding(kit->tape, table, index, &y));
    put_gradient(kit, y, table);
}

static void softmax(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 2, n, 7);
    rota_tensor y, scaled;
    assert_ok(rota_op_softmax(kit->tape, x, &y));
    assert_ok(rota_op_scale(kit->tape, y, rota_value_plain((double)n[1]), &scaled));
    (void)op_kit_output(kit, scaled);
    put_gradient(kit, scaled, x);
}

static void log_softmax(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, ROTA_F32, 2, n, 7);
    rota_tensor y;
    assert_ok(rota_op_log_softmax(kit->tape, x, &y));
    (void)op_kit_output(kit, y);
    put_gradient(kit, y, x);
}

static void layernorm(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, ROTA_F32, 2, n, 8), weight = input(kit, ROTA_F32, 1, n + 1, 9),
                      bias = input(kit, ROTA_F32, 1, n + 1, 10);
    rota_tensor y;
    assert_ok(rota_op_layernorm(kit->tape, x, weight, bias, 1e-5f, &y));
    (void)op_kit_output(kit, y);
    put_gradient(kit, y, x);
}

static void rmsnorm(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, ROTA_F32, 2, n, 8), weight = input(kit, ROTA_F32, 1, n + 1, 9);
    rota_tensor y;
    assert_ok(rota_op_rmsnorm(kit->tape, x, weight, 1e-5f, &y));
    (void)op_kit_output(kit, y);
    put_gradient(kit, y, weight);
}

static void cross_entropy(op_kit *kit, const uint64_t *n) {
    const rota_tensor x = input(kit, ROTA_F32, 2, n, 11), labels = indices(kit, 1, n, (uint32_t)n[1]);
    rota_tensor loss, gradient = ROTA_TENSOR_NONE;
    assert_ok(rota_op_cross_entropy(kit->tape, x, labels, &loss));
    (void)op_kit_output(kit, loss);
    assert_ok(rota_backward(kit->tape, loss, &x, 1, &gradient, NULL));
    (void)op_kit_output(kit, gradient);
}

static void matmul(op_kit *kit, const uint64_t *n) {
    const rota_tensor a = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 2, (const uint64_t[]){n[0], n[1]}, 12),
                      b = input(kit, n[4] ? ROTA_BF16 : ROTA_F32, 2, (const uint64_t[]){n[1], n[2]}, 13);
    rota_tensor y;
    assert_ok(rota_op_matmul(kit->tape, a, b, false, false, &y));
    (void)op_kit_output(kit, y);
}

/* queries, keys, dim */
static void attention(op_kit *kit, const uint64_t *n) {
    const uint64_t of_q[] = {1, 1, n[0], n[2]}, of_k[] = {1, 1, n[1], n[2]};
    const rota_tensor q = input(kit, ROTA_F32, 4, of_q, 14), k = input(kit, ROTA_F32, 4, of_k, 15),
                      v = input(kit, ROTA_F32, 4, of_k, 16);
    rota_tensor y;
    assert_ok(rota_op_attention(kit->tape, q, k, v, false, 1.0f, &y));
    (void)op_kit_output(kit, y);
    put_gradient(kit, y, n[3] ? k : q);
}

typedef struct long_case {
    const char *name;
    void (*record)(op_kit *kit, const uint64_t *n);
    uint64_t n[5];
    double tolerance; /* of the largest magnitude */
    uint32_t integer; /* the output that is of integers */
} long_case;

static void run(const long_case *c, const char *device, op_kit *kit) {
    assert_true(op_kit_use_device(device));
    op_kit_open(kit);
    c->record(kit, c->n);
    op_kit_run(kit);
}

/* Outputs of 4 bytes are f32, or i32 that must be the same (as bits: small ones are denormals, whose
 * differences are exact). Those of 2 bytes are bf16. */
static void compare(const long_case *c, const op_kit *cpu, const op_kit *vk) {
    for (uint32_t o = 0; o < cpu->output_count; o++) {
        const rota_dtype dtype = c->n[4] && o != c->integer ? ROTA_BF16 : ROTA_F32;
        const uint64_t count = cpu->output_bytes[o] / (dtype == ROTA_F32 ? 4 : 2);
        double largest = 0, worst = 0;
        uint64_t element = 0;
        for (uint64_t i = 0; i < count; i++) {
            const double expected = element_load(dtype, cpu->output_data[o], i);
            double difference = fabs(element_load(dtype, vk->output_data[o], i) - expected);
            if (isnan(difference)) difference = INFINITY;
            if (fabs(expected) > largest) largest = fabs(expected);
            if (difference <= worst) continue;
            worst = difference;
            element = i;
        }
        if (!(worst <= c->tolerance * largest))
            fail_msg("%s, output %u: element %llu of %llu differs by %.3g, the largest is %.3g", c->name, o,
                     (unsigned long long)element, (unsigned long long)count, worst, largest);
    }
}

static const long_case cases[] = {
    {"argmax of a row", argmax, {1, 4400000, 1}, 0, 0},
    {"argmax of columns", argmax, {3, 70000, 2}, 0, 0},
    {"top_k of a row", top_k, {1, 100000, 1, 64}, 0, 1},
    {"top_k of columns, bf16", top_k, {2, 70001, 3, 5, 1}, 0, 1},
    {"top_k of nearly all", top_k, {2, 2200, 1, 2199}, 0, 1},
    {"cumulative_sum of a row", cumulative_sum, {1, 800001, 1}, 1e-4, 9},
    {"cumulative_sum of columns", cumulative_sum, {2, 70000, 3}, 1e-4, 9},
    {"cumulative_sum of rows, bf16", cumulative_sum, {2, 17001, 1, 0, 1}, 1.0 / 128, 9},
    {"variance of a row", variance, {1, 2200000, 1}, 1e-3, 9},
    {"variance of columns", variance, {2, 40000, 3}, 1e-4, 9},
    {"variance of columns, bf16", variance, {1, 40001, 40, 0, 1}, 1.0 / 128, 9},
    {"max of a row", max, {1, 70000, 1}, 0, 9},
    {"max of columns", max, {2, 70001, 3}, 0, 9},
    {"max of rows, bf16", max, {2, 70001, 1, 0, 1}, 0, 9},
    {"min of a row", min, {1, 70000, 1}, 0, 9},
    {"gather of a row", gather, {1, 5, 1, 70000}, 1e-5, 9},
    {"gather of columns, bf16", gather, {2, 5, 3, 70001, 1}, 1.0 / 128, 9},
    {"embedding, one class", embedding, {70000, 5, 1}, 1e-5, 9},
    {"embedding, bf16", embedding, {70000, 5, 3, 0, 1}, 1.0 / 128, 9},
    {"softmax", softmax, {2, 70001}, 1e-4, 9},
    {"softmax, bf16", softmax, {2, 70001, 0, 0, 1}, 1.0 / 64, 9},
    {"log_softmax", log_softmax, {1, 70001}, 1e-4, 9},
    {"layernorm", layernorm, {1, 70001}, 1e-4, 9},
    {"rmsnorm", rmsnorm, {1, 70001}, 1e-4, 9},
    {"cross_entropy", cross_entropy, {1, 70001}, 1e-4, 9},
    {"matmul", matmul, {1, 200001, 1}, 1e-4, 9},
    {"attention, few queries", attention, {2, 15001, 64}, 1e-4, 9},
    {"attention, few keys", attention, {9001, 8, 40, 1}, 1e-4, 9},
};

static void as_on_the_cpu(void **state) {
    (void)state;
    if (!op_kit_use_device("vk:0")) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        op_kit cpu, vk;
        run(&cases[i], "cpu", &cpu);
        run(&cases[i], "vk:0", &vk);
        compare(&cases[i], &cpu, &vk);
        op_kit_close(&cpu);
        op_kit_close(&vk);
    }
}

/* What no shader of ours does within the limit is refused where there is the limit. */
static void no_wrong_result_without_an_error(void **state) {
    (void)state;
    if (!op_kit_use_device("vk:0")) return;
    if (!strstr(op_kit_device_info()->name, "llvmpipe")) {
        print_message("skipped: %s has no limit\n", op_kit_device_info()->name);
        return;
    }
    static const struct {
        void (*record)(op_kit *kit, const uint64_t *n);
        uint64_t n[5];
        const char *kernel;
    } beyond[] = {
        {gather, {1, 5, 1, 530000}, "'scatter_add' may take 66"},
        {embedding, {3600000, 1, 2}, "'embedding_backward' may take"},
        {attention, {2, 40000, 64}, "'attention' may take"},
        {matmul, {1, 1100000, 1}, "'matmul' may take 6875"},
    };
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        op_kit kit;
        op_kit_open(&kit);
        beyond[i].record(&kit, beyond[i].n);
        assert_status(op_kit_try_run(&kit), ROTA_UNSUPPORTED);
        if (!strstr(rota_last_error(), beyond[i].kernel))
            fail_msg("'%s' is not in: %s", beyond[i].kernel, rota_last_error());
        op_kit_close(&kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_on_the_cpu),
                                       cmocka_unit_test(no_wrong_result_without_an_error)};
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
