/* What products say of what runs them on a CUDA device, against the stand-ins for cuBLASLt and the driver. */
#include "tests/kit/support.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ops/cuda/choices.h"
#include "ops/cuda/linear_cuda.h"
#include "ops/cuda/matmul_cuda.h"
#include "ops/kernel_objects.h"
#include "tests/ops/cuda/cublaslt_standin.h"
#include "tests/ops/cuda/hopper.h"

enum { SIDE = 64 };

static float operand[3][SIDE * SIDE];

static rota_matmul_params product(uint32_t side) {
    return (rota_matmul_params){.m = side,
                                .n = side,
                                .k = side,
                                .lda = side,
                                .ldb = side,
                                .ldc = side,
                                .c_dtype = ROTA_F32,
                                .alpha = 1,
                                .batch = {1, 1, 1}};
}

static void measure(const rota_matmul_params *p, const rota_cuda_target *target) {
    const uint64_t addresses[] = {(uint64_t)(uintptr_t)operand[0], (uint64_t)(uintptr_t)operand[1],
                                  (uint64_t)(uintptr_t)operand[2]},
                   bytes[] = {sizeof operand[0], sizeof operand[1], sizeof operand[2]};
    cublaslt_standin.run_ms = 6;
    assert_ok(
        rota_matmul_choice_measure(&(rota_cuda_call){.target = target,
                                                     .stream = (void *)(uintptr_t)CUBLASLT_STANDIN_STREAM,
                                                     .operands = addresses,
                                                     .operand_bytes = bytes,
                                                     .operand_count = 3,
                                                     .params = p},
                                   ROTA_F32, NULL));
}

static const char *why(const rota_matmul_params *p, const rota_cuda_target *target, uint32_t slot_mask) {
    static char text[8192];
    const rota_kernel_use use =
        ROTA_KERNEL_USE(.kind = ROTA_EXEC_CUDA, .params = p, .operand_bytes = (const uint64_t[]){1, 1, 1},
                        .operand_count = 3, .slot_mask = slot_mask, .target = target);
    const rota_kernel_functions *functions = rota_kernel_matmul.functions;
    assert_true(rota_kernel_matmul.flags & ROTA_KERNEL_HAS_FUNCTIONS);
    const uint64_t length = functions->why(NULL, &use, text, sizeof text);
    assert_int_equal(length, strlen(text));
    /* In less room it is the beginning, and as long. */
    char begin[20];
    assert_int_equal(functions->why(NULL, &use, begin, sizeof begin), length);
    assert_int_equal(strlen(begin), sizeof begin - 1);
    assert_memory_equal(begin, text, sizeof begin - 1);
    assert_int_equal(functions->why(NULL, &use, NULL, 0), length);
    return text;
}

static void assert_says(const char *text, const char *what) {
    if (!strstr(text, what)) fail_msg("'%s' is not in:\n%s", what, text);
}

static void assert_keeps_quiet(const char *text, const char *of) {
    if (strstr(text, of)) fail_msg("'%s' is in:\n%s", of, text);
}

/* Measured here; and, by another process with the same cache folder, read from there with all that was measured. */
static void what_was_measured(void **state) {
    (void)state;
    char folder[] = "/tmp/rota-why-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    rota_cuda_target target = hopper;
    target.cache_dir = folder;
    const rota_matmul_params p = product(SIDE);
    rota_choices_forget();
    cublaslt_standin.algorithms = 3;
    measure(&p, &target);
    const char *text = why(&p, &target, 0);
    assert_says(
        text,
        "product: 64 x 64 x 64 (m, n, k) of f32, results f32, sums f32; leading dimensions 64, 64, 64\n");
    assert_says(
        text,
        "runs: cuBLASLt, algorithm 66, tile 128x256, stages number 7777, cluster 2x1x1, the sum not divided");
    assert_says(text, "why: the fastest as this process measured it\nmeasured: 3 ways");
    assert_says(text, "    2.0000 ms      0.0 TFLOP/s  cuBLASLt, algorithm 66"); /* 6 ms over 3 runs */
    assert_says(text, "left out: rota's Hopper kernels: ");
    rota_choices_forget();
    text = why(&p, &target, 0);
    assert_says(
        text,
        "why: the fastest when an earlier process measured it, from the cache folder\nmeasured: 3 ways");
    rota_choices_forget();
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a folder of the test's own */
}

/* Few tiles and a long sum: versions with their sum in parts are measured, too, by so many that each multiprocessor has
 * one or each other one, as far as there is workspace for them and parts are long enough. */
static void sums_in_parts(void **state) {
    (void)state;
    enum { WIDE = 16, K = 1024, MIB = 1 << 20 };
    static float a[WIDE * K], b[WIDE * K], workspace[8 * MIB / sizeof(float)];
    rota_matmul_params p = product(WIDE);
    p.k = p.lda = K;
    uint64_t addresses[] = {(uint64_t)(uintptr_t)a, (uint64_t)(uintptr_t)b, (uint64_t)(uintptr_t)operand[2],
                            (uint64_t)(uintptr_t)workspace},
             bytes[] = {sizeof a, sizeof b, sizeof operand[2], 6 * MIB};
    rota_cuda_target target = hopper;
    const rota_cuda_call call = {.target = &target,
                                 .stream = (void *)(uintptr_t)CUBLASLT_STANDIN_STREAM,
                                 .operands = addresses,
                                 .operand_bytes = bytes,
                                 .operand_count = 4,
                                 .params = &p};
    cublaslt_standin.algorithms = 2;
    for (uint32_t round = 0; round < 4; round++) {
        static const struct {
            uint32_t parts_most, multiprocessors;
            uint64_t bytes;
            const char *ways;
        } rounds[] = {{16, 132, 6 * MIB, "measured: 10 ways"}, /* 2, 3, 4 and 6 parts of two algorithms */
                      {16, 132, 8 * MIB, "measured: 12 ways"},
                      {1, 132, 8 * MIB, "measured: 2 ways"},
                      {16, 5, 6 * MIB, "measured: 12 ways"}};
        rota_choices_forget();
        cublaslt_standin.run_ms = 6;
        cublaslt_standin.parts_most = rounds[round].parts_most;
        target.multiprocessors = rounds[round].multiprocessors;
        bytes[3] = rounds[round].bytes;
        assert_ok(rota_matmul_choice_measure(&call, ROTA_F32, NULL));
        const char *text = why(&p, &target, 0);
        assert_says(text, rounds[round].ways);
        if (round == 0) assert_says(text, "the sum in 4 parts (reduction");
        if (round == 3) assert_says(text, "the sum in 5 parts (reduction");
        assert_keeps_quiet(text, "the sum in 16 parts");
    }
    rota_choices_forget();
}

/* Slower at the first look than the fastest by half and more, it has a look's time and no other. */
static void what_is_slow_has_a_look(void **state) {
    (void)state;
    rota_matmul_params p = product(SIDE);
    rota_matmul_report report;
    rota_choices_forget();
    cublaslt_standin.algorithms = 1;
    measure(&p, &hopper);
    const rota_matmul_origin origin = rota_matmul_choice_report(&p, ROTA_F32, &hopper, &report);
    assert_true(origin.is_known && !origin.is_read);
    assert_int_equal(report.count, 1);
    assert_true(report.candidates[0].measured.look_ms > 0 && report.candidates[0].measured.median_ms == 0);
    assert_says(why(&p, &hopper, 0), " ms  at a look only   cuBLASLt");
}

static void what_was_not_measured(void **state) {
    (void)state;
    rota_choices_forget();
    rota_matmul_params p = product(SIDE);
    const char *text = why(&p, &hopper, 0);
    assert_says(
        text, "runs: the first of cuBLASLt's heuristics that takes the operands\nwhy: nothing was measured");
    rota_cuda_target table = hopper;
    table.by_table = true;
    assert_says(why(&p, &table, 0), "why: the plan is deterministic: nothing is measured");
    rota_matmul_choice_keep(&p, ROTA_F32, &hopper, &(rota_matmul_choice){.way = ROTA_MATMUL_BY_CUBLASLT});
    text = why(&p, &hopper, 0);
    assert_says(text, "why: the first of cuBLASLt's heuristics that took the operands: nothing was measured");
    assert_keeps_quiet(text, "measured: ");
    p = product(SIDE - 1);
    text = why(&p, &hopper, 0);
    assert_says(text, "runs: rota's portable CUDA kernel 'matmul'");
    assert_says(text, "its 250047 multiplications are fewer than 262144");
    p = product(SIDE);
    p.batch[0] = p.batch[2] = 2;
    for (uint32_t i = 0; i < 3; i++)
        p.a_batch_stride[i] = p.b_batch_stride[i] = p.c_batch_stride[i] = 9999 * i + 1;
    assert_says(why(&p, &hopper, 0), "why: cuBLASLt would take its batches in several small launches");
    rota_choices_forget();
}

/* A product with its epilogue, which nothing takes: by itself, and what comes after. */
static void linear_layers(void **state) {
    (void)state;
    char text[8192];
    const rota_linear_params p = {.m = SIDE,
                                  .n = SIDE,
                                  .k = SIDE,
                                  .lda = SIDE,
                                  .ldb = SIDE,
                                  .flags = ROTA_LINEAR_BIAS | ROTA_LINEAR_GELU,
                                  .dtype = ROTA_F32,
                                  .chunk = SIDE};
    rota_choices_forget();
    rota_text_out out = {text, sizeof text, 0};
    rota_cuda_why_linear(&out, &p, &hopper);
    assert_says(text, "the product by itself:\nproduct: 64 x 64 x 64");
    assert_says(text, "left out: rota's Hopper kernel with an epilogue");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_measured), cmocka_unit_test(sums_in_parts),
                                       cmocka_unit_test(what_is_slow_has_a_look),
                                       cmocka_unit_test(what_was_not_measured),
                                       cmocka_unit_test(linear_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else /* nor has the library */
int main(void) {
    return 77;
}
#endif
