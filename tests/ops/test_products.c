/* Matrix products of every type, orientation and kind of result on each device there is, against the CPU's:
 * shapes that fill whole tiles and shapes that leave parts of them over, aligned rows and not, batches,
 * slices of larger matrices. */
#include "tests/ops/op_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/kit/random.h"
#include "tests/kit/todays.h"

typedef struct shape {
    uint32_t batch, m, n, k;
    uint32_t shift; /* columns of a and b left out at the front: rows then begin where they may */
} shape;

/* The first are large enough for what is meant for large products. */
static const shape shapes[] = {{1, 1024, 1024, 128, 0}, {1, 1000, 1160, 136, 0}, {2, 776, 840, 72, 8},
                               {1, 1031, 1025, 67, 0},  {3, 65, 130, 33, 1},     {1, 1, 257, 300, 0},
                               {1, 384, 384, 384, 0}};

typedef struct product {
    shape shape;
    rota_dtype dtype, result;
    bool transpose_a, transpose_b;
} product;

static void *random_elements(rota_dtype dtype, uint64_t count, uint64_t seed) {
    void *data = malloc(count * 4);
    assert_non_null(data);
    for (uint64_t i = 0; i < count; i++)
        element_store(dtype, data, i, (double)test_below(&seed, 2049) / 1024.0 - 1.0);
    return data;
}

/* rows x columns of a wider matrix. */
static rota_tensor operand(op_kit *kit, const product *p, uint32_t rows, uint32_t columns, uint64_t seed) {
    uint32_t wide = columns + p->shape.shift;
    void *data = random_elements(p->dtype, (uint64_t)p->shape.batch * rows * wide, seed);
    rota_tensor whole = op_kit_input(kit, p->dtype, ROTA_SHAPE(p->shape.batch, rows, wide), data),
                part = whole;
    free(data);
    if (p->shape.shift) assert_ok(rota_tensor_slice(&whole, 2, p->shape.shift, columns, &part));
    return part;
}

static void *run(const product *p) {
    const shape *s = &p->shape;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor a = operand(&kit, p, p->transpose_a ? s->k : s->m, p->transpose_a ? s->m : s->k, 1);
    rota_tensor b = operand(&kit, p, p->transpose_b ? s->n : s->k, p->transpose_b ? s->k : s->n, 2);
    rota_tensor c;
    if (p->result == p->dtype) {
        assert_ok(rota_op_matmul(kit.tape, a, b, p->transpose_a, p->transpose_b, &c));
    } else {
        void *before = random_elements(p->result, (uint64_t)s->batch * s->m * s->n, 3);
        c = op_kit_variable(&kit, p->result, ROTA_SHAPE(s->batch, s->m, s->n), before);
        free(before);
        assert_ok(rota_op_matmul_into(kit.tape, a, b, p->transpose_a, p->transpose_b, c));
    }
    uint32_t output = op_kit_output(&kit, c);
    op_kit_run(&kit);
    void *result = malloc(kit.output_bytes[output]);
    assert_non_null(result);
    memcpy(result, kit.output_data[output], kit.output_bytes[output]);
    op_kit_close(&kit);
    return result;
}

/* Both sum in f32, in orders of their own: 2 k roundings of partial sums that are at most k (|a|, |b| <= 1),
 * and one of the result to its type. */
static void compare(const char *id, const product *p, const void *expected, const void *got) {
    const shape *s = &p->shape;
    double rounding = p->result == ROTA_F32 ? 0x1p-23 : p->result == ROTA_F16 ? 0x1p-10 : 0x1p-7;
    double sums = 2.0 * s->k * 0x1p-24 * s->k;
    uint64_t count = (uint64_t)s->batch * s->m * s->n;
    for (uint64_t i = 0; i < count; i++) {
        double e = element_load(p->result, expected, i), g = element_load(p->result, got, i);
        if (!(fabs(e - g) <= rounding * fabs(e) + sums))
            fail_msg("%s: %u x %ux%ux%u shift %u %s%s, %s to %s: element %llu (row %llu) is %g, expected %g",
                     id, s->batch, s->m, s->n, s->k, s->shift, p->transpose_a ? "T" : "N",
                     p->transpose_b ? "T" : "N", rota_dtype_name(p->dtype), rota_dtype_name(p->result),
                     (unsigned long long)i, (unsigned long long)(i / s->n % s->m), g, e);
    }
}

static void products_agree(void **state) {
    (void)state;
    static const rota_dtype types[][2] = {{ROTA_F32, ROTA_F32},
                                          {ROTA_F16, ROTA_F16},
                                          {ROTA_F16, ROTA_F32},
                                          {ROTA_BF16, ROTA_BF16},
                                          {ROTA_BF16, ROTA_F32}};
    static const char *const devices[] = {"vk:0", "cuda:0"};
    bool there[2];
    for (int d = 0; d < 2; d++) there[d] = op_kit_use_device(devices[d]);
    if (!there[0] && !there[1]) skip();
    const test_todays todays = test_todays_part();
    for (size_t i = todays.part; i < sizeof shapes / sizeof *shapes; i += todays.parts)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (uint32_t flags = 0; flags < 4; flags++) {
                product p = {.shape = shapes[i],
                             .dtype = types[t][0],
                             .result = types[t][1],
                             .transpose_a = flags & 1,
                             .transpose_b = flags & 2};
                assert_true(op_kit_use_device("cpu"));
                void *expected = run(&p);
                for (int d = 0; d < 2; d++) {
                    if (!there[d]) continue;
                    assert_true(op_kit_use_device(devices[d]));
                    void *got = run(&p);
                    compare(devices[d], &p, expected, got);
                    free(got);
                }
                free(expected);
            }
}

/* Large enough for the CUDA images of ops/cuda/matmul_bounded.cu, with edges all round, sums that are a
 * multiple of 32 long and not: on a Vulkan device that takes them. */
static void products_by_image_agree(void **state) {
    (void)state;
    static const shape large[] = {
        {1, 1032, 1160, 1000, 0}, {1, 1160, 1032, 1024, 0}, {1, 2104, 2120, 248, 0}};
    if (!op_kit_use_device("vk:0")) skip();
    if (!(op_kit_device_info()->features & ROTA_FEATURE_CUDA_IMAGES)) {
        print_message("skipped: vk:0 launches no CUDA images\n");
        skip();
    }
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        for (rota_dtype dtype = ROTA_F16; dtype <= ROTA_BF16; dtype++)
            for (uint32_t flags = 0; flags < 3; flags++) { /* both transposed: by shader */
                const product p = {.shape = large[i],
                                   .dtype = dtype,
                                   .result = dtype,
                                   .transpose_a = flags & 1,
                                   .transpose_b = flags & 2};
                assert_true(op_kit_use_device("cpu"));
                void *expected = run(&p);
                assert_true(op_kit_use_device("vk:0"));
                void *got = run(&p);
                compare("vk:0", &p, expected, got);
                free(got);
                free(expected);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_agree),
                                       cmocka_unit_test(products_by_image_agree)};
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
