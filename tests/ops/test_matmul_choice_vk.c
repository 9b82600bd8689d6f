/* Which shader a product takes on a Vulkan device, and what it says of that; no device is needed. */
#include "tests/kit/support.h"

#include <string.h>
#include "graph/kernel_functions.h"
#include "ops/kernel_objects.h"
#include "ops/vk/dispatch.h"

#define ALL                                                                                                  \
    (ROTA_FEATURE_F16_STORAGE | ROTA_FEATURE_SUBGROUP_SIZE_CONTROL | ROTA_FEATURE_COOPERATIVE_MATRIX |       \
     ROTA_FEATURE_COOPERATIVE_MATRIX_BF16 | ROTA_FEATURE_COOPERATIVE_MATRIX_2)

static rota_matmul_params product(uint32_t m, uint32_t n, uint32_t k, uint32_t flags) {
    return (rota_matmul_params){.m = m,
                                .n = n,
                                .k = k,
                                .lda = flags & ROTA_MATMUL_TRANSPOSE_A ? m : k,
                                .ldb = flags & ROTA_MATMUL_TRANSPOSE_B ? k : n,
                                .ldc = n,
                                .flags = flags,
                                .c_dtype = ROTA_BF16,
                                .alpha = 1,
                                .batch = {1, 1, 1}};
}

static const char *taken(const rota_matmul_params *p, uint32_t features) {
    const rota_kernel *kernel = rota_vk_select_matmul_bf16(p, NULL, features);
    return kernel ? kernel->name : "matmul_bf16";
}

/* What counts is how far each operand reaches as it lies: 50 257 columns are many, and few rows of them. */
static void as_far_as_words_reach(void **state) {
    (void)state;
    const uint32_t wide = 50257;
    rota_matmul_params p = product(4096, wide, 768, 0);
    assert_string_equal(taken(&p, ALL), "matmul_nv_bf16");
    assert_string_equal(taken(&p, ALL & ~(uint32_t)ROTA_FEATURE_COOPERATIVE_MATRIX_2), "matmul_khr_bf16");
    p = product(4096, wide, 768, ROTA_MATMUL_TRANSPOSE_B);
    assert_string_equal(taken(&p, ALL), "matmul_nv_bf16");
    p = product(wide, 768, 4096, ROTA_MATMUL_TRANSPOSE_A);
    assert_string_equal(taken(&p, ALL), "matmul_nv_bf16");
    p = product(65536, 32768, 64, 0); /* results: 2^31 of them */
    assert_string_equal(taken(&p, ALL), "matmul_bf16_large");
    p = product(64, 32768, 65536, 0);
    p.ldc = 64; /* b: as many */
    assert_string_equal(taken(&p, ALL), "matmul_bf16");
    p = product(64, 65536, 32768, ROTA_MATMUL_TRANSPOSE_B);
    assert_string_equal(taken(&p, ALL), "matmul_bf16");
    p = product(32768, 64, 65536, ROTA_MATMUL_TRANSPOSE_A);
    assert_string_equal(taken(&p, ALL), "matmul_bf16");
}

static void what_it_says(void **state) {
    (void)state;
    char text[2048];
    rota_matmul_params p = product(4096, 50257, 768, 0);
    rota_kernel_use use = ROTA_KERNEL_USE(.kind = ROTA_EXEC_VK, .params = &p,
                                          .operand_bytes = (const uint64_t[]){1, 1, 1}, .operand_count = 3);
    use.features = ALL;
    (void)rota_kernel_matmul_bf16.functions->why(NULL, &use, text, sizeof text);
    assert_non_null(strstr(text, "runs: shader 'matmul_nv_bf16', tiles 128x128\n"));
    assert_null(strstr(text, "left out: cooperative"));
    use.features = ROTA_FEATURE_F16_STORAGE;
    (void)rota_kernel_matmul_bf16.functions->why(NULL, &use, text, sizeof text);
    assert_non_null(strstr(text, "runs: shader 'matmul_bf16_large', tiles 128x128\n"));
    assert_non_null(strstr(text, "the device has no subgroup size control, cooperative matrices of bf16\n"));
    p = product(65536, 32768, 64, 0);
    use.features = ALL;
    (void)rota_kernel_matmul_bf16.functions->why(NULL, &use, text, sizeof text);
    assert_non_null(strstr(text, "an operand has 2^31 elements or more, which they don't address\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_far_as_words_reach),
                                       cmocka_unit_test(what_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
