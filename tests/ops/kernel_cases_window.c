/* The cases of convolutions and pooling: windows of every kind, among them some that see padding alone, more
 * than one tile of results, groups, and planes of one element. */
#include "tests/ops/kernel_case.h"

#define REAL(dtype, mode, count)                                                                             \
    { dtype, mode, (count), -2, 2, 0 }

static void conv_case(rota_conv_params p, rota_dtype dtype) {
    const uint32_t flags = p.flags;
    p.dtype = dtype;
    const uint64_t n = (uint64_t)p.batch * p.groups, window = (uint64_t)p.window[0] * p.window[1];
    const uint64_t wide = n * p.in_channels * p.in[0] * p.in[1],
                   narrow = n * p.out_channels * p.out[0] * p.out[1],
                   weights = (uint64_t)p.groups * p.in_channels * p.out_channels * window;
    const kernel_array x = REAL(dtype, ROTA_READ, wide), dy = REAL(dtype, ROTA_READ, narrow),
                       w = REAL(dtype, ROTA_READ, weights), y = REAL(dtype, ROTA_WRITE, narrow),
                       dx = REAL(dtype, ROTA_WRITE, wide);
    /* Sums of f32 in two orders. */
    const double in_sum = 1e-6 * (8 + (double)(p.in_channels * window)),
                 out_sum = 1e-6 * (8 + (double)(p.out_channels * window)),
                 chunk_sum = 1e-6 * (8 + (double)p.chunk);
    for (uint32_t bias = 0; bias < 2; bias++) {
        const kernel_array of_y = REAL(dtype, ROTA_READ, bias ? (uint64_t)p.groups * p.out_channels : 1),
                           of_x = REAL(dtype, ROTA_READ, bias ? (uint64_t)p.groups * p.in_channels : 1);
        p.flags = flags | (bias ? ROTA_CONV_BIAS : 0);
        CHECK(conv2d, &p, rounded(dtype, in_sum), x, w, of_y, y);
        CHECK(conv2d_backward_input, &p, rounded(dtype, out_sum), dy, w, of_x, dx);
    }
    p.flags = flags;
    const uint64_t positions = (uint64_t)p.batch * p.out[0] * p.out[1],
                   chunks = (positions + p.chunk - 1) / p.chunk;
    CHECK(conv2d_backward_weight, &p, chunk_sum, x, dy, OUT(chunks * weights));
}

void test_conv(void **state) {
    (void)state;
    const rota_conv_params cases[] = {
        /* batch, groups, channels, in, out, window, stride, padding, dilation, flags, chunk, dtype */
        {1, 1, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0, 1, 0},
        {2, 1, 3, 5, {7, 9}, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 50, 0},
        {2, 3, 2, 4, {11, 8}, {6, 3}, {3, 2}, {2, 3}, {2, 1}, {2, 1}, 0, 36, 0},
        {3, 5, 1, 2, {6, 8}, {6, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 144, 0},
        {1, 1, 70, 67, {9, 8}, {9, 8}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0, 30, 0},
        {1, 1, 2, 3, {4, 3}, {5, 10}, {2, 2}, {3, 1}, {5, 4}, {1, 1}, 0, 17, 0},
        {4, 1, 9, 65, {10, 13}, {4, 6}, {4, 3}, {2, 2}, {0, 0}, {1, 1}, 0, 40, 0},
        {2, 1, 3, 4, {1, 333}, {1, 165}, {1, 5}, {1, 2}, {0, 0}, {1, 1}, 0, 64, 0},
        {2, 3, 2, 4, {11, 8}, {6, 3}, {3, 2}, {2, 3}, {2, 1}, {2, 1}, ROTA_CONV_CHANNELS_LAST, 36, 0},
        {2, 1, 70, 67, {9, 8}, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, ROTA_CONV_CHANNELS_LAST, 100, 0},
        {1, 1, 300, 3, {5, 4}, {5, 4}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, ROTA_CONV_CHANNELS_LAST, 6, 0},
        {1,
         1,
         914,
         2,
         {5, 4},
         {3, 2},
         {3, 3},
         {1, 1},
         {0, 0},
         {1, 1},
         0,
         6,
         0}, /* few channels of long sums */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (rota_dtype dtype = ROTA_F32; dtype <= ROTA_BF16; dtype++) conv_case(cases[i], dtype);
}

void test_pool(void **state) {
    (void)state;
    const rota_pool_params cases[] = {
        /* planes, in, out, window, stride, padding, dilation, flags, dtype, channels */
        {1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0, 0, 1},
        {6, {8, 6}, {4, 3}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 0, 0, 1},
        {10, {7, 9}, {4, 9}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, ROTA_POOL_PADDED, 0, 1},
        {2, {10, 8}, {6, 4}, {3, 4}, {2, 3}, {1, 2}, {1, 1}, ROTA_POOL_PADDED, 0, 1}, /* rounded up */
        {3, {10, 8}, {6, 4}, {3, 4}, {2, 3}, {1, 2}, {1, 1}, 0, 0, 1},
        {5, {1, 37}, {1, 13}, {1, 5}, {1, 3}, {0, 2}, {1, 1}, 0, 0, 1},
        {301, {9, 11}, {2, 4}, {2, 1}, {4, 3}, {0, 0}, {1, 1}, 0, 0, 1},
        {4, {11, 12}, {7, 5}, {3, 2}, {1, 2}, {1, 1}, {3, 4}, 0, 0, 1},
        {2, {4, 4}, {1, 1}, {2, 2}, {1, 1}, {1, 1}, {5, 5}, 0, 0, 1}, /* sees padding alone */
        {2, {7, 9}, {4, 9}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, ROTA_POOL_PADDED, 0, 5},
        {3, {10, 8}, {6, 4}, {3, 4}, {2, 3}, {1, 2}, {1, 1}, 0, 0, 24},
        {2, {11, 12}, {7, 5}, {3, 2}, {1, 2}, {1, 1}, {3, 4}, 0, 0, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (rota_dtype dtype = ROTA_F32; dtype <= ROTA_BF16; dtype++) {
            rota_pool_params p = cases[i];
            p.dtype = dtype;
            const uint64_t in = (uint64_t)p.planes * p.in[0] * p.in[1] * p.channels,
                           out = (uint64_t)p.planes * p.out[0] * p.out[1] * p.channels;
            const kernel_array x = REAL(dtype, ROTA_READ, in), y = REAL(dtype, ROTA_WRITE, out),
                               dy = REAL(dtype, ROTA_READ, out), dx = REAL(dtype, ROTA_WRITE, in);
            CHECK(max_pool, &p, 0, x, y, {ROTA_I32, ROTA_WRITE, out, 0, 0, 0});
            CHECK(max_pool_backward, &p, rounded(dtype, 1e-5), dy, INDEX(out, p.in[0] * p.in[1]), dx);
            if (p.dilation[0] != 1 || p.dilation[1] != 1) continue;
            CHECK(avg_pool, &p, rounded(dtype, 1e-5), x, y);
            CHECK(avg_pool_backward, &p, rounded(dtype, 1e-5), dy, dx);
        }
}
