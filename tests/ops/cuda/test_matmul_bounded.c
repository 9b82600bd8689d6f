/* Which products and attentions a Vulkan device takes by CUDA image, and the launches, without a device. What the
 * images compute, test_products and test_shaders check on one. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <string.h>
#include "cuda/attention_half.h"
#include "cuda/matmul_bounded.h"
#include "ops/cuda/matmul_bounded.h"
#include "ops/attention.h"
#include "ops/kernel_objects.h"
#include "ops/tensor.h"

#define VK_SHARED_BYTES (47u * 1024u) /* what vk_image.c allows */

static const rota_cuda_target h200 = {
    .compute_capability = 90, .multiprocessors = 132, .shared_bytes_max = VK_SHARED_BYTES, .ordinal = -1};

static rota_matmul_params product(uint32_t m, uint32_t n, uint32_t k, rota_dtype dtype) {
    return (rota_matmul_params){.m = m,
                                .n = n,
                                .k = k,
                                .lda = (k + 7) / 8 * 8,
                                .ldb = (n + 7) / 8 * 8,
                                .ldc = (n + 7) / 8 * 8,
                                .flags = ROTA_MATMUL_ALIGNED_16,
                                .c_dtype = dtype,
                                .alpha = 1,
                                .batch = {1, 1, 1}};
}

static const rota_kernel *f16_kernel(const rota_matmul_params *p, const rota_cuda_target *target) {
    return rota_kernel_matmul_f16.vk.select_image(p, NULL, 0, target);
}

static const rota_kernel *bf16_kernel(const rota_matmul_params *p, const rota_cuda_target *target) {
    return rota_kernel_matmul_bf16.vk.select_image(p, NULL, 0, target);
}

static void expect(const rota_kernel *chosen, const char *name) {
    if (!ROTA_CUDA_HAVE_matmul_bounded) {
        assert_null(chosen);
        return;
    }
    assert_non_null(chosen);
    assert_string_equal(chosen->name, name);
    assert_string_equal(chosen->cuda.entry, name);
    assert_non_null(chosen->cuda.image);
}

static void tiles_follow_the_multiprocessors(void **state) {
    (void)state;
    rota_matmul_params p = product(2048, 2048, 2048, ROTA_F16);
    expect(f16_kernel(&p, &h200),
           "matmul_bounded_held_f16_128x256"); /* 128 blocks at once; 121 of more work each */
    p = product(3072, 3072, 3072, ROTA_F16);
    expect(f16_kernel(&p, &h200), "matmul_bounded_held_f16_192x192"); /* two rounds, not three */
    p = product(4096, 4096, 4096, ROTA_BF16);
    expect(bf16_kernel(&p, &h200), "matmul_bounded_held_bf16_128x256");
    p = product(4096, 768, 3072, ROTA_BF16);
    expect(bf16_kernel(&p, &h200), "matmul_bounded_held_bf16_128x192"); /* 128 blocks; else 96 or 88 */
    p = product(3000, 3001, 3007, ROTA_BF16); /* edges, no multiple of anything but the rows' distances */
    expect(bf16_kernel(&p, &h200), "matmul_bounded_nn_bf16_192x192");
    assert_null(rota_kernel_matmul.vk.select_image);
}

/* The gradients' products of a GPT-2 with 4096 tokens. */
static void transposed_operands_have_their_own(void **state) {
    (void)state;
    rota_matmul_params p = product(4096, 768, 3072, ROTA_BF16);
    p.flags |= ROTA_MATMUL_TRANSPOSE_B;
    p.ldb = p.k;
    expect(bf16_kernel(&p, &h200), "matmul_bounded_nt_bf16_128x192");
    p = product(4096, 50304, 768, ROTA_F16);
    p.flags |= ROTA_MATMUL_TRANSPOSE_B;
    p.ldb = p.k;
    expect(f16_kernel(&p, &h200), "matmul_bounded_nt_f16_128x256");
    p = product(768, 3072, 4096, ROTA_BF16);
    p.flags |= ROTA_MATMUL_TRANSPOSE_A;
    p.lda = p.m;
    expect(bf16_kernel(&p, &h200), "matmul_bounded_tn_bf16_128x192");
    p.flags |= ROTA_MATMUL_TRANSPOSE_B; /* both: by shader */
    p.ldb = p.k;
    assert_null(bf16_kernel(&p, &h200));
}

static void launches_cover_the_tiles(void **state) {
    (void)state;
    const uint32_t sizes[][3] = {
        {1032, 1160, 1000}, {3072, 3072, 3072}, {2104, 2120, 248}, {128, 4096, 4096}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && ROTA_CUDA_HAVE_matmul_bounded; i++) {
        rota_matmul_params p = product(sizes[i][0], sizes[i][1], sizes[i][2], ROTA_F16);
        const rota_kernel *chosen = f16_kernel(&p, &h200);
        assert_non_null(chosen);
        const bool held = strstr(chosen->name, "_held_") != NULL;
        uint32_t rows = 0, columns = 0;
        assert_int_equal(sscanf(strrchr(chosen->name, '_'), "_%ux%u", &rows, &columns), 2);
        const uint32_t tiles = ((p.m + rows - 1) / rows) * ((p.n + columns - 1) / columns);
        rota_cuda_launch launch = {0};
        chosen->cuda.launch(&p, NULL, &h200, &launch);
        assert_int_equal(launch.groups[0], tiles < 132 ? tiles : 132);
        assert_int_equal(launch.groups[1], 1);
        assert_int_equal(launch.block[0], rows / 64 * 128 + (held ? 128 : 32));
        assert_true(launch.shared_bytes <= VK_SHARED_BYTES);
        assert_true(launch.cluster[0] <= 1);
        assert_null(chosen->cuda.prepare);
        assert_null(chosen->cuda.workspace);
    }
}

static void everything_else_is_left_to_shaders(void **state) {
    (void)state;
    const rota_matmul_params good = product(2048, 2048, 2048, ROTA_F16);
    rota_matmul_params p = good;
    rota_cuda_target target = h200;
    target.compute_capability = 80;
    assert_null(f16_kernel(&good, &target));
    target.compute_capability = 100;
    assert_null(f16_kernel(&good, &target));
    target = h200;
    target.shared_bytes_max = 32 * 1024;
    assert_null(f16_kernel(&good, &target));
    for (uint32_t operand = 0; operand < 3; operand++)
        assert_null(rota_kernel_matmul_f16.vk.select_image(&good, NULL, 1u << operand, &h200));
    const uint32_t flags[] = {0, ROTA_MATMUL_TRANSPOSE_A,
                              ROTA_MATMUL_ALIGNED_16 | ROTA_MATMUL_TRANSPOSE_A | ROTA_MATMUL_TRANSPOSE_B,
                              ROTA_MATMUL_ALIGNED_16 | ROTA_MATMUL_ACCUMULATE};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        p = good;
        p.flags = flags[i];
        assert_null(f16_kernel(&p, &h200));
    }
    uint32_t *const distances[] = {&p.lda, &p.ldb, &p.ldc};
    for (size_t i = 0; i < 3; i++) {
        p = good;
        *distances[i] += 4;
        assert_null(f16_kernel(&p, &h200));
    }
    p = good;
    p.c_dtype = ROTA_F32;
    assert_null(f16_kernel(&p, &h200));
    p = good;
    p.batch[1] = 2;
    assert_null(f16_kernel(&p, &h200));
    p = good;
    p.k = 0;
    assert_null(f16_kernel(&p, &h200));
    p = product(768, 768, 768, ROTA_F16);
    assert_null(f16_kernel(&p, &h200));
    p = product(1024, 1024, 1023, ROTA_F16);
    assert_null(f16_kernel(&p, &h200));
    p = product(UINT32_C(1) << 31, 8, 8, ROTA_F16);
    assert_null(f16_kernel(&p, &h200));
}

typedef struct attention_image {
    const rota_kernel *kernel;
    void *params;
    const char *names[2]; /* f16, bf16 */
} attention_image;

/* Attention and its gradients, with dropout and without: heads of at most 64 columns. */
static void attention_of_narrow_heads(void **state) {
    (void)state;
    for (uint32_t dim = 1; dim <= 65; dim += dim == 1 ? 62 : 1)
        for (uint32_t dtype = ROTA_F32; dtype <= ROTA_BF16; dtype++) {
            const uint32_t flags = dtype << ROTA_ATTENTION_DTYPE_SHIFT;
            rota_attention_params forward = {
                .batch = 2, .heads = 3, .queries = 100, .keys = 100, .dim = dim, .flags = flags};
            rota_attention_backward_params backward = {
                .batch = 2, .heads = 3, .queries = 100, .keys = 100, .dim = dim, .flags = flags};
            rota_attention_drop_params drop = {.batch = 2,
                                               .heads = 3,
                                               .queries = 100,
                                               .keys = 100,
                                               .dim = (uint16_t)dim,
                                               .flags = (uint16_t)flags};
            rota_attention_drop_backward_params drop_backward;
            rota_attention_drop_backward_params_of(&backward, &drop_backward);
#define IMAGE(kernel, params)                                                                                \
    {                                                                                                        \
        &rota_kernel_##kernel, &(params), {                                                                  \
#kernel "_f16_bounded", #kernel "_bf16_bounded"                                                  \
        }                                                                                                    \
    }
            const attention_image images[] = {IMAGE(attention, forward),
                                              IMAGE(attention_backward_query, backward),
                                              IMAGE(attention_backward_key_value, backward),
                                              IMAGE(attention_dropout, drop),
                                              IMAGE(attention_dropout_backward_query, drop_backward),
                                              IMAGE(attention_dropout_backward_key_value, drop_backward)};
            for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
                const rota_kernel *kernel = images[i].kernel;
                rota_cuda_target target = h200;
                const rota_kernel *chosen = kernel->vk.select_image(images[i].params, NULL, 0, &target);
                const bool is_there = ROTA_CUDA_HAVE_attention_half && dtype != ROTA_F32 && dim <= 64;
                assert_int_equal(chosen != NULL, is_there);
                if (!is_there) continue;
                assert_string_equal(chosen->cuda.entry, images[i].names[dtype == ROTA_BF16]);
                assert_int_equal(chosen->operand_count, kernel->operand_count);
                assert_int_equal(chosen->param_bytes, kernel->param_bytes);
                rota_cuda_launch launch = {0};
                chosen->cuda.launch(images[i].params, NULL, &target, &launch);
                assert_int_equal(launch.groups[0], 6 * 2); /* of 64 rows */
                assert_in_range(launch.shared_bytes, 1, VK_SHARED_BYTES);
                assert_null(kernel->vk.select_image(images[i].params, NULL, 1, &target)); /* in a slot */
                target.compute_capability = 75;
                assert_null(kernel->vk.select_image(images[i].params, NULL, 0, &target));
                target = h200;
                target.shared_bytes_max = launch.shared_bytes - 1;
                assert_null(kernel->vk.select_image(images[i].params, NULL, 0, &target));
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_follow_the_multiprocessors),
        cmocka_unit_test(transposed_operands_have_their_own),
        cmocka_unit_test(launches_cover_the_tiles),
        cmocka_unit_test(everything_else_is_left_to_shaders),
        cmocka_unit_test(attention_of_narrow_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
