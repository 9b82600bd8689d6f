/* Tensors made by hand: strides that kernels' parameters have no room for, and strides that reach past 2^63
 * bytes or wrap. Recording needs no memory, so the buffers are as large as they can be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "ops/cpu/cpu.h"
#include "ops/cpu/gemm.h"
#include "ops/kernel_objects.h"
#include "tests/ops/op_kit.h"

#define assert_message(part)                                                                                 \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), part)) fail_msg("'%s' is not in: %s", part, rota_last_error());       \
    } while (0)

#define HUGE (ROTA_BUFFER_SIZE_MAX / 4 * 4)

static rota_buffer *huge(op_kit *kit) {
    rota_buffer *buffer;
    assert_ok(rota_recorder_buffer(kit->recorder, ROTA_BUFFER_TRANSIENT, "huge", HUGE, &buffer));
    return buffer;
}

/* Of each op, each input in turn with 2^32 + 5 elements from one to the next of its outermost axis that has
 * two: the op copies it first, or refuses it, or it is one that must be contiguous. */
static void wide_strides_are_refused(void **state) {
    (void)state;
    const uint64_t wide = ((uint64_t)1 << 32) + 5;
    uint32_t refused = 0, named = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        rota_op_example example;
        for (uint32_t i = 0; rota_op_get_example(rota_op_at(o), i, 0, &example); i++)
            for (uint32_t input = 0; input < example.use.input_count; input++) {
                op_kit kit;
                op_kit_open(&kit);
                rota_op_use use = example.use;
                bool has_wide = false;
                for (uint32_t k = 0; k < use.input_count; k++) {
                    rota_tensor *x = &use.inputs[k];
                    if (x->dtype == ROTA_DTYPE_COUNT ||
                        (use.op->optional_inputs >> k & 1 && x->rank == 0 && rota_dtype_bytes(x->dtype) == 0))
                        continue;
                    x->buffer = huge(&kit);
                    for (uint32_t d = 0; k == input && d < x->rank && !has_wide; d++)
                        if (x->shape[d] > 1 && x->shape[d] < 4096) { /* more would pass the buffer */
                            x->stride[d] = wide;
                            has_wide = true;
                        }
                }
                if (has_wide) {
                    const rota_status status = rota_op_apply(kit.tape, &use);
                    if (status == ROTA_OK)
                        fail_msg("%s (%s): '%s' of stride %llu was taken", use.op->name, example.label,
                                 use.op->input_names[input], (unsigned long long)wide);
                    refused++;
                    if (status == ROTA_UNSUPPORTED) {
                        assert_message("4294967301");
                        assert_message("4294967295");
                        named++;
                    } else { /* contiguous, or another rule of shapes */
                        assert_status(status, ROTA_INVALID_ARGUMENT);
                    }
                }
                op_kit_close(&kit);
            }
    }
    print_message("%u refused, %u of them by their stride\n", refused, named);
    assert_true(named >= 300);
}

static void wide_destinations_are_refused(void **state) {
    (void)state;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x, y, a, b;
    float data[12] = {0};
    x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), data);
    y = x;
    y.buffer = huge(&kit);
    y.stride[0] = ((uint64_t)1 << 32) + 5;
    assert_status(rota_op_exp_into(kit.tape, x, y), ROTA_UNSUPPORTED);
    assert_message("4294967301");
    assert_status(rota_op_copy_into(kit.tape, x, y), ROTA_UNSUPPORTED);
    assert_message("4294967301");
    assert_ok(rota_tensor_reshape(&x, ROTA_SHAPE(3, 4), &a));
    assert_ok(rota_tensor_reshape(&x, ROTA_SHAPE(4, 3), &b));
    y.shape[1] = 3;
    assert_status(rota_op_matmul_into(kit.tape, a, b, false, false, y), ROTA_UNSUPPORTED);
    assert_message("4294967301");
    /* What steps over one element steps nowhere. */
    y.shape[0] = 1;
    rota_tensor row;
    assert_ok(rota_tensor_slice(&a, 0, 0, 1, &row));
    assert_ok(rota_op_matmul_into(kit.tape, row, b, false, false, y));
    y.shape[1] = 4;
    assert_ok(rota_op_exp_into(kit.tape, row, y));
    assert_ok(rota_op_add(kit.tape, row, y, &x));
    op_kit_close(&kit);
}

/* Extents that are small modulo 2^64, and some that are only too large. */
static void what_wraps_is_refused_where_it_enters(void **state) {
    (void)state;
    static const struct {
        rota_dtype dtype;
        uint64_t shape[2], stride[2];
    } cases[] = {
        {ROTA_F32, {5, 2}, {(uint64_t)1 << 62, 1}},           /* 4 * 2^62 elements: 0 */
        {ROTA_F32, {2, 2}, {(uint64_t)1 << 62, 1}},           /* 2^62 elements: 0 bytes */
        {ROTA_F32, {3, 2}, {(uint64_t)1 << 63, 1}},           /* 2^64 elements */
        {ROTA_BF16, {2, 2}, {(uint64_t)1 << 63, 1}},          /* 2^63 elements: 0 bytes */
        {ROTA_F32, {2, 2}, {UINT64_MAX, 1}},                  /* the last element before the first */
        {ROTA_F32, {2, 2}, {UINT64_MAX - 1, 2}},              /* a sum that wraps */
        {ROTA_F16, {2, 2}, {((uint64_t)1 << 62) - 1, 1}},     /* 2^63 bytes and a bit, no wrap */
        {ROTA_F32, {4294967295u, 1}, {(uint64_t)1 << 40, 1}}, /* a product that wraps */
    };
    op_kit kit;
    op_kit_open(&kit);
    const float one = 1;
    const rota_tensor fit = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1), &one);
    rota_buffer *buffer = huge(&kit);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rota_tensor x = {.buffer = buffer, .dtype = cases[i].dtype, .rank = 2}, y,
                    gradient = ROTA_TENSOR_NONE;
        memcpy(x.shape, cases[i].shape, sizeof cases[i].shape);
        memcpy(x.stride, cases[i].stride, sizeof cases[i].stride);
        char stride[32];
        snprintf(stride, sizeof stride, "%llu", (unsigned long long)x.stride[0]);
        assert_true(rota_tensor_extent_bytes(&x) == INT64_MAX);
        assert_status(rota_op_exp(kit.tape, x, &y), ROTA_OUT_OF_RANGE);
        assert_message("op 'exp': input 'x' ");
        assert_message(stride);
        assert_message("buffer 'huge'");
        assert_status(rota_op_exp_into(kit.tape, x, x), ROTA_OUT_OF_RANGE);
        rota_tensor source;
        assert_ok(rota_tensor_of(buffer, 0, x.dtype, 2, (const uint64_t[]){1, 1}, &source));
        assert_ok(rota_tensor_broadcast(&source, 2, x.shape, &source));
        assert_status(rota_op_copy_into(kit.tape, source, x), ROTA_OUT_OF_RANGE);
        assert_message("destination 'y' ");
        assert_message(stride);
        assert_status(rota_backward(kit.tape, fit, &x, 1, &gradient, NULL), ROTA_OUT_OF_RANGE);
        assert_message("backward: parameter 0 ");
        assert_message(stride);
    }
    /* A slice of one: where it would begin. */
    rota_tensor x = {.buffer = buffer,
                     .dtype = ROTA_F32,
                     .rank = 1,
                     .shape = {8},
                     .stride = {(uint64_t)1 << 61}},
                y;
    for (uint64_t start = 1; start < 8; start++) {
        assert_status(rota_tensor_slice(&x, 0, start, 1, &y), ROTA_OUT_OF_RANGE);
        assert_message("2305843009213693952");
    }
    assert_ok(rota_tensor_slice(&x, 0, 0, 1, &y));
    assert_ok(rota_op_exp(kit.tape, y, &y));
    /* An offset that leaves no room, and the largest that does. */
    x = (rota_tensor){.buffer = buffer, .offset_bytes = UINT64_MAX - 3, .dtype = ROTA_F32, .rank = 0};
    assert_status(rota_op_exp(kit.tape, x, &y), ROTA_OUT_OF_RANGE);
    assert_message("18446744073709551612");
    x.offset_bytes = HUGE - 4;
    assert_ok(rota_op_exp(kit.tape, x, &y));
    /* What else a hand may get wrong. */
    x = fit;
    x.rank = ROTA_RANK_MAX + 1;
    assert_status(rota_op_exp(kit.tape, x, &y), ROTA_INVALID_ARGUMENT);
    assert_message("rank 9");
    x = fit;
    x.dtype = (rota_dtype)77;
    assert_status(rota_op_exp(kit.tape, x, &y), ROTA_INVALID_ARGUMENT);
    assert_message("dtype 77");
    x = (rota_tensor){
        .buffer = buffer, .dtype = ROTA_F32, .rank = 2, .shape = {65536, 65536}, .stride = {65536, 1}};
    assert_status(rota_op_exp(kit.tape, x, &y), ROTA_INVALID_ARGUMENT);
    assert_message("more than 4294967295 elements");
    x = fit;
    x.buffer = buffer;
    x.offset_bytes = 6;
    assert_status(rota_op_exp(kit.tape, x, &y), ROTA_MISALIGNED);
    assert_message("begins at byte 6 of buffer 'huge', expected a multiple of 4");
    op_kit_close(&kit);
}

static void call(const rota_kernel *kernel, const void *params, void *const *operands, uint32_t count) {
    const uint64_t bytes[4] = {0};
    uint64_t items, grain;
    kernel->cpu.items(params, bytes, &items, &grain);
    const rota_kernel_call call = {.operands = operands,
                                   .params = params,
                                   .end = items,
                                   .items = items,
                                   .operand_count = count,
                                   .operand_bytes = bytes};
    assert_ok(kernel->cpu.fn(&call));
}

/* Extents past 2^32 elements with strides that fit: [4, 2] of bf16 over some 12 GiB that nobody touches but
 * for these eight elements. */
static void far_elements_are_reached(void **state) {
    (void)state;
    const uint32_t stride = ((uint32_t)1 << 31) + 11;
    const uint64_t bytes = (3 * (uint64_t)stride + 2) * 2;
    uint16_t *far =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far == MAP_FAILED) skip();
    uint16_t numbers[8], dense[8] = {0}, result[16] = {0};
    for (uint32_t i = 0; i < 8; i++) element_store(ROTA_BF16, numbers, i, i + 1);
    /* Written by its strides, and read. */
    rota_copy_strided_params copy = {.count = 8, .alpha = 1, .dtype = ROTA_BF16};
    for (int d = 0; d < ROTA_KERNEL_DIMS; d++) copy.shape[d] = 1;
    copy.shape[4] = 4;
    copy.shape[5] = 2;
    copy.x_stride[4] = 2;
    copy.x_stride[5] = copy.y_stride[5] = 1;
    copy.y_stride[4] = stride;
    call(&rota_kernel_copy_strided, &copy, (void *[]){numbers, far}, 2);
    for (uint64_t i = 0; i < 8; i++) assert_int_equal(far[i / 2 * stride + i % 2], numbers[i]);
    copy.x_stride[4] = stride;
    copy.y_stride[4] = 2;
    call(&rota_kernel_copy_strided, &copy, (void *[]){far, dense}, 2);
    assert_memory_equal(dense, numbers, sizeof numbers);
    rota_binary_params binary = {.count = 8, .op = ROTA_BINARY_ADD, .dtype = ROTA_BF16};
    memcpy(binary.shape, copy.shape, sizeof binary.shape);
    memcpy(binary.b_stride, copy.x_stride, sizeof binary.b_stride);
    call(&rota_kernel_binary, &binary, (void *[]){numbers, far, result}, 3);
    for (uint64_t i = 0; i < 8; i++) assert_true(element_load(ROTA_BF16, result, i) == (double)(2 * i + 2));
    const rota_matmul_params product = {
        .m = 4,
        .n = 4,
        .k = 2,
        .lda = stride,
        .ldb = stride,
        .ldc = 4,
        .flags = ROTA_MATMUL_TRANSPOSE_B,
        .c_dtype = ROTA_BF16,
        .alpha = 1,
        .batch = {1, 1, 1},
    };
    call(&rota_kernel_matmul_bf16, &product, (void *[]){far, far, result}, 3);
    for (uint64_t i = 0; i < 16; i++) {
        const uint64_t r = i / 4, c = i % 4;
        assert_true(element_load(ROTA_BF16, result, i) ==
                    (double)((2 * r + 1) * (2 * c + 1) + (2 * r + 2) * (2 * c + 2)));
    }
    munmap(far, bytes);
}

/* A row distance that a BLAS's 32-bit integers have no room for. */
static void far_rows_are_multiplied(void **state) {
    (void)state;
    const uint32_t stride = ((uint32_t)1 << 31) + 11;
    const uint64_t bytes = (3 * (uint64_t)stride + 3) * 4;
    float *far =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far == MAP_FAILED) skip();
    for (uint64_t i = 0; i < 12; i++) far[i / 3 * stride + i % 3] = (float)i;
    for (int c = 0; c < 4; c++) {
        float y[16] = {0};
        const bool ta = c & 1, tb = c & 2; /* both [4, 3], read so that they fit */
        const uint64_t m = ta ? 3 : 4, n = tb ? 4 : 3, k = ta ? 4 : 3;
        if ((ta ? 4 : 3) != (tb ? 3 : 4)) continue;
        rota_cpu_sgemm(ta, tb, m, n, k, 1, far, stride, far, stride, 0, y, n);
        for (uint64_t i = 0; i < m * n; i++) {
            double sum = 0;
            for (uint64_t p = 0; p < k; p++) {
                const uint64_t left = ta ? p * 3 + i / n : i / n * 3 + p,
                               right = tb ? i % n * 3 + p : p * 3 + i % n;
                sum += (double)(left * right);
            }
            assert_true((double)y[i] == sum);
        }
    }
    munmap(far, bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_strides_are_refused),
        cmocka_unit_test(wide_destinations_are_refused),
        cmocka_unit_test(what_wraps_is_refused_where_it_enters),
        cmocka_unit_test(far_elements_are_reached),
        cmocka_unit_test(far_rows_are_multiplied),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
